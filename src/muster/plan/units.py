"""What can be taken away from gangs at once (SPEC §8): leftovers, surplus pods, whole surplus children, whole gangs.

All units of a cluster stand in one table of arrays, so that choosing among thousands of them costs no loops.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from muster.api.once import once
from muster.api.tree import NONE, core, satisfied
from muster.model.reasons import Code
from muster.plan.accounts import core_counts
from muster.plan.outcome import UnitKind
from muster.snapshot.arrays import Gang, Placed, Snapshot

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
# A placed pod of a gang: leaf and place in the leaf.
Spot = tuple[int, int]
# Of so many units at most it is remembered whether they may go together.
_FEW = 12


class Unit(NamedTuple):
    """Pods of one gang that go together; `row` is the tree node that goes, or the leaf that loses a pod."""

    gang: int
    kind: UnitKind
    row: int
    pods: tuple[Spot, ...]


class Table:
    """All units: `gang`, `kind`, `priority`, `queue`, `age`, `pods`; and per pod of a unit `unit`, `node`, `shape`.

    `age` ranks units from the youngest on. A unit that is `rigid` is all there is of its gang: nothing but itself
    decides whether it may go. They stand first. One that is also just one pod is `alone`.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot, gangs, placed = snapshot, snapshot.gangs, snapshot.placed
        takes = np.array([bool(gang.placed) and not gang.is_firm for gang in gangs], dtype=bool)
        rigid = takes.copy()
        rigid[takes] = [_is_rigid(gangs[number]) for number in np.flatnonzero(takes).tolist()]
        whole = np.flatnonzero(rigid)
        rows = np.flatnonzero(rigid[placed.gang]) if len(placed.gang) else np.zeros(0, dtype=np.intp)
        self._rigid = len(whole)
        others = [unit for n in np.flatnonzero(takes & ~rigid).tolist() for unit in units_of(n, gangs[n])]
        self._others: list[Unit] = others
        self.gang: Numbers = np.concatenate([whole, _column(unit.gang for unit in others)])
        sizes = np.bincount(placed.gang[rows], minlength=len(gangs))[whole] if len(rows) else _column(())
        self.pods: Numbers = np.concatenate([sizes, _column(len(unit.pods) for unit in others)])
        kinds = np.full(self._rigid, int(UnitKind.WHOLE_GANG))
        self.kind: Numbers = np.concatenate([kinds, _column(unit.kind for unit in others)])
        priorities, created = _column(gang.priority for gang in gangs), _column(gang.created_ns for gang in gangs)
        self.started_ns: Numbers = _column(gang.started_ns for gang in gangs)[self.gang]
        self.priority: Numbers = priorities[self.gang]
        self.queue: Numbers = snapshot.queue_of[self.gang]
        numbers = np.arange(len(self.gang))
        self.rigid: Flags = numbers < self._rigid
        self.alone: Flags = self.rigid & (self.pods == 1)
        # Younger gangs first; in a gang in the order of SPEC §8, which is the order of its units.
        self.age: Numbers = np.empty(len(self.gang), dtype=np.int64)
        self.age[np.lexsort((numbers, self.gang, -created[self.gang]))] = numbers
        here = [(gangs[unit.gang].placed[leaf], at) for unit in others for leaf, at in unit.pods]
        self.unit: Numbers = np.repeat(numbers, self.pods)
        self.node: Numbers = np.concatenate([placed.node[rows], _column(one.nodes[at] for one, at in here)])
        self.shape: Numbers = np.concatenate([placed.shape[rows], _column(one.shapes[at] for one, at in here)])
        self.first: Numbers = np.cumsum(self.pods) - self.pods
        # The same pod may be in several units.
        pods: dict[tuple[int, int, int], int] = {}
        ids = [pods.setdefault((unit.gang, *spot), len(rows) + len(pods)) for unit in others for spot in unit.pods]
        self._pod: Numbers = np.concatenate([np.arange(len(rows)), _column(ids)])
        # Single pods of one leaf, of which only some can be spared: the leaf by number, and how many.
        self.leaf: Numbers = np.full(len(self.gang), NONE, dtype=np.int64)
        self.spare_pods: Numbers = np.zeros(len(self.gang), dtype=np.int64)
        leaves: dict[tuple[int, int], int] = {}
        for number, unit in enumerate(others, start=self._rigid):
            if unit.kind == UnitKind.SURPLUS_POD:
                self.leaf[number] = leaves.setdefault((unit.gang, unit.row), len(leaves))
                gang = gangs[unit.gang]
                self.spare_pods[number] = gang.present[unit.row] - gang.tree.nodes[unit.row].minimum
        # What is left: of the units, and of their pods, which several units may share.
        self.left: Flags = np.ones(len(self.gang), dtype=bool)
        self.there: Flags = np.ones(len(self.unit), dtype=bool)
        self.gone: dict[int, set[Spot]] = {}
        # Rows of gangs that have gone whole.
        self._went: dict[int, set[int]] = {}
        # What was found about units that go together, until more have gone.
        self._legal: dict[tuple[int, frozenset[int]], bool] = {}
        self._apart: dict[int, bool] = {}
        self._units_of: dict[int, list[int]] = {}
        for number, unit in enumerate(others, start=self._rigid):
            self._units_of.setdefault(unit.gang, []).append(number)

    def __len__(self) -> int:
        return len(self.gang)

    def __getitem__(self, number: int) -> Unit:
        """One unit."""
        if number >= self._rigid:
            return self._others[number - self._rigid]
        pods = tuple((0, at) for at in range(int(self.pods[number])))
        return Unit(int(self.gang[number]), UnitKind.WHOLE_GANG, 0, pods)

    @once
    def controlled(self) -> Flags:
        """Units of which every pod has a controller."""
        gangs, found = self._snapshot.gangs, np.ones(len(self), dtype=bool)
        found[: self._rigid] = [
            bool(placed.controlled) and all(placed.controlled)
            for placed in (gangs[number].placed[0] for number in self.gang[: self._rigid].tolist())
        ]
        for number, unit in enumerate(self._others, start=self._rigid):
            placed = gangs[unit.gang].placed
            found[number] = all(placed[leaf].controlled and placed[leaf].controlled[at] for leaf, at in unit.pods)
        return found

    @once
    def returns(self) -> Flags:
        """Units of gangs that would be placed again: nothing holds them, and they have their minimum."""
        gangs = self._snapshot.gangs
        able = np.ones(len(gangs), dtype=bool)
        for number in np.unique(self.gang[self._rigid :]).tolist():
            able[number] = not gangs[number].held and gangs[number].satisfied[0]
        return able[self.gang]

    @once
    def cost(self) -> Numbers:
        """What every unit costs its queue, per charge."""
        charges = self._snapshot.charges[self.shape]
        return np.add.reduceat(charges, self.first, axis=0) if len(self) else charges

    @once
    def costs(self) -> list[tuple[int, ...]]:
        """The same as numbers that are quick to look at one by one."""
        return list(map(tuple, self.cost.tolist()))

    def siblings(self, number: int) -> list[int]:
        """The units of the same gang."""
        return self._units_of.get(int(self.gang[number]), [number])

    def spots(self, number: int) -> list[Spot]:
        """The pods of a unit that have not gone yet."""
        unit = self[number]
        gone = self.gone.get(unit.gang)
        return [spot for spot in unit.pods if spot not in gone] if gone else list(unit.pods)

    def rows(self, numbers: Iterable[int]) -> Numbers:
        """The pods of some units, each pod once, by their places in the table."""
        chosen = np.zeros(len(self), dtype=bool)
        chosen[np.fromiter(numbers, dtype=np.int64)] = True
        rows = np.flatnonzero(chosen[self.unit] & self.there)
        if not chosen[self._rigid :].any():
            return rows
        _, first = np.unique(self._pod[rows], return_index=True)
        return rows[np.sort(first)]

    def is_legal(self, gang: int, numbers: Collection[int]) -> bool:
        """Whether these units of a gang may go together, after what has gone already."""
        found = self._snapshot.gangs[gang]
        single = all(self.kind[number] == UnitKind.SURPLUS_POD for number in numbers)
        if single and len(found.tree.nodes) == 1 and gang not in self.gone:
            # Without a tree it is a number.
            return found.present[0] - len(numbers) >= found.tree.nodes[0].minimum
        if len(numbers) > _FEW:
            return self._stands_without(gang, numbers)
        # Of a few units every choice is asked about, again and again.
        key = gang, frozenset(numbers)
        known = self._legal.get(key)
        if known is None:
            known = self._legal[key] = self._stands_without(gang, numbers)
        return known

    def _stands_without(self, gang: int, numbers: Collection[int]) -> bool:
        units = [self[number] for number in numbers]
        spots = {spot for unit in units for spot in unit.pods} | self.gone.get(gang, set())
        whole = {unit.row for unit in units if unit.kind >= UnitKind.SURPLUS_CHILD} | self._went.get(gang, set())
        return stands(self._snapshot.gangs[gang], spots, whole)

    def is_apart(self, gang: int) -> bool:
        """Whether the pods that a gang had at first are in several domains of a required level, or outside of all."""
        if gang not in self._apart:
            found, topologies = self._snapshot.gangs[gang], self._snapshot.topologies
            domains = (
                {
                    int(topologies[hold.topology].levels[hold.required].domain_of[node])
                    for leaf in hold.leaves
                    for node in _pods(found, leaf).nodes
                }
                for hold in found.holds
                if hold.required != NONE
            )
            self._apart[gang] = any(len(some) > 1 or NONE in some for some in domains)
        return self._apart[gang]

    def alike(self, number: int) -> object:
        """What a unit of one pod is to those who look for room; younger ones of the same are taken first."""
        if self.pods[number] > 1:
            return number
        unit, first = self[number], int(self.first[number])
        placed = self._snapshot.gangs[unit.gang].placed[unit.pods[0][0]]
        guards = placed.guards[unit.pods[0][1]] if placed.guards else ()
        whose = (NONE, int(self.queue[number])) if self.alone[number] else (unit.gang, unit.row)
        where = (int(self.node[first]), int(self.shape[first]))
        return whose, int(self.priority[number]), int(unit.kind), where, guards

    def spare(self, gang: int) -> None:
        """Nothing of a gang may go any more."""
        self.left[self.gang == gang] = False

    def take(self, numbers: Sequence[int]) -> None:
        """These units go."""
        taken = np.array(numbers, dtype=np.int64)
        self.left[taken] = False
        for number in taken[taken < self._rigid].tolist():
            self.there[self.first[number] : self.first[number] + self.pods[number]] = False
        for number in taken[taken >= self._rigid].tolist():
            unit = self[number]
            if self.leaf[number] != NONE:
                self.spare_pods[self.leaf == self.leaf[number]] -= 1
            self._legal.clear()
            self.gone.setdefault(unit.gang, set()).update(unit.pods)
            if unit.kind >= UnitKind.SURPLUS_CHILD:
                self._went.setdefault(unit.gang, set()).add(unit.row)
        for gang in np.unique(self.gang[taken[taken >= self._rigid]]).tolist():
            gone = self.gone[gang]
            for other in self._units_of[gang]:
                pods = self[other].pods
                for at, spot in enumerate(pods):
                    if spot in gone:
                        self.there[self.first[other] + at] = False
                self.left[other] &= any(spot not in gone for spot in pods)


