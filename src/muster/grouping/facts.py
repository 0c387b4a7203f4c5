"""What an expression reads and how often it answers, found in its text: it is not asked about any object."""

from collections.abc import Iterator
from typing import NamedTuple

from muster.grouping.language import syntax
from muster.grouping.language.forms import FORMS
from muster.grouping.language.syntax import Node

# Ranges with bounds of more parts than this are not looked at before they are asked.
_SMALL = 32


class Mention(NamedTuple):
    """A variable or a field, and its column."""

    name: str
    column: int


class Facts(NamedTuple):
    """What is known of an expression before it is asked.

    `variables` are those that it does not bind itself, `fields` the first steps from its root. A `constant` one reads
    neither. `several`: it may give more than one value. `counts`: there is a `range` in it; `ranges` are those whose
    bounds are constant and short.
    """

    variables: tuple[Mention, ...]
    fields: tuple[Mention, ...]
    constant: bool
    several: bool
    counts: bool
    ranges: tuple[Node, ...]


def facts_of(tree: Node) -> Facts:
    """Everything at once, in time that grows with the size of the tree."""
    variables: dict[str, int] = {}
    fields: dict[str, int] = {}
    ranges: list[Node] = []
    reads = counts = False
    for node, at_root, bound in _walk(tree):
        match node:
            case syntax.Variable(name=name) if name not in bound:
                variables[name] = min(node.column, variables.get(name, node.column))
            case syntax.Index(of=syntax.Here(), key=syntax.Literal(value=str(name))) if at_root:
                fields[name] = min(node.column, fields.get(name, node.column))
            case syntax.Call(name="range") if node.size <= _SMALL:
                ranges.append(node)
        counts = counts or (isinstance(node, syntax.Call) and node.name == "range")
        reads = reads or (at_root and _takes_input(node))
    return Facts(
        tuple(Mention(*one) for one in sorted(variables.items(), key=lambda one: one[1])),
        tuple(Mention(*one) for one in sorted(fields.items(), key=lambda one: one[1])),
        not reads and not variables,
        _may_repeat(tree),
        counts,
        tuple(node for node in ranges if _is_constant(node)),
    )


def _walk(tree: Node) -> Iterator[tuple[Node, bool, frozenset[str]]]:
    """Every node, those above before those below: whether `.` is the root there, and which variables are bound."""
    waiting: list[tuple[Node, bool, frozenset[str]]] = [(tree, True, frozenset())]
    while waiting:
        node, at_root, bound = waiting.pop()
        yield node, at_root, bound
        match node:
            case syntax.Pipe(left=left, right=right):
                waiting += [(left, at_root, bound), (right, False, bound)]
            case syntax.Bind(source=source, name=name, body=body):
                waiting += [(source, at_root, bound), (body, at_root, bound | {name})]
            case syntax.Call(name="map" | "any" | "all", arguments=arguments) if arguments:
                # The last argument is asked about items; the one before it gives the items.
                waiting += [(part, at_root, bound) for part in arguments[:-1]]
                waiting.append((arguments[-1], False, bound))
            case _:
                waiting += [(part, at_root, bound) for part in _parts(node)]


def _parts(node: Node) -> Iterator[Node]:
    for name in node.__dataclass_fields__:
        part = getattr(node, name)
        if isinstance(part, Node):
            yield part
        elif isinstance(part, tuple):
            yield from part


def _takes_input(node: Node) -> bool:
    """Whether this part itself, not what it is made of, looks at its input."""
    match node:
        case syntax.Here():
            return True
        case syntax.Choice(otherwise=None):
            return True
        case syntax.Call(name="range") | syntax.Call(name="first", arguments=(_,)):
            return False
        case syntax.Call(name="any" | "all", arguments=(_, _)):
            return False
        case syntax.Call():
            return True
    return False


def _is_constant(tree: Node) -> bool:
    for node, at_root, bound in _walk(tree):
        if isinstance(node, syntax.Variable) and node.name not in bound:
            return False
        if at_root and _takes_input(node):
            return False
    return True


def _may_repeat(tree: Node) -> bool:
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        match node:
            case syntax.Each() | syntax.Comma() | syntax.Call(name="range"):
                return True
            case syntax.Array():
                continue
            case syntax.Call(name=name) if name in FORMS and name != "select":
                # `first`, `any`, `all` and `map` give one value, whatever they are asked about.
                continue
        waiting.extend(_parts(node))
    return False
