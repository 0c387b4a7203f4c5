"""The real control plane: it starts, takes our kinds, binds, makes pods of workloads, and leaves nothing behind.

Nothing of muster runs here yet but its CRDs: these are the facts that the rest of the end-to-end tests build on.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from e2e.plane import MERGE_PATCH, ControlPlane, Failed, Requests, build, gate, wait_until

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
OURS = ("scheduling.run.ai/", "kai.scheduler/")
EXAMPLES = sorted([*(ROOT / "examples").glob("*.yaml"), *(ROOT / "examples" / "cluster").glob("*.yaml")])
PODS = "/api/v1/namespaces/default/pods"
CONTAINERS = [{"name": "main", "image": "none"}]

gate.require()


@pytest.fixture(scope="module", autouse=True)
def _programs(request):
    gate.obtain(request.config)


@pytest.fixture(scope="module")
def plane(_programs):
    """One control plane with controllers for all tests that do it no harm, and muster's CRDs in it."""
    with ControlPlane(controllers=True) as plane:
        crds = subprocess.run([BIN / "muster", "crds"], capture_output=True, text=True, check=True).stdout
        plane.kubectl("apply", "--server-side", "-f", "-", stdin=crds)
        plane.kubectl("wait", "crd", "--all", "--for=condition=Established", "--timeout=30s")
        yield plane


def ours(file: Path) -> list[dict]:
    """The documents of a file that are of our kinds."""
    documents = yaml.safe_load_all(file.read_text())
    return [one for one in documents if one and str(one.get("apiVersion")).startswith(OURS)]


def pod(name: str, **spec: object) -> dict:
    return {"metadata": {"name": name}, "spec": {"containers": CONTAINERS, **spec}}


def node(name: str) -> dict:
    room = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    ready = [{"type": "Ready", "status": "True"}]
    return {"metadata": {"name": name}, "status": {"capacity": room, "allocatable": room, "conditions": ready}}


def bind(plane: ControlPlane, name: str, to: str, uid: str) -> int:
    target = {"apiVersion": "v1", "kind": "Node", "name": to}
    body = {"metadata": {"name": name, "uid": uid}, "target": target}
    return plane.request("POST", f"{PODS}/{name}/binding", body).status


def pods_of(plane: ControlPlane, selector: str, count: int) -> list[dict]:
    """The pods that a controller made, once they are all there."""
    path = f"{PODS}?labelSelector={selector}"
    wait_until(lambda: len(plane.request("GET", path).body["items"]) == count, 20, f"{count} pods with {selector}")
    return plane.request("GET", path).body["items"]


def owner(thing: dict) -> tuple[str, str, str]:
    (one,) = thing["metadata"]["ownerReferences"]
    assert one["controller"]
    return one["kind"], one["name"], one["uid"]


