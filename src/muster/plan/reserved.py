"""Room that is set aside: for gangs that were nominated, until their turn, and for moved pods that come back.

It is closed to gangs of the same and of lower priority, and open to higher ones.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from muster.api.tree import NONE
from muster.plan.attempt import Engine
from muster.plan.ledger import Taking
from muster.snapshot.arrays import Gang, Kept, Snapshot

# Reserved room is open to all when nothing came of it for five minutes.
_PATIENT_NS = 5 * 60 * 10**9


class _Entry(NamedTuple):
    priority: int
    gang: int
    # The batch that was nominated; NONE for a moved pod that has not come back yet.
    batch: int
    taking: Taking


class Reserved:
    """All reserved room of a cycle; `face` sets aside what a priority must not take."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._entries: dict[int, list[_Entry]] = {}
        self._engines: list[Engine] = []
        self._priority: int | None = None
        for number in snapshot.waiting:
            gang = snapshot.gangs[number]
            if gang.nominated and not gang.held and gang.ready[0] and not self._lapsed(gang.nominated_since_ns):
                self._entries[number] = list(_nominations(number, gang))
        self.kept: dict[int, tuple[Kept, ...]] = {}
        for number in snapshot.keeping:
            gang = snapshot.gangs[number]
            kept = tuple(one for one in gang.kept if not self._lapsed(one.since_ns))
            if kept:
                self.kept[number] = kept
                self._entries.setdefault(number, []).extend(_moved(number, gang, kept))

    def _lapsed(self, since_ns: int) -> bool:
        waited = self._snapshot.now_ns - since_ns
        return since_ns > 0 and not 0 <= waited <= _PATIENT_NS

    def serve(self, engine: Engine) -> None:
        """An engine whose room this is; what is set aside at the moment is set aside there too."""
        self._engines.append(engine)
        for entry in self._set_aside():
            engine.ledger.give_back(entry.taking, -1)

    @property
    def anything(self) -> bool:
        """Whether room is set aside for somebody at the moment."""
        return any(True for _ in self._set_aside())

    def _set_aside(self) -> Iterable[_Entry]:
        if self._priority is not None:
            for entries in self._entries.values():
                yield from (entry for entry in entries if entry.priority >= self._priority)

    def face(self, priority: int) -> None:
        """From now on gangs of this priority are tried."""
        before, self._priority = self._priority, priority
        if before == priority or not self._entries:
            return
        for entries in self._entries.values():
            for entry in entries:
                was, now = before is not None and entry.priority >= before, entry.priority >= priority
                if was != now:
                    self._move(entry.taking, 1 if was else -1)

    def _move(self, taking: Taking, sign: int) -> None:
        for engine in self._engines:
            engine.ledger.give_back(taking, sign)
            if sign > 0:
                # More room than before: what did not fit may fit now.
                engine.refuted.clear()

    def release(self, number: int) -> list[tuple[int, Taking]]:
        """The room that a gang was nominated to is there again; gives what it was, by batch."""
        mine = [entry for entry in self._entries.get(number, ()) if entry.batch != NONE]
        if not mine:
            return []
        self._entries[number] = [entry for entry in self._entries[number] if entry.batch == NONE]
        for entry in mine:
            if self._priority is not None and entry.priority >= self._priority:
                self._move(entry.taking, 1)
        return [(entry.batch, entry.taking) for entry in mine]


def _nominations(number: int, gang: Gang) -> Iterable[_Entry]:
    for batch, found in enumerate(gang.waiting):
        nodes = [node for node in found.nominated if node != NONE]
        if nodes:
            yield _Entry(gang.priority, number, batch, Taking(found.shape, *np.unique(nodes, return_counts=True)))


def _moved(number: int, gang: Gang, kept: Iterable[Kept]) -> Iterable[_Entry]:
    for one in kept:
        taking = Taking(one.shape, np.array([one.node]), np.array([1]))
        yield _Entry(gang.priority, number, NONE, taking)
