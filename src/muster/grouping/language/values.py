"""Values of JSON as jq sees them: what is true, what kinds there are, their order, their equality and their text.

What walks into values is metered, and stops at a depth that no document has.
"""

import json
from typing import Any

from muster.api.documents import shown
from muster.errors import BadValue, Refused
from muster.grouping.language.limits import Meter
from muster.grouping.language.numbers import NUMBERS, exact, plain_text

KINDS: dict[type, str] = {
    type(None): "null",
    bool: "boolean",
    int: "number",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}
_RANKS = {kind: rank for rank, kind in enumerate(("null", "boolean", "number", "string", "array", "object"))}
# jq prints no deeper than 256.
_DEEPEST = 200


def truthy(value: Any) -> bool:
    """Everything but null and false."""
    return value is not None and value is not False


def described(value: Any) -> str:
    """A value in a sentence: its kind, and what it is when that is short."""
    kind = KINDS[type(value)]
    if kind in ("array", "object"):
        return f"an {kind}"
    return "null" if value is None else f"the {kind} {shown(value)}"


def index(value: Any, key: Any, column: int) -> Any:
    """`value[key]`"""
    kind, by = type(value), type(key)
    if by is str and kind is dict:
        return value.get(key)
    if value is None and (by is str or by in NUMBERS):
        return None
    if by in NUMBERS and kind is list:
        if by is float and not key.is_integer():
            raise Refused(f"{key} is no index", column, "count in whole numbers; floor and ceil make them")
        place = int(key)
        return value[place] if -len(value) <= place < len(value) else None
    if value is None or by is list or by is dict:
        hint = "versions of jq differ, or take a part; use names and whole numbers"
        raise Refused(f"{described(key)} is no index of {described(value)}", column, hint)
    if by is str:
        hint = "add ? where it may be something else"
        raise BadValue(f"can't read {shown(key)} of {described(value)}", column, hint)
    raise BadValue(f"{described(key)} is no index of {described(value)}", column, "objects have names, arrays numbers")


def items(value: Any, meter: Meter, column: int) -> Any:
    """What `[]` goes over: the items of an array, the values of an object."""
    if type(value) is list:
        meter.visit(len(value), column)
        return value
    if type(value) is dict:
        meter.visit(len(value), column)
        return value.values()
    hint = "write []? where it may be missing" if value is None else "[] is for arrays and objects"
    raise BadValue(f"can't go over {described(value)}", column, hint)


def equal(one: Any, other: Any, meter: Meter, column: int) -> bool:
    """`==`: the same kind and the same content."""
    if type(one) is not list and type(one) is not dict:
        return _same(one, other, meter, column)
    waiting = [(one, other)]
    while waiting:
        one, other = waiting.pop()
        kind = type(one)
        if kind is not list and kind is not dict:
            if not _same(one, other, meter, column):
                return False
        elif one is not other:
            if kind is not type(other) or len(one) != len(other) or (kind is dict and set(one) != set(other)):
                return False
            meter.visit(len(one), column)
            waiting.extend((one[key], other[key]) for key in (one if kind is dict else range(len(one))))
    return True


def _same(one: Any, other: Any, meter: Meter, column: int) -> bool:
    """`==` for what has no parts."""
    kind, other_kind = type(one), type(other)
    if kind in NUMBERS and other_kind in NUMBERS:
        return bool(exact(one, column) == exact(other, column))
    if kind is not other_kind:
        return False
    if kind is str:
        meter.read(one, column)
    return bool(one == other)


def order(one: Any, other: Any, meter: Meter, column: int, depth: int = 0) -> int:
    """Less than 0, 0 or more than 0: null, false, true, numbers, strings, arrays, objects."""
    kind = KINDS[type(one)]
    by_kind = _RANKS[kind] - _RANKS[KINDS[type(other)]]
    if by_kind:
        return by_kind
    if kind == "number":
        exact(one, column), exact(other, column)
    if kind == "string":
        meter.read(one, column)
    if kind not in ("array", "object"):
        return 0 if one is None else (one > other) - (one < other)
    if one is other:
        return 0
    meter.visit(len(one) + len(other), column)
    depth = deeper(depth, column)
    pairs = zip(one, other, strict=False)
    if kind == "object":
        names, other_names = sorted(one), sorted(other)
        if names != other_names:
            return 1 if names > other_names else -1
        pairs = ((one[name], other[name]) for name in names)  # type: ignore[assignment]
    for a, b in pairs:
        found = order(a, b, meter, column, depth)
        if found:
            return found
    return len(one) - len(other)


def text_of(value: Any, meter: Meter, column: int) -> str:
    """`tostring`: a string as it is, everything else as compact JSON."""
    if type(value) is str:
        return value
    if type(value) is int:
        return _number_text(value, column)
    parts: list[str] = []
    _write(value, parts, meter, column, 0)
    return "".join(parts)


def _write(value: Any, parts: list[str], meter: Meter, column: int, depth: int) -> None:
    """Appends the JSON text of a value. Every part is charged before the whole is put together."""
    kind = type(value)
    if kind is list or kind is dict:
        meter.visit(len(value), column)
        depth = deeper(depth, column)
        parts.append("[" if kind is list else "{")
        for place, item in enumerate(value):
            if place:
                parts.append(",")
            if kind is dict:
                _write(item, parts, meter, column, depth)
                parts.append(":")
                item = value[item]  # noqa: PLW2901
            _write(item, parts, meter, column, depth)
        parts.append("]" if kind is list else "}")
        meter.make(2 * len(value) + 2, column)
        return
    if kind is str:
        text = json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    elif value is None or kind is bool:
        text = json.dumps(value)
    else:
        text = _number_text(value, column)
    meter.make(len(text), column)
    parts.append(text)


def _number_text(number: int | float, column: int) -> str:
    text = plain_text(exact(number, column))
    if text is None:
        raise Refused(f"versions of jq print {number} differently", column, "use floor, or compare instead of printing")
    return text


def measure(value: Any, meter: Meter, column: int) -> None:
    """Charges a result as large as it is when it is written out, parts that are there several times as often."""
    waiting = [value]
    while waiting:
        found = waiting.pop()
        if type(found) is str:
            meter.make(len(found), column)
        elif type(found) is list:
            meter.visit(len(found), column)
            waiting.extend(found)
        elif type(found) is dict:
            meter.visit(len(found), column)
            waiting.extend(found.values())


def deeper(depth: int, column: int) -> int:
    """One level down in a value."""
    if depth >= _DEEPEST:
        raise Refused(f"a value is nested deeper than {_DEEPEST} levels", column, "compare and print parts of it")
    return depth + 1
