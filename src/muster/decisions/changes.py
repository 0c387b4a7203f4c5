"""What was tried and would help, in words, each with a command to copy."""

import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from muster.api.tree import NONE
from muster.decisions.amounts import charge_alone, in_queue_units, listed
from muster.decisions.crowd import Crowd
from muster.plan.raises import Raise
from muster.plan.remedies import EVICT, FREE, LOWER, RELAX, UNCORDON, Remedy
from muster.snapshot.arrays import Gang, Snapshot
from muster.snapshot.queues import CHARGES

RAISE = "raise"
_KIND = "podgroups.scheduling.run.ai"


class Help(NamedTuple):
    """A change that was tried, and a command to copy."""

    kind: str
    says: str
    command: str


def change_in_words(remedy: Remedy, gang: Gang, crowd: Crowd) -> Help:
    """What to do, and the command that does it."""
    snapshot = crowd.snapshot
    nodes = [snapshot.nodes[node] for node in remedy.nodes]
    words = " ".join(map(_quoted, nodes))
    if remedy.kind == UNCORDON:
        found = Help(remedy.kind, f"uncordon {listed(nodes)}", f"kubectl uncordon {words}")
    elif remedy.kind == FREE:
        who = "; ".join(crowd.on(remedy.nodes))
        force = " --force" if remedy.forced else ""
        drain = f"kubectl drain {words} --ignore-daemonsets --delete-emptydir-data{force}"
        # The gang waits until the nodes are open again.
        found = Help(remedy.kind, f"clear {listed(nodes)} of other pods: {who}", f"{drain} && kubectl uncordon {words}")
    elif remedy.kind == EVICT:
        found = Help(remedy.kind, f"evict surplus of {_surplus(remedy, snapshot)}", evict_command(gang.key))
    elif remedy.kind == RELAX:
        found = _relax(remedy, gang, snapshot)
    else:
        assert remedy.kind == LOWER
        found = _lower(remedy, gang)
    return found if remedy.in_turn else found._replace(says=f"{found.says} (if nobody before it takes the room)")


def raises_in_words(raises: Sequence[Raise], snapshot: Snapshot) -> Help:
    """What queues would have to allow, as one change."""
    said = []
    specs: dict[str, dict[str, dict[str, Any]]] = {}
    for one in raises:
        queue, field = snapshot.queues.names[one.queue], "quota" if one.quota else "limit"
        amounts = (charge_alone(one.charge, amount) for amount in (one.before, one.after))
        said.append(f"the {CHARGES[one.charge]} {field} of queue {queue} from {' to '.join(amounts)}")
        resources = specs.setdefault(queue, {})
        resources.setdefault(CHARGES[one.charge], {})[field] = in_queue_units(one.charge, one.after)
    commands = [
        f"kubectl patch queues.scheduling.run.ai {_quoted(queue)} --type=merge -p "
        + _quoted(json.dumps({"spec": {"resources": resources}}))
        for queue, resources in specs.items()
    ]
    return Help(RAISE, f"raise {' and '.join(said)}", " && ".join(commands))


def _lower(remedy: Remedy, gang: Gang) -> Help:
    node = gang.tree.nodes[remedy.row]
    field = "minSubGroup" if node.children and not node.floor else "minMember"
    says = f"lower {field} of {node.name or 'the gang'} from {remedy.before:,} to {remedy.level:,}"
    return Help(remedy.kind, says, _patch(gang.key, "add", f"{_pointer(node.path)}/{field}", remedy.level))


def _surplus(remedy: Remedy, snapshot: Snapshot) -> str:
    """The gangs that lose pods that their minimums do not need, each with the pods."""
    by_gang: dict[int, list[str]] = {}
    for victim in remedy.victims:
        pods = snapshot.gangs[victim.gang].placed[victim.leaf].pods
        by_gang.setdefault(victim.gang, []).append(pods[victim.pod])
    return listed([f"{'/'.join(snapshot.gangs[at].key)} ({listed(sorted(pods))})" for at, pods in by_gang.items()])


def evict_command(key: tuple[str, str]) -> str:
    """The command that evicts for a gang and keeps the room for it, whatever the owners of the evicted pods do."""
    return f"muster evict --for {_quoted('/'.join(key))} --dry-run=none"


def _relax(remedy: Remedy, gang: Gang, snapshot: Snapshot) -> Help:
    hold = gang.holds[remedy.hold]
    labels = snapshot.topologies[hold.topology].labels
    node = gang.tree.nodes[hold.row]
    sets = [one for one in gang.tree.together if one.members[0] == hold.row]
    constraint = sets[0].constraint if hold.beside else node.constraint
    assert constraint is not None, "every hold comes from a constraint"
    names = [gang.tree.nodes[row].name for row in sets[0].members] if hold.beside else [node.name or "the gang"]
    who, before = listed(names), _short(labels[remedy.before])
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
