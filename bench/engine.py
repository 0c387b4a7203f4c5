"""What a cycle costs: the workloads of the peers and muster's own, from arrays to a plan that has been checked."""

import functools
import resource
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from bench import workloads
from bench.measure import MIB, Case, Row, Run, measure
from bench.workloads import Mix, Running, Scene
from muster.api.cluster import Node
from muster.api.podgroup import SubGroup
from muster.plan.cycle import Memory, schedule
from muster.plan.outcome import Plan, Verdict
from muster.snapshot.arrays import Snapshot
from muster.snapshot.build import Builder
from muster.snapshot.world import World

PEERS = "The peers' workloads, arrays to plan"
LARGE = "Large cycles"
GROWTH = "Growth: per gang"
LARGEST = Mix(nodes=10_000, gangs=5_000)
MOST_MEMORY = 2**30


def world_of(scene: Scene) -> World:
    """A mirror that has seen the scene."""
    world = World()
    for found in scene.objects:
        world.apply(found)
    return world


def counted(plan: Plan) -> str:
    """How many gangs came to what, and how many pods are sent."""
    verdicts = Counter(outcome.verdict for outcome in plan.outcomes)
    words = [f"{count:,} {verdict.value}" for verdict, count in sorted(verdicts.items(), key=lambda one: one[0].value)]
    return f"{', '.join(words)}; {sum(len(placement.pods) for placement in plan.placements):,} pods sent"


class Fresh:
    """Snapshots of one world in which nothing has been looked at before."""

    def __init__(self, scene: Scene, now_ns: int = 0) -> None:
        self.world = world_of(scene)
        self._now_ns = now_ns
        self.builder = Builder(self.world)
        self._some_node = next(found for found in scene.objects if isinstance(found, Node))

    def forget(self) -> None:
        """A node that goes and comes back makes the builder look at everything again."""
        self.world.apply(self._some_node, deleted=True)
        self.world.apply(self._some_node)

    def snapshot(self) -> Snapshot:
        """Everything new."""
        self.forget()
        return self.builder.build(self._now_ns)


def arrays_to_plan(make: Callable[[], Scene]) -> Run:
    """The timed part is the engine's: it starts with arrays and ends with a checked plan."""
    fresh = Fresh(make())
    return Run(lambda snapshot: schedule(snapshot)[0], fresh.snapshot, counted)


def _placed(what: str, scene: Callable[[], Scene], pods: int, target_s: float | None = None) -> Case:
    return Case(what, functools.partial(arrays_to_plan, scene), pods, "pods", target_s, section=PEERS)


