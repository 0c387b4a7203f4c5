"""The rule of an update (SPEC §4): the minimum of a running semi-preemptible gang does not rise."""

from typing import Any

import pytest

from muster.api.validation import Context, Settings, Violation, validate

E, W = "error", "warning"
Spec = dict[str, Any]
RUNNING = {"subGroups": [{"name": "", "pods": {"total": 4, "placed": 1}}]}


def sub(name: str, parent: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"name": name, **({} if parent is None else {"parent": parent}), **fields}


def leaf(name: str, pods: int = 2, parent: str | None = None) -> dict[str, Any]:
    return sub(name, parent, minMember=pods)


def document(spec: Spec, status: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "gang"},
        "spec": {"preemptibility": "semi-preemptible", **spec},
        "status": status or {},
    }


def update(old: Spec, new: Spec, status: dict[str, Any] | None = RUNNING) -> list[Violation]:
    """The errors of replacing one by the other."""
    context = Context(settings=Settings(zero_minimum="Allow"))
    found = validate(document(new), context, document(old, status)).violations
    return [one for one in found if one.severity == E]


A, B, C = leaf("a"), leaf("b"), leaf("c")
BRANCH = [sub("x"), leaf("x0", 2, "x"), leaf("x1", 2, "x")]

RAISED: list[Any] = [
    pytest.param(
        {"subGroups": [leaf("a", 4), leaf("c", 1)]},
        {"subGroups": [leaf("b", 8), leaf("c", 1)]},
        ["spec.minSubGroup"],
        id="a required child replaced by a larger one",
    ),
    pytest.param(
        {"subGroups": [leaf("a", 4), leaf("c", 1)]},
        {"subGroups": [sub("x"), leaf("a", 4, "x"), leaf("b", 8, "x"), leaf("c", 1)]},
        ["spec.minSubGroup"],
        id="a required child moved beside a new one",
    ),
    pytest.param({"minMember": 2}, {"minMember": 3}, ["spec.minMember"], id="flat"),
    pytest.param({}, {"minMember": 2}, ["spec.minMember"], id="flat, from unset, which is 1"),
    pytest.param({"subGroups": [A, B]}, {"subGroups": [A, leaf("b", 3)]}, ["spec.subGroups[1].minMember"], id="leaf"),
    pytest.param(
        {"subGroups": [A, leaf("b", 0)]},
        {"subGroups": [A, leaf("b", 1)]},
        ["spec.subGroups[1].minMember"],
        id="leaf, from zero",
    ),
    pytest.param(
        {"minSubGroup": 1, "subGroups": [A, B]},
        {"minSubGroup": 2, "subGroups": [A, B]},
        ["spec.minSubGroup"],
        id="root",
    ),
    pytest.param(
        {"minSubGroup": 1, "subGroups": [A, B]},
        {"subGroups": [A, B]},
        ["spec.minSubGroup"],
        id="root, by removing minSubGroup",
    ),
    pytest.param(
        {"subGroups": [A, B]}, {"subGroups": [A, B, C]}, ["spec.minSubGroup"], id="root, by adding a required child"
    ),
    pytest.param(
        {"subGroups": BRANCH},
        {"subGroups": [*BRANCH, leaf("x2", 2, "x")]},
        ["spec.subGroups[0].minSubGroup"],
        id="branch, by adding a required child",
    ),
    pytest.param(
        {"subGroups": [sub("x", minSubGroup=1), *BRANCH[1:]]},
        {"subGroups": BRANCH},
        ["spec.subGroups[0].minSubGroup"],
        id="branch, by removing minSubGroup",
    ),
    pytest.param(
        {"subGroups": [sub("x", minSubGroup=1), *BRANCH[1:]]},
        {"subGroups": [*BRANCH[1:], sub("x", minSubGroup=2)]},
        ["spec.subGroups[2].minSubGroup"],
        id="branch, listed elsewhere",
    ),
    pytest.param(
        {"subGroups": [A, B]},
        {"minMember": 5, "subGroups": [A, B]},
        ["spec.minMember"],
        id="a floor above the minimums comes",
    ),
    pytest.param(
        {"minMember": 5, "subGroups": [A, B]},
        {"minMember": 6, "subGroups": [A, B]},
        ["spec.minMember"],
        id="the floor rises",
    ),
    pytest.param(
        {"minSubGroup": 1, "subGroups": [A, B]},
        {"minMember": 2, "subGroups": [A, B]},
        ["spec.minMember"],
        id="a floor instead of minSubGroup requires every child",
    ),
    pytest.param(
        {"subgroups": [A, B]},
        {"subGroups": [A, leaf("b", 3)]},
        ["spec.subGroups[1].minMember"],
        id="past a change of spelling",
    ),
    pytest.param(
        {"subGroups": [leaf("x", 3)]},
        {"subGroups": BRANCH},
        ["spec.subGroups[0].minSubGroup"],
        id="a leaf becomes a branch of more pods",
    ),
    pytest.param(
        {"minMember": 3}, {"subGroups": [A, B]}, ["spec.minSubGroup"], id="a flat gang becomes a tree of more pods"
    ),
    pytest.param(
        {"minSubGroup": 1, "subGroups": [A, B]},
        {"minSubGroup": 2, "subGroups": [leaf("a", 3), leaf("b", 3)]},
        ["spec.minSubGroup", "spec.subGroups[0].minMember", "spec.subGroups[1].minMember"],
        id="every node that rises is told",
    ),
    pytest.param(
        {"minSubGroup": 1, "subGroups": [leaf("a", 4), leaf("b", 4)]},
        {"minSubGroup": 2, "subGroups": [leaf("a", 2), leaf("b", 2)]},
        ["spec.minSubGroup"],
        id="more children, of as many pods in all",
    ),
    pytest.param(
        {"minMember": 9, "subGroups": [A, B]},
        {"minMember": 9, "subGroups": [A, B, C]},
        ["spec.minMember"],
        id="a required child, under a floor that stays",
    ),
]

