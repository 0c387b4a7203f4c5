"""How old the picture may be that a process of muster decides by: what a story does to its watches, and no more."""

from muster.sim.story import Story

# Decisions are made a moment before they are sent, on what was seen a moment before that.
MARGIN_S = 2.0
# A watch that broke begins again after so long at most; a list, or the beginning of a watch, that is lost is missed
# after so long.
_AGAIN_S, _MISSED_S = 15.0, 90.0


class Sight:
    """For each process: how much later than it happened it may see something."""

    def __init__(self, story: Story) -> None:
        longest: dict[tuple[str, str], float] = {}
        for fault in story.faults:
            lag_s = 0.0
            if fault.point == "watch":
                lag_s = fault.seconds + (0.0 if fault.does in ("late", "repeat") else _AGAIN_S)
            elif fault.point in ("list", "open"):
                lag_s = {"lose": fault.seconds or _MISSED_S, "refuse": 0.0}.get(fault.does, fault.seconds) + _AGAIN_S
            at = fault.point, fault.does
            longest[at] = max(longest.get(at, 0.0), lag_s)
        away_s = max((one.away for one in story.happens), default=0.0)
        cut = any(one.cut or one.compact or one.away for one in story.happens)
        self._lag_s = MARGIN_S + sum(longest.values()) + away_s + (_AGAIN_S if cut else 0.0)
        self._pauses: dict[int, float] = {}
        for one in story.happens:
            for process, seconds in one.pause.items():
                self._pauses[process] = max(self._pauses.get(process, 0.0), seconds)

        # By how much clocks were set forth: who goes by the time of day finds graces over so much earlier.
        self._forth: dict[int, float] = {}
        for one in story.happens:
            for process, seconds in one.jump.items():
                self._forth[process] = self._forth.get(process, 0.0) + max(seconds, 0.0)

    def forth_s(self, process: int) -> float:
        """By how much the clock of a process was set forth in all."""
        return self._forth.get(process, 0.0)

    def since_s(self, process: int, at_s: float) -> float:
        """From this second on things may have changed without being seen by a process that acts at `at_s`."""
        return at_s - self._lag_s - self._pauses.get(process, 0.0)
