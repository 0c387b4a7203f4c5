"""Who goes when answers are lost, pods are on their way and watches lag: those that were meant, and nobody else."""

import asyncio

import pytest
from msgspec import structs

from muster.api.cluster import Pod
from muster.api.kinds import Kind, kind_of, read_object
from muster.api.podgroup import PodCounts, PodGroupStatus, SubGroupStatus
from muster.controllers.scheduler import Scheduler
from short_forms import BEGIN, documents_of, ns
from unit.controllers.playground import HIGH, LOST, Server, gang, is_whole, nodes, played, running, told, until
from unit.kube.playing import refusal


def seen_by(scheduler, things):
    """The scheduler sees all of this; gives the pods by name."""
    pods = {}
    for document in [HIGH, *documents_of(things)]:
        document["metadata"].setdefault("uid", f"uid-{document['metadata']['name']}")
        kind = kind_of(document)
        assert isinstance(kind, Kind)
        found = read_object(document, kind)[0]
        scheduler.see(found)
        if isinstance(found, Pod):
            pods[found.metadata.name] = found
    return pods


@pytest.mark.parametrize("answer", [LOST, refusal(500), refusal(504, "Timeout")], ids=["broken off", "500", "504"])
@pytest.mark.parametrize("unread", [0, 3], ids=["read", "read later"])
@played
async def test_an_eviction_whose_answer_is_lost_is_looked_up_before_anybody_else_goes(answer, unread):
    """It happened, and the watch is slow to show it: one pod is enough, and one pod goes."""
    server = Server()
    server.put(HIGH)
    server.play(nodes(2))
    async with running(server):
        await until(lambda: server.count("watch") >= 7)
        for name in ("lowa", "lowb"):
            server.play(gang(name, 1))
            await until(told(server, name))
        await asyncio.sleep(3)
        server.lag_s["pods"] = 20.0
        server.fail("evict", done=True, says=answer)
        server.fail("get", plural="pods", times=unread, says=refusal(503))
        server.play(gang("high", 1, priorityClassName="high"))
        await until(lambda: is_whole(server, "high"), 120)
        await asyncio.sleep(30)
    assert server.count("evict") == 1


def test_a_gang_goes_when_all_of_it_can():
    """One pod of it runs, the bind of the other is on its way: nobody goes before that is known."""
    scheduler = Scheduler()
    gangs = {"low": {"minMember": 2}, "high": {"minMember": 1, "priorityClassName": "high"}}
    pods = seen_by(
        scheduler,
        {"nodes": [{"name": "n", "gpus": 2}], "gangs": gangs, "pods": [{"gang": "low", "count": 2}]},
    )
    binds = scheduler.cycle(ns(0)).binds
    scheduler.sent(binds, ns(0))
    for order in binds:
        scheduler.bound(order, ns(0))
    shown = pods[binds[0].pod[1]]
    scheduler.see(structs.replace(shown, spec=structs.replace(shown.spec, node_name="n")))
    seen_by(scheduler, {"pods": [{"gang": "high", "name": "h", "gpus": 2}]})
    assert scheduler.cycle(ns(1)).evictions == ()
    shown = pods[binds[1].pod[1]]
    scheduler.see(structs.replace(shown, spec=structs.replace(shown.spec, node_name="n")))
    assert len(scheduler.cycle(ns(2)).evictions) == 2


