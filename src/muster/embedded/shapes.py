"""How values of a schema merge: which maps and lists are one value, and by which keys the items of a list are known.

A Shape is a place in a schema, seen with the eyes of server-side apply and of strategic merge patches.
"""

import json
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

from muster.embedded.objects import Document

ATOMIC, SET, MAP = "atomic", "set", "map"


class NoKey(ValueError):
    """An item of a list cannot be told from the others: its keys are missing, or it is no object."""


class Shape:
    """One place of a schema. `preserve` is what x-kubernetes-preserve-unknown-fields says above it."""

    def __init__(self, openapi: Document, *, preserve: bool = False) -> None:
        self.openapi = openapi
        self.preserve = preserve or openapi.get("x-kubernetes-preserve-unknown-fields") is True
        type_ = openapi.get("type") or ""
        if openapi.get("x-kubernetes-int-or-string"):
            type_ = "scalar"
        self.is_map = type_ in ("object", "")
        self.is_list = type_ in ("array", "")
        self.is_scalar = type_ not in ("object", "array")
        self.atomic_map = openapi.get("x-kubernetes-map-type") == ATOMIC
        self.list_type, self.keys = _list_type(openapi)
        self._children: dict[str, Shape] = {}
        self._steps: dict[str, tuple[str, Shape]] = {}
        self.properties: Mapping[str, Document] = openapi.get("properties") or {}

    def child(self, name: str) -> "Shape | None":
        """The place of a field, or None if there is no such field."""
        found = self._children.get(name)
        if found is None:
            if name not in self.properties:
                return self._more
            found = self._children[name] = Shape(self.properties[name], preserve=self.preserve)
        return found

    def step(self, name: str) -> "tuple[str, Shape]":
        """The step from here to a field, as managedFields has it (`f:spec`), and the place of the field."""
        found = self._steps.get(name)
        if found is None:
            found = ("f:" + name, self.child(name) or ANYTHING)
            if name in self.properties:
                self._steps[name] = found
        return found

    def named(self, name: str) -> bool:
        """Whether the schema names this field, rather than allowing for it."""
        return name in self.properties

    @cached_property
    def items(self) -> "Shape":
        """The place of the items of a list."""
        return Shape(self.openapi["items"], preserve=self.preserve) if "items" in self.openapi else ANYTHING

    def atom(self, value: Any) -> str:
        """What a value is here: `map`, `list` or `scalar`; null takes the first that the schema allows."""
        if isinstance(value, dict):
            if self.is_map:
                return "map"
        elif isinstance(value, list):
            if self.is_list:
                return "list"
        elif value is not None and self.is_scalar:
            return "scalar"
        return "map" if self.is_map else "scalar" if self.is_scalar else "list"

    def known_by(self, item: Any) -> str:
        """What tells an item of this list from the others, as managedFields has it: `k:{"name":"a"}` or `v:"a"`."""
        if self.list_type == SET:
            if item is None or isinstance(item, dict | list):
                raise NoKey("associative list without keys has an element that's a map type or null")
            return "v:" + encoded(item)
        if not isinstance(item, dict):
            raise NoKey("associative list with keys may not have non-map elements")
        if len(self.keys) == 1 and type(item.get(self.keys[0])) is str:
            return _known_by(self.keys[0], item[self.keys[0]])
        found = {key: item[key] if key in item else self._default(key) for key in sorted(self.keys)}
        found = {key: value for key, value in found.items() if value is not None}
        if not found:
            names = " ".join(json.dumps(key) for key in self.keys)
            raise NoKey(
                f"associative list with keys has an element that omits all key fields [{names}] "
                "(and doesn't have default values for any key fields)"
            )
        return "k:" + encoded(found)

    def _default(self, key: str) -> Any:
        shape = self.items.child(key)
        return shape.openapi.get("default") if shape else None

    @cached_property
    def _more(self) -> "Shape | None":
        """The place of all fields that have no name."""
        more = self.openapi.get("additionalProperties")
        if isinstance(more, dict):
            return Shape(more, preserve=self.preserve)
        if more is True or self.preserve or (more is None and not self.properties):
            return ANYTHING
        return None


def _list_type(openapi: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    """Of a list: atomic, set or map, and the keys; without a word of its own, as its patch strategy says."""
    type_ = openapi.get("x-kubernetes-list-type")
    if type_ is not None:
        keys: Sequence[str] = openapi.get("x-kubernetes-list-map-keys") or ()
        return str(type_), tuple(keys) if type_ == MAP else ()
    if "merge" in str(openapi.get("x-kubernetes-patch-strategy", "")).split(","):
        key = openapi.get("x-kubernetes-patch-merge-key")
        return (MAP, (key,)) if key else (SET, ())
    return ATOMIC, ()


@lru_cache(maxsize=4096)
def _known_by(key: str, value: str) -> str:
    return "k:" + encoded({key: value})


def encoded(value: Any) -> str:
    """A value as the real server writes it inside of managedFields."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


# A place of which nothing is known: maps merge, lists are one value.
ANYTHING = Shape({}, preserve=True)
