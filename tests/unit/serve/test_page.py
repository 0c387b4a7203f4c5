"""The page over HTTP: who may ask, by which name and from where; resuming; limits; and nothing sent to it breaks it."""

import asyncio
import gzip
import io
import json
import threading
from contextlib import asynccontextmanager, suppress

import aiohttp
import pytest
from aiohttp import web

from muster.cli.asking import Asking
from muster.cli.explain import document_with, explained
from muster.config import Config
from muster.errors import Call, Unreachable
from muster.plan.cycle import schedule
from muster.serve.page import streams as streaming
from muster.serve.page.app import MAX_BODY_BYTES, MOST_ARRIVING, Page, Shown
from muster.serve.page.assets import Asset, assets
from muster.serve.page.gate import Names, OneToken
from muster.serve.page.history import History
from muster.serve.page.streams import Message, Streams
from muster.serve.server import listening
from muster.serve.views.seeing import Rights
from muster.snapshot.build import build
from muster.telemetry import SILENT, Log
from small_cluster import gang, node, pod
from unit.serve.scenes import HERE, Stage

HOST, TOKEN = "127.0.0.1", "open-sesame"
EVIL = "<img src=x onerror=alert(1)>"
FILES = {
    "/": Asset("text/html; charset=utf-8", b"<!doctype html>" * 20, gzip.compress(b"<!doctype html>" * 20), '"i"'),
    "/main.js": Asset("text/javascript; charset=utf-8", b"let a", b"", '"m"'),
}
MANIFEST = json.dumps(
    {"kind": "List", "apiVersion": "v1", "items": [gang("new", minMember=2), pod("n0", "new"), pod("n1", "new")]}
)


class Played:
    """A page on loopback, what is shown, and a browser."""

    def __init__(self, page, stage, session, port, log):
        self.page, self.stage, self.session, self.port, self.log = page, stage, session, port, log

    def url(self, path):
        return f"http://{HOST}:{self.port}{path}"

    def cycle(self, **more):
        self.page.note(self.stage.cycle(**more))

    async def ask(self, path, *, method="GET", by=TOKEN, data=None, **headers):
        sent = {"Authorization": f"Bearer {by}"} if by else {}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.session.request(method, self.url(path), headers=sent, data=data) as answer:
            return answer.status, answer.headers, await answer.read()

    async def json(self, path, **more):
        status, _, body = await self.ask(path, **more)
        return status, json.loads(body)


def a_stage():
    return Stage(
        *(node(f"n{number}", 4) for number in range(2)),
        gang("g", minMember=2),
        *(pod(f"p{number}") for number in range(2)),
        gang("large", minMember=20),
        *(pod(f"l{number}", "large") for number in range(20)),
    )


def played(work, *, callers=None, stage=None, history=None, asking=True, streams=None, cycles=1):
    stage = stage or a_stage()
    log = io.StringIO()

    async def run():
        shown = Shown(history or History(HERE), HERE)
        asked = Asking(Config(), stage.world, flags="-f x.yaml") if asking is True else asking
        page = Page(
            *(shown, Names(port=0), callers or OneToken(TOKEN), asked),
            log=Log(log, level="debug"),
            files=FILES,
            streams=streams,
        )
        async with page.listening(HOST, 0) as port, aiohttp.ClientSession() as session:
            page.names = Names(["page.example.com", "Other.example.com:444"], port=port)
            one = Played(page, stage, session, port, log)
            for _ in range(cycles):
                one.cycle()
            return await asyncio.wait_for(work(one), 30)

    found = asyncio.run(run())
    assert TOKEN not in log.getvalue()
    return found


@asynccontextmanager
async def stream(one, path="/api/events", by=TOKEN, **headers):
    """The messages of a stream, one after the other: event, id, data."""
    sent = {"Authorization": f"Bearer {by}", **{name.replace("_", "-"): value for name, value in headers.items()}}
    async with one.session.get(one.url(path), headers=sent) as answer:
        assert answer.status == 200, await answer.text()
        assert answer.headers["Content-Type"] == "text/event-stream; charset=utf-8"

        async def following():
            fields = {}
            async for line in answer.content:
                text = line.decode().rstrip("\n")
                if text:
                    name, _, value = text.partition(": ")
                    fields[name] = value
                elif fields:
                    if "event" in fields:
                        version, _, _ = fields.get("id", "0").partition("-")
                        yield fields["event"], int(version), json.loads(fields["data"])
                    elif ":" in fields:
                        yield "comment", 0, None
                    fields = {}

        yield following()


async def gone(writer):
    """The other side hangs up."""
    writer.transport.abort()
    with suppress(ConnectionError):
        await writer.wait_closed()


# Who may ask.


@pytest.mark.parametrize(
    ("path", "method"),
    [
        *((path, "GET") for path in ("/api/frame", "/api/events", "/api/timeline", "/api/decisions/1")),
        ("/api/gangs/default/g/explanation", "GET"),
        ("/api/what-if", "POST"),
    ],
)
@pytest.mark.parametrize("token", ["", "wrong", TOKEN[:-1], TOKEN + "x", "ä", "x" * 5000], ids=ascii)
def test_nothing_is_told_without_the_token(path, method, token):
    async def work(one):
        status, headers, body = await one.ask(
            path, method=method, by=token, data=MANIFEST if method == "POST" else None
        )
        said = json.loads(body)
        assert (status, headers["WWW-Authenticate"], said["error"]) == (401, "Bearer", "who are you?")
        assert "address" in said["hint"]

    played(work)


