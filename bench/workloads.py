"""The workloads that schedulers publish numbers for, as objects in memory: sizes are data, nothing is random.

Every function gives a Scene: objects in the order in which a mirror would learn of them. The definitions are those of
the peers' own benchmarks; where something of theirs has no counterpart here, the docstring says so.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from muster.api.cluster import (
    POD_GROUP_ANNOTATION,
    SUBGROUP_LABEL,
    Affinity,
    Container,
    LabelRequirement,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    NodeSpec,
    NodeStatus,
    Pod,
    PodSpec,
    PodStatus,
    Resources,
    Taint,
    Toleration,
)
from muster.api.model import Metadata, OwnerReference
from muster.api.podgroup import PodGroup, PodGroupSpec, SubGroup, TopologyConstraint
from muster.api.queue import Queue, QueueResource, QueueResources, QueueSpec
from muster.api.topology import Level, Topology, TopologySpec

GPU = "nvidia.com/gpu"
START = datetime(2026, 1, 1, tzinfo=UTC)
Ask = Mapping[str, str | int]


class Scene(NamedTuple):
    """The objects of a workload, and how many gangs and pods of them wait to be placed."""

    objects: list[Any]
    gangs: int
    pods: int


class Rules(NamedTuple):
    """Where pods may go: the tolerations and the affinity that each of them carries."""

    tolerations: tuple[Toleration, ...] = ()
    affinity: Affinity | None = None


ANYWHERE = Rules()


def topology(*levels: str, name: str = "dc") -> Topology:
    """Levels by their node labels, widest first."""
    return Topology(
        metadata=Metadata(name=name), spec=TopologySpec(levels=[Level(node_label=f"t/{level}") for level in levels])
    )


def node(name: str, labels: Mapping[str, str], has: Ask, taints: Sequence[Taint] = ()) -> Node:
    """A node with what it has for pods."""
    return Node(
        metadata=Metadata(name=name, labels=dict(labels)),
        spec=NodeSpec(taints=list(taints)),
        status=NodeStatus(allocatable=dict(has)),
    )


def tree_of_nodes(has: Ask, **counts: int) -> Iterator[Node]:
    """Nodes that nest: `zone=4, block=8, rack=8, node=2` is 4 zones of 8 blocks of 8 racks of 2 nodes."""
    levels = list(counts)

    def below(depth: int, labels: dict[str, str], path: str) -> Iterator[Node]:
        for index in range(counts[levels[depth]]):
            name = f"{path}{levels[depth][0]}{index:03}"
            if depth == len(levels) - 1:
                yield node(name, labels, has)
            else:
                yield from below(depth + 1, {**labels, f"t/{levels[depth]}": name}, name)

    yield from below(0, {}, "")


def racks_of_nodes(count: int, has: Ask, *, zones: int = 4, racks: int = 16, nodes: int = 16) -> Iterator[Node]:
    """`count` nodes in racks of `nodes`, blocks of `racks`, and as many zones."""
    per_zone = -(-count // zones)
    for index in range(count):
        zone, place = divmod(index, per_zone)
        rack = place // nodes
        labels = {
            "t/zone": f"z{zone}",
            "t/block": f"z{zone}b{rack // racks:03}",
            "t/rack": f"z{zone}r{rack:04}",
        }
        yield node(f"n{index:06}", labels, has)


def group(name: str, minimum: int = 1, *, number: int = 0, level: str = "", wish: str = "", **more: Any) -> PodGroup:
    """A flat gang, held together at `level` if one is given, and at `wish` where possible; `more` of its spec."""
    held = TopologyConstraint(topology="dc", required_topology_level=level, preferred_topology_level=wish)
    return PodGroup(
        metadata=metadata_of(name, number),
        spec=PodGroupSpec(min_member=minimum, topology_constraint=held if level or wish else None, **more),
    )


def tree_group(
    name: str,
    subgroups: Sequence[SubGroup],
    *,
    number: int = 0,
    level: str = "",
    minimum: int | None = None,
    **more: Any,
) -> PodGroup:
    """A gang of SubGroups, held together as a whole at `level` if one is given; `more` of its spec."""
    held = at(level) if level else None
    return PodGroup(
        metadata=metadata_of(name, number),
        spec=PodGroupSpec(sub_groups=list(subgroups), min_sub_group=minimum, topology_constraint=held, **more),
    )


def at(level: str) -> TopologyConstraint:
    """All pods below lie in one domain of the level."""
    return TopologyConstraint(topology="dc", required_topology_level=level)


def metadata_of(name: str, number: int, **more: Any) -> Metadata:
    """What was made `number` seconds after the start."""
    return Metadata(
        name=name, namespace="bench", creation_timestamp=START + timedelta(seconds=number), uid=f"uid-{name}", **more
    )


def pods(
    gang: str,
    count: int,
    ask: Ask,
    *,
    rules: Rules = ANYWHERE,
    subgroup: str = "",
    on: Sequence[str] = (),
    controlled: bool = False,
) -> Iterator[Pod]:
    """Pods of a gang; each has its own structs, as decoded ones have. `on`: the nodes that they run on.

    `controlled` ones belong to a Job, which makes them anew when they go.
    """
    job = OwnerReference(api_version="batch/v1", kind="Job", name=gang, uid=f"uid-job-{gang}", controller=True)
    for index in range(count):
        yield Pod(
            metadata=metadata_of(
                f"{gang}-{subgroup}-{index}" if subgroup else f"{gang}-{index}",
                0,
                labels={SUBGROUP_LABEL: subgroup} if subgroup else {},
                annotations={POD_GROUP_ANNOTATION: gang},
                owner_references=[job] if controlled else [],
            ),
            spec=PodSpec(
                scheduler_name="kai-scheduler",
                node_name=on[index] if on else "",
                containers=[Container(name="main", resources=Resources(requests=dict(ask)))],
                tolerations=list(rules.tolerations),
                affinity=rules.affinity,
            ),
            status=PodStatus(phase="Running" if on else "Pending"),
        )


def running_on(pod: Pod, where: str) -> Pod:
    """The same pod after its bind."""
    spec = pod.spec
    return Pod(
        metadata=pod.metadata,
        spec=PodSpec(
            scheduler_name=spec.scheduler_name,
            node_name=where,
            containers=spec.containers,
            tolerations=spec.tolerations,
            affinity=spec.affinity,
        ),
        status=PodStatus(phase="Running"),
    )


def finished(pod: Pod) -> Pod:
    """The same pod after its work."""
    return Pod(metadata=pod.metadata, spec=pod.spec, status=PodStatus(phase="Succeeded"))


def scene_of(cluster: Iterable[Any], waiting: Iterable[tuple[PodGroup, Iterable[Pod]]]) -> Scene:
    """Nodes and the like, then gangs with their pods; what has no node yet is counted."""
    objects = list(cluster)
    gangs = total = 0
    for found, members in waiting:
        listed = list(members)
        objects += [found, *listed]
        total += sum(not pod.spec.node_name for pod in listed)
        gangs += any(not pod.spec.node_name for pod in listed)
    return Scene(objects, gangs, total)


# KAI's Go benchmarks: nodes of 8 GPUs, queues below departments.

_DEPARTMENTS = "abcdefgh"


def _queues(gpus: int, queues: int, departments: int) -> Iterator[Queue]:
    share = {"quota": gpus / departments, "over_quota_weight": 1}
    for index in range(departments):
        resources = QueueResources(gpu=QueueResource(**share))
        yield Queue(metadata=Metadata(name=f"dept-{_DEPARTMENTS[index]}"), spec=QueueSpec(resources=resources))
    share["quota"] = gpus / queues
    for index in range(queues):
        # Two departments: queues 0, 1 and 2, 3. More of them: round robin.
        above = index * departments // queues if departments == 2 else index % departments
        resources = QueueResources(gpu=QueueResource(**share))
        yield Queue(
            metadata=Metadata(name=f"queue-{index}"),
            spec=QueueSpec(parent_queue=f"dept-{_DEPARTMENTS[above]}", resources=resources),
        )


class Running:
    """Which of the jobs run already."""

    NONE, EVERY_SECOND, ALL = 0, 1, 2


def kai_go(nodes: int, jobs: int, *, size: int = 1, queues: int = 4, departments: int = 2, running: int = 0) -> Scene:
    """Jobs of `size` single-GPU tasks over the queues; running ones are on node i mod n."""
    cluster = [
        *_queues(nodes * 8, queues, departments),
        *(node(f"n{index:04}", {}, {GPU: 8, "cpu": 64, "memory": "512Gi"}) for index in range(nodes)),
    ]

    def waiting() -> Iterator[tuple[PodGroup, Iterable[Pod]]]:
        for index in range(jobs):
            runs = running == Running.ALL or (running == Running.EVERY_SECOND and index % 2 == 0)
            on = [f"n{index % nodes:04}"] * size if runs else []
            name = f"job-{index:05}"
            yield (
                group(name, size, number=index, queue=f"queue-{index % queues}"),
                pods(name, size, {GPU: 1}, on=on),
            )

    return scene_of(cluster, waiting())


# KAI's scale tests: kwok nodes with a taint, pods with a toleration and node affinity.

KWOK = {"cpu": 32, "memory": "256Gi", "pods": 110, GPU: 8}
_KWOK_TAINT = Taint(key="kwok.x-k8s.io/node", value="fake", effect="NoSchedule")
KWOK_RULES = Rules(
    (Toleration(key="kwok.x-k8s.io/node", operator="Exists", effect="NoSchedule"),),
    Affinity(
        node_affinity=NodeAffinity(
            required_during_scheduling_ignored_during_execution=NodeSelector(
                node_selector_terms=[
                    NodeSelectorTerm(match_expressions=[LabelRequirement(key="type", operator="In", values=["kwok"])])
                ]
            )
        )
    ),
)


def kwok_nodes(count: int, racks: int = 0) -> Iterator[Node]:
    """The scale tests' nodes; with `racks`, node i is in rack i mod racks."""
    for index in range(count):
        rack = {"t/rack": f"r{index % racks:02}"} if racks else {}
        yield node(f"n{index:04}", {"type": "kwok", **rack}, KWOK, [_KWOK_TAINT])


