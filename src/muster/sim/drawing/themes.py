"""Themes: every other story is about one thing, with all that makes it hard. Concentrated mixes find what broad miss.

A theme is one entry of a table: which trees, which happenings how often, which faults, how full the cluster is, and
what else is changed about the workloads.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from muster.sim.drawing import happenings as h
from muster.sim.drawing import trees as t
from muster.sim.drawing.dice import Dice
from muster.sim.drawing.draft import Draft
from muster.sim.drawing.weather import crash, fault, hazards
from muster.sim.story import Workload

Change = Callable[[Dice, Workload], Workload]


class Theme(NamedTuple):
    """What a story is about.

    The first of the `hazards` is always there, some of the others are. So many of `happens` come, two at least.
    """

    name: str
    hazards: tuple[str, ...]
    happens: Mapping[h.Kind, float]
    times: int = 6
    trees: Mapping[t.Form, float] | None = None
    pressure: tuple[float, float] = (0.6, 1.1)
    processes: tuple[int, int] = (1, 1)
    crashes: int = 0
    sets: float = 0.0
    change: Change = lambda dice, workload: workload


def _with(workload: Workload, spec: dict[str, Any] | None = None, **changes: Any) -> Workload:
    if workload.gang is not None and spec:
        changes["gang"] = {**workload.gang, **spec}
    return msgspec.structs.replace(workload, **changes)


def impatient(dice: Dice, workload: Workload) -> Workload:
    """Stale after a few seconds."""
    return _with(workload, {"stalenessGracePeriod": dice.one_of(["0s", "3s", "5s", "10s"])}, makes_anew=True)


def finishing(dice: Dice, workload: Workload) -> Workload:
    """Its pods end one after the other, and what is left is soon stale if anybody counts wrongly."""
    found = impatient(dice, workload)
    return _with(found, run_for=dice.between(4, 40) if dice.likely(0.6) else None, exit=0)


def slow_to_go(dice: Dice, workload: Workload) -> Workload:
    """Whoever is evicted takes its time, so that room is nominated."""
    levels = [{"priorityClassName": name} for name in ("train", "train", "build-preemptible", "inference")]
    return _with(workload, dice.one_of(levels) | {"preemptibility": "preemptible"}, grace=dice.whole(4, 25))


def sought_after(dice: Dice, workload: Workload) -> Workload:
    """Priorities differ and most can be evicted."""
    found = {"priorityClassName": dice.one_of(["train", "build-preemptible", "build", "inference"])}
    found["preemptibility"] = dice.one_of(["preemptible", "preemptible", "semi-preemptible"])
    return _with(workload, found)


def bereft(dice: Dice, workload: Workload) -> Workload:
    """What it loses it may never get back, and its clock runs for a while."""
    found = {"stalenessGracePeriod": dice.one_of(["5s", "10s", "20s", "30s"])}
    return _with(workload, found, makes_anew=dice.likely(0.5), run_for=None)


def movable(dice: Dice, workload: Workload) -> Workload:
    """Small ones that can be moved, and gangs that need a whole domain."""
    return _with(workload, {"preemptibility": "preemptible"}, run_for=None)


def same_names(dice: Dice, workload: Workload) -> Workload:
    """Successors have the names of those before them, and come at once."""
    return _with(workload, same_names=True, makes_anew=True, pace=0.0, grace=0)


def plain(dice: Dice, workload: Workload) -> Workload:
    """A Job instead of a gang."""
    if workload.gang is None or dice.likely(0.25):
        return workload
    count = max(1, min(6, sum(workload.pods.values())))
    said = {"kai.scheduler/batch-min-member": str(dice.whole(1, count))}
    return _with(workload, gang=None, pods={"": count}, annotations=said)


_LOSS: Mapping[h.Kind, float] = {h.breaks: 3, h.removes: 3, h.fails: 2, h.vanishes: 1}
_GROW: Mapping[t.Form, float] = {t.elastic: 4, t.replicas: 4, t.disaggregated: 3, t.nested: 2, t.floor: 1}

THEMES = (
    Theme(
        "lost binds",
        ("bind swallow", "bind lose", "bind late", "get"),
        {h.removes: 1, h.scales: 1},
        times=2,
        pressure=(0.9, 1.3),
    ),
    Theme(
        "fail-over mid-gang",
        ("lease", "bind delay", "bind late"),
        {h.pauses: 4, h.crashes: 4, h.restarts: 2},
        processes=(2, 3),
        crashes=2,
        pressure=(0.8, 1.2),
    ),
    Theme(
        "late watches before an eviction",
        ("watch late", "watch silent", "bind swallow", "status late"),
        _LOSS,
        times=4,
        change=impatient,
    ),
    Theme(
        "nodes die mid-bind",
        ("bind delay", "bind late", "watch late"),
        {h.fails: 4, h.vanishes: 4, h.is_cordoned: 2, h.fails_with_its_rack: 1, h.shrinks: 1},
    ),
    Theme(
        "relabelled",
        ("bind delay", "watch late"),
        {h.is_relabelled: 3, h.drifts: 4, h.removes: 2, h.the_topology_goes: 1},
        times=8,
        trees={t.replicas: 3, t.nested: 3, t.flat: 2, t.leader: 2},
    ),
    Theme(
        "finishing gangs", ("watch late", "watch gone", "bind late"), {h.finishes: 3, h.removes: 1}, change=finishing
    ),
    Theme(
        "elastic under pressure",
        ("evict", "bind delay"),
        {h.scales: 4, h.another_queue: 1, h.a_queue_changes: 1},
        trees=_GROW,
        pressure=(1.0, 1.5),
        change=sought_after,
    ),
    Theme(
        "grouper under faults",
        ("create", "patch", "delete", "open", "list", "get refuse"),
        {h.scales: 3, h.is_deleted: 3, h.removes: 1},
        crashes=1,
        sets=0.6,
        change=plain,
    ),
    Theme(
        "gangs that retire",
        ("delete", "list late", "watch late"),
        {h.scales: 1, h.is_deleted: 1, h.crashes: 1},
        times=3,
        crashes=1,
        sets=1.0,
        pressure=(0.4, 0.7),
    ),
    Theme(
        "tree repair",
        ("bind refuse", "watch late"),
        _LOSS,
        times=8,
        trees={t.nested: 4, t.replicas: 3, t.disaggregated: 3, t.deep: 3, t.floor: 1},
        pressure=(0.5, 0.9),
    ),
    Theme(
        "nothing to repair with",
        ("status", "evict", "watch late"),
        {h.breaks: 3, h.removes: 3, h.fails: 2, h.crashes: 2, h.restarts: 1, h.jumps: 1},
        times=7,
        pressure=(0.9, 1.3),
        change=bereft,
    ),
    Theme(
        "room that comes free slowly",
        ("evict late", "status", "watch late"),
        {h.crashes: 1, h.removes: 1, h.is_deleted: 1, h.scales: 1},
        times=3,
        pressure=(1.2, 1.8),
        change=slow_to_go,
    ),
    Theme(
        "moving house",
        ("evict late", "bind late", "status swallow"),
        {h.removes: 2, h.finishes: 1, h.crashes: 1, h.is_cordoned: 1},
        trees={t.elastic: 4, t.flat: 4, t.leader: 2},
        pressure=(0.7, 1.0),
        change=movable,
    ),
    Theme(
        "the same names",
        ("bind delay", "bind swallow", "evict delay", "evict swallow", "watch late"),
        {h.removes: 4, h.removes_all: 2, h.breaks: 2, h.is_deleted: 2},
        times=9,
        change=same_names,
    ),
    Theme(
        "lost history",
        ("watch gone", "watch cut", "watch repeat", "open", "list"),
        {h.forgets: 3, h.is_cut: 2, h.is_away: 3, h.removes: 1, h.fails: 1},
        times=8,
    ),
    Theme(
        "rules change",
        ("status", "watch late"),
        {h.another_minimum: 3, h.another_child: 2, h.another_queue: 2, h.a_queue_changes: 3, h.the_topology_goes: 1},
        times=9,
        pressure=(0.8, 1.3),
    ),
    Theme(
        "a leader that sleeps",
        ("bind delay", "evict delay", "status delay"),
        {h.pauses: 5, h.jumps: 2, h.removes: 1, h.fails: 1},
        processes=(2, 2),
        pressure=(0.9, 1.4),
        change=impatient,
    ),
)


def worsen(dice: Dice, draft: Draft, theme: Theme) -> None:
    """The faults of a theme: the first that it names and some others, at a good part of their worst; and crashes."""
    first, others = hazards(theme.hazards[0]), hazards(*theme.hazards)
    meant = [dice.one_of(first), *dice.some_of(others, dice.whole(0, 3))]
    for hazard in meant:
        draft.faults.append(fault(dice, draft, hazard, dice.between(0.3, 1)))
    for _ in range(theme.crashes):
        draft.faults.append(crash(dice))
