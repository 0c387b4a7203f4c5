"""Reads regular expressions in the syntax of Go (RE2): text in, a tree out. Raises Unreadable in Go's words."""

import re
import string
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from muster.errors import MusterError

MOST_REPEATS = 1000
DEEPEST = 100
LONGEST = 20_000
_Test = Callable[[str], bool]


class Unreadable(MusterError):
    """The text is no regular expression."""


class Item(NamedTuple):
    """Characters from one to another, or those of which something is true."""

    first: str = ""
    last: str = ""
    test: _Test | None = None
    negated: bool = False

    def has(self, characters: str) -> bool:
        """Whether one of these characters, which are the same but for their case, belongs to it."""
        if self.test is None:
            return any(self.first <= one <= self.last for one in characters)
        return any(map(self.test, characters)) != self.negated


class Node(NamedTuple):
    """A part: characters, place, sequence, choice or repeat, and what is below it."""

    kind: str
    below: "tuple[Node, ...]" = ()
    items: tuple[Item, ...] = ()
    negated: bool = False
    folded: bool = False
    place: str = ""
    least: int = 0
    most: int | None = None

    def has(self, character: str) -> bool:
        """Whether a character is one of those meant."""
        same = folds(character) if self.folded else character
        return any(item.has(same) for item in self.items) != self.negated


@lru_cache(maxsize=4096)
def folds(character: str) -> str:
    """A character and those that differ from it only by case."""
    found = {character}
    for _ in range(2):
        found |= {other for one in found for other in (one.lower(), one.upper()) if len(other) == 1}
    more = {"k": "\u212a", "s": "\u017f"}.get(character.lower(), "")
    return "".join(sorted(found | set(more)))


def parsed(text: str) -> Node:
    """The tree of a regular expression."""
    if len(text) > LONGEST:
        raise Unreadable("expression too large")
    return _Reader(text).read()


def _one_of(characters: str) -> _Test:
    return frozenset(characters).__contains__


_WORD = string.ascii_letters + string.digits + "_"
_PERL = {"d": _one_of(string.digits), "s": _one_of("\t\n\f\r "), "w": _one_of(_WORD)}
_POSIX = {
    "alnum": _one_of(string.ascii_letters + string.digits),
    "alpha": _one_of(string.ascii_letters),
    "ascii": str.isascii,
    "blank": _one_of("\t "),
    "cntrl": _one_of("".join(map(chr, range(32))) + "\x7f"),
    "digit": _PERL["d"],
    "graph": _one_of("".join(map(chr, range(33, 127)))),
    "lower": _one_of(string.ascii_lowercase),
    "print": _one_of("".join(map(chr, range(32, 127)))),
    "punct": _one_of(string.punctuation),
    "space": _one_of("\t\n\v\f\r "),
    "upper": _one_of(string.ascii_uppercase),
    "word": _PERL["w"],
    "xdigit": _one_of(string.hexdigits),
}
_KINDS = {"L": "ultmo", "M": "nce", "N": "dlo", "P": "cdseifo", "S": "mcko", "Z": "slp", "C": "cfso"}
_CATEGORIES = frozenset(_KINDS) | {large + small for large, more in _KINDS.items() for small in more}
_ESCAPED = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_PLACES = {"A": "begin", "z": "end", "b": "edge", "B": "no edge"}
_COUNT = re.compile(r"\{([0-9]+)(?:(,)([0-9]*))?\}")
_NAME = re.compile(r"\(\?P?<([^>]*)>")
_FLAGS = re.compile(r"\(\?([imsU]*)(-[imsU]+)?([:)])")


def _category(name: str) -> _Test:
    if name == "Any":
        return lambda character: True
    if name == "C":
        return lambda character: unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co")
    return lambda character: unicodedata.category(character).startswith(name)


