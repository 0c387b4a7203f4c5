"""The scheduler between its inputs and its outputs: what was seen goes in, what is to be written comes out.

It neither waits nor writes. The loop does both, and so can a simulation.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

from msgspec import structs

from muster.api.cluster import Node, Pod, PodDisruptionBudget, PriorityClass
from muster.api.model import Metadata
from muster.api.podgroup import PodGroup
from muster.api.queue import Queue
from muster.api.topology import Topology
from muster.api.validation.context import Context, Settings
from muster.api.validation.queue import check_queue
from muster.api.validation.violation import ERROR, Report
from muster.controllers.flights import Flights
from muster.decisions import orders
from muster.decisions.orders import BindOrder, EvictOrder, Orders, orders_of
from muster.plan.cycle import Policy, schedule
from muster.plan.memory import Memory
from muster.plan.outcome import Plan
from muster.snapshot.build import Builder
from muster.snapshot.world import DEFAULT_SCHEDULERS, Key, State, World, key_of

_S = 10**9
# After so many refused binds a gang rests; so long at first, twice as long each time, and never longer than that.
_PATIENCE = 3
_FIRST_REST_NS, _LONGEST_REST_NS = 5 * _S, 300 * _S
# A write that no watch has shown for so long is looked up.
_DOUBT_NS = 10 * _S

WATCHED = (Node, Pod, PodGroup, Queue, Topology, PriorityClass, PodDisruptionBudget)


@dataclass
class _Failures:
    """Refused binds of one gang since the last that went well."""

    refused: int = 0
    until_ns: int = 0


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
        self._failures: dict[Key, _Failures] = {}
        self._told = orders.Memory()
        # Pods, by uid, that were seen to go while others are read; None: nobody reads.
        self._gone: set[str] | None = None
        self._identity, self._cycles = identity, 0

    def see(self, found: Any, *, deleted: bool = False) -> bool:
        """An object that came, changed or went. False: it can wait, since nobody can be placed now who could not before.

        Most of what is seen are our own binds and statuses.
        """
        world, key = self.world, key_of(found.metadata)
        if isinstance(found, Pod):
            before = world.pods.get(key)
            if deleted and self._gone is not None:
                self._gone.add(found.metadata.uid)
            if deleted or not self._is_older(found):
                self.flights.see(_slim(found), deleted=deleted)
            after = world.pods.get(key)
            return before is None or after is None or not before.state == after.state == State.PLACED
        if isinstance(found, PodGroup):
            group = world.groups.get(key)
            world.apply(found, deleted=deleted)
            return deleted or group is None or _stated(group) != _stated(found)
        world.apply(found, deleted=deleted, error=self._error_of(found) if isinstance(found, Queue) else "")
        return True

    def unread(self, struct: type, metadata: Metadata, why: str, *, deleted: bool = False) -> None:
        """An object that could not be read: its gang, or its pod, is held, and nobody else."""
        if not metadata.name:
            return
        if struct is Pod:
            self.flights.see(Pod(metadata=metadata), deleted=deleted, error=why)
        elif struct in (PodGroup, Queue):
            self.world.apply(struct(metadata=metadata), deleted=deleted, error=why)

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

    def refresh(self, namespace: str, pods: Iterable[Pod], version: str = "") -> None:
        """All pods of a namespace, read consistently, as they were at `version`: what was seen since then stays."""
        since = {key for key, facts in self.world.pods.items() if _is_after(facts.pod, version)}
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
        for gang, failures in list(self._failures.items()):
            if failures.until_ns and failures.until_ns <= now_ns:
                failures.until_ns = 0
                self.world.rest(gang, "")
        snapshot = self._builder.build(now_ns)
        lap("snapshot")
        self.plan, self._memory = schedule(snapshot, self._policy, self._memory)
        lap("plan")
        self._cycles += 1
        decision = f"{self._identity}-{self._cycles}"
        found = orders_of(self.plan, self.world, self.flights.gangs(), self._told, decision)
        lap("orders")
        return found

    def untold(self, gang: Key) -> None:
        """What the gang was to be told did not reach it: it is told in the next cycle."""
        self._told.gangs.pop(gang, None)

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

    def bound(self, order: BindOrder) -> None:
        """The API server took a bind."""
        self._failures.pop(order.gang, None)
        self.flights.answered(order.pod, order.uid)

    def refused(self, order: BindOrder, why: str, now_ns: int) -> None:
        """The API server did not take a bind. After a few of them the gang rests, so that others go first."""
        self.flights.refused(order.pod, order.uid)
        failures = self._failures.setdefault(order.gang, _Failures())
        failures.refused += 1
        if failures.refused >= _PATIENCE:
            rest_ns = min(_FIRST_REST_NS << min(failures.refused - _PATIENCE, 20), _LONGEST_REST_NS)
            failures.until_ns = now_ns + rest_ns
            self.world.rest(order.gang, why)

    def doubtful(self, now_ns: int) -> list[tuple[Key, str]]:
        """Pods whose writes have no known outcome, with the uid that was meant: somebody has to read them."""
        return [(key, flight.uid) for key, flight in self.flights.doubtful(now_ns - _DOUBT_NS)]

    def wakes_at(self) -> int | None:
        """When something changes by itself: the end of a rest. None: nothing does."""
        ends = [failures.until_ns for failures in self._failures.values() if failures.until_ns]
        return min(ends, default=None)

    def _is_older(self, pod: Pod) -> bool:
        """Whether a later state of the same pod was read already: watches may lag behind what was listed."""
        facts = self.world.pods.get(key_of(pod.metadata))
        if facts is None or facts.pod.metadata.uid != pod.metadata.uid:
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
