"""The loop through every fault: gangs end whole, nothing is done twice, nobody goes by mistake, and it ends quiet."""

import asyncio
import functools

import pytest

from muster.kube.transport import Unanswered
from unit.controllers.playground import FOR_EVER, Server, now_s, running, until
from unit.kube.playing import refusal, virtually

LOST = Unanswered("the connection broke")
HIGH = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 90}


def gang(name, size, *, minimum=None, gpus=1, **spec):
    pods = [{"gang": name, "count": size, "gpus": gpus}]
    return {"gangs": {name: {"minMember": minimum or size, **spec}}, "pods": pods}


def nodes(count, gpus=1):
    return {"nodes": [{"name": "n", "count": count, "gpus": gpus}]}


def is_whole(server, name):
    return server.nodes_of(name) and all(server.nodes_of(name).values())


def told(server, name, phase="Scheduled"):
    """Whether a gang is bound, and knows it."""
    return lambda: is_whole(server, name) and server.status_of(name).get("phase") == phase


def says(server, name, reason):
    return lambda: server.status_of(name).get("reason") == reason


def played(test):
    """A test in virtual time."""

    @functools.wraps(test)
    def run(*args, **more):
        virtually(test(*args, **more))

    return run


# Crashes


@pytest.mark.parametrize(("size", "sent"), [(size, sent) for size in range(1, 7) for sent in range(size + 1)])
@played
async def test_a_crash_between_any_two_binds_leaves_a_gang_that_the_next_process_completes(size, sent):
    server = Server()
    server.play(nodes(size) | gang("g", size))
    async with running(server) as first:

        def crash(ask):
            first.dead = first.dead or sum(server.binds.values()) >= sent

        server.after, first.dead = crash, sent == 0
        await asyncio.sleep(5)
        await first.end()
    assert sum(map(bool, server.nodes_of().values())) == sent
    async with running(server):
        await until(told(server, "g"))
    assert sorted(server.nodes_of().values()) == sorted(f"n-{number}" if size > 1 else "n-0" for number in range(size))


@played
async def test_a_gang_that_was_begun_is_completed_before_another_takes_its_room():
    """What a dead process bound is kept room for: a later, equal gang waits."""
    server = Server()
    server.play(nodes(4) | gang("g", 4))
    async with running(server) as first:
        server.after = lambda ask: setattr(first, "dead", sum(server.binds.values()) >= 2)
        await asyncio.sleep(5)
        await first.end()
    server.after = lambda _: None
    server.play(gang("late", 2))
    async with running(server):
        await until(told(server, "g"))
        await until(says(server, "late", "InsufficientResources"))


# Answers


@pytest.mark.parametrize("done", [True, False], ids=["applied", "not applied"])
@pytest.mark.parametrize("answer", [LOST, refusal(500), refusal(504, "Timeout")], ids=["broken off", "500", "504"])
@pytest.mark.parametrize("unread", [0, 12], ids=["read", "read later"])
@played
async def test_an_answer_that_is_lost_is_looked_up_and_its_room_stays_kept(done, answer, unread):
    """Whether it happened or not: the pod is bound once, and nobody else got its place meanwhile."""
    server = Server(lag_s={"pods": 3.0})
    server.play(nodes(3) | gang("g", 3))
    server.fail("bind", "g-1", done=done, says=answer)
    reading = server.fail("get", "g-1", says=refusal(503), times=unread)
    async with running(server):
        await until(lambda: server.count("bind") >= 3)
        # Somebody who would take the place if it were given away.
        server.play(gang("other", 1))
        await until(told(server, "g"), 120)
        await until(says(server, "other", "InsufficientResources"))
    assert reading.met >= min(unread, 5)
    assert server.count("get") > reading.met or done
    assert server.count("bind") == (3 if done else 4)


