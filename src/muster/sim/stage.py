"""The objects of a scenario file on an API server: as it takes them, in the order in which they can come.

What a client can't set is made to come true: a pod that runs is created on its node, a status is written after its
object, a pod that terminates is deleted. On the embedded server objects are as old as the file says.
"""

import json
from collections.abc import Callable, Iterable
from datetime import datetime
from fnmatch import fnmatchcase
from itertools import groupby
from typing import Any, Protocol

from muster.api.kinds import CORE_KINDS, NATIVE_POD_GROUP, OPTIONAL_KINDS, OUR_KINDS, kind_of
from muster.api.native import NativePodGroup
from muster.embedded.exchange import Request
from muster.embedded.server import Server
from muster.errors import MusterError, UsageError
from muster.sim.facts import ADMITTED, DEFAULT_QUEUE, GANG

Document = dict[str, Any]
MERGE, BY_TYPE = "application/merge-patch+json", "application/strategic-merge-patch+json"
SPACE = "default"
# Pods that terminate when a story begins are gone so many seconds later.
GOING_S = 20
_OTHERS = tuple(kind for kind in OPTIONAL_KINDS if kind is not NATIVE_POD_GROUP)
_KINDS = {kind.name: kind for kind in (*CORE_KINDS, *_OTHERS, *OUR_KINDS)}
# In this order objects are created; pods that run come before their gangs, those that wait after them.
_ORDER = ("Namespace", "Node", "Topology", "Queue", "PriorityClass", "running Pod", "PodGroup")
# Kinds whose status is written as it stands in the file; that of a Node goes with it.
_TOLD = ("Pod", "PodGroup", "PodDisruptionBudget", "PersistentVolumeClaim", "PersistentVolume")
# Who owns a pod of which nobody is told the owner: a kind that no server knows, so that none misses it.
NOBODY = {"apiVersion": "story.muster.dev/v1", "kind": "Workload"}


class Send(Protocol):
    """Asks an API server: the code, and the document of the answer."""

    def __call__(self, method: str, path: str, body: Any = ..., content_type: str = ..., /) -> tuple[int, Any]: ...


class NotTaken(MusterError):
    """An object of a story that the API server refuses; says why."""


def sender(server: Server, who: str = "people") -> Send:
    """Requests to the embedded server in somebody's name."""

    def send(method: str, path: str, body: Any = None, content_type: str = "application/json", /) -> tuple[int, Any]:
        path, _, query = path.partition("?")
        headers = {"accept": "application/json", "content-type": content_type, "user-agent": who}
        data = b"" if body is None else json.dumps(body).encode()
        asked = dict(one.split("=", 1) for one in query.split("&") if one)
        answer = server.handle(Request(method, path, asked, headers, data, who))
        return answer.status, answer.json()

    return send


