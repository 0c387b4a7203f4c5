"""What happens by itself: dependents follow their owners, namespaces end with their content."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from muster.embedded import objects
from muster.embedded.apart import fails
from muster.embedded.core import DEFINITIONS, Core, Document, Target
from muster.embedded.deleting import FOREGROUND, ORPHAN, Deletion, delete, release
from muster.embedded.kinds import Resource
from muster.embedded.refusals import Refused
from muster.embedded.store import DELETED, Change, Key, Store

NAMESPACES = "namespaces"
# Each round can only set off what hangs one level deeper; more levels than anybody stacks.
MOST_ROUNDS = 50
# So much happens by itself before others have a turn; the rest stays due.
MOST_WRITES = 100


class Turn:
    """What happens by itself until others should have a turn."""

    def __init__(self, store: Store) -> None:
        self._store, self._first = store, store.revision

    def is_over(self) -> bool:
        """Whether so much has been written that the rest can wait."""
        return self._store.revision - self._first >= MOST_WRITES


class Due:
    """Follows every change, and knows what there is to do about it, so that most writes cost nothing.

    Who owns whom is kept by uid: an owner that goes names its dependents, and nobody looks at anything else.
    """

    def __init__(self, core: Core) -> None:
        self.definitions = True
        self.namespaces = False
        # Where objects are, by uid; the dependents of each owner; who may have lost one; who may let go of dependents.
        self._places: dict[str, Key] = {}
        self._dependents: dict[str, dict[Key, None]] = {}
        self._losing: dict[Key, None] = {}
        self._letting_go: dict[Key, None] = {}
        # Who has an owner of a kind that nobody serves; who is of such a kind; whose deletion somebody objected to.
        self._unknown: dict[Key, None] = {}
        self._unserved: dict[Key, None] = {}
        self._refused: dict[Key, None] = {}
        # Namespaces and definitions on their way out: each change below them counts.
        self._leaving: set[str] = set()
        self._ending: set[str] = set()
        found = [
            (Key(resource, one["metadata"].get("namespace") or "", one["metadata"]["name"]), one)
            for resource in core.store.resources()
            for one in core.store.list(resource).items
        ]
        self._places = {one["metadata"]["uid"]: key for key, one in found}
        for key, one in found:
            self._appeared(key, one)
        core.store.subscribe(self.changed)

    def changed(self, change: Change) -> None:
        """Take in a change."""
        key, document, before = change.key, change.document, change.before
        if self._refused:
            self._losing.update(self._refused)
            self._refused.clear()
        if before is not None and (references := _references(before)):
            self._disappeared(key, references, document if change.type != DELETED else None)
        if change.type == DELETED:
            uid = document["metadata"]["uid"]
            self._places.pop(uid, None)
            self._losing.update(self._dependents.get(uid) or {})
            if key.resource == NAMESPACES:
                self._leaving.discard(key.name)
            elif key.resource == DEFINITIONS:
                self._ending.discard(key.name)
        else:
            self._appeared(key, document)
        self.namespaces |= key.namespace in self._leaving
        self.definitions |= key.resource == DEFINITIONS or key.resource in self._ending

    def _appeared(self, key: Key, document: Document) -> None:
        metadata = document["metadata"]
        self._places[metadata["uid"]] = key
        is_leaving = metadata.get("deletionTimestamp") is not None
        for one in metadata.get("ownerReferences") or ():
            uid = one.get("uid") or ""
            self._dependents.setdefault(uid, {})[key] = None
            if uid not in self._places:
                if key not in self._unknown:
                    self._losing[key] = None
            elif is_leaving and one.get("blockOwnerDeletion"):
                self._letting_go[self._places[uid]] = None
        if is_leaving:
            held = metadata.get("finalizers") or ()
            if FOREGROUND in held or ORPHAN in held:
                self._letting_go[key] = None
            if key.resource == NAMESPACES:
                self._leaving.add(key.name)
                self.namespaces = True
            elif key.resource == DEFINITIONS:
                self._ending.add(key.name)

    def _disappeared(self, key: Key, references: list[Document], now: Document | None) -> None:
        """Its owners are known anew; who waited for it is looked at again."""
        if now is not None and _references(now) is references:
            return
        self._unknown.pop(key, None)
        for one in references:
            uid = one.get("uid") or ""
            below = self._dependents.get(uid)
            if below is not None:
                below.pop(key, None)
                if not below:
                    del self._dependents[uid]
            if uid in self._places:
                self._letting_go[self._places[uid]] = None

    def any(self) -> bool:
        """Whether there is anything to do."""
        return self.definitions or self.to_collect()

    def to_collect(self) -> bool:
        """Whether there is anything for `collect`."""
        return self.namespaces or bool(self._losing or self._letting_go)

    def served_anew(self) -> None:
        """Kinds came or went: who could not be looked at, or has an owner that nobody could know, may be now."""
        self._losing.update(self._unknown)
        self._losing.update(self._unserved)
        self._letting_go.update(self._unserved)
        self._unknown.clear()
        self._unserved.clear()

    # What there is to do.

    def each(self, collect: "Collect", defects: list[Exception]) -> None:
        """Let everything be looked at that is due now, until the turn is over. What fails, or was looked at when it
        ended, stays due.
        """
        if self.namespaces:
            self.namespaces = False
            for name in sorted(self._leaving):
                # What is deleted in there makes it due as well, while it is looked at.
                if collect.is_over() or fails(collect.end, name, defects):
                    self.namespaces = True
        for queue, look in ((self._letting_go, collect.let_go), (self._losing, collect.lose)):
            for key in list(queue):
                if collect.is_over():
                    break
                del queue[key]
                if fails(look, key, defects) or collect.is_over():
                    queue[key] = None

    def dependents(self, uid: str) -> list[Key]:
        """Who names this owner."""
        return list(self._dependents.get(uid) or ())

    def place(self, uid: str) -> Key | None:
        """Where an object is."""
        return self._places.get(uid)

    def nobody_knows(self, key: Key) -> None:
        """An owner of this one is of a kind that is not served."""
        self._unknown[key] = None

    def nobody_serves(self, key: Key) -> None:
        """It is of a kind that is not served."""
        self._unserved[key] = None

    def was_refused(self, key: Key) -> None:
        """Somebody objects (a review); it is tried again after the next write."""
        self._refused[key] = None


def _references(document: Document) -> list[Document]:
    return document["metadata"].get("ownerReferences") or []


class Collect(NamedTuple):
    """What is done about each thing that is due."""

    end: Callable[[str], None]
    let_go: Callable[[Key], None]
    lose: Callable[[Key], None]
    is_over: Callable[[], bool]


def collect(core: Core, due: Due, turn: Turn, defects: list[Exception]) -> None:
    """Delete what has lost its owners or its namespace, and let go what waited for its dependents."""
    what = Collect(
        partial(_end_namespace, core, turn), partial(_let_go, core, due, turn), partial(_lose, core, due), turn.is_over
    )
    for _ in range(MOST_ROUNDS):
        due.each(what, defects)
        if turn.is_over() or defects or not due.to_collect():
            break


def _target(resource: Resource, document: Document) -> Target:
    metadata = document["metadata"]
    return Target(resource, metadata.get("namespace") or "", metadata["name"])


def dismiss(core: Core, resource: Resource, document: Document, policy: str = "Background") -> bool:
    """Delete an object; whether nobody objects."""
    try:
        delete(core, _target(resource, document), Deletion(policy=policy, uid=document["metadata"]["uid"]))
    except Refused:
        return False
    return True


def _end_namespace(core: Core, turn: Turn, name: str) -> None:
    """Everything in a namespace that leaves goes, and then the namespace itself."""
    left, defects = 0, list[Exception]()
    for resource in core.kinds.namespaced():
        for document in core.store.list(resource.stored, name).items:
            if not document["metadata"].get("deletionTimestamp") and not turn.is_over():
                fails(partial(dismiss, core, resource), document, defects)
            left += core.store.get(_target(resource, document).key) is not None
    if defects:
        raise defects[0]
    current = core.store.get(Key(NAMESPACES, "", name))
    if left or current is None:
        return
    if current.get("spec"):
        new = {**current, "spec": {}}
        core.store.replace(Key(NAMESPACES, "", name), new, current["metadata"]["resourceVersion"])
    if not current["metadata"].get("finalizers"):
        core.store.remove(Key(NAMESPACES, "", name))


def _found(core: Core, due: Due, key: Key) -> tuple[Resource, Document] | None:
    """An object that is still there, if it can be looked at."""
    resource, document = core.kinds.kept.get(key.resource), core.store.get(key)
    if document is not None and resource is None:
        due.nobody_serves(key)
    return (resource, document) if resource is not None and document is not None else None


def _let_go(core: Core, due: Due, turn: Turn, key: Key) -> None:
    """An owner that waits for its dependents, or that leaves them behind."""
    found = _found(core, due, key)
    if found is None:
        return
    _, owner = found
    held = owner["metadata"].get("finalizers") or ()
    if not owner["metadata"].get("deletionTimestamp") or not (FOREGROUND in held or ORPHAN in held):
        return
    uid = owner["metadata"]["uid"]
    is_held = False
    for one in due.dependents(uid):
        if turn.is_over():
            return
        if ORPHAN in held:
            _disown(core, one, {uid})
        elif _blocks(core, due, one, uid):
            is_held = True
    if not is_held:
        release(core, key, ORPHAN if ORPHAN in held else FOREGROUND)


def _blocks(core: Core, due: Due, key: Key, uid: str) -> bool:
    """Whether a dependent, told to go, still holds its owner."""
    found = _found(core, due, key)
    if found is None:
        return False
    resource, one = found
    if not one["metadata"].get("deletionTimestamp"):
        dismiss(core, resource, one, "Foreground")
    if core.store.get(key) is None:
        return False
    return any(each.get("uid") == uid and each.get("blockOwnerDeletion") for each in _references(one))


def _lose(core: Core, due: Due, key: Key) -> None:
    """A dependent whose owners are all gone goes too; one that keeps an owner forgets those that are gone."""
    found = _found(core, due, key)
    if found is None:
        return
    resource, one = found
    references = _references(one)
    if not references or one["metadata"].get("deletionTimestamp"):
        return
    gone = {each.get("uid", "") for each in references if not _is_there(core, due, key, each)}
    if len(gone) == len(references):
        if not dismiss(core, resource, one):
            due.was_refused(key)
    elif gone:
        _disown(core, key, gone)


def _is_there(core: Core, due: Due, key: Key, reference: Document) -> bool:
    """Whether an owner is there; kinds that are not served here count as there, as nobody could tell."""
    place = due.place(reference.get("uid", ""))
    if place is not None:
        return place.namespace in ("", key.namespace)
    owner = core.kinds.of(reference.get("apiVersion", ""), reference.get("kind", ""))
    if owner is None or owner.stored not in core.kinds.kept:
        due.nobody_knows(key)
        return True
    return False


def _disown(core: Core, key: Key, uids: set[str]) -> None:
    current = core.store.get(key)
    if current is None:
        return
    kept = [each for each in _references(current) if each.get("uid") not in uids]
    new = objects.with_metadata(current, ownerReferences=kept or None)
    if not objects.same(current, new):
        core.store.replace(key, new, current["metadata"]["resourceVersion"])
