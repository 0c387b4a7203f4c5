"""Why a gang waits, in full: what was checked, its tree, the proof, the nearest domains, and what would help."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from muster.api.tree import NONE
from muster.decisions.plan import core_rows, domain_of
from muster.decisions.words import ask_in_words, counted, foremost, sentence, told
from muster.plan.nearest import Near
from muster.plan.outcome import Code, Outcome, Plan, Verdict
from muster.plan.proof import Certificate, Choices, Drift, Exhausted, Proof
from muster.plan.recount import refutes
from muster.plan.remedies import EVICT, FREE, LOWER, RELAX, UNCORDON, Remedy
from muster.snapshot.arrays import Gang, Snapshot
from muster.snapshot.requests import PODS

_KIND = "podgroups.scheduling.run.ai"
_MOST_HOLDERS, _MOST_NAMED = 3, 4
# The checks in their order, with the reasons that say that one failed.
_LADDER = (
    ("spec", (Code.INVALID,)),
    ("queue", (Code.QUEUE_NOT_FOUND,)),
    ("topology", (Code.TOPOLOGY_NOT_FOUND, Code.LEVEL_NOT_FOUND)),
    ("supported", (Code.UNSUPPORTED,)),
    ("pods", (Code.WAITING_FOR_PODS,)),
    (
        "room",
        (
            *(Code.INSUFFICIENT, Code.NOT_ENOUGH_IN_DOMAIN, Code.FRAGMENTED, Code.NO_ARRANGEMENT),
            *(Code.TOPOLOGY_DRIFT, Code.SEARCH_BUDGET, Code.WAITING_FOR_ROOM, Code.SCHEDULER_ERROR),
        ),
    ),
)

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


class Help(NamedTuple):
    """A change that was tried, and a command to copy."""

    kind: str
    says: str
    command: str


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


def explain(plan: Plan, number: int, remedies: Sequence[Remedy], leaving: Sequence[Leaving] = ()) -> Explanation:
    """Puts it together for a gang of the plan, with the remedies that were found for it.

    `leaving` are the pods that terminate; a snapshot only knows how much room they hold.
    """
    gang, outcome, snapshot = plan.snapshot.gangs[number], plan.outcomes[number], plan.snapshot
    first = foremost(outcome)
    crowd = _Crowd(plan)
    return Explanation(
        gang,
        outcome,
        sentence(first.reason, gang, snapshot, first.others) if first is not None else _good(outcome, snapshot),
        tuple(_checks(gang, outcome)),
        _proof(gang, outcome, plan),
        tuple(_places(gang, outcome, crowd)),
        tuple(_waits(plan, number, leaving)),
        tuple(_help(remedy, gang, crowd) for remedy in remedies),
    )


def _good(outcome: Outcome, snapshot: Snapshot) -> str:
    """A few words for a gang that has what it needs."""
    root, where = outcome.rows[0], domain_of(outcome.rows[0], snapshot)
    some = f"{root.placed:,} of {_pods(root.total)}"
    words = f"all {_pods(root.total)} are placed" if root.placed == root.total > 1 else f"{some} placed"
    return words + (f", in {where}" if where else "")


def _checks(gang: Gang, outcome: Outcome) -> Iterator[Check]:
    """Every check with its answer. Of a spec that is invalid nothing else is known; room is looked for last."""
    codes = {one.reason.code for one in told(outcome) if not one.reason.surplus}
    # What is preferred and not known is a remark; and once the minimum is there, nothing about it has failed.
    codes = codes if outcome.verdict is not Verdict.PLACED else set()
    for name, failures in _LADDER:
        good: bool | None = codes.isdisjoint(failures)
        if name == "pods":
            good = outcome.verdict is Verdict.PLACED or gang.ready[0]
        if (Code.INVALID in codes and name != "spec") or (name == "room" and outcome.verdict is Verdict.HELD):
            good = None
        yield Check(name, good, _said_of(name, gang, outcome))


def _said_of(name: str, gang: Gang, outcome: Outcome) -> str:
    """What a check is about."""
    there = sum(gang.present) + sum(gang.pending)
    later = any(reason.code == Code.WAITING_FOR_ROOM for reason in outcome.reasons) and not outcome.satisfied
    return {
        "spec": "spec",
        "queue": f"queue {gang.queue}",
        "topology": "topology",
        "supported": "supported",
        "pods": f"{_pods(there)}, {gang.minimum_pods[0]:,} needed",
        "room": "room once pods have left" if later else "room",
    }[name]


def _pods(count: int) -> str:
    return f"{count:,} pod{'' if count == 1 else 's'}"


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


def _recounted(proof: Proof | None, plan: Plan) -> bool:
    """Whether the independent count, in the room that the cycle leaves, comes to the same."""
    if isinstance(proof, Choices):
        proof = proof.refuted[0]
    if not isinstance(proof, Certificate):
        return False
    snapshot = plan.snapshot
    free = snapshot.free + snapshot.releasing
    for placement in plan.placements:
        shape = snapshot.gangs[placement.gang].waiting[placement.batch].shape
        np.subtract.at(free, list(placement.nodes), snapshot.asks[shape])
    return refutes(snapshot, free, proof)


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
        alone = f"; {_listed(barred)} can't be placed even alone" if barred else ""
        first = proof_in_words(proof.refuted[0], gang, snapshot)
        return f"{first}; {ways:,} way{'' if ways == 1 else 's'} to choose its parts were refuted{alone}"
    if isinstance(proof, Drift):
        name = snapshot.topologies[proof.topology].name
        return f"placed pods already lie in {len(proof.domains)} domains of one required level of Topology {name}"
    if isinstance(proof, Exhausted):
        names = [gang.tree.nodes[row].name or "the gang" for row in proof.rows]
        parts = f"every choice of domains for {_listed(names)}" if names else "every way to put its pods on nodes"
        return f"{parts} was tried or ruled out, in {proof.steps:,} steps"
    return _certificate(proof, gang, snapshot)


def _certificate(proof: Certificate, gang: Gang, snapshot: Snapshot) -> str:
    who = gang.tree.nodes[proof.row].name or "the gang"
    pods = " and ".join(f"{pods:,} × ({ask_in_words(shape, snapshot) or 'nothing'})" for shape, pods in proof.pods[:3])
    if not proof.shortages:
        return f"{who} needs {pods}, and no domain comes into question"
    nearest = proof.shortages[0]
    asked = counted(nearest.asked, nearest.dimension, snapshot)
    if proof.topology == NONE:
        return f"{_COUNTED}{who} needs room for {asked}, and all nodes together have room for {nearest.best:,}"
    path = snapshot.domain_path(proof.topology, proof.level, nearest.domain)
    level = snapshot.topologies[proof.topology].labels[proof.level].rpartition("/")[2]
    needs = f"{_COUNTED}{who} needs room for {asked} in one {level}"
    return f"{needs}, and the best left, {path}, has {nearest.best:,}"


def _places(gang: Gang, outcome: Outcome, crowd: "_Crowd") -> Iterator[Place]:
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


class _Crowd:
    """Who is on which nodes, the pods of this cycle included."""

    def __init__(self, plan: Plan) -> None:
        self.snapshot, self._plan = plan.snapshot, plan

    @cached_property
    def _members(self) -> npt.NDArray[np.int64]:
        """The node and the gang of every pod of ours, and whether it came in this cycle."""
        found: list[tuple[int, int, bool]] = []
        for number, gang in enumerate(self.snapshot.gangs):
            for placed in gang.placed.values():
                found += [(node, number, False) for node in placed.nodes]
        for placement in self._plan.placements:
            found += [(node, placement.gang, True) for node in placement.nodes]
        return np.array(found, dtype=np.int64).reshape(-1, 3)

    def on(self, nodes: Sequence[int]) -> Iterator[str]:
        """The gangs with the most pods on some nodes, and how many pods of others there are."""
        snapshot = self.snapshot
        here = self._members[np.isin(self._members[:, 0], nodes)]
        pods = Counter(here[:, 1].tolist())
        ranked = sorted(pods.items(), key=lambda one: (-one[1], one[0]))
        for gang, count in ranked[:_MOST_HOLDERS]:
            yield f"{'/'.join(snapshot.gangs[gang].key)} ({_pods(count)})"
        if len(ranked) > _MOST_HOLDERS:
            yield f"{len(ranked) - _MOST_HOLDERS:,} more gangs"
        column = snapshot.resources.index(PODS)
        held = int((snapshot.allocatable - snapshot.free)[list(nodes), column].sum())
        strangers = held - int((here[:, 2] == 0).sum())
        if strangers > 0:
            yield f"{_pods(strangers)} of others"


def _help(remedy: Remedy, gang: Gang, crowd: _Crowd) -> Help:
    snapshot = crowd.snapshot
    nodes = [snapshot.nodes[node] for node in remedy.nodes]
    words = " ".join(map(_quoted, nodes))
    if remedy.kind == UNCORDON:
        found = Help(remedy.kind, f"uncordon {_listed(nodes)}", f"kubectl uncordon {words}")
    elif remedy.kind == FREE:
        who = "; ".join(crowd.on(remedy.nodes))
        show = "kubectl get pods -A -o wide --field-selector spec.nodeName="
        command = f"{show}{words}" if len(nodes) == 1 else f"for node in {words}; do {show}$node; done"
        found = Help(remedy.kind, f"clear {_listed(nodes)} of other pods: {who}", command)
    elif remedy.kind == EVICT:
        found = _evict(remedy, snapshot)
    elif remedy.kind == RELAX:
        found = _relax(remedy, gang, snapshot)
    else:
        assert remedy.kind == LOWER
        found = _lower(remedy, gang)
    return found if remedy.in_turn else found._replace(says=f"{found.says} (if nobody before it takes the room)")


def _lower(remedy: Remedy, gang: Gang) -> Help:
    node = gang.tree.nodes[remedy.row]
    field = "minSubGroup" if node.children and not node.floor else "minMember"
    says = f"lower {field} of {node.name or 'the gang'} from {remedy.before:,} to {remedy.level:,}"
    return Help(remedy.kind, says, _patch(gang.key, "add", f"{_pointer(node.path)}/{field}", remedy.level))


def _evict(remedy: Remedy, snapshot: Snapshot) -> Help:
    """Surplus of others: pods that their minimums do not need."""
    by_gang: dict[int, list[str]] = {}
    for victim in remedy.victims:
        pods = snapshot.gangs[victim.gang].placed[victim.leaf].pods
        by_gang.setdefault(victim.gang, []).append(pods[victim.pod])
    said, commands = [], []
    for number, found in by_gang.items():
        key, names = snapshot.gangs[number].key, sorted(found)
        said.append(f"{'/'.join(key)} ({_listed(names)})")
        commands.append(f"kubectl delete pod -n {_quoted(key[0])} {' '.join(map(_quoted, names))}")
    return Help(remedy.kind, f"evict surplus of {_listed(said)}", " && ".join(commands))


def _relax(remedy: Remedy, gang: Gang, snapshot: Snapshot) -> Help:
    hold = gang.holds[remedy.hold]
    labels = snapshot.topologies[hold.topology].labels
    node = gang.tree.nodes[hold.row]
    sets = [one for one in gang.tree.together if one.members[0] == hold.row]
    constraint = sets[0].constraint if hold.beside else node.constraint
    assert constraint is not None, "every hold comes from a constraint"
    names = [gang.tree.nodes[row].name for row in sets[0].members] if hold.beside else [node.name or "the gang"]
    who, before = _listed(names), _short(labels[remedy.before])
    # A long name is shortened in the path.
    older = constraint.path.startswith("spec.topologyConstraints.subGroups")
    pointer = f"/spec/topologyConstraints/subGroups/{node.name}" if older and not hold.beside else ""
    required, preferred = (
        f"{pointer or _pointer(constraint.path)}/{which}TopologyLevel" for which in ("required", "preferred")
    )
    if remedy.level != NONE:
        says = f"hold {who} in one {_short(labels[remedy.level])} instead of one {before}"
        return Help(remedy.kind, says, _patch(gang.key, "add", required, labels[remedy.level]))
    if hold.preferred != NONE:
        return Help(remedy.kind, f"do not require one {before} for {who}", _patch(gang.key, "remove", required))
    says = f"prefer one {before} for {who} instead of requiring it"
    return Help(remedy.kind, says, _patch(gang.key, "move", preferred, moved_from=required))


def _short(label: str) -> str:
    return label.rpartition("/")[2]


def _patch(key: tuple[str, str], op: str, pointer: str, value: Any = None, moved_from: str = "") -> str:
    """A command that changes one field of the PodGroup."""
    change: dict[str, Any] = {"op": op, **({"from": moved_from} if moved_from else {}), "path": pointer}
    change.update({"value": value} if op == "add" else {})
    namespace, name = map(_quoted, key)
    return f"kubectl patch {_KIND} -n {namespace} {name} --type=json -p {_quoted(json.dumps([change]))}"


def _quoted(word: str) -> str:
    """One word of a command, as a shell reads it."""
    return word if re.fullmatch(r"[A-Za-z0-9@%+=:,./_-]+", word) else "'" + word.replace("'", "'\"'\"'") + "'"


def _pointer(path: str) -> str:
    """The path of a field as a JSON pointer: `spec.subGroups[2]` is `/spec/subGroups/2`."""
    return "/" + path.replace("[", ".").replace("]", "").replace(".", "/")


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:_MOST_NAMED])
    return f"{shown} and {len(names) - _MOST_NAMED:,} more" if len(names) > _MOST_NAMED else shown


def document_of(found: Explanation, snapshot: Snapshot) -> dict[str, Any]:
    """The explanation as `muster explain -o json` prints it."""
    gang, outcome = found.gang, found.outcome
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
                "reasons": [
                    {"code": one.reason.code, "message": sentence(one.reason, gang, snapshot, one.others)}
                    for one in told(outcome)
                    if one.reason.row == at
                ],
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
        "remedies": [{"kind": one.kind, "message": one.says, "command": one.command} for one in found.helps],
    }