class Stage:
    """Puts the objects of a story on an API server, and takes them away again.

    `at` runs something as if it was another time (on a server of our own). `admits` sends in the name of muster, for a
    policy that lets only muster write admission marks.
    """

    def __init__(
        self, send: Send, at: Callable[[str, Callable[[], None]], None] | None = None, *, admits: Send | None = None
    ) -> None:
        self._send, self._at, self._admits = send, at, admits or send
        # Whether muster is at work: what comes with a node then was admitted by it, as far as the story goes.
        self.is_on = False
        # Pods that came with a node before their gang.
        self._unadmitted: list[Document] = []

    def put(self, documents: Iterable[Document]) -> None:
        """All of them, older ones first; one that is there gets another spec. Raises NotTaken."""
        ordered = in_order(documents)
        for document in ordered:
            self._put(document)
        if self.is_on:
            runs = [one for one in ordered if one["kind"] == "Pod" and one["spec"].get("nodeName")]
            self._unadmitted = [one for one in (*self._unadmitted, *runs) if not self._admit(one)]

    def delete(self, pattern: str) -> None:
        """`kind/name` or `kind/namespace/name` with * for anything. Raises UsageError when nothing is like that."""
        kind, _, rest = pattern.partition("/")
        space, _, name = rest.rpartition("/")
        known = {one.lower(): one for one in _KINDS}
        folder = folder_of(known.get(kind.lower(), kind), space or SPACE)
        there = [one["metadata"]["name"] for one in self._ask("GET", folder)["items"]]
        found = [one for one in there if fnmatchcase(one, name)]
        if not found:
            raise UsageError(f"nothing to delete: {pattern}", f"there is: {', '.join(there[:8]) or 'nothing'}")
        for one in found:
            self._ask("DELETE", f"{folder}/{one}?gracePeriodSeconds=0")

    def _put(self, document: Document) -> None:
        kind, name = document["kind"], document["metadata"]["name"]
        space = document["metadata"].get("namespace") or SPACE
        if kind == "Namespace":
            self._make_space(name)
            if labels := document["metadata"].get("labels"):
                self._ask("PATCH", f"/api/v1/namespaces/{name}", {"metadata": {"labels": labels}}, MERGE)
            return
        if space != SPACE:
            self._make_space(space)
        if kind_of(document) is NATIVE_POD_GROUP:
            self._make_native_kind()
            folder = f"/apis/{document['apiVersion']}/namespaces/{space}/{NATIVE_POD_GROUP.plural}"
        else:
            folder = folder_of(kind, space)
        if self._send("GET", f"{folder}/{name}")[0] == 200:
            self._change(f"{folder}/{name}", document)
            return
        born = document["metadata"].get("creationTimestamp", "")
        if self._at is not None and born:
            self._at(born, lambda: self._create(folder, document))
        else:
            self._create(folder, document)
        if document["metadata"].get("deletionTimestamp"):
            self._end(f"{folder}/{name}", document)

    def _end(self, path: str, pod: Document) -> None:
        grace = pod["spec"].get("terminationGracePeriodSeconds") or GOING_S
        self._ask("DELETE", f"{path}?gracePeriodSeconds={grace}")

    def _make_space(self, name: str) -> None:
        if self._send("GET", f"/api/v1/namespaces/{name}")[0] != 200:
            document = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            self._ask("POST", "/api/v1/namespaces", document)

    def _make_native_kind(self) -> None:
        """PodGroups of Kubernetes are served where an administrator has switched them on."""
        definition = native_definition()
        folder = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        if self._send("GET", f"{folder}/{definition['metadata']['name']}")[0] != 200:
            self._ask("POST", folder, definition)

    def _create(self, folder: str, document: Document) -> None:
        kind, name = document["kind"], document["metadata"]["name"]
        self._ask("POST", folder, accepted(document))
        if document.get("status") and kind in _TOLD:
            # A pod on a node runs; a PodGroup has its history.
            content = BY_TYPE if kind == "Pod" else MERGE
            self._ask("PATCH", f"{folder}/{name}/status", {"status": told(document)}, content)

    def _admit(self, pod: Document) -> bool:
        """A pod that comes and runs has the mark that muster would have sent with its Binding. False: not yet, because
        its gang is not there.
        """
        space, name = pod["metadata"].get("namespace") or SPACE, pod["metadata"]["name"]
        annotations = pod["metadata"].get("annotations") or {}
        gang = annotations.get(GANG)
        if not gang or ADMITTED in annotations:
            return True
        code, group = self._send("GET", f"{folder_of('PodGroup', space)}/{gang}")
        if code == 200:
            mark = f"{group['spec'].get('queue') or DEFAULT_QUEUE}/{group['metadata']['uid']}"
            body = {"metadata": {"annotations": {ADMITTED: mark}}}
            self._admits("PATCH", f"{folder_of('Pod', space)}/{name}", body, MERGE)
        return code == 200

    def _change(self, path: str, document: Document) -> None:
        """As `kubectl replace` does it; a node has another status, too."""
        now, wanted = self._ask("GET", path), accepted(document)
        if document["kind"] == "Pod":
            # Little of a pod can be changed: its marks, its gates, and what is told of it.
            self._change_pod(path, document)
            return
        metadata = {**now["metadata"], "labels": wanted["metadata"].get("labels", now["metadata"].get("labels", {}))}
        if "annotations" in wanted["metadata"]:
            metadata["annotations"] = wanted["metadata"]["annotations"]
        now = self._ask("PUT", path, {**now, "spec": wanted.get("spec", {}), "metadata": metadata})
        if document["kind"] == "Node" and "status" in wanted:
            self._ask("PUT", f"{path}/status", {**now, "status": wanted["status"]})
        elif document.get("status"):
            self._ask("PATCH", f"{path}/status", {"status": document["status"]}, MERGE)

    def _change_pod(self, path: str, document: Document) -> None:
        metadata = {key: document["metadata"].get(key, {}) for key in ("labels", "annotations")}
        metadata["ownerReferences"] = _owned(document["metadata"]).get("ownerReferences")
        gates = document["spec"].get("schedulingGates") or None
        self._ask("PATCH", path, {"metadata": metadata, "spec": {"schedulingGates": gates}}, MERGE)
        if document.get("status"):
            self._ask("PATCH", f"{path}/status", {"status": document["status"]}, BY_TYPE)
        if document["metadata"].get("deletionTimestamp"):
            self._end(path, document)

    def _ask(self, method: str, path: str, body: object = None, content: str = "application/json") -> Any:
        code, answer = self._send(method, path, body, content)
        if code >= 300:
            said = answer.get("message", answer) if isinstance(answer, dict) else answer
            raise NotTaken(f"{method} {path}: {said}", "the story has an object that no API server takes")
        return answer


