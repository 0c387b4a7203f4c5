"""`muster evict --for`: what it says, what it refuses, and that a gang keeps the room whatever the owners do."""

import asyncio
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from muster.api.evictionrequest import Beneficiary, Leaver
from muster.api.kinds import EVICTION_REQUEST, POD, POD_DISRUPTION_BUDGET, POD_GROUP
from muster.cli.evicting import Asked, Came, carry_out, rehearse
from muster.cli.playground import Playground
from muster.config import load
from muster.errors import ApiError, Call, Forbidden, UsageError
from muster.kube.client import Client
from muster.kube.resources import Resource
from muster.telemetry import SILENT, Metrics
from unit.cli.test_explain import gang, node, pods

JOBS = Resource("batch/v1", "Job", "jobs")
NODES = Resource("v1", "Node", "nodes", namespaced=False)
SPACE = "muster-system"


@pytest.fixture
def evict(muster, tmp_path):
    """The command over some documents."""

    def run(*documents, form="table", name="default/g", more=()):
        file = tmp_path / "in.json"
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(documents)}))
        return muster("evict", "--for", name, "-f", str(file), "-o", form, *more)

    return run


FULL = [node("n", 4), gang("busy", minMember=1), *pods(4, gang="busy", on="n"), gang(minMember=2), *pods(2)]


def test_it_says_first_what_it_would_do(evict):
    run = evict(*FULL)
    assert run.code == 0
    assert run.out == (
        "for default/g, these pods would be evicted:\n"
        "  POD              NODE   OF\n"
        "  default/busy-2   n      default/busy\n"
        "  default/busy-3   n      default/busy\n"
        "default/g gets:\n"
        "  POD           NODE\n"
        "  default/g-0   n\n"
        "  default/g-1   n\n"
        "nothing was done: this was a dry run\n"
    )


def test_as_data(evict):
    data = json.loads(evict(*FULL, form="json").out)
    assert [one["pod"] for one in data["evict"]] == ["default/busy-2", "default/busy-3"]
    assert [(one["pod"], one["node"]) for one in data["gets"]] == [("default/g-0", "n"), ("default/g-1", "n")]
    assert (data["dryRun"], data["result"], data["evicted"]) == ("client", "Planned", [])


