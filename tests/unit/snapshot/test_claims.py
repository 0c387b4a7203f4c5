"""What claims come to: nothing, a mask over nodes, or a sentence that holds the gang."""

import itertools

import pytest

from muster.api.kinds import kind_of, read_object
from muster.api.native import DeviceClass
from muster.api.storage import CSINode
from muster.plan.cycle import schedule
from muster.plan.outcome import Verdict
from muster.snapshot.build import Builder, build
from muster.snapshot.claims import MOST_CLAIMS
from muster.snapshot.world import World
from small_cluster import gang, node, pod

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA = "failure-domain.beta.kubernetes.io/zone"
BOUND = {"pv.kubernetes.io/bind-completed": "yes"}


def plan_of(world):
    world.look_again()
    return schedule(build(world, 0))[0]


def claim(name, volume="v", **spec):
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default", "annotations": BOUND},
        "spec": {"volumeName": volume, **spec},
    }


def volume(name="v", labels=None, terms=None, **spec):
    affinity = {} if terms is None else {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}
    metadata = {"name": name, "labels": labels or {}}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": {**affinity, **spec}}


def mounts(*claims):
    return {"volumes": [{"name": one, "persistentVolumeClaim": {"claimName": one}} for one in claims]}


def world_of(*documents):
    world = World()
    apply(world, *documents)
    return world


def apply(world, *documents, **how):
    for document in documents:
        world.apply(read_object(document, kind_of(document))[0], **how)


def reached(volume_document, nodes):
    """The nodes that a pod with one claim to the volume may go to."""
    world = world_of(*nodes, gang("g", minMember=1), pod("p", gpus=0, **mounts("c")), claim("c"), volume_document)
    snapshot = Builder(world).build(0)
    (batch,) = snapshot.gangs[0].waiting
    assert snapshot.gangs[0].held == ()
    return {name for name, may in zip(snapshot.nodes, snapshot.allowed[batch.shape], strict=True) if may}


def term(key, operator, *values):
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


NODES = [
    node("a", 1, metadata={"name": "a", "labels": {ZONE: "z1", REGION: "r1", "host": "a"}}),
    node("b", 1, metadata={"name": "b", "labels": {ZONE: "z2", REGION: "r1", "host": "b"}}),
    node("old", 1, metadata={"name": "old", "labels": {BETA: "z1"}}),
    node("regional", 1, metadata={"name": "regional", "labels": {REGION: "r1"}}),
    node("bare", 1, metadata={"name": "bare", "labels": {}}),
]
EVERYWHERE = {"a", "b", "old", "regional", "bare"}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        pytest.param(volume(), EVERYWHERE, id="nothing is asked"),
        pytest.param(volume(labels={"team": "x"}), EVERYWHERE, id="labels that say nothing of zones"),
        pytest.param(volume(labels={ZONE: "z1"}), {"a", "bare"}, id="zone"),
        pytest.param(volume(labels={ZONE: "z1__z2"}), {"a", "b", "bare"}, id="a set of zones"),
        pytest.param(volume(labels={ZONE: "z1__ z2 "}), {"a", "b", "bare"}, id="a set with spaces"),
        pytest.param(volume(labels={ZONE: "z1__"}), EVERYWHERE, id="a set with an empty part is passed over"),
        pytest.param(volume(labels={ZONE: "z9"}), {"bare"}, id="a zone without nodes"),
        pytest.param(volume(labels={REGION: "r1"}), {"a", "b", "regional", "bare"}, id="region"),
        pytest.param(
            volume(labels={BETA: "z1"}), {"a", "old", "bare"}, id="the older label falls back to that of today"
        ),
        pytest.param(volume(labels={ZONE: "z1", REGION: "r2"}), {"bare"}, id="zone and region"),
        pytest.param(volume(terms=[term("host", "In", "a", "b")]), {"a", "b"}, id="node affinity"),
        pytest.param(volume(terms=[term("host", "In", "a"), term("host", "In", "b")]), {"a", "b"}, id="terms are or"),
        pytest.param(volume(terms=[]), set(), id="no term selects nothing"),
        pytest.param(volume(terms=[{}]), set(), id="an empty term selects nothing"),
        pytest.param(volume(terms=[term("host", "DoesNotExist")]), {"old", "regional", "bare"}, id="label absent"),
        pytest.param(volume(terms=[term("host", "In", "a")], labels={ZONE: "z2"}), set(), id="affinity and zone"),
        pytest.param(
            volume(terms=[{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}]),
            EVERYWHERE,
            id="names of nodes are not looked at, as in kube-scheduler",
        ),
    ],
)
def test_which_nodes_reach_a_volume(document, expected):
    """As kube-scheduler's filters VolumeBinding and VolumeZone judge (pod-rules §1.4, §1.5)."""
    assert reached(document, NODES) == expected


