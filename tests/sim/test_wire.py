"""On the wire exactly that goes wrong which the story says, and nothing else."""

import asyncio
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from muster.embedded import exchange
from muster.embedded.reading import Watch
from muster.embedded.server import Server
from muster.embedded.store import Store
from muster.kube.transport import Answer, Request, Unanswered
from muster.sim.faults import Weather
from muster.sim.machine import Machine
from muster.sim.story import Fault
from muster.sim.wire import Asked, Wire, asked_of

MAPS = "/api/v1/namespaces/default/configmaps"


class Cluster:
    """An embedded server, and a wire to it."""

    def __init__(self, *faults: Fault) -> None:
        self.machine = Machine()
        uids = iter(range(10**6))
        self.server = Server(
            Store(), clock=lambda: self.machine.now_s, new_uid=lambda: f"uid-{next(uids)}", suffix=lambda: "x"
        )
        self.is_away = False
        self.crashed = False
        self.sent: list[Asked] = []
        self.struck: list[str] = []
        self.answers: list[int | None] = []
        self.saw: list[tuple[str, int]] = []
        self.wire = Wire(
            0,
            self.machine,
            self.machine.loop(lambda error, what: None),
            self,
            Weather(faults, 1, lambda: self.machine.now_s),
            random.Random(1),  # noqa: S311
            0.01,
            crash=self._crash,
            sent=lambda request, asked: self.sent.append(asked),
            answered=lambda request, status: self.answers.append(status),
            saw=lambda plural, revision: self.saw.append((plural, revision)),
            struck=self.struck.append,
        )

    @property
    def revision(self) -> int:
        return self.server.core.store.revision

    def handle(self, who: str, request: exchange.Request) -> exchange.Answer:
        return self.server.handle(request)

    def watch(self, request: exchange.Request, wake: Callable[[], None]) -> Watch | exchange.Answer:
        return self.server.watch(request, wake)

    def _crash(self) -> None:
        self.crashed = self.wire.is_dead = True

    def create(self, name: str) -> Answer | str:
        """What a process hears when it makes a map; nothing when it hears nothing within a minute."""
        heard: list[Answer | str] = []

        async def ask() -> None:
            body = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}).encode()
            try:
                asked = Request("POST", MAPS, {}, [("Content-Type", "application/json")], body)
                heard.append(await self.wire.request(asked, 10.0, 10**6))
            except Unanswered as error:
                heard.append(error.message)

        self.wire.loop.create_task(ask())
        self.machine.run(self.machine.now_s + 60)
        return heard[0] if heard else ""

    def names(self) -> list[str]:
        """The maps that are there."""
        found = self.server.handle(exchange.Request("GET", MAPS)).json()
        return [one["metadata"]["name"] for one in found["items"]]

    def follow(self, version: str = "") -> list[Any]:
        """What a watch of maps shows, with the second in which it comes; an end or a break as a word."""
        seen: list[Any] = []

        async def watch() -> None:
            params = {"watch": "true", "resourceVersion": version or str(self.server.core.store.revision)}
            try:
                async with self.wire.stream(Request("GET", MAPS, params), 90.0) as stream:
                    seen.append(stream.status)
                    async for chunk in stream.chunks:
                        for line in chunk.decode().splitlines():
                            event = json.loads(line)
                            name = event["object"].get("metadata", {}).get("name") or event["object"].get("code")
                            seen.append((round(self.machine.now_s), event["type"], name))
                seen.append("end")
            except Unanswered as error:
                seen.append(error.message)

        self.wire.loop.create_task(watch())
        return seen

    def put(self, *names: str, every_s: float = 1.0) -> None:
        """Somebody else makes maps, one a second."""
        for number, name in enumerate(names):
            body = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}).encode()
            asked = exchange.Request("POST", MAPS, {}, {"content-type": "application/json"}, body)
            self.machine.later(1 + number * every_s, lambda asked=asked: self.server.handle(asked))


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """With the faults that the test is called with."""
    made = Cluster(*getattr(request, "param", ()))
    yield made
    made.machine.close()


def faulty(**fault: Any) -> pytest.MarkDecorator:
    """A cluster on whose wire this goes wrong."""
    return pytest.mark.parametrize("cluster", [[Fault(**fault)]], indirect=True)


def test_without_faults_a_request_is_answered_a_little_later(cluster: Cluster) -> None:
    heard = cluster.create("a")
    assert isinstance(heard, Answer)
    assert (heard.status, cluster.names()) == (201, ["a"])


