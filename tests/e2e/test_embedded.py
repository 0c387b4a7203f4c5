"""The unmodified kubectl works against the embedded server, with the kubeconfig that it writes."""

import asyncio
import json
import os
import random
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from e2e.plane import build, gate, stage
from muster.embedded import objects
from muster.embedded.http import Serving
from muster.embedded.running import Running, keep_running
from muster.embedded.server import Server
from muster.embedded.store import Store

gate.require()

ROOT = Path(__file__).parents[2]
Kubectl = Callable[..., str]


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    """kubectl on an embedded server with a kubelet and controllers, two nodes and our kinds."""
    folder = tmp_path_factory.mktemp("embedded")
    loop = asyncio.new_event_loop()
    ready, stop = threading.Event(), asyncio.Event()

    async def serve() -> None:
        chance = random.Random(1)  # noqa: S311
        server = Server(
            Store(),
            clock=time.time,
            new_uid=lambda: str(uuid.uuid4()),
            suffix=lambda: objects.suffix(chance.choice),
        )
        async with Serving(server) as serving:
            serving.write_kubeconfig(folder / "config")
            acting = asyncio.create_task(keep_running(Running(server), time.time))
            ready.set()
            await stop.wait()
            acting.cancel()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    assert ready.wait(10)
    programs = build.build()
    known = {**os.environ, "KUBECONFIG": str(folder / "config"), "HOME": str(folder)}

    def run(*args: object, stdin: str = "", code: int = 0) -> str:
        done = subprocess.run(
            [programs / "kubectl", *map(str, args)], input=stdin, capture_output=True, text=True, env=known, timeout=60
        )
        assert done.returncode == code, f"kubectl {' '.join(map(str, args))}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    run.kubeconfig = folder / "config"  # type: ignore[attr-defined]
    try:
        run("apply", "-f", ROOT / "deploy" / "crds.yaml")
        run("wait", "--for=condition=Established", "--all", "crd", "--timeout=20s")
        run(
            "apply",
            "-f",
            "-",
            stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": [node("n1"), node("n2")]}),
        )
        yield run
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
        loop.close()


def node(name: str) -> dict[str, object]:
    """A node."""
    amounts = {"cpu": "8", "memory": "16Gi", "pods": "110", "nvidia.com/gpu": "8"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"capacity": amounts}}


def pod(name: str, space: str = "default", node_name: str = "", **annotations: str) -> str:
    """A pod, bound if it names a node."""
    said = {f"embedded.muster.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
    spec: dict[str, object] = {"containers": [{"name": "c", "image": "i:1"}], "terminationGracePeriodSeconds": 1}
    if node_name:
        spec["nodeName"] = node_name
    metadata = {"name": name, "namespace": space, "annotations": said, "labels": {"app": name}}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


def space(kubectl: Kubectl, name: str) -> str:
    """A namespace of a test's own."""
    kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))
    return name


def test_get_and_wide(kubectl: Kubectl) -> None:
    own = space(kubectl, "get")
    kubectl("apply", "-f", "-", stdin=pod("p", own, "n1"))
    kubectl("wait", "-n", own, "--for=condition=Ready", "pod/p", "--timeout=20s")
    shown = kubectl("get", "pods", "-n", own, "-o", "wide")
    assert shown.splitlines()[0].split()[:5] == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert shown.splitlines()[1].split()[:4] == ["p", "1/1", "Running", "0"]
    assert "n1" in shown
    assert "Ready" in kubectl("get", "nodes", "-o", "wide")
    assert kubectl("get", "pods", "-A", "-l", "app=p", "-o", "name").strip() == "pod/p"
    assert kubectl("get", "pod", "p", "-n", own, "-o", "jsonpath={.spec.nodeName}") == "n1"
    assert "PodGroup" in kubectl("api-resources")


def test_watch(kubectl: Kubectl) -> None:
    own = space(kubectl, "watch")
    kubectl("apply", "-f", "-", stdin=pod("p", own, "n1", start_after="1s"))
    seen = kubectl("get", "pods", "-n", own, "-w", "--request-timeout=4s", code=0)
    assert [line.split()[2] for line in seen.splitlines() if line.startswith("p ")][:2] == ["Pending", "Running"]


