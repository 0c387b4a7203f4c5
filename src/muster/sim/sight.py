"""What a process of muster had seen when it decided: of every kind, up to which version. Nothing else excuses it."""

from bisect import bisect_left, bisect_right
from collections.abc import Collection
from typing import NamedTuple

from muster.sim.story import Story

# Decisions are sent a moment after they were made; of one whose plans nobody told, its sight is so old at most.
MARGIN_S = 2.0
# What a cycle looks at.
WATCHED = (
    "nodes",
    "pods",
    "podgroups",
    "queues",
    "topologies",
    "priorityclasses",
    "poddisruptionbudgets",
    "namespaces",
)


class _Kind:
    """All changes of one kind: their versions and when they were."""

    def __init__(self) -> None:
        self.revisions: list[int] = []
        self.times: list[float] = []

    def unseen_since(self, revision: int) -> float:
        """When the first change was that comes after a version; never: infinity."""
        row = bisect_right(self.revisions, revision)
        return self.times[row] if row < len(self.times) else float("inf")


class _Seen(NamedTuple):
    """Up to which version a kind was seen, at a second and before it: what comes while a process plans may be late."""

    at_s: float
    revision: int
    before: int


class Sight:
    """For each process: since when things may have changed without being seen by it."""

    def __init__(self, story: Story) -> None:
        self._kinds = {plural: _Kind() for plural in WATCHED}
        self._seen: dict[int, dict[str, _Seen]] = {}
        # Per process: when it planned, and since when it may not have known what changed, of each kind.
        self._plans: dict[int, tuple[list[float], list[dict[str, float]]]] = {}
        # By how much clocks were set forth, and when: who goes by the time of day finds graces over so much earlier.
        self._forth = [
            (one.at, process, seconds) for one in story.happens for process, seconds in one.jump.items() if seconds > 0
        ]

    # What is told.

    def changed(self, resource: str, revision: int, now_s: float) -> None:
        """Something of a kind has changed."""
        kind = self._kinds.get(resource.partition(".")[0])
        if kind is not None:
            kind.revisions.append(revision)
            kind.times.append(now_s)

    def saw(self, process: int, plural: str, revision: int, now_s: float) -> None:
        """A process was shown everything of a kind up to a version."""
        seen = self._seen.setdefault(process, {})
        # What is seen first is seen as it is: nothing older was ever known.
        last = seen.get(plural, _Seen(now_s, revision, revision))
        before = last.revision if last.at_s < now_s else last.before
        seen[plural] = _Seen(now_s, max(revision, last.revision), before)

    def planned(self, process: int, now_s: float) -> None:
        """A process made a plan."""
        seen, since_s = self._seen.get(process, {}), dict[str, float]()
        for plural, kind in self._kinds.items():
            last = seen.get(plural, _Seen(now_s, 0, 0))
            since_s[plural] = min(now_s, kind.unseen_since(last.revision if last.at_s < now_s else last.before))
        times, since = self._plans.setdefault(process, ([], []))
        times.append(now_s)
        since.append(since_s)

    def ended(self, process: int) -> None:
        """The next one in its place has seen nothing yet."""
        self._seen.pop(process, None)

    # What is asked.

    def since_s(self, process: int, at_s: float, within_s: float = MARGIN_S, kinds: Collection[str] = WATCHED) -> float:
        """From this second on things of some kinds may have changed without being seen by a process, when it made what
        leaves it at `at_s`: one of its plans of the last seconds, or the last one before those.
        """
        if process not in self._plans:
            return at_s - within_s
        times, since = self._plans[process]
        last = bisect_right(times, at_s)
        first = min(bisect_left(times, at_s - within_s), last - 1)
        plans = since[max(first, 0) : last]
        return min((one[kind] for one in plans for kind in kinds), default=at_s - within_s)

    def forth_s(self, process: int, at_s: float) -> float:
        """By how much the clock of a process was set forth until then."""
        return sum(seconds for then_s, who, seconds in self._forth if who == process and then_s <= at_s)
