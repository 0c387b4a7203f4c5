"""Real workloads become gangs on a real API server: those of its own controllers, and those of operators, whose objects
the fixtures of the catalog have. muster runs under its own service account, with the rights that it ships.
"""

import http.client
import json
import re
import time
from pathlib import Path

import pytest
import yaml

from e2e.plane import MERGE_PATCH, ControlPlane, gate, stage, wait_until
from e2e.plane.control_plane import CONTROLLERS
from muster.cli.fixtures import GONE_ANNOTATION

gate.require()

CATALOG = Path(__file__).parents[1] / "grouping" / "catalog"
GROUPS = "/apis/scheduling.run.ai/v2alpha2/namespaces/{}/podgroups"
ROLE_LABEL = "muster.dev/aggregate-to-grouper"
# The StatefulSets of a LeaderWorkerSet are those of its operator, whose hand the test is: nobody else may act on them.
INERT = tuple(name for name in CONTROLLERS if name != "statefulset-controller")
# As minimal as they can be: what the operators' own definitions say about fields does not matter here.
DEFINITIONS = (
    ("ray.io", "v1", "RayCluster", "rayclusters"),
    ("leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet", "leaderworkersets"),
    ("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets"),
    ("grove.io", "v1alpha1", "PodCliqueSet", "podcliquesets"),
    ("grove.io", "v1alpha1", "PodClique", "podcliques"),
    ("grove.io", "v1alpha1", "PodCliqueScalingGroup", "podcliquescalinggroups"),
    ("scheduler.grove.io", "v1alpha1", "PodGang", "podgangs"),
    ("example.com", "v1", "Widget", "widgets"),
    ("example.com", "v1", "Gadget", "gadgets"),
    ("example.com", "v1", "Gizmo", "gizmos"),
)
PLURALS = {kind: plural for _, _, kind, plural in DEFINITIONS} | {
    "Pod": "pods",
    "Job": "jobs",
    "StatefulSet": "statefulsets",
    "Deployment": "deployments",
}


def definition(group, version, kind, plural):
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    names = {"kind": kind, "plural": plural, "singular": kind.lower()}
    versions = [{"name": version, "served": True, "storage": True, "schema": schema}]
    spec = {"group": group, "scope": "Namespaced", "names": names, "versions": versions}
    metadata = {"name": f"{plural}.{group}"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": spec,
    }


