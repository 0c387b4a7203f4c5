"""Judges evictions by disruption budgets: a plan takes no more pods of a budget than that allowed, by any of its words
that whoever planned may have been shown between reading the budgets and sending.
"""

from collections.abc import Callable, Collection
from typing import NamedTuple

from muster.embedded.selectors import selector
from muster.embedded.store import DELETED, Change, Store
from muster.embedded.store import Key as StoreKey
from muster.sim.books import PODS
from muster.sim.facts import Document, Key, Member
from muster.sim.past import Past

BUDGETS = "poddisruptionbudgets.policy"


class _Plan(NamedTuple):
    """A plan that has pods go; per budget, those of them whose evictions have left."""

    at_s: float
    taken: dict[Key, dict[str, str]]


class Budgets:
    """All budgets of a story, as they are and were, and what was taken of them."""

    def __init__(self, store: Store, broken: Callable[[str, str], None]) -> None:
        self._store, self._broken = store, broken
        self._known: dict[Key, Past[Document | None]] = {}
        # By process and namespace: when its last reading of the budgets was asked for. By process and pod: the plan.
        self._read: dict[tuple[int, str], float] = {}
        self._plans: dict[tuple[int, Key], _Plan] = {}
        for document in store.list(BUDGETS).items:
            self._known[_key_of(document)] = Past(document)

    def changed(self, change: Change, now_s: float) -> None:
        """A budget is another one."""
        known = self._known.setdefault(_key_of(change.document), Past(None))
        known.set(None if change.type == DELETED else change.document, now_s)

    def read(self, process: int, namespace: str, asked_s: float) -> None:
        """A process has read the budgets of a namespace, as they were after it asked for them."""
        self._read[process, namespace] = asked_s

    def planned(self, process: int, pods: Collection[Key], now_s: float) -> None:
        """A process has decided that pods go."""
        plan = _Plan(now_s, {})
        self._plans.update({(process, pod): plan for pod in pods})

    def send(self, process: int, pod: Member) -> None:
        """An eviction leaves a process."""
        plan, document = self._plans.get((process, pod.key)), self._store.get(StoreKey(PODS, *pod.key))
        if plan is None or document is None or not _counts(document):
            return
        since_s = self._read.get((process, pod.key[0]), 0.0)
        for key, known in self._known.items():
            words = list(known.since(since_s)) if key[0] == pod.key[0] else []
            if not words or not all(one is not None and _selects(one, document) for one in words):
                continue
            taken = plan.taken.setdefault(key, {})
            taken[pod.uid] = pod.key[1]
            most = max(_allowed(one) for one in words if one is not None)
            if len(taken) == most + 1:
                names = ", ".join(sorted(taken.values()))
                said = f"muster-{process} planned at {plan.at_s:.3f} s that {names} go"
                self._broken("S6", f"{said}, and the budget {'/'.join(key)} allowed {most} since it was read")


def _key_of(document: Document) -> Key:
    metadata = document["metadata"]
    return metadata["namespace"], metadata["name"]


def _selects(budget: Document, pod: Document) -> bool:
    return bool(selector((budget.get("spec") or {}).get("selector"))(pod))


def _allowed(budget: Document) -> int:
    """How many may go, by its status; one without any is as good as its spec, which is not judged."""
    return int((budget.get("status") or {}).get("disruptionsAllowed", 10**6))


def _counts(pod: Document) -> bool:
    """Whether a pod is one that a budget protects: it is ready, and not going."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    is_ready = any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)
    return is_ready and not pod["metadata"].get("deletionTimestamp")
