"""One scheduling cycle, readable top to bottom: who is tried, in which order, and what becomes of it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from muster.api.tree import NONE, satisfied
from muster.plan.attempt import Attempt, Engine, Progress
from muster.plan.budget import Budget
from muster.plan.invariants import Checker
from muster.plan.layout import BINPACK
from muster.plan.ledger import Ledger
from muster.plan.outcome import Code, Outcome, Placement, Plan, Reason, Verdict
from muster.plan.proof import Proof
from muster.plan.reasons import reason_of, reason_of_issue
from muster.plan.tally import missing_children, rows_of, waiting_for_pods
from muster.snapshot.arrays import Gang, Key, Snapshot
from muster.snapshot.room import Amounts

# An undecided search may cost twice as much in the next cycle, up to so many times the first budget.
_MOST_PATIENCE = 16


@dataclass(frozen=True)
class Policy:
    """How to place, and what a search may cost in steps."""

    strategy: str = BINPACK
    steps_per_gang: int = 20_000
    steps_per_cycle: int = 400_000


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
    settled: dict[Key, tuple[Gang, Outcome]] = field(default_factory=dict)


def schedule(snapshot: Snapshot, policy: Policy | None = None, memory: Memory | None = None) -> tuple[Plan, Memory]:
    """The plan for a snapshot. The same snapshot always gives the same plan."""
    cycle = _Cycle(snapshot, policy or Policy(), memory or Memory())
    for number, is_surplus in cycle.order():
        if is_surplus:
            cycle.try_surplus(number)
        else:
            cycle.try_minimum(number)
    plan = cycle.plan()
    return plan, cycle.memory(plan)


class _State:
    """What a cycle knows of one gang."""

    def __init__(self, gang: Gang) -> None:
        self.gang = gang
        self.progress = Progress(gang)
        self.verdict = Verdict.PLACED
        self.reasons: list[Reason] = []
        self.proof: Proof | None = None
        self.steps = 0
        self.unknown_wishes: frozenset[int] = frozenset()
        # Room is reserved for pods that are not placed.
        self.nominated = False


class _Cycle:
    """Room and gangs while the cycle goes on."""

    def __init__(self, snapshot: Snapshot, policy: Policy, memory: Memory) -> None:
        self._snapshot, self._policy, self._memory = snapshot, policy, memory
        self._budget = Budget(policy.steps_per_cycle)
        self._now = Engine(snapshot, Ledger(snapshot), policy.strategy)
        # Room that terminating pods still hold can be waited for.
        self._soon: Engine | None = None
        if snapshot.releasing.any():
            self._soon = Engine(snapshot, Ledger(snapshot, releasing=True), policy.strategy)
        self._checker = Checker(snapshot)
        self._states: dict[int, _State] = {}
        self._placements: list[Placement] = []
        self._said: dict[Key, Remembered] = {}
        self._grown = self._where_room_grew()

    def order(self) -> Iterator[tuple[int, bool]]:
        """By priority, then minimums before surplus, then age, then name (SPEC §7)."""
        gangs = self._snapshot.gangs
        turns = [
            (-gang.priority, surplus, gang.order, number)
            for number, gang in enumerate(gangs)
            if gang.waiting and not gang.held and gang.ready[0]
            for surplus in (False, True)
        ]
        for _, surplus, _, number in sorted(turns):
            yield number, surplus

    def try_minimum(self, number: int) -> None:
        """One attempt for exactly what the gang misses of its minimum, all or nothing."""
        gang = self._snapshot.gangs[number]
        if gang.satisfied[0]:
            return
        state = self._state(number)
        known = self._remembered(gang)
        if known is not None and known.proof is not None:
            self._fails(state, known)
            return
        steps = self._policy.steps_per_gang if known is None else known.steps
        budget = Budget(steps, self._budget)
        attempt = self._try(number, lambda engine: engine.minimum(state.progress, 0, budget))
        state.steps += budget.spent
        if attempt.takings is None:
            patience = min(steps * 2, self._policy.steps_per_gang * _MOST_PATIENCE)
            self._fails(state, Remembered(gang, attempt.proof, patience))

    def try_surplus(self, number: int) -> None:
        """Missing children, then extra pods, each by itself; one that does not fit never blocks another."""
        state = self._state(number)
        progress = state.progress
        if state.verdict is not Verdict.PLACED or not satisfied(progress.gang.tree, progress.present)[0]:
            return
        budget = Budget(self._policy.steps_per_gang, self._budget)
        self._try_children(number, state, budget)
        nodes = progress.gang.tree.nodes
        met = satisfied(progress.gang.tree, progress.present)
        for batch, found in enumerate(progress.gang.waiting):
            row = found.leaf
            while row != NONE and met[row]:
                row = nodes[row].parent
            if row == NONE and progress.used[batch] < len(found.pods):
                leaf = found.leaf
                attempt = self._try(number, lambda engine, batch=batch: engine.surplus(progress, batch, budget))  # type: ignore[misc]
                if progress.used[batch] < len(found.pods):
                    state.reasons.append(reason_of(attempt.proof, leaf, surplus=True))
        state.steps += budget.spent

    def _try_children(self, number: int, state: _State, budget: Budget) -> None:
        """Optional children, whole or not at all; one that is placed may have optional children of its own."""
        progress = state.progress
        tried: set[int] = set()
        while True:
            missing = [row for row in missing_children(progress) if row not in tried]
            if not missing:
                return
            row = missing[0]
            tried.add(row)
            attempt = self._try(number, lambda engine, row=row: engine.minimum(progress, row, budget))  # type: ignore[misc]
            if attempt.takings is None and progress.gang.ready[row]:
                state.reasons.append(reason_of(attempt.proof, row, surplus=True))

    def _try(self, number: int, ask: Callable[[Engine], Attempt]) -> Attempt:
        """Now, else when the terminating pods are gone: then the whole attempt is nominated, and nothing is bound."""
        attempt = ask(self._now)
        if attempt.takings is not None:
            return self._commit(number, attempt, self._now, self._soon, nominated=False)
        if self._soon is None:
            return attempt
        later = ask(self._soon)
        if later.takings is not None:
            return self._commit(number, later, self._soon, self._now, nominated=True)
        return later

    def _commit(
        self, number: int, attempt: Attempt, engine: Engine, other: Engine | None, *, nominated: bool
    ) -> Attempt:
        """The decision stands when the checker finds nothing wrong with it; otherwise it never was."""
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
            state.verdict = Verdict.UNDECIDED
            state.reasons.append(Reason(Code.SCHEDULER_ERROR, 0, detail=faults[0]))
            return Attempt(None)
        for placement in placements:
            if nominated:
                state.progress.reserve(placement.batch, placement.nodes)
            else:
                state.progress.place(placement.batch, placement.nodes)
        if other is not None:
            for _, taking in attempt.takings:
                other.ledger.take(taking)
        state.nominated |= nominated
        state.unknown_wishes |= attempt.unknown_wishes
        self._placements += placements
        return attempt

    def _fails(self, state: _State, said: Remembered) -> None:
        state.verdict = Verdict.UNDECIDED if said.proof is None else Verdict.INFEASIBLE
        state.proof = said.proof
        if not state.reasons:
            state.reasons.append(reason_of(said.proof, 0))
        self._said[state.gang.key] = said

    def _state(self, number: int) -> _State:
        if number not in self._states:
            self._states[number] = _State(self._snapshot.gangs[number])
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
        if known is None or known.gang is not gang or self._grown is None:
            return None
        if self._grown.any():
            allowed = np.any([self._snapshot.allowed[batch.shape] for batch in gang.waiting], axis=0)
            if (self._grown & allowed).any():
                return None
        return known

    def plan(self) -> Plan:
        """Everything that was decided."""
        outcomes = tuple(self._outcome(number, gang) for number, gang in enumerate(self._snapshot.gangs))
        return Plan(self._snapshot, outcomes, tuple(self._placements))

    def _outcome(self, number: int, gang: Gang) -> Outcome:
        state = self._states.get(number)
        if state is None:
            known = self._memory.settled.get(gang.key)
            return known[1] if known is not None and known[0] is gang else self._settled(gang)
        rows = rows_of(state.progress, self._snapshot, state.unknown_wishes)
        reasons = [*state.reasons, *map(reason_of_issue, gang.notes)]
        if state.nominated:
            reasons.insert(0, Reason(Code.WAITING_FOR_ROOM, 0))
        return Outcome(state.verdict, rows[0].satisfied, rows, tuple(reasons), state.proof, state.steps)

    def _settled(self, gang: Gang) -> Outcome:
        """A gang that was not tried: it is held, not ready, or has nothing that waits."""
        rows = rows_of(Progress(gang), self._snapshot, frozenset())
        reasons = [reason_of_issue(issue) for issue in gang.held]
        verdict = Verdict.HELD
        if gang.satisfied[0] and not gang.held:
            verdict = Verdict.PLACED
        elif not gang.held:
            reasons += waiting_for_pods(gang)
        reasons += map(reason_of_issue, gang.notes)
        return Outcome(verdict, rows[0].satisfied, rows, tuple(reasons))

    def memory(self, plan: Plan) -> Memory:
        """What the next cycle may know of this one."""
        settled = {
            gang.key: (gang, outcome)
            for number, (gang, outcome) in enumerate(zip(self._snapshot.gangs, plan.outcomes, strict=True))
            if number not in self._states
        }
        return Memory(self._snapshot, self._checker.room, self._said, settled)


def _matched(pods: range, nodes: list[int], nominated: tuple[int, ...]) -> tuple[int, ...]:
    """The nodes, given to the pods such that a pod that was nominated to one of them gets it."""
    wanted = [nominated[pod] for pod in pods]
    if all(node == NONE for node in wanted):
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
