"""One question for the search: so many pods of these shapes, held together like this. Nothing of gangs or minimums."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from muster.api.tree import NONE


class Cluster(NamedTuple):
    """A level that is preferred and can't be met: as few of its domains as found, those that are `used` first."""

    topology: int
    level: int
    used: frozenset[int] = frozenset()


class Part(NamedTuple):
    """Pods of one leaf and one shape."""

    leaf: int
    shape: int
    pods: int
    cluster: Cluster | None = None


class Bound(NamedTuple):
    """Leaves whose pods must share one domain of a level. `pinned` is the domain that placed pods have chosen already.

    `row` is the tree node that it speaks for.
    """

    row: int
    leaves: tuple[int, ...]
    topology: int
    level: int
    pinned: int = NONE


@dataclass
class Region:
    """A bound with parts below it: something that gets one domain."""

    number: int
    bound: Bound
    parent: int
    children: list[int] = field(default_factory=list)
    # Parts directly here, and all below.
    own: list[int] = field(default_factory=list)
    parts: list[int] = field(default_factory=list)


class Problem:
    """Parts and regions. Regions nest; one that an outer one of the same Topology implies is left out."""

    def __init__(self, parts: Sequence[Part], bounds: Iterable[Bound]) -> None:
        self.parts = tuple(part for part in parts if part.pods > 0)
        self.regions: list[Region] = []
        parts_of: dict[int, list[int]] = {}
        for number, part in enumerate(self.parts):
            parts_of.setdefault(part.leaf, []).append(number)
        innermost = dict.fromkeys(parts_of, NONE)
        for bound in sorted(bounds, key=lambda bound: (-len(bound.leaves), bound.row, bound.level)):
            leaves = _inside(bound.leaves, parts_of)
            if leaves and not self._implied(bound, innermost[leaves[0]]):
                region = Region(len(self.regions), bound, innermost[leaves[0]])
                self.regions.append(region)
                region.parts = [number for leaf in leaves for number in parts_of[leaf]]
                if region.parent != NONE:
                    self.regions[region.parent].children.append(region.number)
                innermost.update(dict.fromkeys(leaves, region.number))
        self.region_of = [innermost[part.leaf] for part in self.parts]
        for number, found in enumerate(self.region_of):
            if found != NONE:
                self.regions[found].own.append(number)
        self.loose = [number for number, found in enumerate(self.region_of) if found == NONE]
        self.roots = [region.number for region in self.regions if region.parent == NONE]

    def _implied(self, bound: Bound, around: int) -> bool:
        while around != NONE:
            outer = self.regions[around]
            if outer.bound.topology == bound.topology and outer.bound.level >= bound.level:
                return True
            around = outer.parent
        return False

    def ancestors(self, region: int) -> list[int]:
        """The regions around one, the nearest first."""
        found = []
        around = self.regions[region].parent
        while around != NONE:
            found.append(around)
            around = self.regions[around].parent
        return found

    def signature(self, *, rows: bool) -> object:
        """What is asked, whoever asks: equal questions have equal signatures. With `rows`, of equal tree nodes too."""
        found: list[object] = [None] * len(self.regions)
        first = 0 if rows else 1
        for region in reversed(self.regions):
            own = _sorted([self.parts[part][first:3] for part in region.own])
            inside = _sorted([found[child] for child in region.children])
            found[region.number] = (region.bound[2:5], region.bound.row if rows else NONE, own, inside)
        return _sorted([self.parts[part][first:3] for part in self.loose]), _sorted(
            [found[root] for root in self.roots]
        )


def _inside(leaves: Sequence[int], known: Mapping[int, object]) -> list[int]:
    """The leaves that are known; both may be long, and one of them is mostly short."""
    if len(leaves) <= 4 * len(known):
        return [leaf for leaf in leaves if leaf in known]
    return [leaf for leaf in sorted(known) if (at := bisect_left(leaves, leaf)) < len(leaves) and leaves[at] == leaf]


def _sorted(things: list[object]) -> tuple[object, ...]:
    """In an order that depends on nothing but the things."""
    return tuple(things) if len(things) < 2 else tuple(sorted(things, key=repr))
