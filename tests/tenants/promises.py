"""What the other tenants were promised, checked at each write of muster against books of its own (SPEC §7, §14)."""

import json
from collections import Counter
from typing import Any, NamedTuple

from muster.embedded.exchange import Answer, Request
from muster.embedded.server import Server

Document = dict[str, Any]
GPU, MARK = "nvidia.com/gpu", "muster.dev/admitted"
_OVER = ("Succeeded", "Failed")


class Terms(NamedTuple):
    """What a queue allows, in GPUs."""

    quota: float
    limit: float
    parent: str = ""
    namespaces: tuple[str, ...] = ()


class Bound(NamedTuple):
    """A pod that muster bound: what it holds, which queue admitted it, and its gang as it was then."""

    gpus: int
    queue: str
    namespace: str
    gang: str


class Promises:
    """Sees each request to the server. `broken` lists what was broken."""

    def __init__(
        self, server: Server, us: str, queues: dict[str, Terms], protected: dict[tuple[str, str], int]
    ) -> None:
        self._server, self._us, self._queues = server, us, queues
        # Gangs that keep as many pods, whatever muster does.
        self._protected = protected
        self._bound: dict[str, Bound] = {}
        self.broken: list[str] = []
        self.binds = self.evictions = 0
        self._handle = server.handle
        server.handle = self._seen  # type: ignore[method-assign]

    def _seen(self, request: Request) -> Answer:
        before = self._pod_of(request) if request.user == self._us else None
        answer = self._handle(request)
        if request.user == self._us and answer.status < 300 and before is not None:
            if request.path.endswith("/binding"):
                self._was_bound(before, json.loads(request.body))
            elif request.path.endswith("/eviction") or request.method == "DELETE":
                self._was_evicted(before)
        return answer

    def _pod_of(self, request: Request) -> Document | None:
        parts = request.path.split("/")
        if "pods" not in parts or request.method not in ("POST", "DELETE") or len(parts) < 7:
            return None
        at = parts.index("pods")
        answer = self._handle(
            Request("GET", "/".join(parts[: at + 2]), {}, {"accept": "application/json"}, b"", "judge")
        )
        return answer.json() if answer.status == 200 else None

    def _pods(self) -> dict[str, Document]:
        answer = self._handle(Request("GET", "/api/v1/pods", {}, {"accept": "application/json"}, b"", "judge"))
        return {one["metadata"]["uid"]: one for one in answer.json()["items"]}

    def _was_bound(self, pod: Document, binding: Document) -> None:
        self.binds += 1
        metadata = pod["metadata"]
        mark = str(((binding.get("metadata") or {}).get("annotations") or {}).get(MARK) or "")
        queue = mark.rpartition("/")[0]
        gang = (metadata.get("annotations") or {}).get("pod-group-name") or ""
        group = self._group(metadata["namespace"], gang)
        if queue not in self._queues:
            self._break(f"{metadata['namespace']}/{metadata['name']} is bound with the mark {mark!r}")
            return
        allowed = self._queues[queue].namespaces
        if allowed and metadata["namespace"] not in allowed:
            self._break(f"{metadata['namespace']}/{metadata['name']} is bound in the closed queue {queue}")
        self._bound[metadata["uid"]] = Bound(_gpus(pod), queue, metadata["namespace"], gang)
        self._check_amounts(queue, is_firm=_is_firm(group))

    def _check_amounts(self, queue: str, *, is_firm: bool) -> None:
        pods = self._pods()
        held: Counter[str] = Counter()
        firm: Counter[str] = Counter()
        leaving: Counter[str] = Counter()
        for uid, known in list(self._bound.items()):
            one, pod = known, pods.get(uid)
            if pod is None or (pod.get("status") or {}).get("phase") in _OVER:
                del self._bound[uid]
                continue
            stands = str((pod["metadata"].get("annotations") or {}).get(MARK) or "")
            if stands and stands.rpartition("/")[0] != one.queue:
                # muster moves a whole gang to another queue; nobody else can change the mark.
                one = self._bound[uid] = one._replace(queue=stands.rpartition("/")[0])
            elif not stands:
                self._break(f"the mark of {one.namespace}/{pod['metadata']['name']} is gone")
            held[one.queue] += one.gpus
            leaving[one.queue] += one.gpus * bool(pod["metadata"].get("deletionTimestamp"))
            if _is_firm(self._group(one.namespace, one.gang)):
                firm[one.queue] += one.gpus
        at = queue
        while at:
            below = [name for name in self._queues if self._is_below(name, at)]
            total, non_preemptible = sum(held[name] for name in below), sum(firm[name] for name in below)
            terms = self._queues[at]
            if 0 <= terms.limit < total:
                gone = sum(leaving[name] for name in below)
                self._break(
                    f"queue {at} holds {total} GPUs ({gone} of them in pods that leave), its limit is {terms.limit}"
                )
            if is_firm and 0 <= terms.quota < non_preemptible:
                self._break(f"queue {at} has {non_preemptible} non-preemptible GPUs, its quota is {terms.quota}")
            at = terms.parent

    def _is_below(self, name: str, above: str) -> bool:
        while name and name != above:
            name = self._queues[name].parent
        return name == above

    def _was_evicted(self, pod: Document) -> None:
        self.evictions += 1
        metadata = pod["metadata"]
        key = (metadata["namespace"], (metadata.get("annotations") or {}).get("pod-group-name") or "")
        if key in self._protected:
            left = sum(
                one["metadata"]["namespace"] == key[0]
                and (one["metadata"].get("annotations") or {}).get("pod-group-name") == key[1]
                and bool(one["spec"].get("nodeName"))
                and not one["metadata"].get("deletionTimestamp")
                for one in self._pods().values()
            )
            if left < self._protected[key]:
                self._break(f"an eviction leaves {left} pods of {'/'.join(key)}, whose core is {self._protected[key]}")

    def free(self) -> int:
        """The most GPUs that are free on one node."""
        answer = self._handle(Request("GET", "/api/v1/nodes", {}, {"accept": "application/json"}, b"", "judge"))
        left = {one["metadata"]["name"]: int(one["status"]["allocatable"][GPU]) for one in answer.json()["items"]}
        for pod in self._pods().values():
            node = pod["spec"].get("nodeName")
            nominated = (pod.get("status") or {}).get("nominatedNodeName")
            if (pod.get("status") or {}).get("phase") not in _OVER and (node or nominated) in left:
                left[node or nominated] -= _gpus(pod)
        return max(left.values())

    def _group(self, namespace: str, name: str) -> Document:
        path = f"/apis/scheduling.run.ai/v2alpha2/namespaces/{namespace}/podgroups/{name}"
        answer = self._handle(Request("GET", path, {}, {"accept": "application/json"}, b"", "judge"))
        return answer.json() if answer.status == 200 else {}

    def _break(self, what: str) -> None:
        if what not in self.broken:
            self.broken.append(what)


def _gpus(pod: Document) -> int:
    return sum(
        int(float(((one.get("resources") or {}).get("limits") or {}).get(GPU, 0)))
        for one in pod["spec"].get("containers") or ()
    )


def _is_firm(group: Document) -> bool:
    spec = group.get("spec") or {}
    known = {"build": 100, "inference": 125}
    preemptibility = spec.get("preemptibility") or (
        "non-preemptible" if known.get(spec.get("priorityClassName") or "", 50) >= 100 else "preemptible"
    )
    # What a tenant writes while pods run protects nothing before it is admitted.
    admitted = (group.get("status") or {}).get("admittedPreemptibility") or preemptibility
    return bool(group) and preemptibility == admitted == "non-preemptible"
