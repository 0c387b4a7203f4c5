"""What the program tells about itself while it runs: the metrics by name, and the log.

Both are objects that are passed around; nothing is kept in a module. A label never names a pod, a gang or a node, and
what others can name (queues, ResourceInterfaces) has so many values at most; the rest of them are `other`.
"""

import json
import logging
import math
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TextIO

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, ProcessCollector

PREFIX: Final = "muster_"
OTHER: Final = "other"
MOST_QUEUES: Final = 200
# What neither the program nor an administrator makes many of: status codes, causes, kinds.
MOST_VALUES: Final = 100
LONGEST_VALUE: Final = 128

LEVELS: Final = ("debug", "info", "warning", "error")
LONGEST_TEXT: Final = 4_096
_MOST_ITEMS: Final = 32
# Of warnings and errors with the same message so many are written in a minute.
MOST_ALIKE: Final = 10
_LIMITED: Final = LEVELS.index("warning")
_MINUTE: Final = timedelta(minutes=1)
_MOST_MESSAGES: Final = 500
# The same levels in the standard library, and one above them all.
_STANDARD: Final = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL + 1)
_RESERVED: Final = frozenset({"time", "level", "message"})

# Seconds: a cycle or a bind takes milliseconds, a gang may wait for days.
_QUICK: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_WAITS: Final = (0.1, 0.5, 1, 5, 15, 60, 300, 900, 3_600, 14_400, 43_200, 86_400, 604_800)


class Labels:
    """The values that a label may have: the first so many that are asked for, and `other` for the rest."""

    def __init__(self, most: int = MOST_VALUES) -> None:
        self._most = most
        self._known: set[str] = set()

    def of(self, value: object) -> str:
        """The label for a value."""
        text = str(value)
        if text in self._known:
            return text
        if len(self._known) >= self._most or len(text) > LONGEST_VALUE or not text:
            return OTHER
        self._known.add(text)
        return text

    def known(self, value: str) -> str:
        """The label of a value that was kept before; nothing new becomes a label."""
        return value if value in self._known else OTHER

    def keep(self, values: Iterable[str]) -> Set[str]:
        """From now on these, as many as there is place for; those that are there stay. Gives what is gone."""
        wanted = [value for value in values if 0 < len(value) <= LONGEST_VALUE]
        gone = self._known.difference(wanted)
        self._known -= gone
        for value in wanted:
            self.of(value)
        return gone


class Table:
    """A gauge whose values are all set at once: what is not named any more disappears, what is stays readable."""

    def __init__(self, gauge: Gauge) -> None:
        self._gauge = gauge
        self._rows: set[tuple[str, ...]] = set()

    def replace(self, values: Mapping[tuple[str, ...], float]) -> None:
        """The values by the labels, in the order in which the gauge has them."""
        for labels, value in values.items():
            self._gauge.labels(*labels).set(value)
        for labels in self._rows.difference(values):
            self._gauge.remove(*labels)
        self._rows = set(values)