@pytest.mark.parametrize(
    ("documents", "code", "says"),
    [
        pytest.param([node("n", 4), gang(minMember=2), *pods(2)], 0, "nothing to evict for default/g", id="it fits"),
        pytest.param(
            [*FULL[:1], gang("busy", minMember=4), *FULL[2:]], 1, "no surplus of other gangs", id="no surplus"
        ),
        pytest.param([*FULL[:-2], *pods(1)], 1, "no eviction helps default/g", id="not ready"),
        pytest.param(
            [*FULL[:1], gang("busy", minMember=1, priorityClassName="train"), *FULL[2:]],
            1,
            "no surplus of other gangs",
            id="its owner would take it back",
        ),
    ],
)
def test_when_no_pod_is_to_go(evict, documents, code, says):
    run = evict(*documents)
    assert run.code == code
    assert says in run.out + run.err


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("--dry-run", "none"), "-f is about files"),
        (("--dry-run", "server"), "-f is about files"),
        (("--timeout", "soon"), "--timeout"),
        (("--timeout", "0s"), "--timeout"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_wrong_call_is_a_sentence_with_a_hint(evict, args, says):
    run = evict(*FULL, more=args)
    assert (run.code, run.out) == (2, "")
    assert says in run.err
    assert "→" in run.err


def test_a_gang_is_named_as_elsewhere(evict):
    """By its namespace and name, by -n and its name, by one of its pods; one that is not there is a wrong call."""
    for name in ("g", "pg/g", "pod/g-0"):
        assert evict(*FULL, name=name, more=("-n", "default")).code == 0
    assert evict(*FULL, name="default/h").code == 2


# On a server, where the test is the scheduler.


def playground(folder: Path) -> Playground:
    return Playground(load().config, kubeconfig=folder / "kubeconfig", log=SILENT, metrics=Metrics())


def bound(name: str, group: str = "busy", **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": {"pod-group-name": group}, "labels": {"of": group}, **metadata},
        "spec": {"schedulerName": "kai-scheduler", "nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
    }


def group(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": POD_GROUP.api_version, "kind": "PodGroup", "metadata": {"name": name}, "spec": spec}


Tale = Callable[[Client, Asked, list[str]], Coroutine[Any, Any, None]]


def told(tmp_path: Path, tale: Tale) -> None:
    """A server with two pods that may go, and a gang that waits; no scheduler."""

    async def story() -> None:
        async with playground(tmp_path) as place:
            client = place.client
            winner = await client.create(POD_GROUP, "default", group("g", minMember=1))
            made = [await client.create(POD, "default", bound(f"busy-{at}")) for at in range(2)]
            leavers = tuple(Leaver(namespace="default", name=one.name, uid=one.uid) for one in made)
            asked = Asked(Beneficiary(namespace="default", name="g", uid=winner.uid), leavers, SPACE)
            said: list[str] = []
            await tale(client, asked, said)
            assert (await client.list(EVICTION_REQUEST, SPACE)).items == [], "the request is deleted at the end"

    asyncio.run(story())


async def answers(client: Client, *statuses: dict[str, Any]) -> None:
    """Each status in turn, for the only request."""
    for status in statuses:
        while not (found := (await client.list(EVICTION_REQUEST, SPACE)).items):
            await asyncio.sleep(0.05)
        await client.patch(EVICTION_REQUEST, SPACE, found[0].metadata.name, {"status": status}, subresource="status")
        await asyncio.sleep(0.7)


async def leaving(client: Client) -> list[str]:
    """The pods that were evicted."""
    found = (await client.list(POD, "default")).items
    stay = {one.metadata.name for one in found if one.metadata.deletion_timestamp is None}
    return sorted({"busy-0", "busy-1"} - stay)


GRANTED = {"phase": "Granted", "reason": "RoomReserved", "expires": "2099-01-01T00:00:00Z"}
DONE = {"phase": "Done", "reason": "BeneficiaryPlaced"}
REFUSED = {"phase": "Refused", "reason": "CorePod", "message": "it is core"}


def test_it_evicts_when_it_is_granted_and_waits_until_it_is_done(tmp_path):
    async def tale(client: Client, asked: Asked, said: list[str]) -> None:
        answering = asyncio.ensure_future(answers(client, GRANTED, DONE))
        came = await carry_out(client, asked, 20, said.append)
        await answering
        assert (came.good, came.evicted) == (True, ("default/busy-0", "default/busy-1"))
        assert await leaving(client) == ["busy-0", "busy-1"]
        assert said[0].startswith("asked the scheduler: EvictionRequest muster-system/g-")
        assert said[1].startswith("granted: the room is reserved for default/g")

    told(tmp_path, tale)


@pytest.mark.parametrize(
    ("status", "reason", "says"),
    [(REFUSED, "CorePod", "refused: it is core; no pod was evicted"), (None, "NoAnswer", "no answer within 1 s")],
    ids=["refused", "no answer"],
)
def test_no_pod_goes_before_it_is_granted(tmp_path, status, reason, says):
    async def tale(client: Client, asked: Asked, said: list[str]) -> None:
        answering = asyncio.ensure_future(answers(client, *([status] if status else [])))
        came = await carry_out(client, asked, 1, said.append)
        await answering
        assert (came.good, came.reason) == (False, reason)
        assert says in came.message
        assert await leaving(client) == []

    told(tmp_path, tale)


def test_no_pod_goes_when_a_budget_keeps_one(tmp_path):
    """Neither of them: half of the room helps nobody. It is known before the request is made."""

    async def tale(client: Client, asked: Asked, said: list[str]) -> None:
        spec = {"maxUnavailable": 0, "selector": {"matchLabels": {"of": "busy"}}}
        budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}, "spec": spec}
        await client.create(POD_DISRUPTION_BUDGET, "default", budget)
        # A pod that does not run is no disruption.
        runs = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
        for one in asked.victims:
            await client.patch(POD, "default", one.name, runs, subresource="status")
        for come in (rehearse(client, asked), carry_out(client, asked, 5, said.append)):
            came: Came = await come
            assert (came.good, came.reason) == (False, "EvictionRefused")
            assert "a PodDisruptionBudget does not allow to evict default/busy-0" in came.message
        assert await leaving(client) == []
        assert said == []

    told(tmp_path, tale)


@pytest.mark.parametrize("missing", ["evictionrequests", "pods"])
def test_no_pod_goes_when_a_right_is_missing(tmp_path, monkeypatch, missing):
    """Asked for before anything is done: also the right to evict, which is of use only later."""

    async def tale(client: Client, asked: Asked, said: list[str]) -> None:
        async def review(kind: Any, body: Any) -> Any:
            return {"status": {"allowed": body["spec"]["resourceAttributes"]["resource"] != missing}}

        monkeypatch.setattr(client, "review", review)
        with pytest.raises(UsageError, match="not allowed to create") as refused:
            await carry_out(client, asked, 5, said.append)
        assert "muster-operator" in refused.value.hint
        assert said == []
        assert await leaving(client) == []

    told(tmp_path, tale)


def test_what_is_missing_on_the_cluster_is_told(tmp_path):
    async def tale(client: Client, asked: Asked, said: list[str]) -> None:
        with pytest.raises(UsageError, match="there is no namespace nowhere") as refused:
            await carry_out(client, asked._replace(namespace="nowhere"), 5, said.append)
        assert "--muster-namespace" in refused.value.hint
        crds = Resource("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", False)
        await client.delete(crds, "", "evictionrequests.muster.dev")
        with pytest.raises(UsageError, match="has no EvictionRequests") as refused:
            await carry_out(client, asked, 5, said.append)
        assert "muster crds" in refused.value.hint
        made = (await client.list(POD, "default")).items
        assert len(made) == 2

    with pytest.raises(ApiError, match="evictionrequests"):
        # There are none to look for at the end.
        told(tmp_path, tale)


def test_a_pod_that_was_created_again_stays(tmp_path):
    """Under the same name, as a StatefulSet does it: the one that was meant is gone already."""

    async def tale(client: Client, asked: Asked, said: list[str]) -> None:
        await client.delete(POD, "default", "busy-0", grace_s=0)
        await client.create(POD, "default", bound("busy-0"))
        answering = asyncio.ensure_future(answers(client, GRANTED, DONE))
        came = await carry_out(client, asked, 20, said.append)
        await answering
        assert came.good
        assert await leaving(client) == ["busy-1"]

    told(tmp_path, tale)


def test_whoever_gives_up_leaves_no_request_behind(tmp_path):
    """As Ctrl-C does it: the task is cancelled while it waits."""

    async def tale(client: Client, asked: Asked, said: list[str]) -> None:
        task = asyncio.ensure_future(carry_out(client, asked, 20, said.append))
        while not (await client.list(EVICTION_REQUEST, SPACE)).items:
            await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await leaving(client) == []

    told(tmp_path, tale)


def test_a_pod_that_stays_is_named(tmp_path, monkeypatch):
    """An eviction that is refused although the rehearsal was not: the others went, and what is left is said."""

    async def tale(client: Client, asked: Asked, said: list[str]) -> None:
        evict = client.evict

        async def evicting(namespace: str, pod: str, uid: str, **more: Any) -> None:
            if pod == "busy-1" and not more.get("dry_run"):
                raise Forbidden(
                    Call("create", "pods/eviction", namespace, pod, write=True), "an admission plugin says no"
                )
            await evict(namespace, pod, uid, **more)

        monkeypatch.setattr(client, "evict", evicting)
        answering = asyncio.ensure_future(answers(client, GRANTED))
        came = await carry_out(client, asked, 2, said.append)
        await answering
        assert (came.good, came.evicted) == (False, ("default/busy-0",))
        assert "default/busy-1 stayed: an admission plugin says no" in came.message

    told(tmp_path, tale)


# With everything: the scheduler, controllers that create pods again, and the printed command.


def job(name: str, count: int) -> dict[str, Any]:
    asked = {"limits": {"nvidia.com/gpu": "1"}}
    spec = {
        "schedulerName": "kai-scheduler",
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "c", "image": "i", "resources": asked}],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"parallelism": count, "completions": 1000, "template": {"spec": spec}},
    }


