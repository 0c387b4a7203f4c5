"""Commands against a live cluster, as processes: real owners, users with few rights, nothing installed."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.plane import ControlPlane, gate

gate.require()

MUSTER = Path(sys.executable).parent / "muster"
RBAC = "rbac.authorization.k8s.io"


@pytest.fixture(scope="module", autouse=True)
def _programs(request):
    gate.obtain(request.config)


@pytest.fixture(scope="module")
def bare(_programs):
    """A cluster on which nothing of ours is installed."""
    with ControlPlane() as plane:
        yield plane


@pytest.fixture(scope="module")
def plane(_programs):
    """A cluster with our CRDs, four nodes, a gang that fits, one that does not, and workloads without a gang."""
    with ControlPlane(controllers=True) as plane:
        plane.kubectl("apply", "--server-side", "-f", "-", stdin=muster(None, "crds").stdout)
        plane.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
        plane.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects()}))
        for number in range(4):
            status = {"status": {"allocatable": {"cpu": "4", "pods": "10"}, "capacity": {"cpu": "4", "pods": "10"}}}
            patched = plane.request(
                *("PATCH", f"/api/v1/nodes/n{number}/status", status, "application/merge-patch+json")
            )
            assert patched.status == 200
        for wanted, selector in ((2, "job-name=train"), (2, "app=web")):
            wait_for_pods(plane, selector, wanted)
        yield plane


def muster(kubeconfig, *args, code=0):
    env = {name: value for name, value in os.environ.items() if not name.startswith("KUBE")}
    env |= {"KUBECONFIG": str(kubeconfig or "/nonexistent"), "NO_COLOR": "1"}
    done = subprocess.run([MUSTER, *map(str, args)], capture_output=True, text=True, timeout=120, env=env)
    assert "Traceback" not in done.stderr
    assert code in (None, done.returncode), done.stdout + done.stderr
    return done


def wait_for_pods(plane, selector, count):
    for _ in range(300):
        listed = plane.kubectl("get", "pods", "-l", selector, "-o", "name").stdout.split()
        if len(listed) == count:
            return
        plane.kubectl("get", "--raw", "/readyz")
    raise AssertionError(f"{selector}: {listed}")


def pod_spec(cpu):
    containers = [
        {
            "name": "main",
            "image": "none",
            "env": [{"name": "TOKEN", "value": "hush"}],
            "resources": {"requests": {"cpu": cpu}},
        }
    ]
    return {"schedulerName": "kai-scheduler", "restartPolicy": "Never", "containers": containers}


def objects():
    def named(api_version, kind, name, spec, **metadata):
        return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}

    gang = "scheduling.run.ai/v2alpha2", "PodGroup"
    made = [
        *(named("v1", "Node", f"n{n}", {}, labels={"rack": f"r{n // 2}"} if n < 3 else {}) for n in range(4)),
        named("kai.scheduler/v1alpha1", "Topology", "t", {"levels": [{"nodeLabel": "rack"}]}),
        named("scheduling.run.ai/v2", "Queue", "default-queue", {}),
        named(
            *gang, "fits", {"minMember": 2, "topologyConstraint": {"topology": "t", "requiredTopologyLevel": "rack"}}
        ),
        named(*gang, "large", {"minMember": 3}),
        named(
            *("batch/v1", "Job", "train"), {"parallelism": 2, "completions": 2, "template": {"spec": pod_spec("100m")}}
        ),
        named(
            *("apps/v1", "Deployment", "web"),
            {
                "replicas": 2,
                "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {**pod_spec("100m"), "restartPolicy": "Always"},
                },
            },
        ),
    ]
    for gang_name, count, cpu in (("fits", 2, "3"), ("large", 3, "5")):
        for number in range(count):
            member = {"pod-group-name": gang_name}
            made.append(named("v1", "Pod", f"{gang_name}-{number}", pod_spec(cpu), annotations=member))
    return made


def user(plane, name, *rules, cluster=True):
    """A kubeconfig of a user who may do just this."""
    role = {"kind": "ClusterRole", "name": name, "apiGroup": RBAC}
    subject = {"kind": "User", "name": name, "apiGroup": RBAC}
    where = {} if cluster else {"namespace": "default"}
    kind = "ClusterRoleBinding" if cluster else "RoleBinding"
    body = [
        {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": list(rules)},
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": kind,
            "metadata": {"name": name, **where},
            "roleRef": role,
            "subjects": [subject],
        },
    ]
    plane.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": body}))
    return plane.user_kubeconfig(name)


def reading(group, *resources):
    return {"apiGroups": [group], "resources": list(resources), "verbs": ["get", "list"]}


def versions(plane):
    """Everything that could have been changed, as its versions."""
    listed = plane.kubectl("get", "pods,nodes,podgroups,queues,topologies,jobs", "-A", "-o", "json").stdout
    return {
        (one["kind"], one["metadata"]["name"]): one["metadata"]["resourceVersion"]
        for one in json.loads(listed)["items"]
    }


def test_a_plan_of_the_cluster_as_it_is(plane):
    before = versions(plane)
    done = muster(plane.admin_kubeconfig, "plan", "-o", "json", code=1)
    found = json.loads(done.stdout)
    verdicts = {re.sub("-[0-9a-f-]{36}", "", one["name"]): one["verdict"] for one in found["podGroups"]}
    assert verdicts == {"fits": "Placed", "large": "Infeasible", "pg-train": "Placed", "pg-web": "Placed"}
    assert {one["node"] for one in found["bindings"] if one["pod"].startswith("fits")} == {"n0", "n1"}
    assert len(found["bindings"]) == 6
    assert versions(plane) == before
    table = muster(plane.admin_kubeconfig, "plan", code=1)
    assert "next: muster explain default/large\n" in table.stderr


def test_what_if_on_the_cluster_as_it_is(plane, tmp_path):
    more = tmp_path / "more.yaml"
    more.write_text(
        "apiVersion: scheduling.run.ai/v2alpha2\nkind: PodGroup\nmetadata: {name: more}\nspec: {minMember: 1}\n---\n"
        "apiVersion: v1\nkind: Pod\nmetadata: {name: more-0, annotations: {pod-group-name: more}}\n"
        "spec: {containers: [{name: a, resources: {requests: {cpu: 3}}}]}\n"
    )
    added = json.loads(muster(plane.admin_kubeconfig, "plan", "--add", more, "-o", "json").stdout)
    assert "more-0" in {one["pod"] for one in added["bindings"]}
    # Rack r0 is the only one with two nodes that carry the label.
    drained = json.loads(muster(plane.admin_kubeconfig, "plan", "--drain", "n0", "-o", "json", code=1).stdout)
    assert {one["name"]: one["verdict"] for one in drained["podGroups"]}["fits"] == "Infeasible"
    without = muster(plane.admin_kubeconfig, "plan", "--without", "default/large", "-o", "json")
    assert "large" not in {one["name"] for one in json.loads(without.stdout)["podGroups"]}


def test_explain_and_its_next_line(plane):
    done = muster(plane.admin_kubeconfig, "explain", "default/large", code=1)
    assert "default/large · Infeasible" in done.stdout
    assert "next: muster explain default/large -o json" in done.stderr
    unknown = muster(plane.admin_kubeconfig, "explain", "default/larg", code=2)
    assert "there is no gang default/larg in the cluster" in unknown.stderr
    assert "default/large" in unknown.stderr


def test_a_snapshot_replays_the_plan_and_holds_no_secrets(plane, tmp_path):
    now = ("--now", "2026-01-31T12:00:00Z")
    file = tmp_path / "cycle.json"
    muster(plane.admin_kubeconfig, "snapshot", *now, "--to", file)
    text = file.read_text()
    assert "hush" not in text
    assert "managedFields" not in text
    planned = muster(plane.admin_kubeconfig, "plan", *now, "-o", "json", code=1)
    assert muster(None, "replay", file, "-o", "json", code=1).stdout == planned.stdout


def test_group_follows_real_owners(plane):
    found = json.loads(muster(plane.admin_kubeconfig, "group", "-n", "default", "-o", "json").stdout)
    owners = {one["metadata"]["ownerReferences"][0]["kind"] for one in found["podGroups"]}
    assert {"Job", "Deployment"} <= owners
    assert found["errors"] == []
    empty = muster(plane.admin_kubeconfig, "group", "-n", "kube-system")
    assert "no pods in namespace kube-system" in empty.stderr


def test_a_user_who_may_read_only_some_kinds(plane):
    kubeconfig = user(plane, "some", reading("", "nodes", "pods"), reading("scheduling.run.ai", "podgroups"))
    done = muster(kubeconfig, "plan", "-o", "json", code=1)
    for kind in ("queues", "topologies", "resourceinterfaces", "priorityclasses", "poddisruptionbudgets"):
        assert f"note: {kind} may not be read (it takes the verb list on {kind})" in done.stderr
    assert "Job: may not be read (it takes the verb get on jobs)" in done.stderr
    assert "Job default/train may not be read" in done.stderr
    found = {one["name"]: one for one in json.loads(done.stdout)["podGroups"]}
    assert found["large"]["verdict"] == "Infeasible"
    assert found["fits"]["reasons"][0]["code"] == "TopologyNotFound"


def test_a_user_who_may_read_nothing(plane):
    done = muster(user(plane, "none"), "plan", code=2)
    assert "not allowed to list nodes, pods, podgroups in the whole cluster" in done.stderr
    assert len(done.stderr.splitlines()) == 2


def test_a_user_of_one_namespace_can_group_there(plane):
    rules = (reading("", "pods"), reading("batch", "jobs"), reading("apps", "replicasets", "deployments"))
    kubeconfig = user(plane, "one-namespace", *rules, cluster=False)
    done = muster(kubeconfig, "group", "-n", "default", "-o", "name")
    assert "pg-train" in done.stdout
    assert "pg-web" in done.stdout
    assert "not allowed to list pods in the whole cluster" in muster(kubeconfig, "group", "-A", code=2).stderr


def test_without_anything_installed(bare):
    done = muster(bare.admin_kubeconfig, "plan")
    assert (
        "note: PodGroup, Queue, Topology, ResourceInterface not installed here: "
        "muster crds | kubectl apply --server-side -f -" in done.stderr
    )
    findings = doctor(bare.admin_kubeconfig, code=1)
    assert [one["state"] for one in findings if one["check"].startswith("crd ")] == ["fail"] * 5


def test_credentials_and_servers_that_do_not_work(bare, tmp_path):
    config = json.loads(bare.admin_kubeconfig.read_text())
    config["users"][0]["user"] = {"token": "nobody"}
    refused = tmp_path / "refused"
    refused.write_text(json.dumps(config))
    done = muster(refused, "plan", code=2)
    assert "Unauthorized" in done.stderr
    assert [one["check"] for one in doctor(refused, code=1) if one["state"] == "fail"] == ["credentials"]
    server = config["clusters"][0]["cluster"]["server"].replace("https://", "http://")
    config["clusters"][0]["cluster"] = {"server": server}
    plain = tmp_path / "plain"
    plain.write_text(json.dumps(config))
    assert f"{server} wants HTTPS\n  → write https:// in the kubeconfig" in muster(plain, "plan", code=2).stderr
    assert [(one["check"], one["state"]) for one in doctor(plain, code=1)] == [("server", "fail")]
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    nobody = tmp_path / "nobody"
    nobody.write_text(json.dumps(config))
    done = muster(nobody, "plan", code=2)
    assert "no connection to https://127.0.0.1:1" in done.stderr
    assert [one["check"] for one in doctor(nobody, code=1)] == ["server"]
    done = muster(tmp_path / "none", "plan", code=2)
    assert "there is no kubeconfig" in done.stderr


def doctor(kubeconfig, *args, code=0):
    return json.loads(muster(kubeconfig, "doctor", "-o", "json", *args, code=code).stdout)


def test_a_doctor_for_the_admin(plane):
    states = {one["check"]: one["state"] for one in doctor(plane.admin_kubeconfig)}
    assert states["rights"] == states["server"] == states["credentials"] == states["default queue"] == "ok"
    assert [state for check, state in states.items() if check.startswith("crd ")] == ["ok"] * 5
    (told,) = [one for one in doctor(plane.admin_kubeconfig) if one["check"] == "topology t"]
    assert told["message"] == "rack is missing on 1 node (n3)"
    assert states["leader"] == states["webhook"] == states["pending pods"] == "warn"


def test_a_doctor_for_somebody_with_few_rights(plane):
    kubeconfig = user(plane, "few", reading("", "nodes", "pods"))
    found = doctor(kubeconfig, code=1)
    said = [one["message"] for one in found if one["check"] == "rights" and one["state"] == "fail"]
    assert "you may not create pods/binding: to send pods to nodes" in said
    assert "you may not watch nodes: where there is room" in said
    assert any(one["check"] == "crds" and one["state"] == "warn" for one in found)


def test_a_doctor_for_the_service_account_that_the_manifests_make(plane):
    account = ("--as-service-account", "muster-system/muster")
    before = [one["state"] for one in doctor(plane.admin_kubeconfig, *account, code=1) if one["check"] == "rights"]
    assert "fail" in before
    printed = muster(None, "manifests").stdout
    roles = [
        one
        for one in re.split(r"^---$", printed, flags=re.MULTILINE)
        if re.search(r"^kind: .*(Role|Account|Namespace)", one, re.MULTILINE)
    ]
    assert roles
    for part in roles:
        plane.kubectl("apply", "--server-side", "-f", "-", stdin=part)
    for _ in range(20):
        rights = [one for one in doctor(plane.admin_kubeconfig, *account, code=None) if one["check"] == "rights"]
        if [one["state"] for one in rights] == ["ok"]:
            return
    raise AssertionError(rights)


def test_a_doctor_names_a_kind_that_an_interface_reads_and_muster_may_not(plane):
    """After the test before: the service account has what the manifests give it."""
    account = ("--as-service-account", "muster-system/muster")
    target = {"group": "networking.k8s.io", "version": "v1", "kind": "Ingress"}
    spec = {"targetGVK": target, "gangScheduling": {"podGroups": [{"name": "all", "minMember": 1}]}}
    interface = {"apiVersion": "kai.scheduler/v1", "kind": "ResourceInterface", "metadata": {"name": "i"}, "spec": spec}
    plane.kubectl("apply", "-f", "-", stdin=json.dumps(interface))
    try:
        (told,) = [one for one in doctor(plane.admin_kubeconfig, *account, code=1) if one["check"] == "rights"]
        assert told["state"] == "fail"
        assert "may not get, list, watch ingresses.networking.k8s.io: ResourceInterface i reads it" in told["message"]
        assert 'muster.dev/aggregate-to-grouper: "true"' in told["hint"]
        metadata = {"name": "muster-ingresses", "labels": {"muster.dev/aggregate-to-grouper": "true"}}
        rules = [reading("networking.k8s.io", "ingresses")]
        role = {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": metadata, "rules": rules}
        role["rules"][0]["verbs"] = ["get", "list", "watch"]
        plane.kubectl("apply", "-f", "-", stdin=json.dumps(role))
        for _ in range(20):
            rights = [one for one in doctor(plane.admin_kubeconfig, *account, code=None) if one["check"] == "rights"]
            if [one["state"] for one in rights] == ["ok"]:
                return
        raise AssertionError(rights)
    finally:
        plane.kubectl("delete", "resourceinterface", "i")
