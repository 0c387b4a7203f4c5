"""Jobs run to their end, StatefulSets keep their replicas in order, budgets count what may go."""

from itertools import pairwise
from typing import Any

import pytest

from muster.embedded.objects import timestamp
from muster.embedded.store import Change, Key, Unwritten
from muster.embedded.workloads import _ranges
from unit.embedded.cluster import BUDGETS, JOBS, MERGE, PODS, SETS, Cluster, Document, job, pod, stateful_set


@pytest.fixture
def cluster() -> Cluster:
    found = Cluster()
    found.create("/api/v1/nodes", {"metadata": {"name": "n"}})
    return found


def conditions(document: dict[str, Any]) -> dict[str, str]:
    return {one["type"]: one["status"] for one in document["status"].get("conditions") or ()}


def test_a_job_makes_as_many_pods_as_it_may_and_ends_when_all_are_done(cluster: Cluster) -> None:
    cluster.create(JOBS, job("j", "10s", parallelism=2, completions=3))
    cluster.bind_all()
    assert len(cluster.pods()) == 2
    owners = [one["metadata"]["ownerReferences"][0] for one in cluster.pods().values()]
    assert all(one["kind"] == "Job" and one["controller"] for one in owners)
    cluster.after(10)
    cluster.bind_all()
    assert sorted(cluster.phases().values()) == ["Running", "Succeeded", "Succeeded"]
    assert conditions(cluster("GET", f"{JOBS}/j")) == {}
    cluster.after(10)
    done = cluster("GET", f"{JOBS}/j")
    assert conditions(done) == {"SuccessCriteriaMet": "True", "Complete": "True"}
    assert done["status"]["succeeded"] == 3
    assert "active" not in done["status"]


def test_a_job_fails_after_its_limit_of_failures(cluster: Cluster) -> None:
    cluster.create(JOBS, job("j", "10s", "1", backoffLimit=1))
    for _ in range(2):
        cluster.bind_all()
        cluster.after(10)
    failed = cluster("GET", f"{JOBS}/j")
    assert conditions(failed)["Failed"] == "True"
    assert failed["status"]["failed"] == 2
    cluster.after(100)
    assert sorted(cluster.phases().values()) == ["Failed", "Failed"]


def test_a_job_with_a_limit_for_each_index_comes_to_an_end(cluster: Cluster) -> None:
    """Its own limit is as good as none: the server writes the highest number."""
    spec = {"completionMode": "Indexed", "parallelism": 2, "completions": 2, "backoffLimitPerIndex": 1}
    assert cluster.create(JOBS, job("j", "1s", "1", **spec))["spec"]["backoffLimit"] == 2**31 - 1
    for _ in range(10):
        cluster.bind_all()
        cluster.after(1)
    found = cluster("GET", f"{JOBS}/j")
    assert conditions(found) == {"FailureTarget": "True", "Failed": "True"}
    assert found["status"]["failed"] in (7, 8)


def test_an_indexed_job_gives_each_index_once(cluster: Cluster) -> None:
    cluster.create(JOBS, job("j", "10s", parallelism=3, completions=3, completionMode="Indexed"))
    cluster.bind_all()
    label = "batch.kubernetes.io/job-completion-index"
    assert sorted(one["metadata"]["annotations"][label] for one in cluster.pods().values()) == ["0", "1", "2"]
    assert "completedIndexes" not in cluster("GET", f"{JOBS}/j")["status"]
    cluster.after(0)
    cluster.after(10)
    assert cluster("GET", f"{JOBS}/j")["status"]["completedIndexes"] == "0-2"


@pytest.mark.parametrize(
    ("numbers", "said"),
    [(set(), ""), ({3}, "3"), ({4, 5}, "4-5"), ({0, 1, 2, 4, 7, 8}, "0-2,4,7-8"), ({10, 9}, "9-10")],
)
def test_indices_are_said_in_ranges(numbers: set[int], said: str) -> None:
    assert _ranges(numbers) == said