class Metrics:
    """Every metric of muster in one registry. Amounts are in base units: seconds, bytes, cores, devices."""

    def __init__(self, version: str = "", registry: CollectorRegistry | None = None) -> None:
        self.registry = registry if registry is not None else CollectorRegistry(auto_describe=True)
        ProcessCollector(registry=self.registry)
        Info(f"{PREFIX}build", "The version that runs.", registry=self.registry).info({"version": version})
        self.queues = Labels(MOST_QUEUES)
        self.levels = Labels()
        self._values: dict[str, Labels] = {}
        self._partial = 0
        self._scheduling()
        self._gangs_and_queues()
        self._cluster()
        self._webhook()

    def _scheduling(self) -> None:
        self.schedule_attempts = self._counter("schedule_attempts", "Attempts to place a gang.", "result")
        self.attempt_duration = self._histogram("attempt_duration_seconds", "How long a cycle takes.", "phase")
        self.binds = self._counter("binds", "Binds, by the status code of the answer; 0 is no answer.", "code")
        self.bind_duration = self._histogram("bind_duration_seconds", "How long a bind takes.")
        self.evictions = self._counter("evictions", "Pods that were evicted.", "cause")
        self.core_evictions = self._counter("core_evictions", "Evicted pods that no rule lets go: must stay 0.")
        self.topology_violations = self._counter(
            "topology_violations", "Decisions against a required level: must stay 0."
        )

    def _gangs_and_queues(self) -> None:
        self.gang_wait = self._histogram(
            "gang_wait_seconds", "From a gang's creation to its minimum placed.", "queue", buckets=_WAITS
        )
        self.pending_gangs = self._table("pending_gangs", "Gangs below their minimum.", "queue", "reason")
        self.quarantined_objects = self._table(
            "quarantined_objects", "Objects that are left out because of a defect in muster.", "kind"
        )
        self.partial_gangs = self._gauge("partial_gangs", "Gangs that hold room and lack some of their minimum.")
        self.partial_gang_seconds = self._counter("partial_gang_seconds", "Time of gangs with a part of their minimum.")
        amounts = ("queue", "resource")
        self.queue_allocated = self._table("queue_allocated", "What a queue has (cores, bytes, devices).", *amounts)
        self.queue_deserved = self._table("queue_deserved", "The quota of a queue; +Inf without end.", *amounts)
        self.queue_limit = self._table("queue_limit", "The limit of a queue; +Inf without end.", *amounts)
        self.queue_fair_share = self._table("queue_fair_share", "The fair share of a queue.", *amounts)
        self.queue_requested = self._table("queue_requested", "What the ready gangs of a queue want.", *amounts)
        self.largest_schedulable_gang = self._table(
            "largest_schedulable_gang", "The most that is free in one domain of a level.", "level", "resource"
        )

    def _cluster(self) -> None:
        self.cache_staleness = self._gauge("cache_staleness_seconds", "How old what is known may be.", "resource")
        self.watch_restarts = self._counter("watch_restarts", "Watches that began anew.", "resource", "cause")
        self.cache_mismatch = self._counter("cache_mismatch", "Differences between the mirror and the API server.")
        self.ri_evaluations = self._counter("ri_evaluations", "Workloads read by a ResourceInterface.", "ri", "result")
        self.leader = self._gauge("leader", "1 while this process leads, else 0.")
        self.event_loop_lag = self._histogram("event_loop_lag_seconds", "How late the event loop is.")
        self.log_lines = self._counter("log_lines", "Lines of the log.", "level")

    def _webhook(self) -> None:
        self.webhook_requests = self._counter("webhook_requests", "Reviews.", "kind", "operation", "result")
        self.webhook_duration = self._histogram(
            "webhook_duration_seconds", "How long a review takes, waiting included."
        )
        self.certificate_expiry = self._gauge(
            "webhook_certificate_expiry_timestamp_seconds", "When the serving certificate ends."
        )

    def label(self, name: str, value: object) -> str:
        """The value of a label that is no queue: an HTTP code, a cause, an interface."""
        if name not in self._values:
            self._values[name] = Labels(MOST_QUEUES if name == "ri" else MOST_VALUES)
        return self._values[name].of(value)

    def keep_queues(self, names: Iterable[str]) -> None:
        """These queues exist. Those that do not any more give their labels, and what was counted of them, free."""
        for name in self.queues.keep(names):
            self.gang_wait.remove_by_labels({"queue": name})

    def _counter(self, name: str, says: str, *labels: str) -> Counter:
        return Counter(PREFIX + name, says, labels, registry=self.registry)

    def _gauge(self, name: str, says: str, *labels: str) -> Gauge:
        return Gauge(PREFIX + name, says, labels, registry=self.registry)

    def _table(self, name: str, says: str, *labels: str) -> Table:
        return Table(self._gauge(name, says, *labels))

    def _histogram(self, name: str, says: str, *labels: str, buckets: tuple[float, ...] = _QUICK) -> Histogram:
        return Histogram(PREFIX + name, says, labels, registry=self.registry, buckets=buckets)

    def stopwatch(self, now_s: Callable[[], float]) -> Callable[[str], None]:
        """Told at the end of each phase of a cycle; the first begins now."""
        last_s = now_s()

        def lap(phase: str) -> None:
            nonlocal last_s
            ended_s = now_s()
            self.attempt_duration.labels(phase).observe(max(0.0, ended_s - last_s))
            last_s = ended_s

        return lap

    def observe_partial(self, gangs: int | None, elapsed_s: float) -> None:
        """So many gangs have a part of their minimum, None: as many as before; those before had it for `elapsed_s`."""
        self.partial_gang_seconds.inc(self._partial * max(0.0, elapsed_s))
        if gangs is not None:
            self.partial_gangs.set(gangs)
            self._partial = gangs


