"""A plan becomes what is written to the API server, object by object, with the uid that each write is meant for.

Only what differs from what is there is written. What a gang is told about itself waits until its own binds and
evictions have happened: a status may be late, but it is never ahead of the truth.
"""

import itertools
from collections.abc import Collection, Iterable, Iterator, MutableMapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
from msgspec import structs

from muster.api.admitted import Mark
from muster.api.evictionrequest import EvictionRequestStatus
from muster.api.podgroup import KEPT_ROOM_ANNOTATION, KeptRoom, PodGroup, PodGroupStatus
from muster.api.queue import QueueStatus
from muster.decisions.clearances import status_of as answer_status
from muster.decisions.losses import over_budgets
from muster.decisions.notes import Note, note_of
from muster.decisions.plan import Bind, Evict, Nominate, decide
from muster.decisions.queue_status import status_of as queue_status_of
from muster.decisions.queues import are_told
from muster.decisions.signals import ACCEPTED, NO_WORDS, Signal, Words, signal, signals_of
from muster.decisions.status import fitting, status_of
from muster.plan.outcome import Plan
from muster.snapshot.arrays import Gang
from muster.snapshot.kept import status_of_kept
from muster.snapshot.quarantine import GANG, Quarantined, Thing, said_of
from muster.snapshot.world import Key, State, World

# The `schedulingBackoff` of those who want to be told after one failure.
_ONCE = 1
# What a store takes of one object, with a margin; below so many rows nobody needs to count.
_LARGEST_OBJECT, _MANY_ROWS = 1_400_000, 1_000


class BindOrder(NamedTuple):
    """A pod goes to a node, if it is still the pod with this uid. Orders of one gang are sent together.

    `mark` is the admission mark that goes with the Binding.
    """

    gang: Key
    pod: Key
    uid: str
    node: str
    mark: str = ""


class EvictOrder(NamedTuple):
    """A pod leaves its node, if it is still the pod with this uid. Where `over` says why, it is deleted whatever its
    disruption budgets say; else they are asked.
    """

    gang: Key
    pod: Key
    uid: str
    action: str
    beneficiary: str | None
    over: str = ""


class NominateOrder(NamedTuple):
    """Which node is kept for a pod; empty: none any more."""

    gang: Key
    pod: Key
    uid: str
    node: str


class StatusOrder(NamedTuple):
    """What the status of a PodGroup says from now on, and what there is to say about the change."""

    gang: Key
    uid: str
    status: PodGroupStatus
    note: Note | None
    queue: str
    # How long the gang waited for its minimum, in the cycle that placed it.
    waited_s: float | None


class QueueOrder(NamedTuple):
    """What the status of a Queue says from now on."""

    queue: str
    uid: str
    status: QueueStatus


class SignalOrder(NamedTuple):
    """What a waiting pod of a gang is told from now on."""

    gang: Key
    signal: Signal


class RoomOrder(NamedTuple):
    """The room that is kept for moved pods of a gang; empty: none any more. `queue` is the one that admitted them: kept
    room of a gang without one is not believed. `drops` is an annotation of older versions that goes: its owner can
    write it.
    """

    gang: Key
    uid: str
    kept: tuple[KeptRoom, ...]
    queue: str = ""
    drops: str = ""


class AnswerOrder(NamedTuple):
    """What the status of an EvictionRequest says from now on. `gangs` are those whose pods are to leave and for which
    room is reserved, when it is granted.
    """

    request: Key
    uid: str
    status: EvictionRequestStatus
    gangs: frozenset[Key] = frozenset()


class Orders(NamedTuple):
    """All writes that follow from one plan, and the name under which logs, events and statuses speak of it."""

    binds: tuple[BindOrder, ...] = ()
    evictions: tuple[EvictOrder, ...] = ()
    nominations: tuple[NominateOrder, ...] = ()
    statuses: tuple[StatusOrder, ...] = ()
    rooms: tuple[RoomOrder, ...] = ()
    signals: tuple[SignalOrder, ...] = ()
    queues: tuple[QueueOrder, ...] = ()
    decision: str = ""
    answers: tuple[AnswerOrder, ...] = ()


