"""The short forms of scenario files: nodes, queues, gangs and pods in a few words, and the objects they stand for."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import msgspec

Document = dict[str, Any]
GPU = "nvidia.com/gpu"
GROUP, QUEUE, TOPOLOGY = "scheduling.run.ai/v2alpha2", "scheduling.run.ai/v2", "kai.scheduler/v1alpha1"
CHARGES = ("cpu", "memory", "gpu")
LEVELS = ("zone", "block", "rack")
SOME_TIME = "2026-01-01T00:00:00Z"
# Second 0 of every story; what has an `age` is older.
BEGIN = datetime(2026, 1, 1, 1, tzinfo=UTC)


# A second of the story, or before it; how many of something; and how old, within the hour before it.
Second = Annotated[int, msgspec.Meta(ge=-(10**9), le=10**9)]
Count = Annotated[int, msgspec.Meta(ge=0)]
Age = Annotated[int, msgspec.Meta(ge=0, lt=3600)]


def at(second: float) -> str:
    """A second of the story as Kubernetes writes it."""
    return (BEGIN + timedelta(seconds=second)).strftime("%Y-%m-%dT%H:%M:%SZ")


class Entry(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Something that is written in a scenario."""


class Nodes(Entry, frozen=True, kw_only=True):
    """`count` equal nodes `name-0`, `name-1`, … (or one node `name`)."""

    name: str
    count: Count | None = None
    zone: str | None = None
    block: str | None = None
    rack: str | None = None
    gpus: int = 8
    cpus: int = 64
    pods: int = 110
    labels: dict[str, str] = {}
    taints: list[dict[str, str]] = []
    cordoned: bool = False
    ready: bool = True

    def documents(self) -> list[Document]:
        """The Node objects."""
        path = {level: value for level in LEVELS if (value := getattr(self, level)) is not None}
        return [
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **path, **self.labels}},
                "spec": {**({"unschedulable": True} if self.cordoned else {}), "taints": self.taints},
                "status": {
                    "allocatable": {GPU: str(self.gpus), "cpu": str(self.cpus), "pods": str(self.pods)},
                    "conditions": [{"type": "Ready", "status": "True" if self.ready else "False"}],
                },
            }
            for name in names(self.name, self.count)
        ]


class Pods(Entry, frozen=True, kw_only=True):
    """`count` equal pods `name-0`, …; without a name they are called after gang and subgroup.

    `after` starts their numbers later. `spec` is merged into the pod's spec as it stands. Without a gang they belong to
    another scheduler. `age` orders them: older pods have larger ages. `started` is a second of the story. When a pod
    that is `controlled` goes, its controller makes another.
    """

    gang: str = ""
    sub_group: str = ""
    name: str = ""
    namespace: str = ""
    count: Count | None = None
    after: int = 0
    gpus: int = 1
    cpus: int = 0
    on: str = ""
    phase: str = ""
    terminating: bool = False
    gated: bool = False
    age: Age | None = None
    started: Second | None = None
    controlled: bool = True
    spec: Document = {}
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}

    def documents(self) -> list[Document]:
        """The Pod objects."""
        usual = "-".join(filter(None, (self.gang or "other", self.sub_group)))
        return [self._one(name) for name in names(self.name or usual, self.count, self.after)]

    def _one(self, name: str) -> Document:
        metadata: Document = {
            "name": name,
            "annotations": {**({"pod-group-name": self.gang} if self.gang else {}), **self.annotations},
            "labels": {**({"kai.scheduler/subgroup-name": self.sub_group} if self.sub_group else {}), **self.labels},
        }
        if self.controlled:
            owner = {"apiVersion": "batch/v1", "kind": "Job", "name": self.gang or "other", "uid": self.gang or "other"}
            metadata["ownerReferences"] = [{**owner, "controller": True}]
        if self.namespace:
            metadata["namespace"] = self.namespace
        if self.terminating:
            metadata["deletionTimestamp"] = SOME_TIME
        if self.age is not None:
            metadata["creationTimestamp"] = f"2026-01-01T00:{59 - self.age // 60:02}:{59 - self.age % 60:02}Z"
        spec: Document = {
            "schedulerName": "kai-scheduler" if self.gang else "default-scheduler",
            "containers": [{"resources": {"requests": {GPU: str(self.gpus), "cpu": str(self.cpus)}}}],
            **({"nodeName": self.on} if self.on else {}),
            **({"schedulingGates": [{"name": "wait"}]} if self.gated else {}),
            **self.spec,
        }
        phase = self.phase or ("Running" if self.on else "")
        status = {**({"phase": phase} if phase else {})}
        if self.started is not None:
            status["startTime"] = at(self.started)
        written = {"status": status} if status else {}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, **written}


class Resource(Entry, frozen=True, kw_only=True):
    """What a queue is due of one resource; what is not written is left out of the Queue too."""

    quota: float | None = None
    limit: float | None = None
    weight: float | None = None

    def document(self) -> Document:
        """As in a Queue."""
        found = {"quota": self.quota, "limit": self.limit, "overQuotaWeight": self.weight}
        return {name: value for name, value in found.items() if value is not None}