@pytest.mark.parametrize("header", [TOKEN, f"Basic {TOKEN}", f"Bearer{TOKEN}", "Bearer", "Bearer  "], ids=ascii)
def test_a_token_comes_in_one_way(header):
    async def work(one):
        status, _, _ = await one.ask("/api/frame", by="", Authorization=header)
        assert status == 401
        # An address is remembered by browsers, and logged by proxies.
        assert (await one.ask(f"/api/frame?token={TOKEN}", by=""))[0] == 401

    played(work)


def test_the_files_and_the_way_in_need_no_token():
    async def work(one):
        assert (await one.ask("/", by=""))[0] == 200
        status, said = await one.json("/api/session", by="")
        assert status == 200
        assert (said["mode"], said["source"]) == ("token", {"kind": "file", "name": "a test"})
        assert len(said["run"]) == 8

    played(work)


@pytest.mark.parametrize(
    ("host", "known"),
    [
        ("127.0.0.1:{port}", True),
        ("localhost:{port}", True),
        ("LOCALHOST:{port}", True),
        ("[::1]:{port}", True),
        ("page.example.com", True),
        ("page.example.com:8443", True),
        ("other.example.com:444", True),
        ("other.example.com:445", False),
        ("127.0.0.1", False),
        ("127.0.0.1:1", False),
        ("localhost:{port}.evil.com", False),
        ("evil.com:{port}", False),
        ("127.0.0.1.evil.com:{port}", False),
        ("", False),
        ("[::1", False),
        ("10.0.0.1:{port}", False),
        ("page.example.com.evil.com", False),
    ],
)
def test_only_known_names_are_answered(host, known):
    """A name of somebody else's can lead here (DNS rebinding): then not even the files are given."""

    async def work(one):
        for path in ("/api/frame", "/", "/api/session"):
            status, _, _ = await one.ask(path, Host=host.format(port=one.port))
            assert (status == 200) == known, status

    played(work)


def test_two_names_are_none():
    async def work(one):
        reader, writer = await asyncio.open_connection(HOST, one.port)
        writer.write(f"GET / HTTP/1.1\r\nHost: {HOST}:{one.port}\r\nHost: evil.com\r\n\r\n".encode())
        line = await asyncio.wait_for(reader.readline(), 5)
        assert line.split()[1] in (b"400", b"403")
        await gone(writer)

    played(work)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"Origin": "http://127.0.0.1:{port}"}, 200),
        ({"Origin": "https://127.0.0.1:{port}"}, 200),
        ({"Origin": "http://evil.com"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": ""}, 403),
        ({"Sec_Fetch_Site": "same-origin"}, 200),
        ({"Sec_Fetch_Site": "none"}, 200),
        ({"Sec_Fetch_Site": "cross-site"}, 403),
        ({"Sec_Fetch_Site": "same-site"}, 403),
    ],
    ids=str,
)
def test_other_sites_are_refused(headers, expected):
    async def work(one):
        sent = {name: value.format(port=one.port) for name, value in headers.items()}
        assert (await one.ask("/api/frame", **sent))[0] == expected
        assert (await one.ask("/api/what-if", method="POST", data=MANIFEST, **sent))[0] == expected

    played(work)


def test_a_link_from_elsewhere_opens_the_page():
    async def work(one):
        assert (await one.ask("/", by="", Sec_Fetch_Site="cross-site"))[0] == 200

    played(work)


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND"])
@pytest.mark.parametrize("path", ["/", "/api/frame", "/api/what-if"])
def test_the_page_can_only_be_read(method, path):
    async def work(one):
        status, headers, body = await one.ask(path, method=method)
        assert (status, headers["Allow"]) == (405, "GET, HEAD, POST")
        assert json.loads(body)["error"] == "the page can only be read"

    played(work)


@pytest.mark.parametrize(
    ("path", "token"),
    [("/", ""), ("/main.js", ""), ("/nothing", ""), ("/api/frame", TOKEN), ("/api/frame", ""), ("/api/nothing", TOKEN)],
)
def test_every_answer_says_what_a_browser_may_do_with_it(path, token):
    async def work(one):
        _, headers, _ = await one.ask(path, by=token)
        policy = headers["Content-Security-Policy"].split("; ")
        assert {"default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'"} < set(policy)
        assert not any("unsafe" in part or "http" in part for part in policy)
        assert (headers["X-Content-Type-Options"], headers["Referrer-Policy"]) == ("nosniff", "no-referrer")
        assert "Server" not in headers
        assert "Access-Control-Allow-Origin" not in headers

    played(work)


def test_nobody_may_keep_what_is_told():
    async def work(one):
        for path in ("/api/frame", "/api/session", "/api/timeline", "/api/gangs/default/g/explanation"):
            assert (await one.ask(path))[1]["Cache-Control"] == "no-store"

    played(work)


# The files.


def test_files_come_compressed_and_are_not_sent_twice():
    async def work(one):
        status, headers, body = await one.ask("/", by="", Accept_Encoding="gzip, br")
        assert (status, headers["Content-Encoding"], headers["Cache-Control"]) == (200, "gzip", "no-cache")
        assert body == FILES["/"].plain
        status, headers, body = await one.ask("/", by="", Accept_Encoding="identity")
        assert ("Content-Encoding" in headers, body) == (False, FILES["/"].plain)
        status, _, body = await one.ask("/", by="", If_None_Match='"i"')
        assert (status, body) == (304, b"")
        _, headers, body = await one.ask("/main.js", by="")
        assert (headers["Content-Type"], body) == ("text/javascript; charset=utf-8", b"let a")
        assert (await one.ask("/", method="HEAD", by=""))[2] == b""

    played(work)


