"""What follows from a Plan as numbers, how late the event loop is, and `/metrics`.

What a cycle did is counted with each plan, which costs next to nothing. How things stand is looked at about once a
second, beside the cycles, and only when there was a new plan.
"""

import asyncio
import math
from collections import Counter
from collections.abc import Iterator, Sequence, Set

import numpy as np
from aiohttp import web
from aiohttp.typedefs import Handler
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from muster.api.queue import GPU_PARTS
from muster.api.tree import NONE
from muster.decisions.words import foremost
from muster.errors import Call
from muster.kube.clock import Clock
from muster.plan.outcome import Action, Eviction, Outcome, Placement, Plan
from muster.snapshot.queues import CHARGES, UNLIMITED
from muster.telemetry import Metrics

# So many gangs are looked at before others have their turn.
_STEP = 250
# How old a page may be.
_FRESH_S = 0.25
# From the base units of a snapshot to those of Prometheus: cores, bytes, devices.
_PER_UNIT = {"cpu": 1_000, "memory": 1, "gpu": GPU_PARTS}


class Observer:
    """Looks at plans. `planned` is told of each; `run` beside it."""

    def __init__(self, metrics: Metrics, clock: Clock, every_s: float = 1.0) -> None:
        self._metrics, self._clock, self._every_s = metrics, clock, every_s
        self._latest: Plan | None = None

    def planned(self, plan: Plan) -> None:
        """A cycle ended with this plan."""
        observe_cycle(self._metrics, plan)
        self._latest = plan

    async def run(self) -> None:
        """For ever; the last plan before a quiet time is looked at too."""
        last_s = self._clock.now_s()
        while True:
            await self._clock.sleep(self._every_s)
            now_s = self._clock.now_s()
            elapsed_s, last_s = now_s - last_s, now_s
            plan, self._latest = self._latest, None
            if plan is not None:
                for _ in _observing(self._metrics, plan, elapsed_s):
                    # A plan does not change any more: others may go on in between.
                    await self._clock.sleep(0)
            else:
                self._metrics.observe_partial(None, elapsed_s)


def observe_cycle(metrics: Metrics, plan: Plan) -> None:
    """Counts what a cycle did: attempts, and what must never happen."""
    snapshot = plan.snapshot
    for verdict, times in Counter(one.verdict.value for one in plan.outcomes.tried.values()).items():
        metrics.schedule_attempts.labels(verdict).inc(times)
    bound: dict[int, list[Placement]] = {}
    for placement in plan.placements:
        if not placement.nominated:
            bound.setdefault(placement.gang, []).append(placement)
    leaving = {(one.gang, one.leaf, one.pod) for one in plan.evictions}
    scattered = 0
    for number, placements in bound.items():
        gang = snapshot.gangs[number]
        if gang.holds:
            scattered += sum(_scattered(plan, number, placements, leaving))
    metrics.topology_violations.inc(scattered)
    lost: dict[int, list[Eviction]] = {}
    for one in plan.evictions:
        if one.action != Action.STALE:
            lost.setdefault(one.gang, []).append(one)
    for number, evictions in lost.items():
        metrics.core_evictions.inc(_core_pods(plan, number, evictions))


def _scattered(
    plan: Plan, number: int, placements: Sequence[Placement], leaving: Set[tuple[int, int, int]]
) -> Iterator[bool]:
    """Per required level of a gang: whether what is bound now lies outside of one domain."""
    gang = plan.snapshot.gangs[number]
    for hold in gang.holds:
        if hold.required == NONE:
            continue
        domain_of = plan.snapshot.topologies[hold.topology].levels[hold.required].domain_of
        new = {node for one in placements if gang.waiting[one.batch].leaf in hold.leaves for node in one.nodes}
        there = {
            node
            for leaf in hold.leaves
            if leaf in gang.placed
            for at, node in enumerate(gang.placed[leaf].nodes)
            if node != NONE and (number, leaf, at) not in leaving
        }
        yield bool(new) and (len({int(domain_of[one]) for one in new | there}) > 1 or NONE in domain_of[list(new)])


def _core_pods(plan: Plan, number: int, evictions: Sequence[Eviction]) -> int:
    """Pods that go although nothing of their gang may go, or although it falls below its minimum by that."""
    gang = plan.snapshot.gangs[number]
    if gang.is_preemptible:
        return 0
    if gang.is_firm:
        return len(evictions)
    was = gang.recorded[0] if gang.recorded else None
    return len(evictions) if was is not None and was.satisfied and not plan.outcomes[number].satisfied else 0


def observe_call(metrics: Metrics, call: Call, status: int, seconds: float) -> None:
    """Counts an answer of the API server, if it is one to a bind. For `Client.observe`."""
    if call.resource == "pods/binding":
        metrics.binds.labels(metrics.label("code", status)).inc()
        metrics.bind_duration.observe(max(0.0, seconds))


def observe_plan(metrics: Metrics, plan: Plan, elapsed_s: float = 0.0) -> None:
    """Sets every gauge that follows from a plan. `elapsed_s` is the time since the plan before.

    A gang whose queue is not there counts in the queue `other`: anybody can write any name into a PodGroup.
    """
    for _ in _observing(metrics, plan, elapsed_s):
        pass


