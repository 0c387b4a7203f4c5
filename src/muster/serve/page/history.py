"""The last cycles of the scheduler as the page shows them: frames, what changed between them, and who did what when.

Scenes are kept as they are, and become documents and marks when somebody looks. So a cycle that nobody watches costs
next to nothing, and any of those that are kept can be shown as it was. Which thread calls what is said in the package.
"""

from typing import NamedTuple

from muster.decisions.amounts import moment
from muster.serve.page.keeping import looks_the_same, slim
from muster.serve.page.keeping import weight as weigh
from muster.serve.views.decided import decided
from muster.serve.views.frame import Changes, Notes, Source, View, delta_of_view, frame_of_view, view_of
from muster.serve.views.gangs import Document
from muster.serve.views.scene import Scene, numbers_then
from muster.serve.views.seeing import EVERYTHING, Hidden, Rights, delta_seen_by, hidden_of, mark_seen_by, seen_by
from muster.serve.views.timeline import Mark, mark_document, marks_between
from muster.snapshot.arrays import Gang

MOST = 240
# What all scenes together may weigh, roughly: in a large cluster fewer are kept.
_MOST_BYTES = 256 * 2**20
_MARK_BYTES = 500


class _Kept:
    """A scene of the ring. `namespaces` are those that have gangs.

    Its marks are made when somebody first reads them, in the thread that draws: until then it holds the scene before.
    """

    def __init__(
        self, version: int, scene: Scene, before: Scene | None, weight: int, namespaces: frozenset[str]
    ) -> None:
        self.version, self.scene, self.namespaces = version, scene, namespaces
        self._weight = weight
        # What the marks are made of, or they themselves: one attribute, so that a reader has one or the other.
        self._told: _Untold | tuple[Mark, ...] = _Untold(before)

    @property
    def marks(self) -> tuple[Mark, ...]:
        """What happened from the scene before to this one."""
        told = self._told
        if isinstance(told, _Untold):
            told = self._told = marks_between(told.before, self.scene)
        return told

    @property
    def weight(self) -> int:
        """Roughly in bytes."""
        told = self._told
        return self._weight + (0 if isinstance(told, _Untold) else _MARK_BYTES * len(told))


class _Untold:
    """The scene before one whose marks nobody has read."""

    def __init__(self, before: Scene | None) -> None:
        self.before = before


class _Built(NamedTuple):
    """A scene as documents, for those who follow; and what became different in each version that they were given."""

    version: int
    view: View
    changes: tuple[tuple[int, Changes], ...]


