"""The books of a cycle: room now and soon, queues, decisions. Whatever is decided is entered here, once, and only when
the independent checker finds nothing wrong with it.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial

import numpy as np

from muster.api.tree import NONE, satisfied
from muster.model.reasons import Code
from muster.plan.accounts import NOTHING, Accounts, Charge, plus
from muster.plan.attempt import Attempt, Engine
from muster.plan.evictor import Evictor, Sacrifice, Served
from muster.plan.invariants import Checker
from muster.plan.ledger import Ledger, Taking
from muster.plan.outcome import LEAVING, Action, Eviction, Placement, Reason, Verdict
from muster.plan.progress import Permit, Progress, counts_of
from muster.plan.proof import Proof, Refused, mentions_queue
from muster.plan.reserved import Reserved
from muster.plan.units import Spot, without
from muster.snapshot.arrays import Gang, Kept, Snapshot
from muster.snapshot.quarantine import said_of

Ask = Callable[[Engine], Attempt]
Judge = Callable[..., list[str]]


class State:
    """What a cycle knows of one gang that it tries."""

    def __init__(self, number: int, gang: Gang, snapshot: Snapshot, permit: Permit | None) -> None:
        self.number, self.gang = number, gang
        self.progress = Progress(gang, snapshot, permit)
        self.verdict = Verdict.PLACED
        self.reasons: list[Reason] = []
        # Why surplus waits: of a child by its row, of the pods of a batch by ~batch.
        self.waits: dict[int, Reason] = {}
        self.proof: Proof | None = None
        self.steps = 0
        # Ways to meet the minimum that were refuted.
        self.ruled_out = 0
        self.unknown_wishes: frozenset[int] = frozenset()
        # Room is reserved for pods that are not placed.
        self.nominated = False

    def tell(self, error: Exception) -> None:
        """A defect of ours costs one gang its turn, and is told."""
        self.reasons.append(Reason(Code.SCHEDULER_ERROR, 0, detail=said_of(error)))


class Books:
    """Room, queues, and what was decided so far."""

    def __init__(self, snapshot: Snapshot, strategy: str, actions: frozenset[str]) -> None:
        self._snapshot, self._strategy = snapshot, strategy
        self.at_once = Engine(snapshot, Ledger(snapshot), strategy)
        # Room that terminating and evicted pods still hold can be waited for.
        self.soon: Engine | None = None
        self.accounts = Accounts(snapshot)
        # Whether what is asked for would be bound at once: then queues count pods that leave, until they are gone.
        self._binds = False
        self.reserved = Reserved(snapshot, self._admits)
        # Gangs that were nominated count in their queues until their turn.
        self._counted: set[int] = set()
        for number, mine in self.reserved.nominations():
            self._charge_reserved(number, mine, 1)
        self.reserved.serve(self.at_once)
        if snapshot.releasing.any():
            self.open_soon()
        self.checker = Checker(snapshot)
        self._actions = actions
        self.evictor = Evictor(snapshot, self.accounts, actions)
        self.states: dict[int, State] = {}
        self.placements: list[Placement] = []
        self.evictions: list[Eviction] = []
        # What was decided, to be judged again after a defect.
        self._decided: list[Callable[[Checker], list[str]]] = []
        # Pods that go in this cycle, by gang.
        self.gone: dict[int, set[Spot]] = {}
        # Gangs with room of pods that an EvictionRequest names, and the gangs of these pods.
        self.cleared: set[int] = set()
        self._asked_to_go: set[int] = set()

    def _admits(self, number: int, shape: int) -> bool:
        """Whoever was moved and has not come back still counts in its queue, as long as that has place for it."""
        row, cost = self.queue_of(self._snapshot.gangs[number]), self.accounts.cost([(shape, 1)])
        if row == NONE:
            return True
        if self.accounts.refusal(row, cost, NOTHING) is not None:
            return False
        self.accounts.charge(row, cost, NOTHING)
        self.accounts.await_(row, cost, NOTHING)
        return True

    def release(self, number: int) -> list[tuple[int, Taking]]:
        """The room that was set aside for a gang is there again, and its queue has place for it; gives what it was."""
        reserved = self.reserved.release(number)
        if number in self._counted:
            self._charge_reserved(number, reserved, -1)
        return reserved

    def _charge_reserved(self, number: int, reserved: Sequence[tuple[int, Taking]], sign: int) -> None:
        gang = self._snapshot.gangs[number]
        row = self.queue_of(gang)
        if row == NONE:
            return
        counts = Counter[int]()
        for batch, taking in reserved:
            counts[batch] += int(taking.counts.sum())
        cost = self.accounts.cost((gang.waiting[batch].shape, pods) for batch, pods in counts.items())
        firm = self.accounts.firm_more(Progress(gang, self._snapshot), counts, cost)
        self.accounts.charge(row, cost, firm, sign)
        self.accounts.await_(row, cost, firm, sign)
        (self._counted.add if sign > 0 else self._counted.discard)(number)

    def give_up(self, number: int) -> State:
        """After a defect of ours in the middle of a gang's turn: nothing is known of it but what was decided before."""
        self._recover()
        said = self.states.pop(number, None)
        state = self.state(number)
        for placement in self.placements:
            if placement.gang == number:
                enter = state.progress.reserve if placement.nominated else state.progress.place
                enter(placement.batch, placement.nodes)
                state.nominated |= placement.nominated
        state.reasons += said.reasons if said is not None else ()
        return state

    def _recover(self) -> None:
        """Room and queues anew from what was decided."""
        gangs, placed = self._snapshot.gangs, list(self.placements)
        self.checker = Checker(self._snapshot)
        for judge in self._decided:
            # Where the defect is in the checker, what it can't enter twice is still in the ledgers.
            with suppress(Exception):
                judge(self.checker)
        self.reserved.forget_engines()
        self.at_once = Engine(self._snapshot, Ledger(self._snapshot), self._strategy)
        self.reserved.serve(self.at_once)
        for placement in placed:
            shape = gangs[placement.gang].waiting[placement.batch].shape
            self.at_once.ledger.take(Taking(shape, *np.unique(placement.nodes, return_counts=True)))
        for kept in self._places_of(self.evictions, homes=True):
            self.at_once.ledger.take(kept)
        had_soon, self.soon = self.soon is not None, None
        if had_soon:
            soon = self.open_soon()
            for taking in self._places_of(self.evictions):
                soon.ledger.give_back(taking)
        self.accounts.restart()
        for number, moved in self.reserved.kept.items():
            for one in moved:
                self._admits(number, one.shape)
        for number, mine in self.reserved.nominations():
            self._charge_reserved(number, mine, 1)
        self._charge_again(placed)
        self.evictor = Evictor(self._snapshot, self.accounts, self._actions)
        self.evictor.take((), self.evictions)
        for number in {*self.gone, *(placement.gang for placement in placed)}:
            self.evictor.spare(number)
        self._spare_those_asked()

    def _charge_again(self, placements: Sequence[Placement]) -> None:
        by_gang: dict[int, list[Placement]] = {}
        for placement in placements:
            by_gang.setdefault(placement.gang, []).append(placement)
        for number, mine in by_gang.items():
            gang = self._snapshot.gangs[number]
            row, blank = self.queue_of(gang), Progress(gang, self._snapshot)
            if row == NONE:
                continue
            for nominated in (False, True):
                counts = Counter[int]()
                for placement in mine:
                    counts[placement.batch] += len(placement.pods) if placement.nominated == nominated else 0
                cost = self.accounts.cost((gang.waiting[batch].shape, pods) for batch, pods in counts.items())
                firm = self.accounts.firm_more(blank, counts, cost)
                self.accounts.charge(row, cost, firm)
                if nominated:
                    self.accounts.await_(row, cost, firm)
                for batch, pods in counts.items():
                    blank.used[batch] += pods
        gone, self.gone = self.gone, {}
        moved = [one for one in self.evictions if one.to != NONE]
        for row, cost, firm in self._discharge([one for one in self.evictions if one.to == NONE]):
            self.accounts.leave(row, cost, firm)
        for row, cost, firm in self._costs(moved):
            self.accounts.await_(row, cost, firm)
            self.accounts.leave(row, cost, firm)
        self.gone = gone

    def open_soon(self) -> Engine:
        """The room as it will be when everybody who leaves has left; what was given away is given away there too."""
        if self.soon is None:
            self.soon = Engine(self._snapshot, Ledger(self._snapshot, releasing=True), self._strategy)
            for taking in self.at_once.ledger.since(0):
                self.soon.ledger.take(taking)
            self.reserved.serve(self.soon)
        return self.soon

    def state(self, number: int) -> State:
        """What is known of a gang."""
        if number not in self.states:
            gang = self._snapshot.gangs[number]
            row = self.queue_of(gang)
            permit = partial(self._permit, row) if row != NONE and self.accounts.has_end(row) else None
            self.states[number] = State(number, gang, self._snapshot, permit)
        return self.states[number]

    def queue_of(self, gang: Gang) -> int:
        """The queue that a gang is charged to; NONE when it matters to nobody."""
        return self.accounts.row_of(gang) if self.accounts.matter else NONE

    def _permit(self, row: int, progress: Progress, counts: Mapping[int, int]) -> Refused | None:
        """What the queue says to so many more pods of each batch."""
        waiting, accounts = progress.gang.waiting, self.accounts
        cost = accounts.cost((waiting[batch].shape, pods) for batch, pods in counts.items())
        ask = accounts.refusal_now if self._binds else accounts.refusal
        return ask(row, cost, accounts.firm_more(progress, counts, cost))

    def is_late(self, state: State, counts: Mapping[int, int]) -> bool:
        """Whether so many more pods of each batch must wait until pods that leave are gone from their queue."""
        row = self.queue_of(state.gang)
        if not self.accounts.is_left(row):
            return False
        with self._binding():
            return self._permit(row, state.progress, counts) is not None

    @contextmanager
    def _binding(self) -> Iterator[None]:
        self._binds = True
        try:
            yield
        finally:
            self._binds = False

    def bind(self, state: State, ask: Ask) -> Attempt:
        """An attempt in the room that is there now, and within what its queue allows now.

        Where the queue allows it only when pods that leave are gone, the gang is nominated to the room that is there.
        """
        mark = self.at_once.ledger.mark()
        with self._binding():
            attempt = ask(self.at_once)
        found = self._commit(state, attempt, self.at_once, mark, nominated=False)
        may_wait = attempt.proof is None or mentions_queue(attempt.proof)
        if attempt.takings is not None or not may_wait or not self.accounts.is_left(self.queue_of(state.gang)):
            return found
        return self._commit(state, ask(self.at_once), self.at_once, mark, nominated=True, whose=LEAVING)

    def nominate(self, state: State, ask: Ask) -> Attempt:
        """An attempt in the room that will be there."""
        soon = self.open_soon()
        mark = soon.ledger.mark()
        return self._commit(state, ask(soon), soon, mark, nominated=True)

    def renew(self, state: State, reserved: Sequence[tuple[int, Taking]]) -> Attempt | None:
        """Room that was reserved in an earlier cycle: bound if it is there, else nominated again, else None."""
        late = self.is_late(state, counts_of(reserved))
        why = LEAVING if late else ""
        for nominated in (True,) if late else (False, True):
            mark = self.at_once.ledger.mark()
            for _, taking in reserved:
                self.at_once.ledger.take(taking)
            attempt = Attempt(tuple(reserved))
            found = self._commit(state, attempt, self.at_once, mark, nominated=nominated, certain=False, whose=why)
            if found.takings is not None:
                return found
        return None

    def evict(self, state: State, sacrifice: Sacrifice) -> Attempt:
        """The victims go, and the gang is nominated to their room."""
        soon = self.open_soon()
        leaving = list(self._places_of(sacrifice.evictions))
        for taking in leaving:
            soon.ledger.give_back(taking)
        soon.refuted.clear()
        mark = soon.ledger.mark()
        off = [] if sacrifice.action == Action.CONSOLIDATE else self._discharge(sacrifice.evictions)
        attempt = sacrifice.ask(Engine(self._snapshot, soon.ledger, self._strategy))
        found = attempt
        if attempt.takings is None:
            state.reasons.append(Reason(Code.SCHEDULER_ERROR, 0, detail="it does not fit where others were to go"))
        else:
            found = self._commit(state, attempt, soon, mark, nominated=True, evictions=sacrifice.evictions)
        if found.takings is None:
            for row, cost, firm in off:
                self.accounts.charge(row, cost, firm)
            for taking in leaving:
                soon.ledger.give_back(taking, -1)
            return found
        self.evictor.take(sacrifice.units, sacrifice.evictions)
        for row, cost, firm in off:
            self.accounts.leave(row, cost, firm)
        if sacrifice.action == Action.CONSOLIDATE:
            # Whoever is moved comes back: it still counts in its queue, and is not placed.
            for row, cost, firm in self._costs(sacrifice.evictions):
                self.accounts.await_(row, cost, firm)
                self.accounts.leave(row, cost, firm)
        for kept in self._places_of(sacrifice.evictions, homes=True):
            soon.ledger.take(kept)
            self.at_once.ledger.take(kept)
        return found

    def clear(self, state: State, victims: Sequence[Eviction], ask: Ask, *, certain: bool = True) -> Attempt:
        """The gang is nominated to room of pods that an EvictionRequest names.

        Until these pods go they hold their room and count in their queues, and no other gang takes them.
        """
        if any((one.leaf, one.pod) in self.gone.get(one.gang, ()) for one in victims):
            # They go for another gang in this cycle.
            return Attempt(None)
        soon = self.open_soon()
        leaving = list(self._places_of(victims))
        for taking in leaving:
            soon.ledger.give_back(taking)
        soon.refuted.clear()
        mark = soon.ledger.mark()
        off = self._discharge(victims)
        attempt = ask(Engine(self._snapshot, soon.ledger, self._strategy))
        judge = partial(_clearing, gang=state.number, victims=victims)
        found = self._commit(state, attempt, soon, mark, nominated=True, certain=certain, judge=judge)
        for row, cost, firm in off:
            self.accounts.charge(row, cost, firm)
        for taking in leaving:
            soon.ledger.give_back(taking, -1)
        if found.takings is not None:
            self.cleared.add(state.number)
            self._asked_to_go.update(one.gang for one in victims)
            self._spare_those_asked()
            state.reasons[-1] = state.reasons[-1]._replace(detail=Action.REQUEST)
        return found

    def _spare_those_asked(self) -> None:
        for number in self._asked_to_go:
            self.evictor.spare(number)

    def serve(self, served: Sequence[Served], shape: int) -> bool:
        """Gangs of one pod each are nominated in place of others; all of them, or when something is wrong none."""
        evictions = [one for each in served for one in each.evictions]
        placements = [Placement(one.number, 0, (0,), (one.node,), True) for one in served]
        off = self._costs(evictions)
        if self.decide_lone(shape, placements, evictions, nominated=True):
            return False
        soon = self.open_soon()
        for taking in self._places_of(evictions):
            soon.ledger.give_back(taking)
        soon.refuted.clear()
        self.evictor.take([unit for one in served for unit in one.units], evictions)
        for row, cost, firm in off:
            self.accounts.charge(row, cost, firm, -1)
            self.accounts.leave(row, cost, firm)
        taking = Taking(shape, *np.unique([one.node for one in served], return_counts=True))
        for engine in (soon, self.at_once):
            engine.ledger.take(taking)
        return True

    def _places_of(self, evictions: Sequence[Eviction], *, homes: bool = False) -> Iterator[Taking]:
        """Where pods leave, or where their successors go."""
        nodes: dict[int, list[int]] = {}
        for one in evictions:
            placed = self._snapshot.gangs[one.gang].placed[one.leaf]
            node = one.to if homes else placed.nodes[one.pod]
            if node != NONE:
                nodes.setdefault(placed.shapes[one.pod], []).append(node)
        for shape, found in sorted(nodes.items()):
            yield Taking(shape, *np.unique(found, return_counts=True))

    def reap(self, evictions: Sequence[Eviction]) -> list[str]:
        """Pods go for nobody, because what they belong to is below its minimum; what is wrong with it, if anything."""
        off = self._costs(evictions)
        faults = self._decide(_stale, (), evictions)
        if not faults:
            self.evictor.take((), evictions)
            for row, cost, firm in off:
                self.accounts.charge(row, cost, firm, -1)
                self.accounts.leave(row, cost, firm)
        return faults

    def _discharge(self, evictions: Sequence[Eviction]) -> list[tuple[int, Charge, Charge]]:
        """Takes pods off the queues of their gangs; gives what was taken off."""
        off = self._costs(evictions)
        for row, cost, firm in off:
            self.accounts.charge(row, cost, firm, -1)
        return off

    def _costs(self, evictions: Sequence[Eviction]) -> list[tuple[int, Charge, Charge]]:
        """What pods cost the queues of their gangs, and how much of it may not be evicted."""
        gangs = self._snapshot.gangs
        cost: dict[int, Counter[int]] = {}
        spots: dict[int, set[Spot]] = {}
        for one in evictions:
            gang = gangs[one.gang]
            row = self.queue_of(gang)
            if row != NONE:
                if row not in cost:
                    cost[row] = Counter()
                cost[row][gang.placed[one.leaf].shapes[one.pod]] += 1
            if row != NONE and not gang.is_preemptible:
                spots.setdefault(one.gang, set()).add((one.leaf, one.pod))
        off = [(row, self.accounts.cost(shapes.items()), NOTHING) for row, shapes in cost.items()]
        for number, more in spots.items():
            gang, gone = gangs[number], self.gone.get(number, set())
            before = self.accounts.firm_of(without(gang, gone))
            less = plus(before, self.accounts.firm_of(without(gang, gone | more)), -1)
            off.append((self.queue_of(gang), NOTHING, less))
        return off

    def _commit(
        self,
        state: State,
        attempt: Attempt,
        engine: Engine,
        mark: int,
        *,
        nominated: bool,
        certain: bool = True,
        evictions: Sequence[Eviction] = (),
        judge: Judge | None = None,
        whose: str = "",
    ) -> Attempt:
        """The decision stands when the checker finds nothing wrong with it; otherwise it never was.

        The ledger goes back to the mark then. When we were certain of it, that is a defect and is told.
        """
        if attempt.takings is None:
            return attempt
        placements = _placements(state, attempt, nominated=nominated)
        faults = self._decide(judge or partial(Checker.faults, gang=state.number), placements, evictions)
        if faults:
            engine.ledger.rewind(mark)
            if certain:
                state.reasons.append(Reason(Code.SCHEDULER_ERROR, 0, detail=faults[0]))
            return Attempt(None)
        self._charge(state, attempt, nominated=nominated)
        self.evictor.spare(state.number)
        was_whole = satisfied(state.gang.tree, state.progress.present)[0] if nominated else False
        for placement in placements:
            if nominated:
                state.progress.reserve(placement.batch, placement.nodes)
            else:
                state.progress.place(placement.batch, placement.nodes)
        for other in (self.at_once, self.soon):
            if other is not None and other is not engine:
                for _, taking in attempt.takings:
                    other.ledger.take(taking)
        if nominated:
            row = min(state.gang.waiting[batch].leaf for batch, _ in attempt.takings) if was_whole else 0
            waits = Reason(Code.WAITING_FOR_ROOM, row, detail=whose, surplus=was_whole)
            state.reasons += [waits] if waits not in state.reasons else []
        state.nominated |= nominated
        state.unknown_wishes |= attempt.unknown_wishes
        return attempt

    def decide_lone(
        self, shape: int, placements: Sequence[Placement], evictions: Sequence[Eviction] = (), *, nominated: bool
    ) -> list[str]:
        """Many gangs of one pod each; what is wrong with it, and then it never was."""
        judge = partial(Checker.faults_of_lone_pods, shape=shape, nominated=nominated)
        return self._decide(judge, placements, evictions)

    def _decide(self, judge: Judge, placements: Sequence[Placement], evictions: Sequence[Eviction]) -> list[str]:
        """A decision, as one thing: when nothing is wrong with it, it stands, whatever happens to us after that."""
        faults = judge(self.checker, placements=placements, evictions=evictions)
        if not faults:
            self._decided.append(partial(judge, placements=placements, evictions=evictions))
            self.placements += placements
            self.evictions += evictions
            for one in evictions:
                self.gone.setdefault(one.gang, set()).add((one.leaf, one.pod))
        return faults

    def _charge(self, state: State, attempt: Attempt, *, nominated: bool) -> None:
        row = self.queue_of(state.gang)
        if row == NONE or attempt.takings is None:
            return
        counts: dict[int, int] = {}
        for batch, taking in attempt.takings:
            counts[batch] = counts.get(batch, 0) + int(taking.counts.sum())
        cost = self.accounts.cost((state.gang.waiting[batch].shape, pods) for batch, pods in counts.items())
        firm = self.accounts.firm_more(state.progress, counts, cost)
        self.accounts.charge(row, cost, firm)
        if nominated:
            self.accounts.await_(row, cost, firm)

    def kept(self) -> Mapping[int, tuple[Kept, ...]]:
        """The room that stays kept for moved pods: what was, and what was moved now."""
        kept = dict(self.reserved.kept)
        for one in self.evictions:
            if one.to != NONE:
                shape = self._snapshot.gangs[one.gang].placed[one.leaf].shapes[one.pod]
                more = Kept(one.leaf, shape, one.to, self._snapshot.now_ns)
                kept[one.gang] = (*kept.get(one.gang, ()), more)
        return kept


