"""Who may take what from whom (SPEC §8): the rules of preempt, reclaim and consolidate."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np

from muster.api.once import once
from muster.api.tree import NONE
from muster.plan.accounts import NOTHING, Accounts, Charge, minimum_of, plus
from muster.plan.outcome import Action, Ground, Measured, UnitKind
from muster.plan.units import Flags, Numbers, Table
from muster.snapshot.arrays import Gang, Snapshot

# The most that clocks of two schedulers differ.
_SKEW_NS = 300 * 10**9


class Closed(NamedTuple):
    """The queue from outside of which nothing is taken back, because of what queues would have with the gang.

    From it down to the gang's own, one would end above its fair share and one above its quota; mostly it is the same.
    """

    queue: int
    share: Measured
    quota: Measured


def may_ask_from_ns(gang: Gang) -> int:
    """From when on others may be evicted for a gang: 0 when it is not delayed, or nobody knows since when it waits."""
    delayed = gang.pending_since_ns and gang.preemption_delay_ns
    return gang.pending_since_ns + gang.preemption_delay_ns if delayed else 0


class Terms:
    """What queues allow one another when a gang that asks for so much takes from others."""

    def __init__(self, gang: Gang, asked: Charge, accounts: Accounts) -> None:
        self.asked, self.accounts = asked, accounts
        self.row = accounts.row_of(gang)
        self._wants = [c for c, amount in enumerate(asked) if amount > 0]
        # Per victim's queue: its queues below the common one, and whether it may fall to its fair share, to its quota.
        self._known: dict[int, tuple[tuple[int, ...], bool, bool]] = {}

    @property
    def is_due(self) -> bool:
        """Whether the gang's own queue ends within its fair share or its quota; if not, nobody gives it anything."""
        ends = [self.accounts.ends_within(self.row, self.asked, quota=quota) for quota in (False, True)]
        return self.row != NONE and any(ends)

    def below(self, queue: int) -> tuple[int, ...]:
        """A victim's queue and those above it, as far as they are not the gang's own."""
        return self._of(queue)[0]

    def may_give(self, queue: int, frees: Charge, taken: Mapping[int, Sequence[int]]) -> bool:
        """Whether a queue, of which so much is taken already, may lose something to this gang.

        The gang's queues end within what they are due, and the other's have more than that.
        """
        return self.measure(queue, frees, taken) is not None

    @property
    def may_ignore_budgets(self) -> bool:
        """Whether one of the gang's queues gets back what it is owed whatever disruption budgets say."""
        stated = self.accounts.queues.ignores_budgets
        return self.row != NONE and bool(stated) and any(stated[row] for row in self.accounts.queues.paths[self.row])

    def ignores_budgets(self, queue: int) -> bool:
        """Whether this queue must give whatever disruption budgets say: what gets something back is a queue of the
        gang's that the two do not share, which says so, and all of these end within their quota.
        """
        if not self.may_ignore_budgets:
            return False
        paths, stated = self.accounts.queues.paths, self.accounts.queues.ignores_budgets
        ours = [row for row in paths[self.row] if row not in paths[queue]]
        return any(stated[row] for row in ours) and self._first_over(ours, quota=True) == NONE

    def measure(self, queue: int, frees: Charge, taken: Mapping[int, Sequence[int]]) -> bool | None:
        """By what a queue may lose something: False for its fair share, True for its quota, None when by neither."""
        below, share, quota = self._of(queue)
        if share and self._is_above(below, frees, taken, quota=False):
            return False
        return True if quota and self._is_above(below, frees, taken, quota=True) else None

    def ground(self, queue: int, frees: Charge, taken: Mapping[int, Sequence[int]]) -> Ground | None:
        """The numbers that `may_give` looks at, as they are before anything of it goes; None when it may not."""
        quota = self.measure(queue, frees, taken)
        if quota is None:
            return None
        theirs, mine = self.accounts.queues.paths[queue], self.accounts.queues.paths[self.row]
        above = []
        for row in self.below(queue):
            c = max(c for c in self._wants if frees[c] > 0 and self._is_over(row, c, taken, quota=quota))
            above.append(Measured(row, c, self.accounts.placed(row, c), self.accounts.due(row, c, quota=quota)))
        within = [self._measured(row, above[0].charge, self.asked, quota=quota) for row in mine if row not in theirs]
        return Ground(quota, tuple(above), tuple(within))

    @property
    def closed(self) -> Closed | None:
        """The first of the gang's queues from outside of which nobody gives it anything; None when there is none."""
        path = self.accounts.queues.paths[self.row] if self.row != NONE else ()
        over = [self._first_over(path, quota=quota) for quota in (False, True)]
        if NONE in over:
            return None
        share, quota = (self._excess(row, quota=quota) for row, quota in zip(over, (False, True), strict=True))
        return Closed(max(over, key=path.index), share, quota)

    def _first_over(self, rows: Iterable[int], *, quota: bool) -> int:
        """The first of the gang's queues that would end above what it is due; NONE when all end within it."""
        return next((row for row in rows if not self.accounts.ends_within(row, self.asked, quota=quota)), NONE)

    def _excess(self, row: int, *, quota: bool) -> Measured:
        has, due = self.accounts.allocated[row], self.accounts.due
        c = max(c for c in self._wants if has[c] + self.asked[c] > due(row, c, quota=quota))
        return self._measured(row, c, self.asked, quota=quota)

    def _measured(self, row: int, c: int, more: Charge, *, quota: bool) -> Measured:
        return Measured(row, c, self.accounts.allocated[row][c] + more[c], self.accounts.due(row, c, quota=quota))

    def _of(self, queue: int) -> tuple[tuple[int, ...], bool, bool]:
        if queue not in self._known:
            paths = self.accounts.queues.paths
            mine, theirs = paths[self.row], paths[queue]
            below = tuple(at for at in theirs if at not in mine)
            ours = [at for at in mine if at not in theirs]
            # A queue above the gang's own shares everything with it: there is nothing to take back from it.
            # Queues that are not written down have no quota: their shares only say whose turn it is.
            apart = bool(below and ours) and self.accounts.queues.written
            ends = [apart and self._first_over(ours, quota=quota) == NONE for quota in (False, True)]
            self._known[queue] = (below, ends[0], ends[1])
        return self._known[queue]

    def _is_above(self, rows: Iterable[int], frees: Charge, taken: Mapping[int, Sequence[int]], *, quota: bool) -> bool:
        """Whether each of these queues still has more than it is due of something that is asked for and freed."""
        wants = [c for c in self._wants if frees[c] > 0]
        for row in rows:
            for c in wants:
                if self._is_over(row, c, taken, quota=quota):
                    break
            else:
                return False
        return True

    def _is_over(self, row: int, c: int, taken: Mapping[int, Sequence[int]], *, quota: bool) -> bool:
        """Whether a queue has more than it is due of one charge, when so much has been taken already."""
        gone = taken.get(row)
        return self.accounts.above(row, c, quota=quota) > (gone[c] if gone else 0)

    def most(self, largest: Mapping[int, Sequence[int]]) -> Charge:
        """No more than so much can be taken: what queues may lose, and the `largest` last unit of each."""
        found = [0] * len(self.asked)
        for queue, unit in largest.items():
            below, share, quota = self._of(queue)
            loses = [self._loss(below, unit, quota=at) for at, open_ in ((False, share), (True, quota)) if open_]
            for c in range(len(found)):
                found[c] += max((loss[c] for loss in loses), default=0)
        return tuple(found)

    def _loss(self, below: Sequence[int], largest: Sequence[int], *, quota: bool) -> Charge:
        """The most that queues may lose of each charge. When they have too much of several, nothing bounds it."""
        over = [min(self.accounts.above(row, c, quota=quota) for row in below) for c in range(len(largest))]
        any_over = [c for c in self._wants if any(self.accounts.above(row, c, quota=quota) > 0 for row in below)]
        if not any_over:
            return NOTHING
        bounded = any_over[0] if len(any_over) == 1 else NONE
        return tuple(max(0, over[c] - 1 + largest[c]) if c == bounded else 2**60 for c in range(len(largest)))


