"""`muster explain`: why a gang waits, where it comes nearest, and what was tried and would help."""

import shlex
from collections.abc import Iterator, Sequence
from typing import Any

import click

from muster.api.tree import NONE, count_in_words
from muster.cli.cluster import WhatIf, gang_meant, load, policy_of, run_cycle
from muster.cli.options import load_config, with_config, with_files, with_output
from muster.cli.plan import moment_of
from muster.cli.render import JSON, TABLE, YAML, columns, say, say_data, sayable, signs, tell
from muster.decisions.explanation import Explanation, document_of
from muster.decisions.explanation import explain as put_together
from muster.decisions.plan import core_rows, domain_of
from muster.decisions.words import foremost, sentence, told
from muster.plan.outcome import Plan, Verdict
from muster.plan.remedies import remedies
from muster.snapshot.arrays import Snapshot

_STYLES: dict[Verdict, dict[str, Any]] = {
    Verdict.PLACED: {"fg": "green"},
    Verdict.INFEASIBLE: {"fg": "red"},
    Verdict.UNDECIDED: {"fg": "yellow"},
    Verdict.HELD: {"fg": "yellow"},
}
_BAR = 16
_MOST_PLACES, _MOST_ROWS, _MOST_REASONS = 3, 60, 8


@click.command(epilog="Example: muster explain default/nightly -f examples/cluster")
@click.argument("name", metavar="NAMESPACE/NAME")
@with_files
@click.option("--add", metavar="FILE", multiple=True, help="What if this came too? A file or folder; can be repeated.")
@click.option("--now", metavar="TIME", help="The time of the cycle, as 2026-01-31T12:00:00Z. Default: now.")
@click.option("--no-strict", "lenient", is_flag=True, help="Do not mind unknown fields.")
@with_output(TABLE, JSON, YAML)
@with_config
@click.pass_context
def explain(
    ctx: click.Context,
    name: str,
    names: Sequence[str],
    add: Sequence[str],
    now: str | None,
    lenient: bool,
    form: str,
    config_file: str | None,
    flags: tuple[str, ...],
) -> None:
    """Say why a gang waits: what was checked, its tree, the proof, the nearest domains, and what would help.

    One cycle is run over the files, as by `muster plan`. Every change that is proposed was run through the engine and
    makes the gang fit. Exits with 0 when the gang's minimum is placed, else with 1.
    """
    config = load_config(config_file, flags).config
    loaded = load(names, config, WhatIf(add=add), strict=not lenient)
    key = gang_meant(name, loaded.world.groups)
    made = run_cycle(loaded, moment_of(now))
    number = next(at for at, gang in enumerate(made.snapshot.gangs) if gang.key == key)
    found = put_together(made, number, remedies(made, number, policy_of(config)))
    if form in (JSON, YAML):
        say_data(document_of(found, made.snapshot), form)
    else:
        _say(found, made)
        tell(f"next: {_next(found, names, add)}")
    ctx.exit(0 if found.outcome.verdict is Verdict.PLACED else 1)


def _say(found: Explanation, made: Plan) -> None:
    outcome = found.outcome
    first = foremost(outcome)
    title = " · ".join(["/".join(found.gang.key), outcome.verdict.value, *([first.reason.code] if first else [])])
    say(sayable(title), bold=True, **_STYLES[outcome.verdict])
    say(sayable(f"  {found.message}"))
    say()
    say(sayable("  " + "   ".join(f"{_tick(check.good)} {check.says}" for check in found.checks)))
    say()
    for line in _tree(found, made.snapshot):
        say(f"  {sayable(line)}")
    for section in (_others(found, made.snapshot), _proof(found), _places(found), _helps(found)):
        lines = list(section)
        if lines:
            say()
            for line in lines:
                say(sayable(line))


def _tick(good: bool | None) -> str:
    if good is None:
        return "-"
    good_sign, bad_sign = ("✓", "✗") if sayable("✓") == "✓" else ("ok", "NO")
    return good_sign if good else bad_sign


