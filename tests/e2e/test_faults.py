"""Faults between muster and a real API server: gangs end whole, nothing is bound twice, a sentence says what is wrong.

What `muster run` does about leases, rights and certificates of its own is in test_run.py.
"""

import json
import time
from collections import Counter

import pytest

from e2e.plane import ControlPlane, gate, wait_until
from e2e.plane.access import write_kubeconfig
from e2e.plane.certificates import Authority
from e2e.plane.proxy import Proxy
from e2e.plane.stage import (
    NAMESPACE,
    clear,
    create,
    group,
    install,
    node,
    nodes_of,
    pod,
    read,
    running,
    status_of,
)

gate.require()

NODES = 12
ALONE = "--no-leader-election"


@pytest.fixture(scope="module")
def plane(request):
    gate.obtain(request.config)
    with ControlPlane() as found:
        install(found)
        # A pod each, and no more.
        create(found, *(node(f"n{number}") for number in range(NODES)))
        yield found


@pytest.fixture
def proxy(plane):
    with Proxy(plane) as found:
        yield found


@pytest.fixture
def through(plane, proxy, tmp_path):
    """A kubeconfig of muster's own account whose way leads through the proxy."""
    return proxy.kubeconfig(tmp_path / "proxy.kubeconfig", plane.service_account_token(NAMESPACE, "muster"))


@pytest.fixture(autouse=True)
def _cleared(plane):
    clear(plane)
    yield
    clear(plane)


def gang(name, size, **spec):
    return group(name, minMember=size, **spec), *(pod(f"{name}-{number}", name) for number in range(size))


def is_whole(plane, *names):
    """Whether these gangs are bound, and nobody shares a node."""
    places = nodes_of(plane)
    used = Counter(filter(None, places.values()))
    assert max(used.values(), default=0) <= 1, places
    mine = [where for name, where in places.items() if name.rpartition("-")[0] in names]
    return bool(mine) and all(mine)


def is_told(plane, *names):
    return all(status_of(plane, name).get("phase") == "Scheduled" for name in names)


def wait_for(plane, *names, seconds=30.0):
    wait_until(lambda: is_whole(plane, *names) and is_told(plane, *names), seconds, f"the gangs {names}", pause_s=0.3)


def binds(proxy):
    """How many binds the server took, by pod, as far as they came this way."""
    return Counter(one.path.split("/")[6] for one in proxy.seen if "/binding" in one.path and one.status == 201)


def events_of(plane, name):
    """What people are told about an object, as kubectl shows it."""
    return plane.kubectl("get", "events", "--field-selector", f"involvedObject.name={name}").stdout


def messages(process):
    return [line["message"] for line in process.lines()]


def errors(process):
    return " ".join(str(line.get("error", "")) for line in process.lines())


def test_the_next_leader_completes_a_gang_that_was_half_bound(plane, proxy, through, tmp_path):
    """kill -9 between two binds."""
    direct = plane.service_account_kubeconfig(NAMESPACE, "muster")
    with running(through, tmp_path, name="first") as first:
        wait_until(lambda: "leading" in messages(first), 40, "the first leader")
        with running(direct, tmp_path, name="second") as second:
            wait_until(lambda: "standing by" in messages(second), 20, "the second one")
            for number in range(3, 6):
                proxy.fail(f"/pods/g-{number}/binding", wait_s=60.0, status=500)
            create(plane, *gang("g", 6))
            wait_until(lambda: sum(map(bool, nodes_of(plane).values())) == 3, 20, "half of the gang")
            first.kill()
            began = time.monotonic()
            create(plane, *gang("late", 8))
            wait_for(plane, "g", seconds=40)
            assert time.monotonic() - began <= 24
            # Six nodes are left, too few for eight pods: nobody took a part of them.
            wait_until(lambda: status_of(plane, "late").get("reason"), 20, "the other gang")
            assert not any(where for name, where in nodes_of(plane).items() if name.startswith("late"))


def test_watches_that_are_cut_again_and_again_lose_nothing(plane, proxy, through, tmp_path):
    with running(through, tmp_path, ALONE) as process:
        create(plane, *gang("g0", 2))
        wait_for(plane, "g0")
        cut = 0
        for number in range(1, 5):
            create(plane, *gang(f"g{number}", 2))
            cut += proxy.cut_watches()
        names = [f"g{number}" for number in range(5)]
        wait_for(plane, *names)
        assert cut >= 7
        assert set(binds(proxy).values()) == {1}
        # A pod that goes while nobody watches is missed afterwards.
        plane.kubectl("delete", "pod", "g0-0", "--grace-period=0", "--force", "--wait=false")
        proxy.cut_watches()
        wait_until(lambda: status_of(plane, "g0").get("phase") == "Stale", 30, "the gang that lost a pod")
        assert process.process.poll() is None


