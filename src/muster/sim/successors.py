"""The controllers of single pods that a story brings: `web-0` was evicted, so there is `web-0.2` now, and it waits.

Whoever is deleted at once, by the story itself, has none.
"""

import re

from muster.embedded.server import Server
from muster.embedded.store import DELETED, Change
from muster.sim.objects import Document
from muster.sim.stage import NOBODY, sender

# Successors carry a number: web-0, web-0.2, web-0.3.
_NUMBERED = re.compile(r"^(.*)\.(\d+)$")


class Successors:
    """Makes pods in the place of others that went. `changed` is told of each change in the store."""

    def __init__(self, server: Server) -> None:
        self._send = sender(server, "controller")
        self._expected: set[str] = set()
        self._missing: list[Document] = []

    def expect(self, uid: str) -> None:
        """Somebody deletes this pod, and its controller does not agree."""
        self._expected.add(uid)

    def changed(self, change: Change) -> None:
        """Take in a change; nothing is written here."""
        if change.key.resource == "pods" and change.type == DELETED and _has_controller(change.document):
            metadata, uid = change.document["metadata"], change.document["metadata"]["uid"]
            if uid in self._expected or metadata.get("deletionTimestamp") or _is_disrupted(change.document):
                self._missing.append(change.document)
            self._expected.discard(uid)

    def act(self) -> None:
        """Make what is missing."""
        while self._missing:
            made = _successor(self._missing.pop(0))
            self._send("POST", f"/api/v1/namespaces/{made['metadata']['namespace']}/pods", made)


def first_name(name: str) -> tuple[str, int]:
    """What the first of a line of successors was called, and the number of this one."""
    numbered = _NUMBERED.match(name)
    return (numbered[1], int(numbered[2])) if numbered else (name, 1)


def _has_controller(pod: Document) -> bool:
    """Whether it has a controller that only the story knows."""
    owners = pod["metadata"].get("ownerReferences") or ()
    return any(one.get("controller") and one["kind"] == NOBODY["kind"] for one in owners)


def _is_disrupted(pod: Document) -> bool:
    return any(one["type"] == "DisruptionTarget" for one in (pod.get("status") or {}).get("conditions") or ())


def _successor(pod: Document) -> Document:
    kept = {key: pod["metadata"].get(key) or {} for key in ("namespace", "annotations", "labels")}
    name, number = first_name(pod["metadata"]["name"])
    metadata = {**kept, "name": f"{name}.{number + 1}", "ownerReferences": pod["metadata"]["ownerReferences"]}
    set_by_server = ("nodeName", "priority", "preemptionPolicy")
    spec = {key: value for key, value in pod["spec"].items() if key not in set_by_server}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
