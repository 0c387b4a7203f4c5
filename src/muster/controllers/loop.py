"""The loop around the scheduler: watches feed it, cycles follow what changed, and what it decides is written.

Cycles are driven by events, a short time after the first of them, so that a gang whose pods come one after the other is
planned once. Writes of one cycle go out together and do not hold up the next: what was sent counts as done until
somebody says otherwise. Nobody is evicted on what may be old: the pods are read again first, and the plan is made anew.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable
from contextlib import aclosing
from typing import Any

from muster.api.cluster import Pod
from muster.api.kinds import CORE_KINDS, POD_GROUP, QUEUE, TOPOLOGY, Kind
from muster.controllers.scheduler import WATCHED, Scheduler
from muster.controllers.sights import Sights
from muster.controllers.telling import Teller, gang_regarding
from muster.decisions.notes import WARNING, Note, eviction_note
from muster.decisions.orders import BindOrder, EvictOrder, Orders
from muster.errors import ApiError, BadObject, Conflict, NotFound, TooManyRequests, Unreachable
from muster.kube.client import Client
from muster.kube.clock import Clock, SystemClock
from muster.kube.events import EventRecorder, Regarding
from muster.kube.resources import Unread
from muster.kube.watch import Added, Bookmark, Deleted, Listed, Modified, Restarted, watch
from muster.plan.outcome import Plan
from muster.snapshot.world import Key
from muster.telemetry import SILENT, Log, Metrics

_KINDS: tuple[Kind, ...] = tuple(kind for kind in (*CORE_KINDS, POD_GROUP, QUEUE, TOPOLOGY) if kind.struct in WATCHED)
_POD = next(kind for kind in CORE_KINDS if kind.struct is Pod)
# So long after the first event a cycle begins; so long it waits at most when nothing happens.
WINDOW_S, IDLE_S = 0.02, 5.0
# So much later what was seen is looked at when nobody can be placed because of it.
LAZY_S = 0.25
# And so many times as much while binds are under way: what there is to tell then has to wait for them anyway.
_LAZY_ROUNDS = 8
# After a cycle the next one waits so many times as long as it took, and never longer than that: binds come first.
_PAUSES, _LONGEST_PAUSE_S = 2.0, 0.5
# So long it waits for a server that is away or too busy.
_AWAY_S = 2.0


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
        log: Log = SILENT,
        metrics: Metrics | None = None,
        events: EventRecorder | None = None,
        window_s: float = WINDOW_S,
        seen: Callable[[], None] = lambda: None,
        planned: Callable[[Plan], None] = lambda _: None,
    ) -> None:
        self._client, self._scheduler, self._clock = client, scheduler, clock or SystemClock()
        self._may_write, self._log, self._metrics, self._window_s = may_write, log, metrics, window_s
        self._seen, self._planned = seen, planned
        self._awake = asyncio.Event()
        self._alarm: asyncio.TimerHandle | None = None
        # No cycle begins before.
        self._rests_until_s = 0.0
        self._put_off_until_s = 0.0
        self._writes: set[asyncio.Task[None]] = set()
        self.sights = Sights([kind.plural for kind in _KINDS], log=log, metrics=metrics, clock=self._clock)
        self.teller = Teller(
            client,
            scheduler,
            clock=self._clock,
            may_write=may_write,
            is_busy=lambda: bool(self._writes),
            wake=self.wake,
            log=log,
            metrics=metrics,
            events=events,
        )
        self.cycles = 0
        # When the cycle that is under way began.
        self.cycle_began_s: float | None = None

    @property
    def is_synced(self) -> bool:
        """Whether everything was seen once."""
        return self.sights.is_synced

    def wake(self) -> None:
        """There is something to do, although nothing was seen: we lead now."""
        self._awake.set()

    async def run(self) -> None:
        """Everything, until it is cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for kind in _KINDS:
                tasks.create_task(self._follow(kind))
            tasks.create_task(self._cycles())
            tasks.create_task(self.teller.run())

    async def settled(self, seconds: float) -> None:
        """Waits until no bind or eviction is under way, at most so long."""
        if self._writes:
            await asyncio.wait(set(self._writes), timeout=seconds)

    async def _follow(self, kind: Kind) -> None:
        """One kind, from its list on."""
        async with aclosing(watch(self._client, kind)) as changes:
            async for change in changes:
                self._take(kind, change)

    def _take(self, kind: Kind, change: Any) -> None:
        scheduler, matters = self._scheduler, True
        self.sights.take(kind.plural, change)
        match change:
            case Listed(items=items, unread=unread):
                scheduler.replace(kind.struct, items, [one.metadata for one in unread])
                for one in unread:
                    self._unread(kind, one)
            case Added(object=found) | Modified(object=found):
                matters = scheduler.see(found)
            case Deleted(object=found):
                scheduler.see(found, deleted=True)
            case Unread():
                self._unread(kind, change)
            case Bookmark() | Restarted():
                return
        if matters:
            self._awake.set()
        elif self._alarm is None:
            self._wake_later(_LAZY_ROUNDS)
        self._seen()

    def _wake_later(self, rounds: int) -> None:
        self._alarm = asyncio.get_running_loop().call_later(LAZY_S, self._ring, rounds - 1)

    def _ring(self, rounds: int) -> None:
        if self._writes and rounds:
            self._wake_later(rounds)
        else:
            self._awake.set()

    def _unread(self, kind: Kind, found: Unread) -> None:
        """An object that can't be read is told so, and costs nobody else anything."""
        gone, metadata = found.change == "DELETED", found.metadata
        said = ": ".join(filter(None, (found.why.path, found.why.message)))
        self._scheduler.unread(kind.struct, metadata, said, deleted=gone, raw=found.raw)
        if metadata.name and not gone and self._may_write():
            about = Regarding(kind.api_version, kind.name, metadata.namespace, metadata.name, metadata.uid)
            self.teller.say(about, Note(WARNING, "Invalid", said))
        named = "/".join(part for part in (metadata.namespace, metadata.name) if part)
        self._log.warning("an object can't be read", kind=kind.name, name=named, error=said)

    async def _cycles(self) -> None:
        while True:
            await self._wait()
            if self.is_synced and self._may_write():
                began_s = self.cycle_began_s = self._clock.now_s()
                try:
                    await self._cycle()
                finally:
                    self.cycle_began_s = None
                now_s = self._clock.now_s()
                self._rests_until_s = now_s + min(_PAUSES * (now_s - began_s), _LONGEST_PAUSE_S)

    async def _cycle(self) -> None:
        """Plans and sends. Between the plan and the sending nothing is waited for: what was planned on is what is."""
        scheduler = self._scheduler
        await self._read_doubtful()
        lap = self._metrics.stopwatch(self._clock.now_s) if self._metrics is not None else lambda _: None
        orders = scheduler.cycle(self._now_ns(), lap)
        if orders.evictions:
            meant = {(order.pod, order.uid) for order in orders.evictions}
            scheduler.unsaid(orders)
            are_known = await self._read_again({order.pod[0] for order in orders.evictions})
            lap("read")
            orders = scheduler.cycle(self._now_ns(), lap)
            if not are_known:
                # Nobody goes; whoever needs nobody to go is placed all the same.
                orders = orders._replace(evictions=())
            elif {(order.pod, order.uid) for order in orders.evictions} - meant:
                # Others would go now than those that were read: once more.
                orders = orders._replace(evictions=())
                self._awake.set()
        self.cycles += 1
        if self._may_write():
            self._send(orders)
            lap("send")
        if scheduler.plan is not None:
            self._planned(scheduler.plan)

    def _send(self, orders: Orders) -> None:
        self._scheduler.sent((*orders.binds, *orders.evictions), self._now_ns())
        if orders.binds or orders.evictions:
            gangs = len({order.gang for order in orders.binds})
            self._log.info(
                "decided",
                decision=orders.decision,
                binds=len(orders.binds),
                gangs=gangs,
                evictions=len(orders.evictions),
            )
        for bind in orders.binds:
            self._start(self._bind(bind, orders.decision))
        if orders.evictions:
            self._start(self._evict_for(orders))
            # Those are written already when anybody goes.
            orders = orders._replace(nominations=(), rooms=())
        self.teller.take(orders)

    def _start(self, write: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(write)
        self._writes.add(task)
        task.add_done_callback(self._writes.discard)

    async def _bind(self, order: BindOrder, decision: str) -> None:
        """One bind. An answer that leaves it open is looked up before anything is concluded."""
        try:
            await self._client.bind(*order.pod, order.uid, order.node)
        except ApiError as error:
            if error.unknown or isinstance(error, Conflict):
                # Bound by us, by somebody else, or another pod by now: only the pod itself can tell.
                self._scheduler.flights.lost(order.pod, order.uid, error.message)
            else:
                pod = "/".join(order.pod)
                said = error.message
                self._log.warning("a bind was refused", pod=pod, node=order.node, error=said, decision=decision)
                self._refused(order, error)
            self._awake.set()
        else:
            # Nothing to plan: it counted as bound since it was sent.
            self._scheduler.bound(order, self._now_ns())

    def _refused(self, order: BindOrder | EvictOrder, error: ApiError) -> None:
        """A server that is away or too busy is nobody's fault: everything waits for it, and nothing rests longer."""
        if isinstance(error, Unreachable) or (isinstance(error, TooManyRequests) and isinstance(order, BindOrder)):
            self._scheduler.put_off(order)
            pause_s = min(error.retry_after_s or _AWAY_S, self._client.limits.longest_wait_s)
            self._put_off_until_s = max(self._put_off_until_s, self._clock.now_s() + pause_s)
        else:
            self._scheduler.refused(order, error.message, self._now_ns())

    async def _evict_for(self, orders: Orders) -> None:
        """What is reserved stands before anybody goes for it: whoever plans next, this process or another, knows it."""
        error = await self.teller.reserve(orders)
        if error is not None or not self._may_write():
            for order in orders.evictions:
                if error is not None:
                    self._refused(order, error)
                else:
                    self._scheduler.flights.refused(order.pod, order.uid)
            self._awake.set()
            return
        leaving: dict[tuple[Key, str, str | None], list[EvictOrder]] = defaultdict(list)
        for order in orders.evictions:
            leaving[order.gang, order.action, order.beneficiary].append(order)
        await asyncio.gather(*(self._evict_all(together, orders.decision) for together in leaving.values()))

    async def _evict_all(self, orders: list[EvictOrder], decision: str) -> None:
        """Pods of one gang that go for one reason. What is said about it is what happened."""
        gone = sum(await asyncio.gather(*(self._evict(order, decision) for order in orders)))
        self._awake.set()
        gang, action, beneficiary = orders[0].gang, orders[0].action, orders[0].beneficiary
        if not gone:
            return
        group = self._scheduler.world.groups.get(gang)
        note = eviction_note(gone, action, beneficiary)
        self._log.info("pods were evicted", gang="/".join(gang), says=note.text, decision=decision)
        if group is not None:
            self.teller.say(gang_regarding(gang, group.metadata.uid), note, decision)

    async def _evict(self, order: EvictOrder, decision: str) -> bool:
        """Whether it happened, as far as anybody knows."""
        try:
            await self._client.evict(*order.pod, order.uid)
        except ApiError as error:
            if error.unknown or isinstance(error, Conflict):
                self._scheduler.flights.lost(order.pod, order.uid, error.message)
            else:
                self._log.warning(
                    "an eviction was refused", pod="/".join(order.pod), error=error.message, decision=decision
                )
                self._refused(order, error)
            return False
        self._scheduler.flights.answered(order.pod, order.uid, self._now_ns())
        if self._metrics is not None:
            self._metrics.evictions.labels(order.action).inc()
        return True

    async def _read_doubtful(self) -> None:
        """Pods of writes with no known outcome, read one by one; who can't be read stays in doubt."""
        for key, uid in self._scheduler.doubtful(self._now_ns()):
            try:
                pod = await self._client.get(_POD, *key)
            except NotFound:
                pod = None
            except ApiError as error:
                self._log.warning("a pod could not be read", pod="/".join(key), error=error.message)
                return
            except BadObject as error:
                self._log.warning("a pod can't be read", pod="/".join(key), error=error.message)
                continue
            self._scheduler.read(key, uid, pod, self._now_ns())

    async def _read_again(self, namespaces: Iterable[str]) -> bool:
        """All pods of these namespaces as they are now, whatever the watch has shown. False: they can't be read."""
        for namespace in sorted(namespaces):
            self._scheduler.reading()
            try:
                listing = await self._client.list(_POD, namespace, attempts=1)
            except ApiError as error:
                said = error.message
                self._log.warning("pods could not be read before an eviction", namespace=namespace, error=said)
                return False
            unread = [one.metadata for one in listing.unread]
            self._scheduler.refresh(namespace, listing.items, listing.resource_version, unread)
        return True

    async def _wait(self) -> None:
        """Until something changed and a little longer, or for a while when nothing does."""
        try:
            async with asyncio.timeout(IDLE_S):
                await self._awake.wait()
            until_s = max(self._rests_until_s, self._put_off_until_s)
            await self._clock.sleep(max(self._window_s, until_s - self._clock.now_s()))
        except TimeoutError:
            pass
        self._awake.clear()
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _now_ns(self) -> int:
        return int(self._clock.wall().timestamp() * 10**9)
