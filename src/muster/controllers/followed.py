"""Owners of pods, whatever their kind: a kind is watched from the moment that somebody asks for an object of it.

The grouper asks without waiting. What is not here yet is not seen yet, and the grouper is told when it comes. Anybody
who may create pods can name owners of any kind: one that nobody leads to any more is forgotten, one that can't be read
is asked for ever more rarely, and what is secret, large or watched anyway is not followed because a pod says so.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import msgspec

from muster.api.kinds import CORE_KINDS, OUR_KINDS
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
# After a discovery that failed, a kind that may not be read, and one that is not known, the server is asked once more:
# so soon, then after twice as long each time, up to the second number.
_FAILED_S, _REFUSED_S, _UNKNOWN_S = (5.0, 30.0), (5.0, 300.0), (60.0, 300.0)
# So often it is looked whether it is time; so long after the last question a kind that nobody needs is forgotten.
_LOOK_S, _FORGET_S = 5.0, 300.0
# So many kinds are looked up at a time.
_LOOKUPS = 8

GroupKind = tuple[str, str]

# Owners of these kinds are known by the reference alone. An interface may still refer to them.
_PASSED_OVER: frozenset[GroupKind] = frozenset(
    [
        *((kind.group, kind.name) for kind in (*CORE_KINDS, *OUR_KINDS)),
        *(("", name) for name in ("ConfigMap", "Secret", "Event", "Endpoints", "Namespace", "ServiceAccount")),
        ("events.k8s.io", "Event"),
        ("discovery.k8s.io", "EndpointSlice"),
        ("coordination.k8s.io", "Lease"),
    ]
)


@dataclass
class _Kind:
    """A kind that is followed: its objects by namespace and name, None until they were listed."""

    api_version: str
    objects: dict[str, dict[str, Object]] | None = None
    # Who follows it; None: nobody does until `due_s`. How long it was waited the last time.
    task: asyncio.Task[None] | None = None
    due_s: float = 0.0
    waited_s: float = 0.0
    asked_s: float = 0.0
    # It may not be read, or the server does not know it.
    closed: bool = False


class Followed:
    """A lookup over watched kinds. `pod` gives pods, which are watched anyway; `changed` is called with the place of
    each object about which the answer may be another one now. `is_needed` says whether somebody's gang came from an
    object of a kind.

    Whatever is asked is noted in `asked`, which the asker may replace, to learn what an answer came from.
    """

    def __init__(
        self,
        client: Client,
        pod: Callable[[Key], Object | None],
        changed: Callable[[Place], None],
        log: Log = SILENT,
        *,
        is_needed: Callable[[GroupKind], bool] = lambda _: True,
    ) -> None:
        self._client, self._pod, self._changed, self._log = client, pod, changed, log
        self._clock, self._is_needed = client.clock, is_needed
        self._discovery, self._lookups = Discovery(client), asyncio.Semaphore(_LOOKUPS)
        self._kinds: dict[GroupKind, _Kind] = {}
        self._wanted: asyncio.Queue[GroupKind] = asyncio.Queue()
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
        key = split_version(wanted.api_version)[0], wanted.kind
        if key == ("", "Pod"):
            return self._pod((wanted.namespace, wanted.name)) or Absence.NOT_SEEN
        if wanted.uid and key in _PASSED_OVER:
            # Only who refers to an owner knows its uid.
            return Absence.FORBIDDEN
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
            known = self._kinds[key] = _Kind(api_version)
            self._wanted.put_nowait(key)
        known.asked_s = self._clock.now_s()
        if known.closed:
            return Absence.FORBIDDEN
        return Absence.NOT_SEEN if known.objects is None else known.objects

    async def run(self) -> None:
        """Watches what is asked for, until it is cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._look())
            while True:
                key = await self._wanted.get()
                known = self._kinds.get(key)
                if known is not None and known.task is None:
                    known.task = tasks.create_task(self._follow(key, known))

    async def _look(self) -> None:
        """Which kinds are to be tried again, and which nobody needs any more."""
        while True:
            await self._clock.sleep(_LOOK_S)
            now_s = self._clock.now_s()
            for key, known in list(self._kinds.items()):
                if now_s - known.asked_s > _FORGET_S and not self._is_needed(key):
                    del self._kinds[key]
                    if known.task is not None:
                        known.task.cancel()
                elif known.task is None and known.due_s <= now_s:
                    self._wanted.put_nowait(key)

    async def _follow(self, key: GroupKind, known: _Kind) -> None:
        """One kind as long as that goes well, in whichever version the server has."""
        wait_s = _UNKNOWN_S
        try:
            async with self._lookups:
                resource = await self._discovery.find_served(known.api_version, key[1])
        except ApiError as error:
            self._log.warning("a kind of owners can't be looked up", kind=key[1], error=error.message)
            wait_s = _FAILED_S
        else:
            if resource is not None and await self._watch(key, known, resource):
                wait_s = _REFUSED_S
            else:
                # All that can be known of its objects is what refers to them. It may be installed later.
                self._close(key, known, "the server does not know this kind")
                known.objects = None
        first_s, last_s = wait_s
        known.waited_s = min(max(2.0 * known.waited_s, first_s), last_s)
        known.due_s = self._clock.now_s() + known.waited_s
        known.task = None

    async def _watch(self, key: GroupKind, known: _Kind, resource: Resource) -> bool:
        """Until the server does not know it any more, in this version (False), or never let us read it (True)."""
        async with aclosing(watch(self._client, resource)) as changes:
            async for change in changes:
                error = change.error if isinstance(change, Restarted) else None
                if isinstance(change, Restarted) and change.cause == "not-found":
                    self._discovery.forget()
                    return False
                if isinstance(change, Restarted) and change.cause == "forbidden":
                    self._close(key, known, error.message if error else change.cause)
                    if known.objects is None:
                        return True
                elif error is None:
                    self._take(key, known, resource, change)
        return False

    def _take(self, key: GroupKind, known: _Kind, resource: Resource, change: Any) -> None:
        known.waited_s = 0.0
        if known.closed and known.objects is not None and not isinstance(change, Listed):
            # The watch was let in again and goes on where it stopped: there is no other list.
            known.closed = False
            self._changed(Place(*key, ANY, ANY))
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

    def _close(self, key: GroupKind, known: _Kind, why: str) -> None:
        if not known.closed:
            self._log.warning("a kind of owners can't be read", group=key[0], kind=key[1], why=why)
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
