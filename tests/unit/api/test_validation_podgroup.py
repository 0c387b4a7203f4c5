"""The rules of a PodGroup (SPEC §4), both sides of each: an object that breaks it, the nearest one that does not."""

import json
from dataclasses import replace
from typing import Any

import pytest

from muster.api import documents
from muster.api.model import Metadata
from muster.api.podgroup import MAX_DEPTH, MAX_SUBGROUPS
from muster.api.priorities import Priorities
from muster.api.queue import Queue, QueueSpec
from muster.api.validation import Context, Settings, Violation, validate

E, W = "error", "warning"
GROUPER = {"kai.scheduler/top-owner-metadata": "{}"}
Spec = dict[str, Any]
# Severity, path, a word of the message, a word of the hint.
Expected = tuple[str, str, str, str]


def document(spec: Spec, annotations: dict[str, str] | None = None) -> dict[str, Any]:
    metadata = {"name": "gang", "annotations": annotations or {}}
    return {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": metadata, "spec": spec}


def judge(spec: Spec, context: Context | None = None, **more: Any) -> list[Violation]:
    return validate(document(spec, more.pop("annotations", None)), context or Context(), **more).violations


def check(found: list[Violation], expected: list[Expected]) -> None:
    """Exactly these violations, in any order, each with its word and its hint."""
    assert sorted((one.severity, one.path) for one in found) == sorted(one[:2] for one in expected), found
    for severity, path, word, hint in expected:
        same_place = [one for one in found if (one.severity, one.path) == (severity, path)]
        assert any(word in one.message and hint in one.hint for one in same_place), same_place
    assert all(one.message for one in found)


def sub(name: str, parent: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"name": name, **({} if parent is None else {"parent": parent}), **fields}


def leaf(name: str, parent: str | None = None, pods: int = 2) -> dict[str, Any]:
    return sub(name, parent, minMember=pods)


def chain(depth: int) -> list[dict[str, Any]]:
    """So many SubGroups, each below the one before."""
    names = [f"g{at}" for at in range(depth)]
    return [
        *(sub(name, names[at - 1] if at else None) for at, name in enumerate(names[:-1])),
        leaf(names[-1], names[-2]),
    ]


A, B = leaf("a"), leaf("b")
BRANCH = [sub("x"), leaf("x0", "x"), leaf("x1", "x")]

NAMES: list[Any] = [
    pytest.param(
        {"subGroups": [A, {"minMember": 1}]},
        [(E, "spec.subGroups[1].name", "missing", "")],
        {"subGroups": [A, {"name": "b", "minMember": 1}]},
        id="name missing",
    ),
    pytest.param(
        {"subGroups": [A, {"name": None, "minMember": 1}]},
        [(E, "spec.subGroups[1].name", "missing", "")],
        {"subGroups": [A, leaf("null")]},
        id="name null",
    ),
    pytest.param(
        {"subGroups": [leaf("")]},
        [(E, "spec.subGroups[0].name", "empty", "")],
        {"subGroups": [leaf("0")]},
        id="name empty",
    ),
    *(
        pytest.param(
            {"subGroups": [leaf(name)]},
            [(E, "spec.subGroups[0].name", "DNS label", "")],
            {"subGroups": [leaf(legal)]},
            id=f"name {name!r} is no DNS label",
        )
        for name, legal in (
            ("Prefill", "prefill"),
            ("pre_fill", "pre-fill"),
            ("pre.fill", "prefill"),
            ("-a", "a"),
            ("a-", "a--a"),
            ("a b", "ab"),
            ("a\n", "a"),
            ("\u0000", "0"),
            ("größe", "grosse"),
            ("a" * 64, "a" * 63),
        )
    ),
    pytest.param(
        {"subgroups": [A, leaf("a")]},
        [(W, "spec.subgroups", "deprecated", "subGroups"), (E, "spec.subgroups[1].name", "already at", "own")],
        {"subgroups": [A, leaf("a2")]},
        id="name not unique, in the older spelling",
    ),
    pytest.param(
        {"subGroups": [A, A, B, A]},
        [
            (E, "spec.subGroups[1].name", "spec.subGroups[0]", ""),
            (E, "spec.subGroups[3].name", "spec.subGroups[0]", ""),
        ],
        {"subGroups": [A, leaf("a1"), B, leaf("a3")]},
        id="name not unique, every time",
    ),
]

PARENTS: list[Any] = [
    pytest.param(
        {"subGroups": [sub("decode"), leaf("d0", "decode"), leaf("d1", "deocde")]},
        [(E, "spec.subGroups[2].parent", "deocde", "did you mean decode?")],
        {"subGroups": [sub("decode"), leaf("d0", "decode"), leaf("d1", "decode")]},
        id="parent unknown",
    ),
    pytest.param(
        {"subGroups": [leaf("d0", "decode"), leaf("d1")]},
        [(E, "spec.subGroups[0].parent", "no SubGroup", "leave parent out")],
        {"subGroups": [leaf("d0", ""), leaf("d1")]},
        id="parent unknown, nothing is near",
    ),
    pytest.param(
        {"subGroups": [A, sub("x", "x")]},
        [(E, "spec.subGroups[1].parent", "x → x", "")],
        {"subGroups": [A, sub("x"), leaf("y", "x")]},
        id="its own parent",
    ),
    pytest.param(
        {"subGroups": [sub("x", "z"), sub("y", "x"), sub("z", "y"), leaf("w", "z")]},
        [(E, "spec.subGroups[0].parent", "x → z → y → x", "no parent")],
        {"subGroups": [sub("x"), sub("y", "x"), sub("z", "y"), leaf("w", "z")]},
        id="a cycle of three, and the cycle is said",
    ),
    pytest.param(
        {"subGroups": [sub("a", "b"), sub("b", "a"), sub("c", "d"), sub("d", "c")]},
        [(E, "spec.subGroups[0].parent", "a → b → a", ""), (E, "spec.subGroups[2].parent", "c → d → c", "")],
        {"subGroups": [leaf("a", "b"), sub("b"), leaf("c", "d"), sub("d")]},
        id="two cycles",
    ),
]

MINIMUMS: list[Any] = [
    pytest.param(
        {"minMember": 3, "minSubGroup": 2, "subGroups": [A, B]},
        [(E, "spec.minMember", "both", "keep one"), (E, "spec.minSubGroup", "both", "")],
        {"minMember": 0, "minSubGroup": 2, "subGroups": [A, B]},
        id="both at the root; minMember: 0 is the same as unset",
    ),
    pytest.param(
        {"minMember": 4, "minSubGroup": 2, "subGroups": [A, B]},
        [(E, "spec.minMember", "both", "remove minMember"), (E, "spec.minSubGroup", "both", "remove minMember")],
        {"minSubGroup": 2, "subGroups": [A, B]},
        id="both at the root, and they say the same",
    ),
    pytest.param(
        {"subGroups": [sub("x", minMember=4, minSubGroup=1), *BRANCH[1:]]},
        [(E, "spec.subGroups[0].minMember", "both", "2 pods"), (E, "spec.subGroups[0].minSubGroup", "both", "")],
        {"subGroups": [sub("x", minMember=0, minSubGroup=1), *BRANCH[1:]]},
        id="both at a branch; minMember: 0 is the same as unset",
    ),
    pytest.param(
        {"subGroups": [sub("x", minMember=4, minSubGroup=1)]},
        [
            (E, "spec.subGroups[0].minMember", "both", "keep minMember"),
            (E, "spec.subGroups[0].minSubGroup", "no children", "minMember"),
        ],
        {"subGroups": [sub("x", minMember=4)]},
        id="both at a leaf",
    ),
    pytest.param(
        {"subGroups": [A, sub("b")]},
        [(E, "spec.subGroups[1].minMember", "missing", "pods")],
        {"subGroups": [A, sub("b", minMember=1)]},
        id="leaf without minMember",
    ),
    pytest.param(
        {"subGroups": [A, sub("b", minSubGroup=1)]},
        [(E, "spec.subGroups[1].minSubGroup", "leaf", "minMember")],
        {"subGroups": [A, sub("b", minSubGroup=1), leaf("b0", "b")]},
        id="leaf with minSubGroup",
    ),
    pytest.param(
        {"subGroups": [sub("x", minMember=2), *BRANCH[1:], leaf("x2", "x")]},
        [(E, "spec.subGroups[0].minMember", "leaves only", "minSubGroup: 1")],
        {"subGroups": [sub("x", minSubGroup=1), *BRANCH[1:], leaf("x2", "x")]},
        id="branch with minMember: the minSubGroup of as many pods",
    ),
    pytest.param(
        {"subGroups": [sub("x", minMember=6), *BRANCH[1:], leaf("x2", "x")]},
        [(E, "spec.subGroups[0].minMember", "3 children", "all 3 children")],
        {"subGroups": [sub("x"), *BRANCH[1:], leaf("x2", "x")]},
        id="branch with minMember: all of them",
    ),
    pytest.param(
        {"subGroups": [sub("x", minMember=2), leaf("x0", "x", 1), leaf("x1", "x", 4)]},
        [(E, "spec.subGroups[0].minMember", "leaves only", "minSubGroup: 2")],
        {"subGroups": [sub("x", minMember=0), leaf("x0", "x", 1), leaf("x1", "x", 4)]},
        id="branch with minMember: the older meaning; minMember: 0 says nothing",
    ),
    pytest.param(
        {"subGroups": [sub("x", minMember=99), *BRANCH[1:]]},
        [(E, "spec.subGroups[0].minMember", "leaves only", "minSubGroup")],
        {"subGroups": [sub("x", minSubGroup=2), *BRANCH[1:]]},
        id="branch with minMember that no minSubGroup says",
    ),
    pytest.param(
        {"minSubGroup": 1},
        [(E, "spec.minSubGroup", "no SubGroups", "minMember")],
        {"minMember": 1},
        id="minSubGroup on a flat root",
    ),
    pytest.param(
        {"minSubGroup": 1, "subGroups": []},
        [(E, "spec.minSubGroup", "no SubGroups", "minMember")],
        {"minSubGroup": 1, "subGroups": [A]},
        id="minSubGroup over an empty list",
    ),
    pytest.param(
        {"minSubGroup": 3, "subGroups": [A, B]},
        [(E, "spec.minSubGroup", "2 direct children", "at most 2")],
        {"minSubGroup": 2, "subGroups": [A, B]},
        id="minSubGroup over the children of the root",
    ),
    pytest.param(
        {"minSubGroup": 3, "subGroups": [A, *BRANCH]},
        [(E, "spec.minSubGroup", "2 direct children", "at most 2")],
        {"minSubGroup": 2, "subGroups": [A, *BRANCH]},
        id="grandchildren do not count",
    ),
    pytest.param(
        {"subGroups": [sub("x", minSubGroup=3), *BRANCH[1:]]},
        [(E, "spec.subGroups[0].minSubGroup", "2 direct children", "at most 2")],
        {"subGroups": [sub("x", minSubGroup=2), *BRANCH[1:]]},
        id="minSubGroup over the children of a branch",
    ),
    pytest.param(
        {"minMember": -1}, [(E, "spec.minMember", "negative", "")], {"minMember": 1}, id="minMember < 0 at a flat root"
    ),
    pytest.param(
        {"minSubGroup": -1, "subGroups": [A]},
        [(E, "spec.minSubGroup", "negative", "")],
        {"minSubGroup": 1, "subGroups": [A]},
        id="minSubGroup < 0 at the root",
    ),
    pytest.param(
        {"subGroups": [leaf("a", pods=-1)]},
        [(E, "spec.subGroups[0].minMember", "negative", "")],
        {"subGroups": [leaf("a", pods=1)]},
        id="minMember < 0 at a leaf",
    ),
    pytest.param(
        {"subGroups": [sub("x", minSubGroup=-2147483648), *BRANCH[1:]]},
        [(E, "spec.subGroups[0].minSubGroup", "negative", "")],
        {"subGroups": [sub("x", minSubGroup=1), *BRANCH[1:]]},
        id="minSubGroup < 0 at a branch",
    ),
    pytest.param(
        {"minMember": 2**31},
        [(E, "spec.minMember", "2147483647", "")],
        {"minMember": 2**31 - 1},
        id="minMember is an int32",
    ),
]

FIELDS: list[Any] = [
    pytest.param(
        {"preemptibility": "semi-preemptable"},
        [(E, "spec.preemptibility", "must be one of", "did you mean semi-preemptible?")],
        {"preemptibility": "semi-preemptible"},
        id="preemptibility",
    ),
    pytest.param(
        {"preemptibility": "Preemptible"},
        [(E, "spec.preemptibility", "must be one of", "did you mean preemptible?")],
        {"preemptibility": ""},
        id="preemptibility: case; empty is unset",
    ),
    pytest.param(
        {"schedulingBackoff": 0},
        [(E, "spec.schedulingBackoff", "-1, 1", "")],
        {"schedulingBackoff": 1},
        id="schedulingBackoff 0",
    ),
    pytest.param(
        {"schedulingBackoff": 2},
        [(E, "spec.schedulingBackoff", "-1, 1", "")],
        {"schedulingBackoff": -1},
        id="schedulingBackoff 2",
    ),
    pytest.param(
        {"preemptionDelay": "5 minutes"},
        [(E, "spec.preemptionDelay", "duration", "30s")],
        {"preemptionDelay": "5m"},
        id="preemptionDelay",
    ),
    pytest.param(
        {"stalenessGracePeriod": 60},
        [(E, "spec.stalenessGracePeriod", "text", '"60s"')],
        {"stalenessGracePeriod": "60s"},
        id="a duration that is a number",
    ),
    pytest.param(
        {"stalenessGracePeriod": "-"},
        [(E, "spec.stalenessGracePeriod", "duration", "")],
        {"stalenessGracePeriod": "-1s"},
        id="stalenessGracePeriod may be negative",
    ),
    pytest.param(
        {"stalenessGracePeriod": ""},
        [(E, "spec.stalenessGracePeriod", "duration", "")],
        {"stalenessGracePeriod": "0"},
        id="stalenessGracePeriod may be 0",
    ),
    pytest.param(
        {"minMember": "4"}, [(E, "spec.minMember", "whole number", "quotes")], {"minMember": 4}, id="number as text"
    ),
    pytest.param(
        {"minMember": 1.5}, [(E, "spec.minMember", "whole number", "")], {"minMember": 1}, id="number with a fraction"
    ),
    pytest.param(
        {"minMember": float("nan")}, [(E, "spec.minMember", "whole number", "")], {"minMember": None}, id="NaN"
    ),
    pytest.param({"minMember": True}, [(E, "spec.minMember", "whole number", "")], {"minMember": 1}, id="a boolean"),
    pytest.param({"queue": 5}, [(E, "spec.queue", "text", "quotes")], {"queue": "5"}, id="text that is a number"),
    pytest.param(
        {"markUnschedulable": "yes"},
        [(E, "spec.markUnschedulable", "true or false", "")],
        {"markUnschedulable": False},
        id="a boolean that is text",
    ),
    pytest.param(
        {"subGroups": ["a"]}, [(E, "spec.subGroups[0]", "mapping", "")], {"subGroups": [A]}, id="an item that is text"
    ),
    pytest.param(
        {"topologyConstraint": "rack"},
        [(E, "spec.topologyConstraint", "mapping", "")],
        {"topologyConstraint": {}},
        id="a constraint that is text",
    ),
    pytest.param(
        {"minMembers": 4},
        [(E, "spec.minMembers", "known field", "did you mean minMember?")],
        {"minMember": 4},
        id="unknown field",
    ),
    pytest.param(
        {"subGroups": [sub("a", minmember=1, minMember=1)]},
        [(E, "spec.subGroups[0].minmember", "known field", "did you mean minMember?")],
        {"subGroups": [A]},
        id="unknown field of a SubGroup",
    ),
    pytest.param(
        {"topologyConstraint": {"topology": "dc", "requiredTopologyLevels": "x", "requiredTopologyLevel": "x"}},
        [
            (
                E,
                "spec.topologyConstraint.requiredTopologyLevels",
                "known field",
                "did you mean requiredTopologyLevel?",
            )
        ],
        {"topologyConstraint": {"topology": "dc", "requiredTopologyLevel": "x"}},
        id="unknown field of a constraint",
    ),
    pytest.param(
        {"wholly-unlike": 4}, [(E, "spec.wholly-unlike", "known field", "")], {}, id="unknown field, nothing is near"
    ),
    pytest.param(
        {"subGroups": [A], "subgroups": [B]},
        [(E, "spec.subgroups", "both", "subGroups")],
        {"subGroups": [A, B]},
        id="subGroups and subgroups",
    ),
]


KEEP = 'metadata.annotations["muster.dev/keep"]'


@pytest.mark.parametrize(
    ("spec", "keep", "expected"),
    [
        pytest.param({"subGroups": BRANCH}, ".", [], id="the root"),
        pytest.param({"subGroups": BRANCH}, " x , .", [], id="several"),
        pytest.param({"subGroups": [A, *BRANCH]}, "a", [(E, KEEP, '"a" is a leaf', "name a branch")], id="a leaf"),
        pytest.param({"minMember": 2}, ".", [(E, KEEP, "has no SubGroups", "remove")], id="a flat gang"),
        pytest.param({"subGroups": BRANCH}, "X", [(E, KEEP, "no SubGroup is called", "mean x")], id="nearly a name"),
        pytest.param({"subGroups": BRANCH}, "far", [(E, KEEP, "no SubGroup", "separated")], id="an unknown name"),
        pytest.param({"subGroups": BRANCH}, "", [(E, KEEP, "a name is missing", "")], id="empty"),
        pytest.param(
            {"subGroups": BRANCH},
            ",".join(f"n{number}" for number in range(40)),
            [*[(E, KEEP, "no SubGroup", "")] * 25, (E, KEEP, "15 more", "")],
            id="many",
        ),
        pytest.param({"subGroups": BRANCH}, ".,,", [(E, KEEP, "a name is missing", "")], id="an empty name"),
    ],
)
def test_only_branches_and_the_root_keep_their_children(spec: Spec, keep: str, expected: list[Expected]) -> None:
    """The annotation names roots and branches, and says what to write where it does not."""
    check(judge(spec, annotations={"muster.dev/keep": keep}), expected)


@pytest.mark.parametrize(("broken", "expected", "legal"), [*NAMES, *PARENTS, *MINIMUMS, *FIELDS])
def test_an_error_and_the_nearest_legal_object(broken: Spec, expected: list[Expected], legal: Spec) -> None:
    """The broken object has exactly these violations; the legal one has no error."""
    check(judge(broken), expected)
    assert [one for one in judge(legal) if one.severity == E] == []


def test_every_hint_is_one_where_the_spec_promises_it() -> None:
    """A branch with minMember and a root with both come with a way out."""
    spec = {"minMember": 3, "subGroups": [sub("x", minMember=7), *BRANCH[1:]]}
    assert all(one.hint for one in judge(spec))
    assert len(judge(spec)) == 2


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(
            {"minMember": 9, "subGroups": [A, B]},
            [(W, "spec.minMember", "floor", "it counts pods, and all 2 direct children are required")],
            id="counts pods",
        ),
        pytest.param(
            {"minMember": 2, "subGroups": [A, B]},
            [(W, "spec.minMember", "floor", "did you mean minSubGroup: 2?")],
            id="as many as there are children",
        ),
        pytest.param(
            {"minMember": 1, "subGroups": [A, *BRANCH]},
            [(W, "spec.minMember", "floor", "did you mean minSubGroup: 1?")],
            id="fewer than there are children",
        ),
        pytest.param({"subGroups": [A, B]}, [], id="no minMember"),
        pytest.param({"minMember": 2}, [], id="no SubGroups"),
    ],
)
def test_root_minmember_together_with_subgroups_is_a_floor(spec: Spec, expected: list[Expected]) -> None:
    """A warning whose hint says what is counted, and asks about minSubGroup when the number could be one."""
    check(judge(spec), expected)


