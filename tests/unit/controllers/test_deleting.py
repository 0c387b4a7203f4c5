"""Queues that ignore disruption budgets: by deletion, told on the pod and its gang, and only with the right to it."""

import asyncio

import pytest

from unit.controllers.playground import Server, nodes, played, running, until
from unit.kube.playing import answer, refusal

IGNORES = {"muster.dev/reclaim-policy": "IgnoreBudgets"}
ALLOWED, DENIED = (answer({"status": {"allowed": one}}, 201) for one in (True, False))
OVER = "deleted although default/never allows no eviction: queue b has IgnoreBudgets"


def scene(server, *, allowed=0):
    """Queue a runs two pods more than its quota, all of them under one budget; b is owed two."""
    queues = {"a": {"quota": 2}, "b": {"quota": 2, "annotations": IGNORES}}
    server.play(
        {**nodes(1, gpus=4), "queues": queues, "budgets": {"never": {"selects": {"app": "x"}, "allowed": allowed}}}
    )
    pods = [{"gang": "runs", "count": 4, "on": "n-0", "controlled": False, "labels": {"app": "x"}}]
    server.play({"gangs": {"runs": {"minMember": 1, "queue": "a"}}, "pods": pods})
    server.play({"gangs": {"owed": {"minMember": 2, "queue": "b"}}, "pods": [{"gang": "owed", "count": 2}]})


def asked(server):
    return server.count("create") and [one for one in server.asks if one.plural == "selfsubjectaccessreviews"]


def is_bound(server, gang):
    return all(server.nodes_of(gang).values())


@played
async def test_what_the_budget_does_not_allow_is_deleted_and_told():
    """With the uid, the pod's own grace period and the condition that tells a Job that it is not to blame."""
    server = Server(grace_s=2.0)
    scene(server)
    server.fail("create", plural="selfsubjectaccessreviews", times=9, says=ALLOWED)
    async with running(server):
        await until(lambda: is_bound(server, "owed"))
    assert server.count("evict") == 0
    gone = [ask for ask in server.done if ask.verb == "delete"]
    assert sorted(ask.key[1] for ask in gone) == ["runs-2", "runs-3"]
    assert all(set(ask.body) == {"apiVersion", "kind", "preconditions"} for ask in gone)
    told_pods = [ask for ask in server.done if ask.verb == "patch" and "DisruptionTarget" in str(ask.body)]
    assert [ask.key for ask in told_pods] == [ask.key for ask in gone]
    (condition,) = told_pods[0].body["status"]["conditions"]
    assert (condition["status"], condition["reason"]) == ("True", "PreemptionByScheduler")
    assert OVER in condition["message"]


@played
async def test_without_the_right_nobody_is_chosen_who_could_only_be_deleted():
    """And it is asked again after a while: the right may come."""
    server = Server()
    scene(server)
    fault = server.fail("create", plural="selfsubjectaccessreviews", times=10**6, says=DENIED)
    async with running(server):
        await asyncio.sleep(55)
        assert (server.count("evict", "delete"), len(asked(server))) == (0, 1)
        assert not any(pod.get("status", {}).get("nominatedNodeName") for pod in server.objects["pods"].values())
        fault.says = ALLOWED
        await until(lambda: is_bound(server, "owed"), 70)
    assert server.count("delete") == 2


@played
async def test_what_budgets_allow_is_evicted():
    server = Server()
    scene(server, allowed=2)
    server.fail("create", plural="selfsubjectaccessreviews", times=9, says=ALLOWED)
    async with running(server):
        await until(lambda: is_bound(server, "owed"))
    assert (server.count("evict"), server.count("delete")) == (2, 0)


@pytest.mark.parametrize(
    ("verb", "says"),
    [("delete", refusal(403, "Forbidden")), ("patch", refusal(503, "ServiceUnavailable"))],
    ids=["no right", "a server that is away"],
)
@played
async def test_a_deletion_that_is_refused_leaves_the_pod_alone_for_a_while(verb, says):
    """As an eviction does: nothing is repeated without end, and others are taken instead."""
    server = Server()
    scene(server)
    server.fail("create", plural="selfsubjectaccessreviews", times=9, says=ALLOWED)
    fault = server.fail(verb, "runs-3", plural="pods", times=10**6, says=says)
    async with running(server):
        await until(lambda: is_bound(server, "owed"))
    assert fault.met <= 3
    assert {ask.key[1] for ask in server.done if ask.verb == "delete"} <= {"runs-0", "runs-1", "runs-2"}


@pytest.mark.parametrize("code", [403, 422])
@played
async def test_a_pod_that_can_not_be_marked_is_deleted_all_the_same(code):
    """Its owner may have filled it up, so that no policy can read it: that protects nothing."""
    server = Server()
    scene(server)
    server.fail("create", plural="selfsubjectaccessreviews", times=9, says=ALLOWED)
    fault = server.fail("patch", "runs-3", plural="pods", times=10**6, says=refusal(code, "Invalid"))
    async with running(server):
        await until(lambda: is_bound(server, "owed"))
    assert fault.met
    assert ("default", "runs-3") in {ask.key for ask in server.done if ask.verb == "delete"}


@played
async def test_nobody_is_asked_while_no_queue_wants_it():
    server = Server()
    server.play({**nodes(1), "queues": {"a": {}}})
    async with running(server):
        await asyncio.sleep(200)
    assert not asked(server)


@played
async def test_an_answer_that_does_not_come_is_no_right():
    server = Server()
    scene(server)
    server.fail("create", plural="selfsubjectaccessreviews", times=10**6, says=refusal(403, "Forbidden"))
    async with running(server):
        await asyncio.sleep(150)
    assert server.count("evict", "delete") == 0
    assert 2 <= len(asked(server)) <= 4
