"""The tree of an expression: what the parser makes and the compiler reads."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Node:
    """A part of an expression: where it starts, how deep it is, and of how many parts it is made."""

    column: int
    depth: int
    size: int


@dataclass(frozen=True, slots=True)
class Here(Node):
    """`.`"""


@dataclass(frozen=True, slots=True)
class Variable(Node):
    """`$name`"""

    name: str


@dataclass(frozen=True, slots=True)
class Literal(Node):
    """A number, a string without insertions, true, false or null."""

    value: Any


@dataclass(frozen=True, slots=True)
class Template(Node):
    """A string with `\\( … )` in it; the parts are literals and what is inserted."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Index(Node):
    """`of.key`, `of["key"]`, `of[0]`; optional with `?`."""

    of: Node
    key: Node
    optional: bool


@dataclass(frozen=True, slots=True)
class Each(Node):
    """`of[]`; optional with `?`. With `missing`, null has no items: in a `foreach` a missing list is empty."""

    of: Node
    optional: bool
    missing: bool


@dataclass(frozen=True, slots=True)
class Attempt(Node):
    """`body?` where the body is more than a step of a path."""

    body: Node


@dataclass(frozen=True, slots=True)
class Pipe(Node):
    """`left | right`"""

    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Bind(Node):
    """`source as $name | body`"""

    source: Node
    name: str
    body: Node


@dataclass(frozen=True, slots=True)
class Comma(Node):
    """`a, b, …`"""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Array(Node):
    """`[ body ]`, or `[]` without one."""

    body: Node | None


@dataclass(frozen=True, slots=True)
class Alternative(Node):
    """`left // right`"""

    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Logic(Node):
    """`left and right`, `left or right`"""

    operator: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Binary(Node):
    """`left operator right` for `+ - * / %` and the comparisons."""

    operator: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Negate(Node):
    """`-of`"""

    of: Node


@dataclass(frozen=True, slots=True)
class Choice(Node):
    """`if condition then then else otherwise end`; without `else` it is the input."""

    condition: Node
    then: Node
    otherwise: Node | None


@dataclass(frozen=True, slots=True)
class Call(Node):
    """`name(arguments; …)`"""

    name: str
    arguments: tuple[Node, ...]
