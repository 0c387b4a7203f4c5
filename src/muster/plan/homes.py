"""New places for pods that are moved: every pod of every unit, as its gang's holds allow."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from muster.plan.attempt import Engine
from muster.plan.budget import Budget
from muster.plan.ledger import Taking
from muster.plan.problem import Bound, Part, Problem
from muster.plan.progress import Bounds, Progress
from muster.plan.units import Numbers, Spot, Table, without
from muster.snapshot.arrays import Gang, Snapshot

# Per moved pod (gang, leaf, place in the leaf): the node that is kept for its successor.
Homes = dict[tuple[int, int, int], int]

_STEPS = 2_000


def rehome(engine: Engine, table: Table, units: Collection[int]) -> Homes | None:
    """Places everything that the units hold somewhere else, in the engine's ledger; None when something finds none."""
    gangs = engine.snapshot.gangs
    lone: dict[int, list[tuple[int, int, int]]] = {}
    spots: dict[int, set[Spot]] = {}
    for number in units:
        gang = table[number].gang
        for leaf, at in table.spots(number):
            if table.alone[number] and not gangs[gang].holds:
                lone.setdefault(gangs[gang].placed[leaf].shapes[at], []).append((gang, leaf, at))
            else:
                spots.setdefault(gang, set()).add((leaf, at))
    homes: Homes = {}
    for gang, moved in sorted(spots.items()):
        if not _place_gang(engine, gang, gangs[gang], moved, table.gone.get(gang, set()), homes):
            return None
    for shape, pods in sorted(lone.items()):
        answer = engine.place_all(Problem([Part(0, shape, len(pods))], ()), Budget(_STEPS))
        if answer is None:
            return None
        homes.update(zip(pods, answer[0].pods, strict=True))
    return homes


def settled(snapshot: Snapshot, table: Table, units: Numbers) -> Numbers:
    """Those of the units that could come back to where they are: no domain, and nothing about a node, is against it.

    If some of them can be moved then all can, since the others find their old places.
    """
    meant, stays = np.zeros((2, len(table)), dtype=bool)
    meant[units] = stays[units] = True
    rows = np.flatnonzero(meant[table.unit] & table.there)
    unit, node, shape = table.unit[rows], table.node[rows], table.shape[rows]
    for one in np.unique(shape).tolist():
        stays[unit[(shape == one) & ~snapshot.allowed[one][node]]] = False
    apart = [gang for gang in np.unique(table.gang[units]).tolist() if table.is_apart(gang)]
    return units[stays[units] & ~np.isin(table.gang[units], apart)]


class Together(NamedTuple):
    """Where pods go, and the homes of those who are moved for them; or whether it is proven that there is no way."""

    takings: tuple[Taking, ...] | None
    homes: Homes
    is_refuted: bool


def together(
    engine: Engine, table: Table, units: Collection[int], parts: Sequence[Part], bounds: Sequence[Bound]
) -> Together:
    """Places some pods and everything that the units hold as one question, which leaves nothing out.

    For when those who come first took the only places of those who come after.
    """
    gangs = engine.snapshot.gangs
    every, held = list(parts), list(bounds)
    places: list[list[tuple[int, int, int]]] = []
    spots: dict[int, set[Spot]] = {}
    for number in units:
        spots.setdefault(int(table.gang[number]), set()).update(table.spots(number))
    leaves = [*(part.leaf for part in parts), *(leaf for bound in bounds for leaf in bound.leaves)]
    apart = 1 + max(leaves, default=0)
    for gang, moved in sorted(spots.items()):
        left = Progress(without(gangs[gang], {*moved, *table.gone.get(gang, ())}), engine.snapshot)
        for (leaf, shape), found in _by_shape(gangs[gang], moved).items():
            every.append(Part(apart + leaf, shape, len(found)))
            places.append([(gang, *spot) for spot in found])
        around = Bounds(left, 0)
        if any(leaf in around.barred for leaf, _ in moved):
            return Together(None, {}, is_refuted=False)
        for bound in around.required:
            held.append(bound._replace(leaves=tuple(apart + leaf for leaf in bound.leaves)))
        # Leaves of different gangs are different leaves.
        apart += len(gangs[gang].tree.nodes)
    answer = engine.solve(Problem(every, held), Budget(_STEPS))
    if answer.takings is None:
        return Together(None, {}, is_refuted=answer.proof is not None)
    homes: Homes = {}
    for pods, taking in zip(places, answer.takings[len(parts) :], strict=True):
        homes.update(zip(pods, taking.pods, strict=True))
    return Together(answer.takings[: len(parts)], homes, is_refuted=False)


def _by_shape(gang: Gang, spots: Collection[Spot]) -> dict[tuple[int, int], list[Spot]]:
    found: dict[tuple[int, int], list[Spot]] = {}
    for leaf, at in sorted(spots):
        found.setdefault((leaf, gang.placed[leaf].shapes[at]), []).append((leaf, at))
    return found


def _place_gang(
    engine: Engine, number: int, gang: Gang, moved: Collection[Spot], gone: Collection[Spot], homes: Homes
) -> bool:
    by_shape = _by_shape(gang, moved)
    progress = Progress(without(gang, {*moved, *gone}), engine.snapshot)
    parts = [Part(leaf, shape, len(spots)) for (leaf, shape), spots in by_shape.items()]
    bounds = Bounds(progress, 0)
    # Where placed pods are apart already, nothing is added (SPEC §5.1).
    drifted = any(part.leaf in bounds.barred for part in parts)
    answer = None if drifted else engine.place_all(Problem(parts, bounds.required), Budget(_STEPS))
    if answer is None:
        return False
    for spots, taking in zip(by_shape.values(), answer, strict=True):
        homes.update(zip(((number, *spot) for spot in spots), taking.pods, strict=True))
    return True
