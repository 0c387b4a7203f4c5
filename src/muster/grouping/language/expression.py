"""The language of expressions, a total and strict subset of jq: whatever it accepts means what jq means.

`compile` once, then ask for `values` of many objects. Nothing can be read but the object and the variables that are
handed in, and nothing can run longer or grow larger than the meter allows.
"""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from muster.grouping.language import syntax
from muster.grouping.language.evaluate import compiled
from muster.grouping.language.forms import State
from muster.grouping.language.limits import DEFAULT, Limits, Meter
from muster.grouping.language.parse import parse, parse_binder
from muster.grouping.language.syntax import Node
from muster.grouping.language.values import measure


class Expression:
    """An expression that was read. `variables` are the names, without `$`, that it needs."""

    __slots__ = ("_builds", "_code", "_names", "_places", "text", "variables")

    def __init__(self, text: str, tree: Node) -> None:
        code, names, places = compiled(tree)
        self.text = text
        self.variables = frozenset(names)
        self._code, self._names = code, names
        self._places, self._builds = places, _builds(tree)

    def values(self, root: Any, variables: Mapping[str, Any], meter: Meter) -> list[Any]:
        """All values for this object. Raises BadValue, Refused or LimitReached.

        `variables` holds at least the names that the expression needs. The values may be parts of the object itself:
        they are to be read, not changed.
        """
        code = self._code
        state: State = [None] * self._places
        state[0] = meter
        for name, place in self._names.items():
            state[place] = variables[name]
        meter.step(code.steps, 1)
        found = [code.one(root, state)] if code.one else list(code.many(root, state))
        meter.make(len(found), 1)
        if self._builds:
            measure(found, meter, 1)
        return found

    def __repr__(self) -> str:
        return f"Expression({self.text!r})"


class Binder(NamedTuple):
    """`<expression> as $name`: each value of the expression is called `name`."""

    expression: Expression
    name: str


def compile(text: str, *, variables: Collection[str] | None = None, limits: Limits = DEFAULT) -> Expression:  # noqa: A001
    """Reads an expression. `variables` are the names in scope, without `$`; None allows every name.

    Raises BadExpression, or LimitReached when it is too long or too deep.
    """
    return Expression(text, parse(text, variables, limits))


def compile_binder(text: str, *, variables: Collection[str] | None = None, limits: Limits = DEFAULT) -> Binder:
    """Reads `<expression> as $name`; the last ` as $name` is the binder, all before it the expression."""
    tree, name = parse_binder(text, variables, limits)
    return Binder(Expression(text, tree), name)


def _builds(tree: Node) -> bool:
    """Whether a result can hold one value several times, so that it is larger than what was made for it."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        match node:
            case syntax.Array() | syntax.Binary(operator="+") | syntax.Call(name="map" | "add" | "to_entries"):
                return True
        for name in node.__dataclass_fields__:
            part = getattr(node, name)
            parts = part if isinstance(part, tuple) else (part,)
            waiting.extend(child for child in parts if isinstance(child, Node))
    return False
