"""The transport of one process: requests and watches go to the embedded server and come back, and may go wrong."""

import asyncio
import json
import random
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, Protocol
from urllib.parse import unquote

from muster.embedded import exchange
from muster.embedded.reading import Watch
from muster.kube.transport import OPEN_S, Answer, Request, Stream, Unanswered
from muster.sim.faults import Stroke, Weather
from muster.sim.machine import Machine, VirtualLoop
from muster.sim.story import Point

BOOKMARK_S = 60.0
# In place of the status of an answer: it never left.
UNSENT = 0
# Lists of these may be only compared with: what differs gets time to catch up, and is put right after that.
COMPARED = "pods"
_REASONS = {
    403: "Forbidden",
    409: "Conflict",
    410: "Expired",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}
_END = Unanswered("the end")


class Server(Protocol):
    """The server as a wire sees it."""

    @property
    def is_away(self) -> bool:
        """Whether it answers nobody."""
        ...

    @property
    def revision(self) -> int:
        """Its version."""
        ...

    def handle(self, who: str, request: exchange.Request) -> exchange.Answer:
        """An answer, whoever asks."""
        ...

    def watch(self, request: exchange.Request, wake: Callable[[], None]) -> Watch | exchange.Answer:
        """A watch, or why not."""
        ...


class Asked(NamedTuple):
    """A request in the words of a story."""

    point: Point
    plural: str
    is_write: bool


def asked_of(request: Request) -> Asked:
    """Where it passes."""
    parts = request.path.strip("/").split("/")
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    if not rest:
        # Which kinds there are.
        return Asked("get", "", False)
    if rest[0] == "namespaces" and len(rest) > 2:
        rest = rest[2:]
    plural, below = rest[0], rest[2] if len(rest) > 2 else ""
    if request.method == "GET":
        if "watch" in request.params:
            return Asked("open", plural, False)
        point: Point = "get" if len(rest) > 1 else "list"
        return Asked("lease" if plural == "leases" else point, plural, False)
    if plural.endswith("accessreviews"):
        # A question, which changes nothing.
        return Asked("get", plural, False)
    if plural in ("leases", "events"):
        return Asked("lease" if plural == "leases" else "event", plural, True)
    if below in ("binding", "eviction"):
        return Asked("bind" if below == "binding" else "evict", plural, True)
    if below == "status":
        return Asked("status", plural, True)
    return Asked({"POST": "create", "DELETE": "delete"}.get(request.method, "patch"), plural, True)  # type: ignore[arg-type]


def is_taken_over(request: Request) -> bool:
    """Whether it asks for everything of a kind, as it is, to know it so; of one that came in pages nobody can tell. Of
    pods only a watch that goes on from their list shows that, or who has compared.
    """
    parts = request.path.strip("/").split("/")
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    is_list = request.method == "GET" and len(rest) == 1 and not {"watch", "continue"} & set(request.params)
    return is_list and rest[0] != COMPARED


def name_of(request: Request) -> str:
    """The name of the object that is asked for; that of a new one is not in the path."""
    parts = request.path.strip("/").split("/")
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    rest = rest[2:] if rest[:1] == ["namespaces"] and len(rest) > 2 else rest
    return unquote(rest[1]) if len(rest) > 1 else ""


