"""The mirror: after any sequence of events it holds what one look at the last state of everything would give."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from muster.api.cluster import (
    Container,
    ContainerStatus,
    LabelSelector,
    Node,
    NodeSpec,
    NodeStatus,
    Pod,
    PodCondition,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
    PodSpec,
    PodStatus,
    Resources,
    SchedulingGate,
)
from muster.api.model import Condition, Metadata
from muster.api.podgroup import PodGroup
from muster.api.queue import ALLOWED_NAMESPACES_ANNOTATION, Queue, QueueResource, QueueResources, QueueSpec, QueueStatus
from muster.snapshot.room import ALLOCATABLE, HELD, OTHERS, RELEASING, Room
from muster.snapshot.templates import shape_of
from muster.snapshot.world import State, World, allocatable_of, state_of

SOME_TIME = datetime(2026, 1, 31, tzinfo=UTC)
GONE = {"deletion_timestamp": SOME_TIME}


def pod(name="p", node="", phase="", gang="", scheduler="", metadata=None, gates=(), **requests) -> Pod:
    return Pod(
        metadata=Metadata(name=name, annotations={"pod-group-name": gang} if gang else {}, **(metadata or {})),
        spec=PodSpec(
            node_name=node,
            scheduler_name=scheduler,
            scheduling_gates=[SchedulingGate(name=gate) for gate in gates],
            containers=[Container(resources=Resources(requests=requests))],
        ),
        status=PodStatus(phase=phase),
    )


def node(name="n", **allocatable) -> Node:
    return Node(metadata=Metadata(name=name), status=NodeStatus(allocatable=allocatable))


def held(world: World, name: str, table: int = HELD) -> dict[str, int]:
    resources = world.room.resources
    amounts = world.room.table(table, world.room.rows([name]), resources)[0].tolist()
    return {resource: amount for resource, amount in zip(resources, amounts, strict=True) if amount}


@pytest.mark.parametrize(
    ("given_pod", "state"),
    [
        pytest.param(pod(), State.WAITING, id="waits"),
        pytest.param(pod(gates=["a"]), State.GATED, id="gated"),
        pytest.param(pod(node="n"), State.PLACED, id="bound, no phase yet"),
        pytest.param(pod(node="n", phase="Running"), State.PLACED, id="runs"),
        pytest.param(pod(node="n", metadata=GONE), State.TERMINATING, id="terminating"),
        pytest.param(pod(metadata=GONE), State.TERMINATING, id="deleted before it was placed"),
        pytest.param(pod(node="n", phase="Succeeded", metadata=GONE), State.SUCCEEDED, id="ended, then deleted"),
        pytest.param(pod(node="n", phase="Failed"), State.FAILED, id="failed"),
    ],
)
def test_states(given_pod, state):
    assert state_of(given_pod) is state


@pytest.mark.parametrize(
    ("given_pod", "holds"),
    [
        pytest.param(pod(cpu="1"), {}, id="a waiting pod holds nothing"),
        pytest.param(pod(node="n", cpu="1"), {"cpu": 1000, "pods": 1}, id="a bound pod does"),
        pytest.param(pod(node="n", cpu="1", scheduler="other"), {"cpu": 1000, "pods": 1}, id="whoever bound it"),
        pytest.param(pod(node="n", cpu="1", metadata=GONE), {"cpu": 1000, "pods": 1}, id="until it is gone"),
        pytest.param(pod(node="n", cpu="1", phase="Succeeded"), {}, id="not when it has ended"),
    ],
)
def test_who_holds_room(given_pod, holds):
    world = World()
    world.apply(given_pod)
    assert held(world, "n") == holds
    world.apply(given_pod, deleted=True)
    assert held(world, "n") == {}


@pytest.mark.parametrize(
    ("given_pod", "gang"),
    [
        pytest.param(pod(gang="g"), ("default", "g"), id="no scheduler named, but a gang"),
        pytest.param(pod(gang="g", scheduler="kai-scheduler"), ("default", "g"), id="ours by name"),
        pytest.param(pod(gang="g", scheduler="default-scheduler"), None, id="somebody else's"),
        pytest.param(pod(), None, id="no gang"),
        pytest.param(pod(gang="g", metadata={"namespace": "a"}), ("a", "g"), id="in its own namespace only"),
        pytest.param(pod(gang="a/g"), ("default", "a/g"), id="whatever it names"),
    ],
)
def test_membership(given_pod, gang):
    world = World()
    world.apply(given_pod)
    assert list(world.members) == ([gang] if gang else [])


def test_one_bad_amount_costs_one_pod():
    """A pod whose request is no quantity is known with its problem; the node's bad amount counts as none."""
    world = World()
    world.apply(pod("bad", gang="g", cpu="lots"))
    world.apply(pod("good", gang="g", cpu="1"))
    facts = world.members["default", "g"]
    assert {key[1]: bool(one.problem) for key, one in facts.items()} == {"bad": True, "good": False}
    assert allocatable_of(node(cpu="4", memory="much")) == {"cpu": 4000, "memory": 0, "pods": 110}
    assert allocatable_of(node(cpu="0.5", gpu="1500m")) == {"cpu": 500, "gpu": 1, "pods": 110}