@played
async def test_a_bind_that_waits_long_for_its_turn_is_not_sent_twice():
    """A slow server and a large gang: what is not answered yet is not taken for lost."""
    server = Server()
    server.play(nodes(1, gpus=200) | gang("g", 100))
    server.fail("bind", times=FOR_EVER, wait_s=8.0)
    async with running(server):
        assert await until(told(server, "g"), 120) > 30
    assert server.count("bind") == 100


@played
async def test_a_pod_whose_bind_is_unknown_is_read_before_it_is_bound_again():
    server = Server()
    server.play(nodes(1) | gang("g", 1))
    server.fail("bind", says=LOST)
    async with running(server):
        await until(told(server, "g"))
    verbs = [ask.verb for ask in server.asks if ask.verb in ("bind", "get")]
    assert verbs == ["bind", "get", "bind"]


@played
async def test_a_bind_that_comes_late_and_is_not_seen_for_long_is_looked_up():
    """A yes whose sight never comes, because the watch hangs."""
    server = Server(lag_s={})
    server.play(nodes(1) | gang("g", 1))
    async with running(server):
        await until(lambda: server.count("watch") >= 7)
        server.lag_s["pods"] = FOR_EVER
        await until(lambda: is_whole(server, "g"))
        await until(told(server, "g"), 30)


@played
async def test_too_many_requests_is_waited_for_as_long_as_the_server_asks():
    server = Server()
    server.play(nodes(1) | gang("g", 1))
    server.fail("bind", says=refusal(429, "TooManyRequests", Retry_After="7"))
    async with running(server):
        assert 7 <= await until(told(server, "g")) < 12
    assert server.count("bind") == 2


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(refusal(403, "Forbidden"), id="forbidden"),
        pytest.param(refusal(422, "Invalid"), id="invalid"),
        pytest.param(refusal(500), id="always a fault"),
        pytest.param(refusal(409, "Conflict"), id="always a conflict"),
        pytest.param(LOST, id="always broken off"),
    ],
)
@played
async def test_a_gang_with_one_bind_that_never_works_rests_and_others_go_first(answer):
    server = Server()
    server.play(nodes(6) | gang("bad", 3, stalenessGracePeriod="-1s"))
    server.fail("bind", "bad-1", times=FOR_EVER, says=answer)
    async with running(server):
        await until(says(server, "bad", "BindBackoff"), 20)
        server.play(gang("good", 3))
        assert await until(told(server, "good")) < 5
        before = server.count("bind")
        await asyncio.sleep(600)
        # It is tried again, ever more seldom, and not in a hurry.
        assert before < server.count("bind") <= before + 10
        server.faults.clear()
        await until(told(server, "bad"), 310)


@played
async def test_who_rests_below_its_minimum_gives_its_room_back_after_the_grace():
    """Neither kept for ever, nor given to others as if it were free."""
    server = Server()
    server.play(nodes(3) | gang("bad", 3))
    server.fail("bind", "bad-1", times=FOR_EVER, says=refusal(403, "Forbidden"))
    async with running(server):
        await until(says(server, "bad", "BindBackoff"), 20)
        assert sum(map(bool, server.nodes_of("bad").values())) == 2
        await until(lambda: server.count("evict") == 2, 90)


@pytest.mark.parametrize("answer", [refusal(403, "Forbidden"), refusal(500), refusal(429, "x", Retry_After="1")])
@played
async def test_an_eviction_that_never_works_is_not_asked_for_without_end(answer):
    server = Server()
    server.play(nodes(1) | gang("low", 1))
    async with running(server):
        await until(told(server, "low"))
        server.fail("evict", times=FOR_EVER, says=answer)
        server.put(HIGH)
        server.play(gang("high", 1, priorityClassName="high"))
        await until(lambda: server.count("evict") > 0)
        began_s = now_s()
        await asyncio.sleep(600)
        assert server.count("evict", "list", since_s=began_s) < 300
        server.faults.clear()
        await until(told(server, "high"), 310)


