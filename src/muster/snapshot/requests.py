"""What a pod asks of a node, by the rules of Kubernetes, and what of its own rules muster does not know yet."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress

from muster.api.cluster import Container, ContainerStatus, Pod, PodAffinity, PodSpec, Present, Resources, Volume
from muster.api.model import Amount
from muster.api.quantity import base_units
from muster.errors import BadObject

PODS = "pods"
# What the name of a port of a node begins with, where it stands among the resources.
HOST_PORT = "host port "
_GPU_FRACTIONS = ("gpu-fraction", "gpu-memory", "gpu-fraction-num-devices")
_ANYWAY, _RESTART_ALL = "ScheduleAnyway", "RestartAllContainers"
_OPERATORS = ("", "Equal", "Exists")
_POD_LEVEL = ("cpu", "memory", "hugepages-")

Request = dict[str, int]

# The condition of a pod whose resize the kubelet has not begun.
RESIZE_PENDING = "PodResizePending"
_NOTHING_TOLD = ContainerStatus()

# More than this nobody has: amounts beyond it are cut off, so that sums of them stay within 64 bits. What a pod asks
# for may be one more, and then fits nowhere.
LARGEST = 2**46


def request_of(spec: PodSpec) -> Request:
    """Amounts in base units, one pod included. Raises BadObject when an amount is no quantity."""
    whole = _stated(spec.resources) if spec.resources is not None else {}
    return _summed(spec, lambda container: _stated(container.resources), whole)


def held_request_of(pod: Pod) -> Request:
    """What a pod with a node holds while it may be resized: per container and resource the most of what its spec asks
    for, what the node agreed to and what it has. The spec does not count while the resize is known never to happen.

    Raises BadObject when an amount is no quantity.
    """
    spec, status = pod.spec, pod.status
    told = {one.name: one for one in (*status.init_container_statuses, *status.container_statuses)}
    leaves_spec_out = is_resize_infeasible(pod)

    def held(container: Container) -> Request:
        known = told.get(container.name, _NOTHING_TOLD)
        return _held(container.resources, known.allocated_resources, known.resources, leaves_spec_out)

    whole: Request = {}
    if spec.resources is not None:
        whole = _held(spec.resources, status.allocated_resources, status.resources, leaves_spec_out)
    return _summed(spec, held, whole)


def is_resized(pod: Pod) -> bool:
    """Whether the status speaks of other amounts than the spec, be it in other words."""
    spec, status = pod.spec, pod.status
    told = {one.name: one for one in (*status.init_container_statuses, *status.container_statuses)}
    pairs = [(spec.resources, status.allocated_resources, status.resources)]
    for container in (*spec.init_containers, *spec.containers):
        known = told.get(container.name, _NOTHING_TOLD)
        pairs.append((container.resources, known.allocated_resources, known.resources))
    for stated, allocated, actual in pairs:
        asked = stated.requests if stated is not None else {}
        if (allocated and allocated != asked) or (actual is not None and actual.requests not in ({}, asked)):
            return True
    return False


def is_resize_infeasible(pod: Pod) -> bool:
    """Whether the kubelet says that the resize which the spec asks for will never happen."""
    return any(
        one.type == RESIZE_PENDING and one.status == "True" and one.reason == "Infeasible"
        for one in pod.status.conditions
    )


def _held(
    stated: Resources, allocated: Mapping[str, Amount], actual: Resources | None, leaves_spec_out: bool
) -> Request:
    """What a container, or a pod as a whole, holds. A spec that does not count gives way only to what is known.

    An amount of the status that is no quantity, or below zero, says nothing; all others and the spec count.
    """
    stated_twice = (allocated, actual.requests if actual is not None else {})
    known = [_readable(amounts) for amounts in stated_twice]
    told = _most(*known)
    whole = all(len(some) == len(amounts) for some, amounts in zip(known, stated_twice, strict=True))
    if leaves_spec_out and allocated and actual is not None and whole:
        return told
    return _most(told, _stated(stated))


def _summed(spec: PodSpec, of: Callable[[Container], Request], whole: Request) -> Request:
    """What a pod asks for, given what each container does, and what the pod states for itself, which wins over the sum.

    Containers run together, init containers one after the other and before them; a restartable init container
    (a sidecar) stays, so everything after it asks on top of it.
    """
    asked = _sum(of(container) for container in spec.containers)
    sidecars: Request = {}
    starting: Request = {}
    for container in spec.init_containers:
        own = of(container)
        if container.restart_policy == "Always":
            sidecars = _sum((sidecars, own))
            own = sidecars
        else:
            own = _sum((own, sidecars))
        starting = _most(starting, own)
    asked = _most(_sum((asked, sidecars)), starting)
    asked.update({name: amount for name, amount in whole.items() if name.startswith(_POD_LEVEL)})
    asked = _sum((asked, _amounts(spec.overhead)))
    asked[PODS] = 1
    return {name: min(amount, LARGEST + 1) for name, amount in asked.items() if amount > 0}


def unsupported_fields(pod: Pod) -> list[str]:
    """The fields of a pod that muster can't honour yet. Its gang is held and told so, never placed wrongly."""
    spec = pod.spec
    found = [*_unsupported_affinity(spec), *_unsupported_spread(spec)]
    if spec.resource_claims:
        found.append("spec.resourceClaims")
    if spec.workload_ref is not None:
        found.append("spec.workloadRef")
    for index, volume in enumerate(spec.volumes):
        found += [f"spec.volumes[{index}].{name}" for name, there in _tying(volume) if there is not None]
    for index, toleration in enumerate(spec.tolerations):
        if toleration.operator not in _OPERATORS:
            found.append(f"spec.tolerations[{index}].operator")
    return [*found, *_declared_features(spec), *unsupported_annotations(pod.metadata.annotations)]