def parts_of(evictions: Iterable[EvictOrder]) -> list[list[EvictOrder]]:
    """Evictions that are only right together: those of one gang, those for one gang, and so on from these."""
    part_of: dict[Any, list[EvictOrder]] = {}
    for order in evictions:
        ends = order.gang, order.beneficiary or order.gang
        near = {id(part_of[end]): part_of[end] for end in ends if end in part_of}
        joined = [*itertools.chain.from_iterable(near.values()), order]
        for one in joined:
            part_of[one.gang] = part_of[one.beneficiary or one.gang] = joined
    return list({id(part): part for part in part_of.values()}.values())


class Told(NamedTuple):
    """What a gang was told about last: how it stood, and what came of it."""

    gang: Gang
    outcome: tuple[Any, ...]


@dataclass
class Memory:
    """What was told, from one cycle to the next, so that nobody looks at it again; by gang and by queue."""

    gangs: dict[Key, Told] = field(default_factory=dict)
    queues: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    # The status that was ordered for a gang, and the one that stood there, the names of decisions aside.
    statuses: dict[Key, tuple[str, PodGroupStatus, PodGroupStatus]] = field(default_factory=dict)
    # By request: its uid and what it was answered.
    answers: dict[Key, tuple[str, str]] = field(default_factory=dict)

    def keep(self, world: World) -> None:
        """Forgets who is gone."""
        for known in (self.gangs, self.statuses):
            for gang in known.keys() - world.groups.keys():
                del known[gang]
        for queue in self.queues.keys() - world.queues.keys():
            del self.queues[queue]
        for request in self.answers.keys() - world.requests.keys():
            del self.answers[request]

    def untold(self, gang: Key) -> None:
        """Something that was ordered for a gang, or for a pod of it, did not reach it."""
        self.gangs.pop(gang, None)
        self.statuses.pop(gang, None)


def orders_of(
    plan: Plan,
    world: World,
    flying: Collection[Key] = (),
    memory: Memory | None = None,
    decision: str = "",
    words: Words = NO_WORDS,
) -> Orders:
    """What is to be written. The world is the one that the plan's snapshot was built from.

    `flying` are gangs with pods for which writes were sent before, of which nothing was seen yet; `words` are on their
    way to pods.
    """
    memory = memory or Memory()
    memory.keep(world)
    decisions = decide(plan)
    binds = tuple(_binds(plan, decisions, world))
    evictions = tuple(_evictions(decisions, plan, world))
    moving = {*flying, *(order.gang for order in binds), *(order.gang for order in evictions)}
    anew = _told_anew(plan, moving, memory.gangs)
    return Orders(
        binds,
        evictions,
        tuple(_nominations(decisions, world)),
        tuple(_statuses(plan, anew, world, decision, memory.statuses)),
        tuple(_rooms(plan, moving - {order.gang for order in evictions}, world)),
        (
            *_signals(plan, anew, world, words),
            *_mended(binds, world),
            *_of_nobody(world, words),
        ),
        tuple(_queues(plan, world, memory.queues)),
        decision,
        tuple(_answers(plan, world, memory.answers)),
    )


def _binds(plan: Plan, decisions: tuple[Bind | Nominate | Evict, ...], world: World) -> Iterator[BindOrder]:
    admitting = (plan.snapshot.gangs[number] for number in {one.gang for one in plan.placements})
    marks = {gang.key: Mark(gang.queue, world.groups[gang.key].metadata.uid).text for gang in admitting}
    for one in decisions:
        if isinstance(one, Bind):
            facts = world.pods[one.namespace, one.pod]
            assert facts.gang is not None
            uid = facts.pod.metadata.uid
            yield BindOrder(facts.gang, (one.namespace, one.pod), uid, one.node, marks[facts.gang])


