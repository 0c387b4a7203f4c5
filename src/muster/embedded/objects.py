"""Documents, and the rules of their metadata: what the server sets, what nobody may change, what deletion leaves.

A document is a plain JSON value. It is never changed in place: a new one shares with the old one all that stays.
Time, uids and randomness come in as parameters.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

Document = dict[str, Any]
# What stands only in the answer of the server, never in what a client decides.
SERVER_OWNED = ("uid", "creationTimestamp", "selfLink")
# Kubernetes' alphabet of generated names: no vowels and nothing that looks like another letter.
SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
SUFFIX_LENGTH = 5
# A generated name never grows beyond a label's length: the base is cut for the suffix.
LONGEST_BASE = 63 - SUFFIX_LENGTH


# The last second that a timestamp can say: who has a longer grace is done no earlier.
_LATEST = 253_402_300_799


def timestamp(seconds: float) -> str:
    """Seconds since 1970 as `2026-01-02T03:04:05Z`."""
    return _timestamp(min(int(seconds), _LATEST))


@lru_cache(maxsize=64)
def _timestamp(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_timestamp(seconds: float) -> str:
    """Seconds since 1970 as `2026-01-02T03:04:05.123456Z`, the form of a MicroTime."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def same_value(one: Any, other: Any) -> bool:
    """Whether two JSON values are the same: numbers by their value, and true is not 1."""
    # What Python calls different is so; only what it calls equal needs a second look, for true and 1.
    return one is other or (one == other and _same_kinds(one, other))


def _same_kinds(one: Any, other: Any) -> bool:
    """Whether values that are equal have their booleans in the same places."""
    kind = type(one)
    if kind is dict:
        for key, value in one.items():
            there = other[key]
            if value is not there and not _same_kinds(value, there):
                return False
        return True
    if kind is list:
        return all(map(_same_kinds, one, other))
    return (kind is bool) is (type(other) is bool)


def with_metadata(document: Document, **changes: Any) -> Document:
    """The document with fields of its metadata set; None removes one."""
    metadata = dict(document.get("metadata") or {})
    for name, value in changes.items():
        if value is None:
            metadata.pop(name, None)
        else:
            metadata[name] = value
    return {**document, "metadata": metadata}


def suffix(choose: Callable[[str], str]) -> str:
    """A suffix of a generated name; `choose` takes one letter out of many, as random.Random(seed).choice does."""
    return "".join(choose(SUFFIX_LETTERS) for _ in range(SUFFIX_LENGTH))


def created(
    document: Document,
    *,
    uid: str,
    now: str,
    suffix: Callable[[], str],
    namespace: str | None,
    generation: bool = True,
) -> Document:
    """What is kept of a document that was sent to be created: the server's metadata set, the name generated.

    `namespace` None is a kind without namespaces. `generation` False is a kind that does not count (ConfigMap, Event).
    """
    metadata = document.get("metadata") or {}
    name = metadata.get("name") or ""
    base = metadata.get("generateName") or ""
    if not name and base:
        name = base[:LONGEST_BASE] + suffix()
    return with_metadata(
        document,
        name=name,
        namespace=namespace or None,
        uid=uid,
        creationTimestamp=now,
        generation=1 if generation else None,
        resourceVersion=None,
        selfLink=None,
        deletionTimestamp=None,
        deletionGracePeriodSeconds=None,
    )


def replaced(
    current: Document,
    new: Document,
    *,
    status: bool,
    subresource: str = "",
    generation: bool = True,
    metadata_of_status: bool = True,
) -> Document:
    """What is kept of a document that was sent in place of `current`.

    `status`: the kind has a status subresource, so that its main door cannot change the status, nor the door of the
    status anything else. Metadata comes along there too, apart from custom resources (`metadata_of_status` False).
    `generation` counts what is neither metadata nor status (with `status`), or everything but metadata.
    """
    old = current.get("metadata") or {}
    metadata = dict(new.get("metadata") or {})
    if status and subresource == "status":
        body = {**current}
        body.pop("status", None)
        if "status" in new:
            body["status"] = new["status"]
        if not metadata_of_status:
            metadata = {**old, "managedFields": metadata.get("managedFields")}
    else:
        body = dict(new)
        if status:
            body.pop("status", None)
            if "status" in current:
                body["status"] = current["status"]
    for name in (*SERVER_OWNED, "generation", "resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds"):
        metadata.pop(name, None)
        if name in old:
            metadata[name] = old[name]
    if generation and counts(current, body, status=status):
        metadata["generation"] = int(old.get("generation") or 0) + 1
    if metadata.get("managedFields", 0) is None:
        del metadata["managedFields"]
    return {**body, "metadata": metadata}


def counts(current: Document, new: Document, *, status: bool) -> bool:
    """Whether the difference of two documents is one that the generation counts."""
    aside = {"metadata", "status"} if status else {"metadata"}
    one = {key: value for key, value in current.items() if key not in aside}
    return not same_value(one, {key: value for key, value in new.items() if key not in aside})


def deleted(
    current: Document,
    *,
    now: str,
    grace: int | None,
    finalizers: Iterable[str] = (),
    generation: bool = True,
) -> Document | None:
    """What stays of a document that is deleted now: None if nothing holds it, else the document on its way out.

    `grace` is the seconds that are left to it (0 or None: none); its deletionTimestamp lies that far ahead of `now`.
    `finalizers` are added (`foregroundDeletion`, `orphan`). A second deletion may only shorten the time.
    """
    metadata = current.get("metadata") or {}
    held = list(dict.fromkeys([*(metadata.get("finalizers") or []), *finalizers]))
    seconds = max(0, grace or 0)
    if not held and not seconds:
        return None
    changes: dict[str, Any] = {"finalizers": held or None}
    left = metadata.get("deletionGracePeriodSeconds")
    if metadata.get("deletionTimestamp") is None or (left is not None and seconds < left):
        at = metadata.get("deletionTimestamp")
        # A shorter time counts from the moment of the first request, as the real one does.
        start = seconds_of(at) - (left or 0) if at is not None else seconds_of(now)
        changes["deletionTimestamp"] = timestamp(start + seconds)
        changes["deletionGracePeriodSeconds"] = seconds
        if at is None and generation and metadata.get("generation"):
            changes["generation"] = int(metadata["generation"]) + 1
    return with_metadata(current, **changes)


def seconds_of(text: str) -> float:
    """Seconds since 1970 of a timestamp."""
    return datetime.fromisoformat(text.upper().replace("Z", "+00:00")).timestamp()


def gone_with(document: Document) -> bool:
    """Whether a document on its way out is held by nothing any more: no finalizers, and no time left to it."""
    metadata = document.get("metadata") or {}
    return (
        metadata.get("deletionTimestamp") is not None
        and not metadata.get("finalizers")
        and not metadata.get("deletionGracePeriodSeconds")
    )


def same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two documents are equal but for their resourceVersion and the times of their managedFields."""
    return same_value(_timeless(one), _timeless(other))


def _timeless(document: Mapping[str, Any]) -> Document:
    metadata = dict(document.get("metadata") or {})
    metadata.pop("resourceVersion", None)
    entries = metadata.pop("managedFields", None) or []
    metadata["managedFields"] = [{key: value for key, value in entry.items() if key != "time"} for entry in entries]
    return {**document, "metadata": metadata}
