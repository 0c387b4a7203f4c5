"""The options that commands share, and the configuration that they lead to."""

import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

from muster.api.documents import Limits
from muster.cli import files
from muster.config import FILE_VARIABLE, Loaded, load

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
