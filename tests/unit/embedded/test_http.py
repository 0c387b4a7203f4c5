"""The server on a socket: who may come in, watches as streams, the kubeconfig that it writes."""

import asyncio
import base64
import contextlib
import datetime
import io
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from fidelity.sides import fresh
from muster.embedded.exchange import Answer, Request
from muster.embedded.http import Serving
from muster.embedded.identity import Authority
from muster.embedded.reading import Watch
from muster.embedded.store import Unwritten
from muster.telemetry import Log

MAPS = "/api/v1/namespaces/default/configmaps"


def serve(test: Callable[[Serving, aiohttp.ClientSession], Awaitable[None]], **more: Any) -> None:
    """Run a test against a server that listens, as its admin."""

    async def main() -> None:
        async with Serving(fresh(), **more) as serving:
            tls = ssl.create_default_context(cadata=serving.authority.pem.decode())
            headers = {"Authorization": f"Bearer {serving.token}"}
            async with aiohttp.ClientSession(
                serving.url, headers=headers, connector=aiohttp.TCPConnector(ssl=tls)
            ) as session:
                await test(serving, session)

    asyncio.run(main())


def test_requests_go_through_and_warnings_come_back() -> None:
    async def test(serving: Serving, session: aiohttp.ClientSession) -> None:
        async with session.post(MAPS, json={"metadata": {"name": "m"}, "surprise": 1}) as answer:
            assert answer.status == 201
            assert answer.headers["Warning"] == '299 - "unknown field \\"surprise\\""'
        async with session.get(f"{MAPS}/m") as answer:
            assert (await answer.json())["metadata"]["name"] == "m"

    serve(test)


@pytest.mark.parametrize(
    "headers", [{"Authorization": "Bearer wrong"}, {"Authorization": "Basic x"}, {"Authorization": ""}]
)
def test_nobody_comes_in_without_the_token(headers: dict[str, str]) -> None:
    async def test(serving: Serving, session: aiohttp.ClientSession) -> None:
        async with session.get(MAPS, headers=headers) as answer:
            assert answer.status == 401
            assert (await answer.json())["reason"] == "Unauthorized"

    serve(test)


def test_a_client_certificate_is_a_user(tmp_path: Path) -> None:
    async def test(serving: Serving, session: aiohttp.ClientSession) -> None:
        path = serving.write_kubeconfig(tmp_path / "joe", user="joe")
        user = json.loads(path.read_text())["users"][0]["user"]
        pem = tmp_path / "pem"
        pem.write_bytes(b"".join(base64.b64decode(user[f"client-{part}-data"]) for part in ("certificate", "key")))
        tls = ssl.create_default_context(cadata=serving.authority.pem.decode())
        tls.load_cert_chain(pem)
        async with (
            aiohttp.ClientSession(serving.url, connector=aiohttp.TCPConnector(ssl=tls)) as joe,
            joe.get(MAPS) as answer,
        ):
            assert answer.status == 200

    serve(test)


def test_the_kubeconfig_is_for_its_owner_only(tmp_path: Path) -> None:
    async def test(serving: Serving, session: aiohttp.ClientSession) -> None:
        path = serving.write_kubeconfig(tmp_path / "config")
        assert path.stat().st_mode & 0o777 == 0o600
        assert json.loads(path.read_text())["clusters"][0]["cluster"]["server"] == serving.url

    serve(test)


def test_a_watch_gives_events_as_they_come_and_ends_in_its_time() -> None:
    async def test(serving: Serving, session: aiohttp.ClientSession) -> None:
        async with session.get(MAPS, params={"watch": "true", "timeoutSeconds": "1"}) as stream:
            async with session.post(MAPS, json={"metadata": {"name": "m"}}):
                pass
            event = json.loads(await stream.content.readline())
            assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "m")
            assert await stream.content.readline() == b""

    serve(test)


def test_a_quiet_watch_gets_bookmarks_and_ends_with_the_server() -> None:
    async def test(serving: Serving, session: aiohttp.ClientSession) -> None:
        query = {"watch": "true", "allowWatchBookmarks": "true"}
        async with session.get(MAPS, params=query) as stream:
            assert json.loads(await stream.content.readline())["type"] == "BOOKMARK"
            await serving.close()
            left = (await stream.content.read()).splitlines()
            assert all(json.loads(line)["type"] == "BOOKMARK" for line in left)

    serve(test, bookmark_s=0.05)


def test_a_body_that_is_too_large_is_413() -> None:
    async def test(serving: Serving, session: aiohttp.ClientSession) -> None:
        async with session.post(MAPS, data=io.BytesIO(b" " * (4 * 1024 * 1024))) as answer:
            assert answer.status == 413

    serve(test)


