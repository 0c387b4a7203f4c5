"""The grouper's loop: pods of ours without a gang get one, and PodGroups follow the workloads that they came from.

It looks at the world that the scheduler's watches keep. Everything is idempotent: what is there already is not written
again, and whoever was faster wins.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing
from typing import Any

import msgspec

from muster.api.cluster import POD_GROUP_ANNOTATION, SUBGROUP_LABEL, Pod
from muster.api.interface import ResourceInterface
from muster.api.kinds import CORE_KINDS, POD_GROUP, RESOURCE_INTERFACE, Kind
from muster.api.podgroup import GROUPER_ANNOTATION
from muster.api.validation.context import Context
from muster.controllers.followed import Followed
from muster.errors import AlreadyExists, ApiError, Conflict, NotFound
from muster.grouping.grouper import Assignment, Grouper, Grouping, Made, Problem
from muster.grouping.language.limits import DEFAULT, Limits
from muster.grouping.loading import registry_of
from muster.grouping.model import Object
from muster.grouping.registry import Registry
from muster.kube.client import MERGE, Client
from muster.kube.watch import Added, Deleted, Listed, Modified, watch
from muster.snapshot.world import Key, PodFacts, State, World

_POD = next(kind for kind in CORE_KINDS if kind.struct is Pod)
_ENDED = (State.SUCCEEDED, State.FAILED)
# So long after the first event a pass begins; so long at most between two.
_WINDOW_S, _IDLE_S = 0.05, 30.0
_WRITERS = 16

Notice = Callable[[str], None]


class GrouperLoop:
    """Groups pods of a world until it is cancelled. `may_write` says whether this one leads."""

    def __init__(
        self,
        client: Client,
        world: World,
        *,
        default_queue: str = "default-queue",
        limits: Limits = DEFAULT,
        prefer: Sequence[str] = ("user",),
        context: Context | None = None,
        may_write: Callable[[], bool] = lambda: True,
        notice: Notice = lambda _: None,
    ) -> None:
        self._client, self._world, self._may_write, self._notice = client, world, may_write, notice
        self._limits, self._prefer = limits, tuple(prefer)
        self._awake = asyncio.Event()
        self._interfaces: dict[str, ResourceInterface] = {}
        self._listed = False
        # Whether gangs that were made before may be others now: a workload or an interface changed.
        self._stale = True
        self._followed = Followed(client, self._pod, self._renew)
        self._grouper = Grouper(
            self._registry(), self._followed, default_queue=default_queue, limits=limits, context=context
        )
        self._told: dict[tuple[str, str, str], str] = {}

    def wake(self) -> None:
        """Something changed in the world."""
        self._awake.set()

    def _renew(self) -> None:
        self._stale = True
        self._awake.set()

    async def run(self) -> None:
        """Everything, until it is cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._followed.run())
            tasks.create_task(self._watch_interfaces())
            tasks.create_task(self._passes())

    async def _watch_interfaces(self) -> None:
        async with aclosing(watch(self._client, RESOURCE_INTERFACE)) as changes:
            async for change in changes:
                match change:
                    case Listed(items=items):
                        self._interfaces = {one.metadata.name: one for one in items}
                        self._listed = True
                    case Added(object=found) | Modified(object=found):
                        self._interfaces[found.metadata.name] = found
                    case Deleted(object=found):
                        self._interfaces.pop(found.metadata.name, None)
                    case _:
                        continue
                self._grouper.registry = self._registry()
                self._renew()

    def _registry(self) -> Registry:
        return registry_of(self._interfaces.values(), limits=self._limits, prefer=self._prefer)

    async def _passes(self) -> None:
        while True:
            try:
                async with asyncio.timeout(_IDLE_S):
                    await self._awake.wait()
                await self._client.clock.sleep(_WINDOW_S)
            except TimeoutError:
                pass
            self._awake.clear()
            if self._listed and self._may_write():
                await self._pass()

    async def _pass(self) -> None:
        """One look at everybody who has no gang; when workloads changed, also at those of gangs made here."""
        world = self._world
        stale, self._stale = self._stale, False
        pods = [_document(facts.pod, _POD) for facts in world.pods.values() if self._is_meant(facts, stale)]
        if not pods:
            return
        existing = {key: _document(group, POD_GROUP) for key, group in world.groups.items()}
        self._grouper.classes = world.priority_classes.keys() or None
        found = self._grouper.group(pods, existing)
        self._tell(found.problems)
        await self._write(found, existing)

    def _is_meant(self, facts: PodFacts, stale: bool) -> bool:
        if not facts.ours or facts.state in _ENDED:
            return False
        if facts.gang is None or not stale:
            return facts.gang is None
        group = self._world.groups.get(facts.gang)
        return group is not None and _is_ours(group)

    async def _write(self, found: Grouping, existing: dict[Key, Any]) -> None:
        """First the PodGroups, so that nobody names one that is not there; then the pods that are not marked yet."""
        limit = asyncio.Semaphore(_WRITERS)

        async def guarded(what: str, write: Any) -> None:
            async with limit:
                try:
                    await write
                except (AlreadyExists, Conflict, NotFound):
                    # Somebody was faster, or it is gone: the next pass sees which.
                    self._awake.set()
                except ApiError as error:
                    self._notice(f"{what}: {error.message}")

        async with asyncio.TaskGroup() as tasks:
            for made in found.groups:
                if made.changed:
                    name = made.document["metadata"]["name"]
                    tasks.create_task(guarded(f"writing PodGroup {name}", self._put(made, existing)))
        async with asyncio.TaskGroup() as tasks:
            for pod in found.pods:
                if not self._is_marked(pod):
                    tasks.create_task(guarded(f"marking pod {pod.name}", self._mark(pod)))

    async def _put(self, made: Made, existing: dict[Key, Any]) -> None:
        metadata = made.document["metadata"]
        key = metadata["namespace"], metadata["name"]
        before = existing.get(key)
        if before is None:
            await self._client.create(POD_GROUP, key[0], made.document)
            return
        gone = {field: None for field in before.get("spec", {}) if field not in made.document["spec"]}
        head = {field: metadata[field] for field in ("annotations", "labels", "ownerReferences") if field in metadata}
        body = {"metadata": {**head, "uid": before["metadata"]["uid"]}, "spec": {**made.document["spec"], **gone}}
        await self._client.patch(POD_GROUP, *key, body, content=MERGE)

    def _is_marked(self, pod: Assignment) -> bool:
        metadata = self._world.pods[pod.namespace, pod.name].pod.metadata
        given = metadata.annotations.get(POD_GROUP_ANNOTATION, ""), metadata.labels.get(SUBGROUP_LABEL, "")
        return given == (pod.pod_group, pod.sub_group)

    async def _mark(self, pod: Assignment) -> None:
        uid = self._world.pods[pod.namespace, pod.name].pod.metadata.uid
        metadata = {
            "uid": uid,
            "annotations": {POD_GROUP_ANNOTATION: pod.pod_group},
            "labels": {SUBGROUP_LABEL: pod.sub_group or None},
        }
        await self._client.patch(_POD, pod.namespace, pod.name, {"metadata": metadata}, content=MERGE)

    def _tell(self, problems: Iterable[Problem]) -> None:
        """Each problem once, until it is another one."""
        now = {(one.kind, one.namespace, one.name): one.message for one in problems}
        for key, message in now.items():
            if self._told.get(key) != message:
                self._notice(f"{key[0]} {key[1]}/{key[2]}: not grouped: {message}")
        self._told = now

    def _pod(self, key: Key) -> Object | None:
        facts = self._world.pods.get(key)
        return _document(facts.pod, _POD) if facts is not None else None


def _document(found: Any, kind: Kind) -> dict[str, Any]:
    """An object as JSON, as far as it is watched."""
    document: dict[str, Any] = msgspec.to_builtins(found)
    return {"apiVersion": kind.api_version, "kind": kind.name, **document}


def _is_ours(group: Any) -> bool:
    return GROUPER_ANNOTATION in group.metadata.annotations
