"""Scenes as they are kept: without what only their cycle needed, and what is the same in two of them kept once."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from operator import is_
from typing import Any, overload

import numpy as np

from muster.plan.outcome import Outcome, Outcomes, Plan
from muster.serve.views.gangs import says_the_same
from muster.serve.views.scene import Numbers, Scene
from muster.snapshot.arrays import Snapshot

# What is only in one scene, roughly.
_GANG_BYTES, _POD_BYTES = 3_000, 250
_ARRAYS = ("allocatable", "free", "releasing", "asks", "charges")


class Told(Outcomes):
    """Outcomes that are all known, without the cycle that could tell more of them."""

    def __init__(self, outcomes: Sequence[Outcome], tried: Mapping[int, Outcome]) -> None:
        self._outcomes = tuple(outcomes)
        known = {number: self._outcomes[number] for number in tried}
        super().__init__(len(self._outcomes), known, self._outcomes.__getitem__)

    def __iter__(self) -> Iterator[Outcome]:
        return iter(self._outcomes)

    @overload
    def __getitem__(self, at: int) -> Outcome: ...
    @overload
    def __getitem__(self, at: slice) -> list[Outcome]: ...
    def __getitem__(self, at: int | slice) -> Outcome | list[Outcome]:
        return list(self._outcomes[at]) if isinstance(at, slice) else self._outcomes[at]


def slim(scene: Scene, before: Scene | None, then: Numbers) -> Scene:
    """The scene as it is kept after another one, in which its gangs had the numbers `then`."""
    plan, snapshot = scene.plan, scene.plan.snapshot
    if before is None:
        outcomes, arrays, slots = list(plan.outcomes), dict[str, Any](), scene.slots
    else:
        outcomes, arrays = _outcomes(plan, before.plan, then), _shared(snapshot, before.plan.snapshot)
        slots = before.slots if np.array_equal(scene.slots, before.slots) else scene.slots
    # A copy has nothing of what was found out about it on the way.
    kept = replace(plan, snapshot=replace(snapshot, **arrays), outcomes=Told(outcomes, plan.outcomes.tried))
    return scene._replace(plan=kept, slots=slots)


def _shared(snapshot: Snapshot, known: Snapshot) -> dict[str, Any]:
    pairs = ((name, getattr(snapshot, name), getattr(known, name)) for name in _ARRAYS)
    return {name: old for name, new, old in pairs if np.array_equal(new, old)}


def _outcomes(plan: Plan, known: Plan, then: Numbers) -> list[Outcome]:
    """What came of every gang. One that says what was said before is the one of before."""
    snapshot, old = plan.snapshot, list(known.outcomes)
    # Of the others it depends on nothing but the gang.
    again = {*snapshot.waiting, *snapshot.broken, *plan.outcomes.tried, *(one.gang for one in plan.evictions)}
    lost_then = {one.gang for one in known.evictions}
    if lost_then:
        again.update(number for number, was in enumerate(then) if was in lost_then)
    found = [old[was] if was is not None else plan.outcomes[number] for number, was in enumerate(then)]
    for number in again:
        new, before = plan.outcomes[number], found[number]
        if not (before.proof is new.proof and before.steps == new.steps and says_the_same(before, new)):
            found[number] = new
    return found


def looks_the_same(one: Scene, other: Scene) -> bool:
    """Whether two scenes would make the same frame, as far as that can be told at little cost."""
    here, there = one.plan, other.plan
    return (
        len(here.snapshot.gangs) == len(there.snapshot.gangs)
        and all(map(is_, here.snapshot.gangs, there.snapshot.gangs))
        and here.snapshot.nodes is there.snapshot.nodes
        and here.snapshot.topologies is there.snapshot.topologies
        and here.snapshot.queues is there.snapshot.queues
        and here.queues == there.queues
        and (one.nodes is other.nodes and one.unit == other.unit and one.titles == other.titles)
        and np.array_equal(one.slots, other.slots)
        and np.array_equal(one.free, other.free)
        and (here.placements, here.evictions) == (there.placements, there.evictions)
        # What would be done before is done now.
        and bool(one.decision) == bool(other.decision)
        and (one.flying, one.leaving) == (other.flying, other.leaving)
        and (all(map(is_, here.outcomes, there.outcomes)) or all(map(says_the_same, here.outcomes, there.outcomes)))
    )


def weight(scene: Scene, then: Numbers) -> int:
    """What a scene has that the one before it has not, roughly in bytes."""
    gangs = scene.plan.snapshot.gangs
    new = [gangs[number] for number, was in enumerate(then) if was is None]
    pods = sum(sum(gang.present) + sum(gang.pending) for gang in new)
    arrays = 2 * scene.free.nbytes + scene.plan.snapshot.free.nbytes + 100 * len(gangs)
    return int(arrays + _GANG_BYTES * len(new) + _POD_BYTES * pods)
