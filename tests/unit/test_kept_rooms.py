"""Room that is kept for moved pods stands in the status of their gang as long as it is kept, and no longer."""

from types import MappingProxyType

import msgspec
import pytest

from muster.api.podgroup import KEPT_ROOM_ANNOTATION
from muster.decisions.orders import RoomOrder, orders_of
from muster.plan.cycle import schedule
from muster.sim.objects import at
from muster.snapshot.build import Builder
from oracle.engine import world_of
from short_forms import documents_of, ns

GPU = "nvidia.com/gpu"
KEY = ("default", "g")


def rooms(since, pods=(), second=0, annotations=MappingProxyType({}), **others):
    """What is written about the kept room of a gang of which one pod was moved to n at this second."""
    things = {"nodes": [{"name": "n", "gpus": 2}], "gangs": {"g": {"minMember": 1}} | others, "pods": list(pods)}
    documents = documents_of(things)
    group = next(one for one in documents if one["kind"] == "PodGroup" and one["metadata"]["name"] == "g")
    entry = {"subGroup": "", "node": "n", "requests": {GPU: 1}, "since": at(since)}
    group["metadata"] |= {"uid": "u", "annotations": dict(annotations)}
    if not annotations:
        group["status"] = {"admittedQueue": "default-queue", "kept": [entry]}
    world = world_of(documents)
    plan, _ = schedule(Builder(world).build(ns(second)))
    return orders_of(plan, world).rooms


@pytest.mark.parametrize(
    ("since", "pods"),
    [
        pytest.param(-10, [{"gang": "g", "name": "back", "on": "n", "age": 5}], id="the pod is back"),
        pytest.param(-400, [], id="it did not come back for five minutes"),
    ],
)
def test_what_is_kept_no_longer_is_taken_away(since, pods):
    """Else it would be kept from others for ever, by whoever reads it next."""
    assert rooms(since, pods) == (RoomOrder(KEY, "u", (), "default-queue"),)


def test_what_is_kept_stays():
    """Of a pod that was moved and has not come back yet: whatever is written keeps the same room."""
    for order in rooms(-10):
        assert [(one["node"], one["since"]) for one in msgspec.to_builtins(order.kept)] == [("n", at(-10))]


def test_the_annotation_of_older_versions_goes():
    """Its owner can write it, so that it would say what is not so."""
    made_up = {KEPT_ROOM_ANNOTATION: '[{"subGroup":"","node":"n","requests":{"nvidia.com/gpu":1}}]'}
    assert rooms(-10, annotations=made_up) == (RoomOrder(KEY, "u", (), "default-queue", KEPT_ROOM_ANNOTATION),)


def test_what_was_kept_for_a_pod_that_came_back_is_not_kept_again_when_it_is_evicted_for_somebody_else():
    """Found by the simulation (seed 6687): the room of who was told to go was kept for it, so nobody else got it; and
    when it was back, it was told to go again, for ever.
    """
    pods = [{"gang": "g", "name": "back", "on": "n", "age": 5}, *({"gang": "high", "name": f"h{n}"} for n in range(2))]
    assert rooms(-10, pods, high={"minMember": 2, "priorityClassName": "inference"}) == (
        RoomOrder(KEY, "u", (), "default-queue"),
    )
