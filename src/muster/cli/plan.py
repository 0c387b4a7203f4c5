"""`muster plan`: one scheduling cycle over files or the live cluster, with what-ifs; decisions out, nothing written."""

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
from muster.cli.cluster import Loaded, WhatIf, load, run_before, run_cycle
from muster.cli.judging import Checked, plural, tell_skipped, tell_violations
from muster.cli.options import Server, input_flags, load_config, with_cluster, with_config, with_files, with_output
from muster.cli.picture import pictures, table, whys
from muster.cli.render import JSON, NAME, TABLE, WIDE, YAML, say, say_data, tell
from muster.cli.tables import eviction_lines, other_lines, queue_lines
from muster.decisions.others import Change, documents_of, others
from muster.decisions.plan import Bind, Decision, Evict, Nominate, decide, document_of
from muster.decisions.queues import are_told, is_short_of_quota
from muster.errors import UsageError
from muster.model.reasons import Code
from muster.plan.outcome import ACTIONS, Action, Plan, Verdict
from muster.snapshot.times import since_epoch_ns

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
@click.option("--html", metavar="FILE", help="Also write it as one page, the map and the reasons, for a browser.")
@click.option("--no-strict", "lenient", is_flag=True, help="Do not mind unknown fields.")
@with_output(TABLE, JSON, YAML, NAME, WIDE)
@with_cluster
@with_config
@click.pass_context
def plan(
    ctx: click.Context,
    names: Sequence[str],
    server: Server,
    add: Sequence[str],
    drain: Sequence[str],
    without: Sequence[str],
    now: str | None,
    actions: str,
    html: str | None,
    lenient: bool,
    form: str,
    config_file: str | None,
    flags: tuple[str, ...],
) -> None:
    """Run one scheduling cycle: which pods go where, who is evicted for whom, and why others wait.

    Over the files of -f, or without -f over the cluster of the current context as it is now. Nothing is written.

    Exits with 1 when a gang whose pods are all there stays below its minimum (with --add: one that was added), or when
    something in the input can't be read. An invalid PodGroup is held and stops nobody else. --drain cordons a node and
    lets its pods wait again; --without takes a gang (NAMESPACE/NAME) and its pods out. With any of the three, what it
    means for the other gangs is told too. With -o name: the pods that are bound, as pod/NAMESPACE/NAME; with -o wide:
    every tree node, and every queue. With --html: also a page that needs no server and fetches nothing.
    """
    config = load_config(config_file, flags).config
    chosen, moment, what_if = actions_of(actions), moment_of(now), WhatIf(add, drain, without)
    loaded = load(names, config, what_if, strict=not lenient, compare=form != NAME, server=server)
    made, before = run_cycle(loaded, moment, chosen), run_before(loaded, moment, chosen)
    changes = list(others(before, made, loaded.added, loaded.evictions)) if before is not None else None
    show(made, loaded, form, changes)
    if Action.ALLOCATE not in chosen:
        tell(f"note: no free room is given away, because {Action.ALLOCATE} is not among the actions")
    if html:
        _freeze(html, made, loaded, input_flags(names, server), what_if, _how(actions, now))
    if form in (TABLE, WIDE):
        more = "json" if form == WIDE else "wide"
        tell(f"next: {_next(made, loaded, input_flags(names, server), what_if, more, _how(actions, now))}")
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


def show(made: Plan, loaded: Loaded, form: str, changes: Sequence[Change] | None = None) -> None:
    """The plan to stdout in the form that was asked for; what there is to say about the input to stderr.

    `changes` are what a what-if means for the others; None when there is no what-if.
    """
    if form in (JSON, YAML):
        document = document_of(made, loaded.evictions)
        if changes is not None:
            document["others"] = documents_of(changes)
        if loaded.unknown:
            document["unknown"] = [one.document() for one in loaded.unknown]
        if form == JSON:
            say_json(document)
        else:
            say_data(document, YAML)
    elif form == NAME:
        for bound in decide(made):
            if isinstance(bound, Bind):
                say(f"pod/{bound.namespace}/{bound.pod}")
    else:
        _say_table(made, loaded, wide=form == WIDE)
        _say_unknown(loaded)
        _say_tables(made, loaded, changes, wide=form == WIDE)
        if made.snapshot.gangs or not (loaded.wrong or loaded.unknown):
            _tell_summary(made, decide(made, loaded.evictions))
    if form == NAME:
        for workload in loaded.unknown[:_MOST_WHYS]:
            tell(f"{workload.title}: Unknown: {workload.message}")
    _tell_wrong(loaded.wrong)
    for note in loaded.notes:
        tell(f"note: {note}")
    tell_skipped(loaded.checked, loaded.owners | {workload.kind for workload in loaded.unknown})


def tell_unread(loaded: Loaded) -> None:
    """The documents that can't be read: a gang that is not found may be in one of them."""
    _tell_wrong([one for one in loaded.wrong if not isinstance(one.judgement.object, PodGroup)])


def _tell_wrong(wrong: Sequence[Checked]) -> None:
    for one in wrong[:_MOST_WRONG]:
        tell_violations(one, "has errors", only=ERROR)
    if len(wrong) > _MOST_WRONG:
        tell(f"and {plural(len(wrong) - _MOST_WRONG, 'more object')} with errors: muster validate says everything")


def say_json(value: Any) -> None:
    """As `say_data`, for documents of which there may be hundreds of thousands of lines."""
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2))


def _say_unknown(loaded: Loaded) -> None:
    """Workloads that were added and can't be answered."""
    for one in loaded.unknown[:_MOST_WHYS]:
        say(f"{one.title}: Unknown: {one.message}", fg="yellow")
    if len(loaded.unknown) > _MOST_WHYS:
        say(f"and {plural(len(loaded.unknown) - _MOST_WHYS, 'more workload')} whose pods can't be known: -o json")


