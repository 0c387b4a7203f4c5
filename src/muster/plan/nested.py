"""The search for regions of one Topology that only hold regions: from wide levels to narrow ones, domain by domain.

Once it is settled which regions share a domain, what happens inside one domain has nothing to do with what happens in
another. So the question "do these regions fit into that domain?" is asked by itself, once for all domains and regions
that look alike, and a no is a no for everything that holds them. Pods that a wide region holds loosely are only counted
here: with such pods a no is a proof, and a yes still has to be filled.
"""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from muster.api.tree import NONE
from muster.plan.budget import Budget
from muster.plan.looks import Looks
from muster.plan.model import Model
from muster.plan.strands import strands, sums_of

Mask = npt.NDArray[np.bool_]
# Whether the own parts of these regions fit into a narrow domain; False is certain.
Check = Callable[[Sequence[int], int], bool]

# More regions beside one another than this are left to the other search.
_MOST_ITEMS = 400


class Spent(Exception):
    """The budget is; nobody outside this module sees it."""


class Nested:
    """One problem, all of whose regions belong to one Topology."""

    def __init__(self, model: Model, possible: Sequence[Mask], check: Check | None, budget: Budget) -> None:
        self.model, self.possible, self._check, self._budget = model, possible, check, budget
        self.problem = model.problem
        self.keys = sorted(model.scales)
        self.looks = Looks(model)
        self.needs = model.region_needs
        self._known: dict[object, bool] = {}

    def run(self) -> list[int] | bool | None:
        """A domain for every region; False is a proof that there is none; None when the budget is spent."""
        assigned = [NONE] * len(self.problem.regions)
        try:
            if len(self.problem.regions) > _MOST_ITEMS:
                return None
            return assigned if self._arrange(NONE, NONE, self.problem.roots, assigned) else False
        except Spent:
            return None

    def fits(self, depth: int, domain: int, group: Sequence[int]) -> bool:
        """Whether the regions of a group fit into one domain of the level `depth`; counting was done before."""
        look = (depth, self.looks.classes[self.keys[depth]][domain], self.sign(group))
        if look not in self._known:
            opened = self._opened(depth, group)
            if opened:
                self._known[look] = self._arrange(depth, domain, opened, None)
            else:
                self._known[look] = self._check is None or self._check(group, domain)
        return self._known[look]

    def sign(self, group: Sequence[int]) -> tuple[int, ...]:
        return tuple(sorted(self.looks.signatures[region] for region in group))

    def _opened(self, depth: int, group: Sequence[int]) -> list[int]:
        """The regions that still have to be given narrower domains, once a group has one of the level `depth`."""
        level = self.keys[depth][1]
        found: list[int] = []
        for region in group:
            here = self.problem.regions[region]
            found.extend(here.children if here.bound.level == level else [region])
        return found

    def _arrange(self, depth: int, domain: int, items: Sequence[int], assigned: list[int] | None) -> bool:
        """Shares regions out among the domains of the next level inside one; writes down where, if asked to."""
        share = _Share(self, depth, domain, items)
        if not share.find():
            return False
        if assigned is not None:
            level = self.keys[depth + 1][1]
            for place, group in share.groups.items():
                for region in group:
                    if self.problem.regions[region].bound.level == level:
                        assigned[region] = place
                opened = self._opened(depth + 1, group)
                if opened:
                    again = self._arrange(depth + 1, place, opened, assigned)
                    assert again, "it fitted a moment ago"
        return True

    def spend(self) -> None:
        """One step. Raises Spent."""
        if not self._budget.spend():
            raise Spent


