"""The objects of a scenario on an API server: taken, as old as they say, and in the order in which they can come."""

import pytest

from muster.errors import UsageError
from muster.sim import stage
from muster.sim.objects import Nodes, Objects, Pods
from muster.sim.stage import NotTaken, folder_of, in_order
from sim.town import Town


@pytest.fixture
def town():
    return Town(
        nodes=[{"name": "n", "gpus": 4}],
        gangs={"g": {"minMember": 2}},
        history={"g": {"created": -100, "started": -50, "core": []}},
        pods=[
            {"gang": "g", "name": "old", "on": "n", "age": 90},
            {"gang": "g", "name": "goes", "on": "n", "terminating": True},
            {"gang": "g", "name": "waits", "gated": True},
            {"name": "other", "namespace": "team", "on": "n"},
        ],
    )


def read(town, kind, name, space="default"):
    code, found = town.send("GET", f"{folder_of(kind, space)}/{name}")
    assert code == 200, found
    return found


def test_objects_are_as_old_as_they_say(town):
    assert read(town, "PodGroup", "g")["metadata"]["creationTimestamp"] == "2026-01-01T00:58:20Z"
    assert read(town, "PodGroup", "g")["status"]["startTime"] == "2026-01-01T00:59:10Z"
    assert read(town, "Pod", "old")["metadata"]["creationTimestamp"] == "2026-01-01T00:58:29Z"
    assert read(town, "Pod", "waits")["metadata"]["creationTimestamp"] == "2026-01-01T01:00:00Z"


def test_who_terminates_goes_after_a_while(town):
    assert read(town, "Pod", "goes")["metadata"]["deletionTimestamp"]
    town.until(stage.GOING_S + 2)
    assert town.send("GET", f"{folder_of('Pod')}/goes")[0] == 404


def test_pods_that_run_are_ready_and_nobody_collects_them(town):
    """Their controller is nobody: no server may miss it."""
    town.until(60)
    conditions = read(town, "Pod", "old")["status"]["conditions"]
    assert ("Ready", "True") in {(one["type"], one["status"]) for one in conditions}
    assert read(town, "Pod", "other", "team")


def test_what_comes_again_is_changed(town):
    there = stage.on(town.server)
    there.put(Objects(nodes=[Nodes(name="n", gpus=8, cordoned=True)], gangs={"g": {"minMember": 1}}).all())
    assert read(town, "PodGroup", "g")["spec"]["minMember"] == 1
    assert read(town, "PodGroup", "g")["status"]["startTime"]
    assert read(town, "Node", "n")["spec"]["unschedulable"]
    assert read(town, "Node", "n")["status"]["allocatable"]["nvidia.com/gpu"] == "8"
    there.put(Objects(pods=[Pods(gang="g", name="waits", labels={"a": "b"})]).all())
    assert "schedulingGates" not in read(town, "Pod", "waits")["spec"]
    assert read(town, "Pod", "waits")["metadata"]["labels"] == {"a": "b"}


def test_what_nobody_takes_is_an_error(town):
    with pytest.raises(NotTaken, match="podgroups"):
        stage.on(town.server).put(Objects(gangs={"UPPER CASE": {}}).all())
    with pytest.raises(UsageError, match="no Banana"):
        folder_of("Banana")


def test_what_is_deleted_must_be_there(town):
    there = stage.on(town.server)
    there.delete("pod/ol*")
    assert town.send("GET", f"{folder_of('Pod')}/old")[0] == 404
    with pytest.raises(UsageError, match="nothing to delete: pod/nobody"):
        there.delete("pod/nobody")


def test_what_others_need_comes_before_them():
    objects = Objects(gangs={"g": {}}, topologies={"t": ["rack"]}, queues={})
    documents = [
        {"kind": "Pod", "metadata": {"name": "waits"}, "spec": {}},
        {"kind": "Pod", "metadata": {"name": "runs"}, "spec": {"nodeName": "n"}},
        *objects.all(),
        {"kind": "Node", "metadata": {"name": "n"}},
    ]
    assert [one["metadata"]["name"] for one in in_order(documents)] == ["n", "t", "runs", "g", "waits"]
