"""`muster plan`: one scheduling cycle over files, with what-ifs; decisions out, nothing written."""

import shlex
import time
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from itertools import islice
from typing import Any

import click
import msgspec

from muster.api.documents import shown
from muster.api.nearest import Nearest
from muster.api.podgroup import PodGroup
from muster.api.validation import ERROR
from muster.cli.cluster import ACTIONS, ALLOCATE, Loaded, WhatIf, load, run_cycle
from muster.cli.judging import plural, tell_skipped, tell_violations
from muster.cli.options import load_config, with_config, with_files, with_output
from muster.cli.picture import pictures, table, whys
from muster.cli.render import JSON, NAME, TABLE, WIDE, YAML, say, say_data, tell
from muster.decisions.plan import Bind, Decision, Evict, Nominate, decide, document_of
from muster.errors import UsageError
from muster.plan.outcome import Code, Plan, Verdict
from muster.snapshot.gangs import since_epoch_ns

_STYLES: dict[Verdict | None, dict[str, Any]] = {
    Verdict.PLACED: {"fg": "green"},
    Verdict.INFEASIBLE: {"fg": "red"},
    Verdict.UNDECIDED: {"fg": "yellow"},
    Verdict.HELD: {"fg": "yellow"},
}
# A terminal is read from the bottom up: so many pictures and sentences, then how many more there are.
_MOST_PICTURES, _MOST_WHYS = 8, 20
_MOST_WRONG = 50


@click.command(epilog="Example: muster plan -f examples/cluster --add examples/inference.yaml")
@with_files
@click.option("--add", metavar="FILE", multiple=True, help="What if this came too? A file or folder; can be repeated.")
@click.option("--drain", metavar="NODE", multiple=True, help="What if this node were drained? Can be repeated.")
@click.option("--without", metavar="GANG", multiple=True, help="What if this gang were not there? Can be repeated.")
@click.option("--now", metavar="TIME", help="The time of the cycle, as 2026-01-31T12:00:00Z. Default: now.")
@click.option("--actions", metavar="LIST", default=",".join(ACTIONS), show_default=True, help="What the cycle may do.")
@click.option("--no-strict", "lenient", is_flag=True, help="Do not mind unknown fields.")
@with_output(TABLE, JSON, YAML, NAME, WIDE)
@with_config
@click.pass_context
def plan(
    ctx: click.Context,
    names: Sequence[str],
    add: Sequence[str],
    drain: Sequence[str],
    without: Sequence[str],
    now: str | None,
    actions: str,
    lenient: bool,
    form: str,
    config_file: str | None,
    flags: tuple[str, ...],
) -> None:
    """Run one scheduling cycle over files: which pods go where, and why the others wait. Nothing is written.

    Exits with 1 when a gang whose pods are all there stays below its minimum (with --add: one that was added), or when
    something in the input can't be read. An invalid PodGroup is held and stops nobody else. --drain cordons a node and
    lets its pods wait again; --without takes a gang (NAMESPACE/NAME) and its pods out. With -o name: the pods that are
    bound, as pod/NAMESPACE/NAME; with -o wide: every tree node.
    """
    config = load_config(config_file, flags).config
    chosen, moment = actions_of(actions), moment_of(now)
    loaded = load(names, config, WhatIf(add, drain, without), strict=not lenient)
    made = run_cycle(loaded, moment, chosen)
    show(made, loaded, form)
    if ALLOCATE not in chosen:
        tell(f"note: nothing is placed, because {ALLOCATE} is not among the actions")
    if form in (TABLE, WIDE):
        tell(f"next: {_next(made, names, WhatIf(add, drain, without), 'json' if form == WIDE else 'wide')}")
    ctx.exit(0 if is_yes(made, loaded) else 1)


def actions_of(text: str) -> list[str]:
    """The actions of a list with commas. Raises UsageError for one that nobody knows."""
    found = [word.strip() for word in text.split(",") if word.strip()]
    for word in found:
        if word not in ACTIONS:
            hint = Nearest(ACTIONS).hint(word) or f"actions: {', '.join(ACTIONS)}"
            raise UsageError(f"{shown(word)} is not an action", hint)
    if not found:
        raise UsageError("--actions names none", f"actions: {', '.join(ACTIONS)}")
    return found


def moment_of(text: str | None) -> int:
    """A time as RFC 3339 has it, or this moment, in nanoseconds since 1970. Raises UsageError."""
    if text is None:
        return time.time_ns()
    try:
        found = msgspec.convert(text, datetime)
    except msgspec.ValidationError:
        found = None
    if found is None or found.tzinfo is None:
        raise UsageError(f"--now {shown(text)} is not a time", "write it as 2026-01-31T12:00:00Z")
    return since_epoch_ns(found)


