"""The page as commands serve it: what it is of, where it listens, and that its answers are those of the commands."""

import asyncio
import io
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import aiohttp
import pytest

from muster.api.kinds import POD, POD_GROUP
from muster.cli import ui as command
from muster.cli.observed import Observed
from muster.cli.onlooking import look_on
from muster.cli.options import Server
from muster.cli.plane import Plane
from muster.cli.showing import HOST, PORT, Showing, Where, showing_of, where_of
from muster.config import Config, PageConfig, load
from muster.errors import BudgetRefused, Call, UsageError
from muster.kube.resources import Resource
from muster.serve.views.frame import Source
from muster.telemetry import SILENT, Log, Metrics
from unit.cli.test_playground import gang, node, pod

ROOT = Path(__file__).parents[3]
CLUSTER, INFERENCE = str(ROOT / "examples" / "cluster"), str(ROOT / "examples" / "inference.yaml")
ANY = Where(port=0, exact=True)
NOW = "2026-01-31T12:00:00Z"


class Opened:
    """The page, as somebody has opened it."""

    def __init__(self, session: aiohttp.ClientSession, address: str) -> None:
        self.address, _, self.token = address.partition("/#token=")
        self.session, self.headers = session, {"Authorization": f"Bearer {self.token}"}

    async def ask(self, path, data=None):
        method = "GET" if data is None else "POST"
        async with self.session.request(method, self.address + path, headers=self.headers, data=data) as answer:
            assert answer.status == 200, await answer.text()
            return await answer.json()

    async def until(self, holds):
        """The first frame that looks so."""
        async with asyncio.timeout(30):
            while True:
                async with self.session.get(self.address + "/api/frame", headers=self.headers) as answer:
                    frame = await answer.json()
                    if answer.status == 200 and holds(frame):
                        return frame
                await asyncio.sleep(0.05)


def opened(showing: Showing, work, where: Where = ANY):
    async def run():
        async with showing.served(where) as address, aiohttp.ClientSession() as session:
            return await work(Opened(session, address))

    return asyncio.run(run())


def of_files(*names, now=NOW, **flags) -> Showing:
    return command._of_files(names, load(flags=flags.get("flags", ())).config, now, strict=True)


# Files.


def test_files_are_one_cycle():
    async def work(page):
        session = await page.ask("/api/session")
        assert session["source"] == {"kind": "file", "name": f"{CLUSTER}, {INFERENCE}"}
        frame = await page.ask("/api/frame")
        assert set(frame["gangs"]) == {"default/monthly", "default/inference-service"}
        assert (frame["decision"], frame["at"]) == ("", NOW)

    opened(of_files(CLUSTER, INFERENCE), work)


@pytest.mark.parametrize("name", ["default/monthly", "default/inference-service"])
def test_an_explanation_is_that_of_the_command(muster, name):
    said = muster("explain", name, "-f", CLUSTER, "-f", INFERENCE, "--now", NOW, "-o", "json").json

    async def work(page):
        return await page.ask(f"/api/gangs/{name}/explanation")

    found = opened(of_files(CLUSTER, INFERENCE), work)
    assert found.pop("command") == f"muster explain {name} -f {CLUSTER} -f {INFERENCE}"
    assert found == said


@pytest.mark.parametrize("added", [INFERENCE, str(ROOT / "examples" / "grouping")], ids=["gang", "workload"])
def test_a_what_if_is_that_of_the_command(muster, added, tmp_path):
    """The same pods to the same nodes, the same gangs out of the same workloads, and the same reasons."""
    said = muster("plan", "-f", CLUSTER, "--add", added, "--now", NOW, "-o", "json").json
    paths = sorted(Path(added).rglob("*.yaml")) if Path(added).is_dir() else [Path(added)]
    text = "\n---\n".join(path.read_text() for path in paths if "cases" not in path.parts)

    async def work(page):
        return await page.ask("/api/what-if", data=text)

    found = opened(of_files(CLUSTER), work)
    assert found["ok"]
    assert sorted((ghost[1], ghost[2]) for ghost in found["pods"] if ghost[5] == "binding") == sorted(
        (one["pod"], one["node"]) for one in said["bindings"]
    )
    (new,) = [one for one in said["podGroups"] if one["name"] != "monthly"]
    (name,) = found["gangs"]
    assert name == f"default/{new['name']}"
    assert found["explanations"][name]["verdict"] == new["verdict"]
    assert found["command"] == f"muster plan -f {CLUSTER} --add FILE"


