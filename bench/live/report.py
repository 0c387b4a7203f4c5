"""From runs to words: the median of several, how many times as fast, which target was met; a table, and JSON."""

import json
import math
import re
import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench.live.objects import KUBE, MUSTER
from bench.measure import MIB

BEGIN, END = (
    "<!-- `python -m bench.live --write` begins here. -->",
    "<!-- `python -m bench.live --write` ends here. -->",
)
_WIDTHS = (12, 14, 10, 10, 10, 9, 10)
_HEAD = ("case", "scheduler", "first bind", "last bind", "pods/s", "CPU", "peak RSS", "came to")


class Run(NamedTuple):
    """One measurement. Times are seconds; `last_s` counts from the start, so that every wait is in it."""

    case: str
    who: str
    pods: int
    first_s: float
    last_s: float
    cpu_s: float
    peak_bytes: int
    # The rest, by name: what only some cases have.
    more: dict[str, float] = {}
    # What was wrong with the outcome: then no time is good enough.
    wrong: str = ""

    @property
    def rate(self) -> float:
        """Pods each second, waits included."""
        return self.pods / self.last_s if self.last_s > 0 else 0.0


class Target(NamedTuple):
    """What a case has to reach, in words, and how far it came."""

    case: str
    says: str
    value: Callable[[Sequence[Run]], float | None]
    most: float = math.inf
    least: float = -math.inf


class Verdict(NamedTuple):
    """A target with what was measured; None when it is only there to be watched."""

    case: str
    says: str
    value: float
    met: bool | None


def median_of(runs: Iterable[Run], case: str, who: str, value: Callable[[Run], float]) -> float | None:
    """The median over the runs of one case by one scheduler; None when there are none."""
    found = [value(run) for run in runs if run.case == case and run.who == who]
    return statistics.median(found) if found else None


def times_as_fast(case: str) -> Callable[[Sequence[Run]], float | None]:
    """Pods a second of muster for each of kube-scheduler, median by median."""

    def ratio(runs: Sequence[Run]) -> float | None:
        ours, theirs = (median_of(runs, case, who, lambda run: run.rate) for who in (MUSTER, KUBE))
        return ours / theirs if ours is not None and theirs else None

    return ratio


def of_muster(case: str, value: Callable[[Run], float]) -> Callable[[Sequence[Run]], float | None]:
    """A number of muster's own, as the median."""
    return lambda runs: median_of(runs, case, MUSTER, value)


def _pinned() -> str:
    """The version of Kubernetes that is built and measured beside muster."""
    text = (Path(__file__).parents[2] / "e2e" / "go.mod").read_text()
    found = re.search(r"^\s*k8s\.io/kubernetes v(\S+)", text, re.MULTILINE)
    assert found, "e2e/go.mod does not require k8s.io/kubernetes"
    return found[1]


_THEM = f"kube-scheduler {_pinned()}"

TARGETS = (
    Target("singles", f"times as fast as {_THEM}, at least 1.5", times_as_fast("singles"), least=1.5),
    Target("gangs-8", f"times as fast as native gangs of {_THEM}, at least 3", times_as_fast("gangs-8"), least=3.0),
    Target("gangs-32", f"times as fast as native gangs of {_THEM}, at least 3", times_as_fast("gangs-32"), least=3.0),
    Target("gang-512", f"times as fast as a native gang of {_THEM}", times_as_fast("gang-512")),
    Target("live", f"times as fast as native gangs of {_THEM}", times_as_fast("live")),
    Target(
        "latency", "ms to the first bind, p50, at most 100", of_muster("latency", lambda r: r.more["p50_ms"]), most=100
    ),
    Target("size", "s from start to first bind, at most 10", of_muster("size", lambda r: r.first_s), most=10),
    Target("size", "MiB at the peak, at most 600", of_muster("size", lambda r: r.peak_bytes / MIB), most=600),
)


def verdicts(runs: Sequence[Run], targets: Iterable[Target] = TARGETS) -> list[Verdict]:
    """How far each target was reached, as far as it was measured. A wrong outcome reaches none."""
    found = []
    for target in targets:
        value = target.value(runs)
        if value is not None:
            met = None
            if math.isfinite(target.most) or math.isfinite(target.least):
                right = not any(run.wrong for run in runs if run.case == target.case and run.who == MUSTER)
                met = right and target.least <= value <= target.most
            found.append(Verdict(target.case, target.says, value, met))
    return found


def percentile(values: Sequence[float], part: float) -> float:
    """The smallest value that at least this part of them do not exceed."""
    return sorted(values)[max(0, math.ceil(part * len(values)) - 1)]


def head() -> str:
    """The names of the columns."""
    return _cells(_HEAD)


def line(run: Run) -> str:
    """One run."""
    return _cells(_shown(run))


def _shown(run: Run) -> tuple[str, ...]:
    says = ", ".join(f"{name.replace('_', ' ')} {value:,.3g}" for name, value in run.more.items())
    return (
        run.case,
        run.who,
        f"{run.first_s:.2f} s",
        f"{run.last_s:.2f} s",
        f"{run.rate:,.0f}",
        f"{run.cpu_s:.1f} s",
        f"{run.peak_bytes / MIB:,.0f} MiB",
        f"WRONG: {run.wrong}" if run.wrong else says,
    )


def _cells(cells: Sequence[str]) -> str:
    padded = [
        text.ljust(width) if at < 2 else text.rjust(width)
        for at, (text, width) in enumerate(zip(cells, _WIDTHS, strict=False))
    ]
    return "  ".join([*padded, *cells[len(_WIDTHS) :]]).rstrip()


def summary(found: Iterable[Verdict]) -> str:
    """The targets, a line each."""
    words = {None: "", True: ": met", False: ": MISSED"}
    return "\n".join(f"{one.case:<12}  {one.value:>7.3g} {one.says}{words[one.met]}" for one in found)


def document(runs: Sequence[Run], machine: str) -> str:
    """Everything, for programs."""
    rows: list[dict[str, Any]] = [{**run._asdict(), "rate": round(run.rate, 1)} for run in runs]
    return json.dumps(
        {"machine": machine, "runs": rows, "targets": [one._asdict() for one in verdicts(runs)]}, indent=1
    )


def page(runs: Sequence[Run], machine: str) -> str:
    """The runs and the targets as tables of a page."""
    found = [
        (one.case, one.says, f"{one.value:.3g}", {None: "", True: "yes", False: "**no**"}[one.met])
        for one in verdicts(runs)
    ]
    tables = (_table(_HEAD, map(_shown, runs)), _table(("case", "what", "measured", "met"), found))
    return "\n\n".join([f"Measured on {machine}.", *tables])


def _table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [names, ["---"] * len(names), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def write_page(path: Path, text: str) -> None:
    """Keeps the page, and writes anew what stands between the marks."""
    before, begin, rest = path.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    assert begin, f"{path} has no line {BEGIN!r}"
    assert end, f"{path} has no line {END!r}"
    path.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}")
