"""The gap study: how far the victims that the engine picks are from the best ones, on clusters small enough to know.

Up to 12 candidate units the engine looks at every choice; beyond that it has a rule of thumb. `bench/exhaustive.py`
knows the best set either way.
"""

import random
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from bench import workloads
from bench.contention import NOW_NS, queue
from bench.engine import world_of
from bench.exhaustive import (
    GPUS,
    NODES,
    RACKS,
    SIZES,
    Combinations,
    Instance,
    Judged,
    Leaf,
    Rank,
    Runs,
    Taken,
    best,
    judged,
    legal,
    units,
    without_worse,
)
from bench.measure import Row
from bench.workloads import GPU, Scene
from muster.api.cluster import PriorityClass
from muster.api.model import Metadata
from muster.api.podgroup import NON_PREEMPTIBLE, PREEMPTIBLE, SEMI_PREEMPTIBLE, SubGroup
from muster.plan.cycle import Policy, schedule
from muster.plan.outcome import Action, Plan, Verdict
from muster.snapshot.build import build

SECTION = "Victims: the engine's choice and the best one"
# Kinds of instances with the action that evicts.
KINDS = {
    "preempt": Action.PREEMPT,
    "preempt, one rack required": Action.PREEMPT,
    "reclaim": Action.RECLAIM,
    "reclaim down to a quota": Action.RECLAIM,
}
# Candidate units, from and to: where every choice is looked at, and where it is not.
FEW, MANY = (4, 12), (13, 20)
# Combinations that are looked at here.
_MOST = 2**20
_BENEFICIARY = 90


def instance(kind: str, number: int, within: tuple[int, int]) -> Instance:
    """Always the same for a kind, a number and a range of units."""
    dice = random.Random(f"{kind} {number} {within}")  # noqa: S311
    while True:
        found = _rolled(kind, dice, dice.randint(*within))
        if not within[0] <= sum(map(units, found.runs)) <= within[1]:
            continue
        choices = [without_worse(legal(gang)) for gang in found.runs]
        if int(np.prod([len(some) for some in choices])) > _MOST:
            continue
        good = Combinations(found, choices).good()
        # Index 0 is that nobody goes.
        if good.any() and not good[0]:
            return found


def _rolled(kind: str, dice: random.Random, wanted: int) -> Instance:
    """Gangs until there are as many units as wanted, or the cluster is full."""
    free = [GPUS] * NODES
    runs: list[Runs] = []
    there = 0
    for _ in range(40):
        gang = _gang(kind, dice, len(runs), free)
        if gang is None or there + units(gang) > wanted:
            continue
        for leaf in gang.leaves:
            for node in leaf.nodes:
                free[node] -= leaf.gpus
        runs.append(gang)
        there += units(gang)
        if there == wanted:
            break
    made = dice.sample(range(1, 1000), len(runs))
    runs = [gang._replace(made=age) for gang, age in zip(runs, made, strict=True)]
    asks = [0] * len(SIZES)
    for _ in range(dice.randint(1, 4)):
        asks[dice.choice((0, 1, 1, 2, 2, 3))] += 1
    quotas = {}
    if kind == "reclaim down to a quota":
        for name in sorted({gang.queue for gang in runs}):
            has = sum(leaf.gpus * len(leaf.nodes) for gang in runs if gang.queue == name for leaf in gang.leaves)
            quotas[name] = dice.randint(0, max(0, has - 1))
    return Instance(tuple(runs), tuple(asks), "rack" in kind, quotas)


