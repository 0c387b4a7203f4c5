"""What people are told about pods that get no gang: one event when there is something new to say, never twice.

A pod is told where its user looks, in `kubectl describe pod`; of a workload with many pods the first ones are, and the
workload itself. What may be only a matter of time is told when it lasts. That a PodGroup is not there is told when the
API server itself says so: what is kept of the cluster here may lag behind.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from muster.api.cluster import POD_GROUP_ANNOTATION
from muster.api.kinds import POD_GROUP
from muster.errors import ApiError, BadObject, NotFound
from muster.grouping.grouper import Problem
from muster.kube.client import Client
from muster.kube.events import WARNING, EventRecorder, Regarding
from muster.snapshot.world import Key, PodFacts, key_of
from muster.telemetry import SILENT, Log

NOT_GROUPED, NOT_FOUND = "NotGrouped", "PodGroupNotFound"
# How long something that may pass by itself is kept back.
PATIENCE_S = 5.0
# When the server says that a PodGroup is there, or says nothing, it is asked again after this.
_ASK_AGAIN_S = 60.0
# What a server says of a kind that it does not serve.
_NOT_SERVED = "could not find the requested resource"
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

    def __init__(self, client: Client, events: EventRecorder | None = None, log: Log = SILENT) -> None:
        self._client, self._clock, self._events, self._log = client, client.clock, events, log
        self._about: dict[Key, _Complaint] = {}
        # Gangs that the server is to be asked about, with the pods that name them; and when it may be asked again.
        self._doubted: dict[Key, dict[Key, PodFacts]] = {}
        self._again_s: dict[Key, float] = {}
        self._awake = asyncio.Event()

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
        what = {"kind": problem.kind, "namespace": problem.namespace, "name": problem.name}
        self._log.warning("not grouped", **what, pods=len(problem.pods), interface=problem.interface, why=message)
        for facts in news[:_MOST_PODS]:
            self._record(_regarding(facts), NOT_GROUPED, message)
        if owner is not None:
            self._record(owner, NOT_GROUPED, message)

    def not_found(self, facts: PodFacts) -> None:
        """The pod names a PodGroup that is not to be seen. It is told in `run`, if it waits and the server agrees."""
        gang, key = facts.gang, key_of(facts.pod.metadata)
        assert gang is not None
        if facts.pod.spec.node_name:
            self.settle(key)
            return
        message = (
            f"there is no PodGroup {gang[1]} in namespace {gang[0]}, which the annotation "
            f"{POD_GROUP_ANNOTATION} names: the pod waits until it is created"
        )
        known = self._known(facts, NOT_FOUND, message)
        self._about[key] = known
        now_s = self._clock.now_s()
        if known.told or now_s - known.since_s < PATIENCE_S or now_s < self._again_s.get(gang, 0.0):
            return
        self._doubted.setdefault(gang, {})[key] = facts
        self._awake.set()

    async def run(self) -> None:
        """Asks the server about PodGroups that are not to be seen, one question a gang, until it is cancelled."""
        while True:
            await self._awake.wait()
            self._awake.clear()
            now_s = self._clock.now_s()
            self._again_s = {gang: due_s for gang, due_s in self._again_s.items() if due_s > now_s}
            while self._doubted:
                gang = next(iter(self._doubted))
                is_missing = await self._is_missing(gang)
                pods = self._doubted.pop(gang)
                if is_missing:
                    self._tell_missing(gang, pods)
                else:
                    self._again_s[gang] = self._clock.now_s() + _ASK_AGAIN_S

    async def _is_missing(self, gang: Key) -> bool:
        """Whether the server says that there is no such PodGroup."""
        try:
            await self._client.get(POD_GROUP, *gang)
        except NotFound as error:
            # One that has just started answers 404 to every path that it does not serve yet.
            return error.reason == "NotFound" and _NOT_SERVED not in error.message
        except (ApiError, BadObject):
            return False
        return False

    def _tell_missing(self, gang: Key, pods: Mapping[Key, PodFacts]) -> None:
        told = 0
        for key, facts in pods.items():
            known = self._about.get(key)
            # Meanwhile it may have gone, or got its gang.
            if known is None or known.told or known[:2] != (facts.pod.metadata.uid, NOT_FOUND):
                continue
            self._about[key] = known._replace(told=True)
            if told == 0:
                what = {"namespace": gang[0], "pod": key[1], "gang": gang[1]}
                self._log.warning("a pod names a PodGroup that is not there", **what, pods=len(pods))
            if told < _MOST_PODS:
                self._record(_regarding(facts), NOT_FOUND, known.message)
            told += 1

    def _is_news(self, facts: PodFacts, reason: str, message: str, *, patient: bool) -> bool:
        """Whether this is to be told now. What is kept back is asked about again."""
        known = self._known(facts, reason, message)
        told = known.told or not patient or self._clock.now_s() - known.since_s >= PATIENCE_S
        self._about[key_of(facts.pod.metadata)] = known._replace(told=told)
        return told and not known.told

    def _known(self, facts: PodFacts, reason: str, message: str) -> _Complaint:
        """What is known of this complaint; another one begins now."""
        known = self._about.get(key_of(facts.pod.metadata))
        if known is None or known[:3] != (facts.pod.metadata.uid, reason, message):
            return _Complaint(facts.pod.metadata.uid, reason, message, self._clock.now_s())
        return known

    def _record(self, about: Regarding, reason: str, note: str) -> None:
        if self._events is not None:
            self._events.record(about, reason, note, kind=WARNING, action="Grouping", key=note)


def _regarding(facts: PodFacts) -> Regarding:
    metadata = facts.pod.metadata
    return Regarding("v1", "Pod", metadata.namespace, metadata.name, metadata.uid)
