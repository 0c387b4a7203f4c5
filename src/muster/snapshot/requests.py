"""What a pod asks of a node, by the rules of Kubernetes, and what of its own rules muster does not know yet."""

from collections.abc import Iterable, Mapping

from muster.api.cluster import Pod, PodAffinity, PodSpec, Resources
from muster.api.model import Amount
from muster.api.quantity import base_units

PODS = "pods"
# What the name of a port of a node begins with, where it stands among the resources.
HOST_PORT = "host port "
_GPU_FRACTIONS = ("gpu-fraction", "gpu-memory", "gpu-fraction-num-devices")
_POD_LEVEL = ("cpu", "memory", "hugepages-")

Request = dict[str, int]

# More than this nobody has: amounts beyond it are cut off, so that sums of them stay within 64 bits. What a pod asks
# for may be one more, and then fits nowhere.
LARGEST = 2**52


def request_of(spec: PodSpec) -> Request:
    """Amounts in base units, one pod included. Raises BadObject when an amount is no quantity.

    Containers run together, init containers one after the other and before them; a restartable init container
    (a sidecar) stays, so everything after it asks on top of it. What the pod states for itself wins over the sum.
    """
    asked = _sum(_stated(container.resources) for container in spec.containers)
    sidecars: Request = {}
    starting: Request = {}
    for container in spec.init_containers:
        own = _stated(container.resources)
        if container.restart_policy == "Always":
            sidecars = _sum((sidecars, own))
            own = sidecars
        else:
            own = _sum((own, sidecars))
        starting = _most(starting, own)
    asked = _most(_sum((asked, sidecars)), starting)
    if spec.resources is not None:
        whole = _stated(spec.resources)
        asked.update({name: amount for name, amount in whole.items() if name.startswith(_POD_LEVEL)})
    asked = _sum((asked, _amounts(spec.overhead)))
    asked[PODS] = 1
    return {name: min(amount, LARGEST + 1) for name, amount in asked.items() if amount > 0}


def unsupported_fields(pod: Pod) -> list[str]:
    """The fields of a pod that muster can't honour yet. Its gang is held and told so, never placed wrongly."""
    spec = pod.spec
    found = []
    if spec.affinity is not None:
        for name, affinity in (
            ("podAffinity", spec.affinity.pod_affinity),
            ("podAntiAffinity", spec.affinity.pod_anti_affinity),
        ):
            if affinity not in (None, PodAffinity()):
                found.append(f"spec.affinity.{name}")
    if spec.topology_spread_constraints:
        found.append("spec.topologySpreadConstraints")
    if spec.resource_claims:
        found.append("spec.resourceClaims")
    for index, volume in enumerate(spec.volumes):
        if volume.persistent_volume_claim is not None:
            found.append(f"spec.volumes[{index}].persistentVolumeClaim")
        if volume.ephemeral is not None:
            found.append(f"spec.volumes[{index}].ephemeral")
    return [*found, *unsupported_annotations(pod.metadata.annotations)]


def unsupported_annotations(annotations: Mapping[str, str]) -> list[str]:
    """The annotations of a pod that ask for what muster does not know yet."""
    return [f"metadata.annotations.{name}" for name in _GPU_FRACTIONS if name in annotations]


def host_ports_of(spec: PodSpec) -> list[tuple[str, str, int]]:
    """The ports of the node that the pod takes, as (IP, protocol, port); no IP stands for all of them."""
    ports = []
    sidecars = [container for container in spec.init_containers if container.restart_policy == "Always"]
    for container in (*spec.containers, *sidecars):
        for port in container.ports:
            number = port.container_port if spec.host_network and not port.host_port else port.host_port
            if number:
                ports.append(("" if port.host_ip == "0.0.0.0" else port.host_ip, port.protocol or "TCP", number))  # noqa: S104
    return sorted(set(ports))


def _stated(resources: Resources) -> Request:
    """Requests; a limit without a request is one."""
    return {**_amounts(resources.limits), **_amounts(resources.requests)}


def _amounts(stated: Mapping[str, Amount]) -> Request:
    return {name: base_units(name, amount) for name, amount in stated.items()}


def _sum(requests: Iterable[Request]) -> Request:
    total: Request = {}
    for request in requests:
        for name, amount in request.items():
            total[name] = total.get(name, 0) + amount
    return total


def _most(one: Request, other: Request) -> Request:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in {**one, **other}}
