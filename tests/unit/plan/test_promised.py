"""Room that other schedulers have nominated (pod-rules §1.7), and rules of other pods that can not be read in full."""

import pytest

from muster.api.cluster import Namespace
from muster.decisions.words import sentence
from muster.plan.cycle import schedule
from muster.plan.invariants import Checker
from muster.plan.memory import Memory
from muster.plan.outcome import Placement
from muster.snapshot.apart import Apart, Around
from muster.snapshot.build import Builder
from muster.snapshot.selectors import NodeTable
from muster.snapshot.terms import MOST_PER_NAMESPACE, Carrier, Carriers, Requirement, Term
from oracle.engine import apply, world_of
from short_forms import documents_of, lone, merged, ns, number_of

CLASSES = {"low": "train", "equal": "build", "high": "inference"}
ANTI = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone", "labelSelector": {}}]}


def theirs(node="n", priority=100, gpus=2, **more):
    """A pod of kube-scheduler with a nominated node."""
    container = {"name": "c", "resources": {"requests": {"nvidia.com/gpu": gpus}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "theirs", "namespace": "default", "uid": "u"},
        "spec": {"schedulerName": "default-scheduler", "priority": priority, "containers": [container], **more},
        "status": {"nominatedNodeName": node},
    }


def builder_of(*pods, who=("low", "equal", "high"), gpus=2, nodes=({"name": "n", "gpus": 2, "zone": "z"},)):
    gangs = [lone(name, priorityClassName=CLASSES[name], gpus=gpus) for name in who]
    return Builder(world_of([*documents_of(merged({"nodes": list(nodes)}, *gangs)), *pods]))


def said(snapshot, memory=None):
    plan, memory = schedule(snapshot, memory=memory)
    verdicts = {gang.key[1]: outcome.verdict.value for gang, outcome in zip(snapshot.gangs, plan.outcomes, strict=True)}
    return verdicts, memory


@pytest.mark.parametrize("who", CLASSES)
@pytest.mark.parametrize(("seconds", "lapsed"), [(0, False), (300, False), (301, True)])
def test_after_five_minutes_only_lower_and_equal_priorities_wait(who, seconds, lapsed):
    """From outside a pod that waits for others to leave looks like one that is about to be bound: for some time it is
    taken for that. A clock that is set back does not shorten the time.
    """
    builder = builder_of(theirs(), who=(who,))
    for now in (0, -100, 0):
        assert said(builder.build(ns(now)))[0] == {who: "Held"}
    assert said(builder.build(ns(seconds - 100)))[0] == ({who: "Placed" if lapsed and who == "high" else "Held"})


def test_the_time_begins_again_with_another_node_and_another_process():
    nodes = [{"name": "n", "gpus": 2}, {"name": "m", "gpus": 2, "cordoned": True}]
    builder = builder_of(theirs(), who=("high",), nodes=nodes)
    builder.build(ns(0))
    other = theirs(node="m")
    builder._world.apply(world_of([other]).pods["default", "theirs"].pod)
    builder.build(ns(200))
    builder._world.apply(world_of([theirs()]).pods["default", "theirs"].pod)
    assert said(builder.build(ns(400)))[0] == {"high": "Held"}
    assert said(builder.build(ns(701)))[0] == {"high": "Placed"}
    assert said(Builder(builder._world.copy()).build(ns(701)))[0] == {"high": "Held"}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"status": {}}, id="nothing is nominated"),
        pytest.param({"status": {"nominatedNodeName": "gone"}}, id="the node is not there"),
        pytest.param({"status": {"nominatedNodeName": "n", "phase": "Failed"}}, id="it has failed"),
        pytest.param({"spec": {**theirs()["spec"], "schedulingGates": [{"name": "g"}]}}, id="it has a gate"),
        pytest.param({"spec": {**theirs()["spec"], "schedulerName": "kai-scheduler"}}, id="it is one of ours"),
        pytest.param({"metadata": {**theirs()["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}, id="it goes"),
    ],
)
def test_what_holds_no_room(change):
    assert said(builder_of({**theirs(), **change}, who=("low",)).build(ns(0)))[0] == {"low": "Placed"}


def test_infeasible_is_what_does_not_fit_without_it_either_and_that_is_remembered():
    builder = builder_of(theirs(), who=("low",), gpus=3)
    snapshot = builder.build(ns(0))
    verdicts, memory = said(snapshot, Memory())
    assert verdicts == {"low": "Infeasible"}
    assert list(memory.said) == [("default", "low")]
    assert said(builder_of(theirs(), who=("low",)).build(ns(0)), Memory())[1].said == {}


def test_the_port_of_a_nominated_pod_is_taken():
    ports = {"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]}
    gang = lone("low", priorityClassName="train", spec=ports)
    documents = documents_of(merged({"nodes": [{"name": "n", "gpus": 2}]}, gang))
    builder = Builder(world_of([*documents, theirs(gpus=0, containers=[{**ports["containers"][0]}])]))
    assert said(builder.build(ns(0)))[0] == {"low": "Held"}


def test_the_anti_affinity_of_a_nominated_pod_counts_and_ends_for_higher_priorities():
    nodes = [{"name": "n", "gpus": 2, "zone": "z"}, {"name": "m", "gpus": 2, "zone": "z"}]
    builder = builder_of(theirs(gpus=0, affinity={"podAntiAffinity": ANTI}), who=("low", "high"), nodes=nodes)
    assert said(builder.build(ns(0)))[0] == {"low": "Held", "high": "Held"}
    snapshot = builder.build(ns(301))
    assert said(snapshot)[0] == {"low": "Held", "high": "Placed"}
    (waits,) = [one.reasons[0] for one in schedule(snapshot)[0].outcomes if one.reasons]
    assert (waits.code, waits.detail) == ("WaitingForRoom", "default/theirs")


def test_the_checker_counts_nominated_room_by_itself():
    snapshot = builder_of(theirs(), who=("high",)).build(ns(0))
    placement = Placement(number_of(snapshot, "high"), 0, (0,), (0,), False)
    assert "n has not enough nvidia.com/gpu" in Checker(snapshot).faults(0, [placement])
    assert "a node has not enough" in Checker(snapshot).faults_of_lone_pods(
        snapshot.gangs[0].waiting[0].shape, [placement]
    )


def running(**term):
    affinity = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "zone", "labelSelector": {}, **term},
            ]
        }
    }
    found = theirs(affinity=affinity, nodeName="n", gpus=0)
    return {**found, "status": {}}


