"""EvictionRequests on a server: the answer comes when the room stands reserved, to the request that was asked, once."""

import asyncio

import pytest

from unit.controllers.playground import Server, gang, is_whole, nodes, played, running, until
from unit.kube.playing import refusal

SPACE = "muster-system"


def asked(server, victims, name="r", beneficiary="new", **uids):
    """A request for some pods; `uids` in place of those that they have."""

    def uid(plural, one):
        return uids.get(one.replace("-", "_")) or server.objects[plural]["default", one]["metadata"]["uid"]

    winner = {"namespace": "default", "name": beneficiary, "uid": uid("podgroups", beneficiary)}
    leavers = [{"namespace": "default", "name": one, "uid": uid("pods", one)} for one in victims]
    return server.put(
        {
            "apiVersion": "muster.dev/v1alpha1",
            "kind": "EvictionRequest",
            "metadata": {"name": name, "namespace": SPACE},
            "spec": {"beneficiary": winner, "victims": leavers},
        }
    )


def answer(server, name="r"):
    return server.objects["evictionrequests"][SPACE, name].get("status", {})


async def full(server):
    """A gang with surplus fills the nodes, and another one waits."""
    await until(lambda: server.count("watch") >= 8)
    server.play(gang("old", 4, minimum=1))
    await until(lambda: is_whole(server, "old"))
    server.play(gang("new", 2))
    await asyncio.sleep(5)
    assert not is_whole(server, "new")


@played
async def test_a_request_is_granted_and_its_room_goes_to_nobody_else():
    """The caller evicts; the owner creates the pods again at once; the gang that was asked for runs."""
    server = Server()
    server.play(nodes(4))
    async with running(server, requests_in=SPACE):
        await full(server)
        victims = sorted(server.nodes_of("old"))[-2:]
        asked(server, victims)
        await until(lambda: answer(server).get("phase") == "Granted", 20)
        assert server.count("evict") == 0
        for name in victims:
            server.remove("pods", name)
            server.play({"pods": [{"gang": "old", "name": f"{name}-again"}]})
        await until(lambda: is_whole(server, "new"), 20)
        await until(lambda: answer(server).get("phase") == "Done", 20)
        await asyncio.sleep(30)
        assert is_whole(server, "new")
        again = [node for name, node in server.nodes_of("old").items() if name.endswith("-again")]
        assert again == ["", ""]


@played
async def test_the_next_leader_goes_on_where_the_last_one_stopped():
    """The first one reserved the room and was killed: the nominations stand, and the next one grants."""
    server = Server()
    server.play(nodes(4))
    async with running(server, requests_in=SPACE) as first:
        await full(server)
        server.fail("patch", plural="evictionrequests", times=99, says=refusal(503))
        asked(server, sorted(server.nodes_of("old"))[-2:])
        await until(lambda: all(pod.get("status", {}).get("nominatedNodeName") for pod in pods_of(server, "new")), 20)
        await first.end()
    server.faults.clear()
    assert answer(server) == {}
    async with running(server, requests_in=SPACE):
        await until(lambda: answer(server).get("phase") == "Granted", 20)
        assert server.count("evict") == 0


def pods_of(server, gang):
    return [server.objects["pods"]["default", name] for name in server.nodes_of(gang)]


@played
async def test_one_that_does_not_lead_answers_nothing():
    server = Server()
    server.play(nodes(4))
    async with running(server, requests_in=SPACE) as process:
        await full(server)
        process.leads = False
        asked(server, sorted(server.nodes_of("old"))[-2:])
        await asyncio.sleep(60)
        assert answer(server) == {}


@played
async def test_a_request_that_is_deleted_reserves_nothing():
    server = Server()
    server.play(nodes(4))
    async with running(server, requests_in=SPACE):
        await full(server)
        asked(server, sorted(server.nodes_of("old"))[-2:])
        await until(lambda: answer(server).get("phase") == "Granted", 20)
        server.remove("evictionrequests", "r", SPACE)
        await until(lambda: not any(pod["status"].get("nominatedNodeName") for pod in pods_of(server, "new")), 20)


