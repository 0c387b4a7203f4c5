"""Compares the mirror with the cluster now and then: whatever the reason, no pod may be known wrongly for long.

All pods are listed, as little of each as tells one state from another. What differs gets some seconds to catch up: a
watch is always a little behind. What then still differs is read again, counted, and put right: a few one by one, many
with one list.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from muster.api.cluster import Pod
from muster.api.kinds import POD
from muster.api.model import Metadata, Model
from muster.controllers.scheduler import Scheduler
from muster.errors import ApiError, BadObject, NotFound
from muster.kube.client import Client
from muster.kube.resources import Resource, Unread, is_later, read_or_tell
from muster.snapshot.world import Key, key_of
from muster.telemetry import SILENT, Log, Metrics

EVERY_S = 60.0
# How long what differs may take to catch up, and how often it is looked at meanwhile.
PATIENCE_S, LOOK_S = 5.0, 0.2
# So many are read one by one. When there are more, all are listed.
MOST_READ = 200
# So many are compared before others have their turn.
STEP = 2_000


class _Place(Model, frozen=True, kw_only=True):
    node_name: str = ""


class _Brief(Model, frozen=True, kw_only=True):
    """Of a pod who it is, in which version, and where."""

    metadata: Metadata = Metadata()
    spec: _Place = _Place()


_BRIEFLY = Resource("v1", "Pod", "pods", struct=_Brief)
_UNDECODED = Resource("v1", "Pod", "pods", struct=msgspec.Raw)


class State(NamedTuple):
    """What tells one state of a pod from another."""

    uid: str
    version: str
    node: str

    @classmethod
    def of(cls, pod: Any) -> "State":
        """Of a pod, however much of it was read."""
        return cls(pod.metadata.uid, pod.metadata.resource_version, pod.spec.node_name)


def differences(
    mirror: Mapping[Key, State], listed: Mapping[Key, State], version: str, flying: Collection[Key] = ()
) -> Iterator[tuple[Key, str]]:
    """The pods that the mirror knows otherwise than a list of this version, with what is wrong in a word.

    What the mirror knows later than the list is no difference. `flying` are pods that writes are on their way for: the
    mirror shows them as they will be.
    """
    for key, there in listed.items():
        here = mirror.get(key)
        if here is None:
            yield key, "missing"
        elif is_later(there.version, here.version):
            yield key, "old"
        elif here.version == there.version and key not in flying and here != there:
            yield key, "other"
    for key, here in mirror.items():
        if key not in listed and not is_later(here.version, version):
            yield key, "gone"


class Comparer:
    """Compares until it is cancelled, while `may_act`. `woken` is called when something was put right, `compared` when
    nothing is known wrongly that a list of this version has.
    """

    def __init__(
        self,
        client: Client,
        scheduler: Scheduler,
        *,
        may_act: Callable[[], bool] = lambda: True,
        woken: Callable[[], None] = lambda: None,
        compared: Callable[[str], None] = lambda _: None,
        log: Log = SILENT,
        metrics: Metrics | None = None,
        every_s: float = EVERY_S,
    ) -> None:
        self._client, self._scheduler, self._clock = client, scheduler, client.clock
        self._may_act, self._woken, self._compared, self._every_s = may_act, woken, compared, every_s
        self._log, self._metrics = log, metrics

    async def run(self) -> None:
        """For ever."""
        while True:
            await self._clock.sleep(self._every_s)
            if not self._may_act():
                continue
            try:
                await self.compare()
            except (ApiError, BadObject) as error:
                self._log.warning("the mirror could not be compared with the cluster", error=error.message)

    async def compare(self) -> int:
        """Once: how many pods were known wrongly; none is any more. Raises ApiError."""
        listing = await self._client.list(_BRIEFLY)
        listed: dict[Key, State] = {}
        for start in range(0, len(listing.items), STEP):
            listed.update((key_of(one.metadata), State.of(one)) for one in listing.items[start : start + STEP])
            await self._clock.sleep(0)
        # Whose state can't be told is held anyway.
        unread = {key_of(one.metadata) for one in listing.unread}
        suspects = await self._suspects(listed, unread, listing.resource_version)
        until_s = self._clock.now_s() + PATIENCE_S
        while suspects and self._clock.now_s() < until_s:
            await self._clock.sleep(LOOK_S)
            suspects = self._differing(suspects, listed, listing.resource_version)
        wrong: set[Key] = set()
        try:
            await self._put_right(suspects, wrong)
        finally:
            self._tell(wrong)
        self._compared(listing.resource_version)
        return len(wrong)

    def _tell(self, wrong: Collection[Key]) -> None:
        if not wrong:
            return
        named = ["/".join(key) for key in list(wrong)[:5]]
        self._log.warning("the mirror was wrong about pods and was put right", pods=len(wrong), such_as=named)
        if self._metrics is not None:
            self._metrics.cache_mismatch.inc(len(wrong))
        self._woken()

    async def _suspects(self, listed: Mapping[Key, State], unread: Collection[Key], version: str) -> Mapping[Key, str]:
        """Who differs, of all. There may be very many: others have their turn in between."""
        found: dict[Key, str] = {}
        keys = [*listed, *(key for key in self._scheduler.world.pods if key not in listed and key not in unread)]
        for start in range(0, len(keys), STEP):
            found.update(self._differing(keys[start : start + STEP], listed, version))
            await self._clock.sleep(0)
        return found

    def _differing(self, keys: Iterable[Key], listed: Mapping[Key, State], version: str) -> Mapping[Key, str]:
        """Who of these differs now."""
        mirror: dict[Key, State] = {}
        asked: dict[Key, State] = {}
        pods = self._scheduler.world.pods
        for key in keys:
            if key in pods:
                mirror[key] = State.of(pods[key].pod)
            if key in listed:
                asked[key] = listed[key]
        return dict(differences(mirror, asked, version, self._scheduler.flights.keys()))

    async def _put_right(self, suspects: Mapping[Key, str], wrong: set[Key]) -> None:
        """Reads these as they are now, all of them. Those that the mirror was wrong about become `wrong`.

        They are put right at once: a plan in between would count both those that are gone and those that came for them.
        """
        if len(suspects) > MOST_READ:
            await self._list(suspects, wrong)
            return
        read: dict[Key, Pod | Unread | None] = {}
        absent: dict[Key, str] = {}
        for key in suspects:
            uid = self._uid(key)
            try:
                read[key] = read_or_tell(POD, await self._client.get(_UNDECODED, *key))
            except NotFound:
                read[key], absent[key] = None, uid
        # Whoever has that name by now was made later.
        for key, uid in absent.items():
            if self._uid(key) != uid:
                del read[key]
        wrong.update(key for key, found in read.items() if self._correct(key, suspects[key], found))

    def _uid(self, key: Key) -> str:
        facts = self._scheduler.world.pods.get(key)
        return facts.pod.metadata.uid if facts is not None else ""

    async def _list(self, suspects: Mapping[Key, str], wrong: set[Key]) -> None:
        """The same with one list of all pods."""
        listing = await self._client.list(POD)
        listed = {key_of(one.metadata): one for one in (*listing.items, *listing.unread)}
        for key, what in suspects.items():
            facts = self._scheduler.world.pods.get(key)
            if key not in listed and facts and is_later(facts.pod.metadata.resource_version, listing.resource_version):
                continue
            if self._correct(key, what, listed.get(key)):
                wrong.add(key)

    def _correct(self, key: Key, what: str, found: Pod | Unread | None) -> bool:
        """One pod as it was read; None: there is none. Whether the mirror was wrong about it."""
        scheduler = self._scheduler
        facts = scheduler.world.pods.get(key)
        if facts is None and what != "missing":
            # It was seen to go meanwhile, which is later than what was read.
            return False
        if found is None:
            if facts is not None:
                scheduler.see(facts.pod, deleted=True)
            return facts is not None
        here = {key: State.of(facts.pod)} if facts is not None else {}
        metadata = found.metadata
        # Of one that can't be read nothing but its metadata is known here.
        node = facts.pod.spec.node_name if facts is not None else ""
        there = State(metadata.uid, metadata.resource_version, node) if isinstance(found, Unread) else State.of(found)
        if not dict(differences(here, {key: there}, metadata.resource_version, scheduler.flights.keys())):
            return False
        if isinstance(found, Unread):
            said = ": ".join(filter(None, (found.why.path, found.why.message)))
            scheduler.unread(Pod, metadata, said, raw=found.raw)
        else:
            scheduler.see(found)
        return True
