"""One muster process as the configuration says, with what counts and looks at it: its log, its metrics, its end."""

import asyncio
import os
import secrets
import socket
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from muster.cli.cluster import costs_of, policy_of
from muster.cli.main import TRACEBACK_VARIABLE
from muster.config import Config
from muster.controllers.process import Beside, End, Ended, Process, Setup
from muster.errors import Call
from muster.kube.client import Client
from muster.kube.lease import Election
from muster.kube.rights import LEASE_NAME
from muster.plan.outcome import Plan
from muster.serve.metrics import Observer, observe_call, observe_loop
from muster.telemetry import Log, Metrics

# A cycle waits for answers of the API server, and those come, or not, within minutes.
STUCK_S = 600.0
STOPPED, LOST, DEFECT = 0, 1, 70


class Place(NamedTuple):
    """Where muster works: its client there, what has to run beside it, and what people are told when all is ready."""

    client: Client
    beside: Sequence[Beside] = ()
    greet: Callable[[], None] = lambda: None


class Observed:
    """A process with what counts and looks at it. Without a `namespace` for the Lease it does not ask for one.

    `requests_in` is the namespace of EvictionRequests; without a word that of the Lease.
    """

    def __init__(
        self, client: Client, config: Config, namespace: str, *, log: Log, metrics: Metrics, requests_in: str = ""
    ) -> None:
        self.client, self._metrics, self._log = client, metrics, log
        # Another name for each process: names of hosts and numbers of processes come again.
        name = secrets.token_hex(4)
        identity = f"{socket.gethostname()}_{name}"
        self._observer = Observer(metrics, client.clock)
        # Who else is told of each plan; and whether somebody wants to see plans while another one leads.
        self.shows: Callable[[Plan], None] = lambda _: None
        self.looks_on: Callable[[], bool] = lambda: False
        self.process = Process(
            client,
            setup_of(config),
            identity=identity,
            name=name[:4],
            election=Election(client, namespace, LEASE_NAME, identity) if namespace else None,
            log=log,
            metrics=metrics,
            planned=self._planned,
            looks_on=self._looks_on,
            requests_in=requests_in or namespace,
        )
        client.observe = self._observe

    def _looks_on(self) -> bool:
        return self.looks_on()

    def _planned(self, plan: Plan) -> None:
        if self.process.scheduler.decision:
            # Only what is acted on counts.
            self._observer.planned(plan)
        self.shows(plan)

    def _observe(self, call: Call, status: int, seconds: float) -> None:
        observe_call(self._metrics, call, status, seconds)
        if status:
            self.process.work.sights.answered()

    def stuck(self) -> str:
        """For the liveness check: a cycle that does not end."""
        began_s = self.process.work.cycle_began_s
        lasted_s = 0.0 if began_s is None else self.client.clock.now_s() - began_s
        return f"a cycle has been under way for {lasted_s:.0f} s" if lasted_s > STUCK_S else ""

    async def run(self, stop: asyncio.Event, beside: Iterable[Beside] = ()) -> Ended:
        """Everything, until it is to stop or something ends; how it ended is in the log."""
        observing = (self._observer.run, lambda: observe_loop(self._metrics, self.client.clock))
        ended = await self.process.run(stop, [*observing, *beside])
        for one in ended.defects:
            if os.environ.get(TRACEBACK_VARIABLE):
                raise one
            self._log.error("this is a defect in muster", error=one, at=_place(one))
        if ended.how is End.STOPPED:
            self._log.info("stopped")
        elif ended.how is End.LOST:
            election = self.process.election
            assert election is not None
            self._log.error("the Lease was lost", leader=election.holder, error=election.last_error or "")
        return ended


def code_of(ended: Ended) -> int:
    """The exit code of a process that ended so."""
    return {End.STOPPED: STOPPED, End.LOST: LOST, End.DEFECT: DEFECT}[ended.how]


def log_of(config: Config, metrics: Metrics) -> Log:
    """The log of the process, as it was asked for."""

    def count(level: str) -> None:
        metrics.log_lines.labels(level).inc()

    human = {"auto": None, "json": False, "text": True}[config.log.format]
    return Log(sys.stderr, level=config.log.level, human=human, count=count)


def setup_of(config: Config) -> Setup:
    """What the configuration says of a process."""
    return Setup(
        schedulers=config.scheduler_names,
        default_queue=config.default_queue,
        validation=config.validation,
        priorities=config.priorities,
        costs=costs_of(config),
        policy=policy_of(config),
        expressions=config.grouping.expressions,
        prefer=config.grouping.prefer,
    )


def _place(error: BaseException) -> str:
    """Where it happened, as far as that is ours to mend."""
    frames = traceback.extract_tb(error.__traceback__)
    return " < ".join(f"{Path(one.filename).name}:{one.lineno}" for one in reversed(frames[-4:]))
