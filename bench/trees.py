"""The refusal study: random trees of 20 subgroups on 1,000 nodes, and how often a feasible one is not placed.

50 racks of 20 nodes in 10 blocks and 2 zones carry a load that differs from rack to rack. A gang has 4 sets of 5
leaves: the gang lies in one zone, each set in one block, each leaf in one rack; of one set only K leaves are needed.
"""

import functools
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import median
from typing import NamedTuple

from bench import workloads
from bench.engine import PEERS
from bench.greedy import finds
from bench.measure import Case, Row, Run
from bench.truth import is_feasible
from bench.workloads import GPU, Scene
from muster.api.podgroup import SubGroup
from muster.plan.cycle import schedule
from muster.plan.outcome import Outcome, Verdict
from muster.snapshot.build import build
from muster.snapshot.world import World

SECTION = "Refusals: trees of 20 subgroups at 1,000 nodes"
ZONES, BLOCKS, RACKS, NODES, GPUS = 2, 10, 50, 20, 8
SETS, LEAVES = 4, 5
LOADS = (0.5, 0.6, 0.7, 0.8, 0.9)
# Pod sizes in GPUs.
KINDS = {"one pod size": (8,), "mixed sizes": (1, 2, 4, 8), "sizes 3 and 5": (3, 5)}
# How much of a mean block a set wants, at least and at most: so that about four of five instances are feasible.
_WANTED = {"one pod size": (0.5, 1.25), "mixed sizes": (0.35, 1.05), "sizes 3 and 5": (0.35, 0.95)}
# The targets are for sizes that divide one another; what does not is there to be watched.
_AIMED_AT = ("one pod size", "mixed sizes")
# Infeasible ones that are asked about again, and how long the other solver may think.
_ASKED_AGAIN, _SECONDS = 20, 10.0


class Leaf(NamedTuple):
    """So many pods of so many GPUs each."""

    pods: int
    gpus: int


class Instance(NamedTuple):
    """`free[rack][node]` GPUs; leaves by set; how many leaves of each set are needed."""

    free: list[list[int]]
    sets: list[list[Leaf]]
    needed: list[int]


def instance(kind: str, number: int) -> Instance:
    """Always the same for a kind and a number."""
    dice = random.Random(f"{kind} {number}")  # noqa: S311
    load = LOADS[number % len(LOADS)]
    free = [_rack(dice, min(1.0, max(0.0, dice.gauss(load, 0.25))), KINDS[kind]) for _ in range(RACKS)]
    largest = max(map(sum, free))
    room = sum(map(sum, free)) / BLOCKS
    sets = []
    for _ in range(SETS):
        wanted = room * dice.uniform(*_WANTED[kind])
        parts = [dice.uniform(0.3, 1.0) for _ in range(LEAVES)]
        sets.append([])
        for part in parts:
            gpus = dice.choice(KINDS[kind])
            share = min(wanted * part / sum(parts), largest * 0.9)
            sets[-1].append(Leaf(max(1, round(share / gpus)), gpus))
    needed = [LEAVES] * SETS
    needed[dice.randrange(SETS)] = dice.choice((2, 3, 4))
    return Instance(free, sets, needed)


def _rack(dice: random.Random, load: float, sizes: Sequence[int]) -> list[int]:
    """Nodes are in use as a whole, or where pods are small, half of them GPU by GPU."""
    nodes = []
    for _ in range(NODES):
        if len(sizes) > 1 and dice.random() < 0.5:
            nodes.append(sum(dice.random() >= load for _ in range(GPUS)))
        else:
            nodes.append(0 if dice.random() < load else GPUS)
    return nodes


def scene(found: Instance) -> Scene:
    """The instance as objects; other pods hold what is not free."""
    cluster: list[object] = [workloads.topology("zone", "block", "rack")]
    for rack, nodes in enumerate(found.free):
        block = rack * BLOCKS // RACKS
        labels = {"t/zone": f"z{block * ZONES // BLOCKS}", "t/block": f"b{block:02}", "t/rack": f"r{rack:02}"}
        for index, free in enumerate(nodes):
            name = f"n{rack:02}-{index:02}"
            cluster.append(workloads.node(name, labels, {GPU: GPUS, "cpu": 128, "memory": "1Ti"}))
            if free < GPUS:
                cluster += workloads.pods(f"other-{name}", 1, {GPU: GPUS - free}, on=[name])
    subgroups = []
    members = []
    for number, leaves in enumerate(found.sets):
        block = workloads.at("block")
        subgroups.append(SubGroup(name=f"s{number}", min_sub_group=found.needed[number], topology_constraint=block))
        for index, leaf in enumerate(leaves):
            name = f"s{number}-l{index}"
            rack_ = workloads.at("rack")
            subgroups.append(SubGroup(name=name, parent=f"s{number}", min_member=leaf.pods, topology_constraint=rack_))
            members += workloads.pods("tree", leaf.pods, {GPU: leaf.gpus, "cpu": 1}, subgroup=name)
    return Scene([*cluster, workloads.tree_group("tree", subgroups, level="zone"), *members], 1, len(members))


class Asked(NamedTuple):
    """What the engine said of an instance, and what it cost."""

    number: int
    outcome: Outcome
    seconds: float


