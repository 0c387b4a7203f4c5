"""Events: what people see in `kubectl describe`. One for each change of what there is to say about an object.

Saying the same again only counts. Recording never waits and never fails: what is too much is dropped and counted.
"""

import asyncio
import re
from collections import Counter, OrderedDict, deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from muster.errors import AlreadyExists, ApiError, NotFound
from muster.kube.client import Client
from muster.kube.clock import micro_time, within
from muster.kube.remembering import remember
from muster.kube.resources import EVENT

# Who muster is in its events.
CONTROLLER = "muster.dev/scheduler"
NORMAL = "Normal"
WARNING = "Warning"

_MAX_NOTE_BYTES = 1024
_MAX_WORD = 128
_MAX_NAME = 220


class Rates(NamedTuple):
    """How much is written: a burst for each object, then one at a time; how much waits; how much is remembered."""

    burst: int = 15
    refill_s: float = 60.0
    series_s: float = 300.0
    queued: int = 2000
    remembered: int = 10_000
    writers: int = 4


class Regarding(NamedTuple):
    """The object that an event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str = ""


class _Said(NamedTuple):
    """What makes two events the same."""

    about: Regarding
    reason: str
    key: str


class _Entry:
    """An event that was written or waits for it, and how often it was said."""

    def __init__(self, name: str, kind: str, note: str, action: str, first: str, labels: dict[str, str]) -> None:
        self.name = name
        self.labels = labels
        self.kind = kind
        self.note = note
        self.action = action
        self.first = first
        self.last = first
        self.count = 1
        self.written_count = 0
        self.written_s = float("-inf")
        self.queued = False


class _Bucket:
    """How many more events an object may have now."""

    def __init__(self, rates: Rates, now_s: float) -> None:
        self._rates = rates
        self._left = float(rates.burst)
        self._at_s = now_s

    def take(self, now_s: float) -> bool:
        self._left = min(float(self._rates.burst), self._left + (now_s - self._at_s) / self._rates.refill_s)
        self._at_s = now_s
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True


class EventRecorder:
    """Records events and writes them in the background while it is open."""

    def __init__(
        self, client: Client, *, controller: str = CONTROLLER, instance: str, rates: Rates | None = None
    ) -> None:
        self._client = client
        self._clock = client.clock
        self._controller = controller
        self._instance = instance[:_MAX_WORD] or controller
        self._rates = rates or Rates()
        self._entries: OrderedDict[_Said, _Entry] = OrderedDict()
        self._current: OrderedDict[Regarding, _Said] = OrderedDict()
        self._buckets: OrderedDict[Regarding, _Bucket] = OrderedDict()
        self._queue: deque[_Said] = deque()
        self._wake = asyncio.Event()
        self._last_ns = 0
        # Why events were not written: "queue", "rate" or "failed".
        self.dropped: Counter[str] = Counter()

    def record(
        self,
        about: Regarding,
        reason: str,
        note: str,
        *,
        kind: str = NORMAL,
        action: str = "",
        key: str = "",
        labels: Mapping[str, str] | None = None,
    ) -> None:
        """Says something about an object. `key` is what of the note makes it a new thing to say; the numbers in it may
        change without that.
        """
        said = _Said(about, reason[:_MAX_WORD] or "Unknown", key)
        changed = self._current.get(about) != said
        remember(self._current, about, said, self._rates.remembered)
        entry = self._entries.get(said)
        now = micro_time(self._clock.wall())
        if entry is None:
            word = action[:_MAX_WORD] or reason[:_MAX_WORD] or "Unknown"
            entry = _Entry(self._name(about), kind, note, word, now, dict(labels or {}))
        else:
            entry.count += 1
            entry.last = now
        remember(self._entries, said, entry, self._rates.remembered)
        due = changed or self._clock.now_s() - entry.written_s >= self._rates.series_s
        if due and not entry.queued:
            self._enqueue(said, entry)

    async def run(self) -> None:
        """Writes what is recorded, until it is cancelled."""
        async with asyncio.TaskGroup() as writers:
            for _ in range(self._rates.writers):
                writers.create_task(self._writer())

    async def drain(self, seconds: float) -> None:
        """Writes what still waits, for a while at most. For a graceful end, when `run` is over."""
        with suppress(TimeoutError):
            await within(self._clock, seconds, self._drain())

    async def _drain(self) -> None:
        while self._queue:
            await self._write_next()

    def _enqueue(self, said: _Said, entry: _Entry) -> None:
        # Pods are many: what is said of them leaves half of the queue to what is said of their gangs.
        if len(self._queue) >= self._rates.queued // (2 if said.about.kind == "Pod" else 1):
            self.dropped["queue"] += 1
            return
        now_s = self._clock.now_s()
        bucket = self._buckets.get(said.about) or _Bucket(self._rates, now_s)
        remember(self._buckets, said.about, bucket, self._rates.remembered)
        if not bucket.take(now_s):
            self.dropped["rate"] += 1
            return
        entry.queued = True
        self._queue.append(said)
        self._wake.set()

    async def _writer(self) -> None:
        while True:
            while not self._queue:
                self._wake.clear()
                await self._wake.wait()
            await self._write_next()

    async def _write_next(self) -> None:
        said = self._queue.popleft()
        entry = self._entries.get(said)
        if entry is None:
            self.dropped["queue"] += 1
            return
        entry.queued = False
        try:
            await self._write(said, entry)
        except (ApiError, ValueError):
            # The client tried again where that helps. A ValueError is text that is no Unicode.
            self.dropped["failed"] += 1

    async def _write(self, said: _Said, entry: _Entry) -> None:
        count, namespace = entry.count, said.about.namespace or "default"
        if entry.written_count:
            series = {"series": {"count": max(2, count), "lastObservedTime": entry.last}}
            with suppress(NotFound):
                await self._client.patch(EVENT, namespace, entry.name, series, lane="event")
                return self._written(entry, count)
            # Events live for an hour: this one is over, and what is said now is a new one.
            entry.name, entry.first, entry.count, count = self._name(said.about), entry.last, 1, 1
        # A create that was lost on the way is found to exist when it is repeated.
        with suppress(AlreadyExists):
            await self._client.create(EVENT, namespace, self._body(said, entry, namespace), lane="event")
        return self._written(entry, count)

    def _written(self, entry: _Entry, count: int) -> None:
        entry.written_count = count
        entry.written_s = self._clock.now_s()

    def _body(self, said: _Said, entry: _Entry, namespace: str) -> dict[str, Any]:
        about = said.about
        regarding = {"apiVersion": about.api_version, "kind": about.kind, "name": about.name, "uid": about.uid}
        if about.namespace:
            regarding["namespace"] = about.namespace
        body = {
            "apiVersion": EVENT.api_version,
            "kind": "Event",
            "metadata": {
                "name": entry.name,
                "namespace": namespace,
                **({"labels": entry.labels} if entry.labels else {}),
            },
            "eventTime": entry.first,
            "reportingController": self._controller,
            "reportingInstance": self._instance,
            "action": entry.action,
            "reason": said.reason,
            "regarding": {key: text for key, text in regarding.items() if text},
            "note": entry.note.encode()[:_MAX_NOTE_BYTES].decode("utf-8", "ignore"),
            "type": entry.kind,
        }
        if entry.count > 1:
            body["series"] = {"count": entry.count, "lastObservedTime": entry.last}
        return body

    def _name(self, about: Regarding) -> str:
        """A name that no other event has: events are told apart by the time."""
        self._last_ns = max(self._last_ns + 1, int(self._clock.wall().timestamp() * 1e9))
        stem = re.sub(r"[^a-z0-9.-]", "-", about.name.lower())[:_MAX_NAME].strip("-.") or "event"
        return f"{stem}.{self._last_ns:x}"
