"""Connections of a listening socket: how many there are, of how many from one address, and which one makes room.

A new connection is worth more than an idle one: a probe that opens a connection must get an answer, whatever holds the
others open. asyncio's own accept loop knows no limit, and retries a hundred times at once, with a line of the log each,
when no file descriptor is left.
"""

import asyncio
import errno
import resource
import socket
import ssl
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

from aiohttp import web
from aiohttp.typedefs import Handler

from muster.telemetry import Log

# After a failure of accept(): the kernel queues what comes meanwhile.
PAUSE_S = 0.1
_BACKLOG = 128
_SCARCE = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
# Never fewer connections than this, however few file descriptors the process may have.
_FEWEST = 8


class Limits(NamedTuple):
    """Of the connections of one port."""

    most: int = 512
    # Of one address. Behind some networks all callers have the same.
    most_of_one: int = 256
    # Until a request is complete, and after an answer.
    patience_s: float = 15.0
    idle_s: float = 120.0
    # Of the file descriptors that the process may have.
    share: float = 1 / 8

    @property
    def affordable(self) -> int:
        """How many connections at most, also where file descriptors are few."""
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if descriptors == resource.RLIM_INFINITY:
            return self.most
        return min(self.most, max(_FEWEST, int(descriptors * self.share)))


class _Guest:
    """A connection: where it comes from, and what ends it."""

    def __init__(self, peer: str, end: Callable[[], None]) -> None:
        self.peer, self.end = peer, end
        self.alarm: asyncio.TimerHandle | None = None


class Guests:
    """All connections of one port. One is idle unless a handler has its whole request and has not answered yet."""

    def __init__(self, limits: Limits) -> None:
        self._limits, self._most = limits, limits.affordable
        self._here: set[_Guest] = set()
        self._count_of: dict[str, int] = {}
        # Per address, the one that is idle for the longest time first.
        self._idle: dict[str, OrderedDict[_Guest, None]] = {}

    def __len__(self) -> int:
        return len(self._here)

    def admit(self, peer: str, end: Callable[[], None]) -> _Guest | None:
        """A new connection, in place of an idle one if there are too many; None when all others are at work."""
        if self._count_of.get(peer, 0) >= self._limits.most_of_one:
            if not self._end_idle(peer):
                return None
        elif len(self._here) >= self._most and not self.make_room():
            return None
        guest = _Guest(peer, end)
        self._here.add(guest)
        self._count_of[peer] = self._count_of.get(peer, 0) + 1
        self.rests(guest, self._limits.patience_s)
        return guest

    def make_room(self) -> bool:
        """Close an idle connection, of the address that has the most; whether there was one."""
        return bool(self._idle) and self._end_idle(max(self._idle, key=lambda peer: self._count_of[peer]))

    def _end_idle(self, peer: str) -> bool:
        guest = next(iter(self._idle.get(peer, ())), None)
        if guest is None:
            return False
        self.leaves(guest)
        guest.end()
        return True

    def rests(self, guest: _Guest, most_s: float) -> None:
        """Nothing is done for a connection: it makes room when others come, and ends by itself after some time."""
        if guest in self._here:
            self.works(guest)
            self._idle.setdefault(guest.peer, OrderedDict())[guest] = None
            guest.alarm = asyncio.get_running_loop().call_later(most_s, self._is_due, guest)

    def works(self, guest: _Guest) -> None:
        """A request is complete: the connection stays until it is answered."""
        if guest.alarm is not None:
            guest.alarm.cancel()
        idle = self._idle.get(guest.peer)
        if idle is not None:
            idle.pop(guest, None)
            if not idle:
                del self._idle[guest.peer]

    def _is_due(self, guest: _Guest) -> None:
        self.leaves(guest)
        guest.end()

    def leaves(self, guest: _Guest) -> None:
        """It has ended, or is about to."""
        if guest not in self._here:
            return
        self.works(guest)
        self._here.remove(guest)
        self._count_of[guest.peer] -= 1
        if not self._count_of[guest.peer]:
            del self._count_of[guest.peer]


class _Noticed(asyncio.Protocol):
    """A protocol whose end is noticed."""

    def __init__(self, inner: web.RequestHandler, lost: Callable[[], None]) -> None:
        self._inner, self._lost = inner, lost

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self._inner.data_received(data)

    def eof_received(self) -> None:
        self._inner.eof_received()

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._lost()
        self._inner.connection_lost(exc)


