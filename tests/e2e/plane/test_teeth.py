"""The recorder and the look at a cluster find what they are there for: what was tampered with is found out."""

from types import SimpleNamespace
from typing import Any

import pytest

from e2e.plane.access import Answer
from e2e.plane.recorder import Bound, Recorder
from e2e.plane.shown import Shown
from muster.sim.objects import Nodes, Objects, Pods
from muster.sim.scenario import Expected, GangExpected, QueueExpected, ReasonExpected

RACK = {"topology": "dc", "requiredTopologyLevel": "rack"}


class Plane:
    """Takes every request and remembers it."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str]] = []

    def request(self, method: str, path: str, *_: object) -> Answer:
        listing = {"items": [], "metadata": {"resourceVersion": "1"}}
        self.sent.append((method, path))
        return Answer(200, listing)

    def connection(self) -> Any:
        def none(*_: object) -> None:
            raise OSError("nobody is there")

        return SimpleNamespace(request=none, sock=None, close=lambda: None)


def pods(**more: Any) -> list[dict[str, Any]]:
    found = Pods(**more).documents()
    for one in found:
        one["metadata"]["namespace"] = "default"
    return found


@pytest.fixture
def recorder() -> Recorder:
    found = Recorder(Plane())  # type: ignore[arg-type]
    found.close()
    found.begin()
    found.nodes = {one["metadata"]["name"]: one for one in Nodes(name="n", count=2, gpus=2).documents()}
    return found


def bound(recorder: Recorder, *documents: dict[str, Any]) -> None:
    for one in documents:
        waits = {**one, "spec": {key: value for key, value in one["spec"].items() if key != "nodeName"}}
        recorder._take("ADDED", waits)
        recorder._take("MODIFIED", one)


def evicted(pod: dict[str, Any]) -> dict[str, Any]:
    return {**pod, "status": {"conditions": [{"type": "DisruptionTarget", "reason": "EvictionByEvictionAPI"}]}}


def test_binds_are_seen_and_run(recorder):
    bound(recorder, *pods(gang="g", count=2, on="n-0"))
    assert [one.pod[1] for one in recorder.bound] == ["g-0", "g-1"]
    assert recorder.faults == []
    assert ("PATCH", "/api/v1/namespaces/default/pods/g-0/status") in recorder._plane.sent


def test_a_node_with_too_much_on_it_is_found(recorder):
    bound(recorder, *pods(gang="g", count=3, on="n-0"))
    assert recorder.faults == ["3000 nvidia.com/gpu on n-0, which has 2000"]


def test_a_bind_to_nowhere_is_found(recorder):
    bound(recorder, *pods(gang="g", count=1, on="elsewhere"))
    assert recorder.faults == ["a bind to elsewhere, which is not there"]


def test_who_is_evicted_is_made_anew_and_who_is_deleted_is_not(recorder):
    first, second = pods(gang="g", count=2, on="n-0")
    bound(recorder, first, second)
    recorder._take("DELETED", evicted(first))
    recorder._take("DELETED", second)
    assert [one["metadata"]["name"] for one in recorder.evicted] == ["g-0"]
    assert [path for method, path in recorder._plane.sent if method == "POST"] == ["/api/v1/namespaces/default/pods"]


def test_pods_of_others_are_not_touched(recorder):
    (pod,) = pods(name="theirs", on="n-0")
    recorder._take("ADDED", pod)
    written = {**pod, "metadata": {**pod["metadata"], "managedFields": [{"manager": "muster"}]}}
    recorder._take("MODIFIED", written)
    recorder._take("DELETED", evicted(pod))
    assert recorder.faults == [
        "theirs of another scheduler was written to",
        "theirs of another scheduler is evicted",
    ]


class Stage:
    """A cluster that is a list of documents."""

    def __init__(self, objects: Objects, recorder: Any = None) -> None:
        found = [{**one, "metadata": {**one["metadata"], "namespace": "default"}} for one in objects.all()]
        self.documents = {(one["kind"], one["metadata"]["name"]): one for one in found}
        self.recorder = recorder or SimpleNamespace(bound=[], evicted=[], faults=[])

    def objects(self, kind: str) -> list[dict[str, Any]]:
        return [one for (found, _), one in self.documents.items() if found == kind]

    def bound(self, *names: str) -> None:
        nodes = {name: self.documents["Pod", name]["spec"]["nodeName"] for name in names}
        self.recorder.bound = [Bound(("default", name), node, ("default", "g")) for name, node in nodes.items()]


def racks(**more: Any) -> Objects:
    nodes = [Nodes(name=name, count=2, zone="z", rack=name, gpus=1) for name in ("r1", "r2")]
    return Objects(topologies={"dc": ["zone", "rack"]}, nodes=nodes, **more)


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        pytest.param(["r1-0", "r1-1"], "", id="right"),
        pytest.param(["r1-0", "r2-0"], "lie in", id="two racks"),
        pytest.param(["r1-0", "r1-0"], "not enough", id="one node twice"),
        pytest.param(["r1-0"], "the minimum is not met", id="half a gang"),
    ],
)
def test_a_wrong_placement_is_found(nodes, words):
    names = [f"g-{number}" for number in range(len(nodes))]
    there = [Pods(gang="g", name=name, on=node) for name, node in zip(names, nodes, strict=True)]
    world = Stage(racks(gangs={"g": {"minMember": 2, "topologyConstraint": RACK}}, pods=there))
    world.bound(*names)
    faults = Shown(world, []).never()
    assert bool(faults) == bool(words)
    assert any(words in one for one in faults) or not words


@pytest.mark.parametrize(
    ("gang", "gone", "words"),
    [
        pytest.param({"preemptibility": "semi-preemptible"}, ["b-0"], "", id="surplus of a semi-preemptible gang"),
        pytest.param({"preemptibility": "semi-preemptible"}, ["a-0"], "may not be evicted", id="its core"),
        pytest.param({"preemptibility": "non-preemptible"}, ["b-0"], "may not be evicted", id="non-preemptible"),
        pytest.param({}, ["b-0"], "", id="preemptible"),
        pytest.param({}, ["a-0", "b-0"], "", id="the whole gang"),
    ],
)
def test_a_wrong_eviction_is_found(gang, gone, words):
    spec = {**gang, "minSubGroup": 1, "subGroups": [{"name": "a", "minMember": 1}, {"name": "b", "minMember": 1}]}
    there = [Pods(gang="g", sub_group=leaf, name=f"{leaf}-0", on=f"r1-{at}") for at, leaf in enumerate("ab")]
    world = Stage(racks(gangs={"g": spec}, pods=there))
    before = world.objects("Pod")
    world.recorder.evicted = [world.documents.pop(("Pod", name)) for name in gone]
    faults = Shown(world, before).never()
    assert bool(faults) == bool(words)
    assert any(words in one for one in faults) or not words


def test_who_comes_and_goes_is_found():
    world = Stage(racks(gangs={"g": {"minMember": 1}}, pods=[Pods(gang="g", name="g-0.2", on="r1-0")]))
    world.bound("g-0.2")
    world.recorder.evicted = [world.documents.pop(("Pod", "g-0.2"))]
    faults = Shown(world, []).never()
    assert "g-0.2 is bound and evicted again" in faults
    assert "g-0 is evicted again and again" in faults


STATUS = {
    "phase": "Pending",
    "reason": "InsufficientResources",
    "conditions": [{"type": "Scheduled", "status": "False"}],
    "subGroups": [
        {
            "name": "",
            "satisfied": False,
            "core": True,
            "pods": {"placed": 0, "pending": 2},
            "reason": "NotEnoughInDomain",
            "message": "the gang needs 2 · z/r1: 1 of 2 · add a node",
        }
    ],
}


@pytest.mark.parametrize(
    ("expected", "words"),
    [
        (GangExpected(verdict="Infeasible", satisfied=False, placed={"": 0}, pending={"": 2}), ""),
        (GangExpected(verdict="Placed"), "verdict"),
        (GangExpected(verdict="Infeasible", pending={"": 1}), "pending"),
        (GangExpected(verdict="Infeasible", domain={"": "z"}), "domain"),
        (GangExpected(verdict="Infeasible", reasons=[]), "there are reasons"),
        (
            GangExpected(
                verdict="Infeasible", reasons=[ReasonExpected(code="NotEnough*", where="z/r1", asked=2, best=1)]
            ),
            "",
        ),
        (
            GangExpected(verdict="Infeasible", reasons=[ReasonExpected(code="*", where="z/r1", asked=2, best=0)]),
            "no reason",
        ),
        (GangExpected(verdict="Infeasible", reasons=[ReasonExpected(code="OverQuota")]), "no reason"),
    ],
)
def test_what_is_shown_otherwise_is_found(expected, words):
    world = Stage(racks(gangs={"g": {"minMember": 2}}, pods=[Pods(gang="g", count=2)]))
    world.documents["PodGroup", "g"]["status"] = STATUS
    faults = Shown(world, []).faults(Expected(gangs={"g": expected}))
    assert bool(faults) == bool(words)
    assert any(words in one for one in faults) or not words


def test_queues_and_counts_are_compared():
    world = Stage(racks(queues={}))
    world.documents["Queue", "q"] = {"metadata": {"name": "q"}, "status": {"allocated": {"gpu": 3}}}
    expected = Expected(queues={"q": QueueExpected(allocated=4)}, bindings=1, evictions=2)
    assert len(Shown(world, []).faults(expected)) == 3
