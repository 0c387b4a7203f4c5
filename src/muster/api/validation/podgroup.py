"""The rules of a PodGroup: its structure, its minimums, its fields."""

from collections.abc import Sequence

from muster.api.documents import shown
from muster.api.nearest import Nearest
from muster.api.podgroup import GROUPER_ANNOTATION, MAX_DEPTH, PodGroup, SubGroup
from muster.api.tree import Node, Tree, children_by_parent, minimum_pods, normal_form, subgroups_field, subgroups_of
from muster.api.validation import topology
from muster.api.validation.context import ALLOW, DENY, Context
from muster.api.validation.violation import Report

_IGNORED = ("parallelism", "completions", "backoffLimit")


def tree_of(group: PodGroup) -> Tree | None:
    """The normal form, or None when the SubGroups make no tree."""
    sound = _check_structure(subgroups_of(group), subgroups_field(group), Report([]))
    return normal_form(group) if sound else None


def check(group: PodGroup, report: Report, context: Context) -> Tree | None:
    """Every rule that a PodGroup breaks on its own; gives its tree where there is one."""
    _check_spelling(group, report)
    _check_references(group, report, context)
    if not _subgroups_were_read(group, report):
        return None
    sound = _check_structure(subgroups_of(group), subgroups_field(group), report)
    tree = normal_form(group) if sound else None
    _Minimums(group, tree, report, context).check()
    topology.check_constraints(group, tree, report, context)
    return tree


def _subgroups_were_read(group: PodGroup, report: Report) -> bool:
    """Whether it is known which SubGroups there are and how they hang together; else nothing is said about them."""
    field = subgroups_field(group)
    if report.unread("spec") or report.unread("spec.subGroups") or report.unread("spec.subgroups"):
        return False
    return not any(
        report.unread(f"{field}[{index}]") or (report.unread(f"{field}[{index}].parent") and not subgroup.parent)
        for index, subgroup in enumerate(subgroups_of(group))
    )


def _check_spelling(group: PodGroup, report: Report) -> None:
    spec = group.spec
    if spec.subgroups is not None:
        if spec.sub_groups is not None:
            report.error("spec.subgroups", "subGroups and subgroups are both set", "keep subGroups only")
        else:
            report.warn("spec.subgroups", "is the deprecated spelling of subGroups", "write subGroups: muster migrate")
    for name in _IGNORED:
        if getattr(spec, "backoff_limit" if name == "backoffLimit" else name) is not None:
            report.warn(f"spec.{name}", "is ignored: a PodGroup has no such thing", "remove it")


def _check_references(group: PodGroup, report: Report, context: Context) -> None:
    queue = group.spec.queue or context.default_queue
    if context.queues is not None and queue not in context.queues:
        hint = Nearest(context.queues).hint(queue) or "the gang is held until the queue exists"
        report.warn("spec.queue", f"the queue {shown(queue)} does not exist", hint)
    name = group.spec.priority_class_name
    if name and context.priority_classes is not None and name not in context.priority_classes:
        hint = Nearest(context.priority_classes).hint(name) or "the default priority is used until it exists"
        report.warn("spec.priorityClassName", f"the PriorityClass {shown(name)} does not exist", hint)


def _check_structure(subgroups: Sequence[SubGroup], field: str, report: Report) -> bool:
    """Names, parents, cycles, depth. True when they make a tree."""
    first_of: dict[str, int] = {}
    sound = True
    for index, subgroup in enumerate(subgroups):
        if not subgroup.name:
            sound = False
        elif subgroup.name in first_of:
            sound = False
            report.error(
                f"{field}[{index}].name",
                f"the name {shown(subgroup.name)} stands already at {field}[{first_of[subgroup.name]}]",
                "give every SubGroup a name of its own",
            )
        else:
            first_of[subgroup.name] = index
    nearest = Nearest(first_of)
    parents: list[int | None] = []
    for index, subgroup in enumerate(subgroups):
        parents.append(first_of.get(subgroup.parent) if subgroup.parent else None)
        if subgroup.parent and subgroup.parent not in first_of:
            sound = False
            hint = nearest.hint(subgroup.parent) or "name another SubGroup, or leave parent out"
            report.error(f"{field}[{index}].parent", f"no SubGroup is called {shown(subgroup.parent)}", hint)
    cycles = _cycles(parents)
    for cycle in cycles:
        names = [subgroups[index].name for index in cycle]
        if len(names) > 8:
            names = [*names[:5], f"… {len(names) - 6} more …", names[-1]]
        way = " → ".join([*names, names[0]])
        report.error(f"{field}[{cycle[0]}].parent", f"parents form a cycle: {way}", "one of them has no parent")
    return not cycles and _check_depth(parents, field, report) and sound


