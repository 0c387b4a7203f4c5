"""Why a gang that waits takes no room from others: the rules of the plan, asked again at its end; never guesses."""

from collections.abc import Iterator

import numpy as np

from muster.api.queue import IGNORE_BUDGETS, RECLAIM_POLICY_ANNOTATION
from muster.api.tree import NONE
from muster.decisions.amounts import charge_in_words, due_in_words, moment, span
from muster.plan.afterwards import Afterwards
from muster.plan.outcome import Action, Plan, Verdict
from muster.plan.rights import Closed, Rights, may_ask_from_ns
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
    gang, after = plan.snapshot.gangs[number], Afterwards(plan)
    asked = least_ask(gang, plan.snapshot)
    found = [*_delay(gang, plan.snapshot.now_ns), *_preempt(gang, after.rights(Action.PREEMPT, number, asked))]
    if plan.queues:
        found += _reclaim(after.rights(Action.RECLAIM, number, asked))
    return tuple(found)


def _delay(gang: Gang, now_ns: int) -> Iterator[str]:
    since_ns = may_ask_from_ns(gang)
    if now_ns < since_ns:
        delay = span(gang.preemption_delay_ns)
        yield f"it may evict others only from {moment(since_ns)} on: its preemptionDelay is {delay}"


def _preempt(gang: Gang, rights: Rights) -> Iterator[str]:
    """Whom it could preempt at all, and until when their minimums are safe."""
    if not _anybody(rights):
        yield f"preempt: nothing of a lower priority that may be evicted runs in queue {gang.queue}"
    else:
        yield from _safe(rights, "of lower priority", "preemptMinRuntime")


def _anybody(rights: Rights) -> bool:
    """Whether anything that the action is about may go, by itself and as far as disruption budgets allow it."""
    return any(rights.all_legal([number]) for number in np.flatnonzero(rights.reach).tolist())


def _safe(rights: Rights, which: str, setting: str) -> Iterator[str]:
    """How many minimums are safe, and until when the first of them is."""
    table = rights.table
    ends = {
        int(table.gang[number]): int(table.started_ns[number]) + int(rights.min_runtime_ns[number])
        for number in np.flatnonzero(rights.reach & rights.protected).tolist()
    }
    if ends:
        these = "the minimum of 1 gang" if len(ends) == 1 else f"the minimums of {len(ends):,} gangs"
        yield f"{rights.action}: {these} {which} can't be evicted before {moment(min(ends.values()))} ({setting})"


def _reclaim(rights: Rights) -> Iterator[str]:
    """Which queue would end above what it is due; else whether others have more than that, and may lose it."""
    terms, queues = rights.terms, rights.snapshot.queues
    if terms.row == NONE:
        return
    others, inside = [row for row in range(len(queues.names)) if row != terms.row and row not in queues.children], ""
    closed = terms.closed if others else None
    if closed is not None:
        yield _too_much(closed, rights)
        # From outside of it nothing may be taken, whatever others have there.
        others = [row for row in others if closed.queue in queues.paths[row]]
        inside = f" in {queues.names[closed.queue]}"
    if not others:
        return
    if not any(terms.may_give(row, terms.asked, {}) for row in others):
        yield f"reclaim: no other queue{inside} holds more than its fair share or quota of what the gang needs"
    elif not _anybody(rights):
        yield "reclaim: nothing that may be evicted runs in queues that hold more than their fair share or quota"
        if terms.may_ignore_budgets and not rights.snapshot.may_delete:
            yield (
                f"reclaim: {RECLAIM_POLICY_ANNOTATION}: {IGNORE_BUDGETS} of the queue has no effect: muster may not "
                "delete pods; muster doctor says which right is missing"
            )
    else:
        yield from _safe(rights, "of other queues", "reclaimMinRuntime")


def _too_much(closed: Closed, rights: Rights) -> str:
    """What is too much: of one queue by the larger of its two measures; of two queues by the one that each fails at."""
    names = rights.snapshot.queues.names
    # What shares a wider queue with the gang is not asked about that one.
    whom = "other queues" if closed.queue == rights.terms.row else f"queues outside of {names[closed.queue]}"
    over = [(closed.share, False), (closed.quota, True)]
    if closed.share.queue == closed.quota.queue:
        same = closed.share.charge == closed.quota.charge
        over = over[1:] if same and closed.quota.due > closed.share.due else over[:1]
    said = []
    for one, quota in over:
        has, due = charge_in_words(one.charge, one.has), due_in_words(one, rights.snapshot.queues, quota=quota)
        said.append(f"{names[one.queue]} would hold at least {has} with it, and {due}")
    return f"reclaim from {whom}: {'; '.join(said)}"


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