def test_a_job_that_is_suspended_has_no_pods(cluster: Cluster) -> None:
    cluster.create(JOBS, job("j", parallelism=2))
    cluster.bind_all()
    assert len(cluster.pods()) == 2
    cluster("PATCH", f"{JOBS}/j", {"spec": {"suspend": True}}, MERGE)
    cluster.after(0)
    cluster.after(31)
    assert cluster.pods() == {}
    status = cluster("GET", f"{JOBS}/j")["status"]
    assert "startTime" not in status
    (said,) = status["conditions"]
    assert (said["type"], said["status"], said["reason"]) == ("Suspended", "True", "JobSuspended")
    since = said["lastTransitionTime"]
    cluster.after(5)
    assert cluster("GET", f"{JOBS}/j")["status"]["conditions"][0]["lastTransitionTime"] == since
    cluster("PATCH", f"{JOBS}/j", {"spec": {"suspend": False}}, MERGE)
    cluster.after(0)
    status = cluster("GET", f"{JOBS}/j")["status"]
    (said,) = status["conditions"]
    assert (said["type"], said["status"], said["reason"]) == ("Suspended", "False", "JobResumed")
    assert said["lastTransitionTime"] == status["startTime"]
    assert len(cluster.pods()) == 2


def test_an_evicted_pod_of_a_job_is_made_again(cluster: Cluster) -> None:
    cluster.create(JOBS, job("j"))
    cluster.bind_all()
    (name,) = cluster.pods()
    assert cluster("POST", f"{PODS}/{name}/eviction", {"metadata": {"name": name}})["_code"] == 201
    cluster.after(0)
    cluster.after(31)
    assert len(cluster.pods()) == 1
    assert name not in cluster.pods()


def test_a_stateful_set_starts_one_pod_after_the_other(cluster: Cluster) -> None:
    cluster.create(SETS, stateful_set("s", 3))
    cluster.after(0)
    assert list(cluster.pods()) == ["s-0"]
    cluster.bind("s-0")
    cluster.after(0)
    assert list(cluster.pods()) == ["s-0", "s-1"]
    cluster.bind_all()
    assert cluster("GET", f"{SETS}/s")["status"]["readyReplicas"] == 3


def test_a_parallel_stateful_set_starts_all_at_once_and_scales_down_from_the_top(cluster: Cluster) -> None:
    cluster.create(SETS, stateful_set("s", 3, podManagementPolicy="Parallel"))
    cluster.after(0)
    assert list(cluster.pods()) == ["s-0", "s-1", "s-2"]
    cluster("PATCH", f"{SETS}/s/scale", {"spec": {"replicas": 1}}, MERGE)
    cluster.after(0)
    assert list(cluster.pods()) == ["s-0"]


def test_a_budget_allows_what_is_above_its_minimum(cluster: Cluster) -> None:
    cluster.create(SETS, stateful_set("s", 3))
    spec = {"minAvailable": 2, "selector": {"matchLabels": {"set": "s"}}}
    cluster.create(BUDGETS, {"metadata": {"name": "b"}, "spec": spec})
    cluster.bind_all()
    status = cluster("GET", f"{BUDGETS}/b")["status"]
    assert (status["disruptionsAllowed"], status["currentHealthy"], status["desiredHealthy"]) == (1, 3, 2)
    assert cluster("POST", f"{PODS}/s-0/eviction", {"metadata": {"name": "s-0"}})["_code"] == 201
    assert cluster("POST", f"{PODS}/s-1/eviction", {"metadata": {"name": "s-1"}})["_code"] == 429
    cluster.after(0)
    cluster.after(31)
    cluster.bind_all()
    assert cluster("GET", f"{BUDGETS}/b")["status"]["disruptionsAllowed"] == 1


def test_an_eviction_that_came_to_nothing_is_charged_for_two_minutes(cluster: Cluster) -> None:
    """As a real one does it: the budget is charged before it is seen whether this is the pod that was meant."""
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": {"set": "s"}}}
    cluster.create(BUDGETS, {"metadata": {"name": "b"}, "spec": spec})
    cluster.create(SETS, stateful_set("s", 2))
    cluster.bind_all()
    other = {"preconditions": {"uid": "11111111-2222-3333-4444-555555555555"}}
    body = {"metadata": {"name": "s-0"}, "deleteOptions": other}
    assert cluster("POST", f"{PODS}/s-0/eviction", body)["_code"] == 409
    start = cluster.now
    assert cluster.after(0) == start + 120
    assert cluster.after(119) == start + 120
    status = cluster("GET", f"{BUDGETS}/b")["status"]
    assert (list(status["disruptedPods"]), status["currentHealthy"], status["disruptionsAllowed"]) == (["s-0"], 1, 0)
    assert cluster("POST", f"{PODS}/s-1/eviction", {"metadata": {"name": "s-1"}})["_code"] == 429
    assert cluster.after(1) is None
    status = cluster("GET", f"{BUDGETS}/b")["status"]
    assert ("disruptedPods" in status, status["currentHealthy"], status["disruptionsAllowed"]) == (False, 2, 1)
    assert cluster("POST", f"{PODS}/s-1/eviction", {"metadata": {"name": "s-1"}})["_code"] == 201


