"""`muster run`: the scheduler against the cluster of a kubeconfig, of the pod that it runs in, or of this process."""

import asyncio
import gc
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import click

from muster import __version__
from muster.cli.installation import HTTP_PORT, NAMESPACE, WEBHOOK_PORT
from muster.cli.observed import STOPPED, Observed, Place, code_of, log_of
from muster.cli.options import Server, load_config, with_config
from muster.cli.render import say
from muster.cli.serving import Address, Serving, address_of
from muster.cli.showing import Where, refuse_sign_in, showing_of, where_of
from muster.config import Config
from muster.errors import UsageError
from muster.kube.client import Client
from muster.kube.connection import Connection
from muster.kube.kubeconfig import connect
from muster.serve.health import Check
from muster.serve.page.callers import ClusterCallers
from muster.serve.views.frame import Source
from muster.telemetry import Log, Metrics

# So long a Service may still send requests to a pod that ends.
LINGER_S = 5.0
# How many new objects, and how many such times, until the garbage collector looks.
_COLLECT = 50_000, 20, 20
# What opens a place, given the log and the metrics of the process.
Opens = Callable[[Log, Metrics], AbstractAsyncContextManager[Place]]


class Options(NamedTuple):
    """What the command line says of any place."""

    # Where the Lease is; nothing: there is none.
    lease_namespace: str
    status: Address | None = None
    # Where the webhook is served, and the namespace of its Service and of EvictionRequests.
    webhook: Address | None = None
    namespace: str = NAMESPACE
    # How long the webhook answers after the end.
    linger_s: float = 0.0
    # Where the page is, and the options that name the cluster in its commands.
    page: Where | None = None
    flags: str = ""


@click.command(epilog="Example: muster run --context staging, or: muster run --embedded")
@click.option(
    "--kubeconfig",
    "file",
    metavar="FILE",
    help="The kubeconfig. Default: KUBECONFIG, ~/.kube/config, the pod. With --embedded: where one is written, "
    "~/.muster/kubeconfig.",
)
@click.option("--context", metavar="NAME", default="", help="The context of the kubeconfig. Default: its current one.")
@click.option(
    "--lease-namespace", metavar="NAMESPACE", default=NAMESPACE, show_default=True, help="Where the Lease is."
)
@click.option("--no-leader-election", "alone", is_flag=True, help="Do not ask for the Lease: there is only this one.")
@click.option("--listen", metavar="HOST:PORT", help="Serve /livez, /readyz and /metrics there. In a cluster: :8080.")
@click.option("--webhook", metavar="HOST:PORT", help="Serve the admission webhook there. In a cluster: :9443.")
@click.option(
    "--page",
    metavar="HOST:PORT|off",
    help="Serve the page there. Default: 127.0.0.1:8420 or the next free port; in a cluster, and with off, nowhere.",
)
@click.option("--embedded", is_flag=True, help="Bring a cluster along: an API server in this process, and nodes.")
@click.option("--data", metavar="FILE", help="Keep the embedded cluster in this file. Default: in memory.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="N",
    help="The port of the embedded API server. Default: a free one.",
)
@click.option(
    "--nodes",
    type=click.IntRange(0, 1000),
    metavar="N",
    help="Nodes for an embedded cluster that has none. Default: 8 for a new one.",
)
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
    page: str | None,
    embedded: bool,
    data: str | None,
    port: int | None,
    nodes: int | None,
    config_file: str | None,
    flags: tuple[str, ...],
) -> None:
    """Schedule gangs on a cluster until stopped: plan, bind, evict, and tell each PodGroup how it stands.

    Of several that run, the one that holds the Lease acts; the others stand by. Ctrl-C or SIGTERM hands over, a second
    one ends at once. Exit 1: the Lease was lost, and another one leads.

    With --embedded nothing needs to be installed: bound pods run, Jobs and StatefulSets make pods, and kubectl works
    with the kubeconfig that is written. The cluster ends with the process, unless --data keeps it.
    """
    config = load_config(config_file, flags).config
    lease = "" if alone else lease_namespace
    opens: Opens
    if embedded:
        from muster.cli.claim import short
        from muster.cli.playground import DEFAULT, Wishes, embedded_place

        for option, given in (("--context", context), ("--webhook", webhook)):
            if given:
                raise UsageError(f"{option} has no meaning with --embedded", "leave one of them out")
        where = where_of(config.page, page, in_pod=False)
        if where is not None:
            refuse_sign_in(config.page, "an embedded cluster knows no tokens to sign in with")
        named = f"--kubeconfig {short(Path(file or DEFAULT).expanduser().absolute())}"
        options = Options(
            lease, address_of("--listen", listen or ""), namespace=lease_namespace, page=where, flags=named
        )
        wishes = Wishes(file or DEFAULT, data, port or 0, nodes, lease_namespace)
        opens = partial(embedded_place, config, wishes)
    else:
        for option, value in (("--data", data), ("--port", port), ("--nodes", nodes)):
            if value is not None:
                raise UsageError(f"{option} is about an embedded cluster", f"leave {option} out, or add --embedded")
        connection = connect(Path(file) if file else None, context)
        options = _options(connection, lease, lease_namespace, listen, webhook)
        where = where_of(config.page, page, in_pod=connection.in_pod)
        options = options._replace(page=where, flags=Server(context, file or "").flags)
        opens = partial(_connected, connection)
    # The mirror of a cluster is a hundred thousand objects and no cycle: there is no need to look through it so often.
    gc.set_threshold(*_COLLECT)
    ctx.exit(asyncio.run(_run(opens, config, options)))


