"""Which pods an attempt is about: which children (any k of n), how many pods of each leaf, which of unlike pods.

Everything here is lazy and in the order of SPEC §5.3: fewest missing pods, then the order of the spec. The first demand
nearly always decides; the others are there so that nothing that fits is refused.
"""

import heapq
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import combinations, count, islice
from math import comb, inf
from typing import NamedTuple

from muster.api.tree import NONE, Tree
from muster.snapshot.arrays import Batch

# Up to so many ways to choose children they are all listed and sorted; beyond, found one by one.
_LISTED = 2_000
# Unlike pods of so many leaves and shapes can't be chosen from in every way.
_TOO_MANY = 200

# So many ways to pick pods from one leaf are compared with one another.
_COMPARED = 64

# Up to so many kinds of children, ways that differ only in equal children are left out.
_FEW_LOOKS = 100

Needs = dict[int, int]
# Whether a pod of the first shape fits wherever one of the second does.
Easier = Callable[[int, int], bool]


class Stock(NamedTuple):
    """What there is of a gang: per row, the pods of a leaf that are there, and those that wait."""

    tree: Tree
    present: Sequence[int]
    waiting: Sequence[int]


class Ways:
    """The ways to satisfy one tree node. Rows in `barred` are known to be impossible.

    Children with equal `looks` are interchangeable: of ways that differ only in them the first is enough.
    """

    def __init__(
        self, stock: Stock, barred: Collection[int] = (), looks: Callable[[int], object] | None = None
    ) -> None:
        self._stock, self._barred, self._looks = stock, barred, looks
        self._missing: dict[int, float] = {}

    def _count(self, row: int) -> None:
        """Per row below: the fewest pods that are missing for its minimum; infinite when there are not enough."""
        nodes, found = self._stock.tree.nodes, self._missing
        below = [row]
        for at in below:
            below.extend(nodes[at].children)
        for at in reversed(below):
            node = nodes[at]
            if node.children:
                found[at] = sum(sorted(found[child] for child in node.children)[: node.minimum])
            else:
                lacking = max(0, node.minimum - self._stock.present[at])
                found[at] = lacking if lacking <= self._stock.waiting[at] else inf
            if at in self._barred and found[at] > 0:
                found[at] = inf

    def of(self, row: int) -> Iterator[Needs]:
        """Per leaf the missing pods that satisfy the row, the cheapest choice first."""
        self._count(row)
        if self._missing[row] == inf:
            return
        nodes, order = self._stock.tree.nodes, count()
        if not nodes[row].children or self._missing[row] == 0:
            yield {row: int(self._missing[row])} if self._missing[row] else {}
            return
        subsets: dict[int, _Subsets] = {}
        # Cost of everything, rows chosen so far, leaves, branches to open, the branch to open now, which subset of it.
        heap: list[tuple[float, tuple[int, ...], int, tuple[int, ...], tuple[int, ...], int, int]] = []

        def push(chosen: tuple[int, ...], leaves: tuple[int, ...], todo: tuple[int, ...], branch: int, at: int) -> None:
            if branch not in subsets:
                node = nodes[branch]
                subsets[branch] = _Subsets(node.children, node.minimum, self._missing, self._looks)
            found = subsets[branch][at]
            if found is not None:
                rest = sum(self._missing[other] for other in (*leaves, *todo))
                heapq.heappush(heap, (rest + found[0], (*chosen, *found[1]), next(order), leaves, todo, branch, at))

        push((), (), (), row, 0)
        while heap:
            _, chosen, _, leaves, todo, branch, at = heapq.heappop(heap)
            found = subsets[branch][at]
            assert found is not None
            push(chosen[: len(chosen) - len(found[1])], leaves, todo, branch, at + 1)
            lacking = [child for child in found[1] if self._missing[child] > 0]
            leaves = (*leaves, *(child for child in lacking if not nodes[child].children))
            todo = (*todo, *(child for child in lacking if nodes[child].children))
            if todo:
                push(chosen, leaves, todo[1:], todo[0], 0)
            else:
                yield {leaf: int(self._missing[leaf]) for leaf in sorted(leaves)}


