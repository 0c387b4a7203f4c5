"""What is wrong with an interface although each of its expressions can be read: names, entries that no pod reaches,
repetitions that can't be told apart, classifiers that claim the same pods, variables that lead back to themselves.
"""

from collections.abc import Iterable

from muster.api.documents import shown
from muster.api.validation.violation import Report
from muster.errors import ExpressionError
from muster.grouping.entries import Meanings, Spot, spots, variables_of
from muster.grouping.language.numbers import as_count
from muster.grouping.model import KEY_VARIABLE, KEYS_VARIABLE, Entry, Interface, Question, Template, TopologyQuestions
from muster.grouping.names import dns_label, dns_name
from muster.grouping.overlap import Comparison, claim_of
from muster.grouping.reader import Reader
from muster.grouping.trouble import Trouble

# Entries of one name are compared with so many of their namesakes.
_MOST_NAMESAKES = 8


def check_interface(interface: Interface, reader: Reader, report: Report) -> None:
    """Every problem of the whole, with its path."""
    _check_cycles(interface, report)
    _check_order(interface, report)
    comparison = Comparison()
    for template in interface.templates:
        _Tree(template, reader, report).check(comparison, several=len(interface.templates) > 1)


def _check_cycles(interface: Interface, report: Report) -> None:
    """Lets and references are found when they are needed; none may need itself."""
    paths = {name: let.path for name, let in interface.lets.items()}
    needs = {name: list(_needed([let])) for name, let in interface.lets.items()}
    for name, reference in interface.references.items():
        questions = [*([reference.name] if reference.name else []), *(question for _, question in reference.labels)]
        if paths.setdefault(name, reference.path) == reference.path:
            needs[name] = list(_needed(questions))
    done: set[str] = set()
    for start, first in needs.items():
        way, ahead = ([start], [iter(first)]) if start not in done else ([], [])
        while way:
            following = next(ahead[-1], None)
            if following is None:
                ahead.pop()
                done.add(way.pop())
            elif following in way:
                cycle = [f"${name}" for name in (*way[way.index(following) :], following)]
                words = " → ".join(cycle if len(cycle) <= 8 else [*cycle[:6], "…", cycle[-1]])
                report.error(paths[following], f"needs itself: {words}", "write one of them without the others")
            elif following in needs and following not in done:
                way.append(following)
                ahead.append(iter(needs[following]))


def _needed(questions: Iterable[Question]) -> Iterable[str]:
    return dict.fromkeys(name for question in questions for name in sorted(variables_of(question)))


def _check_order(interface: Interface, report: Report) -> None:
    """The first podGroups entry that claims a pod gets it; one that can never be the first is a mistake."""
    meanings = Meanings()
    before: list[tuple[str, frozenset[int]]] = []
    for template in interface.templates:
        demands = meanings.of_template(template)
        if demands is None:
            continue
        for path, fewer in before:
            if fewer <= demands:
                rival = path.removeprefix("spec.gangScheduling.")
                says = "all pods that this one does" if fewer else "every pod"
                report.error(template.path, f"is never reached: {rival} claims {says}", "put it before that one")
                break
        before.append((template.path, demands))