def test_a_floor_over_the_number_of_children_is_not_taken_for_a_number_of_children() -> None:
    """Only a number that could count children brings the question."""
    (found,) = judge({"minMember": 3, "subGroups": [A, B]})
    assert "did you mean" not in found.hint


ZEROS: list[Any] = [
    pytest.param({"minMember": 0}, "spec.minMember", id="flat root"),
    pytest.param({"subGroups": [A, leaf("b", pods=0)]}, "spec.subGroups[1].minMember", id="leaf"),
    pytest.param({"minSubGroup": 0, "subGroups": [A]}, "spec.minSubGroup", id="root"),
    pytest.param({"subGroups": [sub("x", minSubGroup=0), *BRANCH[1:]]}, "spec.subGroups[0].minSubGroup", id="branch"),
    pytest.param(
        {"minMember": 0, "minSubGroup": 0, "subGroups": [A]}, "spec.minSubGroup", id="root, beside minMember: 0"
    ),
]


@pytest.mark.parametrize(("spec", "path"), ZEROS)
@pytest.mark.parametrize(
    ("setting", "annotations", "severity"),
    [
        pytest.param("", {}, E, id="default"),
        pytest.param("Deny", {}, E, id="Deny"),
        pytest.param("Warn", {}, W, id="Warn"),
        pytest.param("Allow", {}, None, id="Allow"),
        pytest.param("Deny", GROUPER, W, id="Deny, but the grouper wrote it"),
        pytest.param("Warn", GROUPER, W, id="Warn, and the grouper wrote it"),
    ],
)
def test_zero_minimum(spec: Spec, path: str, setting: str, annotations: dict[str, str], severity: str | None) -> None:
    """By configuration; in PodGroups that the grouper wrote it is a warning."""
    context = Context(settings=Settings(zero_minimum=setting)) if setting else Context()
    expected = [(severity, path, "minimum of 0", "")] if severity else []
    check(judge(spec, context, annotations=annotations), expected)


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"minMember": 1}, id="flat root"),
        pytest.param({"minMember": 0, "minSubGroup": 1, "subGroups": [A]}, id="minMember: 0 beside minSubGroup"),
        pytest.param({"subGroups": [sub("x", minMember=0, minSubGroup=1), *BRANCH[1:]]}, id="the same in a branch"),
    ],
)
def test_no_zero_minimum(spec: Spec) -> None:
    """`minMember: 0` beside `minSubGroup` is the same as unset."""
    check(judge(spec), [])