def native_definition() -> Document:
    """PodGroup of scheduling.k8s.io in all its versions, as a kind that any server can have."""
    kind, schema = NATIVE_POD_GROUP, {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    versions = [
        {
            "name": version.rpartition("/")[2],
            "served": True,
            "storage": version == kind.api_version,
            "schema": {"openAPIV3Schema": schema},
        }
        for version in (kind.api_version, *NativePodGroup.VERSIONS)
    ]
    names = {"kind": kind.name, "plural": kind.plural, "singular": "podgroup", "listKind": "PodGroupList"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": kind.resource,
            "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes/enhancements/issues/4671"},
        },
        "spec": {"group": kind.group, "names": names, "scope": "Namespaced", "versions": versions},
    }


def on(server: Server, who: str = "people", *, muster: str = "") -> Stage:
    """A stage on the embedded server, on which objects are as old as they say. `muster` is the name of a muster that is
    at work there already.
    """

    def at(born: str, do: Callable[[], None]) -> None:
        clock, seconds = server.core.clock, datetime.fromisoformat(born).timestamp()
        server.core.clock = lambda: seconds
        try:
            do()
        finally:
            server.core.clock = clock

    found = Stage(sender(server, who), at, admits=sender(server, muster) if muster else None)
    found.is_on = bool(muster)
    return found


def folder_of(kind: str, namespace: str = SPACE) -> str:
    """Where the objects of a kind are; "" is every namespace."""
    known = _KINDS.get(kind)
    if known is None:
        raise UsageError(f"a story has no {kind}", f"kinds: {', '.join(_KINDS)}; a Job is a workload")
    root = "/api/v1" if known.api_version == "v1" else f"/apis/{known.api_version}"
    return (
        f"{root}/namespaces/{namespace}/{known.plural}" if known.namespaced and namespace else f"{root}/{known.plural}"
    )


def in_order(documents: Iterable[Document]) -> list[Document]:
    """As they can come: what others need before them, and older ones before younger ones."""
    found: list[Document] = []
    for _, some in groupby(sorted(documents, key=rank), key=rank):
        found += sorted(some, key=_born)
    return found


def accepted(document: Document) -> Document:
    """The object as an API server takes it, which asks for more than muster does."""
    unset = ("creationTimestamp", "deletionTimestamp")
    metadata = {key: value for key, value in document["metadata"].items() if key not in unset}
    found = {**document, "metadata": metadata}
    if document["kind"] == "Node" and document.get("status"):
        ready = [{"reason": "Story", "message": "", **one} for one in document["status"].get("conditions") or []]
        amounts = document["status"].get("allocatable") or {}
        found["status"] = {"capacity": amounts, **document["status"], "conditions": ready}
    if document["kind"] == "PodDisruptionBudget" and not {"minAvailable", "maxUnavailable"} & set(document["spec"]):
        # Who counts budgets would find that none may go: as many as its status says.
        allowed = (document.get("status") or {}).get("disruptionsAllowed", 0)
        found["spec"] = {**document["spec"], "maxUnavailable": allowed}
    if document["kind"] == "Pod":
        containers = [_container(number, one) for number, one in enumerate(document["spec"]["containers"])]
        found["spec"] = {"terminationGracePeriodSeconds": 0, **document["spec"], "containers": containers}
        found["metadata"] = _owned(metadata)
        found.pop("status", None)
    return found


def told(document: Document) -> Document:
    """The status of an object as its kubelet or controller would write it."""
    status: Document = document["status"]
    if document["kind"] == "Pod" and status.get("phase") == "Running":
        return {"conditions": [{"type": "Ready", "status": "True"}], **status}
    return status


def _owned(metadata: Document) -> Document:
    """A pod of a scenario has a controller that nobody has made; a server that looks for it must not miss it."""
    owners = [
        {**one, **NOBODY} if one.get("uid") == one.get("name") else one for one in metadata.get("ownerReferences") or []
    ]
    return {**metadata, "ownerReferences": owners} if owners else metadata


def _container(number: int, container: Document) -> Document:
    asked = (container.get("resources") or {}).get("requests") or {}
    limits = {resource: amount for resource, amount in asked.items() if "/" in resource}
    resources = {"requests": asked, "limits": limits}
    return {"name": f"c{number}", "image": "none", **container, "resources": resources}


def rank(document: Document) -> int:
    """The place of an object in the order in which they can come."""
    kind = document["kind"]
    kind = "running Pod" if kind == "Pod" and document["spec"].get("nodeName") else kind
    return _ORDER.index(kind) if kind in _ORDER else len(_ORDER)


def _born(document: Document) -> str:
    return str(document["metadata"].get("creationTimestamp", ""))
