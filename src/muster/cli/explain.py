"""`muster explain`: why a gang waits, where it comes nearest, and what was tried and would help."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import click

from muster.api.queue import BASE_UNITS
from muster.api.tree import NONE, count_in_words
from muster.cli.cluster import CLUSTER, Loaded, WhatIf, load, policy_of, run_cycle
from muster.cli.meant import gang_meant
from muster.cli.options import Server, input_flags, load_config, with_cluster, with_config, with_files, with_output
from muster.cli.plan import moment_of, tell_unread
from muster.cli.render import JSON, TABLE, YAML, columns, say, say_data, sayable, signs, tell
from muster.cli.tables import share_cells
from muster.config import Config
from muster.decisions.amounts import listed, ordinal
from muster.decisions.explanation import Explanation, Leaving, document_of
from muster.decisions.explanation import explain as put_together
from muster.decisions.losses import Loss, why_evicted
from muster.decisions.plan import core_rows, domain_of
from muster.decisions.status import SCHEDULED
from muster.decisions.words import foremost, sentence, told
from muster.model.reasons import Code
from muster.plan.outcome import Plan, Verdict
from muster.plan.raises import raises
from muster.plan.remedies import remedies
from muster.snapshot.arrays import Snapshot
from muster.snapshot.draining import EVERYTHING_GOES, Draining, draining_of
from muster.snapshot.queues import CHARGES
from muster.snapshot.world import Key, State, World

_STYLES: dict[Verdict, dict[str, Any]] = {
    Verdict.PLACED: {"fg": "green"},
    Verdict.INFEASIBLE: {"fg": "red"},
    Verdict.UNDECIDED: {"fg": "yellow"},
    Verdict.HELD: {"fg": "yellow"},
}
_BAR = 16
_MOST_PLACES, _MOST_ROWS, _MOST_REASONS, _MOST_WAITS, _MOST_LOSSES = 3, 60, 8, 8, 8


@click.command(epilog="Example: muster explain default/monthly -f examples/cluster")
@click.argument("name", metavar="GANG")
@click.option("-n", "--namespace", metavar="NAME", default="", help="The namespace of GANG where it names none.")
@with_files
@click.option("--add", metavar="FILE", multiple=True, help="What if this came too? A file or folder; can be repeated.")
@click.option("--now", metavar="TIME", help="The time of the cycle, as 2026-01-31T12:00:00Z. Default: now.")
@click.option("--no-strict", "lenient", is_flag=True, help="Do not mind unknown fields.")
@with_output(TABLE, JSON, YAML)
@with_cluster
@with_config
@click.pass_context
def explain(
    ctx: click.Context,
    name: str,
    namespace: str,
    names: Sequence[str],
    server: Server,
    add: Sequence[str],
    now: str | None,
    lenient: bool,
    form: str,
    config_file: str | None,
    flags: tuple[str, ...],
) -> None:
    """Say why a gang waits: what was checked, its tree, its queue, the proof, the nearest domains, and what would help.

    GANG is NAMESPACE/NAME or NAME of its PodGroup, or its workload or a pod of it as kubectl names them: job/train,
    raycluster/r, lws/x, pod/train-0, pg/pg-train-1.

    One cycle is run over the files, or without -f over the cluster of the current context, as by `muster plan`. When it
    evicts pods of the gang: which, for whom, and why these; when others make room for the gang: who. Every change that
    is proposed was run through the engine and makes the gang fit. Exits with 0 when the gang's minimum is placed, else
    with 1.
    """
    config = load_config(config_file, flags).config
    loaded = load(names, config, WhatIf(add=add), strict=not lenient, server=server)
    if names:
        tell_unread(loaded)
    found, made = look_at(name, loaded, moment_of(now), namespace)
    found = for_cluster(found, server.flags)
    status = loaded.world.groups[found.gang.key].status
    if form in (JSON, YAML):
        say_data(document_with(found, made, status.decision), form)
    else:
        for line in lines_of(found, made):
            say(line.text, **line.style)
        if status.decision:
            word = f"{status.phase} {status.reason}".strip()
            why = next((one.message for one in status.conditions if one.type == SCHEDULED and one.message), "")
            say()
            say(sayable(f"  the scheduler's last word: {word} · decision {status.decision}"))
            if why:
                say(sayable(f"    {why}"))
            say(sayable(f"    kubectl get events -n {found.gang.key[0]} -l muster.dev/decision={status.decision}"))
        for note in loaded.notes if loaded.place == CLUSTER else ():
            tell(f"note: {note}")
        tell(f"next: {_next(found, input_flags(names, server), add, live=not names)}")
    ctx.exit(0 if found.outcome.verdict is Verdict.PLACED else 1)


def for_cluster(found: Explanation, flags: str) -> Explanation:
    """The explanation, with our own commands for the cluster that `flags` name."""
    named = (one.command.startswith("muster ") and flags.startswith("--") for one in found.helps)
    helps = zip(found.helps, named, strict=True)
    return found._replace(
        helps=tuple(one._replace(command=f"{one.command} {flags}") if ours else one for one, ours in helps)
    )


def document_with(found: Explanation, made: Plan, decision: str) -> dict[str, Any]:
    """The explanation as data, with the name of the decision that the gang was told last, if it was told any."""
    return {**document_of(found, made.snapshot), **({"decision": decision} if decision else {})}


def look_at(name: str, loaded: Loaded, now_ns: int, namespace: str = "") -> tuple[Explanation, Plan]:
    """All that there is to say about one gang, and the cycle that it is about. `namespace` is the one in which it must
    be. Raises UsageError: no such gang.
    """
    home = namespace or loaded.home
    key = gang_meant(name, loaded.world, loaded.place, home, only_home=bool(namespace))
    made = run_cycle(loaded, now_ns)
    world = loaded.world
    return explained(key, made, loaded.config, leaving_in(world), draining_of(world)), made


def explained(
    key: Key,
    made: Plan,
    config: Config,
    leaving: Sequence[Leaving] = (),
    draining: Draining = EVERYTHING_GOES,
    *,
    sent: bool = False,
) -> Explanation:
    """All that there is to say about a gang of a cycle, with changes that were tried. `sent`: somebody acts on it."""
    number = next(at for at, gang in enumerate(made.snapshot.gangs) if gang.key == key)
    policy = policy_of(config)
    units = tuple(BASE_UNITS[charge] for charge in CHARGES)
    tried = remedies(made, number, policy, draining=draining), raises(made, number, policy, units)
    return put_together(made, number, tried[0], leaving, tried[1], sent=sent)


def leaving_in(world: World) -> list[Leaving]:
    """The pods that terminate, by name: a snapshot only has the sum of what they hold."""
    return [
        Leaving("/".join(key), facts.pod.spec.node_name, frozenset(facts.request))
        for key, facts in world.pods.items()
        if facts.state is State.TERMINATING
    ]


class Line(NamedTuple):
    """A line of the explanation, and how it looks on a terminal."""

    text: str
    style: Mapping[str, Any] = {}


def lines_of(found: Explanation, made: Plan) -> Iterator[Line]:
    """The explanation for people."""
    outcome = found.outcome
    yield Line(sayable(_title(found)), {"bold": True, **_STYLES[outcome.verdict]})
    for line in found.message.split(" · "):
        yield Line(sayable(f"  {line}"))
    yield Line("")
    yield Line("  " + "   ".join(f"{_tick(check.good)} {check.says}" for check in found.checks))
    sections = (
        *(_tree(found, made.snapshot), _queue(found), _losses("loses", found.loses, of_others=False)),
        *(_losses("gets room from", found.displaces, of_others=True), _waits(found), _others(found, made.snapshot)),
        *(_proof(found), _places(found), _hindrances(found), _helps(found)),
    )
    for section in sections:
        lines = list(section)
        if lines:
            yield Line("")
            yield from (Line(sayable(line)) for line in lines)


def _title(found: Explanation) -> str:
    """The gang, the verdict and the foremost reason; what waits beyond the minimum is named."""
    parts = ["/".join(found.gang.key), found.outcome.verdict.value]
    first = foremost(found.outcome)
    if first is not None and first.reason.surplus:
        does = "goes" if first.reason.code == Code.EVICTED else "waits"
        parts.append(f"{found.gang.tree.nodes[first.reason.row].name or 'surplus'} {does}: {first.reason.code}")
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
        what = "joined" if counts.joined else "core" if chosen[row] else "surplus"
        state = f"satisfied ({what})" if counts.satisfied else "below minimum"
        where = domain_of(counts, snapshot) or "-"
        wish = {True: "", False: " (preference not met)", None: ""}[counts.preferred_met]
        rows.append((label, f"{counts.placed:,}", needs, f"{counts.total:,}", state, where + wish))
    yield from (f"  {line}" for line in columns(rows))
    if len(nodes) > _MOST_ROWS:
        yield f"  … {len(nodes) - _MOST_ROWS:,} more: -o json"
    whole = list[bool]()
    for row, node in enumerate(nodes[:_MOST_ROWS]):
        whole.append(outcome.rows[row].satisfied and (node.parent == NONE or whole[node.parent]))
        joined = [nodes[child].name for child in node.children if outcome.rows[child].joined]
        if node.keep and joined:
            verb = "have joined and go" if len(joined) > 1 else "has joined and goes"
            yield f"  {listed(joined)} {verb} only with {node.name or 'the gang'}"
        lost = [nodes[child].name for child in node.children if whole[row] and outcome.rows[child].lost]
        if lost:
            yield f"  {listed(lost)}: pods are lost and none waits, so no staleness clock runs"


def _waits(found: Explanation) -> Iterator[str]:
    """Who must leave before the reserved room is there."""
    if not found.waits:
        return
    yield "  waits for pods to leave"
    rows = [
        (f"    {one.node}", listed(one.pods) if one.pods else "(names unknown)") for one in found.waits[:_MOST_WAITS]
    ]
    yield from columns(rows)
    if len(found.waits) > _MOST_WAITS:
        yield f"    and on {len(found.waits) - _MOST_WAITS:,} more nodes: -o json"


def _queue(found: Explanation) -> Iterator[str]:
    """Its place in the line, and what its queue and those above hold, are due and may have."""
    one = found.in_line
    place = f"{ordinal(one.place)} of {one.waiting:,} waiting in queue {one.queue}" if one.place else ""
    if not one.shares:
        # Without Queues, a line of one says nothing.
        if place and one.waiting > 1:
            yield f"  {place}"
        return
    yield f"  {place or f'queue {one.queue}'}"
    rows = [("    QUEUE", "RESOURCE", "ALLOCATED", "FAIR SHARE", "QUOTA", "LIMIT", "NON-PREEMPTIBLE")]
    rows += [(f"    {share.queue}", *share_cells(share)) for share in one.shares]
    yield from columns(rows)


def _losses(title: str, losses: Sequence[Loss], *, of_others: bool) -> Iterator[str]:
    """What goes in this cycle, and why these; of others with whose it is."""
    if not losses:
        return
    yield f"  {title}"
    for loss in losses[:_MOST_LOSSES]:
        yield f"    {f'{loss.loser}: ' if of_others else ''}{listed(loss.pods)}"
        yield f"      {why_evicted(loss)}"
    if len(losses) > _MOST_LOSSES:
        yield f"    and {len(losses) - _MOST_LOSSES:,} more: -o json"


def _hindrances(found: Explanation) -> Iterator[str]:
    """Why it takes no room from others."""
    if found.hindrances:
        yield "  takes no room from others"
        for text in found.hindrances:
            yield f"    {text}"


def _others(found: Explanation, snapshot: Snapshot) -> Iterator[str]:
    """Reasons beside the first: surplus that waits, pods set aside. What is evicted was told with more."""
    first = foremost(found.outcome)
    rest = [one for one in told(found.outcome) if one != first and one.reason.code != Code.EVICTED]
    if rest:
        yield "  also"
        for one in rest[:_MOST_REASONS]:
            words = sentence(one.reason, found.gang, snapshot, one.others, sent=found.sent)
            yield f"    {one.reason.code}: {words}"
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


def _next(found: Explanation, files: str, add: Sequence[str], *, live: bool) -> str:
    namespace, name = (shlex.quote(part) for part in found.gang.key)
    given = " ".join(filter(None, (files, *(f"--add {shlex.quote(one)}" for one in add))))
    if found.outcome.verdict is Verdict.PLACED:
        return " ".join(filter(None, ("muster plan", given, "-o wide")))
    if any(reason.code == Code.INVALID for reason in found.outcome.reasons):
        if live and not add:
            return f"kubectl get podgroups.scheduling.run.ai -n {namespace} {name} -o yaml | muster validate -f -"
        return f"muster validate {given.removeprefix(files if live else '').strip().replace('--add ', '-f ')}"
    return " ".join(filter(None, ("muster explain", shlex.quote("/".join(found.gang.key)), given, "-o json")))
