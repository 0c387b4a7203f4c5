"""One scheduling cycle, readable top to bottom: who is tried, in which order, and what becomes of it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from muster.api.tree import NONE, satisfied
from muster.plan.attempt import Attempt, Engine
from muster.plan.budget import Budget
from muster.plan.invariants import Checker
from muster.plan.layout import BINPACK, over_nodes, slice_rows
from muster.plan.ledger import Ledger, Taking
from muster.plan.outcome import Code, Outcome, Outcomes, Placement, Plan, Reason, RowOutcome, Verdict
from muster.plan.progress import Progress
from muster.plan.proof import Proof
from muster.plan.reasons import reason_of, reason_of_issue
from muster.plan.tally import Settled, rows_of, whole_rows
from muster.snapshot.arrays import Gang, Key, Snapshot
from muster.snapshot.room import Amounts

# An undecided search may cost twice as much in the next cycle, up to so many times the first budget; then it rests
# until the gang or the room changes.
_MOST_PATIENCE = 16
# A nomination lapses when nothing came of it for five minutes.
_PATIENT_NS = 5 * 60 * 10**9
# What everybody may spend, whatever others have spent: enough for every question that is not hard.
_LEAST_STEPS, _LEAST_PER_BATCH = 200, 12


@dataclass(frozen=True)
class Policy:
    """How to place, and what a search may cost in steps."""

    strategy: str = BINPACK
    steps_per_gang: int = 20_000
    steps_per_cycle: int = 30_000
    # Whether anything is placed beyond minimums.
    surplus: bool = True


class Remembered(NamedTuple):
    """What was said of a gang that did not fit; `steps` is what may be spent on it the next time."""

    gang: Gang
    proof: Proof | None
    steps: int


@dataclass(frozen=True)
class Memory:
    """What one cycle hands to the next: no and unknown, and the outcomes of gangs that nobody had to look at.

    No and unknown stand while the gang, and the room that it could use, stay as they are.
    """

    snapshot: Snapshot | None = None
    room: Amounts = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int64))
    said: dict[Key, Remembered] = field(default_factory=dict)
    # Gangs that have their minimum, and why their surplus waits.
    surplus: dict[Key, tuple[Gang, tuple[Reason, ...]]] = field(default_factory=dict)
    settled: Settled = field(default_factory=Settled)


def schedule(snapshot: Snapshot, policy: Policy | None = None, memory: Memory | None = None) -> tuple[Plan, Memory]:
    """The plan for a snapshot. The same snapshot always gives the same plan."""
    cycle = _Cycle(snapshot, policy or Policy(), memory or Memory())
    for (before, is_surplus, lone_shape), turns in groupby(cycle.order(), key=Turn.kind):
        cycle.reserve(-before)
        if lone_shape != NONE:
            cycle.try_lone_pods([turn.gang for turn in turns], lone_shape)
            continue
        for turn in turns:
            if is_surplus:
                cycle.try_surplus(turn.gang)
            else:
                cycle.try_minimum(turn.gang)
    return cycle.plan(), cycle.memory()


class Turn(NamedTuple):
    """When a gang is tried; turns sort in the order of the cycle."""

    before: int
    surplus: bool
    order: tuple[int, str, str]
    gang: int
    lone_shape: int

    def kind(self) -> tuple[int, bool, int]:
        """Turns of one kind that follow one another may be taken together."""
        return self.before, self.surplus, self.lone_shape


class _State:
    """What a cycle knows of one gang."""

    def __init__(self, gang: Gang, snapshot: Snapshot) -> None:
        self.gang = gang
        self.progress = Progress(gang, snapshot)
        self.verdict = Verdict.PLACED
        self.reasons: list[Reason] = []
        self.proof: Proof | None = None
        self.steps = 0
        # Ways to meet the minimum that were refuted.
        self.ruled_out = 0
        self.unknown_wishes: frozenset[int] = frozenset()
        # Room is reserved for pods that are not placed.
        self.nominated = False


class _Cycle:
    """Room and gangs while the cycle goes on."""

    def __init__(self, snapshot: Snapshot, policy: Policy, memory: Memory) -> None:
        self._snapshot, self._policy, self._memory = snapshot, policy, memory
        self._steps_left = policy.steps_per_cycle
        self._now = Engine(snapshot, Ledger(snapshot), policy.strategy)
        # Room that terminating pods still hold can be waited for.
        self._soon: Engine | None = None
        if snapshot.releasing.any():
            self._soon = Engine(snapshot, Ledger(snapshot, releasing=True), policy.strategy)
        self._checker = Checker(snapshot)
        self._states: dict[int, _State] = {}
        self._placements: list[Placement] = []
        # Gangs of one pod that were placed many at a time.
        self._lone: set[int] = set()
        self._said: dict[Key, Remembered] = {}
        self._idle: dict[Key, tuple[Gang, tuple[Reason, ...]]] = {}
        self._grown = self._where_room_grew()
        # Gangs with nominations by priority, and the room that is set aside for them until their turn.
        self._nominated: dict[int, list[int]] = {}
        self._reserved: dict[int, list[tuple[int, Taking]]] = {}
        for number in snapshot.waiting:
            gang = snapshot.gangs[number]
            if gang.nominated and not gang.held and gang.ready[0] and not self._lapsed(gang):
                self._nominated.setdefault(gang.priority, []).append(number)

    def _lapsed(self, gang: Gang) -> bool:
        """Whether room was reserved for so long that it is open to others again."""
        since = gang.nominated_since_ns
        return since > 0 and self._snapshot.now_ns - since > _PATIENT_NS

    def reserve(self, priority: int) -> None:
        """Room that gangs of this priority were nominated to is not taken by others of it, or of a lower one."""
        for number in self._nominated.pop(priority, ()):
            gang = self._snapshot.gangs[number]
            self._reserved[number] = []
            for batch, found in enumerate(gang.waiting):
                nodes = [node for node in found.nominated if node != NONE]
                if nodes:
                    taking = Taking(found.shape, *np.unique(nodes, return_counts=True))
                    self._reserved[number].append((batch, taking))
                    self._take_in_all(taking, 1)

    def _take_in_all(self, taking: Taking, sign: int) -> None:
        for engine in (self._now, self._soon):
            if engine is not None:
                engine.ledger.give_back(taking, -sign)
                if sign < 0:
                    # More room than before: what did not fit may fit now.
                    engine.refuted.clear()

    def _release(self, number: int) -> list[tuple[int, Taking]]:
        """The room that was set aside for a gang is there again; gives what it was."""
        reserved = self._reserved.pop(number, [])
        for _, taking in reserved:
            self._take_in_all(taking, -1)
        return reserved

    def _nominated_before(self, number: int) -> Attempt | None:
        """Gives the gang's reserved room back; and if it can still be used as it was meant to be, uses it."""
        reserved = self._release(number)
        if not reserved:
            return None
        progress = self._state(number).progress
        counts = list(progress.present)
        for batch, taking in reserved:
            counts[progress.gang.waiting[batch].leaf] += int(taking.counts.sum())
        if not satisfied(progress.gang.tree, counts)[0]:
            return None
        attempt = Attempt(tuple(reserved))
        for nominated in (False, True):
            for _, taking in reserved:
                self._now.ledger.take(taking)
            found = self._commit(number, attempt, self._now, self._soon, nominated=nominated, certain=False)
            if found.takings is not None:
                return found
        return None

    def order(self) -> list[Turn]:
        """By priority, then minimums before surplus, then age, then name (SPEC §7)."""
        turns = []
        for number in self._snapshot.waiting:
            gang = self._snapshot.gangs[number]
            if gang.held or not gang.ready[0]:
                continue
            if not gang.satisfied[0]:
                turns.append(Turn(-gang.priority, False, gang.order, number, gang.lone_shape))
            if gang.may_have_surplus and self._policy.surplus:
                turns.append(Turn(-gang.priority, True, gang.order, number, NONE))
        turns.sort()
        return turns

    def try_lone_pods(self, numbers: list[int], shape: int) -> None:
        """Gangs of one pod each, all of one shape and next to one another in the order: as many as fit, at once."""
        ledger = self._now.ledger
        fits = ledger.fits(shape)
        counts = over_nodes(fits, min(len(numbers), int(fits.sum())), self._policy.strategy, ledger.liked.get(shape))
        assert counts is not None
        nodes = np.repeat(np.arange(len(counts)), counts).tolist()
        placements = [Placement(number, 0, (0,), (node,), False) for number, node in zip(numbers, nodes, strict=False)]
        if placements and not self._checker.faults_of_lone_pods(shape, placements):
            taking = Taking(shape, *slice_rows(np.arange(len(counts)), counts))
            ledger.take(taking)
            if self._soon is not None:
                self._soon.ledger.take(taking)
            self._placements += placements
            self._lone.update(numbers[: len(nodes)])
            numbers = numbers[len(nodes) :]
        for number in numbers:
            self.try_minimum(number)

    def try_minimum(self, number: int) -> None:
        """One attempt for exactly what the gang misses of its minimum, all or nothing."""
        gang = self._snapshot.gangs[number]
        state = self._state(number)
        known = self._remembered(gang)
        most = self._policy.steps_per_gang * _MOST_PATIENCE
        if known is not None and (known.proof is not None or known.steps > most):
            self._release(number)
            self._fails(state, known)
            return
        steps = self._policy.steps_per_gang if known is None else known.steps
        budget = self._may_spend(steps, gang)
        attempt = self._nominated_before(number)
        if attempt is None:
            attempt = self._try(number, partial(Engine.minimum, progress=state.progress, row=0, budget=budget))
        self._spent(state, budget)
        if attempt.takings is None:
            state.ruled_out = attempt.ruled_out
            # Who was given less than asked for asks for the same again.
            self._fails(state, Remembered(gang, attempt.proof, steps * 2 if budget.steps >= steps else steps))

    def try_surplus(self, number: int) -> None:
        """Missing children, then extra pods, each by itself; one that does not fit never blocks another."""
        state = self._state(number)
        progress = state.progress
        self._release(number)
        if state.verdict is not Verdict.PLACED or not satisfied(progress.gang.tree, progress.present)[0]:
            return
        known = self._memory.surplus.get(state.gang.key)
        if known is not None and known[0] is state.gang and not self._grew_for(state.gang):
            state.reasons += known[1]
            self._idle[state.gang.key] = known
            return
        before, told = list(progress.used), len(state.reasons)
        self._try_all_surplus(number, state)
        if before == progress.used == [0] * len(before) and not self._reserved:
            self._idle[state.gang.key] = (state.gang, tuple(state.reasons[told:]))

    def _try_all_surplus(self, number: int, state: _State) -> None:
        progress = state.progress
        self._try_children(number, state)
        whole = whole_rows(progress)
        for batch, found in enumerate(progress.gang.waiting):
            if whole[found.leaf] and progress.used[batch] < len(found.pods):
                self._try_extra(number, state, batch)

    def _try_extra(self, number: int, state: _State, batch: int) -> None:
        """As many pods of a batch as there is room for now, then as many as there will be."""
        progress, found = state.progress, state.gang.waiting[batch]
        budget = self._may_spend(self._policy.steps_per_gang, state.gang)
        attempt = Attempt(())
        while attempt.takings is not None and progress.used[batch] < len(found.pods):
            attempt = self._try(number, partial(Engine.surplus, progress=progress, batch=batch, budget=budget))
        self._spent(state, budget)
        if attempt.takings is None:
            self._surplus_waits(state, attempt.proof, found.leaf)

    def _surplus_waits(self, state: _State, proof: Proof | None, row: int) -> None:
        """The reason is about the unit that waits, also where a hold around it is what is short of room."""
        reason = reason_of(proof, row, surplus=True)
        inside = row <= reason.row < state.gang.tree.ends[row]
        state.reasons.append(reason if inside else reason._replace(row=row))

    def _may_spend(self, steps: int, gang: Gang) -> Budget:
        """Steps for one gang, out of those for the whole cycle."""
        least = _LEAST_STEPS + _LEAST_PER_BATCH * len(gang.waiting)
        return Budget(max(least, min(steps, self._steps_left)))

    def _spent(self, state: _State, budget: Budget) -> None:
        state.steps += budget.spent
        self._steps_left -= budget.spent

    def _try_children(self, number: int, state: _State) -> None:
        """Optional children, whole or not at all; one that is placed may have optional children of its own."""
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
            attempt = self._try(number, partial(Engine.minimum, progress=progress, row=row, budget=budget))
            self._spent(state, budget)
            if attempt.takings is None:
                self._surplus_waits(state, attempt.proof, row)
            elif before != progress.present[row : state.gang.tree.ends[row]]:
                # Bound, not only nominated.
                whole_rows(progress, row, whole)

    def _try(self, number: int, ask: Callable[[Engine], Attempt]) -> Attempt:
        """Now, else when the terminating pods are gone: then the whole attempt is nominated, and nothing is bound."""
        attempt = self._ask(number, self._now, ask)
        if attempt.takings is not None:
            return self._commit(number, attempt, self._now, self._soon, nominated=False)
        if self._soon is None:
            return attempt
        later = self._ask(number, self._soon, ask)
        if later.takings is not None:
            return self._commit(number, later, self._soon, self._now, nominated=True)
        return later

    def _ask(self, number: int, engine: Engine, ask: Callable[[Engine], Attempt]) -> Attempt:
        """A defect of ours costs one gang its turn, and is told; never the cycle."""
        mark = engine.ledger.mark()
        try:
            return ask(engine)
        except Exception as error:
            engine.ledger.rewind(mark)
            what = f"{type(error).__name__}: {str(error)[:100]}"
            self._state(number).reasons.append(Reason(Code.SCHEDULER_ERROR, 0, detail=what))
            return Attempt(None)

    def _commit(
        self,
        number: int,
        attempt: Attempt,
        engine: Engine,
        other: Engine | None,
        *,
        nominated: bool,
        certain: bool = True,
    ) -> Attempt:
        """The decision stands when the checker finds nothing wrong with it; otherwise it never was.

        When we were certain of it, that is a defect and is told.
        """
        state = self._state(number)
        assert attempt.takings is not None
        placements = []
        used = dict(enumerate(state.progress.used))
        for batch, taking in attempt.takings:
            nodes = taking.pods
            pods = range(used[batch], used[batch] + len(nodes))
            used[batch] += len(nodes)
            nominated_to = state.gang.waiting[batch].nominated
            placements.append(Placement(number, batch, tuple(pods), _matched(pods, nodes, nominated_to), nominated))
        faults = self._checker.faults(number, placements)
        if faults:
            for _, taking in attempt.takings:
                engine.ledger.give_back(taking)
            if certain:
                state.reasons.append(Reason(Code.SCHEDULER_ERROR, 0, detail=faults[0]))
            return Attempt(None)
        was_whole = satisfied(state.gang.tree, state.progress.present)[0] if nominated else False
        for placement in placements:
            if nominated:
                state.progress.reserve(placement.batch, placement.nodes)
            else:
                state.progress.place(placement.batch, placement.nodes)
        if other is not None:
            for _, taking in attempt.takings:
                other.ledger.take(taking)
        if nominated:
            row = min(state.gang.waiting[batch].leaf for batch, _ in attempt.takings) if was_whole else 0
            state.reasons.append(Reason(Code.WAITING_FOR_ROOM, row, surplus=was_whole))
        state.nominated |= nominated
        state.unknown_wishes |= attempt.unknown_wishes
        self._placements += placements
        return attempt

    def _fails(self, state: _State, said: Remembered) -> None:
        state.verdict = Verdict.UNDECIDED if said.proof is None else Verdict.INFEASIBLE
        state.proof = said.proof
        if not state.reasons:
            reason = reason_of(said.proof, 0)
            if said.proof is None:
                reason = reason._replace(steps=state.steps, ruled_out=state.ruled_out)
            state.reasons.append(reason)
        if not self._reserved:
            # While room is set aside for others, a no may be theirs, and is not remembered.
            self._said[state.gang.key] = said

    def _state(self, number: int) -> _State:
        if number not in self._states:
            self._states[number] = _State(self._snapshot.gangs[number], self._snapshot)
        return self._states[number]

    def _where_room_grew(self) -> npt.NDArray[np.bool_] | None:
        """Nodes that have more room than when the last cycle ended; None when everything is new."""
        before, now = self._memory.snapshot, self._snapshot
        if before is None or before.nodes is not now.nodes or before.resources != now.resources:
            return None
        more: npt.NDArray[np.bool_] = now.free + now.releasing > self._memory.room
        grown: npt.NDArray[np.bool_] = np.logical_or.reduce(more, axis=1)
        return grown

    def _remembered(self, gang: Gang) -> Remembered | None:
        """What was said of the gang, if it still holds."""
        known = self._memory.said.get(gang.key)
        if known is None or known.gang is not gang or self._grew_for(gang):
            return None
        return known

    def _grew_for(self, gang: Gang) -> bool:
        """Whether a node that the gang could use has more room than when the last cycle ended."""
        if self._grown is None:
            return True
        if not self._grown.any():
            return False
        return any((self._grown & self._snapshot.allowed[batch.shape]).any() for batch in gang.waiting)

    def plan(self) -> Plan:
        """Everything that was decided."""
        tried = {number: self._outcome(state) for number, state in self._states.items()}
        tried.update((number, self._lone_outcome(number)) for number in self._lone)
        settled = partial(self._memory.settled.of, snapshot=self._snapshot)
        return Plan(self._snapshot, Outcomes(self._snapshot.gangs, tried, settled), tuple(self._placements))

    def _lone_outcome(self, number: int) -> Outcome:
        gang = self._snapshot.gangs[number]
        row = RowOutcome(True, 1, 0, gang.counts[0].total, None, None)
        return Outcome(Verdict.PLACED, True, (row,), tuple(map(reason_of_issue, gang.notes)))

    def _outcome(self, state: _State) -> Outcome:
        rows = rows_of(state.progress, state.unknown_wishes)
        reasons = [*state.reasons, *map(reason_of_issue, state.gang.notes)]
        return Outcome(state.verdict, rows[0].satisfied, rows, tuple(reasons), state.proof, state.steps)

    def memory(self) -> Memory:
        """What the next cycle may know of this one."""
        return Memory(self._snapshot, self._checker.room, self._said, self._idle, self._memory.settled)


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
