"""One scheduling cycle, readable top to bottom: who is tried, in which order, and what becomes of it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from muster.api.tree import NONE, satisfied
from muster.plan.accounts import NOTHING
from muster.plan.attempt import Attempt, Engine
from muster.plan.books import Ask, Books, State
from muster.plan.budget import Budget
from muster.plan.evictor import Wanted, nobody
from muster.plan.layout import BINPACK, over_nodes, slice_rows
from muster.plan.ledger import Taking
from muster.plan.memory import Memory, Recall, Remembered
from muster.plan.order import Line, Turn, turns_of
from muster.plan.outcome import (
    ACTIONS,
    Action,
    Code,
    Eviction,
    Outcome,
    Outcomes,
    Placement,
    Plan,
    Reason,
    RowOutcome,
    UnitKind,
    Verdict,
)
from muster.plan.progress import Progress
from muster.plan.proof import Proof, Refused, is_refused, mentions_queue
from muster.plan.reasons import reason_of, reason_of_issue
from muster.plan.stale import Clock, clocks_of
from muster.plan.tally import outcome_of_untried, rows_of, whole_rows
from muster.plan.units import without
from muster.snapshot.arrays import Gang, Key, Snapshot

# An undecided search may cost twice as much in the next cycle, up to so many times the first budget; then it rests
# until the gang or the room changes.
_MOST_PATIENCE = 16
# What everybody may spend, whatever others have spent: enough for every question that is not hard.
_LEAST_STEPS, _LEAST_PER_BATCH = 200, 12
# What part of a gang's steps each question may cost while victims are looked for.
_PER_QUESTION = 4
# So many choices of children are asked about by what they cost their queue.
_MOST_CHOICES = 16


@dataclass(frozen=True)
class Policy:
    """How to place, what a search may cost in steps, and what may be done."""

    strategy: str = BINPACK
    steps_per_gang: int = 20_000
    steps_per_cycle: int = 30_000
    # Whether anything is placed beyond minimums.
    surplus: bool = True
    actions: frozenset[str] = frozenset(ACTIONS)


def schedule(snapshot: Snapshot, policy: Policy | None = None, memory: Memory | None = None) -> tuple[Plan, Memory]:
    """The plan for a snapshot. The same snapshot always gives the same plan."""
    cycle = _Cycle(snapshot, policy or Policy(), memory or Memory())
    cycle.place()
    cycle.reap()
    return cycle.plan(), cycle.memory()


class _Cycle:
    """Gangs while the cycle goes on."""

    def __init__(self, snapshot: Snapshot, policy: Policy, memory: Memory) -> None:
        self._snapshot, self._policy, self._memory = snapshot, policy, memory
        self._recall = Recall(memory, snapshot)
        self._books = Books(snapshot, policy.strategy, policy.actions)
        self._steps_left = policy.steps_per_cycle
        self._line = Line((), self._books.accounts)
        # Gangs of one pod that were placed many at a time.
        self._lone: set[int] = set()
        # And those that were nominated many at a time.
        self._served: set[int] = set()
        # Clocks of what is below its minimum.
        self._clocks: dict[int, list[Clock]] = {}
        self._said: dict[Key, Remembered] = {}
        self._idle: dict[Key, tuple[Gang, tuple[Reason, ...]]] = {}

    def place(self) -> None:
        """All turns, in the order of SPEC §7."""
        if not self._policy.actions - {Action.STALE}:
            return
        books = self._books
        self._line = Line(turns_of(self._snapshot, surplus=self._policy.surplus), books.accounts)
        while (turn := self._line.pop()) is not None:
            books.reserved.face(self._snapshot.gangs[turn.gang])
            if turn.gang in books.gone:
                # Its room went to others: it comes back another time.
                continue
            if turn.lone_shape != NONE and Action.ALLOCATE in self._policy.actions:
                self._try_lone_pods(*self._alike(turn), turn.lone_shape)
            elif turn.surplus:
                if self._try_surplus(books.state(turn.gang)):
                    self._line.put_back(turn, self._snapshot.gangs[turn.gang])
            else:
                self._try_minimum(books.state(turn.gang))

    def _alike(self, turn: Turn) -> tuple[list[int], list[int]]:
        """Gangs of one pod, all of one shape and next to one another in the order as if each of them were placed.

        Those whose queue does not allow it come apart.
        """
        allowed: list[int] = []
        refused: list[int] = []
        following: Turn | None = turn
        while following is not None:
            (allowed if self._charge_lone(following.gang, 1) else refused).append(following.gang)
            ahead = self._line.peek()
            following = self._line.pop() if ahead is not None and ahead.is_like(turn) else None
        return allowed, refused

    def _charge_lone(self, number: int, sign: int, *, nominated: bool = False) -> bool:
        """Charges a gang of one pod to its queue; not when the queue does not allow it."""
        accounts, gang = self._books.accounts, self._snapshot.gangs[number]
        row = self._books.queue_of(gang)
        if row == NONE:
            return True
        cost = accounts.cost([(gang.lone_shape, 1)])
        firm = cost if not gang.is_preemptible else NOTHING
        if sign > 0 and accounts.refusal(row, cost, firm) is not None:
            return False
        accounts.charge(row, cost, firm, sign)
        if nominated:
            accounts.await_(row, cost, firm)
        return True

    def _try_lone_pods(self, numbers: list[int], refused: list[int], shape: int) -> None:
        """As many of some gangs of one pod each as fit, at once; the others one by one."""
        books, ledger = self._books, self._books.at_once.ledger
        fits = ledger.fits(shape)
        counts = over_nodes(fits, min(len(numbers), int(fits.sum())), self._policy.strategy, ledger.liked.get(shape))
        assert counts is not None
        nodes = np.repeat(np.arange(len(counts)), counts).tolist()
        placements = [Placement(number, 0, (0,), (node,), False) for number, node in zip(numbers, nodes, strict=False)]
        if placements and not books.checker.faults_of_lone_pods(shape, placements):
            taking = Taking(shape, *slice_rows(np.arange(len(counts)), counts))
            ledger.take(taking)
            if books.soon is not None:
                books.soon.ledger.take(taking)
            books.placements += placements
            self._lone.update(numbers[: len(nodes)])
            numbers = numbers[len(nodes) :]
        for number in numbers:
            self._charge_lone(number, -1)
        for number in (*self._displace_many(numbers, shape), *refused):
            self._try_minimum(books.state(number))

    def _displace_many(self, numbers: list[int], shape: int) -> list[int]:
        """Room for gangs of one pod each in place of others, many at a time; gives those that still wait."""
        books, gangs = self._books, self._snapshot.gangs
        waiting: list[int] = []
        by_queue: dict[str, list[int]] = {}
        for number in numbers:
            by_queue.setdefault(gangs[number].queue, []).append(number)
        for queue, group in by_queue.items():
            wanted = [self._wanted_lone(number) for number in group]
            many = len(group) > 1 and all(books.evictor.may_ask(one) for one in wanted)
            if not many or not books.accounts.matter or queue not in self._snapshot.queues.row_of:
                waiting += group
                continue
            while wanted and books.evictor.is_open(Action.CONSOLIDATE, wanted[0], books.open_soon()):
                self._try_minimum(books.state(wanted.pop(0).number))
            served = books.evictor.find_many(wanted, books.open_soon()) if wanted else []
            if served and books.serve(served, shape):
                self._served.update(one.number for one in served)
                for one in served:
                    self._charge_lone(one.number, 1, nominated=True)
                self._line.moved({books.queue_of(gangs[one.gang]) for each in served for one in each.evictions})
            waiting += [one.number for one in wanted if one.number not in self._served]
        return waiting

    def _wanted_lone(self, number: int) -> Wanted:
        progress = self._books.state(number).progress
        return Wanted(number, progress, 0, [{0: 1}], nobody, surplus=False)

    def _try_minimum(self, state: State) -> None:
        """One attempt for exactly what the gang misses of its minimum, all or nothing."""
        gang, known = state.gang, self._recall.said(state.gang)
        steps = self._policy.steps_per_gang if known is None else known.steps
        budget = self._may_spend(steps, gang)
        if known is not None and (known.proof is not None or steps > self._policy.steps_per_gang * _MOST_PATIENCE):
            # Nothing has changed for it, except perhaps whom it may ask to go.
            self._books.reserved.release(state.number)
            attempt, said = Attempt(None, known.proof), known
        else:
            attempt = self._nominated_before(state) or self._try(
                state, partial(Engine.minimum, progress=state.progress, row=0, budget=budget)
            )
            self._spent(state, budget)
            # Who was given less than asked for asks for the same again.
            said = Remembered(gang, attempt.proof, steps * 2 if budget.steps >= steps else steps)
        if attempt.takings is None:
            state.ruled_out = attempt.ruled_out
            if self._displace(state, attempt, 0, surplus=False) is None:
                self._fails(state, said)

    def _nominated_before(self, state: State) -> Attempt | None:
        """Gives the gang's reserved room back; and if it can still be used as it was meant to be, uses it."""
        reserved, progress = self._books.reserved.release(state.number), state.progress
        if not reserved or Action.ALLOCATE not in self._policy.actions:
            return None
        present = list(progress.present)
        counts: dict[int, int] = {}
        for batch, taking in reserved:
            counts[batch] = counts.get(batch, 0) + int(taking.counts.sum())
            present[progress.gang.waiting[batch].leaf] += int(taking.counts.sum())
        if not satisfied(progress.gang.tree, present)[0] or progress.refusal(counts) is not None:
            return None
        return self._books.renew(state, reserved)

    def _try_surplus(self, state: State) -> bool:
        """Missing children, then extra pods, each by itself; one that does not fit never blocks another.

        Where other queues are in line, no more at a time than the queue is due; whether there is more is told.
        """
        progress, books = state.progress, self._books
        books.reserved.release(state.number)
        if state.verdict is not Verdict.PLACED or not satisfied(progress.gang.tree, progress.present)[0]:
            return False
        known = self._recall.surplus(state.gang)
        if known is not None and not books.evictor.may_help(state.number, progress):
            state.reasons += known
            self._idle[state.gang.key] = (state.gang, known)
            return False
        before, told = sum(progress.used), len(state.reasons)
        alone = self._line.is_alone(state.gang)
        self._try_children(state, one=not alone)
        whole = whole_rows(progress)
        for batch, found in enumerate(progress.gang.waiting):
            if not alone and sum(progress.used) > before:
                break
            if whole[found.leaf] and progress.used[batch] < len(found.pods):
                self._try_extra(state, batch, one=not alone)
        if not alone and before < sum(progress.used) < sum(len(batch.pods) for batch in progress.gang.waiting):
            # What does not fit is told when nothing more does.
            state.reasons[told:] = [reason for reason in state.reasons[told:] if reason.code == Code.WAITING_FOR_ROOM]
            return True
        of_queues = any(reason.queue != NONE for reason in state.reasons[told:])
        if not any(progress.used) and not books.reserved.anything and not of_queues:
            self._idle[state.gang.key] = (state.gang, tuple(state.reasons[told:]))
        return False

    def _try_extra(self, state: State, batch: int, *, one: bool) -> None:
        """As many pods of a batch as there is room for now, then soon, then one by one in place of others.

        With `one`, no more than its queue is due of them, and at least one.
        """
        progress, found = state.progress, state.gang.waiting[batch]
        budget = self._may_spend(self._policy.steps_per_gang, state.gang)
        row, most = self._books.queue_of(state.gang), None
        if one and row != NONE:
            each = self._books.accounts.cost([(found.shape, 1)])
            most = max(1, self._books.accounts.within_share(row, each))
        ask = partial(Engine.surplus, progress=progress, batch=batch, budget=budget, most=most)
        attempt, before = Attempt(()), progress.used[batch]
        while attempt.takings is not None and progress.used[batch] < len(found.pods):
            if one and progress.used[batch] > before:
                break
            attempt = self._try(state, ask)
            if attempt.takings is None:
                attempt = self._displace(state, attempt, found.leaf, surplus=True, batch=batch) or attempt
        self._spent(state, budget)
        if attempt.takings is None:
            self._surplus_waits(state, attempt.proof, found.leaf)

    def _try_children(self, state: State, *, one: bool) -> None:
        """Optional children, whole or not at all; one that is placed may have optional children of its own.

        With `one`, no more than one of them.
        """
        progress, nodes = state.progress, state.gang.tree.nodes
        whole = whole_rows(progress)
        for row in range(1, len(nodes)):
            if whole[row] or not whole[nodes[row].parent]:
                continue
            if not state.gang.ready[row]:
                if any(state.gang.pending[leaf] for leaf in state.gang.tree.leaves_below(row)):
                    state.reasons.append(Reason(Code.WAITING_FOR_PODS, row, surplus=True))
                continue
            budget = self._may_spend(self._policy.steps_per_gang, state.gang)
            before = list(progress.present[row : state.gang.tree.ends[row]])
            attempt = self._try(state, partial(Engine.minimum, progress=progress, row=row, budget=budget))
            self._spent(state, budget)
            if attempt.takings is None:
                attempt = self._displace(state, attempt, row, surplus=True) or attempt
            if attempt.takings is None:
                self._surplus_waits(state, attempt.proof, row)
            elif before != progress.present[row : state.gang.tree.ends[row]]:
                # Bound, not only nominated.
                whole_rows(progress, row, whole)
            if one and attempt.takings:
                return

    def _surplus_waits(self, state: State, proof: Proof | None, row: int) -> None:
        """The reason is about the unit that waits, also where a hold around it is what is short of room."""
        if Action.ALLOCATE not in self._policy.actions:
            return
        reason = reason_of(proof, row, surplus=True)
        inside = row <= reason.row < state.gang.tree.ends[row]
        state.reasons.append(reason if inside else reason._replace(row=row))

    def _may_spend(self, steps: int, gang: Gang) -> Budget:
        """Steps for one gang, out of those for the whole cycle."""
        least = _LEAST_STEPS + _LEAST_PER_BATCH * len(gang.waiting)
        return Budget(max(least, min(steps, self._steps_left)))

    def _spent(self, state: State, budget: Budget) -> None:
        state.steps += budget.spent
        self._steps_left -= budget.spent

    def _try(self, state: State, ask: Ask) -> Attempt:
        """Now, else when the terminating pods are gone: then the whole attempt is nominated, and nothing is bound."""
        books = self._books
        if Action.ALLOCATE not in self._policy.actions:
            return Attempt(None)
        attempt = books.ask(state, books.at_once, ask)
        if attempt.takings is not None:
            return books.bind(state, attempt)
        if books.soon is None or is_refused(attempt.proof):
            return attempt
        later = books.ask(state, books.soon, ask)
        return books.nominate(state, later) if later.takings is not None else later

    def _displace(self, state: State, failed: Attempt, row: int, *, surplus: bool, batch: int = NONE) -> Attempt | None:
        """Room for a tree node's minimum, or for one pod of a batch, in place of others (SPEC §8); None without it."""
        if isinstance(failed.proof, Refused) and failed.proof.quota:
            # A quota is about what stays: nobody's leaving helps.
            return None
        progress, books = state.progress, self._books
        steps = max(1, self._policy.steps_per_gang // _PER_QUESTION)

        def ask(engine: Engine, progress: Progress) -> Attempt:
            if batch != NONE:
                return engine.surplus(progress, batch, Budget(steps), most=1)
            return engine.minimum(progress, row, Budget(steps))

        if Action.ALLOCATE not in self._policy.actions and self._fits_as_it_is(state, partial(ask, progress=progress)):
            return None
        choices = [{batch: 1}] if batch != NONE else books.at_once.wanted(progress, row, _MOST_CHOICES)
        wanted = Wanted(state.number, progress, row, choices, ask, surplus)
        if not books.evictor.may_ask(wanted):
            return None
        try:
            sacrifice = books.evictor.find(wanted, books.open_soon())
        except Exception as error:
            state.tell(error)
            return None
        if sacrifice is None:
            return None
        found = books.evict(state, sacrifice)
        self._line.moved({books.queue_of(self._snapshot.gangs[one.gang]) for one in sacrifice.evictions})
        return found if found.takings is not None else None

    def _fits_as_it_is(self, state: State, ask: Ask) -> bool:
        """Whether nobody has to go for it."""
        engine = self._books.open_soon()
        mark = engine.ledger.mark()
        found = self._books.ask(state, engine, ask).takings is not None
        engine.ledger.rewind(mark)
        return found

    def _fails(self, state: State, said: Remembered) -> None:
        state.verdict = Verdict.UNDECIDED if said.proof is None else Verdict.INFEASIBLE
        state.proof = said.proof
        if is_refused(said.proof):
            state.verdict, state.proof = Verdict.HELD, None
        elif Action.ALLOCATE not in self._policy.actions:
            state.verdict = Verdict.HELD
            state.reasons.append(Reason(Code.NOT_TRIED, 0, detail=f"add {Action.ALLOCATE} to --actions"))
        if not state.reasons:
            reason = reason_of(said.proof, 0)
            if said.proof is None:
                reason = reason._replace(steps=state.steps, ruled_out=state.ruled_out)
            state.reasons.append(reason)
        firm = state.verdict is not Verdict.HELD and not mentions_queue(said.proof)
        if firm and not self._books.reserved.anything:
            # While room is set aside for others, a no may be theirs, and is not remembered.
            self._said[state.gang.key] = said

    def reap(self) -> None:
        """Gangs, and children, that stayed below their minimum for too long, go (SPEC §8)."""
        if Action.STALE not in self._policy.actions:
            return
        snapshot, books = self._snapshot, self._books
        for number in snapshot.broken:
            gang = snapshot.gangs[number]
            if number in books.gone:
                continue
            state = books.states.get(number)
            if any(issue.code == Code.INVALID for issue in gang.held) or (state is not None and state.nominated):
                continue
            present = state.progress.present if state is not None else gang.present
            clocks = list(clocks_of(gang, present, snapshot.now_ns, self._recall.last_ns))
            if clocks:
                self._clocks[number] = clocks
            for clock in clocks:
                pods = [
                    Eviction(number, leaf, at, Action.STALE, row=clock.row)
                    for leaf in gang.tree.leaves_below(clock.row)
                    for at in range(len(gang.placed[leaf].nodes) if leaf in gang.placed else 0)
                ]
                allowed = clock.due and books.evictor.is_undisturbed(pods)
                if allowed and not books.checker.faults_of_stale(pods):
                    books.evictor.take((), pods)
                    books.leave(pods)

    def plan(self) -> Plan:
        """Everything that was decided."""
        books, snapshot = self._books, self._snapshot
        states = ((number, state) for number, state in books.states.items() if number not in self._served)
        tried = {number: self._outcome(state) for number, state in states}
        tried.update((number, self._lone_outcome(number)) for number in (*self._lone, *self._served))
        lost: dict[int, list[Eviction]] = {}
        for one in books.evictions:
            lost.setdefault(one.gang, []).append(one)

        def untried(number: int) -> Outcome:
            if number in lost or number in self._clocks:
                return self._after_loss(number, None, lost.get(number, ()))
            return self._memory.settled.of(snapshot.gangs[number], snapshot)

        for number in [number for number in tried if number in lost or number in self._clocks]:
            tried[number] = self._after_loss(number, tried[number], lost.get(number, ()))
        outcomes = Outcomes(len(snapshot.gangs), tried, untried)
        queues = books.accounts.outcomes() if snapshot.queues.written else ()
        return Plan(snapshot, outcomes, tuple(books.placements), tuple(books.evictions), queues, books.kept())

    def _after_loss(self, number: int, tried: Outcome | None, evictions: Sequence[Eviction]) -> Outcome:
        """A gang that lost pods, or waits with less than it needs: what is left of it, and since when."""
        snapshot = self._snapshot
        if tried is None or evictions:
            gone = {(one.leaf, one.pod) for one in evictions}
            tried = outcome_of_untried(without(snapshot.gangs[number], gone), snapshot)
        rows = list(tried.rows)
        for clock in self._clocks.get(number, ()):
            rows[clock.row] = rows[clock.row]._replace(stale_since_ns=clock.since_ns)
        lost: dict[object, Reason] = {}
        for one in evictions:
            for_whom = "/".join(snapshot.gangs[one.beneficiary].key) if one.beneficiary != NONE else ""
            part = one.kind < UnitKind.WHOLE_GANG or one.row > 0
            reason = Reason(Code.EVICTED, one.row, detail=one.action, pod=for_whom, surplus=part)
            lost.setdefault((one.row, one.action, one.beneficiary), reason)
        return replace(tried, rows=tuple(rows), reasons=(*lost.values(), *tried.reasons))

    def _lone_outcome(self, number: int) -> Outcome:
        gang = self._snapshot.gangs[number]
        placed = number in self._lone
        row = RowOutcome(placed, int(placed), int(not placed), gang.counts[0].total, None, None)
        waits = [] if placed else [Reason(Code.WAITING_FOR_ROOM)]
        return Outcome(Verdict.PLACED, placed, (row,), (*waits, *map(reason_of_issue, gang.notes)))

    def _outcome(self, state: State) -> Outcome:
        rows = rows_of(state.progress, state.unknown_wishes)
        reasons = [*state.reasons, *map(reason_of_issue, state.gang.notes)]
        return Outcome(state.verdict, rows[0].satisfied, rows, tuple(reasons), state.proof, state.steps)

    def memory(self) -> Memory:
        """What the next cycle may know of this one."""
        return Memory(self._snapshot, self._books.checker.room, self._said, self._idle, self._memory.settled)
