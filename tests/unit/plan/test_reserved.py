"""Room that is set aside (SPEC §5.7, §8): for whom it is open, for how long, and that it is given back as it was."""

import pytest

from muster.plan.attempt import Engine
from muster.plan.cycle import schedule
from muster.plan.layout import BINPACK
from muster.plan.ledger import Ledger
from muster.plan.reserved import Reserved
from muster.sim.objects import at
from muster.snapshot.build import build
from muster.snapshot.queues import PARTS
from oracle.engine import world_of
from short_forms import documents_of, lone, merged, ns, number_of

NODES = {"nodes": [{"name": "n", "gpus": 4}, {"name": "m", "gpus": 4}]}
GPU = "nvidia.com/gpu"


def reserving(*parts, since=-60, nominated="n", kept=None, now=0):
    """The gang r of queue q and priority train waits for room on a node; or room is kept for a pod of it."""
    queues = {"queues": {"q": {}, "other": {}}}
    pods = {"pods": [{"gang": "r", "count": 2}]} if nominated else {}
    documents = documents_of(
        merged(
            NODES,
            queues,
            {"gangs": {"r": {"minMember": 2 if nominated else 1, "queue": "q", "priorityClassName": "train"}}},
            pods,
            *parts,
        )
    )
    for one in documents:
        if nominated and one["metadata"]["name"].startswith("r-"):
            one["status"] = {"nominatedNodeName": nominated}
        if one["kind"] == "PodGroup" and one["metadata"]["name"] == "r":
            condition = {"type": "Scheduled", "status": "False", "reason": "WaitingForRoom"}
            if since is not None and nominated:
                one["status"] = {"conditions": [{**condition, "lastTransitionTime": at(since)}]}
            if kept is not None:
                entry = {"subGroup": "", "node": "n", "requests": {GPU: 2}, "since": kept}
                one["status"] = {"admittedQueue": "q", "kept": [entry]}
    return build(world_of(documents), ns(now))


def reserved_of(snapshot):
    """All that is reserved, where every queue has place for it."""
    return Reserved(snapshot, lambda number, shape: True)


def engine_of(snapshot):
    return Engine(snapshot, Ledger(snapshot), BINPACK)


def free(engine):
    """GPUs that are free on every node, by name."""
    column = engine.snapshot.resources.index(GPU)
    unit = int(engine.ledger.units[column])
    return {name: int(engine.ledger.free[column, at]) * unit for at, name in enumerate(engine.snapshot.nodes)}


ASKERS = merged(
    lone("higher", queue="q", priorityClassName="build-preemptible"),
    lone("equal", queue="q", priorityClassName="train"),
    lone("lower", queue="q"),
    lone("elsewhere", queue="other", priorityClassName="build-preemptible"),
)


@pytest.mark.parametrize(
    ("who", "opens"),
    [
        pytest.param("higher", True, id="a higher priority of the same queue"),
        pytest.param("equal", False, id="an equal one"),
        pytest.param("lower", False, id="a lower one"),
        pytest.param("elsewhere", False, id="a higher priority of another queue"),
    ],
)
@pytest.mark.parametrize("how", ["nominated", "kept"])
def test_reserved_room_is_open_only_to_higher_priorities_of_the_same_queue(who, opens, how):
    """Whoever is tried sees it or not, in every engine, whatever was tried in between; and it is never lost."""
    snapshot = reserving(ASKERS, nominated="n" if how == "nominated" else "", kept=at(-10) if how == "kept" else None)
    reserved, engines = reserved_of(snapshot), [engine_of(snapshot), engine_of(snapshot)]
    reserved.serve(engines[0])
    gangs = {name: snapshot.gangs[number_of(snapshot, name)] for name in ("higher", "lower", who)}
    for before in ("lower", "higher", "lower"):
        reserved.face(gangs[before])
        reserved.face(gangs[who])
        assert free(engines[0]) == {"m": 4, "n": 4 if opens else 2}
    reserved.serve(engines[1])
    assert free(engines[1]) == free(engines[0]), "an engine that comes later sees the same"
    assert reserved.anything is not opens
    reserved.face(gangs["higher"])
    assert [free(engine) for engine in engines] == [{"m": 4, "n": 4}] * 2


def test_more_room_makes_questions_open_again():
    """What was refuted while room was set aside may fit when it is there."""
    snapshot = reserving(ASKERS)
    reserved, engine = reserved_of(snapshot), engine_of(snapshot)
    reserved.serve(engine)
    reserved.face(snapshot.gangs[number_of(snapshot, "lower")])
    engine.refuted["something"] = None
    reserved.face(snapshot.gangs[number_of(snapshot, "higher")])
    assert engine.refuted == {}


@pytest.mark.parametrize(
    ("now", "stands"),
    [
        pytest.param(-60, True, id="at once"),
        pytest.param(240, True, id="for five minutes"),
        pytest.param(241, False, id="no longer"),
        pytest.param(-61, False, id="not before it began"),
    ],
)
@pytest.mark.parametrize("how", ["nominated", "kept"])
def test_reserved_room_lapses(now, stands, how):
    """After five minutes, and when it is to begin in the future, it is nobody's."""
    kept = at(-60) if how == "kept" else None
    snapshot = reserving(ASKERS, nominated="n" if how == "nominated" else "", kept=kept, now=now)
    reserved, engine = reserved_of(snapshot), engine_of(snapshot)
    reserved.serve(engine)
    reserved.face(snapshot.gangs[number_of(snapshot, "lower")])
    assert free(engine)["n"] == (2 if stands else 4)
    assert reserved.anything is stands


