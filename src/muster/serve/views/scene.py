"""What the page is told after a cycle: the plan, and the little of the world that a plan does not know. A value.

It is taken right after the cycle, before anything else is seen: the world is the one of the plan, and what the cycle
sent counts as done in it.
"""

import shlex
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import add, sub
from typing import NamedTuple

from muster.api.cluster import SUBGROUP_LABEL, Node
from muster.api.tree import NONE
from muster.model.reasons import Code
from muster.plan.accounts import firm_shapes
from muster.plan.outcome import Eviction, Outcome, Outcomes, Plan, QueueOutcome
from muster.plan.tally import outcome_of_untried
from muster.plan.units import without
from muster.snapshot.arrays import Gang, Key, Snapshot
from muster.snapshot.queues import CHARGES, Costs
from muster.snapshot.requests import Request
from muster.snapshot.room import ALLOCATABLE, HELD, Amounts, Rows
from muster.snapshot.selectors import is_ready
from muster.snapshot.world import State, World

# Per gang of a scene its number in an earlier one; None for one that was made anew since then.
Numbers = Sequence[int | None]

READY, CORDONED, NOT_READY = "ready", "cordoned", "notReady"
_CPU = "cpu"
# How little a device says that is no GPU, nor asked for, nor the unit so far.
_UNASKED = 3


class NodeFacts(NamedTuple):
    """Whether a node takes pods, and if not, why."""

    state: str
    why: str


class Unit(NamedTuple):
    """What a slot is: `scale` base units of the resources that count alike; `resource` is the one that most have."""

    resource: str
    name: str
    resources: tuple[str, ...]
    scale: int = 1


class Leaver(NamedTuple):
    """A pod of a gang that terminates and still holds its room: its name, leaf, node, and what it holds of the unit."""

    pod: str
    leaf: int
    node: str
    amount: int


class Scene(NamedTuple):
    """A cycle as the page shows it. Amounts are those of the unit, per node, in base units."""

    plan: Plan
    # The name of the decision; empty when nobody acts on the plan. With a name, evictions are those that were ordered.
    decision: str
    nodes: Mapping[str, NodeFacts]
    unit: Unit
    slots: Amounts
    free: Amounts
    # Per gang that has any: the pods that are being bound, by name.
    flying: Mapping[Key, frozenset[str]]
    # Per gang that has any: the pods that terminate. No plan knows their names.
    leaving: Mapping[Key, tuple[Leaver, ...]]
    # Where the nodes stand in the tables of the world.
    rows: Rows
    # Names for people, of queues that have one.
    titles: Mapping[str, str]

    @property
    def at_ns(self) -> int:
        """When it was."""
        return self.plan.snapshot.now_ns


def scene_of(
    plan: Plan,
    world: World,
    *,
    decision: str = "",
    flying: Collection[Key] = (),
    going: Collection[Key] | None = None,
    before: Scene | None = None,
) -> Scene:
    """The scene after a cycle. `flying` are pods that are being bound, `going` those that were told to go; None: all
    that the plan evicts.

    What is as it was in the scene `before` is taken from there.
    """
    snapshot = plan.snapshot
    if going is not None:
        plan = as_ordered(plan, going)
    if before is not None and before.plan.snapshot.nodes is snapshot.nodes:
        nodes, rows = before.nodes, before.rows
    else:
        nodes = {name: _facts_of(world.nodes[name]) for name in snapshot.nodes}
        rows = world.room.rows(snapshot.nodes)
    was = before.unit if before is not None else None
    unit = _unit(world, rows, snapshot, was)
    slots, free = _room(unit, snapshot, world, rows)
    return Scene(
        plan,
        decision,
        nodes,
        unit,
        slots,
        free,
        _by_gang(flying, world),
        dict(sorted(_leaving(plan, world, unit, before if before is not None and before.unit == unit else None))),
        rows,
        {name: one.spec.display_name for name, one in world.queues.items() if one.spec.display_name},
    )


def as_ordered(plan: Plan, going: Collection[Key]) -> Plan:
    """The plan without evictions of pods that were not told to go. Pods of one gang go together, or none of them."""
    snapshot = plan.snapshot
    ordered = tuple(one for one in plan.evictions if _pod_of(one, snapshot) in going)
    spared = {one.gang for one in plan.evictions} - {one.gang for one in ordered}
    if not spared:
        return plan
    known = {number: _unharmed(plan, number) for number in spared}
    tried = {number: known.get(number, one) for number, one in plan.outcomes.tried.items()}
    outcomes = Outcomes(len(snapshot.gangs), tried, lambda number: known.get(number) or plan.outcomes[number])
    kept = [one for one in plan.evictions if one.gang in spared]
    return replace(plan, evictions=ordered, outcomes=outcomes, queues=_with_kept(plan, kept))


