"""Where a problem comes nearest to fitting: what is missing in each domain when the rest is placed as well as can be.

For people, not for proofs: regions are placed one after the other, largest first, and the first that finds no domain
tells what the best one lacks.
"""

from typing import NamedTuple

import numpy as np

from muster.api.tree import NONE
from muster.plan.model import Dimension, Model, Table

# So many of the nearest domains are told, and so many are looked at.
NEAREST, _LOOKED_AT = 5, 24
# Ways to place a region that has others inside, when it is not the one whose domains are compared.
_WAYS_INSIDE = 4


class Near(NamedTuple):
    """One domain for the outermost region, and what then is missing first: a tree node that finds too little.

    `domain` of `level` is the best that there is for the tree node `row`; `missing` is what lacks in all. `around` is
    the wider domain (level, domain) that the rest of the gang was put into, which is why others do not count.
    """

    missing: int
    row: int
    topology: int
    level: int
    domain: int
    dimension: Dimension
    asked: int
    best: int
    around: tuple[int, int] | None = None


def nearest(model: Model) -> tuple[Near, ...]:
    """The nearest domains of the outermost region that has several to choose from, the nearest first."""
    problem = model.problem
    if not problem.regions:
        return ()
    guess = _Guess(model)
    region = max(problem.roots, key=guess.weight)
    while len(guess.candidates(region)) == 1 and any(
        problem.regions[c].children for c in problem.regions[region].children
    ):
        guess.give(region, guess.candidates(region)[0])
        region = max(problem.regions[region].children, key=guess.weight)
    needs, left = model.region_needs[region], guess.left[guess.key(region)]
    found = []
    for domain in sorted(guess.candidates(region), key=lambda domain: (_lack(needs, left[:, domain]), domain))[
        :_LOOKED_AT
    ]:
        tried = guess.copy()
        tried.fill(region, domain)
        tried.place_loose()
        if tried.first is not None:
            # Of equally near ones the tightest: there a little more room decides.
            room = int(left[:, domain].sum())
            found.append((tried.missing, room, domain, tried.first._replace(missing=tried.missing)))
    return tuple(near for _, _, _, near in sorted(found)[:NEAREST])


