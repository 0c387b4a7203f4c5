"""What people are told about pods that get no gang: one event when there is something new to say, never twice.

A pod is told where its user looks, in `kubectl describe pod`; of a workload with many pods the first ones are, and the
workload itself. What may be only a matter of time is told when it lasts.
"""

from collections.abc import Iterable
from typing import NamedTuple

from muster.api.cluster import POD_GROUP_ANNOTATION
from muster.grouping.grouper import Problem
from muster.kube.clock import Clock
from muster.kube.events import WARNING, EventRecorder, Regarding
from muster.snapshot.world import Key, PodFacts, key_of
from muster.telemetry import SILENT, Log

NOT_GROUPED, NOT_FOUND = "NotGrouped", "PodGroupNotFound"
# How long something that may pass by itself is kept back.
PATIENCE_S = 5.0
# Of one workload so many pods are told.
_MOST_PODS = 32


class _Complaint(NamedTuple):
    """What there is to say about a pod, since when, and whether it was said."""

    uid: str
    reason: str
    message: str
    since_s: float
    told: bool = False


class Complaints:
    """What was said about each pod that has no gang."""

    def __init__(self, clock: Clock, events: EventRecorder | None = None, log: Log = SILENT) -> None:
        self._clock, self._events, self._log = clock, events, log
        self._about: dict[Key, _Complaint] = {}

    def is_kept_back(self, key: Key) -> bool:
        """Whether there is something to say about this pod that was not said yet."""
        known = self._about.get(key)
        return known is not None and not known.told

    def settle(self, key: Key) -> None:
        """There is nothing to say about this pod any more."""
        self._about.pop(key, None)

    def not_grouped(self, problem: Problem, pods: Iterable[PodFacts], owner: Regarding | None) -> None:
        """Pods of a workload can't be grouped. `owner` is the workload, if it is one."""
        hint = "" if problem.retry else problem.hint
        message = f"{problem.message}; {hint}" if hint else problem.message
        news = [facts for facts in pods if self._is_news(facts, NOT_GROUPED, message, patient=problem.retry)]
        if not news:
            return
        what = {"kind_": problem.kind, "namespace": problem.namespace, "name": problem.name}
        self._log.warning("not grouped", **what, pods=len(problem.pods), interface=problem.interface, why=message)
        for facts in news[:_MOST_PODS]:
            self._record(_regarding(facts), NOT_GROUPED, message)
        if owner is not None:
            self._record(owner, NOT_GROUPED, message)

    def not_found(self, facts: PodFacts) -> None:
        """The pod names a PodGroup that is not there."""
        assert facts.gang is not None
        metadata = facts.pod.metadata
        message = (
            f"there is no PodGroup {facts.gang[1]} in namespace {facts.gang[0]}, which the annotation "
            f"{POD_GROUP_ANNOTATION} names: the pod waits until it is created"
        )
        if self._is_news(facts, NOT_FOUND, message, patient=True):
            self._log.warning(
                "a pod names a PodGroup that is not there",
                namespace=metadata.namespace,
                pod=metadata.name,
                gang=facts.gang[1],
            )
            self._record(_regarding(facts), NOT_FOUND, message)

    def _is_news(self, facts: PodFacts, reason: str, message: str, *, patient: bool) -> bool:
        """Whether this is to be told now. What is kept back is asked about again."""
        key, uid, now_s = key_of(facts.pod.metadata), facts.pod.metadata.uid, self._clock.now_s()
        known = self._about.get(key)
        if known is None or known[:3] != (uid, reason, message):
            known = _Complaint(uid, reason, message, now_s)
        told = known.told or not patient or now_s - known.since_s >= PATIENCE_S
        self._about[key] = known._replace(told=told)
        return told and not known.told

    def _record(self, about: Regarding, reason: str, note: str) -> None:
        if self._events is not None:
            self._events.record(about, reason, note, kind=WARNING, action="Grouping", key=note)


def _regarding(facts: PodFacts) -> Regarding:
    metadata = facts.pod.metadata
    return Regarding("v1", "Pod", metadata.namespace, metadata.name, metadata.uid)
