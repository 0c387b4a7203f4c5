"""`+ - * / %` and the comparisons, for every pair of kinds that jq knows them for."""

from collections.abc import Callable
from typing import Any

from muster.errors import BadValue, Refused
from muster.grouping.language import numbers
from muster.grouping.language.limits import Meter
from muster.grouping.language.numbers import NUMBERS
from muster.grouping.language.values import KINDS, described, equal, order

Operator = Callable[[Any, Any, Meter, int], Any]


def plus(one: Any, other: Any, meter: Meter, column: int) -> Any:
    """The sum; null adds nothing; texts and arrays follow each other, objects overwrite."""
    kind, other_kind = type(one), type(other)
    if kind in NUMBERS and other_kind in NUMBERS:
        return numbers.add(one, other, column)
    if one is None:
        return other
    if other is None:
        return one
    if kind is other_kind and (kind is str or kind is list or kind is dict):
        meter.make(len(one) + len(other), column)
        return one | other if kind is dict else one + other
    raise _no_meaning(one, other, "add", column)


def minus(one: Any, other: Any, meter: Meter, column: int) -> Any:
    """The difference; an array without what is in the other."""
    if type(one) in NUMBERS and type(other) in NUMBERS:
        return numbers.subtract(one, other, column)
    if type(one) is list and type(other) is list:
        meter.visit(len(one) * len(other), column)
        meter.make(len(one), column)
        return [item for item in one if not any(equal(item, left_out, meter, column) for left_out in other)]
    raise _no_meaning(one, other, "subtract", column)


def times(one: Any, other: Any, meter: Meter, column: int) -> Any:
    """The product of numbers."""
    if type(one) in NUMBERS and type(other) in NUMBERS:
        return numbers.multiply(one, other, column)
    kinds = {KINDS[type(one)], KINDS[type(other)]}
    if kinds == {"string", "number"}:
        raise Refused("a string is not repeated with `*`", column, "versions of jq differ; build it with \\( … )")
    if kinds == {"object"}:
        raise Refused("objects are not merged with `*`", column, "`+` joins two objects")
    raise _no_meaning(one, other, "multiply", column)


def divided(one: Any, other: Any, meter: Meter, column: int) -> Any:
    """The quotient; a string split at another."""
    if type(one) in NUMBERS and type(other) in NUMBERS:
        return numbers.divide(one, other, column)
    if type(one) is str and type(other) is str:
        return split(one, other, meter, column)
    raise _no_meaning(one, other, "divide", column)


def remainder(one: Any, other: Any, meter: Meter, column: int) -> Any:
    """The remainder of the whole parts."""
    if type(one) in NUMBERS and type(other) in NUMBERS:
        return numbers.remainder(one, other, column)
    raise _no_meaning(one, other, "divide", column)


def split(text: Any, at: Any, meter: Meter, column: int) -> list[str]:
    """The parts of a string between the places where another is in it; its characters when that is empty."""
    if type(text) is not str or type(at) is not str:
        raise BadValue(f"can't split {described(text)} at {described(at)}", column, "both must be strings")
    meter.make(2 * len(text) + 1, column)
    if not text:
        return []
    return text.split(at) if at else list(text)


def _no_meaning(one: Any, other: Any, verb: str, column: int) -> BadValue:
    hint = "add `// 0` where it may be missing" if one is None or other is None else "`type` tells what a value is"
    return BadValue(f"can't {verb} {described(one)} and {described(other)}", column, hint)


def _differ(one: Any, other: Any, meter: Meter, column: int) -> bool:
    return not equal(one, other, meter, column)


def _less(one: Any, other: Any, meter: Meter, column: int) -> bool:
    return order(one, other, meter, column) < 0


def _at_most(one: Any, other: Any, meter: Meter, column: int) -> bool:
    return order(one, other, meter, column) <= 0


def _more(one: Any, other: Any, meter: Meter, column: int) -> bool:
    return order(one, other, meter, column) > 0


def _at_least(one: Any, other: Any, meter: Meter, column: int) -> bool:
    return order(one, other, meter, column) >= 0


OPERATORS: dict[str, Operator] = {
    "+": plus,
    "-": minus,
    "*": times,
    "/": divided,
    "%": remainder,
    "==": equal,
    "!=": _differ,
    "<": _less,
    "<=": _at_most,
    ">": _more,
    ">=": _at_least,
}