def _gang(kind: str, dice: random.Random, number: int, free: Sequence[int]) -> Runs | None:
    """Single pods, flat gangs with and without surplus, and trees; None when it does not fit."""
    room = list(free)

    def leaf(pods: int, gpus: int, minimum: int) -> Leaf | None:
        nodes = []
        for _ in range(pods):
            roomy = [node for node in range(NODES) if room[node] >= gpus]
            if not roomy:
                return None
            nodes.append(dice.choice(roomy))
            room[nodes[-1]] -= gpus
        return Leaf(tuple(nodes), gpus, minimum)

    gpus = dice.choice((1, 1, 1, 2, 2, 4))
    form = dice.choice(("single", "whole") if "quota" in kind else ("single", "single", "whole", "grown", "tree"))
    needed = 1
    if form == "single":
        leaves = [leaf(1, gpus, 1)]
    elif form == "whole":
        pods = dice.randint(2, 3)
        leaves = [leaf(pods, gpus, pods)]
    elif form == "grown":
        pods = dice.randint(2, 4)
        leaves = [leaf(pods, gpus, dice.randint(1, pods - 1))]
    else:
        needed, children, pods = dice.randint(1, 2), dice.randint(2, 3), dice.randint(1, 2)
        # Sometimes a child has lost a pod: what is left of it is a leftover.
        lost = dice.random() < 0.2 and pods == 2 and needed < children
        leaves = [leaf(pods - (lost and row == children - 1), gpus, pods) for row in range(children)]
    if any(one is None for one in leaves):
        return None
    how = dice.choice((PREEMPTIBLE, PREEMPTIBLE, PREEMPTIBLE, SEMI_PREEMPTIBLE, NON_PREEMPTIBLE))
    name, queue_ = f"runs-{number:02}", dice.choice(("fill-a", "fill-b")) if "reclaim" in kind else "team"
    priority = dice.choice((10, 20, 30))
    how = PREEMPTIBLE if "quota" in kind else how
    return Runs(name, queue_, priority, 0, how, tuple(one for one in leaves if one is not None), needed)


def scene(found: Instance) -> Scene:
    """The instance as objects."""
    cluster: list[Any] = [workloads.topology("rack"), queue("all", -1), queue("team", NODES * GPUS, above="all")]
    for name in ("fill-a", "fill-b"):
        cluster.append(queue(name, found.quotas.get(name, 0), above="all", weight=0))
    for value in (10, 20, 30, _BENEFICIARY):
        cluster.append(PriorityClass(metadata=Metadata(name=f"p{value}"), value=value))
    for row in range(NODES):
        has = {GPU: GPUS, "cpu": 64, "memory": "512Gi"}
        cluster.append(workloads.node(f"n{row}", {"t/rack": f"r{row % RACKS}"}, has))
    for gang in found.runs:
        cluster += _objects(gang)
    leaves = [
        SubGroup(name=f"g{size}", min_member=count) for size, count in zip(SIZES, found.asks, strict=True) if count
    ]
    level = "rack" if found.one_rack else ""
    more = {"queue": "team", "priority_class_name": f"p{_BENEFICIARY}", "preemptibility": PREEMPTIBLE}
    cluster.append(workloads.tree_group("waits", leaves, number=10**6, level=level, **more))
    for size, count in zip(SIZES, found.asks, strict=True):
        cluster += workloads.pods("waits", count, {GPU: size}, subgroup=f"g{size}")
    return Scene(cluster, 1, sum(found.asks))


def _objects(gang: Runs) -> Iterator[Any]:
    more = {
        "queue": gang.queue,
        "priority_class_name": f"p{gang.priority}",
        "preemptibility": gang.preemptibility,
    }
    flat = len(gang.leaves) == 1
    if flat:
        yield workloads.group(gang.name, gang.leaves[0].minimum, number=gang.made, **more)
    else:
        leaves = [SubGroup(name=f"l{row}", min_member=leaf.minimum) for row, leaf in enumerate(gang.leaves)]
        yield workloads.tree_group(gang.name, leaves, number=gang.made, minimum=gang.needed, **more)
    for row, leaf in enumerate(gang.leaves):
        on = [f"n{node}" for node in leaf.nodes]
        subgroup = "" if flat else f"l{row}"
        yield from workloads.pods(gang.name, len(on), {GPU: leaf.gpus}, subgroup=subgroup, on=on)


def victims(plan: Plan) -> dict[str, Taken]:
    """The pods that go, by gang; leaf and place are read from their names."""
    found: dict[str, set[tuple[int, int]]] = {}
    for eviction in plan.evictions:
        gang = plan.snapshot.gangs[eviction.gang]
        name = gang.placed[eviction.leaf].pods[eviction.pod].removeprefix(f"{gang.key[1]}-")
        leaf, _, place = name.rpartition("-")
        found.setdefault(gang.key[1], set()).add((int(leaf[1:] or 0), int(place)))
    return {name: frozenset(pods) for name, pods in found.items()}


