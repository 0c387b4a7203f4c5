"""What is told about a gang that is no gang: that it is invalid, and never that it is scheduled before it is placed."""

import pytest

from muster.decisions.orders import orders_of
from muster.plan.cycle import schedule
from muster.snapshot.build import Builder
from oracle.engine import world_of
from short_forms import documents_of, ns


def told(pod):
    """The status of a gang whose only leaf has no minimum."""
    parts = {
        "nodes": [{"name": "n", "gpus": 1}],
        "gangs": {"g": {"subGroups": [{"name": "a"}]}},
        "pods": [{"gang": "g", "subGroup": "a", **pod}],
    }
    world = world_of(documents_of(parts))
    plan, _ = schedule(Builder(world).build(ns(0)))
    (order,) = orders_of(plan, world).statuses
    return order.status


@pytest.mark.parametrize(("pod", "scheduled"), [({}, "False"), ({"on": "n"}, "True")], ids=["waits", "runs"])
def test_an_invalid_gang_is_told_so_and_is_scheduled_only_when_it_runs(pod, scheduled):
    status = told(pod)
    conditions = {one.type: (one.status, one.reason) for one in status.conditions}
    assert (status.phase, status.reason, status.start_time) == ("Invalid", "Invalid", None)
    assert conditions == {"Accepted": ("False", "Invalid"), "Scheduled": (scheduled, "Invalid")}
