"""The rules of a ResourceInterface that need no expression to be read (SPEC §9), both sides of each."""

from typing import Any

import pytest

from muster.api.interface import ResourceInterface
from muster.api.validation import Context, Violation, validate
from muster.api.validation.violation import Report

E, W = "error", "warning"
# Severity, path, a word of the message, a word of the hint.
Expected = tuple[str, str, str, str]
BY_LABEL = {"podClassifier": {"matchLabels": {"role": "a"}}}


def interface(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "kai.scheduler/v1",
        "kind": "ResourceInterface",
        "metadata": {"name": "ray"},
        "spec": {"targetGVK": {"group": "ray.io", "version": "v1", "kind": "RayCluster"}, **spec},
    }


def group(*subgroups: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """An interface of one PodGroup."""
    written = {"name": "cluster", **({"subgroups": list(subgroups)} if subgroups else {}), **fields}
    return interface(gangScheduling={"podGroups": [written]})


def entry(name: str = "head", **fields: Any) -> dict[str, Any]:
    return {"componentName": name, **fields}


def leaf(name: str = "head", **fields: Any) -> dict[str, Any]:
    return entry(name, **{**BY_LABEL, **fields})


def where(**expression: Any) -> dict[str, Any]:
    """An interface with one leaf whose pods match an expression on the label `role`."""
    return group(entry(podClassifier={"matchExpressions": [{"key": "role", **expression}]}))


def reference(name: str = "job", **fields: Any) -> dict[str, Any]:
    return {"name": name, "gvk": {"group": "batch", "version": "v1", "kind": "Job"}, **fields}


def check(found: list[Violation], expected: list[Expected]) -> None:
    """Exactly these violations, in any order, each with its word and its hint."""
    assert sorted((one.severity, one.path) for one in found) == sorted(one[:2] for one in expected), found
    for severity, path, word, hint in expected:
        same_place = [one for one in found if (one.severity, one.path) == (severity, path)]
        assert any(word in one.message and hint in one.hint for one in same_place), same_place


BY_INDEX = {"indexLabel": "index"}
BY_NAME = {"lookup": {"namePath": ".spec.job"}}
POD_GROUP = "spec.gangScheduling.podGroups[0]"
FIRST = f"{POD_GROUP}.subgroups[0]"
EXPRESSION = f"{FIRST}.podClassifier.matchExpressions[0]"

HEAD: list[Any] = [
    pytest.param(
        group(leaf(keep="all")),
        [(E, f"{FIRST}.keep", "no subgroups to keep together", "above")],
        group(leaf(), leaf("b"), keep="all"),
        id="a leaf keeps nothing",
    ),
    pytest.param(
        group(minMember=1, keep="all"),
        [(E, f"{POD_GROUP}.keep", "no subgroups to keep together", "above")],
        group(minMember=1),
        id="a flat PodGroup keeps nothing",
    ),
    pytest.param(
        group(leaf(), leaf("b"), keep="some"),
        [(E, f"{POD_GROUP}.keep", "is not all", "write all")],
        group(leaf(), leaf("b"), keep="$keep", minSubGroup=1),
        id="all, or an expression",
    ),
    *(
        pytest.param(
            interface(targetGVK={"group": "", "version": "v1", "kind": kind}),
            [(E, "spec.targetGVK.kind", "no target", "")],
            interface(targetGVK={"group": "example.com", "version": "v1", "kind": kind}),
            id=f"a {kind} is no target",
        )
        for kind in ("Secret", "ConfigMap")
    ),
    *(
        pytest.param(
            interface(targetGVK={"group": group_, "version": "v1", "kind": "Secret"}),
            [(E, "spec.targetGVK.group", "no API group", '""'), (E, "spec.targetGVK.kind", "no target", "")],
            interface(targetGVK={"version": "v1", "kind": "Pod"}),
            id=f"a Secret of group {group_}",
        )
        for group_ in ("v1", "core")
    ),
    pytest.param(
        interface(references=[{**reference(**BY_NAME), "gvk": {"group": "v1", "kind": "ConfigMap"}}]),
        [(E, "spec.references[0].gvk.group", "no API group", ""), (E, "spec.references[0].gvk.kind", "ConfigMap", "")],
        interface(references=[{**reference(**BY_NAME), "gvk": {"kind": "Pod"}}]),
        id="a reference to a ConfigMap of group v1",
    ),
    pytest.param(
        interface(targetGVK={"group": "ray.io"}),
        [(E, "spec.targetGVK.kind", "missing", "")],
        interface(targetGVK={"kind": "Pod", "version": "*"}),
        id="a target without a kind; the version may be *",
    ),
    pytest.param(
        {**interface(), "spec": {}},
        [(E, "spec.targetGVK", "missing", "")],
        interface(),
        id="no target; without gangScheduling it hands off",
    ),
    pytest.param(
        interface(action="handoff"),
        [(E, "spec.action", "must be one of", "did you mean Handoff?")],
        interface(action="Handoff"),
        id="unknown action",
    ),
    *(
        pytest.param(
            {**group(leaf()), "spec": {**group(leaf())["spec"], "action": action}},
            [(W, "spec.gangScheduling", action, "remove")],
            {**group(leaf()), "spec": {**group(leaf())["spec"], "action": "Group"}},
            id=f"gangScheduling is not used with action {action}",
        )
        for action in ("Handoff", "Skip", "Default")
    ),
    pytest.param(
        interface(let={"a-b": ".x"}),
        [(E, 'spec.let["a-b"]', "variable", "letters")],
        interface(let={"a_b": ".x"}),
        id="a name that is no variable",
    ),
    pytest.param(
        interface(let={"a": 5}), [(E, "spec.let.a", "text", "")], interface(let={"a": "5"}), id="let that is no text"
    ),
    pytest.param(
        interface(references=[reference("a-b", **BY_NAME)]),
        [(E, "spec.references[0].name", "form", "")],
        interface(references=[reference("a_b", **BY_NAME)]),
        id="a reference that is no variable",
    ),
    pytest.param(
        interface(let={"job": ".x"}, references=[reference("job", **BY_NAME)]),
        [(E, "spec.references[0].name", "spec.let.job", "rename")],
        interface(let={"job": ".x"}, references=[reference("job2", **BY_NAME)]),
        id="a reference and a variable of one name",
    ),
    pytest.param(
        interface(references=[reference("a", **BY_NAME), reference("a", **BY_NAME)]),
        [(E, "spec.references[1].name", "spec.references[0]", "rename")],
        interface(references=[reference("a", **BY_NAME), reference("b", **BY_NAME)]),
        id="two references of one name",
    ),
    pytest.param(
        interface(references=[reference()]),
        [(E, "spec.references[0]", "either lookup or list", "")],
        interface(references=[reference(list={"matchLabels": {"a": "b"}})]),
        id="a reference without a way",
    ),
    pytest.param(
        interface(references=[reference(**BY_NAME, list={"matchLabels": {"a": "b"}})]),
        [(E, "spec.references[0]", "either lookup or list", "")],
        interface(references=[reference(**BY_NAME)]),
        id="a reference with two ways",
    ),
    pytest.param(
        interface(references=[reference(lookup={"root": "node", "namePath": ".x"})]),
        [(E, "spec.references[0].lookup.root", "owner, pod", "")],
        interface(references=[reference(lookup={"root": "pod", "namePath": ".x"})]),
        id="a lookup from elsewhere",
    ),
    pytest.param(
        interface(references=[{**reference(**BY_NAME), "gvk": {"version": "v1", "kind": "Secret"}}]),
        [(E, "spec.references[0].gvk.kind", "Secret", "")],
        interface(references=[{**reference(**BY_NAME), "gvk": {"version": "v1", "kind": "Service"}}]),
        id="a reference to a Secret",
    ),
    pytest.param(
        interface(defaults={"preemptibility": "sometimes"}),
        [(E, "spec.defaults.preemptibility", "must be one of", "")],
        interface(defaults={"preemptibility": "semi-preemptible", "priorityClassName": "train"}),
        id="bad default",
    ),
    pytest.param(
        interface(targetGvk={"kind": "A"}),
        [(E, "spec.targetGvk", "known field", "did you mean targetGVK?")],
        interface(),
        id="unknown field",
    ),
]

TEMPLATES: list[Any] = [
    pytest.param(
        interface(gangScheduling={"podGroups": []}),
        [(E, "spec.gangScheduling.podGroups", "1 to", "")],
        interface(gangScheduling={"podGroups": [{"name": "a"}]}),
        id="no PodGroup",
    ),
    pytest.param(
        interface(gangScheduling={"podGroups": [{"name": "a"}, {"name": "a"}]}),
        [(E, "spec.gangScheduling.podGroups[1].name", "podGroups[0]", "")],
        interface(gangScheduling={"podGroups": [{"name": "a"}, {"name": "b"}]}),
        id="two PodGroups of one name",
    ),
    pytest.param(
        group(leaf(), members=[leaf()]),
        [(E, f"{POD_GROUP}.members", "both", "subgroups")],
        group(leaf(), leaf("workers")),
        id="subgroups and members",
    ),
    pytest.param(
        group(minMember=2, minMemberPath=".spec.n"),
        [(E, f"{POD_GROUP}.minMemberPath", "both", "keep one")],
        group(minMemberPath=[".spec.n", ".spec.m"]),
        id="minMember twice",
    ),
    pytest.param(
        group(leaf(), minSubGroup=1, minSubGroupPath=".spec.n"),
        [(E, f"{POD_GROUP}.minSubGroupPath", "both", "keep one")],
        group(leaf(), minSubGroupPath=".spec.n"),
        id="minSubGroup twice",
    ),
    pytest.param(
        group(minSubGroupPath=".spec.n"),
        [(E, f"{POD_GROUP}.minSubGroup", "no subgroups", "minMember")],
        group(minMember=".spec.n"),
        id="minSubGroup without subgroups",
    ),
    pytest.param(
        group(leaf(), minMember=2, minSubGroup=1),
        [(E, f"{POD_GROUP}.minMember", "both", "keep one")],
        group(leaf(), minSubGroup=1),
        id="minMember and minSubGroup",
    ),
    pytest.param(
        group(leaf(), minMember=2),
        [(E, f"{POD_GROUP}.minMember", "without subgroups", "minSubGroup")],
        group(leaf(minReplicas=2)),
        id="minMember beside subgroups",
    ),
    pytest.param(
        group(leaf(), replicasPath=".n"),
        [(E, f"{POD_GROUP}.replicasPath", "holds no pods", "leaves")],
        group(leaf(replicasPath=".n")),
        id="replicasPath beside subgroups",
    ),
    pytest.param(
        group(leaf(), segments=BY_INDEX),
        [(E, f"{POD_GROUP}.segments", "holds no pods", "leaves")],
        group(segments=BY_INDEX, replicasPath=".n"),
        id="segments beside subgroups",
    ),
    pytest.param(
        group(segments=BY_INDEX),
        [(E, f"{POD_GROUP}.replicasPath", "missing", "how many")],
        group(segments={**BY_INDEX, "indexFrom": "1"}, replicasPath=".n"),
        id="segments of nobody knows how many pods",
    ),
    pytest.param(
        group(resolve="FirstPositive", minMember=1),
        [(W, f"{POD_GROUP}.resolve", "there is none", "remove")],
        group(resolve="FirstPositive", minMemberPath=[".a", ".b"]),
        id="resolve of a PodGroup without paths",
    ),
    pytest.param(
        group(entry("rest", subgroups=[leaf("a")]), unmatchedPods="rest"),
        [(E, f"{POD_GROUP}.unmatchedPods", "has subgroups", "leaf")],
        group(entry("rest", subgroups=[leaf("a")]), unmatchedPods="a"),
        id="unmatched pods to a branch",
    ),
    pytest.param(
        group(leaf("a"), unmatchedPods="rest"),
        [(E, f"{POD_GROUP}.unmatchedPods", "no subgroup is called", "")],
        group(leaf("a"), leaf("$g.name", foreach=".g[] as $g"), unmatchedPods="rest"),
        id="unmatched pods to a subgroup that may come to be called so",
    ),
    pytest.param(
        group(unmatchedPods="rest"),
        [(E, f"{POD_GROUP}.unmatchedPods", '"rest"', "")],
        group(leaf("rest"), unmatchedPods="rest"),
        id="unmatched pods to a subgroup that is not there",
    ),
    pytest.param(
        group(podClassifier={}),
        [(E, f"{POD_GROUP}.podClassifier", "every pod", "matchLabels")],
        group(**BY_LABEL),
        id="a classifier of a PodGroup that matches every pod",
    ),
]

ENTRIES: list[Any] = [
    pytest.param(
        group(leaf("a"), leaf("b"), leaf("a")),
        [(E, f"{POD_GROUP}.subgroups[2].componentName", "subgroups[0]", "own")],
        group(leaf("a"), leaf("b"), leaf("a", foreach=".spec.x[] as $x")),
        id="two entries of one name",
    ),
    pytest.param(
        group(leaf("a", when=".x"), leaf("a")),
        [(E, f"{POD_GROUP}.subgroups[1].componentName", "subgroups[0]", "own")],
        group(leaf("a", when=".x"), leaf("a", when=".y")),
        id="two entries of one name, of which one has a condition",
    ),
    pytest.param(
        group(leaf("a", when=".x"), leaf("a", when=".y"), leaf("a", when=".x")),
        [(E, f"{POD_GROUP}.subgroups[2].componentName", "subgroups[0]", "own")],
        group(leaf("a", when=".x"), leaf("a", when=".y"), leaf("a", when=".z")),
        id="two entries of one name and one condition",
    ),
    pytest.param(
        group(leaf(groupByKeyPaths=".metadata.name")),
        [(E, f"{FIRST}.groupByKeyPaths", "only in members", "instanceKeyPaths")],
        group(leaf(), instanceKeyPaths=".metadata.name"),
        id="groupByKeyPaths in subgroups",
    ),
    pytest.param(
        group(entry(replicasPath=".n", segments=BY_INDEX, subgroups=[leaf()])),
        [(E, f"{FIRST}.replicasPath", "holds no pods", ""), (E, f"{FIRST}.segments", "holds no pods", "leaves")],
        group(entry(subgroups=[leaf(replicasPath=".n", segments=BY_INDEX)])),
        id="a branch with replicas and segments",
    ),
    pytest.param(
        group(leaf(segments={**BY_INDEX, "indexFrom": "x"}, replicasPath=".n")),
        [(E, f"{FIRST}.segments.indexFrom", "neither a count", "")],
        group(leaf(segments={**BY_INDEX, "indexFrom": ".x"}, replicasPath=".n")),
        id="a first index that is no count",
    ),
    pytest.param(
        group(leaf(resolve="FirstPositive", minReplicas=1)),
        [(W, f"{FIRST}.resolve", "there is none", "remove")],
        group(entry(resolve="FirstPositive", minSubGroupPath=".n", subgroups=[leaf()])),
        id="resolve without paths",
    ),
    pytest.param(
        group({**BY_LABEL}),
        [(E, f"{FIRST}.componentName", "missing", "")],
        group(leaf()),
        id="an entry without a name",
    ),
    pytest.param(
        group(leaf(foreach=".spec.groups[]")),
        [(E, f"{FIRST}.foreach", "as $variable", "$g")],
        group(leaf(foreach=".spec.groups[] as $g")),
        id="foreach without a variable",
    ),
    pytest.param(
        group(leaf(foreach=" as $g")),
        [(E, f"{FIRST}.foreach", "as $variable", "")],
        group(leaf(foreach="range(4) as $i ")),
        id="foreach without an expression",
    ),
    pytest.param(
        group(leaf(minReplicas="1", minReplicasPath=".spec.n")),
        [(E, f"{FIRST}.minReplicasPath", "both", "keep one")],
        group(leaf(minReplicas="1")),
        id="minReplicas twice",
    ),
    pytest.param(
        group(entry(minSubGroup=1, minSubGroupPath=".n", subgroups=[leaf()])),
        [(E, f"{FIRST}.minSubGroupPath", "both", "keep one")],
        group(entry(minSubGroup=1, subgroups=[leaf()])),
        id="minSubGroup of an entry twice",
    ),
    pytest.param(
        group(entry(minReplicas=1, subgroups=[leaf()])),
        [(E, f"{FIRST}.minReplicas", "holds no pods", "minSubGroup")],
        group(entry(minSubGroup=1, subgroups=[leaf(minReplicas=1)])),
        id="a branch with minReplicas",
    ),
    pytest.param(
        group(leaf(subgroups=[leaf("below")])),
        [(E, f"{FIRST}.podClassifier", "holds no pods", "leaves")],
        group(entry(subgroups=[leaf("below")])),
        id="a branch with a classifier",
    ),
    pytest.param(
        group(leaf(minSubGroupPath=".n")),
        [(E, f"{FIRST}.minSubGroup", "no subgroups", "minReplicas")],
        group(leaf(minReplicasPath=".n")),
        id="a leaf with minSubGroup",
    ),
    pytest.param(
        group(entry()),
        [(E, f"{FIRST}.podClassifier", "which pods", "matchLabels")],
        group(leaf()),
        id="a leaf without a classifier",
    ),
    pytest.param(
        group(entry(subgroups=[leaf("a"), entry("b")])),
        [(E, f"{FIRST}.subgroups[1].podClassifier", "which pods", "")],
        group(entry(subgroups=[leaf("a"), leaf("b")])),
        id="a nested leaf without a classifier",
    ),
    pytest.param(
        group(entry(podClassifier={"matchLabels": {}, "matchExpressions": []})),
        [(E, f"{FIRST}.podClassifier", "every pod", "")],
        group(leaf()),
        id="a classifier that matches every pod",
    ),
    pytest.param(
        group(leaf(resolve="LastPositive")),
        [(E, f"{FIRST}.resolve", "must be one of", "")],
        group(leaf(resolve="FirstPositive", minReplicasPath=[".n", ".m"])),
        id="bad resolve",
    ),
    pytest.param(
        group(leaf(topology={"requiredPath": ".a"}, requiredTopologyConstraintsPath=".a")),
        [(E, f"{FIRST}.requiredTopologyConstraintsPath", "also set", "keep one")],
        group(leaf(topology={"preferredPath": ".a"}, requiredTopologyConstraintsPath=".a")),
        id="the required level twice",
    ),
    pytest.param(
        group(leaf(topology={"preferredPath": ".a"}, preferredTopologyConstraintsPath=".a")),
        [(E, f"{FIRST}.preferredTopologyConstraintsPath", "also set", "keep one")],
        group(leaf(topology={"namePath": ".a"}, preferredTopologyConstraintsPath=".a")),
        id="the preferred level twice",
    ),
    pytest.param(
        group(leaf(minReplicasPath=5)),
        [(E, f"{FIRST}.minReplicasPath", "text or a list", "")],
        group(leaf(minReplicasPath=".n")),
        id="a path that is a number; a bare string is a list of one",
    ),
]

EXPRESSIONS: list[Any] = [
    pytest.param(
        where(operator="Is", value="a"),
        [(E, f"{EXPRESSION}.operator", "must be one of", "")],
        where(operator="Equals", value="a"),
        id="unknown operator",
    ),
    *(
        pytest.param(
            where(operator=operator, value="a", valuePath=".a"),
            [(E, EXPRESSION, f"{operator} takes either value", "")],
            where(operator=operator, valuePath=".a"),
            id=f"{operator} with a value and a path",
        )
        for operator in ("Equals", "NotEquals")
    ),
    pytest.param(
        where(operator="Equals", values=["a"]),
        [(E, EXPRESSION, "Equals takes either value", "value: a")],
        where(operator="In", values=["a"]),
        id="Equals with values",
    ),
    pytest.param(
        where(operator="Equals"),
        [(E, EXPRESSION, "Equals takes either value", "")],
        where(operator="Equals", value=""),
        id="Equals without a value",
    ),
    *(
        pytest.param(
            where(operator=operator, value="a"),
            [(E, EXPRESSION, f"{operator} takes either values", "")],
            where(operator=operator, valuePath=[".a", ".b"]),
            id=f"{operator} with one value",
        )
        for operator in ("In", "NotIn")
    ),
    pytest.param(
        where(operator="In", values=["a"], valuePath=".a"),
        [(E, EXPRESSION, "In takes either values", "")],
        where(operator="In", values=["a", "b"]),
        id="In with values and a path",
    ),
    *(
        pytest.param(
            where(operator=operator, value="a"),
            [(E, EXPRESSION, f"{operator} takes no value", "remove")],
            where(operator=operator),
            id=f"{operator} with a value",
        )
        for operator in ("Exists", "DoesNotExist")
    ),
    pytest.param(
        group(entry(podClassifier={"matchExpressions": [{"operator": "Exists"}]})),
        [(E, f"{EXPRESSION}.key", "missing", "")],
        where(operator="Exists"),
        id="an expression without a key",
    ),
]


@pytest.mark.parametrize(("broken", "expected", "legal"), [*HEAD, *TEMPLATES, *ENTRIES, *EXPRESSIONS])
def test_an_interface_and_the_nearest_legal_one(
    broken: dict[str, Any], expected: list[Expected], legal: dict[str, Any]
) -> None:
    """The broken one has exactly these violations, the legal one none."""
    check(validate(broken, Context()).violations, expected)
    check(validate(legal, Context()).violations, [])


OLDER = f"{POD_GROUP}.members"


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        pytest.param([entry(groupByKeyPaths=".metadata.name")], [], id="alone, it needs no classifier"),
        pytest.param([leaf("a"), leaf("b")], [], id="two with classifiers"),
        pytest.param(
            [leaf("a", groupByKeyPaths=".metadata.name"), leaf("b", groupByKeyPaths=[".metadata.name"])],
            [],
            id="two with the same keys",
        ),
        pytest.param(
            [leaf("a", groupByKeyPaths=".metadata.name"), leaf("b")],
            [(E, f"{OLDER}[1].groupByKeyPaths", "differs", "same in every")],
            id="two with different keys",
        ),
        pytest.param(
            [leaf("a"), entry("b")], [(E, f"{OLDER}[1].podClassifier", "which pods", "")], id="two, one without"
        ),
    ],
)
def test_members_are_the_older_spelling_of_subgroups(members: list[Any], expected: list[Expected]) -> None:
    """With a warning; only a member that is alone may do without a classifier."""
    found = validate(group(members=members), Context()).violations
    check(found, [(W, OLDER, "older spelling", "subgroups"), *expected])


