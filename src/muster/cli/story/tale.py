"""The file of the demo: a story in chapters, each with what happens, what is claimed, and what is shown.

It is a `Story` of the simulation with narration. In chapters there is no clock: an act begins when all that the one
before it claims has come true. `$(gang/subgroup)` in a text is the last part of the domain that a subgroup lies in, so
that a story need not know where the scheduler puts it. Scenario files and plain stories are told as tales, too; what
they expect is claimed, and a file that expects what would not be looked at is refused.
"""

import re
from collections.abc import Callable, Iterator
from importlib.resources import files
from typing import Literal

import msgspec
from msgspec import structs

from muster.api.documents import Limits, read
from muster.cli.files import read_bytes
from muster.errors import UsageError
from muster.sim.loading import check, parse
from muster.sim.objects import Document, Entry, Objects, Pods
from muster.sim.scenario import BadScenario, Expected
from muster.sim.story import Happening, Story
from muster.sim.vetting import vet_happening, vet_object

BUILT_IN = "demo.yaml"
_PLACE = re.compile(r"\$\(([a-z0-9./-]+)/([a-z0-9-]+)\)")
_HOW = "docs/simulation.md and docs/reference.md (demo) describe the format"
# So late what is expected at a second may come true: real machines are slower than simulated ones.
_SLACK_S = 5.0
_NOTHING = Expected()
# What a story can only do where time is not real, or where there are several processes.
_UNREAL = ("crash", "stop", "start", "pause", "jump", "cut", "compact", "away")


class Operated(Entry, frozen=True, kw_only=True):
    """A workload of a foreign kind, and the pods that its operator makes, in the short form of pods."""

    workload: Document
    pods: list[Pods]


class Claim(Entry, frozen=True, kw_only=True):
    """A sentence, and what must be seen on the API server for it to be true. Gangs may be named by a pattern.

    `kept`: gangs that were at no moment of the act below their minimum. `same`: pods, by pattern, that are those that
    were there when the act began. `went`: pods, by pattern, that went, and others are in their place on other nodes.
    `owners`: gangs that belong to `Kind/name`.
    """

    says: str
    expect: Expected = Expected()
    kept: list[str] = []
    same: list[str] = []
    went: list[str] = []
    owners: dict[str, str] = {}


class Act(Happening, frozen=True, kw_only=True):
    """What happens, what is explained and mended, what must come true within seconds, and what is shown then.

    `remedy`: the kind of change that is carried out, of those that the explanation proposes. `show`: `gangs` and
    `queues` are tables, `map` is that of the nodes, anything else the tree of a gang.
    """

    at: float = 0.0
    operates: list[Operated] = []
    explain: str = ""
    remedy: Literal["", "uncordon", "evict", "relax", "lower", "raise"] = ""
    claims: list[Claim] = []
    show: list[str] = []
    within: float = 30.0


class Chapter(Entry, frozen=True, kw_only=True):
    """A part of the story with a title; `says` tells what it is about.

    `clocked`: its acts have their seconds, and what moves is counted from the beginning and not act by act.
    """

    title: str
    says: str = ""
    acts: list[Act]
    clocked: bool = False


class Tale(Story, frozen=True, kw_only=True):
    """A story in chapters, and the commands that its end proposes."""

    chapters: list[Chapter] = []
    next: list[str] = []


def built_in() -> Tale:
    """The story that is shipped."""
    data = files("muster.cli.story").joinpath(BUILT_IN).read_bytes()
    return tale_of(data, BUILT_IN)


def read_tale(file: str, limits: Limits) -> Tale:
    """A tale, a story or a scenario file. Raises BadScenario, or UsageError for what only a simulation can play."""
    return tale_of(read_bytes(file, limits), file, limits)


def tale_of(data: bytes, name: str, limits: Limits | None = None) -> Tale:
    """The text of a tale, a story or a scenario; steps of a scenario stay steps."""
    documents = read(data, limits)
    header = documents[0].value if documents else None
    if not (isinstance(header, dict) and "chapters" in header):
        story = parse(data, name)
        found = Tale(**{field: getattr(story, field) for field in Story.__struct_fields__})
    elif any(document.problems for document in documents) or len(documents) > 1:
        problems = [problem.message for document in documents for problem in document.problems]
        raise BadScenario(f"{name}: {problems[0] if problems else 'holds more than one document'}", _HOW)
    else:
        try:
            found = msgspec.convert(header, Tale, str_keys=True)
        except msgspec.ValidationError as error:
            raise BadScenario(f"{name}: {error}", _HOW) from None
        check(found, name)
        _check_chapters(found, name)
    unreal = unplayable(found)
    if unreal:
        raise UsageError(f"{name}: {unreal}: only a simulation can play that", f"muster simulate -f {name}")
    if found.chapters or found.steps:
        return found
    return _by_the_clock(found, name)


