"""From documents to arrays: amounts, masks, ports, gangs and what keeps them from being tried."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.tree import NONE
from muster.snapshot import build as building
from muster.snapshot.build import Builder, build
from muster.snapshot.queues import CHARGES, PARTS, UNLIMITED
from muster.snapshot.world import World
from oracle.engine import apply, world_of
from oracle.instances import GPU, group, node, pod, topology
from short_forms import documents_of

QUEUE = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "team"}, "spec": {}}


def snapshot_of(*documents):
    return build(world_of(list(documents)), 0)


def gang_of(*documents):
    (gang,) = snapshot_of(*documents).gangs
    return gang


def free(snapshot, name, resource):
    return int(snapshot.free[snapshot.nodes.index(name), snapshot.resources.index(resource)])


def queue(name, under="", **resources):
    spec = {"parentQueue": under, "resources": resources}
    return {**QUEUE, "metadata": {"name": name}, "spec": spec}


def budget(app, namespace="default", **status):
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": app, "namespace": namespace},
        "spec": {"selector": {"matchLabels": {"app": app}}, "minAvailable": 1},
        "status": status,
    }


def with_metadata(document, **metadata):
    return {**document, "metadata": {**document["metadata"], **metadata}}


def with_status(document, **status):
    return {**document, "status": status}


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
    assert gang.counts[0] == (1, 1, 1, 7, 1)
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
        pytest.param(
            [group(minMember=1, queue="team"), QUEUE, queue("sub", "team")], HELD, "QueueNotLeaf", id="not a leaf"
        ),
        pytest.param([group(minMember=1, queue="sub"), queue("sub", "gone")], HELD, "QueueOrphaned", id="orphaned"),
        pytest.param([group(minMember=1, queue="sub"), queue("sub", "sub")], HELD, "QueueCycle", id="in a cycle"),
        pytest.param(
            [
                group(minMember=1, queue="team"),
                with_metadata(QUEUE, annotations={"kai.scheduler/allowed-namespaces": "research, default-2"}),
            ],
            HELD,
            "QueueForbidden",
            id="not for this namespace",
        ),
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


def test_gangs_without_queues_make_their_own():
    """By the names that they use; the arrays are the same until a name comes or goes."""
    world = world_of([node("n", 8), group(minMember=1, queue="b"), with_metadata(group(minMember=1), name="h")])
    builder = Builder(world)
    first = builder.build(0)
    assert first.queues.names == ("b", "default-queue")
    assert not first.queues.written
    apply(world, with_metadata(group(minMember=1, queue="b"), name="i"))
    assert builder.build(0).queues is first.queues
    apply(world, group(minMember=1, queue="c"))
    assert builder.build(0).queues.names == ("b", "c", "default-queue")
    apply(world, with_metadata(group(minMember=1), name="h"), deleted=True)
    assert builder.build(0).queues.names == ("b", "c")
    apply(world, QUEUE)
    found = builder.build(0)
    assert found.queues.names == ("team",)
    assert [gang.held[0].code for gang in found.gangs] == ["QueueNotFound"] * 2


def test_queues_change_without_touching_gangs():
    """What they may have is read again, gangs are taken over; their status changes nothing at all."""
    world = world_of([node("n", 8), group(minMember=1, queue="team"), queue("team", gpu={"quota": 1})])
    builder = Builder(world)
    first = builder.build(0)
    assert first.queues.quota.tolist() == [[UNLIMITED, UNLIMITED, PARTS]]
    apply(world, with_status(queue("team", gpu={"quota": 1}), allocated={"gpu": 1}))
    assert builder.build(0).queues is first.queues
    apply(world, queue("team", gpu={"quota": 2}))
    second = builder.build(0)
    assert second.queues.quota.tolist() == [[UNLIMITED, UNLIMITED, 2 * PARTS]]
    assert second.gangs[0] is first.gangs[0]


RACKED = group(minMember=1, topologyConstraint={"requiredTopologyLevel": "rack"})


def test_a_podgroup_is_judged_anew_when_it_says_something_else():
    """Its spec, or an annotation that its tree follows from; not when a pod comes."""
    world = World()
    builder = Builder(world)
    annotated = with_metadata(RACKED, annotations={"kai.scheduler/topology": "t"})
    seen = []
    for document in (node("n", 8), RACKED, annotated, group(minSubGroup=2), RACKED, pod("p")):
        apply(world, document)
        seen += builder.build(0).gangs
    trees = [gang.tree.nodes[0].constraint for gang in seen]
    assert [one and one.topology for one in trees] == ["", "t", None, "", ""]
    assert [any(issue.code == "Invalid" for issue in gang.held) for gang in seen] == [False, False, True, False, False]
    assert seen[4].tree is seen[3].tree


NOT_READY = {"conditions": [{"type": "Ready", "status": "False"}], "allocatable": {GPU: "8", "cpu": "64"}}


def levelled(*labels):
    """The Topology t with these levels."""
    return {**topology(), "metadata": {"name": "t"}, "spec": {"levels": [{"nodeLabel": label} for label in labels]}}


def cordoned(machine):
    return {**machine, "spec": {**machine.get("spec", {}), "unschedulable": True}}


def priority_class(value):
    head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "usual"}}
    return {**head, "value": value, "globalDefault": True}


CHANGES = st.lists(
    st.sampled_from(
        [
            *(
                (document, deleted)
                for document in (node("n", 8), node("m", 4), group(minMember=1))
                for deleted in (0, 1)
            ),
            *((with_status(node("n", 8), **NOT_READY), 0), (node("n", 6), 0), (queue("a", gpu={"quota": 2}), 0)),
            *((queue("a"), 0), (queue("a"), 1), (queue("b", "a"), 0), (queue("b", "a"), 1)),
            *((group(minMember=1, queue="b"), 0), (with_metadata(group(minMember=1, queue="a"), name="h"), 0)),
            *((pod("p", on=on, gang=gang), 0) for on in ("", "n", "m") for gang in ("", "g", "h")),
            *((pod("p"), 1), (budget("web"), 0), (budget("web"), 1), (budget("web", disruptionsAllowed=3), 0)),
            *((with_metadata(pod("q", on="n"), labels={"app": "web"}), 0), (budget("db", disruptionsAllowed=1), 0)),
            *((group(minMember=2), 0), (group(minSubGroup=2), 0), (RACKED, 0)),
            (with_metadata(RACKED, annotations={"kai.scheduler/topology": "t"}), 0),
            *((levelled(*levels), 0) for levels in (("rack",), ("zone", "rack"), ("zone",))),
            *((levelled("rack"), 1), (cordoned(node("n", 8)), 0)),
            *((priority_class(7), 0), (priority_class(8), 0), (priority_class(8), 1)),
        ]
    ),
    max_size=12,
)


@given(CHANGES, st.integers(0, 12))
def test_step_by_step_is_all_at_once(changes, seen):
    """A builder that looked in between sees what one that looks now does."""
    world, fresh = World(), World()
    builder = Builder(world)
    for at, (document, deleted) in enumerate(changes):
        if at == seen:
            builder.build(0)
        apply(world, document, deleted=bool(deleted))
        apply(fresh, document, deleted=bool(deleted))
    found, expected = builder.build(0), build(fresh, 0)
    assert found.queues.names == expected.queues.names
    assert found.queues.quota.tolist() == expected.queues.quota.tolist()
    assert found.capacity == expected.capacity
    assert [gang.held for gang in found.gangs] == [gang.held for gang in expected.gangs]
    assert [gang.tree for gang in found.gangs] == [gang.tree for gang in expected.gangs]
    assert [gang.holds for gang in found.gangs] == [gang.holds for gang in expected.gangs]
    assert [gang.priority for gang in found.gangs] == [gang.priority for gang in expected.gangs]
    assert [allowed(found, gang) for gang in found.gangs] == [allowed(expected, gang) for gang in expected.gangs]
    assert [allowances(found, gang) for gang in found.gangs] == [allowances(expected, gang) for gang in expected.gangs]


def allowed(snapshot, gang):
    """Per batch of waiting pods: where they may go."""
    return [snapshot.allowed[batch.shape].tolist() for batch in gang.waiting]


def allowances(snapshot, gang):
    """Per placed pod: how many may go of each budget that it counts in; numbers may be others."""
    return {
        name: sorted(snapshot.disruptions[guard] for guard in guards)
        for placed in gang.placed.values()
        for name, guards in zip(placed.pods, placed.guards, strict=True)
    }


def test_who_counts_in_which_budget():
    """By labels, in the gang's namespace; numbers lead to how many may go."""
    labelled = [with_metadata(pod(app, on="n"), labels={"app": app}) for app in ("db", "web", "x")]
    found = snapshot_of(
        node("n", 8),
        group(minMember=1),
        *labelled,
        budget("web", disruptionsAllowed=3),
        budget("db"),
        budget("x", "elsewhere", disruptionsAllowed=1),
    )
    assert found.gangs[0].placed[0].guards == ((0,), (1,), ())
    assert found.disruptions == (0, 3, 1)


