"""A derived gang becomes a PodGroup as people write it, new or as a change of the one that is there.

What was not derived is left alone: a PodGroup that somebody else made is not touched, a queue stays what it is, and
topology constraints that somebody edited stay edited.
"""

import copy
import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from muster.api.kinds import POD_GROUP, read_object
from muster.api.podgroup import (
    GROUPER_ANNOTATION,
    KEEP_ANNOTATION,
    KEEP_ROOT,
    SEMI_PREEMPTIBLE,
    TOPOLOGY_ANNOTATION,
)
from muster.api.validation.update import has_placed_pods
from muster.api.writing import write_yaml
from muster.grouping.derive import Blueprint
from muster.grouping.metadata import CONSTRAINTS_ANNOTATION, USER, Derived
from muster.grouping.model import Interface, Object
from muster.grouping.names import dns_name
from muster.grouping.nodes import Hold, Node
from muster.grouping.owners import annotations_of, identity_of, split_version
from muster.grouping.trouble import Trouble

Document = dict[str, Any]
# What follows the workload whatever stands there; `subgroups` is the older spelling.
_STRUCTURE = ("minMember", "minSubGroup", "subGroups", "subgroups")
# Where the fields of `Derived` stand in the spec.
_FIELDS = {
    "priority_class_name": "priorityClassName",
    "preemptibility": "preemptibility",
    "preemption_delay": "preemptionDelay",
    "staleness_grace_period": "stalenessGracePeriod",
}


def name_of(blueprint: Blueprint, interface: Interface | None) -> str:
    """The PodGroup's name: that of its owner, with what tells several of one owner apart. Raises Trouble."""
    if blueprint.given_name:
        return dns_name(blueprint.given_name)
    owner = identity_of(blueprint.owner)
    if not owner.name:
        raise Trouble(f"{owner.title} can't have a PodGroup, which is called after it", "give it a name")
    several = interface is not None and len(interface.templates) > 1
    parts = ["pg", owner.name, owner.uid, blueprint.template.name if several else "", blueprint.key]
    return dns_name("-".join(part for part in parts if part))


