"""Bound pods run, end as they are told, and go after their grace; nothing happens by itself before its time."""

import pytest

from muster.embedded.core import Verdict
from muster.embedded.mirror import seconds
from muster.embedded.running import Running
from unit.embedded.cluster import MERGE, PODS, Cluster, pod


@pytest.fixture
def cluster() -> Cluster:
    found = Cluster()
    found.create("/api/v1/nodes", {"metadata": {"name": "n"}})
    return found


def test_a_pod_runs_once_it_is_bound_and_not_before(cluster: Cluster) -> None:
    cluster.create(PODS, pod("p"))
    cluster.after(100)
    assert cluster.phases() == {"p": "Pending"}
    cluster.bind("p")
    cluster.after(0)
    running = cluster.pods()["p"]["status"]
    assert running["phase"] == "Running"
    assert {one["type"]: one["status"] for one in running["conditions"]}["Ready"] == "True"
    assert running["containerStatuses"][0]["state"]["running"]


def test_a_pod_on_a_node_that_is_not_there_never_runs(cluster: Cluster) -> None:
    cluster.create(PODS, pod("p"))
    cluster.bind("p", "elsewhere")
    cluster.after(100)
    assert cluster.phases() == {"p": "Pending"}


@pytest.mark.parametrize(("code", "phase"), [("0", "Succeeded"), ("3", "Failed")])
def test_a_pod_ends_when_and_as_its_annotations_say(cluster: Cluster, code: str, phase: str) -> None:
    cluster.create(PODS, pod("p", run_for="30s", exit=code))
    cluster.bind("p")
    assert cluster.after(0) == cluster.now + 30
    cluster.after(29)
    assert cluster.phases() == {"p": "Running"}
    assert cluster.after(1) is None
    status = cluster.pods()["p"]["status"]
    assert status["phase"] == phase
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == int(code)


def test_a_slow_pod_starts_after_the_time_that_it_says(cluster: Cluster) -> None:
    cluster.create(PODS, pod("p", start_after="1m"))
    cluster.bind("p")
    assert cluster.after(0) == cluster.now + 60
    cluster.after(59)
    assert cluster.phases() == {"p": "Pending"}
    cluster.after(1)
    assert cluster.phases() == {"p": "Running"}


