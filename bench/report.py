"""The rows in words: a table for the terminal, JSON for programs, a page for docs/."""

import json
import platform
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from bench.measure import MIB, Row, shown

_WIDTH = 74
MARK = "<!-- From here on `python -m bench --write docs/performance.md` writes. -->"


def machine() -> str:
    """What was measured on; names no host."""
    model = platform.machine()
    cores = 0
    try:
        for text in Path("/proc/cpuinfo").read_text().splitlines():
            key, _, value = text.partition(":")
            cores += key.strip() == "processor"
            if key.strip() == "model name":
                model = value.strip()
    except OSError:
        pass
    return f"{cores or '?'} cores of {model}, {platform.system()}, Python {platform.python_version()}"


def heading(best_of: int) -> str:
    """What stands above the table."""
    return (
        f"CPU time, best of {best_of}; {machine()}\n\n"
        f"{'what':<{_WIDTH}} {'time':>9} {'rate':>22} {'peak':>9} {'target':>11}"
    )


def line(row: Row, section_before: str) -> str:
    """One line of the table, below the name of its section when that is new."""
    time = shown(row.seconds) if row.seconds is not None else ""
    text = f"{row.what:<{_WIDTH}} {time:>9} {row.rate:>22} {_peak(row):>9} {row.target:>11} {_met(row):<6} {row.says}"
    return text.rstrip() if row.section == section_before else f"\n{row.section}\n{text.rstrip()}"


def _peak(row: Row) -> str:
    return f"{row.peak_bytes / MIB:,.1f} MiB" if row.peak_bytes else ""


def _met(row: Row) -> str:
    return "" if row.met is None else ("met" if row.met else "MISSED")


def write_json(path: str, rows: Sequence[Row]) -> None:
    """The rows as a list of objects."""
    found = {"machine": machine(), "rows": [row._asdict() for row in rows]}
    Path(path).write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


def write_page(path: str, rows: Sequence[Row], best_of: int, instances: int) -> None:
    """Keeps the page's prose, down to the mark, and writes everything behind it again."""
    page = Path(path)
    prose, mark, _ = page.read_text().partition(MARK)
    assert mark, f"{path} has no line {MARK!r}"
    parts = [
        f"Measured on {machine()}. Times are CPU, best of {best_of} (of 2 where a run takes seconds); {instances} "
        "instances of each kind in the studies of refusals and of victims."
    ]
    for section, found in groupby(rows, key=lambda row: row.section):
        parts += [f"## {section}", _table(list(found))]
    page.write_text(prose + mark + "\n\n" + "\n\n".join(parts) + "\n")


def _table(rows: Sequence[Row]) -> str:
    head = ["what", "time", "rate", "peak", "target", "met", "came to"]
    cells = [
        [
            row.what,
            shown(row.seconds) if row.seconds is not None else "",
            row.rate,
            _peak(row),
            row.target,
            {None: "", True: "yes", False: "**no**"}[row.met],
            row.says,
        ]
        for row in rows
    ]
    used = [index for index in range(len(head)) if index == 0 or any(cell[index] for cell in cells)]
    lines = [head, ["---"] * len(head), *cells]
    return "\n".join("| " + " | ".join(cell[index] for index in used) + " |" for cell in lines)
