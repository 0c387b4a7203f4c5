"""The scheduler as a process against the real control plane: gangs are bound whole, wait whole, and are told why."""

import json

import pytest

from e2e.plane import ControlPlane, gate, wait_until
from e2e.plane.stage import (
    NAMESPACE,
    clear,
    create,
    group,
    install,
    muster,
    node,
    nodes_of,
    pod,
    pod_spec,
    read,
    running,
    status_of,
)

gate.require()


@pytest.fixture(scope="module")
def plane(request):
    gate.obtain(request.config)
    with ControlPlane(controllers=True) as found:
        install(found)
        create(found, *(node(f"n{number}", {"rack": f"r{number // 2}"}) for number in range(4)))
        yield found


@pytest.fixture
def account(plane):
    """The rights that are shipped, and no others."""
    return plane.service_account_kubeconfig(NAMESPACE, "muster")


@pytest.fixture
def scheduler(plane, account, tmp_path):
    """`muster run`, as it would run in a cluster."""
    clear(plane)
    with running(account, tmp_path, "--no-leader-election") as process:
        yield process


def test_a_gang_waits_for_its_pods_and_is_bound_whole(plane, scheduler):
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
    create(plane, group("large", minMember=5), *(pod(f"l-{number}", "large") for number in range(5)))
    wait_until(lambda: status_of(plane, "large").get("reason") == "InsufficientResources", 20, "the scheduler")
    assert set(nodes_of(plane).values()) == {""}


def test_a_more_important_gang_takes_the_room_and_the_other_goes_whole(plane, scheduler):
    create(plane, group("low", minMember=4), *(pod(f"low-{number}", "low") for number in range(4)))
    wait_until(lambda: status_of(plane, "low").get("phase") == "Scheduled", 20, "the scheduler")
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 90}
    create(plane, high, group("high", minMember=1, priorityClassName="high"), pod("high-0", "high"))
    wait_until(lambda: nodes_of(plane).get("high-0"), 30, "the scheduler")
    assert not [name for name in nodes_of(plane) if name.startswith("low")]
    plane.kubectl("delete", "priorityclass", "high")


def test_a_restart_finds_everything_as_it_was(plane, account, scheduler, tmp_path):
    create(plane, group("g", minMember=2), *(pod(f"g-{number}", "g") for number in range(2)))
    wait_until(lambda: status_of(plane, "g").get("phase") == "Scheduled", 20, "the scheduler")
    before = nodes_of(plane), status_of(plane, "g")
    scheduler.kill()
    with running(account, tmp_path, "--no-leader-election", name="again"):
        create(plane, group("h", minMember=1), pod("h-0", "h"))
        wait_until(lambda: nodes_of(plane).get("h-0"), 20, "the scheduler")
        assert ({k: v for k, v in nodes_of(plane).items() if k != "h-0"}, status_of(plane, "g")) == before


def test_a_job_becomes_a_gang(plane, scheduler):
    """The real controllers make its pods; the gang is its own, and follows it."""
    template = {"spec": {**pod_spec(), "restartPolicy": "Never"}}
    notes = {"kai.scheduler/batch-min-member": "3"}
    spec = {"parallelism": 4, "completions": 4, "template": template}
    metadata = {
        "name": "train",
        "namespace": "default",
        "annotations": notes,
        "labels": {"kai.scheduler/queue": "default-queue"},
    }
    create(plane, {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec})
    wait_until(lambda: sum(map(bool, nodes_of(plane).values())) == 4, 30, "the pods of the Job")
    (found,) = json.loads(plane.kubectl("get", "pg", "-o", "json").stdout)["items"]
    assert found["metadata"]["name"].startswith("pg-train-")
    assert (found["spec"]["minMember"], found["spec"]["queue"]) == (3, "default-queue")
    plane.kubectl("annotate", "job", "train", "kai.scheduler/batch-min-member=2", "--overwrite")
    read = ("get", "pg", found["metadata"]["name"], "-o", "json")
    wait_until(lambda: json.loads(plane.kubectl(*read).stdout)["spec"]["minMember"] == 2, 20, "the PodGroup of the Job")
    plane.kubectl("delete", "job", "train")
    wait_until(lambda: "train" not in plane.kubectl("get", "pg").stdout, 30, "the garbage collector")


def condition(conditions, kind):
    return next((one for one in conditions if one["type"] == kind), None)


def told(plane, name):
    """What the events of an object say, by reason."""
    events = json.loads(plane.kubectl("get", "events", "-o", "json").stdout)["items"]
    return {one["reason"]: one for one in events if one["involvedObject"]["name"] == name}


def conditions_of(plane, name):
    return read(plane, "pod", name)["status"].get("conditions", [])


