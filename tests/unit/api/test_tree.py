"""The normal form: every spelling gives one tree, and the words of SPEC §1 and §6 mean one thing on it."""

from dataclasses import replace
from typing import Any

import pytest

from muster.api.kinds import POD_GROUP, TOPOLOGY, read_object
from muster.api.podgroup import PodGroup, PodGroupSpec, SubGroup
from muster.api.topology import Topology, levels_named
from muster.api.tree import (
    NONE,
    Tree,
    core,
    count_in_words,
    minimum_in_words,
    minimum_pods,
    normal_form,
    ready,
    satisfied,
    subgroups_field,
)


def tree_of(spec: dict[str, Any], topology: str = "") -> Tree:
    annotations = {"kai.scheduler/topology": topology} if topology else {}
    document = {"metadata": {"name": "gang", "annotations": annotations}, "spec": spec}
    found, problems = read_object(document, POD_GROUP)
    assert problems == []
    return normal_form(found)


def sub(name: str, parent: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"name": name, **({} if parent is None else {"parent": parent}), **fields}


def leaf(name: str, pods: int, parent: str | None = None, **fields: Any) -> dict[str, Any]:
    return sub(name, parent, minMember=pods, **fields)


def rows(tree: Tree) -> list[tuple[str, str | None, int, int]]:
    """Name, parent's name, minimum and floor of every node."""
    return [
        (node.name, None if node.parent == NONE else tree.nodes[node.parent].name, node.minimum, node.floor)
        for node in tree.nodes
    ]


def per_row(tree: Tree, counts: dict[str, int]) -> list[int]:
    assert counts.keys() <= {node.name for node in tree.nodes}
    return [counts.get(node.name, 0) for node in tree.nodes]


def names_where(tree: Tree, flags: Any) -> set[str]:
    return {node.name for node, flag in zip(tree.nodes, flags, strict=True) if flag}


REPLICAS = [leaf(f"prefill-{number}", 8) for number in range(4)]
TWO_LEVELS = [
    sub("decode"),
    leaf("decode-leaders", 1, "decode"),
    leaf("decode-workers", 4, "decode"),
    sub("prefill"),
    leaf("prefill-leaders", 1, "prefill"),
    leaf("prefill-workers", 4, "prefill"),
]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({}, [("", None, 1, 0)], id="flat: one pod when nothing is said"),
        pytest.param({"minMember": 5}, [("", None, 5, 0)], id="flat"),
        pytest.param({"minMember": 0}, [("", None, 0, 0)], id="flat, zero minimum"),
        pytest.param({"minMember": 5, "subGroups": []}, [("", None, 5, 0)], id="no SubGroups in the list is flat"),
        pytest.param(
            {"subGroups": [leaf("a", 2), leaf("b", 3)]},
            [("", None, 2, 0), ("a", "", 2, 0), ("b", "", 3, 0)],
            id="subGroups: all required when unset",
        ),
        pytest.param(
            {"subgroups": [leaf("a", 2), leaf("b", 3)]},
            [("", None, 2, 0), ("a", "", 2, 0), ("b", "", 3, 0)],
            id="subgroups is read as subGroups",
        ),
        pytest.param(
            {"minSubGroup": 1, "subGroups": [leaf("a", 2), leaf("b", 0)]},
            [("", None, 1, 0), ("a", "", 2, 0), ("b", "", 0, 0)],
            id="any one of two, one of them a zero minimum",
        ),
        pytest.param(
            {"minSubGroup": 0, "subGroups": [leaf("a", 2)]},
            [("", None, 0, 0), ("a", "", 2, 0)],
            id="zero minimum at the root",
        ),
        pytest.param(
            {"subGroups": [sub("b", minSubGroup=0), leaf("a", 2, "b")]},
            [("", None, 1, 0), ("b", "", 0, 0), ("a", "b", 2, 0)],
            id="zero minimum at a branch",
        ),
        pytest.param(
            {"minMember": 10, "subGroups": [leaf("a", 4), leaf("b", 2)]},
            [("", None, 2, 10), ("a", "", 4, 0), ("b", "", 2, 0)],
            id="floor: every child, and so many pods",
        ),
        pytest.param(
            {"minMember": 0, "subGroups": [leaf("a", 4), leaf("b", 2)]},
            [("", None, 2, 0), ("a", "", 4, 0), ("b", "", 2, 0)],
            id="minMember: 0 with SubGroups is no floor",
        ),
        pytest.param(
            {"minMember": 0, "minSubGroup": 1, "subGroups": [leaf("a", 4), leaf("b", 2)]},
            [("", None, 1, 0), ("a", "", 4, 0), ("b", "", 2, 0)],
            id="minMember: 0 beside minSubGroup is unset",
        ),
        pytest.param(
            {"subGroups": [sub("a", minMember=0, minSubGroup=1), leaf("x", 3, "a"), leaf("y", 3, "a")]},
            [("", None, 1, 0), ("a", "", 1, 0), ("x", "a", 3, 0), ("y", "a", 3, 0)],
            id="minMember: 0 beside minSubGroup is unset in a branch too",
        ),
        pytest.param(
            {"subGroups": [leaf("a", 1, ""), leaf("b", 1)]},
            [("", None, 2, 0), ("a", "", 1, 0), ("b", "", 1, 0)],
            id="an empty parent is the root",
        ),
        pytest.param(
            {
                "subGroups": [
                    leaf("y", 1, "b"),
                    leaf("x", 2, "a"),
                    sub("b"),
                    leaf("c", 3),
                    sub("a", "b"),
                    leaf("w", 4, "a"),
                ]
            },
            [
                ("", None, 2, 0),
                ("b", "", 2, 0),
                ("y", "b", 1, 0),
                ("a", "b", 2, 0),
                ("x", "a", 2, 0),
                ("w", "a", 4, 0),
                ("c", "", 3, 0),
            ],
            id="parents first, siblings in the order of the spec",
        ),
    ],
)
def test_every_spelling_of_minimums_gives_one_tree(
    spec: dict[str, Any], expected: list[tuple[str, str | None, int, int]]
) -> None:
    """Rows are in tree order, with the minimum and floor that SPEC §1 gives them."""
    tree = tree_of(spec)
    assert rows(tree) == expected
    for row, node in enumerate(tree.nodes):
        assert list(node.children) == [child for child, other in enumerate(tree.nodes) if other.parent == row]


