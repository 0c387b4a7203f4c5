"""Packing and counting against brute force: pods of a few shapes on a few nodes."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.plan.budget import Budget
from muster.plan.layout import BINPACK
from muster.plan.ledger import Ledger
from muster.plan.model import Model
from muster.plan.packing import Exact, Packer
from muster.plan.problem import Bound, Part, Problem
from muster.plan.proof import Certificate, certify
from muster.plan.solve import solve
from muster.plan.strands import strands, sums_of
from muster.snapshot.build import build
from oracle.engine import world_of
from oracle.instances import group, node, pod, topology

CHAIN = ((1, 0), (2, 0), (4, 0), (8, 0))
MIXED = ((1, 0), (2, 1), (3, 1), (0, 2), (1, 3), (5, 0))


def question(nodes, shapes, bounds=()):
    """A snapshot, its ledger and the problem of placing `pods` of every (gpus, cpus); one leaf per shape."""
    waiting = [pod(f"p{index}", gpus=ask[0], cpus=ask[1]) for index, (ask, _) in enumerate(shapes)]
    machines = [node(f"n{index:02}", gpus, *path, cpus=cpus) for index, (gpus, cpus, *path) in enumerate(nodes)]
    snapshot = build(world_of([*machines, topology(), group(minMember=1), *waiting]), 0)
    (gang,) = snapshot.gangs
    shape_of = {name: batch.shape for batch in gang.waiting for name in batch.pods}
    parts = [Part(1 + index, shape_of[f"p{index}"], pods) for index, (_, pods) in enumerate(shapes)]
    return snapshot, Ledger(snapshot), Problem(parts, bounds)


def packs(nodes, pods) -> bool:
    """Whether pods of these sizes fit, one after the other, every node tried."""
    if not pods:
        return True
    (gpus, cpus), *rest = pods
    for index in {tuple(one): index for index, one in enumerate(nodes)}.values():
        if nodes[index][0] >= gpus and nodes[index][1] >= cpus:
            left = [list(one) for one in nodes]
            left[index][0] -= gpus
            left[index][1] -= cpus
            if packs(left, rest):
                return True
    return False


def asks_of(shapes):
    return sorted((ask for ask, pods in shapes for _ in range(pods)), reverse=True)


def shapes_from(asks):
    return st.lists(st.sampled_from(asks), min_size=1, max_size=3, unique=True).flatmap(
        lambda chosen: st.tuples(*(st.tuples(st.just(ask), st.integers(1, 3)) for ask in chosen))
    )


NODES = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 4)), min_size=1, max_size=4)


@given(NODES, shapes_from(MIXED))
def test_exact_packing_is_exact(nodes, shapes):
    """It finds a way exactly when there is one, and what it finds fits."""
    snapshot, ledger, problem = question(nodes, shapes)
    model = Model(problem, ledger, snapshot.topologies)
    found = Exact(model, [None] * len(problem.parts), range(len(problem.parts)), Budget(100_000)).pack()
    assert found is not None
    assert isinstance(found, dict) == packs(nodes, asks_of(shapes))
    if isinstance(found, dict):
        for number, part in enumerate(problem.parts):
            assert int(found[number].counts.sum()) == part.pods
            ledger.take(found[number])
        assert (ledger.free >= 0).all()


@given(NODES, shapes_from(MIXED))
def test_packing_quickly_never_lies(nodes, shapes):
    """What the packer takes is in the ledger and fits; when it says no, nothing is taken and there is no way."""
    snapshot, ledger, problem = question(nodes, shapes)
    before = ledger.free.copy()
    found = Packer(Model(problem, ledger, snapshot.topologies), BINPACK).pack([], Budget(100_000), 100_000)
    if isinstance(found, list):
        assert [int(taking.counts.sum()) for taking in found] == [part.pods for part in problem.parts]
        assert (ledger.free >= 0).all()
        assert not np.array_equal(ledger.free, before)
    else:
        assert found is False
        assert not packs(nodes, asks_of(shapes))
        assert np.array_equal(ledger.free, before)


@given(st.lists(st.tuples(st.integers(0, 17), st.just(99)), min_size=1, max_size=4), shapes_from(CHAIN))
def test_counting_decides_sizes_that_divide_one_another(nodes, shapes):
    """performance.md §4.2: with sizes 1, 2, 4, 8 of one resource, counting is exact in both directions."""
    snapshot, ledger, problem = question(nodes, shapes)
    model = Model(problem, ledger, snapshot.topologies)
    assert model.exact
    assert isinstance(certify(model), Certificate) == (not packs(nodes, asks_of(shapes)))


@given(NODES, shapes_from(MIXED))
def test_a_certificate_is_a_proof(nodes, shapes):
    """Whatever the shapes: when counting says no, there is no way."""
    snapshot, ledger, problem = question(nodes, shapes)
    if isinstance(certify(Model(problem, ledger, snapshot.topologies)), Certificate):
        assert not packs(nodes, asks_of(shapes))


@pytest.mark.parametrize(
    ("nodes", "shapes", "exact"),
    [
        pytest.param([(8, 64)], [((3, 0), 2)], True, id="one shape"),
        pytest.param([(8, 64)], [((1, 0), 1), ((2, 0), 1), ((4, 0), 1)], True, id="a chain"),
        pytest.param([(8, 64)], [((2, 0), 1), ((3, 0), 1)], False, id="2 and 3"),
        pytest.param([(8, 64)], [((1, 1), 1), ((2, 1), 1)], True, id="plenty of the other resource"),
        pytest.param([(4, 3)], [((1, 2), 2), ((2, 1), 2)], False, id="two resources that can run out"),
        pytest.param([(8, 64)], [((1, 0), 1), ((0, 1), 1)], False, id="nothing asked of it"),
    ],
)
def test_where_counting_is_enough(nodes, shapes, exact):
    snapshot, ledger, problem = question(nodes, shapes)
    assert Model(problem, ledger, snapshot.topologies).exact == exact


RACKS = [(2, 4, "z", "x", "x1"), (2, 4, "z", "x", "x1"), (3, 4, "z", "y", "y1")]


def test_a_question_that_has_no_answer_leaves_the_ledger_as_it_was():
    bounds = [Bound(1, (1,), 0, 2), Bound(2, (2,), 0, 2)]
    snapshot, ledger, problem = question(RACKS, [((1, 0), 4), ((1, 1), 4)], bounds)
    before = ledger.free.copy()
    answer = solve(problem, ledger, snapshot.topologies, BINPACK, Budget(10_000))
    assert not answer.placed
    assert answer.proof is not None
    assert np.array_equal(ledger.free, before)


def test_a_question_that_has_one_takes_its_room():
    bounds = [Bound(1, (1,), 0, 2), Bound(2, (2,), 0, 2)]
    snapshot, ledger, problem = question(RACKS, [((1, 0), 4), ((1, 1), 3)], bounds)
    answer = solve(problem, ledger, snapshot.topologies, BINPACK, Budget(10_000))
    assert answer.placed
    assert [sorted(set(taking.pods)) for taking in answer.takings] == [[0, 1], [2]]
    assert ledger.fits(problem.parts[0].shape).tolist() == [0, 0, 0]


def test_a_pinned_bound_stays_where_it_is():
    """The other rack would do; the pin says no, and the certificate says that it is pinned."""
    snapshot, ledger, problem = question(RACKS, [((1, 0), 4), ((1, 1), 1)], [Bound(1, (1,), 0, 2, pinned=1)])
    answer = solve(problem, ledger, snapshot.topologies, BINPACK, Budget(10_000))
    assert isinstance(answer.proof, Certificate)
    assert answer.proof.pinned
    assert [shortage.domain for shortage in answer.proof.shortages] == [1]


def test_without_budget_nobody_knows():
    shapes = [((2, 1), 2), ((3, 1), 2), ((5, 0), 1)]
    snapshot, ledger, problem = question([(8, 2), (7, 3), (5, 1)], shapes)
    model = Model(problem, ledger, snapshot.topologies)
    assert Exact(model, [None] * 3, range(3), Budget(1)).pack() in (None, False)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=5), st.lists(st.integers(0, 9), min_size=1, max_size=3))
def test_stranded_room_is_really_stranded(needs, rooms):
    """When it says that regions can't use enough of the rooms, no assignment of them exists."""
    if strands(sums_of(needs), rooms):
        for ways in product(range(len(rooms)), repeat=len(needs)):
            loads = [
                sum(need for need, way in zip(needs, ways, strict=True) if way == room) for room in range(len(rooms))
            ]
            assert any(load > room for load, room in zip(loads, rooms, strict=True))


def test_a_budget_is_spent_once():
    budget = Budget(3)
    assert [budget.spend() for _ in range(4)] == [True, True, True, False]
    assert budget.empty
    assert budget.spent == 4