@pytest.mark.parametrize("path", ["/../page.py", "/%2e%2e/page.py", "/..%2fpage.py", "//etc/passwd", "/static/main.js"])
def test_nothing_else_is_a_file(path):
    async def work(one):
        reader, writer = await asyncio.open_connection(HOST, one.port)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {HOST}:{one.port}\r\nConnection: close\r\n\r\n".encode())
        said = await asyncio.wait_for(reader.read(), 5)
        assert said.split()[1] == b"404", said
        await gone(writer)

    played(work)


def test_the_files_of_the_package_are_there():
    found = assets()
    assert found["/"] is found["/index.html"]
    assert {"/main.js", "/style.css"} <= set(found)
    for asset in found.values():
        assert not asset.packed or gzip.decompress(asset.packed) == asset.plain


# What is told.


def test_a_frame_of_now_and_of_then():
    async def work(one):
        _, first = await one.json("/api/frame")
        assert (first["version"], set(first["gangs"])) == (1, {"default/g", "default/large"})
        one.stage.apply(gang("later", minMember=1))
        one.cycle()
        _, second = await one.json("/api/frame")
        assert (second["version"], "default/later" in second["gangs"]) == (2, True)
        assert (await one.json("/api/frame?version=1"))[1]["gangs"] == first["gangs"]
        status, said = await one.json("/api/frame?version=77")
        assert (status, said["error"]) == (410, "version 77 is not kept any more")
        assert said["hint"]

    played(work)


@pytest.mark.parametrize("version", ["x", "-1", "1.5", "1" * 16, "٣", "1;2", EVIL])
def test_what_is_no_version_is_a_sentence(version):
    async def work(one):
        for path in ("/api/frame", "/api/gangs/default/g/explanation"):
            async with one.session.get(
                one.url(path), params={"version": version}, headers={"Authorization": f"Bearer {TOKEN}"}
            ) as answer:
                assert answer.status == 400
                assert answer.headers["Content-Type"] == "application/json"

    played(work)


def test_before_the_first_cycle_people_are_told_to_wait():
    async def work(one):
        status, headers, body = await one.ask("/api/frame")
        assert (status, headers["Retry-After"], json.loads(body)["error"]) == (503, "1", "nothing was planned yet")
        assert (await one.json("/api/timeline"))[1] == {"first": 0, "cycles": [], "lanes": {}}
        assert (await one.json("/api/gangs/default/g/explanation"))[0] == 503

    played(work, cycles=0)


def test_a_large_frame_is_compressed():
    async def work(one):
        _, headers, body = await one.ask("/api/frame", Accept_Encoding="gzip")
        assert headers["Content-Encoding"] == "gzip"
        assert len(json.loads(body)["nodes"]) == 300
        assert "Content-Encoding" not in (await one.ask("/api/frame", Accept_Encoding="gzip;q=0"))[1]

    played(work, stage=Stage(*(node(f"n{number}", 4) for number in range(300))))


def test_an_explanation_is_that_of_the_command():
    async def work(one):
        status, said = await one.json("/api/gangs/default/large/explanation")
        assert (status, said["verdict"]) == (200, "Infeasible")
        assert said["command"] == "muster explain default/large -f x.yaml"
        assert [check["name"] for check in said["checks"] if check["passed"] is False] == ["room"]
        assert said["nearest"] or said["proof"]
        # Of then, too.
        one.stage.apply(*(node(f"more{number}", 8) for number in range(3)))
        one.cycle()
        assert (await one.json("/api/gangs/default/large/explanation"))[1]["verdict"] == "Placed"
        assert (await one.json("/api/gangs/default/large/explanation?version=1"))[1]["verdict"] == "Infeasible"

    played(work)


def test_an_explanation_is_that_of_a_cycle_that_remembers_nothing():
    """A gang that waits is not tried again in each cycle; what is said of it is what a cycle of its own would say."""

    async def work(one):
        for number in range(3):
            one.stage.apply(gang(f"other{number}", minMember=1), pod(f"o{number}", f"other{number}"))
            one.cycle()
        made = schedule(build(one.stage.world.copy(), one.stage.scene.at_ns))[0]
        fresh = document_with(explained(("default", "large"), made, Config()), made, "")
        said = (await one.json("/api/gangs/default/large/explanation"))[1]
        assert said == {**json.loads(json.dumps(fresh)), "command": said["command"]}

    played(work)


@pytest.mark.parametrize("name", ["nobody/here", "default/x", f"default/{'%20' * 50}", "%2e%2e/g", "a%00b/c"])
def test_a_gang_that_is_not_there_is_not_found(name):
    async def work(one):
        status, said = await one.json(f"/api/gangs/{name}/explanation")
        assert status in (400, 404)
        assert said["error"]

    played(work)


def test_a_decision_says_what_was_done():
    async def work(one):
        _, said = await one.json("/api/decisions/1")
        assert (said["version"], len(said["bindings"])) == (1, 2)
        assert (await one.json("/api/decisions/1?gang=default/large"))[1]["bindings"] == []
        assert (await one.json("/api/decisions/5"))[0] == 410
        assert (await one.json("/api/decisions/x"))[0] == 400

    played(work)


# What if.


