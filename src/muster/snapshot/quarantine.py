"""Objects on which muster itself stumbles: each is left out alone until it is tried again.

What leaving out means keeps everybody else safe: running pods keep their room and stay charged, a node takes nothing
new, a queue admits nothing, and a disruption budget protects all pods of its namespace.
"""

from typing import NamedTuple

from muster.errors import DEFECT

GANG, POD, NODE, TOPOLOGY = "PodGroup", "Pod", "Node", "Topology"
QUEUE, BUDGET, REQUEST = "Queue", "PodDisruptionBudget", "EvictionRequest"
_LONGEST = 120


class Thing(NamedTuple):
    """An object by its kind and name; a pod group is a whole gang. Objects of the cluster have no namespace."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} " + "/".join(part for part in (self.namespace, self.name) if part)


class Quarantined(NamedTuple):
    """Why an object is left out. Of one that is `unknown` nothing but its name is used; `searched`: it took several
    trials to find it, so that it is not tried again just because it was seen again.
    """

    why: str
    unknown: bool = True
    searched: bool = False


def said_of(defect: BaseException) -> str:
    """A defect in a few words."""
    return f"{type(defect).__name__}: {str(defect)[:_LONGEST]}"


def told_of(entry: Quarantined) -> str:
    """The same, for a place where it is not clear what it is."""
    return f"this is a {DEFECT}: {entry.why}"