def document_of(blueprint: Blueprint, derived: Derived, name: str, namespace: str, top: Object) -> Document:
    """The PodGroup as it should be."""
    owner = identity_of(blueprint.owner)
    spec: Document = {}
    root = blueprint.root
    if not root.children:
        spec["minMember"] = root.minimum
    elif root.minimum is not None and root.minimum < len(root.children):
        spec["minSubGroup"] = root.minimum
    spec["queue"] = derived.queue
    for field, key in _FIELDS.items():
        value = getattr(derived, field)
        if value:
            spec[key] = value
    constraint = _constraint(root)
    if constraint:
        spec["topologyConstraint"] = constraint
    if root.children:
        spec["subGroups"] = _subgroups(root)
    reference = {"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name, "uid": owner.uid}
    annotations = {**derived.annotations, GROUPER_ANNOTATION: _described(top)}
    kept = [node.name or KEEP_ROOT for node in root.below() if node.keep and node.children]
    if kept:
        annotations[KEEP_ANNOTATION] = ",".join(kept)
    written = _constraints(spec, annotations)
    if written:
        annotations[CONSTRAINTS_ANNOTATION] = _hash(written)
    metadata: Document = {"name": name, "namespace": namespace, "annotations": annotations}
    if derived.labels:
        metadata["labels"] = dict(derived.labels)
    if owner.uid:
        metadata["ownerReferences"] = [reference]
    return {"apiVersion": POD_GROUP.api_version, "kind": POD_GROUP.name, "metadata": metadata, "spec": spec}


def is_foreign(existing: Object) -> bool:
    """Whether somebody else made this PodGroup."""
    return GROUPER_ANNOTATION not in annotations_of(existing)


def leaf_names(existing: Object) -> set[str]:
    """The SubGroups of a PodGroup that hold pods; none when it is flat."""
    spec = _mapping(existing.get("spec"))
    subgroups = list(_listed(spec)) or list(_listed({"subGroups": spec.get("subgroups")}))
    return {name for name, _ in subgroups} - {str(one.get("parent")) for _, one in subgroups}


def merged(existing: Object, wanted: Document, weak: frozenset[str]) -> Document:
    """The PodGroup that is there, brought to what is wanted. It is `existing` itself when nothing changes.

    `weak` are the fields of `Derived` that only a pod or a default said: they change nothing that is there.
    """
    metadata = _mapping(existing.get("metadata"))
    annotations = _mapping(metadata.get("annotations"))
    if is_foreign(existing):
        return existing if isinstance(existing, dict) else dict(existing)
    spec = _mapping(existing.get("spec"))
    new: Document = {key: value for key, value in spec.items() if key not in _STRUCTURE}
    for key, value in wanted["spec"].items():
        field = next((field for field, place in _FIELDS.items() if place == key), key)
        if key == "topologyConstraint" or (spec.get(key) and (key == "queue" or field in weak)):
            continue
        new[key] = copy.deepcopy(value)
    _forget_names(new)
    edited = _hash(_constraints(spec, annotations)) != annotations.get(CONSTRAINTS_ANNOTATION, _hash({}))
    _constrain(new, wanted["spec"], spec if edited else None)
    notes = _taken_over(annotations, wanted["metadata"]["annotations"], guest="annotations" in weak)
    if edited:
        # Once edited, always edited: what was derived last no longer tells.
        notes[CONSTRAINTS_ANNOTATION] = annotations.get(CONSTRAINTS_ANNOTATION, _hash({}))
        _keep(notes, annotations, TOPOLOGY_ANNOTATION)
    else:
        for key in (CONSTRAINTS_ANNOTATION, TOPOLOGY_ANNOTATION):
            _keep(notes, wanted["metadata"]["annotations"], key)
    _keep(notes, wanted["metadata"]["annotations"], KEEP_ANNOTATION)
    head: Document = {**metadata, "annotations": notes}
    labels = _taken_over(_mapping(metadata.get("labels")), wanted["metadata"].get("labels", {}), guest="labels" in weak)
    if labels:
        head["labels"] = labels
    if not metadata.get("ownerReferences") and "ownerReferences" in wanted["metadata"]:
        head["ownerReferences"] = wanted["metadata"]["ownerReferences"]
    found: Document = {**existing, "metadata": head, "spec": new}
    return found if found != existing else existing if isinstance(existing, dict) else found


def _forget_names(spec: Document) -> None:
    """Constraints beside the tree name SubGroups; those of SubGroups that are gone go too."""
    beside = spec.get("topologyConstraints")
    if not isinstance(beside, dict):
        return
    names = {name for name, _ in _listed(spec)}
    spec["topologyConstraints"] = beside = dict(beside)
    if isinstance(beside.get("subGroups"), dict):
        beside["subGroups"] = {name: one for name, one in beside["subGroups"].items() if name in names}
    if isinstance(beside.get("subGroupSets"), list):
        sets = [
            one for one in beside["subGroupSets"] if isinstance(one, dict) and isinstance(one.get("subGroups"), list)
        ]
        left = [{**one, "subGroups": [name for name in one["subGroups"] if name in names]} for one in sets]
        beside["subGroupSets"] = [one for one in left if one["subGroups"]]
    spec["topologyConstraints"] = {key: value for key, value in beside.items() if value}
    if not spec["topologyConstraints"]:
        del spec["topologyConstraints"]


def capped(existing: Object, wanted: Document) -> tuple[Document, list[str]]:
    """What is wanted without a minimum that rises while a semi-preemptible gang runs (SPEC §4), and whose it is.

    What the workload has more then is surplus, until the gang has ended.
    """
    if GROUPER_ANNOTATION not in annotations_of(existing):
        # Somebody else's: it is not touched, so nothing of it is held back.
        return wanted, []
    group, _ = read_object(dict(existing), POD_GROUP, strict=False)
    if group.spec.preemptibility != SEMI_PREEMPTIBLE or not has_placed_pods(group):
        return wanted, []
    spec = copy.deepcopy(wanted["spec"])
    before, now = dict(_nodes(_mapping(existing.get("spec")))), dict(_nodes(spec))
    held = []
    for name, (node, children) in now.items():
        old, old_children = before.get(name, (node, children))
        if bool(children) != bool(old_children):
            continue
        field = "minSubGroup" if children else "minMember"
        asked, had = node.get(field, children), old.get(field, old_children)
        if isinstance(asked, int) and isinstance(had, int) and asked > had:
            node[field] = had
            held.append(name or "the PodGroup")
    return {**wanted, "spec": spec}, held


def _nodes(spec: Any) -> Iterator[tuple[str, tuple[Any, int]]]:
    """The root and every SubGroup by name, with the number of its children."""
    subgroups = list(_listed(spec))
    children = Counter(str(one.get("parent") or "") for _, one in subgroups)
    yield "", (spec, children[""])
    for name, one in subgroups:
        yield name, (one, children[name])


def _keep(found: dict[str, Any], those: Mapping[str, Any], key: str) -> None:
    """One of them is as it is in `those`: that, or not there."""
    if key in those:
        found[key] = those[key]
    else:
        found.pop(key, None)


def _taken_over(there: Mapping[str, Any], wanted: Mapping[str, str], *, guest: bool) -> dict[str, Any]:
    """Labels or annotations with those wanted. The user that only a pod names does not replace another one."""
    found = {**there, **wanted}
    if guest and USER in there:
        found[USER] = there[USER]
    return found


def _constrain(spec: Document, wanted: Object, before: Object | None) -> None:
    """Puts constraints in place: those wanted, or those of `before` on all nodes that were there."""
    if before is None:
        if "topologyConstraint" in wanted:
            spec["topologyConstraint"] = wanted["topologyConstraint"]
        else:
            spec.pop("topologyConstraint", None)
        return
    kept = _constraints(before)
    known = {name for name, _ in _listed(before)}
    for subgroup in spec.get("subGroups", ()):
        if subgroup["name"] in known:
            subgroup.pop("topologyConstraint", None)
            if subgroup["name"] in kept:
                subgroup["topologyConstraint"] = kept[subgroup["name"]]


def _constraints(spec: Object, annotations: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The constraint of every node that has one; the root's name is empty. The annotation names a topology for all."""
    found = {"": spec["topologyConstraint"]} if spec.get("topologyConstraint") else {}
    if annotations and annotations.get(TOPOLOGY_ANNOTATION):
        found[TOPOLOGY_ANNOTATION] = annotations[TOPOLOGY_ANNOTATION]
    found |= {name: one["topologyConstraint"] for name, one in _listed(spec) if one.get("topologyConstraint")}
    return found


def _listed(spec: Object) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The SubGroups by name, as far as they are any: whoever made the PodGroup may have written anything."""
    subgroups = spec.get("subGroups")
    for one in subgroups if isinstance(subgroups, list) else ():
        if isinstance(one, Mapping):
            yield str(one.get("name")), one


def _hash(constraints: Mapping[str, Any]) -> str:
    text = msgspec.json.encode(dict(constraints), order="deterministic")
    return hashlib.blake2b(text, digest_size=8).hexdigest()


def _subgroups(root: Node) -> list[Document]:
    found: list[Document] = []
    waiting = [(child, "") for child in reversed(root.children)]
    while waiting:
        node, parent = waiting.pop()
        subgroup: Document = {"name": node.name}
        if parent:
            subgroup["parent"] = parent
        if not node.children:
            subgroup["minMember"] = node.minimum
        elif node.minimum is not None and node.minimum < len(node.children):
            subgroup["minSubGroup"] = node.minimum
        constraint = _constraint(node)
        if constraint:
            subgroup["topologyConstraint"] = constraint
        found.append(subgroup)
        waiting.extend((child, node.name) for child in reversed(node.children))
    return found


def _constraint(node: Node) -> Document:
    """A topology alone holds nothing together; it is written where nodes below inherit it."""
    hold = node.hold
    if not hold.required and not hold.preferred and not (hold.topology and _inherits(node.children)):
        return {}
    return _written(hold)


def _inherits(nodes: Sequence[Node]) -> bool:
    return any(below.hold.required or below.hold.preferred for node in nodes for below in node.below())


def _written(hold: Hold) -> Document:
    named = (
        ("topology", hold.topology),
        ("requiredTopologyLevel", hold.required),
        ("preferredTopologyLevel", hold.preferred),
    )
    return {key: value for key, value in named if value}


def _described(top: Object) -> str:
    """The top owner as KAI writes it."""
    owner = identity_of(top)
    group, version = split_version(owner.api_version)
    described = {"name": owner.name, "uid": owner.uid, "group": group, "version": version, "kind": owner.kind}
    return write_yaml([described]).removeprefix("---\n")


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
