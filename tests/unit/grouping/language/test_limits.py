"""No expression can hang, grow without bound, overflow the stack or read anything but its input."""

import time
import tracemalloc

import pytest

from muster.errors import LimitReached, Refused
from muster.grouping.language import expression
from muster.grouping.language.limits import Limits, Meter

WIDE = Limits(characters=4096, nesting=100, steps=200_000, visited=100_000)
LIST = {"l": list(range(9_000)), "s": "x" * 100_000, "t": "x" * 100_000, "d": {f"k{n}": n for n in range(5_000)}}


def reached(text: str, root: object = None, limits: Limits = WIDE) -> LimitReached:
    """The limit that the expression runs into, and soon."""
    started = time.process_time()
    with pytest.raises(LimitReached) as caught:
        expression.compile(text, limits=limits).values(root, {}, Meter(limits))
    assert time.process_time() - started < 5
    assert caught.value.setting.startswith("grouping.expressions.")
    assert caught.value.setting in caught.value.hint
    return caught.value


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("." + "[" * 100_000, "characters"),
        ("[" * 100_000 + "]" * 100_000, "characters"),
        ("(" * 101 + "1" + ")" * 101, "nesting"),
        ("[" * 101 + "1" + "]" * 101, "nesting"),
        ("-" * 101 + "1", "nesting"),
        ("1" + "+1" * 101, "nesting"),
        ("1" + "//1" * 101, "nesting"),
        ("." + "|." * 101, "nesting"),
        (".a" + "?" * 101, "nesting"),
        (".[]" * 101, "nesting"),
        (".a?" * 101, "nesting"),
        ('"\\(' * 101 + "1" + ')"' * 101, "nesting"),
        ("if 1 then 2" + " elif 1 then 2" * 101 + " end", "nesting"),
        ("if " * 101 + "1" + " then 2 end" * 101, "nesting"),
        ("1 as $x | " * 101 + "1", "nesting"),
        ("map(" * 101 + "1" + ")" * 101, "nesting"),
        ("1 or 1 and 1 == 1 + 1 * (" * 101 + "1" + ")" * 101, "nesting"),
    ],
)
def test_long_and_deep_texts_are_refused_when_they_are_read(text, limit):
    assert reached(text).setting == f"grouping.expressions.{limit}"


@pytest.mark.parametrize("text", ["(" * 99 + "1" + ")" * 99, "-" * 98 + "1", "[" * 99 + "]" * 99, "." + "|." * 98])
def test_what_is_just_deep_enough_runs(text):
    """The stack is enough for the deepest expression that configuration allows."""
    assert len(expression.compile(text, limits=WIDE).values(1, {}, Meter(WIDE))) == 1


