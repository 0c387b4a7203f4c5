"""A seed becomes a story: a small cluster, those who want room in it, what happens, and what goes wrong.

Every other seed draws from everything (`dice.SHARES` and the tables that it names); the rest have one theme each, in
turn. Each part has its own stream of chance, so that a new ingredient in one of them leaves the others as they were.
"""

from collections.abc import Mapping

from muster.sim.drawing.cluster import classes, nodes, queues, rules_of_queues, strangers
from muster.sim.drawing.dice import Dice
from muster.sim.drawing.draft import Draft
from muster.sim.drawing.happenings import HAPPENINGS, TROUBLES, Kind, opens_gates, renewals_are_lost
from muster.sim.drawing.sets import sets
from muster.sim.drawing.themes import THEMES, Theme, worsen
from muster.sim.drawing.weather import faults
from muster.sim.drawing.workloads import fill, keep_together
from muster.sim.story import Story


def theme_of(seed: int) -> Theme | None:
    """What the story of a seed is about; None: about everything."""
    return THEMES[seed // 2 % len(THEMES)] if seed % 2 else None


def story_of(seed: int) -> Story:
    """The story of a seed: always the same one."""
    theme = theme_of(seed)
    dice = Dice(seed, "story")
    draft = Draft(seed, theme=theme.name if theme else "everything")
    draft.lasts = float(dice.whole(50, 150))
    draft.lost_after = dice.one_of([4.0, 10.0, 20.0, 40.0])
    draft.latency = dice.one_of([0.001, 0.002, 0.005, 0.02, 0.1])
    draft.harshness = 0.0 if dice.has("pure") else dice.between(0.1, 1.0)
    if dice.has("two namespaces"):
        draft.namespaces.append("team")
    _processes(dice, draft, theme)
    nodes(Dice(seed, "nodes"), draft)
    queues(Dice(seed, "queues"), draft)
    rules_of_queues(Dice(seed, "rules of queues"), draft)
    _workloads(Dice(seed, "workloads"), draft, theme)
    keep_together(Dice(seed, "keep"), draft)
    classes(draft)
    strangers(Dice(seed, "strangers"), draft)
    if dice.likely(theme.sets) if theme is not None else dice.has("a StatefulSet"):
        sets(Dice(seed, "sets"), draft)
    _happenings(Dice(seed, "happenings"), draft, theme)
    _weather(Dice(seed, "weather"), draft, theme)
    _leading(Dice(seed, "leading"), draft)
    return draft.story()


def _processes(dice: Dice, draft: Draft, theme: Theme | None) -> None:
    if theme is not None and theme.processes[1] > 1:
        draft.processes = dice.whole(*theme.processes)
    elif dice.has("several processes"):
        draft.processes = dice.whole(2, 3)
    draft.elects = draft.processes > 1 or dice.has("one process with a Lease")


def _workloads(dice: Dice, draft: Draft, theme: Theme | None) -> None:
    if theme is None:
        fill(dice, draft, dice.between(0.5, 1.6))
        return
    fill(dice, draft, dice.between(*theme.pressure), theme.trees)
    for name, workload in draft.workloads.items():
        draft.workloads[name] = theme.change(dice, workload)
        wanted = (draft.workloads[name].gang or {}).get("priorityClassName", "unknown")
        if wanted not in (*draft.classes, "unknown"):
            draft.classes.append(wanted)


def _happenings(dice: Dice, draft: Draft, theme: Theme | None) -> None:
    some: Mapping[Kind, float] = theme.happens if theme is not None else HAPPENINGS
    for _ in range(dice.whole(2, theme.times if theme is not None else 9)):
        dice.weighted(some)(dice, draft)
    opens_gates(dice, draft)
    for _ in range(round(draft.harshness * dice.whole(0, 5))):
        dice.weighted(TROUBLES)(dice, draft)


def _weather(dice: Dice, draft: Draft, theme: Theme | None) -> None:
    if not draft.harshness:
        return
    if theme is not None:
        worsen(dice, draft, theme)
    if theme is None or dice.likely(0.4):
        faults(dice, draft)


def _leading(dice: Dice, draft: Draft) -> None:
    """Where several processes may lead, it is often hard to say for how long."""
    if draft.harshness and draft.processes > 1 and dice.likely(0.6):
        renewals_are_lost(dice, draft)