def _tree(found: Explanation, snapshot: Snapshot) -> Iterator[str]:
    """One line a tree node: have, minimum, total, where; what is not needed hangs on dashed lines, core is marked."""
    gang, outcome, sign = found.gang, found.outcome, signs()
    nodes, chosen = gang.tree.nodes, core_rows(gang, outcome)
    leads = [""] * len(nodes)
    rows: list[tuple[str, ...]] = [("", "HAVE", "MINIMUM", "TOTAL", "", "DOMAIN")]
    for row, node in enumerate(nodes[:_MOST_ROWS]):
        label = "/".join(gang.key)
        if node.parent != NONE:
            parent = nodes[node.parent]
            last, maybe = row == parent.children[-1], parent.minimum < len(parent.children)
            branch = sign[("maybe" if maybe else "item") if not last else ("maybe_last" if maybe else "last")]
            leads[row] = leads[node.parent] + (" " * len(sign["through"]) if last else sign["through"])
            label = leads[node.parent] + branch + node.name
        needs = count_in_words(node) if node.children else f"{node.minimum:,}"
        state = "satisfied" if outcome.rows[row].satisfied else "below minimum"
        state += ", core" if chosen[row] and outcome.rows[row].satisfied else ""
        counts = outcome.rows[row]
        where = domain_of(counts, snapshot) or "-"
        wish = {True: "", False: " (preference not met)", None: ""}[counts.preferred_met]
        rows.append((label, f"{counts.placed:,}", needs, f"{counts.total:,}", state, where + wish))
    yield from columns(rows)
    if len(nodes) > _MOST_ROWS:
        yield f"… {len(nodes) - _MOST_ROWS:,} more: -o json"


def _others(found: Explanation, snapshot: Snapshot) -> Iterator[str]:
    """Reasons beside the first: surplus that waits, pods set aside."""
    first = foremost(found.outcome)
    rest = [one for one in told(found.outcome) if one != first]
    if rest:
        yield "  also"
        for one in rest[:_MOST_REASONS]:
            yield f"    {one.reason.code}: {sentence(one.reason, found.gang, snapshot, one.others)}"
        if len(rest) > _MOST_REASONS:
            yield f"    and {len(rest) - _MOST_REASONS:,} more: -o json"


def _proof(found: Explanation) -> Iterator[str]:
    if found.proof:
        yield "  proof"
        yield f"    {found.proof}"


def _places(found: Explanation) -> Iterator[str]:
    if not found.places:
        return
    yield "  nearest"
    rows = []
    for one in found.places[:_MOST_PLACES]:
        full = one.best * _BAR // max(one.asked, 1)
        bar = "█" * full + "░" * (_BAR - full)
        held = f"held by {', '.join(one.holders)}" if one.holders else ""
        who = f"for {one.sub_group}" if one.sub_group else ""
        rows.append((f"    {one.where}", bar, f"{one.best:,} of {one.asked:,}", who, held))
    yield from columns(rows)


def _helps(found: Explanation) -> Iterator[str]:
    if not found.helps:
        if found.outcome.verdict is Verdict.INFEASIBLE:
            yield "  no single change that was tried would make it fit"
        return
    yield "  would fix it (each one was tried)"
    for at, one in enumerate(found.helps, start=1):
        yield f"    {at}  {one.says}"
        if one.command:
            yield f"         {one.command}"


def _next(found: Explanation, names: Sequence[str], add: Sequence[str]) -> str:
    files = " ".join([*(f"-f {shlex.quote(name)}" for name in names), *(f"--add {shlex.quote(name)}" for name in add)])
    if found.outcome.verdict is Verdict.PLACED:
        return f"muster plan {files} -o wide"
    return f"muster explain {shlex.quote('/'.join(found.gang.key))} {files} -o json"
