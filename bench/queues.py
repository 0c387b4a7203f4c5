"""What queues and evictions cost: the peers' reclaim and consolidation tests, saying no, fair shares, staleness."""

import functools
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from bench import contention, workloads
from bench.contention import NOW_NS, Broken, Coming, Full
from bench.engine import Fresh, world_of
from bench.measure import Case, Run
from bench.workloads import Running, Scene
from muster.api.tree import NONE
from muster.plan.cycle import schedule
from muster.plan.outcome import Action, Outcome, Plan, Verdict
from muster.plan.shares import fair_shares
from muster.snapshot.arrays import Snapshot
from muster.snapshot.build import Builder
from muster.snapshot.queues import CHARGES

SECTION = "Queues and eviction, arrays to plan"


class Wanted(NamedTuple):
    """What must come of a cycle; None where anything may."""

    sent: int | None = None
    nominated: int | None = None
    evicted: int | None = None
    moved: int | None = 0
    # How many gangs get no room.
    refused: int | None = 0
    # By which action, when it is one.
    action: str = ""


def came_of(plan: Plan, wanted: Wanted) -> str:
    """In words; raises AssertionError when it is not what was wanted, or when the nodes would not hold it."""
    waited = [plan.outcomes[number] for number in plan.snapshot.waiting]
    found = Wanted(
        sum(len(placement.pods) for placement in plan.placements if not placement.nominated),
        sum(len(placement.pods) for placement in plan.placements if placement.nominated),
        sum(eviction.to == NONE for eviction in plan.evictions),
        sum(eviction.to != NONE for eviction in plan.evictions),
        sum(outcome.verdict is not Verdict.PLACED for outcome in waited),
    )
    words = [f"{count:,} {name}" for name, count in found._asdict().items() if count and name != "action"]
    refusals = Counter(_said(outcome) for outcome in waited if outcome.verdict is not Verdict.PLACED)
    words += [f"{count:,} × {said}" for said, count in refusals.items()]
    says = ", ".join(words) or "nothing"
    different = [
        f"{name} {expected:,}"
        for name, count, expected in zip(Wanted._fields, found, wanted, strict=True)
        if name != "action" and expected is not None and count != expected
    ]
    assert not different, f"{says}; wanted {', '.join(different)}"
    actions = {eviction.action for eviction in plan.evictions}
    assert not wanted.action or actions <= {wanted.action}, f"{says}; by {sorted(actions)}"
    faults = wrong_with(plan)
    assert not faults, f"{says}; {faults[0]}"
    return says


def _said(outcome: Outcome) -> str:
    return " ".join([outcome.verdict.value, *(reason.code for reason in outcome.reasons[:1])])


def wrong_with(plan: Plan) -> list[str]:
    """The books done again: nodes hold what they get, nobody goes twice, and who is evicted for gets its room."""
    snapshot, faults = plan.snapshot, []
    room = snapshot.free + snapshot.releasing
    gone = set()
    for eviction in plan.evictions:
        placed = snapshot.gangs[eviction.gang].placed[eviction.leaf]
        ask = snapshot.asks[placed.shapes[eviction.pod]]
        room[placed.nodes[eviction.pod]] += ask
        if eviction.to != NONE:
            room[eviction.to] -= ask
        if eviction[:3] in gone:
            faults.append(f"{placed.pods[eviction.pod]} goes twice")
        gone.add(eviction[:3])
    helped = set()
    for placement in plan.placements:
        helped.add(placement.gang)
        ask = snapshot.asks[snapshot.gangs[placement.gang].waiting[placement.batch].shape]
        for where in placement.nodes:
            room[where] -= ask
    short = np.flatnonzero((room < 0).any(axis=1))
    faults += [f"too much on {snapshot.nodes[row]}" for row in short[:1]]
    for beneficiary in {eviction.beneficiary for eviction in plan.evictions if eviction.action != Action.STALE}:
        if beneficiary not in helped:
            faults.append("somebody goes for nobody")
    return faults


def in_one_rack(plan: Plan, racks: int) -> None:
    """Node i is in rack i mod racks."""
    used = {int(plan.snapshot.nodes[row][1:]) % racks for placement in plan.placements for row in placement.nodes}
    assert len(used) <= 1, f"one gang in racks {sorted(used)}"


def cycle(make: Callable[[], Scene], wanted: Wanted, racks: int = 0) -> Run:
    """The timed part starts with arrays that nobody has looked at and ends with a checked plan."""
    fresh = Fresh(make(), NOW_NS)

    def says(plan: Plan) -> str:
        said = came_of(plan, wanted)
        if racks:
            in_one_rack(plan, racks)
        return said

    return Run(lambda snapshot: schedule(snapshot)[0], fresh.snapshot, says)