class _Subsets:
    """The ways to take k of some children, cheapest first, then in the order of the spec; counted out lazily."""

    def __init__(
        self,
        children: Sequence[int],
        size: int,
        costs: Mapping[int, float],
        looks: Callable[[int], object] | None = None,
    ) -> None:
        able = [child for child in children if costs[child] < inf]
        self._costs = costs
        # What is satisfied already counts, and leaves less to choose.
        met = [child for child in able if costs[child] == 0][:size]
        self._met = tuple(met)
        taken = set(met)
        self._able = sorted((child for child in able if child not in taken), key=lambda child: (costs[child], child))
        self._wanted = size - len(met)
        # Places that look the same, in their order: the first of them are taken first.
        self._twins: list[list[int]] = []
        if looks is not None:
            by_look: dict[object, list[int]] = {}
            for place, child in enumerate(self._able):
                by_look.setdefault(looks(child), []).append(place)
            self._twins = list(by_look.values())
        self._found: list[tuple[float, tuple[int, ...]]] = []
        self._next = self._all()

    def __getitem__(self, at: int) -> tuple[float, tuple[int, ...]] | None:
        while len(self._found) <= at:
            following = next(self._next, None)
            if following is None:
                return None
            self._found.append(following)
        return self._found[at]

    def _all(self) -> Iterator[tuple[float, tuple[int, ...]]]:
        if len(self._able) < self._wanted:
            return
        few_looks = 0 < len(self._twins) < len(self._able)
        if not few_looks and comb(len(self._able), self._wanted) <= _LISTED:
            ways = (self._way(places) for places in combinations(range(len(self._able)), self._wanted))
            yield from sorted(ways)
            return
        first = tuple(range(self._wanted))
        heap, seen = [(*self._way(first), first)], {first}
        while heap:
            cost, rows, places = heapq.heappop(heap)
            yield cost, rows
            for gone, come in self._moves(set(places)):
                moved = tuple(sorted((*(place for place in places if place != gone), come)))
                if moved not in seen:
                    seen.add(moved)
                    heapq.heappush(heap, (*self._way(moved), moved))

    def _moves(self, chosen: set[int]) -> Iterator[tuple[int, int]]:
        """Places to leave and places to take instead, further on; together they lead to every way, but for twins."""
        if not 0 < len(self._twins) <= _FEW_LOOKS:
            yield from (
                (place, place + 1) for place in chosen if place + 1 < len(self._able) and place + 1 not in chosen
            )
            return
        last = [max((place for place in twins if place in chosen), default=NONE) for twins in self._twins]
        following = [next((place for place in twins if place not in chosen), NONE) for twins in self._twins]
        for gone_from, gone in enumerate(last):
            for come_to, come in enumerate(following):
                if gone_from != come_to and gone != NONE and come > gone:
                    yield gone, come

    def _way(self, places: Sequence[int]) -> tuple[float, tuple[int, ...]]:
        rows = [self._able[place] for place in places]
        return sum(self._costs[row] for row in rows), tuple(sorted((*self._met, *rows)))


def pods_of(
    batches: Sequence[Batch], used: Sequence[int], needs: Mapping[int, int], extra: int, easier: Easier
) -> Iterator[tuple[int, ...] | None]:
    """Per batch how many of its pods: as many of each leaf as it needs, and `extra` more from anywhere.

    First the oldest pods of every leaf, the extra ones from the first leaves that have some; then every other way,
    except those that ask for more than another way of the same leaf in every respect. None says that there are other
    ways, too many to look at.
    """
    left = [len(batch.pods) - taken for batch, taken in zip(batches, used, strict=True)]
    first = _oldest(batches, used, left, needs, extra)
    if first is None:
        return
    yield first
    of_leaf: dict[int, list[int]] = {}
    for number, batch in enumerate(batches):
        if left[number] and (extra or needs.get(batch.leaf)):
            of_leaf.setdefault(batch.leaf, []).append(number)
    fixed = [
        len(numbers) == 1 or needs.get(leaf, 0) == sum(left[n] for n in numbers) for leaf, numbers in of_leaf.items()
    ]
    if not extra and all(fixed):
        return
    if sum(map(len, of_leaf.values())) > _TOO_MANY:
        yield None
        return
    picker = _Picker(batches, left, easier)
    counts = [0] * len(batches)
    for _ in _every(list(of_leaf.items()), 0, needs, picker, extra, counts):
        if tuple(counts) != first:
            yield tuple(counts)


