"""What `muster run` serves beside its work: health and metrics, and the admission webhook with its certificates."""

import os
import socket
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple

from muster.api.documents import shown
from muster.api.validation import Context
from muster.cli.installation import CERTIFICATE_FOLDER, NAME, WEBHOOK_SERVICE
from muster.config import Config
from muster.errors import UsageError
from muster.kube.client import Client
from muster.serve.certificates import FromFiles, SelfSigned, Served, keep_fresh, service_names
from muster.serve.health import Check
from muster.serve.publishing import Publisher
from muster.serve.server import listening, status_app, webhook_app
from muster.serve.webhook import Webhook, admission_context
from muster.snapshot.world import World
from muster.telemetry import Log, Metrics

Address = tuple[str, int]


def address_of(option: str, text: str) -> Address | None:
    """Host and port; no host is all of them, nothing is nowhere. Raises UsageError."""
    host, colon, port = text.rpartition(":")
    if not text:
        return None
    if not colon or not port.isdigit() or int(port) > 65535:
        raise UsageError(f"{option} {shown(text)} is no address", "write it as 127.0.0.1:8080, or :8080 for all")
    return host.strip("[]"), int(port)


class Serving(NamedTuple):
    """What the servers need."""

    client: Client
    world: World
    config: Config
    metrics: Metrics
    log: Log

    async def status(self, stack: AsyncExitStack, address: Address, ready: list[Check]) -> None:
        """`/livez`, `/readyz` and `/metrics`, until the stack unwinds."""
        await stack.enter_async_context(listening(status_app(self.metrics, ready=ready), *address, self.log))

    async def webhook(
        self, stack: AsyncExitStack, address: Address, namespace: str
    ) -> Iterator[Coroutine[Any, Any, None]]:
        """The webhook, until the stack unwinds; gives what has to run meanwhile.

        Certificates come from the files of cert-manager if they are there, else each replica signs its own and adds
        its authority to the webhook's configuration.
        """
        clock, folder = self.client.clock, Path(CERTIFICATE_FOLDER)
        running: list[Coroutine[Any, Any, None]] = []
        source: FromFiles | SelfSigned
        if (folder / "tls.crt").exists():
            source = FromFiles(folder / "tls.crt", folder / "tls.key")
        else:
            names = [*service_names(WEBHOOK_SERVICE, namespace), address[0] or "127.0.0.1"]
            source = SelfSigned(names, os.environ.get("POD_NAME") or socket.gethostname())
            running.append(Publisher(self.client, NAME, source, clock, self.log).run())
        served = Served(source, clock.wall())
        app = webhook_app(Webhook(self._contexts(), metrics=self.metrics, log=self.log, clock=clock))
        await stack.enter_async_context(listening(app, *address, self.log, served.context))
        return iter([*running, keep_fresh(served, clock, self.log, self.metrics)])

    def _contexts(self) -> Callable[[], Context | None]:
        """What the world says, as copies that stay as they are while somebody reads them in a thread."""
        kept: list[tuple[Any, Context]] = []

        def now() -> Context:
            world = self.world
            parts = dict(world.topologies), dict(world.queues), frozenset(world.priority_classes)
            if not kept or kept[0][0] != parts:
                context = Context(
                    topologies=parts[0],
                    queues=parts[1],
                    priority_classes=parts[2],
                    default_queue=self.config.default_queue,
                    settings=self.config.validation,
                )
                kept[:] = [(parts, admission_context(context, self.config.grouping.expressions))]
            return kept[0][1]

        return now
