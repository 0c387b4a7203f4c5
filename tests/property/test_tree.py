"""Random gangs against oracles that share no code with the tree: SPEC §1, §3 and §6, written once more by recursion.

The strategy makes a gang as nested knots; the document that muster reads is written from them, and the oracles judge
the knots themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from muster.api.kinds import POD_GROUP, read_object
from muster.api.tree import Core, Tree, core, joined, minimum_pods, normal_form, ready, satisfied
from muster.api.validation import Context, Settings, validate

MOST_NODES = 12
ALLOW_ZERO = Context(settings=Settings(zero_minimum="Allow"))


@dataclass
class Knot:
    """A root, branch or leaf. `written` is the number as the user writes it, which may be left out."""

    name: str
    written: int | None = None
    floor: int = 0
    children: list[Knot] = field(default_factory=list)

    @property
    def needed(self) -> int:
        """SPEC §1: pods of a leaf (a flat root without a number: 1), children elsewhere (all when unset)."""
        if self.written is not None:
            return self.written
        return len(self.children) if self.children else 1

    def below(self) -> Iterator[Knot]:
        """This knot and all below it."""
        yield self
        for child in self.children:
            yield from child.below()

    def leaves(self) -> list[str]:
        return [knot.name for knot in self.below() if not knot.children]


Written = tuple[str, str, str]  # topology, required level, preferred level


@dataclass
class Gang:
    """A gang, and every constraint on it with the way that it is spelled."""

    root: Knot
    listed: list[str]
    spelled: str = "subGroups"
    annotation: str = ""
    own: dict[str, Written] = field(default_factory=dict)
    by_name: frozenset[str] = frozenset()
    sets: list[tuple[list[str], Written]] = field(default_factory=list)
    everything_else: Written | None = None
    keep: tuple[str, ...] = ()

    def document(self, listed: Sequence[str] = ()) -> dict[str, Any]:
        """The PodGroup as a user writes it, its SubGroups in the order `listed`."""
        spec: dict[str, Any] = {}
        older: dict[str, Any] = {}
        if self.root.children:
            entries = self._entries()
            spec[self.spelled] = [entries[name] for name in listed or self.listed]
            if self.root.floor:
                spec["minMember"] = self.root.floor
            elif self.root.written is not None:
                spec["minSubGroup"] = self.root.written
        elif self.root.written is not None:
            spec["minMember"] = self.root.written
        if "" in self.own:
            spec["topologyConstraint"] = _constraint(self.own[""])
        if self.by_name:
            older["subGroups"] = {name: _constraint(self.own[name]) for name in sorted(self.by_name)}
        if self.sets:
            older["subGroupSets"] = [{"subGroups": names, "constraint": _constraint(one)} for names, one in self.sets]
        if self.everything_else is not None:
            older["global"] = _constraint(self.everything_else)
        if older:
            spec["topologyConstraints"] = older
        annotations = {
            "example.com/note": "x",
            **({"kai.scheduler/topology": self.annotation} if self.annotation else {}),
            **({"muster.dev/keep": ",".join(name or "." for name in self.keep)} if self.keep else {}),
        }
        metadata = {"name": "gang", "namespace": "default", "labels": {"a": "1", "b": "2"}, "annotations": annotations}
        return {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": metadata, "spec": spec}

    def _entries(self) -> dict[str, dict[str, Any]]:
        entries: dict[str, dict[str, Any]] = {}
        for knot in self.root.below():
            for child in knot.children:
                entry = entries[child.name] = {"name": child.name}
                if knot.name:
                    entry["parent"] = knot.name
                if child.written is not None:
                    entry["minSubGroup" if child.children else "minMember"] = child.written
                if child.name in self.own and child.name not in self.by_name:
                    entry["topologyConstraint"] = _constraint(self.own[child.name])
        return entries


def _constraint(written: Written) -> dict[str, str]:
    fields = ("topology", "requiredTopologyLevel", "preferredTopologyLevel")
    return {name: value for name, value in zip(fields, written, strict=True) if value}


@st.composite
def shapes(draw: st.DrawFn, most_nodes: int = MOST_NODES, most_pods: int = 3) -> Gang:
    """Gangs without constraints: any tree, any minimum from zero up, with or without a floor."""
    size = draw(st.integers(0, most_nodes))
    knots = [Knot("")]
    for number in range(1, size + 1):
        parent = knots[draw(st.integers(0, number - 1))]
        knots.append(Knot(f"g{number}"))
        parent.children.append(knots[-1])
    for knot in knots:
        most = len(knot.children) or most_pods
        knot.written = draw(st.integers(0, most))
        if (knot.children or knot.name == "") and draw(st.booleans()):
            knot.written = None
    if size and knots[0].written is None:
        knots[0].floor = draw(st.integers(0, 2 * most_pods))
    return Gang(knots[0], [knot.name for knot in knots[1:]], draw(st.sampled_from(["subGroups", "subgroups"])))


CONSTRAINTS = st.tuples(
    st.sampled_from(["", "dc", "rail"]), st.sampled_from(["", "zone", "rack"]), st.sampled_from(["", "rack"])
)


@st.composite
def gangs(draw: st.DrawFn) -> Gang:
    """Gangs with constraints in every spelling; a SubGroup is in at most one set, with siblings only."""
    gang = draw(shapes())
    gang.annotation = draw(st.sampled_from(["", "dc", "far"]))
    gang.everything_else = draw(st.none() | CONSTRAINTS)
    for knot in gang.root.below():
        if draw(st.booleans()):
            gang.own[knot.name] = draw(CONSTRAINTS)
        # Each child is in no set, in the first, or in the second set of this parent.
        places = [draw(st.integers(0, 2)) for _ in knot.children]
        for place in (1, 2):
            members = [child.name for child, at in zip(knot.children, places, strict=True) if at == place]
            if members:
                gang.sets.append((draw(st.permutations(members)), draw(CONSTRAINTS)))
    named = sorted(gang.own.keys() - {""})
    gang.by_name = frozenset(draw(st.sets(st.sampled_from(named)))) if named else frozenset()
    return gang


@st.composite
def keeping(draw: st.DrawFn) -> Gang:
    """Gangs of which some roots and branches keep their children."""
    gang = draw(shapes())
    gang.keep = tuple(knot.name for knot in gang.root.below() if knot.children and draw(st.booleans()))
    return gang


Counts = list[int]
COUNTS = st.lists(st.integers(0, 5), min_size=MOST_NODES + 1, max_size=MOST_NODES + 1)
FEW = st.lists(st.integers(0, 2), min_size=MOST_NODES + 1, max_size=MOST_NODES + 1)
WAS_CORE = st.sets(st.integers(0, MOST_NODES)).map(
    lambda numbers: {f"g{number}" if number else "" for number in numbers}
)


def tree_of(document: dict[str, Any]) -> Tree:
    found, problems = read_object(document, POD_GROUP)
    assert problems == []
    return normal_form(found)


def pods_by_leaf(gang: Gang, counts: Counts) -> dict[str, int]:
    return dict(zip(gang.root.leaves(), counts, strict=False))


def per_row(tree: Tree, pods: dict[str, int]) -> list[int]:
    return [pods.get(node.name, 0) for node in tree.nodes]


def by_name(tree: Tree, values: Sequence[Any]) -> dict[str, Any]:
    return {node.name: value for node, value in zip(tree.nodes, values, strict=True)}


def core_of(gang: Gang, placed: Counts, succeeded: Counts, was_core: set[str]) -> tuple[Tree, Core]:
    tree = tree_of(gang.document())
    before = [node.name in was_core for node in tree.nodes]
    counts = (per_row(tree, pods_by_leaf(gang, pods)) for pods in (placed, succeeded))
    return tree, core(tree, *counts, before)


# The oracles.


def is_satisfied(knot: Knot, pods: dict[str, int]) -> bool:
    """SPEC §1: a leaf by its pods; a root or branch by its satisfied children, and the floor holds."""
    if not knot.children:
        return pods[knot.name] >= knot.needed
    enough = len([child for child in knot.children if is_satisfied(child, pods)]) >= knot.needed
    return enough and sum(pods[leaf] for leaf in knot.leaves()) >= knot.floor


def ways_to_share(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    """Every way to give `total` pods to so many leaves."""
    if parts == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in ways_to_share(total - first, parts - 1):
            yield (first, *rest)


def fewest_pods(knot: Knot) -> int:
    """The smallest total for which some way to share it satisfies the knot: tried one by one."""
    leaves = knot.leaves()
    for total in count():
        for shares in ways_to_share(total, len(leaves)):
            if is_satisfied(knot, dict(zip(leaves, shares, strict=True))):
                return total
    raise AssertionError("unreachable")


def core_below(knot: Knot, placed: dict[str, int], succeeded: dict[str, int], was_core: set[str]) -> dict[str, int]:
    """SPEC §6: the core nodes at and below a core knot, with the placed pods of each that are core."""
    if not knot.children:
        return {knot.name: min(placed[knot.name], max(knot.needed - succeeded[knot.name], 0))}
    done = {leaf: placed[leaf] + succeeded[leaf] for leaf in knot.leaves()}
    members: list[Knot] = []
    for fits in (
        lambda child: child.name in was_core and is_satisfied(child, done),  # it was core and still does its part
        lambda child: is_satisfied(child, done),  # a satisfied newcomer, by spec order
        lambda child: child.name in was_core,  # it lost pods, and nobody takes its place
    ):
        for child in knot.children:
            if len(members) < knot.needed and child not in members and fits(child):
                members.append(child)
    found = {knot.name: 0}
    for child in members:
        found |= core_below(child, placed, succeeded, was_core)
    return found


def goes_only_with_its_parent(gang: Gang, placed: dict[str, int], done: dict[str, int], before: set[str]) -> set[str]:
    """SPEC §8, keep: all: satisfied together, or joined before, while something of the parent is placed."""
    found = set()
    together = {leaf: placed[leaf] + done[leaf] for leaf in placed}
    for parent in gang.root.below():
        if parent.name in gang.keep and any(placed[leaf] for leaf in parent.leaves()):
            whole = is_satisfied(parent, together)
            found |= {
                child.name
                for child in parent.children
                if child.name in before or (whole and is_satisfied(child, together))
            }
    return found


def held_together(gang: Gang) -> Counter[tuple[frozenset[str], Written]]:
    """SPEC §3: which leaves each constraint holds together, with its inherited topology."""
    found: list[tuple[frozenset[str], Written]] = []
    of_sets: dict[int, set[str]] = {}
    topology_of_set: dict[int, str] = {}
    free: set[str] = set()

    def inherit(written: Written, inherited: str) -> Written:
        return (written[0] or inherited, *written[1:])

    def walk(knot: Knot, inherited: str, covered: bool) -> None:
        for number, (names, written) in enumerate(gang.sets):
            if knot.name in names:
                inherited = topology_of_set[number] = written[0] or inherited
                of_sets.setdefault(number, set()).update(knot.leaves())
                covered = covered or bool(written[1] or written[2])
        if knot.name in gang.own:
            constraint = inherit(gang.own[knot.name], inherited)
            inherited = constraint[0]
            if constraint[1] or constraint[2]:
                found.append((frozenset(knot.leaves()), constraint))
                covered = True
        if not knot.children and not covered:
            free.add(knot.name)
        for child in knot.children:
            walk(child, inherited, covered)

    walk(gang.root, gang.annotation, False)
    for number, leaves in of_sets.items():
        constraint = inherit(gang.sets[number][1], topology_of_set[number])
        if constraint[1] or constraint[2]:
            found.append((frozenset(leaves), constraint))
    if gang.everything_else is not None and free:
        constraint = inherit(gang.everything_else, gang.own.get("", ("", "", ""))[0] or gang.annotation)
        if constraint[1] or constraint[2]:
            found.append((frozenset(free), constraint))
    return Counter(found)


# The properties.


@given(gangs())
def test_the_strategy_makes_valid_gangs(gang: Gang) -> None:
    """Every gang that is tried here is one that validation lets through."""
    assert [one for one in validate(gang.document(), ALLOW_ZERO).violations if one.severity == "error"] == []


@given(gangs(), COUNTS)
def test_satisfied_is_what_the_spec_says(gang: Gang, pods: Counts) -> None:
    """Per node, the same as the recursive definition of SPEC §1."""
    tree, counts = tree_of(gang.document()), pods_by_leaf(gang, pods)
    assert by_name(tree, satisfied(tree, per_row(tree, counts))) == {
        knot.name: is_satisfied(knot, counts) for knot in gang.root.below()
    }


@given(shapes(), FEW, FEW, FEW)
def test_ready_counts_every_pod_that_is_there(gang: Gang, placed: Counts, succeeded: Counts, waiting: Counts) -> None:
    """Per node, satisfied by placed, succeeded and waiting pods together; so all that is satisfied is ready."""
    tree = tree_of(gang.document())
    counts = [pods_by_leaf(gang, pods) for pods in (placed, succeeded, waiting)]
    together = {leaf: sum(pods[leaf] for pods in counts) for leaf in gang.root.leaves()}
    found = ready(tree, *(per_row(tree, pods) for pods in counts))
    assert by_name(tree, found) == {knot.name: is_satisfied(knot, together) for knot in gang.root.below()}
    now = satisfied(tree, [a + b for a, b in zip(per_row(tree, counts[0]), per_row(tree, counts[1]), strict=True)])
    assert all(there for there, here in zip(found, now, strict=True) if here)


@given(shapes(), COUNTS, FEW)
def test_more_pods_never_make_a_node_unsatisfied(gang: Gang, pods: Counts, more: Counts) -> None:
    """Satisfied is monotone in the pods of every leaf."""
    tree, fewer = tree_of(gang.document()), pods_by_leaf(gang, pods)
    extra = pods_by_leaf(gang, more)
    before = satisfied(tree, per_row(tree, fewer))
    after = satisfied(tree, per_row(tree, {leaf: fewer[leaf] + extra[leaf] for leaf in fewer}))
    assert all(there for there, here in zip(after, before, strict=True) if here)


@given(shapes(most_nodes=6, most_pods=2))
def test_the_minimum_is_the_fewest_pods_that_satisfy(gang: Gang) -> None:
    """Per node, no smaller number of pods in any distribution would do, and this number does."""
    tree = tree_of(gang.document())
    assert by_name(tree, minimum_pods(tree)) == {knot.name: fewest_pods(knot) for knot in gang.root.below()}


@given(gangs(), COUNTS, FEW, WAS_CORE)
def test_the_core_is_what_the_spec_says(gang: Gang, placed: Counts, succeeded: Counts, was_core: set[str]) -> None:
    """The same nodes and pods as the recursive reading of SPEC §6, and the floor's further pods."""
    tree, found = core_of(gang, placed, succeeded, was_core)
    there, done = pods_by_leaf(gang, placed), pods_by_leaf(gang, succeeded)
    expected = core_below(gang.root, there, done, was_core)
    assert {node.name for node, chosen in zip(tree.nodes, found.nodes, strict=True) if chosen} == expected.keys()
    assert by_name(tree, found.pods) == {knot.name: expected.get(knot.name, 0) for knot in gang.root.below()}
    short = max(0, gang.root.floor - sum(expected.values()) - sum(done.values()))
    assert found.floor_pods == min(short, sum(there.values()) - sum(expected.values()))


