"""`make mutants`: puts seeded bugs into copies of the program, and says who notices. Exit 1 when one survives."""

import argparse
import signal
import sys
import time
from collections.abc import Sequence

from mutants import table
from mutants.hunt import STAGES, Plan, Result, hunt
from mutants.mutant import all_mutants, chosen

_EXAMPLE = "example: make mutants ARGS='lost-bind kube/lease.py -o json'"


def main(arguments: Sequence[str] | None = None) -> int:
    """Hunts, shows what came of it, and gives the exit code."""
    parser = _parser()
    asked = parser.parse_args(arguments)
    every = all_mutants()
    mutants = chosen(every, asked.names)
    if not mutants:
        parser.error(f"no mutant is called {', '.join(asked.names)}; --list shows all of them")
    if asked.write and len(mutants) < len(every):
        parser.error("the page tells about all mutants: --write goes without names")
    if asked.list:
        sys.stdout.write(table.listed(mutants))
        return 0
    began_s, ended = time.monotonic(), 0

    def told(result: Result) -> None:
        nonlocal ended
        ended += 1
        sys.stderr.write(table.line(result, ended, len(mutants)))
        sys.stderr.flush()

    stages = STAGES[: STAGES.index(asked.until) + 1]
    if asked.only_seeds:
        stages = STAGES[-1:]
    try:
        results = hunt(mutants, Plan(stages, asked.seeds, asked.jobs), told)
    except KeyboardInterrupt:
        sys.stderr.write(f"broken off after {ended} of {len(mutants)} mutants\n")
        return 130
    seconds = time.monotonic() - began_s
    if asked.output == "json":
        sys.stdout.write(table.as_json(results, seconds))
    else:
        sys.stdout.write(table.summary(results, seconds, alone=asked.only_seeds))
    if asked.write and asked.only_seeds:
        table.write(table.measured_alone(results, seconds, asked.seeds), table.ALONE)
    elif asked.write:
        table.write(table.measured(results, seconds))
    return 0 if all(one.killed for one in results) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__, epilog=_EXAMPLE)
    parser.add_argument("names", nargs="*", metavar="NAME", help="part of a name or of a file; none: all of them")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table", help="how to show the result")
    parser.add_argument("-j", "--jobs", type=int, default=2, metavar="N", help="so many at a time (default 2)")
    parser.add_argument(
        "--until",
        choices=STAGES,
        default=STAGES[-1],
        help="how far to go: tests that are near, of the room, all of them, seeds of the simulation (default)",
    )
    parser.add_argument("--seeds", type=int, default=300, metavar="N", help="seeds of the simulation (default 300)")
    parser.add_argument("--only-seeds", action="store_true", help="ask the simulation alone: how good is it?")
    parser.add_argument("--list", action="store_true", help="show the mutants and hunt nothing")
    parser.add_argument("--write", action="store_true", help="write the result into tests/mutants/README.md")
    return parser


if __name__ == "__main__":
    # As after Ctrl-C: processes end and folders go.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
