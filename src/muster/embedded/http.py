"""The server on a socket: HTTPS on loopback, who the client is, and watches as streams."""

import asyncio
import contextlib
import datetime
import secrets
import ssl
import tempfile
import traceback
from contextlib import AsyncExitStack
from pathlib import Path

from aiohttp import web

from muster.accepting import Door, Limits, accepting
from muster.embedded.exchange import Answer, Request, Said, answer, asked_for, bad_request, failure
from muster.embedded.identity import LOOPBACK, Authority, Pair, certified, kubeconfig, write
from muster.embedded.reading import Watch
from muster.embedded.server import MAX_BODY_BYTES, Server
from muster.telemetry import SILENT, Log

ADMIN = "admin"
# How long a watch lives when its client does not say, and how often it is told how far it is.
WATCH_S, BOOKMARK_S = 1800.0, 60.0
# How much longer a client may take to read the rest; how many events it is sent at once, and of how many bytes: what it
# does not take is held for it in memory. A client that takes nothing for STUCK_S is sent no more.
SLOW_S, STUCK_S, MOST_EVENTS, MOST_BYTES = 30.0, 30.0, 100, 64 * 1024
# How long the body of a request may take.
BODY_S = 30.0
MOST_WATCHES = 1000
# All clients are on this machine. A watch and its client's end are two file descriptors, often of this very process.
LIMITS = Limits(most=2 * MOST_WATCHES, most_of_one=2 * MOST_WATCHES, patience_s=30.0, idle_s=3600.0, share=0.4)
# How long a line of a request may be, such as a path with a long selector; a real server takes more still.
MOST_LINE_BYTES = 64 * 1024


