"""muster's client against a real API server: binds, evictions, patches, watches over a restart, leases and events."""

import asyncio
import json
import re
from contextlib import aclosing, suppress
from pathlib import Path

import pytest

from e2e.plane import ControlPlane, gate
from muster import errors
from muster.api.kinds import CORE_KINDS
from muster.kube.client import STRATEGIC, Client
from muster.kube.discovery import Discovery
from muster.kube.events import EventRecorder, Regarding
from muster.kube.kubeconfig import connect
from muster.kube.lease import Election, Timing
from muster.kube.resources import Resource
from muster.kube.watch import Added, Bookmark, Deleted, Listed, Modified, Restarted, watch

POD, NODE = CORE_KINDS[0], CORE_KINDS[1]
MAP = Resource("v1", "ConfigMap", "configmaps")
NAMESPACE = Resource("v1", "Namespace", "namespaces", namespaced=False)
BUDGET = Resource("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets")
SOON = Timing(duration_s=3.0, renew_deadline_s=2.0, retry_period_s=0.3, look_period_s=0.3)

gate.require()


@pytest.fixture(scope="module", autouse=True)
def _programs(request):
    gate.obtain(request.config)


@pytest.fixture(scope="module")
def plane(_programs):
    with ControlPlane() as plane:
        yield plane


@pytest.fixture
def space(plane, request):
    """A namespace of its own for a test."""
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name)[-60:].strip("-")
    assert plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}}).status == 201
    return name


def speak(plane, work, kubeconfig: Path | None = None):
    """The result of `work(client)`, as the admin or as somebody else."""

    async def run():
        async with Client(connect(kubeconfig or plane.admin_kubeconfig, environ={})) as client:
            return await work(client)

    return asyncio.run(run())


def pod_body(name, **labels):
    spec = {"schedulerName": "muster", "containers": [{"name": "main", "image": "none"}]}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec}


async def pods(client, space, *names, **labels):
    """New pods; their UIDs by name."""
    made = await asyncio.gather(*(client.create(POD, space, pod_body(name, **labels)) for name in names))
    return {one.name: one.uid for one in made}


def test_a_bind_is_for_one_incarnation_of_a_pod_and_happens_once(plane, space):
    async def work(client):
        uid = (await pods(client, space, "p"))["p"]
        with pytest.raises(errors.Conflict):
            await client.bind(space, "p", "another-uid", "n1")
        await client.bind(space, "p", uid, "n1", annotations={"muster.dev/decision": "d1"})
        bound = await client.get(POD, space, "p")
        assert bound.spec.node_name == "n1"
        assert bound.metadata.annotations == {"muster.dev/decision": "d1"}
        for node in ("n1", "n2"):
            with pytest.raises(errors.Conflict) as raised:
                await client.bind(space, "p", uid, node)
            assert not raised.value.unknown
        with pytest.raises(errors.NotFound):
            await client.bind(space, "nobody", uid, "n1")

    speak(plane, work)


def test_hundreds_of_binds_at_a_time(plane, space):
    async def work(client):
        uids = await pods(client, space, *(f"p{number}" for number in range(200)))
        await asyncio.gather(*(client.bind(space, name, uid, "n1") for name, uid in uids.items()))
        listing = await client.list(POD, space, limit=30, field_selector="spec.nodeName=n1")
        assert {pod.metadata.name for pod in listing.items} == set(uids)
        assert listing.resource_version

    speak(plane, work)


