"""The mirror of watched objects. `apply` takes one event and keeps what depends on it; nothing is ever recounted."""

import enum
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

from msgspec import structs

from muster.api.admitted import Mark, mark_of
from muster.api.cluster import POD_GROUP_ANNOTATION, Namespace, Node, Pod, PodDisruptionBudget, PriorityClass
from muster.api.evictionrequest import EvictionRequest
from muster.api.model import Metadata
from muster.api.podgroup import KEPT_ROOM_ANNOTATION, PodGroup, SubGroupStatus
from muster.api.priorities import MAX_PRIORITY_ANNOTATION
from muster.api.quantity import base_units, held_units
from muster.api.queue import ALLOWED_NAMESPACES_ANNOTATION, Queue
from muster.api.topology import Topology
from muster.errors import BadObject
from muster.snapshot.arrays import Recorded
from muster.snapshot.ports import Port, PortIndex
from muster.snapshot.quarantine import BUDGET, GANG, NODE, POD, Quarantined, Thing, said_of, told_of
from muster.snapshot.referred import NO_REFERENCES, REFERRED, References, Referred, references_of
from muster.snapshot.requests import (
    LARGEST,
    PODS,
    Request,
    held_request_of,
    is_resize_infeasible,
    is_resized,
    request_of,
    unsupported_annotations,
)
from muster.snapshot.room import HELD, OTHERS, RELEASING, Room
from muster.snapshot.selectors import is_ready
from muster.snapshot.templates import Templates, shape_of
from muster.snapshot.terms import Carrier, Carriers, Term, terms_of

Key = tuple[str, str]
DEFAULT_NAMESPACE = "default"
DEFAULT_SCHEDULERS = frozenset({"kai-scheduler"})
# A node that does not say how many pods it takes.
_DEFAULT_PODS = 110
# What a pod holds that has a node and of which nobody knows what it asks for: nobody else fits there.
_EVERYTHING, _UNKNOWN = {PODS: 2**32}, b"?"


class State(enum.IntEnum):
    """What a pod is doing, as far as placement goes."""

    WAITING = 0
    GATED = 1
    PLACED = 2
    TERMINATING = 3
    SUCCEEDED = 4
    FAILED = 5


class PodFacts(NamedTuple):
    """A pod, reduced to what placement asks of it once; `problem` says why it can't be placed at all."""

    pod: Pod
    state: State
    ours: bool
    gang: Key | None
    request: Request
    shape: bytes
    ports: tuple[Port, ...]
    problem: str
    unsupported: tuple[str, ...]
    # What it would only like of other pods: passed over.
    wishes: tuple[str, ...] = ()
    # It holds what another pod of its template would not ask for.
    resized: bool = False
    # Its required anti-affinity, where that keeps others away: it has a node, or one is nominated for it.
    terms: tuple[Term, ...] = ()
    # The objects that decide whether and where it may go.
    refers: References = NO_REFERENCES
    # The queue that it is charged to, and the gang that it was bound for.
    mark: Mark | None = None

    @property
    def holds(self) -> bool:
        """Whether it has room on a node."""
        return bool(self.pod.spec.node_name) and self.state in (State.PLACED, State.TERMINATING)

    def is_of(self, uid: str, *, asks_for_marks: bool) -> bool:
        """Whether it is a pod of the gang with this UID that it says it is of: it waits, or was bound for that gang.

        Files are believed: a gang without a UID takes every mark, and a bound pod needs none.
        """
        if not self.pod.spec.node_name:
            return True
        return not asks_for_marks if self.mark is None else uid in ("", self.mark.uid)


class Listener(Protocol):
    """Who wants to know at once when pods change, and when PodGroups come and go."""

    def pod_changed(self, before: PodFacts | None, now: PodFacts | None) -> None:
        """A pod as it was and as it is; None: it was not there, or is gone."""
        ...

    def group_changed(self, key: Key, *, there: bool) -> None:
        """A PodGroup came, or went."""
        ...


