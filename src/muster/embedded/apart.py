"""Many things are done one by one, and one of them that fails keeps no other waiting."""

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def fails(act: Callable[[T], object], what: T, defects: list[Exception]) -> bool:
    """Whether it could not be done; why, is added to `defects`."""
    try:
        act(what)
    except Exception as defect:
        defects.append(defect)
        return True
    return False
