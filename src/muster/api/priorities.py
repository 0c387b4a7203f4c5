"""Which priorities count (SPEC §14): system classes only in system namespaces, others up to what the queue admits."""

import re
from collections.abc import Mapping
from typing import Annotated

import msgspec

from muster.api.model import note
from muster.errors import BadObject

# On a Queue: the highest priority of its gangs and of those in queues below it, as a number or a PriorityClass.
MAX_PRIORITY_ANNOTATION = "muster.dev/max-priority"
# Users can't make a PriorityClass above this value: Kubernetes keeps the range for its own classes.
HIGHEST_OF_USERS = 1_000_000_000

_NUMBER = re.compile(r"-?[0-9]{1,10}")
# A class whose name begins with a digit is given by its number: 1.5 and 1e3 are slips of the pen, and no names.
_NAME = re.compile(r"[a-z]([-a-z0-9.]{0,251}[a-z0-9])?")
_INT32 = range(-(2**31), 2**31)


class Priorities(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Whose priorities count."""

    system_namespaces: Annotated[
        list[Annotated[str, note("A namespace.", minLength=1, maxLength=63)]],
        note(
            "Namespaces whose gangs may have a system priority class, if each of their pods carries it; empty: none.",
            maxItems=256,
        ),
    ] = msgspec.field(default_factory=lambda: ["kube-system"])


def bound_of(text: str) -> int | str:
    """What the annotation says: a number, or the name of a PriorityClass. Raises BadObject when it is neither."""
    if _NUMBER.fullmatch(text):
        number = int(text)
        if number in _INT32:
            return number
    elif _NAME.fullmatch(text):
        return text
    path = f"metadata.annotations[{MAX_PRIORITY_ANNOTATION}]"
    raise BadObject(path, f"must be an integer of 32 bits or the name of a PriorityClass, not {text[:60]!r}")


def resolved(bound: int | str, classes: Mapping[str, int]) -> int | None:
    """A bound as a number; None: there is no such PriorityClass."""
    return bound if isinstance(bound, int) else classes.get(bound)
