"""Answers one question: do these pods fit, held together like this? In the order of cost.

Counting first, which often proves that they do not. Then the search: a few short runs in different orders, beginning
with the largest region and the tightest domain, which find nearly everything that there is; then one that leaves
nothing out, within a budget of steps. Placed, infeasible with a proof, or undecided: never a guess.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from muster.api.tree import NONE
from muster.plan.budget import Budget
from muster.plan.layout import over_nodes, slice_rows
from muster.plan.ledger import Ledger, Taking
from muster.plan.model import Dimension, Model
from muster.plan.nearest import NEAREST, nearest
from muster.plan.nested import Nested
from muster.plan.packing import Packer
from muster.plan.problem import Problem
from muster.plan.proof import Certificate, Exhausted, Proof, Shortage, certify
from muster.plan.search import ORDERS, Order, Search
from muster.snapshot.domains import Domains

# Steps of a short run, per region and at least.
_SHORT_RUN, _SHORTEST_RUN = 3, 30
# Steps of the first thorough run; the last one only ends with the budget.
_SMALL_RUN, _UNLIMITED = 1_500, 2**62
# Steps that putting pods on nodes may cost each time, in these runs.
_LITTLE, _MUCH = 200, 8_000


class Answer(NamedTuple):
    """Where every part goes (the ledger has taken it), or the proof that there is no way, or neither."""

    takings: tuple[Taking, ...] | None = None
    proof: Proof | None = None

    @property
    def placed(self) -> bool:
        """Whether all of it fits."""
        return self.takings is not None


def solve(
    problem: Problem,
    ledger: Ledger,
    topologies: Sequence[Domains],
    strategy: str,
    budget: Budget,
    *,
    explain: bool = False,
) -> Answer:
    """Takes the room in the ledger when there is a way; leaves the ledger as it was when not.

    With `explain`, a proof also tells where it comes nearest.
    """
    if not problem.parts:
        return Answer(())
    budget.spend()
    if len(problem.parts) == 1 and problem.parts[0].cluster is None:
        if not problem.regions:
            return _anywhere(problem, ledger, strategy)
        if len({region.bound.topology for region in problem.regions}) == 1:
            return _in_one_domain(problem, ledger, topologies, strategy)
    model = Model(problem, ledger, topologies)
    possible = certify(model)
    if isinstance(possible, Certificate):
        return Answer(proof=possible._replace(near=nearest(model) if explain and possible.topology != NONE else ()))
    packer = Packer(model, strategy)
    taken: list[Taking] = []

    def fill(assigned: Sequence[int], effort: int) -> bool | None:
        found = packer.pack(assigned, budget, effort)
        if isinstance(found, list):
            taken.extend(found)
            return True
        return found

    def check(assigned: Sequence[int], regions: Sequence[int]) -> bool:
        return packer.packable([part for region in regions for part in problem.regions[region].own], assigned, budget)

    def holds(regions: Sequence[int], domain: int) -> bool:
        return check([domain if region.number in regions else NONE for region in problem.regions], regions)

    rows = tuple(sorted({region.bound.row for region in problem.regions}))
    before = budget.spent
    search = Search(model, possible, fill, None if model.exact else check)
    for stage in _stages(len(problem.regions), one_topology=len({topology for topology, _ in model.scales}) == 1):
        if stage is None:
            found = Nested(model, possible, None if model.exact else holds, budget).run()
            placed, refuted = isinstance(found, list) and bool(fill(found, _MUCH)), found is False
        else:
            order, limit, effort = stage
            placed = search.run(order, budget, limit, effort) is not None
            refuted = effort > 0 and not search.unknown
        if placed:
            return Answer(tuple(taken))
        if refuted:
            return Answer(proof=Exhausted(rows, budget.spent - before, nearest(model) if explain else ()))
        if budget.empty:
            break
    return Answer()


def _stages(regions: int, *, one_topology: bool) -> Iterator[tuple[Order, int, int] | None]:
    """What is tried, one after the other: (order, steps, effort), or None for the nested search."""
    short = max(_SHORTEST_RUN, _SHORT_RUN * regions)
    if regions:
        yield ORDERS[0], short, 0
    if regions and one_topology:
        yield None
    # Small questions are settled here, and need no luck.
    yield ORDERS[0], _SMALL_RUN, _LITTLE
    for order in ORDERS[1:] if regions else ():
        yield order, short, 0
    yield ORDERS[0], _UNLIMITED, _MUCH


def _anywhere(problem: Problem, ledger: Ledger, strategy: str) -> Answer:
    """One shape, no bounds: enough copies fit, or they do not."""
    (part,) = problem.parts
    fits = ledger.fits(part.shape)
    counts = over_nodes(fits, part.pods, strategy, ledger.liked.get(part.shape))
    if counts is None:
        dimension = Dimension(part.shape, NONE, 0)
        shortage = Shortage(NONE, dimension, part.pods, int(fits.sum()))
        pods = ((part.shape, part.pods),)
        found = (part.leaf, NONE, NONE, pods, (shortage,), shortage.best, False)
        return Answer(proof=Certificate(*found, problem.parts, (), (dimension,)))
    some = np.flatnonzero(counts)
    taking = Taking(part.shape, some, counts[some])
    ledger.take(taking)
    return Answer((taking,))


def _in_one_domain(problem: Problem, ledger: Ledger, topologies: Sequence[Domains], strategy: str) -> Answer:
    """One shape in one domain of the narrowest level: the tightest that has enough."""
    (part,) = problem.parts
    bound = problem.regions[-1].bound
    domains = topologies[bound.topology]
    level = domains.levels[bound.level]
    fits = ledger.fits(part.shape)
    sums = np.zeros(len(fits) + 1, dtype=np.int64)
    np.cumsum(fits[domains.order], out=sums[1:])
    rooms = sums[level.stop] - sums[level.start]
    pinned = False
    asked = np.arange(len(rooms))
    for region in problem.regions:
        if region.bound.pinned != NONE:
            pinned = True
            around = asked.astype(np.int32)
            for at in range(bound.level, region.bound.level, -1):
                around = domains.levels[at].parent[around]
            asked = asked[around == region.bound.pinned]
    enough = asked[rooms[asked] >= part.pods]
    if not len(enough):
        dimension = Dimension(part.shape, NONE, 0)
        nearest = asked[np.argsort(-rooms[asked], kind="stable")[:NEAREST]]
        shortages = tuple(Shortage(int(domain), dimension, part.pods, int(rooms[domain])) for domain in nearest)
        pods, bounds = ((part.shape, part.pods),), tuple(region.bound for region in problem.regions)
        total, where = int(fits.sum()), (bound.row, bound.topology, bound.level)
        certificate = Certificate(*where, pods, shortages, total, pinned, problem.parts, bounds, (dimension,))
        return Answer(proof=certificate)
    best = int(enough[np.argmin(rooms[enough])])
    rows = domains.nodes_of(bound.level, best).astype(np.intp)
    liked = ledger.liked.get(part.shape)
    counts = over_nodes(fits[rows], part.pods, strategy, None if liked is None else liked[rows])
    assert counts is not None
    taking = Taking(part.shape, *slice_rows(rows, counts))
    ledger.take(taking)
    return Answer((taking,))
