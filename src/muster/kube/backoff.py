"""How long to wait before the next attempt: longer each time, never in step with others, and from the start again
after success.
"""

from collections.abc import Callable


def doubled_s(first_s: float, times: int, longest_s: float) -> float:
    """The wait after `first_s` was doubled so many times; for whatever number of times."""
    return min(first_s * 2.0 ** min(times, 60), longest_s)


class Backoff:
    """Doubling waits between `first_s` and `cap_s`, each shortened by up to half at random."""

    def __init__(self, jitter: Callable[[], float], *, first_s: float = 0.1, cap_s: float = 10.0) -> None:
        self._jitter = jitter
        self._first_s = first_s
        self._cap_s = cap_s
        self._failures = 0

    @property
    def failures(self) -> int:
        """How often it failed since the last success."""
        return self._failures

    def next_s(self, at_least_s: float | None = None) -> float:
        """The wait after one more failure. What the server asked for is the least, however long."""
        wait_s = doubled_s(self._first_s, self._failures, self._cap_s)
        self._failures += 1
        wait_s *= 0.5 + 0.5 * self._jitter()
        if at_least_s is None:
            return wait_s
        # All clients hear the same Retry-After: what is random comes on top.
        return max(wait_s, at_least_s + min(wait_s, 0.25 * at_least_s))

    def reset(self) -> None:
        """It worked."""
        self._failures = 0
