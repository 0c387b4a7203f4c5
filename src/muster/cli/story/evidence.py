"""Whether a claim of the demo is true, judged by what the API server shows and by what was seen on the way there."""

from collections import Counter
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import groupby
from typing import Any

from msgspec import structs

from muster.api.tree import Tree
from muster.cli.judging import plural
from muster.cli.story.racks import short
from muster.cli.story.tale import Claim
from muster.cli.story.witness import Lot, Moment, Witness
from muster.decisions.amounts import listed
from muster.sim.expecting import GANG, Seen, differs, key_of
from muster.sim.objects import GPU
from muster.sim.scenario import Expected, GangExpected

Document = dict[str, Any]
Key = tuple[str, str]
_MOST_NAMED = 6
_ENDED = ("Succeeded", "Failed")


def faults_of(claim: Claim, seen: Seen, witness: Witness) -> list[str]:
    """All that speaks against a claim; nothing when it is true."""
    wrong = differs(_with_names(claim.expect, seen), seen)
    for name in claim.kept:
        moments = witness.moments(_key(name, seen))
        below = sum(not moment.met[0] for moment in moments)
        wrong += [f"{name} was below its minimum in {below} of {len(moments)} states"] if below else []
        wrong += [] if moments else [f"{name} was never seen"]
    for pattern in claim.same:
        first, now = witness.pods_like(pattern)
        left = sum(now.get(key) == one for key, one in first.items())
        wrong += [] if first and left == len(first) else [f"of {len(first)} pods {pattern} {left} are as they were"]
    for pattern in claim.went:
        wrong += _unmoved(pattern, *witness.pods_like(pattern))
    for name, owner in claim.owners.items():
        wrong += [] if owner in _owners(name, seen) else [f"{name} does not belong to {owner}"]
    return wrong


def told(claim: Claim, seen: Seen, witness: Witness) -> str:
    """What was seen of what a claim is about, in a line."""
    return "; ".join(_told(claim, seen, witness))


def _told(claim: Claim, seen: Seen, witness: Witness) -> Iterator[str]:
    for pattern, expected in claim.expect.gangs.items():
        yield _gang_told(_key(pattern, seen), expected, seen)
    for name in claim.expect.queues:
        queue = next((one for one in seen.queues if one["metadata"]["name"] == name), {})
        amount = ((queue.get("status") or {}).get("allocated") or {}).get("gpu", 0)
        yield f"{name} holds {amount} GPUs"
    if claim.expect.evictions is not None:
        gone = Counter(_group_of(one) for one in seen.evicted)
        some = ", ".join(f"{count} of {name}" for name, count in gone.items())
        yield f"{plural(len(seen.evicted), 'pod')} evicted" + (f": {some}" if some else "")
    for pattern in claim.kept:
        yield _kept_told(pattern, witness.moments(_key(pattern, seen)))
    if claim.same:
        yield f"{sum(len(witness.pods_like(pattern)[1]) for pattern in claim.same)} pods as before"
    for pattern in claim.went:
        nodes = [sorted({one.node for one in lot.values()}) for lot in witness.pods_like(pattern)]
        yield f"{pattern}: {listed(nodes[0], 2)} → {listed(nodes[1], 2)}"
    for pattern, owner in claim.owners.items():
        yield f"PodGroup {short(_key(pattern, seen)[1])} belongs to {owner}"


def _gang_told(key: Key, expected: GangExpected, seen: Seen) -> str:
    status = next((one.get("status") or {} for one in seen.groups if key_of(one) == key), {})
    rows = {row["name"]: row for row in status.get("subGroups") or ()}
    said = [f"{short(key[1])} {status.get('phase', 'has no status')}"]
    said += [status["reason"]] if status.get("reason") else []
    placed = rows.get("", {}).get("pods", {}).get("placed", 0)
    total = rows.get("", {}).get("pods", {}).get("total", 0)
    said.append(f"{placed} of {total} pods placed")
    if rows.get("", {}).get("domain"):
        said.append(f"in {rows['']['domain']}")
    asked = [(name, one.level) for one in expected.together for name in one.sub_groups]
    parts = [f"{name} {_where(rows.get(name, {}), level, seen)}" for name, level in asked[:_MOST_NAMED]]
    # Where the parts are says more than that they are placed.
    return ", ".join(parts if parts and not expected.placed else [*said, *parts])


def _where(row: Document, level: str, seen: Seen) -> str:
    """The part of a subgroup's domain that belongs to a level."""
    parts = str(row.get("domain") or "").split("/")
    levels = [one["nodeLabel"] for topology in seen.topologies[:1] for one in topology["spec"]["levels"]]
    at = levels.index(level) if level in levels else -1
    return parts[at] if 0 <= at < len(parts) else "-"