def kai_fill(nodes: int, *, running: bool = False, racks: int = 0) -> Scene:
    """As many single-GPU jobs as there are GPUs."""

    def waiting() -> Iterator[tuple[PodGroup, Iterable[Pod]]]:
        for index in range(nodes * 8):
            name = f"fill-{index:05}"
            on = [f"n{index % nodes:04}"] if running else []
            yield group(name, number=index), pods(name, 1, {GPU: 1}, rules=KWOK_RULES, on=on)

    cluster = [*([topology("rack")] if racks else []), *kwok_nodes(nodes, racks)]
    return scene_of(cluster, waiting())


def kai_gang(count: int, gpus: int, *, level: str = "") -> list[Any]:
    """One more gang for the scale tests' cluster."""
    return [group("big", count, number=10**6, level=level), *pods("big", count, {GPU: gpus}, rules=KWOK_RULES)]


def kai_topology(*, wish: str) -> Scene:
    """512 pods of 2 GPUs on 4 zones × 8 blocks × 8 racks × 2 nodes."""
    cluster = [topology("zone", "block", "rack"), *tree_of_nodes(KWOK, zone=4, block=8, rack=8, node=2)]
    return scene_of(cluster, [(group("big", 512, wish=wish), pods("big", 512, {GPU: 2}))])


