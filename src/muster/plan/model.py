"""What can be said about a problem by counting alone: slots per node and dimension, added up per domain.

A *dimension* is a way to count slots such that every pod uses at least so many of them and a node has at most so many.
So a sum of weights that exceeds a sum of slots proves that something does not fit: a certificate. There are two kinds:

- copies of one shape: a node has as many slots as copies fit; a pod that asks for at least j times as much of
  everything, and may go nowhere else, uses j of them;
- multiples of an amount q of one resource: a node has `free // q` slots, a pod that asks for a uses `a // q`.

When one resource alone decides and the amounts divide one another (1, 2, 4, 8 GPUs), counting is not only necessary but
enough: place large before small, and whichever node a pod is given, it uses up exactly its slots of every size.
"""

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from math import gcd
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from muster.api.tree import NONE
from muster.plan.ledger import Ledger, Rows
from muster.plan.problem import Problem
from muster.snapshot.domains import Domains

Table = npt.NDArray[np.int64]

# More dimensions than these only cost time.
_MOST_SHAPES, _MOST_AMOUNTS = 12, 8
# Products up to here fit 64 bits; a pod that uses more slots than this uses no more than this in the account.
_EXACT, _HEAVIEST = 2**62, 2**40


class Dimension(NamedTuple):
    """What is counted: copies of `shape`, or multiples of `amount` base units of `resource` (then shape is NONE)."""

    shape: int
    resource: int
    amount: int


class Scale:
    """One level of one Topology that the problem uses: its domains with their slots."""

    def __init__(self, topology: int, level: int, domains: Domains, rows: Rows, slots: Table) -> None:
        self.topology, self.level = topology, level
        found = domains.levels[level]
        self.domain_of = found.domain_of[rows]
        inside = self.domain_of >= 0
        # slots[dimension, domain]
        self.slots = np.zeros((len(slots), len(found.paths)), dtype=np.int64)
        for dimension, row in enumerate(slots):
            self.slots[dimension] = np.bincount(
                self.domain_of[inside], weights=row[inside], minlength=len(found.paths)
            ).astype(np.int64)
        self.paths = found.paths


