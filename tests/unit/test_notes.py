"""One thing is said for each change of state or reason, and nothing when neither changed."""

import pytest

from muster.api.model import Condition
from muster.api.podgroup import PodGroupStatus, SubGroupStatus
from muster.decisions.notes import NORMAL, WARNING, deletion_note, eviction_note, note_of

NOTHING = PodGroupStatus()


def waiting(reason, message="m"):
    return PodGroupStatus(
        phase="Pending", reason=reason, conditions=[Condition(type="Scheduled", status="False", message=message)]
    )


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        (NOTHING, waiting("InsufficientResources"), (WARNING, "InsufficientResources", "m")),
        (waiting("InsufficientResources"), waiting("InsufficientResources", "other numbers"), None),
        (waiting("InsufficientResources"), waiting("WaitingForPods"), (NORMAL, "WaitingForPods", "m")),
        (waiting("X"), PodGroupStatus(phase="Completed"), (NORMAL, "Completed", "all its pods have finished")),
        (PodGroupStatus(phase="Scheduled"), PodGroupStatus(phase="Stale", reason="X"), (WARNING, "Stale", "")),
        (PodGroupStatus(phase="Scheduled"), PodGroupStatus(phase="Scheduled", ready="2/1"), None),
    ],
)
def test_what_is_said(before, now, said):
    assert note_of(before, now) == said


def test_who_is_placed_hears_where():
    now = PodGroupStatus(phase="Scheduled", pods_summary="4/4/4", sub_groups=[SubGroupStatus(domain="z/r")])
    assert note_of(NOTHING, now) == (
        NORMAL,
        "Scheduled",
        "its minimum is placed in z/r: 4/4/4 pods placed/minimum/total",
    )


def test_evictions_say_for_whom_or_why():
    assert eviction_note(3, "preempt", "default/high").text == "3 pods evicted: to make room for default/high (preempt)"
    assert "grace period" in eviction_note(1, "stale", None).text


def test_what_was_deleted_over_a_budget_is_told_of_the_pod_and_of_its_gang():
    over = "deleted although team/never allows no eviction: queue b has IgnoreBudgets"
    assert eviction_note(2, "reclaim", "a/g", over).text == (f"2 pods evicted: to make room for a/g (reclaim) · {over}")
    assert deletion_note("reclaim", "a/g", over).text == f"evicted to make room for a/g (reclaim) · {over}"
    assert len(deletion_note("reclaim", "a/" + "g" * 253, over).text) <= 250
