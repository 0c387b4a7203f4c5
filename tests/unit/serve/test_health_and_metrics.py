"""`/livez`, `/readyz`, `/metrics`, and what a plan comes to in numbers."""

import asyncio
import dataclasses
import io
import math

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from muster.errors import Call, UsageError
from muster.plan.outcome import Action, Eviction, Outcomes
from muster.serve.health import Check
from muster.serve.metrics import Observer, observe_call, observe_cycle, observe_loop, observe_plan
from muster.serve.server import listening, status_app
from muster.telemetry import MOST_QUEUES, OTHER, Log, Metrics
from small_cluster import TOPOLOGY, gang, node, planned, pod
from unit.serve.serving import SetClock

WELL = Check("lease", lambda: "")
ILL = Check("caches", lambda: "pods are 12 s behind\n\x1b[31m")


def fetched(app, *paths):
    """Status, text and headers of each path."""

    async def run():
        found = []
        async with listening(app, "127.0.0.1", 0, Log(io.StringIO())) as port, aiohttp.ClientSession() as session:
            for path in paths:
                async with session.get(f"http://127.0.0.1:{port}{path}") as answer:
                    found.append((answer.status, await answer.text(), answer.headers))
        return found

    return asyncio.run(run())


def queue(name, parent="", **gpu):
    spec = {**({"parentQueue": parent} if parent else {}), **({"resources": {"gpu": gpu}} if gpu else {})}
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def test_health_in_one_word_or_all():
    app = status_app(Metrics(), alive=[WELL], ready=[WELL, ILL])
    live, verbose, ready, without = fetched(app, "/livez", "/livez?verbose", "/readyz", "/readyz?exclude=caches")
    assert live[:2] == (200, "ok")
    assert verbose[:2] == (200, "[+]lease ok\nlivez check passed\n")
    assert ready[:2] == (
        503,
        "[+]lease ok\n[-]caches failed: pods are 12 s behind\\n\\x1b[31m\nreadyz check failed\n",
    )
    assert without[:2] == (200, "ok")


def test_a_check_that_fails_to_answer_has_failed():
    def broken():
        raise ZeroDivisionError("oops")

    ((status, text, _),) = fetched(status_app(Metrics(), ready=[Check("broken", broken), WELL]), "/readyz")
    assert status == 503
    assert "[-]broken failed: the check itself failed: ZeroDivisionError: oops\n[+]lease ok\n" in text


def test_a_taken_port_is_said_in_a_sentence():
    async def run():
        log = Log(io.StringIO())
        async with (
            listening(status_app(Metrics()), "127.0.0.1", 0, log) as port,
            listening(status_app(Metrics()), "127.0.0.1", port, log),
        ):
            pass

    with pytest.raises(UsageError, match="somebody else listens there"):
        asyncio.run(run())


def test_metrics_are_what_prometheus_reads():
    metrics = Metrics("1.2.3")
    observe_plan(metrics, planned(*CLUSTER))
    ((status, text, headers),) = fetched(status_app(metrics), "/metrics")
    assert status == 200
    assert headers["Content-Type"].startswith("text/plain; version=")
    families = {one.name: one for one in text_string_to_metric_families(text)}
    assert families["muster_build_info"].samples[0].labels == {"version": "1.2.3"}
    assert all(one.documentation for one in families.values())
    assert "process_resident_memory_bytes" in families


CLUSTER = (
    TOPOLOGY,
    *(node("n1", 8, rack="r1"), node("n2", 8, rack="r2"), node("n3", 4, rack="r2")),
    *(queue("dept", quota=8, limit=16), queue("a", "dept", quota=4), queue("b", "dept", quota=4)),
    *(gang("runs", queue="a", minMember=2), pod("r-0", "runs", gpus=2), pod("r-1", "runs", gpus=2)),
    *(gang("large", queue="b", minMember=1), pod("l-0", "large", gpus=9)),
    *(gang("lost", queue="nowhere", minMember=1), pod("x-0", "lost")),
    *(gang("half", queue="b", minMember=2), pod("h-0", "half", nodeName="n1", status={"phase": "Running"})),
    gang("empty", queue="b", minMember=3),
)


def value(metrics, name, **labels):
    return metrics.registry.get_sample_value(f"muster_{name}", labels)