@played
async def test_who_cannot_be_read_is_not_evicted_and_others_are_placed_all_the_same():
    server = Server()
    server.play(nodes(2) | gang("low", 2))
    server.put(HIGH)
    async with running(server):
        await until(told(server, "low"))
        server.fail("list", plural="pods", times=FOR_EVER, says=refusal(500))
        server.play(gang("high", 1, priorityClassName="high"))
        await until(lambda: server.count("list") > 7)
        server.play({"nodes": [{"name": "more", "gpus": 3}]} | gang("next", 2, priorityClassName="high"))
        await until(told(server, "next"), 20)
        assert server.count("evict") == 0


@played
async def test_a_pod_made_anew_under_the_same_name_is_not_taken_for_the_old_one():
    server = Server()
    server.play(nodes(2) | gang("g", 2))
    late = server.fail("bind", "g-1", wait_s=3.0)
    async with running(server):
        await until(lambda: late.met)
        old = server.objects["pods"]["default", "g-1"]
        server.remove("pods", "g-1")
        await asyncio.sleep(1)
        server.play({"pods": [{"gang": "g", "name": "g-1"}]})
        new = server.objects["pods"]["default", "g-1"]
        await until(told(server, "g"))
    assert (server.binds[old["metadata"]["uid"]], server.binds[new["metadata"]["uid"]]) == (0, 1)


# Watches


@pytest.mark.parametrize("how", ["cut", "compacted", "cut and compacted"])
@played
async def test_watches_that_end_lose_nothing(how):
    """Gangs come and pods go while watches end again and again; in the end all is bound and told."""
    server = Server()
    server.play(nodes(12))
    async with running(server):
        for number in range(6):
            server.play(gang(f"g{number}", 2))
            await asyncio.sleep(0.07)
            if "compacted" in how:
                server.compact()
            if "cut" in how:
                server.cut()
            await asyncio.sleep(0.4)
        server.remove("pods", "g0-0")
        server.cut()
        server.play({"pods": [{"gang": "g0", "name": "g0-x"}]})
        for number in range(6):
            await until(told(server, f"g{number}"), what=f"g{number}")


@played
async def test_what_happened_while_nobody_watched_is_known_afterwards():
    """Deleted and made, while every watch was down; its place is given to the new one."""
    server = Server()
    server.play(nodes(2) | gang("old", 2))
    async with running(server):
        await until(told(server, "old"))
        server.down = True
        server.cut()
        await asyncio.sleep(60)
        for name in ("old-0", "old-1"):
            server.remove("pods", name)
        server.remove("podgroups", "old")
        server.play(gang("new", 2))
        server.compact()
        await asyncio.sleep(7200)
        server.down = False
        assert await until(told(server, "new"), 60) < 30


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(Unanswered("no connection", sent=False), id="away"),
        pytest.param(refusal(429, "TooManyRequests", Retry_After="1"), id="too busy"),
    ],
)
@played
async def test_binds_while_the_server_is_away_are_not_the_gangs_fault(answer):
    """However long it was away, the gang is bound within half a minute of its return."""
    server = Server()
    server.play(nodes(3) | gang("g", 3))
    server.fail("bind", says=answer, times=FOR_EVER)
    async with running(server):
        await until(lambda: server.count("bind"))
        if isinstance(answer, Unanswered):
            server.down = True
            server.cut()
        await asyncio.sleep(1200)
        assert server.count("bind") < 10_000
        server.down = False
        server.faults.clear()
        assert await until(told(server, "g"), 400) < 30


@played
async def test_a_large_gang_that_was_refused_once_is_tried_again_at_once():
    """What is sent together fails together: one attempt, not one for each pod."""
    server = Server()
    server.play(nodes(8) | gang("g", 8))
    server.fail("bind", says=refusal(403, "Forbidden"), times=16)
    async with running(server):
        assert await until(told(server, "g")) < 5


