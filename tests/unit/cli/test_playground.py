"""`muster run --embedded`: what it is called with, what its cluster has, and what is there when it is started again."""

import asyncio
import json
import os
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from muster.api.kinds import POD, POD_GROUP
from muster.cli.claim import Claim
from muster.cli.playground import Playground
from muster.config import load
from muster.controllers.process import End
from muster.errors import Invalid, NotFound, UsageError
from muster.kube.client import Client, Limits
from muster.kube.kubeconfig import connect
from muster.kube.resources import LEASE, Resource
from muster.telemetry import SILENT, Metrics
from unit.cli.played import KUBECONFIG

ROOT = Path(__file__).parents[3]
MAPS = Resource("v1", "ConfigMap", "configmaps")
NODES = Resource("v1", "Node", "nodes", namespaced=False)
QUEUES = Resource("scheduling.run.ai/v2", "Queue", "queues", namespaced=False)
CLASSES = Resource("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", namespaced=False)


def gang(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": POD_GROUP.api_version, "kind": "PodGroup", "metadata": {"name": name}, "spec": spec}


def pod(name: str, gang: str, gpus: int = 8) -> dict[str, Any]:
    asked = {"limits": {"nvidia.com/gpu": gpus}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": {"pod-group-name": gang}},
        "spec": {"schedulerName": "kai-scheduler", "containers": [{"name": "c", "image": "i", "resources": asked}]},
    }


def node(name: str) -> dict[str, Any]:
    amounts = {"cpu": "8", "memory": "16Gi", "pods": "110", "nvidia.com/gpu": "8"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"capacity": amounts}}


