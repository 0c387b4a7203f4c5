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
        self.violations = [Violation(_severity(problem.path), *problem[:3]) for problem in problems]
        self._unread = {problem.path for problem in problems if problem.unread}
        self._above_unread = {prefix for path in self._unread for prefix in _prefixes(path)}

    def error(self, path: str, message: str, hint: str = "") -> None:
        self._add(Violation(ERROR, path, message, hint))

    def warn(self, path: str, message: str, hint: str = "") -> None:
        self._add(Violation(WARNING, path, message, hint))

    def unread(self, path: str) -> bool:
        """Whether this field is there but could not be read, as a whole or in part."""
        return path in self._above_unread

    def _add(self, violation: Violation) -> None:
        if not any(prefix in self._unread for prefix in _prefixes(violation.path)):
            self.violations.append(violation)


def _severity(path: str) -> str:
    """A status is what a scheduler wrote: what can't be read of it is not used, but makes no object invalid."""
    return WARNING if path.partition(".")[0].partition("[")[0] == "status" else ERROR


def _prefixes(path: str) -> list[str]:
    """The path itself and every path above it that is not empty."""
    ends = [at for at, character in enumerate(path) if character in ".["]
    return [path, *(path[:end] for end in ends)]