def _evictions(decisions: tuple[Bind | Nominate | Evict, ...], plan: Plan, world: World) -> Iterator[EvictOrder]:
    over = over_budgets(plan)
    for one in decisions:
        if isinstance(one, Evict):
            facts = world.pods[one.namespace, one.pod]
            uid = facts.pod.metadata.uid
            said = over.get((one.namespace, one.pod), "")
            # A pod of no gang at all is one by itself.
            gang = facts.gang or (one.namespace, one.pod)
            yield EvictOrder(gang, (one.namespace, one.pod), uid, one.action, one.beneficiary, said)


def _told_anew(plan: Plan, moving: set[Key], told: MutableMapping[Key, Told]) -> list[int]:
    """The gangs that may have to be told something: made anew, or with another outcome than before.

    Not those with pods under way: what is to be told has not happened yet.
    """
    found = []
    unsettled = {*plan.snapshot.waiting, *plan.snapshot.broken}
    for number, gang in enumerate(plan.snapshot.gangs):
        if gang.loose:
            continue
        before = told.get(gang.key)
        same = before is not None and before.gang is gang
        if gang.key in moving or (same and number not in unsettled):
            continue
        outcome = plan.outcomes[number]
        now = Told(gang, (outcome.verdict, outcome.reasons, outcome.rows))
        if not same or before is None or before.outcome != now.outcome:
            told[gang.key] = now
            found.append(number)
    return found


def _nominations(decisions: tuple[Bind | Nominate | Evict, ...], world: World) -> Iterator[NominateOrder]:
    """Every waiting pod whose nomination is new, another one, or over. One that is being bound needs none."""
    wanted = {(one.namespace, one.pod): one.node for one in decisions if isinstance(one, Nominate)}
    bound = {(one.namespace, one.pod) for one in decisions if isinstance(one, Bind)}
    for key in sorted({*wanted, *world.nominated} - bound):
        facts, node = world.pods[key], wanted.get(key, "")
        # Whoever is moved has its place; the room is for its successor.
        waits = facts.state is State.WAITING and facts.pod.status.nominated_node_name != node
        if waits and facts.gang is not None:
            yield NominateOrder(facts.gang, key, facts.pod.metadata.uid, node)


def _statuses(
    plan: Plan,
    anew: Collection[int],
    world: World,
    decision: str,
    ordered: MutableMapping[Key, tuple[str, PodGroupStatus, PodGroupStatus]],
) -> Iterator[StatusOrder]:
    """Statuses that are others now. One that comes back as it was is not ordered again: a server with older definitions
    keeps less than it is told.
    """
    for number in anew:
        gang = plan.snapshot.gangs[number]
        group = world.groups[gang.key]
        try:
            status = _status(plan, number, group)
        except Exception as defect:
            _leave_out(plan, number, world, defect)
            continue
        if status == group.status:
            ordered.pop(gang.key, None)
            continue
        order = group.metadata.uid, _unnamed(status), _unnamed(group.status)
        if ordered.get(gang.key) == order:
            continue
        ordered[gang.key] = order
        started = status.start_time is not None and group.status.start_time is None
        waited_s = max(0, plan.snapshot.now_ns - gang.created_ns) / 10**9 if started and gang.created_ns else None
        note = note_of(group.status, status)
        status = structs.replace(status, decision=decision)
        yield StatusOrder(gang.key, group.metadata.uid, status, note, gang.queue, waited_s)


def _status(plan: Plan, number: int, group: PodGroup) -> PodGroupStatus:
    """The status that a gang is to have, in a size that an API server takes."""
    backs_off = group.spec.scheduling_backoff == _ONCE
    status = status_of(plan, number, group.status, group.metadata.generation or None, backs_off=backs_off)
    if len(status.sub_groups) <= _MANY_ROWS:
        return status
    other = 2 * len(msgspec.json.encode(group.spec)) + len(msgspec.json.encode(status.kept))
    return fitting(status, _LARGEST_OBJECT - other)