@given(keeping(), FEW, FEW, WAS_CORE)
def test_joined_is_what_the_spec_says(gang: Gang, placed: Counts, succeeded: Counts, before: set[str]) -> None:
    """Per node; read back as what was joined, it gives itself; and what has joined in a core node is core."""
    tree = tree_of(gang.document())
    there, done = pods_by_leaf(gang, placed), pods_by_leaf(gang, succeeded)
    counts = per_row(tree, there), per_row(tree, done)
    found = joined(tree, *counts, [node.name in before for node in tree.nodes])
    named = {node.name for node, now in zip(tree.nodes, found, strict=True) if now}
    assert named == goes_only_with_its_parent(gang, there, done, before)
    assert joined(tree, *counts, found) == found
    nodes = core(tree, *counts, found, found).nodes
    assert all(nodes[row] for row, now in enumerate(found) if now and nodes[tree.nodes[row].parent])


@given(shapes(), COUNTS, FEW, WAS_CORE)
def test_the_core_alone_keeps_satisfied_what_is_core(
    gang: Gang, placed: Counts, succeeded: Counts, was_core: set[str]
) -> None:
    """With all surplus evicted, every satisfied core node stays satisfied, the root and its floor too."""
    tree, found = core_of(gang, placed, succeeded, was_core)
    there = per_row(tree, pods_by_leaf(gang, placed))
    done = per_row(tree, pods_by_leaf(gang, succeeded))
    before = satisfied(tree, [a + b for a, b in zip(there, done, strict=True)])
    kept, further = list(found.pods), found.floor_pods
    for leaf in tree.leaves:
        add = min(further, there[leaf] - kept[leaf])
        kept[leaf], further = kept[leaf] + add, further - add
    assert further == 0
    after = satisfied(tree, [a + b for a, b in zip(kept, done, strict=True)])
    rows = [row for row, chosen in enumerate(found.nodes) if chosen]
    assert [after[row] for row in rows] == [before[row] for row in rows]


