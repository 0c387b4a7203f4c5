"""`muster run`: the scheduler against the cluster of a kubeconfig, or of the pod that it runs in."""

import asyncio
import os
import secrets
import signal
import socket
import sys
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import click

from muster import __version__
from muster.api.validation import Context
from muster.cli.cluster import policy_of
from muster.cli.installation import HTTP_PORT, WEBHOOK_PORT
from muster.cli.options import load_config, with_config
from muster.cli.render import tell
from muster.cli.serving import Address, Serving, address_of
from muster.config import Config
from muster.controllers.grouper import GrouperLoop
from muster.controllers.loop import Loop
from muster.controllers.scheduler import Scheduler
from muster.kube.client import Client
from muster.kube.connection import Connection
from muster.kube.events import EventRecorder
from muster.kube.kubeconfig import connect
from muster.kube.lease import Election
from muster.serve.health import Check
from muster.serve.metrics import observe_plan
from muster.snapshot.world import World
from muster.telemetry import Log, Metrics

LEASE = "muster"
_NAMESPACE = "muster-system"


@click.command(epilog="Example: muster run --context staging --no-leader-election")
@click.option(
    "--kubeconfig", "file", metavar="FILE", help="The kubeconfig. Default: KUBECONFIG, ~/.kube/config, the pod."
)
@click.option("--context", metavar="NAME", default="", help="The context of the kubeconfig. Default: its current one.")
@click.option(
    "--lease-namespace", metavar="NAMESPACE", default=_NAMESPACE, show_default=True, help="Where the Lease is."
)
@click.option("--no-leader-election", "alone", is_flag=True, help="Do not ask for the Lease: there is only this one.")
@click.option("--listen", metavar="HOST:PORT", help="Serve /livez, /readyz and /metrics there. In a cluster: :8080.")
@click.option("--webhook", metavar="HOST:PORT", help="Serve the admission webhook there. In a cluster: :9443.")
@with_config
def run(
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

    Of several that run, the one that holds the Lease acts; the others stand by. Ctrl-C or SIGTERM hands over.
    """
    config = load_config(config_file, flags).config
    connection = connect(Path(file) if file else None, context)
    in_cluster = not connection.context
    addresses = (
        address_of("--listen", listen if listen is not None else f":{HTTP_PORT}" if in_cluster else ""),
        address_of("--webhook", webhook if webhook is not None else f":{WEBHOOK_PORT}" if in_cluster else ""),
    )
    asyncio.run(_run(connection, config, lease_namespace, alone, addresses))


async def _run(
    connection: Connection,
    config: Config,
    namespace: str,
    alone: bool,
    addresses: tuple[Address | None, Address | None],
) -> None:
    """Until a signal comes, or the Lease is lost: then another one leads, and this process starts anew."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(Client(connection))
        identity = f"{socket.gethostname()}-{os.getpid()}"
        election = None if alone else Election(client, namespace, LEASE, identity)
        metrics = Metrics(__version__)
        events = EventRecorder(client, instance=identity)
        work, grouper, world = _loops(client, config, election.is_leader if election else _always, metrics, events)
        serving = Serving(client, world, config, metrics, Log(sys.stderr))
        beside: list[Coroutine[Any, Any, None]] = []
        if addresses[0] is not None:
            ready = Check("watches", lambda: "" if work.is_synced else "not everything was listed yet")
            await serving.status(stack, addresses[0], [ready])
        if addresses[1] is not None:
            beside += await serving.webhook(stack, addresses[1], namespace)
        tell(f"muster: scheduling on {connection.server} ({connection.context or 'in the cluster'})")
        tasks = [asyncio.create_task(one) for one in (work.run(), grouper.run(), events.run(), _stopped(stop), *beside)]
        if election is not None:
            tasks.append(asyncio.create_task(_lead(election, work)))
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in done:
            task.result()
    tell("muster: stopped" if stop.is_set() else "muster: the Lease was lost; another one leads")


def _loops(
    client: Client, config: Config, may_write: Callable[[], bool], metrics: Metrics, events: EventRecorder
) -> tuple[Loop, GrouperLoop, World]:
    """The loops that act, and the world that they share."""
    scheduler = Scheduler(
        schedulers=config.scheduler_names,
        default_queue=config.default_queue,
        settings=config.validation,
        policy=policy_of(config),
        identity=secrets.token_hex(2),
    )
    grouper = GrouperLoop(
        client,
        scheduler.world,
        default_queue=config.default_queue,
        limits=config.grouping.expressions,
        prefer=config.grouping.prefer,
        context=Context(default_queue=config.default_queue, settings=config.validation),
        may_write=may_write,
        notice=tell,
    )
    observe = partial(observe_plan, metrics)
    work = Loop(
        client,
        scheduler,
        may_write=may_write,
        log=Log(sys.stderr),
        metrics=metrics,
        events=events,
        seen=grouper.wake,
        planned=observe,
    )
    return work, grouper, scheduler.world


async def _stopped(stop: asyncio.Event) -> None:
    await stop.wait()


def _always() -> bool:
    return True


async def _lead(election: Election, work: Loop) -> None:
    """Holds the Lease, and says so."""
    holding = asyncio.create_task(election.run())
    try:
        waiting = asyncio.create_task(election.elected())
        await asyncio.wait([holding, waiting], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if election.is_leader():
            tell(f"muster: leading as {election.identity}")
            work.wake()
        await holding
    finally:
        holding.cancel()
        await asyncio.gather(holding, return_exceptions=True)
