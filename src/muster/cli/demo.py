"""`muster demo`: a cluster in this process, workloads on it, and a story whose claims are checked as they come true."""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from muster import __version__
from muster.cli.options import load_config, with_config, with_output
from muster.cli.render import JSON, TABLE
from muster.cli.story.telling import Teller
from muster.errors import UsageError

DEFAULT = "~/.muster/demo.kubeconfig"
FAST, STORY = "fast", "story"
# The time to read a chapter.
_PAUSE_S = 4.0


@click.command(epilog="Example: muster demo --once")
@click.argument("file", required=False)
@click.option("-f", "--filename", "named", metavar="FILE", help="The same as FILE.")
@click.option("--once", is_flag=True, help="End after the story: exit 0 when every claim is true, else 1.")
@click.option("--pace", type=click.Choice([STORY, FAST]), help="Time to read, or none. Default: on a terminal, story.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="The port of the API server. Default: a free one."
)
@click.option("--kubeconfig", metavar="FILE", help=f"Where the kubeconfig is written. Default: {DEFAULT}.")
@with_output(TABLE, JSON)
@with_config
@click.pass_context
def demo(
    ctx: click.Context,
    file: str | None,
    named: str | None,
    once: bool,
    pace: str | None,
    port: int,
    kubeconfig: str | None,
    form: str,
    config_file: str | None,
    flags: tuple[str, ...],
) -> None:
    """Tell a story on a cluster of its own: 64 nodes of 8 GPUs, gangs that come, wait, lose a rack and yield.

    Nothing else needs to be installed. The API server, kubelets and operators are in this process, and muster schedules
    over HTTPS as it does in a cluster. Each claim of the story is checked against the API server. At the end the
    cluster keeps running until Ctrl-C, and kubectl works with the kubeconfig that is named.

    FILE is a scenario or story file (docs/simulation.md) that is played instead: one without faults and crashes,
    which only `muster simulate` can play. With --once, -o json prints the claims as data, and the story goes to stderr.
    """
    if file and named:
        raise UsageError(f"one story at a time: {file} and -f {named}", "leave one of them out")
    if form == JSON and not once:
        raise UsageError("-o json is for a story that ends", "add --once")
    # Where the claims are data, the story is told beside them.
    teller = Teller(sys.stderr if form == JSON else sys.stdout)
    teller.progress("starting")
    # All of muster is loaded now: somebody who waits has seen something by then.
    import asyncio

    from muster.cli.showing import refuse_sign_in
    from muster.cli.story.showing import Demo, Wishes
    from muster.cli.story.tale import built_in, read_tale

    config = load_config(config_file, flags).config
    refuse_sign_in(config.page, "an embedded cluster knows no tokens to sign in with")
    chosen = file or named
    tale = read_tale(chosen, config.input) if chosen else built_in()
    slow = pace == STORY if pace else teller.is_terminal
    teller.line((f"muster {__version__} demo", {"bold": True}), " · a cluster in this process; nothing is installed")
    teller.progress("starting the control plane")
    with _kubeconfig(kubeconfig, once) as path:
        wishes = Wishes(tale, path, port, once, _PAUSE_S if slow else 0.0, form == JSON)
        ctx.exit(asyncio.run(Demo(config, wishes, teller).run()))


@contextmanager
def _kubeconfig(named: str | None, once: bool) -> Iterator[Path]:
    """Where the kubeconfig is; one that nobody can use afterwards is not left behind."""
    if named or not once:
        yield Path(named or DEFAULT).expanduser().absolute()
        return
    with tempfile.TemporaryDirectory(prefix="muster-demo-") as folder:
        yield Path(folder) / "kubeconfig"
