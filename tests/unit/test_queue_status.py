"""The status of queues: what they hold and are due, and why nothing can be charged to one."""

from msgspec import structs

from muster.decisions.orders import Memory, orders_of
from muster.plan.cycle import schedule
from muster.snapshot.build import Builder
from oracle.engine import world_of
from short_forms import documents_of, merged, ns

RUNS = {
    "nodes": [{"name": "n", "gpus": 4}],
    "gangs": {"g": {"minMember": 1, "queue": "child", "preemptibility": "non-preemptible"}},
    "pods": [{"gang": "g", "name": "g", "on": "n"}],
    "queues": {
        "top": {"quota": 3},
        "child": {"parent": "top", "quota": 2},
        "lost": {"parent": "nowhere"},
    },
}


def told(world, builder, memory):
    plan, _ = schedule(builder.build(ns(0)))
    return {order.queue: order.status for order in orders_of(plan, world, (), memory).queues}


def test_what_queues_hold_and_are_due():
    world = world_of(documents_of(merged(RUNS)))
    found = told(world, Builder(world), Memory())
    assert (found["top"].child_queues, found["top"].allocated["gpu"]) == (["child"], 1)
    assert (found["child"].allocated_non_preemptible["gpu"], found["child"].fair_share["gpu"]) == (1, 1)
    assert [one.status for one in found["child"].conditions] == ["True"]


def test_a_queue_without_a_way_up_is_told_so():
    world = world_of(documents_of(merged(RUNS)))
    (condition,) = told(world, Builder(world), Memory())["lost"].conditions
    assert (condition.type, condition.status, condition.reason) == ("Accepted", "False", "QueueOrphaned")
    assert "the queue nowhere above the queue lost does not exist" in condition.message


def test_what_a_queue_was_told_is_not_told_again_unless_somebody_changed_it():
    world = world_of(documents_of(merged(RUNS)))
    builder, memory = Builder(world), Memory()
    first = told(world, builder, memory)
    assert told(world, builder, memory) == {}
    for name, status in first.items():
        world.apply(structs.replace(world.queues[name], status=status))
    assert told(world, builder, memory) == {}
    forged = structs.replace(first["top"], allocated={"gpu": 99})
    world.apply(structs.replace(world.queues["top"], status=forged))
    assert told(world, builder, memory) == {"top": first["top"]}


def test_what_is_no_whole_number_is_text():
    """4Gi are 4294.967296 × 10^6 bytes: a Queue takes whole numbers and text, and no other number."""
    documents = documents_of(merged(RUNS))
    for document in documents:
        if document["kind"] == "Pod":
            requests = document["spec"]["containers"][0].setdefault("resources", {}).setdefault("requests", {})
            requests.update({"memory": "4Gi", "cpu": "2"})
    world = world_of(documents)
    allocated = told(world, Builder(world), Memory())["top"].allocated
    assert allocated == {"cpu": 2000, "memory": "4294.967296", "gpu": 1}