class Rights:
    """The rules of one action for one gang that asks for so much."""

    def __init__(
        self,
        action: str,
        number: int,
        terms: Terms,
        table: Table,
        snapshot: Snapshot,
        disruptions: Sequence[int],
        *,
        passing: bool = False,
    ) -> None:
        self.action, self._number, self.terms = action, number, terms
        # Whether disruption budgets are passed over where a queue asks for it.
        self._passing = passing and action == Action.RECLAIM and snapshot.may_delete
        self._passed: dict[int, bool] = {}
        self.table, self.snapshot, self.disruptions = table, snapshot, disruptions

    def passes(self, queue: int) -> bool:
        """Whether pods of a queue may be taken whatever their disruption budgets say."""
        if not self._passing or queue == NONE:
            return False
        if queue not in self._passed:
            self._passed[queue] = self.terms.ignores_budgets(queue)
        return self._passed[queue]

    @once
    def candidates(self) -> Numbers:
        """The units that may be taken at all, each judged by itself."""
        return np.flatnonzero(self.reach & ~self.protected)

    @once
    def reach(self) -> Flags:
        """The units that the action is about, whether their minRuntime protects them or not."""
        table = self.table
        mask: Flags = table.left & (table.gang != self._number)
        if self.action == Action.PREEMPT:
            mask &= (table.queue == self.terms.row) & (table.priority < self.snapshot.gangs[self._number].priority)
        elif self.action == Action.RECLAIM:
            mask &= (table.queue != self.terms.row) & (table.queue != NONE)
            queues = np.unique(table.queue[mask]).tolist()
            able = [queue for queue in queues if self.terms.may_give(queue, self.terms.asked, {})]
            mask &= np.isin(table.queue, able)
        else:
            queues = np.unique(table.queue[mask]).tolist()
            full = [queue for queue in queues if queue != NONE and self.terms.accounts.is_over(queue)]
            mask &= table.controlled & table.returns & ~np.isin(table.queue, full)
        return mask

    @once
    def min_runtime_ns(self) -> Numbers:
        """Per unit: how long its gang's minimum is safe from this gang after it has started."""
        table, queues = self.table, self.snapshot.queues
        if not any(queues.preempt_min_runtime_ns) and not any(queues.reclaim_min_runtime_ns):
            return np.zeros(len(table), dtype=np.int64)
        # The last entry is for gangs without a queue, which nobody protects.
        inside, outside = (
            np.array([*runtimes, 0], dtype=np.int64)[table.queue]
            for runtimes in (queues.preempt_min_runtime_ns, queues.reclaim_min_runtime_ns)
        )
        return np.where(table.queue == self.terms.row, inside, outside)

    @once
    def protected(self) -> Flags:
        """Minimums of gangs that have not run for as long as their queue promises."""
        table = self.table
        ran_ns = self.snapshot.now_ns - table.started_ns
        # A start that lies ahead by more than clocks differ protects nothing: it would do so until then.
        young = (table.started_ns > 0) & (ran_ns > -_SKEW_NS) & (ran_ns < self.min_runtime_ns)
        protected: Flags = young & (table.kind == UnitKind.WHOLE_GANG)
        return protected

    def legal(self, bundles: Iterable[Sequence[int]]) -> Iterator[list[int]]:
        """Those of the bundles that may go one after the other, whole or not at all; one that may not is left out."""
        taken = Taken(self)
        for bundle in bundles:
            added = taken.add(bundle)
            if added:
                yield added

    def all_legal(self, numbers: Sequence[int]) -> bool:
        """Whether all of the units may go, the small ones first."""
        costs = self.table.costs
        return bool(Taken(self).add(sorted(numbers, key=lambda number: (costs[number], number))))

    def grounds(self, numbers: Iterable[int]) -> dict[int, Ground | None]:
        """What allows each unit to go, one after the other, the small ones first; None where queues are not asked."""
        if self.action != Action.RECLAIM:
            return dict.fromkeys(numbers)
        found, taken = dict[int, Ground | None](), dict[int, Charge]()
        costs, queues = self.table.costs, self.table.queue
        order = sorted(numbers, key=lambda number: (costs[number], int(queues[number]), number))
        for (cost, queue), alike in groupby(order, key=lambda number: (costs[number], int(queues[number]))):
            found.update(self._grounds_of(list(alike), queue, cost, taken))
        return found

    def _grounds_of(
        self, numbers: Sequence[int], queue: int, cost: Charge, taken: dict[int, Charge]
    ) -> Iterator[tuple[int, Ground | None]]:
        """The same for units of one queue that cost the same: what allows the first and the last allows all between."""
        terms, below = self.terms, self.terms.below(queue)
        before_last = dict(taken)
        for row in below:
            before_last[row] = plus(taken.get(row, NOTHING), cost, len(numbers) - 1)
        if terms.measure(queue, cost, taken) == terms.measure(queue, cost, before_last):
            ground = terms.ground(queue, cost, taken) or terms.ground(queue, cost, {})
            yield from ((number, ground) for number in numbers)
        else:
            middle = len(numbers) // 2
            first, second = numbers[:middle], numbers[middle:]
            yield from self._grounds_of(first, queue, cost, taken)
            yield from self._grounds_of(second, queue, cost, taken)
            return
        for row in below:
            taken[row] = plus(taken.get(row, NOTHING), cost, len(numbers))