class Wire:
    """The way of one process to the server. When the process is dead, nothing more leaves it."""

    def __init__(
        self,
        process: int,
        machine: Machine,
        loop: VirtualLoop,
        server: Server,
        weather: Weather,
        chance: random.Random,
        latency_s: float,
        *,
        crash: Callable[[], None],
        sent: Callable[[Request, Asked], None],
        answered: Callable[[Request, int | None], None],
        saw: Callable[[str, int], None],
        struck: Callable[[str], None],
    ) -> None:
        self.process, self.machine, self.loop, self.server, self.weather = process, machine, loop, server, weather
        self._chance, self._latency_s = chance, latency_s
        self._crash, self._sent, self._answered, self.saw, self._struck = crash, sent, answered, saw, struck
        self._open: list[_Watching] = []
        self.who = f"muster-{process}"
        self.is_dead = False

    async def request(self, request: Request, timeout_s: float, max_bytes: int) -> Answer:
        """The whole answer. Raises Unanswered."""
        asked = asked_of(request)
        crash = None
        if asked.is_write:
            crash = self.weather.strikes("write", self.process, asked.plural, name_of(request))
        if crash is not None and crash.fault.code == 0:
            self._die(crash)
        if self.is_dead:
            await self.loop.create_future()
        self._sent(request, asked)
        answer: asyncio.Future[Answer] = self.loop.create_future()
        self._go(request, asked, answer)
        if crash is not None:
            self._die(crash)
            await self.loop.create_future()
        try:
            async with asyncio.timeout(timeout_s):
                found = await answer
        except (TimeoutError, Unanswered) as error:
            self._answered(request, None if not isinstance(error, Unanswered) or error.sent else UNSENT)
            if isinstance(error, Unanswered):
                raise
            raise Unanswered("the server did not answer in time") from None
        self._answered(request, found.status)
        return found

    def _die(self, stroke: Stroke) -> None:
        self._struck(stroke.name)
        self._crash()

    def latency_s(self) -> float:
        """How long one way takes this time."""
        return self._latency_s * (0.5 + self._chance.random())

    def _go(self, request: Request, asked: Asked, answer: "asyncio.Future[Answer]") -> None:
        """The request goes its way; the answer comes later, or never."""
        stroke = self.weather.strikes(asked.point, self.process, asked.plural, name_of(request))
        does = stroke.fault.does if stroke is not None else ""
        if stroke is not None:
            self._struck(stroke.name)

        def come(found: Answer | Unanswered, revision: int) -> None:
            if isinstance(found, Answer) and found.status == 200 and is_taken_over(request):
                self.saw(asked.plural, revision)
            _settle(answer, found)

        def back(found: Answer | Unanswered, after_s: float = 0.0) -> None:
            revision = self.server.revision
            self.machine.later(self.latency_s() + after_s, lambda: self.loop.call_soon(come, found, revision))

        def arrive() -> None:
            if answer.done() and not self.is_dead:
                # Whoever gives up closes the connection: the server does not begin what nobody waits for.
                return
            if self.server.is_away:
                back(Unanswered("no connection: the server is away", sent=False))
            elif stroke is not None and does == "lose":
                if stroke.seconds:
                    back(Unanswered("the connection broke"), stroke.seconds)
            elif stroke is not None and does == "refuse":
                back(refusal(stroke.fault.code))
            else:
                found = self.server.handle(self.who, embedded(request, self.who))
                given: Answer | Unanswered = Answer(found.status, dict(found.headers), found.body)
                if stroke is not None and does == "swallow":
                    code = stroke.fault.code
                    given = refusal(code) if code else Unanswered("the connection broke")
                back(given, stroke.seconds if stroke is not None and does == "late" else 0.0)

        delay_s = stroke.seconds if stroke is not None and does == "delay" else 0.0
        self.machine.later(self.latency_s() + delay_s, arrive)

    @asynccontextmanager
    async def stream(self, request: Request, idle_s: float) -> AsyncIterator[Stream]:
        """A watch."""
        if self.is_dead:
            await self.loop.create_future()
        watching = _Watching(self, request)
        version = request.params.get("resourceVersion", "")
        if watching.plural == COMPARED and version.isdecimal():
            # Who goes on from there knows what was there.
            self.saw(COMPARED, int(version))
        self._open.append(watching)
        try:
            status, body = await watching.begun(min(OPEN_S, idle_s))
            yield Stream(status, {}, _whole(body) if status != 200 else watching.chunks(idle_s))
        finally:
            watching.close()
            self._open.remove(watching)

    def cut(self, plurals: list[str], broken: bool = False) -> None:
        """Watches of these kinds end, or break."""
        for watching in self._open:
            if "*" in plurals or watching.plural in plurals:
                watching.end(Unanswered("the connection broke") if broken else _END)

    async def close(self) -> None:
        """Nothing is open that had to be closed."""

    def strike(self, plural: str, point: Point = "watch") -> Stroke | None:
        """What happens to an event of a watch."""
        stroke = self.weather.strikes(point, self.process, plural)
        if stroke is not None:
            self._struck(stroke.name)
        return stroke