def test_one_decision_has_one_name_everywhere(plane, account, scheduler):
    """In the status, in the event, in the log and in what explain says."""
    create(plane, group("wide", minMember=5), *(pod(f"w-{number}", "wide") for number in range(5)))
    wait_until(lambda: "InsufficientResources" in told(plane, "wide"), 20, "an event")
    decision = status_of(plane, "wide")["decision"]
    event = told(plane, "wide")["InsufficientResources"]
    assert (event["type"], event["metadata"]["labels"]) == ("Warning", {"muster.dev/decision": decision})
    assert f"(decision {decision})" in event["message"]
    line = next(one for one in scheduler.lines() if one.get("gang") == "default/wide")
    assert (line["decision"], line["reason"]) == (decision, "InsufficientResources")
    said = muster("explain", "default/wide", "--kubeconfig", account, code=1)
    assert f"decision {decision}" in said


def test_an_autoscaler_is_asked_only_where_more_nodes_help(plane, scheduler):
    create(plane, group("wide", minMember=5), *(pod(f"w-{number}", "wide") for number in range(5)))
    create(plane, group("early", minMember=2), pod("e-0", "early"))
    create(plane, group("lost", minMember=1, queue="nowhere"), pod("l-0", "lost"))
    wait_until(lambda: condition(conditions_of(plane, "w-4"), "PodScheduled"), 20, "a condition")
    found = condition(conditions_of(plane, "w-0"), "PodScheduled")
    assert (found["status"], found["reason"]) == ("False", "Unschedulable")
    assert "InsufficientResources" in found["message"]
    wait_until(lambda: status_of(plane, "lost").get("reason") == "QueueNotFound", 20, "the scheduler")
    wait_until(lambda: status_of(plane, "early").get("reason") == "WaitingForPods", 20, "the scheduler")
    assert not condition(conditions_of(plane, "e-0"), "PodScheduled")
    # Where somebody has to mend something the pods say what, in a word that autoscalers pass over.
    assert condition(conditions_of(plane, "l-0"), "PodScheduled")["reason"] == "QueueNotFound"
    plane.kubectl("delete", "pod", "w-4", "--grace-period=0", "--force")
    wait_until(lambda: not condition(conditions_of(plane, "w-0"), "PodScheduled"), 20, "what is no longer so")


def test_a_pod_that_is_set_aside_is_told(plane, scheduler):
    tree = group("tree", subGroups=[{"name": "a", "minMember": 1}])
    create(plane, tree, pod("t-0", "tree", subgroup="a"), pod("t-1", "tree", subgroup="b"))
    wait_until(lambda: status_of(plane, "tree").get("phase") == "Scheduled", 20, "the scheduler")
    wait_until(lambda: "SetAside" in told(plane, "t-1"), 20, "an event")
    found = condition(conditions_of(plane, "t-1"), "muster.dev/Accepted")
    assert (found["status"], found["reason"]) == ("False", "SetAside")
    assert "set it to a leaf: a" in found["message"]
    assert not nodes_of(plane)["t-1"]
    plane.kubectl("label", "pod", "t-1", "kai.scheduler/subgroup-name=a", "--overwrite")
    wait_until(lambda: nodes_of(plane)["t-1"], 20, "the scheduler")


def test_queues_say_what_they_hold(plane, scheduler):
    def queue(name, **spec):
        return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec}

    create(plane, queue("top"), queue("team", parentQueue="top", resources={"cpu": {"quota": 12000}}))
    create(plane, queue("orphan", parentQueue="nowhere"))
    create(plane, group("g", minMember=2, queue="team"), *(pod(f"g-{number}", "g") for number in range(2)))

    def status(name):
        return read(plane, "queue", name).get("status", {})

    wait_until(lambda: status("team").get("allocated", {}).get("cpu") == 12000, 20, "the scheduler")
    assert status("team")["fairShare"]["cpu"] == 12000
    wait_until(lambda: status("top").get("childQueues") == ["team"], 20, "the scheduler")
    found = condition(status("orphan")["conditions"], "Accepted")
    assert (found["status"], found["reason"]) == ("False", "QueueOrphaned")
    plane.kubectl("delete", "pg,pods", "--all", "--grace-period=0", "--force")
    wait_until(lambda: status("team").get("allocated", {}).get("cpu") == 0, 20, "the scheduler")
    plane.kubectl("delete", "queues", "top", "team", "orphan")


def test_who_asked_for_it_is_told_after_one_failure(plane, scheduler):
    pods = [pod(f"o-{number}", "once") for number in range(5)]
    create(plane, group("once", minMember=5, schedulingBackoff=1), *pods)

    def found():
        return condition(status_of(plane, "once").get("conditions", []), "UnschedulableOnNodePool")

    wait_until(found, 20, "the scheduler")
    assert found()["status"] == "True"
    create(plane, node("more"))
    wait_until(lambda: status_of(plane, "once").get("phase") == "Scheduled", 20, "the scheduler")
    assert found() is None
    plane.kubectl("delete", "node", "more")