KEPT: list[Any] = [
    pytest.param({"minMember": 3}, {"minMember": 3}, id="flat, the same"),
    pytest.param({"minMember": 3}, {"minMember": 2}, id="flat, lower"),
    pytest.param({"minMember": 1}, {}, id="flat, unset is 1"),
    pytest.param({"subGroups": [A, B]}, {"subGroups": [A, leaf("b", 1)]}, id="leaf, lower"),
    pytest.param({"subGroups": [A, B]}, {"minSubGroup": 1, "subGroups": [A, B]}, id="root, lower"),
    pytest.param({"subGroups": [A, B]}, {"minSubGroup": 2, "subGroups": [A, B]}, id="the same number, written out"),
    pytest.param(
        {"minSubGroup": 2, "subGroups": [A, B]}, {"minSubGroup": 2, "subGroups": [A, B, C]}, id="a surplus child comes"
    ),
    pytest.param({"subGroups": [A, B]}, {"subGroups": [A]}, id="a required child goes"),
    pytest.param(
        {"minSubGroup": 1, "subGroups": [A, B]}, {"minSubGroup": 1, "subGroups": [A, leaf("n", 99)]}, id="a new node"
    ),
    pytest.param({"subGroups": [A, B]}, {"subGroups": [B, A]}, id="another order"),
    pytest.param(
        {"subGroups": [A, B]}, {"minMember": 4, "subGroups": [A, B]}, id="a floor at the minimums adds nothing"
    ),
    pytest.param(
        {"minMember": 2, "subGroups": [A, B]}, {"minMember": 3, "subGroups": [A, B]}, id="a floor below the minimums"
    ),
    pytest.param({"minMember": 9, "subGroups": [A, B]}, {"subGroups": [A, B]}, id="the floor goes"),
    pytest.param({"subGroups": [leaf("x", 4)]}, {"subGroups": BRANCH}, id="a leaf becomes a branch of as many pods"),
    pytest.param({"minMember": 4}, {"subGroups": [A, B]}, id="a flat gang becomes a tree of as many pods"),
    pytest.param({"minMember": 2, "queue": "a"}, {"minMember": 2, "queue": "b"}, id="another field changes"),
]


