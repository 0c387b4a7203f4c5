"""What EvictionRequests are answered, in words: their status after a cycle."""

from msgspec import structs

from muster.api.evictionrequest import EXPIRED, GRANTED, EvictionRequestStatus
from muster.api.model import Condition
from muster.api.tree import NONE
from muster.decisions.status import since, time_of
from muster.errors import DEFECT
from muster.plan.clearing import Why
from muster.plan.outcome import Answer, Plan
from muster.snapshot import clearances as read

# `{gang}` is what the reason is about, `{detail}` a pod, a request, a number or a reason code.
_SENTENCES = {
    Why.ROOM_RESERVED: "the room is reserved for {gang}: evict the pods now",
    Why.PLACED: "the pods of {gang} are placed",
    Why.NOT_NEEDED: "{gang} gets its room without it",
    Why.NOT_WAITING: "{gang} is held ({detail}): muster explain {gang} says why",
    Why.NOT_READY: "{gang} waits for pods of its own: its controller must create them first",
    Why.ANOTHER_REQUEST: "the EvictionRequest {detail} is for the same gang, or names the same pod: wait for its end",
    Why.NOT_PREEMPTIBLE: "no pod of {gang} may be evicted: it is not preemptible, or it is invalid",
    Why.CORE_POD: "{gang} is semi-preemptible, and one of the pods belongs to its core: name surplus pods",
    Why.PART_OF_MINIMUM: "{gang} would be left with a part of its minimum: name surplus pods, or all of its pods",
    Why.WOULD_RETURN: "{gang} has a higher priority in the same queue: its pods would take the room back",
    Why.DISRUPTION_BUDGET: "a PodDisruptionBudget does not allow that the pod {detail} of {gang} goes",
    Why.DOES_NOT_FIT: "{gang} does not fit when these pods are gone either: muster explain {gang} says what would help",
    Why.NOT_ALLOWED: f"this is a {DEFECT}: its own check refused the request: {{detail}}",
    read.BENEFICIARY_NOT_FOUND: "there is no PodGroup {detail} with this uid",
    read.TOO_MANY_VICTIMS: "{detail} pods are more than one request may name (64)",
    read.NO_VICTIMS: "it names no pod",
    read.VICTIM_NOT_FOUND: "there is no pod {detail} with this uid: ask again for the pods of now",
    read.VICTIM_NOT_PLACED: "the pod {detail} has no room that it could give",
    read.VICTIM_NOT_MANAGED: "the pod {detail} belongs to another scheduler, or to no gang",
}
_OVER = "the room was reserved for 5 minutes, and is no longer"
_UNDECIDED = "it was not decided within 5 minutes: muster explain {gang} says why it waits"


def status_of(answer: Answer, plan: Plan, before: EvictionRequestStatus) -> EvictionRequestStatus:
    """The status of a request that is answered, as a change of the one that it has."""
    gang = "/".join(plan.snapshot.gangs[answer.gang].key) if answer.gang != NONE else ""
    if answer.why == Why.DEADLINE:
        sentence = _OVER if before.phase == GRANTED else _UNDECIDED
    else:
        sentence = _SENTENCES[answer.why]
    message = sentence.format(gang=gang, detail=answer.detail)
    status = "True" if answer.phase == GRANTED else "False"
    condition = Condition(type="Granted", status=status, reason=answer.why, message=message)
    return structs.replace(
        before,
        phase=answer.phase,
        reason=answer.why,
        message=message,
        conditions=[since(condition, before.conditions, time_of(plan.snapshot.now_ns))],
        expires=time_of(answer.until_ns) if answer.until_ns else before.expires if answer.phase == EXPIRED else None,
    )