@pytest.fixture(scope="module")
def plane(request, tmp_path_factory):
    gate.obtain(request.config)
    with ControlPlane(controllers=INERT) as found:
        stage.create(found, *(definition(*one) for one in DEFINITIONS))
        stage.install(found)
        nodes = [stage.node(f"n{number}", cpu="2000", gpu=200) for number in range(3)]
        for node in nodes:
            for amounts in (node["status"]["capacity"], node["status"]["allocatable"]):
                amounts["memory"] = "20Ti"
        unlimited = {key: {"quota": -1, "limit": -1} for key in ("cpu", "memory", "gpu")}
        queues = [
            {
                "apiVersion": "scheduling.run.ai/v2",
                "kind": "Queue",
                "metadata": {"name": name},
                "spec": {"resources": unlimited},
            }
            for name in ("team-a", "serving")
        ]
        classes = [
            {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
            for name, value in (("train", 50), ("inference", 125), ("build", 100))
        ]
        stage.create(found, *nodes, *queues, *classes)
        ours = found.service_account_kubeconfig(stage.NAMESPACE, "muster")
        with stage.running(ours, tmp_path_factory.mktemp("run"), "--no-leader-election") as process:
            found.muster = process
            yield found


@pytest.fixture
def space(plane, request):
    """A namespace of this test's own."""
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_"))[:50].strip("-")
    plane.kubectl("create", "namespace", name)
    yield name
    assert plane.muster.process.poll() is None, plane.muster.log()


def asked(plane, method, path, body=None, content_type="application/json"):
    answers = []

    def is_taken():
        # A server that has just got a definition asks for a moment.
        answers.append(plane.request(method, path, body, content_type))
        return answers[-1].status != http.client.TOO_MANY_REQUESTS

    wait_until(is_taken, 30, f"{method} {path}", 0.2)
    assert answers[-1].status < 300, answers[-1].body
    return answers[-1].body


def path_of(document, space, *, name=True):
    group = "/apis/" if "/" in document["apiVersion"] else "/api/"
    path = f"{group}{document['apiVersion']}/namespaces/{space}/{PLURALS[document['kind']]}"
    return f"{path}/{document['metadata']['name']}" if name else path


def groups_of(plane, space):
    return asked(plane, "GET", GROUPS.format(space))["items"]


def pods_of(plane, space):
    return asked(plane, "GET", f"/api/v1/namespaces/{space}/pods")["items"]


def are_bound(plane, space, count):
    nodes = [pod["spec"].get("nodeName") for pod in pods_of(plane, space)]
    return len(nodes) == count and all(nodes)


def template(cpu="6", **labels):
    return {"metadata": {"labels": labels}, "spec": stage.pod_spec(cpu=cpu)}


def events_of(plane, space, reason):
    found = json.loads(plane.kubectl("get", "events", "-n", space, "-o", "json").stdout)["items"]
    return [one for one in found if one["reason"] == reason]


# Workloads of the cluster's own controllers.


def test_a_job_is_a_gang_that_follows_it_and_goes_with_it(plane, space):
    spec = {"parallelism": 4, "completions": 4, "template": template()}
    spec["template"]["spec"]["restartPolicy"] = "Never"
    metadata = {"name": "train", "namespace": space, "annotations": {"kai.scheduler/batch-min-member": "3"}}
    metadata["labels"] = {"kai.scheduler/queue": "team-a"}
    stage.create(plane, {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec})
    wait_until(lambda: are_bound(plane, space, 4), 60, "the pods of the Job")
    (group,) = groups_of(plane, space)
    assert group["metadata"]["ownerReferences"][0]["kind"] == "Job"
    assert (group["spec"]["minMember"], group["spec"]["queue"]) == (3, "team-a")
    assert {pod["metadata"]["annotations"]["pod-group-name"] for pod in pods_of(plane, space)} == {
        group["metadata"]["name"]
    }
    plane.kubectl("annotate", "job", "train", "-n", space, "kai.scheduler/batch-min-member=2", "--overwrite")
    wait_until(lambda: groups_of(plane, space)[0]["spec"]["minMember"] == 2, 30, "the PodGroup of the Job")
    plane.kubectl("delete", "job", "train", "-n", space)
    wait_until(lambda: not groups_of(plane, space), 60, "the garbage collector")


def test_a_deployment_is_one_gang_through_its_replica_sets(plane, space):
    """A rollout makes another ReplicaSet, and no other gang."""
    spec = {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template(cpu="1", app="web")}
    document = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": space}}
    stage.create(plane, {**document, "spec": spec})
    wait_until(lambda: are_bound(plane, space, 3), 60, "the pods of the Deployment")
    (group,) = groups_of(plane, space)
    assert group["metadata"]["ownerReferences"][0]["kind"] == "Deployment"
    plane.kubectl("set", "image", "deployment/web", "main=other", "-n", space)
    wait_until(lambda: are_bound(plane, space, 4), 60, "the pod of the new ReplicaSet")
    assert [one["metadata"]["uid"] for one in groups_of(plane, space)] == [group["metadata"]["uid"]]
    plane.kubectl("delete", "deployment", "web", "-n", space)
    wait_until(lambda: not groups_of(plane, space), 60, "the garbage collector")


# Workloads of operators that are not there: their objects, as the fixtures have them.


class Case:
    """A case of the catalog's fixtures, played on the server: its objects get the uids that the server gives them."""

    def __init__(self, plane, space, folder):
        self.plane, self.space, self.folder = plane, space, folder
        self.uids = {}

    def documents(self, folder):
        files = [file for file in sorted(folder.glob("*.yaml")) if file.name != "expected.yaml"]
        return [one for file in files for one in yaml.safe_load_all(file.read_text()) if one]

    def real(self, value):
        """The same with the uids of this server."""
        text = json.dumps(value)
        for made_up, uid in self.uids.items():
            text = text.replace(made_up, uid)
        return json.loads(text.replace('"namespace": "default"', f'"namespace": "{self.space}"'))

    def play(self, folder, hold_back=""):
        """What changes in a step: owners before what they own. One pod may be held back."""
        waiting = [one for one in self.documents(folder) if one["metadata"]["name"] != hold_back]
        while waiting:
            ready = [one for one in waiting if self._owners(one) <= self.uids.keys()]
            assert ready, waiting
            for one in ready:
                self._put(one)
            waiting = [one for one in waiting if one not in ready]

    def _owners(self, document):
        return {reference["uid"] for reference in document["metadata"].get("ownerReferences", [])}

    def _put(self, document):
        made_up = document["metadata"].get("uid")
        metadata = {key: value for key, value in document["metadata"].items() if key != "uid"}
        real = self.real({**document, "metadata": metadata})
        path = path_of(real, self.space)
        if real["metadata"].get("annotations", {}).get(GONE_ANNOTATION) == "true":
            self.plane.request("DELETE", path)
        elif made_up in self.uids:
            asked(self.plane, "PATCH", path, {"spec": _changed(real)}, MERGE_PATCH)
        else:
            found = asked(self.plane, "POST", path_of(real, self.space, name=False), _completed(real))
            self.uids[made_up] = found["metadata"]["uid"]

    def expected(self, folder):
        found = self.real(yaml.safe_load((folder / "expected.yaml").read_text()))
        return found["podGroups"], found["pods"]

    def comes_out(self, folder, *, but=""):
        """Whether everything is as the case expects it; the pod that is held back aside."""
        groups, pods = self.expected(folder)
        there = {one["metadata"]["name"]: one for one in groups_of(self.plane, self.space)}
        marks = {
            pod["metadata"]["name"]: (
                pod["metadata"].get("annotations", {}).get("pod-group-name"),
                pod["metadata"].get("labels", {}).get("kai.scheduler/subgroup-name", ""),
            )
            for pod in pods_of(self.plane, self.space)
        }
        return all(_is_like(there.get(one["metadata"]["name"]), one) for one in groups) and all(
            marks.get(pod["name"]) == (pod["podGroup"], pod.get("subGroup", "")) for pod in pods if pod["name"] != but
        )

    def steps(self):
        return sorted(one for one in self.folder.iterdir() if one.name.startswith("then-"))


def _completed(document):
    """What the real kinds ask for, and nobody who acts on it but the test."""
    document = json.loads(json.dumps(document))
    spec = document.setdefault("spec", {})
    if document["kind"] == "Pod":
        spec["terminationGracePeriodSeconds"] = 0
    elif document["kind"] == "Job":
        spec["template"] = template()
        spec["template"]["spec"]["restartPolicy"] = "Never"
        spec["managedBy"] = "example.com/nobody"
    elif document["kind"] == "StatefulSet":
        labels = document["metadata"]["labels"]
        spec |= {"selector": {"matchLabels": labels}, "template": template(**labels)}
    return document


def _changed(document):
    """The spec as a patch."""
    return document.get("spec", {}) if document["kind"] not in ("Pod", "Job", "StatefulSet") else {}


def _is_like(found, wanted):
    if found is None or found["spec"] != wanted["spec"]:
        return False
    metadata = wanted["metadata"]
    labels = found["metadata"].get("labels", {})
    owners = [
        {key: one[key] for key in ("apiVersion", "kind", "name", "uid")} for one in found["metadata"]["ownerReferences"]
    ]
    return metadata.get("labels", {}).items() <= labels.items() and metadata.get("ownerReferences", owners) == owners


@pytest.fixture(scope="module", autouse=True)
def scaled_down(plane):
    """A LeaderWorkerSet of two instances, of which one has just gone. What comes of it takes a minute."""
    plane.kubectl("create", "namespace", "scaled-down")
    played = Case(plane, "scaled-down", CATALOG / "leaderworkerset" / "replicas")
    played.play(played.folder)
    wait_until(lambda: played.comes_out(played.folder), 90, "the gangs of a LeaderWorkerSet")
    played.gangs = sorted(one["metadata"]["name"] for one in groups_of(plane, played.space))
    for pod in pods_of(plane, played.space):
        if pod["metadata"]["annotations"]["pod-group-name"] == played.gangs[1]:
            plane.request("DELETE", f"/api/v1/namespaces/{played.space}/pods/{pod['metadata']['name']}")
    return played


@pytest.mark.parametrize(
    ("case", "last"),
    [
        ("raycluster/two-groups", "analytics-head-x7k2m"),
        ("jobset/two-levels", "mnist-launcher-0-0-x7k2p"),
        ("leaderworkerset/replicas", "vllm-0-2"),
        ("podcliqueset/two-replicas", "twice-0-worker-1-c4m9p"),
        ("podcliqueset/scaled-gangs", ""),
    ],
    ids=lambda value: value.replace("/", "-") if "/" in value else "",
)
def test_workloads_of_operators(plane, space, case, last):
    """The gang of the fixture; it is bound whole, when its last pod is there; it follows, and goes with its owner."""
    played = Case(plane, space, CATALOG / case)
    played.play(played.folder, hold_back=last)
    wait_until(lambda: played.comes_out(played.folder, but=last), 60, case)
    if last:
        gang = next(pod["podGroup"] for pod in played.expected(played.folder)[1] if pod["name"] == last)
        waits = lambda: stage.status_of(plane, gang, space).get("reason") == "WaitingForPods"  # noqa: E731
        wait_until(waits, 30, "the gang that lacks a pod")
        assert not any(
            pod["spec"].get("nodeName")
            for pod in pods_of(plane, space)
            if pod["metadata"]["annotations"].get("pod-group-name") == gang
        )
        for document in played.documents(played.folder):
            if document["metadata"]["name"] == last:
                played._put(document)
    pods = len(played.expected(played.folder)[1])
    wait_until(lambda: are_bound(plane, space, pods), 60, "all pods of the gang")
    for step in played.steps():
        played.play(step)
        wait_until(lambda step=step: played.comes_out(step), 60, f"{case}, {step.name}")
    top = next(one for one in played.documents(played.folder) if not one["metadata"].get("ownerReferences"))
    asked(plane, "DELETE", path_of(top, space), {"propagationPolicy": "Background"})
    wait_until(lambda: not groups_of(plane, space), 90, "the garbage collector")


# A kind that nobody here has heard of.


def owned(owner, name, space, **labels):
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "controller": True}
    reference |= {key: owner["metadata"][key] for key in ("name", "uid")}
    metadata = {"name": name, "namespace": space, "labels": labels, "ownerReferences": [reference]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": stage.pod_spec(cpu="1")}


def made(plane, space, kind, name, **spec):
    document = {"apiVersion": "example.com/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}
    return asked(plane, "POST", path_of(document, space, name=False), document)


def interface(name, kind, **template):
    gangs = {"podGroups": [{"name": "gang", **template}]}
    spec = {"targetGVK": {"group": "example.com", "version": "*", "kind": kind}, "gangScheduling": gangs}
    return {"apiVersion": "kai.scheduler/v1", "kind": "ResourceInterface", "metadata": {"name": name}, "spec": spec}


def accepted(plane, name):
    """The condition, as kubectl shows it."""
    found = plane.kubectl("get", "resourceinterface", name, "-o", "json").stdout
    conditions = json.loads(found).get("status", {}).get("conditions", [])
    return next(
        ((one["status"], one["reason"], one["message"]) for one in conditions if one["type"] == "Accepted"), None
    )


def test_a_users_own_kind_with_the_right_to_read_it(plane, space):
    """Until an administrator lets muster read the kind, its pods wait and say so; with a labelled role they start."""
    leaf = {
        "componentName": "part",
        "podClassifier": {"matchLabels": {"role": "part"}},
        "minReplicasPath": ".spec.size",
    }
    stage.create(plane, interface("widgets", "Widget", subgroups=[leaf]))
    wait_until(lambda: accepted(plane, "widgets"), 30, "the condition")
    assert accepted(plane, "widgets")[:2] == ("True", "Compiled")
    assert "widgets" in plane.kubectl("get", "resourceinterface").stdout
    widget = made(plane, space, "Widget", "w", size=2)
    stage.create(plane, *(owned(widget, f"w-{number}", space, role="part") for number in range(2)))
    wait_until(lambda: events_of(plane, space, "NotGrouped"), 60, "the event of a pod that can't be grouped")
    notes = {one.get("note") or one.get("message") for one in events_of(plane, space, "NotGrouped")}
    assert all("may not be read" in note for note in notes), notes
    assert not groups_of(plane, space)
    rules = [{"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": ["get", "list", "watch"]}]
    metadata = {"name": "widgets-for-muster", "labels": {ROLE_LABEL: "true"}}
    stage.create(
        plane,
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": metadata, "rules": rules},
    )
    wait_until(lambda: are_bound(plane, space, 2), 60, "the pods of the widget")
    (group,) = groups_of(plane, space)
    assert group["spec"]["subGroups"] == [{"name": "part", "minMember": 2}]
    plane.kubectl("patch", "widget", "w", "-n", space, "--type=merge", "-p", '{"spec": {"size": 1}}')
    wait_until(lambda: groups_of(plane, space)[0]["spec"]["subGroups"][0]["minMember"] == 1, 30, "the PodGroup")
    plane.kubectl("delete", "widget", "w", "-n", space)
    wait_until(lambda: not groups_of(plane, space), 60, "the garbage collector")


def test_a_kind_that_nobody_knows_and_nobody_may_read_is_one_gang_of_one(plane, space):
    """Neither an interface nor a role: all that is known is who the owner is. Nobody waits for ever."""
    gizmo = made(plane, space, "Gizmo", "z", size=2)
    stage.create(plane, *(owned(gizmo, f"z-{number}", space) for number in range(2)))
    wait_until(lambda: are_bound(plane, space, 2), 60, "the pods of the gizmo")
    (group,) = groups_of(plane, space)
    assert (group["spec"]["minMember"], group["metadata"]["ownerReferences"][0]["kind"]) == (1, "Gizmo")
    assert not events_of(plane, space, "NotGrouped")
    plane.kubectl("delete", "gizmo", "z", "-n", space)
    wait_until(lambda: not groups_of(plane, space), 60, "the garbage collector")


def test_a_broken_interface_says_so_and_costs_nobody_else_anything(plane, space):
    """Workloads of its kind wait; those of others start; mended, it is accepted, and the rest start too."""
    broken = interface("gadgets", "Gadget", minMemberPath=".spec.size ||")
    stage.create(plane, broken)
    wait_until(lambda: accepted(plane, "gadgets"), 30, "the condition")
    status, reason, message = accepted(plane, "gadgets")
    assert (status, reason) == ("False", "Invalid")
    assert "minMemberPath" in message
    row = next(line for line in plane.kubectl("get", "resourceinterface").stdout.splitlines() if "gadgets" in line)
    assert "False" in row
    rules = [{"apiGroups": ["example.com"], "resources": ["gadgets"], "verbs": ["get", "list", "watch"]}]
    metadata = {"name": "gadgets-for-muster", "labels": {ROLE_LABEL: "true"}}
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": metadata, "rules": rules}
    stage.create(plane, role)
    gadget = made(plane, space, "Gadget", "g", size=1)
    single = {**owned(gadget, "single", space), "metadata": {"name": "single", "namespace": space}}
    stage.create(plane, owned(gadget, "g-0", space), single)
    bound = lambda name: stage.nodes_of(plane, space).get(name)  # noqa: E731
    wait_until(lambda: bound("single"), 30, "a pod that has nothing to do with it")
    assert not bound("g-0")
    stage_fixed = interface("gadgets", "Gadget", minMemberPath=".spec.size")
    plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=json.dumps(stage_fixed))
    wait_until(lambda: accepted(plane, "gadgets")[0] == "True", 30, "the condition")
    wait_until(lambda: bound("g-0"), 60, "the pod of the gadget")


def test_a_pod_that_names_a_gang_which_is_not_there_is_told(plane, space):
    stage.create(plane, stage.pod("early", "later", space, cpu="1"))
    wait_until(lambda: events_of(plane, space, "PodGroupNotFound"), 30, "the event")
    assert "later" in plane.kubectl("describe", "pod", "early", "-n", space).stdout.split("Events:")[1]
    stage.create(plane, stage.group("later", space, minMember=1))
    wait_until(lambda: are_bound(plane, space, 1), 30, "the pod, when its gang came")


def test_when_nothing_happens_nothing_is_written(plane, space):
    """Neither PodGroups, nor pods, nor interfaces change while nobody does anything."""

    def versions():
        kinds = ("podgroups", "pods", "resourceinterfaces")
        found = [json.loads(plane.kubectl("get", kind, "-A", "-o", "json").stdout)["items"] for kind in kinds]
        return {one["metadata"]["uid"]: one["metadata"]["resourceVersion"] for items in found for one in items}

    spec = {"parallelism": 2, "template": template(cpu="1")}
    spec["template"]["spec"]["restartPolicy"] = "Never"
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "quiet", "namespace": space}, "spec": spec}
    stage.create(plane, job)
    wait_until(lambda: are_bound(plane, space, 2), 60, "the pods of the Job")
    last, since_s = {}, 0.0

    def has_been_quiet():
        nonlocal last, since_s
        before, last = last, versions()
        since_s = since_s if before == last else time.monotonic()
        return time.monotonic() - since_s > 5.0

    # Statuses come a little later, and this machine may be slow; but then it must be over.
    wait_until(has_been_quiet, 60, "five seconds in which nothing is written", 0.2)


