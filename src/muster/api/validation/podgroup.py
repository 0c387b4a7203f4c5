"""The rules of a PodGroup: its structure, its minimums, its fields."""

from collections.abc import Sequence

from muster.api.documents import child_path, shown
from muster.api.nearest import Nearest
from muster.api.podgroup import (
    IGNORED_FIELDS,
    KEEP_ANNOTATION,
    KEEP_ROOT,
    MAX_DEPTH,
    PodGroup,
    PodGroupSpec,
    SubGroup,
    is_grouped,
    is_of_a_pod_gang,
    kept_names,
)
from muster.api.priorities import HIGHEST_OF_USERS, MAX_PRIORITY_ANNOTATION
from muster.api.tree import (
    NONE,
    Tree,
    TreeNode,
    children_by_parent,
    minimum_pods,
    normal_form,
    subgroups_field,
    subgroups_of,
)
from muster.api.validation import topology
from muster.api.validation.context import ALLOW, DENY, Context
from muster.api.validation.violation import Report

# So many wrong names of one annotation are told one by one.
_MOST_NAMES = 25


def tree_of(group: PodGroup) -> Tree | None:
    """The normal form, or None when the SubGroups make no tree."""
    sound = _Structure(subgroups_of(group), subgroups_field(group), Report([])).check()
    return normal_form(group) if sound else None


def check(group: PodGroup, report: Report, context: Context) -> Tree | None:
    """Every rule that a PodGroup breaks on its own; gives its tree where there is one."""
    _check_spelling(group, report)
    _check_references(group, report, context)
    if not subgroups_of(group) and (report.unread("spec.subGroups") or report.unread("spec.subgroups")):
        # Nobody knows whether it has SubGroups.
        return None
    structure = _Structure(subgroups_of(group), subgroups_field(group), report)
    tree = normal_form(group) if structure.check() else None
    _Minimums(group, tree, structure, report, context).check()
    _check_keep(group, tree, report)
    topology.check_constraints(group, tree, report, context)
    return tree


def _check_spelling(group: PodGroup, report: Report) -> None:
    spec = group.spec
    if spec.subgroups is not None:
        if spec.sub_groups is not None:
            report.error("spec.subgroups", "subGroups and subgroups are both set", "keep subGroups only")
        else:
            report.warn("spec.subgroups", "is the deprecated spelling of subGroups", "write subGroups: muster migrate")
    for name, attribute in IGNORED_FIELDS.items():
        if getattr(spec, attribute) is not None:
            report.warn(f"spec.{name}", "is ignored: a PodGroup has no such thing", "remove it")


def _check_references(group: PodGroup, report: Report, context: Context) -> None:
    queue = group.spec.queue or context.default_queue
    if context.queues is not None and queue not in context.queues:
        hint = context.nearest_queue.hint(queue) or "the gang is held until the queue exists"
        if not context.queues:
            hint = "there are no Queues: until there is one every queue name counts, without limit"
        report.warn("spec.queue", f"the queue {shown(queue)} does not exist", hint)
    name = group.spec.priority_class_name
    if name and context.priority_classes is not None and name not in context.priority_classes:
        hint = context.nearest_priority_class.hint(name) or "the default priority is used until it exists"
        report.warn("spec.priorityClassName", f"the PriorityClass {shown(name)} does not exist", hint)
    elif name and context.priority_classes is not None:
        _check_priority(group, context.priority_classes[name], queue, report, context)


def _check_priority(group: PodGroup, value: int, queue: str, report: Report, context: Context) -> None:
    """A priority that will not count: the gang would be held. The Queue or the configuration may still change."""
    path, name = "spec.priorityClassName", shown(group.spec.priority_class_name)
    namespace = group.metadata.namespace or "default"
    if value > HIGHEST_OF_USERS and namespace not in context.priorities.system_namespaces:
        message = f"the system class {name} may not be used in the namespace {namespace}: the gang is held"
        report.warn(path, message, "name another class, or add the namespace to priorities.systemNamespaces")
        return
    most = context.queue_tree.max_priority_of(queue, context.priority_classes or {})
    if most is not None and value > most:
        message = f"the priority {value:,} is above the {most:,} that the queue {shown(queue)} admits: the gang is held"
        report.warn(path, message, f"name a lower class, or raise {MAX_PRIORITY_ANNOTATION} of the Queue")


