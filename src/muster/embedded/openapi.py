"""OpenAPI v3, as much as kubectl reads: schemas for `explain`, and that every write takes `fieldValidation`."""

import hashlib
import json
from typing import Any

from muster.embedded.fields import definitions, names
from muster.embedded.kinds import Kinds, Resource

Document = dict[str, Any]
_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_PREFIX = "#/components/schemas/"
_WRITES = {"create": "post", "update": "put", "patch": "patch"}
_ACTIONS = {"create": "post", "update": "put", "patch": "patch", "get": "get", "delete": "delete"}
_QUERY = ("dryRun", "fieldManager", "fieldValidation")
_PATCHES = ("apply-patch+yaml", "json-patch+json", "merge-patch+json", "strategic-merge-patch+json")


def index(kinds: Kinds) -> Document:
    """/openapi/v3: where the document of each group and version is."""
    paths = {}
    for path in sorted({one.path for one in kinds}):
        text = json.dumps(document(kinds, path), sort_keys=True).encode()
        paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={hashlib.sha256(text).hexdigest().upper()}"}
    return {"paths": paths}


def old_form() -> bytes:
    """/openapi/v2 as protobuf, without any definition: kubectl reads it before it takes a List apart, and skips kinds
    that it does not find in it.
    """
    info = _field(1, b"muster, embedded") + _field(2, b"v1.36.4")
    return _field(1, b"2.0") + _field(2, info) + _field(8, b"")


def _field(number: int, value: bytes) -> bytes:
    assert number < 16, "one byte says number and type"
    assert len(value) < 128, "one byte says the length"
    return bytes([number << 3 | 2, len(value)]) + value


def document(kinds: Kinds, path: str) -> Document | None:
    """/openapi/v3/apis/GROUP/VERSION."""
    found = [one for one in kinds if one.path == path]
    if not found:
        return None
    schemas: dict[str, Document] = {}
    paths: dict[str, Document] = {}
    for one in found:
        name = _define(one, schemas)
        paths |= _paths(one, name)
    info = {"title": "muster, embedded", "version": "v1.36.4"}
    return {"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": schemas}}


def _define(one: Resource, schemas: dict[str, Document]) -> str:
    if one.custom:
        name = ".".join([*reversed(one.group.split(".")), one.version, one.kind])
        schemas[name] = _custom(one)
        _collect(_META, schemas)
    else:
        name = names()[one.api_version, one.kind]
        _collect(name, schemas)
    return name


def _collect(name: str, schemas: dict[str, Document]) -> None:
    """A definition and all that it refers to."""
    open_names = [name]
    while open_names:
        name = open_names.pop()
        if name not in schemas:
            schemas[name] = _served(definitions()[name], open_names)


def _served(schema: Document, needed: list[str]) -> Document:
    if "$ref" in schema:
        needed.append(schema["$ref"])
        return {"allOf": [{"$ref": _PREFIX + schema["$ref"]}], "default": {}}
    found = dict(schema)
    if found.pop("x-kubernetes-int-or-string", False):
        found["oneOf"] = [{"type": "string"}, {"type": "number" if found.get("format") else "integer"}]
        found["format"] = "" if found.get("format") else "int-or-string"
    if found.get("format") == "micro-time":
        found["format"] = "date-time"
    for key in ("items", "additionalProperties"):
        if isinstance(found.get(key), dict):
            found[key] = _served(found[key], needed)
    if "properties" in found:
        found["properties"] = {field: _served(value, needed) for field, value in found["properties"].items()}
    return found


def _custom(one: Resource) -> Document:
    schema = {key: value for key, value in one.openapi.items() if not key.startswith("x-kubernetes-validations")}
    properties = {**(schema.get("properties") or {})}
    properties["apiVersion"] = {"type": "string"}
    properties["kind"] = {"type": "string"}
    properties["metadata"] = {"allOf": [{"$ref": _PREFIX + _META}]}
    kind = {"group": one.group, "version": one.version, "kind": one.kind}
    return {**schema, "type": "object", "properties": properties, "x-kubernetes-group-version-kind": [kind]}


def _paths(one: Resource, name: str) -> dict[str, Document]:
    folder = f"/{one.path}/" + ("namespaces/{namespace}/" if one.namespaced else "") + one.plural
    found: dict[str, Document] = {folder: {}, f"{folder}/{{name}}": {}}
    for verb in one.verbs:
        if verb in _ACTIONS:
            place = folder if verb == "create" else f"{folder}/{{name}}"
            found[place][_ACTIONS[verb]] = _operation(one, verb, name)
    if "list" in one.verbs:
        found[folder]["get"] = _operation(one, "list", name)
    for below in one.subresources.values():
        if below.name == "status":
            found[f"{folder}/{{name}}/status"] = {_ACTIONS[verb]: _operation(one, verb, name) for verb in below.verbs}
    return {path: actions for path, actions in found.items() if actions}


def _operation(one: Resource, verb: str, name: str) -> Document:
    kind = {"group": one.group, "version": one.version, "kind": one.kind}
    found: Document = {"x-kubernetes-action": verb, "x-kubernetes-group-version-kind": kind}
    body = {"schema": {"$ref": _PREFIX + name}}
    found["responses"] = {"200": {"description": "OK", "content": {"application/json": body}}}
    if verb in _WRITES:
        found["parameters"] = [{"name": text, "in": "query", "schema": {"type": "string"}} for text in _QUERY]
        if verb == "patch":
            # kubectl sends a strategic patch to every kind that says it takes one.
            forms = [text for text in _PATCHES if not (one.custom and text.startswith("strategic"))]
            content = {f"application/{text}": {"schema": {"type": "object"}} for text in forms}
        else:
            content = {"*/*": body}
        found["requestBody"] = {"content": content}
    return found
