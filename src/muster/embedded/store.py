"""The versioned store: documents by key, one counter of revisions for all of them, and the history that watches read.

Documents are plain JSON values and are treated as immutable: what comes out is the very thing that is kept, so nobody
may change it in place. Nothing here knows what a document means, apart from `metadata.resourceVersion`.
"""

import base64
import binascii
import bisect
import contextlib
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from muster.embedded.objects import Document, same_value, with_metadata
from muster.embedded.refusals import Refused
from muster.errors import MusterError

ADDED, MODIFIED, DELETED = "ADDED", "MODIFIED", "DELETED"
# How many changes are kept for watches before the oldest tenth is forgotten.
HISTORY = 10_000


class Key(NamedTuple):
    """Where a document is kept: `pods` or `podgroups.scheduling.run.ai`, its namespace ("" for none) and its name."""

    resource: str
    namespace: str
    name: str


class Change(NamedTuple):
    """One write. The `document` of a DELETED carries the revision of its removal, as on a real watch."""

    revision: int
    type: str
    key: Key
    document: Document
    before: Document | None


# Named here because `Store.list` takes the word inside the class.
Changes = list[Change]
Places = list[str]


class Listing(NamedTuple):
    """A page of a list, all of one revision. `remaining` counts what comes after it; None is unknown, or nothing."""

    items: list[Document]
    revision: int
    continue_: str = ""
    remaining: int | None = None


class Exists(MusterError):
    """There is a document under this key already."""


class Missing(MusterError):
    """There is no document under this key."""


class Stale(MusterError):
    """The document is not the version that was expected."""


class Unwritten(MusterError):
    """The change could not be kept, and so did not happen."""


class Gone(MusterError):
    """The history that was asked for is forgotten. `continued`: it was asked for with a continue token."""

    def __init__(self, message: str, *, continued: bool = False) -> None:
        super().__init__(message)
        self.continued = continued


class _Token(msgspec.Struct):
    """What a continue token says; the real one has the same form."""

    v: str
    rv: int
    start: str


class _Shelf:
    """The documents of one resource, by their place in the order of the real store: `namespace/name`."""

    def __init__(self) -> None:
        self.documents: dict[str, Document] = {}
        self.order: list[str] = []

    def copy(self) -> "_Shelf":
        found = _Shelf()
        found.documents, found.order = self.documents.copy(), self.order.copy()
        return found

    def put(self, place: str, document: Document) -> None:
        if place not in self.documents:
            bisect.insort(self.order, place)
        self.documents[place] = document

    def drop(self, place: str) -> None:
        del self.documents[place]
        del self.order[bisect.bisect_left(self.order, place)]

    def places(self, prefix: str) -> list[str]:
        if not prefix:
            return self.order
        start = bisect.bisect_left(self.order, prefix)
        return self.order[start : bisect.bisect_left(self.order, prefix[:-1] + "0")]  # "0" comes right after "/"


def _place(key: Key) -> str:
    return f"{key.namespace}/{key.name}" if key.namespace else key.name


