"""Why a gang waits, in full: what was checked, its tree, the proof, the nearest domains, and what would help."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from muster.api.tree import NONE
from muster.decisions import losses as evictions
from muster.decisions import queues
from muster.decisions.amounts import ask_in_words, charge_alone, charge_in_words, counted, listed, pods_in_words
from muster.decisions.changes import Help, change_in_words, raises_in_words
from muster.decisions.crowd import Crowd
from muster.decisions.hindrances import hindrances
from muster.decisions.losses import Loss
from muster.decisions.plan import core_rows, domain_of, joined_of
from muster.decisions.queues import PlaceInLine
from muster.decisions.words import foremost, sentence, shortened, told
from muster.model.reasons import Code, Step, failing
from muster.plan.nearest import Near
from muster.plan.outcome import Outcome, Plan, Verdict
from muster.plan.proof import Certificate, Choices, Drift, Exhausted, Proof, Refused
from muster.plan.raises import Raise
from muster.plan.recount import refutes
from muster.plan.remedies import Remedy
from muster.snapshot.arrays import Gang, Snapshot
from muster.snapshot.room import Amounts

_COUNTED = "counted: "


class Place(NamedTuple):
    """A domain that comes near, what it has of what is asked for, and which gangs hold most of it."""

    where: str
    sub_group: str
    what: str
    asked: int
    best: int
    holders: tuple[str, ...]


class Check(NamedTuple):
    """One step of the ladder: done, failed, or (None) not reached."""

    name: str
    good: bool | None
    says: str


class Leaving(NamedTuple):
    """A pod that terminates, and the resources that it still holds of its node."""

    pod: str
    node: str
    holds: frozenset[str]


class Wait(NamedTuple):
    """A node whose room is reserved for the gang, and who must leave it first; no pods when their names are unknown."""

    node: str
    pods: tuple[str, ...]


class Explanation(NamedTuple):
    """Everything that there is to say about one gang."""

    gang: Gang
    outcome: Outcome
    message: str
    checks: tuple[Check, ...]
    proof: str
    places: tuple[Place, ...]
    waits: tuple[Wait, ...]
    helps: tuple[Help, ...]
    in_line: PlaceInLine
    # What it loses in this cycle, and what others lose for it.
    loses: tuple[Loss, ...]
    displaces: tuple[Loss, ...]
    # Why it takes no room from others.
    hindrances: tuple[str, ...]
    # Whether somebody acts on the plan; else it was only asked.
    sent: bool = False


def explain(
    plan: Plan,
    number: int,
    remedies: Sequence[Remedy],
    leaving: Sequence[Leaving] = (),
    raises: Sequence[Raise] = (),
    *,
    sent: bool = False,
) -> Explanation:
    """Puts it together for a gang of the plan, with the remedies and raises of queues that were found for it.

    `leaving` are the pods that terminate; a snapshot only knows how much room they hold. `sent`: somebody acts on the
    plan.
    """
    gang, outcome, snapshot = plan.snapshot.gangs[number], plan.outcomes[number], plan.snapshot
    crowd = Crowd(plan)
    gone = evictions.losses(plan)
    new = sum(len(one.pods) for one in plan.placements if one.gang == number)
    helps = [raises_in_words(raises, snapshot)] if raises else []
    helps += [change_in_words(remedy, gang, crowd) for remedy in remedies]
    return Explanation(
        gang,
        outcome,
        message_of(gang, outcome, snapshot, new, sent=sent),
        tuple(_checks(gang, outcome, plan)),
        _proof(gang, outcome, plan),
        tuple(_places(gang, outcome, crowd)),
        tuple(_waits(plan, number, (*leaving, *_evicted(plan)))),
        tuple(helps),
        queues.place_in_line(plan, number),
        tuple(loss for loss in gone if loss.gang == number),
        tuple(loss for loss in gone if loss.beneficiary == number),
        hindrances(plan, number),
        sent,
    )


def message_of(gang: Gang, outcome: Outcome, snapshot: Snapshot, new: int, *, sent: bool = False) -> str:
    """The one sentence about a gang: why it waits, or what of it is placed, `new` pods of it in this cycle.

    `sent`: those are being bound, and who has to go is told so; else it was only asked.
    """
    first = foremost(outcome)
    if first is not None:
        return sentence(first.reason, gang, snapshot, first.others, sent=sent)
    return placed_in_words(outcome, snapshot, new, sent=sent)


def placed_in_words(outcome: Outcome, snapshot: Snapshot, new: int, *, sent: bool = False) -> str:
    """A few words for a gang that has what it needs, or will have it once this cycle's pods are bound."""
    root, where = outcome.rows[0], domain_of(outcome.rows[0], snapshot)
    there = f", in {where}" if where else ""
    if new:
        rest = f" beside {root.placed - new:,} that are placed" if root.placed > new else ""
        if sent:
            return f"{pods_in_words(new)} {'is' if new == 1 else 'are'} being bound{rest}{there}"
        return f"it fits: a cycle now binds {pods_in_words(new)}{rest}{there} · so far nobody has bound them"
    some = f"{root.placed:,} of {pods_in_words(root.total)}"
    words = f"all {pods_in_words(root.total)} are placed" if root.placed == root.total > 1 else f"{some} placed"
    return words + there