@pytest.mark.parametrize(
    ("version", "kind", "severity"),
    [
        pytest.param("scheduler.grove.io/v1alpha1", "PodGang", W, id="a PodGang"),
        pytest.param("batch/v1", "PodGang", E, id="something else of that name"),
        pytest.param("scheduler.grove.io/v1alpha1", "PodClique", E, id="something else of Grove"),
    ],
)
def test_grove_lowers_minimums_to_zero(version: str, kind: str, severity: str) -> None:
    """GREP-393: a PodGang that is placed has minimums of 0, so that nothing of it is terminated."""
    owner = {"apiVersion": version, "kind": kind, "name": "g", "uid": "u"}
    document = {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "g", "ownerReferences": [owner]},
        "spec": {"minMember": 0, "subGroups": [leaf("a", pods=0), leaf("b", pods=0)]},
    }
    found = validate(document, Context()).violations
    assert [(one.severity, one.path) for one in found] == [
        (severity, f"spec.subGroups[{index}].minMember") for index in range(2)
    ]


def test_the_grouper_gets_no_other_leniency() -> None:
    """Only a zero minimum is a warning in what the grouper wrote."""
    spec = {"minMember": 4, "minSubGroup": 3, "subGroups": [A, sub("b", minSubGroup=1)]}
    assert judge(spec, annotations=GROUPER) == judge(spec)
    assert any(one.severity == E for one in judge(spec))


