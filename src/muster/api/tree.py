"""The normal form of a gang: one tree from every spelling, and what `satisfied`, `ready`, minimum and core mean on it.

Nodes stand in tree order: the root is row 0, every parent comes before its children, siblings keep the order of the
spec. A gang without SubGroups is a root that is itself a leaf. All functions walk rows, never recurse, and are the only
place where these words are defined, and where it is defined which children are joined.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from muster.api.documents import child_path
from muster.api.once import once
from muster.api.podgroup import KEEP_ROOT, TOPOLOGY_ANNOTATION, PodGroup, SubGroup, TopologyConstraint, kept_names

NONE = -1


class Constraint(NamedTuple):
    """Pods that are held in one domain: of the required level always, of the preferred one where possible.

    Levels are as written (`topology.levels_named` tells which they are). An empty topology is the cluster's only one;
    `named_at` is the path of the constraint that names it, empty when no constraint does.
    """

    topology: str
    required: str
    preferred: str
    path: str
    named_at: str


class TreeNode(NamedTuple):
    """A root, branch or leaf. `minimum` counts pods in a leaf, children elsewhere; `floor` counts pods below a root.

    `keep`: its joined children go only with it.
    """

    name: str
    parent: int
    children: tuple[int, ...]
    minimum: int
    floor: int
    constraint: Constraint | None
    path: str
    keep: bool = False


class Together(NamedTuple):
    """Rows that are held in one domain beside the tree; nothing is counted by it.

    A set holds children of one `parent`. The global constraint holds the leaves that nothing else covers, wherever they
    are: its parent is NONE.
    """

    members: tuple[int, ...]
    parent: int
    constraint: Constraint


@dataclass(frozen=True)
class Tree:
    """A gang in normal form."""

    nodes: tuple[TreeNode, ...]
    together: tuple[Together, ...]

    @once
    def leaves(self) -> tuple[int, ...]:
        """The rows that hold pods."""
        return tuple(row for row, node in enumerate(self.nodes) if not node.children)

    @once
    def ends(self) -> tuple[int, ...]:
        """Per row: where its subtree ends. A node and all below it stand side by side."""
        ends = list(range(1, len(self.nodes) + 1))
        for row in range(len(self.nodes) - 1, 0, -1):
            parent = self.nodes[row].parent
            ends[parent] = max(ends[parent], ends[row])
        return tuple(ends)

    def leaves_below(self, row: int) -> tuple[int, ...]:
        """The leaves of a node; of a leaf, itself."""
        return tuple(at for at in range(row, self.ends[row]) if not self.nodes[at].children)

    @once
    def keeps(self) -> bool:
        """Whether some node of it keeps its joined children."""
        return any(node.keep for node in self.nodes)

    @once
    def row_of(self) -> dict[str, int]:
        """The row of every name; the root's is empty."""
        return {node.name: row for row, node in enumerate(self.nodes)}

    def leaf_of(self, label: str | None) -> int:
        """The leaf of a pod with this subgroup label; NONE when the label is missing, unknown or names a branch.

        Such a pod is set aside. In a gang without SubGroups the label says nothing.
        """
        if len(self.nodes) == 1:
            return 0
        row = self.row_of.get(label or "", 0)
        return NONE if self.nodes[row].children else row


class Core(NamedTuple):
    """What makes up the minimum: the nodes of it, how many placed pods of each row, and how many more for the floor."""

    nodes: tuple[bool, ...]
    pods: tuple[int, ...]
    floor_pods: int


def subgroups_of(group: PodGroup) -> list[SubGroup]:
    """The SubGroups, whichever way they are spelled."""
    spec = group.spec
    return (spec.sub_groups if spec.sub_groups is not None else spec.subgroups) or []


def subgroups_field(group: PodGroup) -> str:
    """The path of the SubGroups, as spelled in this object."""
    return "spec.subGroups" if group.spec.sub_groups is not None or group.spec.subgroups is None else "spec.subgroups"


