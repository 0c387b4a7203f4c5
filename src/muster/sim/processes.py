"""A muster process in a story: the real one, on its own loop and wire. It starts, stops, crashes, stands still."""

import asyncio
import io
import random
from collections.abc import Callable
from datetime import datetime, timedelta

from muster.controllers.process import End, Ended, Process, Setup
from muster.errors import DEFECT
from muster.kube.client import Client
from muster.kube.connection import Connection
from muster.kube.credentials import ANONYMOUS
from muster.kube.lease import Election
from muster.kube.rights import LEASE_NAME
from muster.kube.transport import Request, Unanswered
from muster.plan.outcome import Plan
from muster.sim.faults import Weather
from muster.sim.machine import Machine, VirtualLoop
from muster.sim.objects import BEGIN
from muster.sim.wire import COMPARED, Asked, Server, Wire
from muster.telemetry import Log

LEASE_NAMESPACE = "muster-system"
# So long after it ended by itself, or crashed, whoever looks after it starts it again.
RESTART_S = 3.0


class Clock:
    """Virtual time; the wall shows something else when it was set."""

    def __init__(self, machine: Machine, skew_s: float) -> None:
        self._machine = machine
        self.skew_s = skew_s

    def now_s(self) -> float:
        """Seconds of the story."""
        return self._machine.now_s

    def wall(self) -> datetime:
        """What people read."""
        return BEGIN + timedelta(seconds=self._machine.now_s + self.skew_s)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)