class Log:
    """One line per event. As JSON for machines, as plain text for people at a terminal.

    No text, whoever wrote it, can end a line or command a terminal. A log that can't be written costs nothing else.
    Of warnings and errors with the same message, some are written in each minute; the next one says how many were not.
    So a message is always the same words, and what differs from case to case is in the fields.
    """

    def __init__(
        self,
        stream: TextIO | None,
        *,
        level: str = "info",
        human: bool | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        fields: Mapping[str, Any] | None = None,
        count: Callable[[str], None] | None = None,
    ) -> None:
        assert level in LEVELS, level
        self._stream = stream
        self._least = LEVELS.index(level) if stream is not None else len(LEVELS)
        self._human = _is_terminal(stream) if human is None else human
        self._flood = _Flood()
        self._now = now
        self._fields = dict(fields or {})
        self._count = count
        self._lock = threading.Lock()

    def having(self, **fields: Any) -> "Log":
        """The same log, with these fields in every line: `log.having(decision=plan_id)`."""
        other = Log.__new__(Log)
        other.__dict__.update(self.__dict__)
        other._fields = {**self._fields, **fields}
        return other

    def debug(self, message: str, /, **fields: Any) -> None:
        """For those who look for a defect."""
        self._write(0, message, fields)

    def info(self, message: str, /, **fields: Any) -> None:
        """What happened."""
        self._write(1, message, fields)

    def warning(self, message: str, /, **fields: Any) -> None:
        """What somebody should look at."""
        self._write(2, message, fields)

    def error(self, message: str, /, **fields: Any) -> None:
        """What does not work."""
        self._write(3, message, fields)

    def would(self, level: str) -> bool:
        """Whether lines of this level are written: fields that are costly to find can be left out."""
        return LEVELS.index(level) >= self._least

    def as_logger(self, name: str) -> logging.Logger:
        """For libraries that want a logger of the standard library. It is nobody else's, and known to nobody else."""
        logger = logging.Logger(name, _STANDARD[self._least])
        logger.addHandler(_Handler(self))
        return logger

    @contextmanager
    def as_only(self) -> Iterator[None]:
        """Until the end of the block every logger of the standard library writes here: asyncio's, those of libraries,
        and warnings. There is one log: no part of the process writes past its form and its limits.
        """
        known = [one for one in logging.root.manager.loggerDict.values() if isinstance(one, logging.Logger)]
        before = [(one, one.handlers, one.propagate) for one in known]
        root = logging.root.handlers, logging.root.level
        for one in known:
            one.handlers, one.propagate = [], True
        logging.root.handlers = [_Handler(self)]
        logging.root.setLevel(_STANDARD[self._least])
        logging.captureWarnings(True)
        try:
            yield
        finally:
            logging.captureWarnings(False)
            logging.root.handlers = root[0]
            logging.root.setLevel(root[1])
            for one, handlers, propagate in before:
                one.handlers, one.propagate = handlers, propagate

    def _write(self, level: int, message: str, fields: Mapping[str, Any], alike: str = "") -> None:
        """One line. Lines with the same `alike` are limited together, at every level; without, warnings and errors
        with the same message.
        """
        if self._count is not None:
            self._count(LEVELS[level])
        if level < self._least or self._stream is None:
            return
        now = self._now()
        if level >= _LIMITED or alike:
            may, unwritten = self._flood.passes(alike or message, now)
            if not may:
                return
            fields = {**fields, "unwritten": unwritten} if unwritten else fields
        told = {_key(key): _plain(value) for key, value in {**self._fields, **fields}.items()}
        form = _for_people if self._human else _for_machines
        line = form(now.astimezone(UTC), LEVELS[level], _cut(str(message)), told)
        with self._lock, suppress(OSError, ValueError):
            self._stream.write(line + "\n")
            self._stream.flush()


