"""Events expire an hour after their last write; what can't be deleted then is deleted later."""

import pytest

from muster.embedded.running import Running
from muster.embedded.store import DELETED
from unit.embedded.cluster import MERGE, Cluster
from unit.embedded.test_apart import full

EVENTS = "/api/v1/namespaces/default/events"


@pytest.fixture
def cluster() -> Cluster:
    found = Cluster()
    found.running = Running(found.server, events_for_s=3600)
    return found


def event(name: str) -> dict[str, object]:
    about = {"kind": "Pod", "namespace": "default", "name": "p"}
    return {"metadata": {"name": name}, "involvedObject": about, "reason": "R", "message": "m", "type": "Normal"}


def names(cluster: Cluster) -> list[str]:
    return [one["metadata"]["name"] for one in cluster("GET", EVENTS)["items"]]


def test_an_event_ends_an_hour_after_its_last_write(cluster: Cluster) -> None:
    cluster.create(EVENTS, event("old"))
    cluster.create(EVENTS, event("repeated"))
    cluster.after(0)
    cluster.after(1800)
    cluster("PATCH", f"{EVENTS}/repeated", {"count": 2}, MERGE)
    due = cluster.after(0)
    assert due == cluster.now + 1800
    cluster.after(1800)
    assert names(cluster) == ["repeated"]
    cluster.after(1800)
    assert names(cluster) == []


def test_many_events_end_a_turn_at_a_time(cluster: Cluster) -> None:
    """Other parts have a turn after a hundred writes."""
    for at in range(250):
        cluster.create(EVENTS, event(f"e{at}"))
    cluster.after(0)
    assert cluster.after(3600) == cluster.now
    assert len(names(cluster)) == 150
    cluster.after(0)
    cluster.after(0)
    assert names(cluster) == []


def test_an_event_that_can_not_be_deleted_is_tried_again(cluster: Cluster) -> None:
    cluster.create(EVENTS, event("e"))
    cluster.after(0)
    with full(cluster, lambda change: change.type == DELETED):
        cluster.after(3600)
        assert cluster.running.trouble
    cluster.after(1)
    assert names(cluster) == []


def test_without_a_time_events_stay(cluster: Cluster) -> None:
    cluster.running = Running(cluster.server)
    cluster.create(EVENTS, event("e"))
    cluster.after(100_000)
    assert names(cluster) == ["e"]