def test_a_what_if_names_victims_and_what_becomes_of_them(tmp_path, muster):
    """A gang of a higher priority in a full cluster: as with --add, somebody goes for it."""
    there = [node("n"), gang("old", minMember=1, preemptibility="preemptible"), pod("old-0", "old")]
    there[-1]["spec"] |= {"nodeName": "n"}
    coming = [gang("new", minMember=1, priorityClassName="inference"), pod("new-0", "new")]
    file, more = tmp_path / "there.json", tmp_path / "more.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": there}))
    more.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": coming}))
    said = muster("plan", "-f", file, "--add", more, "-o", "json").json
    assert [one["pod"] for one in said["evictions"]] == ["old-0"]

    async def work(page):
        return await page.ask("/api/what-if", data=more.read_text())

    found = opened(of_files(str(file)), work)
    assert found["victims"] == [{**said["evictions"][0], "gang": "default/old", "node": "n"}]
    assert found["others"] == ["default/old: Placed, 1 pod → Held, 0 pods, 1 pod evicted"]
    assert [ghost[:3] for ghost in found["pods"]] == [["default/new", "new-0", "n"]]


@pytest.mark.parametrize("text", ["root:x:0:0:root:/root:/bin/bash", "[" * 100_000, "a: &a [1]\nb: *a"], ids=len)
def test_a_file_that_can_not_be_read_is_no_page(muster, tmp_path, text):
    """It says so, as `muster plan` does, with the file and what is wrong, instead of an empty page."""
    file = tmp_path / "passwd"
    file.write_text(text)
    told, planned = muster("ui", "-f", file, "--port", "0"), muster("plan", "-f", file)
    assert (told.code, planned.code) == (1, 1)
    said = planned.err[planned.err.index("document: has errors") : planned.err.index("next:")]
    assert f"({file}, document 1)" in said
    assert told.err == f"{said}next: muster validate -f {file}\n"


def test_what_was_read_is_told_on_the_page_too(tmp_path, capsys):
    """Each file and document that is left out, what is wrong with it, and what to do; also what was passed over."""
    bad, good = tmp_path / "bad.yaml", tmp_path / "good.json"
    bad.write_text("just words\n---\nkind: [\n")
    wrong, other = gang("g", minMember=-1), {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}}
    good.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [wrong, other]}))

    async def work(page):
        assert set((await page.ask("/api/session"))["source"]) == {"kind", "name"}
        return (await page.ask("/api/frame"))["reading"]

    found = opened(of_files(str(bad), str(good)), work)
    assert found["command"] == f"muster validate -f {bad} -f {good}"
    told = {(one["what"], one["where"]): one["says"] for one in found["notes"]}
    assert told["document has errors", f"{bad}, document 1"] == ['is not a Kubernetes object but "just words"']
    assert ("document has errors", f"{bad}, document 2") in told
    (says,) = told["PodGroup default/g has errors", f"{good}, document 1"]
    assert "minMember" in says
    assert any(what.startswith("no nodes in the input") for what, _ in told)
    assert ("skipped 1 object of other kinds: Deployment (1)", "") in told
    assert all(one["where"] in capsys.readouterr().err for one in found["notes"][:1])


def test_nodes_and_pods_are_something_to_show(tmp_path):
    """Though all else in the file is broken."""
    file = tmp_path / "mixed.yaml"
    file.write_text(f"just words\n---\n{json.dumps(node('n'))}\n")

    async def work(page):
        return await page.ask("/api/frame")

    found = opened(of_files(str(file)), work)
    assert list(found["nodes"]) == ["n"]
    assert [one["what"] for one in found["reading"]["notes"]] == ["document has errors"]


def test_where_all_is_well_there_is_nothing_to_say():
    async def work(page):
        return await page.ask("/api/frame")

    assert "reading" not in opened(of_files(CLUSTER), work)


@pytest.mark.parametrize("name", ["cycle.json", "cycle.json.gz"])
def test_a_snapshot_file_has_its_own_moment(muster, tmp_path, name):
    file = tmp_path / name
    assert muster("snapshot", "-f", CLUSTER, "--to", file, "--now", "2025-05-05T05:05:05Z").code == 0

    async def work(page):
        frame = await page.ask("/api/frame")
        assert (frame["at"], list(frame["gangs"])) == ("2025-05-05T05:05:05Z", ["default/monthly"])
        explained = await page.ask("/api/gangs/default/monthly/explanation")
        assert explained["command"] == f"muster replay {file} -o wide"

    opened(of_files(str(file), now=None), work)


