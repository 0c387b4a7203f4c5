"""Discovery: from a kind to its place in the API, asked for once."""

import asyncio

import pytest

from muster import errors
from muster.kube.discovery import Discovery
from muster.kube.resources import Resource
from unit.kube.playing import Played, answer, playing, refusal, virtually

GROUPS = {
    "/api/v1": [
        {"name": "pods", "kind": "Pod", "namespaced": True, "verbs": ["get", "list"]},
        {"name": "pods/binding", "kind": "Binding", "namespaced": True, "verbs": ["create"]},
        {"name": "pods/status", "kind": "Pod", "namespaced": True, "verbs": ["get"]},
        {"name": "nodes", "kind": "Node", "namespaced": False, "verbs": ["get"]},
    ],
    "/apis/ray.io/v1": [{"name": "rayclusters", "kind": "RayCluster", "namespaced": True, "verbs": ["get"]}],
}


RAY = {"name": "ray.io", "versions": [{"version": "v1"}], "preferredVersion": {"version": "v1"}}


def server(broken=(), listed=True):
    async def whole(request):
        await asyncio.sleep(0.1)
        if request.path in broken:
            return answer(b"?")
        if request.path == "/apis" and listed:
            return answer({"kind": "APIGroupList", "groups": [RAY]})
        if request.path not in GROUPS:
            return refusal(404, "NotFound")
        return answer({"kind": "APIResourceList", "resources": GROUPS[request.path]})

    return Played(whole)


def found(*asked, transport=None):
    transport = transport or server()

    async def run():
        discovery = Discovery(playing(transport))
        return await asyncio.gather(*(discovery.find(*one) for one in asked))

    return virtually(run()), [request.path for request in transport.requests]


def test_kinds_become_resources_and_each_group_is_asked_for_once():
    resources, paths = found(("v1", "Pod"), ("v1", "Node"), ("ray.io/v1", "RayCluster"), ("v1", "Pod"))
    assert resources[0] == Resource("v1", "Pod", "pods", True)
    assert resources[1] == Resource("v1", "Node", "nodes", False)
    assert resources[2].plural == "rayclusters"
    assert sorted(paths) == ["/api/v1", "/apis", "/apis/ray.io/v1"]


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        ("v1", "Binding"),
        ("v1", "Missing"),
        ("no.such/v1", "X"),
        ("", "X"),
        ("../..", "X"),
        ("a/b/c", "X"),
        ("a/..", ""),
    ],
)
def test_what_the_server_does_not_have_is_none(api_version, kind):
    assert found((api_version, kind))[0] == [None]


def test_a_missing_kind_is_looked_for_again_soon_and_a_known_one_later():
    async def run():
        transport = server()
        discovery = Discovery(playing(transport))
        for _ in range(100):
            await discovery.find("no.such/v1", "X")
            await discovery.find("v1", "Pod")
            await asyncio.sleep(10.0)
        paths = [request.path for request in transport.requests]
        assert 25 <= paths.count("/apis") <= 35
        assert "/apis/no.such/v1" not in paths
        assert paths.count("/api/v1") == 2
        discovery.forget()
        await discovery.find("v1", "Pod")
        assert len(transport.requests) == len(paths) + 1

    virtually(run())


def test_what_is_invented_costs_no_request_and_no_memory():
    async def run():
        transport = server()
        discovery = Discovery(playing(transport))
        for number in range(1_000):
            assert await discovery.find_served(f"x{number}.evil.io/v1", "K") is None
            assert await discovery.find_served(f"ray.io/v{number + 2}", "K") is None
            assert await discovery.find_served(f"v{number + 2}", "K") is None
        assert sorted(request.path for request in transport.requests) == ["/api/v1", "/apis", "/apis/ray.io/v1"]
        assert len(discovery._groups) == 2

    virtually(run())


def test_a_server_that_does_not_list_its_groups_is_asked_for_each_and_not_all_are_remembered():
    async def run():
        transport = server(listed=False)
        discovery = Discovery(playing(transport))
        assert (await discovery.find_served("ray.io/v1", "RayCluster")).plural == "rayclusters"
        for number in range(1_100):
            assert await discovery.find(f"x{number}.io/v1", "K") is None
        assert len(discovery._groups) <= 1_000

    virtually(run())


def test_an_answer_that_is_no_list_is_an_error_and_not_remembered():
    async def run():
        transport = server(broken=("/api/v1",))
        discovery = Discovery(playing(transport))
        for _ in range(2):
            with pytest.raises(errors.ServerFault):
                await discovery.find("v1", "Pod")
        assert len(transport.requests) == 2

    virtually(run())
