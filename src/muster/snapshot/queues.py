"""The tree of queues as arrays: who is below whom, and what each is due, in base units.

| array | axes | unit |
|---|---|---|
| `quota`, `limit` | queue, charge | base units (thousandths of a core, bytes, parts of a GPU); UNLIMITED for no end |
| `weights` | queue, charge | exact fractions |

Parents stand before their children, siblings in the order of their names. `CHARGES` are what queues count.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from muster.api import queue as api
from muster.api.duration import parse_ns
from muster.api.gpus import GpuWeights
from muster.api.once import once
from muster.api.priorities import MAX_PRIORITY_ANNOTATION, bound_of, resolved
from muster.api.queue import Queue, entitlement_of
from muster.api.tree import NONE
from muster.api.validation.context import QueueTree
from muster.errors import BadObject
from muster.model.reasons import Code
from muster.snapshot.room import Amounts
from muster.snapshot.times import since_epoch_ns

CHARGES = ("cpu", "memory", "gpu")
_GPU = CHARGES.index("gpu")
# Base units in one GPU.
PARTS = api.GPU_PARTS
# More than anybody has, and still small enough to be added to.
UNLIMITED = 2**60


class Cost(NamedTuple):
    """Which of CHARGES a resource counts as, NONE for what queues do not count; and base units for one unit of it."""

    charge: int
    each: int


_NO_COST = Cost(NONE, 0)


@dataclass(frozen=True)
class Costs:
    """What queues count of every resource."""

    gpus: GpuWeights = field(default_factory=GpuWeights)

    def of(self, resource: str) -> Cost:
        """The cost of one unit of a resource."""
        if resource in CHARGES[:_GPU]:
            return Cost(CHARGES.index(resource), 1)
        parts = self.gpus.parts_of(resource)
        return Cost(_GPU, parts) if parts else _NO_COST

    def is_gpu(self, resource: str) -> bool:
        """Whether one unit of it costs a whole GPU."""
        return self.of(resource) == Cost(_GPU, PARTS)

    def counts(self, resource: str) -> bool:
        """Whether queues count it at all."""
        return self.of(resource).charge != NONE

    def of_all(self, amounts: Mapping[str, int]) -> list[int]:
        """What some resources cost together, per charge."""
        found = [0] * len(CHARGES)
        for resource, amount in amounts.items():
            charge, each = self.of(resource)
            if charge != NONE:
                found[charge] += amount * each
        return found


class Problem(NamedTuple):
    """Why the gangs of a queue are held: a reason code and what it is about."""

    code: str
    detail: str


@dataclass(frozen=True, eq=False)
class Queues:
    """Every queue that gangs can be charged to, and those above them."""

    names: tuple[str, ...] = ()
    parent_of: tuple[int, ...] = ()
    priorities: tuple[int, ...] = ()
    created_ns: tuple[int, ...] = ()
    quota: Amounts = field(default_factory=lambda: np.zeros((0, len(CHARGES)), dtype=np.int64))
    limit: Amounts = field(default_factory=lambda: np.zeros((0, len(CHARGES)), dtype=np.int64))
    weights: tuple[tuple[Fraction, ...], ...] = ()
    # How long a minimum is safe after its gang's start: of the queue itself, else of the nearest one above; else 0.
    preempt_min_runtime_ns: tuple[int, ...] = ()
    reclaim_min_runtime_ns: tuple[int, ...] = ()
    # The highest priority that a queue admits by its own word; None: any.
    max_priorities: tuple[int | None, ...] = ()
    # Whether a queue gets back what it is owed within its quota whatever disruption budgets say, by its own word.
    ignores_budgets: tuple[bool, ...] = ()
    # Whether the queues were written down; otherwise every name that a gang uses is a queue without end.
    written: bool = False
    # Those that nothing can be charged to, by name, and why.
    cut_off: Mapping[str, Problem] = field(default_factory=dict)

    @once
    def row_of(self) -> Mapping[str, int]:
        """The row of every name."""
        return {name: row for row, name in enumerate(self.names)}

    @once
    def paths(self) -> tuple[tuple[int, ...], ...]:
        """Per queue: itself and everything above it, the nearest first."""
        found: list[tuple[int, ...]] = []
        for row, parent in enumerate(self.parent_of):
            found.append((row,) if parent == NONE else (row, *found[parent]))
        return tuple(found)

    @once
    def children(self) -> Mapping[int, tuple[int, ...]]:
        """Per queue, and for NONE the top ones: the queues directly below."""
        found: dict[int, list[int]] = {}
        for row, parent in enumerate(self.parent_of):
            found.setdefault(parent, []).append(row)
        return {parent: tuple(rows) for parent, rows in found.items()}


class Standing:
    """What is wrong with each queue of a set, found once for all of them."""

    def __init__(
        self,
        queues: Mapping[str, Queue],
        invalid: Mapping[str, str] | None = None,
        classes: Mapping[str, int] | None = None,
    ) -> None:
        # Nobody can use a queue without a name, and an empty parent is none. In order: the same words every time.
        self._queues = {name: queue for name, queue in sorted(queues.items()) if name}
        self._tree = QueueTree(self._queues)
        self._allowed: dict[str, frozenset[str]] = {}
        for name, queue in self._queues.items():
            stated = queue.metadata.annotations.get(api.ALLOWED_NAMESPACES_ANNOTATION, "*")
            allowed = frozenset(one.strip() for one in stated.split(","))
            if "*" not in allowed:
                self._allowed[name] = allowed
        # The highest priority that each queue admits, of those that say it; `classes` are the priorities by name.
        self._bounds: dict[str, int] = {}
        self._cut_off = self._find_cut_off({**self._find_bounds(classes), **(invalid or {})})

    def _find_bounds(self, classes: Mapping[str, int] | None) -> dict[str, str]:
        """Reads the bounds of priorities; gives what is wrong with them, by queue."""
        wrong: dict[str, str] = {}
        for name, queue in self._queues.items():
            stated = queue.metadata.annotations.get(MAX_PRIORITY_ANNOTATION)
            if stated is None:
                continue
            try:
                bound = resolved(bound_of(stated), classes or {})
            except BadObject as error:
                wrong[name] = f"{error.path} {error.message}"
                continue
            if bound is not None:
                self._bounds[name] = bound
            elif classes is not None:
                wrong[name] = f"{MAX_PRIORITY_ANNOTATION}: the PriorityClass {stated} does not exist"
        return wrong

    def _find_cut_off(self, invalid: Mapping[str, str]) -> dict[str, Problem]:
        """The queues from which no sound way leads up to a top queue, each with the end of its way.

        What an unreadable queue guarantees or allows nobody knows: nothing is given to it, nothing taken from it.
        """
        tree = self._tree
        found = {name: Problem(Code.QUEUE_CYCLE, tree.cycle_in_words(name)) for name in tree.cycle_of}
        for name in sorted(invalid.keys() & self._queues.keys() - found.keys()):
            found[name] = Problem(Code.QUEUE_INVALID, f"{name}: {invalid[name]}")
        below = [(queue, problem) for name, problem in found.items() for queue in tree.children.get(name, ())]
        for missing in tree.children.keys() - self._queues.keys() - {""}:
            below += [(queue, Problem(Code.QUEUE_ORPHANED, missing)) for queue in tree.children[missing]]
        while below:
            queue, problem = below.pop()
            if queue.metadata.name not in found:
                found[queue.metadata.name] = problem
                below += [(child, problem) for child in tree.children.get(queue.metadata.name, ())]
        return found

    def _sound(self, parent: str) -> list[Queue]:
        """The queues below another that gangs can be charged to, the last by name first."""
        below = _last_first(self._tree.children.get(parent, ()))
        return [queue for queue in below if queue.metadata.name not in self._cut_off]

    @property
    def written(self) -> bool:
        """Whether there are any queues."""
        return bool(self._queues)

    def problem_of(self, name: str, namespace: str) -> Problem | None:
        """Why a gang of this namespace may not use the queue; None when it may. Without queues every name is one."""
        if not self.written:
            return None
        if name not in self._queues:
            return Problem(Code.QUEUE_NOT_FOUND, name)
        if name in self._cut_off:
            return self._cut_off[name]
        if name in self._tree.children:
            return Problem(Code.QUEUE_NOT_LEAF, name)
        if name in self._allowed and namespace not in self._allowed[name]:
            return Problem(Code.QUEUE_FORBIDDEN, name)
        return None

    def max_priority_of(self, name: str) -> int | None:
        """The highest priority that a queue and those above it admit; None: any."""
        row = self.arrays.row_of.get(name) if self._bounds else None
        path = self.arrays.paths[row] if row is not None else ()
        return min((most for at in path if (most := self.arrays.max_priorities[at]) is not None), default=None)

    @once
    def arrays(self) -> Queues:
        """All queues that are below a top queue, or one."""
        rows: list[Queue] = []
        parent_of: list[int] = []
        # Last in, first out: the last by name goes in first.
        left = [(queue, NONE) for queue in self._sound("")]
        while left:
            queue, parent = left.pop()
            left += [(child, len(rows)) for child in self._sound(queue.metadata.name)]
            rows.append(queue)
            parent_of.append(parent)
        amounts = [[entitlement_of(name, getattr(row.spec.resources, name)) for name in CHARGES] for row in rows]
        return Queues(
            names=tuple(row.metadata.name for row in rows),
            parent_of=tuple(parent_of),
            priorities=tuple(_priority(row) for row in rows),
            created_ns=tuple(since_epoch_ns(row.metadata.creation_timestamp) for row in rows),
            quota=_table([[one.quota for one in row] for row in amounts]),
            limit=_table([[one.limit for one in row] for row in amounts]),
            weights=tuple(tuple(one.weight for one in row) for row in amounts),
            preempt_min_runtime_ns=_nearest([row.spec.preempt_min_runtime for row in rows], parent_of),
            reclaim_min_runtime_ns=_nearest([row.spec.reclaim_min_runtime for row in rows], parent_of),
            max_priorities=tuple(self._bounds.get(row.metadata.name) for row in rows),
            ignores_budgets=tuple(row.ignores_budgets for row in rows),
            written=True,
            cut_off=self._cut_off,
        )


def queues_of(queues: Mapping[str, Queue], used: Iterable[str]) -> Queues:
    """The queues as arrays. Without any, every name that is used is a queue without end."""
    standing = Standing(queues)
    return standing.arrays if standing.written else implied(used)


def implied(used: Iterable[str]) -> Queues:
    """Queues that nobody wrote down."""
    names = tuple(sorted(set(used)))
    return Queues(
        names=names,
        parent_of=(NONE,) * len(names),
        priorities=(api.DEFAULT_PRIORITY,) * len(names),
        created_ns=(0,) * len(names),
        quota=_table([[api.UNLIMITED] * len(CHARGES)] * len(names)),
        limit=_table([[api.UNLIMITED] * len(CHARGES)] * len(names)),
        weights=((Fraction(1),) * len(CHARGES),) * len(names),
        preempt_min_runtime_ns=(0,) * len(names),
        reclaim_min_runtime_ns=(0,) * len(names),
    )


def _last_first(queues: Iterable[Queue]) -> list[Queue]:
    return sorted(queues, key=lambda queue: queue.metadata.name, reverse=True)


def _priority(queue: Queue) -> int:
    return api.DEFAULT_PRIORITY if queue.spec.priority is None else queue.spec.priority


def _table(amounts: Sequence[Sequence[int]]) -> Amounts:
    cut = [[UNLIMITED if one == api.UNLIMITED else min(one, UNLIMITED) for one in row] for row in amounts]
    return np.array(cut, dtype=np.int64).reshape(len(cut), len(CHARGES))


def _nearest(stated: Sequence[str | None], parent_of: Sequence[int]) -> tuple[int, ...]:
    """Per queue: its own duration, else that of the nearest queue above. One that can't be read is none."""
    found: list[int] = []
    for text, parent in zip(stated, parent_of, strict=True):
        inherited = 0 if parent == NONE else found[parent]
        try:
            found.append(inherited if text is None else max(0, parse_ns(text)))
        except BadObject:
            found.append(inherited)
    return tuple(found)
