"""What a rule has to say: where, what, and how to mend it."""

from collections import Counter
from typing import NamedTuple

from muster.api.documents import EnoughError, Problem

ERROR, WARNING = "error", "warning"


class Violation(NamedTuple):
    """One rule that an object breaks."""

    severity: str
    path: str
    message: str
    hint: str = ""


class Report:
    """Collects violations. At and below a field that could not be read, the rules have nothing to add.

    The error after `most` errors ends the search with EnoughError; of more warnings than that only the number is kept.
    """

    def __init__(self, problems: list[Problem], most: int | None = None) -> None:
        self.violations = [Violation(ERROR, *problem[:3]) for problem in problems]
        self.more_warnings = 0
        self._most = most
        self._count = Counter({ERROR: len(self.violations)})
        self._unread = {problem.path for problem in problems if problem.unread}
        self._above_unread = {prefix for path in self._unread for prefix in _prefixes(path)}

    def error(self, path: str, message: str, hint: str = "") -> None:
        self._add(Violation(ERROR, path, _clean(message), _clean(hint)))

    def warn(self, path: str, message: str, hint: str = "") -> None:
        self._add(Violation(WARNING, path, _clean(message), _clean(hint)))

    def soften(self, field: str) -> None:
        """What is wrong in a whole field of the object makes it no longer invalid."""
        self.violations = [
            violation._replace(severity=WARNING) if field in _prefixes(violation.path) else violation
            for violation in self.violations
        ]
        self._count = Counter(violation.severity for violation in self.violations)

    def unread(self, path: str) -> bool:
        """Whether this field is there but could not be read, as a whole or in part."""
        return path in self._above_unread

    def _add(self, violation: Violation) -> None:
        if self._unread and any(prefix in self._unread for prefix in _prefixes(violation.path)):
            return
        if self._most is not None and self._count[violation.severity] >= self._most:
            if violation.severity == ERROR:
                raise EnoughError
            self.more_warnings += 1
            return
        self._count[violation.severity] += 1
        self.violations.append(violation)


def _clean(text: str) -> str:
    """A sentence may hold a name from the object; nothing in it commands a terminal."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _prefixes(path: str) -> list[str]:
    """The path itself and every path above it that is not empty."""
    ends = [at for at, character in enumerate(path) if character in ".["]
    return [path, *(path[:end] for end in ends)]
