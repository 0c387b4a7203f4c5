"""Which domain every region gets: depth first, tightest domain first, with everything that saves work and no answer.

A region is tried in the domains that counting leaves (`Model`). Equal-looking domains are tried once; a state that was
refuted is remembered by how it looks, not by how it came about; capacity that no combination of what is left can use is
not counted. When all regions have a domain, `fill` says whether the pods find nodes. Without a limit this exhausts all
choices: running out of candidates proves that there is no placement.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from muster.api.tree import NONE
from muster.plan.budget import Budget
from muster.plan.looks import Looks, State
from muster.plan.model import Model
from muster.plan.problem import Region
from muster.plan.strands import strands, sums_of

Assignment = list[int]


class Order(NamedTuple):
    """How a run of the search goes about it: which region first, which domain first."""

    regions: str
    domains: str
    turn: int = 0


LARGEST, FEWEST, SPEC = "largest", "fewest", "spec"
TIGHTEST, LOOSEST = "tightest", "loosest"
# The first is tried first, for a few steps and then thoroughly; the others in turn, for a few steps each.
ORDERS = (
    Order(LARGEST, TIGHTEST),
    Order(FEWEST, TIGHTEST),
    Order(LARGEST, LOOSEST),
    Order(SPEC, TIGHTEST),
    *(Order(LARGEST, TIGHTEST, turn) for turn in range(1, 9)),
    *(Order(LARGEST, LOOSEST, turn) for turn in range(1, 5)),
)


# Whether the pods find nodes when the regions have these domains: yes, no, or nobody knows. The second is the effort.
Fill = Callable[[Assignment, int], bool | None]
# Whether what the regions hold so far can fit into the domain that this one was given; False is certain.
Check = Callable[[Assignment, list[int]], bool]


class Search:
    """The search for one problem. `possible[region]` are the domains that are left by what is known beforehand."""

    def __init__(
        self, model: Model, possible: Sequence[npt.NDArray[np.bool_]], fill: Fill, check: Check | None = None
    ) -> None:
        self.model, self.possible, self.fill, self.check = model, possible, fill, check
        self.problem = model.problem
        self._left = {key: scale.slots.copy() for key, scale in model.scales.items()}
        self._assigned: Assignment = [NONE] * len(self.problem.regions)
        self._looks = Looks(model)
        self._tied = [self._ties(region) for region in self.problem.regions]
        self._sums: dict[tuple[int, ...], tuple[int, int]] = {}
        # Set when some assignment could be neither filled nor refuted: then exhausting the search proves nothing.
        self.unknown = False

    def _ties(self, region: Region) -> tuple[int, list[tuple[int, int]], list[int]]:
        """Per region: the nearest region around it in the same Topology, the scales to charge, other regions around."""
        own = region.bound
        around = self.problem.ancestors(region.number)
        same = [number for number in around if self.problem.regions[number].bound.topology == own.topology]
        others = [number for number in around if self.problem.regions[number].bound.topology != own.topology]
        outer = self.problem.regions[same[0]].bound.level if same else NONE
        charged = [key for key in self.model.scales if key[0] == own.topology and outer < key[1] <= own.level]
        return (same[0] if same else NONE), charged, others

    def run(self, order: Order, budget: Budget, limit: int, effort: int) -> Assignment | None:
        """A domain for every region such that the pods fit, or None: not found within `limit` steps.

        With some `effort`, which is what filling may cost each time, a run leaves nothing out, and the limit counts
        everything that is spent; when it ends and nothing is `unknown`, there is no such choice.
        """
        sequence = self._sequence(order)
        refuted: set[State] | None = set() if effort else None
        self.unknown = False
        steps, start = 0, budget.spent
        tries: list[Iterator[int]] = []
        at = 0
        while True:
            if at == len(sequence):
                full = self.fill(self._assigned, effort) if self._loose_fit() else False
                if full:
                    return list(self._assigned)
                self.unknown |= full is None
                at -= 1
                if at < 0:
                    return None
            elif len(tries) == at:
                if refuted is not None and (self._stranded(sequence[at:]) or self._look(at, sequence) in refuted):
                    tries.append(iter(()))
                else:
                    tries.append(self._candidates(sequence[at], order))
            region = sequence[at]
            if self._assigned[region] != NONE:
                self._charge(region, -1)
            domain = next(tries[at], NONE)
            steps += 1
            if not budget.spend() or (budget.spent - start if effort else steps) > limit:
                self.unknown = True
                self._clear(sequence)
                return None
            if domain != NONE:
                self._assigned[region] = domain
                self._charge(region, 1)
                # A domain that can't hold them leaves the region where it is, to be given the next one.
                at += self._holds(region)
                continue
            if refuted is not None:
                refuted.add(self._look(at, sequence))
            tries.pop()
            at -= 1
            if at < 0:
                return None

    def _holds(self, region: int) -> bool:
        """Whether the regions in a narrow domain fit together, where counting alone can't tell."""
        bound = self.problem.regions[region].bound
        if self.check is None or (bound.topology, bound.level) != max(self.model.scales):
            return True
        return self._looks.remembered(
            (bound.topology, bound.level),
            self._assigned[region],
            self._assigned,
            lambda regions: self.check is None or self.check(self._assigned, regions),
        )

    def _clear(self, sequence: Sequence[int]) -> None:
        for region in reversed(sequence):
            if self._assigned[region] != NONE:
                self._charge(region, -1)

    def _charge(self, region: int, sign: int) -> None:
        """The needs of a region are taken from its domain and the wider ones; with sign -1 the region is free again."""
        own, domain = self.problem.regions[region].bound, self._assigned[region]
        for key in self._tied[region][1]:
            wider = self.model.wider((own.topology, own.level), key)[domain]
            self._left[key][:, wider] -= sign * self.model.region_needs[region]
            self._looks.touch(key, int(wider), region, sign)
        if sign < 0:
            self._assigned[region] = NONE

    def _sequence(self, order: Order) -> list[int]:
        """Regions around before those inside, and what is inside one before its neighbour."""
        waiting = self._sorted(self.problem.roots, order)[::-1]
        found = []
        while waiting:
            region = waiting.pop()
            found.append(region)
            waiting.extend(self._sorted(self.problem.regions[region].children, order)[::-1])
        return found

    def _sorted(self, regions: Sequence[int], order: Order) -> list[int]:
        if order.regions == SPEC or len(regions) < 2:
            return list(regions)
        if order.regions == FEWEST:
            return sorted(regions, key=lambda r: (int(self.possible[r].sum()), -self._share(r), r))
        # A turn moves regions a few places, always the same way.
        by_size = sorted(regions, key=lambda r: (int(self.possible[r].sum()) > 1, -self._share(r), r))
        return (
            sorted(
                by_size, key=lambda r: by_size.index(r) + (r * 2654435761 * order.turn % 4294967296) / 4294967296 * 4
            )
            if order.turn
            else by_size
        )

    def _share(self, region: int) -> float:
        """How much of the largest domain a region needs."""
        bound = self.problem.regions[region].bound
        largest = self.model.scales[bound.topology, bound.level].slots.max(axis=1, initial=1)
        return float((self.model.region_needs[region] / np.maximum(largest, 1)).max(initial=0.0))

    def _candidates(self, region: int, order: Order) -> Iterator[int]:
        own = self.problem.regions[region].bound
        needs = self.model.region_needs[region][:, None]
        key = (own.topology, own.level)
        outer, charged, others = self._tied[region]
        good = self.possible[region] & (self._left[key] >= needs).all(axis=0)
        for wider in charged:
            if wider != key:
                good &= (self._left[wider] >= needs).all(axis=0)[self.model.wider(key, wider)]
        if outer != NONE:
            around = self.problem.regions[outer].bound
            good &= self.model.wider(key, (around.topology, around.level)) == self._assigned[outer]
        found = np.flatnonzero(good)
        if others and len(found):
            found = self._in_all(region, found, others)
        if len(found) > 1:
            most = int(np.argmax(self.model.region_needs[region] / np.maximum(self.model.slots.sum(axis=1), 1)))
            left = self._left[key][most, found]
            found = found[np.argsort(left if order.domains == TIGHTEST else -left, kind="stable")]
        return self._unlike(key, found.tolist(), outer)

    def _in_all(self, region: int, found: npt.NDArray[np.intp], others: Sequence[int]) -> npt.NDArray[np.intp]:
        """The domains that have enough inside the domains of other Topologies around them."""
        scale = self.model.scales[self.problem.regions[region].bound[2:4]]
        inside = np.ones(len(self.model.rows), dtype=bool)
        for other in others:
            bound = self.problem.regions[other].bound
            inside &= self.model.scales[bound.topology, bound.level].domain_of == self._assigned[other]
        keep = [
            domain
            for domain in found
            if (
                self.model.slots[:, inside & (scale.domain_of == domain)].sum(axis=1) >= self.model.region_needs[region]
            ).all()
        ]
        return np.array(keep, dtype=np.intp)

    def _unlike(self, key: tuple[int, int], domains: list[int], outer: int) -> Iterator[int]:
        """The first of all that look alike; nobody looks before a second one is asked for."""
        level = self.problem.regions[outer].bound.level if outer != NONE else NONE
        seen: set[object] = set()
        for at, domain in enumerate(domains):
            if at:
                if at == 1:
                    seen.add(self._looks.path(key, domains[0], level, self._left))
                look = self._looks.path(key, domain, level, self._left)
                if look in seen:
                    continue
                seen.add(look)
            yield domain

    def _look(self, at: int, sequence: Sequence[int]) -> State:
        return self._looks.state(at, self._left, sequence)

    def _loose_fit(self) -> bool:
        """Whether pods that no narrow region holds find slots in what the narrow ones leave of each domain."""
        problem, model = self.problem, self.model
        narrowest = {key[0]: key for key in sorted(model.scales)}
        for number, part in enumerate(problem.parts):
            region = problem.region_of[number]
            weights = model.weights[:, model.shapes.index(part.shape)]
            asked = weights > 0
            if not asked.any():
                continue
            for key in narrowest.values():
                if region != NONE and (bound := problem.regions[region].bound)[2:4] == key:
                    continue
                scale = model.scales[key]
                room = (np.maximum(self._left[key][asked], 0) // weights[asked][:, None]).min(axis=0)
                if region == NONE:
                    outside = (model.slots[asked][:, scale.domain_of == NONE] // weights[asked][:, None]).min(axis=0)
                elif bound.topology != key[0]:
                    continue
                else:
                    around = self.model.wider(key, (bound.topology, bound.level)) == self._assigned[region]
                    room = room[around]
                    here = model.scales[bound.topology, bound.level].domain_of == self._assigned[region]
                    beside = here & (scale.domain_of == NONE)
                    outside = (model.slots[asked][:, beside] // weights[asked][:, None]).min(axis=0)
                if int(room.sum()) + int(outside.sum()) < part.pods:
                    return False
        return True

    def _stranded(self, rest: Sequence[int]) -> bool:
        """Whether the regions that are left can't use enough of what is left, whatever is combined.

        Looked at per region around them, for those that are narrow and alike in kind; amounts as in subset sums.
        """
        families: dict[tuple[int, tuple[int, int]], list[int]] = {}
        for region in rest:
            outer = self._tied[region][0]
            bound = self.problem.regions[region].bound
            if outer == NONE or self._assigned[outer] != NONE:
                families.setdefault((outer, (bound.topology, bound.level)), []).append(region)
        for (outer, key), regions in families.items():
            if len(regions) < 2:
                continue
            left = self._left[key]
            if outer != NONE:
                around = self.problem.regions[outer].bound
                left = left[:, self.model.wider(key, (around.topology, around.level)) == self._assigned[outer]]
            for dimension in self.model.sums:
                needs = tuple(int(self.model.region_needs[region][dimension]) for region in regions)
                if needs not in self._sums:
                    self._sums[needs] = sums_of(needs)
                if strands(self._sums[needs], left[dimension].tolist()):
                    return True
        return False