class _Watching:
    """One watch: what the server shows of it comes in the same order, and possibly late."""

    def __init__(self, wire: Wire, request: Request) -> None:
        self._wire, self._machine, self._loop = wire, wire.machine, wire.loop
        self.plural = asked_of(request).plural
        self._asked = embedded(request, wire.who)
        self._watch: Watch | None = None
        # What has come and was not taken yet, with the version up to which everything is in it.
        self._queue: deque[tuple[bytes | Unanswered, int]] = deque()
        self._revision = 0
        self._waiter: asyncio.Future[None] | None = None
        self._is_closed = False
        self._is_reading = False
        # What was read and not put there yet, one change at a time.
        self._coming: deque[bytes] = deque()
        # What comes next does not come before; and what is on its way, first come, first shown.
        self._free_s = 0.0
        self._under_way: deque[tuple[bytes | Unanswered, int]] = deque()

    async def begun(self, timeout_s: float) -> tuple[int, bytes]:
        """200, or why there is no watch. Raises Unanswered."""
        answer: asyncio.Future[tuple[int, bytes]] = self._loop.create_future()
        stroke = self._wire.strike(self.plural, "open")

        def back(found: "tuple[int, bytes] | Unanswered") -> None:
            self._machine.later(self._wire.latency_s(), lambda: self._loop.call_soon(_settle, answer, found))

        def arrive() -> None:
            if self._wire.server.is_away:
                back(Unanswered("no connection: the server is away", sent=False))
            elif stroke is not None and stroke.fault.does == "refuse":
                back((stroke.fault.code, refusal(stroke.fault.code).body))
            elif stroke is None or stroke.fault.does != "lose":
                found = self._wire.server.watch(self._asked, self._woken)
                if isinstance(found, Watch):
                    self._watch = found
                    self._begin(found)
                    back((200, b""))
                else:
                    back((found.status, found.body))

        self._machine.later(self._wire.latency_s(), arrive)
        try:
            async with asyncio.timeout(timeout_s):
                return await answer
        except TimeoutError:
            raise Unanswered("the server did not answer in time") from None

    def _begin(self, watch: Watch) -> None:
        if self._is_closed:
            watch.close()
            return
        self._machine.later(BOOKMARK_S, self._bookmark)
        if watch.timeout_s:
            self._machine.later(watch.timeout_s, lambda: self.end(_END))
        self._woken()

    async def chunks(self, idle_s: float) -> AsyncGenerator[bytes, None]:
        """What comes. Raises Unanswered."""
        while True:
            while self._queue:
                found, revision = self._queue.popleft()
                if found is _END:
                    return
                if isinstance(found, Unanswered):
                    raise found
                self._wire.saw(self.plural, revision)
                yield found
            self._waiter = self._loop.create_future()
            try:
                async with asyncio.timeout(idle_s):
                    await self._waiter
            except TimeoutError:
                raise Unanswered("silence") from None

    def close(self) -> None:
        """Nobody reads any more."""
        self._is_closed = True
        if self._watch is not None:
            self._watch.close()

    def end(self, how: Unanswered) -> None:
        """Nothing more is shown."""
        if not self._is_closed:
            self._put(how)
            self.close()

    def _woken(self) -> None:
        if not self._is_reading and not self._is_closed:
            self._is_reading = True
            self._machine.later(self._wire.latency_s(), self._read)

    def _read(self) -> None:
        self._is_reading = False
        if self._is_closed or self._watch is None:
            return
        batch: list[bytes] = []
        for event in iter(self._next, None):
            stroke = self._wire.strike(self.plural)
            if stroke is None:
                batch.append(event)
                self._revision = self._watch.revision
                continue
            does = stroke.fault.does
            if does == "late":
                self._put(b"".join(batch))
                batch, self._revision = [event], self._watch.revision
                self._free_s = max(self._free_s, self._machine.now_s + stroke.seconds)
            elif does == "repeat":
                batch += [event, event]
                self._revision = self._watch.revision
            else:
                self._put(b"".join(batch))
                self._break(does, stroke.seconds)
                return
        self._put(b"".join(batch))
        if self._watch.ended:
            self.end(_END)

    def _next(self) -> bytes | None:
        """The next event, or nothing more."""
        assert self._watch is not None
        if not self._coming:
            self._coming.extend(self._watch.read(1))
        return self._coming.popleft() if self._coming else None

    def _break(self, does: str, seconds: float) -> None:
        """The watch ends before the event that it was about to show."""
        if does == "gone":
            said = {"type": "ERROR", "object": json.loads(refusal(410).body)}
            self._put(json.dumps(said).encode() + b"\n")
            self.end(_END)
        elif does == "silent":
            self._free_s = max(self._free_s, self._machine.now_s + seconds)
            self.end(Unanswered("the connection broke"))
        else:
            self.end(_END)

    def _bookmark(self) -> None:
        if not self._is_closed and self._watch is not None:
            mark = self._watch.bookmark() if not self._is_reading else None
            self._put(mark or b"")
            self._machine.later(BOOKMARK_S, self._bookmark)

    def _put(self, found: bytes | Unanswered) -> None:
        """It comes when everything before it has come."""
        if not found:
            return
        self._under_way.append((found, self._revision))
        wait_s = max(0.0, self._free_s - self._machine.now_s)
        if wait_s:
            self._machine.later(wait_s, lambda: self._loop.call_soon(self._come))
        else:
            self._loop.call_soon(self._come)

    def _come(self) -> None:
        """The first of what is on its way: times that should be the same may differ in their last digit."""
        self._queue.append(self._under_way.popleft())
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def refusal(code: int) -> Answer:
    """A Status that says no."""
    reason = _REASONS.get(code, "InternalError")
    said = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code}
    said["message"] = f"the story says {code}"
    headers = {"Content-Type": "application/json", **({"Retry-After": "1"} if code == 429 else {})}
    return Answer(code, headers, json.dumps(said).encode())


def embedded(request: Request, who: str) -> exchange.Request:
    """The same request, as the embedded server takes it."""
    headers = {name.lower(): value for name, value in request.headers}
    return exchange.Request(
        request.method, unquote(request.path), dict(request.params), headers, request.body or b"", who
    )


def _settle(answer: "asyncio.Future[Any]", found: Any) -> None:
    if answer.done():
        return
    if isinstance(found, BaseException):
        answer.set_exception(found)
    else:
        answer.set_result(found)


async def _whole(body: bytes) -> AsyncGenerator[bytes, None]:
    yield body
