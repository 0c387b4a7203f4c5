"""Clocks of staleness that are over, or began anew, while nothing can be told (SPEC §8).

The status of a PodGroup is where clocks are kept, and it waits for the gang's own writes: one without an answer may
keep it as it is for long, and so may a server that does not take the status itself, or a watch that is slow to show it.
A tree node that was whole meanwhile must not go at its next loss by a clock of before, and children that have left
because nothing of their gang was placed are not joined when it starts again. What is known better than the status has
it is kept here, and only until the status has it too.
"""

from bisect import bisect_left
from collections.abc import Callable, Collection, Sequence

from muster.api.cluster import SUBGROUP_LABEL
from muster.api.tree import NONE, satisfied
from muster.plan.outcome import Plan, RowOutcome
from muster.snapshot.arrays import Counts, Gang, Recorded
from muster.snapshot.times import since_epoch_ns
from muster.snapshot.world import Key, State, World

_S = 10**9


def keep_clocks(plan: Plan, world: World, unsure: Collection[Key], flying: Collection[Key]) -> None:
    """After a cycle. `unsure` are the pods on their way to a node of which nobody has said yet that they have it,
    `flying` the gangs with any write on its way.
    """
    gangs = plan.snapshot.gangs
    for one in (gangs[number] for number in plan.snapshot.were_joined):
        # What left between two cycles, before any status could say so, has left.
        pairs = zip(one.tree.nodes, one.was_joined or (), one.joined, strict=True)
        left = {node.name for node, before, now in pairs if before and not now}
        if left:
            world.part(one.key, left | world.parted(one.key))
    keys = {*world.recorded, *(gangs[number].key for number in plan.snapshot.clocked)}
    moving = {*flying, *_moved(plan)} if keys else set[Key]()
    may_fail = frozenset(unsure)
    for key in keys:
        at = _number(plan, key)
        gang = gangs[at] if at != NONE else None
        if gang is None:
            world.record(key, {})
        elif gang.recorded:
            rows = plan.outcomes[at].rows
            world.record(key, _known_better(gang, world, rows, may_fail, is_told=key not in moving))


def end_clocks(plan: Plan, world: World, key: Key, unsure: Callable[[], Collection[Key]]) -> None:
    """Between two cycles, when a pod of a gang has its node: what is whole by that may lose something before the next
    one, which would never know.
    """
    at, known = _number(plan, key), world.recorded.get(key, {})
    gang = plan.snapshot.gangs[at] if at != NONE else None
    if gang is None or not gang.recorded or not (known or gang.has_clock):
        return
    seen, found = present_for_sure(gang, world, frozenset(unsure())), dict(known)
    for row, (node, recorded, met) in enumerate(
        zip(gang.tree.nodes, gang.recorded, satisfied(gang.tree, seen), strict=True)
    ):
        now = known.get(node.name, recorded)
        if met and now is not None and now.stale_since_ns:
            found[node.name] = _whole(gang, row, seen)
    world.record(key, found)


def present_for_sure(gang: Gang, world: World, unsure: Collection[Key]) -> list[int]:
    """Per leaf: the pods of a gang that succeeded or have a node, without those that are `unsure` to have one."""
    found = [0] * len(gang.tree.nodes)
    for pod, facts in world.members.get(gang.key, {}).items():
        leaf = gang.tree.leaf_of(facts.pod.metadata.labels.get(SUBGROUP_LABEL))
        has_node = facts.state is State.PLACED and facts.pod.spec.node_name in world.nodes and pod not in unsure
        if leaf != NONE and (has_node or facts.state is State.SUCCEEDED) and world.is_counted(facts):
            found[leaf] += 1
    return found


def _number(plan: Plan, key: Key) -> int:
    """The gang of that name in the plan; NONE when it has none."""
    gangs = plan.snapshot.gangs
    at = bisect_left(gangs, key, key=lambda gang: gang.key)
    return at if at < len(gangs) and gangs[at].key == key else NONE


def _moved(plan: Plan) -> set[Key]:
    """The gangs of which the cycle binds or evicts pods: what it found of them has not happened yet."""
    numbers = {one.gang for one in plan.placements if not one.nominated} | {one.gang for one in plan.evictions}
    return {plan.snapshot.gangs[number].key for number in numbers}


def _known_better(
    gang: Gang, world: World, rows: Sequence[RowOutcome], may_fail: frozenset[Key], *, is_told: bool
) -> dict[str, Recorded]:
    """Tree nodes, by name, of which the status has an older clock. `rows` have the clocks of the cycle; a gang that
    `is_told` how it stands has no write on its way.
    """
    running, lost = [row.stale_since_ns for row in rows], [row.lost for row in rows]
    seen = list(gang.present)
    for leaf, here in gang.placed.items():
        seen[leaf] -= sum((gang.key[0], pod) in may_fail for pod in here.pods)
    met, before = satisfied(gang.tree, seen), world.recorded.get(gang.key, {})
    written = {one.name: one.stale_since for one in world.groups[gang.key].status.sub_groups}
    found: dict[str, Recorded] = {}
    for row, (node, known) in enumerate(zip(gang.tree.nodes, gang.recorded, strict=True)):
        with_parent = row > 0 and gang.tree.nodes[node.parent].name in found
        if known is None or not (known.stale_since_ns or node.name in before or with_parent):
            continue
        if met[row]:
            now = _whole(gang, row, seen)
        elif node.name not in before and with_parent:
            # The clock of those above it is over: if it lacks what it lost with them, it has its own from now on.
            now = known._replace(stale_since_ns=running[row])
        elif node.name in before and (running[row] or is_told):
            now = known._replace(stale_since_ns=running[row])
        elif lost[row]:
            # None of its pods waits any more: when one does, the clock begins from there.
            now = known._replace(stale_since_ns=0, lost=True)
        else:
            now = known
        if with_parent or now.stale_since_ns // _S != since_epoch_ns(written.get(node.name)) // _S:
            found[node.name] = now
    return found


def _whole(gang: Gang, row: int, seen: list[int]) -> Recorded:
    """A tree node that has its minimum, by pods that were seen, or whose binds were answered with a yes."""
    leaves = gang.tree.leaves_below(row)
    succeeded = sum(gang.counts.get(leaf, Counts()).succeeded for leaf in leaves)
    return Recorded(True, gang.tree.nodes[row].minimum, sum(seen[leaf] for leaf in leaves) - succeeded, succeeded)
