"""The examples that must come out as said: PodGroups as people write them (`examples/`), and what becomes of each."""

from pathlib import Path

import pytest

from muster.api import documents
from muster.api.tree import Tree, minimum_in_words, minimum_pods, normal_form, satisfied
from muster.api.validation import Context, Judgement, validate

E, W = "error", "warning"
EXAMPLES = Path(__file__).parent / "examples"
# Severity, path, a word of the hint.
Expected = tuple[str, str, str]


def judge(name: str) -> Judgement:
    (read,) = documents.read((EXAMPLES / f"{name}.yaml").read_bytes())
    assert read.problems == []
    return validate(read.value, Context())


def tree_of(name: str) -> Tree:
    judged = judge(name)
    assert judged.valid
    return normal_form(judged.object)


VALID: dict[str, tuple[str, list[Expected]]] = {
    "any-3-of-4": ("minimum 24 pods, any 3 of 4", []),
    "two-levels": ("minimum 10 pods, all 2 required", []),
    "two-levels-unset": ("minimum 10 pods, all 2 required", []),
    "floor-of-all-leaves": (
        "minimum 32 pods, all 4 required",
        [(W, "spec.minMember", "all 4 direct children are required")],
    ),
    "floor-beyond-the-leaves": (
        "minimum 10 pods, all 2 required, at least 10 pods in all",
        [(W, "spec.minMember", "all 2 direct children are required")],
    ),
    "older-counts-replicas": (
        "minimum 9 pods, all 3 required",
        [(W, "spec.minMember", "did you mean minSubGroup: 2?")],
    ),
    "zone-block-rack": ("minimum 9 pods, all 2 required", [(W, "spec.subgroups", "subGroups")]),
    "set-in-one-block": ("minimum 6 pods, all 2 required", []),
    "topology-by-annotation": ("minimum 6 pods, all 2 required", []),
    "deprecated-spelling": ("minimum 6 pods, all 2 required", [(W, "spec.subgroups", "subGroups")]),
}

SETS = "spec.topologyConstraints.subGroupSets"
INVALID: dict[str, list[Expected]] = {
    "both-at-the-root": [(E, "spec.minMember", "24 pods"), (E, "spec.minSubGroup", "24 pods")],
    "leaf-with-minsubgroup": [(E, "spec.subGroups[0].minSubGroup", "minMember")],
    "minsubgroup-over-the-children": [(E, "spec.minSubGroup", "at most 4")],
    "branch-with-minmember": [(E, "spec.subGroups[0].minMember", "minSubGroup: 3")],
    "dynamo": [
        (E, "spec.minMember", "28 pods"),
        (E, "spec.minSubGroup", "28 pods"),
        (E, "spec.subGroups[0].minMember", "24 pods"),
        (E, "spec.subGroups[0].minSubGroup", "24 pods"),
        (E, "spec.subGroups[5].minMember", "4 pods"),
        (E, "spec.subGroups[5].minSubGroup", "4 pods"),
    ],
    "both-and-they-differ": [(E, "spec.minMember", "24 pods"), (E, "spec.minSubGroup", "minMember for 30")],
    "older-counts-root-2": [
        (W, "spec.minMember", "did you mean minSubGroup: 2?"),
        (E, "spec.subGroups[0].minMember", "minSubGroup: 2"),
        (E, "spec.subGroups[3].minMember", "minSubGroup: 2"),
    ],
    "older-counts-root-1": [
        (W, "spec.minMember", "did you mean minSubGroup: 1?"),
        (E, "spec.subGroups[0].minMember", "minSubGroup: 2"),
        (E, "spec.subGroups[3].minMember", "minSubGroup: 2"),
    ],
    "three-errors": [
        (E, "spec.subGroups[1].name", "own"),
        (E, "spec.subGroups[2].parent", ""),
        (E, "spec.minSubGroup", "at most 2"),
    ],
    "set-of-two-parents": [(E, f"{SETS}[0].subGroups[1]", "one parent")],
    "member-of-two-sets": [(E, f"{SETS}[1].subGroups[0]", "at most one set")],
}


def test_every_example_has_an_outcome() -> None:
    """No file is forgotten."""
    assert {path.stem for path in EXAMPLES.iterdir()} == {*VALID, *INVALID}