# What it is called with.


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("--embedded", "--context", "x"), "--context"),
        (("--embedded", "--webhook", ":9443"), "--webhook"),
        (("--embedded", "--listen", "nowhere"), "--listen"),
        (("--embedded", "--kubeconfig", "k", "--set", "page.signIn=cluster"), "--set page.signIn=auto"),
        (("--data", "play.db"), "--data"),
        (("--port", "0"), "--port"),
        (("--nodes", "0"), "--nodes"),
        (("--embedded", "--port", "65536"), "--port"),
        (("--embedded", "--nodes", "-1"), "--nodes"),
        (("--embedded", "--kubeconfig", "."), "kubeconfig"),
        (("--embedded", "--kubeconfig", os.devnull), os.devnull),
        (("--embedded", "--kubeconfig", "k", "--data", "."), "--data"),
        (("--embedded", "--kubeconfig", "k", "--data", ""), "--data"),
        (("--embedded", "--kubeconfig", "k", "--data", "nowhere/play.db"), "--data"),
        (("--embedded", "--kubeconfig", "k", "--lease-namespace", "No_Name"), "No_Name"),
        (("--embedded", "--kubeconfig", "k", "--set", "defaultQueue=No_Queue"), "No_Queue"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_wrong_call_is_a_sentence_with_a_hint(muster, tmp_path, monkeypatch, args, says):
    monkeypatch.chdir(tmp_path)
    done = muster("run", *args)
    assert (done.code, done.out) == (2, "")
    assert says in done.err
    assert "→" in done.err or "Try 'muster run --help'" in done.err
    assert not (tmp_path / "k").exists()


def test_a_port_of_somebody_else_is_told(muster, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = muster("run", "--embedded", "--kubeconfig", tmp_path / "k", "--port", port)
    assert done.code == 2
    assert f"port {port}" in done.err
    assert "--port" in done.err


def test_who_can_not_serve_the_page_says_nothing_but_that(muster, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        page = f"127.0.0.1:{taken.getsockname()[1]}"
        done = muster("run", "--embedded", "--kubeconfig", tmp_path / "k", "--page", page)
    assert done.code == 2
    assert page in done.err or "in use" in done.err
    assert "A cluster of its own" not in done.err + done.out
    assert "The page" not in done.out


def test_a_file_of_somebody_else_is_not_taken_for_a_cluster(muster, tmp_path):
    text = tmp_path / "text"
    text.write_text("a letter\n")
    database = tmp_path / "database"
    with sqlite3.connect(database) as made:
        made.execute("CREATE TABLE letters (text TEXT)")
    made.close()
    for file in (text, database):
        before = file.read_bytes()
        done = muster("run", "--embedded", "--kubeconfig", tmp_path / "k", "--data", file)
        assert (done.code, str(file) in done.err) == (2, True)
        assert file.read_bytes() == before


# The kubeconfig.


def test_a_kubeconfig_of_another_cluster_is_never_overwritten(tmp_path):
    file = tmp_path / "config"
    file.write_text(json.dumps(KUBECONFIG))
    with pytest.raises(UsageError, match="no playground wrote it"):
        Claim(file)
    assert json.loads(file.read_text()) == KUBECONFIG
    link = tmp_path / "link"
    link.symlink_to(file)
    with pytest.raises(UsageError, match="no playground wrote it"):
        Claim(link)


def edited(**parts):
    """What a playground wrote, after `kubectl config`."""
    entries = {"clusters": [{"name": "muster-embedded", "cluster": {"server": "http://a.example"}}]}
    entries |= {"users": [{"name": "muster-embedded", "user": {}}]}
    return {**entries, **parts}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (edited(clusters=[*edited()["clusters"], {"name": "mine", "cluster": {"server": "http://b.example"}}]), "mine"),
        (edited(clusters=[]), "none any more"),
    ],
    ids=["another cluster came", "its own went"],
)
def test_a_kubeconfig_that_was_changed_since_is_kept_and_what_to_do_is_told(tmp_path, content, says):
    file = tmp_path / "config"
    file.write_text(json.dumps(content))
    with pytest.raises(UsageError, match=f"was changed since a playground wrote it .*{says}") as refused:
        Claim(file)
    assert f"mv {file} elsewhere" in refused.value.hint
    assert json.loads(file.read_text()) == content


def test_a_kubeconfig_with_another_namespace_or_context_is_still_ours(tmp_path):
    file = tmp_path / "config"
    more = [{"name": "team", "context": {"cluster": "muster-embedded", "user": "muster-embedded", "namespace": "t"}}]
    file.write_text(json.dumps(edited(contexts=more)))
    with Claim(file):
        pass


@pytest.mark.parametrize("text", ["- a list", "{", "clusters: none", "clusters: [1, {}]", "\0"])
def test_no_content_is_taken_for_a_kubeconfig_of_ours(tmp_path, text):
    file = tmp_path / "config"
    file.write_text(text)
    with pytest.raises(UsageError, match="no playground wrote it"):
        Claim(file)
    assert file.read_text() == text


def test_no_folder_is_made_for_a_kubeconfig_but_the_usual_one(tmp_path):
    """A name that was mistyped is told."""
    with pytest.raises(UsageError, match="No such file or directory") as refused:
        Claim(tmp_path / "new" / "config")
    assert f"make the folder {tmp_path / 'new'} first" in refused.value.hint
    assert list(tmp_path.iterdir()) == []


def test_a_kubeconfig_belongs_to_one_playground_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    file = tmp_path / ".muster" / "config"
    with Claim(file):
        with pytest.raises(UsageError, match="runs already") as refused:
            Claim(file)
        assert "export KUBECONFIG=~/.muster/config" in refused.value.hint
    assert not file.exists()
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


# The cluster.


def playground(folder: Path, **more: Any) -> Playground:
    return Playground(load().config, kubeconfig=folder / "kubeconfig", log=SILENT, metrics=Metrics(), **more)


async def until(place: Playground, holds: Any) -> None:
    """Look after every change, until it holds."""
    changed = asyncio.Event()
    stop = place.server.core.store.subscribe(lambda _: changed.set())
    async with asyncio.timeout(30):
        while not await holds():
            await changed.wait()
            changed.clear()
    stop()


def test_a_playground_has_what_an_installation_has_and_schedules(tmp_path):
    async def played() -> None:
        async with playground(tmp_path) as place:
            client = place.client
            assert place.url.startswith("https://127.0.0.1:")
            assert stat.S_IMODE(place.kubeconfig.stat().st_mode) == 0o600
            assert [one["metadata"]["name"] for one in (await client.list(QUEUES)).items] == ["default-queue"]
            values = {one["metadata"]["name"]: one["value"] for one in (await client.list(CLASSES)).items}
            assert values.items() >= {"train": 50, "build-preemptible": 75, "build": 100, "inference": 125}.items()
            assert values["system-node-critical"] > values["system-cluster-critical"] > 10**9
            assert (await client.list(NODES)).items == []
            stop = asyncio.Event()
            running = asyncio.ensure_future(place.run(stop))
            for name in ("n1", "n2"):
                await client.create(NODES, "", node(name))
            await client.create(POD_GROUP, "default", gang("g", minMember=2))
            for name in ("g-0", "g-1"):
                await client.create(POD, "default", pod(name, "g"))

            async def scheduled() -> bool:
                found = await client.get(POD_GROUP, "default", "g")
                phases = [one.status.phase for one in (await client.list(POD, "default")).items]
                return found.status.phase == "Scheduled" and phases == ["Running", "Running"]

            await until(place, scheduled)
            stop.set()
            ended = await running
            assert (ended.how, ended.defects) == (End.STOPPED, [])

    asyncio.run(played())


def test_an_invalid_gang_is_refused_when_it_is_written(tmp_path):
    async def tried() -> None:
        async with playground(tmp_path) as place:
            bad = gang("g", subGroups=[{"name": "a", "minMember": 1, "parent": "b"}])
            with pytest.raises(Invalid, match=r"spec.subGroups\[0\].parent"):
                await place.client.create(POD_GROUP, "default", bad)
            with pytest.raises(Invalid, match="write minMember instead"):
                await place.client.create(POD_GROUP, "default", gang("g", minSubGroup=1))

    asyncio.run(tried())


def test_admission_knows_what_was_written_just_before(tmp_path):
    """A queue and its gang in one file: the gang is not told that its queue is missing."""

    async def tried() -> None:
        async with playground(tmp_path) as place:
            said = []
            ask = place._plane.server.core.reviews[0]
            place._plane.server.core.reviews = [lambda asked: said.append(verdict := ask(asked)) or verdict]
            queue = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "q"}, "spec": {}}
            await place.client.create(QUEUES, "", queue)
            await place.client.create(POD_GROUP, "default", gang("g", minMember=1, queue="q"))
            await place.client.delete(QUEUES, "", "q")
            await place.client.create(POD_GROUP, "default", gang("h", minMember=1, queue="q"))
            assert [len(one.warnings) for one in said] == [0, 0, 0, 1]

    asyncio.run(tried())


