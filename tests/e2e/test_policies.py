"""The policies of an installation on a real API server: what tenants may not write, and what muster may not."""

import itertools
import os
import string
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.plane import MERGE_PATCH, ControlPlane, Requests, gate, wait_until
from e2e.plane.access import Answer
from unit.serve.tenants import ADMIN, MARK, MUSTER, PODS, TENANT, binding, play, pod

gate.require()

BIN = Path(sys.executable).parent
SPACE = "muster-system"
APPLY = ("apply", "--server-side", "--validate=strict")
ACCOUNT = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "tenant", "namespace": "default"}}
GANGS = "/apis/scheduling.run.ai/v2alpha2/namespaces/default/podgroups"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
Asked = Any


def muster(*args: str) -> str:
    return subprocess.run([BIN / "muster", *args], capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def plane(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    """A control plane with everything but the webhook, and a tenant with the role edit in one namespace."""
    gate.obtain(request.config)
    with ControlPlane(controllers=True) as started:
        started.kubectl(*APPLY, "-f", "-", stdin=muster("crds"))
        started.kubectl("wait", "crd", "--all", "--for=condition=Established", "--timeout=30s")
        started.kubectl(*APPLY, "-f", "-", stdin=muster("manifests", "--without", "webhook", "--ignore-budgets"))
        started.kubectl("-n", "default", "create", "serviceaccount", "tenant")
        bound = ("create", "rolebinding", "tenant", "--clusterrole=edit", "--serviceaccount=default:tenant")
        started.kubectl("-n", "default", *bound)
        yield started


@pytest.fixture(scope="module")
def asked(plane: ControlPlane) -> Asked:
    """Asks as somebody, once the policies are in force."""
    tokens = {TENANT: ("default", "tenant"), MUSTER: (SPACE, "muster")}
    callers = {who: Requests(plane.url, plane.ca, token=plane.service_account_token(*of)) for who, of in tokens.items()}

    def ask(who: str, method: str, path: str, body: Any = None) -> Answer:
        args = (method, path, body, *([MERGE_PATCH] if method == "PATCH" else []))
        return plane.request(*args) if who == ADMIN else callers[who](*args)

    def in_force() -> bool:
        forged = ask(ADMIN, "POST", f"{PODS}?dryRun=All", pod("forged", mark="q/u"))
        event = ask(MUSTER, "POST", f"{EVENTS}?dryRun=All", an_event("other"))
        return forged.status == 422 and event.status == 422

    wait_until(in_force, 30, "the policies")
    wait_until(lambda: ask(TENANT, "GET", GANGS).status == 200, 30, "the aggregated role")
    return ask


def an_event(controller: str) -> dict[str, Any]:
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"generateName": "e-"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "type": "Normal",
        "reason": "R",
        "action": "A",
        "note": "n",
        "reportingController": controller,
        "reportingInstance": "i",
        "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
    }


def test_the_policies_mean_something_to_the_server(plane: ControlPlane, asked: Asked) -> None:
    """Every expression compiles, and none is doubtful."""
    path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
    said = {one["metadata"]["name"]: one.get("status", {}) for one in plane.request("GET", path).body["items"]}
    assert said.keys() >= {"muster-admitted", "muster-pods", "muster-podgroups", "muster-events", "muster-deletions"}
    assert [one["typeChecking"] for one in said.values() if one.get("typeChecking", {}).get("expressionWarnings")] == []


def test_marks_and_membership_are_for_muster_to_write(asked: Asked) -> None:
    """The steps that the embedded server is asked, too."""

    def ask(who: str, method: str, path: str, body: Any) -> tuple[int, Any]:
        answer = asked(who, method, path, body)
        return answer.status, answer.body

    assert play(ask) == []


def test_the_mark_of_a_binding_stays_with_the_pod(asked: Asked) -> None:
    """Whatever else is written to it, until it is gone."""
    assert asked(TENANT, "POST", PODS, pod("kept")).status == 201
    assert asked(MUSTER, "POST", f"{PODS}/kept/binding", binding("kept", "team/uid")).status == 201
    assert asked(ADMIN, "PATCH", f"{PODS}/kept/status", {"status": {"phase": "Running"}}).status == 200
    assert asked(TENANT, "PATCH", f"{PODS}/kept", {"metadata": {"labels": {"a": "b"}}}).status == 200
    assert asked(TENANT, "DELETE", f"{PODS}/kept").status == 200
    found = asked(TENANT, "GET", f"{PODS}/kept").body
    assert found["metadata"]["annotations"][MARK] == "team/uid"
    assert found["metadata"]["deletionTimestamp"]


OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "0"}


