"""Snapshots from the short forms of scenario files, and the things in them by name."""

from collections.abc import Sequence
from typing import Any

import msgspec

from muster.api.tree import NONE
from muster.plan.books import Books
from muster.plan.budget import Budget
from muster.plan.evictor import Wanted
from muster.plan.layout import BINPACK
from muster.plan.outcome import ACTIONS, Eviction
from muster.sim.objects import BEGIN, Objects
from muster.snapshot.arrays import Snapshot
from muster.snapshot.build import build
from oracle.engine import world_of

Things = dict[str, Any]
CPU, MEMORY, GPU = range(3)


def ns(second: float) -> int:
    """A second of the story in nanoseconds since 1970."""
    return (int(BEGIN.timestamp()) * 10**3 + int(second * 10**3)) * 10**6


def documents_of(objects: Things) -> list[Things]:
    """The documents that the short forms stand for."""
    return msgspec.convert(objects, Objects).all()


def snapshot_of(objects: Things, now: float = 0) -> Snapshot:
    """The cluster at a second of the story."""
    return build(world_of(documents_of(objects)), ns(now))


def lone(names: str, on: str = "", **spec: Any) -> Things:
    """Gangs of one pod each, of one GPU or of `gpus`; they run `on` a node, each on its own with `on="*"`."""
    pod = {key: spec.pop(key) for key in ("gpus", "cpus", "labels", "controlled", "spec", "age") if key in spec}
    pods = [
        {"gang": name, "name": name, **pod, **({"on": name if on == "*" else on} if on else {})}
        for name in names.split()
    ]
    return {"gangs": {name: {"minMember": 1, **spec} for name in names.split()}, "pods": pods}


def merged(*parts: Things) -> Things:
    """Everything that is written in any of the parts."""
    found: Things = {}
    for part in parts:
        for key, value in part.items():
            if isinstance(value, list):
                found[key] = [*found.get(key, []), *value]
            else:
                found[key] = {**found.get(key, {}), **value}
    return found


def number_of(snapshot: Snapshot, name: str) -> int:
    """A gang by its name."""
    return [gang.key[1] for gang in snapshot.gangs].index(name)


def spot_of(snapshot: Snapshot, pod: str) -> tuple[int, int, int]:
    """A placed pod by its name: gang, leaf, place in the leaf."""
    found = [
        (number, leaf, placed.pods.index(pod))
        for number, gang in enumerate(snapshot.gangs)
        for leaf, placed in gang.placed.items()
        if pod in placed.pods
    ]
    assert len(found) == 1, f"{pod} is placed {len(found)} times"
    return found[0]


def pod_of(snapshot: Snapshot, gang: int, leaf: int, at: int) -> str:
    """The name of a placed pod."""
    return snapshot.gangs[gang].placed[leaf].pods[at]


def going(
    snapshot: Snapshot, pods: str, action: str, beneficiary: str = "", to: str = "", row: str = ""
) -> list[Eviction]:
    """Pods by name that go by an action, for a gang or nobody; `to` a node, as a part of the subgroup `row`."""
    found = []
    for pod in pods.split():
        gang, leaf, at = spot_of(snapshot, pod)
        names = [node.name for node in snapshot.gangs[gang].tree.nodes]
        whom = number_of(snapshot, beneficiary) if beneficiary else NONE
        where = snapshot.nodes.index(to) if to else NONE
        found.append(Eviction(gang, leaf, at, action, whom, row=names.index(row) if row else 0, to=where))
    return found


def gone(snapshot: Snapshot, evictions: Sequence[Eviction]) -> list[str]:
    """The names of the pods that go, sorted."""
    return sorted(pod_of(snapshot, one.gang, one.leaf, one.pod) for one in evictions)


def books_of(snapshot: Snapshot, actions: Sequence[str] = ACTIONS) -> Books:
    """The books of a cycle that begins."""
    return Books(snapshot, BINPACK, frozenset(actions))


def wanted_by(books: Books, snapshot: Snapshot, name: str, row: int = 0) -> Wanted:
    """What a gang asks others to go for: its minimum."""
    number = number_of(snapshot, name)
    progress = books.state(number).progress
    choices = books.at_once.wanted(progress, row, 16)
    return Wanted(
        number, progress, row, choices, lambda engine, asked: engine.minimum(asked, row, Budget(20_000)), False
    )