def _cycles(parents: Sequence[int | None]) -> list[list[int]]:
    """The cycles among the parents, each from its first position in the spec on."""
    seen = [0] * len(parents)
    found = []
    for start in range(len(parents)):
        at: int | None = start
        walk = start + 1
        while at is not None and not seen[at]:
            seen[at] = walk
            at = parents[at]
        if at is not None and seen[at] == walk:
            cycle = [at]
            up = parents[at]
            while up is not None and up != at:
                cycle.append(up)
                up = parents[up]
            least = cycle.index(min(cycle))
            found.append(cycle[least:] + cycle[:least])
    return found


def _check_depth(parents: Sequence[int | None], field: str, report: Report) -> bool:
    depths = [0] * len(parents)
    for start in range(len(parents)):
        way = []
        at: int | None = start
        while at is not None and not depths[at]:
            way.append(at)
            at = parents[at]
        depth = 0 if at is None else depths[at]
        for index in reversed(way):
            depth += 1
            depths[index] = depth
    deepest = max(depths, default=0)
    if deepest <= MAX_DEPTH:
        return True
    where = next(index for index, depth in enumerate(depths) if depth > MAX_DEPTH)
    report.error(
        f"{field}[{where}]", f"the tree is {deepest:,} levels deep, the limit is {MAX_DEPTH}", "make it flatter"
    )
    return False


