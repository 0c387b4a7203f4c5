"""Patches do what their RFCs say, and never change the document that they are given."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.embedded.objects import same_value
from muster.embedded.patching import Refused, json_patch, merge, strategic

SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab", max_size=2)
VALUES = st.recursive(
    SCALARS,
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.sampled_from("abc"), below, max_size=3),
    max_leaves=8,
)
DOCUMENTS = st.dictionaries(st.sampled_from("abcd"), VALUES, max_size=4)


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_nulls(below) for name, below in value.items() if below is not None}
    return value


# RFC 7386, appendix A: original, patch, result.
MERGES = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]


@pytest.mark.parametrize(("original", "patch", "result"), MERGES)
def test_the_examples_of_rfc_7386(original: Any, patch: Any, result: Any) -> None:
    kept = copy.deepcopy(original)
    assert merge(original, patch) == result
    assert original == kept


@pytest.mark.parametrize("patch", [[], "a", 1, True, None])
def test_a_merge_patch_that_is_no_object_is_refused(patch: Any) -> None:
    with pytest.raises(Refused) as refused:
        merge({}, patch)
    assert (refused.value.status, refused.value.reason) == (400, "BadRequest")


@given(DOCUMENTS, DOCUMENTS)
def test_a_merge_patch_twice_is_the_patch_once(document: Any, patch: Any) -> None:
    once = merge(document, patch)
    assert same_value(merge(once, patch), once)


@given(DOCUMENTS, DOCUMENTS)
def test_what_a_merge_patch_says_holds_afterwards(document: Any, patch: Any) -> None:
    """Every value of the patch stands in the result; null is nothing there."""
    result = merge(document, patch)

    def holds(value: Any, wanted: Any) -> bool:
        if isinstance(wanted, dict):
            return isinstance(value, dict) and all(
                name not in value if below is None else holds(value.get(name), below) for name, below in wanted.items()
            )
        return same_value(value, wanted)

    assert holds(result, patch)
    assert all(same_value(result[name], document[name]) for name in document if name not in patch)


# RFC 6902, appendix A: original, patch, result (None: it cannot be applied).
PATCHES = [
    ("add a member", {"foo": "bar"}, [("add", "/baz", "qux")], {"baz": "qux", "foo": "bar"}),
    ("add an item", {"foo": ["bar", "baz"]}, [("add", "/foo/1", "qux")], {"foo": ["bar", "qux", "baz"]}),
    ("remove a member", {"baz": "qux", "foo": "bar"}, [("remove", "/baz")], {"foo": "bar"}),
    ("remove an item", {"foo": ["bar", "qux", "baz"]}, [("remove", "/foo/1")], {"foo": ["bar", "baz"]}),
    ("replace", {"baz": "qux", "foo": "bar"}, [("replace", "/baz", "boo")], {"baz": "boo", "foo": "bar"}),
    (
        "move a member",
        {"foo": {"bar": "baz", "waldo": "fred"}, "qux": {"corge": "grault"}},
        [("move", "/qux/thud", None, "/foo/waldo")],
        {"foo": {"bar": "baz"}, "qux": {"corge": "grault", "thud": "fred"}},
    ),
    (
        "move an item",
        {"foo": ["all", "grass", "cows", "eat"]},
        [("move", "/foo/3", None, "/foo/1")],
        {"foo": ["all", "cows", "eat", "grass"]},
    ),
    (
        "test",
        {"baz": "qux", "foo": ["a", 2, "c"]},
        [("test", "/baz", "qux"), ("test", "/foo/1", 2)],
        {"baz": "qux", "foo": ["a", 2, "c"]},
    ),
    ("a test that fails", {"baz": "qux"}, [("test", "/baz", "bar")], None),
    ("add a nested one", {"foo": "bar"}, [("add", "/child", {"a": {}})], {"foo": "bar", "child": {"a": {}}}),
    ("add to nothing", {"foo": "bar"}, [("add", "/baz/bat", "qux")], None),
    ("escapes", {"/": 9, "~1": 10}, [("test", "/~01", 10)], {"/": 9, "~1": 10}),
    ("a text is no number", {"~1": 10}, [("test", "/~01", "10")], None),
    ("add a list", {"foo": ["bar"]}, [("add", "/foo/-", ["a", "b"])], {"foo": ["bar", ["a", "b"]]}),
    ("copy", {"a": {"b": 1}}, [("copy", "/c", None, "/a")], {"a": {"b": 1}, "c": {"b": 1}}),
    ("true is not 1", {"a": 1}, [("test", "/a", True)], None),
    ("remove nothing", {}, [("remove", "/a")], None),
    ("beyond the end", {"a": []}, [("add", "/a/1", 1)], None),
    ("no index", {"a": []}, [("add", "/a/x", 1)], None),
    ("into itself", {"a": {"b": {}}}, [("move", "/a/b/c", None, "/a")], None),
    ("from nowhere", {}, [("copy", "/a", None, "/b")], None),
    ("unknown", {}, [("jump", "/a", 1)], None),
    ("all or nothing", {"a": 1}, [("remove", "/a"), ("remove", "/a")], None),
]


def operation(kind: str, path: str, value: Any = None, start: str | None = None) -> dict[str, Any]:
    return {"op": kind, "path": path, "value": value} if start is None else {"op": kind, "path": path, "from": start}


@pytest.mark.parametrize(("original", "patch", "result"), [pytest.param(*case[1:], id=case[0]) for case in PATCHES])
def test_the_examples_of_rfc_6902(original: Any, patch: Any, result: Any) -> None:
    kept = copy.deepcopy(original)
    operations = [operation(*parts) for parts in patch]
    if result is None:
        with pytest.raises(Refused) as refused:
            json_patch(original, operations)
        assert (refused.value.status, refused.value.reason) == (422, "Invalid")
        assert refused.value.hint  # why, for who reads the log
    else:
        assert json_patch(original, operations) == result
    assert original == kept


@pytest.mark.parametrize(("patch", "status"), [({}, 400), ([1], 400), ([{}] * 10_001, 413), ([{"op": "add"}], 422)])
def test_what_is_no_json_patch_is_refused(patch: Any, status: int) -> None:
    with pytest.raises(Refused) as refused:
        json_patch({}, patch)
    assert refused.value.status == status


@given(DOCUMENTS, st.sampled_from("abcd"), VALUES)
def test_what_was_added_can_be_tested_moved_and_removed(document: Any, name: str, value: Any) -> None:
    """add, test, move and remove are each other's opposites."""
    added = json_patch(document, [operation("add", f"/{name}", value), operation("test", f"/{name}", value)])
    moved = json_patch(added, [operation("move", "/elsewhere", start=f"/{name}")])
    assert same_value(moved["elsewhere"], value)
    rest = {key: below for key, below in document.items() if key != name}
    assert same_value(json_patch(moved, [operation("remove", "/elsewhere")]), rest)


