"""The rules of a Topology, and of the constraints that name one."""

from muster.api.documents import child_path, shown
from muster.api.nearest import Nearest
from muster.api.podgroup import PodGroup, TopologyConstraint
from muster.api.topology import HOSTNAME, Topology, level_names, levels_named
from muster.api.tree import NONE, Constraint, Tree, subgroups_field, subgroups_of
from muster.api.validation.context import Context
from muster.api.validation.violation import Report


def check_topology(topology: Topology, old: Topology | None, report: Report) -> None:
    """Labels unique, hostname last, and once created immutable."""
    levels = topology.spec.levels
    labels: dict[str, int] = {}
    aliases: dict[str, int] = {}
    for index, level in enumerate(levels):
        path = f"spec.levels[{index}]"
        if level.node_label and labels.setdefault(level.node_label, index) != index:
            message = f"the label {shown(level.node_label)} stands already at spec.levels[{labels[level.node_label]}]"
            report.error(f"{path}.nodeLabel", message, "every level needs a label of its own")
        if level.node_label == HOSTNAME and index < len(levels) - 1:
            report.error(f"{path}.nodeLabel", f"{HOSTNAME} is the narrowest level there is", "move it to the end")
        if level.alias and aliases.setdefault(level.alias, index) != index:
            message = f"the alias {shown(level.alias)} stands already at spec.levels[{aliases[level.alias]}]"
            report.warn(f"{path}.alias", message, "no constraint can use it: give each level an alias of its own")
    if old is not None:
        before = [level.node_label for level in old.spec.levels]
        if before != [level.node_label for level in levels]:
            message = f"the labels of a Topology stay as they were created: {', '.join(filter(None, before))}"
            report.error("spec.levels", message, "create a new Topology with another name")


def check_constraints(group: PodGroup, tree: Tree | None, report: Report, context: Context) -> None:
    """Every rule about constraints; those that need the tree are left out when there is none."""
    _check_placement(group, report)
    _check_sets(group, report)
    if tree is not None:
        _check_without_level(group, tree, report)
        _Levels(tree, report, context).check()


def _written(group: PodGroup) -> list[tuple[str, TopologyConstraint]]:
    """All constraints of a PodGroup as they are written, with their paths."""
    spec, field = group.spec, subgroups_field(group)
    found = [("spec.topologyConstraint", spec.topology_constraint)]
    for index, subgroup in enumerate(subgroups_of(group)):
        found.append((f"{field}[{index}].topologyConstraint", subgroup.topology_constraint))
    older, path = spec.topology_constraints, "spec.topologyConstraints"
    if older is not None:
        found.append((f"{path}.global", older.global_))
        found.extend((child_path(f"{path}.subGroups", name), one) for name, one in older.sub_groups.items())
        found.extend(
            (f"{path}.subGroupSets[{i}].constraint", one.constraint) for i, one in enumerate(older.sub_group_sets)
        )
    return [(where, constraint) for where, constraint in found if constraint is not None]


def _check_without_level(group: PodGroup, tree: Tree, report: Report) -> None:
    """A name without a level holds nothing, but a constraint below may inherit it."""
    inherited = {node.constraint.named_at for node in tree.nodes if node.constraint}
    inherited.update(hold.constraint.named_at for hold in tree.together)
    for path, constraint in _written(group):
        level = constraint.required_topology_level or constraint.preferred_topology_level
        idle = path.startswith("spec.topologyConstraints.subGroupSets") and not constraint.topology
        if idle and not level:
            report.warn(path, "holds nothing: it names no level", "add requiredTopologyLevel")
        elif constraint.topology and not level and path not in inherited:
            report.warn(
                path, f"names the topology {shown(constraint.topology)} but no level", "add requiredTopologyLevel"
            )


def _check_placement(group: PodGroup, report: Report) -> None:
    """topologyConstraints.subGroups: names exist, and no node has two constraints."""
    older = group.spec.topology_constraints
    if older is None:
        return
    field, path = subgroups_field(group), "spec.topologyConstraints.subGroups"
    index_of = {subgroup.name: index for index, subgroup in reversed(list(enumerate(subgroups_of(group))))}
    nearest = Nearest(index_of)
    for name in older.sub_groups:
        where = child_path(path, name)
        if name not in index_of:
            report.error(where, f"no SubGroup is called {shown(name)}", nearest.hint(name) or "name a SubGroup")
        elif subgroups_of(group)[index_of[name]].topology_constraint not in (None, TopologyConstraint()):
            other = f"{field}[{index_of[name]}].topologyConstraint"
            report.error(where, f"{name} has two constraints: this one and {other}", "keep one of them")
    root = group.spec.topology_constraint
    if older.global_ is not None and root and (root.required_topology_level or root.preferred_topology_level):
        report.warn(
            "spec.topologyConstraints.global",
            "covers nothing: spec.topologyConstraint holds all pods already",
            "remove one of them",
        )