@given(shapes(), COUNTS, FEW, WAS_CORE)
def test_a_satisfied_core_node_has_exactly_its_minimum(
    gang: Gang, placed: Counts, succeeded: Counts, was_core: set[str]
) -> None:
    """So many satisfied core children at a root or branch, so many placed and succeeded pods at a leaf."""
    tree, found = core_of(gang, placed, succeeded, was_core)
    done = per_row(tree, pods_by_leaf(gang, succeeded))
    counts = [a + b for a, b in zip(per_row(tree, pods_by_leaf(gang, placed)), done, strict=True)]
    met = satisfied(tree, counts)
    for row, node in enumerate(tree.nodes):
        members = [child for child in node.children if found.nodes[child]]
        if not found.nodes[row]:
            assert members == []
            assert found.pods[row] == 0
        elif not node.children and met[row]:
            assert found.pods[row] == max(0, node.minimum - done[row])
        elif node.children:
            assert len(members) <= node.minimum
            if sum(met[child] for child in node.children) >= node.minimum:
                assert len(members) == node.minimum
                assert all(met[child] for child in members)


@given(shapes(), COUNTS, FEW, WAS_CORE)
def test_the_core_is_stable(gang: Gang, placed: Counts, succeeded: Counts, was_core: set[str]) -> None:
    """Read back as what was core, it gives itself."""
    tree, found = core_of(gang, placed, succeeded, was_core)
    again = {node.name for node, chosen in zip(tree.nodes, found.nodes, strict=True) if chosen}
    assert core_of(gang, placed, succeeded, again)[1] == found


