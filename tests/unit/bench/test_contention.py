"""The clusters in which somebody must give way are what the benchmark says they are, and its own books are right."""

import pytest
from bench import contention, queues
from bench.contention import NOW, NOW_NS, Broken, Coming, Full
from bench.engine import Fresh
from bench.measure import Case, Run, measure
from bench.queues import Wanted, came_of, wrong_with
from bench.workloads import GPU

from muster.api.queue import UNLIMITED, Queue
from muster.plan.cycle import Policy, schedule
from muster.plan.outcome import Action, Eviction, Placement, Plan


def free_gpus(snapshot) -> list[int]:
    return snapshot.free[:, snapshot.resources.index(GPU)].tolist()


def queues_of(scene) -> dict[str, Queue]:
    return {found.metadata.name: found for found in scene.objects if isinstance(found, Queue)}


@pytest.mark.parametrize(
    ("full", "coming", "runs", "free"),
    [
        (Full(10), Coming(1, 5, 8), 80, 0),
        (Full(10), Coming(80, 1, 1), 80, 0),
        (Full(10, victim_gpus=8), Coming(1, 10, 8), 10, 0),
        (Full(10, spare=5, one_queue=True), Coming(4, 2, 6), 30, 5),
        (Full(12, racks=3), Coming(1, 2, 8, "rack"), 96, 0),
    ],
    ids=["large", "many", "eight", "consolidation", "racks"],
)
def test_a_full_cluster_is_full(full, coming, runs, free):
    scene = contention.contended(full, coming)
    snapshot = Fresh(scene, NOW_NS).snapshot()
    assert (scene.gangs, scene.pods) == (coming.gangs, coming.gangs * coming.pods)
    assert len(snapshot.gangs) == runs + coming.gangs
    assert free_gpus(snapshot) == [free] * full.nodes
    assert all(gang.ready[0] and not gang.held for gang in snapshot.gangs)
    assert all(gang.created_ns < NOW_NS for gang in snapshot.gangs)
    assert len(snapshot.topologies) == bool(full.racks)


def test_victims_have_a_controller_and_the_queues_of_the_peers():
    scene = contention.contended(Full(10, fill_quota=1), Coming(1, 5, 8))
    found = queues_of(scene)
    assert found["fill"].spec.resources.gpu.quota == 1
    assert (found["fill"].spec.resources.gpu.over_quota_weight, found["fill"].spec.resources.gpu.limit) == (0, -1)
    assert found["team"].spec.resources.gpu.quota == 80
    assert found["all"].spec.resources.gpu.quota == UNLIMITED
    owned = [one for one in scene.objects if one.metadata.name.startswith("fill-0") and one.metadata.owner_references]
    assert len(owned) == 80


def test_half_of_the_queues_has_everything():
    scene = contention.departments(10)
    snapshot = Fresh(scene, NOW_NS).snapshot()
    assert scene.gangs == 40
    assert free_gpus(snapshot) == [0] * 10
    running = [gang.queue for gang in snapshot.gangs if gang.placed]
    assert {running.count(name) for name in set(running)} == {8}
    assert len({gang.queue for gang in snapshot.gangs}) == 20
    assert {found.spec.resources.gpu.quota for found in queues_of(scene).values()} == {16, 4}


def test_who_waits_has_the_higher_priority():
    snapshot = Fresh(contention.priorities(2), NOW_NS).snapshot()
    assert {gang.priority for gang in snapshot.gangs if gang.placed} == {50}
    assert {gang.priority for gang in snapshot.gangs if gang.waiting} == {75}
    assert {gang.preemptibility for gang in snapshot.gangs} == {"preemptible"}


def test_a_thousand_queues():
    found = {queue.metadata.name: queue for queue in contention.thousand_queues(4000)}
    assert len(found) == 1000
    assert set(contention.leaf_queues()) <= set(found)
    assert len(set(contention.leaf_queues())) == 900
    assert all(queue.spec.parent_queue in found for queue in found.values() if queue.spec.parent_queue)


def test_every_tenth_gang_is_broken():
    broken = Broken(40)
    snapshot = Fresh(contention.stale(broken), NOW_NS).snapshot()
    assert sum(not gang.satisfied[0] for gang in snapshot.gangs) == 4
    assert not snapshot.waiting
    assert free_gpus(snapshot).count(1) == 4


def plan_of(evictions, placements) -> Plan:
    """A plan of a cluster of two nodes for a gang of one pod of 8 GPUs: gangs 0 to 15 run, job i on node i mod 2."""
    snapshot = Fresh(contention.contended(Full(2), Coming(1, 1, 8)), NOW_NS).snapshot()
    plan, _ = schedule(snapshot, Policy(actions=frozenset({Action.ALLOCATE})))
    return Plan(snapshot, plan.outcomes, tuple(placements), tuple(evictions))


def test_the_books_find_what_is_wrong():
    on_first = [Eviction(gang, 0, 0, Action.RECLAIM, 16) for gang in range(0, 16, 2)]
    there = Placement(16, 0, (0,), (0,), True)
    assert wrong_with(plan_of(on_first, [there])) == []
    assert wrong_with(plan_of(on_first[1:], [there])) == ["too much on n0000"]
    assert wrong_with(plan_of([*on_first, on_first[0]], [there]))[0].endswith("goes twice")
    assert wrong_with(plan_of(on_first, [])) == ["somebody goes for nobody"]
    assert "too much on n0001" in wrong_with(plan_of([one._replace(to=1) for one in on_first], [there]))
    with pytest.raises(AssertionError, match=r"8 evicted.*wanted evicted 7"):
        came_of(plan_of(on_first, [there]), Wanted(evicted=7, refused=None))
    with pytest.raises(AssertionError, match="by"):
        came_of(plan_of(on_first, [there]), Wanted(0, 1, 8, 0, None, Action.PREEMPT))
    assert came_of(plan_of(on_first, [there]), Wanted(0, 1, 8, 0, None, Action.RECLAIM)).startswith("1 nominated")


def test_what_was_decided_is_carried_out():
    fresh = Fresh(contention.contended(Full(2), Coming(1, 1, 8)), NOW_NS)
    on_first = [Eviction(gang, 0, 0, Action.RECLAIM, 16) for gang in range(0, 16, 2)]
    plan = plan_of(on_first, [Placement(16, 0, (0,), (0,), True)])
    contention.carry_out(fresh.world, plan)
    snapshot = fresh.snapshot()
    assert snapshot.releasing[:, snapshot.resources.index(GPU)].tolist() == [8, 0]
    waits = snapshot.gangs[16]
    assert waits.nominated
    assert waits.nominated_since_ns == contention.ns(NOW)


def test_a_wrong_result_meets_no_target():
    def wrong(_):
        raise AssertionError("2 where 3 belong")

    row = measure(Case("nothing", lambda: Run(lambda _: None, says=wrong), target_s=1.0), 1)
    assert row.met is False
    assert row.says == "WRONG: 2 where 3 belong"


def test_every_measurement_has_its_own_name():
    names = [case.what for case in queues.cases()]
    assert len(set(names)) == len(names)
