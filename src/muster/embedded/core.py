"""What every part of the server works with: the store, the kinds, time and chance as parameters, and who may object."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from muster.embedded.exchange import REPEATED, Encoder, Request, Said
from muster.embedded.kinds import Kinds, Resource
from muster.embedded.objects import timestamp
from muster.embedded.refusals import Cause
from muster.embedded.schema import Check
from muster.embedded.store import Key, Store

Document = dict[str, Any]
# Under which name the store keeps definitions.
DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"


class Verdict(NamedTuple):
    """What a review says: nothing against it, or why not. Warnings are shown to the client in either case."""

    refusal: str = ""
    warnings: Sequence[str] = ()
    status: int = 403
    reason: str = "Forbidden"
    causes: Sequence[Cause] = ()
    # What is at fault, as `details` of the answer; without, the object that was asked about when there are causes.
    details: Document | None = None


class Target(NamedTuple):
    """What the path of a request names."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def key(self) -> Key:
        """Where the store keeps it."""
        return Key(self.resource.stored, self.namespace if self.resource.namespaced else "", self.name)


class Asked(NamedTuple):
    """A write that is about to be done. CREATE has no old document, DELETE no new one."""

    operation: str
    target: Target
    new: Document | None
    old: Document | None
    user: str = ""
    dry_run: bool = False


# What a validating webhook would do.
Review = Callable[[Asked], Verdict]


class Options(NamedTuple):
    """What the query of a write says, and who sends it."""

    dry_run: bool = False
    manager: str = "unknown"
    validation: str = "Warn"
    force: bool = False
    user: str = ""


@dataclass
class Core:
    """Shared by all parts of one server."""

    store: Store
    kinds: Kinds
    clock: Callable[[], float]
    new_uid: Callable[[], str]
    suffix: Callable[[], str]
    checks: Mapping[str, Check]
    reviews: Sequence[Review]
    encoded: Encoder = field(default_factory=Encoder)

    def now(self) -> str:
        """The time, as documents say it."""
        return timestamp(self.clock())


def options_of(request: Request) -> Options:
    """The options of a write; 400 on those that mean nothing."""
    query = request.query
    word = {"POST": "Create", "PUT": "Update"}.get(request.method, request.method.title())
    validation, manager = query.get("fieldValidation", "") or "Warn", query.get("fieldManager", "")
    if validation not in ("Ignore", "Strict", "Warn"):
        said = f'Unsupported value: "{validation}": supported values: "", "Ignore", "Strict", "Warn"'
        raise bad_options("fieldValidation", said, f"{word}Options")
    if len(manager.encode()) > 128:
        raise bad_options("fieldManager", "Too long: may not be more than 128 bytes", f"{word}Options")
    strange = next((place for place, one in enumerate(manager) if not one.isprintable()), None)
    if strange is not None:
        quoted = "".join(one if one.isprintable() else _escaped(one) for one in manager)
        where = f"U+{ord(manager[strange]):04X} (at position {len(manager[:strange].encode())})"
        said = f'Invalid value: "{quoted}": invalid character {where}'
        raise bad_options("fieldManager", said, f"{word}Options")
    agent = request.headers.get("user-agent", "").partition("/")[0]
    return Options(
        dry_run=is_rehearsal(rehearsed(query), f"{word}Options"),
        manager=manager or agent[:128] or "unknown",
        validation=validation,
        force=query.get("force", "").lower() in ("true", "1"),
        user=request.user,
    )


def rehearsed(query: Mapping[str, str]) -> list[str]:
    """What a query says of `dryRun`, the only option that may be there more than once."""
    return query["dryRun"].split(REPEATED) if query.get("dryRun") else []


def is_rehearsal(said: Sequence[str], kind: str) -> bool:
    """Whether a write is only tried; 422 unless all that is said is All: what is not understood must not be done."""
    if any(one != "All" for one in said):
        listed = json.dumps(said, separators=(",", ":"))
        raise bad_options("dryRun", f'Unsupported value: {listed}: supported values: "All"', kind)
    return bool(said)


def _escaped(one: str) -> str:
    """A character as Go quotes it."""
    known = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\a": "\\a", "\b": "\\b", "\f": "\\f", "\v": "\\v"}
    return known.get(one) or (f"\\x{ord(one):02x}" if ord(one) < 128 else f"\\u{ord(one):04x}")


def bad_options(field: str, message: str, kind: str = "PatchOptions") -> Said:
    """422 for an option that means nothing."""
    reasons = {
        "F": "FieldValueForbidden",
        "U": "FieldValueNotSupported",
        "I": "FieldValueInvalid",
        "T": "FieldValueTooLong",
    }
    cause = Cause(reasons.get(message[0], "FieldValueRequired"), message, field)
    details = {"group": "meta.k8s.io", "kind": kind}
    return Said(422, "Invalid", f'{kind}.meta.k8s.io "" is invalid: {cause}', details, [cause])


def shown_as(document: Document, resource: Resource) -> Document:
    """A stored document in the version that was asked for."""
    if resource.plural == "events" and resource.group:
        return _new_event(document)
    if resource.custom and document.get("apiVersion") != resource.api_version:
        return {**document, "apiVersion": resource.api_version}
    return document


def kept_as(document: Document, resource: Resource) -> Document:
    """A document as it was sent, in the version that is kept."""
    if resource.plural == "events" and resource.group:
        return _old_event(document)
    if resource.custom and resource.storage_version:
        return {**document, "apiVersion": f"{resource.group}/{resource.storage_version}"}
    return document


# Events are one kind with two faces: (as kept, as shown in events.k8s.io).
_FACES = (
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
)


def _new_event(document: Document) -> Document:
    names = dict(_FACES)
    found = {names.get(key, key): value for key, value in document.items()}
    found["apiVersion"] = "events.k8s.io/v1"
    for key in ("reportingController", "reportingInstance"):
        if found.get(key) == "":
            del found[key]
    return found


def _old_event(document: Document) -> Document:
    names = {new: old for old, new in _FACES}
    found = {names.get(key, key): value for key, value in document.items()}
    found["apiVersion"] = "v1"
    return found
