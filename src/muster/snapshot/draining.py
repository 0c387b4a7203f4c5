"""What a drain of nodes leaves there, and what it deletes only by force."""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from muster.snapshot.arrays import Snapshot
from muster.snapshot.room import Amounts
from muster.snapshot.world import World

# A drain leaves pods that would come back to the node whatever the node allows: those of a DaemonSet, and static ones.
_STAYING = ("DaemonSet", "Node")


class Draining(NamedTuple):
    """Per node what pods hold that a drain leaves, and the nodes with pods that no controller creates again."""

    stays: Mapping[str, Mapping[str, int]]
    bare: frozenset[str]

    def amounts(self, snapshot: Snapshot) -> Amounts:
        """What stays, as the snapshot counts it."""
        found = np.zeros_like(snapshot.free)
        row_of = {name: row for row, name in enumerate(snapshot.nodes)} if self.stays else {}
        column_of = {name: column for column, name in enumerate(snapshot.resources)}
        for node, held in self.stays.items():
            for resource, amount in held.items() if node in row_of else ():
                if resource in column_of:
                    found[row_of[node], column_of[resource]] = amount
        return found


EVERYTHING_GOES = Draining({}, frozenset())


def draining_of(world: World) -> Draining:
    """What a drain would do to each node, by the pods that it has now."""
    stays: dict[str, Counter[str]] = {}
    bare: set[str] = set()
    for facts in world.pods.values():
        node = facts.pod.spec.node_name
        if not node or not facts.holds:
            continue
        kinds = [owner.kind for owner in facts.pod.metadata.owner_references if owner.controller]
        if any(kind in _STAYING for kind in kinds):
            stays.setdefault(node, Counter()).update(dict(facts.request))
        elif not kinds:
            bare.add(node)
    return Draining(stays, frozenset(bare))
