"""`muster run`: the scheduler against the cluster of a kubeconfig, or of the pod that it runs in."""

import asyncio
import gc
import os
import secrets
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple

import click

from muster import __version__
from muster.api.validation import Context
from muster.cli.cluster import policy_of
from muster.cli.installation import HTTP_PORT, NAMESPACE, WEBHOOK_PORT
from muster.cli.main import TRACEBACK_VARIABLE
from muster.cli.options import load_config, with_config
from muster.cli.serving import Address, Serving, address_of
from muster.config import Config
from muster.controllers.comparer import Comparer
from muster.controllers.grouper import GrouperLoop
from muster.controllers.leading import Leading
from muster.controllers.loop import Loop
from muster.controllers.scheduler import Scheduler
from muster.errors import Call
from muster.kube.client import Client
from muster.kube.connection import Connection
from muster.kube.events import EventRecorder
from muster.kube.kubeconfig import connect
from muster.kube.lease import Election
from muster.kube.rights import LEASE_NAME
from muster.serve.health import Check
from muster.serve.metrics import Observer, observe_call, observe_loop
from muster.telemetry import Log, Metrics

# How long an end waits for what was sent already, and for events. Others should lead within 3 s.
SETTLE_S, DRAIN_S = 1.5, 0.3
# So long a Service may still send requests to a pod that ends.
LINGER_S = 5.0
# A cycle waits for answers of the API server, and those come, or not, within minutes.
STUCK_S = 600.0
STOPPED, LOST, DEFECT = 0, 1, 70
# How many new objects, and how many such times, until the garbage collector looks.
_COLLECT = 50_000, 20, 20


class _Options(NamedTuple):
    """What the command line says."""

    namespace: str
    alone: bool
    status: Address | None
    webhook: Address | None
    # How long the webhook answers after the end.
    linger_s: float


@click.command(epilog="Example: muster run --context staging --no-leader-election")
@click.option(
    "--kubeconfig", "file", metavar="FILE", help="The kubeconfig. Default: KUBECONFIG, ~/.kube/config, the pod."
)
@click.option("--context", metavar="NAME", default="", help="The context of the kubeconfig. Default: its current one.")
@click.option(
    "--lease-namespace", metavar="NAMESPACE", default=NAMESPACE, show_default=True, help="Where the Lease is."
)
@click.option("--no-leader-election", "alone", is_flag=True, help="Do not ask for the Lease: there is only this one.")
@click.option("--listen", metavar="HOST:PORT", help="Serve /livez, /readyz and /metrics there. In a cluster: :8080.")
@click.option("--webhook", metavar="HOST:PORT", help="Serve the admission webhook there. In a cluster: :9443.")
@with_config
@click.pass_context
def run(
    ctx: click.Context,
    file: str | None,
    context: str,
    lease_namespace: str,
    alone: bool,
    listen: str | None,
    webhook: str | None,
    config_file: str | None,
    flags: tuple[str, ...],
) -> None:
    """Schedule gangs on a cluster until stopped: plan, bind, evict, and tell each PodGroup how it stands.

    Of several that run, the one that holds the Lease acts; the others stand by. Ctrl-C or SIGTERM hands over, a second
    one ends at once. Exit 1: the Lease was lost, and another one leads.
    """
    config = load_config(config_file, flags).config
    connection = connect(Path(file) if file else None, context)
    in_cluster = not connection.context
    options = _Options(
        lease_namespace,
        alone,
        address_of("--listen", listen if listen is not None else f":{HTTP_PORT}" if in_cluster else ""),
        address_of("--webhook", webhook if webhook is not None else f":{WEBHOOK_PORT}" if in_cluster else ""),
        LINGER_S if in_cluster else 0.0,
    )
    # The mirror of a cluster is a hundred thousand objects and no cycle: there is no need to look through it so often.
    gc.set_threshold(*_COLLECT)
    ctx.exit(asyncio.run(_run(connection, config, options)))


async def _run(connection: Connection, config: Config, options: _Options) -> int:
    """Until a signal comes, or the Lease is lost: then another one leads, and this process starts anew."""
    metrics = Metrics(__version__)
    log = log_of(config, metrics)
    stop = asyncio.Event()
    _obey_signals(stop, log)
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(Client(connection))
        parts = _Parts(client, config, options, metrics, log)
        world = parts.scheduler.world
        serving = Serving(client, world, config, metrics, log, is_known=lambda: parts.work.is_synced)
        beside: list[Callable[[], Coroutine[Any, Any, None]]] = []
        ready = [
            Check("watches", lambda: parts.work.sights.problem),
            Check("process", lambda: "it is about to end" if stop.is_set() else ""),
        ]
        if options.webhook is not None:
            answering = await serving.webhook(stack, options.webhook, options.namespace)
            beside += answering.beside
            ready.append(answering.check)
        if options.status is not None:
            await serving.status(stack, options.status, [Check("cycle", parts.stuck)], ready)
        where = connection.context or "in the cluster"
        log.info("scheduling", server=connection.server, context=where, version=__version__, identity=parts.identity)
        code = await parts.run(stop, beside)
        if code == STOPPED and options.webhook is not None:
            # Another one leads already; API servers learn a little later whom to ask.
            await asyncio.sleep(options.linger_s)
        return code


