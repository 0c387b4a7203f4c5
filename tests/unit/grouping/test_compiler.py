"""A ResourceInterface is read whole: every spelling becomes one form, every mistake is told, its near twin is not."""

import time
from typing import Any

import pytest

from muster.api.documents import read
from muster.api.kinds import RESOURCE_INTERFACE, read_object
from muster.api.validation import Context, Violation, validate
from muster.api.validation.interface import check_interface
from muster.api.validation.violation import Report
from muster.grouping.compiler import check, compile_interface
from muster.grouping.language.limits import Limits, Meter
from muster.grouping.model import Entry, Interface, Question, Template

E, W = "error", "warning"
# Severity, path, a word of the message, a word of the hint.
Expected = tuple[str, str, str, str]
POD_GROUP = "spec.gangScheduling.podGroups[0]"
FIRST, SECOND, THIRD = (f"{POD_GROUP}.subgroups[{number}]" for number in range(3))


def interface(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "kai.scheduler/v1",
        "kind": "ResourceInterface",
        "metadata": {"name": "ray", "creationTimestamp": "2026-01-02T03:04:05Z"},
        "spec": {"targetGVK": {"group": "ray.io", "version": "v1", "kind": "RayCluster"}, **spec},
    }


def groups(*templates: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return interface(
        gangScheduling={"podGroups": [{"name": f"g{at}", **one} for at, one in enumerate(templates)]}, **spec
    )


def group(*subgroups: dict[str, Any], spec: Any = None, **fields: Any) -> dict[str, Any]:
    """An interface of one PodGroup."""
    return groups({**({"subgroups": list(subgroups)} if subgroups else {}), **fields}, **(spec or {}))


def leaf(name: str = "head", label: str | None = None, **fields: Any) -> dict[str, Any]:
    """A leaf whose pods have the label `role`, by default with its name."""
    return {"componentName": name, "podClassifier": {"matchLabels": {"role": label or name}}, **fields}


def branch(name: str, *subgroups: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"componentName": name, "subgroups": list(subgroups), **fields}


def where(name: str, *conditions: tuple[str, str, Any], **fields: Any) -> dict[str, Any]:
    """A leaf by (key, operator, value or values)."""
    found = []
    for key, operator, value in conditions:
        field = "values" if isinstance(value, list) else "valuePath" if str(value)[:1] in (".", "$") else "value"
        found.append({"key": key, "operator": operator, **({} if value is None else {field: value})})
    return {"componentName": name, "podClassifier": {"matchExpressions": found}, **fields}


def judged(document: dict[str, Any]) -> list[Violation]:
    return validate(document, Context(check_interface=check)).violations


def compiled(document: dict[str, Any]) -> Interface:
    """The interface, which has no error."""
    found, problems = read_object(document, RESOURCE_INTERFACE)
    report = Report(problems)
    check_interface(found, report)
    made = compile_interface(found, report)
    assert made is not None, report.violations
    return made


def template_of(document: dict[str, Any]) -> Template:
    (template,) = compiled(document).templates
    return template


def texts(question: Question | None) -> list[str]:
    assert question is not None
    return [expression.text for expression in question.expressions]


def asserted(found: list[Violation], expected: list[Expected]) -> None:
    """Exactly these violations, in any order, each with its word and its hint."""
    assert sorted((one.severity, one.path) for one in found) == sorted(one[:2] for one in expected), found
    for severity, path, word, hint in expected:
        same_place = [one for one in found if (one.severity, one.path) == (severity, path)]
        assert any(word in one.message and hint in one.hint for one in same_place), same_place
    assert all("".join(one).isprintable() for one in found)


KEYS = {"instanceKeyPaths": ".metadata.labels.group"}
LOOKUP = {"name": "job", "gvk": {"group": "batch", "version": "v1", "kind": "Job"}, "lookup": {"namePath": ".spec.job"}}
EACH = ".spec.groups[] as $g"
BY_G = {"podClassifier": {"matchLabels": {"role": "$g.name"}}}


def lets(**let: str) -> dict[str, Any]:
    return interface(let=let)


def referring(**lookup: Any) -> dict[str, Any]:
    return interface(let={"n": ".spec.n"}, references=[{**LOOKUP, "lookup": lookup}])


ROOTS: list[Any] = [
    pytest.param(
        lets(n=".spec.["), [(E, "spec.let.n", "(column 8)", "index is missing")], lets(n=".spec[0]"), id="bad text"
    ),
    pytest.param(
        lets(n="spec.replicas"),
        [(E, "spec.let.n", "`spec` (column 1)", "write .spec.replicas")],
        lets(n=".spec.replicas"),
        id="a path without its root",
    ),
    pytest.param(
        group(leaf(minReplicasPath=[".spec.n", 'metadata.labels["n"]'])),
        [(E, f"{FIRST}.minReplicasPath[1]", "column 1", 'write .metadata.labels["n"]')],
        group(leaf(minReplicasPath=[".spec.n", '.metadata.labels["n"]'])),
        id="a path without its root, of several",
    ),
    pytest.param(
        group(leaf("$g.name", foreach=EACH, **BY_G, minReplicasPath="g.n")),
        [(E, f"{FIRST}.minReplicasPath", "`g`", "write $g.n")],
        group(leaf("$g.name", foreach=EACH, **BY_G, minReplicasPath="$g.n")),
        id="a variable without its dollar",
    ),
    pytest.param(
        group(leaf("$g.name", foreach="spec.groups[] as $g", **BY_G)),
        [(E, f"{FIRST}.foreach", "`spec`", "write .spec.groups[] as $g")],
        group(leaf("$g.name", foreach=EACH, **BY_G)),
        id="a foreach without its root",
    ),
    pytest.param(lets(n="$.spec.n"), [(E, "spec.let.n", "$", "write .spec.n")], lets(n=".spec.n"), id="as in JSONPath"),
    pytest.param(
        lets(n="{.spec.n}"), [(E, "spec.let.n", "", "write .spec.n")], lets(n="(.spec.n)"), id="as in kubectl"
    ),
    pytest.param(
        lets(n=".replicas"),
        [(W, "spec.let.n", '"replicas" at their root', ".spec.replicas")],
        lets(n=".spec | .replicas"),
        id="a field of the spec at the root of the owner",
    ),
    pytest.param(
        lets(n='if .x then .labels["a"] else 1 end'),
        [(W, "spec.let.n", '"labels"', '.metadata.labels["a"]')],
        lets(n='if .x then .metadata.labels["a"] else 1 end'),
        id="labels at the root of the owner",
    ),
    pytest.param(
        group(instanceKeyPaths='.labels["x"]'),
        [(E, f"{POD_GROUP}.instanceKeyPaths", "rooted at the pod", 'write .metadata.labels["x"]')],
        group(instanceKeyPaths='.metadata.labels["x"]'),
        id="labels at the root of the pod",
    ),
    pytest.param(
        group(instanceKeyPaths=[".metadata.name", ".replicas"]),
        [(E, f"{POD_GROUP}.instanceKeyPaths[1]", "no field", "write .spec.replicas")],
        group(instanceKeyPaths=[".metadata.name", ".spec.replicas"]),
        id="a field of an owner at the root of the pod",
    ),
    pytest.param(
        group(instanceKeyPaths="$n", spec={"let": {"n": ".x"}}),
        [(E, f"{POD_GROUP}.instanceKeyPaths", "rooted at the owner", "start with .")],
        group(minMemberPath="$n", spec={"let": {"n": ".x"}}),
        id="a variable of the owner in a key",
    ),
    pytest.param(
        referring(root="pod", namePath="$n"),
        [(E, "spec.references[0].lookup.namePath", "rooted at the owner", "")],
        referring(root="owner", namePath="$n"),
        id="a variable of the owner in a lookup from the pod",
    ),
    pytest.param(
        referring(root="pod", namePath=[".annotations.job"]),
        [(E, "spec.references[0].lookup.namePath[0]", "Pod", ".metadata.annotations.job")],
        referring(root="pod", namePath=[".metadata.annotations.job"]),
        id="annotations at the root of a lookup from the pod",
    ),
    pytest.param(
        group(members=[{"componentName": "a", "groupByKeyPaths": "$n"}], spec={"let": {"n": ".x"}}),
        [(E, f"{POD_GROUP}.members[0].groupByKeyPaths", "owner", ""), (W, f"{POD_GROUP}.members", "older", "")],
        None,
        id="a variable of the owner in groupByKeyPaths",
    ),
]

VARIABLES: list[Any] = [
    pytest.param(
        lets(groups=".x", n="$group"),
        [(E, "spec.let.n", "`$group` is not known (column 1)", "did you mean $groups?")],
        lets(groups=".x", n="$groups"),
        id="unknown in a let",
    ),
    pytest.param(
        interface(references=[{**LOOKUP, "lookup": {"namePath": "$x"}}]),
        [(E, "spec.references[0].lookup.namePath", "$x", "")],
        interface(let={"x": "1"}, references=[{**LOOKUP, "lookup": {"namePath": "$x"}}]),
        id="unknown in a lookup",
    ),
    pytest.param(
        interface(references=[{"name": "a", "gvk": LOOKUP["gvk"], "list": {"matchLabels": {"b/c": "$x", "d": "e"}}}]),
        [(E, 'spec.references[0].list.matchLabels["b/c"]', "$x", "")],
        interface(references=[{"name": "a", "gvk": LOOKUP["gvk"], "list": {"matchLabels": {"b/c": ".x", "d": "e"}}}]),
        id="unknown in a list",
    ),
    *(
        pytest.param(
            group(leaf(**{field: "$x"})),
            [(E, f"{FIRST}.{field}", "`$x` is not known", "")],
            group(leaf(**{field: "$n"}), spec={"let": {"n": ".a"}}),
            id=f"unknown in {field} of a leaf",
        )
        for field in ("when", "minReplicas", "minReplicasPath", "replicasPath", "requiredTopologyConstraintsPath")
    ),
    *(
        pytest.param(
            group(**{field: "$x"}),
            [(E, f"{POD_GROUP}.{field}", "`$x` is not known", "")],
            group(**{field: "$n"}, spec={"let": {"n": ".a"}}),
            id=f"unknown in {field} of a PodGroup",
        )
        for field in ("when", "nameTemplate", "minMember", "minMemberPath", "replicasPath")
    ),
    *(
        pytest.param(
            group(replicasPath=".n", segments={"indexLabel": "i", **segments("$x")}),
            [(E, f"{POD_GROUP}.segments.{path}", "`$x` is not known", "")],
            group(replicasPath=".n", segments={"indexLabel": "i", **segments(".x")}),
            id=f"unknown in segments.{path}",
        )
        for path, segments in {
            "indexFrom": lambda text: {"indexFrom": text},
            "sizePath": lambda text: {"sizePath": text},
            "topology.namePath[0]": lambda text: {"topology": {"namePath": [text]}},
        }.items()
    ),
    pytest.param(
        group(leaf(topology={"namePath": "$x", "preferredPath": [".a", "$y"]})),
        [(E, f"{FIRST}.topology.namePath", "$x", ""), (E, f"{FIRST}.topology.preferredPath[1]", "$y", "")],
        group(leaf(topology={"namePath": ".x", "preferredPath": [".a", ".y"]})),
        id="unknown in topology",
    ),
    pytest.param(
        group(branch("$g.name", leaf(label="$g.name"), foreach=EACH), leaf("b", label="$g.x")),
        [(E, f"{SECOND}.podClassifier.matchLabels.role", "`$g` is not known", "")],
        group(branch("$g.name", leaf(label="$g.name"), foreach=EACH), leaf("b", label=".x")),
        id="the variable of an entry outside it",
    ),
    pytest.param(
        group(where("$g", ("role", "Equals", "$h"), foreach="$g[] as $h")),
        [(E, f"{FIRST}.foreach", "`$g`", ""), (E, f"{FIRST}.componentName", "`$g`", "there is $h")],
        group(where("$h", ("role", "Equals", "$h"), foreach=".g[] as $h")),
        id="the variable of a foreach in itself",
    ),
    pytest.param(
        lets(n="$key"),
        [(E, "spec.let.n", "$key is known only", "instanceKeyPaths")],
        lets(n="1", key=".x"),
        id="the instance in a let",
    ),
    pytest.param(
        group(leaf(label="$key")),
        [(E, f"{FIRST}.podClassifier.matchLabels.role", "$key is known only", "instanceKeyPaths")],
        group(leaf(label="$key"), **KEYS),
        id="the instance without keys",
    ),
    pytest.param(
        group(when='$key == "1"', podClassifier={"matchLabels": {"a": "$key"}}, **KEYS),
        [(E, f"{POD_GROUP}.when", "$key", ""), (E, f"{POD_GROUP}.podClassifier.matchLabels.a", "$key", "")],
        group(leaf(when='$key == "1"', label="$key"), **KEYS),
        id="the instance where it is not chosen yet",
    ),
    pytest.param(
        group(leaf("$g", foreach=".a[] as $g", label="$g"), spec={"let": {"g": "1"}}),
        [(E, f"{FIRST}.foreach", "$g is already spec.let.g", "another name")],
        group(leaf("$h", foreach=".a[] as $h", label="$h"), spec={"let": {"g": "1"}}),
        id="taken by a let",
    ),
    pytest.param(
        group(leaf("$job", foreach=".a[] as $job", label="$job"), spec={"references": [LOOKUP]}),
        [(E, f"{FIRST}.foreach", "$job is already spec.references[0]", "")],
        group(leaf("$j", foreach=".a[] as $j", label="$j"), spec={"references": [LOOKUP]}),
        id="taken by a reference",
    ),
    pytest.param(
        group(branch("$g", leaf("$g", label="$g", foreach=".b[] as $g"), foreach=".a[] as $g")),
        [(E, f"{FIRST}.subgroups[0].foreach", f"$g is already {FIRST}.foreach", "")],
        group(
            leaf("$g", label="$g", foreach=".b[] as $g"), branch("x", leaf("$g.y", label="$g", foreach=".a[] as $g"))
        ),
        id="taken by an outer foreach; two beside each other may share a name",
    ),
    pytest.param(
        group(leaf("$key", label="$key", foreach=".a[] as $key"), **KEYS),
        [(E, f"{FIRST}.foreach", "$key is already", "")],
        group(leaf("$key", label="$key", foreach=".a[] as $key")),
        id="taken by the instance",
    ),
    pytest.param(
        group(**KEYS, spec={"let": {"key": "1"}}),
        [(E, "spec.let.key", "$key is the instance", "rename")],
        group(spec={"let": {"key": "1"}}),
        id="a let that hides the instance",
    ),
]

CYCLES: list[Any] = [
    pytest.param(lets(a="$a + 1"), [(E, "spec.let.a", "$a → $a", "")], lets(a=".a + 1"), id="itself"),
    pytest.param(
        lets(a="$b", b="$c", c="$a"),
        [(E, "spec.let.a", "$a → $b → $c → $a", "")],
        lets(a="$b", b="$c", c=".a"),
        id="three",
    ),
    pytest.param(
        lets(x="$a", a="$b", b="$a"),
        [(E, "spec.let.a", "$a → $b → $a", "")],
        lets(x="$a + $b", a="$b", b=".a"),
        id="one that leads into it is not told; one that is needed twice is no cycle",
    ),
    pytest.param(
        interface(let={"n": "$job.spec.n"}, references=[{**LOOKUP, "lookup": {"namePath": '"a-\\($n)"'}}]),
        [(E, "spec.let.n", "$n → $job → $n", "")],
        interface(let={"n": "$job.spec.n"}, references=[LOOKUP]),
        id="a let and a reference",
    ),
    pytest.param(
        interface(references=[{"name": "a", "gvk": LOOKUP["gvk"], "list": {"matchLabels": {"b": "$a[0].x"}}}]),
        [(E, "spec.references[0]", "$a → $a", "")],
        interface(references=[{"name": "a", "gvk": LOOKUP["gvk"], "list": {"matchLabels": {"b": ".x"}}}]),
        id="a reference and itself",
    ),
]

CONSTANTS: list[Any] = [
    *(
        pytest.param(
            group(leaf(when=text)),
            [(E, f"{FIRST}.when", "never true", "remove")],
            group(leaf(when=near)),
            id=f"never: {text}",
        )
        for text, near in {
            "false": "true",
            "null": ".spec.x == null",
            "1 > 2": "1 < 2",
            '"a" | not': '"a"',
            "if true then false else true end": "if .x then false else true end",
        }.items()
    ),
    pytest.param(
        group(when="1 == 2"), [(E, f"{POD_GROUP}.when", "never true", "")], group(when=".a == 2"), id="a PodGroup never"
    ),
    pytest.param(
        group(leaf("$i", label="$i", foreach="range(0) as $i")),
        [(E, f"{FIRST}.foreach", "gives nothing", "")],
        group(leaf('"a\\($i)"', label="$i | tostring", foreach="range(3) as $i")),
        id="foreach over nothing",
    ),
    pytest.param(lets(n='1 + "a"'), [(E, "spec.let.n", "column 3", "")], lets(n='.x + "a"'), id="always an error"),
    *(
        pytest.param(lets(n=text), [(E, "spec.let.n", word, hint)], lets(n=near), id=f"costs too much: {text[:20]}")
        for text, near, word, hint in [
            ("[range(1e12)]", "[range(1000)]", "`1e12`", "1000000000000"),
            ("[range(1000000000000)]", "[range(10000)]", "at most 10000", "grouping.expressions.range"),
            (".x + ([range(1000000000000)] | length)", ".x + ([range(9)] | length)", "range", ""),
            (".x | [range(0; 1000000000000; 1)]", ".x | [range(0; .; 1)]", "range", ""),
            ("[" * 70 + "]" * 70, "[" * 60 + "]" * 60, "nested too deep", "grouping.expressions.nesting"),
            ("[range(9999) | range(999)]", "[range(99) | range(99)]", "too many", "grouping.expressions"),
            ("$ENV.HOME", ".HOME", "reads the environment", "variables that are declared"),
        ]
    ),
    *(
        pytest.param(
            group(leaf(minReplicas=bad)),
            [(E, f"{FIRST}.minReplicas", "not a count", hint)],
            group(leaf(minReplicas=good)),
            id=f"no count: {bad}",
        )
        for bad, good, hint in [
            ('"3"', '("3" | tonumber)', "tonumber"),
            ("(1 / 2)", "(4 / 2)", ""),
            ("(-1)", "(1)", ""),
        ]
    ),
    pytest.param(
        group(leaf(minReplicasPath=[".n", "0.5"])),
        [(E, f"{FIRST}.minReplicasPath[1]", "not a count", "")],
        group(leaf(minReplicasPath=[".n", "1"])),
        id="a default that is no count",
    ),
    pytest.param(
        group(leaf(minReplicasPath=["1", ".n"])),
        [(W, f"{FIRST}.minReplicasPath[1]", 'never asked: "1"', "last")],
        group(leaf(minReplicasPath=["null", ".n"])),
        id="a path behind one that always gives a value",
    ),
    pytest.param(
        group(leaf(minReplicasPath=["0", ".n"])),
        [(W, f"{FIRST}.minReplicasPath[1]", "never asked", "")],
        group(leaf(minReplicasPath=["0", ".n"], resolve="FirstPositive")),
        id="FirstPositive goes on behind 0",
    ),
    pytest.param(
        group(leaf(minReplicasPath=[])),
        [(E, f"{FIRST}.minReplicasPath", "holds no path", "")],
        group(leaf(minReplicasPath=[".n"])),
        id="no path",
    ),
]

NAMES: list[Any] = [
    pytest.param(
        group(leaf("Head_1", "a")),
        [(W, f"{FIRST}.componentName", '"Head_1" is no DNS label, and becomes head-1-', "lower case")],
        group(leaf("head-1", "a")),
        id="a name that is changed",
    ),
    pytest.param(
        group(leaf('"A\\(1)"', "a")),
        [(W, f"{FIRST}.componentName", '"A1" is no DNS label, and becomes a1-', "")],
        group(leaf('"A\\(.x)"', "a")),
        id="a constant expression that is changed; others are not known",
    ),
    pytest.param(
        group(leaf("_ _", "a")),
        [(E, f"{FIRST}.componentName", "no letter or digit", "letters")],
        group(leaf("a", "a")),
        id="a name without a letter",
    ),
    pytest.param(
        group(leaf("a\x07\x1b[31m", "a")),
        [(E, f"{FIRST}.componentName", "can't be shown", "")],
        group(leaf("a", "a")),
        id="control characters",
    ),
    pytest.param(
        groups({"name": "\x07"}),
        [(E, f"{POD_GROUP}.name", "can't be shown", "")],
        groups({"name": "a"}),
        id="of a PodGroup",
    ),
    pytest.param(
        groups({"name": "A", "when": ".a"}, {"name": "b"}),
        [(W, f"{POD_GROUP}.name", "stands as a-", "")],
        groups({"name": "A"}),
        id="of several PodGroups; of one it is not used",
    ),
    pytest.param(
        group(branch("a", leaf("x", "1")), branch("b", leaf("x", "2"))),
        [(E, f"{SECOND}.subgroups[0].componentName", f"already at {FIRST}.subgroups[0]", "of its own")],
        group(branch("a", leaf("x", "1")), branch("b", leaf("y", "2"))),
        id="one name in two branches",
    ),
    pytest.param(
        group(leaf("a", "1"), branch("b", leaf("a", "2"))),
        [(E, f"{SECOND}.subgroups[0].componentName", f"already at {FIRST}", "")],
        group(leaf("a", "1"), branch("b", leaf("b-a", "2"))),
        id="one name on two levels",
    ),
    pytest.param(
        group(leaf("a", "1"), leaf('"a"', "2")),
        [(E, f"{SECOND}.componentName", "already", "")],
        group(leaf("a", "1"), leaf('"b"', "2")),
        id="one name, literal and as an expression",
    ),
    pytest.param(
        group(branch("a", leaf("x", "1"), when=".a"), branch("b", leaf("x", "2"))),
        [(E, f"{SECOND}.subgroups[0].componentName", "already", "")],
        group(branch("a", leaf("x", "1"), when=".a"), branch("b", leaf("x", "2"), when=".b")),
        id="one name, when only one of them has a condition",
    ),
    pytest.param(
        group(branch("a", leaf("x", "1"), when=".a"), branch("b", leaf("x", "2"), when=".a")),
        [(E, f"{SECOND}.subgroups[0].componentName", "already", "")],
        group(branch("a", leaf("x", "1"), leaf("y", "3"), when=".a")),
        id="one name, when both have the same condition",
    ),
    pytest.param(
        group(leaf("a", "1"), leaf("a", "2")),
        [(E, f"{SECOND}.componentName", "already", "")],
        group(leaf("a", "1", when=".x"), leaf("a", "2", when=".x | not")),
        id="one name in one list is told once; with conditions both may stand there",
    ),
    pytest.param(
        group(branch("$g.name", leaf("x", "$g.name"), leaf("x", "$g.other"), foreach=EACH)),
        [(E, f"{FIRST}.subgroups[1].componentName", "already", "")],
        group(
            branch("$g.name", leaf("x", "$g.name"), foreach=EACH),
            branch("$g.id", leaf("x", "$g.id"), foreach=".spec.others[] as $g"),
        ),
        id="below repeated entries names get their parents', so that they may be the same",
    ),
    pytest.param(
        group(leaf("worker", foreach=EACH, **BY_G)),
        [(E, f"{FIRST}.componentName", "does not use $g", "use $g")],
        group(leaf("worker", foreach=".spec.group as $g", **BY_G)),
        id="a literal name of what is repeated; what is there once at most may have one",
    ),
    pytest.param(
        group(leaf('"worker-\\(.x)"', foreach=EACH, **BY_G)),
        [(E, f"{FIRST}.componentName", "does not use $g", "")],
        group(leaf('"worker-\\($g.x)"', foreach=EACH, **BY_G)),
        id="a name that is the same in every repetition",
    ),
    pytest.param(
        group(leaf("master", foreach=EACH, when=".x", **BY_G)),
        [(E, f"{FIRST}.componentName", "does not use $g", "")],
        group(leaf("master", foreach=EACH, when='$g.name == "master"', **BY_G)),
        id="a condition may choose one of the repetitions",
    ),
    pytest.param(
        group(nameTemplate='"pg-\\(.metadata.name)"', **KEYS),
        [(E, f"{POD_GROUP}.nameTemplate", "does not use $key", "$key")],
        group(nameTemplate='"pg-\\(.metadata.name)-\\($key)"', **KEYS),
        id="a name that instances share",
    ),
    pytest.param(
        group(nameTemplate="all"),
        [(W, f"{POD_GROUP}.nameTemplate", "same for every workload", ".metadata.name")],
        group(nameTemplate=".metadata.name"),
        id="a name that workloads share",
    ),
    pytest.param(
        group(branch("$g.name", leaf("x", "$g.name"), foreach=EACH), unmatchedPods="x"),
        [(E, f"{POD_GROUP}.unmatchedPods", "once for every repetition", "once")],
        group(branch("$g.name", leaf("x", "$g.name"), foreach=EACH), leaf("y", "y", when=".y"), unmatchedPods="y"),
        id="unmatched pods to one of many",
    ),
    pytest.param(
        group(ownerRef="job", spec={"references": [LOOKUP]}),
        [(E, f"{POD_GROUP}.ownerRef", '"job"', "write owner, pod, $job")],
        group(ownerRef="$job", spec={"references": [LOOKUP]}),
        id="an owner that is not known",
    ),
    pytest.param(
        group(ownerRef="$n", spec={"let": {"n": ".x"}}),
        [(E, f"{POD_GROUP}.ownerRef", '"$n"', "owner, pod")],
        group(ownerRef="pod"),
        id="an owner that is a let",
    ),
    pytest.param(
        group(ownerRef="$job", spec={"references": [{**LOOKUP, "lookup": None, "list": {"matchLabels": {"a": "b"}}}]}),
        [(E, f"{POD_GROUP}.ownerRef", "list", "lookup")],
        group(ownerRef="owner"),
        id="an owner that is a list",
    ),
    pytest.param(
        group(ownerRef="$pod", spec={"references": [{**LOOKUP, "name": "pod"}]}),
        [(E, f"{POD_GROUP}.ownerRef", "taken for the pod", "rename")],
        group(spec={"references": [{**LOOKUP, "name": "pod"}]}),
        id="a reference that is called like the pod",
    ),
]

CLAIMS: list[Any] = [
    pytest.param(
        groups({}, {"podClassifier": {"matchLabels": {"a": "b"}}}),
        [(E, "spec.gangScheduling.podGroups[1]", "never reached: podGroups[0] claims every pod", "before")],
        groups({"podClassifier": {"matchLabels": {"a": "b"}}}, {}),
        id="a PodGroup behind one that claims all",
    ),
    pytest.param(
        groups({"when": ".a"}, {"when": ".b"}, {"when": ".a"}),
        [(E, "spec.gangScheduling.podGroups[2]", "podGroups[0] claims all", "")],
        groups({"when": ".a"}, {"when": ".b"}, {}),
        id="a PodGroup with the conditions of one before",
    ),
    pytest.param(
        groups(
            {"podClassifier": {"matchLabels": {"a": "1"}}},
            {"podClassifier": {"matchLabels": {"a": "1", "b": "2"}}, "when": ".x"},
        ),
        [(E, "spec.gangScheduling.podGroups[1]", "never reached", "")],
        groups(
            {"podClassifier": {"matchLabels": {"a": "1"}}, "when": ".x"},
            {"podClassifier": {"matchLabels": {"a": "1", "b": "2"}}},
        ),
        id="a PodGroup with more conditions than one before",
    ),
    pytest.param(
        group(leaf("a", "x"), leaf("b", "x")),
        [(W, f"{SECOND}.podClassifier", "never reached: subgroups[0] claims all", "")],
        group(leaf("a", "x"), leaf("b", "y")),
        id="a leaf with the conditions of one before",
    ),
    pytest.param(
        group(where("a", ("r", "In", ["x", "y"])), where("b", ("r", "In", ["y", "x"]), ("s", "Exists", None))),
        [(W, f"{SECOND}.podClassifier", "never reached", "")],
        group(where("a", ("r", "In", ["x", "y"])), where("b", ("r", "In", ["z"]), ("s", "Exists", None))),
        id="a leaf with more conditions than one before",
    ),
    pytest.param(
        group(leaf("a", "x", when=".a"), leaf("b", "x")),
        [(W, f"{SECOND}.podClassifier", "pods with role=x; the first wins", "NotEquals")],
        group(leaf("a", "x", when=".a"), leaf("b", "y")),
        id="a leaf behind one that is not always there",
    ),
    pytest.param(
        group(leaf("a", "$n"), leaf("b", "$n"), spec={"let": {"n": ".x"}}),
        [(W, f"{SECOND}.podClassifier", "never reached", "")],
        group(leaf("a", "$n"), leaf("b", "$m"), spec={"let": {"n": ".x", "m": ".y"}}),
        id="values by path: the very same",
    ),
    pytest.param(
        group(leaf("$g.name", foreach=EACH, **BY_G), leaf('"b\\($g)"', foreach=EACH, **BY_G)),
        [(W, f"{SECOND}.podClassifier", "never reached", "")],
        group(leaf("$g.name", foreach=EACH, **BY_G), leaf('"b\\($g)"', foreach=".spec.more[] as $g", **BY_G)),
        id="two that are repeated for the same list",
    ),
    pytest.param(
        group(leaf("a", "x"), where("b", ("index", "Equals", "0"))),
        [(W, f"{SECOND}.podClassifier", "both subgroups[0] and this claim pods with role=x, index=0", "NotEquals")],
        group(leaf("a", "x"), where("b", ("index", "Equals", "0"), ("role", "NotEquals", "x"))),
        id="leaves by different labels",
    ),
    pytest.param(
        group(leaf("head"), where("$g.name", ("group", "Exists", None), ("g", "Equals", "$g.name"), foreach=EACH)),
        [],
        None,
        id="different labels, one by path: it may be that no pod has both",
    ),
    pytest.param(
        group(leaf("a", "x", when=".a"), where("b", ("i", "Equals", "0"), when=".a"), leaf("c", "y")),
        [
            (W, f"{SECOND}.podClassifier", "both subgroups[0] and this claim", ""),
            (W, f"{THIRD}.podClassifier", "both subgroups[1] and this claim", ""),
        ],
        group(leaf("a", "x", when=".a"), where("b", ("i", "Equals", "0"), when=".b")),
        id="what is there under different conditions may never meet",
    ),
    pytest.param(
        group(where("a", ("i", "Equals", "0"), ("i", "Equals", "1"))),
        [(E, f"{FIRST}.podClassifier", 'no pod can meet all of it: see "i"', "")],
        group(where("a", ("i", "Exists", None), ("i", "NotEquals", "1"))),
        id="conditions that exclude each other",
    ),
    pytest.param(
        group(podClassifier={"matchExpressions": [{"key": "a", "operator": op} for op in ("Exists", "DoesNotExist")]}),
        [(E, f"{POD_GROUP}.podClassifier", "no pod", "")],
        group(podClassifier={"matchExpressions": [{"key": "a", "operator": "Exists"}]}),
        id="conditions of a PodGroup that exclude each other",
    ),
    pytest.param(
        group(leaf("$g.name", "worker", foreach=EACH)),
        [(E, f"{FIRST}.podClassifier", "does not depend on $g", "compare a label with $g")],
        group(leaf("$g.name", "worker", foreach=".spec.group as $g")),
        id="what is repeated claims the same pods",
    ),
    pytest.param(
        group(branch("$g.name", leaf("x", "x"), leaf("y", "$g.name"), foreach=EACH)),
        [(E, f"{FIRST}.subgroups[0].podClassifier", "does not depend on $g", "")],
        group(branch("$g.name", where("x", ("role", "Equals", "x"), ("g", "Equals", "$g.name")), foreach=EACH)),
        id="a leaf below what is repeated claims the same pods",
    ),
    pytest.param(
        group(branch("$g.name", leaf("$h", "$h", foreach=".spec.hs[] as $h"), foreach=EACH)),
        [(E, f"{FIRST}.subgroups[0].podClassifier", "does not depend on $g", "")],
        group(branch("$g.name", leaf("$h", "$h", foreach="$g.hs[] as $h"), foreach=EACH)),
        id="it may depend by way of another variable",
    ),
    pytest.param(
        group(leaf("$g.name", "x", foreach=EACH, when=".x")),
        [(E, f"{FIRST}.podClassifier", "does not depend on $g", "")],
        group(leaf("$g.name", "x", foreach=EACH, when='$g.kind == "x"')),
        id="a condition may choose the repetition that claims the pods",
    ),
]


@pytest.mark.parametrize(("broken", "expected", "near"), [*ROOTS, *VARIABLES, *CYCLES, *CONSTANTS, *NAMES, *CLAIMS])
def test_a_mistake_and_the_nearest_legal_interface(
    broken: dict[str, Any], expected: list[Expected], near: dict[str, Any] | None
) -> None:
    """Every mistake is told at its field, with a way out; what is nearly the same and right is not told at all."""
    asserted(judged(broken), expected)
    if near is not None:
        asserted(judged(near), [])


def test_the_interface_of_the_design() -> None:
    """RayCluster as design 003 writes it compiles, and there is nothing to say about it."""
    design = """
apiVersion: kai.scheduler/v1
kind: ResourceInterface
metadata: {name: raycluster}
spec:
  targetGVK: {group: ray.io, version: v1, kind: RayCluster}
  gangScheduling:
    podGroups:
      - name: cluster
        subgroups:
          - componentName: head
            podClassifier: {matchLabels: {ray.io/node-type: head}}
            minReplicas: "1"
          - foreach: ".spec.workerGroupSpecs[] as $wg"
            componentName: "$wg.groupName"
            podClassifier:
              matchExpressions:
                - {key: ray.io/group, operator: Equals, valuePath: "$wg.groupName"}
            minReplicasPath: ["$wg.minReplicas", "$wg.replicas"]
"""
    (document,) = read(design.encode())
    asserted(judged(document.value), [])
    head, workers = template_of(document.value).entries
    assert (head.name.literal, head.minimum, head.foreach, head.qualified) == (
        "head",
        Question(f"{FIRST}.minReplicas", 1),
        None,
        False,
    )
    assert head.conditions is not None
    assert [one[1:] for one in head.conditions] == [("ray.io/node-type", "Equals", ("head",), None)]
    assert head.conditions[0].path == f'{FIRST}.podClassifier.matchLabels["ray.io/node-type"]'
    assert workers.foreach is not None
    assert workers.foreach.name == "wg"
    assert workers.conditions is not None
    assert texts(workers.conditions[0].question) == ["$wg.groupName"]
    assert texts(workers.minimum) == ["$wg.minReplicas", "$wg.replicas"]
    assert not workers.qualified


def test_what_belongs_to_the_whole() -> None:
    """Name, age, target and defaults; lets and references with their paths."""
    made = compiled(
        interface(
            let={"n": ".spec.n"},
            references=[
                {**LOOKUP, "lookup": {"root": "pod", "namePath": [".metadata.name", ".spec.nodeName"]}},
                {"name": "all", "gvk": LOOKUP["gvk"], "list": {"matchLabels": {"a": "b", "c/d": ".metadata.name"}}},
            ],
            defaults={"priorityClassName": "build"},
        )
    )
    assert (made.name, made.created, made.built_in) == ("ray", "2026-01-02T03:04:05+00:00", False)
    assert (made.target.kind, made.defaults.priority_class_name) == ("RayCluster", "build")
    assert (made.lets["n"].path, texts(made.lets["n"])) == ("spec.let.n", [".spec.n"])
    job, every = made.references["job"], made.references["all"]
    assert (job.path, job.root, texts(job.name)) == ("spec.references[0]", "pod", [".metadata.name", ".spec.nodeName"])
    assert every.name is None
    assert [(key, one.literal or texts(one)) for key, one in every.labels] == [("a", "b"), ("c/d", [".metadata.name"])]
    found, problems = read_object(interface(), RESOURCE_INTERFACE)
    built_in = compile_interface(found, Report(problems), built_in=True)
    assert built_in is not None
    assert built_in.built_in


@pytest.mark.parametrize(
    ("fields", "action"),
    [
        pytest.param({}, "Group", id="without gangScheduling"),
        pytest.param({"action": "Group"}, "Group", id="Group without gangScheduling"),
        pytest.param({"action": "Skip"}, "Skip", id="Skip"),
        pytest.param({"action": "Default"}, "Default", id="Default"),
        pytest.param({"gangScheduling": {"podGroups": [{"name": "a"}]}}, "Group", id="with gangScheduling"),
        pytest.param(
            {"gangScheduling": {"podGroups": [{"name": "a"}]}, "action": "Handoff"}, "Handoff", id="Handoff although"
        ),
    ],
)
def test_action(fields: dict[str, Any], action: str) -> None:
    """As it is said; that one without a gang hands over is for `resolve`."""
    assert compiled(interface(**fields)).action == action


def test_every_spelling_of_a_template() -> None:
    """Bare strings are lists of one; numbers may be texts; what nothing is said about is not there."""
    template = template_of(
        group(
            minMember="3",
            when=".spec.x",
            instanceKeyPaths=[".metadata.name", ".metadata.labels.a"],
            nameTemplate='"pg-\\($key)"',
            ownerRef="pod",
            replicasPath=".spec.n",
            segments={"indexLabel": "i", "indexFrom": "1", "sizePath": ".spec.s", "topology": {"requiredPath": ".r"}},
            topology={"namePath": ".t"},
            unmatchedPods="Ignore",
            podClassifier={"matchExpressions": [{"key": "a", "operator": "In", "values": ["b", "c"]}]},
        )
    )
    assert template.minimum == Question(f"{POD_GROUP}.minMember", 3)
    assert [texts(one) for one in template.keys] == [[".metadata.name"], [".metadata.labels.a"]]
    assert [one.path for one in template.keys] == [f"{POD_GROUP}.instanceKeyPaths[{at}]" for at in range(2)]
    assert (template.owner, template.unmatched) == ("pod", "Ignore")
    assert texts(template.when) == [".spec.x"]
    assert texts(template.name_template) == ['"pg-\\($key)"']
    assert texts(template.replicas) == [".spec.n"]
    assert template.segments is not None
    assert (template.segments.index_label, template.segments.first) == (
        "i",
        Question(f"{POD_GROUP}.segments.indexFrom", 1),
    )
    assert texts(template.segments.size) == [".spec.s"]
    assert texts(template.segments.topology.required) == [".r"]
    assert (texts(template.topology.name), template.topology.required) == ([".t"], None)
    assert template.conditions is not None
    assert template.conditions[0][1:] == ("a", "In", ("b", "c"), None)
    plain = template_of(group())
    assert (plain.minimum, plain.conditions, plain.keys, plain.owner, plain.unmatched) == (
        None,
        None,
        (),
        "owner",
        "Error",
    )


def test_every_spelling_of_an_entry() -> None:
    """The aliases of topology, `resolve`, and labels that are expressions."""
    one = leaf(
        "a",
        podClassifier={"matchLabels": {"x": "plain", "y": ".spec.y", "z": '"q"', "w": "(1)"}},
        minReplicasPath=".spec.n",
        resolve="FirstPositive",
        requiredTopologyConstraintsPath=".r",
        topology={"preferredPath": [".p", ".q"]},
    )
    (entry,) = template_of(group(one)).entries
    assert entry.minimum is not None
    assert (texts(entry.minimum), entry.minimum.positive) == ([".spec.n"], True)
    assert texts(entry.topology.required) == [".r"]
    assert entry.topology.required is not None
    assert entry.topology.required.path == f"{FIRST}.requiredTopologyConstraintsPath"
    assert texts(entry.topology.preferred) == [".p", ".q"]
    values = {each.key: each.values or texts(each.question) for each in entry.conditions or ()}
    assert values == {"x": ("plain",), "y": [".spec.y"], "z": ['"q"'], "w": ["(1)"]}


def test_a_branch_counts_children() -> None:
    """The minimum of a root or entry with subgroups is its minSubGroup."""
    template = template_of(group(branch("a", leaf("b"), minSubGroup=1), minSubGroupPath=[".spec.n"]))
    assert texts(template.minimum) == [".spec.n"]
    (entry,) = template.entries
    assert entry.minimum == Question(f"{FIRST}.minSubGroup", 1)
    assert entry.conditions is None
    assert [child.path for child in entry.children] == [f"{FIRST}.subgroups[0]"]


def test_members_are_subgroups_and_give_the_keys() -> None:
    """The older spelling; alone, a member claims every pod."""
    keys = [".metadata.labels.a"]
    template = template_of(group(members=[{"componentName": "a", "groupByKeyPaths": keys, "minReplicas": 2}]))
    assert [texts(one) for one in template.keys] == [keys]
    assert template.keys[0].path == f"{POD_GROUP}.members[0].groupByKeyPaths[0]"
    (entry,) = template.entries
    assert (entry.path, entry.conditions) == (f"{POD_GROUP}.members[0]", None)


def test_unmatched_pods_go_to_a_name_as_it_will_be() -> None:
    """A name that is changed is changed in both places."""
    template = template_of(group(leaf("Rest", "a"), unmatchedPods="Rest"))
    assert template.unmatched.startswith("rest-")


def names_of(entries: tuple[Entry, ...]) -> dict[str, bool]:
    found: dict[str, bool] = {}
    for entry in entries:
        text = str(entry.name.literal) if entry.name.literal is not None else texts(entry.name)[0]
        found[text] = entry.qualified
        found.update(names_of(entry.children))
    return found


OUTER, INNER = "range(.spec.n) as $i", ".spec.groups[] as $g"


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        pytest.param([leaf("a")], {"a": False}, id="nothing is repeated"),
        pytest.param(
            [leaf('"a\\($i)"', "$i", foreach=OUTER)], {'"a\\($i)"': False}, id="what is repeated has its own variable"
        ),
        pytest.param(
            [branch('"r\\($i)"', leaf("a", "$i"), leaf('"b\\($i)"', '"x\\($i)"'), foreach=OUTER)],
            {'"r\\($i)"': False, "a": True, '"b\\($i)"': False},
            id="below, who uses the variable needs no more",
        ),
        pytest.param(
            [branch("r", leaf("a", "$i"), foreach=".spec.head as $i")],
            {"r": False, "a": False},
            id="what is there once at most repeats nothing",
        ),
        pytest.param(
            [branch("r", leaf("a", "$i"), foreach="range(1) as $i", when="$i == 0")],
            {"r": False, "a": False},
            id="a constant that gives one value repeats nothing",
        ),
        pytest.param(
            [branch('"r\\($i)"', branch("m", leaf("a", "$i")), foreach=OUTER)],
            {'"r\\($i)"': False, "m": True, "a": True},
            id="two levels below",
        ),
        pytest.param(
            [
                branch(
                    '"r\\($i)"',
                    branch(
                        "$g.name",
                        leaf("a", '"\\($i)\\($g)"'),
                        leaf('"b\\($g)\\($i)"', '"b\\($i)\\($g)"'),
                        foreach=INNER,
                    ),
                    foreach=OUTER,
                )
            ],
            {'"r\\($i)"': False, "$g.name": True, "a": True, '"b\\($g)\\($i)"': False},
            id="two that are repeated: the variables of both are needed",
        ),
        pytest.param(
            [branch("$i.name", leaf("$h.name", "$h.name", foreach="$i.list[] as $h"), foreach=".spec.x[] as $i")],
            {"$i.name": False, "$h.name": False},
            id="a name from data of the repetition stands",
        ),
        pytest.param(
            [branch("$i.name", leaf("$h.name", '"\\($h)\\($i)"', foreach=".list[] as $h"), foreach=".spec.x[] as $i")],
            {"$i.name": False, "$h.name": True},
            id="a name from data that every repetition shares does not",
        ),
        pytest.param(
            [
                branch(
                    "$i.name",
                    leaf('"p\\($h)"', '"\\($h)\\($i)"', foreach="range($i.n) as $h"),
                    foreach=".spec.x[] as $i",
                )
            ],
            {"$i.name": False, '"p\\($h)"': True},
            id="a number of the repetition does not",
        ),
        pytest.param(
            [
                branch(
                    "$i.name",
                    branch("$h.name", leaf("$k", "$k", foreach="$h.ks[] as $k"), foreach="$i.hs[] as $h"),
                    foreach=".spec.x[] as $i",
                )
            ],
            {"$i.name": False, "$h.name": False, "$k": False},
            id="data by way of data",
        ),
    ],
)
def test_names_below_repeated_entries_get_their_parents_in_front(tree: list[Any], expected: dict[str, bool]) -> None:
    """When the name alone does not tell the repetitions apart; found in the text, so that scaling never renames."""
    assert names_of(template_of(group(*tree)).entries) == expected


