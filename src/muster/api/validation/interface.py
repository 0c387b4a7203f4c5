"""The rules of a ResourceInterface that do not need its expressions to be read."""

import re

from muster.api.documents import child_path, shown
from muster.api.interface import (
    FORBIDDEN_KINDS,
    GROUP,
    KEEP_ALL,
    Component,
    GroupTemplate,
    KindReference,
    MatchExpression,
    PodClassifier,
    ResourceInterface,
    is_expression,
)
from muster.api.validation.violation import Report

_LABEL_KEY = re.compile(r"(?:[a-z0-9][-a-z0-9.]{0,252}/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_FOREACH = re.compile(r".*\S\s+as\s+\$[A-Za-z_][A-Za-z0-9_]*\s*", re.DOTALL)
# How people write the group of core kinds, which is empty.
_CORE_GROUPS = ("", "v1", "core")
_RESERVED_UNMATCHED = ("", "Error", "Ignore")


def check_interface(interface: ResourceInterface, report: Report) -> None:
    """Targets, references, and every entry of the tree of components."""
    spec = interface.spec
    _check_group(spec.target_gvk, "spec.targetGVK", report)
    if spec.target_gvk.group in _CORE_GROUPS and spec.target_gvk.kind in FORBIDDEN_KINDS:
        message = f"{spec.target_gvk.kind} is no target: its content could leak into names and labels"
        report.error("spec.targetGVK.kind", message, "target the kind that owns the pods")
    if spec.action not in ("", GROUP) and spec.gang_scheduling is not None:
        report.warn("spec.gangScheduling", f"is not used with action {spec.action}", "remove one of them")
    variables: dict[str, str] = {}
    for name in spec.let:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            report.error(f"spec.let[{shown(name)}]", f"{shown(name)} can't be a variable", "use letters, digits and _")
        variables[name] = f"spec.let.{name}"
    for index, reference in enumerate(spec.references):
        path = f"spec.references[{index}]"
        if reference.name in variables:
            report.error(f"{path}.name", f"${reference.name} is already {variables[reference.name]}", "rename one")
        variables.setdefault(reference.name, path)
        unread = report.unread(f"{path}.lookup") or report.unread(f"{path}.list")
        if (reference.lookup is None) == (reference.list_ is None) and not unread:
            report.error(path, "needs either lookup or list", "lookup finds one object by name, list all by labels")
        _check_group(reference.gvk, f"{path}.gvk", report)
        if reference.gvk.group in _CORE_GROUPS and reference.gvk.kind in FORBIDDEN_KINDS:
            report.error(f"{path}.gvk.kind", f"{reference.gvk.kind} can't be read by expressions", "use another object")
    names: dict[str, int] = {}
    for index, template in enumerate(spec.gang_scheduling.pod_groups if spec.gang_scheduling else []):
        path = f"spec.gangScheduling.podGroups[{index}]"
        if names.setdefault(template.name, index) != index:
            report.error(
                f"{path}.name",
                f"{shown(template.name)} stands already at podGroups[{names[template.name]}]",
                "rename one",
            )
        _check_template(template, path, report)


def _check_group(kind: KindReference, path: str, report: Report) -> None:
    if kind.group and kind.group in _CORE_GROUPS:
        report.error(f"{path}.group", f"{shown(kind.group)} is no API group", 'core kinds have the group ""')


def _check_template(template: GroupTemplate, path: str, report: Report) -> None:
    if template.subgroups is not None and template.members is not None:
        report.error(f"{path}.members", "subgroups and members are both set", "keep subgroups only")
    field, components = template.tree
    if field == "members":
        report.warn(f"{path}.members", "is the older spelling of subgroups", "write subgroups")
    _check_once(template, path, "min_member", "minMember", report)
    _check_once(template, path, "min_sub_group", "minSubGroup", report)
    counts_pods = template.min_member is not None or template.min_member_path is not None
    counts_children = template.min_sub_group is not None or template.min_sub_group_path is not None
    if counts_children and not components:
        report.error(f"{path}.minSubGroup", "there are no subgroups to count", "write minMember instead")
    _check_keep(template.keep, f"{path}.keep", "this PodGroup" if not components else "", report)
    if counts_pods and counts_children:
        report.error(f"{path}.minMember", "minMember and minSubGroup are both set", "keep one of them")
    elif counts_pods and components:
        hint = "write minSubGroup, or minReplicas in the leaves"
        report.error(f"{path}.minMember", "counts the pods of a PodGroup without subgroups", hint)
    if template.pod_classifier is not None:
        _check_classifier(template.pod_classifier, f"{path}.podClassifier", report)
    _check_pods(template, path, "a PodGroup" if components else "", report)
    _check_keys(template, path, report)
    _check_components(components, f"{path}.{field}", report)
    _check_unmatched(template.unmatched_pods, components, f"{path}.unmatchedPods", report)


def _check_keep(keep: str, path: str, leaf: str, report: Report) -> None:
    """All, or an expression for it, where there are children; `leaf` says what it is when there are none."""
    if keep and leaf:
        report.error(path, f"{leaf} has no subgroups to keep together", "write it above the subgroups")
    elif keep and keep != KEEP_ALL and not is_expression(keep):
        hint = f"write {KEEP_ALL}, or an expression that gives {KEEP_ALL} or nothing"
        report.error(path, f"{shown(keep)} is not {KEEP_ALL}", hint)


def _check_pods(entry: GroupTemplate | Component, path: str, branch: str, report: Report) -> None:
    """What only an entry that holds pods can say. `branch` says what it is when it holds none."""
    if branch:
        for field, value in (("replicasPath", entry.replicas_path), ("segments", entry.segments)):
            if value is not None:
                report.error(f"{path}.{field}", f"{branch} with subgroups holds no pods", "write it in the leaves")
    elif entry.segments is not None:
        _check_count(entry.segments.index_from, f"{path}.segments.indexFrom", report)
        if entry.replicas_path is None and not report.unread(f"{path}.replicasPath"):
            report.error(
                f"{path}.replicasPath", "is missing: segments of how many pods?", "say how many pods there are"
            )
    minimum = entry.min_member_path if isinstance(entry, GroupTemplate) else entry.min_replicas_path
    unread = any(report.unread(f"{path}.{field}Path") for field in ("minMember", "minReplicas", "minSubGroup"))
    if entry.resolve and minimum is None and entry.min_sub_group_path is None and not unread:
        report.warn(f"{path}.resolve", "chooses among the paths of a minimum, and there is none", "remove it")


def _check_keys(template: GroupTemplate, path: str, report: Report) -> None:
    """Members that tell instances apart do it all in one way, for they are in one PodGroup."""
    field, components = template.tree
    members = components if field == "members" else []
    keys = [_listed(member.group_by_key_paths) for member in members]
    for index, one in enumerate(keys):
        if one != keys[0]:
            message = "differs from that of members[0], and both are in one PodGroup"
            report.error(f"{path}.members[{index}].groupByKeyPaths", message, "write the same in every member")
    if any(keys) and template.instance_key_paths is not None:
        message = "says the same as the groupByKeyPaths of its members"
        report.error(f"{path}.instanceKeyPaths", message, "keep instanceKeyPaths only")


def _listed(paths: str | list[str] | None) -> list[str]:
    return [paths] if isinstance(paths, str) else paths or []


def _check_unmatched(name: str, components: list[Component], path: str, report: Report) -> None:
    if name in _RESERVED_UNMATCHED:
        return
    unknown, branch = True, False
    waiting = list(components)
    while waiting:
        entry = waiting.pop()
        if entry.component_name == name:
            unknown, branch = False, branch or bool(entry.subgroups)
        elif is_expression(entry.component_name):
            # It may come to be called so.
            unknown = False
        waiting.extend(entry.subgroups)
    if unknown:
        hint = "write Error, Ignore, or the componentName of a subgroup"
        report.error(path, f"no subgroup is called {shown(name)}", hint)
    elif branch:
        report.error(path, f"{shown(name)} has subgroups, so it holds no pods", "name a leaf")


def _check_components(components: list[Component], path: str, report: Report) -> None:
    """All entries, down to any depth, without recursion."""
    waiting = [(components, path)]
    while waiting:
        entries, where = waiting.pop()
        static: dict[str, list[int]] = {}
        members = where.endswith(".members")
        for index, entry in enumerate(entries):
            here = f"{where}[{index}]"
            same = static.setdefault(entry.component_name, []) if entry.foreach is None else []
            # Two that are there under different conditions may never meet.
            rival = next((one for one in same if not (entry.when and entries[one].when not in (None, entry.when))), -1)
            if rival >= 0:
                report.error(
                    f"{here}.componentName",
                    f"{shown(entry.component_name)} stands already at {where}[{rival}]",
                    "give every entry a name of its own",
                )
            same.append(index)
            if entry.group_by_key_paths is not None and not members:
                hint = "write instanceKeyPaths beside the subgroups"
                report.error(f"{here}.groupByKeyPaths", "is known only in members", hint)
            _check_component(entry, here, len(entries) == 1 and members, report)
            if entry.subgroups:
                waiting.append((entry.subgroups, f"{here}.subgroups"))


def _unclassified(entry: Component) -> tuple[str, str]:
    """What is missing of an entry that does not say which pods belong to it, and what to add."""
    of = shown(entry.component_name) if entry.component_name else "this entry"
    hint = f"add podClassifier: {{matchLabels: {{KEY: VALUE}}}} with a label that only pods of {of} have"
    if entry.group_by_key_paths is None:
        return "is missing: which pods belong here?", hint
    # The keys are those of the whole PodGroup: its pods all have the same.
    return "is missing: groupByKeyPaths tells PodGroups apart, not the entries of one", hint


def _check_component(entry: Component, path: str, alone: bool, report: Report) -> None:
    if entry.foreach is not None and not _FOREACH.fullmatch(entry.foreach):
        report.error(f"{path}.foreach", 'must read "<expression> as $variable"', 'for example ".spec.groups[] as $g"')
    _check_once(entry, path, "min_replicas", "minReplicas", report)
    _check_once(entry, path, "min_sub_group", "minSubGroup", report)
    counts_pods = entry.min_replicas is not None or entry.min_replicas_path is not None
    counts_children = entry.min_sub_group is not None or entry.min_sub_group_path is not None
    _check_pods(entry, path, "an entry" if entry.subgroups else "", report)
    _check_keep(entry.keep, f"{path}.keep", "this entry" if not entry.subgroups else "", report)
    if entry.subgroups:
        if counts_pods:
            report.error(f"{path}.minReplicas", "an entry with subgroups holds no pods", "write minSubGroup")
        if entry.pod_classifier is not None:
            report.error(f"{path}.podClassifier", "an entry with subgroups holds no pods", "classify in its leaves")
    else:
        if counts_children:
            report.error(f"{path}.minSubGroup", "there are no subgroups to count", "write minReplicas")
        if entry.pod_classifier is None and not alone:
            report.error(f"{path}.podClassifier", *_unclassified(entry))
    if entry.pod_classifier is not None:
        _check_classifier(entry.pod_classifier, f"{path}.podClassifier", report)
    for alias, field in (("required", "required_path"), ("preferred", "preferred_path")):
        if getattr(entry, f"{alias}_topology_constraints_path") and entry.topology and getattr(entry.topology, field):
            where = f"{path}.{alias}TopologyConstraintsPath"
            report.error(where, f"says the same as topology.{alias}Path, which is also set", "keep one of them")


def _check_count(value: int | str | None, path: str, report: Report) -> None:
    """A literal is a whole number that is not negative; everything else starts like an expression."""
    if isinstance(value, str) and is_expression(value):
        return
    if value is not None and not re.fullmatch(r"[0-9]{1,9}", str(value)):
        hint = "write 0 or more, or an expression such as .spec.replicas"
        report.error(path, f"{shown(value)} is neither a count nor an expression", hint)


def _check_once(entry: GroupTemplate | Component, path: str, field: str, name: str, report: Report) -> None:
    _check_count(getattr(entry, field), f"{path}.{name}", report)
    if getattr(entry, field) is not None and getattr(entry, f"{field}_path") is not None:
        report.error(f"{path}.{name}Path", f"{name} and {name}Path are both set", "keep one of them")


def _check_classifier(classifier: PodClassifier, path: str, report: Report) -> None:
    if not classifier.match_labels and not classifier.match_expressions and not report.unread(path):
        report.error(path, "matches every pod", "write matchLabels or matchExpressions")
    for key in classifier.match_labels:
        _check_key(key, child_path(f"{path}.matchLabels", key), report)
    for index, expression in enumerate(classifier.match_expressions):
        _check_expression(expression, f"{path}.matchExpressions[{index}]", report)


def _check_key(key: str, path: str, report: Report) -> None:
    if key and not _LABEL_KEY.fullmatch(key):
        report.error(path, f"{shown(key)} is no label key: no pod carries it", "write it as example.com/name")


def _check_expression(expression: MatchExpression, path: str, report: Report) -> None:
    _check_key(expression.key, f"{path}.key", report)
    for value in (expression.value, *(expression.values or ())):
        if value is not None and is_expression(value):
            hint = "write valuePath for an expression"
            report.warn(path, f"{shown(value)} is taken as it stands, and no label has such a value", hint)
    one, many, by_path = expression.value is not None, expression.values is not None, expression.value_path is not None
    if expression.operator in ("Exists", "DoesNotExist"):
        if one or many or by_path:
            report.error(path, f"{expression.operator} takes no value", "remove value, values and valuePath")
    elif expression.operator in ("In", "NotIn"):
        if one or many == by_path or expression.values == []:
            report.error(path, f"{expression.operator} takes either values or valuePath", "write values: [a, b]")
    elif expression.operator and (many or one == by_path):
        report.error(path, f"{expression.operator} takes either value or valuePath", "write value: a")
