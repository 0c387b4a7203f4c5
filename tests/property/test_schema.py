"""Reading objects: right documents of every kind have no problem, and of wrong ones each problem points into them."""

import re
from functools import cache
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from muster.api.documents import child_path
from muster.api.kinds import CORE_KINDS, OUR_KINDS, Kind, kind_of, read_object
from muster.api.schema import ANY, BOOLEAN, INTEGER, LIST, MAP, NUMBER, OBJECT, STRING, TIME, UNION, Form, form_of

KINDS = st.sampled_from([*OUR_KINDS, *CORE_KINDS])
NAMES = st.sampled_from(
    ["a", "b", "kai.scheduler/queue", "", "a b", "\x1b[31m", "x" * 90, "minMembr", "spce", "metadata"]
)
JUNK = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.sampled_from([2**31, 2**63, -1, 0]),
        st.integers(300, 400).map(lambda power: -(10**power)),
        st.floats(),
        st.text(max_size=8),
        st.sampled_from(["30s", "-1", "1", "2026-01-31T12:00:00", "2026-01-31T12:00:00Z"]),
        st.integers(60, 5000).map("x".__mul__),
    ),
    lambda below: st.one_of(st.lists(below, max_size=3), st.dictionaries(NAMES, below, max_size=3)),
    max_leaves=6,
)
# How deep objects hold objects of their own kind.
DEEPEST = 6


@st.composite
def fitting(draw: st.DrawFn, form: Form, wrong: st.SearchStrategy[Any] | None = None, depth: int = 0) -> Any:
    """A document of the form; with `wrong`, one that now and then has something else in it."""
    if wrong is not None and draw(st.integers(0, 9)) == 0:
        return draw(wrong)
    notes = form.notes
    least = notes.get("minItems", 0)
    few = st.integers(least, 2 if depth < DEEPEST else least)
    if notes.get("x-muster-type") == "quantity" and form.kind == STRING:
        return draw(st.sampled_from(["500m", "8Gi", "1e3", "-0.1", "2"]))
    if form.kind == UNION:
        return draw(fitting(draw(st.sampled_from(form.options)).noted(notes), wrong, depth))
    if form.kind == OBJECT:
        optional = sorted(set(form.fields) - set(form.required))
        chosen = draw(st.lists(st.sampled_from(optional), unique=True, max_size=4)) if optional else []
        value = {name: draw(fitting(form.fields[name], wrong, depth + 1)) for name in (*form.required, *chosen)}
        if wrong is not None and draw(st.integers(0, 4)) == 0:
            value[draw(NAMES)] = draw(wrong)
        return value
    if form.kind == LIST:
        return [draw(fitting(form.item, wrong, depth + 1)) for _ in range(draw(few))]
    if form.kind == MAP:
        return {draw(NAMES): draw(fitting(form.item, wrong, depth + 1)) for _ in range(draw(few))}
    return draw(scalar(form))


@cache
def scalar(form: Form) -> st.SearchStrategy[Any]:
    notes = form.notes
    if "enum" in notes:
        return st.sampled_from(notes["enum"])
    if form.kind in (INTEGER, NUMBER):
        most = 2**31 - 1 if notes.get("format") == "int32" else 2**63 - 1
        numbers = st.integers(notes.get("minimum", -most), most)
        return numbers if form.kind == INTEGER else numbers | st.floats(notes.get("minimum", -(2**53)), 2**53)
    if notes.get("x-muster-type") == "duration":
        return st.sampled_from(["0", "30s", "-1s", "1h30m", "1.5h", ".5ms"])
    if "pattern" in notes:
        matching = st.from_regex(re.compile(notes["pattern"], re.ASCII), fullmatch=True)
        return matching.filter(lambda text: len(text) <= notes["maxLength"])
    if form.kind == STRING:
        return st.text(min_size=notes.get("minLength", 0), max_size=min(12, notes.get("maxLength", 12)))
    return {
        BOOLEAN: st.booleans(),
        TIME: st.sampled_from(["2026-01-31T12:00:00Z", "2026-01-31T12:00:00.5+02:00"]),
        ANY: JUNK,
    }[form.kind]


