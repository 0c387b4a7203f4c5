"""Conditions on waiting pods: only where more nodes help, only what differs, and nothing that is no longer so."""

import pytest
from msgspec import structs

from muster.api.cluster import PodCondition
from muster.decisions.orders import Memory, orders_of
from muster.decisions.signals import ACCEPTED, POD_SCHEDULED, Signal, after
from muster.plan.cycle import schedule
from muster.snapshot.build import Builder
from oracle.engine import world_of
from short_forms import documents_of, merged, ns

KEY = ("default", "g")
FULL = {"nodes": [{"name": "n", "gpus": 1}]}


class Cluster:
    """A world, what was told in it, and what the next cycle tells."""

    def __init__(self, *parts):
        documents = documents_of(merged(*parts))
        for document in documents:
            document["metadata"].setdefault("uid", f"uid-{document['metadata']['name']}")
        self.world = world_of(documents)
        self._builder, self._memory, self._told, self._now = Builder(self.world), None, Memory(), 0

    def signals(self):
        self._now += 1
        plan, self._memory = schedule(self._builder.build(ns(self._now)), None, self._memory)
        return [one.signal for one in orders_of(plan, self.world, (), self._told).signals]

    def tell(self, signals):
        """What the API server makes of them."""
        for signal in signals:
            pod = self.world.pods[signal.pod].pod
            types = {*signal.drop, *(one.type for one in signal.put)}
            kept = [one for one in pod.status.conditions if one.type not in types]
            self.world.apply(structs.replace(pod, status=structs.replace(pod.status, conditions=[*kept, *signal.put])))


def waits(**spec):
    return {
        "gangs": {"g": {"minMember": 2, **spec}},
        "pods": [{"gang": "g", "name": "g-0"}, {"gang": "g", "name": "g-1"}],
    }


def test_an_autoscaler_is_asked_for_nodes_where_there_is_no_room():
    cluster = Cluster(FULL, waits())
    found = cluster.signals()
    assert [signal.pod for signal in found] == [("default", "g-0"), ("default", "g-1")]
    (condition,) = found[0].put
    assert (condition.type, condition.status, condition.reason) == ("PodScheduled", "False", "Unschedulable")
    assert "default/g waits: InsufficientResources" in condition.message
    assert found[0].uid == "uid-g-0"


def test_what_a_pod_was_told_is_not_told_again():
    cluster = Cluster(FULL, waits())
    cluster.tell(cluster.signals())
    assert cluster.signals() == []


