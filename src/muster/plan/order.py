"""Who is tried when (SPEC §7): queues by what they are due, top down; inside a queue by priority, minimums before
surplus, age and name. One pass, in which the shares move as gangs are placed.
"""

import heapq
from bisect import bisect_left
from collections import deque
from collections.abc import Collection, Iterable
from typing import NamedTuple

from muster.api.tree import NONE
from muster.plan.accounts import Accounts
from muster.snapshot.arrays import Gang, Key, Snapshot

Rank = tuple[bool, int, float, int, str]


class Turn(NamedTuple):
    """When a gang is tried among those of its queue; turns sort in that order."""

    before: int
    surplus: bool
    order: tuple[int, str, str]
    gang: int
    lone_shape: int

    @property
    def priority(self) -> int:
        """The priority of the gang."""
        return -self.before

    def is_like(self, other: "Turn") -> bool:
        """Whether both are about one pod of one shape and priority: such turns may be taken together."""
        return self.lone_shape != NONE and (self.before, self.lone_shape) == (other.before, other.lone_shape)


def turns_of(snapshot: Snapshot, *, surplus: bool, apart: Collection[int] = ()) -> Iterable[tuple[Gang, Turn]]:
    """Every turn of every gang that has something to try. Those `apart` are never taken together with others."""
    for number in snapshot.waiting:
        gang = snapshot.gangs[number]
        if not _has_turns(gang):
            continue
        if not gang.satisfied[0]:
            shape = gang.lone_shape if number not in apart else NONE
            yield gang, Turn(-gang.priority, False, gang.order, number, shape)
        if surplus and gang.may_have_surplus:
            yield gang, Turn(-gang.priority, True, gang.order, number, NONE)


def is_in_line(snapshot: Snapshot, key: Key) -> bool:
    """Whether a gang has something to try."""
    at = bisect_left(snapshot.gangs, key, key=lambda gang: gang.key)
    there = at < len(snapshot.gangs) and snapshot.gangs[at].key == key
    return there and bool(snapshot.gangs[at].waiting) and _has_turns(snapshot.gangs[at])


def _has_turns(gang: Gang) -> bool:
    return not gang.held and gang.ready[0]


class Line:
    """Everybody who waits, in the order of the moment: whoever looks at the next turn sees the shares as they are."""

    def __init__(self, turns: Iterable[tuple[Gang, Turn]], accounts: Accounts) -> None:
        self._accounts = accounts
        by_queue: dict[int, list[Turn]] = {}
        for gang, turn in turns:
            by_queue.setdefault(accounts.row_of(gang) if accounts.matter else NONE, []).append(turn)
        for waiting in by_queue.values():
            waiting.sort()
        self._waiting = {row: deque(waiting) for row, waiting in by_queue.items()}
        # Queues that somebody is in line for.
        self._busy = len(self._waiting)
        # Per parent: its children with somebody in line, by rank. A rank that is out of date is put right when it
        # comes up; one that got better is entered again, which does no harm.
        self._ranked: dict[int, list[tuple[Rank, int]]] = {}
        # The best rank that each queue is in line with.
        self._entered: dict[int, Rank] = {}
        queues = accounts.queues
        for row in self._waiting:
            for at in queues.paths[row] if row != NONE else ():
                if at not in self._entered:
                    self._entered[at] = self._rank(at)
                    self._ranked.setdefault(queues.parent_of[at], []).append((self._entered[at], at))
        for heap in self._ranked.values():
            heapq.heapify(heap)

    def _rank(self, row: int) -> Rank:
        """Under the fair share first, then by priority, smaller dominant share, age and name."""
        accounts, queues = self._accounts, self._accounts.queues
        return (
            not accounts.is_under(row),
            -queues.priorities[row],
            accounts.dominant_share(row),
            queues.created_ns[row],
            queues.names[row],
        )

    def peek(self) -> Turn | None:
        """The turn that is next now."""
        row = self._next_queue()
        return self._waiting[row][0] if row is not None else None

    def pop(self) -> Turn | None:
        """The turn that is next now, which is over then."""
        row = self._next_queue()
        if row is None:
            return None
        turn = self._waiting[row].popleft()
        self._busy -= not self._waiting[row]
        return turn

    def put_back(self, turn: Turn, gang: Gang) -> None:
        """The turn is not over: it comes again when its queue does."""
        row = self._accounts.row_of(gang) if self._accounts.matter else NONE
        self._busy += not self._waiting[row]
        self._waiting[row].appendleft(turn)
        for at in self._accounts.queues.paths[row] if row != NONE else ():
            if at not in self._entered:
                self._entered[at] = self._rank(at)
                heapq.heappush(self._ranked[self._accounts.queues.parent_of[at]], (self._entered[at], at))

    def is_alone(self, gang: Gang) -> bool:
        """Whether nobody of another queue is in line."""
        row = self._accounts.row_of(gang) if self._accounts.matter else NONE
        return self._busy == bool(self._waiting.get(row))

    def _look_again(self) -> None:
        """Queues that hold less than before may come earlier."""
        rows, self._accounts.lighter = self._accounts.lighter, set()
        for row in rows:
            for at in self._accounts.queues.paths[row] if row != NONE else ():
                rank = self._rank(at)
                if at in self._entered and rank < self._entered[at]:
                    self._entered[at] = rank
                    heapq.heappush(self._ranked[self._accounts.queues.parent_of[at]], (rank, at))

    def _next_queue(self) -> int | None:
        if not self._ranked:
            return NONE if self._waiting.get(NONE) else None
        if self._accounts.lighter:
            self._look_again()
        at = NONE
        while True:
            while (found := self._best_below(at)) is not None:
                at = found
            if at == NONE:
                return None
            if self._waiting.get(at):
                return at
            # Nobody is left here: it leaves the line, and those around it are looked at again.
            self._entered.pop(at, None)
            at = self._accounts.queues.parent_of[at]
            heapq.heappop(self._ranked[at])

    def _best_below(self, parent: int) -> int | None:
        """The child that comes first; ranks that are out of date are put right on the way."""
        heap = self._ranked.get(parent)
        while heap:
            rank, row = heap[0]
            now = self._rank(row)
            if now == rank:
                return row
            heapq.heapreplace(heap, (now, row))
            self._entered[row] = now
        return None
