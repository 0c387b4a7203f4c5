"""Stories for people: one is told line by line and summed up, of many there is a table."""

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from muster.api.documents import Limits
from muster.cli.files import read_bytes, write_text
from muster.cli.judging import plural
from muster.cli.render import JSON, NAME, TABLE, WIDE, YAML, columns, say, say_data, sayable, tell
from muster.errors import MusterError
from muster.sim import loading
from muster.sim.drawing import story_of
from muster.sim.loading import Take
from muster.sim.picture import Told, page
from muster.sim.play import play
from muster.sim.report import RULES, Figures, report_of
from muster.sim.scenario import BadScenario
from muster.sim.story import Story
from muster.sim.timeline import Entry, Timeline
from muster.sim.trace import Line, Outcome

_STYLES: dict[str, dict[str, Any]] = {
    "people": {"fg": "cyan"},
    "fault": {"fg": "yellow"},
    "process": {"fg": "magenta"},
    "judge": {"bold": True},
    "cluster": {"dim": True},
}
_MOST_REASON = 100
# What is broken when a file can't be played.
_FILE = "file"


class Named(NamedTuple):
    """A story, what it is called, and the command that plays it."""

    name: str
    command: str
    story: Story


class Played(NamedTuple):
    """What came of one take."""

    take: Take
    outcome: Outcome
    figures: Figures
    entries: list[Entry]


def drawn(seed: int) -> Named:
    """The story of a seed."""
    return Named(f"seed {seed}", f"muster simulate --seed {seed}", story_of(seed))


def read(name: str) -> Named:
    """The story of a file. Raises BadScenario, or UsageError when there is no such file."""
    return Named(name, _command(name), loading.parse(read_bytes(name, Limits()), name))


def _command(file: str) -> str:
    return f"muster simulate -f {shlex.quote(file)}"


def write(named: Named, file: str) -> None:
    """The story as YAML, to a file. Raises UsageError when that can't be written."""
    text = f"# {named.command}\n{loading.write(named.story)}"
    write_text(file, text)
    tell(f"wrote {file}")


# One story.


def tell_one(named: Named, form: str, *, quiet: bool, html: str | None) -> bool:
    """The whole story and its report; whether all of it holds."""
    takes = loading.takes(named.story)
    shows = form in (TABLE, WIDE) and not quiet
    if form in (TABLE, WIDE):
        _say_title(named)
    played = []
    for number, take in enumerate(takes, start=1):
        if shows and len(takes) > 1:
            steps = ", ".join(map(str, take.numbers))
            say()
            say(f"take {number} of {len(takes)}: steps {steps}, as if the plan before had not been carried out")
        try:
            played.append(_played(take, wide=form == WIDE, shows=shows))
        except BadScenario as error:
            raise BadScenario(f"{named.name}: {error.message}", error.hint) from None
    holds = not any(one.outcome.violations for one in played)
    if html:
        write_text(html, page([Told(one.take, one.outcome, one.figures, one.entries) for one in played], named.command))
    _say_reports(named, played, form)
    if html:
        tell(f"wrote {html}: open it in a browser")
    if form in (TABLE, WIDE):
        _tell_next(named, holds, html)
    return holds


def _say_title(named: Named) -> None:
    claim = named.story.claim or (f"{named.name}: {named.story.why}" if named.story.why else named.name)
    say(claim, bold=True)
    if named.story.claim and named.story.why:
        say(f"  {named.story.why}")
    say()


def _played(take: Take, *, wide: bool = False, shows: bool = False) -> Played:
    entries: list[Entry] = []

    def told(entry: Entry) -> None:
        entries.append(entry)
        if shows and not wide:
            _say_entry(entry)

    timeline, figures = Timeline(told), Figures()

    def see(line: Line) -> None:
        timeline.line(line)
        if shows and wide:
            say(f"{line.at_s:9.3f}  {line.who:<9} {line.what}")

    def follow(*change: Any) -> None:
        timeline.change(*change)
        figures.change(*change)

    outcome = play(take.story, see=see, follow=follow)
    timeline.end()
    figures.end(outcome.virtual_s)
    return Played(take, outcome, figures, entries)


