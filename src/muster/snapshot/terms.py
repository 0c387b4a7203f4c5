"""Required anti-affinity of other pods, as kube-scheduler reads it: which pods a term means, and who has terms now.

Kubernetes checks such a term in both directions: a pod that has it keeps pods that it means away from its domain until
it is gone, whatever scheduler placed it. Only the labels of the newcomer and of its namespace decide.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from muster.api.cluster import LabelSelector, Pod, PodAffinityTerm

Key = tuple[str, str]
# The label that the API server gives every namespace.
NAMESPACE_NAME = "kubernetes.io/metadata.name"
IN, NOT_IN, EXISTS, DOES_NOT_EXIST = "In", "NotIn", "Exists", "DoesNotExist"
_OPERATORS = frozenset((IN, NOT_IN, EXISTS, DOES_NOT_EXIST))
# The priority up to which a term binds that binds all.
EVERY_PRIORITY = 2**63 - 1
# The labels, values and terms of one namespace that are read. Beyond it every term of that namespace counts as one that
# means every pod: a tenant may write such a term, too, and then it costs as little as that.
MOST_PER_NAMESPACE = 100_000
# The same of one pod.
MOST_PER_POD = 1_000


class Requirement(NamedTuple):
    """One condition on labels; an operator that Kubernetes does not know is `unclear`."""

    key: str
    operator: str
    values: frozenset[str]


# Conditions that all hold; none of them means every object.
Selector = tuple[Requirement, ...]


class Term(NamedTuple):
    """One term: the pods that it means, and the node label whose equal values make one domain.

    It binds pods up to a priority. One that is `unclear` may mean less than it seems to.
    """

    namespaces: frozenset[str]
    # None: it selects no namespaces beside those that are named.
    namespace_selector: Selector | None
    selector: Selector
    key: str
    binds: int = EVERY_PRIORITY
    unclear: bool = False

    @property
    def weight(self) -> int:
        """How much there is to read."""
        both = (*self.selector, *(self.namespace_selector or ()))
        return 1 + len(self.namespaces) + len(both) + sum(len(one.values) for one in both)


def stand_in(term: Term, namespace: str) -> Term:
    """What stands for a term that is too much to read: it means every pod, of the own namespace or of all."""
    if term.namespace_selector is None and term.namespaces <= {namespace}:
        return Term(frozenset((namespace,)), None, (), term.key, term.binds, unclear=True)
    return Term(frozenset(), (), (), term.key, term.binds, unclear=True)


class Carrier(NamedTuple):
    """A pod with terms, on a node; one that is `leaving` is there no more when it has left, and one that is `promised`
    has a node nominated for it by another scheduler.
    """

    terms: tuple[Term, ...]
    node: str
    leaving: bool = False
    promised: bool = False


def terms_of(pod: Pod, namespace: str) -> tuple[Term, ...]:
    """The terms of a pod that mean any pod at all. A term without a labelSelector means none."""
    affinity = pod.spec.affinity.pod_anti_affinity if pod.spec.affinity is not None else None
    if affinity is None:
        return ()
    terms = affinity.required_during_scheduling_ignored_during_execution
    read = dict.fromkeys(
        _term(term, pod.metadata.labels, namespace) for term in terms if term.label_selector is not None
    )
    if sum(term.weight for term in read) > MOST_PER_POD:
        return _shortened(read, namespace)
    return tuple(read)


def _term(term: PodAffinityTerm, labels: Mapping[str, str], namespace: str) -> Term:
    selector, unclear = _selector(term.label_selector or LabelSelector())
    merged = [*selector, *_merged(term.match_label_keys, IN, selector, labels)]
    merged += _merged(term.mismatch_label_keys, NOT_IN, selector, labels)
    named, chosen = frozenset(term.namespaces), None
    if term.namespace_selector is not None:
        chosen, doubtful = _selector(term.namespace_selector)
        unclear |= doubtful
    elif not named:
        named = frozenset((namespace,))
    return Term(named, chosen, tuple(sorted(set(merged), key=_order)), term.topology_key, unclear=unclear)


def _merged(
    keys: Sequence[str], operator: str, selector: Iterable[Requirement], labels: Mapping[str, str]
) -> Iterator[Requirement]:
    """What the API server makes of matchLabelKeys and mismatchLabelKeys when the pod is created.

    A selector that has it already keeps it, whatever the pod's labels are by now.
    """
    there = {one.key for one in selector if one.operator == operator and len(one.values) == 1}
    for key in dict.fromkeys(keys):
        if key in labels and key not in there:
            yield Requirement(key, operator, frozenset((labels[key],)))


def _selector(stated: LabelSelector) -> tuple[Selector, bool]:
    """A selector, and whether a condition of it can't be read; such a condition is left out, so that it means more."""
    found = {Requirement(key, IN, frozenset((value,))) for key, value in stated.match_labels.items()}
    unclear = False
    for one in stated.match_expressions:
        if one.operator in _OPERATORS:
            values = frozenset(one.values) if one.operator in (IN, NOT_IN) else frozenset()
            found.add(Requirement(one.key, one.operator, values))
        else:
            unclear = True
    return tuple(sorted(found, key=_order)), unclear