class Store:
    """Documents in memory, versioned. `journal.Journal` is the same, kept in a file."""

    def __init__(self, *, first: int = 1, history: int = HISTORY) -> None:
        self.revision = first
        self.compacted = first  # since() answers from here on
        self._shelves: dict[str, _Shelf] = {}
        self._history: deque[Change] = deque()
        self.limit = history  # how many changes are kept
        self._subscribers: list[Callable[[Change], None]] = []
        self._undelivered: deque[Change] = deque()
        self._delivering = False

    def copy(self) -> "Store":
        """A store in memory with the same documents, revisions and history: what was prepared once, to start from."""
        found = Store(first=self.revision, history=self.limit)
        found.compacted = self.compacted
        found._shelves = {resource: shelf.copy() for resource, shelf in self._shelves.items()}
        found._history = self._history.copy()
        return found

    # Reading

    def get(self, key: Key) -> Document | None:
        """The document, or None."""
        shelf = self._shelves.get(key.resource)
        return shelf.documents.get(_place(key)) if shelf else None

    def resources(self) -> Places:
        """The resources of which there are documents, or were."""
        return [*self._shelves]

    def list(
        self,
        resource: str,
        namespace: str = "",
        *,
        limit: int = 0,
        continue_: str = "",
        where: Callable[[Document], bool] | None = None,
        revision: int = 0,
    ) -> Listing:
        """The documents of a resource in the order of the real store; pages continue at the revision of the first.

        `where` selects; a page then still has `limit` documents, if there are so many. `revision` asks for the state of
        a revision of the past. Raises Gone when that is forgotten, Refused for a token that is none.
        """
        prefix = f"{namespace}/" if namespace else ""
        start = ""
        if continue_:
            revision, start = _opened(continue_, prefix)
        at = revision or self.revision
        places, found = self._at(at, resource, namespace, prefix, continued=bool(continue_))
        items: list[Document] = []
        last = ""
        first = bisect.bisect_left(places, start)
        for row in range(first, len(places)):
            document = found(places[row])
            if where is not None and not where(document):
                continue
            if limit and len(items) == limit:
                after = None if where is not None else len(places) - row
                return Listing(items, at, _token(at, last + "\0", prefix), after)
            items.append(document)
            last = places[row]
        return Listing(items, at)

    def since(self, revision: int, resource: str, namespace: str = "") -> Changes:
        """What happened after a revision, oldest first. Raises Gone when part of it is forgotten."""
        if revision < self.compacted:
            raise Gone(f"too old resource version: {revision} ({self.compacted})")
        return [
            change
            for change in self._after(revision)
            if change.key.resource == resource and (not namespace or change.key.namespace == namespace)
        ]

    def subscribe(self, callback: Callable[[Change], None]) -> Callable[[], None]:
        """Call back after every change, in their order, also when a callback writes itself. Returns how to stop."""
        self._subscribers.append(callback)

        def stop() -> None:
            if callback in self._subscribers:
                self._subscribers.remove(callback)

        return stop

    # Writing

    def create(self, key: Key, document: Document) -> Document:
        """Keep a new document; returns it with its resourceVersion."""
        if self.get(key) is not None:
            raise Exists(f'{key.resource} "{key.name}" already exists')
        return self._write(ADDED, key, document, None)

    def replace(self, key: Key, document: Document, expected: str | None) -> Document:
        """Keep a document in place of another of version `expected` (None: of any). The same content is no write."""
        current = self._checked(key, expected)
        kept = with_metadata(document, resourceVersion=current["metadata"]["resourceVersion"])
        if same_value(kept, current):
            return current
        return self._write(MODIFIED, key, document, current)

    def remove(self, key: Key, expected: str | None = None) -> Document:
        """Forget a document; returns it as it was, at the revision of its removal."""
        current = self._checked(key, expected)
        return self._write(DELETED, key, current, current)

    def compact(self, revision: int) -> None:
        """Forget what happened up to a revision."""
        revision = min(revision, self.revision)
        if revision > self.compacted:
            self._persist_compaction(revision)
            self.compacted = revision
            while self._history and self._history[0].revision <= revision:
                self._history.popleft()

    # Inside

    def _checked(self, key: Key, expected: str | None) -> Document:
        current = self.get(key)
        if current is None:
            raise Missing(f'{key.resource} "{key.name}" not found')
        if expected is not None and current["metadata"]["resourceVersion"] != expected:
            raise Stale(
                f'Operation cannot be fulfilled on {key.resource} "{key.name}": the object has been modified; '
                "please apply your changes to the latest version and try again"
            )
        return current

    def _write(self, type_: str, key: Key, document: Document, before: Document | None) -> Document:
        revision = self.revision + 1
        change = Change(revision, type_, key, with_metadata(document, resourceVersion=str(revision)), before)
        self._persist(change)
        self._absorb(change)
        self._undelivered.append(change)
        if len(self._history) > self.limit:
            # Who can't forget now does so after the next change.
            with contextlib.suppress(Unwritten):
                self.compact(self._history[self.limit // 10].revision)
        if not self._delivering:
            self._deliver()
        return change.document

    def _absorb(self, change: Change) -> None:
        self.revision = change.revision
        shelf = self._shelves.setdefault(change.key.resource, _Shelf())
        if change.type == DELETED:
            shelf.drop(_place(change.key))
        else:
            shelf.put(_place(change.key), change.document)
        self._history.append(change)

    def _deliver(self) -> None:
        """Tell everybody, also when one of them fails: its failure comes out afterwards."""
        failed: Exception | None = None
        self._delivering = True
        try:
            while self._undelivered:
                change = self._undelivered.popleft()
                for callback in tuple(self._subscribers):
                    try:
                        callback(change)
                    except Exception as error:
                        failed = failed or error
        finally:
            self._delivering = False
        if failed is not None:
            raise failed

    def _after(self, revision: int) -> Changes:
        found: list[Change] = []
        for change in reversed(self._history):
            if change.revision <= revision:
                break
            found.append(change)
        found.reverse()
        return found

    def _at(
        self, revision: int, resource: str, namespace: str, prefix: str, *, continued: bool
    ) -> tuple[Places, Callable[[str], Document]]:
        """The places of a resource at a revision, in order, and what stood there."""
        shelf = self._shelves.get(resource) or _Shelf()
        if revision == self.revision:
            return shelf.places(prefix), shelf.documents.__getitem__
        if revision < self.compacted:
            raise Gone(_TOO_OLD if continued else f"too old resource version: {revision} ({self.compacted})",
                       continued=continued)  # fmt: skip
        then: dict[str, Document | None] = {}
        for change in self.since(revision, resource, namespace):
            then.setdefault(_place(change.key), change.before)
        places = {*shelf.places(prefix), *then} - {place for place, document in then.items() if document is None}
        return sorted(places), lambda place: then.get(place) or shelf.documents[place]

    def _persist(self, change: Change) -> None:
        """Where a journal writes a change down before it counts. Raises Unwritten."""

    def _persist_compaction(self, revision: int) -> None:
        """Where a journal forgets."""


_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)


def _token(revision: int, start: str, prefix: str) -> str:
    said = msgspec.json.encode(_Token("meta.k8s.io/v1", revision, start.removeprefix(prefix)))
    return base64.urlsafe_b64encode(said).rstrip(b"=").decode()


def _opened(token: str, prefix: str) -> tuple[int, str]:
    try:
        padded = token + "=" * (-len(token) % 4)
        said = msgspec.json.decode(base64.urlsafe_b64decode(padded), type=_Token)
    except (binascii.Error, ValueError, msgspec.MsgspecError) as error:
        raise Refused(400, "BadRequest", f"continue key is not valid: {error}") from error
    if said.v != "meta.k8s.io/v1":
        raise Refused(400, "BadRequest", "continue key is not valid: server does not recognize this encoded version")
    if said.rv <= 0 or not said.start:
        raise Refused(400, "BadRequest", "continue key is not valid: incorrect encoded start resourceVersion")
    return said.rv, prefix + said.start