class Model:
    """Slots of the nodes that matter, and what every part of the problem needs of them."""

    def __init__(self, problem: Problem, ledger: Ledger, topologies: Sequence[Domains]) -> None:
        self.problem, self.ledger, self.topologies = problem, ledger, topologies
        # In the order of the parts: the numbers of shapes mean nothing, and no answer depends on them.
        self.shapes = list(dict.fromkeys(part.shape for part in problem.parts))
        fits = {shape: ledger.fits(shape) for shape in self.shapes}
        usable = np.zeros(ledger.nodes, dtype=bool)
        for copies in fits.values():
            usable |= copies > 0
        self.rows: Rows = np.flatnonzero(usable)
        self.fits = {shape: copies[self.rows].astype(np.int64) for shape, copies in fits.items()}
        self.free = ledger.free[:, self.rows].astype(np.int64)
        self._count()
        self.needs = np.array([self.weights[:, self.shapes.index(part.shape)] * part.pods for part in problem.parts])
        self.needs = self.needs.reshape(len(problem.parts), len(self.dimensions))
        # Per region the needs of all that is in it.
        self.region_needs = [self.needs[region.parts].sum(axis=0) for region in problem.regions]
        used = {(region.bound.topology, region.bound.level) for region in problem.regions}
        self.scales = {key: Scale(*key, topologies[key[0]], self.rows, self.slots) for key in sorted(used)}

    def wider(self, key: tuple[int, int], around: tuple[int, int]) -> npt.NDArray[np.int32]:
        """Per domain of one level, the domain of a wider level of the same Topology."""
        return self.topologies[key[0]].wider(key[1], around[1])

    def _count(self) -> None:
        asks = self.ledger.asks[self.shapes].astype(np.int64)
        masks = [self.ledger.allowed[shape][self.rows] for shape in self.shapes]
        allowed = np.array(masks).reshape(len(self.shapes), len(self.rows))
        active = self._binding(asks)
        same_nodes = bool((allowed == allowed[:1]).all())
        self.dimensions: list[Dimension] = []
        slots: list[Table] = []
        weights: list[Table] = []
        chain = len(active) == 1 and same_nodes and _divide(asks[:, active[0]])
        # Counting is enough: see above. With one shape it always is.
        self.exact = len(self.shapes) == 1 or chain
        if not chain or len(self.shapes) == 1:
            for number in self._telling():
                self.dimensions.append(Dimension(self.shapes[number], NONE, 0))
                slots.append(self.fits[self.shapes[number]])
                weights.append(_multiples(asks, allowed, number))
        # The plain sums: one dimension per resource that counts everything.
        self.sums: list[int] = [0] if len(self.shapes) == 1 else []
        for resource in active if len(self.shapes) > 1 else ():
            amounts = {int(ask) for ask in asks[:, resource] if ask}
            unit = gcd(*amounts)
            self.sums.append(len(self.dimensions))
            for amount in [unit, *_some(sorted(amounts - {unit}), _MOST_AMOUNTS if not chain else len(amounts))]:
                takers = asks[:, resource] >= amount
                usable = np.where(allowed[takers].any(axis=0), np.maximum(self.free[resource] // amount, 0), 0)
                self.dimensions.append(Dimension(NONE, resource, amount * int(self.ledger.units[resource])))
                slots.append(usable)
                weights.append(asks[:, resource] // amount)
        self.active = active
        self.weights = np.minimum(np.array(weights).reshape(len(self.dimensions), len(self.shapes)), _HEAVIEST)
        # Nobody needs more of one node than all parts together, and so the sums stay small.
        pods = np.array([sum(p.pods for p in self.problem.parts if p.shape == shape) for shape in self.shapes])
        most = (self.weights * pods).sum(axis=1)
        self.slots = np.minimum(np.array(slots).reshape(len(self.dimensions), len(self.rows)), most[:, None])

    def is_nowhere(self, shape: int) -> bool:
        """Whether no node takes pods of the shape, however much room there is. NONE is no shape."""
        return shape != NONE and not self.ledger.allowed[shape].any()

    def _telling(self) -> list[int]:
        """The shapes whose copies are counted: all, or the scarcest when there are many."""
        pods = [sum(part.pods for part in self.problem.parts if part.shape == shape) for shape in self.shapes]
        scarce = [pods[at] / max(1, int(self.fits[shape].sum())) for at, shape in enumerate(self.shapes)]
        nowhere = [self.is_nowhere(shape) for shape in self.shapes]
        order = sorted(range(len(self.shapes)), key=lambda at: (not nowhere[at], -scarce[at], at))
        return sorted(order[:_MOST_SHAPES])

    def _binding(self, asks: Table) -> list[int]:
        """The resources that can run out. One is left out when on every node another one runs out no later."""
        pods = {shape: sum(part.pods for part in self.problem.parts if part.shape == shape) for shape in self.shapes}
        # In numbers without limits, as pods may ask for absurd amounts.
        totals = [
            sum(int(ask) * count for ask, count in zip(asks[:, resource], pods.values(), strict=True))
            for resource in range(asks.shape[1])
        ]
        active = [int(resource) for resource in np.flatnonzero(asks.any(axis=0))]
        # The one that everybody asks for the least copies of is looked at last, so that it stays.
        active.sort(key=lambda resource: (-int((self.free[resource] // asks[:, resource].max()).sum()), resource))
        for resource in list(active):
            if len(self.rows) and int(self.free[resource].min()) >= totals[resource]:
                active.remove(resource)
        for resource in list(active):
            if any(self._covers(asks, other, resource) for other in active if other != resource):
                active.remove(resource)
        return active or [int(np.flatnonzero(asks.any(axis=0))[0])]

    def _covers(self, asks: Table, other: int, resource: int) -> bool:
        """Whether on every node `other` runs out no later than `resource`, whatever pods of ours are put there."""
        asking = asks[:, resource] > 0
        if (asks[asking, other] == 0).any():
            return False
        most = max(Fraction(int(asks[row, resource]), int(asks[row, other])) for row in np.flatnonzero(asking))
        largest = max(int(abs(self.free[which]).max(initial=0)) for which in (other, resource))
        if largest * max(most.numerator, most.denominator) > _EXACT:
            return False
        return bool((self.free[other] * most.numerator <= self.free[resource] * most.denominator).all())


def _some(amounts: list[int], most: int) -> list[int]:
    """All of them, or so many spread evenly, the largest included."""
    if len(amounts) <= most:
        return amounts
    return [amounts[(at + 1) * len(amounts) // most - 1] for at in range(most)]


def _multiples(asks: Table, allowed: npt.NDArray[np.bool_], number: int) -> Table:
    """How many slots of the shape `number` each shape uses at least."""
    asked = asks[number] > 0
    found = np.zeros(len(asks), dtype=np.int64)
    for other in range(len(asks)):
        if not (allowed[other] & ~allowed[number]).any():
            found[other] = int((asks[other][asked] // asks[number][asked]).min())
    found[number] = 1
    return found


def _divide(amounts: Table) -> bool:
    """Whether the amounts are all positive and each divides the next larger one."""
    sizes = sorted({int(amount) for amount in amounts})
    return sizes[0] > 0 and all(large % small == 0 for small, large in pairwise(sizes))
