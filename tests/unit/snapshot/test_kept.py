"""Kept room: who gets it, what stays, and what is not believed."""

import json
from datetime import UTC, datetime

import msgspec
import pytest

from muster.api.podgroup import KEPT_ROOM_ANNOTATION, MAX_KEPT, KeptRoom, PodGroupStatus
from muster.api.tree import NONE
from muster.snapshot.build import build
from muster.snapshot.kept import entries_of, status_of_kept
from muster.snapshot.queues import PARTS
from oracle.engine import world_of
from oracle.instances import GPU, group, node, pod

SINCE = "2026-01-31T12:00:00Z"
SINCE_NS = 1769860800 * 10**9
ONE = {"cpu": 1000, GPU: 1}
NODES = [node("n0", 8), node("n1", 8)]


def entry(on="n0", leaf="", requests=None, since=SINCE):
    return {"subGroup": leaf, "node": on, "requests": ONE if requests is None else requests, "since": since}


def kept_group(*entries, **spec):
    found = group(**(spec or {"minMember": 1}))
    found["status"] = {"admittedQueue": "default-queue", "kept": list(entries)}
    return found


def gang_of(*documents):
    (gang,) = build(world_of([*NODES, *documents]), 0).gangs
    return gang


def nominations(gang):
    return {
        name: node
        for batch in gang.waiting
        for name, node in zip(batch.pods, batch.nominated, strict=True)
        if node != NONE
    }


def nominated_to(document, on):
    return {**document, "status": {"nominatedNodeName": on}}


def made(document, when):
    document["metadata"]["creationTimestamp"] = when
    return document


def test_room_waits_for_a_pod_that_is_not_back_yet():
    """With a shape that asks for as much."""
    snapshot = build(world_of([*NODES, kept_group(entry("n1"))]), 0)
    (kept,) = snapshot.gangs[0].kept
    assert (kept.leaf, kept.node, kept.since_ns) == (0, 1, SINCE_NS)
    ask = dict(zip(snapshot.resources, snapshot.asks[kept.shape].tolist(), strict=True))
    assert ask == {"cpu": 1000, "memory": 0, GPU: 1, "pods": 1}
    assert snapshot.charges[kept.shape].tolist() == [1000, 0, PARTS]


@pytest.mark.parametrize(
    ("waiting", "claimed"),
    [
        pytest.param(pod("p"), True, id="a pod that asks for as much"),
        pytest.param(pod("p", tolerates=True), True, id="whatever else it says"),
        pytest.param(pod("p", gpus=2), False, id="more"),
        pytest.param(pod("p", gpus=0), False, id="less"),
        pytest.param(pod("p", gang="h"), False, id="of another gang"),
    ],
)
def test_who_may_claim_it(waiting, claimed):
    gang = gang_of(kept_group(entry("n1")), waiting)
    assert nominations(gang) == ({"p": 1} if claimed else {})
    assert len(gang.kept) == (0 if claimed else 1)


def test_each_pod_claims_one_and_the_oldest_first():
    gang = gang_of(kept_group(entry("n1"), entry("n0"), entry("n1")), pod("b"), pod("a"))
    assert nominations(gang) == {"a": 1, "b": 0}
    assert [kept.node for kept in gang.kept] == [1]


def test_a_pod_that_was_promised_room_claims_none():
    """Neither room elsewhere, which stays, nor its own again, which is used up."""
    gang = gang_of(kept_group(entry("n1")), nominated_to(pod("p"), "n0"))
    assert nominations(gang) == {"p": 0}
    assert len(gang.kept) == 1
    gang = gang_of(kept_group(entry("n1")), nominated_to(pod("p"), "n1"), pod("q"))
    assert nominations(gang) == {"p": 1}
    assert gang.kept == ()


@pytest.mark.parametrize(
    ("when", "kept"),
    [
        pytest.param("2026-01-31T12:00:05Z", 0, id="made since then: it is back"),
        pytest.param("2026-01-31T12:00:00Z", 0, id="in the same second"),
        pytest.param("2026-01-31T11:59:59Z", 1, id="made before: another one"),
    ],
)
def test_a_pod_that_is_back_needs_none(when, kept):
    gang = gang_of(kept_group(entry("n1")), made(pod("p", on="n1", phase="Running"), when))
    assert len(gang.kept) == kept


