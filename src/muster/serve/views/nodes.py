"""The nodes as the page shows them: where each lies, what it has in slots, and who else holds some of them.

On every node `slots` = `free` + `others` + the slots of the pods that gangs list there, those aside that are only
nominated: they hold nothing yet. Where pods hold more than the node has, `free` is 0 and the sum may be more.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from muster.api.tree import NONE
from muster.serve.views.gangs import Document, Entry, in_slots
from muster.serve.views.scene import READY, Scene
from muster.snapshot.domains import Domains
from muster.snapshot.room import Amounts

SLOTS, FREE, OTHERS = range(3)


class Nodes(NamedTuple):
    """Every node as a document, in the order of the snapshot, and what they were made of."""

    documents: dict[str, Document]
    # Per node: what gangs hold, and what more they get in this cycle; in base units, as are slots, free and others.
    held: Amounts
    comes: Amounts
    amounts: Amounts
    # Those that are not as they were.
    changed: frozenset[str]


def nodes_of(scene: Scene, entries: Iterable[Entry]) -> Nodes:
    """All nodes made anew."""
    count = len(scene.plan.snapshot.nodes)
    held, comes = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    for entry in entries:
        _count(entry, held, comes, 1)
    amounts = _amounts(scene, held, comes)
    paths = [_paths(one, count) for one in scene.plan.snapshot.topologies]
    documents = {
        name: {
            "paths": [path[row] for path in paths],
            **_in_slots(here, scene.unit.scale),
            **scene.nodes[name]._asdict(),
        }
        for row, (name, here) in enumerate(zip(scene.plan.snapshot.nodes, amounts.tolist(), strict=True))
    }
    return Nodes(documents, held, comes, amounts, frozenset(documents))


def compared(now: Nodes, before: Nodes) -> Nodes:
    """Nodes that were made anew beside those before: what is the same is the same document."""
    known = before.documents
    documents = {name: known[name] if known.get(name) == one else one for name, one in now.documents.items()}
    changed = {name for name, one in documents.items() if known.get(name) is not one}
    return now._replace(documents=documents, changed=frozenset(changed | (known.keys() - documents.keys())))


def put_right(before: Nodes, scene: Scene, gone: Iterable[Entry], new: Iterable[Entry]) -> Nodes:
    """The same nodes with other amounts: some gangs are no longer as they were, but as they are."""
    held, comes, names = before.held.copy(), before.comes.copy(), scene.plan.snapshot.nodes
    for entries, sign in ((gone, -1), (new, 1)):
        for entry in entries:
            _count(entry, held, comes, sign)
    amounts = _amounts(scene, held, comes)
    rows = np.flatnonzero((amounts != before.amounts).any(axis=1))
    documents = dict(before.documents)
    for row, here in zip(rows.tolist(), amounts[rows].tolist(), strict=True):
        documents[names[row]] = {**documents[names[row]], **_in_slots(here, scene.unit.scale)}
    return Nodes(documents, held, comes, amounts, frozenset(names[row] for row in rows.tolist()))


def are_the_same(was: Scene, now: Scene) -> bool:
    """Whether the nodes are the same in all but their amounts."""
    before, after = was.plan.snapshot, now.plan.snapshot
    same = before.nodes is after.nodes and before.topologies is after.topologies and was.nodes is now.nodes
    return same and was.unit == now.unit


def in_all(nodes: Nodes, scene: Scene) -> Document:
    """How many there are, what they have together, and what of it is free on those that take pods."""
    ready = [scene.nodes[name].state == READY for name in scene.plan.snapshot.nodes]
    amounts = (nodes.amounts[:, SLOTS], nodes.amounts[ready, FREE])
    slots, free = (in_slots(int(amount.sum()), scene.unit.scale) for amount in amounts)
    return {"nodes": len(nodes.documents), "slots": slots, "free": free}


def _count(entry: Entry, held: Amounts, comes: Amounts, sign: int) -> None:
    for node, amount in entry.holds:
        held[node] += sign * amount
    for node, amount in entry.comes:
        comes[node] += sign * amount


def _amounts(scene: Scene, held: Amounts, comes: Amounts) -> Amounts:
    others = (scene.slots - scene.free - held).clip(min=0)
    return np.stack([scene.slots, (scene.free - comes).clip(min=0), others], axis=1)


def _in_slots(amounts: list[int], scale: int) -> Mapping[str, int | float]:
    slots, free, others = (in_slots(amount, scale) for amount in amounts)
    return {"slots": slots, "free": free, "others": others}


def _paths(domains: Domains, nodes: int) -> list[list[str] | None]:
    """Per node the domains that it lies in, the widest first; None for a node that is in none."""
    found: list[list[str] | None] = [None] * nodes
    wider: tuple[str, ...] = ()
    for level in domains.levels:
        # A path is that of the domain around it, and one name more.
        names = [
            path[len(wider[around]) + 1 :] if around != NONE else path
            for path, around in zip(level.paths, level.parent.tolist(), strict=True)
        ]
        for row, domain in enumerate(level.domain_of.tolist()):
            if domain != NONE:
                found[row] = [*(found[row] or ()), names[domain]]
        wider = level.paths
    return found