def _placements(state: State, attempt: Attempt, *, nominated: bool) -> list[Placement]:
    """The next pods of each batch on the nodes that were taken for them."""
    placements = []
    used = dict(enumerate(state.progress.used))
    for batch, taking in attempt.takings or ():
        nodes = taking.pods
        pods = range(used[batch], used[batch] + len(nodes))
        used[batch] += len(nodes)
        matched = _matched(pods, nodes, state.gang.waiting[batch].nominated)
        placements.append(Placement(state.number, batch, tuple(pods), matched, nominated))
    return placements


def _matched(pods: range, nodes: list[int], nominated: tuple[int, ...]) -> tuple[int, ...]:
    """The nodes, given to the pods such that a pod that was nominated to one of them gets it."""
    wanted = [nominated[pod] for pod in pods]
    if max(wanted) == NONE:
        return tuple(nodes)
    left = list(nodes)
    found: list[int] = []
    for node in wanted:
        if node in left:
            left.remove(node)
            found.append(node)
        else:
            found.append(NONE)
    return tuple(node if node != NONE else left.pop(0) for node in found)


def _clearing(
    checker: Checker,
    placements: Sequence[Placement],
    evictions: Sequence[Eviction],
    *,
    gang: int,
    victims: Sequence[Eviction],
) -> list[str]:
    return checker.faults_of_clearing(gang, placements, victims)


def _stale(checker: Checker, placements: Sequence[Placement], evictions: Sequence[Eviction]) -> list[str]:
    return checker.faults_of_stale(evictions)