def test_shapes_tell_what_matters_and_nothing_else():
    one = pod("a", cpu="1", memory="1Gi")
    same = pod("b", gang="g", memory="1Gi", cpu="1000m")
    other = pod("c", cpu="1001m", memory="1Gi")
    keys = [shape_of(each, World()._facts(each).request) for each in (one, same, other)]
    assert keys[0] == keys[1] != keys[2]


def test_changes_name_the_gangs_that_were_touched():
    """A cycle looks again at what changed, and at everything when the nodes or what gangs refer to did."""
    world = World()
    world.apply(PodGroup(metadata=Metadata(name="a")))
    world.apply(pod(gang="b"))
    assert world.take_changes() == ({("default", "a"), ("default", "b")}, True)
    assert world.take_changes() == (set(), False)
    world.apply(node(cpu="1"))
    assert world.take_changes() == (set(), True)
    world.apply(node(cpu="2"))
    assert world.take_changes() == (set(), False), "amounts are read fresh, only looks are cached"
    broken = Condition(type="Ready", status="False")
    world.apply(Node(metadata=Metadata(name="n"), status=NodeStatus(conditions=[broken])))
    assert world.take_changes() == (set(), True)
    world.apply(Node(metadata=Metadata(name="n"), spec=NodeSpec(unschedulable=True)))
    assert world.take_changes() == (set(), True)
    world.apply(Queue(metadata=Metadata(name="q")))
    assert world.take_changes() == ({("default", "a")}, False)


def budget(namespace="default", app="web", allowed=None, **spec) -> PodDisruptionBudget:
    return PodDisruptionBudget(
        metadata=Metadata(name="b", namespace=namespace),
        spec=PodDisruptionBudgetSpec(selector=LabelSelector(match_labels={"app": app}), **spec),
        status=PodDisruptionBudgetStatus(disruptions_allowed=allowed),
    )


def test_budgets_touch_their_namespace():
    """When other pods count in them than before; how many may go is read fresh."""
    world = World()
    for name, namespace in (("g", ""), ("h", ""), ("g", "a")):
        world.apply(PodGroup(metadata=Metadata(name=name, namespace=namespace)))
    world.take_changes()
    here = {("default", "g"), ("default", "h")}
    for found, deleted, touched in (
        (budget(), False, here),
        (budget(allowed=3), False, set()),
        (budget(allowed=3, min_available=1), False, set()),
        (budget(app="db"), False, here),
        (budget("a"), False, {("a", "g")}),
        (budget(app="db"), True, here),
        (budget("nowhere"), False, set()),
    ):
        world.apply(found, deleted=deleted)
        assert world.take_changes()[0] == touched
    assert list(world.budgets) == [("a", "b"), ("nowhere", "b")]


def queue(under="", allowed="", quota=0, **status) -> Queue:
    annotations = {ALLOWED_NAMESPACES_ANNOTATION: allowed} if allowed else {}
    resources = QueueResources(gpu=QueueResource(quota=quota))
    return Queue(
        metadata=Metadata(name="q", annotations=annotations),
        spec=QueueSpec(parent_queue=under, resources=resources),
        status=QueueStatus(**status),
    )


def test_queues_touch_gangs_when_other_gangs_may_use_them():
    """Not when only what they may have changes, and least of all when their status does: each cycle writes it."""
    world = World()
    world.apply(PodGroup(metadata=Metadata(name="g")))
    world.take_changes()
    gangs = {("default", "g")}
    for found, deleted, touched, changes in (
        (queue(), False, gangs, 1),
        (queue(allocated={"gpu": 1}), False, set(), 1),
        (queue(quota=1), False, set(), 2),
        (queue(quota=1, allowed="a"), False, gangs, 3),
        (queue("top", quota=1, allowed="a"), False, gangs, 4),
        (queue("top", quota=1, allowed="a", fair_share={"gpu": 1}), False, set(), 4),
        (queue(), True, gangs, 5),
    ):
        world.apply(found, deleted=deleted)
        assert world.take_changes()[0] == touched
        assert world.queue_changes == changes


