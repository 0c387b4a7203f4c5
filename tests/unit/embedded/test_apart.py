"""One that fails keeps no other waiting: what can't be done is told, and done as soon as it can be."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from fidelity.custom import definition
from muster.embedded import garbage, workloads
from muster.embedded.kubelet import Kubelet
from muster.embedded.running import Running
from muster.embedded.store import DELETED, MODIFIED, Change, Unwritten
from unit.embedded.cluster import BUDGETS, JOBS, MERGE, PODS, Cluster, Document, job, pod

NODES, DEFINITIONS = "/api/v1/nodes", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MAPS = "/api/v1/namespaces/default/configmaps"
JSON_PATCH = "application/json-patch+json"


@pytest.fixture
def cluster() -> Cluster:
    found = Cluster()
    found.create(NODES, {"metadata": {"name": "n"}})
    found.after(1)
    return found


@contextmanager
def full(cluster: Cluster, refuses: Callable[[Change], bool]) -> Iterator[None]:
    """A disk that does not take some writes."""

    def keep(change: Change) -> None:
        if refuses(change):
            raise Unwritten("full")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(cluster.server.core.store, "_persist", keep)
        yield


def things(group: str) -> str:
    return f"/apis/{group}.example.com/v1/namespaces/default/things"


def define(cluster: Cluster, group: str) -> str:
    """A kind of things; the place of its definition."""
    made = definition()
    made["metadata"]["name"] = name = f"things.{group}.example.com"
    made["spec"]["group"] = f"{group}.example.com"
    cluster.create(DEFINITIONS, made)
    return f"{DEFINITIONS}/{name}"


def make(cluster: Cluster, group: str, *names: str, **metadata: Any) -> list[Document]:
    kind = {"apiVersion": f"{group}.example.com/v1", "kind": "Thing", "spec": {"size": 1}}
    return [cluster.create(things(group), {**kind, "metadata": {"name": name, **metadata}}) for name in names]


def left(cluster: Cluster, group: str) -> list[str]:
    found = cluster.server.core.store.list(f"things.{group}.example.com").items
    return [one["metadata"]["name"] for one in found]


def fails_for(name: str, act: Any) -> Any:
    """The same, but for one object, of which it can make nothing."""

    def odd(self: Any, *more: Any) -> Any:
        if any(isinstance(one, dict) and one["metadata"]["name"] == name for one in more):
            raise ValueError(f"{name} is odd")
        return act(self, *more)

    return odd


@pytest.mark.parametrize("part", ["_job", "_budget"])
def test_a_controller_that_can_make_nothing_of_one_looks_after_all_others(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    """And the kubelet acts meanwhile; the defect is told by every step, until it is gone."""
    with monkeypatch.context() as patched:
        patched.setattr(workloads.Workloads, part, fails_for("a-odd", getattr(workloads.Workloads, part)))
        for name in ("a-odd", "b"):
            cluster.create(JOBS, job(name))
            spec = {"minAvailable": 1, "selector": {"matchLabels": {"job-name": name}}}
            cluster.create(BUDGETS, {"metadata": {"name": name}, "spec": spec})
        cluster.create(PODS, pod("p"))
        cluster.bind("p")
        for _ in range(3):
            with pytest.raises(ValueError, match="a-odd is odd"):
                cluster.after(1)
        assert cluster.phases()["p"] == "Running"
        assert cluster("GET", f"{JOBS}/b")["status"]["active"] == 1
        assert cluster("GET", f"{BUDGETS}/b")["status"]["expectedPods"] == 1
    cluster.after(1)
    assert cluster("GET", f"{JOBS}/a-odd")["status"]["active"] == 1
    assert cluster("GET", f"{BUDGETS}/a-odd")["status"]["expectedPods"] == 1


def test_a_kubelet_that_can_make_nothing_of_one_pod_runs_all_others(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(Kubelet, "_act", fails_for("a-odd", Kubelet._act))
        for name in ("a-odd", "b"):
            cluster.create(PODS, pod(name))
            cluster.bind(name)
        with pytest.raises(ValueError, match="a-odd is odd"):
            cluster.after(1)
        assert cluster.phases() == {"a-odd": "Pending", "b": "Running"}
    cluster.after(1)
    assert cluster.phases() == {"a-odd": "Running", "b": "Running"}


@pytest.mark.parametrize("said", [[{}], [{"type": "Complete"}], [{"type": "Suspended"}]])
def test_conditions_of_a_job_may_say_little(cluster: Cluster, said: list[Document]) -> None:
    cluster.create(JOBS, job("j"))
    cluster("PATCH", f"{JOBS}/j/status", {"status": {"conditions": said}}, MERGE)
    cluster.after(1)
    assert len(cluster.pods()) == 1


def test_conditions_of_a_pod_may_say_little_and_times_may_be_in_small_letters(cluster: Cluster) -> None:
    for name, status in (
        ("a", {"conditions": [{"status": "True"}]}),
        ("b", {"phase": "Running", "startTime": "2026-01-02t03:04:05z"}),
    ):
        cluster.create(PODS, pod(name, run_for="1s"))
        assert cluster("PATCH", f"{PODS}/{name}/status", {"status": status}, MERGE)["_code"] == 200
        cluster.bind(name)
    cluster.after(1)
    cluster.after(1)
    assert cluster.phases() == {"a": "Succeeded", "b": "Succeeded"}


def test_an_index_of_many_digits_is_none(cluster: Cluster) -> None:
    cluster.create(JOBS, job("j", completionMode="Indexed", parallelism=2, completions=2))
    cluster.after(1)
    first = sorted(cluster.pods())[0]
    said = {"metadata": {"annotations": {workloads.INDEX: "9" * 5000}}}
    cluster("PATCH", f"{PODS}/{first}", said, MERGE)
    cluster("PATCH", f"{PODS}/{first}/status", {"status": {"phase": "Succeeded"}}, MERGE)
    cluster.after(1)
    assert cluster("GET", f"{JOBS}/j")["status"]["succeeded"] == 1


def test_a_job_is_over_when_its_pods_were_told_to_go(cluster: Cluster) -> None:
    cluster.create(JOBS, job("j", parallelism=2, completions=2, backoffLimit=0))
    cluster.bind_all()
    failed, other = sorted(cluster.pods())
    cluster("PATCH", f"{PODS}/{failed}/status", {"status": {"phase": "Failed"}}, MERGE)
    with full(cluster, lambda change: change.key.name == other):
        cluster.after(1)
        assert "conditions" not in cluster("GET", f"{JOBS}/j")["status"]
    cluster.after(1)
    assert [one["type"] for one in cluster("GET", f"{JOBS}/j")["status"]["conditions"]] == ["FailureTarget", "Failed"]
    cluster.after(31)
    assert cluster.phases() == {failed: "Failed"}


def test_pods_of_a_job_that_nobody_takes_are_asked_for_one_at_a_time(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = job("j", parallelism=100)
    many["spec"]["template"]["spec"]["priorityClassName"] = "missing"
    cluster.create(JOBS, many)
    handle, asked = cluster.server.handle, list[str]()
    monkeypatch.setattr(cluster.server, "handle", lambda request: asked.append(request.method) or handle(request))
    cluster.running.step(cluster.now)
    assert asked.count("POST") <= 2, "once more after its status was written"


def test_a_node_that_could_not_become_ready_becomes_it_later(cluster: Cluster) -> None:
    cluster.create(NODES, {"metadata": {"name": "m"}})
    with full(cluster, lambda change: change.key.name == "m" and change.type == MODIFIED):
        cluster.after(1)
        assert not cluster("GET", f"{NODES}/m")["status"].get("conditions")
    cluster.after(1)
    assert cluster("GET", f"{NODES}/m")["status"]["conditions"][0]["type"] == "Ready"


def test_a_pod_of_a_node_that_is_gone_is_deleted_as_soon_as_it_can_be(cluster: Cluster) -> None:
    running = Running(cluster.server, orphans_after_s=40)
    cluster.create(PODS, pod("p"))
    cluster.bind("p")
    running.step(cluster.now)
    cluster("DELETE", f"{NODES}/n")
    running.step(cluster.now)
    with full(cluster, lambda change: change.type == DELETED):
        running.step(cluster.now + 41)
        assert cluster.phases() == {"p": "Running"}
    running.step(cluster.now + 42)
    assert cluster.phases() == {}


def test_a_held_pod_of_a_node_that_is_gone_is_told_once(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    running = Running(cluster.server, orphans_after_s=40)
    held = pod("p")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    cluster.create(PODS, held)
    cluster.bind("p")
    cluster("DELETE", f"{NODES}/n")
    running.step(cluster.now)
    running.step(cluster.now + 41)
    handle, asked = cluster.server.handle, list[str]()
    monkeypatch.setattr(cluster.server, "handle", lambda request: asked.append(request.method) or handle(request))
    cluster.create(PODS, pod("q"))
    running.step(cluster.now + 50)
    assert asked.count("DELETE") == 0


@pytest.mark.parametrize("policy", ["Orphan", "Foreground"])
def test_an_owner_of_many_is_let_go_a_turn_at_a_time(cluster: Cluster, policy: str) -> None:
    owner = cluster.create(MAPS, {"metadata": {"name": "owner"}})["metadata"]["uid"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner, "blockOwnerDeletion": True}
    count = 2 * garbage.MOST_WRITES + 30
    for row in range(count):
        cluster.create(MAPS, {"metadata": {"name": f"d{row}", "ownerReferences": [reference]}})
    store = cluster.server.core.store
    before = store.revision
    cluster("DELETE", f"{MAPS}/owner", {"propagationPolicy": policy})
    assert store.revision - before <= garbage.MOST_WRITES + 1
    for _ in range(4):
        cluster.server.settle()
    assert cluster.server.is_settled
    items = cluster("GET", MAPS)["items"]
    assert len(items) == (count if policy == "Orphan" else 0)
    assert not any(one["metadata"].get("ownerReferences") for one in items)


def test_a_definition_ends_though_another_used_up_the_turn(cluster: Cluster) -> None:
    places = {group: define(cluster, group) for group in ("a", "b")}
    count = 2 * garbage.MOST_WRITES
    make(cluster, "a", *(f"a{row}" for row in range(count)), finalizers=["example.com/hold"])
    make(cluster, "b", *(f"b{row}" for row in range(count)))
    cluster("DELETE", places["a"])
    while not cluster.server.is_settled:
        cluster.server.settle()
    cluster("DELETE", places["b"])
    cluster("PATCH", places["a"], {"metadata": {"finalizers": None}}, MERGE)
    while not cluster.server.is_settled:
        cluster.server.settle()
    assert left(cluster, "a") == left(cluster, "b") == []
    assert [cluster("GET", place)["_code"] for place in places.values()] == [404, 404]


@pytest.mark.parametrize("finishes", [True, False])
def test_one_thing_that_stays_keeps_only_its_definition(cluster: Cluster, finishes: bool) -> None:
    place = define(cluster, "a")
    make(cluster, "a", "t0", "t1", "t2", finalizers=None if finishes else ["example.com/hold"])
    with full(cluster, lambda change: change.key.name == "t0"):
        cluster("DELETE", place)
        if not finishes:
            cluster("PATCH", place, {"metadata": {"finalizers": None}}, MERGE)
        with pytest.raises(Unwritten):
            cluster.server.settle()
        assert left(cluster, "a") == ["t0"]
    cluster.server.settle()
    assert left(cluster, "a") == []
    assert cluster("GET", place)["_code"] == 404


def test_a_definition_whose_conditions_say_little_can_be_deleted(cluster: Cluster) -> None:
    place = define(cluster, "a")
    assert cluster("PATCH", f"{place}/status", {"status": {"conditions": [{}]}}, MERGE)["_code"] == 200
    make(cluster, "a", "t")
    assert cluster("DELETE", place)["_code"] == 200
    assert cluster("GET", place)["_code"] == 404


def test_who_is_of_a_kind_that_is_not_served_for_a_while_is_collected_afterwards(cluster: Cluster) -> None:
    place = define(cluster, "a")
    owner = cluster.create(MAPS, {"metadata": {"name": "owner"}})["metadata"]["uid"]
    by = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner}
    make(cluster, "a", "dependent", ownerReferences=[by])
    (waits,) = make(cluster, "a", "waits")
    by = {"apiVersion": "a.example.com/v1", "kind": "Thing", "name": "waits", "uid": waits["metadata"]["uid"]}
    below = {"name": "below", "ownerReferences": [{**by, "blockOwnerDeletion": True}], "finalizers": ["example.com/h"]}
    cluster.create(MAPS, {"metadata": below})
    cluster("DELETE", f"{things('a')}/waits", {"propagationPolicy": "Foreground"})

    def serve(is_served: bool) -> None:
        change = [{"op": "replace", "path": "/spec/versions/0/served", "value": is_served}]
        assert cluster("PATCH", place, change, JSON_PATCH)["_code"] == 200

    serve(False)
    cluster("DELETE", f"{MAPS}/owner")
    cluster("PATCH", f"{MAPS}/below", {"metadata": {"finalizers": None}}, MERGE)
    cluster.after(1)
    assert left(cluster, "a") == ["dependent", "waits"]
    serve(True)
    assert left(cluster, "a") == []