def kai_holes(nodes: int, racks: int, free: int) -> Scene:
    """Full nodes but for `free` empty ones spread over the racks, and a gang of 10 × 8 GPUs in one rack."""
    cluster: list[Any] = [topology("rack"), *kwok_nodes(nodes, racks)]
    for index in range(free, nodes):
        cluster += pods(f"other-{index}", 1, {GPU: 8}, on=[f"n{index:04}"])
    return scene_of(cluster, [(group("big", 10, level="rack"), pods("big", 10, {GPU: 8}, rules=KWOK_RULES))])


# kube-scheduler's performance tests.


def kube(gangs: int, size: int, *, level: str = "", nodes: int = 5000) -> Scene:
    """Gangs of small pods on nodes of 4 cores, 100 nodes to a rack (of which the zone is one)."""
    has = {"cpu": 4, "memory": "32Gi", "pods": 110}
    cluster: list[Any] = [topology("zone", "rack")]
    for index in range(nodes):
        cluster.append(node(f"n{index:05}", {"t/zone": f"z{index // 100:02}", "t/rack": f"r{index // 100:02}"}, has))
    ask = {"cpu": "100m", "memory": "100Mi"}
    return scene_of(
        cluster,
        ((group(f"g{i:05}", size, number=i, level=level), pods(f"g{i:05}", size, ask)) for i in range(gangs)),
    )


def kueue_tas(queues: int = 30) -> Scene:
    """15,000 workloads on 640 nodes in 10 racks; a third each required, preferred and "balanced" (here: preferred)."""
    cluster = [topology("block", "rack"), *tree_of_nodes({"cpu": 96, "memory": "256Gi"}, block=1, rack=10, node=64)]
    classes = ((350, 2, "500m"), (100, 4, "1250m"), (50, 8, "2500m"))
    number = 0
    waiting = []
    for queue in range(queues):
        for count, size, cpu in classes:
            for index in range(count):
                number += 1
                name = f"q{queue:02}-{size}-{index:03}"
                level, wish = ("rack", "") if index % 3 == 0 else ("", "rack")
                waiting.append(
                    (group(name, size, number=number, level=level, wish=wish), pods(name, size, {"cpu": cpu}))
                )
    return scene_of(cluster, waiting)


