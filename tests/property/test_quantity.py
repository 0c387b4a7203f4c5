"""Quantities against a second reading of the documented grammar in exact fractions."""

import math
import re
import time
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api import quantity
from muster.errors import BadObject

INT64_MAX, INT64_MIN = 2**63 - 1, -(2**63)
BINARY = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]
DECIMAL = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"]
FACTORS = {suffix: Fraction(2) ** (10 * power) for power, suffix in enumerate(BINARY, start=1)} | {
    suffix: Fraction(10) ** (3 * power) for power, suffix in enumerate(DECIMAL, start=-3)
}

digits = st.text("0123456789", min_size=1, max_size=24)
numbers = st.one_of(
    digits,
    st.builds("{}.{}".format, digits, digits),
    st.builds("{}.".format, digits),
    st.builds(".{}".format, digits),
)
signs = st.sampled_from(["", "", "+", "-"])
exponents = st.builds("{}{}{}".format, st.sampled_from("eE"), signs, st.integers(0, 40))
texts = st.builds("{}{}{}".format, signs, numbers, st.one_of(st.sampled_from(sorted(FACTORS)), exponents))


def away_from_zero(exact: Fraction) -> int:
    return math.ceil(exact) if exact > 0 else math.floor(exact)


def meaning(text: str) -> Fraction:
    """<signedNumber><suffix>, rounded to a nano."""
    number, suffix = re.fullmatch(r"([-+]?[0-9.]+)(.*)", text).groups()
    whole, _, part = number.lstrip("+-").partition(".")
    exact = sum(Fraction(int(digit), 10**place) for place, digit in enumerate(part, start=1)) + int(whole or "0")
    exact *= FACTORS[suffix] if suffix in FACTORS else Fraction(10) ** int(suffix[1:])
    return Fraction(away_from_zero((-exact if number[0] == "-" else exact) * 10**9), 10**9)


def saturated(amount: int) -> int:
    return max(INT64_MIN, min(INT64_MAX, amount))


@given(texts)
def test_means_what_the_grammar_says(text: str) -> None:
    """Nanos are exact, and thousandths and whole units are the nanos rounded away from zero, within int64."""
    exact = meaning(text)
    assert quantity.parse(text) == exact * 10**9
    assert quantity.milli(text) == saturated(away_from_zero(exact * 1000))
    assert quantity.whole(text) == saturated(away_from_zero(exact))


@given(texts, texts)
def test_keeps_the_order(one: str, other: str) -> None:
    """The larger amount is never counted as less."""
    low, high = sorted([one, other], key=meaning)
    assert quantity.parse(low) <= quantity.parse(high)
    assert quantity.milli(low) <= quantity.milli(high)
    assert quantity.whole(low) <= quantity.whole(high)


@given(st.one_of(st.integers(-(10**40), 10**40), st.floats(allow_nan=False, allow_infinity=False, width=64)))
def test_a_number_is_its_text(number: float) -> None:
    """A number without quotes means the same as with quotes."""
    assert quantity.milli(number) == quantity.milli(str(number))
    assert quantity.whole(number) == quantity.whole(str(number))


@given(st.sampled_from(["", "-"]), st.integers(1, 9), st.integers(19, 10**18), st.integers(0, 10**18))
def test_saturates_both_ways(sign: str, digit: int, large: int, small: int) -> None:
    """However large the exponent, the amount is a bound of int64; however small, it is never nothing."""
    bound, least = (INT64_MIN, -1) if sign else (INT64_MAX, 1)
    assert quantity.milli(f"{sign}{digit}e{large}") == quantity.whole(f"{sign}{digit}e{large}") == bound
    assert quantity.milli(f"{sign}{digit}e-{small + 4}") == quantity.whole(f"{sign}{digit}e-{small + 4}") == least


def read(text: str) -> int | BadObject:
    try:
        return quantity.whole(text)
    except BadObject as refused:
        return refused


@given(st.one_of(st.text(), st.text("0123456789.+-eEinumkKMGTP", max_size=12)))
def test_refuses_or_reads_and_nothing_else(text: str) -> None:
    """Arbitrary text is an int64, or BadObject with a message that can be printed."""
    found = read(text)
    if isinstance(found, BadObject):
        assert found.message.isprintable()
    else:
        assert re.fullmatch(r"[-+]?[0-9]*\.?[0-9]*([KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]+)?", text)
        assert INT64_MIN <= found <= INT64_MAX


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("9" * 1_000_000, id="million-digits"),
        pytest.param("0." + "0" * 1_000_000 + "1", id="million-zeros"),
        pytest.param("1e" + "9" * 250, id="long-exponent"),
        pytest.param("1e-1000000000", id="huge-negative-exponent"),
        pytest.param("1e9223372036854775807", id="huge-exponent"),
        pytest.param("9" * 200 + "e" + "9" * 18, id="both"),
    ],
)
def test_hostile_digits_cost_nothing(text: str) -> None:
    """Long digits and huge exponents are read or refused at once (some hang Kubernetes' own parser)."""
    start = time.process_time()
    found = read(text)
    assert time.process_time() - start < 1
    assert len(found.message) < 100 if isinstance(found, BadObject) else found in (1, INT64_MAX)