def _say_table(made: Plan, loaded: Loaded, *, wide: bool) -> None:
    if not made.snapshot.gangs:
        # What could not be read or answered says more.
        if not loaded.wrong and not loaded.unknown:
            tell(f"no gangs in {loaded.place}; muster plan --add FILE says whether a workload without pods would fit")
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


def _say_tables(made: Plan, loaded: Loaded, changes: Sequence[Change] | None, *, wide: bool) -> None:
    """Below the gangs: evictions, queues when they are asked for or hold something back, and the others."""
    sections = [eviction_lines(made, loaded.evictions)]
    if are_told(made) and (wide or any(map(is_short_of_quota, made.outcomes))):
        sections.append(queue_lines(made))
    if changes is not None:
        gangs = sum(gang.key not in loaded.added for gang in made.snapshot.gangs)
        sections.append(other_lines(changes, gangs))
    for section in sections:
        for number, text in enumerate(section):
            if number == 0:
                say()
            say(text)


def _tell_summary(made: Plan, decisions: Sequence[Decision]) -> None:
    outcomes = [one for gang, one in zip(made.snapshot.gangs, made.outcomes, strict=True) if not gang.loose]
    verdicts = Counter(outcome.verdict for outcome in outcomes)
    kinds = Counter(type(one) for one in decisions)
    said = ", ".join(f"{verdicts[verdict]:,} {verdict.value.lower()}" for verdict in Verdict if verdicts[verdict])
    actions = Counter(one.action for one in decisions if isinstance(one, Evict))
    by_action = ", ".join(f"{count:,} {action}" for action, count in sorted(actions.items()))
    tell(
        f"{plural(len(outcomes), 'gang')}{': ' + said if said else ''}; {plural(kinds[Bind], 'pod')} bound, "
        f"{kinds[Nominate]:,} nominated, {kinds[Evict]:,} evicted{f' ({by_action})' if by_action else ''}"
    )


def _freeze(file: str, made: Plan, loaded: Loaded, files: str, what_if: WhatIf, how: str) -> None:
    """The page, with commands that say the same."""
    from muster.cli.asking import Asking
    from muster.cli.freezing import freeze
    from muster.cli.noting import notes_of

    added = " ".join(filter(None, (files, _flags("--add", what_if.add))))
    more = (_flags("--drain", what_if.drain), _flags("--without", what_if.without), how)
    again = " ".join(filter(None, ("muster plan", added, *more)))
    # `muster explain` knows nothing of the other assumptions.
    asking = Asking(loaded.config, loaded.world, flags=added, place=loaded.place, replays=again if any(more) else "")
    freeze(file, made, loaded.world, asking, again, notes_of(loaded, files))


def _how(actions: str, now: str | None) -> str:
    """The options that decide what is planned, as they were given."""
    given = [] if actions == ",".join(ACTIONS) else [_flags("--actions", [actions])]
    return " ".join([*given, *([_flags("--now", [now])] if now is not None else [])])


def _next(made: Plan, loaded: Loaded, files: str, what_if: WhatIf, form: str, how: str) -> str:
    """The command that a person would want to run now."""
    from muster.cli.main import is_command

    if not made.snapshot.gangs and loaded.wrong:
        return " ".join(filter(None, ("muster validate", files, _flags("-f", what_if.add))))
    if not made.snapshot.gangs and loaded.unknown:
        return f"muster group {_flags('-f', what_if.add)}   (the gang that it becomes, without its pods)"
    assumed = [_flags("--add", what_if.add), _flags("--drain", what_if.drain), _flags("--without", what_if.without)]
    assumed.append(how)
    left = [
        (any(reason.code == Code.EVICTED for reason in outcome.reasons), "/".join(gang.key))
        for gang, outcome in zip(made.snapshot.gangs, made.outcomes, strict=True)
        if outcome.verdict is not Verdict.PLACED
    ]
    # Who still waits has more questions than who is evicted.
    waiting = [name for _, name in sorted(left)]
    if waiting and not any(assumed) and is_command("explain"):
        return f"muster explain {shlex.quote(waiting[0])} {files}".rstrip()
    if waiting or any(assumed) or "-f -" in files:
        return " ".join(part for part in ("muster plan", files, *assumed, f"-o {form}") if part)
    return " ".join(filter(None, ("muster snapshot", files, "> cycle.json   (keep this cycle, to replay it)")))


def _flags(flag: str, values: Sequence[str]) -> str:
    return " ".join(f"{flag} {shlex.quote(value)}" for value in values)


def is_yes(made: Plan, loaded: Loaded) -> bool:
    """Whether every gang that this is about has its minimum, or will once its nominated pods bind; no where that can't
    be known.

    This is about the added gangs, if there are any. Else about all whose pods are there, and about invalid ones. Who
    had its minimum and is evicted for somebody else does not stay below it: its pods are not there any more.
    """
    unreadable = any(not isinstance(one.judgement.object, PodGroup) for one in loaded.wrong)
    unreadable |= any(note.code == Code.BAD_POD for gang in made.snapshot.gangs for note in gang.notes)
    pairs = list(zip(made.snapshot.gangs, made.outcomes, strict=True))
    if loaded.unknown or loaded.ungrouped:
        return False
    added = [outcome for gang, outcome in pairs if gang.key in loaded.added]
    if added:
        return not unreadable and all(outcome.verdict is Verdict.PLACED for outcome in added)
    below = any(
        gang.ready[0] and not gang.satisfied[0] and not outcome.satisfied and outcome.verdict is not Verdict.PLACED
        for gang, outcome in pairs
    )
    return not (unreadable or below or loaded.world.invalid)
