"""What every queue holds while a cycle goes on, what of it may not be evicted, and what it may have (SPEC §6, §7)."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import gcd, inf

import numpy as np

from muster.api.tree import NONE, core
from muster.plan.outcome import QueueOutcome
from muster.plan.progress import Progress
from muster.plan.proof import Refused
from muster.plan.shares import fair_shares, quota_of
from muster.snapshot.arrays import Gang, Placed, Snapshot
from muster.snapshot.queues import CHARGES, PARTS, UNLIMITED

# Amounts per charge, in base units.
Charge = tuple[int, ...]
# Amounts by queue.
Table = Sequence[Sequence[int]] | Mapping[int, Sequence[int]]
NOTHING: Charge = (0,) * len(CHARGES)
_EACH = range(len(CHARGES))
_GPU = CHARGES.index("gpu")
# Pods that leave are counted as younger than all others.
_YOUNGEST = 2**40


def plus(one: Sequence[int], other: Sequence[int], times: int = 1) -> Charge:
    """The sum, the other one so many times."""
    return tuple(a + times * b for a, b in zip(one, other, strict=True))


class Accounts:
    """Allocated and non-preemptible amounts of every queue; what is charged to one is charged to all above it."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot, self.queues = snapshot, snapshot.queues
        names = len(self.queues.names)
        self._charges: list[Charge] = [tuple(row) for row in snapshot.charges.tolist()]
        # One queue that nobody wrote down limits nothing and comes before nobody.
        self.matter = self.queues.written or names > 1
        self._limit: list[list[int]] = self.queues.limit.tolist()
        self._quota: list[list[int]] = self.queues.quota.tolist()
        # Whether some queue of the path has an end.
        self._ends: list[bool] = []
        for row in range(names):
            parent = self.queues.parent_of[row]
            own = min(*self._limit[row], *self._quota[row]) < UNLIMITED
            self._ends.append(own or (parent != NONE and self._ends[parent]))
        self.restart()

    def restart(self) -> None:
        """Everything as it was before the cycle."""
        self.allocated, self.firm, self.requested = self._nothing(), self._nothing(), self._nothing()
        # What is charged and only nominated.
        self._awaited, self._awaited_firm = self._nothing(), self._nothing()
        # What pods hold that leave, as long as they are there, and what of it counts against the quota.
        self._leaving, self._leaving_firm = self._nothing(), self._nothing()
        self.fair: list[Charge] = [NOTHING] * len(self.queues.names)
        # Queues that lost something since somebody looked: they may come earlier in line.
        self.lighter: set[int] = set(range(len(self.queues.names)))
        if self.matter:
            self._add_up()

    def _nothing(self) -> list[list[int]]:
        return [[0] * len(CHARGES) for _ in self.queues.names]

    def _add_up(self) -> None:
        """What placed pods hold, and what ready gangs ask for."""
        snapshot, row_of = self._snapshot, self.queues.row_of
        held = Counter[tuple[int, int]]()
        queues, shapes = snapshot.queue_of[snapshot.placed.gang], snapshot.placed.shape
        kinds = len(self._charges)
        pairs, counts = np.unique(queues * kinds + shapes, return_counts=True)
        for pair, count in zip(pairs.tolist(), counts.tolist(), strict=True):
            # Without a queue the row is -1, and stays so.
            held[pair // kinds, pair % kinds] = count
        for gang in snapshot.gangs:
            if not gang.is_preemptible and gang.placed and gang.queue in row_of:
                self.charge(row_of[gang.queue], NOTHING, self.firm_of(gang))
            for shape in gang.aside:
                held[row_of.get(gang.queue, NONE), shape] += 1
        for stray in snapshot.strays:
            row = row_of.get(stray.queue, NONE)
            held[row, stray.shape] += stray.pods
            if row != NONE:
                # Nothing evicts pods of a gang that can't be built: they count against the quota of what stays.
                self.charge(row, NOTHING, self.cost([(stray.shape, stray.pods)]))
        self._count_leaving()
        asked = Counter[tuple[int, int]]()
        for number in snapshot.waiting:
            gang = snapshot.gangs[number]
            row = row_of.get(gang.queue, NONE)
            if row != NONE and not gang.held and gang.ready[0]:
                for batch in gang.waiting:
                    asked[row, batch.shape] += len(batch.pods)
        # Hostile amounts add up to more than 64 bits hold: whole numbers of Python do not mind.
        wanted = [[0] * len(CHARGES) for _ in self.queues.names]
        gpus = set[int]()
        for pods, tables in ((held, (self.allocated, self.requested)), (asked, (self.requested,))):
            for (row, shape), count in pods.items():
                if row == NONE:
                    continue
                cost = self.cost([(shape, count)])
                wanted[row] = list(plus(wanted[row], cost))
                if shape not in snapshot.unoffered:
                    # What no node offers is never given: it must not change how others are rounded.
                    gpus.add(self._charges[shape][_GPU])
                for table in tables:
                    for above in self.queues.paths[row]:
                        table[above] = list(plus(table[above], cost))
        # Cores and bytes are shared by the unit; GPUs whole, or in the largest slices that all pods are made of.
        pieces = [gcd(PARTS, *gpus) if c == _GPU else 1 for c in _EACH]
        self.fair = fair_shares(self.queues, snapshot.capacity, wanted, pieces)

    def _count_leaving(self) -> None:
        """What terminating pods hold: of gangs, and strays."""
        snapshot, row_of = self._snapshot, self.queues.row_of
        found = Counter[tuple[str, int, bool]]()
        for gang in snapshot.gangs:
            for one, firm in zip(gang.leaving, firm_leavers(gang), strict=True) if gang.leaving else ():
                found[one.queue, one.shape, firm] += 1
        for stray in snapshot.leaving_strays:
            found[stray.queue, stray.shape, True] += stray.pods
        for (queue, shape, firm), pods in found.items():
            if queue in row_of:
                cost = self.cost([(shape, pods)])
                self.leave(row_of[queue], cost, cost if firm else NOTHING)

    def row_of(self, gang: Gang) -> int:
        """The queue of a gang by number; NONE when there is none to charge."""
        return self.queues.row_of.get(gang.queue, NONE)

    def cost(self, pods: Iterable[tuple[int, int]]) -> Charge:
        """What (shape, pods) cost a queue."""
        total = [0] * len(CHARGES)
        for shape, count in pods:
            for c, amount in enumerate(self._charges[shape]):
                total[c] += amount * count
        return tuple(total)

    def firm_of(self, gang: Gang) -> Charge:
        """The part of a gang that may not be evicted."""
        return self.cost(firm_counts(gang).items())

    def firm_more(self, progress: Progress, counts: Mapping[int, int], cost: Charge) -> Charge:
        """What may not be evicted any more once so many pods of each batch are placed, which cost `cost`."""
        gang = progress.gang
        if gang.is_firm:
            return cost
        if gang.is_preemptible:
            return NOTHING
        then = [used + counts.get(batch, 0) for batch, used in enumerate(progress.used)]
        now, later = (self.cost((shape, 1) for _, shape in core_pods(gang, used)) for used in (progress.used, then))
        return plus(later, now, -1)

    def has_end(self, row: int) -> bool:
        """Whether the queue, or one above it, has a limit or a quota."""
        return self._ends[row]

    def charge(self, row: int, amount: Sequence[int], firm: Sequence[int], sign: int = 1) -> None:
        """Something is charged to a queue, or with sign -1 taken off it."""
        if sign < 0:
            self.lighter.add(row)
        for at in self.queues.paths[row]:
            allocated, kept = self.allocated[at], self.firm[at]
            for c in _EACH:
                allocated[c] += sign * amount[c]
                kept[c] += sign * firm[c]

    def await_(self, row: int, amount: Sequence[int], firm: Sequence[int], sign: int = 1) -> None:
        """Something that is charged is only nominated: it counts while the cycle goes on, and not in what is placed."""
        for at in self.queues.paths[row]:
            for c in _EACH:
                self._awaited[at][c] += sign * amount[c]
                self._awaited_firm[at][c] += sign * firm[c]

    def leave(self, row: int, amount: Sequence[int], firm: Sequence[int]) -> None:
        """Pods that are no longer charged as placed still hold this: what is bound must fit beside it."""
        for at in self.queues.paths[row]:
            for c in _EACH:
                self._leaving[at][c] += amount[c]
                self._leaving_firm[at][c] += firm[c]

    def is_left(self, row: int) -> bool:
        """Whether pods of a queue, or of one above it, leave and are still there."""
        return row != NONE and any(any(self._leaving[at]) for at in self.queues.paths[row])

    def refusal_now(self, row: int, amount: Sequence[int], firm: Sequence[int]) -> Refused | None:
        """The same for what is bound at once: also within what leaving pods hold, nominations aside."""
        refused = self.refusal(row, amount, firm)
        if refused is not None or not self.is_left(row):
            return refused
        used = {
            at: plus(plus(self.allocated[at], self._awaited[at], -1), self._leaving[at])
            for at in self.queues.paths[row]
        }
        kept = {at: plus(plus(self.firm[at], self._awaited_firm[at], -1), self._leaving_firm[at]) for at in used}
        return self._refusal(row, amount, firm, used, kept)

    def refusal(self, row: int, amount: Sequence[int], firm: Sequence[int]) -> Refused | None:
        """The first queue, from the gang's own upwards, that does not allow so much more; None when all do.

        One that would never allow it comes before one that is only full.
        """
        return self._refusal(row, amount, firm, self.allocated, self.firm)

    def _refusal(
        self,
        row: int,
        amount: Sequence[int],
        firm: Sequence[int],
        allocated: Table,
        kept: Table,
    ) -> Refused | None:
        if row == NONE or not self._ends[row]:
            return None
        found: Refused | None = None
        for at in self.queues.paths[row]:
            for used, most, more, quota in (
                (allocated[at], self._limit[at], amount, False),
                (kept[at], self._quota[at], firm, True),
            ):
                for c in _EACH:
                    if more[c] > 0 and used[c] + more[c] > most[c]:
                        one = Refused(at, c, more[c], max(0, most[c] - used[c]), most[c], quota)
                        if more[c] > most[c]:
                            # It can never be: that is what people should hear.
                            return one
                        found = found or one
        return found

    def is_under(self, row: int) -> bool:
        """Whether a queue has less than its fair share of everything that it still asks for."""
        has, asks, due = self.allocated[row], self.requested[row], self.fair[row]
        return all(has[c] < due[c] for c in _EACH if asks[c] > has[c])

    def dominant_share(self, row: int) -> float:
        """The largest part of its fair share that a queue has of anything. Equal parts are equal numbers."""
        has, due = self.allocated[row], self.fair[row]
        most = 0.0
        for c in _EACH:
            if has[c] > 0:
                most = max(most, has[c] / due[c] if due[c] > 0 else inf)
        return most

    def within_share(self, row: int, each: Sequence[int]) -> int:
        """How many of something that costs `each` a queue and those above it can have within their fair share."""
        counts = [
            (self.fair[at][c] - self.allocated[at][c]) // each[c]
            for at in self.queues.paths[row]
            for c in _EACH
            if each[c] > 0
        ]
        return max(0, min(counts, default=2**31))

    def is_over(self, row: int) -> bool:
        """Whether a queue, or one above it, holds more than its limit."""
        return any(self.allocated[at][c] > self._limit[at][c] for at in self.queues.paths[row] for c in _EACH)

    def ends_within(self, row: int, amount: Sequence[int], *, quota: bool) -> bool:
        """Whether one queue, with so much more, stays within its quota or its fair share."""
        has = self.allocated[row]
        return all(has[c] + amount[c] <= self.due(row, c, quota=quota) for c in _EACH if amount[c] > 0)

    def above(self, row: int, c: int, *, quota: bool) -> int:
        """How much more than its quota or its fair share a queue has placed of one charge; negative when less."""
        return self.placed(row, c) - self.due(row, c, quota=quota)

    def placed(self, row: int, c: int) -> int:
        """What placed pods of a queue hold of one charge: others can take back nothing else."""
        return self.allocated[row][c] - self._awaited[row][c]

    def due(self, row: int, c: int, *, quota: bool) -> int:
        """What a queue may have of one charge before others take it back: its fair share, or its quota.

        An unlimited quota is what the parent has. That bounds only what queues take from one another: the part that
        may not be evicted is still without end (`refusal`).
        """
        if not quota:
            return self.fair[row][c]
        parent = self.queues.parent_of[row]
        return quota_of(self.queues, row, c, self._snapshot.capacity[c] if parent == NONE else self.fair[parent][c])

    def outcomes(self) -> tuple[QueueOutcome, ...]:
        """Every queue as it is now, without what is only nominated."""
        found = []
        for row, fair in enumerate(self.fair):
            held = plus(self.allocated[row], self._awaited[row], -1)
            firm = plus(self.firm[row], self._awaited_firm[row], -1)
            awaited = tuple(self._awaited[row])
            found.append(QueueOutcome(tuple(self.requested[row]), held, firm, tuple(fair), awaited))
        return tuple(found)

    def resume(self, outcomes: Sequence[QueueOutcome]) -> None:
        """Allocated amounts and fair shares as they were at the end of a cycle, for those who look back at it."""
        self.allocated = [list(plus(one.allocated, one.awaited)) for one in outcomes]
        self._awaited = [list(one.awaited) for one in outcomes]
        self.fair = [tuple(one.fair_share) for one in outcomes]


def firm_counts(gang: Gang) -> Mapping[int, int]:
    """The placed pods of a gang that may not be evicted, by shape. Found once for a gang: it is asked in each cycle."""
    found: Mapping[int, int] | None = gang.__dict__.get("_firm_counts")
    if found is None:
        found = gang.__dict__["_firm_counts"] = Counter(firm_shapes(gang))
    return found


def firm_cost(gang: Gang, snapshot: Snapshot) -> Charge:
    """What these cost a queue."""
    total = NOTHING
    for shape, pods in firm_counts(gang).items():
        total = plus(total, snapshot.charges[shape].tolist(), pods)
    return total


def firm_shapes(gang: Gang) -> list[int]:
    """The shapes of its placed pods that may not be evicted."""
    if gang.is_firm:
        return [shape for here in gang.placed.values() for shape in here.shapes]
    return [shape for _, shape in core_pods(gang)] if not gang.is_preemptible else []


def firm_leavers(gang: Gang) -> list[bool]:
    """Per terminating pod of it: whether it counts against the quota. Of a semi-preemptible gang those do that its core
    lacks: they come after all that are placed.
    """
    if not gang.is_semi:
        return [gang.is_firm and one.leaf != NONE for one in gang.leaving]
    ages = {leaf: list(_ages(placed)) for leaf, placed in gang.placed.items()}
    places = list[int]()
    for number, one in enumerate(gang.leaving):
        here = ages.setdefault(one.leaf, []) if one.leaf != NONE else []
        places.append(len(here))
        here.append(_YOUNGEST + number)
    counts = core_counts(gang, ages)
    return [place < counts.get(one.leaf, 0) for one, place in zip(gang.leaving, places, strict=True)]


def core_pods(gang: Gang, used: Sequence[int] = ()) -> Iterator[tuple[int, int]]:
    """The (leaf, shape) of every pod of the core, the oldest of each leaf; with so many pods of each batch placed."""
    here = {leaf: list(zip(_ages(placed), placed.shapes, strict=True)) for leaf, placed in gang.placed.items()}
    for batch, pods in zip(gang.waiting, used, strict=False):
        here.setdefault(batch.leaf, []).extend((age, batch.shape) for age in batch.ages[:pods])
    for pods_here in here.values():
        pods_here.sort()
    ages = {leaf: [age for age, _ in pods_here] for leaf, pods_here in here.items()}
    for leaf, kept in core_counts(gang, ages).items():
        yield from ((leaf, shape) for _, shape in here[leaf][:kept])


def core_counts(gang: Gang, ages: Mapping[int, Sequence[int]] | None = None) -> dict[int, int]:
    """Per leaf how many of its placed pods are core: the oldest. With `ages`, of other pods than those placed now."""
    rows = range(len(gang.tree.nodes))
    if ages is None:
        ages = {leaf: _ages(placed) for leaf, placed in gang.placed.items()}
    have = [len(ages.get(row, ())) for row in rows]
    found = core(gang.tree, have, gang.succeeded_pods, gang.was_core, gang.joined)
    counts = {leaf: found.pods[leaf] for leaf in ages}
    if found.floor_pods:
        # The oldest of those that are left, wherever they are.
        left = [(age, leaf) for leaf, pods in ages.items() for age in pods[counts[leaf] :]]
        for _, leaf in sorted(left)[: found.floor_pods]:
            counts[leaf] += 1
    return counts


def minimum_of(gang: Gang, row: int) -> dict[int, int]:
    """Per leaf below a tree node: how many of its oldest placed pods its minimum is made of."""
    if row == 0:
        return core_counts(gang)
    nodes, found = gang.tree.nodes, dict[int, int]()
    open_rows = [row]
    while open_rows:
        at = open_rows.pop()
        node = nodes[at]
        if not node.children:
            found[at] = max(0, node.minimum - (gang.counts[at].succeeded if at in gang.counts else 0))
        met = [child for child in node.children if gang.satisfied[child]][: node.minimum]
        open_rows += {*met, *(child for child in node.children if gang.joined[child])} if node.keep else met
    return found


def _ages(placed: Placed) -> Sequence[int]:
    return placed.ages or range(len(placed.nodes))
