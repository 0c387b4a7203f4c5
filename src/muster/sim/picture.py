"""A story as one page that needs nothing else: lanes over time, the map of nodes at the end, reasons, and every line.

There is no script in it, and nothing is fetched. Everything that comes from a story is escaped.
"""

from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

from muster.sim.floorplan import Legend, floorplan
from muster.sim.loading import Take
from muster.sim.page_style import STYLE
from muster.sim.report import RULES, Figures, GangFigures, Point, report_of
from muster.sim.timeline import CLUSTER, FAULT, JUDGE, PEOPLE, PROCESS, Entry
from muster.sim.trace import Outcome

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
# A lane has at most so many marks; more would be a line.
_MOST_MARKS, _MOST_ENTRIES = 400, 5_000
_MARKS = {"bind": "▲", "room": "△", "evict": "▼", "Failed": "✕", "Succeeded": "✓", "gone": "·", "leave": "▽"}


class Told(NamedTuple):
    """A take and what came of it."""

    take: Take
    outcome: Outcome
    figures: Figures
    entries: list[Entry]


def page(takes: Sequence[Told], command: str) -> str:
    """The page of a story."""
    story = takes[0].take.story
    title = story.claim or story.why or f"seed {story.seed}"
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>",
        f"<header><h1>{escape(title)}</h1>",
        f"<p>{escape(story.why)}</p>" if story.claim and story.why else "",
        f"<p class=quiet>muster, simulated. Again: <code>{escape(command)}</code></p></header>",
    ]
    for number, told in enumerate(takes, start=1):
        steps = ", ".join(map(str, told.take.numbers))
        parts.append("<main>")
        parts.append(f"<h2>Take {number} of {len(takes)}: steps {steps}</h2>" if len(takes) > 1 else "")
        parts += _take(told)
        parts.append("</main>")
    return "\n".join([*filter(None, parts), "</body></html>", ""])


def _take(told: Told) -> list[str]:
    outcome = told.outcome
    end_s = outcome.virtual_s or 1.0
    legend = Legend(sorted(told.figures.gangs))
    return [
        _verdict(outcome),
        "<section><h3>What happened</h3>",
        *_lanes(told, end_s, legend),
        "</section>",
        "<section><h3>Where everybody is in the end</h3>",
        floorplan(outcome.server, legend),
        "</section>",
        "<section><h3>Gangs</h3>",
        _gangs(told, legend),
        "</section>",
        *_queues(told.figures, end_s),
        "<section><details open><summary>All of it, in words</summary>",
        _table(told.entries),
        "</details></section>",
    ]


def _verdict(outcome: Outcome) -> str:
    bad = outcome.violations
    word = f"{len(bad)} broken" if bad else "all of it holds"
    lines = [
        f"<p><span class='badge {'bad' if bad else 'good'}'>{word}</span> "
        f"<span class=quiet>{outcome.virtual_s:,.0f} virtual seconds · {outcome.counts['events']:,} changes · "
        f"digest <code>{escape(outcome.digest)}</code></span></p>"
    ]
    lines += [
        f"<p class=broken><b>{escape(one.rule)}</b> at {one.at_s:.3f} s"
        f" <span class=quiet>({escape(RULES.get(one.rule, 'a rule'))})</span><br>{escape(one.says)}</p>"
        for one in bad
    ]
    return "\n".join(lines)


# Lanes.


def _lanes(told: Told, end_s: float, legend: Legend) -> Iterable[str]:
    story, entries = told.take.story, told.entries
    yield "<div class=lanes>"
    yield f"<div class=label></div><div class='track axis'>{_axis(end_s)}</div>"
    yield _lane("people", "", _marks([one for one in entries if one.kind in (PEOPLE, CLUSTER)], end_s, "●"))
    if any(one.kind == FAULT for one in entries):
        yield _lane("faults", "", _marks([one for one in entries if one.kind == FAULT], end_s, "⚡"))
    if any(one.kind == JUDGE for one in entries):
        yield _lane("judge", "", _marks([one for one in entries if one.kind == JUDGE], end_s, "◆"))
    for number in range(story.processes):
        mine = [one for one in entries if one.kind == PROCESS and one.who == f"muster-{number}"]
        yield _lane(f"muster-{number}", "", _lives(mine, end_s) + _marks(mine, end_s, "|"))
    for name, gang in sorted(told.figures.gangs.items(), key=lambda one: (one[1].came_s, one[0])):
        mine = [one for one in entries if one.gang == name and one.deed not in ("state", "")]
        yield _lane(name, legend.swatch(name), _states(gang, end_s) + _marks(mine, end_s, "·"))
    yield "</div>"
    signs = "▲ bound · △ room promised · ▼ evicted · ✓ finished · ✕ failed · ⚡ a fault"
    yield f"<p class=quiet>{signs} · green: its minimum is placed · hover to read</p>"


def _lane(name: str, swatch: str, inside: str) -> str:
    return f"<div class=label>{swatch}{escape(name)}</div><div class=track>{inside}</div>"


def _axis(end_s: float) -> str:
    step = next(step for step in (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 3600, 10**9) if end_s / step <= 14)
    ticks = range(0, int(end_s) + 1, step)
    return "".join(f"<span class=tick style='left:{100 * at / end_s:.2f}%'>{at} s</span>" for at in ticks)


