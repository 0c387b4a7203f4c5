"""What would make a gang fit. Every remedy was run through the engine and works; none is a guess.

A remedy is tried on the room as the cycle leaves it: what others were given stays theirs.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

import numpy as np

from muster.api.tree import NONE, Tree, core
from muster.plan.cycle import Policy, schedule
from muster.plan.outcome import Plan, Verdict
from muster.plan.proof import Certificate, Choices
from muster.plan.tally import leaves_below
from muster.snapshot.arrays import NOBODY, Counts, Gang, Placed, Snapshot
from muster.snapshot.room import Amounts
from muster.snapshot.selectors import Mask

Thing = TypeVar("Thing")

UNCORDON, EVICT, RELAX, LOWER, FREE = "uncordon", "evict", "relax", "lower", "free"
_FIRM = "non-preemptible"


class Victim(NamedTuple):
    """A placed pod of another gang that its minimum does not need."""

    gang: int
    leaf: int
    pod: int


class Remedy(NamedTuple):
    """A change after which the gang's minimum is placed at once.

    `uncordon`, `free`: nodes. `evict`: victims. `relax`: the hold `row` needs `level` (NONE: none at all) instead of
    `before`. `lower`: the minimum of `row` becomes `level` instead of `before`.
    """

    kind: str
    nodes: tuple[int, ...] = ()
    victims: tuple[Victim, ...] = ()
    row: int = NONE
    topology: int = NONE
    before: int = NONE
    level: int = NONE


def remedies(plan: Plan, number: int, policy: Policy | None = None, most: int = 3) -> tuple[Remedy, ...]:
    """Up to `most` changes, the gentlest first, one of each kind.

    They make the minimum fit; or, when that is placed, the first child that waits beyond it.
    """
    outcome = plan.outcomes[number]
    row = 0
    if outcome.verdict is Verdict.PLACED:
        missing = [
            reason.row for reason in outcome.reasons if reason.surplus and not outcome.rows[reason.row].satisfied
        ]
        row = missing[0] if missing and outcome.satisfied else NONE
    if outcome.verdict is Verdict.HELD or row == NONE:
        return ()
    trial = _Trial(plan, number, row, policy or Policy())
    found: list[Remedy] = []
    for look in (trial.uncordon, trial.evict, trial.relax, trial.lower, trial.free):
        remedy = look()
        if remedy is not None:
            found.append(remedy)
        if len(found) == most:
            break
    return tuple(found)


class _Trial:
    """The gang alone, on the room that is left, with what it was given in the cycle."""

    def __init__(self, plan: Plan, number: int, row: int, policy: Policy) -> None:
        self._plan, self._number, self._row = plan, number, row
        # Beyond the minimum, the other surplus is not asked about.
        self._policy = replace(policy, surplus=row != 0)
        self._gang = _after(plan, number)
        snapshot = plan.snapshot
        free = snapshot.free.copy()
        for placement in plan.placements:
            ask = snapshot.asks[snapshot.gangs[placement.gang].waiting[placement.batch].shape]
            np.subtract.at(free, list(placement.nodes), ask)
        self._left = replace(snapshot, free=free)

    def _fits(self, snapshot: Snapshot, gang: Gang | None = None) -> Plan | None:
        """The plan for the gang alone, if the tree node that this is about is satisfied in it."""
        alone = replace(snapshot, gangs=(gang or self._gang,), releasing=np.zeros_like(snapshot.releasing))
        plan, _ = schedule(alone, self._policy)
        outcome = plan.outcomes[0]
        return plan if outcome.satisfied and outcome.rows[self._row].satisfied else None

    def _with_room(self, free: Amounts) -> Snapshot:
        return replace(self._left, free=free)

    def _used(self, plan: Plan) -> dict[int, Amounts]:
        """What is asked of each node."""
        asked: dict[int, Amounts] = {}
        for placement in plan.placements:
            ask = plan.snapshot.asks[plan.snapshot.gangs[0].waiting[placement.batch].shape]
            for node in placement.nodes:
                asked[node] = asked.get(node, 0) + ask
        return asked

    def uncordon(self) -> Remedy | None:
        """Nodes that only a cordon keeps the gang from."""
        behind = self._left.behind_cordons
        if not any(mask.any() for mask in behind.values()):
            return None
        plan = self._fits(self._opened(behind))
        if plan is None:
            return None
        nodes = [node for node in self._used(plan) if any(mask[node] for mask in behind.values())]
        nodes = self._spare(nodes, lambda some: self._opened(_only(behind, some)))
        return Remedy(UNCORDON, tuple(sorted(nodes)))

    def _opened(self, masks: Mapping[int, Mask]) -> Snapshot:
        allowed = {shape: mask | masks[shape] if shape in masks else mask for shape, mask in self._left.allowed.items()}
        return replace(self._left, allowed=allowed)

    def _spare(self, things: Sequence[Thing], snapshot_with: Callable[[Sequence[Thing]], Snapshot]) -> list[Thing]:
        """The things without those that are not needed: each is left out once, and stays out if it still fits."""
        needed = list(things)
        for thing in list(things)[:_MOST_SPARED]:
            fewer = [other for other in needed if other != thing]
            if self._fits(snapshot_with(fewer)) is not None:
                needed = fewer
        return needed

    def evict(self) -> Remedy | None:
        """Surplus of gangs that allow it, no more than is needed."""
        units = list(self._surplus())
        if not units:
            return None
        plan = self._fits(self._with_room(self._without(units)))
        if plan is None:
            return None
        snapshot = self._plan.snapshot
        short = {node for node, asked in self._used(plan).items() if (self._left.free[node] < asked).any()}
        near = [unit for unit in units if any(_node(snapshot, victim) in short for victim in unit)]
        needed = self._spare(near, lambda some: self._with_room(self._without(some)))
        return Remedy(EVICT, victims=tuple(victim for unit in needed for victim in unit))

    def _surplus(self) -> Iterator[tuple[Victim, ...]]:
        """Units that may go by themselves: an extra pod of a leaf, newest first, or a whole extra child."""
        for number, gang in enumerate(self._plan.snapshot.gangs):
            if number == self._number or gang.held or gang.preemptibility == _FIRM or not gang.satisfied[0]:
                continue
            rows = range(len(gang.tree.nodes))
            placed = [len(gang.placed.get(row, NOBODY).nodes) for row in rows]
            succeeded = [gang.counts.get(row, Counts()).succeeded for row in rows]
            needed = core(gang.tree, placed, succeeded, gang.was_core)
            if needed.floor_pods:
                continue
            for row in reversed(rows):
                node = gang.tree.nodes[row]
                if not needed.nodes[row] and needed.nodes[node.parent]:
                    pods = [
                        Victim(number, leaf, pod) for leaf in leaves_below(gang, row) for pod in range(placed[leaf])
                    ]
                    if pods:
                        yield tuple(pods)
                elif needed.nodes[row] and not node.children:
                    for pod in range(placed[row] - 1, needed.pods[row] - 1, -1):
                        yield (Victim(number, row, pod),)

    def _without(self, units: Sequence[Sequence[Victim]]) -> Amounts:
        snapshot = self._plan.snapshot
        free = self._left.free.copy()
        for unit in units:
            for victim in unit:
                shape = snapshot.gangs[victim.gang].placed[victim.leaf].shapes[victim.pod]
                free[_node(snapshot, victim)] += snapshot.asks[shape]
        return free

    def relax(self) -> Remedy | None:
        """A wider level on one tree node, as narrow as it can be; those with the narrowest level are asked first."""
        holds = self._gang.holds
        order = sorted(range(len(holds)), key=lambda at: (holds[at].row != self._culprit(), -holds[at].required, at))
        for at in order:
            hold = holds[at]
            for level in range(hold.required - 1, NONE - 1, -1):
                changed = [*holds[:at], hold._replace(required=level, preferred=NONE), *holds[at + 1 :]]
                if self._fits(self._left, replace(self._gang, holds=tuple(changed))) is not None:
                    return Remedy(RELAX, row=hold.row, topology=hold.topology, before=hold.required, level=level)
        return None

    def _certificate(self) -> Certificate | None:
        """What was counted of the way to meet the minimum that is preferred."""
        proof = self._plan.outcomes[self._number].proof
        if isinstance(proof, Choices):
            proof = proof.refuted[0]
        return proof if isinstance(proof, Certificate) else None

    def _culprit(self) -> int:
        """The tree node that the proof is about."""
        certificate = self._certificate()
        return self._row or (certificate.row if certificate is not None else NONE)

    def lower(self) -> Remedy | None:
        """A smaller minimum of one tree node, as large as it can be: of the one that fails, else of one above it."""
        rows = [self._culprit()] if self._culprit() != NONE else list(self._gang.tree.leaves)
        for start in rows:
            row = start
            while row != NONE:
                found = self._largest_minimum(row)
                if found:
                    return Remedy(LOWER, row=row, before=self._gang.tree.nodes[row].minimum, level=found)
                row = self._gang.tree.nodes[row].parent
        return None

    def _largest_minimum(self, row: int) -> int:
        """The largest minimum below the present one with which the gang fits; 0 when there is none."""
        low, high = 0, self._gang.tree.nodes[row].minimum - 1
        while low < high:
            middle = (low + high + 1) // 2
            if (
                self._fits(self._left, replace(self._gang, tree=_with_minimum(self._gang.tree, row, middle)))
                is not None
            ):
                low = middle
            else:
                high = middle - 1
        if low and self._fits(self._left, replace(self._gang, tree=_with_minimum(self._gang.tree, row, low))) is None:
            return 0
        return low

    def free(self) -> Remedy | None:
        """Nodes to be emptied, in the nearest domain if one is named; never of the gang's own pods."""
        own = {node for placed in self._gang.placed.values() for node in placed.nodes}
        plan = None
        for places in (self._nearby(), range(len(self._left.nodes))):
            plan = plan or self._fits(self._emptied([node for node in places if node not in own]))
        if plan is None:
            return None
        short = [node for node, asked in self._used(plan).items() if (self._left.free[node] < asked).any()]
        fullest = sorted(short, key=lambda node: (-int(self._taken(node).sum()), node))
        return Remedy(FREE, tuple(sorted(self._spare(fullest, self._emptied))))

    def _taken(self, node: int) -> Amounts:
        """What pods hold of a node; only its order matters."""
        taken: Amounts = np.maximum(self._left.allocatable[node] - self._left.free[node], 0)
        return taken

    def _emptied(self, nodes: Sequence[int]) -> Snapshot:
        free = self._left.free.copy()
        free[list(nodes)] = self._left.allocatable[list(nodes)]
        return self._with_room(free)

    def _nearby(self) -> list[int]:
        """The nodes of the domain that the reason names."""
        reasons = [one for one in self._plan.outcomes[self._number].reasons if self._row in (0, one.row)]
        for one in reasons:
            if one.domain != NONE:
                return [int(node) for node in self._left.topologies[one.topology].nodes_of(one.level, one.domain)]
        return []


