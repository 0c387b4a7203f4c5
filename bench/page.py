"""What the page costs in a large cluster: a scene after a cycle, a frame, and what changed since the last one."""

import functools
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from msgspec import structs

from bench import workloads
from bench.engine import world_of
from bench.measure import Case, Run
from bench.workloads import GPU, Scene
from muster.api.cluster import Node, Pod
from muster.plan.cycle import Memory, schedule
from muster.plan.outcome import Plan
from muster.serve.page.history import History
from muster.serve.views import frame as views
from muster.serve.views import scene
from muster.serve.views.frame import Source
from muster.snapshot.build import Builder

SECTION = "The page"
NODES, GANGS, SIZE, WAITING, GPUS = 5_000, 2_000, 20, 100, 8
# As many wait where it is measured what holds up a cycle.
CROWD = 10_000
_HERE = Source("live", "bench")
_S = 10**9
# Of so many snapshots the middle one counts: what others do on the machine weighs little then.
_BUILDS = 7


def full(nodes: int = NODES, gangs: int = GANGS, size: int = SIZE, waiting: int = WAITING) -> Scene:
    """Nodes of 8 GPUs that are full of gangs, one GPU a pod; more gangs wait."""
    machines = list(workloads.racks_of_nodes(nodes, {"cpu": "96", "memory": "512Gi", GPU: GPUS, "pods": 110}))
    cluster = [workloads.topology("zone", "block", "rack"), *machines]
    ask = {"cpu": "2", "memory": "8Gi", GPU: 1}
    found = []
    for number in range(gangs + waiting):
        name = f"g{number:06}"
        slots = range(number * size, (number + 1) * size)
        on = [machines[slot // GPUS].metadata.name for slot in slots] if number < gangs else []
        found.append((workloads.group(name, size - 4, number=number), workloads.pods(name, size, ask, on=on)))
    return workloads.scene_of(cluster, found)


class Following:
    """A history that somebody follows while one pod after the other ends and its room goes to who waits."""

    def __init__(self, objects: Scene) -> None:
        self._world = world_of(objects)
        self._builder, self._memory, self._cycles = Builder(self._world), Memory(), 0
        self._nodes = [one for one in objects.objects if isinstance(one, Node)]
        self._running = [one for one in objects.objects if isinstance(one, Pod) and one.spec.node_name]
        self.history, self.scene = History(_HERE), self._scene()
        self.history.note(self.scene)
        self.version = self.history.version()

    def plan(self) -> Plan:
        """One more cycle."""
        self._cycles += 1
        plan, self._memory = schedule(self._builder.build(self._cycles * _S), None, self._memory)
        return plan

    def _scene(self) -> scene.Scene:
        before = self.scene if self._cycles else None
        self.scene = scene.scene_of(self.plan(), self._world, decision=f"d-{self._cycles}", before=before)
        return self.scene

    def change(self) -> scene.Scene:
        """A pod ends; and who watches has everything so far."""
        self.history.frame()
        self.version = self.history.version()
        self._world.apply(workloads.finished(self._running[37 * self._cycles]))
        return self._scene()

    def cycle(self) -> Plan:
        """A pod ends, and the next cycle has been planned; nobody watches."""
        self._world.apply(workloads.finished(self._running[37 * self._cycles]))
        return self.plan()

    def planned(self, plan: Plan) -> bool:
        """All that happens for the page between two cycles of the scheduler, as in `Showing.planned`."""
        self.scene = self.take(plan)
        return self.history.note(self.scene)

    def build(self) -> float:
        """How long a snapshot takes after a node was cordoned, on the clock."""
        self._cycles += 1
        node = self._nodes[self._cycles]
        self._world.apply(structs.replace(node, spec=structs.replace(node.spec, unschedulable=True)))
        began_s = time.perf_counter()
        self._builder.build(self._cycles * _S)
        return time.perf_counter() - began_s

    def take(self, plan: Plan) -> scene.Scene:
        """The scene after a cycle."""
        return scene.scene_of(plan, self._world, decision="d", before=self.scene)

    def note(self, now: scene.Scene) -> bool:
        """A cycle is over, and somebody may look."""
        return self.history.note(now)

    def follow(self, now: scene.Scene) -> dict[str, Any]:
        """A cycle is over, and somebody is told what changed."""
        self.history.note(now)
        found = self.history.delta(self.version)
        assert found is not None, "the version was given"
        return found


def _size(document: object) -> str:
    return f"{len(msgspec.json.encode(document)) / 1024:,.0f} KiB of JSON"


def _run(of: Callable[[Following], Run]) -> Run:
    return of(Following(full()))


def _frame(page: Following) -> Run:
    return Run(lambda _: views.frame_of(page.scene, _HERE), says=_size)


def _encoded(page: Following) -> Run:
    frame = page.history.frame()
    return Run(lambda _: msgspec.json.encode(frame), says=lambda text: f"{len(text) / 1024:,.0f} KiB")


def _scene(page: Following) -> Run:
    return Run(page.take, page.plan)


def _note(page: Following) -> Run:
    return Run(page.note, page.change, lambda new: "a new version" if new else "WRONG: nothing new")


def _delta(page: Following) -> Run:
    return Run(page.follow, page.change, _size)


def _crowded() -> Run:
    """Also those that wait were seen before: that they come is planned for longer than anybody draws."""
    page = Following(full(size=4, waiting=CROWD))
    return Run(page.planned, page.cycle, lambda new: "a new version" if new else "WRONG: nothing new")


def _beside(page: Following) -> Run:
    """The interpreter runs one thread at a time: what a build loses to one that does nothing but draw whole frames."""

    def run(_: object) -> tuple[float, float]:
        alone_s = statistics.median(page.build() for _ in range(_BUILDS))
        is_over = threading.Event()

        def draw() -> None:
            while not is_over.is_set():
                views.view_of(page.scene)

        drawing = threading.Thread(target=draw)
        drawing.start()
        try:
            return alone_s, statistics.median(page.build() for _ in range(_BUILDS))
        finally:
            is_over.set()
            drawing.join()

    def says(found: tuple[float, float]) -> str:
        alone_s, beside_s = found
        return f"{1000 * beside_s:,.0f} ms on the clock, {1000 * alone_s:,.0f} ms alone: {beside_s / alone_s:.1f} times"

    return Run(run, says=says)


def cases() -> Iterator[Case]:
    """Everything about the page."""
    here = f"{NODES:,} nodes, {GANGS * SIZE:,} pods, {GANGS + WAITING:,} gangs"
    run = functools.partial
    yield Case(f"page: a whole frame, {here}", run(_run, _frame), target_s=0.6, section=SECTION)
    yield Case("page: the frame as JSON", run(_run, _encoded), section=SECTION)
    yield Case("page: the scene after a cycle", run(_run, _scene), target_s=0.010, section=SECTION)
    yield Case("page: a cycle is noted, nobody looks", run(_run, _note), target_s=0.030, section=SECTION)
    crowd = f"{NODES:,} nodes, {CROWD:,} gangs wait"
    yield Case(f"page: what a cycle is held up by, {crowd}", _crowded, target_s=0.050, best_of=3, section=SECTION)
    yield Case("page: a snapshot beside a thread that draws", run(_run, _beside), best_of=1, section=SECTION)
    yield Case("page: a cycle is noted and told: one pod ended", run(_run, _delta), target_s=0.030, section=SECTION)
