"""Quantities as the real server writes them back: `1000m` is `1`, `0.5Gi` is `512Mi`."""

import re
from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import Any

_FORM = re.compile(r"([+-]?)([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]?|[eE][+-]?[0-9]+)")
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")


def is_quantity(text: str) -> bool:
    """Whether a text can be read as a quantity, however large."""
    return _FORM.fullmatch(text) is not None


@lru_cache(maxsize=4096)
def amount(text: str) -> Fraction | None:
    """The exact value, or None if the text is no quantity."""
    found = _FORM.fullmatch(text)
    if not found:
        return None
    sign, digits, suffix = found.groups()
    value = Fraction(digits if not digits.endswith(".") else digits[:-1])
    if suffix in _BINARY:
        value *= 1024 ** _BINARY.index(suffix)
    elif suffix in _DECIMAL:
        value *= Fraction(1000) ** (_DECIMAL.index(suffix) - 3)
    elif abs(int(suffix[1:])) <= 18:
        value *= Fraction(10) ** int(suffix[1:])
    else:
        return None
    return -value if sign == "-" else value


def canonical(value: Any) -> Any:
    """The quantity as it is kept; what is none is left as it is."""
    text = str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
    return _canonical(text) if isinstance(text, str) else value


@lru_cache(maxsize=4096)
def _canonical(text: str) -> str:
    value = amount(text)
    found = _FORM.fullmatch(text)
    if value is None or not found:
        return text
    if not value:
        return "0"
    suffix = found.group(3)
    if suffix in _BINARY[1:] and abs(value) >= 1024:
        return _scaled(ceil(value), 1024, _BINARY)
    if suffix[:1] in ("e", "E") and len(suffix) > 1:
        number, exponent = ceil(value * 10**9), -9
        while number % 1000 == 0:
            number, exponent = number // 1000, exponent + 3
        return f"{number}e{exponent}" if exponent else str(number)
    return _scaled(ceil(value * 10**9), 1000, _DECIMAL)


def _scaled(number: int, step: int, suffixes: tuple[str, ...]) -> str:
    place = 0
    while number % step == 0 and place < len(suffixes) - 1:
        number, place = number // step, place + 1
    return f"{number}{suffixes[place]}"