def test_the_deprecated_spelling_is_a_warning() -> None:
    """`subgroups` is read as `subGroups`, and violations name it as it is spelled."""
    check(judge({"subgroups": [A, B]}), [(W, "spec.subgroups", "deprecated", "subGroups")])
    check(
        judge({"minSubGroup": 2, "subgroups": [sub("a")]}),
        [
            (W, "spec.subgroups", "deprecated", ""),
            (E, "spec.minSubGroup", "1 direct child", ""),
            (E, "spec.subgroups[0].minMember", "missing", ""),
        ],
    )


@pytest.mark.parametrize("field", ["parallelism", "completions", "backoffLimit"])
def test_fields_of_other_kinds_are_ignored_with_a_warning(field: str) -> None:
    """They are accepted in a spec (SPEC §2), of the right type only."""
    check(judge({field: 3}), [(W, f"spec.{field}", "ignored", "")])
    check(judge({field: 0}), [(W, f"spec.{field}", "ignored", "")])
    check(judge({field: "3"}), [(E, f"spec.{field}", "whole number", "")])


def test_without_strictness_unknown_fields_pass() -> None:
    """Only unknown fields: a wrong type stays an error."""
    check(judge({"minMembers": 4}, strict=False), [])
    check(judge({"minMember": "4"}, strict=False), [(E, "spec.minMember", "whole number", "")])


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({"metadata": {"name": "a", "managedFields": [{}], "ownerReference": 1}}, id="metadata"),
        pytest.param({"status": {"phase": "Running", "running": 4, "subGroups": [{"name": "a", "x": 1}]}}, id="status"),
    ],
)
def test_unknown_fields_of_metadata_and_status_are_fine(more: dict[str, Any]) -> None:
    """Strictness concerns the spec of our kinds."""
    assert validate({**document({}), **more}, Context()).violations == []


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        pytest.param({"metadata": {}}, [(E, "metadata.name", "missing", "name")], id="no name"),
        pytest.param({"metadata": None}, [(E, "metadata.name", "missing", "name")], id="no metadata"),
        pytest.param({"metadata": {"generateName": "a-"}}, [], id="generateName"),
        pytest.param({"metadata": {"name": "A_b"}}, [(E, "metadata.name", "DNS name", "")], id="bad name"),
        pytest.param({"metadata": {"name": "a.b-c"}}, [], id="a DNS name has dots"),
        pytest.param({"metadata": {"name": "a" * 254}}, [(E, "metadata.name", "253", "")], id="long name"),
        pytest.param({"metadata": {"name": "a" * 253}}, [], id="longest name"),
        pytest.param(
            {"metadata": {"name": "a", "namespace": "a.b"}},
            [(E, "metadata.namespace", "DNS label", "")],
            id="bad namespace",
        ),
        pytest.param({"metadata": {"name": "a", "namespace": "a-b"}}, [], id="namespace"),
        pytest.param({"metadata": []}, [(E, "metadata", "mapping", "")], id="metadata is a list"),
        pytest.param({"specs": {}}, [(E, "specs", "known field", "did you mean spec?")], id="unknown field at the top"),
        pytest.param({"spec": "text"}, [(E, "spec", "mapping", "")], id="spec is text"),
        pytest.param({"spec": None}, [], id="no spec is a gang of one pod"),
    ],
)
def test_the_object_around_the_spec(more: dict[str, Any], expected: list[Expected]) -> None:
    """A name that the API server would accept, and nothing unknown at the top."""
    check(validate({**document({}), **more}, Context()).violations, expected)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param("text", [(E, "", "not a Kubernetes object", "")], id="text"),
        pytest.param(None, [(E, "", "not a Kubernetes object", "")], id="nothing"),
        pytest.param({}, [(E, "apiVersion", "missing", "")], id="empty"),
        pytest.param({"apiVersion": "v1"}, [(E, "kind", "missing", "")], id="no kind"),
        pytest.param(
            {"apiVersion": "scheduling.run.ai/v2", "kind": "PodGroup"},
            [(E, "apiVersion", "PodGroup", "scheduling.run.ai/v2alpha2")],
            id="wrong version",
        ),
        pytest.param(
            {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "Podgroup"},
            [(E, "kind", "Podgroup", "did you mean PodGroup?")],
            id="misspelled kind",
        ),
        pytest.param({"apiVersion": "apps/v1", "kind": "Deployment"}, [], id="another's kind"),
    ],
)
def test_what_is_no_object_of_ours(given: Any, expected: list[Expected]) -> None:
    """A document that is no object is an error; an object of someone else is not ours to judge."""
    judged = validate(given, Context())
    check(judged.violations, expected)
    assert judged.kind is None


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"x": 1}}, id="Pod"),
        pytest.param({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}}, id="Node"),
        pytest.param(
            {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "a"}, "value": 5},
            id="PriorityClass",
        ),
        pytest.param(
            {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "a"}, "spec": {}},
            id="PodDisruptionBudget",
        ),
    ],
)
def test_core_kinds_are_read_leniently(given: dict[str, Any]) -> None:
    """Our rules say nothing about the kinds that Kubernetes owns."""
    judged = validate(given, Context())
    assert judged.violations == []
    assert judged.kind is not None


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"subGroups": chain(MAX_DEPTH)}, [], id="depth 64"),
        pytest.param(
            {"subGroups": chain(MAX_DEPTH + 1)}, [(E, "spec.subGroups[64]", "65 levels deep", "")], id="depth 65"
        ),
        pytest.param(
            {"subGroups": chain(MAX_SUBGROUPS)[::-1]},
            [(E, "spec.subGroups[0]", "10,000 levels deep", "")],
            id="depth 10,000",
        ),
        pytest.param({"subGroups": [leaf(f"g{at}") for at in range(MAX_SUBGROUPS)]}, [], id="10,000 SubGroups"),
        pytest.param(
            {"subGroups": [leaf(f"g{at}") for at in range(MAX_SUBGROUPS + 1)]},
            [(E, "spec.subGroups", "10,001", "")],
            id="10,001 SubGroups",
        ),
    ],
)
def test_sizes(spec: Spec, expected: list[Expected]) -> None:
    """At most 10,000 SubGroups, at most 64 levels of them."""
    check(judge(spec), expected)


