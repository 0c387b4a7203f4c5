"""Binds that are only right if other binds happen of which nobody knows yet whether they do.

Where a core is above its quota already, by an edit, who comes now is only beside it if those come who were sent before.
A pod that was told to go needs no rule here: it is planned with as one that terminates, and counts in its queue until
it is gone.
"""

from collections.abc import Collection, Iterable

from muster.api.tree import NONE
from muster.decisions.orders import BindOrder
from muster.plan.outcome import Plan
from muster.snapshot.queues import CHARGES
from muster.snapshot.world import Key


def leaning(plan: Plan, unanswered: Collection[Key], binds: Iterable[BindOrder]) -> set[Key]:
    """The gangs of `binds` that must wait as long as binds of theirs are `unanswered`: if these do not happen, others
    become part of a core that is above a quota, and may not grow.
    """
    queues, gangs = plan.snapshot.queues, {gang.key: gang for gang in plan.snapshot.gangs}
    if not unanswered or not queues.written or not plan.queues:
        return set()
    over = {
        row
        for row, one in enumerate(plan.queues)
        if any(one.non_preemptible[charge] > queues.quota[row, charge] for charge in range(len(CHARGES)))
    }
    waiting = {order.gang for order in binds if order.gang in unanswered and not gangs[order.gang].is_preemptible}
    return {gang for gang in waiting if not over.isdisjoint(_path(plan, gangs[gang].queue))}


def _path(plan: Plan, queue: str) -> tuple[int, ...]:
    """The queue and those above it, by number."""
    row = plan.snapshot.queues.row_of.get(queue, NONE)
    return tuple(plan.snapshot.queues.paths[row]) if row != NONE else ()