@played
async def test_whose_namespace_was_not_read_does_not_go_in_place_of_somebody_else():
    """Both gangs are protected, and no watch has shown it. Reading about the one that was meant brings the other into
    the plan; that one is read about, too, before it goes.
    """
    server = Server()
    server.put(HIGH)
    server.play(nodes(2))
    async with running(server):
        await until(lambda: server.count("watch") >= 7)
        for space in ("here", "there"):
            pods = [{"gang": "low", "name": "l", "namespace": space}]
            server.play({"gangs": {f"{space}/low": {"minMember": 1}}, "pods": pods})
            await until(lambda at=space: server.objects["pods"][at, "l"]["spec"].get("nodeName"))
        high = {"minMember": 1, "priorityClassName": "high"}
        server.play({"gangs": {"high": high}, "pods": [{"gang": "high", "name": "h", "gated": True}]})
        await asyncio.sleep(3)
        server.lag_s["podgroups"] = 300.0
        for space in ("here", "there"):
            server.change("podgroups", "low", {"spec": {"preemptibility": "non-preemptible"}}, space)
        await asyncio.sleep(10)
        server.change("pods", "h", {"spec": {"schedulingGates": None}})
        await asyncio.sleep(30)
    assert server.count("evict") == 0


def left_and_right(pods, **more):
    """A node on each side with a GPU each, and pods of gangs a, b and c; b comes before the others."""
    sides = [{"name": side, "gpus": 1, "labels": {"side": side}} for side in ("left", "right")]
    gangs = {"a": {"minMember": 1}, "b": {"minMember": 1, "priorityClassName": "high"}, "c": {"minMember": 1}}
    for name, queue in more.pop("in_queues", {}).items():
        gangs[name]["queue"] = queue
    return {"nodes": sides, "gangs": gangs, "pods": pods, **more}


B = {"gang": "b", "name": "b", "spec": {"nodeSelector": {"side": "left"}}}


def test_a_gang_gets_no_more_pods_while_one_of_it_may_not_have_left():
    """It was told to go, and nobody has said yes: it may stay where it is, and hold the gang there."""
    scheduler = Scheduler()
    seen_by(scheduler, left_and_right([{"gang": "a", "name": "a", "on": "left"}, B]))
    (order,) = scheduler.cycle(ns(0)).evictions
    scheduler.sent([order], ns(0))
    seen_by(scheduler, {"pods": [{"gang": "a", "name": "a-again"}]})
    assert scheduler.cycle(ns(1)).binds == ()
    scheduler.flights.answered(order.pod, order.uid, ns(2))
    assert [one.pod[1] for one in scheduler.cycle(ns(2)).binds] == ["a-again"]


def test_the_limit_of_a_queue_is_free_again_when_its_pod_is_gone():
    """Room is taken back from a queue at its limit; another gang of it waits until that has happened: that the pod is
    known to go is not enough.
    """
    scheduler = Scheduler()
    queues = {"p": {"quota": 0, "limit": 1}, "q": {"quota": 1}}
    pods = [{"gang": "a", "name": "a", "on": "left"}, B, {"gang": "c", "name": "c"}]
    seen = seen_by(scheduler, left_and_right(pods, queues=queues, in_queues={"a": "p", "b": "q", "c": "p"}))
    orders = scheduler.cycle(ns(0))
    (order,) = orders.evictions
    assert (order.pod[1], orders.binds) == ("a", ())
    scheduler.sent([order], ns(0))
    assert scheduler.cycle(ns(1)).binds == ()
    scheduler.flights.answered(order.pod, order.uid, ns(2))
    assert scheduler.cycle(ns(2)).binds == ()
    scheduler.see(seen["a"], deleted=True)
    assert "c" in [one.pod[1] for one in scheduler.cycle(ns(3)).binds]


def test_nobody_is_bound_in_the_place_of_a_pod_that_is_not_even_told_to_go():
    """Found by the simulation (seed 2121): the one that was to go was still on its way to its node, so nobody told it
    to go; and another one was bound for its part of the queue.
    """
    scheduler = Scheduler()
    queues = {"p": {"quota": 0, "limit": 1}, "q": {"quota": 1}}
    a = {"gang": "a", "name": "a", "spec": {"nodeSelector": {"side": "left"}}}
    seen_by(scheduler, left_and_right([a], queues=queues, in_queues={"a": "p", "b": "q", "c": "p"}))
    (bind,) = scheduler.cycle(ns(0)).binds
    scheduler.sent([bind], ns(0))
    seen_by(scheduler, {"pods": [B, {"gang": "c", "name": "c"}]})
    orders = scheduler.cycle(ns(1))
    assert (orders.evictions, orders.binds) == ((), ())