right = KINDS.flatmap(lambda kind: st.tuples(st.just(kind), fitting(form_of(kind.struct))))
half_right = KINDS.flatmap(
    lambda kind: st.tuples(
        st.just(kind), fitting(form_of(kind.struct), JUNK).filter(lambda value: isinstance(value, dict))
    )
)
arbitrary = st.tuples(KINDS, st.dictionaries(NAMES | st.sampled_from(["spec", "status", "metadata"]), JUNK, max_size=4))


def named(kind: Kind, document: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": kind.api_version, "kind": kind.name, **document}


def without_null(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_null(item) for key, item in value.items() if item is not None}
    return [without_null(item) for item in value] if isinstance(value, list) else value


def said(found: Any) -> str:
    """All that a struct holds, without null (some fields hold any value) and so that a NaN equals itself."""
    return repr(without_null(msgspec.to_builtins(found)))


def paths(document: Any) -> dict[str, Any]:
    """Every path of a document, and what stands there."""
    found, waiting = {}, [("", document)]
    while waiting:
        path, value = waiting.pop()
        found[path] = value
        keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
        waiting.extend((child_path(path, key), value[key]) for key in keys)
    return found


def required_fields() -> set[str]:
    """The names of all fields that some object can't do without."""
    found, seen, waiting = set(), set(), [form_of(kind.struct) for kind in (*OUR_KINDS, *CORE_KINDS)]
    while waiting:
        form = waiting.pop()
        if id(form) not in seen:
            seen.add(id(form))
            found.update(form.required)
            waiting.extend([*form.fields.values(), *form.options, *([form.item] if form.item else [])])
    return found


REQUIRED = required_fields()


@given(right)
def test_a_right_document_has_no_problem(case: tuple[Kind, dict[str, Any]]) -> None:
    """What fits the form and its notes is read as msgspec itself converts it."""
    kind, document = case
    assert kind_of(named(kind, document)) is kind
    found, problems = read_object(named(kind, document), kind)
    assert problems == []
    assert said(found) == said(msgspec.convert(without_null(document), kind.struct))


@given(st.one_of(half_right, arbitrary), st.booleans())
def test_any_document_is_read(case: tuple[Kind, dict[str, Any]], strict: bool) -> None:
    """A struct comes out of everything; each problem stands at a key of the document, or names one that is missing."""
    kind, document = case
    document = named(kind, document)
    found, problems = read_object(document, kind, strict=strict)
    assert isinstance(found, kind.struct)
    known = paths(document)
    missing = {child_path(path, name) for path in known if isinstance(known[path], dict) for name in REQUIRED}
    for problem in problems:
        assert problem.path in known or (problem.message == "is missing" and problem.path in missing)
        assert "".join(problem[:3]).isprintable()
        assert len(problem.message) < 300


@given(st.one_of(half_right, arbitrary))
def test_agrees_with_the_decoder(case: tuple[Kind, dict[str, Any]]) -> None:
    """Without a problem the struct is the one that msgspec makes, and what msgspec refuses has a problem."""
    kind, document = case
    found, problems = read_object(named(kind, document), kind)
    try:
        converted = msgspec.convert(without_null(document), kind.struct)
    except msgspec.ValidationError:
        assert problems
    else:
        assert problems or said(found) == said(converted)


@given(half_right)
def test_leniency_only_forgives_unknown_fields(case: tuple[Kind, dict[str, Any]]) -> None:
    """Without strictness the struct is the same, and only the problems of unknown fields are gone."""
    kind, document = case
    strict, lenient = read_object(document, kind), read_object(document, kind, strict=False)
    assert repr(strict[0]) == repr(lenient[0])
    assert [problem for problem in strict[1] if problem.message != "is not a known field"] == lenient[1]
