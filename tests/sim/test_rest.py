"""At rest everything is as it should be; each thing that is not is told, whatever else there is."""

from typing import Any

import pytest

from muster.controllers.patience import Patience
from muster.embedded.store import Key
from muster.sim.objects import Nodes, Pods, QueueEntry
from muster.sim.play import Play
from muster.sim.rest import at_rest
from muster.sim.stage import sender
from muster.sim.story import Fault, Story, Workload

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
GROUPS = "/apis/scheduling.run.ai/v2alpha2/namespaces/default/podgroups"
PODS = "/api/v1/namespaces/default/pods"
RACK = {"topologyConstraint": {"requiredTopologyLevel": "rack"}}


class Calm:
    """A story that has come to rest, and whoever changes something behind muster's back."""

    def __init__(self) -> None:
        story = Story(
            topologies={"dc": ["zone", "rack"]},
            nodes=[Nodes(name="n", count=2, zone="z", rack="r", gpus=4)],
            queues={"q": QueueEntry(quota=8)},
            workloads={
                "whole": Workload(
                    gang={"minMember": 2, "queue": "q", "preemptibility": "semi-preemptible", **RACK}, pods={"": 3}
                ),
                "tree": Workload(
                    gang={
                        "minSubGroup": 1,
                        "queue": "q",
                        "subGroups": [{"name": "a", "minMember": 1}, {"name": "b", "minMember": 1}],
                    },
                    pods={"a": 1, "b": 1},
                ),
                "waits": Workload(gang={"minMember": 9, "queue": "q"}, pods={"": 9}),
            },
            pods=[Pods(name="other", on="n-0")],
            lasts=10.0,
        )
        self.play = Play(story)
        assert not self.play.run().violations
        self._send = sender(self.play.server)

    def ask(self, method: str, path: str, body: Any = None, content: str = MERGE) -> None:
        """Somebody writes."""
        code, answer = self._send(method, path, body, content)
        assert code < 300, answer

    def tells(self, gang: str, **status: Any) -> None:
        """The status of a gang says something else."""
        self.ask("PATCH", f"{GROUPS}/{gang}/status", {"status": status})

    def row(self, gang: str, number: int, **fields: Any) -> None:
        """A row of it does."""
        patch = [
            {"op": "add", "path": f"/status/subGroups/{number}/{key}", "value": one} for key, one in fields.items()
        ]
        self.ask("PATCH", f"{GROUPS}/{gang}/status", patch, JSON_PATCH)

    def wrong(self, later_s: float = 0.0) -> list[str]:
        """What is wrong, with its rule."""
        now_s = self.play.machine.now_s + later_s
        found = at_rest(self.play.story, self.play.server, now_s, self.play.judge)
        return [f"{one.rule} {one.says}" for one in found]

    def status(self, gang: str) -> Any:
        """What a gang is told."""
        found = self.play.server.core.store.get(Key("podgroups.scheduling.run.ai", "default", gang))
        assert found is not None
        return found["status"]


@pytest.fixture
def calm() -> Calm:
    return Calm()


def has(found: list[str], rule: str, words: str) -> bool:
    return any(one.startswith(rule + " ") and words in one for one in found)


def test_calm_is_calm(calm: Calm):
    assert calm.wrong() == []
    assert calm.status("whole")["podsSummary"] == "3/2/3"
    assert calm.status("waits")["reason"]