def comes(full: Full, coming: Coming, wanted: Wanted) -> Run:
    """A cluster that runs and has been looked at; then one gang comes. Only the cycle is timed, with its memory."""
    world = world_of(contention.contended(full, coming._replace(gangs=0)))
    gang = [found for found in contention.contended(full, coming).objects if found.metadata.name.startswith("team-")]
    builder = Builder(world)
    memory = schedule(builder.build(NOW_NS))[1]

    def come() -> Snapshot:
        for deleted in (True, False):
            for found in gang:
                world.apply(found, deleted=deleted)
        return builder.build(NOW_NS)

    return Run(lambda snapshot: schedule(snapshot, None, memory)[0], come, lambda plan: came_of(plan, wanted))


def cycle_after(make: Callable[[], Scene], wanted: Wanted) -> Run:
    """The cycle after one that evicted: its victims terminate, its nominations are written."""
    fresh = Fresh(make(), NOW_NS)
    contention.carry_out(fresh.world, schedule(fresh.snapshot())[0])
    return Run(lambda snapshot: schedule(snapshot)[0], fresh.snapshot, lambda plan: came_of(plan, wanted))


def cases() -> Iterator[Case]:
    """All measurements of queues and evictions."""
    yield from _reclaims()
    yield from _refusals()
    yield from _rest()


def _case(
    what: str,
    scene: Callable[[], Scene],
    wanted: Wanted,
    target_s: float | None = None,
    *,
    count: int = 1,
    unit: str = "",
    racks: int = 0,
) -> Case:
    return Case(what, functools.partial(cycle, scene, wanted, racks), count, unit, target_s, section=SECTION)


def _contended(full: Full, coming: Coming) -> Callable[[], Scene]:
    return functools.partial(contention.contended, full, coming)