@pytest.mark.parametrize(
    ("given_pod", "holds"),
    [
        pytest.param(pod(node="n", cpu="1"), {"cpu": 1000, "pods": 1}, id="of nobody"),
        pytest.param(pod(node="n", cpu="1", scheduler="other", gang="g"), {"cpu": 1000, "pods": 1}, id="of another"),
        pytest.param(pod(node="n", cpu="1", scheduler="kai-scheduler"), {"cpu": 1000, "pods": 1}, id="ours, no gang"),
        pytest.param(pod(node="n", cpu="1", metadata=GONE), {"cpu": 1000, "pods": 1}, id="terminating"),
        pytest.param(pod(node="n", cpu="1", gang="nobody"), {"cpu": 1000, "pods": 1}, id="of a gang that is not there"),
        pytest.param(pod(node="n", cpu="1", gang="g"), {}, id="of a gang"),
        pytest.param(pod(node="n", cpu="1", gang="g", metadata=GONE), {}, id="of a gang, terminating"),
        pytest.param(pod(cpu="1"), {}, id="nowhere"),
        pytest.param(pod(node="n", cpu="1", phase="Failed"), {}, id="ended"),
    ],
)
def test_what_belongs_to_no_gang(given_pod, holds):
    """Whether the PodGroup comes before the pod or after it."""
    group = PodGroup(metadata=Metadata(name="g"))
    for objects in ((given_pod, group), (group, given_pod), (group, given_pod, group)):
        world = World()
        for found in objects:
            world.apply(found)
        assert held(world, "n", OTHERS) == holds
        world.apply(group, deleted=True)
        assert held(world, "n", OTHERS) == held(world, "n")
        world.apply(group, deleted=True)
        world.apply(given_pod, deleted=True)
        assert held(world, "n", OTHERS) == {}


def test_tables_grow():
    room = Room()
    for index in range(100):
        room.set(f"n{index}", {f"r{index % 20}": index})
        room.add(HELD, f"n{index}", {f"r{index % 20}": 1, "pods": 1})
    found = room.table(ALLOCATABLE, room.rows(["n99", "n3"]), ["r19", "r3"])
    assert found.tolist() == [[99, 0], [0, 3]]
    assert room.table(HELD, room.rows(["n7"]), ["pods", "r7"]).tolist() == [[1, 1]]


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["p0", "p1", "p2", "p3", "group g"]),
        st.booleans(),
        st.sampled_from(["", "n0", "n1"]),
        st.sampled_from(["", "Running", "Succeeded", "Failed"]),
        st.sampled_from([{}, GONE]),
        st.sampled_from(["", "g", "h"]),
        st.integers(0, 3),
    ),
    max_size=30,
)


@given(EVENTS)
def test_the_mirror_is_what_the_last_state_says(events):
    """Pod by pod, in any order, with repetitions: room and membership equal those made from the last state alone."""
    world = World()
    last: dict[str, Pod | PodGroup] = {}
    for name, deleted, where, phase, metadata, gang, cpus in events:
        made = pod(name, where, phase, gang, metadata=metadata, cpu=str(cpus))
        if name == "group g":
            made = PodGroup(metadata=Metadata(name="g"))
        world.apply(made, deleted=deleted)
        last.pop(name, None)
        if not deleted:
            last[name] = made
    fresh = World()
    for made in last.values():
        fresh.apply(made)
    resources = ["cpu", "pods"]
    for table in (HELD, RELEASING, OTHERS):
        found = world.room.table(table, world.room.rows(["n0", "n1"]), resources)
        assert found.tolist() == fresh.room.table(table, fresh.room.rows(["n0", "n1"]), resources).tolist()
        assert (found >= 0).all()
    assert world.pods == fresh.pods
    assert world.members == fresh.members


def test_what_nobody_plans_with_touches_no_gang():
    """Kubelets and we ourselves write conditions all the time; where a pod is, or is meant to go, is another matter."""
    world = World()
    world.apply(pod(gang="g"))
    (key,) = world.pods
    world.take_changes()
    before = world.pods[key].pod
    told = PodCondition(type="PodScheduled", status="False", reason="Unschedulable")
    status = structs.replace(before.status, conditions=[told])
    metadata = structs.replace(before.metadata, resource_version="7")
    world.apply(structs.replace(before, status=status, metadata=metadata))
    assert world.take_changes()[0] == set()
    assert world.pods[key].pod.status.conditions == [told]
    assert world.members[world.pods[key].gang][key] is world.pods[key]
    world.apply(structs.replace(before, status=structs.replace(status, nominated_node_name="n")))
    assert world.take_changes()[0] == {world.pods[key].gang}


def resized(actual: str) -> Pod:
    """A running pod that asks for one CPU, and what it has."""
    status = ContainerStatus(name="c", resources=Resources(requests={"cpu": actual}))
    spec = PodSpec(node_name="n", containers=[Container(name="c", resources=Resources(requests={"cpu": "1"}))])
    return Pod(metadata=Metadata(name="p"), spec=spec, status=PodStatus(container_statuses=[status]))


def test_what_a_status_says_of_amounts_is_an_event():
    """A pod of which only the status changes holds what it says then, and is not taken for what it was."""
    world = World()
    for actual, cpu in (("4", 4000), ("2", 2000), ("1", 1000), ("lots", 1000), ("3", 3000)):
        world.apply(resized(actual))
        assert held(world, "n") == {"cpu": cpu, "pods": 1}
    world.apply(resized("3"), deleted=True)
    assert held(world, "n") == {}