@faulty(point="create", does="refuse", code=503)
def test_what_is_refused_was_not_done(cluster: Cluster) -> None:
    heard = cluster.create("a")
    assert isinstance(heard, Answer)
    assert (heard.status, cluster.names()) == (503, [])


@faulty(point="create", does="swallow", code=500)
def test_what_is_swallowed_was_done_and_the_answer_says_it_was_not(cluster: Cluster) -> None:
    heard = cluster.create("a")
    assert isinstance(heard, Answer)
    assert (heard.status, cluster.names()) == (500, ["a"])


@faulty(point="create", does="swallow")
def test_what_is_swallowed_without_a_code_has_no_answer(cluster: Cluster) -> None:
    assert (cluster.create("a"), cluster.names()) == ("the connection broke", ["a"])


@faulty(point="create", does="lose")
def test_what_is_lost_never_came(cluster: Cluster) -> None:
    assert (cluster.create("a"), cluster.names()) == ("the server did not answer in time", [])


@faulty(point="create", does="delay", seconds=30.0, nth=1)
def test_what_arrives_when_nobody_waits_for_it_any_more_is_not_done(cluster: Cluster) -> None:
    assert (cluster.create("a"), cluster.names()) == ("the server did not answer in time", [])


@faulty(point="create", does="delay", seconds=5.0, nth=1)
def test_what_arrives_late_is_done_late(cluster: Cluster) -> None:
    heard = cluster.create("a")
    assert isinstance(heard, Answer)
    assert (heard.status, cluster.names()) == (201, ["a"])
    assert cluster.server.core.store.revision > 1


@pytest.mark.parametrize(
    ("cluster", "there"),
    [
        ([Fault(point="write", does="crash", nth=2)], ["a"]),
        ([Fault(point="write", does="crash", nth=2, code=1)], ["a", "b"]),
    ],
    indirect=["cluster"],
)
def test_a_crash_comes_before_or_after_a_write_and_nothing_leaves_the_process_any_more(
    cluster: Cluster, there: list[str]
) -> None:
    heard = [cluster.create(name) for name in "abc"]
    assert cluster.crashed
    assert (heard[1:], cluster.names()) == (["", ""], there)


def test_a_server_that_is_away_answers_nobody(cluster: Cluster) -> None:
    cluster.is_away = True
    assert (cluster.create("a"), cluster.names()) == ("no connection: the server is away", [])


def test_a_watch_shows_what_happens(cluster: Cluster) -> None:
    seen = cluster.follow()
    cluster.put("a", "b")
    cluster.machine.run(10)
    assert seen == [200, (1, "ADDED", "a"), (2, "ADDED", "b")]


@faulty(point="watch", does="late", seconds=5.0, nth=1)
def test_what_is_late_holds_up_what_comes_behind_it(cluster: Cluster) -> None:
    seen = cluster.follow()
    cluster.put("a", "b", "c")
    cluster.machine.run(20)
    assert seen == [200, (6, "ADDED", "a"), (6, "ADDED", "b"), (6, "ADDED", "c")]


@faulty(point="watch", does="late", seconds=30.0, nth=1)
def test_what_was_held_up_comes_in_the_order_in_which_it_happened(cluster: Cluster) -> None:
    """Also where one moment, counted from different ones, differs in its last digit."""
    names = [f"map-{number}" for number in range(90)]
    seen = cluster.follow()
    cluster.put(*names, every_s=0.3)
    cluster.machine.run(40)
    assert seen == [200, *((31, "ADDED", name) for name in names)]


@faulty(point="watch", does="repeat", nth=1)
def test_an_event_may_come_twice(cluster: Cluster) -> None:
    seen = cluster.follow()
    cluster.put("a")
    cluster.machine.run(20)
    assert seen == [200, (1, "ADDED", "a"), (1, "ADDED", "a")]


@faulty(point="watch", does="cut", nth=2)
def test_a_watch_that_is_cut_ends_before_the_event(cluster: Cluster) -> None:
    seen = cluster.follow()
    cluster.put("a", "b")
    cluster.machine.run(20)
    assert seen == [200, (1, "ADDED", "a"), "end"]


@faulty(point="watch", does="gone", nth=1)
def test_a_version_may_be_gone(cluster: Cluster) -> None:
    seen = cluster.follow()
    cluster.put("a")
    cluster.machine.run(20)
    assert seen == [200, (1, "ERROR", 410), "end"]