def test_nobody_is_bound_for_a_part_of_a_queue_that_somebody_may_keep():
    """Found by the simulation: an eviction was lost, its pod stayed, and the queue was above its limit for good."""
    scheduler = Scheduler()
    gangs = {
        "low": {"minMember": 1, "queue": "q", "stalenessGracePeriod": "0s"},
        "next": {"minMember": 1, "queue": "q"},
        "other": {"minMember": 1, "queue": "r"},
    }
    things = {
        "nodes": [{"name": "n", "gpus": 8}],
        "queues": {"q": {"limit": 2}, "r": {"limit": 2}},
        "gangs": gangs,
        "pods": [{"gang": "low", "name": "low", "gpus": 2, "on": "n"}],
    }
    pods = seen_by(scheduler, things)
    scheduler.flights.leave(("default", "low"), ns(0))
    seen_by(scheduler, {"pods": [{"gang": "next", "name": "next", "gpus": 2}, {"gang": "other", "name": "other"}]})
    assert [order.pod[1] for order in scheduler.cycle(ns(1)).binds] == ["other"]
    scheduler.flights.answered(("default", "low"), pods["low"].metadata.uid, ns(1))
    assert "next" not in [order.pod[1] for order in scheduler.cycle(ns(2)).binds]
    scheduler.see(pods["low"], deleted=True)
    assert "next" in [order.pod[1] for order in scheduler.cycle(ns(3)).binds]


def test_a_gang_gets_nobody_new_while_one_that_was_told_to_go_may_stay():
    """Found by the simulation: the others were bound in another rack already, and the one whose eviction was late lay
    in the old one.
    """
    scheduler = Scheduler()
    pods = seen_by(
        scheduler,
        {
            "nodes": [{"name": "n", "count": 2, "gpus": 2}],
            "gangs": {"g": {"minMember": 1}},
            "pods": [{"gang": "g", "name": "old", "on": "n-0"}, {"gang": "g", "name": "new"}],
        },
    )
    scheduler.flights.leave(("default", "old"), ns(0))
    assert scheduler.cycle(ns(1)).binds == ()
    scheduler.flights.answered(("default", "old"), pods["old"].metadata.uid, ns(1))
    assert [order.pod[1] for order in scheduler.cycle(ns(2)).binds] == ["new"]


@pytest.mark.parametrize(("quota", "come"), [(1, []), (3, ["p-4"])])
def test_who_is_beside_a_core_only_if_others_come_waits_for_them_where_the_core_may_not_grow(quota, come):
    """Found by the simulation (seed 7228): a core was above its quota, because somebody had raised the minimum; a bind
    was lost, and the pod that was bound beside it was the third of a core of which two were left.
    """
    scheduler = Scheduler()
    things = {
        "nodes": [{"name": "n", "gpus": 8}],
        "queues": {"q": {"quota": quota, "limit": 8}},
        "gangs": {"g": {"minMember": 3, "queue": "q", "preemptibility": "semi-preemptible"}},
        "pods": [
            *({"gang": "g", "name": f"p-{at}", "on": "n"} for at in range(3)),
            {"gang": "g", "name": "p-3"},
        ],
    }
    seen = seen_by(scheduler, things)
    (bind,) = scheduler.cycle(ns(1)).binds
    scheduler.sent([bind], ns(1))
    scheduler.see(seen["p-0"], deleted=True)
    more = seen_by(scheduler, {"pods": [{"gang": "g", "name": "p-4"}]})
    assert [order.pod[1] for order in scheduler.cycle(ns(2)).binds] == come
    if not come:
        scheduler.bound(bind, ns(3))
        assert [order.pod[1] for order in scheduler.cycle(ns(3)).binds] == list(more)


