"""The loop around the scheduler: watches feed it, cycles follow what changed, and what it decides is written.

Cycles are driven by events, a short time after the first of them, so that a gang whose pods come one after the other is
planned once. Writes of one cycle go out together and do not hold up the next: what was sent counts as done until
somebody says otherwise. Nobody is evicted on what may be old: the pods are read again first, and the plan is made anew.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from contextlib import aclosing
from typing import Any

from muster.api.cluster import Pod
from muster.api.kinds import CORE_KINDS, POD_GROUP, QUEUE, TOPOLOGY, Kind
from muster.controllers.scheduler import WATCHED, Scheduler
from muster.decisions.orders import BindOrder, EvictOrder, NominateOrder, Orders, RoomOrder, StatusOrder
from muster.decisions.status import status_document
from muster.errors import ApiError, Conflict, NotFound
from muster.kube.client import MERGE, Client
from muster.kube.clock import Clock, SystemClock
from muster.kube.resources import Unread
from muster.kube.watch import Added, Bookmark, Deleted, Listed, Modified, Restarted, watch
from muster.plan.outcome import Plan
from muster.snapshot.kept import KEPT_ROOM_ANNOTATION
from muster.snapshot.world import Key

_KINDS: tuple[Kind, ...] = tuple(kind for kind in (*CORE_KINDS, POD_GROUP, QUEUE, TOPOLOGY) if kind.struct in WATCHED)
_POD = next(kind for kind in CORE_KINDS if kind.struct is Pod)
# So long after the first event a cycle begins; so long it waits at most when nothing happens.
WINDOW_S, IDLE_S = 0.02, 5.0
# How many objects other than binds and evictions are written at a time.
_WRITERS = 8
# How long each of these gives way to binds and evictions.
_LATE_S = 2.0

Notice = Callable[[str], None]


class Loop:
    """Runs the scheduler against an API server until it is cancelled.

    `may_write` says whether this one leads; `seen` is called whenever something was seen, `planned` with each plan.
    """

    def __init__(
        self,
        client: Client,
        scheduler: Scheduler,
        *,
        clock: Clock | None = None,
        may_write: Callable[[], bool] = lambda: True,
        notice: Notice = lambda _: None,
        window_s: float = WINDOW_S,
        seen: Callable[[], None] = lambda: None,
        planned: Callable[[Plan], None] = lambda _: None,
    ) -> None:
        self._client, self._scheduler, self._clock = client, scheduler, clock or SystemClock()
        self._may_write, self._notice, self._window_s = may_write, notice, window_s
        self._seen, self._planned = seen, planned
        self._awake = asyncio.Event()
        self._listed: set[str] = set()
        self._writes: set[asyncio.Task[None]] = set()
        # What is to be written beside binds and evictions: of each object only the last counts.
        self._later: dict[tuple[str, Key], StatusOrder | NominateOrder | RoomOrder] = {}
        self._later_there = asyncio.Event()
        self.cycles = 0

    @property
    def is_synced(self) -> bool:
        """Whether everything was seen once."""
        return len(self._listed) == len(_KINDS)

    def wake(self) -> None:
        """There is something to do, although nothing was seen: we lead now."""
        self._awake.set()

    async def run(self) -> None:
        """Everything, until it is cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for kind in _KINDS:
                tasks.create_task(self._follow(kind))
            tasks.create_task(self._cycles())
            for _ in range(_WRITERS):
                tasks.create_task(self._write_later())

    async def _follow(self, kind: Kind) -> None:
        """One kind, from its list on."""
        async with aclosing(watch(self._client, kind)) as changes:
            async for change in changes:
                self._take(kind, change)

    def _take(self, kind: Kind, change: Any) -> None:
        scheduler = self._scheduler
        match change:
            case Listed(items=items, unread=unread):
                scheduler.replace(kind.struct, items, [one.metadata for one in unread])
                for one in unread:
                    scheduler.unread(kind.struct, one.metadata, one.why.message)
                self._listed.add(kind.name)
            case Added(object=found) | Modified(object=found):
                scheduler.see(found)
            case Deleted(object=found):
                scheduler.see(found, deleted=True)
            case Unread():
                gone = change.change == "DELETED"
                scheduler.unread(kind.struct, change.metadata, change.why.message, deleted=gone)
                self._notice(f"{kind.name} {change.metadata.name or '(no name)'}: {change.why.message}")
            case Restarted(cause=cause) if cause not in ("end", "gone"):
                self._notice(f"watching {kind.plural}: {cause}{f' ({change.error.message})' if change.error else ''}")
                return
            case Bookmark() | Restarted():
                return
        self._awake.set()
        self._seen()

    async def _cycles(self) -> None:
        while True:
            await self._wait()
            if self.is_synced and self._may_write():
                await self._cycle()

    async def _cycle(self) -> None:
        """Plans and sends. Between the plan and the sending nothing is waited for: what was planned on is what is."""
        scheduler = self._scheduler
        await self._read_doubtful()
        orders = scheduler.cycle(self._now_ns())
        if orders.evictions:
            meant = {(order.pod, order.uid) for order in orders.evictions}
            if not await self._read_again({order.pod[0] for order in orders.evictions}):
                return
            orders = scheduler.cycle(self._now_ns())
            if {(order.pod, order.uid) for order in orders.evictions} - meant:
                # Others would go now than those that were read: once more.
                orders = orders._replace(evictions=())
                self._awake.set()
        self.cycles += 1
        if self._may_write():
            self._send(orders)
        if scheduler.plan is not None:
            self._planned(scheduler.plan)

    def _send(self, orders: Orders) -> None:
        self._scheduler.sent((*orders.binds, *orders.evictions), self._now_ns())
        for bind in orders.binds:
            self._start(self._bind(bind))
        for eviction in orders.evictions:
            self._start(self._evict(eviction))
        for status in orders.statuses:
            self._later["status", status.gang] = status
        for nomination in orders.nominations:
            self._later["nomination", nomination.pod] = nomination
        for room in orders.rooms:
            self._later["room", room.gang] = room
        if self._later:
            self._later_there.set()

    def _start(self, write: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(write)
        self._writes.add(task)
        task.add_done_callback(self._writes.discard)

    async def _bind(self, order: BindOrder) -> None:
        """One bind. An answer that leaves it open is looked up before anything is concluded."""
        try:
            await self._client.bind(*order.pod, order.uid, order.node)
        except ApiError as error:
            if error.unknown or isinstance(error, Conflict):
                # Bound by us, by somebody else, or another pod by now: only the pod itself can tell.
                self._scheduler.flights.lost(order.pod, order.uid)
            else:
                self._notice(f"binding {'/'.join(order.pod)} to {order.node}: {error.message}")
                self._scheduler.refused(order, error.message, self._now_ns())
        else:
            self._scheduler.bound(order)
        self._awake.set()

    async def _evict(self, order: EvictOrder) -> None:
        try:
            await self._client.evict(*order.pod, order.uid)
        except ApiError as error:
            if error.unknown or isinstance(error, Conflict):
                self._scheduler.flights.lost(order.pod, order.uid)
            else:
                self._notice(f"evicting {'/'.join(order.pod)}: {error.message}")
                self._scheduler.flights.refused(order.pod, order.uid)
        else:
            self._scheduler.flights.answered(order.pod, order.uid)
        self._awake.set()

    async def _read_doubtful(self) -> None:
        """Pods of writes with no known outcome, read one by one; who can't be read stays in doubt."""
        for key, uid in self._scheduler.doubtful(self._now_ns()):
            try:
                pod = await self._client.get(_POD, *key)
            except NotFound:
                pod = None
            except ApiError as error:
                self._notice(f"reading pod {'/'.join(key)}: {error.message}")
                return
            self._scheduler.flights.read(key, uid, pod)

    async def _read_again(self, namespaces: Iterable[str]) -> bool:
        """All pods of these namespaces as they are now, whatever the watch has shown. False: they can't be read."""
        for namespace in sorted(namespaces):
            try:
                listing = await self._client.list(_POD, namespace)
            except ApiError as error:
                self._notice(f"reading pods of {namespace} before an eviction: {error.message}")
                return False
            self._scheduler.refresh(namespace, listing.items)
        return True

    async def _write_later(self) -> None:
        """Statuses, nominations and kept room, as they come; an object that changed again is written once."""
        while True:
            await self._later_there.wait()
            await self._give_way()
            if not self._later:
                self._later_there.clear()
                continue
            what = next(iter(self._later))
            order = self._later.pop(what)
            if not self._may_write():
                continue
            try:
                await self._write(order)
            except NotFound:
                continue
            except ApiError as error:
                self._notice(f"writing the {what[0]} of {'/'.join(what[1])}: {error.message}")
                await self._clock.sleep(1.0)
                # What is true then is written then.
                self._scheduler.untold(what[1])
                self._awake.set()

    async def _give_way(self) -> None:
        """Binds and evictions come first: what is told may be late."""
        end_s = self._clock.now_s() + _LATE_S
        while self._writes and self._clock.now_s() < end_s:
            await self._clock.sleep(_LATE_S / 20)

    async def _write(self, order: StatusOrder | NominateOrder | RoomOrder) -> None:
        client = self._client
        if isinstance(order, StatusOrder):
            body = {"metadata": {"uid": order.uid}, "status": status_document(order.status)}
            await client.patch(POD_GROUP, *order.gang, body, content=MERGE, subresource="status")
        elif isinstance(order, NominateOrder):
            body = {"metadata": {"uid": order.uid}, "status": {"nominatedNodeName": order.node or None}}
            await client.patch(_POD, *order.pod, body, content=MERGE, subresource="status")
        else:
            annotations = {KEPT_ROOM_ANNOTATION: order.annotation or None}
            body = {"metadata": {"uid": order.uid, "annotations": annotations}}
            await client.patch(POD_GROUP, *order.gang, body, content=MERGE)

    async def _wait(self) -> None:
        """Until something changed and a little longer, or for a while when nothing does."""
        try:
            async with asyncio.timeout(IDLE_S):
                await self._awake.wait()
            await self._clock.sleep(self._window_s)
        except TimeoutError:
            pass
        self._awake.clear()

    def _now_ns(self) -> int:
        return int(self._clock.wall().timestamp() * 10**9)