def test_depth_is_told_beside_a_field_that_could_not_be_read() -> None:
    """One mistake hides no other."""
    too_deep = chain(MAX_DEPTH + 1)
    too_deep[-1]["minMember"] = "x"
    check(
        judge({"subGroups": too_deep}),
        [(E, "spec.subGroups[64]", "65 levels deep", ""), (E, "spec.subGroups[64].minMember", "whole number", "")],
    )


def test_too_many_subgroups_that_are_none_are_an_answer() -> None:
    """A list that is too long is never read past its checks."""
    found = judge({"subGroups": [{"name": None}, "text", {"name": "b", "minMember": "x"}, *[A] * MAX_SUBGROUPS]})
    assert "spec.subGroups" in {one.path for one in found}
    assert {one.severity for one in found} == {E}


@pytest.mark.parametrize(
    ("padding", "refused"),
    [pytest.param(1024 * 1024, True, id="over 1 MiB"), pytest.param(1023 * 1024, False, id="below")],
)
def test_an_object_over_1_mib_is_an_error(padding: int, refused: bool) -> None:
    """Read from a file it is refused before anything is made of it; an object that comes another way is judged too."""
    big = document({}, {"note": "x" * padding})
    (read,) = documents.read(json.dumps(big).encode())
    assert (read.value is None) is refused
    assert ["limit" in problem.message for problem in read.problems] == [True] * refused
    check(validate(big, Context()).violations, [(E, "", "limit", "")] * refused)


