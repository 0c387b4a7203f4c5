"""Requests to an API server for whoever is not in the event loop: a thread asks and waits for the answer."""

import asyncio
import json
from typing import Any
from urllib.parse import parse_qsl

from muster.errors import MusterError
from muster.kube.connection import Connection
from muster.kube.transport import HttpTransport, Request, Unanswered

_TIMEOUT_S = 20.0
_MOST_BYTES = 64 * 1024 * 1024


class Interrupted(MusterError):
    """The server went away while somebody waited for it."""


class Sender:
    """`send(method, path, body, content_type)` gives the code and the document of an answer, over real HTTPS.

    It is made in the event loop that its requests run in, and used from another thread.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._transport = HttpTransport(connection)
        self._loop = asyncio.get_running_loop()

    async def close(self) -> None:
        """Ends all connections."""
        await self._transport.close()

    def __call__(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json", /
    ) -> tuple[int, Any]:
        """The code and the document of the answer. Raises Interrupted."""
        return self.asked(method, path, body, content_type, "application/json")

    def asked(self, method: str, path: str, body: Any, content_type: str, accept: str) -> tuple[int, Any]:
        """The same, with the form of the answer that is accepted."""
        try:
            waiting = asyncio.run_coroutine_threadsafe(self._send(method, path, body, content_type, accept), self._loop)
            return waiting.result(_TIMEOUT_S + 5.0)
        except (asyncio.CancelledError, TimeoutError, Unanswered, RuntimeError) as error:
            raise Interrupted(f"no answer of {self._connection.server}: {error}") from None

    async def _send(self, method: str, path: str, body: Any, content_type: str, accept: str) -> tuple[int, Any]:
        path, _, query = path.partition("?")
        secret = await self._connection.credentials.secret()
        headers = [("Accept", accept), ("User-Agent", "muster-demo"), *self._connection.credentials.headers(secret)]
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            headers.append(("Content-Type", content_type))
        request = Request(method, path, dict(parse_qsl(query)), headers, data, secret.pair)
        answer = await self._transport.request(request, _TIMEOUT_S, _MOST_BYTES)
        return answer.status, json.loads(answer.body) if answer.body else {}