def _reclaims() -> Iterator[Case]:
    for nodes in (500, 1000):
        scene = _contended(Full(nodes), Coming(1, nodes // 2, 8))
        what = f"KAI reclaim: {nodes:,} nodes, {nodes * 8:,} single-GPU jobs, a gang {nodes // 2} × 8 GPUs"
        wanted = Wanted(0, nodes // 2, nodes * 4, action=Action.RECLAIM)
        yield _case(what, scene, wanted, 0.1, count=nodes * 4, unit="victims")
    scene = _contended(Full(500), Coming(1, 250, 8))
    what = "the cycle after it at 500 nodes, while 2,000 victims terminate"
    yield Case(what, functools.partial(cycle_after, scene, Wanted(0, 250, 0)), section=SECTION)
    wanted = Wanted(0, 4000, 4000, action=Action.RECLAIM)
    scene = _contended(Full(500), Coming(4000, 1, 1))
    what = "KAI reclaim: 500 nodes, 4,000 single-GPU jobs for as many others"
    yield _case(what, scene, wanted, 1.0, count=4000, unit="victims")
    one = Wanted(0, 1, 1, action=Action.RECLAIM)
    yield _case("KAI reclaim: one single-GPU job among 4,000", _contended(Full(500), Coming(1, 1, 1)), one)
    run = functools.partial(comes, Full(500), Coming(1, 1, 1), one)
    yield Case("the same when the rest has been looked at before", run, section=SECTION)
    scene = _contended(Full(500), Coming(50, 10, 5))
    wanted = Wanted(0, 500, 2500, action=Action.RECLAIM)
    what = "KAI reclaim: 500 nodes, 4,000 single-GPU jobs, 50 gangs × 10 × 5 GPUs"
    yield _case(what, scene, wanted, 0.5, count=2500, unit="victims")
    scene = _contended(Full(500, victim_gpus=8), Coming(1, 500, 8))
    wanted = Wanted(0, 500, 500, action=Action.RECLAIM)
    yield _case("KAI reclaim: 500 nodes, 500 jobs of 8 GPUs, a gang 500 × 8 GPUs", scene, wanted)
    scene = _contended(Full(500, spare=5, one_queue=True), Coming(41, 10, 6))
    wanted = Wanted(0, 410, 0, 410, action=Action.CONSOLIDATE)
    what = "KAI consolidation: 500 nodes with 5 free GPUs each, 41 gangs × 10 × 6 GPUs"
    yield _case(what, scene, wanted, 1.0, count=410, unit="moves")


def _refusals() -> Iterator[Case]:
    """The victims' queue is over its quota by 79, or by the 80 GPUs that are asked for."""
    refused = Wanted(0, 0, 0, refused=1)
    room = Wanted(0, 10, 80, action=Action.RECLAIM)
    for over, wanted in ((79, refused), (80, room)):
        full = Full(500, fill_quota=4000 - over, team_quota=80)
        target_s = 0.010 if wanted is refused else None
        says = "no" if wanted is refused else "yes"
        what = f"KAI unschedulable: 500 nodes, a gang 10 × 8 GPUs, {over} may be taken: {says}"
        coming = Coming(1, 10, 8)
        yield _case(what, _contended(full, coming), wanted, target_s)
        run = functools.partial(comes, full, coming, wanted)
        yield Case(f"{what}, the rest looked at before", run, target_s=target_s, section=SECTION)
        scene = _contended(full._replace(racks=12), coming._replace(level="rack"))
        yield _case(f"{what}, one of 12 racks required", scene, wanted, target_s, racks=12)


def _rest() -> Iterator[Case]:
    make = functools.partial
    mixed = make(workloads.kai_go, running=Running.EVERY_SECOND)
    scene = make(mixed, 100, 500)
    yield _case("KAI Go FullCycle Large: 100 nodes, 250 of 500 jobs run", scene, Wanted(250, 0, 0), count=1)
    scene = make(mixed, 50, 200, queues=20, departments=5)
    yield _case("KAI Go ManyQueues: 50 nodes, 100 of 200 jobs run, 20 queues", scene, Wanted(100, 0, 0))
    wanted = Wanted(0, 200, 200, action=Action.RECLAIM)
    what = "50 full nodes, 20 queues in 5 departments: 10 of them take back their quota"
    yield _case(what, make(contention.departments, 50), wanted, count=200, unit="victims")
    wanted = Wanted(0, 400, 400, action=Action.PREEMPT)
    what = "100 full nodes, 4 queues: 400 jobs of a higher priority preempt"
    yield _case(what, make(contention.priorities, 100), wanted, count=400, unit="victims")
    wanted = Wanted(4000, 0, 0)
    what = "KAI fill: 500 nodes, 4,000 single-GPU jobs, 1,000 queues in three levels"
    yield _case(what, make(contention.fill_of_thousand, 500), wanted, count=4000, unit="pods")
    yield Case("fair shares of 1,000 queues in three levels", shares, 1000, "queues", section=SECTION)
    broken = Broken(1000)
    yield Case("stale: 1,000 gangs × 4, 100 of them broken", make(reap, broken), 1000, "gangs", section=SECTION)


def shares() -> Run:
    """Only the shares, out of what queues are due and what they ask for."""
    gpus = 4000
    scene = Scene([*contention.thousand_queues(gpus), *workloads.kwok_nodes(gpus // 8)], 0, 0)
    queues = Builder(world_of(scene)).build(NOW_NS).queues
    capacity = tuple(gpus if charge == "gpu" else 10**15 for charge in CHARGES)
    demand = [[0] * len(CHARGES) for _ in queues.names]
    for number, name in enumerate(contention.leaf_queues()):
        demand[queues.row_of[name]] = [number * 7 % 13 * unit for unit in (1000, 10**9, 1)]

    def says(found: list[tuple[int, ...]]) -> str:
        gpu = CHARGES.index("gpu")
        top = sum(share[gpu] for share, parent in zip(found, queues.parent_of, strict=True) if parent == NONE)
        leaves = [(found[queues.row_of[name]][gpu], queues.row_of[name]) for name in contention.leaf_queues()]
        total = sum(share for share, _ in leaves)
        assert all(share <= demand[row][gpu] for share, row in leaves), "more than is asked for"
        assert all(share <= queues.limit[row, gpu] for share, row in leaves), "more than the limit"
        assert total <= top <= gpus, f"{total:,} of {top:,} of {gpus:,} GPUs"
        served = sum(share > 0 for share, _ in leaves)
        return (
            f"{total:,} of {gpus:,} GPUs to {served} of {len(leaves)} leaves, {sum(row[gpu] for row in demand):,} asked"
        )

    return Run(lambda _: fair_shares(queues, capacity, demand), says=says)


def reap(broken: Broken) -> Run:
    """Gangs that have been broken for too long go, the clocks of the others start."""
    fresh = Fresh(contention.stale(broken), NOW_NS)
    gone = sum(map(broken.lost_long_ago, range(broken.gangs)))
    started = sum(map(broken.lost_pod, range(broken.gangs))) - gone

    def says(plan: Plan) -> str:
        said = came_of(plan, Wanted(0, 0, gone * (broken.size - 1), action=Action.STALE))
        clocks = sum(outcome.rows[0].stale_since_ns == NOW_NS for outcome in plan.outcomes)
        assert clocks == started, f"{said}; {clocks} clocks started, wanted {started}"
        return f"{said}, {clocks} clocks started"

    return Run(lambda snapshot: schedule(snapshot)[0], fresh.snapshot, says)