def test_a_long_path_is_not_deep():
    assert expression.compile(".a" * 200).values({}, {}, Meter()) == [None]


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("range(1000000000000)", "range"),
        ("range(10001)", "range"),
        ("range(0; 1; 0.0001 / 2)", "range"),
        ("first(range(1000000000000))", "range"),
        ("[range(10000) | range(10000)]", "visited"),
        ("range(10000) | range(1000) | range(1000)", "visited"),
        ("[range(100) as $a | range(100) as $b | range(100) as $c | $a]", "visited"),
        ("[.l[] | 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1]", "steps"),
        ("[.l[] + .l[]]", "visited"),
        ("any(.l[]; any(range(10000); . < 0))", "steps"),
        (".l - .l", "visited"),
        ("[.l[] as $x | .l | index($x)]", "visited"),
        ('"ab" ' + "| . + . " * 60, "size"),
        ("[1, 1] " + "| . + . " * 60, "size"),
        ('"ab" ' + '| "\\(.)\\(.)"' * 60, "size"),
        ('"ab" ' + '| [., .] | join("")' * 45, "size"),
        ("[1] " + "| [., .] " * 60, "visited"),
        ("[1] " + "| [., .] " * 60 + "| tostring", "visited"),
        ("[1] " + "| [., .] " * 40 + "| [.] == ([1] " + "| [., .] " * 40 + "| [.])", "visited"),
        ("[1] " + "| [., .] " * 40 + "| [.] < ([1] " + "| [., .] " * 40 + "| [.])", "visited"),
        ("[1] " + "| [.[], .[]] " * 60, "visited"),
        ("[1] " + "| [., .] | to_entries " * 40, "visited"),
        (".d | to_entries | . + . | . + . | . + . | . + . | . + . | . + .", "visited"),
        ("[1, 1] " + "| map(., .) " * 60, "visited"),
        (
            '.d | [.[] | tostring] | join(",") | split("") | map(. + .) | join(",") | split("")| add | split("")',
            "visited",
        ),
        ("[.l[] as $x | .s == .t]", "visited"),
        ("[range(10000) as $x | .s | startswith(.)]", "visited"),
        ("[range(10000) as $x | .s | ascii_downcase | length]", "size"),
        ("[.l[] | [range(100)] | add]", "visited"),
        ('["\\(.l[])\\(.l[])\\(.l[])"]', "size"),
        ("." + ",." * 200 + " | ." + ",." * 200 + " | ." + ",." * 200, "steps"),
        ("[.l, .l] | .[][] | (.,.,.,.,.,.) | (.,.,.,.,.,.)", "steps"),
    ],
    ids=lambda value: value[:40],
)
def test_what_costs_too_much_is_stopped(text, limit):
    assert reached(text, LIST).setting == f"grouping.expressions.{limit}"


@pytest.mark.parametrize(
    "text",
    [
        '"ab" ' + "| . + . " * 60,
        "[1] " + "| [.[], .[]] " * 60,
        '[range(10000)] | [., .] | [., .] | [., .] | [., .] | tostring | split("")',
        '[.l[] | tostring] | join(",") | [., .] | [., .] | [.[][]] | add | split("") | map(. + .)',
    ],
    ids=lambda value: value[:40],
)
def test_what_is_stopped_has_not_grown(text):
    tracemalloc.start()
    with pytest.raises(LimitReached):
        expression.compile(text, limits=WIDE).values(LIST, {}, Meter(WIDE))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100_000_000


def test_a_million_items_are_refused_before_the_first():
    assert reached(".[]", list(range(10**6))).setting == "grouping.expressions.visited"


def test_one_meter_counts_for_several_expressions():
    meter = Meter(Limits(visited=10))
    found = expression.compile(".[]")
    assert found.values([1] * 6, {}, meter)
    with pytest.raises(LimitReached) as caught:
        found.values([1] * 6, {}, meter)
    assert caught.value.limit == 10
    assert caught.value.column == 2
    assert caught.value.hint == "ask for less, or raise grouping.expressions.visited (now 10)"


def test_a_limit_is_not_caught():
    """`?` and `//` do not hide it: the expression would mean something else then."""
    for text in ("[range(100000)?]", "[(.[])?]", "[.[]?] // 1"):
        with pytest.raises(LimitReached):
            expression.compile(text).values([1] * 200_000, {}, Meter(WIDE))


@pytest.mark.parametrize(
    "text",
    ["tostring", '"\\(.)"', ". < $o", ". <= $o", "[., $o] | min", "[., $o] | max"],
)
def test_values_that_are_too_deep_are_no_overflow(text):
    deep: list[object] = []
    other: list[object] = []
    for _ in range(10_000):
        deep, other = [deep], [other]
    with pytest.raises(Refused, match="nested deeper than 200"):
        expression.compile(text).values(deep, {"o": other}, Meter())
    assert expression.compile(". == $o, [.] - [$o]").values(deep, {"o": other}, Meter()) == [True, []]


def test_results_are_not_measured_when_they_are_parts_of_the_object():
    """A path costs the same wherever it leads."""
    meter = Meter()
    expression.compile(".l").values(LIST, {}, meter)
    assert meter.visited == Limits().visited
    assert meter.size == Limits().size - 1
