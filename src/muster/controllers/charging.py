"""Binds that are only right if other writes happen of which nobody knows yet whether they do.

A pod that is told to go is planned with as one that terminates: others are nominated to what it frees. But the API
server may refuse, or never hear of it. So what would raise a queue above its limit, or its quota, if everybody stayed
waits for the answers. And where a core is above its quota already, by an edit, who comes now is only beside it if those
come who were sent before.
"""

from collections.abc import Collection, Iterable

from muster.api.tree import NONE
from muster.decisions.orders import BindOrder
from muster.plan.outcome import Plan
from muster.snapshot.queues import CHARGES
from muster.snapshot.world import Key, World


def overdrawn(plan: Plan, world: World, leaving: Collection[Key], binds: Iterable[BindOrder]) -> set[Key]:
    """The gangs of `binds` that must wait as long as the pods in `leaving`, which were told to go, may stay."""
    queues = plan.snapshot.queues
    if not leaving or not queues.written or not plan.queues:
        return set()
    staying: dict[int, list[int]] = {}
    firm: dict[int, list[int]] = {}
    gangs = {gang.key: gang for gang in plan.snapshot.gangs}
    costs = plan.snapshot.costs
    for pod in leaving:
        facts = world.pods.get(pod)
        gang = gangs.get(facts.gang) if facts is not None and facts.gang is not None else None
        if facts is None or gang is None:
            continue
        for row in _path(plan, facts.mark.queue if facts.mark is not None else gang.queue):
            for table in (staying,) if gang.is_preemptible else (staying, firm):
                held = table.setdefault(row, [0] * len(CHARGES))
                for charge, amount in enumerate(costs.of_all(facts.request)):
                    held[charge] += amount
    full = {
        row
        for most, table, has in (
            (queues.limit, staying, [one.allocated for one in plan.queues]),
            (queues.quota, firm, [one.non_preemptible for one in plan.queues]),
        )
        for row, held in table.items()
        if any(has[row][charge] + held[charge] > most[row, charge] for charge in range(len(CHARGES)) if held[charge])
    }
    return {order.gang for order in binds if not full.isdisjoint(_path(plan, gangs[order.gang].queue))}


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
