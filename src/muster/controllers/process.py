"""One muster process, put together: scheduler, grouper, comparer, events, and the Lease that says whether it may act.

`muster run`, the demo and the simulation run this, and nothing else. What is served beside it is handed in.
"""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Sequence
from enum import Enum
from typing import Any, NamedTuple

from muster.api.interface import ResourceInterface
from muster.api.priorities import Priorities
from muster.api.validation import Context
from muster.api.validation.context import Settings
from muster.controllers.adopting import Adopter
from muster.controllers.comparer import Comparer
from muster.controllers.grouper import GrouperLoop
from muster.controllers.leading import Leading
from muster.controllers.loop import Loop
from muster.controllers.scheduler import Scheduler
from muster.grouping.language.limits import DEFAULT, Limits
from muster.kube.client import Client
from muster.kube.events import EventRecorder
from muster.kube.lease import Election
from muster.plan.cycle import Policy
from muster.plan.outcome import Plan
from muster.snapshot.queues import Costs
from muster.snapshot.world import DEFAULT_SCHEDULERS
from muster.telemetry import SILENT, Log, Metrics

# How long an end waits for what was sent already, and for events. Others should lead within 3 s.
SETTLE_S, DRAIN_S = 1.5, 0.3
Beside = Callable[[], Coroutine[Any, Any, Any]]


class Setup(NamedTuple):
    """How a process schedules and groups, as the configuration says."""

    schedulers: Collection[str] = DEFAULT_SCHEDULERS
    default_queue: str = "default-queue"
    validation: Settings | None = None
    priorities: Priorities | None = None
    costs: Costs | None = None
    policy: Policy | None = None
    expressions: Limits = DEFAULT
    prefer: Sequence[str] = ("user",)

    @property
    def context(self) -> Context:
        """How what the grouper writes is judged."""
        return Context(
            default_queue=self.default_queue,
            settings=self.validation or Settings(),
            priorities=self.priorities or Priorities(),
        )


class End(Enum):
    """How a process ended: it was told to, another one leads, or a defect of ours."""

    STOPPED = "stopped"
    LOST = "lost"
    DEFECT = "defect"


class Ended(NamedTuple):
    """How it ended; what failed, if anything did."""

    how: End
    defects: list[BaseException]


class Process:
    """Everything that runs. `identity` tells processes apart in the Lease, `name` (short) in names of decisions.

    `requests_in` is the namespace of EvictionRequests.
    """

    def __init__(
        self,
        client: Client,
        setup: Setup,
        *,
        identity: str,
        name: str,
        election: Election | None = None,
        log: Log = SILENT,
        metrics: Metrics | None = None,
        planned: Callable[[Plan], None] = lambda _: None,
        looks_on: Callable[[], bool] = lambda: False,
        compared: Callable[[str], None] = lambda _: None,
        requests_in: str = "",
    ) -> None:
        self.identity, self.election = identity, election
        self._leading = Leading(election, log=log, metrics=metrics)
        self.scheduler = Scheduler(
            schedulers=setup.schedulers,
            default_queue=setup.default_queue,
            settings=setup.validation,
            priorities=setup.priorities,
            costs=setup.costs,
            policy=setup.policy,
            identity=name,
        )
        may_act, self._events = self._leading.may_act, EventRecorder(client, instance=identity)
        self._adopter = Adopter(client, self.scheduler.world, election, setup.default_queue, log=log)
        self.work = Loop(
            client,
            self.scheduler,
            clock=client.clock,
            may_write=may_act,
            log=log,
            metrics=metrics,
            events=self._events,
            planned=planned,
            looks_on=looks_on,
            requests_in=requests_in,
        )
        self._grouper = GrouperLoop(
            client,
            self.scheduler.world,
            default_queue=setup.default_queue,
            limits=setup.expressions,
            prefer=setup.prefer,
            context=setup.context,
            may_write=may_act,
            ready=lambda: self.work.sights.is_synced,
            log=log,
            metrics=metrics,
            events=self._events,
        )
        woken = self.work.wake
        self._comparer = Comparer(
            client, self.scheduler, may_act=may_act, woken=woken, compared=compared, log=log, metrics=metrics
        )
        client.guard = self._leading.guard

    def interfaces(self) -> list[ResourceInterface]:
        """The ResourceInterfaces that are there."""
        return self._grouper.interfaces()

    async def run(self, stop: asyncio.Event, beside: Iterable[Beside] = ()) -> Ended:
        """Everything, until it is to stop or something ends."""
        self.work.begins = self._adopter.begin
        leading = self._leading.run(lambda: self.work.is_synced, self._comparer, self.work.wake)
        holding = asyncio.ensure_future(leading)
        events = asyncio.ensure_future(self._events.run())
        others: list[Coroutine[Any, Any, Any]] = [
            self.work.run(),
            self._grouper.run(),
            self._comparer.run(),
            self._adopter.run(),
            stop.wait(),
            *(work() for work in beside),
        ]
        tasks = [holding, events, *map(asyncio.ensure_future, others)]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if stop.is_set():
                await self._hand_over(events)
        finally:
            if self.election is not None and self.work.sender.is_sending:
                # It may still arrive, and nobody may plan on what it changes before it did.
                self.election.gives_back = False
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        # Also of those that failed while they ended.
        failures = [task.exception() for task in tasks if not task.cancelled()]
        defects = [one for failure in failures if failure is not None for one in _single(failure)]
        if not defects and not stop.is_set():
            defects = [RuntimeError(f"{_name_of(task)} ended by itself") for task in tasks if task in done - {holding}]
        if defects:
            return Ended(End.DEFECT, defects)
        return Ended(End.STOPPED if stop.is_set() else End.LOST, [])

    async def _hand_over(self, events: asyncio.Future[None]) -> None:
        """Nothing new is begun; what was sent gets a moment for its answer, before another one leads."""
        self._leading.stop()
        await self.work.sender.settled(SETTLE_S)
        events.cancel()
        await self._events.drain(DRAIN_S)


def _name_of(part: asyncio.Future[Any]) -> str:
    work = part.get_coro() if isinstance(part, asyncio.Task) else part
    return getattr(work, "__qualname__", str(work))


def _single(failure: BaseException) -> Iterator[BaseException]:
    """What failed, one by one."""
    if isinstance(failure, BaseExceptionGroup):
        for one in failure.exceptions:
            yield from _single(one)
    else:
        yield failure
