"""Objects become arrays. What did not change since the last build is taken over: gangs, masks, domains, shapes."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from muster.api.cluster import Namespace, Node, NodeStatus, Pod, PodDisruptionBudget, PodSpec
from muster.api.model import Condition, Metadata
from muster.api.podgroup import PodGroup
from muster.api.priorities import Priorities
from muster.api.queue import Queue
from muster.api.topology import Topology
from muster.api.tree import NONE
from muster.api.validation.context import Settings
from muster.model.reasons import Code
from muster.snapshot.apart import FREE, Apart, Around
from muster.snapshot.arrays import Gang, Issue, Promised, Repelled, Snapshot, Stray
from muster.snapshot.asked import Asked
from muster.snapshot.claims import Tie, Ties
from muster.snapshot.clearances import clearances_of
from muster.snapshot.domains import Domains, domains_of
from muster.snapshot.gangs import (
    Checked,
    Known,
    Surroundings,
    gang_of,
    loose_gang,
    unknown_gang,
)
from muster.snapshot.guards import Guards
from muster.snapshot.ports import Column, Holder, Port, columns_of
from muster.snapshot.priorities import Ranks, priority_of, values_of
from muster.snapshot.quarantine import (
    BUDGET,
    GANG,
    NODE,
    QUEUE,
    TOPOLOGY,
    Quarantined,
    Thing,
    said_of,
    told_of,
)
from muster.snapshot.queues import CHARGES, UNLIMITED, Costs, Queues, Standing, implied
from muster.snapshot.requests import Request
from muster.snapshot.room import ALLOCATABLE, HELD, OTHERS, RELEASING, Amounts
from muster.snapshot.selectors import Mask, Masks, NodeTable, Scores
from muster.snapshot.templates import shape_of
from muster.snapshot.terms import EVERY_PRIORITY, Carrier
from muster.snapshot.world import DEFAULT_NAMESPACE, Key, PodFacts, State, World, allocatable_of, key_of

# More than this no pod costs its queue, in thousandths of a core, bytes or parts of a GPU.
_MOST_CHARGED = 2**45
# So long a node that another scheduler has nominated is closed to every gang.
_PATIENT_NS = 5 * 60 * 10**9
# Shapes that no pod has any more are forgotten when there are this many, and twice as many as were in use.
_MOST_SHAPES = 20_000
# The same for the bytes that their keys have in all.
_MOST_BYTES = 2**24
# Stands for the gang of a pod that has none.
_NO_GANG = ("", "")
_TOO_MANY_PORTS = "more host ports than can be counted beside those of other pods that wait"


class Shape(NamedTuple):
    """What pods of one shape ask for, the rules of one of them, who keeps them away, and claims that bind them."""

    request: Request
    ports: tuple[Port, ...]
    spec: PodSpec
    # What the required anti-affinity of others makes of it (`apart.Apart`).
    group: int = FREE
    ties: tuple[Tie, ...] = ()


class ShapeKey(NamedTuple):
    """What tells shapes apart: the pod's own words, whose anti-affinity means it, and which nodes its claims leave."""

    own: bytes
    group: int = FREE
    effect: bytes = b""


class _Promise(NamedTuple):
    """The uid of a pod and its nominated node, since when that is known, and for whom the room is held."""

    which: tuple[str, str]
    since_ns: int
    priority: int
    lapsed: bool