def _at(at_s: float, end_s: float) -> str:
    return f"left:{100 * min(at_s, end_s) / end_s:.3f}%"


def _marks(entries: Sequence[Entry], end_s: float, sign: str) -> str:
    return "".join(
        f"<i class='mark {escape(one.kind)} {_colour(one)}' style='{_at(one.at_s, end_s)}' "
        f'title="{escape(f"{one.at_s:.2f} s  {one.what}")}">{_MARKS.get(one.deed, sign)}</i>'
        for one in entries[:_MOST_MARKS]
    )


def _colour(entry: Entry) -> str:
    """What was broken stands out."""
    is_broken = entry.kind == JUDGE and entry.what.partition(":")[0] in RULES
    return "bad" if is_broken else escape(entry.deed)


def _segment(begin_s: float, until_s: float, end_s: float, kind: str, title: str) -> str:
    width = 100 * max(0.0, min(until_s, end_s) - begin_s) / end_s
    where = f"{_at(begin_s, end_s)};width:{width:.3f}%"
    return f"<span class='seg {escape(kind)}' style='{where}' title=\"{escape(title)}\"></span>"


def _states(gang: GangFigures, end_s: float) -> str:
    found = []
    for row, (begin_s, phase, reason) in enumerate(gang.states):
        until_s = gang.states[row + 1][0] if row + 1 < len(gang.states) else end_s
        if phase:
            says = f"{begin_s:.1f}–{until_s:.1f} s: {phase}{': ' + reason if reason else ''}"
            found.append(_segment(begin_s, until_s, end_s, phase, says))
    return "".join(found)


def _lives(entries: Sequence[Entry], end_s: float) -> str:
    """When a process was there, and when it led."""
    found, begun_s = [], None
    for one in [*entries, Entry(end_s, "", PROCESS, "ended")]:
        if one.what.startswith("starts"):
            begun_s = one.at_s
        elif one.what.startswith(("crashes", "ended")) and begun_s is not None:
            found.append(_segment(begun_s, one.at_s, end_s, "alive", f"{begun_s:.1f}–{one.at_s:.1f} s"))
            begun_s = None
    return "".join(found)


# Tables.


def _gangs(told: Told, legend: Legend) -> str:
    report = report_of(told.take.story, told.outcome, told.figures)
    rows = []
    for one in report["gangs"]:
        phase = escape(one["phase"])
        cells = (
            f"{legend.swatch(one['name'])}{escape(one['name'])}",
            escape(one["queue"]),
            f"<span class='pill {phase}'>{phase or '-'}</span>",
            escape(one["pods"]),
            f"{one['waited']:.1f} s",
            f"{one['placed']}×",
            str(one["bound"]),
            str(one["evicted"]),
            f"{one['belowMinimum']:.1f} s",
            f"{escape(one['reason'])}<br><span class=quiet>{escape(one['message'])}</span>",
        )
        rows.append("<tr>" + "".join(f"<td>{cell}" for cell in cells))
    heads = ("gang", "queue", "phase", "pods", "waited", "placed", "bound", "evicted", "below minimum", "reason")
    head = "".join(f"<th>{name}" for name in heads)
    return f"<div class=wide><table><tr>{head}{''.join(rows)}</table></div>" if rows else "<p>there were none</p>"


def _queues(figures: Figures, end_s: float) -> list[str]:
    shown = {name: points for name, points in figures.queues.items() if any(one.allocated for one in points)}
    if not shown:
        return []
    charts = [_chart(name, points, end_s) for name, points in sorted(shown.items())]
    return ["<section><h3>Queues: GPUs that they have, and (dashed) their fair share</h3>", *charts, "</section>"]


def _chart(name: str, points: Sequence[Point], end_s: float) -> str:
    most = max(max(one.allocated, one.fair_share) for one in points) or 1.0

    def line(values: Iterable[tuple[float, float]]) -> str:
        found, last = [], 0.0
        for at_s, value in values:
            across = 600 * at_s / end_s
            found += [f"{across:.1f},{56 - 50 * last / most:.1f}", f"{across:.1f},{56 - 50 * value / most:.1f}"]
            last = value
        return " ".join([*found, f"600,{56 - 50 * last / most:.1f}"])

    has, due = line((one.at_s, one.allocated) for one in points), line((one.at_s, one.fair_share) for one in points)
    return (
        f"<figure><figcaption>{escape(name)} <span class=quiet>most {most:g}</span></figcaption>"
        "<svg viewBox='0 0 600 60' preserveAspectRatio='none' role=img>"
        f"<polyline class=has points='{has}'/><polyline class=due points='{due}'/></svg></figure>"
    )


def _table(entries: Sequence[Entry]) -> str:
    rows = [
        f"<tr class={escape(one.kind)}><td>{one.at_s:.2f}<td>{escape(one.who)}<td>{escape(one.what)}"
        for one in entries[:_MOST_ENTRIES]
    ]
    more = len(entries) - _MOST_ENTRIES
    if more > 0:
        rows.append(f"<tr><td><td><td>and {more:,} more")
    return f"<div class=wide><table class=story><tr><th>second<th>who<th>what{''.join(rows)}</table></div>"