def test_leaves_are_the_rows_without_children() -> None:
    """In a flat gang the root itself holds the pods."""
    nested = tree_of({"subGroups": TWO_LEVELS})
    assert [nested.nodes[row].name for row in nested.leaves] == [
        "decode-leaders",
        "decode-workers",
        "prefill-leaders",
        "prefill-workers",
    ]
    assert tree_of({"minMember": 3}).leaves == (0,)


@pytest.mark.parametrize("spelled", ["subGroups", "subgroups"])
def test_paths_lead_back_to_the_spec(spelled: str) -> None:
    """A node and its constraint know where they were written, whichever way the list is spelled."""
    written = [leaf("x", 1, "a"), sub("a", topologyConstraint={"topology": "dc", "requiredTopologyLevel": "rack"})]
    tree = tree_of({spelled: written})
    assert [(node.name, node.path) for node in tree.nodes] == [
        ("", "spec"),
        ("a", f"spec.{spelled}[1]"),
        ("x", f"spec.{spelled}[0]"),
    ]
    constraint = tree.nodes[1].constraint
    assert constraint is not None
    assert constraint.path == f"spec.{spelled}[1].topologyConstraint"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(PodGroupSpec(), "spec.subGroups", id="none"),
        pytest.param(PodGroupSpec(sub_groups=[]), "spec.subGroups", id="subGroups"),
        pytest.param(PodGroupSpec(subgroups=[]), "spec.subgroups", id="subgroups"),
        pytest.param(PodGroupSpec(sub_groups=[], subgroups=[]), "spec.subGroups", id="both"),
    ],
)
def test_the_field_of_the_subgroups_is_the_one_that_is_written(spec: PodGroupSpec, expected: str) -> None:
    """Messages point at the spelling that the user used."""
    assert subgroups_field(PodGroup(spec=spec)) == expected


def required(level: str, topology: str = "") -> dict[str, str]:
    return {"requiredTopologyLevel": level, **({"topology": topology} if topology else {})}


def preferred(level: str, topology: str = "") -> dict[str, str]:
    return {"preferredTopologyLevel": level, **({"topology": topology} if topology else {})}


Held = tuple[str, str, str]


