"""All of a small cluster but its scheduler: the server settles, kubelet and controllers act, until nothing changes."""

import asyncio
from collections.abc import Callable

from muster.embedded.kubelet import Kubelet
from muster.embedded.server import Server
from muster.embedded.workloads import Workloads

# More rounds than any chain of causes is long; what still moves after them waits for the next step.
MOST_ROUNDS = 100


class Running:
    """The parts of a cluster that act by themselves."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.kubelet = Kubelet(server)
        self.workloads = Workloads(server)

    def step(self, now: float) -> float | None:
        """Let everything happen that happens now; when something is due next, if anything is."""
        due: float | None = None
        for _ in range(MOST_ROUNDS):
            before = self.server.core.store.revision
            self.server.settle()
            self.workloads.step(now)
            due = self.kubelet.step(now)
            if self.server.core.store.revision == before:
                break
        return due


async def keep_running(running: Running, clock: Callable[[], float], pause_s: float = 0.02) -> None:
    """Step after every change and whenever something is due, until cancelled. `pause_s` lets changes gather."""
    changed = asyncio.Event()
    unsubscribe = running.server.core.store.subscribe(lambda change: changed.set())
    try:
        while True:
            changed.clear()
            due = running.step(clock())
            changed.clear()
            try:
                async with asyncio.timeout(None if due is None else max(0.0, due - clock())):
                    await changed.wait()
            except TimeoutError:
                continue
            await asyncio.sleep(pause_s)
    finally:
        unsubscribe()
