"""Pods that ran before there were admission marks are adopted once; what is bound by others later is not."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from muster.controllers.process import Process, Setup
from unit.controllers.playground import FOR_EVER, Lease, Server, gang, is_whole, nodes, played, told, until
from unit.kube.playing import Played, VirtualClock, playing, refusal

MARK = "muster.dev/admitted"
QUEUES = {"queues": {"q": {"limit": 4}, "closed": {"allowedNamespaces": ["team"]}}}


@asynccontextmanager
async def leading(server, *, is_marked=False, elects=True):
    """A whole process, which leads: the first that knows marks, or one after another."""
    client, lease, stop = (
        playing(Played(server.whole, server.chunks), VirtualClock(), jitter=0.5),
        Lease(),
        asyncio.Event(),
    )
    lease.given.set()
    lease.is_marked = is_marked
    process = Process(client, Setup(), identity="this", name="a", election=lease if elects else None)
    running = asyncio.ensure_future(process.run(stop))
    yield lease
    stop.set()
    await running


def runs(name, size, **spec):
    """A gang whose pods have their nodes."""
    found = gang(name, size, **spec)
    return found | {"pods": [one | {"on": "n-0"} for one in found["pods"]]}


def marks(server):
    return {key[1]: pod["metadata"]["annotations"].get(MARK) for key, pod in server.objects["pods"].items()}


def uid(server, name):
    return server.objects["podgroups"]["default", name]["metadata"]["uid"]


@played
async def test_what_ran_before_is_adopted_and_told_nothing():
    server = Server()
    server.play(nodes(1, gpus=8) | QUEUES | runs("g", 2, queue="q"))
    async with leading(server) as lease:
        await until(told(server, "g"))
        await until(lambda: lease.is_marked)
    assert marks(server) == dict.fromkeys(("g-0", "g-1"), f"q/{uid(server, 'g')}")


@played
async def test_the_queue_of_the_status_is_charged():
    """Only muster writes it; the spec may have been edited since."""
    server = Server()
    server.play(nodes(1, gpus=8) | QUEUES | runs("g", 2, queue="closed"))
    server.change("podgroups", "g", {"status": {"admittedQueue": "q"}})
    async with leading(server) as lease:
        await until(lambda: lease.is_marked)
    assert set(marks(server).values()) == {f"q/{uid(server, 'g')}"}


@played
async def test_nothing_is_adopted_into_a_queue_that_is_closed_to_it():
    """Bound by nobody knows whom, and never admitted."""
    server = Server()
    server.play(nodes(1, gpus=8) | QUEUES | runs("g", 2, queue="closed"))
    async with leading(server) as lease:
        await until(lambda: lease.is_marked)
    assert set(marks(server).values()) == {None}


@pytest.mark.parametrize("is_marked", [False, True], ids=["the first leader", "a later leader"])
@played
async def test_what_a_tenant_binds_afterwards_is_not_admitted(is_marked):
    """It counts for no gang, is charged to no queue, and is told so."""
    server = Server()
    server.play(nodes(1, gpus=8) | QUEUES | gang("good", 4, queue="q"))
    if is_marked:
        server.play(runs("bad", 4, queue="q"))
    async with leading(server, is_marked=is_marked) as lease:
        await until(lambda: lease.is_marked)
        if not is_marked:
            await until(lambda: is_whole(server, "good"))
            server.play(runs("bad", 4, queue="q"))
        await until(told(server, "good"))
        await until(lambda: server.status_of("bad").get("reason") == "NotAdmitted")
    assert {mark for name, mark in marks(server).items() if name.startswith("bad")} == {None}
    said = [one for one in server.done if one.plural == "events" and one.body.get("reason") == "NotAdmitted"]
    assert {one.body["regarding"]["name"] for one in said} >= {f"bad-{number}" for number in range(4)}


@pytest.mark.parametrize(
    "says",
    [refusal(503, "ServiceUnavailable"), refusal(403, "Forbidden"), refusal(409, "Conflict")],
    ids=["a server that is away", "a right or a webhook that comes late", "a write at the same time"],
)
@played
async def test_adoption_goes_on_until_all_is_written(says):
    """Pods count from the beginning. A Lease that said too early that it is done would lose their charge."""
    server = Server()
    server.play(nodes(1, gpus=8) | QUEUES | runs("g", 2, queue="q") | {"queues": {"q": {"limit": 2}}})
    slow = server.fail("patch", "g-0", times=3, says=says)
    async with leading(server) as lease:
        await until(lambda: lease.is_marked)
    assert slow.met
    assert None not in marks(server).values()


@played
async def test_a_pod_that_can_not_be_marked_keeps_nothing_from_its_end():
    """Its owner may have filled it up with annotations: else adoption would begin again with every leader."""
    server = Server()
    server.play(nodes(1, gpus=8) | QUEUES | runs("g", 2, queue="q"))
    server.fail("patch", "g-0", times=FOR_EVER, says=refusal(422, "Invalid"))
    async with leading(server) as lease:
        await until(lambda: lease.is_marked)
    assert marks(server) == {"g-0": None, "g-1": f"q/{uid(server, 'g')}"}


@played
async def test_a_pod_that_is_refused_again_and_again_keeps_nothing_from_its_end():
    """A policy may fail on what its owner wrote into it, and say 403. Others show that the right is there."""
    server = Server()
    server.play(nodes(1, gpus=8) | QUEUES | runs("g", 2, queue="q"))
    server.fail("patch", "g-0", times=FOR_EVER, says=refusal(403, "Forbidden"))
    async with leading(server) as lease:
        await until(lambda: lease.is_marked)
    assert marks(server) == {"g-0": None, "g-1": f"q/{uid(server, 'g')}"}


@played
async def test_without_the_right_adoption_does_not_end():
    server = Server()
    server.play(nodes(1, gpus=8) | QUEUES | runs("g", 2, queue="q"))
    slow = [server.fail("patch", f"g-{at}", times=FOR_EVER, says=refusal(403, "Forbidden")) for at in range(2)]
    async with leading(server) as lease:
        await until(lambda: all(one.met >= 10 for one in slow), within_s=600.0)
        assert not lease.is_marked


@played
async def test_without_a_lease_what_runs_is_adopted_as_long_as_nothing_has_a_mark():
    server = Server()
    server.play(nodes(1, gpus=8) | QUEUES | runs("g", 2, queue="q"))
    async with leading(server, elects=False):
        await until(lambda: None not in marks(server).values())
    server.play(runs("bad", 2, queue="q"))
    async with leading(server, elects=False):
        await until(lambda: server.status_of("bad").get("reason") == "NotAdmitted")
    assert marks(server)["bad-0"] is None
