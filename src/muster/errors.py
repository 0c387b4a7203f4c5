"""What the world can say no to. One tree, raised once, handled once at the edge.

    MusterError
    ├── UsageError      the command was called wrongly: a missing file, a bad flag, a bad configuration (exit 2)
    ├── UnreadableInput bytes that are not a document: bad YAML or JSON, too large, too deep
    ├── BadObject       a document that is not the object it claims to be
    ├── ExpressionError an expression of the grouping language says no, at its column
    │   ├── BadExpression   the text is not in the language
    │   ├── BadValue        there is no value for this input, as in jq: what `?` catches
    │   ├── Refused         jq would answer, but no answer that can be promised; `?` does not catch it
    │   └── LimitReached    it would cost too much; says which limit, and the setting of it
    ├── ApiError        the API server said no, or could not be asked. `unknown`: a write may have happened all the same
    │   ├── Unreachable     no answer; unknown for a write, unless it was never sent
    │   ├── ServerFault     5xx, or an answer that breaks off; unknown for a write
    │   ├── Unauthorized    401, or there are no credentials to send: who are you
    │   ├── Forbidden       403: names the verb, the resource and the namespace
    │   ├── NotFound        404
    │   ├── AlreadyExists   409 on a create
    │   ├── Conflict        409: the object is another one by now, or somebody else owns the field
    │   ├── Gone            410: the resourceVersion or the continue token is too old: list again
    │   ├── Invalid         400, 413, 422: the request itself is wrong, and stays wrong
    │   └── TooManyRequests 429: later; `retry_after_s` says when
    │       └── BudgetRefused   429 of an eviction: a PodDisruptionBudget says no. Waiting is not enough
    │
    │   Below, how the embedded API server says no to its clients; these never leave it.
    ├── embedded.refusals.Refused       a request cannot be granted: status, reason and causes of a metav1.Status
    │   ├── exchange.Said               with the details of the Status
    │   └── applying.Conflicts          409 of server-side apply: fields of somebody else's
    ├── embedded.regexp.Unreadable      the pattern of a schema is no regular expression
    ├── embedded.store.Exists           there is a document under this key already
    ├── embedded.store.Missing          there is none
    ├── embedded.store.Stale            it is another version by now
    ├── embedded.store.Gone             the history that was asked for is forgotten
    └── embedded.store.Unwritten        the change could not be kept (a full disk), and so did not happen

An answer of "no" (invalid, does not fit) is not an error: it is data.
"""

from typing import Final, NamedTuple

# In whatever is told of a mistake of the program itself: people look for these words, and so does the simulation.
DEFECT: Final = "defect in muster"


class MusterError(Exception):
    """The world said no. `message` says what and where, `hint` how to mend it."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(MusterError):
    """The command was called wrongly."""


class UnreadableInput(MusterError):
    """These bytes are not a document."""


class BadObject(MusterError):
    """This document is not the object that it claims to be."""

    def __init__(self, path: str, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.path = path


class ExpressionError(MusterError):
    """An expression says no. `column` is the place in its text, from 1; 0 is no place in particular."""

    def __init__(self, message: str, column: int = 0, hint: str = "") -> None:
        super().__init__(message, hint)
        self.column = column


class BadExpression(ExpressionError):
    """This text is not in the language of expressions."""


class BadValue(ExpressionError):
    """An expression has no value for this input. jq has none either; `?` turns this into nothing."""


class Refused(ExpressionError):
    """jq has a value here, but one that depends on its version or surprises everybody. `?` does not catch this."""


class LimitReached(ExpressionError):
    """An expression would cost more than it may. `limit` is what it may, `setting` the key that says so."""

    def __init__(self, message: str, column: int, setting: str, limit: int) -> None:
        super().__init__(message, column, f"ask for less, or raise {setting} (now {limit})")
        self.setting = setting
        self.limit = limit


class Call(NamedTuple):
    """What was asked of the API server, in the words of RBAC; `write` says whether it would change something."""

    verb: str
    resource: str
    namespace: str = ""
    name: str = ""
    write: bool = False

    def __str__(self) -> str:
        what = f"{self.verb} {self.resource}" + (f" {self.name}" if self.name else "")
        return what + (f" in namespace {self.namespace}" if self.namespace else "")


class ApiError(MusterError):
    """The API server said no, or could not be asked. `status` 0 is no answer; `reason` is Kubernetes' word for it."""

    def __init__(
        self,
        call: Call,
        message: str,
        hint: str = "",
        *,
        status: int = 0,
        reason: str = "",
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message, hint)
        self.call = call
        self.status = status
        self.reason = reason
        self.retry_after_s = retry_after_s

    @property
    def unknown(self) -> bool:
        """Whether this was a write that may have happened all the same: read back before anything is concluded."""
        return False


class Unreachable(ApiError):
    """There was no answer. Only what was never `sent` certainly did not happen; `lasting` does not pass by itself."""

    def __init__(self, call: Call, message: str, hint: str = "", *, sent: bool = True, lasting: bool = False) -> None:
        super().__init__(call, message, hint)
        self.sent = sent
        self.lasting = lasting

    @property
    def unknown(self) -> bool:
        """A write that was sent may have happened."""
        return self.call.write and self.sent


class ServerFault(ApiError):
    """The server failed, perhaps after it did what was asked."""

    @property
    def unknown(self) -> bool:
        """A write may have happened before the fault."""
        return self.call.write


class Unauthorized(ApiError):
    """The server does not know us, or there are no credentials to show it."""


class Forbidden(ApiError):
    """The server knows us and does not allow this: a right is missing, or admission says no."""


class NotFound(ApiError):
    """There is no such object, or no such resource."""


class AlreadyExists(ApiError):
    """There is an object of this name already."""


class Conflict(ApiError):
    """The object is not the one that was meant: another version, another UID, bound already, a field of others."""


class Gone(ApiError):
    """A resourceVersion or a continue token that the server no longer has: list again."""


class Invalid(ApiError):
    """The request is wrong and stays wrong."""


class TooManyRequests(ApiError):
    """Not now. `retry_after_s` says when, where the server said so. Nothing was done."""


class BudgetRefused(TooManyRequests):
    """A PodDisruptionBudget forbids this eviction for now."""
