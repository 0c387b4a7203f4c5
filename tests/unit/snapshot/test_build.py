"""From documents to arrays: amounts, masks, ports, gangs and what keeps them from being tried."""

import pytest

from muster.api.tree import NONE
from muster.snapshot.build import Builder, build
from muster.snapshot.world import World
from oracle.engine import apply, world_of
from oracle.instances import GPU, group, node, pod, topology

QUEUE = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "team"}, "spec": {}}


def snapshot_of(*documents):
    return build(world_of(list(documents)), 0)


def gang_of(*documents):
    (gang,) = snapshot_of(*documents).gangs
    return gang


def free(snapshot, name, resource):
    return int(snapshot.free[snapshot.nodes.index(name), snapshot.resources.index(resource)])


def with_spec(document, **spec):
    return {**document, "spec": {**document["spec"], **spec}}


def class_of(name, value, default=False):
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        "globalDefault": default,
    }


def test_free_is_what_others_leave():
    """Running and terminating pods hold room, whoever scheduled them; finished, waiting and strayed ones do not."""
    found = snapshot_of(
        node("n", 8, cpus=8),
        pod("ours", gpus=1, on="n", phase="Running"),
        pod("theirs", gpus=1, cpus=2, on="n", phase="Running", gang=""),
        pod("leaving", gpus=2, on="n", terminating=True),
        pod("done", gpus=1, on="n", phase="Succeeded"),
        pod("broken", gpus=1, on="n", phase="Failed"),
        pod("waiting", gpus=1),
        pod("strayed", gpus=1, on="gone"),
        group(minMember=1),
    )
    assert (free(found, "n", GPU), free(found, "n", "cpu"), free(found, "n", "pods")) == (4, 4000, 107)
    releasing = found.releasing[0, found.resources.index(GPU)]
    assert releasing == 2


def test_nodes_stand_in_order():
    found = snapshot_of(node("b", 2), node("a", 1), group(minMember=1), pod("p"))
    assert found.nodes == ("a", "b")
    assert found.allocatable[:, found.resources.index(GPU)].tolist() == [1, 2]


def test_the_whole_pod_is_asked_for():
    """Init containers, sidecars and overhead reach the arrays."""
    waiting = with_spec(
        pod("p", gpus=1, cpus=1),
        initContainers=[
            {"restartPolicy": "Always", "resources": {"requests": {"cpu": "500m"}}},
            {"resources": {"requests": {"cpu": "4"}}},
        ],
        overhead={"cpu": "250m", "memory": "64"},
    )
    found = snapshot_of(node("n", 8), group(minMember=1), waiting)
    ask = dict(zip(found.resources, found.asks[0].tolist(), strict=True))
    assert ask == {"cpu": 4750, "memory": 64, GPU: 1, "pods": 1}


def test_pods_of_one_shape_are_one_batch():
    """By leaf and shape, oldest first; ages are places in the whole leaf."""
    gang = gang_of(
        node("n", 8), group(minMember=1), pod("d", gpus=2), pod("a"), pod("b", gpus=2), pod("c", tolerates=True)
    )
    assert [(batch.pods, batch.ages) for batch in gang.waiting] == [
        (("a",), (0,)),
        (("b", "d"), (1, 3)),
        (("c",), (2,)),
    ]


