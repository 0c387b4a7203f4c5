"""What came of a story in figures: how long gangs waited, what they lost, what queues had, what went wrong."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from muster.embedded.store import Change
from muster.sim.expecting import GANG, was_evicted
from muster.sim.story import Story
from muster.sim.trace import Outcome

Document = dict[str, Any]
SCHEDULED, STALE, PENDING, COMPLETED = "Scheduled", "Stale", "Pending", "Completed"
_GROUPS, _QUEUES = "podgroups.scheduling.run.ai", "queues.scheduling.run.ai"
# The rules that can be broken in a simulation, in few words: these, and no others.
RULES = {
    "claim": "what the file expects of a step",
    "S1": "no node holds more than it has",
    "S2": "no pod is bound twice, and none but the one that was meant",
    "S3": "pods that belong together are bound into one domain",
    "S5": "no eviction breaks a minimum, and none takes a core",
    "S6": "nobody is evicted by what was seen long ago, or past budgets",
    "S7": "no queue gets more than its limit, nor its core more than its quota",
    "S8": "nothing is written without the Lease",
    "S9": "pods of other schedulers are never written to",
    "L1": "no gang holds room below its minimum for longer than its grace period",
    "L2": "a gang that fits is placed",
    "L3": "no pod is sent to nodes again and again, many times a second",
    "L5": "no room is reserved for ever",
    "L6": "muster comes to rest: nothing happens, so nothing is written",
    "U1": "a status says what is so",
    "D1": "the same story always happens in the same way",
    "defect": "a process never ends by itself",
    "hang or crash": "a seed has an outcome",
    "§4": "of an invalid gang nothing is placed",
    "§5.4": "surplus is placed whole, child by child",
    "§6": "what is core stays core while it is satisfied",
    "§8": "no pod is evicted that may not be: one of no gang",
    "§11.2": "no pod is sent where its shape forbids",
    "§11.13": "no pod is bound where the anti-affinity of another forbids it",
    "§11.4": "no bind is sent for a gang that is not satisfied after it",
    "§11.5": "what is satisfied stays so, or goes whole; no core is evicted",
    "§11.6": "nobody is evicted without a beneficiary that then fits",
}


@dataclass
class GangFigures:
    """What became of one gang."""

    name: str
    queue: str
    came_s: float
    gone_s: float | None = None
    # When its minimum was placed for the first time; how often that was; how long it had to be mended.
    placed_s: float | None = None
    placed: int = 0
    below_s: float = 0.0
    bound: int = 0
    evicted: int = 0
    # Since when it is in which state: (second, phase, reason).
    states: list[tuple[float, str, str]] = field(default_factory=list)
    status: Document = field(default_factory=dict)

    def waited_s(self, end_s: float) -> float:
        """From its coming until its minimum was placed, or until the end."""
        until_s = self.placed_s if self.placed_s is not None else self.gone_s
        return (end_s if until_s is None else until_s) - self.came_s

    def document(self, end_s: float) -> Document:
        """As data."""
        return {
            "name": self.name,
            "queue": self.queue,
            "cameAt": round(self.came_s, 3),
            "waited": round(self.waited_s(end_s), 3),
            "placed": self.placed,
            "placedAt": None if self.placed_s is None else round(self.placed_s, 3),
            "belowMinimum": round(self.below_s, 3),
            "bound": self.bound,
            "evicted": self.evicted,
            "phase": self.status.get("phase", "") if self.gone_s is None else "Gone",
            "pods": self.status.get("podsSummary", ""),
            "reason": self.status.get("reason", ""),
            "message": ((self.status.get("subGroups") or [{}])[0]).get("message", ""),
        }


class Point(NamedTuple):
    """What a queue had of gpu, and what it was due."""

    at_s: float
    allocated: float
    fair_share: float
    requested: float


class Figures:
    """Counts while a story is played: `follow` of play."""

    def __init__(self) -> None:
        self.gangs: dict[str, GangFigures] = {}
        self.queues: dict[str, list[Point]] = {}

    def change(self, at_s: float, who: str, change: Change) -> None:
        """An object came, changed or went."""
        resource = change.key.resource
        if resource == _GROUPS:
            self._gang(at_s, change)
        elif resource == "pods":
            self._pod(change)
        elif resource == _QUEUES:
            self._queue(at_s, change)

    def _gang(self, at_s: float, change: Change) -> None:
        name, document = f"{change.key.namespace}/{change.key.name}", change.document
        if change.type == "ADDED":
            # Of one that comes again the figures go on.
            queue = document.get("spec", {}).get("queue", "")
            self.gangs.setdefault(name, GangFigures(name, queue, at_s)).gone_s = None
        gang = self.gangs[name]
        if change.type == "DELETED":
            self._state(gang, at_s, "", "")
            gang.gone_s = at_s
            return
        gang.status = document.get("status") or {}
        phase, reason = gang.status.get("phase") or PENDING, gang.status.get("reason") or ""
        if not gang.states or gang.states[-1][1:] != (phase, reason):
            self._state(gang, at_s, phase, reason)

    def _state(self, gang: GangFigures, at_s: float, phase: str, reason: str) -> None:
        before = gang.states[-1] if gang.states else (at_s, "", "")
        if before[1] == STALE:
            gang.below_s += at_s - before[0]
        if phase == SCHEDULED and before[1] not in (SCHEDULED, COMPLETED):
            gang.placed += 1
            gang.placed_s = at_s if gang.placed_s is None else gang.placed_s
        gang.states.append((at_s, phase, reason))

    def _pod(self, change: Change) -> None:
        new, old = change.document, change.before or {"metadata": {}}
        name = f"{change.key.namespace}/{(new['metadata'].get('annotations') or {}).get(GANG, '')}"
        gang = self.gangs.get(name)
        if gang is None:
            return
        leaves = change.type == "DELETED" or new["metadata"].get("deletionTimestamp")
        if leaves and was_evicted(new) and not old["metadata"].get("deletionTimestamp"):
            gang.evicted += 1
        is_bound = change.type == "MODIFIED" and (new.get("spec") or {}).get("nodeName")
        gang.bound += bool(is_bound and not (old.get("spec") or {}).get("nodeName"))

    def _queue(self, at_s: float, change: Change) -> None:
        status = change.document.get("status") or {}
        told = [_gpus(status.get(field) or {}) for field in ("allocated", "fairShare", "requested")]
        points = self.queues.setdefault(change.key.name, [])
        if change.type != "DELETED" and (not points or list(points[-1][1:]) != told):
            points.append(Point(at_s, *told))

    def end(self, at_s: float) -> None:
        """The story is over."""
        for gang in self.gangs.values():
            if gang.states and gang.states[-1][1] == STALE:
                gang.below_s += at_s - gang.states[-1][0]


def _gpus(amounts: Document) -> float:
    return sum(float(value) for name, value in amounts.items() if name.rpartition("/")[2] == "gpu")


def _never_struck(story: Story, outcome: Outcome) -> list[str]:
    """Faults that were sure to strike at some passing, and did not: nobody passed there, or not so often."""
    sure = [one for one in story.faults if one.nth is not None or one.chance == 1]
    idle = [one for one in sure if not outcome.counts[f"fault {one.point} {one.does}"]]
    return [f"{one.point} {one.does}" + (f" (nth {one.nth})" if one.nth is not None else "") for one in idle]


def report_of(story: Story, outcome: Outcome, figures: Figures) -> Document:
    """All of it as one document."""
    counts = outcome.counts
    return {
        "claim": story.claim,
        "why": story.why,
        "seed": story.seed,
        "holds": not outcome.violations,
        "digest": outcome.digest,
        "virtualSeconds": round(outcome.virtual_s, 3),
        "violations": [
            {"at": round(one.at_s, 3), "rule": one.rule, "means": RULES.get(one.rule, ""), "says": one.says}
            for one in outcome.violations
        ],
        "gangs": [one.document(outcome.virtual_s) for _, one in sorted(figures.gangs.items())],
        "queues": {
            name: [
                {"at": round(one.at_s, 3), "allocated": one.allocated, "fairShare": one.fair_share} for one in points
            ]
            for name, points in sorted(figures.queues.items())
        },
        "steps": {"compared": counts["steps compared"], "leftOut": counts["steps left out"]},
        "neverStruck": _never_struck(story, outcome),
        "faults": {name.removeprefix("fault "): n for name, n in sorted(counts.items()) if name.startswith("fault ")},
        "counts": {name: n for name, n in sorted(counts.items()) if not name.startswith(("fault ", "steps "))},
    }
