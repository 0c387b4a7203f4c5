"""Every set of victims of a small instance, by brute force and without a line of the engine: which one is the best.

Legal sets of pods per gang are those of SPEC §8 in its own words; all their combinations stand in arrays, with whether
the gang that waits then fits. A unit is what can go at once: a leftover, a pod beyond its leaf's minimum, a surplus
child, a whole gang.
"""

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from muster.api.podgroup import NON_PREEMPTIBLE, SEMI_PREEMPTIBLE

NODES, GPUS, RACKS = 6, 8, 2
# Pod sizes of the gang that waits, in GPUs. They divide one another.
SIZES = (1, 2, 4, 8)
NONE_GOES, LEFTOVER, SURPLUS_POD, SURPLUS_CHILD, WHOLE_GANG = range(-1, 4)


class Leaf(NamedTuple):
    """The nodes that its pods are on, oldest pod first; what each has; how many are needed."""

    nodes: tuple[int, ...]
    gpus: int
    minimum: int


class Runs(NamedTuple):
    """A running gang: `needed` of its leaves must be satisfied. A single leaf is a flat PodGroup."""

    name: str
    queue: str
    priority: int
    # Seconds after the start: larger is younger.
    made: int
    preemptibility: str
    leaves: tuple[Leaf, ...]
    needed: int

    def pods(self) -> list[tuple[int, int]]:
        """All pods, by leaf and place."""
        return [(row, place) for row, leaf in enumerate(self.leaves) for place in range(len(leaf.nodes))]


class Instance(NamedTuple):
    """Running gangs, how many pods of each of `SIZES` wait, and the quotas of the queues that lose."""

    runs: tuple[Runs, ...]
    asks: tuple[int, ...]
    one_rack: bool
    quotas: dict[str, int]

    def free(self) -> list[int]:
        """GPUs per node that nobody has."""
        free = [GPUS] * NODES
        for gang in self.runs:
            for leaf in gang.leaves:
                for node in leaf.nodes:
                    free[node] -= leaf.gpus
        return free


Taken = frozenset[tuple[int, int]]


class Choice(NamedTuple):
    """A legal set of pods of one gang: what it frees, and what it counts for in the ranking."""

    pods: Taken
    freed: tuple[int, ...]
    kind: int
    gpus: int


def legal(gang: Runs) -> list[Choice]:
    """Every set of pods that may go, the empty one first."""
    everybody = gang.pods()
    choices = [Choice(frozenset(), (0,) * NODES, NONE_GOES, 0)]
    if gang.preemptibility == NON_PREEMPTIBLE:
        return choices
    safe = _core(gang) if gang.preemptibility == SEMI_PREEMPTIBLE else frozenset()
    may_go = [pod for pod in everybody if pod not in safe]
    for count in range(1, len(may_go) + 1):
        for taken in map(frozenset, combinations(may_go, count)):
            kind = _kind(gang, taken)
            if kind is not None:
                choices.append(_choice(gang, taken, kind))
    return choices


def _choice(gang: Runs, taken: Taken, kind: int) -> Choice:
    freed = [0] * NODES
    for row, place in taken:
        freed[gang.leaves[row].nodes[place]] += gang.leaves[row].gpus
    return Choice(taken, tuple(freed), kind, sum(freed))


def _left(gang: Runs, taken: Taken) -> list[int]:
    """Pods of each leaf that stay."""
    return [sum((row, place) not in taken for place in range(len(leaf.nodes))) for row, leaf in enumerate(gang.leaves)]


def _core(gang: Runs) -> Taken:
    """The first leaves that are needed, and of each its oldest pods."""
    whole = [row for row, leaf in enumerate(gang.leaves) if len(leaf.nodes) >= leaf.minimum]
    return frozenset((row, place) for row in whole[: gang.needed] for place in range(gang.leaves[row].minimum))


def _kind(gang: Runs, taken: Taken) -> int | None:
    """The largest unit in a set of pods; None when the set is none that may go.

    Every node of the tree that was satisfied stays so, or all its pods go and what is around it stays satisfied.
    """
    if len(taken) == len(gang.pods()):
        return WHOLE_GANG
    left = _left(gang, taken)
    met = [left[row] >= leaf.minimum for row, leaf in enumerate(gang.leaves)]
    if sum(met) < gang.needed:
        return None
    kind = LEFTOVER
    for row, leaf in enumerate(gang.leaves):
        was_met = len(leaf.nodes) >= leaf.minimum
        if was_met and not met[row] and left[row]:
            return None
        if was_met and left[row] < len(leaf.nodes):
            kind = max(kind, SURPLUS_POD if left[row] else SURPLUS_CHILD)
    return kind


def units(gang: Runs) -> int:
    """How many units of the gang may go, each by itself or after others of it."""
    found = legal(gang)
    single = {pod for choice in found if len(choice.pods) == 1 and choice.kind < SURPLUS_CHILD for pod in choice.pods}
    children = {
        row
        for choice in found
        for row, leaf in enumerate(gang.leaves)
        if choice.kind == SURPLUS_CHILD and choice.pods == {(row, place) for place in range(len(leaf.nodes))}
    }
    return len(single) + len(children) + any(choice.kind == WHOLE_GANG for choice in found)


class Rank(NamedTuple):
    """What makes a set of victims better: less of each, the first difference decides."""

    minimums: int
    priority: int
    kind: int
    pods: int
    # The oldest gang that is hit is as young as possible.
    age: int


class Best(NamedTuple):
    """The best of all choices, and how many of them there were."""

    rank: Rank | None
    looked_at: int