def test_the_gang_of_an_instance_that_is_gone_goes_too(plane, scaled_down):
    """A minute after its last pod. The other one, and its workload, stay."""
    left, gone = scaled_down.gangs
    names = lambda: [one["metadata"]["name"] for one in groups_of(plane, scaled_down.space)]  # noqa: E731
    wait_until(lambda: gone not in names(), 120, "the gang of the instance that is gone")
    assert names() == [left]


def test_a_stateful_set_is_one_gang_that_grows(plane, space):
    """The last one, because now the controller of StatefulSets works, too."""
    plane.controller_manager.stop()
    plane._controllers = CONTROLLERS
    plane.start_controllers().wait_ready()
    spec = {"replicas": 2, "serviceName": "db", "podManagementPolicy": "Parallel"}
    spec |= {"selector": {"matchLabels": {"app": "db"}}, "template": template(cpu="1", app="db")}
    document = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db", "namespace": space}}
    stage.create(plane, {**document, "spec": spec})
    wait_until(lambda: are_bound(plane, space, 2), 60, "the pods of the StatefulSet")
    plane.kubectl("scale", "statefulset", "db", "--replicas=4", "-n", space)
    wait_until(lambda: are_bound(plane, space, 4), 60, "the pods of the StatefulSet")
    (group,) = groups_of(plane, space)
    assert group["metadata"]["ownerReferences"][0]["kind"] == "StatefulSet"
    plane.kubectl("delete", "statefulset", "db", "-n", space)
    wait_until(lambda: not groups_of(plane, space), 60, "the garbage collector")
