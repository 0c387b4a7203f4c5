"""Durations against a second reading in exact fractions, and against the pattern that the CRDs carry."""

import re
from fractions import Fraction

from hypothesis import assume, given
from hypothesis import strategies as st

from muster.api import duration
from muster.api.queue import QueueSpec
from muster.api.schema import form_of
from muster.errors import BadObject

UNITS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
PATTERN = form_of(QueueSpec).fields["preemptMinRuntime"].notes["pattern"]

digits = st.text("0123456789", min_size=1, max_size=7)
numbers = st.one_of(digits, st.builds("{}.{}".format, digits, digits), st.builds(".{}".format, digits))
parts = st.lists(st.tuples(numbers, st.sampled_from(sorted(UNITS))), min_size=1, max_size=3)
signs = st.sampled_from(["", "+", "-"])


def parsed(text: str) -> int | None:
    try:
        return duration.parse_ns(text)
    except BadObject:
        return None


@given(signs, parts)
def test_is_the_sum_of_its_parts(sign: str, found: list[tuple[str, str]]) -> None:
    """Every part is cut to whole nanoseconds, and the sign counts for all of them."""
    text = sign + "".join(number + unit for number, unit in found)
    total = sum(int(Fraction("0" + number) * UNITS[unit]) for number, unit in found)
    assume(total < 2**63)
    assert duration.parse_ns(text) == (-total if sign == "-" else total)


@given(st.one_of(st.text(), st.text("0123456789.+-nuµsmh", max_size=64)))
def test_agrees_with_the_pattern_of_the_crds(text: str) -> None:
    """What the pattern refuses is no duration; what it lets through is one, unless it does not fit in int64."""
    found = parsed(text)
    if re.fullmatch(PATTERN, text) is None:
        assert found is None
    else:
        assert found is not None or re.search("[0-9]{7}", text)


@given(signs, parts, st.characters())
def test_nothing_stands_around_it(sign: str, found: list[tuple[str, str]], character: str) -> None:
    """A character before, or one that is no digit or unit behind, makes it something else."""
    text = sign + "".join(number + unit for number, unit in found)
    assert parsed(text + character) is None or (character == "s" and text.endswith(("n", "u", "µ", "μ", "m")))
    assert parsed(character + text) is None or character in "+-.0123456789"
