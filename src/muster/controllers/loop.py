"""The loop around the scheduler: watches feed it, cycles follow what changed, and what it decides is written.

Cycles are driven by events, a short time after the first of them, so that a gang whose pods come one after the other is
planned once. Writes of one cycle go out together and do not hold up the next: what was sent counts as done until
somebody says otherwise. Nobody is evicted on what may be old: the pods are read again first, and the plan is made anew.
"""

import asyncio
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import aclosing
from typing import Any

from muster.api.evictionrequest import GRANTED
from muster.api.kinds import (
    CORE_KINDS,
    DEVICE_CLASS,
    EVICTION_REQUEST,
    NATIVE_POD_GROUP,
    OPTIONAL_KINDS,
    POD,
    POD_DISRUPTION_BUDGET,
    POD_GROUP,
    QUEUE,
    TOPOLOGY,
    Kind,
)
from muster.controllers.deleting import Deleting
from muster.controllers.scheduler import OPTIONAL, WATCHED, Scheduler
from muster.controllers.sending import Sender
from muster.controllers.sights import Sights
from muster.controllers.telling import Teller
from muster.decisions.notes import WARNING, Note
from muster.decisions.orders import AnswerOrder, Orders
from muster.errors import DEFECT, ApiError, BadObject, Call, NotFound, Unreachable
from muster.kube.backoff import doubled_s
from muster.kube.client import Client
from muster.kube.clock import Clock, SystemClock
from muster.kube.discovery import Discovery
from muster.kube.events import EventRecorder, Regarding
from muster.kube.resources import AnyKind, Unread, is_later
from muster.kube.watch import Added, Bookmark, Deleted, Listed, Modified, Restarted, watch
from muster.plan.outcome import Plan
from muster.snapshot.world import Key, key_of
from muster.telemetry import SILENT, Log, Metrics

_KINDS: tuple[Kind, ...] = tuple(kind for kind in (*CORE_KINDS, POD_GROUP, QUEUE, TOPOLOGY) if kind.struct in WATCHED)
_OPTIONAL = tuple(kind.plural for kind in _KINDS if kind.struct in OPTIONAL)
_S = 10**9
# So long after the first event a cycle begins; so long it waits at most when nothing happens.
WINDOW_S, IDLE_S = 0.02, 5.0
# So much later what was seen is looked at when nobody can be placed because of it.
LAZY_S = 0.25
# And so many times as much while binds are under way: what there is to tell then has to wait for them anyway.
_LAZY_ROUNDS = 8
# After a cycle the next one waits so many times as long as it took, and never longer than that: binds come first.
_PAUSES, _LONGEST_PAUSE_S = 2.0, 0.5
# So many pods of a namespace are read one by one. When there are more, all are listed.
_MOST_READ = 20
# A kind that is not served, or closed to us, is asked for again so often.
_UNSERVED_S = 60.0
# How long it waits after a defect, at first and at most; after so many, one after the other, the process ends.
_FIRST_DEFECT_S, _LONGEST_DEFECT_S, _MOST_DEFECTS = 5.0, 300.0, 10


