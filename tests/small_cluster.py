"""A few documents on one small Topology of zones and racks, and the plan that they come to."""

from muster.api.kinds import kind_of, read_object
from muster.plan.cycle import schedule
from muster.snapshot.build import build
from muster.snapshot.world import World

TOPOLOGY = {
    "apiVersion": "kai.scheduler/v1alpha1",
    "kind": "Topology",
    "metadata": {"name": "dc"},
    "spec": {"levels": [{"nodeLabel": "t/zone"}, {"nodeLabel": "t/rack"}]},
}
GPU = "nvidia.com/gpu"


def node(name, gpus, zone="a", rack="", **more):
    labels = {"t/zone": zone, **({"t/rack": rack} if rack else {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": {"cpu": "32", "memory": "64Gi", GPU: gpus}},
        **more,
    }


def pod(name, gang="g", leaf="", gpus=1, status=None, metadata=None, **spec):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "annotations": {"pod-group-name": gang},
            "labels": {"kai.scheduler/subgroup-name": leaf} if leaf else {},
            **(metadata or {}),
        },
        "spec": {"containers": [{"resources": {"requests": {GPU: gpus}}}], **spec},
        "status": status or {},
    }


def gang(name="g", **spec):
    return {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": spec,
    }


def planned(*documents):
    world = World()
    for document in documents:
        kind = kind_of(document)
        found, problems = read_object(document, kind)
        assert not problems
        world.apply(found)
    return schedule(build(world, 0))[0]
