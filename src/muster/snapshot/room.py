"""What every node has and what its pods hold, kept up to date pod by pod, so that no cycle adds anything up again."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

Amounts = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]

# What a node has; what pods hold there, how much of it is coming free, and how much of it belongs to no gang.
ALLOCATABLE, HELD, RELEASING, OTHERS = 0, 1, 2, 3
# Requests that nobody makes any more are forgotten when there are so many.
_MOST_VECTORS = 10_000


class Room:
    """Four tables of node × resource. Rows and columns are given out once and stay; `table` puts them in order."""

    def __init__(self) -> None:
        self._rows: dict[str, int] = {}
        self._columns: dict[str, int] = {}
        self._tables: Amounts = np.zeros((4, 16, 8), dtype=np.int64)
        self._vectors: dict[tuple[tuple[str, int], ...], tuple[Rows, Amounts]] = {}
        # How often that which gangs can have changed: what nodes have, or what others hold of it.
        self.changes = 0

    def copy(self) -> "Room":
        """The same amounts, to be changed by themselves."""
        other = Room()
        other._rows, other._columns = dict(self._rows), dict(self._columns)
        other._tables, other.changes = self._tables.copy(), self.changes
        return other

    @property
    def resources(self) -> list[str]:
        """All resources that anybody has or asks for, by name."""
        return sorted(self._columns)

    def set(self, node: str, amounts: Mapping[str, int]) -> None:
        """What the node has for pods."""
        columns = [self._column(resource) for resource in amounts]
        row = self._row(node)
        here = self._tables[ALLOCATABLE, row]
        before = here.copy()
        here[:] = 0
        here[columns] = list(amounts.values())
        self.changes += not np.array_equal(before, here)

    def add(self, table: int, node: str, request: Mapping[str, int], sign: int = 1) -> None:
        """One pod more, or with sign -1 one less, in one of the tables. A node that is not there yet may come."""
        columns, amounts = self._vector(tuple(request.items()))
        row = self._row(node)
        if sign > 0:
            self._tables[table, row, columns] += amounts
        else:
            self._tables[table, row, columns] -= amounts
        self.changes += table == OTHERS

    def rows(self, nodes: Sequence[str]) -> Rows:
        """Where these nodes stand; stays true while no other node comes."""
        return np.array([self._row(node) for node in nodes], dtype=np.intp)

    def table(self, table: int, rows: Rows, resources: Sequence[str]) -> Amounts:
        """A copy of one table with these rows and columns, a resource's amounts side by side in memory."""
        copied: Amounts = np.empty((len(rows), len(resources)), dtype=np.int64, order="F")
        for index, resource in enumerate(resources):
            copied[:, index] = self._tables[table, rows, self._column(resource)]
        return copied

    def _vector(self, request: tuple[tuple[str, int], ...]) -> tuple[Rows, Amounts]:
        """A request as columns and amounts; many pods ask for the same."""
        found = self._vectors.get(request)
        if found is None:
            if len(self._vectors) >= _MOST_VECTORS:
                self._vectors.clear()
            columns = np.array([self._column(resource) for resource, _ in request], dtype=np.intp)
            amounts = np.array([amount for _, amount in request], dtype=np.int64)
            found = self._vectors[request] = columns, amounts
        return found

    def _row(self, node: str) -> int:
        return self._place(self._rows, node, 1)

    def _column(self, resource: str) -> int:
        return self._place(self._columns, resource, 2)

    def _place(self, places: dict[str, int], name: str, axis: int) -> int:
        if name not in places:
            places[name] = len(places)
            if len(places) > self._tables.shape[axis]:
                self._tables = np.concatenate([self._tables, np.zeros_like(self._tables)], axis=axis)
        return places[name]
