"""The engine, asked with the same documents as the oracles, and its plan in plain words, to compare."""

import copy
from typing import Any, NamedTuple

from muster.api.kinds import kind_of, read_object
from muster.api.tree import NONE
from muster.plan.cycle import Memory, Policy, schedule
from muster.plan.model import Dimension
from muster.plan.outcome import Outcome, Plan, Reason
from muster.snapshot.arrays import Gang, Snapshot
from muster.snapshot.build import build
from muster.snapshot.world import World

Document = dict[str, Any]
GANG = ("default", "g")


class Asked(NamedTuple):
    """A plan, and what it says of the gang g."""

    plan: Plan
    outcome: Outcome
    bound: dict[str, str]
    nominated: dict[str, str]


def apply(world: World, document: Document, *, deleted: bool = False) -> None:
    """One document reaches the mirror."""
    found, problems = read_object(document, kind_of(document))
    assert not problems
    world.apply(found, deleted=deleted)


def world_of(documents: list[Document]) -> World:
    """A mirror that holds the documents."""
    world = World()
    for document in documents:
        apply(world, document)
    return world


def sent(plan: Plan, *, nominated: bool = False, key: tuple[str, str] | None = GANG) -> dict[str, str]:
    """Pods of a gang, or of all, and the nodes that they are sent to."""
    snapshot = plan.snapshot
    return {
        snapshot.gangs[placement.gang].waiting[placement.batch].pods[pod]: snapshot.nodes[node]
        for placement in plan.placements
        if placement.nominated == nominated and key in (None, snapshot.gangs[placement.gang].key)
        for pod, node in zip(placement.pods, placement.nodes, strict=True)
    }


def ask(documents: list[Document], policy: Policy | None = None, memory: Memory | None = None) -> Asked:
    """One cycle."""
    plan, _ = schedule(build(world_of(documents), 0), policy, memory)
    _, outcome = plan.of(GANG)
    return Asked(plan, outcome, sent(plan), sent(plan, nominated=True))


def after(documents: list[Document], plan: Plan) -> list[Document]:
    """The documents when the binds have happened and the nominations are written down. Names are unique."""
    bound, nominated = sent(plan, key=None), sent(plan, nominated=True, key=None)
    found = copy.deepcopy(documents)
    for document in found:
        name = document["metadata"]["name"]
        if document["kind"] == "Pod" and name in bound:
            document["spec"]["nodeName"] = bound[name]
            document["status"] = {"phase": "Running"}
        elif document["kind"] == "Pod" and name in nominated:
            document["status"] = {"nominatedNodeName": nominated[name]}
    return found


def said(plan: Plan) -> dict[str, Any]:
    """The plan without row and shape numbers: equal plans are equal, however the snapshots were made."""
    snapshot = plan.snapshot
    outcomes = {
        "/".join(gang.key): {
            "verdict": outcome.verdict.value,
            "satisfied": outcome.satisfied,
            "rows": {
                node.name: (*row[:4], _path(snapshot, row.domain), row.preferred_met, row.stale_since_ns)
                for node, row in zip(gang.tree.nodes, outcome.rows, strict=True)
            },
            "reasons": [_reason(snapshot, gang, reason) for reason in outcome.reasons],
        }
        for gang, outcome in zip(snapshot.gangs, plan.outcomes, strict=True)
    }
    pods = {
        nominated: sorted(
            (*gang.key, pod, node)
            for gang in snapshot.gangs
            for pod, node in sent(plan, nominated=nominated, key=gang.key).items()
        )
        for nominated in (False, True)
    }
    return {
        "outcomes": outcomes,
        "bound": pods[False],
        "nominated": pods[True],
        "evicted": sorted(_evicted(plan)),
        "queues": {name: tuple(one) for name, one in zip(snapshot.queues.names, plan.queues, strict=False)},
        "kept": {"/".join(snapshot.gangs[number].key): _kept(plan, number) for number in sorted(plan.kept)},
    }


def _evicted(plan: Plan) -> list[tuple[Any, ...]]:
    """Every eviction: the pod, how, for whom, in which unit, and where its successor goes."""
    snapshot, found = plan.snapshot, []
    for one in plan.evictions:
        gang = snapshot.gangs[one.gang]
        whom = snapshot.gangs[one.beneficiary].key if one.beneficiary != NONE else ("", "")
        unit = one.kind.name, gang.tree.nodes[one.row].name, one.considered, one.exact
        to = snapshot.nodes[one.to] if one.to != NONE else ""
        found.append((*gang.key, gang.placed[one.leaf].pods[one.pod], one.action, *whom, *unit, to))
    return found


def _kept(plan: Plan, number: int) -> list[tuple[Any, ...]]:
    """The room that is kept for pods of a gang that were moved."""
    snapshot = plan.snapshot
    names = [node.name for node in snapshot.gangs[number].tree.nodes]
    return [
        (names[one.leaf], snapshot.asks[one.shape].tolist(), snapshot.nodes[one.node], one.since_ns)
        for one in plan.kept[number]
    ]


def _path(snapshot: Snapshot, domain: tuple[int, int, int] | None) -> str:
    return snapshot.domain_path(*domain) if domain is not None else ""


def _reason(snapshot: Snapshot, gang: Gang, reason: Reason) -> tuple[Any, ...]:
    where = snapshot.domain_path(reason.topology, reason.level, reason.domain) if reason.topology != NONE else ""
    counted = _counted(snapshot, reason.dimension)
    name = gang.tree.nodes[reason.row].name
    return reason.code, name, reason.asked, reason.best, where, counted, reason.detail, reason.pod, reason.surplus


def _counted(snapshot: Snapshot, dimension: Dimension | None) -> tuple[Any, ...]:
    if dimension is None:
        return ()
    if dimension.shape == NONE:
        return snapshot.resources[dimension.resource], dimension.amount
    asks = zip(snapshot.resources, snapshot.asks[dimension.shape].tolist(), strict=True)
    return tuple((name, amount) for name, amount in asks if amount)
