"""A cluster as one file, and back: the objects of the mirror, the moment, and the configuration that decides.

Pure: bytes in, bytes out. A recording holds only what muster reads, so there are no images, commands or variables of
containers in it. Redacted, it also leaves out the annotations and labels that nothing refers to, and what people call
their queues and containers. Names stay: without them nobody could read a plan.
"""

import gzip
import io
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec
from msgspec import structs

from muster import __version__
from muster.api.cluster import (
    ADMITTED_ANNOTATION,
    POD_GROUP_ANNOTATION,
    SUBGROUP_LABEL,
    Container,
    ContainerStatus,
    LabelRequirement,
    LabelSelector,
    Namespace,
    Node,
    NodeSelectorTerm,
    Pod,
    PodAffinityTerm,
    PodDisruptionBudget,
    PriorityClass,
)
from muster.api.model import Condition, Metadata
from muster.api.native import DeviceClass, NativeConstraints, NativePodGroup, NativePolicy
from muster.api.podgroup import GROUPER_ANNOTATION, KEEP_ANNOTATION, TOPOLOGY_ANNOTATION, PodGroup, PodGroupStatus
from muster.api.priorities import MAX_PRIORITY_ANNOTATION
from muster.api.queue import ALLOWED_NAMESPACES_ANNOTATION, RECLAIM_POLICY_ANNOTATION, Queue, QueueStatus
from muster.api.storage import ZONE_LABELS, CSIDriver, CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass
from muster.api.topology import Topology
from muster.errors import UnreadableInput
from muster.snapshot.referred import NOT_FOUND
from muster.snapshot.requests import is_resized
from muster.snapshot.world import Key, World

FORMAT, VERSION = "muster-snapshot", 1

# Annotations whose value matters, and those of which only the presence does.
_ANNOTATIONS = frozenset(
    {ADMITTED_ANNOTATION, POD_GROUP_ANNOTATION, TOPOLOGY_ANNOTATION, KEEP_ANNOTATION, ALLOWED_NAMESPACES_ANNOTATION}
    | {MAX_PRIORITY_ANNOTATION, RECLAIM_POLICY_ANNOTATION}
)
_PRESENT_ANNOTATIONS = frozenset({GROUPER_ANNOTATION, "gpu-fraction", "gpu-memory", "gpu-fraction-num-devices"})
# The condition that is read back: since when a gang waits, and for what.
_CONDITION = "Scheduled"
_GZIP_MAGIC = b"\x1f\x8b"

Thing = TypeVar("Thing", bound=msgspec.Struct)
Named = TypeVar("Named", Container, ContainerStatus)
StoredThing = TypeVar("StoredThing", PersistentVolumeClaim, PersistentVolume, StorageClass, CSINode, CSIDriver)


def looks_recorded(beginning: bytes) -> bool:
    """Whether a file that begins so is a recording: nothing else that is read is compressed, or says so of itself."""
    return beginning.startswith(_GZIP_MAGIC) or f'"format":"{FORMAT}"'.encode() in b"".join(beginning.split())