def _oldest(
    batches: Sequence[Batch], used: Sequence[int], left: Sequence[int], needs: Mapping[int, int], extra: int
) -> tuple[int, ...] | None:
    counts = [0] * len(batches)
    by_leaf: dict[int, list[tuple[int, int]]] = {}
    for number, batch in enumerate(batches):
        by_leaf.setdefault(batch.leaf, []).extend((age, number) for age in batch.ages[used[number] :])
    for leaf, need in needs.items():
        for _, number in sorted(by_leaf.get(leaf, []))[:need]:
            counts[number] += 1
    for wanted in (True, False):
        for number, batch in enumerate(batches):
            if (batch.leaf in needs) == wanted:
                some = min(extra, left[number] - counts[number])
                counts[number] += some
                extra -= some
    return None if extra else tuple(counts)


def _every(
    leaves: Sequence[tuple[int, list[int]]],
    at: int,
    needs: Mapping[int, int],
    picker: "_Picker",
    extra: int,
    counts: list[int],
) -> Iterator[None]:
    """Writes every way into `counts`, one after the other."""
    if at == len(leaves):
        if extra == 0:
            yield
        return
    leaf, numbers = leaves[at]
    need = needs.get(leaf, 0)
    for more in range(min(extra, sum(picker.left[number] for number in numbers) - need), -1, -1):
        for way in picker.ways(tuple(numbers), need + more):
            for number, some in zip(numbers, way, strict=True):
                counts[number] = some
            yield from _every(leaves, at + 1, needs, picker, extra - more, counts)
    for number in numbers:
        counts[number] = 0


class _Picker:
    """The ways to take so many pods from some batches of a leaf, without those that are harder than another."""

    def __init__(self, batches: Sequence[Batch], left: Sequence[int], easier: Easier) -> None:
        self._batches, self.left, self._easier = batches, left, easier
        self._known: dict[tuple[tuple[int, ...], int], list[tuple[int, ...]]] = {}

    def ways(self, numbers: tuple[int, ...], pods: int) -> Iterator[tuple[int, ...]]:
        """Counts per batch, the first batches first."""
        limits = [self.left[number] for number in numbers]
        if (numbers, pods) not in self._known:
            found = list(islice(_shared(limits, pods), _COMPARED + 1))
            if len(found) > _COMPARED:
                yield from _shared(limits, pods)
                return
            shapes = [self._batches[number].shape for number in numbers]
            self._known[numbers, pods] = [way for at, way in enumerate(found) if self._counts(shapes, found, at)]
        yield from self._known[numbers, pods]

    def _counts(self, shapes: Sequence[int], found: Sequence[tuple[int, ...]], at: int) -> bool:
        """Whether no other way is easier; of equally easy ones the first counts."""
        for number, other in enumerate(found):
            if self._harder(shapes, found[at], other) and (number < at or not self._harder(shapes, other, found[at])):
                return False
        return True

    def _harder(self, shapes: Sequence[int], way: Sequence[int], other: Sequence[int]) -> bool:
        """Whether the pods of `other` can be paired with those of `way` such that each is as easy or easier."""
        if way == other:
            return False
        more = [(shape, a - b) for shape, a, b in zip(shapes, way, other, strict=True) if a > b]
        fewer = [(shape, b - a) for shape, a, b in zip(shapes, way, other, strict=True) if b > a]
        # With one shape on either side the pairing is plain; otherwise every pair must hold, which is enough.
        return all(self._easier(light, heavy) for light, _ in fewer for heavy, _ in more)


def _shared(limits: Sequence[int], pods: int, before: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    """Every way to take `pods` with at most so many of each."""
    if not limits:
        if pods == 0:
            yield before
        return
    for some in range(min(pods, limits[0]), max(0, pods - sum(limits[1:])) - 1, -1):
        yield from _shared(limits[1:], pods - some, (*before, some))
