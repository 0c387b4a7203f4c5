"""What is measured, one function for each way of measuring. Every run begins with a cluster on which nothing is."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from bench.live import objects
from bench.live.actors import Actor, Used, acting, used
from bench.live.objects import GPUS, KUBE, MUSTER, Gang, Thing
from bench.live.report import Run, percentile
from bench.live.traffic import Binds, Broken, Traffic
from bench.measure import MIB
from e2e.plane import ControlPlane
from e2e.plane.stage import install

Say = Callable[[str], None]

# So long nothing is bound before a run is given up: a backlog of native gangs waits half a minute when all is quiet.
_PATIENCE_S = 180.0
# So long what is told about gangs may lag behind their last bind.
_TELLING_S = 120.0
_OUR_API = "/apis/scheduling.run.ai/v2alpha2"
_PROBE = Gang("probe", 1, gpus=0)


class Numbers(NamedTuple):
    """The sizes of everything."""

    nodes: int = 500
    singles: int = 4000
    eights: int = 500
    thirty_twos: int = 125
    large: int = 512
    latency: int = 100
    size_nodes: int = 5000
    size_gangs: int = 2500
    size_pending: int = 250
    size_of_gang: int = 20


QUICK = Numbers(40, 200, 24, 6, 64, 5, 80, 40, 10, 20)


class Stage:
    """One run: a control plane, a scheduler that is not started yet, and the traffic of this process."""

    def __init__(self, plane: ControlPlane, case: "Case", who: str, traffic: Traffic, say: Say) -> None:
        self.plane, self.who, self.traffic, self.say = plane, who, traffic, say
        self.name, self.native = case.name, case.native
        self.binds = Binds()
        self._watching: asyncio.Task[None] | None = None

    async def build(self, nodes: int) -> None:
        """The nodes, and what the scheduler knows of them."""
        things = [objects.node(number) for number in range(nodes)]
        if self.who == MUSTER:
            things.append(objects.topology())
        await self.traffic.create_all(things)

    async def create(self, gangs: Sequence[Gang]) -> float:
        """The gangs first, then their pods; the seconds that took."""
        began_s = time.monotonic()
        await self.traffic.create_all(self.groups(gangs))
        await self.traffic.create_all([pod for gang in gangs for pod in objects.pods(gang, self.who)])
        return time.monotonic() - began_s

    def groups(self, gangs: Sequence[Gang]) -> list[Thing]:
        """The gangs as objects, for those who know them."""
        return [thing for gang in gangs if (thing := objects.group(gang, self.who)) is not None]

    def batch(self, gang: Gang) -> list[Thing]:
        """A gang and its pods, in the order in which somebody would create them."""
        return [*self.groups([gang]), *objects.pods(gang, self.who)]

    async def watch(self) -> None:
        """From now on binds are seen."""
        version = await self.traffic.version()
        self._watching = asyncio.create_task(self.traffic.watch(version, self.binds.see))
        # A watch that can't be opened fails at once.
        await asyncio.sleep(0.2)
        if self._watching.done():
            await self._watching

    async def close(self) -> None:
        """The watch ends."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)

    async def bound(self, pods: Sequence[str], actor: Actor) -> bool:
        """Until all of these are bound. False: for a long time nothing was."""
        names = set(pods)
        all_bound = await self.binds.wait(lambda: names <= self.binds.at_s.keys(), _PATIENCE_S, lambda: actor.runs)
        if not actor.runs:
            raise Broken(f"{self.who} ended: {actor.last_words()}")
        return all_bound

    async def probe(self, actor: Actor) -> None:
        """Until the scheduler works: it places one pod that takes no room."""
        await self.traffic.create_all(self.batch(_PROBE), clients=1)
        if not await self.bound(["probe-0"], actor):
            raise Broken(f"{self.who} does not place a single pod: {actor.last_words()}")
        # What it has to say about that one is over.
        await asyncio.sleep(1.0)

    async def told_s(self, gangs: int) -> float | None:
        """Seconds until every gang's status says that it is scheduled; None when nobody tells that."""
        if self.who != MUSTER:
            return None
        began_s = time.monotonic()
        path = f"{_OUR_API}/namespaces/{objects.NAMESPACE}/podgroups"
        while time.monotonic() - began_s < _TELLING_S:
            phases = Counter(one.status.phase for one in await self.traffic.listed(path))
            if phases["Scheduled"] >= gangs:
                break
            await asyncio.sleep(0.5)
        return time.monotonic() - began_s

    async def problem(self, gangs: Sequence[Gang]) -> str:
        """What is wrong with where the pods are; nothing, when all is well."""
        nodes_of = await self.traffic.nodes_of()
        held: Counter[str] = Counter()
        split = loose = 0
        for gang in gangs:
            nodes = [nodes_of.get(f"{gang.name}-{number}", "") for number in range(gang.size)]
            loose += nodes.count("")
            for node in nodes:
                held[node] += gang.gpus
            racks = {objects.rack_of(int(node.rpartition("-")[2])) for node in nodes if node}
            split += gang.one_rack and self.who == MUSTER and len(racks) > 1
        held.pop("", None)
        full = sum(amount > GPUS for amount in held.values())
        found = {"pods without a node": loose, "gangs outside of one rack": split, "nodes with too many pods": full}
        return ", ".join(f"{count} {what}" for what, count in found.items() if count)


