"""The search: many seeds with progress, what came of them in figures, and every failing one made small."""

import os
import re
import sys
import time
from pathlib import Path
from typing import Any

from muster import __version__
from muster.cli.files import check_writable, write_text
from muster.cli.judging import plural
from muster.cli.render import JSON, NAME, TABLE, WIDE, YAML, columns, say, say_data, tell
from muster.errors import UsageError
from muster.sim import loading
from muster.sim.drawing import story_of
from muster.sim.report import RULES
from muster.sim.searching import DIED, UNLIKE, Found, Totals, fails_by, search
from muster.sim.shrinking import Shrinking
from muster.sim.story import Story

_RANGE = re.compile(r"(\d+)\.\.(\d+)")
MOST_SEEDS = 10_000_000
# Of one rule so many failing seeds are made small.
_MOST_SHRUNK = 3
# One that hangs costs a minute of CPU each time that it is played.
_MOST_HANGS = 10
_MARKS = ("<!-- seeds: begin -->", "<!-- seeds: end -->")
_COUNTS = {
    "events": "changes of objects",
    "requests": "requests of muster",
    "sent bind": "binds sent",
    "sent evict": "evictions sent",
}


def seeds_of(text: str) -> range:
    """`N`: the first N seeds; `A..B`: from A to B. Raises UsageError."""
    found = _RANGE.fullmatch(text)
    first, last = (int(found[1]), int(found[2])) if found else (0, int(text) - 1 if text.isdecimal() else -1)
    if last < first:
        raise UsageError(f"--seeds {text[:40]} is no number of seeds", "write --seeds 500, or --seeds 1000..1999")
    if last - first >= MOST_SEEDS:
        raise UsageError(f"--seeds {text[:40]}: that is more than {MOST_SEEDS:,}", "search them in parts: --seeds A..B")
    return range(first, last + 1)


def run(seeds: range, workers: int | None, tries: int, folder: Path, form: str, report_to: str | None) -> int:
    """Plays them all; the exit code: 1 when something was broken, 130 when it was stopped before."""
    if report_to is not None:
        _marked(report_to)
        check_writable(report_to)
    if tries:
        _check_folder(folder)
    progress = _Progress(form)
    totals = search(seeds, workers=workers or os.cpu_count() or 1, see=progress.see)
    progress.end()
    # What was found is told before anything is made smaller, which may take long.
    if report_to is not None and not totals.is_stopped:
        _write_report(report_to, seeds, totals)
        tell(f"wrote the figures into {report_to}")
    if form == NAME:
        for one in totals.failed:
            say(f"seed/{one.seed}")
    elif form in (TABLE, WIDE):
        _say_totals(seeds, totals, wide=form == WIDE)
        sys.stdout.flush()
    small = {} if totals.is_stopped else _shrunk(totals, tries, folder)
    if form in (JSON, YAML):
        say_data(_document(seeds, totals, small), form)
    if form in (TABLE, WIDE):
        tell(f"next: {_next(seeds, totals, small)}")
    if totals.failed:
        return 1
    return 130 if totals.is_stopped else 0


def _check_folder(folder: Path) -> None:
    """Small stories can be put there once there are some; the folder itself may be new. Raises UsageError."""
    there = folder if folder.exists() else folder.parent
    if there.is_dir() and os.access(there, os.W_OK):
        return
    reason = "permission denied" if there.is_dir() else f"there is no folder {there}"
    hint = "name another folder with --save, or add --tries 0"
    raise UsageError(f"can't put small stories into {folder}: {reason}", hint)


# While it goes on.


