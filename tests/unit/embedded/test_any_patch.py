"""Whatever is sent as a patch is applied or refused: nothing else is raised, and the document is never changed."""

import copy
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.embedded import applying, patching
from muster.embedded.refusals import Refused
from muster.embedded.schema import Schema

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "finalizers": ["a"], "labels": {"a": "b"}},
    "spec": {
        "containers": [{"name": "a", "image": "x", "env": [{"name": "A", "value": "1"}]}, {"name": "b"}],
        "tolerations": [{"key": "a"}],
        "nodeSelector": {"a": "b"},
    },
}
NAMES = st.sampled_from(
    (
        "metadata",
        "spec",
        "containers",
        "env",
        "tolerations",
        "nodeSelector",
        "finalizers",
        "name",
        "labels",
        "a",
        "$patch",
    )
) | st.sampled_from(("$retainKeys", "$setElementOrder/containers", "$deleteFromPrimitiveList/finalizers"))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 2) | st.sampled_from(["a", "b", "delete", "replace", "name"]),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(NAMES, below, max_size=3),
    max_leaves=10,
)
ITEMS = st.lists(
    VALUES | st.fixed_dictionaries({"name": st.sampled_from("ab")}, optional={"$patch": VALUES}), max_size=3
)
LISTS = ("containers", "$setElementOrder/containers", "tolerations", "volumes", "$retainKeys")
SPECS = VALUES | st.fixed_dictionaries({}, optional=dict.fromkeys(LISTS, ITEMS | VALUES))
FINALIZERS = ("finalizers", "$deleteFromPrimitiveList/finalizers", "$setElementOrder/finalizers", "ownerReferences")
METADATA = VALUES | st.fixed_dictionaries({}, optional=dict.fromkeys(FINALIZERS, ITEMS | VALUES))
BODIES = st.fixed_dictionaries({}, optional={"metadata": METADATA, "spec": SPECS, "status": VALUES, "$patch": VALUES})
PATHS = st.sampled_from(
    ["", "/", "/spec", "/spec/containers/0", "/spec/containers/-", "/spec/containers/9/x", "/a/b", "a"]
)
OPERATIONS = st.lists(
    st.fixed_dictionaries(
        {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test", "x"])},
        optional={"path": PATHS | VALUES, "from": PATHS | VALUES, "value": VALUES},
    ),
    max_size=4,
)


def answered(ask: Callable[[], object]) -> None:
    kept = copy.deepcopy(POD)
    status = 200
    try:
        ask()
    except Refused as refused:
        status = refused.status
    assert status in (200, 400, 409, 413, 422, 500)
    assert kept == POD


@settings(max_examples=300)
@given(BODIES)
def test_any_strategic_merge_patch_is_answered(patch: Any) -> None:
    answered(lambda: patching.strategic(POD, patch, "v1/Pod"))


@given(BODIES | VALUES)
def test_any_merge_patch_is_answered(patch: Any) -> None:
    answered(lambda: patching.merge(POD, patch))


@settings(max_examples=300)
@given(OPERATIONS | VALUES)
def test_any_json_patch_is_answered(patch: Any) -> None:
    answered(lambda: patching.json_patch(POD, patch))


@settings(max_examples=300)
@given(BODIES)
def test_any_applied_document_is_answered(body: Any) -> None:
    schema = Schema.builtin("v1", "Pod")
    assert schema
    wanted = {**body, "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    answered(lambda: applying.apply(POD, wanted, manager="a", force=False, schema=schema, time="t"))
    answered(lambda: applying.updated(POD, wanted, manager="a", schema=schema, time="t"))
    answered(lambda: applying.updated(None, wanted, manager="a", schema=schema, time="t"))