@given(gangs())
def test_every_spelling_holds_the_same_pods_together(gang: Gang) -> None:
    """Constraints on nodes, by name, in sets and the global one bind the leaves that SPEC §3 says."""
    tree = tree_of(gang.document())
    leaves: dict[int, frozenset[str]] = {}
    for row in range(len(tree.nodes) - 1, -1, -1):
        node = tree.nodes[row]
        leaves[row] = frozenset().union(*(leaves[child] for child in node.children)) or frozenset({node.name})
    found = Counter((leaves[row], node.constraint[:3]) for row, node in enumerate(tree.nodes) if node.constraint)
    found.update(
        (frozenset().union(*(leaves[row] for row in hold.members)), hold.constraint[:3]) for hold in tree.together
    )
    assert found == held_together(gang)


@given(gangs())
def test_constraints_change_no_counting(gang: Gang) -> None:
    """Without its constraints a gang has the same nodes, minimums and floor."""
    plain = Gang(gang.root, gang.listed, gang.spelled)
    with_them = tree_of(gang.document())
    assert tuple(node._replace(constraint=None) for node in with_them.nodes) == tree_of(plain.document()).nodes


def shuffled(value: Any, order: Counts) -> Any:
    """The same data with the keys of every mapping in another order."""
    if isinstance(value, list):
        return [shuffled(item, order) for item in value]
    if not isinstance(value, dict):
        return value
    keys = sorted(value, key=lambda key: (order[len(key) % len(order)], key))
    return {key: shuffled(value[key], order) for key in keys}


