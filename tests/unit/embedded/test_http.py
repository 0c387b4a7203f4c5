"""The server on a socket: who may come in, watches as streams, the kubeconfig that it writes."""

import asyncio
import base64
import io
import json
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from fidelity.sides import fresh
from muster.embedded.http import Serving

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
