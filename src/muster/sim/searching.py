"""Many seeds in worker processes: what each came to, summed up. One that hangs or dies is told and ends nobody else."""

import gc
import multiprocessing
import os
import resource
import signal
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from typing import NamedTuple

from muster.sim.drawing import story_of
from muster.sim.play import play
from muster.sim.story import Story
from muster.sim.trace import Outcome, Violation

# So much CPU one seed may cost; a usual one costs less than a second.
CPU_S = 60
# Every so many seeds one is played twice: both times the same must happen.
TWICE_EVERY = 25
# What is broken when a seed has no outcome, and when it has two.
DIED, UNLIKE = "hang or crash", "D1"


class Found(NamedTuple):
    """What came of one seed."""

    seed: int
    violations: list[Violation]
    digest: str = ""
    counts: Counter[str] = Counter()
    virtual_s: float = 0.0
    cpu_s: float = 0.0
    twice: bool = False


@dataclass
class Totals:
    """What came of all of them so far."""

    asked: int = 0
    seeds: int = 0
    twice: int = 0
    virtual_s: float = 0.0
    cpu_s: float = 0.0
    wall_s: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    rules: Counter[str] = field(default_factory=Counter)
    failed: list[Found] = field(default_factory=list)
    is_stopped: bool = False

    def add(self, found: Found) -> None:
        """One more."""
        self.seeds += 1
        self.twice += found.twice
        self.virtual_s += found.virtual_s
        self.cpu_s += found.cpu_s
        self.counts.update(found.counts)
        self.rules.update({one.rule for one in found.violations})
        if found.violations:
            self.failed.append(found)

    @property
    def left_s(self) -> float:
        """How long the rest will take, as it looks."""
        return self.wall_s / self.seeds * (self.asked - self.seeds) if self.seeds else 0.0


def play_seed(seed: int) -> Outcome:
    """The story of a seed."""
    return play(story_of(seed))


def search(
    seeds: Iterable[int],
    *,
    workers: int = 2,
    cpu_s: int = CPU_S,
    twice_every: int = TWICE_EVERY,
    see: Callable[[Found | None, Totals], None] = lambda found, totals: None,
    playing: Callable[[int], Outcome] = play_seed,
) -> Totals:
    """Plays all seeds. `see` is told of each that is done, and now and then of nothing; Ctrl-C ends it early."""
    todo = list(seeds)
    totals, begun_s = Totals(asked=len(todo)), time.monotonic()
    crew = _Crew(min(workers, max(1, len(todo))), playing, cpu_s, twice_every)
    try:
        for found in crew.work(todo):
            totals.wall_s = time.monotonic() - begun_s
            if found is not None:
                totals.add(found)
            see(found, totals)
    except KeyboardInterrupt:
        totals.is_stopped = True
    finally:
        crew.end()
    totals.failed.sort(key=lambda one: one.seed)
    return totals


def fails_by(rule: str, *, cpu_s: int = CPU_S, playing: Callable[[Story], Outcome] = play) -> Callable[[Story], bool]:
    """Whether a story breaks a rule. It is played in a process of its own, so that it may hang or die."""

    def fails(story: Story) -> bool:
        every = 1 if rule == UNLIKE else 2
        totals = search([1], workers=1, cpu_s=cpu_s, twice_every=every, playing=lambda _: playing(story))
        if totals.is_stopped:
            raise KeyboardInterrupt
        return rule in totals.rules

    return fails


class _Worker(NamedTuple):
    process: BaseProcess
    wire: Connection


class _Crew:
    """Worker processes, each with one seed at a time; in the place of one that died comes another."""

    def __init__(self, size: int, playing: Callable[[int], Outcome], cpu_s: int, twice_every: int) -> None:
        self._size, self._how = size, (playing, cpu_s, twice_every)
        self._cpu_s = cpu_s
        # What was imported once is there in every worker, and what a test hands in need not be importable.
        self._context: BaseContext = multiprocessing.get_context("fork")
        self._busy: dict[_Worker, int] = {}
        self._idle: list[_Worker] = []

    def work(self, seeds: list[int]) -> Iterator[Found | None]:
        """What comes of each seed, as it comes; None when nothing came for a second."""
        todo = iter(seeds)
        waiting = next(todo, None)
        while waiting is not None or self._busy:
            while waiting is not None and len(self._busy) < self._size:
                worker = self._idle.pop() if self._idle else self._begin()
                worker.wire.send(waiting)
                self._busy[worker] = waiting
                waiting = next(todo, None)
            ready = wait([one.wire for one in self._busy], timeout=1.0)
            if not ready:
                yield None
            for worker in [one for one in self._busy if one.wire in ready]:
                yield self._heard(worker, self._busy.pop(worker))

    def end(self) -> None:
        """Nobody works any more."""
        for worker in (*self._busy, *self._idle):
            worker.process.kill()
            worker.process.join()
            worker.wire.close()
        self._busy, self._idle = {}, []

    def _begin(self) -> _Worker:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_work, args=(theirs, *self._how), daemon=True)  # type: ignore[attr-defined]
        process.start()
        theirs.close()
        return _Worker(process, ours)

    def _heard(self, worker: _Worker, seed: int) -> Found:
        try:
            found: Found = worker.wire.recv()
        except (EOFError, OSError):
            worker.process.join()
            worker.wire.close()
            return Found(seed, [Violation(0.0, DIED, self._how_it_died(worker.process.exitcode or 0))])
        self._idle.append(worker)
        return found

    def _how_it_died(self, code: int) -> str:
        if code == -signal.SIGXCPU:
            return f"it took more than {self._cpu_s} s of CPU"
        return f"its process died: {signal.Signals(-code).name if code < 0 else f'exit code {code}'}"


def _work(wire: Connection, playing: Callable[[int], Outcome], cpu_s: int, twice_every: int) -> None:
    """The life of a worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # What is imported stays; and a story is over before much garbage has come together.
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    # Its core is of no use to anybody.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    while True:
        try:
            seed = wire.recv()
        except EOFError:
            os._exit(0)
        used_s = resource.getrusage(resource.RUSAGE_SELF)
        resource.setrlimit(resource.RLIMIT_CPU, (int(used_s.ru_utime + used_s.ru_stime) + cpu_s + 1, most))
        wire.send(_played(seed, playing, twice=seed % twice_every == 0))


def _end_with_parent() -> None:
    """Nobody waits for a worker whose parent is gone, however that went; its own copy of the wire hides it from it."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _played(seed: int, playing: Callable[[int], Outcome], twice: bool) -> Found:
    begun_s = time.process_time()
    try:
        outcome = playing(seed)
        violations = list(outcome.violations)
        cpu_s = time.process_time() - begun_s
        if twice and (again := playing(seed).digest) != outcome.digest:
            violations.append(Violation(0.0, UNLIKE, f"played twice it was {outcome.digest}, then {again}"))
    except Exception:
        said = traceback.format_exc(limit=-3).strip()
        return Found(seed, [Violation(0.0, DIED, said)], cpu_s=time.process_time() - begun_s)
    return Found(seed, violations, outcome.digest, outcome.counts, outcome.virtual_s, cpu_s, twice)
