"""What muster decided in a story, as counts: starts, repairs, surplus, nominations, evictions by action and by unit;
and what it found wrong with its own decisions.
"""

from collections import Counter

from muster.api.tree import satisfied
from muster.model.reasons import Code
from muster.plan.outcome import Plan
from muster.snapshot.arrays import Gang


def deeds_of(plan: Plan) -> Counter[str]:
    """Pods by what a plan does with them; what two plans say twice is counted twice.

    Surplus that comes together with its minimum counts for the start, or the repair.
    """
    found: Counter[str] = Counter()
    for placement in plan.placements:
        gang = plan.snapshot.gangs[placement.gang]
        what = "nominated" if placement.nominated else f"bound for {_why(gang)}"
        found[what] += len(placement.pods)
    for eviction in plan.evictions:
        found[f"evicted by {eviction.action}"] += 1
        found[f"evicted as {eviction.kind.name.lower().replace('_', ' ')}"] += 1
    return found


def defects_of(plan: Plan) -> list[str]:
    """What went wrong in the making of a plan, in words; whatever statuses say of it."""
    return [
        f"gang {'/'.join(plan.snapshot.gangs[number].key)}: {reason.detail}"
        for number, outcome in sorted(plan.outcomes.tried.items())
        for reason in outcome.reasons
        if reason.code == Code.SCHEDULER_ERROR
    ]


def _why(gang: Gang) -> str:
    placed = [len(gang.placed[row].pods) if row in gang.placed else 0 for row in range(len(gang.tree.nodes))]
    done = [gang.counts[row].succeeded if row in gang.counts else 0 for row in range(len(gang.tree.nodes))]
    if satisfied(gang.tree, [sum(both) for both in zip(placed, done, strict=True)])[0]:
        return "surplus"
    return "a repair" if any(placed) else "a start"
