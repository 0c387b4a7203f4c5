"""The hunt: each mutant in a copy of the program of its own, asked by ever more of the suite until something notices.

First the tests that are near, then those of its room, then all of them, at last seeds of the simulation. Every test
that killed something is asked about the program as it is, too: one that fails there has killed nothing.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from mutants.killing import KILLED, SURVIVED, Notes
from mutants.mutant import ROOT, SOURCES, TESTS, Mutant

NEAR, ROOM, ALL, SEEDS = STAGES = ("near", "room", "all", "seeds")
# What is asked after the tests that are near: those of the room, the quick ones first.
_OF_DECISIONS = (
    *("test_orders", "test_signals", "test_decisions", "test_queue_status", "test_invalid_status", "test_notes"),
    *("test_explanation", "test_losses", "test_hindrances", "test_others", "test_queues_in_words"),
)
_OF_PLAN = ("unit/plan", "scenarios", "property/test_plans.py", "property/test_evictions.py", "property/test_engine.py")
TESTS_OF = {
    "api": ("unit/api", "property/test_tree.py", "property/test_quantity.py", "scenarios", "unit/cli"),
    "cli": ("unit/cli",),
    "controllers": ("unit/controllers", "unit/cli/test_run.py"),
    "decisions": (*(f"unit/{name}.py" for name in _OF_DECISIONS), "scenarios", "unit/controllers", "unit/cli"),
    "grouping": ("unit/grouping", "grouping", "property/test_grouping.py", "unit/controllers/test_grouper_loop.py"),
    "kube": ("unit/kube", "unit/controllers"),
    "plan": _OF_PLAN,
    "serve": ("unit/serve",),
    "snapshot": ("unit/snapshot", *_OF_PLAN, "unit/controllers"),
}
# Needs what this machine may not have, or looks at the text of the repository and not at the program.
_LEFT_OUT = ("e2e", "mutants", "test_tidy.py")
# Processes that run now: whoever breaks off the hunt ends them, too.
_RUNNING: "set[subprocess.Popen[bytes]]" = set()
# How long each stage may take; who takes longer hangs.
TIMEOUTS_S = {NEAR: 240.0, ROOM: 600.0, ALL: 1800.0, SEEDS: 1800.0}


class Asked(NamedTuple):
    """What came of one question: who noticed first and what was said; nobody when it survived.

    `void` says why nothing is known; `all` are those that noticed, with what they said, where nobody stopped at once.
    """

    killer: str = ""
    says: str = ""
    void: str = ""
    all: Mapping[str, str] = {}


class Result(NamedTuple):
    """What became of a mutant: who killed it, at which stage, after how long."""

    mutant: Mutant
    killer: str
    stage: str
    says: str
    seconds: float
    # Why nothing is known of it.
    void: str = ""

    @property
    def killed(self) -> bool:
        """Whether something noticed."""
        return bool(self.killer) and not self.void


class Plan(NamedTuple):
    """How far to go: which stages, how many seeds of the simulation, how many at a time."""

    stages: Sequence[str] = STAGES
    seeds: int = 300
    jobs: int = 2


@contextmanager
def copied(sources: Path = SOURCES) -> Iterator[Path]:
    """The program in a folder of its own, compiled modules included: those of which the text is the same stay valid."""
    with tempfile.TemporaryDirectory(prefix="muster-mutants-") as folder:
        yield Path(shutil.copytree(sources, Path(folder) / "src"))


def ask(sources: Path, module: str, asked: Sequence[str], timeout_s: float) -> Asked:
    """Asks tests, or seeds, about a copy of the program, in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="muster-mutants-") as folder:
        notes = Path(folder) / "notes"
        command = [sys.executable, "-m", "mutants.killing", str(sources), str(notes), module, *asked]
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=_environment(sources, folder),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        _RUNNING.add(process)
        try:
            output, _ = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            _end(process)
            begun = [note["begins"] for note in Notes.read(notes) if "begins" in note]
            return Asked(begun[-1], f"it hangs: no end after {timeout_s:.0f} s") if begun else Asked(void="it hangs")
        finally:
            _RUNNING.discard(process)
        return _heard(process.returncode, Notes.read(notes), output.decode(errors="replace"))


