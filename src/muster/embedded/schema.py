"""Schemas of kinds: which fields there are, which values they take, what they are when nobody says so."""

from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from types import MappingProxyType
from typing import Any

from muster.embedded import fields, validation
from muster.embedded.fieldsets import ABSENT, NONE, Fields
from muster.embedded.objects import Document
from muster.embedded.places import Irregular, Place, cleaned, document_taken, is_fine, metadata_taken
from muster.embedded.refusals import Cause
from muster.embedded.shapes import Shape
from muster.embedded.validation import Check

__all__ = ["NO_CHECKS", "Cause", "Check", "Schema"]

_STATUS: Fields = frozenset({("f:status",)})
_META = ("apiVersion", "kind", "metadata")
NO_CHECKS: Mapping[str, Check] = MappingProxyType({})


class Schema:
    """The schema of one version of one kind.

    `Schema(openapi, checks=..., status=True)` is that of a CustomResourceDefinition; `checks` answer its rules, by
    their text. A schema that says itself what metadata is, is that of a built-in kind. `warnings` names the rules that
    nobody checks.
    """

    def __init__(self, openapi: Document, *, checks: Mapping[str, Check] = NO_CHECKS, status: bool = False) -> None:
        metadata = (openapi.get("properties") or {}).get("metadata") or {}
        self.custom = "managedFields" not in (metadata.get("properties") or {})
        self.openapi = openapi
        self.checks = checks
        self.status = status or (not self.custom and "status" in openapi["properties"])
        unknown = dict.fromkeys(text for text in validation.rules(openapi) if text not in checks)
        self.warnings = tuple(f"x-kubernetes-validations: nobody checks the rule {text}" for text in unknown)
        self._typed = _with_metadata(openapi) if self.custom else openapi

    @classmethod
    def builtin(cls, api_version: str, kind: str) -> "Schema | None":
        """The schema of a kind that every API server has."""
        openapi = fields.structural(api_version, kind)
        return cls(openapi) if openapi else None

    @classmethod
    def open(cls) -> "Schema":
        """A schema that allows everything."""
        return cls({"type": "object", "x-kubernetes-preserve-unknown-fields": True})

    @cached_property
    def place(self) -> Place:
        """The same, made ready to be walked fast."""
        return Place(self.openapi)

    @cached_property
    def _ruled(self) -> frozenset[int]:
        """The parts of the schema at or below which somebody checks a rule, by their id()."""
        return frozenset(validation.ruled(self.openapi)) if self.checks else frozenset()

    @cached_property
    def _is_odd(self) -> bool:
        """Whether it says something of what all kinds have, or allows for anything."""
        common = ((self.openapi.get("properties") or {}).get(name) or {} for name in _META)
        return any("properties" in one or "default" in one for one in common)

    @cached_property
    def shape(self) -> Shape:
        """How documents of this kind merge."""
        return Shape(self._typed)

    def reset(self, subresource: str = "") -> Fields:
        """The fields that cannot be written through a door, and so are not owned by who comes through it."""
        if not self.status or subresource not in ("", "status"):
            return NONE
        return self._reset_of_status if subresource else _STATUS

    @cached_property
    def _reset_of_status(self) -> Fields:
        if self.custom:
            return frozenset({("f:metadata",), ("f:spec",)})
        return frozenset(
            {("f:spec",), ("f:metadata", "f:deletionTimestamp"), ("f:metadata", "f:ownerReferences")}
            if "containers" in ((self.openapi["properties"].get("spec") or {}).get("properties") or {})
            else {("f:spec",)}
        )

    def validate(self, document: Document, old: Document | None = None) -> list[Cause]:
        """All that is wrong with a document; what was so before is not blamed again."""
        before = ABSENT if old is None else old
        if is_fine(document, self.place, before):
            return validation.broken(document, self.openapi, before, self.checks, self._ruled) if self._ruled else []
        return validation.causes(document, self.openapi, before, self.checks)

    def taken(self, document: Document, known: Document | None) -> Document | None:
        """The document as it is kept: without unknown fields, in its typed form, a custom one with its defaults.

        None if something is out of order: `prune` knows what. What it shares with `known` has been taken in before.
        """
        try:
            if not self.custom:
                return document_taken(document, self.place, known)
            if self._is_odd:
                return None
            before = known or {}
            metadata = metadata_taken(document.get("metadata"), frame(), before.get("metadata"))
            bare = {name: below for name, below in document.items() if name not in _META}
            new = cleaned(bare, self.place, {name: below for name, below in before.items() if name not in _META})
            return {**{name: document[name] for name in document if name in _META}, "metadata": metadata, **new}
        except Irregular:
            return None

    def prune(self, document: Document) -> tuple[Document, list[str]]:
        """The document without the fields that the schema does not know, and the paths of these."""
        unknown: list[str] = []
        pruned = _pruned(document, self._typed, "", unknown)
        return pruned, sorted(unknown) if self.custom else unknown

    def default(self, document: Document) -> Document:
        """The document with what it leaves open filled in; a null that may not be is as if nothing was said."""
        filled: Document = _defaulted(document, self.openapi)
        return filled

    def list_type(self, path: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
        """(`atomic`, `set` or `map`, its keys) of the list at a path of field names."""
        shape: Shape | None = self.shape
        for name in path:
            shape = shape.items if shape and shape.is_list and not shape.is_map else shape
            shape = shape.child(name) if shape else None
        return (shape.list_type, shape.keys) if shape else ("atomic", ())


@cache
def frame() -> Place:
    """The place of the metadata of any kind."""
    pod = fields.structural("v1", "Pod")
    assert pod, "Pods are built in"
    return Place(pod["properties"]["metadata"])


def _with_metadata(openapi: Document) -> Document:
    """The schema of a custom kind with what all kinds have."""
    pod = fields.structural("v1", "Pod")
    assert pod, "Pods are built in"
    common = {name: pod["properties"][name] for name in _META}
    return {**openapi, "properties": {**(openapi.get("properties") or {}), **common}}


def _pruned(value: Any, schema: Document | None, path: str, unknown: list[str]) -> Any:
    """The value without unknown fields; the same object if there are none."""
    open_ = schema is not None and schema.get("x-kubernetes-preserve-unknown-fields") is True
    if isinstance(value, list):
        items = schema.get("items") if schema is not None else None
        if open_ and items is None:
            return value
        kept = [_pruned(item, items, f"{path}[{row}]", unknown) for row, item in enumerate(value)]
        return kept if any(new is not old for new, old in zip(kept, value, strict=True)) else value
    if not isinstance(value, dict):
        return value
    properties, more = ((schema or {}).get("properties") or {}), (schema or {}).get("additionalProperties")
    out: Document = {}
    changed = False
    for name, below in value.items():
        where = f"{path}.{name}" if path else name
        place = properties.get(name, more)
        if (schema or {}).get("x-kubernetes-embedded-resource") and name in _META:
            out[name] = below
        elif isinstance(place, dict):
            out[name] = _pruned(below, place, where, unknown)
            changed |= out[name] is not below
        elif open_ or more is True or (schema is not None and _free(schema)):
            out[name] = below
        else:
            unknown.append(where)
            changed = True
    return out if changed else value


def _free(schema: Document) -> bool:
    """An object of a built-in kind of which nothing is said may hold anything."""
    return not schema.get("type") and not schema.get("properties")


def _defaulted(value: Any, schema: Document) -> Any:
    if isinstance(value, dict):
        out = dict(_entries(value, schema))
        unchanged = len(out) == len(value) and all(out.get(name, ABSENT) is below for name, below in value.items())
        return value if unchanged else out
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        items = [_defaulted(_unless_null(item, schema["items"]), schema["items"]) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    return value


def _entries(value: Document, schema: Document) -> Iterator[tuple[str, Any]]:
    properties, more = schema.get("properties") or {}, schema.get("additionalProperties")
    for name, below in value.items():
        place = properties.get(name, more)
        if not isinstance(place, dict):
            yield name, below
            continue
        said = _unless_null(below, place)
        if said is not None or place.get("nullable") or not _non_null(place):
            yield name, _defaulted(said, place)
    for name, place in properties.items():
        if name not in value and place.get("default") is not None:
            yield name, _defaulted(place["default"], place)


def _non_null(schema: Document) -> bool:
    return bool(schema.get("type")) or bool(schema.get("x-kubernetes-int-or-string"))


def _unless_null(value: Any, schema: Document) -> Any:
    if value is None and not schema.get("nullable") and schema.get("default") is not None:
        return schema["default"]
    return value
