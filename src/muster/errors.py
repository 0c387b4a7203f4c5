"""What the world can say no to. One tree, raised once, handled once at the edge.

    MusterError
    ├── UsageError      the command was called wrongly: a missing file, a bad flag, a bad configuration (exit 2)
    ├── UnreadableInput bytes that are not a document: bad YAML or JSON, too large, too deep
    └── BadObject       a document that is not the object it claims to be

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
