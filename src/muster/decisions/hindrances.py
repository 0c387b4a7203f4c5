"""Why a gang that waits takes no room from others: facts that are seen in the snapshot and the plan, never guesses."""

from collections import Counter
from collections.abc import Iterator

import numpy as np

from muster.api.podgroup import NON_PREEMPTIBLE, SEMI_PREEMPTIBLE
from muster.api.tree import NONE
from muster.decisions.amounts import charge_alone, charge_in_words, moment, span
from muster.plan.accounts import core_counts
from muster.plan.outcome import Code, Plan, Verdict
from muster.snapshot.arrays import Gang, Snapshot
from muster.snapshot.queues import CHARGES

# More than any child costs: one that can't be satisfied is never chosen.
_NEVER = 2**62


def hindrances(plan: Plan, number: int) -> tuple[str, ...]:
    """What keeps the gang from evicting others for its minimum; nothing when that is placed, or not tried."""
    if plan.outcomes[number].verdict not in (Verdict.INFEASIBLE, Verdict.UNDECIDED):
        return ()
    if not any(gang.placed for at, gang in enumerate(plan.snapshot.gangs) if at != number):
        # There is nobody to take it from.
        return ()
    return (*_delay(plan, number), *_preempt(plan, number), *_reclaim(plan, number))


def _delay(plan: Plan, number: int) -> Iterator[str]:
    gang = plan.snapshot.gangs[number]
    until = gang.pending_since_ns + gang.preemption_delay_ns
    if gang.pending_since_ns and plan.snapshot.now_ns < until:
        delay = span(gang.preemption_delay_ns)
        yield f"it may evict others only from {moment(until)} on: its preemptionDelay is {delay}"


def _preempt(plan: Plan, number: int) -> Iterator[str]:
    """Whom it could preempt at all, and until when their minimums are safe."""
    snapshot = plan.snapshot
    gang = snapshot.gangs[number]
    gone = Counter(one.gang for one in plan.evictions)
    lower = [
        other
        for at, other in enumerate(snapshot.gangs)
        if other.placed
        and other.queue == gang.queue
        and other.priority < gang.priority
        and has_to_lose(other, gone[at])
    ]
    if not lower:
        yield f"preempt: nothing of a lower priority that may be evicted runs in queue {gang.queue}"
        return
    row = snapshot.queues.row_of.get(gang.queue, NONE)
    safe_ns = snapshot.queues.preempt_min_runtime_ns[row] if row != NONE else 0
    ends = [other.started_ns + safe_ns for other in lower if other.started_ns]
    safe = [end for end in ends if end > snapshot.now_ns]
    if safe:
        these = "the minimum of 1 gang" if len(safe) == 1 else f"the minimums of {len(safe):,} gangs"
        yield f"preempt: {these} of lower priority can't be evicted before {moment(min(safe))} (preemptMinRuntime)"


def has_to_lose(gang: Gang, gone: int = 0) -> bool:
    """Whether a gang has placed pods that may be evicted for others, when so many have gone already."""
    if gang.preemptibility == NON_PREEMPTIBLE or any(issue.code == Code.INVALID for issue in gang.held):
        return False
    kept = sum(core_counts(gang).values()) if gang.preemptibility == SEMI_PREEMPTIBLE else 0
    placed = sum(len(found.nodes) for found in gang.placed.values())
    return placed - kept > gone


def _reclaim(plan: Plan, number: int) -> Iterator[str]:
    """Which queue would end above what it is due; else whether any other queue has more than it is due."""
    snapshot = plan.snapshot
    queues, gang = snapshot.queues, snapshot.gangs[number]
    row = queues.row_of.get(gang.queue, NONE)
    if row == NONE or len(queues.names) < 2 or not plan.queues:
        return
    asked, holds = least_ask(gang, snapshot), _holds(plan)
    for at in queues.paths[row]:
        ends = [has + more if more else 0 for has, more in zip(holds[at], asked, strict=True)]
        due, quota = plan.queues[at].fair_share, queues.quota[at].tolist()
        over = [charge for charge in reversed(range(len(CHARGES))) if ends[charge] > due[charge]]
        if over and any(end > most for end, most in zip(ends, quota, strict=True)):
            has, share = charge_in_words(over[0], ends[over[0]]), charge_alone(over[0], due[over[0]])
            # What shares a wider queue with the gang is not asked about that one.
            whom = "other queues" if at == row else f"queues outside of {queues.names[at]}"
            name = queues.names[at]
            yield f"reclaim from {whom}: {name} would hold at least {has} with it, and its fair share is {share}"
            return
    leaves = [other for other in range(len(queues.names)) if other != row and other not in queues.children]
    most = [np.minimum(plan.queues[other].fair_share, queues.quota[other]).tolist() for other in leaves]
    needed = [charge for charge in range(len(CHARGES)) if asked[charge]]
    if not any(holds[at][charge] > most[place][charge] for place, at in enumerate(leaves) for charge in needed):
        yield "reclaim: no other queue holds more than its fair share or quota of what the gang needs"


def _holds(plan: Plan) -> list[list[int]]:
    """Per queue and charge what it holds after the cycle, together with what is nominated."""
    snapshot = plan.snapshot
    found = [list(outcome.allocated) for outcome in plan.queues]
    for placement in plan.placements:
        gang = snapshot.gangs[placement.gang]
        row = snapshot.queues.row_of.get(gang.queue, NONE)
        if placement.nominated and row != NONE:
            each = snapshot.charges[gang.waiting[placement.batch].shape].tolist()
            for at in snapshot.queues.paths[row]:
                for charge, amount in enumerate(each):
                    found[at][charge] += amount * len(placement.nodes)
    return found


def least_ask(gang: Gang, snapshot: Snapshot) -> tuple[int, ...]:
    """The least that what is missing of the minimum costs the queue, per charge in base units."""
    return tuple(_least(gang, snapshot.charges[:, charge].tolist()) for charge in range(len(CHARGES)))


def _least(gang: Gang, cost_of: list[int]) -> int:
    nodes = gang.tree.nodes
    least = [0] * len(nodes)
    for row in range(len(nodes) - 1, -1, -1):
        node = nodes[row]
        if gang.satisfied[row]:
            continue
        if not gang.ready[row]:
            least[row] = _NEVER
        elif node.children:
            least[row] = sum(sorted(least[child] for child in node.children)[: node.minimum])
        else:
            found = (gang.waiting[batch] for batch in gang.batches_below(row))
            costs = sorted(cost_of[batch.shape] for batch in found for _ in batch.pods)
            least[row] = sum(costs[: node.minimum - gang.present[row]])
    return least[0]
