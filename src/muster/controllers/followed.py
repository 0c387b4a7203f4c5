"""Owners of pods, whatever their kind: a kind is watched from the moment that somebody asks for an object of it.

The grouper asks without waiting. What is not here yet is not seen yet, and the grouper is told when it comes.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import msgspec

from muster.controllers.dependents import ANY, Place
from muster.errors import ApiError
from muster.grouping.model import Object
from muster.grouping.owners import Absence, Wanted, identity_of, labels_of, split_version
from muster.kube.client import Client
from muster.kube.discovery import Discovery
from muster.kube.resources import Resource
from muster.kube.watch import Added, Deleted, Listed, Modified, Restarted, watch
from muster.snapshot.world import Key
from muster.telemetry import SILENT, Log

# What nobody asks for, and what is large.
_DROPPED = ("managedFields",)
# So long after a discovery that failed, and after a kind was not known, the server is asked once more.
_AGAIN_S, _UNKNOWN_S = 5.0, 60.0

GroupKind = tuple[str, str]


@dataclass
class _Kind:
    """A kind that is followed: its objects by namespace and name, None until they were listed."""

    objects: dict[str, dict[str, Object]] | None = None
    # It may not be read, or the server does not know it.
    closed: bool = False


class Followed:
    """A lookup over watched kinds. `pod` gives pods, which are watched anyway; `changed` is called with the place of
    each object about which the answer may be another one now.

    Whatever is asked is noted in `asked`, which the asker may replace, to learn what an answer came from.
    """

    def __init__(
        self,
        client: Client,
        pod: Callable[[Key], Object | None],
        changed: Callable[[Place], None],
        log: Log = SILENT,
    ) -> None:
        self._client, self._pod, self._changed, self._log = client, pod, changed, log
        self._discovery = Discovery(client)
        self._kinds: dict[GroupKind, _Kind] = {}
        self._wanted: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
        self.asked: set[Place] = set()

    def note(self, asked: Any) -> None:
        """Something that an answer came from, although it was not asked for anew."""
        if isinstance(asked, Wanted):
            self.asked.add(Place(split_version(asked.api_version)[0], asked.kind, asked.namespace, asked.name))
        else:
            api_version, kind, namespace, _ = asked
            self.asked.add(Place(split_version(api_version)[0], kind, namespace, ""))

    def get(self, wanted: Wanted) -> Object | Absence:
        """The object, if its kind is watched and it is there."""
        self.note(wanted)
        if wanted.kind == "Pod" and split_version(wanted.api_version)[0] == "":
            return self._pod((wanted.namespace, wanted.name)) or Absence.NOT_SEEN
        objects = self._of(wanted.api_version, wanted.kind)
        if isinstance(objects, Absence):
            return objects
        for namespace in (wanted.namespace, ""):
            found = objects.get(namespace, {}).get(wanted.name)
            if found is not None:
                return found
        return Absence.NOT_SEEN

    def select(
        self, api_version: str, kind: str, namespace: str, labels: Mapping[str, str]
    ) -> Sequence[Object] | Absence:
        """All objects of the kind that carry the labels, by name."""
        self.note((api_version, kind, namespace, labels))
        objects = self._of(api_version, kind)
        if isinstance(objects, Absence):
            return objects
        named = {**objects.get("", {}), **objects.get(namespace, {})}
        return [named[name] for name in sorted(named) if labels.items() <= labels_of(named[name]).items()]

    def _of(self, api_version: str, kind: str) -> dict[str, dict[str, Object]] | Absence:
        key = split_version(api_version)[0], kind
        known = self._kinds.get(key)
        if known is None:
            known = self._kinds[key] = _Kind()
            self._wanted.put_nowait((api_version, kind))
        if known.closed:
            return Absence.FORBIDDEN
        return Absence.NOT_SEEN if known.objects is None else known.objects

    async def run(self) -> None:
        """Watches what is asked for, until it is cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                tasks.create_task(self._follow(*await self._wanted.get()))

    async def _follow(self, api_version: str, kind: str) -> None:
        """One kind for ever, in whichever version the server has."""
        key = split_version(api_version)[0], kind
        while True:
            resource = await self._resource(api_version, kind)
            if resource is not None:
                await self._watch(key, resource)
                self._discovery.forget()
            # All that can be known of its objects is what refers to them. It may be installed later.
            self._close(key, "the server does not know this kind")
            await self._client.clock.sleep(_UNKNOWN_S)

    async def _resource(self, api_version: str, kind: str) -> Resource | None:
        """How the server calls a kind; None when it does not know it."""
        while True:
            try:
                return await self._discovery.find_served(api_version, kind)
            except ApiError as error:
                self._log.warning("a kind of owners can't be looked up", kind_=kind, error=error.message)
                await self._client.clock.sleep(_AGAIN_S)

    async def _watch(self, key: GroupKind, resource: Resource) -> None:
        """Until the server does not know it any more, in this version."""
        async with aclosing(watch(self._client, resource)) as changes:
            async for change in changes:
                if isinstance(change, Restarted):
                    if change.cause == "not-found":
                        return
                    if change.cause == "forbidden":
                        self._close(key, change.error.message if change.error else change.cause)
                else:
                    self._take(key, resource, change)

    def _take(self, key: GroupKind, resource: Resource, change: Any) -> None:
        known = self._kinds[key]
        match change:
            case Listed(items=items):
                self._replace(key, known, [_document(one, resource) for one in items])
            case Added(object=raw) | Modified(object=raw) if known.objects is not None:
                document = _document(raw, resource)
                namespace, name = _place(document)
                there = known.objects.setdefault(namespace, {})
                before = there.get(name)
                there[name] = document
                # A status moves all the time, and says nothing about a gang.
                if before is None or _says(before) != _says(document):
                    self._changed(Place(*key, namespace, name))
            case Deleted(object=raw) if known.objects is not None:
                namespace, name = _place(_document(raw, resource))
                if known.objects.get(namespace, {}).pop(name, None) is not None:
                    self._changed(Place(*key, namespace, name))

    def _replace(self, key: GroupKind, known: _Kind, documents: Sequence[Object]) -> None:
        """A list: it says all there is."""
        before, opened = known.objects, known.closed
        known.objects, known.closed = {}, False
        for document in documents:
            namespace, name = _place(document)
            known.objects.setdefault(namespace, {})[name] = document
        if before is None or opened:
            # Who was not seen, or closed to us, may be absent for another reason now.
            self._changed(Place(*key, ANY, ANY))
            return
        old = {(namespace, name): one for namespace, there in before.items() for name, one in there.items()}
        new = {(namespace, name): one for namespace, there in known.objects.items() for name, one in there.items()}
        for place in old.keys() | new.keys():
            if place not in old or place not in new or _says(old[place]) != _says(new[place]):
                self._changed(Place(*key, *place))

    def _close(self, key: GroupKind, why: str) -> None:
        known = self._kinds[key]
        if not known.closed:
            self._log.warning("a kind of owners can't be read", group=key[0], kind_=key[1], why=why)
            known.closed = True
            self._changed(Place(*key, ANY, ANY))


def _document(raw: Any, resource: Resource) -> Object:
    """The object as JSON, with its kind, which the items of a list do not say."""
    document = raw if isinstance(raw, dict) else msgspec.json.decode(raw)
    document.setdefault("apiVersion", resource.api_version)
    document.setdefault("kind", resource.name)
    metadata = document.get("metadata")
    if isinstance(metadata, dict):
        for field in _DROPPED:
            metadata.pop(field, None)
    found: Object = document
    return found


def _says(document: Object) -> Any:
    """What of an object decides about its gang."""
    metadata = document.get("metadata", {})
    spec = metadata.get("generation") or document.get("spec")
    return (
        metadata.get("uid"),
        spec,
        metadata.get("labels"),
        metadata.get("annotations"),
        metadata.get("ownerReferences"),
    )


def _place(document: Object) -> tuple[str, str]:
    identity = identity_of(document)
    return identity.namespace, identity.name
