"""Room as a cycle uses it up: take, give back, mark, rewind; and per shape how many copies fit on every node.

Amounts are divided by the greatest common divisor of everything that pods ask for. That changes no answer, since what
is left over of a node could hold nobody, and makes them fit 32 bits, where division is several times faster.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from muster.snapshot.arrays import Snapshot
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
        self.allowed = snapshot.allowed
        self.liked = snapshot.liked
        self._columns: dict[int, list[tuple[int, int]]] = {}
        self._fits: dict[int, tuple[npt.NDArray[np.int32], int]] = {}
        self._touched: list[Rows] = []
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
        at = len(self._touched)
        if known is None:
            found = self._copies(shape, slice(None), self.allowed[shape])
        else:
            found, seen = known
            if seen == at:
                return found
            rows = self._touched[seen] if at == seen + 1 else np.concatenate(self._touched[seen:])
            if len(rows) * _RECOUNT > self.nodes:
                found = self._copies(shape, slice(None), self.allowed[shape])
            else:
                found[rows] = self._copies(shape, rows, self.allowed[shape][rows])
        self._fits[shape] = (found, at)
        return found

    def _copies(self, shape: int, rows: slice | Rows, allowed: Mask) -> npt.NDArray[np.int32]:
        found = None
        for column, ask in self.columns(shape):
            free = self.free[column, rows]
            copies = free if ask == 1 else free // ask
            found = copies if found is None else np.minimum(found, copies)
        assert found is not None, "every pod asks for one of `pods`"
        counted: npt.NDArray[np.int32] = np.where(allowed, np.clip(found, 0, _SMALL), 0).astype(np.int32, copy=False)
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
        for column, ask in self.columns(taking.shape):
            self.free[column, taking.nodes] += sign * ask * taking.counts
        self._touched.append(taking.nodes)
