"""A scene becomes what the page shows: a frame for the browser, or what changed since the last one. Pure.

A view is a frame before it is put together. It is made from the view before it: what did not change is the same object
in both, so that a small change costs little however large the cluster is. Nobody writes into documents once they are
made.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from muster.api.tree import NONE
from muster.decisions import queues
from muster.decisions.amounts import moment
from muster.plan.outcome import Plan
from muster.serve.views import nodes as view_nodes
from muster.serve.views.gangs import (
    FITS,
    HELD,
    IDLE,
    PARTIAL,
    PENDING,
    RUNNING,
    STALE,
    Deeds,
    Document,
    Entry,
    Surroundings,
    deeds_of,
    entry_of,
    in_place,
    name_of_level,
    same_words,
)
from muster.serve.views.nodes import Nodes
from muster.serve.views.queues import queue_documents
from muster.serve.views.scene import Numbers, Scene, Unit, number_of, numbers_then
from muster.snapshot.arrays import Gang, Key, Snapshot


class Source(NamedTuple):
    """Where it all comes from: `live`, `file`, `demo` or `frozen`, and a name for people."""

    kind: str
    name: str


class Note(NamedTuple):
    """Something to know about what was read: what, in which file and document, and what is wrong with it."""

    what: str
    where: str = ""
    says: Sequence[str] = ()


class Notes(NamedTuple):
    """All of them, and the command that says more."""

    notes: Sequence[Note] = ()
    command: str = ""

    @property
    def document(self) -> Document:
        """As the browser gets them."""
        return {"notes": [one._asdict() for one in self.notes], "command": self.command}


class Changes(NamedTuple):
    """What is not as it was one view before, by name; what is gone too."""

    nodes: frozenset[str] = frozenset()
    gangs: frozenset[str] = frozenset()
    queues: frozenset[str] = frozenset()
    # Nodes on which gangs that changed have pods: who may not see them all may find another one there than before,
    # though the node itself stayed as it was.
    touched: frozenset[str] = frozenset()
    topologies: bool = False
    unit: bool = False

    def and_then(self, other: "Changes") -> "Changes":
        """Both, one after the other."""
        return Changes(
            self.nodes | other.nodes,
            self.gangs | other.gangs,
            self.queues | other.queues,
            self.touched | other.touched,
            self.topologies or other.topologies,
            self.unit or other.unit,
        )


@dataclass(frozen=True, eq=False)
class View:
    """A scene as documents, by name."""

    scene: Scene
    topologies: list[Document]
    nodes: Nodes
    crowd: "_Crowd"
    gangs: dict[str, Document]
    queues: dict[str, Document]
    summary: Document
    # What is not as it was in the view that it was made from; everything when there was none.
    changes: Changes


class _Crowd(NamedTuple):
    """Every gang by name, in the order of the snapshot; and what is done with some of them."""

    entries: dict[str, Entry]
    deeds: Mapping[Key, Deeds]
    # Those that no longer are as they were, and what came in their place, where this was made from another crowd.
    gone: Sequence[Entry] = ()
    new: Sequence[Entry] = ()
    # All that were looked at; None: all.
    looked_at: frozenset[str] | None = None


def view_of(scene: Scene, before: View | None = None) -> View:
    """The scene as documents. The view `before` only makes it cheaper."""
    lines = queues.lines(scene.plan)
    crowd = _crowd(scene, lines, before)
    nodes = _nodes(scene, crowd, before)
    topologies = _topologies(scene.plan.snapshot)
    told = queue_documents(scene, lines, crowd.entries.values())
    if before is None:
        gangs = {name: entry.document for name, entry in crowd.entries.items()}
        changes = Changes(nodes.changed, frozenset(gangs), frozenset(told), nodes.changed, topologies=True, unit=True)
    else:
        gangs, changed = _gangs(crowd, before.gangs)
        told = {name: old if (old := before.queues.get(name)) == one else one for name, one in told.items()}
        changed_queues = {name for name, one in told.items() if before.queues.get(name) is not one}
        changes = Changes(
            nodes.changed,
            changed,
            frozenset(changed_queues | (before.queues.keys() - told.keys())),
            frozenset(pod[1] for name in changed if name in gangs for pod in gangs[name]["pods"]),
            topologies != before.topologies,
            scene.unit != before.scene.unit,
        )
    summary = {**counts_of(gangs), **view_nodes.in_all(nodes, scene)}
    return View(scene, topologies, nodes, crowd, gangs, told, summary, changes)


def frame_of(scene: Scene, source: Source, version: int = 1) -> Document:
    """One frame, made of nothing but its scene."""
    return frame_of_view(view_of(scene), source, version)


def frame_of_view(view: View, source: Source, version: int) -> Document:
    """Everything that the browser gets."""
    return {
        "version": version,
        "decision": view.scene.decision,
        "at": moment(view.scene.at_ns),
        "source": source._asdict(),
        "unit": _unit(view.scene.unit),
        "topologies": view.topologies,
        "nodes": view.nodes.documents,
        "gangs": view.gangs,
        "queues": view.queues,
        "summary": view.summary,
    }


def delta_of_view(view: View, changes: Changes, version: int, since: int) -> Document:
    """What makes a frame of then one of now. `changes` may name what is as it was, or never was."""
    parts = {
        "nodes": (changes.nodes, view.nodes.documents),
        "gangs": (changes.gangs, view.gangs),
        "queues": (changes.queues, view.queues),
    }
    found: Document = {
        "version": version,
        "from": since,
        "decision": view.scene.decision,
        "at": moment(view.scene.at_ns),
        "summary": view.summary,
    }
    for part, (names, there) in parts.items():
        found[part] = {
            "set": {name: there[name] for name in sorted(names) if name in there},
            "gone": [name for name in sorted(names) if name not in there],
        }
    if changes.topologies:
        found["topologies"] = view.topologies
    if changes.unit:
        found["unit"] = _unit(view.scene.unit)
    return found


def gangs_of(scene: Scene, keys: Collection[Key]) -> dict[str, Document]:
    """These gangs as a frame has them, without the others."""
    plan, around, deeds = scene.plan, Surroundings(scene), deeds_of(scene)
    places = _places(plan, queues.lines(plan))
    return {
        "/".join(gang.key): entry_of(
            gang, plan.outcomes[number], deeds.get(gang.key, IDLE), places.get(gang.key, 0), around
        ).document
        for number, gang in enumerate(plan.snapshot.gangs)
        if gang.key in keys
    }


def counts_of(gangs: Mapping[str, Document]) -> Document:
    """How many gangs there are, run and wait. Who would fit, is held or stale, and of whom only surplus stands in line,
    is told where there is any.
    """
    states = Counter(one["state"] for one in gangs.values())
    surplus = sum(one["position"] is not None and one["state"] in (RUNNING, PARTIAL) for one in gangs.values())
    more = {"fits": states[FITS], "held": states[HELD], "stale": states[STALE], "surplus": surplus}
    return {
        "gangs": len(gangs),
        "running": states[RUNNING] + states[PARTIAL],
        "pending": states[PENDING],
        **{name: number for name, number in more.items() if number},
    }


def _unit(unit: Unit) -> Document:
    return {"resource": unit.resource, "name": unit.name}


def _places(plan: Plan, lines: Mapping[str, list[int]]) -> dict[Key, int]:
    """Where gangs stand in the lines of their queues, from 1."""
    gangs = plan.snapshot.gangs
    return {gangs[number].key: place for line in lines.values() for place, number in enumerate(line, start=1)}


def _crowd(scene: Scene, lines: Mapping[str, list[int]], before: View | None) -> _Crowd:
    """All gangs. Where words are still the same, only those are looked at that may be others than before."""
    plan, gangs = scene.plan, scene.plan.snapshot.gangs
    deeds, places, around = deeds_of(scene), _places(plan, lines), Surroundings(scene)

    def made(number: int) -> Entry:
        key = gangs[number].key
        return entry_of(gangs[number], plan.outcomes[number], deeds.get(key, IDLE), places.get(key, 0), around)

    if before is None or before.scene.unit != scene.unit or not same_words(before.scene.plan.snapshot, plan.snapshot):
        return _Crowd({"/".join(gang.key): made(number) for number, gang in enumerate(gangs)}, deeds)
    then, entries = numbers_then(scene, before.scene), dict(before.crowd.entries)
    gone, new = [], []
    names = {"/".join(gang.key) for gang in _not_in(before.scene.plan.snapshot, then)}
    for number in _open(scene, before, then, {*deeds, *before.crowd.deeds, *places}):
        gang, name = gangs[number], "/".join(gangs[number].key)
        old = entries.get(name)
        names.add(name)
        if old is not None and old.is_as(gang, plan.outcomes[number], deeds.get(gang.key, IDLE)):
            entries[name] = in_place(old, places.get(gang.key, 0))
            continue
        entries[name] = made(number)
        new.append(entries[name])
        gone += [old] if old is not None else []
    if len(entries) != len(gangs) or len(entries) != len(before.crowd.entries):
        there = {"/".join(gang.key) for gang in gangs}
        gone += [entry for name, entry in entries.items() if name not in there]
        entries = {name: entries[name] for name in map("/".join, (gang.key for gang in gangs))}
    return _Crowd(entries, deeds, gone, new, frozenset(names))


def _not_in(snapshot: Snapshot, then: Numbers) -> list[Gang]:
    """The gangs of a scene that are gone from the next one, or were made anew there."""
    left = set(range(len(snapshot.gangs))).difference(was for was in then if was is not None)
    return [snapshot.gangs[number] for number in left]


def _open(scene: Scene, before: View, then: Numbers, named: Collection[Key]) -> list[int]:
    """The gangs, by number, that may be others than before: made anew, with another outcome, or named."""
    was_told, told = list(before.scene.plan.outcomes), list(scene.plan.outcomes)
    found = {number for number, was in enumerate(then) if was is None or was_told[was] is not told[number]}
    found.update(number for number in (number_of(scene.plan.snapshot, key) for key in named) if number != NONE)
    return sorted(found)


def _gangs(crowd: _Crowd, before: Mapping[str, Document]) -> tuple[dict[str, Document], frozenset[str]]:
    """Every gang as a document, the same where it is the same; and the names of all others, and of who is gone."""
    names = crowd.looked_at if crowd.looked_at is not None else crowd.entries.keys() | before.keys()
    found, changed = dict(before), set()
    for name in names:
        entry = crowd.entries.get(name)
        if entry is None:
            changed.add(name)
        elif found.get(name) != entry.document:
            changed.add(name)
            found[name] = entry.document
    if found.keys() != crowd.entries.keys() or any(name not in before for name in changed):
        found = {name: found[name] for name in crowd.entries}
    return found, frozenset(changed)


def _nodes(scene: Scene, crowd: _Crowd, before: View | None) -> Nodes:
    if before is None:
        return view_nodes.nodes_of(scene, crowd.entries.values())
    if crowd.looked_at is not None and view_nodes.are_the_same(before.scene, scene):
        return view_nodes.put_right(before.nodes, scene, crowd.gone, crowd.new)
    return view_nodes.compared(view_nodes.nodes_of(scene, crowd.entries.values()), before.nodes)


def _topologies(snapshot: Snapshot) -> list[Document]:
    return [
        {"name": one.name, "levels": [name_of_level(label) for label in one.labels], "labels": list(one.labels)}
        for one in snapshot.topologies
    ]
