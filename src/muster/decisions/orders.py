"""A plan becomes what is written to the API server, object by object, with the uid that each write is meant for.

Only what differs from what is there is written. What a gang is told about itself waits until its own binds and
evictions have happened: a status may be late, but it is never ahead of the truth.
"""

from collections.abc import Collection, Iterator, MutableMapping
from typing import Any, NamedTuple

from muster.api.podgroup import PodGroupStatus
from muster.decisions.plan import Bind, Evict, Nominate, decide
from muster.decisions.status import status_of
from muster.plan.outcome import Plan
from muster.snapshot.arrays import Gang
from muster.snapshot.kept import KEPT_ROOM_ANNOTATION, annotation_of
from muster.snapshot.world import Key, World


class BindOrder(NamedTuple):
    """A pod goes to a node, if it is still the pod with this uid. Orders of one gang are sent together."""

    gang: Key
    pod: Key
    uid: str
    node: str


class EvictOrder(NamedTuple):
    """A pod leaves its node, if it is still the pod with this uid."""

    gang: Key
    pod: Key
    uid: str
    action: str
    beneficiary: str | None


class NominateOrder(NamedTuple):
    """Which node is kept for a pod; empty: none any more."""

    pod: Key
    uid: str
    node: str


class StatusOrder(NamedTuple):
    """What the status of a PodGroup says from now on."""

    gang: Key
    uid: str
    status: PodGroupStatus


class RoomOrder(NamedTuple):
    """The annotation with the room that is kept for moved pods of a gang; empty: none any more."""

    gang: Key
    uid: str
    annotation: str


class Orders(NamedTuple):
    """All writes that follow from one plan."""

    binds: tuple[BindOrder, ...] = ()
    evictions: tuple[EvictOrder, ...] = ()
    nominations: tuple[NominateOrder, ...] = ()
    statuses: tuple[StatusOrder, ...] = ()
    rooms: tuple[RoomOrder, ...] = ()


class Told(NamedTuple):
    """What a gang was told about last: how it stood, and what came of it."""

    gang: Gang
    outcome: tuple[Any, ...]


def orders_of(
    plan: Plan, world: World, flying: Collection[Key] = (), told: MutableMapping[Key, Told] | None = None
) -> Orders:
    """What is to be written. The world is the one that the plan's snapshot was built from.

    `flying` are pods that writes were sent for before, of which nothing was seen yet. `told` remembers from one cycle
    to the next what nobody needs to look at again.
    """
    told = {} if told is None else told
    decisions = decide(plan)
    binds = tuple(_binds(decisions, world))
    evictions = tuple(_evictions(decisions, world))
    moving = {order.gang for order in binds} | {order.gang for order in evictions}
    moving |= {gang for key in flying if key in world.pods and (gang := world.pods[key].gang) is not None}
    return Orders(
        binds,
        evictions,
        tuple(_nominations(plan, decisions, world)),
        tuple(_statuses(plan, world, moving, told)),
        tuple(_rooms(plan, world)),
    )


def _binds(decisions: tuple[Bind | Nominate | Evict, ...], world: World) -> Iterator[BindOrder]:
    for one in decisions:
        if isinstance(one, Bind):
            facts = world.pods[one.namespace, one.pod]
            assert facts.gang is not None
            yield BindOrder(facts.gang, (one.namespace, one.pod), facts.pod.metadata.uid, one.node)


def _evictions(decisions: tuple[Bind | Nominate | Evict, ...], world: World) -> Iterator[EvictOrder]:
    for one in decisions:
        if isinstance(one, Evict):
            facts = world.pods[one.namespace, one.pod]
            assert facts.gang is not None
            uid = facts.pod.metadata.uid
            yield EvictOrder(facts.gang, (one.namespace, one.pod), uid, one.action, one.beneficiary)


def _nominations(plan: Plan, decisions: tuple[Bind | Nominate | Evict, ...], world: World) -> Iterator[NominateOrder]:
    """Waiting pods whose nomination is new, another one, or over. One that is being bound needs none."""
    wanted = {(one.namespace, one.pod): one.node for one in decisions if isinstance(one, Nominate)}
    bound = {(one.namespace, one.pod) for one in decisions if isinstance(one, Bind)}
    for number in plan.snapshot.waiting:
        gang = plan.snapshot.gangs[number]
        for key in ((gang.key[0], pod) for batch in gang.waiting for pod in batch.pods):
            pod = world.pods[key].pod
            node = wanted.get(key, "")
            if pod.status.nominated_node_name != node and key not in bound:
                yield NominateOrder(key, pod.metadata.uid, node)


def _statuses(plan: Plan, world: World, moving: set[Key], told: MutableMapping[Key, Told]) -> Iterator[StatusOrder]:
    waiting, broken = set(plan.snapshot.waiting), set(plan.snapshot.broken)
    for number, gang in enumerate(plan.snapshot.gangs):
        before = told.get(gang.key)
        same = before is not None and before.gang is gang
        if gang.key in moving or (same and number not in waiting and number not in broken):
            continue
        outcome = plan.outcomes[number]
        now = Told(gang, (outcome.verdict, outcome.reasons, outcome.rows))
        if same and before is not None and before.outcome == now.outcome:
            continue
        told[gang.key] = now
        group = world.groups[gang.key]
        status = status_of(plan, number, group.status, group.metadata.generation or None)
        if status != group.status:
            yield StatusOrder(gang.key, group.metadata.uid, status)


def _rooms(plan: Plan, world: World) -> Iterator[RoomOrder]:
    for number, gang in enumerate(plan.snapshot.gangs):
        kept = plan.kept.get(number, ())
        group = world.groups[gang.key]
        written = group.metadata.annotations.get(KEPT_ROOM_ANNOTATION, "")
        wanted = annotation_of(kept, gang, plan.snapshot) if kept else ""
        if written != wanted:
            yield RoomOrder(gang.key, group.metadata.uid, wanted)
