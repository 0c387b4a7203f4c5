"""What came of a hunt, for people: progress, a summary, JSON, and the table of the page."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from mutants.hunt import Result
from mutants.mutant import HERE, Mutant

PAGE = HERE / "README.md"
BEGIN, END = "<!-- measured: make mutants ARGS=--write -->", "<!-- end -->"
_LONGEST = 110


def listed(mutants: Sequence[Mutant]) -> str:
    """The mutants, and what each breaks."""
    return "".join(f"{one.name}\n    {one.file} · {one.like}\n    {one.breaks}\n" for one in mutants)


def line(result: Result, number: int, of: int) -> str:
    """One mutant as it ends."""
    state = "killed  " if result.killed else "VOID    " if result.void else "SURVIVED"
    who = result.void or result.killer or result.mutant.breaks
    return f"[{number:>3}/{of}] {state} {result.seconds:5.1f} s  {result.mutant.name}: {who[:_LONGEST]}\n"


def summary(results: Sequence[Result], seconds: float) -> str:
    """How many were killed, by what, and who was not."""
    killed = [one for one in results if one.killed]
    stages = Counter(one.stage for one in killed)
    by = ", ".join(f"{count} by {stage}" for stage, count in stages.items())
    text = f"{len(killed)} of {len(results)} mutants killed" + (f" ({by})" if by else "") + f" in {seconds:.0f} s\n"
    for one in results:
        if not one.killed:
            said = one.void or f"nobody noticed: {one.mutant.breaks}"
            text += f"  {one.mutant.name} ({one.mutant.file}): {said}\n"
    survived = [one for one in results if not one.killed]
    again = " ".join(one.mutant.name for one in survived) if survived else "--write"
    what = "after the test that was missing is written" if survived else "to write the table"
    return f"{text}next: make mutants ARGS='{again}', {what}\n"


def as_json(results: Sequence[Result], seconds: float) -> str:
    """The same for programs."""
    found = [
        {
            "name": one.mutant.name,
            "file": one.mutant.file,
            "breaks": one.mutant.breaks,
            "like": one.mutant.like,
            "killed": one.killed,
            "by": one.killer or None,
            "stage": one.stage if one.killed else None,
            "says": one.void or one.says or None,
            "seconds": round(one.seconds, 1),
        }
        for one in results
    ]
    killed = sum(one.killed for one in results)
    return (
        json.dumps({"mutants": found, "killed": killed, "all": len(found), "seconds": round(seconds)}, indent=1) + "\n"
    )


def measured(results: Sequence[Result], seconds: float) -> str:
    """The table of the page."""
    killed = sum(one.killed for one in results)
    rows = [f"{killed} of {len(results)} killed, in {seconds:.0f} s, two at a time on two cores.", ""]
    rows += ["| mutant | what it breaks | like | killed by | s |", "|---|---|---|---|---|"]
    for one in results:
        who = _cell(short(one.killer)) if one.killed else "**nobody**"
        cells = (f"`{one.mutant.name}`", _cell(one.mutant.breaks), _cell(one.mutant.like), who, f"{one.seconds:.0f}")
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def short(killer: str) -> str:
    """A test without what all of them have in common."""
    return killer.removeprefix("tests/").removeprefix("unit/")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def write(results: Sequence[Result], seconds: float, page: Path = PAGE) -> None:
    """Puts the table into the page, in place of the one before."""
    text = page.read_text()
    before, _, rest = text.partition(BEGIN)
    _, ended, after = rest.partition(END)
    assert ended, f"{page.name} has no place for the table: {BEGIN} … {END}"
    page.write_text(f"{before}{BEGIN}\n\n{measured(results, seconds)}\n\n{END}{after}")