def reasons_of_rows(
    gang: Gang, outcome: Outcome, snapshot: Snapshot, *, sent: bool = True
) -> dict[int, list[dict[str, str]]]:
    """Per tree node that has any: its reasons, each as a code and a sentence."""
    found: dict[int, list[dict[str, str]]] = {}
    for one in told(outcome):
        said = {"code": one.reason.code, "message": sentence(one.reason, gang, snapshot, one.others, sent=sent)}
        found.setdefault(one.reason.row, []).append(said)
    return found


def _checks(gang: Gang, outcome: Outcome, plan: Plan) -> Iterator[Check]:
    """Every check with its answer. Of a spec that is invalid nothing else is known; room is looked for last.

    A quota is asked for where somebody wrote down queues.
    """
    codes = {one.reason.code for one in told(outcome) if not one.reason.surplus}
    # What is preferred and not known is a remark; and once the minimum is there, nothing about it has failed.
    codes = codes if outcome.verdict is not Verdict.PLACED else set()
    for step in Step:
        name = step.value
        good: bool | None = codes.isdisjoint(failing(step))
        if name == "quota" and not plan.snapshot.queues.written:
            continue
        if name == "pods":
            good = outcome.verdict is Verdict.PLACED or gang.ready[0]
        untried = outcome.verdict is Verdict.HELD and (name == "room" or (name == "quota" and good))
        if (Code.INVALID in codes and name != "spec") or untried:
            good = None
        if name != "priority" or good is False:
            # Most gangs have one that nobody asks about.
            yield Check(name, good, _said_of(name, gang, outcome))


def _said_of(name: str, gang: Gang, outcome: Outcome) -> str:
    """What a check is about."""
    there = sum(gang.present) + sum(gang.pending)
    later = any(reason.code == Code.WAITING_FOR_ROOM for reason in outcome.reasons) and not outcome.satisfied
    return {
        "spec": "spec",
        "queue": f"queue {gang.queue}",
        "priority": "priority",
        "topology": "topology",
        "supported": "supported",
        "pods": f"{pods_in_words(there)}, {gang.minimum_pods[0]:,} needed",
        "quota": "quota",
        "room": "room once pods have left" if later else "room",
    }[name]


def _waits(plan: Plan, number: int, leaving: Sequence[Leaving]) -> Iterator[Wait]:
    """The nodes that are not free enough yet for what is nominated to them, with the pods that hold what lacks."""
    snapshot = plan.snapshot
    asked = np.zeros_like(snapshot.free)
    nodes: set[int] = set()
    for placement in plan.placements:
        ask = snapshot.asks[snapshot.gangs[placement.gang].waiting[placement.batch].shape]
        np.add.at(asked, list(placement.nodes), ask)
        if placement.nominated and placement.gang == number:
            nodes.update(placement.nodes)
    for node in sorted(nodes):
        short = {snapshot.resources[at] for at in np.flatnonzero(asked[node] > snapshot.free[node])}
        name = snapshot.nodes[node]
        # Ports are no resource to those who count pods: whoever leaves may hold them.
        ports = any(resource.startswith("host port ") for resource in short)
        pods = (one.pod for one in leaving if one.node == name and (ports or not short.isdisjoint(one.holds)))
        if short:
            yield Wait(name, tuple(sorted(pods)))


