"""Draws faults: what can go wrong with each request, each watch and each write, and how often at the worst."""

from typing import NamedTuple

from muster.sim.drawing.dice import Dice
from muster.sim.drawing.draft import Draft
from muster.sim.story import Does, Fault, Point


class Hazard(NamedTuple):
    """A fault and its worst: the chance per passing, the seconds, the codes of which one is drawn."""

    point: Point
    does: Does
    chance: float
    codes: tuple[int, ...] = (0,)
    seconds: float = 0.0


# Every point of a story is here, with all that can happen there.
HAZARDS = (
    Hazard("bind", "refuse", 0.9, (403, 409, 429, 500, 503)),
    Hazard("bind", "lose", 0.3, seconds=3),
    Hazard("bind", "lose", 0.15),
    Hazard("bind", "swallow", 0.6, (0, 409, 500, 504)),
    Hazard("bind", "delay", 0.6, seconds=4),
    Hazard("bind", "late", 0.6, seconds=6),
    Hazard("evict", "refuse", 0.8, (429, 500, 503)),
    Hazard("evict", "lose", 0.8, seconds=3),
    Hazard("evict", "swallow", 0.8, (0, 409, 429, 500, 504)),
    Hazard("evict", "delay", 0.8, seconds=4),
    Hazard("evict", "late", 0.8, seconds=6),
    Hazard("status", "refuse", 0.3, (409, 429, 500, 503)),
    Hazard("status", "lose", 0.2, seconds=3),
    Hazard("status", "swallow", 0.4, (0, 409, 500)),
    Hazard("status", "delay", 0.4, seconds=5),
    Hazard("status", "late", 0.4, seconds=6),
    Hazard("create", "refuse", 0.8, (409, 429, 500)),
    Hazard("create", "lose", 0.8, seconds=3),
    Hazard("create", "swallow", 0.8, (0, 409, 500)),
    Hazard("create", "delay", 0.8, seconds=4),
    Hazard("patch", "refuse", 0.4, (409, 429, 500)),
    Hazard("patch", "lose", 0.3, seconds=3),
    Hazard("patch", "swallow", 0.5, (0, 409, 500)),
    Hazard("patch", "delay", 0.4, seconds=4),
    Hazard("delete", "refuse", 1.0, (409, 500)),
    Hazard("delete", "swallow", 1.0, (0, 500)),
    Hazard("event", "refuse", 0.5, (403, 429, 500)),
    Hazard("event", "lose", 0.3, seconds=3),
    Hazard("lease", "refuse", 0.3, (409, 500, 503)),
    Hazard("lease", "lose", 0.3, seconds=3),
    Hazard("lease", "swallow", 0.3, (0, 500)),
    Hazard("lease", "late", 0.3, seconds=14),
    Hazard("lease", "delay", 0.3, seconds=14),
    Hazard("get", "refuse", 0.4, (429, 500, 503)),
    Hazard("get", "lose", 0.3, seconds=3),
    Hazard("get", "late", 0.4, seconds=6),
    Hazard("list", "refuse", 0.4, (410, 429, 500, 503)),
    Hazard("list", "lose", 0.3, seconds=3),
    Hazard("list", "late", 0.4, seconds=6),
    Hazard("open", "refuse", 0.5, (410, 429, 500)),
    Hazard("open", "lose", 0.2, seconds=3),
    Hazard("watch", "late", 0.4, seconds=12),
    Hazard("watch", "cut", 0.15),
    Hazard("watch", "repeat", 0.5),
    Hazard("watch", "gone", 0.1),
    Hazard("watch", "silent", 0.06, seconds=25),
    Hazard("write", "crash", 0.03, (0, 1)),
)
PLURALS = ("", "", "", "pods", "podgroups", "nodes")


def faults(dice: Dice, draft: Draft) -> None:
    """A few of them in mild weather, most of them in harsh."""
    wanted = 2 + round(draft.harshness * dice.whole(4, 26))
    for hazard in dice.some_of(HAZARDS, wanted):
        draft.faults.append(fault(dice, draft, hazard, draft.harshness * dice.between(0.2, 1)))
    if dice.likely(0.3 * draft.harshness):
        draft.faults.append(crash(dice))


def fault(dice: Dice, draft: Draft, hazard: Hazard, strength: float) -> Fault:
    """One of them, at a part of its worst; all the time, or only for a while."""
    since, until = 0.0, None
    if dice.likely(0.3):
        since = dice.between(0, draft.lasts * 0.7)
        until = round(since + dice.between(1, 40), 2)
    return Fault(
        point=hazard.point,
        does=hazard.does,
        chance=round(hazard.chance * strength, 3),
        code=dice.one_of(hazard.codes),
        seconds=round(hazard.seconds * dice.between(0.1, 1), 2),
        since=since,
        until=until,
        plural=dice.one_of(PLURALS) if hazard.point == "watch" else "",
        process=0 if draft.processes > 1 and dice.likely(0.3) else None,
    )


def crash(dice: Dice) -> Fault:
    """A crash before or after one write, whichever it is."""
    nth = min(dice.whole(1, 60), dice.whole(1, 60))
    return Fault(point="write", does="crash", nth=nth, code=dice.whole(0, 1))


def hazards(*wanted: str) -> list[Hazard]:
    """Those of a point, or of a point and what it does: `bind`, `bind lose`."""
    found = [one for one in HAZARDS if {one.point, f"{one.point} {one.does}"} & set(wanted)]
    assert found, wanted
    return found
