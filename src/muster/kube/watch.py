"""List and watch: one endless stream of values in which nothing is lost.

    Listed      everything there is; replaces all that was known
    Added, Modified, Deleted, Unread    one change since then
    Bookmark    nothing changed up to this version
    Restarted   the watch broke off and goes on, or could not start; `cause` is one word

After `Restarted` either the changes go on where they stopped, or a new `Listed` comes. The same change may come twice.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, NamedTuple

import msgspec

from muster.api.documents import shown
from muster.errors import (
    ApiError,
    BadObject,
    Call,
    Forbidden,
    Gone,
    NotFound,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from muster.kube.answers import failure_of, read_status
from muster.kube.backoff import Backoff
from muster.kube.client import Client
from muster.kube.resources import AnyKind, Unread, metadata_of, read_or_tell, version_of
from muster.kube.transport import Stream

# A stream that lived so long was a good one: what happens to the next has nothing to do with it.
_GOOD_STREAM_S = 10.0
# So often the server may fail to go on from a version; then it is no longer trusted. A server that is away, or does not
# let us in, says nothing about versions.
_TRUSTED_FAULTS = 3
_INNOCENT = (Unreachable, TooManyRequests, Unauthorized, Forbidden)
_SHOWN_BYTES = 64 * 1024


class Listed(NamedTuple):
    """Everything there is at this version. What is not in it does not exist."""

    items: list[Any]
    unread: list[Unread]
    resource_version: str


class Added(NamedTuple):
    """A new object, or one that now matches the selector."""

    object: Any


class Modified(NamedTuple):
    """An object that changed."""

    object: Any


class Deleted(NamedTuple):
    """The last state of an object that is gone, or no longer matches the selector."""

    object: Any


class Bookmark(NamedTuple):
    """Nothing else changed up to this version: the stream is alive."""

    resource_version: str


class Restarted(NamedTuple):
    """The watch starts again. `cause` is one of CAUSES; `error` says more, where there was one."""

    cause: str
    error: ApiError | None = None


# The words that `Restarted` knows: end of the stream, a version too old, no connection, ...
CAUSES = ("end", "gone", "unreachable", "throttled", "unauthorized", "forbidden", "not-found", "fault")

Change = Added | Modified | Deleted | Unread
Watched = Listed | Change | Bookmark | Restarted

_CHANGES: dict[str, Callable[[Any], Change]] = {"ADDED": Added, "MODIFIED": Modified, "DELETED": Deleted}


class _Line(msgspec.Struct, frozen=True, kw_only=True):
    type: str = ""
    object: msgspec.Raw = msgspec.Raw(b"{}")


_READER = msgspec.json.Decoder(_Line)


async def watch(
    client: Client,
    kind: AnyKind,
    namespace: str = "",
    *,
    label_selector: str = "",
    field_selector: str = "",
    consistent: bool = True,
    timeout_s: int = 300,
    cap_s: float = 15.0,
) -> AsyncGenerator[Watched, None]:
    """All objects, then every change to them, for ever; failures are values (`Restarted`), never raised.

    The first list is `consistent` or may come from a cache; every later one is consistent. Close it with `aclosing`.
    """
    selection = {"labelSelector": label_selector, "fieldSelector": field_selector}
    following = _Following(client, kind, namespace, {key: text for key, text in selection.items() if text}, timeout_s)
    backoff = Backoff(client.jitter, first_s=0.2, cap_s=cap_s)
    while True:
        error: ApiError | None = None
        try:
            if not following.version:
                listing = await client.list(
                    kind,
                    namespace,
                    label_selector=label_selector,
                    field_selector=field_selector,
                    consistent=consistent,
                    attempts=1,
                )
                consistent = True
                following.version = listing.resource_version
                yield Listed(*listing)
            async with aclosing(following.changes()) as changes:
                async for change in changes:
                    yield change
        except ApiError as raised:
            error = raised
        well = following.went_well(error)
        if well:
            backoff.reset()
        following.judge(error)
        yield Restarted(_cause(error), error)
        # A stream that ended as streams do goes on at once.
        if error is not None or not well:
            asked_s = error.retry_after_s if error is not None else None
            # Nobody may send a watch to sleep for an hour.
            longest_s = client.limits.longest_wait_s
            await client.clock.sleep(backoff.next_s(None if asked_s is None else min(asked_s, longest_s)))


class _Following:
    """The changes since `version`, and how the last stream of them went."""

    def __init__(
        self, client: Client, kind: AnyKind, namespace: str, selection: dict[str, str], timeout_s: int
    ) -> None:
        self._client = client
        self._kind = kind
        self._namespace = namespace
        self._selection = selection
        self._timeout_s = timeout_s
        self._opened_s: float | None = None
        self._progress = False
        self._faults = 0
        self.version = ""

    async def changes(self) -> AsyncGenerator[Change | Bookmark, None]:
        """One stream, until it ends. Raises ApiError."""
        params = {
            **self._selection,
            "allowWatchBookmarks": "true",
            "resourceVersion": self.version,
            # Streams that all began together need not end together.
            "timeoutSeconds": str(int(self._timeout_s * (1.0 + self._client.jitter()))),
        }
        async with self._client.open_watch(self._kind, self._namespace, params) as stream:
            self._opened_s = self._client.clock.now_s()
            async with aclosing(lines(stream, self._client.limits.max_line_bytes)) as found:
                async for line in found:
                    before = self.version
                    value = self._read(line)
                    self._progress = self._progress or self.version != before
                    yield value

    def went_well(self, error: ApiError | None) -> bool:
        """Whether the last stream got on and ended in order, or lived long enough to forget what was before it."""
        opened_s, self._opened_s = self._opened_s, None
        progress, self._progress = self._progress, False
        lived_s = 0.0 if opened_s is None else self._client.clock.now_s() - opened_s
        self._faults = 0 if progress else self._faults
        return (progress and error is None) or lived_s >= _GOOD_STREAM_S

    def judge(self, error: ApiError | None) -> None:
        """Forgets the version when it is too old, or when the server keeps failing over it."""
        if error is not None and not isinstance(error, _INNOCENT):
            self._faults += 1
        if isinstance(error, Gone) or self._faults >= _TRUSTED_FAULTS:
            self.version = ""
            self._faults = 0

    def _read(self, line: bytes) -> Change | Bookmark:
        try:
            event = _READER.decode(line)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            return Unread(line[:_SHOWN_BYTES], BadObject("", f"not an event of a watch: {error}"))
        if event.type == "ERROR":
            status = read_status(event.object)
            raise failure_of(Call("watch", self._kind.plural, self._namespace), status.code or 500, status)
        if event.type == "BOOKMARK":
            self._advance(metadata_of(event.object).resource_version)
            return Bookmark(self.version)
        change = _CHANGES.get(event.type)
        if change is None:
            why = BadObject("type", f"{shown(event.type)} is not an event of a watch")
            return Unread(line[:_SHOWN_BYTES], why, metadata_of(event.object))
        found = read_or_tell(self._kind, event.object, event.type)
        self._advance(version_of(found))
        return found if isinstance(found, Unread) else change(found)

    def _advance(self, version: str) -> None:
        # An object without a version tells nothing of how far we are: then the last one counts, and some come twice.
        self.version = version or self.version


async def lines(stream: Stream, max_bytes: int) -> AsyncGenerator[bytes, None]:
    """The lines of a stream. What stands after the last line break is not one: it comes again with the next stream.

    Of a line that is too long only the beginning is given, which nobody can read.
    """
    parts: list[bytes] = []
    size = 0
    skipping = False
    async with aclosing(stream.chunks) as chunks:
        async for chunk in chunks:
            first, *others = chunk.split(b"\n")
            if not skipping:
                parts.append(first)
                size += len(first)
            if size > max_bytes:
                yield b"".join(parts)[:_SHOWN_BYTES]
                parts, size, skipping = [], 0, True
            if not others:
                continue
            if size:
                yield b"".join(parts)
            last = others.pop()
            parts, size, skipping = [last], len(last), False
            for line in others:
                if line:
                    yield line


def _cause(error: ApiError | None) -> str:
    if error is None:
        return "end"
    for kind, cause in (
        (Gone, "gone"),
        (Unreachable, "unreachable"),
        (TooManyRequests, "throttled"),
        (Unauthorized, "unauthorized"),
        (Forbidden, "forbidden"),
        (NotFound, "not-found"),
    ):
        if isinstance(error, kind):
            return cause
    return "fault"
