"""All of a small cluster but its scheduler: the server settles, kubelet and controllers act, until nothing changes."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from muster.embedded.expiry import Expiry
from muster.embedded.garbage import MOST_WRITES
from muster.embedded.kubelet import Kubelet
from muster.embedded.mirror import Caller
from muster.embedded.orphans import Orphans
from muster.embedded.server import Server
from muster.embedded.workloads import Workloads
from muster.telemetry import SILENT, Log

# More rounds than any chain of causes is long; what still moves after them waits for the next step.
MOST_ROUNDS = 100
AFTER_FAILURE_S = 1.0


class Part(Protocol):
    """Somebody who acts by himself."""

    caller: Caller

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do before the time that `step` named."""

    def step(self, now: float) -> float | None:
        """Do what is due; when something is due next, if anything is."""

    def close(self) -> None:
        """Follow the server no longer."""


class Running:
    """The parts of a cluster that act by themselves, when `step` is called, and only then.

    `orphans_after_s`: pods on a node that is no longer there are deleted so much later, as the garbage collector of a
    real cluster does after 40 s; without, nobody does it. `events_for_s`: how long Events are kept; without, for ever.
    """

    def __init__(
        self, server: Server, *, orphans_after_s: float | None = None, events_for_s: float | None = None
    ) -> None:
        self.server = server
        self._parts: list[Part] = [Workloads(server), Kubelet(server)]
        if orphans_after_s is not None:
            self._parts.append(Orphans(server, orphans_after_s))
        if events_for_s is not None:
            self._parts.append(Expiry(server, events_for_s))
        self._due: float | None = None

    @property
    def trouble(self) -> str:
        """Why something that was to happen in the last step could not be kept; nothing when all could."""
        return next((part.caller.trouble for part in self._parts if part.caller.trouble), "")

    def step(self, now: float) -> float | None:
        """Let everything happen that happens now; when something is due next, if anything is. Who fails keeps nobody
        else from acting; the first failure is raised in the end.
        """
        store = self.server.core.store
        first, defects = store.revision, list[Exception]()
        for part in self._parts:
            part.caller.trouble = ""
        for _ in range(MOST_ROUNDS):
            before = store.revision
            defects.clear()
            try:
                self.server.settle()
            except Exception as defect:
                defects.append(defect)
            if self._is_idle(now):
                break
            due = dict[Part, float | None]()
            for part in self._parts:
                try:
                    due[part] = part.step(now)
                except Exception as defect:
                    defects.append(defect)
            self._due = min((at for at in due.values() if at is not None), default=None)
            if store.revision == before:
                break
            if store.revision - first >= MOST_WRITES:
                # Others have a turn, and the rest is due at once.
                self._due = now
                break
        if defects:
            raise defects[0]
        return self._due

    def _is_idle(self, now: float) -> bool:
        quiet = self.server.is_settled and all(part.is_idle for part in self._parts)
        return quiet and (self._due is None or now < self._due)

    def close(self) -> None:
        """Follow the server no longer."""
        for part in self._parts:
            part.close()


async def keep_running(
    running: Running, clock: Callable[[], float], pause_s: float = 0.02, *, log: Log = SILENT
) -> None:
    """Step after every change and whenever something is due, until cancelled. `pause_s` lets changes gather.

    A step that fails (a full disk, a defect) is told to the log, once while it stays the same, and the next one comes.
    """
    changed, told, loop = asyncio.Event(), "", asyncio.get_running_loop()
    unsubscribe = running.server.core.store.subscribe(lambda change: changed.set())
    try:
        while True:
            changed.clear()
            begun = loop.time()
            try:
                due = running.step(clock())
                trouble = running.trouble
            except Exception as error:
                trouble = f"{type(error).__name__}: {error}"
            if trouble:
                due = clock() + AFTER_FAILURE_S
            if trouble and trouble != told:
                log.error("kubelet and controllers failed", error=trouble)
            told, took_s = trouble, loop.time() - begun
            changed.clear()
            try:
                async with asyncio.timeout(None if due is None else max(0.0, due - clock())):
                    await changed.wait()
            except TimeoutError:
                pass
            # Others have at least as much time.
            await asyncio.sleep(max(pause_s, took_s))
    finally:
        unsubscribe()
