"""One process, put together: what its parts may do, and how it ends, is decided in one place."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from muster.controllers.process import End, Process, Setup
from muster.errors import Unreachable
from muster.kube.lease import Election
from unit.controllers.playground import FOR_EVER, Lease, Server, gang, is_whole, nodes, played, until
from unit.kube.playing import Played, VirtualClock, answer, playing
from unit.kube.test_lease import Leases, Way


@played
async def test_nothing_is_written_without_the_lease_whoever_of_its_parts_writes():
    """Also what was begun while it led and only waits for its place: the question is asked right before each write."""
    sent = []

    async def server(request):
        sent.append(request.path)
        return answer({}, 201)

    client, lease = playing(Played(server)), Lease()
    Process(client, Setup(), identity="this", name="a", election=lease)
    with pytest.raises(Unreachable, match="does not lead"):
        await client.bind("default", "p", "uid", "n")
    assert sent == []
    lease.given.set()
    await client.bind("default", "p", "uid", "n")
    assert len(sent) == 1


@pytest.mark.parametrize("hangs", [False, True], ids=["all answered", "a bind on its way"])
@played
async def test_the_lease_is_given_back_when_nothing_of_ours_can_still_arrive(hangs):
    """Who ends while a bind has no answer lets the Lease run out: whoever comes next plans on what is known then."""
    server, leases = Server(), Leases()
    way = Way(leases)
    server.play(nodes(1) | gang("g", 1))
    slow = server.fail("bind", times=1, wait_s=FOR_EVER if hangs else 0.0)

    async def whole(request):
        return await (way(request) if "leases" in request.path else server.whole(request))

    client = playing(Played(whole, server.chunks), VirtualClock(), jitter=0.5)
    election, stop = Election(client, "ns", "l", "this"), asyncio.Event()
    process = Process(client, Setup(), identity="this", name="a", election=election)
    running = asyncio.ensure_future(process.run(stop))
    await until(lambda: slow.met and (hangs or is_whole(server, "g")))
    await asyncio.sleep(0.5)
    stop.set()
    assert (await running).how is End.STOPPED
    assert leases.lease["spec"]["holderIdentity"] == ("this" if hangs else "")


@asynccontextmanager
async def leading(server):
    """A whole process, which leads."""
    client, lease, stop = (
        playing(Played(server.whole, server.chunks), VirtualClock(), jitter=0.5),
        Lease(),
        asyncio.Event(),
    )
    lease.given.set()
    process = Process(client, Setup(), identity="this", name="a", election=lease)
    running = asyncio.ensure_future(process.run(stop))
    yield
    stop.set()
    await running


def said_of_pods(server):
    """Events of pods that were written: the pod, the reason, the words."""
    return [
        (ask.body["regarding"]["name"], ask.body["reason"], ask.body["note"])
        for ask in server.done
        if (ask.verb, ask.plural) == ("create", "events") and ask.body["regarding"]["kind"] == "Pod"
    ]


@played
async def test_a_pod_that_waits_has_an_event_beside_its_condition_and_one_only():
    """Also when the reason comes, goes and comes again within minutes: the same words are counted, not written."""
    server = Server()
    server.play(nodes(1) | gang("g", 2))
    words = "gang default/g waits: InsufficientResources · see kubectl describe pg g"
    async with leading(server):
        await until(lambda: len(said_of_pods(server)) == 2)
        assert said_of_pods(server) == [(f"g-{number}", "FailedScheduling", words) for number in range(2)]
        for minimum in (3, 2):
            server.change("podgroups", "g", {"spec": {"minMember": minimum}})
            await asyncio.sleep(20)
    assert len(said_of_pods(server)) == 2


@played
async def test_who_wants_no_marks_on_pods_gets_none():
    server = Server()
    server.play(nodes(1) | gang("g", 2, markUnschedulable=False))
    async with leading(server):
        await asyncio.sleep(20)
    assert said_of_pods(server) == []
    assert server.status_of("g")["reason"] == "InsufficientResources"