@pytest.mark.parametrize(
    ("gang", "said", "words"),
    [
        ("whole", {"podsSummary": "2/2/3"}, "podsSummary is 2/2/3 and should be 3/2/3"),
        ("whole", {"ready": "0/1"}, "ready is 0/1 and should be 1/1"),
        ("tree", {"ready": "1/1"}, "ready is 1/1 and should be 2/1"),
        ("whole", {"phase": "Pending"}, "its phase is Pending"),
        ("whole", {"reason": "InsufficientResources"}, "it has the reason InsufficientResources"),
        ("whole", {"startTime": None}, "no startTime"),
        ("waits", {"reason": None}, "it has no reason"),
        ("waits", {"phase": "Scheduled"}, "its phase is Scheduled"),
        ("whole", {"resourcesStatus": {"allocated": {"nvidia.com/gpu": "2"}}}, "resourcesStatus.allocated is"),
        ("whole", {"resourcesStatus": {"allocatedNonPreemptible": None}}, "resourcesStatus.allocatedNonPreemptible"),
        ("waits", {"resourcesStatus": {"requested": {"nvidia.com/gpu": "8"}}}, "resourcesStatus.requested is"),
    ],
)
def test_a_status_that_is_not_so_is_told(calm: Calm, gang: str, said: dict[str, Any], words: str):
    calm.tells(gang, **said)
    assert has(calm.wrong(), "U1", words), calm.wrong()


@pytest.mark.parametrize(("kind", "status"), [("Scheduled", "False"), ("PodsPresent", "False"), ("Accepted", "False")])
def test_so_is_a_condition(calm: Calm, kind: str, status: str):
    conditions = [
        {**one, "status": status} if one["type"] == kind else one for one in calm.status("whole")["conditions"]
    ]
    calm.tells("whole", conditions=conditions)
    assert has(calm.wrong(), "U1", "conditions" if kind == "Accepted" else f"condition {kind}")


@pytest.mark.parametrize(
    ("gang", "row", "fields", "words"),
    [
        ("tree", 1, {"satisfied": False}, "a: satisfied is True, and its status says False"),
        ("tree", 1, {"minimum": 3}, "a: minimum is 1, and its status says 3"),
        ("tree", 2, {"pods": {"total": 1, "placed": 0, "pending": 1, "succeeded": 0}}, "b has 1 pods placed"),
        ("tree", 0, {"children": {"total": 2, "satisfied": 1}}, "the root: children satisfied is 2"),
        ("tree", 2, {"core": True}, "its core is ['', 'a']"),
        ("whole", 0, {"domain": "z/elsewhere"}, "the root lies in z/r, and its status says z/elsewhere"),
    ],
)
def test_so_is_a_row(calm: Calm, gang: str, row: int, fields: dict[str, Any], words: str):
    calm.row(gang, row, **fields)
    assert has(calm.wrong(), "U1", words), calm.wrong()


def test_queues_add_up(calm: Calm):
    path = "/apis/scheduling.run.ai/v2/queues/q/status"
    calm.ask("PATCH", path, {"status": {"allocated": {"gpu": "2"}, "allocatedNonPreemptible": {"gpu": "0"}}})
    assert has(calm.wrong(), "S7", "its allocated of gpu is 2, and its gangs have 5")
    assert has(calm.wrong(), "S7", "its allocatedNonPreemptible of gpu is 0, and its gangs have 2")


def test_a_queue_has_what_those_hold_that_were_set_aside(calm: Calm):
    calm.ask("PATCH", f"{GROUPS}/tree", {"spec": {"subGroups": [{"name": "a", "minMember": 1}]}})
    assert has(calm.wrong(), "U1", "its podsSummary is 2/1/2 and should be 1/1/1")
    assert not has(calm.wrong(), "S7", "its allocated of gpu"), calm.wrong()


def test_a_pod_that_could_be_bound_is_told(calm: Calm):
    calm.ask("DELETE", f"{GROUPS}/waits")
    calm.ask("DELETE", f"{GROUPS}/whole")
    calm.ask("DELETE", f"{PODS}/other?gracePeriodSeconds=0")
    pod = calm.play.server.core.store.get(Key("pods", "default", "tree-a-0"))
    assert pod is not None
    spec = {key: one for key, one in pod["spec"].items() if key != "nodeName"}
    metadata = {key: pod["metadata"][key] for key in ("annotations", "labels")}
    new = {"apiVersion": "v1", "kind": "Pod", "metadata": {**metadata, "name": "new"}, "spec": spec}
    calm.ask("POST", PODS, new, "application/json")
    assert has(calm.wrong(), "L2", "pod default/new waits, and a fresh scheduler binds it to n-")
    assert has(calm.wrong(), "U1", "podsSummary")


