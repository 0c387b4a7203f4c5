"""How a scheduler decides that keeps its first success: a small replica of KAI's published rules, to compare with.

Members come in declared order; domains are tried tightest first; a set that fails is rolled back, its siblings are
never looked at again; of a set the first K children are taken; where pods differ, each counts like the largest.
"""

from typing import TYPE_CHECKING

from bench.truth import SIZES, slots

if TYPE_CHECKING:
    from bench.trees import Instance, Leaf

Room = list[list[int]]


def finds(found: "Instance") -> bool:
    """Whether the replica places the minimum."""
    room = [slots(free) for free in found.free]
    sets = [leaves[: found.needed[number]] for number, leaves in enumerate(found.sets)]
    everything = [leaf for leaves in sets for leaf in leaves]
    half = len(room) // 2
    zones = [range(zone * half, (zone + 1) * half) for zone in range(2)]
    return any(_place_sets(room, zone, sets) for zone in _tightest(room, zones, everything))


def _tightest(room: Room, domains: list[range], leaves: "list[Leaf]") -> list[range]:
    """Domains that hold all pods when each is as large as the largest, the fullest first."""
    largest = SIZES.index(max(leaf.gpus for leaf in leaves))
    pods = sum(leaf.pods for leaf in leaves)
    holds = {domain: sum(room[rack][largest] for rack in domain) for domain in domains}
    return sorted((domain for domain in domains if holds[domain] >= pods), key=lambda domain: holds[domain])


def _place_sets(room: Room, zone: range, sets: "list[list[Leaf]]") -> bool:
    left = [list(rack) for rack in room]
    blocks = [range(start, start + 5) for start in zone[::5]]
    return all(any(_place_leaves(left, block, leaves) for block in _tightest(left, blocks, leaves)) for leaves in sets)


def _place_leaves(left: Room, block: range, leaves: "list[Leaf]") -> bool:
    before = {rack: list(left[rack]) for rack in block}
    for leaf in leaves:
        fitting = _tightest(left, [range(rack, rack + 1) for rack in block], [leaf])
        if not fitting:
            for rack, room in before.items():
                left[rack] = room
            return False
        rack = fitting[0].start
        left[rack] = [have - leaf.pods * (leaf.gpus // size) for have, size in zip(left[rack], SIZES, strict=True)]
    return True
