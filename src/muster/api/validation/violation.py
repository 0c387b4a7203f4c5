"""What a rule has to say: where, what, and how to mend it."""

from typing import NamedTuple

from muster.api.documents import Problem

ERROR, WARNING = "error", "warning"


class Violation(NamedTuple):
    """One rule that an object breaks."""

    severity: str
    path: str
    message: str
    hint: str = ""


class Report:
    """Collects violations. At and below a field that could not be read, the rules have nothing to add."""

    def __init__(self, problems: list[Problem]) -> None:
        self.violations = [Violation(ERROR, *problem[:3]) for problem in problems]
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

    def unread(self, path: str) -> bool:
        """Whether this field is there but could not be read, as a whole or in part."""
        return path in self._above_unread

    def _add(self, violation: Violation) -> None:
        if not any(prefix in self._unread for prefix in _prefixes(violation.path)):
            self.violations.append(violation)


def _clean(text: str) -> str:
    """A sentence may hold a name from the object; nothing in it commands a terminal."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _prefixes(path: str) -> list[str]:
    """The path itself and every path above it that is not empty."""
    ends = [at for at, character in enumerate(path) if character in ".["]
    return [path, *(path[:end] for end in ends)]