@played
async def test_a_watch_that_lags_costs_no_healthy_member_its_place():
    """All is bound, the watch shows it a minute late: nobody is evicted, whatever the clock of the gang says."""
    server = Server()
    server.play(nodes(4) | gang("g", 4))
    async with running(server) as first:
        server.after = lambda ask: setattr(first, "dead", sum(server.binds.values()) >= 2)
        await until(lambda: first.dead)
        await first.end()
    server.after = lambda _: None
    async with running(server):
        await until(lambda: server.count("watch") >= 14)
        server.lag_s["pods"] = 300.0
        await asyncio.sleep(600)
        assert server.count("evict") == 0
        assert is_whole(server, "g")
        server.lag_s.clear()
        await until(told(server, "g"))


@played
async def test_pods_that_finish_unseen_are_not_evicted():
    """A gang that ends well, while its watch lags: its last pods are no remainder of a broken gang."""
    server = Server()
    server.play(nodes(3) | gang("g", 3))
    async with running(server):
        await until(told(server, "g"))
        server.lag_s["pods"] = 0.0
        for number in range(3):
            server.change("pods", f"g-{number}", {"status": {"phase": "Succeeded"}})
            server.lag_s["pods"] = 200.0
            await asyncio.sleep(90)
        await until(lambda: server.status_of("g").get("phase") == "Completed", 300)
    assert server.count("evict") == 0


@played
async def test_a_pod_that_came_back_is_not_lost_because_the_watch_still_tells_of_the_old_one():
    """Read first, then the watch brings the end of its predecessor: the new pod keeps its place and is bound once."""
    server = Server()
    server.play(nodes(2) | gang("low", 2))
    async with running(server) as process:
        await until(told(server, "low"))
        server.lag_s["pods"] = 20.0
        server.remove("pods", "low-0")
        await asyncio.sleep(1)
        server.play({"pods": [{"gang": "low", "name": "low-0", "on": "n-0"}]})
        new = server.objects["pods"]["default", "low-0"]["metadata"]["uid"]
        process.scheduler.refresh("default", await pods_of(process))
        for _ in range(300):
            assert process.scheduler.world.pods["default", "low-0"].pod.metadata.uid == new, now_s()
            await asyncio.sleep(0.1)


async def pods_of(process):
    from muster.controllers.loop import _POD

    return (await process.client.list(_POD, "default")).items


# Leading


@played
async def test_leadership_lost_between_plan_and_sending_means_no_write():
    server = Server()
    server.play(nodes(3) | gang("g", 3))
    async with running(server, leads=False) as process:
        await asyncio.sleep(30)
        process.lead()
        cycle = process.scheduler.cycle

        def lose(*args):
            process.leads = False
            return cycle(*args)

        process.scheduler.cycle = lose
        await asyncio.sleep(60)
    assert server.count("bind", "patch", "create", "evict") == 0


@played
async def test_leadership_lost_while_binds_wait_their_turn_stops_the_rest():
    """A gang larger than what is sent at a time: nothing is sent any more once another one may lead."""
    server = Server()
    server.play(nodes(1, gpus=200) | gang("g", 100))
    server.fail("bind", times=FOR_EVER, wait_s=1.0)
    async with running(server) as process:
        await until(lambda: server.count("bind"))
        process.leads = False
        sent = server.count("bind")
        await asyncio.sleep(60)
        assert server.count("bind") == sent < 100


@played
async def test_the_next_leader_knows_what_the_last_one_did_although_its_watch_lags():
    """Two processes: the first binds and hands over; the second has not seen it yet, and gives the room to nobody."""
    server = Server()
    server.play(nodes(2))
    async with running(server) as first, running(server, leads=False) as second:
        await until(lambda: server.count("watch") >= 14)
        server.lag_s["pods"] = 0.0
        server.play(gang("g", 2) | {"gangs": {"g": {"minMember": 2}}})
        server.play(gang("late", 2))
        await asyncio.sleep(0.01)
        server.lag_s["pods"] = 5.0
        await until(lambda: is_whole(server, "g") or is_whole(server, "late"))
        first.leads = False
        second.lead()
        await asyncio.sleep(30)
        assert second.is_up
        assert sum(map(bool, server.nodes_of().values())) == 2