def ask(kind: str, number: int) -> Asked:
    """One cycle over the instance."""
    world = World()
    for found in scene(instance(kind, number)).objects:
        world.apply(found)
    snapshot = build(world, 0)
    start = time.process_time()
    plan, _ = schedule(snapshot)
    seconds = time.process_time() - start
    return Asked(number, plan.of(("bench", "tree"))[1], seconds)


def study(instances: int) -> Iterator[Row]:
    """All kinds of instances: how many are placed, what it costs, and what another solver says of the rest."""
    for kind in KINDS:
        asked = [ask(kind, number) for number in range(instances)]
        by: dict[Verdict, list[Asked]] = {verdict: [] for verdict in Verdict}
        for one in asked:
            by[one.outcome.verdict].append(one)
        assert not by[Verdict.HELD]
        yield _counts(kind, asked, by)
        yield _steps(kind, asked)
        yield from _judged(kind, by)
        if kind in _AIMED_AT:
            found = sum(finds(instance(kind, number)) for number in range(instances))
            yield Row(SECTION, f"{kind}: a greedy replica of KAI's rules", None, f"{found} of {instances} placed")


def _counts(kind: str, asked: Sequence[Asked], by: dict[Verdict, list[Asked]]) -> Row:
    counts = {verdict: len(found) for verdict, found in by.items() if found}
    words = ", ".join(f"{count} {verdict.value}" for verdict, count in counts.items())
    times = sorted(one.seconds * 1000 for one in asked)
    says = f"{words}; ms median {median(times):.1f}, p99 {_p99(times):.1f}, max {times[-1]:.1f}"
    total = sum(times) / 1000
    return Row(SECTION, f"{kind}: {len(asked)} instances, mean of each", total / len(asked), says=says)


def _steps(kind: str, asked: Sequence[Asked]) -> Row:
    steps = sorted(float(one.outcome.steps) for one in asked)
    says = f"median {median(steps):,.0f}, p99 {_p99(steps):,.0f}, max {steps[-1]:,.0f}"
    return Row(SECTION, f"{kind}: steps of each", None, says=says)


def _p99(found: Sequence[float]) -> float:
    return found[min(len(found) - 1, len(found) * 99 // 100)]


def _judged(kind: str, by: dict[Verdict, list[Asked]]) -> Iterator[Row]:
    """The other solver's word on all undecided ones, and on infeasible ones spread over all."""
    infeasible = by[Verdict.INFEASIBLE]
    again = infeasible[:: max(1, len(infeasible) // _ASKED_AGAIN)]
    refused = Counter(is_feasible(instance(kind, one.number), _SECONDS) for one in again)
    unknown = Counter(is_feasible(instance(kind, one.number), _SECONDS) for one in by[Verdict.UNDECIDED])
    says = f"of {len(again)} asked again: {_words(refused)}"
    yield Row(SECTION, f"{kind}: feasible and refused", None, str(refused[True]), 0, "0", not refused[True], says)
    feasible = len(by[Verdict.PLACED]) + unknown[True] + refused[True]
    share = 100 * unknown[True] / max(1, feasible)
    says = f"of {len(by[Verdict.UNDECIDED])} undecided: {_words(unknown)}"
    if by[Verdict.UNDECIDED]:
        says += f"; numbers {', '.join(str(one.number) for one in by[Verdict.UNDECIDED][:10])}"
    yield Row(SECTION, f"{kind}: undecided of the feasible", None, f"{share:.2f} %", 0, *_aim(kind, share, 0.5), says)
    share = 100 * len(by[Verdict.UNDECIDED]) / sum(map(len, by.values()))
    yield Row(SECTION, f"{kind}: undecided of all", None, f"{share:.2f} %", 0, *_aim(kind, share, 5))


def _aim(kind: str, share: float, most: float) -> tuple[str, bool | None]:
    """The target in words, and whether it is met."""
    return (f"< {most:g} %", share < most) if kind in _AIMED_AT else ("", None)


def _words(judged: Counter[bool | None]) -> str:
    names = {True: "feasible", False: "infeasible", None: "unknown to the other solver too"}
    return ", ".join(f"{judged[key]} {name}" for key, name in names.items() if judged[key]) or "none"


# Of each kind one instance that fits and one that does not.
_EXAMPLES = {"one pod size": (1, 0), "mixed sizes": (0, 1)}


def cases() -> Iterator[Case]:
    """One tree by itself."""
    for kind, numbers in _EXAMPLES.items():
        for number in numbers:
            what = f"a tree of 20 subgroups at 1,000 nodes, {kind}, number {number}"
            yield Case(what, functools.partial(_run, kind, number), 1, "trees", section=PEERS)


def _run(kind: str, number: int) -> Run:
    world = World()
    for found in scene(instance(kind, number)).objects:
        world.apply(found)
    return Run(
        lambda snapshot: schedule(snapshot)[0],
        lambda: build(_again(world), 0),
        lambda plan: plan.of(("bench", "tree"))[1].verdict.value,
    )


def _again(world: World) -> World:
    """The same world to somebody who sees it for the first time."""
    some = next(iter(world.nodes.values()))
    world.apply(some, deleted=True)
    world.apply(some)
    return world
