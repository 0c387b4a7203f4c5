"""What a case puts on the cluster: nodes in racks, gangs in the words of either scheduler, and their pods."""

from typing import Any, NamedTuple

Document = dict[str, Any]

NAMESPACE = "default"
RACK, ZONE = "topology.muster.dev/rack", "topology.kubernetes.io/zone"
TOPOLOGY = "fleet"
NODES_PER_RACK, RACKS_PER_ZONE = 20, 5
GPUS = 8
NODE_CPU = 96
MUSTER, KUBE = "muster", "kube-scheduler"
_SCHEDULER_NAMES = {MUSTER: "kai-scheduler", KUBE: "default-scheduler"}
# Every so many gangs, one asks for a single rack, where somebody understands that.
RACK_EVERY, RACK_FIRST = 4, 1


class Gang(NamedTuple):
    """So many pods that are placed together or not at all; a lone pod is a gang of one."""

    name: str
    size: int
    one_rack: bool = False
    gpus: int = 1


class Thing(NamedTuple):
    """An object, and the path of the collection that it goes to."""

    path: str
    document: Document


def gangs(stem: str, count: int, size: int, *, racks: bool = False, gpus: int = 1) -> list[Gang]:
    """Gangs of one size; with `racks` every fourth of them in one rack."""
    return [
        Gang(f"{stem}-{number:05d}", size, racks and number % RACK_EVERY == RACK_FIRST, gpus) for number in range(count)
    ]


def rack_of(number: int) -> str:
    """The rack of the node with this number."""
    return f"rack-{number // NODES_PER_RACK:03d}"


def node_name(number: int) -> str:
    """The name of the node with this number."""
    return f"node-{number:05d}"


def node(number: int) -> Thing:
    """A node with GPUs, that nobody stands behind."""
    amounts = {"cpu": str(NODE_CPU), "memory": "512Gi", "pods": "110", "nvidia.com/gpu": str(GPUS)}
    conditions = [{"type": "Ready", "status": "True", "reason": "Bench", "message": ""}]
    name = node_name(number)
    zone = f"zone-{number // NODES_PER_RACK // RACKS_PER_ZONE:03d}"
    labels = {RACK: rack_of(number), ZONE: zone, "kubernetes.io/hostname": name, "kubernetes.io/arch": "amd64"}
    document = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": conditions},
    }
    return Thing("/api/v1/nodes", document)


def topology() -> Thing:
    """Zones, and racks in them."""
    levels = [{"nodeLabel": ZONE, "alias": "zone"}, {"nodeLabel": RACK, "alias": "rack"}]
    version = "kai.scheduler/v1alpha1"
    document = {"apiVersion": version, "kind": "Topology", "metadata": {"name": TOPOLOGY}, "spec": {"levels": levels}}
    return Thing(f"/apis/{version}/topologies", document)


def group(gang: Gang, who: str) -> Thing | None:
    """The gang as the scheduler knows it. To kube-scheduler a lone pod is a pod, and one rack is nothing to ask for."""
    if who == KUBE:
        version = "scheduling.k8s.io/v1alpha2"
        spec: Document = {"schedulingPolicy": {"gang": {"minCount": gang.size}}}
        if gang.size == 1:
            return None
    else:
        version = "scheduling.run.ai/v2alpha2"
        spec = {"minMember": gang.size}
        if gang.one_rack:
            spec["topologyConstraint"] = {"topology": TOPOLOGY, "requiredTopologyLevel": "rack"}
    metadata = {"name": gang.name, "namespace": NAMESPACE}
    document = {"apiVersion": version, "kind": "PodGroup", "metadata": metadata, "spec": spec}
    return Thing(f"/apis/{version}/namespaces/{NAMESPACE}/podgroups", document)


def pods(gang: Gang, who: str, nodes: list[str] | None = None) -> list[Thing]:
    """The pods of a gang; with `nodes`, bound already."""
    return [_pod(gang, number, who, nodes[number] if nodes else "") for number in range(gang.size)]


def _pod(gang: Gang, number: int, who: str, node_name: str) -> Thing:
    gpus = {"nvidia.com/gpu": str(gang.gpus)} if gang.gpus else {}
    requests = {"cpu": "1", "memory": "4Gi", **gpus}
    container = {
        "name": "main",
        "image": "registry.example/train:1",
        "env": [{"name": "RANK", "value": str(number)}, {"name": "WORLD_SIZE", "value": str(gang.size)}],
        "resources": {"requests": requests, **({"limits": gpus} if gpus else {})},
    }
    spec: Document = {
        "schedulerName": _SCHEDULER_NAMES[who],
        "containers": [container],
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
    }
    labels = {"app": gang.name, "team": "bench"}
    metadata: Document = {"name": f"{gang.name}-{number}", "namespace": NAMESPACE, "labels": labels}
    if node_name:
        spec["nodeName"] = node_name
    if who == MUSTER:
        metadata["annotations"] = {"pod-group-name": gang.name}
    elif gang.size > 1:
        spec["schedulingGroup"] = {"podGroupName": gang.name}
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    return Thing(f"/api/v1/namespaces/{NAMESPACE}/pods", document)
