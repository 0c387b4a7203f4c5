"""Objects become arrays. What did not change since the last build is taken over: gangs, masks, domains, shapes."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from muster.api.cluster import Pod, PodSpec
from muster.api.model import Metadata
from muster.api.podgroup import PodGroup
from muster.api.priorities import Priorities
from muster.api.tree import NONE
from muster.api.validation.context import Settings
from muster.errors import DEFECT
from muster.snapshot.arrays import Gang, Snapshot
from muster.snapshot.domains import Domains, domains_of
from muster.snapshot.gangs import Checked, Surroundings, gang_of
from muster.snapshot.guards import Guards
from muster.snapshot.priorities import Ranks, values_of
from muster.snapshot.queues import CHARGES, UNLIMITED, Queues, Standing, charge_of, implied
from muster.snapshot.requests import HOST_PORT, PODS, Request
from muster.snapshot.room import ALLOCATABLE, HELD, OTHERS, RELEASING, Amounts
from muster.snapshot.selectors import Mask, Masks, NodeTable, Scores
from muster.snapshot.templates import Port, shape_of
from muster.snapshot.world import Key, PodFacts, State, World, allocatable_of

# More than this no pod costs its queue, in thousandths of a core, bytes or devices.
_MOST_CHARGED = 2**45
# Shapes that nobody has any more are forgotten when there are so many.
_MOST_SHAPES = 20_000


class Shape(NamedTuple):
    """What pods of one shape ask for, and the rules of one of them."""

    request: Request
    ports: tuple[Port, ...]
    spec: PodSpec


class Builder:
    """Builds snapshots of one world, each from the one before."""

    def __init__(
        self,
        world: World,
        *,
        default_queue: str = "default-queue",
        settings: Settings | None = None,
        priorities: Priorities | None = None,
    ) -> None:
        self._world, self._default_queue, self._settings = world, default_queue, settings or Settings()
        self._system_namespaces = frozenset((priorities or Priorities()).system_namespaces)
        self._guards = Guards()
        self._checked: dict[Key, Checked] = {}
        # The queues, and what gangs can have in all, each as it was at some count of changes.
        self._standing, self._standing_at = Standing({}), 0
        self._capacity: tuple[int, ...] = ()
        self._capacity_at = NONE
        self._forget()

    def _forget(self) -> None:
        self._shapes: list[Shape] = []
        self._rules: list[PodSpec] = []
        self._shape_of: dict[bytes, int] = {}
        self._gangs: dict[Key, Gang] = {}
        # How many gangs use each queue; and those as queues when nobody wrote any down, None to be found anew.
        self._users: dict[str, int] = {}
        self._implied: Queues | None = None
        # Those with something that waits; and all in order, None when it has to be found anew.
        self._waiting: set[Key] = set()
        self._keys: list[Key] | None = None
        self._allowed: dict[int, Mask] = {}
        self._behind_cordons: dict[int, Mask] = {}
        self._liked: dict[int, Scores] = {}

    def build(self, now_ns: int) -> Snapshot:
        """The world as it is now."""
        world = self._world
        changed, nodes_changed = world.take_changes()
        if nodes_changed or len(self._shapes) > _MOST_SHAPES:
            self._forget()
            self._look_at_nodes()
            changed = set(world.groups)
        elif self._topologies_seen != world.topologies:
            self._look_at_topologies()
        if self._standing_at != world.queue_changes:
            classes = values_of(world.priority_classes)
            self._standing = Standing(world.queues, world.invalid_queues, classes)
            self._standing_at = world.queue_changes
        self._guards.update(world.budgets, world.left_alone | world.unread)
        self._rebuild_gangs(changed)
        return self._arrays(now_ns)

    def _look_at_nodes(self) -> None:
        world = self._world
        self._names = tuple(sorted(world.nodes))
        self._nodes = [world.nodes[name] for name in self._names]
        self._row_of = {name: row for row, name in enumerate(self._names)}
        self._table = NodeTable(self._nodes)
        self._room_rows = world.room.rows(self._names)
        self._capacity_at = NONE
        self._look_at_topologies()

    def _look_at_topologies(self) -> None:
        self._topologies_seen = dict(self._world.topologies)
        names = sorted(self._topologies_seen)
        self._topology_number = {name: number for number, name in enumerate(names)}
        self._domains: tuple[Domains, ...] = tuple(
            domains_of(self._topologies_seen[name], self._nodes) for name in names
        )

    def _rebuild_gangs(self, changed: set[Key]) -> None:
        world = self._world
        around = Surroundings(
            self._row_of,
            lambda name: allocatable_of(world.nodes[name]),
            world.topologies,
            self._topology_number,
            self._standing,
            Ranks(self._standing, world.priority_classes, self._system_namespaces),
            self._default_queue,
            self._settings,
            self._guards,
            self._shape_number,
            self._plain_shape,
            self._checked,
        )
        for key in sorted(changed):
            group, before = world.groups.get(key), self._gangs.get(key)
            if group is None:
                self._checked.pop(key, None)
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

    def _gang(self, key: Key, group: PodGroup, around: Surroundings) -> Gang:
        """A defect of ours costs one gang its place in the plan, and is told; never the others."""
        world = self._world
        members, resting = world.members.get(key, {}).values(), world.resting.get(key, "")
        better = world.recorded.get(key, {})
        try:
            gang = gang_of(key, group, members, world.invalid.get(key, ""), around, resting, better)
            # Asked of every gang in every cycle: found once, here.
            _ = gang.is_broken
        except Exception as defect:
            bare = PodGroup(metadata=Metadata(name=group.metadata.name, namespace=group.metadata.namespace))
            error = f"this is a {DEFECT}: {type(defect).__name__}: {defect}"
            gang = gang_of(key, bare, (), error, around, resting)
        return gang

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
        key = shape_of(plain, request)
        number = self._shape_of.get(key)
        if number is None:
            number = self._shape_of[key] = len(self._shapes)
            self._shapes.append(Shape(request, (), plain.spec))
        return number

    def _shape_number(self, facts: PodFacts) -> int:
        number = self._shape_of.get(facts.shape)
        if number is None:
            number = self._shape_of[facts.shape] = len(self._shapes)
            self._shapes.append(Shape(facts.request, facts.ports, facts.pod.spec))
        return number

    def _arrays(self, now_ns: int) -> Snapshot:
        if self._keys is None:
            self._keys = sorted(self._gangs)
        gangs = tuple(map(self._gangs.__getitem__, self._keys))
        waiting = sorted({batch.shape for key in self._waiting for batch in self._gangs[key].waiting})
        for shape in waiting:
            if shape not in self._allowed:
                self._look_at_shape(shape)
        asked = {resource for shape in self._shapes for resource in shape.request}
        resources = sorted(asked | {"cpu", "memory", PODS})
        tables = [self._world.room.table(which, self._room_rows, resources) for which in (ALLOCATABLE, HELD, RELEASING)]
        asks = np.zeros((len(self._shapes), len(resources)), dtype=np.int64)
        column = {resource: index for index, resource in enumerate(resources)}
        for row, shape_ in enumerate(self._shapes):
            for resource, amount in shape_.request.items():
                asks[row, column[resource]] = amount
        ports = self._ports(waiting)
        if ports:
            tables, asks = self._with_ports(ports, tables, asks)
        return Snapshot(
            now_ns=now_ns,
            nodes=self._names,
            resources=(
                *resources,
                *(f"{HOST_PORT}{port}/{protocol} on {ip or 'any IP'}" for ip, protocol, port in ports),
            ),
            allocatable=tables[0],
            free=tables[0] - tables[1],
            releasing=tables[2],
            asks=asks,
            allowed=Masks({shape: self._allowed[shape] for shape in waiting}, self._table, self._specs()),
            behind_cordons={shape: self._behind_cordons[shape] for shape in waiting if shape in self._behind_cordons},
            liked={shape: self._liked[shape] for shape in waiting if shape in self._liked},
            topologies=self._domains,
            gangs=gangs,
            queues=self._queues(),
            charges=_charges(asks, resources),
            capacity=self._capacity_now(),
            disruptions=self._guards.disruptions(self._world.pods.values(), self._row_of),
        )

    def _capacity_now(self) -> tuple[int, ...]:
        """What ready nodes have, less what pods hold there that belong to no gang, per charge."""
        room = self._world.room
        if self._capacity_at != room.changes:
            rows = self._room_rows[self._table.ready]
            resources = [resource for resource in room.resources if charge_of(resource) != NONE]
            left = room.table(ALLOCATABLE, rows, resources) - room.table(OTHERS, rows, resources)
            total = [0] * len(CHARGES)
            for column, resource in enumerate(resources):
                # Sums of hostile amounts may be more than 64 bits hold.
                total[charge_of(resource)] += sum(left[:, column].clip(min=0).tolist())
            self._capacity = tuple(min(one, UNLIMITED) for one in total)
            self._capacity_at = room.changes
        return self._capacity

    def _specs(self) -> list[PodSpec]:
        """The rules of every shape; a list that only grows is shared by all snapshots."""
        self._rules.extend(shape.spec for shape in self._shapes[len(self._rules) :])
        return self._rules

    def _look_at_shape(self, shape: int) -> None:
        spec = self._shapes[shape].spec
        self._allowed[shape] = self._table.allowed(spec)
        if self._table.cordoned:
            self._behind_cordons[shape] = self._table.allowed(spec, cordons=False) & ~self._allowed[shape]
        liked = self._table.liked(spec)
        if liked.any():
            self._liked[shape] = liked

    def _ports(self, waiting: Sequence[int]) -> list[Port]:
        """The host ports that somebody waits for, with every IP that anybody names for them."""
        wanted = {port[1:] for shape in waiting for port in self._shapes[shape].ports}
        if not wanted:
            return []
        named = {port for shape in waiting for port in self._shapes[shape].ports}
        named |= {port for facts in self._world.ported.values() for port in facts.ports if port[1:] in wanted}
        return sorted(named | {("", *port) for port in wanted})

    def _with_ports(
        self, ports: Sequence[Port], tables: Sequence[Amounts], asks: Amounts
    ) -> tuple[list[Amounts], Amounts]:
        """A host port is a resource of which every node has one; without an IP a pod takes the port of all of them."""
        columns = {port: tables[0].shape[1] + index for index, port in enumerate(ports)}
        wider = [np.zeros((len(self._names), len(columns)), dtype=np.int64) for _ in tables]
        wider[0][:] = 1
        tables = [
            np.asfortranarray(np.concatenate([one, more], axis=1)) for one, more in zip(tables, wider, strict=True)
        ]
        asks = np.concatenate([asks, np.zeros((len(asks), len(columns)), dtype=np.int64)], axis=1)
        for facts in self._world.ported.values():
            row = self._row_of.get(facts.pod.spec.node_name)
            if row is not None:
                for column in ports_taken(facts.ports, columns):
                    tables[HELD][row, column] += 1
                    tables[RELEASING][row, column] += facts.state is State.TERMINATING
        for number, shape in enumerate(self._shapes):
            asks[number, list(ports_taken(shape.ports, columns))] = 1
        return tables, asks


def _charges(asks: Amounts, resources: Sequence[str]) -> Amounts:
    """What a pod of each shape costs its queue."""
    found = np.zeros((len(asks), len(CHARGES)), dtype=np.int64)
    for column, resource in enumerate(resources):
        if charge_of(resource) != NONE:
            found[:, charge_of(resource)] += asks[:, column]
    # Nobody has that much, and sums over all pods of a gang stay within 64 bits.
    return np.minimum(found, _MOST_CHARGED)


def ports_taken(ports: Sequence[Port], columns: dict[Port, int]) -> set[int]:
    """The columns that a pod takes one of: its ports, and with no IP those of every IP. Pods that share one clash."""
    return {
        column
        for ip, protocol, number in ports
        for (other_ip, other_protocol, other_number), column in columns.items()
        if protocol == other_protocol and number == other_number and (not ip or ip == other_ip)
    }


def build(world: World, now_ns: int) -> Snapshot:
    """One snapshot of a world. Who builds often keeps a Builder."""
    return Builder(world).build(now_ns)
