"""Binds and evictions are sent, and what was answered is told to the scheduler.

Writes of one cycle go out together, and nobody waits for them. Nobody goes before the room it goes for is reserved.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Coroutine, Mapping
from typing import Any

from muster.api.cluster import ADMITTED_ANNOTATION, DISRUPTION_TARGET, PREEMPTED
from muster.api.kinds import POD
from muster.controllers.scheduler import Scheduler
from muster.controllers.telling import Teller, gang_regarding
from muster.decisions.notes import deletion_note, eviction_note
from muster.decisions.orders import BindOrder, EvictOrder, NominateOrder, Orders, parts_of
from muster.errors import DEFECT, ApiError, Conflict, Forbidden, Invalid, NotFound, TooManyRequests, Unreachable
from muster.kube.client import STRATEGIC, Client
from muster.kube.clock import Clock
from muster.kube.events import Regarding
from muster.snapshot.world import Key
from muster.telemetry import Log, Metrics

_S = 10**9
# So long a server that is away or too busy is left alone, at first and at most.
_AWAY_S, _LONGEST_AWAY_S = 2.0, 10.0


class Sender:
    """Writes what a plan decides. `teller` writes the rest; `wake` is called when there is something new to plan."""

    def __init__(
        self,
        client: Client,
        scheduler: Scheduler,
        teller: Teller,
        *,
        clock: Clock,
        may_write: Callable[[], bool],
        wake: Callable[[], None],
        log: Log,
        metrics: Metrics | None,
    ) -> None:
        self._client, self._scheduler, self._teller, self._clock = client, scheduler, teller, clock
        self._may_write, self._wake, self._log, self._metrics = may_write, wake, log, metrics
        # Nothing is planned before, because the server is away.
        self.put_off_until_s = 0.0
        # How long it was waited for a server that was away, the last time; 0: it is there.
        self._away_s = 0.0
        self._writes: set[asyncio.Task[None]] = set()

    @property
    def is_sending(self) -> bool:
        """Whether a bind or an eviction is under way."""
        return bool(self._writes)

    async def settled(self, seconds: float) -> None:
        """Waits until no bind or eviction is under way, at most so long."""
        if self._writes:
            await asyncio.wait(set(self._writes), timeout=seconds)

    def send(self, orders: Orders) -> None:
        """Everything that follows from a plan. Nothing is waited for."""
        self._scheduler.sent((*orders.binds, *orders.evictions), self._at_ns())
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
            self._start(self._bind(bind, orders.decision), (bind,))
        if orders.evictions:
            promised = self._scheduler.promised({_beneficiary(order) for order in orders.evictions})
            self._start(self._evict_for(orders, promised), orders.evictions)
            # Those are written already when anybody goes.
            orders = orders._replace(nominations=(), rooms=())
        self._teller.take(orders)

    def _start(self, write: Coroutine[Any, Any, None], orders: Collection[BindOrder | EvictOrder]) -> None:
        """A write that nobody waits for. When it ends by a defect, what became of its pods is looked up."""

        def ended(task: asyncio.Task[None]) -> None:
            self._writes.discard(task)
            defect = None if task.cancelled() else task.exception()
            if defect is not None:
                what = f"{type(defect).__name__}: {defect}"
                self._log.error(f"a write failed: this is a {DEFECT}", error=what, pods=len(orders))
                for order in orders:
                    self._scheduler.flights.lost(order.pod, order.uid, what)
                self._wake()

        task = asyncio.get_running_loop().create_task(write)
        self._writes.add(task)
        task.add_done_callback(ended)

    async def _bind(self, order: BindOrder, decision: str) -> None:
        """One bind. An answer that leaves it open is looked up before anything is concluded."""
        try:
            mark = {ADMITTED_ANNOTATION: order.mark} if order.mark else None
            await self._client.bind(*order.pod, order.uid, order.node, annotations=mark)
        except ApiError as error:
            if _is_open(error):
                self._scheduler.flights.lost(order.pod, order.uid, error.message)
            else:
                pod = "/".join(order.pod)
                said = error.message
                self._log.warning("a bind was refused", pod=pod, node=order.node, error=said, decision=decision)
                self._refused(order, error)
            self._wake()
        else:
            # Nothing to plan: it counted as bound since it was sent.
            self._away_s = 0.0
            self._scheduler.bound(order, self._at_ns())

    def _refused(self, order: BindOrder | EvictOrder, error: ApiError) -> None:
        """A server that is away or too busy is nobody's fault: everything waits for it, and nothing rests longer."""
        if isinstance(error, Unreachable) or (isinstance(error, TooManyRequests) and isinstance(order, BindOrder)):
            self._scheduler.put_off(order)
            self._wait_for_server(error)
        else:
            self._scheduler.refused(order, error.message, self._at_ns())

    def _wait_for_server(self, error: ApiError) -> None:
        """The longer a server stays away, the longer it is left alone: each write is tried several times."""
        now_s = self._clock.now_s()
        if now_s >= self.put_off_until_s:
            self._away_s = min(2 * self._away_s, _LONGEST_AWAY_S) if self._away_s else _AWAY_S
        pause_s = min(error.retry_after_s or self._away_s, self._client.limits.longest_wait_s)
        self.put_off_until_s = max(self.put_off_until_s, now_s + pause_s)

    async def _evict_for(self, orders: Orders, promised: Collection[NominateOrder]) -> None:
        """What is reserved stands before anybody goes for it: whoever plans next, this process or another, knows it."""
        sent_ns, unsettled = self._at_ns(), await self._teller.settle(orders)
        failed = await self._teller.reserve(orders)
        leads = self._may_write()
        overtaken = self._scheduler.overtaken(promised) | self._teller.contrary(promised) | unsettled
        leaving: dict[tuple[Key, str, str | None, str], list[EvictOrder]] = defaultdict(list)
        for part in parts_of(orders.evictions):
            errors = [self._unreserved(order, failed, sent_ns) for order in part]
            if leads and not any(errors) and not any(_beneficiary(order) in overtaken for order in part):
                for order in part:
                    leaving[order.gang, order.action, order.beneficiary, order.over].append(order)
                continue
            for order in part:
                self._scheduler.put_off(order)
            self._wake()
        await asyncio.gather(*(self._evict_all(together, orders.decision) for together in leaving.values()))

    def _unreserved(self, order: EvictOrder, failed: Mapping[Key, ApiError], sent_ns: int) -> ApiError | None:
        """Why nobody may go for the gang that this one would go for. It is that gang's to wait, not the pod's."""
        if order.beneficiary is None:
            return None
        beneficiary = _beneficiary(order)
        error = failed.get(beneficiary) or failed.get(order.gang)
        if isinstance(error, Unreachable | TooManyRequests):
            self._wait_for_server(error)
        elif error is not None:
            self._scheduler.not_reserved(beneficiary, error.message, sent_ns, self._at_ns())
        return error

    async def _evict_all(self, orders: list[EvictOrder], decision: str) -> None:
        """Pods of one gang that go for one reason. What is said about it is what happened."""
        gone = sum(await asyncio.gather(*(self._evict(order, decision) for order in orders)))
        self._wake()
        gang, action, beneficiary, over = orders[0].gang, orders[0].action, orders[0].beneficiary, orders[0].over
        if not gone:
            return
        group = self._scheduler.world.groups.get(gang)
        note = eviction_note(gone, action, beneficiary, over)
        self._log.info("pods were evicted", gang="/".join(gang), says=note.text, decision=decision)
        if group is not None:
            self._teller.say(gang_regarding(gang, group.metadata.uid), note, decision)

    async def _evict(self, order: EvictOrder, decision: str) -> bool:
        """Whether it happened, as far as anybody knows."""
        try:
            if order.over:
                await self._delete(order)
            else:
                await self._client.evict(*order.pod, order.uid)
        except ApiError as error:
            if _is_open(error):
                self._scheduler.flights.lost(order.pod, order.uid, error.message)
            else:
                self._log.warning(
                    "an eviction was refused", pod="/".join(order.pod), error=error.message, decision=decision
                )
                self._refused(order, error)
            return False
        self._scheduler.flights.answered(order.pod, order.uid, self._at_ns())
        if order.over:
            about = Regarding(POD.api_version, POD.name, *order.pod, order.uid)
            self._teller.say(about, deletion_note(order.action, order.beneficiary, order.over), decision)
        if self._metrics is not None:
            self._metrics.evictions.labels(order.action).inc()
        return True

    async def _delete(self, order: EvictOrder) -> None:
        """What the eviction API would refuse. Why it goes is written on the pod first, as kube-scheduler does it: a Job
        may count such an end as no failure of its own.
        """
        moment = self._clock.wall().strftime("%Y-%m-%dT%H:%M:%SZ")
        condition = {
            "type": DISRUPTION_TARGET,
            "status": "True",
            "reason": PREEMPTED,
            "message": order.over,
            "lastTransitionTime": moment,
        }
        body = {"metadata": {"uid": order.uid}, "status": {"conditions": [condition]}}
        try:
            await self._client.patch(POD, *order.pod, body, content=STRATEGIC, subresource="status", lane="evict")
        except (Forbidden, Invalid) as error:
            # Annotations may fill a pod so far that no admission policy can read it: that must protect no pod.
            self._log.warning("a pod can't be marked as evicted", pod="/".join(order.pod), error=error.message)
        await self._client.delete(POD, *order.pod, uid=order.uid, lane="evict")

    def _at_ns(self) -> int:
        return int(self._clock.now_s() * _S)


def _is_open(error: ApiError) -> bool:
    """Whether only the pod can tell what happened: done by us or by somebody else, another pod by now, or none."""
    return error.unknown or isinstance(error, Conflict | NotFound)


def _beneficiary(order: EvictOrder) -> Key:
    """The gang that it goes for; one of no name when it goes for nobody."""
    namespace, _, name = (order.beneficiary or "").partition("/")
    return namespace, name
