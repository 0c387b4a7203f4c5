"""Reading: one object, lists with their pages and selectors, and watches."""

from collections import deque
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec

from muster.embedded import selectors
from muster.embedded.core import Core, Document, Target, shown_as
from muster.embedded.exchange import (
    JSON,
    Request,
    Said,
    bad_request,
    expired,
    failure,
    not_found,
)
from muster.embedded.kinds import Resource
from muster.embedded.refusals import Refused
from muster.embedded.store import Change, Gone
from muster.embedded.tables import partial, partial_list, table
from muster.embedded.versions import check_not_too_large, check_watch, is_number, revision_asked, version_of

Match = Callable[[Document], bool]
# Pages that are read of the store at once when a selector leaves out most.
PAGE = 500
TABLE, PARTIAL, PARTIAL_LIST, WHOLE = "Table", "PartialObjectMetadata", "PartialObjectMetadataList", ""
NOTHING = "nothing"
_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter."
)
_FORGOTTEN = "The resourceVersion for the provided list is too old."


def form_of(request: Request) -> str:
    """The form that a client accepts first of those that there are: a table, only metadata, or whole objects."""
    accept = request.headers.get("accept", "")
    return WHOLE if accept == JSON else _form_of(accept)


_FORMATS = (JSON, "application/yaml", "application/vnd.kubernetes.protobuf")
_ANY = ("*/*", "application/*", "")


def check_accepted(request: Request, resource: Resource, listed: bool) -> None:
    """406 if a client accepts nothing that there is."""
    accept = request.headers.get("accept", "")
    if accept == JSON or not accept:
        return
    kinds = [part.partition(";")[0].strip() for part in accept.split(",")]
    if not resource.custom and not any(kind in (*_FORMATS, "*/*", "") for kind in kinds):
        streams = [f"{kind};stream=watch" for kind in (_FORMATS[0], _FORMATS[2])] if listed else []
        said = f"406: Not Acceptable\n\nAvailable representations: {', '.join((*_FORMATS, *streams))}"
        raise Said(406, "NotAcceptable", said, {})
    if _form_of(accept) == NOTHING:
        said = f"only the following media types are accepted: {', '.join(_FORMATS)}"
        raise Said(406, "NotAcceptable", said)
    include = request.query.get("includeObject")
    if include not in (None, "", "None", "Metadata", "Object") and _form_of(accept) == TABLE:
        words = f"includeObject: Invalid value: \"{include}\": must be 'Metadata', 'Object', 'None', or empty"
        raise bad_request(f"Unable to convert to Table as requested: {words}")


@lru_cache(maxsize=256)
def _form_of(accept: str) -> str:
    for accepted in accept.split(","):
        kind, *parameters = (part.strip() for part in accepted.split(";"))
        said = dict(part.partition("=")[::2] for part in parameters)
        if kind not in (*_FORMATS, *_ANY):
            continue
        if said.get("as") == "Table" and said.get("v") == "v1":
            return TABLE
        if said.get("as") in (PARTIAL, PARTIAL_LIST) and said.get("v") == "v1":
            return said["as"]
        if "as" not in said:
            return WHOLE
    return NOTHING


def get(core: Core, target: Target, request: Request) -> Document:
    """One object, in the form that is asked for."""
    version = request.query.get("resourceVersion", "")
    if version not in ("", "0"):
        check_not_too_large(core, version_of(version))
    found = core.store.get(target.key)
    if found is None:
        raise not_found(target.resource, target.name)
    return one(core, target.resource, found, request)


def one(core: Core, resource: Resource, document: Document, request: Request) -> Document:
    """A stored or just written document in the form that is asked for."""
    form = form_of(request)
    shown = shown_as(document, resource)
    if form == TABLE:
        meta = {"resourceVersion": document["metadata"].get("resourceVersion", "")}
        return table(resource, [shown], core.clock(), meta, request.query.get("includeObject") or "Metadata")
    return partial(shown) if form == PARTIAL else shown


def match_of(request: Request, resource: Resource, name: str = "") -> Match | None:
    """What the selectors of a request leave over; None is everything."""
    found: list[Match] = []
    if request.query.get("labelSelector"):
        found.append(selectors.labels(request.query["labelSelector"]))
    if request.query.get("fieldSelector"):
        # Events have other names in their newer group; documents are asked as they are stored.
        found.append(selectors.fields(request.query["fieldSelector"], resource.qualified, resource.selectable))
    if name:
        found.append(lambda document: document["metadata"]["name"] == name)
    if not found:
        return None
    return lambda document: all(matches(document) for matches in found)


