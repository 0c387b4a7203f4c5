"""What the tests of kube play with: virtual time, a transport that is a function, a small versioned API server, and a
real one on loopback.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from aiohttp import web

from muster.kube.client import Client, Limits
from muster.kube.connection import Connection
from muster.kube.credentials import ANONYMOUS, Credentials
from muster.kube.resources import Resource
from muster.kube.transport import Answer, Request, Stream, Unanswered

T = TypeVar("T")
THINGS = Resource("v1", "Thing", "things")


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop whose time jumps to the next timer as soon as nothing else is to be done."""

    def __init__(self) -> None:
        super().__init__()
        self._virtual_s = 0.0

    def time(self) -> float:
        return self._virtual_s

    def _run_once(self) -> None:
        if not self._ready:
            waiting = [timer.when() for timer in self._scheduled if not timer.cancelled()]
            assert waiting or self._stopping, "everybody waits for something that never comes"
            self._virtual_s = max(self._virtual_s, min(waiting, default=0.0))
        super()._run_once()


def virtually(work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, however long it sleeps."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)


class VirtualClock:
    """The time of the loop; remembers how long people slept. `skew_s` is a wall clock that is wrong."""

    def __init__(self, skew_s: float = 0.0) -> None:
        self.slept: list[float] = []
        self.skew_s = skew_s

    def now_s(self) -> float:
        return asyncio.get_running_loop().time()

    def wall(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.now_s() + self.skew_s)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(seconds)


class HastyClock(VirtualClock):
    """For a real loop: remembers how long people wanted to sleep, and does not."""

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0)


def connection_to(server: str = "http://play", credentials: Credentials = ANONYMOUS) -> Connection:
    return Connection(server, None, credentials, "default", "play")


def answer(body: Any, status: int = 200, **headers: str) -> Answer:
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return Answer(status, named, body if isinstance(body, bytes) else json.dumps(body).encode())


def status(code: int, reason: str = "", message: str = "no", **details: Any) -> dict[str, Any]:
    return {"kind": "Status", "code": code, "reason": reason, "message": message, "details": details}


def refusal(code: int, reason: str = "", **headers: str) -> Answer:
    return answer(status(code, reason), code, **headers)


class Played:
    """A transport that asks two functions: one for whole answers, one for the chunks of a stream."""

    def __init__(
        self,
        whole: Callable[[Request], Awaitable[Answer]] | None = None,
        chunks: Callable[[Request], AsyncGenerator[bytes, None]] | None = None,
    ) -> None:
        self.requests: list[Request] = []
        self.open_streams = 0
        self.closed = False
        self._whole = whole
        self._chunks = chunks

    async def request(self, request: Request, timeout_s: float, max_bytes: int) -> Answer:
        self.requests.append(request)
        try:
            async with asyncio.timeout(timeout_s):
                return await self._whole(request)
        except TimeoutError:
            raise Unanswered("no answer in time") from None

    @asynccontextmanager
    async def stream(self, request: Request, idle_s: float) -> AsyncIterator[Stream]:
        self.requests.append(request)
        self.open_streams += 1
        chunks = self._chunks(request)
        try:
            try:
                first = await anext(chunks)
            except StopAsyncIteration:
                first = b""
            if isinstance(first, Answer):
                yield Stream(first.status, first.headers, _one(first.body))
            else:
                yield Stream(200, {}, _idling(first, chunks, idle_s))
        finally:
            self.open_streams -= 1
            await chunks.aclose()

    async def close(self) -> None:
        self.closed = True


async def _one(body: bytes) -> AsyncGenerator[bytes, None]:
    yield body


async def _idling(first: bytes, chunks: AsyncGenerator[bytes, None], idle_s: float) -> AsyncGenerator[bytes, None]:
    yield first
    while True:
        try:
            # Not wait_for: that loses a cancellation which comes together with the result.
            async with asyncio.timeout(idle_s):
                chunk = await anext(chunks)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise Unanswered("silence") from None
        yield chunk


def playing(transport: Any, clock: Any = None, *, jitter: float = 1.0, **limits: Any) -> Client:
    """A client over a played transport; nothing about it is random."""
    clock = clock or VirtualClock()
    return Client(connection_to(), transport=transport, clock=clock, limits=Limits(**limits), jitter=lambda: jitter)


class Script:
    """Whole answers from a list, one after the other; an error in it is raised."""

    def __init__(self, *steps: Any) -> None:
        self.steps = list(steps)

    async def __call__(self, request: Request) -> Answer:
        step = self.steps.pop(0)
        if isinstance(step, BaseException):
            raise step
        return step


def scripted(*steps: Any) -> Played:
    return Played(Script(*steps))


class Store:
    """A versioned store of things with list, watch and compaction, as an API server has it."""

    def __init__(self) -> None:
        self.version = 1
        self.oldest = 0
        self.things: dict[str, dict[str, Any]] = {}
        self.history: list[tuple[int, str, dict[str, Any]]] = []
        self.changed = asyncio.Event()

    def put(self, name: str, **fields: Any) -> dict[str, Any]:
        change = "MODIFIED" if name in self.things else "ADDED"
        self.version += 1
        thing = {"metadata": {"name": name, "resourceVersion": str(self.version)}, **fields}
        self.things[name] = thing
        self._tell(change, thing)
        return thing

    def remove(self, name: str) -> None:
        self.version += 1
        thing = self.things.pop(name)
        gone = {**thing, "metadata": {**thing["metadata"], "resourceVersion": str(self.version)}}
        self._tell("DELETED", gone)

    def compact(self) -> None:
        self.oldest = self.version

    def _tell(self, change: str, thing: dict[str, Any]) -> None:
        self.history.append((self.version, change, thing))
        self.changed.set()
        self.changed = asyncio.Event()

    def listing(self) -> dict[str, Any]:
        return {"metadata": {"resourceVersion": str(self.version)}, "items": list(self.things.values())}

    def since(self, version: int) -> list[tuple[int, str, dict[str, Any]]]:
        return [entry for entry in self.history if entry[0] > version]


def line(change: str, thing: Any) -> bytes:
    return json.dumps({"type": change, "object": thing}).encode() + b"\n"


def thing(name: str, version: int | str, **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": str(version)}, **fields}


@asynccontextmanager
async def served(
    handler: Callable[[web.Request], Awaitable[web.StreamResponse]], ssl_context: Any = None
) -> AsyncIterator[str]:
    """A real HTTP server on loopback: its address."""
    app = web.Application(client_max_size=2**24)
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=ssl_context)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]
    try:
        yield f"{'https' if ssl_context else 'http'}://127.0.0.1:{port}"
    finally:
        await runner.cleanup()


def spoken(server: str, clock: Any = None, credentials: Credentials = ANONYMOUS, **limits: Any) -> Client:
    """A client over real HTTP that does not really wait."""
    clock = clock or HastyClock()
    return Client(connection_to(server, credentials), clock=clock, limits=Limits(**limits), jitter=lambda: 1.0)