class Builder:
    """Builds snapshots of one world, each from the one before."""

    def __init__(
        self,
        world: World,
        *,
        default_queue: str = "default-queue",
        settings: Settings | None = None,
        priorities: Priorities | None = None,
        costs: Costs | None = None,
    ) -> None:
        self._world, self._default_queue, self._settings = world, default_queue, settings or Settings()
        self._system_namespaces = frozenset((priorities or Priorities()).system_namespaces)
        self._costs = costs or Costs()
        self._guards, self._apart = Guards(), Apart()
        self._checked: dict[Key, Checked] = {}
        # Pods of other schedulers with a nominated node: since when that is known, and what they will have of terms.
        self._promises: dict[Key, _Promise] = {}
        self._promising: dict[Key, Carrier] = {}
        # The queues, and what gangs can have in all, each as it was at some count of changes.
        self._standing, self._standing_at = Standing({}), 0
        self._capacity: tuple[int, ...] = ()
        self._capacity_at = NONE
        self._most_shapes, self._most_bytes = _MOST_SHAPES, _MOST_BYTES
        self._forget()

    def _forget(self) -> None:
        self._shapes: list[Shape] = []
        # How long their keys are in all; and what nodes offer of what they ask for.
        self._bytes = 0
        self._asked = Asked(self._costs)
        self._rules: list[PodSpec] = []
        self._shape_of: dict[ShapeKey, int] = {}
        self._gangs: dict[Key, Gang] = {}
        # How many gangs use each queue; and those as queues when nobody wrote any down, None to be found anew.
        self._users: dict[str, int] = {}
        self._implied: Queues | None = None
        # Those with something that waits; and all in order, None when it has to be found anew.
        self._waiting: set[Key] = set()
        # Those that can't be built.
        self._failed: set[Key] = set()
        # Pods with a node and without a place in the tree of their gang, each with the queue that is charged for it and
        # the priority; and such pods, and those of no gang at all, as gangs by namespace, queue and priority.
        self._aside: dict[Key, list[tuple[str, int, PodFacts]]] = {}
        self._loose_gangs: dict[tuple[str, str, int], Gang] = {}
        self._keys: list[Key] | None = None
        self._apart.forget()
        # Where pods of a shape may go as far as nodes and their own rules go; and with what others forbid.
        self._open: dict[int, Mask] = {}
        self._allowed: dict[int, tuple[Repelled, Mask]] = {}
        self._behind_cordons: dict[int, Mask] = {}
        self._liked: dict[int, Scores] = {}

    def build(self, now_ns: int) -> Snapshot:
        """The world as it is now."""
        world = self._world
        changed, nodes_changed = world.take_changes()
        begins = nodes_changed or len(self._shapes) > self._most_shapes or self._bytes > self._most_bytes
        if begins:
            self._forget()
            self._look_at_nodes()
            changed = set(world.groups)
        elif self._topologies_seen != self._topologies():
            self._look_at_topologies()
        if self._standing_at != world.queue_changes:
            self._standing = self._standing_now()
            self._standing_at = world.queue_changes
        self._guards.update(*self._budgets())
        self._look_at_promises(now_ns)
        changed |= self._others_rules()
        around = self._surroundings()
        self._rebuild_gangs(changed, around)
        if begins:
            self._most_shapes = max(_MOST_SHAPES, 2 * len(self._shapes))
            self._most_bytes = max(_MOST_BYTES, 2 * self._bytes)
        return self._arrays(now_ns, around)

    def _look_at_nodes(self) -> None:
        world = self._world
        self._names = tuple(sorted(world.nodes))
        # A node on which muster stumbles takes nothing; what runs there runs.
        out = {thing.name for thing in world.quarantine if thing.kind == NODE}
        self._nodes = [_stand_in(name) if name in out else world.nodes[name] for name in self._names]
        self._row_of = {name: row for row, name in enumerate(self._names)}
        self._table = NodeTable(self._nodes)
        self._ties = Ties(self._table)
        self._room_rows = world.room.rows(self._names)
        self._capacity_at = NONE
        self._look_at_topologies()

    def _look_at_topologies(self) -> None:
        self._topologies_seen = self._topologies()
        names = sorted(self._topologies_seen)
        self._topology_number = {name: number for number, name in enumerate(names)}
        self._domains: tuple[Domains, ...] = tuple(
            domains_of(self._topologies_seen[name], self._nodes) for name in names
        )

    def _topologies(self) -> dict[str, Topology]:
        """The topologies, but for those on which muster stumbles: they are not there."""
        out = {thing.name for thing in self._world.quarantine if thing.kind == TOPOLOGY}
        return {name: one for name, one in self._world.topologies.items() if name not in out}

    def _standing_now(self) -> Standing:
        """The queues; one on which muster stumbles is one that can't be read."""
        queues, invalid = dict(self._world.queues), dict(self._world.invalid_queues)
        for thing, entry in self._world.quarantine.items():
            if thing.kind == QUEUE and thing.name in queues:
                queues[thing.name], invalid[thing.name] = Queue(metadata=Metadata(name=thing.name)), told_of(entry)
        return Standing(queues, invalid, values_of(self._world.priority_classes))

    def _budgets(self) -> tuple[dict[Key, PodDisruptionBudget], set[Key]]:
        """The disruption budgets, and the pods that nobody may evict: also those whose budget muster stumbles on."""
        world, staying = self._world, self._world.left_alone | self._world.unread
        out = {(thing.namespace, thing.name) for thing in world.quarantine if thing.kind == BUDGET}
        if not out:
            return world.budgets, staying
        spaces = {namespace for namespace, _ in out}
        guarded = {key for key in world.pods if key[0] in spaces}
        return {key: one for key, one in world.budgets.items() if key not in out}, staying | guarded

    def _surroundings(self) -> Surroundings:
        world = self._world
        return Surroundings(
            self._row_of,
            lambda name: allocatable_of(world.nodes[name]),
            self._topologies_seen,
            self._topology_number,
            self._standing,
            Ranks(self._standing, world.priority_classes, self._system_namespaces),
            self._default_queue,
            self._settings,
            self._guards,
            self._shape_number,
            self._costs.of_all,
            self._plain_shape,
            self._set_aside,
            self._checked,
            world.referred,
            world.asks_for_marks,
            world.is_adopted,
        )

    def _set_aside(self, gang: Key, queue: str, priority: int, pods: Collection[PodFacts]) -> None:
        """Pods of a gang that have no place in its tree are charged to the queue of their mark, else to the gang's."""
        self._aside.pop(gang, None)
        if pods:
            self._aside[gang] = [(facts.mark.queue if facts.mark else queue, priority, facts) for facts in pods]

    def _rebuild_gangs(self, changed: set[Key], around: Surroundings) -> None:
        world = self._world
        for key in sorted(changed):
            group, before = world.groups.get(key), self._gangs.get(key)
            if group is None:
                self._checked.pop(key, None)
                self._failed.discard(key)
                self._aside.pop(key, None)
                if before is not None:
                    del self._gangs[key]
                    self._keys = None
                    self._use(before.queue, -1)
                self._waiting.discard(key)
                continue
            gang = self._gangs[key] = self._gang(key, group, around)
            (self._waiting.add if gang.waiting else self._waiting.discard)(key)
            if before is None:
                self._keys = None
                self._use(gang.queue, 1)
            elif before.queue != gang.queue:
                self._use(before.queue, -1)
                self._use(gang.queue, 1)

    def _look_at_promises(self, now_ns: int) -> None:
        """Pods of other schedulers for which a node is nominated, each from the moment that it was seen so.

        From outside, one that waits for others to leave looks like one that is about to be bound.
        """
        world, before, self._promises = self._world, self._promises, {}
        self._promising = {}
        for key, facts in sorted(world.promised.items()):
            pod = facts.pod
            which = (pod.metadata.uid, pod.status.nominated_node_name)
            if which[1] not in self._row_of:
                continue
            known = before.get(key)
            since_ns = known.since_ns if known is not None and known.which == which else now_ns
            priority = priority_of(pod, world.priority_classes)
            promise = _Promise(which, min(since_ns, now_ns), priority, now_ns - since_ns > _PATIENT_NS)
            self._promises[key] = promise
            if facts.terms:
                binds = priority if promise.lapsed else EVERY_PRIORITY
                terms = tuple(term._replace(binds=binds) for term in facts.terms)
                self._promising[key] = Carrier(terms, which[1], promised=True)

    def _promised(self) -> tuple[Promised, ...]:
        found = []
        for key, promise in self._promises.items():
            facts = self._world.promised[key]
            number = self._number(ShapeKey(facts.shape), Shape(facts.request, facts.ports, facts.pod.spec))
            node = self._row_of[promise.which[1]]
            found.append(Promised("/".join(key), number, node, promise.priority, promise.lapsed))
        return tuple(found)

    def _others_rules(self) -> set[Key]:
        """The gangs that the required anti-affinity of others may mean in another way than before."""
        world, labels_of = self._world, {name: one.metadata.labels for name, one in self._world.namespaces.items()}
        hidden = Namespace in world.hidden
        around = Around(self._table, self._row_of, labels_of, world.namespace_changes)
        moved = self._apart.update(world.carriers, self._promising, around, hidden=hidden)
        if moved.everything:
            return set(world.groups)
        changed = {key for key in moved.gangs if key in world.groups}
        if moved.labels:
            for key in world.groups.keys() - changed:
                pods = (facts.pod.metadata.labels for facts in world.members.get(key, {}).values())
                if any(_names(labels, moved.labels) for labels in pods):
                    changed.add(key)
        return changed

    def _gang(self, key: Key, group: PodGroup, around: Surroundings) -> Gang:
        """A defect of ours costs one gang its place in the plan, and is told; never the others."""
        world = self._world
        thing = Thing(GANG, *key)
        entry = world.quarantine.get(thing)
        if entry is not None and entry.unknown:
            return self._unknown(key, group, entry.why)
        members = world.members.get(key, {}).values()
        known = Known(world.resting.get(key, ""), world.recorded.get(key, {}), world.parted(key))
        self._failed.discard(key)
        try:
            gang = gang_of(key, group, members, world.invalid.get(key, ""), around, known)
            # Asked of every gang in every cycle: found once, here.
            _ = gang.is_broken
        except Exception as defect:
            entry = world.quarantine[thing] = Quarantined(said_of(defect))
            return self._unknown(key, group, entry.why)
        if entry is not None:
            gang = replace(gang, held=(*gang.held, Issue(Code.SCHEDULER_ERROR, 0, entry.why)))
        return gang

    def _unknown(self, key: Key, group: PodGroup, why: str) -> Gang:
        """A gang on which muster stumbles. Its pods keep their room, and stay charged: by their marks, as strays; where
        there are no marks, to the queue that admitted it.
        """
        self._failed.add(key)
        members = self._world.members.get(key, {}).values() if not self._world.asks_for_marks else ()
        unmarked = [one for one in members if one.mark is None and one.pod.spec.node_name in self._row_of]
        aside, leaving = (
            [self._plain_shape(facts.request) for facts in unmarked if facts.state is state]
            for state in (State.PLACED, State.TERMINATING)
        )
        queue = group.status.admitted_queue or group.spec.queue or self._default_queue
        return unknown_gang(key, queue, aside, leaving, why)

    def _loose(self, around: Surroundings) -> list[Gang]:
        """The pods of ours that no gang counts and a queue is charged for, by namespace, queue and priority; but not
        those of gangs that can't be built, which stay as they are until they can be.
        """
        world, failed = self._world, self._pods_of_failed()
        found: dict[tuple[str, str, int], list[PodFacts]] = {}
        for key in sorted(world.strays - failed):
            facts = world.pods[key]
            if facts.ours and facts.mark is not None and facts.pod.spec.node_name in self._row_of:
                found.setdefault((key[0], facts.mark.queue, around.ranks.default), []).append(facts)
        for gang, pods in self._aside.items():
            for queue, priority, facts in pods if gang not in self._failed else ():
                found.setdefault((gang[0], queue, priority), []).append(facts)
        before, self._loose_gangs = self._loose_gangs, {}
        for which, some in found.items():
            placed = [facts for facts in some if facts.state is State.PLACED]
            leaving = [facts for facts in some if facts.state is State.TERMINATING]
            made, known = loose_gang(*which, placed, leaving, around), before.get(which)
            is_same = known is not None and (known.placed, known.leaving) == (made.placed, made.leaving)
            self._loose_gangs[which] = known if known is not None and is_same else made
        return list(self._loose_gangs.values())

    def _pods_of_failed(self) -> set[Key]:
        return {pod for gang in self._failed for pod in self._world.members.get(gang, {})}

    def _strays(self, state: State) -> tuple[Stray, ...]:
        """What queues are charged for gangs that can't be built, which keep what they have; and for pods that are not
        ours by now, to which nothing is done.
        """
        world = self._world
        keys = self._pods_of_failed() | {key for key in world.strays if not world.pods[key].ours}
        found = Counter[tuple[str, int]]()
        for facts in map(world.pods.__getitem__, sorted(keys)):
            if facts.mark is not None and facts.state is state and facts.pod.spec.node_name in self._row_of:
                found[facts.mark.queue, self._plain_shape(facts.request)] += 1
        return tuple(Stray(*what, pods) for what, pods in sorted(found.items()))

    def _use(self, queue: str, gangs: int) -> None:
        users = self._users.get(queue, 0)
        self._users[queue] = users + gangs
        if users + gangs == 0:
            del self._users[queue]
        if 0 in (users, users + gangs):
            self._implied = None

    def _queues(self) -> Queues:
        if self._standing.written:
            return self._standing.arrays
        if self._implied is None:
            self._implied = implied(self._users)
        return self._implied

    def _plain_shape(self, request: Request) -> int:
        plain = Pod()
        return self._number(ShapeKey(shape_of(plain, request)), Shape(request, (), plain.spec))

    def _shape_number(self, facts: PodFacts, priority: int) -> int:
        group = FREE
        if not self._apart.is_empty:
            metadata = facts.pod.metadata
            group = self._apart.group_of(key_of(metadata), metadata.labels, priority, facts.gang)
        ties = self._ties_of(facts)
        effect = self._ties.effect(ties) if ties else b""
        key = ShapeKey(facts.shape, group, effect)
        known = self._shape_of.get(key)
        if known is not None:
            return known
        return self._number(key, Shape(facts.request, facts.ports, facts.pod.spec, group, ties if effect else ()))

    def _number(self, key: ShapeKey, shape: Shape) -> int:
        """The number of a shape, which is new when nothing has its key."""
        known = self._shape_of.get(key)
        if known is not None:
            return known
        number = self._shape_of[key] = len(self._shapes)
        self._shapes.append(shape)
        self._bytes += len(key.own)
        return number

    def _ties_of(self, facts: PodFacts) -> tuple[Tie, ...]:
        """The claims that leave only some nodes to a pod that waits."""
        if not facts.refers.claims or facts.state is not State.WAITING:
            return ()
        return tuple(self._world.referred.look(facts.pod.metadata.namespace or DEFAULT_NAMESPACE, facts.refers)[1])

    def _arrays(self, now_ns: int, around: Surroundings) -> Snapshot:
        if self._keys is None:
            self._keys = sorted(self._gangs)
        waiting = self._look_at_waiting()
        gangs = tuple(map(self._gangs.__getitem__, self._keys))
        if loose := self._loose(around):
            gangs = tuple(sorted((*gangs, *loose), key=lambda gang: gang.key))
        promised = self._promised()
        repelled = self._repelled()
        strays, leaving_strays = self._strays(State.PLACED), self._strays(State.TERMINATING)
        ordered = [gang.key for gang in gangs] if loose else self._keys
        self._asked.look([shape.request for shape in self._shapes], self._world.room.offered)
        resources, unoffered = self._asked.resources, self._asked.unoffered
        tables = [self._world.room.table(which, self._room_rows, resources) for which in (ALLOCATABLE, HELD, RELEASING)]
        asks = self._asked.table(resources)
        charges = _charges(asks, resources, self._asked.charged, self._costs)
        ports, too_many = self._ports(waiting, promised)
        if ports:
            *tables, asks = self._with_ports(ports, tables, asks)
        if too_many:
            gangs = tuple(_held(gang, too_many) for gang in gangs)
        behind_cordons = {
            shape: self._behind_cordons[shape] & ~repelled[shape].nodes
            if shape in repelled
            else self._behind_cordons[shape]
            for shape in waiting
            if shape in self._behind_cordons
        }
        return Snapshot(
            now_ns=now_ns,
            nodes=self._names,
            resources=(*resources, *(port.name for port in ports)),
            allocatable=tables[0],
            free=tables[0] - tables[1],
            releasing=tables[2],
            asks=asks,
            allowed=self._masks(waiting, repelled, unoffered),
            behind_cordons={shape: mask for shape, mask in behind_cordons.items() if shape not in unoffered},
            liked={shape: self._liked[shape] for shape in waiting if shape in self._liked},
            ties={shape: self._shapes[shape].ties[0].words for shape in waiting if self._shapes[shape].ties},
            topologies=self._domains,
            gangs=gangs,
            queues=self._queues(),
            charges=charges,
            costs=self._costs,
            capacity=self._capacity_now(),
            repelled=repelled,
            carried=self._apart.carried if repelled else None,
            promised=promised,
            clearing=self._clearing(waiting, repelled, unoffered),
            disruptions=self._guards.disruptions(self._world.pods.values(), self._row_of),
            unoffered=unoffered,
            budgets=self._guards.names,
            may_delete=self._world.may_delete,
            strays=strays,
            leaving_strays=leaving_strays,
            clearances=clearances_of(self._world, gangs, partial(_number_of, ordered)),
        )

    def _capacity_now(self) -> tuple[int, ...]:
        """What ready nodes have, less what pods hold there that belong to no gang, per charge."""
        room = self._world.room
        if self._capacity_at != room.changes:
            rows = self._room_rows[self._table.ready]
            resources = [resource for resource in room.resources if self._costs.counts(resource)]
            left = room.table(ALLOCATABLE, rows, resources) - room.table(OTHERS, rows, resources)
            total = [0] * len(CHARGES)
            for column, resource in enumerate(resources):
                # Sums of hostile amounts may be more than 64 bits hold.
                charge, each = self._costs.of(resource)
                total[charge] += sum(left[:, column].clip(min=0).tolist()) * each
            self._capacity = tuple(min(one, UNLIMITED) for one in total)
            self._capacity_at = room.changes
        return self._capacity

    def _specs(self) -> list[PodSpec]:
        """The rules of every shape; a list that only grows is shared by all snapshots."""
        self._rules.extend(shape.spec for shape in self._shapes[len(self._rules) :])
        return self._rules

    def _ports(self, waiting: Sequence[int], promised: Sequence[Promised]) -> tuple[list[Column], frozenset[int]]:
        """The columns of host ports that pods wait for, and the shapes for which those would be too many."""
        wanted = {shape: self._shapes[shape].ports for shape in waiting if self._shapes[shape].ports}
        if not wanted:
            return [], frozenset()
        holders = {
            key: Holder(row, facts.state is State.TERMINATING)
            for key, facts in self._world.ported.items()
            if (row := self._row_of.get(facts.pod.spec.node_name)) is not None
        }
        whose: dict[int, set[str]] = {shape: set() for shape in wanted}
        for key in self._waiting:
            for batch in self._gangs[key].waiting:
                if batch.shape in wanted:
                    whose[batch.shape].add(key[0])
        rows = len(self._names) + len(self._shapes)
        return columns_of(wanted, self._ports_beside(promised), self._world.ports, holders, rows, whose)

    def _ports_beside(self, promised: Sequence[Promised]) -> dict[int, tuple[Port, ...]]:
        """The ports of the shapes that placed pods of gangs have, or pods with a node nominated for them."""
        gangs = [gang for facts in self._world.ported.values() if (gang := self._gangs.get(facts.gang or _NO_GANG))]
        each = {id(gang): gang for gang in gangs}.values()
        shapes = {shape for gang in each for placed in gang.placed.values() for shape in placed.shapes}
        shapes.update(one.shape for one in promised)
        return {shape: self._shapes[shape].ports for shape in sorted(shapes) if self._shapes[shape].ports}

    def _repelled(self) -> dict[int, Repelled]:
        """Per shape that the required anti-affinity of others means: what that forbids."""
        groups = (
            {shape: one.group for shape, one in enumerate(self._shapes) if one.group}
            if not self._apart.is_empty
            else {}
        )
        if not groups:
            return {}
        found = self._apart.repelled(set(groups.values()))
        return {shape: found[group] for shape, group in groups.items() if group in found}

    def _allowed_now(self, shape: int, repelled: Repelled | None) -> Mask:
        """Where pods of a shape may go. The mask stays the same object as long as it says the same."""
        if repelled is None:
            return self._open[shape]
        known = self._allowed.get(shape)
        if known is None or known[0] is not repelled:
            known = self._allowed[shape] = repelled, self._open[shape] & ~repelled.nodes
        return known[1]

    def _masks(self, waiting: Sequence[int], repelled: Mapping[int, Repelled], unoffered: Collection[int]) -> Masks:
        """Where pods of every shape may go."""
        known = {shape: self._allowed_now(shape, repelled.get(shape)) for shape in waiting}
        forbidden = {shape: found.nodes for shape, found in repelled.items()}
        return Masks(known, self._table, self._specs(), unoffered, forbidden)

    def _clearing(
        self, waiting: Sequence[int], repelled: Mapping[int, Repelled], unoffered: Collection[int]
    ) -> dict[int, Mask]:
        """Per shape: the nodes that only pods which terminate forbid."""
        masks = {
            shape: self._open[shape] & repelled[shape].nodes & ~repelled[shape].staying
            for shape in waiting
            if shape in repelled and shape not in unoffered
        }
        return {shape: mask for shape, mask in masks.items() if mask.any()}

    def _look_at_waiting(self) -> list[int]:
        """The shapes of all pods that wait. A gang with one on which muster stumbles is left out."""
        wrong: dict[int, str] = {}
        for shape in {batch.shape for key in self._waiting for batch in self._gangs[key].waiting}:
            if shape not in self._open:
                try:
                    self._look_at_shape(shape)
                except Exception as defect:
                    self._open.pop(shape, None)
                    wrong[shape] = said_of(defect)
        for key in sorted(self._waiting) if wrong else ():
            why = next((wrong[batch.shape] for batch in self._gangs[key].waiting if batch.shape in wrong), None)
            if why is not None:
                self._world.quarantine[Thing(GANG, *key)] = Quarantined(why)
                before = self._gangs[key]
                now = self._gangs[key] = self._unknown(key, self._world.groups[key], why)
                self._waiting.discard(key)
                self._use(before.queue, -1)
                self._use(now.queue, 1)
        return sorted({batch.shape for key in self._waiting for batch in self._gangs[key].waiting})

    def _look_at_shape(self, shape: int) -> None:
        spec, ties = self._shapes[shape].spec, self._shapes[shape].ties
        reached = self._ties.mask(ties)
        self._open[shape] = self._table.allowed(spec) & reached
        if self._table.cordoned:
            self._behind_cordons[shape] = self._table.allowed(spec, cordons=False) & reached & ~self._open[shape]
        liked = self._table.liked(spec)
        if liked.any():
            self._liked[shape] = liked

    def _with_ports(self, columns: Sequence[Column], tables: Sequence[Amounts], asks: Amounts) -> list[Amounts]:
        """The tables and `asks` with the columns of ports: every node has one of each."""
        more = [np.zeros((len(table), len(columns)), dtype=np.int64) for table in (*tables, asks)]
        more[ALLOCATABLE][:] = 1
        for number, column in enumerate(columns):
            more[-1][list(column.shapes), number] = 1
            for row, terminating in column.holders:
                more[HELD][row, number] += 1
                more[RELEASING][row, number] += terminating
        pairs = zip((*tables, asks), more, strict=True)
        return [np.asfortranarray(np.concatenate(pair, axis=1)) for pair in pairs]


