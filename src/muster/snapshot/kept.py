"""Room that is kept for pods which were moved: it stands in the status of their PodGroup until they come back.

Only the scheduler may write a status. An entry that the scheduler could not have written is passed over all the same:
a gang of which no pod was placed has moved none, a node can't hold more than it has, and their number is bounded.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from muster.api.cluster import SUBGROUP_LABEL
from muster.api.podgroup import MAX_KEPT, KeptRoom, PodGroupStatus
from muster.api.tree import NONE, Tree
from muster.snapshot.arrays import Gang, Kept, Snapshot
from muster.snapshot.requests import HOST_PORT, PODS, Request
from muster.snapshot.times import since_epoch_ns
from muster.snapshot.world import PodFacts, State

_MOST_RESOURCES = 64
# Different requests of one gang: each is a shape more in every snapshot.
_MOST_REQUESTS = 32
_SECOND_NS = 10**9
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Keeping(NamedTuple):
    """What the kept room of a gang comes to: nodes for pods that wait, by name, and the room that nobody claims."""

    nominated: Mapping[str, int]
    kept: tuple[Kept, ...]


NOTHING_KEPT = Keeping({}, ())
_Claim = tuple[int, tuple[tuple[str, int], ...]]


def entries_of(status: PodGroupStatus) -> Sequence[KeptRoom]:
    """The entries that the scheduler could have written: none for a gang that was never admitted to a queue."""
    return status.kept[:MAX_KEPT] if status.admitted_queue else ()


def keeping_of(
    status: PodGroupStatus,
    tree: Tree,
    members: Sequence[PodFacts],
    node_row: Mapping[str, int],
    has: Callable[[str], Mapping[str, int]],
    shape_number: Callable[[Request], int],
) -> Keeping:
    """The kept room of a gang. `members` come oldest first; `has` tells what a node has.

    Room that a pod already has, or was promised, is not kept any more. What is left goes to waiting pods of the same
    leaf that ask for just as much; the rest stays.
    """
    entries = entries_of(status)
    if not entries:
        return NOTHING_KEPT
    left: dict[_Claim, list[Kept]] = {}
    shapes: set[int] = set()
    for entry in entries:
        leaf, node = tree.leaf_of(entry.sub_group), node_row.get(entry.node, NONE)
        request = {name: amount for name, amount in entry.requests.items() if amount} | {PODS: 1}
        if leaf != NONE and node != NONE and _is_on(request, has(entry.node)) and len(shapes) < _MOST_REQUESTS:
            kept = Kept(leaf, shape_number(request), node, since_epoch_ns(entry.since))
            left.setdefault(_claim(leaf, request), []).append(kept)
            shapes.add(kept.shape)
    waiting = []
    for facts in members:
        if facts.state not in (State.PLACED, State.WAITING) or facts.problem:
            continue
        claim = _claim(tree.leaf_of(facts.pod.metadata.labels.get(SUBGROUP_LABEL)), facts.request)
        placed = facts.state is State.PLACED
        node = node_row.get(facts.pod.spec.node_name if placed else facts.pod.status.nominated_node_name, NONE)
        if node != NONE:
            _come_back(left.get(claim, []), node, _made_ns(facts) if placed else None)
        elif not placed:
            waiting.append((facts.pod.metadata.name, claim))
    nominated = {name: left[claim].pop(0).node for name, claim in waiting if left.get(claim)}
    return Keeping(nominated, tuple(kept for some in left.values() for kept in some))


def _claim(leaf: int, request: Request) -> _Claim:
    return leaf, tuple(sorted(request.items()))


def _is_on(request: Request, has: Mapping[str, int]) -> bool:
    """Whether a node with so much could ever hold the pod."""
    return len(request) <= _MOST_RESOURCES and all(0 < amount <= has.get(name, 0) for name, amount in request.items())


def _come_back(kept: list[Kept], node: int, made_ns: int | None) -> None:
    """One pod has, or was promised, room on this node: one that was kept there before it was made is used up."""
    for at, one in enumerate(kept):
        if one.node == node and (made_ns is None or made_ns + _SECOND_NS > one.since_ns):
            del kept[at]
            return


def _made_ns(facts: PodFacts) -> int:
    return since_epoch_ns(facts.pod.metadata.creation_timestamp)


def status_of_kept(kept: Iterable[Kept], gang: Gang, snapshot: Snapshot) -> list[KeptRoom]:
    """The kept room of a gang as its status says it."""
    return [
        KeptRoom(
            sub_group=gang.tree.nodes[one.leaf].name,
            node=snapshot.nodes[one.node],
            requests=_requests(snapshot, one.shape),
            since=_EPOCH + timedelta(microseconds=one.since_ns // 1000),
        )
        for one in kept
    ][:MAX_KEPT]


def _requests(snapshot: Snapshot, shape: int) -> Request:
    """What pods of the shape ask for, without what every pod takes and without ports, which are no amounts."""
    asked = snapshot.asked(shape).items()
    return {name: amount for name, amount in asked if name != PODS and not name.startswith(HOST_PORT)}