# Strategic merge patches


def pod(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}


A, B, C = ({"name": name, "image": name} for name in "abc")
TOLERATION = {"key": "a", "operator": "Exists"}
STRATEGIC = {
    "containers are known by name": (
        pod(containers=[A, B]),
        {"spec": {"containers": [{"name": "b", "image": "new"}]}},
        pod(containers=[A, {"name": "b", "image": "new"}]),
    ),
    "a new container comes first, as in the real one": (
        pod(containers=[A, B]),
        {"spec": {"containers": [C]}},
        pod(containers=[C, A, B]),
    ),
    "an order may be asked for": (
        pod(containers=[A, B]),
        {"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "c"}, {"name": "a"}], "containers": [C]}},
        pod(containers=[B, C, A]),
    ),
    "tolerations are one value": (
        pod(tolerations=[TOLERATION]),
        {"spec": {"tolerations": [{"key": "b"}]}},
        pod(tolerations=[{"key": "b"}]),
    ),
    "a container is deleted": (
        pod(containers=[A, B]),
        {"spec": {"containers": [{"name": "a", "$patch": "delete"}]}},
        pod(containers=[B]),
    ),
    "a list is replaced": (
        pod(containers=[A, B]),
        {"spec": {"containers": [{"$patch": "replace"}, C]}},
        pod(containers=[C]),
    ),
    "a map is replaced": (
        pod(nodeSelector={"a": "1"}),
        {"spec": {"nodeSelector": {"$patch": "replace", "b": "1"}}},
        pod(nodeSelector={"b": "1"}),
    ),
    "a map is emptied": (
        pod(nodeSelector={"a": "1"}),
        {"spec": {"nodeSelector": {"$patch": "delete"}}},
        pod(nodeSelector={}),
    ),
    "only the keys that are retained stay": (
        pod(volumes=[{"name": "v", "emptyDir": {}}]),
        {"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]}},
        pod(volumes=[{"name": "v", "hostPath": {"path": "/x"}}]),
    ),
    "env inside of a container": (
        pod(containers=[{**A, "env": [{"name": "X", "value": "1"}]}]),
        {"spec": {"containers": [{"name": "a", "env": [{"name": "X", "value": "2"}, {"name": "Y", "value": "3"}]}]}},
        pod(containers=[{**A, "env": [{"name": "X", "value": "2"}, {"name": "Y", "value": "3"}]}]),
    ),
    "ports are known by their number alone": (
        pod(containers=[{**A, "ports": [{"containerPort": 1, "protocol": "UDP"}]}]),
        {"spec": {"containers": [{"name": "a", "ports": [{"containerPort": 1, "name": "x"}]}]}},
        pod(containers=[{**A, "ports": [{"containerPort": 1, "protocol": "UDP", "name": "x"}]}]),
    ),
    "null removes": (pod(nodeName="n", containers=[A]), {"spec": {"nodeName": None}}, pod(containers=[A])),
}


@pytest.mark.parametrize(("original", "patch", "result"), STRATEGIC.values(), ids=STRATEGIC)
def test_a_strategic_merge_patch(original: Any, patch: Any, result: Any) -> None:
    kept = copy.deepcopy((original, patch))
    assert strategic(original, patch, "v1/Pod") == result
    assert strategic(original, patch, "Pod") == result
    assert (original, patch) == kept


def test_finalizers_and_owners_are_merged() -> None:
    original = {"metadata": {"finalizers": ["a", "b"], "ownerReferences": [{"uid": "1", "name": "x"}]}}
    patch = {"metadata": {"finalizers": ["c"], "ownerReferences": [{"uid": "1", "name": "y"}, {"uid": "2"}]}}
    merged = strategic(original, patch, "v1/Node")["metadata"]
    assert sorted(merged["finalizers"]) == ["a", "b", "c"]
    assert merged["ownerReferences"] == [{"uid": "1", "name": "y"}, {"uid": "2"}]
    less = strategic(original, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a", "x"]}}, "v1/Node")
    assert less["metadata"]["finalizers"] == ["b"]


def plain(value: Any) -> Any:
    """A patch without lists that a strategic merge would treat in its own way, and without null in new maps."""
    if isinstance(value, dict):
        return {name: plain(below) for name, below in value.items()}
    return json.dumps(value) if isinstance(value, list) else value


@given(DOCUMENTS, DOCUMENTS)
def test_without_lists_a_strategic_merge_patch_is_a_merge_patch(document: Any, patch: Any) -> None:
    document, patch = {"x": plain(document)}, {"x": plain(patch)}
    assert same_value(strategic(document, patch, "Unknown"), merge(document, patch))


@given(st.lists(st.sampled_from("abcdef"), unique=True), st.lists(st.sampled_from("abcdef"), unique=True))
def test_a_merged_list_has_every_item_once_and_each_side_in_its_order(old: list[str], new: list[str]) -> None:
    """The patch decides the order of what it names; the rest stays as it was."""
    patch = {"spec": {"containers": [{"name": name, "image": "new"} for name in new]}}
    merged = strategic(pod(containers=[{"name": name, "tty": True} for name in old]), patch, "v1/Pod")
    names = [item["name"] for item in merged["spec"]["containers"]]
    assert sorted(names) == sorted({*old, *new})
    assert [name for name in names if name in new] == new
    assert [name for name in names if name not in new] == [name for name in old if name not in new]
    assert all(("tty" in item) == (item["name"] in old) for item in merged["spec"]["containers"])