@pytest.mark.parametrize(
    ("spec", "annotation", "on_nodes", "holds"),
    [
        pytest.param({"minMember": 2}, "dc", {}, [], id="no constraint"),
        pytest.param(
            {"minMember": 2, "topologyConstraint": {**required("zone", "dc"), **preferred("rack")}},
            "",
            {"": ("dc", "zone", "rack")},
            [],
            id="flat, both levels",
        ),
        pytest.param(
            {
                "topologyConstraint": required("zone", "dc"),
                "subGroups": [leaf("a", 1, topologyConstraint=required("r"))],
            },
            "",
            {"": ("dc", "zone", ""), "a": ("dc", "r", "")},
            [],
            id="the topology of the parent is inherited",
        ),
        pytest.param(
            {
                "topologyConstraint": required("zone", "far"),
                "subGroups": [
                    sub("b", topologyConstraint=required("block", "near")),
                    sub("c", "b"),
                    leaf("a", 1, "c", topologyConstraint=preferred("rack")),
                ],
            },
            "dc",
            {"": ("far", "zone", ""), "b": ("near", "block", ""), "a": ("near", "", "rack")},
            [],
            id="the nearest ancestor wins, over a node without a constraint",
        ),
        pytest.param(
            {"subGroups": [leaf("a", 1, topologyConstraint=required("rack")), leaf("b", 1)]},
            "dc",
            {"a": ("dc", "rack", "")},
            [],
            id="annotation",
        ),
        pytest.param(
            {"subGroups": [leaf("a", 1, topologyConstraint=required("rack", "own"))]},
            "dc",
            {"a": ("own", "rack", "")},
            [],
            id="its own topology beats the annotation",
        ),
        pytest.param(
            {"subGroups": [leaf("a", 1, topologyConstraint=required("rack"))]},
            "",
            {"a": ("", "rack", "")},
            [],
            id="no topology anywhere: the cluster's only one",
        ),
        pytest.param(
            {
                "topologyConstraint": {"topology": "dc"},
                "subGroups": [leaf("a", 1, topologyConstraint=required("rack"))],
            },
            "",
            {"a": ("dc", "rack", "")},
            [],
            id="a topology without a level holds nothing, and is inherited",
        ),
        pytest.param(
            {"subGroups": [leaf("a", 1, topologyConstraint={})]}, "dc", {}, [], id="an empty constraint is none"
        ),
        pytest.param(
            {"subGroups": [leaf("a", 1), leaf("b", 1)], "topologyConstraints": {"subGroups": {"b": required("rack")}}},
            "dc",
            {"b": ("dc", "rack", "")},
            [],
            id="topologyConstraints.subGroups is the same by name",
        ),
        pytest.param(
            {
                "subGroups": [sub("b"), leaf("a", 1, "b", topologyConstraint=required("rack"))],
                "topologyConstraints": {"subGroups": {"b": required("block", "near")}},
            },
            "dc",
            {"b": ("near", "block", ""), "a": ("near", "rack", "")},
            [],
            id="topologyConstraints.subGroups is inherited from",
        ),
        pytest.param(
            {"minMember": 2, "topologyConstraints": {"global": required("rack")}},
            "dc",
            {"": ("dc", "rack", "")},
            [],
            id="global, flat: on the root",
        ),
        pytest.param(
            {"subGroups": [sub("b"), leaf("a", 1, "b")], "topologyConstraints": {"global": required("rack", "dc")}},
            "",
            {"": ("dc", "rack", "")},
            [],
            id="global and nothing else: on the root",
        ),
        pytest.param(
            {
                "subGroups": [
                    sub("own"),
                    leaf("below", 1, "own"),
                    leaf("set-a", 1),
                    leaf("set-b", 1),
                    sub("free"),
                    leaf("free-a", 1, "free"),
                    leaf("free-b", 1, "free"),
                    leaf("alone", 1),
                ],
                "topologyConstraints": {
                    "global": preferred("zone"),
                    "subGroups": {"own": required("rack")},
                    "subGroupSets": [{"subGroups": ["set-a", "set-b"], "constraint": required("block")}],
                },
            },
            "dc",
            {"own": ("dc", "rack", "")},
            [
                (["set-a", "set-b"], ("dc", "block", "")),
                (["free-a", "free-b", "alone"], ("dc", "", "zone")),
            ],
            id="global covers what no own, ancestor's or set's constraint covers",
        ),
        pytest.param(
            {
                "topologyConstraint": required("zone"),
                "subGroups": [leaf("a", 1)],
                "topologyConstraints": {"global": required("rack")},
            },
            "dc",
            {"": ("dc", "zone", "")},
            [],
            id="global covers nothing where the root has a constraint",
        ),
        pytest.param(
            {
                "topologyConstraint": {"topology": "near"},
                "subGroups": [leaf("a", 1), leaf("b", 1, topologyConstraint=required("rack", "far"))],
                "topologyConstraints": {"global": required("zone")},
            },
            "dc",
            {"b": ("far", "rack", "")},
            [(["a"], ("near", "zone", ""))],
            id="global inherits its topology from the root",
        ),
        pytest.param(
            {
                "subGroups": [
                    sub("decode"),
                    leaf("leaders", 1, "decode", topologyConstraint=required("rack")),
                    leaf("workers", 4, "decode", topologyConstraint=required("rack", "own")),
                    leaf("rest", 1, "decode", topologyConstraint=required("rack")),
                ],
                "topologyConstraints": {
                    "subGroupSets": [{"subGroups": ["workers", "leaders"], "constraint": required("block", "near")}]
                },
            },
            "dc",
            {"leaders": ("near", "rack", ""), "workers": ("own", "rack", ""), "rest": ("dc", "rack", "")},
            [(["leaders", "workers"], ("near", "block", ""))],
            id="members inherit the topology of their set",
        ),
        pytest.param(
            {
                "subGroups": [
                    sub("decode", topologyConstraint=required("zone", "near")),
                    leaf("leaders", 1, "decode"),
                    leaf("workers", 4, "decode"),
                ],
                "topologyConstraints": {
                    "subGroupSets": [{"subGroups": ["leaders", "workers"], "constraint": preferred("rack")}]
                },
            },
            "dc",
            {"decode": ("near", "zone", "")},
            [(["leaders", "workers"], ("near", "", "rack"))],
            id="a set inherits the topology of its members' parent",
        ),
        pytest.param(
            {
                "subGroups": [
                    sub("b"),
                    leaf("x", 1, "b", topologyConstraint=required("rack")),
                    leaf("c", 1),
                ],
                "topologyConstraints": {
                    "subGroupSets": [{"subGroups": ["b", "c"], "constraint": required("zone", "near")}]
                },
            },
            "dc",
            {"x": ("near", "rack", "")},
            [(["b", "c"], ("near", "zone", ""))],
            id="the topology of a set reaches all that is below its members",
        ),
        pytest.param(
            {
                "subGroups": [leaf("a", 1), leaf("b", 1)],
                "topologyConstraints": {"subGroupSets": [{"subGroups": ["a", "b"], "constraint": {}}]},
            },
            "dc",
            {},
            [],
            id="a set without a level holds nothing",
        ),
    ],
)
def test_every_spelling_of_constraints_gives_one_tree(
    spec: dict[str, Any], annotation: str, on_nodes: dict[str, Held], holds: list[tuple[list[str], Held]]
) -> None:
    """Constraints stand on nodes, sets and the global one beside them; each has its inherited topology (SPEC §3)."""
    tree = tree_of(spec, annotation)
    assert {node.name: node.constraint[:3] for node in tree.nodes if node.constraint is not None} == on_nodes
    found = [([tree.nodes[row].name for row in hold.members], hold.constraint[:3]) for hold in tree.together]
    assert found == holds


