"""`muster run`: the scheduler against the cluster of a kubeconfig, or of the pod that it runs in."""

import asyncio
import gc
import os
import secrets
import signal
import socket
import sys
import traceback
from collections.abc import Iterable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple

import click

from muster import __version__
from muster.cli.cluster import policy_of
from muster.cli.installation import HTTP_PORT, NAMESPACE, WEBHOOK_PORT
from muster.cli.main import TRACEBACK_VARIABLE
from muster.cli.options import load_config, with_config
from muster.cli.serving import Address, Serving, address_of
from muster.config import Config
from muster.controllers.process import Beside, End, Process, Setup
from muster.errors import Call
from muster.kube.client import Client
from muster.kube.connection import Connection
from muster.kube.kubeconfig import connect
from muster.kube.lease import Election
from muster.kube.rights import LEASE_NAME
from muster.serve.health import Check
from muster.serve.metrics import Observer, observe_call, observe_loop
from muster.telemetry import Log, Metrics

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
        process = parts.process
        world = process.scheduler.world
        serving = Serving(client, world, config, metrics, log, is_known=lambda: process.work.is_synced)
        beside: list[Beside] = []
        ready = [
            Check("watches", lambda: process.work.sights.problem),
            Check("process", lambda: "it is about to end" if stop.is_set() else ""),
        ]
        if options.webhook is not None:
            answering = await serving.webhook(stack, options.webhook, options.namespace)
            beside += answering.beside
            ready.append(answering.check)
        if options.status is not None:
            await serving.status(stack, options.status, [Check("cycle", parts.stuck)], ready)
        where = connection.context or "in the cluster"
        log.info("scheduling", server=connection.server, context=where, version=__version__, identity=process.identity)
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
    """The process with what counts and looks at it."""

    def __init__(self, client: Client, config: Config, options: _Options, metrics: Metrics, log: Log) -> None:
        self._client, self._metrics, self._log = client, metrics, log
        # Another name for each process: names of hosts and numbers of processes come again.
        name = secrets.token_hex(4)
        identity = f"{socket.gethostname()}_{name}"
        self._observer = Observer(metrics, client.clock)
        self.process = Process(
            client,
            setup_of(config),
            identity=identity,
            name=name[:4],
            election=None if options.alone else Election(client, options.namespace, LEASE_NAME, identity),
            log=log,
            metrics=metrics,
            planned=self._observer.planned,
        )
        client.observe = self._observe

    def _observe(self, call: Call, status: int, seconds: float) -> None:
        observe_call(self._metrics, call, status, seconds)
        if status:
            self.process.work.sights.answered()

    def stuck(self) -> str:
        """For the liveness check: a cycle that does not end."""
        began_s = self.process.work.cycle_began_s
        lasted_s = 0.0 if began_s is None else self._client.clock.now_s() - began_s
        return f"a cycle has been under way for {lasted_s:.0f} s" if lasted_s > STUCK_S else ""

    async def run(self, stop: asyncio.Event, beside: Iterable[Beside]) -> int:
        """Everything, until it is to stop or something ends; the exit code."""
        observing = (self._observer.run, lambda: observe_loop(self._metrics, self._client.clock))
        ended = await self.process.run(stop, [*observing, *beside])
        for one in ended.defects:
            if os.environ.get(TRACEBACK_VARIABLE):
                raise one
            self._log.error("this is a defect in muster", error=one, at=_place(one))
        if ended.how is End.STOPPED:
            self._log.info("stopped")
        elif ended.how is End.LOST:
            election = self.process.election
            assert election is not None
            self._log.error("the Lease was lost", leader=election.holder, error=election.last_error or "")
        return {End.STOPPED: STOPPED, End.LOST: LOST, End.DEFECT: DEFECT}[ended.how]


def setup_of(config: Config) -> Setup:
    """What the configuration says of a process."""
    return Setup(
        schedulers=config.scheduler_names,
        default_queue=config.default_queue,
        validation=config.validation,
        policy=policy_of(config),
        expressions=config.grouping.expressions,
        prefer=config.grouping.prefer,
    )


def _place(error: BaseException) -> str:
    """Where it happened, as far as that is ours to mend."""
    frames = traceback.extract_tb(error.__traceback__)
    return " < ".join(f"{Path(one.filename).name}:{one.lineno}" for one in reversed(frames[-4:]))
