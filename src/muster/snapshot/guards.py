"""Disruption budgets: which pods count in which of them, and how many pods may go now."""

import re
from collections.abc import Collection, Container, Iterable, Mapping

from muster.api.cluster import LabelRequirement, LabelSelector, PodDisruptionBudget, PodDisruptionBudgetStatus
from muster.snapshot.world import Key, PodFacts, State, key_of

_PERCENT = re.compile(r"([0-9]{1,9})%")
# Stands for a budget of those that can't be evicted now. No object has such a name.
_STAYING: Key = ("", "")
_NOBODY_GOES = PodDisruptionBudget(status=PodDisruptionBudgetStatus(disruptions_allowed=0))


class Guards:
    """The budgets by number. A number stays with its budget as long as that is there, then another may get it."""

    def __init__(self) -> None:
        self._budgets: dict[Key, PodDisruptionBudget] = {}
        self._keys: list[Key | None] = []
        self._staying: frozenset[Key] = frozenset()
        # Per namespace: budgets by a label that all their pods have, and those that name no such label.
        self._labelled: dict[str, dict[tuple[str, str], list[int]]] = {}
        self._unlabelled: dict[str, list[int]] = {}

    def update(self, budgets: Mapping[Key, PodDisruptionBudget], staying: Collection[Key] = ()) -> None:
        """The budgets as they are now, and the pods that nobody may evict, whatever budgets say."""
        self._staying = frozenset(staying)
        if staying:
            budgets = {**budgets, _STAYING: _NOBODY_GOES}
        if self._budgets == budgets:
            return
        self._budgets = dict(budgets)
        self._keys = [key if key in budgets else None for key in self._keys]
        unused = [at for at, key in enumerate(self._keys) if key is None]
        for place, key in enumerate(sorted(budgets.keys() - set(self._keys))):
            if place < len(unused):
                self._keys[unused[place]] = key
            else:
                self._keys.append(key)
        self._labelled, self._unlabelled = {}, {}
        for number, known in enumerate(self._keys):
            selector = self._budgets[known].spec.selector if known else None
            if known is None or selector is None:
                continue
            if selector.match_labels:
                by_label = self._labelled.setdefault(known[0], {})
                by_label.setdefault(min(selector.match_labels.items()), []).append(number)
            else:
                self._unlabelled.setdefault(known[0], []).append(number)

    def __contains__(self, namespace: str) -> bool:
        """Whether any pod of the namespace could count in one."""
        return namespace in self._labelled or namespace in self._unlabelled

    def of(self, namespace: str, labels: Mapping[str, str]) -> tuple[int, ...]:
        """The budgets that a pod counts in."""
        if namespace not in self:
            return ()
        by_label = self._labelled.get(namespace, {})
        maybe = [number for label in labels.items() for number in by_label.get(label, ())]
        maybe += self._unlabelled.get(namespace, ())
        return tuple(sorted(number for number in maybe if selects(self._selector(number), labels)))

    @property
    def names(self) -> tuple[str, ...]:
        """`namespace/name` of every budget; of what is no budget that somebody wrote, nothing."""
        return tuple("/".join(key) if key is not None and key != _STAYING else "" for key in self._keys)

    def staying(self, pod: Key) -> tuple[int, ...]:
        """The budget of a pod that nobody may evict; of others none."""
        return (self._keys.index(_STAYING),) if pod in self._staying else ()

    def _selector(self, number: int) -> LabelSelector | None:
        key = self._keys[number]
        return self._budgets[key].spec.selector if key else None

    def disruptions(self, pods: Iterable[PodFacts], nodes: Container[str]) -> tuple[int, ...]:
        """Per budget: how many pods may go now. Who has no status is counted: its pods on nodes that are there."""
        stated = [self._stated(key) for key in self._keys]
        if None in stated:
            counted = [0] * len(stated)
            for facts in pods:
                if facts.state is State.PLACED and facts.pod.spec.node_name in nodes:
                    for number in self.of(key_of(facts.pod.metadata)[0], facts.pod.metadata.labels):
                        counted[number] += 1
            for number, key in enumerate(self._keys):
                if stated[number] is None and key is not None:
                    stated[number] = may_go(self._budgets[key], counted[number])
        return tuple(max(0, one or 0) for one in stated)

    def _stated(self, key: Key | None) -> int | None:
        return self._budgets[key].status.disruptions_allowed if key else 0


def may_go(budget: PodDisruptionBudget, placed: int) -> int:
    """How many of the placed pods that a budget selects may go, by its spec; percentages are rounded up."""
    spec = budget.spec
    if spec.max_unavailable is not None:
        most = _scaled(spec.max_unavailable, placed)
        return 0 if most is None else max(0, min(most, placed))
    least = 0 if spec.min_available is None else _scaled(spec.min_available, placed)
    # What can't be read protects everybody, as it does in Kubernetes.
    return 0 if least is None else max(0, placed - max(0, least))


def _scaled(amount: int | str, whole: int) -> int | None:
    if isinstance(amount, int):
        return amount
    percent = _PERCENT.fullmatch(amount)
    return -(-int(percent[1]) * whole // 100) if percent else None


def selects(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Whether a label selector selects an object with these labels: no selector nobody, an empty one everybody."""
    if selector is None:
        return False
    return all(labels.get(label) == value for label, value in selector.match_labels.items()) and all(
        _meets(labels, requirement) for requirement in selector.match_expressions
    )


def _meets(labels: Mapping[str, str], requirement: LabelRequirement) -> bool:
    """One condition; an operator that nobody knows is not met."""
    value = labels.get(requirement.key)
    if requirement.operator == "In":
        return value in requirement.values
    if requirement.operator == "NotIn":
        return value not in requirement.values
    if requirement.operator == "Exists":
        return value is not None
    return requirement.operator == "DoesNotExist" and value is None
