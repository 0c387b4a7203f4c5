"""Names and types of the fields of the built-in kinds, as schemas in the form that CRDs have.

`fields.json` is written by `python -m fidelity.fields` from what a real API server says of itself.
"""

import json
from functools import cache
from importlib.resources import files
from typing import Any

Document = dict[str, Any]
ANYTHING: Document = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


@cache
def definitions() -> dict[str, Document]:
    """All definitions by their long name; `$ref` holds the name of another one."""
    text = files("muster.embedded").joinpath("fields.json").read_text("utf-8")
    found: dict[str, Document] = json.loads(text)
    return found


@cache
def names() -> dict[tuple[str, str], str]:
    """The long name of a definition by apiVersion and kind."""
    found = {}
    for name, schema in definitions().items():
        for kind in schema.get("x-kubernetes-group-version-kind", ()):
            group = f"{kind['group']}/" if kind["group"] else ""
            found[group + kind["version"], kind["kind"]] = name
    return found


def structural(api_version: str, kind: str) -> Document | None:
    """The schema of a built-in kind with every `$ref` in its place, or None. Never change it: parts are shared."""
    name = names().get((api_version, kind))
    return _resolved(name) if name else None


@cache
def _resolved(name: str) -> Document:
    return _in_place(definitions()[name])


def _in_place(schema: Document) -> Document:
    if "$ref" in schema:
        rest = {key: value for key, value in schema.items() if key != "$ref"}
        target = _resolved(schema["$ref"])
        return {**target, **rest} if rest else target
    found = {key: value for key, value in schema.items() if key != "x-kubernetes-group-version-kind"}
    for key in ("items", "additionalProperties"):
        if isinstance(found.get(key), dict):
            found[key] = _in_place(found[key])
    if "properties" in found:
        found["properties"] = {field: _in_place(value) for field, value in found["properties"].items()}
    return found
