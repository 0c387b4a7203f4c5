"""What the world can say no to. One tree, raised once, handled once at the edge.

    MusterError
    ├── UsageError      the command was called wrongly: a missing file, a bad flag, a bad configuration (exit 2)
    ├── UnreadableInput bytes that are not a document: bad YAML or JSON, too large, too deep
    ├── BadObject       a document that is not the object it claims to be
    └── ExpressionError an expression of the grouping language says no, at its column
        ├── BadExpression   the text is not in the language
        ├── BadValue        there is no value for this input, as in jq: what `?` catches
        ├── Refused         jq would answer, but no answer that can be promised; `?` does not catch it
        └── LimitReached    it would cost too much; says which limit, and the setting of it

An answer of "no" (invalid, does not fit) is not an error: it is data.
"""


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
