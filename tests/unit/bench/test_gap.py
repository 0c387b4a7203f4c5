"""Brute force knows the best victims: the cases that the issue works out by hand, and the rules one by one."""

import pytest
from bench import gap
from bench.engine import world_of
from bench.exhaustive import (
    LEFTOVER,
    NODES,
    SURPLUS_CHILD,
    SURPLUS_POD,
    WHOLE_GANG,
    Instance,
    Leaf,
    Runs,
    best,
    judged,
    legal,
    units,
)

from muster.api.podgroup import NON_PREEMPTIBLE, PREEMPTIBLE, SEMI_PREEMPTIBLE
from muster.snapshot.build import build


def runs(*leaves: Leaf, name="runs-00", needed=1, how=PREEMPTIBLE, priority=10, made=1, queue="team") -> Runs:
    return Runs(name, queue, priority, made, how, leaves, needed)


def leaf(pods: int, minimum: int, gpus: int = 1, node: int = 0) -> Leaf:
    return Leaf((node,) * pods, gpus, minimum)


def blocked(*open_nodes: int) -> Runs:
    """Nobody may touch what is elsewhere."""
    elsewhere = tuple(node for node in range(NODES) if node not in open_nodes)
    return runs(Leaf(elsewhere, 8, len(elsewhere)), name="blocks", how=NON_PREEMPTIBLE)


def half_of_node() -> Runs:
    return runs(leaf(1, 1, 4), name="half", how=NON_PREEMPTIBLE)


def instance(*gangs: Runs, asks=(0, 1, 0, 0), quotas=None) -> Instance:
    named = [gang._replace(name=f"{gang.name}-{number}") for number, gang in enumerate(gangs)]
    return Instance(tuple(named), asks, False, quotas or {})


def test_one_pod_from_each_leaf():
    """The issue: leaf minimum 1 with 2 + 2 pods on a node of 4, somebody comes for 2."""
    found = instance(blocked(0), half_of_node(), runs(leaf(2, 1), leaf(2, 1), needed=2))
    rank = best(found).rank
    assert (rank.minimums, rank.kind, rank.pods) == (0, SURPLUS_POD, 2)


def test_the_whole_gang():
    """The issue: leaf minimum 2 with 2 + 2."""
    found = instance(blocked(0), half_of_node(), runs(leaf(2, 2), leaf(2, 2), needed=2))
    rank = best(found).rank
    assert (rank.minimums, rank.kind, rank.pods) == (1, WHOLE_GANG, 4)


def test_workers_one_by_one_and_never_the_master():
    """The issue: master 1 and 5 workers of which 2 are needed, semi-preemptible."""
    gang = runs(leaf(1, 1), leaf(5, 2), needed=2, how=SEMI_PREEMPTIBLE)
    assert max(len(choice.pods) for choice in legal(gang)) == 3
    assert {pod for choice in legal(gang) for pod in choice.pods} == {(1, 2), (1, 3), (1, 4)}
    assert units(gang) == 3


def test_a_whole_surplus_replica():
    """The issue: 4 replicas, 2 needed, semi-preemptible: the last two go, whole."""
    gang = runs(*[leaf(2, 2)] * 4, needed=2, how=SEMI_PREEMPTIBLE)
    assert {choice.kind for choice in legal(gang) if choice.pods} == {SURPLUS_CHILD}
    assert {row for choice in legal(gang) for row, _ in choice.pods} == {2, 3}
    assert units(gang) == 2


@pytest.mark.parametrize(
    ("gang", "expected"),
    [
        (runs(leaf(1, 1)), 1),
        (runs(leaf(3, 3)), 1),
        (runs(leaf(3, 1)), 4),
        (runs(leaf(3, 1), how=SEMI_PREEMPTIBLE), 2),
        (runs(leaf(3, 1), how=NON_PREEMPTIBLE), 0),
        (runs(leaf(2, 2), leaf(1, 2)), 2),
        (runs(leaf(1, 1), leaf(1, 1)), 3),
    ],
    ids=["single", "whole", "grown", "semi", "firm", "leftover", "children"],
)
def test_units(gang, expected):
    assert units(gang) == expected


