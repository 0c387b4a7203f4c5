"""`make mutants-of-reasons`: changes each cell of the table of reasons, one at a time; exit 1 when a change survives.

A test that reads the table can't notice a wrong cell. `unit/test_reasons.py` states what follows from each row:
conditions of pods, events, checks of `muster explain`, the line of a queue, the JSON document and the sentence.
"""

import argparse
import ast
import sys
import time
from collections.abc import Iterator

from mutants import table
from mutants.hunt import STAGES, Plan, Result, hunt
from mutants.mutant import SOURCES, Mutant

FILE = "model/reasons.py"
NEAR = ["unit/test_reasons.py"]
# What a reason is taken for: across each border that something depends on.
_OTHER_ENDS = {"AUTHOR": "TIME", "ADMINISTRATOR": "TIME", "ROOM": "AUTHOR", "TIME": "ROOM", "MUSTER": "TIME"}
_OTHER_NUMBERS = {"NOTHING": "SLOTS", "SLOTS": "QUOTA", "PODS": "NOTHING", "QUOTA": "NOTHING"}
_FLAGS = ("about_pods", "is_remark", "is_quiet", "not_in_line")


def cells() -> list[Mutant]:
    """One mutant for each cell of each row, and one for each pair of neighbours in the order of precedence."""
    source = (SOURCES / "muster" / FILE).read_text()
    codes = next(one for one in ast.parse(source).body if isinstance(one, ast.ClassDef) and one.name == "Code")
    rows = [one for one in codes.body if isinstance(one, ast.Assign) and isinstance(one.value, ast.Call)]
    found = []
    for at, row in enumerate(rows):
        old = ast.get_source_segment(source, row)
        assert old is not None
        name = ast.unparse(row.targets[0])
        for cell, new in _changes(row):
            found.append(_mutant(name, cell, old, new))
        if at + 1 < len(rows):
            text = source.splitlines(keepends=True)
            both = "".join(text[row.lineno - 1 : rows[at + 1].end_lineno]).strip()
            turned = f"{ast.unparse(rows[at + 1])}\n    {ast.unparse(row)}"
            found.append(_mutant(name, "order", both, turned))
    return found


def _mutant(name: str, cell: str, old: str, new: str) -> Mutant:
    word = name.lower().replace("_", "-")
    return Mutant(
        name=f"reason-{word}-{cell.replace('_', '-')}",
        breaks=f"The cell {cell} of the reason {name} is wrong.",
        like="Issue 23",
        file=FILE,
        old=old,
        new=new,
        near=NEAR,
    )


def _changes(row: ast.Assign) -> Iterator[tuple[str, str]]:
    """The row with one cell changed: the name of the cell, and the row."""
    assert isinstance(row.value, ast.Call)
    target, call = ast.unparse(row.targets[0]), row.value
    given = [ast.unparse(one) for one in call.args]
    named = {one.arg: one.value for one in call.keywords if one.arg is not None}

    def with_cells(args: list[str], more: dict[str, str]) -> str:
        cells = [*args, *(f"{cell}={value}" for cell, value in more.items())]
        return f"{target} = Row({', '.join(cells)})"

    texts = {cell: ast.unparse(value) for cell, value in named.items()}
    word, ends, *step = given
    loud = {cell: value for cell, value in texts.items() if cell != "is_quiet"}
    yield "ends", with_cells([word, f"Ends.{_OTHER_ENDS[ends.removeprefix('Ends.')]}", *step], loud)
    yield "step", with_cells([word, ends, "None" if step else "Step.SPEC"], texts)
    numbers = texts.get("numbers", "Numbers.NOTHING").removeprefix("Numbers.")
    yield "numbers", with_cells(given, {**texts, "numbers": f"Numbers.{_OTHER_NUMBERS[numbers]}"})
    for flag in _FLAGS:
        if flag == "is_quiet" and ends not in ("Ends.AUTHOR", "Ends.ADMINISTRATOR"):
            # The table refuses it.
            continue
        yield flag, with_cells(given, {**texts, flag: "False" if texts.get(flag) == "True" else "True"})
    says = named.get("says")
    if isinstance(says, ast.Tuple):
        for at, part in enumerate(says.elts):
            if ast.literal_eval(part):
                parts = [ast.unparse(one) if number != at else repr("x") for number, one in enumerate(says.elts)]
                yield f"says-{at}", with_cells(given, {**texts, "says": f"({', '.join(parts)})"})


def main() -> int:
    """Hunts them, and gives the exit code."""
    parser = argparse.ArgumentParser(prog="python -m mutants.rows", epilog="Example: python -m mutants.rows over-quota")
    parser.add_argument("names", nargs="*", metavar="NAME", help="part of a name; none: all of them")
    parser.add_argument("--until", choices=STAGES, default="near", help="how far to go (default: near)")
    parser.add_argument("-j", "--jobs", type=int, default=2, metavar="N", help="so many at a time (default 2)")
    asked = parser.parse_args()
    mutants = [one for one in cells() if not asked.names or any(name in one.name for name in asked.names)]
    began_s, ended = time.monotonic(), 0

    def told(result: Result) -> None:
        nonlocal ended
        ended += 1
        sys.stderr.write(table.line(result, ended, len(mutants)))

    results = hunt(mutants, Plan(STAGES[: STAGES.index(asked.until) + 1], 0, asked.jobs), told)
    sys.stdout.write(table.summary(results, time.monotonic() - began_s, alone=False))
    return 0 if all(one.killed for one in results) else 1


if __name__ == "__main__":
    sys.exit(main())
