"""`make bench`: every measurement in CPU time, best of n, with the peak of memory where it matters."""

import argparse
import fnmatch
import functools
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

from bench import embedded, engine, foundation, gap, grouping, page, queues, report, trees
from bench.measure import Case, Row, measure, measure_process, profile


class Group(NamedTuple):
    """Rows that are measured together; `--only` takes or leaves them together."""

    name: str
    rows: Callable[[int], Iterator[Row]]


def groups(instances: int) -> Iterator[Group]:
    """Everything there is, in the order of the table."""
    for what, args in foundation.COMMANDS.items():
        case = Case(what, lambda: None, section=foundation.SECTION)
        yield Group(what, functools.partial(_process, case, args))
    for case in cases():
        yield Group(case.what, functools.partial(_one, case))
    yield Group("large cycle and steady state", engine.large)
    yield Group("large cycle, peak of memory", engine.peak)
    yield Group("large cycle, 200 shapes", engine.shapes)
    yield Group("growth", engine.growth)
    yield Group("refusal study", lambda _: trees.study(instances))
    yield Group("victim gap", lambda _: gap.study(instances))


def cases() -> Iterator[Case]:
    """What is one case each, and can be profiled."""
    yield from foundation.cases()
    yield from engine.cases()
    yield from trees.cases()
    yield from queues.cases()
    yield from grouping.cases()
    yield from embedded.cases()
    yield from page.cases()


def _process(case: Case, args: list[str], best_of: int) -> Iterator[Row]:
    yield measure_process(case, best_of, args)


def _one(case: Case, best_of: int) -> Iterator[Row]:
    yield measure(case, best_of)


def matches(pattern: str, name: str) -> bool:
    """Part of a name, or a pattern with stars."""
    return fnmatch.fnmatch(name.lower(), pattern.lower() if "*" in pattern else f"*{pattern.lower()}*")


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(prog="make bench", description="The benchmark table.")
    parser.add_argument("--best-of", type=int, default=5, help="runs of which the fastest counts")
    parser.add_argument("--only", default="*", metavar="PATTERN", help="measurements whose name has this in it")
    parser.add_argument("--list", action="store_true", help="the names of all measurements")
    parser.add_argument("--instances", type=int, default=200, help="instances of each study")
    parser.add_argument("--json", metavar="FILE", help="write the rows there too")
    parser.add_argument("--write", metavar="FILE", help="write them as a page, with the machine named")
    parser.add_argument("--profile", metavar="CASE", help="where the time of the first matching measurement goes")
    asked = parser.parse_args()
    if asked.profile:
        print(profile(_first(asked.profile)))
        return
    rows: list[Row] = []
    print(report.heading(asked.best_of))
    for group in groups(asked.instances):
        if not matches(asked.only, group.name):
            continue
        if asked.list:
            print(group.name)
            continue
        for row in group.rows(asked.best_of):
            print(report.line(row, rows[-1].section if rows else ""), flush=True)
            rows.append(row)
    if asked.json:
        report.write_json(asked.json, rows)
    if asked.write:
        report.write_page(asked.write, rows, asked.best_of, asked.instances)


def _first(pattern: str) -> Case:
    for case in (*cases(), *engine.profiled()):
        if matches(pattern, case.what):
            return case
    sys.exit(f"no measurement is called like {pattern!r}; python -m bench --list names them")


if __name__ == "__main__":
    main()
