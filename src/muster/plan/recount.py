"""Certificates, counted again node by node from the amounts in base units, by nobody who made them."""

import numpy as np

from muster.api.tree import NONE
from muster.plan.model import Dimension
from muster.plan.problem import Bound
from muster.plan.proof import Certificate
from muster.snapshot.arrays import Snapshot
from muster.snapshot.room import Amounts
from muster.snapshot.selectors import Mask


def refutes(snapshot: Snapshot, free: Amounts, proof: Certificate) -> bool:
    """Whether a certificate holds in this room: some bound has no domain left, or there is too little in all."""
    return _Recount(snapshot, free, proof).contradicts()


class _Recount:
    """A certificate, counted again node by node from the amounts in base units."""

    def __init__(self, snapshot: Snapshot, free: Amounts, proof: Certificate) -> None:
        self._snapshot, self._free, self._proof = snapshot, free, proof
        self._bounds: list[Bound] = []
        self._slots = [self._count(dimension) for dimension in proof.dimensions]

    def _count(self, dimension: Dimension) -> Amounts:
        """Slots per node."""
        snapshot, shapes = self._snapshot, {part.shape for part in self._proof.parts}
        if dimension.shape != NONE:
            ask = snapshot.asks[dimension.shape]
            copies = np.min([self._free[:, r] // ask[r] for r in np.flatnonzero(ask)], axis=0)
            return np.where(snapshot.allowed_soon[dimension.shape], np.maximum(copies, 0), 0)
        takers = [shape for shape in shapes if self._weight(dimension, shape) > 0]
        if not takers:
            return np.zeros(len(snapshot.nodes), dtype=np.int64)
        open_to = np.any([self._usable(shape) for shape in takers], axis=0)
        amount = dimension.amount
        return np.where(open_to, np.maximum(self._free[:, dimension.resource] // amount, 0), 0)

    def _weight(self, dimension: Dimension, shape: int) -> int:
        """Slots that a pod of a shape uses at least."""
        asks = self._snapshot.asks
        if dimension.shape == NONE:
            return int(asks[shape, dimension.resource] // dimension.amount)
        if shape == dimension.shape:
            return 1
        if (self._usable(shape) & ~self._snapshot.allowed_soon[dimension.shape]).any():
            return 0
        ask = asks[dimension.shape]
        return int(min(asks[shape, r] // ask[r] for r in np.flatnonzero(ask)))

    def _usable(self, shape: int) -> Mask:
        ask = self._snapshot.asks[shape]
        enough = np.all([self._free[:, r] >= ask[r] for r in np.flatnonzero(ask)], axis=0)
        usable: Mask = self._snapshot.allowed_soon[shape] & enough
        return usable

    def contradicts(self) -> bool:
        parts = self._proof.parts
        for dimension, slots in zip(self._proof.dimensions, self._slots, strict=True):
            if sum(self._weight(dimension, part.shape) * part.pods for part in parts) > slots.sum():
                return True
        # A bound that holds no pods asks for nothing.
        held = {part.leaf for part in parts if part.pods > 0}
        self._bounds = [bound for bound in self._proof.bounds if held & set(bound.leaves)]
        left = [self._domains(bound) for bound in self._bounds]
        while all(left):
            before = [set(found) for found in left]
            self._narrow(left)
            if left == before:
                return False
        return True

    def _domains(self, bound: Bound) -> set[int]:
        """The domains that have enough of everything for what the bound holds."""
        level = self._snapshot.topologies[bound.topology].levels[bound.level]
        found = set(range(len(level.paths))) if bound.pinned == NONE else {bound.pinned} & set(range(len(level.paths)))
        for dimension, slots in zip(self._proof.dimensions, self._slots, strict=True):
            held = [part for part in self._proof.parts if part.leaf in bound.leaves]
            needs = sum(self._weight(dimension, part.shape) * part.pods for part in held)
            found = {domain for domain in found if slots[level.domain_of == domain].sum() >= needs}
        return found

    def _narrow(self, left: list[set[int]]) -> None:
        """A bound inside another lies in one of its domains; one around another keeps those that have room inside."""
        for inner, one in enumerate(self._bounds):
            for outer, other in enumerate(self._bounds):
                if inner == outer or one.topology != other.topology or one.level < other.level:
                    continue
                if not set(one.leaves) <= set(other.leaves):
                    continue
                around = self._around(one, other)
                left[inner] = {domain for domain in left[inner] if around[domain] in left[outer]}
                left[outer] &= {around[domain] for domain in left[inner]}

    def _around(self, inner: Bound, outer: Bound) -> dict[int, int]:
        levels = self._snapshot.topologies[inner.topology].levels
        found = {}
        for domain in range(len(levels[inner.level].paths)):
            at = domain
            for level in range(inner.level, outer.level, -1):
                at = int(levels[level].parent[at])
            found[domain] = at
        return found