def _meta(**more: Any) -> dict[str, Any]:
    return {"metadata": more}


@pytest.mark.parametrize(
    ("body", "taken"),
    [
        pytest.param(_meta(labels={"kai.scheduler/subgroup-name": "a", "muster.dev/x": "y"}), True, id="its labels"),
        pytest.param(_meta(annotations={"pod-group-name": "g", "kai.scheduler/x": "y"}), True, id="its annotations"),
        pytest.param(_meta(labels={"app": "x"}), False, id="a label"),
        pytest.param(_meta(labels={"tenant": None}), False, id="a label that goes"),
        pytest.param(_meta(annotations={"example.com/x": "y"}), False, id="an annotation"),
        pytest.param(_meta(ownerReferences=[OWNER]), False, id="an owner"),
        pytest.param(_meta(finalizers=["example.com/wait"]), False, id="a finalizer"),
        pytest.param({"spec": {"activeDeadlineSeconds": 1}}, False, id="a deadline"),
        pytest.param({"spec": {"containers": [{"name": "main", "image": "other"}]}}, False, id="an image"),
    ],
)
def test_what_muster_may_change_of_a_pod(asked: Asked, body: Any, taken: bool) -> None:
    made = pod("guarded")
    made["metadata"]["labels"]["tenant"] = "yes"
    assert asked(TENANT, "POST", PODS, made).status in (201, 409)
    answer = asked(MUSTER, "PATCH", f"{PODS}/guarded?dryRun=All", body)
    assert (answer.status == 200) == taken, answer.body
    assert taken or "ValidatingAdmissionPolicy 'muster-pods'" in answer.body["message"]
    assert asked(ADMIN, "PATCH", f"{PODS}/guarded?dryRun=All", _meta(labels={"app": "x"})).status == 200


def _condition(kind: str, status: str = "False") -> dict[str, Any]:
    return {"type": kind, "status": status, "reason": "R", "message": "m"}


READY = _condition("Ready", "True")


@pytest.mark.parametrize(
    ("body", "taken"),
    [
        pytest.param({"status": {"nominatedNodeName": "n1"}}, True, id="a nomination"),
        pytest.param({"status": {"conditions": [READY, _condition("PodScheduled")]}}, True, id="scheduled"),
        pytest.param({"status": {"conditions": [READY, _condition("muster.dev/Accepted")]}}, True, id="accepted"),
        pytest.param({"status": {"conditions": [READY, _condition("DisruptionTarget")]}}, True, id="disrupted"),
        pytest.param({"status": {"conditions": [_condition("Ready")]}}, False, id="ready"),
        pytest.param({"status": {"conditions": []}}, False, id="no conditions"),
        pytest.param({"status": {"phase": "Succeeded"}}, False, id="a phase"),
        pytest.param({"status": {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]}}, False, id="an address"),
        pytest.param(_meta(labels={"app": "x"}), False, id="a label"),
    ],
)
def test_what_muster_may_change_of_the_status_of_a_pod(asked: Asked, body: Any, taken: bool) -> None:
    assert asked(TENANT, "POST", PODS, pod("watched")).status in (201, 409)
    assert asked(ADMIN, "PATCH", f"{PODS}/watched/status", {"status": {"conditions": [READY]}}).status == 200
    answer = asked(MUSTER, "PATCH", f"{PODS}/watched/status?dryRun=All", body)
    assert (answer.status == 200) == taken, answer.body
    assert taken or "ValidatingAdmissionPolicy 'muster-pods'" in answer.body["message"]


