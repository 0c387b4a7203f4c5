"""What all structs share: the base class, metadata, conditions, and the notes that a field carries for schemas.

A field's type says how it is decoded. What the value may be (a range, a set of words, a pattern) is a note beside the
type, so that an object that breaks it can still be decoded, shown and told about every problem at once.
"""

from datetime import datetime
from typing import Annotated, Any

import msgspec

__all__ = [
    "Amount",
    "Condition",
    "Count",
    "Duration",
    "Metadata",
    "Model",
    "OwnerReference",
    "Time",
    "note",
]

_MAX_FLOAT = 1.7976931348623157e308

# What may stand where Kubernetes has a resource.Quantity. `quantity.parse` gives it a meaning.
# Numbers are those that JSON readers agree on: whole ones of 64 bits, and finite ones.
Amount = Annotated[
    str
    | Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
    | Annotated[float, msgspec.Meta(ge=-_MAX_FLOAT, le=_MAX_FLOAT)],
    msgspec.Meta(extra_json_schema={"x-muster-type": "quantity"}),
]

# Kubernetes writes RFC 3339.
Time = datetime

INT32_MAX = 2**31 - 1


def note(description: str, **schema: Any) -> msgspec.Meta:
    """A description of a field and the JSON schema keywords that its values obey."""
    return msgspec.Meta(description=description, extra_json_schema=schema or None)


Count = Annotated[int, msgspec.Meta(extra_json_schema={"format": "int32", "minimum": 0})]
Duration = Annotated[
    str,
    msgspec.Meta(
        extra_json_schema={
            "x-muster-type": "duration",
            "maxLength": 64,
            "pattern": r"^[-+]?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$",
        }
    ),
]


class Model(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """An immutable piece of an API object; fields are camelCase outside, snake_case inside.

    They never form cycles, so the garbage collector need not look at the hundred thousands of them that a mirror holds.
    """


class OwnerReference(Model, frozen=True, kw_only=True):
    """The object that an object belongs to."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class Metadata(Model, frozen=True, kw_only=True):
    """The slice of ObjectMeta that a scheduler reads."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: list[OwnerReference] = []
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None


class Condition(Model, frozen=True, kw_only=True):
    """A standard Kubernetes condition."""

    type: Annotated[str, note("What the condition is about.", maxLength=316)]
    status: Annotated[str, note("Whether it holds.", enum=["True", "False", "Unknown"])]
    reason: Annotated[str, note("One word that a program can read.", maxLength=1024)] = ""
    message: Annotated[str, note("One sentence that a person can read.", maxLength=32768)] = ""
    last_transition_time: Annotated[Time | None, note("When the status changed last.")] = None
    observed_generation: Annotated[int | None, note("The generation of the spec that was judged.", format="int64")] = (
        None
    )