# Quiet


@played
async def test_nothing_in_nothing_out():
    """Everything settled, of every sort: ten minutes without a single write, and few reads."""
    server = Server()
    server.play(nodes(3))
    server.play(gang("placed", 2))
    server.play(gang("large", 5))
    server.play(gang("missing", 2, minimum=3))
    server.play({"gangs": {"bad": {"minMember": 1, "queue": "nowhere"}}, "pods": [{"gang": "bad"}]})
    server.play({"gangs": {}, "pods": [{"gang": "nobody"}, {"gang": "missing", "gated": True, "name": "gated"}]})
    async with running(server) as process:
        await until(told(server, "placed"))
        await asyncio.sleep(60)
        began_s, writes, cycles = now_s(), len(server.done), process.loop.cycles
        await asyncio.sleep(600)
        assert len(server.done) == writes
        assert server.count("patch", "bind", "create", "evict", "get", "list", since_s=began_s) == 0
        assert process.loop.cycles <= cycles + 130


@pytest.mark.parametrize("answer", [refusal(500), refusal(409, "Conflict"), refusal(403, "Forbidden"), LOST])
@pytest.mark.parametrize("done", [True, False], ids=["applied", "not applied"])
@played
async def test_a_status_that_could_not_be_written_is_written_in_the_end(answer, done):
    server = Server()
    server.play(nodes(2) | gang("g", 2) | {})
    server.fail("patch", "g", plural="podgroups", times=8, says=answer, done=done)
    async with running(server):
        await until(told(server, "g"), 60)
        server.play(gang("large", 5))
        await until(says(server, "large", "InsufficientResources"))
        writes = len(server.done)
        await asyncio.sleep(60)
        assert len(server.done) == writes


@played
async def test_a_status_that_arrives_after_a_newer_one_does_not_stay():
    server = Server()
    server.play(nodes(2) | gang("g", 1, minimum=2))
    slow = server.fail("patch", "g", plural="podgroups", wait_s=8.0)
    async with running(server):
        await until(lambda: slow.met)
        server.play({"pods": [{"gang": "g", "name": "g-x"}]})
        await asyncio.sleep(60)
        assert server.status_of("g")["phase"] == "Scheduled"


@played
async def test_a_status_of_the_cycle_that_evicts_reaches_everybody():
    """The plan is made twice when somebody is evicted; what the first said is not lost."""
    server = Server()
    server.play(nodes(1) | gang("low", 1))
    server.grace_s = 1000.0
    server.put(HIGH)
    async with running(server):
        await until(told(server, "low"))
        elsewhere = {"gangs": {"elsewhere": {"minMember": 9}}, "pods": [{"gang": "elsewhere"}]}
        server.play(elsewhere)
        server.play(gang("high", 1, priorityClassName="high"))
        await asyncio.sleep(30)
        assert server.count("evict") == 1
        assert server.status_of("elsewhere").get("reason") == "WaitingForPods"
        assert server.status_of("high").get("reason")


