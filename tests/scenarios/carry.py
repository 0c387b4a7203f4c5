"""Carries a plan out, as muster, the API server, the kubelets and the controllers of the pods would do it together."""

import copy
import re
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import structs

from muster.api.podgroup import PodGroupStatus
from muster.decisions.status import status_document, status_of
from muster.plan.outcome import Plan
from muster.snapshot.kept import status_of_kept

Document = dict[str, Any]
Key = tuple[str, str, str]
Documents = dict[Key, Document]
# Successors carry a number: web-0, web-0.2, web-0.3.
_NUMBERED = re.compile(r"^(.*)\.(\d+)$")


def key_of(document: Document) -> Key:
    """Kind, namespace, name. Kinds that have no namespace just never share a name."""
    metadata = document["metadata"]
    return document["kind"], metadata.get("namespace", "default"), metadata["name"]


def time_of(nanoseconds: int) -> str:
    """As Kubernetes writes it."""
    return datetime.fromtimestamp(nanoseconds // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def sent_of(plan: Plan) -> dict[tuple[str, str], tuple[str, bool]]:
    """Per pod that is sent: the node, and whether it is only nominated."""
    found = {}
    for placement in plan.placements:
        gang = plan.snapshot.gangs[placement.gang]
        pods = gang.waiting[placement.batch].pods
        for pod, node in zip(placement.pods, placement.nodes, strict=True):
            found[gang.key[0], pods[pod]] = (plan.snapshot.nodes[node], placement.nominated)
    return found


class Evicted:
    """One eviction in words: the pod, its gang, the action, the beneficiary or None, and where it goes if it moves."""

    def __init__(self, plan: Plan, number: int) -> None:
        eviction, snapshot = plan.evictions[number], plan.snapshot
        gang = snapshot.gangs[eviction.gang]
        self.gang, self.action = gang.key, eviction.action
        self.pod = (gang.key[0], gang.placed[eviction.leaf].pods[eviction.pod])
        self.beneficiary = snapshot.gangs[eviction.beneficiary].key if eviction.beneficiary >= 0 else None
        self.to = snapshot.nodes[eviction.to] if eviction.to >= 0 else ""
        self.ignored = tuple(snapshot.budgets[guard] for guard in eviction.passed)

    def __repr__(self) -> str:
        whom = f" for {self.beneficiary[1]}" if self.beneficiary else ""
        over = f" over {','.join(self.ignored)}" if self.ignored else ""
        return f"{self.pod[1]} by {self.action}{whom}{' to ' + self.to if self.to else ''}{over}"


def evicted_of(plan: Plan) -> list[Evicted]:
    """All evictions, in words."""
    return [Evicted(plan, number) for number in range(len(plan.evictions))]


def carried_out(plan: Plan, documents: Documents) -> list[Document]:
    """The documents that change when the plan is carried out, as they are then; what is evicted still terminates.

    Whatever has gone in the meantime stays gone.
    """
    found = {key_of(one): one for one in _statuses(plan, documents)}
    sent = sent_of(plan)
    for gang in plan.snapshot.gangs:
        for pod in (pod for batch in gang.waiting for pod in batch.pods if ("Pod", gang.key[0], pod) in documents):
            document = copy.deepcopy(documents["Pod", gang.key[0], pod])
            node, nominated = sent.get((gang.key[0], pod), ("", False))
            status = document.setdefault("status", {})
            status.pop("nominatedNodeName", None)
            if nominated:
                status["nominatedNodeName"] = node
            elif node:
                document["spec"]["nodeName"] = node
                status["phase"] = "Running"
            if not status:
                del document["status"]
            found[key_of(document)] = document
    for one in (one for one in evicted_of(plan) if ("Pod", *one.pod) in documents):
        document = copy.deepcopy(documents["Pod", *one.pod])
        document["metadata"]["deletionTimestamp"] = time_of(plan.snapshot.now_ns)
        found[key_of(document)] = document
    return [document for key, document in found.items() if document != documents[key]]


def gone(documents: Documents, now: str) -> tuple[list[Key], list[Document]]:
    """The pods that were terminating and have ended, and those that their controllers make in their place."""
    ended = [key for key, one in documents.items() if key[0] == "Pod" and "deletionTimestamp" in one["metadata"]]
    return ended, [_successor(documents[key], now) for key in ended if _has_controller(documents[key])]


def _has_controller(pod: Document) -> bool:
    return any(owner.get("controller") for owner in pod["metadata"].get("ownerReferences", []))


def _successor(pod: Document, now: str) -> Document:
    found = copy.deepcopy(pod)
    metadata = found["metadata"]
    name, number = first_name(metadata["name"])
    metadata["name"] = f"{name}.{number + 1}"
    metadata["creationTimestamp"] = now
    del metadata["deletionTimestamp"]
    found["spec"].pop("nodeName", None)
    found.pop("status", None)
    return found


def first_name(name: str) -> tuple[str, int]:
    """What the first of a line of successors was called, and the number of this one."""
    numbered = _NUMBERED.match(name)
    return (numbered[1], int(numbered[2])) if numbered else (name, 1)


def _statuses(plan: Plan, documents: Documents) -> list[Document]:
    """Every PodGroup with the status that follows from the plan (SPEC §2)."""
    found = []
    for number, gang in enumerate(plan.snapshot.gangs):
        if ("PodGroup", *gang.key) not in documents:
            continue
        group = copy.deepcopy(documents["PodGroup", *gang.key])
        before = msgspec.convert(group.get("status", {}), PodGroupStatus)
        kept = status_of_kept(plan.kept.get(number, ()), gang, plan.snapshot)
        before = structs.replace(before, kept=kept)
        group["status"] = status_document(status_of(plan, number, before))
        found.append(group)
    return found
