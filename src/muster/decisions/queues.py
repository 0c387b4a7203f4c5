"""Queues for people: what each holds, is due and may have, and where a gang stands in the line of its queue."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from muster.api.tree import NONE
from muster.decisions.amounts import in_queue_units
from muster.model.reasons import Code, Numbers, row_of
from muster.plan.outcome import Outcome, Plan, Verdict
from muster.snapshot.arrays import Gang, Snapshot
from muster.snapshot.queues import CHARGES, UNLIMITED, Queues


class Share(NamedTuple):
    """One queue and one charge after the cycle, in base units; `depth` is how far below the top it is."""

    queue: str
    depth: int
    charge: int
    allocated: int
    fair_share: int
    quota: int
    limit: int
    non_preemptible: int
    requested: int
    # What counts in it and is not placed yet.
    awaited: int


class PlaceInLine(NamedTuple):
    """A gang in its queue: its place among those that wait there (from 1; 0 when it does not), and the queue's shares.

    The shares of the queue itself come first, then those of the queues above it that have a quota or a limit.
    """

    queue: str
    place: int
    waiting: int
    shares: tuple[Share, ...]


def documents_of(plan: Plan) -> list[dict[str, Any]]:
    """Every queue as its status has it, in the units of a Queue (SPEC §2)."""
    queues = plan.snapshot.queues
    found = []
    for row, (name, outcome) in enumerate(zip(queues.names, plan.queues, strict=True)):
        found.append(
            {
                "name": name,
                "childQueues": sorted(queues.names[child] for child in queues.children.get(row, ())),
                "requested": amounts_of(outcome.requested),
                "allocated": amounts_of(outcome.allocated),
                "allocatedNonPreemptible": amounts_of(outcome.non_preemptible),
                "fairShare": amounts_of(outcome.fair_share),
            }
        )
    return sorted(found, key=lambda one: str(one["name"]))


def amounts_of(amounts: Sequence[int]) -> dict[str, int | float | None]:
    """Amounts per charge in the units of a Queue; None for no end."""
    return {name: in_queue_units(charge, amounts[charge]) for charge, name in enumerate(CHARGES)}


def are_told(plan: Plan) -> bool:
    """Whether there is anything to say about queues: somebody wrote them down."""
    return plan.snapshot.queues.written and bool(plan.queues)


def shares(plan: Plan) -> Iterator[list[Share]]:
    """Every queue, each before those below it, with the charges that anybody limits or has."""
    queues = plan.snapshot.queues
    matter = [
        charge
        for charge in range(len(CHARGES))
        if bool((queues.limit[:, charge] < UNLIMITED).any()) or bool((queues.quota[:, charge] < UNLIMITED).any())
    ]
    matter = matter or [charge for charge in range(len(CHARGES)) if any(one.requested[charge] for one in plan.queues)]
    for row, depth in in_order(queues):
        yield [_share(plan, row, depth, charge) for charge in reversed(matter)]


def in_order(queues: Queues) -> Iterator[tuple[int, int]]:
    """The queues by number, each before those below it, and how deep each is."""
    stack = [(row, 0) for row in reversed(queues.children.get(NONE, ()))]
    while stack:
        row, depth = stack.pop()
        yield row, depth
        stack += [(child, depth + 1) for child in reversed(queues.children.get(row, ()))]


def _share(plan: Plan, row: int, depth: int, charge: int) -> Share:
    queues, outcome = plan.snapshot.queues, plan.queues[row]
    return Share(
        queues.names[row],
        depth,
        charge,
        outcome.allocated[charge],
        outcome.fair_share[charge],
        int(queues.quota[row, charge]),
        int(queues.limit[row, charge]),
        outcome.non_preemptible[charge],
        outcome.requested[charge],
        outcome.awaited[charge],
    )


def line(plan: Plan, queue: str) -> list[int]:
    """The gangs of a queue that wait, in the order of their turns (SPEC §7): priority, minimum first, age, name."""
    return _in_order(plan, (number for number in plan.snapshot.waiting if plan.snapshot.gangs[number].queue == queue))


def lines(plan: Plan) -> dict[str, list[int]]:
    """The same for every queue in which anybody waits, at once."""
    found: dict[str, list[int]] = {}
    for number in _in_order(plan, plan.snapshot.waiting):
        found.setdefault(plan.snapshot.gangs[number].queue, []).append(number)
    return found


def _in_order(plan: Plan, numbers: Iterable[int]) -> list[int]:
    """Those that stand in line, in the order of their turns."""
    found = []
    for number in numbers:
        gang = plan.snapshot.gangs[number]
        if gang.held or not gang.ready[0]:
            continue
        outcome = plan.outcomes[number]
        if stands_in_line(outcome):
            found.append((-gang.priority, outcome.verdict is Verdict.PLACED, gang.order, number))
    return [number for *_, number in sorted(found)]


def stands_in_line(outcome: Outcome) -> bool:
    """Whether something of a gang was tried and goes without: its minimum, or surplus."""
    if outcome.verdict is not Verdict.PLACED:
        return not any(reason.code == Code.EVICTED for reason in outcome.reasons)
    return any(reason.surplus and not row_of(reason.code).not_in_line for reason in outcome.reasons)


def is_short_of_quota(outcome: Outcome) -> bool:
    """Whether a limit or a quota holds something back."""
    return any(row_of(reason.code).numbers is Numbers.QUOTA for reason in outcome.reasons)


def place_in_line(plan: Plan, number: int) -> PlaceInLine:
    """Where a gang stands after the cycle."""
    gang = plan.snapshot.gangs[number]
    waiting = line(plan, gang.queue)
    place = waiting.index(number) + 1 if number in waiting else 0
    return PlaceInLine(gang.queue, place, len(waiting), tuple(_shares_around(plan, gang)))


def _shares_around(plan: Plan, gang: Gang) -> Iterator[Share]:
    """Of what the gang asks for: its queue, and every queue above that has an end. GPUs first."""
    queues = plan.snapshot.queues
    row = queues.row_of.get(gang.queue, NONE)
    if row == NONE or not are_told(plan):
        return
    path = queues.paths[row]
    charges = [charge for charge in reversed(range(len(CHARGES))) if charge in _charges_of(gang, plan.snapshot)]
    ended = [charge for charge in charges if any(_has_end(plan, at, charge) for at in path)] or charges[:1]
    for depth, at in enumerate(path):
        for charge in ended:
            if depth == 0 or _has_end(plan, at, charge):
                yield _share(plan, at, len(path) - 1 - depth, charge)


def _has_end(plan: Plan, row: int, charge: int) -> bool:
    queues = plan.snapshot.queues
    return bool(queues.quota[row, charge] < UNLIMITED or queues.limit[row, charge] < UNLIMITED)


def _charges_of(gang: Gang, snapshot: Snapshot) -> set[int]:
    """What the pods of a gang cost its queue anything of."""
    shapes = {batch.shape for batch in gang.waiting}
    shapes.update(shape for placed in gang.placed.values() for shape in placed.shapes)
    found = snapshot.charges[sorted(shapes)] if shapes else snapshot.charges[:0]
    return {charge for charge in range(len(CHARGES)) if bool((found[:, charge] > 0).any())}


def document_of(found: PlaceInLine) -> dict[str, Any]:
    """As `muster explain -o json` prints it, in the units of a Queue; null for no end."""
    return {
        "name": found.queue,
        "position": found.place or None,
        "waiting": found.waiting,
        "shares": [
            {
                "queue": one.queue,
                "resource": CHARGES[one.charge],
                "allocated": in_queue_units(one.charge, one.allocated),
                "allocatedNonPreemptible": in_queue_units(one.charge, one.non_preemptible),
                "fairShare": in_queue_units(one.charge, one.fair_share),
                "quota": in_queue_units(one.charge, one.quota),
                "limit": in_queue_units(one.charge, one.limit),
            }
            for one in found.shares
        ],
    }
