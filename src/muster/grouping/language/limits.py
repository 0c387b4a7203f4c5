"""What expressions may cost: the limits, which are configuration, and the meter that counts against them."""

from typing import Annotated, NoReturn

import msgspec

from muster.api.model import note
from muster.errors import LimitReached

# Where these limits stand in the configuration.
SETTINGS = "grouping.expressions"
# So many characters are read in the time that one value takes.
_PAGE = 256


class Limits(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """What expressions may cost. The last three are for all expressions of one object together."""

    characters: Annotated[int, note("Length of one expression.", minimum=1, maximum=4096)] = 4096
    nesting: Annotated[int, note("Depth of one expression.", minimum=1, maximum=100)] = 64
    range: Annotated[int, note("Values of one range.", minimum=1)] = 10_000
    steps: Annotated[int, note("Parts of expressions that are evaluated.", minimum=1)] = 1_000_000
    visited: Annotated[int, note("Values that are looked at one by one.", minimum=1)] = 500_000
    size: Annotated[int, note("Characters and values that are made.", minimum=1)] = 1_000_000


DEFAULT = Limits()


class Meter:
    """What the expressions of one object have cost so far.

    `steps`, `visited` and `size` are what is left. A part of an expression that runs for several values is charged once
    for each; a list is charged as a whole before its first value is seen; a text before it is made.
    """

    __slots__ = ("limits", "size", "steps", "visited")

    def __init__(self, limits: Limits = DEFAULT) -> None:
        self.limits = limits
        self.steps, self.visited, self.size = limits.steps, limits.visited, limits.size

    def step(self, parts: int, column: int) -> None:
        """This many parts of an expression are about to be evaluated."""
        self.steps -= parts
        if self.steps < 0:
            over("takes too many steps", "steps", self.limits, column)

    def visit(self, values: int, column: int) -> None:
        """This many values are about to be looked at."""
        self.visited -= values
        if self.visited < 0:
            over("looks at too many values", "visited", self.limits, column)

    def read(self, text: str, column: int) -> None:
        """This text is about to be read through; a long one counts as several values."""
        if len(text) >= _PAGE:
            self.visit(len(text) // _PAGE, column)

    def make(self, size: int, column: int) -> None:
        """This many characters or values are about to be made."""
        self.size -= size
        if self.size < 0:
            over("makes too much", "size", self.limits, column)


def over(what: str, limit: str, limits: Limits, column: int) -> NoReturn:
    """Says which limit an expression has reached."""
    allowed: int = getattr(limits, limit)
    raise LimitReached(f"the expression {what}: at most {allowed}", column, f"{SETTINGS}.{limit}", allowed)
