"""Patches that need no owner: JSON merge patch (RFC 7386), JSON patch (RFC 6902), strategic merge patch.

None of them changes the document it is given; the new one shares with it all that stays.
"""

import re
from collections.abc import Sequence
from typing import Any

from muster.embedded.objects import Document, same_value
from muster.embedded.refusals import Refused
from muster.embedded.strategic import strategic

__all__ = ["Refused", "json_patch", "merge", "strategic"]

MOST_OPERATIONS = 10_000
# A few operations that copy what they copied before make more than any memory holds; and a path leads so deep.
MOST_COPIED, DEEPEST = 100_000, 100
_NOTHING: Any = object()


def merge(document: Document, patch: Any) -> Document:
    """A JSON merge patch: objects are merged, null removes, all else takes the place of what was there."""
    if not isinstance(patch, dict):
        raise Refused(400, "BadRequest", f"error decoding patch: {_not_an_object(patch)}")
    merged: Document = _merged(document, patch)
    return merged


def _not_an_object(patch: Any) -> str:
    name = "array" if isinstance(patch, list) else "string" if isinstance(patch, str) else "number"
    if isinstance(patch, bool):
        name = "bool"
    return f"json: cannot unmarshal {name} into Go value of type map[string]interface {{}}"


def _merged(value: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    out = dict(value) if isinstance(value, dict) else {}
    for name, wanted in patch.items():
        if wanted is None:
            out.pop(name, None)
        else:
            out[name] = _merged(out.get(name), wanted)
    return out


class _DoesNotApply(Exception):
    """An operation of a JSON patch finds nothing to work on, or a test says no."""


def json_patch(document: Document, operations: Any) -> Document:
    """A JSON patch: all of its operations in their order, or none."""
    if not isinstance(operations, list) or not all(isinstance(one, dict) for one in operations):
        raise Refused(400, "BadRequest", "error decoding patch: a JSON patch is a list of operations")
    if len(operations) > MOST_OPERATIONS:
        said = f"The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {len(operations)}"
        raise Refused(413, "RequestEntityTooLarge", said)
    patched: Any = document
    copies = 0
    try:
        for operation in operations:
            if operation.get("op") == "copy":
                copies += _size(_found(patched, _pointer(operation, "from")), MOST_COPIED - copies)
                if copies >= MOST_COPIED:
                    said = f"the copies of a JSON patch may have {MOST_COPIED} values in all"
                    raise Refused(413, "RequestEntityTooLarge", said)
            patched = _operated(patched, operation)
    except _DoesNotApply as error:
        # The real server keeps the reason to itself.
        refused = Refused(422, "Invalid", "the server rejected our request due to an error in our request")
        refused.hint = str(error)
        raise refused from error
    found: Document = patched
    return found


def _size(value: Any, most: int) -> int:
    """How many values are in a value; no more are counted than make a difference."""
    count, level = 1, [value]
    while level and count < most:
        level = [
            below
            for one in level
            if isinstance(one, dict | list)
            for below in (one.values() if isinstance(one, dict) else one)
        ]
        count += len(level)
    return count


def _operated(document: Any, operation: Document) -> Any:
    kind = operation.get("op")
    path = _pointer(operation, "path")
    if kind == "add":
        return _put(document, path, operation.get("value"), insert=True)
    if kind == "remove":
        return _cut(document, path)
    if kind == "replace":
        # As in the real server, a member that is not there yet may be replaced.
        return _put(document, path, operation.get("value"), insert=False)
    if kind == "test":
        found = _found(document, path)
        if not same_value(None if found is _NOTHING else found, operation.get("value")):
            raise _DoesNotApply(f"testing value {operation['path']} failed")
        return document
    if kind not in ("move", "copy"):
        raise _DoesNotApply(f"Unexpected kind: {kind}")
    start = _pointer(operation, "from")
    value = _found(document, start)
    if value is _NOTHING:
        raise _DoesNotApply(f"{kind} operation does not apply: doc is missing from path: {operation['from']}")
    if kind == "move":
        if len(path) > len(start) and path[: len(start)] == start:
            raise _DoesNotApply("a value cannot be moved into itself")
        document = _cut(document, start)
    return _put(document, path, value, insert=True)


def _pointer(operation: Document, name: str) -> tuple[str, ...]:
    text = operation.get(name)
    if not isinstance(text, str):
        raise _DoesNotApply(f"operation missing {name} field")
    if not text:
        return ()
    if text.count("/") > DEEPEST:
        raise _DoesNotApply(f"a path of more than {DEEPEST} parts")
    # Whether the first character is a slash is not looked at, by the real server either.
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:])


def _index(items: Sequence[Any], text: str, *, end: int) -> int:
    """Which item; negative ones count from the end, as the real server has it."""
    if not re.fullmatch(r"-?\d+", text):
        raise _DoesNotApply(f"value was not a proper array index: '{text}'")
    index = int(text)
    if index < 0:
        index += end
    if not 0 <= index < end:
        raise _DoesNotApply(f"Unable to access invalid index: {text}")
    return index


def _found(document: Any, path: Sequence[str]) -> Any:
    for depth, name in enumerate(path):
        if isinstance(document, dict):
            if name not in document:
                if depth == len(path) - 1:
                    return _NOTHING
                raise _DoesNotApply(f"doc is missing path: {'/'.join(path)}")
            document = document[name]
        elif isinstance(document, list):
            document = document[_index(document, name, end=len(document))]
        else:
            raise _DoesNotApply(f"doc is missing path: {'/'.join(path)}")
    return document


def _put(document: Any, path: Sequence[str], value: Any, *, insert: bool) -> Any:
    if not path:
        return value
    name, *rest = path
    if isinstance(document, dict):
        if rest and name not in document:
            raise _DoesNotApply(f"doc is missing path: {name}")
        return {**document, name: _put(document[name], rest, value, insert=insert) if rest else value}
    if not isinstance(document, list):
        raise _DoesNotApply(f"doc is missing path: {name}")
    items = list(document)
    if rest or not insert:
        index = _index(items, name, end=len(items))
        items[index] = _put(items[index], rest, value, insert=insert)
    elif name == "-":
        items.append(value)
    else:
        items.insert(_index(items, name, end=len(items) + 1), value)
    return items


def _cut(document: Any, path: Sequence[str]) -> Any:
    if not path:
        raise _DoesNotApply("the whole document cannot be removed")
    name, *rest = path
    if isinstance(document, dict):
        if name not in document:
            raise _DoesNotApply(f"Unable to remove nonexistent key: {name}")
        if rest:
            return {**document, name: _cut(document[name], rest)}
        return {key: value for key, value in document.items() if key != name}
    if not isinstance(document, list):
        raise _DoesNotApply(f"doc is missing path: {name}")
    index = _index(document, name, end=len(document))
    if rest:
        return [*document[:index], _cut(document[index], rest), *document[index + 1 :]]
    return [*document[:index], *document[index + 1 :]]