class Case(NamedTuple):
    """A name for the command line, what it is in words, and how it is measured, for which schedulers."""

    name: str
    says: str
    measure: Callable[[Stage, Numbers], Awaitable[Run]]
    # Whether kube-scheduler's own gangs are in it: then both API servers know them.
    native: bool = True
    schedulers: tuple[str, ...] = (MUSTER, KUBE)


async def _backlog(stage: Stage, gangs: Sequence[Gang], nodes: int) -> Run:
    """Everything is there and waits; then the scheduler starts."""
    await stage.build(nodes)
    took_s = await stage.create(gangs)
    pods = [f"{gang.name}-{number}" for gang in gangs for number in range(gang.size)]
    stage.say(f"{len(pods):,} pods created in {took_s:.1f} s; starting {stage.who}")
    await stage.watch()
    before_s = _server_s(stage.plane)
    with acting(stage.plane, stage.who, native=stage.native) as actor:
        await stage.bound(pods, actor)
        now = used(actor.pid)
        more = {"server_cpu_s": _server_s(stage.plane) - before_s}
        return await _run(stage, gangs, actor.started_s, now, actor, more)


async def _run(
    stage: Stage, gangs: Sequence[Gang], began_s: float, now: Used, actor: Actor, more: dict[str, float]
) -> Run:
    """The run, from what was seen and used until the last bind."""
    names = {f"{gang.name}-{number}" for gang in gangs for number in range(gang.size)}
    at_s = [at for pod, at in stage.binds.at_s.items() if pod in names]
    told_s = await stage.told_s(len(gangs))
    if told_s is not None:
        more = {**more, "told_after_s": told_s}
    first_s, last_s = (min(at_s) - began_s, max(at_s) - began_s) if at_s else (0.0, 0.0)
    # The peak of the process is read after the telling too: that is part of its work.
    peak = used(actor.pid).peak_bytes
    return Run(stage.name, stage.who, len(at_s), first_s, last_s, now.cpu_s, peak, more, await stage.problem(gangs))


def _server_s(plane: ControlPlane) -> float:
    """Seconds of CPU that the API server and etcd have used."""
    return sum(used(one.pid).cpu_s for one in (plane.apiserver, plane.etcd) if one.pid)


async def _singles(stage: Stage, numbers: Numbers) -> Run:
    return await _backlog(stage, objects.gangs("singles", numbers.singles, 1), numbers.nodes)


async def _eights(stage: Stage, numbers: Numbers) -> Run:
    return await _backlog(stage, objects.gangs("gangs-8", numbers.eights, 8, racks=True), numbers.nodes)


async def _thirty_twos(stage: Stage, numbers: Numbers) -> Run:
    return await _backlog(stage, objects.gangs("gangs-32", numbers.thirty_twos, 32, racks=True), numbers.nodes)


async def _large(stage: Stage, numbers: Numbers) -> Run:
    return await _backlog(stage, objects.gangs("gang-512", 1, numbers.large), numbers.nodes)


async def _live(stage: Stage, numbers: Numbers) -> Run:
    """The scheduler runs; then clients create gangs, each one after the other."""
    gangs = objects.gangs("live", numbers.eights, 8, racks=True)
    pods = [f"{gang.name}-{number}" for gang in gangs for number in range(gang.size)]
    await stage.build(numbers.nodes)
    await stage.watch()
    with acting(stage.plane, stage.who, native=stage.native) as actor:
        await stage.probe(actor)
        before, began_s = used(actor.pid), time.monotonic()
        await stage.traffic.each([stage.batch(gang) for gang in gangs])
        created_s = time.monotonic() - began_s
        stage.say(f"{len(pods):,} pods created in {created_s:.1f} s")
        await stage.bound(pods, actor)
        now = used(actor.pid)
        now = now._replace(cpu_s=now.cpu_s - before.cpu_s)
        return await _run(stage, gangs, began_s, now, actor, {"created_s": created_s})


