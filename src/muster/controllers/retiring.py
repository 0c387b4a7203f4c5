"""PodGroups that nobody will want again: those of instances that went, while their workload stays.

A LeaderWorkerSet has a PodGroup for each of its replicas. When it is scaled down the workload is still there, so the
garbage collector has no reason to take the PodGroups of the others. One that the grouper made, that is told from its
siblings only by what its pods say, and that has had no pods for a while, is deleted. When pods come back it is made
anew.
"""

from muster.api.cluster import POD_GROUP_ANNOTATION, Pod
from muster.api.kinds import CORE_KINDS, POD_GROUP
from muster.api.podgroup import GROUPER_ANNOTATION, PodGroup
from muster.errors import ApiError, Forbidden, NotFound
from muster.grouping.grouper import Grouper
from muster.grouping.owners import Absence, Wanted, identity_of
from muster.kube.client import Client
from muster.snapshot.world import Key, World
from muster.telemetry import SILENT, Log

_POD = next(kind for kind in CORE_KINDS if kind.struct is Pod)
# So long a PodGroup is without pods before it goes. Operators that restart an instance are done by then.
GRACE_S = 60.0


class Retiring:
    """PodGroups without pods, since when, and what becomes of them."""

    def __init__(self, client: Client, world: World, grouper: Grouper, log: Log = SILENT) -> None:
        self._client, self._world, self._grouper, self._log = client, world, grouper, log
        self._until_s: dict[Key, float] = {}

    def note(self, gang: Key) -> None:
        """This one has no pods now, as far as is known."""
        group = self._world.groups.get(gang)
        if group is not None and _is_ours(group):
            self._until_s[gang] = self._client.clock.now_s() + GRACE_S

    def due_s(self) -> float | None:
        """When somebody is to be looked at next."""
        return min(self._until_s.values(), default=None)

    async def look(self) -> None:
        """Deletes those whose time has come."""
        now_s = self._client.clock.now_s()
        for gang in [gang for gang, until_s in self._until_s.items() if until_s <= now_s]:
            del self._until_s[gang]
            group = self._world.groups.get(gang)
            if group is not None and self._is_over(gang, group):
                await self._delete(gang, group)

    def _is_over(self, gang: Key, group: PodGroup) -> bool:
        """Whether it is an instance that nobody needs. Who asks for more than is known now is asked again later."""
        references = group.metadata.owner_references
        if gang in self._world.members or not _is_ours(group) or not references or group.metadata.deletion_timestamp:
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

    async def _delete(self, gang: Key, group: PodGroup) -> None:
        """First the pods are read as they are now, whatever the watch has shown."""
        metadata = group.metadata
        try:
            pods = await self._client.list(_POD, gang[0])
            if pods.unread or any(pod.metadata.annotations.get(POD_GROUP_ANNOTATION) == gang[1] for pod in pods.items):
                self.note(gang)
                return
            version = metadata.resource_version
            await self._client.delete(POD_GROUP, *gang, uid=metadata.uid, version=version)
        except NotFound:
            return
        except Forbidden as error:
            # The others are as forbidden as this one: they stay, and nothing else depends on it.
            self._log.warning("a PodGroup of an instance that is gone can't be deleted", error=error.message)
            return
        except ApiError as error:
            self._log.info("a PodGroup of an instance that is gone stays for now", gang=gang[1], error=error.message)
            self.note(gang)
            return
        self._log.info("a PodGroup of an instance that is gone was deleted", namespace=gang[0], gang=gang[1])


def _is_ours(group: PodGroup) -> bool:
    return GROUPER_ANNOTATION in group.metadata.annotations