def alive(pid: int) -> bool:
    """Whether a process runs; one that ended and was not yet waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


# What it is.


def test_kubectl_and_the_server_know_their_version(plane):
    """A version that is not stamped in makes `kubectl version` fail."""
    found = json.loads(plane.kubectl("version", "-o", "json").stdout)
    assert {found[side]["gitVersion"] for side in ("clientVersion", "serverVersion")} == {build.pinned()}
    assert "skew" not in plane.kubectl("version").stderr


def test_every_crd_is_accepted_and_structural(plane):
    crds = plane.request("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions").body["items"]
    assert len(crds) == 5
    for crd in crds:
        conditions = {one["type"]: one["status"] for one in crd["status"]["conditions"]}
        assert conditions == {"NamesAccepted": "True", "Established": "True"}, crd["metadata"]["name"]


@pytest.mark.parametrize("file", [file for file in EXAMPLES if ours(file)], ids=lambda file: file.name)
def test_every_example_can_be_applied(plane, file):
    """No field of an example is unknown to the schema, and a second apply changes nothing."""
    text = "---\n".join(yaml.safe_dump(one) for one in ours(file))
    apply = ("apply", "--server-side", "--validate=strict", "-f", "-", "-o", "json")
    first, second = (plane.kubectl(*apply, stdin=text) for _ in range(2))
    assert first.stdout == second.stdout
    assert first.stderr == ""


def test_a_mistyped_field_is_refused(plane):
    manifest = "{apiVersion: scheduling.run.ai/v2alpha2, kind: PodGroup, metadata: {name: typo}, spec: {minMembr: 1}}"
    done = plane.kubectl("apply", "--server-side", "--validate=strict", "-f", "-", stdin=manifest, check=False)
    assert done.returncode == 1
    assert "minMembr" in done.stderr


def test_the_columns_of_get_pg(plane):
    gang = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": {"name": "columns"}}
    plane.kubectl("create", "-f", "-", stdin=json.dumps(gang | {"spec": {"minMember": 3, "queue": "team"}}))
    assert plane.kubectl("get", "pg", "columns").stdout.split("\n")[1].split()[:-1] == ["columns", "team"]
    root = {"name": "", "satisfied": True, "domain": "zone-a/rack-1"}
    status = {"phase": "Running", "ready": "1/1", "podsSummary": "3/3/3", "reason": "TopologyDrift"}
    body = {"status": status | {"subGroups": [root]}}
    path = "/apis/scheduling.run.ai/v2alpha2/namespaces/default/podgroups/columns/status"
    assert plane.request("PATCH", path, body, MERGE_PATCH).status == 200
    heads, values = (line.split() for line in plane.kubectl("get", "pg", "columns").stdout.splitlines())
    assert heads == ["NAME", "STATUS", "READY", "PODS", "QUEUE", "DOMAIN", "REASON", "AGE"]
    assert values[:-1] == ["columns", "Running", "1/1", "3/3/3", "team", "zone-a/rack-1", "TopologyDrift"]
    wide = plane.kubectl("get", "pg", "columns", "-o", "wide").stdout.split("\n")[0].split()
    assert wide == [*heads, "PRIORITY", "PREEMPTIBILITY", "STARTED", "DECISION"]


# What it does.


def test_a_bind_counts_once(plane):
    """201, then 409: for the same node, for another, and for a pod that is not the one that was meant."""
    for name in ("bind-1", "bind-2"):
        assert plane.request("POST", "/api/v1/nodes", node(name)).status == 201
    uid = plane.request("POST", PODS, pod("bound", schedulerName="nobody")).body["metadata"]["uid"]
    assert bind(plane, "bound", "bind-1", "00000000-0000-0000-0000-000000000000") == 409
    assert bind(plane, "bound", "bind-1", uid) == 201
    assert bind(plane, "bound", "bind-1", uid) == 409
    assert bind(plane, "bound", "bind-2", uid) == 409
    assert plane.request("GET", f"{PODS}/bound").body["spec"]["nodeName"] == "bind-1"


def test_a_bind_to_an_unknown_node_is_accepted(plane):
    """The API server does not look: this is the scheduler's to know."""
    uid = plane.request("POST", PODS, pod("lost", schedulerName="nobody")).body["metadata"]["uid"]
    assert bind(plane, "lost", "no-such-node", uid) == 201


def test_new_nodes_are_not_tainted(plane):
    assert "taints" not in plane.request("POST", "/api/v1/nodes", node("clean")).body["spec"]


def test_a_job_makes_pods(plane):
    template = {"spec": {"restartPolicy": "Never", "schedulerName": "nobody", "containers": CONTAINERS}}
    job = {"metadata": {"name": "train"}, "spec": {"parallelism": 3, "completions": 3, "template": template}}
    made = plane.request("POST", "/apis/batch/v1/namespaces/default/jobs", job)
    pods = pods_of(plane, "job-name%3Dtrain", 3)
    assert {owner(one) for one in pods} == {("Job", "train", made.body["metadata"]["uid"])}


def test_a_deployment_makes_pods_through_a_replica_set(plane):
    labels = {"app": "serve"}
    template = {"metadata": {"labels": labels}, "spec": {"schedulerName": "nobody", "containers": CONTAINERS}}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    group = "/apis/apps/v1/namespaces/default"
    made = plane.request("POST", f"{group}/deployments", {"metadata": {"name": "serve"}, "spec": spec})
    pods = pods_of(plane, "app%3Dserve", 2)
    ((kind, name, uid),) = {owner(one) for one in pods}
    replica_set = plane.request("GET", f"{group}/replicasets/{name}").body
    assert (kind, uid) == ("ReplicaSet", replica_set["metadata"]["uid"])
    assert owner(replica_set) == ("Deployment", "serve", made.body["metadata"]["uid"])


def test_a_stateful_set_is_collected_with_its_pods(plane):
    """The garbage collector works: pods go with their owner."""
    labels = {"app": "state"}
    template = {"metadata": {"labels": labels}, "spec": {"schedulerName": "nobody", "containers": CONTAINERS}}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template, "serviceName": "state"}
    spec["podManagementPolicy"] = "Parallel"
    sets = "/apis/apps/v1/namespaces/default/statefulsets"
    made = plane.request("POST", sets, {"metadata": {"name": "state"}, "spec": spec})
    pods = pods_of(plane, "app%3Dstate", 2)
    assert {owner(one) for one in pods} == {("StatefulSet", "state", made.body["metadata"]["uid"])}
    assert plane.request("DELETE", f"{sets}/state").status == 200
    pods_of(plane, "app%3Dstate", 0)