def test_nothing_is_due_for_a_budget_that_has_gone(cluster: Cluster) -> None:
    cluster.create(BUDGETS, {"metadata": {"name": "b"}, "spec": {"selector": {"matchLabels": {"set": "s"}}}})
    cluster.create(SETS, stateful_set("s", 1))
    cluster.bind_all()
    disrupted = {"disruptedPods": {"s-0": timestamp(cluster.now)}}
    assert cluster("PATCH", f"{BUDGETS}/b/status", {"status": disrupted}, MERGE)["_code"] == 200
    assert cluster.after(0) == cluster.now + 120
    cluster("DELETE", f"{BUDGETS}/b")
    assert cluster.after(0) is None


@pytest.mark.parametrize(
    ("spec", "desired"), [({"maxUnavailable": 1}, 3), ({"maxUnavailable": "50%"}, 2), ({"minAvailable": "30%"}, 2)]
)
def test_a_budget_may_be_a_share(cluster: Cluster, spec: dict[str, Any], desired: int) -> None:
    cluster.create(SETS, stateful_set("s", 4, podManagementPolicy="Parallel"))
    cluster.create(BUDGETS, {"metadata": {"name": "b"}, "spec": {**spec, "selector": {"matchLabels": {"set": "s"}}}})
    cluster.bind_all()
    assert cluster("GET", f"{BUDGETS}/b")["status"]["desiredHealthy"] == desired


@pytest.mark.parametrize("resource", ["pods", "jobs.batch", "poddisruptionbudgets.policy"])
def test_what_the_controllers_could_not_write_is_written_when_there_is_room(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, resource: str
) -> None:
    """With the next step, though nothing else changes: pods made and deleted, and what a status says."""
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": {"job-name": "j"}}}
    cluster.create(BUDGETS, {"metadata": {"name": "b"}, "spec": spec})
    cluster.create(JOBS, job("j", parallelism=2))
    store, persist = cluster.server.core.store, cluster.server.core.store._persist

    def full(change: Change) -> None:
        if change.key.resource == resource:
            raise Unwritten("full")
        persist(change)

    def seen() -> tuple[int, int, int]:
        status = [cluster("GET", path).get("status") or {} for path in (f"{JOBS}/j", f"{BUDGETS}/b")]
        return len(cluster.pods()), status[0].get("active", 0), status[1].get("expectedPods", 0)

    for parallelism in (2, 1):
        cluster("PATCH", f"{JOBS}/j", {"spec": {"parallelism": parallelism}}, MERGE)
        with monkeypatch.context() as patched:
            patched.setattr(store, "_persist", full)
            for _ in range(2):
                cluster.after(60)
            assert cluster.running.trouble
            assert seen() != (parallelism,) * 3
        cluster.after(60)
        assert seen() == (parallelism,) * 3
        assert not cluster.running.trouble


def test_a_stateful_set_takes_over_the_pods_that_another_of_its_name_left_behind(cluster: Cluster) -> None:
    cluster.create(SETS, stateful_set("s", 2))
    for _ in range(2):
        cluster.bind_all()
    before = {name: one["metadata"]["uid"] for name, one in cluster.pods().items()}
    assert cluster("DELETE", f"{SETS}/s", {"propagationPolicy": "Orphan"})["_code"] == 200
    assert not any("ownerReferences" in one["metadata"] for one in cluster.pods().values())
    new = cluster.create(SETS, stateful_set("s", 2))
    cluster.after(0)
    cluster.after(0)
    assert {name: one["metadata"]["uid"] for name, one in cluster.pods().items()} == before
    for one in cluster.pods().values():
        (owner,) = one["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"]) == (new["metadata"]["uid"], True)
    assert cluster("GET", f"{SETS}/s")["status"]["readyReplicas"] == 2


