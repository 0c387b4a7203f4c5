"""What people are told: statuses of gangs and queues, conditions of pods, kept room, events; written by a few writers.

Binds and evictions come first. Of each object only the last word counts, and none is written more than once a second.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import msgspec
from msgspec import structs

from muster.api.cluster import PodCondition
from muster.api.kinds import EVICTION_REQUEST, POD, POD_GROUP, QUEUE
from muster.controllers.scheduler import Scheduler
from muster.decisions.notes import Note
from muster.decisions.orders import (
    AnswerOrder,
    NominateOrder,
    Orders,
    QueueOrder,
    RoomOrder,
    SignalOrder,
    StatusOrder,
)
from muster.decisions.queue_status import queue_document
from muster.decisions.signals import ACCEPTED, Signal, Words, after
from muster.decisions.status import INVALID, status_document
from muster.errors import ApiError, Conflict, NotFound
from muster.kube.backoff import doubled_s
from muster.kube.client import JSON_PATCH, MERGE, STRATEGIC, Client
from muster.kube.clock import Clock
from muster.kube.events import EventRecorder, Regarding
from muster.snapshot.world import Key
from muster.telemetry import SILENT, Log, Metrics

DECISION_LABEL = "muster.dev/decision"
# What people look for in the events of a pod that waits, whoever schedules it.
FAILED_SCHEDULING = "FailedScheduling"
_WRITERS = 8
# How long each of these gives way to binds and evictions.
_LATE_S = 2.0
# How soon the same object is written again, and how soon after an error.
_AGAIN_S, _AFTER_ERROR_S = 1.0, 1.0
# How long after errors at most; how soon it is looked whether another word was written.
_LONGEST_S, _SOON_S = 60.0, 0.05
# What may be kept of things that are told no more.
_MOST_FORGOTTEN = 1000

# The rest of what is known of such a gang stays; of these, what is not there goes.
_SAID_OF_INVALID = ("phase", "reason", "conditions", "decision", "ready", "podsSummary", "resourcesStatus")

Order = StatusOrder | NominateOrder | RoomOrder | SignalOrder | QueueOrder | AnswerOrder
What = tuple[str, Key]
# Words about room that is reserved.
_RESERVES = ("nomination", "room")


class Told(NamedTuple):
    """One thing to write, and the decision that it follows from."""

    order: Order
    decision: str


class Teller:
    """Writes what people are told until it is cancelled. `is_busy` says whether binds or evictions are under way."""

    def __init__(
        self,
        client: Client,
        scheduler: Scheduler,
        *,
        clock: Clock,
        may_write: Callable[[], bool],
        is_busy: Callable[[], bool],
        wake: Callable[[], None],
        log: Log = SILENT,
        metrics: Metrics | None = None,
        events: EventRecorder | None = None,
    ) -> None:
        self._client, self._scheduler, self._clock = client, scheduler, clock
        self._may_write, self._is_busy, self._wake = may_write, is_busy, wake
        self._log, self._metrics, self._events = log, metrics, events
        self._waiting: dict[What, Told] = {}
        self._there = asyncio.Event()
        # When each object may be written again, and what is being written.
        self._rests: dict[What, float] = {}
        self._writing: dict[What, Order] = {}
        # What was not taken: how often, when it is found anew, and for whom.
        self._failures: dict[What, tuple[int, float]] = {}
        self._again: dict[What, tuple[float, Order]] = {}

    def __len__(self) -> int:
        """How much there is to be written."""
        return len(self._waiting)

    def take(self, orders: Orders) -> None:
        """What follows from a plan beside binds and evictions."""
        for bind in orders.binds:
            # Who is bound is told nothing about waiting any more.
            self._waiting.pop(("nomination", bind.pod), None)
            if self._waiting.pop(("condition", bind.pod), None) is not None:
                self._scheduler.untold(bind.gang)
        named = dict(_named(orders))
        for what in [what for what in self._waiting if what[0] in _RESERVES and what not in named]:
            # All that is still to be reserved is found in every cycle: this is not.
            del self._waiting[what]
        for what, order in named.items():
            before = self._waiting.get(what)
            self._waiting[what] = Told(_joined(before.order, order) if before else order, orders.decision)
        if self._waiting:
            self._there.set()

    def words(self) -> Words:
        """What pods are told and have not answered yet: what is being written, and what is to be written after it."""
        found: dict[Key, list[Signal]] = {}
        for order in (*self._writing.values(), *(told.order for told in self._waiting.values())):
            if isinstance(order, SignalOrder):
                found.setdefault(order.signal.pod, []).append(order.signal)
        return found

    async def settle(self, orders: Orders) -> set[Key]:
        """Waits for words about room that are being written and that the orders do not know of. Gives their gangs:
        what stands for these now is not what was planned with.
        """
        named = dict(_named(orders))
        others = {what: order for what, order in self._writing.items() if what[0] in _RESERVES and what not in named}
        while any(self._writing.get(what) is order for what, order in others.items()):
            await self._clock.sleep(_SOON_S)
        return {order.gang for order in others.values() if isinstance(order, NominateOrder | RoomOrder)}

    def contrary(self, promised: Iterable[NominateOrder]) -> set[Key]:
        """The gangs of which a pod is being told something else than it was promised: nobody knows which one stands."""
        return {one.gang for one in promised if self._writing.get(("nomination", one.pod), one) != one}

    async def reserve(self, orders: Orders) -> dict[Key, ApiError]:
        """Nominations and kept room, at once. Gives the gangs for which not all could be written, each with an error:
        nobody may go for them.
        """
        wanted = [(what, one) for what, one in _named(orders) if isinstance(one, NominateOrder | RoomOrder)]
        for what, _ in wanted:
            self._waiting.pop(what, None)
        gangs = [one.gang for _, one in wanted]
        writes = (self._write_in_turn(what, Told(one, orders.decision)) for what, one in wanted)
        failed: dict[Key, ApiError] = {}
        for gang, error in zip(gangs, await asyncio.gather(*writes, return_exceptions=True), strict=True):
            if isinstance(error, ApiError) and gang is not None:
                said = {"gang": "/".join(gang), "error": error.message, "decision": orders.decision}
                self._log.warning("room could not be reserved", **said)
                failed.setdefault(gang, error)
            elif error is not None:
                raise error
        return failed

    def say(self, about: Regarding, note: Note, decision: str = "") -> None:
        """Something happened to an object."""
        if self._events is not None:
            text, labels = note.text, {}
            if decision:
                text, labels = f"{text} (decision {decision})", {DECISION_LABEL: decision}
            self._events.record(about, note.reason, text, kind=note.kind, key=decision or note.text, labels=labels)

    async def run(self) -> None:
        """Writes, until it is cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(_WRITERS):
                tasks.create_task(self._write_all())

    async def _write_all(self) -> None:
        while True:
            await self._there.wait()
            await self._give_way()
            what, pause_s = self._next()
            if what is None:
                if not self._waiting and not self._again:
                    self._there.clear()
                await self._clock.sleep(pause_s)
                continue
            told = self._waiting.pop(what)
            if not self._may_write():
                self._forget(told.order)
                continue
            self._rests[what] = self._clock.now_s() + _AGAIN_S
            await self._write_one(what, told)

    async def _write_in_turn(self, what: What, told: Told) -> None:
        """Two words about one thing never overtake each other."""
        while what in self._writing or _beside(what) in self._writing:
            await self._clock.sleep(_SOON_S)
        self._writing[what] = told.order
        try:
            await self._write(told)
        finally:
            del self._writing[what]

    async def _write_one(self, what: What, told: Told) -> None:
        try:
            await self._write_in_turn(what, told)
        except NotFound:
            pass
        except Conflict:
            # Another object of that name by now: it is told when it was seen.
            self._forget(told.order)
            self._wake()
        except ApiError as error:
            named = "/".join(part for part in what[1] if part)
            self._log.warning("a word could not be written", what=what[0], about=named, error=error.message)
            failures = self._failures.get(what, (0, 0.0))[0] + 1
            at_s = self._clock.now_s() + doubled_s(_AFTER_ERROR_S, failures - 1, _LONGEST_S)
            self._rests[what], self._again[what] = at_s, (at_s, told.order)
            self._failures[what] = failures, at_s
            self._forget_failures()
            # Other writers may have found nothing to do meanwhile.
            self._there.set()
            return
        self._failures.pop(what, None)

    def _forget_failures(self) -> None:
        """Those of what is told no more: it may be gone, and nobody says so."""
        if len(self._failures) <= 2 * len(self._again) + _MOST_FORGOTTEN:
            return
        long_ago_s = self._clock.now_s() - _LONGEST_S
        self._failures = {what: (times, at_s) for what, (times, at_s) in self._failures.items() if at_s > long_ago_s}

    def _next(self) -> tuple[What | None, float]:
        """The first that may be written now, else how long to wait for one."""
        now_s = self._clock.now_s()
        self._find_anew(now_s)
        if len(self._rests) > 2 * len(self._waiting) + _MOST_FORGOTTEN:
            self._rests = {what: at_s for what, at_s in self._rests.items() if at_s > now_s}
        soonest_s = min((at_s for at_s, _ in self._again.values()), default=now_s + _AGAIN_S)
        for what in self._waiting:
            at_s = self._rests.get(what, 0.0)
            if at_s <= now_s and what not in self._writing:
                return what, 0.0
            soonest_s = min(soonest_s, max(at_s, now_s + _SOON_S))
        return None, min(soonest_s - now_s, _AGAIN_S) if self._waiting or self._again else 0.0

    def _find_anew(self, now_s: float) -> None:
        """What was not taken a while ago: what is true now is found, and told."""
        due = [what for what, (at_s, _) in self._again.items() if at_s <= now_s]
        for what in due:
            self._forget(self._again.pop(what)[1])
        if due:
            self._wake()

    def _forget(self, order: Order) -> None:
        if isinstance(order, QueueOrder):
            self._scheduler.untold_queue(order.queue)
        elif isinstance(order, AnswerOrder):
            self._scheduler.unanswered(order.request)
        elif not isinstance(order, NominateOrder):
            self._scheduler.untold(order.gang)

    async def _give_way(self) -> None:
        """Binds and evictions come first: what is told may be late."""
        end_s = self._clock.now_s() + _LATE_S
        while self._is_busy() and self._clock.now_s() < end_s:
            await self._clock.sleep(_LATE_S / 20)

    async def _write(self, told: Told) -> None:
        client, order = self._client, told.order
        match order:
            case StatusOrder():
                await self._tell_gang(order)
                self._say_status(order, told.decision)
            case QueueOrder():
                patch = _whole_status(order.uid, queue_document(order.status))
                await client.patch(QUEUE, "", order.queue, patch, content=JSON_PATCH, subresource="status")
            case NominateOrder():
                body = {"metadata": {"uid": order.uid}, "status": {"nominatedNodeName": order.node or None}}
                self._see(await client.patched(POD, *order.pod, body, subresource="status"))
            case SignalOrder():
                await self._signal(order, told.decision)
            case AnswerOrder():
                await self._answer(order, told.decision)
            case RoomOrder():
                said: dict[str, Any] = {"kept": msgspec.to_builtins(order.kept) or None}
                if order.kept:
                    # Its pods may leave before any status says that they were admitted.
                    said["admittedQueue"] = order.queue
                body = {"metadata": {"uid": order.uid}, "status": said}
                self._see(await client.patched(POD_GROUP, *order.gang, body, subresource="status"))
                if order.drops:
                    body = {"metadata": {"uid": order.uid, "annotations": {order.drops: None}}}
                    self._see(await client.patched(POD_GROUP, *order.gang, body))

    def _see(self, found: Any) -> None:
        """What a pod or a gang has now is seen at once: a word is on its way, or has been seen."""
        if found is not None:
            self._scheduler.see(found)

    async def _tell_gang(self, order: StatusOrder) -> None:
        """The whole status; of a gang that nobody can read only that it is so, and what was known of it stays.

        Kept room is written by itself, and may have changed since this status was found.
        """
        known = self._scheduler.world.groups.get(order.gang)
        status = order.status
        if known is not None and known.metadata.uid == order.uid:
            admitted = status.admitted_queue or (known.status.admitted_queue if known.status.kept else "")
            status = structs.replace(status, kept=known.status.kept, admitted_queue=admitted)
        document = status_document(status)
        if order.status.phase == INVALID:
            said = {name: document.get(name) or None for name in _SAID_OF_INVALID}
            body = {"metadata": {"uid": order.uid}, "status": said}
            await self._client.patch(POD_GROUP, *order.gang, body, content=MERGE, subresource="status")
        else:
            whole = _whole_status(order.uid, document)
            await self._client.patch(POD_GROUP, *order.gang, whole, content=JSON_PATCH, subresource="status")

    def _say_status(self, order: StatusOrder, decision: str) -> None:
        if order.waited_s is not None and self._metrics is not None:
            self._metrics.gang_wait.labels(self._metrics.queues.known(order.queue)).observe(order.waited_s)
        if order.note is None:
            return
        about = gang_regarding(order.gang, order.uid)
        self.say(about, order.note, decision)
        named = "/".join(order.gang)
        self._log.info(
            "a gang's state changed",
            gang=named,
            phase=order.status.phase,
            reason=order.note.reason,
            says=order.note.text,
            decision=decision,
        )

    async def _answer(self, order: AnswerOrder, decision: str) -> None:
        """The answer to an EvictionRequest. It counts from now on, seen or not."""
        body = {"metadata": {"uid": order.uid}, "status": msgspec.to_builtins(order.status)}
        self._see(await self._client.patched(EVICTION_REQUEST, *order.request, body, subresource="status"))
        status, named = order.status, "/".join(order.request)
        said = {"phase": status.phase, "reason": status.reason, "says": status.message}
        self._log.info("an EvictionRequest was answered", request=named, **said, decision=decision)

    async def _signal(self, order: SignalOrder, decision: str) -> None:
        signal = order.signal
        moment = self._clock.wall().strftime("%Y-%m-%dT%H:%M:%SZ")
        conditions: list[dict[str, Any]] = [_condition(one, moment) for one in signal.put]
        conditions += [{"type": kind, "$patch": "delete"} for kind in signal.drop]
        body = {"metadata": {"uid": signal.uid}, "status": {"conditions": conditions}}
        self._see(await self._client.patched(POD, *signal.pod, body, content=STRATEGIC, subresource="status"))
        about = Regarding("v1", "Pod", *signal.pod, signal.uid)
        for one in signal.put:
            if one.type == ACCEPTED:
                self.say(about, Note("Warning", one.reason, one.message), decision)
            else:
                # The same words are the same event, whichever decision they come from: the gang tells which.
                self.say(about, Note("Warning", FAILED_SCHEDULING, one.message))


