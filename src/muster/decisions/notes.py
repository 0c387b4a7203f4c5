"""What is said once, as an Event, when the state of a gang becomes another one; statuses say it as long as it is so."""

from typing import Final, NamedTuple

from muster.api.podgroup import PodGroupStatus
from muster.decisions.amounts import pods_in_words
from muster.decisions.status import COMPLETED, INVALID, RUNNING, SCHEDULED, STALE
from muster.decisions.words import fitted
from muster.model.reasons import Code, is_in_order
from muster.plan.outcome import Action

NORMAL: Final = "Normal"
WARNING: Final = "Warning"


class Note(NamedTuple):
    """One thing to say about an object: how much it matters, a word for programs, a sentence for people."""

    kind: str
    reason: str
    text: str


def note_of(before: PodGroupStatus, now: PodGroupStatus) -> Note | None:
    """What there is to say about a gang whose status changes so; None when its state and its reason stay the same."""
    if (before.phase, before.reason) == (now.phase, now.reason):
        return None
    message = _message(now)
    if now.phase == RUNNING:
        where = f" in {now.sub_groups[0].domain}" if now.sub_groups and now.sub_groups[0].domain else ""
        return Note(NORMAL, SCHEDULED, f"its minimum is placed{where}: {now.pods_summary} pods placed/minimum/total")
    if now.phase == COMPLETED:
        return Note(NORMAL, COMPLETED, "all its pods have finished")
    if now.phase in (INVALID, STALE):
        return Note(WARNING, now.phase, message)
    return Note(NORMAL if is_in_order(now.reason) else WARNING, now.reason, message)


def eviction_note(pods: int, action: str, beneficiary: str | None, over: str = "") -> Note:
    """What there is to say about a gang of which so many pods were evicted; `over` is why they were deleted."""
    if action == Action.STALE:
        why = "it was below its minimum for longer than its grace period"
    else:
        why = f"to make room for {beneficiary} ({action})"
    return Note(WARNING, Code.EVICTED, fitted([f"{pods_in_words(pods)} evicted: {why}", over]))


def deletion_note(action: str, beneficiary: str | None, over: str) -> Note:
    """What there is to say about a pod that was deleted whatever its disruption budgets say."""
    return Note(WARNING, Code.EVICTED, fitted([f"evicted to make room for {beneficiary} ({action})", over]))


def _message(status: PodGroupStatus) -> str:
    """Why it is not scheduled, as its conditions say."""
    told = {one.type: one for one in status.conditions}
    return told[SCHEDULED].message if SCHEDULED in told else ""