@pytest.mark.parametrize(
    "constraints",
    [
        pytest.param({"global": required("rack")}, id="global"),
        pytest.param({"subGroups": {"decode": required("rack")}}, id="by name"),
        pytest.param(
            {"subGroupSets": [{"subGroups": ["decode-leaders", "decode-workers"], "constraint": required("rack")}]},
            id="set",
        ),
    ],
)
def test_constraints_change_no_counting(constraints: dict[str, Any]) -> None:
    """A set is placement only: the tree has the same nodes and minimums with and without it."""
    spec = {"minSubGroup": 1, "subGroups": TWO_LEVELS}
    assert rows(tree_of({**spec, "topologyConstraints": constraints}, "dc")) == rows(tree_of(spec))


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({}, {"": 1}, id="flat, unset"),
        pytest.param({"minMember": 0}, {"": 0}, id="flat, zero"),
        pytest.param({"minSubGroup": 3, "subGroups": REPLICAS}, {"": 24, "prefill-0": 8}, id="any 3 of 4"),
        pytest.param({"subGroups": TWO_LEVELS}, {"": 10, "decode": 5, "decode-workers": 4}, id="two levels"),
        pytest.param(
            {"minSubGroup": 2, "subGroups": [leaf("a", 7), leaf("b", 1), leaf("c", 3)]},
            {"": 4},
            id="the cheapest children, not the first",
        ),
        pytest.param(
            {"minSubGroup": 1, "subGroups": [leaf("a", 7), leaf("b", 0)]}, {"": 0}, id="a child of zero costs nothing"
        ),
        pytest.param({"minMember": 10, "subGroups": [leaf("a", 4), leaf("b", 2)]}, {"": 10, "a": 4}, id="floor above"),
        pytest.param({"minMember": 3, "subGroups": [leaf("a", 4), leaf("b", 2)]}, {"": 6}, id="floor below"),
        pytest.param({"minSubGroup": 0, "subGroups": [leaf("a", 4)]}, {"": 0, "a": 4}, id="root of zero"),
    ],
)
def test_the_fewest_pods_that_satisfy_each_node(spec: dict[str, Any], expected: dict[str, int]) -> None:
    """The minimum in pods takes the cheapest children that are enough."""
    tree = tree_of(spec)
    fewest = {node.name: pods for node, pods in zip(tree.nodes, minimum_pods(tree), strict=True)}
    assert {name: fewest[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("spec", "pods", "expected"),
    [
        pytest.param({"minMember": 3}, {"": 2}, set(), id="flat, one short"),
        pytest.param({"minMember": 3}, {"": 3}, {""}, id="flat, enough"),
        pytest.param({"minMember": 0}, {}, {""}, id="flat, zero minimum is always satisfied"),
        pytest.param(
            {"minSubGroup": 2, "subGroups": REPLICAS},
            {"prefill-1": 8, "prefill-2": 7, "prefill-3": 9},
            {"", "prefill-1", "prefill-3"},
            id="any 2 of 4: which ones does not matter",
        ),
        pytest.param(
            {"minSubGroup": 2, "subGroups": REPLICAS},
            {"prefill-0": 30, "prefill-1": 7},
            {"prefill-0"},
            id="pods of one child do not help another",
        ),
        pytest.param(
            {"subGroups": TWO_LEVELS},
            {"decode-leaders": 1, "decode-workers": 4, "prefill-workers": 4},
            {"decode", "decode-leaders", "decode-workers", "prefill-workers"},
            id="all required: an unsatisfied branch is missing",
        ),
        pytest.param(
            {"minSubGroup": 1, "subGroups": [leaf("a", 4), leaf("b", 0)]}, {}, {"", "b"}, id="a child of zero counts"
        ),
        pytest.param(
            {"minMember": 10, "subGroups": [leaf("a", 4), leaf("b", 2)]},
            {"a": 4, "b": 5},
            {"a", "b"},
            id="floor: one pod short",
        ),
        pytest.param(
            {"minMember": 10, "subGroups": [leaf("a", 4), leaf("b", 2)]},
            {"a": 4, "b": 6},
            {"", "a", "b"},
            id="floor: any leaf may supply the pods",
        ),
        pytest.param(
            {"minMember": 10, "subGroups": [leaf("a", 4), leaf("b", 2)]},
            {"a": 20, "b": 1},
            {"a"},
            id="floor: every child is required",
        ),
        pytest.param(
            {"minMember": 8, "subGroups": [sub("x"), leaf("a", 2, "x"), leaf("b", 2, "x")]},
            {"a": 2, "b": 6},
            {"", "x", "a", "b"},
            id="floor: descendants count, not only children",
        ),
    ],
)
def test_satisfied(spec: dict[str, Any], pods: dict[str, int], expected: set[str]) -> None:
    """A leaf by its pods, a branch by its satisfied children, the floor by all pods (SPEC §1)."""
    tree = tree_of(spec)
    assert names_where(tree, satisfied(tree, per_row(tree, pods))) == expected


@pytest.mark.parametrize(
    ("placed", "succeeded", "waiting", "expected"),
    [
        pytest.param({"a": 2}, {}, {"b": 3}, {"", "a", "b"}, id="waiting pods count"),
        pytest.param({"a": 1}, {"a": 1}, {"b": 3}, {"", "a", "b"}, id="succeeded pods count"),
        pytest.param({}, {"a": 2, "b": 3}, {}, {"", "a", "b"}, id="succeeded alone"),
        pytest.param({"a": 2}, {"b": 1}, {"b": 1}, {"a"}, id="one pod short"),
    ],
)
def test_ready(placed: dict[str, int], succeeded: dict[str, int], waiting: dict[str, int], expected: set[str]) -> None:
    """As satisfied, counting also every pod that waits."""
    tree = tree_of({"subGroups": [leaf("a", 2), leaf("b", 3)]})
    counts = [per_row(tree, pods) for pods in (placed, succeeded, waiting)]
    assert names_where(tree, ready(tree, *counts)) == expected


THREE = [leaf("a", 2), leaf("b", 2), leaf("c", 2)]
FLOOR = {"minMember": 10, "subGroups": [leaf("a", 4), leaf("b", 2)]}


@pytest.mark.parametrize(
    ("spec", "placed", "succeeded", "was_core", "nodes", "pods", "floor_pods"),
    [
        pytest.param({"minMember": 3}, {"": 5}, {}, set(), {""}, {"": 3}, 0, id="flat: the minimum of its pods"),
        pytest.param({"minMember": 3}, {"": 2}, {}, set(), {""}, {"": 2}, 0, id="flat: as many as there are"),
        pytest.param({"minMember": 3}, {"": 5}, {"": 2}, set(), {""}, {"": 1}, 0, id="succeeded pods did their part"),
        pytest.param({"minMember": 3}, {"": 5}, {"": 4}, set(), {""}, {}, 0, id="more succeeded than the minimum"),
        pytest.param({"minMember": 0}, {"": 5}, {}, set(), {""}, {}, 0, id="a zero minimum protects no pod"),
        pytest.param(
            {"minSubGroup": 2, "subGroups": THREE},
            {"a": 3, "b": 3, "c": 3},
            {},
            set(),
            {"", "a", "b"},
            {"a": 2, "b": 2},
            0,
            id="newcomers by the order of the spec",
        ),
        pytest.param(
            {"minSubGroup": 2, "subGroups": THREE},
            {"a": 1, "b": 3, "c": 3},
            {},
            set(),
            {"", "b", "c"},
            {"b": 2, "c": 2},
            0,
            id="an unsatisfied newcomer is no core",
        ),
        pytest.param(
            {"minSubGroup": 2, "subGroups": THREE},
            {"a": 3, "b": 3, "c": 3},
            {},
            {"", "b", "c"},
            {"", "b", "c"},
            {"b": 2, "c": 2},
            0,
            id="sticky: a satisfied newcomer takes no place",
        ),
        pytest.param(
            {"minSubGroup": 1, "subGroups": THREE},
            {"a": 2, "c": 2},
            {},
            {"", "c"},
            {"", "c"},
            {"c": 2},
            0,
            id="sticky: spec order does not matter",
        ),
        pytest.param(
            {"minSubGroup": 2, "subGroups": THREE},
            {"a": 2, "b": 1},
            {},
            {"", "a", "b"},
            {"", "a", "b"},
            {"a": 2, "b": 1},
            0,
            id="a core child that lost pods stays core",
        ),
        pytest.param(
            {"minSubGroup": 2, "subGroups": THREE},
            {"a": 2, "b": 1, "c": 2},
            {},
            {"", "a", "b"},
            {"", "a", "c"},
            {"a": 2, "c": 2},
            0,
            id="… until a satisfied surplus child replaces it",
        ),
        pytest.param(
            {"minSubGroup": 2, "subGroups": THREE},
            {"a": 1, "b": 1, "c": 2},
            {},
            {"", "a", "b"},
            {"", "a", "c"},
            {"a": 1, "c": 2},
            0,
            id="of two that lost pods, one is replaced",
        ),
        pytest.param(
            {"minSubGroup": 1, "subGroups": THREE},
            {"a": 2, "b": 2},
            {},
            {"", "a", "b"},
            {"", "a"},
            {"a": 2},
            0,
            id="a lower minimum gives places up",
        ),
        pytest.param(
            {"minSubGroup": 0, "subGroups": THREE},
            {"a": 2},
            {},
            {"", "a"},
            {""},
            {},
            0,
            id="a root of zero has no core child",
        ),
        pytest.param(
            {
                "minSubGroup": 1,
                "subGroups": [
                    sub("x", minSubGroup=1),
                    leaf("x0", 2, "x"),
                    leaf("x1", 2, "x"),
                    sub("y", minSubGroup=1),
                    leaf("y0", 2, "y"),
                    leaf("y1", 2, "y"),
                ],
            },
            {"x0": 3, "x1": 3, "y0": 3, "y1": 3},
            {},
            {"", "y", "y1", "x0"},
            {"", "y", "y1"},
            {"y1": 2},
            0,
            id="nested: nothing below surplus is core, even if it was",
        ),
        pytest.param(
            {"minSubGroup": 1, "subGroups": [leaf("a", 2), leaf("b", 0)]},
            {"b": 3},
            {},
            set(),
            {"", "b"},
            {},
            0,
            id="a child of zero fills a place",
        ),
        pytest.param(FLOOR, {"a": 6, "b": 6}, {}, set(), {"", "a", "b"}, {"a": 4, "b": 2}, 4, id="floor: further pods"),
        pytest.param(
            FLOOR, {"a": 4, "b": 3}, {}, set(), {"", "a", "b"}, {"a": 4, "b": 2}, 1, id="floor: no more than there are"
        ),
        pytest.param(
            FLOOR,
            {"a": 6, "b": 6},
            {"a": 1, "b": 2},
            set(),
            {"", "a", "b"},
            {"a": 3},
            4,
            id="floor: succeeded pods count towards it",
        ),
        pytest.param(
            {"minMember": 5, "subGroups": [leaf("a", 4), leaf("b", 2)]},
            {"a": 6, "b": 6},
            {},
            set(),
            {"", "a", "b"},
            {"a": 4, "b": 2},
            0,
            id="floor: below the minimums it adds nothing",
        ),
        pytest.param(
            {"subGroups": THREE},
            {"a": 3},
            {},
            set(),
            {"", "a"},
            {"a": 2},
            0,
            id="an unsatisfied root: what is satisfied",
        ),
    ],
)
def test_core(
    spec: dict[str, Any],
    placed: dict[str, int],
    succeeded: dict[str, int],
    was_core: set[str],
    nodes: set[str],
    pods: dict[str, int],
    floor_pods: int,
) -> None:
    """The minimum number of satisfied children and of placed pods; membership is sticky (SPEC §6)."""
    tree = tree_of(spec)
    before = [node.name in was_core for node in tree.nodes]
    found = core(tree, per_row(tree, placed), per_row(tree, succeeded), before)
    assert names_where(tree, found.nodes) == nodes
    assert {node.name: count for node, count in zip(tree.nodes, found.pods, strict=True) if count} == pods
    assert found.floor_pods == floor_pods


@pytest.mark.parametrize(
    ("placed", "was_core", "joined", "nodes"),
    [
        pytest.param({"b": 2}, {"", "a"}, {"a"}, {"", "a", "b"}, id="another one stands in for it"),
        pytest.param({"a": 2, "b": 2}, {"", "a", "b"}, {"a"}, {"", "a"}, id="it is satisfied again"),
        pytest.param({"a": 2, "b": 2}, {"", "a", "b"}, {"b"}, {"", "b"}, id="and stands later in the spec"),
        pytest.param({"a": 2, "b": 2}, {"", "a", "b"}, {"a", "b"}, {"", "a", "b"}, id="both have joined"),
        pytest.param({"a": 1, "b": 2, "c": 2}, {"", "a", "c"}, {"a"}, {"", "a", "c"}, id="it is not"),
    ],
)
def test_what_has_joined_is_core_before_all_others(
    placed: dict[str, int], was_core: set[str], joined: set[str], nodes: set[str]
) -> None:
    """A child that stands in for a joined one is core only as long as it has to (SPEC §8, keep: all)."""
    tree = tree_of({"minSubGroup": 1, "subGroups": THREE})
    tree = replace(tree, nodes=(tree.nodes[0]._replace(keep=True), *tree.nodes[1:]))
    before, kept = ([node.name in names for node in tree.nodes] for names in (was_core, joined))
    assert names_where(tree, core(tree, per_row(tree, placed), per_row(tree, {}), before, kept).nodes) == nodes


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({}, "minimum 1 pod", id="one pod"),
        pytest.param({"minMember": 4}, "minimum 4 pods", id="flat"),
        pytest.param({"minMember": 0}, "minimum 0 pods", id="zero"),
        pytest.param({"minSubGroup": 3, "subGroups": REPLICAS}, "minimum 24 pods, any 3 of 4", id="any 3 of 4"),
        pytest.param({"minSubGroup": 4, "subGroups": REPLICAS}, "minimum 32 pods, all 4 required", id="4 of 4 is all"),
        pytest.param({"subGroups": TWO_LEVELS}, "minimum 10 pods, all 2 required", id="all"),
        pytest.param(FLOOR, "minimum 10 pods, all 2 required, at least 10 pods in all", id="floor"),
    ],
)
def test_the_minimum_in_words(spec: dict[str, Any], expected: str) -> None:
    """One phrase says what the root asks for."""
    assert minimum_in_words(tree_of(spec)) == expected