def _say_entry(entry: Entry) -> None:
    style = _STYLES.get(entry.kind, {})
    if entry.kind == "judge" and entry.what.partition(":")[0] in RULES:
        style = {"fg": "red", "bold": True}
    say(sayable(f"{entry.at_s:8.2f}s  {entry.who:<9} {entry.what}"), **style)


def _say_reports(named: Named, played: Sequence[Played], form: str) -> None:
    if form in (JSON, YAML):
        documents = [_document(named, one) for one in played]
        say_data(documents[0] if len(documents) == 1 else documents, form)
        return
    if form == NAME:
        for rule in sorted({one.rule for some in played for one in some.outcome.violations}):
            say(rule)
        return
    for number, one in enumerate(played, start=1):
        say()
        if len(played) > 1:
            say(f"take {number}", bold=True)
        _say_report(one, wide=form == WIDE)
    for one in played:
        _say_violations(named, one)
    bad = sum(len(one.outcome.violations) for one in played)
    digests = ", ".join(one.outcome.digest for one in played)
    verdict = f"{plural(bad, 'violation')}" if bad else "all of it holds"
    say()
    say(f"verdict: {verdict}   digest: {digests}", fg="red" if bad else "green", bold=True)


def _document(named: Named, played: Played) -> dict[str, Any]:
    document = report_of(played.take.story, played.outcome, played.figures)
    document["command"] = named.command
    document["stepNumbers"] = played.take.numbers
    document["timeline"] = [
        {"at": round(one.at_s, 3), "who": one.who, "kind": one.kind, "what": one.what} for one in played.entries
    ]
    return document


def _say_report(played: Played, *, wide: bool) -> None:
    report = report_of(played.take.story, played.outcome, played.figures)
    if report["gangs"]:
        rows = [("GANG", "PHASE", "PODS", "WAITED", "PLACED", "EVICTED", "BELOW", "REASON")]
        for one in report["gangs"]:
            reason = ": ".join(filter(None, (one["reason"], one["message"])))
            rows.append(
                (
                    one["name"],
                    one["phase"] or "-",
                    one["pods"] or "-",
                    f"{one['waited']:.1f}s" + ("" if one["placedAt"] is not None else " …"),
                    f"{one['placed']}×",
                    plural(one["evicted"], "pod"),
                    f"{one['belowMinimum']:.1f}s",
                    reason if wide else reason[:_MOST_REASON],
                )
            )
        for line in columns(rows):
            say(sayable(line))
    _say_queues(report)
    counts, faults = report["counts"], report["faults"]
    say()
    binds, evictions = counts.get("sent bind", 0), counts.get("sent evict", 0)
    say(
        f"{report['virtualSeconds']:,.0f} virtual seconds: {plural(counts.get('events', 0), 'change')}, "
        f"{plural(counts.get('requests', 0), 'request')} of muster, {plural(binds, 'bind')}, "
        f"{plural(evictions, 'eviction')}, {plural(sum(faults.values()), 'fault')}"
        + (f" ({', '.join(f'{name} ×{n}' for name, n in faults.items())})" if wide and faults else "")
    )
    steps = report["steps"]
    what = "step" if played.take.story.steps else "moment"
    if steps["compared"] or steps["leftOut"]:
        left = f", {steps['leftOut']} not (see the timeline)" if steps["leftOut"] else ""
        say(f"{plural(steps['compared'], what)} compared with what the file expects{left}")
    elif played.take.story.claim:
        say("the file expects nothing: what it claims was not looked at", fg="yellow")
    for one in report["neverStruck"]:
        say(f"a fault never struck: {one}", fg="yellow")
    restless = any(one.rule == "L6" for one in played.outcome.violations)
    rest = "at rest only where calm came (L6)" if restless else "once more when calm had come"
    say(f"the invariants were checked after every change, and {rest}")