def cases() -> Iterator[Case]:
    """All measurements of the engine that are one time each."""
    make = functools.partial
    w = workloads
    for name, nodes, jobs in (("Small", 10, 50), ("Medium", 50, 200), ("Large", 100, 500)):
        yield _placed(f"KAI Go Allocate {name}: {nodes} nodes, {jobs} jobs", make(w.kai_go, nodes, jobs), jobs)
    go = make(w.kai_go, 100, 500)
    yield _placed("KAI Go Large, all of them running", make(go, running=Running.ALL), 500)
    yield _placed("KAI Go Large, every second one running", make(go, running=Running.EVERY_SECOND), 250)
    yield _placed("KAI Go Gang: 50 nodes, 100 gangs × 4", make(w.kai_go, 50, 100, size=4), 400)
    queues = make(w.kai_go, 50, 200, queues=20, departments=5)
    yield _placed("KAI Go ManyQueues: 50 nodes, 200 jobs, 20 queues", queues, 200)
    yield _placed("KAI fill: 500 nodes, 4,000 single-GPU jobs", make(w.kai_fill, 500), 4000, 0.2)
    topology = "KAI topology: 512 nodes, one gang × 512"
    yield _placed(f"{topology}, preferred rack", make(w.kai_topology, wish="rack"), 512, 0.010)
    yield _placed(f"{topology}, no constraint", make(w.kai_topology, wish=""), 512)
    full = "KAI unschedulable: 500 full nodes, 4,000 jobs, a gang 10 × 8 GPUs comes"
    yield Case(full, make(newcomer, whole=False), target_s=0.002, section=PEERS)
    yield Case("the same with the building of the arrays", make(newcomer, whole=True), section=PEERS)
    holes = make(arrays_to_plan, make(w.kai_holes, 500, 12, 80))
    yield Case("KAI unschedulable: 80 free nodes over 12 racks, rack required", holes, target_s=0.002, section=PEERS)
    for gangs, size in ((750, 4), (1500, 4), (2250, 4), (3, 1000), (6, 1000), (9, 1000)):
        tas = make(w.kube, gangs, size, level="rack")
        yield _placed(f"kube TAS: 5,000 nodes, {gangs:,} gangs × {size:,}, rack", tas, gangs * size)
    for gangs, size in ((1000, 3), (2000, 3), (3000, 3), (3, 1000), (6, 1000), (9, 1000)):
        yield _placed(f"kube gang: 5,000 nodes, {gangs:,} gangs × {size:,}", make(w.kube, gangs, size), gangs * size)
    yield _placed("Volcano #4899: 1,000 nodes, 100 subgroups × 10, rack", w.volcano, 1000, 0.030)
    one_gone = make(arrays_to_plan, make(w.volcano, 1))
    yield Case("Volcano #4899 with one node gone: infeasible", one_gone, target_s=0.030, section=PEERS)
    yield _placed("Kueue TAS: 640 nodes, 15,000 workloads", w.kueue_tas, 45_000)._replace(best_of=2)
    yield _placed("prefill and decode: 1,000 nodes, 20 trees of 6 leaves", make(w.hierarchical, 1000, 20), 800)
    yield _placed("prefill and decode: 10,000 nodes, 200 trees of 6 leaves", make(w.hierarchical, 10_000, 200), 8000)


def newcomer(*, whole: bool) -> Run:
    """A full cluster that runs; then one gang comes for which there is no room. `whole`: the arrays are timed too."""
    world = world_of(workloads.kai_fill(500, running=True))
    builder = Builder(world)
    memory = schedule(builder.build(0))[1]
    gang = workloads.kai_gang(10, 8)

    def come() -> Snapshot | None:
        for deleted in (True, False):
            for found in gang:
                world.apply(found, deleted=deleted)
        return None if whole else builder.build(0)

    def says(plan: Plan) -> str:
        outcome = plan.of(("bench", "big"))[1]
        assert outcome.verdict is Verdict.INFEASIBLE
        reason = outcome.reasons[0]
        return f"Infeasible, {reason.code}: asked {reason.asked}, best {reason.best}"

    return Run(lambda snapshot: schedule(snapshot or builder.build(0), None, memory)[0], come, says)


def large(best_of: int) -> Iterator[Row]:
    """The 10,000-node cycle in its stages, what it holds in memory, and the cycle after a few changes."""
    scene = workloads.mixed(LARGEST)
    pods = scene.pods
    title = f"{LARGEST.nodes:,} nodes, {scene.gangs:,} gangs, {pods:,} pods"
    runs = min(best_of, 2)
    objects = len(scene.objects)
    yield measure(
        Case(f"{title}: apply to the world", lambda: Run(lambda _: world_of(scene)), objects, "objects", section=LARGE),
        1,
    )
    fresh = Fresh(scene)
    build = Run(lambda _: fresh.builder.build(0), fresh.forget)
    yield measure(Case(f"{title}: build the arrays", lambda: build, pods, "pods", section=LARGE), runs)
    plan = Run(lambda snapshot: schedule(snapshot)[0], fresh.snapshot, counted)
    yield measure(Case(f"{title}: arrays to plan", lambda: plan, pods, "pods", 1.0, section=LARGE), runs)
    steady = Steady(fresh)
    change = f"{pods:,} running, {Steady.CHANGES} pods changed"
    yield measure(
        Case(
            f"{change}: build and plan",
            lambda: Run(steady.cycle, steady.change, counted_sent),
            1,
            "cycles",
            0.030,
            section=LARGE,
        ),
        max(best_of, 5),
    )
    yield measure(
        Case(f"{change}: of it build", lambda: Run(steady.build, steady.change_only), 1, section=LARGE), max(best_of, 5)
    )
    yield measure(
        Case(f"{change}: apply them", lambda: Run(steady.apply, steady.events), Steady.CHANGES, "pods", section=LARGE),
        max(best_of, 5),
    )
    steady.crowd()
    what = "the same cycle while 200 gangs and 20 trees wait that do not fit"
    yield measure(Case(what, lambda: Run(steady.cycle, steady.change, counted), 1, "cycles", section=LARGE), best_of)


