"""Looking on at a cluster: it is watched and planned as by one that stands by, and nothing is ever written to it."""

import asyncio
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from functools import partial

from muster.api.validation.context import Settings
from muster.cli.asking import Asking
from muster.cli.live import connected
from muster.cli.observed import setup_of
from muster.cli.options import Server
from muster.cli.render import tell
from muster.cli.showing import Showing, Where
from muster.cli.ui import obey_signals
from muster.config import Config
from muster.controllers.interfaces import Interfaces
from muster.controllers.loop import Loop
from muster.controllers.scheduler import Scheduler
from muster.errors import Call
from muster.kube.client import Client
from muster.serve.views.frame import Source
from muster.snapshot.world import World
from muster.telemetry import Log

# After so long without a first sight people are told what is in the way.
_PATIENCE_S = 5.0


async def look_on(server: Server, config: Config, where: Where, greet: Callable[[str], None]) -> None:
    """Serves the page of a live cluster until a signal comes."""
    connection = connected(server)
    log = Log(sys.stderr, level="error")
    stop = asyncio.Event()
    obey_signals(stop)
    async with AsyncExitStack() as stack:
        stack.enter_context(log.as_only())
        client = await stack.enter_async_context(Client(connection))
        client.guard = _never
        setup = setup_of(config)
        scheduler = Scheduler(
            schedulers=setup.schedulers,
            default_queue=setup.default_queue,
            settings=setup.validation or Settings(),
            priorities=setup.priorities,
            costs=setup.costs,
            policy=setup.policy,
        )
        interfaces = Interfaces(
            client, lambda: None, limits=setup.expressions, prefer=setup.prefer, may_write=lambda: False, log=log
        )
        asking = Asking(
            config, scheduler.world, flags=server.flags, home=connection.namespace, interfaces=interfaces.found
        )
        showing = Showing(
            Source("live", f"context {connection.context}"),
            scheduler.world,
            asking,
            waiting=lambda: loop.sights.problem or "the cluster was not planned yet",
            log=log,
        )
        loop = Loop(
            client,
            scheduler,
            clock=client.clock,
            may_write=lambda: False,
            looks_on=lambda: True,
            planned=showing.planned,
            log=log,
        )
        loop.begins = partial(_believe, scheduler.world)
        async with showing.served(where) as address:
            greet(address)
            await _until(stop, loop, interfaces)


def _believe(world: World, *, leads: bool) -> None:
    """Before each cycle: whether bound pods without a mark count."""
    assert not leads
    world.ask_for_marks_in_use()


async def _until(stop: asyncio.Event, loop: Loop, interfaces: Interfaces) -> None:
    """Everything that runs, until it is to stop or a defect ends it."""
    tasks = [
        asyncio.ensure_future(work)
        for work in (loop.run(asks_rights=False), interfaces.run(), _tell_trouble(loop), stop.wait())
    ]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for one in done:
            one.result()
    finally:
        for one in tasks:
            one.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _tell_trouble(loop: Loop) -> None:
    """What keeps the first sight from coming, once: somebody sits before an empty page."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_PATIENCE_S):
            while not loop.is_synced:
                await asyncio.sleep(0.1)
    if not loop.is_synced:
        tell(f"note: {loop.sights.problem}; muster doctor says what is missing, and how to mend it")
    await asyncio.Event().wait()


async def _never(call: Call) -> str:
    return f"muster ui only looks on: {call}"
