"""The loop and the world it sees: late and broken watches, bad objects, vanished nodes; and everything at once."""

import asyncio
import random

import pytest

from muster.api.kinds import POD
from muster.kube.transport import Unanswered
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
    told,
    until,
)
from unit.kube.playing import answer, refusal

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
    """A member went and came back; the watch shows only the first of it, until long after the grace is over."""
    server = Server()
    server.play(nodes(3) | gang("g", 3))
    async with running(server):
        await until(told(server, "g"))
        place = server.nodes_of("g")["g-0"]
        server.remove("pods", "g-0")
        await until(lambda: server.status_of("g").get("phase") == "Stale")
        server.lag_s["pods"] = 300.0
        server.play({"pods": [{"gang": "g", "name": "g-0", "on": place}]})
        await asyncio.sleep(250)
        assert server.count("evict") == 0
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
    return (await process.client.list(POD, "default")).items


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
        if bad.get("spec") == {"minMember": "many"}:
            (found,) = [one for one in server.status_of("bad")["conditions"] if one["type"] == "Accepted"]
            assert found["message"] == "spec.minMember: Expected `int | null`, got `str`"
        await asyncio.sleep(5)
        writes = len(server.done)
        await asyncio.sleep(60)
        assert len(server.done) == writes


@played
async def test_a_pod_that_can_no_longer_be_read_when_it_is_looked_up_costs_nobody_else_anything():
    server = Server()
    server.play(nodes(2) | gang("g", 1))
    server.fail("bind", "g-0", says=LOST)
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


# Everything at once


def waits(server, name):
    """Whether nothing of a gang is placed, and it knows why."""
    return not any(server.nodes_of(name).values()) and server.status_of(name).get("reason")


@pytest.mark.parametrize("seed", range(40))
@played
async def test_whatever_goes_wrong_gangs_end_whole_and_nobody_healthy_is_evicted(seed):
    """Crashes, lost answers, late and broken watches, an absent server, pods that go; then peace, and the truth."""
    dice = random.Random(seed)  # noqa: S311
    server = Server(grace_s=dice.choice([0.0, 3.0]))
    server.play(nodes(dice.choice([3, 5, 10]), gpus=2))
    server.put(HIGH)
    sizes, important = {}, set()

    def evicting(name):
        """A gang that has its minimum stays, unless somebody more important waits."""
        owner = name.partition("-")[0]
        are_served = owner in important or all(is_whole(server, one) for one in important)
        if are_served and sum(map(bool, server.nodes_of(owner).values())) >= sizes[owner]:
            server.broken.append(f"{name} was evicted, although its gang was whole")

    def made_anew(name):
        if name.partition("-")[0] in sizes:
            server.play({"pods": [{"gang": name.partition("-")[0], "name": name}]})

    def come(name, *, matters):
        sizes[name] = dice.randint(1, 4)
        more = {"priorityClassName": "high"} if matters else {}
        important.update([name] if matters else [])
        server.play(gang(name, sizes[name], stalenessGracePeriod=dice.choice(["5s", "60s"]), **more))

    server.evicting, server.gone = evicting, made_anew
    process = Process(server, leads=True)
    for step in range(60):
        await asyncio.sleep(dice.uniform(0.0, 4.0))
        match dice.randrange(13):
            case 0 | 1 if len(sizes) < 7:
                come(f"g{step}", matters=dice.random() < 0.4)
            case 2 | 3 | 4:
                done, verb = dice.random() < 0.5, dice.choice(["bind", "bind", "evict", "patch"])
                answer = dice.choice([LOST, refusal(500), refusal(503), refusal(409, "Conflict"), refusal(403)])
                done = done and answer.status != 403 if answer is not LOST else done
                server.fail(verb, done=done, says=answer)
            case 5:
                server.fail(dice.choice(["get", "list"]), says=refusal(500), times=dice.randint(1, 9))
            case 6:
                server.cut()
            case 7:
                server.compact()
                server.cut()
            case 8:
                server.lag_s["pods"] = dice.choice([0.0, 0.1, 2.0, 30.0, 90.0])
            case 9:
                server.down = not server.down
            case 10:
                await process.end()
                process = Process(server, leads=True)
            case 12 if len(sizes) < 7:
                server.fail("bind", times=dice.randint(1, 4), wait_s=dice.uniform(1.0, 12.0))
                come(f"g{step}", matters=False)
                await asyncio.sleep(0.5)
                come(f"h{step}", matters=True)
            case 11 if server.objects.get("pods"):
                server.remove("pods", dice.choice(sorted(server.objects["pods"]))[1])
    assert process.is_up
    server.down, server.lag_s = False, {}
    server.faults.clear()
    await until(lambda: all(told(server, name)() or waits(server, name) for name in sizes), 400, "the gangs")
    assert any(is_whole(server, name) for name in sizes) or not sizes
    # A word that was refused often is told a minute later.
    await asyncio.sleep(90)
    writes = len(server.done)
    await asyncio.sleep(120)
    assert server.done[writes:] == []
    assert server.broken == []
    await process.end()


@played
async def test_without_the_right_to_read_claims_only_gangs_that_have_some_are_held():
    """What may not be read, or is not served, keeps nobody else waiting, and is named."""
    server = Server()
    server.fail("list", plural="persistentvolumeclaims", says=refusal(403, "Forbidden"), times=FOR_EVER)
    server.fail("list", plural="csinodes", says=refusal(404, "NotFound"), times=FOR_EVER)
    server.fail("list", plural="storageclasses", says=refusal(500, "InternalError"), times=FOR_EVER)
    server.play(nodes(4) | gang("plain", 2))
    claim = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}
    server.play({"gangs": {"claims": {"minMember": 1}}, "pods": [{"gang": "claims", "spec": claim}]})
    async with running(server) as process:
        await until(told(server, "plain"), what="plain")
        await until(lambda: server.status_of("claims").get("conditions"), what="a condition")
        said = next(one for one in server.status_of("claims")["conditions"] if one["type"] == "Scheduled")
        assert said["reason"] == "Unsupported"
        assert "muster may not list persistentvolumeclaims" in said["message"]
        assert process.loop.is_synced