class _Guess:
    """Everything as it would be if regions were placed one after the other; `first` is what was missing first."""

    def __init__(self, model: Model) -> None:
        self._model, self._problem = model, model.problem
        self.left = {key: scale.slots.copy() for key, scale in model.scales.items()}
        self._assigned: dict[int, int] = {}
        self.missing = 0
        self.first: Near | None = None

    def copy(self) -> "_Guess":
        """The same, to go on from in another way."""
        other = _Guess.__new__(_Guess)
        other.__dict__.update(self.__dict__)
        other.left = {key: table.copy() for key, table in self.left.items()}
        other._assigned = dict(self._assigned)
        return other

    def weight(self, region: int) -> tuple[int, int]:
        """Regions with more inside come first."""
        return len(self._problem.regions[region].parts), -region

    def key(self, region: int) -> tuple[int, int]:
        """The Topology and level of a region."""
        return self._problem.regions[region].bound[2:4]

    def give(self, region: int, domain: int) -> None:
        """The region takes its needs where they are, and in the domains around that nobody counted it in."""
        self._assigned[region] = domain
        key = self.key(region)
        outer = [self.key(other) for other in self._problem.ancestors(region) if self.key(other)[0] == key[0]]
        for other in self._model.scales:
            if other[0] == key[0] and other[1] <= key[1] and all(other[1] > around[1] for around in outer):
                self.left[other][:, self._model.wider(key, other)[domain]] -= self._model.region_needs[region]

    def candidates(self, region: int) -> list[int]:
        """The domains inside those of the regions around."""
        key = self.key(region)
        found = np.ones(self.left[key].shape[1], dtype=bool)
        for other in self._problem.ancestors(region):
            around = self.key(other)
            if around[0] == key[0] and other in self._assigned:
                found &= self._model.wider(key, around) == self._assigned[other]
        pinned = self._problem.regions[region].bound.pinned
        return [int(domain) for domain in np.flatnonzero(found) if pinned in (NONE, domain)]

    def fill(self, region: int, domain: int) -> None:
        """The region gets this domain, whether it has enough or not, and what is inside it is placed, largest first."""
        self.give(region, domain)
        children = self._problem.regions[region].children
        for child in sorted(children, key=lambda child: (-int(self._model.region_needs[child].max()), child)):
            self._place(child)
        if not children:
            self._note(region, domain, self.left[self.key(region)][:, domain] + self._model.region_needs[region])

    def _place(self, region: int) -> None:
        """Where the least is missing; of those with enough, the tightest."""
        needs, left = self._model.region_needs[region], self.left[self.key(region)]
        domains = self.candidates(region)
        if not domains:
            return
        if self._problem.regions[region].children:
            nearest_first = sorted(domains, key=lambda domain: (_lack(needs, left[:, domain]), domain))[:_WAYS_INSIDE]
            tried = [(self._after(region, domain), int(left[:, domain].sum())) for domain in nearest_first]
            self.__dict__.update(min(tried, key=lambda one: (one[0].missing, one[1]))[0].__dict__)
            return
        enough = [domain for domain in domains if (left[:, domain] >= needs).all()]
        if enough:
            self.give(region, min(enough, key=lambda domain: (int(left[:, domain].sum()), domain)))
            return
        best = min(domains, key=lambda domain: (_lack(needs, left[:, domain]), domain))
        self._note(region, best, left[:, best])

    def _after(self, region: int, domain: int) -> "_Guess":
        tried = self.copy()
        tried.fill(region, domain)
        return tried

    def place_loose(self) -> None:
        """Pods that wide regions hold directly, in what the narrowest regions leave of their domains."""
        model = self._model
        for region, domain in sorted(self._assigned.items()):
            key = self.key(region)
            narrowest = max(other for other in model.scales if other[0] == key[0])
            if narrowest == key:
                continue
            inside = self._model.wider(narrowest, key) == domain
            beside = (model.scales[key].domain_of == domain) & (model.scales[narrowest].domain_of == NONE)
            slots = np.concatenate([self.left[narrowest][:, inside], model.slots[:, beside]], axis=1)
            for number in self._problem.regions[region].own:
                part = self._problem.parts[number]
                weights = model.weights[:, model.shapes.index(part.shape)]
                asked = weights > 0
                each = (np.maximum(slots[asked], 0) // weights[asked][:, None]).min(axis=0, initial=part.pods)
                room = int(each.sum())
                if room < part.pods:
                    self.missing += part.pods - room
                    dimension = Dimension(part.shape, NONE, 0)
                    self.first = self.first or Near(
                        0, part.leaf, *key, domain, dimension, part.pods, room, (key[1], domain)
                    )

    def _note(self, region: int, domain: int, left: Table) -> None:
        needs = self._model.region_needs[region]
        worst = int(np.argmax((needs - left) / np.maximum(needs, 1)))
        asked, best = int(needs[worst]), max(0, int(left[worst]))
        if asked > best:
            self.missing += asked - best
            bound = self._problem.regions[region].bound
            where = (bound.row, bound.topology, bound.level, domain)
            self.first = self.first or Near(0, *where, self._model.dimensions[worst], asked, best, self._around(region))

    def _around(self, region: int) -> tuple[int, int] | None:
        """The level and domain of the nearest region around one in the same Topology."""
        for other in self._problem.ancestors(region):
            if self.key(other)[0] == self.key(region)[0] and other in self._assigned:
                return self.key(other)[1], self._assigned[other]
        return None


def _lack(needs: Table, left: Table) -> float:
    return float(((needs - left) / np.maximum(needs, 1)).max(initial=0.0))
