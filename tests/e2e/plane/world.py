"""The world of a scenario file on a control plane: its objects as an API server takes them, and what happens to them.

What a test can't set on a real server is made to come true: an older object is created earlier, a pod that runs is
created on its node, and a status is written after its object.
"""

import time
from collections.abc import Iterable
from fnmatch import fnmatchcase
from itertools import groupby
from typing import Any

from e2e.plane.access import MERGE_PATCH, Requests
from e2e.plane.control_plane import ControlPlane
from e2e.plane.process import wait_until
from e2e.plane.recorder import BY_TYPE, Recorder
from e2e.plane.stage import NAMESPACE
from muster.sim.facts import ADMITTED, GANG
from muster.sim.stage import accepted, folder_of, rank

Document = dict[str, Any]
DEFAULT_QUEUE = "default-queue"


class World:
    """What a test has put on a control plane, as it wrote it; in the namespace `default`."""

    def __init__(self, plane: ControlPlane, recorder: Recorder) -> None:
        self._plane, self.recorder = plane, recorder
        # By kind and name.
        self.documents: dict[tuple[str, str], Document] = {}
        self._admitted: set[str] = set()
        self._muster = Requests(plane.url, plane.ca, token=plane.service_account_token(NAMESPACE, "muster"))

    def put(self, documents: Iterable[Document]) -> None:
        """All of them, older ones first; one that is there gets another spec."""
        for _, some in groupby(sorted(documents, key=rank), key=rank):
            before = ""
            for born, alike in groupby(sorted(some, key=_born), key=_born):
                if before:
                    _next_second()
                before = born
                for document in alike:
                    self._put(document)
            self._admit()

    def delete(self, pattern: str) -> None:
        """`kind/name` with * for anything, as in a scenario."""
        kind, _, wanted = pattern.partition("/")
        found = [key for key in self.documents if key[0].lower() == kind and fnmatchcase(key[1], wanted)]
        assert found, f"nothing to delete: {pattern}"
        for key in found:
            del self.documents[key]
            self._admitted.discard(key[1])
            self.recorder.nodes.pop(key[1] if key[0] == "Node" else "", None)
            self._request("DELETE", f"{folder_of(key[0])}/{key[1]}?gracePeriodSeconds=0")

    def clear(self) -> None:
        """Nothing is left, and the recorder has seen it."""
        for kind in ("Pod", "PodGroup", "Topology", "Node"):
            self._request("DELETE", f"{folder_of(kind)}?gracePeriodSeconds=0")
        self._request("DELETE", f"{folder_of('Queue')}?fieldSelector=metadata.name!={DEFAULT_QUEUE}")
        wait_until(lambda: not self.recorder.pods, 20, "the pods are gone")
        self.documents.clear()
        self._admitted.clear()
        self.recorder.nodes.clear()
        self.recorder.begin()

    def objects(self, kind: str) -> list[Document]:
        """All of a kind as they are now."""
        found = self._request("GET", folder_of(kind))["items"]
        return [{"kind": kind, **one} for one in found]

    def events(self) -> list[Document]:
        """What was said in Events so far, about objects that are there and that were."""
        found: list[Document] = self._request("GET", "/apis/events.k8s.io/v1/namespaces/default/events")["items"]
        return found

    def _admit(self) -> None:
        """Pods that run have the mark that muster would have sent with their Binding, before others of their gang come.
        Only muster may write it.
        """
        for (kind, name), pod in self.documents.items():
            annotations = pod["metadata"].get("annotations") or {}
            gang = self.documents.get(("PodGroup", annotations.get(GANG, "")))
            if kind != "Pod" or not pod["spec"].get("nodeName") or gang is None or name in self._admitted:
                continue
            self._admitted.add(name)
            uid = self._request("GET", f"{folder_of('PodGroup')}/{gang['metadata']['name']}")["metadata"]["uid"]
            mark = {ADMITTED: f"{gang['spec'].get('queue') or DEFAULT_QUEUE}/{uid}"}
            answer = self._muster(
                "PATCH", f"{folder_of('Pod')}/{name}", {"metadata": {"annotations": mark}}, MERGE_PATCH
            )
            assert answer.status == 200, answer.body

    def _put(self, document: Document) -> None:
        assert "deletionTimestamp" not in document["metadata"], "nobody can be born terminating"
        kind, name = document["kind"], document["metadata"]["name"]
        again = (kind, name) in self.documents
        self.documents[kind, name] = document
        path = folder_of(kind)
        if again:
            self._change(f"{path}/{name}", document)
            return
        if kind == "Node":
            self.recorder.nodes[name] = document
        self._request("POST", path, accepted(document))
        if document.get("status") and kind in ("Pod", "PodGroup"):
            # A pod on a node runs; a PodGroup has its history.
            content = BY_TYPE if kind == "Pod" else MERGE_PATCH
            self._request("PATCH", f"{path}/{name}/status", {"status": document["status"]}, content)

    def _change(self, path: str, document: Document) -> None:
        """As `kubectl replace` does it; a node has another status, too."""
        now, wanted = self._request("GET", path), accepted(document)
        labels = wanted["metadata"].get("labels", now["metadata"].get("labels", {}))
        body = {**now, "spec": wanted["spec"], "metadata": {**now["metadata"], "labels": labels}}
        now = self._request("PUT", path, body)
        if document["kind"] == "Node":
            self.recorder.nodes[document["metadata"]["name"]] = document
            self._request("PUT", f"{path}/status", {**now, "status": wanted["status"]})

    def _request(self, method: str, path: str, body: object = None, content: str = "application/json") -> Any:
        answer = self._plane.request(method, path, body, content)
        assert answer.status < 300, f"{method} {path}: {answer.body}"
        return answer.body


def _born(document: Document) -> str:
    return str(document["metadata"].get("creationTimestamp", ""))


def _next_second() -> None:
    """Times of creation are whole seconds."""
    time.sleep(1.01 - time.time() % 1)
