"""The scheduler as a process against the real control plane: gangs are bound whole, wait whole, and are told why."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from e2e.plane import ControlPlane, gate, wait_until

gate.require()

ROOT = Path(__file__).parents[2]
RUN = [sys.executable, "-m", "muster", "run", "--no-leader-election", "--kubeconfig"]


@pytest.fixture(scope="module")
def plane(request, tmp_path_factory):
    gate.obtain(request.config)
    with ControlPlane(controllers=True) as found:
        folder = tmp_path_factory.mktemp("crds")
        crds = folder / "crds.yaml"
        crds.write_text(muster("crds").stdout)
        found.kubectl("apply", "--server-side", "-f", str(crds))
        found.kubectl("wait", "--for=condition=Established", "--all", "crd", "--timeout=30s")
        for number in range(4):
            create(found, node(f"n{number}", rack=f"r{number // 2}"))
        yield found


@pytest.fixture
def scheduler(plane, tmp_path):
    """`muster run`, as it would run in a terminal."""
    log = tmp_path / "run.log"
    with log.open("w") as written:
        process = subprocess.Popen([*RUN, str(plane.admin_kubeconfig)], stderr=written, env=environment())
        yield process
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0, log.read_text()


def environment():
    return {**os.environ, "PYTHONPATH": str(ROOT / "src")}


def muster(*args):
    return subprocess.run(
        [sys.executable, "-m", "muster", *args], capture_output=True, text=True, check=True, env=environment()
    )


def create(plane, *documents):
    plane.kubectl("create", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(documents)}))


def node(name, **labels):
    ready = {"type": "Ready", "status": "True", "reason": "Test", "message": ""}
    amounts = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    status = {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}


def group(name, **spec):
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": metadata, "spec": spec}


def pod(name, gang, cpu="6"):
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    metadata = {"name": name, "namespace": "default", "annotations": {"pod-group-name": gang}}
    spec = {"schedulerName": "kai-scheduler", "containers": [container], "terminationGracePeriodSeconds": 0}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def nodes_of(plane):
    found = plane.kubectl("get", "pods", "-o", "json").stdout
    return {one["metadata"]["name"]: one["spec"].get("nodeName", "") for one in json.loads(found)["items"]}


def status_of(plane, name):
    return json.loads(plane.kubectl("get", "pg", name, "-o", "json").stdout).get("status", {})


def clear(plane):
    plane.kubectl("delete", "pods,pg", "--all", "--grace-period=0", "--force")


def test_a_gang_waits_for_its_pods_and_is_bound_whole(plane, scheduler):
    clear(plane)
    create(plane, group("g", minMember=4), *(pod(f"g-{number}", "g") for number in range(3)))
    wait_until(lambda: status_of(plane, "g").get("reason") == "WaitingForPods", 20, "the scheduler")
    assert set(nodes_of(plane).values()) == {""}
    create(plane, pod("g-3", "g"))
    wait_until(lambda: status_of(plane, "g").get("phase") == "Scheduled", 20, "the scheduler")
    assert sorted(nodes_of(plane).values()) == ["n0", "n1", "n2", "n3"]
    table = plane.kubectl("get", "pg").stdout
    assert "Scheduled" in table
    assert "4/4/4" in table


def test_what_does_not_fit_is_not_started_in_part(plane, scheduler):
    clear(plane)
    create(plane, group("large", minMember=5), *(pod(f"l-{number}", "large") for number in range(5)))
    wait_until(lambda: status_of(plane, "large").get("reason") == "InsufficientResources", 20, "the scheduler")
    time.sleep(1)
    assert set(nodes_of(plane).values()) == {""}


def test_a_more_important_gang_takes_the_room_and_the_other_goes_whole(plane, scheduler):
    clear(plane)
    create(plane, group("low", minMember=4), *(pod(f"low-{number}", "low") for number in range(4)))
    wait_until(lambda: status_of(plane, "low").get("phase") == "Scheduled", 20, "the scheduler")
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 90}
    create(plane, high, group("high", minMember=1, priorityClassName="high"), pod("high-0", "high"))
    wait_until(lambda: nodes_of(plane).get("high-0"), 30, "the scheduler")
    assert not [name for name in nodes_of(plane) if name.startswith("low")]
    plane.kubectl("delete", "priorityclass", "high")


def test_a_restart_finds_everything_as_it_was(plane, scheduler, tmp_path):
    clear(plane)
    create(plane, group("g", minMember=2), *(pod(f"g-{number}", "g") for number in range(2)))
    wait_until(lambda: status_of(plane, "g").get("phase") == "Scheduled", 20, "the scheduler")
    before = nodes_of(plane), status_of(plane, "g")
    scheduler.kill()
    scheduler.wait()
    again = subprocess.Popen([*RUN, str(plane.admin_kubeconfig)], stderr=subprocess.DEVNULL, env=environment())
    try:
        create(plane, group("h", minMember=1), pod("h-0", "h"))
        wait_until(lambda: nodes_of(plane).get("h-0"), 20, "the scheduler")
        assert ({k: v for k, v in nodes_of(plane).items() if k != "h-0"}, status_of(plane, "g")) == before
    finally:
        again.send_signal(signal.SIGTERM)
        assert again.wait(20) == 0


def test_a_job_becomes_a_gang(plane, scheduler):
    """The real controllers make its pods; the gang is its own, and follows it."""
    clear(plane)
    template = {
        "metadata": {},
        "spec": {
            "schedulerName": "kai-scheduler",
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": "6"}}}],
        },
    }
    notes = {"kai.scheduler/batch-min-member": "3"}
    spec = {"parallelism": 4, "completions": 4, "template": template}
    metadata = {"name": "train", "namespace": "default", "annotations": notes, "labels": {"kai.scheduler/queue": "q"}}
    create(plane, {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec})
    wait_until(lambda: sum(map(bool, nodes_of(plane).values())) == 4, 30, "the pods of the Job")
    (found,) = json.loads(plane.kubectl("get", "pg", "-o", "json").stdout)["items"]
    assert found["metadata"]["name"].startswith("pg-train-")
    assert (found["spec"]["minMember"], found["spec"]["queue"]) == (3, "q")
    plane.kubectl("annotate", "job", "train", "kai.scheduler/batch-min-member=2", "--overwrite")
    read = ("get", "pg", found["metadata"]["name"], "-o", "json")
    wait_until(lambda: json.loads(plane.kubectl(*read).stdout)["spec"]["minMember"] == 2, 20, "the PodGroup of the Job")
    plane.kubectl("delete", "job", "train")
    wait_until(lambda: "train" not in plane.kubectl("get", "pg").stdout, 30, "the garbage collector")