class Loop:
    """Runs the scheduler against an API server until it is cancelled.

    `may_write` says whether this one leads; `seen` is called whenever something was seen, `planned` with each plan.
    `looks_on`: plans are also made while nothing may be written, for people to look at. `requests_in` is the namespace
    of EvictionRequests, where no tenant may write; without it there are none.
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
        looks_on: Callable[[], bool] = lambda: False,
        requests_in: str = "",
    ) -> None:
        self._client, self._scheduler, self._clock = client, scheduler, clock or SystemClock()
        self._may_write, self._log, self._metrics, self._window_s = may_write, log, metrics, window_s
        self._seen, self._planned, self._looks_on, self._requests_in = seen, planned, looks_on, requests_in
        self._awake = asyncio.Event()
        self._alarm: asyncio.TimerHandle | None = None
        # No cycle begins before.
        self._rests_until_s = self._put_off_until_s = 0.0
        # The last version that each watch has shown.
        self._versions: dict[str, str] = {}
        # Cycles that failed, one after the other; whether plans were made that nobody was told of; and what is asked
        # before each cycle, with whether we lead.
        self._defects, self._looked, self.begins = 0, False, _begins
        spare = [kind.resource for kind in OPTIONAL_KINDS]
        also = [*spare, EVICTION_REQUEST.resource] if requests_in else spare
        plurals = [kind.resource for kind in _KINDS]
        self.sights = Sights(plurals, optional=_OPTIONAL, spare=also, log=log, metrics=metrics, clock=self._clock)
        for resource in spare:
            scheduler.world.close(resource, f"muster has not listed {resource} yet")
        self.teller = Teller(
            client,
            scheduler,
            clock=self._clock,
            may_write=may_write,
            is_busy=lambda: self.sender.is_sending,
            wake=self.wake,
            log=log,
            metrics=metrics,
            events=events,
        )
        self.sender = Sender(
            client,
            scheduler,
            self.teller,
            clock=self._clock,
            may_write=may_write,
            wake=self.wake,
            log=log,
            metrics=metrics,
        )
        self.cycles = 0
        # The pods that the last cycle told to go; its plan may name more. Only of a decision.
        self.going: frozenset[Key] = frozenset()
        # When the cycle that is under way began.
        self.cycle_began_s: float | None = None

    @property
    def is_synced(self) -> bool:
        """Whether everything was seen once."""
        return self.sights.is_synced

    def wake(self) -> None:
        """There is something to do, although nothing was seen: we lead now."""
        self._awake.set()

    async def run(self, *, asks_rights: bool = True) -> None:
        """Everything, until it is cancelled. What is not muster's own process has other rights, and asks for none."""
        async with asyncio.TaskGroup() as tasks:
            for kind in _KINDS:
                tasks.create_task(self._follow(kind))
            for kind in OPTIONAL_KINDS:
                tasks.create_task(self._follow_optional(kind))
            if self._requests_in:
                tasks.create_task(self._follow(EVICTION_REQUEST, self._requests_in))
            tasks.create_task(self._cycles())
            tasks.create_task(self.teller.run())
            if asks_rights:
                deleting = Deleting(
                    self._client, self._scheduler.world, clock=self._clock, changed=self.wake, log=self._log
                )
                tasks.create_task(deleting.run())

    async def _follow(self, kind: Kind, namespace: str = "") -> None:
        """One kind, from its list on."""
        async with aclosing(watch(self._client, kind, namespace)) as changes:
            async for change in changes:
                self._take(kind, change)

    async def _follow_optional(self, kind: Kind) -> None:
        """One kind that a cluster may lack or not let us read: then pods that ask about it are held, and no others."""
        discovery = Discovery(self._client)
        while True:
            served: AnyKind = kind
            if kind is NATIVE_POD_GROUP:
                try:
                    found = await discovery.find_served(f"{kind.group}/*", kind.name)
                except ApiError as error:
                    self._take_optional(kind, Restarted("fault", error))
                    await self._clock.sleep(_UNSERVED_S)
                    continue
                if found is None:
                    missing = NotFound(Call("list", kind.resource), f"no version of {kind.group} has it")
                    self._take_optional(kind, Restarted("not-found", missing))
                    await self._clock.sleep(_UNSERVED_S)
                    continue
                served = found._replace(struct=kind.struct)
            async with aclosing(watch(self._client, served, cap_s=_UNSERVED_S)) as changes:
                async for change in changes:
                    self._take_optional(kind, change)
                    if served is not kind and isinstance(change, Restarted) and change.cause == "not-found":
                        # Another version may be served by now.
                        discovery.forget()
                        break

    def _take_optional(self, kind: Kind, change: Any) -> None:
        """What is seen of such a kind; and whether it can be read at all."""
        closed = _closed_by(kind, change, is_listed=self.sights.is_listed(kind.resource))
        if closed is not None and self._scheduler.world.close(kind.resource, closed):
            self._awake.set()
        self._take(kind, change)

    def _take(self, kind: Kind, change: Any) -> None:
        scheduler, matters = self._scheduler, True
        self.sights.take(kind.resource, change)
        match change:
            case Listed(items=items, unread=unread, resource_version=version):
                anew = self._went_back(kind, version, self._versions)
                if anew:
                    self._log.warning("versions went back: all is read anew", kind=kind.name, version=version)
                self._versions[kind.resource] = version
                scheduler.hide(kind.struct)
                scheduler.replace(kind.struct, items, [one.metadata for one in unread], anew=anew)
                for one in unread:
                    self._unread(kind, one, anew=anew)
            case Added(object=found) | Modified(object=found):
                matters = scheduler.see(found)
                self._versions[kind.resource] = found.metadata.resource_version
            case Deleted(object=found):
                scheduler.see(found, deleted=True)
                self._versions[kind.resource] = found.metadata.resource_version
            case Unread():
                self._unread(kind, change)
            case Bookmark(resource_version=version):
                self._versions[kind.resource] = version
                return
            case Restarted(cause="forbidden") if kind.struct in OPTIONAL:
                scheduler.hide(kind.struct, f"muster may not list and watch {kind.plural}")
            case Restarted():
                return
        if matters:
            self._awake.set()
        elif self._alarm is None:
            self._wake_later(_LAZY_ROUNDS)
        self._seen()

    def _went_back(self, kind: Kind, version: str, versions: Mapping[str, str]) -> bool:
        """Whether a list is of an earlier version than was seen before: then the data of the server was restored."""
        return is_later(versions.get(kind.resource, ""), version)

    def _wake_later(self, rounds: int) -> None:
        self._alarm = asyncio.get_running_loop().call_later(LAZY_S, self._ring, rounds - 1)

    def _ring(self, rounds: int) -> None:
        if self.sender.is_sending and rounds:
            self._wake_later(rounds)
        else:
            self._awake.set()

    def _unread(self, kind: Kind, found: Unread, *, anew: bool = False) -> None:
        """An object that can't be read is told so, and costs nobody else anything."""
        gone, metadata = found.change == "DELETED", found.metadata
        said = ": ".join(filter(None, (found.why.path, found.why.message)))
        is_told = self._scheduler.unread(kind.struct, metadata, said, deleted=gone, raw=found.raw, anew=anew)
        if is_told and self._may_write():
            about = Regarding(kind.api_version, kind.name, metadata.namespace, metadata.name, metadata.uid)
            self.teller.say(about, Note(WARNING, "Invalid", said))
        named = "/".join(part for part in (metadata.namespace, metadata.name) if part)
        self._log.warning("an object can't be read", kind=kind.name, name=named, error=said)

    async def _cycles(self) -> None:
        while True:
            await self._wait()
            if self.is_synced and (self._may_write() or self._looks_on()):
                began_s = self.cycle_began_s = self._clock.now_s()
                try:
                    await (self._cycle() if self._may_write() else self._look())
                finally:
                    self.cycle_began_s = None
                now_s = self._clock.now_s()
                self._rests_until_s = now_s + min(_PAUSES * (now_s - began_s), _LONGEST_PAUSE_S)

    async def _cycle(self) -> None:
        """Plans and sends. Between the plan and the sending nothing is waited for: what was planned on is what is."""
        scheduler = self._scheduler
        if self._looked:
            # Who leads now begins as if it had not looked on.
            self._looked = False
            scheduler.start_afresh()
        self.begins(leads=True)
        await self._read_doubtful()
        lap = self._metrics.stopwatch(self._clock.now_s) if self._metrics is not None else lambda _: None
        orders = await self._plan(lap)
        if orders is not None and (orders.evictions or _grants(orders)):
            meant = {(order.pod, order.uid) for order in orders.evictions}
            scheduler.unsaid(orders)
            read = _concerned(orders)
            are_known = await self._read_again(read)
            lap("read")
            orders = await self._plan(lap)
            if orders is not None and not are_known:
                # Nobody goes; whoever needs nobody to go is placed all the same.
                orders = self._without_evictions(orders)
            elif orders is not None and (
                {(order.pod, order.uid) for order in orders.evictions} - meant or _concerned(orders) - read
            ):
                # Others would go now than those that were read, or for others: once more.
                orders = self._without_evictions(orders)
                self._awake.set()
        if orders is None:
            return
        self._defects = 0
        self.cycles += 1
        if self._may_write():
            self.sender.send(orders)
            lap("send")
        else:
            # Nothing of it is written; it is all to be said when we lead again.
            scheduler.unsaid(orders)
            scheduler.decision = ""
        self.going = frozenset(order.pod for order in orders.evictions)
        if scheduler.plan is not None:
            self._planned(scheduler.plan)

    def _without_evictions(self, orders: Orders) -> Orders:
        """The orders that need no pod to go; nor is anybody asked to evict one."""
        grants = _grants(orders)
        for answer in grants:
            self._scheduler.unanswered(answer.request)
        return orders._replace(evictions=(), answers=tuple(one for one in orders.answers if one not in grants))

    async def _look(self) -> None:
        """Plans, and neither reads nor writes anything: what this one would do if it led."""
        self._looked = True
        self.begins(leads=False)
        orders = await self._plan(lambda _: None)
        if orders is not None and self._scheduler.plan is not None:
            self._defects = 0
            self._scheduler.unsaid(orders)
            self._scheduler.decision = ""
            self._planned(self._scheduler.plan)

    async def _plan(self, lap: Callable[[str], None]) -> Orders | None:
        """What is to be written; nothing is waited for. None: a defect of ours.

        Then the objects that it is about are looked for, and left out. When it is about none, all is built anew a while
        later; and when that does not help, this process ends.
        """
        now_ns = int(self._clock.wall().timestamp() * _S)
        try:
            orders = self._scheduler.cycle(now_ns, lap, self._at_ns(), self.teller.words())
        except Exception as defect:
            place = traceback.extract_tb(defect.__traceback__)[-1]
            where, what = f"{place.filename}:{place.lineno}", f"{type(defect).__name__}: {defect}"
            self._log.error(f"a cycle failed: this is a {DEFECT}", error=what, where=where)
            self._scheduler.start_afresh()
            if await self._isolate(now_ns, what):
                return None
            self._defects += 1
            if self._defects >= _MOST_DEFECTS:
                raise
            pause_s = doubled_s(_FIRST_DEFECT_S, self._defects - 1, _LONGEST_DEFECT_S)
            self._put_off_until_s = max(self._put_off_until_s, self._clock.now_s() + pause_s)
            self._awake.set()
            return None
        self._tell_of_stumbles()
        return orders

    async def _isolate(self, now_ns: int, what: str) -> bool:
        """Whether there are objects without which a cycle works: the next one is made without them, at once."""
        search = self._scheduler.search(now_ns, what)
        for _ in search.steps():
            # Between two trials others have their turn: leases are renewed, probes answered, watches read.
            self.cycle_began_s = self._clock.now_s()
            await asyncio.sleep(0)
        self._scheduler.leave_out(search.found, what)
        self._tell_of_stumbles()
        if search.found:
            self._awake.set()
        return bool(search.found)

    def _tell_of_stumbles(self) -> None:
        """Objects that are left out because of a defect of ours."""
        for thing, why in self._scheduler.stumbled(self._at_ns()):
            self._log.error(f"an object is left out: this is a {DEFECT}", object=str(thing), error=why)
        if self._metrics is not None:
            counts = Counter(thing.kind for thing in self._scheduler.world.quarantine)
            self._metrics.quarantined_objects.replace({(kind,): count for kind, count in counts.items()})

    async def _read_doubtful(self) -> None:
        """Pods of writes with no known outcome, read; who can't be read stays in doubt."""
        doubtful: dict[str, dict[Key, str]] = defaultdict(dict)
        for key, uid in self._scheduler.doubtful(self._at_ns()):
            doubtful[key[0]][key] = uid
        for namespace, pods in doubtful.items():
            try:
                if len(pods) > _MOST_READ:
                    await self._list_doubtful(namespace, pods)
                else:
                    await asyncio.gather(*(self._get_doubtful(key, uid) for key, uid in pods.items()))
            except Unreachable:
                # Nor would the others be.
                return

    async def _list_doubtful(self, namespace: str, pods: Mapping[Key, str]) -> None:
        try:
            listing = await self._client.list(POD, namespace, attempts=1)
        except ApiError as error:
            self._log.warning("pods could not be read", namespace=namespace, error=error.message)
            if isinstance(error, Unreachable):
                raise
            return
        found = {key_of(pod.metadata): pod for pod in listing.items}
        unread = {key_of(one.metadata) for one in listing.unread}
        for key in sorted(pods.keys() - unread):
            self._scheduler.read(key, pods[key], found.get(key), self._at_ns())

    async def _get_doubtful(self, key: Key, uid: str) -> None:
        try:
            pod = await self._client.get(POD, *key)
        except NotFound:
            pod = None
        except (ApiError, BadObject) as error:
            self._log.warning("a pod could not be read", pod="/".join(key), error=error.message)
            if isinstance(error, Unreachable):
                raise
            return
        self._scheduler.read(key, uid, pod, self._at_ns())

    async def _read_again(self, namespaces: Iterable[str]) -> bool:
        """All that says who may go from these namespaces and for whom, as it is now, whatever the watches have shown.
        False: it can't be read.
        """
        scheduler, are_known, seen = self._scheduler, True, dict(self._versions)
        asked = [
            (QUEUE, ""),
            *((kind, name) for name in sorted(namespaces) for kind in (POD, POD_GROUP, POD_DISRUPTION_BUDGET)),
        ]
        lists = (self._client.list(kind, namespace, attempts=1) for kind, namespace in asked)
        listings = await asyncio.gather(*lists, return_exceptions=True)
        for (kind, namespace), listing in zip(asked, listings, strict=True):
            if isinstance(listing, ApiError):
                said = {"kind": kind.name, "namespace": namespace, "error": listing.message}
                self._log.warning("objects could not be read before an eviction", **said)
                are_known = False
            elif isinstance(listing, BaseException):
                raise listing
            elif self._went_back(kind, listing.resource_version, seen):
                # The watch will see it, too.
                are_known = False
            else:
                unread = [one.metadata for one in listing.unread]
                scheduler.refresh(namespace, listing.items, listing.resource_version, unread, kind.struct)
        return are_known

    async def _wait(self) -> None:
        """Until something changed and a little longer, or for a while when nothing does."""
        window_s = self._window_s
        try:
            async with asyncio.timeout(IDLE_S):
                await self._awake.wait()
        except TimeoutError:
            window_s = 0.0
        await self._clock.sleep(window_s)
        # Whatever is refused meanwhile may put it off further.
        while (rest_s := self._begins_s() - self._clock.now_s()) > 0.0:
            await self._clock.sleep(rest_s)
        self._awake.clear()
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _begins_s(self) -> float:
        """When the next cycle may begin, as far as is known now."""
        return max(self._rests_until_s, self._put_off_until_s, self.sender.put_off_until_s)

    def _at_ns(self) -> int:
        """The time that never goes back."""
        return int(self._clock.now_s() * _S)


