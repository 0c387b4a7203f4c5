"""A memory with an end: the last ones that something was heard of."""

from collections import OrderedDict
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


def remember(known: OrderedDict[K, V], name: K, what: V, most: int) -> None:
    """Puts it last; when there are too many, those that were put there longest ago are forgotten."""
    known[name] = what
    known.move_to_end(name)
    while len(known) > most:
        known.popitem(last=False)