def test_a_plan_in_numbers():
    """Who waits and why, who holds a part, what queues have: cores, bytes and devices."""
    metrics = Metrics()
    observe_plan(metrics, planned(*CLUSTER))
    pending = {
        (sample.labels["queue"], sample.labels["reason"]): sample.value
        for family in metrics.registry.collect()
        if family.name == "muster_pending_gangs"
        for sample in family.samples
    }
    assert pending == {
        ("b", "InsufficientResources"): 1,
        ("b", "WaitingForPods"): 2,
        (OTHER, "QueueNotFound"): 1,
    }
    assert value(metrics, "partial_gangs") == 1
    assert value(metrics, "queue_allocated", queue="a", resource="gpu") == 4
    assert value(metrics, "queue_allocated", queue="dept", resource="gpu") == 5
    assert value(metrics, "queue_deserved", queue="dept", resource="gpu") == 8
    assert value(metrics, "queue_limit", queue="dept", resource="gpu") == 16
    assert value(metrics, "queue_limit", queue="a", resource="gpu") == math.inf
    # The room that this cycle takes is gone: 20 devices less 1 that runs and 4 that are bound.
    assert value(metrics, "largest_schedulable_gang", level="t/zone", resource="gpu") == 15
    assert value(metrics, "largest_schedulable_gang", level="t/rack", resource="gpu") in (8, 12)
    assert value(metrics, "largest_schedulable_gang", level="t/zone", resource="cpu") == 96


def test_what_is_over_is_not_told_any_more():
    metrics = Metrics()
    observe_plan(metrics, planned(*CLUSTER))
    observe_plan(metrics, planned(*CLUSTER[:7]), elapsed_s=3)
    assert value(metrics, "pending_gangs", queue="b", reason="InsufficientResources") is None
    assert value(metrics, "partial_gang_seconds_total") == 3
    observe_plan(metrics, planned())
    assert value(metrics, "queue_allocated", queue="a", resource="gpu") is None
    assert value(metrics, "largest_schedulable_gang", level="t/zone", resource="gpu") is None


def test_many_queues_share_the_last_label():
    """The label `other` adds up what it stands for."""
    metrics = Metrics()
    queues = [queue(f"q{at:03}", quota=1, limit=2) for at in range(MOST_QUEUES + 30)]
    observe_plan(metrics, planned(node("n", 8), *queues))
    (family,) = [one for one in metrics.registry.collect() if one.name == "muster_queue_limit"]
    assert len({one.labels["queue"] for one in family.samples}) == MOST_QUEUES + 1
    assert value(metrics, "queue_limit", queue=OTHER, resource="gpu") == 60
    assert value(metrics, "queue_limit", queue="q000", resource="gpu") == 2


def test_names_of_queues_that_are_not_there_take_no_label():
    """Anybody can write a queue into a PodGroup; nobody takes the labels of the queues that exist."""
    metrics = Metrics()
    gangs = [one for at in range(300) for one in (gang(f"g{at}", queue=f"made-up-{at}"), pod(f"p{at}", f"g{at}"))]
    observe_plan(metrics, planned(node("n", 8), queue("real"), *gangs, gang("g", queue="real"), pod("p", gpus=99)))
    assert value(metrics, "pending_gangs", queue=OTHER, reason="QueueNotFound") == 300
    assert value(metrics, "pending_gangs", queue="real", reason="InsufficientResources") == 1


def test_what_a_cycle_did_is_counted():
    """Attempts by what came of them, and nothing that must never happen."""
    metrics = Metrics()
    plan = planned(*CLUSTER)
    metrics.keep_queues(plan.snapshot.queues.names)
    observe_cycle(metrics, plan)
    observe_cycle(metrics, plan)
    assert value(metrics, "schedule_attempts_total", result="Placed") == 2
    assert value(metrics, "schedule_attempts_total", result="Infeasible") == 2
    assert value(metrics, "core_evictions_total") == value(metrics, "topology_violations_total") == 0


RACKS = (
    TOPOLOGY,
    *(node("n1", 8, rack="r1"), node("n2", 8, rack="r1"), node("n3", 8, rack="r2"), node("n4", 8)),
    gang("g", minMember=2, topologyConstraint={"topology": "dc", "requiredTopologyLevel": "t/rack"}),
    *(pod("g-0", "g", gpus=8), pod("g-1", "g", gpus=8)),
)