def test_the_children_in_words() -> None:
    """Any k of n, or all."""
    tree = tree_of({"subGroups": [sub("b", minSubGroup=1), leaf("x", 1, "b"), leaf("y", 1, "b")]})
    assert [count_in_words(node) for node in tree.nodes[:2]] == ["all 1 required", "any 1 of 2"]


def topology(*levels: tuple[str, str]) -> Topology:
    written = [{"nodeLabel": label, **({"alias": alias} if alias else {})} for label, alias in levels]
    found, problems = read_object({"metadata": {"name": "dc"}, "spec": {"levels": written}}, TOPOLOGY)
    assert problems == []
    assert isinstance(found, Topology)
    return found


PLAIN = (("example.com/zone", ""), ("example.com/block", "pod"), ("kubernetes.io/hostname", ""))


@pytest.mark.parametrize(
    ("levels", "name", "expected"),
    [
        pytest.param(PLAIN, "example.com/block", [1], id="by label"),
        pytest.param(PLAIN, "pod", [1], id="by alias"),
        pytest.param(PLAIN, "block", [1], id="by the part after the slash"),
        pytest.param(PLAIN, "hostname", [2], id="hostname"),
        pytest.param(PLAIN, "rack", [], id="unknown"),
        pytest.param(PLAIN, "Zone", [], id="case matters"),
        pytest.param(PLAIN, "example.com", [], id="the part before the slash is no name"),
        pytest.param((("zone", ""), ("rack", "")), "rack", [1], id="a label without a slash"),
        pytest.param((("a/zone", "rack"), ("rack", "")), "rack", [1], id="label before alias"),
        pytest.param((("a/rack", ""), ("a/block", "rack")), "rack", [1], id="alias before suffix"),
        pytest.param((("a/rack", ""), ("b/rack", "")), "rack", [0, 1], id="two suffixes"),
        pytest.param((("a/rack", ""), ("b/rack", "")), "b/rack", [1], id="the label tells two suffixes apart"),
        pytest.param((("a/x", "rack"), ("b/y", "rack")), "rack", [0, 1], id="two aliases"),
    ],
)
def test_levels_by_name(levels: tuple[tuple[str, str], ...], name: str, expected: list[int]) -> None:
    """A level is named by node label, by alias, or by the part after the last slash, in this order (SPEC §3)."""
    assert levels_named(topology(*levels), name) == expected