def listing(core: Core, target: Target, request: Request) -> Document:
    """A list in the form that is asked for."""
    resource = target.resource
    limit = _number(request, "limit")
    matches = match_of(request, resource)
    revision = revision_asked(core, request.query, limit)
    items, meta = _pages(core, target, matches, limit, request.query.get("continue", ""), revision)
    shown = [shown_as(document, resource) for document in items]
    form = form_of(request)
    if form == TABLE:
        return table(resource, shown, core.clock(), meta, request.query.get("includeObject") or "Metadata")
    if form == PARTIAL:
        words = f"the requested object is a list (*{resource.group or 'core'}.{resource.list_kind})"
        raise Said(406, "NotAcceptable", f"you requested PartialObjectMetadata, but {words}")
    if form == PARTIAL_LIST:
        return partial_list(shown, meta)
    if not resource.custom:
        shown = [{key: value for key, value in one.items() if key not in ("kind", "apiVersion")} for one in shown]
    else:
        meta.setdefault("continue", "")
    return {"kind": resource.list_kind, "apiVersion": resource.api_version, "metadata": meta, "items": shown}


def _number(request: Request, name: str) -> int:
    try:
        return max(0, int(request.query.get(name) or 0))
    except ValueError as bad:
        text = request.query.get(name)
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from bad


def _pages(
    core: Core, target: Target, matches: Match | None, limit: int, token: str, revision: int
) -> tuple[list[Document], dict[str, Any]]:
    space = target.namespace if target.resource.namespaced else ""
    found: list[Document] = []
    while True:
        ask = (limit - len(found)) if limit else 0
        try:
            page = core.store.list(target.resource.stored, space, limit=ask, continue_=token, revision=revision)
        except Gone as gone:
            raise expired(_TOO_OLD if gone.continued else _FORGOTTEN) from gone
        except Refused as bad:
            raise bad_request(f"invalid continue token: {bad.message}") from bad
        found += page.items if matches is None else [one for one in page.items if matches(one)]
        token = page.continue_
        if not token or (limit and len(found) >= limit):
            break
    meta: dict[str, Any] = {"resourceVersion": str(page.revision)}
    if token:
        meta["continue"] = token
        if matches is None and page.remaining:
            meta["remainingItemCount"] = page.remaining
    return found, meta


