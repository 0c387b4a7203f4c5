"""A process may die before and after every single write, whatever becomes of the binds: nothing is ever broken by it.

All of it for small gangs: every write of a story × before or after × what happens to the binds (B3 F12).
"""

from pathlib import Path

import msgspec
import pytest

from muster.sim.loading import write
from muster.sim.play import play
from muster.sim.story import Fault, Story

RACK = {"topology": "dc", "requiredTopologyLevel": "rack"}
ROOM = {
    "topologies": {"dc": ["zone", "rack"]},
    "nodes": [
        {"name": "a", "count": 2, "zone": "z", "rack": "r1", "gpus": 2},
        {"name": "b", "count": 2, "zone": "z", "rack": "r2", "gpus": 2},
    ],
    "documents": [
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 90}
    ],
}
TREE = {
    "minSubGroup": 1,
    "subGroups": [
        {"name": "x", "minMember": 2, "topologyConstraint": RACK},
        {"name": "y", "minMember": 2, "topologyConstraint": RACK},
    ],
}
STORIES = {
    "a gang in one rack": {"workloads": {"g": {"gang": {"minMember": 4, "topologyConstraint": RACK}, "pods": {"": 4}}}},
    "a tree, of which a pod goes": {
        "workloads": {"g": {"gang": TREE, "pods": {"x": 2, "y": 3}}},
        "happens": [{"at": 4, "remove": ["g-x-0"]}],
    },
    "a gang in the place of another": {
        "workloads": {"low": {"gang": {"minMember": 2}, "pods": {"": 4}, "gpus": 2, "grace": 2}},
        "happens": [
            {
                "at": 3,
                "workloads": {
                    "high": {"gang": {"minMember": 2, "priorityClassName": "high"}, "pods": {"": 2}, "gpus": 2}
                },
            }
        ],
    },
    "a Job": {"workloads": {"job": {"pods": {"": 3}, "annotations": {"kai.scheduler/batch-min-member": "3"}}}},
}
# What happens to all binds of the first seconds.
BINDS = {
    "done": [],
    "refused by a conflict": [Fault(point="bind", does="refuse", code=409, until=2.0)],
    "lost": [Fault(point="bind", does="lose", until=2.0)],
    "done and not answered": [Fault(point="bind", does="swallow", until=2.0)],
}


def story_of(name: str, *faults: Fault) -> Story:
    story = msgspec.convert({**ROOM, **STORIES[name], "lasts": 15.0}, Story)
    return msgspec.structs.replace(story, faults=list(faults))


def struck(story: Story, folder: Path) -> int:
    """Plays it, and nothing may be broken; how often a process crashed."""
    outcome = play(story)
    says = [f"{one.rule} at {one.at_s:.2f} s: {one.says}" for one in outcome.violations]
    file = folder / "story.yaml"
    if says:
        file.write_text(write(story))
    assert says == [], f"muster simulate -f {file}"
    return outcome.counts["fault write crash"]


# The longer two only with the outcomes that found most.
CASES = [(name, binds) for name in STORIES for binds in BINDS if len(name) < 20 or binds.startswith("done")]


@pytest.mark.parametrize(("name", "outcome"), CASES)
def test_a_crash_at_every_write(name, outcome, tmp_path):
    binds = BINDS[outcome]
    points = []
    while not points or points[-1]:
        crash = Fault(point="write", does="crash", nth=len(points) + 1)
        after = msgspec.structs.replace(crash, code=1)
        points.append(sum(struck(story_of(name, one, *binds), tmp_path) for one in (crash, after)))
    assert len(points) > 6


@pytest.mark.parametrize("does", [("lose", 0), ("swallow", 0), ("refuse", 409), ("swallow", 500)], ids=str)
def test_a_crash_at_every_write_and_one_bind_that_goes_wrong(does, tmp_path):
    """Every write × every single bind of a gang of three."""
    for bind in (1, 2, 3):
        for number in range(1, 8):
            wrong = Fault(point="bind", does=does[0], code=does[1], nth=bind)
            crash = Fault(point="write", does="crash", nth=number, code=number % 2)
            struck(story_of("a Job", crash, wrong), tmp_path)
