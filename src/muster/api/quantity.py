"""Kubernetes quantities as exact integers: `500m` of cpu is 500 millicores, `8Gi` of memory is 2**33 bytes.

The rules are those of resource.Quantity: an optional sign, decimal digits, then a binary suffix, a decimal suffix or a
decimal exponent; anything finer than a nano is rounded away from zero. Amounts that do not fit in int64 saturate.
"""

import re
from functools import lru_cache

from muster.api.model import Amount
from muster.errors import BadObject

INT64_MAX = 2**63 - 1
INT64_MIN = -(2**63)

_NANOS = 10**9
_FORM = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?"
    r"(?P<suffix>Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E|)(?:[eE](?P<exponent>[+-]?[0-9]+))?"
)
_BINARY = {suffix: 1024**power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
# Without digits a quantity is 0, but these (and exponents under -9) are not read without: so it is in Kubernetes.
_NEEDS_DIGITS = ("Pi", "Ei")
# No quantity of a sane object is longer; the limit keeps hostile digits from costing anything.
_MAX_LENGTH = 256
# A power of ten beyond which every non-zero mantissa saturates, or vanishes below a nano.
_FAR = 600


def parse(amount: Amount) -> int:
    """The amount in nano-units, rounded away from zero. Raises BadObject when it is no quantity."""
    if isinstance(amount, bool):
        raise BadObject("", f"{amount} is not a quantity")
    if isinstance(amount, int):
        return amount * _NANOS
    return _parse(amount if isinstance(amount, str) else repr(amount))


@lru_cache(maxsize=4096)
def _parse(text: str) -> int:
    form = _FORM.fullmatch(text) if 0 < len(text) <= _MAX_LENGTH else None
    if form is None or (form["suffix"] and form["exponent"]):
        raise _not_a_quantity(text)
    suffix, fraction = form["suffix"], form["part"] or ""
    digits = form["whole"] + fraction
    power, factor = int(form["exponent"] or _DECIMAL.get(suffix, 0)), _BINARY.get(suffix, 1)
    if not INT64_MIN <= power <= INT64_MAX or (not digits and (power < -9 or suffix in _NEEDS_DIGITS)):
        raise _not_a_quantity(text)
    power = max(-_FAR, min(_FAR, power - len(fraction) + 9))
    nanos: int = int(digits or "0") * factor
    ten: int = 10 ** abs(power)
    nanos = nanos * ten if power >= 0 else -(-nanos // ten)
    return -nanos if form["sign"] == "-" else nanos


def _not_a_quantity(text: str) -> BadObject:
    return BadObject("", f"{text[:40]!r} is not a quantity", "write it as 500m, 2, 1.5 or 8Gi")


def milli(amount: Amount) -> int:
    """Thousandths, rounded away from zero: how cpu is counted."""
    return _scaled(parse(amount), 10**6)


def whole(amount: Amount) -> int:
    """Whole units, rounded away from zero: how everything but cpu is counted."""
    return _scaled(parse(amount), _NANOS)


def base_units(resource: str, amount: Amount) -> int:
    """The amount of `resource` in its base unit: millicores for cpu, bytes or pieces for everything else."""
    return milli(amount) if resource == "cpu" else whole(amount)


def held_units(resource: str, amount: Amount) -> int:
    """What somebody has of `resource`, in its base unit: a part of a unit is nobody's."""
    unit = 10**6 if resource == "cpu" else _NANOS
    nanos = parse(amount)
    return _scaled(nanos - nanos % unit if nanos > 0 else nanos, unit)


def _scaled(nanos: int, unit: int) -> int:
    units = -(-nanos // unit) if nanos >= 0 else nanos // unit
    return max(INT64_MIN, min(INT64_MAX, units))
