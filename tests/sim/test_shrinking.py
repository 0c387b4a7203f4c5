"""A failing story is made small: what is left is needed, and it fails in the same way."""

import msgspec
import pytest

from muster.sim.loading import parse, write
from muster.sim.shrinking import Shrinking
from muster.sim.story import Story

LARGE = msgspec.convert(
    {
        "seed": 7,
        "lasts": 120,
        "processes": 3,
        "latency": 0.02,
        "topologies": {"dc": ["zone", "rack"]},
        "nodes": [{"name": f"n{number}", "count": 4, "rack": "r", "gpus": 8} for number in range(6)],
        "queues": {name: {"quota": 4} for name in "abcd"},
        "workloads": {
            f"w{number}": {"gang": {"minMember": 4, "queue": "a"}, "pods": {"": 8}, "gpus": 2} for number in range(5)
        },
        "happens": [
            {"at": 10.0 * number, "fail": [f"n{number}-*", "n0-0"], "crash": [0, 1], "scale": {"w0": {"": number}}}
            for number in range(8)
        ],
        "faults": [
            {"point": point, "does": "lose", "chance": 0.5, "seconds": 5.0} for point in ("bind", "evict", "status") * 4
        ],
    },
    Story,
)


def needs(story):
    """An artificial rule: a lost bind, a crash of process 1 while w3 is there with at least 3 pods, and a node."""
    return (
        any(fault.point == "bind" for fault in story.faults)
        and any(1 in one.crash for one in story.happens)
        and sum(story.workloads["w3"].pods.values() if "w3" in story.workloads else []) >= 3
        and bool(story.nodes)
    )


@pytest.fixture(scope="module")
def shrinking():
    found = Shrinking(LARGE, needs)
    found.run()
    return found


def test_what_is_left_is_what_is_needed(shrinking):
    small = shrinking.story
    assert needs(small)
    assert small.seed == 7
    assert len(small.faults) == len(small.happens) == len(small.workloads) == len(small.nodes) == 1
    assert small.happens[0].crash == [1]
    assert not [*small.happens[0].fail, *small.happens[0].scale, *small.queues, *small.topologies]
    assert small.workloads["w3"].pods == {"": 3}
    assert small.nodes[0].count in (None, 0, 1)
    assert small.processes == 1


def test_it_ends_within_its_budget(shrinking):
    assert shrinking.tries <= 300
    tried = []
    Shrinking(LARGE, lambda story: bool(tried.append(story)) or needs(story), tries=10).run()
    assert len(tried) == 10


def test_the_small_story_can_be_written_and_read_again(shrinking):
    assert parse(write(shrinking.story).encode()) == shrinking.story


def test_a_story_that_fails_whatever_it_says_is_empty_in_the_end():
    small = Shrinking(LARGE, lambda story: True).run()
    assert small == Story(seed=7)


def test_what_can_not_be_played_is_not_smaller():
    """A try that is no story any more, or that nobody can play, is no failure."""

    def fails(story):
        if not story.workloads:
            from muster.sim.scenario import BadScenario

            raise BadScenario("nobody is there")
        return True

    assert len(Shrinking(LARGE, fails).run().workloads) == 1
