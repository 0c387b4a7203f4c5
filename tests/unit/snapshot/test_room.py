"""The tables of node × resource: exact whatever comes first, and no larger than what nodes declare."""

from hypothesis import given
from hypothesis import strategies as st

from muster.snapshot.requests import LARGEST
from muster.snapshot.room import ALLOCATABLE, HELD, Room
from muster.snapshot.world import World
from unit.snapshot.test_world import node, pod

EVENTS = st.lists(
    st.one_of(
        st.tuples(
            st.just("node"),
            st.sampled_from(["n0", "n1"]),
            st.dictionaries(st.sampled_from(["a.io/x", "b.io/y", "cpu"]), st.integers(0, 9)),
        ),
        st.tuples(
            st.sampled_from(["p0", "p1", "p2"]),
            st.sampled_from(["", "n0", "n1", "n2"]),
            st.dictionaries(st.sampled_from(["a.io/x", "b.io/y", "c.io/z", "cpu"]), st.integers(1, 9)),
        ),
    ),
    max_size=25,
)


@given(EVENTS)
def test_what_a_node_has_left_does_not_depend_on_what_came_first(events):
    """Nodes that come and go, declare more and less, and pods that come before, after or without their node."""
    world, last = World(), {}
    for kind, where, amounts in events:
        stated = {name: str(amount) for name, amount in amounts.items()}
        if kind == "node":
            there = bool(amounts)
            world.apply(node(where, **stated), deleted=not there)
        else:
            there = bool(where)
            world.apply(pod(kind, where, "Running", "", **stated), deleted=not there)
        key = (kind, where) if kind == "node" else kind
        last.pop(key, None)
        if there:
            last[key] = (where, amounts)
    held = {}
    for key, (where, amounts) in last.items():
        for name, amount in amounts.items() if isinstance(key, str) else ():
            held[where, name] = held.get((where, name), 0) + amount * (1000 if name == "cpu" else 1)
    room = world.room
    offered = {name for key, (_, amounts) in last.items() if not isinstance(key, str) for name in amounts}
    assert room.offered - {"pods"} == offered
    for where in {where for where, _ in last.values()}:
        for name in offered:
            assert room.table(HELD, room.rows([where]), [name]).item() == held.get((where, name), 0)


def test_names_that_only_pods_say_are_no_columns():
    world = World()
    world.apply(node("n", cpu="8"))
    for number in range(100):
        requests = {f"{number}.io/{at}": "1" for at in range(100)}
        world.apply(pod(f"p{number}", "n", "Running", "", **requests))
    assert world.room.resources == ["cpu", "ephemeral-storage", "memory", "pods"]


def test_nodes_that_only_pods_say_leave_no_rows_behind():
    world = World()
    for number in range(1000):
        one = pod("p", f"made-up-{number}", "Running", "", cpu="1")
        world.apply(one)
        world.apply(one, deleted=True)
    assert world.room.rows(["n"]).tolist() == [0]
    assert world.room._tables.nbytes < 10_000


def test_a_row_that_is_used_again_is_empty():
    room = Room()
    room.set("a", {"cpu": 5})
    room.add(HELD, "a", {"cpu": 3})
    room.set("a", {})
    room.add(HELD, "a", {"cpu": 3}, -1)
    room.set("b", {"cpu": 7})
    assert [room.table(which, room.rows(["b"]), ["cpu"]).item() for which in (ALLOCATABLE, HELD)] == [7, 0]


def test_more_pods_than_an_api_server_keeps_overflow_no_sum():
    """A tenant may bind any number of pods to one node; each holds as much as one pod can."""
    room = Room()
    room.set("n", {"memory": LARGEST})
    for _ in range(130_000):
        room.add(HELD, "n", {"memory": LARGEST + 1})
    (held,) = room.table(HELD, room.rows(["n"]), ["memory"])
    assert held[0] > LARGEST