# The process.


class Started:
    """`muster run --embedded` as a process."""

    def __init__(self, process: subprocess.Popen[str], kubeconfig: Path) -> None:
        self.process, self.kubeconfig = process, kubeconfig
        self.said: list[str] = []

    def read_until(self, words: str) -> None:
        """Read what it says until a line has these words."""
        assert self.process.stderr
        for line in self.process.stderr:
            self.said.append(line)
            if words in line:
                return
        raise AssertionError("".join(self.said))

    def ask(self, do: Any) -> Any:
        """What a client finds there."""

        async def asked() -> Any:
            async with Client(connect(self.kubeconfig), limits=Limits(attempts=1)) as client:
                return await do(client)

        return asyncio.run(asked())


@contextmanager
def started(folder: Path, *args: object) -> Iterator[Started]:
    """One that leads; it is ended at the end, if it was not before."""
    kubeconfig = folder / "kubeconfig"
    command = [sys.executable, "-m", "muster", "run", "--embedded", "--kubeconfig", str(kubeconfig), *map(str, args)]
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environ) as process:
        found = Started(process, kubeconfig)
        try:
            found.read_until('"leading"')
            yield found
        finally:
            if process.poll() is None:
                process.kill()


async def seen(client: Client) -> Any:
    """Uids, nodes and start times of all pods, and the gangs."""
    pods = (await client.list(Resource("v1", "Pod", "pods"))).items
    gangs = (await client.list(POD_GROUP)).items
    return (
        sorted((one["metadata"]["uid"], one["spec"]["nodeName"], one["status"]["startTime"]) for one in pods),
        [(one.metadata.uid, one.status.phase, one.status.start_time) for one in gangs],
    )