CLASSES = {"train": 50, "build": 100, "system-node-critical": 2_000_001_000}
AROUND = Context(queues={"team-a": Queue(), "default-queue": Queue()}, priority_classes=CLASSES)


def bounded(parent: str = "", most: str | None = None) -> Queue:
    annotations = {} if most is None else {"muster.dev/max-priority": most}
    return Queue(metadata=Metadata(annotations=annotations), spec=QueueSpec(parent_queue=parent))


def around(**queues: Queue) -> Context:
    return replace(AROUND, queues=queues)


@pytest.mark.parametrize(
    ("spec", "context", "expected"),
    [
        pytest.param({"queue": "team-a"}, AROUND, [], id="queue"),
        pytest.param(
            {"queue": "team-aa"},
            AROUND,
            [(W, "spec.queue", "team-aa", "did you mean team-a?")],
            id="queue missing",
        ),
        pytest.param({"queue": "zzz"}, AROUND, [(W, "spec.queue", "zzz", "held")], id="queue missing, nothing is near"),
        pytest.param(
            {"queue": "zzz"},
            replace(AROUND, queues={}),
            [(W, "spec.queue", "zzz", "there are no Queues: until there is one every queue name counts")],
            id="there is no queue at all, and nobody is held for it",
        ),
        pytest.param({}, AROUND, [], id="default queue"),
        pytest.param(
            {},
            replace(AROUND, default_queue="other"),
            [(W, "spec.queue", "other", "")],
            id="the configured default queue is missing",
        ),
        pytest.param({}, replace(AROUND, default_queue="team-a"), [], id="another default queue"),
        pytest.param({"priorityClassName": "train"}, AROUND, [], id="priority class"),
        pytest.param(
            {"priorityClassName": "trian"},
            AROUND,
            [(W, "spec.priorityClassName", "trian", "did you mean train?")],
            id="priority class missing",
        ),
        pytest.param({"queue": "zzz", "priorityClassName": "zzz"}, Context(), [], id="nothing is known of either"),
        pytest.param(
            {"priorityClassName": "system-node-critical"},
            AROUND,
            [(W, "spec.priorityClassName", "not be used in the namespace default", "priorities.systemNamespaces")],
            id="a system class in a namespace of a tenant",
        ),
        pytest.param(
            {"priorityClassName": "system-node-critical"},
            replace(AROUND, priorities=Priorities(system_namespaces=["default"])),
            [],
            id="a system class where it may be",
        ),
        pytest.param(
            {"queue": "q", "priorityClassName": "build"},
            around(q=bounded(most="99")),
            [(W, "spec.priorityClassName", '100 is above the 99 that the queue "q" admits', "muster.dev/max-priority")],
            id="above the bound of its queue",
        ),
        pytest.param(
            {"queue": "q", "priorityClassName": "build"}, around(q=bounded(most="100")), [], id="at the bound"
        ),
        pytest.param(
            {"queue": "q", "priorityClassName": "build"},
            around(q=bounded("top", "build"), top=bounded(most="train")),
            [(W, "spec.priorityClassName", "above the 50", "")],
            id="above the bound of the parent",
        ),
        pytest.param(
            {"queue": "q", "priorityClassName": "build"}, around(q=bounded("q", "high")), [], id="no readable bound"
        ),
    ],
)
def test_queue_and_priority_class(spec: Spec, context: Context, expected: list[Expected]) -> None:
    """What is missing may come later: a warning at admission."""
    check(judge(spec, context), expected)


