"""Nodes that fail, vanish, return or are cordoned, and what becomes of their pods: the node lifecycle of a cluster."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from muster.embedded.kubelet import STOPPED
from muster.embedded.server import Server
from muster.embedded.store import DELETED, Change, Key
from muster.sim.objects import Document
from muster.sim.stage import BY_TYPE, MERGE, sender

# A pod that was told to go on a node where nobody listens is taken away by force so much later.
FORCED_AFTER_S = 5.0
_UNREACHABLE = "node.kubernetes.io/unreachable"
_EFFECTS = ("NoSchedule", "NoExecute")


class Outages:
    """All nodes. `changed` is told of each change in the store: whoever comes to a lost node is lost too."""

    def __init__(self, server: Server, later: Callable[[float, Callable[[], None]], None], lost_after_s: float) -> None:
        self._server, self._later, self._lost_after_s = server, later, lost_after_s
        self._send = sender(server, "node-controller")
        self._failed: set[str] = set()
        # Nodes that are no more, as they were last; and pods, by uid, that will be lost unless their node returns.
        self._vanished: dict[str, Document] = {}
        self._doomed: set[str] = set()

    @property
    def vanished(self) -> list[str]:
        """Nodes that could return."""
        return list(self._vanished)

    def is_silent(self, node: str) -> bool:
        """Whether nobody acts there: it failed, or there is no such node."""
        return node in self._failed or self._node(node) is None

    # What happens to nodes.

    def fail(self, name: str) -> None:
        """Nobody answers there any more."""
        self._failed.add(name)
        self._send("PATCH", _path(name), {"metadata": {"annotations": {STOPPED: "stopped"}}}, MERGE)
        self._ready(name, "Unknown", "NodeStatusUnknown")
        taints = [{"key": _UNREACHABLE, "effect": effect, "timeAdded": self._now()} for effect in _EFFECTS]
        self._taint(name, taints)
        self._doom(name)

    def recover(self, name: str) -> None:
        """It answers again; one that had vanished is there again, as it was."""
        gone = self._vanished.pop(name, None)
        if gone is not None:
            self._send("POST", "/api/v1/nodes", gone)
        self._failed.discard(name)
        self._send("PATCH", _path(name), {"metadata": {"annotations": {STOPPED: None}}}, MERGE)
        self._taint(name, [])
        self._ready(name, "True", "KubeletReady")

    def vanish(self, name: str) -> None:
        """The object goes."""
        found = self._node(name)
        if found is None:
            return
        kept = {key: found["metadata"][key] for key in ("name", "labels", "annotations") if key in found["metadata"]}
        self._vanished[name] = {**found, "metadata": kept}
        self._failed.discard(name)
        self._send("DELETE", _path(name))
        self._doom(name)

    def cordon(self, name: str, closed: bool) -> None:
        """Nobody new may come; or they may again."""
        self._send("PATCH", _path(name), {"spec": {"unschedulable": closed or None}}, MERGE)

    # What becomes of their pods.

    def changed(self, change: Change) -> None:
        """Take in a change; nothing is written here."""
        if change.key.resource == "nodes":
            if change.type == DELETED:
                self._failed.discard(change.key.name)
            return
        if change.key.resource != "pods" or change.type == DELETED:
            return
        pod = change.document
        node = pod["spec"].get("nodeName")
        if node and pod["metadata"]["uid"] not in self._doomed and self.is_silent(node):
            self._lose_later(pod)

    def _doom(self, node: str) -> None:
        for pod in self._server.core.store.list("pods").items:
            if pod["spec"].get("nodeName") == node and pod["metadata"]["uid"] not in self._doomed:
                self._lose_later(pod)

    def _lose_later(self, pod: Document) -> None:
        metadata = pod["metadata"]
        key, uid = Key("pods", metadata["namespace"], metadata["name"]), metadata["uid"]
        self._doomed.add(uid)
        self._later(self._lost_after_s, lambda: self._lose(key, uid))

    def _lose(self, key: Key, uid: str) -> None:
        """The pod is told to go, and taken away; unless its node is back."""
        pod = self._lost(key, uid)
        if pod is None:
            return
        gone = self._node(pod["spec"]["nodeName"]) is None
        reason = "DeletionByPodGC" if gone else "DeletionByTaintManager"
        path = f"/api/v1/namespaces/{key.namespace}/pods/{key.name}"
        self._write_condition(f"{path}/status", uid, "DisruptionTarget", reason)
        if gone:
            self._force(key, uid)
            return
        self._send("DELETE", path, {"preconditions": {"uid": uid}})
        self._later(FORCED_AFTER_S, lambda: self._force(key, uid))

    def _force(self, key: Key, uid: str) -> None:
        if self._lost(key, uid) is not None:
            self._doomed.discard(uid)
            body = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
            self._send("DELETE", f"/api/v1/namespaces/{key.namespace}/pods/{key.name}", body)

    def _lost(self, key: Key, uid: str) -> Document | None:
        """The pod, if it is still there and its node is not."""
        pod = self._server.core.store.get(key)
        if pod is None or pod["metadata"]["uid"] != uid or not self.is_silent(pod["spec"]["nodeName"]):
            self._doomed.discard(uid)
            return None
        return pod

    # Requests.

    def _node(self, name: str) -> Document | None:
        return self._server.core.store.get(Key("nodes", "", name))

    def _now(self) -> str:
        return datetime.fromtimestamp(int(self._server.core.clock()), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def _ready(self, name: str, holds: str, reason: str) -> None:
        condition = {"type": "Ready", "status": holds, "reason": reason, "message": ""}
        times = {"lastHeartbeatTime": self._now(), "lastTransitionTime": self._now()}
        body = {"status": {"conditions": [{**condition, **times}]}}
        self._send("PATCH", f"{_path(name)}/status", body, BY_TYPE)

    def _taint(self, name: str, taints: list[dict[str, Any]]) -> None:
        node = self._node(name)
        if node is not None:
            kept = [one for one in node["spec"].get("taints") or () if one["key"] != _UNREACHABLE]
            self._send("PATCH", _path(name), {"spec": {"taints": [*kept, *taints] or None}}, MERGE)

    def _write_condition(self, path: str, uid: str, kind: str, reason: str) -> None:
        condition = {"type": kind, "status": "True", "reason": reason, "message": "", "lastTransitionTime": self._now()}
        self._send("PATCH", path, {"metadata": {"uid": uid}, "status": {"conditions": [condition]}}, BY_TYPE)


def _path(name: str) -> str:
    return f"/api/v1/nodes/{name}"