def log_of(config: Config, metrics: Metrics) -> Log:
    """The log of the process, as it was asked for."""

    def count(level: str) -> None:
        metrics.log_lines.labels(level).inc()

    human = {"auto": None, "json": False, "text": True}[config.log.format]
    return Log(sys.stderr, level=config.log.level, human=human, count=count)


def _obey_signals(stop: asyncio.Event, log: Log) -> None:
    """The first signal asks for an end in order; the next one ends the process as if nobody had asked."""
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGINT, signal.SIGTERM)

    def heard(number: signal.Signals) -> None:
        for one in numbers:
            loop.remove_signal_handler(one)
            signal.signal(one, signal.SIG_DFL)
        log.info("stopping", signal=number.name)
        stop.set()

    for number in numbers:
        loop.add_signal_handler(number, heard, number)


class _Parts:
    """Everything that runs, put together."""

    def __init__(self, client: Client, config: Config, options: _Options, metrics: Metrics, log: Log) -> None:
        self._client, self._metrics, self._log = client, metrics, log
        # Another name for each process: names of hosts and numbers of processes come again.
        name = secrets.token_hex(4)
        self.identity = f"{socket.gethostname()}_{name}"
        self._election = None if options.alone else Election(client, options.namespace, LEASE_NAME, self.identity)
        self._leading = Leading(self._election, log=log, metrics=metrics)
        self.scheduler = Scheduler(
            schedulers=config.scheduler_names,
            default_queue=config.default_queue,
            settings=config.validation,
            policy=policy_of(config),
            identity=name[:4],
        )
        self._events = EventRecorder(client, instance=self.identity)
        self._observer = Observer(metrics, client.clock)
        self._grouper = self._grouping(config)
        self.work = Loop(
            client,
            self.scheduler,
            may_write=self._leading.may_act,
            log=log,
            metrics=metrics,
            events=self._events,
            planned=self._observer.planned,
        )
        self._comparer = Comparer(
            client, self.scheduler, may_act=self._leading.may_act, woken=self.work.wake, log=log, metrics=metrics
        )
        client.guard = self._leading.guard
        client.observe = self._observe

    def _grouping(self, config: Config) -> GrouperLoop:
        return GrouperLoop(
            self._client,
            self.scheduler.world,
            default_queue=config.default_queue,
            limits=config.grouping.expressions,
            prefer=config.grouping.prefer,
            context=Context(default_queue=config.default_queue, settings=config.validation),
            may_write=self._leading.may_act,
            ready=lambda: self.work.sights.is_synced,
            log=self._log,
            metrics=self._metrics,
            events=self._events,
        )

    def _observe(self, call: Call, status: int, seconds: float) -> None:
        observe_call(self._metrics, call, status, seconds)
        if status:
            self.work.sights.answered()

    def stuck(self) -> str:
        """For the liveness check: a cycle that does not end."""
        began_s = self.work.cycle_began_s
        lasted_s = 0.0 if began_s is None else self._client.clock.now_s() - began_s
        return f"a cycle has been under way for {lasted_s:.0f} s" if lasted_s > STUCK_S else ""

    async def run(self, stop: asyncio.Event, beside: Iterable[Callable[[], Coroutine[Any, Any, None]]]) -> int:
        """Everything, until it is to stop or something ends; the exit code."""
        leading = self._leading.run(lambda: self.work.is_synced, self._comparer, self.work.wake)
        holding = asyncio.ensure_future(leading)
        events = asyncio.ensure_future(self._events.run())
        others: list[Coroutine[Any, Any, Any]] = [
            self.work.run(),
            self._grouper.run(),
            self._observer.run(),
            observe_loop(self._metrics, self._client.clock),
            self._comparer.run(),
            stop.wait(),
            *(work() for work in beside),
        ]
        tasks = [holding, events, *map(asyncio.ensure_future, others)]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if stop.is_set():
                await self._hand_over(events)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return self._ended(done, stop, holding)

    async def _hand_over(self, events: asyncio.Future[None]) -> None:
        """Nothing new is begun; what was sent gets a moment for its answer, before another one leads."""
        self._leading.stop()
        await self.work.settled(SETTLE_S)
        events.cancel()
        await self._events.drain(DRAIN_S)

    def _ended(self, done: Iterable[asyncio.Future[Any]], stop: asyncio.Event, holding: asyncio.Future[None]) -> int:
        failures = [task.exception() for task in done if not task.cancelled()]
        defects = [one for failure in failures if failure is not None for one in _single(failure)]
        for one in defects:
            if os.environ.get(TRACEBACK_VARIABLE):
                raise one
            self._log.error("this is a defect in muster", error=one, at=_place(one))
        if defects:
            return DEFECT
        if stop.is_set():
            self._log.info("stopped")
            return STOPPED
        assert self._election is not None
        self._log.error("the Lease was lost", leader=self._election.holder, error=self._election.last_error or "")
        return LOST


def _single(failure: BaseException) -> Iterator[BaseException]:
    """What failed, one by one."""
    if isinstance(failure, BaseExceptionGroup):
        for one in failure.exceptions:
            yield from _single(one)
    else:
        yield failure


def _place(error: BaseException) -> str:
    """Where it happened, as far as that is ours to mend."""
    frames = traceback.extract_tb(error.__traceback__)
    return " < ".join(f"{Path(one.filename).name}:{one.lineno}" for one in reversed(frames[-4:]))
