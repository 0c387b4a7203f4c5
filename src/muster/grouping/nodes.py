"""The gang of one workload while it is derived: a tree of nodes that annotations and segments still change."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from muster.grouping.model import Cut


class Bound(NamedTuple):
    """A condition on a pod's label with its values; the keys and operators are those of a ResourceInterface."""

    path: str
    key: str
    operator: str
    values: tuple[str, ...] = ()


class Span(NamedTuple):
    """The pods whose number in `label` is from `start` on and below `stop`: a segment."""

    label: str
    start: int
    stop: int


class Hold(NamedTuple):
    """A topology constraint; empty texts say nothing."""

    topology: str = ""
    required: str = ""
    preferred: str = ""

    def __bool__(self) -> bool:
        return any(self)


FREE = Hold()


@dataclass
class Node:
    """The root, a branch or a leaf. `minimum` counts pods of a leaf and children elsewhere; None: all children.

    `keep`: children that have been satisfied together go only with it (`keep: all`).
    `name` is that of the SubGroup (the root's is empty), `short` what the entry calls it. `bounds` say which pods are
    claimed, None claims all of them. `first` is the number of the first pod, for segments of `size`.
    """

    name: str
    short: str
    path: str
    minimum: int | None = None
    keep: bool = False
    hold: Hold = FREE
    bounds: tuple[Bound, ...] | None = None
    span: Span | None = None
    replicas: int | None = None
    cut: Cut | None = None
    # The size of segments, the number of the first pod and the constraint of each, as the interface gives them.
    size: int | None = None
    first: int = 0
    # How many pods are numbered, when only `replicas` of them are there at a time.
    numbered: int | None = None
    segment_hold: Hold = FREE
    children: list["Node"] = field(default_factory=list)

    def below(self) -> Iterator["Node"]:
        """The node and all below it, in tree order."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(reversed(node.children))