# Beyond so many, nobody looks whether one more can be spared.
_MOST_SPARED = 16


def _after(plan: Plan, number: int) -> Gang:
    """The gang as it is when the plan is carried out."""
    gang = plan.snapshot.gangs[number]
    placed = dict(gang.placed)
    taken: dict[int, set[int]] = {}
    for placement in plan.placements:
        if placement.gang != number or placement.nominated:
            continue
        batch = gang.waiting[placement.batch]
        taken.setdefault(placement.batch, set()).update(placement.pods)
        before = placed.get(batch.leaf, NOBODY)
        placed[batch.leaf] = Placed(
            (*before.pods, *(batch.pods[pod] for pod in placement.pods)),
            (*before.nodes, *placement.nodes),
            (*before.shapes, *([batch.shape] * len(placement.pods))),
        )
    waiting = []
    for at, batch in enumerate(gang.waiting):
        left = [pod for pod in range(len(batch.pods)) if pod not in taken.get(at, ())]
        if left:
            waiting.append(
                batch._replace(
                    pods=tuple(batch.pods[pod] for pod in left),
                    ages=tuple(batch.ages[pod] for pod in left),
                    nominated=tuple(batch.nominated[pod] for pod in left),
                )
            )
    return replace(gang, waiting=tuple(waiting), placed=placed)


def _node(snapshot: Snapshot, victim: Victim) -> int:
    return snapshot.gangs[victim.gang].placed[victim.leaf].nodes[victim.pod]


def _only(masks: Mapping[int, Mask], nodes: Sequence[int]) -> dict[int, Mask]:
    keep = np.zeros(len(next(iter(masks.values()))), dtype=bool)
    keep[list(nodes)] = True
    return {shape: mask & keep for shape, mask in masks.items()}


def _with_minimum(tree: Tree, row: int, minimum: int) -> Tree:
    nodes = [node._replace(minimum=minimum) if at == row else node for at, node in enumerate(tree.nodes)]
    return Tree(tuple(nodes), tree.together)