class World:
    """Nodes, pods and the objects that say what becomes of them, by key; and which gangs changed since last asked."""

    def __init__(self, schedulers: Collection[str] = DEFAULT_SCHEDULERS) -> None:
        self._schedulers = frozenset(schedulers)
        self._templates = Templates()
        self.nodes: dict[str, Node] = {}
        self.pods: dict[Key, PodFacts] = {}
        self.groups: dict[Key, PodGroup] = {}
        self.topologies: dict[str, Topology] = {}
        self.queues: dict[str, Queue] = {}
        # Queues that were read with errors, with the first of them.
        self.invalid_queues: dict[str, str] = {}
        # How often the queues changed, their status aside.
        self.queue_changes = 0
        self.priority_classes: dict[str, PriorityClass] = {}
        self.budgets: dict[Key, PodDisruptionBudget] = {}
        # Labels of namespaces, and how often any of them changed.
        self.namespaces: dict[str, Namespace] = {}
        self.namespace_changes = 0
        # Kinds of which objects may not be read, and why.
        self.hidden: dict[type, str] = {}
        self.requests: dict[Key, EvictionRequest] = {}
        # `_is_torn`: a change of these has begun and has not ended.
        self.room, self.carriers, self._is_torn = Room(), Carriers(), False
        # What pods refer to: claims, PodGroups of Kubernetes, classes of devices.
        self.referred = Referred()
        # PodGroups that were read with errors, with the first of them.
        self.invalid: dict[Key, str] = {}
        # Gangs that are not tried for a while, because binding them failed again and again; with the reason.
        self.resting: dict[Key, str] = {}
        # Tree nodes, by gang and name, of which more is known than the gang's status says.
        self.recorded: dict[Key, Mapping[str, Recorded]] = {}
        # Tree nodes, by gang and name, that are no longer joined, with the rows of a status that says that they are.
        self._parted: dict[Key, tuple[Sequence[SubGroupStatus], frozenset[str]]] = {}
        # Pods that could not be evicted a while ago, and those with a node that can't be read: nobody evicts them.
        self.left_alone: set[Key] = set()
        # Whether pods may be deleted: a Queue may ask that those who go do so whatever disruption budgets say.
        self.may_delete = True
        self.unread: set[Key] = set()
        # PodGroups that have room kept for moved pods, or say so where it is not believed, and waiting pods that have
        # room reserved.
        self.keeping: set[Key] = set()
        self.nominated: set[Key] = set()
        # Pods of other schedulers that wait for a node which is nominated for them.
        self.promised: dict[Key, PodFacts] = {}
        # Pods that hold ports of their node.
        self.ported: dict[Key, PodFacts] = {}
        self.ports: PortIndex[Key] = PortIndex()
        # Whether a bound pod without a mark was bound by something else; files, and what ran before, are believed.
        self.asks_for_marks = False
        # Marks, by pod and UID, that are on their way to pods which were bound without one.
        self._adopted: dict[tuple[Key, str], Mark] = {}
        # Bound pods with a mark of which no gang counts: only their queues do.
        self.strays: set[Key] = set()
        # Pods by gang, and gangs touched by an event since `take_changes`.
        self.members: dict[Key, dict[Key, PodFacts]] = {}
        self._changed: set[Key] = set()
        self._nodes_changed = True
        self.listener: Listener | None = None
        self.quarantine: dict[Thing, Quarantined] = {}
        # Namespaces in which other pods than before count in disruption budgets.
        self._guarded_anew: set[str] = set()

    def copy(self) -> "World":
        """A world of its own with the same objects: what is applied to one is nothing to the other. Nobody listens to
        it, and everything in it counts as changed.
        """
        other = World(self._schedulers)
        names = ("nodes", "pods", "groups", "topologies", "queues", "invalid_queues", "priority_classes")
        for name in (*names, "namespaces", "hidden", "promised"):
            setattr(other, name, dict(getattr(self, name)))
        other.requests = dict(self.requests)
        other.budgets, other.invalid, other.resting = dict(self.budgets), dict(self.invalid), dict(self.resting)
        other._parted = dict(self._parted)
        other.recorded, other.keeping, other.nominated = dict(self.recorded), set(self.keeping), set(self.nominated)
        other.left_alone, other.unread, other.ported = set(self.left_alone), set(self.unread), dict(self.ported)
        for key, facts in self.ported.items():
            other.ports.add(key, facts.ports)
        other.members = {gang: dict(pods) for gang, pods in self.members.items()}
        other.room, other.queue_changes, other.may_delete = self.room.copy(), self.queue_changes, self.may_delete
        other.carriers, other.namespace_changes = self.carriers.copy(), self.namespace_changes
        other.referred = self.referred.copy()
        other.asks_for_marks, other._adopted, other.strays = self.asks_for_marks, dict(self._adopted), set(self.strays)
        other.quarantine = dict(self.quarantine)
        other.look_again()
        return other

    def apply(self, found: Any, *, deleted: bool = False, error: str = "") -> None:
        """An object that came, changed or went. Kinds that nobody asks about are not kept.

        `error` is what a PodGroup or a pod was read with: such a gang, or pod, is not tried. A defect of ours costs
        this object its place, and no other.
        """
        thing = Thing(type(found).__name__, *_place_of(found))
        entry = self.quarantine.get(thing)
        if entry is not None and entry.searched and isinstance(found, Pod) and not deleted:
            # It stays hidden until it is tried again, however often its author writes it.
            self._swap(key_of(found.metadata), self._hidden(found, entry.why))
            return
        try:
            self._apply(found, deleted=deleted, error=error)
        except Exception as defect:
            self.set_aside(found, said_of(defect), deleted=deleted)
            return
        if entry is not None and (deleted or not entry.searched) and thing.kind != GANG:
            self.quarantine.pop(thing, None)

    def set_aside(self, found: Any, why: str, *, deleted: bool = False) -> None:
        """An object on which muster stumbles. Of a pod, what it holds stays held."""
        thing, key = Thing(type(found).__name__, *_place_of(found)), key_of(found.metadata)
        if self._is_torn:
            self._recount()
        if isinstance(found, Pod):
            self._swap(key, None if deleted else self._unknown(found, why))
        else:
            kept: dict[type, tuple[dict[Any, Any], Any]] = {
                PodGroup: (self.groups, key),
                Node: (self.nodes, thing.name),
                Queue: (self.queues, thing.name),
                Topology: (self.topologies, thing.name),
                PriorityClass: (self.priority_classes, thing.name),
                PodDisruptionBudget: (self.budgets, key),
            }
            if type(found) in kept:
                objects, name = kept[type(found)]
                _keep(objects, name, found, deleted)
        if isinstance(found, Node):
            self.room.set(thing.name, {})
        if deleted:
            self.quarantine.pop(thing, None)
        else:
            self.quarantine[thing] = Quarantined(why)
        self._touch(thing)

    def leave_out(self, thing: Thing, entry: Quarantined) -> None:
        """An object that was found to be one on which muster stumbles."""
        self.quarantine[thing] = entry
        if thing.kind == POD and (thing.namespace, thing.name) in self.pods:
            self.hide_pod((thing.namespace, thing.name), entry.why)
        self._touch(thing)

    def hide_pod(self, key: Key, why: str) -> PodFacts:
        """Uses nothing of a pod but where it is and what it asks for; gives what was known of it.

        Its terms bind no other: what can't be planned with can't be honoured.
        """
        before = self.pods[key]
        self._swap(key, self._hidden(before.pod, why))
        return before

    def _hidden(self, pod: Pod, why: str) -> PodFacts:
        return self._unknown(pod, why)._replace(terms=())

    def show_pod(self, key: Key, facts: PodFacts) -> None:
        """A hidden pod is known as before."""
        self._swap(key, facts)

    @property
    def pods_beside_gangs(self) -> set[Key]:
        """The pods that are looked at one by one: for what they forbid, hold or are charged, whatever their gang."""
        return {*self.carriers.pods, *self.promised, *self.strays, *self.ported}

    def take_back(self, thing: Thing) -> None:
        """It is tried again."""
        key = (thing.namespace, thing.name)
        if self.quarantine.pop(thing, None) is None:
            return
        if thing.kind == POD and key in self.pods:
            self.apply(self.pods[key].pod)
        elif thing.kind == NODE and thing.name in self.nodes:
            self.apply(self.nodes[thing.name])
        self._touch(thing)

    def _touch(self, thing: Thing) -> None:
        """All that depends on an object is looked at again."""
        if thing.kind == GANG:
            self._changed.add((thing.namespace, thing.name))
        elif thing.kind == BUDGET:
            self._guarded_anew.add(thing.namespace)
        elif thing.kind != POD:
            self.queue_changes += 1
            self.look_again()

    def _recount(self) -> None:
        """The room from the pods alone: adding one to it was not completed."""
        self.room, self.ported, self.ports = Room(), {}, PortIndex()
        for name, node in self.nodes.items():
            known = Thing(NODE, "", name) not in self.quarantine
            self.room.set(name, allocatable_of(node) if known else {})
        self.carriers = Carriers()
        for facts in self.pods.values():
            self._hold(facts, 1)
        self._is_torn = False
        self.look_again()

    def _unknown(self, pod: Pod, why: str) -> PodFacts:
        """A pod of which no more is known than where it is, and what it asks for if that can be said."""
        ours, gang = self._whose(pod)
        try:
            request = request_of(pod.spec)
        except Exception:
            request = _EVERYTHING
        terms: tuple[Term, ...] = ()
        mark: Mark | None = None
        with suppress(Exception):
            mark = self._mark_of(pod)
        with suppress(Exception):
            terms = terms_of(pod, key_of(pod.metadata)[0])
        problem, shape = told_of(Quarantined(why)), _UNKNOWN + repr(sorted(request.items())).encode()
        return PodFacts(pod, state_of(pod), ours, gang, request, shape, (), problem, (), terms=terms, mark=mark)

    def _apply(self, found: Any, *, deleted: bool, error: str) -> None:
        if isinstance(found, Pod):
            self._apply_pod(key_of(found.metadata), None if deleted else found, error)
        elif isinstance(found, Node):
            self._apply_node(found, deleted)
        elif isinstance(found, PodGroup):
            self._apply_group(key_of(found.metadata), found, deleted, error)
        elif isinstance(found, PodDisruptionBudget):
            self._apply_budget(key_of(found.metadata), found, deleted)
        elif isinstance(found, Namespace):
            self._apply_namespace(found, deleted)
        elif isinstance(found, Queue):
            self._apply_queue(found, deleted, error)
        elif isinstance(found, EvictionRequest):
            _keep(self.requests, key_of(found.metadata), found, deleted)
        elif isinstance(found, REFERRED):
            self.refer(found, deleted=deleted)
        else:
            by_name: dict[type, dict[str, Any]] = {Topology: self.topologies, PriorityClass: self.priority_classes}
            if type(found) in by_name:
                # Any gang may refer to these.
                self._changed.update(self.groups)
                _keep(by_name[type(found)], found.metadata.name, found, deleted)
                # A queue may name a PriorityClass.
                self.queue_changes += isinstance(found, PriorityClass)

    def hide(self, struct: type, why: str) -> None:
        """Objects of a kind may not be read; without a reason, they may."""
        if self.hidden.get(struct, "") != why:
            _keep(self.hidden, struct, why, not why)

    def refer(self, found: Any, *, deleted: bool = False) -> bool:
        """An object that pods may refer to came, changed or went. Whether that is something to a gang that waits."""
        pods = self.referred.apply(key_of(found.metadata), found, deleted=deleted)
        if pods is None:
            self._changed.update(self.groups)
            return bool(self.groups)
        gangs = {facts.gang for pod in pods if (facts := self.pods.get(pod)) is not None and facts.gang is not None}
        self._changed |= gangs
        return bool(gangs)

    def refer_unread(self, struct: type, metadata: Metadata, why: str, *, deleted: bool = False) -> None:
        """An object that pods may refer to, and that can't be read: it counts as missing."""
        self.referred.apply_unread(struct, key_of(metadata), why, deleted=deleted)
        self._changed.update(self.groups)

    def close(self, resource: str, why: str) -> bool:
        """Objects of a kind can't be read, and why; without a reason, they can. Whether that is something new."""
        is_new = self.referred.close(resource, why)
        if is_new:
            self._changed.update(self.groups)
        return is_new

    def rest(self, gang: Key, why: str) -> None:
        """The gang is left alone from now on; without a reason, it is tried again."""
        if self.resting.get(gang, "") != why:
            _keep(self.resting, gang, why, not why)
            self._changed.add(gang)

    def record(self, gang: Key, better: Mapping[str, Recorded]) -> None:
        """What is known of tree nodes, by name, until the gang's status says it."""
        if self.recorded.get(gang, {}) != better:
            _keep(self.recorded, gang, better, not better)
            self._changed.add(gang)

    def part(self, gang: Key, names: Collection[str]) -> None:
        """These tree nodes are no longer joined, as long as the gang's status stays as it is."""
        if self.parted(gang) != names and gang in self.groups:
            _keep(self._parted, gang, (self.groups[gang].status.sub_groups, frozenset(names)), not names)
            self._changed.add(gang)

    def parted(self, gang: Key) -> frozenset[str]:
        """Tree nodes that are no longer joined, though the gang's status says that they are."""
        rows, names = self._parted.get(gang, ((), frozenset[str]()))
        return names if gang in self.groups and self.groups[gang].status.sub_groups == rows else frozenset()

    def leave_alone(self, pods: Iterable[Key]) -> None:
        """These pods, and no others, can't be evicted now."""
        alone = {pod for pod in pods if pod in self.pods}
        for pod in alone ^ self.left_alone:
            facts = self.pods.get(pod)
            if facts is not None and facts.gang is not None:
                self._changed.add(facts.gang)
        self.left_alone = alone

    def ask_for_marks(self, adopted: Mapping[tuple[Key, str], Mark] | None = None) -> None:
        """From now on a bound pod without a mark belongs to no gang; but these pods, by name and UID, are `adopted`."""
        self._adopted = dict(adopted or {})
        bound = [(key, facts) for key, facts in self.pods.items() if facts.holds and facts.mark is None]
        for _, facts in bound:
            self._hold(facts, -1)
        self.asks_for_marks = True
        for key, facts in bound:
            self._renewed(key, facts._replace(mark=self._adopted.get((key, facts.pod.metadata.uid))))
            self._hold(self.pods[key], 1)
        for key, facts in self.pods.items():
            self._look_for_gang(key, facts)
        self.look_again()

    def ask_for_marks_in_use(self) -> None:
        """Asks for marks where some pod has one: who only looks at a cluster can't know whether all have theirs."""
        if not self.asks_for_marks and any(facts.mark is not None for facts in self.pods.values()):
            self.ask_for_marks()

    def is_adopted(self, facts: PodFacts) -> bool:
        """Whether a pod was bound before there were marks, and got its mark from this process."""
        return (key_of(facts.pod.metadata), facts.pod.metadata.uid) in self._adopted

    def is_counted(self, facts: PodFacts) -> bool:
        """Whether a pod is one of a gang that is there."""
        group = self.groups.get(facts.gang) if facts.gang is not None else None
        return group is not None and facts.is_of(group.metadata.uid, asks_for_marks=self.asks_for_marks)

    def _look_for_gang(self, key: Key, facts: PodFacts) -> None:
        """A pod with a node that no gang counts is still charged to the queue of its mark, until it is gone."""
        stray = facts.mark is not None and facts.holds and not self.is_counted(facts)
        (self.strays.add if stray else self.strays.discard)(key)

    def look_again(self) -> None:
        """Everything counts as changed: who built from it starts anew."""
        self._changed, self._nodes_changed = set(self.groups), True

    def take_changes(self) -> tuple[set[Key], bool]:
        """The gangs touched since the last call, and whether the nodes themselves changed."""
        changed, nodes_changed = self._changed, self._nodes_changed
        if self._guarded_anew:
            changed.update(key for key in self.groups if key[0] in self._guarded_anew)
            self._guarded_anew = set()
        self._changed, self._nodes_changed = set(), False
        return changed, nodes_changed

    def _apply_group(self, key: Key, group: PodGroup, deleted: bool, error: str) -> None:
        self._changed.add(key)
        turned = deleted == (key in self.groups)
        if deleted:
            self.quarantine.pop(Thing(GANG, *key), None)
        self._is_torn = turned
        if turned:
            # Its pods become those of a gang, or those of none.
            for facts in self.members.get(key, {}).values():
                if facts.holds and facts.mark is None and not self.asks_for_marks:
                    self.room.add(OTHERS, facts.pod.spec.node_name, facts.request, 1 if deleted else -1)
        _keep(self.groups, key, group, deleted)
        self._is_torn = False
        for pod, facts in self.members.get(key, {}).items():
            self._look_for_gang(pod, facts)
        _keep(self.invalid, key, error, deleted or not error)
        if key in self._parted and not self.parted(key):
            del self._parted[key]
        self.keeping.discard(key)
        if not deleted and (group.status.kept or KEPT_ROOM_ANNOTATION in group.metadata.annotations):
            self.keeping.add(key)
        if turned and self.listener is not None:
            self.listener.group_changed(key, there=not deleted)

    def _apply_namespace(self, namespace: Namespace, deleted: bool) -> None:
        name = namespace.metadata.name
        before = self.namespaces.get(name)
        # There may be many of them, and people write much into annotations.
        slim = structs.replace(namespace.metadata, annotations={}, owner_references=[])
        _keep(self.namespaces, name, Namespace(metadata=slim), deleted)
        if deleted or before is None or before.metadata.labels != slim.labels:
            self.namespace_changes += 1

    def _apply_budget(self, key: Key, budget: PodDisruptionBudget, deleted: bool) -> None:
        before = self.budgets.get(key)
        _keep(self.budgets, key, budget, deleted)
        if deleted or before is None or before.spec.selector != budget.spec.selector:
            self._guarded_anew.add(key[0])

    def _apply_queue(self, queue: Queue, deleted: bool, error: str) -> None:
        name = queue.metadata.name
        before, wrong = self.queues.get(name), self.invalid_queues.get(name, "")
        _keep(self.queues, name, queue, deleted)
        _keep(self.invalid_queues, name, error, deleted or not error)
        if deleted or before is None or wrong != error or _uses(before) != _uses(queue):
            # Any gang may refer to it.
            self._changed.update(self.groups)
            self.queue_changes += 1
        elif _terms(before) != _terms(queue):
            self.queue_changes += 1

    def _apply_node(self, node: Node, deleted: bool) -> None:
        name = node.metadata.name
        before, offered = self.nodes.get(name), self.room.offered
        _keep(self.nodes, name, node, deleted)
        new = self.room.set(name, {} if deleted else allocatable_of(node))
        if new:
            # A device plugin came after pods that hold its devices.
            for facts in self.pods.values():
                for table in self._tables_of(facts) if not facts.request.keys().isdisjoint(new) else ():
                    self.room.recount(table, facts.pod.spec.node_name, facts.request, new)
        # What no node offers any more is named in what every gang that asks for it is told.
        if deleted or before is None or _looks(before) != _looks(node) or offered != self.room.offered:
            self._nodes_changed = True

    def _apply_pod(self, key: Key, pod: Pod | None, error: str) -> None:
        before = self.pods.get(key)
        if (
            before is not None
            and pod is not None
            and not error
            and not before.problem
            and _says_the_same(before.pod, pod)
        ):
            self._renew(key, before, pod)
            return
        self._swap(key, None if pod is None else self._facts(pod, error))

    def _swap(self, key: Key, facts: PodFacts | None) -> None:
        """One pod in place of what was known of it. Nothing of it is found out here, only added up."""
        before = self.pods.pop(key, None)
        self._is_torn = True
        self.strays.discard(key)
        self.unread.discard(key)
        self.nominated.discard(key)
        self.promised.pop(key, None)
        if before is not None:
            self._hold(before, -1)
            if before.refers:
                self.referred.file(key, before.refers, waits=False)
            if before.gang is not None:
                self._changed.add(before.gang)
                del self.members[before.gang][key]
                if not self.members[before.gang]:
                    del self.members[before.gang]
        if facts is not None:
            self.pods[key] = facts
            self._hold(facts, 1)
            if not facts.ours and facts.state is State.WAITING and facts.pod.status.nominated_node_name:
                self.promised[key] = facts
            self._look_for_gang(key, facts)
            if facts.problem and facts.holds:
                self.unread.add(key)
            if facts.gang is not None:
                self._changed.add(facts.gang)
                self.members.setdefault(facts.gang, {})[key] = facts
                if facts.state is State.WAITING and facts.pod.status.nominated_node_name:
                    self.nominated.add(key)
                if facts.state is State.WAITING and facts.refers:
                    self.referred.file(key, facts.refers, waits=True)
        self._is_torn = False
        # Who was not known, and goes, changes nothing: a watch may tell the same thing twice.
        if before is not None or facts is not None:
            self._tell_of_pod(key, before, facts)

    def _tell_of_pod(self, key: Key, before: PodFacts | None, facts: PodFacts | None) -> None:
        """What others do with it is no reason not to plan with it."""
        try:
            if self.listener is not None:
                self.listener.pod_changed(before, facts)
        except Exception as defect:
            self.quarantine[Thing(POD, *key)] = Quarantined(said_of(defect), unknown=False)

    def _renew(self, key: Key, before: PodFacts, pod: Pod) -> None:
        """A pod of which something changed that nobody plans with: its gang stands as it stood."""
        # What is the same is kept once.
        facts = before._replace(pod=structs.replace(pod, spec=before.pod.spec))
        self._renewed(key, facts)
        self._tell_of_pod(key, before, facts)

    def _renewed(self, key: Key, facts: PodFacts) -> None:
        """A pod that holds what it held, in the gang that it was in."""
        self.pods[key] = facts
        if facts.gang is not None:
            self.members[facts.gang][key] = facts
        for some in (self.ported, self.promised):
            if key in some:
                some[key] = facts

    def _hold(self, facts: PodFacts, sign: int) -> None:
        """A pod holds its room from being bound until it has ended; while it terminates the room can be waited for."""
        for table in self._tables_of(facts):
            self.room.add(table, facts.pod.spec.node_name, facts.request, sign)
        if facts.holds and facts.ports:
            key = key_of(facts.pod.metadata)
            _keep(self.ported, key, facts, sign < 0)
            (self.ports.remove if sign < 0 else self.ports.add)(key, facts.ports)
        if facts.holds and facts.terms:
            carrier = Carrier(facts.terms, facts.pod.spec.node_name, facts.state is State.TERMINATING)
            self.carriers.put(key_of(facts.pod.metadata), carrier if sign > 0 else None)

    def _tables_of(self, facts: PodFacts) -> Iterator[int]:
        """The tables of the room that a pod counts in."""
        if facts.holds:
            yield HELD
            if facts.mark is None and (self.asks_for_marks or facts.gang not in self.groups):
                yield OTHERS
            if facts.state is State.TERMINATING:
                yield RELEASING

    def _whose(self, pod: Pod) -> tuple[bool, Key | None]:
        """Whether a pod is ours, and its gang."""
        name = pod.metadata.annotations.get(POD_GROUP_ANNOTATION, "")
        ours = pod.spec.scheduler_name in self._schedulers or (not pod.spec.scheduler_name and bool(name))
        gang = (pod.metadata.namespace or DEFAULT_NAMESPACE, name) if ours and name else None
        return ours, gang

    def _facts(self, pod: Pod, error: str = "") -> PodFacts:
        """What placement asks of a pod; most of it follows from the template that it was made from."""
        ours, gang = self._whose(pod)
        template = self._templates.of(pod.spec)
        # Every pod has containers; one that could not be read has none.
        unknown = bool(error) and bool(pod.spec.node_name) and not pod.spec.containers
        request, shape = (_EVERYTHING, _UNKNOWN) if unknown else (template.request, template.shape)
        held = request if unknown or template.problem else _held_by(pod, request)
        if held != request:
            shape = shape_of(pod, held)
        promised = not ours and bool(pod.status.nominated_node_name)
        terms = terms_of(pod, key_of(pod.metadata)[0]) if pod.spec.node_name or promised else ()
        return PodFacts(
            self._templates.shared(pod, template),
            state_of(pod),
            ours,
            gang,
            held,
            shape,
            template.ports,
            error or template.problem or ("" if pod.spec.node_name else template.excess),
            (*template.unsupported, *unsupported_annotations(pod.metadata.annotations)),
            template.wishes,
            held != request,
            terms,
            references_of(pod.spec) if ours else NO_REFERENCES,
            self._mark_of(pod),
        )

    def _mark_of(self, pod: Pod) -> Mark | None:
        if not pod.spec.node_name:
            return None
        found = mark_of(pod)
        adopted = self._adopted.get((key_of(pod.metadata), pod.metadata.uid)) if self._adopted else None
        return found or adopted