@pytest.mark.parametrize("since", ["1970-01-01T00:00:00Z", "1960-01-01T00:00:00Z", "9999-01-01T00:00:00Z"])
def test_kept_room_that_nobody_knows_the_age_of_is_nobodys(since):
    """Anybody may write the annotation: a time that can't be is an invention."""
    snapshot = reserving(ASKERS, nominated="", kept=since)
    assert not reserved_of(snapshot).kept


def test_a_nomination_that_nobody_knows_the_age_of_stands():
    """The pods have it in their status; only the condition is missing."""
    snapshot = reserving(ASKERS, since=None)
    reserved, engine = reserved_of(snapshot), engine_of(snapshot)
    reserved.serve(engine)
    reserved.face(snapshot.gangs[number_of(snapshot, "lower")])
    assert free(engine)["n"] == 2


def test_a_gang_that_is_held_keeps_nothing():
    for nominated, kept in (("n", None), ("", at(-10))):
        snapshot = reserving({"gangs": {"r": {"minMember": 1, "queue": "nowhere"}}}, nominated=nominated, kept=kept)
        reserved, engine = reserved_of(snapshot), engine_of(snapshot)
        reserved.serve(engine)
        assert snapshot.gangs[number_of(snapshot, "r")].held
        assert free(engine) == {"m": 4, "n": 4}
        assert not reserved.anything


def test_a_gang_gets_its_room_back_once():
    """In all engines; what it was is told by batch, and there is nothing the second time."""
    snapshot = reserving(ASKERS)
    reserved, engines = reserved_of(snapshot), [engine_of(snapshot), engine_of(snapshot)]
    for engine in engines:
        reserved.serve(engine)
    r = number_of(snapshot, "r")
    reserved.face(snapshot.gangs[r])
    assert [free(engine)["n"] for engine in engines] == [2, 2]
    ((batch, taking),) = reserved.release(r)
    assert (batch, taking.pods, taking.shape) == (0, [1, 1], snapshot.gangs[r].waiting[0].shape)
    assert [free(engine)["n"] for engine in engines] == [4, 4]
    assert reserved.release(r) == []
    assert reserved.release(number_of(snapshot, "lower")) == []
    reserved.face(snapshot.gangs[number_of(snapshot, "lower")])
    assert [free(engine)["n"] for engine in engines] == [4, 4]
    assert not reserved.anything


def test_room_that_is_open_is_not_given_back_twice():
    """While a higher priority is tried it is there already."""
    snapshot = reserving(ASKERS)
    reserved, engine = reserved_of(snapshot), engine_of(snapshot)
    reserved.serve(engine)
    reserved.face(snapshot.gangs[number_of(snapshot, "lower")])
    reserved.face(snapshot.gangs[number_of(snapshot, "higher")])
    assert reserved.release(number_of(snapshot, "r"))
    assert free(engine) == {"m": 4, "n": 4}


def test_kept_room_for_which_a_queue_has_no_place_is_nobodys():
    """The status takes no more than the queue may have."""
    snapshot = reserving(nominated="", kept=at(-10))
    asked = []
    reserved = Reserved(snapshot, lambda number, shape: asked.append((number, shape)))
    assert asked == [(0, snapshot.gangs[0].kept[0].shape)]
    assert not reserved.kept
    assert not reserved.anything


def test_kept_room_stays_kept_when_its_gang_is_tried():
    """It is for a pod that has not come back yet, and not for those that wait now."""
    snapshot = reserving(lone("w", queue="q"), nominated="", kept=at(-10))
    reserved, engine = reserved_of(snapshot), engine_of(snapshot)
    reserved.serve(engine)
    r = number_of(snapshot, "r")
    reserved.face(snapshot.gangs[number_of(snapshot, "w")])
    assert reserved.release(r) == []
    assert free(engine)["n"] == 2
    assert set(reserved.kept) == {r}


def planned_with(entries, *parts):
    """The plan when room is kept on node n for so many pods of m, of one GPU each."""
    documents = documents_of(merged(*parts))
    entry = {"subGroup": "", "node": "n", "requests": {GPU: 1}, "since": at(-10)}
    for one in documents:
        if one["kind"] == "PodGroup" and one["metadata"]["name"] == "m":
            one["status"] = {"admittedQueue": "q", "kept": [entry] * entries}
    plan, _ = schedule(build(world_of(documents), ns(0)))
    bound = {plan.snapshot.gangs[one.gang].key[1] for one in plan.placements}
    return bound, {name: one.allocated[2] for name, one in zip(plan.snapshot.queues.names, plan.queues, strict=True)}


@pytest.mark.parametrize("back", [False, True], ids=["before it is back", "when it waits again"])
def test_a_moved_gang_keeps_its_place_under_the_limit(back):
    """An older gang of the same queue does not get it, as long as the room is kept."""
    waits = lone("m", queue="q") if back else {"gangs": {"m": {"minMember": 1, "queue": "q"}}}
    parts = [NODES, {"queues": {"q": {"limit": 2, "quota": 0}}}, lone("o", "n", queue="q"), lone("x", queue="q"), waits]
    history = {"history": {"x": {"created": -99}, "m": {"created": -9}}}
    bound, held = planned_with(1, *parts, history)
    assert bound == ({"m"} if back else set())
    assert held == {"q": PARTS * (2 if back else 1)}, "and what is only kept is not placed"


def test_kept_room_takes_no_more_than_the_queue_may_have():
    """A status that is wrong does not fill the queue above for others."""
    queues = {
        "p": {"limit": 4, "quota": 0},
        "a": {"parent": "p", "limit": 1, "quota": 0},
        "c": {"parent": "p", "quota": 0},
    }
    made_up = {"gangs": {"m": {"minMember": 1, "queue": "a"}}}
    bound, _ = planned_with(4, NODES, {"queues": queues}, made_up, lone("g h i", queue="c"))
    assert bound == {"g", "h", "i"}