def pressed(scheduler, *, low=("low", "low"), apart=True):
    """Two gangs come that go before others: what one of them leaves the other one needs. Gives the evictions for the
    first one, which wait to be sent. `low`: the gangs of the pods that are there, two each, on two nodes or on one.
    """
    gangs = {name: {"minMember": 2} for name in low}
    gangs |= {name: {"minMember": 2, "priorityClassName": "high"} for name in ("high", "next")}
    nodes = [{"name": f"n-{at}", "gpus": 2} for at in range(2)] if apart else [{"name": "n-0", "gpus": 4}]
    on = [nodes[at // 2 % len(nodes)]["name"] for at in range(4)]
    pods = [{"gang": low[at // 2], "name": f"low-{at}", "on": on[at]} for at in range(4)]
    things = {"nodes": nodes, "gangs": gangs, "pods": pods}
    seen_by(scheduler, things)
    seen_by(scheduler, {"pods": [{"gang": "high", "name": f"high-{at}"} for at in range(2)]})
    first = scheduler.cycle(ns(0)).evictions
    assert len(first) == 2
    scheduler.sent(first, ns(0))
    seen_by(scheduler, {"pods": [{"gang": "next", "name": f"next-{at}"} for at in range(2)]})
    return first


def test_a_minimum_does_not_go_before_it_is_known_that_the_rest_of_its_gang_does():
    """Found by the simulation (seed 4830): the surplus was to go first, and then stayed, for its room could not be
    reserved; what went was the minimum alone, and three pods were left that could do nothing.
    """
    scheduler = Scheduler()
    first = pressed(scheduler)
    assert scheduler.cycle(ns(1)).evictions == ()
    for order in first:
        scheduler.put_off(order)
    assert len(scheduler.cycle(ns(2)).evictions) == 4


def test_a_minimum_goes_when_the_rest_of_its_gang_was_told_to():
    scheduler = Scheduler()
    first = pressed(scheduler)
    scheduler.flights.answered(first[0].pod, first[0].uid, ns(1))
    assert scheduler.cycle(ns(1)).evictions == ()
    scheduler.flights.answered(first[1].pod, first[1].uid, ns(2))
    second = scheduler.cycle(ns(2)).evictions
    assert len({order.pod for order in (*first, *second)}) == 4


def test_who_has_nothing_to_do_with_those_that_may_stay_goes_at_once():
    scheduler = Scheduler()
    first = pressed(scheduler, low=("lowa", "lowb"))
    second = scheduler.cycle(ns(1)).evictions
    assert len({order.gang for order in (*first, *second)}) == 2


def test_nobody_goes_for_room_beside_which_others_may_stay():
    """Found by the simulation (seed 8120): a gang was to get the room of pods that were told to go for another one, and
    of more that had to go for it; the first were not sent away after all, and the others had gone for nobody.
    """
    scheduler = Scheduler()
    first = pressed(scheduler, low=("lowa", "lowb"), apart=False)
    assert scheduler.cycle(ns(1)).evictions == ()
    for order in first:
        scheduler.flights.answered(order.pod, order.uid, ns(2))
    assert len(scheduler.cycle(ns(2)).evictions) == 2


def test_nobody_else_goes_for_a_gang_before_it_is_known_that_the_first_do():
    """It asks for more by now: if those stay, the others would go for a gang that still has no place."""
    scheduler = Scheduler()
    first = pressed(scheduler, low=("lowa", "lowb"))
    more = [{"gang": "high", "name": f"high-{at}"} for at in range(2, 4)]
    seen_by(scheduler, {"gangs": {"high": {"minMember": 4, "priorityClassName": "high"}}, "pods": more})
    for name in ("next-0", "next-1"):
        scheduler.see(scheduler.world.pods["default", name].pod, deleted=True)
    assert scheduler.cycle(ns(1)).evictions == ()
    for order in first:
        scheduler.flights.answered(order.pod, order.uid, ns(2))
    second = scheduler.cycle(ns(2)).evictions
    assert len({order.gang for order in (*first, *second)}) == 2


def with_a_leftover(answer):
    """A gang that needs one of its children. `a` is what is left of one, whose time is up; `b`, which makes the gang
    whole, is sent to a node, and `answer` is what becomes of that. Gives who goes: when it is planned, when it is sent,
    and after that.
    """
    scheduler = Scheduler()
    children = [{"name": "a", "minMember": 2}, {"name": "b", "minMember": 1}]
    things = {
        "nodes": [{"name": "n", "gpus": 8}],
        "gangs": {"g": {"minSubGroup": 1, "subGroups": children, "stalenessGracePeriod": "5s"}},
        "pods": [{"gang": "g", "subGroup": "a", "name": "a", "on": "n"}, {"gang": "g", "subGroup": "b", "name": "b"}],
    }
    seen_by(scheduler, things)
    group = scheduler.world.groups["default", "g"]
    rows = [
        SubGroupStatus(name="", satisfied=True, minimum=1, pods=PodCounts(placed=2)),
        SubGroupStatus(name="a", satisfied=False, minimum=2, pods=PodCounts(placed=1), stale_since=BEGIN),
        SubGroupStatus(name="b", satisfied=True, minimum=1, pods=PodCounts(placed=1)),
    ]
    scheduler.world.apply(structs.replace(group, status=PodGroupStatus(sub_groups=rows)))
    orders = [scheduler.cycle(ns(40))]
    (bind,) = orders[0].binds
    scheduler.sent([bind], ns(40))
    orders.append(scheduler.cycle(ns(41)))
    answer(scheduler, bind)
    orders.append(scheduler.cycle(ns(42)))
    return [[order.pod[1] for order in one.evictions] for one in orders]


def test_a_leftover_goes_when_it_is_known_that_its_gang_stands_without_it():
    """Found by the simulation (seed 20375): a leftover went while the bind that made its gang whole was put off."""
    assert with_a_leftover(lambda scheduler, bind: scheduler.bound(bind, ns(42))) == [[], [], ["a"]]


def test_a_leftover_does_not_go_by_itself_when_its_gang_is_not_made_whole():
    assert with_a_leftover(lambda scheduler, bind: scheduler.flights.lost(bind.pod, bind.uid, "no answer"))[2] == []


@pytest.mark.parametrize(("comes", "goes"), [(True, ["spare-2"]), (False, [])], ids=["it comes", "nobody knows"])
def test_nobody_is_spare_only_because_of_a_pod_that_may_not_come(comes, goes):
    """One that is on its way makes another one spare, which a gang before it needs the room of."""
    scheduler = Scheduler()
    gangs = {"low": {"minMember": 2}, "high": {"minMember": 1, "priorityClassName": "high"}}
    here = [{"name": "left", "gpus": 2, "labels": {"side": "left"}}, {"name": "right", "gpus": 1}]
    spare = [{"gang": "low", "name": f"spare-{at}", "on": "left", "age": 9 - at} for at in (1, 2)]
    waits = {"gang": "low", "name": "late", "age": 1}
    pods = seen_by(scheduler, {"nodes": here, "gangs": gangs, "pods": [*spare, waits]})
    (bind,) = scheduler.cycle(ns(0)).binds
    scheduler.sent([bind], ns(0))
    seen_by(scheduler, {"pods": [{"gang": "high", "name": "h", "spec": {"nodeSelector": {"side": "left"}}}]})
    assert scheduler.cycle(ns(1)).evictions == ()
    if comes:
        scheduler.see(structs.replace(pods["late"], spec=structs.replace(pods["late"].spec, node_name="right")))
    else:
        scheduler.flights.lost(bind.pod, bind.uid, "no answer")
    assert [order.pod[1] for order in scheduler.cycle(ns(2)).evictions] == goes
