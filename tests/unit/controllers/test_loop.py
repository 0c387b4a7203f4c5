"""The loop and the answers it gets: gangs end whole, nothing is done twice, who leads writes, and it ends quiet."""

import asyncio

import pytest

from muster.kube.transport import Unanswered
from unit.controllers.playground import (
    FOR_EVER,
    HIGH,
    LOST,
    Server,
    gang,
    is_whole,
    nodes,
    now_s,
    played,
    running,
    says,
    told,
    until,
)
from unit.kube.playing import refusal

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
    server = Server(lag_s={"pods": FOR_EVER})
    server.play(nodes(1) | gang("g", 1))
    async with running(server):
        await until(lambda: is_whole(server, "g"))
        assert await until(told(server, "g"), 30) > 9


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
    server.play(nodes(1, gpus=2) | gang("low", 2))
    server.put(HIGH)
    async with running(server) as process:
        await until(told(server, "low"))
        server.fail("list", plural="pods", times=FOR_EVER, says=refusal(500))
        server.play(gang("high", 1, gpus=2, priorityClassName="high"))
        await until(lambda: server.count("list") > 7)
        server.play({"nodes": [{"name": "small", "gpus": 1}]} | gang("next", 1))
        await until(told(server, "next"), 20)
        assert server.count("evict") == 0
        # The plan has them go, and whoever shows it knows that nobody was told to.
        assert process.scheduler.plan.evictions
        assert process.loop.going == frozenset()


@played
async def test_who_is_told_to_go_is_known_by_name():
    server = Server()
    server.play(nodes(1, gpus=2) | gang("low", 2))
    server.put(HIGH)
    seen = []
    async with running(server) as process:
        process.loop._planned = lambda plan: seen.append((process.scheduler.decision, process.loop.going))
        await until(told(server, "low"))
        server.play(gang("high", 1, gpus=2, priorityClassName="high"))
        await until(lambda: server.count("evict") == 2)
    assert [going for _, going in seen if going] == [{("default", "low-0"), ("default", "low-1")}]
    assert all(decision for decision, _ in seen)


@played
async def test_a_pod_made_anew_under_the_same_name_is_not_taken_for_the_old_one():
    server = Server()
    server.play(nodes(2) | gang("g", 2))
    late = server.fail("bind", "g-1", wait_s=3.0)
    async with running(server):
        await until(lambda: late.met)
        old = server.objects["pods"]["default", "g-1"]
        server.remove("pods", "g-1")
        sent_s = next(ask.at_s for ask in server.asks if ask.verb == "bind" and ask.key[1] == "g-1")
        # Just before the bind of the old one arrives. It asks for more than the node has that the old one was sent to.
        await asyncio.sleep(sent_s + 2.99 - now_s())
        server.play({"nodes": [{"name": "large", "gpus": 2}], "pods": [{"gang": "g", "name": "g-1", "gpus": 2}]})
        new = server.objects["pods"]["default", "g-1"]
        await until(told(server, "g"))
    assert (server.binds[old["metadata"]["uid"]], server.binds[new["metadata"]["uid"]]) == (0, 1)


@pytest.mark.parametrize("verb", ["bind", "evict"])
@played
async def test_a_pod_that_is_gone_is_looked_up_and_left_alone(verb):
    """The watch does not tell for long. It is no fault of its gang, which may do better with the next pod."""
    server = Server()
    server.play(gang("g", 2) | (nodes(2) if verb == "evict" else {}))
    async with running(server):
        await until(told(server, "g") if verb == "evict" else lambda: server.status_of("g"))
        server.lag_s["pods"] = 60.0
        asked = server.fail(verb, "g-1", wait_s=0.1)
        server.put(HIGH)
        server.play(gang("high", 2, priorityClassName="high") if verb == "evict" else nodes(2))
        await until(lambda: asked.met)
        server.remove("pods", "g-1")
        await asyncio.sleep(50)
    assert [ask.key[1] for ask in server.asks if ask.verb == verb].count("g-1") == 1
    assert ("get", "g-1") in [(ask.verb, ask.key[1]) for ask in server.asks]


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
        # A plan that nobody acts on is no decision.
        assert (process.scheduler.plan is not None, process.scheduler.decision) == (True, "")
    assert server.count("bind", "patch", "create", "evict") == 0


@played
async def test_what_could_not_be_said_without_the_lease_is_said_when_it_is_back():
    """Nothing changes in between: nobody would look at the gang again."""
    server = Server()
    server.play(nodes(1) | gang("g", 3))
    async with running(server) as process:
        cycle = process.scheduler.cycle

        def lose(*args):
            process.leads = False
            return cycle(*args)

        process.scheduler.cycle = lose
        await asyncio.sleep(10)
        assert server.count("patch") == 0
        process.scheduler.cycle, process.leads = cycle, True
        await until(says(server, "g", "InsufficientResources"))


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
    """Two processes: the first binds and hands over; the second has not seen it yet, and gives the room to nobody, not
    even to a gang that has become more important meanwhile.
    """
    server = Server()
    server.put(HIGH)
    server.play(nodes(2))
    server.grace_s = 10.0
    async with running(server) as first, running(server, leads=False) as second:
        await until(lambda: server.count("watch") >= 14)
        server.play(gang("g", 2))
        server.play(gang("late", 2))
        await asyncio.sleep(0.01)
        server.lag_s["pods"] = 60.0
        await until(lambda: is_whole(server, "g"))
        first.leads = False
        server.change("podgroups", "late", {"spec": {"priorityClassName": "high"}})
        await asyncio.sleep(0.1)
        second.lead()
        await until(lambda: is_whole(server, "late"), 60)
        assert second.is_up
    # Nobody was bound to where others were.
    assert server.count("evict") == 2


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
        # Eight times in vain, ever later.
        await until(told(server, "g"), 200)
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


@played
async def test_the_longer_a_server_stays_away_the_less_it_is_asked():
    server = Server()
    async with running(server):
        server.fail("bind", times=FOR_EVER, says=Unanswered("no connection", sent=False))
        server.play(nodes(1) | gang("g", 1))
        await asyncio.sleep(30)
        before = server.count("bind")
        await asyncio.sleep(60)
        assert 0 < server.count("bind") - before < 50
        server.faults.clear()
        await until(lambda: is_whole(server, "g"), 15)


@played
async def test_a_server_that_is_away_is_left_alone_however_late_each_bind_hears_of_it():
    """Found by the simulation: who was refused during a wait made it longer, and it ended as if nobody had been."""
    server = Server()
    async with running(server):
        away = Unanswered("no connection", sent=False)
        for late in range(5):
            server.fail("bind", f"g-{late}", times=FOR_EVER, wait_s=0.3 * late, says=away)
        server.play(nodes(5) | gang("g", 5))
        await asyncio.sleep(30)
        before = server.count("bind")
        await asyncio.sleep(60)
        assert 0 < server.count("bind") - before < 5 * 30
        server.faults.clear()
        await until(lambda: is_whole(server, "g"), 15)