def _column(numbers: Iterable[int]) -> Numbers:
    return np.fromiter(numbers, dtype=np.int64)


def _is_rigid(gang: Gang) -> bool:
    """Whether it is flat, has no more than its minimum, and may go."""
    if not gang.is_preemptible or gang.held or len(gang.tree.nodes) > 1:
        return False
    succeeded = gang.counts[0].succeeded if 0 in gang.counts else 0
    return 0 < len(gang.placed[0].nodes) == gang.tree.nodes[0].minimum - succeeded


def units_of(number: int, gang: Gang) -> Iterator[Unit]:
    """The units of one gang, those that are taken first at the front."""
    if not gang.placed or gang.is_firm or any(i.code == Code.INVALID for i in gang.held):
        return
    semi = not gang.is_preemptible
    every = tuple((leaf, at) for leaf, placed in sorted(gang.placed.items()) for at in range(len(placed.nodes)))
    if not gang.satisfied[0]:
        if not semi:
            yield Unit(number, UnitKind.WHOLE_GANG, 0, every)
        return
    found = list(_surplus(number, gang, semi))
    # Single pods the newest first, wherever they are; children as they stand, the last in the spec first.
    found.sort(key=lambda unit: (unit.kind, -_age_of(gang, unit) if unit.kind < UnitKind.SURPLUS_CHILD else 0))
    yield from found
    if not semi and (gang.minimum_pods[0] > 0 or any(gang.joined)):
        yield Unit(number, UnitKind.WHOLE_GANG, 0, every)


