"""What `muster manifests` prints is taken by a real API server, and gives the rights that are needed and no others."""

import base64
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from e2e.plane import MERGE_PATCH, ControlPlane, Requests, gate, wait_until
from muster.kube.rights import RIGHTS, asks

BIN = Path(sys.executable).parent
SPACE = "muster-system"
US = f"system:serviceaccount:{SPACE}:muster"
APPLY = ("apply", "--server-side", "--validate=strict")
GANG = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "spec": {"minMember": 1}}
GANGS = "/apis/scheduling.run.ai/v2alpha2/namespaces/default/podgroups"

gate.require()


def printed(*args: object) -> str:
    command = [BIN / "muster", "manifests", "--image", "example.com/muster:1", *args]
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def plane(request):
    """A control plane in which muster is installed as docs/install.md says."""
    gate.obtain(request.config)
    with ControlPlane(controllers=True) as plane:
        crds = subprocess.run([BIN / "muster", "crds"], capture_output=True, text=True, check=True).stdout
        plane.kubectl(*APPLY, "-f", "-", stdin=crds)
        plane.kubectl("wait", "crd", "--all", "--for=condition=Established", "--timeout=30s")
        done = plane.kubectl(*APPLY, "-f", "-", stdin=printed())
        assert done.stderr == ""
        yield plane


def may(plane: ControlPlane, verb: str, group: str, resource: str, namespace: str = "", name: str = "") -> bool:
    """Whether the service account may, by the API server's own word."""
    resource, _, subresource = resource.partition("/")
    asked = {"verb": verb, "group": group, "resource": resource, "subresource": subresource, "namespace": namespace}
    groups = ["system:authenticated", "system:serviceaccounts", f"system:serviceaccounts:{SPACE}"]
    spec = {"user": US, "groups": groups, "resourceAttributes": asked | {"name": name}}
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    answer = plane.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body)
    assert answer.status == 201
    return answer.body["status"]["allowed"]


def test_a_second_apply_changes_nothing(plane):
    """Nothing that the cluster fills in (the aggregated rules, the authority) is ours to take away."""
    wait_until(lambda: may(plane, "list", "batch", "jobs"), 20, "the aggregated role")
    versions = [
        [one["metadata"]["resourceVersion"] for one in json.loads(done.stdout)["items"] if one["kind"] != "Deployment"]
        for done in (plane.kubectl(*APPLY, "-f", "-", "-o", "json", stdin=printed("--without", "queue")) for _ in "12")
    ]
    assert versions[0] == versions[1]


def test_every_right_that_is_needed_is_there(plane):
    for right in RIGHTS:
        for ask in asks(right, SPACE):
            resource = f"{ask.resource}/{ask.subresource}" if ask.subresource else ask.resource
            assert may(plane, ask.verb, ask.group, resource, ask.namespace, ask.name), str(ask)


@pytest.mark.parametrize(
    ("group", "resource"),
    [
        ("apps", "replicasets"),
        ("ray.io", "rayclusters"),
        ("grove.io", "podcliques"),
        ("scheduler.grove.io", "podgangs"),
    ],
)
def test_workloads_can_be_read_and_nothing_else(plane, group, resource):
    """The controller puts the labelled roles together, those of CRDs that are not there yet too."""
    wait_until(lambda: may(plane, "watch", group, resource), 20, "the aggregated role")
    assert [verb for verb in ("create", "update", "patch", "delete") if may(plane, verb, group, resource)] == []


def test_an_administrator_adds_a_kind_with_a_label(plane):
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "more"}}
    role["metadata"]["labels"] = {"muster.dev/aggregate-to-grouper": "true"}
    role["rules"] = [{"apiGroups": ["example.com"], "resources": ["assistants"], "verbs": ["get", "list", "watch"]}]
    assert not may(plane, "get", "example.com", "assistants")
    plane.kubectl("create", "-f", "-", stdin=json.dumps(role))
    wait_until(lambda: may(plane, "get", "example.com", "assistants"), 20, "the aggregated role")