def shapes_of(world):
    return {batch.shape for gang in Builder(world).build(0).gangs for batch in gang.waiting}


def test_pods_with_claims_of_equal_effect_are_of_one_shape():
    """Pods of a StatefulSet have one claim each; only what the claims come to makes them differ."""
    nodes = [node("n1", 1, metadata={"name": "n1", "labels": {ZONE: "z1"}})]
    nodes.append(node("n2", 1, metadata={"name": "n2", "labels": {ZONE: "z2"}}))
    pods = [pod(f"p-{number}", **mounts(f"c-{number}")) for number in range(4)]
    claims = [claim(f"c-{number}", f"v-{number}") for number in range(4)]
    plain = [volume(f"v-{number}") for number in range(4)]
    assert len(shapes_of(world_of(*nodes, gang("g", minMember=4), *pods, *claims, *plain))) == 1
    zonal = [volume(f"v-{number}", labels={ZONE: "z1"}) for number in range(3)]
    # Said in other words, it is the same node.
    zonal.append(volume("v-3", terms=[term(ZONE, "In", "z1")]))
    assert len(shapes_of(world_of(*nodes, gang("g", minMember=4), *pods, *claims, *zonal))) == 1
    other = volume("v-3", labels={ZONE: "z2"})
    assert len(shapes_of(world_of(*nodes, gang("g", minMember=4), *pods, *claims, *zonal[:3], other))) == 2


def test_the_order_in_which_objects_come_means_nothing():
    """In any order of pods, claims and volumes, the plan is the same."""
    documents = [node("n", 2), gang("g", minMember=1), pod("p", **mounts("c")), claim("c"), volume()]
    for order in itertools.permutations(documents):
        world = world_of(*order)
        assert [gang.held for gang in Builder(world).build(0).gangs] == [()]


def held(world, builder):
    return [issue.detail for issue in builder.build(0).gangs[0].held]


def test_only_the_gangs_that_a_change_concerns_are_looked_at_again():
    """A claim, or its volume, touches the gangs whose pods wait for it, and no other."""
    world = world_of(node("n", 2), gang("g", minMember=1), pod("p", **mounts("c")), gang("h"), pod("h-0", "h"))
    builder = Builder(world)
    assert held(world, builder) == ["claim c is not found (spec.volumes[0].persistentVolumeClaim)"]
    apply(world, claim("other"), volume("elsewhere"))
    assert world.take_changes() == (set(), False)
    apply(world, claim("c"))
    assert world.take_changes() == ({("default", "g")}, False)
    apply(world, claim("c"))
    assert world.take_changes() == (set(), False)
    apply(world, volume("v"))
    assert world.take_changes() == ({("default", "g")}, False)
    apply(world, pod("p", nodeName="n", **mounts("c")))
    world.take_changes()
    apply(world, claim("c"), deleted=True)
    assert world.take_changes() == (set(), False)


