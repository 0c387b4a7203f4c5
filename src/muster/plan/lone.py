"""Gangs of one pod and one shape that follow one another: placed, or given others' room, many at a time.

The result is the same as one by one, and four thousand of them cost what forty would.
"""

from collections.abc import Callable, Iterable

import numpy as np

from muster.api.tree import NONE
from muster.model.reasons import Code
from muster.plan.accounts import NOTHING
from muster.plan.attempt import Engine
from muster.plan.books import Books
from muster.plan.evictor import Wanted, nobody
from muster.plan.layout import over_nodes, slice_rows
from muster.plan.ledger import Taking
from muster.plan.order import Line, Turn
from muster.plan.outcome import Action, Outcome, Placement, Reason, RowOutcome, Verdict
from muster.plan.reasons import reason_of_issue
from muster.snapshot.arrays import Snapshot

Alone = Callable[[int], None]


class Lone:
    """Those that were `placed` many at a time, and those that were `nominated`."""

    def __init__(self, snapshot: Snapshot, books: Books, strategy: str) -> None:
        self._snapshot, self._books, self._strategy = snapshot, books, strategy
        self.placed: set[int] = set()
        self.nominated: set[int] = set()
        # Those whose turn it is, as long as nothing became of them.
        self.open: set[int] = set()

    def serve(self, turn: Turn, line: Line, alone: Alone) -> None:
        """This turn, and those like it that follow; whoever can't be served together is tried `alone`."""
        allowed, refused = self._alike(turn, line)
        self.open = {*allowed, *refused}

        def settle(number: int) -> None:
            self.open.discard(number)
            alone(number)

        for number in (*self._place(allowed, turn.lone_shape, settle), *refused):
            settle(number)
        self.open = set()

    def _alike(self, turn: Turn, line: Line) -> tuple[list[int], list[int]]:
        """Gangs of one pod, all of one shape and next to one another in the order as if each of them were placed.

        Those whose queue does not allow it come apart.
        """
        allowed: list[int] = []
        refused: list[int] = []
        gangs, following = self._snapshot.gangs, turn
        while True:
            (allowed if self._charge(following.gang, 1) else refused).append(following.gang)
            ahead = line.peek()
            if ahead is None or not ahead.is_like(turn):
                return allowed, refused
            if not self._books.reserved.is_empty and gangs[ahead.gang].queue != gangs[turn.gang].queue:
                # What is set aside depends on the queue.
                return allowed, refused
            line.pop()
            following = ahead

    def _charge(self, number: int, sign: int, *, nominated: bool = False) -> bool:
        """Charges a gang of one pod to its queue; not when the queue does not allow it, or not yet."""
        accounts, gang = self._books.accounts, self._snapshot.gangs[number]
        row = self._books.queue_of(gang)
        if row == NONE:
            return True
        cost = accounts.cost([(gang.lone_shape, 1)])
        firm = cost if not gang.is_preemptible else NOTHING
        refusal = accounts.refusal if nominated else accounts.refusal_now
        if sign > 0 and refusal(row, cost, firm) is not None:
            return False
        accounts.charge(row, cost, firm, sign)
        if nominated:
            accounts.await_(row, cost, firm)
        return True

    def _place(self, numbers: list[int], shape: int, alone: Alone) -> list[int]:
        """As many as fit now, then when others have left, then in place of others; gives those that still wait."""
        books = self._books
        placed = self._place_many(numbers, shape, books.at_once)
        self.placed.update(placed)
        numbers = numbers[len(placed) :]
        if numbers and books.soon is not None:
            # Before anybody goes for them: room that comes free by itself.
            waits = self._place_many(numbers, shape, books.soon)
            self.nominated.update(waits)
            for number in waits:
                self._charge(number, -1)
                self._charge(number, 1, nominated=True)
            numbers = numbers[len(waits) :]
        for number in numbers:
            self._charge(number, -1)
        return self._displace(numbers, shape, alone)

    def _place_many(self, numbers: list[int], shape: int, engine: Engine) -> list[int]:
        """The first of some gangs of one pod each, as many as fit: bound, or nominated where room comes free later."""
        books, ledger = self._books, engine.ledger
        fits = ledger.fits(shape)
        counts = over_nodes(fits, min(len(numbers), int(fits.sum())), self._strategy, ledger.liked.get(shape))
        assert counts is not None
        nodes = np.repeat(np.arange(len(counts)), counts).tolist()
        later = engine is books.soon
        placements = [Placement(number, 0, (0,), (node,), later) for number, node in zip(numbers, nodes, strict=False)]
        if not placements or books.decide_lone(shape, placements, nominated=later):
            return []
        taking = Taking(shape, *slice_rows(np.arange(len(counts)), counts))
        for other in (books.at_once, books.soon):
            if other is not None:
                other.ledger.take(taking)
        return numbers[: len(nodes)]

    def _displace(self, numbers: list[int], shape: int, alone: Alone) -> list[int]:
        """Room for gangs of one pod each in place of others, many at a time; gives those that still wait."""
        books, gangs = self._books, self._snapshot.gangs
        waiting: list[int] = []
        by_queue: dict[str, list[int]] = {}
        for number in numbers:
            by_queue.setdefault(gangs[number].queue, []).append(number)
        for queue, group in by_queue.items():
            wanted = [self._wanted(number) for number in group]
            many = len(group) > 1 and all(books.evictor.may_ask(one) for one in wanted)
            if not many or (books.accounts.matter and queue not in self._snapshot.queues.row_of):
                waiting += group
                continue
            while wanted and books.evictor.is_open(Action.CONSOLIDATE, wanted[0], books.open_soon()):
                alone(wanted.pop(0).number)
            served = books.evictor.find_many(wanted, books.open_soon()) if wanted else []
            if served and books.serve(served, shape):
                self.nominated.update(one.number for one in served)
                for one in served:
                    self._charge(one.number, 1, nominated=True)
            waiting += [one.number for one in wanted if one.number not in self.nominated]
        return waiting

    def _wanted(self, number: int) -> Wanted:
        progress = self._books.state(number).progress
        return Wanted(number, progress, 0, [{0: 1}], nobody, surplus=False)

    def adopt(self, placements: Iterable[Placement]) -> None:
        """After a defect: those of the turn that were decided on before it."""
        for placement in placements:
            if placement.gang in self.open:
                (self.nominated if placement.nominated else self.placed).add(placement.gang)
                self.open.discard(placement.gang)

    def outcome(self, number: int) -> Outcome:
        """What there is to say of one of them."""
        gang, placed = self._snapshot.gangs[number], number in self.placed
        row = RowOutcome(placed, int(placed), int(not placed), gang.counts[0].total, None, None)
        waits = [] if placed else [Reason(Code.WAITING_FOR_ROOM)]
        return Outcome(Verdict.PLACED, placed, (row,), (*waits, *map(reason_of_issue, gang.notes)))