def wishes(spec: PodSpec) -> list[str]:
    """The fields that only say what the pod would like of other pods: they change no verdict, and are passed over."""
    found = []
    for name, affinity in _affinities(spec):
        if affinity.preferred_during_scheduling_ignored_during_execution:
            found.append(f"spec.affinity.{name}")
    for index, constraint in enumerate(spec.topology_spread_constraints):
        if constraint.when_unsatisfiable == _ANYWAY:
            found.append(f"spec.topologySpreadConstraints[{index}]")
    return found


def _affinities(spec: PodSpec) -> Iterator[tuple[str, PodAffinity]]:
    if spec.affinity is not None:
        if spec.affinity.pod_affinity is not None:
            yield "podAffinity", spec.affinity.pod_affinity
        if spec.affinity.pod_anti_affinity is not None:
            yield "podAntiAffinity", spec.affinity.pod_anti_affinity


def _unsupported_affinity(spec: PodSpec) -> Iterator[str]:
    for name, affinity in _affinities(spec):
        if affinity.required_during_scheduling_ignored_during_execution:
            yield f"spec.affinity.{name}"


def _unsupported_spread(spec: PodSpec) -> Iterator[str]:
    for index, constraint in enumerate(spec.topology_spread_constraints):
        if constraint.when_unsatisfiable != _ANYWAY:
            yield f"spec.topologySpreadConstraints[{index}]"


def _tying(volume: Volume) -> tuple[tuple[str, Present | None], ...]:
    """The kinds of volume that tie a pod to nodes, or keep two pods from sharing one; not claims."""
    return (
        ("ephemeral", volume.ephemeral),
        ("gcePersistentDisk", volume.gce_persistent_disk),
        ("awsElasticBlockStore", volume.aws_elastic_block_store),
        ("iscsi", volume.iscsi),
        ("rbd", volume.rbd),
        # These count for the limits of the drivers that took their place.
        ("azureDisk", volume.azure_disk),
        ("cinder", volume.cinder),
        ("portworxVolume", volume.portworx_volume),
        ("vsphereVolume", volume.vsphere_volume),
    )


def _declared_features(spec: PodSpec) -> Iterator[str]:
    """What only nodes can do that declare it in status.declaredFeatures."""
    if spec.host_network and spec.host_users is False:
        yield "spec.hostUsers"
    for kind, containers in (("containers", spec.containers), ("initContainers", spec.init_containers)):
        for index, container in enumerate(containers):
            if any(rule.action == _RESTART_ALL for rule in container.restart_policy_rules):
                yield f"spec.{kind}[{index}].restartPolicyRules"
            if any(mount.bind_mount_options for mount in container.volume_mounts):
                yield f"spec.{kind}[{index}].volumeMounts.bindMountOptions"


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


def _readable(stated: Mapping[str, Amount]) -> Request:
    """The amounts that are quantities, and not below zero."""
    found = {}
    for name, amount in stated.items():
        with suppress(BadObject):
            found[name] = base_units(name, amount)
    return {name: amount for name, amount in found.items() if amount >= 0}


def _sum(requests: Iterable[Request]) -> Request:
    total: Request = {}
    for request in requests:
        for name, amount in request.items():
            total[name] = total.get(name, 0) + amount
    return total


def _most(one: Request, other: Request) -> Request:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in {**one, **other}}