def _kept_told(name: str, moments: Sequence[Moment]) -> str:
    """That it stayed whole, and how the part of it that changed went up and down."""
    if not moments:
        return f"{name} was never seen"
    words = f"{name} {'stayed satisfied' if all(one.met[0] for one in moments) else 'was not always satisfied'}"
    tree = moments[-1].tree
    for row, node in enumerate(tree.nodes):
        counts = [count for count, _ in groupby(_children(moment, tree, row) for moment in moments)]
        if node.children and len(counts) > 1 and not all(tree.nodes[child].children for child in node.children):
            ways = " → ".join(map(str, counts))
            return f"{words}: {ways} of {len(node.children)} parts of {node.name or name}, {node.minimum} needed"
    return words


def _children(moment: Moment, tree: Tree, row: int) -> int:
    return sum(moment.met[child] for child in tree.nodes[row].children) if moment.tree == tree else 0


def always(seen: Seen) -> list[tuple[str, list[str], str]]:
    """What holds whatever the story is: each as a sentence, what speaks against it, and what was seen."""
    pods = [one for one in seen.pods if one["spec"].get("nodeName") and not _has_ended(one)]
    held: Counter[str] = Counter()
    for pod in pods:
        held[pod["spec"]["nodeName"]] += _gpus(pod)
    room = {key_of(one)[1]: _amount((one["status"].get("allocatable") or {}).get(GPU)) for one in seen.nodes}
    asked = ((node, room[node], amount) for node, amount in held.items() if node in room)
    over = [f"{node} has {has} GPUs, and {amount} are asked of it" for node, has, amount in asked if amount > has]
    half = [
        f"{key_of(one)[1]} has some of its pods placed, not enough, and lost none" for one in filter(_half, seen.groups)
    ]
    return [
        ("no node has more on it than it can take", over, f"{sum(held.values())} of {sum(room.values())} GPUs in use"),
        ("no gang is started by half", half, f"{plural(len(seen.groups), 'gang')}, {plural(len(pods), 'pod')} placed"),
    ]


def _half(group: Document) -> bool:
    """Whether a gang has pods placed and never had its minimum; one that lost some is stale."""
    root: Document = next(iter((group.get("status") or {}).get("subGroups") or ()), {})
    placed = (root.get("pods") or {}).get("placed", 0)
    return bool(placed) and not root.get("satisfied") and "staleSince" not in root


def _with_names(expected: Expected, seen: Seen) -> Expected:
    """Gangs by their names instead of patterns."""
    gangs = {"/".join(_key(pattern, seen)).removeprefix("default/"): one for pattern, one in expected.gangs.items()}
    return structs.replace(expected, gangs=gangs)


def _key(pattern: str, seen: Seen) -> Key:
    """The gang that a pattern means: a name, or namespace/name."""
    space, _, name = pattern.rpartition("/")
    found = [key_of(one) for one in seen.groups if fnmatchcase(key_of(one)[1], name)]
    return next((key for key in found if key[0] == (space or "default")), (space or "default", name))


def _owners(pattern: str, seen: Seen) -> list[str]:
    key = _key(pattern, seen)
    groups = [one for one in seen.groups if key_of(one) == key]
    return [
        f"{one['kind']}/{one['name']}" for group in groups for one in group["metadata"].get("ownerReferences") or ()
    ]


def _group_of(pod: Document) -> str:
    annotations, labels = (pod["metadata"].get(field) or {} for field in ("annotations", "labels"))
    return "/".join(filter(None, (annotations.get(GANG, ""), labels.get("kai.scheduler/subgroup-name", ""))))


def _unmoved(pattern: str, first: Lot, now: Lot) -> list[str]:
    """What speaks against it that pods went and others are in their place, somewhere else."""
    if not first:
        return [f"there were no pods {pattern}"]
    still = {one.uid for one in first.values()} & {one.uid for one in now.values()}
    if still:
        return [f"{len(still)} of the pods {pattern} are still there"]
    if len(now) < len(first):
        return [f"of {len(first)} pods {pattern} {len(now)} are back"]
    again = {one.node for one in first.values()} & {one.node for one in now.values()}
    return [f"pods {pattern} are on {', '.join(sorted(again))} again"] if again else []


def _has_ended(pod: Document) -> bool:
    return (pod.get("status") or {}).get("phase") in _ENDED


def _gpus(pod: Document) -> int:
    requests = ((one.get("resources") or {}).get("requests") or {} for one in pod["spec"]["containers"])
    return sum(_amount(one.get(GPU)) for one in requests)


def _amount(text: object) -> int:
    return int(str(text)) if str(text).isdigit() else 0
