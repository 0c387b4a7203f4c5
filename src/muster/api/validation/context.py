"""What the rules may know beside the object itself."""

from collections.abc import Mapping, Set
from typing import Annotated, NamedTuple

import msgspec

from muster.api.model import note
from muster.api.queue import Queue
from muster.api.topology import Topology

DENY, WARN, ALLOW = "Deny", "Warn", "Allow"


class Settings(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The configuration of validation."""

    zero_minimum: Annotated[
        str, note("A minimum of 0: Deny is an error, Warn a warning, Allow nothing.", enum=[DENY, WARN, ALLOW])
    ] = DENY


class Context(NamedTuple):
    """The objects around the one that is judged. None: nothing is known of that kind, so nothing is said about it."""

    topologies: Mapping[str, Topology] | None = None
    queues: Mapping[str, Queue] | None = None
    priority_classes: Set[str] | None = None
    default_queue: str = "default-queue"
    settings: Settings = Settings()
    # An object that is admitted alone also hears what concerns it together with others.
    admission: bool = False
