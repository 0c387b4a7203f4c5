"""What the grouper writes: PodGroups, and which one a pod is of. Whoever was faster wins."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from muster.api.cluster import POD_GROUP_ANNOTATION, SUBGROUP_LABEL
from muster.api.kinds import POD, POD_GROUP, Kind
from muster.api.podgroup import PodGroup
from muster.errors import ApiError, Call, Conflict
from muster.grouping.grouper import Assignment, Grouping, Made
from muster.grouping.model import Object
from muster.kube.backoff import doubled_s
from muster.kube.client import MERGE, Client
from muster.kube.resources import is_later
from muster.snapshot.world import Key, PodFacts, World

_WRITERS = 16
# A PodGroup that was made and is gone is made again after this, then after twice as long each time, and so on up to the
# last: its owner may be gone, too, and only we have not seen that yet.
_AGAIN_S, _LONGEST_AGAIN_S = 2.0, 60.0


class _Birth(NamedTuple):
    """When a PodGroup was made last, and how often in a row."""

    at_s: float
    times: int

    @property
    def again_s(self) -> float:
        """When it may be made again."""
        return self.at_s + doubled_s(_AGAIN_S, self.times - 1, _LONGEST_AGAIN_S)


class _Mark(NamedTuple):
    """What a pod is told to be: which pod, its gang, its subgroup."""

    uid: str
    pod_group: str
    sub_group: str


class _Sent(NamedTuple):
    """A mark that no sight of the pod has ended yet; the version that it made, once the server has said so."""

    mark: _Mark
    version: str = ""


class Commits:
    """Writes groupings. `settled` is called for each pod that is where it belongs, `failed` with a sentence, the pods
    and the error when something could not be written.
    """

    def __init__(
        self,
        client: Client,
        world: World,
        settled: Callable[[Key], None],
        failed: Callable[[str, Sequence[Assignment], ApiError], None],
    ) -> None:
        self._client, self._world, self._settled, self._failed = client, world, settled, failed
        # What was sent and not seen yet, and of which gangs.
        self._sent: dict[Key, _Sent] = {}
        self._of_gang: dict[Key, dict[Key, None]] = {}
        self._births: dict[Key, _Birth] = {}

    def see(self, pod: Key, facts: PodFacts) -> bool | None:
        """A sight of a pod: True when it shows what was written here, False when that was done and it shows something
        else; then it is over either way. None: nothing was written, or this is from before it.
        """
        sent = self._sent.get(pod)
        if sent is None:
            return None
        if sent.mark == _mark_of(facts):
            self.forget(pod)
            return True
        metadata = facts.pod.metadata
        if metadata.uid == sent.mark.uid and not _is_reached(sent.version, metadata.resource_version):
            return None
        self.forget(pod)
        return False

    def forget(self, pod: Key) -> None:
        """The pod is gone, or what was sent for it was seen."""
        sent = self._sent.pop(pod, None)
        if sent is not None:
            gang = pod[0], sent.mark.pod_group
            there = self._of_gang[gang]
            there.pop(pod)
            if not there:
                del self._of_gang[gang]

    def gang_of(self, pod: Key) -> Key | None:
        """The gang that a pod was told to be of, while that is not seen yet."""
        sent = self._sent.get(pod)
        return (pod[0], sent.mark.pod_group) if sent is not None else None

    def under_way(self, gang: Key) -> Collection[Key]:
        """Pods of which it was written that they are of this gang, and that was not seen yet."""
        return self._of_gang.get(gang, {}).keys()

    def _note(self, pod: Key, sent: _Sent) -> None:
        self.forget(pod)
        self._sent[pod] = sent
        self._of_gang.setdefault((pod[0], sent.mark.pod_group), {})[pod] = None

    async def write(self, found: Grouping) -> None:
        """First a PodGroup, so that nobody names one that is not there; then its pods that are not marked yet."""
        limit = asyncio.Semaphore(_WRITERS)
        members: dict[Key, list[Assignment]] = {}
        for pod in found.pods:
            members.setdefault((pod.namespace, pod.pod_group), []).append(pod)
        async with asyncio.TaskGroup() as tasks:
            for made in found.groups:
                gang = made.document["metadata"]["namespace"], made.document["metadata"]["name"]
                pods = members.get(gang, [])
                if made.changed or not all(map(self._is_marked, pods)):
                    tasks.create_task(self._commit(limit, made, pods))
                else:
                    self._settle(pods)

    def _settle(self, pods: Iterable[Assignment]) -> None:
        for pod in pods:
            self._settled((pod.namespace, pod.name))

    async def _commit(self, limit: asyncio.Semaphore, made: Made, pods: Sequence[Assignment]) -> None:
        """One gang."""
        try:
            if made.changed:
                async with limit:
                    await self._put(made)
        except ApiError as error:
            self._failed("the PodGroup can't be written", pods, error)
            return
        self._settle(filter(self._is_marked, pods))
        async with asyncio.TaskGroup() as tasks:
            for pod in pods:
                if not self._is_marked(pod):
                    tasks.create_task(self._mark(limit, pod))

    async def _put(self, made: Made) -> None:
        metadata = made.document["metadata"]
        key = metadata["namespace"], metadata["name"]
        group = self._world.groups.get(key)
        if group is None:
            before = self._birth(key)
            await self._client.create(POD_GROUP, key[0], made.document)
            self._births[key] = _Birth(self._client.clock.now_s(), before.times + 1 if before is not None else 1)
            return
        patch = _difference(document_of(group, POD_GROUP), made.document)
        # Only that on which it was derived: who changed it meanwhile is heard first.
        version = {"uid": group.metadata.uid, "resourceVersion": group.metadata.resource_version}
        patch["metadata"] = {**patch.get("metadata", {}), **version}
        await self._client.patch(POD_GROUP, *key, patch, content=MERGE)

    def _birth(self, gang: Key) -> _Birth | None:
        """When a PodGroup that is about to be made was made before. Raises Conflict when that was a moment ago."""
        now_s = self._client.clock.now_s()
        # Who lived longer than the longest wait is not known any more.
        self._births = {key: one for key, one in self._births.items() if now_s < one.at_s + 2 * _LONGEST_AGAIN_S}
        before = self._births.get(gang)
        if before is not None and now_s < before.again_s:
            call = Call("create", POD_GROUP.plural, *gang, write=True)
            raise Conflict(call, "it was made a moment ago, and is gone again")
        return before

    def _is_marked(self, pod: Assignment) -> bool:
        facts = self._world.pods.get((pod.namespace, pod.name))
        if facts is None:
            return True
        mark = _Mark(facts.pod.metadata.uid, pod.pod_group, pod.sub_group)
        sent = self._sent.get((pod.namespace, pod.name))
        return mark == (sent.mark if sent is not None else _mark_of(facts))

    async def _mark(self, limit: asyncio.Semaphore, pod: Assignment) -> None:
        key = pod.namespace, pod.name
        async with limit:
            facts = self._world.pods.get(key)
            if facts is None:
                return
            uid = facts.pod.metadata.uid
            mark = _Mark(uid, pod.pod_group, pod.sub_group)
            self._note(key, _Sent(mark))
            metadata = {
                "uid": uid,
                "annotations": {POD_GROUP_ANNOTATION: pod.pod_group},
                "labels": {SUBGROUP_LABEL: pod.sub_group or None},
            }
            try:
                written = await self._client.patch(POD, *key, {"metadata": metadata}, content=MERGE)
                if self._is_undone(key, _Sent(mark, written.resource_version)):
                    call = Call("patch", POD.plural, *key, write=True)
                    raise Conflict(call, "somebody else wrote something else at once")
            except ApiError as error:
                if self._sent.get(key) == _Sent(mark):
                    self.forget(key)
                self._failed("the pod can't be marked", [pod], error)
                return
        self._settled(key)

    def _is_undone(self, pod: Key, sent: _Sent) -> bool:
        """A mark is written. Whether the pod was seen later than that already, and otherwise."""
        facts = self._world.pods.get(pod)
        if facts is None or self._sent.get(pod) != _Sent(sent.mark):
            return False
        if _is_reached(sent.version, facts.pod.metadata.resource_version):
            return True
        self._note(pod, sent)
        return False


class Existing(Mapping[Key, Object]):
    """PodGroups as JSON, made when somebody asks for one."""

    def __init__(self, groups: Mapping[Key, PodGroup]) -> None:
        self._groups = groups

    def __getitem__(self, key: Key) -> Object:
        return document_of(self._groups[key], POD_GROUP)

    def __iter__(self) -> Iterator[Key]:
        return iter(self._groups)

    def __len__(self) -> int:
        return len(self._groups)


def document_of(found: Any, kind: Kind) -> dict[str, Any]:
    """An object as JSON, as far as it is watched."""
    document: dict[str, Any] = msgspec.to_builtins(found)
    return {"apiVersion": kind.api_version, "kind": kind.name, **document}


def _difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The merge patch that makes one of the other: what is gone is null."""
    patch: dict[str, Any] = {key: None for key in before if key not in after}
    for key, value in after.items():
        old = before.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            inner = _difference(old, value)
            if inner:
                patch[key] = inner
        elif old != value or key not in before:
            patch[key] = value
    return patch


def _is_reached(version: str, seen: str) -> bool:
    """Whether what was seen is this version, or a later one."""
    return bool(version) and (seen == version or is_later(seen, version))


def _mark_of(facts: PodFacts) -> _Mark:
    metadata = facts.pod.metadata
    given = metadata.annotations.get(POD_GROUP_ANNOTATION, ""), metadata.labels.get(SUBGROUP_LABEL, "")
    return _Mark(metadata.uid, *given)
