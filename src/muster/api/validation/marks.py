"""Annotations and labels of ours that have no effect where they stand, and those that only muster writes (SPEC §4)."""

from collections.abc import Iterator, Mapping
from typing import Any

from muster.api.cluster import (
    ADMITTED_ANNOTATION,
    POD_GROUP_ANNOTATION,
    QUEUE_LABEL,
    SKIP_ANNOTATION,
    SUBGROUP_LABEL,
    Pod,
)
from muster.api.documents import child_path
from muster.api.kinds import POD_GROUP, QUEUE, RESOURCE_INTERFACE, TOPOLOGY, Kind
from muster.api.nearest import Nearest
from muster.api.podgroup import GROUPER_ANNOTATION, KEPT_ROOM_ANNOTATION, TOPOLOGY_ANNOTATION, PodGroup, is_grouped
from muster.api.priorities import MAX_PRIORITY_ANNOTATION
from muster.api.queue import ALLOWED_NAMESPACES_ANNOTATION
from muster.api.validation.violation import Report

_OURS = ("kai.scheduler/", "muster.dev/")
ANNOTATIONS, LABELS = "annotations", "labels"
# What has an effect on each kind of ours.
_EFFECTIVE: Mapping[str, frozenset[str]] = {
    POD_GROUP.name: frozenset({TOPOLOGY_ANNOTATION, "muster.dev/keep"}),
    QUEUE.name: frozenset({ALLOWED_NAMESPACES_ANNOTATION, MAX_PRIORITY_ANNOTATION, "muster.dev/reclaim-policy"}),
    TOPOLOGY.name: frozenset(),
    RESOURCE_INTERFACE.name: frozenset(),
}
# What KAI's scheduler and grouper note down.
_NOTES = frozenset(
    {
        GROUPER_ANNOTATION,
        "kai.scheduler/derived-constraints",
        "kai.scheduler/ignore-workload-api",
        "kai.scheduler/last-eviction-timestamp",
        "kai.scheduler/last-start-timestamp",
        "kai.scheduler/node-pool",
        "kai.scheduler/numa-placement-observed",
        "kai.scheduler/numa-placement-predicted",
        "kai.scheduler/podgroup",
        "kai.scheduler/stale-podgroup-timestamp",
    }
)
# What is read on workloads, and the field of a PodGroup that says the same. One that ends with a dot begins a path.
_ON_WORKLOADS: Mapping[str, str] = {
    QUEUE_LABEL: "spec.queue",
    TOPOLOGY_ANNOTATION: "spec.topologyConstraint.topology",
    "kai.scheduler/batch-min-member": "spec.minMember",
    "kai.scheduler/min-member.": "minMember of the SubGroup",
    "kai.scheduler/min-sub-group.": "minSubGroup of the SubGroup",
    "kai.scheduler/preemptibility": "spec.preemptibility",
    "kai.scheduler/preemption-delay": "spec.preemptionDelay",
    "kai.scheduler/resource-interface": "",
    "kai.scheduler/segment-size": "spec.subGroups",
    "kai.scheduler/segment-topology-preferred-placement": "topologyConstraint of the SubGroups",
    "kai.scheduler/segment-topology-required-placement": "topologyConstraint of the SubGroups",
    "kai.scheduler/staleness-grace-period": "spec.stalenessGracePeriod",
    "kai.scheduler/topology-preferred-placement": "spec.topologyConstraint.preferredTopologyLevel",
    "kai.scheduler/topology-preferred.": "topologyConstraint of the SubGroup",
    "kai.scheduler/topology-required-placement": "spec.topologyConstraint.requiredTopologyLevel",
    "kai.scheduler/topology-required.": "topologyConstraint of the SubGroup",
}
_ON_PODS = frozenset({POD_GROUP_ANNOTATION, SUBGROUP_LABEL, SKIP_ANNOTATION})
# What only muster writes, also in an object that claims to come from the grouper: a tenant can write that claim.
_OF_MUSTER = frozenset({ADMITTED_ANNOTATION, KEPT_ROOM_ANNOTATION})
# SPEC §2 has it, and this version does not know it yet.
_HOLD = "muster.dev/hold"
# The one of the two places where it is read; what is not here is read in both, or is none of ours.
_PLACE = {POD_GROUP_ANNOTATION: ANNOTATIONS, SUBGROUP_LABEL: LABELS, QUEUE_LABEL: LABELS}


