"""What the rules may know beside the object itself."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated

import msgspec

from muster.api.interface import ResourceInterface
from muster.api.model import note
from muster.api.nearest import Nearest
from muster.api.priorities import MAX_PRIORITY_ANNOTATION, Priorities, bound_of, resolved
from muster.api.queue import Queue
from muster.api.topology import Topology
from muster.api.validation.violation import Report
from muster.errors import BadObject

DENY, WARN, ALLOW = "Deny", "Warn", "Allow"


class Settings(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The configuration of validation."""

    zero_minimum: Annotated[
        str, note("A minimum of 0: Deny is an error, Warn a warning, Allow nothing.", enum=[DENY, WARN, ALLOW])
    ] = DENY


@dataclass(frozen=True)
class Context:
    """The objects around the one that is judged. None: nothing is known of that kind, so nothing is said about it.

    What follows from all of them together is found once, however many objects are judged.
    """

    topologies: Mapping[str, Topology] | None = None
    queues: Mapping[str, Queue] | None = None
    # Their values by name.
    priority_classes: Mapping[str, int] | None = None
    priorities: Priorities = field(default_factory=Priorities)
    default_queue: str = "default-queue"
    settings: Settings = field(default_factory=Settings)
    # An object that is admitted alone also hears what concerns it together with others.
    admission: bool = False
    # Reads the expressions of a ResourceInterface: the language is not known here. None: they are not judged.
    check_interface: Callable[[ResourceInterface, Report], None] | None = None

    @cached_property
    def nearest_queue(self) -> Nearest:
        """Suggests queues."""
        return Nearest(self.queues or {})

    @cached_property
    def nearest_priority_class(self) -> Nearest:
        """Suggests PriorityClasses."""
        return Nearest(self.priority_classes or ())

    @cached_property
    def queue_tree(self) -> "QueueTree":
        """How the queues hang together."""
        return QueueTree(self.queues or {})


class QueueTree:
    """The queues by parent, and those whose parents lead back to them."""

    def __init__(self, queues: Mapping[str, Queue]) -> None:
        self.queues = queues
        self.children: dict[str, list[Queue]] = {}
        for queue in queues.values():
            self.children.setdefault(queue.spec.parent_queue, []).append(queue)
        self.cycle_of = self._cycles()

    def max_priority_of(self, name: str, classes: Mapping[str, int]) -> int | None:
        """The highest priority that a queue and those above it admit, as far as that can be read; None: any."""
        found: list[int] = []
        at, seen = name, set[str]()
        while at in self.queues and at not in seen:
            seen.add(at)
            stated = self.queues[at].metadata.annotations.get(MAX_PRIORITY_ANNOTATION)
            with suppress(BadObject):
                most = resolved(bound_of(stated), classes) if stated is not None else None
                found += [most] if most is not None else []
            at = self.queues[at].spec.parent_queue
        return min(found, default=None)

    def cycle_in_words(self, name: str) -> str:
        """The cycle that a queue is in, from it on; a long one in part."""
        cycle = self.cycle_of[name]
        start = cycle.index(name) if len(cycle) <= 6 else 0
        way = cycle[start:] + cycle[:start] if len(cycle) <= 6 else [*cycle[:5], f"… {len(cycle) - 5} more …"]
        return " → ".join([*way, way[0]])

    def _cycles(self) -> dict[str, list[str]]:
        """Per queue in a cycle, the cycle from it on; every queue is walked over once."""
        walk_of: dict[str, int] = {}
        found: dict[str, list[str]] = {}
        for walk, start in enumerate(self.queues):
            at = start
            while at in self.queues and at not in walk_of:
                walk_of[at] = walk
                at = self.queues[at].spec.parent_queue
            if walk_of.get(at) == walk and at not in found:
                cycle = [at]
                while (parent := self.queues[cycle[-1]].spec.parent_queue) != at:
                    cycle.append(parent)
                # Long ones are shown in part anyway; all of their members share the list.
                found.update(dict.fromkeys(cycle, cycle))
        return found
