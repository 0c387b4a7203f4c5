"""Why a gang waits, in full: what was checked, its tree, the proof, the nearest domains, and what would help."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from muster.api.tree import NONE
from muster.decisions.plan import core_rows, domain_of
from muster.decisions.words import ask_in_words, counted, foremost, sentence, told
from muster.plan.nearest import Near
from muster.plan.outcome import Code, Outcome, Plan, Verdict
from muster.plan.proof import Certificate, Choices, Drift, Exhausted, Proof
from muster.plan.remedies import EVICT, FREE, LOWER, RELAX, UNCORDON, Remedy
from muster.snapshot.arrays import Gang, Snapshot

_KIND = "podgroups.scheduling.run.ai"
_MOST_HOLDERS, _MOST_NAMED = 2, 4
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


class Explanation(NamedTuple):
    """Everything that there is to say about one gang."""

    gang: Gang
    outcome: Outcome
    message: str
    checks: tuple[Check, ...]
    proof: str
    places: tuple[Place, ...]
    helps: tuple[Help, ...]


def explain(plan: Plan, number: int, remedies: tuple[Remedy, ...]) -> Explanation:
    """Puts it together for a gang of the plan, with the remedies that were found for it."""
    gang, outcome, snapshot = plan.snapshot.gangs[number], plan.outcomes[number], plan.snapshot
    first = foremost(outcome)
    message = sentence(first.reason, gang, snapshot, first.others) if first is not None else _good(gang, outcome, plan)
    return Explanation(
        gang,
        outcome,
        message,
        tuple(_checks(gang, outcome)),
        proof_in_words(outcome.proof, gang, snapshot) if outcome.proof is not None else "",
        tuple(_places(outcome.proof, gang, plan)) if outcome.proof is not None else (),
        tuple(_help(remedy, gang, snapshot) for remedy in remedies),
    )


def _good(gang: Gang, outcome: Outcome, plan: Plan) -> str:
    """A few words for a gang that has what it needs."""
    where = domain_of(outcome.rows[0], plan.snapshot)
    root = outcome.rows[0]
    return f"{root.placed:,} of {root.total:,} pods are placed" + (f", all in {where}" if where else "")


def _checks(gang: Gang, outcome: Outcome) -> Iterator[Check]:
    failed = False
    for name, codes in _LADDER:
        reasons = [one for one in told(outcome) if one.reason.code in codes and not one.reason.surplus]
        about_room = name == "room"
        # A preferred level that nobody has is a remark; and once the minimum is there, nothing about it has failed.
        bad = bool(reasons) and outcome.verdict is not Verdict.PLACED
        if failed:
            yield Check(name, None, _said_of(name, gang))
        elif bad:
            failed = True
            yield Check(name, False, _said_of(name, gang))
        else:
            waits = about_room and outcome.verdict is Verdict.HELD
            yield Check(name, None if waits else True, _said_of(name, gang))


def _said_of(name: str, gang: Gang) -> str:
    """What a check is about."""
    there = sum(gang.present) + sum(gang.pending)
    return {
        "spec": "spec is valid",
        "queue": f"queue {gang.queue}",
        "topology": "topologies and levels are known",
        "supported": "nothing unsupported is asked for",
        "pods": f"{there:,} pods are there, {gang.minimum_pods[0]:,} needed",
        "room": "room for the minimum",
    }[name]


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
        return f"counted: {who} needs room for {asked}, and all nodes together have room for {nearest.best:,}"
    path = snapshot.domain_path(proof.topology, proof.level, nearest.domain)
    level = snapshot.topologies[proof.topology].labels[proof.level].rpartition("/")[2]
    needs = f"counted: {who} needs room for {asked} in one {level}"
    return f"{needs}, and the best of those left, {path}, has {nearest.best:,}"


def _places(proof: Proof, gang: Gang, plan: Plan) -> Iterator[Place]:
    """The nearest domains, once each."""
    if isinstance(proof, Choices):
        yield from _places(proof.refuted[0], gang, plan)
    if not isinstance(proof, Certificate | Exhausted):
        return
    near = list(proof.near)
    if isinstance(proof, Certificate) and not near and proof.topology != NONE:
        near = [
            Near(0, proof.row, proof.topology, proof.level, one.domain, one.dimension, one.asked, one.best)
            for one in proof.shortages
        ]
    for one in near:
        snapshot = plan.snapshot
        nodes = snapshot.topologies[one.topology].nodes_of(one.level, one.domain)
        yield Place(
            snapshot.domain_path(one.topology, one.level, one.domain),
            gang.tree.nodes[one.row].name,
            counted(one.asked, one.dimension, snapshot),
            one.asked,
            one.best,
            tuple(_holders(frozenset(int(node) for node in nodes), plan)),
        )


def _holders(nodes: frozenset[int], plan: Plan) -> Iterator[str]:
    """The gangs with the most pods on some nodes, those of this cycle included."""
    snapshot = plan.snapshot
    pods: Counter[int] = Counter()
    for number, gang in enumerate(snapshot.gangs):
        found = sum(node in nodes for placed in gang.placed.values() for node in placed.nodes)
        if found:
            pods[number] += found
    for placement in plan.placements:
        pods[placement.gang] += sum(node in nodes for node in placement.nodes)
    ranked = sorted(((count, number) for number, count in pods.items() if count), key=lambda one: (-one[0], one[1]))
    for count, number in ranked[:_MOST_HOLDERS]:
        yield f"{'/'.join(snapshot.gangs[number].key)} ({count:,} pod{'' if count == 1 else 's'})"


def _help(remedy: Remedy, gang: Gang, snapshot: Snapshot) -> Help:
    nodes = [snapshot.nodes[node] for node in remedy.nodes]
    if remedy.kind == UNCORDON:
        return Help(remedy.kind, f"uncordon {_listed(nodes)}", f"kubectl uncordon {' '.join(nodes)}")
    if remedy.kind == FREE:
        fields = f"kubectl get pods -A --field-selector spec.nodeName={nodes[0]}" if nodes else ""
        return Help(remedy.kind, f"empty {_listed(nodes)} of other pods", fields)
    if remedy.kind == EVICT:
        return _evict(remedy, snapshot)
    if remedy.kind == RELAX:
        return _relax(remedy, gang, snapshot)
    assert remedy.kind == LOWER
    node = gang.tree.nodes[remedy.row]
    field = "minSubGroup" if node.children and not node.floor else "minMember"
    says = f"lower {field} of {node.name or 'the gang'} from {remedy.before:,} to {remedy.level:,}"
    return Help(remedy.kind, says, _patch(gang.key, "add", f"{node.path}.{field}", remedy.level))


def _evict(remedy: Remedy, snapshot: Snapshot) -> Help:
    """Surplus of others: pods that their minimums do not need."""
    by_gang: dict[int, list[str]] = {}
    for victim in remedy.victims:
        pods = snapshot.gangs[victim.gang].placed[victim.leaf].pods
        by_gang.setdefault(victim.gang, []).append(pods[victim.pod])
    said = [f"{'/'.join(snapshot.gangs[number].key)} ({_listed(sorted(pods))})" for number, pods in by_gang.items()]
    commands = [
        f"kubectl delete pod -n {snapshot.gangs[number].key[0]} {' '.join(sorted(pods))}"
        for number, pods in by_gang.items()
    ]
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
    required, preferred = (f"{constraint.path}.{which}TopologyLevel" for which in ("required", "preferred"))
    if remedy.level != NONE:
        says = f"hold {who} in one {_short(labels[remedy.level])} instead of one {before}"
        return Help(remedy.kind, says, _patch(gang.key, "add", required, labels[remedy.level]))
    if hold.preferred != NONE:
        return Help(remedy.kind, f"do not require one {before} for {who}", _patch(gang.key, "remove", required))
    says = f"prefer one {before} for {who} instead of requiring it"
    return Help(remedy.kind, says, _patch(gang.key, "move", preferred, moved_from=required))


def _short(label: str) -> str:
    return label.rpartition("/")[2]


def _patch(key: tuple[str, str], op: str, path: str, value: Any = None, moved_from: str = "") -> str:
    """A command that changes one field of the PodGroup."""
    change: dict[str, Any] = {"op": op, **({"from": _pointer(moved_from)} if moved_from else {})}
    change.update({"path": _pointer(path), **({"value": value} if op == "add" else {})})
    namespace, name = map(_quoted, key)
    return f"kubectl patch {_KIND} -n {namespace} {name} --type=json -p {_quoted(json.dumps([change]))}"


def _quoted(word: str) -> str:
    """One word of a command, as a shell reads it."""
    return word if re.fullmatch(r"[A-Za-z0-9@%+=:,./_-]+", word) else "'" + word.replace("'", "'\"'\"'") + "'"


def _pointer(path: str) -> str:
    """The path of a field as a JSON pointer (RFC 6901): `spec.subGroups[2]` is `/spec/subGroups/2`."""
    parts = re.findall(r'\["((?:[^"\\]|\\.)*)"\]|\[(\d+)\]|([^.\[\]]+)', path)
    words = (json.loads(f'"{quoted}"') if quoted else number or word for quoted, number, word in parts)
    return "".join("/" + word.replace("~", "~0").replace("/", "~1") for word in words)


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
        "remedies": [{"kind": one.kind, "message": one.says, "command": one.command} for one in found.helps],
    }
