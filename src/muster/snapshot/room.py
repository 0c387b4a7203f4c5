"""What every node has and what its pods hold, kept up to date pod by pod, so that no cycle adds anything up again.

Memory grows with what nodes declare, never with what pods name: a resource is a column from the moment that a node
declares it, and a node that does not exist is a row only while pods say that they are there.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

Amounts = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]

# What a node has; what pods hold there, how much of it is coming free, and how much of it belongs to no gang.
ALLOCATABLE, HELD, RELEASING, OTHERS = 0, 1, 2, 3
# Columns from the beginning: pods may be seen before the first node is.
_ALWAYS = ("cpu", "memory", "pods", "ephemeral-storage")
# Requests that nobody makes any more are forgotten when they have so many amounts in all.
_MOST_AMOUNTS = 200_000


class Room:
    """Four tables of node × resource. Columns are given out once and stay, rows stay while they are used; `table` puts
    them in order.
    """

    def __init__(self) -> None:
        self._rows: dict[str, int] = {}
        self._columns: dict[str, int] = {resource: column for column, resource in enumerate(_ALWAYS)}
        self._tables: Amounts = np.zeros((4, 16, 8), dtype=np.int64)
        self._vectors: dict[tuple[tuple[str, int], ...], tuple[Rows, Amounts]] = {}
        # How many amounts the known requests have in all.
        self._known = 0
        # What each node declares; how many nodes declare a resource; and how often pods were added on a node.
        self._declared: dict[str, frozenset[str]] = {}
        self._declaring: Counter[str] = Counter()
        self._users: Counter[str] = Counter()
        self._unused_rows: list[int] = []
        # The resources that some node declares now. Another set when they change.
        self.offered: frozenset[str] = frozenset()
        # How often that which gangs can have changed: what nodes have, or what others hold of it.
        self.changes = 0

    def copy(self) -> "Room":
        """The same amounts, to be changed by themselves."""
        other = Room()
        other._rows, other._columns = dict(self._rows), dict(self._columns)
        other._tables, other.changes = self._tables.copy(), self.changes
        other._declared, other._declaring = dict(self._declared), Counter(self._declaring)
        other._users, other._unused_rows = Counter(self._users), list(self._unused_rows)
        other.offered = self.offered
        return other

    @property
    def resources(self) -> list[str]:
        """All resources that some node declares, or has declared, by name."""
        return sorted(self._columns)

    def set(self, node: str, amounts: Mapping[str, int]) -> list[str]:
        """What the node has for pods; nothing when it is gone.

        Returns the resources that are columns only from now on. What pods hold of them was not added: that is to be
        done by the caller, who knows the pods.
        """
        new = [resource for resource in amounts if resource not in self._columns]
        columns = [self._column(resource) for resource in amounts]
        row = self._row(node)
        here = self._tables[ALLOCATABLE, row]
        before = here.copy()
        here[:] = 0
        here[columns] = list(amounts.values())
        self.changes += not np.array_equal(before, here)
        self._declare(node, frozenset(amounts))
        self._leave(node)
        return new

    def _declare(self, node: str, now: frozenset[str]) -> None:
        before = self._declared.pop(node, frozenset())
        if now:
            self._declared[node] = now
        if before == now:
            return
        self._declaring.update(now - before)
        self._declaring.subtract(before - now)
        offered = frozenset(resource for resource, nodes in self._declaring.items() if nodes)
        if offered != self.offered:
            self.offered, self._declaring = offered, Counter({one: self._declaring[one] for one in offered})

    def add(self, table: int, node: str, request: Mapping[str, int], sign: int = 1) -> None:
        """One pod more, or with sign -1 one less, in one of the tables. A node that is not there yet may come."""
        columns, amounts = self._vector(tuple(request.items()))
        row = self._row(node)
        if sign > 0:
            self._tables[table, row, columns] += amounts
        else:
            self._tables[table, row, columns] -= amounts
        self._users[node] += sign
        self._leave(node)
        self.changes += table == OTHERS

    def recount(self, table: int, node: str, request: Mapping[str, int], new: Sequence[str]) -> None:
        """What a pod that was added before holds of resources that are columns only now."""
        row = self._row(node)
        for resource in new:
            self._tables[table, row, self._columns[resource]] += request.get(resource, 0)
        self.changes += table == OTHERS

    def rows(self, nodes: Sequence[str]) -> Rows:
        """Where these nodes stand; stays true while no other node comes."""
        return np.array([self._row(node) for node in nodes], dtype=np.intp)

    def table(self, table: int, rows: Rows, resources: Sequence[str]) -> Amounts:
        """A copy of one table with these rows and columns, a resource's amounts side by side in memory. No node has
        anything of a resource that is no column.
        """
        copied: Amounts = np.zeros((len(rows), len(resources)), dtype=np.int64, order="F")
        for index, resource in enumerate(resources):
            column = self._columns.get(resource)
            if column is not None:
                copied[:, index] = self._tables[table, rows, column]
        return copied

    def _vector(self, request: tuple[tuple[str, int], ...]) -> tuple[Rows, Amounts]:
        """A request as columns and amounts, without what is no column; many pods ask for the same."""
        found = self._vectors.get(request)
        if found is None:
            if self._known >= _MOST_AMOUNTS:
                self._forget_vectors()
            here = [(self._columns[resource], amount) for resource, amount in request if resource in self._columns]
            columns = np.array([column for column, _ in here], dtype=np.intp)
            amounts = np.array([amount for _, amount in here], dtype=np.int64)
            found = self._vectors[request] = columns, amounts
            self._known += len(request)
        return found

    def _forget_vectors(self) -> None:
        self._vectors.clear()
        self._known = 0

    def _row(self, node: str) -> int:
        if node not in self._rows:
            row = self._unused_rows.pop() if self._unused_rows else len(self._rows)
            self._rows[node] = row
            self._grow(row, axis=1)
        return self._rows[node]

    def _leave(self, node: str) -> None:
        """A row that neither a node nor a pod uses may become that of another node."""
        if self._users[node] <= 0 and node not in self._declared:
            del self._users[node]
            row = self._rows.pop(node)
            self._tables[:, row] = 0
            self._unused_rows.append(row)

    def _column(self, resource: str) -> int:
        if resource not in self._columns:
            column = self._columns[resource] = len(self._columns)
            self._forget_vectors()
            self._grow(column, axis=2)
        return self._columns[resource]

    def _grow(self, place: int, *, axis: int) -> None:
        """Doubles the tables when a place lies beyond them."""
        if place >= self._tables.shape[axis]:
            self._tables = np.concatenate([self._tables, np.zeros_like(self._tables)], axis=axis)