# Bad objects


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param({"kind": "PodGroup", "spec": {"minMember": "many"}}, id="a gang that can't be read"),
        pytest.param({"kind": "PodGroup", "spec": []}, id="a gang that is nothing"),
        pytest.param({"kind": "PodGroup", "spec": {"minMember": 1, "minSubGroup": 1}}, id="a gang that is wrong"),
        pytest.param({"kind": "PodGroup", "spec": {"minMember": 1, "queue": "nowhere"}}, id="a gang of no queue"),
        pytest.param({"kind": "Queue", "spec": {"resources": 7}}, id="a queue that can't be read"),
        pytest.param({"kind": "Topology", "spec": {"levels": "rack"}}, id="a topology that can't be read"),
        pytest.param({"kind": "PriorityClass", "value": "high"}, id="a priority that can't be read"),
        pytest.param({"kind": "PodDisruptionBudget", "spec": {"selector": 3}}, id="a budget that can't be read"),
        pytest.param({"kind": "Node", "status": {"allocatable": {"cpu": "lots"}}}, id="a node that has nonsense"),
        pytest.param({"kind": "Node", "status": {"allocatable": 3}}, id="a node that can't be read"),
        pytest.param({"kind": "Pod", "spec": {"containers": "none"}}, id="a pod that can't be read"),
    ],
)
@pytest.mark.parametrize("first", [True, False], ids=["listed", "watched"])
@played
async def test_a_bad_object_costs_nobody_else_anything(bad, first):
    server = Server()
    bad = {"apiVersion": "v1", **bad, "metadata": {"name": "bad", "annotations": {"pod-group-name": "bad"}}}
    if first:
        server.put(bad)
    server.play(nodes(2) | {"queues": {"default-queue": {}}})
    async with running(server):
        await asyncio.sleep(1)
        if not first:
            server.put(bad)
        server.play(gang("good", 2))
        assert await until(told(server, "good")) < 5
        if bad["kind"] == "PodGroup":
            server.play({"gangs": {}, "pods": [{"gang": "bad"}]})
            await until(lambda: server.status_of("bad").get("reason"))
        await asyncio.sleep(5)
        writes = len(server.done)
        await asyncio.sleep(60)
        assert len(server.done) == writes


@played
async def test_a_pod_that_can_no_longer_be_read_when_it_is_looked_up_costs_nobody_else_anything():
    server = Server()
    server.play(nodes(2) | gang("g", 1))
    server.fail("bind", "g-0", says=LOST)
    from unit.kube.playing import answer

    server.fail("get", "g-0", says=answer({"metadata": {"name": "g-0"}, "spec": {"containers": 7}}), times=3)
    async with running(server):
        await until(lambda: server.count("get"))
        server.play(gang("good", 1))
        await until(told(server, "good"))
        await until(told(server, "g"), 60)


@played
async def test_a_pod_with_a_gate_is_not_tried_until_it_is_open():
    server = Server()
    server.play(
        nodes(2)
        | {"gangs": {"g": {"minMember": 2}}, "pods": [{"gang": "g"}, {"gang": "g", "name": "h", "gated": True}]}
    )
    async with running(server):
        await until(lambda: server.status_of("g").get("reason"))
        await asyncio.sleep(60)
        assert server.count("bind") == 0
        server.change("pods", "h", {"spec": {"schedulingGates": None}})
        assert await until(told(server, "g")) < 5


# Nodes


@pytest.mark.parametrize("restarts", [False, True], ids=["one process", "a restart in between"])
@played
async def test_a_gang_whose_node_is_gone_is_evicted_after_the_grace_and_placed_again(restarts):
    """The clock of what is left of it is in its status: a restart does not set it back."""
    server = Server()
    server.gone = lambda name: server.play({"pods": [{"gang": "g", "name": name}]}) if name in ("g-0", "g-1") else None
    server.play(nodes(2) | gang("g", 2, stalenessGracePeriod="60s"))
    async with running(server) as first:
        await until(told(server, "g"))
        lost_s = now_s()
        server.remove("nodes", "n-0")
        await until(lambda: server.status_of("g").get("phase") == "Stale")
        # The collector of pods on nodes that are gone takes its time.
        await asyncio.sleep(40)
        (lost,) = [name for name, node in server.nodes_of().items() if node == "n-0"]
        server.remove("pods", lost)
        if restarts:
            await first.end()
            async with running(server):
                await until(lambda: server.count("evict"), 60)
        else:
            await until(lambda: server.count("evict"), 60)
        assert 60 <= now_s() - lost_s < 70
    server.play({"nodes": [{"name": "new", "gpus": 1}]})
    async with running(server):
        await until(told(server, "g"))
    assert sorted(server.nodes_of("g").values()) == ["n-1", "new"]
