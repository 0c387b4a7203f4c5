"""Operators: each looks after one workload, makes its pods, and makes them anew when they go.

A gang has a ConfigMap as its owner, in place of the resource that a real operator would read: the PodGroup and the pods
belong to it, and are collected with it. A Job is left to the Job controller of the cluster and to muster's grouper.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from muster.embedded.kubelet import EXIT, RUN, START
from muster.embedded.mirror import controller_uid
from muster.embedded.server import Server
from muster.embedded.store import DELETED, Change, Key
from muster.sim.objects import GPU, GROUP, Document
from muster.sim.stage import MERGE, sender
from muster.sim.story import Workload
from muster.sim.vetting import leaves_of

OURS = "kai-scheduler"
GROUPS = "podgroups.scheduling.run.ai"
# Who was told no asks again so much later.
AGAIN_S = 1.0
# The request itself is wrong, and stays wrong: nobody need ask again.
_WRONG = (400, 422)
Later = Callable[[float, Callable[[], None]], None]
Say = Callable[[str], None]
# Of a workload: what is wrong with it.
Fault = Callable[[str, str], None]


@dataclass
class _Slot:
    """The place of one pod, and who is in it: the `number`-th of its line, by this name."""

    leaf: str
    index: int
    name: str = ""
    number: int = 0
    # The one before it, if that one failed: it lies there until the next one has failed too.
    corpse: str = ""


@dataclass
class _Gang:
    """A gang that is looked after."""

    name: str
    workload: Workload
    spec: Document
    wanted: dict[str, int]
    slots: dict[tuple[str, int], _Slot] = field(default_factory=dict)
    pods: dict[str, Document] = field(default_factory=dict)
    owner: str = ""
    # Something of it has changed; it waits for its next pod, or before it asks again.
    is_stirred: bool = True
    is_resting: bool = False
    refused: str = ""

    @property
    def folder(self) -> str:
        return f"/api/v1/namespaces/{self.workload.namespace}/pods"


class Operators:
    """All of them. `changed` is told of each change in the store, and `act` does what is to be done about it.

    `fault` hears of a workload that no API server takes, and may raise.
    """

    def __init__(self, server: Server, later: Later, say: Say, fault: Fault) -> None:
        self._server, self._later, self._say, self._fault = server, later, say, fault
        self._send = sender(server, "operator")
        self._gangs: dict[str, _Gang] = {}
        self._jobs: dict[str, Workload] = {}
        # Gangs by the uid of their owner, and by namespace and name of their PodGroup.
        self._by_owner: dict[str, _Gang] = {}
        self._by_group: dict[tuple[str, str], _Gang] = {}
        self._is_calm = False

    def __contains__(self, name: str) -> bool:
        return name in self._gangs or name in self._jobs

    def __iter__(self) -> Iterator[str]:
        yield from (*self._gangs, *self._jobs)

    # What happens to workloads.

    def take(self, name: str, workload: Workload) -> None:
        """A workload comes; one that is there gets another spec."""
        if workload.gang is None:
            self._take_job(name, workload)
            return
        wanted = dict(workload.pods)
        gang = _Gang(name, workload, workload.gang, wanted)
        known = self._gangs.get(name)
        if known is not None:
            gang.slots, gang.pods, gang.owner = known.slots, known.pods, known.owner
            path = f"{_groups(workload)}/{name}"
            self._ask(name, "PATCH", path, {"spec": workload.gang}, MERGE)
        self._gangs[name] = gang
        self._by_group[workload.namespace, name] = gang
        if gang.owner:
            self._by_owner[gang.owner] = gang
        self._look_after(gang)

    def leaves(self, name: str) -> set[str]:
        """Under which names there can be pods of a workload, or are."""
        gang = self._gangs.get(name)
        return {""} if gang is None else leaves_of(gang.spec) | set(gang.wanted)

    def scale(self, name: str, counts: dict[str, int]) -> None:
        """So many pods per leaf from now on."""
        gang = self._gangs.get(name)
        if gang is None:
            path = f"/apis/batch/v1/namespaces/{self._jobs[name].namespace}/jobs/{name}"
            self._ask(name, "PATCH", path, {"spec": {"parallelism": sum(counts.values())}}, MERGE)
            return
        gang.wanted |= counts
        gang.is_stirred = True
        self.act()

    def drop(self, name: str) -> None:
        """A workload goes, with all that belongs to it."""
        body = {"propagationPolicy": "Background"}
        if name in self._jobs:
            space = self._jobs.pop(name).namespace
            self._ask(name, "DELETE", f"/apis/batch/v1/namespaces/{space}/jobs/{name}", body)
            return
        gang = self._gangs.pop(name)
        self._by_owner.pop(gang.owner, None)
        del self._by_group[gang.workload.namespace, name]
        self._ask(name, "DELETE", f"/api/v1/namespaces/{gang.workload.namespace}/configmaps/{name}", body)

    def calm(self) -> None:
        """From now on nobody is made in the place of one that failed by itself, or that would go on for ever."""
        self._is_calm = True

    # What is to be done.

    def changed(self, change: Change) -> None:
        """Take in a change; nothing is written here."""
        resource, key = change.key.resource, change.key
        if resource == "pods":
            gang = self._by_owner.get(controller_uid(change.document))
            if gang is None:
                return
            if change.type == DELETED:
                gang.pods.pop(key.name, None)
            else:
                gang.pods[key.name] = change.document
            gang.is_stirred = True
        elif resource == GROUPS:
            gang = self._by_group.get((key.namespace, key.name))
            if gang is not None and change.type == DELETED:
                gang.is_stirred = True
            elif gang is not None:
                # Whoever has to make it again makes it as it was last.
                gang.spec = change.document.get("spec") or {}

    def act(self) -> None:
        """Everybody whose workload has changed looks after it."""
        for gang in list(self._gangs.values()):
            if gang.is_stirred and not gang.is_resting:
                self._look_after(gang)

    def _look_after(self, gang: _Gang) -> None:
        gang.is_stirred = False
        if not self._make_group(gang):
            return
        for leaf, count in gang.wanted.items():
            for index in range(count):
                slot = gang.slots.setdefault((leaf, index), _Slot(leaf, index))
                if self._wants(gang, slot) and not self._make(gang, slot):
                    return
        for place in [place for place in gang.slots if place[1] >= gang.wanted.get(place[0], 0)]:
            slot = gang.slots.pop(place)
            self._delete(gang, slot.name)

    def _make_group(self, gang: _Gang) -> bool:
        """The PodGroup is there, and its owner; False: ask again later."""
        space, name = gang.workload.namespace, gang.name
        if not gang.owner:
            owner = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
            made = self._create(gang, f"/api/v1/namespaces/{space}/configmaps", owner)
            if made is None:
                return False
            gang.owner = made["metadata"]["uid"]
            self._by_owner[gang.owner] = gang
        if self._server.core.store.get(Key(GROUPS, space, name)) is not None:
            return True
        metadata = {"name": name, "ownerReferences": [_owner(gang)], "labels": gang.workload.labels}
        metadata["annotations"] = gang.workload.annotations
        document = {"apiVersion": GROUP, "kind": "PodGroup", "metadata": metadata, "spec": gang.spec}
        return self._create(gang, _groups(gang.workload), document) is not None

    def _wants(self, gang: _Gang, slot: _Slot) -> bool:
        """Whether a pod is missing here."""
        if not slot.number:
            return True
        pod, workload = gang.pods.get(slot.name), gang.workload
        if not workload.makes_anew:
            return False
        if pod is None:
            return True
        if pod["metadata"].get("deletionTimestamp"):
            return not workload.same_names
        if _phase(pod) != "Failed" or self._is_calm:
            return False
        if workload.same_names:
            self._delete(gang, slot.name)
            return slot.name not in gang.pods
        self._delete(gang, slot.corpse)
        slot.corpse = slot.name
        return True

    def _make(self, gang: _Gang, slot: _Slot) -> bool:
        """Make the next pod of a place; False: the next one comes later."""
        base = "-".join(filter(None, (gang.name, slot.leaf, str(slot.index))))
        number = slot.number + 1
        name = base if gang.workload.same_names or number == 1 else f"{base}.{number}"
        made = self._create(gang, gang.folder, _pod(gang, slot.leaf, name))
        if made is None:
            return False
        slot.name, slot.number = name, number
        if gang.workload.pace:
            self._rest(gang, gang.workload.pace)
            return False
        return True

    def _delete(self, gang: _Gang, name: str) -> None:
        pod = gang.pods.get(name)
        if pod is not None and not pod["metadata"].get("deletionTimestamp"):
            self._send("DELETE", f"{gang.folder}/{name}", {"preconditions": {"uid": pod["metadata"]["uid"]}})

    def _create(self, gang: _Gang, folder: str, document: Document) -> Document | None:
        """What was made; None: it was refused, and is asked for again later."""
        code, answer = self._send("POST", folder, document)
        if code < 300:
            gang.refused = ""
            return dict(answer)
        if answer["message"] != gang.refused:
            gang.refused = answer["message"]
            self._say(f"the operator of {gang.name} is refused: {gang.refused}")
            if code in _WRONG:
                self._fault(gang.name, gang.refused)
        self._rest(gang, AGAIN_S)
        return None

    def _rest(self, gang: _Gang, seconds: float) -> None:
        gang.is_resting = True

        def go_on() -> None:
            gang.is_resting, gang.is_stirred = False, True
            self.act()

        self._later(seconds, go_on)

    def _take_job(self, name: str, workload: Workload) -> None:
        self._jobs[name] = workload
        self._ask(name, "POST", f"/apis/batch/v1/namespaces/{workload.namespace}/jobs", _job(name, workload))

    def _ask(self, name: str, method: str, path: str, body: Any, content_type: str = "application/json") -> None:
        code, answer = self._send(method, path, body, content_type)
        if code >= 300:
            self._say(f"refused: {answer['message']}")
        if code in _WRONG:
            self._fault(name, answer["message"])


def _groups(workload: Workload) -> str:
    return f"/apis/{GROUP}/namespaces/{workload.namespace}/podgroups"


def _owner(gang: _Gang) -> Document:
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": gang.name, "uid": gang.owner, "controller": True}


def _phase(pod: Document) -> str:
    return str((pod.get("status") or {}).get("phase") or "")


def _pod(gang: _Gang, leaf: str, name: str) -> Document:
    workload = gang.workload
    annotations = {"pod-group-name": gang.name, **_acts(workload), **workload.annotations}
    labels = {**({"kai.scheduler/subgroup-name": leaf} if leaf else {}), **workload.labels}
    metadata = {"name": name, "annotations": annotations, "labels": labels, "ownerReferences": [_owner(gang)]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": _pod_spec(workload)}


def _job(name: str, workload: Workload) -> Document:
    count = sum(workload.pods.values())
    spec = {
        "parallelism": count,
        "completions": count,
        **({} if workload.makes_anew else {"backoffLimit": 0}),
        "template": {
            "metadata": {"labels": workload.labels, "annotations": {**_acts(workload), **workload.annotations}},
            "spec": _pod_spec(workload),
        },
    }
    metadata = {"name": name, "labels": workload.labels, "annotations": workload.annotations}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def _pod_spec(workload: Workload) -> Document:
    asked = {GPU: str(workload.gpus), "cpu": str(workload.cpus)}
    requests = {resource: amount for resource, amount in asked.items() if amount != "0"}
    limits = {resource: amount for resource, amount in requests.items() if resource == GPU}
    return {
        "schedulerName": OURS,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": workload.grace,
        "containers": [{"name": "main", "image": "none", "resources": {"requests": requests, "limits": limits}}],
        **workload.spec,
    }


def _acts(workload: Workload) -> dict[str, str]:
    """What the kubelet is to do with its pods."""
    found = {START: _seconds(workload.starts_after)} if workload.starts_after else {}
    if workload.run_for is not None:
        found |= {RUN: _seconds(workload.run_for), EXIT: str(workload.exit)}
    return found


def _seconds(seconds: float) -> str:
    return f"{round(seconds * 1000)}ms"