def _check_sets(group: PodGroup, report: Report) -> None:
    older = group.spec.topology_constraints
    if older is None:
        return
    parent_of = {subgroup.name: subgroup.parent or "" for subgroup in reversed(subgroups_of(group))}
    nearest = Nearest(parent_of)
    set_of: dict[str, int] = {}
    for number, group_set in enumerate(older.sub_group_sets):
        path = f"spec.topologyConstraints.subGroupSets[{number}]"
        first = ""
        for index, name in enumerate(group_set.sub_groups):
            where = f"{path}.subGroups[{index}]"
            if name not in parent_of:
                hint = nearest.hint(name) or "name a SubGroup of this PodGroup"
                report.error(where, f"no SubGroup is called {shown(name)}", hint)
                continue
            if name in set_of and set_of[name] == number:
                report.warn(where, f"{name} stands twice in this set", "name it once")
            elif name in set_of:
                other = f"subGroupSets[{set_of[name]}]"
                report.error(where, f"{name} is already in {other}", "a SubGroup is in at most one set")
            set_of.setdefault(name, number)
            first = first or name
            if parent_of[name] != parent_of[first]:
                parents = f"{parent_of[first] or 'the PodGroup'} and {parent_of[name] or 'the PodGroup'}"
                message = f"{first} and {name} have different parents: {parents}"
                report.error(where, message, "a set holds SubGroups of one parent; put a constraint on their parent")


class _Levels:
    """Topologies and levels exist, and narrow from the root down."""

    def __init__(self, tree: Tree, report: Report, context: Context) -> None:
        self._tree, self._topologies = tree, context.topologies
        self._report = report
        # One per set of names, so that many mistakes share its budget.
        self._nearest: dict[str, Nearest] = {}

    def check(self) -> None:
        """Per row and Topology, the narrowest level that is required so far and by whom; a wider one adds nothing."""
        sets = {row: hold.constraint for hold in self._tree.together for row in hold.members}
        levels: dict[str, tuple[str, int] | None] = {}
        narrowest: list[dict[str, tuple[int, Constraint]]] = []
        for row, node in enumerate(self._tree.nodes):
            above = narrowest[node.parent] if node.parent != NONE else {}
            for constraint in (sets.get(row), node.constraint):
                if constraint is None:
                    continue
                first = constraint.path not in levels
                if first:
                    levels[constraint.path] = self._required_level(constraint)
                above = self._narrowed(constraint, levels[constraint.path], above, first)
            narrowest.append(above)
        for hold in self._tree.together:
            if hold.constraint.path not in levels:
                levels[hold.constraint.path] = self._required_level(hold.constraint)

    def _narrowed(
        self,
        constraint: Constraint,
        level: tuple[str, int] | None,
        above: dict[str, tuple[int, Constraint]],
        first: bool,
    ) -> dict[str, tuple[int, Constraint]]:
        """What is required below a constraint; one that stands on several rows is spoken of once."""
        if level is None:
            return above
        topology, index = level
        wider_than, other = above.get(topology, (-1, constraint))
        if index >= wider_than:
            return {**above, topology: (index, constraint)}
        if first:
            message = f"requires {constraint.required}, wider than {other.required} required at {other.path}"
            self._report.warn(f"{constraint.path}.requiredTopologyLevel", message, "it adds nothing: remove it")
        return above

    def _required_level(self, constraint: Constraint) -> tuple[str, int] | None:
        """The Topology and index of the required level where they are known; says what is wrong on the way."""
        topology = self._topology(constraint)
        if topology is None:
            return None
        required = self._level(topology, constraint, constraint.required, "requiredTopologyLevel")
        preferred = self._level(topology, constraint, constraint.preferred, "preferredTopologyLevel")
        if required is not None and preferred is not None and preferred < required:
            message = f"prefers {constraint.preferred}, wider than the required {constraint.required}"
            self._report.warn(f"{constraint.path}.preferredTopologyLevel", message, "it adds nothing: remove it")
        return None if required is None else (topology.metadata.name, required)

    def _topology(self, constraint: Constraint) -> Topology | None:
        known = self._topologies
        if constraint.topology:
            if known is None or constraint.topology in known:
                return known[constraint.topology] if known else None
            if "" not in self._nearest:
                self._nearest[""] = Nearest(known)
            hint = self._nearest[""].hint(constraint.topology) or "the gang is held until the Topology exists"
            message = f"the Topology {shown(constraint.topology)} does not exist"
            self._report.warn(f"{constraint.path}.topology", message, hint)
        elif known is not None and len(known) == 1:
            return next(iter(known.values()))
        else:
            there = "" if known is None else f", and there are {len(known)} to choose from"
            self._report.warn(
                f"{constraint.path}.topology",
                f"no topology is named here, above, or in the annotation kai.scheduler/topology{there}",
                "name one, or the cluster's only Topology is used" if known is None else "name one",
            )
        return None

    def _level(self, topology: Topology, constraint: Constraint, name: str, field: str) -> int | None:
        if not name:
            return None
        found = levels_named(topology, name)
        if len(found) == 1:
            return found[0]
        path = f"{constraint.path}.{field}"
        which = topology.metadata.name
        if found:
            both = " and ".join(topology.spec.levels[index].node_label for index in found)
            self._report.warn(path, f"{shown(name)} could be {both} of Topology {which}", "write the whole label")
        else:
            labels, aliases, short = level_names(topology)
            if which not in self._nearest:
                self._nearest[which] = Nearest([*aliases, *short, *labels])
            hint = self._nearest[which].hint(name) or f"its levels: {', '.join(labels)}"
            self._report.warn(path, f"the Topology {which} has no level {shown(name)}", hint)
        return None
