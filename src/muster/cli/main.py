"""The entry point: the list of commands, and the one place where errors become words and exit codes."""

import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

import click

from muster import __version__
from muster.errors import MusterError

TRACEBACK_VARIABLE = "MUSTER_TRACEBACK"

# Command, where it is, what it does. The module is imported when the command runs, so that --help starts fast.
_COMMANDS = {
    "validate": ("muster.cli.objects:validate", "say everything that is wrong with objects, and how to mend it"),
    "migrate": ("muster.cli.objects:migrate", "turn older spellings of a PodGroup into the normal one"),
    "group": ("muster.cli.group:group", "turn workloads into gangs: the PodGroup of each, the SubGroup of every pod"),
    "plan": (
        "muster.cli.plan:plan",
        "run one scheduling cycle, written nowhere: what goes where, and why the rest waits",
    ),
    "explain": ("muster.cli.explain:explain", "say why a gang waits, where it comes nearest, and what would help"),
    "evict": (
        "muster.cli.evict:evict",
        "make room for a waiting gang in place of surplus of others, so that it keeps it",
    ),
    "snapshot": ("muster.cli.replay:snapshot", "put a cluster into one file, without what is nobody's business"),
    "replay": ("muster.cli.replay:replay", "run the cycle of a snapshot file again, bit for bit"),
    "simulate": (
        "muster.cli.simulate:simulate",
        "play the whole system over simulated time: a story told, or thousands of seeds searched for a broken promise",
    ),
    "ui": ("muster.cli.ui:ui", "show a cluster, or files, as a page: what runs where, what waits, why, and what if"),
    "demo": ("muster.cli.demo:demo", "see muster at work on a cluster of its own: nothing else is needed"),
    "run": ("muster.cli.run:run", "schedule gangs on a cluster until stopped"),
    "crds": ("muster.cli.install:crds", "print the CustomResourceDefinitions to install"),
    "manifests": ("muster.cli.manifests:manifests", "print everything to install muster on a cluster"),
    "doctor": ("muster.cli.doctor:doctor", "say what is missing or wrong on a cluster, and how to mend it"),
    "config": ("muster.cli.install:config", "print the effective configuration and where each value comes from"),
    "completion": ("muster.cli.install:completion", "print the completion script of a shell"),
}


def is_command(name: str) -> bool:
    """Whether there is such a command."""
    return name in _COMMANDS


class Commands(click.Group):
    """Commands by name, imported late."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, _, name = _COMMANDS[cmd_name][0].partition(":")
        command = getattr(importlib.import_module(module), name)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in _COMMANDS and not args[0].startswith("-"):
            from muster.api.nearest import Nearest

            hint = Nearest(_COMMANDS).hint(args[0]) or f"commands: {', '.join(_COMMANDS)}"
            raise click.UsageError(f"No such command '{args[0][:60]}'; {hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, says) for name, (_, says) in _COMMANDS.items()])


@click.command(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Example: muster validate -f examples --tree",
)
@click.version_option(__version__, prog_name="muster", message="%(prog)s %(version)s")
@click.option("--config", "config_file", metavar="FILE", help="The configuration file (also: MUSTER_CONFIG).")
@click.option("--set", "flags", metavar="KEY=VALUE", multiple=True, help="One value of the configuration.")
@click.pass_context
def cli(ctx: click.Context, config_file: str | None, flags: Sequence[str]) -> None:
    """A gang scheduler for Kubernetes: trees of pod groups on trees of topology domains."""
    ctx.obj = {"config_file": config_file, "flags": tuple(flags)}


def main(args: Sequence[str] | None = None) -> None:
    """Runs one command and ends the process: 0 yes, 1 no, 2 wrong usage."""
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 (until the process ends)
    if sys.stdout is None:
        _complain("standard output is closed", "the answer has nowhere to go")
        sys.exit(2)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")
    sys.exit(_run(list(args) if args is not None else None))


def _run(args: list[str] | None) -> int:
    called = PurePath(sys.argv[0]).name
    try:
        code: Any = cli.main(args, "kubectl muster" if called == "kubectl-muster" else "muster", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except MusterError as error:
        _complain(error.message, error.hint)
        return 2
    except (click.Abort, KeyboardInterrupt):
        _complain("interrupted")
        return 130
    except BrokenPipeError:
        # The reader went away (`muster … | head`): nothing is wrong, and nothing more can be said.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:
        _complain(f"can't write the output: {error.strerror}", "make room there, or write somewhere else")
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 2
    except Exception as error:
        if os.environ.get(TRACEBACK_VARIABLE):
            raise
        what = f"{type(error).__name__}: {str(error)[:200]}"
        _complain(
            f"this is a defect in muster ({what})", f"run it again with {TRACEBACK_VARIABLE}=1 and report what it says"
        )
        return 70


def _complain(message: str, hint: str = "") -> None:
    from muster.cli.render import plain

    for number, line in enumerate(message.split("\n")):
        click.echo(("muster: " if number == 0 else "") + plain(line), err=True)
    if hint:
        click.echo(f"  → {plain(hint)}", err=True)
