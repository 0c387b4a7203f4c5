"""One kubelet for all nodes: bound pods run, finish or fail as their annotations say, and go after their grace.

    embedded.muster.dev/start-after: 5s   a bound pod runs after this time (at once)
    embedded.muster.dev/run-for: 30s      it ends after running this long (never)
    embedded.muster.dev/exit: "1"         with this code (0)
    embedded.muster.dev/kubelet: stopped  on a node: nobody acts there

`step(now)` does what is due and says when something is due next. Nothing else makes time pass.
"""

from functools import partial

from muster.embedded.apart import fails
from muster.embedded.mirror import Caller, Document, Mirror, Place, seconds
from muster.embedded.objects import seconds_of, timestamp
from muster.embedded.server import Server

START, RUN, EXIT, STOPPED = (f"embedded.muster.dev/{name}" for name in ("start-after", "run-for", "exit", "kubelet"))
_DONE = ("Succeeded", "Failed")


class Kubelet:
    """Acts for every node that exists and is not stopped. Looks only at what changed, and at what is due."""

    def __init__(self, server: Server) -> None:
        self.caller = Caller(server, "kubelet")
        self._pods = Mirror(server, "pods")
        self._nodes = Mirror(server, "nodes")
        # When a pod was first seen on its node, with its uid: times in documents have whole seconds only.
        self._since: dict[Place, tuple[str, float]] = {}
        # When there is something to do for a pod; who has to be looked at once more, because a write was refused.
        self._due: dict[Place, float] = {}
        self._again: dict[Place, None] = {}
        self._unregistered: dict[Place, None] = {}

    def close(self) -> None:
        """Follow the server no longer."""
        self._pods.close()
        self._nodes.close()

    def step(self, now: float) -> float | None:
        """Do what is due; when something is due next, if anything is."""
        look, self._again = self._again, {}
        nodes, self._unregistered = self._unregistered, {}
        for moved in self._nodes.look():
            nodes[moved.place] = None
            if _acts(moved.now) and not _acts(moved.before):
                name = moved.place[1]
                look |= {place: None for place, pod in self._pods.objects.items() if _node(pod) == name}
        for moved in self._pods.look():
            look[moved.place] = None
            if moved.now is None:
                self._since.pop(moved.place, None)
        look |= {place: None for place, at in self._due.items() if at <= now}
        defects: list[Exception] = []
        for place in nodes:
            if fails(partial(self._register, now), place, defects):
                self._unregistered[place] = None
        for place in look:
            if fails(partial(self._look, now), place, defects):
                self._again[place] = None
        if defects:
            raise defects[0]
        return min(self._due.values(), default=None)

    def _look(self, now: float, place: Place) -> None:
        pod, at = self._pods.objects.get(place), None
        if pod is not None and _acts(self._nodes.objects.get(("", _node(pod)))):
            at = self._act(place, pod, now)
        if at is None:
            self._due.pop(place, None)
        else:
            self._due[place] = at

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do before the time that `step` named."""
        return self._pods.is_current and self._nodes.is_current and not self._again and not self._unregistered

    def _register(self, now: float, place: Place) -> None:
        """A node that says nothing of itself is ready."""
        node = self._nodes.objects.get(place)
        if node is None:
            return
        conditions = (node.get("status") or {}).get("conditions") or ()
        if not _acts(node) or any(one.get("type") == "Ready" for one in conditions):
            return
        ready = _condition("Ready", True, now, "KubeletReady")
        ready["lastHeartbeatTime"] = ready.pop("lastProbeTime") or timestamp(now)
        path = f"/api/v1/nodes/{node['metadata']['name']}"
        if not self.caller.patch_status(path, node["metadata"]["uid"], {"conditions": [*conditions, ready]}):
            self._unregistered[place] = None

    def _act(self, place: Place, pod: Document, now: float) -> float | None:
        """What is due for a pod, and when the next thing is."""
        metadata, status = pod["metadata"], pod.get("status") or {}
        if metadata.get("deletionTimestamp"):
            return self._end(pod, now)
        if status.get("phase") in _DONE:
            return None
        said = metadata.get("annotations") or {}
        wait = seconds(said.get(START)) or 0.0
        uid, first = self._since.get(place, ("", now))
        if uid != metadata["uid"]:
            # One that runs already was started before our time.
            first = seconds_of(status["startTime"]) - wait if _runs(status) else now
            self._since[place] = metadata["uid"], first
        start = first + wait
        if status.get("phase") != "Running":
            if now < start:
                return start
            running = self._running(pod, now)
            self._write(place, pod, running)
            self._complain(pod, now)
            pod = {**pod, "status": {**status, **running}}
        lasts = seconds(said.get(RUN))
        if lasts is None:
            return None
        if now < start + lasts:
            return start + lasts
        self._write(place, pod, self._ended(pod, now, _code(said.get(EXIT))))
        return None

    def _complain(self, pod: Document, now: float) -> None:
        """Say in an event which annotations can't be read: they are as if they were not there."""
        said = _misread(pod["metadata"].get("annotations") or {})
        if said:
            self.caller.tell(
                "POST", f"/api/v1/namespaces/{pod['metadata']['namespace']}/events", _event(pod, said, now)
            )

    def _end(self, pod: Document, now: float) -> float | None:
        metadata = pod["metadata"]
        at = seconds_of(metadata["deletionTimestamp"])
        if now < at:
            return at
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": metadata["uid"]}}
        # What could not be kept is due until it can.
        return at if self.caller.tell("DELETE", _path(pod), body) >= 500 else None

    def _write(self, place: Place, pod: Document, status: Document) -> None:
        if not self.caller.patch_status(_path(pod), pod["metadata"]["uid"], status):
            self._again[place] = None

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


def _misread(annotations: Document) -> str:
    found = [
        f"{name} is {annotations[name]!r}, and no duration such as 30s, 1m30s or 250ms"
        for name in (START, RUN)
        if name in annotations and seconds(annotations[name]) is None
    ]
    if EXIT in annotations and not _is_code(annotations[EXIT]):
        found.append(f"{EXIT} is {annotations[EXIT]!r}, and no exit code from 0 to 255")
    return "; ".join([*found, "it is as if nothing was said"]) if found else ""


def _event(pod: Document, said: str, now: float) -> Document:
    metadata, time = pod["metadata"], timestamp(now)
    about = {name: metadata[name] for name in ("namespace", "name", "uid")}
    return {
        # The same pod is complained of once.
        "metadata": {
            "name": f"{metadata['name'][:200].rstrip('-.')}.{metadata['uid']}",
            "namespace": metadata["namespace"],
        },
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", **about},
        "type": "Warning",
        "reason": "UnreadableAnnotation",
        "message": said[:1024],
        "source": {"component": "kubelet", "host": _node(pod)},
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": 1,
    }


def _acts(node: Document | None) -> bool:
    """Whether there is a node, and somebody who acts there."""
    return node is not None and (node["metadata"].get("annotations") or {}).get(STOPPED) != "stopped"


def _node(pod: Document) -> str:
    return (pod.get("spec") or {}).get("nodeName") or ""


def _runs(status: Document) -> bool:
    return status.get("phase") == "Running" and bool(status.get("startTime"))


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
    kept = [one for one in (pod.get("status") or {}).get("conditions") or () if one.get("type") not in _types(new)]
    return [*kept, *new]


def _types(conditions: tuple[Document, ...]) -> set[str]:
    return {one["type"] for one in conditions}


def _is_code(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 3 and int(text) <= 255


def _code(text: str | None) -> int:
    return int(text) if text and _is_code(text) else 0