def test_every_violation_in_one_answer() -> None:
    """Nothing stops at the first: types, unknown fields, structure, minimums, constraints, references."""
    spec = {
        "minMember": 4,
        "minSubGroup": 9,
        "queue": "nowhere",
        "preemptibility": "never",
        "schedulingBackoff": 7,
        "preemptionDelay": "soon",
        "paralellism": 1,
        "subGroups": [
            {"name": "a", "minMember": "two"},
            {"name": "a", "minMember": 1},
            {"name": "b", "parent": "nobody", "minMember": 0},
            {"name": "c", "parent": "d"},
            {"name": "d", "parent": "c"},
            {"name": "e", "minSubGroup": 1},
            {"name": "f", "minMember": 3},
            {"name": "g", "parent": "f", "minMember": -3},
        ],
        "topologyConstraints": {"subGroupSets": [{"subGroups": ["e", "h"], "constraint": {}}]},
    }
    check(
        judge(spec, AROUND),
        [
            (E, "spec.minMember", "both", ""),
            (E, "spec.minSubGroup", "direct children", ""),
            (W, "spec.queue", "nowhere", ""),
            (E, "spec.preemptibility", "must be one of", ""),
            (E, "spec.schedulingBackoff", "must be one of", ""),
            (E, "spec.preemptionDelay", "duration", ""),
            (E, "spec.paralellism", "known field", "parallelism"),
            (E, "spec.subGroups[0].minMember", "whole number", ""),
            (E, "spec.subGroups[1].name", "already", ""),
            (E, "spec.subGroups[2].parent", "nobody", ""),
            (E, "spec.subGroups[2].minMember", "minimum of 0", ""),
            (E, "spec.subGroups[3].parent", "cycle", ""),
            (E, "spec.subGroups[5].minSubGroup", "leaf", ""),
            (E, "spec.subGroups[6].minMember", "leaves only", ""),
            (E, "spec.subGroups[7].minMember", "negative", ""),
            (E, "spec.topologyConstraints.subGroupSets[0].subGroups[1]", '"h"', ""),
        ],
    )


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(
            {"subGroups": [sub("a", minMember="x")]},
            [(E, "spec.subGroups[0].minMember", "whole number", "")],
            id="a leaf whose minMember can't be read is not one without it",
        ),
        pytest.param(
            {"subGroups": [A, 5]}, [(E, "spec.subGroups[1]", "mapping", "")], id="nothing is said inside a bad item"
        ),
        pytest.param(
            {"minSubGroup": "x", "subGroups": [A]},
            [(E, "spec.minSubGroup", "whole number", "")],
            id="minSubGroup that can't be read",
        ),
        pytest.param(
            {"minSubGroup": 2, "subGroups": {"a": {"minMember": 1}}},
            [(E, "spec.subGroups", "list", "")],
            id="minSubGroup over SubGroups that can't be read",
        ),
        pytest.param(
            {"subGroups": [sub("Decode"), leaf("d0", "Decode")]},
            [(E, "spec.subGroups[0].name", "DNS label", "")],
            id="a branch with a bad name is no leaf, and its children have a parent",
        ),
        pytest.param(
            {"subGroups": [sub("5"), sub("d0", minMember=1, parent=5)]},
            [(E, "spec.subGroups[1].parent", "text", "quotes")],
            id="a branch whose child's parent can't be read is no leaf",
        ),
        pytest.param(
            {"subGroups": "x", "topologyConstraints": {"subGroups": {"a": {"requiredTopologyLevel": "rack"}}}},
            [(E, "spec.subGroups", "list", "")],
            id="a constraint on SubGroups that can't be read",
        ),
    ],
)
def test_what_could_not_be_read_has_no_follow_ups(spec: Spec, expected: list[Expected]) -> None:
    """One mistake is one violation: the rules judge nothing that is only missing because it could not be read."""
    check(judge(spec), expected)


