"""`make bench`: every measurement in CPU time, best of n, with the peak of memory where it matters."""

import argparse
import platform
import resource
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import NamedTuple

from bench import foundation


class Row(NamedTuple):
    """One measurement."""

    what: str
    seconds: float
    count: int
    unit: str
    peak_bytes: int


def measure(what: str, run: Callable[[], object], *, count: int = 1, unit: str = "", best_of: int = 5) -> Row:
    """The least CPU time of `best_of` runs, and the most memory that one more run has at a time."""
    times = []
    for _ in range(best_of):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    tracemalloc.start()
    run()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return Row(what, min(times), count, unit, peak)


def measure_process(what: str, args: list[str], *, best_of: int = 5) -> Row:
    """The least CPU time, user and system, of a child process."""
    times = []
    for _ in range(best_of):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "muster", *args], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return Row(what, min(times), 1, "", 0)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(prog="make bench", description="The benchmark table.")
    parser.add_argument("--best-of", type=int, default=5)
    best_of = parser.parse_args().best_of
    print(f"CPU time, best of {best_of}; Python {platform.python_version()}, {platform.machine()}\n")
    print(f"{'what':<58} {'time':>10} {'rate':>18} {'peak':>9}")
    for what, args in foundation.COMMANDS.items():
        show(measure_process(what, args, best_of=best_of))
    for case in foundation.cases():
        show(measure(case.what, case.run, count=case.count, unit=case.unit, best_of=best_of))


def show(row: Row) -> None:
    """One line of the table."""
    rate = f"{row.count / row.seconds:,.0f} {row.unit}/s" if row.unit and row.seconds else ""
    peak = f"{row.peak_bytes / 2**20:.1f} MiB" if row.peak_bytes else ""
    print(f"{row.what:<58} {row.seconds * 1000:>7.2f} ms {rate:>18} {peak:>9}", flush=True)


if __name__ == "__main__":
    main()