async def _latency(stage: Stage, numbers: Numbers) -> Run:
    """The scheduler runs and has nothing to do; then gangs come one after the other, when the one before is placed."""
    gangs = objects.gangs("latency", numbers.latency, 8)
    await stage.build(numbers.nodes)
    await stage.watch()
    firsts, lasts = [], []
    with acting(stage.plane, stage.who, native=stage.native) as actor:
        await stage.probe(actor)
        before = used(actor.pid)
        for gang in gangs:
            names = [f"{gang.name}-{number}" for number in range(gang.size)]
            await stage.traffic.create_all(stage.batch(gang)[:-8], clients=1)
            await stage.traffic.create_all(objects.pods(gang, stage.who), clients=8)
            complete_s = time.monotonic()
            if not await stage.bound(names, actor):
                break
            seen_s = [stage.binds.at_s[name] - complete_s for name in names]
            firsts.append(min(seen_s))
            lasts.append(max(seen_s))
            await asyncio.sleep(0.2)
        now = used(actor.pid)
        wrong = await stage.problem(gangs)
    more = {f"p{part}_ms": percentile(firsts, part / 100) * 1000 for part in (50, 90, 99)} if firsts else {}
    more |= {f"whole_p{part}_ms": percentile(lasts, part / 100) * 1000 for part in (50, 99)} if lasts else {}
    return Run(
        *(stage.name, stage.who, 8 * len(firsts), percentile(firsts, 0.5) if firsts else 0.0, sum(lasts)),
        *(now.cpu_s - before.cpu_s, now.peak_bytes, more, wrong),
    )


async def _size(stage: Stage, numbers: Numbers) -> Run:
    """A large cluster with most pods bound, and gangs that wait; then the scheduler starts."""
    size, running = numbers.size_of_gang, numbers.size_gangs - numbers.size_pending
    bound = objects.gangs("bound", running, size, gpus=0)
    # Four pods of nine hold a GPU, as far as there are some.
    bound = [gang._replace(gpus=int(number % 9 < 4)) for number, gang in enumerate(bound)]
    pending = objects.gangs("pending", numbers.size_pending, size, racks=True)
    await stage.build(numbers.size_nodes)
    pods = []
    for number, gang in enumerate(bound):
        places = [objects.node_name((number * size + at) % numbers.size_nodes) for at in range(size)]
        pods += objects.pods(gang, stage.who, places)
    began_s = time.monotonic()
    await stage.traffic.create_all(stage.groups([*bound, *pending]))
    await stage.traffic.create_all(pods)
    await stage.traffic.create_all([pod for gang in pending for pod in objects.pods(gang, stage.who)])
    total = len(pods) + size * len(pending)
    stage.say(f"{total:,} pods created in {time.monotonic() - began_s:.0f} s; starting {stage.who}")
    await stage.watch()
    waiting = [f"{gang.name}-{number}" for gang in pending for number in range(gang.size)]
    with acting(stage.plane, stage.who, native=stage.native) as actor:
        await stage.bound(waiting, actor)
        found = await _run(stage, pending, actor.started_s, used(actor.pid), actor, {})
        told_s = await stage.told_s(len(bound) + len(pending)) or 0.0
        # What it keeps when all is said.
        await asyncio.sleep(2.0)
        now = used(actor.pid)
    more = {
        **found.more,
        "all_told_after_s": told_s + found.more.get("told_after_s", 0),
        "steady_MiB": now.rss_bytes / MIB,
    }
    return found._replace(peak_bytes=now.peak_bytes, more=more)


CASES = (
    Case("singles", "pods of one GPU, each its own gang", _singles, native=False),
    Case("gangs-8", "gangs of 8, every fourth in one rack", _eights),
    Case("gangs-32", "gangs of 32, every fourth in one rack", _thirty_twos),
    Case("gang-512", "one gang of 512", _large),
    Case("live", "gangs of 8 that are created while the scheduler runs", _live),
    Case("latency", "gangs of 8 one after the other on an idle cluster", _latency),
    Case("size", "5,000 nodes and 50,000 pods", _size, native=False, schedulers=(MUSTER,)),
)


async def measure(plane: ControlPlane, case: Case, who: str, numbers: Numbers, say: Say) -> Run:
    """One run on a control plane where nothing is yet."""
    if who == MUSTER and plane.request("GET", _OUR_API).status != 200:
        install(plane)
    folder = plane.folder
    async with Traffic(plane.url, plane.ca, (folder / "admin.crt", folder / "admin.key")) as traffic:
        stage = Stage(plane, case, who, traffic, say)
        try:
            return await case.measure(stage, numbers)
        finally:
            await stage.close()
