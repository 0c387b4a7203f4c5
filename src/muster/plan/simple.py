"""Questions about pods of one shape in one domain: a sum answers them. Most gangs ask nothing else."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from muster.api.tree import NONE
from muster.plan.layout import over_nodes, slice_rows
from muster.plan.ledger import Ledger, Taking
from muster.plan.model import Dimension
from muster.plan.nearest import NEAREST
from muster.plan.problem import Bound, Part
from muster.plan.proof import Certificate, Proof, Shortage
from muster.snapshot.domains import Domains


class Answer(NamedTuple):
    """Where every part goes (the ledger has taken it), or the proof that there is no way, or neither."""

    takings: tuple[Taking, ...] | None = None
    proof: Proof | None = None

    @property
    def placed(self) -> bool:
        """Whether all of it fits."""
        return self.takings is not None


def is_simple(bounds: Sequence[Bound]) -> bool:
    """Whether all bounds of one leaf come to one: then the narrowest decides."""
    return len(bounds) < 2 or all(bound.topology == bounds[0].topology for bound in bounds[1:])


def one_shape(
    part: Part, bounds: Sequence[Bound], ledger: Ledger, topologies: Sequence[Domains], strategy: str
) -> Answer:
    """Pods of one shape, anywhere or in one domain of every bound. Takes the room in the ledger when there is a way."""
    return _in_one_domain(part, bounds, ledger, topologies, strategy) if bounds else _anywhere(part, ledger, strategy)


def _anywhere(part: Part, ledger: Ledger, strategy: str) -> Answer:
    """Enough copies fit, or they do not."""
    fits = ledger.fits(part.shape)
    counts = over_nodes(fits, part.pods, strategy, ledger.liked.get(part.shape))
    if counts is None:
        dimension = Dimension(part.shape, NONE, 0)
        shortage = Shortage(NONE, dimension, part.pods, int(fits.sum()))
        found = (part.leaf, NONE, NONE, ((part.shape, part.pods),), (shortage,), shortage.best, False)
        return Answer(proof=Certificate(*found, (part,), (), (dimension,)))
    some = np.flatnonzero(counts)
    return _taken(Taking(part.shape, some, counts[some]), ledger)


def _taken(taking: Taking, ledger: Ledger) -> Answer:
    ledger.take(taking)
    return Answer((taking,))


def _in_one_domain(
    part: Part, bounds: Sequence[Bound], ledger: Ledger, topologies: Sequence[Domains], strategy: str
) -> Answer:
    """The tightest domain of the narrowest level that has enough."""
    bound = max(bounds, key=lambda bound: bound.level)
    domains = topologies[bound.topology]
    rooms = ledger.rooms(part.shape, bound.topology, bound.level, domains)
    asked = np.arange(len(rooms))
    pinned = [other for other in bounds if other.pinned != NONE]
    for other in pinned:
        asked = asked[domains.wider(bound.level, other.level)[asked] == other.pinned]
    enough = asked[rooms[asked] >= part.pods]
    if not len(enough):
        dimension = Dimension(part.shape, NONE, 0)
        nearest = asked[np.argsort(-rooms[asked], kind="stable")[:NEAREST]]
        shortages = tuple(Shortage(int(domain), dimension, part.pods, int(rooms[domain])) for domain in nearest)
        total, where = int(ledger.fits(part.shape).sum()), (bound.row, bound.topology, bound.level)
        found = (*where, ((part.shape, part.pods),), shortages, total, bool(pinned))
        return Answer(proof=Certificate(*found, (part,), tuple(bounds), (dimension,)))
    best = int(enough[np.argmin(rooms[enough])])
    rows = domains.nodes_of(bound.level, best)
    liked = ledger.liked.get(part.shape)
    counts = over_nodes(ledger.fits(part.shape)[rows], part.pods, strategy, None if liked is None else liked[rows])
    assert counts is not None
    return _taken(Taking(part.shape, *slice_rows(rows.astype(np.intp), counts)), ledger)