def test_a_gang_below_its_minimum_goes_when_its_grace_is_over(calm: Calm):
    for pod in ("whole-0", "whole-1"):
        calm.ask("DELETE", f"{PODS}/{pod}?gracePeriodSeconds=0")
    assert not has(calm.wrong(60.0), "L1", "")
    assert has(calm.wrong(75.0), "L1", "it is below its minimum since")


def test_not_when_its_spec_only_asks_for_more(calm: Calm):
    calm.ask("PATCH", f"{GROUPS}/whole", {"spec": {"minMember": 4}})
    assert not has(calm.wrong(1000.0), "L1", "")


def test_nothing_is_reserved_where_nobody_leaves(calm: Calm):
    calm.ask("PATCH", f"{PODS}/waits-0/status", {"status": {"nominatedNodeName": "n-0"}})
    assert has(calm.wrong(), "L5", "pod waits-0 is nominated to n-0, where nobody leaves")


def test_room_is_not_kept_for_ever(calm: Calm):
    entry = {"subGroup": "", "node": "n-0", "requests": {"nvidia.com/gpu": 1}, "since": "2026-01-01T01:00:00Z"}
    calm.ask("PATCH", f"{GROUPS}/whole/status", {"status": {"kept": [entry]}})
    assert not has(calm.wrong(), "L5", "did not come")
    assert has(calm.wrong(400.0), "L5", "room is kept for pods that did not come")


def test_a_pod_of_ours_is_of_a_gang_or_somebody_was_told(calm: Calm):
    containers = [{"name": "c", "image": "none"}]
    spec = {"schedulerName": "kai-scheduler", "containers": containers}
    for name, annotations in (("lone", {}), ("lost", {"pod-group-name": "nowhere"})):
        metadata = {"name": name, "annotations": annotations}
        document = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        calm.ask("POST", PODS, document, "application/json")
    assert has(calm.wrong(), "U1", "pod default/lone waits, is of no gang, and nobody was told why")
    assert has(calm.wrong(), "U1", "pod default/lost waits, its gang nowhere is not there, and nobody was told")


def test_an_invalid_gang_is_told_that_it_is(calm: Calm):
    store, key = calm.play.server.core.store, Key("podgroups.scheduling.run.ai", "default", "waits")
    group = store.get(key)
    assert group is not None
    # Past all admission, as an older definition would have let it.
    store.replace(key, {**group, "spec": {**group["spec"], "minSubGroup": 1}}, None)
    assert has(calm.wrong(), "U1", "it is invalid")


def test_what_waits_is_told_to_pods_too(calm: Calm):
    pod = calm.play.server.core.store.get(Key("pods", "default", "waits-0"))
    assert pod is not None
    said = [one for one in pod["status"]["conditions"] if one["type"] != "PodScheduled"]
    assert len(said) < len(pod["status"]["conditions"])
    calm.ask("PATCH", f"{PODS}/waits-0/status", {"status": {"conditions": said}})
    assert has(calm.wrong(), "U1", "pod default/waits-0: a fresh scheduler says PodScheduled=False")


REFUSED = Story(
    nodes=[Nodes(name="n", gpus=4)],
    workloads={"g": Workload(gang={"minMember": 2}, pods={"": 2})},
    faults=[Fault(point="bind", does="refuse", code=422)],
    lasts=20.0,
)


def test_who_rests_after_refused_binds_is_waited_for():
    assert not Play(REFUSED).run().violations


def test_a_rest_that_never_ends_is_told(monkeypatch: pytest.MonkeyPatch):
    """When calm has come it may still be a rest as any other: it is judged when it can't be any more."""
    monkeypatch.setattr(Patience, "rested", lambda self, now_ns: [])
    found = [f"{one.rule} {one.says}" for one in Play(REFUSED).run().violations]
    assert has(found, "L2", "waits, and a fresh scheduler binds it to n")