@played
async def test_a_reservation_ends_after_five_minutes_and_says_so():
    """Its author evicted one pod of two and was killed. The other one stays, and the owner gets the room of the first
    back.
    """
    server = Server()
    server.play(nodes(4))
    async with running(server, requests_in=SPACE):
        await full(server)
        victims = sorted(server.nodes_of("old"))[-2:]
        asked(server, victims)
        await until(lambda: answer(server).get("phase") == "Granted", 20)
        server.remove("pods", victims[0])
        server.play({"pods": [{"gang": "old", "name": "again"}]})
        await asyncio.sleep(240)
        assert server.nodes_of("old")["again"] == ""
        await until(lambda: answer(server).get("phase") == "Expired", 90)
        assert answer(server)["reason"] == "DeadlineExceeded"
        await until(lambda: server.nodes_of("old")["again"], 30)


@played
async def test_a_replacement_of_the_same_name_is_another_pod():
    """As a StatefulSet makes them: the uid of the request is that of the one before."""
    server = Server()
    server.play(nodes(4))
    async with running(server, requests_in=SPACE):
        await full(server)
        victims = sorted(server.nodes_of("old"))[-2:]
        asked(server, victims, **{victims[0].replace("-", "_"): "of-the-one-before"})
        await until(lambda: answer(server).get("phase") == "Refused", 20)
        assert answer(server)["reason"] == "VictimNotFound"
        assert victims[0] in answer(server)["message"]


@played
async def test_a_thousand_requests_are_all_answered_and_nothing_waits_for_them():
    """For a gang that is not there. Meanwhile a gang that fits is placed at once."""
    server = Server()
    server.play(nodes(6))
    async with running(server, requests_in=SPACE):
        await full_of(server, 4)
        for at in range(1000):
            asked(server, sorted(server.nodes_of("old"))[-1:], f"r{at}", new="of-another-one")
        server.play(gang("later", 1))
        assert await until(lambda: is_whole(server, "later"), 5) < 5
        await until(lambda: all(answer(server, f"r{at}").get("phase") == "Refused" for at in range(1000)), 600)


async def full_of(server, count):
    """A gang with surplus runs, and there is a larger one that waits for pods."""
    await until(lambda: server.count("watch") >= 8)
    server.play(gang("old", count, minimum=1))
    await until(lambda: is_whole(server, "old"))
    server.play(gang("new", 1, minimum=2))


@played
async def test_nothing_is_granted_while_a_pod_of_the_gangs_is_on_its_way():
    """A bind of the victims' gang has no answer yet: its surplus may be its minimum."""
    server = Server()
    server.play(nodes(4))
    async with running(server, requests_in=SPACE):
        await full(server)
        server.fail("bind", wait_s=30.0, times=1)
        server.play(nodes(5))
        server.play({"pods": [{"gang": "old", "name": "slow"}]})
        await asyncio.sleep(2)
        asked(server, sorted(server.nodes_of("old"))[1:3])
        await asyncio.sleep(5)
        assert all(pod["status"].get("nominatedNodeName") for pod in pods_of(server, "new"))
        assert answer(server) == {}
        await until(lambda: answer(server).get("phase") == "Granted", 30)
        assert server.nodes_of("old")["slow"]


@pytest.mark.parametrize(("code", "reason"), [(404, "NotFound"), (403, "Forbidden")])
@played
async def test_without_the_definition_or_the_right_to_read_it_all_else_works(code, reason):
    server = Server()
    server.fail("list", plural="evictionrequests", times=10**6, says=refusal(code, reason))
    server.play({**nodes(2), **gang("g", 2)})
    async with running(server, requests_in=SPACE) as process:
        await until(lambda: is_whole(server, "g"), 10)
        assert process.loop.is_synced