def _joined(before: Order, order: Order) -> Order:
    """What takes the place of a word that was not written. Most say all there is to say; a signal only what changes."""
    if isinstance(before, SignalOrder) and isinstance(order, SignalOrder):
        return order._replace(signal=after(before.signal, order.signal))
    return order


def gang_regarding(gang: Key, uid: str) -> Regarding:
    """A PodGroup, as events name it."""
    return Regarding(POD_GROUP.api_version, POD_GROUP.name, *gang, uid)


def _beside(what: What) -> What | None:
    """What is written to the same status: a whole status must not take back the kept room that is being written."""
    return {"status": ("room", what[1]), "room": ("status", what[1])}.get(what[0])


def _named(orders: Orders) -> Iterator[tuple[What, Order]]:
    """Everything, by what it is about: a later word takes the place of an earlier one."""
    for status in orders.statuses:
        yield ("status", status.gang), status
    for nomination in orders.nominations:
        yield ("nomination", nomination.pod), nomination
    for room in orders.rooms:
        yield ("room", room.gang), room
    for signal in orders.signals:
        yield ("condition", signal.signal.pod), signal
    for queue in orders.queues:
        yield ("queue", ("", queue.queue)), queue
    for answer in orders.answers:
        yield ("request", answer.request), answer


def _whole_status(uid: str, status: dict[str, Any]) -> list[dict[str, Any]]:
    """The whole status in place of the one before, if the object still is the one with this uid."""
    return [
        {"op": "replace", "path": "/metadata/uid", "value": uid},
        {"op": "add", "path": "/status", "value": status},
    ]


def _condition(one: PodCondition, moment: str) -> dict[str, Any]:
    told = {"type": one.type, "status": one.status, "reason": one.reason, "message": one.message}
    return {**told, "lastTransitionTime": moment}