def _number_of(keys: Sequence[Key], key: Key) -> int:
    """A gang by its place in the snapshot; NONE when it is not there."""
    at = bisect_left(keys, key)
    return at if at < len(keys) and keys[at] == key else NONE


def _stand_in(name: str) -> Node:
    not_ready = [Condition(type="Ready", status="Unknown")]
    return Node(metadata=Metadata(name=name), status=NodeStatus(conditions=not_ready))


def _held(gang: Gang, too_many: Collection[int]) -> Gang:
    """A gang that waits for pods of such a shape is not tried."""
    wrong = next((batch for batch in gang.waiting if batch.shape in too_many), None)
    if wrong is None:
        return gang
    return replace(gang, held=(*gang.held, Issue(Code.UNSUPPORTED, wrong.leaf, _TOO_MANY_PORTS, wrong.pods[0])))


def _names(labels: Mapping[str, str], named: Mapping[str, frozenset[str | None]]) -> bool:
    """Whether one of the labels is among those that are named."""
    # A pod has few labels; what terms name may be much.
    for key, value in labels.items():
        values = named.get(key)
        if values is not None and (value in values or None in values):
            return True
    return False


def _charges(asks: Amounts, resources: Sequence[str], more: Mapping[int, Sequence[int]], costs: Costs) -> Amounts:
    """What a pod of each shape costs its queue; `more` is what that costs which some ask for and which is no column."""
    found = np.zeros((len(asks), len(CHARGES)), dtype=np.int64)
    for column, resource in enumerate(resources):
        charge, each = costs.of(resource)
        if charge != NONE:
            found[:, charge] += np.minimum(asks[:, column], _MOST_CHARGED // each) * each
    for shape, amounts in more.items():
        found[shape] += [min(amount, _MOST_CHARGED) for amount in amounts]
    # Nobody has that much, and sums over all pods of a gang stay within 64 bits.
    return np.minimum(found, _MOST_CHARGED)


def build(world: World, now_ns: int) -> Snapshot:
    """One snapshot of a world. Who builds often keeps a Builder."""
    return Builder(world).build(now_ns)
