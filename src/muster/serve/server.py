"""Puts the answers behind ports: the webhook behind TLS, health and metrics plain."""

import asyncio
import errno
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

from aiohttp import web
from aiohttp.typedefs import Handler

from muster.errors import UsageError
from muster.serve.health import Check, health_handler
from muster.serve.metrics import metrics_handler
from muster.serve.webhook.answers import MAX_BODY_BYTES, Webhook
from muster.telemetry import Log, Metrics

WEBHOOK_PATH = "/validate"
# Who opens a connection and says nothing, or keeps one for nothing, is let go after so long.
PATIENCE_S, IDLE_S = 15.0, 120.0
MOST_CONNECTIONS = 512
SHUTDOWN_S, FAREWELL_S = 5.0, 0.05


def webhook_app(webhook: Webhook) -> web.Application:
    """The application that the API server calls."""
    app = web.Application(client_max_size=MAX_BODY_BYTES)
    app.router.add_route("*", WEBHOOK_PATH, webhook.handle)

    async def close(_: web.Application) -> None:
        await webhook.close()

    app.on_cleanup.append(close)
    return app


def status_app(metrics: Metrics, alive: Sequence[Check] = (), ready: Sequence[Check] = ()) -> web.Application:
    """`/livez`, `/readyz` and `/metrics`."""
    app = web.Application(client_max_size=1024)
    app.router.add_get("/livez", health_handler("livez", alive))
    app.router.add_get("/readyz", health_handler("readyz", ready))
    app.router.add_get("/metrics", metrics_handler(metrics))
    return app


class _Door:
    """Lets so many connections in, and shows those out that say nothing: each costs the process a file descriptor."""

    def __init__(self, most: int, patience_s: float) -> None:
        self._most, self._patience_s = most, patience_s
        # Those that said nothing yet, each with its alarm.
        self._silent: dict[object, asyncio.TimerHandle] = {}

    def enter(self, server: web.Server) -> asyncio.BaseProtocol:
        """A new connection."""
        if len(server.connections) >= self._most:
            return _Refuse()
        protocol = server()
        alarm = asyncio.get_running_loop().call_later(self._patience_s, self._show_out, protocol)
        self._silent[protocol] = alarm
        return protocol

    def _show_out(self, protocol: web.RequestHandler) -> None:
        del self._silent[protocol]
        if protocol.transport is not None:
            protocol.transport.abort()

    @web.middleware
    async def heard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """A connection on which a request came may stay."""
        alarm = self._silent.pop(request.protocol, None)
        if alarm is not None:
            alarm.cancel()
        return await handler(request)


class _Refuse(asyncio.Protocol):
    """One connection too many."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


@asynccontextmanager
async def listening(
    app: web.Application,
    host: str,
    port: int,
    log: Log,
    tls: ssl.SSLContext | None = None,
    *,
    most_connections: int = MOST_CONNECTIONS,
    patience_s: float = PATIENCE_S,
) -> AsyncIterator[int]:
    """Serves until the end of the block, then lets what is under way finish. Gives the port: 0 asks for any.

    Without a host, all addresses of the machine.
    """
    # No access log: the API server calls often, and the metrics count.
    runner = web.AppRunner(
        app,
        access_log=None,
        logger=log.as_logger("aiohttp.server"),
        handle_signals=False,
        keepalive_timeout=IDLE_S,
        lingering_time=2.0,
        auto_decompress=False,
        shutdown_timeout=SHUTDOWN_S,
    )
    door = _Door(most_connections, patience_s)
    app.middlewares.append(door.heard)
    await runner.setup()
    assert runner.server is not None
    handshake_s, farewell_s = (patience_s, SHUTDOWN_S) if tls else (None, None)
    enter = partial(door.enter, runner.server)
    try:
        try:
            server = await asyncio.get_running_loop().create_server(
                enter,
                host or None,
                port,
                ssl=tls,
                ssl_handshake_timeout=handshake_s,
                ssl_shutdown_timeout=farewell_s,
            )
        except OSError as error:
            taken = error.errno == errno.EADDRINUSE
            words = "somebody else listens there" if taken else error.strerror or str(error)
            raise UsageError(f"can't listen on {host}:{port}: {words}", "choose another port or address") from None
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()
    finally:
        # A TLS connection would wait for the other side's farewell longer than anybody waits for this process.
        open_still = [one.transport for one in runner.server.connections if one.transport]
        await runner.cleanup()
        await asyncio.sleep(FAREWELL_S if open_still else 0)
        for transport in open_still:
            transport.abort()
        await asyncio.sleep(0)
