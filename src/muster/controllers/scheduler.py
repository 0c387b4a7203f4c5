"""The scheduler between its inputs and its outputs: what was seen goes in, what is to be written comes out.

It neither waits nor writes. The loop does both, and so can a simulation.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, TypeVar

from msgspec import structs

from muster.api.cluster import (
    POD_GROUP_ANNOTATION,
    SUBGROUP_LABEL,
    Namespace,
    Node,
    Pod,
    PodDisruptionBudget,
    PriorityClass,
)
from muster.api.evictionrequest import EvictionRequest
from muster.api.kinds import decode
from muster.api.model import Metadata, Model
from muster.api.native import NativePodGroup
from muster.api.podgroup import PodGroup, PodGroupStatus
from muster.api.priorities import Priorities
from muster.api.queue import Queue, QueueStatus
from muster.api.storage import PersistentVolumeClaim
from muster.api.topology import Topology
from muster.api.validation.context import Context, Settings
from muster.api.validation.queue import check_queue
from muster.api.validation.violation import ERROR, Report
from muster.controllers.certainty import Promises, certain, nominated
from muster.controllers.clocks import end_clocks, keep_clocks
from muster.controllers.flights import Flight, Flights
from muster.controllers.patience import Patience
from muster.controllers.suspects import Search
from muster.controllers.unread import pod_of_unread
from muster.decisions import orders
from muster.decisions.orders import BindOrder, EvictOrder, NominateOrder, Orders, orders_of
from muster.decisions.signals import ACCEPTED, NO_WORDS, Words
from muster.errors import BadObject
from muster.kube.remembering import remember
from muster.kube.resources import is_later
from muster.plan.cycle import Policy, schedule
from muster.plan.memory import Memory
from muster.plan.outcome import Plan
from muster.snapshot.build import Builder
from muster.snapshot.quarantine import GANG, POD, Quarantined, Thing, said_of
from muster.snapshot.queues import Costs
from muster.snapshot.referred import REFERRED
from muster.snapshot.requests import RESIZE_PENDING, is_resize_infeasible, is_resized
from muster.snapshot.world import DEFAULT_SCHEDULERS, Key, PodFacts, State, World, key_of

T = TypeVar("T")
_S = 10**9
# After so many attempts at binds that failed a gang rests. A pod that could not be evicted is left alone at once.
_BIND_ATTEMPTS, _EVICTION_ATTEMPTS = 3, 1
# A write that no watch has shown for so long is looked up.
_DOUBT_NS = 10 * _S
# So many objects that are gone are remembered: a watch that is late may still speak of them.
_MOST_GONE = 20_000
# So many objects that changed since a cycle worked are suspected before all others.
_MOST_LATELY = 10_000

WATCHED = (Node, Pod, PodGroup, Queue, Topology, PriorityClass, PodDisruptionBudget, Namespace)
# Without these the scheduler works all the same: what needs them is held, or treated as if it forbade.
OPTIONAL = (Namespace,)
_NAMESPACED = (PodGroup, PodDisruptionBudget, EvictionRequest, PersistentVolumeClaim, NativePodGroup)


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
        priorities: Priorities | None = None,
        costs: Costs | None = None,
        policy: Policy | None = None,
        identity: str = "0",
    ) -> None:
        self.world = World(schedulers)
        self.flights = Flights(self.world)
        self.plan: Plan | None = None
        self._default_queue, self._settings, self._priorities = default_queue, settings, priorities
        self._costs, self._policy = costs or Costs(), policy or Policy()
        self.start_afresh()
        self._patience: Patience[Key] = Patience(free=_BIND_ATTEMPTS)
        # By pod and uid.
        self._evictions: Patience[tuple[Key, str]] = Patience(free=_EVICTION_ATTEMPTS, longest_s=60)
        self._promises = Promises()
        # Objects on which muster stumbles; those that were told already; and what changed since a cycle worked.
        self._stumbles: Patience[Thing] = Patience(free=1)
        self._known_stumbles: dict[Thing, str] = {}
        self._lately: set[Thing] = set()
        # Objects, by uid, that were seen to go, or read and not found: whatever is still told of them is old.
        self._gone: OrderedDict[str, None] = OrderedDict()
        self._identity, self._cycles = identity, 0
        # The name of the last cycle's decision.
        self.decision = ""

    def start_afresh(self) -> None:
        """Forgets everything that was kept from one cycle to the next; not what was seen, and what was sent."""
        self._builder = Builder(
            self.world,
            default_queue=self._default_queue,
            settings=self._settings,
            priorities=self._priorities,
            costs=self._costs,
        )
        self._memory = Memory()
        self._told = orders.Memory()
        self.world.look_again()

    def see(self, found: Any, *, deleted: bool = False, anew: bool = False) -> bool:
        """An object that came, changed or went. False: that can wait, for nobody can be placed because of it.

        Most of what is seen are our own binds and statuses. What was seen in a later version is passed over, but not
        when all is told `anew`.
        """
        if deleted:
            self._remember_gone(found.metadata.uid)
        elif not anew and found.metadata.uid in self._gone:
            return False
        return self._take(found, deleted=deleted, anew=anew)

    def _remember_gone(self, uid: str) -> None:
        if uid:
            remember(self._gone, uid, None, _MOST_GONE)

    def _take(self, found: Any, *, deleted: bool = False, anew: bool = False) -> bool:
        """A defect of ours that one object meets costs that object its place, and no watch its life."""
        try:
            return self._take_in(found, deleted=deleted, anew=anew)
        except Exception as defect:
            self.world.set_aside(found, said_of(defect), deleted=deleted)
            return True

    def _take_in(self, found: Any, *, deleted: bool, anew: bool) -> bool:
        world, key = self.world, key_of(found.metadata)
        if len(self._lately) < _MOST_LATELY:
            self._lately.update(_suspects(found))
        if not anew and self._is_older(type(found), found.metadata):
            return False
        if isinstance(found, Pod):
            before, was_sent = world.pods.get(key), key in self.flights
            self.flights.see(_slim(found), deleted=deleted)
            after = world.pods.get(key)
            stays = before is not None and after is not None and before.state == after.state == State.PLACED
            if (
                after is not None
                and after.state == State.PLACED
                and (not stays or was_sent or _membership(before) != _membership(after))
            ):
                self._placed(after.gang)
            # A pod that is resized may need less than before.
            return not stays or (before is not None and after is not None and before.request != after.request)
        if isinstance(found, REFERRED):
            return world.refer(found, deleted=deleted)
        if isinstance(found, PodGroup):
            group = world.groups.get(key)
            self._forget_predecessor(found.metadata, deleted=deleted)
            world.apply(found, deleted=deleted)
            return deleted or group is None or _stated(group) != _stated(found)
        returns = isinstance(found, Node) and key[1] not in world.nodes
        world.apply(found, deleted=deleted, error=self._error_of(found) if isinstance(found, Queue) else "")
        if returns and self.plan is not None:
            # Its pods count again.
            for number in self.plan.snapshot.clocked:
                self._placed(self.plan.snapshot.gangs[number].key)
        return True

    def _forget_predecessor(self, metadata: Metadata, *, deleted: bool) -> None:
        """What a gang that is gone has failed at and lost is not what the next one of its name has."""
        key = key_of(metadata)
        known = self.world.groups.get(key)
        if known is not None and (deleted or known.metadata.uid != metadata.uid):
            self._patience.forget(key)
            self.world.rest(key, "")
            self.world.record(key, {})

    def unread(
        self,
        struct: type,
        metadata: Metadata,
        why: str,
        *,
        deleted: bool = False,
        raw: bytes = b"",
        anew: bool = False,
    ) -> bool:
        """An object that could not be read: its gang, or its pod, is held, and nobody else.

        What it was told is taken from its bytes, else it would be told the same for ever; and where a pod is. False:
        nobody is to be told, for it is a pod of another scheduler, gone, or known better.
        """
        if not metadata.name or (not anew and self._is_older(struct, metadata)):
            return False
        if deleted:
            self._remember_gone(metadata.uid)
        elif not anew and metadata.uid in self._gone:
            return False
        try:
            self._take_unread(struct, metadata, why, deleted=deleted, raw=raw)
        except Exception as defect:
            if struct in (Pod, PodGroup, Queue):
                self.world.set_aside(struct(metadata=metadata), said_of(defect), deleted=deleted)
        if struct in REFERRED:
            return False
        facts = self.world.pods.get(key_of(metadata)) if struct is Pod else None
        return not deleted and (facts is None or facts.ours)

    def _take_unread(self, struct: type, metadata: Metadata, why: str, *, deleted: bool, raw: bytes) -> None:
        if struct is Pod:
            before = self.flights.real(key_of(metadata))
            same = before is not None and before.metadata.uid == metadata.uid
            self.flights.see(pod_of_unread(metadata, raw, before if same else None), deleted=deleted, error=why)
        elif struct is PodGroup:
            status = _told_in(raw, _ToldGroup(status=PodGroupStatus())).status
            self._forget_predecessor(metadata, deleted=deleted)
            self.world.apply(PodGroup(metadata=metadata, status=status), deleted=deleted, error=why)
        elif struct is Queue:
            told = _told_in(raw, _ToldQueue(status=QueueStatus())).status
            self.world.apply(Queue(metadata=metadata, status=told), deleted=deleted, error=why)
        elif struct in REFERRED:
            self.world.refer_unread(struct, metadata, why, deleted=deleted)
        elif deleted:
            for one in [one for one in self._known(struct) if key_of(one.metadata) == key_of(metadata)]:
                self._take(one, deleted=True)

    def hide(self, struct: type, why: str = "") -> None:
        """Objects of a kind may not be read, and why; without a reason they may."""
        self.world.hide(struct, why)

    def replace(
        self, struct: type, found: Iterable[Any], unread: Collection[Metadata] = (), *, anew: bool = False
    ) -> None:
        """All objects of a kind, after a list: what is not among them is gone. It may come again: a list may be older
        than what was read.

        `anew`: of a server that is at an earlier version than it was, whose data was restored. It is believed.
        """
        if anew:
            self._gone.clear()
        there = list(found)
        listed = {key_of(one.metadata) for one in there} | {key_of(metadata) for metadata in unread}
        for one in self._known(struct):
            if key_of(one.metadata) not in listed:
                self._take(one, deleted=True)
        for one in there:
            self.see(one, anew=anew)

    def refresh(
        self,
        namespace: str,
        found: Iterable[Any],
        version: str = "",
        unread: Collection[Metadata] = (),
        struct: type = Pod,
    ) -> None:
        """All objects of a kind in a namespace (empty: in all), read consistently, as they were at `version`: what was
        seen since then stays, and so do those that could not be read. Who was seen to go is gone, whatever it says.
        """
        known = [one for one in self._known(struct) if not namespace or key_of(one.metadata)[0] == namespace]
        since = {key_of(one.metadata) for one in known if _is_after(one.metadata, version)}
        since.update(map(key_of, unread))
        there = [one for one in found if one.metadata.uid not in self._gone]
        stay = since | {key_of(one.metadata) for one in there}
        for one in known:
            if key_of(one.metadata) not in stay:
                self.see(one, deleted=True)
        for one in there:
            if key_of(one.metadata) not in since:
                self.see(one)

    def cycle(
        self,
        now_ns: int,
        lap: Callable[[str], None] = lambda _: None,
        at_ns: int | None = None,
        words: Words = NO_WORDS,
    ) -> Orders:
        """One cycle over what was seen so far: what is to be written. `lap` is told when each of its steps is done.

        `now_ns` is the time that people read; `at_ns` the one that never goes back, as everywhere else here. `words`
        are on their way to pods.
        """
        at_ns = now_ns if at_ns is None else at_ns
        for gang in self._patience.rested(at_ns):
            self.world.rest(gang, "")
        self._evictions.rested(at_ns)
        pods = self.world.pods
        self.world.leave_alone(
            key for key, uid in self._evictions.resting(at_ns) if key in pods and pods[key].pod.metadata.uid == uid
        )
        for thing in self._stumbles.rested(at_ns):
            self._lately.add(thing)
            self._known_stumbles.pop(thing, None)
            self.world.take_back(thing)
        snapshot = self._builder.build(now_ns)
        lap("snapshot")
        self.plan, self._memory = schedule(snapshot, self._policy, self._memory)
        for number, what in self.plan.defects.items():
            self.world.leave_out(Thing(GANG, *snapshot.gangs[number].key), Quarantined(what, unknown=False))
        keep_clocks(self.plan, self.world, self.flights.unsure(), self.flights.gangs())
        lap("plan")
        self._cycles += 1
        self.decision = f"{self._identity}-{self._cycles}"
        found = orders_of(self.plan, self.world, self.flights.gangs(), self._told, self.decision, words)
        lap("orders")
        orders = certain(found, self.plan, self.world, self.flights, self._promises)
        for answer in found.answers:
            if answer not in orders.answers:
                self.unanswered(answer.request)
        self._lately.clear()
        return orders

    def stumbled(self, now_ns: int) -> list[tuple[Thing, str]]:
        """The objects on which muster stumbled since this was last asked. Each rests, ever longer, before it is tried
        again.
        """
        quarantine = self.world.quarantine
        for thing in self._known_stumbles.keys() - quarantine.keys():
            del self._known_stumbles[thing]
        new = [(thing, entry.why) for thing, entry in quarantine.items() if thing not in self._known_stumbles]
        for thing, why in new:
            self._known_stumbles[thing] = why
            self._stumbles.failed(thing, now_ns, now_ns)
        return new

    def search(self, now_ns: int, why: str) -> Search:
        """The trials that find the objects on which a cycle failed."""

        def works(world: World) -> bool:
            builder = Builder(
                world,
                default_queue=self._default_queue,
                settings=self._settings,
                priorities=self._priorities,
                costs=self._costs,
            )
            try:
                plan, _ = schedule(builder.build(now_ns), self._policy)
                keep_clocks(plan, world, (), ())
                orders_of(plan, world)
            except Exception:
                return False
            return True

        return Search(self.world.copy(), works, why, self._lately)

    def leave_out(self, things: Iterable[Thing], why: str) -> None:
        """These objects were found to be those on which cycles fail."""
        for thing in things:
            self.world.leave_out(thing, Quarantined(why, searched=True))

    def unsaid(self, found: Orders) -> None:
        """These orders are not carried out: what they would have told is told in the next cycle."""
        for status in found.statuses:
            self.untold(status.gang)
        for signal in found.signals:
            self.untold(signal.gang)
        for queue in found.queues:
            self.untold_queue(queue.queue)
        for answer in found.answers:
            self.unanswered(answer.request)

    def untold(self, gang: Key) -> None:
        """What the gang, or a pod of it, was to be told did not reach it: it is told in the next cycle."""
        self._told.untold(gang)

    def untold_queue(self, queue: str) -> None:
        """What the queue was to be told did not reach it: it is told in the next cycle."""
        self._told.queues.pop(queue, None)

    def unanswered(self, request: Key) -> None:
        """What the request was to be answered did not reach it: it is answered in the next cycle."""
        self._told.answers.pop(request, None)

    def sent(self, orders: Iterable[BindOrder | EvictOrder], now_ns: int) -> None:
        """These are about to be written: from now on they count."""
        for order in orders:
            if isinstance(order, BindOrder):
                self.flights.bind(order.pod, order.node, now_ns, order.mark)
            else:
                self.flights.leave(order.pod, now_ns)
                self._promises.take(order)

    def promised(self, gangs: Collection[Key]) -> list[NominateOrder]:
        """The waiting pods of these gangs for which the last plan has room that others are to leave."""
        found = []
        assert self.plan is not None
        for pod, node in nominated(self.plan).items():
            facts = self.world.pods[pod]
            if facts.gang in gangs and facts.gang is not None and facts.state is State.WAITING:
                found.append(NominateOrder(facts.gang, pod, facts.pod.metadata.uid, node))
        return found

    def overtaken(self, promised: Iterable[NominateOrder]) -> set[Key]:
        """The gangs of which a pod that was meant is gone by now, goes elsewhere or has no room any more by what was
        planned since; or has other room reserved, for plans may come back to what they were when that is written.

        Nobody is to leave for such a gang before it was looked at again.
        """
        assert self.plan is not None
        still = nominated(self.plan)
        return {one.gang for one in promised if still.get(one.pod) != one.node or not self._stands(one)}

    def _stands(self, promise: NominateOrder) -> bool:
        facts = self.world.pods.get(promise.pod)
        if facts is None or facts.pod.metadata.uid != promise.uid or facts.state is not State.WAITING:
            return False
        return facts.pod.status.nominated_node_name == promise.node

    def bound(self, order: BindOrder, now_ns: int | None = None) -> None:
        """The API server took a bind."""
        self._patience.succeeded(order.gang)
        self.flights.answered(order.pod, order.uid, now_ns)
        self._placed(order.gang)

    def _placed(self, gang: Key | None) -> None:
        """A pod of the gang has its node."""
        if self.plan is not None and gang is not None:
            end_clocks(self.plan, self.world, gang, self.flights.unsure)

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

    def not_reserved(self, gang: Key, why: str, sent_ns: int, now_ns: int) -> None:
        """Room could not be reserved for a gang, so nobody goes for it. After a few attempts it rests."""
        if self._patience.failed(gang, sent_ns, now_ns):
            self.world.rest(gang, f"room could not be reserved: {why}")

    def read(self, key: Key, uid: str, pod: Pod | None, now_ns: int) -> None:
        """A doubtful pod was read; None: it is gone. What did not happen was refused, whatever the answer was.

        When something later was seen meanwhile, that is what counts, and the pod is in doubt as it was.
        """
        if pod is not None and self._is_older(Pod, pod.metadata):
            return
        if pod is None or pod.metadata.uid != uid:
            self._remember_gone(uid)
        flight = self.flights.read(key, uid, None if pod is None else _slim(pod))
        facts = self.world.pods.get(key)
        if facts is not None and facts.state is State.PLACED:
            self._placed(facts.gang)
        if flight is not None and flight.unknown:
            self._failed(flight, flight.why, now_ns)

    def _failed(self, flight: Flight, why: str, now_ns: int) -> None:
        if not flight.node:
            self._evictions.failed((key_of(flight.real.metadata), flight.uid), flight.sent_ns, now_ns)
        elif flight.gang is not None and self._patience.failed(flight.gang, flight.sent_ns, now_ns):
            self.world.rest(flight.gang, why or "no answer")

    def doubtful(self, now_ns: int) -> list[tuple[Key, str]]:
        """Pods whose writes have no known outcome, with the uid that was meant: somebody has to read them."""
        return [(key, flight.uid) for key, flight in self.flights.doubtful(now_ns - _DOUBT_NS)]

    def _is_older(self, struct: type, metadata: Metadata) -> bool:
        """Whether a later state of it, or a later object of that name, was read already: watches may lag behind."""
        key = key_of(metadata)
        if struct is Pod:
            facts = self.world.pods.get(key)
            known: Any = facts.pod if facts is not None else None
        else:
            kept = self._kept(struct)
            known = kept.get(key if struct in _NAMESPACED else metadata.name)
        return known is not None and _is_after(known.metadata, metadata.resource_version)

    def _error_of(self, queue: Queue) -> str:
        report = Report([])
        check_queue(queue, report, Context())
        errors = [one for one in report.violations if one.severity == ERROR and one.path != "spec.parentQueue"]
        return f"{errors[0].path} {errors[0].message}".strip() if errors else ""

    def _known(self, struct: type) -> list[Any]:
        if struct is Pod:
            return [facts.pod for facts in self.world.pods.values()]
        return list(self._kept(struct).values())

    def _kept(self, struct: type) -> dict[Any, Any]:
        world = self.world
        if struct in REFERRED:
            return world.referred.kept(struct)
        kept: dict[type, dict[Any, Any]] = {
            Node: world.nodes,
            PodGroup: world.groups,
            Queue: world.queues,
            Topology: world.topologies,
            PriorityClass: world.priority_classes,
            PodDisruptionBudget: world.budgets,
            Namespace: world.namespaces,
            EvictionRequest: world.requests,
        }
        return kept[struct]


def _suspects(found: Any) -> Iterator[Thing]:
    """What may be left out because of an object that was seen."""
    name, namespace = found.metadata.name, key_of(found.metadata)[0]
    if isinstance(found, Pod):
        gang = found.metadata.annotations.get(POD_GROUP_ANNOTATION, "")
        if gang:
            yield Thing(GANG, namespace, gang)
        yield Thing(POD, namespace, name)
    elif isinstance(found, _NAMESPACED):
        yield Thing(type(found).__name__, namespace, name)
    else:
        yield Thing(type(found).__name__, "", name)


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


def _membership(facts: PodFacts | None) -> tuple[Any, ...]:
    """The gang of a pod, and its place in there."""
    return () if facts is None else (facts.gang, facts.pod.metadata.labels.get(SUBGROUP_LABEL))


def _is_after(metadata: Metadata, version: str) -> bool:
    """Whether an object was seen in a state that a reading of this version can't know."""
    return is_later(metadata.resource_version, version)


def _slim(pod: Pod) -> Pod:
    """Without what nobody asks of a pod that has its place: there are many of them."""
    status = pod.status
    if pod.spec.node_name and status.conditions:
        infeasible = is_resize_infeasible(pod)
        kept = [one for one in status.conditions if one.type == ACCEPTED or (infeasible and one.type == RESIZE_PENDING)]
        status = structs.replace(status, conditions=kept)
    if (status.container_statuses or status.init_container_statuses) and not is_resized(pod):
        status = structs.replace(status, container_statuses=[], init_container_statuses=[])
    return structs.replace(pod, status=status) if status is not pod.status else pod
