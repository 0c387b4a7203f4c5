"""Queues as they are written, and what each is due (SPEC §7), in plain recursive words."""

from dataclasses import dataclass, field, replace
from datetime import datetime
from fractions import Fraction
from typing import Any

CHARGES = ("cpu", "memory", "gpu")
# Parts of a GPU: sevenths are whole numbers of them.
PARTS = 20_160
UNITS = {"cpu": 1, "memory": 10**6, "gpu": PARTS}
ENDLESS = 10**18
Charge = tuple[int, int, int]
NOTHING: Charge = (0, 0, 0)


def plus(one: Charge, other: Charge, sign: int = 1) -> Charge:
    """The sum, or the difference."""
    cpu, memory, gpu = (a + sign * b for a, b in zip(one, other, strict=True))
    return cpu, memory, gpu


def total(charges: Any) -> Charge:
    """The sum of many."""
    found = NOTHING
    for charge in charges:
        found = plus(found, charge)
    return found


def nanoseconds(time: str | None) -> int:
    """A time as Kubernetes writes it; 0 for none."""
    return int(datetime.fromisoformat(time).timestamp()) * 10**9 if time else 0


def seconds(duration: str | None) -> float:
    """A duration of plain numbers with ms, s, m or h; 0 for none."""
    if not duration or duration == "0":
        return 0
    sign, text = (-1, duration[1:]) if duration.startswith("-") else (1, duration.removeprefix("+"))
    found, number = 0.0, ""
    units = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}
    while text:
        length = next(at for at, letter in enumerate(text) if letter.isalpha())
        number, text = text[:length], text[length:]
        unit = "ms" if text.startswith("ms") else text[0]
        found, text = found + float(number) * units[unit], text.removeprefix(unit)
    return sign * found


@dataclass
class Queue:
    """One queue. `quota` and `limit` in base units."""

    name: str
    parent: str = ""
    priority: int = 100
    created: int = 0
    quota: Charge = (ENDLESS, ENDLESS, ENDLESS)
    limit: Charge = (ENDLESS, ENDLESS, ENDLESS)
    weight: tuple[Fraction, ...] = (Fraction(1),) * 3
    preempt_runtime: str | None = None
    reclaim_runtime: str | None = None
    namespaces: tuple[str, ...] = ("*",)
    ignores_budgets: bool = False


@dataclass
class Tree:
    """All queues by name; `broken` are those that hold their gangs because something above them is wrong."""

    queues: dict[str, Queue]
    written: bool
    broken: set[str] = field(default_factory=set)

    def path(self, name: str) -> list[str]:
        """A queue and all above it."""
        found = [name]
        while self.queues[found[-1]].parent:
            found.append(self.queues[found[-1]].parent)
        return found

    def children(self, name: str) -> list[Queue]:
        """The queues directly below one; below "", the top ones."""
        return [one for one in self.queues.values() if one.parent == name and one.name not in self.broken]

    def apart(self, one: str, other: str) -> tuple[list[str], list[str]]:
        """The paths of two queues, as far as they are not the same."""
        mine, theirs = self.path(one), self.path(other)
        return [name for name in mine if name not in theirs], [name for name in theirs if name not in mine]

    def runtime(self, name: str, which: str) -> float:
        """How long a minimum is safe: of the nearest queue that says so, in seconds."""
        stated = [getattr(self.queues[one], which) for one in self.path(name)]
        return next((seconds(one) for one in stated if one is not None), 0)

    def shares(self, capacity: Charge, demand: dict[str, Charge], piece: int = 1) -> dict[str, Charge]:
        """What every queue is due, when its own gangs hold and ask for `demand`; GPUs in whole pieces."""
        if piece > 1:
            queues = {
                name: replace(one, quota=_in_pieces(one.quota, piece), limit=_in_pieces(one.limit, piece))
                for name, one in self.queues.items()
            }
            asked = {name: _in_pieces(one, piece) for name, one in demand.items()}
            found_ = Tree(queues, self.written, self.broken).shares(_in_pieces(capacity, piece), asked)
            return {name: (cpu, memory, gpu * piece) for name, (cpu, memory, gpu) in found_.items()}
        wants: dict[str, list[int]] = {}

        def want(name: str) -> list[int]:
            below = [want(child.name) for child in self.children(name)]
            own = demand.get(name, NOTHING)
            sums = [own[at] + sum(one[at] for one in below) for at in range(3)]
            wants[name] = [min(sums[at], self.queues[name].limit[at]) for at in range(3)] if name else sums
            return wants[name]

        want("")
        found: dict[str, list[int]] = {"": list(capacity)}

        def divide(name: str) -> None:
            below = self.children(name)
            for child in below:
                found[child.name] = [0, 0, 0]
            for at in range(3):
                shares = _divided(below, found[name][at], {one.name: wants[one.name][at] for one in below}, at)
                for child, share in shares.items():
                    found[child][at] = share
            for child in below:
                divide(child.name)

        divide("")
        return {name: (share[0], share[1], share[2]) for name, share in found.items() if name}