@pytest.mark.parametrize(
    ("spec", "valid"),
    [
        pytest.param({"minMember": 9, "subGroups": [A, B]}, True, id="warnings alone"),
        pytest.param({"minSubGroup": 9, "subGroups": [A, B]}, False, id="an error"),
    ],
)
def test_warnings_alone_are_valid(spec: Spec, valid: bool) -> None:
    """A judgement is valid without errors."""
    judged = validate(document(spec), Context())
    assert judged.violations
    assert judged.valid is valid


@pytest.mark.parametrize(
    "stray", [None, 3, [], {"name": "z", "parent": 3, "minMember": 1}, {"name": "z", "parent": ["b"], "minMember": 1}]
)
def test_an_entry_that_could_not_be_read_hides_no_other_mistake(stray: Any) -> None:
    """Duplicate names, missing parents, cycles and doubled minimums are told beside it."""
    spec = {
        "minMember": 24,
        "minSubGroup": 9,
        "subGroups": [
            {"name": "b", "minMember": 1},
            {"name": "b", "minMember": 1},
            {"name": "c", "parent": "nope", "minMember": 1},
            {"name": "d", "parent": "e"},
            {"name": "e", "parent": "d"},
            stray,
        ],
    }
    paths = {one.path for one in judge(spec)}
    assert {
        "spec.minMember",
        "spec.minSubGroup",
        "spec.subGroups[1].name",
        "spec.subGroups[2].parent",
        "spec.subGroups[3].parent",
    } < paths