def csi_node(name, count):
    drivers = [{"name": "d", "nodeID": "i", **({"allocatable": {"count": count}} if count is not None else {})}]
    metadata = {"name": name}
    return {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": metadata, "spec": {"drivers": drivers}}


def test_a_limit_of_a_driver_holds_as_long_as_a_node_has_it():
    """Volumes of a driver are not counted yet: any node that limits them is enough; a limit of zero is one."""
    csi = volume(csi={"driver": "d", "volumeHandle": "h"})
    world = world_of(node("n", 2), gang("g", minMember=1), pod("p", **mounts("c")), claim("c"), csi)
    builder = Builder(world)
    assert held(world, builder) == []
    apply(world, csi_node("n", None))
    assert held(world, builder) == []
    apply(world, csi_node("n", 0), csi_node("m", 3))
    assert "limited number of volumes" in held(world, builder)[0]
    apply(world, csi_node("n", None))
    assert "limited number of volumes" in held(world, builder)[0]
    apply(world, csi_node("m", 3), deleted=True)
    assert held(world, builder) == []


def test_a_missing_right_holds_those_that_ask_and_no_others():
    """What may not be read is named; a gang without claims is placed."""
    documents = [node("n", 2), gang("g", minMember=1), pod("p", **mounts("c")), gang("h", minMember=1), pod("h-0", "h")]
    world = world_of(*documents, claim("c"), volume())
    builder = Builder(world)
    for resource in ("persistentvolumeclaims", "persistentvolumes"):
        assert world.close(resource, f"muster may not list {resource}")
        found = builder.build(0).gangs
        assert [issue.detail for issue in found[0].held] == [
            f"muster may not list {resource} (spec.volumes[0].persistentVolumeClaim)"
        ]
        assert found[1].held == ()
        assert world.close(resource, "")
    # These are about drivers: a volume without one does not ask.
    world.close("csinodes", "muster may not list csinodes")
    assert held(world, builder) == []
    apply(world, volume(csi={"driver": "d", "volumeHandle": "h"}))
    assert held(world, builder) == ["muster may not list csinodes (spec.volumes[0].persistentVolumeClaim)"]


def test_an_object_that_cant_be_read_allows_nothing():
    """A volume that can't be read is missing; a CSINode that can't be read may have had a limit."""
    csi = volume(csi={"driver": "d", "volumeHandle": "h"})
    world = world_of(node("n", 2), gang("g", minMember=1), pod("p", **mounts("c")), claim("c"), csi)
    builder = Builder(world)
    metadata = read_object(csi_node("n", 1), kind_of(csi_node("n", 1)))[0].metadata
    world.refer_unread(CSINode, metadata, "spec is a list")
    assert held(world, builder) == ["CSINode n can't be read: spec is a list (spec.volumes[0].persistentVolumeClaim)"]
    # Another object of its kind says nothing about it.
    apply(world, csi_node("m", None))
    assert "can't be read" in held(world, builder)[0]
    apply(world, csi_node("n", None))
    assert held(world, builder) == []
    found = read_object(csi, kind_of(csi))[0]
    world.refer_unread(type(found), found.metadata, "wrong")
    assert "is not found" in held(world, builder)[0]


def test_a_pod_with_very_many_claims_is_held_by_one_sentence():
    """Nobody makes a plan, or a condition, large by listing claims."""
    world = world_of(node("n", 2), gang("g", minMember=1), pod("p", **mounts(*(f"c{n}" for n in range(3_000)))))
    assert len(held(world, Builder(world))) == 1
    assert MOST_CLAIMS < 3_000


def test_what_is_kept_of_a_volume_is_what_is_asked_of_it():
    """There may be tens of thousands: their labels and annotations are not kept."""
    world = world_of(volume(labels={ZONE: "z1", "team": "x"}))
    assert world.referred.storage.volumes["v"].metadata.labels == {ZONE: "z1"}


def device_class(name, resource=""):
    spec = {"extendedResourceName": resource} if resource else {}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}


def asks(resource, amount=1):
    return {"containers": [{"resources": {"requests": {resource: amount}}}]}


