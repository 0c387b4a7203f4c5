"""Trials find exactly the objects on which something fails, and never more trials are made than allowed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.model import Metadata
from muster.api.podgroup import PodGroup
from muster.api.queue import Queue
from muster.controllers.suspects import Search, run_without_stumbling
from muster.snapshot.quarantine import GANG, QUEUE, Thing
from muster.snapshot.world import World

GANGS = [Thing(GANG, "default", f"g{number}") for number in range(20)]
QUEUES = [Thing(QUEUE, "", f"q{number}") for number in range(5)]


def a_world():
    world = World()
    for thing in GANGS:
        world.apply(PodGroup(metadata=Metadata(name=thing.name)))
    for thing in QUEUES:
        world.apply(Queue(metadata=Metadata(name=thing.name)))
    return world


def fails_on(culprits, trials=None):
    """Works when all culprits are left out."""

    def works(world):
        if trials is not None:
            trials.append(set(world.quarantine))
        return culprits <= world.quarantine.keys()

    return works


@given(st.sets(st.sampled_from([*GANGS, *QUEUES])), st.sets(st.sampled_from(GANGS)))
def test_the_culprits_are_found(culprits, first):
    search = Search(a_world(), fails_on(culprits), "why", first, most=10_000)
    assert search.run() == culprits


@given(st.sets(st.sampled_from([*GANGS, *QUEUES])), st.integers(1, 30))
def test_trials_are_bounded_and_what_they_leave_is_left_out_together(culprits, most):
    trials = []
    search = Search(a_world(), fails_on(culprits, trials), "why", most=most)
    found = search.run()
    assert len(trials) <= most + 8
    assert not found or culprits <= found


def test_one_culprit_among_many_costs_few_trials():
    trials = []
    search = Search(a_world(), fails_on({GANGS[13]}, trials), "why")
    assert search.run() == {GANGS[13]}
    assert len(trials) < 15


def test_what_changed_lately_is_suspected_first():
    trials = []
    assert Search(a_world(), fails_on({GANGS[7]}, trials), "why", {GANGS[7]}).run() == {GANGS[7]}
    assert len(trials) == 2


def test_what_is_no_objects_fault_leaves_nothing_out():
    assert Search(a_world(), lambda world: False, "why").run() == set()


def test_a_world_is_run_without_what_it_fails_on():
    world = a_world()

    def run(of):
        if not of.quarantine:
            raise ZeroDivisionError("nobody thought of this")
        return len(of.quarantine)

    assert run_without_stumbling(world, run) >= 1
    assert {entry.why for entry in world.quarantine.values()} == {"ZeroDivisionError: nobody thought of this"}
    with pytest.raises(ZeroDivisionError):
        run_without_stumbling(a_world(), lambda of: 1 // 0)
