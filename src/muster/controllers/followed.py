"""Owners of pods, whatever their kind: a kind is watched from the moment that somebody asks for an object of it.

The grouper asks without waiting. What is not here yet is not seen yet, and the grouper is told when it comes.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any

import msgspec

from muster.errors import ApiError
from muster.grouping.model import Object
from muster.grouping.owners import Absence, Objects, Wanted, identity_of, split_version
from muster.kube.client import Client
from muster.kube.discovery import Discovery
from muster.kube.resources import Resource
from muster.kube.watch import Added, Deleted, Listed, Modified, Restarted, watch
from muster.snapshot.world import Key

# What nobody asks for, and what is large.
_DROPPED = ("managedFields",)
_AGAIN_S = 5.0


class Followed:
    """A lookup over watched kinds. `pod` gives pods, which are watched anyway; `changed` is called whenever an answer
    may be another one now.
    """

    def __init__(self, client: Client, pod: Callable[[Key], Object | None], changed: Callable[[], None]) -> None:
        self._client, self._pod, self._changed = client, pod, changed
        self._discovery = Discovery(client)
        # By group and kind: the objects by namespace and name; None until the first list is there.
        self._found: dict[tuple[str, str], dict[tuple[str, str], Object] | None] = {}
        self._closed: set[tuple[str, str]] = set()
        self._asked: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
        # Looked through by name and label; made anew when something changed.
        self._objects: dict[tuple[str, str], Objects] = {}

    def get(self, wanted: Wanted) -> Object | Absence:
        """The object, if its kind is watched and it is there."""
        if wanted.kind == "Pod" and split_version(wanted.api_version)[0] == "":
            return self._pod((wanted.namespace, wanted.name)) or Absence.NOT_SEEN
        objects = self._of(wanted.api_version, wanted.kind)
        return objects.get(wanted) if isinstance(objects, Objects) else objects

    def select(
        self, api_version: str, kind: str, namespace: str, labels: Mapping[str, str]
    ) -> Sequence[Object] | Absence:
        """All objects of the kind that carry the labels."""
        objects = self._of(api_version, kind)
        return objects.select(api_version, kind, namespace, labels) if isinstance(objects, Objects) else objects

    def _of(self, api_version: str, kind: str) -> Objects | Absence:
        key = split_version(api_version)[0], kind
        if key in self._closed:
            return Absence.FORBIDDEN
        if key not in self._found:
            self._found[key] = None
            self._asked.put_nowait((api_version, kind))
        found = self._found[key]
        if found is None:
            return Absence.NOT_SEEN
        if key not in self._objects:
            self._objects[key] = Objects(found.values())
        return self._objects[key]

    async def run(self) -> None:
        """Watches what is asked for, until it is cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                api_version, kind = await self._asked.get()
                tasks.create_task(self._follow(api_version, kind))

    async def _follow(self, api_version: str, kind: str) -> None:
        key = split_version(api_version)[0], kind
        resource = await self._resource(api_version, kind)
        if resource is None:
            # A kind that the server does not know: all that can be known of its objects is what refers to them.
            self._close(key)
            return
        async with aclosing(watch(self._client, resource)) as changes:
            async for change in changes:
                self._take(key, resource, change)

    async def _resource(self, api_version: str, kind: str) -> Resource | None:
        """How the server calls a kind; None when it does not know it."""
        while True:
            try:
                return await self._discovery.find_served(api_version, kind)
            except ApiError:
                await self._client.clock.sleep(_AGAIN_S)

    def _take(self, key: tuple[str, str], resource: Resource, change: Any) -> None:
        match change:
            case Listed(items=items):
                found = [_document(one, resource) for one in items]
                self._found[key] = {_place(one): one for one in found}
                self._closed.discard(key)
            case Added(object=raw) | Modified(object=raw):
                document, there = _document(raw, resource), self._found[key]
                if there is None:
                    return
                before = there.get(_place(document))
                there[_place(document)] = document
                if before is not None and _says(before) == _says(document):
                    # Its status moves all the time, and says nothing about its gang.
                    self._objects.pop(key, None)
                    return
            case Deleted(object=raw):
                (self._found.get(key) or {}).pop(_place(_document(raw, resource)), None)
            case Restarted(cause="forbidden" | "not-found"):
                self._close(key)
                return
            case _:
                return
        self._objects.pop(key, None)
        self._changed()

    def _close(self, key: tuple[str, str]) -> None:
        if key not in self._closed:
            self._closed.add(key)
            self._changed()


def _document(raw: Any, resource: Resource) -> Object:
    """The object as JSON, with its kind, which the items of a list do not say."""
    document = raw if isinstance(raw, dict) else msgspec.json.decode(raw)
    document.setdefault("apiVersion", resource.api_version)
    document.setdefault("kind", resource.name)
    for field in _DROPPED:
        document.get("metadata", {}).pop(field, None)
    found: Object = document
    return found


def _says(document: Object) -> Any:
    """What of an object decides about its gang."""
    metadata = document.get("metadata", {})
    spec = metadata.get("generation") or document.get("spec")
    return spec, metadata.get("labels"), metadata.get("annotations"), metadata.get("ownerReferences")


def _place(document: Object) -> tuple[str, str]:
    identity = identity_of(document)
    return identity.namespace, identity.name
