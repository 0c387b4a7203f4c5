"""`muster snapshot` and `muster replay`: a cluster to one file, and its cycle again from there, bit for bit."""

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from muster.api.documents import Limits
from muster.api.validation import ERROR
from muster.cli.cluster import CLUSTER, Loaded, load, run_cycle
from muster.cli.files import STDIN, read_bytes
from muster.cli.judging import plural, tell_skipped, tell_violations
from muster.cli.options import Server, load_config, with_cluster, with_config, with_files, with_output
from muster.cli.plan import actions_of, is_yes, moment_of, show
from muster.cli.recording import read_recording, record, world_of, written
from muster.cli.render import JSON, NAME, TABLE, WIDE, YAML, tell
from muster.config import as_document
from muster.config import load as configured
from muster.errors import UnreadableInput, UsageError
from muster.plan.outcome import ACTIONS

_PACKED = ".gz"


@click.command(epilog="Example: muster snapshot -f examples/cluster > cycle.json")
@with_files
@click.option(
    "--to", "target", metavar="FILE", help="Write there instead of to stdout; compressed when it ends in .gz."
)
@click.option("--now", metavar="TIME", help="The time of the cycle, as 2026-01-31T12:00:00Z. Default: now.")
@click.option(
    "--no-redact", "whole", is_flag=True, help="Keep all labels and annotations, and the names of containers."
)
@click.option("--no-strict", "lenient", is_flag=True, help="Do not mind unknown fields.")
@with_cluster
@with_config
@click.pass_context
def snapshot(
    ctx: click.Context,
    names: Sequence[str],
    server: Server,
    target: str | None,
    now: str | None,
    whole: bool,
    lenient: bool,
    config_file: str | None,
    flags: tuple[str, ...],
) -> None:
    """Put a cluster into one file: its objects, the moment, and the configuration. muster replay plans it again.

    The cluster is that of the files of -f, or without -f that of the current context as it is now.

    The file holds only what muster reads of an object: no images, commands or variables of containers. Labels and
    annotations that nothing refers to are left out too, unless --no-redact says otherwise; names stay. What could not
    be read is told, left out, and gives exit code 1.
    """
    found = load_config(config_file, flags)
    loaded = load(names, found.config, strict=not lenient, server=server)
    recording = record(loaded.world, moment_of(now), as_document(found.settings), redact=not whole)
    _write(written(recording, compress=bool(target and target.endswith(_PACKED))), target)
    for one in loaded.wrong:
        tell_violations(one, "has errors", only=ERROR)
    for note in loaded.notes if loaded.place == CLUSTER else ():
        tell(f"note: {note}")
    tell_skipped(loaded.checked, loaded.owners)
    counts = (
        (len(recording.nodes), "node"),
        (len(recording.pods), "pod"),
        (len(recording.pod_groups), "gang"),
    )
    tell(", ".join(plural(*count) for count in counts) + ("" if whole else "; redacted"))
    tell(f"next: muster replay {target or 'FILE'}")
    ctx.exit(1 if loaded.wrong else 0)


@click.command(epilog="Example: muster replay cycle.json -o json")
@click.argument("file")
@click.option("--actions", metavar="LIST", default=",".join(ACTIONS), show_default=True, help="What the cycle may do.")
@with_output(TABLE, JSON, YAML, NAME, WIDE)
@with_config
@click.pass_context
def replay(
    ctx: click.Context, file: str, actions: str, form: str, config_file: str | None, flags: tuple[str, ...]
) -> None:
    """Run the cycle of a snapshot file again: the same plan as muster plan made of the original, bit for bit.

    The time and the configuration are those of the file, compressed or not; - is standard input. Only how much is read
    at most (input.maxFileBytes) comes from here. Output and exit code are those of muster plan.
    """
    limits = load_config(config_file, flags).config.input
    chosen = actions_of(actions)
    loaded, now_ns = recorded(file, limits)
    made = run_cycle(loaded, now_ns, chosen)
    show(made, loaded, form)
    if form in (TABLE, WIDE):
        tell(f"next: muster replay {file} -o {'json' if form == WIDE else 'wide'}")
    ctx.exit(0 if is_yes(made, loaded) else 1)


def _write(data: bytes, target: str | None) -> None:
    if not target:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        return
    try:
        Path(target).write_bytes(data)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"can't write {target}: {reason}", "name another file") from None


def recorded(file: str, limits: Limits) -> tuple[Loaded, int]:
    """The cluster of a snapshot file, under its own configuration, and its moment. Raises UsageError."""
    try:
        recording = read_recording(read_bytes(file, limits), limits.max_file_bytes)
    except UnreadableInput as error:
        raise UsageError(f"{'standard input' if file == STDIN else file}: {error.message}", error.hint) from None
    config = configured(recording.config, file=file).config
    return Loaded(config, world_of(recording, config.scheduler_names)), recording.now_ns