def _heard(code: int, notes: Sequence[Mapping[str, str]], output: str) -> Asked:
    if code == SURVIVED:
        return Asked()
    killers = [note for note in notes if "killer" in note]
    if code == KILLED and killers and not killers[0].get("unread"):
        return Asked(killers[0]["killer"], killers[0]["says"], all={one["killer"]: one["says"] for one in killers})
    said = next((note["void"] for note in notes if "void" in note), "") or next(
        (note["says"] for note in killers), output.strip()[-500:]
    )
    begun = [note["begins"] for note in notes if "begins" in note]
    if code < 0 and begun:
        return Asked(begun[-1], f"the process ended by signal {-code}")
    return Asked(void=f"it says nothing about the mutant (exit {code}): {said}")


def _end(process: "subprocess.Popen[bytes]") -> None:
    """The process and what it has started: it leads a session of its own."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _environment(sources: Path, folder: str) -> dict[str, str]:
    """The mutated copy comes first; what it writes for itself goes away with it."""
    kept = {key: text for key, text in os.environ.items() if not key.startswith(("PYTEST", "MUSTER_"))}
    path = os.pathsep.join((str(sources), str(TESTS)))
    return {**kept, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": folder, "PYTHONHASHSEED": "0"}


def questions(mutant: Mutant, plan: Plan) -> Iterator[tuple[str, list[str]]]:
    """What is asked about a mutant, stage by stage."""
    for stage in plan.stages:
        if stage == NEAR:
            yield stage, mutant.targets()
        elif stage == ROOM:
            yield stage, [f"tests/{one}" for one in TESTS_OF[mutant.room]]
        elif stage == ALL:
            yield stage, ["tests", *(f"--ignore=tests/{one}" for one in _LEFT_OUT)]
        elif plan.seeds:
            yield stage, ["--seeds", "0", str(plan.seeds)]


def hunted(mutant: Mutant, sources: Path, plan: Plan) -> Result:
    """One mutant, until something notices it."""
    began_s = time.monotonic()
    with copied(sources) as copy:
        path = copy / "muster" / mutant.file
        try:
            path.write_text(mutant.applied(path.read_text()))
        except (ValueError, FileNotFoundError) as error:
            return Result(mutant, "", "", "", time.monotonic() - began_s, str(error))
        stage, asked = "", Asked()
        for stage, question in questions(mutant, plan):
            asked = ask(copy, mutant.module, question, TIMEOUTS_S[stage])
            if asked.killer or asked.void:
                break
    return Result(mutant, asked.killer, stage, asked.says, time.monotonic() - began_s, asked.void)


def control(results: Sequence[Result], sources: Path) -> list[Result]:
    """The results, where those whose killer fails on the program as it is say nothing."""
    tests = sorted({one.killer for one in results if one.killed and one.stage != SEEDS})
    seeds = sorted({int(one.killer.split()[1]) for one in results if one.killed and one.stage == SEEDS})
    asked = [["--every", *tests]] if tests else []
    asked += [["--seeds", str(seed), str(seed + 1)] for seed in seeds]
    fail: dict[str, str] = {}
    for question in asked:
        heard = ask(sources, "muster", question, TIMEOUTS_S[ALL])
        assert not heard.void, f"the program as it is could not be asked: {heard.void}"
        fail.update(heard.all)
    found = []
    for one in results:
        said = fail.get(one.killer)
        void = f"{one.killer} fails on the program as it is: {said}" if one.killed and said is not None else one.void
        found.append(one._replace(void=void))
    return found


def hunt(mutants: Sequence[Mutant], plan: Plan, told: Callable[[Result], None]) -> list[Result]:
    """All of them, some at a time; `told` hears of each as it ends. In the order in which they were given."""
    with copied() as sources, ThreadPoolExecutor(plan.jobs) as workers:
        under_way = {workers.submit(hunted, mutant, sources, plan): mutant for mutant in mutants}
        by_name: dict[str, Result] = {}
        try:
            for done in as_completed(under_way):
                result = done.result()
                by_name[result.mutant.name] = result
                told(result)
        except BaseException:
            workers.shutdown(wait=False, cancel_futures=True)
            for process in list(_RUNNING):
                _end(process)
            raise
        return control([by_name[mutant.name] for mutant in mutants], sources)