@pytest.mark.parametrize("recorded", [False, True])
def test_standard_input_is_a_file_too(muster, monkeypatch, recorded):
    text = muster("snapshot", "-f", CLUSTER).out if recorded else (ROOT / "examples" / "flat.yaml").read_text()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(text.encode()))))

    async def work(page):
        return await page.ask("/api/frame")

    assert opened(of_files("-"), work)["gangs"]


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("-f", "nowhere.yaml"), "nowhere.yaml"),
        (("-f", CLUSTER, "--context", "x"), "--context"),
        (("-f", CLUSTER, "--now", "soon"), "--now"),
        (("-f", CLUSTER, "--port", "70000"), "--port"),
        (("--now", NOW), "--now"),
        (("--kubeconfig", "/nowhere/config"), "/nowhere/config"),
        (("-f", CLUSTER, "--set", "page.enabled=on"), "page.enabled"),
        (("-f", CLUSTER, "--set", "page.signIn=cluster"), "--set page.signIn=auto"),
        (("--set", "page.signIn=cluster"), "--set page.signIn=auto"),
    ],
    ids=str,
)
def test_a_wrong_call_is_a_sentence(muster, args, says):
    done = muster("ui", *args)
    assert (done.code, done.out) == (2, "")
    assert says in done.err


# Where.


@pytest.mark.parametrize(
    ("config", "option", "in_pod", "expected"),
    [
        ({}, None, False, Where()),
        ({}, None, True, None),
        ({}, "off", False, None),
        ({}, "on", True, Where("", PORT, exact=True)),
        ({"enabled": "always"}, None, True, Where("", PORT, exact=True)),
        ({"enabled": "never"}, None, False, None),
        ({"enabled": "never"}, "on", False, Where()),
        ({"enabled": "never"}, "127.0.0.1:1", False, Where(HOST, 1, exact=True)),
        ({"enabled": "always"}, "off", True, None),
        ({"listen": "[::1]:99"}, None, False, Where("::1", 99, exact=True)),
        ({"listen": "[::1]:99"}, ":5", False, Where("", 5, exact=True)),
        ({"listen": ":99", "enabled": "always"}, None, True, Where("", 99, exact=True)),
        ({"listen": ":99"}, None, True, None),
        ({"hosts": ["a.example"]}, None, False, Where(hosts=["a.example"])),
    ],
    ids=str,
)
def test_where_the_page_is(config, option, in_pod, expected):
    found = where_of(PageConfig(**config), option, in_pod=in_pod)
    assert found == expected or found == (expected and expected._replace(hosts=[]))


@pytest.mark.parametrize("option", ["nowhere", "1.2.3.4", "a:b", ":99999"])
def test_where_the_page_can_not_be(option):
    with pytest.raises(UsageError, match="--page"):
        where_of(PageConfig(), option, in_pod=False)
    with pytest.raises(UsageError, match=r"page\.listen"):
        where_of(PageConfig(listen=option), None, in_pod=False)


def test_a_port_that_is_taken():
    """Where nobody said which, the next one will do, and everything works there."""

    async def work(page):
        async with page.session.get(page.address + "/api/events", headers=page.headers) as answer:
            async for line in answer.content:
                if line.startswith(b"event: "):
                    assert line == b"event: frame\n"
                    break
        return page.address

    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        address = opened(of_files(CLUSTER), work, Where(port=port))
        assert 0 < int(address.rpartition(":")[2]) - port < 20
        with pytest.raises(UsageError, match="somebody else listens there"):
            opened(of_files(CLUSTER), work, Where(port=port, exact=True))


# A scheduler.


@asynccontextmanager
async def a_plane(tmp_path):
    plane = Plane(Config(), kubeconfig=tmp_path / "kubeconfig", nodes=2, log=SILENT, metrics=Metrics())
    async with plane, plane.admin() as client:
        yield plane, client


async def fill(client):
    await client.create(POD_GROUP, "default", gang("g", minMember=2))
    for name in ("g-0", "g-1"):
        await client.create(POD, "default", pod(name, "g"))


@asynccontextmanager
async def beside(*work):
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def a_process(plane, source="live"):
    """A muster process with a page, which runs; and the page."""
    async with plane.muster() as own:
        log = io.StringIO()
        observed = Observed(own, Config(), "muster-system", log=Log(log), metrics=Metrics())
        showing = showing_of(observed, Config(), Source(source, "here"), flags="--context x", log=Log(log))
        stop = asyncio.Event()
        running = asyncio.ensure_future(observed.run(stop))
        try:
            async with showing.served(ANY) as address, aiohttp.ClientSession() as session:
                yield observed, Opened(session, address)
        finally:
            stop.set()
            await running
        assert address.partition("#")[2] not in log.getvalue()


