"""The decisions that follow from a Plan, and the document that `muster plan` prints."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from muster.api.tree import NONE, core
from muster.decisions import queues
from muster.decisions.amounts import in_queue_units
from muster.decisions.losses import eviction
from muster.decisions.words import Told, path_of, sentence, told
from muster.model.reasons import Numbers, row_of
from muster.plan.outcome import Outcome, Plan, RowOutcome
from muster.snapshot.arrays import Gang, Snapshot

DRAIN = "drain"


class Bind(NamedTuple):
    """A pod goes to a node now."""

    namespace: str
    pod: str
    node: str


class Nominate(NamedTuple):
    """Room is kept for a pod on a node that others are still leaving."""

    namespace: str
    pod: str
    node: str


class Evict(NamedTuple):
    """A pod leaves its node, by an action, for the gang `beneficiary` (`namespace/name`) or for nobody.

    Where `ignored` names disruption budgets, it is deleted whatever they say: the eviction API would refuse it.
    """

    namespace: str
    pod: str
    action: str
    beneficiary: str | None = None
    ignored: tuple[str, ...] = ()


Decision = Bind | Nominate | Evict


def decide(plan: Plan, evictions: Iterable[Evict] = ()) -> tuple[Decision, ...]:
    """What is to be done: binds, nominations and evictions, each by namespace and pod.

    `evictions` are those that were decided beside the plan. A pod that is moved stands for its successor among the
    nominations.
    """
    snapshot = plan.snapshot
    binds: list[Bind] = []
    nominations: list[Nominate] = []
    for placement in plan.placements:
        gang = snapshot.gangs[placement.gang]
        names = gang.waiting[placement.batch].pods
        for pod, node in zip(placement.pods, placement.nodes, strict=True):
            words = gang.key[0], names[pod], snapshot.nodes[node]
            if placement.nominated:
                nominations.append(Nominate(*words))
            else:
                binds.append(Bind(*words))
    leaving = list(evictions)
    for one in plan.evictions:
        gang = snapshot.gangs[one.gang]
        who = gang.key[0], gang.placed[one.leaf].pods[one.pod]
        beneficiary = "/".join(snapshot.gangs[one.beneficiary].key) if one.beneficiary != NONE else None
        ignored = tuple(snapshot.budgets[guard] for guard in one.passed)
        leaving.append(Evict(*who, one.action, beneficiary, ignored))
        if one.to != NONE:
            nominations.append(Nominate(*who, snapshot.nodes[one.to]))
    leaving.sort(key=lambda one: (one.namespace, one.pod, one.action, one.beneficiary or ""))
    return (*sorted(binds), *sorted(nominations), *leaving)


def document_of(plan: Plan, evictions: Iterable[Evict] = ()) -> dict[str, Any]:
    """The plan as `muster plan -o json` prints it (SPEC §10). Equal plans give equal documents, to the byte.

    `domain` is null where no constraint stands, nothing is placed, or what is placed lies in several domains;
    `preferredMet` is null where there is no preference, nothing is placed, or the search could not tell. `asked`,
    `best` and `where` are null where the code says it all. `queues` is there when Queues are.
    """
    decisions = decide(plan, evictions)
    gangs = zip(plan.snapshot.gangs, plan.outcomes, strict=True)
    document = {
        "bindings": [one._asdict() for one in decisions if isinstance(one, Bind)],
        "nominations": [one._asdict() for one in decisions if isinstance(one, Nominate)],
        "evictions": [eviction(*one) for one in decisions if isinstance(one, Evict)],
        "podGroups": [
            _group(gang, outcome, plan.snapshot)
            for gang, outcome in sorted(gangs, key=lambda pair: pair[0].key)
            if not gang.loose
        ],
    }
    return {**document, "queues": queues.documents_of(plan)} if queues.are_told(plan) else document


def _group(gang: Gang, outcome: Outcome, snapshot: Snapshot) -> dict[str, Any]:
    chosen = core_rows(gang, outcome)
    return {
        "namespace": gang.key[0],
        "name": gang.key[1],
        "verdict": outcome.verdict.value,
        "satisfied": outcome.satisfied,
        "subGroups": [
            {
                "name": node.name,
                "satisfied": row.satisfied,
                "core": is_core,
                "minimum": node.minimum,
                "pods": {"total": row.total, "placed": row.placed, "pending": row.pending},
                "domain": domain_of(row, snapshot) or None,
                "preferredMet": row.preferred_met,
                **joined_of(gang, node.parent, row),
            }
            for node, row, is_core in zip(gang.tree.nodes, outcome.rows, chosen, strict=True)
        ],
        "reasons": [_reason(one, gang, snapshot) for one in told(outcome)],
    }


def _reason(one: Told, gang: Gang, snapshot: Snapshot) -> dict[str, Any]:
    reason = one.reason
    numbers = row_of(reason.code).numbers
    counts = numbers is Numbers.SLOTS or (numbers is Numbers.PODS and reason.asked > 0)
    asked: float | None = reason.asked if counts else None
    best: float | None = reason.best if counts else None
    where = path_of(reason, snapshot)
    if numbers is Numbers.QUOTA and NONE not in (reason.queue, reason.charge):
        # As the Queue has them.
        asked, best = (in_queue_units(reason.charge, amount) for amount in (reason.asked, reason.best))
        where = snapshot.queues.names[reason.queue]
    return {
        "code": reason.code,
        "subGroup": gang.tree.nodes[reason.row].name,
        "message": sentence(reason, gang, snapshot, one.others),
        "asked": asked,
        "best": best,
        "where": where or None,
    }


def joined_of(gang: Gang, parent: int, row: RowOutcome) -> dict[str, bool]:
    """Whether a tree node goes only with its parent; nothing where the parent keeps none of its children."""
    return {"joined": row.joined} if parent != NONE and gang.tree.nodes[parent].keep else {}


def core_rows(gang: Gang, outcome: Outcome) -> tuple[bool, ...]:
    """Per row: whether it is part of what makes up the minimum after the cycle."""
    joined = [row.joined for row in outcome.rows]
    return core(gang.tree, [row.placed for row in outcome.rows], gang.succeeded_pods, gang.was_core, joined).nodes


def domain_of(row: RowOutcome, snapshot: Snapshot) -> str:
    """The path of the domain that a constrained tree node lies in, or nothing."""
    return snapshot.domain_path(*row.domain) if row.domain is not None else ""