class _Tree:
    """The entries of one PodGroup."""

    def __init__(self, template: Template, reader: Reader, report: Report) -> None:
        self._template, self._reader, self._report = template, reader, report
        self._spots = list(spots(template.entries, reader))

    def check(self, comparison: Comparison, *, several: bool) -> None:
        """Everything; `several`: the PodGroup's name tells it from others of the workload."""
        self._check_template(several)
        self._check_conditions_of(self._template)
        namesakes: dict[tuple[str, str], list[Spot]] = {}
        for spot in self._spots:
            self._check_conditions_of(spot.entry)
            self._check_foreach(spot.entry)
            self._check_repetition(spot)
            self._check_name(spot, namesakes)
        self._check_claims(comparison)

    def _check_template(self, several: bool) -> None:
        template, report = self._template, self._report
        path = f"{template.path}.name"
        try:
            name = dns_label(template.name) if template.name else ""
        except Trouble as trouble:
            report.error(path, trouble.message, trouble.hint)
        else:
            if several and name and dns_name(template.name) != template.name:
                report.warn(path, f"stands as {name} in names of PodGroups", "use lower case letters, digits and '-'")
        given = template.name_template
        if given is None or (given.literal is None and not given.expressions):
            return
        named = {variable for one in given.expressions for variable in one.variables}
        if template.keys and not named & {KEY_VARIABLE, KEYS_VARIABLE}:
            message = "does not use $key, so all instances of a workload would share one name"
            report.error(given.path, message, 'for example "\\(.metadata.name)-\\($key)"')
        elif given.literal is not None or self._reader.constant(given.expressions[0]) is not None:
            report.warn(given.path, "is the same for every workload", "use a field of it, such as .metadata.name")

    def _check_conditions_of(self, entry: Entry | Template) -> None:
        """`when`, the classifier by itself, and numbers that are known already."""
        when, path = entry.when, entry.path
        values = self._reader.constant(when.expressions[0]) if when and when.expressions else None
        if (
            when is not None
            and values is not None
            and not any(one is not None and one is not False for one in values[:1])
        ):
            self._report.error(when.path, "is never true, so this is never there", "mend it, or remove the entry")
        claim = claim_of((one, None) for one in entry.conditions or ())
        if claim.impossible:
            message = f"no pod can meet all of it: see {shown(claim.impossible)}"
            self._report.error(f"{path}.podClassifier", message, "keep one condition on that label")
        segments = entry.segments
        for question in (entry.minimum, entry.replicas, *((segments.first, segments.size) if segments else ())):
            self._check_counts(question)
        for questions in (entry.topology, segments.topology if segments else TopologyQuestions()):
            for asked in questions:
                self._check_last(asked)

    def _check_counts(self, question: Question | None) -> None:
        if question is None:
            return
        for at, expression in enumerate(question.expressions):
            try:
                for value in self._reader.constant(expression) or ():
                    _ = value if value is None else as_count(value)
            except ExpressionError as error:
                several = len(question.expressions) > 1
                self._report.error(f"{question.path}[{at}]" if several else question.path, error.message, error.hint)
        self._check_last(question)

    def _check_last(self, question: Question | None) -> None:
        """A path that always gives a value is the last of its list."""
        if question is None:
            return
        for at, expression in enumerate(question.expressions[:-1]):
            values = [value for value in self._reader.constant(expression) or () if value is not None]
            if values and not (question.positive and not any(values)):
                message = f"is never asked: {shown(expression.text)} before it always gives a value"
                self._report.warn(f"{question.path}[{at + 1}]", message, "put that one last")
                return

    def _check_foreach(self, entry: Entry) -> None:
        if entry.foreach is not None and self._reader.constant(entry.foreach.expression) == []:
            message = "gives nothing, so this entry is never there"
            self._report.error(f"{entry.path}.foreach", message, "mend it, or remove the entry")

    def _check_repetition(self, spot: Spot) -> None:
        """What is repeated differs in its name, and at its leaves in the pods that it claims."""
        entry, name = spot.entry, spot.entry.name
        own = entry.foreach.name if spot.repeated and entry.foreach else ""
        read = name.literal is not None or name.expressions
        if own and read and own not in variables_of(name) and own not in spot.chosen:
            message = f"does not use ${own}, so all repetitions would have one name"
            self._report.error(name.path, message, f"use ${own} in it")
        if entry.children or not spot.known:
            return
        for variable in spot.repeats:
            if variable not in spot.depends and variable not in spot.chosen:
                message = f"does not depend on ${variable}, so every repetition would claim the same pods"
                hint = f"compare a label with ${variable}, or with a field of it"
                self._report.error(f"{entry.path}.podClassifier", message, hint)
                return

    def _check_name(self, spot: Spot, namesakes: dict[tuple[str, str], list[Spot]]) -> None:
        entry, report = spot.entry, self._report
        text = entry.name.literal if entry.name.literal is not None else self._constant_name(entry)
        if not isinstance(text, str) or not text:
            return
        try:
            name = dns_label(text)
        except Trouble as trouble:
            report.error(entry.name.path, trouble.message, trouble.hint)
            return
        if name != text:
            message = f"{shown(text)} is no DNS label, and becomes {name}"
            report.warn(entry.name.path, message, "use lower case letters, digits and '-'")
        if name == self._template.unmatched and not entry.children and entry.qualified:
            message = f"{shown(text)} is there once for every repetition, so it is not clear which one is meant"
            report.error(f"{self._template.path}.unmatchedPods", message, "name an entry that is there once")
        scope = entry.path.rpartition("[")[0] if entry.qualified else ""
        others = namesakes.setdefault((scope, name), [])
        rival = next((one for one in others[:_MOST_NAMESAKES] if one.is_beside(spot)), None)
        if rival is not None and not rival.is_told_beside(spot):
            message = f"{shown(text)} stands already at {rival.entry.path}, and names are unique in a PodGroup"
            report.error(entry.name.path, message, "give every entry a name of its own")
        others.append(spot)

    def _constant_name(self, entry: Entry) -> object:
        values = self._reader.constant(entry.name.expressions[0]) if entry.name.expressions else None
        return values[0] if values and len(values) == 1 else None

    def _check_claims(self, comparison: Comparison) -> None:
        """Two leaves that claim the same pods: the first wins, and perhaps leaves nothing to the other."""
        meanings = Meanings()
        leaves = [spot for spot in self._spots if not spot.entry.children and spot.known and spot.entry.conditions]
        claims = [
            claim_of((one, meanings.of_values(one, spot)) for one in spot.entry.conditions or ()) for spot in leaves
        ]

        def matters(first: int, second: int) -> bool:
            """What only the workload tells may never be the same, and what is there by turns never meets."""
            if claims[first].unknown or claims[second].unknown:
                return meanings.leaves_nothing(leaves[first], leaves[second])
            return leaves[first].is_beside(leaves[second])

        for meeting in comparison.meetings(claims, matters):
            first, second = leaves[meeting.first], leaves[meeting.second]
            where = f"{second.entry.path}.podClassifier"
            place = first.entry.path.removeprefix(f"{self._template.path}.")
            if meanings.leaves_nothing(first, second):
                message = f"is never reached: {place} claims all pods that this one does"
                self._report.warn(where, message, "put it before that one, or remove it")
            else:
                message = f"both {place} and this claim pods with {meeting.pods}; the first wins"
                self._report.warn(where, message, "add a condition that tells them apart, such as NotEquals")
        if comparison.incomplete:
            message = "holds too many entries to compare all of them: some may claim the same pods"
            self._report.warn(self._template.path, message, "classify by one label with a different value in each")
