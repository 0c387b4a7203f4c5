"""Why something does not fit: certificates by counting, as data that can be checked again."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from muster.api.tree import NONE
from muster.plan.model import Dimension, Model, Table
from muster.plan.nearest import NEAREST, Near
from muster.plan.problem import Bound, Part, Problem, Region

Possible = list[npt.NDArray[np.bool_]]
# Less than any two shares of a need that differ lie apart.
_TIE = 1e-12


class Shortage(NamedTuple):
    """A domain (NONE: the whole cluster) that has fewer slots of one dimension than are asked for."""

    domain: int
    dimension: Dimension
    asked: int
    best: int


class Certificate(NamedTuple):
    """Pods that must share one domain of a level, and what the domains lack that come nearest, the nearest first.

    Without a topology they may go anywhere. `row` is the tree node that they belong to; `pods` are (shape, pods);
    `total` is what the whole cluster has of what the nearest domain lacks. The whole question and the dimensions that
    were counted are kept, so that the proof can be checked again.
    """

    row: int
    topology: int
    level: int
    pods: tuple[tuple[int, int], ...]
    shortages: tuple[Shortage, ...]
    total: int
    pinned: bool
    parts: tuple[Part, ...]
    bounds: tuple[Bound, ...]
    dimensions: tuple[Dimension, ...]
    near: tuple[Near, ...] = ()

    @property
    def pin(self) -> tuple[int, int] | None:
        """The level and domain that placed pods have chosen already, the narrowest around what is asked."""
        held = [one for one in self.bounds if one.topology == self.topology and one.pinned != NONE]
        around = [one for one in held if one.level <= self.level]
        return max((one.level, one.pinned) for one in around) if around else None


class Exhausted(NamedTuple):
    """Every arrangement was tried. `regions` are the tree nodes whose domains were varied."""

    rows: tuple[int, ...]
    steps: int
    near: tuple[Near, ...] = ()


class Drift(NamedTuple):
    """Placed pods below `row` lie in several domains of a required level already, so nothing may be added."""

    row: int
    topology: int
    level: int
    domains: tuple[int, ...]


class Choices(NamedTuple):
    """Several ways to meet the minimum, each refuted by itself, the one that is preferred first.

    `barred` are children that can't be placed even alone, with the proof: no way that needs them was tried.
    """

    refuted: "tuple[Proof, ...]"
    barred: "tuple[tuple[int, Proof], ...]"


class Refused(NamedTuple):
    """A queue (by number) that does not allow `asked` more of a charge: of its limit or quota only `left` is left."""

    queue: int
    charge: int
    asked: int
    left: int
    most: int
    quota: bool


Proof = Certificate | Exhausted | Drift | Choices | Refused


def mentions_queue(proof: Proof | None) -> bool:
    """Whether some way is closed by a queue: then it may open without more room."""
    if isinstance(proof, Choices):
        return any(mentions_queue(one) for one in proof.refuted)
    return isinstance(proof, Refused)


def is_refused(proof: Proof | None) -> bool:
    """Whether nothing but queues stand in the way, whichever way is taken."""
    if isinstance(proof, Choices):
        return all(is_refused(one) for one in proof.refuted)
    return isinstance(proof, Refused)


def certify(model: Model) -> Certificate | Possible:
    """A proof that the problem has no solution, or per region the domains that counting leaves."""
    problem = model.problem
    needs = model.needs.sum(axis=0) if len(model.needs) else np.zeros(len(model.dimensions), dtype=np.int64)
    have = model.slots.sum(axis=1)
    if (needs > have).any():
        found = _certificate(model, 0, range(len(problem.parts)), needs, have[:, None], [NONE])
        return found._replace(row=_row_of(model, found.shortages[0].dimension))
    possible: Possible = []
    for region in problem.regions:
        scale = model.scales[region.bound.topology, region.bound.level]
        asked = _asked(model, problem, region)
        good = asked & (scale.slots >= model.region_needs[region.number][:, None]).all(axis=0)
        if not good.any():
            return _short(model, region, asked)
        possible.append(good)
    return _consistent(model, possible)


def _row_of(model: Model, dimension: Dimension) -> int:
    """The leaf that alone asks for a dimension; the root when several do."""
    asks = model.needs[:, model.dimensions.index(dimension)] > 0
    leaves = {part.leaf for part, asking in zip(model.problem.parts, asks, strict=True) if asking}
    return leaves.pop() if len(leaves) == 1 else 0


def _asked(model: Model, problem: Problem, region: Region) -> npt.NDArray[np.bool_]:
    """The domains that pins leave to a region: its own and those around it."""
    bound = region.bound
    levels = model.topologies[bound.topology].levels
    found = np.ones(len(levels[bound.level].paths), dtype=bool)
    for number in (region.number, *problem.ancestors(region.number)):
        other = problem.regions[number].bound
        if other.pinned == NONE:
            continue
        if other.topology == bound.topology:
            found &= model.topologies[bound.topology].wider(bound.level, other.level) == other.pinned
        else:
            inside = model.topologies[other.topology].levels[other.level].domain_of[model.rows] == other.pinned
            here = levels[bound.level].domain_of[model.rows[inside]]
            reached = np.zeros(len(found), dtype=bool)
            reached[here[here != NONE]] = True
            found &= reached
    return found


def _consistent(model: Model, possible: Possible) -> Certificate | Possible:
    """A domain around is left only if every region inside finds one in it, and the other way round."""
    problem = model.problem
    changed = True
    while changed:
        changed = False
        for region in problem.regions:
            bound = region.bound
            for number in problem.ancestors(region.number):
                outer = problem.regions[number].bound
                if outer.topology != bound.topology:
                    continue
                around = model.topologies[bound.topology].wider(bound.level, outer.level)
                inside = possible[region.number] & possible[number][around]
                reached = np.zeros(len(possible[number]), dtype=bool)
                reached[around[inside]] = True
                both = possible[number] & reached
                if not both.any():
                    asked = _asked(model, problem, region) & possible[number][around]
                    return _short(model, region, asked)
                if (inside != possible[region.number]).any() or (both != possible[number]).any():
                    possible[region.number], possible[number], changed = inside, both, True
    return possible


def _short(model: Model, region: Region, asked: npt.NDArray[np.bool_]) -> Certificate:
    bound = region.bound
    scale = model.scales[bound.topology, bound.level]
    domains = np.flatnonzero(asked)
    needs = model.region_needs[region.number]
    found = _certificate(model, bound.row, region.parts, needs, scale.slots[:, domains], domains.tolist())
    return found._replace(topology=bound.topology, level=bound.level, pinned=_is_pinned(model.problem, region))


def _certificate(
    model: Model, row: int, parts: Sequence[int], needs: Table, have: Table, domains: Sequence[int]
) -> Certificate:
    """What every domain lacks most of, as a share of the need; copies of a shape say it best."""
    problem = model.problem
    lack = (needs[:, None] - have) / np.maximum(needs[:, None], 1)
    # Of what lacks altogether, a shape that no node takes says it best.
    lack += np.array([_TIE * model.is_nowhere(one.shape) for one in model.dimensions])[:, None]
    worst = lack.argmax(axis=0) if len(domains) else np.zeros(0, dtype=np.intp)
    nearest = np.argsort(lack.max(axis=0, initial=0.0), kind="stable")[:NEAREST].tolist()
    shortages = tuple(
        Shortage(domains[at], model.dimensions[worst[at]], int(needs[worst[at]]), int(have[worst[at], at]))
        for at in nearest
    )
    bounds = tuple(region.bound for region in problem.regions)
    pods = _pods(problem, parts)
    dimensions = tuple(model.dimensions)
    total = int(model.slots[dimensions.index(shortages[0].dimension)].sum()) if shortages else 0
    return Certificate(row, NONE, NONE, pods, shortages, total, False, problem.parts, bounds, dimensions)


def _is_pinned(problem: Problem, region: Region) -> bool:
    numbers = (region.number, *problem.ancestors(region.number))
    return any(problem.regions[number].bound.pinned != NONE for number in numbers)


def _pods(problem: Problem, parts: Sequence[int]) -> tuple[tuple[int, int], ...]:
    totals: dict[int, int] = {}
    for part in parts:
        totals[problem.parts[part].shape] = totals.get(problem.parts[part].shape, 0) + problem.parts[part].pods
    return tuple(sorted(totals.items()))