@pytest.mark.parametrize(
    ("verb", "group", "resource", "namespace", "name"),
    [
        ("get", "", "secrets", "", ""),
        ("list", "", "secrets", SPACE, ""),
        ("get", "", "secrets", SPACE, "muster-webhook"),
        ("get", "", "configmaps", "", ""),
        ("patch", "", "configmaps", SPACE, "muster"),
        ("create", "", "pods", "", ""),
        ("delete", "", "pods", "", ""),
        ("create", "", "pods/exec", "", ""),
        ("update", "", "pods", "", ""),
        ("patch", "", "nodes", "", ""),
        ("patch", "", "nodes/status", "", ""),
        ("deletecollection", "scheduling.run.ai", "podgroups", "", ""),
        ("delete", "scheduling.run.ai", "queues", "", ""),
        ("patch", "scheduling.run.ai", "queues", "", ""),
        ("patch", "kai.scheduler", "topologies", "", ""),
        ("patch", "kai.scheduler", "resourceinterfaces", "", ""),
        ("patch", "coordination.k8s.io", "leases", SPACE, "another"),
        ("get", "coordination.k8s.io", "leases", SPACE, ""),
        ("get", "coordination.k8s.io", "leases", "kube-system", "kube-scheduler"),
        ("create", "coordination.k8s.io", "leases", "default", ""),
        ("create", "admissionregistration.k8s.io", "validatingwebhookconfigurations", "", ""),
        ("patch", "admissionregistration.k8s.io", "validatingwebhookconfigurations", "", "another"),
        ("delete", "admissionregistration.k8s.io", "validatingwebhookconfigurations", "", "muster"),
        ("patch", "admissionregistration.k8s.io", "mutatingwebhookconfigurations", "", "muster"),
        ("patch", "rbac.authorization.k8s.io", "clusterroles", "", "muster-scheduler"),
        ("bind", "rbac.authorization.k8s.io", "clusterroles", "", ""),
        ("patch", "apps", "deployments", SPACE, "muster"),
        ("impersonate", "", "users", "", ""),
        ("create", "", "serviceaccounts/token", SPACE, "muster"),
        ("patch", "apiextensions.k8s.io", "customresourcedefinitions", "", ""),
    ],
)
def test_what_it_may_not_do(plane, verb, group, resource, namespace, name):
    assert not may(plane, verb, group, resource, namespace, name)


@pytest.mark.parametrize(
    ("args", "answer"),
    [
        (("create", "pods", "--subresource=binding", "-A"), "yes"),
        (("patch", "leases/muster", "-n", SPACE), "yes"),
        (("patch", "leases/other", "-n", SPACE), "no"),
        (("get", "secrets", "-A"), "no"),
        (("*", "*", "-A"), "no"),
    ],
)
def test_kubectl_says_the_same(plane, args, answer):
    assert plane.kubectl("auth", "can-i", *args, f"--as={US}", check=False).stdout.split()[0] == answer


def test_its_own_token_does_what_the_process_does(plane):
    """The Lease, and the authority of its certificate: with the token of the service account, not by impersonation."""
    ours = plane.service_account_kubeconfig(SPACE, "muster")
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "muster", "namespace": SPACE},
    }
    plane.kubectl("create", "-f", "-", stdin=json.dumps(lease), kubeconfig=ours)
    patch = json.dumps({"spec": {"holderIdentity": "a"}})
    plane.kubectl("-n", SPACE, "patch", "lease", "muster", "--type=merge", "-p", patch, kubeconfig=ours)
    found = plane.kubectl("get", "validatingwebhookconfiguration", "muster", "-o", "json", kubeconfig=ours)
    (webhook,) = json.loads(found.stdout)["webhooks"]
    assert not webhook["clientConfig"].get("caBundle")
    bundle = base64.b64encode(plane.ca.read_bytes()).decode()
    patch = json.dumps({"webhooks": [{"name": webhook["name"], "clientConfig": {"caBundle": bundle}}]})
    plane.kubectl("patch", "validatingwebhookconfiguration", "muster", "-p", patch, kubeconfig=ours)
    plane.kubectl(*APPLY, "-f", "-", stdin=printed("--without", "crds,queue"))
    found = plane.kubectl("get", "validatingwebhookconfiguration", "muster", "-o", "json", kubeconfig=ours)
    assert json.loads(found.stdout)["webhooks"][0]["clientConfig"]["caBundle"] == bundle, "an upgrade took it away"
    done = plane.kubectl("get", "secrets", "-A", kubeconfig=ours, check=False)
    assert "forbidden" in done.stderr