def test_a_missing_list_is_empty() -> None:
    """In `foreach`, and nowhere else: there jq decides."""
    (entry,) = template_of(group(leaf("$g.name", foreach=".spec.groups[].parts[] as $g", **BY_G))).entries
    assert entry.foreach is not None
    ask = entry.foreach.expression.values
    assert ask({"spec": {}}, {}, Meter()) == []
    assert ask({"spec": {"groups": [{}, {"parts": [1]}]}}, {}, Meter()) == [1]


def test_limits_are_those_that_are_given() -> None:
    """The configuration decides how long a range may be."""
    found, problems = read_object(lets(n="[range(20)]"), RESOURCE_INTERFACE)
    assert compile_interface(found, Report(problems), limits=Limits(range=20)) is not None
    report = Report(problems)
    assert compile_interface(found, report, limits=Limits(range=19)) is None
    assert [one.path for one in report.violations] == ["spec.let.n"]


def test_one_mistake_hides_no_other() -> None:
    """Expressions, names and classifiers are judged although others of them are broken."""
    broken = group(
        leaf("$g.name", foreach="nope[] as $g", **BY_G),
        leaf("_", "a", minReplicasPath="$x"),
        leaf("b", "a", when="false"),
        spec={"let": {"a": "$a"}},
    )
    asserted(
        judged(broken),
        [
            (E, "spec.let.a", "$a → $a", ""),
            (E, f"{FIRST}.foreach", "`nope`", "write .nope[]"),
            (E, f"{SECOND}.componentName", "no letter", ""),
            (E, f"{SECOND}.minReplicasPath", "$x", ""),
            (E, f"{THIRD}.when", "never", ""),
            (W, f"{THIRD}.podClassifier", "never reached", ""),
        ],
    )


