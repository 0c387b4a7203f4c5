"""The options that commands share, and the configuration that they lead to."""

import os
import shlex
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, NamedTuple, TypeVar

import click

from muster.api.documents import Limits
from muster.cli import files
from muster.config import FILE_VARIABLE, Loaded, load
from muster.errors import UsageError

Command = TypeVar("Command", bound=Callable[..., Any])


def with_config(command: Command) -> Command:
    """--config and --set, which may also stand before the command."""
    config = click.option("--config", "config_file", metavar="FILE", help="The configuration file.")
    flags = click.option("--set", "flags", metavar="KEY=VALUE", multiple=True, help="One value of the configuration.")
    return config(flags(command))


def with_files(command: Command) -> Command:
    """-f, as often as you like."""
    option = click.option(
        "-f",
        "--filename",
        "names",
        metavar="FILE",
        multiple=True,
        help="A file, a folder (with all below it), or - for standard input; can be repeated.",
    )
    return option(command)


class Server(NamedTuple):
    """Which cluster is meant; without a word, that of the current context."""

    context: str = ""
    kubeconfig: str = ""

    @property
    def flags(self) -> str:
        """The options that say so again."""
        given = (("--kubeconfig", self.kubeconfig), ("--context", self.context))
        return " ".join(f"{flag} {shlex.quote(value)}" for flag, value in given if value)


def with_cluster(command: Command) -> Command:
    """--context and --kubeconfig, which become one `server`."""

    @wraps(command)
    def run(*args: Any, context: str, kubeconfig: str, **more: Any) -> Any:
        return command(*args, server=Server(context, kubeconfig), **more)

    for name, says in (("context", "The context of the kubeconfig."), ("kubeconfig", "The kubeconfig file.")):
        run = click.option(f"--{name}", metavar="NAME" if name == "context" else "FILE", default="", help=says)(run)
    return run  # type: ignore[return-value]


def is_live(names: Sequence[str], server: Server) -> bool:
    """Whether a cluster is meant and not files. Raises UsageError when both are."""
    if names and any(server):
        flag = "--context" if server.context else "--kubeconfig"
        raise UsageError(f"-f is about files, and {flag} about a cluster", "leave one of them out")
    return not names


def input_flags(names: Sequence[str], server: Server) -> str:
    """The options that name the same input again, for the next command."""
    return " ".join(f"-f {shlex.quote(name)}" for name in names) or server.flags


def with_output(*forms: str) -> Callable[[Command], Command]:
    """-o; the first form is the default."""
    return click.option(
        "-o",
        "--output",
        "form",
        type=click.Choice(forms),
        default=forms[0],
        show_default=True,
        help="The form of the output.",
    )


def load_config(config_file: str | None, flags: tuple[str, ...]) -> Loaded:
    """The configuration from the command's options, those before it, the environment and the file."""
    before = click.get_current_context().obj or {"config_file": None, "flags": ()}
    file = config_file or before["config_file"] or os.environ.get(FILE_VARIABLE) or ""
    document = files.read_document(file, Limits()) if file else None
    return load(document, file=file, environment=os.environ, flags=(*before["flags"], *flags))