def _options(connection: Connection, lease: str, namespace: str, listen: str | None, webhook: str | None) -> Options:
    """What is served where; in a pod that is known without a word."""
    usual = (f":{HTTP_PORT}", f":{WEBHOOK_PORT}") if connection.in_pod else ("", "")
    return Options(
        lease,
        address_of("--listen", usual[0] if listen is None else listen),
        address_of("--webhook", usual[1] if webhook is None else webhook),
        namespace,
        LINGER_S if connection.in_pod else 0.0,
    )


@asynccontextmanager
async def _connected(connection: Connection, *_: Log | Metrics) -> AsyncIterator[Place]:
    """A cluster that is there."""
    async with Client(connection) as client:
        yield Place(client)


async def _run(opens: Opens, config: Config, options: Options) -> int:
    """Until a signal comes, or the Lease is lost: then another one leads, and this process starts anew."""
    metrics = Metrics(__version__)
    log = log_of(config, metrics)
    stop = asyncio.Event()
    _obey_signals(stop, log)
    async with AsyncExitStack() as stack:
        stack.enter_context(log.as_only())
        place = await stack.enter_async_context(opens(log, metrics))
        lease, namespace = options.lease_namespace, options.namespace
        observed = Observed(place.client, config, lease, log=log, metrics=metrics, requests_in=namespace)
        process = observed.process
        world = process.scheduler.world
        serving = Serving(place.client, world, config, metrics, log, is_known=lambda: process.work.is_synced)
        beside = list(place.beside)
        ready = [
            Check("watches", lambda: process.work.sights.problem),
            Check("process", lambda: "it is about to end" if stop.is_set() else ""),
        ]
        if options.webhook is not None:
            answering = await serving.webhook(stack, options.webhook, options.namespace)
            beside += answering.beside
            ready.append(answering.check)
        if options.status is not None:
            await serving.status(stack, options.status, [Check("cycle", observed.stuck)], ready)
        # Who greets has all that was asked for.
        address = await _show(stack, observed, config, options, log) if options.page is not None else ""
        place.greet()
        if address:
            say(f"The page: {address}")
            log.info("the page is served", address=address.partition("#")[0])
        connection = place.client.connection
        where = {"server": connection.server, "context": connection.context}
        log.info("scheduling", **where, version=__version__, identity=process.identity)
        code = code_of(await observed.run(stop, beside))
        if code == STOPPED and options.webhook is not None:
            # Another one leads already; API servers learn a little later whom to ask.
            await asyncio.sleep(options.linger_s)
        return code


async def _show(stack: AsyncExitStack, observed: Observed, config: Config, options: Options, log: Log) -> str:
    """The page, until the stack unwinds. Its address has a token in it: it is for printing, and never logged."""
    assert options.page is not None
    connection = observed.client.connection
    by_rights = connection.in_pod or config.page.sign_in == "cluster"
    callers = ClusterCallers(observed.client) if by_rights else None
    source = Source("live", f"context {connection.context}")
    showing = showing_of(observed, config, source, flags=options.flags, callers=callers, log=log)
    try:
        return await stack.enter_async_context(showing.served(options.page))
    except UsageError as error:
        if options.page.exact:
            raise
        # Nobody asked for it.
        log.warning("the page is not served", error=error.message)
        return ""


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
