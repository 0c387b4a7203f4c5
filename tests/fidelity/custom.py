"""Stories of kinds that are defined: schemas, defaults, pruning, status, columns, rules."""

from typing import Any

from fidelity.making import (
    DEFINITIONS,
    STRATEGIC,
    TABLE,
    apply,
    delete,
    get,
    named,
    patch,
    post,
    put,
    quietly,
)
from fidelity.play import Step, Story

Document = dict[str, Any]
_PART = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": {"type": "string"}, "size": {"type": "integer"}},
}
_SPEC: Document = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "minimum": 1, "maximum": 10},
        "mode": {"type": "string", "enum": ["fast", "slow"], "default": "slow"},
        "code": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 4},
        "wait": {"x-kubernetes-int-or-string": True},
        "note": {"type": "string", "nullable": True},
        "parts": {
            "type": "array",
            "maxItems": 3,
            "items": _PART,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
        "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "deep": {"type": "object", "properties": {"level": {"type": "integer", "default": 7}}},
    },
}
_COLUMNS = [
    {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
    {"name": "Mode", "type": "string", "jsonPath": ".spec.mode", "priority": 1},
    {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
    {"name": "First", "type": "string", "jsonPath": ".spec.parts[0].name"},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
]


def definition(scope: str = "Namespaced", **version: Any) -> Document:
    """A definition of things in a group of the story's own."""
    schema = {
        "type": "object",
        "properties": {"spec": _SPEC, "status": {"type": "object", "properties": {"phase": {"type": "string"}}}},
    }
    served = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": _COLUMNS,
        "schema": {"openAPIV3Schema": schema},
        **version,
    }
    names = {"plural": "things", "kind": "Thing", "shortNames": ["th"], "categories": ["stuff"]}
    spec = {"group": "{ns}.example.com", "names": names, "scope": scope, "versions": [served]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        **named("things.{ns}.example.com"),
        "spec": spec,
    }


API = "/apis/{ns}.example.com/v1"
THINGS = f"{API}/namespaces/{{ns}}/things"
_KIND = {"apiVersion": "{ns}.example.com/v1", "kind": "Thing"}
_ESTABLISHED: tuple[Step, ...] = (
    Step("GET", f"{API}", until=200, compare=False),
    Step("GET", THINGS, until=200, compare=False),
)
_END = quietly(delete(f"{DEFINITIONS}/things.{{ns}}.example.com"))


def thing(name: str, spec: Any, **more: Any) -> Document:
    """A thing."""
    return {**_KIND, **named(name), "spec": spec, **more}


STORIES = (
    Story(
        "definitions",
        (
            post(DEFINITIONS, definition()),
            *_ESTABLISHED,
            get(f"{DEFINITIONS}/things.{{ns}}.example.com"),
            get(API),
            get("/apis/{ns}.example.com"),
            post(DEFINITIONS, {**definition(), **named("other.example.com")}),
            post(DEFINITIONS, definition(scope="Everywhere")),
            patch(f"{DEFINITIONS}/things.{{ns}}.example.com", {"spec": {"scope": "Cluster"}}),
            put(f"{DEFINITIONS}/things.{{ns}}.example.com", definition()),
            *quietly(post(THINGS, thing("t", {"size": 1}))),
            *_END,
            Step("GET", THINGS, until=404),
        ),
    ),
    Story(
        "ended-definitions",
        (
            *quietly(post(DEFINITIONS, definition())),
            *_ESTABLISHED,
            *quietly(
                post(THINGS, thing("free", {"size": 1})),
                post(THINGS, {**thing("held", {"size": 1}), **named("held", finalizers=["example.com/hold"])}),
            ),
            delete(f"{DEFINITIONS}/things.{{ns}}.example.com"),
            Step("GET", f"{THINGS}/free", until=404),
            get(f"{DEFINITIONS}/things.{{ns}}.example.com"),
            delete(f"{DEFINITIONS}/things.{{ns}}.example.com"),
            get(THINGS),
            Step("POST", THINGS, thing("new", {"size": 1}), until=403),
            patch(f"{THINGS}/held", {"spec": {"size": 2}}),
            patch(f"{THINGS}/held", {"metadata": {"finalizers": None}}),
            Step("GET", f"{DEFINITIONS}/things.{{ns}}.example.com", until=404),
            Step("GET", THINGS, until=404),
        ),
    ),
    Story(
        "things",
        (
            *quietly(post(DEFINITIONS, definition())),
            *_ESTABLISHED,
            post(THINGS, thing("t", {"size": 2, "surprise": 1, "free": {"a": {"b": 1}}, "deep": {}, "note": None})),
            get(f"{THINGS}/t"),
            get(THINGS),
            get(THINGS, accept=TABLE),
            post(f"{THINGS}?fieldValidation=Strict", thing("u", {"size": 2, "surprise": 1, "another": 2})),
            post(THINGS, thing("u", {"size": 0, "mode": "no", "code": "ABCDE"})),
            post(THINGS, thing("u", {"size": 11})),
            post(THINGS, thing("u", {})),
            post(THINGS, thing("u", {"size": "x"})),
            post(THINGS, thing("u", {"size": 1.5})),
            post(THINGS, thing("u", {"size": 1, "wait": "5%", "tags": ["a", "a"]})),
            post(THINGS, thing("u", {"size": 1, "wait": True})),
            post(THINGS, thing("u", {"size": 1, "parts": [{"name": "a"}, {"name": "a"}]})),
            post(THINGS, thing("u", {"size": 1, "parts": [{"size": 1}]})),
            post(THINGS, thing("u", {"size": 1, "parts": [{"name": str(row)} for row in range(4)]})),
            post(THINGS, thing("u", None)),
            post(THINGS, {**named("u"), "spec": {"size": 1}}),
            post(THINGS, {**thing("u", {"size": 1}), "kind": "Other"}),
            post(THINGS, thing("U", {"size": 1})),
            post(THINGS, thing("t", {"size": 1})),
            patch(f"{THINGS}/t", {"spec": {"size": 3}}),
            patch(f"{THINGS}/t", {"spec": {"size": 0}}),
            patch(f"{THINGS}/t", {"spec": {"size": 4}}, STRATEGIC),
            patch(f"{THINGS}/t", {"status": {"phase": "ignored"}}),
            patch(f"{THINGS}/t/status", {"status": {"phase": "Ready", "other": 1}, "spec": {"size": 9}}),
            patch(f"{THINGS}/t/status", {"metadata": {"labels": {"not": "here"}}, "status": {"phase": "Done"}}),
            patch(f"{THINGS}/t", {"metadata": {"labels": {"a": "b"}}}),
            put(f"{THINGS}/t", thing("t", {"size": 5})),
            get(f"{THINGS}/t", save="t"),
            put(
                f"{THINGS}/t",
                {**_KIND, **named("t", resourceVersion="<<t:metadata.resourceVersion>>"), "spec": {"size": 5}},
            ),
            get(f"{THINGS}?labelSelector=a%3Db"),
            get(f"{THINGS}?fieldSelector=metadata.name%3Dt", accept=TABLE),
            get(f"{THINGS}?fieldSelector=spec.size%3D5"),
            get(f"{API}/things", accept=TABLE)._replace(path=f"{API}/things?labelSelector=a%3Db"),
            get(f"{THINGS}/t/scale"),
            get(f"{THINGS}?watch=true&timeoutSeconds=1&resourceVersion=<<t:metadata.resourceVersion>>"),
            delete(f"{THINGS}/t"),
            delete(f"{THINGS}/t"),
            *_END,
        ),
    ),
    Story(
        "applied-things",
        (
            *quietly(post(DEFINITIONS, definition())),
            *_ESTABLISHED,
            apply(f"{THINGS}/t", thing("t", {"size": 2, "parts": [{"name": "a", "size": 1}], "tags": ["x"]})),
            apply(f"{THINGS}/t", thing("t", {"size": 2, "parts": [{"name": "b", "size": 2}], "tags": ["y"]}), "you"),
            apply(f"{THINGS}/t", thing("t", {"size": 2, "parts": [{"name": "a", "size": 3}]}), "you"),
            apply(f"{THINGS}/t?force=true", thing("t", {"size": 2, "parts": [{"name": "a", "size": 3}]}), "you"),
            apply(f"{THINGS}/t", thing("t", {"size": 2}), "me"),
            apply(f"{THINGS}/t", thing("t", {"size": 2, "surprise": 1}), "me"),
            apply(f"{THINGS}/t", thing("t", {"size": 2, "parts": [{"name": "a"}, {"name": "a"}]}), "me"),
            apply(f"{THINGS}/t/status", {**_KIND, **named("t"), "status": {"phase": "Ready"}}, "controller"),
            apply(f"{THINGS}/t/status", {**_KIND, **named("t"), "status": {"phase": "Done"}}, "other"),
            get(f"{THINGS}/t"),
            *_END,
        ),
    ),
)
