"""ResourceInterfaces of any content: they are judged, never raise, and what compiles can be asked about a workload."""

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from muster.api.kinds import RESOURCE_INTERFACE, read_object
from muster.api.validation import ERROR, Context, validate
from muster.api.validation.interface import check_interface
from muster.api.validation.violation import Report
from muster.errors import ExpressionError
from muster.grouping.compiler import check, compile_interface
from muster.grouping.language.limits import Meter
from muster.grouping.model import KEY_VARIABLE, Condition, Cut, Entry, Interface, Question, Template

# Far more than any of these takes.
SECONDS = 5
SOUND = (".spec.n", ".spec.n // 1", ".metadata.name", "1", "$n", "[.spec.groups[]] | length")
ODD = (
    *("$g.name", "$h", "$key", "$job.spec.n", "null", "range(3)", ".labels.a", ".spec.groups[]", "false", "$g"),
    *('"a-\\($g.name)"', "[$g, $h] | length", "$ENV", "range(1e12)", "spec.n", ".a[", "", "x" * 600, "(1 / 2)"),
    *("1 as $q | $q", "[" * 70 + "]" * 70, "range(1000000000000)", "true", "[range(9999) | range(9)]"),
)
NAMES = ("a", "b", "c", "head", "$g.name", '"w\\($h)"', ".spec.x", '"v\\($g)\\($h)"')
ODD_NAMES = ("Head", "_", "\x07", "", "x" * 70, "a")
FOREACHES = (".spec.groups[] as $g", "range(3) as $h", "$g.parts[] as $h", ".spec.x as $g")
ODD_FOREACHES = (".x[] as $n", "range(0) as $i", "x", " as $g", ".x[] as $key")
LABELS = ("a", "b", "c/d")
VALUES = ("1", "2", "$g.name", '"\\($g)\\($h)"', ".spec.x")
OPERATORS = ("Equals", "NotEquals", "In", "NotIn", "Exists", "DoesNotExist", "Is")
JUNK = (None, True, 0, -1, 1e300, "", "\x1b[31m", [], {}, [[]], {"a": 1}, ["x", 5], "é" * 5000)


class Interfaces:
    """Makes documents. The odd ones have mistakes in them; the others seldom."""

    def __init__(self, pick: Callable[[Sequence[Any]], Any], odd: bool) -> None:
        self.pick, self.odd = pick, odd

        # The variables of the entries above, as far as they go.
        self.known = ""

    def one(self, sound: Sequence[Any], odd: Sequence[Any]) -> Any:
        if self.odd and self.pick(range(4)) == 0:
            return self.pick(odd)
        return self.pick([one for one in sound if self.odd or self.is_known(one)])

    def is_known(self, text: Any) -> bool:
        return not isinstance(text, str) or all(f"${name}" not in text or name in self.known for name in "gh")

    def expression(self) -> str:
        return str(self.one(SOUND, ODD))

    def paths(self) -> Any:
        return self.one((self.expression(), [self.expression()], [self.expression(), self.expression()]), ([],))

    def count(self) -> Any:
        return self.one((0, 1, "2", ".spec.n"), (-1, "x", "$n", "(1 / 2)", self.expression()))

    def some(self, **fields: Callable[[], Any]) -> dict[str, Any]:
        """Each of the fields, or not."""
        return {name: make() for name, make in fields.items() if self.pick(range(5 if self.odd else 4)) == 0}

    def labels(self) -> dict[str, str]:
        return {key: self.one(VALUES, VALUES) for key in LABELS if self.pick((True, False))}

    def condition(self) -> dict[str, Any]:
        operator = self.pick(OPERATORS[: None if self.odd else -1])
        value = {"value": self.pick("12")} if operator.endswith("quals") else {"values": list(self.pick(("1", "12")))}
        if self.pick(range(3)) == 0:
            value = {"valuePath": self.one(VALUES[2:], ODD)}
        return {"key": self.pick(LABELS), "operator": operator, **({} if "xist" in operator else value)}

    def classifier(self) -> dict[str, Any]:
        conditions = [self.condition() for _ in range(self.pick((1, 1, 2)))]
        return self.one(
            ({"matchLabels": {"a": self.one(VALUES, ODD)}}, {"matchExpressions": conditions}), ({}, {"x": 1})
        )

    def topology(self) -> dict[str, Any]:
        return self.some(namePath=self.paths, requiredPath=self.paths, preferredPath=self.paths)

    def segments(self) -> dict[str, Any]:
        return {"indexLabel": "i", **self.some(indexFrom=self.count, sizePath=self.paths, topology=self.topology)}

    def foreach(self) -> str:
        if self.odd:
            return str(self.pick((*FOREACHES, *ODD_FOREACHES)))
        new = [one for one in FOREACHES if self.is_known(one.partition(" as ")[0]) and one[-1] not in self.known]
        return str(self.pick(new or [".spec.others[] as $o"]))

    def entry(self, depth: int) -> dict[str, Any]:
        before = self.known
        found = self.some(foreach=self.foreach)
        self.known += str(found.get("foreach", ""))[-1:]
        found["componentName"] = self.one(NAMES, ODD_NAMES)
        found |= self.some(when=self.expression, topology=self.topology)
        if depth and self.pick((True, False)):
            found["subgroups"] = self.entries(depth - 1)
            found |= self.some(minSubGroup=self.count)
        else:
            found["podClassifier"] = self.classifier()
            found |= self.some(minReplicas=self.count)
        if self.odd:
            found |= self.some(
                minReplicasPath=self.paths,
                minSubGroupPath=self.paths,
                replicasPath=self.paths,
                segments=self.segments,
                groupByKeyPaths=self.paths,
                requiredTopologyConstraintsPath=self.paths,
                resolve=lambda: "FirstPositive",
            )
        self.known = before
        return found

    def entries(self, depth: int) -> list[dict[str, Any]]:
        return [self.entry(depth) for _ in range(self.pick((1, 1, 2, 3)))]

    def template(self, number: int) -> dict[str, Any]:
        found = {"name": self.one((f"g{number}",), ("A", "\x07", "g0"))}
        found |= self.some(
            when=self.expression,
            podClassifier=self.classifier,
            instanceKeyPaths=lambda: self.one((".metadata.name", [".metadata.labels.a"]), (".labels", "$n", [])),
            nameTemplate=lambda: self.one((".metadata.name", '"x\\(.metadata.name)"'), ("x", "$key")),
            ownerRef=lambda: self.one(("owner", "pod"), ("$job", "$pods", "$n", "x")),
            unmatchedPods=lambda: self.one(("Error", "Ignore"), NAMES),
            topology=self.topology,
        )
        if self.pick(range(4)):
            found["members" if self.odd and self.pick(range(4)) == 0 else "subgroups"] = self.entries(2)
        else:
            found |= self.some(minMember=self.count)
        return found

    def reference(self) -> dict[str, Any]:
        kind = {"group": "batch", "kind": self.one(("Job",), ("Secret", "job"))}
        way = self.pick(({"lookup": {"namePath": self.paths()}}, {"list": {"matchLabels": self.labels()}}))
        return {"name": self.pick(("job", "pods")), "gvk": kind, **way}

    def document(self) -> dict[str, Any]:
        spec = {"targetGVK": {"group": "a.b", "kind": "Foo"}, "let": {"n": self.one((".spec.n", "2"), ODD)}}
        spec |= self.some(
            references=lambda: [self.reference()],
            action=lambda: self.one(("Group",), ("Skip", "Handoff", "x")),
            defaults=lambda: {"preemptibility": self.one(("preemptible",), ("x",))},
        )
        spec["let"] |= self.some(m=self.expression, key=self.expression) if self.odd else {}
        count = self.pick((1, 1, 2, 3))
        spec["gangScheduling"] = {"podGroups": [self.template(number) for number in range(count)]}
        metadata = {"name": "x"}
        return {"apiVersion": "kai.scheduler/v1", "kind": "ResourceInterface", "metadata": metadata, "spec": spec}


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """Half of them without intended mistakes; of the others, many with junk in one place."""

    def pick(options: Sequence[Any]) -> Any:
        return options[draw(st.integers(0, len(options) - 1))]

    odd = pick((True, False))
    found = Interfaces(pick, odd).document()
    at: Any = found["spec"]
    while odd and isinstance(at, dict | list) and at:
        key = pick(list(at) if isinstance(at, dict) else range(len(at)))
        if pick(range(4)) == 0:
            at[key] = pick(JUNK)
            break
        at = at[key]
    return found