class Player:
    """The place of one process. `happened` is told of what it does, `broken` of what it must not do."""

    def __init__(
        self,
        number: int,
        machine: Machine,
        server: Server,
        weather: Weather,
        *,
        seed: int,
        latency_s: float,
        elects: bool,
        setup: Setup,
        sent: Callable[[int, Request, Asked], None],
        answered: Callable[[int, Request, int | None], None],
        saw: Callable[[int, str, int], None],
        happened: Callable[[str, str], None],
        ended: Callable[[], None],
        struck: Callable[[str], None],
        broken: Callable[[str, str], None],
        planned: Callable[[int, Plan], None],
        wants_log: bool,
    ) -> None:
        self.number, self._machine, self._server, self._weather = number, machine, server, weather
        self._seed, self._latency_s, self._elects, self._setup = seed, latency_s, elects, setup
        self._sent, self._answered, self._saw = sent, answered, saw
        self._happened, self._struck, self._broken = happened, struck, broken
        self._wants_log, self._has_ended, self._planned = wants_log, ended, planned
        self.who = f"muster-{number}"
        self.clock = Clock(machine, 0.0)
        # Whether it is started again however it ended: nobody is told to end any more.
        self.stays = False
        self.process: Process | None = None
        self.identity = ""
        self._lives = 0
        self._loop: VirtualLoop | None = None
        self._wire: Wire | None = None
        self._stop: asyncio.Event | None = None
        # Loops of those that crashed, until the story is over.
        self._dead: list[VirtualLoop] = []

    @property
    def is_running(self) -> bool:
        """Whether there is a process."""
        return self._loop is not None

    def start(self) -> None:
        """A new process, when there is none."""
        if self.is_running:
            return
        self._lives += 1
        self.identity = f"{self.who}.{self._lives}"
        self._happened(self.who, f"starts as {self.identity}")
        loop = self._loop = self._machine.loop(self._failed)
        self._wire = Wire(
            self.number,
            self._machine,
            loop,
            self._server,
            self._weather,
            random.Random(f"{self._seed}/wire/{self.identity}"),  # noqa: S311
            self._latency_s,
            crash=self.crash,
            sent=lambda request, asked: self._sent(self.number, request, asked),
            answered=lambda request, status: self._answered(self.number, request, status),
            saw=lambda plural, revision: self._saw(self.number, plural, revision),
            struck=self._struck,
        )
        loop.create_task(self._live(self._wire, self.identity))

    async def _live(self, wire: Wire, identity: str) -> None:
        chance = random.Random(f"{self._seed}/client/{identity}")  # noqa: S311
        client = Client(
            Connection("http://story", None, ANONYMOUS, "default", "story"),
            transport=wire,
            clock=self.clock,
            jitter=chance.random,
        )
        election = Election(client, LEASE_NAMESPACE, LEASE_NAME, identity) if self._elects else None
        stop = self._stop = asyncio.Event()
        self.process = Process(
            client,
            self._setup,
            identity=identity,
            name=identity.removeprefix("muster-"),
            election=election,
            log=self._log(),
            planned=lambda plan: self._planned(self.number, plan),
            compared=lambda version: self._saw(self.number, COMPARED, int(version)),
        )
        try:
            ended = await self.process.run(stop)
        except Exception as error:
            ended = Ended(End.DEFECT, [error])
        self._ended(ended)

    def _failed(self, error: BaseException | None, what: str) -> None:
        """Something in the process failed and nobody there looked. Who gave up waiting for an answer need not."""
        if self._loop is not None and not isinstance(error, Unanswered):
            self._broken("defect", f"{self.who}: {what}: {type(error).__name__}: {error}")

    def _log(self) -> Log:
        return Log(_Told(self._tell), level="info" if self._wants_log else "error", human=True, now=self.clock.wall)

    def _tell(self, line: str) -> None:
        if DEFECT in line:
            self._broken("defect", f"{self.who}: {line}")
        if self._wants_log:
            self._happened(self.who, f"logs {line}")

    def _ended(self, ended: Ended) -> None:
        for one in ended.defects:
            self._broken("defect", f"{self.who} ended: {type(one).__name__}: {one}")
        if ended.how is End.LOST and not self._elects:
            self._broken("defect", f"{self.who} lost a Lease that it never asked for")
        self._happened(self.who, f"ended: {ended.how.value}")
        assert self._loop is not None
        self._bury(self._loop)
        if ended.how is not End.STOPPED or self.stays:
            self._machine.later(RESTART_S, self.start)

    def crash(self) -> None:
        """Ends without a word; what it has sent is on its way. Somebody starts it again."""
        if self._loop is None:
            return
        self._happened(self.who, "crashes")
        self._bury(self._loop)
        self._machine.later(RESTART_S, self.start)

    def stop(self) -> None:
        """It is told to end, and does so in order."""
        if self._loop is not None and self._stop is not None:
            self._happened(self.who, "is told to end")
            self._loop.call_soon(self._stop.set)

    def pause(self, seconds: float) -> None:
        """It stands still."""
        if self._loop is not None:
            self._happened(self.who, f"stands still for {seconds:.1f} s")
            self._loop.frozen_until_s = self._machine.now_s + seconds

    def thaw(self) -> None:
        """It stands still no longer."""
        if self._loop is not None:
            self._loop.frozen_until_s = 0.0

    def jump(self, seconds: float) -> None:
        """Its clock on the wall is set."""
        self._happened(self.who, f"has its clock set by {seconds:.0f} s")
        self.clock.skew_s += seconds

    def cut(self, plurals: list[str], broken: bool = False) -> None:
        """Its watches end."""
        if self._wire is not None:
            self._wire.cut(plurals, broken)

    def leave(self) -> None:
        """The story is over: nothing of it stays."""
        if self._wire is not None:
            self._wire.is_dead = True
        for loop in self._dead:
            loop.leave()

    def _bury(self, loop: VirtualLoop) -> None:
        self._has_ended()
        assert self._wire is not None
        self._wire.is_dead = True
        self._wire.cut(["*"])
        self._machine.drop(loop)
        self._dead.append(loop)
        self._loop = self._wire = self._stop = None


class _Told(io.StringIO):
    """Takes the lines of a log."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__()
        self._told = tell

    def write(self, text: str) -> int:
        line = text.strip()
        if line:
            self._told(line)
        return len(text)
