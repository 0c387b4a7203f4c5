"""`muster simulate`: the whole system over simulated time: one story told, many files played, or seeds searched."""

from collections.abc import Sequence
from pathlib import Path

import click

from muster.cli import files
from muster.cli.options import with_files, with_output
from muster.cli.render import JSON, NAME, TABLE, WIDE, YAML, tell
from muster.errors import UsageError

_EXAMPLE = "Example: muster simulate --seed 7 --html story.html"
_TRIES = "How often a failing story is played to make it smaller; 0: not at all."


@click.command(epilog=_EXAMPLE)
@with_files
@click.option("--seed", metavar="N", type=click.IntRange(0), help="The story that is drawn from this number.")
@click.option("--seeds", metavar="N|A..B", help="Search the stories of the first N seeds, or of seeds A to B.")
@click.option("--write", "write_to", metavar="FILE", help="Write the story of --seed as YAML, and do not play it.")
@click.option("--html", metavar="FILE", help="Also write the story as one page: lanes, map and reasons.")
@click.option("-q", "--quiet", is_flag=True, help="The report without the timeline.")
@click.option("--workers", metavar="N", type=click.IntRange(1, 64), help="Processes of a search. Default: one per CPU.")
@click.option("--tries", metavar="N", type=click.IntRange(0), default=150, show_default=True, help=_TRIES)
@click.option("--save", "folder", metavar="FOLDER", default=".", show_default=True, help="Where small stories are put.")
@click.option("--write-report", "report_to", metavar="FILE", help="Put the figures of --seeds into this Markdown file.")
@with_output(TABLE, JSON, YAML, NAME, WIDE)
@click.pass_context
def simulate(
    ctx: click.Context,
    names: Sequence[str],
    seed: int | None,
    seeds: str | None,
    write_to: str | None,
    html: str | None,
    quiet: bool,
    workers: int | None,
    tries: int,
    folder: str,
    report_to: str | None,
    form: str,
) -> None:
    """Play a story in virtual time: the real controllers on the embedded API server, with faults as the story says.

    One file of -f, or --seed, is told: what people did, what muster did, what went wrong, and then a report. Several
    files (or a folder) are one line each. --seeds plays many drawn stories in worker processes; a failing one is played
    again and again to make it smaller, and what is left is written to a file.

    A scenario file (as in tests/scenarios) is played step by step; what a step expects is compared with the state that
    the cluster settles in. The invariants must hold on the way, whatever the file expects.

    Exits with 1 when an expectation or an invariant does not hold. With -o wide: every pod by itself; with -o name: the
    rules that were broken; of several files, or of seeds, those that failed.
    """
    if [bool(names), seed is not None, seeds is not None].count(True) != 1:
        raise UsageError("name one of -f FILE, --seed N and --seeds N", "for example: muster simulate --seed 7")
    if seeds is not None:
        if html or write_to:
            raise UsageError("--html and --write are about one story", "name it with -f or --seed")
        from muster.cli import seeds as search

        ctx.exit(search.run(search.seeds_of(seeds), workers, tries, Path(folder), form, report_to))
    if report_to:
        raise UsageError("--write-report is about many seeds", "add --seeds 20000")
    if html and write_to:
        raise UsageError("--write does not play the story: there is nothing to draw", "leave --write or --html out")
    if html:
        files.check_writable(html)
    from muster.cli import stories

    found = list(files.files_of(names))
    if write_to is not None:
        if seed is None:
            raise UsageError("--write is about the story of a seed", "name it with --seed")
        stories.write(stories.drawn(seed), write_to)
        tell(f"next: muster simulate -f {write_to}")
    elif len(found) > 1 and html:
        raise UsageError("--html is about one story", "name one file")
    elif len(found) > 1:
        ctx.exit(stories.tell_all(found, form))
    else:
        named = stories.read(found[0]) if seed is None else stories.drawn(seed)
        ctx.exit(0 if stories.tell_one(named, form, quiet=quiet, html=html) else 1)
