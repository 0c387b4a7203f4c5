"""What one cycle hands to the next: no and unknown, and the outcomes of gangs that nobody had to look at."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from muster.plan.allotment import Owed
from muster.plan.outcome import Reason
from muster.plan.proof import Proof
from muster.plan.tally import Settled
from muster.snapshot.arrays import Gang, Key, Snapshot
from muster.snapshot.room import Amounts

# Where room became less, a no still holds. After so long it is given anew, so many in a cycle, so that people are told
# the numbers of today.
_OUTDATED_NS, _RENEWALS = 10 * 10**9, 4


class Remembered(NamedTuple):
    """What was said of a gang that did not fit, when, and after how many attempts that no lack of steps cut."""

    gang: Gang
    proof: Proof | None
    attempts: int
    at_ns: int


class Waits(NamedTuple):
    """Why surplus of a gang waits, when that was found out, and how many pods of each batch it asked for at a time."""

    gang: Gang
    reasons: tuple[Reason, ...]
    at_ns: int
    asks: tuple[int, ...]


class Chosen(NamedTuple):
    """The choices of children of a tree node for which room is looked for in place of others, as pods per batch."""

    gang: Gang
    row: int
    choices: list[dict[int, int]]


@dataclass(frozen=True)
class Memory:
    """No and unknown stand while the gang, and the room that it could use, stay as they are."""

    snapshot: Snapshot | None = None
    room: Amounts = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int64))
    said: dict[Key, Remembered] = field(default_factory=dict)
    # Gangs that have their minimum, and why their surplus waits.
    surplus: dict[Key, Waits] = field(default_factory=dict)
    settled: Settled = field(default_factory=Settled)
    # Which choices of children victims were looked for, per gang that is as it was.
    chosen: dict[Key, Chosen] = field(default_factory=dict)
    # When there was last less room than before.
    shrunk_ns: int = 0
    # Gangs that got fewer steps than they asked for.
    owed: Mapping[Key, Owed] = field(default_factory=dict)


class Recall:
    """What of a memory still holds."""

    def __init__(self, memory: Memory, snapshot: Snapshot) -> None:
        self._memory, self._snapshot = memory, snapshot
        self._grown = self._where_room_grew()
        self._renewals = _RENEWALS
        self._is_bounded_anew = self._are_queues_others()
        # A clock that was set back has not been there yet.
        self._shrunk_ns = min(memory.shrunk_ns, snapshot.now_ns)

    @property
    def shrunk_ns(self) -> int:
        """When there was last less room than before."""
        if self._grown is None:
            return self._snapshot.now_ns
        less = self._snapshot.free + self._snapshot.releasing < self._memory.room
        return self._snapshot.now_ns if less.any() else self._shrunk_ns

    def _where_room_grew(self) -> npt.NDArray[np.bool_] | None:
        """Nodes that have more room than when the last cycle ended; None when everything is new."""
        before, now = self._memory.snapshot, self._snapshot
        if before is None or before.nodes is not now.nodes or before.resources != now.resources:
            return None
        more: npt.NDArray[np.bool_] = now.free + now.releasing > self._memory.room
        grown: npt.NDArray[np.bool_] = np.logical_or.reduce(more, axis=1)
        return grown

    def _are_queues_others(self) -> bool:
        """Whether a queue may have something else than in the last cycle: then others may be in the way than room."""
        before, now = self._memory.snapshot, self._snapshot.queues
        if before is None or before.queues.names != now.names:
            return True
        return not all(map(np.array_equal, (before.queues.limit, before.queues.quota), (now.limit, now.quota)))

    @property
    def last_ns(self) -> int | None:
        """When the last cycle was, if there was one."""
        before = self._memory.snapshot
        return before.now_ns if before is not None else None

    def said(self, gang: Gang) -> Remembered | None:
        """What was said of the gang, if it still holds."""
        known = self._memory.said.get(gang.key)
        if known is None or known.gang is not gang or self._is_bounded_anew or self._grew_for(gang):
            return None
        return None if known.proof is not None and self._is_outdated(known.at_ns) else known

    def surplus(self, gang: Gang, asks: tuple[int, ...]) -> Waits | None:
        """Why the gang's surplus waits, if it still does and asks for as much at a time."""
        known = self._memory.surplus.get(gang.key)
        if known is None or known.gang is not gang or known.asks != asks:
            return None
        if self._is_bounded_anew or self._grew_for(gang):
            return None
        return None if known.reasons and self._is_outdated(known.at_ns) else known

    def _is_outdated(self, at_ns: int) -> bool:
        """Whether a no that still holds is given anew, because its numbers may be others by now."""
        age_ns = self._snapshot.now_ns - at_ns
        if not self._renewals or (age_ns >= 0 and (at_ns > self._shrunk_ns or age_ns < _OUTDATED_NS)):
            return False
        self._renewals -= 1
        return True

    def _grew_for(self, gang: Gang) -> bool:
        """Whether a node that the gang could use has more room than when the last cycle ended."""
        if self._grown is None or any(self._opened_for(batch.shape) for batch in gang.waiting):
            return True
        if not self._grown.any():
            return False
        return any((self._grown & self._snapshot.allowed_soon[batch.shape]).any() for batch in gang.waiting)

    def _opened_for(self, shape: int) -> bool:
        """Whether pods of the shape may go to a node, now or soon, that other pods kept them away from before."""
        before, now = self._memory.snapshot, self._snapshot
        if before is None or (shape not in before.repelled and shape not in now.repelled):
            return False
        if before.repelled.get(shape) is now.repelled.get(shape):
            return False
        pairs = ((before.allowed, now.allowed), (before.allowed_soon, now.allowed_soon))
        return any(bool((new[shape] & ~old[shape]).any()) for old, new in pairs)
