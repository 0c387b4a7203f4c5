"""Room that is set aside: for gangs that were nominated, until their turn, and for moved pods that come back.

It is open to higher priorities of the same queue, and closed to everybody else. Between queues it is shares that count:
otherwise who was reclaimed from would take back the room as soon as it is free.

Room that other schedulers have nominated for pods of theirs is set aside, too: a priority is all that is known of it.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from muster.api.tree import NONE
from muster.plan.attempt import Engine
from muster.plan.ledger import Taking
from muster.snapshot.arrays import Gang, Kept, Snapshot

# Reserved room is open to all when nothing came of it for five minutes.
_PATIENT_NS = 5 * 60 * 10**9


class _Entry(NamedTuple):
    # The batch that was nominated; NONE for a moved pod that has not come back yet.
    batch: int
    taking: Taking


class _Group:
    """Gangs of one queue and priority, with what is set aside for them."""

    def __init__(self, priority: int) -> None:
        self.priority = priority
        self.closed = False
        self.entries: dict[int, list[_Entry]] = {}

    def takings(self) -> Iterable[Taking]:
        """All of it, one for each shape."""
        nodes: dict[int, list[int]] = {}
        for entries in self.entries.values():
            for _, taking in entries:
                nodes.setdefault(taking.shape, []).extend(taking.pods)
        return [Taking(shape, *np.unique(found, return_counts=True)) for shape, found in sorted(nodes.items())]


class Reserved:
    """All reserved room of a cycle; `face` sets aside what a gang must not take."""

    def __init__(self, snapshot: Snapshot, admits: Callable[[int, int], bool]) -> None:
        """`admits` says whether a gang's queue has place for one more pod of a shape, and charges it then."""
        self._snapshot = snapshot
        # By queue, then by priority.
        self._groups: dict[str, dict[int, _Group]] = {}
        self._engines: list[Engine] = []
        # Groups whose room is open at the moment: nobody has been tried yet, or one of higher priority is.
        self._open: list[_Group] = []
        for number in snapshot.waiting:
            gang = snapshot.gangs[number]
            if gang.nominated and not gang.held and gang.ready[0] and not self._lapsed(gang.nominated_since_ns):
                self._enter(number, gang, _nominations(gang))
        # Of other schedulers: by priority, and whether it is open to those above.
        self._promised: dict[tuple[int, bool], _Group] = {}
        for one in snapshot.promised:
            which = (one.priority, one.lapsed)
            if which not in self._promised:
                self._promised[which] = _Group(one.priority)
                self._open.append(self._promised[which])
            taking = Taking(one.shape, np.array([one.node]), np.array([1]))
            self._promised[which].entries.setdefault(NONE, []).append(_Entry(NONE, taking))
        self.kept: dict[int, tuple[Kept, ...]] = {}
        for number in snapshot.keeping:
            gang = snapshot.gangs[number]
            # Nobody knows since when: then it is somebody's invention.
            fresh = [one for one in gang.kept if one.since_ns > 0 and not self._lapsed(one.since_ns)]
            kept = tuple(one for one in fresh if not gang.held and admits(number, one.shape))
            if kept:
                self.kept[number] = kept
                self._enter(number, gang, _moved(kept))

    def _enter(self, number: int, gang: Gang, entries: Iterable[_Entry]) -> None:
        groups = self._groups.setdefault(gang.queue, {})
        if gang.priority not in groups:
            groups[gang.priority] = _Group(gang.priority)
            self._open.append(groups[gang.priority])
        groups[gang.priority].entries.setdefault(number, []).extend(entries)

    def _lapsed(self, since_ns: int) -> bool:
        waited = self._snapshot.now_ns - since_ns
        return since_ns > 0 and not 0 <= waited <= _PATIENT_NS

    def serve(self, engine: Engine) -> None:
        """An engine whose room this is; what is set aside at the moment is set aside there too."""
        self._engines.append(engine)
        for group in self._all():
            for taking in group.takings() if group.closed else ():
                engine.ledger.give_back(taking, -1)

    def forget_engines(self) -> None:
        """Their room is made anew."""
        self._engines = []

    @property
    def is_empty(self) -> bool:
        """Whether nothing is reserved for anybody."""
        return not self._groups and not self._promised

    def nominations(self) -> Iterable[tuple[int, list[tuple[int, Taking]]]]:
        """Per gang that was nominated: its batches and where."""
        for group in self._all():
            for number, entries in group.entries.items():
                mine = [(entry.batch, entry.taking) for entry in entries if entry.batch != NONE]
                if mine:
                    yield number, mine

    def _all(self) -> Iterable[_Group]:
        return (*(group for groups in self._groups.values() for group in groups.values()), *self._promised.values())

    @property
    def anything(self) -> bool:
        """Whether room is set aside for any gang or pod at the moment."""
        return any(group.closed and any(group.entries.values()) for group in self._all())

    @property
    def anything_of_ours(self) -> bool:
        """Whether some of it is for a gang."""
        ours = (group for groups in self._groups.values() for group in groups.values())
        return any(group.closed and any(group.entries.values()) for group in ours)

    @property
    def anything_promised(self) -> bool:
        """Whether some of it is for pods of other schedulers."""
        return any(group.closed for group in self._promised.values())

    @contextmanager
    def as_if_unpromised(self, engine: Engine) -> Iterator[None]:
        """In the room of an engine, for a while, nothing is set aside for other schedulers."""
        takings = [taking for group in self._promised.values() if group.closed for taking in group.takings()]
        for taking in takings:
            engine.ledger.give_back(taking)
        try:
            yield
        finally:
            for taking in takings:
                engine.ledger.give_back(taking, -1)

    def face(self, gang: Gang) -> None:
        """From now on this gang, and those like it, are tried."""
        if self.is_empty:
            return
        mine = self._groups.get(gang.queue, {})
        opens = [group for group in mine.values() if group.priority < gang.priority]
        opens += [group for (priority, lapsed), group in self._promised.items() if lapsed and priority < gang.priority]
        for group in self._open:
            if group not in opens:
                self._move(group, -1)
        for group in opens:
            if group.closed:
                self._move(group, 1)
        self._open = opens

    def _move(self, group: _Group, sign: int) -> None:
        group.closed = sign < 0
        for taking in group.takings():
            self._give(taking, sign)

    def _give(self, taking: Taking, sign: int) -> None:
        for engine in self._engines:
            engine.ledger.give_back(taking, sign)
            if sign > 0:
                # More room than before: what did not fit may fit now.
                engine.refuted.clear()

    def release(self, number: int) -> list[tuple[int, Taking]]:
        """The room that a gang was nominated to is there again; gives what it was, by batch."""
        gang = self._snapshot.gangs[number]
        group = self._groups.get(gang.queue, {}).get(gang.priority)
        entries = group.entries.get(number, []) if group is not None else []
        mine = [entry for entry in entries if entry.batch != NONE]
        if group is None or not mine:
            return []
        group.entries[number] = [entry for entry in entries if entry.batch == NONE]
        if group.closed:
            for entry in mine:
                self._give(entry.taking, 1)
        return [(entry.batch, entry.taking) for entry in mine]


def _nominations(gang: Gang) -> Iterable[_Entry]:
    for batch, found in enumerate(gang.waiting):
        nodes = [node for node in found.nominated if node != NONE]
        if nodes:
            yield _Entry(batch, Taking(found.shape, *np.unique(nodes, return_counts=True)))


def _moved(kept: Iterable[Kept]) -> Iterable[_Entry]:
    for one in kept:
        yield _Entry(NONE, Taking(one.shape, np.array([one.node]), np.array([1])))
