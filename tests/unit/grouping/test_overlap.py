"""Which classifiers can claim one pod, against an oracle that tries every pod of a small world."""

import itertools
import random
import time
from collections.abc import Iterator
from typing import Any

import pytest

from muster.grouping.language import expression
from muster.grouping.matching import holds
from muster.grouping.model import Condition, Question
from muster.grouping.nodes import Bound
from muster.grouping.overlap import Claim, Comparison, Meeting, claim_of, in_words, meet

# A condition as (key, operator, values…); a value `$…` is given by the workload.
Short = tuple[str, ...]
KEYS, VALUES = ("a", "b", "c"), ("1", "2", "3")


def claim(*shorts: Short) -> Claim:
    found = []
    for key, operator, *values in shorts:
        by_path = [value for value in values if value.startswith("$")]
        question = Question("p", expressions=(expression.compile(by_path[0]),)) if by_path else None
        found.append((Condition("p", key, operator, () if by_path else tuple(values), question), tuple(by_path)))
    return claim_of(found)


def pods() -> Iterator[dict[str, str]]:
    """Every pod of a world with three labels: absent, a value that conditions name, or another one."""
    for values in itertools.product((None, *VALUES, "other"), repeat=len(KEYS)):
        yield {key: value for key, value in zip(KEYS, values, strict=True) if value is not None}


WORLD = list(pods())


def claims(shorts: list[Short], labels: dict[str, str]) -> bool:
    """As a pod is claimed when it comes."""
    return all(holds(Bound("p", key, operator, tuple(values)), labels) for key, operator, *values in shorts)


def picked(chance: random.Random) -> list[Short]:
    """One to four conditions."""
    found: list[Short] = []
    for _ in range(chance.randint(1, 4)):
        operator = chance.choice(("Equals", "NotEquals", "In", "NotIn", "Exists", "DoesNotExist"))
        many = {"Equals": 1, "NotEquals": 1, "Exists": 0, "DoesNotExist": 0}.get(operator, chance.randint(1, 3))
        found.append((chance.choice(KEYS), operator, *chance.sample(VALUES, many)))
    return found


def test_two_classifiers_meet_when_some_pod_is_claimed_by_both() -> None:
    """Exactly then, for conditions whose values are known; and one that claims no pod is seen to claim none."""
    chance = random.Random(5)  # noqa: S311
    seen = {True: 0, False: 0}
    for _ in range(1500):
        one, other = picked(chance), picked(chance)
        expected = any(claims(one, labels) and claims(other, labels) for labels in WORLD)
        first, second = claim(*one), claim(*other)
        assert bool(first.impossible) == (not any(claims(one, labels) for labels in WORLD)), one
        if not first.impossible and not second.impossible:
            assert meet(first, second) == meet(second, first) == expected, (one, other)
            seen[expected] += 1
    assert min(seen.values()) > 100


