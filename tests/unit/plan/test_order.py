"""Whose turn it is (SPEC §7): the queue that is due most, and in it the gang that comes first."""

import pytest

from muster.plan.accounts import NOTHING, Accounts
from muster.plan.order import Line, Turn, turns_of
from muster.snapshot.queues import PARTS
from short_forms import lone, merged, number_of, snapshot_of

HIGH = {"priorityClassName": "build-preemptible"}


def line_of(objects, *, surplus=True):
    snapshot = snapshot_of(objects)
    accounts = Accounts(snapshot)
    return snapshot, accounts, Line(turns_of(snapshot, surplus=surplus), accounts)


def told(snapshot, turn):
    return snapshot.gangs[turn.gang].key[1] + ("+" if turn.surplus else "")


def all_of(snapshot, line, placed=lambda turn: None):
    """The turns in order, `+` for surplus; each may be placed before the next is asked for."""
    found = []
    while (turn := line.peek()) is not None:
        assert line.pop() == turn, "who looks ahead sees who comes"
        found.append(told(snapshot, turn))
        placed(turn)
    assert line.pop() is None
    return found


@pytest.mark.parametrize(
    ("gang", "pods", "turns"),
    [
        pytest.param({"minMember": 2}, [{"count": 2}], ["g"], id="its minimum waits"),
        pytest.param({"minMember": 2}, [{"count": 3}], ["g", "g+"], id="and more than it"),
        pytest.param({"minMember": 2}, [{"count": 1}], [], id="it is not ready"),
        pytest.param({"minMember": 1}, [{"count": 1, "on": "n"}, {"name": "m", "count": 1}], ["g+"], id="only surplus"),
        pytest.param({"minMember": 1}, [{"count": 1, "on": "n"}], [], id="nothing waits"),
        pytest.param({"minMember": 1, "queue": "no"}, [{"count": 1}], [], id="it is held"),
    ],
)
def test_a_gang_has_a_turn_for_its_minimum_and_one_for_its_surplus(gang, pods, turns):
    """As far as something of it waits that may be placed."""
    objects = {
        "nodes": [{"name": "n"}],
        "queues": {"default-queue": {}},
        "gangs": {"g": gang},
        "pods": [{"gang": "g", **one} for one in pods],
    }
    snapshot, _, line = line_of(objects)
    assert all_of(snapshot, line) == turns
    snapshot, _, line = line_of(objects, surplus=False)
    assert all_of(snapshot, line) == [turn for turn in turns if "+" not in turn]


def test_inside_a_queue_it_is_priority_minimum_age_name():
    """Priority, then minimums before surplus, then age, then name."""
    objects = merged(
        {"nodes": [{"name": "n"}]},
        {"gangs": {"a": {"minMember": 1}, "s": {"minMember": 1, **HIGH}}},
        {"pods": [{"gang": "a", "count": 2}, {"gang": "s", "count": 2}]},
        lone("z b"),
        lone("c", **HIGH),
        {"history": {"z": {"created": -9}, "a": {"created": -5}, "b": {"created": -5}}},
        {"history": {"s": {"created": -1}, "c": {"created": 0}}},
    )
    snapshot, _, line = line_of(objects)
    assert all_of(snapshot, line) == ["s", "c", "s+", "z", "a", "b", "a+"]


# Queue a comes before b by the only thing that is different, or after it.
@pytest.mark.parametrize(
    ("queues", "running", "first"),
    [
        pytest.param({}, {}, "a", id="the name"),
        pytest.param({"a": {"created": 1}, "b": {"created": 0}}, {}, "b", id="the older one"),
        pytest.param({}, {"a": 1}, "b", id="the smaller part of its share"),
        pytest.param({"a": {"weight": 3}}, {"a": 2, "b": 1}, "a", id="the part, and not the number"),
        pytest.param({"a": {"weight": 3}}, {"a": 3, "b": 1}, "a", id="parts that are equal are equal: 3/3 and 1/1"),
        pytest.param(
            {"a": {"priority": 200, "quota": 2}, "b": {"quota": 2}},
            {"a": 1},
            "a",
            id="priority before the smaller part",
        ),
        pytest.param(
            {"a": {"priority": 200}, "b": {"quota": 2}}, {"a": 4}, "b", id="under its share before the higher priority"
        ),
    ],
)
def test_queues_come_by_what_they_are_due(queues, running, first):
    """Under the fair share first, then priority, then the smaller part of the share, then age, then name."""
    named = {name: {"quota": 0, **queues.get(name, {})} for name in "ab"}
    objects = merged(
        {"nodes": [{"name": "n", "gpus": 4}], "queues": named},
        *(lone(" ".join(f"{name}{i}" for i in range(n)), "n", queue=name) for name, n in running.items()),
        *(lone(f"{name}-waits", queue=name) for name in "ab"),
        *(lone(f"{name}-{i}", queue=name) for name in "ab" for i in range(4)),
    )
    snapshot, _, line = line_of(objects)
    assert told(snapshot, line.peek())[0] == first


