"""The functions that give one value for one input, with at most one argument. The others are part of the compiler."""

import math
from collections.abc import Callable, Iterator
from typing import Any

from muster.errors import BadValue, Refused
from muster.grouping.language import numbers
from muster.grouping.language.limits import Meter, over
from muster.grouping.language.numbers import NUMBERS, exact, number_of, settled
from muster.grouping.language.operators import plus, split
from muster.grouping.language.values import KINDS, described, equal, index, items, order, text_of, truthy

_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}


def length(value: Any, meter: Meter, column: int) -> Any:
    """Characters, items or fields; of a number its amount without sign; 0 of null."""
    if value is None:
        return 0
    if type(value) in NUMBERS:
        return settled(abs(exact(value, column)), column)
    if type(value) is bool:
        raise BadValue("a boolean has no length", column, "`type` tells what a value is")
    return len(value)


def add(value: Any, meter: Meter, column: int) -> Any:
    """The sum of all items; null of none."""
    found = items(value, meter, column)
    kinds = {type(item) for item in found}
    if kinds == {str} or kinds == {list}:
        meter.make(sum(len(item) for item in found), column)
        return "".join(found) if kinds == {str} else [item for part in found for item in part]
    total = None
    for item in found:
        total = plus(total, item, meter, column)
    return total


def least(value: Any, meter: Meter, column: int) -> Any:
    """`min`: the first of the smallest items."""
    found = _array(value, meter, column)
    best = found[0] if found else None
    for item in found:
        if order(item, best, meter, column) < 0:
            best = item
    return best


def most(value: Any, meter: Meter, column: int) -> Any:
    """`max`: the last of the largest items."""
    found = _array(value, meter, column)
    best = found[0] if found else None
    for item in found:
        if order(item, best, meter, column) >= 0:
            best = item
    return best


def _array(value: Any, meter: Meter, column: int) -> list[Any]:
    if type(value) is not list:
        raise BadValue(f"{described(value)} has no smallest and largest item", column, "put it in [ … ]")
    meter.visit(len(value), column)
    return value


def keys(value: Any, meter: Meter, column: int) -> list[Any]:
    """The names of an object in order, the places of an array."""
    return sorted(_names(value, meter, column)) if type(value) is dict else list(_names(value, meter, column))


def to_entries(value: Any, meter: Meter, column: int) -> list[Any]:
    """`{"key": …, "value": …}` for each field, in the order of the document."""
    return [{"key": key, "value": value[key]} for key in _names(value, meter, column)]


def _names(value: Any, meter: Meter, column: int) -> Any:
    if type(value) is not dict and type(value) is not list:
        hint = "add `// []` where it may be missing" if value is None else "keys are of objects and arrays"
        raise BadValue(f"{described(value)} has no keys", column, hint)
    meter.visit(len(value), column)
    meter.make(len(value), column)
    return value if type(value) is dict else range(len(value))


def first(value: Any, meter: Meter, column: int) -> Any:
    """`.[0]`"""
    return index(value, 0, column)


def any_item(value: Any, meter: Meter, column: int) -> bool:
    """`any`"""
    return any(truthy(item) for item in items(value, meter, column))


def all_items(value: Any, meter: Meter, column: int) -> bool:
    """`all`"""
    return all(truthy(item) for item in items(value, meter, column))


def kind(value: Any, meter: Meter, column: int) -> str:
    """`type`"""
    return KINDS[type(value)]


def negation(value: Any, meter: Meter, column: int) -> bool:
    """`not`"""
    return value is None or value is False


def tonumber(value: Any, meter: Meter, column: int) -> Any:
    """The number in a string; a number as it is."""
    if type(value) in NUMBERS:
        return value
    if type(value) is str:
        meter.read(value, column)
        return number_of(value, column)
    raise BadValue(f"{described(value)} is not a number", column, "strings can be made numbers")


def ascii_downcase(value: Any, meter: Meter, column: int) -> str:
    """A to Z become a to z."""
    if type(value) is not str:
        raise BadValue(f"{described(value)} is not a string", column, "`tostring` makes one")
    meter.make(len(value), column)
    return value.translate(_LOWER)


def floor(value: Any, meter: Meter, column: int) -> Any:
    """The whole number below."""
    return _rounded(value, False, column)


def ceil(value: Any, meter: Meter, column: int) -> Any:
    """The whole number above."""
    return _rounded(value, True, column)


def _rounded(value: Any, up: bool, column: int) -> Any:
    if type(value) not in NUMBERS:
        raise BadValue(f"{described(value)} is not a number", column, "`tonumber` reads one from a string")
    return numbers.rounded(value, up, column)


def has(value: Any, key: Any, meter: Meter, column: int) -> bool:
    """Whether there is a field or item of this name or place."""
    if value is None:
        return False
    if type(value) is dict and type(key) is str:
        return key in value
    if type(value) is list and type(key) in NUMBERS:
        if key != int(exact(key, column)):
            raise Refused(f"{key} is no index", column, "count in whole numbers; floor and ceil make them")
        return bool(0 <= key < len(value))
    raise BadValue(f"{described(value)} can't have {described(key)}", column, "objects have names, arrays numbers")