@faulty(point="watch", does="silent", seconds=30.0, nth=1)
def test_a_silent_watch_breaks_in_the_end(cluster: Cluster) -> None:
    seen = cluster.follow()
    cluster.put("a", "b")
    cluster.machine.run(20)
    assert seen == [200]
    cluster.machine.run(40)
    assert seen == [200, "the connection broke"]


@faulty(point="open", does="refuse", code=429)
def test_a_watch_may_be_refused(cluster: Cluster) -> None:
    seen = cluster.follow()
    cluster.machine.run(5)
    assert seen[0] == 429


def test_bookmarks_keep_a_quiet_watch_alive(cluster: Cluster) -> None:
    seen: list[str] = []

    async def watch() -> None:
        params = {"watch": "true", "resourceVersion": "1", "allowWatchBookmarks": "true"}
        async with cluster.wire.stream(Request("GET", MAPS, params), 90.0) as stream:
            async for chunk in stream.chunks:
                seen.append(json.loads(chunk)["type"])

    cluster.wire.loop.create_task(watch())
    cluster.machine.run(200)
    assert seen == ["BOOKMARK"] * 3


@pytest.mark.parametrize(
    ("method", "path", "point", "plural", "is_write"),
    [
        ("POST", "/api/v1/namespaces/a/pods/p/binding", "bind", "pods", True),
        ("POST", "/api/v1/namespaces/a/pods/p/eviction", "evict", "pods", True),
        ("PATCH", "/api/v1/namespaces/a/pods/p/status", "status", "pods", True),
        ("PATCH", "/apis/scheduling.run.ai/v2/queues/q/status", "status", "queues", True),
        ("PATCH", "/api/v1/namespaces/a/pods/p", "patch", "pods", True),
        ("POST", "/apis/scheduling.run.ai/v2alpha2/namespaces/a/podgroups", "create", "podgroups", True),
        ("DELETE", "/apis/scheduling.run.ai/v2alpha2/namespaces/a/podgroups/g", "delete", "podgroups", True),
        ("PATCH", "/apis/coordination.k8s.io/v1/namespaces/m/leases/l", "lease", "leases", True),
        ("GET", "/apis/coordination.k8s.io/v1/namespaces/m/leases/l", "lease", "leases", False),
        ("POST", "/apis/events.k8s.io/v1/namespaces/a/events", "event", "events", True),
        ("GET", "/api/v1/pods", "list", "pods", False),
        ("GET", "/api/v1/namespaces/a/pods/p", "get", "pods", False),
        ("GET", "/api/v1/namespaces/a", "get", "namespaces", False),
    ],
)
def test_every_request_passes_a_point(method: str, path: str, point: str, plural: str, is_write: bool) -> None:
    assert asked_of(Request(method, path)) == (point, plural, is_write)


def test_a_list_of_pods_is_seen_when_a_watch_goes_on_from_it(cluster: Cluster) -> None:
    """It may be only compared with. What else is listed is taken over."""

    async def ask(path: str, **params: str) -> None:
        if params:
            async with cluster.wire.stream(Request("GET", path, params), 90.0):
                return
        await cluster.wire.request(Request("GET", path), 60.0, 10**6)

    def seen(*asked: Any, **params: str) -> list[tuple[str, int]]:
        cluster.saw.clear()
        cluster.wire.loop.create_task(ask(*asked, **params))
        cluster.machine.run(cluster.machine.now_s + 5)
        return cluster.saw

    cluster.create("a")
    now = cluster.revision
    assert seen("/api/v1/nodes") == [("nodes", now)]
    assert seen("/api/v1/pods") == []
    assert seen("/api/v1/pods", watch="true", resourceVersion=str(now)) == [("pods", now)]


def test_a_process_that_stands_still_hears_the_answer_when_it_goes_on(cluster: Cluster) -> None:
    heard: list[float] = []

    async def ask() -> None:
        await cluster.wire.request(Request("GET", MAPS), 60.0, 10**6)
        heard.append(cluster.machine.now_s)

    cluster.wire.loop.create_task(ask())
    cluster.machine.run(0.001)
    cluster.wire.loop.frozen_until_s = 20.0
    cluster.machine.run(30)
    assert heard == [20.0]


def test_asyncio_is_not_disturbed(cluster: Cluster) -> None:
    """After a turn of a virtual loop no loop is running."""
    cluster.create("a")
    with pytest.raises(RuntimeError):
        asyncio.get_running_loop()
