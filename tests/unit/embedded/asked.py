"""What was asked of a real API server: stories of one object each, and documents that it must refuse.

A story (`stories.py`) is a list of steps (verb, manager, body, door); `recorded.json` beside it holds what a real
server made of them, and the tests play them again. To ask anew:
`PYTHONPATH=tests .venv/bin/python -m unit.embedded.record`.
"""

from typing import Any, NamedTuple

WIDGET = "example.dev/v1"
CRD: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.dev"},
    "spec": {
        "group": "example.dev",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget", "singular": "widget", "listKind": "WidgetList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "required": ["spec"],
                        "properties": {
                            "spec": {
                                "type": "object",
                                "required": ["color"],
                                "x-kubernetes-validations": [
                                    {"rule": "!has(self.size) || self.size != 13", "message": "13 brings bad luck"},
                                    {"rule": "!has(oldSelf.size) || has(self.size)", "message": "a size stays"},
                                ],
                                "properties": {
                                    "color": {"type": "string", "enum": ["red", "green", "blue"]},
                                    "size": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 100},
                                    "weight": {"type": "number", "minimum": 0, "exclusiveMinimum": True},
                                    "label": {"type": "string", "maxLength": 5, "minLength": 2, "pattern": "^[a-z]+$"},
                                    "shade": {"type": "string", "default": "dark"},
                                    "amount": {
                                        "x-kubernetes-int-or-string": True,
                                        "anyOf": [{"type": "integer"}, {"type": "string"}],
                                        "pattern": "^[0-9]+m?$",
                                    },
                                    "when": {"type": "string", "format": "date-time"},
                                    "tags": {
                                        "type": "array",
                                        "x-kubernetes-list-type": "set",
                                        "maxItems": 3,
                                        "items": {"type": "string"},
                                    },
                                    "parts": {
                                        "type": "array",
                                        "x-kubernetes-list-type": "map",
                                        "x-kubernetes-list-map-keys": ["name", "kind"],
                                        "items": {
                                            "type": "object",
                                            "required": ["name"],
                                            "properties": {
                                                "name": {"type": "string"},
                                                "kind": {"type": "string", "default": "plain"},
                                                "count": {"type": "integer"},
                                                "note": {"type": "string"},
                                            },
                                        },
                                    },
                                    "steps": {"type": "array", "items": {"type": "string"}},
                                    "options": {"type": "object", "additionalProperties": {"type": "string"}},
                                    "whole": {
                                        "type": "object",
                                        "x-kubernetes-map-type": "atomic",
                                        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                                    },
                                    "nested": {
                                        "type": "object",
                                        "properties": {
                                            "deep": {"type": "string", "default": "down"},
                                            "maybe": {"type": "string", "nullable": True},
                                        },
                                    },
                                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                                },
                            },
                            "status": {
                                "type": "object",
                                "properties": {
                                    "phase": {"type": "string"},
                                    "conditions": {
                                        "type": "array",
                                        "x-kubernetes-list-type": "map",
                                        "x-kubernetes-list-map-keys": ["type"],
                                        "items": {
                                            "type": "object",
                                            "required": ["type"],
                                            "properties": {"type": {"type": "string"}, "status": {"type": "string"}},
                                        },
                                    },
                                },
                            },
                        },
                    }
                },
            }
        ],
    },
}
SCHEMA = CRD["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
# What the rules of the CRD say, as functions.
CHECKS = {
    "!has(self.size) || self.size != 13": lambda value, old: value.get("size") != 13,
    "!has(oldSelf.size) || has(self.size)": lambda value, old: "size" not in old or "size" in value,
}


class Step(NamedTuple):
    """One request. `verb`: create, apply, force, merge, strategic, json; `door` is a subresource."""

    verb: str
    manager: str
    body: Any
    door: str = ""


def widget(name: str, spec: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A document of the custom kind."""
    metadata = {"name": name, **more.pop("metadata", {})}
    document: dict[str, Any] = {"apiVersion": WIDGET, "kind": "Widget", "metadata": metadata, **more}
    return document if spec is None else {**document, "spec": spec}


def pod(name: str, *, image: str = "one", **spec: Any) -> dict[str, Any]:
    """A pod of one container."""
    containers = spec.pop("containers", [{"name": "main", "image": image}])
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": containers, **spec}}


def node(name: str, **more: Any) -> dict[str, Any]:
    """A node."""
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, **more.pop("metadata", {})}, **more}


def job(name: str) -> dict[str, Any]:
    """A job that nobody runs."""
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "one"}]}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"template": template}}


def _template(name: str) -> dict[str, Any]:
    return {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "main", "image": "one"}]}}


def workload(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    """A StatefulSet, Deployment or ReplicaSet."""
    chosen = {"selector": {"matchLabels": {"app": name}}, "template": _template(name), **spec}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": chosen}


# Specs that are refused or changed: `recorded.json` says how. All are sent as a new Widget with fieldValidation=Ignore.
SPECS: dict[str, Any] = {
    "fine": {"color": "red"},
    "no-color": {},
    "null-color": {"color": None},
    "unsupported": {"color": "pink"},
    "number-for-text": {"color": 5},
    "text-for-number": {"color": "red", "size": "5"},
    "float-for-integer": {"color": "red", "size": 5.5},
    "too-small": {"color": "red", "size": 0},
    "too-large": {"color": "red", "size": 101},
    "out-of-range": {"color": "red", "size": 3000000000},
    "not-more-than-the-minimum": {"color": "red", "weight": 0},
    "bad-luck": {"color": "red", "size": 13},
    "too-long": {"color": "red", "label": "abcdef"},
    "too-short": {"color": "red", "label": "a"},
    "no-match": {"color": "red", "label": "AB"},
    "amount-number": {"color": "red", "amount": 5},
    "amount-text": {"color": "red", "amount": "5m"},
    "amount-wrong": {"color": "red", "amount": "five"},
    "amount-bool": {"color": "red", "amount": True},
    "date": {"color": "red", "when": "2026-01-02T03:04:05Z"},
    "no-date": {"color": "red", "when": "yesterday"},
    "too-many": {"color": "red", "tags": ["a", "b", "c", "d"]},
    "twice": {"color": "red", "tags": ["a", "b", "a"]},
    "twice-in-a-map": {"color": "red", "parts": [{"name": "a"}, {"name": "a", "count": 2}]},
    "no-name": {"color": "red", "parts": [{"count": 1}]},
    "no-object-in-a-map": {"color": "red", "parts": [True, {"name": "a"}]},
    "null-in-a-map": {"color": "red", "parts": [None, {"name": "a"}, None]},
    "list-for-map": {"color": "red", "options": ["a"]},
    "map-for-list": {"color": "red", "steps": {"a": "b"}},
    "wrong-item": {"color": "red", "steps": ["a", 1]},
    "wrong-value": {"color": "red", "options": {"a": 1}},
    "unknown": {"color": "red", "unknown": {"a": 1}, "nested": {"also": 1}, "parts": [{"name": "a", "x": 1}]},
    "kept": {"color": "red", "free": {"any": {"thing": [1, {"a": None}]}}},
    "nulls": {
        "color": "red",
        "size": None,
        "shade": None,
        "nested": {"maybe": None, "deep": None},
        "options": {"a": None},
    },
    "defaults": {"color": "red", "nested": {}, "parts": [{"name": "a"}]},
    "several": {"color": "pink", "size": 0, "label": "AB", "steps": [1]},
}

# A spec, and a merge patch of it that breaks a rule, or does not.
UPDATES: dict[str, tuple[Any, Any]] = {
    "a-size-may-change": ({"color": "red", "size": 5}, {"size": 6}),
    "a-size-stays": ({"color": "red", "size": 5}, {"size": None}),
    "bad-luck": ({"color": "red", "size": 5}, {"size": 13}),
    "a-part-twice": ({"color": "red", "parts": [{"name": "a"}]}, {"parts": [{"name": "b"}, {"name": "b"}]}),
    "a-type-and-a-rule": ({"color": "red", "size": 5}, {"size": 13, "steps": "none"}),
}

LABELS = [
    "", "a", "!a", "a=b", "a==b", "a!=b", "a in (b,c)", "a notin (b)", "a in ()", "a in (b,)", "a,b", "a=", "a>1",
    "a<1", "a=b,", ",a", "a b", "a in b", "a in (b", "a=b=c", "=b", "a>x", "a in (b c)", "-a", "a=-", "x/y/z",
    "X.Y/a", "ex.com/a=b", "a,,b", "!a=b", "in", "notin in (in)", "a in (in,notin)", "(a)", "a!b", "a=b c",
]  # fmt: skip
FIELDS = [
    ("pods", ""), ("pods", "metadata.name=x"), ("pods", "spec.nodeName=n,status.phase!=Running"), ("pods", "spec.x=1"),
    ("pods", "spec.nodeName"), ("pods", "metadata.name=a=b"), ("pods", "metadata.name=a\\=b"), ("pods", "a"),
    ("pods", "metadata.labels.a=b"), ("pods", "spec.hostNetwork=true"), ("pods", "metadata.name=a\\b"),
    ("nodes", "spec.unschedulable=true"), ("nodes", "metadata.namespace=a"), ("nodes", "status.x=1"),
    ("namespaces", "status.phase=Active"), ("namespaces", "metadata.namespace=x"),
    ("events", "involvedObject.name=a,reason=b"), ("events", "type=Normal"), ("events", "count=1"),
    ("configmaps", "metadata.name=a"), ("configmaps", "data.a=1"), ("secrets", "type=x"), ("secrets", "data=x"),
    ("widgets.example.dev", "metadata.name=a"), ("widgets.example.dev", "spec.color=red"),
    ("jobs.batch", "status.successful=1"), ("jobs.batch", "spec.x=1"),
    ("replicasets.apps", "status.replicas=1"), ("statefulsets.apps", "status.replicas=1"),
    ("leases.coordination.k8s.io", "spec.holderIdentity=x"), ("events.events.k8s.io", "regarding.name=x"),
    ("events.events.k8s.io", "involvedObject.name=x"), ("poddisruptionbudgets.policy", "a=b"),
    ("priorityclasses.scheduling.k8s.io", "a=b"), ("priorityclasses.scheduling.k8s.io", "metadata.namespace=b"),
]  # fmt: skip