def test_keys_stand_in_one_place() -> None:
    """What members say and what their PodGroup says would be the same twice."""
    broken = group(members=[leaf(groupByKeyPaths=".metadata.name")], instanceKeyPaths=".metadata.name")
    expected = [(W, OLDER, "older", ""), (E, f"{POD_GROUP}.instanceKeyPaths", "groupByKeyPaths", "keep")]
    check(validate(broken, Context()).violations, expected)


def test_expressions_are_judged_by_who_knows_the_language() -> None:
    """The hook is asked once, after the rules, and adds to the same answer."""
    asked = []

    def hook(found: ResourceInterface, report: Report) -> None:
        asked.append((found.spec.let, list(report.violations)))
        report.error("spec.let.a", "is odd")

    found = validate(interface(let={"a": "x"}, action="handoff"), Context(check_interface=hook)).violations
    assert [one.path for one in found] == ["spec.action", "spec.let.a"]
    assert asked == [({"a": "x"}, found[:1])]


@pytest.mark.parametrize("word", ["", "Error", "Ignore"])
def test_unmatched_pods_without_subgroups(word: str) -> None:
    """Error and Ignore are no names of subgroups."""
    check(validate(group(unmatchedPods=word), Context()).violations, [])


def test_the_interface_of_the_design_is_valid() -> None:
    """RayCluster as design 003 writes it: a head, and one subgroup per worker group."""
    workers = entry(
        "$wg.groupName",
        foreach=".spec.workerGroupSpecs[] as $wg",
        podClassifier={
            "matchExpressions": [{"key": "ray.io/group", "operator": "Equals", "valuePath": "$wg.groupName"}]
        },
        minReplicasPath=["$wg.minReplicas", "$wg.replicas"],
    )
    head = entry("head", podClassifier={"matchLabels": {"ray.io/node-type": "head"}}, minReplicas="1")
    check(validate(group(head, workers), Context()).violations, [])


