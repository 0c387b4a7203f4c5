"""Numbers as jq has them: doubles, of which the whole ones up to 2**53 are kept as int.

jq remembers how a number was written, and prints and compares it by that; which versions do so where differs. So the
language takes only numbers that mean the same either way, and refuses the others where they are used: whole ones beyond
2**53 that come from a document, texts that jq would print otherwise, negative zero and powers of ten when printed.
"""

import math
import re
from typing import Any

from muster.api.documents import shown
from muster.errors import BadExpression, BadValue, Refused

Number = int | float
NUMBERS = (int, float)

# Whole numbers up to here are exact.
EXACT = 2**53

_JSON_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
# What some version of jq takes for a number in a text.
_LOOSE_NUMBER = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|[-+]?(?:nan[0-9]*|inf|infinity)")
_LONGEST = 400


def read_number(text: str, column: int) -> Number:
    """The number that is written in an expression."""
    number = _plain_number(text)
    if number is None:
        raise BadExpression(f"`{text[:40]}` is not the plain form of the number", column, _written_better(text))
    return number


def number_of(text: str, column: int) -> Number:
    """The number that a string holds: `tonumber`."""
    if not _LOOSE_NUMBER.fullmatch(text.strip(" \t\r\n").lower()):
        raise BadValue(f"{shown(text)} is not a number", column, "for example 4 or 0.5")
    number = _plain_number(text)
    if number is None:
        raise Refused(f"{shown(text)} is not the plain form of a number", column, _written_better(text))
    return number


def _plain_number(text: str) -> Number | None:
    """The number, if jq prints it as the text has it."""
    if len(text) > _LONGEST or not _JSON_NUMBER.fullmatch(text):
        return None
    number = float(text)
    if not math.isfinite(number):
        return None
    settled_number = settled(number, 0)
    return settled_number if plain_text(settled_number) == text else None


def _written_better(text: str) -> str:
    number = float(text) if len(text) <= _LONGEST and _JSON_NUMBER.fullmatch(text.strip()) else math.nan
    better = plain_text(settled(number, 0)) if math.isfinite(number) else None
    return f"write it as {better}" if better else "write digits and at most one point, within 2**53"


def plain_text(number: Number) -> str | None:
    """How every version of jq prints it, if they agree."""
    if isinstance(number, int):
        return str(number) if -EXACT <= number <= EXACT else None
    if number.is_integer() and abs(number) <= EXACT:
        return None if number == 0 and math.copysign(1, number) < 0 else str(int(number))
    text = repr(float(number))
    return None if "e" in text or "n" in text or number.is_integer() else text


def exact(number: Number, column: int) -> Number:
    """The number, if a double holds it."""
    if isinstance(number, int):
        if -EXACT <= number <= EXACT:
            return number
        raise Refused(
            "a whole number beyond 2**53 can only be passed on", column, "versions of jq round it differently"
        )
    if math.isfinite(number):
        return number
    raise Refused(f"{number} is no number of JSON", column, "only finite numbers can be used")


def settled(number: Number, column: int) -> Number:
    """The result of an operation: a double, as int where it is whole and exact."""
    if isinstance(number, int):
        return number if -EXACT <= number <= EXACT else settled(float(number), column)
    if number.is_integer():
        # Negative zero stays what it is.
        return int(number) if -EXACT <= number <= EXACT and (number or math.copysign(1, number) > 0) else number
    if math.isfinite(number):
        return number
    raise Refused("the number is too large for a double", column, "versions of jq print it differently")


def add(one: Number, other: Number, column: int) -> Number:
    """`+` of numbers."""
    return settled(exact(one, column) + exact(other, column), column)


def subtract(one: Number, other: Number, column: int) -> Number:
    """`-` of numbers."""
    return settled(exact(one, column) - exact(other, column), column)


def multiply(one: Number, other: Number, column: int) -> Number:
    """`*` of numbers. Doubles know a negative zero, integers do not."""
    product = exact(one, column) * exact(other, column)
    return settled(product or float(one) * float(other), column)


def divide(one: Number, other: Number, column: int) -> Number:
    """`/` of numbers."""
    if exact(other, column) == 0:
        raise BadValue(f"can't divide {_text(one)} by zero", column, "test the divisor first")
    return settled(exact(one, column) / other, column)


def remainder(one: Number, other: Number, column: int) -> Number:
    """`%`: of the whole parts, with the sign of the left side."""
    dividend, divisor = math.trunc(exact(one, column)), math.trunc(exact(other, column))
    if divisor == 0:
        raise BadValue(f"can't divide {_text(one)} by zero", column, "test the divisor first")
    if max(abs(dividend), abs(divisor)) > EXACT:
        raise Refused("`%` needs numbers within 2**53", column, "versions of jq round larger ones differently")
    rest = abs(dividend) % abs(divisor)
    return -rest if dividend < 0 else rest


def negate(number: Number, column: int) -> Number:
    """`-` of one number. Minus zero is a negative zero in some versions: it can't be printed."""
    return -exact(number, column) or -0.0


def rounded(number: Number, up: bool, column: int) -> Number:
    """`ceil` or `floor`."""
    if type(exact(number, column)) is int:
        return number
    whole = float(math.ceil(number) if up else math.floor(number))
    return settled(math.copysign(whole, number) if whole == 0 else whole, column)


def as_count(value: Any, column: int = 0) -> int:
    """The value as a count of things: a whole number that is not negative."""
    if type(value) in NUMBERS and math.isfinite(value) and value == math.floor(value) and 0 <= value <= EXACT:
        return int(value)
    hint = "add `| tonumber`" if type(value) is str and _LOOSE_NUMBER.fullmatch(value) else "for example .spec.replicas"
    raise BadValue(f"{shown(value)} is not a count: a whole number, 0 or more", column, hint)


def _text(number: Number) -> str:
    return plain_text(number) or "a number"