def _leave_out(plan: Plan, number: int, world: World, defect: Exception) -> None:
    """A gang of which muster can't say how it stands is not planned, and others are told all the same."""
    thing = Thing(GANG, *plan.snapshot.gangs[number].key)
    if thing not in world.quarantine or not world.quarantine[thing].unknown:
        world.leave_out(thing, Quarantined(said_of(defect)))


def _unnamed(status: PodGroupStatus) -> PodGroupStatus:
    return structs.replace(status, decision="")


def _signals(plan: Plan, anew: Collection[int], world: World, words: Words) -> Iterator[SignalOrder]:
    for number in anew:
        try:
            signals = list(signals_of(plan, number, world, words))
        except Exception as defect:
            _leave_out(plan, number, world, defect)
            continue
        for one in signals:
            yield SignalOrder(plan.snapshot.gangs[number].key, one)


def _mended(binds: Collection[BindOrder], world: World) -> Iterator[SignalOrder]:
    """Who is bound is set aside no longer."""
    for order in binds:
        pod = world.pods[order.pod].pod
        if any(one.type == ACCEPTED and one.status == "False" for one in pod.status.conditions):
            yield SignalOrder(order.gang, Signal(order.pod, order.uid, (), (ACCEPTED,)))


def _of_nobody(world: World, words: Words) -> Iterator[SignalOrder]:
    """Pods whose PodGroup is not there: nothing that was said about it is so any more."""
    for gang in sorted(world.members.keys() - world.groups.keys()):
        for facts in world.members[gang].values():
            for one in signal(facts.pod, (), words):
                yield SignalOrder(gang, one)


def _queues(plan: Plan, world: World, told: MutableMapping[str, tuple[Any, ...]]) -> Iterator[QueueOrder]:
    """Queues whose status is another one now; nothing where nobody wrote queues down."""
    queues = plan.snapshot.queues
    if not are_told(plan):
        return
    for name, queue in world.queues.items():
        row = queues.row_of.get(name)
        children = tuple(queues.names[child] for child in queues.children.get(row, ())) if row is not None else ()
        now = queue, queues.cut_off.get(name), plan.queues[row] if row is not None else None, children
        before = told.get(name)
        if before is not None and before[0] is queue and before[1:] == now[1:]:
            continue
        told[name] = now
        status = queue_status_of(plan, name, queue.status, queue.metadata.generation or None)
        if status != queue.status:
            yield QueueOrder(name, queue.metadata.uid, status)


def _answers(plan: Plan, world: World, told: MutableMapping[Key, tuple[str, str]]) -> Iterator[AnswerOrder]:
    """What EvictionRequests are answered, each once."""
    for one in plan.answers:
        if told.get(one.name) != (one.uid, one.phase):
            told[one.name] = one.uid, one.phase
            status = answer_status(one, plan, world.requests[one.name].status)
            yield AnswerOrder(one.name, one.uid, status, frozenset(plan.snapshot.gangs[at].key for at in one.gangs))


def _rooms(plan: Plan, moving: Collection[Key], world: World) -> Iterator[RoomOrder]:
    """Room that is kept for moved pods, and no longer. While pods are `moving` there, it stays."""
    gangs = plan.snapshot.gangs
    known = (number for number, gang in enumerate(gangs) if gang.key in world.keeping) if world.keeping else ()
    over = {number for number in known if gangs[number].kept or gangs[number].key not in moving}
    for number in sorted({*plan.kept, *over}):
        gang, kept = gangs[number], plan.kept.get(number, ())
        group = world.groups[gang.key]
        wanted = status_of_kept(kept, gang, plan.snapshot)
        drops = KEPT_ROOM_ANNOTATION if KEPT_ROOM_ANNOTATION in group.metadata.annotations else ""
        if wanted != group.status.kept or drops:
            yield RoomOrder(gang.key, group.metadata.uid, tuple(wanted), gang.queue, drops)
