"""What people see of our kinds with kubectl, from a real API server: columns in every state, conditions, explanations.

A table is what the API server makes of the printer columns of the definitions, so a wrong path shows as a blank.
"""

import re

import pytest

from e2e.plane import MERGE_PATCH, ControlPlane, gate, stage, wait_until
from e2e.plane.stage import create, group, node, pod, status_of

gate.require()

RACK = {"topology": "dc", "requiredTopologyLevel": "rack"}
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture(scope="module")
def plane(request, tmp_path_factory):
    """Two racks of two nodes, queues, and a gang in every state that there is."""
    gate.obtain(request.config)
    with ControlPlane() as found:
        stage.install(found)
        kind = {"apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology"}
        levels = {"levels": [{"nodeLabel": "zone"}, {"nodeLabel": "rack"}]}
        create(found, {**kind, "metadata": {"name": "dc"}, "spec": levels}, *queues(), *interfaces())
        create(found, *(node(f"n{at}", {"zone": "z", "rack": f"r{at // 2}"}, cpu="100", gpu=8) for at in range(4)))
        account = found.service_account_kubeconfig(stage.NAMESPACE, "muster")
        with stage.running(account, tmp_path_factory.mktemp("muster"), "--no-leader-election"):
            states(found)
            yield found


def queues():
    def queue(name, parent, **gpu):
        spec = {"resources": {"gpu": gpu}, **({"parentQueue": parent} if parent else {}), "priority": 100}
        return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec}

    return [queue("dept", "", quota=16, limit=32), queue("team", "dept", quota=8, limit=16), queue("lost", "no")]


def interfaces():
    def interface(name, kind, **spec):
        metadata, target = {"name": name}, {"group": "example.org", "version": "v1", "kind": kind}
        spec = {"targetGVK": target, **spec}
        return {"apiVersion": "kai.scheduler/v1", "kind": "ResourceInterface", "metadata": metadata, "spec": spec}

    good = {"podGroups": [{"name": "g", "minMember": 2}]}
    bad = {"podGroups": [{"name": "g", "minMemberPath": ["$nobody"]}]}
    return [
        interface("good", "Good", gangScheduling=good),
        interface("bad", "Bad", gangScheduling=bad),
        interface("skips", "Skips", action="Skip"),
    ]


def states(plane):
    """Gangs that run, wait for pods, wait for room, lost a pod, are no gangs at all, and have done their work."""
    leaves = [{"name": name, "minMember": 1, "topologyConstraint": RACK} for name in ("a", "b", "c")]
    semi = {"preemptibility": "semi-preemptible", "priorityClassName": "train", "queue": "team"}
    tree = group("tree", minSubGroup=2, subGroups=leaves, **semi)
    create(plane, tree, *(pod(f"tree-{name}", "tree", gpu=1, subgroup=name) for name in ("a", "b", "c")))
    create(plane, group("racked", minMember=2, topologyConstraint=RACK, queue="team"))
    create(plane, *(pod(f"racked-{at}", "racked") for at in range(2)))
    create(plane, group("waits", minMember=3), pod("waits-0", "waits"))
    create(plane, group("large", minMember=2), *(pod(f"large-{at}", "large", gpu=9) for at in range(2)))
    create(plane, group("wrong", subGroups=[{"name": "a"}]), pod("wrong-0", "wrong", subgroup="a"))
    for name in ("lost", "done"):
        create(plane, group(name, minMember=2), *(pod(f"{name}-{at}", name, cpu="1") for at in range(2)))
    for name in ("tree", "racked", "lost", "done"):
        wait_until(lambda name=name: status_of(plane, name).get("phase") == "Scheduled", 30, f"{name} runs")
    plane.kubectl("delete", "pod", "lost-0", "--grace-period=0", "--force")
    for at in range(2):
        ended = {"status": {"phase": "Succeeded"}}
        assert plane.request("PATCH", f"{PODS}/done-{at}/status", ended, MERGE_PATCH).status == 200
    for name, phase in (("lost", "Stale"), ("done", "Completed"), ("large", "Pending"), ("wrong", "Invalid")):
        wait_until(
            lambda name=name, phase=phase: status_of(plane, name).get("phase") == phase, 30, f"{name} is {phase}"
        )


