"""The nodes of a snapshot as a tree of domains: sorted by their path, so that every domain is a slice."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from muster.api.cluster import Node
from muster.api.topology import Topology
from muster.api.tree import NONE

Rows = npt.NDArray[np.int32]


class Level(NamedTuple):
    """All domains of one level, in the order of their paths.

    `start[domain]:stop[domain]` is the domain's slice of the topology's `order`; `parent[domain]` is the domain of the
    next wider level around it, NONE at the widest; `domain_of[node]` is NONE for a node that is in no domain here.
    """

    paths: tuple[str, ...]
    start: Rows
    stop: Rows
    parent: Rows
    domain_of: Rows


@dataclass(frozen=True, eq=False)
class Domains:
    """One Topology over the nodes: `order[position]` is the node row that stands there; level 0 is the widest.

    `labels` are the node labels of the levels.
    """

    name: str
    labels: tuple[str, ...]
    order: Rows
    levels: tuple[Level, ...]
    _wider: dict[tuple[int, int], Rows] = field(default_factory=dict, init=False, repr=False)

    def wider(self, level: int, outer: int) -> Rows:
        """Per domain of a level, the domain of an outer level that it lies in."""
        if (level, outer) not in self._wider:
            found = np.arange(len(self.levels[level].paths), dtype=np.int32)
            for at in range(level, outer, -1):
                found = self.levels[at].parent[found]
            self._wider[level, outer] = found
        return self._wider[level, outer]

    def nodes_of(self, level: int, domain: int) -> Rows:
        """The rows of the nodes in a domain."""
        found = self.levels[level]
        return self.order[found.start[domain] : found.stop[domain]]


def domains_of(topology: Topology, nodes: Sequence[Node]) -> Domains:
    """The domains that the nodes' labels make. A node that lacks a label is in no domain of that level or below it."""
    labels = [level.node_label for level in topology.spec.levels]
    ways = [_way(node, labels) for node in nodes]
    # A way that ends early sorts behind all that go on, so that what goes on stays together at every level.
    last = (1, "")
    order = sorted(
        range(len(nodes)),
        key=lambda row: ([*((0, value) for value in ways[row]), last], nodes[row].metadata.name),
    )
    levels: list[Level] = []
    for depth in range(len(labels)):
        levels.append(_level(depth, order, ways, levels[-1] if levels else None))
    return Domains(topology.metadata.name, tuple(labels), np.array(order, dtype=np.int32), tuple(levels))


def _way(node: Node, labels: Sequence[str]) -> tuple[str, ...]:
    """The values from the widest level down to the last that the node has. An empty value is a value."""
    found = []
    for label in labels:
        value = node.metadata.labels.get(label)
        if value is None:
            break
        found.append(value)
    return tuple(found)


def _level(depth: int, order: Sequence[int], ways: Sequence[tuple[str, ...]], wider: Level | None) -> Level:
    paths: list[str] = []
    start: list[int] = []
    stop: list[int] = []
    parent: list[int] = []
    domain_of = np.full(len(order), NONE, dtype=np.int32)
    here: tuple[str, ...] = ()
    for position, row in enumerate(order):
        way = ways[row][: depth + 1]
        if len(way) <= depth:
            continue
        if way != here or not paths:
            here = way
            paths.append("/".join(way))
            start.append(position)
            stop.append(position)
            parent.append(NONE if wider is None else int(wider.domain_of[row]))
        stop[-1] = position + 1
        domain_of[row] = len(paths) - 1
    arrays = [np.array(values, dtype=np.int32) for values in (start, stop, parent)]
    return Level(tuple(paths), arrays[0], arrays[1], arrays[2], domain_of)
