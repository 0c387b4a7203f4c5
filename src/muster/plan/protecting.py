"""What of running gangs may not be evicted (SPEC §6, §14): what was admitted so, and more as far as quotas allow it.

Preemptibility and priority class stand in the spec, which a tenant may edit at any time. What protects more than before
is admitted like new pods: when the queue's quota for what may not be evicted has place for it. Until then the gang
counts as it was admitted. What protects less counts at once.
"""

from dataclasses import replace

from muster.api.tree import NONE
from muster.model.reasons import Code
from muster.plan.accounts import NOTHING, Accounts, plus
from muster.snapshot.arrays import PROTECTION, Gang, Issue, Snapshot

_LEVEL = {one: level for level, one in enumerate(PROTECTION)}


def with_protection(snapshot: Snapshot) -> Snapshot:
    """The snapshot in which running gangs are protected as they were admitted, or as they ask for within their quota.

    Gangs of a higher priority come first, then older ones.
    """
    asking = [
        number
        for number, gang in enumerate(snapshot.gangs)
        if gang.placed and _LEVEL[gang.preemptibility] > _LEVEL[gang.admitted_as]
    ]
    if not asking:
        return snapshot
    gangs = list(snapshot.gangs)
    stated = {number: gangs[number] for number in asking}
    for number in asking:
        gangs[number] = replace(gangs[number], preemptibility=gangs[number].admitted_as)
    accounts = Accounts(replace(snapshot, gangs=tuple(gangs)))
    for number in sorted(asking, key=lambda number: (-gangs[number].priority, gangs[number].order)):
        gangs[number] = _admitted(stated[number], gangs[number], accounts)
    return replace(snapshot, gangs=tuple(gangs))


def _admitted(stated: Gang, before: Gang, accounts: Accounts) -> Gang:
    queue = accounts.row_of(before) if accounts.matter else NONE
    if queue == NONE:
        return stated
    rise = plus(accounts.firm_of(stated), accounts.firm_of(before), -1)
    if accounts.refusal(queue, NOTHING, rise) is None:
        accounts.charge(queue, NOTHING, rise)
        return stated
    note = Issue(Code.STAYS_PREEMPTIBLE, 0, stated.preemptibility)
    return replace(before, notes=(*before.notes, note))
