"""What a queue would have to allow for a gang that its limit or quota holds back; tried by running the cycle again."""

from dataclasses import replace
from typing import NamedTuple

from muster.api.tree import NONE
from muster.model.reasons import Code, Numbers, row_of
from muster.plan.cycle import Policy, schedule
from muster.plan.outcome import Outcome, Plan, Reason, Verdict
from muster.snapshot.queues import Queues

# A raise may help others first, or meet the next end: so often it is tried again, less often where cycles are long.
_MOST_TRIALS, _MOST_TURNS = 8, 2_000


class Raise(NamedTuple):
    """The limit or the quota of one queue (by number) and charge: what it is, and what would be enough. Base units."""

    queue: int
    charge: int
    quota: bool
    before: int
    after: int


def raises(plan: Plan, number: int, policy: Policy | None = None, units: tuple[int, ...] = ()) -> tuple[Raise, ...]:
    """The raises after which the gang's minimum is placed, everybody else in the cycle as well; nothing when none are.

    `units` are the steps, per charge, in which queues can be raised.
    """
    if plan.outcomes[number].verdict is not Verdict.HELD:
        return ()
    snapshot, outcome = plan.snapshot, plan.outcomes[number]
    found: dict[tuple[int, int, bool], Raise] = {}
    for _ in range(min(_MOST_TRIALS, _MOST_TURNS // max(1, len(snapshot.waiting)))):
        reason = _refusal(outcome)
        if reason is None:
            return ()
        one = _enough(reason, snapshot.queues, units)
        key = (one.queue, one.charge, one.quota)
        found[key] = one._replace(before=found[key].before if key in found else one.before)
        snapshot = replace(snapshot, queues=_raised(snapshot.queues, one))
        outcome = schedule(snapshot, policy)[0].outcomes[number]
        if outcome.verdict is Verdict.PLACED:
            return tuple(found.values())
    return ()


def _refusal(outcome: Outcome) -> Reason | None:
    """What a queue says about the minimum."""
    for reason in outcome.reasons:
        if (
            row_of(reason.code).numbers is Numbers.QUOTA
            and not reason.surplus
            and NONE not in (reason.queue, reason.charge)
        ):
            return reason
    return None


def _enough(reason: Reason, queues: Queues, units: tuple[int, ...]) -> Raise:
    is_quota = reason.code != Code.OVER_LIMIT
    before = int((queues.quota if is_quota else queues.limit)[reason.queue, reason.charge])
    unit = units[reason.charge] if units else 1
    # What is used may be more than is allowed: then nothing is left, and the next trial asks for the rest.
    after = -(-(before - reason.best + reason.asked) // unit) * unit
    return Raise(reason.queue, reason.charge, is_quota, before, after)


def _raised(queues: Queues, one: Raise) -> Queues:
    amounts = (queues.quota if one.quota else queues.limit).copy()
    amounts[one.queue, one.charge] = one.after
    return replace(queues, quota=amounts) if one.quota else replace(queues, limit=amounts)