class _Progress:
    """One line on a terminal that changes; without one, a line now and then. A failing seed is told at once."""

    def __init__(self, form: str) -> None:
        self._is_terminal = sys.stderr is not None and sys.stderr.isatty()
        self._every_s = 0.5 if self._is_terminal else 30.0
        self._told_s = time.monotonic()
        self._form = form
        self._width = 0

    def see(self, found: Found | None, totals: Totals) -> None:
        """One more seed, or a second has passed."""
        if found is not None and found.violations:
            self._clear()
            one = found.violations[0]
            more = f" (and {len(found.violations) - 1} more)" if len(found.violations) > 1 else ""
            tell(f"BROKEN {one.rule} by seed {found.seed} at {one.at_s:.1f} s: {one.says}{more}", fg="red")
            tell(f"  again: muster simulate --seed {found.seed}")
        if time.monotonic() - self._told_s < self._every_s:
            return
        self._told_s = time.monotonic()
        pace = totals.seeds / totals.wall_s if totals.wall_s else 0.0
        text = (
            f"{totals.seeds:,} of {plural(totals.asked, 'seed')} · {pace:.1f}/s · "
            f"{plural(len(totals.failed), 'failing seed')} · {_span(totals.left_s)} left"
        )
        if self._is_terminal:
            sys.stderr.write("\r" + text.ljust(self._width))
            sys.stderr.flush()
            self._width = len(text)
        else:
            tell(text)

    def end(self) -> None:
        """No more."""
        self._clear()

    def _clear(self) -> None:
        if self._is_terminal and self._width:
            sys.stderr.write("\r" + " " * self._width + "\r")
            self._width = 0