@given(gangs(), COUNTS)
def test_the_order_of_keys_means_nothing(gang: Gang, order: Counts) -> None:
    """Metadata, annotations and fields may stand in any order."""
    document = gang.document()
    assert tree_of(shuffled(document, order)) == tree_of(document)


@given(gangs(), st.data())
def test_subgroups_may_be_listed_in_any_order(gang: Gang, data: st.DataObject) -> None:
    """Children before their parents give the same tree up to the order of siblings."""
    tree = tree_of(gang.document())
    other = tree_of(gang.document(data.draw(st.permutations(gang.listed))))
    assert by_parts(other) == by_parts(tree)
    assert by_name(other, minimum_pods(other)) == by_name(tree, minimum_pods(tree))


def by_parts(tree: Tree) -> tuple[dict[str, Any], set[Any]]:
    """All of a tree but the order of siblings and the places in the spec."""
    nodes = tree.nodes
    parts = {
        node.name: (
            nodes[node.parent].name if node.parent >= 0 else None,
            {nodes[child].name for child in node.children},
            node.minimum,
            node.floor,
            node.constraint and node.constraint[:3],
        )
        for node in nodes
    }
    return parts, {(frozenset(nodes[row].name for row in hold.members), hold.constraint[:3]) for hold in tree.together}


@given(gangs(), st.randoms(use_true_random=False))
def test_only_the_order_of_siblings_is_meaning(gang: Gang, random: Any) -> None:
    """Any listing that keeps siblings in their order gives the same rows."""
    queues = [[child.name for child in knot.children] for knot in gang.root.below() if knot.children]
    listed = []
    while queues:
        queue = random.choice(queues)
        listed.append(queue.pop(0))
        queues = [names for names in queues if names]
    tree, other = tree_of(gang.document()), tree_of(gang.document(listed))
    assert [node._replace(path="", constraint=None) for node in other.nodes] == [
        node._replace(path="", constraint=None) for node in tree.nodes
    ]
    assert [(hold.members, hold.constraint[:3]) for hold in other.together] == [
        (hold.members, hold.constraint[:3]) for hold in tree.together
    ]