def volcano(missing: int = 0, racks: int = 100, size: int = 10) -> Scene:
    """Volcano #4899: as many subgroups as racks, each fills a whole rack, one pod per node; `missing` nodes gone."""
    nodes = list(tree_of_nodes({"cpu": 64, "memory": "512Gi", GPU: 8}, rack=racks, node=size))
    leaves = [SubGroup(name=f"s{index:03}", min_member=size, topology_constraint=at("rack")) for index in range(racks)]
    members = [pod for leaf in leaves for pod in pods("big", size, {GPU: 8}, subgroup=leaf.name)]
    cluster = [topology("rack"), *nodes[: len(nodes) - missing]]
    return scene_of(cluster, [(tree_group("big", leaves, minimum=racks), members)])


# muster's own: large cycles of mixed gangs.

_LARGE_NODE = {"cpu": 128, "memory": "1Ti", "pods": 110, GPU: 8}
# Gang sizes with how many of 50 gangs have them: 1,000 pods.
LARGE_SIZES = {8: 17, 16: 20, 32: 9, 64: 4}
SMALL_SIZES = {4: 30, 8: 20}
# How many GPUs a pod of each of 12 shapes has; most pods of a cluster with ten pods per node have one or none.
_SHAPE_GPUS = (0, 1, 0, 1, 0, 2, 0, 1, 0, 4, 0, 8)
_CONSTRAINTS = (("rack", ""), ("", "rack"), ("", ""))


class Mix(NamedTuple):
    """A cluster and a queue of flat gangs: `shapes` different pods, gang sizes with their counts out of 50."""

    nodes: int
    gangs: int
    shapes: int = 12
    sizes: Mapping[int, int] = LARGE_SIZES
    most_gpus: int = 8


def shape(number: int, size: int, mix: Mix) -> Ask:
    """What pods of a shape ask for. A gang that no rack would hold with it has the next shape that is small enough."""
    while _SHAPE_GPUS[number % 12] * size > 64 or _SHAPE_GPUS[number % 12] > mix.most_gpus:
        number = (number + 1) % mix.shapes
    gpus = _SHAPE_GPUS[number % 12]
    ask: dict[str, str | int] = {"cpu": f"{2000 + 250 * number % 3000 + number}m", "memory": f"{4 + number % 5}Gi"}
    return {**ask, GPU: gpus} if gpus else ask


def mixed_gangs(mix: Mix) -> Iterator[tuple[PodGroup, list[Pod]]]:
    """Gangs of all sizes, shapes and constraints, evenly mixed, oldest first."""
    sizes = [size for size, count in mix.sizes.items() for _ in range(count)]
    for index in range(mix.gangs):
        # 50 and 31 have no common divisor: every size comes at its rate, in no order.
        size = sizes[index * 31 % 50]
        level, wish = _CONSTRAINTS[index % 3]
        name = f"g{index:06}"
        ask = shape(index * 7 // 3 % mix.shapes, size, mix)
        yield group(name, size, number=index, level=level, wish=wish), list(pods(name, size, ask))


def mixed(mix: Mix) -> Scene:
    """The whole cycle from nothing."""
    cluster = [topology("zone", "block", "rack"), *racks_of_nodes(mix.nodes, _LARGE_NODE)]
    return scene_of(cluster, mixed_gangs(mix))


def hierarchical(nodes: int, gangs: int) -> Scene:
    """Prefill and decode: 3 of 4 rack-required replicas of 8 × 8 GPUs, 2 of 4 × 4 GPUs, one zone for the whole."""
    cluster = [topology("zone", "block", "rack"), *racks_of_nodes(nodes, _LARGE_NODE)]
    waiting = []
    for index in range(gangs):
        name = f"tree-{index:04}"
        leaves = [
            *(
                SubGroup(name=f"prefill-{i}", parent="prefill", min_member=8, topology_constraint=at("rack"))
                for i in range(4)
            ),
            *(
                SubGroup(name=f"decode-{i}", parent="decode", min_member=4, topology_constraint=at("rack"))
                for i in range(2)
            ),
        ]
        branches = [SubGroup(name="prefill", min_sub_group=3), SubGroup(name="decode")]
        members = [
            pod
            for leaf in leaves
            for pod in pods(name, leaf.min_member or 0, {GPU: 8 if leaf.parent == "prefill" else 4}, subgroup=leaf.name)
        ]
        waiting.append((tree_group(name, [*branches, *leaves], level="zone"), members))
    return scene_of(cluster, waiting)