def check_marks(found: Any, kind: Kind, report: Report) -> None:
    """Warns about a mark without effect. Marks that the grouper copied from a workload are no mistake."""
    if isinstance(found, Pod):
        _check_pod(found, report)
    elif kind.name in _EFFECTIVE:
        nearest = Nearest(_EFFECTIVE[kind.name])
        copied = isinstance(found, PodGroup) and is_grouped(found)
        for path, key in _marks(found):
            if (
                key in _NOTES
                or (copied and key not in _OF_MUSTER)
                or (key in _EFFECTIVE[kind.name] and ".annotations" in path)
            ):
                continue
            if key == ADMITTED_ANNOTATION:
                report.error(path, "is written by muster alone, on pods", "remove it")
                continue
            report.warn(path, f"has no effect on a {kind.name}", _instead(key, kind, nearest))


def _instead(key: str, kind: Kind, nearest: Nearest) -> str:
    if key in _EFFECTIVE[kind.name]:
        return "write it as an annotation"
    field = _field_of(key)
    if field is not None:
        where = f"write {field}, or " if field and kind is POD_GROUP else "it is read on workloads: "
        return f"{where}put it on the workload"
    if key == KEPT_ROOM_ANNOTATION:
        return "remove it: kept room is in the status, which muster alone writes"
    if key == _HOLD:
        return "this version does not hold gangs by it"
    if key in _ON_PODS:
        return "it is read on pods: put it into the pod template"
    return nearest.hint(key) or "remove it"


def _field_of(key: str) -> str | None:
    """The field that says the same as what is read on a workload; None for anything else."""
    if key in _ON_WORKLOADS:
        return _ON_WORKLOADS[key]
    return next((field for one, field in _ON_WORKLOADS.items() if one.endswith(".") and key.startswith(one)), None)


def _check_pod(pod: Pod, report: Report) -> None:
    metadata = pod.metadata
    if ADMITTED_ANNOTATION in metadata.annotations and not pod.spec.node_name:
        where = child_path("metadata.annotations", ADMITTED_ANNOTATION)
        report.error(where, "is written by muster alone, when it binds the pod", "remove it")
    # A pod that names its PodGroup itself is not grouped by its owner.
    is_member = POD_GROUP_ANNOTATION in metadata.annotations and not metadata.owner_references
    for path, key in _marks(pod):
        place = _PLACE.get(key)
        if place is not None and f".{place}" not in path:
            report.warn(
                path, "has no effect here", f"write it as {'an annotation' if place == ANNOTATIONS else 'a label'}"
            )
        elif is_member and (field := _field_of(key)):
            report.warn(path, "has no effect on a pod that names its PodGroup", f"write {field} in the PodGroup")
        elif key == KEPT_ROOM_ANNOTATION or (key.startswith("muster.dev/") and key != ADMITTED_ANNOTATION):
            on_a_group = key in _EFFECTIVE[POD_GROUP.name]
            report.warn(path, "has no effect on a pod", "write it in the PodGroup" if on_a_group else "remove it")


def _marks(found: Any) -> Iterator[tuple[str, str]]:
    """Annotations and labels of ours: where each stands, and its key."""
    for place in (ANNOTATIONS, LABELS):
        for key in getattr(found.metadata, place):
            if key.startswith(_OURS) or key == POD_GROUP_ANNOTATION:
                yield child_path(f"metadata.{place}", key), key
