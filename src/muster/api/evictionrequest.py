"""EvictionRequest: some pods are to leave so that one gang fits, and their owners must not take the room back.

It lives in muster's namespace, where tenants have no rights. The scheduler checks it, reserves the room and answers in
its status; the caller then evicts with rights of its own.
"""

from typing import Annotated, ClassVar

from muster.api.model import Condition, Metadata, Model, Time, note

MAX_VICTIMS = 64
# How long the room is reserved.
RESERVED_S = 300

PENDING, GRANTED, REFUSED, EXPIRED, DONE = "Pending", "Granted", "Refused", "Expired", "Done"
FINAL = frozenset({REFUSED, EXPIRED, DONE})


class Beneficiary(Model, frozen=True, kw_only=True):
    """The gang that is to get the room."""

    namespace: Annotated[str, note("The namespace of the PodGroup.", minLength=1, maxLength=63)]
    name: Annotated[str, note("The name of the PodGroup.", minLength=1, maxLength=253)]
    uid: Annotated[
        str, note("The uid of the PodGroup: one of the same name is another gang.", minLength=1, maxLength=128)
    ]


class Leaver(Model, frozen=True, kw_only=True):
    """A pod that is to leave."""

    namespace: Annotated[str, note("The namespace of the pod.", minLength=1, maxLength=63)]
    name: Annotated[str, note("The name of the pod.", minLength=1, maxLength=253)]
    uid: Annotated[str, note("The uid of the pod: its replacement is another pod.", minLength=1, maxLength=128)]


class EvictionRequestSpec(Model, frozen=True, kw_only=True):
    """For which gang, and which pods."""

    beneficiary: Annotated[Beneficiary, note("The gang that is to get the room. It waits.")]
    victims: Annotated[
        list[Leaver],
        note("The pods that are to leave. Surplus of gangs that may be evicted.", minItems=1, maxItems=MAX_VICTIMS),
    ]


class EvictionRequestStatus(Model, frozen=True, kw_only=True):
    """The scheduler's answer."""

    phase: Annotated[
        str, note("Pending, Granted (the room is reserved: evict now), Refused, Expired or Done.", maxLength=64)
    ] = ""
    conditions: Annotated[
        list[Condition],
        note(
            "Granted.",
            maxItems=64,
            **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
        ),
    ] = []
    reason: Annotated[str, note("Why, in one word.", maxLength=1024)] = ""
    message: Annotated[str, note("Why, in one sentence.", maxLength=32768)] = ""
    expires: Annotated[Time | None, note("Until when the room is reserved.")] = None


class EvictionRequest(Model, frozen=True, kw_only=True):
    """Pods that are to leave for a gang, with the room reserved for it until it is there."""

    API_VERSION: ClassVar[str] = "muster.dev/v1alpha1"

    metadata: Metadata = Metadata()
    spec: EvictionRequestSpec
    status: EvictionRequestStatus = EvictionRequestStatus()
