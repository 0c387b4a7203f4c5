"""Pods whose node is gone: the garbage collector of a real cluster deletes them after a while, without any grace."""

from muster.embedded.mirror import Caller, Document, Mirror, Place
from muster.embedded.server import Server


class Orphans:
    """Deletes pods on nodes that have not been there for so long."""

    def __init__(self, server: Server, after_s: float) -> None:
        self._after_s = after_s
        self.caller = Caller(server, "pod-garbage-collector")
        self._pods = Mirror(server, "pods")
        self._nodes = Mirror(server, "nodes")
        # Since when nodes that pods name have been missing.
        self._missing: dict[str, float] = {}
        # Whether a deletion could not be kept.
        self._again = False

    def close(self) -> None:
        """Follow the server no longer."""
        self._pods.close()
        self._nodes.close()

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do before the time that `step` named."""
        return self._pods.is_current and self._nodes.is_current and not self._again

    def step(self, now: float) -> float | None:
        """Delete what is due; when something is due next, if anything is."""
        self._again = False
        nodes, pods = self._nodes.look(), self._pods.look()
        if nodes or any(_node(moved.now) or _node(moved.before) for moved in pods):
            named = dict.fromkeys(_node(pod) for pod in self._pods.objects.values())
            away = [name for name in named if name and ("", name) not in self._nodes.objects]
            self._missing = {name: self._missing.get(name, now) for name in away}
        over = {name for name, since in self._missing.items() if now >= since + self._after_s}
        for place, pod in list(self._pods.objects.items()) if over else ():
            if _node(pod) in over and not _is_told(pod):
                self._delete(place, pod)
        waiting = [since for name, since in self._missing.items() if name not in over]
        return min(waiting) + self._after_s if waiting else None

    def _delete(self, place: Place, pod: Document) -> None:
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}}
        path = f"/api/v1/namespaces/{place[0]}/pods/{place[1]}"
        self._again |= self.caller.tell("DELETE", path, body) >= 500


def _is_told(pod: Document) -> bool:
    """Whether it has to go at once, and something else holds it."""
    metadata = pod["metadata"]
    return bool(metadata.get("deletionTimestamp")) and not metadata.get("deletionGracePeriodSeconds")


def _node(pod: Document | None) -> str:
    return ((pod or {}).get("spec") or {}).get("nodeName") or ""