def test_a_what_if_shows_ghosts_and_changes_nothing():
    async def work(one):
        before = dict(one.stage.world.pods), dict(one.stage.world.groups)
        status, said = await one.json("/api/what-if", method="POST", data=MANIFEST)
        assert (status, said["ok"], list(said["gangs"])) == (200, True, ["default/new"])
        assert sorted(ghost[:2] for ghost in said["pods"]) == [["default/new", "n0"], ["default/new", "n1"]]
        assert {ghost[2] for ghost in said["pods"]} <= {"n0", "n1"}
        assert said["command"] == "muster plan -f x.yaml --add FILE"
        assert said["explanations"]["default/new"]["verdict"] == "Placed"
        assert (one.stage.world.pods, one.stage.world.groups) == before
        one.cycle()
        assert "default/new" not in (await one.json("/api/frame"))[1]["gangs"]

    played(work)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty"),
        (" \n ", "empty"),
        ("a: [", "not YAML"),
        ("{", "can't be read"),
        (b"\xff\xfe\x00", "UTF-8"),
        ("---\n---\n", "no objects"),
        ("b: *x", "alias"),
        ("[" * 5000, "can't be read"),
        ("!!python/object/apply:os.system ['true']", "can't be read"),
    ],
    ids=lambda value: ascii(value)[:30],
)
def test_a_manifest_that_is_none_is_a_sentence(text, says):
    async def work(one):
        status, said = await one.json("/api/what-if", method="POST", data=text)
        assert status == 400
        assert says in said["error"]

    played(work)