def profiled() -> Iterator[Case]:
    """The stages of the large cycle, one by one, to be profiled."""
    mixed = functools.partial(workloads.mixed, LARGEST)
    yield Case("large cycle: arrays to plan", functools.partial(arrays_to_plan, mixed))

    def build() -> Run:
        fresh = Fresh(mixed())
        return Run(lambda _: fresh.builder.build(0), fresh.forget)

    yield Case("large cycle: build", build)

    def steady() -> Run:
        found = Steady(Fresh(mixed()))
        return Run(found.cycle, found.change)

    yield Case("large cycle: steady state", steady)
    many = functools.partial(workloads.mixed, LARGEST._replace(shapes=200))
    yield Case("large cycle: 200 shapes", functools.partial(arrays_to_plan, many))


def counted_sent(plan: Plan) -> str:
    """How many pods are sent."""
    return f"{sum(len(placement.pods) for placement in plan.placements):,} pods sent"


class Steady:
    """A cluster in which everything runs, and a few pods change from cycle to cycle.

    Each time 40 pods finish, 3 gangs of 10 come, and the 30 pods that the cycle before placed are seen running.
    """

    CHANGES = 100
    FINISH, GANGS, SIZE = 40, 3, 10

    def __init__(self, fresh: Fresh) -> None:
        self._world, self._builder = fresh.world, fresh.builder
        plan, self._memory = schedule(fresh.snapshot())
        self._come = self._next = 0
        self._bind(plan)
        # The running pods in an order in which whole gangs finish, from all over the cluster.
        self._old = sorted(self._world.pods, reverse=True)
        self.cycle(None)
        for _ in range(2):
            self.change()
            self.cycle(None)

    def _bind(self, plan: Plan) -> None:
        for found in self._bound(plan):
            self._world.apply(found)

    def _bound(self, plan: Plan) -> Iterator[Any]:
        gangs, nodes = plan.snapshot.gangs, plan.snapshot.nodes
        for placement in plan.placements:
            gang = gangs[placement.gang]
            names = gang.waiting[placement.batch].pods
            for index, node in zip(placement.pods, placement.nodes, strict=True):
                facts = self._world.pods[gang.key[0], names[index]]
                yield workloads.running_on(facts.pod, nodes[node])

    def events(self) -> list[Any]:
        """What changed since the last cycle."""
        found = list(self._bound(self._plan))
        for _ in range(self.FINISH):
            found.append(workloads.finished(self._world.pods[self._old.pop()].pod))
        for _ in range(self.GANGS):
            self._come += 1
            name = f"new-{self._come:05}"
            found.append(workloads.group(name, self.SIZE, number=10**6 + self._come, level="rack"))
            found += workloads.pods(name, self.SIZE, {"cpu": 2, "memory": "8Gi", workloads.GPU: 1})
        return found

    def crowd(self) -> None:
        """Gangs come that do not fit: flat ones, and trees of 20 racks in one block that has 16."""
        for index in range(200):
            name = f"flat-{index:03}"
            self._world.apply(workloads.group(name, 64, number=10**7 + index, level="rack"))
            self.apply(list(workloads.pods(name, 64, {workloads.GPU: 8})))
        for index in range(20):
            name = f"tree-{index:02}"
            leaves = [
                SubGroup(name=f"l{leaf}", min_member=12, topology_constraint=workloads.at("rack")) for leaf in range(20)
            ]
            self._world.apply(workloads.tree_group(name, leaves, level="block"))
            for leaf in leaves:
                self.apply(list(workloads.pods(name, 12, {workloads.GPU: 8}, subgroup=leaf.name)))
        self.cycle(None)

    def apply(self, events: list[Any]) -> None:
        """The mirror sees them."""
        for found in events:
            self._world.apply(found)

    def change(self) -> None:
        """One cycle's worth of changes."""
        self.apply(self.events())

    def change_only(self) -> None:
        """The same, after a cycle that has seen the changes before."""
        self.cycle(None)
        self.change()

    def build(self, _: None) -> Snapshot:
        """Arrays of what changed, taking over the rest."""
        return self._builder.build(0)

    def cycle(self, _: None) -> Plan:
        """Arrays and plan, with what the last cycle remembers."""
        self._plan, self._memory = schedule(self._builder.build(0), None, self._memory)
        return self._plan


