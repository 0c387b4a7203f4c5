"""The loop when things go wrong that it can't put right itself: what they cost, and that they cost nobody else."""

import asyncio
import copy
import itertools

import pytest

from muster.controllers.loop import Loop
from unit.controllers.playground import (
    FOR_EVER,
    HIGH,
    LOST,
    Process,
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


def one_more(server, like, name, **spec):
    """A new pod that looks like another one; a field that is None is left out."""
    pod = copy.deepcopy(server.objects["pods"]["default", like])
    for given in ("uid", "resourceVersion", "creationTimestamp"):
        pod["metadata"].pop(given)
    pod["metadata"]["name"], pod["status"] = name, {}
    pod["spec"] = {field: value for field, value in {**pod["spec"], **spec}.items() if value is not None}
    return server.put(pod)


async def two_low(server):
    """Two gangs of one pod each that fill two nodes, the first of them lowa."""
    await until(lambda: server.count("watch") >= 7)
    for name in ("lowa", "lowb"):
        server.play(gang(name, 1))
        await until(told(server, name))
        await asyncio.sleep(3)


# Evictions


@played
async def test_who_is_on_the_way_to_a_node_is_evicted_when_it_got_there_and_not_before():
    server = Server()
    server.put(HIGH)
    server.play(nodes(2))
    slow = server.fail("bind", times=2, wait_s=6.0)
    async with running(server) as process:
        await asyncio.sleep(0.5)
        server.play(gang("low", 2))
        await until(lambda: slow.met == 2)
        server.play(gang("high", 2, priorityClassName="high"))
        await asyncio.sleep(3)
        assert process.is_up
        assert (server.count("evict"), len(process.scheduler.flights)) == (0, 2)
        await until(lambda: is_whole(server, "high"), 60)


@pytest.mark.parametrize("answer", [refusal(500, "InternalError"), refusal(403, "Forbidden")], ids=["500", "403"])
@played
async def test_who_can_not_be_evicted_is_passed_over_for_somebody_else(answer):
    """Its gang is told how it stands all the same."""
    server = Server()
    server.put(HIGH)
    server.play(nodes(2))
    async with running(server):
        await two_low(server)
        once = server.fail("evict", says=answer)
        server.play(gang("high", 1, priorityClassName="high"))
        await until(lambda: once.met)
        # The first that was asked for stays for ever, the other one may go.
        first = next(ask.key[1] for ask in server.asks if ask.verb == "evict")
        server.fail("evict", first, times=FOR_EVER, says=answer)
        await until(lambda: is_whole(server, "high"), 30)
        stays = first.partition("-")[0]
        one_more(server, first, f"{stays}-9", nodeName=None)
        await until(lambda: server.status_of(stays)["podsSummary"] == "1/1/2", 30)


@played
async def test_a_gang_whose_only_pod_can_not_be_evicted_is_told_how_it_stands():
    server = Server()
    server.put(HIGH)
    server.play(nodes(1) | gang("low", 1))
    async with running(server):
        await until(told(server, "low"))
        server.fail("evict", times=FOR_EVER, says=refusal(403, "Forbidden"))
        server.play(gang("high", 1, priorityClassName="high"))
        await until(lambda: server.count("evict") > 2)
        one_more(server, "low-0", "low-9", nodeName=None)
        await until(lambda: server.status_of("low")["podsSummary"] == "1/1/2", 30)
        await until(says(server, "high", "InsufficientResources"), 10)


@played
async def test_a_reservation_that_is_refused_costs_only_those_that_it_was_for():
    server = Server()
    server.put(HIGH)
    server.play(nodes(2))
    async with running(server) as process:
        await two_low(server)
        server.fail("patch", "ha-0", plural="pods", times=FOR_EVER, says=refusal(403, "Forbidden"))
        server.play(gang("ha", 1, priorityClassName="high"))
        server.play(gang("hb", 1, priorityClassName="high"))
        await until(lambda: is_whole(server, "hb"), 10)
        assert server.count("evict") == 1
        began_s = now_s()
        await asyncio.sleep(600)
        # It is tried again ever more seldom, it knows why, and no pod has to answer for it.
        assert server.count("patch", since_s=began_s) < 100
        assert says(server, "ha", "BindBackoff")()
        assert not process.scheduler.world.left_alone
        server.faults.clear()
        await until(lambda: is_whole(server, "ha"), 310)


@pytest.mark.parametrize("kind", ["podgroups", "poddisruptionbudgets", "queues"])
@played
async def test_nobody_is_evicted_against_what_was_said_meanwhile(kind):
    """The watch of it hangs: what protects a gang is read before anybody goes."""
    server = Server()
    server.put(HIGH)
    server.play(nodes(1) | {"queues": {"default-queue": {}, "mine": {}}} | gang("low", 1, queue="mine"))
    async with running(server):
        await until(told(server, "low"))
        server.play(
            {
                "gangs": {"high": {"minMember": 1, "priorityClassName": "high", "queue": "mine"}},
                "pods": [{"gang": "high", "name": "h", "gated": True}],
            }
        )
        await asyncio.sleep(3)
        server.lag_s[kind] = 300.0
        if kind == "podgroups":
            server.change("podgroups", "low", {"spec": {"preemptibility": "non-preemptible"}})
        elif kind == "queues":
            # Whoever waits may not use it any more.
            server.change("queues", "mine", {"metadata": {"annotations": {"kai.scheduler/allowed-namespaces": "x"}}})
        else:
            server.put(
                {
                    "apiVersion": "policy/v1",
                    "kind": "PodDisruptionBudget",
                    "metadata": {"name": "b"},
                    "spec": {"selector": {}, "maxUnavailable": 0},
                    "status": {"disruptionsAllowed": 0},
                }
            )
        await asyncio.sleep(10)
        server.change("pods", "h", {"spec": {"schedulingGates": None}})
        await asyncio.sleep(30)
        assert server.count("evict") == 0


@played
async def test_pods_that_change_all_the_time_stop_no_eviction():
    """A list of before the last change is no list of a server whose data was restored."""
    server = Server()
    server.put(HIGH)
    server.play(nodes(1) | gang("low", 1))
    async with running(server):
        await until(told(server, "low"))
        slow = server.fail("list", plural="queues", times=FOR_EVER, wait_s=1.0)
        server.play(gang("high", 1, priorityClassName="high"))
        for number in range(100):
            server.change("pods", "low-0", {"metadata": {"labels": {"n": str(number)}}})
            await asyncio.sleep(0.1)
            if server.count("evict"):
                break
        assert slow.met
        await until(lambda: is_whole(server, "high"), 5)


# Objects that can't be read


@pytest.mark.parametrize("knows", [True, False], ids=["known before", "never read"])
@played
async def test_a_bound_pod_that_can_not_be_read_keeps_its_room(knows):
    server = Server()
    server.play(nodes(3) | gang("a", 2))
    async with running(server) as first:
        await until(told(server, "a"))
        await asyncio.sleep(2)
        server.change("pods", "a-0", {"spec": {"nodeSelector": 7}})
        if not knows:
            await first.end()
    async with running(server):
        await asyncio.sleep(2)
        server.play(gang("b", 2))
        await until(says(server, "b", "InsufficientResources"), 10)
        await asyncio.sleep(30)
        assert not any(server.nodes_of("b").values())
        writes = len(server.done)
        await asyncio.sleep(60)
        assert len(server.done) == writes


@played
async def test_a_bound_pod_that_becomes_unreadable_keeps_its_room_and_no_more():
    server = Server()
    server.play(nodes(1, gpus=3) | gang("a", 2))
    async with running(server) as process:
        await until(told(server, "a"))
        await asyncio.sleep(2)
        server.change("pods", "a-0", {"spec": {"nodeSelector": 7}})
        await asyncio.sleep(2)
        server.play(gang("b", 1))
        await until(told(server, "b"), 10)
        server.change("pods", "a-0", {"status": {"phase": "Succeeded"}})
        server.play(gang("c", 1))
        await until(told(server, "c"), 10)
        assert process.is_up
        server.broken.clear()


@played
async def test_a_pod_that_can_not_be_read_is_not_evicted():
    server = Server()
    server.put(HIGH)
    server.play(nodes(2))
    async with running(server):
        await two_low(server)
        for name in ("lowa-0", "lowb-0"):
            server.change("pods", name, {"spec": {"nodeSelector": 7}})
        await asyncio.sleep(2)
        server.play(gang("high", 1, priorityClassName="high"))
        await until(says(server, "high", "InsufficientResources"), 10)
        await asyncio.sleep(30)
        assert server.count("evict") == 0
        server.change("pods", "lowb-0", {"spec": {"nodeSelector": None}})
        await until(lambda: is_whole(server, "high"), 10)


@pytest.mark.parametrize("scheduler", ["default-scheduler", "kai-scheduler"])
@played
async def test_a_pod_that_can_not_be_read_is_told_so_once_if_it_is_ours(scheduler):
    server = Server()
    server.play(nodes(3) | gang("a", 2))
    async with running(server):
        await until(told(server, "a"))
        one_more(server, "a-0", "bad", nodeName=None, nodeSelector=7, schedulerName=scheduler)
        await asyncio.sleep(60)
        written = [ask for ask in server.asks if ask.verb == "patch" and ask.key[1] == "bad"]
        assert len(written) == (1 if scheduler == "kai-scheduler" else 0)


# What was sent


@played
async def test_a_defect_in_a_write_is_told_and_its_pod_is_looked_up():
    server = Server()
    server.play(nodes(2))
    async with running(server) as process:
        await asyncio.sleep(1)
        bind, calls = process.client.bind, []

        async def broken(*args, **kwargs):
            calls.append(args)
            if len(calls) == 1:
                raise RuntimeError("a defect")
            return await bind(*args, **kwargs)

        process.client.bind = broken
        server.play(gang("g", 2))
        await until(told(server, "g"), 30)
        assert "a defect" in process.logged.getvalue()


@pytest.mark.parametrize("count", [3, 30])
@played
async def test_pods_in_doubt_are_read_together_and_one_that_can_not_be_read_keeps_nobody_waiting(count):
    server = Server(lag_s={"pods": FOR_EVER})
    server.play(nodes(count) | gang("g", count, minimum=1))
    server.fail("bind", times=count, says=LOST, done=True)
    server.fail("get", "g-0", times=FOR_EVER, says=refusal(500))
    async with running(server) as process:
        await until(lambda: server.count("bind") == count)
        await until(lambda: len(process.scheduler.flights) <= (1 if count == 3 else 0), 60)
        assert server.count("get") < 20


# Clocks and versions


@played
async def test_a_wall_clock_that_is_set_back_makes_no_rest_longer():
    server = Server()
    server.play(nodes(6) | gang("bad", 3, stalenessGracePeriod="-1s"))
    server.fail("bind", "bad-1", times=FOR_EVER, says=refusal(403, "Forbidden"))
    async with running(server) as process:
        await until(says(server, "bad", "BindBackoff"), 20)
        server.faults.clear()
        process.clock.skew_s = -3600.0
        await until(lambda: is_whole(server, "bad"), 60)


@played
async def test_a_server_whose_data_was_restored_is_believed():
    """All versions go back: what it lists then is the truth, however small its numbers."""
    server = Server()
    server.play(nodes(2))
    async with running(server):
        await until(lambda: server.count("watch") >= 7)
        server.play(gang("g", 2))
        saved = server.saved()
        await until(told(server, "g"))
        for number in range(30):
            server.change("pods", "g-0", {"metadata": {"labels": {"n": str(number)}}})
        await asyncio.sleep(5)
        server.restore(saved)
        assert not is_whole(server, "g")
        server.binds.clear()
        await until(told(server, "g"), 60)


# Defects


@played
async def test_a_defect_in_a_cycle_is_told_and_the_next_one_starts_afresh():
    server = Server()
    server.play(nodes(2))
    async with running(server) as process:
        await asyncio.sleep(1)
        build, failures = process.scheduler._builder.build, []

        def broken(now_ns):
            failures.append(now_s())
            build(now_ns)
            raise RuntimeError("a defect")

        process.scheduler._builder.build = broken
        server.play(gang("g", 2))
        await until(told(server, "g"), 15)
        assert len(failures) == 1
        assert "a defect" in process.logged.getvalue()


@played
async def test_a_defect_in_every_cycle_ends_the_process_after_a_while():
    server = Server()
    server.play(nodes(2))
    process = Process(server, True)
    failures = []

    def broken(*_args):
        failures.append(now_s())
        raise RuntimeError("a defect")

    process.scheduler.cycle = broken
    await until(lambda: not process.is_up, 3000)
    pauses = [round(later - earlier) for earlier, later in itertools.pairwise(failures)]
    assert pauses == [5, 10, 20, 40, 80, 160, 300, 300, 300]
    with pytest.raises(ExceptionGroup):
        await process._task
    assert isinstance(process.loop, Loop)