def test_a_scheduler_shows_what_it_does(tmp_path):
    async def run():
        async with a_plane(tmp_path) as (plane, client), beside(plane.act()), a_process(plane) as (_, page):
            await page.until(lambda frame: len(frame["nodes"]) == 2)
            await fill(client)
            frame = await page.until(lambda frame: _is_running(frame, "default/g"))
            assert frame["decision"]
            assert frame["gangs"]["default/g"]["satisfied"]
            timeline = await page.ask("/api/timeline")
            kinds = {mark["kind"] for mark in timeline["lanes"]["default/g"]["marks"]}
            assert {"created", "placed"} <= kinds
            explained = await page.ask("/api/gangs/default/g/explanation")
            assert (explained["verdict"], explained["command"]) == ("Placed", "muster explain default/g --context x")
            said = await page.ask("/api/what-if", data=json.dumps(gang("h", minMember=1)))
            assert (said["ok"], list(said["gangs"])) == (False, ["default/h"])
            assert "h" not in {one.metadata.name for one in (await client.list(POD_GROUP)).items}

    asyncio.run(run())


def test_nobody_is_shown_to_go_who_was_not_told_to(tmp_path, monkeypatch):
    """The plan of a cycle may evict; when the pods could not be read first, nobody is evicted."""

    async def never(*_):
        return False

    async def run():
        async with a_plane(tmp_path) as (plane, client), beside(plane.act()), a_process(plane) as (observed, page):
            await page.until(lambda frame: len(frame["nodes"]) == 2)
            monkeypatch.setattr(observed.process.work, "_read_again", never)
            await client.create(POD_GROUP, "default", gang("low", minMember=1, preemptibility="preemptible"))
            for name in ("low-0", "low-1"):
                await client.create(POD, "default", pod(name, "low"))
            await page.until(lambda frame: _is_running(frame, "default/low") and not frame["summary"]["free"])
            await client.create(POD_GROUP, "default", gang("top", minMember=1, priorityClassName="inference"))
            await client.create(POD, "default", pod("top-0", "top"))
            frame = await page.until(lambda frame: _reason(frame, "default/top") == "WaitingForRoom")
            assert observed.process.scheduler.plan.evictions
            assert frame["decision"]
            assert _is_running(frame, "default/low")
            assert _states(frame, "default/low") == {"core", "surplus"}
            lane = (await page.ask("/api/timeline"))["lanes"]["default/low"]
            assert not {mark["kind"] for mark in lane["marks"]} & {"evicted", "below"}
            assert (await page.ask(f"/api/decisions/{frame['version']}"))["evictions"] == []

    asyncio.run(run())


def test_who_may_not_go_is_not_marked_as_bound(tmp_path, monkeypatch):
    """An eviction that is refused leaves a pod where it was: nobody bound it again."""

    async def run():
        async with a_plane(tmp_path) as (plane, client), beside(plane.act()), a_process(plane) as (observed, page):
            await page.until(lambda frame: len(frame["nodes"]) == 2)
            asked = []

            async def refuse(namespace, name, uid, **_):
                asked.append(name)
                await asyncio.sleep(0.1)
                raise BudgetRefused(
                    Call("create", "pods/eviction", namespace, name, write=True), "a budget", status=429
                )

            monkeypatch.setattr(observed.client, "evict", refuse)
            await client.create(POD_GROUP, "default", gang("low", minMember=1, preemptibility="preemptible"))
            for name in ("low-0", "low-1"):
                await client.create(POD, "default", pod(name, "low"))
            await page.until(lambda frame: _is_running(frame, "default/low") and not frame["summary"]["free"])
            await client.create(POD_GROUP, "default", gang("top", minMember=1, priorityClassName="inference"))
            await client.create(POD, "default", pod("top-0", "top"))
            await page.until(lambda frame: asked and not len(observed.process.scheduler.flights))
            await client.delete(POD, "default", "top-0")
            await page.until(lambda frame: _states(frame, "default/low") == {"core", "surplus"})
            marks = (await page.ask("/api/timeline"))["lanes"]["default/low"]["marks"]
            assert "evicted" in {mark["kind"] for mark in marks}
            assert sum(mark["pods"] for mark in marks if mark["kind"] == "bound") == 2

    asyncio.run(run())


def _reason(frame, name):
    return frame["gangs"].get(name, {}).get("reason")


def _states(frame, name):
    return {state for *_, state in frame["gangs"][name]["pods"]}


def _is_running(frame, name):
    return frame["gangs"].get(name, {}).get("state") == "running"