def test_a_foreach_of_the_wrong_form_is_told_once() -> None:
    """Validation tells it before its expression is read; below it, nobody knows which variables there are."""
    broken = group(branch("$g.name", leaf("a", "$g.a"), foreach=".spec.groups[]"), leaf("b", minReplicas="$g"))
    asserted(
        judged(broken),
        [(E, f"{FIRST}.foreach", "as $variable", ""), (E, f"{SECOND}.minReplicas", "`$g` is not known", "")],
    )


def tree_of(leaves: list[dict[str, Any]]) -> dict[str, Any]:
    """More leaves than one list may hold."""
    return group(*(branch(f"b{at}", *leaves[at : at + 256]) for at in range(0, len(leaves), 256)))


def nested(depth: int) -> dict[str, Any]:
    """Foreach in foreach, each over all variables above it."""
    inner = [leaf(f'"l{at}-\\($x{depth - 1})"', f"$x{depth - 1}.l{at}") for at in range(200)]
    for at in reversed(range(depth)):
        above = ", ".join(f"$x{one}" for one in range(at)) or "."
        inner = [branch(f"$x{at}.name", *inner, foreach=f"[{above}][] as $x{at}", when=f"$x{at}")]
    return group(*inner)


GIANTS: dict[str, Any] = {
    "9000 leaves of one label": lambda: tree_of([leaf(f"l{at}") for at in range(9000)]),
    "9000 leaves of 9000 labels": lambda: tree_of([where(f"l{at}", (f"k{at}", "Exists", None)) for at in range(9000)]),
    "9000 leaves of two labels": lambda: tree_of(
        [where(f"l{at}", ("a", "Equals", str(at % 95)), ("b", "Equals", str(at // 95))) for at in range(6000)]
    ),
    "1000 leaves that exclude each other": lambda: tree_of(
        [
            where(f"l{at}", *((f"k{bit}", "Exists" if at >> bit & 1 else "DoesNotExist", None) for bit in range(10)))
            for at in range(1000)
        ]
    ),
    "9000 leaves of one name": lambda: tree_of([leaf("same", str(at), when=f".x{at}") for at in range(9000)]),
    "9000 unknown variables": lambda: tree_of([leaf(f"l{at}", f"$nope{at}") for at in range(9000)]),
    "9000 unknown functions": lambda: tree_of([leaf(f"l{at}", f".a | lengthh{at}") for at in range(9000)]),
    "5000 costly constants": lambda: tree_of(
        [leaf(f"l{at}", f"([range(9999) | range(10)] | length + {at})") for at in range(5000)]
    ),
    "long expressions": lambda: group(*(leaf(f"l{at}", f"[{at}{',1' * 2000}]") for at in range(240))),
    "nested ranges": lambda: group(*(leaf(f"l{at}", f"[{at}, {'range(' * 60}1{')' * 60}]") for at in range(250))),
    "foreach in foreach": lambda: nested(40),
    "10,000 brackets": lambda: lets(a="[" * 10_000),
    "4000 brackets": lambda: group(leaf("a", foreach="(" * 4000 + " as $x", when="[" * 4000)),
}


@pytest.mark.parametrize("name", GIANTS)
def test_giants_are_judged_in_bounded_time(name: str) -> None:
    """Nothing grows with the square of an object, and nothing overflows the stack."""
    document = GIANTS[name]()
    started = time.process_time()
    judged(document)
    assert time.process_time() - started < 20


def test_a_tree_that_is_too_deep_for_a_podgroup() -> None:
    """An object that came another way may be deeper than a file."""
    deep = leaf("bottom")
    for at in range(70):
        deep = branch(f"e{at}", deep)
    found, problems = read_object(group(deep), RESOURCE_INTERFACE)
    report = Report(problems)
    assert compile_interface(found, report) is None
    asserted(report.violations, [(E, FIRST + ".subgroups[0]" * 64, "deeper than 64 levels", "flatter")])