def test_nesting_of_any_depth_is_judged() -> None:
    """Entries below entries are checked without recursion in the rules."""
    deep = entry("bottom")
    for at in range(40):
        deep = entry(f"e{at}", subgroups=[deep])
    (found,) = validate(group(deep), Context()).violations
    assert found.path == FIRST + ".subgroups[0]" * 40 + ".podClassifier"


def test_nesting_that_is_too_deep_to_read_is_an_answer() -> None:
    """Files are bounded before, but an object may come another way."""
    deep = entry("bottom")
    for at in range(2000):
        deep = entry(f"e{at}", subgroups=[deep])
    found = validate(group(deep), Context()).violations
    assert found
    assert {one.severity for one in found} == {E}


def test_a_reference_without_a_way_is_told_beside_its_bad_name() -> None:
    """One mistake hides no other."""
    check(
        validate(interface(references=[reference("a-b")]), Context()).violations,
        [(E, "spec.references[0].name", "form", ""), (E, "spec.references[0]", "either lookup or list", "")],
    )


def test_every_violation_in_one_answer() -> None:
    """Types, targets, templates and entries are judged together; a list that can't be read has no follow-ups."""
    broken = group(
        leaf("a", foreach="x", minReplicas=True),
        leaf("a", minSubGroup=1),
        entry("b", podClassifier={"matchExpressions": [{"key": "k", "operator": "In"}]}),
        entry("c", podClassifier={"matchExpressions": "x"}),
        minMember=1,
        minSubGroup=1,
    )
    broken["spec"]["targetGVK"] = {"version": "v1", "kind": "Secret"}
    check(
        validate(broken, Context()).violations,
        [
            (E, "spec.targetGVK.kind", "Secret", ""),
            (E, f"{POD_GROUP}.minMember", "both", ""),
            (E, f"{FIRST}.foreach", "as $variable", ""),
            (E, f"{FIRST}.minReplicas", "whole number or text", ""),
            (E, f"{POD_GROUP}.subgroups[1].minSubGroup", "no subgroups", ""),
            (E, f"{POD_GROUP}.subgroups[2].podClassifier.matchExpressions[0]", "In takes", ""),
            (E, f"{POD_GROUP}.subgroups[3].podClassifier.matchExpressions", "list", ""),
        ],
    )


@pytest.mark.parametrize(
    ("broken", "path"),
    [
        pytest.param(interface(let={f"v{at}": 5 for at in range(65)}), "spec.let", id="let"),
        pytest.param(interface(references=[5] * 17), "spec.references", id="references"),
        pytest.param(interface(gangScheduling={"podGroups": ["x"] * 65}), "spec.gangScheduling.podGroups", id="groups"),
        pytest.param(group(*[5] * 257), f"{POD_GROUP}.subgroups", id="subgroups"),  # type: ignore[list-item]
    ],
)
def test_too_much_that_is_of_the_wrong_type_is_an_answer(broken: dict[str, Any], path: str) -> None:
    """A list or mapping that is too long is never read past its checks."""
    found = validate(broken, Context()).violations
    assert path in {one.path for one in found}
    assert {one.severity for one in found} == {E}