def test_age_decides_before_names():
    young, old = pod("a"), pod("b")
    young["metadata"]["creationTimestamp"] = "2026-01-02T00:00:00Z"
    old["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    assert gang_of(node("n", 8), group(minMember=1), young, old).waiting[0].pods == ("b", "a")


@pytest.mark.parametrize(
    ("machine", "waiting", "may"),
    [
        pytest.param(node("n", 8), pod("p"), True, id="plain"),
        pytest.param(node("n", 8, cordoned=True), pod("p"), False, id="cordoned"),
        pytest.param(node("n", 8, taint="NoSchedule"), pod("p"), False, id="tainted"),
        pytest.param(node("n", 8, taint="NoSchedule"), pod("p", tolerates=True), True, id="tolerated"),
        pytest.param(node("n", 8, "a"), pod("p", zone="a"), True, id="selected"),
        pytest.param(node("n", 8, "a"), pod("p", zone="b"), False, id="not selected"),
        pytest.param(
            {
                **node("n", 8),
                "status": {"allocatable": {GPU: "8"}, "conditions": [{"type": "Ready", "status": "Unknown"}]},
            },
            pod("p"),
            False,
            id="not ready",
        ),
    ],
)
def test_masks(machine, waiting, may):
    found = snapshot_of(machine, group(minMember=1), waiting)
    assert found.allowed[0].tolist() == [may]


def port(number=80, ip="", protocol="TCP"):
    return {"hostPort": number, "protocol": protocol, **({"hostIP": ip} if ip else {})}


def ported(document, *ports):
    containers = [{**document["spec"]["containers"][0], "ports": list(ports)}]
    return with_spec(document, containers=containers)


@pytest.mark.parametrize(
    ("taken", "wanted", "fits"),
    [
        pytest.param(port(), port(), False, id="the same"),
        pytest.param(port(81), port(), True, id="another number"),
        pytest.param(port(protocol="UDP"), port(), True, id="another protocol"),
        pytest.param(port(ip="10.0.0.1"), port(ip="10.0.0.2"), True, id="another IP"),
        pytest.param(port(ip="10.0.0.1"), port(ip="10.0.0.1"), False, id="the same IP"),
        pytest.param(port(ip="10.0.0.1"), port(), False, id="all IPs include this one"),
        pytest.param(port(), port(ip="10.0.0.1"), False, id="this one is in all IPs"),
        pytest.param(port(ip="0.0.0.0"), port(ip="10.0.0.1"), False, id="0.0.0.0 is all"),
    ],
)
def test_ports_are_resources(taken, wanted, fits):
    """A node has one of every port; whether a pod fits is whether it finds what it asks for."""
    running = ported(pod("running", on="n", phase="Running", gang=""), taken)
    found = snapshot_of(node("n", 8), group(minMember=1), running, ported(pod("p"), wanted))
    ask = found.asks[found.gangs[0].waiting[0].shape]
    assert bool((found.free[0] >= ask).all()) == fits


def test_ports_of_terminating_pods_come_free():
    running = ported(pod("running", on="n", terminating=True, gang=""), port())
    found = snapshot_of(node("n", 8), group(minMember=1), running, ported(pod("p"), port()))
    ask = found.asks[found.gangs[0].waiting[0].shape]
    assert not (found.free[0] >= ask).all()
    assert (found.free[0] + found.releasing[0] >= ask).all()


def test_ports_that_nobody_waits_for_are_not_counted():
    running = ported(pod("running", on="n", phase="Running", gang=""), port())
    found = snapshot_of(node("n", 8), group(minMember=1), running, pod("p"))
    assert not [name for name in found.resources if name.startswith("host port")]


def test_what_pods_are_doing_is_counted():
    gated = with_spec(pod("gated"), schedulingGates=[{"name": "g"}])
    gang = gang_of(
        node("n", 8),
        group(minMember=3),
        pod("waits"),
        gated,
        pod("runs", on="n", phase="Running"),
        pod("bound", on="n"),
        pod("lost", on="gone"),
        pod("leaves", on="n", terminating=True),
        pod("done", phase="Succeeded"),
        pod("broken", phase="Failed"),
    )
    assert gang.placed[0].pods == ("bound", "runs")
    assert gang.counts[0] == (1, 1, 1, 7)
    assert (gang.present[0], gang.pending[0]) == (3, 1)
    assert (gang.satisfied[0], gang.ready[0]) == (True, True)


def test_nominations_are_rows():
    nominated = {**pod("a"), "status": {"nominatedNodeName": "n1"}}
    stale = {**pod("b"), "status": {"nominatedNodeName": "gone"}}
    gang = gang_of(node("n0", 8), node("n1", 8), group(minMember=1), nominated, stale)
    assert gang.waiting[0].nominated == (1, NONE)


def test_pods_of_other_schedulers_belong_to_no_gang():
    other = with_spec(pod("p"), schedulerName="default-scheduler")
    gang = gang_of(node("n", 8), group(minMember=1), other)
    assert gang.waiting == ()
    assert not gang.ready[0]


HELD, NOTED = "held", "notes"
REQUIRED = {"topologyConstraint": {"topology": "dc", "requiredTopologyLevel": "rack"}}


@pytest.mark.parametrize(
    ("documents", "where", "code"),
    [
        pytest.param([group(minMember=1, queue="nowhere"), QUEUE], HELD, "QueueNotFound", id="queue"),
        pytest.param([group(minMember=1, queue="team"), QUEUE], "", "", id="queue found"),
        pytest.param([group(minMember=1, queue="nowhere")], "", "", id="no queues at all: every name is one"),
        pytest.param([group(minMember=1), QUEUE], HELD, "QueueNotFound", id="the default queue is missing"),
        pytest.param([group(minMember=1, priorityClassName="x")], NOTED, "PriorityClassNotFound", id="priority"),
        pytest.param([group(minMember=1, **REQUIRED)], HELD, "TopologyNotFound", id="required topology"),
        pytest.param(
            [group(minMember=1, topologyConstraint={"topology": "dc", "preferredTopologyLevel": "rack"})],
            NOTED,
            "TopologyNotFound",
            id="preferred topology",
        ),
        pytest.param(
            [group(minMember=1, topologyConstraint={"topology": "dc", "requiredTopologyLevel": "cage"}), topology()],
            HELD,
            "LevelNotFound",
            id="required level",
        ),
        pytest.param(
            [group(minMember=1, topologyConstraint={"topology": "dc", "preferredTopologyLevel": "cage"}), topology()],
            NOTED,
            "LevelNotFound",
            id="preferred level",
        ),
        pytest.param([group(minMember=1, **REQUIRED), topology()], "", "", id="all there"),
        pytest.param([group(minSubGroup=1)], HELD, "Invalid", id="invalid"),
        pytest.param(
            [group(minMember=1), with_spec(pod("q"), resourceClaims=[{"name": "x"}])], HELD, "Unsupported", id="claims"
        ),
        pytest.param(
            [group(subGroups=[{"name": "a", "minMember": 1}])], NOTED, "SetAside", id="the pod has no subgroup"
        ),
    ],
)
def test_what_keeps_a_gang(documents, where, code):
    """What must be mended holds the gang, what need not is noted."""
    gang = gang_of(node("n", 8), pod("p"), *documents)
    assert [issue.code for issue in gang.held] == ([code] if where == HELD else [])
    assert [issue.code for issue in gang.notes] == ([code] if where == NOTED else [])


@pytest.mark.parametrize(
    ("name", "classes", "priority"),
    [
        pytest.param("", [], 0, id="none"),
        pytest.param("inference", [], 125, id="known without objects"),
        pytest.param("inference", [class_of("inference", 7)], 7, id="an object wins"),
        pytest.param("", [class_of("usual", 9, default=True)], 9, id="the cluster's default"),
        pytest.param("nobody", [class_of("usual", 9, default=True)], 9, id="unknown: the default"),
        pytest.param("low", [class_of("low", -5), class_of("usual", 9, default=True)], -5, id="below zero"),
    ],
)
def test_priorities(name, classes, priority):
    spec = {"priorityClassName": name} if name else {}
    assert gang_of(group(minMember=1, **spec), *classes).priority == priority


def test_holds_are_levels_by_number():
    """Required and preferred, of the tree and beside it, the wider tree nodes first."""
    subgroups = [
        {"name": "a", "minMember": 1, **REQUIRED},
        {"name": "b", "minMember": 1},
        {"name": "c", "minMember": 1},
    ]
    sets = [{"subGroups": ["b", "c"], "constraint": {"topology": "net", "requiredTopologyLevel": "switch"}}]
    root = {"topology": "dc", "requiredTopologyLevel": "zone", "preferredTopologyLevel": "block"}
    gang = gang_of(
        topology("dc"),
        topology("net"),
        group(topologyConstraint=root, subGroups=subgroups, topologyConstraints={"subGroupSets": sets}),
    )
    assert [tuple(hold) for hold in gang.holds] == [
        (0, (1, 2, 3), 0, 0, 1, False),
        (1, (1,), 0, 2, NONE, False),
        (2, (2, 3), 1, 1, NONE, True),
    ]


def test_what_did_not_change_is_taken_over():
    """A pod of one gang touches that gang; nodes that look the same keep everything."""
    world = World()
    other = group(minMember=1)
    other["metadata"] = {"name": "h"}
    for document in (node("n", 8), group(minMember=1), other, pod("p"), pod("q", gang="h")):
        apply(world, document)
    builder = Builder(world)
    first = builder.build(0)
    apply(world, pod("p2"))
    second = builder.build(1)
    assert second.gangs[1] is first.gangs[1]
    assert second.gangs[0] is not first.gangs[0]
    assert second.nodes is first.nodes
    apply(world, node("n", 4))
    third = builder.build(2)
    assert third.gangs == second.gangs
    assert free(third, "n", GPU) == 4


def test_a_new_resource_is_seen():
    """An amount that a node gains after the first look."""
    world = world_of([node("n", 0), group(minMember=1), pod("p", gpus=1)])
    builder = Builder(world)
    builder.build(0)
    waiting = pod("other", gpus=0)
    waiting["spec"]["containers"][0]["resources"]["requests"]["example.com/fpga"] = "1"
    apply(world, waiting)
    machine = node("n", 0)
    machine["status"]["allocatable"]["example.com/fpga"] = "2"
    apply(world, machine)
    assert free(builder.build(0), "n", "example.com/fpga") == 2
