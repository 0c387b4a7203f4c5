"""What goes wrong, and when: each fault of a story has a stream of chance of its own, drawn once per passing.

So a fault that is left out changes nothing about the others, and a story can be made smaller.
"""

import random
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import NamedTuple

import msgspec

from muster.sim.story import Fault, Point


class Stroke(NamedTuple):
    """A fault that strikes: what it does, and the size that was drawn for it."""

    fault: Fault
    seconds: float

    @property
    def name(self) -> str:
        """For counts and the trace."""
        return f"{self.fault.point} {self.fault.does}"


class _Drawn:
    """One fault with its chance, and how often it was passed."""

    def __init__(self, fault: Fault, seed: int, alike: int) -> None:
        self.fault = fault
        # By what it says, not by its place in the list: others may be left out.
        said = msgspec.to_builtins(fault)
        name = msgspec.json.encode({key: said[key] for key in said if key != "name" or said[key]}).decode()
        self._chance = random.Random(f"{seed}/fault/{name}/{alike}")  # noqa: S311
        self._passings = 0

    def strikes(self) -> Stroke | None:
        """One passing."""
        self._passings += 1
        drawn, size = self._chance.random(), self._chance.random()
        fault = self.fault
        if self._passings != fault.nth if fault.nth is not None else drawn >= fault.chance:
            return None
        # Somebody who names the passing means the whole of it.
        return Stroke(fault, fault.seconds if fault.nth is not None else fault.seconds * size)


class Weather:
    """All faults of a story. After `end` there are none any more."""

    def __init__(self, faults: Iterable[Fault], seed: int, now: Callable[[], float]) -> None:
        self._now = now
        self._over = False
        self._at: dict[str, list[_Drawn]] = {}
        for fault in faults:
            there = self._at.setdefault(fault.point, [])
            there.append(_Drawn(fault, seed, sum(one.fault == fault for one in there)))

    def end(self) -> None:
        """Nothing goes wrong any more."""
        self._over = True

    def strikes(self, point: Point, process: int, plural: str, name: str = "") -> Stroke | None:
        """What happens at this passing, to an object of this name; the first fault that strikes is the one."""
        if self._over:
            return None
        now_s, found = self._now(), None
        for drawn in self._at.get(point, ()):
            fault = drawn.fault
            if now_s < fault.since or (fault.until is not None and now_s >= fault.until):
                continue
            if fault.process not in (None, process) or fault.plural not in ("", plural):
                continue
            if fault.name and not fnmatchcase(name, fault.name):
                continue
            stroke = drawn.strikes()
            found = found or stroke
        return found