def test_an_api_server_that_crashes_is_waited_for_and_nothing_is_lost(plane, tmp_path):
    account = plane.service_account_kubeconfig(NAMESPACE, "muster")
    with running(account, tmp_path, ALONE) as process:
        create(plane, *gang("before", 3))
        wait_for(plane, "before")
        create(plane, *gang("half", 3)[:3])
        wait_until(lambda: status_of(plane, "half").get("reason") == "WaitingForPods", 20, "the gang that waits")
        plane.restart_apiserver(crash=True)
        began = time.monotonic()
        create(plane, pod("half-2", "half"), *gang("after", 3))
        wait_for(plane, "before", "half", "after")
        assert time.monotonic() - began < 30
        assert messages(process).count("the API server does not answer") <= 1
        assert not [line for line in process.lines() if line["level"] == "error"]


@pytest.mark.parametrize(
    ("fault", "again"),
    [
        pytest.param({"status": 500, "forward": True}, 1, id="500 but done"),
        pytest.param({"status": 0, "forward": True}, 1, id="cut off but done"),
        pytest.param({"status": 500}, 2, id="500 and not done"),
        pytest.param({"status": 0}, 2, id="cut off and not done"),
        pytest.param({"status": 429, "headers": (("Retry-After", "1"),)}, 2, id="too busy"),
    ],
)
def test_binds_whose_answers_are_lost_end_in_whole_gangs(plane, proxy, through, tmp_path, fault, again):
    """Every node takes one pod: a second bind, or room that was given away, would show."""
    proxy.fail("/pods/a-1/binding", times=1, **fault)
    proxy.fail("/pods/a-2/binding", times=1, **fault)
    proxy.fail("/pods/b-0/binding", times=1, **fault)
    with running(through, tmp_path, ALONE):
        create(plane, *gang("a", 6), *gang("b", 6))
        wait_for(plane, "a", "b")
    for name in ("a-1", "a-2", "b-0"):
        assert proxy.count("POST", f"/pods/{name}/binding") == again, name
    assert not [one for one in proxy.seen if one.path.partition("?")[0].endswith("/eviction")]


def test_a_server_that_nobody_reaches_for_a_while_is_waited_for(plane, proxy, through, tmp_path):
    with running(through, tmp_path, ALONE) as process:
        create(plane, *gang("before", 2))
        wait_for(plane, "before")
        proxy.stop()
        create(plane, *gang("g", 3))
        wait_until(lambda: "the API server does not answer" in messages(process), 20, "the sentence")
        time.sleep(3)
        proxy.start()
        wait_for(plane, "g")
        wait_until(lambda: "the API server answers again" in messages(process), 20, "the other sentence")
        assert messages(process).count("the API server does not answer") == 1


def test_statuses_that_can_not_be_written_are_told_once_and_true_in_the_end(plane, proxy, through, tmp_path):
    with running(through, tmp_path, ALONE) as process:
        proxy.fail("/podgroups/", method="PATCH", status=500)
        create(plane, *gang("g", 3))
        wait_until(lambda: is_whole(plane, "g"), 20, "the gang")
        wait_until(lambda: "a test says no" in errors(process), 20, "the sentence")
        create(plane, *gang("other", 2))
        wait_until(lambda: is_whole(plane, "other"), 20, "the other gang")
        proxy.heal()
        wait_for(plane, "g", "other")


def test_what_nobody_writes_about_stays_quiet(plane, proxy, through, tmp_path):
    """Placed, too large, incomplete, of an unknown queue, pods of no gang: ten seconds without a single write."""
    alone = pod("alone-0", "nobody")
    with running(through, tmp_path, ALONE):
        create(plane, *gang("placed", 3), *gang("large", NODES + 1), *gang("lost", 2)[:2], alone)
        wait_for(plane, "placed")
        wait_until(lambda: status_of(plane, "large").get("reason") == "InsufficientResources", 20, "the large gang")
        wait_until(lambda: status_of(plane, "lost").get("reason") == "WaitingForPods", 20, "the incomplete gang")
        time.sleep(5)
        began = time.monotonic()
        time.sleep(10)
        assert [one for one in proxy.seen if one.at_s >= began and one.method != "GET"] == []