def waiting(name: str) -> dict[str, Any]:
    asked = {"limits": {"nvidia.com/gpu": "2"}}
    spec = {"schedulerName": "kai-scheduler", "containers": [{"name": "c", "image": "i", "resources": asked}]}
    metadata = {"name": name, "annotations": {"pod-group-name": "train"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def test_the_command_that_explain_prints_makes_the_gang_run_though_the_owner_refills(tmp_path):
    """A Job with surplus fills both nodes. When its pods are deleted one by one, it takes the room right back. The
    printed command, word for word, gives the room to the gang, and the gang keeps it.
    """

    async def muster(*args: str, code: int) -> str:
        known = {**os.environ, "KUBECONFIG": str(tmp_path / "kubeconfig"), "COLUMNS": "200"}
        command = [sys.executable, "-m", "muster", *args]
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, env=known, timeout=90)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    async def story() -> None:
        async with playground(tmp_path) as place:
            client, stop = place.client, asyncio.Event()
            running = asyncio.ensure_future(place.run(stop))

            async def where(prefix: str) -> list[str]:
                found = (await client.list(POD, "default")).items
                mine = [one for one in found if one.metadata.name.startswith(prefix)]
                return [one.spec.node_name for one in mine if one.metadata.deletion_timestamp is None]

            async def until(holds: Callable[[], Coroutine[Any, Any, bool]]) -> None:
                async with asyncio.timeout(30):
                    while not await holds():
                        await asyncio.sleep(0.1)

            async def is_full() -> bool:
                return len([one for one in await where("busy") if one]) == 8

            for name in ("n1", "n2"):
                amounts = {"cpu": "8", "memory": "16Gi", "pods": "110", "nvidia.com/gpu": "4"}
                body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"capacity": amounts}}
                await client.create(NODES, "", body)
            await client.create(JOBS, "default", job("busy", 8))
            await until(is_full)
            await client.create(POD_GROUP, "default", group("train", minMember=2, priorityClassName="train"))
            for at in range(2):
                await client.create(POD, "default", waiting(f"train-{at}"))

            async def waits() -> bool:
                return (await client.get(POD_GROUP, "default", "train")).status.reason == "InsufficientResources"

            await until(waits)
            told = json.loads(await muster("explain", "default/train", "-o", "json", code=1))
            commands = {one["kind"]: one["command"] for one in told["remedies"]}
            assert shlex.split(commands["free"])[:2] == ["kubectl", "drain"]
            # By hand, as it was printed before.
            dry = json.loads(await muster("evict", "--for", "default/train", "-o", "json", code=0))
            assert [one["owner"] for one in dry["evict"]] == ["Job/busy"] * 4
            for one in dry["evict"]:
                await client.delete(POD, *one["pod"].split("/"))
                await until(is_full)
            assert await where("train") == ["", ""]
            # And as it is printed.
            words = shlex.split(commands["evict"])
            assert words[:4] == ["muster", "evict", "--for", "default/train"]
            said = await muster(*words[1:], code=0)
            assert "default/train has its room" in said
            assert all(await where("train"))
            await asyncio.sleep(1)
            assert all(await where("train"))
            refilled = await where("busy")
            assert (len(refilled), refilled.count("")) == (8, 4)
            assert (await client.list(EVICTION_REQUEST, SPACE)).items == []
            stop.set()
            await running

    asyncio.run(story())
