"""What if these units went (SPEC §8)? Whether the gang fits then, where, and where those go who are only moved."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

import numpy as np

from muster.api.once import once
from muster.api.tree import NONE
from muster.plan.accounts import NOTHING, Accounts, Charge
from muster.plan.attempt import Attempt, Engine
from muster.plan.homes import Homes, rehome, together
from muster.plan.ledger import Taking
from muster.plan.problem import Part
from muster.plan.progress import Bounds, Progress
from muster.plan.rights import Rights
from muster.plan.units import Numbers, Table
from muster.snapshot.arrays import Snapshot

Ask = Callable[[Engine], Attempt]


@dataclass
class Question:
    """Who asks: a gang, what it would place (`ask` tries it with an engine), and what may be taken for it."""

    progress: Progress
    row: int
    # Pods per batch that the attempt is about; another choice of children may need others.
    counts: Mapping[int, int]
    ask: Ask
    rights: Rights
    moves: bool


@dataclass
class Trial:
    """Asks one question again and again, about other units each time. The ledger is left as it was."""

    snapshot: Snapshot
    engine: Engine
    table: Table
    accounts: Accounts
    question: Question
    # The homes of those that the last ones that fitted move; and where the gang goes when it must be there.
    homes: Homes = field(default_factory=dict)
    takings: tuple[tuple[int, Taking], ...] | None = None
    # Where the gang was put the last time that it fitted.
    where: set[int] = field(default_factory=set)
    # Whether it is proven that the last ones that were tried are not enough, with homes for all of them.
    is_refuted: bool = False
    # Units whose room is given back in the ledger at the moment.
    _given: list[Taking] = field(default_factory=list)
    _off: list[tuple[int, Charge]] = field(default_factory=list)

    def fits(self, units: Collection[int], *, homes: bool = True) -> bool:
        """Whether the gang fits when these go; and, if they are moved, each of them finds another place."""
        ledger = self.engine.ledger
        mark = ledger.mark()
        self.give(units)
        self.is_refuted = False
        try:
            # Another room, other answers: nothing is remembered.
            engine = Engine(self.snapshot, ledger, self.engine.strategy)
            attempt = self.question.ask(engine)
            if attempt.takings is None:
                self.is_refuted = attempt.proof is not None
                return False
            self.where = {int(node) for _, taking in attempt.takings for node in taking.nodes}
            return not (self.question.moves and homes) or self._finds_homes(engine, units, mark)
        finally:
            ledger.rewind(mark)
            self.take_back()

    def give(self, units: Collection[int]) -> None:
        """The room of these units is free."""
        table, ledger = self.table, self.engine.ledger
        rows = table.rows(int(number) for number in units)
        for shape in np.unique(table.shape[rows]).tolist():
            nodes, counts = np.unique(table.node[rows[table.shape[rows] == shape]], return_counts=True)
            taking = Taking(shape, nodes, counts)
            ledger.give_back(taking)
            self._given.append(taking)
        if not self.question.moves:
            # Whoever is only moved still counts in its queue.
            self._off = self._charged(rows)
            self._charge(-1)

    def take_back(self) -> None:
        """It is theirs again."""
        for taking in self._given:
            self.engine.ledger.give_back(taking, -1)
        self._charge(1)
        self._given, self._off = [], []

    def _charged(self, rows: Numbers) -> list[tuple[int, Charge]]:
        """What pods of the table cost their queues."""
        if not self.accounts.matter or not len(rows):
            return []
        queues = self.table.queue[self.table.unit[rows]]
        found = []
        for queue in np.unique(queues).tolist():
            if queue != NONE:
                amounts = self.snapshot.charges[self.table.shape[rows[queues == queue]]].sum(axis=0)
                found.append((queue, tuple(amounts.tolist())))
        return found

    def _charge(self, sign: int) -> None:
        for queue, amount in self._off:
            self.accounts.charge(queue, amount, NOTHING, sign)

    def _finds_homes(self, engine: Engine, units: Collection[int], mark: int) -> bool:
        """Whether everybody who is moved finds a place beside the gang; else whether there is one for all at once."""
        homes = rehome(engine, self.table, units)
        self.homes, self.takings = homes or {}, None
        if homes is not None:
            return True
        engine.ledger.rewind(mark)
        progress, counts = self.question.progress, self.question.counts
        waiting = progress.gang.waiting
        parts = [Part(waiting[batch].leaf, waiting[batch].shape, pods) for batch, pods in counts.items()]
        found = together(engine, self.table, units, parts, Bounds(progress, self.question.row).required)
        if found.takings is None:
            self.is_refuted = found.is_refuted and self._is_only_choice
            return False
        self.takings, self.homes = tuple(zip(counts, found.takings, strict=True)), found.homes
        return True

    @once
    def _is_only_choice(self) -> bool:
        """Whether the gang can be placed with these pods only, and not with others of its own instead."""
        return len(self.engine.wanted(self.question.progress, self.question.row, 2)) <= 1
