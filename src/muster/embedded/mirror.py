"""How the kubelet and the controllers of this package see the server: by its requests and watches, as anybody does."""

import json
import re
from typing import Any

from muster.embedded.exchange import Answer, Request
from muster.embedded.reading import Watch
from muster.embedded.server import Server

Document = dict[str, Any]
MERGE = "application/merge-patch+json"


class Caller:
    """Sends requests in the name of one component. A refusal is an answer: the world changed, look again."""

    def __init__(self, server: Server, name: str) -> None:
        self._server = server
        self._headers = {"user-agent": name, "accept": "application/json", "content-type": "application/json"}
        self._name = name

    def send(
        self, method: str, path: str, body: Any = None, content_type: str = "", query: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        """The code and the document of an answer."""
        headers = {**self._headers, "content-type": content_type} if content_type else self._headers
        data = b"" if body is None else json.dumps(body).encode()
        found = self._server.handle(Request(method, path, query or {}, headers, data, f"system:{self._name}"))
        return found.status, found.json()

    def patch_status(self, path: str, uid: str, status: Document) -> bool:
        """Write fields of a status, if the object is still the same one."""
        body = {"metadata": {"uid": uid}, "status": status}
        return self.send("PATCH", f"{path}/status", body, MERGE)[0] < 400


class Mirror:
    """All objects of a resource, kept up to date by a watch."""

    def __init__(self, server: Server, path: str) -> None:
        self._server = server
        self._path = path
        self._watch: Watch | None = None
        self.objects: dict[tuple[str, str], Document] = {}

    def refresh(self) -> set[tuple[str, str]]:
        """Take in what has happened; whose objects changed."""
        changed: set[tuple[str, str]] = set()
        if self._watch is None or self._watch.ended:
            changed |= set(self.objects)
            self.objects = {}
            found = self._server.watch(Request("GET", self._path, {"watch": "true"}))
            assert not isinstance(found, Answer), found
            self._watch = found
        for line in self._watch.read():
            event = json.loads(line)
            if event["type"] in ("ERROR", "BOOKMARK"):
                continue
            document = event["object"]
            key = (document["metadata"].get("namespace") or "", document["metadata"]["name"])
            changed.add(key)
            if event["type"] == "DELETED":
                self.objects.pop(key, None)
            else:
                self.objects[key] = document
        return changed

    def close(self) -> None:
        """Stop watching."""
        if self._watch is not None:
            self._watch.close()


_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


def seconds(text: str | None) -> float | None:
    """A duration such as `30s`, `1m30s` or `250ms`; None if it is none."""
    if not text or not re.fullmatch(r"(\d+(\.\d+)?(h|ms|m|s))+", text):
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in re.findall(r"(\d+(?:\.\d+)?)(h|ms|m|s)", text))


def owner_of(document: Document) -> Document:
    """The reference by which a controller owns what it makes."""
    metadata = document["metadata"]
    return {
        "apiVersion": document["apiVersion"],
        "kind": document["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def controller_uid(document: Document) -> str:
    """The uid of the controller of an object."""
    references = document["metadata"].get("ownerReferences") or ()
    return next((one.get("uid", "") for one in references if one.get("controller")), "")
