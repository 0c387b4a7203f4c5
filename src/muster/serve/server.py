"""Puts the answers behind ports: the webhook behind TLS, health and metrics plain."""

import asyncio
import errno
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from aiohttp import web

from muster.accepting import Door, Limits, accepting
from muster.errors import UsageError
from muster.serve.health import Check, health_handler
from muster.serve.metrics import metrics_handler
from muster.serve.webhook.answers import MAX_BODY_BYTES, Webhook
from muster.telemetry import Log, Metrics

WEBHOOK_PATH = "/validate"
# Connections of any port of ours; health and metrics have few callers.
LIMITS, FEW = Limits(), Limits(most=128, most_of_one=64, patience_s=5.0, idle_s=75.0)
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


@asynccontextmanager
async def listening(
    app: web.Application,
    host: str,
    port: int,
    log: Log,
    tls: ssl.SSLContext | None = None,
    *,
    limits: Limits = LIMITS,
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
        keepalive_timeout=limits.idle_s,
        lingering_time=2.0,
        auto_decompress=False,
        shutdown_timeout=SHUTDOWN_S,
    )
    door = Door(limits, log, tls, SHUTDOWN_S)
    app.middlewares.insert(0, door.heard)
    await runner.setup()
    assert runner.server is not None
    try:
        async with AsyncExitStack() as stack:
            try:
                number = await stack.enter_async_context(accepting(door, host, port, runner.server))
            except OSError as error:
                taken = error.errno == errno.EADDRINUSE
                words = "somebody else listens there" if taken else error.strerror or str(error)
                raise UsageError(f"can't listen on {host}:{port}: {words}", "choose another port or address") from None
            yield number
    finally:
        # A TLS connection would wait for the other side's farewell longer than anybody waits for this process.
        open_still = [one.transport for one in runner.server.connections if one.transport]
        await runner.cleanup()
        await asyncio.sleep(FAREWELL_S if open_still else 0)
        for transport in open_still:
            transport.abort()
        await asyncio.sleep(0)
