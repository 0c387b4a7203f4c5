"""A tree becomes Python functions, once; they run for every object.

A part of an expression that always gives one value (or fails) becomes a function that returns it; every other part
becomes one that returns an iterable, and is asked for no more values than are needed, as jq does. The state of a run is
a list: the meter, then the variables. Each binding has a place of its own, which is enough because no part of an
expression ever runs inside itself.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from muster.errors import BadValue
from muster.grouping.language import numbers, syntax
from muster.grouping.language.forms import FORMS, Code, State, single
from muster.grouping.language.functions import NULLARY, UNARY
from muster.grouping.language.numbers import NUMBERS
from muster.grouping.language.operators import OPERATORS
from muster.grouping.language.syntax import Node
from muster.grouping.language.values import described, index, items, text_of, truthy


class Compiled(NamedTuple):
    """A whole expression: its code, the variables that it reads, in their places, and how many places it has."""

    code: Code
    variables: dict[str, int]
    places: int


def compiled(tree: Node) -> Compiled:
    """The functions of a tree."""
    compiler = _Compiler()
    code = compiler.code(tree)
    return Compiled(code, compiler.free, compiler.places)


class _Compiler:
    """Walks down the tree, with the places of the variables that are in scope."""

    def __init__(self) -> None:
        # Place 0 is the meter. Free variables are found on the way, so all places are handed out in one row.
        self.free: dict[str, int] = {}
        self.bound: list[tuple[str, int]] = []
        self.places = 1

    def code(self, node: Node) -> Code:
        """The code of one part."""
        make: Callable[[Any], Code] = getattr(self, f"_{type(node).__name__.lower()}")
        return make(node)

    def _place(self) -> int:
        self.places += 1
        return self.places - 1

    def _here(self, node: syntax.Here) -> Code:
        return single(lambda value, state: value, node.size)

    def _literal(self, node: syntax.Literal) -> Code:
        constant = node.value
        return single(lambda value, state: constant, node.size)

    def _variable(self, node: syntax.Variable) -> Code:
        place = next((place for name, place in reversed(self.bound) if name == node.name), 0)
        if not place:
            place = self.free.get(node.name) or self.free.setdefault(node.name, self._place())
        return single(lambda value, state: state[place], node.size)

    def _template(self, node: syntax.Template) -> Code:
        column = node.column
        parts = [self.code(part) for part in node.parts]
        ones = [part.one for part in parts if part.one]

        def one(value: Any, state: State) -> str:
            texts = [text_of(part(value, state), state[0], column) for part in ones]
            state[0].make(sum(map(len, texts)), column)
            return "".join(texts)

        def many(value: Any, state: State) -> Iterator[str]:
            # The last part changes most slowly, as in jq.
            def from_last(place: int) -> Iterator[str]:
                if place < 0:
                    yield ""
                    return
                for inserted in parts[place].many(value, state):
                    state[0].step(place + 1, column)
                    text = text_of(inserted, state[0], column)
                    for before in from_last(place - 1):
                        state[0].make(len(before) + len(text), column)
                        yield before + text

            return from_last(len(parts) - 1)

        return single(one, node.size) if len(ones) == len(parts) else Code(many, None, node.size)

    def _index(self, node: syntax.Index) -> Code:
        """A path: steps with fixed names are taken in one go."""
        if node.optional or not isinstance(node.key, syntax.Literal):
            return self._one_index(node)
        steps: list[tuple[Any, int]] = []
        base: Node = node
        while isinstance(base, syntax.Index) and not base.optional and isinstance(base.key, syntax.Literal):
            steps.append((base.key.value, base.column))
            base = base.of
        path = tuple(reversed(steps))
        of = self.code(base)

        def walk(value: Any) -> Any:
            for key, column in path:
                if type(value) is dict and type(key) is str:
                    value = value.get(key)
                elif value is None:
                    return None
                else:
                    value = index(value, key, column)
            return value

        if isinstance(base, syntax.Here):
            return single(lambda value, state: walk(value), node.size)
        if of.one:
            start = of.one
            return single(lambda value, state: walk(start(value, state)), node.size)
        return Code(lambda value, state: map(walk, of.many(value, state)), None, node.size)

    def _one_index(self, node: syntax.Index) -> Code:
        """One step, with a key that is computed or a `?`. The key changes most slowly, as in jq."""
        of, key, column, optional = self.code(node.of), self.code(node.key), node.column, node.optional
        of_one, key_one = of.one, key.one
        if of_one and key_one and not optional:

            def one(value: Any, state: State) -> Any:
                return index(of_one(value, state), key_one(value, state), column)

            return single(one, node.size)

        def many(value: Any, state: State) -> Iterator[Any]:
            for by in key.many(value, state):
                for found in of.many(value, state):
                    state[0].step(1, column)
                    try:
                        item = index(found, by, column)
                    except BadValue:
                        if not optional:
                            raise
                        continue
                    yield item

        return Code(many, None, node.size)

    def _each(self, node: syntax.Each) -> Code:
        of, column, optional, missing = self.code(node.of), node.column, node.optional, node.missing
        start = of.one

        def of_one(value: Any, state: State) -> Iterable[Any]:
            assert start
            found: Iterable[Any] = items(start(value, state), state[0], column)
            return found

        def many(value: Any, state: State) -> Iterator[Any]:
            for found in of.many(value, state):
                state[0].step(1, column)
                if (missing and found is None) or (optional and type(found) is not list and type(found) is not dict):
                    continue
                yield from items(found, state[0], column)

        return Code(of_one if start and not optional and not missing else many, None, node.size)

    def _attempt(self, node: syntax.Attempt) -> Code:
        body = self.code(node.body)

        def many(value: Any, state: State) -> Iterator[Any]:
            try:
                yield from body.many(value, state)
            except BadValue:
                return

        return Code(many, None, node.size)

    def _pipe(self, node: syntax.Pipe) -> Code:
        left, right, column = self.code(node.left), self.code(node.right), node.right.column
        first, second, steps = left.one, right.one, right.steps
        if first and second:
            return single(lambda value, state: second(first(value, state), state), node.size)
        if first:
            return Code(lambda value, state: right.many(first(value, state), state), None, node.size)

        def many(value: Any, state: State) -> Iterator[Any]:
            for found in left.many(value, state):
                state[0].step(steps, column)
                if second:
                    yield second(found, state)
                else:
                    yield from right.many(found, state)

        return Code(many, None, node.size)

    def _bind(self, node: syntax.Bind) -> Code:
        source, place, column = self.code(node.source), self._place(), node.body.column
        self.bound.append((node.name, place))
        body = self.code(node.body)
        self.bound.pop()
        source_one, body_one, steps = source.one, body.one, body.steps
        if source_one and body_one:

            def one(value: Any, state: State) -> Any:
                state[place] = source_one(value, state)
                return body_one(value, state)

            return single(one, node.size)

        def many(value: Any, state: State) -> Iterator[Any]:
            for found in source.many(value, state):
                state[0].step(steps, column)
                state[place] = found
                yield from body.many(value, state)

        return Code(many, None, node.size)

    def _comma(self, node: syntax.Comma) -> Code:
        parts = [self.code(part) for part in node.parts]

        def many(value: Any, state: State) -> Iterator[Any]:
            for part in parts:
                if part.one:
                    yield part.one(value, state)
                else:
                    yield from part.many(value, state)

        return Code(many, None, node.size)

    def _array(self, node: syntax.Array) -> Code:
        column = node.column
        if node.body is None:
            return single(lambda value, state: [], node.size)
        body = self.code(node.body)

        def one(value: Any, state: State) -> list[Any]:
            found = list(body.many(value, state))
            state[0].make(len(found) + 1, column)
            return found

        return single(one, node.size)

    def _alternative(self, node: syntax.Alternative) -> Code:
        left, right = self.code(node.left), self.code(node.right)
        first, second = left.one, right.one
        if first and second:

            def one(value: Any, state: State) -> Any:
                found = first(value, state)
                return second(value, state) if found is None or found is False else found

            return single(one, node.size)

        def many(value: Any, state: State) -> Iterator[Any]:
            none = True
            for found in left.many(value, state):
                if truthy(found):
                    none = False
                    yield found
            if none:
                yield from right.many(value, state)

        return Code(many, None, node.size)

    def _logic(self, node: syntax.Logic) -> Code:
        left, right, column = self.code(node.left), self.code(node.right), node.column
        first, second = left.one, right.one
        decided = node.operator == "or"
        if first and second:

            def one(value: Any, state: State) -> bool:
                return decided if truthy(first(value, state)) is decided else truthy(second(value, state))

            return single(one, node.size)

        def many(value: Any, state: State) -> Iterator[bool]:
            for found in left.many(value, state):
                state[0].step(right.steps, column)
                if truthy(found) is decided:
                    yield decided
                else:
                    yield from map(truthy, right.many(value, state))

        return Code(many, None, node.size)

    def _binary(self, node: syntax.Binary) -> Code:
        """Of several values on both sides, the left ones change most quickly, as in jq."""
        left, right, column = self.code(node.left), self.code(node.right), node.column
        operate, first, second = OPERATORS[node.operator], left.one, right.one
        if first and second:

            def one(value: Any, state: State) -> Any:
                # jq evaluates the right side first.
                other = second(value, state)
                return operate(first(value, state), other, state[0], column)

            return single(one, node.size)

        def many(value: Any, state: State) -> Iterator[Any]:
            for other in right.many(value, state):
                state[0].step(left.steps, column)
                for one in left.many(value, state):
                    state[0].step(1, column)
                    yield operate(one, other, state[0], column)

        return Code(many, None, node.size)

    def _negate(self, node: syntax.Negate) -> Code:
        of, column = self.code(node.of), node.column

        def negated(value: Any) -> Any:
            if type(value) in NUMBERS:
                return numbers.negate(value, column)
            raise BadValue(f"{described(value)} can't be negated", column, "only numbers can")

        of_one = of.one
        if of_one:
            return single(lambda value, state: negated(of_one(value, state)), node.size)
        return Code(lambda value, state: map(negated, of.many(value, state)), None, node.size)

    def _choice(self, node: syntax.Choice) -> Code:
        condition, then = self.code(node.condition), self.code(node.then)
        here = single(lambda value, state: value, 1)
        otherwise = self.code(node.otherwise) if node.otherwise else here
        steps, column = max(then.steps, otherwise.steps), node.column
        test, yes, no = condition.one, then.one, otherwise.one
        if test and yes and no:

            def one(value: Any, state: State) -> Any:
                return yes(value, state) if truthy(test(value, state)) else no(value, state)

            return single(one, node.size)

        def many(value: Any, state: State) -> Iterator[Any]:
            for found in condition.many(value, state):
                state[0].step(steps, column)
                yield from (then if truthy(found) else otherwise).many(value, state)

        return Code(many, None, node.size)

    def _call(self, node: syntax.Call) -> Code:
        column = node.column
        arguments = [self.code(argument) for argument in node.arguments]
        if node.name in FORMS and arguments:
            return FORMS[node.name](arguments, node.size, column)
        if not arguments:
            function = NULLARY[node.name]
            return single(lambda value, state: function(value, state[0], column), node.size)
        given, operate = arguments[0], UNARY[node.name]
        argument = given.one
        if argument:
            return single(
                lambda value, state: operate(value, argument(value, state), state[0], column),
                node.size,
            )

        def many(value: Any, state: State) -> Iterator[Any]:
            for found in given.many(value, state):
                state[0].step(1, column)
                yield operate(value, found, state[0], column)

        return Code(many, None, node.size)