def test_a_manifest_without_a_gang_says_what_it_takes():
    async def work(one):
        text = json.dumps({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": EVIL}})
        status, said = await one.json("/api/what-if", method="POST", data=text)
        assert (status, said["ok"], said["gangs"]) == (200, False, {})
        assert any("Unknown: its pods are not in the input" in note for note in said["notes"])

    played(work)


def test_a_manifest_that_is_too_large_is_not_read():
    async def work(one):
        status, said = await one.json("/api/what-if", method="POST", data=io.BytesIO(b"#" * (MAX_BODY_BYTES + 1)))
        assert (status, said["error"]) == (413, "it is larger than 1 MiB")
        assert (await one.ask("/api/what-if", method="POST", data=gzip.compress(b"a: 1"), Content_Encoding="gzip"))[
            0
        ] == 415

    played(work)


class Slow:
    """Answers when it is let."""

    def __init__(self):
        self.free = threading.Event()
        self.done = 0

    def explanation(self, gang, scene, *, now):
        return self._work

    def what_if(self, text):
        return self._work

    def _work(self):
        self.free.wait(20)
        self.done += 1
        return {"gangs": {}, "pods": []}


@pytest.mark.parametrize(
    ("path", "method"), [("/api/gangs/default/g/explanation", "GET"), ("/api/what-if", "POST")], ids=["why", "what if"]
)
def test_one_question_at_a_time_and_few_wait(path, method):
    """One is answered, four wait; the next one is told to come again."""
    asking, data = Slow(), "a: 1" if method == "POST" else None

    async def work(one):
        asked = [asyncio.ensure_future(one.ask(path, method=method, data=data)) for _ in range(5)]
        await asyncio.sleep(0.3)
        status, headers, body = await one.ask(path, method=method, data=data)
        assert (status, headers["Retry-After"]) == (429, "3")
        assert json.loads(body)["hint"]
        # Frames are made elsewhere.
        assert (await one.ask("/api/frame"))[0] == 200
        asking.free.set()
        assert [answer[0] for answer in await asyncio.gather(*asked)] == [200] * 5
        assert (await one.ask(path, method=method, data=data))[0] == 200

    played(work, asking=asking)
    assert asking.done == 6


def test_who_asks_why_does_not_wait_for_a_what_if():
    class Mixed(Slow):
        def explanation(self, gang, scene, *, now):
            return dict

    asking = Mixed()

    async def work(one):
        assumed = [asyncio.ensure_future(one.ask("/api/what-if", method="POST", data="a: 1")) for _ in range(5)]
        await asyncio.sleep(0.2)
        try:
            assert (await asyncio.wait_for(one.ask("/api/gangs/default/g/explanation"), 5))[0] == 200
        finally:
            asking.free.set()
        await asyncio.gather(*assumed)

    played(work, asking=asking)


def test_nothing_is_done_for_who_has_gone():
    """Whoever hangs up before their turn is passed over."""
    asking = Slow()

    async def work(one):
        asked = [asyncio.ensure_future(one.ask("/api/what-if", method="POST", data="a: 1")) for _ in range(4)]
        await asyncio.sleep(0.3)
        for abandoned in asked[1:]:
            abandoned.cancel()
        await asyncio.gather(*asked[1:], return_exceptions=True)
        await asyncio.sleep(0.2)
        asking.free.set()
        assert (await asked[0])[0] == 200
        assert (await one.ask("/api/what-if", method="POST", data="a: 1"))[0] == 200

    played(work, asking=asking)
    assert asking.done == 2


def test_manifests_that_do_not_arrive_are_few():
    """Each holds memory and a place; the next one is refused at once, and accepted when one of them has gone."""

    async def work(one):
        head = f"POST /api/what-if HTTP/1.1\r\nHost: {HOST}:{one.port}\r\nAuthorization: Bearer {TOKEN}\r\n"
        slow = [await asyncio.open_connection(HOST, one.port) for _ in range(MOST_ARRIVING)]
        for _, writer in slow:
            writer.write(f"{head}Content-Length: 100\r\n\r\nkind: ".encode())
        async with asyncio.timeout(10):
            while (await one.ask("/api/what-if", method="POST", data=MANIFEST))[0] != 429:
                await asyncio.sleep(0.01)
            slow[0][1].close()
            while (await one.ask("/api/what-if", method="POST", data=MANIFEST))[0] != 200:
                await asyncio.sleep(0.01)
        for _, writer in slow:
            writer.close()

    played(work)


def test_a_what_if_has_its_limit():
    async def work(one):
        text = pasted(*(gang(f"many-{number}", minMember=1) for number in range(201)))
        status, said = await one.json("/api/what-if", method="POST", data=text)
        assert (status, said["error"]) == (400, "the manifest has 201 gangs")
        assert "200" in said["hint"]

    played(work)


def test_a_defect_is_told_without_its_inside():
    class Broken:
        def explanation(self, gang, scene, *, now):
            def work():
                raise ZeroDivisionError("secret")

            return work

    async def work(one):
        status, said = await one.json("/api/gangs/default/g/explanation")
        assert (status, said["error"]) == (500, "this is a defect in muster")
        assert "secret" in one.log.getvalue()
        assert (await one.ask("/api/frame"))[0] == 200

    played(work, asking=Broken())


# Streams.


def test_a_stream_tells_everything_then_what_changed():
    async def work(one):
        async with stream(one) as messages:
            event, version, frame = await anext(messages)
            assert (event, version, frame["version"]) == ("frame", 1, 1)
            one.stage.apply(gang("later", minMember=1))
            one.cycle()
            event, version, delta = await anext(messages)
            assert (event, version, delta["from"]) == ("delta", 2, 1)
            assert set(delta["gangs"]["set"]) == {"default/later"}

    played(work)


@pytest.mark.parametrize("by", ["since", "header"])
def test_a_stream_resumes(by):
    async def work(one):
        await one.json("/api/frame")
        one.stage.apply(gang("later", minMember=1))
        one.cycle()
        path, headers = ("/api/events?since=1", {}) if by == "since" else ("/api/events", {"Last_Event_ID": "1"})
        async with stream(one, path, **headers) as messages:
            event, version, delta = await anext(messages)
            assert (event, version, delta["from"]) == ("delta", 2, 1)

    played(work)


@pytest.mark.parametrize("since", ["5", "999999", "1&run=another"])
def test_who_comes_from_another_server_gets_everything(since):
    async def work(one):
        await one.json("/api/frame")
        async with stream(one, f"/api/events?since={since}") as messages:
            event, version, _ = await anext(messages)
            assert (event, version) == ("frame", 1)

    played(work)


def test_who_has_everything_is_told_nothing_but_that_we_are_there():
    async def work(one):
        await one.json("/api/frame")
        async with stream(one, "/api/events?since=1") as messages:
            assert (await anext(messages))[0] == "comment"

    played(work, streams=Streams(keep_alive_s=0.2))


def test_a_stream_that_began_before_the_first_cycle():
    async def work(one):
        async with stream(one) as messages:
            waiting = asyncio.ensure_future(anext(messages))
            await asyncio.sleep(0.2)
            one.cycle()
            assert (await waiting)[0] == "frame"

    played(work, cycles=0)


def test_many_cycles_are_told_as_few_changes():
    async def work(one):
        async with stream(one) as messages:
            await anext(messages)
            for number in range(20):
                one.stage.apply(gang(f"g{number}", minMember=1))
                one.cycle()
                await asyncio.sleep(0.02)
            seen, count = set(), 0
            while len(seen) < 20:
                event, _, delta = await anext(messages)
                assert event == "delta"
                seen |= set(delta["gangs"]["set"])
                count += 1
            assert count <= 4

    played(work)


def test_everybody_is_told_goodbye():
    async def work(one):
        async with stream(one) as messages:
            await anext(messages)
            one.page._streams.close()
            assert (await anext(messages))[0] == "bye"

    played(work)


def test_so_many_watch_and_no_more(monkeypatch):
    monkeypatch.setattr(streaming, "MOST_STREAMS", 2)

    async def work(one):
        async with stream(one) as first, stream(one) as second:
            await anext(first)
            await anext(second)
            status, said = await one.json("/api/events")
            assert (status, said["error"]) == (503, "too many are watching")
        await asyncio.sleep(0.1)
        one.stage.apply(gang("later", minMember=1))
        one.cycle()
        await asyncio.sleep(0.6)
        async with stream(one) as third:
            await anext(third)

    played(work)


def test_who_reads_too_slowly_is_cut_off():
    """And comes back for the rest; nobody else waits for them."""
    streams = Streams(pause_s=0.01, slow_s=0.3)

    async def ask(at):
        return Message("frame", b"x" * 2**24, (at or 0) + 1)

    async def serve(request):
        return await streams.serve(request, None, ask)

    async def run():
        app = web.Application()
        app.router.add_get("/", serve)
        async with listening(app, HOST, 0, SILENT) as port:
            _, writer = await asyncio.open_connection(HOST, port, limit=1024)
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            async with asyncio.timeout(10):
                while not len(streams):
                    await asyncio.sleep(0.01)
                while len(streams):
                    await asyncio.sleep(0.05)
            await gone(writer)

    asyncio.run(run())


def test_a_head_of_a_stream_ends():
    async def work(one):
        assert (await one.ask("/api/events", method="HEAD"))[0] == 200

    played(work)


# Callers with fewer rights.


LITTLE = Rights(frozenset({"mine"}), nodes=False, queues=False)


class Few:
    """Knows two tokens: one that sees little, and one that sees nothing. Says only what it is asked about."""

    mode = "cluster"

    def __init__(self):
        self.rights_of = {"little": LITTLE, "nothing": Rights(frozenset(), nodes=False, queues=False)}
        self.asked = []

    async def rights(self, token, namespaces, first=()):
        if token.startswith("away"):
            raise Unreachable(Call("create", "tokenreviews"), "no answer")
        self.asked.append((set(namespaces), list(first)))
        found = self.rights_of.get(token)
        if found is None or found.namespaces is None:
            return found
        return found._replace(namespaces=found.namespaces & {*namespaces, *first})


def there(namespace, *documents):
    return [{**one, "metadata": {**one["metadata"], "namespace": namespace}} for one in documents]


def two_namespaces():
    return Stage(
        node("n0", 4),
        *there("mine", gang("a", minMember=1), pod("a0", "a")),
        *there("theirs", gang("b", minMember=1), pod("b0", "b")),
    )


def pasted(*documents):
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": documents})


def test_everybody_sees_what_they_may():
    async def work(one):
        _, frame = await one.json("/api/frame", by="little")
        assert (set(frame["gangs"]), frame["nodes"], frame["queues"]) == ({"mine/a"}, {}, {})
        assert frame["gangs"]["mine/a"]["pods"] == []
        assert set((await one.json("/api/timeline", by="little"))[1]["lanes"]) == {"mine/a"}
        assert "theirs" not in json.dumps((await one.json("/api/decisions/1", by="little"))[1])
        assert (await one.json("/api/gangs/mine/a/explanation", by="little"))[0] == 200
        assert (await one.json("/api/gangs/theirs/b/explanation", by="little"))[0] == 404
        async with stream(one, by="little") as messages:
            event, _, frame = await anext(messages)
            assert (event, set(frame["gangs"])) == ("frame", {"mine/a"})

    played(work, callers=Few(), stage=two_namespaces())


def test_a_what_if_of_somebody_elses_namespace_is_refused():
    async def work(one):
        for namespace, expected in (("theirs", 403), ("mine", 200)):
            text = pasted(*there(namespace, gang("new", minMember=1), pod("n0", "new")))
            status, said = await one.json("/api/what-if", method="POST", data=text, by="little")
            assert status == expected
            if status == 200:
                assert (said["ok"], said["pods"]) == (True, [])

    played(work, callers=Few(), stage=two_namespaces())


def test_who_may_see_nothing_is_told_what_it_takes():
    """Whether they have the right where there is no gang nobody asked: so it is not said that they lack it."""

    async def work(one):
        status, said = await one.json("/api/frame", by="nothing")
        assert (status, said["error"]) == (403, "there is no gang here now that you may see")
        assert "podgroups.scheduling.run.ai in a namespace that has gangs" in said["hint"]
        assert (await one.json("/api/frame", by="stranger"))[0] == 401
        assert "kubectl create token" in (await one.json("/api/frame", by="stranger"))[1]["hint"]
        assert (await one.json("/api/frame", by="away"))[0] == 503

    played(work, callers=Few(), stage=two_namespaces())


def test_a_stream_ends_when_its_reader_may_not_see_it_any_more():
    callers = Few()

    async def work(one):
        async with stream(one, by="little") as messages:
            await anext(messages)
            del callers.rights_of["little"]
            one.stage.delete(gang("a", minMember=1) | {"metadata": {"name": "a", "namespace": "mine"}})
            one.cycle()
            with pytest.raises(StopAsyncIteration):
                await anext(messages)

    played(work, callers=callers, stage=two_namespaces())


def test_who_may_see_more_than_before_gets_everything():
    callers = Few()

    async def work(one):
        async with stream(one, by="little") as messages:
            await anext(messages)
            callers.rights_of["little"] = Rights()
            event, _, frame = await anext(messages)
            assert (event, set(frame["gangs"])) == ("frame", {"mine/a", "theirs/b"})

    played(work, callers=callers, stage=two_namespaces(), streams=Streams(keep_alive_s=0.2))


def test_who_had_a_gang_is_not_thrown_out_with_it():
    """Their lane stays while it is kept, the stream goes on, and the next gang is on it."""

    async def work(one):
        async with stream(one, by="little") as messages:
            await anext(messages)
            one.stage.delete(*there("mine", gang("a", minMember=1), pod("a0", "a")))
            one.cycle()
            event, _, delta = await anext(messages)
            assert (event, delta["gangs"]["gone"]) == ("delta", ["mine/a"])
            status, frame = await one.json("/api/frame", by="little")
            assert (status, frame["gangs"]) == (200, {})
            lanes = (await one.json("/api/timeline", by="little"))[1]["lanes"]
            assert [mark["kind"] for mark in lanes["mine/a"]["marks"]][-1] == "gone"
            one.stage.apply(*there("mine", gang("c", minMember=1)))
            one.cycle()
            assert set((await anext(messages))[2]["gangs"]["set"]) == {"mine/c"}

    played(work, callers=Few(), stage=two_namespaces())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (LITTLE, Rights()),
        (Rights(), LITTLE),
        (LITTLE, LITTLE._replace(nodes=True)),
        (LITTLE._replace(queues=True), LITTLE),
        (LITTLE, LITTLE._replace(namespaces=frozenset({"theirs"}))),
    ],
    ids=["more", "less", "nodes", "queues", "elsewhere"],
)
@pytest.mark.parametrize("changed", [True, False], ids=["changed", "unchanged"])
def test_who_comes_back_with_other_rights_gets_everything(before, after, changed):
    """A delta fits only what was seen by the same rights; also when nothing else has happened meanwhile."""
    callers = Few()

    async def work(one):
        callers.rights_of["little"] = before
        _, frame = await one.json("/api/frame", by="little")
        callers.rights_of["little"] = after
        if changed:
            one.stage.apply(*there("mine", gang("x", minMember=1)))
            one.cycle()
        since = "-".join(filter(None, (str(frame["version"]), frame.get("rights"))))
        async with stream(one, f"/api/events?since={since}", by="little") as messages:
            event, _, found = await anext(messages)
        assert (event, found) == ("frame", (await one.json("/api/frame", by="little"))[1])

    played(work, callers=callers, stage=two_namespaces())


