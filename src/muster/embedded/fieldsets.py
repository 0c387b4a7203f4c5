"""Sets of fields: who owns what, and what is different between two documents.

A field is the path to it, in the words of managedFields: `("f:spec", "f:containers", 'k:{"name":"a"}', "f:image")`.
A set of fields is a set of such paths; a path in it says nothing of the paths below.
"""

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from muster.embedded.objects import same_value
from muster.embedded.shapes import ANYTHING, ATOMIC, NoKey, Shape, encoded

Path = tuple[str, ...]
Fields = frozenset[Path]
NONE: Fields = frozenset()
# In place of a value that is not there, which null is.
ABSENT: Any = type("Absent", (), {"__repr__": lambda self: "ABSENT"})()


class Difference(NamedTuple):
    """What is different between two documents."""

    removed: Fields
    modified: Fields
    added: Fields

    def without(self, reset: Fields) -> "Difference":
        """The difference apart from some fields and all below them."""
        return Difference(*(outside(fields, reset) for fields in self))


def outside(fields: Fields, reset: Fields) -> Fields:
    """The fields that are neither in `reset` nor below."""
    if not reset or not fields:
        return fields
    if all(len(top) == 1 for top in reset):
        heads = {top[0] for top in reset}
        return frozenset([path for path in fields if path[0] not in heads])
    return frozenset([path for path in fields if not any(path[: len(top)] == top for top in reset)])


# To and from the form of managedFields


class _Seen(NamedTuple):
    """A `fieldsV1` document and the set that it says; whether it was written here, and so has the usual form."""

    tree: Mapping[str, Any]
    fields: Fields
    is_ours: bool


# Documents are never changed, and those of one object come by again and again: known by their id() while they are here.
_SEEN: dict[int, _Seen] = {}
_MOST_SEEN = 10_000


def _remember(tree: Mapping[str, Any], fields: Fields, *, is_ours: bool) -> None:
    if len(_SEEN) >= _MOST_SEEN:
        _SEEN.clear()
    _SEEN[id(tree)] = _Seen(tree, fields, is_ours)


def from_v1(tree: Mapping[str, Any]) -> Fields:
    """The set of a `fieldsV1` document."""
    if not tree:
        return NONE
    seen = _SEEN.get(id(tree))
    if seen is not None:
        return seen.fields
    found: set[Path] = set()
    _read(tree, (), found)
    fields = frozenset(found)
    _remember(tree, fields, is_ours=False)
    return fields


def is_ours(tree: Mapping[str, Any]) -> bool:
    """Whether a `fieldsV1` document certainly is as `to_v1` writes it."""
    seen = _SEEN.get(id(tree))
    return seen is not None and seen.is_ours


def _read(tree: Mapping[str, Any], path: Path, found: set[Path]) -> None:
    for name, below in tree.items():
        if name == ".":
            if path:
                found.add(path)
            continue
        here = (*path, _canonical(name))
        if below:
            _read(below, here, found)
        else:
            found.add(here)


@lru_cache(maxsize=4096)
def _canonical(name: str) -> str:
    kind, text = name[:2], name[2:]
    if kind == "k:":
        said = json.loads(text)
        return kind + encoded({key: said[key] for key in sorted(said)})
    if kind == "v:":
        return kind + encoded(json.loads(text))
    return name


def to_v1(fields: Fields) -> dict[str, Any]:
    """The `fieldsV1` document of a set."""
    tree: dict[str, Any] = {}
    for path in sorted(fields):
        place, is_new = tree, True
        for name in path:
            below = place.get(name)
            if below is None:
                if not place and not is_new:
                    place["."] = {}  # it is in the set itself, and now something below it as well
                below = place[name] = {}
                is_new = True
            else:
                is_new = False
            place = below
    _remember(tree, fields, is_ours=True)
    return tree


def written_path(path: Path) -> str:
    """A path as conflicts show it: `.spec.containers[name="a"].image`."""
    text = ""
    for name in path:
        kind, rest = name[:2], name[2:]
        if kind == "f:":
            text += "." + rest
        elif kind == "k:":
            said = json.loads(rest)
            text += "[" + ",".join(f"{key}={json.dumps(said[key], ensure_ascii=False)}" for key in said) + "]"
        elif kind == "v:":
            text += f"[={rest}]"
        else:
            text += f"[{rest}]"
    return text


# From documents


def fields_of(value: Any, shape: Shape) -> Fields:
    """All fields that a document says something of."""
    found: set[Path] = set()
    _collect(value, shape, (), found)
    return frozenset(found)


def _collect(value: Any, shape: Shape, path: Path, found: set[Path]) -> None:
    atom = shape.atom(value)
    if atom == "scalar" or (atom == "map" and shape.atomic_map) or (atom == "list" and shape.list_type == ATOMIC):
        found.add(path)
    elif isinstance(value, dict):
        for name, below in value.items():
            here = (*path, "f:" + name)
            _collect(below, shape.child(name) or ANYTHING, here, found)
            if below is None or below == {} or not shape.named(name):
                found.add(here)
    elif isinstance(value, list):
        items, _ = indexed(value, shape)
        for known, same in items.items():
            here = (*path, known)
            if len(same) == 1:
                _collect(same[0], shape.items, here, found)
            found.add(here)


def indexed(value: Any, shape: Shape) -> tuple[dict[str, list[Any]], list[str]]:
    """The items of a list by what tells them apart, and their order; items that nothing tells apart are left out."""
    items: dict[str, list[Any]] = {}
    order: list[str] = []
    for item in value or ():
        try:
            known = shape.known_by(item)
        except NoKey:
            continue
        items.setdefault(known, []).append(item)
        order.append(known)
    return items, order