class _Share:
    """Regions shared out among the domains of one level inside one domain."""

    def __init__(self, nested: Nested, depth: int, domain: int, items: Sequence[int]) -> None:
        self._nested, self._depth = nested, depth + 1
        key = nested.keys[self._depth]
        self._key = key
        domains = np.arange(len(nested.model.scales[key].paths))
        if depth != NONE:
            domains = domains[nested.model.wider(key, nested.keys[depth]) == domain]
        self._domains = domains
        self._left = nested.model.scales[key].slots[:, domains].copy()
        self._open = {item: self._reach(item) for item in items}
        largest = np.maximum(self._left.max(axis=1, initial=1), 1)
        size = {item: float((nested.needs[item] / largest).max(initial=0.0)) for item in items}
        self._items = sorted(items, key=lambda item: (int(self._open[item].sum()) > 1, -size[item], item))
        self.groups: dict[int, list[int]] = {}
        self._refuted: set[object] = set()
        self._sums: dict[tuple[int, int], tuple[int, int]] = {}

    def _reach(self, item: int) -> Mask:
        """The domains here that have a possible domain of the region inside them, or are one."""
        nested = self._nested
        bound = nested.problem.regions[item].bound
        own = (bound.topology, bound.level)
        found = np.zeros(len(nested.model.scales[self._key].paths), dtype=bool)
        found[nested.model.wider(own, self._key)[nested.possible[item]]] = True
        return found[self._domains]

    def find(self) -> bool:
        """Depth first over the items, largest first."""
        tries = [iter(self._candidates(0))]
        places: list[int] = []
        while tries:
            at = len(tries) - 1
            if len(places) > at:
                self._put(places.pop(), self._items[at], -1)
            place = next(tries[at], NONE)
            if place == NONE:
                self._refuted.add(self._state(at))
                tries.pop()
                continue
            self._nested.spend()
            self._put(place, self._items[at], 1)
            places.append(place)
            if not self._nested.fits(self._depth, int(self._domains[place]), self.groups[int(self._domains[place])]):
                continue
            if at + 1 == len(self._items):
                return True
            if self._state(at + 1) in self._refuted or self._strands(at + 1):
                continue
            tries.append(iter(self._candidates(at + 1)))
        return False

    def _put(self, place: int, item: int, sign: int) -> None:
        self._left[:, place] -= sign * self._nested.needs[item]
        domain = int(self._domains[place])
        if sign > 0:
            self.groups.setdefault(domain, []).append(item)
        else:
            self.groups[domain].remove(item)
            if not self.groups[domain]:
                del self.groups[domain]

    def _candidates(self, at: int) -> list[int]:
        item = self._items[at]
        needs = self._nested.needs[item]
        good = np.flatnonzero(self._open[item] & (self._left >= needs[:, None]).all(axis=0))
        if len(good) < 2:
            return [int(place) for place in good]
        most = int(np.argmax(needs / np.maximum(self._left.sum(axis=1), 1)))
        seen: set[object] = set()
        found = []
        for place in good[np.argsort(self._left[most, good], kind="stable")].tolist():
            look = self._look(place)
            if look not in seen:
                seen.add(look)
                found.append(place)
        return found

    def _look(self, place: int) -> tuple[int, tuple[int, ...]]:
        domain = int(self._domains[place])
        nested = self._nested
        return nested.looks.classes[self._key][domain], nested.sign(self.groups.get(domain, ()))

    def _state(self, at: int) -> object:
        """How the domains in use look: what they were and what they hold, or what is left where counting decides."""
        nested = self._nested
        classes = nested.looks.classes[self._key]
        if nested.model.exact and self._depth + 1 == len(nested.keys):
            place_of = {int(domain): place for place, domain in enumerate(self._domains)}
            looks = [(classes[domain], self._left[:, place_of[domain]].tobytes()) for domain in self.groups]
            return at, tuple(sorted(looks))
        return at, tuple(sorted((classes[domain], nested.sign(group)) for domain, group in self.groups.items()))

    def _strands(self, at: int) -> bool:
        """Whether what is left of the items can't use enough of what is left here."""
        for dimension in self._nested.model.sums:
            if (at, dimension) not in self._sums:
                needs = [int(self._nested.needs[item][dimension]) for item in self._items[at:]]
                self._sums[at, dimension] = sums_of(needs)
            if strands(self._sums[at, dimension], self._left[dimension].tolist()):
                return True
        return False
