"""Evictions that are only right together: of one gang, for one gang, and whatever hangs together with these."""

import pytest

from muster.decisions.orders import EvictOrder, parts_of


def going(*words):
    """`v0>x`: the pod v0 of the gang v goes for x; `v0`: for nobody."""
    orders = []
    for word in words:
        pod, _, winner = word.partition(">")
        gang = ("default", pod[0])
        orders.append(EvictOrder(gang, ("default", pod), pod, "reclaim", f"default/{winner}" if winner else None))
    return orders


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        pytest.param("", "", id="nobody"),
        pytest.param("v0>x v1>x", "v0v1", id="one gang for one gang"),
        pytest.param("v0>x w0>x", "v0w0", id="two gangs for one"),
        pytest.param("v0>x v1>y", "v0v1", id="a gang, part of it for each of two"),
        pytest.param("v0>x w0>y", "v0 w0", id="two that have nothing to do with each other"),
        pytest.param("v0>x w0>y v1>y", "v0v1w0", id="what joins two parts later"),
        pytest.param("v0 v1 w0", "v0v1 w0", id="stale gangs, each by itself"),
        pytest.param("v0>x w0>x w1>y u0>y s0", "s0 u0v0w0w1", id="a chain of them, and one beside it"),
    ],
)
def test_what_hangs_together_is_one_part(words, parts):
    """Each order stands in one part, whatever their order."""
    for orders in (going(*words.split()), going(*words.split()[::-1])):
        found = parts_of(orders)
        assert sorted("".join(sorted(order.uid for order in part)) for part in found) == parts.split()
