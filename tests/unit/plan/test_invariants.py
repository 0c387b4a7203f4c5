"""The checker finds every kind of wrong decision (SPEC §11), and nothing wrong with right ones."""

import pytest

from muster.plan.cycle import schedule
from muster.plan.invariants import Checker
from muster.plan.outcome import Placement
from muster.plan.proof import Certificate
from muster.plan.recount import refutes
from muster.snapshot.build import build
from oracle.engine import world_of
from oracle.instances import group, node, pod, topology

RACK = {"topologyConstraint": {"topology": "dc", "requiredTopologyLevel": "rack"}}
NODES = [
    node("n0", 2, "z", "b", "r1"),
    node("n1", 2, "z", "b", "r1"),
    node("n2", 4, "z", "b", "r2"),
    node("n3", 4, "z", "b", "r2", cordoned=True),
    node("n4", 4),
]
GANG = [
    group(subGroups=[{"name": "a", "minMember": 2, **RACK}, {"name": "b", "minMember": 1}]),
    *(pod(f"a{index}", "a") for index in range(3)),
    pod("b0", "b", gpus=2),
]
SNAPSHOT = build(world_of([*NODES, topology(), *GANG]), 0)
A, B = 0, 1


def sent(batch, nodes, pods=None, nominated=False):
    return Placement(0, batch, tuple(range(len(nodes))) if pods is None else pods, tuple(nodes), nominated)


def test_a_right_decision_has_no_faults():
    assert Checker(SNAPSHOT).faults(0, [sent(A, [0, 0]), sent(B, [1])]) == []


@pytest.mark.parametrize(
    ("placements", "says"),
    [
        pytest.param([sent(A, [0, 0]), sent(B, [0])], "not enough", id="a node over-committed by two batches"),
        pytest.param([sent(A, [0, 0, 0]), sent(B, [2])], "not enough", id="a node over-committed by one"),
        pytest.param([sent(A, [0, 1]), sent(B, [3])], "may not go", id="a cordoned node"),
        pytest.param([sent(A, [0, 1], pods=(0, 0)), sent(B, [2])], "each sent once", id="one pod twice"),
        pytest.param([sent(A, [0, 1]), sent(A, [0], pods=(1,)), sent(B, [2])], "each sent once", id="in two decisions"),
        pytest.param([sent(A, [0, 1], pods=(0, 7)), sent(B, [2])], "each sent once", id="a pod that is not there"),
        pytest.param([sent(A, [0, 1], pods=(0,)), sent(B, [2])], "each sent once", id="more nodes than pods"),
        pytest.param([sent(A, [0, 2]), sent(B, [2])], "domains", id="two racks"),
        pytest.param([sent(A, [4, 4]), sent(B, [2])], "domains", id="no rack at all"),
        pytest.param([sent(A, [0, 1])], "minimum", id="a leaf is missing"),
        pytest.param([sent(A, [0]), sent(B, [2])], "minimum", id="a pod is missing"),
    ],
)
def test_a_wrong_decision_is_found(placements, says):
    checker = Checker(SNAPSHOT)
    assert any(says in fault for fault in checker.faults(0, placements))
    assert checker.faults(0, [sent(A, [0, 0]), sent(B, [1])]) == [], "what was refused is not entered"


def test_what_was_entered_counts():
    checker = Checker(SNAPSHOT)
    assert checker.faults(0, [sent(A, [0, 0]), sent(B, [1])]) == []
    assert any("not enough" in fault for fault in checker.faults(0, [sent(A, [0], pods=(2,))]))
    assert any("domains" in fault for fault in checker.faults(0, [sent(A, [2], pods=(2,))]))
    assert any("once" in fault for fault in checker.faults(0, [sent(A, [2], pods=(1,))]))


def test_placed_pods_pin_and_count():
    """A surplus pod beside placed ones: their rack, and their minimum."""
    running = [pod("a0", "a", on="n0", phase="Running"), pod("a1", "a", on="n1", phase="Running")]
    others = [pod("b0", "b", gpus=2, on="n2", phase="Running"), pod("a2", "a")]
    snapshot = build(world_of([*NODES, topology(), GANG[0], *running, *others]), 0)
    assert Checker(snapshot).faults(0, [sent(0, [1])]) == []
    assert any("domains" in fault for fault in Checker(snapshot).faults(0, [sent(0, [2])]))


def test_releasing_room_is_for_nominations():
    old = pod("old", gpus=4, on="n2", terminating=True, gang="")
    snapshot = build(world_of([*NODES, topology(), *GANG, old]), 0)
    bound, nominated = ([sent(A, [2, 2], nominated=how), sent(B, [2], nominated=how)] for how in (False, True))
    assert any("not enough" in fault for fault in Checker(snapshot).faults(0, bound))
    assert Checker(snapshot).faults(0, nominated) == []


TWO = [group(minMember=3, **RACK), pod("p0"), pod("p1"), pod("p2", gpus=3)]


def certificate():
    """n0 and n1 have 4 of 5 devices, n2 (4) too: no rack has enough, and counting says so."""
    snapshot = build(world_of([*NODES[:3], topology(), *TWO]), 0)
    plan, _ = schedule(snapshot)
    proof = plan.outcomes[0].proof
    assert isinstance(proof, Certificate)
    return snapshot, proof


def test_a_certificate_is_confirmed():
    snapshot, proof = certificate()
    assert refutes(snapshot, snapshot.free, proof)


def test_a_certificate_for_less_is_not():
    snapshot, proof = certificate()
    lowered = tuple(part._replace(pods=part.pods - 1) if part.pods > 1 else part for part in proof.parts)
    assert lowered != proof.parts
    assert not refutes(snapshot, snapshot.free, proof._replace(parts=lowered))


def test_a_certificate_does_not_hold_where_there_is_more_room():
    _, proof = certificate()
    richer = build(world_of([*NODES[:2], node("n2", 5, "z", "b", "r2"), topology(), *TWO]), 0)
    assert not refutes(richer, richer.free, proof)


def test_a_certificate_without_its_bounds_does_not_hold():
    snapshot, proof = certificate()
    assert not refutes(snapshot, snapshot.free, proof._replace(bounds=()))