def _in_pieces(amounts: Charge, piece: int) -> Charge:
    cpu, memory, gpu = amounts
    return cpu, memory, gpu if gpu == ENDLESS else gpu // piece


def _divided(queues: list[Queue], there: int, wants: dict[str, int], at: int) -> dict[str, int]:
    """One amount among siblings: guarantees first, the rest by priority, then by weight.

    A step divides what is left by a claim, up to a cap. Where that is not enough for all caps, there is a level at
    which min(claim * level, cap) adds up to what is left; what each gets there is rounded.
    """
    found = {one.name: 0 for one in queues}
    quota = {one.name: there if one.quota[at] == ENDLESS else one.quota[at] for one in queues}
    cap = {one.name: min(quota[one.name], one.limit[at], wants[one.name]) for one in queues}
    claim = {one.name: Fraction(quota[one.name]) for one in queues}
    claim |= {one.name: there * one.weight[at] for one in queues if one.quota[at] == ENDLESS}
    steps = [(claim, cap), ({name: Fraction(not one) for name, one in claim.items()}, cap)]
    for priority in sorted({one.priority for one in queues}, reverse=True):
        steps.append(({one.name: one.weight[at] for one in queues if one.priority == priority}, wants))
    for claims, caps in steps:
        names = [name for name, one in claims.items() if one > 0 and caps[name] > found[name]]
        needs = {name: caps[name] - found[name] for name in names}
        left = there - sum(found.values())
        exact = _level(left, {name: claims[name] for name in names}, needs)
        floors = {name: int(one) for name, one in exact.items()}
        open_ones = [one for one in queues if one.name in exact and floors[one.name] < needs[one.name]]
        open_ones.sort(key=lambda one: (floors[one.name] - exact[one.name], one.created, one.name))
        for name in names:
            found[name] += floors[name]
        for one in open_ones[: int(sum(exact.values())) - sum(floors.values())]:
            found[one.name] += 1
    return found


def _level(left: int, claims: dict[str, Fraction], needs: dict[str, int]) -> dict[str, Fraction]:
    """What each gets at the level at which all of what is left is given away."""
    if sum(needs.values()) <= left:
        return {name: Fraction(need) for name, need in needs.items()}

    def given(level: Fraction) -> Fraction:
        return sum((min(claims[name] * level, Fraction(need)) for name, need in needs.items()), Fraction(0))

    # Needs are met at these levels. Between the last one that there is enough for and the next, what is given grows
    # in proportion to the claims of those whose needs are not met.
    turns = sorted(need / claims[name] for name, need in needs.items())
    last = max((turn for turn in turns if given(turn) <= left), default=Fraction(0))
    growing = sum((claims[name] for name, need in needs.items() if need / claims[name] > last), Fraction(0))
    level = last + (left - given(last)) / growing
    return {name: min(claims[name] * level, Fraction(need)) for name, need in needs.items()}


def read_queues(documents: list[dict[str, Any]], used: set[str]) -> Tree:
    """The tree of queues; without any Queue, every name that is used is one without end."""
    written = [one for one in documents if one["kind"] == "Queue"]
    if not written:
        return Tree({name: Queue(name) for name in sorted(used)}, written=False)
    tree = Tree({one["metadata"]["name"]: _queue(one) for one in written}, written=True)
    for name in tree.queues:
        seen, at = [], name
        while at and at in tree.queues and at not in seen:
            seen.append(at)
            at = tree.queues[at].parent
        if at:
            tree.broken.add(name)
    return tree


def _queue(document: dict[str, Any]) -> Queue:
    metadata, spec = document["metadata"], document.get("spec", {})
    amounts: dict[str, list[Any]] = {"quota": [], "limit": [], "overQuotaWeight": []}
    for charge in CHARGES:
        resource = spec.get("resources", {}).get(charge)
        for name, usual in (("quota", 0), ("limit", -1)):
            stated = -1 if resource is None else resource.get(name, usual)
            amounts[name].append(ENDLESS if stated == -1 else int(Fraction(str(stated)) * UNITS[charge]))
        amounts["overQuotaWeight"].append(Fraction(str((resource or {}).get("overQuotaWeight", 1))))
    allowed = metadata.get("annotations", {}).get("kai.scheduler/allowed-namespaces", "*")
    return Queue(
        metadata["name"],
        spec.get("parentQueue", ""),
        spec.get("priority", 100),
        nanoseconds(metadata.get("creationTimestamp")),
        tuple(amounts["quota"]),
        tuple(amounts["limit"]),
        tuple(amounts["overQuotaWeight"]),
        spec.get("preemptMinRuntime"),
        spec.get("reclaimMinRuntime"),
        tuple(name.strip() for name in allowed.split(",")),
        metadata.get("annotations", {}).get("muster.dev/reclaim-policy") == "IgnoreBudgets",
    )