def test_it_may_label_pods_and_not_change_what_they_run(plane):
    """RBAC has one verb for both; the policy tells them apart, for muster alone."""
    pods, image = "/api/v1/namespaces/default/pods", {"spec": {"containers": [{"name": "main", "image": "other"}]}}
    spec = {"schedulerName": "kai-scheduler", "containers": [{"name": "main", "image": "none"}]}
    assert plane.request("POST", pods, {"metadata": {"name": "guarded"}, "spec": spec}).status == 201
    ours = plane.service_account_kubeconfig(SPACE, "muster")
    patch = ("-n", "default", "patch", "pod", "guarded", "-p")
    label = {"metadata": {"labels": {"kai.scheduler/subgroup-name": "a"}, "annotations": {"pod-group-name": "g"}}}
    plane.kubectl(*patch, json.dumps(label), kubeconfig=ours)

    def refused() -> bool:
        done = plane.kubectl(*patch, json.dumps(image), "--dry-run=server", kubeconfig=ours, check=False)
        return "never change what they run" in done.stderr

    wait_until(refused, 20, "the policy")
    nominated = {"status": {"nominatedNodeName": "n1"}}
    ask = Requests(plane.url, plane.ca, token=plane.service_account_token(SPACE, "muster"))
    assert ask("PATCH", f"{pods}/guarded/status", nominated, MERGE_PATCH).status == 200
    plane.kubectl(*patch, json.dumps(image))


def test_users_may_write_gangs_where_they_may_edit(plane):
    wait_until(lambda: "podgroups" in plane.kubectl("get", "clusterrole", "edit", "-o", "json").stdout, 20, "edit")
    plane.kubectl("create", "rolebinding", "team", "--clusterrole=edit", "--user=ann", "-n", "default")
    asked = ("auth", "can-i", "create", "podgroups.scheduling.run.ai", "--as=ann", "-n")
    assert plane.kubectl(*asked, "default").stdout.strip() == "yes"
    assert plane.kubectl(*asked, SPACE, check=False).stdout.strip() == "no"


def test_the_namespace_is_restricted_and_the_pods_fit_in_it(plane):
    """The ReplicaSet controller can make both pods: nothing about them breaks the restricted standard."""
    path = f"/api/v1/namespaces/{SPACE}/pods"
    wait_until(lambda: len(plane.request("GET", path).body["items"]) == 2, 30, "two pods")
    bad = {"metadata": {"name": "bad"}, "spec": {"containers": [{"name": "main", "image": "none"}]}}
    assert plane.request("POST", path, bad).status == 403


def test_without_a_server_behind_it_the_webhook_stops_only_authors_of_our_kinds(plane):
    """PodGroups wait for it; pods, muster itself and whatever is being deleted never do."""
    gang = GANG | {"metadata": {"name": "mine", "namespace": "default", "finalizers": ["example.com/wait"]}}
    refused = plane.request("POST", GANGS, gang)
    assert refused.status == 500
    assert "objects.muster.dev" in refused.body["message"]
    ours = plane.service_account_kubeconfig(SPACE, "muster")
    plane.kubectl("create", "-f", "-", stdin=json.dumps(gang), kubeconfig=ours)
    status = {"status": {"phase": "Running"}}
    assert plane.request("PATCH", f"{GANGS}/mine/status", status, MERGE_PATCH).status == 200
    pod = {"metadata": {"name": "theirs"}, "spec": {"containers": [{"name": "main", "image": "none"}]}}
    assert plane.request("POST", "/api/v1/namespaces/default/pods", pod).status == 201
    assert plane.request("PATCH", f"{GANGS}/mine", {"spec": {"minMember": 2}}, MERGE_PATCH).status == 500
    assert plane.request("DELETE", f"{GANGS}/mine").status == 200
    gone = plane.request("PATCH", f"{GANGS}/mine", {"metadata": {"finalizers": None}}, MERGE_PATCH)
    assert gone.status == 200


