"""A property that is found when it is first asked for, and kept: `functools.cached_property` without its lock.

Gangs are asked for a dozen of these in every cycle, and up to Python 3.11 the lock costs more than most answers.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class once(Generic[T]):  # noqa: N801
    """Decorates a method; its first result is the value of the attribute from then on."""

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make, self._name = make, make.__name__
        self.__doc__ = make.__doc__

    @overload
    def __get__(self, owner: None, kind: type) -> "once[T]": ...
    @overload
    def __get__(self, owner: object, kind: type) -> T: ...
    def __get__(self, owner: object | None, kind: type) -> "once[T] | T":
        if owner is None:
            return self
        # The attribute stands before this descriptor from now on.
        value = owner.__dict__[self._name] = self._make(owner)
        return value
