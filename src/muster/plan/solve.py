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
from muster.plan.proof import Certificate, Exhausted, Possible, certify
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
    return _Hard(model, possible, strategy, budget).answer(explain=explain)


class _Hard:
    """A question that counting does not settle."""

    def __init__(self, model: Model, possible: Possible, strategy: str, budget: Budget) -> None:
        self._model, self._possible, self._budget = model, possible, budget
        self._regions = model.problem.regions
        self._packer = Packer(model, strategy)
        self._taken: tuple[Taking, ...] = ()

    def answer(self, *, explain: bool) -> Answer:
        """Goes through the stages until one of them settles it."""
        before = self._budget.spent
        exact = self._model.exact
        search = Search(self._model, self._possible, self._fill, None if exact else self._packable)
        one_topology = len({topology for topology, _ in self._model.scales}) == 1
        for stage in _stages(len(self._regions), one_topology=one_topology):
            if stage is None:
                found = Nested(self._model, self._possible, None if exact else self._holds, self._budget).run()
                placed, refuted = isinstance(found, list) and bool(self._fill(found, _MUCH)), found is False
            else:
                order, limit, effort = stage
                placed = search.run(order, self._budget, limit, effort) is not None
                refuted = effort > 0 and not search.unknown
            if placed:
                return Answer(self._taken)
            if refuted:
                rows = tuple(sorted({region.bound.row for region in self._regions}))
                near = nearest(self._model) if explain else ()
                return Answer(proof=Exhausted(rows, self._budget.spent - before, near))
            if self._budget.empty:
                break
        return Answer()

    def _fill(self, assigned: Sequence[int], effort: int) -> bool | None:
        """Whether the pods find nodes in these domains; then they are taken."""
        found = self._packer.pack(assigned, self._budget, effort)
        if isinstance(found, list):
            self._taken = tuple(found)
            return True
        return found

    def _packable(self, assigned: Sequence[int], regions: Sequence[int]) -> bool:
        """Whether what these regions hold directly may fit where they are; False is certain."""
        parts = [part for region in regions for part in self._regions[region].own]
        return self._packer.packable(parts, assigned, self._budget)

    def _holds(self, regions: Sequence[int], domain: int) -> bool:
        """The same for regions that share a domain."""
        here = set(regions)
        return self._packable([domain if region.number in here else NONE for region in self._regions], regions)


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