def test_a_body_that_cant_be_unpacked_is_400() -> None:
    async def test(serving: Serving, session: aiohttp.ClientSession) -> None:
        said = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
        async with session.post(MAPS, data=b"{}", headers=said) as answer:
            assert answer.status == 400
            assert (await answer.json())["kind"] == "Status"

    serve(test)


PATHS = (
    "/",
    "/version",
    "/healthz",
    "/livez",
    "/readyz",
    "/api",
    "/apis",
    "/openapi/v2",
    "/openapi/v3",
    "/nothing",
    MAPS,
)


@pytest.mark.parametrize("path", [*PATHS, f"{MAPS}?watch=true"])
def test_nobody_without_a_token_gets_anything_at_all(path: str) -> None:
    """Neither the version nor the health, which a real server shows to everybody."""

    async def test(serving: Serving, session: aiohttp.ClientSession) -> None:
        tls = ssl.create_default_context(cadata=serving.authority.pem.decode())
        async with aiohttp.ClientSession(serving.url, connector=aiohttp.TCPConnector(ssl=tls)) as stranger:
            for method in ("GET", "POST", "DELETE", "OPTIONS"):
                async with stranger.request(method, path) as answer:
                    assert answer.status == 401
                    assert (await answer.json())["message"] == "Unauthorized"

    serve(test)


def test_a_certificate_that_somebody_else_signed_is_no_user(tmp_path: Path) -> None:
    async def test(serving: Serving, session: aiohttp.ClientSession) -> None:
        other = Authority(datetime.datetime.now(datetime.UTC)).client("admin")
        pem = tmp_path / "pem"
        pem.write_bytes(other.certificate + other.key)
        tls = ssl.create_default_context(cadata=serving.authority.pem.decode())
        tls.load_cert_chain(pem)
        async with aiohttp.ClientSession(serving.url, connector=aiohttp.TCPConnector(ssl=tls)) as stranger:
            with pytest.raises(aiohttp.ClientError):
                await stranger.get(MAPS)

    serve(test)


