"""An API server in virtual time that has any kind, for tests of grouping; and a grouper that works on it.

It keeps objects and their history, answers discovery, lists, watches, creates, patches and deletes as a real one does,
with their preconditions, and remembers every write.
"""

import asyncio
import copy
import itertools
import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any, NamedTuple

from muster.api.kinds import CORE_KINDS, OUR_KINDS, POD_GROUP
from muster.controllers.grouper import GrouperLoop
from muster.kube.events import EventRecorder
from muster.kube.transport import Answer, Request
from muster.kube.watch import Added, Deleted, Listed, Modified, watch
from muster.snapshot.world import World
from unit.kube.playing import Played, VirtualClock, answer, line, playing, refusal, virtually

Document = dict[str, Any]
NAMESPACE = "default"
EVENTS = "events"


class Served(NamedTuple):
    """A kind that the server has."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool = True


class Write(NamedTuple):
    """A write that was done."""

    verb: str
    plural: str
    name: str
    body: Document


BUILT_IN = [
    *(Served(kind.api_version, kind.name, kind.plural, kind.namespaced) for kind in (*CORE_KINDS, *OUR_KINDS)),
    Served("events.k8s.io/v1", "Event", EVENTS),
    Served("batch/v1", "Job", "jobs"),
    Served("apps/v1", "Deployment", "deployments"),
    Served("apps/v1", "ReplicaSet", "replicasets"),
]


class Server:
    """The API server. What stands in `forbidden`, as (verb, plural), is refused."""

    def __init__(self, *kinds: Served) -> None:
        self.kinds = {one.plural: one for one in (*BUILT_IN, *kinds)}
        self.objects: dict[tuple[str, str, str], Document] = {}
        self.forbidden: set[tuple[str, str]] = set()
        # Objects that nothing can be written to.
        self.stuck: set[str] = set()
        self.writes: list[Write] = []
        self.watched: set[str] = set()
        # Writes of these verbs and plurals meet an object that somebody else has just written, with this in it.
        self.overtaken: list[tuple[str, str]] = []
        self.overtaking: Document = {"metadata": {"labels": {"by": "another"}}}
        # How long writes of these verbs and plurals take.
        self.slow_s: dict[tuple[str, str], float] = {}
        # How often all streams were ended.
        self.cuts = 0
        self._version = 1
        self._uids = itertools.count(1)
        self._history: list[tuple[int, str, str, Document]] = []
        self._changed = asyncio.Event()

    # What the tests do.

    def put(self, document: Document) -> Document:
        """An object as it is from now on; a new one gets what a server gives it."""
        served = next(
            one
            for one in self.kinds.values()
            if (one.api_version, one.kind) == (document["apiVersion"], document["kind"])
        )
        metadata = document["metadata"]
        place = served.plural, metadata.get("namespace", NAMESPACE) if served.namespaced else "", metadata["name"]
        before = self.objects.get(place)
        self._version += 1
        made = {"uid": f"uid-{next(self._uids)}", "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z"}
        known = before["metadata"] if before else made
        given = {**known, **metadata, **({"namespace": place[1]} if place[1] else {})}
        if before is not None and before.get("spec") != document.get("spec"):
            given["generation"] = known["generation"] + 1
        found = {**document, "metadata": {**given, "resourceVersion": str(self._version)}}
        self.objects[place] = found
        self._tell(place[0], "MODIFIED" if before else "ADDED", found)
        return found

    def change(self, plural: str, name: str, patch: Document, namespace: str = NAMESPACE) -> Document:
        """A merge patch by somebody."""
        return self.put(merged(self.read(plural, name, namespace), patch))

    def remove(self, plural: str, name: str, namespace: str = NAMESPACE) -> None:
        """An object goes."""
        self._version += 1
        found = self.objects.pop((plural, namespace if self.kinds[plural].namespaced else "", name))
        last = {**found, "metadata": {**found["metadata"], "resourceVersion": str(self._version)}}
        self._tell(plural, "DELETED", last)

    def read(self, plural: str, name: str, namespace: str = NAMESPACE) -> Document:
        """One object."""
        return self.objects[plural, namespace if self.kinds[plural].namespaced else "", name]

    def cut(self) -> None:
        """All streams end, as they do now and then."""
        self.cuts += 1
        self._changed.set()
        self._changed = asyncio.Event()

    def all(self, plural: str) -> list[Document]:
        """All objects of a kind."""
        return [found for place, found in sorted(self.objects.items()) if place[0] == plural]

    def notes(self) -> list[tuple[str, str, str]]:
        """Every event: the object, the reason, the note."""
        events = (write.body for write in self.writes if write.plural == EVENTS and write.verb == "create")
        return [
            (f"{one['regarding']['kind']} {one['regarding']['name']}", one["reason"], one["note"]) for one in events
        ]

    # What the process does.

    async def whole(self, request: Request) -> Answer:
        """The answer to a request."""
        parts = request.path.strip("/").split("/")
        found = self._discovered(parts)
        if found is not None:
            return found
        place, subresource = self._place(parts)
        if place is None:
            return refusal(404, "NotFound")
        body = json.loads(request.body) if request.body else None
        apply = any(key.lower() == "content-type" and "apply" in value for key, value in request.headers)
        verb = {"POST": "create", "PATCH": "patch", "DELETE": "delete"}.get(request.method, "get")
        verb = "list" if verb == "get" and not place[2] else verb
        if (verb, place[0]) in self.forbidden:
            return refusal(403, "Forbidden")
        if verb in ("list", "get"):
            return self._read(verb, place)
        if place[2] in self.stuck:
            return refusal(422, "Invalid")
        await asyncio.sleep(self.slow_s.get((verb, place[0]), 0.0))
        if (verb, place[0]) in self.overtaken:
            self.overtaken.remove((verb, place[0]))
            self._overtake(verb, place, body)
        return self._write(verb, place, body, subresource, apply=apply)

    def _read(self, verb: str, place: tuple[str, str, str]) -> Answer:
        if verb == "get":
            return answer(self.objects[place]) if place in self.objects else refusal(404, "NotFound")
        items = [one for key, one in sorted(self.objects.items()) if key[0] == place[0] and place[1] in ("", key[1])]
        return answer({"metadata": {"resourceVersion": str(self._version)}, "items": items})

    def _write(
        self, verb: str, place: tuple[str, str, str], body: Document, subresource: str, *, apply: bool
    ) -> Answer:
        if verb == "create":
            place = (*place[:2], body["metadata"]["name"])
            if place in self.objects:
                return refusal(409, "AlreadyExists")
            if place[0] == EVENTS:
                self.writes.append(Write(verb, *place[::2], body))
                return answer(body, 201)
            found = self.put(body)
        else:
            there = self.objects.get(place)
            if there is None:
                return refusal(404, "NotFound")
            wanted = body.get("metadata", {}) if verb == "patch" else body.get("preconditions", {})
            for field in ("uid", "resourceVersion"):
                if wanted.get(field) not in (None, there["metadata"][field]):
                    return refusal(409, "Conflict")
            if verb == "delete":
                self.remove(place[0], place[2], place[1])
                found = {}
            else:
                found = self._patch(there, body, subresource, apply=apply)
        self.writes.append(Write(verb, *place[::2], body))
        return answer(found)

    def _patch(self, there: Document, body: Document, subresource: str, *, apply: bool) -> Document:
        patch = {subresource: body[subresource]} if subresource else body
        if apply:
            # The only list that is applied is one of conditions, told apart by their type.
            ours = {one["type"]: one for one in patch["status"]["conditions"]}
            others = [one for one in there.get("status", {}).get("conditions", []) if one["type"] not in ours]
            patch = {"status": {"conditions": [*others, *ours.values()]}}
        after = merged(there, patch)
        return there if after == there else self.put(after)

    def _overtake(self, verb: str, place: tuple[str, str, str], body: Document) -> None:
        """Somebody else was faster."""
        if verb == "create":
            self.put(merged(body, self.overtaking))
        else:
            self.change(place[0], place[2], self.overtaking, place[1])

    async def chunks(self, request: Request) -> AsyncGenerator[Any, None]:
        """The lines of a watch."""
        place, _ = self._place(request.path.strip("/").split("/"))
        if place is None:
            yield refusal(404, "NotFound")
            return
        plural = place[0]
        if ("list", plural) in self.forbidden:
            yield refusal(403, "Forbidden")
            return
        self.watched.add(plural)
        version, at = int(request.params["resourceVersion"]), 0
        yield b"\n"
        cuts = self.cuts
        while plural in self.kinds and cuts == self.cuts:
            changed = self._changed
            while at < len(self._history):
                made, of, change, found = self._history[at]
                at += 1
                if of == plural and made > version:
                    yield line(change, found)
            with suppress(TimeoutError):
                # At no moment at which anything else happens: who is cancelled while something comes may not notice.
                async with asyncio.timeout(31.7):
                    await changed.wait()
                continue
            yield line("BOOKMARK", {"metadata": {"resourceVersion": str(self._version)}})

    def _discovered(self, parts: list[str]) -> Answer | None:
        """The answer to a question about kinds."""
        if len(parts) > (2 if parts[0] == "api" else 3):
            return None
        versions = sorted({one.api_version for one in self.kinds.values()})
        if parts == ["apis"]:
            groups: dict[str, list[dict[str, str]]] = {}
            for one in versions:
                group, slash, version = one.partition("/")
                if slash:
                    groups.setdefault(group, []).append({"version": version})
            listed = [{"name": name, "preferredVersion": of[0], "versions": of} for name, of in groups.items()]
            return answer({"groups": listed})
        if parts[0] == "apis" and len(parts) == 2:
            named = [one.partition("/")[2] for one in versions if one.startswith(f"{parts[1]}/")]
            if not named:
                return refusal(404, "NotFound")
            return answer({"preferredVersion": {"version": named[0]}, "versions": [{"version": one} for one in named]})
        api_version = "/".join(parts[1:])
        if api_version not in versions:
            return refusal(404, "NotFound")
        of = [one for one in self.kinds.values() if one.api_version == api_version]
        verbs = ["get", "list", "watch"]
        named_kinds = [
            {"name": one.plural, "kind": one.kind, "namespaced": one.namespaced, "verbs": verbs} for one in of
        ]
        return answer({"resources": named_kinds})

    def _place(self, parts: list[str]) -> tuple[tuple[str, str, str] | None, str]:
        rest = parts[2 if parts[0] == "api" else 3 :]
        namespace = ""
        if rest[0] == "namespaces":
            namespace, rest = rest[1], rest[2:]
        if rest[0] not in self.kinds:
            return None, ""
        name = rest[1] if len(rest) > 1 else ""
        return (rest[0], namespace, name), rest[2] if len(rest) > 2 else ""

    def _tell(self, plural: str, change: str, found: Document) -> None:
        self._history.append((self._version, plural, change, copy.deepcopy(found)))
        self._changed.set()
        self._changed = asyncio.Event()


def merged(before: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    after = dict(before) if isinstance(before, dict) else {}
    for key, value in patch.items():
        if value is None:
            after.pop(key, None)
        else:
            after[key] = merged(after.get(key), value)
    return after


class Shop:
    """A grouper at work, and the world that it shares with nobody."""

    def __init__(self, server: Server, **more: Any) -> None:
        self.server, self.world = server, World()
        self.transport = Played(server.whole, server.chunks)
        self.client = playing(self.transport, VirtualClock())
        self.events = EventRecorder(self.client, instance="test")
        self._listed: set[str] = set()
        more = {"ready": lambda: len(self._listed) == 3, "events": self.events, **more}
        self.loop = GrouperLoop(self.client, self.world, **more)
        # The names of pods that the grouper looked at.
        self.looked: list[str] = []
        grouper = self.loop._grouper
        group = grouper.group

        def noting(pods: Iterable[Document], existing: Any) -> Any:
            return group(self._noted(pods), existing)

        grouper.group = noting

    def _noted(self, pods: Iterable[Document]) -> Iterator[Document]:
        for pod in pods:
            self.looked.append(pod["metadata"]["name"])
            yield pod

    async def run(self) -> None:
        """Until it is cancelled."""
        kinds = [kind for kind in CORE_KINDS if kind.plural in ("pods", "priorityclasses")] + [POD_GROUP]
        async with asyncio.TaskGroup() as tasks:
            for kind in kinds:
                tasks.create_task(self._feed(kind))
            tasks.create_task(self.events.run())
            tasks.create_task(self.loop.run())

    async def _feed(self, kind: Any) -> None:
        async with aclosing(watch(self.client, kind)) as changes:
            async for change in changes:
                match change:
                    case Listed(items=items):
                        for found in items:
                            self.world.apply(found)
                        self._listed.add(kind.plural)
                    case Added(object=found) | Modified(object=found):
                        self.world.apply(found)
                    case Deleted(object=found):
                        self.world.apply(found, deleted=True)

    def since(self) -> list[Write]:
        """What was written since the last time that somebody asked, events aside."""
        found = [write for write in self.server.writes if write.plural != EVENTS]
        self.server.writes = [write for write in self.server.writes if write.plural == EVENTS]
        return found


@asynccontextmanager
async def at_work(server: Server, **more: Any) -> AsyncIterator[Shop]:
    """A grouper at work inside the block."""
    shop = Shop(server, **more)
    task = asyncio.ensure_future(shop.run())
    try:
        yield shop
        assert not task.done(), task.exception()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def settled(seconds: float = 3.0) -> None:
    """Long enough for everything that is to be done at once; less than what is told only when it lasts."""
    await asyncio.sleep(seconds)


def owned(owner: Document, name: str, *, notes: Document | None = None, **labels: str) -> Document:
    """A pod of ours that an object made."""
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "controller": True}
    reference |= {key: owner["metadata"][key] for key in ("name", "uid")}
    pod = alone(name, notes=notes, **labels)
    pod["metadata"]["ownerReferences"] = [reference]
    return pod


def alone(name: str, *, notes: Document | None = None, **labels: str) -> Document:
    """A pod of ours that nobody owns."""
    metadata: Document = {"name": name, "namespace": NAMESPACE, "labels": labels, "annotations": notes or {}}
    container = {"name": "main", "resources": {"requests": {"cpu": "1"}}}
    spec = {"schedulerName": "kai-scheduler", "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def job(name: str = "train", pods: int = 2, **annotations: str) -> Document:
    """A Job."""
    notes = {key.replace("_", "-"): value for key, value in annotations.items()}
    metadata = {"name": name, "annotations": {f"kai.scheduler/{key}": value for key, value in notes.items()}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"parallelism": pods}}


WORK = Served("x.io/v1", "Work", "works")
PLAN = Served("x.io/v1", "Plan", "plans")
SET = Served("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "leaderworkersets")


def played(*kinds):
    """A test that runs in virtual time on a server with these kinds."""

    def decorated(test):
        def run():
            async def inside():
                await test(Server(*kinds))

            virtually(inside())

        run.__name__, run.__doc__ = test.__name__, test.__doc__
        return run

    return decorated


def work(name="w", notes=None, **spec):
    return {
        "apiVersion": "x.io/v1",
        "kind": "Work",
        "metadata": {"name": name, "annotations": notes or {}},
        "spec": spec,
    }


def plan(name="p", **spec):
    metadata = {"name": name, "labels": {"of": "all"}}
    return {"apiVersion": "x.io/v1", "kind": "Plan", "metadata": metadata, "spec": spec}


def interface(template, name="works", **spec):
    gangs = {"podGroups": [{"name": "gang", **template}]}
    spec = {"targetGVK": {"group": "x.io", "kind": "Work"}, "gangScheduling": gangs, **spec}
    return {"apiVersion": "kai.scheduler/v1", "kind": "ResourceInterface", "metadata": {"name": name}, "spec": spec}


def gang_of(server, pod):
    metadata = server.read("pods", pod)["metadata"]
    return metadata["annotations"].get("pod-group-name", ""), metadata["labels"].get("kai.scheduler/subgroup-name", "")


def spec_of(server, pod):
    return server.read("podgroups", gang_of(server, pod)[0])["spec"]


def condition_of(server, name):
    (found,) = server.read("resourceinterfaces", name)["status"]["conditions"]
    return found


def reasons(server):
    return [(about, reason) for about, reason, _ in server.notes()]