class _Flood:
    """Lets so many lines with the same message pass in a minute, and counts the others."""

    def __init__(self) -> None:
        # Per message: when its minute began, how many passed in it, and how many did not.
        self._minutes: dict[str, tuple[datetime, int, int]] = {}

    def passes(self, message: str, now: datetime) -> tuple[bool, int]:
        """Whether a line may be written; and if so, how many of its kind were not since the last."""
        began, passed, kept = self._minutes.get(message, (now, 0, 0))
        if not timedelta() <= now - began < _MINUTE:
            began, passed = now, 0
        if passed >= MOST_ALIKE:
            self._minutes[message] = began, passed, kept + 1
            return False, 0
        if message not in self._minutes and len(self._minutes) >= _MOST_MESSAGES:
            self._minutes.clear()
        self._minutes[message] = began, passed + 1, 0
        return True, kept


class _Handler(logging.Handler):
    """Lines of the standard library's loggers, as lines of ours.

    Libraries put what differs into the message, so lines are alike that come from one place with one kind of error.
    """

    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        try:
            message = record.getMessage()
        except Exception:
            message = str(record.msg)
        fields: dict[str, Any] = {"logger": record.name}
        kind = ""
        if record.exc_info and record.exc_info[0]:
            kind = record.exc_info[0].__name__
            fields["error"] = f"{kind}: {record.exc_info[1]}"
        level = 3 if record.levelno >= logging.ERROR else max(0, min(2, record.levelno // 10 - 1))
        self._log._write(level, message, fields, f"{record.pathname}:{record.lineno} {kind}")


def _for_machines(time: datetime, level: str, message: str, fields: Mapping[str, Any]) -> str:
    moment = time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    line = json.dumps({"time": moment, "level": level, "message": message, **fields}, ensure_ascii=False)
    # What is not printable may still end a line or turn it round for some reader.
    return line if line.isprintable() else json.dumps(json.loads(line))


def _for_people(time: datetime, level: str, message: str, fields: Mapping[str, Any]) -> str:
    words = [f"{time:%H:%M:%S} {level.upper():<7} {message}"]
    for key, value in fields.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        words.append(f"{key}={json.dumps(text, ensure_ascii=False) if set(text) & set(' =') or not text else text}")
    return printable("  ".join([words[0], " ".join(words[1:])]).rstrip())


def printable(text: str) -> str:
    """The text without anything that commands a terminal or ends a line."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _key(key: str) -> str:
    return f"{key}_" if key in _RESERVED else key[:64]


def _plain(value: Any, depth: int = 0) -> Any:
    """A value as JSON has it, of bounded size."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) < 2**63 else "a very large number"
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping) and depth < 3:
        return {_cut(str(key))[:64]: _plain(one, depth + 1) for key, one in list(value.items())[:_MOST_ITEMS]}
    if isinstance(value, list | tuple | set | frozenset) and depth < 3:
        return [_plain(one, depth + 1) for one in list(value)[:_MOST_ITEMS]]
    if isinstance(value, BaseException):
        return _cut(f"{type(value).__name__}: {value}")
    return _cut(str(value))


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "…"


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except (OSError, ValueError):
        return False


# A log that writes nowhere.
SILENT: Final = Log(None)
