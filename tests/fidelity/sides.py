"""The two servers that answer: the embedded one in this process, and a real one behind HTTPS."""

import http.client
import random
import uuid
from collections.abc import Callable, Mapping
from urllib.parse import parse_qsl, unquote, urlsplit

from fidelity.play import Send
from muster.embedded import objects
from muster.embedded.exchange import Answer, Request, asked_for
from muster.embedded.server import Server
from muster.embedded.store import Store

NOW = 1_800_000_000.0


def fresh(clock: Callable[[], float] = lambda: NOW, store: Store | None = None, **more: object) -> Server:
    """An embedded server with a seed, and a clock that stands still unless another is given."""
    chance = random.Random(1)  # noqa: S311
    return Server(
        store or Store(),
        clock=clock,
        new_uid=lambda: str(uuid.UUID(int=chance.getrandbits(128))),
        suffix=lambda: objects.suffix(chance.choice),
        **more,  # type: ignore[arg-type]
    )


def embedded(server: Server) -> Send:
    """Requests to a server in this process."""

    def send(
        method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        address = urlsplit(path)
        query = asked_for(parse_qsl(address.query, keep_blank_values=True))
        said = {name.lower(): value for name, value in headers.items()}
        request = Request(method, unquote(address.path), query, said, body)
        if not server.is_watch(request):
            found = server.handle(request)
            return found.status, list(found.headers), found.body
        watch = server.watch(request)
        if isinstance(watch, Answer):
            return watch.status, list(watch.headers), watch.body
        events = b"".join(watch.read())
        watch.close()
        return 200, [("Content-Type", "application/json")], events

    return send


def real(connect: Callable[[], http.client.HTTPSConnection]) -> Send:
    """Requests to a control plane, each on a connection of its own."""

    def send(
        method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = connect()
        try:
            connection.request(method, path, body or None, dict(headers))
            response = connection.getresponse()
            return response.status, response.getheaders(), response.read()
        finally:
            connection.close()

    return send
