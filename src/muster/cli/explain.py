"""`muster explain`: why a gang waits, where it comes nearest, and what was tried and would help."""

import shlex
from collections.abc import Iterator, Sequence
from typing import Any

import click

from muster.api.tree import NONE, count_in_words
from muster.cli.cluster import Loaded, WhatIf, gang_meant, load, policy_of, run_cycle
from muster.cli.options import load_config, with_config, with_files, with_output
from muster.cli.plan import moment_of
from muster.cli.render import JSON, TABLE, YAML, columns, say, say_data, sayable, signs, tell
from muster.decisions.explanation import Explanation, Leaving, document_of
from muster.decisions.explanation import explain as put_together
from muster.decisions.plan import core_rows, domain_of
from muster.decisions.words import foremost, sentence, told
from muster.plan.outcome import Code, Plan, Verdict
from muster.plan.remedies import remedies
from muster.snapshot.arrays import Snapshot
from muster.snapshot.world import State

_STYLES: dict[Verdict, dict[str, Any]] = {
    Verdict.PLACED: {"fg": "green"},
    Verdict.INFEASIBLE: {"fg": "red"},
    Verdict.UNDECIDED: {"fg": "yellow"},
    Verdict.HELD: {"fg": "yellow"},
}
_BAR = 16
_MOST_PLACES, _MOST_ROWS, _MOST_REASONS, _MOST_WAITS, _MOST_PODS = 3, 60, 8, 8, 4


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
    found = put_together(made, number, remedies(made, number, policy_of(config)), _leaving(loaded))
    if form in (JSON, YAML):
        say_data(document_of(found, made.snapshot), form)
    else:
        _say(found, made)
        tell(f"next: {_next(found, names, add)}")
    ctx.exit(0 if found.outcome.verdict is Verdict.PLACED else 1)


def _leaving(loaded: Loaded) -> list[Leaving]:
    """The pods that terminate, by name: a snapshot only has the sum of what they hold."""
    return [
        Leaving("/".join(key), facts.pod.spec.node_name, frozenset(facts.request))
        for key, facts in loaded.world.pods.items()
        if facts.state is State.TERMINATING
    ]


def _say(found: Explanation, made: Plan) -> None:
    outcome = found.outcome
    say(sayable(_title(found)), bold=True, **_STYLES[outcome.verdict])
    for line in found.message.split(" · "):
        say(sayable(f"  {line}"))
    say()
    say("  " + "   ".join(f"{_tick(check.good)} {check.says}" for check in found.checks))
    sections = (
        *(_tree(found, made.snapshot), _waits(found), _others(found, made.snapshot)),
        *(_proof(found), _places(found), _helps(found)),
    )
    for section in sections:
        lines = list(section)
        if lines:
            say()
            for line in lines:
                say(sayable(line))


def _title(found: Explanation) -> str:
    """The gang, the verdict and the foremost reason; what waits beyond the minimum is named."""
    parts = ["/".join(found.gang.key), found.outcome.verdict.value]
    first = foremost(found.outcome)
    if first is not None and first.reason.surplus:
        parts.append(f"{found.gang.tree.nodes[first.reason.row].name or 'surplus'} waits: {first.reason.code}")
    elif first is not None:
        parts.append(first.reason.code)
    return " · ".join(parts)


def _tick(good: bool | None) -> str:
    if good is None:
        return "-"
    good_sign, bad_sign = ("✓", "✗") if signs()["arrow"] == "→" else ("ok", "NO")
    return good_sign if good else bad_sign


def _tree(found: Explanation, snapshot: Snapshot) -> Iterator[str]:
    """One line a tree node: have, minimum, total, where; what is not needed hangs on dashed lines, core is marked."""
    gang, outcome, sign = found.gang, found.outcome, signs()
    if any(reason.code == Code.INVALID for reason in outcome.reasons):
        # Nobody knows what is meant.
        return
    nodes, chosen = gang.tree.nodes, core_rows(gang, outcome)
    leads = [""] * len(nodes)
    rows: list[tuple[str, ...]] = [("", "HAVE", "MINIMUM", "TOTAL", "STATE", "DOMAIN")]
    for row, node in enumerate(nodes[:_MOST_ROWS]):
        label = "/".join(gang.key)
        if node.parent != NONE:
            parent = nodes[node.parent]
            last, maybe = row == parent.children[-1], parent.minimum < len(parent.children)
            branch = sign[("maybe" if maybe else "item") if not last else ("maybe_last" if maybe else "last")]
            leads[row] = leads[node.parent] + (" " * len(sign["through"]) if last else sign["through"])
            label = leads[node.parent] + branch + node.name
        needs = count_in_words(node) if node.children else f"{node.minimum:,}"
        counts = outcome.rows[row]
        state = f"satisfied ({'core' if chosen[row] else 'surplus'})" if counts.satisfied else "below minimum"
        where = domain_of(counts, snapshot) or "-"
        wish = {True: "", False: " (preference not met)", None: ""}[counts.preferred_met]
        rows.append((label, f"{counts.placed:,}", needs, f"{counts.total:,}", state, where + wish))
    yield from (f"  {line}" for line in columns(rows))
    if len(nodes) > _MOST_ROWS:
        yield f"  … {len(nodes) - _MOST_ROWS:,} more: -o json"


def _waits(found: Explanation) -> Iterator[str]:
    """Who must leave before the reserved room is there."""
    if not found.waits:
        return
    yield "  waits for terminating pods"
    rows = [(f"    {one.node}", _few(one.pods) if one.pods else "(names unknown)") for one in found.waits[:_MOST_WAITS]]
    yield from columns(rows)
    if len(found.waits) > _MOST_WAITS:
        yield f"    and on {len(found.waits) - _MOST_WAITS:,} more nodes: -o json"


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:_MOST_PODS]) + (f" and {len(names) - _MOST_PODS:,} more" if len(names) > _MOST_PODS else "")


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
        full_sign, empty_sign = ("█", "░") if signs()["arrow"] == "→" else ("#", ".")
        bar = full_sign * full + empty_sign * (_BAR - full)
        held = f"held by {', '.join(one.holders)}" if one.holders else ""
        who = f"for {one.sub_group}" if one.sub_group else ""
        rows.append((f"    {one.where}", bar, f"{one.best:,} of {one.asked:,}", who, held))
    yield from columns(rows)


def _helps(found: Explanation) -> Iterator[str]:
    if not found.helps:
        if found.outcome.verdict in (Verdict.INFEASIBLE, Verdict.UNDECIDED):
            yield "  no single change that was tried makes it fit"
        return
    yield "  would fix it (each one was tried)"
    for at, one in enumerate(found.helps, start=1):
        yield f"    {at}  {one.says}"
        yield f"       {one.command}"


def _next(found: Explanation, names: Sequence[str], add: Sequence[str]) -> str:
    files = " ".join([*(f"-f {shlex.quote(name)}" for name in names), *(f"--add {shlex.quote(name)}" for name in add)])
    if found.outcome.verdict is Verdict.PLACED:
        return f"muster plan {files} -o wide"
    if any(reason.code == Code.INVALID for reason in found.outcome.reasons):
        return f"muster validate {files.replace('--add ', '-f ')}"
    return f"muster explain {shlex.quote('/'.join(found.gang.key))} {files} -o json"