@pytest.mark.parametrize(("old", "new", "paths"), RAISED)
def test_a_minimum_may_not_rise(old: Spec, new: Spec, paths: list[str]) -> None:
    """Every existing node whose effective minimum rises is an error, with a way out."""
    found = update(old, new)
    assert sorted(one.path for one in found) == sorted(paths)
    assert all("raises the minimum" in one.message and one.hint for one in found)


@pytest.mark.parametrize(("old", "new"), KEPT)
def test_what_raises_no_minimum_is_free(old: Spec, new: Spec) -> None:
    """Lower, equal, surplus and new nodes are no error."""
    assert update(old, new) == []


@pytest.mark.parametrize(("old", "new", "paths"), RAISED)
def test_a_create_is_free(old: Spec, new: Spec, paths: list[str]) -> None:
    """Without an old object there is nothing to compare with."""
    context = Context(settings=Settings(zero_minimum="Allow"))
    assert [one for one in validate(document(new, RUNNING), context).violations if one.severity == E] == []


def placed(**counts: int) -> dict[str, Any]:
    return {"subGroups": [{"name": name, "pods": {"total": 9, "placed": count}} for name, count in counts.items()]}


@pytest.mark.parametrize(
    ("status", "runs"),
    [
        pytest.param({}, False, id="no status"),
        pytest.param(placed(a=0, b=0), False, id="nothing is placed"),
        pytest.param({"subGroups": [{"name": "", "pods": {"total": 4, "pending": 4}}]}, False, id="pods that wait"),
        pytest.param({"subGroups": [{"name": "", "pods": {"succeeded": 4}}]}, False, id="pods that are done"),
        pytest.param(placed(a=0, b=1), True, id="one pod is placed"),
        pytest.param({"resourcesStatus": {"allocated": {"cpu": "0"}}}, False, id="nothing is held"),
        pytest.param({"resourcesStatus": {"allocated": {"cpu": "0", "gpu": 1}}}, True, id="something is held"),
    ],
)
def test_judged_by_the_status_of_the_old_object(status: dict[str, Any], runs: bool) -> None:
    """A gang without placed pods may change as it likes; what the new object says of its status does not matter."""
    old, new = {"minMember": 2}, {"minMember": 3}
    assert bool(update(old, new, status)) is runs
    claims = validate(document(new, {} if runs else RUNNING), Context(), document(old, status)).violations
    assert bool(claims) is runs


@pytest.mark.parametrize("preemptibility", ["preemptible", "non-preemptible", ""])
def test_only_semi_preemptible_gangs_are_bound(preemptibility: str) -> None:
    """The others have no core that could outgrow its quota."""
    assert update({"minMember": 2, "preemptibility": preemptibility}, {"minMember": 3}) == []


def test_an_old_object_that_makes_no_tree_binds_nothing() -> None:
    """An invalid gang can be mended."""
    assert update({"subGroups": [A, A]}, {"subGroups": [leaf("a", 9)]}) == []


def test_the_other_rules_hold_in_an_update_too() -> None:
    """A rise and another error are told together."""
    old = {"minSubGroup": 1, "subGroups": [A, B]}
    new = {"minSubGroup": 2, "subGroups": [A, B], "preemptionDelay": "x"}
    assert {one.path for one in update(old, new)} == {"spec.minSubGroup", "spec.preemptionDelay"}


def test_a_minimum_that_could_not_be_read_does_not_rise() -> None:
    """`minSubGroup: x` is one error, not also a minimum of all."""
    found = update({"minSubGroup": 1, "subGroups": [A, B]}, {"minSubGroup": "x", "subGroups": [A, B]})
    assert [(one.path, "whole number" in one.message) for one in found] == [("spec.minSubGroup", True)]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(
            {"minSubGroup": 1, "subGroups": [leaf("a", 4), leaf("c", 1)]},
            {"minSubGroup": 1, "subGroups": [leaf("a", 4)]},
            id="the cheap one of two, of which one is needed, goes",
        ),
        pytest.param(
            {"subGroups": [leaf("a", 4), leaf("c", 1)]},
            {"subGroups": [leaf("b", 4), leaf("c", 1)]},
            id="a required child replaced by one of the same size",
        ),
    ],
)
def test_children_may_go_and_be_replaced(old: Spec, new: Spec) -> None:
    """Scaling down is no rise, whichever child goes."""
    assert update(old, new) == []
