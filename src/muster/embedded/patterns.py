"""Patterns of schemas: they mean what they mean in Go (RE2), and no text takes more than linear time to be looked at.

Python's `re` reads some of them otherwise, and may take for ever. Here a pattern becomes a small machine whose possible
states are followed all at once; what was found out about a set of states is kept for the next texts. Of the syntax only
the names of scripts (`\\p{Greek}`) are missing; they are refused like everything that Go can't read.
"""

from functools import lru_cache
from typing import NamedTuple

from muster.embedded.regexp import Node, Unreadable, parsed

__all__ = ["Pattern", "Unreadable", "pattern"]

# How large the machine of a pattern may get, and how many of its steps are kept.
MOST_STATES = 5000
_MOST_KEPT = 20_000


class _Part(NamedTuple):
    """A state: what takes it further (a set of characters, a place in the text, or nothing), and where it leads."""

    node: Node | None
    to: tuple[int, ...]


class _Sets:
    """States that are possible at a place of a text, what stands before it, and the steps from there seen so far."""

    __slots__ = ("before", "states", "steps")

    def __init__(self, states: frozenset[int], before: str) -> None:
        self.states, self.before = states, before
        self.steps: dict[str, _Sets | bool] = {}


class Pattern:
    """`Pattern(text).matches(value)`: whether some part of a value is as the pattern says. Raises Unreadable."""

    def __init__(self, text: str) -> None:
        self._parts: list[_Part] = []
        self._work = 0
        self._end = self._add(None)
        self._begin = self._built(parsed(text), self._end)
        self._kept = 0
        self._known: dict[tuple[frozenset[int], str], _Sets] = {}
        self._first = self._sets(frozenset([self._begin]), "")

    def matches(self, value: str) -> bool:
        """Whether the pattern is found in a value."""
        here = self._first
        for character in value:
            after = here.steps.get(character)
            if after is None:
                after = self._step(here, character)
            if after is True or after is False:
                return after
            here = after
        found = here.steps.get("")
        return bool(self._step(here, "") if found is None else found)

    # How it is built: from the end, each part knows what comes after it.

    def _add(self, node: Node | None, *to: int) -> int:
        if len(self._parts) >= MOST_STATES:
            raise Unreadable("expression too large")
        self._parts.append(_Part(node, to))
        return len(self._parts) - 1

    def _built(self, node: Node, after: int) -> int:
        """The state at which a part begins that goes on with `after`."""
        self._work += 1
        if self._work > 10 * MOST_STATES:
            raise Unreadable("expression too large")
        if node.kind == "sequence":
            for below in reversed(node.below):
                after = self._built(below, after)
            return after
        if node.kind == "choice":
            return self._add(None, *(self._built(below, after) for below in node.below))
        if node.kind == "repeat":
            return self._repeated(node, after)
        return self._add(node, after)

    def _repeated(self, node: Node, after: int) -> int:
        (below,) = node.below
        if node.most is None:
            loop = self._add(None)
            again = self._built(below, loop)
            self._parts[loop] = _Part(None, (again, after))
            begin = loop
        else:
            begin = after
            for _ in range(node.most - node.least):
                begin = self._add(None, self._built(below, begin), after)
        for _ in range(node.least):
            begin = self._built(below, begin)
        return begin

    # How it runs.

    def _sets(self, states: frozenset[int], before: str) -> _Sets:
        key = states, before
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = _Sets(states, before)
        return found

    def _step(self, here: _Sets, character: str) -> _Sets | bool:
        """What is possible after one more character, or at the end; True or False when that is settled."""
        if self._kept >= _MOST_KEPT:
            self._forget()
        reached = self._reached(here, character)
        after: _Sets | bool
        if reached is None:
            after = True
        elif not character:
            after = False
        else:
            # What is looked for may begin after this character too.
            states = {self._begin}
            for state in reached:
                part = self._parts[state]
                if part.node is not None and part.node.has(character):
                    states.update(part.to)
            after = self._sets(frozenset(states), _class_of(character))
        self._kept += 1 + len(here.states) // 16
        here.steps[character] = after
        return after

    def _forget(self) -> None:
        """So that texts without end of other characters do not take memory without end."""
        self._kept = 0
        self._known.clear()
        self._first.steps.clear()
        self._known[self._first.states, ""] = self._first

    def _reached(self, here: _Sets, character: str) -> list[int] | None:
        """The states that wait for a character; None if the end of the pattern is among them."""
        after = _class_of(character)
        seen, left, found = set(here.states), list(here.states), []
        while left:
            state = left.pop()
            if state == self._end:
                return None
            node, to = self._parts[state]
            if node is not None and node.kind == "characters":
                found.append(state)
            elif node is None or _holds(node.place, here.before, after):
                new = [one for one in to if one not in seen]
                seen.update(new)
                left += new
        return found


def _class_of(character: str) -> str:
    """What an anchor has to know of the character beside it: nothing there, a line end, part of a word, or another."""
    if character in ("", "\n"):
        return character
    return "w" if character.isascii() and (character.isalnum() or character == "_") else "."


def _holds(place: str, before: str, after: str) -> bool:
    if place == "begin":
        return before == ""
    if place == "end":
        return after == ""
    if place == "line begin":
        return before in ("", "\n")
    if place == "line end":
        return after in ("", "\n")
    return ((before == "w") != (after == "w")) == (place == "edge")


@lru_cache(maxsize=2000)
def pattern(text: str) -> Pattern:
    """The pattern of a schema. Raises Unreadable."""
    return Pattern(text)
