"""Topology: the levels of a cluster, widest first, and which level a name means."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, NamedTuple

from muster.api.model import Metadata, Model, note
from muster.model.reasons import Code

MAX_LEVELS = 16
HOSTNAME = "kubernetes.io/hostname"


class Level(Model, frozen=True, kw_only=True):
    """One level: nodes with the same value of this label, and of all wider ones, share a domain."""

    node_label: Annotated[
        str,
        note(
            "The node label that carries the domain's name.",
            minLength=1,
            maxLength=316,
            pattern=r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$",
            **{"x-muster-says": "a label key such as topology.example.com/rack"},
        ),
    ]
    alias: Annotated[str, note("A shorter name that constraints may use.", maxLength=63)] = ""


class TopologySpec(Model, frozen=True, kw_only=True):
    """The levels."""

    levels: Annotated[
        list[Level], note("Widest first; once created, the labels stay as they are.", minItems=1, maxItems=MAX_LEVELS)
    ]


class Topology(Model, frozen=True, kw_only=True):
    """How the cluster's nodes nest: zones of blocks of racks of nodes, by node labels."""

    API_VERSION: ClassVar[str] = "kai.scheduler/v1alpha1"

    metadata: Metadata = Metadata()
    spec: TopologySpec


def levels_named(topology: Topology, name: str) -> list[int]:
    """The levels that answer to `name`: by node label, else by alias, else by the label's part after the last `/`.

    One index is an answer, none is an unknown level, several are an ambiguous name.
    """
    for names in level_names(topology):
        found = [index for index, known in enumerate(names) if known == name]
        if found:
            return found
    return []


def level_names(topology: Topology) -> list[list[str]]:
    """What each level may be called, per way of naming, in the order of precedence; the widest level first."""
    levels = topology.spec.levels
    return [
        [level.node_label for level in levels],
        [level.alias for level in levels],
        [level.node_label.rpartition("/")[2] for level in levels],
    ]


class Missing(NamedTuple):
    """A Topology or level that a constraint names and nobody has."""

    code: str
    detail: str


def topology_meant(name: str, known: Mapping[str, Topology]) -> Topology | Missing:
    """The Topology with this name; no name means the only one there is."""
    if name in known:
        return known[name]
    if name:
        return Missing(Code.TOPOLOGY_NOT_FOUND, f"the Topology {name} does not exist")
    if len(known) == 1:
        return next(iter(known.values()))
    return Missing(Code.TOPOLOGY_NOT_FOUND, f"no Topology is named, and there are {len(known)}")


def level_meant(topology: Topology, name: str) -> int | Missing:
    """The level that a name means in a Topology."""
    found = levels_named(topology, name)
    if len(found) == 1:
        return found[0]
    if found:
        labels = " and ".join(topology.spec.levels[index].node_label for index in found)
        return Missing(Code.LEVEL_NOT_FOUND, f"{name} could be {labels} of Topology {topology.metadata.name}")
    labels = ", ".join(level.node_label for level in topology.spec.levels)
    detail = f"the Topology {topology.metadata.name} has no level {name}; its levels: {labels}"
    return Missing(Code.LEVEL_NOT_FOUND, detail)