class Watch:
    """A stream of changes, already encoded: `read` gives what has happened since the last time.

    `wake` is called when there is something to read. A watch that has `ended` gives nothing more.
    """

    def __init__(self, core: Core, target: Target, request: Request, wake: Callable[[], None]) -> None:
        self._core = core
        self._target = target
        self._form = form_of(request)
        self._include = request.query.get("includeObject") or "Metadata"
        self._matches = match_of(request, target.resource, target.name)
        self._space = target.namespace if target.resource.namespaced else ""
        self._headed = False
        self.bookmarks = request.query.get("allowWatchBookmarks", "").lower() in ("true", "1")
        self.timeout_s = float(_number(request, "timeoutSeconds")) or None
        is_over = request.query.get("timeoutSeconds", "").startswith("-") and int(request.query["timeoutSeconds"]) < 0
        self.ended = False
        # What comes before all changes: objects that are encoded when they are read, then lines.
        self._listed: deque[Document] = deque()
        self._first: list[bytes] = []
        self._is_too_early = False
        self._start(request)
        # Whether something may have happened that was not read.
        self._is_behind = self._revision < core.store.revision
        self._wake = wake
        self._unsubscribe = core.store.subscribe(self._changed)
        if is_over:
            self._first = []
            self._listed.clear()
        if is_over or self._is_too_early:
            self.close()

    def _start(self, request: Request) -> None:
        check_watch(request.query)
        version = request.query.get("resourceVersion", "")
        initial = request.query.get("sendInitialEvents", "").lower()
        self._revision = self._core.store.revision
        if version not in ("", "0") and not is_number(version):
            said = f'Invalid value: "{version}": strconv.ParseUint: parsing "{version}": invalid syntax'
            raise Said(500, "", f"resourceVersion: {said}")
        if initial == "true" and version:
            try:
                check_not_too_large(self._core, int(version))
            except Said as early:
                # The stream has begun when the real one finds out.
                self._is_too_early = True
                self._first = [_line("ERROR", failure(early))]
                return
        if initial == "true" or (version in ("", "0") and initial != "false"):
            items = self._core.store.list(self._target.resource.stored, self._space).items
            found = [one for one in items if self._matches is None or self._matches(one)]
            self._listed.extend(found)
            if initial == "true":
                self._first.append(self._bookmark({"k8s.io/initial-events-end": "true"}))
            return
        if version not in ("", "0"):
            self._revision = int(version)

    def read(self, most: int = 0, most_bytes: int = 0) -> list[bytes]:
        """The events since the last time; with `most`, those of that many changes, and the others the next time.

        With `most_bytes`, no further event once there are that many bytes.
        """
        found: list[bytes] = []
        size = 0
        while self._listed and not (most_bytes and size >= most_bytes):
            found.append(self._encoded("ADDED", self._listed.popleft()))
            size += len(found[-1])
        if self._listed:
            return found
        found += self._first
        self._first = []
        while not self.ended and not (found and most):
            if not self._more(found, most, most_bytes):
                break
        return found

    def _more(self, found: list[bytes], most: int, most_bytes: int) -> bool:
        """Put the events of the next changes behind those that were found; whether there are still others."""
        store = self._core.store
        try:
            changes = store.since(self._revision, self._target.resource.stored, self._space)
        except Gone:
            self.close()
            said = expired(f"too old resource version: {self._revision} ({store.revision})")
            found.append(_line("ERROR", failure(said)))
            return False
        up_to, is_cut = store.revision, 0 < most < len(changes)
        if is_cut:
            changes = changes[:most]
            up_to = changes[-1].revision
        size = 0
        for change in changes:
            if most_bytes and size >= most_bytes:
                up_to, is_cut = change.revision - 1, True
                break
            event = self._event(change)
            if event is not None:
                found.append(event)
                size += len(event)
        self._revision = max(self._revision, up_to)
        self._is_behind = is_cut
        return is_cut

    @property
    def revision(self) -> int:
        """Up to which version everything was read."""
        return self._revision

    def bookmark(self) -> bytes | None:
        """How far this watch has come, for clients that want to know."""
        return self._bookmark({}) if self.bookmarks and not self.ended else None

    def close(self) -> None:
        """End it."""
        if not self.ended:
            self.ended = True
            self._unsubscribe() if hasattr(self, "_unsubscribe") else None

    def _changed(self, change: Change) -> None:
        key, store = change.key, self._core.store
        if key.resource == self._target.resource.stored and self._space in ("", key.namespace):
            self._is_behind = True
            self._wake()
        elif not self._is_behind and store.compacted <= self._revision < change.revision - store.limit // 2:
            # Who has read everything moves along before the store forgets what others changed.
            self._revision = change.revision

    def _event(self, change: Change) -> bytes | None:
        matches = self._matches
        if matches is None:
            return self._encoded(change.type, change.document)
        is_in = change.type != "DELETED" and matches(change.document)
        was_in = change.type != "ADDED" and matches(change.before or change.document)
        if is_in:
            return self._encoded("MODIFIED" if was_in else "ADDED", change.document)
        if was_in:
            last = change.before or change.document
            last = {**last, "metadata": {**last["metadata"], "resourceVersion": str(change.revision)}}
            return self._encoded("DELETED", last)
        return None

    def _encoded(self, kind: str, document: Document) -> bytes:
        shown = shown_as(document, self._target.resource)
        if self._form == WHOLE:
            # What is stored is encoded once for all watches.
            body = self._core.encoded(document) if shown is document else msgspec.json.encode(shown)
            return b'{"type":"%b","object":%b}\n' % (kind.encode(), body)
        if self._form in (PARTIAL, PARTIAL_LIST):
            return _line(kind, partial(shown))
        meta = {"resourceVersion": document["metadata"]["resourceVersion"]}
        rows = table(self._target.resource, [shown], self._core.clock(), meta, self._include)
        if self._headed:
            rows["columnDefinitions"] = None
        self._headed = True
        return _line(kind, rows)

    def _bookmark(self, annotations: dict[str, str]) -> bytes:
        resource = self._target.resource
        meta: Document = {"resourceVersion": str(self._revision)}
        if annotations:
            meta["annotations"] = annotations
        said: Document = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": meta}
        if self._form in (PARTIAL, PARTIAL_LIST):
            said = partial(said)
        elif self._form == TABLE:
            said = table(resource, [], self._core.clock(), {"resourceVersion": meta["resourceVersion"]}, self._include)
        return _line("BOOKMARK", said)


def _line(kind: str, document: Document) -> bytes:
    return msgspec.json.encode({"type": kind, "object": document}) + b"\n"
