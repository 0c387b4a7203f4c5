"""A playground: a control plane in this process, and one muster process that schedules on it, over real HTTPS."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple, Self

from muster.cli.claim import short
from muster.cli.installation import NAMESPACE
from muster.cli.observed import Observed, Place
from muster.cli.plane import Plane
from muster.cli.render import tell
from muster.config import Config
from muster.controllers.process import Beside, Ended, Process
from muster.embedded.server import Server
from muster.kube.client import Client
from muster.telemetry import Log, Metrics

DEFAULT = "~/.muster/kubeconfig"


class Wishes(NamedTuple):
    """What `muster run --embedded` is asked for. `nodes` are made when there are none; None: when it is new."""

    kubeconfig: str = DEFAULT
    data: str | None = None
    port: int = 0
    nodes: int | None = None
    namespace: str = NAMESPACE


@asynccontextmanager
async def embedded_place(config: Config, wishes: Wishes, log: Log, metrics: Metrics) -> AsyncIterator[Place]:
    """A cluster of our own."""
    plane = Plane(
        config,
        kubeconfig=Path(wishes.kubeconfig).expanduser().absolute(),
        data=None if wishes.data is None else Path(wishes.data).expanduser().absolute(),
        port=wishes.port,
        nodes=wishes.nodes,
        namespace=wishes.namespace,
        log=log,
        metrics=metrics,
    )
    async with plane, plane.muster() as client:
        yield Place(client, [plane.act], partial(_greet, plane, wishes))


def _greet(plane: Plane, wishes: Wishes) -> None:
    if wishes.nodes is not None and plane.nodes_before:
        tell(f"note: --nodes {wishes.nodes} is for a cluster without nodes; this one has {plane.nodes_before}")
    kept = f"kept in {wishes.data}" if wishes.data else "in memory: it ends with this process"
    tell(f"A cluster of its own at {plane.url}, {kept}. Ctrl-C ends it.")
    tell("next, in another terminal (docs/try-it.md goes on from there):")
    tell(f"  export KUBECONFIG={short(plane.kubeconfig)}")
    tell("  kubectl get nodes,queues")


class Playground:
    """An API server in this process with kubelet and controllers, and one muster process that schedules on it.

    Within `async with` the API server listens on loopback and has our definitions, the default queue and the priority
    classes; the kubeconfig is written, for its owner only. `run` lets everything act.
    """

    def __init__(
        self,
        config: Config,
        *,
        kubeconfig: Path,
        data: Path | None = None,
        port: int = 0,
        log: Log,
        metrics: Metrics,
    ) -> None:
        self._config, self._log, self._metrics = config, log, metrics
        self._plane = Plane(config, kubeconfig=kubeconfig, data=data, port=port, log=log, metrics=metrics)
        self.kubeconfig = kubeconfig
        self._stack = AsyncExitStack()
        self.url = ""
        self.server: Server
        # Whoever has the kubeconfig may do everything; muster has a client of its own.
        self.client: Client
        self.observed: Observed

    async def __aenter__(self) -> Self:
        try:
            await self._stack.enter_async_context(self._plane)
            self.url, self.server = self._plane.url, self._plane.server
            self.client = await self._stack.enter_async_context(self._plane.admin())
            own = await self._stack.enter_async_context(self._plane.muster())
            self.observed = Observed(own, self._config, NAMESPACE, log=self._log, metrics=self._metrics)
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    @property
    def process(self) -> Process:
        """The muster process."""
        return self.observed.process

    async def run(self, stop: asyncio.Event, beside: Iterable[Beside] = ()) -> Ended:
        """Kubelet, controllers and muster, until `stop` is set or something ends."""
        return await self.observed.run(stop, [self._plane.act, *beside])
