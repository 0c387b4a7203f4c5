"""A copy of a world plans as the world does, and neither sees what happens to the other."""

from muster.api.kinds import kind_of, read_object
from muster.plan.cycle import schedule
from muster.snapshot.build import build
from muster.snapshot.world import World
from small_cluster import TOPOLOGY, gang, node, pod

QUEUE = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "q"}, "spec": {}}
BUDGET = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "b", "namespace": "default"},
    "spec": {"selector": {"matchLabels": {"a": "b"}}},
}
BOUND = {"pv.kubernetes.io/bind-completed": "yes"}
CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "c", "namespace": "default", "annotations": BOUND},
    "spec": {"volumeName": "v"},
}
VOLUME = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": {}}
DRIVERS = {"drivers": [{"name": "d", "allocatable": {"count": 3}}]}
CSI_NODE = {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": "n0"}, "spec": DRIVERS}
DEVICES = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "d"}, "spec": {}}
DOCUMENTS = (
    *(TOPOLOGY, QUEUE, BUDGET, CLAIM, VOLUME, CSI_NODE, DEVICES),
    *(node(f"n{number}", 2, rack=f"r{number}") for number in range(3)),
    *(gang("g", minMember=2), pod("g-0", nodeName="n0"), pod("g-1")),
    *(gang("h", minMember=9), pod("h-0", "h")),
)


def apply(world, *documents, **how):
    for document in documents:
        world.apply(read_object(document, kind_of(document))[0], **how)


def parts(world):
    """All that a world holds, but for who listens and what it found out about templates."""
    hidden = ("_templates", "listener", "_changed", "_nodes_changed", "_guarded_anew", "room", "carriers", "referred")
    tables = {name: list(map(int, row)) for name, row in _rows(world)}
    referred = {**vars(world.referred), "storage": vars(world.referred.storage), "_offered": None}
    return {name: value for name, value in vars(world).items() if name not in hidden} | {
        "room": tables,
        "carriers": world.carriers.pods,
        "referred": referred,
    }


def _rows(world):
    room = world.room
    for node_name, row in room._rows.items():
        yield node_name, room._tables[:, row, : len(room._columns)].flatten()


def planned(world):
    plan = schedule(build(world, 0))[0]
    return [(one.gang, one.pods, list(one.nodes)) for one in plan.placements], [one.verdict for one in plan.outcomes]


def a_world():
    world = World()
    apply(world, *DOCUMENTS)
    world.rest(("default", "h"), "tired")
    world.leave_alone([("default", "g-0")])
    apply(world, gang("bad", minMember=1), error="wrong")
    return world


def test_a_copy_is_the_same():
    world = a_world()
    assert parts(world.copy()) == parts(world)
    assert planned(world.copy()) == planned(world)


def test_a_copy_of_a_world_that_was_planned_is_looked_at_whole():
    world = a_world()
    expected = planned(world)
    assert planned(world.copy()) == expected


def test_neither_sees_the_other():
    world = a_world()
    before, copy = parts(world.copy()), world.copy()
    apply(copy, node("more", 8), pod("g-2", nodeName="n1"), gang("new", minMember=1), pod("n-0", "new"))
    apply(copy, pod("g-0", nodeName="n0"), gang("h", minMember=9), QUEUE, TOPOLOGY, deleted=True)
    copy.rest(("default", "g"), "no")
    copy.leave_alone([])
    assert parts(world) == before
    kept = parts(copy)
    apply(world, pod("g-1", nodeName="n2"), node("n0", 2), deleted=False)
    apply(world, gang("g", minMember=2), deleted=True)
    assert parts(copy) == kept