def place(value: Any, wanted: Any, meter: Meter, column: int) -> int | None:
    """`index`: where the wanted string or item is for the first time; null if it is nowhere."""
    if type(value) is list and type(wanted) is not list:
        for at, item in enumerate(items(value, meter, column)):
            if equal(item, wanted, meter, column):
                return at
        return None
    if type(value) is str and type(wanted) is str:
        meter.read(value, column)
        found = value.find(wanted) if wanted else -1
        if not value[: max(found, 0)].isascii():
            raise Refused("versions of jq count letters beyond ASCII differently", column, "use split, or compare")
        return None if found < 0 else found
    if value is None and (type(wanted) is str or type(wanted) in NUMBERS):
        return None
    if type(value) is list or type(value) is dict or value is None:
        what = "an array in an array" if type(value) is list else f"anything in {described(value)}"
        raise Refused(f"`index` does not look for {what}", column, "use `any( … ; . == $x)`, or `has`")
    raise BadValue(f"can't look for {described(wanted)} in {described(value)}", column, "look in arrays and strings")


def startswith(value: Any, part: Any, meter: Meter, column: int) -> bool:
    """Whether a string starts with another."""
    return _string(value, part, meter, column).startswith(part)


def endswith(value: Any, part: Any, meter: Meter, column: int) -> bool:
    """Whether a string ends with another."""
    return _string(value, part, meter, column).endswith(part)


def _string(value: Any, part: Any, meter: Meter, column: int) -> str:
    if type(value) is not str or type(part) is not str:
        raise BadValue(f"can't look for {described(part)} in {described(value)}", column, "both must be strings")
    meter.read(part, column)
    return value


def ltrimstr(value: Any, part: Any, meter: Meter, column: int) -> str:
    """A string without what it starts with."""
    return _trimmed(value, part, meter, column).removeprefix(part)


def rtrimstr(value: Any, part: Any, meter: Meter, column: int) -> str:
    """A string without what it ends with."""
    return _trimmed(value, part, meter, column).removesuffix(part)


def _trimmed(value: Any, part: Any, meter: Meter, column: int) -> str:
    if type(value) is not str or type(part) is not str:
        hint = "versions of jq differ; test `type` first"
        raise Refused(f"can't trim {described(part)} from {described(value)}", column, hint)
    meter.make(len(value), column)
    return value


def join(value: Any, between: Any, meter: Meter, column: int) -> str:
    """The items as one string; null is empty."""
    if type(between) is not str:
        raise Refused(f"can't join with {described(between)}", column, "join with a string")
    parts: list[str] = []
    for item in items(value, meter, column):
        if type(item) is list or type(item) is dict:
            raise BadValue(f"can't join {described(item)}", column, "`map(tostring)` makes strings")
        parts.append("" if item is None else text_of(item, meter, column))
        meter.make(len(parts[-1]) + len(between), column)
    return between.join(parts)


def numbers_in_range(start: Any, end: Any, by: Any, meter: Meter, column: int) -> Iterator[Any] | range:
    """`range`: from `start` as long as it is before `end`, which must not be too many."""
    if by == 0:
        return range(0)
    steps = (end - start) / by
    if not steps <= meter.limits.range:
        over("asks for a range that is too long", "range", meter.limits, column)
    meter.visit(math.ceil(max(0, steps)), column)
    if type(start) is type(end) is type(by) is int:
        return range(start, end, by)
    return _fractions(start, end, by, column)


def _fractions(at: Any, end: Any, by: Any, column: int) -> Iterator[Any]:
    while at < end if by > 0 else at > end:
        yield at
        following = numbers.add(at, by, column)
        if following == at:
            raise Refused("the range does not move", column, "versions of jq would never end")
        at = following


def range_bounds(bounds: tuple[Any, ...], column: int) -> None:
    """Raises when these are not numbers that a range can go over."""
    for bound in bounds:
        if type(bound) not in NUMBERS:
            problem = BadValue if len(bounds) < 3 else Refused
            raise problem(f"a range can't use {described(bound)}", column, "its bounds are numbers")
        exact(bound, column)


NULLARY: dict[str, Callable[[Any, Meter, int], Any]] = {
    "length": length,
    "add": add,
    "min": least,
    "max": most,
    "keys": keys,
    "to_entries": to_entries,
    "first": first,
    "any": any_item,
    "all": all_items,
    "type": kind,
    "not": negation,
    "tonumber": tonumber,
    "tostring": text_of,
    "ascii_downcase": ascii_downcase,
    "floor": floor,
    "ceil": ceil,
}
UNARY: dict[str, Callable[[Any, Any, Meter, int], Any]] = {
    "has": has,
    "index": place,
    "startswith": startswith,
    "endswith": endswith,
    "ltrimstr": ltrimstr,
    "rtrimstr": rtrimstr,
    "split": split,
    "join": join,
}