def difference(one: Any, other: Any, shape: Shape) -> Difference:
    """What has to be removed, modified and added to come from one document to the other."""
    comparison = _Comparison()
    comparison.compare(one, other, shape, ())
    return Difference(frozenset(comparison.removed), frozenset(comparison.modified), frozenset(comparison.added))


class _Comparison:
    def __init__(self) -> None:
        self.removed: set[Path] = set()
        self.modified: set[Path] = set()
        self.added: set[Path] = set()

    def compare(self, one: Any, other: Any, shape: Shape, path: Path) -> None:
        if one is other:
            return
        if one is ABSENT:
            self._alone(other, shape, path, self.added)
            return
        if other is ABSENT:
            self._alone(one, shape, path, self.removed)
            return
        kind = type(one)
        if kind is type(other) and kind is not list and not (kind is dict and (one or other)):
            if one != other:
                self._mark(self.modified, path)
            return
        atoms = {shape.atom(one), shape.atom(other)}
        if len(atoms) > 1 or self._whole(one, other, shape, *atoms):
            if not same_value(one, other):
                self._mark(self.modified, path)
        elif atoms == {"map"}:
            self._maps(_map(one), _map(other), shape, path)
        else:
            self._lists(one, other, shape, path)

    def _alone(self, value: Any, shape: Shape, path: Path, fields: set[Path]) -> None:
        """A value that the other document does not have: all fields in it, and its own."""
        atom = shape.atom(value)
        if not self._whole(value, ABSENT, shape, atom):
            if atom == "map":
                for name, below in _map(value).items():
                    key, child = shape.step(name)
                    self._alone(below, child, (*path, key), fields)
            else:
                for known, same in indexed(value if isinstance(value, list) else (), shape)[0].items():
                    here = (*path, known)
                    if len(same) == 1:
                        self._alone(same[0], shape.items, here, fields)
                    else:
                        fields.add(here)
        if path:
            fields.add(path)

    @staticmethod
    def _whole(one: Any, other: Any, shape: Shape, atom: str) -> bool:
        """Whether the values are compared as one: atomic ones, scalars, and where there is nothing in either."""
        if atom == "scalar" or (atom == "map" and shape.atomic_map) or (atom == "list" and shape.list_type == ATOMIC):
            return True
        return not any(isinstance(value, dict | list) and value for value in (one, other))

    @staticmethod
    def _mark(fields: set[Path], path: Path) -> None:
        if path:
            fields.add(path)

    def _maps(self, one: Mapping[str, Any], other: Mapping[str, Any], shape: Shape, path: Path) -> None:
        for name, new in other.items():
            old = one.get(name, ABSENT)
            if old is not new:
                key, child = shape.step(name)
                self.compare(old, new, child, (*path, key))
        for name, old in one.items():
            if name not in other:
                key, child = shape.step(name)
                self._alone(old, child, (*path, key), self.removed)

    def _lists(self, one: Any, other: Any, shape: Shape, path: Path) -> None:
        before, _ = indexed(one if isinstance(one, list) else (), shape)
        after, _ = indexed(other if isinstance(other, list) else (), shape)
        for known in {**before, **after}:
            old, new = before.get(known, []), after.get(known, [])
            here = (*path, known)
            if len(old) <= 1 and len(new) <= 1:
                self.compare(old[0] if old else ABSENT, new[0] if new else ABSENT, shape.items, here)
            elif len(old) > 1 and len(new) > 1:
                if not same_value(old, new):
                    self.modified.add(here)
            elif len(old) > 1:
                if new:
                    self.compare(ABSENT, new[0], shape.items, here)
                self.removed.add(here)
            else:
                if old:
                    self.compare(old[0], ABSENT, shape.items, here)
                self.added.add(here)


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def with_parents(fields: Fields, shape: Shape) -> Fields:
    """The set, and with every field those above it that the schema names."""
    found = set(fields)
    for path in fields:
        place: Shape | None = shape
        for depth, name in enumerate(path[:-1], 1):
            if place is None:
                break
            if name[:2] == "f:":
                if place.named(name[2:]):
                    found.add(path[:depth])
                place = place.child(name[2:])
            else:
                place = place.items
    return frozenset(found)


def removed(value: Any, fields: Iterable[Path], shape: Shape) -> Any:
    """The document without some fields. A map of which nothing is left stays as an empty one: the real server makes a
    null of it, and then refuses that in a custom resource.
    """
    tree: dict[str, Any] = {}
    for path in fields:
        place = tree
        for name in path:
            place = place.setdefault(name, {})
        place["."] = {}
    return _without(value, tree, shape) if tree else value


def _without(value: Any, tree: Mapping[str, Any], shape: Shape) -> Any:
    if isinstance(value, dict) and value and not (shape.atomic_map and shape.is_map):
        kept: dict[str, Any] = {}
        for name, below in value.items():
            cut = tree.get("f:" + name)
            if cut is None:
                kept[name] = below
            elif "." not in cut:
                kept[name] = _without(below, cut, shape.child(name) or ANYTHING)
        return kept
    if isinstance(value, list) and value and shape.list_type != ATOMIC:
        items = []
        for item in value:
            try:
                cut = tree.get(shape.known_by(item))
            except NoKey:
                cut = None
            if cut is None:
                items.append(item)
            elif "." not in cut:
                items.append(_without(item, cut, shape.items))
        return items
    return value