def test_apply_patch_and_conflicts(kubectl: Kubectl) -> None:
    own = space(kubectl, "apply")
    gang = {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": own},
        "spec": {"minMember": 2, "queue": "q"},
    }
    assert "created" in kubectl("apply", "-f", "-", stdin=json.dumps(gang))
    assert "unchanged" in kubectl("apply", "-f", "-", stdin=json.dumps(gang))
    gang["spec"] = {"minMember": 3, "queue": "q"}
    assert "configured" in kubectl("apply", "-f", "-", stdin=json.dumps(gang))
    refused = kubectl(
        "apply",
        "--server-side",
        "--field-manager=other",
        "-f",
        "-",
        stdin=json.dumps({**gang, "spec": {"minMember": 5}}),
        code=1,
    )
    assert ".spec.minMember" in refused
    forced = ("apply", "--server-side", "--force-conflicts", "--field-manager=other", "-f", "-")
    assert "serverside-applied" in kubectl(*forced, stdin=json.dumps({**gang, "spec": {"minMember": 5}}))
    kubectl("patch", "pg", "g", "-n", own, "--type=json", "-p", '[{"op":"replace","path":"/spec/minMember","value":6}]')
    kubectl("patch", "pg", "g", "-n", own, "--type=merge", "-p", '{"spec":{"queue":"r"}}')
    assert kubectl("get", "pg", "g", "-n", own, "-o", "jsonpath={.spec.minMember}{.spec.queue}") == "6r"
    unknown = kubectl("apply", "-f", "-", stdin=json.dumps({**gang, "spec": {"minMembers": 3}}), code=1)
    assert 'unknown field "spec.minMembers"' in unknown
    kubectl("label", "pg", "g", "-n", own, "a=b")
    kubectl("annotate", "pg", "g", "-n", own, "c=d")
    assert kubectl(
        "diff",
        "--server-side",
        "--force-conflicts",
        "-f",
        "-",
        stdin=json.dumps({**gang, "spec": {"minMember": 9}}),
        code=1,
    )


def test_describe_and_events(kubectl: Kubectl) -> None:
    own = space(kubectl, "describe")
    kubectl("apply", "-f", "-", stdin=pod("p", own, "n2"))
    uid = kubectl("get", "pod", "p", "-n", own, "-o", "jsonpath={.metadata.uid}")
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e", "namespace": own},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": "p", "namespace": own, "uid": uid},
        "reason": "Waiting",
        "message": "for a rack",
        "type": "Normal",
        "lastTimestamp": "2026-01-01T00:00:00Z",
    }
    kubectl("create", "-f", "-", stdin=json.dumps(event))
    assert "for a rack" in kubectl("events", "-n", own, "--for", "pod/p")
    assert "for a rack" in kubectl("get", "events", "-n", own)
    described = kubectl("describe", "pod", "p", "-n", own)
    assert "Image:" in described
    assert "for a rack" in described
    assert "nvidia.com/gpu" in kubectl("describe", "node", "n2")


@pytest.mark.parametrize(
    ("kind", "api", "resource"),
    [("Pod", "v1", "pod"), ("Node", "v1", "node"), ("PodGroup", "scheduling.run.ai/v2alpha2", "podgroup")],
)
def test_events_of_the_newer_group_are_shown_with_what_they_are_about(
    kubectl: Kubectl, kind: str, api: str, resource: str
) -> None:
    """As muster writes them: `kubectl events` and `kubectl describe` find them."""
    own = space(kubectl, f"regarding-{resource}")
    gang = {"apiVersion": api, "kind": kind, "metadata": {"name": "x", "namespace": own}, "spec": {"minMember": 1}}
    made = {"Pod": pod("x", own), "PodGroup": json.dumps(gang), "Node": ""}[kind]
    name = "n1" if kind == "Node" else "x"
    if made:
        kubectl("apply", "-f", "-", stdin=made)
    where = () if kind == "Node" else ("-n", own)
    uid = kubectl("get", resource, name, *where, "-o", "jsonpath={.metadata.uid}")
    about = {"apiVersion": api, "kind": kind, "name": name, "uid": uid}
    space_of_event = "default" if kind == "Node" else own
    event = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": f"{name}.1", "namespace": space_of_event},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "muster.dev/scheduler",
        "reportingInstance": "muster-0",
        "action": "Wait",
        "reason": "Waiting",
        "regarding": about if kind == "Node" else {**about, "namespace": own},
        "note": f"for a {resource}",
        "type": "Normal",
    }
    kubectl("create", "-f", "-", stdin=json.dumps(event))
    assert f"for a {resource}" in kubectl("events", "-n", space_of_event, "--for", f"{resource}/{name}")
    assert f"for a {resource}" in kubectl("describe", resource, name, *where)


def test_explain(kubectl: Kubectl) -> None:
    assert "nodeName" in kubectl("explain", "pod.spec")
    assert "<[]Container>" in kubectl("explain", "pod.spec.containers")
    assert "minMember" in kubectl("explain", "podgroup.spec")


