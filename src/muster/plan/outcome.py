"""What a cycle comes to: a Plan, as a value. Words are made of it elsewhere."""

import enum
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, overload

from muster.api.tree import NONE
from muster.plan.model import Dimension
from muster.plan.proof import Proof
from muster.snapshot.arrays import Gang, Kept, Snapshot
from muster.snapshot.queues import CHARGES


class Verdict(enum.Enum):
    """About the minimum only (SPEC §1)."""

    PLACED = "Placed"
    INFEASIBLE = "Infeasible"
    UNDECIDED = "Undecided"
    HELD = "Held"


class Reason(NamedTuple):
    """Why something waits, as data: about which tree node, what was asked, the best that was there, and where.

    `dimension` says what `asked` and `best` count. `surplus` reasons leave the verdict as it is.
    """

    code: str
    row: int = 0
    asked: int = 0
    best: int = 0
    topology: int = NONE
    level: int = NONE
    domain: int = NONE
    dimension: Dimension | None = None
    # What the whole cluster has of it.
    total: int | None = None
    # The wider domain (level, domain) that placed pods, or the rest of the gang, keep it in.
    around: tuple[int, int] | None = None
    # Where nothing is decided: what was spent, how many ways to meet the minimum were ruled out, and whether the search
    # ends until something changes.
    steps: int = 0
    ruled_out: int = 0
    rests: bool = False
    detail: str = ""
    pod: str = ""
    surplus: bool = False
    # What a queue does not allow: `asked` of the resource, where `best` is left of `total`; in base units.
    queue: int = NONE
    charge: int = NONE
    # What would help, where the code alone does not say it.
    remedy: str = ""


class Placement(NamedTuple):
    """Waiting pods of one batch that go to nodes: the pods by their places in the batch, one node for each.

    `nominated`: the room is not free yet; it is reserved, and nothing is bound.
    """

    gang: int
    batch: int
    pods: tuple[int, ...]
    nodes: tuple[int, ...]
    nominated: bool


class Action:
    """What a cycle may do (SPEC §10)."""

    ALLOCATE = "allocate"
    CONSOLIDATE = "consolidate"
    RECLAIM = "reclaim"
    PREEMPT = "preempt"
    STALE = "stale"
    # Pods that an EvictionRequest names: their author evicts them. Never one of the actions of a cycle.
    REQUEST = "request"


# What a gang waits for that is nominated because pods of its queue still leave: the detail of `WaitingForRoom`.
LEAVING = "leaving"

ACTIONS = (Action.ALLOCATE, Action.CONSOLIDATE, Action.RECLAIM, Action.PREEMPT, Action.STALE)


class UnitKind(enum.IntEnum):
    """What goes at once (SPEC §8), the least first."""

    LEFTOVER = 0
    SURPLUS_POD = 1
    SURPLUS_CHILD = 2
    WHOLE_GANG = 3


class Measured(NamedTuple):
    """What a queue has of one charge, and what it is due of it: its fair share, or its quota; in base units."""

    queue: int
    charge: int
    has: int
    due: int


class Ground(NamedTuple):
    """What let queues lose something to a gang (SPEC §8): all by their fair share, or all by their `quota`.

    `above` are the loser's queue and those above it, each with more than it is due when the gang had its turn; `within`
    the gang's own, each with what it has together with the gang. Both end below the queue that they share.
    """

    quota: bool
    above: tuple[Measured, ...]
    within: tuple[Measured, ...]


class Eviction(NamedTuple):
    """A placed pod (by gang, leaf and place in the leaf) that goes, by an action, for a gang or for nobody (NONE).

    `row` is the tree node that goes with it: the leaf of a single pod, a surplus child, the root for a whole gang. `to`
    is the node where room is kept for its successor, when it is only moved. `considered` units were there to choose
    from; `exact` when every choice of them was looked at. `ground` is what allowed it, if it is reclaimed. `passed`
    are the disruption budgets, by number, that do not allow it: it is deleted, because an eviction would be refused.
    """

    gang: int
    leaf: int
    pod: int
    action: str
    beneficiary: int = NONE
    kind: UnitKind = UnitKind.WHOLE_GANG
    row: int = 0
    to: int = NONE
    considered: int = 0
    exact: bool = False
    ground: Ground | None = None
    passed: tuple[int, ...] = ()


