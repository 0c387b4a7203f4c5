"""What the status of a PodGroup says after a cycle (SPEC §2): per tree node, as conditions, and in one word.

Core, joined, lost, staleSince, startTime, admittedQueue and kept are state that the next process reads back; everything
else can be told again.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import msgspec
from msgspec import structs

from muster.api.model import Condition
from muster.api.podgroup import ChildCounts, PodCounts, PodGroupStatus, ResourcesStatus, SubGroupStatus
from muster.decisions.plan import core_rows, domain_of
from muster.decisions.words import foremost, sentence, told
from muster.model.reasons import Code
from muster.plan.accounts import firm_shapes
from muster.plan.outcome import Outcome, Plan, Verdict
from muster.snapshot.arrays import Counts, Gang, Snapshot
from muster.snapshot.gangs import is_reserved
from muster.snapshot.requests import HOST_PORT, PODS

ACCEPTED, PODS_PRESENT, SCHEDULED, STALE = "Accepted", "PodsPresent", "Scheduled", "Stale"
UNSCHEDULABLE_ON_NODE_POOL = "UnschedulableOnNodePool"
PENDING, RUNNING, COMPLETED, INVALID = "Pending", "Scheduled", "Completed", "Invalid"
_NS = 10**9
# What a row has more when it is written than when it is encoded: what is false or nothing, and who owns each field.
_ROW_BYTES = 140
# The most resources that no node offers in the sums of a status.
_MOST_UNOFFERED = 16


def status_of(
    plan: Plan, number: int, before: PodGroupStatus, generation: int | None = None, *, backs_off: bool = False
) -> PodGroupStatus:
    """The status of one gang, by its number in the snapshot, as a change of the one that it has.

    Of an invalid gang nobody can say what belongs to it: what was known of its tree stays for the day that it is
    mended, and no sums are told. One that `backs_off` is told when there is no place for it.
    """
    gang, outcome, snapshot = plan.snapshot.gangs[number], plan.outcomes[number], plan.snapshot
    now = time_of(snapshot.now_ns)
    if gang.unknown:
        return _left_out(gang, outcome, snapshot, before, generation)
    invalid = any(issue.code == Code.INVALID for issue in gang.held)
    conditions = list(_conditions(gang, outcome, snapshot, generation, invalid=invalid, backs_off=backs_off))
    found = structs.replace(
        before,
        phase=_phase(gang, outcome, invalid=invalid),
        conditions=[since(one, before.conditions, now) for one in conditions],
        reason="" if outcome.satisfied else _foremost_code(outcome),
        start_time=_start_time(outcome, before, now),
        admitted_queue=_admitted_queue(gang, outcome, before),
        admitted_preemptibility=gang.preemptibility if outcome.rows[0].placed else "",
    )
    if invalid:
        stays = structs.replace(
            found,
            reason=INVALID,
            start_time=before.start_time,
            admitted_queue=before.admitted_queue,
            admitted_preemptibility=before.admitted_preemptibility,
        )
        return structs.replace(stays, ready="", pods_summary="", resources_status=ResourcesStatus())
    rows = _rows(gang, outcome, snapshot)
    return structs.replace(
        found,
        ready=_ready(gang, outcome),
        pods_summary=f"{outcome.rows[0].placed}/{gang.minimum_pods[0]}/{outcome.rows[0].total}",
        sub_groups=rows,
        resources_status=_resources(gang, snapshot),
    )


def _left_out(
    gang: Gang, outcome: Outcome, snapshot: Snapshot, before: PodGroupStatus, generation: int | None
) -> PodGroupStatus:
    """A gang on which muster stumbles: all that was known of it stays, but for the reason."""
    first = foremost(outcome)
    said = sentence(first.reason, gang, snapshot, first.others) if first is not None else ""
    was = next((one.status for one in before.conditions if one.type == SCHEDULED), "False")
    scheduled = Condition(
        type=SCHEDULED, status=was, reason=Code.SCHEDULER_ERROR, message=said, observed_generation=generation
    )
    others = [one for one in before.conditions if one.type != SCHEDULED]
    return structs.replace(
        before,
        phase=before.phase or PENDING,
        reason=Code.SCHEDULER_ERROR,
        conditions=[*others, since(scheduled, before.conditions, time_of(snapshot.now_ns))],
    )


def fitting(status: PodGroupStatus, most: int) -> PodGroupStatus:
    """The status in so many bytes, roughly: of very large trees the nodes that hold nothing go first, and the last of
    these and of the others.
    """
    sizes = [len(msgspec.json.encode(row)) + _ROW_BYTES for row in status.sub_groups]
    if sum(sizes) <= most:
        return status
    held = [
        bool(row.core or row.joined or row.pods.placed or row.pods.succeeded or row.stale_since)
        for row in status.sub_groups
    ]
    found: set[int] = {0}
    left = most - sizes[0]
    for wanted in (True, False):
        for at in range(1, len(sizes)):
            if held[at] is wanted and sizes[at] <= left:
                found.add(at)
                left -= sizes[at]
    return structs.replace(status, sub_groups=[row for at, row in enumerate(status.sub_groups) if at in found])


def status_document(status: PodGroupStatus) -> dict[str, Any]:
    """The status as it is written. What everybody asks of a tree node stands there also when it is false or nothing."""
    document: dict[str, Any] = msgspec.to_builtins(status)
    for row, one in zip(document.get("subGroups", ()), status.sub_groups, strict=True):
        row |= {"name": one.name, "satisfied": one.satisfied, "core": one.core, "minimum": one.minimum}
        row["pods"] = {field: getattr(one.pods, field) for field in PodCounts.__struct_fields__}
    return document


def time_of(nanoseconds: int) -> datetime:
    """A moment as Kubernetes writes it: whole seconds."""
    return datetime.fromtimestamp(nanoseconds // _NS, UTC)


def _phase(gang: Gang, outcome: Outcome, *, invalid: bool) -> str:
    if invalid:
        return INVALID
    if outcome.satisfied:
        return COMPLETED if is_completed(gang, outcome) else RUNNING
    return STALE if outcome.rows[0].stale_since_ns else PENDING


def is_completed(gang: Gang, outcome: Outcome) -> bool:
    """Whether all its pods have succeeded, and they were enough."""
    succeeded = sum(counts.succeeded for counts in gang.counts.values())
    # Some of them may have been deleted since.
    there = sum(min(counts.succeeded, counts.total) for counts in gang.counts.values())
    return outcome.satisfied and bool(succeeded) and there == outcome.rows[0].total


def _foremost_code(outcome: Outcome) -> str:
    first = foremost(outcome)
    return first.reason.code if first is not None else outcome.verdict.value


def _start_time(outcome: Outcome, before: PodGroupStatus, now: datetime) -> datetime | None:
    """When the minimum was placed. A gang of which nothing is left starts anew."""
    if outcome.satisfied:
        return before.start_time or now
    return before.start_time if outcome.rows[0].placed else None


def _admitted_queue(gang: Gang, outcome: Outcome, before: PodGroupStatus) -> str:
    """The queue that is charged for what is placed. It stays while room is kept for pods that were moved."""
    return gang.queue if outcome.rows[0].placed or before.kept else ""


def _ready(gang: Gang, outcome: Outcome) -> str:
    root = gang.tree.nodes[0]
    if not root.children:
        return f"{int(outcome.satisfied)}/1"
    return f"{sum(outcome.rows[child].satisfied for child in root.children)}/{root.minimum}"


def _rows(gang: Gang, outcome: Outcome, snapshot: Snapshot) -> list[SubGroupStatus]:
    """One per tree node. A reason stands at the node that it is about."""
    chosen = core_rows(gang, outcome)
    first_of = {one.reason.row: one for one in reversed(told(outcome))}
    found = []
    for number, (node, row) in enumerate(zip(gang.tree.nodes, outcome.rows, strict=True)):
        below = gang.tree.leaves_below(number)
        succeeded = sum(gang.counts.get(leaf, Counts()).succeeded for leaf in below)
        said = first_of.get(number)
        found.append(
            SubGroupStatus(
                name=node.name,
                satisfied=row.satisfied,
                core=chosen[number],
                pods=PodCounts(total=row.total, pending=row.pending, placed=row.placed, succeeded=succeeded),
                children=ChildCounts(
                    total=len(node.children), satisfied=sum(outcome.rows[child].satisfied for child in node.children)
                ),
                minimum=node.minimum,
                domain=domain_of(row, snapshot),
                preferred_met=row.preferred_met,
                reason=said.reason.code if said else "",
                message=sentence(said.reason, gang, snapshot, said.others) if said else "",
                stale_since=time_of(row.stale_since_ns) if row.stale_since_ns else None,
                joined=row.joined,
                lost=row.lost,
            )
        )
    return found


def _conditions(
    gang: Gang, outcome: Outcome, snapshot: Snapshot, generation: int | None, *, invalid: bool, backs_off: bool
) -> Iterator[Condition]:
    """Accepted, PodsPresent, Scheduled; while it is so Stale and, for who asked for it, UnschedulableOnNodePool."""

    def made(kind: str, holds: bool, reason: str, message: str = "") -> Condition:
        status = "True" if holds else "False"
        return Condition(type=kind, status=status, reason=reason, message=message, observed_generation=generation)

    first = foremost(outcome)
    message = sentence(first.reason, gang, snapshot, first.others) if first is not None else ""
    if invalid:
        yield made(ACCEPTED, False, INVALID, next(one.detail for one in gang.held if one.code == Code.INVALID))
        # A tree that nobody can read may well ask for nothing: that is not yet placed.
        yield made(SCHEDULED, outcome.satisfied and outcome.rows[0].placed > 0, INVALID, message)
        return
    yield made(ACCEPTED, True, "Valid")
    present = gang.ready[0]
    yield made(PODS_PRESENT, present, "EnoughPods" if present else Code.WAITING_FOR_PODS, "" if present else message)
    if outcome.satisfied:
        yield made(SCHEDULED, True, "MinimumPlaced")
    else:
        codes = {reason.code for reason in outcome.reasons}
        code = Code.WAITING_FOR_ROOM if Code.WAITING_FOR_ROOM in codes else _foremost_code(outcome)
        yield made(SCHEDULED, False, code, message)
    if outcome.rows[0].stale_since_ns:
        yield made(STALE, True, "BelowMinimum", message)
    if backs_off and outcome.verdict is Verdict.INFEASIBLE:
        yield made(UNSCHEDULABLE_ON_NODE_POOL, True, _foremost_code(outcome), message)


def since(condition: Condition, before: Sequence[Condition], now: datetime) -> Condition:
    """Its time is that of the last change; waiting for reserved room is a state of its own."""
    same = next((one for one in before if one.type == condition.type and _state(one) == _state(condition)), None)
    since = same.last_transition_time if same is not None and same.last_transition_time is not None else now
    return structs.replace(condition, last_transition_time=since)


def _state(condition: Condition) -> tuple[str, bool]:
    return condition.status, is_reserved(condition)


def _resources(gang: Gang, snapshot: Snapshot) -> ResourcesStatus:
    """What its pods ask for and hold, before this cycle's pods are bound: what is told has happened."""
    placed = [shape for here in gang.placed.values() for shape in here.shapes]
    waiting = [batch.shape for batch in gang.waiting for _ in batch.pods]
    return ResourcesStatus(
        requested=_amounts([*placed, *waiting], snapshot),
        allocated=_amounts(placed, snapshot),
        allocated_non_preemptible=_amounts(firm_shapes(gang), snapshot),
    )


def _amounts(shapes: Iterable[int], snapshot: Snapshot) -> dict[str, str | int | float]:
    rows = list(shapes)
    if not rows:
        return {}
    totals = zip(snapshot.resources, snapshot.asks[rows].sum(axis=0).tolist(), strict=True)
    amounts = {resource: total for resource, total in totals if total}
    # Of what no node offers a status does not say everything: these are names that a tenant made up.
    for shape, pods in Counter(rows).items():
        for resource, amount in islice(snapshot.unoffered.get(shape, {}).items(), _MOST_UNOFFERED):
            if resource in amounts or len(amounts) < len(snapshot.resources) + _MOST_UNOFFERED:
                amounts[resource] = amounts.get(resource, 0) + pods * amount
    return {
        resource: _quantity(resource, total)
        for resource, total in amounts.items()
        # A port is no amount that anybody could read.
        if resource != PODS and not resource.startswith(HOST_PORT)
    }


def _quantity(resource: str, amount: int) -> str:
    """As Kubernetes writes it."""
    if resource == "cpu":
        return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
    for unit, size in (("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10)):
        if resource == "memory" and amount and amount % size == 0:
            return f"{amount // size}{unit}"
    return str(amount)