@pytest.mark.parametrize("rights", [LITTLE, Rights(frozenset({"mine"})), Rights(nodes=False)], ids=str)
def test_who_comes_back_with_the_same_rights_goes_on(rights):
    callers = Few()
    callers.rights_of["little"] = rights

    async def work(one):
        sent = {"Authorization": "Bearer little"}
        async with one.session.get(one.url("/api/events"), headers=sent) as answer:
            lines = [(await answer.content.readline()).decode().strip() for _ in range(4)]
        (place,) = [line.removeprefix("id: ") for line in lines if line.startswith("id: ")]
        assert place == f"1-{(await one.json('/api/frame', by='little'))[1]['rights']}"
        one.stage.apply(*there("mine", gang("x", minMember=1)))
        one.cycle()
        async with stream(one, by="little", Last_Event_ID=place) as messages:
            event, version, delta = await anext(messages)
            assert (event, version, delta["from"]) == ("delta", 2, 1)
        # Without it nobody knows what they saw.
        async with stream(one, "/api/events?since=1", by="little") as messages:
            assert (await anext(messages))[0] == "frame"

    played(work, callers=callers, stage=two_namespaces())


def a_queue(name, parent=""):
    spec = {"resources": {"gpu": {"quota": 4, "limit": 8}}, **({"parentQueue": parent} if parent else {})}
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