def test_the_process_needs_no_more_than_this(plane, tmp_path):
    """The command line and settings of the Deployment, under its service account: a Job becomes a gang and is bound.

    Nobody serves the webhook meanwhile, and the guard is on.
    """
    documents = {(one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all(printed())}
    (container,) = documents["Deployment", "muster"]["spec"]["template"]["spec"]["containers"]
    settings = tmp_path / "muster.yaml"
    settings.write_text(documents["ConfigMap", "muster"]["data"][settings.name])
    args = [arg.replace("$(POD_NAMESPACE)", SPACE) for arg in container["args"]]
    known = {"KUBECONFIG": str(plane.service_account_kubeconfig(SPACE, "muster")), "MUSTER_CONFIG": str(settings)}
    room = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    ready = [{"type": "Ready", "status": "True"}]
    status = {"capacity": room, "allocatable": room, "conditions": ready}
    assert plane.request("POST", "/api/v1/nodes", {"metadata": {"name": "n1"}, "status": status}).status == 201
    spec = {
        "schedulerName": "kai-scheduler",
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": "none"}],
    }
    job = {"metadata": {"name": "train"}, "spec": {"parallelism": 3, "completions": 3, "template": {"spec": spec}}}
    assert plane.request("POST", "/apis/batch/v1/namespaces/default/jobs", job).status == 201
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen([BIN / "muster", *args], stdout=log, stderr=log, env={**os.environ, **known})
    try:
        pods = "/api/v1/namespaces/default/pods?labelSelector=job-name%3Dtrain"
        wait_until(lambda: _bound(plane.request("GET", pods).body["items"]) == 3, 30, "three bound pods")
        wait_until(lambda: plane.request("GET", GANGS).body["items"][0].get("status"), 10, "the status of the gang")
    finally:
        process.terminate()
        process.wait(20)
    said = (tmp_path / "log").read_text()
    assert "forbidden" not in said.lower(), said


def _bound(pods: list[dict]) -> int:
    return sum(bool(one["spec"].get("nodeName")) for one in pods)


def test_the_default_queue_is_there(plane):
    queue = plane.request("GET", "/apis/scheduling.run.ai/v2/queues/default-queue").body
    assert {one["quota"] for one in queue["spec"]["resources"].values()} == {-1}


def test_the_folder_is_the_same_for_kustomize(plane, tmp_path):
    printed("--to", tmp_path)
    built = [one for one in yaml.safe_load_all(plane.kubectl("kustomize", str(tmp_path)).stdout) if one]

    def by_name(documents):
        return {(one["kind"], one["metadata"]["name"]): one for one in documents}

    assert by_name(built) == by_name(yaml.safe_load_all(printed()))
    plane.kubectl(*APPLY, "--dry-run=server", "-k", str(tmp_path), check=False)


def test_the_first_apply_of_everything_says_what_is_missing(request):
    """On an empty cluster kubectl does not know a Queue yet: everything else is there, and a second apply mends it."""
    gate.obtain(request.config)
    with ControlPlane() as plane:
        first = plane.kubectl(*APPLY, "-f", "-", stdin=printed("--without", "webhook"), check=False)
        assert first.returncode == 1
        assert "ensure CRDs are installed first" in first.stderr
        plane.kubectl("wait", "crd", "--all", "--for=condition=Established", "--timeout=30s")
        plane.kubectl(*APPLY, "-f", "-", stdin=printed("--without", "webhook"))
        assert plane.request("GET", "/apis/scheduling.run.ai/v2/queues/default-queue").status == 200


def test_everything_can_be_taken_out_again_without_the_gangs(plane):
    """Last: the CRDs, and everybody's PodGroups with them, stay."""
    plane.kubectl("delete", "--wait=false", "-f", "-", stdin=printed("--without", "crds,queue"))
    kept = plane.request("POST", GANGS, GANG | {"metadata": {"name": "kept"}})
    assert kept.status == 201
    assert not may(plane, "get", "", "pods")
