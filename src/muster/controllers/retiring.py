"""PodGroups that nobody will want again: those of instances that went, while their workload stays.

A LeaderWorkerSet has a PodGroup for each of its replicas. When it is scaled down the workload is still there, so the
garbage collector has no reason to take the PodGroups of the others. One that the grouper made, that is told from its
siblings only by what its pods say, and that has had no pods for a while, is deleted. When pods come back it is made
anew.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence

from muster.api.cluster import POD_GROUP_ANNOTATION
from muster.api.kinds import POD, POD_GROUP
from muster.api.podgroup import PodGroup, is_grouped
from muster.errors import ApiError, Forbidden, NotFound
from muster.grouping.grouper import Grouper
from muster.grouping.owners import Absence, Wanted, identity_of
from muster.kube.client import Client
from muster.snapshot.world import Key, World
from muster.telemetry import SILENT, Log

# So long a PodGroup is without pods before it goes. Operators that restart an instance are done by then.
GRACE_S = 60.0
# So often it is looked whether somebody's time has come, while there is somebody.
_LOOK_S = 1.0


class Retiring:
    """PodGroups without pods, since when, and what becomes of them. `under_way` are the pods that were put into a gang
    and not seen there yet; whoever puts pods into gangs holds `turn`.
    """

    def __init__(
        self,
        client: Client,
        world: World,
        grouper: Grouper,
        turn: asyncio.Lock,
        log: Log = SILENT,
        *,
        may_write: Callable[[], bool] = lambda: True,
        under_way: Callable[[Key], Collection[Key]] = lambda _: (),
    ) -> None:
        self._client, self._world, self._grouper, self._turn, self._log = client, world, grouper, turn, log
        self._may_write, self._under_way = may_write, under_way
        self._until_s: dict[Key, float] = {}
        self._noted = asyncio.Event()

    def note(self, gang: Key) -> None:
        """This one has no pods now, as far as is known."""
        group = self._world.groups.get(gang)
        if group is not None and is_grouped(group):
            self._until_s[gang] = self._client.clock.now_s() + GRACE_S
            self._noted.set()

    async def run(self) -> None:
        """Deletes those whose time has come, until it is cancelled."""
        while True:
            await self._noted.wait()
            await self._client.clock.sleep(_LOOK_S)
            if self._may_write():
                await self._look()
            if not self._until_s:
                self._noted.clear()

    async def _look(self) -> None:
        """Once. The pods of a namespace are read one time for all of its gangs."""
        now_s = self._client.clock.now_s()
        over: dict[str, list[Key]] = {}
        for gang in [gang for gang, until_s in self._until_s.items() if until_s <= now_s]:
            del self._until_s[gang]
            if self._is_over(gang):
                over.setdefault(gang[0], []).append(gang)
        for namespace, gangs in over.items():
            await self._retire(namespace, gangs)

    def _is_over(self, gang: Key) -> bool:
        """Whether it is an instance that nobody needs. Who asks for more than is known now is asked again later."""
        group = self._world.groups.get(gang)
        if group is None or not is_grouped(group) or gang in self._world.members or self._under_way(gang):
            return False
        references = group.metadata.owner_references
        if not references or group.metadata.deletion_timestamp:
            return False
        reference = references[0]
        wanted = Wanted(reference.api_version, reference.kind, gang[0], reference.name, reference.uid)
        owner = self._grouper.lookup.get(wanted)
        if owner is Absence.NOT_SEEN:
            # It is gone too, and the garbage collector takes both; or nobody has looked for one of its kind before.
            self.note(gang)
            return False
        if isinstance(owner, Absence) or identity_of(owner).uid != reference.uid:
            return False
        return self._grouper.is_instance(owner)

    async def _retire(self, namespace: str, gangs: Sequence[Key]) -> None:
        """First the pods are read as they are now, whatever the watch has shown."""
        seen = {gang: self._world.groups[gang] for gang in gangs}
        try:
            pods = await self._client.list(POD, namespace)
        except ApiError as error:
            for gang in gangs:
                self._failed(gang, error)
            return
        used = {pod.metadata.annotations.get(POD_GROUP_ANNOTATION) for pod in pods.items}
        for gang, group in seen.items():
            if pods.unread or gang[1] in used:
                self.note(gang)
                continue
            async with self._turn:
                there = self._world.groups.get(gang)
                is_same = there is not None and there.metadata.resource_version == group.metadata.resource_version
                if is_same and self._may_write() and self._is_over(gang):
                    await self._delete(gang, group)
                else:
                    self.note(gang)

    async def _delete(self, gang: Key, group: PodGroup) -> None:
        metadata = group.metadata
        try:
            await self._client.delete(POD_GROUP, *gang, uid=metadata.uid, version=metadata.resource_version)
        except NotFound:
            return
        except ApiError as error:
            self._failed(gang, error)
            return
        self._log.info("a PodGroup of an instance that is gone was deleted", namespace=gang[0], gang=gang[1])

    def _failed(self, gang: Key, error: ApiError) -> None:
        if isinstance(error, Forbidden):
            # The others are as forbidden as this one: they stay, and nothing else depends on it.
            self._log.warning("a PodGroup of an instance that is gone can't be deleted", error=error.message)
        else:
            self._log.info("a PodGroup of an instance that is gone stays for now", gang=gang[1], error=error.message)
            self.note(gang)
