"""How things are measured: CPU time, the least of several runs, and the most memory of one more."""

import cProfile
import gc
import io
import pstats
import resource
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import Any, NamedTuple

MIB = 2**20


class Run(NamedTuple):
    """What is timed. `fresh` makes what one run uses and is not timed; `says` puts what came of it in words.

    When that is not what it should be, `says` raises AssertionError: then no time is good enough.
    """

    run: Callable[[Any], Any]
    fresh: Callable[[], Any] = lambda: None
    says: Callable[[Any], str] = lambda _: ""


class Case(NamedTuple):
    """Something to measure: `count` things of one `unit` per run. `prepare` is called once, and only when needed.

    A target is in seconds, and for memory in bytes. `per` divides the time that is shown (a cost per gang).
    """

    what: str
    prepare: Callable[[], Run]
    count: int = 1
    unit: str = ""
    target_s: float | None = None
    peak: bool = False
    best_of: int | None = None
    section: str = ""


class Row(NamedTuple):
    """One measurement."""

    section: str
    what: str
    seconds: float | None
    rate: str = ""
    peak_bytes: int = 0
    target: str = ""
    met: bool | None = None
    says: str = ""


def measure(case: Case, best_of: int) -> Row:
    """The least CPU time, and where it matters the most memory that one more run has at a time."""
    prepared = case.prepare()
    times = []
    came: Any = None
    for _ in range(case.best_of or best_of):
        given = prepared.fresh()
        came = None
        gc.collect()
        start = time.process_time()
        came = prepared.run(given)
        times.append(time.process_time() - start)
    peak = 0
    if case.peak:
        given = prepared.fresh()
        tracemalloc.start()
        prepared.run(given)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    best = min(times)
    met = best <= case.target_s if case.target_s else None
    try:
        says = prepared.says(came)
    except AssertionError as wrong:
        says, met = f"WRONG: {wrong}", False
    return Row(
        case.section,
        case.what,
        best,
        f"{case.count / best:,.0f} {case.unit}/s" if case.unit and best else "",
        peak,
        f"≤ {shown(case.target_s)}" if case.target_s else "",
        met,
        says,
    )


def measure_process(case: Case, best_of: int, args: list[str]) -> Row:
    """The least CPU time, user and system, of a child process."""
    times = []
    for _ in range(best_of):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "muster", *args], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return Row(case.section, case.what, min(times))


def profile(case: Case, lines: int = 25) -> str:
    """Where the time of one run goes: cProfile by own time."""
    prepared = case.prepare()
    given = prepared.fresh()
    profiler = cProfile.Profile()
    profiler.enable()
    prepared.run(given)
    profiler.disable()
    text = io.StringIO()
    pstats.Stats(profiler, stream=text).sort_stats("tottime").print_stats(lines)
    return text.getvalue()


def shown(seconds: float) -> str:
    """A time that people can read."""
    if seconds >= 1:
        return f"{seconds:.2f} s"
    if seconds >= 0.001:
        return f"{seconds * 1000:.3g} ms" if seconds < 0.1 else f"{seconds * 1000:.0f} ms"
    return f"{seconds * 1e6:.0f} µs"
