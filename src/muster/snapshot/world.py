"""The mirror of watched objects. `apply` takes one event and keeps what depends on it; nothing is ever recounted."""

import enum
from collections.abc import Collection
from typing import Any, NamedTuple

import msgspec

from muster.api.cluster import POD_GROUP_ANNOTATION, Node, Pod, PodDisruptionBudget, PriorityClass
from muster.api.model import Metadata
from muster.api.podgroup import PodGroup
from muster.api.quantity import base_units
from muster.api.queue import Queue
from muster.api.topology import Topology
from muster.errors import BadObject
from muster.snapshot.requests import LARGEST, PODS, Request, host_ports_of, request_of, unsupported_fields
from muster.snapshot.room import HELD, RELEASING, Room
from muster.snapshot.selectors import is_ready

Key = tuple[str, str]
Port = tuple[str, str, int]
DEFAULT_NAMESPACE = "default"
DEFAULT_SCHEDULERS = frozenset({"kai-scheduler"})
# A node that does not say how many pods it takes.
_DEFAULT_PODS = 110


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


class World:
    """Nodes, pods and the objects that say what becomes of them, by key; and which gangs changed since last asked."""

    def __init__(self, schedulers: Collection[str] = DEFAULT_SCHEDULERS) -> None:
        self._schedulers = frozenset(schedulers)
        self.nodes: dict[str, Node] = {}
        self.pods: dict[Key, PodFacts] = {}
        self.groups: dict[Key, PodGroup] = {}
        self.topologies: dict[str, Topology] = {}
        self.queues: dict[str, Queue] = {}
        self.priority_classes: dict[str, PriorityClass] = {}
        self.budgets: dict[Key, PodDisruptionBudget] = {}
        self.room = Room()
        # PodGroups that were read with errors, with the first of them.
        self.invalid: dict[Key, str] = {}
        # Pods that hold ports of their node.
        self.ported: dict[Key, PodFacts] = {}
        # Pods by gang, and gangs touched by an event since `take_changes`.
        self.members: dict[Key, dict[Key, PodFacts]] = {}
        self._changed: set[Key] = set()
        self._nodes_changed = True

    def apply(self, found: Any, *, deleted: bool = False, error: str = "") -> None:
        """An object that came, changed or went. Kinds that nobody asks about are not kept.

        `error` is what a PodGroup or a pod was read with: such a gang, or pod, is not tried.
        """
        if isinstance(found, Pod):
            self._apply_pod(key_of(found.metadata), None if deleted else found, error)
        elif isinstance(found, Node):
            self._apply_node(found, deleted)
        elif isinstance(found, PodGroup):
            self._changed.add(key_of(found.metadata))
            _keep(self.groups, key_of(found.metadata), found, deleted)
            _keep(self.invalid, key_of(found.metadata), error, deleted or not error)
        elif isinstance(found, PodDisruptionBudget):
            _keep(self.budgets, key_of(found.metadata), found, deleted)
        else:
            by_name: dict[type, dict[str, Any]] = {
                Topology: self.topologies,
                Queue: self.queues,
                PriorityClass: self.priority_classes,
            }
            if type(found) in by_name:
                # Any gang may refer to these.
                self._changed.update(self.groups)
                _keep(by_name[type(found)], found.metadata.name, found, deleted)

    def take_changes(self) -> tuple[set[Key], bool]:
        """The gangs touched since the last call, and whether the nodes themselves changed."""
        changed, nodes_changed = self._changed, self._nodes_changed
        self._changed, self._nodes_changed = set(), False
        return changed, nodes_changed

    def _apply_node(self, node: Node, deleted: bool) -> None:
        name = node.metadata.name
        before = self.nodes.get(name)
        _keep(self.nodes, name, node, deleted)
        amounts = {} if deleted else allocatable_of(node)
        self.room.set(name, amounts)
        if deleted or before is None or _looks(before) != _looks(node):
            self._nodes_changed = True

    def _apply_pod(self, key: Key, pod: Pod | None, error: str) -> None:
        before = self.pods.pop(key, None)
        if before is not None:
            self._hold(before, -1)
            if before.gang is not None:
                self._changed.add(before.gang)
                del self.members[before.gang][key]
                if not self.members[before.gang]:
                    del self.members[before.gang]
        if pod is None:
            return
        facts = self.pods[key] = self._facts(pod, error)
        self._hold(facts, 1)
        if facts.gang is not None:
            self._changed.add(facts.gang)
            self.members.setdefault(facts.gang, {})[key] = facts

    def _hold(self, facts: PodFacts, sign: int) -> None:
        """A pod holds its room from being bound until it has ended; while it terminates the room can be waited for."""
        node = facts.pod.spec.node_name
        if node and facts.state in (State.PLACED, State.TERMINATING):
            self.room.add(HELD, node, facts.request, sign)
            if facts.state is State.TERMINATING:
                self.room.add(RELEASING, node, facts.request, sign)
            if facts.ports:
                _keep(self.ported, key_of(facts.pod.metadata), facts, sign < 0)

    def _facts(self, pod: Pod, error: str = "") -> PodFacts:
        name = pod.metadata.annotations.get(POD_GROUP_ANNOTATION, "")
        ours = pod.spec.scheduler_name in self._schedulers or (not pod.spec.scheduler_name and bool(name))
        gang = (pod.metadata.namespace or DEFAULT_NAMESPACE, name) if ours and name else None
        problem = error
        try:
            request = request_of(pod.spec)
        except BadObject as unread:
            request, problem = {PODS: 1}, problem or unread.message
        return PodFacts(
            pod,
            state_of(pod),
            ours,
            gang,
            request,
            shape_of(pod, request),
            tuple(host_ports_of(pod.spec)),
            problem,
            tuple(unsupported_fields(pod)),
        )


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


def shape_of(pod: Pod, request: Request) -> bytes:
    """All that matters of a pod for placement, as a key: pods of one shape are interchangeable."""
    spec = pod.spec
    affinity = spec.affinity.node_affinity if spec.affinity else None
    seen = (
        sorted(request.items()),
        sorted(spec.node_selector.items()),
        affinity,
        spec.tolerations,
        host_ports_of(spec),
    )
    return msgspec.json.encode(seen)


def allocatable_of(node: Node) -> dict[str, int]:
    """What the node has for pods, in base units; an amount that is no quantity is none."""
    stated = node.status.allocatable or node.status.capacity
    amounts = {PODS: _DEFAULT_PODS}
    for resource, amount in stated.items():
        try:
            amounts[resource] = max(0, min(base_units(resource, amount), LARGEST))
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


def _looks(node: Node) -> tuple[Any, ...]:
    """What decides who may go to a node; its amounts are kept apart."""
    return node.metadata.labels, node.spec, is_ready(node)


def _keep(objects: dict[Any, Any], key: Any, found: Any, deleted: bool) -> None:
    if deleted:
        objects.pop(key, None)
    else:
        objects[key] = found
