"""Quantities: every text that Kubernetes' own parser was asked about means the same to muster."""

import json
from pathlib import Path

import pytest

from muster.api import quantity
from muster.errors import BadObject

INT64_MAX, INT64_MIN = 2**63 - 1, -(2**63)
# Made by tests/golden/quantities/main.go. Amounts over int64 are left out (Go wraps around, muster saturates), and so
# are negative ones that Go rounds as big decimals, where it is wrong: -3.9Gi becomes -4187593112 bytes.
GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "quantities.json").read_bytes())


@pytest.mark.parametrize("case", [case for case in GOLDEN if case["ok"]], ids=lambda case: repr(case["text"]))
def test_reads_as_kubernetes_does(case: dict) -> None:
    """Thousandths and whole units are those of resource.Quantity."""
    assert quantity.milli(case["text"]) == case["milli"]
    assert quantity.whole(case["text"]) == case["value"]


@pytest.mark.parametrize("case", [case for case in GOLDEN if not case["ok"]], ids=lambda case: repr(case["text"]))
def test_refuses_as_kubernetes_does(case: dict) -> None:
    """What resource.Quantity refuses is no quantity, and the answer says how to write one."""
    with pytest.raises(BadObject, match="is not a quantity") as refused:
        quantity.parse(case["text"])
    assert refused.value.hint == "write it as 500m, 2, 1.5 or 8Gi"


@pytest.mark.parametrize(
    ("amount", "nanos"),
    [
        pytest.param("1", 10**9, id="one"),
        pytest.param("1n", 1, id="nano"),
        pytest.param("0.1n", 1, id="finer-than-a-nano-rounds-up"),
        pytest.param("-0.1n", -1, id="and-away-from-zero"),
        pytest.param("1.0000000001", 10**9 + 1, id="rest-rounds-up"),
        pytest.param("8Gi", 8 * 2**30 * 10**9, id="binary"),
        pytest.param("0.5Ki", 512 * 10**9, id="half-binary"),
        pytest.param("2e3", 2000 * 10**9, id="exponent"),
        pytest.param("2E", 2 * 10**27, id="exa-is-no-exponent"),
        pytest.param(3, 3 * 10**9, id="int"),
        pytest.param(0.25, 25 * 10**7, id="float"),
        pytest.param(1e22, 10**31, id="float-with-exponent"),
        pytest.param(-0.0, 0, id="minus-zero"),
    ],
)
def test_nanos(amount: str | float, nanos: int) -> None:
    """An amount is exact down to a nano, and rounded away from zero below it."""
    assert quantity.parse(amount) == nanos


@pytest.mark.parametrize(
    "amount",
    [
        pytest.param(True, id="true"),
        pytest.param(False, id="false"),
        pytest.param(float("nan"), id="nan"),
        pytest.param(float("inf"), id="inf"),
        pytest.param(float("-inf"), id="minus-inf"),
        pytest.param("1" * 257, id="257-digits"),
        pytest.param("1e" + "9" * 30, id="exponent-over-int64"),
    ],
)
def test_no_quantity(amount: object) -> None:
    """What is no text and no finite number is refused, and so are digits without end."""
    with pytest.raises(BadObject, match="is not a quantity"):
        quantity.parse(amount)


@pytest.mark.parametrize(
    ("text", "milli", "whole"),
    [
        pytest.param("9223372036854775807", INT64_MAX, INT64_MAX, id="int64-max"),
        pytest.param("9223372036854775808", INT64_MAX, INT64_MAX, id="one-more"),
        pytest.param("-9223372036854775808", INT64_MIN, INT64_MIN, id="int64-min"),
        pytest.param("-9223372036854775809", INT64_MIN, INT64_MIN, id="one-less"),
        pytest.param("8Ei", INT64_MAX, INT64_MAX, id="binary-over"),
        pytest.param("-8Ei", INT64_MIN, INT64_MIN, id="binary-exactly-min"),
        pytest.param("9223372036854775807m", INT64_MAX, 9223372036854776, id="only-milli-at-the-edge"),
        pytest.param("9223372036854775807.1m", INT64_MAX, 9223372036854776, id="only-milli-over"),
        pytest.param("10P", INT64_MAX, 10**16, id="only-milli-over-by-far"),
        pytest.param("1e999999999", INT64_MAX, INT64_MAX, id="far-over"),
        pytest.param("-1e999999999", INT64_MIN, INT64_MIN, id="far-under"),
        pytest.param("1e-999999999", 1, 1, id="far-too-small"),
        pytest.param("-1e-999999999", -1, -1, id="far-too-small-below-zero"),
        pytest.param("0e999999999", 0, 0, id="nothing-stays-nothing"),
    ],
)
def test_saturates(text: str, milli: int, whole: int) -> None:
    """An amount over int64 is the largest one, and one that is too small to say is the smallest that is not nothing."""
    assert (quantity.milli(text), quantity.whole(text)) == (milli, whole)


@pytest.mark.parametrize(
    ("resource", "amount", "units"),
    [
        pytest.param("cpu", "1", 1000, id="cpu-in-millicores"),
        pytest.param("cpu", "100u", 1, id="cpu-rounds-up"),
        pytest.param("memory", "1.5Ki", 1536, id="memory-in-bytes"),
        pytest.param("memory", "100m", 1, id="memory-rounds-up"),
        pytest.param("nvidia.com/gpu", 8, 8, id="devices"),
        pytest.param("example.com/cpu", "2", 2, id="only-cpu-itself-is-milli"),
    ],
)
def test_base_units(resource: str, amount: str | int, units: int) -> None:
    """Cpu is counted in thousandths, everything else in whole units."""
    assert quantity.base_units(resource, amount) == units


@pytest.mark.parametrize(
    ("resource", "amount", "units"),
    [
        ("cpu", "1.5", 1500),
        ("cpu", "100u", 0),
        ("nvidia.com/gpu", "1500m", 1),
        ("pods", 0.5, 0),
        ("memory", "-0.5", -1),
    ],
)
def test_what_somebody_has_is_rounded_down(resource: str, amount: str | float, units: int) -> None:
    """Half a device carries nobody."""
    assert quantity.held_units(resource, amount) == units