def _observing(metrics: Metrics, plan: Plan, elapsed_s: float) -> Iterator[None]:
    """The same in small steps."""
    metrics.keep_queues(plan.snapshot.queues.names)
    yield from _observe_gangs(metrics, plan, elapsed_s)
    _observe_queues(metrics, plan)
    yield
    _observe_room(metrics, plan)


def _observe_gangs(metrics: Metrics, plan: Plan, elapsed_s: float) -> Iterator[None]:
    snapshot = plan.snapshot
    pending: dict[tuple[str, ...], float] = {}
    partial = 0
    # Only these can be below their minimum; all others are settled, and asking about each would cost time.
    leaving = {one.gang for one in plan.evictions}
    # A gang without any pod waits for them all.
    empty = (number for number, gang in enumerate(snapshot.gangs) if not gang.placed and not gang.waiting)
    for at, number in enumerate(sorted({*snapshot.waiting, *snapshot.broken, *leaving, *empty}), start=1):
        if at % _STEP == 0:
            yield
        outcome = plan.outcomes[number]
        if outcome.satisfied:
            continue
        labels = metrics.queues.known(snapshot.gangs[number].queue), metrics.label("reason", _reason_of(outcome))
        pending[labels] = pending.get(labels, 0) + 1
        partial += outcome.rows[0].placed > 0
    metrics.pending_gangs.replace(pending)
    metrics.observe_partial(partial, elapsed_s)


def _reason_of(outcome: Outcome) -> str:
    """The reason that people are shown when there is room for one."""
    first = foremost(outcome)
    return first.reason.code if first is not None else outcome.verdict.value


def _observe_queues(metrics: Metrics, plan: Plan) -> None:
    queues = plan.snapshot.queues
    tables: list[dict[tuple[str, ...], float]] = [{}, {}, {}, {}, {}]
    # Where no queues are written down, there is nothing to say about them.
    for row, (name, outcome) in enumerate(zip(queues.names if plan.queues else (), plan.queues, strict=True)):
        label = metrics.queues.known(name)
        for charge, resource in enumerate(CHARGES):
            amounts = (
                outcome.allocated[charge],
                int(queues.quota[row, charge]),
                int(queues.limit[row, charge]),
                outcome.fair_share[charge],
                outcome.requested[charge],
            )
            for table, amount in zip(tables, amounts, strict=True):
                value = math.inf if amount >= UNLIMITED else amount / _PER_UNIT[resource]
                table[label, resource] = table.get((label, resource), 0.0) + value
    gauges = (
        metrics.queue_allocated,
        metrics.queue_deserved,
        metrics.queue_limit,
        metrics.queue_fair_share,
        metrics.queue_requested,
    )
    for gauge, table in zip(gauges, tables, strict=True):
        gauge.replace(table)


def _observe_room(metrics: Metrics, plan: Plan) -> None:
    """The most that is free in one domain of each level after the cycle, of what queues count."""
    snapshot = plan.snapshot
    found: dict[tuple[str, ...], float] = {}
    costs = [(at, snapshot.costs.of(name)) for at, name in enumerate(snapshot.resources)]
    columns = [(at, *cost) for at, cost in costs if cost.charge != NONE]
    free = np.maximum(snapshot.free, 0)
    nodes: list[int] = []
    shapes: list[int] = []
    for placement in plan.placements:
        if not placement.nominated:
            nodes += placement.nodes
            shapes += [snapshot.gangs[placement.gang].waiting[placement.batch].shape] * len(placement.nodes)
    if nodes:
        np.subtract.at(free, nodes, snapshot.asks[shapes])
    np.maximum(free, 0, out=free)
    metrics.levels.keep(label for one in snapshot.topologies for label in one.labels)
    for topology in snapshot.topologies:
        sums = np.concatenate([np.zeros_like(free[:1]), np.cumsum(free[topology.order], axis=0)])
        for label, level in zip(topology.labels, topology.levels, strict=True):
            if not len(level.paths):
                continue
            most = (sums[level.stop] - sums[level.start]).max(axis=0)
            for column, charge, each in columns:
                resource = CHARGES[charge]
                key = metrics.levels.known(label), resource
                found[key] = max(found.get(key, 0.0), float(most[column]) * each / _PER_UNIT[resource])
    metrics.largest_schedulable_gang.replace(found)


async def observe_loop(metrics: Metrics, clock: Clock, every_s: float = 0.5) -> None:
    """Measures, for ever, how much later than asked the event loop wakes up."""
    while True:
        began = clock.now_s()
        await clock.sleep(every_s)
        metrics.event_loop_lag.observe(max(0.0, clock.now_s() - began - every_s))


def metrics_handler(metrics: Metrics) -> Handler:
    """Answers `/metrics` in the text format of Prometheus, from a page that is at most `_FRESH_S` old."""
    body, made_s = b"", -math.inf

    async def answer(_: web.Request) -> web.Response:
        nonlocal body, made_s
        now_s = asyncio.get_running_loop().time()
        if now_s - made_s >= _FRESH_S:
            body, made_s = generate_latest(metrics.registry), now_s
        response = web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})
        # Requests that are sent one after the other, before an answer is read, must not come before the next probe.
        response.force_close()
        return response

    return answer
