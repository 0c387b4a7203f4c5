"""The log and the metrics: lines that nobody can break, labels that nobody can multiply."""

import io
import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from muster.telemetry import MOST_ALIKE, MOST_QUEUES, OTHER, SILENT, Labels, Log, Metrics

NOW = datetime(2026, 1, 31, 12, 0, 0, 123_000, tzinfo=UTC)
HOSTILE = [
    "a\nb",
    "\r\x1b[2J",
    "\u2028\u2029\x85",
    "\u202egnp",
    "\x00\x7f",
    "\ud800",
    '"},{"',
    "x" * 100_000,
    "</script>",
]


def log(stream, **settings):
    return Log(stream, now=lambda: NOW, human=settings.pop("human", False), **settings)


def test_a_line_is_one_json_object():
    stream = io.StringIO()
    log(stream).having(decision="7f3a").info("planned", gangs=3, took_s=0.25, queue="größe")
    assert stream.getvalue() == (
        '{"time": "2026-01-31T12:00:00.123Z", "level": "info", "message": "planned", "decision": "7f3a", '
        '"gangs": 3, "took_s": 0.25, "queue": "größe"}\n'
    )


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
@pytest.mark.parametrize("human", [False, True])
def test_no_text_breaks_a_line(text, human):
    """As the message, as a value, as a name, inside a list: one printable line of bounded length."""
    for fields in ({}, {"a": text}, {"a": [text]}, {"a": {text: text}}, {"a": ValueError(text)}, {text: 1}):
        stream = io.StringIO()
        log(stream, human=human).warning(text, **fields)
        line = stream.getvalue()
        assert line.endswith("\n")
        assert line[:-1].isprintable()
        assert len(line) < 60_000
        line.encode("utf-8")
        if not human:
            assert json.loads(line)["level"] == "warning"


def test_any_value_can_be_told():
    stream = io.StringIO()
    nested: list = []
    nested.append(nested)
    values = {
        "a": float("nan"),
        "b": 10**5000,
        "c": object,
        "d": {1: {2: {3: {4: 5}}}},
        "e": nested,
        "f": None,
        "g": b"x",
    }
    log(stream).info("values", **values, time="x", level="y")
    found = json.loads(stream.getvalue(), parse_constant=pytest.fail)
    assert (found["time"], found["time_"], found["level"], found["level_"]) == (
        "2026-01-31T12:00:00.123Z",
        "x",
        "info",
        "y",
    )
    assert found["b"] == "a very large number"


def test_the_level_is_a_setting():
    for level, expected in (("debug", 4), ("info", 3), ("warning", 2), ("error", 1)):
        stream = io.StringIO()
        one = log(stream, level=level)
        for write in (one.debug, one.info, one.warning, one.error):
            write("x")
        assert len(stream.getvalue().splitlines()) == expected
        assert one.would("warning") is (expected >= 2)


def test_people_at_a_terminal_get_words():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    stream = Terminal()
    Log(stream, now=lambda: NOW).info("gang placed", decision="7f3a", why="it fits")
    assert stream.getvalue() == '12:00:00 INFO    gang placed  decision=7f3a why="it fits"\n'


def test_a_log_that_cant_be_written_costs_nothing_else():
    class Full(io.StringIO):
        def write(self, _):
            raise OSError("disk full")

    full, closed, counted = Full(), io.StringIO(), []
    closed.close()
    for stream in (full, closed):
        Log(stream, now=lambda: NOW, count=counted.append).error("x")
    assert counted == ["error", "error"]


def test_libraries_log_through_it():
    """A traceback becomes one line; nothing is left in the registry of loggers."""
    import logging

    stream = io.StringIO()
    logger = log(stream).as_logger("aiohttp.server.of-this-test")
    try:
        raise ZeroDivisionError("two\nlines")
    except ZeroDivisionError:
        logger.exception("Error handling %s", "request")
    logger.info("bad %d", "text")
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert (first["message"], first["error"]) == ("Error handling request", "ZeroDivisionError: two\nlines")
    assert (second["message"], second["level"]) == ("bad %d", "info")
    assert "aiohttp.server.of-this-test" not in logging.root.manager.loggerDict


# Metrics.


def test_every_metric_of_the_reference_is_there():
    families = {one.name for one in text_string_to_metric_families(generate_latest(Metrics("1").registry).decode())}
    wanted = (
        "build schedule_attempts attempt_duration_seconds gang_wait_seconds pending_gangs partial_gangs "
        "partial_gang_seconds binds bind_duration_seconds evictions core_evictions topology_violations "
        "cache_staleness_seconds watch_restarts cache_mismatch queue_allocated queue_deserved queue_limit "
        "largest_schedulable_gang ri_evaluations leader event_loop_lag_seconds"
    )
    missing = {f"muster_{name}" for name in wanted.split()} - {one.removesuffix("_info") for one in families}
    assert missing == set()


def test_no_label_names_a_pod_a_gang_or_a_node():
    metrics = Metrics()
    labels = {name for one in list(metrics.registry._collector_to_names) for name in getattr(one, "_labelnames", ())}
    assert not labels & {"pod", "gang", "node", "namespace", "podgroup", "name", "uid"}
    assert {"queue", "reason"} <= labels


def test_processes_share_nothing():
    one, other = Metrics(), Metrics()
    one.core_evictions.inc()
    assert other.registry.get_sample_value("muster_core_evictions_total") == 0