def check(judged: Judgement, expected: list[Expected]) -> None:
    assert sorted((one.severity, one.path) for one in judged.violations) == sorted(one[:2] for one in expected)
    hints = {one.path: one.hint for one in judged.violations}
    assert [path for _, path, word in expected if word not in hints[path]] == []
    assert all(one.message for one in judged.violations)


@pytest.mark.parametrize(("name", "words", "expected"), [pytest.param(n, *said, id=n) for n, said in VALID.items()])
def test_valid(name: str, words: str, expected: list[Expected]) -> None:
    """No error, these warnings only, and the minimum that the example means."""
    judged = judge(name)
    check(judged, expected)
    assert judged.valid
    assert minimum_in_words(tree_of(name)) == words


@pytest.mark.parametrize(("name", "expected"), [pytest.param(n, said, id=n) for n, said in INVALID.items()])
def test_invalid(name: str, expected: list[Expected]) -> None:
    """Every error in one answer, at its field, with a hint."""
    judged = judge(name)
    check(judged, expected)
    assert not judged.valid


@pytest.mark.parametrize(
    ("name", "pods", "whole"),
    [
        pytest.param("any-3-of-4", [0, 8, 8, 8, 0], True, id="any 3 of 4: the first three"),
        pytest.param("any-3-of-4", [0, 8, 0, 8, 8], True, id="any 3 of 4: others"),
        pytest.param("any-3-of-4", [0, 8, 8, 7, 7], False, id="any 3 of 4: only two"),
        pytest.param("floor-of-all-leaves", [0, 8, 8, 8, 8], True, id="today's form: all four"),
        pytest.param("floor-of-all-leaves", [0, 16, 8, 8, 0], False, id="today's form: 32 pods in three leaves"),
        pytest.param("floor-beyond-the-leaves", [0, 4, 6], True, id="floor: ten pods in all"),
        pytest.param("floor-beyond-the-leaves", [0, 4, 5], False, id="floor: nine pods"),
        pytest.param("floor-beyond-the-leaves", [0, 9, 1], False, id="floor: ten pods, one leaf short"),
        pytest.param("older-counts-replicas", [0, 3, 3, 0], False, id="as written, two of three are not enough"),
    ],
)
def test_what_starts_the_gang(name: str, pods: list[int], whole: bool) -> None:
    """The root is satisfied by exactly what the example says."""
    assert satisfied(tree_of(name), pods)[0] is whole


def test_two_levels_with_and_without_numbers_are_one_tree() -> None:
    """Unset is all: both spellings ask for the same."""
    assert tree_of("two-levels") == tree_of("two-levels-unset")
    assert minimum_pods(tree_of("two-levels")) == [10, 5, 1, 4, 5, 1, 4]


def constraints(tree: Tree) -> dict[str, tuple[str, str]]:
    """Topology and required level by node."""
    return {node.name: node.constraint[:2] for node in tree.nodes if node.constraint is not None}


def test_the_levels_of_zone_block_rack() -> None:
    """Root, branch and leaves each have their own level; those below inherit the topology."""
    topology = "cluster-topology"
    assert constraints(tree_of("zone-block-rack")) == {
        "": (topology, "topology/zone"),
        "workers": (topology, "topology/block"),
        "prefill": (topology, "topology/rack"),
        "decode": (topology, "topology/rack"),
    }


def test_a_set_holds_its_members_in_one_block() -> None:
    """It stands beside the tree, over leaders and workers together; each of them keeps its rack."""
    tree = tree_of("set-in-one-block")
    (hold,) = tree.together
    assert [tree.nodes[row].name for row in hold.members] == ["decode-leaders", "decode-workers"]
    assert hold.constraint[:2] == ("dc", "block")
    assert constraints(tree) == {"decode-leaders": ("dc", "rack"), "decode-workers": ("dc", "rack")}


def test_the_topology_is_inherited_from_the_annotation() -> None:
    """Every constraint without a topology gets it."""
    assert constraints(tree_of("topology-by-annotation")) == {"decode": ("dc", "rack"), "prefill": ("dc", "rack")}
