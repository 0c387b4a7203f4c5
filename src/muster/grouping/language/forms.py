"""The code that parts of expressions become, and the functions that run their arguments: `select`, `map`, `range` …"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from muster.grouping.language import functions
from muster.grouping.language.values import items, truthy

State = list[Any]
One = Callable[[Any, State], Any]
Many = Callable[[Any, State], Iterable[Any]]


class Code(NamedTuple):
    """What a part of an expression has become. `one` is there when it always gives one value."""

    many: Many
    one: One | None
    # What it costs to run once.
    steps: int


def single(one: One, steps: int) -> Code:
    """The code of a part that always gives one value."""

    def many(value: Any, state: State) -> Iterable[Any]:
        return (one(value, state),)

    return Code(many, one, steps)


def _select(arguments: list[Code], size: int, column: int) -> Code:
    (condition,) = arguments
    test = condition.one

    def by_one(value: Any, state: State) -> Iterable[Any]:
        assert test
        return (value,) if truthy(test(value, state)) else ()

    def many(value: Any, state: State) -> Iterator[Any]:
        for found in condition.many(value, state):
            if truthy(found):
                yield value

    return Code(by_one if test else many, None, size)


def _map(arguments: list[Code], size: int, column: int) -> Code:
    (body,) = arguments
    body_one = body.one

    def one(value: Any, state: State) -> list[Any]:
        found = items(value, state[0], column)
        state[0].step(body.steps * len(found), column)
        if body_one:
            made = [body_one(item, state) for item in found]
        else:
            made = [result for item in found for result in body.many(item, state)]
        state[0].make(len(made) + 1, column)
        return made

    return single(one, size)


def _first(arguments: list[Code], size: int, column: int) -> Code:
    (body,) = arguments
    if body.one:
        return single(body.one, size)

    def many(value: Any, state: State) -> Iterator[Any]:
        for found in body.many(value, state):
            yield found
            return

    return Code(many, None, size)


def _quantified(arguments: list[Code], size: int, column: int, decisive: bool) -> Code:
    """`any` (decided by a true value) and `all` (decided by a false one), over the items or over the first argument."""
    condition = arguments[-1]
    source = arguments[0].many if len(arguments) == 2 else None

    def one(value: Any, state: State) -> bool:
        for item in source(value, state) if source else items(value, state[0], column):
            state[0].step(condition.steps, column)
            for found in condition.many(item, state):
                if truthy(found) is decisive:
                    return decisive
        return not decisive

    return single(one, size)


def _any(arguments: list[Code], size: int, column: int) -> Code:
    return _quantified(arguments, size, column, True)


def _all(arguments: list[Code], size: int, column: int) -> Code:
    return _quantified(arguments, size, column, False)


def _range(arguments: list[Code], size: int, column: int) -> Code:
    """One argument is the end, two are start and end, the third is the step. The last changes most quickly."""

    def bounds(value: Any, state: State, so_far: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
        if len(so_far) == len(arguments):
            yield so_far
            return
        for bound in arguments[len(so_far)].many(value, state):
            state[0].step(1, column)
            yield from bounds(value, state, (*so_far, bound))

    def many(value: Any, state: State) -> Iterator[Any]:
        for found in bounds(value, state, ()):
            functions.range_bounds(found, column)
            start, end, by = (0, *found, 1) if len(found) == 1 else (*found, 1) if len(found) == 2 else found
            yield from functions.numbers_in_range(start, end, by, state[0], column)

    return Code(many, None, size)


# Functions whose arguments are run, not only asked for a value.
FORMS: dict[str, Callable[[list[Code], int, int], Code]] = {
    "select": _select,
    "map": _map,
    "first": _first,
    "any": _any,
    "all": _all,
    "range": _range,
}