def test_a_stateful_set_takes_over_only_what_has_its_labels_and_no_controller(cluster: Cluster) -> None:
    other = {"apiVersion": "v1", "kind": "Other", "name": "o", "uid": "u", "controller": True}
    for name, labels, owners in (
        ("s-0", {"set": "t"}, []),
        ("s-1", {"set": "s"}, [other]),
        ("s-2", {"set": "s"}, [{**other, "controller": False}]),
        ("s-x", {"set": "s"}, []),
    ):
        body = pod(name)
        body["metadata"] |= {"labels": labels, "ownerReferences": owners}
        cluster.create(PODS, body)
    cluster.create(SETS, stateful_set("s", 3, podManagementPolicy="Parallel"))
    cluster.after(0)
    owners = {name: one["metadata"].get("ownerReferences") or [] for name, one in cluster.pods().items()}
    assert {name: [one["kind"] for one in each] for name, each in owners.items()} == {
        "s-0": [],
        "s-1": ["Other"],
        "s-2": ["Other", "StatefulSet"],
        "s-x": [],
    }
    # One that loses its controller, or gets the labels, is taken over then.
    cluster("PATCH", f"{PODS}/s-0", {"metadata": {"labels": {"set": "s"}}}, MERGE)
    cluster("PATCH", f"{PODS}/s-1", {"metadata": {"ownerReferences": None}}, MERGE)
    cluster.after(0)
    found = cluster.pods()
    assert [found[name]["metadata"]["ownerReferences"][0]["kind"] for name in ("s-0", "s-1")] == ["StatefulSet"] * 2


@pytest.mark.parametrize(
    ("path", "body"),
    [
        pytest.param(JOBS, job("many", parallelism=500, completions=500), id="a Job"),
        pytest.param(
            JOBS, job("many", parallelism=500, completions=500, completionMode="Indexed"), id="an Indexed Job"
        ),
        pytest.param(SETS, stateful_set("many", replicas=500, podManagementPolicy="Parallel"), id="a StatefulSet"),
    ],
)
def test_many_pods_are_made_some_at_a_time(path: str, body: Document) -> None:
    """Others have a turn in between; the rest is due at once."""
    cluster = Cluster()
    cluster.create(path, body)
    counts = []
    while not counts or counts[-1] < 500:
        assert cluster.after(0) in (cluster.now, None)
        counts.append(len(cluster.pods()))
        assert len(counts) < 10
    assert max(after - before for before, after in pairwise([0, *counts])) <= 200
    assert cluster("DELETE", f"{path}/many", {"propagationPolicy": "Background"})["_code"] == 200
    assert 300 <= len(cluster.pods()) < 500
    while cluster.after(0) is not None:
        pass
    assert cluster.pods() == {}


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [(JOBS, job("many", parallelism=10_001), "parallelism"), (SETS, stateful_set("many", replicas=10_001), "replicas")],
)
def test_more_pods_than_anybody_makes_here_are_refused(path: str, body: Document, field: str) -> None:
    cluster = Cluster()
    refused = cluster("POST", path, body)
    assert refused["_code"] == 422
    assert f"spec.{field}: Invalid value: 10001: must be less than or equal to 10000" in refused["message"]
    body["spec"][field] = 1
    cluster.create(path, body)
    assert cluster("PATCH", f"{path}/many", {"spec": {field: 2_000_000_000}}, MERGE)["_code"] == 422
    if path == SETS:
        assert cluster("PATCH", f"{path}/many/scale", {"spec": {"replicas": 2_000_000_000}}, MERGE)["_code"] == 422


def test_who_had_more_before_can_still_be_changed_and_deleted() -> None:
    """A file of before may have such a Job: it is looked after, and goes."""
    cluster = Cluster()
    cluster.create(JOBS, job("many", parallelism=1))
    store, key = cluster.server.core.store, Key("jobs.batch", "default", "many")
    document = store.get(key) or {}
    store.replace(key, {**document, "spec": {**document["spec"], "parallelism": 2**31 - 1, "completions": None}}, None)
    cluster.after(1)
    assert 0 < len(cluster.pods()) < 2000
    assert cluster("PATCH", f"{JOBS}/many", {"metadata": {"labels": {"a": "b"}}}, MERGE)["_code"] == 200
    assert cluster("DELETE", f"{JOBS}/many", {"propagationPolicy": "Background"})["_code"] == 200
    cluster.after(1)
    assert cluster.pods() == {}


def test_a_set_of_more_replicas_than_fit_in_memory_is_looked_after() -> None:
    cluster = Cluster()
    cluster.create(SETS, stateful_set("many", replicas=1))
    store, key = cluster.server.core.store, Key("statefulsets.apps", "default", "many")
    document = store.get(key) or {}
    store.replace(key, {**document, "spec": {**document["spec"], "replicas": 2**31 - 1}}, None)
    cluster.after(1)
    assert list(cluster.pods()) == ["many-0"]