class Compared(NamedTuple):
    """One instance: the best, the engine's, and what the engine spent."""

    number: int
    best: Rank
    looked_at: int
    found: Judged | None
    exact: bool
    seconds: float


def compare(kind: str, number: int, within: tuple[int, int]) -> Compared:
    """The engine and brute force on the same instance."""
    found = instance(kind, number, within)
    snapshot = build(world_of(scene(found)), NOW_NS)
    policy = Policy(actions=frozenset({Action.ALLOCATE, KINDS[kind]}))
    start = time.process_time()
    plan, _ = schedule(snapshot, policy)
    seconds = time.process_time() - start
    known = best(found)
    assert known.rank is not None
    placed = plan.of(("bench", "waits"))[1].verdict is Verdict.PLACED
    exact = bool(plan.evictions) and all(eviction.exact for eviction in plan.evictions)
    found_ = judged(found, victims(plan)) if placed else None
    return Compared(number, known.rank, known.looked_at, found_, exact, seconds)


def study(instances: int) -> Iterator[Row]:
    """All kinds, first with few units, where every choice is the engine's duty too."""
    for kind in KINDS:
        for within in (FEW, MANY):
            what = f"{kind}, {within[0]}–{within[1]} units"
            compared = [compare(kind, number, within) for number in range(instances)]
            yield from _rows(what, compared, must_be_best=within == FEW)


def _rows(what: str, compared: Sequence[Compared], *, must_be_best: bool) -> Iterator[Row]:
    """Where every choice is looked at nothing but the best will do; elsewhere the gap is there to be watched."""
    count = len(compared)
    exact, looked_at = sum(one.exact for one in compared), sum(one.looked_at for one in compared) // count
    seconds = sum(one.seconds for one in compared) / count
    says = f"{exact} called exact; {looked_at:,} choices in each"
    yield Row(SECTION, f"{what}: {count} instances, mean of each", seconds, says=says)
    wrong = [(one.number, fault) for one in compared if (fault := _fault(one))]
    says = "; ".join(f"number {number} {fault}" for number, fault in wrong[:5])
    what_wrong = f"{what}: illegal, not minimal or wrongly called exact"
    yield Row(SECTION, what_wrong, None, str(len(wrong)), 0, "0", not wrong, says)
    refused = [one.number for one in compared if one.found is None]
    target = ("0", not refused) if must_be_best else ("", None)
    yield Row(SECTION, f"{what}: nobody found", None, str(len(refused)), 0, *target, _some(refused))
    pairs = [(one.number, one.best, one.found.rank) for one in compared if one.found is not None and one.found.rank]
    better = [number for number, ideal, mine in pairs if mine < ideal]
    assert not better, f"{what}: better than the best, {_some(better)}"
    worse = [number for number, ideal, mine in pairs if mine != ideal]
    optimal = len(pairs) - len(worse)
    target = ("100 %", optimal == count) if must_be_best else ("", None)
    yield Row(SECTION, f"{what}: the best set", None, f"{100 * optimal / count:.1f} %", 0, *target, _some(worse))
    # Fewer pods are no merit where dearer ones go: pods are compared among sets that are alike but for them.
    alike = [(ideal.pods, mine.pods) for _, ideal, mine in pairs if ideal[:3] == mine[:3]]
    would_do, pods = sum(ideal for ideal, _ in alike), sum(mine for _, mine in alike)
    says = f"{pods:,} pods, {would_do:,} would do; dearer victims in {len(pairs) - len(alike)} more"
    over = 100 * (pods - would_do) / max(1, would_do)
    yield Row(SECTION, f"{what}: pods evicted over the optimum", None, f"{over:.1f} %", says=says)


def _fault(one: Compared) -> str:
    """What is wrong with a set, however good it is."""
    if one.found is None or one.found.fault:
        return one.found.fault if one.found is not None else ""
    return "called exact, and is not the best" if one.exact and one.found.rank != one.best else ""


def _some(numbers: Sequence[int]) -> str:
    """Which they are, to look at them one by one."""
    listed = ", ".join(map(str, numbers[:8]))
    return f"numbers {listed}{', …' if len(numbers) > 8 else ''}" if numbers else ""
