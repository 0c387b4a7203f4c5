"""Sees every bind and eviction on a control plane, plays kubelet and controllers, and finds what must never happen.

A bound pod runs at once, and a pod that was evicted is made anew when it has a controller, under a name of its own. On
the way no node is ever over-committed, and pods of other schedulers are neither written to nor evicted (SPEC §11).
"""

import copy
import http.client
import json
import socket
import threading
import time
from typing import Any

from e2e.plane.control_plane import ControlPlane
from muster.sim.expecting import Bound, gang_of
from muster.sim.facts import ADMITTED
from oracle.problem import amount
from scenarios.carry import first_name

Document = dict[str, Any]
Key = tuple[str, str]
OURS = "kai-scheduler"
# Leaves the conditions of others alone.
BY_TYPE = "application/strategic-merge-patch+json"
# What the eviction API writes on a pod before it goes.
_EVICTED = "EvictionByEvictionAPI"


class Recorder:
    """Watches all pods from the moment that it is made until it is closed.

    `nodes` are those that the test has put there, by name: what is bound is judged by them.
    """

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self.nodes: dict[str, Document] = {}
        self.pods: dict[Key, Document] = {}
        self.bound: list[Bound] = []
        # Pods that were evicted, as they were last seen.
        self.evicted: list[Document] = []
        self.faults: list[str] = []
        self._last_s = time.monotonic()
        self._closing = False
        listing = plane.request("GET", "/api/v1/pods").body
        self.pods.update((key_of(pod), pod) for pod in listing["items"])
        self._connection = plane.connection()
        version = listing["metadata"]["resourceVersion"]
        self._thread = threading.Thread(target=self._watch, args=(version,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """No more is seen."""
        self._closing = True
        if self._connection.sock is not None:
            self._connection.sock.shutdown(socket.SHUT_RDWR)
        self._thread.join(20)
        self._connection.close()

    def begin(self) -> None:
        """A new step: what was seen before is forgotten, but not what is there."""
        self.bound, self.evicted, self.faults = [], [], []
        self._last_s = time.monotonic()

    @property
    def calm_s(self) -> float:
        """How long no pod has changed."""
        return time.monotonic() - self._last_s

    def _watch(self, version: str) -> None:
        try:
            self._connection.request("GET", f"/api/v1/pods?watch=1&resourceVersion={version}")
            response = self._connection.getresponse()
            while line := response.readline():
                event = json.loads(line)
                if event["type"] == "ERROR":
                    raise OSError(event["object"].get("message"))
                self._take(event["type"], event["object"])
            raise OSError("it has ended")
        except (OSError, http.client.HTTPException, ValueError) as error:
            if not self._closing:
                self.faults.append(f"the watch of the recorder: {error!r}")

    def _take(self, change: str, pod: Document) -> None:
        key = key_of(pod)
        before = self.pods.get(key, {"spec": {}})
        self._last_s = time.monotonic()
        if change == "DELETED":
            self.pods = {other: one for other, one in self.pods.items() if other != key}
            if any(one.get("reason") == _EVICTED for one in pod.get("status", {}).get("conditions", [])):
                self._gone(pod)
            return
        self.pods = {**self.pods, key: pod}
        managers = {one.get("manager", "") for one in pod["metadata"].get("managedFields", [])}
        if not is_ours(pod) and any(manager.startswith("muster") for manager in managers):
            self.faults.append(f"{key[1]} of another scheduler was written to")
        node = pod["spec"].get("nodeName", "")
        if change == "MODIFIED" and node and not before["spec"].get("nodeName"):
            self.bound.append(Bound(key, node, gang_of(pod)))
            self.faults += self._too_much_on(node)
            status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
            path = f"/api/v1/namespaces/{key[0]}/pods/{key[1]}/status"
            self._plane.request("PATCH", path, {"status": status}, BY_TYPE)

    def _gone(self, pod: Document) -> None:
        """It was evicted; its controller makes another."""
        self.evicted.append(pod)
        if not is_ours(pod):
            self.faults.append(f"{key_of(pod)[1]} of another scheduler is evicted")
        if any(owner.get("controller") for owner in pod["metadata"].get("ownerReferences", [])):
            self._plane.request("POST", f"/api/v1/namespaces/{key_of(pod)[0]}/pods", _successor(pod))

    def _too_much_on(self, name: str) -> list[str]:
        """Invariant 1, with all pods that are there, those that terminate too."""
        if name not in self.nodes:
            return [f"a bind to {name}, which is not there"]
        here = [one for one in self.pods.values() if one["spec"].get("nodeName") == name and not _has_ended(one)]
        room = {resource: amount(text) for resource, text in self.nodes[name]["status"]["allocatable"].items()}
        asked = {resource: sum(_asked(one, resource) for one in here) for resource in room}
        return [f"{asked[one]} {one} on {name}, which has {room[one]}" for one in room if asked[one] > room[one]]


def key_of(pod: Document) -> Key:
    """Namespace and name."""
    return pod["metadata"]["namespace"], pod["metadata"]["name"]


def is_ours(pod: Document) -> bool:
    """Whether muster may do anything about a pod."""
    return bool(pod["spec"].get("schedulerName") == OURS)


def _successor(pod: Document) -> Document:
    """What a controller makes in the place of a pod: web-0, web-0.2, web-0.3."""
    name, number = first_name(pod["metadata"]["name"])
    kept = {field: pod["metadata"].get(field, {}) for field in ("namespace", "annotations", "labels")}
    # The mark of admission is muster's, and of the pod that it bound.
    kept["annotations"] = {key: value for key, value in kept["annotations"].items() if key != ADMITTED}
    metadata = {**kept, "name": f"{name}.{number + 1}", "ownerReferences": pod["metadata"]["ownerReferences"]}
    spec = copy.deepcopy(pod["spec"])
    spec.pop("nodeName", None)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _has_ended(pod: Document) -> bool:
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def _asked(pod: Document, resource: str) -> int:
    if resource == "pods":
        return amount(1)
    each = (one.get("resources", {}).get("requests", {}) for one in pod["spec"]["containers"])
    return sum(amount(requests[resource]) for requests in each if resource in requests)
