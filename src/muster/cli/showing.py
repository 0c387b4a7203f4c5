"""The page as commands serve it: what it is of, where it listens, and how people get there."""

import secrets
import time
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import NamedTuple

from muster.cli.observed import Observed
from muster.cli.serving import address_of
from muster.config import Config, PageConfig
from muster.errors import UsageError
from muster.plan.outcome import Plan
from muster.serve.page.app import Asking, Page, Shown
from muster.serve.page.gate import Callers, Names, OneToken, bracketed
from muster.serve.page.history import History
from muster.serve.views.frame import Notes, Source
from muster.serve.views.scene import Scene, scene_of
from muster.snapshot.world import Key, World
from muster.telemetry import SILENT, Log

HOST, PORT = "127.0.0.1", 8420
# So many ports are tried when nobody said which.
_MOST_PORTS = 20
# So long after somebody looked they may still look; whoever watches is heard of every 15 s.
_WATCHED_S = 40.0


class Where(NamedTuple):
    """Where the page listens. Without `exact` the next port that is free will do. `hosts` are further names for it."""

    host: str = HOST
    port: int = PORT
    exact: bool = False
    hosts: Sequence[str] = ()

    @property
    def ports(self) -> range:
        """The ports that are tried, one after the other."""
        return range(self.port, min(self.port + (1 if self.exact or not self.port else _MOST_PORTS), 65536))


def where_of(config: PageConfig, option: str | None, *, in_pod: bool) -> Where | None:
    """Where the page is to be, as the option --page and the configuration say; None: nowhere. Raises UsageError.

    In a pod it is off unless somebody says otherwise, and on all addresses then: people come from elsewhere.
    """
    enabled = {"on": "always", "off": "never"}.get(option or "", config.enabled if option is None else "always")
    if enabled == "never" or (enabled == "auto" and in_pod):
        return None
    named = option if option not in (None, "on") else ""
    address = address_of("--page" if named else "page.listen", named or config.listen)
    if address is None:
        return Where("" if in_pod else HOST, PORT, exact=in_pod, hosts=config.hosts)
    return Where(*address, exact=True, hosts=config.hosts)


def refuse_sign_in(page: PageConfig, why: str) -> None:
    """Raises UsageError where nobody could sign in by a cluster."""
    if page.sign_in == "cluster":
        hint = "leave it out, or: --set page.signIn=auto"
        raise UsageError(f"page.signIn=cluster has no meaning here: {why}", hint)


def showing_of(
    observed: Observed, config: Config, source: Source, *, flags: str, callers: Callers | None = None, log: Log = SILENT
) -> "Showing":
    """The page of a process that schedules. While another one leads, plans are made for those who look."""
    from muster.cli.asking import Asking

    process = observed.process
    home = observed.client.connection.namespace
    # Where people come with rights of their own, the flags of this process are none of theirs.
    flags = flags if callers is None else ""
    asking = Asking(config, process.scheduler.world, flags=flags, home=home, interfaces=process.interfaces)
    showing = Showing(
        source,
        process.scheduler.world,
        asking,
        callers=callers,
        decision=lambda: process.scheduler.decision,
        flying=process.scheduler.flights.unsure,
        going=lambda: process.work.going,
        waiting=lambda: process.work.sights.problem or "nothing was planned yet",
        woken=process.work.wake,
        log=log,
    )
    observed.shows, observed.looks_on = showing.planned, lambda: showing.is_watched
    return showing


class Showing:
    """The scenes of a world, and the page that shows them. `planned` is told each plan, right after its cycle."""

    def __init__(
        self,
        source: Source,
        world: World,
        asking: Asking,
        *,
        notes: Notes | None = None,
        callers: Callers | None = None,
        decision: Callable[[], str] = lambda: "",
        flying: Callable[[], Collection[Key]] = tuple,
        going: Callable[[], Collection[Key]] = tuple,
        waiting: Callable[[], str] = lambda: "nothing was planned yet",
        woken: Callable[[], None] = lambda: None,
        log: Log = SILENT,
    ) -> None:
        self._world, self._decision, self._flying, self._going = world, decision, flying, going
        self._woken, self._log = woken, log
        self._asked_s = -_WATCHED_S
        self._is_broken = False
        self._last: Scene | None = None
        self._callers = callers or OneToken()
        # Replicas behind one address number what they show apart, so that nobody goes on with what another one said.
        first = 1 if self._callers.mode == "token" else secrets.randbelow(10**6) * 10**6 + 1
        shown = Shown(History(source, notes=notes, first=first), source, waiting)
        self._page = Page(shown, Names(port=0), self._callers, asking, asked=self._asked, log=log)

    def _asked(self) -> None:
        was_watched, self._asked_s = self.is_watched, time.monotonic()
        if not was_watched:
            self._woken()

    @property
    def is_watched(self) -> bool:
        """Whether somebody looked at it a moment ago. Who watches is heard of more often than that."""
        return time.monotonic() - self._asked_s < _WATCHED_S

    def planned(self, plan: Plan) -> None:
        """A cycle has been planned, and the world is still as it saw it. What the page can't show costs nobody else
        anything.
        """
        try:
            decision, flying = self._decision(), self._flying()
            # Of a plan that nobody acts on all is shown; of a decision only what was ordered.
            going = self._going() if decision else None
            self._last = scene_of(plan, self._world, decision=decision, flying=flying, going=going, before=self._last)
            self._page.note(self._last)
            self._is_broken = False
        except Exception as defect:
            self._last = None
            if not self._is_broken:
                self._log.error("the page failed: this is a defect in muster", error=defect)
            self._is_broken = True

    @asynccontextmanager
    async def served(self, where: Where) -> AsyncIterator[str]:
        """The page, until the end of the block. Gives its address, with the token if there is one to know."""
        async with AsyncExitStack() as stack:
            port = await self._listen(stack, where)
            any_port = self._callers.mode == "cluster"
            self._page.names = Names(where.hosts, listens=where.host, port=None if any_port else port)
            yield self._address(where, port)

    async def _listen(self, stack: AsyncExitStack, where: Where) -> int:
        for port in where.ports[:-1]:
            with suppress(UsageError):
                return await stack.enter_async_context(self._page.listening(where.host, port))
        return await stack.enter_async_context(self._page.listening(where.host, where.ports[-1]))

    def _address(self, where: Where, port: int) -> str:
        host = bracketed(where.host) if where.host not in ("", "0.0.0.0", "::") else HOST  # noqa: S104 (compared only)
        token = f"/#token={self._callers.token}" if isinstance(self._callers, OneToken) else "/"
        return f"http://{host}:{port}{token}"