def _surplus(number: int, gang: Gang, semi: bool) -> Iterator[Unit]:
    """Everything of a satisfied gang that its minimum does not need, the last in the spec first.

    A joined child goes only with its parent: whatever is broken around it goes in one piece, and a parent that needs
    none of its children can go with those that joined.
    """
    tree, met, joined = gang.tree, gang.satisfied, gang.joined
    kept = core_counts(gang) if semi else {}
    core_rows = core(tree, gang.placed_pods, gang.succeeded_pods, gang.was_core, joined).nodes if semi else ()
    # Children that are satisfied beyond what a tree node needs.
    extra = [-node.minimum for node in tree.nodes]
    for row, node in enumerate(tree.nodes):
        if node.parent != NONE and met[row]:
            extra[node.parent] += 1
    whole = list(met)
    for row, node in enumerate(tree.nodes):
        whole[row] = whole[row] and (node.parent == NONE or whole[node.parent])
    for row in range(len(tree.nodes) - 1, -1, -1):
        node = tree.nodes[row]
        around = node.parent == NONE or whole[node.parent]
        below = [(leaf, at) for leaf in tree.leaves_below(row) for at in range(len(_pods(gang, leaf).nodes))]
        if not around or not below:
            continue
        if not met[row] and any(joined[row : tree.ends[row]]):
            if not joined[row]:
                yield Unit(number, UnitKind.LEFTOVER, row, tuple(below))
            continue
        if not met[row]:
            yield from (Unit(number, UnitKind.LEFTOVER, leaf, ((leaf, at),)) for leaf, at in reversed(below))
            continue
        if not node.children and gang.present[row] > node.minimum:
            places = range(len(below) - 1, kept.get(row, 0) - 1, -1)
            yield from (Unit(number, UnitKind.SURPLUS_POD, row, ((row, at),)) for at in places)
        if not row or joined[row] or (semi and core_rows[row]):
            continue
        if extra[node.parent] > 0 if node.minimum > 0 else any(joined[child] for child in node.children):
            yield Unit(number, UnitKind.SURPLUS_CHILD, row, tuple(below))


