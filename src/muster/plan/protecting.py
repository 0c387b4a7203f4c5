"""What of running gangs may not be evicted (SPEC §6, §14): what was admitted so, and more as far as quotas allow it.

Preemptibility, priority class and minimums stand in the spec, which a tenant may edit at any time. What protects more
than before is admitted like new pods: when the queue's quota for what may not be evicted has place for it. Until then
the gang counts as it was admitted. What protects less counts at once.
"""

from dataclasses import replace

from muster.api.tree import NONE
from muster.model.reasons import Code
from muster.plan.accounts import NOTHING, Accounts, firm_cost, plus
from muster.snapshot.arrays import PROTECTION, Gang, Issue, Snapshot

_LEVEL = {one: level for level, one in enumerate(PROTECTION)}
# A word that no CRD would let through protects the core; the gang is held as invalid.
_UNKNOWN = 1


def with_protection(snapshot: Snapshot) -> Snapshot:
    """The snapshot in which running gangs are protected as they were admitted, or as they ask for within their quota.

    Gangs of a higher priority come first, then older ones.
    """
    asking = [number for number, gang in enumerate(snapshot.gangs) if gang.placed and _asks(gang, snapshot)]
    if not asking:
        return snapshot
    gangs = list(snapshot.gangs)
    stated = {number: gangs[number] for number in asking}
    for number in asking:
        gangs[number] = _as_admitted(gangs[number], snapshot)
    accounts = Accounts(replace(snapshot, gangs=tuple(gangs)))
    for number in sorted(asking, key=lambda number: (-gangs[number].priority, gangs[number].order)):
        gangs[number] = _admitted(stated[number], gangs[number], accounts)
    return replace(snapshot, gangs=tuple(gangs))


def _asks(gang: Gang, snapshot: Snapshot) -> bool:
    """Whether more of a gang would be protected than was admitted: by another word, or under the same word by another
    minimum or more pods.
    """
    if gang.is_preemptible:
        return False
    return _level(gang.preemptibility) > _level(gang.admitted_as) or not _is_admitted(gang, snapshot)


def _level(preemptibility: str) -> int:
    return _LEVEL.get(preemptibility, _UNKNOWN)


def _is_admitted(gang: Gang, snapshot: Snapshot) -> bool:
    """Whether no more can't be evicted than the status says."""
    if gang.admitted_firm is None:
        return True
    return all(now <= then for now, then in zip(firm_cost(gang, snapshot), gang.admitted_firm, strict=True))


def _as_admitted(gang: Gang, snapshot: Snapshot) -> Gang:
    """The gang with the most protection under which no more of it is protected than was admitted."""
    note = Issue(Code.STAYS_PREEMPTIBLE, 0, gang.preemptibility)
    most = min(_level(gang.preemptibility), _level(gang.admitted_as))
    for word in reversed(PROTECTION[1 : most + 1]):
        found = gang if word == gang.preemptibility else gang.held_at(word, note)
        if _is_admitted(found, snapshot):
            return found
    return gang.held_at(PROTECTION[0], note)


def _admitted(stated: Gang, before: Gang, accounts: Accounts) -> Gang:
    if not accounts.matter:
        return stated
    queue = accounts.row_of(before)
    if queue == NONE:
        # Its queue is gone, perhaps for a moment: no quota says what may be protected.
        return before
    rise = plus(accounts.firm_of(stated), accounts.firm_of(before), -1)
    if accounts.refusal(queue, NOTHING, rise) is not None:
        return before
    accounts.charge(queue, NOTHING, rise)
    return stated
