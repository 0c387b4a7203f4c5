"""The engine, asked with the same documents as the oracles."""

from typing import Any, NamedTuple

from muster.api.kinds import kind_of, read_object
from muster.plan.cycle import Memory, Policy, schedule
from muster.plan.outcome import Outcome, Plan
from muster.snapshot.build import build
from muster.snapshot.world import World


class Asked(NamedTuple):
    """A plan, and what it says of the gang g."""

    plan: Plan
    outcome: Outcome
    bound: dict[str, str]
    nominated: dict[str, str]


def world_of(documents: list[dict[str, Any]]) -> World:
    """A mirror that holds the documents."""
    world = World()
    for document in documents:
        kind = kind_of(document)
        found, problems = read_object(document, kind)
        assert not problems
        world.apply(found)
    return world


def sent(plan: Plan, *, nominated: bool = False, key: tuple[str, str] = ("default", "g")) -> dict[str, str]:
    """Pods of a gang and the nodes that they are sent to."""
    snapshot = plan.snapshot
    return {
        snapshot.gangs[placement.gang].waiting[placement.batch].pods[pod]: snapshot.nodes[node]
        for placement in plan.placements
        if placement.nominated == nominated and snapshot.gangs[placement.gang].key == key
        for pod, node in zip(placement.pods, placement.nodes, strict=True)
    }


def ask(documents: list[dict[str, Any]], policy: Policy | None = None, memory: Memory | None = None) -> Asked:
    """One cycle."""
    plan, _ = schedule(build(world_of(documents), 0), policy, memory)
    _, outcome = plan.of(("default", "g"))
    return Asked(plan, outcome, sent(plan), sent(plan, nominated=True))
