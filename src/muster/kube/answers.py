"""An answer of the API server becomes an error with a sentence, where it is not what was asked for."""

from contextlib import suppress
from typing import Any

import msgspec

from muster.errors import (
    AlreadyExists,
    ApiError,
    BudgetRefused,
    Call,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    ServerFault,
    TooManyRequests,
    Unauthorized,
)
from muster.kube.transport import Answer

# PodDisruptionBudgets answer with this word; everything else that answers 429 only wants us to be slower.
_BUDGET = "DisruptionBudget"
_SHOWN_CHARACTERS = 1000
_MAX_RETRY_AFTER_S = 3600.0


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """One of several reasons."""

    reason: str = ""
    message: str = ""
    field: str = ""


class Details(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """More about a failure."""

    causes: list[Cause] | None = None
    retry_after_seconds: int = 0


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """What the API server says when it does not answer with an object."""

    code: int = 0
    reason: str = ""
    message: str = ""
    details: Details | None = None


_BY_STATUS: dict[int, type[ApiError]] = {
    400: Invalid,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    413: Invalid,
    422: Invalid,
    429: TooManyRequests,
}


def read_status(body: bytes | msgspec.Raw) -> Status:
    """The Status in these bytes. What a proxy on the way says instead becomes the message."""
    found: Any = None
    try:
        return msgspec.json.decode(body, type=Status)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        with suppress(msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            found = msgspec.json.decode(body)
    if not isinstance(found, dict):
        return Status(message=bytes(body)[: 4 * _SHOWN_CHARACTERS].decode("utf-8", "replace"))
    code, reason, message = found.get("code"), found.get("reason"), found.get("message")
    return Status(
        code=code if isinstance(code, int) else 0,
        reason=reason if isinstance(reason, str) else "",
        message=message if isinstance(message, str) else "",
    )


def failure(call: Call, answer: Answer) -> ApiError:
    """The error that an answer with a status of 300 or more is."""
    status = read_status(answer.body)
    return failure_of(call, answer.status, status, retry_after(answer, status))


def failure_of(call: Call, code: int, status: Status, retry_after_s: float | None = None) -> ApiError:
    """The error of a status, which may also have come inside a watch."""
    kind = _BY_STATUS.get(code) or (ServerFault if code >= 500 else ApiError)
    causes = (status.details.causes if status.details else None) or []
    if kind is Conflict and status.reason == "AlreadyExists":
        kind = AlreadyExists
    if kind is TooManyRequests and any(cause.reason == _BUDGET for cause in causes):
        kind = BudgetRefused
    said = [plain(status.message), *(plain(cause.message) for cause in causes[:10] if cause.reason == _BUDGET)]
    message = f"can't {call}: " + (" ".join(filter(None, said)) or f"the API server answered {code}")
    hint = ""
    if kind is Forbidden:
        where = f" in namespace {call.namespace}" if call.namespace else " in the whole cluster"
        hint = f"it takes the verb {call.verb} on {call.resource}{where}; muster doctor lists the missing rights"
    return kind(call, message, hint, status=code, reason=status.reason, retry_after_s=retry_after_s)


def retry_after(answer: Answer, status: Status) -> float | None:
    """How long the server wants us to wait, where it says so in seconds."""
    told: Any = answer.headers.get("Retry-After", answer.headers.get("retry-after"))
    if told is not None and told.isascii() and told.isdigit() and len(told) < 10:
        return min(float(told), _MAX_RETRY_AFTER_S)
    if status.details is not None and status.details.retry_after_seconds > 0:
        return min(float(status.details.retry_after_seconds), _MAX_RETRY_AFTER_S)
    return None


def plain(text: str) -> str:
    """What others wrote, inside our sentence: not too long, and nothing that moves a cursor."""
    short = text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 3] + "..."
    return short if short.isprintable() else "".join(c if c.isprintable() else " " for c in short)