@pytest.mark.parametrize(
    ("name", "scheduler", "bound", "taken"),
    [
        pytest.param("ours", "kai-scheduler", True, True, id="admitted"),
        pytest.param("waiting", "kai-scheduler", False, False, id="not admitted"),
        pytest.param("foreign", "other-scheduler", False, False, id="of another scheduler"),
    ],
)
def test_which_pods_muster_may_delete(asked: Asked, name: str, scheduler: str, bound: bool, taken: bool) -> None:
    """Where it may delete any: for queues that ignore disruption budgets."""
    made = pod(f"deleted-{name}")
    made["spec"]["schedulerName"] = scheduler
    path = f"{PODS}/deleted-{name}"
    assert asked(TENANT, "POST", PODS, made).status == 201
    if bound:
        assert asked(MUSTER, "POST", f"{path}/binding", binding(f"deleted-{name}", "team/uid")).status == 201
    answer = asked(MUSTER, "DELETE", path)
    assert (answer.status == 200) == taken, answer.body
    assert taken or "ValidatingAdmissionPolicy 'muster-deletions'" in answer.body["message"]
    many = asked(MUSTER, "DELETE", f"{PODS}?labelSelector=none")
    assert many.status == 403


def gang(name: str, **annotations: str) -> dict[str, Any]:
    metadata = {"name": name, "annotations": annotations}
    return {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": metadata,
        "spec": {"minMember": 1},
    }


@pytest.mark.parametrize(
    ("name", "body", "taken"),
    [
        pytest.param("derived", {"spec": {"minMember": 2}}, True, id="the spec of one that it made"),
        pytest.param("derived", _meta(annotations={"kai.scheduler/x": "y"}), True, id="its annotations"),
        pytest.param("derived", _meta(ownerReferences=[OWNER]), True, id="the owner of one without"),
        pytest.param("derived", _meta(finalizers=["example.com/wait"]), False, id="a finalizer"),
        pytest.param("written", _meta(annotations={"kai.scheduler/kept-room": None}), True, id="older kept room goes"),
        pytest.param("written", {"spec": {"queue": "other"}}, False, id="the queue of another's"),
        pytest.param("written", _meta(labels={"a": "b"}), False, id="a label of another's"),
        pytest.param("written", _meta(ownerReferences=[OWNER]), False, id="an owner of another's"),
        pytest.param(
            "written",
            {**_meta(annotations={"kai.scheduler/top-owner-metadata": "x"}), "spec": {"queue": "x"}},
            False,
            id="one that it takes over",
        ),
    ],
)
def test_what_muster_may_change_of_a_gang(asked: Asked, name: str, body: Any, taken: bool) -> None:
    """Where it stands that muster made it, it may; what its author wrote stays."""
    said = {"derived": {"kai.scheduler/top-owner-metadata": "x"}, "written": {"kai.scheduler/kept-room": "[]"}}
    assert asked(ADMIN, "POST", GANGS, gang(name, **said[name])).status in (201, 409)
    answer = asked(MUSTER, "PATCH", f"{GANGS}/{name}?dryRun=All", body)
    assert (answer.status == 200) == taken, answer.body
    assert taken or "ValidatingAdmissionPolicy 'muster-podgroups'" in answer.body["message"]


@pytest.mark.parametrize(("name", "taken"), [("derived", True), ("written", False)])
def test_muster_deletes_gangs_that_it_made_and_no_others(asked: Asked, name: str, taken: bool) -> None:
    """A deleted PodGroup leaves its pods without protection."""
    said = {"derived": {"kai.scheduler/top-owner-metadata": "x"}, "written": {}}
    assert asked(ADMIN, "POST", GANGS, gang(f"going-{name}", **said[name])).status == 201
    answer = asked(MUSTER, "DELETE", f"{GANGS}/going-{name}")
    assert (answer.status == 200) == taken, answer.body
    assert taken or "ValidatingAdmissionPolicy 'muster-podgroups'" in answer.body["message"]