class Header(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a file says about itself before anything else of it is believed."""

    format: str = ""
    version: int = 0


class Broken(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A PodGroup that was read with errors, and the first of them."""

    namespace: str
    name: str
    error: str


class Recording(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One moment of a cluster. Lists are sorted by namespace and name."""

    format: str = FORMAT
    version: int = VERSION
    made_by: str = f"muster {__version__}"
    redacted: bool = True
    now: str
    now_ns: int
    # As a configuration file has it; what is not about reading files.
    config: dict[str, Any]
    nodes: list[Node] = []
    pods: list[Pod] = []
    pod_groups: list[PodGroup] = []
    topologies: list[Topology] = []
    queues: list[Queue] = []
    priority_classes: list[PriorityClass] = []
    pod_disruption_budgets: list[PodDisruptionBudget] = []
    # What pods refer to; kinds that could not be read, with the reason; and what is said of what is not there.
    persistent_volume_claims: list[PersistentVolumeClaim] = []
    persistent_volumes: list[PersistentVolume] = []
    storage_classes: list[StorageClass] = []
    csi_nodes: list[CSINode] = []
    csi_drivers: list[CSIDriver] = []
    device_classes: list[DeviceClass] = []
    native_pod_groups: list[NativePodGroup] = []
    closed: dict[str, str] = {}
    absent: str = NOT_FOUND
    namespaces: list[Namespace] = []
    # Why namespaces could not be read.
    namespaces_hidden: str = ""
    invalid: list[Broken] = []
    # Whether a bound pod without an admission mark is of no gang.
    asks_for_marks: bool = False
    # Whether pods may be deleted: a Queue may ask that budgets be ignored.
    may_delete: bool = True


def record(world: World, now_ns: int, config: Mapping[str, Any], *, redact: bool = True) -> Recording:
    """The world at a moment."""
    recording = Recording(
        may_delete=world.may_delete,
        redacted=redact,
        now=datetime.fromtimestamp(now_ns // 1_000_000_000, tz=UTC).isoformat().replace("+00:00", "Z"),
        now_ns=now_ns,
        config={key: value for key, value in config.items() if key != "input"},
        nodes=_in_order(world.nodes),
        pods=[world.pods[key].pod for key in sorted(world.pods)],
        pod_groups=_in_order(world.groups),
        topologies=_in_order(world.topologies),
        queues=_in_order(world.queues),
        priority_classes=_in_order(world.priority_classes),
        pod_disruption_budgets=_in_order(world.budgets),
        **_referred(world, only_named=redact),
        namespaces=_in_order(world.namespaces),
        namespaces_hidden=world.hidden.get(Namespace, ""),
        invalid=[
            *(Broken(namespace="", name=name, error=error) for name, error in sorted(world.invalid_queues.items())),
            *(Broken(namespace=key[0], name=key[1], error=world.invalid[key]) for key in sorted(world.invalid)),
        ],
        asks_for_marks=world.asks_for_marks,
    )
    return _redacted(recording) if redact else recording


def _referred(world: World, *, only_named: bool) -> dict[str, Any]:
    """The objects that pods refer to; `only_named`: those that waiting pods name, and what is behind them."""
    referred = world.referred
    storage, found = referred.storage, {"closed": referred.closed, "absent": referred.absent}
    claims, volumes, groups = storage.claims, storage.volumes, referred.groups
    if only_named:
        waiting = [(key[0], facts.refers) for key, facts in world.pods.items() if facts.refers]
        named = {(namespace, use.claim) for namespace, refers in waiting for use in refers.claims}
        claims = {key: claim for key, claim in claims.items() if key in named}
        behind = {claim.spec.volume_name for claim in claims.values()}
        volumes = {name: volume for name, volume in volumes.items() if name in behind}
        wanted = {(namespace, refers.group) for namespace, refers in waiting}
        groups = {key: group for key, group in groups.items() if key in wanted}
    return found | {
        "persistent_volume_claims": _in_order(claims),
        "persistent_volumes": _in_order(volumes),
        "storage_classes": _in_order(storage.classes),
        "csi_nodes": _in_order(storage.nodes),
        "csi_drivers": _in_order(storage.drivers),
        "device_classes": _in_order(referred.classes),
        "native_pod_groups": _in_order(groups),
    }


def world_of(recording: Recording, schedulers: Iterable[str]) -> World:
    """The mirror as it was."""
    world = World(frozenset(schedulers))
    world.may_delete = recording.may_delete
    errors: dict[Key, str] = {(one.namespace, one.name): one.error for one in recording.invalid}
    plain = (
        *(recording.topologies, recording.priority_classes),
        *(recording.pod_disruption_budgets, recording.namespaces, recording.nodes, recording.pods),
        *(recording.persistent_volume_claims, recording.persistent_volumes, recording.storage_classes),
        *(recording.csi_nodes, recording.csi_drivers, recording.device_classes, recording.native_pod_groups),
    )
    world.referred.absent = recording.absent
    for resource, why in recording.closed.items():
        world.close(resource, why)
    world.hide(Namespace, recording.namespaces_hidden)
    for objects in plain:
        for found in objects:
            world.apply(found)
    for queue in recording.queues:
        # A queue has no namespace.
        world.apply(queue, error=errors.get(("", queue.metadata.name), ""))
    for group in recording.pod_groups:
        key = (group.metadata.namespace or "default", group.metadata.name)
        world.apply(group, error=errors.get(key, ""))
    if recording.asks_for_marks:
        world.ask_for_marks()
    return world


def written(recording: Recording, *, compress: bool = False) -> bytes:
    """The file. The same recording always gives the same bytes."""
    data = msgspec.json.format(msgspec.json.encode(recording), indent=1) + b"\n"
    return gzip.compress(data, mtime=0) if compress else data


def read_recording(data: bytes, most: int) -> Recording:
    """A recording of at most so many bytes, compressed or not. Raises UnreadableInput that says what is wrong."""
    text = _unpacked(data, most)
    try:
        header = msgspec.json.decode(text, type=Header)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        header = Header()
    if header.format != FORMAT:
        raise UnreadableInput("this is not a snapshot of muster", "make one with: muster snapshot -f … > FILE")
    if header.version > VERSION:
        raise UnreadableInput(
            f"this snapshot has version {header.version}, and this muster reads up to version {VERSION}",
            "use a newer muster, or make the snapshot again with this one",
        )
    try:
        return msgspec.json.decode(text, type=Recording)
    except msgspec.ValidationError as error:
        raise UnreadableInput(f"the snapshot is damaged: {error}", "make it again with: muster snapshot") from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise UnreadableInput(f"the snapshot is not JSON: {error}", "make it again with: muster snapshot") from None


def _unpacked(data: bytes, most: int) -> bytes:
    """The JSON of a file; a small file that becomes a giant is refused, like a giant."""
    if data.startswith(_GZIP_MAGIC):
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(data)) as packed:
                data = packed.read(most + 1)
        except (OSError, EOFError) as error:
            raise UnreadableInput(f"the compressed snapshot is damaged: {error}", "make it again") from None
    if len(data) > most:
        raise UnreadableInput(
            f"the snapshot has more than {most:,} bytes", "raise input.maxFileBytes in the configuration"
        )
    return data


def _in_order(objects: Mapping[Any, Thing]) -> list[Thing]:
    return [objects[key] for key in sorted(objects)]


def _redacted(recording: Recording) -> Recording:
    """What nothing in the recording refers to is left out; the plan stays the same."""
    labels = _labels_of_nodes(recording)
    chosen = _labels_of_pods(recording)
    spaces = frozenset(key for term in _terms(recording) for key in _asked(term.namespace_selector))
    return structs.replace(
        recording,
        nodes=[_node(node, labels) for node in recording.nodes],
        pods=[_pod(pod, chosen) for pod in recording.pods],
        pod_groups=[_group(group) for group in recording.pod_groups],
        topologies=[structs.replace(one, metadata=_metadata(one.metadata)) for one in recording.topologies],
        queues=[_queue(one) for one in recording.queues],
        priority_classes=[structs.replace(one, metadata=_metadata(one.metadata)) for one in recording.priority_classes],
        namespaces=[structs.replace(one, metadata=_metadata(one.metadata, spaces)) for one in recording.namespaces],
        pod_disruption_budgets=[
            structs.replace(one, metadata=_metadata(one.metadata)) for one in recording.pod_disruption_budgets
        ],
        persistent_volume_claims=[_stored(one) for one in recording.persistent_volume_claims],
        persistent_volumes=[_stored(one) for one in recording.persistent_volumes],
        storage_classes=[_stored(one) for one in recording.storage_classes],
        csi_nodes=[_stored(one) for one in recording.csi_nodes],
        csi_drivers=[_stored(one) for one in recording.csi_drivers],
        device_classes=[structs.replace(one, metadata=_metadata(one.metadata)) for one in recording.device_classes],
        native_pod_groups=[_native(one) for one in recording.native_pod_groups],
    )


def _labels_of_nodes(recording: Recording) -> frozenset[str]:
    """The labels of nodes that some Topology, nodeSelector or affinity asks about."""
    found = {level.node_label for topology in recording.topologies for level in topology.spec.levels}
    found.update(term.topology_key for term in _terms(recording))
    for pod in recording.pods:
        found.update(pod.spec.node_selector)
        affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
        if affinity is None:
            continue
        required = affinity.required_during_scheduling_ignored_during_execution
        terms: list[NodeSelectorTerm] = list(required.node_selector_terms) if required else []
        terms += [one.preference for one in affinity.preferred_during_scheduling_ignored_during_execution]
        found.update(one.key for term in terms for one in term.match_expressions)
    for volume in recording.persistent_volumes:
        reach = volume.spec.node_affinity.required if volume.spec.node_affinity is not None else None
        asked = reach.node_selector_terms if reach is not None else []
        found.update(one.key for term in asked for one in term.match_expressions)
        # A node without any of these is in no zone.
        found.update(ZONE_LABELS if volume.metadata.labels.keys() & ZONE_LABELS.keys() else ())
    return frozenset(found)


def _labels_of_pods(recording: Recording) -> frozenset[str]:
    """The labels of pods that muster, a budget or the anti-affinity of a pod asks about."""
    found = {SUBGROUP_LABEL}
    for budget in recording.pod_disruption_budgets:
        found.update(_asked(budget.spec.selector))
    for term in _terms(recording):
        found.update(_asked(term.label_selector), term.match_label_keys, term.mismatch_label_keys)
    return frozenset(found)


def _stored(found: StoredThing) -> StoredThing:
    """Claims, volumes and what is behind them were kept with nothing but what is asked of them."""
    return structs.replace(found, metadata=structs.replace(found.metadata, uid="", resource_version=""))


def _native(group: NativePodGroup) -> NativePodGroup:
    """Of what a group asks for, only what there is of it."""
    spec = group.spec
    policy = NativePolicy(
        basic=None if spec.scheduling_policy.basic is None else {},
        gang=None if spec.scheduling_policy.gang is None else {},
    )
    constraints = NativeConstraints(topology=[{} for _ in spec.scheduling_constraints.topology])
    claims: list[Any] = [{} for _ in spec.resource_claims]
    spec = structs.replace(spec, scheduling_policy=policy, scheduling_constraints=constraints, resource_claims=claims)
    return structs.replace(group, metadata=_metadata(group.metadata), spec=spec)


def _terms(recording: Recording) -> Iterator[PodAffinityTerm]:
    """The required anti-affinity of all pods."""
    for pod in recording.pods:
        affinity = pod.spec.affinity.pod_anti_affinity if pod.spec.affinity else None
        if affinity is not None:
            yield from affinity.required_during_scheduling_ignored_during_execution


def _asked(selector: LabelSelector | None) -> Iterator[str]:
    """The labels that a selector asks about."""
    if selector is not None:
        asked: list[LabelRequirement] = selector.match_expressions
        yield from selector.match_labels
        yield from (one.key for one in asked)


def _metadata(metadata: Metadata, labels: frozenset[str] = frozenset()) -> Metadata:
    annotations = {key: value for key, value in metadata.annotations.items() if key in _ANNOTATIONS}
    annotations |= {key: "" for key in metadata.annotations if key in _PRESENT_ANNOTATIONS}
    return structs.replace(
        metadata,
        resource_version="",
        labels={key: value for key, value in metadata.labels.items() if key in labels},
        annotations=annotations,
    )


def _node(node: Node, labels: frozenset[str]) -> Node:
    conditions = [Condition(type=one.type, status=one.status) for one in node.status.conditions if one.type == "Ready"]
    status = structs.replace(node.status, conditions=conditions)
    return structs.replace(node, metadata=_metadata(node.metadata, labels), status=status)


def _pod(pod: Pod, labels: frozenset[str]) -> Pod:
    spec, status = pod.spec, pod.status
    if is_resized(pod):
        # What is told of a container is found by its name.
        named = [one.name for one in (*spec.init_containers, *spec.containers)]
        name_of = {name: f"container-{number}" for number, name in enumerate(named)}
    else:
        name_of = {}
    spec = structs.replace(
        spec,
        containers=_renamed(spec.containers, name_of),
        init_containers=_renamed(spec.init_containers, name_of),
    )
    status = structs.replace(
        status,
        container_statuses=_renamed(status.container_statuses, name_of) if name_of else [],
        init_container_statuses=_renamed(status.init_container_statuses, name_of) if name_of else [],
    )
    return structs.replace(pod, metadata=_metadata(pod.metadata, labels), spec=spec, status=status)


def _renamed(containers: Iterable[Named], name_of: Mapping[str, str]) -> list[Named]:
    """Without what people call their containers."""
    return [structs.replace(container, name=name_of.get(container.name, "")) for container in containers]


def _queue(queue: Queue) -> Queue:
    """Of the status nothing is read back."""
    spec = structs.replace(queue.spec, display_name="")
    return structs.replace(queue, metadata=_metadata(queue.metadata), spec=spec, status=QueueStatus())


def _group(group: PodGroup) -> PodGroup:
    """Of the status only what is read back stays."""
    status = PodGroupStatus(
        start_time=group.status.start_time,
        admitted_queue=group.status.admitted_queue,
        admitted_preemptibility=group.status.admitted_preemptibility,
        kept=group.status.kept,
        conditions=[
            structs.replace(one, message="", observed_generation=None)
            for one in group.status.conditions
            if one.type == _CONDITION
        ],
        sub_groups=[structs.replace(one, reason="", message="") for one in group.status.sub_groups],
    )
    return structs.replace(group, metadata=_metadata(group.metadata), status=status)