def test_how_many_may_go_is_read_fresh():
    world = world_of([node("n", 8), group(minMember=1), with_metadata(pod("p", on="n"), labels={"app": "web"})])
    apply(world, budget("web", disruptionsAllowed=0))
    builder = Builder(world)
    first = builder.build(0)
    apply(world, budget("web", disruptionsAllowed=1))
    second = builder.build(0)
    assert (first.disruptions, second.disruptions) == ((0,), (1,))
    assert second.gangs[0] is first.gangs[0]
    apply(world, budget("web"), deleted=True)
    assert builder.build(0).gangs[0].placed[0].guards == ((),)


@pytest.mark.parametrize("defect", [AssertionError, ZeroDivisionError, KeyError])
def test_a_defect_of_ours_costs_one_gang_its_place(monkeypatch, defect):
    """It is told, its pods keep their room, and the others are planned."""
    made = building.gang_of

    def break_down(key, found, members, *rest):
        if key[1] == "bad" and found.spec.min_member:
            raise defect("nobody thought of this")
        return made(key, found, members, *rest)

    monkeypatch.setattr(building, "gang_of", break_down)
    things = {"nodes": [{"name": "n", "gpus": 2}], "gangs": {"bad": {"minMember": 1}, "good": {"minMember": 1}}}
    pods = [{"gang": "bad", "name": "bad", "on": "n"}, {"gang": "good", "name": "good"}]
    snapshot = snapshot_of(*documents_of({**things, "pods": pods}))
    bad, good = snapshot.gangs
    assert free(snapshot, "n", "nvidia.com/gpu") == 1
    assert [one.code for one in bad.held] == ["SchedulerError"]
    assert bad.held[0].detail.startswith(f"{defect.__name__}: ")
    assert "nobody thought of this" in bad.held[0].detail
    # Its queue still pays for it.
    assert [int(snapshot.charges[shape, CHARGES.index("gpu")]) for shape in bad.aside] == [PARTS]
    assert (good.held, len(good.waiting)) == ((), 1)


def test_an_invalid_gang_says_how_many_errors_there_are():
    tree = {"subGroups": [{"name": "a", "minMember": 1, "parent": "x"}, {"name": "b", "minMember": 1, "parent": "y"}]}
    snapshot = snapshot_of(*documents_of({"gangs": {"g": tree}}))
    assert snapshot.gangs[0].held[0].detail.endswith("(and 1 more)")