def test_a_deleted_pod_goes_after_its_grace_and_not_before(cluster: Cluster) -> None:
    cluster.create(PODS, pod("p"))
    cluster.bind("p")
    cluster.after(0)
    cluster("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 7})
    assert cluster.after(6) == cluster.now + 1
    assert cluster.phases() == {"p": "Running"}
    cluster.after(1)
    assert cluster.phases() == {}


def test_nobody_acts_on_a_node_whose_kubelet_is_stopped(cluster: Cluster) -> None:
    body = {"metadata": {"annotations": {"embedded.muster.dev/kubelet": "stopped"}}}
    cluster("PATCH", "/api/v1/nodes/n", body, MERGE)
    cluster.create(PODS, pod("p"))
    cluster.bind("p")
    cluster.after(100)
    assert cluster.phases() == {"p": "Pending"}
    cluster("DELETE", f"{PODS}/p")
    cluster.after(100)
    assert cluster.phases() == {"p": "Pending"}


def test_a_node_that_says_nothing_becomes_ready_and_one_that_does_is_left_alone(cluster: Cluster) -> None:
    away = {"type": "Ready", "status": "False", "reason": "Gone"}
    cluster.create("/api/v1/nodes", {"metadata": {"name": "m"}, "status": {"conditions": [away]}})
    cluster.after(0)
    found = {
        node["metadata"]["name"]: node["status"]["conditions"][0]["status"]
        for node in cluster("GET", "/api/v1/nodes")["items"]
    }
    assert found == {"n": "True", "m": "False"}


def test_a_kubelet_that_is_started_again_acts_on_what_waited(cluster: Cluster) -> None:
    stopped = {"metadata": {"annotations": {"embedded.muster.dev/kubelet": "stopped"}}}
    cluster("PATCH", "/api/v1/nodes/n", stopped, MERGE)
    cluster.create(PODS, pod("p"))
    cluster.bind("p")
    cluster.after(0)
    cluster("PATCH", "/api/v1/nodes/n", {"metadata": {"annotations": None}}, MERGE)
    cluster.after(0)
    assert cluster.phases() == {"p": "Running"}


def test_a_pod_of_the_same_name_is_another_one(cluster: Cluster) -> None:
    """Its time begins anew, also when nobody looked in between."""
    cluster.create(PODS, pod("p", run_for="30s"))
    cluster.bind("p")
    cluster.after(20)
    cluster("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 0})
    cluster.create(PODS, pod("p", run_for="30s"))
    cluster.bind("p")
    assert cluster.after(5) == cluster.now + 30


def test_after_a_restart_a_pod_that_runs_is_not_started_again(cluster: Cluster) -> None:
    cluster.create(PODS, pod("p", start_after="5s", run_for="30s"))
    cluster.bind("p")
    cluster.after(0)
    cluster.after(5)
    again = Running(cluster.server)
    assert again.step(cluster.now + 10) == cluster.now + 30


def test_what_is_refused_is_tried_again(cluster: Cluster) -> None:
    """Somebody objects to the status of a pod for a while."""
    cluster.create(PODS, pod("p"))
    cluster.bind("p")
    cluster.server.core.reviews = [lambda asked: Verdict("not now") if asked.target.subresource else Verdict()]
    cluster.after(1)
    assert cluster.phases() == {"p": "Pending"}
    cluster.server.core.reviews = []
    cluster.after(1)
    assert cluster.phases() == {"p": "Running"}


def test_forgotten_history_keeps_nothing_from_the_kubelet(cluster: Cluster) -> None:
    cluster.create(PODS, pod("p"))
    cluster.bind("p")
    cluster.server.core.store.compact(cluster.server.core.store.revision)
    cluster.after(0)
    assert cluster.phases() == {"p": "Running"}


def test_a_step_without_anything_to_do_asks_nobody(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.create(PODS, pod("p", run_for="30s"))
    cluster.bind("p")
    due = cluster.after(0)
    monkeypatch.setattr(cluster.server, "handle", None)
    assert cluster.after(10) == due


def test_pods_of_a_node_that_is_gone_go_after_a_while_where_somebody_collects_them(cluster: Cluster) -> None:
    running = Running(cluster.server, orphans_after_s=40)
    for name in ("p", "q"):
        cluster.create(PODS, pod(name))
    cluster.bind("p")
    running.step(cluster.now)
    cluster("DELETE", "/api/v1/nodes/n")
    assert running.step(cluster.now) == cluster.now + 40
    running.step(cluster.now + 39)
    assert cluster.phases() == {"p": "Running", "q": "Pending"}
    assert running.step(cluster.now + 40) is None
    assert cluster.phases() == {"q": "Pending"}


def test_a_node_that_comes_back_in_time_keeps_its_pods(cluster: Cluster) -> None:
    running = Running(cluster.server, orphans_after_s=40)
    cluster.create(PODS, pod("p"))
    cluster.bind("p")
    running.step(cluster.now)
    cluster("DELETE", "/api/v1/nodes/n")
    running.step(cluster.now + 1)
    cluster.create("/api/v1/nodes", {"metadata": {"name": "n"}})
    running.step(cluster.now + 30)
    running.step(cluster.now + 100)
    assert cluster.phases() == {"p": "Running"}


@pytest.mark.parametrize(
    ("text", "value"),
    [("30s", 30), ("1m30s", 90), ("250ms", 0.25), ("1.5h", 5400), ("", None), ("5", None), ("x5s", None)],
)
def test_durations(text: str, value: float | None) -> None:
    assert seconds(text) == value


@pytest.mark.parametrize(
    ("said", "named"),
    [
        ({"run_for": "2"}, "run-for is '2', and no duration such as 30s"),
        ({"run_for": "soon"}, "run-for is 'soon'"),
        ({"start_after": "1d"}, "start-after is '1d'"),
        ({"run_for": "9h", "exit": "-1"}, "exit is '-1', and no exit code"),
        ({"run_for": "30s", "start_after": "0s", "exit": "3"}, ""),
    ],
)
def test_an_annotation_that_can_not_be_read_is_a_warning_at_the_pod(
    cluster: Cluster, said: dict[str, str], named: str
) -> None:
    """Once, and the pod runs as if nothing was said."""
    cluster.create(PODS, pod("p", **said))
    cluster.bind("p")
    cluster.after(0)
    cluster.after(1)
    assert cluster.phases() == {"p": "Running"}
    events = cluster("GET", "/api/v1/namespaces/default/events")["items"]
    assert len(events) == bool(named)
    for event in events:
        assert (event["type"], event["reason"]) == ("Warning", "UnreadableAnnotation")
        assert named in event["message"]
        assert event["involvedObject"]["uid"] == cluster.pods()["p"]["metadata"]["uid"]