class _Reader:
    """A place in the text, and the flags that hold there."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._flags = ""

    def read(self) -> Node:
        found = self._choice(0)
        if self._at < len(self._text):
            raise Unreadable(f"unexpected ): `{self._text}`")
        return found

    def _next(self, length: int = 1) -> str:
        return self._text[self._at : self._at + length]

    def _choice(self, depth: int) -> Node:
        if depth > DEEPEST:
            raise Unreadable(f"expression nests too deeply: `{self._text}`")
        flags = self._flags
        branches = [self._sequence(depth)]
        while self._next() == "|":
            self._at += 1
            branches.append(self._sequence(depth))
        self._flags = flags  # those set in a group end with it
        return branches[0] if len(branches) == 1 else Node("choice", tuple(branches))

    def _sequence(self, depth: int) -> Node:
        found: list[Node] = []
        while self._next() not in ("", "|", ")"):
            begin = self._at
            least_most = self._count()
            if least_most is not None:
                if not found:
                    raise Unreadable(f"missing argument to repetition operator: `{self._text[begin : self._at]}`")
                self._at += self._next() == "?"  # whether as few as possible: all the same for whether it matches
                first_end = self._at
                if self._count() is not None:
                    raise Unreadable(f"invalid nested repetition operator: `{self._text[begin : self._at]}`")
                self._at = first_end
                found[-1] = self._repeat(found[-1], *least_most, self._text[begin:first_end])
            else:
                found += self._atom(depth)
        return found[0] if len(found) == 1 else Node("sequence", tuple(found))

    def _count(self) -> tuple[int, int | None] | None:
        """How often what stands before may come; None, and no step further, if nothing is said of that here."""
        simple: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
        if self._next() in simple:
            self._at += 1
            return simple[self._text[self._at - 1]]
        found = _COUNT.match(self._text, self._at)
        if found is None:
            return None  # a brace that stands for itself
        low, comma, high = found.groups()
        if len(low) > 4 or len(high or "") > 4:
            raise Unreadable(f"invalid repeat count: `{found.group()}`")
        least = int(low)
        most = least if not comma else int(high) if high else None
        if least > MOST_REPEATS or (most is not None and not least <= most <= MOST_REPEATS):
            raise Unreadable(f"invalid repeat count: `{found.group()}`")
        self._at = found.end()
        return least, most

    def _repeat(self, node: Node, least: int, most: int | None, said: str) -> Node:
        new = Node("repeat", (node,), least=least, most=most)
        if said.startswith("{") and _copies(new) > MOST_REPEATS:
            raise Unreadable(f"invalid repeat count: `{said}`")
        return new

    def _atom(self, depth: int) -> list[Node]:
        character = self._next()
        if character == "(":
            return self._group(depth)
        if character == "[":
            return [self._class()]
        if character == "\\":
            return self._escape()
        self._at += 1
        if character == ".":
            return [self._characters(() if "s" in self._flags else (Item("\n", "\n"),), negated=True)]
        if character in "^$":
            line = "line " if "m" in self._flags else ""
            return [Node("place", place=line + ("begin" if character == "^" else "end"))]
        return [self._literal(character)]

    def _characters(self, items: tuple[Item, ...], negated: bool = False) -> Node:
        return Node("characters", items=items, negated=negated, folded="i" in self._flags)

    def _literal(self, character: str) -> Node:
        return self._characters((Item(character, character),))

    def _group(self, depth: int) -> list[Node]:
        begin = self._at
        before = self._flags
        if self._next(2) != "(?":
            self._at += 1
        elif found := _NAME.match(self._text, self._at):
            name = found.group(1)
            if not name or not set(name) <= set(_WORD):
                raise Unreadable(f"invalid named capture: `{found.group()}`")
            self._at = found.end()
        else:
            found = _FLAGS.match(self._text, self._at)
            if self._text.startswith(("(?<", "(?P<"), self._at):
                raise Unreadable(f"invalid named capture: `{self._text[self._at :]}`")
            if found is None:
                raise Unreadable(f"invalid or unsupported Perl syntax: `{self._next(3)}`")
            set_, cleared, end = found.groups()
            self._flags = "".join(sorted((set(before) | set(set_)) - set(cleared or "")))
            self._at = found.end()
            if end == ")":
                return []
        below = self._choice(depth + 1)
        if self._next() != ")":
            raise Unreadable(f"missing closing ): `{self._text[begin:] if not depth else self._text}`")
        self._at += 1
        self._flags = before
        return [below if below.kind != "repeat" else Node("sequence", (below,))]

    def _escape(self) -> list[Node]:
        kind = self._next(2)[1:]
        if kind == "Q":
            text, _, _ = self._text[self._at + 2 :].partition("\\E")
            self._at = min(self._at + 2 + len(text) + 2, len(self._text))
            return [self._literal(one) for one in text]
        if kind in _PLACES and kind:
            self._at += 2
            return [Node("place", place=_PLACES[kind])]
        item = self._named_set()
        return [self._characters((item,))] if item else [self._literal(self._escaped())]

    def _named_set(self) -> Item | None:
        """`\\d`, `\\pL` and the like; None, and no step further, if it is something else."""
        kind = self._next(2)[1:]
        if kind.lower() in _PERL and kind:
            self._at += 2
            return Item(test=_PERL[kind.lower()], negated=kind.isupper())
        if kind not in ("p", "P"):
            return None
        begin = self._at
        self._at += 2
        if self._next() == "{":
            name, closed, _ = self._text[self._at + 1 :].partition("}")
            self._at += len(name) + 2
            if not closed:
                raise Unreadable(f"invalid character class range: `{self._text[begin:]}`")
        else:
            name = self._next()
            self._at += 1
        bare = name.removeprefix("^")
        if bare not in _CATEGORIES and bare != "Any":
            raise Unreadable(f"invalid character class range: `{self._text[begin : self._at]}`")
        return Item(test=_category(bare), negated=(kind == "P") != (bare != name))

    def _escaped(self) -> str:
        """The one character that an escape stands for."""
        begin, kind = self._at, self._next(2)[1:]
        self._at += 2
        if not kind:
            raise Unreadable("trailing backslash at end of expression: ``")
        if kind in _ESCAPED:
            return _ESCAPED[kind]
        if kind.isascii() and not kind.isalnum():
            return kind
        rest = self._text[begin:]
        found = re.match(r"\\(?:x([0-9A-Fa-f]{2})|x\{([0-9A-Fa-f]{1,8})\}|(0[0-7]{0,2}|[1-7][0-7]{1,2}))", rest)
        if found:
            self._at = begin + found.end()
            code = int(found[3], 8) if found[3] else int(found[1] or found[2], 16)
            if code <= 0x10FFFF:
                return chr(code)
        raise Unreadable(f"invalid escape sequence: `{rest[:2]}`")

    def _class(self) -> Node:
        begin = self._at
        self._at += 1
        negated = self._next() == "^"
        self._at += negated
        items: list[Item] = []
        while not items or self._next() != "]":
            if not self._next():
                raise Unreadable(f"missing closing ]: `{self._text[begin:]}`")
            items.append(self._posix() or (self._named_set() if self._next() == "\\" else None) or self._range(begin))
        self._at += 1
        return self._characters(tuple(items), negated)

    def _posix(self) -> Item | None:
        end = self._text.find(":]", self._at + 2)
        if self._next(2) != "[:" or end < 0:
            return None
        said = self._text[self._at + 2 : end]
        name = said.removeprefix("^")
        if name not in _POSIX:
            raise Unreadable(f"invalid character class range: `[:{said}:]`")
        self._at = end + 2
        return Item(test=_POSIX[name], negated=name != said)

    def _range(self, begin: int) -> Item:
        start = self._at
        first = last = self._one(begin)
        if self._next() == "-" and self._next(2)[1:] not in ("", "]"):
            self._at += 1
            last = self._one(begin)
            if last < first:
                raise Unreadable(f"invalid character class range: `{self._text[start : self._at]}`")
        return Item(first, last)

    def _one(self, begin: int) -> str:
        character = self._next()
        if not character:
            raise Unreadable(f"missing closing ]: `{self._text[begin:]}`")
        if character == "\\":
            return self._escaped()
        self._at += 1
        return character


def _copies(node: Node) -> int:
    """How many times the innermost part of repeats in repeats stands there when all is written out."""
    below = max((_copies(one) for one in node.below), default=1)
    if node.kind != "repeat":
        return below
    times = node.least if node.most is None else node.most
    return max(times, 1) * below