def children_by_parent(subgroups: Sequence[SubGroup]) -> dict[str, list[int]]:
    """The positions of the SubGroups directly below each name; the root's name is empty."""
    children: dict[str, list[int]] = {}
    for index, subgroup in enumerate(subgroups):
        children.setdefault(subgroup.parent or "", []).append(index)
    return children


def normal_form(group: PodGroup) -> Tree:
    """The tree of a PodGroup whose structure is sound (names unique, parents there, no cycle): see `validation`."""
    subgroups = subgroups_of(group)
    order = _tree_order(subgroups)
    row_of = {"": 0, **{subgroups[index].name: row for row, index in enumerate(order, start=1)}}
    assert len(row_of) == len(subgroups) + 1, "the structure was not checked before"
    children: list[list[int]] = [[] for _ in row_of]
    for row, index in enumerate(order, start=1):
        children[row_of[subgroups[index].parent or ""]].append(row)
    constraints = _Constraints(group, row_of)
    spec, field = group.spec, subgroups_field(group)
    root_minimum, floor = spec.min_member, 0
    if subgroups:
        floor = (spec.min_member or 0) if spec.min_sub_group is None else 0
        root_minimum = len(children[0]) if spec.min_sub_group is None else spec.min_sub_group
    elif root_minimum is None:
        root_minimum = 1
    kept = set(kept_names(group))
    keep = bool(children[0]) and KEEP_ROOT in kept
    nodes = [TreeNode("", NONE, tuple(children[0]), root_minimum or 0, floor, None, "spec", keep)]
    for row, index in enumerate(order, start=1):
        subgroup = subgroups[index]
        if children[row]:
            minimum = len(children[row]) if subgroup.min_sub_group is None else subgroup.min_sub_group
        else:
            minimum = subgroup.min_member or 0
        parent = row_of[subgroup.parent or ""]
        keep = bool(children[row]) and subgroup.name in kept
        path = f"{field}[{index}]"
        nodes.append(TreeNode(subgroup.name, parent, tuple(children[row]), minimum, 0, None, path, keep))
    return constraints.on(nodes)


def _tree_order(subgroups: Sequence[SubGroup]) -> list[int]:
    """Positions in the spec, parents before children and siblings in the order of the spec."""
    below = children_by_parent(subgroups)
    order: list[int] = []
    open_rows = below.get("", [])[::-1]
    while open_rows:
        index = open_rows.pop()
        order.append(index)
        open_rows.extend(reversed(below.get(subgroups[index].name, [])))
    return order