def _check_keep(group: PodGroup, tree: Tree | None, report: Report) -> None:
    """Every name of the annotation muster.dev/keep is a branch, or `.` for a root with SubGroups."""
    if tree is None:
        return
    path = child_path("metadata.annotations", KEEP_ANNOTATION)
    nearest = Nearest(node.name for node in tree.nodes if node.name and node.children)
    wrong = [name for name in dict.fromkeys(kept_names(group)) if not _keeps(tree, name)]
    for name in wrong[:_MOST_NAMES]:
        if name and name in tree.row_of:
            message, hint = f"{shown(name)} is a leaf, which has no children to keep together", "name a branch"
        elif name == KEEP_ROOT:
            message, hint = "the PodGroup has no SubGroups to keep together", "remove the annotation"
        else:
            message = f"no SubGroup is called {shown(name)}" if name else "a name is missing"
            hint = nearest.hint(name) or f"name branches, separated by commas; {KEEP_ROOT} is the PodGroup itself"
        report.error(path, message, hint)
    if len(wrong) > _MOST_NAMES:
        report.error(path, f"{len(wrong) - _MOST_NAMES:,} more of its names are wrong", "name branches only")


def _keeps(tree: Tree, name: str) -> bool:
    """Whether a name means the root or a branch."""
    row = 0 if name == KEEP_ROOT else tree.row_of.get(name, 0) if name else NONE
    return row != NONE and bool(tree.nodes[row].children) and (row > 0 or name == KEEP_ROOT)