class Taken:
    """Units that go one after the other, while all rules hold."""

    def __init__(self, rights: Rights) -> None:
        self._rights, self._table = rights, rights.table
        self._reclaims = rights.action == Action.RECLAIM
        self._by_queue: dict[int, list[int]] = {}
        self._by_gang: dict[int, list[int]] = {}
        self._disruptions: dict[int, int] = {}
        self._units: set[int] = set()
        # Queues that can lose nothing more of these charges.
        self._closed: set[tuple[int, Charge]] = set()
        self._pending = 0

    def add(self, numbers: Sequence[int]) -> list[int]:
        """Takes some more units, if all of them may go; gives those that were not taken before. Else takes none."""
        fresh = [number for number in dict.fromkeys(numbers) if number not in self._units]
        if len(fresh) > 1 and self._are_alike(fresh):
            return fresh if self._add_alike(fresh) else []
        for at, number in enumerate(fresh):
            self._pending = at
            if not self._add(number):
                for taken in reversed(fresh[:at]):
                    self._drop(taken)
                return []
        return fresh

    def _are_alike(self, numbers: Sequence[int]) -> bool:
        """Whether nothing but their queue, which is one, and their cost, which is the same, is asked about."""
        table = self._table
        if not self._reclaims or self._rights.disruptions or not table.rigid[numbers].all():
            return False
        first, queues, costs = numbers[0], table.queue, table.costs
        return all(costs[number] == costs[first] and queues[number] == queues[first] for number in numbers)

    def _add_alike(self, numbers: Sequence[int]) -> bool:
        """Units that are alike: when the first and the last may go, all may."""
        queue, cost, terms = int(self._table.queue[numbers[0]]), self._table.costs[numbers[0]], self._rights.terms
        last = dict(self._by_queue)
        for row in terms.below(queue):
            last[row] = list(plus(last.get(row, NOTHING), cost, len(numbers) - 1))
        if not terms.may_give(queue, cost, self._by_queue) or not terms.may_give(queue, cost, last):
            return False
        self._units.update(numbers)
        for row in terms.below(queue):
            self._by_queue[row] = list(plus(last[row], cost))
        return True

    def _add(self, number: int) -> bool:
        queue, gang = int(self._table.queue[number]), int(self._table.gang[number])
        rigid = bool(self._table.rigid[number])
        if self._reclaims:
            cost = self._table.costs[number]
            if rigid and (queue, cost) in self._closed:
                return False
            if not self._rights.terms.may_give(queue, cost, self._before_last(number, queue, rigid=rigid)):
                if rigid and not self._pending:
                    self._closed.add((queue, cost))
                return False
        if not rigid and not self._table.is_legal(gang, [*self._by_gang.get(gang, ()), number]):
            return False
        if not self._guarded(number, 1):
            return False
        self._units.add(number)
        if not rigid:
            self._by_gang.setdefault(gang, []).append(number)
        self._count(number, queue, 1)
        return True

    def _before_last(self, number: int, queue: int, *, rigid: bool) -> Mapping[int, Sequence[int]]:
        """What queues have lost when the last of a unit goes, which is its minimum."""
        taken = self._by_queue
        if not rigid and self._table.pods[number] > 1:
            surplus = self._cost_of_new(number, beyond_minimum=True)
            taken = dict(taken)
            for row in self._rights.terms.below(queue):
                taken[row] = list(plus(taken.get(row, NOTHING), surplus))
        return taken

    def _drop(self, number: int) -> None:
        gang = int(self._table.gang[number])
        self._units.discard(number)
        if not self._table.rigid[number]:
            self._by_gang[gang].remove(number)
        self._guarded(number, -1)
        self._count(number, int(self._table.queue[number]), -1)

    def _count(self, number: int, queue: int, sign: int) -> None:
        """What the queues lose by it; what other units of the gang take already is not lost twice."""
        if not self._reclaims:
            return
        cost = self._table.costs[number]
        if not self._table.rigid[number]:
            cost = self._cost_of_new(number)
        for row in self._rights.terms.below(queue):
            gone = self._by_queue.setdefault(row, [0] * len(cost))
            for c, amount in enumerate(cost):
                gone[c] += sign * amount

    def _cost_of_new(self, number: int, *, beyond_minimum: bool = False) -> Charge:
        """What a unit takes that others of its gang do not; all of it, or what goes before its minimum."""
        gang = int(self._table.gang[number])
        others = {spot for n in self._by_gang.get(gang, ()) if n != number for spot in self._table[n].pods}
        placed = self._rights.snapshot.gangs[gang].placed
        spots = [spot for spot in self._table.spots(number) if spot not in others]
        if beyond_minimum:
            kept = minimum_of(self._rights.snapshot.gangs[gang], self._table[number].row)
            spots = [(leaf, at) for leaf, at in spots if at >= kept.get(leaf, 0)]
        return self._rights.terms.accounts.cost((placed[leaf].shapes[at], 1) for leaf, at in spots)

    def _guarded(self, number: int, sign: int) -> bool:
        """Draws on the disruption budgets of the unit's pods; not when one of them does not allow it."""
        if not self._rights.disruptions:
            return True
        placed = self._rights.snapshot.gangs[int(self._table.gang[number])].placed
        drawn: dict[int, int] = {}
        for leaf, at in self._table.spots(number):
            for guard in placed[leaf].guards[at] if placed[leaf].guards else ():
                drawn[guard] = drawn.get(guard, 0) + sign
        now = {guard: self._disruptions.get(guard, 0) + count for guard, count in drawn.items()}
        over = [guard for guard, count in now.items() if count > self._rights.disruptions[guard]] if sign > 0 else []
        if over and not (self._rights.passes(int(self._table.queue[number])) and self._are_budgets(over)):
            return False
        self._disruptions.update(now)
        return True

    def _are_budgets(self, guards: Iterable[int]) -> bool:
        """Whether these were written by somebody; the others stand for pods that can't go now."""
        return all(self._rights.snapshot.budgets[guard] for guard in guards)