def _with_kept(plan: Plan, kept: Sequence[Eviction]) -> tuple[QueueOutcome, ...]:
    """The queues of a plan, in which these pods hold what they have after all."""
    snapshot, found = plan.snapshot, list(plan.queues)
    by_gang: dict[int, list[Eviction]] = {}
    for one in kept:
        by_gang.setdefault(one.gang, []).append(one)
    for number, evictions in by_gang.items():
        gang = snapshot.gangs[number]
        row = snapshot.queues.row_of.get(gang.queue, NONE)
        if row == NONE or not found:
            continue
        shapes = {one: gang.placed[one.leaf].shapes[one.pod] for one in evictions}
        held = _cost(shapes.values(), snapshot)
        back = _cost((shape for one, shape in shapes.items() if one.to != NONE), snapshot)
        left = without(gang, {(one.leaf, one.pod): one for one in evictions})
        firm = tuple(map(sub, *(_cost(firm_shapes(one), snapshot) for one in (gang, left))))
        for at in snapshot.queues.paths[row]:
            was = found[at]
            found[at] = was._replace(
                allocated=tuple(map(add, was.allocated, held)),
                awaited=tuple(map(sub, was.awaited, back)),
                non_preemptible=tuple(map(add, was.non_preemptible, firm)),
            )
    return tuple(found)


def _cost(shapes: Iterable[int], snapshot: Snapshot) -> list[int]:
    """What pods of these shapes cost a queue, per charge."""
    found = [0] * len(CHARGES)
    for shape in shapes:
        found = list(map(add, found, snapshot.charges[shape].tolist()))
    return found


def _pod_of(eviction: Eviction, snapshot: Snapshot) -> Key:
    gang = snapshot.gangs[eviction.gang]
    return gang.key[0], gang.placed[eviction.leaf].pods[eviction.pod]


def _unharmed(plan: Plan, number: int) -> Outcome:
    """What there is to say of a gang that loses nothing after all."""
    gang, told = plan.snapshot.gangs[number], plan.outcomes[number]
    if any(one.gang == number for one in plan.placements):
        # What is found for it stands; how many it is then is counted in the next cycle.
        return replace(told, reasons=tuple(one for one in told.reasons if one.code != Code.EVICTED))
    found = outcome_of_untried(gang, plan.snapshot)
    pairs = zip(found.rows, told.rows, strict=True)
    rows = tuple(row._replace(stale_since_ns=then.stale_since_ns) for row, then in pairs)
    reasons = tuple(one for one in found.reasons if one.code != Code.NOT_TRIED)
    return replace(found, rows=rows, reasons=reasons)


def _facts_of(node: Node) -> NodeFacts:
    if not is_ready(node):
        told = next(one for one in node.status.conditions if one.type == "Ready" and one.status != "True")
        return NodeFacts(NOT_READY, ": ".join(part for part in (told.reason, told.message) if part))
    if node.spec.unschedulable:
        return NodeFacts(CORDONED, f"it takes no new pods until kubectl uncordon {shlex.quote(node.metadata.name)}")
    return NodeFacts(READY, "")


def _unit(world: World, rows: Rows, snapshot: Snapshot, before: Unit | None) -> Unit:
    """GPUs, of all makers alike; where nobody has any, the device that most nodes have of those that are `asked` for,
    or that was the unit before; else CPU. Device plugins count much that is no place for a pod: what no gang ever asks
    for says nothing.
    """
    asked: Collection[str] = snapshot.resources
    costs = snapshot.costs
    # Only such names may be devices.
    devices = [resource for resource in world.room.resources if "/" in resource]
    table = world.room.table(ALLOCATABLE, rows, devices)
    counts = [int((table[:, column] > 0).sum()) for column in range(len(devices))]
    there = {resource: nodes for resource, nodes in zip(devices, counts, strict=True) if nodes}
    if not len(rows):
        # What there is room for is told by nobody: what is asked for has to do.
        asked = {*asked, *(name for amounts in snapshot.unoffered.values() for name in amounts)}
        devices = [resource for resource in sorted(asked) if "/" in resource]
        there = dict.fromkeys(devices, 0)
    was = before.resource if before is not None else ""
    ranks = {resource: _rank(resource, asked, was, costs) for resource in there}
    found = [resource for resource in there if ranks[resource] < _UNASKED]
    if not found:
        return Unit(_CPU, "CPU", (_CPU,), 1000)
    first = min(found, key=lambda resource: (ranks[resource], -there[resource], resource))
    if costs.is_gpu(first):
        return Unit(first, "GPU", tuple(resource for resource in devices if costs.is_gpu(resource)))
    return Unit(first, first.rpartition("/")[2], (first,))


