"""Gangs of instances that are gone are deleted after a while, and no others."""

import asyncio

from unit.controllers.workshop import (
    SET,
    at_work,
    gang_of,
    job,
    owned,
    played,
    settled,
)


def replicas(server, size, *indexes):
    """A LeaderWorkerSet, and the leaders of some of its groups."""
    spec = {"replicas": len(indexes), "leaderWorkerTemplate": {"size": size}}
    document = {"apiVersion": SET.api_version, "kind": SET.kind, "metadata": {"name": "serve"}, "spec": spec}
    found = server.put(document)
    for index in indexes:
        labels = {"group-index": str(index), "worker-index": "0"}
        named = {f"leaderworkerset.sigs.k8s.io/{key}": value for key, value in labels.items()}
        server.put(owned(found, f"serve-{index}", **named))
    return found


@played(SET)
async def test_instances_that_are_gone_lose_their_gang_after_a_while(server):
    replicas(server, 1, 0, 1, 2)
    async with at_work(server) as shop:
        await settled()
        names = [gang_of(server, f"serve-{index}")[0] for index in range(3)]
        assert [group["metadata"]["name"] for group in server.all("podgroups")] == sorted(names)
        for index in (1, 2):
            server.remove("pods", f"serve-{index}")
        await asyncio.sleep(50)
        # One comes back in time.
        replicas(server, 1, 0, 1)
        await asyncio.sleep(120)
        assert [group["metadata"]["name"] for group in server.all("podgroups")] == sorted(names[:2])
        deleted = [write for write in shop.since() if write.verb == "delete"]
        assert [write.name for write in deleted] == [names[2]]
        assert set(deleted[0].body["preconditions"]) == {"uid", "resourceVersion"}
        # And later, it is made anew.
        replicas(server, 1, 0, 1, 2)
        await settled()
        assert len(server.all("podgroups")) == 3


@played(SET)
async def test_instances_that_went_while_nobody_looked_lose_their_gang(server):
    replicas(server, 1, 0, 1)
    async with at_work(server):
        await settled()
    server.remove("pods", "serve-1")
    async with at_work(server):
        await asyncio.sleep(180)
        assert [group["metadata"]["name"] for group in server.all("podgroups")] == [gang_of(server, "serve-0")[0]]


@played(SET)
async def test_no_gang_is_deleted_that_has_pods_or_may_be_wanted_again(server):
    """Neither that of a workload as a whole, nor one that somebody made, nor one whose pods only the server has."""
    train = server.put(job())
    server.put(owned(train, "a"))
    replicas(server, 1, 0)
    async with at_work(server) as shop:
        await settled()
        theirs = {"name": "theirs", "ownerReferences": server.all("podgroups")[0]["metadata"]["ownerReferences"]}
        server.put({"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": theirs, "spec": {}})
        server.remove("pods", "a")
        found = server.read("pods", "serve-0")
        server.remove("pods", "serve-0")
        await asyncio.sleep(30)
        # It is there, and the watch has not said so yet.
        server.objects["pods", "default", "serve-0"] = found
        await asyncio.sleep(300)
        assert [write for write in shop.since() if write.verb == "delete"] == []
        assert len(server.all("podgroups")) == 3


@played(SET)
async def test_a_gang_that_may_not_be_deleted_stays(server):
    replicas(server, 1, 0)
    server.forbidden = {("delete", "podgroups")}
    async with at_work(server) as shop:
        await settled()
        server.remove("pods", "serve-0")
        await asyncio.sleep(600)
        assert len(server.all("podgroups")) == 1
        assert sum(one.method == "DELETE" for one in shop.transport.requests) == 1


@played(SET)
async def test_the_pods_of_a_namespace_are_read_once_for_all_that_went_and_nobody_waits_for_that(server):
    replicas(server, 1, *range(10))
    slow_s = 0.0
    async with at_work(server) as shop:
        await settled()
        whole = shop.transport._whole

        async def slowly(request):
            if request.path == "/api/v1/namespaces/default/pods":
                await asyncio.sleep(slow_s)
            return await whole(request)

        shop.transport._whole, slow_s = slowly, 20.0
        for index in range(1, 10):
            server.remove("pods", f"serve-{index}")
        shop.transport.requests.clear()
        await asyncio.sleep(65)
        # Meanwhile others are grouped.
        server.put(owned(server.put(job()), "a"))
        await settled()
        assert gang_of(server, "a")[0]
        await asyncio.sleep(30)
        assert len(server.all("podgroups")) == 2
        lists = [one for one in shop.transport.requests if one.path == "/api/v1/namespaces/default/pods"]
        assert len(lists) == 1


@played(SET)
async def test_an_instance_that_comes_back_while_pods_are_read_keeps_its_gang(server):
    replicas(server, 1, 0)
    async with at_work(server) as shop:
        await settled()
        whole = shop.transport._whole

        async def slowly(request):
            answered = await whole(request)
            if request.path == "/api/v1/namespaces/default/pods":
                await asyncio.sleep(20)
            return answered

        shop.transport._whole = slowly
        server.remove("pods", "serve-0")
        await asyncio.sleep(70)
        replicas(server, 1, 0)
        await asyncio.sleep(120)
        assert [write for write in shop.since() if write.verb == "delete"] == []
        assert gang_of(server, "serve-0")[0] == server.all("podgroups")[0]["metadata"]["name"]
