"""Which units, taken together, make room for one more pod of a shape on a node; those that do the least harm first."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from muster.api.tree import NONE
from muster.plan.ledger import Ledger
from muster.plan.outcome import UnitKind
from muster.plan.units import Flags, Numbers, Table


def _nothing() -> Numbers:
    return np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class Bundles:
    """Bundles in order of harm. `members` are units, those of bundle b from `start[b]` on; the `rest` makes no room.

    `gain` is how many pods more have room, `node` where. `minimum`, `priority`, `kind` and `pods` are the harm.
    """

    rest: Numbers = field(default_factory=_nothing)
    members: Numbers = field(default_factory=_nothing)
    start: Numbers = field(default_factory=_nothing)
    gain: Numbers = field(default_factory=_nothing)
    node: Numbers = field(default_factory=_nothing)
    minimum: Numbers = field(default_factory=_nothing)
    priority: Numbers = field(default_factory=_nothing)
    kind: Numbers = field(default_factory=_nothing)
    pods: Numbers = field(default_factory=_nothing)

    def __iter__(self) -> Iterator[list[int]]:
        """The bundles in order."""
        members, start = self.members.tolist(), [*self.start.tolist(), len(self.members)]
        return (members[start[at] : start[at + 1]] for at in range(len(start) - 1))

    def bundles_for(self, pods: int) -> int:
        """How many of the bundles make room for so many pods."""
        return int(np.searchsorted(np.cumsum(self.gain), pods)) + 1

    def cheapest(self, missing: Sequence[int], domain_of: Numbers) -> list[int]:
        """The domains in which room for the `missing` pods can be made, by the harm that it does."""
        harm: dict[int, list[int]] = {domain: [0, 0, 0, 0] for domain, lack in enumerate(missing) if lack <= 0}
        open_, gained = dict[int, list[int]](), dict[int, int]()
        columns = zip(
            domain_of[self.node].tolist(),
            *(one.tolist() for one in (self.gain, self.minimum, self.priority, self.kind, self.pods)),
            strict=True,
        )
        for domain, gain, minimum, priority, kind, pods in columns:
            if domain == NONE or domain in harm:
                continue
            now = open_.setdefault(domain, [0, priority, 0, 0])
            now[0], now[1], now[2] = max(now[0], minimum), max(now[1], priority), max(now[2], kind)
            now[3] += pods
            gained[domain] = gained.get(domain, 0) + gain
            if gained[domain] >= missing[domain]:
                harm[domain] = now
        return sorted(harm, key=lambda domain: (harm[domain], domain))


def bundles_of(table: Table, pool: Numbers, shape: int, ledger: Ledger, nodes: Flags | None = None) -> Bundles:
    """What the units of the pool are worth to a shape, node by node."""
    allowed = ledger.allowed[shape] if nodes is None else ledger.allowed[shape] & nodes
    inside = np.zeros(len(table), dtype=bool)
    inside[pool] = True
    rows = np.flatnonzero(inside[table.unit] & table.there & allowed[table.node])
    if not len(rows):
        return Bundles()
    ask = ledger.columns(shape)
    unit = table.unit[rows]
    # On a node: the least harm first, and of equal harm what frees the most.
    frees = np.sum([np.minimum(ledger.asks[table.shape[rows], column] / amount, 1.0) for column, amount in ask], axis=0)
    minimum = (table.kind[unit] == UnitKind.WHOLE_GANG).astype(np.int64)
    by = (table.age[unit], -frees, table.kind[unit], table.priority[unit], minimum, table.node[rows])
    order = np.lexsort(by)
    order = order[_can_be_spared(table, unit[order], table.node[rows[order]])]
    rows, unit, minimum = rows[order], unit[order], minimum[order]
    node = table.node[rows]
    opens = np.concatenate([[True], node[1:] != node[:-1]])
    slots, before = _slots(ledger, rows, node, opens, table.shape, ask)
    gain = slots - np.where(opens, before, np.concatenate([[0], slots[:-1]]))
    return _bundled(table, unit, node, minimum, opens, gain)


def _can_be_spared(table: Table, unit: Numbers, node: Numbers) -> Flags:
    """Of single pods of one leaf on one node only as many as the leaf can spare, the first ones."""
    leaf = table.leaf[unit]
    kept: Flags = np.ones(len(unit), dtype=bool)
    some = np.flatnonzero(leaf != NONE)
    if len(some):
        order = some[np.lexsort((some, node[some], leaf[some]))]
        opens = np.concatenate([[True], (leaf[order][1:] != leaf[order][:-1]) | (node[order][1:] != node[order][:-1])])
        starts = np.flatnonzero(opens)
        place = np.arange(len(order)) - starts[np.cumsum(opens) - 1]
        kept[order] = place < table.spare_pods[unit[order]]
    return kept


def _slots(
    ledger: Ledger, rows: Numbers, node: Numbers, opens: Flags, shape_of: Numbers, ask: Sequence[tuple[int, int]]
) -> tuple[Numbers, Numbers]:
    """Per row: pods that fit on its node once it and those before it are gone; and those that fit as it is."""
    after: list[Numbers] = []
    now: list[Numbers] = []
    starts = np.flatnonzero(opens)
    group = np.cumsum(opens) - 1
    for column, amount in ask:
        freed = np.cumsum(ledger.asks[shape_of[rows], column].astype(np.int64))
        base = np.concatenate([[0], freed])[starts][group]
        free = ledger.free[column, node].astype(np.int64)
        after.append((free + freed - base) // amount)
        now.append(free // amount)
    return np.maximum(np.min(after, axis=0), 0), np.maximum(np.min(now, axis=0), 0)


def _bundled(table: Table, unit: Numbers, node: Numbers, minimum: Numbers, opens: Flags, gain: Numbers) -> Bundles:
    """Rows up to one that makes room are a bundle; rows after the last such one of a node come last, by harm."""
    closes = gain > 0
    count = np.cumsum(closes)
    number: Numbers = count - closes
    # Bundles that end on this node: a row behind them is in none.
    last_of_node = np.concatenate([np.flatnonzero(opens)[1:] - 1, [len(unit) - 1]])
    closed = count[last_of_node][np.cumsum(opens) - 1]
    useful = number < closed
    kept = np.flatnonzero(useful)
    rest = unit[~useful]
    if not len(kept):
        return Bundles(rest)
    first = np.flatnonzero(np.concatenate([[True], number[kept][1:] != number[kept][:-1]]))
    ends = np.flatnonzero(closes)
    priority, kind = table.priority[unit[kept]], table.kind[unit[kept]]
    harm = [np.maximum.reduceat(one, first) for one in (minimum[kept], priority, kind)]
    pods = np.add.reduceat(table.pods[unit[kept]], first)
    oldest = np.maximum.reduceat(table.age[unit[kept]], first)
    where = node[ends]
    per_pod = _never_less(pods / gain[ends], where)
    order = np.lexsort((oldest, per_pod, harm[2], harm[1], harm[0]))
    lengths = np.diff(np.concatenate([first, [len(kept)]]))
    start: Numbers = np.cumsum(lengths[order]) - lengths[order]
    members = unit[kept][np.repeat(first[order] - start, lengths[order]) + np.arange(len(kept))]
    columns = (gain[ends], where, *harm, pods)
    return Bundles(rest, members, start, *(one[order] for one in columns))


def _never_less(costs: npt.NDArray[np.float64], where: Numbers) -> npt.NDArray[np.float64]:
    """On one node a later bundle comes after an earlier one: it seems to cost no less."""
    # Ranks instead of costs, those of each node above those of the node before: one running maximum does it.
    levels, ranks = np.unique(costs, return_inverse=True)
    above = np.cumsum(np.concatenate([[False], where[1:] != where[:-1]])) * len(levels)
    found: npt.NDArray[np.float64] = levels[np.maximum.accumulate(ranks.ravel() + above) - above]
    return found


def thinned(units: Sequence[int], node: int, shape: int, table: Table, ledger: Ledger, *, spare: int = 0) -> list[int]:
    """The units of a bundle on one node without those that nobody needs to go for its gain, the dearest spared.

    So many pods of the gain are not needed.
    """
    if len(units) == 1:
        return list(units)
    ask, kept = ledger.columns(shape), list(units)
    freed = {number: _frees(number, node, ask, table, ledger) for number in kept}
    free = [int(ledger.free[column, node]) for column, _ in ask]
    slots = _copies(free, kept, freed, ask) - spare
    for number in reversed(units):
        fewer = [other for other in kept if other != number]
        if fewer and _copies(free, fewer, freed, ask) >= slots:
            kept = fewer
    return kept


def _frees(number: int, node: int, ask: Sequence[tuple[int, int]], table: Table, ledger: Ledger) -> list[int]:
    first = int(table.first[number])
    rows = [
        row for row in range(first, first + int(table.pods[number])) if table.node[row] == node and table.there[row]
    ]
    return [sum(int(ledger.asks[table.shape[row], column]) for row in rows) for column, _ in ask]


def _copies(
    free: Sequence[int], units: Sequence[int], freed: Mapping[int, Sequence[int]], ask: Sequence[tuple[int, int]]
) -> int:
    return min((free[i] + sum(freed[n][i] for n in units)) // amount for i, (_, amount) in enumerate(ask))
