"""What muster decided is counted by what it was for."""

import msgspec

from muster.sim.play import play
from muster.sim.story import Story


def gang(minimum, pods, **spec):
    return {"gang": {"minMember": minimum, **spec}, "pods": {"": pods}}


def test_starts_surplus_repairs_and_evictions_are_told_apart():
    classes = [
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
        for name, value in (("low", 1), ("high", 9))
    ]
    story = {
        "lasts": 40,
        "nodes": [{"name": "n", "count": 2, "gpus": 4}],
        "documents": classes,
        "workloads": {"a": gang(2, 2, priorityClassName="low"), "b": gang(2, 2, priorityClassName="low")},
        "happens": [
            {"at": 2, "scale": {"a": {"": 6}}},
            {"at": 5, "remove": ["b-0"]},
            {"at": 20, "workloads": {"c": gang(3, 3, priorityClassName="high")}},
        ],
    }
    found = play(msgspec.convert(story, Story)).counts
    assert found["bound for a start"] >= 2 + 2 + 3
    assert found["bound for surplus"] == 4
    assert found["bound for a repair"] == 1
    assert found["evicted by preempt"] >= 3
    assert found["evicted as surplus pod"] >= 3
    assert not found["evicted by stale"]
