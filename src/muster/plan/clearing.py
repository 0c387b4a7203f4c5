"""Rules of clearances: which pods an EvictionRequest may name, and what is answered.

Victims are what SPEC §8 calls a unit: surplus, or a gang as a whole. Who evicts them has rights of their own; the
scheduler keeps the room for the beneficiary until they are gone. Nothing is granted unless the beneficiary is then
`Placed`, and unless its reserved room would stay reserved when the owners of the victims create them again.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from muster.api.tree import NONE, Tree, core, satisfied
from muster.model.reasons import Code
from muster.plan.outcome import Action, Answer, Eviction, Reason, Verdict
from muster.snapshot.arrays import Clearance, Counts, Gang, Snapshot

GRANTED, REFUSED, EXPIRED, DONE = "Granted", "Refused", "Expired", "Done"
# How long the room is reserved.
RESERVED_NS = 300 * 10**9

Spots = set[tuple[int, int]]


class Why:
    """Why a request is answered as it is, beside what is found when it is read."""

    ROOM_RESERVED = "RoomReserved"
    PLACED = "BeneficiaryPlaced"
    NOT_NEEDED = "NotNeeded"
    NOT_WAITING = "BeneficiaryNotWaiting"
    NOT_READY = "BeneficiaryNotReady"
    ANOTHER_REQUEST = "AnotherRequest"
    NOT_PREEMPTIBLE = "NotPreemptible"
    CORE_POD = "CorePod"
    PART_OF_MINIMUM = "PartOfMinimum"
    WOULD_RETURN = "WouldReturn"
    DISRUPTION_BUDGET = "DisruptionBudget"
    DOES_NOT_FIT = "DoesNotFit"
    NOT_ALLOWED = "NotAllowed"
    DEADLINE = "DeadlineExceeded"


class Objection(NamedTuple):
    """Why a clearance can't be granted, and the gang that it is about."""

    why: str
    gang: int
    detail: str = ""


def evictions_of(clearance: Clearance) -> tuple[Eviction, ...]:
    """The victims as evictions for the beneficiary, to be judged by the same rules."""
    return tuple(Eviction(*spot, Action.REQUEST, clearance.gang) for spot in clearance.victims)


def objection_to(clearance: Clearance, snapshot: Snapshot) -> Objection | None:
    """Why the victims may not leave, or would take the room back. Whether the beneficiary fits is asked elsewhere."""
    winner = snapshot.gangs[clearance.gang]
    gone: dict[int, Spots] = {}
    for number, leaf, at in clearance.victims:
        gone.setdefault(number, set()).add((leaf, at))
    for number, spots in gone.items():
        gang = snapshot.gangs[number]
        why = _why_not(gang, spots) if number != clearance.gang else Why.PART_OF_MINIMUM
        if not why and gang.queue == winner.queue and gang.priority > winner.priority:
            # Reserved room is open to a higher priority of the same queue.
            why = Why.WOULD_RETURN
        if why:
            return Objection(why, number)
    left = list(snapshot.disruptions)
    for number, leaf, at in clearance.victims:
        placed = snapshot.gangs[number].placed[leaf]
        for guard in placed.guards[at] if placed.guards else ():
            left[guard] -= 1
            if left[guard] < 0:
                return Objection(Why.DISRUPTION_BUDGET, number, placed.pods[at])
    return None


def _why_not(gang: Gang, gone: Spots) -> str:
    """The rule that keeps these pods of a gang where they are."""
    if gang.is_firm or any(issue.code == Code.INVALID for issue in gang.held):
        return Why.NOT_PREEMPTIBLE
    if not gang.is_preemptible and any(spot in gone for spot in _core(gang)):
        return Why.CORE_POD
    left = {leaf: len(placed.nodes) for leaf, placed in gang.placed.items()}
    after = list(gang.present)
    for leaf, _ in gone:
        left[leaf] -= 1
        after[leaf] -= 1
    parted = _breaks(gang.tree, gang.present, after, left) or _parts(gang, gone, after, left)
    return Why.PART_OF_MINIMUM if parted else ""


def _breaks(tree: Tree, before: tuple[int, ...], after: Sequence[int], left: Mapping[int, int]) -> bool:
    """Whether a tree node that counted loses its minimum, and some of it stays."""
    was, now = satisfied(tree, before), satisfied(tree, after)
    for row, node in enumerate(tree.nodes):
        # Below a broken child everything is left over.
        was[row] = was[row] and (not was[0] or node.parent == NONE or was[node.parent])
        if was[row] and not now[row] and any(left.get(leaf, 0) for leaf in tree.leaves_below(row)):
            return True
    return False


