"""Strategic merge patches: a merge patch that knows which lists of the built-in kinds are known by a key.

Besides the values there may be directives: `$patch: delete | replace`, `$retainKeys`, `$setElementOrder/LIST` and
`$deleteFromPrimitiveList/LIST`.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, NoReturn

from muster.embedded import fields
from muster.embedded.objects import Document, same_value
from muster.embedded.refusals import Refused
from muster.embedded.shapes import ANYTHING, Shape

_PATCH, _RETAIN = "$patch", "$retainKeys"
_ORDER, _DELETE = "$setElementOrder/", "$deleteFromPrimitiveList/"
_ABSENT: Any = object()


def strategic(document: Document, patch: Any, kind: str) -> Document:
    """The document with the patch merged in. `kind` is `apps/v1/StatefulSet`, or `Pod` where its name says it all."""
    if not isinstance(patch, dict):
        _bad("strategic merge patch format is not supported")
    merged = _map(document, patch, _shape(kind))
    assert merged is not _ABSENT, "a map stays a map"
    found: Document = merged
    return found


@cache
def _shape(kind: str) -> Shape:
    version, _, name = kind.rpartition("/")
    versions = [version] if version else [version for version, found in fields.names() if found == name]
    for one in versions:
        openapi = fields.structural(one, name)
        if openapi:
            return Shape(openapi)
    return ANYTHING


def _bad(message: str) -> NoReturn:
    raise Refused(400, "BadRequest", message)


def _fault(message: str) -> NoReturn:
    """What the real server can't make sense of, it answers with a plain 500."""
    raise Refused(500, "", message)


