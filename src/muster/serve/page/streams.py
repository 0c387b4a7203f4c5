"""Server-sent events: what changed, to everybody who watches, as often as people can see and not more often.

A stream has a place, the version that its reader has. Whoever reads too slowly is cut off, and comes back with it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NamedTuple

from aiohttp import web

MOST_STREAMS = 64
# Not more often than this, and something at least so often: proxies end what is silent.
PAUSE_S, KEEP_ALIVE_S = 0.25, 15.0
# Whoever does not take what is sent for so long reads too slowly.
SLOW_S = 10.0
HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
}


class Message(NamedTuple):
    """An event, the version that its reader has then, and the digest of the rights under which it was told."""

    event: str
    data: bytes
    version: int
    rights: str = ""

    def __bytes__(self) -> bytes:
        place = f"{self.version}-{self.rights}" if self.rights else str(self.version)
        return b"event: %b\nid: %b\ndata: %b\n\n" % (self.event.encode(), place.encode(), self.data)


# What is to be said to somebody who has this version; None: nothing. Raises PermissionError: not to this one any more.
Next = Callable[[int | None], Awaitable[Message | None]]


class Streams:
    """All who watch. `changed` wakes them, `close` says goodbye."""

    def __init__(self, *, pause_s: float = PAUSE_S, keep_alive_s: float = KEEP_ALIVE_S, slow_s: float = SLOW_S) -> None:
        self._pause_s, self._keep_alive_s, self._slow_s = pause_s, keep_alive_s, slow_s
        self._awake: set[asyncio.Event] = set()
        self._closing = False

    def __len__(self) -> int:
        return len(self._awake)

    @property
    def is_full(self) -> bool:
        """Whether nobody else can watch."""
        return len(self._awake) >= MOST_STREAMS

    def open(self) -> None:
        """The server begins."""
        self._closing = False

    def changed(self) -> None:
        """There may be something new."""
        for one in self._awake:
            one.set()

    def close(self) -> None:
        """The server stops: everybody is told."""
        self._closing = True
        self.changed()

    async def serve(self, request: web.Request, since: int | None, ask: Next) -> web.StreamResponse:
        """One stream, from a version on, until its reader goes, is too slow, or may not see it any more."""
        response = web.StreamResponse(headers=HEADERS)
        await response.prepare(request)
        awake = asyncio.Event()
        awake.set()
        self._awake.add(awake)
        try:
            await self._send(response, b"retry: 1000\n\n")
            await self._follow(response, awake, since, ask)
        except (TimeoutError, ConnectionError):
            # It has gone, or does not read; what it missed it asks for when it comes again.
            if request.transport is not None:
                request.transport.abort()
        except PermissionError:
            pass
        finally:
            self._awake.discard(awake)
        return response

    async def _follow(self, response: web.StreamResponse, awake: asyncio.Event, at: int | None, ask: Next) -> None:
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(awake.wait(), self._keep_alive_s)
            if self._is_closing():
                break
            was_awake = awake.is_set()
            awake.clear()
            # Also when nothing happened: whether this one may still see it.
            message = await ask(at)
            if message is not None:
                at = message.version
                await self._send(response, bytes(message))
            elif not was_awake:
                await self._send(response, b":\n\n")
            await asyncio.sleep(self._pause_s)
        await self._send(response, b"event: bye\ndata: {}\n\n")

    def _is_closing(self) -> bool:
        return self._closing

    async def _send(self, response: web.StreamResponse, data: bytes) -> None:
        await asyncio.wait_for(response.write(data), self._slow_s)
