"""What goes over the wire, as values: requests, answers, and the Status documents that say no."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from muster.embedded.kinds import Resource
from muster.embedded.refusals import Cause, Refused

Document = dict[str, Any]
JSON = "application/json"


# Between the values of an option that is repeated: no value that means something has it.
REPEATED = "&"


def asked_for(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The options of a query: the first value counts, but all of `dryRun`."""
    found: dict[str, str] = {}
    for name, value in pairs:
        if name not in found:
            found[name] = value
        elif name == "dryRun":
            found[name] += REPEATED + value
    return found


class Request(NamedTuple):
    """One request. The names of headers are in lower case; `user` is whom the transport knows the client as.

    An option of the query that is said more than once has its values joined by `REPEATED`.
    """

    method: str
    path: str
    query: Mapping[str, str] = {}
    headers: Mapping[str, str] = {}
    body: bytes = b""
    user: str = "admin"


class Answer(NamedTuple):
    """What is answered; warnings are headers of the same name, so headers are pairs."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def json(self) -> Any:
        """The body as a value."""
        return msgspec.json.decode(self.body)


def encode(value: Any) -> bytes:
    """A value as the real server writes it: compact, with a line end."""
    return msgspec.json.encode(value) + b"\n"


class Encoder:
    """Documents as bytes, each encoded once: the answer to its writer and all watches share them.

    Documents that are stored are never changed, so each is known by its id() while it is kept here.
    """

    def __init__(self, most_bytes: int = 16 * 1024 * 1024) -> None:
        self._kept: dict[int, tuple[Document, bytes]] = {}
        self._bytes, self._most_bytes = 0, most_bytes

    def __call__(self, document: Document) -> bytes:
        """The document as JSON, without a line end."""
        kept = self._kept.get(id(document))
        if kept is not None:
            return kept[1]
        found = msgspec.json.encode(document)
        self._bytes += len(found)
        if self._bytes > self._most_bytes:
            self._kept, self._bytes = {}, len(found)
        self._kept[id(document)] = document, found
        return found


def answer(
    status: int, value: Any, *, warnings: Sequence[str] = (), content_type: str = JSON, body: bytes = b""
) -> Answer:
    """An answer with a document as its body; `body` is that document when it is encoded already."""
    headers = _HEADERS if content_type == JSON else (("Content-Type", content_type), _NO_CACHE)
    found = Answer(status, headers, body + b"\n" if body else encode(value))
    return warned(found, warnings) if warnings else found


def warned(found: Answer, warnings: Sequence[str]) -> Answer:
    """An answer that warns of more, each once."""
    headers = found.headers
    for text in dict.fromkeys(warnings):
        quoted = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
        headers = (*headers, ("Warning", f'299 - "{quoted}"'))
    return found._replace(headers=headers)


_NO_CACHE = ("Cache-Control", "no-cache, private")
_HEADERS: tuple[tuple[str, str], ...] = (("Content-Type", JSON), _NO_CACHE)


def plain(status: int, text: str) -> Answer:
    """An answer with a text."""
    headers = (("Content-Type", "text/plain; charset=utf-8"), ("X-Content-Type-Options", "nosniff"))
    return Answer(status, headers, text.encode())


class Said(Refused):
    """A refusal with the `details` of its Status; without any, there are none."""

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        details: Document | None = None,
        causes: Sequence[Cause] = (),
        warnings: Sequence[str] = (),
    ) -> None:
        super().__init__(status, reason, message, causes)
        self.details = details
        self.warnings = warnings


def failure(refused: Refused) -> Document:
    """The Status document of a refusal."""
    found: Document = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    found["message"] = refused.message
    if refused.reason:
        found["reason"] = refused.reason
    details = dict(getattr(refused, "details", None) or {})
    if refused.causes:
        details["causes"] = [
            {key: value for key, value in cause._asdict().items() if value or key == "message"}
            for cause in refused.causes
        ]
    if details or getattr(refused, "details", None) is not None:
        found["details"] = details
    found["code"] = refused.status
    return found


def success(resource: Resource, name: str, uid: str = "") -> Document:
    """The Status that answers a deletion which is over."""
    details = {"name": name, "group": resource.group, "kind": resource.plural, "uid": uid}
    said = {key: value for key, value in details.items() if value}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": said}


def _details(resource: Resource, name: str, kind: str = "") -> Document:
    found = {"name": name, "group": resource.group, "kind": kind or resource.plural}
    return {key: value for key, value in found.items() if value}


def bad_request(message: str) -> Said:
    """400."""
    return Said(400, "BadRequest", message)


def other_namespace() -> Said:
    """400 for an object that says that it is of another namespace than its path."""
    return bad_request("the namespace of the provided object does not match the namespace sent on the request")


def no_such_path() -> Said:
    """404 for a path that is no resource."""
    return Said(404, "NotFound", "the server could not find the requested resource", {})


def no_such_method() -> Said:
    """405."""
    return Said(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})


def not_found(resource: Resource, name: str) -> Said:
    """404 for an object."""
    return Said(404, "NotFound", f'{resource.qualified} "{name}" not found', _details(resource, name))


def exists(resource: Resource, name: str) -> Said:
    """409 on a create."""
    return Said(409, "AlreadyExists", f'{resource.qualified} "{name}" already exists', _details(resource, name))


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def conflict(resource: Resource, name: str, why: str = MODIFIED) -> Said:
    """409."""
    message = f'Operation cannot be fulfilled on {resource.qualified} "{name}": {why}'
    return Said(409, "Conflict", message, _details(resource, name))


def forbidden(resource: Resource, name: str, why: str) -> Said:
    """403 by admission."""
    message = (
        f'{resource.qualified} "{name}" is forbidden: {why}' if name else f"{resource.qualified} is forbidden: {why}"
    )
    return Said(403, "Forbidden", message, _details(resource, name))


def invalid(resource: Resource, name: str, causes: Sequence[Cause]) -> Said:
    """422 with all that is wrong."""
    texts = [str(cause) for cause in causes]
    said = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    # Events are of the older group, whichever they were sent to.
    group = "" if resource.plural == "events" and not resource.custom else resource.group
    message = f'{resource.kind}{group and "."}{group} "{name}" is invalid: {said}'
    details = {"name": name, "group": group, "kind": resource.kind}
    return Said(422, "Invalid", message, {key: value for key, value in details.items() if value}, causes)


def expired(message: str) -> Said:
    """410: what was asked for is compacted."""
    return Said(410, "Expired", message)


# Causes in the words of the real one.


def required(path: str, detail: str = "") -> Cause:
    """A field that must be there."""
    return Cause("FieldValueRequired", f"Required value: {detail}" if detail else "Required value", path)


def shown(value: Any) -> str:
    """A value as messages show it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def wrong(path: str, value: Any, detail: str) -> Cause:
    """A field with a value that it can't have."""
    return Cause("FieldValueInvalid", f"Invalid value: {shown(value)}: {detail}", path)


def unsupported(path: str, value: Any, allowed: Sequence[str]) -> Cause:
    """A field whose value is not one of a few."""
    listed = ", ".join(f'"{one}"' for one in allowed)
    return Cause("FieldValueNotSupported", f"Unsupported value: {shown(value)}: supported values: {listed}", path)


def too_long(path: str, most: int) -> Cause:
    """A field with too much in it."""
    return Cause("FieldValueTooLong", f"Too long: may not be more than {most} bytes", path)


def denied(path: str, detail: str) -> Cause:
    """A field that must not be there, or not be changed."""
    return Cause("FieldValueForbidden", f"Forbidden: {detail}", path)


def duplicate(path: str, value: Any) -> Cause:
    """A second entry of the same name."""
    return Cause("FieldValueDuplicate", f"Duplicate value: {shown(value)}", path)