def shapes(best_of: int) -> Iterator[Row]:
    """The same cycle with many more shapes of pods."""
    mix = LARGEST._replace(shapes=200)
    what = f"{mix.nodes:,} nodes, {mix.gangs:,} gangs of {mix.shapes} shapes: arrays to plan"
    run = functools.partial(arrays_to_plan, functools.partial(workloads.mixed, mix))
    yield measure(Case(what, run, 100_000, "pods", section=LARGE), min(best_of, 2))


GROWTH_NODES = (1_000, 5_000, 10_000, 50_000)
GROWTH_GANGS = (500, 1_000, 2_500, 5_000, 10_000)


def growth(best_of: int) -> Iterator[Row]:
    """How the cost of a gang grows with the cluster, and with the queue."""
    mixes = [Mix(nodes, 500) for nodes in GROWTH_NODES]
    yield from _curve(mixes, "nodes", [mix.nodes for mix in mixes], best_of)
    mixes = [Mix(5_000, gangs, sizes=workloads.SMALL_SIZES, most_gpus=1) for gangs in GROWTH_GANGS]
    yield from _curve(mixes, "gangs", [mix.gangs for mix in mixes], best_of)


def _curve(mixes: list[Mix], along: str, sizes: list[int], best_of: int) -> Iterator[Row]:
    """Time per gang; the last row says how many times it grew while the size grew so many times."""
    costs = []
    for mix in mixes:
        run = functools.partial(arrays_to_plan, functools.partial(workloads.mixed, mix))
        row = measure(Case("", run), min(best_of, 2))
        assert row.seconds is not None
        costs.append(row.seconds / mix.gangs)
        what = f"{mix.nodes:,} nodes, {mix.gangs:,} gangs: one gang"
        yield Row(GROWTH, what, costs[-1], f"{mix.gangs / row.seconds:,.0f} gangs/s", says=row.says)
    grown, times = costs[-1] / costs[0], sizes[-1] / sizes[0]
    target = f"< {times:.0f} ×" if along == "nodes" else ""
    says = f"{grown:.1f} × for {times:.0f} × the {along}"
    yield Row(
        GROWTH, f"from {sizes[0]:,} to {sizes[-1]:,} {along}", None, says, 0, target, grown < times if target else None
    )


def peak(_: int) -> Iterator[Row]:
    """The most memory of a process that does nothing but the large cycle: objects, mirror, arrays, plan."""
    done = subprocess.run([sys.executable, "-m", "bench.engine"], check=True, capture_output=True, text=True)
    most = int(done.stdout)
    what = f"{LARGEST.nodes:,} nodes, {LARGEST.gangs:,} gangs: peak of the process (RSS)"
    yield Row(LARGE, what, None, "", most, f"≤ {MOST_MEMORY // MIB:,} MiB", most <= MOST_MEMORY)


def _own_peak() -> int:
    fresh = Fresh(workloads.mixed(LARGEST))
    schedule(fresh.builder.build(0), None, Memory())
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    print(_own_peak())
