"""From a proof, or the lack of one, to the reason that people are told; as data."""

from muster.model.reasons import Code
from muster.plan.nearest import Near
from muster.plan.outcome import Reason
from muster.plan.proof import Certificate, Choices, Drift, Exhausted, Proof, Refused
from muster.snapshot.arrays import Gang, Issue, Snapshot


def reason_of(proof: Proof | None, row: int, *, surplus: bool = False) -> Reason:
    """Why the tree node `row` could not be satisfied."""
    if proof is None:
        return Reason(Code.SEARCH_BUDGET, row, surplus=surplus)
    if isinstance(proof, Choices):
        return reason_of(proof.refuted[0], row, surplus=surplus)
    if isinstance(proof, Refused):
        return _refused(proof, row, surplus)
    if isinstance(proof, Drift):
        return Reason(
            Code.TOPOLOGY_DRIFT,
            proof.row,
            best=len(proof.domains),
            topology=proof.topology,
            level=proof.level,
            surplus=surplus,
        )
    if isinstance(proof, Exhausted):
        if proof.near:
            return _near(proof.near[0], Code.FRAGMENTED, surplus)
        return Reason(Code.NO_ARRANGEMENT, row, surplus=surplus)
    return _short(proof, row, surplus)


def _refused(proof: Refused, row: int, surplus: bool) -> Reason:
    """More than there may ever be, or as much as others of the queue have now."""
    code = Code.OVER_LIMIT
    if proof.quota:
        code = Code.OVER_QUOTA if proof.asked > proof.most else Code.WAITING_FOR_QUOTA
    counts = (proof.asked, proof.left)
    return Reason(code, row, *counts, total=proof.most, surplus=surplus, queue=proof.queue, charge=proof.charge)


def _near(near: Near, code: str, surplus: bool) -> Reason:
    where = (near.topology, near.level, near.domain)
    counts = (near.asked, near.best)
    return Reason(code, near.row, *counts, *where, near.dimension, around=near.around, surplus=surplus)


def _short(proof: Certificate, row: int, surplus: bool) -> Reason:
    """Too little in all, too little in the domain that it is bound to, or enough in all and in no single domain."""
    if not proof.shortages:
        asked = sum(pods for _, pods in proof.pods)
        code = Code.NOT_ENOUGH_IN_DOMAIN if proof.pinned else Code.INSUFFICIENT
        return Reason(code, proof.row, asked=asked, topology=proof.topology, level=proof.level, surplus=surplus)
    nearest = proof.shortages[0]
    if proof.pinned:
        code = Code.NOT_ENOUGH_IN_DOMAIN
    elif proof.total >= nearest.asked:
        code = Code.FRAGMENTED
    else:
        code = Code.INSUFFICIENT
    if proof.near:
        same = proof.near[0].dimension == nearest.dimension
        return _near(proof.near[0], code, surplus)._replace(total=proof.total if same else None)
    return Reason(
        code,
        proof.row or row,
        nearest.asked,
        nearest.best,
        proof.topology,
        proof.level,
        nearest.domain,
        nearest.dimension,
        proof.total,
        proof.pin,
        surplus=surplus,
    )


def reason_of_issue(issue: Issue) -> Reason:
    """What was found while the snapshot was built."""
    return Reason(
        *(issue.code, issue.row, issue.asked), total=issue.most, detail=issue.detail, pod=issue.pod, remedy=issue.remedy
    )


def doubtful(gang: Gang, snapshot: Snapshot) -> list[Reason]:
    """Why it can't be said of a gang that it does not fit: it may get a resource in another way."""
    return [
        Reason(Code.UNSUPPORTED, 0, detail=doubt.why, pod=doubt.pod, remedy=doubt.remedy)
        for doubt in gang.doubts
        if not (doubt.alone and _is_offered(doubt.resource, snapshot))
    ]


def _is_offered(resource: str, snapshot: Snapshot) -> bool:
    """Whether some node has any of it."""
    if resource not in snapshot.resources:
        return False
    return bool(snapshot.allocatable[:, snapshot.resources.index(resource)].any())