@pytest.mark.parametrize(("count", "may_mark"), [(60_000, True), (87_000, False)])
def test_no_annotations_of_its_owner_keep_a_pod_from_what_it_is_told(asked: Asked, count: int, may_mark: bool) -> None:
    """An API server takes 256 KiB of them, and limits what a policy computes: with that many a pod can't be grouped any
    more, but it can be nominated, and be told that it goes.
    """
    made = pod(f"filled-{count}")
    keys = map("".join, itertools.product(string.ascii_letters, repeat=3))
    made["metadata"]["annotations"] = dict.fromkeys(itertools.islice(keys, count), "")
    assert asked(TENANT, "POST", PODS, made).status == 201
    path = f"{PODS}/filled-{count}"
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    for status in ({"conditions": [condition]}, {"nominatedNodeName": "n"}):
        answer = asked(MUSTER, "PATCH", f"{path}/status?dryRun=All", {"status": status})
        assert answer.status == 200, answer.body
    answer = asked(MUSTER, "PATCH", f"{path}?dryRun=All", _meta(annotations={"muster.dev/admitted": "team/uid"}))
    assert (answer.status == 200) == may_mark, answer.body


def test_muster_writes_its_own_events_and_no_others(asked: Asked) -> None:
    made = asked(MUSTER, "POST", EVENTS, an_event("muster.dev/scheduler"))
    assert made.status == 201, made.body
    series = {"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z"}}
    assert asked(MUSTER, "PATCH", f"{EVENTS}/{made.body['metadata']['name']}", series).status == 200
    theirs = asked(ADMIN, "POST", EVENTS, an_event("kubelet")).body["metadata"]["name"]
    refused = asked(MUSTER, "PATCH", f"{EVENTS}/{theirs}", series)
    assert (refused.status, "muster-events" in refused.body["message"]) == (422, True)


def test_what_an_older_version_bound_is_adopted_under_the_policies(
    plane: ControlPlane, asked: Asked, tmp_path: Path
) -> None:
    """The process with the rights of its account marks what runs, and notes in its Lease that this is done."""
    assert asked(TENANT, "POST", GANGS, gang("before")).status == 201
    ran = pod("before")
    ran["metadata"]["annotations"]["pod-group-name"] = "before"
    del ran["metadata"]["labels"]
    assert asked(TENANT, "POST", PODS, ran).status == 201
    assert asked(ADMIN, "POST", f"{PODS}/before/binding", binding("before")).status == 201
    uid = asked(ADMIN, "GET", f"{GANGS}/before").body["metadata"]["uid"]
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{SPACE}/leases/muster"
    known = {"KUBECONFIG": str(plane.service_account_kubeconfig(SPACE, "muster"))}
    with (tmp_path / "log").open("w") as log:
        command = [BIN / "muster", "run", "--lease-namespace", SPACE]
        process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **known})
    try:

        def mark(name: str) -> Any:
            return asked(ADMIN, "GET", f"{PODS}/{name}").body["metadata"]["annotations"].get(MARK)

        def noted() -> Any:
            return asked(ADMIN, "GET", lease).body.get("metadata", {}).get("annotations")

        wait_until(lambda: mark("before") == f"default-queue/{uid}", 30, "the mark of what ran before")
        wait_until(lambda: noted() == {"muster.dev/marked-term": "0"}, 20, "the note in the Lease")
        late = pod("late")
        late["metadata"]["annotations"]["pod-group-name"] = "before"
        del late["metadata"]["labels"]
        late["spec"]["nodeName"] = "n1"
        assert asked(TENANT, "POST", PODS, late).status == 201

        def told() -> bool:
            conditions = asked(ADMIN, "GET", f"{PODS}/late").body["status"].get("conditions") or []
            return any(one["reason"] == "NotAdmitted" for one in conditions if one.get("reason"))

        wait_until(told, 20, "the condition of what a tenant bound")
        assert mark("late") is None
    finally:
        process.terminate()
        process.wait(20)
    assert "denied request" not in (tmp_path / "log").read_text()