class _Constraints:
    """Every spelling of a constraint, brought to one: on a node, or a hold beside the tree."""

    def __init__(self, group: PodGroup, row_of: dict[str, int]) -> None:
        spec = group.spec
        self._fallback = group.metadata.annotations.get(TOPOLOGY_ANNOTATION, "")
        self._global = None
        self._own: dict[int, tuple[TopologyConstraint, str]] = {}
        self._sets: list[tuple[list[int], TopologyConstraint, str]] = []
        if spec.topology_constraint is not None:
            self._own[0] = (spec.topology_constraint, "spec.topologyConstraint")
        field = subgroups_field(group)
        for index, subgroup in enumerate(subgroups_of(group)):
            if subgroup.topology_constraint is not None:
                path = f"{field}[{index}].topologyConstraint"
                self._own[row_of[subgroup.name]] = (subgroup.topology_constraint, path)
        if spec.topology_constraints is not None:
            older, path = spec.topology_constraints, "spec.topologyConstraints"
            self._global = older.global_
            for name, constraint in older.sub_groups.items():
                if name in row_of:
                    self._own[row_of[name]] = (constraint, child_path(f"{path}.subGroups", name))
            for index, group_set in enumerate(older.sub_group_sets):
                members = sorted({row_of[name] for name in group_set.sub_groups if name in row_of})
                self._sets.append((members, group_set.constraint, f"{path}.subGroupSets[{index}].constraint"))

    def on(self, nodes: list[TreeNode]) -> Tree:
        """The tree with all constraints in place and every topology name inherited."""
        set_of = {row: number for number, (members, _, _) in enumerate(self._sets) for row in members}
        # Per row: the topology that constraints here and below inherit, and whether one of them covers the pods.
        inherited, covered = [(self._fallback, "")] * len(nodes), [False] * len(nodes)
        sets: dict[int, Together] = {}
        for row, node in enumerate(nodes):
            if node.parent != NONE:
                inherited[row], covered[row] = inherited[node.parent], covered[node.parent]
            if row in set_of:
                members, written, path = self._sets[set_of[row]]
                constraint = _constraint(written, inherited[row], path)
                inherited[row] = constraint.topology, constraint.named_at
                if _holds(constraint):
                    covered[row] = True
                    sets[set_of[row]] = Together(tuple(members), node.parent, constraint)
            if row in self._own:
                constraint = _constraint(self._own[row][0], inherited[row], self._own[row][1])
                inherited[row] = constraint.topology, constraint.named_at
                if _holds(constraint):
                    covered[row] = True
                    nodes[row] = node._replace(constraint=constraint)
        in_order = [sets[number] for number in sorted(sets)]
        if self._global is not None:
            self._cover_the_rest(nodes, in_order, covered, inherited[0])
        return Tree(tuple(nodes), tuple(in_order))

    def _cover_the_rest(
        self, nodes: list[TreeNode], together: list[Together], covered: list[bool], inherited: tuple[str, str]
    ) -> None:
        assert self._global is not None
        constraint = _constraint(self._global, inherited, "spec.topologyConstraints.global")
        leaves = [row for row, node in enumerate(nodes) if not node.children]
        rest = [row for row in leaves if not covered[row]]
        if not rest or not _holds(constraint):
            return
        if len(rest) == len(leaves):
            nodes[0] = nodes[0]._replace(constraint=constraint)
        else:
            together.append(Together(tuple(rest), NONE, constraint))


def _constraint(written: TopologyConstraint, inherited: tuple[str, str], path: str) -> Constraint:
    topology, named_at = (written.topology, path) if written.topology else inherited
    return Constraint(topology, written.required_topology_level, written.preferred_topology_level, path, named_at)


def _holds(constraint: Constraint) -> bool:
    return bool(constraint.required or constraint.preferred)


def satisfied(tree: Tree, pods: Sequence[int]) -> list[bool]:
    """Per row: whether its minimum is met when `pods[row]` pods of each leaf count.

    With placed + succeeded pods this is SPEC's `satisfied`; `ready` adds those that wait. Everything that asks
    whether a gang is whole (start, surplus, repair, staleness, eviction, quota, status) asks this function.
    """
    nodes = tree.nodes
    met = [False] * len(nodes)
    children_met = [0] * len(nodes)
    for row in range(len(nodes) - 1, -1, -1):
        node = nodes[row]
        met[row] = (children_met[row] if node.children else pods[row]) >= node.minimum
        if node.floor and sum(pods[leaf] for leaf in tree.leaves) < node.floor:
            met[row] = False
        if met[row] and node.parent != NONE:
            children_met[node.parent] += 1
    return met


def ready(tree: Tree, placed: Sequence[int], succeeded: Sequence[int], waiting: Sequence[int]) -> list[bool]:
    """Per row: whether it could be satisfied with the pods that exist. Only a gang whose root is ready is tried."""
    return satisfied(tree, [sum(counts) for counts in zip(placed, succeeded, waiting, strict=True)])


def minimum_pods(tree: Tree) -> list[int]:
    """Per row: the fewest pods that satisfy it."""
    nodes = tree.nodes
    fewest = [0] * len(nodes)
    for row in range(len(nodes) - 1, -1, -1):
        node = nodes[row]
        if node.children:
            cheapest = sorted(fewest[child] for child in node.children)[: node.minimum]
            fewest[row] = max(sum(cheapest), node.floor)
        else:
            fewest[row] = node.minimum
    return fewest