@pytest.mark.parametrize(
    "parts",
    [
        ({"gangs": {"g": {"minMember": 3}}, "pods": [{"gang": "g", "name": "g-0"}, {"gang": "g", "name": "g-1"}]},),
        (waits(markUnschedulable=False),),
        (waits(queue="nowhere", markUnschedulable=False), {"queues": {"here": {}}}),
    ],
    ids=["pods are missing", "nobody asked for it", "nobody asked for it, and no such queue"],
)
def test_where_nobody_can_help_or_wants_to_know_nothing_is_told(parts):
    assert Cluster(FULL, *parts).signals() == []


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ((waits(queue="nowhere"), {"queues": {"here": {}}}), "QueueNotFound"),
        ((waits(queue="here"), {"queues": {"here": {"quota": 1, "limit": 1}}}), "OverLimit"),
        ((waits(topologyConstraint={"topology": "t", "requiredTopologyLevel": "rack"}),), "TopologyNotFound"),
        ((waits(minSubGroup=1),), "Invalid"),
        (
            (
                {"gangs": {"g": {"minMember": 1}}},
                {"pods": [{"gang": "g", "name": "g-0", "spec": {"resourceClaims": [{"name": "c"}]}}]},
            ),
            "Unsupported",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_somebody_must_mend_is_told_and_calls_for_no_nodes(parts, reason):
    """An autoscaler looks for the reason Unschedulable: any other one is for people."""
    cluster = Cluster(FULL, *parts)
    found = cluster.signals()
    told = {(one.type, one.status, one.reason) for signal in found for one in signal.put}
    assert told == {("PodScheduled", "False", reason)}
    cluster.tell(found)
    assert cluster.signals() == []


def test_it_is_taken_back_when_it_is_no_longer_so():
    cluster = Cluster(FULL, waits())
    cluster.tell(cluster.signals())
    group = cluster.world.groups[KEY]
    cluster.world.apply(structs.replace(group, spec=structs.replace(group.spec, min_member=3)))
    found = cluster.signals()
    assert [(signal.put, signal.drop) for signal in found] == [((), ("PodScheduled",))] * 2
    cluster.tell(found)
    assert cluster.signals() == []


def test_a_condition_of_gates_that_are_gone_goes_too():
    cluster = Cluster(FULL, waits(minMember=3))
    gated = PodCondition(type="PodScheduled", status="False", reason="SchedulingGated")
    pod = cluster.world.pods["default", "g-0"].pod
    cluster.world.apply(structs.replace(pod, status=structs.replace(pod.status, conditions=[gated])))
    assert [(signal.pod[1], signal.drop) for signal in cluster.signals()] == [("g-0", ("PodScheduled",))]


def test_surplus_that_does_not_fit_may_have_nodes_too():
    cluster = Cluster(
        {"nodes": [{"name": "n", "gpus": 1}]},
        {"gangs": {"g": {"minMember": 1}}, "pods": [{"gang": "g", "name": "g-0", "on": "n"}]},
        {"pods": [{"gang": "g", "name": "g-1"}]},
    )
    (signal,) = cluster.signals()
    assert signal.pod == ("default", "g-1")
    assert "surplus of gang default/g" in signal.put[0].message


def test_a_pod_that_is_set_aside_is_told_and_what_was_mended_is_forgotten():
    tree = {"gangs": {"g": {"subGroups": [{"name": "a", "minMember": 1}]}}}
    cluster = Cluster({"nodes": [{"name": "n", "gpus": 0}]}, tree, {"pods": [{"gang": "g", "name": "g-0"}]})
    found = cluster.signals()
    ((signal,), (condition,)) = found, found[0].put
    assert (condition.type, condition.status, condition.reason) == ("muster.dev/Accepted", "False", "SetAside")
    assert "set it to a leaf: a" in condition.message
    cluster.tell(found)
    assert cluster.signals() == []
    pod = cluster.world.pods[signal.pod].pod
    labelled = structs.replace(pod.metadata, labels={"kai.scheduler/subgroup-name": "a"})
    cluster.world.apply(structs.replace(pod, metadata=labelled))
    (signal,) = cluster.signals()
    assert (signal.drop, [one.type for one in signal.put]) == (("muster.dev/Accepted",), ["PodScheduled"])


def test_what_was_said_about_a_gang_goes_with_its_podgroup():
    cluster = Cluster(FULL, waits())
    cluster.tell(cluster.signals())
    cluster.world.apply(cluster.world.groups[KEY], deleted=True)
    found = cluster.signals()
    assert {(signal.pod[1], signal.drop) for signal in found} == {(name, ("PodScheduled",)) for name in ("g-0", "g-1")}
    cluster.tell(found)
    assert cluster.signals() == []


def test_who_is_bound_is_set_aside_no_longer():
    """Its label was mended and there is room: nobody has the time to take the condition back before."""
    tree = {"gangs": {"g": {"subGroups": [{"name": "a", "minMember": 1}]}}}
    cluster = Cluster(FULL, tree, {"pods": [{"gang": "g", "name": "g-0"}]})
    cluster.tell(cluster.signals())
    pod = cluster.world.pods["default", "g-0"].pod
    labelled = structs.replace(pod.metadata, labels={"kai.scheduler/subgroup-name": "a"})
    cluster.world.apply(structs.replace(pod, metadata=labelled))
    (signal,) = cluster.signals()
    assert (signal.pod[1], signal.put, signal.drop) == ("g-0", (), ("muster.dev/Accepted",))


def test_a_running_pod_that_is_relabelled_is_told_too():
    tree = {"gangs": {"g": {"subGroups": [{"name": "a", "minMember": 1}]}}}
    cluster = Cluster(FULL, tree, {"pods": [{"gang": "g", "name": "g-0", "on": "n"}]})
    (signal,) = cluster.signals()
    assert [one.type for one in signal.put] == ["muster.dev/Accepted"]
    cluster.tell([signal])
    pod = cluster.world.pods["default", "g-0"].pod
    labelled = structs.replace(pod.metadata, labels={"kai.scheduler/subgroup-name": "a"})
    cluster.world.apply(structs.replace(pod, metadata=labelled))
    (signal,) = cluster.signals()
    assert (signal.put, signal.drop) == ((), ("muster.dev/Accepted",))


@pytest.mark.parametrize(
    ("first", "then", "put", "drop"),
    [
        pytest.param(("", ACCEPTED), (POD_SCHEDULED, ""), [POD_SCHEDULED], [ACCEPTED], id="what was to go goes too"),
        pytest.param((ACCEPTED, ""), (POD_SCHEDULED, ""), [ACCEPTED, POD_SCHEDULED], [], id="both are said"),
        pytest.param((ACCEPTED, ""), (POD_SCHEDULED, ACCEPTED), [POD_SCHEDULED], [ACCEPTED], id="it is taken back"),
        pytest.param(("", ACCEPTED), (ACCEPTED, ""), [ACCEPTED], [], id="it is said after all"),
    ],
)
def test_a_word_that_was_not_written_is_in_the_one_that_takes_its_place(first, then, put, drop):
    """Found by the simulation (seed 10088): that a pod is set aside no longer was never written, because it was told
    something else before it could be.
    """

    def made(said):
        conditions = (PodCondition(type=said[0], status="False"),) if said[0] else ()
        return Signal(("default", "p"), "u", conditions, (said[1],) if said[1] else ())

    found = after(made(first), made(then))
    assert ([one.type for one in found.put], list(found.drop)) == (put, drop)
    assert after(made(first)._replace(uid="another"), made(then)) == made(then)


def test_pods_of_gangs_that_are_gone_are_told_so_in_one_order():
    """The same cluster, the same writes in the same order (SPEC §11.8), whatever a set makes of it."""
    names = [f"g{number}" for number in range(9)]
    gangs = {"gangs": {name: {"minMember": 2} for name in names}}
    cluster = Cluster(
        FULL, gangs, {"pods": [{"gang": name, "name": f"{name}-{at}"} for name in names for at in (0, 1)]}
    )
    cluster.tell(cluster.signals())
    for group in list(cluster.world.groups.values()):
        cluster.world.apply(group, deleted=True)
    found = [signal.pod[1] for signal in cluster.signals()]
    assert found == [f"{name}-{at}" for name in names for at in (0, 1)]