def test_a_tree_of_depth_10_000_needs_no_recursion() -> None:
    """Every function on the tree walks rows."""
    depth = 10_000
    chain = [SubGroup(name=f"g{at}", parent=f"g{at - 1}" if at else None) for at in range(depth)]
    chain[-1] = SubGroup(name=f"g{depth - 1}", parent=f"g{depth - 2}", min_member=3)
    tree = normal_form(PodGroup(spec=PodGroupSpec(sub_groups=chain[::-1])))
    assert [node.name for node in tree.nodes] == ["", *(f"g{at}" for at in range(depth))]
    nothing = [0] * len(tree.nodes)
    pods = [*nothing[:-1], 3]
    assert minimum_pods(tree) == [3] * len(tree.nodes)
    assert all(satisfied(tree, pods))
    assert not any(satisfied(tree, nothing))
    assert all(ready(tree, nothing, nothing, pods))
    assert all(core(tree, pods, nothing).nodes)


def test_10_000_siblings_keep_their_order() -> None:
    """Breadth costs no more than depth."""
    wide = [SubGroup(name=f"g{at}", min_member=1) for at in range(10_000)]
    tree = normal_form(PodGroup(spec=PodGroupSpec(sub_groups=wide, min_member=10_001)))
    assert [node.name for node in tree.nodes[1:]] == [subgroup.name for subgroup in wide]
    assert minimum_pods(tree)[0] == 10_001
    assert not satisfied(tree, [0, *[1] * 10_000])[0]
    assert satisfied(tree, [0, 2, *[1] * 9_999])[0]