@pytest.mark.parametrize(
    ("resource", "why", "verdict"),
    [
        pytest.param("a.io/x", "may not", Verdict.HELD, id="a resource that no node has"),
        pytest.param("nvidia.com/gpu", "may not", Verdict.INFEASIBLE, id="a resource that nodes have too little of"),
        pytest.param("deviceclass.resource.kubernetes.io/gpu", "may not", Verdict.HELD, id="a class by its name"),
        pytest.param("hugepages-2Mi", "may not", Verdict.INFEASIBLE, id="a resource of Kubernetes itself"),
        pytest.param("a.io/x", "", Verdict.INFEASIBLE, id="a cluster without classes of devices"),
    ],
)
def test_classes_of_devices_that_may_not_be_read(resource, why, verdict):
    """Without the right to read them, only what no node has may be a device; where there are none, nothing changes."""
    world = world_of(node("n", 2), gang("g", minMember=1), pod("p", **asks(resource, 9)))
    if why:
        world.close("deviceclasses", why)
    assert plan_of(world).outcomes[0].verdict is verdict


def test_a_class_of_devices_that_cant_be_read_may_offer_anything():
    world = world_of(node("n", 2), gang("g", minMember=1), pod("p", **asks("a.io/x")))
    metadata = read_object(device_class("x"), kind_of(device_class("x")))[0].metadata
    world.refer_unread(DeviceClass, metadata, "wrong")
    assert plan_of(world).outcomes[0].verdict is Verdict.HELD
    apply(world, device_class("x", "a.io/y"))
    assert plan_of(world).outcomes[0].verdict is Verdict.INFEASIBLE


def test_what_a_class_offers_is_placed_by_device_plugin_where_there_is_enough():
    world = world_of(node("n", 2), gang("g", minMember=1), pod("p", gpus=2), device_class("gpu", "nvidia.com/gpu"))
    assert plan_of(world).outcomes[0].verdict is Verdict.PLACED


def test_a_pod_of_a_kubernetes_podgroup_is_held_until_the_group_is_known_to_be_plain():
    """Not found, not served, not to be read: what the group asks for is not known, and its pods are not torn apart."""
    group = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "native", "namespace": "default"},
        "spec": {"schedulingPolicy": {"basic": {}}},
    }
    member = pod("p", schedulingGroup={"podGroupName": "native"})
    world = world_of(node("n", 2), gang("g", minMember=1), member)
    builder = Builder(world)
    assert held(world, builder) == ["podgroup.scheduling.k8s.io/native is not found (spec.schedulingGroup)"]
    apply(world, group)
    assert held(world, builder) == []
    world.close("podgroups.scheduling.k8s.io", "this API server does not serve podgroups.scheduling.k8s.io")
    assert held(world, builder)[0].startswith(
        "its group native can't be read: this API server does not serve podgroups"
    )
    world.close("podgroups.scheduling.k8s.io", "")
    apply(world, {**group, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}})
    assert "spec.schedulingPolicy.gang" in held(world, builder)[0]
    apply(world, group, deleted=True)
    assert "is not found" in held(world, builder)[0]


def test_a_reference_to_a_workload_of_1_35_is_held():
    world = world_of(node("n", 2), gang("g", minMember=1), pod("p", workloadRef={"name": "w", "podGroup": "g"}))
    assert held(world, Builder(world)) == ["spec.workloadRef"]


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
def test_a_class_of_devices_counts_in_any_version(version):
    """A file may have been printed by an older cluster; what its class offers is no reason to say infeasible."""
    document = {"apiVersion": f"resource.k8s.io/{version}", "kind": "DeviceClass", "metadata": {"name": "gpu"}}
    found, problems = read_object({**document, "spec": {"extendedResourceName": "example.com/gpu"}}, kind_of(document))
    assert not problems
    assert found.spec.extended_resource_name == "example.com/gpu"