def _in_go(value: Any) -> str:
    """A value as the real server prints it: `map[image:one]`."""
    if isinstance(value, dict):
        return "map[" + " ".join(f"{name}:{_in_go(value[name])}" for name in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(map(_in_go, value)) + "]"
    if value is None or isinstance(value, bool):
        return {None: "<nil>", True: "true", False: "false"}[value]
    return str(value)


def _strategy(shape: Shape) -> tuple[str, str]:
    """(merge or replace or nothing, the merge key) of a field."""
    words = [word for word in str(shape.openapi.get("x-kubernetes-patch-strategy", "")).split(",") if word]
    words = [word for word in words if word != "retainKeys"]
    return (words[0] if words else ""), shape.openapi.get("x-kubernetes-patch-merge-key", "")


def _map(original: Document, patch: Document, shape: Shape) -> Any:
    directive = patch.get(_PATCH)
    if directive == "replace":
        return {name: value for name, value in patch.items() if name != _PATCH}
    if directive == "delete":
        return {}
    if directive is not None:
        _fault(f"unknown patch type: {directive} in map: {_in_go(patch)}")
    out = _retained(dict(original), patch)
    ordered = {}
    for name, order in patch.items():
        if name.startswith(_ORDER):
            field = name.removeprefix(_ORDER)
            ordered[field] = _ordered(out, field, patch.get(field, _ABSENT), order, shape.child(field) or ANYTHING)
    for field, items in ordered.items():
        if items is not _ABSENT:
            out[field] = items
    for name, wanted in patch.items():
        if name == _RETAIN or name.startswith(_ORDER) or (name in ordered and ordered[name] is not _ABSENT):
            continue
        if name.startswith(_DELETE):
            _delete_from(out, name.removeprefix(_DELETE), wanted)
            continue
        new = _value(out.get(name, _ABSENT), wanted, shape.child(name) or ANYTHING)
        if new is _ABSENT:
            out.pop(name, None)
        else:
            out[name] = new
    return out


def _value(original: Any, wanted: Any, shape: Shape) -> Any:
    """What becomes of one field; _ABSENT is nothing."""
    if wanted is None:
        return _ABSENT
    strategy, key = _strategy(shape)
    if isinstance(wanted, dict) and isinstance(original, dict):
        return wanted if strategy == "replace" else _map(original, wanted, shape)
    if isinstance(wanted, list) and isinstance(original, list):
        return _list(original, wanted, shape, key) if strategy == "merge" else wanted
    return _plain(_without_nulls(wanted))


def _retained(original: Document, patch: Document) -> Document:
    if _RETAIN not in patch:
        return original
    keep = patch[_RETAIN]
    if not isinstance(keep, list):
        _bad("invalid patch format of retainKeys")
    for name, value in patch.items():
        if name != _RETAIN and value is not None and not name.startswith((_DELETE, _ORDER)) and name not in keep:
            _bad("invalid patch format of retainKeys")
    return {name: value for name, value in original.items() if name in keep}


def _delete_from(out: Document, field: str, wanted: Any) -> None:
    if not isinstance(wanted, list):
        _bad("invalid patch format of primitive list")
    if isinstance(out.get(field), list):
        left = [item for item in out[field] if not any(same_value(item, one) for one in wanted)]
        if left:
            out[field] = left
        else:
            del out[field]  # no built-in kind keeps an empty one


def _list(original: Sequence[Any], patch: Sequence[Any], shape: Shape, key: str) -> list[Any]:
    if not original and not patch:
        return list(original)
    if not _are_maps([*original, *patch]):
        both: list[Any] = []
        for item in (*original, *patch):
            if not any(same_value(item, one) for one in both):
                both.append(item)
        return _in_order(both, patch, original, lambda item: item)
    if not key:
        _fault("cannot merge lists without merge key")
    server, wanted = _special(original, patch, key)
    merged = list(server)
    for item in wanted:
        if not isinstance(item, dict) or key not in item:
            _fault(f"map: {_in_go(item)} does not contain declared merge key: {key}")
        for place, old in enumerate(merged):
            if isinstance(old, dict) and key in old and same_value(old[key], item[key]):
                merged[place] = _map(old, item, shape.items)
                break
        else:
            merged.append(item)
    return _in_order(merged, wanted, server, _by(key))


def _are_maps(items: Sequence[Any]) -> bool:
    """Whether the items of a list that is merged are maps; they are all of one kind, and not lists."""
    if any(isinstance(item, list) for item in items):
        refused = Refused(422, "Invalid", "the server rejected our request due to an error in our request")
        refused.hint = "lists of lists are not supported"
        raise refused
    maps = [isinstance(item, dict) for item in items]
    if any(maps) and not all(maps):
        _fault(f"list element types are not identical: {_in_go(list(items))}")
    return all(maps)


def _by(key: str) -> Callable[[Any], Any]:
    """What tells an item from the others."""

    def known(item: Any) -> Any:
        if not key:
            return item
        if not isinstance(item, dict):
            _fault("expected a map[string]interface {}, but received something else")
        return item.get(key)

    return known


def _special(original: Sequence[Any], patch: Sequence[Any], key: str) -> tuple[list[Any], list[Any]]:
    """The list after the directives in the patch, and the patch without them."""
    plain: list[Any] = []
    server = list(original)
    replace = False
    for item in patch:
        directive = item.get(_PATCH) if isinstance(item, dict) else None
        if directive is None:
            plain.append(item)
        elif directive == "delete":
            if key not in item:
                _fault(f"map: {_in_go(item)} does not contain declared merge key: {key}")
            server = [old for old in server if not same_value(old.get(key, _ABSENT), item[key])]
        elif directive == "replace":
            replace = True
        else:
            _fault(f"unknown patch type: {directive} in map: {_in_go(item)}")
    return (plain, []) if replace else (server, plain)


def _ordered(out: Document, field: str, wanted: Any, order: Any, shape: Shape) -> Any:
    """A list merged, and then put into the order that the patch asks for."""
    if not isinstance(order, list):
        _fault("expected a []interface {}, but received something else")
    _, key = _strategy(shape)
    original = out.get(field, _ABSENT)
    if original is _ABSENT and wanted is _ABSENT:
        return _ABSENT
    for value in (original, wanted):
        if value is not _ABSENT and not isinstance(value, list):
            _fault("expected a []interface {}, but received something else")
    known = _by(key)
    for items in (original, wanted, order):
        if items is not _ABSENT:
            _are_maps(items)
    if wanted is not _ABSENT:
        _check_order(wanted, order, known)
    if wanted is _ABSENT:
        merged = original
    elif original is _ABSENT:
        merged = _plain(wanted)
    else:
        merged = _list(original, wanted, shape, key)
    server = [] if original is _ABSENT else original
    return _in_order(merged, order, server, known)


def _check_order(wanted: Sequence[Any], order: Sequence[Any], known: Callable[[Any], Any]) -> None:
    """What the patch brings stands in the order that it asks for, in that order."""
    rest = iter(order)
    for item in wanted:
        if isinstance(item, dict) and _PATCH in item:
            continue
        if not any(same_value(known(item), known(one)) for one in rest):
            said = (
                f"The order in patch list:\n{_in_go(wanted)}\n doesn't match $setElementOrder list:\n{_in_go(order)}\n"
            )
            _fault(said)


def _in_order(
    items: Sequence[Any], wanted: Sequence[Any], server: Sequence[Any], known: Callable[[Any], Any]
) -> list[Any]:
    """The items that the patch names in its order, the others in theirs; each before what followed it on the server."""
    order = [known(item) for item in wanted]
    places = [known(item) for item in server]
    named = sorted((item for item in items if _place(order, known(item)) >= 0), key=lambda i: _place(order, known(i)))
    rest = [item for item in items if _place(order, known(item)) < 0]
    out: list[Any] = []
    while named and rest:
        left, right = _place(places, known(rest[0])), _place(places, known(named[0]))
        out.append(rest.pop(0) if 0 <= left < right else named.pop(0))
    return [*out, *named, *rest]


def _place(order: Sequence[Any], value: Any) -> int:
    return next((place for place, one in enumerate(order) if same_value(one, value)), -1)


def _plain(value: Any) -> Any:
    """A value of a patch as it is kept where there was nothing: without directives. _ABSENT if it is one."""
    if isinstance(value, dict):
        if _PATCH in value:
            return _ABSENT
        kept = {name: _plain(below) for name, below in value.items() if not name.startswith(("$retainKeys", "$set"))}
        return {name: below for name, below in kept.items() if below is not _ABSENT and not name.startswith(_DELETE)}
    if isinstance(value, list):
        return list(_plain_items(value))
    return value


def _plain_items(items: Sequence[Any]) -> Iterator[Any]:
    for item in items:
        kept = _plain(item)
        if kept is not _ABSENT:
            yield kept


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(below) for name, below in value.items() if below is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
