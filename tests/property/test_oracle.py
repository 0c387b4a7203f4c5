"""The oracles agree with each other, and with the families of instances that greedy schedulers get wrong."""

import pytest
from hypothesis import given

from muster.api.validation import Context, validate
from oracle import enumerate as tried
from oracle import instances, milp
from oracle.instances import group, node, pod, topology
from oracle.problem import read

RACK = {"topologyConstraint": {"topology": "dc", "requiredTopologyLevel": "rack"}}
BLOCK = {"topology": "dc", "requiredTopologyLevel": "block"}


def racks(*sizes: int, per_node: int = 1) -> list[dict]:
    """Racks of one block with so many nodes each."""
    return [
        node(f"r{rack}n{index}", per_node, "z", "b", f"r{rack}")
        for rack, size in enumerate(sizes)
        for index in range(size)
    ]


def leaves(*sizes: int, **spec) -> list[dict]:
    """A gang of rack-required leaves of so many single-GPU pods each."""
    subgroups = [{"name": f"l{leaf}", "minMember": size, **RACK} for leaf, size in enumerate(sizes)]
    pods = [pod(f"l{leaf}-{index}", f"l{leaf}") for leaf, size in enumerate(sizes) for index in range(size)]
    return [group(subGroups=subgroups, **spec), *pods]


SETS = [
    *(node(f"x{index}", 1, "z", "x", "x1") for index in range(8)),
    *(node(f"y{index}", 1, "z", "y", f"y{index // 4}") for index in range(8)),
    group(
        subGroups=[
            {"name": "a1", "minMember": 4, **RACK},
            {"name": "a2", "minMember": 4, **RACK},
            {"name": "b1", "minMember": 8, **RACK},
        ],
        topologyConstraints={
            "subGroupSets": [
                {"subGroups": ["a1", "a2"], "constraint": BLOCK},
                {"subGroups": ["b1"], "constraint": BLOCK},
            ]
        },
    ),
    *(pod(f"a1-{index}", "a1") for index in range(4)),
    *(pod(f"a2-{index}", "a2") for index in range(4)),
    *(pod(f"b1-{index}", "b1") for index in range(8)),
]
FAMILIES = {
    "two racks of 5, leaves 2 2 3 3": ([*racks(5, 5), *leaves(2, 2, 3, 3)], True),
    "two racks of 5, leaves 2 2 3 4": ([*racks(5, 5), *leaves(2, 2, 3, 4)], False),
    "racks 10 and 10, leaves 5 4 4 3 2 2": ([*racks(10, 10), *leaves(5, 4, 4, 3, 2, 2)], True),
    "racks 10 and 10, leaves 5 4 4 4 2 2": ([*racks(10, 10), *leaves(5, 4, 4, 4, 2, 2)], False),
    "a set must not steal the only large rack": (SETS, True),
    "3 of 6 2 2 2 on racks of 4": ([*racks(4, 4), *leaves(6, 2, 2, 2, minSubGroup=3)], True),
    "4 of 6 2 2 2 on racks of 4": ([*racks(4, 4), *leaves(6, 2, 2, 2, minSubGroup=4)], False),
    "nodes of 4 and 3, pods 1 3 3": (
        [node("n4", 4), node("n3", 3), group(minMember=3), pod("a", gpus=1), pod("b", gpus=3), pod("c", gpus=3)],
        True,
    ),
    "6 nodes of 8, 4 pods of 8 and 16 of 1": (
        [
            *(node(f"n{index}", 8, "z") for index in range(6)),
            group(minMember=20, topologyConstraint={"topology": "dc", "requiredTopologyLevel": "zone"}),
            *(pod(f"big{index}", gpus=8) for index in range(4)),
            *(pod(f"small{index}", gpus=1) for index in range(16)),
        ],
        True,
    ),
}


@pytest.mark.parametrize(("documents", "fits"), FAMILIES.values(), ids=FAMILIES)
def test_what_greedy_schedulers_get_wrong(documents, fits):
    """The solver knows the answer, and its placement passes the check."""
    problem = read([topology(), *documents])
    placed = milp.place(problem)
    assert (placed is not None) == fits
    if placed is not None:
        assert problem.faults(placed) == []


@given(instances.problems())
def test_the_solver_and_trying_everything_agree(documents):
    """On small instances both say the same, and every placement passes the check."""
    problem = read(documents)
    one, other = tried.place(problem), milp.place(problem)
    assert (one is None) == (other is None)
    for placed in (one, other):
        if placed is not None:
            assert problem.faults(placed) == []


@given(instances.problems())
def test_instances_are_valid(documents):
    """What the oracles judge is what muster accepts."""
    for document in documents:
        assert [one for one in validate(document, Context()).violations if one.severity == "error"] == []
