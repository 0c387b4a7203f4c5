"""What a gang remembers and how long it waits: its status read back, its delays, and who of it is made anew."""

from datetime import UTC, datetime

import pytest

from muster.api.model import Metadata
from muster.api.podgroup import PodGroup, PodGroupSpec
from muster.snapshot.arrays import Recorded
from muster.snapshot.build import build
from muster.snapshot.times import since_epoch_ns
from muster.snapshot.world import World
from oracle.engine import world_of
from oracle.instances import group, node, pod


def gang_of(*documents):
    (gang,) = build(world_of(list(documents)), 0).gangs
    return gang


def with_metadata(document, **metadata):
    return {**document, "metadata": {**document["metadata"], **metadata}}


def with_status(document, **status):
    return {**document, "status": status}


def owned(document, *controllers):
    owners = [
        {"kind": "Job", "name": "j", "uid": "1", "apiVersion": "batch/v1", "controller": one} for one in controllers
    ]
    return with_metadata(document, ownerReferences=owners)


def test_who_is_made_anew():
    """Pods with an owner that controls them; other owners only clean up."""
    gang = gang_of(
        node("n", 8),
        group(minMember=1),
        owned(pod("a", on="n"), True),
        owned(pod("b", on="n"), False),
        owned(pod("c", on="n"), False, True),
        pod("d", on="n"),
    )
    assert gang.placed[0].controlled == (True, False, True, False)


MORNING, NOON = "2026-01-31T06:00:00Z", "2026-01-31T12:00:00Z"
MORNING_NS, NOON_NS = (since_epoch_ns(datetime(2026, 1, 31, hour, tzinfo=UTC)) for hour in (6, 12))


def condition(kind="Scheduled", status="False", since=NOON):
    return {"type": kind, "status": status, **({"lastTransitionTime": since} if since else {})}


@pytest.mark.parametrize(
    ("created", "conditions", "since"),
    [
        pytest.param(None, [], 0, id="nobody knows"),
        pytest.param(MORNING, [], MORNING_NS, id="since it was made"),
        pytest.param(MORNING, [condition()], NOON_NS, id="since the condition says so"),
        pytest.param(MORNING, [condition(status="True")], MORNING_NS, id="a condition that says otherwise"),
        pytest.param(MORNING, [condition("Stale")], MORNING_NS, id="a condition about something else"),
        pytest.param(MORNING, [condition(since=None)], MORNING_NS, id="a condition without a time"),
    ],
)
def test_since_when_a_gang_waits(created, conditions, since):
    found = with_status(group(minMember=1), conditions=conditions)
    if created:
        found = with_metadata(found, creationTimestamp=created)
    assert gang_of(found).pending_since_ns == since


@pytest.mark.parametrize(
    ("spec", "delay_s", "grace_s"),
    [
        pytest.param({}, 0, 60, id="nothing said"),
        pytest.param({"preemptionDelay": "5m"}, 300, 60, id="a delay"),
        pytest.param({"preemptionDelay": "-5m"}, 0, 60, id="a delay below zero is none"),
        pytest.param({"stalenessGracePeriod": "90s"}, 0, 90, id="a period"),
        pytest.param({"stalenessGracePeriod": "0s"}, 0, 0, id="no period"),
        pytest.param({"stalenessGracePeriod": "-1s"}, 0, -1, id="for ever"),
    ],
)
def test_delays(spec, delay_s, grace_s):
    gang = gang_of(group(minMember=1, **spec))
    assert (gang.preemption_delay_ns, gang.grace_ns) == (delay_s * 10**9, grace_s * 10**9)


def test_a_delay_that_can_not_be_read_holds_the_gang():
    """And counts as if nothing were said, so that nothing else breaks."""
    world = World()
    spec = PodGroupSpec(min_member=1, preemption_delay="soon", staleness_grace_period="later")
    world.apply(PodGroup(metadata=Metadata(name="g"), spec=spec), error="spec.preemptionDelay is no duration")
    (gang,) = build(world, 0).gangs
    assert [issue.code for issue in gang.held] == ["Invalid"]
    assert (gang.preemption_delay_ns, gang.grace_ns) == (0, 60 * 10**9)


def test_when_a_gang_began():
    assert gang_of(group(minMember=1)).started_ns == 0
    assert gang_of(with_status(group(minMember=1), startTime=NOON)).started_ns == NOON_NS


def test_what_the_status_remembers():
    """Per tree node by name; nodes that it does not know have none, and what is no node any more is forgotten."""
    subgroups = [{"name": "a", "minMember": 1}, {"name": "new", "minMember": 1}]
    entries = [
        {"name": "", "satisfied": False, "minimum": 2, "pods": {"placed": 3, "succeeded": 1}},
        {"name": "a", "satisfied": True, "core": True, "minimum": 1, "pods": {"placed": 3}, "staleSince": NOON},
        {"name": "old", "satisfied": True, "minimum": 1},
    ]
    gang = gang_of(with_status(group(subGroups=subgroups), subGroups=entries))
    assert gang.recorded == (Recorded(False, 2, 3, 1, 0), Recorded(True, 1, 3, 0, NOON_NS), None)
    assert gang.was_core == (False, True, False)
    assert gang_of(group(subGroups=subgroups)).recorded == ()
