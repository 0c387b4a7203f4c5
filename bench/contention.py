"""Clusters in which somebody must give way: the peers' reclaim and consolidation tests, and some of muster's own.

As in `bench/workloads.py` every function gives a Scene, sizes are data and nothing is random. Unless said otherwise a
cluster is full of single-GPU jobs in the queue `fill` (quota 0, weight 0, no limit), job i on node i mod n, and gangs
of the queue `team` wait. Both are below the queue `all`, which has no end.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from bench.workloads import (
    GPU,
    KWOK_RULES,
    START,
    Scene,
    group,
    kwok_nodes,
    node,
    pods,
    scene_of,
    topology,
)
from muster.api.cluster import Pod
from muster.api.model import Condition, Metadata
from muster.api.podgroup import PodCounts, PodGroup, PodGroupStatus, SubGroupStatus
from muster.api.queue import UNLIMITED, Queue, QueueResource, QueueResources, QueueSpec
from muster.plan.outcome import Plan
from muster.snapshot.world import World

# Late enough that everybody has waited, and run, for days.
NOW = START + timedelta(days=30)
Waiting = Iterator[tuple[PodGroup, Iterable[Pod]]]


def ns(time: datetime) -> int:
    """Nanoseconds since 1970."""
    return round(time.timestamp()) * 10**9


NOW_NS = ns(NOW)


def queue(name: str, gpus: float, *, above: str = "", weight: float = 1, **more: Any) -> Queue:
    """A queue that counts GPUs only; `more` of its spec."""
    resources = QueueResources(gpu=QueueResource(quota=gpus, over_quota_weight=weight))
    return Queue(
        metadata=Metadata(name=name, creation_timestamp=START),
        spec=QueueSpec(parent_queue=above, resources=resources, **more),
    )


class Coming(NamedTuple):
    """Gangs that wait: how many, of how many pods with how many GPUs each, and where they must lie together."""

    gangs: int
    pods: int
    gpus: int
    level: str = ""


class Full(NamedTuple):
    """A full cluster: its nodes, who runs there, and the quotas. `spare` GPUs of every node were given back."""

    nodes: int
    victim_gpus: int = 1
    spare: int = 0
    racks: int = 0
    fill_quota: int = 0
    # None: everything.
    team_quota: int | None = None
    # Whether those who wait are in the queue of those who run.
    one_queue: bool = False


def contended(full: Full, coming: Coming) -> Scene:
    """A full cluster, and what comes to it."""
    gpus = full.nodes * 8
    cluster: list[Any] = [
        queue("all", UNLIMITED),
        queue("fill", full.fill_quota, above="all", weight=0),
        queue("team", gpus if full.team_quota is None else full.team_quota, above="all"),
        *([topology("rack")] if full.racks else []),
        *kwok_nodes(full.nodes, full.racks),
    ]

    def waiting() -> Waiting:
        queue_of_victims = "team" if full.one_queue else "fill"
        for index in range(full.nodes * (8 - full.spare) // full.victim_gpus):
            name = f"fill-{index:05}"
            on = [f"n{index % full.nodes:04}"]
            ask = {GPU: full.victim_gpus}
            yield (
                group(name, number=index, queue=queue_of_victims),
                pods(name, 1, ask, rules=KWOK_RULES, on=on, controlled=True),
            )
        for index in range(coming.gangs):
            name = f"team-{index:05}"
            found = group(name, coming.pods, number=10**6 + index, level=coming.level, queue="team")
            yield found, pods(name, coming.pods, {GPU: coming.gpus}, rules=KWOK_RULES)

    return scene_of(cluster, waiting())


def departments(nodes: int, *, queues: int = 20, above: int = 5) -> Scene:
    """The first half of the queues has twice its quota and all of the cluster; the other half waits for its own.

    KAI's ManyQueues (queue i in department i mod 5, equal quotas), but full.
    """
    gpus = nodes * 8
    cluster: list[Any] = [queue(f"dept-{index}", gpus / above) for index in range(above)]
    cluster += [queue(f"queue-{index:02}", gpus / queues, above=f"dept-{index % above}") for index in range(queues)]
    cluster += [node(f"n{index:04}", {}, {GPU: 8, "cpu": 64, "memory": "512Gi"}) for index in range(nodes)]
    half = queues // 2

    def waiting() -> Waiting:
        for index in range(gpus):
            name = f"runs-{index:05}"
            on = [f"n{index % nodes:04}"]
            yield group(name, number=index, queue=f"queue-{index % half:02}"), pods(name, 1, {GPU: 1}, on=on)
        for index in range(gpus // 2):
            name = f"waits-{index:05}"
            found = group(name, number=10**6 + index, queue=f"queue-{half + index % half:02}")
            yield found, pods(name, 1, {GPU: 1})

    return scene_of(cluster, waiting())


def priorities(nodes: int, *, queues: int = 4) -> Scene:
    """All GPUs have jobs of the priority train; half as many jobs wait in the same queues and are build-preemptible."""
    gpus = nodes * 8
    cluster: list[Any] = [queue(f"queue-{index}", gpus / queues) for index in range(queues)]
    cluster += [node(f"n{index:04}", {}, {GPU: 8, "cpu": 64, "memory": "512Gi"}) for index in range(nodes)]

    def waiting() -> Waiting:
        for index in range(gpus + gpus // 2):
            name, into = f"job-{index:05}", f"queue-{index % queues}"
            on = [f"n{index % nodes:04}"] if index < gpus else []
            priority = "train" if index < gpus else "build-preemptible"
            found = group(name, number=index, queue=into, priority_class_name=priority)
            yield found, pods(name, 1, {GPU: 1}, on=on)

    return scene_of(cluster, waiting())


# Three levels: 10 queues on top, 9 below each of them, 10 leaves below each of those; 1,000 in all.
_TOP, _MIDDLE, _LEAVES = 10, 9, 10


def thousand_queues(gpus: int) -> Iterator[Queue]:
    """Quotas for about half of it all, weights from 0 to 4, three priorities, and a limit on every seventh leaf."""
    leaves = _TOP * _MIDDLE * _LEAVES
    for top in range(_TOP):
        yield queue(f"t{top}", gpus / _TOP / 2)
        for middle in range(_MIDDLE):
            yield queue(f"t{top}m{middle}", gpus // (_TOP * _MIDDLE * 2), above=f"t{top}", weight=1 + middle % 3)
            for leaf in range(_LEAVES):
                number = (top * _MIDDLE + middle) * _LEAVES + leaf
                share = QueueResource(
                    quota=number % 2 * gpus // leaves,
                    limit=2 * gpus // leaves if number % 7 == 0 else UNLIMITED,
                    over_quota_weight=number % 5,
                )
                yield Queue(
                    metadata=Metadata(name=f"t{top}m{middle}l{leaf}", creation_timestamp=START),
                    spec=QueueSpec(
                        parent_queue=f"t{top}m{middle}",
                        priority=100 + number % 3,
                        resources=QueueResources(gpu=share),
                    ),
                )


def leaf_queues() -> list[str]:
    """The queues of `thousand_queues` that take gangs."""
    return [f"t{top}m{mid}l{leaf}" for leaf in range(_LEAVES) for mid in range(_MIDDLE) for top in range(_TOP)]


def fill_of_thousand(nodes: int) -> Scene:
    """KAI's fill (as many single-GPU jobs as there are GPUs, all waiting), spread over the 900 leaves."""
    names = leaf_queues()

    def waiting() -> Waiting:
        for index in range(nodes * 8):
            name = f"job-{index:05}"
            found = group(name, number=index, queue=names[index % len(names)])
            yield found, pods(name, 1, {GPU: 1}, rules=KWOK_RULES)

    cluster = [*(queue_without_limits(one) for one in thousand_queues(nodes * 8)), *kwok_nodes(nodes)]
    return scene_of(cluster, waiting())