def _span(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


# Failing seeds.


def _shrunk(totals: Totals, tries: int, folder: Path) -> dict[int, str]:
    """The files of the small stories, by seed."""
    files: dict[int, str] = {}
    done: dict[str, int] = {}
    for found in totals.failed if tries else []:
        rule = found.violations[0].rule
        done[rule] = done.get(rule, 0) + 1
        if done[rule] <= _MOST_SHRUNK:
            try:
                files[found.seed] = _shrink(found, rule, min(tries, _MOST_HANGS) if rule == DIED else tries, folder)
            except KeyboardInterrupt:
                tell("the rest is not made smaller")
                break
    return files


def _shrink(found: Found, rule: str, tries: int, folder: Path) -> str:
    story = story_of(found.seed)

    def see(tried: int, smaller: Story) -> None:
        if sys.stderr is not None and sys.stderr.isatty():
            sys.stderr.write(f"\rseed {found.seed}: {_size(smaller)} after {tried} tries   ")

    shrinking = Shrinking(story, fails_by(rule), tries=tries, see=see)
    small = shrinking.run()
    file = str(folder / f"seed-{found.seed}.yaml")
    says = found.violations[0].says.replace("\n", " ")
    folder.mkdir(exist_ok=True)
    write_text(file, f"# Breaks {rule}: {says}\n# Made of seed {found.seed}.\n{loading.write(small)}")
    if sys.stderr is not None and sys.stderr.isatty():
        sys.stderr.write("\r")
    tell(f"seed {found.seed}: {_size(story)} became {_size(small)} after {plural(shrinking.tries, 'playing')}: {file}")
    tell(f"  again: muster simulate -f {file}")
    return file


def _size(story: Story) -> str:
    nodes = sum(one.count or 1 for one in story.nodes)
    parts = ((nodes, "node"), (len(story.workloads), "workload"), (len(story.happens), "happening"))
    return ", ".join(plural(n, noun) for n, noun in (*parts, (len(story.faults), "fault")))


# What came of it.


def _say_totals(seeds: range, totals: Totals, *, wide: bool) -> None:
    for name, value in _figures(seeds, totals).items():
        say(f"{name:<24} {value}")
    faults = _faults(totals)
    if wide and faults:
        say()
        for line in columns([("MUSTER", "TIMES"), *((name, f"{n:,}") for name, n in _deeds(totals).items())]):
            say(line)
        say()
        struck = [("FAULT", "TIMES"), *((name, f"{n:,}") for name, n in faults.items())]
        for line in columns(struck):
            say(line)
    say()
    if not totals.failed:
        say("0 violations" + (" so far: it was stopped" if totals.is_stopped else ""), fg="green", bold=True)
        return
    rows = [("RULE", "SEEDS", "WHAT IT PROMISES")]
    rows += [(rule, f"{n:,}", RULES.get(rule, "")) for rule, n in totals.rules.most_common()]
    for line in columns(rows):
        say(line, fg="red")
    say()
    for one in totals.failed[: None if wide else 20]:
        say(f"seed {one.seed}: {', '.join(sorted({found.rule for found in one.violations}))}")
    say(f"{plural(len(totals.failed), 'failing seed')}", fg="red", bold=True)


def _figures(seeds: range, totals: Totals) -> dict[str, str]:
    cpu_s, wall_s = totals.cpu_s, totals.wall_s
    per_seed = f"{cpu_s / totals.seeds:.2f} s CPU each" if totals.seeds else ""
    pace = f"{totals.seeds / wall_s:.1f} seeds/s" if wall_s else ""
    span = f"{totals.virtual_s / 3600:,.1f} hours" if totals.virtual_s > 3600 else f"{totals.virtual_s:,.0f} s"
    alike = "not all alike" if totals.rules[UNLIKE] else "each with the same digest"
    found = {
        "seeds": f"{totals.seeds:,} ({seeds.start}..{seeds.stop - 1})",
        "played twice": f"{totals.twice:,}, {alike}",
        "simulated time": span,
        "took": f"{_span(wall_s)}, {pace}, {per_seed}",
    }
    found |= {says: f"{totals.counts[name]:,}" for name, says in _COUNTS.items()}
    faults = _faults(totals)
    found["faults that struck"] = f"{sum(faults.values()):,} of {plural(len(faults), 'kind')}"
    found["processes that died"] = f"{totals.counts['crash']:,}"
    return found


def _faults(totals: Totals) -> dict[str, int]:
    prefix = "fault "
    return {name.removeprefix(prefix): n for name, n in sorted(totals.counts.items()) if name.startswith(prefix)}


def _deeds(totals: Totals) -> dict[str, int]:
    """What muster decided, how often."""
    words = ("bound ", "evicted ", "nominated")
    return {name: n for name, n in sorted(totals.counts.items()) if name.startswith(words)}


def _document(seeds: range, totals: Totals, small: dict[int, str]) -> dict[str, Any]:
    failed = [
        {
            "seed": one.seed,
            "command": f"muster simulate --seed {one.seed}",
            "story": small.get(one.seed),
            "violations": [{"at": round(two.at_s, 3), "rule": two.rule, "says": two.says} for two in one.violations],
        }
        for one in totals.failed
    ]
    return {
        "first": seeds.start,
        "last": seeds.stop - 1,
        "seeds": totals.seeds,
        "stopped": totals.is_stopped,
        "playedTwice": totals.twice,
        "virtualSeconds": round(totals.virtual_s, 1),
        "wallSeconds": round(totals.wall_s, 1),
        "cpuSeconds": round(totals.cpu_s, 1),
        "failed": failed,
        "rules": dict(totals.rules),
        "faults": _faults(totals),
        "counts": {name: n for name, n in sorted(totals.counts.items()) if not name.startswith("fault ")},
    }


def _next(seeds: range, totals: Totals, small: dict[int, str]) -> str:
    if small:
        return f"muster simulate -f {next(iter(small.values()))}"
    if totals.failed:
        return f"muster simulate --seed {totals.failed[0].seed}"
    if totals.is_stopped:
        return f"muster simulate --seeds {seeds.start + totals.seeds}..{seeds.stop - 1}"
    return f"muster simulate --seeds {seeds.stop}..{seeds.stop + len(seeds) - 1}"


# The figures in a document.


def _marked(file: str) -> tuple[str, str]:
    """What stands before and behind the place for the figures. Raises UsageError when there is none."""
    try:
        text = Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"can't read {file}: {error.strerror}", "name a Markdown file that is there") from None
    begin, end = (text.find(mark) for mark in _MARKS)
    if begin < 0 or end < begin:
        raise UsageError(f"{file} has no place for the figures", f"put {_MARKS[0]} and {_MARKS[1]} into it")
    return text[: begin + len(_MARKS[0])], text[end:]


def _write_report(file: str, seeds: range, totals: Totals) -> None:
    before, behind = _marked(file)
    rows = [f"| {name} | {value} |" for name, value in _figures(seeds, totals).items()]
    rows.append(f"| violations | {len(totals.failed)} |")
    broken = "".join(f"\n- {rule}: {plural(n, 'seed')}\n" for rule, n in totals.rules.most_common())
    faults, deeds = (
        ", ".join(f"{name} {n:,}" for name, n in some.items()) for some in (_faults(totals), _deeds(totals))
    )
    command = f"muster simulate --seeds {seeds.start}..{seeds.stop - 1}"
    text = "\n".join([f"Measured by `{command}` of muster {__version__}.", "", "| | |", "|---|---|", *rows])
    decided = f"What muster decided, in pods (whatever the next plan says again counts again): {deeds}."
    write_text(file, f"{before}\n{text}\n{broken}\n{decided}\n\nFaults that struck: {faults}.\n{behind}")