def test_delete_and_wait(kubectl: Kubectl) -> None:
    own = space(kubectl, "delete")
    kubectl("apply", "-f", "-", stdin=pod("p", own, "n1"))
    kubectl("wait", "-n", own, "--for=jsonpath={.status.phase}=Running", "pod/p", "--timeout=20s")
    assert "deleted" in kubectl("delete", "pod", "p", "-n", own, "--timeout=20s")
    kubectl("apply", "-f", "-", stdin=pod("q", own, "n1"))
    kubectl("delete", "namespace", own, "--timeout=30s")
    assert "NotFound" in kubectl("get", "namespace", own, code=1)


def test_jobs_run_to_their_end(kubectl: Kubectl) -> None:
    own = space(kubectl, "jobs")
    template = {
        "metadata": {"annotations": {"embedded.muster.dev/run-for": "1s"}},
        "spec": {"restartPolicy": "Never", "nodeName": "n1", "containers": [{"name": "c", "image": "i"}]},
    }
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "namespace": own},
        "spec": {"parallelism": 2, "completions": 2, "template": template},
    }
    kubectl("create", "-f", "-", stdin=json.dumps(job))
    kubectl("wait", "-n", own, "--for=condition=Complete", "job/j", "--timeout=30s")
    assert "2/2" in kubectl("get", "jobs", "-n", own)
    kubectl("delete", "job", "j", "-n", own)
    kubectl("wait", "-n", own, "--for=delete", "pods", "--all", "--timeout=20s")


def test_short_forms_that_send_protobuf(kubectl: Kubectl) -> None:
    kubectl("create", "namespace", "short")
    kubectl("create", "job", "j", "--image=i", "-n", "short")
    kubectl("create", "configmap", "m", "--from-literal=a=b", "-n", "short")
    kubectl("create", "pdb", "b", "--selector=app=x", "--min-available=50%", "-n", "short")
    kubectl("create", "priorityclass", "short-class", "--value=5")
    assert kubectl("get", "configmap", "m", "-n", "short", "-o", "jsonpath={.data.a}") == "b"
    assert kubectl("get", "job", "j", "-n", "short", "-o", "jsonpath={.spec.template.spec.restartPolicy}") == "Never"
    assert kubectl("auth", "can-i", "list", "pods").strip() == "yes"
    kubectl("apply", "-f", "-", stdin=pod("p", "short", "n2"))
    kubectl("wait", "-n", "short", "--for=condition=Ready", "pod/p", "--timeout=20s")
    drained = kubectl("drain", "n2", "--force", "--delete-emptydir-data", "--timeout=30s", "--pod-selector=app=p")
    assert "evicting pod short/p" in drained
    assert "NotFound" in kubectl("get", "pod", "p", "-n", "short", code=1)
    kubectl("uncordon", "n2")


def test_muster_places_a_gang_here_as_on_any_cluster(kubectl: Kubectl, tmp_path: Path) -> None:
    own = space(kubectl, "gang")
    kubectl("apply", "--server-side", "-f", "-", stdin=stage.muster("manifests", "--without", "webhook"))
    queue = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "q"}, "spec": {}}
    gang = {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": own},
        "spec": {"minMember": 2, "queue": "q"},
    }
    limits = {"resources": {"limits": {"nvidia.com/gpu": 8}}}
    spec = {"schedulerName": "kai-scheduler", "containers": [{"name": "c", "image": "i", **limits}]}
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"g-{row}", "namespace": own, "annotations": {"pod-group-name": "g"}},
            "spec": spec,
        }
        for row in range(2)
    ]
    with stage.running(kubectl.kubeconfig, tmp_path):  # type: ignore[attr-defined]
        kubectl(
            "apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": [queue, gang, *pods]})
        )
        kubectl("wait", "-n", own, "--for=condition=Ready", "pod/g-0", "pod/g-1", "--timeout=20s")
        kubectl("wait", "-n", own, "--for=jsonpath={.status.phase}=Scheduled", "pg/g", "--timeout=60s")
    nodes = kubectl("get", "pods", "-n", own, "-o", "jsonpath={.items[*].spec.nodeName}").split()
    assert sorted(nodes) == ["n1", "n2"]


def test_cordon_and_scale(kubectl: Kubectl) -> None:
    own = space(kubectl, "scale")
    labels = {"app": "s"}
    template = {"metadata": {"labels": labels}, "spec": {"nodeName": "n2", "containers": [{"name": "c", "image": "i"}]}}
    owner = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "s", "namespace": own},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template},
    }
    kubectl("apply", "-f", "-", stdin=json.dumps(owner))
    kubectl("scale", "statefulset", "s", "-n", own, "--replicas=3")
    kubectl("wait", "-n", own, "--for=jsonpath={.status.readyReplicas}=3", "statefulset/s", "--timeout=30s")
    kubectl("cordon", "n1")
    assert "SchedulingDisabled" in kubectl("get", "node", "n1")
    kubectl("uncordon", "n1")
    assert "SchedulingDisabled" not in kubectl("get", "node", "n1")
