"""A gang while a cycle goes on: what is placed, what still waits, and which domains that pins."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from muster.api.tree import NONE, satisfied
from muster.plan.demand import Stock
from muster.plan.ledger import Taking
from muster.plan.problem import Bound
from muster.plan.proof import Drift, Refused
from muster.snapshot.arrays import Gang, Hold, Snapshot

# No domain has this number: a bound that is pinned there can't be met, and everybody sees it at once.
_NOWHERE = 2**30


class Wish(NamedTuple):
    """A preferred level of one hold, with the domain that placed pods have chosen, and those that they are in."""

    hold: int
    bound: Bound
    used: frozenset[int]


class Pins(NamedTuple):
    """The domains of the required and of the preferred level that the placed pods of a hold are in."""

    required: set[int]
    preferred: set[int]


# What the gang's queue says to so many more pods of each batch: nothing, or no.
Permit = Callable[["Progress", Mapping[int, int]], Refused | None]


class Progress:
    """A gang during a cycle: what is placed, the decisions of this cycle included, and which pods still wait."""

    def __init__(self, gang: Gang, snapshot: Snapshot, permit: Permit | None = None) -> None:
        self.gang, self._snapshot, self._permit = gang, snapshot, permit
        self.present = list(gang.present)
        self.waiting = list(gang.pending)
        self.used = [0] * len(gang.waiting)
        self.pins = [Pins(set(), set()) for _ in gang.holds]
        for leaf, placed in gang.placed.items():
            self._pin(leaf, placed.nodes)

    @property
    def stock(self) -> Stock:
        """What there is, for the choice of children."""
        return Stock(self.gang.tree, self.present, self.waiting)

    def copy(self) -> "Progress":
        """The same, to go on from without consequences."""
        other = Progress.__new__(Progress)
        other.gang, other._snapshot, other._permit = self.gang, self._snapshot, self._permit
        other.present, other.waiting, other.used = list(self.present), list(self.waiting), list(self.used)
        other.pins = [Pins(set(pins.required), set(pins.preferred)) for pins in self.pins]
        return other

    def ahead(self) -> "Progress":
        """The same, to go on from without consequences: its queue is asked for all that was placed on the way."""
        other = self.copy()

        def permit(progress: "Progress", counts: Mapping[int, int]) -> Refused | None:
            taken = (now - before for now, before in zip(progress.used, self.used, strict=True))
            return self.refusal({batch: n for batch, used in enumerate(taken) if (n := used + counts.get(batch, 0))})

        other._permit = permit if self.is_limited else None
        return other

    @property
    def is_limited(self) -> bool:
        """Whether its queue may refuse something."""
        return self._permit is not None

    def within(self, allowed: Callable[[Mapping[int, int]], bool]) -> "Progress":
        """The same, where pods may only be placed in numbers that are allowed."""
        other = self.copy()

        def permit(progress: "Progress", counts: Mapping[int, int]) -> Refused | None:
            refused = self.refusal(counts)
            return refused if refused is not None or allowed(counts) else Refused(NONE, NONE, 0, 0, 0, quota=False)

        other._permit = permit
        return other

    def refusal(self, counts: Mapping[int, int]) -> Refused | None:
        """Why so many more pods of each batch may not be placed, wherever there is room."""
        return self._permit(self, counts) if self._permit is not None else None

    def place(self, batch: int, nodes: Sequence[int]) -> None:
        """The next pods of a batch go to these nodes."""
        self.reserve(batch, nodes)
        self.present[self.gang.waiting[batch].leaf] += len(nodes)

    def reserve(self, batch: int, nodes: Sequence[int]) -> None:
        """Room is set aside for the next pods of a batch: they wait no longer for a place, and are not placed."""
        leaf = self.gang.waiting[batch].leaf
        self.waiting[leaf] -= len(nodes)
        self.used[batch] += len(nodes)
        self._pin(leaf, nodes)

    def _pin(self, leaf: int, nodes: Sequence[int]) -> None:
        for number in self.gang.holds_of.get(leaf, ()):
            hold, pins = self.gang.holds[number], self.pins[number]
            levels = self._snapshot.topologies[hold.topology].levels
            for level, known in ((hold.required, pins.required), (hold.preferred, pins.preferred)):
                if level != NONE:
                    known.update(levels[level].domain_of[list(nodes)].tolist())


class Bounds:
    """The holds of a tree node as bounds: pinned where pods are placed already; drifted ones bar their leaves."""

    def __init__(self, progress: Progress, row: int) -> None:
        self.required: list[Bound] = []
        self.wishes: list[Wish] = []
        self.drift: Drift | None = None
        barred: set[int] = set()
        for number in progress.gang.holds_below(row):
            hold, pins = progress.gang.holds[number], progress.pins[number]
            if hold.required != NONE:
                if len(pins.required) > 1 or NONE in pins.required:
                    domains = tuple(sorted(pins.required))
                    self.drift = self.drift or Drift(hold.row, hold.topology, hold.required, domains)
                    barred.update(hold.leaves)
                self.required.append(_bound(hold, hold.required, next(iter(pins.required), NONE)))
            if hold.preferred > hold.required:
                # One that placed pods have broken already: as few domains as found, theirs first.
                lost = len(pins.preferred) > 1 or NONE in pins.preferred
                pinned = _NOWHERE if lost else next(iter(pins.preferred), NONE)
                self.wishes.append(Wish(number, _bound(hold, hold.preferred, pinned), frozenset(pins.preferred)))
        self.barred = frozenset(barred)


def _bound(hold: Hold, level: int, pinned: int) -> Bound:
    return Bound(hold.row, hold.leaves, hold.topology, level, pinned)


def counts_of(takings: Iterable[tuple[int, Taking]]) -> dict[int, int]:
    """How many pods of each batch are in room that was reserved."""
    found: dict[int, int] = {}
    for batch, taking in takings:
        found[batch] = found.get(batch, 0) + int(taking.counts.sum())
    return found


def whole_again(progress: Progress, reserved: Sequence[tuple[int, Taking]]) -> list[tuple[int, Taking]]:
    """What of the reserved room makes tree nodes whole, from the leaf up to the root: parts of a child that has not its
    minimum then, because it had not when they were moved, are not placed (SPEC §5.4).
    """
    gang, present = progress.gang, list(progress.present)
    for batch, count in counts_of(reserved).items():
        present[gang.waiting[batch].leaf] += count
    nodes, met = gang.tree.nodes, satisfied(gang.tree, present)
    # A parent stands before its children.
    for row, node in enumerate(nodes):
        met[row] = met[row] and (node.parent == NONE or met[node.parent])
    return [(batch, taking) for batch, taking in reserved if met[gang.waiting[batch].leaf]]