def test_labels_have_so_many_values_and_no_more():
    labels = Labels(3)
    assert [labels.of(name) for name in "abcdea"] == ["a", "b", "c", OTHER, OTHER, "a"]
    assert labels.of("x" * 1_000) == OTHER
    assert labels.keep(["b", "d", "e", "f"]) == {"a", "c"}
    assert [labels.known(name) for name in "abdef"] == [OTHER, "b", "d", "e", OTHER]


def test_queues_that_ended_give_their_labels_free():
    metrics = Metrics()
    metrics.keep_queues([f"q{at:03}" for at in range(MOST_QUEUES + 50)])
    for at in range(MOST_QUEUES + 50):
        metrics.gang_wait.labels(metrics.queues.known(f"q{at:03}")).observe(1)

    def told():
        (family,) = [one for one in metrics.registry.collect() if one.name == "muster_gang_wait_seconds"]
        return {sample.labels["queue"] for sample in family.samples}

    assert len(told()) == MOST_QUEUES + 1
    assert metrics.registry.get_sample_value("muster_gang_wait_seconds_count", {"queue": OTHER}) == 50
    metrics.keep_queues(["q000", "new"])
    assert told() == {"q000", OTHER}


def test_partial_gangs_are_counted_by_time():
    metrics = Metrics()
    metrics.observe_partial(2, 100)
    metrics.observe_partial(0, 5)
    metrics.observe_partial(0, 5)
    assert metrics.registry.get_sample_value("muster_partial_gang_seconds_total") == 10
    assert metrics.registry.get_sample_value("muster_partial_gangs") == 0


def test_hostile_labels_stay_one_line():
    metrics = Metrics()
    metrics.binds.labels(metrics.label("code", 'a"\n# HELP x\\')).inc()
    text = generate_latest(metrics.registry).decode()
    (family,) = [one for one in text_string_to_metric_families(text) if one.name == "muster_binds"]
    assert family.samples[0].labels == {"code": 'a"\n# HELP x\\'}


def test_the_same_warning_is_written_so_often_a_minute_and_the_next_says_how_many_were_not():
    """A right that is withdrawn, or a webhook that fails, does not flood whoever keeps the log."""
    stream, moment = io.StringIO(), [NOW]
    one = Log(stream, human=False, now=lambda: moment[0])
    for number in range(500):
        one.having(decision=str(number)).warning("a bind was refused", pod=f"p-{number}")
        one.info("bound")
    one.error("another matter")
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["message"] for line in lines].count("a bind was refused") == MOST_ALIKE
    assert [line["message"] for line in lines].count("bound") == 500
    assert lines[-1]["message"] == "another matter"
    moment[0] += timedelta(seconds=61)
    one.warning("a bind was refused", pod="q")
    one.warning("a bind was refused", pod="r")
    lines = [json.loads(line) for line in stream.getvalue().splitlines()][-2:]
    assert [line.get("unwritten") for line in lines] == [500 - MOST_ALIKE, None]


def test_what_is_not_written_is_counted_and_many_messages_cost_no_memory():
    counted = []
    one = Log(io.StringIO(), human=False, now=lambda: NOW, count=counted.append)
    for number in range(5_000):
        one.warning(f"message {number}")
        one.warning("the same")
    assert len(counted) == 10_000
    assert len(one._flood._minutes) <= 501


def test_a_clock_that_is_set_back_silences_nobody():
    stream, moment = io.StringIO(), [NOW]
    one = Log(stream, human=False, now=lambda: moment[0])
    for _ in range(MOST_ALIKE):
        one.warning("w")
    moment[0] -= timedelta(hours=3)
    one.warning("w")
    assert len(stream.getvalue().splitlines()) == MOST_ALIKE + 1


def test_the_silent_log_writes_nowhere():
    SILENT.having(decision="x").error("nobody hears this")
    SILENT.as_logger("aiohttp").error("nor this")
    assert not SILENT.would("error")


def test_no_logger_of_the_standard_library_writes_past_it(tmp_path):
    """asyncio, libraries and warnings: one form, and the same limits though their messages differ."""
    program = tmp_path / "noisy.py"
    program.write_text(NOISY)
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=60)
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    loggers = [line["logger"] for line in lines]
    assert {name: loggers.count(name) for name in loggers} == {
        "asyncio": 2 * MOST_ALIKE,
        "some.library": MOST_ALIKE,
        "py.warnings": 1,
    }
    assert done.stdout == "901\n"


NOISY = """
import asyncio, logging, sys, warnings
from muster.telemetry import Log

early = logging.getLogger("some.library")
early.addHandler(logging.StreamHandler())
early.propagate = False
counted = []
log = Log(sys.stderr, level="info", count=counted.append)

async def main():
    loop = asyncio.get_running_loop()
    for number in range(300):
        error = OSError(24, "Too many open files") if number % 2 else ValueError(f"two\\nlines {number}")
        loop.call_exception_handler({"message": f"it failed {number}", "exception": error})
        early.info("request %d", number)
        logging.getLogger("some.library").debug("not at this level")
    for number in range(300):
        loop.call_exception_handler({"message": "again", "exception": OSError(24, str(number))})
    warnings.warn("old")

with log.as_only():
    asyncio.run(main())
print(len(counted))
"""