def _rank(resource: str, asked: Collection[str], was: str, costs: Costs) -> int:
    if costs.is_gpu(resource):
        return 0
    if resource in asked:
        return 1
    return 2 if resource == was else _UNASKED


def _room(unit: Unit, snapshot: Snapshot, world: World, rows: Rows) -> tuple[Amounts, Amounts]:
    """What every node has of the unit, and what of it was free when the cycle began."""
    # What no gang asks for is in no snapshot, and no write of ours changes it.
    unasked = [resource for resource in unit.resources if resource not in snapshot.resources]
    slots = world.room.table(ALLOCATABLE, rows, unasked).sum(axis=1)
    free = slots - world.room.table(HELD, rows, unasked).sum(axis=1)
    for resource in unit.resources:
        if resource in snapshot.resources:
            column = snapshot.resources.index(resource)
            slots = slots + snapshot.allocatable[:, column]
            free = free + snapshot.free[:, column]
    return slots, free


def amount_of(request: Request, unit: Unit) -> int:
    """What a pod asks for of the unit."""
    return sum(request.get(resource, 0) for resource in unit.resources)


def _by_gang(pods: Collection[Key], world: World) -> dict[Key, frozenset[str]]:
    found: dict[Key, set[str]] = {}
    for pod in pods:
        facts = world.pods.get(pod)
        if facts is not None and facts.gang is not None:
            found.setdefault(facts.gang, set()).add(pod[1])
    return {gang: frozenset(found[gang]) for gang in sorted(found)}


def numbers_then(now: Scene, before: Scene | None) -> Numbers:
    """The numbers that the gangs of a scene had in the one before."""
    return _numbers_then(now.plan.snapshot, before.plan.snapshot if before is not None else None)


def number_of(snapshot: Snapshot, key: Key) -> int:
    """The number of a gang; NONE when it is not there."""
    number = bisect_left(snapshot.gangs, key, key=lambda gang: gang.key)
    there = number < len(snapshot.gangs) and snapshot.gangs[number].key == key
    return number if there else NONE


def _numbers_then(now: Snapshot, before: Snapshot | None) -> Numbers:
    if before is None:
        return [None] * len(now.gangs)
    numbers = dict(zip(before.gangs, range(len(before.gangs)), strict=True))
    return list(map(numbers.get, now.gangs))


def _leaving(plan: Plan, world: World, unit: Unit, before: Scene | None) -> Iterator[tuple[Key, tuple[Leaver, ...]]]:
    """Who terminates, by gang; looked for in gangs that were made anew."""
    gangs = plan.snapshot.gangs
    then = _numbers_then(plan.snapshot, before.plan.snapshot if before is not None else None)
    for number, was in enumerate(then):
        if was is None and any(counts.terminating for counts in gangs[number].counts.values()):
            leavers = tuple(sorted(_leavers(gangs[number], world, unit)))
            if leavers:
                yield gangs[number].key, leavers
    if before is not None and before.leaving:
        known = {gangs[number].key for number, was in enumerate(then) if was is not None}
        yield from ((key, leavers) for key, leavers in before.leaving.items() if key in known)


def _leavers(gang: Gang, world: World, unit: Unit) -> Iterator[Leaver]:
    # Who is evicted by this very cycle is placed as far as the plan goes.
    placed = {pod for here in gang.placed.values() for pod in here.pods}
    for (_, name), facts in world.members.get(gang.key, {}).items():
        leaf = gang.tree.leaf_of(facts.pod.metadata.labels.get(SUBGROUP_LABEL))
        if facts.state is State.TERMINATING and facts.holds and leaf != NONE and name not in placed:
            yield Leaver(name, leaf, facts.pod.spec.node_name, amount_of(facts.request, unit))