def table(plane, *args):
    """The rows of what `kubectl get` prints, by the name of the object; each by its columns."""
    lines = plane.kubectl("get", *args).stdout.splitlines()
    titles = [(found.group(), found.start()) for found in re.finditer(r"\S+(?: \S+)*", lines[0])]
    ends = [start for _, start in titles[1:]] + [None]
    rows = [
        {title: line[start:end].strip() for (title, start), end in zip(titles, ends, strict=True)} for line in lines[1:]
    ]
    return {row["NAME"]: row for row in rows}


def without_age(row):
    assert re.fullmatch(r"\d+[smh](\d+s)?", row["AGE"]), row
    return {title: text for title, text in row.items() if title not in ("NAME", "AGE")}


# STATUS, READY, PODS, QUEUE, DOMAIN, REASON.
ROWS = {
    "tree": ("Scheduled", "3/2", "3/2/3", "team", "", ""),
    "racked": ("Scheduled", "1/1", "2/2/2", "team", "z/r*", ""),
    "waits": ("Pending", "0/1", "0/3/1", "", "", "WaitingForPods"),
    "large": ("Pending", "0/1", "0/2/2", "", "", "InsufficientResources"),
    "lost": ("Stale", "0/1", "1/2/1", "", "", "WaitingForPods"),
    "done": ("Completed", "1/1", "0/2/2", "", "", ""),
    "wrong": ("Invalid", "", "", "", "", "Invalid"),
}


@pytest.mark.parametrize("name", ROWS)
def test_the_columns_of_a_gang_in_every_state(plane, name):
    found = without_age(table(plane, "pg")[name])
    assert tuple(found) == ("STATUS", "READY", "PODS", "QUEUE", "DOMAIN", "REASON")
    for (title, text), said in zip(found.items(), ROWS[name], strict=True):
        assert re.fullmatch(said.replace("*", r"\w+"), text), (title, text)


def test_wide_adds_what_decides_about_a_gang(plane):
    found = table(plane, "pg", "-o", "wide")["tree"]
    assert (found["PRIORITY"], found["PREEMPTIBILITY"]) == ("train", "semi-preemptible")
    assert re.fullmatch(r"\d+[smh](\d+s)?", found["STARTED"])
    assert found["DECISION"] == status_of(plane, "tree")["decision"]
    assert table(plane, "pg", "-o", "wide")["waits"]["STARTED"] == ""


def test_the_short_and_the_long_name_are_the_same(plane):
    assert set(table(plane, "pg")) == set(table(plane, "podgroups")) == set(ROWS)
    assert set(table(plane, "podgroup.scheduling.run.ai")) == set(ROWS)


def test_the_columns_of_a_queue(plane):
    found = {name: without_age(row) for name, row in table(plane, "queues").items()}
    usual = {"PARENT": "", "PRIORITY": "100", "ACCEPTED": "True"}
    numbers = {"GPU-QUOTA": "16", "GPU-LIMIT": "32", "GPU-SHARE": "3", "GPU-USED": "3"}
    assert found["dept"] == {**usual, **numbers}
    assert found["team"] == {**usual, **numbers, "PARENT": "dept", "GPU-QUOTA": "8", "GPU-LIMIT": "16"}
    assert (found["lost"]["PARENT"], found["lost"]["ACCEPTED"]) == ("no", "False")
    assert found["default-queue"]["GPU-QUOTA"] == "-1"


def test_the_columns_of_a_topology(plane):
    assert without_age(table(plane, "topologies")["dc"]) == {"WIDEST": "zone", "NARROWEST": "rack"}