def test_wrong_names_are_said_at_the_object_and_cost_nobody_else_anything(plane, tmp_path):
    """An unknown queue, an unknown topology, a pod of a gang that is not there."""
    account = plane.service_account_kubeconfig(NAMESPACE, "muster")
    with running(account, tmp_path, ALONE):
        create(plane, *gang("queueless", 1, queue="nowhere"))
        create(plane, *gang("mapless", 1, topologyConstraint={"topology": "nowhere", "requiredTopologyLevel": "rack"}))
        create(plane, pod("orphan-0", "nobody"), *gang("good", 3))
        wait_for(plane, "good")
        wait_until(lambda: status_of(plane, "queueless").get("reason") == "QueueNotFound", 20, "the unknown queue")
        wait_until(lambda: status_of(plane, "mapless").get("reason") == "TopologyNotFound", 20, "the unknown topology")
        for name in ("queueless", "mapless"):
            (found,) = [one for one in status_of(plane, name)["conditions"] if one["type"] == "Scheduled"]
            assert "nowhere" in found["message"]

        wait_until(lambda: "no PodGroup nobody" in events_of(plane, "orphan-0"), 20, "the pod of no gang")
        # What was missing comes: it goes on by itself.
        create(plane, group("nobody", minMember=1))
        wait_until(lambda: nodes_of(plane)["orphan-0"], 20, "the pod whose gang came")


def test_an_object_that_no_schema_looked_at_is_told_so_and_costs_nobody_else_anything(plane, proxy, through, tmp_path):
    """Somebody else's definitions let everything pass."""
    name = "podgroups.scheduling.run.ai"
    whole = json.loads(plane.kubectl("get", "crd", name, "-o", "json").stdout)["spec"]
    lax = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    versions = [{**one, "schema": {"openAPIV3Schema": lax}} for one in whole["versions"]]

    def put(found):
        patch = [{"op": "replace", "path": "/spec/versions", "value": found}]
        plane.kubectl("patch", "crd", name, "--type=json", "-p", json.dumps(patch))

    put(versions)
    try:
        bad = group("bad", minMember="many", subGroups=7)
        wait_until(
            lambda: plane.kubectl("create", "-f", "-", stdin=json.dumps(bad), check=False).returncode == 0, 20, ""
        )
        with running(through, tmp_path, ALONE) as process:
            create(plane, pod("bad-0", "bad"), *gang("good", 3))
            wait_for(plane, "good")
            wait_until(lambda: status_of(plane, "bad").get("phase") == "Invalid", 20, "the object that can't be read")
            (found,) = [one for one in status_of(plane, "bad")["conditions"] if one["type"] == "Accepted"]
            assert (found["status"], found["reason"]) == ("False", "Invalid")
            assert "spec.minMember" in found["message"] or "spec.subGroups" in found["message"]
            assert found["message"] in events_of(plane, "bad")
            time.sleep(4)
            began = time.monotonic()
            time.sleep(6)
            assert [one for one in proxy.seen if one.at_s >= began and one.method != "GET"] == []
            assert process.process.poll() is None
        clear(plane)
    finally:
        clear(plane)
        put(whole["versions"])


def test_a_gang_whose_node_vanishes_goes_after_its_grace_and_is_placed_again(plane, tmp_path):
    account = plane.service_account_kubeconfig(NAMESPACE, "muster")
    create(plane, node("brittle", {"only": "here"}))
    with running(account, tmp_path, ALONE):
        members = gang("g", 3, stalenessGracePeriod="6s")
        members[1]["spec"]["nodeSelector"] = {"only": "here"}
        create(plane, *members)
        wait_for(plane, "g")
        uids = {one["metadata"]["uid"] for one in read(plane, "pods")}
        plane.kubectl("delete", "node", "brittle")
        began = time.monotonic()
        wait_until(lambda: status_of(plane, "g").get("phase") == "Stale", 20, "the gang that lost a node")
        # What the collector of pods on vanished nodes does in a cluster.
        plane.kubectl("delete", "pod", "g-0", "--grace-period=0", "--force", "--wait=false")
        wait_until(lambda: not {one["metadata"]["uid"] for one in read(plane, "pods")} & uids, 30, "the rest of it")
        assert time.monotonic() - began >= 6
        members[1]["spec"].pop("nodeSelector")
        create(plane, *members[1:])
        wait_for(plane, "g")


@pytest.mark.parametrize("what", ["an authority that nobody knows", "a token that nobody knows"])
def test_who_is_not_trusted_is_said_in_one_sentence_and_the_process_stays_up(plane, tmp_path, what):
    ca, token = plane.ca, plane.service_account_token(NAMESPACE, "muster")
    if "authority" in what:
        (tmp_path / "other").mkdir()
        ca = Authority(tmp_path / "other").ca
    else:
        token = token[::-1]
    strange = write_kubeconfig(tmp_path / "strange.kubeconfig", plane.url, ca, {"token": token})
    words = "is not trusted" if "authority" in what else "Unauthorized"
    with running(strange, tmp_path, ALONE) as process:
        wait_until(lambda: words in errors(process), 20, "the sentence")
        time.sleep(5)
        assert process.process.poll() is None
        # Once for all, or once for each of the seven kinds; and not again with each attempt.
        assert len([line for line in process.lines() if words in str(line.get("error", ""))]) <= 10
        assert len(process.lines()) < 40