def _check_chapters(tale: Tale, name: str) -> None:
    """All that a file with chapters expects is claimed by an act. Raises BadScenario."""
    for word in ("happens", "steps", "ends"):
        if getattr(tale, word) != getattr(Tale(), word):
            raise BadScenario(f"{name}: {word} beside chapters would not be looked at", "write acts, and their claims")
    for where, act in _acts(tale):
        vet_happening(act, f"{name}: {where}")
        for number, one in enumerate(act.operates):
            vet_object(one.workload, f"{name}: {where}.operates[{number}].workload")
        if act.expect != _NOTHING:
            raise BadScenario(f"{name}: {where}.expect would not be looked at", "write claims: [{says: …, expect: …}]")


def _acts(tale: Tale) -> Iterator[tuple[str, Act]]:
    for number, chapter in enumerate(tale.chapters):
        yield from ((f"chapters[{number}].acts[{at}]", act) for at, act in enumerate(chapter.acts))


def unplayable(tale: Tale) -> str:
    """What of a story can't be played as time goes by; empty when all of it can."""
    if tale.faults:
        return "the story breaks requests on their way (faults)"
    if tale.processes > 1:
        return f"the story runs {tale.processes} processes of muster"
    if tale.unchecked:
        return "the story has objects that an API server refuses (unchecked)"
    happens = [(f"happens[{number}]", one) for number, one in enumerate(tale.happens)]
    for where, happening in (*happens, *_acts(tale)):
        for word in _UNREAL:
            if getattr(happening, word):
                return f"the story interferes with muster itself ({where}.{word})"
    for word in ("happens", "workloads", "ends") if tale.steps else ():
        if getattr(tale, word) != getattr(Tale(), word):
            return f"the story has steps and {word}"
    for number, step in enumerate(tale.steps):
        if step.actions is not None:
            return f"the story turns actions off (steps[{number}].actions)"
        if step.now:
            return f"the story sets the clock (steps[{number}].now)"
    applied = [step.apply for step in tale.steps] + [one.apply for _, one in (*happens, *_acts(tale))]
    return next(filter(None, map(_past, (tale, *applied))), "")


def _past(objects: Objects) -> str:
    """What of these objects was before the story began; empty when nothing was."""
    for one in objects.all():
        if "creationTimestamp" in one["metadata"] or "deletionTimestamp" in one["metadata"]:
            return "the story has a past (history, age, created, terminating)"
    if objects.history or any(one.started is not None for one in objects.pods):
        return "the story has a past (history, started)"
    return ""


def _by_the_clock(tale: Tale, name: str) -> Tale:
    """A story whose happenings have a second, as a tale of one chapter; what it expects is claimed at that second."""
    if not tale.happens and not tale.workloads:
        raise BadScenario(f"{name}: nothing happens in it: no chapters, no steps, no workloads, no happens", _HOW)
    acts: list[Act] = []
    for one in sorted(tale.happens, key=lambda one: one.at):
        if one.expect != _NOTHING:
            claim = Claim(says=f"at {one.at:g} s it is as expected", expect=one.expect)
            acts.append(Act(at=one.at, claims=[claim], within=_SLACK_S))
        fields = {field: getattr(one, field) for field in Happening.__struct_fields__}
        acts.append(Act(**{**fields, "expect": _NOTHING}))
    last_s, claims = acts[-1].at if acts else 0.0, [Claim(says="it comes to rest")]
    if tale.ends != _NOTHING:
        last_s = max(last_s, tale.lasts)
        claims.append(Claim(says="in the end it is as expected", expect=tale.ends))
    acts.append(Act(at=last_s, claims=claims, show=["gangs", "map"]))
    return structs.replace(tale, chapters=[Chapter(title=tale.claim or name, says=tale.why, acts=acts, clocked=True)])


def filled(text: str, where: Callable[[str, str], str]) -> str:
    """The text with every `$(gang/subgroup)` replaced by where that lies."""
    return _PLACE.sub(lambda found: where(found[1], found[2]), text)
