"""What runs inside the mutated copy: some tests until the first failure, or seeds of the simulation until a violation.

    python -m mutants.killing SOURCES NOTES MODULE tests/unit/plan ...
    python -m mutants.killing SOURCES NOTES MODULE --every tests/unit/plan ...     does not stop at the first failure
    python -m mutants.killing SOURCES NOTES MODULE --seeds 0 500

What happens is noted line by line, as JSON, so that also of a process that hangs it is known where. Nothing counts
unless the module that is mutated comes from SOURCES: muster is installed from the repository, too.
"""

import ctypes
import importlib
import signal
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

# How this process ends: nothing was noticed, something was, or it says nothing about the mutant.
SURVIVED, KILLED, VOID = 0, 1, 3
_MOST_SAID = 300
# Of linux/prctl.h: the signal that a process gets when its parent ends.
_PARENT_ENDED = 1


class Notes:
    """Lines of JSON in a file, each there as soon as it is written."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, **said: Any) -> None:
        """One more."""
        with self._path.open("ab") as file:
            file.write(msgspec.json.encode(said) + b"\n")

    @staticmethod
    def read(path: Path) -> list[dict[str, Any]]:
        """All of them, but for one that was broken off."""
        lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
        return [msgspec.json.decode(line) for line in lines]


class Witness:
    """A plugin of pytest: notes which test runs, and which fails."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes

    def pytest_configure(self) -> None:
        """Who fails need not fail with the smallest example: looking for it takes longer than everything else."""
        from hypothesis import Phase, settings

        settings.register_profile("mutants", settings.default, phases=(Phase.explicit, Phase.generate))
        settings.load_profile("mutants")

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """A test begins."""
        self._notes.write(begins=nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test failed, or could not be set up."""
        if report.failed:
            self._notes.write(killer=report.nodeid, says=_last_words(report.longreprtext))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A module of tests could not even be read."""
        if report.failed:
            self._notes.write(killer=report.nodeid, says=_last_words(report.longreprtext), unread=True)


def _last_words(text: str) -> str:
    """The sentence of a failure: the first line of what pytest marks as the error."""
    marked = [line[1:].strip() for line in text.splitlines() if line.startswith("E ")]
    found = next((line for line in marked if line), text.strip().rpartition("\n")[2])
    return found[:_MOST_SAID]


def stands_in(sources: Path, module: str) -> bool:
    """Whether a module is that of these sources, and not of the program as it is installed."""
    found = importlib.import_module(module).__file__
    return found is not None and Path(found).resolve().is_relative_to(sources.resolve())


def _ask_tests(notes: Notes, targets: list[str], *, every: bool) -> int:
    options = ["-q", "--no-header", "--disable-warnings", "-p", "no:cacheprovider", "-p", "no:xdist"]
    options += [] if every else ["-x"]
    done = pytest.main([*options, *targets], plugins=[Witness(notes)])
    return {0: SURVIVED, 1: KILLED}.get(int(done), VOID)


def _ask_seeds(notes: Notes, first: int, last: int) -> int:
    from muster.sim.drawing import story_of
    from muster.sim.play import play

    for seed in range(first, last):
        notes.write(begins=f"seed {seed}")
        try:
            violations = play(story_of(seed)).violations
        except Exception as error:
            notes.write(killer=f"seed {seed}", says=f"{type(error).__name__}: {error}"[:_MOST_SAID])
            return KILLED
        if violations:
            notes.write(killer=f"seed {seed}", says=f"{violations[0].rule}: {violations[0].says}"[:_MOST_SAID])
            return KILLED
    return SURVIVED


def end_with_parent() -> None:
    """Nobody hears this process once its parent is gone, however that went. No thread: tests would notice it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PARENT_ENDED, signal.SIGKILL)


def main(arguments: list[str]) -> int:
    """Asks, and ends with one of the three codes."""
    sources, notes, module, *asked = arguments
    told = Notes(Path(notes))
    try:
        if not stands_in(Path(sources), module):
            told.write(void=f"{module} is not that of the mutated copy")
            return VOID
    except Exception as error:
        told.write(void=f"{module} can't be imported: {type(error).__name__}: {error}")
        return VOID
    if asked[0] == "--seeds":
        return _ask_seeds(told, int(asked[1]), int(asked[2]))
    every = asked[0] == "--every"
    return _ask_tests(told, asked[every:], every=every)


if __name__ == "__main__":
    end_with_parent()
    sys.exit(main(sys.argv[1:]))
