"""What came of a hunt, for people: progress, a summary, JSON, and the table of the page."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from mutants.hunt import Result
from mutants.mutant import HERE, Mutant

PAGE = HERE / "README.md"
END = "<!-- end -->"
# Where each of the two tables stands.
SUITE = "<!-- measured: make mutants ARGS=--write -->"
ALONE = "<!-- measured: make mutants ARGS='--only-seeds --write' -->"
_LONGEST = 110


def listed(mutants: Sequence[Mutant]) -> str:
    """The mutants, and what each breaks."""
    return "".join(f"{one.name}\n    {one.file} · {one.like}\n    {one.breaks}\n" for one in mutants)


def line(result: Result, number: int, of: int) -> str:
    """One mutant as it ends."""
    state = "killed  " if result.killed else "VOID    " if result.void else "SURVIVED"
    who = result.void or result.killer or result.mutant.breaks
    return f"[{number:>3}/{of}] {state} {result.seconds:5.1f} s  {result.mutant.name}: {who[:_LONGEST]}\n"


def summary(results: Sequence[Result], seconds: float, *, alone: bool = False) -> str:
    """How many were killed, by what, and who was not. `alone`: only the simulation was asked."""
    killed = [one for one in results if one.killed]
    stages = Counter(one.stage for one in killed)
    by = ", ".join(f"{count} by {stage}" for stage, count in stages.items())
    text = f"{len(killed)} of {len(results)} mutants killed" + (f" ({by})" if by else "") + f" in {seconds:.0f} s\n"
    left = [one for one in results if not one.killed]
    for one in left:
        said = one.void or f"nobody noticed: {one.mutant.breaks}"
        text += f"  {one.mutant.name} ({one.mutant.file}): {said}\n"
    again = " ".join(one.mutant.name for one in left)
    if not left:
        return f"{text}next: make mutants ARGS=--write, to write the table\n"
    if alone:
        return f"{text}next: make mutants ARGS='{again}', which asks the tests\n"
    return f"{text}next: write the test that is missing, then make mutants ARGS='{again}'\n"


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
    """The table of the page: every mutant, and who killed it."""
    killed = sum(one.killed for one in results)
    rows = [f"{killed} of {len(results)} killed, in {seconds:.0f} s, two at a time on two cores.", ""]
    rows += ["| mutant | what it breaks | like | killed by | s |", "|---|---|---|---|---|"]
    for one in results:
        who = _cell(short(one.killer)) if one.killed else "**nobody**"
        cells = (f"`{one.mutant.name}`", _cell(one.mutant.breaks), _cell(one.mutant.like), who, f"{one.seconds:.0f}")
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def measured_alone(results: Sequence[Result], seconds: float, seeds: int) -> str:
    """The table of what the simulation finds by itself: the first seed, and what it says there; then the others."""
    killed = sorted((one for one in results if one.killed), key=lambda one: int(one.killer.split()[1]))
    rows = [f"{len(killed)} of {len(results)} killed within {seeds} seeds, in {seconds:.0f} s.", ""]
    rows += ["| mutant | first seed | what it says |", "|---|---|---|"]
    rows += [f"| `{one.mutant.name}` | {one.killer.split()[1]} | {_cell(one.says)[:_LONGEST]} |" for one in killed]
    by_room: dict[str, list[str]] = {}
    for one in results:
        if not one.killed:
            by_room.setdefault(one.mutant.room, []).append(f"`{one.mutant.name}`")
    rows += ["", "Not seen by these seeds, and killed by tests:", ""]
    rows += [f"- {room}: {', '.join(names)}" for room, names in by_room.items()]
    return "\n".join(rows)


def short(killer: str) -> str:
    """A test without what all of them have in common."""
    return killer.removeprefix("tests/").removeprefix("unit/")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def write(text: str, mark: str = SUITE, page: Path = PAGE) -> None:
    """Puts a table into the page, in place of the one before."""
    before, _, rest = page.read_text().partition(mark)
    _, ended, after = rest.partition(END)
    assert ended, f"{page.name} has no place for the table: {mark} … {END}"
    page.write_text(f"{before}{mark}\n\n{text}\n\n{END}{after}")
