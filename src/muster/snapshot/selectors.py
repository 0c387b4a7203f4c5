"""Which nodes a pod may go to: labels, affinity, taints, readiness, as one mask over all nodes.

A table of the nodes answers each question about a label once for all nodes; pods of one shape share the answer.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from muster.api.cluster import LabelRequirement, Node, NodeSelector, NodeSelectorTerm, PodSpec, Taint, Toleration
from muster.api.once import once
from muster.api.tree import NONE

Mask = npt.NDArray[np.bool_]
Scores = npt.NDArray[np.int64]

_NOTHING: Mapping[int, Mask] = {}

NO_SCHEDULE, NO_EXECUTE, PREFER_NO_SCHEDULE = "NoSchedule", "NoExecute", "PreferNoSchedule"
# How kube-scheduler sees a cordoned node: tolerating this taint is tolerating the cordon.
_CORDON = Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)


class Column:
    """One label over all nodes: its distinct values, and which of them each node has (NONE: it lacks the label)."""

    def __init__(self, values: Sequence[str | None]) -> None:
        self._codes: dict[str, int] = {}
        self._code_of = np.array(
            [NONE if value is None else self._codes.setdefault(value, len(self._codes)) for value in values],
            dtype=np.int32,
        )

    @property
    def codes(self) -> npt.NDArray[np.int32]:
        """The value of each node by number."""
        return self._code_of

    def where(self, holds: Callable[[str], bool]) -> Mask:
        """The nodes whose value is there and `holds`; asked once per distinct value."""
        # One place more at the end: code NONE, which is -1, finds it, and it is never met.
        met = np.zeros(len(self._codes) + 1, dtype=bool)
        met[:-1] = [holds(value) for value in self._codes]
        return met[self._code_of]

    def among(self, values: Collection[str]) -> Mask:
        """The nodes whose value is one of these; asked once per value."""
        met = np.zeros(len(self._codes) + 1, dtype=bool)
        met[[self._codes[value] for value in values if value in self._codes]] = True
        return met[self._code_of]

    @property
    def present(self) -> Mask:
        """The nodes that have the label."""
        found: Mask = self._code_of != NONE
        return found


class NodeTable:
    """The nodes of a snapshot in the order of their rows, with their labels and taints by column."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes
        self._names = Column([node.metadata.name for node in nodes])
        self._columns: dict[str, Column] = {}
        # One for all labels that no node has: pods may name many.
        self._absent = Column([None] * len(nodes))
        self.ready: Mask = np.array([is_ready(node) for node in nodes], dtype=bool)
        self._taint_rows: dict[Taint, list[int]] = {}
        for row, node in enumerate(nodes):
            for taint in (*node.spec.taints, *((_CORDON,) if node.spec.unschedulable else ())):
                self._taint_rows.setdefault(taint, []).append(row)

    def __len__(self) -> int:
        return len(self._nodes)

    @once
    def labels(self) -> frozenset[str]:
        """All labels that some node has."""
        return frozenset(label for node in self._nodes for label in node.metadata.labels)

    def column(self, label: str) -> Column:
        """The label over all nodes. An empty value is a value."""
        if label not in self.labels:
            return self._absent
        if label not in self._columns:
            self._columns[label] = Column([node.metadata.labels.get(label) for node in self._nodes])
        return self._columns[label]

    def allowed(self, spec: PodSpec, *, cordons: bool = True) -> Mask:
        """The nodes that the pod's own rules and the nodes' taints allow, and that are ready."""
        mask = self.ready.copy()
        for label, value in spec.node_selector.items():
            if label not in self.labels:
                # Before thousands of labels are looked at that tenants made up.
                return np.zeros(len(self), dtype=bool)
            mask &= self.column(label).among((value,))
        affinity = spec.affinity.node_affinity if spec.affinity else None
        if affinity is not None and affinity.required_during_scheduling_ignored_during_execution is not None:
            mask &= self.selected(affinity.required_during_scheduling_ignored_during_execution)
        for taint, rows in self._taint_rows.items():
            keeps_away = taint.effect in (NO_SCHEDULE, NO_EXECUTE) and (cordons or taint != _CORDON)
            if keeps_away and not tolerates(spec.tolerations, taint):
                mask[rows] = False
        return mask

    @property
    def cordoned(self) -> bool:
        """Whether any node is."""
        return _CORDON in self._taint_rows

    def liked(self, spec: PodSpec) -> Scores:
        """How much the pod likes each node: weights of its preferred terms, less one per taint that only prefers."""
        scores = np.zeros(len(self), dtype=np.int64)
        affinity = spec.affinity.node_affinity if spec.affinity else None
        if affinity is not None:
            for preferred in affinity.preferred_during_scheduling_ignored_during_execution:
                scores += preferred.weight * self._meets_term(preferred.preference)
        for taint, rows in self._taint_rows.items():
            if taint.effect == PREFER_NO_SCHEDULE and not tolerates(spec.tolerations, taint):
                scores[rows] -= 1
        return scores

    def selected(self, selector: NodeSelector, *, names: bool = True) -> Mask:
        """One of the terms holds; without terms nothing does. Without `names`, by labels alone."""
        mask = np.zeros(len(self), dtype=bool)
        for term in selector.node_selector_terms:
            mask |= self._meets_term(term, names=names)
        return mask

    def _meets_term(self, term: NodeSelectorTerm, *, names: bool = True) -> Mask:
        """All conditions hold; a term without conditions selects nothing."""
        if not term.match_expressions and not term.match_fields:
            return np.zeros(len(self), dtype=bool)
        mask = np.ones(len(self), dtype=bool)
        for expression in term.match_expressions:
            mask &= _meets(self.column(expression.key), expression)
        for field in term.match_fields:
            known = field.key == "metadata.name" and field.operator in ("In", "NotIn")
            mask &= (_meets(self._names, field) if names else True) if known else False
        return mask


