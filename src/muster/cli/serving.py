"""What `muster run` serves beside its work: health and metrics, and the admission webhook with its certificates."""

import os
import socket
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from muster.api.documents import shown
from muster.api.validation import Context
from muster.cli.installation import CERTIFICATE_FOLDER, NAME, WEBHOOK_SERVICE
from muster.config import Config
from muster.errors import UsageError
from muster.kube.client import Client
from muster.serve.health import Check
from muster.serve.server import FEW, listening, status_app, webhook_app
from muster.serve.webhook.answers import Webhook, admission_context
from muster.serve.webhook.certificates import FromFiles, SelfSigned, Served, keep_fresh, service_names
from muster.serve.webhook.publishing import Publisher
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


class Answering(NamedTuple):
    """A webhook that is served: what has to run beside it, and the check that says whether it can be trusted."""

    beside: list[Callable[[], Coroutine[Any, Any, None]]]
    check: Check


class Serving(NamedTuple):
    """What the servers need."""

    client: Client
    world: World
    config: Config
    metrics: Metrics
    log: Log
    # Whether the world was seen.
    is_known: Callable[[], bool]

    async def status(self, stack: AsyncExitStack, address: Address, alive: list[Check], ready: list[Check]) -> None:
        """`/livez`, `/readyz` and `/metrics`, until the stack unwinds."""
        app = status_app(self.metrics, alive=alive, ready=ready)
        await stack.enter_async_context(listening(app, *address, self.log, limits=FEW))

    async def webhook(self, stack: AsyncExitStack, address: Address, namespace: str) -> Answering:
        """The webhook, until the stack unwinds.

        Certificates come from files if some are named or mounted, else each replica signs its own and adds its
        authority to the webhook's configuration.
        """
        clock = self.client.clock
        beside: list[Callable[[], Coroutine[Any, Any, None]]] = []
        source: FromFiles | SelfSigned
        publisher: Publisher | None = None
        files = _files(self.config)
        if files is not None:
            source = FromFiles(*files)
        else:
            names = [*service_names(WEBHOOK_SERVICE, namespace), address[0] or "127.0.0.1"]
            source = SelfSigned(names, os.environ.get("POD_NAME") or socket.gethostname())
            publisher = Publisher(self.client, NAME, source, clock, self.log)
            beside.append(publisher.run)
        served = Served(source, clock.wall())

        def problem() -> str:
            return served.trouble(clock.wall()) or (publisher.unready if publisher is not None else source.problem)

        unknown = admission_context(Context(settings=self.config.validation), self.config.grouping.expressions)
        known = contexts(self.world, self.config, self.is_known)
        asked = Webhook(known, metrics=self.metrics, log=self.log, clock=clock, unknown=unknown)
        app = webhook_app(asked)
        await stack.enter_async_context(listening(app, *address, self.log, served.context))
        # Whether it is trusted is for the publisher to say.
        problem_at = served.problem if publisher is None else served.trouble
        beside.append(partial(keep_fresh, served, clock, self.log, self.metrics, problem_at=problem_at))
        return Answering(beside, Check("webhook", problem))


def contexts(world: World, config: Config, is_known: Callable[[], bool] = lambda: True) -> Callable[[], Context | None]:
    """What the world says, as copies that stay as they are while somebody reads them in a thread.

    None while nothing is known: before, an object is not judged by what is not there.
    """
    kept: list[tuple[Any, Context]] = []

    def now() -> Context | None:
        if not is_known():
            return None
        classes = {name: one.value for name, one in world.priority_classes.items()}
        parts = dict(world.topologies), dict(world.queues), classes
        if not kept or kept[0][0] != parts:
            context = Context(
                topologies=parts[0],
                queues=parts[1],
                priority_classes=parts[2],
                priorities=config.priorities,
                default_queue=config.default_queue,
                settings=config.validation,
            )
            kept[:] = [(parts, admission_context(context, config.grouping.expressions))]
        return kept[0][1]

    return now


def _files(config: Config) -> tuple[Path, Path] | None:
    """The files of the certificate and its key: those that the configuration names, or those that are mounted."""
    named = config.webhook.certificate, config.webhook.key
    if any(named) and not all(named):
        lacking = "webhook.key" if named[0] else "webhook.certificate"
        raise UsageError(f"{lacking} is not set", "a certificate needs its key: name both files, or neither")
    if any(named):
        return Path(named[0]), Path(named[1])
    folder = Path(CERTIFICATE_FOLDER)
    return (folder / "tls.crt", folder / "tls.key") if (folder / "tls.crt").exists() else None