def _say_queues(report: dict[str, Any]) -> None:
    """What each queue had of GPUs, as a share of the most that it ever had, over the time of the story."""
    shown = {name: points for name, points in report["queues"].items() if any(one["allocated"] for one in points)}
    if not shown:
        return
    say()
    end_s = report["virtualSeconds"] or 1.0
    rows = [("QUEUE", "GPUS OVER TIME", "NOW", "FAIR SHARE")]
    for name, points in shown.items():
        rows.append((name, _line_of(points, end_s), f"{points[-1]['allocated']:g}", f"{points[-1]['fairShare']:g}"))
    for line in columns(rows):
        say(sayable(line))


def _line_of(points: list[dict[str, Any]], end_s: float, width: int = 40) -> str:
    signs = " ▁▂▃▄▅▆▇█"
    most = max(one["allocated"] for one in points) or 1.0
    found = ""
    for column in range(width):
        past = [one["allocated"] for one in points if one["at"] <= end_s * (column + 1) / width]
        found += signs[round((past[-1] if past else 0.0) / most * (len(signs) - 1))]
    return found


def _say_violations(named: Named, played: Played) -> None:
    for one in played.outcome.violations:
        means = f" ({RULES[one.rule]})" if one.rule in RULES else ""
        say()
        say(f"BROKEN {one.rule}{means}", fg="red", bold=True)
        say(f"  at {one.at_s:.3f} s: {one.says}")
        say(f"  again: {named.command}")


def _tell_next(named: Named, holds: bool, html: str | None) -> None:
    if not holds:
        tell(f"next: {named.command} -o wide")
    elif not html:
        tell(f"next: {named.command} --html story.html")
    else:
        tell("next: muster simulate --seeds 100")


# Many stories.


def tell_all(files: Sequence[str], form: str) -> int:
    """One line each; the exit code: 2 when one is no story, 1 when one does not hold. Neither stops the others."""
    documents, bad = [], 0
    for file in files:
        document = _summary(file)
        documents.append(document)
        bad += not document["holds"]
        if form in (TABLE, WIDE):
            _say_summary(document, wide=form == WIDE)
        elif form == NAME and not document["holds"]:
            say(file)
    if form in (JSON, YAML):
        say_data(documents, form)
    if form in (TABLE, WIDE):
        compared, left = (sum(one[key] for one in documents) for key in ("compared", "leftOut"))
        tell(
            f"{plural(len(files), 'file')}: {len(files) - bad:,} hold, {bad:,} do not; "
            f"{plural(compared, 'step')} compared, {left:,} left out"
        )
        worst = next((one for one in documents if not one["holds"]), documents[0])
        tell(f"next: {worst['command']}")
    if any(one["rule"] == _FILE for document in documents for one in document["violations"]):
        return 2
    return 1 if bad else 0


def _summary(file: str) -> dict[str, Any]:
    document: dict[str, Any] = {"name": file, "command": _command(file), "holds": False}
    document |= {"takes": 0, "compared": 0, "leftOut": 0, "virtualSeconds": 0.0, "digests": [], "violations": []}
    try:
        for take in loading.takes(read(file).story):
            outcome = play(take.story)
            document["takes"] += 1
            document["compared"] += outcome.counts["steps compared"]
            document["leftOut"] += outcome.counts["steps left out"]
            document["virtualSeconds"] += round(outcome.virtual_s, 3)
            document["digests"].append(outcome.digest)
            document["violations"] += [
                {"at": round(one.at_s, 3), "rule": one.rule, "says": one.says} for one in outcome.violations
            ]
    except MusterError as error:
        document["violations"].append({"at": 0.0, "rule": _FILE, "says": error.message})
    document["holds"] = not document["violations"]
    return document


def _say_summary(document: dict[str, Any], *, wide: bool) -> None:
    steps = f"{document['compared']}" + (f"+{document['leftOut']}" if document["leftOut"] else "")
    more = f"  {json.dumps(document['digests'])}" if wide else ""
    word = "holds " if document["holds"] else "BROKEN"
    say(
        f"{word}  {steps:>5} steps  {Path(document['name']).name}{more}", **({} if document["holds"] else {"fg": "red"})
    )
    for one in document["violations"][: None if wide else 3]:
        when = "" if one["rule"] == _FILE else f"{one['rule']} at {one['at']:.1f} s: "
        say(sayable(f"        {when}{one['says']}"))
