"""One kubelet for all nodes: bound pods run, finish or fail as their annotations say, and go after their grace.

    embedded.muster.dev/start-after: 5s   a bound pod runs after this time (at once)
    embedded.muster.dev/run-for: 30s      it ends after running this long (never)
    embedded.muster.dev/exit: "1"         with this code (0)
    embedded.muster.dev/kubelet: stopped  on a node: nobody acts there

`step(now)` does what is due and says when something is due next. Nothing else makes time pass.
"""

from muster.embedded.mirror import Caller, Document, Mirror, seconds
from muster.embedded.objects import seconds_of, timestamp
from muster.embedded.server import Server

START, RUN, EXIT, STOPPED = (f"embedded.muster.dev/{name}" for name in ("start-after", "run-for", "exit", "kubelet"))
_DONE = ("Succeeded", "Failed")


class Kubelet:
    """Acts for every node that exists and is not stopped."""

    def __init__(self, server: Server) -> None:
        self._caller = Caller(server, "kubelet")
        self._pods = Mirror(server, "/api/v1/pods")
        self._nodes = Mirror(server, "/api/v1/nodes")
        # When a pod was first seen on its node, by uid: times in documents have whole seconds only.
        self._since: dict[str, float] = {}

    def step(self, now: float) -> float | None:
        """Do what is due; when something is due next, if anything is."""
        self._nodes.refresh()
        for node in self._nodes.objects.values():
            self._register(node, now)
        self._pods.refresh()
        due: list[float] = []
        for pod in list(self._pods.objects.values()):
            at = self._act(pod, now) if self._is_ours(pod) else None
            if at is not None:
                due.append(at)
        alive = {pod["metadata"]["uid"] for pod in self._pods.objects.values()}
        self._since = {uid: at for uid, at in self._since.items() if uid in alive}
        return min(due, default=None)

    def _is_ours(self, pod: Document) -> bool:
        node = self._nodes.objects.get(("", (pod.get("spec") or {}).get("nodeName") or ""))
        return node is not None and (node["metadata"].get("annotations") or {}).get(STOPPED) != "stopped"

    def _register(self, node: Document, now: float) -> None:
        """A node that says nothing of itself is ready."""
        conditions = (node.get("status") or {}).get("conditions") or ()
        stopped = (node["metadata"].get("annotations") or {}).get(STOPPED) == "stopped"
        if stopped or any(one.get("type") == "Ready" for one in conditions):
            return
        ready = _condition("Ready", True, now, "KubeletReady")
        ready["lastHeartbeatTime"] = ready.pop("lastProbeTime") or timestamp(now)
        path = f"/api/v1/nodes/{node['metadata']['name']}"
        self._caller.patch_status(path, node["metadata"]["uid"], {"conditions": [*conditions, ready]})

    def _act(self, pod: Document, now: float) -> float | None:
        """What is due for a pod, and when the next thing is."""
        metadata, status = pod["metadata"], pod.get("status") or {}
        if metadata.get("deletionTimestamp"):
            return self._end(pod, now)
        if status.get("phase") in _DONE:
            return None
        said = metadata.get("annotations") or {}
        first = self._since.setdefault(metadata["uid"], now)
        start = first + (seconds(said.get(START)) or 0.0)
        if status.get("phase") != "Running":
            if now < start:
                return start
            self._write(pod, self._running(pod, now))
        lasts = seconds(said.get(RUN))
        if lasts is None:
            return None
        if now < start + lasts:
            return start + lasts
        self._write(pod, self._ended(pod, now, _code(said.get(EXIT))))
        return None

    def _end(self, pod: Document, now: float) -> float | None:
        metadata = pod["metadata"]
        at = seconds_of(metadata["deletionTimestamp"])
        if now < at:
            return at
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": metadata["uid"]}}
        self._caller.send("DELETE", _path(pod), body)
        return None

    def _write(self, pod: Document, status: Document) -> None:
        self._caller.patch_status(_path(pod), pod["metadata"]["uid"], status)
        pod["status"] = {**(pod.get("status") or {}), **status}

    def _running(self, pod: Document, now: float) -> Document:
        names = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
        containers = [_container(one, {"running": {"startedAt": timestamp(now)}}, True) for one in _containers(pod)]
        return {
            "phase": "Running",
            "startTime": timestamp(now),
            "conditions": _changed(pod, *(_condition(name, True, now) for name in names)),
            "containerStatuses": containers,
        }

    def _ended(self, pod: Document, now: float, code: int) -> Document:
        start = (pod.get("status") or {}).get("startTime") or timestamp(now)
        reason = "Completed" if code == 0 else "Error"
        end = {"exitCode": code, "reason": reason, "startedAt": start, "finishedAt": timestamp(now)}
        why = "PodCompleted" if code == 0 else "PodFailed"
        return {
            "phase": "Succeeded" if code == 0 else "Failed",
            "conditions": _changed(pod, *(_condition(name, False, now, why) for name in ("Ready", "ContainersReady"))),
            "containerStatuses": [_container(one, {"terminated": end}, False) for one in _containers(pod)],
        }


def _path(pod: Document) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


def _containers(pod: Document) -> list[Document]:
    return list((pod.get("spec") or {}).get("containers") or ())


def _container(container: Document, state: Document, ready: bool) -> Document:
    return {
        "name": container["name"],
        "image": container.get("image", ""),
        "imageID": "",
        "ready": ready,
        "started": ready,
        "restartCount": 0,
        "state": state,
        "lastState": {},
    }


def _condition(kind: str, holds: bool, now: float, reason: str = "") -> Document:
    found: Document = {"type": kind, "status": "True" if holds else "False"}
    found |= {"lastProbeTime": None, "lastTransitionTime": timestamp(now)}
    return {**found, "reason": reason} if reason else found


def _changed(pod: Document, *new: Document) -> list[Document]:
    kept = [one for one in (pod.get("status") or {}).get("conditions") or () if one["type"] not in _types(new)]
    return [*kept, *new]


def _types(conditions: tuple[Document, ...]) -> set[str]:
    return {one["type"] for one in conditions}


def _code(text: str | None) -> int:
    return int(text) if text and text.isdigit() else 0
