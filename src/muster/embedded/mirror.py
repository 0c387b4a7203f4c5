"""How the kubelet and the controllers of this package see the server: what is stored, and answers to their requests."""

import re
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from muster.embedded.exchange import Answer, Request
from muster.embedded.server import Server
from muster.embedded.store import DELETED, Change

Document = dict[str, Any]
# Namespace and name.
Place = tuple[str, str]
MERGE = "application/merge-patch+json"


class Caller:
    """Sends requests in the name of one component. A refusal is an answer: the world changed, look again.

    `trouble` is why the server itself could not do what was asked last: a full disk.
    """

    def __init__(self, server: Server, name: str) -> None:
        self._server = server
        self._headers = {"user-agent": name, "accept": "application/json", "content-type": "application/json"}
        self._name = name
        self.trouble = ""

    def send(
        self, method: str, path: str, body: Any = None, content_type: str = "", query: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        """The code and the document of an answer."""
        found = self._answer(method, path, body, content_type, query)
        return found.status, found.json()

    def tell(self, method: str, path: str, body: Any, content_type: str = "") -> int:
        """Only the code of an answer."""
        return self._answer(method, path, body, content_type, None).status

    def _answer(self, method: str, path: str, body: Any, content_type: str, query: dict[str, str] | None) -> Answer:
        headers = {**self._headers, "content-type": content_type} if content_type else self._headers
        data = b"" if body is None else msgspec.json.encode(body)
        found = self._server.handle(Request(method, path, query or {}, headers, data, f"system:{self._name}"))
        if found.status >= 500:
            self.trouble = found.json()["message"]
        return found

    def patch_status(self, path: str, uid: str, status: Document) -> bool:
        """Write fields of a status, if the object is still the same one."""
        body = {"metadata": {"uid": uid}, "status": status}
        return self.tell("PATCH", f"{path}/status", body, MERGE) < 400


class Moved(NamedTuple):
    """An object that changed since the last look: what it was, and what it is. None: it was not, or is not there."""

    place: Place
    before: Document | None
    now: Document | None


class Mirror:
    """All objects of a resource as they were at the last look. They are the stored ones: nobody changes them."""

    def __init__(self, server: Server, resource: str) -> None:
        store = server.core.store
        self._resource = resource
        self._changed = {_place(one): one for one in store.list(resource).items}
        self._gone: set[Place] = set()
        self.objects: dict[Place, Document] = {}
        self.close = store.subscribe(self._take)

    def _take(self, change: Change) -> None:
        if change.key.resource == self._resource:
            place = change.key[1:]
            # What goes and comes again within one look is another one, and comes last.
            self._changed.pop(place, None)
            if change.type == DELETED:
                self._gone.add(place)
            else:
                self._changed[place] = change.document

    def look(self) -> list[Moved]:
        """Take in what has happened, in its order."""
        if not self._changed and not self._gone:
            return []
        gone = [place for place in self.objects if place in self._gone and place not in self._changed]
        found = [Moved(place, self.objects.pop(place), None) for place in gone]
        for place, document in self._changed.items():
            found.append(Moved(place, self.objects.get(place), document))
            self.objects[place] = document
        self._changed, self._gone = {}, set()
        return found

    @property
    def is_current(self) -> bool:
        """Whether nothing has happened since the last look."""
        return not self._changed and not self._gone


def _place(document: Document) -> Place:
    return document["metadata"].get("namespace") or "", document["metadata"]["name"]


_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


@lru_cache(maxsize=256)
def seconds(text: str | None) -> float | None:
    """A duration such as `30s`, `1m30s` or `250ms`; None if it is none."""
    if not text or not re.fullmatch(r"([0-9]+(\.[0-9]+)?(h|ms|m|s))+", text):
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in re.findall(r"([0-9]+(?:\.[0-9]+)?)(h|ms|m|s)", text))


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