def show(made: Plan, loaded: Loaded, form: str) -> None:
    """The plan to stdout in the form that was asked for; what there is to say about the input to stderr."""
    if form == JSON:
        say_json(document_of(made, loaded.evictions))
    elif form == YAML:
        say_data(document_of(made, loaded.evictions), YAML)
    elif form == NAME:
        for bound in decide(made):
            if isinstance(bound, Bind):
                say(f"pod/{bound.namespace}/{bound.pod}")
    else:
        _say_table(made, loaded, wide=form == WIDE)
    wrong = loaded.wrong
    for one in wrong[:_MOST_WRONG]:
        tell_violations(one, "has errors", only=ERROR)
    if len(wrong) > _MOST_WRONG:
        tell(f"and {plural(len(wrong) - _MOST_WRONG, 'more object')} with errors: muster validate says everything")
    for note in loaded.notes:
        tell(f"note: {note}")
    tell_skipped(loaded.checked)


def say_json(value: Any) -> None:
    """As `say_data`, for documents of which there may be hundreds of thousands of lines."""
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2))


def _say_table(made: Plan, loaded: Loaded, *, wide: bool) -> None:
    if not made.snapshot.gangs:
        tell("no gangs in the input")
    else:
        for line in table(made, wide=wide):
            say(line.text, **_STYLES.get(line.verdict, {}))
    reasons = list(whys(made))
    if reasons:
        say()
        for text in reasons[:_MOST_WHYS]:
            say(text)
        if len(reasons) > _MOST_WHYS:
            say(f"and {len(reasons) - _MOST_WHYS:,} more gangs have something to say: -o json")
    drawn = 0
    for lines in islice(pictures(made), _MOST_PICTURES):
        drawn += 1
        say()
        for text in lines:
            say(text)
    left = len({placement.gang for placement in made.placements}) - drawn
    if left > 0:
        say()
        say(f"and {plural(left, 'more gang')} placed in this cycle: -o json")
    _tell_summary(made, decide(made, loaded.evictions))


def _tell_summary(made: Plan, decisions: Sequence[Decision]) -> None:
    verdicts = Counter(outcome.verdict for outcome in made.outcomes)
    kinds = Counter(type(one) for one in decisions)
    said = ", ".join(f"{verdicts[verdict]:,} {verdict.value.lower()}" for verdict in Verdict if verdicts[verdict])
    tell(
        f"{plural(len(made.outcomes), 'gang')}{': ' + said if said else ''}; {plural(kinds[Bind], 'pod')} bound, "
        f"{kinds[Nominate]:,} nominated, {kinds[Evict]:,} evicted"
    )


def _next(made: Plan, names: Sequence[str], what_if: WhatIf, form: str) -> str:
    """The command that a person would want to run now."""
    from muster.cli.main import is_command

    files = _flags("-f", names)
    assumed = [_flags("--add", what_if.add), _flags("--drain", what_if.drain), _flags("--without", what_if.without)]
    waiting = [
        "/".join(gang.key)
        for gang, outcome in zip(made.snapshot.gangs, made.outcomes, strict=True)
        if outcome.verdict is not Verdict.PLACED
    ]
    if waiting and not any(assumed) and is_command("explain"):
        return f"muster explain {shlex.quote(waiting[0])} {files}"
    if waiting or any(assumed) or "-" in names:
        return " ".join(part for part in ("muster plan", files, *assumed, f"-o {form}") if part)
    return f"muster snapshot {files} > cycle.json   (keep this cycle, to replay it)"


def _flags(flag: str, values: Sequence[str]) -> str:
    return " ".join(f"{flag} {shlex.quote(value)}" for value in values)


def is_yes(made: Plan, loaded: Loaded) -> bool:
    """Whether every gang that this is about has its minimum, or will once its nominated pods bind.

    This is about the added gangs, if there are any. Else about all whose pods are there, and about invalid ones.
    """
    unreadable = any(not isinstance(one.judgement.object, PodGroup) for one in loaded.wrong)
    unreadable |= any(note.code == Code.BAD_POD for gang in made.snapshot.gangs for note in gang.notes)
    pairs = list(zip(made.snapshot.gangs, made.outcomes, strict=True))
    added = [outcome for gang, outcome in pairs if gang.key in loaded.added]
    if added:
        return not unreadable and all(outcome.verdict is Verdict.PLACED for outcome in added)
    below = any(
        gang.ready[0] and not outcome.satisfied and outcome.verdict is not Verdict.PLACED for gang, outcome in pairs
    )
    return not (unreadable or below or loaded.world.invalid)