HIGH = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9}


def a_preemption(*more):
    """A gang of somebody's that takes the room of another one, on a node and in queues that not everybody may see."""
    low = (pod(f"low{number}", "low", nodeName="secret-node") for number in range(4))
    top = gang("top", minMember=2, queue="team", priorityClassName="high")
    return Stage(
        *(node("secret-node", 4), a_queue("secret-dept"), a_queue("team", "secret-dept"), HIGH),
        *there("mine", gang("low", minMember=2, queue="team"), *low, *more),
        *there("mine", top, *(pod(f"top{number}", "top") for number in range(2))),
    )


@pytest.mark.parametrize(
    ("rights", "told", "untold"),
    [
        (LITTLE, [], ["secret-node", "secret-dept"]),
        (LITTLE._replace(nodes=True), ["secret-node"], ["secret-dept"]),
        (LITTLE._replace(queues=True), ["secret-dept"], ["secret-node"]),
    ],
    ids=["neither", "nodes", "queues"],
)
def test_no_answer_tells_what_the_frame_hides(rights, told, untold):
    callers = Few()
    callers.rights_of["little"] = rights

    async def work(one):
        _, frame = await one.json("/api/frame", by="little")
        assert ("slots" in frame["summary"]) == rights.nodes
        _, why = await one.json("/api/gangs/mine/top/explanation", by="little")
        assert why["waitsFor"][0]["pods"]
        text = pasted(*there("mine", gang("new", minMember=9, queue="team"), *(pod(f"n{i}", "new") for i in range(9))))
        status, what_if = await one.json("/api/what-if", method="POST", data=text, by="little")
        assert (status, set(what_if["explanations"])) == (200, {"mine/new"})
        decision = (await one.json("/api/decisions/1", by="little"))[1]
        assert decision["evictions"]
        assert decision["nominations"]
        for answer in (frame, why, what_if, decision, (await one.json("/api/timeline", by="little"))[1]):
            assert not [name for name in untold if name in json.dumps(answer)], answer
        for name in told:
            assert name in json.dumps(why)

    played(work, callers=callers, stage=a_preemption())


def test_a_what_if_tells_nobody_who_would_go():
    """Of others only how many, and that it is them."""
    stage = Stage(
        *(node("secret-node", 4), HIGH),
        *there("theirs", gang("b", minMember=2), *(pod(f"b{i}", "b", nodeName="secret-node") for i in range(4))),
    )

    async def work(one):
        new = there(
            "mine", gang("new", minMember=2, priorityClassName="high"), *(pod(f"n{i}", "new") for i in range(2))
        )
        # There is nothing else of theirs yet.
        one.stage.apply(*there("mine", gang("empty", minMember=1)))
        one.cycle()
        _, found = await one.json("/api/what-if", method="POST", data=pasted(*new), by="little")
        assert [(one["gang"], one["pod"], one["node"]) for one in found["victims"]] == [
            ("a gang of others", "", "")
        ] * 2
        assert not [name for name in ("theirs", "secret-node", "b2", "b3") if name in json.dumps(found)]

    played(work, callers=Few(), stage=stage)


A_POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "b0", "namespace": "theirs"}, "spec": {}}


