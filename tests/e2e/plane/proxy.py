"""A proxy between muster and the API server that makes everything go wrong that can go wrong on a network.

It speaks plain HTTP on loopback and passes on who asks. Faults are told to it as values and count for the requests that
come after; it remembers what was asked, and how it was answered.
"""

import asyncio
import ssl
import threading
import time
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

import aiohttp
from aiohttp import web

from e2e.plane.access import write_kubeconfig
from e2e.plane.control_plane import ControlPlane
from e2e.plane.process import LOOPBACK, free_port

T = TypeVar("T")
FOR_EVER = 10**9
# Headers of one leg of the way.
_OWN = {"host", "connection", "transfer-encoding", "content-length", "keep-alive"}


class Seen(NamedTuple):
    """One request: when it came, and the status that was answered; 0: none."""

    at_s: float
    method: str
    path: str
    status: int


@dataclass
class Fault:
    """What happens to the next `times` requests whose path contains `path`.

    They wait for `wait_s`, reach the server or not, and are answered with `status`; 0 cuts the connection, None answers
    what the server said.
    """

    path: str
    method: str = ""
    times: int = FOR_EVER
    forward: bool = False
    status: int | None = None
    wait_s: float = 0.0
    headers: tuple[tuple[str, str], ...] = ()
    # How often it happened.
    met: int = 0

    def fits(self, request: web.Request) -> bool:
        """Whether this request is meant."""
        return self.met < self.times and self.path in request.path_qs and self.method in ("", request.method)


class Proxy:
    """Use as a context manager. `kubeconfig` makes one that leads through it."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._port = free_port()
        self.url = f"http://{LOOPBACK}:{self._port}"
        self.faults: list[Fault] = []
        self.seen: list[Seen] = []
        self._streams: set[asyncio.Task[Any]] = set()
        self._listens = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._await(self._open())
        return self

    def __exit__(self, *_: object) -> None:
        self._await(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def kubeconfig(self, path: Path, token: str) -> Path:
        """A kubeconfig for whoever has this token."""
        return write_kubeconfig(path, self.url, self._plane.ca, {"token": token})

    def fail(self, path: str, **more: Any) -> Fault:
        """Something goes wrong from now on."""
        self.faults.append(Fault(path, **more))
        return self.faults[-1]

    def heal(self) -> None:
        """Nothing goes wrong any more."""
        self.faults.clear()

    def cut_watches(self) -> int:
        """Every watch breaks off, in the middle of whatever it is saying; how many there were."""
        return self._await(self._cut())

    def stop(self) -> None:
        """Nobody listens; what is open breaks off."""
        self._await(self._close())

    def start(self) -> None:
        """On the same port again."""
        self._await(self._open())

    def count(self, method: str, path: str, *, since_s: float = 0.0) -> int:
        """How many requests like this came."""
        return sum(one.method == method and path in one.path and one.at_s >= since_s for one in self.seen)

    def _await(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _open(self) -> None:
        tls = ssl.create_default_context(cafile=str(self._plane.ca))
        connector = aiohttp.TCPConnector(ssl=tls, limit=0)
        self._session = aiohttp.ClientSession(connector=connector, auto_decompress=False)
        app = web.Application(client_max_size=2**26)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
        await self._runner.setup()
        await web.TCPSite(self._runner, LOOPBACK, self._port, reuse_address=True).start()
        self._listens = True

    async def _close(self) -> None:
        # First nobody is answered any more: else a request on an open connection is, after the watches were cut.
        self._listens = False
        await self._cut()
        await self._runner.cleanup()
        await self._session.close()

    async def _cut(self) -> int:
        streams = list(self._streams)
        for stream in streams:
            stream.cancel()
        await asyncio.gather(*streams, return_exceptions=True)
        return len(streams)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        at_s, status = time.monotonic(), 0
        try:
            response = await self._answer(request) if self._listens else web.Response(status=502)
            if not self._listens:
                _cut_off(request)
            status = response.status if self._listens else 0
            return response
        finally:
            self.seen.append(Seen(at_s, request.method, request.path_qs, status))

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        fault = next((one for one in self.faults if one.fits(request)), None)
        body = await request.read()
        if fault is not None:
            fault.met += 1
            await asyncio.sleep(fault.wait_s)
        if request.query.get("watch") and (fault is None or fault.status is None):
            return await self._stream(request)
        found: web.Response | None = None
        if fault is None or fault.forward or fault.status is None:
            found = await self._forward(request, body)
        if fault is None or fault.status is None:
            assert found is not None
            return found
        if fault.status == 0:
            _cut_off(request)
        return web.json_response(
            {
                "kind": "Status",
                "apiVersion": "v1",
                "status": "Failure",
                "code": fault.status,
                "message": "a test says no",
            },
            status=fault.status,
            headers=dict(fault.headers),
        )

    async def _forward(self, request: web.Request, body: bytes) -> web.Response:
        try:
            async with self._session.request(
                request.method, self._target(request), headers=_passed(request.headers), data=body
            ) as answer:
                return web.Response(status=answer.status, headers=_passed(answer.headers), body=await answer.read())
        except aiohttp.ClientError:
            _cut_off(request)
            return web.Response(status=502)

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        """A watch; it ends as the server ends it, or is cut."""
        task = asyncio.current_task()
        assert task is not None
        response: web.StreamResponse | None = None
        try:
            async with self._session.get(
                self._target(request), headers=_passed(request.headers), timeout=aiohttp.ClientTimeout(total=None)
            ) as answer:
                response = web.StreamResponse(status=answer.status, headers=_passed(answer.headers))
                await response.prepare(request)
                self._streams.add(task)
                async for chunk in answer.content.iter_any():
                    await response.write(chunk)
        except (asyncio.CancelledError, aiohttp.ClientError, ConnectionError):
            _cut_off(request)
            return response or web.Response(status=502)
        finally:
            self._streams.discard(task)
        with suppress(ConnectionError):
            await response.write_eof()
        return response

    def _target(self, request: web.Request) -> str:
        return self._plane.url + request.path_qs


def _passed(headers: Any) -> list[tuple[str, str]]:
    return [(name, text) for name, text in headers.items() if name.lower() not in _OWN]


def _cut_off(request: web.Request) -> None:
    """The connection ends without an answer, or in the middle of one."""
    if request.transport is not None:
        request.transport.abort()
