"""Durations: a table of what Go's time.ParseDuration answers."""

import pytest

from muster.api import duration
from muster.errors import BadObject

# Go 1.26: the text, and its nanoseconds.
READ = {
    "0": 0,
    "+0": 0,
    "-0": 0,
    "0s": 0,
    "00s": 0,
    "1ns": 1,
    "1us": 1_000,
    "1µs": 1_000,
    "1μs": 1_000,
    "1ms": 1_000_000,
    "1s": 1_000_000_000,
    "1m": 60_000_000_000,
    "1h": 3_600_000_000_000,
    "30s": 30_000_000_000,
    "5m": 300_000_000_000,
    "90s": 90_000_000_000,
    "1h30m": 5_400_000_000_000,
    "-1s": -1_000_000_000,
    "+1.5h": 5_400_000_000_000,
    "-1.5h": -5_400_000_000_000,
    ".5s": 500_000_000,
    "5.s": 5_000_000_000,
    "0.5ns": 0,
    "1.9ns": 1,
    "0.1us": 100,
    "1.0000000009s": 1_000_000_000,
    "1h1m1s1ms1us1ns": 3_661_001_001_001,
    "1m1h": 3_660_000_000_000,
    "1s1s": 2_000_000_000,
    "001s": 1_000_000_000,
    "10.50m": 630_000_000_000,
    "-.5h": -1_800_000_000_000,
    "2562047h47m16.854775807s": 9_223_372_036_854_775_807,
    "9223372036854775807ns": 9_223_372_036_854_775_807,
    "-9223372036854775808ns": -9_223_372_036_854_775_808,
    "-2562047h47m16.854775808s": -9_223_372_036_854_775_808,
    "0.000000001s": 1,
    "0.0000000001s": 0,
    "100000000000000000ns": 100_000_000_000_000_000,
    "1000000h": 3_600_000_000_000_000_000,
    "0h0m0s": 0,
}
REFUSED = [
    "",
    "+",
    "-",
    "1",
    "00",
    "1.5",
    ".",
    "s",
    ".s",
    "-.s",
    "1 s",
    " 1s",
    "1s ",
    "1s\n",
    "1d",
    "1w",
    "1y",
    "1S",
    "1H",
    "1sec",
    "1min",
    "1hs",
    "1sm",
    "1s1",
    "1s-1s",
    "--1s",
    "+-1s",
    "1e3s",
    "1_000s",
    "1,5s",
    "1..5s",
    "1.5.s",
    "0x1s",
    "inf",
    "nan",
    "never",
    "forever",
    "PT1H",
    "1:30",
    "١s",
    "1µ",
    "1m s",
    "9223372036854775808ns",
    "-9223372036854775809ns",
    "2562047h47m16.854775808s",
    "2562048h",
    "99999999999999999999h",
    "300000h-1s",
]


@pytest.mark.parametrize(("text", "nanoseconds"), READ.items(), ids=map(repr, READ))
def test_reads_as_go_does(text: str, nanoseconds: int) -> None:
    """A duration is a sum of decimals with units; what is finer than a nanosecond is cut."""
    assert duration.parse_ns(text) == nanoseconds


@pytest.mark.parametrize("text", REFUSED, ids=repr)
def test_refuses_as_go_does(text: str) -> None:
    """A number needs a unit, a unit needs a number, and the sum fits in int64."""
    with pytest.raises(BadObject, match="is not a duration") as refused:
        duration.parse_ns(text)
    assert refused.value.hint == "write it as 30s, 5m or 1h30m"


def test_refuses_what_is_too_long() -> None:
    """The schema allows 64 characters, so no more are read."""
    assert duration.parse_ns("0" * 63 + "s") == 0
    with pytest.raises(BadObject):
        duration.parse_ns("0" * 64 + "s")
