"""Evictions in words: what goes at once, by which action, for whom, and why these."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from muster.api.queue import IGNORE_BUDGETS
from muster.api.tree import NONE
from muster.decisions.amounts import charge_alone, charge_in_words, due_in_words, listed, moment, pods_in_words, span
from muster.decisions.words import fitted, shortened
from muster.plan.outcome import Action, Eviction, Ground, Measured, Plan, UnitKind
from muster.snapshot.arrays import Snapshot
from muster.snapshot.queues import Queues

_VERBS = {
    Action.CONSOLIDATE: "moved",
    Action.RECLAIM: "reclaimed",
    Action.PREEMPT: "preempted",
    Action.STALE: "evicted as stale",
}


class Loss(NamedTuple):
    """Pods of a gang that go together, by one action, for one beneficiary or for nobody (NONE).

    `loser` and `winner` are the two as people write them; `what` is the unit in words, `why` what allows it, `choice`
    how it was chosen.
    """

    gang: int
    beneficiary: int
    loser: str
    winner: str | None
    action: str
    pods: tuple[str, ...]
    # Where each of them is.
    nodes: tuple[str, ...]
    what: str
    why: str
    choice: str
    # The disruption budgets that do not allow it, and why that does not matter, in words.
    ignored: tuple[str, ...] = ()
    over: str = ""


def losses(plan: Plan) -> tuple[Loss, ...]:
    """Everything that the plan evicts, unit by unit; single pods of one leaf together that go by the same right."""
    units: dict[tuple[int, str, int, int, int, bool, tuple[int, ...]], list[Eviction]] = {}
    for one in plan.evictions:
        by_quota = one.ground is not None and one.ground.quota
        key = one.gang, one.action, one.beneficiary, one.kind, one.row, by_quota, one.passed
        units.setdefault(key, []).append(one)
    return tuple(_loss(units[key], plan) for key in sorted(units))


def why_evicted(loss: Loss) -> str:
    """One sentence: by which action, for whom and what · what allows it · how it was chosen."""
    verb = _VERBS.get(loss.action, loss.action)
    who = f" for {loss.winner}" if loss.winner is not None else ""
    return fitted([f"{verb}{who}: {loss.what}", loss.why, loss.over, loss.choice])


def documents_of(found: Iterable[Loss]) -> list[dict[str, Any]]:
    """As `muster explain -o json` prints them."""
    return [
        {
            "gang": loss.loser,
            "pods": list(loss.pods),
            "action": loss.action,
            "for": loss.winner,
            "message": why_evicted(loss),
        }
        for loss in found
    ]


def eviction(namespace: str, pod: str, action: str, winner: str | None, ignored: Sequence[str] = ()) -> dict[str, Any]:
    """One pod that goes, as `muster plan -o json` prints it; the page has the same, and more."""
    found: dict[str, Any] = {"namespace": namespace, "pod": pod, "action": action, "for": winner}
    return {**found, "ignoredBudgets": list(ignored)} if ignored else found


def evictions_of(loss: Loss) -> Iterator[dict[str, Any]]:
    """Pod by pod, with the gang that loses it and the node where it is."""
    namespace = loss.loser.partition("/")[0]
    for pod, node in zip(loss.pods, loss.nodes, strict=True):
        found = eviction(namespace, pod, loss.action, loss.winner, loss.ignored)
        yield {**found, "gang": loss.loser, "node": node}


def _loss(unit: Sequence[Eviction], plan: Plan) -> Loss:
    first, snapshot = unit[0], plan.snapshot
    gang = snapshot.gangs[first.gang]
    placed = sorted((gang.placed[one.leaf].pods[one.pod], gang.placed[one.leaf].nodes[one.pod]) for one in unit)
    if first.action == Action.STALE:
        why, choice = _why_stale(first, plan), "give it back what it lost, or raise stalenessGracePeriod"
    else:
        why, choice = _why(unit, snapshot), _choice(first)
    return Loss(
        first.gang,
        first.beneficiary,
        "/".join(gang.key),
        "/".join(snapshot.gangs[first.beneficiary].key) if first.beneficiary != NONE else None,
        first.action,
        tuple(pod for pod, _ in placed),
        tuple(snapshot.nodes[node] for _, node in placed),
        _what(unit, plan),
        why,
        choice,
        tuple(snapshot.budgets[guard] for guard in first.passed),
        _over(first, snapshot),
    )


def over_budgets(plan: Plan) -> dict[tuple[str, str], str]:
    """Of every pod that goes whatever its disruption budgets say: why it may, in words."""
    gangs = plan.snapshot.gangs
    return {
        (gangs[one.gang].key[0], gangs[one.gang].placed[one.leaf].pods[one.pod]): _over(one, plan.snapshot)
        for one in plan.evictions
        if one.passed
    }


def _over(first: Eviction, snapshot: Snapshot) -> str:
    """Which disruption budgets do not allow it, and which queue asks that it goes all the same."""
    if not first.passed:
        return ""
    names = listed([snapshot.budgets[guard] for guard in first.passed])
    return f"deleted although {names} allows no eviction: {asking_queue(first, snapshot)} has {IGNORE_BUDGETS}"


def asking_queue(one: Eviction, snapshot: Snapshot) -> str:
    """The queue that gets something back whatever disruption budgets say: one that only the beneficiary is below."""
    rows, paths = snapshot.queues.row_of, snapshot.queues.paths
    mine, theirs = (paths[rows[snapshot.gangs[number].queue]] for number in (one.beneficiary, one.gang))
    asks = (row for row in mine if row not in theirs and snapshot.queues.ignores_budgets[row])
    return f"queue {shortened(snapshot.queues.names[next(asks)])}"


def _what(unit: Sequence[Eviction], plan: Plan) -> str:
    """The unit in words: a leftover, surplus pods, a surplus child, the whole gang."""
    first, count = unit[0], len(unit)
    gang = plan.snapshot.gangs[first.gang]
    name = shortened(gang.tree.nodes[first.row].name)
    of_it = f" of {name}" if name else ""
    if first.action == Action.STALE:
        return f"what is left of {name or 'the gang'} ({pods_in_words(count)})"
    if first.kind == UnitKind.LEFTOVER:
        return f"{'a leftover pod' if count == 1 else f'{count:,} leftover pods'}{of_it}"
    if first.kind == UnitKind.SURPLUS_POD:
        return f"{'a surplus pod' if count == 1 else f'{count:,} surplus pods'}{of_it}"
    if first.kind == UnitKind.SURPLUS_CHILD:
        return f"the surplus replica {name} ({pods_in_words(count)})"
    return f"the whole gang ({pods_in_words(count)})"


def _why(unit: Sequence[Eviction], snapshot: Snapshot) -> str:
    first, victim = unit[0], snapshot.gangs[unit[0].gang]
    if first.action == Action.CONSOLIDATE:
        nodes = sorted({snapshot.nodes[one.to] for one in unit if one.to != NONE})
        return f"room is kept for {'it' if len(unit) == 1 else 'them'} on {listed(nodes)}" if nodes else ""
    if first.beneficiary == NONE:
        return ""
    winner = snapshot.gangs[first.beneficiary]
    if first.action == Action.PREEMPT:
        return f"priority {winner.priority:,} comes before {victim.priority:,} in queue {shortened(victim.queue)}"
    return _why_reclaimed(first.ground, snapshot) if first.ground is not None else ""


def _why_reclaimed(ground: Ground, snapshot: Snapshot) -> str:
    """Both sides by the measure that decided: what the loser's queues held, and what the winner's come to."""
    sides = ((ground.above, "held"), (ground.within, "comes to"))
    return "; ".join(_side(rows, verb, snapshot.queues, quota=ground.quota) for rows, verb in sides)


def _side(rows: Sequence[Measured], verb: str, queues: Queues, *, quota: bool) -> str:
    """The gang's own queue; and the one above it that shares with the other side, where that is another."""
    own, top = rows[0], rows[-1]
    has, due = charge_in_words(own.charge, own.has), due_in_words(own, queues, quota=quota)
    said = f"{shortened(queues.names[own.queue])} {verb} {has}, {due}"
    if top is own:
        return said
    has, due = charge_in_words(top.charge, top.has), charge_alone(top.charge, top.due)
    return f"{said} ({shortened(queues.names[top.queue])}: {has} of {due})"


def _choice(first: Eviction) -> str:
    if not first.considered:
        return ""
    if first.considered == 1:
        return "nothing else could go"
    looked = "every choice of them was looked at" if first.exact else "not every choice of them was looked at"
    return f"{first.considered:,} units could go, {looked}"


def _why_stale(first: Eviction, plan: Plan) -> str:
    """Since when it has been below its minimum, and how long it might have stayed so."""
    gang, row = plan.snapshot.gangs[first.gang], plan.outcomes[first.gang].rows[first.row]
    since = row.stale_since_ns
    recorded = gang.recorded[first.row] if first.row < len(gang.recorded) else None
    if not since and recorded is not None:
        since = recorded.stale_since_ns
    grace = f"its grace period is {span(gang.grace_ns)}" if gang.grace_ns > 0 else "it has no grace period"
    if not since:
        return f"below its minimum by a loss; {grace}"
    passed = max(0, plan.snapshot.now_ns - since)
    return f"below its minimum by a loss since {moment(since)}, for {span(passed)}; {grace}"