class Door:
    """Accepts connections for an application: its middleware has to be the first one of the application."""

    def __init__(self, limits: Limits, log: Log, tls: ssl.SSLContext | None = None, farewell_s: float = 5.0) -> None:
        self.guests = Guests(limits)
        self._limits, self._log, self._tls = limits, log, tls
        self._farewell_s = farewell_s
        self._of: dict[object, _Guest] = {}
        self._opening: set[asyncio.Task[None]] = set()

    @web.middleware
    async def heard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """A connection on which a request came whole may stay until it is answered."""
        guest = self._of.get(request.protocol)
        if guest is None:
            return await handler(request)
        if request.content.is_eof():
            self.guests.works(guest)
        else:
            self.guests.rests(guest, self._limits.patience_s)
            request.content.on_eof(lambda: self.guests.works(guest))
        try:
            return await handler(request)
        finally:
            self.guests.rests(guest, self._limits.idle_s)

    async def accept(self, listener: socket.socket, server: web.Server) -> None:
        """Accept for ever. Where no file descriptor is left an idle connection is closed, and the rest waits."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                sock, address = await loop.sock_accept(listener)
            except OSError as error:
                if error.errno in _SCARCE:
                    self._log.warning("a connection can't be accepted now", error=error, open=len(self.guests))
                    self.guests.make_room()
                await asyncio.sleep(PAUSE_S)
                continue
            self._receive(sock, address[0] if isinstance(address, tuple) else "", server)
            # accept() that need not wait would keep everything else waiting.
            await asyncio.sleep(0)

    def _receive(self, sock: socket.socket, peer: str, server: web.Server) -> None:
        protocol = server()
        ends: list[Callable[[], object]] = []

        def end() -> None:
            if protocol.transport is not None:
                protocol.transport.abort()
            else:
                ends[0]()

        guest = self.guests.admit(peer, end)
        if guest is None:
            sock.close()
            return
        opening = asyncio.get_running_loop().create_task(self._open(sock, protocol, guest))
        ends.append(opening.cancel)
        self._opening.add(opening)
        opening.add_done_callback(self._opening.discard)

    async def _open(self, sock: socket.socket, protocol: web.RequestHandler, guest: _Guest) -> None:
        """What is no TLS, or goes meanwhile, is no news."""

        def lost() -> None:
            self._of.pop(protocol, None)
            self.guests.leaves(guest)

        self._of[protocol] = guest
        limits_s = (self._limits.patience_s, self._farewell_s) if self._tls else (None, None)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: _Noticed(protocol, lost),
                sock,
                ssl=self._tls,
                ssl_handshake_timeout=limits_s[0],
                ssl_shutdown_timeout=limits_s[1],
            )
        except (OSError, asyncio.CancelledError):
            lost()
            sock.close()

    async def close(self) -> None:
        """Nothing is opened any more."""
        for one in self._opening:
            one.cancel()
        if self._opening:
            await asyncio.wait(self._opening)


async def bound(host: str, port: int) -> Sequence[socket.socket]:
    """Sockets that listen at all addresses of a host, without one: of the machine. Raises OSError."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    listeners: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            try:
                one = socket.socket(family, kind, protocol)
            except OSError:
                # The machine does not speak this family.
                continue
            listeners.append(one)
            one.setblocking(False)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            # All addresses have one port, also when it is any.
            one.bind((address[0], port, *address[2:]))
            port = one.getsockname()[1]
            one.listen(_BACKLOG)
    except BaseException:
        for one in listeners:
            one.close()
        raise
    if not listeners:
        raise OSError(errno.EADDRNOTAVAIL, "the machine has no such address")
    return listeners


@asynccontextmanager
async def accepting(door: Door, host: str, port: int, server: web.Server) -> AsyncIterator[int]:
    """Accepts until the end of the block; gives the port. Raises OSError. What is open then stays open."""
    listeners = await bound(host, port)
    tasks = [asyncio.ensure_future(door.accept(one, server)) for one in listeners]
    try:
        yield listeners[0].getsockname()[1]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        for one in listeners:
            one.close()
        await door.close()