def joined(
    tree: Tree, placed: Sequence[int], succeeded: Sequence[int], was_joined: Sequence[bool] | None = None
) -> list[bool]:
    """Per row: whether it goes only with its parent (SPEC §8, `keep: all`); `was_joined[row]` tells which rows were.

    The satisfied children of a node that keeps them join while the node has its minimum. They stay joined, succeeded or
    broken, and all leave when no pod below the node is placed.
    """
    found = [False] * len(tree.nodes)
    if not tree.keeps:
        return found
    met = satisfied(tree, [sum(counts) for counts in zip(placed, succeeded, strict=True)])
    before = was_joined if was_joined is not None else found
    left = list(placed)
    for row in range(len(left) - 1, 0, -1):
        left[tree.nodes[row].parent] += left[row]
    for row, node in enumerate(tree.nodes[1:], start=1):
        if tree.nodes[node.parent].keep and left[node.parent]:
            found[row] = before[row] or (met[row] and met[node.parent])
    return found


def core(
    tree: Tree,
    placed: Sequence[int],
    succeeded: Sequence[int],
    was_core: Sequence[bool] | None = None,
    joined: Sequence[bool] = (),
) -> Core:
    """The nodes and pods that make up the minimum (SPEC §6); `was_core[row]` tells which rows were core before.

    At each root or branch: its minimum of satisfied children, those that were core first, then in the order of the
    spec; and all that are `joined`, which come before all others: a child that stood in for one of them is core only
    until that one is satisfied again. A child that was core and lost pods keeps a place that no satisfied child takes.
    A succeeded pod has done its part of a leaf's minimum, so fewer placed pods are needed for it.
    """
    met = satisfied(tree, [sum(counts) for counts in zip(placed, succeeded, strict=True)])
    before = was_core if was_core is not None else [False] * len(tree.nodes)
    chosen = [False] * len(tree.nodes)
    pods = [0] * len(tree.nodes)
    chosen[0] = True
    for row, node in enumerate(tree.nodes):
        if not chosen[row]:
            continue
        if not node.children:
            pods[row] = min(placed[row], max(0, node.minimum - succeeded[row]))
            continue
        kept = [child for child in node.children if node.keep and joined and joined[child]]
        others = [child for child in node.children if not (node.keep and joined and joined[child])]
        ranked = [
            *(child for child in kept if met[child]),
            *(child for child in others if met[child] and before[child]),
            *(child for child in others if met[child] and not before[child]),
            *(child for child in others if not met[child] and before[child]),
        ]
        for child in (*ranked[: node.minimum], *kept):
            chosen[child] = True
    leaves = tree.leaves
    beyond = sum(placed[leaf] - pods[leaf] for leaf in leaves)
    missing = tree.nodes[0].floor - sum(pods[leaf] + succeeded[leaf] for leaf in leaves)
    return Core(tuple(chosen), tuple(pods), max(0, min(missing, beyond)))


def minimum_in_words(tree: Tree) -> str:
    """The root's minimum in one phrase: `minimum 24 pods, any 3 of 4`."""
    root, pods = tree.nodes[0], minimum_pods(tree)
    phrase = f"minimum {pods[0]} pod{'' if pods[0] == 1 else 's'}"
    if not root.children:
        return phrase
    phrase += ", " + count_in_words(root)
    # A floor that the children reach anyway adds nothing.
    binds = root.floor > sum(pods[child] for child in root.children)
    return f"{phrase}, at least {root.floor} pods in all" if binds else phrase


def count_in_words(node: TreeNode) -> str:
    """How many children of a root or branch are needed: `any 3 of 4`, or `all 2 required`."""
    total = len(node.children)
    words = f"any {node.minimum} of {total}" if node.minimum < total else f"all {total} required"
    return f"{words}, kept together" if node.keep and node.minimum < total else words
