"""Crowds: more running gangs than every choice could be looked at, and several that ask for the same (SPEC §8).

Here the heuristic decides, pods on a node are bundled, and gangs of one pod are served many at a time.
"""

import os
from collections import Counter
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import Phase, find, given, note, settings
from hypothesis import strategies as st

from muster.plan.cycle import Policy, schedule
from muster.plan.evictor import Evictor
from muster.plan.lone import Lone
from muster.plan.outcome import ACTIONS, Action, Eviction, Plan, UnitKind
from muster.sim.objects import BEGIN, GPU, Objects
from muster.sim.scenario import Scenario
from muster.snapshot.build import build
from oracle.engine import world_of
from oracle.instances import one_in
from scenarios.story import Story

EXAMPLES = int(os.environ.get("MUSTER_TEST_EXAMPLES", "200"))
Things = dict[str, Any]


def some(share: float) -> settings:
    """A share of the usual number of examples."""
    return settings(max_examples=max(1, int(EXAMPLES * share)))


@st.composite
def crowds(draw: st.DrawFn, *, lone: bool | None = None) -> Things:
    """Nodes full of gangs of one pod and a few of two, and two to four that wait and ask for the same."""
    names = [f"n{index}" for index in range(draw(st.integers(4, 8)))]
    used = dict.fromkeys(names, 0)
    queues = draw(st.sampled_from([{}, {"a": {}}, {"a": {"quota": 9}, "b": {"quota": 0}}]))
    gangs: Things = {}
    history: Things = {}
    pods: list[Things] = []
    mixed, moves = draw(st.booleans()), one_in(draw, 5)
    for number in range(draw(st.integers(13, 20))):
        name = f"v{number:02}"
        twice = one_in(draw, 6)
        gangs[name] = {"minMember": draw(st.integers(1, 2)) if twice else 1}
        if queues:
            gangs[name]["queue"] = draw(st.sampled_from(sorted(queues)))
        if priority := draw(st.sampled_from(["", "", "train"])):
            gangs[name]["priorityClassName"] = priority
        history[name] = {"created": -draw(st.integers(0, 9))}
        size = draw(st.sampled_from([1, 1, 2, 3])) if mixed else 1
        for at in range(2 if twice else 1):
            where = draw(st.sampled_from(names))
            used[where] += size
            pod = {"gang": name, "name": f"{name}-{at}", "gpus": size, "on": where, "controlled": moves}
            pods.append({**pod, **({"labels": {"app": "web"}} if one_in(draw, 4) else {})})
    size = draw(st.sampled_from([1, 2, 2, 3]))
    count = 1 if lone or (lone is None and draw(st.booleans())) else 2
    for name in ["g", "h", "i", "j"][: draw(st.integers(2, 4))]:
        gangs[name] = {
            "minMember": count,
            "priorityClassName": "build-preemptible",
            **({"queue": "a"} if queues else {}),
        }
        pods.append({"gang": name, "name": name, "count": count, "gpus": size})
    return {
        "nodes": [{"name": name, "gpus": used[name] + draw(st.sampled_from([0, 0, 0, 1]))} for name in names],
        "queues": queues,
        "gangs": gangs,
        "history": history,
        "pods": pods,
        "budgets": {"web": {"selects": {"app": "web"}, "allowed": draw(st.integers(0, 2))}} if one_in(draw, 4) else {},
    }


def shown(objects: Things) -> str:
    """The instance as a scenario file."""
    header = {"claim": "Found by hypothesis", "why": "w", **{key: value for key, value in objects.items() if value}}
    return yaml.safe_dump({**header, "steps": [{"expect": {}}]}, sort_keys=False, default_flow_style=None, width=140)


def planned(objects: Things, policy: Policy | None = None) -> Plan:
    """The plan of one cycle."""
    documents = msgspec.convert(objects, Objects).all()
    return schedule(build(world_of(documents), int(BEGIN.timestamp()) * 10**9), policy)[0]


