"""What a cycle comes to: a Plan, as a value. Words are made of it elsewhere."""

import enum
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, overload

from muster.api.tree import NONE
from muster.plan.model import Dimension
from muster.plan.proof import Proof
from muster.snapshot.arrays import Gang, Snapshot


class Verdict(enum.Enum):
    """About the minimum only (SPEC §1)."""

    PLACED = "Placed"
    INFEASIBLE = "Infeasible"
    UNDECIDED = "Undecided"
    HELD = "Held"


class Code:
    """Every reason, in one word. What the user must mend stands first, what time may mend last."""

    INVALID = "Invalid"
    QUEUE_NOT_FOUND = "QueueNotFound"
    TOPOLOGY_NOT_FOUND = "TopologyNotFound"
    LEVEL_NOT_FOUND = "LevelNotFound"
    PRIORITY_NOT_FOUND = "PriorityClassNotFound"
    UNSUPPORTED = "Unsupported"
    SET_ASIDE = "SetAside"
    BAD_POD = "BadPod"
    WAITING_FOR_PODS = "WaitingForPods"
    TOPOLOGY_DRIFT = "TopologyDrift"
    INSUFFICIENT = "InsufficientResources"
    NOT_ENOUGH_IN_DOMAIN = "NotEnoughInDomain"
    FRAGMENTED = "TopologyFragmented"
    NO_ARRANGEMENT = "NoArrangement"
    SEARCH_BUDGET = "SearchBudgetSpent"
    WAITING_FOR_ROOM = "WaitingForRoom"
    SCHEDULER_ERROR = "SchedulerError"


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
    # Where nothing is decided: what was spent, and how many ways to meet the minimum were ruled out.
    steps: int = 0
    ruled_out: int = 0
    detail: str = ""
    pod: str = ""
    surplus: bool = False


class Placement(NamedTuple):
    """Waiting pods of one batch that go to nodes: the pods by their places in the batch, one node for each.

    `nominated`: the room is not free yet; it is reserved, and nothing is bound.
    """

    gang: int
    batch: int
    pods: tuple[int, ...]
    nodes: tuple[int, ...]
    nominated: bool


class RowOutcome(NamedTuple):
    """One tree node after the cycle. `domain` is (topology, level, domain) of the constraint that stands on it."""

    satisfied: bool
    placed: int
    pending: int
    total: int
    domain: tuple[int, int, int] | None
    preferred_met: bool | None


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

    def __init__(self, gangs: Sequence[Gang], tried: Mapping[int, Outcome], settled: Callable[[Gang], Outcome]) -> None:
        self._gangs, self._tried, self._settled = gangs, tried, settled

    def __len__(self) -> int:
        return len(self._gangs)

    @overload
    def __getitem__(self, at: int) -> Outcome: ...
    @overload
    def __getitem__(self, at: slice) -> list[Outcome]: ...
    def __getitem__(self, at: int | slice) -> Outcome | list[Outcome]:
        if isinstance(at, slice):
            return [self[number] for number in range(len(self))[at]]
        number = range(len(self))[at]
        found = self._tried.get(number)
        return found if found is not None else self._settled(self._gangs[number])


@dataclass(frozen=True, eq=False)
class Plan:
    """What to do: outcomes in the order of the snapshot's gangs, placements in the order in which they were found."""

    snapshot: Snapshot
    outcomes: Outcomes
    placements: tuple[Placement, ...]

    def of(self, key: tuple[str, str]) -> tuple[Gang, Outcome]:
        """One gang and what came of it. Raises KeyError."""
        gangs = self.snapshot.gangs
        number = bisect_left(gangs, key, key=lambda gang: gang.key)
        if number == len(gangs) or gangs[number].key != key:
            raise KeyError(key)
        return gangs[number], self.outcomes[number]
