"""The rules of metadata: what the server sets, what a client cannot change, and what deletion leaves."""

import random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from muster.embedded import objects
from muster.embedded.objects import created, deleted, gone_with, replaced, same, same_value, timestamp

NOW = "2026-01-02T03:04:05Z"


def thing(spec: Any = None, status: Any = None, **metadata: Any) -> dict[str, Any]:
    document = {"metadata": {"name": "a", **metadata}}
    return document | ({} if spec is None else {"spec": spec}) | ({} if status is None else {"status": status})


def test_times_are_written_as_kubernetes_writes_them() -> None:
    assert timestamp(1767323045.9) == NOW
    assert objects.micro_timestamp(1767323045.25) == "2026-01-02T03:04:05.250000Z"
    assert objects.seconds_of(NOW) == 1767323045


def test_a_new_object_has_the_metadata_of_the_server_whatever_the_client_says() -> None:
    sent = thing({}, uid="mine", creationTimestamp="never", generation=9, resourceVersion="7", deletionTimestamp=NOW)
    kept = created(sent, uid="u", now=NOW, suffix=lambda: "xxxxx", namespace="default")
    assert kept["metadata"] == {
        "name": "a",
        "namespace": "default",
        "uid": "u",
        "creationTimestamp": NOW,
        "generation": 1,
    }
    assert sent["metadata"]["uid"] == "mine"


@pytest.mark.parametrize(("base", "name"), [("web-", "web-xxxxx"), ("n" * 70, "n" * 58 + "xxxxx")])
def test_a_name_is_generated_from_its_beginning(base: str, name: str) -> None:
    sent = {"metadata": {"generateName": base}}
    kept = created(sent, uid="u", now=NOW, suffix=lambda: "xxxxx", namespace=None, generation=False)
    assert kept["metadata"] == {"generateName": base, "name": name, "uid": "u", "creationTimestamp": NOW}


def test_a_suffix_has_five_letters_of_kubernetes_alphabet() -> None:
    found = objects.suffix(random.Random(1).choice)  # noqa: S311
    assert len(found) == 5
    assert set(found) <= set("bcdfghjklmnpqrstvwxz2456789")
    assert found == objects.suffix(random.Random(1).choice)  # noqa: S311


CURRENT = thing(
    {"x": 1}, {"y": 1}, uid="u", creationTimestamp=NOW, generation=3, resourceVersion="5", labels={"a": "b"}
)


def test_the_main_door_keeps_the_status_and_counts_changes_of_the_spec() -> None:
    new = replaced(CURRENT, thing({"x": 2}, {"y": 2}, uid="other", generation=99), status=True)
    assert new["status"] == {"y": 1}
    assert new["spec"] == {"x": 2}
    assert new["metadata"] == {
        "name": "a",
        "uid": "u",
        "creationTimestamp": NOW,
        "generation": 4,
        "resourceVersion": "5",
    }
    assert replaced(CURRENT, thing({"x": 1}, {"y": 2}), status=True)["metadata"]["generation"] == 3


def test_the_door_of_the_status_changes_nothing_else() -> None:
    new = replaced(CURRENT, thing({"x": 2}, {"y": 2}, labels={"c": "d"}), status=True, subresource="status")
    assert (new["spec"], new["status"], new["metadata"]["generation"]) == ({"x": 1}, {"y": 2}, 3)
    assert new["metadata"]["labels"] == {"c": "d"}
    custom = replaced(
        CURRENT, thing({}, {"y": 2}, labels={}), status=True, subresource="status", metadata_of_status=False
    )
    assert custom["metadata"] == CURRENT["metadata"]
    assert "status" not in replaced(CURRENT, thing({}), status=True, subresource="status")


def test_without_a_door_for_the_status_it_is_a_field_like_others() -> None:
    new = replaced(CURRENT, thing({"x": 1}, {"y": 2}), status=False)
    assert (new["status"], new["metadata"]["generation"]) == ({"y": 2}, 4)


def test_an_object_that_nothing_holds_is_gone_at_once() -> None:
    assert deleted(thing(), now=NOW, grace=0) is None
    assert deleted(thing(), now=NOW, grace=None) is None


def test_finalizers_hold_an_object_until_the_last_is_gone() -> None:
    held = deleted(thing(finalizers=["a"], generation=1), now=NOW, grace=None, finalizers=["foregroundDeletion"])
    assert held
    metadata = held["metadata"]
    assert metadata["finalizers"] == ["a", "foregroundDeletion"]
    assert (metadata["deletionTimestamp"], metadata["deletionGracePeriodSeconds"], metadata["generation"]) == (
        NOW,
        0,
        2,
    )
    assert not gone_with(held)
    assert gone_with(objects.with_metadata(held, finalizers=None))


def test_a_pod_has_time_to_end_and_a_second_request_may_only_shorten_it() -> None:
    first = deleted(thing(), now=NOW, grace=30)
    assert first
    assert first["metadata"]["deletionTimestamp"] == "2026-01-02T03:04:35Z"
    longer = deleted(first, now="2026-01-02T03:04:10Z", grace=60)
    assert longer == first
    shorter = deleted(first, now="2026-01-02T03:04:10Z", grace=10)
    assert shorter
    assert shorter["metadata"]["deletionTimestamp"] == "2026-01-02T03:04:15Z"
    assert shorter["metadata"]["deletionGracePeriodSeconds"] == 10
    assert deleted(first, now="2026-01-02T03:04:10Z", grace=0) is None


def test_only_a_time_of_managed_fields_is_no_difference() -> None:
    one = thing({}, managedFields=[{"manager": "a", "time": "1"}], resourceVersion="1")
    other = thing({}, managedFields=[{"manager": "a", "time": "2"}], resourceVersion="2")
    assert same(one, other)
    assert not same(one, thing({}, managedFields=[{"manager": "b", "time": "1"}]))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 1) | st.sampled_from([0.0, 1.0, "a"]),
    lambda below: st.lists(below, max_size=2) | st.dictionaries(st.sampled_from("ab"), below, max_size=2),
    max_leaves=5,
)


@given(VALUES, VALUES)
@example(one=True, other=1)
@example(one=[0], other=[False])
@example(one={"a": 1}, other={"a": 1.0})
def test_values_are_the_same_if_they_are_written_alike(one: Any, other: Any) -> None:
    """Numbers by value; true is not 1."""

    def written(value: Any) -> Any:
        if isinstance(value, bool) or value is None or isinstance(value, str):
            return ("word", value)
        if isinstance(value, list):
            return ("list", tuple(map(written, value)))
        if isinstance(value, dict):
            return ("map", frozenset((name, written(below)) for name, below in value.items()))
        return ("number", float(value))

    assert same_value(one, other) == (written(one) == written(other))