def _parts(gang: Gang, gone: Spots, after: Sequence[int], left: Mapping[int, int]) -> bool:
    """Whether a joined child breaks, or was broken and loses more, and some of its parent stays."""
    tree = gang.tree
    if not any(gang.joined):
        return False
    now = satisfied(tree, after)
    losing = {row for row in range(1, len(tree.nodes)) for leaf, _ in gone if row <= leaf < tree.ends[row]}
    return any(
        gang.joined[row]
        and not now[row]
        and any(left.get(leaf, 0) for leaf in tree.leaves_below(tree.nodes[row].parent))
        for row in losing
    )


def _core(gang: Gang) -> Iterator[tuple[int, int]]:
    """The pods that are core: the oldest of every leaf, as many as its minimum needs, and those of a floor."""
    rows = range(len(gang.tree.nodes))
    placed = [len(gang.placed[row].nodes) if row in gang.placed else 0 for row in rows]
    succeeded = [gang.counts.get(row, Counts()).succeeded for row in rows]
    found = core(gang.tree, placed, succeeded, gang.was_core, gang.joined)
    further = []
    for leaf, here in gang.placed.items():
        for at in range(len(here.nodes)):
            if at < found.pods[leaf]:
                yield leaf, at
            else:
                further.append((here.ages[at] if here.ages else at, leaf, at))
    yield from ((leaf, at) for _, leaf, at in sorted(further)[: found.floor_pods])


class Opened(NamedTuple):
    """The clearances of a cycle: by beneficiary those that are tried, and what is said to the others."""

    tried: dict[int, Clearance]
    answers: tuple[Answer, ...]


def opened(snapshot: Snapshot) -> Opened:
    """Which clearances are tried. Each beneficiary, and each victim, is in one of them at most."""
    tried: dict[int, Clearance] = {}
    answers: list[Answer] = []
    taken: dict[tuple[int, int, int], Clearance] = {}
    for one in snapshot.clearances:
        other = tried.get(one.gang) or next((taken[spot] for spot in one.victims if spot in taken), None)
        found = _at_once(one, other, snapshot)
        if found is not None:
            answers.append(found)
        elif one.gang not in tried:
            tried[one.gang] = one
            taken.update(dict.fromkeys(one.victims, one))
    return Opened(tried, tuple(answers))


def _at_once(one: Clearance, other: Clearance | None, snapshot: Snapshot) -> Answer | None:
    """What can be answered before anything is tried; None: it is to be tried."""
    no = EXPIRED if one.granted else REFUSED

    def say(phase: str, why: str, gang: int = one.gang, detail: str = "") -> Answer:
        return Answer(one.name, one.uid, phase, why, gang, detail)

    if one.problem:
        return say(no, one.problem, detail=one.detail)
    gang = snapshot.gangs[one.gang]
    if gang.satisfied[0]:
        return say(DONE, Why.PLACED) if one.granted else say(REFUSED, Why.NOT_NEEDED)
    if snapshot.now_ns >= one.until_ns:
        return say(EXPIRED, Why.DEADLINE)
    if other is not None:
        return say(no, Why.ANOTHER_REQUEST, detail="/".join(other.name))
    if not one.granted and (gang.held or not gang.ready[0]):
        # One that is granted stays so until its time is over: what holds the gang may pass.
        return say(no, Why.NOT_WAITING, detail=gang.held[0].code) if gang.held else say(no, Why.NOT_READY)
    found = objection_to(one, snapshot)
    return say(no, *found) if found is not None else None


def answer_late(clearance: Clearance, verdict: Verdict, reasons: Sequence[Reason], *, in_vain: bool) -> Answer | None:
    """What is answered when the beneficiary had its turn and got no room of the victims; None: it stays as it is.

    `in_vain`: it is proved that the beneficiary does not fit when they are gone.
    """

    def say(phase: str, why: str, detail: str = "") -> Answer:
        return Answer(clearance.name, clearance.uid, phase, why, clearance.gang, detail)

    if clearance.granted:
        # What was reserved may be there again while the reservation lasts.
        return None
    if verdict is Verdict.PLACED:
        # Without the victims: bound, or nominated to room that other pods leave.
        return say(REFUSED, Why.NOT_NEEDED)
    faults = [reason.detail for reason in reasons if reason.code == Code.SCHEDULER_ERROR]
    if faults:
        return say(REFUSED, Why.NOT_ALLOWED, faults[0])
    return say(REFUSED, Why.DOES_NOT_FIT) if in_vain else None


def grant(clearance: Clearance, snapshot: Snapshot) -> Answer:
    """The room is reserved, and stands in the status of the beneficiary's pods."""
    gangs = frozenset({clearance.gang, *(number for number, _, _ in clearance.victims)})
    until_ns = snapshot.now_ns + RESERVED_NS
    return Answer(
        clearance.name, clearance.uid, GRANTED, Why.ROOM_RESERVED, clearance.gang, until_ns=until_ns, gangs=gangs
    )
