"""Stories of what a real server refuses, and of fields of custom kinds that may be selected."""

from typing import Any

from fidelity.custom import definition
from fidelity.making import (
    DEFINITIONS,
    get,
    named,
    post,
    quietly,
)
from fidelity.play import Story

_THINGS = "/apis/{ns}.example.com/v1/namespaces/{ns}/things"
_WATCH = "watch=true&timeoutSeconds=1"


def _thing(name: str, size: int = 1, **spec: Any) -> dict[str, Any]:
    kind = {"apiVersion": "{ns}.example.com/v1", "kind": "Thing"}
    return {**kind, **named(name), "spec": {"size": size, **spec}}


def _selectable(*paths: str) -> dict[str, Any]:
    return definition(selectableFields=[{"jsonPath": path} for path in paths])


def _many(count: int) -> dict[str, Any]:
    fields = [f"f{row}" for row in range(count)]
    spec = {"type": "object", "properties": {name: {"type": "string"} for name in fields}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    return definition(schema=schema, selectableFields=[{"jsonPath": f".spec.{name}"} for name in fields])


STORIES: tuple[Story, ...] = (
    Story(
        "selectable-fields",
        (
            *quietly(
                post(DEFINITIONS, _selectable(".spec.mode", ".spec.size")),
                get(_THINGS, until=200),
                post(_THINGS, _thing("a", 1, mode="fast")),
                post(_THINGS, _thing("b", 2)),
                post(_THINGS, _thing("c", 2, mode="fast")),
            ),
            get(f"{_THINGS}?fieldSelector=spec.mode=fast"),
            get(f"{_THINGS}?fieldSelector=spec.mode=fast,spec.size=2"),
            get(f"{_THINGS}?fieldSelector=spec.mode!=fast"),
            get(f"{_THINGS}?fieldSelector=spec.code="),
            get(f"{_THINGS}?{_WATCH}&fieldSelector=spec.size=2"),
            get(f"{DEFINITIONS}/things.{{ns}}.example.com"),
        ),
    ),
    Story(
        "fields-that-are-not-selectable",
        (
            post(DEFINITIONS, _selectable(*(f".spec.free{row}" for row in range(9)))),
            post(DEFINITIONS, _selectable(".spec.mode", ".spec.mode")),
            post(DEFINITIONS, _selectable(".spec.parts[0].name")),
            post(DEFINITIONS, _selectable(".metadata.name")),
            post(DEFINITIONS, _selectable(".spec.nothing")),
            post(DEFINITIONS, _selectable(".spec.deep")),
            post(DEFINITIONS, _selectable("spec.mode")),
            post(DEFINITIONS, _selectable("")),
            post(DEFINITIONS, _many(9)),
            post(f"{DEFINITIONS}?dryRun=All", _many(8)),
        ),
    ),
)