def test_a_structure_that_was_not_checked_is_a_defect_of_the_program() -> None:
    """Validation comes first; a duplicate name here is an assertion, not a wrong tree."""
    twice = [SubGroup(name="a", min_member=1), SubGroup(name="a", min_member=1)]
    with pytest.raises(AssertionError, match="structure"):
        normal_form(PodGroup(spec=PodGroupSpec(sub_groups=twice)))


@pytest.mark.parametrize(
    ("label", "row"),
    [
        pytest.param("leaf", 2, id="a leaf"),
        pytest.param("alone", 3, id="another"),
        pytest.param("branch", -1, id="a branch holds no pods"),
        pytest.param("nobody", -1, id="unknown"),
        pytest.param("", -1, id="empty"),
        pytest.param(None, -1, id="missing"),
    ],
)
def test_where_a_pod_belongs(label: str | None, row: int) -> None:
    """A pod whose label is missing, unknown or names a branch is set aside; in a flat gang labels say nothing."""
    subgroups = [
        {"name": "branch"},
        {"name": "leaf", "parent": "branch", "minMember": 1},
        {"name": "alone", "minMember": 1},
    ]
    assert tree_of({"subGroups": subgroups}).leaf_of(label) == row
    assert tree_of({"minMember": 2}).leaf_of(label) == 0