def test_leftovers_are_the_least():
    gang = runs(leaf(2, 2), leaf(1, 2))
    assert [choice.kind for choice in legal(gang)[1:]] == [LEFTOVER, WHOLE_GANG]


def test_surplus_comes_before_a_lower_priority_and_few_pods_before_young_ones():
    grown = runs(leaf(4, 2), priority=30, name="grown", made=5)
    single = runs(leaf(1, 1, 2), name="single", priority=10, made=9)
    found = instance(blocked(0), runs(leaf(1, 1, 2), name="firm", how=NON_PREEMPTIBLE), grown, single)
    assert best(found).rank == (0, 30, SURPLUS_POD, 2, -5)
    old, young = (runs(leaf(1, 1, 2), name=name, made=made) for name, made in (("old", 1), ("young", 9)))
    two = [runs(leaf(1, 1, 1), name=f"small-{made}", made=made) for made in (20, 21)]
    full = instance(blocked(0), runs(leaf(1, 1, 2), name="firm", how=NON_PREEMPTIBLE), old, young, *two)
    assert best(full).rank == (1, 10, WHOLE_GANG, 1, -9)


def test_a_quota_is_not_undercut_before_the_last_unit():
    """A queue has 4 + 2 GPUs and a quota of 4: either unit may go, not both; the larger one would be the last."""
    large, small = (runs(leaf(1, 1, gpus), name=name, queue="fill-a") for name, gpus in (("large", 4), ("small", 2)))
    rest = runs(leaf(1, 1, 2), name="firm", how=NON_PREEMPTIBLE)
    both = instance(blocked(0), rest, large, small, asks=(0, 3, 0, 0), quotas={"fill-a": 4})
    assert best(both).rank is None
    one = instance(blocked(0), rest, large, small, asks=(0, 2, 0, 0), quotas={"fill-a": 4})
    assert best(one).rank.pods == 1
    assert best(both._replace(quotas={"fill-a": 3})).rank.pods == 2


def test_a_set_is_judged():
    """Right, too large, too small, and half a minimum."""
    found = instance(blocked(0), half_of_node(), runs(leaf(3, 1), name="grown"), runs(leaf(1, 1), name="single"))
    name = "grown-2"
    assert judged(found, {name: frozenset({(0, 1), (0, 2)})}).fault == ""
    assert judged(found, {name: frozenset({(0, 1), (0, 2)}), "single-3": frozenset({(0, 0)})}).fault == "not minimal"
    assert judged(found, {name: frozenset({(0, 2)})}).fault == "does not do"
    whole = found._replace(runs=(*found.runs[:2], found.runs[2]._replace(leaves=(leaf(3, 2),)), found.runs[3]))
    assert judged(whole, {name: frozenset({(0, 1), (0, 2)})}).fault == "not legal"


@pytest.mark.parametrize("kind", gap.KINDS)
@pytest.mark.parametrize("within", [gap.FEW, gap.MANY], ids=str)
def test_instances_are_what_they_say(kind, within):
    for number in range(5):
        found = gap.instance(kind, number, within)
        assert found == gap.instance(kind, number, within)
        assert within[0] <= sum(map(units, found.runs)) <= within[1]
        assert min(found.free()) >= 0
        assert best(found).rank is not None
        snapshot = build(world_of(gap.scene(found)), gap.NOW_NS)
        assert len(snapshot.gangs) == len(found.runs) + 1
        assert snapshot.free[:, snapshot.resources.index(gap.GPU)].tolist() == found.free()
        assert all(gang.ready[0] and not gang.held for gang in snapshot.gangs)
        assert all(gang.satisfied[0] for gang in snapshot.gangs if gang.placed)
        told = {gang.key[1]: gang for gang in snapshot.gangs}
        assert [told[gang.name].preemptibility for gang in found.runs] == [gang.preemptibility for gang in found.runs]
        assert [told[gang.name].priority for gang in found.runs] == [gang.priority for gang in found.runs]