class Serving:
    """An embedded server that listens: `async with Serving(server) as serving`, then `serving.url`."""

    def __init__(
        self,
        server: Server,
        *,
        port: int = 0,
        bookmark_s: float = BOOKMARK_S,
        most_watches: int = MOST_WATCHES,
        log: Log = SILENT,
    ) -> None:
        self.server = server
        self._log = log
        self.url = ""
        self.token = secrets.token_urlsafe(32)
        self.authority = Authority(datetime.datetime.now(datetime.UTC))
        self._port = port
        self._bookmark_s = bookmark_s
        self._most_watches = most_watches
        self._watches: list[tuple[Watch, asyncio.Event]] = []
        self._runner: web.AppRunner | None = None
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> "Serving":
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Listen."""
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        app.router.add_route("*", "/{path:.*}", self._handle)
        logger = self._log.as_logger("embedded")
        # A watch whose client has gone ends then, and not with the next event.
        self._runner = web.AppRunner(
            app,
            access_log=None,
            logger=logger,
            shutdown_timeout=0.5,
            handler_cancellation=True,
            max_line_size=MOST_LINE_BYTES,
            max_field_size=MOST_LINE_BYTES,
        )
        door = Door(LIMITS, self._log, _tls(self.authority))
        app.middlewares.append(door.heard)
        await self._runner.setup()
        assert self._runner.server is not None
        port = await self._stack.enter_async_context(accepting(door, LOOPBACK, self._port, self._runner.server))
        self.url = f"https://{LOOPBACK}:{port}"
        self.server.address = f"{LOOPBACK}:{port}"

    async def close(self) -> None:
        """Stop listening; watches end."""
        for watch, woken in self._watches:
            watch.close()
            woken.set()
        await self._stack.aclose()
        if self._runner is not None:
            await self._runner.cleanup()
        self._runner = None

    def write_kubeconfig(self, path: Path, *, user: str = ADMIN, namespace: str = "default") -> Path:
        """Write what kubectl needs; the admin comes with a token, everybody else with a client certificate."""
        entry = {"token": self.token} if user == ADMIN else certified(self.authority.client(user))
        return write(path, kubeconfig(self.url, self.authority.pem, entry, namespace))

    @property
    def watches(self) -> int:
        """How many watches are open."""
        return len(self._watches)

    # Requests.

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        user = self._user(request)
        if not user:
            return _sent(answer(401, failure(Said(401, "Unauthorized", "Unauthorized"))))
        try:
            body = await asyncio.wait_for(request.read(), BODY_S)
        except TimeoutError:
            said = Said(408, "Timeout", f"the body did not come within {BODY_S:.0f} s", {})
            return _sent(answer(408, failure(said)))
        except web.HTTPRequestEntityTooLarge:
            said = Said(413, "RequestEntityTooLarge", f"Request entity too large: limit is {MAX_BODY_BYTES}", {})
            return _sent(answer(413, failure(said)))
        except web.RequestPayloadError as broken:
            return _sent(answer(400, failure(bad_request(f"the body can't be read: {broken}"))))
        query = asked_for(request.query.items())
        headers = {name.lower(): value for name, value in request.headers.items()}
        asked = Request(request.method, request.path, query, headers, body, user)
        try:
            if self.server.is_watch(asked):
                return await self._watch(request, asked)
            found = self.server.handle(asked)
            if found.status == 500 and found.json().get("reason") == "InternalError":
                # Such as a full disk: not the client alone should hear of it.
                said = found.json().get("message")
                self._log.error("a change was not kept", method=asked.method, path=asked.path, error=said)
            return _sent(found)
        except Exception as defect:
            # One request that nobody foresaw is one answer; the others go on.
            error = f"{type(defect).__name__}: {defect}"
            self._log.error("a request failed", method=asked.method, path=asked.path, error=error, where=_where(defect))
            return _sent(answer(500, failure(Said(500, "InternalError", f"Internal error occurred: {error}"))))

    def _user(self, request: web.Request) -> str:
        """Who a client is: by its certificate, or by the token; nobody without."""
        said = request.headers.get("Authorization", "")
        if said.startswith("Bearer "):
            return ADMIN if secrets.compare_digest(said[7:].encode(), self.token.encode()) else ""
        certificate = request.transport.get_extra_info("peercert") if request.transport else None
        subject = certificate.get("subject", ()) if certificate else ()
        for part in subject:
            for name, value in part:
                if name == "commonName":
                    return str(value)
        return ""

    async def _watch(self, request: web.Request, asked: Request) -> web.StreamResponse:
        if len(self._watches) >= self._most_watches:
            said = f"too many watches: {self._most_watches} are open already; end one"
            busy = answer(429, failure(Said(429, "TooManyRequests", said, {"retryAfterSeconds": 1})))
            return _sent(busy._replace(headers=(*busy.headers, ("Retry-After", "1"))))
        woken = asyncio.Event()
        watch = self.server.watch(asked, woken.set)
        if isinstance(watch, Answer):
            return _sent(watch)
        stream = web.StreamResponse(headers={"Content-Type": "application/json", "Cache-Control": "no-cache, private"})
        stream.enable_chunked_encoding()
        open_watch = (watch, woken)
        self._watches.append(open_watch)
        try:
            # A client that has gone ends its watch, as does one that takes nothing until the end of its time.
            with contextlib.suppress(ConnectionResetError, TimeoutError):
                await stream.prepare(request)
                if request.transport is not None:
                    # The default of a TLS connection is half a megabyte.
                    request.transport.set_write_buffer_limits(high=MOST_BYTES)
                async with asyncio.timeout((watch.timeout_s or WATCH_S) + SLOW_S):
                    await self._follow(request, stream, watch, woken)
                    await stream.write_eof()
        except Exception as defect:
            # The answer has begun: all that is left is to end it.
            said = f"{type(defect).__name__}: {defect}"
            self._log.error("a watch failed", path=asked.path, error=said, where=_where(defect))
        finally:
            self._watches.remove(open_watch)
            watch.close()
        return stream

    async def _follow(
        self, request: web.Request, stream: web.StreamResponse, watch: Watch, woken: asyncio.Event
    ) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + (watch.timeout_s or WATCH_S)
        while True:
            woken.clear()
            # Only so much is taken at once: what a slow client does not take waits in the history of the store, and
            # when that is forgotten the watch ends with 410.
            while events := watch.read(MOST_EVENTS, MOST_BYTES):
                try:
                    await asyncio.wait_for(stream.write(b"".join(events)), STUCK_S)
                except TimeoutError:
                    # What the client did not take would be held until it does.
                    if request.transport is not None:
                        request.transport.abort()
                    return
            if watch.ended or loop.time() >= end:
                return
            try:
                async with asyncio.timeout(min(self._bookmark_s, end - loop.time())):
                    await woken.wait()
            except TimeoutError:
                mark = watch.bookmark()
                if mark is not None:
                    await stream.write(mark)


def _where(defect: BaseException) -> str:
    """The place in our code where it went wrong, for the log."""
    place = traceback.extract_tb(defect.__traceback__)[-1]
    return f"{Path(place.filename).name}:{place.lineno} {place.name}"


def _sent(found: Answer) -> web.Response:
    response = web.Response(status=found.status, body=found.body)
    response.headers.popall("Content-Type", None)
    for name, value in found.headers:
        response.headers.add(name, value)
    return response


def _tls(authority: Authority) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_OPTIONAL
    context.load_verify_locations(cadata=authority.pem.decode())
    _load(context, authority.server())
    return context


def _load(context: ssl.SSLContext, pair: Pair) -> None:
    """ssl takes keys from files only: from one that only we can read and that is gone at once."""
    with tempfile.NamedTemporaryFile(prefix="muster-embedded-") as file:
        file.write(pair.certificate + pair.key)
        file.flush()
        context.load_cert_chain(file.name)