def _evicted(plan: Plan) -> Iterator[Leaving]:
    """The pods that the plan itself sends away."""
    snapshot = plan.snapshot
    for one in plan.evictions:
        gang = snapshot.gangs[one.gang]
        placed = gang.placed[one.leaf]
        asked = snapshot.asks[placed.shapes[one.pod]]
        holds = frozenset(snapshot.resources[at] for at in np.flatnonzero(asked))
        yield Leaving(f"{gang.key[0]}/{placed.pods[one.pod]}", snapshot.nodes[placed.nodes[one.pod]], holds)


def _recounted(proof: Proof | None, plan: Plan) -> bool:
    """Whether the independent count, in the room that the cycle leaves, comes to the same."""
    if isinstance(proof, Choices):
        proof = proof.refuted[0]
    if not isinstance(proof, Certificate):
        return False
    return refutes(plan.snapshot, _room_after(plan), proof)


def _room_after(plan: Plan) -> Amounts:
    """What is free when all that leaves has left and all that comes has come."""
    snapshot = plan.snapshot
    free = snapshot.free + snapshot.releasing
    for placement in plan.placements:
        shape = snapshot.gangs[placement.gang].waiting[placement.batch].shape
        np.subtract.at(free, list(placement.nodes), snapshot.asks[shape])
    for one in plan.evictions:
        placed = snapshot.gangs[one.gang].placed[one.leaf]
        ask = snapshot.asks[placed.shapes[one.pod]]
        free[placed.nodes[one.pod]] += ask
        if one.to != NONE:
            free[one.to] -= ask
    return free


def _proof(gang: Gang, outcome: Outcome, plan: Plan) -> str:
    if outcome.verdict is Verdict.UNDECIDED:
        return f"none: the search stopped after {outcome.steps:,} steps"
    if outcome.proof is None:
        return ""
    words = proof_in_words(outcome.proof, gang, plan.snapshot)
    # Counted by the engine, and again by a checker that shares nothing with it.
    return words.replace(_COUNTED, "counted twice: ", 1) if _recounted(outcome.proof, plan) else words


def proof_in_words(proof: Proof, gang: Gang, snapshot: Snapshot) -> str:
    """How it is known that there is no placement."""
    if isinstance(proof, Choices):
        ways = len(proof.refuted)
        barred = [gang.tree.nodes[row].name for row, _ in proof.barred]
        alone = f"; {listed(barred)} can't be placed even alone" if barred else ""
        first = proof_in_words(proof.refuted[0], gang, snapshot)
        return f"{first}; {ways:,} way{'' if ways == 1 else 's'} to choose its parts were refuted{alone}"
    if isinstance(proof, Drift):
        name = snapshot.topologies[proof.topology].name
        return f"placed pods already lie in {len(proof.domains)} domains of one required level of Topology {name}"
    if isinstance(proof, Exhausted):
        names = [gang.tree.nodes[row].name or "the gang" for row in proof.rows]
        parts = f"every choice of domains for {listed(names)}" if names else "every way to put its pods on nodes"
        return f"{parts} was tried or ruled out, in {proof.steps:,} steps"
    if isinstance(proof, Refused):
        return _refused(proof, snapshot)
    return _certificate(proof, gang, snapshot)


def _refused(proof: Refused, snapshot: Snapshot) -> str:
    measure, queue = "quota" if proof.quota else "limit", snapshot.queues.names[proof.queue]
    asked = charge_in_words(proof.charge, proof.asked)
    left, most = charge_alone(proof.charge, proof.left), charge_alone(proof.charge, proof.most)
    return f"counted: {asked} are needed, and {left} of the {measure} of queue {queue}, {most}, is left"