class _Minimums:
    """The rules about minMember and minSubGroup on every node."""

    def __init__(self, group: PodGroup, tree: Tree | None, report: Report, context: Context) -> None:
        self._group, self._report = group, report
        self._subgroups, self._field = subgroups_of(group), subgroups_field(group)
        self._below = children_by_parent(self._subgroups)
        self._nodes: dict[str, Node] = {node.name: node for node in tree.nodes} if tree else {}
        self._pods: dict[str, int] = {}
        if tree:
            self._pods = {node.name: pods for node, pods in zip(tree.nodes, minimum_pods(tree), strict=True)}
        self._tree = tree
        self._zero = context.settings.zero_minimum
        self._grouped = GROUPER_ANNOTATION in group.metadata.annotations

    def check(self) -> None:
        self._check_root()
        for index, subgroup in enumerate(self._subgroups):
            path = f"{self._field}[{index}]"
            children = len(self._below.get(subgroup.name, ())) if subgroup.name else 0
            if children:
                self._check_branch(subgroup, path, children)
            else:
                self._check_leaf(subgroup, path)

    def _check_root(self) -> None:
        spec = self._group.spec
        if spec.min_sub_group is not None and spec.min_member:
            self._both("spec", "", spec.min_member, spec.min_sub_group)
        if not self._subgroups:
            if spec.min_sub_group is not None:
                self._report.error(
                    "spec.minSubGroup", "there are no SubGroups to count", "count pods: write minMember instead"
                )
            elif spec.min_member == 0:
                self._zero_minimum("spec.minMember", "the PodGroup")
            return
        children = len(self._below.get("", ()))
        if spec.min_sub_group is not None:
            self._check_children_count("spec", spec.min_sub_group, children, "the PodGroup", said=bool(spec.min_member))
        elif spec.min_member:
            self._warn_floor(spec.min_member, children)

    def _check_branch(self, subgroup: SubGroup, path: str, children: int) -> None:
        if subgroup.min_sub_group is not None:
            if subgroup.min_member:
                self._both(path, subgroup.name, subgroup.min_member, subgroup.min_sub_group)
            said = bool(subgroup.min_member)
            self._check_children_count(path, subgroup.min_sub_group, children, f"branch {subgroup.name}", said=said)
        elif subgroup.min_member:
            self._report.error(
                f"{path}.minMember",
                f"{subgroup.name} has {_plural(children, 'child', 'children')}, and pods are counted in leaves only",
                self._hint_for_branch(subgroup.name, subgroup.min_member, children),
            )

    def _check_leaf(self, subgroup: SubGroup, path: str) -> None:
        name = shown(subgroup.name)
        if subgroup.min_sub_group is not None:
            if subgroup.min_member:
                message = f"minMember and minSubGroup are both set on {subgroup.name or 'this SubGroup'}"
                self._report.error(f"{path}.minMember", message, "keep minMember: a leaf holds pods")
            self._report.error(
                f"{path}.minSubGroup",
                f"{name} has no children to count: it is a leaf and holds pods",
                "write minMember, or give it children with parent: " + (subgroup.name or "…"),
            )
        elif subgroup.min_member is None:
            self._report.error(
                f"{path}.minMember", f"is missing: {name} is a leaf", "write how many pods must be placed together"
            )
        elif subgroup.min_member == 0:
            self._zero_minimum(f"{path}.minMember", f"leaf {subgroup.name}")

    def _both(self, path: str, name: str, members: int, children: int) -> None:
        message = f"minMember and minSubGroup are both set on {name or 'the PodGroup'}"
        hint = "keep one: pods are counted in leaves, children in branches"
        pods = self._pods.get(name)
        if pods == members and self._nodes[name].children:
            hint = f"remove minMember: minSubGroup: {children} asks for these {pods} pods already (muster migrate)"
        elif pods is not None and self._nodes[name].children:
            hint = f"keep one: minSubGroup: {children} asks for {pods} pods, minMember for {members}"
        self._report.error(f"{path}.minMember", message, hint)
        if self._nodes.get(name) is None or self._nodes[name].children:
            self._report.error(f"{path}.minSubGroup", message, hint)

    def _check_children_count(self, path: str, minimum: int, children: int, who: str, *, said: bool) -> None:
        if minimum > children:
            self._report.error(
                f"{path}.minSubGroup",
                f"{minimum} is more than the {_plural(children, 'direct child', 'direct children')} of {who}",
                f"write at most {children}, or leave it out: then all of them are required",
            )
        elif minimum == 0 and not said:
            self._zero_minimum(f"{path}.minSubGroup", who)

    def _warn_floor(self, members: int, children: int) -> None:
        hint = f"it counts pods, and all {children} direct children are required"
        if members <= children:
            hint += f"; did you mean minSubGroup: {members}? (muster migrate --counts subgroups)"
        elif self._tree is not None and self._pods_without_floor() >= members:
            hint += "; it adds nothing to their minimums: leave it out (muster migrate)"
        self._report.warn("spec.minMember", f"minMember: {members} together with SubGroups is a floor", hint)

    def _pods_without_floor(self) -> int:
        assert self._tree is not None
        return sum(self._pods[self._tree.nodes[child].name] for child in self._tree.nodes[0].children)

    def _hint_for_branch(self, name: str, members: int, children: int) -> str:
        """The minSubGroup that says the same as a branch's minMember, where there is one."""
        node = self._nodes.get(name)
        if node is not None and self._tree is not None:
            pods = [self._pods[self._tree.nodes[child].name] for child in node.children]
            if members == sum(pods):
                return f"remove it: without minSubGroup all {children} children are required, which is {members} pods"
            if len(set(pods)) == 1 and pods[0] and members % pods[0] == 0 and members // pods[0] < children:
                return f"write minSubGroup: {members // pods[0]} ({members // pods[0]} children of {pods[0]} pods)"
        if members <= children:
            return f"write minSubGroup: {members} if it counts children (muster migrate --counts subgroups)"
        return "write minSubGroup: how many of its children are needed, or leave it out for all"

    def _zero_minimum(self, path: str, who: str) -> None:
        message = f"a minimum of 0 asks for nothing: {who} is always satisfied"
        if self._zero == DENY and not self._grouped:
            self._report.error(path, message, "write 1 or more, or set validation.zeroMinimum in the configuration")
        elif self._zero != ALLOW:
            self._report.warn(path, message, "it can start without any of its pods")


def _plural(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"
