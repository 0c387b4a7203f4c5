"""One scheduling cycle, readable top to bottom: who is tried, in which order, and what becomes of it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from muster.api.tree import NONE, satisfied
from muster.model.reasons import Code
from muster.plan.allotment import Allotment
from muster.plan.attempt import Attempt, Engine
from muster.plan.books import Ask, Books, State
from muster.plan.budget import Budget
from muster.plan.clearing import answer_late, evictions_of, grant, opened
from muster.plan.evictor import Wanted
from muster.plan.joining import with_joined
from muster.plan.layout import BINPACK
from muster.plan.ledger import Taking
from muster.plan.lone import Lone
from muster.plan.memory import Chosen, Memory, Recall, Remembered, Waits
from muster.plan.order import Line, Turn, is_in_line, turns_of
from muster.plan.outcome import ACTIONS, Action, Answer, Eviction, Outcome, Outcomes, Plan, Reason, UnitKind, Verdict
from muster.plan.progress import Progress, counts_of, whole_again
from muster.plan.proof import Proof, Refused, is_refused, mentions_queue
from muster.plan.protecting import with_protection
from muster.plan.reasons import doubtful, reason_of, reason_of_issue
from muster.plan.stale import Clock, Lacking, lacking
from muster.plan.tally import outcome_of_untried, rows_of, whole_rows
from muster.plan.units import without
from muster.snapshot.arrays import Gang, Key, Snapshot
from muster.snapshot.quarantine import said_of

# What part of a gang's steps each question may cost while victims are looked for.
_PER_QUESTION = 4
# So many choices of children are asked about by what they cost their queue.
_MOST_CHOICES = 16


@dataclass(frozen=True)
class Policy:
    """How to place, what a search may cost in steps, and what may be done."""

    strategy: str = BINPACK
    steps_per_gang: int = 20_000
    steps_per_cycle: int = 40_000
    # Whether anything is placed beyond minimums.
    surplus: bool = True
    actions: frozenset[str] = frozenset(ACTIONS)


def schedule(snapshot: Snapshot, policy: Policy | None = None, memory: Memory | None = None) -> tuple[Plan, Memory]:
    """The plan for a snapshot. The same snapshot always gives the same plan."""
    cycle = _Cycle(with_joined(with_protection(snapshot)), policy or Policy(), memory or Memory())
    cycle.place()
    cycle.reap()
    return cycle.plan(), cycle.memory()


class _Cycle:
    """Gangs while the cycle goes on."""

    def __init__(self, snapshot: Snapshot, policy: Policy, memory: Memory) -> None:
        self._snapshot, self._policy, self._memory = snapshot, policy, memory
        self._recall = Recall(memory, snapshot)
        self._books = Books(snapshot, policy.strategy, policy.actions)
        # Steps that are set aside for a gang without a turn would be lost.
        owed = {key: one for key, one in self._memory.owed.items() if is_in_line(snapshot, key)}
        self._allotment = Allotment(policy.steps_per_gang, policy.steps_per_cycle, owed, snapshot.now_ns)
        self._line = Line((), self._books.accounts)
        self._lone = Lone(snapshot, self._books, policy.strategy)
        self._opened = opened(snapshot)
        # Beneficiaries of requests for which it is proved that they do not fit when the victims are gone.
        self._in_vain: set[int] = set()
        # Clocks of what is below its minimum, and joined rows that lack pods without one.
        self._clocks: dict[int, list[Clock]] = {}
        self._lost: dict[int, Lacking] = {}
        self._said: dict[Key, Remembered] = {}
        self._idle: dict[Key, Waits] = {}
        self._chosen: dict[Key, Chosen] = {}
        self._defects: dict[int, str] = {}

    def place(self) -> None:
        """All turns, in the order of SPEC §7."""
        if not self._policy.actions - {Action.STALE}:
            return
        books = self._books
        turns = turns_of(self._snapshot, surplus=self._policy.surplus, apart=self._opened.tried)
        self._line = Line(turns, books.accounts)
        while (turn := self._line.pop()) is not None:
            self._guarded(turn.gang, partial(self._take, turn), surplus=turn.surplus)
            for number in sorted(self._lone.open - self._lone.placed - self._lone.nominated):
                # Others like it, whose turn came to nothing.
                self._guarded_alone(number)
            self._lone.open = set()

    def _guarded(self, number: int, do: Callable[[], None], *, surplus: bool) -> None:
        """A defect of ours costs one gang its turn, and is told; never the cycle."""
        try:
            do()
        except Exception as error:
            self._lone.adopt(self._books.placements)
            if self._lone.open <= {number}:
                # Of several that are served together nobody knows which one it was: it is told, and does not rest.
                self._defects[number] = said_of(error)
            self._lone.open.discard(number)
            if number in self._lone.placed or number in self._lone.nominated:
                self._books.give_up(number)
                return
            state = self._books.give_up(number)
            state.tell(error)
            if not surplus:
                state.verdict = Verdict.UNDECIDED

    def _take(self, turn: Turn) -> None:
        """One turn, or several that are alike."""
        books = self._books
        books.reserved.face(self._snapshot.gangs[turn.gang])
        self._allotment.begin(self._snapshot.gangs[turn.gang])
        if turn.gang in books.gone:
            # Its room went to others: it comes back another time.
            return
        if turn.lone_shape != NONE and Action.ALLOCATE in self._policy.actions:
            self._lone.serve(turn, self._line, self._guarded_alone)
        elif turn.surplus:
            if self._try_surplus(books.state(turn.gang)):
                self._line.put_back(turn, self._snapshot.gangs[turn.gang])
        else:
            self._try_minimum(books.state(turn.gang))

    def _guarded_alone(self, number: int) -> None:
        """A defect costs this one, and not the one whose turn it is together with others like it."""
        self._guarded(number, partial(self._try_alone, number), surplus=False)

    def _try_alone(self, number: int) -> None:
        """A gang of one pod that could not be placed together with others like it."""
        self._books.reserved.face(self._snapshot.gangs[number])
        self._allotment.begin(self._snapshot.gangs[number])
        self._try_minimum(self._books.state(number))

    def _try_minimum(self, state: State) -> None:
        """One attempt for exactly what the gang misses of its minimum, all or nothing."""
        # Where somebody made way in this cycle, there is more room than when it was said.
        gang, known = state.gang, None if self._books.evictions else self._recall.said(state.gang)
        attempts = 0 if known is None else known.attempts
        if known is not None and (known.proof is not None or self._allotment.rests(attempts)):
            # Nothing has changed for it, except perhaps which pods it may displace.
            self._books.release(state.number)
            attempt, said = Attempt(None, known.proof), known
        else:
            before, is_cut = self._nominated_before(state), False
            if before is not None:
                attempt = before
            else:
                ask = partial(Engine.minimum, progress=state.progress, row=0)
                attempt, is_cut = self._search(state, ask, self._allotment.worth(attempts))
            attempts += not is_cut
            said = Remembered(gang, attempt.proof, attempts, self._snapshot.now_ns)
        if attempt.takings is None:
            state.ruled_out = attempt.ruled_out
            if not self._clear(state) and self._displace(state, attempt, 0, surplus=False) is None:
                is_new = said is not known and said.proof is not None
                if is_new and self._books.reserved.anything_promised:
                    self._fails_beside_promises(state, said)
                else:
                    self._fails(state, said)

    def _fails_beside_promises(self, state: State, said: Remembered) -> None:
        """A gang that does not fit beside what other schedulers have nominated is infeasible only if it does not fit
        without that either; else it waits for that room.
        """
        books = self._books
        engine = books.soon or books.at_once
        engine = Engine(self._snapshot, engine.ledger, self._policy.strategy)
        with books.reserved.as_if_unpromised(engine):
            mark = engine.ledger.mark()
            budget = self._allotment.budget(state.gang, self._policy.steps_per_gang)
            attempt = engine.minimum(state.progress, 0, budget)
            self._pay(state, budget, self._policy.steps_per_gang)
            engine.ledger.rewind(mark)
        if attempt.takings is None:
            self._fails(state, said._replace(proof=attempt.proof))
            return
        whom = min(one.pod for one in self._snapshot.promised if one.holds_against(state.gang.priority))
        reason = reason_of(said.proof, 0)._replace(code=Code.WAITING_FOR_ROOM, detail=whom)
        state.verdict, state.reasons = Verdict.HELD, [*state.reasons, reason]

    def _clear(self, state: State) -> bool:
        """Room of pods that an EvictionRequest names for the gang, if that is enough."""
        clearance = self._opened.tried.get(state.number)
        if clearance is None or Action.ALLOCATE not in self._policy.actions:
            return False
        budget = self._allotment.budget(state.gang, self._policy.steps_per_gang)
        ask = partial(Engine.minimum, progress=state.progress, row=0, budget=budget)
        attempt = self._books.clear(state, evictions_of(clearance), ask)
        self._pay(state, budget, self._policy.steps_per_gang)
        if attempt.takings is None and attempt.proof is not None:
            self._in_vain.add(state.number)
        return attempt.takings is not None

    def _nominated_before(self, state: State) -> Attempt | None:
        """Gives the gang's reserved room back; and if it can still be used as it was meant to be, uses it."""
        progress = state.progress
        reserved = whole_again(progress, self._books.release(state.number))
        if not reserved or Action.ALLOCATE not in self._policy.actions:
            return None
        found = self._books.renew(state, reserved) if progress.refusal(counts_of(reserved)) is None else None
        clearance = self._opened.tried.get(state.number)
        if found is not None or clearance is None:
            return found

        def take(engine: Engine) -> Attempt:
            for _, taking in reserved:
                engine.ledger.take(taking)
            return Attempt(tuple(reserved))

        found = self._books.clear(state, evictions_of(clearance), take, certain=False)
        return found if found.takings is not None else None

    def _try_surplus(self, state: State) -> bool:
        """Missing children, then extra pods, each by itself; one that does not fit never blocks another.

        Where other queues are in line, no more at a time than the queue is due; whether there is more is told.
        """
        progress, books = state.progress, self._books
        reserved = books.release(state.number)
        if state.verdict is not Verdict.PLACED or not satisfied(progress.gang.tree, progress.present)[0]:
            return False
        if reserved:
            self._return(state, reserved)
        alone = self._line.is_alone(state.gang)
        every = {batch: len(found.pods) - progress.used[batch] for batch, found in enumerate(progress.gang.waiting)}
        asks = tuple(min(pods, self._most(state, batch, one=not alone)) for batch, pods in every.items())
        # Where its queue does not let all of it in, more may be asked for without more room: that is not remembered.
        is_cut = progress.refusal(every) is not None
        known = None if books.evictions or is_cut else self._recall.surplus(state.gang, asks)
        if known is not None and not books.evictor.may_help(progress):
            state.waits = dict(enumerate(known.reasons))
            self._idle[state.gang.key] = known
            return False
        before = sum(progress.used)
        self._try_children(state, one=not alone)
        whole = whole_rows(progress)
        for batch, found in enumerate(progress.gang.waiting):
            if not alone and sum(progress.used) > before:
                break
            if ~batch in state.waits and not alone:
                # Room only shrinks while others take their turns.
                continue
            if whole[found.leaf] and progress.used[batch] < len(found.pods):
                self._try_extra(state, batch, one=not alone)
        if not alone and before < sum(progress.used) < sum(len(batch.pods) for batch in progress.gang.waiting):
            return True
        is_cut = is_cut or any(reason.queue != NONE for reason in state.waits.values())
        if not any(progress.used) and not books.reserved.anything and not is_cut:
            self._idle[state.gang.key] = Waits(state.gang, tuple(state.waits.values()), self._snapshot.now_ns, asks)
        return False

    def _return(self, state: State, reserved: Sequence[tuple[int, Taking]]) -> None:
        """Surplus that was nominated, or moved, goes where room is kept for it, if it is whole there."""
        progress = state.progress
        back = whole_again(progress, reserved)
        if not back or progress.refusal(counts_of(back)) is not None or Action.ALLOCATE not in self._policy.actions:
            return
        # Where the queue waits for pods that leave, a part of it may be bound: it is tried pod by pod.
        if not self._books.is_late(state, counts_of(back)):
            self._books.renew(state, back)

    def _try_extra(self, state: State, batch: int, *, one: bool) -> None:
        """As many pods of a batch as there is room for now, then soon, then one by one in place of others.

        With `one`, no more than its queue is due of them, and at least one.
        """
        progress, found = state.progress, state.gang.waiting[batch]
        budget = self._allotment.budget(state.gang, self._policy.steps_per_gang)
        most = self._most(state, batch, one=one)
        ask = partial(Engine.surplus, progress=progress, batch=batch, budget=budget, most=most)
        attempt, before = Attempt(()), progress.used[batch]
        while attempt.takings is not None and progress.used[batch] < len(found.pods):
            if one and progress.used[batch] > before:
                break
            attempt = self._try(state, ask)
            if attempt.takings is None:
                attempt = self._displace_some(state, attempt, batch, most) or attempt
        self._pay(state, budget, self._policy.steps_per_gang)
        if attempt.takings is None:
            self._surplus_waits(state, attempt.proof, found.leaf, ~batch)

    def _most(self, state: State, batch: int, *, one: bool) -> int:
        """How many pods of a batch are asked for at a time; with `one`, no more than its queue is due of them."""
        found, row = state.gang.waiting[batch], self._books.queue_of(state.gang)
        if not one or row == NONE:
            return len(found.pods)
        return max(1, self._books.accounts.within_share(row, self._books.accounts.cost([(found.shape, 1)])))

    def _displace_some(self, state: State, failed: Attempt, batch: int, most: int) -> Attempt | None:
        """Room for pods of a batch in place of others: for all that wait, else for half of them, and so on."""
        found = state.gang.waiting[batch]
        pods = min(len(found.pods) - state.progress.used[batch], most)
        row = self._books.queue_of(state.gang)
        if row != NONE and Action.PREEMPT not in self._policy.actions:
            each = self._books.accounts.cost([(found.shape, 1)])
            pods = max(1, min(pods, self._books.accounts.within_share(row, each)))
        while pods:
            attempt = self._displace(state, failed, found.leaf, surplus=True, batch=batch, pods=pods)
            if attempt is not None:
                return attempt
            pods //= 2
        return None

    def _try_children(self, state: State, *, one: bool) -> None:
        """Optional children, whole or not at all; one that is placed may have optional children of its own.

        With `one`, no more than one of them.
        """
        progress, nodes = state.progress, state.gang.tree.nodes
        whole = whole_rows(progress)
        for row in range(1, len(nodes)):
            if whole[row] or not whole[nodes[row].parent] or (one and row in state.waits):
                continue
            if not state.gang.ready[row]:
                if any(state.gang.pending[leaf] for leaf in state.gang.tree.leaves_below(row)):
                    state.waits[row] = Reason(Code.WAITING_FOR_PODS, row, surplus=True)
                continue
            before = list(progress.present[row : state.gang.tree.ends[row]])
            ask = partial(Engine.minimum, progress=progress, row=row)
            attempt, _ = self._search(state, ask, self._policy.steps_per_gang)
            if attempt.takings is None:
                attempt = self._displace(state, attempt, row, surplus=True) or attempt
            if attempt.takings is None:
                self._surplus_waits(state, attempt.proof, row, row)
            elif before != progress.present[row : state.gang.tree.ends[row]]:
                # Bound, not only nominated.
                whole_rows(progress, row, whole)
            if one and attempt.takings:
                return

    def _surplus_waits(self, state: State, proof: Proof | None, row: int, what: int) -> None:
        """The reason is about the unit that waits, also where a hold around it is what is short of room."""
        if Action.ALLOCATE not in self._policy.actions:
            return
        reason = reason_of(proof, row, surplus=True)
        inside = row <= reason.row < state.gang.tree.ends[row]
        state.waits[what] = reason if inside else reason._replace(row=row)

    def _search(self, state: State, ask: Callable[..., Attempt], steps: int) -> tuple[Attempt, bool]:
        """An attempt of up to `steps`, and whether it was cut: other gangs had spent what it needed."""
        budget = self._allotment.budget(state.gang, steps)
        attempt = self._try(state, partial(ask, budget=budget))
        return attempt, self._pay(state, budget, steps)

    def _pay(self, state: State, budget: Budget, steps: int) -> bool:
        """Books what a question about a gang cost; whether it was cut."""
        state.steps += budget.spent
        return self._allotment.pay(state.gang, budget, steps)

    def _try(self, state: State, ask: Ask) -> Attempt:
        """Now, else when the terminating pods are gone: then the whole attempt is nominated, and nothing is bound."""
        books = self._books
        if Action.ALLOCATE not in self._policy.actions:
            return Attempt(None)
        attempt = books.bind(state, ask)
        if attempt.takings is not None or books.soon is None or is_refused(attempt.proof):
            return attempt
        return books.nominate(state, ask)

    def _displace(
        self, state: State, failed: Attempt, row: int, *, surplus: bool, batch: int = NONE, pods: int = 1
    ) -> Attempt | None:
        """Room for a tree node's minimum, or for pods of a batch, in place of others (SPEC §8); None without it."""
        if isinstance(failed.proof, Refused) and failed.proof.quota:
            # A quota is about what stays: nobody's leaving helps.
            return None
        progress, books = state.progress, self._books

        def ask(engine: Engine, progress: Progress) -> Attempt:
            steps = self._policy.steps_per_gang // _PER_QUESTION
            budget = self._allotment.budget(state.gang, steps)
            if batch == NONE:
                attempt = engine.minimum(progress, row, budget)
            else:
                mark = engine.ledger.mark()
                attempt = engine.surplus(progress, batch, budget, most=pods)
                if sum(int(taking.counts.sum()) for _, taking in attempt.takings or ()) < pods:
                    engine.ledger.rewind(mark)
                    attempt = Attempt(None)
            self._pay(state, budget, steps)
            return attempt

        if Action.ALLOCATE not in self._policy.actions and self._fits_as_it_is(partial(ask, progress=progress)):
            return None
        choices = [{batch: pods}] if batch != NONE else self._choices(progress, row)
        wanted = Wanted(state.number, progress, row, choices, ask, surplus)
        if not books.evictor.may_ask(wanted):
            return None
        sacrifice = books.evictor.find(wanted, books.open_soon())
        if sacrifice is None:
            return None
        found = books.evict(state, sacrifice)
        return found if found.takings is not None else None

    def _choices(self, progress: Progress, row: int) -> list[dict[int, int]]:
        """Choices of children: the one that comes first by the spec, and those that ask for the least.

        They are found once for a gang that waits as it did: there may be very many of them.
        """
        gang = progress.gang
        known = self._memory.chosen.get(gang.key)
        if known is None or known.gang is not gang or known.row != row or any(progress.used):
            known = Chosen(gang, row, self._choose(progress, row))
        if not any(progress.used):
            self._chosen[gang.key] = known
        return known.choices

    def _choose(self, progress: Progress, row: int) -> list[dict[int, int]]:
        waiting, asks = progress.gang.waiting, self._books.at_once.ledger.asks
        first, *others = self._books.at_once.wanted(progress, row, _MOST_CHOICES**2) or [{}]
        if not first:
            return []

        def weight(counts: dict[int, int]) -> list[int]:
            heavy = np.sum([asks[waiting[batch].shape].astype(int) * pods for batch, pods in counts.items()], axis=0)
            return [int(amount) for amount in heavy]

        return [first, *sorted(others, key=weight)[: _MOST_CHOICES - 1]]

    def _fits_as_it_is(self, ask: Ask) -> bool:
        """Whether nobody has to go for it."""
        engine = self._books.open_soon()
        mark = engine.ledger.mark()
        found = ask(engine).takings is not None
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
                rests = self._allotment.rests(said.attempts)
                reason = reason._replace(steps=state.steps, ruled_out=state.ruled_out, rests=rests)
            state.reasons.append(reason)
        queues = mentions_queue(said.proof) or (said.proof is None and state.progress.is_limited)
        if state.verdict is not Verdict.HELD and not queues and not self._books.reserved.anything_of_ours:
            # While room is set aside for other gangs, a no may be theirs, and is not remembered.
            self._said[state.gang.key] = said
        if state.verdict is Verdict.INFEASIBLE and (doubt := self._doubt(state.gang)) is not None:
            # Some of what is forbidden to it may not be: then there is no proof.
            state.verdict, state.proof, state.reasons = Verdict.HELD, None, [doubt]

    def _doubt(self, gang: Gang) -> Reason | None:
        """Why nodes may be forbidden to a gang that are not, or not for long."""
        found = [one for batch in gang.waiting if (one := self._snapshot.repelled.get(batch.shape)) is not None]
        for one in found:
            if one.unclear.any():
                return Reason(Code.UNSUPPORTED, 0, detail=one.doubt)
        promise = next((one.promise for one in found if one.promise), "")
        return Reason(Code.WAITING_FOR_ROOM, 0, detail=promise) if promise else None

    def reap(self) -> None:
        """Gangs, and children, that stayed below their minimum for too long, go (SPEC §8). Clocks run in any case."""
        for number in self._snapshot.broken:
            self._guarded(number, partial(self._look_at_clocks, number), surplus=True)

    def _look_at_clocks(self, number: int) -> None:
        """What of a gang is below its minimum by a loss, and goes when its time is up."""
        snapshot, books = self._snapshot, self._books
        gang, state = snapshot.gangs[number], books.states.get(number)
        found = lacking(gang, self._present(number), snapshot.now_ns, self._recall.last_ns)
        clocks = found.clocks
        if clocks:
            self._clocks[number] = clocks
        if found.lost or found.below:
            self._lost[number] = found
        invalid = any(issue.code == Code.INVALID for issue in gang.held)
        repaired = state is not None and state.nominated
        if Action.STALE in self._policy.actions and not invalid and not repaired and number not in books.gone:
            for clock in clocks:
                self._reap(number, clock)

    def _present(self, number: int) -> list[int]:
        """Per row: the pods of a leaf that are placed or succeeded after what was decided so far."""
        state = self._books.states.get(number)
        present = list(state.progress.present if state is not None else self._snapshot.gangs[number].present)
        for leaf, _ in self._books.gone.get(number, ()):
            present[leaf] -= 1
        return present

    def _reap(self, number: int, clock: Clock) -> None:
        """Everything below a tree node whose time is up, if disruption budgets allow it."""
        gang, books = self._snapshot.gangs[number], self._books
        pods = [
            Eviction(number, leaf, at, Action.STALE, row=clock.goes)
            for leaf in gang.tree.leaves_below(clock.goes)
            for at in range(len(gang.placed[leaf].nodes) if leaf in gang.placed else 0)
        ]
        if not clock.due or not books.evictor.is_undisturbed(pods):
            return
        faults = books.reap(pods)
        if faults:
            books.state(number).reasons.append(Reason(Code.SCHEDULER_ERROR, clock.row, detail=faults[0]))

    def plan(self) -> Plan:
        """Everything that was decided."""
        books, snapshot = self._books, self._snapshot
        many = self._lone.placed | self._lone.nominated
        states = ((number, state) for number, state in books.states.items() if number not in many)
        tried = {number: self._outcome(state) for number, state in states}
        tried.update((number, self._lone.outcome(number)) for number in sorted(many))
        lost: dict[int, list[Eviction]] = {}
        for one in books.evictions:
            lost.setdefault(one.gang, []).append(one)

        def untried(number: int) -> Outcome:
            if number in lost or number in self._clocks or number in self._lost:
                return self._after_loss(number, None, lost.get(number, ()))
            return self._memory.settled.of(snapshot.gangs[number], snapshot)

        for number in [one for one in tried if one in lost or one in self._clocks or one in self._lost]:
            tried[number] = self._after_loss(number, tried[number], lost.get(number, ()))
        outcomes = Outcomes(len(snapshot.gangs), tried, untried)
        queues = books.accounts.outcomes() if snapshot.queues.written else ()
        placements, evictions = tuple(books.placements), tuple(books.evictions)
        return Plan(
            snapshot, outcomes, placements, evictions, queues, books.kept(), tuple(self._answers()), self._defects
        )

    def _answers(self) -> Iterator[Answer]:
        """What is said to EvictionRequests. One is granted in the cycle after the one that reserves the room: when the
        nominations stand in the status of the beneficiary's pods, where the next leader finds them, too.
        """
        yield from self._opened.answers
        for number, clearance in self._opened.tried.items():
            state = self._books.states.get(number)
            if number in self._books.cleared:
                if not clearance.granted and self._stands(number):
                    yield grant(clearance, self._snapshot)
            elif state is not None and Action.ALLOCATE in self._policy.actions:
                # Room that is reserved for another request may be free again soon.
                in_vain = number in self._in_vain and not self._books.cleared
                found = answer_late(clearance, state.verdict, state.reasons, in_vain=in_vain)
                if found is not None:
                    yield found

    def _stands(self, number: int) -> bool:
        """Whether the room that the gang is nominated to is the room that its pods' status names."""
        waiting = self._snapshot.gangs[number].waiting
        mine = [one for one in self._books.placements if one.gang == number]
        return all(
            waiting[one.batch].nominated[pod] == node
            for one in mine
            for pod, node in zip(one.pods, one.nodes, strict=True)
        )

    def _after_loss(self, number: int, tried: Outcome | None, evictions: Sequence[Eviction]) -> Outcome:
        """A gang that lost pods, or waits with less than it needs: what is left of it, and since when."""
        snapshot = self._snapshot
        gone = {(one.leaf, one.pod) for one in evictions}
        if tried is None or (gone and not any(self._books.states[number].progress.used)):
            tried = outcome_of_untried(without(snapshot.gangs[number], gone), snapshot)
            if Action.ALLOCATE in self._policy.actions:
                # What is left of it could be tried again; it waits because it was evicted.
                tried = replace(tried, reasons=tuple(one for one in tried.reasons if one.code != Code.NOT_TRIED))
        elif gone:
            # Something of it was placed in this cycle, and something else goes.
            left = self._books.states[number].progress.copy()
            left.present = self._present(number)
            rows_left = rows_of(left, frozenset())
            tried = replace(tried, rows=rows_left, satisfied=rows_left[0].satisfied)
        rows = list(tried.rows)
        for clock in self._clocks.get(number, ()):
            rows[clock.row] = rows[clock.row]._replace(stale_since_ns=clock.since_ns)
        if number in self._lost:
            for row in self._lost[number].lost:
                rows[row] = rows[row]._replace(lost=rows[row].joined)
            for row in self._lost[number].below:
                rows[row] = rows[row]._replace(lost=True)
        lost: dict[object, Reason] = {}
        for one in evictions:
            for_whom = "/".join(snapshot.gangs[one.beneficiary].key) if one.beneficiary != NONE else ""
            part = one.kind < UnitKind.WHOLE_GANG or one.row > 0
            reason = Reason(Code.EVICTED, one.row, detail=one.action, pod=for_whom, surplus=part)
            lost.setdefault((one.row, one.action, one.beneficiary), reason)
        return replace(tried, rows=tuple(rows), reasons=(*lost.values(), *tried.reasons))

    def _outcome(self, state: State) -> Outcome:
        rows = rows_of(state.progress, state.unknown_wishes)
        reasons = [*state.reasons, *state.waits.values(), *map(reason_of_issue, state.gang.notes)]
        doubts = doubtful(state.gang, self._snapshot) if state.verdict is Verdict.INFEASIBLE else []
        if doubts:
            # It was tried, and is not placed; but what it is refused for may come in a way that is not planned with.
            reasons = [*doubts, *reasons[len(state.reasons) :]]
            return Outcome(Verdict.HELD, rows[0].satisfied, rows, tuple(reasons), None, state.steps)
        return Outcome(state.verdict, rows[0].satisfied, rows, tuple(reasons), state.proof, state.steps)

    def memory(self) -> Memory:
        """What the next cycle may know of this one."""
        now_ns, recall = self._snapshot.now_ns, self._recall
        shrunk_ns = now_ns if self._books.placements else recall.shrunk_ns
        room = self._books.checker.room
        return Memory(
            self._snapshot,
            room,
            self._said,
            self._idle,
            self._memory.settled,
            self._chosen,
            shrunk_ns,
            self._allotment.owed,
        )
