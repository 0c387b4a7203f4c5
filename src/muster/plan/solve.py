"""Answers one question: do these pods fit, held together like this? In the order of cost.

Counting first, which often proves that they do not. Then the search: a few short runs in different orders, beginning
with the largest region and the tightest domain, which find nearly everything that there is; then one that leaves
nothing out, within a budget of steps. Placed, infeasible with a proof, or undecided: never a guess.
"""

from collections.abc import Iterator, Sequence

from muster.api.tree import NONE
from muster.plan.budget import Budget
from muster.plan.ledger import Ledger, Taking
from muster.plan.model import Model
from muster.plan.nearest import nearest
from muster.plan.nested import Nested
from muster.plan.packing import Packer
from muster.plan.problem import Problem
from muster.plan.proof import Certificate, Exhausted, certify
from muster.plan.search import ORDERS, Order, Search
from muster.plan.simple import Answer, is_simple, one_shape
from muster.snapshot.domains import Domains

# Steps of a short run, per region and at least.
_SHORT_RUN, _SHORTEST_RUN = 3, 30
# Steps of the first thorough run; the last one only ends with the budget.
_SMALL_RUN, _UNLIMITED = 1_500, 2**62
# Steps that putting pods on nodes may cost each time, in these runs.
_LITTLE, _MUCH = 200, 8_000


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
        bounds = [region.bound for region in problem.regions]
        if is_simple(bounds):
            return one_shape(problem.parts[0], bounds, ledger, topologies, strategy)
    # A question with many unlike parts costs more before anything is searched.
    shapes = len({part.shape for part in problem.parts})
    budget.spend(len(problem.parts) * (8 + shapes) // 8)
    model = Model(problem, ledger, topologies)
    possible = certify(model)
    if isinstance(possible, Certificate):
        return Answer(proof=possible._replace(near=nearest(model) if explain else ()))
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
