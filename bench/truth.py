"""Another solver's word: the tree as a mixed-integer programme over racks, for HiGHS. Shares no code with the engine.

Two ways to say what a rack holds. Where the pods' sizes divide one another (1, 2, 4, 8 GPUs) slots are enough: of size
s a node with f free GPUs has f // s, a pod of g GPUs uses g // s. Otherwise nodes with the same free GPUs are counted
by pattern: all the ways to fill one of them.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import highspy

if TYPE_CHECKING:
    from bench.trees import Instance

SIZES = (1, 2, 4, 8)


def slots(free: Sequence[int], sizes: Sequence[int] = SIZES) -> list[int]:
    """Of each size, how many slots the nodes of a rack have."""
    return [sum(gpus // size for gpus in free) for size in sizes]


def is_feasible(found: "Instance", seconds: float) -> bool | None:
    """Whether a placement of the minimum exists; None when the solver ran out of time."""
    racks = len(found.free) // 2
    answers = []
    for zone in range(2):
        answers.append(_Zone(found, range(zone * racks, (zone + 1) * racks)).solve(seconds))
        if answers[-1]:
            return True
    return None if None in answers else False


class _Zone:
    """The programme for one zone: a block for each set, a rack for each leaf."""

    def __init__(self, found: "Instance", racks: range) -> None:
        self._solver = highspy.Highs()
        self._solver.setOptionValue("output_flag", False)
        self._solver.setOptionValue("threads", 1)
        self._found, self._racks = found, racks
        self._sizes = sorted({leaf.gpus for leaves in found.sets for leaf in leaves})
        self._has = {rack: slots(found.free[rack], self._sizes) for rack in racks}
        # Per rack and size, the leaves that may come there with their pods.
        self._pods: dict[tuple[int, int], dict[int, float]] = {}
        for number in range(len(found.sets)):
            self._place(number)
        if all(large % small == 0 for small, large in pairwise(self._sizes)):
            self._limit_slots()
        else:
            self._limit_patterns()

    def solve(self, seconds: float) -> bool | None:
        """Whether there is a solution; None when time is up."""
        self._solver.setOptionValue("time_limit", seconds)
        self._solver.run()
        status = self._solver.getModelStatus()
        if status == highspy.HighsModelStatus.kInfeasible:
            return False
        return True if status == highspy.HighsModelStatus.kOptimal else None

    def _whole(self, most: int) -> int:
        column = self._solver.getNumCol()
        self._solver.addVar(0, most)
        self._solver.changeColIntegrality(column, highspy.HighsVarType.kInteger)
        return int(column)

    def _between(self, least: float, terms: dict[int, float], most: float) -> None:
        self._solver.addRow(least, most, len(terms), list(terms), list(terms.values()))

    def _place(self, number: int) -> None:
        """A set is in one block, each of its leaves in at most one rack of it, and as many as are needed are."""
        blocks = sorted({rack // 5 for rack in self._racks})
        chosen = {block: self._whole(1) for block in blocks}
        self._between(1, dict.fromkeys(chosen.values(), 1), 1)
        placed: dict[int, list[int]] = {block: [] for block in blocks}
        for leaf in self._found.sets[number]:
            here = []
            for rack in self._racks:
                if leaf.pods <= self._has[rack][self._sizes.index(leaf.gpus)]:
                    column = self._whole(1)
                    here.append(column)
                    placed[rack // 5].append(column)
                    self._between(-1, {column: 1, chosen[rack // 5]: -1}, 0)
                    self._pods.setdefault((rack, leaf.gpus), {})[column] = leaf.pods
            self._between(0, dict.fromkeys(here, 1), 1)
        for block in blocks:
            terms = {**dict.fromkeys(placed[block], 1), chosen[block]: -self._found.needed[number]}
            self._between(0, terms, highspy.kHighsInf)

    def _limit_slots(self) -> None:
        for rack in self._racks:
            for index, size in enumerate(self._sizes):
                terms = {
                    column: pods * (gpus // size)
                    for gpus in self._sizes[index:]
                    for column, pods in self._pods.get((rack, gpus), {}).items()
                }
                self._between(0, terms, self._has[rack][index])

    def _limit_patterns(self) -> None:
        for rack in self._racks:
            room: dict[int, dict[int, float]] = {gpus: {} for gpus in self._sizes}
            for free, nodes in Counter(self._found.free[rack]).items():
                columns = []
                for pattern in patterns(free, self._sizes):
                    columns.append(self._whole(nodes))
                    for gpus, count in zip(self._sizes, pattern, strict=True):
                        room[gpus][columns[-1]] = -count
                self._between(0, dict.fromkeys(columns, 1), nodes)
            for gpus in self._sizes:
                self._between(-highspy.kHighsInf, {**self._pods.get((rack, gpus), {}), **room[gpus]}, 0)


def patterns(free: int, sizes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """The ways to fill a node: how many pods of each size, such that not one more fits."""
    if len(sizes) == 1:
        yield (free // sizes[0],)
        return
    for count in range(free // sizes[-1] + 1):
        for rest in patterns(free - count * sizes[-1], sizes[:-1]):
            yield (*rest, count)
