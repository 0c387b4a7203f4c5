"""Which children of semi-preemptible gangs join (SPEC §8, `keep: all`): only while the core stays within its quota.

What has joined is core, so that joining charges the queue. In gangs of other kinds children join without being asked
about here (`Gang.joined`): they charge nothing, or everything is charged already.
"""

from dataclasses import replace

from muster.api.tree import NONE, joined
from muster.plan.accounts import NOTHING, Accounts, plus
from muster.snapshot.arrays import Gang, Snapshot


def with_joined(snapshot: Snapshot) -> Snapshot:
    """The snapshot in which satisfied children of semi-preemptible gangs have joined as far as quotas allow it.

    Gangs of a higher priority come first, then older ones; in a gang, children in the order of the spec.
    """
    asking = [
        number
        for number, gang in enumerate(snapshot.gangs)
        if gang.is_semi and gang.tree.keeps and gang.placed and _newcomers(gang)
    ]
    if not asking:
        return snapshot
    gangs, accounts = list(snapshot.gangs), Accounts(snapshot)
    for number in sorted(asking, key=lambda number: (-gangs[number].priority, gangs[number].order)):
        gangs[number] = _joining(gangs[number], accounts)
    return replace(snapshot, gangs=tuple(gangs))


def _newcomers(gang: Gang) -> list[int]:
    """The rows that would join if there were no quota. None does while a joined one lacks its minimum."""
    if any(now and not met for now, met in zip(gang.joined, gang.satisfied, strict=True)):
        # One that stands in for a joined child must not take its part of the quota: that one could never come back.
        return []
    found = joined(gang.tree, gang.placed_pods, gang.succeeded_pods, gang.was_joined)
    return [row for row, now in enumerate(found) if now and not gang.joined[row]]


def _joining(gang: Gang, accounts: Accounts) -> Gang:
    queue = accounts.row_of(gang) if accounts.matter else NONE
    for row in _newcomers(gang):
        before = gang.was_joined or (False,) * len(gang.tree.nodes)
        trial = replace(gang, was_joined=(*before[:row], True, *before[row + 1 :]))
        rise = plus(accounts.firm_of(trial), accounts.firm_of(gang), -1)
        if queue != NONE and accounts.refusal(queue, NOTHING, rise) is not None:
            continue
        if queue != NONE:
            accounts.charge(queue, NOTHING, rise)
        gang = trial
    return gang