def test_an_eviction_is_for_one_incarnation_and_budgets_say_no(plane, space):
    async def work(client):
        uids = await pods(client, space, "free", "kept", app="x")
        await asyncio.gather(*(client.bind(space, name, uid, "n1") for name, uid in uids.items()))
        ready = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
        for name in uids:
            await client.patch(POD, space, name, ready, content=STRATEGIC, subresource="status")
        with pytest.raises(errors.Conflict):
            await client.evict(space, "free", "another-uid", grace_s=0)
        await client.evict(space, "free", uids["free"], dry_run=True)
        assert (await client.get(POD, space, "free")).metadata.deletion_timestamp is None
        await client.evict(space, "free", uids["free"], grace_s=0)
        with pytest.raises(errors.NotFound):
            await client.get(POD, space, "free")
        budget = {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}}
        await client.create(BUDGET, space, budget)
        with pytest.raises(errors.BudgetRefused, match="disruption budget b"):
            await client.evict(space, "kept", uids["kept"])
        with pytest.raises(errors.Conflict):
            await client.delete(POD, space, "kept", uid="another-uid")
        await client.delete(POD, space, "kept", uid=uids["kept"], grace_s=0)

    speak(plane, work)


def test_applied_fields_are_ours_until_they_are_not_named(plane, space):
    def body(**data):
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": data}

    async def work(client):
        made = await client.apply(MAP, space, "m", body(a="1", b="1"))
        assert made.resource_version
        found = await client.get(MAP, space, "m")
        assert {one["manager"] for one in found["metadata"]["managedFields"]} == {"muster"}
        async with Client(client.connection, field_manager="somebody") as other:
            with pytest.raises(errors.Conflict, match='conflict with "muster"'):
                await other.apply(MAP, space, "m", body(a="2"))
            await other.apply(MAP, space, "m", body(a="2"), force=True)
        await client.apply(MAP, space, "m", body(c="3"))
        assert (await client.get(MAP, space, "m"))["data"] == {"a": "2", "c": "3"}
        old = {"metadata": {"resourceVersion": made.resource_version}, "data": {"c": "4"}}
        with pytest.raises(errors.Conflict):
            await client.patch(MAP, space, "m", old)
        with pytest.raises(errors.AlreadyExists):
            await client.create(MAP, space, body())
        with pytest.raises(errors.Invalid):
            await client.create(MAP, space, {"metadata": {"name": "Not A Name"}})

    speak(plane, work)


class Mirror:
    """What a consumer of a watch knows."""

    def __init__(self):
        self.known = {}
        self.causes = []
        self.lists = 0
        self.bookmarks = 0

    async def follow(self, client, space):
        async with aclosing(watch(client, POD, space)) as values:
            async for value in values:
                if isinstance(value, Listed):
                    self.lists += 1
                    self.known = {pod.metadata.name: pod.spec.node_name for pod in value.items}
                elif isinstance(value, Added | Modified):
                    self.known[value.object.metadata.name] = value.object.spec.node_name
                elif isinstance(value, Deleted):
                    self.known.pop(value.object.metadata.name, None)
                elif isinstance(value, Restarted):
                    self.causes.append(value.cause)
                else:
                    assert isinstance(value, Bookmark)
                    self.bookmarks += 1

    async def until(self, expected, seconds=30.0):
        async with asyncio.timeout(seconds):
            while self.known != expected:
                await asyncio.sleep(0.05)


@pytest.mark.parametrize("crash", [False, True], ids=["stop", "crash"])
def test_a_watch_survives_a_restart_of_the_api_server(plane, space, crash):
    async def work(client):
        mirror = Mirror()
        uids = await pods(client, space, "a", "b")
        task = asyncio.create_task(mirror.follow(client, space))
        await mirror.until({"a": "", "b": ""})
        await client.bind(space, "a", uids["a"], "n1")
        await mirror.until({"a": "n1", "b": ""})
        await asyncio.to_thread(plane.restart_apiserver, crash=crash)
        await client.delete(POD, space, "b", uid=uids["b"], grace_s=0)
        await pods(client, space, "c")
        await mirror.until({"a": "n1", "c": ""})
        assert mirror.causes
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    speak(plane, work)


def test_a_version_that_is_too_old_is_gone(plane, space):
    async def work(client):
        # After a restart the cache of the server reaches back to its start only.
        await asyncio.to_thread(plane.restart_apiserver)
        await pods(client, space, "a")
        told = ""
        with suppress(errors.Gone):
            async with client.open_watch(POD, space, {"resourceVersion": "1", "timeoutSeconds": "5"}) as stream:
                async for chunk in stream.chunks:
                    told += chunk.decode()
            assert json.loads(told.splitlines()[0])["object"]["code"] == 410

    speak(plane, work)


