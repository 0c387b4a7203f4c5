"""What a plan writes: only what differs, for the pod that was meant, and never ahead of the truth."""

from datetime import UTC, datetime

import msgspec
import pytest
from msgspec import structs

from muster.api.podgroup import PodCounts, PodGroupStatus, SubGroupStatus
from muster.decisions.orders import BindOrder, Memory, NominateOrder, orders_of
from muster.decisions.status import fitting, status_document
from muster.plan.cycle import schedule
from muster.snapshot.build import Builder
from oracle.engine import world_of
from short_forms import documents_of, merged, ns

ROOM = {"nodes": [{"name": "n", "gpus": 1}]}
WAITS = {"gangs": {"g": {"minMember": 1}}, "pods": [{"gang": "g", "name": "g"}]}
RUNS = {"gangs": {"g": {"minMember": 1}}, "pods": [{"gang": "g", "name": "g", "on": "n"}]}
KEY = ("default", "g")


def planned(*parts, flying=()):
    """The orders in a cluster, its world, and what builds snapshots of it."""
    documents = documents_of(merged(*parts))
    for document in documents:
        document["metadata"].setdefault("uid", f"uid-{document['kind']}-{document['metadata']['name']}")
    world = world_of(documents)
    builder = Builder(world)
    plan, _ = schedule(builder.build(ns(0)))
    return orders_of(plan, world, flying), world, builder


def test_a_bind_is_for_the_pod_that_was_planned():
    orders, *_ = planned(ROOM, WAITS)
    assert orders.binds == (BindOrder(KEY, KEY, "uid-Pod-g", "n", "default-queue/uid-PodGroup-g"),)


def test_a_gang_hears_of_its_binds_when_they_have_happened():
    orders, *_ = planned(ROOM, WAITS)
    assert orders.statuses == ()


@pytest.mark.parametrize("flying", [(), [KEY], [("default", "other")]], ids=["seen", "in flight", "another gang"])
def test_a_gang_whose_writes_are_under_way_is_told_later(flying):
    orders, *_ = planned(ROOM, RUNS, flying=flying)
    assert len(orders.statuses) == (flying != [KEY])


def test_who_waits_is_told_why():
    orders, *_ = planned({"nodes": [{"name": "n", "gpus": 0}]}, WAITS)
    (order,) = orders.statuses
    assert (order.gang, order.uid, order.status.phase) == (KEY, "uid-PodGroup-g", "Pending")
    assert order.status.reason == "InsufficientResources"
    assert orders.binds == ()


def test_what_is_told_already_is_not_told_again():
    """No events in, no writes out."""
    orders, world, builder = planned(ROOM, RUNS)
    (order,) = orders.statuses
    world.apply(structs.replace(world.groups[KEY], status=order.status))
    plan, _ = schedule(builder.build(ns(60)))
    assert orders_of(plan, world) == orders_of(plan, world)._replace(statuses=())


def test_a_nomination_is_written_once_and_taken_back_when_it_is_over():
    victim = {"gangs": {"low": {"minMember": 1}}, "pods": [{"gang": "low", "name": "low", "on": "n"}]}
    high = {"gangs": {"g": {"minMember": 1, "priorityClassName": "train"}}, "pods": [{"gang": "g", "name": "g"}]}
    orders, *_ = planned(ROOM, victim, high)
    assert orders.nominations == (NominateOrder(KEY, KEY, "uid-Pod-g", "n"),)
    assert [(order.pod, order.uid, order.action) for order in orders.evictions] == [
        (("default", "low"), "uid-Pod-low", "preempt")
    ]
    _, world, builder = planned({"nodes": [{"name": "n", "gpus": 0}]}, WAITS)
    facts = world.pods[KEY]
    world.apply(structs.replace(facts.pod, status=structs.replace(facts.pod.status, nominated_node_name="n")))
    plan, _ = schedule(builder.build(ns(0)))
    assert orders_of(plan, world).nominations == (NominateOrder(KEY, KEY, "uid-Pod-g", ""),)


def test_nobody_looks_again_at_what_stands_as_it_stood():
    """What was told is remembered by gang and outcome; a gang that is made anew is looked at again."""
    told = Memory()
    documents = documents_of(merged({"nodes": [{"name": "n", "gpus": 0}]}, WAITS))
    world = world_of(documents)
    builder = Builder(world)
    found = []
    for second in (0, 1, 2):
        plan, _ = schedule(builder.build(ns(second)))
        found.append(len(orders_of(plan, world, (), told).statuses))
        if second == 1:
            world.apply(world.groups[KEY])
    assert found == [1, 0, 1]


def test_how_long_a_gang_waited_is_said_once():
    """When its start is told; not with each attempt, and not of one that had started before."""
    _, world, builder = planned(ROOM, RUNS, {"gangs": {"g": {"minMember": 1, "queue": "q"}}})
    group = world.groups[KEY]
    made = structs.replace(group.metadata, creation_timestamp=datetime.fromtimestamp(ns(0) // 10**9, UTC))
    world.apply(structs.replace(group, metadata=made))
    plan, _ = schedule(builder.build(ns(60)))
    (order,) = orders_of(plan, world).statuses
    assert (order.queue, order.waited_s) == ("q", 60.0)
    world.apply(structs.replace(world.groups[KEY], status=structs.replace(order.status, ready="")))
    plan, _ = schedule(builder.build(ns(61)))
    (order,) = orders_of(plan, world).statuses
    assert order.waited_s is None


def test_a_very_large_status_fits_into_an_object():
    """What holds something stays; the rest goes from the end."""
    row = SubGroupStatus(name="x" * 50, minimum=1, message="m" * 200)
    held = structs.replace(row, core=True, pods=PodCounts(placed=1, total=1))
    rows = [SubGroupStatus(), *[row] * 3000, *[held] * 1000]
    found = fitting(PodGroupStatus(sub_groups=rows), 600_000)
    assert len(msgspec.json.encode(status_document(found))) < 600_000
    assert sum(one.core for one in found.sub_groups) == 1000
    assert found.sub_groups[0] == SubGroupStatus()
    assert fitting(PodGroupStatus(sub_groups=rows[:5]), 600_000).sub_groups == rows[:5]


def test_where_pods_are_missing_those_that_are_set_aside_come_first():
    """They are there, and somebody can mend them; their controller has done its part."""
    tree = {"gangs": {"g": {"subGroups": [{"name": "a", "minMember": 1}]}}}
    orders, *_ = planned(ROOM, tree, {"pods": [{"gang": "g", "name": "g"}]})
    (order,) = orders.statuses
    assert order.status.reason == "SetAside"
    assert order.note.reason == "SetAside"