def test_the_rank_of_a_parent_comes_before_that_of_its_child():
    """From the top down: a queue that has nothing waits while the queue above it has more than another."""
    queues = {"p": {"quota": 0}, "q": {"quota": 0}, "p1": {"parent": "p"}, "p2": {"parent": "p"}, "q1": {"parent": "q"}}
    objects = merged(
        {"nodes": [{"name": "n", "gpus": 4}], "queues": queues},
        lone("r1 r2", "n", queue="p1"),
        lone("s1", "n", queue="q1"),
        lone("w1", queue="p2"),
        lone("w2", queue="q1"),
    )
    snapshot, _, line = line_of(objects)
    assert told(snapshot, line.peek()) == "w2"


def test_shares_move_as_gangs_are_placed():
    """8 GPUs, weights 3 and 1: the turns of docs/scheduling.md §1."""
    objects = merged(
        {"nodes": [{"name": "n", "gpus": 8}]},
        {"queues": {"a": {"quota": 0, "weight": 3}, "b": {"quota": 0, "weight": 1}}},
        lone(" ".join(f"a{i}" for i in range(8)), queue="a"),
        lone(" ".join(f"b{i}" for i in range(8)), queue="b"),
    )
    snapshot, accounts, line = line_of(objects)
    turns = all_of(
        snapshot, line, lambda turn: accounts.charge(accounts.row_of(snapshot.gangs[turn.gang]), (0, 0, PARTS), NOTHING)
    )
    assert [name[0] for name in turns[:8]] == list("abaaabaa")
    assert len(turns) == 16


def two_queues():
    objects = merged(
        {"nodes": [{"name": "n", "gpus": 4}], "queues": {"a": {"quota": 0}, "b": {"quota": 0}}},
        lone("a0 a1 a2 a3", queue="a"),
        lone("b0 b1 b2 b3", queue="b"),
    )
    snapshot, accounts, line = line_of(objects)
    return snapshot, accounts, line, accounts.queues.row_of["a"], accounts.queues.row_of["b"]


def test_a_queue_that_loses_something_comes_earlier_again():
    """What is taken off a queue counts from then on, however often somebody looked in the meantime."""
    snapshot, accounts, line, a, b = two_queues()
    accounts.charge(a, (0, 0, 2 * PARTS), NOTHING)
    assert told(snapshot, line.peek()) == "b0"
    accounts.charge(a, (0, 0, 2 * PARTS), NOTHING, -1)
    assert told(snapshot, line.peek()) == "a0"
    accounts.charge(a, (0, 0, 2 * PARTS), NOTHING)
    assert told(snapshot, line.pop()) == "b0"
    accounts.charge(b, (0, 0, 3 * PARTS), NOTHING)
    assert all_of(snapshot, line) == ["a0", "a1", "a2", "a3", "b1", "b2", "b3"], "and nobody comes twice"


def test_who_is_put_back_comes_when_its_queue_does():
    """First of its queue, and not before others that are due more by then."""
    snapshot, accounts, line, a, _ = two_queues()
    turn = line.pop()
    assert told(snapshot, turn) == "a0"
    accounts.charge(a, (0, 0, PARTS), NOTHING)
    line.put_back(turn, snapshot.gangs[turn.gang])
    assert told(snapshot, line.pop()) == "b0"
    assert all_of(snapshot, line) == ["b1", "b2", "b3", "a0", "a1", "a2", "a3"]


def test_who_is_put_back_last_still_comes():
    """Also when nobody else of its queue, or of any, is in line any more."""
    snapshot, _, line, _, _ = two_queues()
    turns = [line.pop() for _ in range(8)]
    for looks in (False, True, False):
        if looks:
            assert line.peek() is None
        line.put_back(turns[-1], snapshot.gangs[turns[-1].gang])
        assert line.pop() == turns[-1]
    assert line.peek() is None


def test_a_queue_is_alone_when_nobody_else_is_in_line():
    """Then it need not take turns; a gang that is put back is in line again."""
    snapshot, _, line, _, _ = two_queues()
    first, last = (snapshot.gangs[number_of(snapshot, name)] for name in ("a0", "b3"))
    while (turn := line.pop()) is not None and told(snapshot, turn) != "a3":
        assert not line.is_alone(last)
    assert line.is_alone(last)
    assert not line.is_alone(first)
    line.put_back(turn, snapshot.gangs[turn.gang])
    assert not line.is_alone(last)


def test_without_queues_there_is_one_line():
    """One queue that nobody wrote down: only the order inside of it counts."""
    objects = merged({"nodes": [{"name": "n"}]}, lone("x y"))
    snapshot, _, line = line_of(objects)
    assert line.is_alone(snapshot.gangs[0])
    turn = line.pop()
    line.put_back(turn, snapshot.gangs[turn.gang])
    assert all_of(snapshot, line) == ["x", "y"]


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        pytest.param(Turn(-5, False, (0, "", "a"), 0, 3), Turn(-5, False, (1, "", "b"), 1, 3), True, id="alike"),
        pytest.param(Turn(-5, False, (0, "", "a"), 0, 3), Turn(-6, False, (0, "", "b"), 1, 3), False, id="priority"),
        pytest.param(Turn(-5, False, (0, "", "a"), 0, 3), Turn(-5, False, (0, "", "b"), 1, 4), False, id="shape"),
        pytest.param(Turn(-5, False, (0, "", "a"), 0, -1), Turn(-5, False, (0, "", "b"), 1, -1), False, id="not alone"),
    ],
)
def test_turns_are_alike_when_one_pod_of_one_shape_and_priority_waits(one, other, alike):
    assert one.is_like(other) is alike
    assert one.priority == 5
