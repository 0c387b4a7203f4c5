"""CustomResourceDefinitions, generated from the structs: structural schemas, printer columns, `rules` in CEL."""

from typing import Any

from muster.api import kinds, schema
from muster.api.kinds import Kind
from muster.api.rules import RULES
from muster.api.schema import Form, form_of

# How deep the nested entries of a ResourceInterface are spelled out: a structural schema can't refer to itself.
_UNROLLED = 3

_QUANTITY = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?[0-9]+))?$"

_AGE = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}


def _column(name: str, path: str, kind: str = "string", **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "jsonPath": path, **more}


_COLUMNS: dict[str, list[dict[str, Any]]] = {
    "EvictionRequest": [
        _column("For", ".spec.beneficiary.name"),
        _column("Status", ".status.phase"),
        _column("Reason", ".status.reason"),
        _column("Expires", ".status.expires", "date"),
        _AGE,
        _column("Namespace", ".spec.beneficiary.namespace", priority=1),
        _column("Message", ".status.message", priority=1),
    ],
    "PodGroup": [
        _column("Status", ".status.phase"),
        _column("Ready", ".status.ready", description="Satisfied of required children."),
        _column("Pods", ".status.podsSummary", description="Placed/minimum/total."),
        _column("Queue", ".spec.queue"),
        _column("Domain", ".status.subGroups[0].domain"),
        _column("Reason", ".status.reason"),
        _AGE,
        _column("Priority", ".spec.priorityClassName", priority=1),
        _column("Preemptibility", ".spec.preemptibility", priority=1),
        _column("Started", ".status.startTime", "date", priority=1),
        _column("Decision", ".status.decision", priority=1),
    ],
    "Queue": [
        _column("Parent", ".spec.parentQueue"),
        _column("Priority", ".spec.priority", "integer"),
        _column("GPU-Quota", ".spec.resources.gpu.quota", "number"),
        _column("GPU-Limit", ".spec.resources.gpu.limit", "number"),
        _column("GPU-Share", ".status.fairShare.gpu", description="What it is due now."),
        _column("GPU-Used", ".status.allocated.gpu"),
        _column("Accepted", '.status.conditions[?(@.type=="Accepted")].status'),
        _AGE,
    ],
    "ResourceInterface": [
        _column("Group", ".spec.targetGVK.group"),
        _column("Kind", ".spec.targetGVK.kind"),
        _column("Action", ".spec.action"),
        _column("Accepted", '.status.conditions[?(@.type=="Accepted")].status'),
        _AGE,
    ],
    # Of several results of a path only the first is shown.
    "Topology": [
        _column("Widest", ".spec.levels[0].nodeLabel"),
        _column("Narrowest", ".spec.levels[-1:].nodeLabel"),
        _AGE,
    ],
}


def custom_resource_definitions() -> list[dict[str, Any]]:
    """The CRDs of our kinds, by name."""
    return [_definition(kind) for kind in sorted(kinds.OUR_KINDS, key=lambda kind: f"{kind.plural}.{kind.group}")]


def _definition(kind: Kind) -> dict[str, Any]:
    version = kind.api_version.rpartition("/")[2]
    names: dict[str, Any] = {
        "kind": kind.name,
        "listKind": f"{kind.name}List",
        "plural": kind.plural,
        "singular": kind.name.lower(),
    }
    if kind.short_names:
        names["shortNames"] = list(kind.short_names)
    served: dict[str, Any] = {
        "name": version,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": _COLUMNS[kind.name],
        "schema": {"openAPIV3Schema": _root_schema(form_of(kind.struct))},
    }
    if "status" in form_of(kind.struct).fields:
        served["subresources"] = {"status": {}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{kind.group}", "labels": {"app.kubernetes.io/part-of": "muster"}},
        "spec": {
            "group": kind.group,
            "names": names,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "versions": [served],
        },
    }


def _root_schema(form: Form) -> dict[str, Any]:
    made = _object_schema(form, {})
    made["properties"] = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object"},
        **{name: found for name, found in made["properties"].items() if name != "metadata"},
    }
    return made


def _schema(form: Form, inside: dict[type, int]) -> dict[str, Any]:
    """`inside` counts how often each struct is open around this place."""
    if form.kind == schema.OBJECT:
        return _object_schema(form, inside)
    notes = {name: value for name, value in form.notes.items() if not name.startswith("x-muster-")}
    if form.kind == schema.UNION:
        return _union_schema(form, notes)
    if form.kind == schema.ANY:
        return {**notes, "x-kubernetes-preserve-unknown-fields": True}
    made: dict[str, Any] = {"type": _TYPES[form.kind], **notes}
    if form.kind == schema.TIME:
        made["format"] = "date-time"
    if form.kind == schema.INTEGER:
        made.setdefault("format", "int64")
    if form.item is not None:
        made["items" if form.kind == schema.LIST else "additionalProperties"] = _schema(form.item, inside)
    return made


_TYPES = {
    schema.MAP: "object",
    schema.LIST: "array",
    schema.INTEGER: "integer",
    schema.NUMBER: "number",
    schema.STRING: "string",
    schema.BOOLEAN: "boolean",
    schema.TIME: "string",
}


def _object_schema(form: Form, inside: dict[type, int]) -> dict[str, Any]:
    assert form.struct is not None
    depth = inside.get(form.struct, 0)
    made: dict[str, Any] = {"type": "object", "description": form.notes["description"]}
    if depth > _UNROLLED:
        made["x-kubernetes-preserve-unknown-fields"] = True
        return made
    below = {**inside, form.struct: depth + 1}
    if form.required:
        made["required"] = sorted(form.required)
    made["properties"] = {name: _schema(field, below) for name, field in form.fields.items()}
    if form.struct in RULES:
        made["x-kubernetes-validations"] = [{"rule": rule.text, "message": rule.says} for rule in RULES[form.struct]]
    return made


def _union_schema(form: Form, notes: dict[str, Any]) -> dict[str, Any]:
    """An API server knows one union, integer or string; for others it leaves the value to our own validation."""
    described = {"description": notes["description"]} if "description" in notes else {}
    found = {option.kind for option in form.options}
    if schema.LIST in found:
        return {**described, "x-kubernetes-preserve-unknown-fields": True}
    made = {**described, "anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
    if schema.NUMBER in found:
        made["pattern"] = _QUANTITY
    return made