def queue_without_limits(found: Queue) -> Queue:
    """The same queue, and nothing stops it."""
    resources = found.spec.resources
    assert resources.gpu is not None
    unlimited = msgspec.structs.replace(resources.gpu, limit=UNLIMITED, over_quota_weight=1)
    spec = msgspec.structs.replace(found.spec, resources=QueueResources(gpu=unlimited))
    return msgspec.structs.replace(found, spec=spec)


class Broken(NamedTuple):
    """So many gangs of `size`; every tenth lost a pod, half of those long ago (as the status says), half just now."""

    gangs: int
    size: int = 4
    every: int = 10

    def lost_pod(self, index: int) -> bool:
        """Whether a gang is broken."""
        return index % self.every == 0

    def lost_long_ago(self, index: int) -> bool:
        """Whether it has been broken for longer than it may."""
        return index % (2 * self.every) == 0


def stale(broken: Broken) -> Scene:
    """Running gangs, some of which are below their minimum and have no pods that wait."""
    nodes = broken.gangs * broken.size // 8
    cluster = [queue("all", UNLIMITED), *kwok_nodes(nodes)]

    def waiting() -> Waiting:
        for index in range(broken.gangs):
            name = f"gang-{index:05}"
            here = broken.size - broken.lost_pod(index)
            long_ago = broken.lost_long_ago(index)
            recorded = SubGroupStatus(
                satisfied=not long_ago,
                core=True,
                minimum=broken.size,
                pods=PodCounts(total=broken.size, placed=here if long_ago else broken.size),
                stale_since=NOW - timedelta(minutes=2) if long_ago else None,
            )
            found = msgspec.structs.replace(
                group(name, broken.size, number=index, queue="all"),
                status=PodGroupStatus(start_time=START + timedelta(seconds=index), sub_groups=[recorded]),
            )
            on = [f"n{(index * broken.size + place) // 8:04}" for place in range(here)]
            yield found, pods(name, here, {GPU: 1}, rules=KWOK_RULES, on=on)

    return scene_of(cluster, waiting())


def carry_out(world: World, plan: Plan) -> None:
    """The world after the plan's evictions and nominations were written: victims terminate, the rest waits."""
    gangs, nodes = plan.snapshot.gangs, plan.snapshot.nodes
    replace = msgspec.structs.replace
    for eviction in plan.evictions:
        gang = gangs[eviction.gang]
        pod = world.pods[gang.key[0], gang.placed[eviction.leaf].pods[eviction.pod]].pod
        world.apply(replace(pod, metadata=replace(pod.metadata, deletion_timestamp=NOW)))
    waits = Condition(type="Scheduled", status="False", reason="WaitingForRoom", last_transition_time=NOW)
    for placement in plan.placements:
        gang = gangs[placement.gang]
        for index, where in zip(placement.pods, placement.nodes, strict=True):
            pod = world.pods[gang.key[0], gang.waiting[placement.batch].pods[index]].pod
            world.apply(replace(pod, status=replace(pod.status, nominated_node_name=nodes[where])))
    for number in {placement.gang for placement in plan.placements}:
        found = world.groups[gangs[number].key]
        world.apply(replace(found, status=replace(found.status, conditions=[waits])))
