"""Expressions against real jq: whatever is accepted gives what jq gives, and whatever jq can't read is refused."""

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jq_process import JQ, THERE, WHY_NOT
from jq_programs import VARIABLES, Programs, document, mutated
from muster.errors import BadExpression, BadValue, ExpressionError, LimitReached, Refused
from muster.grouping.language import expression
from muster.grouping.language.limits import Limits, Meter

needs_jq = pytest.mark.skipif(not THERE, reason=WHY_NOT)
# So tight that jq, which has none, answers soon as well.
TIGHT = Limits(characters=2000, range=200, steps=20_000, visited=5_000, size=20_000)


@st.composite
def cases(draw: st.DrawFn, broken: bool = False) -> tuple[str, Any]:
    """A program and a document; half of the programs catch their own errors, so that what comes before them counts."""

    def pick(options: Any) -> Any:
        return options[draw(st.integers(0, len(options) - 1))]

    text = Programs(pick).program(pick((1, 2, 2, 3)))
    if broken:
        text = mutated(pick, text)
    elif pick((True, False)):
        text = f"[({text})?]"
    return text, document(pick, 3)


def as_jq(value: Any) -> Any:
    """A value in one form: numbers are doubles, and the fields of an object in order."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return ("number", float(value))
    if isinstance(value, list):
        return [as_jq(item) for item in value]
    if isinstance(value, dict):
        return ("object", [(key, as_jq(item)) for key, item in value.items()])
    return value


def compare(text: str, root: Any) -> None:
    """Same values, or both an error; what is accepted but refused for this input is at least jq."""
    try:
        found = expression.compile(text, variables=VARIABLES, limits=TIGHT)
    except (BadExpression, LimitReached):
        return
    try:
        ours = found.values(root, VARIABLES, Meter(TIGHT))
    except BadValue:
        answer = JQ.ask(text, root, VARIABLES)
        assert answer.failed, (text, root, answer)
        return
    except (Refused, LimitReached):
        assert JQ.ask(text, root, VARIABLES, run=False).refused is None, text
        return
    answer = JQ.ask(text, root, VARIABLES)
    assert answer.values is not None, (text, root, ours, answer)
    assert as_jq(ours) == as_jq(answer.values), (text, root)


@needs_jq
@given(cases())
def test_programs_give_what_jq_gives(case: tuple[str, Any]) -> None:
    compare(*case)


@needs_jq
@given(cases(broken=True))
def test_broken_programs_are_refused_or_mean_the_same(case: tuple[str, Any]) -> None:
    compare(*case)


@given(cases())
def test_generated_programs_are_in_the_language(case: tuple[str, Any]) -> None:
    """Nearly: comparisons that the generator chains are not, and are not in jq."""
    problem = None
    try:
        expression.compile(case[0], variables=VARIABLES, limits=TIGHT)
    except BadExpression as found:
        problem = found
    assert problem is None or "comparisons do not chain" in problem.message, case[0]


PIECES = st.sampled_from([*'.[]()|,?"\\$+-*/%<>=!:;{}@#ax1 ', "as $x |", "if ", "then ", "end", "\\(", "..", "//", "é"])


def read_or_refused(text: str, root: Any, limits: Limits) -> None:
    """Never another error than ours, with a message, a hint and a column in the text, and soon."""
    started = time.process_time()
    problem = None
    try:
        found = expression.compile(text, limits=limits)
        found.values(root, dict.fromkeys(found.variables, root), Meter(limits))
    except ExpressionError as error:
        problem = error
    assert time.process_time() - started < 2
    if problem:
        assert 0 < problem.column <= len(text) + 1
        assert problem.message
        assert problem.hint


@given(st.one_of(st.text(max_size=400), st.lists(PIECES, max_size=200).map("".join)))
def test_any_text_is_read_or_refused(text: str) -> None:
    read_or_refused(text, [[1], {"a": "x", "x": None}], Limits(steps=20_000, visited=5_000, size=20_000))


@given(cases(broken=True))
def test_any_broken_program_is_read_or_refused(case: tuple[str, Any]) -> None:
    read_or_refused(*case, TIGHT)
