"""Room as a cycle uses it up: take, give back, mark, rewind; and per shape how many copies fit on every node.

Amounts are divided by the greatest common divisor of everything that pods ask for. That changes no answer, since what
is left over of a node could hold nobody, and makes them fit 32 bits, where division is several times faster.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from muster.snapshot.arrays import Snapshot
from muster.snapshot.domains import Domains
from muster.snapshot.selectors import Mask

Vector = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]

_SMALL = 2**31 - 1
# Above this share of changed nodes it is cheaper to count all of them again.
_RECOUNT = 16


class Taking(NamedTuple):
    """Pods of one shape on some nodes: `counts[i]` of them on `nodes[i]`."""

    shape: int
    nodes: Rows
    counts: Vector

    @property
    def pods(self) -> list[int]:
        """The node of every pod."""
        return [int(node) for node in np.repeat(self.nodes, self.counts)]


class Ledger:
    """What is free during a cycle."""

    def __init__(self, snapshot: Snapshot, *, releasing: bool = False) -> None:
        asks = snapshot.asks
        units = np.maximum(np.gcd.reduce(asks, axis=0), 1) if len(asks) else np.ones(asks.shape[1], dtype=np.int64)
        free = snapshot.free + snapshot.releasing if releasing else snapshot.free
        scaled, asked = (free // units).T, asks // units
        small = all(abs(table).max(initial=0) <= _SMALL for table in (scaled, asked))
        dtype = np.int32 if small else np.int64
        # free[resource, node]: the amounts of one resource lie side by side.
        self.free = np.ascontiguousarray(scaled, dtype=dtype)
        self.asks = asked.astype(dtype)
        self.units = units
        self.allowed = snapshot.allowed_soon if releasing else snapshot.allowed
        self.liked = snapshot.liked
        self._columns: dict[int, list[tuple[int, int]]] = {}
        self._fits: dict[int, tuple[npt.NDArray[np.int32], int]] = {}
        # Per shape and level: copies per domain, and the domain of every node.
        self._rooms: dict[int, dict[tuple[int, int], tuple[Vector, npt.NDArray[np.int32]]]] = {}
        # Moves so far; per node the last one that touched it; and the nodes of the last one.
        self._moves = 0
        self._touched = np.zeros(self.free.shape[1], dtype=np.int64)
        self._last_touched: Rows = np.zeros(0, dtype=np.intp)
        self._taken: list[Taking] = []
        self.nodes = self.free.shape[1]

    def columns(self, shape: int) -> list[tuple[int, int]]:
        """The resources that a shape asks for, with the amounts."""
        if shape not in self._columns:
            row = self.asks[shape]
            self._columns[shape] = [(int(column), int(row[column])) for column in np.flatnonzero(row)]
        return self._columns[shape]

    def easier(self, light: int, heavy: int) -> bool:
        """Whether a pod of the first shape fits wherever one of the second does."""
        less = bool((self.asks[light] <= self.asks[heavy]).all())
        return less and not (self.allowed[heavy] & ~self.allowed[light]).any()

    def fits(self, shape: int) -> npt.NDArray[np.int32]:
        """How many copies fit on every node. Not to be written to."""
        known = self._fits.get(shape)
        at = self._moves
        if known is None:
            found = self._copies(shape, slice(None), self.allowed[shape])
        else:
            found, seen = known
            if seen == at:
                return found
            rows = self._last_touched if at == seen + 1 else np.flatnonzero(self._touched > seen)
            if len(rows) * _RECOUNT > self.nodes:
                found = self._copies(shape, slice(None), self.allowed[shape])
                self._rooms.pop(shape, None)
            else:
                now = self._copies(shape, rows, self.allowed[shape][rows])
                for (_, _), (rooms, domain_of) in self._rooms.get(shape, {}).items():
                    np.add.at(rooms, domain_of[rows], now - found[rows])
                found[rows] = now
        self._fits[shape] = (found, at)
        return found

    def rooms(self, shape: int, topology: int, level: int, domains: Domains) -> Vector:
        """How many copies fit into every domain of a level. Not to be written to."""
        fits = self.fits(shape)
        known = self._rooms.setdefault(shape, {})
        if (topology, level) not in known:
            # One place more at the end, where nodes without a domain (NONE is -1) are counted.
            found = domains.levels[level]
            counted = np.bincount(found.domain_of + 1, weights=fits, minlength=len(found.paths) + 1)
            known[topology, level] = (np.roll(counted, -1).astype(np.int64), found.domain_of)
        return known[topology, level][0][:-1]

    def _copies(self, shape: int, rows: slice | Rows, allowed: Mask) -> npt.NDArray[np.int32]:
        found = None
        for column, ask in self.columns(shape):
            free = self.free[column, rows]
            copies = free if ask == 1 else free // ask
            found = copies if found is None else np.minimum(found, copies)
        assert found is not None, "every pod asks for one of `pods`"
        if found.dtype != np.int32:
            found = np.minimum(found, _SMALL)
        counted: npt.NDArray[np.int32] = np.where(allowed, np.maximum(found, 0), 0).astype(np.int32, copy=False)
        return counted

    def take(self, taking: Taking) -> None:
        """Room goes to pods. Every node stands once in `taking`."""
        self._move(taking, -1)
        self._taken.append(taking)

    def mark(self) -> int:
        """A place to come back to."""
        return len(self._taken)

    def rewind(self, mark: int) -> None:
        """Everything taken since the mark is given back."""
        while len(self._taken) > mark:
            self._move(self._taken.pop(), 1)

    def since(self, mark: int) -> Iterable[Taking]:
        """What was taken since the mark."""
        return self._taken[mark:]

    def give_back(self, taking: Taking, sign: int = 1) -> None:
        """Room that nobody needs any more, or with sign -1 that is kept for somebody; no rewind goes behind it."""
        self._move(taking, sign)

    def _move(self, taking: Taking, sign: int) -> None:
        asked = np.multiply.outer(sign * self.asks[taking.shape], taking.counts)
        self.free[:, taking.nodes] = self.free[:, taking.nodes] + asked
        self._moves += 1
        self._touched[taking.nodes] = self._moves
        self._last_touched = taking.nodes
