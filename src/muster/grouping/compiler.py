"""A ResourceInterface as people write it becomes one that can be asked; every problem is told with its path.

Every spelling ends here: bare strings and lists, numbers and texts of numbers, `members` and the aliases of topology.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from msgspec import structs

from muster.api.documents import child_path, shown
from muster.api.interface import (
    GROUP,
    Component,
    GroupTemplate,
    PodClassifier,
    ResourceInterface,
    ResourceInterfaceSpec,
    Segments,
    TopologyPaths,
    is_expression,
)
from muster.api.interface import Reference as ReferenceField
from muster.api.podgroup import MAX_DEPTH
from muster.api.validation.violation import ERROR, Report
from muster.grouping import checks
from muster.grouping.entries import Sources
from muster.grouping.language.expression import Binder
from muster.grouping.language.limits import DEFAULT, Limits
from muster.grouping.model import (
    KEY_VARIABLE,
    KEYS_VARIABLE,
    OWNER,
    POD,
    UNMATCHED_ERROR,
    UNMATCHED_IGNORE,
    Condition,
    Cut,
    Entry,
    Interface,
    Question,
    Reference,
    Template,
    TopologyQuestions,
)
from muster.grouping.names import dns_label
from muster.grouping.reader import Place, Reader
from muster.grouping.trouble import Trouble

FIRST_POSITIVE = "FirstPositive"
_BOUND = re.compile(r"\bas\s+\$([A-Za-z_][A-Za-z0-9_]*)\s*\Z")
_COUNT = re.compile(r"[0-9]{1,9}")


def compile_interface(
    interface: ResourceInterface, report: Report, *, built_in: bool = False, limits: Limits = DEFAULT
) -> Interface | None:
    """The interface with all expressions read, or None when the report holds an error.

    What its fields must be without regard to expressions, `api.validation` has told before, in the same report.
    """
    spec, metadata = interface.spec, interface.metadata
    reader = Reader(report, limits)
    compiler = _Compiler(spec, reader, report)
    action = spec.action or GROUP
    given = spec.defaults.priority_class_name
    given = given if is_expression(given) else ""
    if given and (action != GROUP or spec.gang_scheduling is None):
        message = "an expression is asked about the workload that is grouped here, and none is"
        report.error("spec.defaults.priorityClassName", message, "write the name of a PriorityClass")
    made = Interface(
        name=metadata.name,
        target=spec.target_gvk,
        action=action,
        built_in=built_in,
        created=metadata.creation_timestamp.isoformat() if metadata.creation_timestamp else "",
        lets={name: compiler.let(name, text) for name, text in spec.let.items()},
        references={
            reference.name: compiler.reference(reference, f"spec.references[{index}]")
            for index, reference in enumerate(spec.references)
        },
        defaults=structs.replace(spec.defaults, priority_class_name="") if given else spec.defaults,
        priority=compiler.priority(given) if given else None,
        templates=tuple(
            compiler.template(template, f"spec.gangScheduling.podGroups[{index}]")
            for index, template in enumerate(spec.gang_scheduling.pod_groups if spec.gang_scheduling else [])
        ),
    )
    checks.check_interface(made, reader, report)
    return None if any(violation.severity == ERROR for violation in report.violations) else made


def check(interface: ResourceInterface, report: Report, limits: Limits = DEFAULT) -> None:
    """All that a compiled interface would show to be wrong, for validation."""
    compile_interface(interface, report, limits=limits)


class _Above(NamedTuple):
    """What stands above an entry: the variables in scope, those of repeated entries, what each one comes from, and the
    number of levels.
    """

    place: Place
    repeated: tuple[str, ...] = ()
    sources: Sources = Sources()
    depth: int = 1


class _Compiler:
    """Walks over one interface. A field that can't be read becomes a Question without expressions."""

    def __init__(self, spec: ResourceInterfaceSpec, reader: Reader, report: Report) -> None:
        self._reader, self._report = reader, report
        known = {name: f"spec.let.{name}" for name in spec.let}
        self._references = {reference.name: reference for reference in spec.references}
        for index, reference in enumerate(spec.references):
            known.setdefault(reference.name, f"spec.references[{index}]")
        no_key = ("is known only below a podGroups entry with instanceKeyPaths", "add instanceKeyPaths there")
        unknown = {name: no_key for name in (KEY_VARIABLE, KEYS_VARIABLE) if name not in known}
        self._owner = Place(known, OWNER, unknown)
        wrong_root = ("is rooted at the owner, and this path at the pod", "start with . for the pod itself")
        self._pod = Place({}, POD, dict.fromkeys((*known, KEY_VARIABLE, KEYS_VARIABLE), wrong_root))

    def let(self, name: str, text: str) -> Question:
        """A named expression."""
        return self._expression(text, child_path("spec.let", name), self._owner)

    def priority(self, text: str) -> Question:
        """The default PriorityClass, as an expression."""
        return self._expression(text, "spec.defaults.priorityClassName", self._owner)

    def reference(self, reference: ReferenceField, path: str) -> Reference:
        """Another object, by its name or by its labels."""
        lookup, selection = reference.lookup, reference.list_
        if lookup is not None:
            place = self._pod if lookup.root == POD else self._owner
            name = self._paths(lookup.name_path, f"{path}.lookup.namePath", place)
            return Reference(path, reference.gvk, lookup.root, name)
        where = f"{path}.list.matchLabels"
        labels = tuple(
            (key, self._text(value, child_path(where, key), self._owner))
            for key, value in (selection.match_labels if selection else {}).items()
        )
        return Reference(path, reference.gvk, labels=labels)

    def template(self, template: GroupTemplate, path: str) -> Template:
        """One PodGroup, with the tree below it."""
        field, components = template.tree
        keys = self._keys(template, components if field == "members" else [], path)
        place = self._owner
        for name in (KEY_VARIABLE, KEYS_VARIABLE) if keys else ():
            taken = place.variables.get(name)
            if taken:
                self._report.error(taken, f"${name} is the instance of the PodGroup at {path}", "rename this one")
            place = place.inner(name, f"{path}.instanceKeyPaths")
        by_pods = self._count(template.min_member, template.min_member_path, f"{path}.minMember", place, template)
        by_children = self._count(
            template.min_sub_group, template.min_sub_group_path, f"{path}.minSubGroup", place, template
        )
        above = _Above(place)
        return Template(
            path=path,
            name=template.name,
            when=self._when(template.when, path, self._owner),
            conditions=self._conditions(template.pod_classifier, f"{path}.podClassifier", self._owner),
            keys=keys,
            name_template=self._text_or_none(template.name_template, f"{path}.nameTemplate", place),
            owner=self._owner_of(template.owner_ref, f"{path}.ownerRef"),
            minimum=by_children if components else by_pods,
            keep=self._text_or_none(template.keep or None, f"{path}.keep", place),
            replicas=self._paths_or_none(template.replicas_path, f"{path}.replicasPath", place),
            segments=self._segments(template.segments, f"{path}.segments", place),
            topology=self._topology(template, path, place),
            unmatched=self._unmatched(template.unmatched_pods, f"{path}.unmatchedPods"),
            entries=tuple(
                self._entry(component, f"{path}.{field}[{index}]", above) for index, component in enumerate(components)
            ),
        )

    def _keys(self, template: GroupTemplate, members: Sequence[Component], path: str) -> tuple[Question, ...]:
        """Pod fields that tell instances apart; every one of them is needed."""
        field, where = template.instance_key_paths, f"{path}.instanceKeyPaths"
        if field is None and members:
            field, where = members[0].group_by_key_paths, f"{path}.members[0].groupByKeyPaths"
        if field is None:
            return ()
        if isinstance(field, str):
            return (self._expression(field, where, self._pod),)
        return tuple(self._expression(text, f"{where}[{index}]", self._pod) for index, text in enumerate(field))

    def _entry(self, component: Component, path: str, above: _Above) -> Entry:
        if above.depth > MAX_DEPTH:
            self._report.error(path, f"the tree is deeper than {MAX_DEPTH} levels", "make it flatter")
            return Entry(path=path, name=Question(f"{path}.componentName"))
        place, binder, repeated = above.place, None, above.repeated
        if component.foreach is not None:
            where = f"{path}.foreach"
            bound = _BOUND.search(component.foreach)
            # What is not of this form, validation has told; then nobody knows what is bound here.
            if bound is None or not component.foreach[: bound.start()].strip():
                place = place._replace(open=True)
            else:
                binder = self._reader.binder(component.foreach, where, place)
                taken = place.variables.get(bound[1])
                if taken:
                    self._report.error(where, f"${bound[1]} is already {taken}", "take another name for the variable")
                place = place.inner(bound[1], where)
            if binder is not None and self._reader.repeats(binder.expression):
                repeated = (*repeated, binder.name)
        name = self._text(component.component_name, f"{path}.componentName", place)
        uses = {variable for expression in name.expressions for variable in expression.variables}
        by_pods = self._count(
            component.min_replicas, component.min_replicas_path, f"{path}.minReplicas", place, component
        )
        by_children = self._count(
            component.min_sub_group, component.min_sub_group_path, f"{path}.minSubGroup", place, component
        )
        sources = above.sources.inner(binder) if binder is not None else above.sources
        below = _Above(place, repeated, sources, above.depth + 1)
        return Entry(
            path=path,
            name=name,
            qualified=not uses.issuperset(above.repeated) and not self._names_itself(binder, uses, above),
            foreach=binder,
            when=self._when(component.when, path, place),
            conditions=self._conditions(component.pod_classifier, f"{path}.podClassifier", place),
            minimum=by_children if component.subgroups else by_pods,
            keep=self._text_or_none(component.keep or None, f"{path}.keep", place),
            replicas=self._paths_or_none(component.replicas_path, f"{path}.replicasPath", place),
            segments=self._segments(component.segments, f"{path}.segments", place),
            topology=self._topology(component, path, place),
            children=tuple(
                self._entry(child, f"{path}.subgroups[{index}]", below)
                for index, child in enumerate(component.subgroups)
            ),
        )

    def _names_itself(self, binder: Binder | None, uses: set[str], above: _Above) -> bool:
        """Whether an entry is repeated for data, not for numbers, and takes its name from there: such a name stands.

        Not when the data are the same in every repetition of an entry above: then the names would be, too.
        """
        if binder is None or binder.name not in uses or self._reader.facts(binder.expression).counts:
            return False
        return above.sources.behind(uses | binder.expression.variables).issuperset(above.repeated)

    def _conditions(self, classifier: PodClassifier | None, path: str, place: Place) -> tuple[Condition, ...] | None:
        if classifier is None:
            return None
        found = []
        for key, value in classifier.match_labels.items():
            where = child_path(f"{path}.matchLabels", key)
            question = self._text(value, where, place)
            literal = (str(question.literal),) if question.literal is not None else ()
            found.append(Condition(where, key, "Equals", literal, None if literal else question))
        for index, item in enumerate(classifier.match_expressions):
            where = f"{path}.matchExpressions[{index}]"
            values = (item.value,) if item.value is not None else tuple(item.values or ())
            by_path = self._paths_or_none(item.value_path, f"{where}.valuePath", place)
            found.append(Condition(where, item.key, item.operator, values, by_path))
        return tuple(found)

    def _topology(self, field: GroupTemplate | Component, path: str, place: Place) -> TopologyQuestions:
        found = self._topology_paths(field.topology, f"{path}.topology", place)
        if isinstance(field, GroupTemplate):
            return found
        required, preferred = field.required_topology_constraints_path, field.preferred_topology_constraints_path
        return TopologyQuestions(
            found.name,
            found.required or self._paths_or_none(required, f"{path}.requiredTopologyConstraintsPath", place),
            found.preferred or self._paths_or_none(preferred, f"{path}.preferredTopologyConstraintsPath", place),
        )

    def _topology_paths(self, field: TopologyPaths | None, path: str, place: Place) -> TopologyQuestions:
        if field is None:
            return TopologyQuestions()
        return TopologyQuestions(
            self._paths_or_none(field.name_path, f"{path}.namePath", place),
            self._paths_or_none(field.required_path, f"{path}.requiredPath", place),
            self._paths_or_none(field.preferred_path, f"{path}.preferredPath", place),
        )

    def _segments(self, field: Segments | None, path: str, place: Place) -> Cut | None:
        if field is None:
            return None
        return Cut(
            path,
            field.index_label,
            self._count(field.index_from, None, f"{path}.indexFrom", place),
            self._paths_or_none(field.count_path, f"{path}.countPath", place),
            self._paths_or_none(field.size_path, f"{path}.sizePath", place),
            self._topology_paths(field.topology, f"{path}.topology", place),
        )

    def _owner_of(self, text: str | None, path: str) -> str:
        if text is None or text in (OWNER, POD):
            return text or OWNER
        name = text.removeprefix("$")
        reference = self._references.get(name) if text.startswith("$") else None
        if reference is None:
            known = "".join(f", ${one}" for one in list(self._references)[:8])
            self._report.error(path, f"{shown(text)} is no object that is known here", f"write owner, pod{known}")
        elif reference.list_ is not None:
            self._report.error(path, f"{text} is a list of objects", "refer to one object with lookup")
        elif name in (OWNER, POD):
            self._report.error(path, f"{text} is taken for the {name} itself", "rename the reference")
        return name

    def _unmatched(self, text: str, path: str) -> str:
        """As the SubGroup will be called, so that the two can be compared."""
        if text in ("", UNMATCHED_ERROR, UNMATCHED_IGNORE):
            return text or UNMATCHED_ERROR
        try:
            return dns_label(text)
        except Trouble as trouble:
            self._report.error(path, trouble.message, trouble.hint)
            return UNMATCHED_ERROR

    def _when(self, text: str | None, path: str, place: Place) -> Question | None:
        return None if text is None else self._expression(text, f"{path}.when", place)

    def _expression(self, text: str, path: str, place: Place) -> Question:
        found = self._reader.expression(text, path, place)
        return Question(path, expressions=(found,) if found else ())

    def _text(self, text: str, path: str, place: Place) -> Question:
        """Literal, unless it starts like an expression."""
        return self._expression(text, path, place) if is_expression(text) else Question(path, text)

    def _text_or_none(self, text: str | None, path: str, place: Place) -> Question | None:
        return None if text is None else self._text(text, path, place)

    def _paths(self, paths: str | list[str], path: str, place: Place, *, positive: bool = False) -> Question:
        """A bare string is a list of one."""
        if paths == []:
            self._report.error(path, "holds no path", "write at least one, or remove the field")
        if isinstance(paths, str):
            found = [self._reader.expression(paths, path, place)]
        else:
            found = [self._reader.expression(text, f"{path}[{at}]", place) for at, text in enumerate(paths)]
        return Question(path, expressions=tuple(one for one in found if one), positive=positive)

    def _paths_or_none(self, paths: str | list[str] | None, path: str, place: Place) -> Question | None:
        return None if paths is None else self._paths(paths, path, place)

    def _count(
        self,
        value: int | str | None,
        paths: str | list[str] | None,
        path: str,
        place: Place,
        field: GroupTemplate | Component | None = None,
    ) -> Question | None:
        """A number, an expression for it, or paths of which `resolve` says which one wins."""
        positive = field is not None and field.resolve == FIRST_POSITIVE
        if value is None:
            return None if paths is None else self._paths(paths, f"{path}Path", place, positive=positive)
        if isinstance(value, str) and is_expression(value):
            return self._expression(value, path, place)._replace(positive=positive)
        # What is neither, validation has told.
        return Question(path, int(value)) if _COUNT.fullmatch(str(value)) else Question(path)