class Answer(NamedTuple):
    """What the scheduler says to an EvictionRequest: its phase from now on, and why.

    `gang` is what `why` is about: the beneficiary, or the gang of a victim. `gangs` are all whose pods are concerned
    when room is reserved, until `until_ns`.
    """

    name: tuple[str, str]
    uid: str
    phase: str
    why: str
    gang: int = NONE
    detail: str = ""
    until_ns: int = 0
    gangs: frozenset[int] = frozenset()


class QueueOutcome(NamedTuple):
    """One queue after the cycle, per charge (`queues.CHARGES`) in base units."""

    requested: tuple[int, ...]
    allocated: tuple[int, ...]
    non_preemptible: tuple[int, ...]
    fair_share: tuple[int, ...]
    # What counts in it and is not placed: nominated, or moved and not back yet.
    awaited: tuple[int, ...] = (0,) * len(CHARGES)


class RowOutcome(NamedTuple):
    """One tree node after the cycle. `domain` is (topology, level, domain) of the constraint that stands on it."""

    satisfied: bool
    placed: int
    pending: int
    total: int
    domain: tuple[int, int, int] | None
    preferred_met: bool | None
    # Since when it has been below its minimum by a loss; 0 when it is not.
    stale_since_ns: int = 0
    # It goes only with its parent; and whether it lacks pods by a loss without a clock of its own.
    joined: bool = False
    lost: bool = False


@dataclass(frozen=True, eq=False)
class Outcome:
    """One gang after the cycle."""

    verdict: Verdict
    satisfied: bool
    rows: tuple[RowOutcome, ...]
    reasons: tuple[Reason, ...]
    proof: Proof | None = None
    steps: int = 0


class Outcomes(Sequence[Outcome]):
    """One outcome per gang, in the order of the snapshot. Those of gangs that nobody tried are made when asked for."""

    def __init__(self, gangs: int, tried: dict[int, Outcome], untried: Callable[[int], Outcome]) -> None:
        self._gangs, self._tried, self._untried = gangs, tried, untried

    def __len__(self) -> int:
        return self._gangs

    @property
    def tried(self) -> Mapping[int, Outcome]:
        """Those of gangs that were tried in this cycle, by number."""
        return self._tried

    @overload
    def __getitem__(self, at: int) -> Outcome: ...
    @overload
    def __getitem__(self, at: slice) -> list[Outcome]: ...
    def __getitem__(self, at: int | slice) -> Outcome | list[Outcome]:
        if isinstance(at, slice):
            return [self[number] for number in range(len(self))[at]]
        number = range(len(self))[at]
        found = self._tried.get(number)
        return found if found is not None else self._untried(number)


@dataclass(frozen=True, eq=False)
class Plan:
    """What to do: outcomes in the order of the snapshot's gangs, placements and evictions as they were found."""

    snapshot: Snapshot
    outcomes: Outcomes
    placements: tuple[Placement, ...]
    evictions: tuple[Eviction, ...] = ()
    # In the order of the snapshot's queues.
    queues: tuple[QueueOutcome, ...] = ()
    # Per gang that has any: the room that stays kept for its moved pods.
    kept: Mapping[int, tuple[Kept, ...]] = field(default_factory=dict)
    # What is said to EvictionRequests.
    answers: tuple[Answer, ...] = ()
    # Per gang whose turn ended by a defect: which.
    defects: Mapping[int, str] = field(default_factory=dict)

    def of(self, key: tuple[str, str]) -> tuple[Gang, Outcome]:
        """One gang and what came of it. Raises KeyError."""
        gangs = self.snapshot.gangs
        number = bisect_left(gangs, key, key=lambda gang: gang.key)
        if number == len(gangs) or gangs[number].key != key:
            raise KeyError(key)
        return gangs[number], self.outcomes[number]