def test_a_defect_costs_one_answer_and_one_line_of_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other requests and the watches go on."""
    lines = io.StringIO()

    async def test(serving: Serving, session: aiohttp.ClientSession) -> None:
        handle = serving.server.handle

        def fail(request: Request) -> Answer:
            if "poison" in request.path:
                raise ZeroDivisionError("nobody foresaw this")
            return handle(request)

        monkeypatch.setattr(serving.server, "handle", fail)
        async with session.get(MAPS, params={"watch": "true"}) as stream:
            async with session.get(f"{MAPS}/poison") as answer:
                said = await answer.json()
                assert (answer.status, said["kind"], said["reason"]) == (500, "Status", "InternalError")
                assert "nobody foresaw this" in said["message"]
            async with session.post(MAPS, json={"metadata": {"name": "m"}}) as answer:
                assert answer.status == 201
            assert json.loads(await stream.content.readline())["object"]["metadata"]["name"] == "m"

    serve(test, log=Log(lines, human=False))
    (line,) = (json.loads(line) for line in lines.getvalue().splitlines())
    assert (line["message"], line["path"]) == ("a request failed", f"{MAPS}/poison")
    assert "ZeroDivisionError" in line["error"]
    assert "fail" in line["where"]


def test_a_defect_in_a_watch_ends_that_watch_and_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = io.StringIO()

    async def test(serving: Serving, session: aiohttp.ClientSession) -> None:
        def fail(watch: Watch, most: int = 0) -> list[bytes]:
            raise ZeroDivisionError

        monkeypatch.setattr(Watch, "read", fail)
        async with session.get(MAPS, params={"watch": "true"}) as stream:
            with contextlib.suppress(aiohttp.ClientError):
                assert await stream.content.read() == b""
        async with session.get(MAPS) as answer:
            assert answer.status == 200

    serve(test, log=Log(lines, human=False))
    assert "a watch failed" in lines.getvalue()


@pytest.mark.parametrize("depth", [101, 5000, 1_000_000])
def test_a_body_that_is_nested_too_deep_is_400(depth: int) -> None:
    async def test(serving: Serving, session: aiohttp.ClientSession) -> None:
        body = b'{"metadata": {"name": "m"}, "data": ' + b"[" * depth + b"]" * depth + b"}"
        async with session.post(MAPS, data=io.BytesIO(body), headers={"Content-Type": "application/json"}) as answer:
            assert answer.status == 400
            assert (await answer.json())["reason"] == "BadRequest"

    serve(test)


def test_too_many_watches_are_refused_until_one_ends() -> None:
    async def test(serving: Serving, session: aiohttp.ClientSession) -> None:
        query = {"watch": "true"}
        async with session.post(MAPS, json={"metadata": {"name": "m"}}):
            pass
        async with session.get(MAPS, params=query) as first:
            await first.content.readline()
            async with session.get(MAPS, params=query) as second:
                assert (second.status, second.headers["Retry-After"]) == (429, "1")
                assert (await second.json())["reason"] == "TooManyRequests"
            async with session.get(MAPS) as answer:
                assert answer.status == 200
        async with asyncio.timeout(10):
            while serving.watches:
                await asyncio.sleep(0)
        async with session.get(MAPS, params=query) as third:
            assert third.status == 200

    serve(test, most_watches=1)


def test_a_watch_that_does_not_keep_up_ends_with_410() -> None:
    """What it does not take is forgotten some time, and nothing is kept for it beside the history."""

    async def test(serving: Serving, session: aiohttp.ClientSession) -> None:
        store = serving.server.core.store
        large = "x" * 100_000
        async with session.get(MAPS, params={"watch": "true"}) as stream:
            for row in range(300):
                body = json.dumps({"metadata": {"name": f"m{row}"}, "data": {"a": large}}).encode()
                assert serving.server.handle(Request("POST", MAPS, body=body)).status == 201
                # The server sends as much as fits into the buffers between the two.
                await asyncio.sleep(0)
            store.compact(store.revision)
            last = b""
            async for chunk, _ in stream.content.iter_chunks():
                last = (last + chunk)[-1000:]
        assert json.loads(last.splitlines()[-1])["object"]["code"] == 410

    serve(test)


def test_a_watch_whose_client_takes_nothing_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was sent and not taken is held in memory, for as long as the connection is open."""
    monkeypatch.setattr("muster.embedded.http.STUCK_S", 0.2)

    async def test(serving: Serving, session: aiohttp.ClientSession) -> None:
        for row in range(200):
            body = {"metadata": {"name": f"m{row}"}, "data": {"a": "x" * 200_000}}
            async with session.post(MAPS, json=body) as answer:
                assert answer.status == 201
        tls = ssl.create_default_context(cadata=serving.authority.pem.decode())
        port = int(serving.url.rpartition(":")[2])
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
        writer.transport.pause_reading()
        writer.write(
            f"GET {MAPS}?watch=1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {serving.token}\r\n\r\n".encode()
        )
        async with asyncio.timeout(30):
            while not serving.watches:
                await asyncio.sleep(0.01)
            while serving.watches:
                await asyncio.sleep(0.01)
        writer.transport.abort()

    serve(test)


def test_a_body_that_does_not_come_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.embedded.http.BODY_S", 0.1)

    async def test(serving: Serving, session: aiohttp.ClientSession) -> None:
        async def never() -> AsyncIterator[bytes]:
            yield b"{"
            await asyncio.sleep(30)

        async with session.post(MAPS, data=never()) as answer:
            assert answer.status == 408

    serve(test)


def test_a_change_that_could_not_be_kept_is_a_line_of_the_log_that_names_the_cause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = io.StringIO()

    async def test(serving: Serving, session: aiohttp.ClientSession) -> None:
        def full(change: Any) -> None:
            raise Unwritten("the change could not be kept in play.db: database or disk is full")

        monkeypatch.setattr(serving.server.core.store, "_persist", full)
        async with session.post(MAPS, json={"metadata": {"name": "m"}}) as answer:
            assert answer.status == 500

    serve(test, log=Log(lines))
    (line,) = [json.loads(text) for text in lines.getvalue().splitlines()]
    assert line["message"] == "a change was not kept"
    assert "play.db: database or disk is full" in line["error"]


def test_a_watch_whose_time_is_over_before_it_begins_ends_at_once() -> None:
    async def test(serving: Serving, session: aiohttp.ClientSession) -> None:
        async with session.post(MAPS, json={"metadata": {"name": "m"}}) as answer:
            assert answer.status == 201
        async with asyncio.timeout(5), session.get(f"{MAPS}?watch=1&timeoutSeconds=-1") as answer:
            assert (answer.status, await answer.read()) == (200, b"")
        assert serving.watches == 0

    serve(test)


def test_a_path_may_be_long() -> None:
    async def test(serving: Serving, session: aiohttp.ClientSession) -> None:
        listed = ",".join(f"v{row:05}" for row in range(8000))
        async with session.get(f"{MAPS}?labelSelector=a in ({listed})") as answer:
            assert (answer.status, (await answer.json())["items"]) == (200, [])

    serve(test)