def one_by_one(objects: Things, policy: Policy) -> Plan:
    """The same when every gang of one pod is tried alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Lone, "serve", lambda self, turn, line, alone: alone(turn.gang))
        return planned(objects, policy)


@some(0.3)
@given(crowds())
def test_nobody_is_wronged(objects):
    """Invariants 5, 6 and 7 of SPEC §11, by an oracle that reads the documents for itself."""
    note(shown(objects))
    scenario = msgspec.convert({"claim": "c", "why": "w", **objects, "steps": [{"expect": {}}]}, Scenario)
    Story(scenario).play()


def room(plan: Plan) -> tuple[list[int], int]:
    """GPUs that are free on every node, and what a waiting pod asks for; all that wait ask for the same."""
    snapshot = plan.snapshot
    column = snapshot.resources.index(GPU)
    (ask,) = {int(snapshot.asks[batch.shape, column]) for gang in snapshot.gangs for batch in gang.waiting}
    return [int(free) for free in snapshot.free[:, column]], ask


def freed(plan: Plan, one: Eviction) -> tuple[int, int]:
    """Where a pod leaves, and how many GPUs."""
    placed = plan.snapshot.gangs[one.gang].placed[one.leaf]
    return placed.nodes[one.pod], int(plan.snapshot.asks[placed.shapes[one.pod], plan.snapshot.resources.index(GPU)])


def unit_of(one: Eviction) -> tuple[int, ...]:
    """What goes together."""
    return (
        (one.gang, one.kind, one.row) if one.kind >= UnitKind.SURPLUS_CHILD else (one.gang, one.kind, one.leaf, one.pod)
    )


@some(0.6)
@given(crowds())
def test_every_victim_is_needed(objects):
    """In the order of the plan: without one of the units, those whom it makes room for do not fit.

    All that wait ask for GPUs, and each pod for as many: how many fit is a sum over the nodes.
    """
    note(shown(objects))
    plan = planned(objects, Policy(actions=frozenset(ACTIONS) - {Action.CONSOLIDATE}))
    free, ask = room(plan)
    takers = {one.beneficiary for one in plan.evictions}
    waiting = list(plan.placements)
    while waiting:
        first = waiting.pop(0)
        together = [first]
        while first.gang in takers and waiting and waiting[0].gang not in takers:
            together.append(waiting.pop(0))
        mine = [one for one in plan.evictions if one.beneficiary == first.gang]
        pods = sum(len(one.nodes) for one in together)
        for unit in {unit_of(one) for one in mine}:
            left = Counter(dict(enumerate(free)))
            for one in mine:
                node, amount = freed(plan, one)
                left[node] += amount if unit_of(one) != unit else 0
            assert sum(max(0, amount) // ask for amount in left.values()) < pods, f"{unit} could stay"
        for one in mine:
            node, amount = freed(plan, one)
            free[node] += amount
        for one in together:
            for node in one.nodes:
                free[node] -= ask
                assert free[node] >= 0


@some(0.4)
@given(crowds(lone=True))
def test_many_at_a_time_cost_no_more_than_one_by_one(objects):
    """As many are served, and no more pods go for them."""
    note(shown(objects))
    policy = Policy(actions=frozenset(ACTIONS) - {Action.CONSOLIDATE})
    many, single = planned(objects, policy), one_by_one(objects, policy)
    assert len(many.placements) >= len(single.placements)
    if len(many.placements) == len(single.placements):
        assert len(many.evictions) <= len(single.evictions)


@pytest.mark.parametrize(
    ("kind", "reached"),
    [
        pytest.param(True, lambda plan, many: many and plan.evictions, id="many at a time"),
        pytest.param(False, lambda plan, many: any(not one.exact for one in plan.evictions), id="the heuristic"),
        pytest.param(
            False, lambda plan, many: any(one.kind < UnitKind.WHOLE_GANG for one in plan.evictions), id="surplus"
        ),
        pytest.param(
            True, lambda plan, many: any(one.action == Action.RECLAIM for one in plan.evictions), id="reclaim"
        ),
        pytest.param(True, lambda plan, many: many and len(plan.evictions) > len(plan.placements), id="bundles of two"),
    ],
)
def test_the_crowds_are_large_enough(kind, reached):
    """What these tests are about does happen in them."""

    def is_reached(objects):
        served = []
        with pytest.MonkeyPatch.context() as patch:
            real = Evictor.find_many
            patch.setattr(Evictor, "find_many", lambda *args: served.append(real(*args)) or served[-1])
            plan = planned(objects)
        return bool(reached(plan, any(served)))

    find(crowds(lone=kind), is_reached, settings=settings(max_examples=300, phases=[Phase.generate]))
