"""Who failed again and again rests, ever longer, so that others go first; and nothing is asked for without end."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

_S = 10**9
K = TypeVar("K", bound=Hashable)


@dataclass
class _Failures:
    """Attempts that failed since the last that went well, and until when the rest is that followed."""

    attempts: int = 0
    # When the last of them was sent: what was sent together fails together.
    sent_ns: int = -1
    until_ns: int = 0


class Patience(Generic[K]):
    """After `free` failed attempts one rests: `first_s`, twice as long each time, never longer than `longest_s`."""

    def __init__(self, *, free: int, first_s: int = 5, longest_s: int = 300) -> None:
        self._free, self._first_ns, self._longest_ns = free, first_s * _S, longest_s * _S
        self._failures: dict[K, _Failures] = {}

    def failed(self, who: K, sent_ns: int, now_ns: int) -> bool:
        """A part of an attempt, sent at `sent_ns`, failed. Whether one rests from now on."""
        failures = self._failures.setdefault(who, _Failures())
        if failures.sent_ns == sent_ns:
            return failures.until_ns > now_ns
        failures.sent_ns = sent_ns
        failures.attempts += 1
        beyond = failures.attempts - self._free
        if beyond >= 0:
            failures.until_ns = now_ns + min(self._first_ns << min(beyond, 20), self._longest_ns)
        return beyond >= 0

    def succeeded(self, who: K) -> None:
        """It works: what was before is forgotten. Who rests does so to the end: this may be from before it failed."""
        if who in self._failures and not self._failures[who].until_ns:
            del self._failures[who]

    def forget(self, who: K) -> None:
        """It is gone: the next one of its name has not failed yet."""
        self._failures.pop(who, None)

    def rested(self, now_ns: int) -> list[K]:
        """Whose rest ended since this was last asked. Who did not fail for long is forgotten."""
        ended = []
        for who, failures in list(self._failures.items()):
            if 0 < failures.until_ns <= now_ns:
                failures.until_ns = 0
                ended.append(who)
            elif not failures.until_ns and now_ns - failures.sent_ns > 10 * self._longest_ns:
                del self._failures[who]
        return ended

    def resting(self, now_ns: int) -> list[K]:
        """Who is to be left alone now."""
        return [who for who, failures in self._failures.items() if failures.until_ns > now_ns]