def test_the_columns_of_a_resource_interface(plane):
    wait_until(lambda: all(row["ACCEPTED"] for row in table(plane, "resourceinterfaces").values()), 30, "conditions")
    found = {name: without_age(row) for name, row in table(plane, "resourceinterfaces").items()}
    assert found["good"] == {"GROUP": "example.org", "KIND": "Good", "ACTION": "", "ACCEPTED": "True"}
    assert found["skips"] == {"GROUP": "example.org", "KIND": "Skips", "ACTION": "Skip", "ACCEPTED": "True"}
    assert found["bad"] == {"GROUP": "example.org", "KIND": "Bad", "ACTION": "", "ACCEPTED": "False"}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("large", ["InsufficientResources", "needs room for 2 pods", "Warning"]),
        ("wrong", ["Type:", "Accepted", "spec.subGroups[0].minMember"]),
        ("tree", ["MinimumPlaced", "Sub Groups:", "Domain:"]),
        ("lost", ["Stale", "BelowMinimum", "Stale Since:"]),
    ],
)
def test_describe_shows_conditions_subgroups_and_events(plane, name, words):
    said = plane.kubectl("describe", "pg", name).stdout
    assert [word for word in words if word not in said] == [], said


def test_kubectl_can_wait_for_a_gang(plane):
    plane.kubectl("wait", "--for=condition=Scheduled", "pg/tree", "pg/racked", "--timeout=5s")
    plane.kubectl("wait", "--for=condition=Scheduled=false", "pg/large", "--timeout=5s")
    plane.kubectl("wait", "--for=condition=Stale", "pg/lost", "--timeout=5s")
    plane.kubectl("wait", "--for=condition=Accepted=false", "pg/wrong", "queue/lost", "--timeout=5s")
    plane.kubectl("wait", "--for=jsonpath={.status.phase}=Completed", "pg/done", "--timeout=5s")
    assert plane.kubectl("wait", "--for=condition=Scheduled", "pg/waits", "--timeout=1s", check=False).returncode == 1


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("pg.spec", ["minMember", "minSubGroup", "topologyConstraint", "<[]Object>"]),
        ("pg.spec.subGroups.topologyConstraint", ["requiredTopologyLevel", "preferredTopologyLevel"]),
        ("pg.status.subGroups", ["satisfied", "domain", "staleSince"]),
        ("queue.spec.resources.gpu", ["quota", "limit", "overQuotaWeight"]),
        ("topology.spec.levels", ["nodeLabel", "alias"]),
        ("resourceinterface.spec.gangScheduling.podGroups.subgroups", ["foreach", "podClassifier", "minReplicasPath"]),
    ],
)
def test_kubectl_explains_every_field(plane, path, words):
    """Each with a sentence of its own."""
    said = plane.kubectl("explain", path).stdout
    assert [word for word in words if word not in said] == [], said
    assert "<no description>" not in said, said


def test_an_empty_list_and_a_single_name_read_as_with_any_other_kind(plane):
    assert "No resources found" in plane.kubectl("get", "pg", "-n", "kube-system").stderr
    assert plane.kubectl("get", "pg", "tree", "-o", "name").stdout.strip() == "podgroup.scheduling.run.ai/tree"
    assert plane.kubectl("get", "pg", "nobody", check=False).stderr.strip().endswith('"nobody" not found')


def test_the_reason_of_a_gang_is_on_its_pods_where_more_nodes_would_help(plane):
    """What an autoscaler reads: only of the gang that has no room."""

    def told(name):
        conditions = plane.request("GET", f"{PODS}/{name}").body["status"].get("conditions", [])
        return [(one["status"], one.get("reason")) for one in conditions if one["type"] == "PodScheduled"]

    wait_until(lambda: told("large-0") == [("False", "Unschedulable")], 10, "the condition")
    assert told("waits-0") == []
    assert told("racked-0") == [("True", None)]
