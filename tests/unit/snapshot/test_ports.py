"""Host ports as columns: as few as there can be, and two pods clash in one of them exactly when their ports clash."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.snapshot import ports as module
from muster.snapshot.ports import Holder, PortIndex, columns_of

PORTS = st.lists(
    st.tuples(st.sampled_from(["", "10.0.0.1", "10.0.0.2"]), st.sampled_from(["TCP", "UDP"]), st.integers(80, 83)),
    min_size=1,
    max_size=4,
    unique=True,
).map(tuple)


def clash(one, other):
    """The rule of Kubernetes: the same port and protocol, and the same IP or one that stands for all."""
    return any(a[1:] == b[1:] and (a[0] == b[0] or not a[0] or not b[0]) for a in one for b in other)


def columns(waiting, running=(), rows=10, whose=None):
    """The columns of these shapes, with running pods on nodes 0, 1, ..."""
    pods, whose = PortIndex(), whose or ["ns"] * len(waiting)
    for pod, ports in enumerate(running):
        pods.add(pod, ports)
    holders = {pod: Holder(pod, terminating=False) for pod in range(len(running))}
    namespaces = {shape: {namespace} for shape, namespace in enumerate(whose)}
    return columns_of(dict(enumerate(waiting)), {}, pods, holders, rows, namespaces)


@given(st.lists(PORTS, min_size=1, max_size=4), st.lists(PORTS, max_size=3))
def test_a_column_stands_for_a_clash(waiting, running):
    found, too_many = columns(waiting, running)
    assert not too_many
    for one in range(len(waiting)):
        for other in range(one):
            assert clash(waiting[one], waiting[other]) == any({one, other} <= set(c.shapes) for c in found)
        for node in range(len(running)):
            taken = any(one in c.shapes and Holder(node, terminating=False) in c.holders for c in found)
            assert clash(waiting[one], running[node]) == taken


@given(st.lists(PORTS, max_size=6), st.data())
def test_what_was_removed_was_never_there(given_ports, data):
    index, left = PortIndex(), PortIndex()
    gone = data.draw(st.sets(st.sampled_from(range(len(given_ports))))) if given_ports else set()
    for thing, ports in enumerate(given_ports):
        index.add(thing, ports)
        if thing not in gone:
            left.add(thing, ports)
    for thing in gone:
        index.remove(thing, given_ports[thing])
        index.remove(thing, given_ports[thing])
    assert index == left


def test_ports_that_are_taken_together_are_one_column():
    many = tuple(("", "TCP", port) for port in range(1, 1001))
    found, _ = columns([many, many], [many[:500]])
    assert [(c.name, c.shapes, len(c.holders)) for c in found] == [
        ("host port 1/TCP on any IP and 499 more", (0, 1), 1),
        ("host port 501/TCP on any IP and 499 more", (0, 1), 0),
    ]


@pytest.mark.parametrize("limit", ["MOST_LOOKS", "MOST_AMOUNTS"])
def test_beyond_a_bound_the_shapes_with_the_most_ports_wait(monkeypatch, limit):
    monkeypatch.setattr(module, limit, 60)
    many = tuple(("", "TCP", port) for port in range(100, 200))
    one = (("", "TCP", 80),)
    # Each of its ports has another holder.
    found, too_many = columns([many, one], [(port,) for port in many])
    assert too_many == {0}
    assert [c.shapes for c in found] == [(1,)]


@pytest.mark.parametrize(("limit", "most"), [("MOST_LOOKS", 2_000), ("MOST_AMOUNTS", 500)])
def test_ports_of_one_namespace_cost_no_other_its_own(monkeypatch, limit, most):
    """Many shapes with odd ports, and many IPs of one port: those of the rival wait, and nothing of the other."""
    monkeypatch.setattr(module, limit, most)
    odd = [(("", "TCP", 1000 + at),) for at in range(60)]
    ips = [((f"10.0.0.{at}", "TCP", 80),) for at in range(60)] + [
        (("", "TCP", 80), ("", "UDP", at)) for at in range(60)
    ]
    mine = [(("", "TCP", 80), ("", "TCP", 9000))]
    found, too_many = columns([*odd, *ips, *mine], whose=[*["rival"] * 180, "me"])
    assert too_many
    assert 180 not in too_many
    assert any(180 in column.shapes for column in found)


def test_what_is_too_much_for_one_keeps_no_other_from_its_place(monkeypatch):
    monkeypatch.setattr(module, "MOST_LOOKS", 60)
    many = tuple(("", "TCP", port) for port in range(100, 200))
    _, too_many = columns([many, (("", "TCP", 80),), (("", "TCP", 81),)], whose=["a", "b", "a"])
    assert too_many == {0}