@given(documents())
def test_whatever_an_interface_holds_is_judged(written: dict[str, Any]) -> None:
    """Soon, in words that can be shown, and by one answer: it compiles exactly when there is no error."""
    started = time.process_time()
    judgement = validate(written, Context(check_interface=check))
    assert time.process_time() - started < SECONDS
    assert all("".join(one).isprintable() for one in judgement.violations)
    found, problems = read_object(written, RESOURCE_INTERFACE)
    report = Report(problems)
    check_interface(found, report)
    made = compile_interface(found, report)
    assert (made is None) == any(one.severity == ERROR for one in report.violations)
    assert judgement.valid == (made is not None)
    if made is not None:
        check_variables(made)


def check_variables(interface: Interface) -> None:
    """Every expression finds the variables that it needs, and can be asked."""
    known = {*interface.lets, *interface.references}
    for question in interface.lets.values():
        check_question(question, known)
    for reference in interface.references.values():
        check_question(reference.name, known if reference.root == "owner" else set())
        for _, question in reference.labels:
            check_question(question, known)
    for template in interface.templates:
        check_template(template, known)


def check_template(template: Template, known: set[str]) -> None:
    check_question(template.when, known)
    check_conditions(template.conditions, known)
    for key in template.keys:
        check_question(key, set())
    inside = known | ({KEY_VARIABLE} if template.keys else set())
    check_question(template.name_template, inside)
    check_counted(template, inside)
    for entry in template.entries:
        check_entry(entry, inside)


def check_entry(entry: Entry, known: set[str]) -> None:
    if entry.foreach is not None:
        check_question(Question("", expressions=(entry.foreach.expression,)), known)
        assert entry.foreach.name not in known
        known = known | {entry.foreach.name}
    assert entry.name.literal is not None or entry.name.expressions
    check_question(entry.name, known)
    check_question(entry.when, known)
    check_conditions(entry.conditions, known)
    check_counted(entry, known)
    for child in entry.children:
        check_entry(child, known)


def check_counted(entry: Entry | Template, known: set[str]) -> None:
    cut: Cut | None = entry.segments
    for question in (
        entry.minimum,
        entry.replicas,
        *entry.topology,
        *((cut.first, cut.size, *cut.topology) if cut else ()),
    ):
        check_question(question, known)


def check_conditions(conditions: tuple[Condition, ...] | None, known: set[str]) -> None:
    for condition in conditions or ():
        check_question(condition.question, known)


def check_question(question: Question | None, known: set[str]) -> None:
    for expression in question.expressions if question else ():
        assert expression.variables <= known, (expression, known)
        with contextlib.suppress(ExpressionError):
            expression.values({"spec": {"n": 2, "groups": [{"name": "a"}]}}, dict.fromkeys(known), Meter())