class Combinations:
    """All combinations of one choice per gang, as arrays with one entry each."""

    def __init__(self, found: Instance, choices: Sequence[Sequence[Choice]]) -> None:
        self._found = found
        count = 1
        for some in choices:
            count *= len(some)
        self.count = count
        self.freed = np.zeros((NODES, count), dtype=np.int16)
        self.kind = np.full(count, NONE_GOES, dtype=np.int16)
        self.pods = np.zeros(count, dtype=np.int16)
        self.priority = np.full(count, NONE_GOES, dtype=np.int16)
        self.made = np.full(count, 2**30, dtype=np.int32)
        self.taken = {name: np.zeros(count, dtype=np.int16) for name in found.quotas}
        self.largest = {name: np.zeros(count, dtype=np.int16) for name in found.quotas}
        after = count
        for gang, some in zip(found.runs, choices, strict=True):
            after //= len(some)
            self._add(gang, some, after)

    def _add(self, gang: Runs, some: Sequence[Choice], after: int) -> None:
        """The digits of a number with mixed bases: which choice of this gang every combination has."""

        def spread(values: Sequence[int]) -> npt.NDArray[np.int16]:
            return np.tile(np.repeat(np.array(values, dtype=np.int16), after), self.count // (after * len(some)))

        for node in range(NODES):
            amounts = [choice.freed[node] for choice in some]
            if any(amounts):
                self.freed[node] += spread(amounts)
        self.kind = np.maximum(self.kind, spread([choice.kind for choice in some]))
        self.pods += spread([len(choice.pods) for choice in some])
        hit = spread([bool(choice.pods) for choice in some]).astype(bool)
        self.priority = np.where(hit, np.maximum(self.priority, gang.priority), self.priority)
        self.made = np.where(hit, np.minimum(self.made, gang.made), self.made)
        if gang.queue in self.taken:
            gpus = spread([choice.gpus for choice in some])
            self.taken[gang.queue] += gpus
            self.largest[gang.queue] = np.maximum(self.largest[gang.queue], gpus)

    def good(self) -> npt.NDArray[np.bool_]:
        """Where the gang that waits fits and every queue is above its quota before the last of its units goes."""
        free = np.array(self._found.free(), dtype=np.int16)[:, None] + self.freed
        rows = np.arange(NODES)
        inside = [rows % RACKS == rack for rack in range(RACKS)] if self._found.one_rack else [rows >= 0]
        good = np.zeros(self.count, dtype=bool)
        for nodes in inside:
            good |= fits(free[nodes], self._found.asks)
        for name, quota in self._found.quotas.items():
            has = sum(
                leaf.gpus * len(leaf.nodes) for gang in self._found.runs if gang.queue == name for leaf in gang.leaves
            )
            # The order is free, so the largest goes last.
            good &= (self.taken[name] == 0) | (has - (self.taken[name] - self.largest[name]) > quota)
        return good

    def rank(self, at: int) -> Rank:
        """Of one combination."""
        kind, priority, pods, made = (int(some[at]) for some in (self.kind, self.priority, self.pods, self.made))
        return Rank(int(kind == WHOLE_GANG), priority, kind, pods, -made)


def fits(free: npt.NDArray[np.int16], asks: Sequence[int]) -> npt.NDArray[np.bool_]:
    """Whether pods of `SIZES` fit. The sizes divide one another, so counting slots of each is all there is to it."""
    good = np.ones(free.shape[1], dtype=bool)
    for index, size in enumerate(SIZES):
        wanted = sum(count * (SIZES[larger] // size) for larger, count in enumerate(asks) if larger >= index)
        if asks[index] or wanted:
            good &= (free // size).sum(axis=0) >= wanted
    return good


def best(found: Instance) -> Best:
    """The best set of victims; no rank when there is none."""
    choices = [without_worse(legal(gang)) for gang in found.runs]
    every = Combinations(found, choices)
    at = np.flatnonzero(every.good())
    if not len(at):
        return Best(None, every.count)
    minimums = (every.kind[at] == WHOLE_GANG).astype(np.int8)
    order = np.lexsort((-every.made[at], every.pods[at], every.kind[at], every.priority[at], minimums))
    return Best(every.rank(int(at[order[0]])), every.count)


def without_worse(choices: Sequence[Choice]) -> list[Choice]:
    """Of choices that free the same, only those that no other beats: pods of one leaf on one node are all alike."""
    kept: dict[tuple[tuple[int, ...], int, int], Choice] = {}
    for choice in choices:
        kept.setdefault((choice.freed, choice.kind, len(choice.pods)), choice)
    return [
        choice
        for (freed, kind, pods), choice in kept.items()
        if not any(
            freed == other[0] and other[1] <= kind and other[2] <= pods and other != (freed, kind, pods)
            for other in kept
        )
    ]


class Judged(NamedTuple):
    """The engine's set by the same rules: its rank, what is wrong with it, and whether it could do with less."""

    rank: Rank | None
    fault: str


def judged(found: Instance, taken: dict[str, Taken]) -> Judged:
    """A set of victims per gang, judged by brute force: of all its legal parts only the whole may do."""
    choices = []
    for gang in found.runs:
        pods = taken.get(gang.name, frozenset())
        allowed = [choice for choice in legal(gang) if choice.pods <= pods]
        if all(choice.pods != pods for choice in allowed):
            return Judged(None, "not legal")
        # The set itself last, so that it is the last of all combinations.
        choices.append(sorted(allowed, key=lambda choice: len(choice.pods)))
    every = Combinations(found, choices)
    good = np.flatnonzero(every.good())
    if not len(good) or good[-1] != every.count - 1:
        return Judged(None, "does not do")
    return Judged(every.rank(every.count - 1), "" if len(good) == 1 else "not minimal")