class History:
    """A ring of scenes. Versions count those that look different from the one before, from `first` on. `notes` are
    about the files that it is of, if any; a delta does not have them.

    `frame`, `delta`, `timeline` and `decision` belong to one thread, the one that draws; all else is the event loop's.
    """

    def __init__(
        self,
        source: Source,
        *,
        notes: Notes | None = None,
        most: int = MOST,
        first: int = 1,
        most_bytes: int = _MOST_BYTES,
    ) -> None:
        # Of files there is more to say; it stays as it is.
        self._more = {"reading": notes.document} if notes is not None and notes.notes else {}
        self._source, self._most, self._first, self._most_bytes = source, most, first, most_bytes
        # Replaced as a whole, so that a reader in another thread has one or the other.
        self._ring: tuple[_Kept, ...] = ()
        self._built: _Built | None = None
        # The last frame of the past that somebody looked at: its neighbours are next.
        self._past: tuple[int, View] | None = None
        # The namespaces of a ring, by its first and last version.
        self._namespaces: tuple[tuple[int, int], frozenset[str]] = (0, 0), frozenset()

    def note(self, scene: Scene) -> bool:
        """A cycle is over. False: nothing looks different from the cycle before."""
        last = self._ring[-1] if self._ring else None
        before = last.scene if last is not None else None
        then = numbers_then(scene, before)
        scene = slim(scene, before, then)
        if before is not None and looks_the_same(before, scene):
            return False
        version = last.version + 1 if last is not None else self._first
        kept = _Kept(version, scene, before, weigh(scene, then), _namespaces(scene, last))
        ring = (*self._ring, kept)[-self._most :]
        weight = sum(one.weight for one in ring)
        dropped = 0
        while weight > self._most_bytes and dropped < len(ring) - 1:
            weight -= ring[dropped].weight
            dropped += 1
        self._ring = ring[dropped:]
        return True

    def version(self) -> int:
        """The newest; 0: there is none yet."""
        return self._ring[-1].version if self._ring else 0

    def scene(self, version: int | None = None) -> Scene | None:
        """The scene of a version, or the newest; None: it is not kept."""
        kept = _find(self._ring, version)
        return kept.scene if kept is not None else None

    def frame(self, version: int | None = None, rights: Rights = EVERYTHING) -> Document | None:
        """Everything as it was in a version, or is; None: it is not kept."""
        ring = self._ring
        kept = _find(ring, version)
        if kept is None:
            return None
        view = self._latest(ring).view if kept is ring[-1] else self._view_of_past(kept)
        return seen_by({**frame_of_view(view, self._source, kept.version), **self._more}, rights)

    def delta(self, since: int, rights: Rights = EVERYTHING) -> Document | None:
        """What became different since a version, up to now, with the marks.

        None: nobody was given that version as the newest, or what has happened since is not kept.
        """
        ring = self._ring
        if not ring:
            return None
        latest = self._latest(ring)
        if all(version != since for version, _ in latest.changes):
            return None
        changes = Changes()
        for version, later in latest.changes:
            if version > since:
                changes = changes.and_then(later)
        if not rights.all:
            changes = changes._replace(nodes=changes.nodes | changes.touched)
        found = delta_of_view(latest.view, changes, latest.version, since)
        new = [kept for kept in ring if kept.version > since]
        # For who keeps the timeline: what is kept, and all that came since then, though it is told at once.
        found["first"], found["cycles"] = ring[0].version, [_cycle(kept) for kept in new]
        marks = [(kept, mark) for kept in new for mark in kept.marks]
        found["marks"] = [_mark(mark, kept, rights) for kept, mark in marks if rights.sees_key(mark.gang)]
        return delta_seen_by(found, latest.view.gangs, rights)

    def timeline(self, rights: Rights = EVERYTHING) -> Document:
        """The cycles that are kept, and a lane for every gang that there is or was in them."""
        ring = self._ring
        lanes: dict[str, Document] = {}
        for kept in reversed(ring):
            newest = kept is ring[-1]
            gone = {mark.gang for mark in kept.marks}
            for gang in kept.scene.plan.snapshot.gangs if newest else _gangs_named(gone - lanes.keys(), kept, ring):
                name = "/".join(gang.key)
                if rights.sees_key(name):
                    lanes[name] = {"created": moment(gang.created_ns) if gang.created_ns else None, "marks": []}
        for kept in ring:
            for mark in kept.marks:
                if mark.gang in lanes:
                    lanes[mark.gang]["marks"].append(_mark(mark, kept, rights))
        return {
            "first": ring[0].version if ring else 0,
            "cycles": [_cycle(kept) for kept in ring],
            "lanes": {name: lanes[name] for name in sorted(lanes)},
        }

    def decision(self, version: int, gang: str = "", rights: Rights = EVERYTHING) -> Document | None:
        """What was decided in a version, of one gang or of all, with the words for it; None: it is not kept."""
        kept = _find(self._ring, version)
        if kept is None:
            return None
        return {
            "version": kept.version,
            "decision": kept.scene.decision,
            "at": moment(kept.scene.at_ns),
            **decided(kept.scene, gang, {mark.gang for mark in kept.marks}, rights),
        }

    def namespaces(self) -> frozenset[str]:
        """Those that have, or had, gangs in the scenes that are kept."""
        ring, found = self._ring, self._namespaces
        if ring and found[0] != (ring[0].version, ring[-1].version):
            # Most scenes share theirs with the one before.
            some = {id(kept.namespaces): kept.namespaces for kept in ring}
            found = (ring[0].version, ring[-1].version), frozenset[str]().union(*some.values())
            self._namespaces = found
        return found[1]

    def hidden(self, rights: Rights, scene: Scene | None = None) -> Hidden:
        """What somebody may not see in an answer about a scene, or the newest."""
        scene = scene or self.scene()
        if scene is None:
            return Hidden(frozenset(), rights)
        return hidden_of(scene.plan.snapshot, rights, self.namespaces())

    def _latest(self, ring: tuple[_Kept, ...]) -> _Built:
        """The newest scene as documents. Whoever is given them may ask what changed since then."""
        newest, built = ring[-1], self._built
        if built is None or built.version < newest.version:
            view = view_of(newest.scene, built.view if built is not None else None)
            known = built.changes if built is not None else ()
            kept = tuple(one for one in known if one[0] >= ring[0].version)
            built = self._built = _Built(newest.version, view, (*kept, (newest.version, view.changes)))
        return built

    def _view_of_past(self, kept: _Kept) -> View:
        if self._past is None or self._past[0] != kept.version:
            near = self._past[1] if self._past is not None else self._built.view if self._built is not None else None
            self._past = kept.version, view_of(kept.scene, near)
        return self._past[1]


def _find(ring: tuple[_Kept, ...], version: int | None) -> _Kept | None:
    if not ring:
        return None
    at = len(ring) - 1 if version is None else version - ring[0].version
    return ring[at] if 0 <= at < len(ring) else None


def _namespaces(scene: Scene, before: _Kept | None) -> frozenset[str]:
    """Those that have gangs; the same object as before when they are the same."""
    found = frozenset(gang.key[0] for gang in scene.plan.snapshot.gangs)
    return before.namespaces if before is not None and before.namespaces == found else found


def _gangs_named(names: set[str], kept: _Kept, ring: tuple[_Kept, ...]) -> list[Gang]:
    """Gangs by name, as they are in a scene or, when they went with it, in the one before."""
    scenes = [kept.scene]
    before = _find(ring, kept.version - 1)
    if before is not None:
        scenes.append(before.scene)
    found = []
    for name in sorted(names):
        namespace, _, rest = name.partition("/")
        for scene in scenes:
            try:
                found.append(scene.plan.of((namespace, rest))[0])
                break
            except KeyError:
                continue
    return found


def _cycle(kept: _Kept) -> list[int | str]:
    return [kept.version, moment(kept.scene.at_ns), kept.scene.decision]


def _mark(mark: Mark, kept: _Kept, rights: Rights) -> Document:
    discreet = mark.beneficiary is not None and not rights.sees_key(mark.beneficiary)
    return mark_seen_by(mark_document(mark, kept.version, kept.scene.at_ns, discreet=discreet), rights)