def test_the_first_before_that_meets_is_found_for_each() -> None:
    """However they are filed: the same as comparing every pair."""
    chance = random.Random(6)  # noqa: S311
    for _ in range(150):
        found = [claim(*picked(chance)) for _ in range(chance.randint(2, 14))]
        expected = []
        for second in range(len(found)):
            first = next((one for one in range(second) if meet(found[one], found[second])), None)
            if first is not None:
                expected.append((first, second))
        comparison = Comparison()
        assert [meeting[:2] for meeting in comparison.meetings(found)] == expected
        assert not comparison.incomplete


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        pytest.param([("a", "Equals", "$x")], [("a", "Equals", "1")], False, id="a shared label, by path on one side"),
        pytest.param([("a", "Equals", "$x")], [("a", "Equals", "$y")], False, id="a shared label, by two paths"),
        pytest.param([("a", "Equals", "$x")], [("a", "Equals", "$x")], True, id="a shared label, by the same path"),
        pytest.param([("a", "Equals", "$x")], [("a", "NotEquals", "$x")], False, id="one path, two operators"),
        pytest.param([("a", "Equals", "$x")], [("b", "Equals", "1")], True, id="no shared label"),
        pytest.param(
            [("a", "Equals", "$x"), ("b", "Equals", "1")],
            [("a", "Equals", "$x"), ("b", "Equals", "2")],
            False,
            id="the same path, but another label differs",
        ),
        pytest.param(
            [("a", "Equals", "$x"), ("a", "NotEquals", "1")],
            [("a", "Equals", "$x"), ("a", "NotEquals", "2")],
            False,
            id="the same path, but with other conditions beside it",
        ),
        pytest.param([("a", "In", "$x")], [("a", "Exists")], False, id="what a path gives may be nothing"),
    ],
)
def test_values_that_only_the_workload_gives(one: list[Short], other: list[Short], expected: bool) -> None:
    """They tell nothing about a label, unless both ask for the very same."""
    assert meet(claim(*one), claim(*other)) == expected
    assert meet(claim(*other), claim(*one)) == expected


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        pytest.param([("a", "Equals", "1")], [("b", "Equals", "2")], "a=1, b=2", id="values"),
        pytest.param([("a", "In", "3", "2")], [("a", "In", "2", "3", "1")], "a=2", id="one of several"),
        pytest.param([("a", "Equals", "1")], [("b", "Equals", "$x")], "a=1, b=…", id="by path"),
        pytest.param([("a", "Exists")], [("a", "NotEquals", "1")], "some a", id="any value"),
        pytest.param([("a", "DoesNotExist")], [("a", "NotEquals", "1")], "without a", id="no label"),
        pytest.param([("a", "Equals", "1")], [("b", "DoesNotExist")], "a=1", id="what is there says more"),
        pytest.param([("a\n", "Equals", "\x1b")], [("b", "Exists")], "a\\n=\\u001b, some b", id="nothing commands"),
        pytest.param(
            [(key, "Equals", "1") for key in "abc"],
            [(key, "Equals", "1") for key in "de"],
            "a=1, b=1, c=1, d=1, …",
            id="many",
        ),
    ],
)
def test_the_pods_that_two_share_in_words(one: list[Short], other: list[Short], words: str) -> None:
    assert in_words(claim(*one), claim(*other)) == words


def test_a_meeting_names_the_pair_and_the_pods() -> None:
    found = [claim(("a", "Equals", "1")), claim(("a", "Equals", "2")), claim(("b", "Equals", "1"))]
    assert list(Comparison().meetings(found)) == [Meeting(0, 2, "a=1, b=1")]


def test_meetings_that_do_not_matter_are_passed_over() -> None:
    """Then the next one before counts."""
    found = [claim(("a", "Exists")), claim(("b", "Exists")), claim(("c", "Exists"))]
    meetings = Comparison().meetings(found, lambda first, second: first == 1)
    assert [meeting[:2] for meeting in meetings] == [(1, 2)]


GIANTS: dict[str, Any] = {
    "one label": [claim(("a", "Equals", str(at))) for at in range(20_000)],
    "a label that all share, and one that tells them apart": [
        claim(("a", "Equals", "1"), ("b", "Equals", str(at)), ("c", "Exists")) for at in range(10_000)
    ],
    "sets of values": [claim(("a", "In", *map(str, range(at * 5, at * 5 + 5)))) for at in range(5_000)],
}


@pytest.mark.parametrize("name", GIANTS)
def test_many_that_one_label_tells_apart_are_all_compared(name: str) -> None:
    """None of them meet, and it takes no comparison of every pair to know that."""
    started = time.process_time()
    comparison = Comparison()
    assert list(comparison.meetings(GIANTS[name])) == []
    assert not comparison.incomplete
    assert time.process_time() - started < 5


def test_the_budget_ends_what_takes_too_long() -> None:
    """And the end is known."""
    bits = [
        claim(*((f"k{bit}", "Exists" if at >> bit & 1 else "DoesNotExist") for bit in range(12))) for at in range(4096)
    ]
    comparison = Comparison()
    started = time.process_time()
    assert list(comparison.meetings(bits)) == []
    assert comparison.incomplete
    assert time.process_time() - started < 5
