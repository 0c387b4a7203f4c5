"""The format of scenario files: a story as data. A key that nobody knows is an error, with its path."""

from pathlib import Path
from typing import Any, TypeVar

import msgspec

from muster.api.documents import read

Document = dict[str, Any]
GPU = "nvidia.com/gpu"
GROUP, TOPOLOGY = "scheduling.run.ai/v2alpha2", "kai.scheduler/v1alpha1"
LEVELS = ("zone", "block", "rack")
SOME_TIME = "2026-01-01T00:00:00Z"
T = TypeVar("T")


class BadScenario(Exception):
    """A file that is no scenario; says where and why."""


class Entry(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Something that is written in a scenario."""


class Nodes(Entry):
    """`count` equal nodes `name-0`, `name-1`, … (or one node `name`)."""

    name: str
    count: int | None = None
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


class Pods(Entry):
    """`count` equal pods `name-0`, …; without a name they are called after gang and subgroup.

    `after` starts their numbers later. `spec` is merged into the pod's spec as it stands. Without a gang they belong to
    another scheduler. `age` orders them: older pods have larger ages.
    """

    gang: str = ""
    sub_group: str = ""
    name: str = ""
    namespace: str = ""
    count: int | None = None
    after: int = 0
    gpus: int = 1
    cpus: int = 0
    on: str = ""
    phase: str = ""
    terminating: bool = False
    gated: bool = False
    age: int | None = None
    spec: Document = {}
    annotations: dict[str, str] = {}

    def documents(self) -> list[Document]:
        """The Pod objects."""
        usual = "-".join(filter(None, (self.gang or "other", self.sub_group)))
        return [self._one(name) for name in names(self.name or usual, self.count, self.after)]

    def _one(self, name: str) -> Document:
        metadata: Document = {
            "name": name,
            "annotations": {**({"pod-group-name": self.gang} if self.gang else {}), **self.annotations},
            "labels": {"kai.scheduler/subgroup-name": self.sub_group} if self.sub_group else {},
        }
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
        status = {"status": {"phase": phase}} if phase else {}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, **status}


class Objects(Entry):
    """What is there, or comes: in short forms, and as full documents."""

    topologies: dict[str, list[str]] = {}
    nodes: list[Nodes] = []
    # Name, or namespace/name, and the spec of a PodGroup.
    gangs: dict[str, Document] = {}
    pods: list[Pods] = []
    documents: list[Document] = []

    def all(self) -> list[Document]:
        """All of it as documents."""
        found = [
            {"apiVersion": TOPOLOGY, "kind": "Topology", "metadata": {"name": name}, "spec": {"levels": levels}}
            for name, labels in self.topologies.items()
            for levels in [[{"nodeLabel": label} for label in labels]]
        ]
        found += [document for nodes in self.nodes for document in nodes.documents()]
        for key, spec in self.gangs.items():
            namespace, _, name = key.rpartition("/")
            metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
            found.append({"apiVersion": GROUP, "kind": "PodGroup", "metadata": metadata, "spec": spec})
        found += [document for pods in self.pods for document in pods.documents()]
        return [*found, *self.documents]


class ReasonExpected(Entry):
    """A reason, by whatever of it is written."""

    code: str
    sub_group: str | None = None
    where: str | None = None
    asked: int | None = None
    best: int | None = None
    pod: str | None = None
    detail: str | None = None
    surplus: bool | None = None


class Together(Entry):
    """Placed pods of some subgroups that lie in one domain of a level; `apart`, no two subgroups in the same one."""

    sub_groups: list[str]
    level: str
    topology: str = ""
    apart: bool = False


class GangExpected(Entry):
    """What must be said of a gang after the cycle. What is not written is not looked at.

    `placed` and `pending` are pods by subgroup, "" is the root; `domain` the path that a constrained subgroup lies in.
    `reasons` are all reasons: each is written, and each that is written is there.
    """

    verdict: str
    satisfied: bool | None = None
    placed: dict[str, int] = {}
    pending: dict[str, int] = {}
    met: dict[str, bool] = {}
    domain: dict[str, str] = {}
    preferred_met: dict[str, bool] = {}
    together: list[Together] = []
    reasons: list[ReasonExpected] | None = None
    bindings: int | None = None
    nominations: int | None = None


class Where(Entry):
    """Pods that are placed or sent, by a pattern of their names, are exactly on nodes of a pattern; so many of them."""

    pods: str
    nodes: str
    count: int | None = None


class Expected(Entry):
    """What must come of a cycle. `unchanged`: gangs that are not named here get nothing."""

    gangs: dict[str, GangExpected] = {}
    bindings: int | None = None
    nominations: int | None = None
    where: list[Where] = []
    unchanged: bool = False


class Step(Entry, kw_only=True):
    """What happens, in this order: objects go, the last plan is carried out, objects come; then a cycle is judged."""

    says: str = ""
    # kind/name or kind/namespace/name, with * for anything.
    delete: list[str] = []
    bind: bool = False
    apply: Objects = Objects()
    expect: Expected


class Scenario(Objects, kw_only=True):
    """The header of a file, and what stands behind it as documents."""

    claim: str
    why: str
    steps: list[Step]


def names(name: str, count: int | None, first: int = 0) -> list[str]:
    """`name`, or so many numbered ones."""
    return [name] if count is None else [f"{name}-{number}" for number in range(first, first + count)]


def load(path: Path) -> Scenario:
    """A scenario file. Raises BadScenario."""
    return parse(path.read_bytes(), path.name)


def parse(data: bytes, name: str = "scenario") -> Scenario:
    """The text of a scenario. Raises BadScenario."""
    documents = read(data)
    for document in documents:
        if document.problems:
            raise BadScenario(f"{name}: document {document.number}: {document.problems[0]}")
    try:
        header = msgspec.convert(documents[0].value, Scenario)
    except (msgspec.ValidationError, IndexError) as error:
        raise BadScenario(f"{name}: {error}") from None
    if not header.steps:
        raise BadScenario(f"{name}: no steps")
    return msgspec.structs.replace(header, documents=[*header.documents, *(one.value for one in documents[1:])])