def _held_by(pod: Pod, request: Request) -> Request:
    """What a pod with a node holds of it; amounts of a status that are no quantities say nothing."""
    if not pod.spec.node_name or not is_resized(pod):
        return request
    try:
        return held_request_of(pod)
    except BadObject:
        return request


def _place_of(found: Any) -> Key:
    """Namespace and name of an object; objects of the cluster have no namespace."""
    namespaced = isinstance(found, (Pod, PodGroup, PodDisruptionBudget))
    return key_of(found.metadata) if namespaced else (found.metadata.namespace, found.metadata.name)


def key_of(metadata: Metadata) -> Key:
    """Namespace and name."""
    return metadata.namespace or DEFAULT_NAMESPACE, metadata.name


def state_of(pod: Pod) -> State:
    """What the pod is doing. Whether its node exists is for the nodes to say."""
    if pod.status.phase == "Succeeded":
        return State.SUCCEEDED
    if pod.status.phase == "Failed":
        return State.FAILED
    if pod.metadata.deletion_timestamp is not None:
        return State.TERMINATING
    if pod.spec.node_name:
        return State.PLACED
    return State.GATED if pod.spec.scheduling_gates else State.WAITING


def allocatable_of(node: Node) -> dict[str, int]:
    """What the node has for pods, in base units; an amount that is no quantity is none."""
    stated = node.status.allocatable or node.status.capacity
    amounts = {PODS: _DEFAULT_PODS}
    for resource, amount in stated.items():
        try:
            amounts[resource] = max(0, min(held_units(resource, amount), LARGEST))
        except BadObject:
            amounts[resource] = 0
    return amounts


