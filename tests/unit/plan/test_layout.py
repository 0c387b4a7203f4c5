"""How many pods go to each node and domain: all of them, nowhere too many, in the order that was asked for."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.plan.layout import BINPACK, SPREAD, over_domains, over_nodes, slice_rows

FITS = st.lists(st.integers(0, 6), max_size=7).map(lambda fits: np.array(fits, dtype=np.int32))


@pytest.mark.parametrize(
    ("fits", "pods", "strategy", "liked", "expected"),
    [
        pytest.param([4, 1, 2], 3, BINPACK, None, [0, 1, 2], id="the least room first"),
        pytest.param([4, 1, 2], 4, BINPACK, None, [1, 1, 2], id="then the rest"),
        pytest.param([2, 2, 2], 3, BINPACK, None, [2, 1, 0], id="ties in order"),
        pytest.param([4, 1, 2], 8, BINPACK, None, None, id="too many"),
        pytest.param([0, 0], 0, BINPACK, None, [0, 0], id="nobody"),
        pytest.param([4, 1, 2], 3, SPREAD, None, [3, 0, 0], id="the most room first"),
        pytest.param([3, 3, 1], 3, SPREAD, None, [2, 1, 0], id="evened out"),
        pytest.param([1, 1, 1], 2, SPREAD, None, [1, 1, 0], id="spread ties in order"),
        pytest.param([1, 1], 3, SPREAD, None, None, id="spread of too many"),
        pytest.param([4, 1, 2], 3, BINPACK, [5, 0, 0], [3, 0, 0], id="the liked node first"),
        pytest.param([2, 1, 2], 4, BINPACK, [5, -1, 0], [2, 0, 2], id="the disliked node last"),
        pytest.param([2, 1], 4, BINPACK, [5, 0], None, id="liking makes no room"),
    ],
)
def test_over_nodes(fits, pods, strategy, liked, expected):
    found = over_nodes(np.array(fits, dtype=np.int32), pods, strategy, None if liked is None else np.array(liked))
    assert (None if found is None else found.tolist()) == expected


@given(FITS, st.integers(0, 25), st.sampled_from([BINPACK, SPREAD]), st.booleans())
def test_all_or_nothing(fits, pods, strategy, likes):
    """All pods find nodes exactly when there is room for them, and no node gets more than fit."""
    liked = np.arange(len(fits), dtype=np.int64) % 3 if likes else None
    found = over_nodes(fits, pods, strategy, liked)
    assert (found is None) == (pods > int(fits.sum()))
    if found is not None:
        assert int(found.sum()) == pods
        assert (found <= fits).all()
        assert (found >= 0).all()


@given(FITS, st.integers(0, 25))
def test_binpack_leaves_large_holes_whole(fits, pods):
    """A node that gets some is full, but for one; nobody untouched had less room than a node that was used."""
    found = over_nodes(fits, pods, BINPACK)
    if found is not None:
        used = np.flatnonzero(found)
        assert sum(found[node] < fits[node] for node in used) <= 1
        idle = [fits[node] for node in range(len(fits)) if fits[node] and not found[node]]
        assert all(fits[node] <= min(idle, default=99) for node in used)


@given(FITS, st.integers(0, 25))
def test_spread_evens_out_what_is_left(fits, pods):
    """No pod could move to where more room would be left."""
    found = over_nodes(fits, pods, SPREAD)
    if found is not None and pods:
        left = fits - found
        assert all(left[node] + 1 >= left.max() for node in np.flatnonzero(found))


@pytest.mark.parametrize(
    ("rooms", "pods", "used", "expected"),
    [
        pytest.param([5, 3, 4], 3, None, [(1, 3)], id="the tightest that takes all"),
        pytest.param([2, 3, 4], 6, None, [(2, 4), (0, 2)], id="else the largest, then the tightest for the rest"),
        pytest.param([5, 3, 4], 3, [False, False, True], [(2, 3)], id="one that is used already"),
        pytest.param([5, 1, 4], 3, [False, True, False], [(1, 1), (2, 2)], id="first what is used, then few"),
        pytest.param([1, 0], 0, None, [], id="nobody"),
    ],
)
def test_over_domains(rooms, pods, used, expected):
    assert over_domains(rooms, pods, used) == expected


@given(st.lists(st.integers(0, 5), min_size=1, max_size=6), st.data())
def test_as_few_domains_as_there_can_be(rooms, data):
    """Without domains that are used already, no smaller number of them has the room."""
    pods = data.draw(st.integers(0, sum(rooms)))
    found = over_domains(rooms, pods)
    assert sum(some for _, some in found) == pods
    assert all(0 < some <= rooms[domain] for domain, some in found)
    fewer = combinations(range(len(rooms)), max(0, len(found) - 1))
    assert not found or all(sum(rooms[domain] for domain in domains) < pods for domains in fewer)


def test_only_nodes_that_get_some_are_kept():
    rows, counts = slice_rows(np.array([4, 7, 9]), np.array([0, 2, 1]))
    assert (rows.tolist(), counts.tolist()) == ([7, 9], [2, 1])