def test_it_ends_in_order_and_a_second_start_finds_everything_again(tmp_path):
    """Told to end it hands over and ends with 0; what ran goes on running, undisturbed."""
    data = tmp_path / "play.db"

    async def filled(client: Client) -> Any:
        await client.create(POD_GROUP, "default", gang("g", minMember=2))
        for name in ("g-0", "g-1"):
            await client.create(POD, "default", pod(name, "g"))
        async with asyncio.timeout(30):
            while (await client.get(POD_GROUP, "default", "g")).status.phase != "Scheduled" or not all(
                one.status.start_time for one in (await client.list(POD)).items
            ):
                pass
        return await seen(client)

    with started(tmp_path, "--data", data) as first:
        before = first.ask(filled)
        assert "export KUBECONFIG=" in "".join(first.said)
        first.process.send_signal(signal.SIGINT)
        assert first.process.wait(30) == 0
    assert stat.S_IMODE(data.stat().st_mode) == 0o600
    with started(tmp_path, "--data", data, "--nodes", "3") as second:
        assert "has 8" in "".join(second.said)
        assert second.ask(seen) == before


@pytest.mark.parametrize(
    ("first", "again", "nodes"),
    [((), (), 8), (("--nodes", "0"), (), 0), (("--nodes", "0"), ("--nodes", "2"), 2)],
    ids=["the usual ones", "none stay none", "none until somebody asks for them"],
)
def test_a_cluster_that_is_kept_gets_no_nodes_that_nobody_asked_for(tmp_path, first, again, nodes):
    async def counted(client: Client) -> int:
        return len((await client.list(NODES)).items)

    data = tmp_path / "play.db"
    for args in (first, again):
        with started(tmp_path, "--data", data, *args) as one:
            found = one.ask(counted)
    assert found == nodes


def test_nothing_that_was_answered_is_lost_with_the_process(tmp_path):
    """Killed while somebody writes: every write that was answered is there, and the next one leads at once."""
    data = tmp_path / "play.db"
    names = [f"m-{number}" for number in range(200)]

    with started(tmp_path, "--data", data, "--nodes", "0") as first:

        async def writing(client: Client) -> list[str]:
            answered: list[str] = []

            async def write(name: str) -> None:
                await client.create(MAPS, "default", {"metadata": {"name": name}, "data": {"name": name}})
                answered.append(name)
                if len(answered) == 20:
                    first.process.kill()

            await asyncio.gather(*map(write, names), return_exceptions=True)
            return answered

        answered = first.ask(writing)
    assert 20 <= len(answered) < len(names)

    async def found(client: Client) -> Any:
        listed = (await client.list(MAPS, "default")).items
        lease = await client.get(LEASE, "muster-system", "muster")
        return {one["metadata"]["name"]: one["data"]["name"] for one in listed}, lease["spec"]["holderIdentity"]

    with started(tmp_path, "--data", data) as second:
        maps, holder = second.ask(found)
        assert maps.items() >= {name: name for name in answered}.items()
        assert f'"identity": "{holder}"' in "".join(second.said)


def test_a_cluster_belongs_to_one_process_at_a_time(tmp_path, muster):
    data = tmp_path / "play.db"
    with started(tmp_path, "--data", data):
        done = muster("run", "--embedded", "--kubeconfig", tmp_path / "other", "--data", data)
        assert (done.code, str(data) in done.err, "another process" in done.err) == (2, True, True)
        done = muster("run", "--embedded", "--kubeconfig", tmp_path / "kubeconfig")
        assert (done.code, "runs already" in done.err) == (2, True)


def test_health_and_metrics_are_served_beside_it(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with started(tmp_path, "--listen", f"127.0.0.1:{port}"):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz") as answer:
            assert answer.status == 200
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            assert b"muster_" in answer.read()


def test_muster_is_known_by_its_own_name_and_leads_by_the_lease_of_a_namespace_of_choice(tmp_path):
    async def looked(client: Client) -> Any:
        lease = await client.get(LEASE, "elsewhere", "muster")
        with pytest.raises(NotFound):
            await client.get(LEASE, "muster-system", "muster")
        return lease["metadata"]["managedFields"][0]["manager"]

    with started(tmp_path, "--lease-namespace", "elsewhere") as one:
        assert one.ask(looked) == "muster"