class _Structure:
    """Names, parents, cycles, depth: whether the SubGroups make a tree."""

    def __init__(self, subgroups: Sequence[SubGroup], field: str, report: Report) -> None:
        self._subgroups, self._field, self._report = subgroups, field, report
        # SubGroups that a misspelled parent was probably meant to name: they are branches.
        self.meant_as_parents: set[str] = set()
        # Entries that could not be read: each of them may be anybody's child.
        self.strays = 0

    def check(self) -> bool:
        """True when they do."""
        first_of, unique = self._check_names()
        self._find_strays(first_of)
        parents = [first_of.get(subgroup.parent) if subgroup.parent else None for subgroup in self._subgroups]
        found = self._check_parents(first_of)
        cycles = _cycles(parents)
        for cycle in cycles:
            names = [self._subgroups[index].name for index in cycle]
            if len(names) > 8:
                names = [*names[:5], f"… {len(names) - 6} more …", names[-1]]
            message = f"parents form a cycle: {' → '.join([*names, names[0]])}"
            self._report.error(f"{self._field}[{cycle[0]}].parent", message, "one of them has no parent")
        deep = not cycles and not _check_depth(parents, self._field, self._report)
        return not cycles and not deep and unique and found and not self.strays

    def _find_strays(self, first_of: dict[str, int]) -> None:
        for index, subgroup in enumerate(self._subgroups):
            path = f"{self._field}[{index}]"
            whole = self._report.unread(path) and subgroup == SubGroup(name="")
            self.strays += whole or (self._report.unread(f"{path}.parent") and subgroup.parent not in first_of)

    def _check_names(self) -> tuple[dict[str, int], bool]:
        first_of: dict[str, int] = {}
        unique = True
        for index, subgroup in enumerate(self._subgroups):
            if subgroup.name and first_of.setdefault(subgroup.name, index) == index:
                continue
            unique = False
            if subgroup.name:
                where = f"{self._field}[{first_of[subgroup.name]}]"
                message = f"the name {shown(subgroup.name)} stands already at {where}"
                self._report.error(f"{self._field}[{index}].name", message, "give every SubGroup a name of its own")
        return first_of, unique

    def _check_parents(self, first_of: dict[str, int]) -> bool:
        nearest = Nearest(first_of)
        found = True
        for index, subgroup in enumerate(self._subgroups):
            if not subgroup.parent or subgroup.parent in first_of:
                continue
            found = False
            meant = nearest.to(subgroup.parent)
            self.meant_as_parents.add(meant)
            hint = f"did you mean {meant}?" if meant else "name another SubGroup, or leave parent out"
            message = f"no SubGroup is called {shown(subgroup.parent)}"
            self._report.error(f"{self._field}[{index}].parent", message, hint)
        return found


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

    def __init__(
        self, group: PodGroup, tree: Tree | None, structure: "_Structure", report: Report, context: Context
    ) -> None:
        self._group, self._report, self._structure = group, report, structure
        self._subgroups, self._field = subgroups_of(group), subgroups_field(group)
        self._below = children_by_parent(self._subgroups)
        self._nodes: dict[str, TreeNode] = {node.name: node for node in tree.nodes} if tree else {}
        self._pods: dict[str, int] = {}
        if tree:
            self._pods = {node.name: pods for node, pods in zip(tree.nodes, minimum_pods(tree), strict=True)}
        self._tree = tree
        self._zero = context.settings.zero_minimum
        self._is_made = is_grouped(group) or is_of_a_pod_gang(group)

    def check(self) -> None:
        self._check_root()
        for index, subgroup in enumerate(self._subgroups):
            path = f"{self._field}[{index}]"
            children = len(self._below.get(subgroup.name, ())) if subgroup.name else 0
            if children:
                self._check_branch(subgroup, path, children)
            elif subgroup.name not in self._structure.meant_as_parents and not self._structure.strays:
                self._check_leaf(subgroup, path)

    def _check_root(self) -> None:
        spec = self._group.spec
        children = len(self._below.get("", ()))
        if self._subgroups:
            if not self._check_inner(spec, "spec", "", children) and spec.min_member:
                self._warn_floor(spec.min_member, children)
            return
        if spec.min_sub_group is not None:
            if spec.min_member:
                self._report.error("spec.minMember", _both_set(""), "keep minMember: there are no SubGroups to count")
            message = "there are no SubGroups to count"
            self._report.error("spec.minSubGroup", message, "count pods: write minMember instead")
        elif spec.min_member == 0:
            self._zero_minimum("spec.minMember", "the PodGroup")

    def _check_branch(self, subgroup: SubGroup, path: str, children: int) -> None:
        if not self._check_inner(subgroup, path, subgroup.name, children) and subgroup.min_member:
            self._report.error(
                f"{path}.minMember",
                f"{subgroup.name} has {_plural(children, 'child', 'children')}, and pods are counted in leaves only",
                self._hint_for_branch(subgroup.name, subgroup.min_member, children),
            )

    def _check_inner(self, written: PodGroupSpec | SubGroup, path: str, name: str, children: int) -> bool:
        """minSubGroup of a root or branch, and minMember beside it. False when there is no minSubGroup."""
        members, minimum = written.min_member, written.min_sub_group
        if minimum is None:
            if not self._report.unread(f"{path}.minSubGroup"):
                return False
            if members:
                self._report.error(f"{path}.minMember", _both_set(name), "keep one of them")
            return True
        who = f"branch {name}" if name else "the PodGroup"
        hint = self._hint_for_both(name, members, minimum) if members else ""
        if members:
            self._report.error(f"{path}.minMember", _both_set(name), hint)
        if minimum > children + self._structure.strays:
            self._report.error(
                f"{path}.minSubGroup",
                f"{minimum} is more than the {_plural(children, 'direct child', 'direct children')} of {who}",
                f"write at most {children}, or leave it out: then all of them are required",
            )
        elif members:
            self._report.error(f"{path}.minSubGroup", _both_set(name), hint)
        elif minimum == 0:
            self._zero_minimum(f"{path}.minSubGroup", who)
        return True

    def _check_leaf(self, subgroup: SubGroup, path: str) -> None:
        name = shown(subgroup.name)
        if subgroup.min_sub_group is not None:
            if subgroup.min_member:
                self._report.error(f"{path}.minMember", _both_set(subgroup.name), "keep minMember: a leaf holds pods")
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

    def _hint_for_both(self, name: str, members: int, minimum: int) -> str:
        pods = self._pods.get(name)
        if pods is None or minimum > len(self._nodes[name].children):
            return "keep one: pods are counted in leaves, children in branches"
        if pods == members:
            return f"remove minMember: minSubGroup: {minimum} asks for these {pods} pods already (muster migrate)"
        return f"keep one: minSubGroup: {minimum} asks for {pods} pods, minMember for {members}"

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
        if self._zero == DENY and not self._is_made:
            self._report.error(path, message, "write 1 or more, or set validation.zeroMinimum in the configuration")
        elif self._zero != ALLOW:
            self._report.warn(path, message, "it can start without any of its pods")


def _both_set(name: str) -> str:
    return f"minMember and minSubGroup are both set on {name or 'the PodGroup'}"


def _plural(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"