def _certificate(proof: Certificate, gang: Gang, snapshot: Snapshot) -> str:
    who = gang.tree.nodes[proof.row].name or "the gang"
    pods = " and ".join(f"{pods:,} × ({ask_in_words(shape, snapshot) or 'nothing'})" for shape, pods in proof.pods[:3])
    if not proof.shortages:
        return f"{who} needs {pods}, and no domain comes into question"
    nearest = proof.shortages[0]
    asked = counted(nearest.asked, nearest.dimension, snapshot)
    if nearest.dimension.shape in snapshot.unoffered:
        names = [shortened(name) for name in snapshot.unoffered[nearest.dimension.shape]]
        return f"{_COUNTED}{who} needs room for {asked}, and no node offers {listed(names)}"
    if proof.topology == NONE:
        return f"{_COUNTED}{who} needs room for {asked}, and all nodes together have room for {nearest.best:,}"
    path = snapshot.domain_path(proof.topology, proof.level, nearest.domain)
    level = snapshot.topologies[proof.topology].labels[proof.level].rpartition("/")[2]
    needs = f"{_COUNTED}{who} needs room for {asked} in one {level}"
    return f"{needs}, and the best left, {path}, has {nearest.best:,}"


def _places(gang: Gang, outcome: Outcome, crowd: Crowd) -> Iterator[Place]:
    """The nearest domains, once each; of what waits beyond the minimum, the nearest one."""
    near = _near(outcome.proof)
    for reason in outcome.reasons if outcome.verdict is Verdict.PLACED else ():
        where = (reason.topology, reason.level, reason.domain)
        if reason.surplus and reason.dimension is not None and NONE not in where:
            near.append(Near(0, reason.row, *where, reason.dimension, reason.asked, reason.best))
    snapshot = crowd.snapshot
    for one in near:
        nodes = snapshot.topologies[one.topology].nodes_of(one.level, one.domain)
        yield Place(
            snapshot.domain_path(one.topology, one.level, one.domain),
            gang.tree.nodes[one.row].name,
            counted(one.asked, one.dimension, snapshot),
            one.asked,
            one.best,
            tuple(crowd.on([int(node) for node in nodes])),
        )


def _near(proof: Proof | None) -> list[Near]:
    if isinstance(proof, Choices):
        return _near(proof.refuted[0])
    if not isinstance(proof, Certificate | Exhausted):
        return []
    if proof.near or isinstance(proof, Exhausted) or proof.topology == NONE:
        return list(proof.near)
    where = (proof.row, proof.topology, proof.level)
    return [Near(0, *where, one.domain, one.dimension, one.asked, one.best) for one in proof.shortages]


def document_of(found: Explanation, snapshot: Snapshot) -> dict[str, Any]:
    """The explanation as `muster explain -o json` prints it."""
    gang, outcome = found.gang, found.outcome
    reasons = reasons_of_rows(gang, outcome, snapshot, sent=found.sent)
    return {
        "namespace": gang.key[0],
        "name": gang.key[1],
        "verdict": outcome.verdict.value,
        "satisfied": outcome.satisfied,
        "message": found.message,
        "checks": [{"name": one.name, "passed": one.good, "message": one.says} for one in found.checks],
        "subGroups": [
            {
                "name": node.name,
                "satisfied": row.satisfied,
                "core": is_core,
                "have": row.placed,
                "minimum": node.minimum,
                "total": row.total,
                "domain": domain_of(row, snapshot) or None,
                "preferredMet": row.preferred_met,
                **joined_of(gang, node.parent, row),
                "reasons": reasons.get(at, []),
            }
            for at, (node, row, is_core) in enumerate(
                zip(gang.tree.nodes, outcome.rows, core_rows(gang, outcome), strict=True)
            )
        ],
        "proof": found.proof or None,
        "steps": outcome.steps,
        "nearest": [
            {
                "where": one.where,
                "subGroup": one.sub_group,
                "what": one.what,
                "asked": one.asked,
                "best": one.best,
                "heldBy": list(one.holders),
            }
            for one in found.places
        ],
        "waitsFor": [{"node": one.node, "pods": list(one.pods)} for one in found.waits],
        "queue": queues.document_of(found.in_line),
        "loses": evictions.documents_of(found.loses),
        "displaces": evictions.documents_of(found.displaces),
        "notes": list(found.hindrances),
        "remedies": [{"kind": one.kind, "message": one.says, "command": one.command} for one in found.helps],
    }
