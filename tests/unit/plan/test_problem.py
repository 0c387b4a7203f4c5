"""Questions: how bounds nest, which of them say nothing new, and when two questions are the same."""

import pytest

from muster.api.tree import NONE
from muster.plan.problem import Bound, Part, Problem

ZONE, BLOCK, RACK = 0, 1, 2


def bound(row, leaves, level, topology=0, pinned=NONE):
    return Bound(row, leaves, topology, level, pinned)


PARTS = [Part(1, 0, 2), Part(2, 0, 3), Part(3, 1, 1)]


def test_regions_nest_as_their_leaves_do():
    problem = Problem(PARTS, [bound(2, (2,), RACK), bound(0, (1, 2, 3), ZONE), bound(1, (1, 2), BLOCK)])
    assert [(region.bound.level, region.parent) for region in problem.regions] == [(ZONE, NONE), (BLOCK, 0), (RACK, 1)]
    assert [region.own for region in problem.regions] == [[2], [0], [1]]
    assert problem.regions[0].parts == [0, 1, 2]
    assert problem.ancestors(2) == [1, 0]
    assert (problem.roots, problem.loose) == ([0], [])


@pytest.mark.parametrize(
    ("bounds", "kept"),
    [
        pytest.param([bound(0, (1, 2), RACK), bound(1, (1,), BLOCK)], [0], id="a wider level inside says nothing"),
        pytest.param([bound(0, (1, 2), RACK), bound(1, (1,), RACK)], [0], id="the same level inside says nothing"),
        pytest.param([bound(0, (1, 2), BLOCK), bound(1, (1,), RACK)], [0, 1], id="a narrower one does"),
        pytest.param([bound(0, (1, 2), RACK), bound(1, (1,), ZONE, 1)], [0, 1], id="another Topology does"),
        pytest.param([bound(0, (7, 8), RACK)], [], id="nobody of it is asked about"),
        pytest.param([bound(0, (1, 2), ZONE), bound(0, (1, 2), RACK)], [0, 0], id="both levels of one node"),
    ],
)
def test_bounds_that_say_nothing_are_left_out(bounds, kept):
    assert [region.bound.row for region in Problem(PARTS, bounds).regions] == kept


def test_pods_that_no_bound_holds_are_loose():
    problem = Problem(PARTS, [bound(2, (2,), RACK)])
    assert problem.loose == [0, 2]
    assert problem.region_of == [NONE, 0, NONE]


def test_parts_without_pods_are_no_parts():
    assert Problem([Part(1, 0, 0), Part(2, 0, 1)], []).parts == (Part(2, 0, 1),)


BOUNDS = [bound(1, (1,), RACK), bound(2, (2,), RACK)]


@pytest.mark.parametrize(
    ("parts", "bounds", "same"),
    [
        pytest.param([Part(2, 0, 2), Part(1, 0, 3), Part(3, 1, 1)], BOUNDS, True, id="whose they are"),
        pytest.param(list(reversed(PARTS)), BOUNDS, True, id="in which order"),
        pytest.param([*PARTS[:2], Part(3, 1, 2)], BOUNDS, False, id="one pod more"),
        pytest.param([*PARTS[:2], Part(3, 0, 1)], BOUNDS, False, id="another shape"),
        pytest.param(PARTS, [BOUNDS[0]], False, id="one bound less"),
        pytest.param(PARTS, [BOUNDS[0], bound(2, (2,), BLOCK)], False, id="another level"),
        pytest.param(PARTS, [BOUNDS[0], bound(2, (2,), RACK, 1)], False, id="another Topology"),
        pytest.param(PARTS, [BOUNDS[0], bound(2, (2,), RACK, pinned=3)], False, id="pinned"),
    ],
)
def test_equal_questions_have_equal_signatures(parts, bounds, same):
    """What is asked, whoever asks."""
    mine, other = Problem(PARTS, BOUNDS).signature(rows=False), Problem(parts, bounds).signature(rows=False)
    assert (mine == other) == same


def test_with_rows_it_matters_who_asks():
    other = [bound(5, (1,), RACK), bound(2, (2,), RACK)]
    assert Problem(PARTS, BOUNDS).signature(rows=True) != Problem(PARTS, other).signature(rows=True)
