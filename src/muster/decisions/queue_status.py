"""What the status of a Queue says after a cycle (SPEC §2)."""

from collections.abc import Sequence
from typing import Any

import msgspec

from muster.api.model import Condition
from muster.api.queue import QueueStatus
from muster.api.tree import NONE
from muster.decisions.queues import amounts_of
from muster.decisions.status import ACCEPTED, since, time_of
from muster.decisions.words import queue_in_words
from muster.plan.outcome import Plan


def status_of(plan: Plan, name: str, before: QueueStatus, generation: int | None = None) -> QueueStatus:
    """The status of one queue as a change of the one that it has. One that nothing can be charged to is told why."""
    queues = plan.snapshot.queues
    problem = queues.cut_off.get(name)
    accepted = Condition(
        type=ACCEPTED,
        status="False" if problem else "True",
        reason=problem.code if problem else "Valid",
        message=queue_in_words(name, problem.code, problem.detail) if problem else "",
        observed_generation=generation,
    )
    conditions = [since(accepted, before.conditions, time_of(plan.snapshot.now_ns))]
    row = queues.row_of.get(name, NONE)
    if row == NONE:
        return QueueStatus(conditions=conditions)
    outcome = plan.queues[row]
    return QueueStatus(
        conditions=conditions,
        child_queues=sorted(queues.names[child] for child in queues.children.get(row, ())),
        requested=_finite(outcome.requested),
        allocated=_finite(outcome.allocated),
        allocated_non_preemptible=_finite(outcome.non_preemptible),
        fair_share=_finite(outcome.fair_share),
    )


def _finite(amounts: Sequence[int]) -> dict[str, str | int | float]:
    """What has no end is not named: there is no number for it. What is no whole number is text: a Quantity has no
    fractions but in text, and the API server refuses the status.
    """
    found = {name: amount for name, amount in amounts_of(amounts).items() if amount is not None}
    return {name: one if isinstance(one, int) else f"{one:.6f}".rstrip("0").rstrip(".") for name, one in found.items()}


def queue_document(status: QueueStatus) -> dict[str, Any]:
    """The status as it is written."""
    document: dict[str, Any] = msgspec.to_builtins(status)
    return document