def _age_of(gang: Gang, unit: Unit) -> int:
    leaf, at = unit.pods[0]
    ages = gang.placed[leaf].ages
    return ages[at] if ages else at


def _pods(gang: Gang, leaf: int) -> Placed:
    return gang.placed.get(leaf, Placed((), (), ()))


def stands(gang: Gang, gone: Collection[Spot], whole: Collection[int]) -> bool:
    """Whether every tree node that was satisfied stays so without these pods, or goes whole (SPEC §11.5).

    `whole` are the tree nodes that are meant to go, with everything below: only they may be emptied.
    """
    present, left = list(gang.present), list(gang.placed_pods)
    for leaf, _ in gone:
        present[leaf] -= 1
        left[leaf] -= 1
    for row in range(len(left) - 1, 0, -1):
        left[gang.tree.nodes[row].parent] += left[row]
    after = satisfied(gang.tree, present)
    meant = [row in whole for row in range(len(left))]
    for row, node in enumerate(gang.tree.nodes):
        meant[row] = meant[row] or (node.parent != NONE and meant[node.parent])
    # Inside a child that is broken already nothing has to stay as it is.
    matters = list(gang.satisfied)
    for row, node in enumerate(gang.tree.nodes):
        if gang.satisfied[0] and node.parent != NONE and not matters[node.parent]:
            matters[row] = False
    columns = zip(matters, after, left, meant, strict=True)
    return all(now or not before or (goes and not pods) for before, now, pods, goes in columns)


def without(gang: Gang, gone: Collection[Spot]) -> Gang:
    """The gang without some placed pods."""
    placed = {}
    for leaf, found in gang.placed.items():
        kept = [at for at in range(len(found.nodes)) if (leaf, at) not in gone]
        if kept:
            placed[leaf] = Placed(
                tuple(found.pods[at] for at in kept),
                tuple(found.nodes[at] for at in kept),
                tuple(found.shapes[at] for at in kept),
                tuple(found.controlled[at] for at in kept) if found.controlled else (),
                tuple(found.guards[at] for at in kept) if found.guards else (),
                tuple(found.ages[at] for at in kept) if found.ages else (),
            )
    return replace(gang, placed=placed)