def test_one_leads_and_hands_over(plane, space):
    async def work(client):
        first = Election(client, space, "leader", "first", timing=SOON)
        second = Election(client, space, "leader", "second", timing=SOON)
        one = asyncio.create_task(first.run())
        await asyncio.wait_for(first.elected(), 5)
        two = asyncio.create_task(second.run())
        await asyncio.sleep(4.0)
        assert first.is_leader()
        assert not second.is_leader()
        assert second.holder == "first"
        one.cancel()
        with suppress(asyncio.CancelledError):
            await one
        await asyncio.wait_for(second.elected(), 2)
        # The server is away for longer than the deadline: nobody leads, and nobody dies of it.
        await asyncio.to_thread(plane.apiserver.kill)
        try:
            await asyncio.sleep(4.0)
            assert not second.is_leader()
            assert not two.done()
        finally:
            await asyncio.to_thread(plane.apiserver.start)
            await asyncio.to_thread(plane.apiserver.wait_ready)
        # Nobody took it meanwhile: who led leads again.
        async with asyncio.timeout(10):
            while not second.is_leader():
                await asyncio.sleep(0.05)
        two.cancel()
        with suppress(asyncio.CancelledError):
            await two

    speak(plane, work)
    spec = plane.request("GET", f"/apis/coordination.k8s.io/v1/namespaces/{space}/leases/leader").body["spec"]
    assert not spec.get("holderIdentity")
    assert spec["leaseTransitions"] == 1


def test_events_are_taken_and_counted(plane, space):
    async def work(client):
        uid = (await pods(client, space, "p"))["p"]
        recorder = EventRecorder(client, instance="muster-0")
        about = Regarding("v1", "Pod", space, "p", uid)
        for reason in ("Waiting", "Waiting", "Placed", "Waiting"):
            recorder.record(about, reason, "a note with ä")
            await recorder.drain(5.0)
        recorder.record(Regarding("v1", "Node", "", "n1"), "Seen", "of a cluster-wide object")
        await recorder.drain(5.0)
        assert not recorder.dropped

    speak(plane, work)
    events = json.loads(plane.kubectl("get", "events.events.k8s.io", "-n", space, "-o", "json").stdout)["items"]
    counts = {event["reason"]: event.get("series", {}).get("count") for event in events}
    assert counts == {"Waiting": 3, "Placed": None}
    assert "Waiting" in plane.kubectl("describe", "pod", "p", "-n", space).stdout


def test_who_may_not_is_told_what_is_missing(plane, space):
    async def work(client):
        with pytest.raises(errors.Forbidden) as raised:
            await client.bind(space, "p", "u", "n")
        assert raised.value.hint.startswith(f"it takes the verb create on pods/binding in namespace {space}")
        with pytest.raises(errors.Forbidden, match="list nodes"):
            await client.list(NODE)

    speak(plane, work, plane.service_account_kubeconfig(space, "nobody"))


def test_who_is_not_known_is_told_so(plane, tmp_path):
    value = json.loads(plane.admin_kubeconfig.read_text())
    value["users"][0]["user"] = {"token": "stale"}
    file = tmp_path / "stale"
    file.write_text(json.dumps(value))

    async def work(client):
        with pytest.raises(errors.Unauthorized) as raised:
            await client.list(NODE)
        assert "log in again" in raised.value.hint

    speak(plane, work, file)


def test_kinds_are_found(plane):
    async def work(client):
        discovery = Discovery(client)
        assert await discovery.find("v1", "Pod") == Resource("v1", "Pod", "pods", True)
        assert await discovery.find("batch/v1", "Job") == Resource("batch/v1", "Job", "jobs", True)
        assert await discovery.find("v1", "Namespace") == NAMESPACE
        assert await discovery.find("ray.io/v1", "RayCluster") is None
        assert json.loads(await client.get_path("/version"))["major"] == "1"

    speak(plane, work)