def test_a_service_account_may_do_what_its_roles_say(plane):
    """RBAC is on: nothing is allowed that no role gives."""
    kubeconfig = plane.service_account_kubeconfig("default", "reader")
    done = plane.kubectl("get", "pods", kubeconfig=kubeconfig, check=False)
    assert 'User "system:serviceaccount:default:reader" cannot list resource "pods"' in done.stderr
    plane.kubectl("create", "role", "reads-pods", "--verb=list", "--resource=pods")
    plane.kubectl("create", "rolebinding", "reads-pods", "--role=reads-pods", "--serviceaccount=default:reader")
    plane.kubectl("get", "pods", kubeconfig=kubeconfig)
    assert plane.kubectl("get", "nodes", kubeconfig=kubeconfig, check=False).returncode == 1
    # Somebody else than the admin by certificate, and nobody at all.
    done = plane.kubectl("get", "pods", kubeconfig=plane.user_kubeconfig("ann", "team"), check=False)
    assert 'User "ann" cannot list' in done.stderr
    assert Requests(plane.url, plane.ca)("GET", PODS).status == 403


# Faults: these planes are their own.


def test_the_api_server_comes_back_with_everything():
    """Restarted, crashed, paused: the same address, the same objects, and connections that tell the difference."""
    with ControlPlane() as plane:
        plane.kubectl("create", "namespace", "kept")
        quick = Requests(plane.url, plane.ca)
        for crash in (False, True):
            before = plane.apiserver.pid
            plane.restart_apiserver(crash=crash)
            assert plane.apiserver.pid != before
            assert plane.request("GET", "/api/v1/namespaces/kept").status == 200
        plane.apiserver.pause()
        with pytest.raises(TimeoutError):
            quick("GET", "/readyz", wait_s=1)
        plane.apiserver.resume()
        assert plane.request("GET", "/api/v1/namespaces/kept").status == 200
        plane.apiserver.stop()
        with pytest.raises(ConnectionRefusedError):
            quick("GET", "/readyz", wait_s=1)
        plane.apiserver.start()
        plane.apiserver.wait_ready()
        plane.etcd.restart(crash=True)
        wait_until(lambda: plane.request("GET", "/api/v1/namespaces/kept").status == 200, 20, "etcd is back")


def test_the_real_scheduler_is_there_as_a_yardstick():
    with ControlPlane(scheduler=True) as plane:
        plane.request("POST", "/api/v1/nodes", node("only"))
        plane.request("POST", PODS, pod("free"))
        wait_until(lambda: plane.request("GET", f"{PODS}/free").body["spec"].get("nodeName") == "only", 20, "a bind")


def test_a_bad_flag_is_told_with_the_log(tmp_path):
    """A plane that can't start says what its program said, and leaves its logs where it was told."""
    with (
        pytest.raises(Failed, match=r"kube-apiserver ended\n[^$]*unknown flag: --nonsense"),
        ControlPlane(apiserver_flags=["--nonsense"], logs=tmp_path),
    ):
        pass
    assert {log.name for log in tmp_path.iterdir()} == {"etcd.log", "kube-apiserver.log"}


def test_nothing_is_left_behind():
    """Not after a test that fails, and not when the whole test run is killed."""
    plane = ControlPlane()

    def fail() -> None:
        pids.extend([plane.etcd.pid, plane.apiserver.pid])
        assert all(alive(pid) for pid in pids)
        raise ZeroDivisionError

    pids = []
    with pytest.raises(ZeroDivisionError), plane:
        fail()
    assert not any(alive(pid) for pid in pids)
    assert not plane.folder.exists()
    program = (
        "import signal\n"
        "from e2e.plane import ControlPlane\n"
        "with ControlPlane() as plane:\n"
        "    print(plane.etcd.pid, plane.apiserver.pid, plane.folder, flush=True)\n"
        "    signal.pause()\n"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=env) as run:
        etcd, apiserver, left = run.stdout.readline().split()
        assert alive(int(etcd))
        run.send_signal(signal.SIGKILL)
    wait_until(lambda: not alive(int(etcd)) and not alive(int(apiserver)), 10, "the processes are gone")
    wait_until(lambda: not Path(left).exists(), 10, "the folder is gone")