def test_it_is_for_one_subgroup():
    subgroups = {"subGroups": [{"name": "a", "minMember": 1}, {"name": "b", "minMember": 1}]}
    gang = gang_of(kept_group(entry("n1", "b"), **subgroups), pod("p", "a"), pod("q", "b"))
    assert nominations(gang) == {"q": 1}


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(entry("gone"), id="no such node"),
        pytest.param(entry(leaf="nobody"), id="no such subgroup"),
        pytest.param(entry(leaf=""), id="a branch"),
        pytest.param(entry(leaf="a", requests={GPU: 9}), id="more than the node has"),
        pytest.param(entry(leaf="a", requests={GPU: -1}), id="below zero"),
        pytest.param(entry(leaf="a", requests={GPU: 10**18}), id="more than any node has"),
        pytest.param(entry(leaf="a", requests={"example.com/dream": 1}), id="a resource that no node has"),
    ],
)
def test_a_wrong_entry_is_passed_over(wrong):
    """The right one beside it counts."""
    subgroups = {"subGroups": [{"name": "a", "minMember": 1}]}
    gang = gang_of(kept_group(wrong, entry("n1", "a"), **subgroups))
    assert [kept.node for kept in gang.kept] == [1]
    assert not gang.held


def test_a_gang_that_was_never_admitted_has_none():
    """It had no pod that could have been moved."""
    group = kept_group(entry("n1"))
    del group["status"]["admittedQueue"]
    gang = gang_of(group, pod("p"))
    assert not gang.kept
    assert nominations(gang) == {}


def test_the_annotation_of_older_versions_means_nothing():
    """Whoever may edit a PodGroup can write it (SPEC §14)."""
    said = kept_group()
    said["metadata"]["annotations"] = {KEPT_ROOM_ANNOTATION: json.dumps([entry("n1")])}
    gang = gang_of(said, pod("p"))
    assert not gang.kept
    assert nominations(gang) == {}


def test_their_number_is_bounded():
    many = [KeptRoom(node="n0", requests=ONE, since=datetime.fromtimestamp(0, UTC))] * (MAX_KEPT + 5)
    assert len(entries_of(PodGroupStatus(admitted_queue="q", kept=many))) == MAX_KEPT


def test_different_requests_are_bounded():
    """Each would be a shape more in every snapshot."""
    snapshot = build(world_of([*NODES, kept_group(*(entry(requests={"cpu": size}) for size in range(1, 500)))]), 0)
    assert len(snapshot.asks) == len(snapshot.gangs[0].kept) == 32


def test_all_times_of_the_calendar_are_read():
    gang = gang_of(kept_group(entry(since="0001-01-01T00:00:00+14:00"), entry(since="9999-12-31T23:59:59-14:00")))
    assert len(gang.kept) == 2


def test_what_is_written_is_read():
    """The status of the kept room of a gang is the kept room of the gang again."""
    subgroups = {"subGroups": [{"name": "a", "minMember": 1}, {"name": "b", "minMember": 1}]}
    first = build(world_of([*NODES, kept_group(entry("n1", "b"), entry("n0", "a", {GPU: 4}), **subgroups)]), 0)
    (gang,) = first.gangs
    written = msgspec.to_builtins(status_of_kept(gang.kept, gang, first))
    assert written[0] == {**entry("n1", "b"), "requests": ONE}
    second = build(world_of([*NODES, kept_group(*written, **subgroups)]), 0)
    assert second.gangs[0].kept == gang.kept
    assert status_of_kept((), gang, first) == []


def test_ports_and_places_are_no_amounts():
    """They stand among the resources of a snapshot, not among those of the status."""
    ported = pod("p")
    ported["spec"]["containers"][0]["ports"] = [{"hostPort": 80}]
    snapshot = build(world_of([*NODES, kept_group(entry("n1", requests={GPU: 2})), ported]), 0)
    (gang,) = snapshot.gangs
    moved = gang.kept[0]._replace(shape=gang.waiting[0].shape)
    assert status_of_kept([moved], gang, snapshot)[0].requests == ONE
