"""A control plane in this process: the embedded API server on loopback, kubelet and controllers, made ready for muster.

Its API server asks our webhook about our kinds, and nobody else. What it is asked to keep is in one file.
"""

import errno
import os
import random
import time
import uuid
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Self

from muster.api.kinds import CORE_KINDS, QUEUE, TOPOLOGY, read_object
from muster.api.rules import CHECKS
from muster.cli.claim import Claim
from muster.cli.furnish import Furnisher
from muster.cli.installation import NAMESPACE
from muster.cli.roles import user_name
from muster.cli.serving import contexts
from muster.config import Config
from muster.embedded import objects
from muster.embedded.expiry import EVENTS_S
from muster.embedded.http import Serving
from muster.embedded.identity import NAME
from muster.embedded.journal import Journal
from muster.embedded.running import Running, keep_running
from muster.embedded.server import Server
from muster.embedded.store import DELETED, Change, Store
from muster.errors import UsageError
from muster.kube.client import Client
from muster.kube.connection import Connection, Tls
from muster.kube.credentials import Credentials, Fixed, KeyPair, Secret
from muster.kube.kubeconfig import connect
from muster.serve.webhook.admitting import Admitting
from muster.serve.webhook.answers import Webhook
from muster.serve.webhook.guarding import Guarding
from muster.snapshot.world import World
from muster.telemetry import Log, Metrics

# Of a cluster that is new, when nobody says how many: a cluster without nodes shows nothing.
NODES = 8
# Pods of a node that was deleted go so much later, as on a real cluster.
_ORPHANS_S = 40.0
# What admission looks at beside the object itself.
_KNOWN = (QUEUE, TOPOLOGY, *(kind for kind in CORE_KINDS if kind.plural == "priorityclasses"))


class Plane:
    """`async with Plane(...)`: the API server listens on loopback, and its kubeconfig is written.

    `nodes` are made when there are none; None: the usual ones, when the cluster is new. `namespace` is where muster's
    Lease is. `act` is to be run beside whatever else runs: without it bound pods do not start, and Jobs make no pods.
    """

    def __init__(
        self,
        config: Config,
        *,
        kubeconfig: Path,
        data: Path | None = None,
        port: int = 0,
        nodes: int | None = 0,
        namespace: str = NAMESPACE,
        log: Log,
        metrics: Metrics,
    ) -> None:
        self.kubeconfig = kubeconfig
        self._config, self._data, self._port = config, data, port
        self._nodes, self._namespace = nodes, namespace
        self._log, self._metrics = log, metrics
        self._stack = AsyncExitStack()
        self.url = ""
        # How many nodes there were before.
        self.nodes_before = 0
        self.server: Server
        self._serving: Serving

    async def __aenter__(self) -> Self:
        try:
            await self._open()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def _open(self) -> None:
        self._stack.enter_context(Claim(self.kubeconfig))
        store = Store() if self._data is None else _kept(self._data)
        if isinstance(store, Journal):
            self._stack.callback(store.close)
        chance = random.SystemRandom()
        self.server = Server(
            store,
            clock=time.time,
            new_uid=lambda: str(uuid.uuid4()),
            suffix=lambda: objects.suffix(chance.choice),
            checks=CHECKS,
            reviews=[self._admitting(store), Guarding(user_name(NAMESPACE), self._config.scheduler_names)],
        )
        furnisher = Furnisher(self.server)
        usual = NODES if furnisher.is_new() else 0
        # The nodes first: a start that was cut short before is as if there was none.
        self.nodes_before = furnisher.add_nodes(usual if self._nodes is None else self._nodes)
        furnisher.install(self._namespace, self._config.default_queue)
        self._serving = Serving(self.server, port=self._port, log=self._log)
        try:
            await self._stack.enter_async_context(self._serving)
        except OSError as error:
            taken = error.errno == errno.EADDRINUSE
            words = "somebody else listens there" if taken else error.strerror or str(error)
            hint = "name another port, or leave --port out: then it is any that is free"
            raise UsageError(f"can't listen on port {self._port} of this machine: {words}", hint) from None
        self.url = self._serving.url
        self._serving.write_kubeconfig(self.kubeconfig)

    def _admitting(self, store: Store) -> Admitting:
        """Our webhook, which sees the store itself: nothing is new to it that was answered before."""
        webhook = Webhook(contexts(_mirror(store), self._config), metrics=self._metrics, log=self._log)
        return Admitting(webhook.answer, user_name(NAMESPACE))

    def admin(self) -> Client:
        """A client for whoever has the kubeconfig."""
        return Client(connect(self.kubeconfig))

    def muster(self) -> Client:
        """A client for muster itself, known by a certificate as in a cluster by its service account."""
        pair = self._serving.authority.client(user_name(NAMESPACE))
        credentials = Credentials(Fixed(Secret(pair=KeyPair(*pair))), origin="the certificate of the embedded server")
        return Client(
            Connection(self.url, Tls(authorities=self._serving.authority.pem), credentials, "default", context=NAME)
        )

    async def act(self) -> None:
        """Kubelet and controllers, until cancelled."""
        running = Running(self.server, orphans_after_s=_ORPHANS_S, events_for_s=EVENTS_S)
        try:
            await keep_running(running, time.time, log=self._log)
        finally:
            running.close()


def _kept(path: Path) -> Journal:
    """The store in a file that only its owner may read: there may be Secrets in it."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        hint = "name a file in a folder that is there and that you may write to, with --data"
        raise UsageError(f"can't keep the cluster in {path}: {error.strerror}", hint) from None
    return Journal(path)


def _mirror(store: Store) -> World:
    """What admission knows, as the store has it at any moment."""
    world = World()
    kinds = {f"{kind.plural}.{kind.group}": kind for kind in _KNOWN}

    def changed(change: Change) -> None:
        kind = kinds.get(change.key.resource)
        if kind is not None:
            found, _ = read_object(change.document, kind, strict=False)
            world.apply(found, deleted=change.type == DELETED)

    for resource, kind in kinds.items():
        for document in store.list(resource).items:
            world.apply(read_object(document, kind, strict=False)[0])
    store.subscribe(changed)
    return world
