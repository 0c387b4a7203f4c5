"""What follows from a Plan as numbers, how late the event loop is, and `/metrics`."""

import math

import numpy as np
from aiohttp import web
from aiohttp.typedefs import Handler
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from muster.api.tree import NONE
from muster.decisions.words import foremost
from muster.kube.clock import Clock
from muster.plan.outcome import Outcome, Plan
from muster.snapshot.queues import CHARGES, UNLIMITED, charge_of
from muster.telemetry import Metrics

# From the base units of a snapshot to those of Prometheus: cores, bytes, devices.
_PER_UNIT = {"cpu": 1_000, "memory": 1, "gpu": 1}


def observe_plan(metrics: Metrics, plan: Plan, elapsed_s: float = 0.0) -> None:
    """Sets every gauge that follows from a plan. `elapsed_s` is the time since the plan before.

    A gang whose queue is not there counts in the queue `other`: anybody can write any name into a PodGroup.
    """
    metrics.keep_queues(plan.snapshot.queues.names)
    _observe_gangs(metrics, plan, elapsed_s)
    _observe_queues(metrics, plan)
    _observe_room(metrics, plan)


def _observe_gangs(metrics: Metrics, plan: Plan, elapsed_s: float) -> None:
    snapshot = plan.snapshot
    pending: dict[tuple[str, ...], float] = {}
    partial = 0
    # Only these can be below their minimum; all others are settled, and asking about each would cost time.
    leaving = {one.gang for one in plan.evictions}
    # A gang without any pod waits for them all.
    empty = (number for number, gang in enumerate(snapshot.gangs) if not gang.placed and not gang.waiting)
    for number in sorted({*snapshot.waiting, *snapshot.broken, *leaving, *empty}):
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
    columns = [(at, charge_of(name)) for at, name in enumerate(snapshot.resources) if charge_of(name) != NONE]
    free = np.maximum(snapshot.free, 0)
    for placement in plan.placements:
        if not placement.nominated:
            shape = snapshot.gangs[placement.gang].waiting[placement.batch].shape
            np.subtract.at(free, list(placement.nodes), snapshot.asks[shape])
    np.maximum(free, 0, out=free)
    metrics.levels.keep(label for one in snapshot.topologies for label in one.labels)
    for topology in snapshot.topologies:
        sums = np.concatenate([np.zeros_like(free[:1]), np.cumsum(free[topology.order], axis=0)])
        for label, level in zip(topology.labels, topology.levels, strict=True):
            if not len(level.paths):
                continue
            most = (sums[level.stop] - sums[level.start]).max(axis=0)
            for column, charge in columns:
                resource = CHARGES[charge]
                key = metrics.levels.known(label), resource
                found[key] = max(found.get(key, 0.0), float(most[column]) / _PER_UNIT[resource])
    metrics.largest_schedulable_gang.replace(found)


async def observe_loop(metrics: Metrics, clock: Clock, every_s: float = 0.5) -> None:
    """Measures, for ever, how much later than asked the event loop wakes up."""
    while True:
        began = clock.now_s()
        await clock.sleep(every_s)
        metrics.event_loop_lag.observe(max(0.0, clock.now_s() - began - every_s))


def metrics_handler(metrics: Metrics) -> Handler:
    """Answers `/metrics` in the text format of Prometheus."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(metrics.registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    return answer
