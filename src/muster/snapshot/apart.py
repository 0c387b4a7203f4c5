"""Which nodes are forbidden to which pods by the required anti-affinity of pods that are there.

Pods that are forbidden the same nodes form a *group*; a shape knows its group and nothing else of labels. The terms are
matched as arrays, all at once for one set of labels, and again only when there are other terms.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from muster.api.tree import NONE
from muster.snapshot.arrays import Carried, Repelled
from muster.snapshot.room import Rows
from muster.snapshot.selectors import Mask, NodeTable
from muster.snapshot.terms import (
    DOES_NOT_EXIST,
    EVERY_PRIORITY,
    EXISTS,
    IN,
    NAMESPACE_NAME,
    Carrier,
    Carriers,
    Key,
    Selector,
    Term,
    meets,
)

# The group of pods that no term means.
FREE = 0
K = TypeVar("K")
_NOTHING: Rows = np.zeros(0, dtype=np.intp)


# Stands for a value that no term names, of a label that some term asks to be there or not to be there.
_SOME_VALUE = "\0"
# Labels that no term names any more, and classes of pods that are gone, are forgotten when there are this many of them,
# and twice as many as were in use.
_MOST_PAIRS, _MOST_CLASSES = 500_000, 10_000

Pair = tuple[str, str | None]


class Class(NamedTuple):
    """All that terms may ask of a pod: its namespace, what they name of its labels, and how many of the priorities at
    which terms cease to bind are below its own.
    """

    namespace: str
    labels: tuple[tuple[str, str], ...]
    rank: int


class Moved(NamedTuple):
    """What other terms change: gangs of which pods are in another group, and labels by key that were never named
    before, each with the values that were (None: any); or everything.
    """

    gangs: frozenset[Key] = frozenset()
    labels: Mapping[str, frozenset[str | None]] = {}
    everything: bool = False


class Around(NamedTuple):
    """The nodes with their rows, and the labels of namespaces; `labels_at` counts the changes of these."""

    table: NodeTable
    row_of: Mapping[str, int]
    labels_of: Mapping[str, Mapping[str, str]]
    labels_at: int


class Table:
    """Terms as arrays. A pod is matched by counting: every condition that asks for a label must be met by one of the
    pod's labels, and none that forbids one.
    """

    def __init__(self, terms: Iterable[Term], labels_of: Mapping[str, Mapping[str, str]], *, hidden: bool) -> None:
        """`labels_of` are the labels of namespaces; `hidden`: they may not be read, so a term that asks for them may
        mean each of them.
        """
        self.terms = list(dict.fromkeys(terms))
        self.row_of = {term: row for row, term in enumerate(self.terms)}
        self._labels_of, self._hidden = labels_of, hidden
        self._needs = np.zeros(len(self.terms), dtype=np.int32)
        met: dict[Pair, list[int]] = {}
        broken: dict[Pair, list[int]] = {}
        named: dict[str, list[int]] = {}
        chosen: dict[Selector, list[int]] = {}
        for row, term in enumerate(self.terms):
            for key, operator, values in term.selector:
                places: Iterable[str | None] = (None,) if operator in (EXISTS, DOES_NOT_EXIST) else values
                wanted = operator in (EXISTS, IN)
                self._needs[row] += wanted
                for value in places:
                    (met if wanted else broken).setdefault((key, value), []).append(row)
            for namespace in term.namespaces:
                named.setdefault(namespace, []).append(row)
            if term.namespace_selector is not None:
                chosen.setdefault(term.namespace_selector, []).append(row)
        self._met, self._broken = _as_rows(met), _as_rows(broken)
        self._named, self._chosen = _as_rows(named), _as_rows(chosen)
        # What terms name of labels: with a value, or None for any.
        self.pairs: frozenset[Pair] = frozenset((*met, *broken))
        self._binds = np.array([term.binds for term in self.terms], dtype=np.int64)
        # The priorities beyond which some term does not bind.
        self.ends = tuple(sorted({term.binds for term in self.terms} - {EVERY_PRIORITY}))
        doubtful = [term.unclear or (hidden and bool(term.namespace_selector)) for term in self.terms]
        self.unclear: Mask = np.array(doubtful, dtype=bool)
        self._scopes: dict[str, Mask] = {}

    def matched(self, one: Class) -> Mask:
        """Which terms mean such a pod."""
        found = self._scope(one.namespace)
        if one.rank:
            found &= self._binds > self.ends[one.rank - 1]
        counts = np.zeros(len(self.terms), dtype=np.int32)
        for key, value in one.labels:
            for pair in ((key, value), (key, None)):
                np.add.at(counts, self._met.get(pair, _NOTHING), 1)
                found[self._broken.get(pair, _NOTHING)] = False
        matched: Mask = found & (counts == self._needs)
        return matched

    def doubt_of(self, carried: Carried, entry: int) -> str:
        """Whose term is not clear, and why."""
        term = self.terms[int(carried.terms[entry])]
        if self._hidden and term.namespace_selector and not term.unclear:
            why = "it selects namespaces by labels, which muster may not read"
        elif term.selector:
            why = "an operator in it is not known"
        else:
            why = "there is too much of it in that namespace"
        return f"the podAntiAffinity of {carried.pods[entry]} ({why})"

    def _scope(self, namespace: str) -> Mask:
        """The terms that mean pods of a namespace. One that is not known has no labels but its name."""
        if namespace not in self._scopes:
            found = np.zeros(len(self.terms), dtype=bool)
            found[self._named.get(namespace, _NOTHING)] = True
            labels = {**self._labels_of.get(namespace, {}), NAMESPACE_NAME: namespace}
            for selector, rows in self._chosen.items():
                if self._hidden or meets(selector, labels):
                    found[rows] = True
            self._scopes[namespace] = found
        return self._scopes[namespace].copy()


class Apart:
    """The groups of pods, and what each is forbidden; kept from one snapshot to the next.

    Pods that are forbidden the same nodes are one group, whatever terms mean them: a term without effect, or many terms
    of one pod, make no more shapes.
    """

    def __init__(self) -> None:
        self._table = Table((), {}, hidden=False)
        # Everything that terms have named, and where they ceased to bind, since there were any; None: there were none.
        self._pairs: frozenset[Pair] | None = None
        self._groups: dict[Class, int] = {}
        # The terms that mean a class, by number.
        self._met: dict[Class, Rows] = {}
        self._number_of: dict[bytes, int] = {}
        self._last = FREE
        # The gangs that have pods of a class.
        self._gangs: dict[Class, set[Key]] = {}
        # As of which terms, and which carriers, all this is.
        self._terms_at: tuple[object, ...] = ()
        self._carried_at: tuple[object, ...] = ()
        # Above this number of classes most of them are of pods that are gone.
        self._most_classes, self._begins = _MOST_CLASSES, False
        self.carried: Carried | None = None
        self._nodes = 0
        self._repelled: dict[int, Repelled] = {}

    @property
    def is_empty(self) -> bool:
        """Whether no pod had a term yet."""
        return self._pairs is None

    def update(
        self,
        carriers: Carriers,
        promised: Mapping[Key, Carrier],
        around: Around,
        *,
        hidden: bool,
    ) -> Moved:
        """The terms as they are now. `promised` are pods of other schedulers that have no node yet, on the node that is
        nominated for them.
        """
        more = tuple(sorted((key, carrier.terms) for key, carrier in promised.items()))
        terms_at = (carriers.term_changes, more, around.labels_at, hidden)
        carried_at = (carriers.changes, tuple(sorted(promised.items())), id(around.table))
        if self._begins:
            # All pods have been looked at since: these are the classes that are in use.
            self._most_classes, self._begins = max(_MOST_CLASSES, 2 * len(self._groups)), False
        if self.is_empty and not carriers.pods and not more:
            return Moved()
        other_terms = terms_at != self._terms_at
        if not other_terms and carried_at == self._carried_at:
            return Moved()
        self._terms_at, self._carried_at = terms_at, carried_at
        known, ends = self._pairs, self._table.ends
        if other_terms:
            named = (term for key, terms in more for term in carriers.meaning(key, terms))
            self._table = Table((*carriers.all_terms(), *named), around.labels_of, hidden=hidden)
            self._met = {}
        self.carried = self._carry({**carriers.pods, **promised}, carriers, around.table, around.row_of)
        self._nodes = len(around.table)
        pairs = self._table.pairs
        too_many = known is not None and len(known) > max(_MOST_PAIRS, 2 * len(pairs))
        if known is None or ends != self._table.ends or too_many or len(self._groups) > self._most_classes:
            self._start_over()
            self._pairs = pairs
            return Moved(everything=True)
        new: dict[str, set[str | None]] = {}
        for key, value in pairs - known:
            new.setdefault(key, set()).add(value)
        self._pairs = known | pairs
        return Moved(self._regroup(), {key: frozenset(values) for key, values in new.items()})

    def _regroup(self) -> frozenset[Key]:
        """Each group keeps its number where it can."""
        before, self._groups = self._groups, {}
        known, self._repelled, self._number_of = self._repelled, {}, {}
        for one in sorted(before):
            self._groups[one] = self._group(one, before[one], known)
        others = (one for one, group in self._groups.items() if group != before[one])
        return frozenset(gang for one in others for gang in self._gangs.get(one, ()))

    def _group(self, one: Class, number: int = FREE, known: Mapping[int, Repelled] | None = None) -> int:
        """The group of a class: a known one, else this number unless it is taken, else a new one."""
        if one not in self._met:
            self._met[one] = np.flatnonzero(self._table.matched(one))
        if not len(self._met[one]):
            return FREE
        assert self.carried is not None
        found = self._repel(self._met[one], self.carried)
        if not found.nodes.any():
            return FREE
        key = b"".join(mask.tobytes() for mask in found[:3]) + bytes([bool(found.doubt), bool(found.promise)])
        if key not in self._number_of:
            if number == FREE or number in self._repelled:
                number = self._last = self._last + 1
            # What is as it was stays the same object.
            before = known.get(number) if known else None
            self._repelled[number] = before if before is not None and before.is_like(found) else found
            self._number_of[key] = number
        return self._number_of[key]

    def forget(self) -> None:
        """All pods are looked at again."""
        self._start_over()
        self._carried_at = ()

    def _start_over(self) -> None:
        self._groups, self._met, self._number_of, self._gangs, self._repelled = {}, {}, {}, {}, {}
        self._begins = True

    def group_of(self, key: Key, labels: Mapping[str, str], priority: int, gang: Key | None) -> int:
        """The group of a pod."""
        assert self._pairs is not None
        told = []
        for label, value in labels.items():
            if (label, value) in self._pairs:
                told.append((label, value))
            elif (label, None) in self._pairs:
                told.append((label, _SOME_VALUE))
        one = Class(key[0], tuple(sorted(told)), bisect_left(self._table.ends, priority))
        if gang is not None:
            self._gangs.setdefault(one, set()).add(gang)
        if one not in self._groups:
            self._groups[one] = self._group(one)
        return self._groups[one]

    def repelled(self, groups: Iterable[int]) -> Mapping[int, Repelled]:
        """What each of the groups is forbidden. Shapes outlive the groups that they were of."""
        return {group: self._repelled[group] for group in groups if group in self._repelled}

    def _carry(
        self, pods: Mapping[Key, Carrier], carriers: Carriers, table: NodeTable, row_of: Mapping[str, int]
    ) -> Carried:
        """Each term of each pod, as far as its node has the label. Pods stand in the order of their names."""
        # Tenants may name many labels that no node has.
        keys = sorted({term.key for term in self._table.terms} & table.labels)
        number_of = {key: number for number, key in enumerate(keys)}
        codes = [table.column(key).codes for key in keys]
        rows: list[tuple[int, int, int, bool, bool]] = []
        names: list[str] = []
        for key in sorted(pods):
            carrier = pods[key]
            node = row_of.get(carrier.node, NONE)
            if node == NONE:
                continue
            for term in carriers.meaning(key, carrier.terms):
                label = number_of.get(term.key, NONE)
                if label != NONE and codes[label][node] != NONE:
                    rows.append((self._table.row_of[term], label, node, carrier.leaving, carrier.promised))
                    names.append("/".join(key))
        columns = np.array(rows, dtype=np.intp).reshape(len(rows), 5).T
        terms, labels, nodes, leaving, promised = columns
        return Carried(
            tuple(keys), tuple(codes), terms, labels, nodes, leaving.astype(bool), tuple(names), promised.astype(bool)
        )

    def _repel(self, rows: Rows, carried: Carried) -> Repelled:
        nodes, met = self._nodes, np.zeros(len(self._table.terms), dtype=bool)
        met[rows] = True
        hits = np.flatnonzero(met[carried.terms])
        leaving, unclear = carried.leaving[hits], self._table.unclear[carried.terms[hits]]
        every = _domains(carried, hits, nodes)
        staying = _domains(carried, hits[~leaving], nodes) if leaving.any() else every
        doubtful = hits[unclear]
        by = carried.pods[int(hits[0])] if len(hits) else ""
        doubt = self._table.doubt_of(carried, int(doubtful[0])) if len(doubtful) else ""
        promised = hits[carried.promised[hits]]
        promise = carried.pods[int(promised[0])] if len(promised) else ""
        return Repelled(every, staying, _domains(carried, doubtful, nodes), by, doubt, promise, np.packbits(met))


def _domains(carried: Carried, entries: Rows, nodes: int) -> Mask:
    """The nodes in the domains of some entries."""
    found = np.zeros(nodes, dtype=bool)
    labels = carried.labels[entries]
    for label in np.unique(labels).tolist():
        codes = carried.codes[label]
        # One place more at the end: code NONE, which is -1, finds it, and it is never forbidden.
        forbidden = np.zeros(int(codes.max(initial=NONE)) + 2, dtype=bool)
        forbidden[codes[carried.nodes[entries[labels == label]]]] = True
        forbidden[NONE] = False
        found |= forbidden[codes]
    return found


def _as_rows(places: Mapping[K, Sequence[int]]) -> dict[K, Rows]:
    return {key: np.array(rows, dtype=np.intp) for key, rows in places.items()}