def _order(one: Requirement) -> tuple[str, str, list[str]]:
    return one.key, one.operator, sorted(one.values)


def meets(selector: Selector, labels: Mapping[str, str]) -> bool:
    """Whether all conditions hold. A label that is not there is in no set."""
    for key, operator, values in selector:
        value = labels.get(key)
        if operator == IN:
            holds = value is not None and value in values
        elif operator == NOT_IN:
            holds = value is None or value not in values
        else:
            holds = (value is not None) == (operator == EXISTS)
        if not holds:
            return False
    return True


def _shortened(terms: Iterable[Term], namespace: str) -> tuple[Term, ...]:
    return tuple(dict.fromkeys(stand_in(term, namespace) for term in terms))


class Carriers:
    """The pods whose terms count now, kept up to date pod by pod."""

    def __init__(self) -> None:
        self.pods: dict[Key, Carrier] = {}
        # What would stand for the terms of each.
        self._short: dict[Key, tuple[Term, ...]] = {}
        # Per namespace: the terms of its pods by how many have them, what would stand for them, and how much there is
        # to read in them.
        self._terms: dict[str, Counter[Term]] = {}
        self._instead: dict[str, Counter[Term]] = {}
        self._weights: Counter[str] = Counter()
        # How often anything changed, and how often there was another set of terms.
        self.changes = 0
        self.term_changes = 0

    def copy(self) -> "Carriers":
        """The same, to be changed by itself."""
        other = Carriers()
        for key, carrier in self.pods.items():
            other.put(key, carrier)
        return other

    def put(self, key: Key, carrier: Carrier | None) -> None:
        """A pod as it is now; None: it has no terms, or is gone."""
        before = self.pods.get(key)
        if before == carrier:
            return
        self.changes += 1
        if before is not None:
            del self.pods[key], self._short[key]
            self._count(key[0], before.terms, -1)
        if carrier is not None:
            self.pods[key], self._short[key] = carrier, _shortened(carrier.terms, key[0])
            self._count(key[0], carrier.terms, 1)

    def _count(self, namespace: str, terms: Iterable[Term], sign: int) -> None:
        counts, instead = (some.setdefault(namespace, Counter()) for some in (self._terms, self._instead))
        before = self._is_too_much(namespace)
        for term in terms:
            for some, one in ((counts, term), (instead, stand_in(term, namespace))):
                some[one] += sign
                if some[one] == (sign > 0) and some is (instead if before else counts):
                    self.term_changes += 1
                if some is counts and some[one] == (sign > 0):
                    self._weights[namespace] += sign * term.weight
                if not some[one]:
                    del some[one]
        self.term_changes += before != self._is_too_much(namespace)
        if not counts:
            del self._terms[namespace], self._instead[namespace], self._weights[namespace]

    def _is_too_much(self, namespace: str) -> bool:
        return self._weights[namespace] > MOST_PER_NAMESPACE

    def meaning(self, key: Key, terms: tuple[Term, ...]) -> tuple[Term, ...]:
        """The terms of a pod as they count: as they are read, or, where its namespace has too many, as ones that mean
        every pod.
        """
        if not self._is_too_much(key[0]):
            return terms
        return self._short[key] if key in self.pods and self.pods[key].terms is terms else _shortened(terms, key[0])

    def all_terms(self) -> Iterator[Term]:
        """The terms of all pods, as they count."""
        for namespace, terms in self._terms.items():
            yield from self._instead[namespace] if self._is_too_much(namespace) else terms
