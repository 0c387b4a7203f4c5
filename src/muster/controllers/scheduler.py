"""The scheduler between its inputs and its outputs: what was seen goes in, what is to be written comes out.

It neither waits nor writes. The loop does both, and so can a simulation.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Any, TypeVar

from msgspec import structs

from muster.api.cluster import Node, Pod, PodDisruptionBudget, PriorityClass
from muster.api.kinds import decode
from muster.api.model import Metadata, Model
from muster.api.podgroup import PodGroup, PodGroupStatus
from muster.api.queue import Queue, QueueStatus
from muster.api.topology import Topology
from muster.api.validation.context import Context, Settings
from muster.api.validation.queue import check_queue
from muster.api.validation.violation import ERROR, Report
from muster.controllers.flights import Flight, Flights
from muster.controllers.patience import Patience
from muster.decisions import orders
from muster.decisions.orders import BindOrder, EvictOrder, Orders, orders_of
from muster.errors import BadObject
from muster.plan.cycle import Policy, schedule
from muster.plan.memory import Memory
from muster.plan.outcome import Plan
from muster.snapshot.build import Builder
from muster.snapshot.world import DEFAULT_SCHEDULERS, Key, State, World, key_of

T = TypeVar("T")
_S = 10**9
# After so many attempts at binds that failed a gang rests. A pod that could not be evicted is left alone at once.
_BIND_ATTEMPTS, _EVICTION_ATTEMPTS = 3, 1
# A write that no watch has shown for so long is looked up.
_DOUBT_NS = 10 * _S

WATCHED = (Node, Pod, PodGroup, Queue, Topology, PriorityClass, PodDisruptionBudget)


class Scheduler:
    """A world that is kept up to date, and the plan of the last cycle.

    `identity` is what the names of decisions begin with: that of the process, so that no two are the same.
    """

    def __init__(
        self,
        *,
        schedulers: Collection[str] = DEFAULT_SCHEDULERS,
        default_queue: str = "default-queue",
        settings: Settings | None = None,
        policy: Policy | None = None,
        identity: str = "0",
    ) -> None:
        self.world = World(schedulers)
        self.flights = Flights(self.world)
        self.plan: Plan | None = None
        self._builder = Builder(self.world, default_queue=default_queue, settings=settings)
        self._policy = policy or Policy()
        self._memory = Memory()
        self._patience: Patience[Key] = Patience(free=_BIND_ATTEMPTS)
        # By the uid of the pod.
        self._evictions: Patience[str] = Patience(free=_EVICTION_ATTEMPTS, longest_s=60)
        self._told = orders.Memory()
        # Pods, by uid, that were seen to go while others are read; None: nobody reads.
        self._gone: set[str] | None = None
        self._identity, self._cycles = identity, 0

    def see(self, found: Any, *, deleted: bool = False) -> bool:
        """An object that came, changed or went. False: that can wait, for nobody can be placed because of it.

        Most of what is seen are our own binds and statuses.
        """
        world, key = self.world, key_of(found.metadata)
        if isinstance(found, Pod):
            before = world.pods.get(key)
            if deleted and self._gone is not None:
                self._gone.add(found.metadata.uid)
            if not self._is_older(found):
                self.flights.see(_slim(found), deleted=deleted)
            after = world.pods.get(key)
            return before is None or after is None or not before.state == after.state == State.PLACED
        if isinstance(found, PodGroup):
            group = world.groups.get(key)
            world.apply(found, deleted=deleted)
            return deleted or group is None or _stated(group) != _stated(found)
        world.apply(found, deleted=deleted, error=self._error_of(found) if isinstance(found, Queue) else "")
        return True

    def unread(self, struct: type, metadata: Metadata, why: str, *, deleted: bool = False, raw: bytes = b"") -> None:
        """An object that could not be read: its gang, or its pod, is held, and nobody else.

        What it was told is taken from its bytes: else it would be told the same for ever.
        """
        if not metadata.name:
            return
        if struct is Pod:
            self.flights.see(Pod(metadata=metadata), deleted=deleted, error=why)
        elif struct is PodGroup:
            status = _told_in(raw, _ToldGroup(status=PodGroupStatus())).status
            self.world.apply(PodGroup(metadata=metadata, status=status), deleted=deleted, error=why)
        elif struct is Queue:
            told = _told_in(raw, _ToldQueue(status=QueueStatus())).status
            self.world.apply(Queue(metadata=metadata, status=told), deleted=deleted, error=why)

    def replace(self, struct: type, found: Iterable[Any], unread: Collection[Metadata] = ()) -> None:
        """All objects of a kind, after a list: what is not among them is gone."""
        there = list(found)
        listed = {key_of(one.metadata) for one in there} | {key_of(metadata) for metadata in unread}
        for one in self._known(struct):
            if key_of(one.metadata) not in listed:
                self.see(one, deleted=True)
        for one in there:
            self.see(one)

    def reading(self) -> None:
        """A namespace is about to be read: who is seen to go from now on is gone, whatever the reading says."""
        self._gone = set()

    def refresh(
        self, namespace: str, pods: Iterable[Pod], version: str = "", unread: Collection[Metadata] = ()
    ) -> None:
        """All pods of a namespace, read consistently, as they were at `version`: what was seen since then stays, and
        so do those that could not be read.
        """
        since = {key for key, facts in self.world.pods.items() if _is_after(facts.pod, version)}
        since.update(map(key_of, unread))
        there = [pod for pod in pods if pod.metadata.uid not in (self._gone or ())]
        listed = {key_of(pod.metadata) for pod in there}
        for key, facts in list(self.world.pods.items()):
            if key[0] == namespace and key not in listed and key not in since:
                self.flights.see(facts.pod, deleted=True)
        for pod in there:
            if key_of(pod.metadata) not in since and not self._is_older(pod):
                self.flights.see(_slim(pod))
        self._gone = None

    def cycle(self, now_ns: int, lap: Callable[[str], None] = lambda _: None) -> Orders:
        """One cycle over what was seen so far: what is to be written. `lap` is told when each of its steps is done."""
        for gang in self._patience.rested(now_ns):
            self.world.rest(gang, "")
        self._evictions.rested(now_ns)
        snapshot = self._builder.build(now_ns)
        lap("snapshot")
        self.plan, self._memory = schedule(snapshot, self._policy, self._memory)
        lap("plan")
        self._cycles += 1
        decision = f"{self._identity}-{self._cycles}"
        found = orders_of(self.plan, self.world, self.flights.gangs(), self._told, decision)
        lap("orders")
        return self._without_resting(found, now_ns)

    def _without_resting(self, found: Orders, now_ns: int) -> Orders:
        """Without evictions of pods that can't be evicted now, and of others that would go for the same gain."""

        def gain(order: EvictOrder) -> Any:
            return order.beneficiary or order.gang

        vain = {gain(order) for order in found.evictions if self._evictions.rests(order.uid, now_ns)}
        return found._replace(evictions=tuple(order for order in found.evictions if gain(order) not in vain))

    def unsaid(self, found: Orders) -> None:
        """These orders are not carried out: what they would have told is told in the next cycle."""
        for status in found.statuses:
            self.untold(status.gang)
        for signal in found.signals:
            self.untold(signal.gang, signal.signal.pod)
        for queue in found.queues:
            self.untold_queue(queue.queue)

    def untold(self, gang: Key, pod: Key | None = None) -> None:
        """What the gang, or a pod of it, was to be told did not reach it: it is told in the next cycle."""
        self._told.untold(gang, pod)

    def untold_queue(self, queue: str) -> None:
        """What the queue was to be told did not reach it: it is told in the next cycle."""
        self._told.queues.pop(queue, None)

    def sent(self, orders: Iterable[BindOrder | EvictOrder], now_ns: int) -> None:
        """These are about to be written: from now on they count."""
        for order in orders:
            if isinstance(order, BindOrder):
                self.flights.bind(order.pod, order.node, now_ns)
            else:
                self.flights.leave(order.pod, now_ns)

    def bound(self, order: BindOrder, now_ns: int | None = None) -> None:
        """The API server took a bind."""
        self._patience.succeeded(order.gang)
        self.flights.answered(order.pod, order.uid, now_ns)

    def refused(self, order: BindOrder | EvictOrder, why: str, now_ns: int) -> None:
        """The API server did not take a bind or an eviction. After a few of them the gang rests, or the pod is left
        alone, so that others go first.
        """
        flight = self.flights.refused(order.pod, order.uid)
        if flight is not None:
            self._failed(flight, why, now_ns)

    def put_off(self, order: BindOrder | EvictOrder) -> None:
        """It was not sent, or is to be sent later, for a reason that has nothing to do with the pod."""
        self.flights.refused(order.pod, order.uid)

    def read(self, key: Key, uid: str, pod: Pod | None, now_ns: int) -> None:
        """A doubtful pod was read; None: it is gone. What did not happen was refused, whatever the answer was."""
        flight = self.flights.read(key, uid, None if pod is None else _slim(pod))
        if flight is not None and flight.unknown:
            self._failed(flight, flight.why, now_ns)

    def _failed(self, flight: Flight, why: str, now_ns: int) -> None:
        if not flight.node:
            self._evictions.failed(flight.uid, flight.sent_ns, now_ns)
        elif flight.gang is not None and self._patience.failed(flight.gang, flight.sent_ns, now_ns):
            self.world.rest(flight.gang, why or "no answer")

    def doubtful(self, now_ns: int) -> list[tuple[Key, str]]:
        """Pods whose writes have no known outcome, with the uid that was meant: somebody has to read them."""
        return [(key, flight.uid) for key, flight in self.flights.doubtful(now_ns - _DOUBT_NS)]

    def wakes_at(self) -> int | None:
        """When something changes by itself: the end of a rest. None: nothing does."""
        return self._patience.next_ns

    def _is_older(self, pod: Pod) -> bool:
        """Whether a later state of it, or a later pod of that name, was read already: watches may lag behind."""
        facts = self.world.pods.get(key_of(pod.metadata))
        if facts is None:
            return False
        here, there = facts.pod.metadata.resource_version, pod.metadata.resource_version
        return here.isdigit() and there.isdigit() and int(there) < int(here)

    def _error_of(self, queue: Queue) -> str:
        report = Report([])
        check_queue(queue, report, Context())
        errors = [one for one in report.violations if one.severity == ERROR and one.path != "spec.parentQueue"]
        return f"{errors[0].path} {errors[0].message}".strip() if errors else ""

    def _known(self, struct: type) -> list[Any]:
        world = self.world
        if struct is Pod:
            return [facts.pod for facts in world.pods.values()]
        kept: dict[type, dict[Any, Any]] = {
            Node: world.nodes,
            PodGroup: world.groups,
            Queue: world.queues,
            Topology: world.topologies,
            PriorityClass: world.priority_classes,
            PodDisruptionBudget: world.budgets,
        }
        return list(kept[struct].values())


class _ToldGroup(Model, frozen=True, kw_only=True):
    status: PodGroupStatus = PodGroupStatus()


class _ToldQueue(Model, frozen=True, kw_only=True):
    status: QueueStatus = QueueStatus()


def _told_in(raw: bytes, nothing: T) -> T:
    """What stands in the status of an object of which other parts can't be read."""
    try:
        return decode(raw, type(nothing)) if raw else nothing
    except BadObject:
        return nothing


def _stated(group: PodGroup) -> tuple[Any, ...]:
    """What people say in a PodGroup; its status is ours."""
    return group.spec, group.metadata.annotations, group.metadata.labels


def _is_after(pod: Pod, version: str) -> bool:
    """Whether a pod was seen in a state that a reading of this version can't know."""
    seen = pod.metadata.resource_version
    return seen.isdigit() and version.isdigit() and int(seen) > int(version)


def _slim(pod: Pod) -> Pod:
    """Without what nobody asks of a pod that has its place: there are many of them."""
    if not pod.spec.node_name or not pod.status.conditions:
        return pod
    return structs.replace(pod, status=structs.replace(pod.status, conditions=[]))
