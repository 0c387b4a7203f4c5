"""The independent checker (SPEC §11): judges decisions by the snapshot alone and shares no code with what made them."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from muster.api.tree import NONE, satisfied
from muster.plan.model import Dimension
from muster.plan.outcome import Placement
from muster.plan.problem import Bound
from muster.plan.proof import Certificate
from muster.snapshot.arrays import Hold, Snapshot
from muster.snapshot.room import Amounts
from muster.snapshot.selectors import Mask


class Checker:
    """Keeps its own account of the room, and of where every gang's pods are."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._free = snapshot.free.copy()
        self._with_releasing = snapshot.free + snapshot.releasing
        # Per gang: the domains that the pods of every required hold are in, and the holds of every leaf.
        self._domains: dict[int, dict[int, set[int]]] = {}
        self._holds_of: dict[int, dict[int, list[int]]] = {}
        # Gangs that were found satisfied by what is bound.
        self._satisfied: set[int] = set()
        # Pods that were bound in this cycle, by gang and leaf.
        self._counted: dict[int, dict[int, int]] = {}
        self._bound: dict[int, dict[int, set[int]]] = {}

    def faults(self, gang: int, placements: Sequence[Placement]) -> list[str]:
        """What is wrong with these decisions for a gang; when nothing is, they are entered in the account."""
        nodes, asked = self._asked(gang, placements)
        drift, domains = self._together(gang, placements)
        found = [
            *self._room(nodes, asked, nominated=any(placement.nominated for placement in placements)),
            *self._shapes(gang, placements),
            *self._pods(gang, placements),
            *drift,
            *self._whole(gang, placements),
        ]
        if self._snapshot.gangs[gang].held:
            found.append("the gang is held")
        if not found:
            self._free[nodes] -= asked
            self._with_releasing[nodes] -= asked
            self._domains[gang].update(domains)
            self._enter(gang, placements)
        return found

    def faults_of_lone_pods(self, shape: int, placements: Sequence[Placement]) -> list[str]:
        """The same for many gangs of one pod each, all of one shape."""
        snapshot = self._snapshot
        ask = snapshot.asks[shape]
        wrong = []
        counts = np.bincount([placement.nodes[0] for placement in placements], minlength=len(snapshot.nodes))
        nodes = np.flatnonzero(counts)
        asked = counts[nodes, None] * ask
        if ((asked > 0) & (self._free[nodes] < asked)).any():
            wrong.append("a node has not enough")
        if not snapshot.allowed[shape][nodes].all():
            wrong.append("a pod is sent where it may not go")
        for placement in placements:
            gang = snapshot.gangs[placement.gang]
            batch = gang.waiting[0]
            alone = batch.shape == shape and len(batch.pods) == 1 and placement.gang not in self._bound
            whole = not gang.holds and len(gang.tree.nodes) == 1 and gang.tree.nodes[0].minimum <= 1
            if not (alone and whole and placement[1:3] == (0, (0,)) and not placement.nominated):
                wrong.append("a gang is not just one pod")
        if len({placement.gang for placement in placements}) < len(placements):
            wrong.append("a gang is sent twice")
        if not wrong:
            self._free[nodes] -= asked
            self._with_releasing[nodes] -= asked
            self._bound.update({placement.gang: {0: {0}} for placement in placements})
        return wrong

    @property
    def room(self) -> Amounts:
        """What is left of everything, the room of terminating pods included."""
        return self._with_releasing

    def _room(self, nodes: list[int], asked: Amounts, *, nominated: bool) -> list[str]:
        """1. No decision over-commits a node in any resource, pods included."""
        free = (self._with_releasing if nominated else self._free)[nodes]
        over = (asked > 0) & (free < asked)
        if not over.any():
            return []
        return [
            f"{self._snapshot.nodes[nodes[at]]} has not enough {self._snapshot.resources[resource]}"
            for at, resource in zip(*np.nonzero(over), strict=True)
        ]

    def _asked(self, gang: int, placements: Sequence[Placement]) -> tuple[list[int], Amounts]:
        """The nodes that get pods, and what is asked of each."""
        waiting = self._snapshot.gangs[gang].waiting
        if len(placements) == 1:
            pods = Counter(placements[0].nodes)
            ask = self._snapshot.asks[waiting[placements[0].batch].shape]
            return list(pods), np.array(list(pods.values()), dtype=np.int64)[:, None] * ask
        nodes = list(dict.fromkeys(node for placement in placements for node in placement.nodes))
        place_of = {node: at for at, node in enumerate(nodes)}
        asked = np.zeros((len(nodes), len(self._snapshot.resources)), dtype=np.int64)
        for placement in placements:
            pods = Counter(placement.nodes)
            places = [place_of[node] for node in pods]
            asked[places] += np.outer(list(pods.values()), self._snapshot.asks[waiting[placement.batch].shape])
        return nodes, asked

    def _shapes(self, gang: int, placements: Sequence[Placement]) -> list[str]:
        """2. No pod is sent to a node that its shape forbids."""
        wrong = []
        for placement in placements:
            allowed = self._snapshot.allowed[self._snapshot.gangs[gang].waiting[placement.batch].shape]
            if not allowed[list(placement.nodes)].all():
                wrong.append(f"a pod of batch {placement.batch} is sent where it may not go")
        return wrong

    def _pods(self, gang: int, placements: Sequence[Placement]) -> list[str]:
        """10. No pod is bound twice."""
        wrong = []
        before = self._bound.get(gang, {})
        now: dict[int, set[int]] = {}
        for placement in placements:
            known = now.setdefault(placement.batch, set())
            batch = self._snapshot.gangs[gang].waiting[placement.batch]
            fresh = set(placement.pods)
            twice = (
                len(fresh) != len(placement.pods)
                or bool(fresh & known)
                or bool(fresh & before.get(placement.batch, set()))
            )
            if twice or len(placement.pods) != len(placement.nodes) or not fresh <= set(range(len(batch.pods))):
                wrong.append(f"pods of batch {placement.batch} are not each sent once")
            known |= fresh
        return wrong

    def _together(self, gang: int, placements: Sequence[Placement]) -> tuple[list[str], dict[int, set[int]]]:
        """3. No decision violates a required level at any tree node, counting all placed pods.

        Also gives, per hold that is touched, the domains that its pods are then in.
        """
        known = self._snapshot.gangs[gang]
        if gang not in self._domains:
            self._look_at_holds(gang)
        before, holds_of = self._domains[gang], self._holds_of[gang]
        now: dict[int, set[int]] = {}
        for placement in placements:
            for number in holds_of.get(known.waiting[placement.batch].leaf, ()):
                found = now.setdefault(number, set(before.get(number, ())))
                found.update(self._where(known.holds[number], placement.nodes))
        wrong = [
            f"row {known.holds[number].row} lies in {len(domains)} domains of its required level"
            for number, domains in now.items()
            if len(domains) > 1 or NONE in domains
        ]
        return wrong, now

    def _look_at_holds(self, gang: int) -> None:
        """Which required holds every leaf is in, and where their pods are."""
        known = self._snapshot.gangs[gang]
        self._domains[gang], self._holds_of[gang] = {}, {}
        for number, hold in enumerate(known.holds):
            if hold.required == NONE:
                continue
            for leaf in hold.leaves:
                self._holds_of[gang].setdefault(leaf, []).append(number)
                if leaf in known.placed:
                    found = self._domains[gang].setdefault(number, set())
                    found.update(self._where(hold, known.placed[leaf].nodes))

    def _where(self, hold: Hold, nodes: Sequence[int]) -> list[int]:
        level = self._snapshot.topologies[hold.topology].levels[hold.required]
        found: list[int] = level.domain_of[list(nodes)].tolist()
        return found

    def _whole(self, gang: int, placements: Sequence[Placement]) -> list[str]:
        """4. No bind is sent for a gang that is not satisfied after it. What is only nominated counts for itself."""
        known = self._snapshot.gangs[gang]
        if gang in self._satisfied:
            # More pods do not make it less.
            return []
        pods = [0] * len(known.tree.nodes)
        for leaf, placed in known.placed.items():
            pods[leaf] += len(placed.nodes)
        for leaf, bound in self._counted.get(gang, {}).items():
            pods[leaf] += bound
        for placement in placements:
            pods[known.waiting[placement.batch].leaf] += len(placement.nodes)
        for leaf, counts in known.counts.items():
            pods[leaf] += counts.succeeded
        if not satisfied(known.tree, pods)[0]:
            return ["the gang is below its minimum after it"]
        if not any(placement.nominated for placement in placements):
            self._satisfied.add(gang)
        return []

    def _enter(self, gang: int, placements: Sequence[Placement]) -> None:
        known = self._snapshot.gangs[gang]
        for placement in placements:
            batch = known.waiting[placement.batch]
            counted = self._counted.setdefault(gang, {})
            counted[batch.leaf] = counted.get(batch.leaf, 0) + (0 if placement.nominated else len(placement.nodes))
            self._bound.setdefault(gang, {}).setdefault(placement.batch, set()).update(placement.pods)

    def refutes(self, proof: Certificate, *, releasing: bool = False) -> bool:
        """Whether a certificate holds: counted again, some bound has no domain left, or there is too little in all."""
        free = self._with_releasing if releasing else self._free
        return _Recount(self._snapshot, free, proof).contradicts()


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
            return np.where(snapshot.allowed[dimension.shape], np.maximum(copies, 0), 0)
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
        if (self._usable(shape) & ~self._snapshot.allowed[dimension.shape]).any():
            return 0
        ask = asks[dimension.shape]
        return int(min(asks[shape, r] // ask[r] for r in np.flatnonzero(ask)))

    def _usable(self, shape: int) -> Mask:
        ask = self._snapshot.asks[shape]
        enough = np.all([self._free[:, r] >= ask[r] for r in np.flatnonzero(ask)], axis=0)
        usable: Mask = self._snapshot.allowed[shape] & enough
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