def unread_amount_of(node: Node) -> str:
    """The first resource of a node whose amount is no quantity or below zero: it counts as none."""
    for resource, amount in (node.status.allocatable or node.status.capacity).items():
        try:
            if base_units(resource, amount) >= 0:
                continue
        except BadObject:
            pass
        return resource
    return ""


def _says_the_same(before: Pod, now: Pod) -> bool:
    """Whether a pod is for every plan what it was: the same one, of the same gang, in the same state."""
    here, there = before.metadata, now.metadata
    return (
        here.uid == there.uid
        and here.deletion_timestamp == there.deletion_timestamp
        and here.labels == there.labels
        and here.annotations == there.annotations
        and here.owner_references == there.owner_references
        and before.status.phase == now.status.phase
        and before.status.nominated_node_name == now.status.nominated_node_name
        and before.spec == now.spec
        and _resize_of(before) == _resize_of(now)
    )


def _resize_of(pod: Pod) -> tuple[Any, ...]:
    """What the status says of amounts."""
    if not pod.spec.node_name or not is_resized(pod):
        return ()
    status = pod.status
    containers = (status.container_statuses, status.init_container_statuses)
    return *containers, status.allocated_resources, status.resources, is_resize_infeasible(pod)


def _looks(node: Node) -> tuple[Any, ...]:
    """What decides who may go to a node; its amounts are kept apart."""
    return node.metadata.labels, node.spec, is_ready(node)


def _uses(queue: Queue) -> tuple[str | None, ...]:
    """What decides who may use a queue, and with which priority; what they may have there is kept apart."""
    stated = queue.metadata.annotations.get
    return queue.spec.parent_queue, stated(ALLOWED_NAMESPACES_ANNOTATION), stated(MAX_PRIORITY_ANNOTATION)


def _terms(queue: Queue) -> tuple[Any, ...]:
    """What a queue may have, when it came, and how it gets back what it is owed."""
    return queue.spec, queue.metadata.creation_timestamp, queue.ignores_budgets


def _keep(objects: dict[Any, Any], key: Any, found: Any, deleted: bool) -> None:
    if deleted:
        objects.pop(key, None)
    else:
        objects[key] = found