def test_one_that_stands_by_shows_what_the_other_does(tmp_path):
    """And plans only while somebody looks."""

    async def run():
        async with a_plane(tmp_path) as (plane, client), beside(plane.act()), a_process(plane) as (first, leads):
            await leads.until(lambda frame: True)
            async with a_process(plane) as (second, page):
                async with asyncio.timeout(10):
                    while not second.process.work.is_synced:
                        await asyncio.sleep(0.05)
                await asyncio.sleep(0.3)
                assert second.process.scheduler.plan is None
                await fill(client)
                frame = await page.until(lambda frame: _is_running(frame, "default/g"))
                assert frame["decision"] == ""
                assert (await leads.until(lambda frame: _is_running(frame, "default/g")))["decision"]
                assert first.process.scheduler.decision
                assert second.process.work.cycles == 0

    asyncio.run(run())


def test_one_that_looked_on_leads_as_if_it_had_not(tmp_path):
    """What it only thought of is told when it is done."""

    async def run():
        async with a_plane(tmp_path) as (plane, client), beside(plane.act()), AsyncExitStack() as first:
            _, leads = await first.enter_async_context(a_process(plane))
            await leads.until(lambda frame: True)
            async with a_process(plane) as (second, page):
                # More than there is room for: it waits, and so it is told.
                await client.create(POD_GROUP, "default", gang("g", minMember=3))
                for name in ("g-0", "g-1", "g-2"):
                    await client.create(POD, "default", pod(name, "g"))
                await page.until(lambda frame: frame["gangs"].get("default/g", {}).get("verdict") == "Infeasible")
                await first.aclose()
                await client.create(Resource("v1", "Node", "nodes", namespaced=False), "", node("more"))
                await page.until(lambda frame: frame["decision"] and _is_running(frame, "default/g"))
                assert second.process.work.cycles
                async with asyncio.timeout(20):
                    while (await client.get(POD_GROUP, "default", "g")).status.phase != "Scheduled":
                        await asyncio.sleep(0.1)

    asyncio.run(run())


def test_who_looks_on_writes_nothing(tmp_path):
    """A gang that nobody schedules: the page shows where it would go, and the cluster stays as it is."""

    async def run():
        async with a_plane(tmp_path) as (_, client):
            await fill(client)
            before = (await client.list(POD)).resource_version
            told = asyncio.get_running_loop().create_future()
            config = Server(kubeconfig=str(tmp_path / "kubeconfig"))
            looking = asyncio.ensure_future(look_on(config, Config(), ANY, told.set_result))
            try:
                async with aiohttp.ClientSession() as session:
                    page = Opened(session, await told)
                    frame = await page.until(lambda frame: "default/g" in frame["gangs"])
                    assert (frame["decision"], frame["source"]["kind"]) == ("", "live")
                    assert {one[4] for one in frame["gangs"]["default/g"]["pods"]} == {"binding"}
                    explained = await page.ask("/api/gangs/default/g/explanation")
                    assert explained["command"] == f"muster explain default/g {config.flags}"
                    await asyncio.sleep(0.5)
            finally:
                looking.cancel()
                with suppress(asyncio.CancelledError):
                    await looking
            assert (await client.list(POD)).resource_version == before

    asyncio.run(run())


def test_a_page_that_fails_costs_no_cycle(monkeypatch):
    """What can't be shown is said once, and scheduling goes on."""
    log = io.StringIO()
    showing = of_files(CLUSTER)
    showing._log = Log(log)

    def broken(*args, **more):
        raise ZeroDivisionError

    plan = showing._last.plan
    monkeypatch.setattr("muster.cli.showing.scene_of", broken)
    for _ in range(3):
        showing.planned(plan)
    assert len(log.getvalue().splitlines()) == 1


# The process.


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_in_order(number):
    """The address is all of its output, and whoever watches is told goodbye."""
    where = ["--set", f"page.listen={HOST}:0"]
    args = [sys.executable, "-m", "muster", "ui", "-f", CLUSTER, *where]
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    with subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ) as process:
        try:
            address = process.stdout.readline().strip()
            base, _, token = address.partition("/#token=")
            headers = {"Authorization": f"Bearer {token}"}
            with urllib.request.urlopen(urllib.request.Request(f"{base}/api/events", headers=headers)) as events:  # noqa: S310
                assert any(line == b"event: frame\n" for line in events)
                process.send_signal(number)
                assert b"event: bye\n" in list(events)
            out, err = process.communicate(timeout=20)
        finally:
            process.kill()
    assert (process.returncode, out) == (0, "")
    assert token not in err
    assert "Ctrl-C" in err