@pytest.mark.parametrize(("nodes", "violations"), [(None, 0), (("n1", "n3"), 1), (("n4", "n4"), 1)])
def test_a_decision_against_a_required_level_is_counted(nodes, violations):
    """Whatever made it: the plan is changed here behind the back of its maker."""
    plan = planned(*RACKS)
    if nodes is not None:
        rows = tuple(plan.snapshot.nodes.index(name) for name in nodes)
        (placement,) = plan.placements
        plan = dataclasses.replace(plan, placements=(placement._replace(nodes=rows),))
    metrics = Metrics()
    observe_cycle(metrics, plan)
    assert value(metrics, "topology_violations_total") == violations


@pytest.mark.parametrize(
    ("preemptibility", "action", "counted"),
    [
        ("non-preemptible", Action.PREEMPT, 1),
        ("non-preemptible", Action.STALE, 0),
        ("preemptible", Action.PREEMPT, 0),
        ("semi-preemptible", Action.RECLAIM, 1),
    ],
)
def test_an_eviction_that_no_rule_allows_is_counted(preemptibility, action, counted):
    rows = [{"name": "", "satisfied": True, "minimum": 1, "pods": {"placed": 1}}]
    spec = {"minMember": 1, "preemptibility": preemptibility}
    running = pod("g-0", "g", nodeName="n", status={"phase": "Running"})
    plan = planned(node("n", 8), {**gang("g", **spec), "status": {"subGroups": rows}}, running)
    fallen = dataclasses.replace(plan.outcomes[0], satisfied=False)
    outcomes = Outcomes(1, {0: fallen}, plan.outcomes.__getitem__)
    metrics = Metrics()
    observe_cycle(metrics, dataclasses.replace(plan, outcomes=outcomes, evictions=(Eviction(0, 0, 0, action),)))
    assert value(metrics, "core_evictions_total") == counted


def test_how_things_stand_is_looked_at_once_a_second_and_the_last_plan_is_not_forgotten():
    class Ticking(SetClock):
        """Plans come while others wait: many in the first seconds, then none."""

        async def sleep(self, seconds):
            await super().sleep(seconds)
            if seconds and self.at_s <= 3:
                for _ in range(50):
                    observer.planned(plans[self.at_s >= 3])
            if self.at_s > 8:
                raise asyncio.CancelledError

    metrics, clock, plans = Metrics(), Ticking(), (planned(*CLUSTER[:7]), planned(*CLUSTER))
    looked = []
    metrics.pending_gangs.replace = lambda values: looked.append((clock.at_s, sum(values.values())))
    observer = Observer(metrics, clock)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(observer.run())
    assert looked == [(1, 0), (2, 0), (3, 4)]
    # One gang has had a part of its minimum since the third second.
    assert value(metrics, "partial_gangs") == 1
    assert value(metrics, "partial_gang_seconds_total") == 5


def test_binds_are_counted_by_their_answer_and_nothing_else_is():
    metrics = Metrics()
    for status in (201, 201, 409, 0):
        observe_call(metrics, Call("create", "pods/binding", "ns", "p", write=True), status, 0.02)
    observe_call(metrics, Call("create", "pods/eviction", "ns", "p", write=True), 201, 0.02)
    observe_call(metrics, Call("list", "pods"), 200, 0.02)
    counted = {code: value(metrics, "binds_total", code=code) for code in ("201", "409", "0", "200")}
    assert counted == {"201": 2, "409": 1, "0": 1, "200": None}
    assert value(metrics, "bind_duration_seconds_count") == 4


def test_a_cycle_is_timed_phase_by_phase():
    metrics, times = Metrics(), iter([10.0, 10.5, 13.0])
    lap = metrics.stopwatch(lambda: next(times))
    lap("snapshot")
    lap("plan")
    assert value(metrics, "attempt_duration_seconds_sum", phase="snapshot") == 0.5
    assert value(metrics, "attempt_duration_seconds_sum", phase="plan") == 2.5


def test_how_late_the_loop_is():
    class Late(SetClock):
        async def sleep(self, seconds):
            await super().sleep(seconds + 0.25)
            if self.at_s > 3:
                raise asyncio.CancelledError

    metrics = Metrics()
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(observe_loop(metrics, Late(), 0.5))
    assert value(metrics, "event_loop_lag_seconds_sum") == pytest.approx(
        0.25 * value(metrics, "event_loop_lag_seconds_count")
    )
