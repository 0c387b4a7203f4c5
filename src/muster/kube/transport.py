"""Bytes to the API server and back. `Transport` is what the client needs; `HttpTransport` is the real one.

A transport knows nothing of Kubernetes: it gives an answer with its status, or raises `Unanswered`.
"""

import asyncio
import socket
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import NamedTuple, Protocol

import aiohttp
from yarl import URL

from muster.errors import MusterError
from muster.kube.connection import Connection
from muster.kube.credentials import Headers, KeyPair

Params = Mapping[str, str]

_CONNECT_S = 10.0
_KEEP_ALIVE_S = 30.0
_CHUNK_BYTES = 256 * 1024
# A stream may be silent for long, but a server says at once that there is one: who waits for that is blind meanwhile.
OPEN_S = 30.0


class Unanswered(MusterError):
    """There is no answer, or only a part of one. Only what was not `sent` certainly did nothing.

    `lasting` is a trouble that asking again soon does not mend.
    """

    def __init__(self, message: str, hint: str = "", *, sent: bool = True, lasting: bool = False) -> None:
        super().__init__(message, hint)
        self.sent = sent
        self.lasting = lasting


class TooLarge(MusterError):
    """The answer is larger than what we take."""


class Answer(NamedTuple):
    """A whole answer. Header names are as the server wrote them, or found in any case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Stream(NamedTuple):
    """An answer whose body comes bit by bit. Iterating raises Unanswered when it breaks off or stays silent."""

    status: int
    headers: Mapping[str, str]
    chunks: AsyncGenerator[bytes, None]


class Request(NamedTuple):
    """What is sent. `path` is encoded already."""

    method: str
    path: str
    params: Params = {}
    headers: Headers = ()
    body: bytes | None = None
    # The certificate to show; a transport without TLS does not look at it.
    pair: KeyPair | None = None


class Transport(Protocol):
    """The way to one API server."""

    async def request(self, request: Request, timeout_s: float, max_bytes: int) -> Answer:
        """The whole answer. Raises Unanswered or TooLarge."""
        ...

    def stream(self, request: Request, idle_s: float) -> AbstractAsyncContextManager[Stream]:
        """An answer to read as it comes; leaving the context ends it. Silence of `idle_s` is a failure."""
        ...

    async def close(self) -> None:
        """Ends all connections."""
        ...


class _LostError(aiohttp.ClientError):
    """The connection broke after the request may have left."""


class _Pool:
    """The connections with one certificate. One that is no longer used closes when its last request ended."""

    def __init__(self, connection: Connection, pair: KeyPair | None) -> None:
        self.pair = pair
        self.retired = False
        self._running = 0
        context = connection.tls.context(pair) if connection.tls else True
        # How many at a time is the client's business, and a watch must never wait for a bind.
        connector = aiohttp.TCPConnector(
            ssl=context, limit=0, keepalive_timeout=_KEEP_ALIVE_S, socket_factory=_watched_socket
        )
        self.session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            # No compression: it costs the API server more than the network, and a small answer could become a huge one.
            auto_decompress=False,
            skip_auto_headers=("User-Agent", "Accept-Encoding"),
            read_bufsize=_CHUNK_BYTES,
            middlewares=(_never_again,),
        )

    async def __aenter__(self) -> aiohttp.ClientSession:
        self._running += 1
        return self.session

    async def __aexit__(self, *_: object) -> None:
        self._running -= 1
        if self.retired and not self._running:
            await self.session.close()

    async def retire(self) -> None:
        self.retired = True
        if not self._running:
            await self.session.close()


class HttpTransport:
    """HTTP/1.1 over aiohttp. Made inside a running loop or not; nothing is opened before the first request."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._name = connection.tls.server_name or None if connection.tls else None
        self._pool: _Pool | None = None
        self._retired: list[_Pool] = []

    async def request(self, request: Request, timeout_s: float, max_bytes: int) -> Answer:
        """The whole answer. Raises Unanswered or TooLarge."""
        timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=min(_CONNECT_S, timeout_s))
        async with self._send(request, timeout) as response:
            length = response.content_length
            if length is not None and length <= max_bytes:
                body = await response.read()
            else:
                body = await _bounded(response, max_bytes)
            return Answer(response.status, response.headers, body)

    @asynccontextmanager
    async def stream(self, request: Request, idle_s: float) -> AsyncIterator[Stream]:
        """An answer to read as it comes."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=idle_s)
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(min(OPEN_S, idle_s)):
                    response = await stack.enter_async_context(self._send(request, timeout))
            except TimeoutError:
                raise Unanswered(f"{self._connection.server} did not answer in time") from None
            yield Stream(response.status, response.headers, self._chunks(response))

    async def close(self) -> None:
        """Ends all connections, those with older certificates too."""
        pools = [*self._retired, *([self._pool] if self._pool else [])]
        self._pool, self._retired = None, []
        for pool in pools:
            await pool.session.close()

    @asynccontextmanager
    async def _send(self, request: Request, timeout: aiohttp.ClientTimeout) -> AsyncIterator[aiohttp.ClientResponse]:
        pool = await self._current(request.pair)
        try:
            async with (
                pool as session,
                session.request(
                    request.method,
                    self._url(request),
                    headers=request.headers,
                    data=request.body,
                    allow_redirects=False,
                    timeout=timeout,
                    server_hostname=self._name,
                    proxy=self._connection.proxy or None,
                ) as response,
            ):
                yield response
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            if isinstance(error, aiohttp.ClientConnectorCertificateError) and self._pool is pool:
                # Perhaps the authority was renewed: its file is read again with the next request.
                await self._retire()
            raise _unanswered(error, self._connection.server) from error

    async def _chunks(self, response: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
        try:
            async for chunk in response.content.iter_any():
                yield chunk
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _unanswered(error, self._connection.server) from error

    def _url(self, request: Request) -> URL:
        url = URL(self._connection.server + request.path, encoded=True)
        return url.with_query(request.params) if request.params else url

    async def _current(self, pair: KeyPair | None) -> _Pool:
        if self._pool is not None and self._pool.pair != pair:
            await self._retire()
        if self._pool is None:
            self._pool = _Pool(self._connection, pair)
        return self._pool

    async def _retire(self) -> None:
        if self._pool is not None:
            pool, self._pool = self._pool, None
            self._retired = [*(old for old in self._retired if not old.session.closed), pool]
            await pool.retire()


async def _bounded(response: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for chunk in response.content.iter_any():
        parts.append(chunk)
        size += len(chunk)
        if size > max_bytes:
            response.close()
            raise TooLarge(f"the answer is larger than {max_bytes:,} bytes")
    return b"".join(parts)


async def _never_again(
    request: aiohttp.ClientRequest, send: Callable[[aiohttp.ClientRequest], Awaitable[aiohttp.ClientResponse]]
) -> aiohttp.ClientResponse:
    """aiohttp repeats a DELETE when the connection broke. Whether that is wise only the client can know."""
    try:
        return await send(request)
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise _LostError(str(error) or type(error).__name__) from error


def _unanswered(error: Exception, server: str) -> Unanswered:
    """What happened, in words, and whether the request may have left."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        why = f"the certificate of {server} is not trusted: {error.certificate_error}"
        return Unanswered(
            why, "check the certificate authority and the name in the kubeconfig", sent=False, lasting=True
        )
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return Unanswered(f"no connection to {server} in time", "is it reachable from here?", sent=False)
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ClientHttpProxyError):
        return Unanswered(f"no connection to {server}: {error}", "is it running, and reachable from here?", sent=False)
    if isinstance(error, TimeoutError):
        return Unanswered(f"{server} did not answer in time")
    return Unanswered(f"the connection to {server} broke: {str(error) or type(error).__name__}")


def _watched_socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """A socket that notices within half a minute that nobody is there: a watch may be silent for longer."""
    opened = socket.socket(address[0], address[1], address[2])
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if sys.platform == "linux":
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 10)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
        # The same for what was sent and never acknowledged.
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 20_000)
    return opened
