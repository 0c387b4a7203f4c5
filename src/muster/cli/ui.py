"""`muster ui`: the page over files, or over a cluster that is only looked at."""

import asyncio
import shlex
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from muster.cli.options import Server, input_flags, is_live, load_config, with_cluster, with_config, with_files
from muster.cli.render import say, tell
from muster.cli.showing import PORT, Showing, Where, refuse_sign_in, where_of
from muster.config import Config
from muster.errors import UsageError
from muster.telemetry import Log

if TYPE_CHECKING:
    from muster.cli.cluster import Loaded


@click.command(epilog="Example: muster ui -f examples/cluster")
@with_files
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="N",
    help=f"The port on this machine; 0: any. Default: {PORT}, or the next one that is free.",
)
@click.option("--open", "opens", is_flag=True, help="Open the page in the browser.")
@click.option("--now", metavar="TIME", help="With -f: the time of the cycle, as 2026-01-31T12:00:00Z. Default: now.")
@click.option("--no-strict", "lenient", is_flag=True, help="Do not mind unknown fields.")
@with_cluster
@with_config
@click.pass_context
def ui(
    ctx: click.Context,
    names: Sequence[str],
    port: int | None,
    opens: bool,
    now: str | None,
    lenient: bool,
    server: Server,
    config_file: str | None,
    flags: tuple[str, ...],
) -> None:
    """Show a cluster as a page: what runs where, what waits and why, queues, and what if something came too.

    Over the files of -f (a snapshot file, manifests, what kubectl get -o yaml prints), or without -f over the cluster
    of the current context, live. Nothing is ever written to a cluster. The page is on this machine only, and its
    address, which is printed, has a token in it. Ctrl-C ends it.
    """
    config = load_config(config_file, flags).config
    refuse_sign_in(config.page, "muster ui shows what you may see yourself, to whoever has the address")
    asked = Where(port=port or 0, exact=True, hosts=config.page.hosts)
    where = asked if port is not None else where_of(config.page, "on", in_pod=False) or asked
    if is_live(names, server):
        if now is not None:
            raise UsageError("--now is about files", "leave it out, or name files with -f")
        from muster.cli.onlooking import look_on

        asyncio.run(look_on(server, config, where, lambda address: _greet(address, opens)))
        return
    showing = _of_files(names, config, now, strict=not lenient)
    if showing is None:
        ctx.exit(1)
    asyncio.run(_serve(showing, where, opens))


def _of_files(names: Sequence[str], config: Config, now: str | None, *, strict: bool) -> Showing | None:
    """The page of one cycle over files, or over a snapshot file. None: nothing of it can be read, and that is said."""
    from muster.cli.asking import Asking
    from muster.cli.cluster import INPUT, load, run_cycle
    from muster.cli.files import beginning_of
    from muster.cli.noting import notes_of
    from muster.cli.plan import moment_of
    from muster.cli.recording import looks_recorded
    from muster.cli.replay import recorded
    from muster.serve.views.frame import Source

    replays = ""
    if len(names) == 1 and looks_recorded(beginning_of(names[0])):
        loaded, moment = recorded(names[0], config.input)
        moment = moment if now is None else moment_of(now)
        replays = f"muster replay {shlex.quote(names[0])} -o wide"
    else:
        loaded, moment = load(names, config, strict=strict), moment_of(now)
    _tell_wrong(loaded)
    if _is_unreadable(loaded):
        tell(f"next: muster validate {input_flags(names, Server())}")
        return None
    interfaces = [one.judgement.object for one in loaded.checked if _is_interface(one.judgement.object)]
    asking = Asking(
        loaded.config,
        loaded.world,
        flags=input_flags(names, Server()),
        place=INPUT,
        interfaces=lambda: interfaces,
        now_ns=lambda: moment,
        replays=replays,
    )
    source, log = Source("file", ", ".join(names)), Log(sys.stderr, level="warning")
    notes = notes_of(loaded, input_flags(names, Server()))
    showing = Showing(source, loaded.world, asking, notes=notes, log=log)
    showing.planned(run_cycle(loaded, moment))
    return showing


def _is_unreadable(loaded: "Loaded") -> bool:
    """Whether there are documents, and none of them is an object."""
    lost = [one for one in loaded.checked if one.judgement.object is None and not one.judgement.valid]
    # Of pods and nodes only those with errors are listed.
    return bool(lost) and len(lost) == len(loaded.checked) and not loaded.world.nodes and not loaded.world.pods


def _tell_wrong(loaded: "Loaded") -> None:
    """What there is to say about files, as `muster plan` says it, to stderr."""
    from muster.api.validation import ERROR
    from muster.cli.judging import tell_skipped, tell_violations
    from muster.cli.noting import MOST_WRONG, more_wrong

    for one in loaded.wrong[:MOST_WRONG]:
        tell_violations(one, "has errors", only=ERROR)
    for note in (*more_wrong(loaded), *loaded.notes):
        tell(f"note: {note}")
    tell_skipped(loaded.checked, loaded.owners)


def _is_interface(found: object) -> bool:
    from muster.api.interface import ResourceInterface

    return isinstance(found, ResourceInterface)


async def _serve(showing: Showing, where: Where, opens: bool) -> None:
    stop = asyncio.Event()
    obey_signals(stop)
    with Log(sys.stderr, level="warning").as_only():
        async with showing.served(where) as address:
            _greet(address, opens)
            await stop.wait()


def obey_signals(stop: asyncio.Event) -> None:
    """The first Ctrl-C or SIGTERM asks for an end in order; the next one ends the process."""
    loop, numbers = asyncio.get_running_loop(), (signal.SIGINT, signal.SIGTERM)

    def heard() -> None:
        for one in numbers:
            loop.remove_signal_handler(one)
            signal.signal(one, signal.SIG_DFL)
        stop.set()

    for number in numbers:
        loop.add_signal_handler(number, heard)


def _greet(address: str, opens: bool) -> None:
    """Where the page is, and what to do next."""
    say(address)
    tell("The page is there until Ctrl-C, for this machine alone; whoever has the address may see it.")
    if opens:
        import webbrowser

        webbrowser.open(address)
    else:
        tell("next: open the address in a browser (or: muster ui --open)")
