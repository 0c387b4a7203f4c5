"""Schemas made ready to be walked fast: a document that is in order is taken in, or found valid, in one walk.

What is out of order is only noticed here, never named: `schema`, `typed` and `validation` then look at the document
again, and say what is wrong with it. What a document shares with the one that is kept was in order when that one came,
and is not looked at again.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from muster.embedded import typed, validation
from muster.embedded.fieldsets import ABSENT
from muster.embedded.objects import Document
from muster.embedded.quantities import canonical, is_quantity

_EMPTY: tuple[Any, ...] = ("", False, 0, [], {})
# What only the slow way understands.
_ODD = ("allOf", "oneOf", "not", "multipleOf", "uniqueItems", "x-kubernetes-embedded-resource")
_SIZES = ("minItems", "maxItems", "minProperties", "maxProperties")
_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]


class Irregular(Exception):
    """Something is not as the schema says; whoever catches this finds out what."""


class Place:
    """One place of a schema. Those below it are made when somebody comes by."""

    __slots__ = (
        "_schema",
        "allowed",
        "defaults",
        "fields",
        "form",
        "forms",
        "has_fields",
        "has_limits",
        "is_open",
        "item",
        "keys",
        "least",
        "list_type",
        "longest",
        "more",
        "most",
        "needed",
        "numbers",
        "odd",
        "pattern",
        "shortest",
        "takes",
        "vanishing",
    )

    def __init__(self, schema: Document, name: str = "", required: Any = ()) -> None:
        self._schema = schema
        self.takes = _takes(schema)
        self.fields: dict[str, Place] = {}
        self.has_fields = schema.get("properties") is not None
        more, items = schema.get("additionalProperties"), schema.get("items")
        self.more = Place(more) if isinstance(more, dict) else None
        self.item = Place(items) if isinstance(items, dict) else None
        free = not schema.get("type") and not schema.get("properties")
        self.is_open = schema.get("x-kubernetes-preserve-unknown-fields") is True or more is True or free
        # Empty values of these types are as good as none at this place.
        self.vanishing = frozenset(
            type(empty) for empty in _EMPTY if name and typed.vanishes(name, empty, schema, required)
        )
        self.form = _form(schema)
        below = schema.get("properties") or {}
        self.defaults = [name for name, place in below.items() if place.get("default") is not None]
        self._limit(schema)

    def _limit(self, schema: Document) -> None:
        self.needed = schema.get("required") or ()
        self.list_type = schema.get("x-kubernetes-list-type")
        self.keys = schema.get("x-kubernetes-list-map-keys") or []
        self.longest, self.shortest = schema.get("maxLength"), schema.get("minLength")
        pattern = schema.get("pattern")
        self.pattern = validation.matcher(pattern) if pattern else None
        self.forms = validation.FORMATS.get(str(schema.get("format", "")).replace("-", ""))
        low, high = validation.RANGES.get(schema.get("format", ""), validation.RANGES["int64"])
        least, most = schema.get("minimum"), schema.get("maximum")
        self.numbers = (low if least is None else max(low, least), high if most is None else min(high, most))
        kind = "Properties" if schema.get("type") == "object" else "Items"
        self.least, self.most = schema.get(f"min{kind}"), schema.get(f"max{kind}")
        self.allowed = frozenset(one for one in schema.get("enum") or () if isinstance(one, str))
        some = schema.get("anyOf") or []
        self.odd = (
            any(name in schema for name in _ODD)
            or (bool(some) and not (schema.get("x-kubernetes-int-or-string") and some == _INT_OR_STRING))
            or len(self.allowed) != len(schema.get("enum") or ())
            or (not schema.get("type") and any(name in schema for name in _SIZES))
            or bool(schema.get("exclusiveMinimum") or schema.get("exclusiveMaximum"))
        )
        self.has_limits = bool(self.longest or self.shortest or self.pattern or self.forms or self.allowed)

    def child(self, name: str) -> "Place | None":
        """The place of a field that was not asked for so far."""
        schema = (self._schema.get("properties") or {}).get(name)
        if not isinstance(schema, dict):
            return self.more
        found = self.fields[name] = Place(schema, name, self._schema.get("required", ()))
        return found

    def default(self, name: str) -> Any:
        """What stands in a field that is left open."""
        return self._schema["properties"][name]["default"]

    @property
    def schema(self) -> Document:
        """What it was made of."""
        return self._schema


def _takes(schema: Document) -> frozenset[type]:
    """The types of values that a place may have; what is rare is left to the slow way."""
    kind = schema.get("type") or ""
    if schema.get("x-kubernetes-int-or-string"):
        return frozenset([int, str])
    by_name: dict[str, list[type]] = {
        "": [str, int, float, bool, dict, list],
        "object": [dict],
        "array": [list],
        "string": [str],
        "integer": [int],
        "number": [int, float],
        "boolean": [bool],
    }
    return frozenset(by_name.get(kind, ()))


# How the real server writes a text back, and whether it can read it at all.


def _form(schema: Document) -> Callable[[Any], Any] | None:
    name = schema.get("format")
    if name == "quantity":
        return _quantity
    if name == "date-time":
        return _time
    if name == "micro-time":
        return _micro_time
    if name == "byte":
        return _bytes
    return None


@lru_cache(maxsize=4096)
def _quantity(value: Any) -> Any:
    found = canonical(value)
    if not is_quantity(found):
        raise Irregular
    return found


@lru_cache(maxsize=4096)
def _time(text: str) -> str:
    found = typed.typed(text, {"format": "date-time"})
    if not validation.FORMATS["datetime"](found):
        raise Irregular
    return str(found)


def _micro_time(text: str) -> str:
    if not validation.FORMATS["microtime"](text):
        raise Irregular
    return typed.micro_time(text)


def _bytes(text: str) -> str:
    if not validation.FORMATS["byte"](text):
        raise Irregular
    return text


# Built-in kinds


def taken(value: Any, place: Place) -> Any:
    """A copy of a value of a built-in kind, as it comes back from the typed structs of the real server. Only what may
    hold anything is not copied.
    """
    kind = type(value)
    if kind is str:
        if str not in place.takes:
            raise Irregular
        return value if place.form is None else place.form(value)
    if place.form is _quantity and kind is int:
        return canonical(value)
    if kind not in place.takes:
        raise Irregular
    if kind is dict:
        if place.has_fields:
            return _fields_taken(value, place)
        if place.more is not None:
            below = place.more
            return {name: taken(one, below) for name, one in value.items()}
        if value and not place.is_open:
            raise Irregular
        return value  # no default is ever filled in here, so that it need not be a copy
    if kind is list:
        if place.item is not None:
            return [taken(one, place.item) for one in value]
        if not place.is_open:
            raise Irregular
    return value


def _fields_taken(value: Document, place: Place) -> Document:
    fields = place.fields
    out = {}
    for name, below in value.items():
        spot = fields.get(name) or (place.child(name) if place.has_fields else place.more)
        if spot is None:
            if not place.is_open:
                raise Irregular
            out[name] = below
        elif below or not (below is None or type(below) in spot.vanishing):
            out[name] = taken(below, spot)
    return out


def document_taken(document: Document, place: Place, known: Document | None) -> Document:
    """The same of a whole document. What it shares with `known`, the one that is kept, stays shared: its fields, and
    those of its metadata; below, everything is copied, because defaults are filled in in place.
    """
    if known is None:
        return _fields_taken(document, place)
    out = {}
    for name, below in document.items():
        there = known.get(name, ABSENT)
        if below is there:
            out[name] = below
        elif name == "metadata" and isinstance(there, dict) and isinstance(below, dict):
            out[name] = _shared_taken(below, place.fields.get(name) or place.child(name), there)
        else:
            out |= _fields_taken({name: below}, place)
    return out


def _shared_taken(value: Document, place: Place | None, known: Document) -> Document:
    if place is None:
        raise Irregular
    new = {name: below for name, below in value.items() if below is not known.get(name, ABSENT)}
    fresh = _fields_taken(new, place)
    return {name: fresh.get(name, below) for name, below in value.items() if name in fresh or name not in new}


def metadata_taken(metadata: Any, place: Place, known: Document | None) -> Document:
    """The metadata of a document of any kind."""
    if type(metadata) is not dict:
        raise Irregular
    return _fields_taken(metadata, place) if known is None else _shared_taken(metadata, place, known)


def copied(value: Any) -> Any:
    """A copy that may be changed in place."""
    if isinstance(value, dict):
        return {key: copied(one) if isinstance(one, dict | list) else one for key, one in value.items()}
    if isinstance(value, list):
        return [copied(one) if isinstance(one, dict | list) else one for one in value]
    return value


# Custom kinds


def cleaned(value: Any, place: Place, known: Any) -> Any:
    """A value of a custom kind with its defaults; nothing in it is unknown or null. The same object if that is so."""
    if value is known:
        return value
    if type(value) is list:
        return _items_cleaned(value, place)
    if place.odd:
        raise Irregular
    fields, before = place.fields, known if type(known) is dict else {}
    out: Document | None = None
    for name, below in value.items():
        spot = fields.get(name) or (place.child(name) if place.has_fields else place.more)
        if spot is None:
            if not place.is_open:
                raise Irregular
            continue
        if below is None:
            raise Irregular
        if type(below) is dict or type(below) is list:
            new = cleaned(below, spot, before.get(name))
            if new is not below:
                out = out or {**value}
                out[name] = new
    for name in place.defaults:
        if name not in value:
            spot = fields.get(name) or (place.child(name) if place.has_fields else place.more)
            assert spot is not None, "a field with a default is a field"
            out = out or {**value}
            given = place.default(name)
            out[name] = cleaned(given, spot, ABSENT) if isinstance(given, dict | list) else given
    return value if out is None else out


def _items_cleaned(value: list[Any], place: Place) -> list[Any]:
    below = place.item
    if below is None:
        if not place.is_open:
            raise Irregular
        return value
    changed = False
    items = []
    for one in value:
        if one is None:
            raise Irregular
        new = cleaned(one, below, ABSENT) if type(one) is dict or type(one) is list else one
        changed |= new is not one
        items.append(new)
    return items if changed else value


def is_fine(value: Any, place: Place, old: Any) -> bool:
    """Whether a value certainly breaks no limit, and no list repeats itself; what stayed is not blamed."""
    if value is old:
        return True
    if place.odd:
        return not validation.causes(value, place.schema)
    kind = type(value)
    if kind not in place.takes:
        return value is None and bool(place.schema.get("nullable"))
    if kind is str:
        return not place.has_limits or _is_fine_text(value, place)
    if kind is int:
        low, high = place.numbers
        return bool(low <= value <= high) and not place.allowed
    if kind is dict:
        return _is_fine_object(value, place, old if type(old) is dict else {})
    if kind is list:
        return _is_fine_list(value, place)
    return kind is bool and not place.allowed


def _is_fine_text(value: str, place: Place) -> bool:
    length = len(value)
    return (
        (place.longest is None or length <= place.longest)
        and (place.shortest is None or length >= place.shortest)
        and (place.pattern is None or place.pattern(value))
        and (place.forms is None or place.forms(value))
        and (not place.allowed or value in place.allowed)
    )


def _is_fine_object(value: Document, place: Place, old: Document) -> bool:
    if (place.most is not None and len(value) > place.most) or (place.least is not None and len(value) < place.least):
        return False
    for name in place.needed:
        if name not in value:
            return False
    fields = place.fields
    for name, below in value.items():
        spot = fields.get(name) or (place.child(name) if place.has_fields else place.more)
        if spot is not None and not is_fine(below, spot, old.get(name, ABSENT)):
            return False
    return not place.allowed


def _is_fine_list(value: list[Any], place: Place) -> bool:
    if (place.most is not None and len(value) > place.most) or (place.least is not None and len(value) < place.least):
        return False
    if place.list_type in ("set", "map") and not _is_distinct(value, place):
        return False
    below = place.item
    if below is not None:
        for one in value:
            if not is_fine(one, below, ABSENT):
                return False
    return not place.allowed


def _is_distinct(value: list[Any], place: Place) -> bool:
    """Whether the items of a list are certainly different: texts, or objects whose keys are texts."""
    if place.list_type == "set":
        found = value
    else:
        try:
            found = ["\0".join([one[key] for key in place.keys]) for one in value]
        except (KeyError, TypeError):
            return False
    return all(type(one) is str for one in found) and len(set(found)) == len(found)