def test_the_checker_counts_anti_affinity_by_itself():
    nodes = [{"name": "n", "gpus": 2, "zone": "z"}, {"name": "m", "gpus": 2, "zone": "z"}, {"name": "o", "gpus": 2}]
    snapshot = builder_of(running(), who=("high",), nodes=nodes).build(ns(0))
    shape = snapshot.gangs[0].waiting[0].shape
    snapshot.allowed[shape][:] = True
    for node, wrong in (("m", True), ("n", True), ("o", False)):
        placement = Placement(0, 0, (0,), (snapshot.nodes.index(node),), False)
        assert bool(Checker(snapshot).faults(0, [placement])) == wrong
        assert bool(Checker(snapshot).faults_of_lone_pods(shape, [placement])) == wrong


@pytest.mark.parametrize(
    ("term", "verdict"),
    [
        pytest.param({"namespaceSelector": {"matchLabels": {"tier": "gold"}}}, "Held", id="it selects by labels"),
        pytest.param({"namespaceSelector": {}}, "Infeasible", id="all namespaces need no labels"),
        pytest.param({}, "Infeasible", id="nor does its own"),
        pytest.param(
            {"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}, "Held", id="an operator"
        ),
    ],
)
def test_what_cant_be_read_in_full_forbids_and_proves_nothing(term, verdict):
    builder = builder_of(running(**term), who=("low",))
    builder._world.hide(Namespace, "forbidden")
    snapshot = builder.build(ns(0))
    assert said(snapshot)[0] == {"low": verdict}
    reason = schedule(snapshot)[0].outcomes[0].reasons[0]
    words = sentence(reason, snapshot.gangs[0], snapshot)
    assert "default/theirs" in words
    if verdict == "Held":
        assert reason.code == "Unsupported"
        assert "whether a node is forbidden to it depends on the podAntiAffinity of default/theirs" in words
    else:
        assert "anti-affinity of other pods (default/theirs) forbids 1 of 1 nodes" in words
    builder._world.hide(Namespace, "")
    if "namespaceSelector" in term and verdict == "Held":
        assert said(builder.build(ns(0)))[0] == {"low": "Placed"}


def test_a_namespace_with_too_much_to_read_counts_as_if_it_meant_every_pod():
    """It costs no more than the one term that says so, and the terms of others are read as before."""
    carriers = Carriers()
    half = frozenset(map(str, range(MOST_PER_NAMESPACE // 2)))
    one, other = (Term(frozenset(("a",)), None, (Requirement(key, "In", half),), key) for key in "kl")
    carriers.put(("a", "p"), Carrier((one,), "n"))
    carriers.put(("b", "p"), Carrier((one,), "n"))
    assert set(carriers.all_terms()) == {one}
    carriers.put(("a", "q"), Carrier((other,), "n"))
    every = {Term(frozenset(("a",)), None, (), key, unclear=True) for key in "kl"}
    assert set(carriers.all_terms()) == {one, *every}
    wide = other._replace(namespaces=frozenset(), namespace_selector=())
    carriers.put(("a", "q"), Carrier((wide,), "n"))
    assert Term(frozenset(), (), (), "l", unclear=True) in set(carriers.all_terms())
    carriers.put(("a", "q"), None)
    assert set(carriers.all_terms()) == {one}


def test_without_terms_nothing_is_looked_at():
    apart = Apart()
    before, after = (Around(NodeTable([]), {}, {}, at) for at in (0, 7))
    assert apart.update(Carriers(), {}, before, hidden=False) == apart.update(Carriers(), {}, after, hidden=True)
    assert apart.is_empty


def test_a_no_is_not_remembered_when_a_rule_of_others_ends():
    """Room grew only on a node that no gang may use; but a node beside it is forbidden no more."""
    nodes = [
        {"name": "n", "gpus": 2, "zone": "z", "cordoned": True},
        {"name": "m", "gpus": 2, "zone": "z"},
        {"name": "o", "gpus": 0, "zone": "y"},
    ]
    here, there = running(), running()
    there["metadata"] = {**there["metadata"], "name": "there"}
    there["spec"] = {**there["spec"], "nodeName": "o"}
    pair = {"gangs": {"pair": {"minMember": 2}}, "pods": [{"gang": "pair", "count": 2}]}
    builder = Builder(world_of([*documents_of(merged({"nodes": nodes}, pair)), here, there]))
    verdicts, memory = said(builder.build(ns(0)), Memory())
    assert verdicts == {"pair": "Infeasible"}
    assert set(memory.said) == {("default", "pair")}
    apply(builder._world, here, deleted=True)
    assert said(builder.build(ns(1)), memory)[0] == {"pair": "Placed"}