def _closed_by(kind: Kind, change: Any, *, is_listed: bool) -> str | None:
    """Why objects of a kind can't be read after this; empty: they can, None: nothing changed."""
    if not isinstance(change, Restarted):
        return ""
    if change.cause == "forbidden":
        return f"muster may not list {kind.resource}"
    if change.cause == "not-found":
        # Where there are no classes of devices, none offers anything.
        return "" if kind is DEVICE_CLASS else f"this API server does not serve {kind.resource}"
    if is_listed or change.error is None:
        return None
    return f"{kind.resource} can't be read: {change.error.message}"


def _concerned(orders: Orders) -> set[str]:
    """The namespaces of those who go, and of those they go for: what is reserved for these is not written again."""
    gangs = (order.beneficiary.partition("/") for order in orders.evictions if order.beneficiary is not None)
    named = {gang[0] for answer in _grants(orders) for gang in answer.gangs}
    return {order.pod[0] for order in orders.evictions} | {namespace for namespace, _, _ in gangs} | named


def _grants(orders: Orders) -> list[AnswerOrder]:
    """The EvictionRequests that are granted: their authors evict at once."""
    return [answer for answer in orders.answers if answer.status.phase == GRANTED]


def _begins(*, leads: bool) -> None:
    """Nothing is to be done before a cycle."""
