"""A value and what it was before: the judge asks how things stood when a decision was made, not how they stand now."""

from bisect import bisect_left
from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Past(Generic[T]):
    """A value that is replaced now and then, never changed in place."""

    __slots__ = ("_older", "_until_s", "now")

    def __init__(self, value: T) -> None:
        self.now = value
        # What it was, and until when; the oldest first.
        self._older: list[T] = []
        self._until_s: list[float] = []

    def set(self, value: T, at_s: float) -> None:
        """It is something else from now on."""
        self._older.append(self.now)
        self._until_s.append(at_s)
        self.now = value

    def at(self, moment_s: float | None) -> T:
        """As it was just before a moment; None: as it is."""
        if moment_s is None:
            return self.now
        row = bisect_left(self._until_s, moment_s)
        return self._older[row] if row < len(self._older) else self.now

    def between(self, begin_s: float, end_s: float) -> list[T]:
        """All that it was from just before one moment to just before another."""
        first, last = bisect_left(self._until_s, begin_s), bisect_left(self._until_s, end_s)
        found = self._older[first : last + 1]
        return found if last < len(self._older) else [*found, self.now]

    def turns(self, since_s: float) -> list[float]:
        """The moments since then at which it became something else."""
        return self._until_s[bisect_left(self._until_s, since_s) :]

    def since(self, moment_s: float) -> Iterator[T]:
        """All that it was from just before a moment on, the latest first."""
        yield self.now
        for row in range(len(self._older) - 1, -1, -1):
            if self._until_s[row] < moment_s:
                return
            yield self._older[row]
