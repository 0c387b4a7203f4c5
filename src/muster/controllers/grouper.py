"""The grouper's loop: pods of ours without a gang get one, and PodGroups follow the workloads that they came from.

It looks at the world that the scheduler's watches keep, and at a pod when there is a reason: the pod is new or says
something else, or an object that its gang came from did. Everything is idempotent: what is there already is not written
again, and whoever was faster wins. What can't be written is tried again, ever more slowly.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from muster.api.interface import ResourceInterface
from muster.api.kinds import POD
from muster.api.podgroup import PodGroup, is_grouped
from muster.api.validation.context import Context
from muster.controllers.commits import Commits, Existing, document_of
from muster.controllers.complaints import PATIENCE_S, Complaints
from muster.controllers.dependents import Dependents, Place, Who
from muster.controllers.followed import Followed
from muster.controllers.interfaces import Interfaces
from muster.controllers.retiring import Retiring
from muster.errors import DEFECT, AlreadyExists, ApiError, Conflict, NotFound
from muster.grouping.grouper import Assignment, Grouper, Grouping, Problem
from muster.grouping.language.limits import DEFAULT, Limits
from muster.grouping.model import Object
from muster.grouping.owners import chain_of, identity_of
from muster.grouping.trouble import Trouble
from muster.kube.backoff import doubled_s
from muster.kube.client import Client
from muster.kube.events import EventRecorder, Regarding
from muster.snapshot.world import Key, PodFacts, State, World, key_of
from muster.telemetry import SILENT, Log, Metrics

_ENDED = (State.SUCCEEDED, State.FAILED)
# So long after the first event a pass begins; so long at most between two; so long until it may begin at all.
_WINDOW_S, _IDLE_S, _READY_S = 0.05, 30.0, 0.2
# Pods that are looked at in one go; a workload is not cut for that unless it is very large.
_BATCH, _LARGE_BATCH = 500, 2_000
# What could not be written is tried again after this, then after twice as long each time, and so on up to the last.
_FIRST_AGAIN_S, _LAST_AGAIN_S = 0.1, 30.0
# A workload that waits for something is looked at this often although nothing was seen to change.
_LOOK_AGAIN_S = 60.0


# Problems with the pods that they are about.
Troubled = list[tuple[Problem, list[Key]]]


class GrouperLoop:
    """Groups pods of a world until it is cancelled.

    `may_write` says whether this one leads, `ready` whether the world is whole. `events` tells people about pods that
    can't be grouped.
    """

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
        ready: Callable[[], bool] = lambda: True,
        log: Log = SILENT,
        metrics: Metrics | None = None,
        events: EventRecorder | None = None,
    ) -> None:
        self._client, self._clock, self._world = client, client.clock, world
        self._may_write, self._ready, self._log, self._metrics = may_write, ready, log, metrics
        self._awake = asyncio.Event()
        self._interfaces = Interfaces(
            client, self._look_at_all, limits=limits, prefer=prefer, may_write=may_write, log=log
        )
        self._dependents = Dependents()
        self._followed = Followed(
            client, self._pod, self._object_changed, log, is_needed=lambda kind: self._dependents.looks_at(*kind)
        )
        self._grouper = Grouper(
            self._interfaces.registry,
            self._followed,
            default_queue=default_queue,
            limits=limits,
            context=context,
            looked=self._followed.note,
        )
        self._complaints = Complaints(client, events, log)
        # Pods that are to be looked at, those that came first before the others; and gangs that are looked at whole.
        self._waiting: dict[Key, None] = dict.fromkeys(world.pods)
        self._whole: set[Key] = set()
        # When to look at a pod again, and how often writing about it has failed.
        self._later: dict[Key, float] = {}
        self._failures: dict[Key, int] = {}
        self._commits = Commits(client, world, self._settle, self._failed)
        # Nobody deletes a PodGroup while pods are put into it.
        self._turn = asyncio.Lock()
        self._retiring = Retiring(
            client, world, self._grouper, self._turn, log, may_write=self._may_group, under_way=self._commits.under_way
        )
        world.listener = self

    def interfaces(self) -> list[ResourceInterface]:
        """The ResourceInterfaces that are there."""
        return self._interfaces.found()

    # What changed

    def wake(self) -> None:
        """There may be something to do."""
        self._awake.set()

    def pod_changed(self, before: PodFacts | None, now: PodFacts | None) -> None:
        """A pod came, changed or went."""
        facts = now or before
        assert facts is not None
        key = key_of(facts.pod.metadata)
        own = self._commits.see(key, now) if now is not None else None
        if own or (own is None and before is not None and now is not None and _says(before) == _says(now)):
            return
        if now is None:
            self._leave(key, facts.gang or self._commits.gang_of(key))
        else:
            self._look(key)
        self._object_changed(Place("", POD.name, *key))

    def _leave(self, pod: Key, gang: Key | None) -> None:
        """A pod is gone, perhaps the last of its gang."""
        self._forget(pod)
        if gang is not None and gang not in self._world.members and not self._commits.under_way(gang):
            self._retiring.note(gang)
            self._dependents.forget(Who(True, *gang))
            self._whole.discard(gang)

    def group_changed(self, key: Key, *, there: bool) -> None:
        """A PodGroup came, which pods may have waited for, or went, and may have to be made again."""
        members = self._world.members.get(key, ())
        for pod in members:
            self._look(pod)
        if there and not members:
            self._retiring.note(key)

    def _object_changed(self, place: Place) -> None:
        """Gangs that came from this object are looked at whole."""
        for who in self._dependents.of(place):
            key = who.namespace, who.name
            if not who.is_gang:
                self._look(key)
                continue
            members = [*self._world.members.get(key, ()), *self._commits.under_way(key)]
            for pod in members:
                self._look(pod)
            if members:
                self._whole.add(key)

    def _look_at_all(self) -> None:
        self._grouper.registry = self._interfaces.registry
        self._waiting.update(dict.fromkeys(self._world.pods))
        self._awake.set()

    def _look(self, pod: Key) -> None:
        self._waiting[pod] = None
        self._awake.set()

    def _forget(self, pod: Key) -> None:
        self._waiting.pop(pod, None)
        self._settle(pod)
        self._commits.forget(pod)
        self._dependents.forget(Who(False, *pod))

    def _settle(self, pod: Key) -> None:
        """All is well with this pod."""
        self._later.pop(pod, None)
        self._failures.pop(pod, None)
        self._complaints.settle(pod)

    # Passes

    async def run(self) -> None:
        """Everything, until it is cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._followed.run())
            tasks.create_task(self._interfaces.run())
            tasks.create_task(self._passes())
            tasks.create_task(self._retiring.run())
            tasks.create_task(self._complaints.run())

    def _may_group(self) -> bool:
        return self._ready() and self._interfaces.is_listed and self._may_write()

    async def _passes(self) -> None:
        while True:
            await self._wait()
            if not self._may_group():
                await self._clock.sleep(_READY_S)
                self._awake.set()
                continue
            while batch := self._take():
                async with self._turn:
                    for found in self._grouped(batch):
                        await self._commits.write(found)
                # Others have something to do, too.
                await asyncio.sleep(0)

    async def _wait(self) -> None:
        """Until something changed and a little longer, or until it is time to look again."""
        now_s = self._clock.now_s()
        due_s = min(self._later.values(), default=float("inf")) - now_s
        with suppress(TimeoutError):
            # A timer may be a little early, and then it would be set again and again.
            async with asyncio.timeout(max(_WINDOW_S, min(due_s, _IDLE_S))):
                await self._awake.wait()
            await self._clock.sleep(_WINDOW_S)
        self._awake.clear()

    def _take(self) -> list[Key]:
        """The next pods to look at; none when there are none, or when somebody else leads."""
        now_s = self._clock.now_s()
        for pod in [pod for pod, due_s in self._later.items() if due_s <= now_s]:
            del self._later[pod]
            self._waiting[pod] = None
        batch: list[Key] = []
        last = ""
        while self._waiting and self._may_write():
            pod = next(iter(self._waiting))
            facts = self._world.pods.get(pod)
            if facts is None or not self._is_meant(facts):
                self._forget(pod)
                continue
            owner = facts.pod.metadata.owner_references[0].uid if facts.pod.metadata.owner_references else ""
            if len(batch) >= _LARGE_BATCH or (len(batch) >= _BATCH and (not owner or owner != last)):
                break
            del self._waiting[pod]
            batch.append(pod)
            last = owner
        return batch

    def _is_meant(self, facts: PodFacts) -> bool:
        """Whether it is for us to say where this pod belongs."""
        if not facts.ours or facts.state in _ENDED:
            return False
        group = self._world.groups.get(facts.gang) if facts.gang is not None else None
        return is_grouped(group) if group is not None else facts.state is not State.TERMINATING

    def _grouped(self, batch: Sequence[Key]) -> list[Grouping]:
        """The gangs of these pods. What nobody has thought of costs the pod that it comes from, and no other."""
        try:
            return [self._group(batch)]
        except Exception as error:
            if len(batch) > 1:
                self._log.error(f"pods can't be grouped together: this is a {DEFECT}", pods=len(batch), error=error)
                return [found for pod in batch for found in self._grouped([pod])]
            self._log.error(f"a pod can't be grouped: this is a {DEFECT}", pod="/".join(batch[0]), error=error)
            self._later[batch[0]] = self._clock.now_s() + _LOOK_AGAIN_S
            return []

    def _group(self, batch: Sequence[Key]) -> Grouping:
        """The gangs of these pods, and what is to be remembered and told about them."""
        world = self._world
        asked: dict[Key, set[Place]] = {}

        def documents(pods: Iterable[Key]) -> Iterator[Object]:
            for pod in pods:
                self._followed.asked = asked[pod] = set()
                yield document_of(world.pods[pod].pod, POD)

        self._grouper.classes = world.priority_classes.keys() or None
        found = self._grouper.group(documents(batch), Existing(world.groups))
        self._followed.asked = set()
        self._count()
        left = _troubled(found, batch)
        self._remember(found, left, asked)
        self._complain(found, left, batch)
        return found

    def _count(self) -> None:
        if self._metrics is not None:
            for (name, result), times in self._grouper.evaluations.items():
                self._metrics.ri_evaluations.labels(self._metrics.label("ri", name), result).inc(times)
        self._grouper.evaluations.clear()

    def _remember(self, found: Grouping, left: Troubled, asked: Mapping[Key, set[Place]]) -> None:
        """What every gang came from, and what pods without one are waiting for."""
        gangs: dict[Key, set[Place]] = {}
        for pod in found.pods:
            gangs.setdefault((pod.namespace, pod.pod_group), set()).update(asked[pod.namespace, pod.name])
            self._dependents.forget(Who(False, pod.namespace, pod.name))
        for gang, places in gangs.items():
            self._dependents.note(Who(True, *gang), places, instead=gang in self._whole)
            self._whole.discard(gang)
        for _, pods in left:
            places = {place for key in pods for place in asked[key]}
            for key in pods:
                self._dependents.note(Who(False, *key), places, instead=True)
        for key, _ in found.alone:
            self._dependents.note(Who(False, *key), asked[key], instead=True)

    def _complain(self, found: Grouping, left: Troubled, batch: Sequence[Key]) -> None:
        """Tells those who are left over, and looks at them again when it may only be a matter of time."""
        pods, groups = self._world.pods, self._world.groups
        placed = {(pod.namespace, pod.name) for pod in found.pods}
        # They name a PodGroup that is not there, and that is not theirs to be made.
        missing = {key for key in batch if key not in placed and _is_missing(pods[key].gang, groups)}
        for key in sorted(missing):
            self._complaints.not_found(pods[key])
            self._look_later(key)
        for problem, about in left:
            self._tell(problem, [key for key in about if key not in missing])
        for key, _ in found.alone:
            if key not in missing:
                self._settle(key)

    def _tell(self, problem: Problem, pods: Sequence[Key]) -> None:
        found = (self._world.pods[pod] for pod in pods)
        # One that has its gang, or is on its way out, needs nothing that may come.
        facts = [
            one
            for one in found
            if one.state is not State.TERMINATING and not (problem.retry and one.gang in self._world.groups)
        ]
        if facts:
            self._complaints.not_grouped(problem, facts, self._owner(problem, facts[0]))
        for pod in pods:
            self._look_later(pod, _LOOK_AGAIN_S if problem.retry else None)

    def _look_later(self, pod: Key, otherwise_s: float | None = None) -> None:
        """When it is time to tell what was kept back, or else after this time."""
        after_s = PATIENCE_S if self._complaints.is_kept_back(pod) else otherwise_s
        if after_s is not None:
            self._later[pod] = min(self._later.get(pod, float("inf")), self._clock.now_s() + after_s)

    def _owner(self, problem: Problem, facts: PodFacts) -> Regarding | None:
        """The workload that a problem is about, when it can be seen from its pod."""
        try:
            chain = chain_of(document_of(facts.pod, POD), self._followed)
        except Trouble:
            return None
        for link in chain[:-1]:
            who = identity_of(link.object)
            if (who.kind, who.name) == (problem.kind, problem.name):
                return Regarding(*who)
        return None

    def _failed(self, what: str, pods: Sequence[Assignment], error: ApiError) -> None:
        """Somebody was faster, or something is wrong: looked at again, ever later."""
        keys = [(pod.namespace, pod.name) for pod in pods if (pod.namespace, pod.name) in self._world.pods]
        now_s = self._clock.now_s()
        for key in keys:
            times = self._failures[key] = self._failures.get(key, 0) + 1
            self._later[key] = now_s + doubled_s(_FIRST_AGAIN_S, times, _LAST_AGAIN_S)
        if not keys or isinstance(error, AlreadyExists | Conflict | NotFound):
            return
        message = f"{what}: {error.message}"
        names = tuple(pod.name for pod in pods)
        problem = Problem("PodGroup", pods[0].namespace, pods[0].pod_group, "", "", message, "", True, names)
        self._complaints.not_grouped(problem, [self._world.pods[key] for key in keys], None)

    def _pod(self, key: Key) -> Object | None:
        facts = self._world.pods.get(key)
        return document_of(facts.pod, POD) if facts is not None else None


def _troubled(found: Grouping, batch: Iterable[Key]) -> Troubled:
    """The problems, each with its pods. An owner of the whole cluster has them in any namespace."""
    placed = {(pod.namespace, pod.name) for pod in found.pods}
    named: dict[str, list[Key]] = {}
    for key in batch:
        if key not in placed:
            named.setdefault(key[1], []).append(key)
    troubled: Troubled = []
    for problem in found.problems:
        keys = [key for name in problem.pods for key in named.get(name, ())]
        troubled.append((problem, [key for key in keys if key[0] == problem.namespace] or keys))
    return troubled


def _is_missing(gang: Key | None, groups: Mapping[Key, PodGroup]) -> bool:
    return gang is not None and gang not in groups


def _says(facts: PodFacts) -> tuple[Any, ...]:
    """What of a pod decides about its gang."""
    metadata = facts.pod.metadata
    who = metadata.uid, metadata.labels, metadata.annotations, metadata.owner_references
    return *who, facts.ours, facts.state in _ENDED
