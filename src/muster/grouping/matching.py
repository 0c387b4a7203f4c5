"""Which leaf claims a pod: the first in document order whose conditions its labels meet.

A workload may have ten thousand leaves and as many pods. So each leaf is filed under the rarest value that it demands,
or under its span of numbers if that is rarer, and a pod is compared only with the leaves that it can belong to.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from muster.api.documents import shown
from muster.api.interface import OPERATORS
from muster.api.tree import NONE
from muster.grouping.nodes import Bound, Node, Span

EQUALS, NOT_EQUALS, IN, NOT_IN, EXISTS, DOES_NOT_EXIST = OPERATORS
# More digits than any pod has: such a number is no index.
_MOST_DIGITS = 9


def holds(bound: Bound, labels: Mapping[str, Any]) -> bool:
    """Whether the labels meet a condition. A label that is not there differs from every value."""
    value = labels.get(bound.key)
    match bound.operator:
        case "Equals" | "In":
            return isinstance(value, str) and value in bound.values
        case "NotEquals" | "NotIn":
            return not isinstance(value, str) or value not in bound.values
        case "Exists":
            return bound.key in labels
        case _:
            return bound.key not in labels


def index_of(label: str, labels: Mapping[str, Any]) -> int | None:
    """The number in a label; None when it is not there or no number."""
    value = labels.get(label)
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= _MOST_DIGITS:
        return int(value)
    return None


def claims(node: Node, labels: Mapping[str, Any]) -> bool:
    """Whether a leaf takes a pod with these labels."""
    if node.span is not None:
        index = index_of(node.span.label, labels)
        if index is None or not node.span.start <= index < node.span.stop:
            return False
    return all(holds(bound, labels) for bound in node.bounds or ())


class Refusal(NamedTuple):
    """Why a leaf does not take a pod."""

    leaf: str
    why: str


def refusals(leaves: Sequence[Node], labels: Mapping[str, Any]) -> Iterator[Refusal]:
    """For each leaf that does not take the pod, the first condition that fails."""
    for leaf in leaves:
        why = _why_not(leaf, labels)
        if why:
            yield Refusal(leaf.name, why)


def _why_not(leaf: Node, labels: Mapping[str, Any]) -> str:
    for bound in leaf.bounds or ():
        if not holds(bound, labels):
            wanted = f" {', '.join(map(shown, bound.values[:4]))}" if bound.values else ""
            has = f"is {shown(labels[bound.key])}" if bound.key in labels else "is not there"
            return f"label {bound.key} {has}, wanted: {bound.operator}{wanted}"
    span = leaf.span
    if span is not None:
        index = index_of(span.label, labels)
        if index is None:
            return f"label {span.label} is no number, wanted: {span.start} to {span.stop - 1}"
        if not span.start <= index < span.stop:
            return f"label {span.label} is {index}, wanted: {span.start} to {span.stop - 1}"
    return ""


class Leaves:
    """The leaves of one gang, filed so that a pod finds its own at once."""

    def __init__(self, leaves: Sequence[Node]) -> None:
        self.nodes = tuple(leaves)
        demands = [_demands(leaf) for leaf in leaves]
        often = Counter(demand for some in demands for demand in some)
        spans = Counter(leaf.span for leaf in leaves)
        self._by_value: dict[tuple[str, str], list[int]] = {}
        self._by_span: dict[tuple[str, int, int], dict[int, list[int]]] = {}
        self._others: list[int] = []
        for row, (leaf, some) in enumerate(zip(leaves, demands, strict=True)):
            rarest = min(some, key=lambda demand: (often[demand], demand), default=None)
            if leaf.span is not None and (rarest is None or often[rarest] > spans[leaf.span]):
                self._file(leaf.span, row)
            elif rarest is not None:
                self._by_value.setdefault(rarest, []).append(row)
            else:
                self._others.append(row)
        self._keys = tuple(dict.fromkeys(key for key, _ in self._by_value))

    def _file(self, span: Span, row: int) -> None:
        width = max(span.stop - span.start, 1)
        self._by_span.setdefault((span.label, width, span.start % width), {}).setdefault(span.start, []).append(row)

    def of(self, labels: Mapping[str, Any]) -> int:
        """The row of the leaf that claims a pod with these labels, or NONE."""
        candidates = list(self._others)
        for key in self._keys:
            value = labels.get(key)
            if isinstance(value, str):
                candidates += self._by_value.get((key, value), ())
        for (label, width, offset), rows in self._by_span.items():
            index = index_of(label, labels)
            if index is not None:
                candidates += rows.get(index - (index - offset) % width, ())
        for row in sorted(candidates):
            if claims(self.nodes[row], labels):
                return row
        return NONE


def _demands(leaf: Node) -> list[tuple[str, str]]:
    """What a pod of this leaf must carry, as far as one value can tell."""
    return [
        (bound.key, bound.values[0])
        for bound in leaf.bounds or ()
        if bound.operator in (EQUALS, IN) and len(bound.values) == 1
    ]