def _meets(column: Column, requirement: LabelRequirement) -> Mask:
    """Which nodes meet one condition; an operator that nobody knows is met by none."""
    operator, values = requirement.operator, frozenset(requirement.values)
    if operator == "In":
        return column.among(values)
    if operator == "NotIn":
        return ~column.among(values)
    if operator == "Exists":
        return column.present
    if operator == "DoesNotExist":
        return ~column.present
    bound = _whole(requirement.values[0]) if operator in ("Gt", "Lt") and len(requirement.values) == 1 else None
    return column.where(lambda value: _compares(_whole(value), operator, bound))


def _compares(number: int | None, operator: str, bound: int | None) -> bool:
    if number is None or bound is None:
        return False
    return number > bound if operator == "Gt" else number < bound


def _whole(text: str) -> int | None:
    """An integer as Go's ParseInt reads it."""
    return int(text) if re.fullmatch(r"[-+]?[0-9]{1,19}", text) else None


def tolerates(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    """Whether one of the tolerations accepts the taint."""
    return any(_tolerates(toleration, taint) for toleration in tolerations)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    # Without a key only Exists matches everything.
    return bool(toleration.key) and toleration.operator in ("", "Equal") and toleration.value == taint.value


def is_ready(node: Node) -> bool:
    """A node without a Ready condition is ready: files rarely have one."""
    return all(condition.status == "True" for condition in node.status.conditions if condition.type == "Ready")


class Masks(Mapping[int, Mask]):
    """Where pods of each shape may go: known for shapes that wait, found for others when somebody asks. Shapes that are
    `unoffered` ask for what no node offers: they may go nowhere.
    """

    def __init__(
        self,
        known: dict[int, Mask],
        nodes: NodeTable,
        specs: Sequence[PodSpec],
        unoffered: Collection[int] = (),
        forbidden: Mapping[int, Mask] = _NOTHING,
    ) -> None:
        """`forbidden` are nodes that other pods keep a shape away from; what is `known` leaves them out already."""
        self._known, self._nodes, self._specs, self._unoffered = known, nodes, specs, unoffered
        self._forbidden = forbidden
        self._waiting = tuple(known)
        nowhere = np.zeros(len(nodes), dtype=bool)
        known.update((shape, nowhere) for shape in self._waiting if shape in unoffered)

    def __getitem__(self, shape: int) -> Mask:
        if shape not in self._known:
            if not 0 <= shape < len(self._specs):
                raise KeyError(shape)
            if shape in self._unoffered:
                found = np.zeros(len(self._nodes), dtype=bool)
            else:
                found = self._nodes.allowed(self._specs[shape])
            self._known[shape] = found & ~self._forbidden[shape] if shape in self._forbidden else found
        return self._known[shape]

    def __iter__(self) -> Iterator[int]:
        return iter(self._waiting)

    def __len__(self) -> int:
        return len(self._waiting)


class Widened(Mapping[int, Mask]):
    """Masks with more nodes for some shapes."""

    def __init__(self, masks: Mapping[int, Mask], more: Mapping[int, Mask]) -> None:
        self._masks, self._more = masks, more
        self._found: dict[int, Mask] = {}

    def __getitem__(self, shape: int) -> Mask:
        if shape not in self._more:
            return self._masks[shape]
        if shape not in self._found:
            self._found[shape] = self._masks[shape] | self._more[shape]
        return self._found[shape]

    def __iter__(self) -> Iterator[int]:
        return iter(self._masks)

    def __len__(self) -> int:
        return len(self._masks)