class QueueEntry(Resource, frozen=True, kw_only=True):
    """A Queue. Bare `quota`, `limit`, `weight` are those of gpu; who writes none of them has no end of GPUs."""

    parent: str = ""
    priority: int | None = None
    cpu: Resource | None = None
    memory: Resource | None = None
    preempt_min_runtime: str | None = None
    reclaim_min_runtime: str | None = None
    allowed_namespaces: list[str] | None = None
    annotations: dict[str, str] = {}
    created: Second | None = None

    def manifest(self, name: str) -> Document:
        """The Queue object."""
        metadata: Document = {"name": name}
        if self.created is not None:
            metadata["creationTimestamp"] = at(self.created)
        annotations = dict(self.annotations)
        if self.allowed_namespaces is not None:
            annotations["kai.scheduler/allowed-namespaces"] = ",".join(self.allowed_namespaces)
        if annotations:
            metadata["annotations"] = annotations
        resources = {name: one.document() for name in ("cpu", "memory") if (one := getattr(self, name)) is not None}
        if self.document():
            resources["gpu"] = self.document()
        spec = {
            "parentQueue": self.parent or None,
            "priority": self.priority,
            "preemptMinRuntime": self.preempt_min_runtime,
            "reclaimMinRuntime": self.reclaim_min_runtime,
            "resources": resources or None,
        }
        spec = {field: value for field, value in spec.items() if value is not None}
        return {"apiVersion": QUEUE, "kind": "Queue", "metadata": metadata, "spec": spec}


class Budget(Entry, frozen=True, kw_only=True):
    """A PodDisruptionBudget over pods with these labels; `allowed` is what its status says may go now."""

    selects: dict[str, str]
    allowed: int | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None

    def manifest(self, name: str) -> Document:
        """The PodDisruptionBudget object."""
        spec: Document = {"selector": {"matchLabels": self.selects}}
        for field, value in (("minAvailable", self.min_available), ("maxUnavailable", self.max_unavailable)):
            if value is not None:
                spec[field] = value
        status = {} if self.allowed is None else {"status": {"disruptionsAllowed": self.allowed}}
        metadata = {"name": name}
        return {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": metadata,
            "spec": spec,
            **status,
        }


class History(Entry, frozen=True, kw_only=True):
    """What is known of a gang from before, in seconds of the story.

    When it was `created`, when its minimum was placed (`started`), since when it waits (`waits`); which subgroups are
    `core` ("" is the root and always is), `joined`, or `lost` pods and none waits; since when subgroups are `stale`.
    Rows that the status tells of were satisfied, with the minimum of the spec, unless they are stale or lost.
    """

    created: Second | None = None
    started: Second | None = None
    waits: Second | None = None
    core: list[str] | None = None
    joined: list[str] = []
    lost: list[str] = []
    stale: dict[str, Second] = {}

    def onto(self, group: Document) -> Document:
        """The PodGroup with its history."""
        metadata: Document = dict(group["metadata"])
        status: Document = {}
        if self.created is not None:
            metadata["creationTimestamp"] = at(self.created)
        if self.started is not None:
            status["startTime"] = at(self.started)
        if self.waits is not None:
            since = {"type": "Scheduled", "status": "False", "reason": "InsufficientResources"}
            status["conditions"] = [{**since, "lastTransitionTime": at(self.waits)}]
        if self.core is not None or self.stale or self.joined:
            status["subGroups"] = [self._row(name, minimum) for name, minimum in minimums(group["spec"]).items()]
        return {**group, "metadata": metadata, **({"status": status} if status else {})}

    def _row(self, name: str, minimum: int) -> Document:
        row = {"name": name, "satisfied": name not in {*self.stale, *self.lost}, "minimum": minimum}
        row |= {word: True for word, names in (("joined", self.joined), ("lost", self.lost)) if name in names}
        row["core"] = not name or name in (self.core or [])
        if name in self.stale:
            row["staleSince"] = at(self.stale[name])
        return row


def minimums(spec: Document) -> dict[str, int]:
    """The minimum of every tree node by name, the root first, as it stands in the spec."""
    below: dict[str, list[Document]] = {}
    for one in spec.get("subGroups", []):
        below.setdefault(one.get("parent", ""), []).append(one)
    found = {}
    for name, one in [("", spec), *((one["name"], one) for one in spec.get("subGroups", []))]:
        found[name] = one.get("minSubGroup", len(below[name])) if name in below else one.get("minMember", 1)
    return found


class Objects(Entry, frozen=True, kw_only=True):
    """What is there, or comes: in short forms, and as full documents."""

    topologies: dict[str, list[str]] = {}
    nodes: list[Nodes] = []
    queues: dict[str, QueueEntry] = {}
    # Name, or namespace/name, and the spec of a PodGroup.
    gangs: dict[str, Document] = {}
    # By the same names, and only of gangs that are written beside it: what their annotation muster.dev/keep says.
    keep: dict[str, str] = {}
    history: dict[str, History] = {}
    pods: list[Pods] = []
    budgets: dict[str, Budget] = {}
    documents: list[Document] = []

    def all(self) -> list[Document]:
        """All of it as documents."""
        found = [
            {"apiVersion": TOPOLOGY, "kind": "Topology", "metadata": {"name": name}, "spec": {"levels": levels}}
            for name, labels in self.topologies.items()
            for levels in [[{"nodeLabel": label} for label in labels]]
        ]
        found += [document for nodes in self.nodes for document in nodes.documents()]
        found += [queue.manifest(name) for name, queue in self.queues.items()]
        for key, spec in self.gangs.items():
            namespace, _, name = key.rpartition("/")
            metadata: Document = {"name": name, **({"namespace": namespace} if namespace else {})}
            if key in self.keep:
                metadata["annotations"] = {"muster.dev/keep": self.keep[key]}
            group = {"apiVersion": GROUP, "kind": "PodGroup", "metadata": metadata, "spec": spec}
            found.append(self.history.get(key, History()).onto(group))
        found += [document for pods in self.pods for document in pods.documents()]
        found += [budget.manifest(name) for name, budget in self.budgets.items()]
        return [*found, *self.documents]


def names(name: str, count: int | None, first: int = 0) -> list[str]:
    """`name`, or so many numbered ones."""
    return [name] if count is None else [f"{name}-{number}" for number in range(first, first + count)]
