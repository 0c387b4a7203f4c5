"""Server-side apply, as properties: who owns what, who loses what, and what disappears."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.embedded.applying import Conflicts, apply, merged, updated
from muster.embedded.fieldsets import ABSENT, Fields, difference, fields_of, from_v1, removed, to_v1, with_parents
from muster.embedded.objects import same_value
from muster.embedded.schema import Schema
from unit.embedded.asked import SCHEMA, widget

WIDGETS = Schema(SCHEMA, status=True)
OPEN = Schema.open()
MANAGERS = ("alice", "bob", "carol")

# Sets and keyed lists have an item: one that becomes empty is a case of its own, recorded from the real server.
PARTS = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from("abc")}, optional={"count": st.integers(0, 2), "kind": st.sampled_from("xy")}
    ),
    min_size=1,
    max_size=4,
    unique_by=lambda part: (part["name"], part.get("kind", "plain")),
)
SPECS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"color": st.sampled_from(["red", "green"])},
    optional={
        "size": st.integers(1, 3),
        "tags": st.lists(st.sampled_from("abc"), min_size=1, max_size=3, unique=True),
        "parts": PARTS,
        "steps": st.lists(st.sampled_from("ab"), max_size=2),
        "options": st.dictionaries(st.sampled_from("abc"), st.sampled_from("xy"), max_size=3),
        "whole": st.dictionaries(st.sampled_from("ab"), st.sampled_from("xy"), max_size=2),
        "nested": st.fixed_dictionaries({}, optional={"deep": st.sampled_from("xy")}),
    },
)
STEPS = st.lists(st.tuples(st.sampled_from(MANAGERS), SPECS), min_size=1, max_size=6)


def owned(document: dict[str, Any], manager: str, operation: str = "Apply") -> Fields:
    for entry in document["metadata"].get("managedFields", []):
        if (entry["manager"], entry["operation"]) == (manager, operation):
            return from_v1(entry["fieldsV1"])
    return frozenset()


def applied(
    current: dict[str, Any] | None, manager: str, spec: dict[str, Any], *, force: bool = True
) -> dict[str, Any]:
    return apply(current, widget("w", spec), manager=manager, force=force, schema=WIDGETS, time="t", subresource="")


def spec_fields(spec: dict[str, Any]) -> Fields:
    return frozenset(path for path in fields_of(widget("w", spec), WIDGETS.shape) if path[0] == "f:spec")


@settings(max_examples=50)
@given(STEPS)
def test_what_is_applied_by_force_holds_and_is_owned(steps: list[tuple[str, dict[str, Any]]]) -> None:
    """Afterwards the document says all that was sent, and the sender owns exactly what he sent."""
    document: dict[str, Any] | None = None
    for manager, spec in steps:
        document = applied(document, manager, spec)
        assert same_value(merged(document, widget("w", spec), WIDGETS.shape)["spec"], document["spec"])
        assert owned(document, manager) == spec_fields(spec)


@settings(max_examples=50)
@given(STEPS)
def test_nothing_stands_there_that_nobody_owns(steps: list[tuple[str, dict[str, Any]]]) -> None:
    """A document that was only ever applied consists of what its appliers sent the last time."""
    document: dict[str, Any] | None = None
    for manager, spec in steps:
        document = applied(document, manager, spec)
    assert document
    everything = with_parents(frozenset().union(*(owned(document, manager) for manager in MANAGERS)), WIDGETS.shape)
    there = fields_of({"spec": document["spec"]}, WIDGETS.shape)
    # An empty list or map that once was sent may stay behind as a field that says nothing.
    assert {path for path in there - everything if value_at(document, path) not in ({}, [])} == set()


def value_at(document: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        if not name.startswith("f:"):
            return ABSENT
        document = document[name[2:]]
    return document


@settings(max_examples=50)
@given(STEPS)
def test_to_apply_the_same_again_changes_nothing(steps: list[tuple[str, dict[str, Any]]]) -> None:
    """Not even a time: the very same document comes back."""
    document: dict[str, Any] | None = None
    for manager, spec in steps:
        document = applied(document, manager, spec)
        again = apply(document, widget("w", spec), manager=manager, force=False, schema=WIDGETS, time="later")
        assert again is document


@settings(max_examples=50)
@given(STEPS, SPECS)
def test_a_conflict_names_the_fields_of_others_that_would_change(
    steps: list[tuple[str, dict[str, Any]]], spec: dict[str, Any]
) -> None:
    """Without force either nobody loses a field, or the refusal says which, and nothing happened."""
    document: dict[str, Any] | None = None
    for manager, one in steps:
        document = applied(document, manager, one)
    assert document
    forced = applied(document, "dave", spec)
    lost = {m for m in MANAGERS if owned(document, m) - owned(forced, m)}
    try:
        calm = applied(document, "dave", spec, force=False)
    except Conflicts as refused:
        said = {conflict.manager for conflict in refused.conflicts}
    else:
        said = set()
        assert same_value(calm, forced)
    assert said == {f'"{manager}"' for manager in lost}


@settings(max_examples=50)
@given(STEPS, SPECS)
def test_an_update_takes_what_it_changes_and_leaves_the_rest(
    steps: list[tuple[str, dict[str, Any]]], spec: dict[str, Any]
) -> None:
    """No field that changed has another owner afterwards; every field that did not keeps its owners."""
    document: dict[str, Any] | None = None
    for manager, one in steps:
        document = applied(document, manager, one)
    assert document
    new = updated(document, {**document, "spec": spec}, manager="erin", schema=WIDGETS, time="t")
    changes = difference(document["spec"], spec, WIDGETS.shape.child("spec") or WIDGETS.shape)
    below = [frozenset(("f:spec", *path) for path in part) for part in changes]
    gone, changed, added = below
    assert owned(new, "erin", "Update") == changed | added
    for manager in MANAGERS:
        assert owned(new, manager) == owned(document, manager) - gone - changed - added


@settings(max_examples=50)
@given(STEPS)
def test_the_last_owner_who_leaves_a_field_out_removes_it(steps: list[tuple[str, dict[str, Any]]]) -> None:
    """When everybody applies only a color, only the color is left."""
    document: dict[str, Any] | None = None
    for manager, spec in steps:
        document = applied(document, manager, spec)
    for manager in MANAGERS:
        document = applied(document, manager, {"color": "red"})
    assert document
    assert {name for name, value in document["spec"].items() if value not in ({}, [])} == {"color"}


# Sets of fields

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from("ab"),
    lambda below: st.lists(below, max_size=2) | st.dictionaries(st.sampled_from("abc"), below, max_size=3),
    max_leaves=6,
)
FREE = st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3)


@given(SPECS)
def test_a_set_is_what_its_document_says(spec: dict[str, Any]) -> None:
    fields = fields_of(widget("w", spec), WIDGETS.shape)
    assert from_v1(to_v1(fields)) == fields


@given(SPECS, SPECS)
def test_a_difference_is_the_other_way_round_from_the_other_side(one: dict[str, Any], other: dict[str, Any]) -> None:
    there = difference(widget("w", one), widget("w", other), WIDGETS.shape)
    back = difference(widget("w", other), widget("w", one), WIDGETS.shape)
    assert (there.removed, there.modified, there.added) == (back.added, back.modified, back.removed)
    same = same_value(sorted_lists(one), sorted_lists(other))
    assert (not any(there)) == same


def sorted_lists(spec: dict[str, Any]) -> dict[str, Any]:
    """Two sets, or two lists of keyed items, that differ in their order only have the same fields."""
    found = dict(spec)
    for name in ("tags", "parts"):
        if name in found:
            found[name] = sorted(found[name], key=str)
    return found


@given(FREE, FREE)
def test_without_a_schema_maps_merge_and_lists_are_one_value(one: Any, other: Any) -> None:
    document = apply(None, one, manager="a", force=False, schema=OPEN, time="t")
    document = apply(document, other, manager="b", force=True, schema=OPEN, time="t")
    assert same_value(merged(document, other, OPEN.shape), document)


@given(SPECS)
def test_a_document_without_all_its_fields_is_nothing(spec: dict[str, Any]) -> None:
    shape = WIDGETS.shape
    fields = with_parents(fields_of({"spec": spec}, shape), shape)
    assert removed({"spec": spec}, fields, shape) == {}


@given(SPECS, SPECS)
def test_what_is_not_removed_stays_as_it_is(spec: dict[str, Any], other: dict[str, Any]) -> None:
    """Only the fields named, and what is below them, go."""
    shape = WIDGETS.shape
    gone, all_ = fields_of({"spec": other}, shape), fields_of({"spec": spec}, shape)
    left = fields_of(removed({"spec": spec}, gone, shape), shape)
    assert set(left - all_) <= {path[:-1] for path in all_} | {path[:-2] for path in all_}
    assert all(any(path[: len(top)] == top for top in gone) for path in all_ - left)


def test_managed_fields_of_nonsense_count_as_none() -> None:
    """As in the real server, an entry that cannot be read is as if nobody had kept book."""
    broken = widget("w", {"color": "red"}, metadata={"managedFields": [{"manager": "x", "operation": "Guess"}]})
    result = applied(broken, "alice", {"color": "red", "size": 1}, force=False)
    assert {entry["manager"] for entry in result["metadata"]["managedFields"]} == {"alice", "before-first-apply"}


def test_who_sends_managed_fields_is_refused() -> None:
    with pytest.raises(Exception, match=r"metadata\.managedFields must be nil"):
        apply(
            None,
            widget("w", {"color": "red"}, metadata={"managedFields": []}),
            manager="a",
            force=False,
            schema=WIDGETS,
            time="t",
        )