@pytest.mark.parametrize(
    ("more", "rights", "said"),
    [
        ([A_POD], LITTLE, "namespace theirs is not yours to see"),
        ([A_POD], Rights(nodes=False), ""),
        (there("theirs", gang("b", minMember=2)), LITTLE, "namespace theirs is not yours to see"),
        ([node("n0", 0)], LITTLE, "nodes are not yours to assume"),
        ([node("n0", 0)], LITTLE._replace(nodes=True), ""),
        ([a_queue("team")], LITTLE, "queues are not yours to assume"),
        ([a_queue("team")], LITTLE._replace(queues=True), ""),
        ([HIGH], LITTLE._replace(nodes=True, queues=True), "priorityclasses are not yours to assume"),
        ([HIGH], Rights(), ""),
        (there("mine", gang("q", minMember=1, queue="secret-q")), LITTLE, "queue secret-q is not yours to see"),
        (there("mine", gang("q", minMember=1, queue="no-such")), LITTLE, "queue no-such is not yours to see"),
        (there("mine", gang("q", minMember=1, queue="secret-q")), LITTLE._replace(queues=True), ""),
        (there("mine", gang("q", minMember=1, queue="known")), LITTLE, ""),
    ],
    ids=str,
)
def test_nobody_assumes_what_they_may_not_see(more, rights, said):
    """What becomes of others then would tell what they have: a pod that exists, a node, what a queue allows."""
    callers, stage = Few(), two_namespaces()
    callers.rights_of["little"] = rights
    stage.apply(a_queue("secret-q"), a_queue("known"), *there("mine", gang("k", minMember=1, queue="known")))

    async def work(one):
        text = pasted(*there("mine", gang("new", minMember=1), pod("n0", "new")), *more)
        status, found = await one.json("/api/what-if", method="POST", data=text, by="little")
        assert (status, found.get("error", "")) == (403 if said else 200, said)
        assert "touches" not in found

    played(work, callers=callers, stage=stage)


def test_rights_are_asked_about_all_that_is_kept():
    """Where somebody asks about one gang, or has a manifest, its namespace comes first."""
    callers = Few()

    async def work(one):
        await one.json("/api/frame", by="little")
        assert callers.asked == [({"mine", "theirs"}, [])]
        await one.json("/api/gangs/theirs/b/explanation", by="little")
        await one.json("/api/gangs/made-up/b/explanation", by="little")
        assert [first for _, first in callers.asked[1:]] == [["theirs"], []]
        text = pasted(*there("new", gang("new", minMember=1), pod("n0", "new")))
        await one.json("/api/what-if", method="POST", data=text, by="little")
        assert callers.asked[-1] == ({"mine", "theirs"}, ["new"])

    played(work, callers=callers, stage=two_namespaces())


def test_it_is_said_that_not_all_namespaces_were_asked_about():
    callers = Few()
    callers.rights_of["some"] = LITTLE._replace(unasked=7)
    callers.rights_of["none"] = callers.rights_of["nothing"]._replace(unasked=7)

    async def work(one):
        assert (await one.json("/api/frame", by="some"))[1]["summary"]["unasked"] == 7
        status, headers, body = await one.ask("/api/frame", by="none")
        assert (status, headers["Retry-After"]) == (503, "1")
        assert "7 namespaces" in json.loads(body)["hint"]

    played(work, callers=callers, stage=two_namespaces())


def test_what_is_said_is_kept_once_whatever_version_somebody_invents():
    async def work(one):
        for since in range(100, 120):
            async with stream(one, f"/api/events?since={since}") as messages:
                assert (await anext(messages))[0] == "frame"
        assert len(one.page._said) == 1

    played(work)


@pytest.mark.parametrize(("by", "expected"), [("stranger", 401), ("nothing", 403), ("little", 200)])
def test_nobody_waits_for_a_drawing_to_hear_who_they_are(by, expected, monkeypatch):
    """While a large frame is made, who is not known hears so at once; and explanations are made elsewhere."""
    free = threading.Event()
    frame = History.frame

    def slow(*args, **more):
        free.wait(20)
        return frame(*args, **more)

    monkeypatch.setattr(History, "frame", slow)

    async def work(one):
        drawing = asyncio.ensure_future(one.json("/api/frame", by="little"))
        try:
            await asyncio.sleep(0.1)
            asked = one.json("/api/gangs/mine/a/explanation", by=by)
            assert (await asyncio.wait_for(asked, 5))[0] == expected
        finally:
            free.set()
        assert (await drawing)[0] == 200

    played(work, callers=Few(), stage=two_namespaces())


def test_names_stay_what_they_are():
    """A name that is HTML is told as it is, as JSON: it is the page that shows it as text."""

    async def work(one):
        _, headers, body = await one.ask("/api/frame")
        assert headers["Content-Type"] == "application/json"
        assert EVIL in json.loads(body)["nodes"]
        _, headers, body = await one.ask(f"/api/gangs/default/{EVIL.replace('/', '').replace(' ', '%20')}/explanation")
        assert headers["Content-Type"] == "application/json"

    played(work, stage=Stage(node(EVIL, 4), gang("g", minMember=1)))


@pytest.mark.parametrize(
    "line",
    [
        f"Authorization: Bearer {TOKEN}\x00",
        f"Authorization : Bearer {TOKEN}",
        f"Authorization: Bearer {TOKEN}{'x' * 20_000}",
        f"{TOKEN}",
        f"Transfer-Encoding: {TOKEN}",
        f"Content-Length: {TOKEN}",
    ],
    ids=lambda line: ascii(line)[:40],
)
def test_no_nonsense_brings_a_token_into_the_log(line):
    """What was sent is never logged; `played` looks for the token there."""

    async def work(one):
        reader, writer = await asyncio.open_connection(HOST, one.port)
        writer.write(f"GET /api/frame HTTP/1.1\r\nHost: {HOST}:{one.port}\r\n{line}\r\n\r\n".encode())
        said = await asyncio.wait_for(reader.read(20), 5)
        assert said.split()[1] in (b"400", b"401", b"431")
        await gone(writer)
        assert (await one.ask("/api/frame"))[0] == 200

    played(work)
