"""Capacity that no combination can use: racks of 7 for parts of 4 and 2 hold 6 at most."""

from collections.abc import Sequence

# Beyond this, sums are too many to look at every combination.
_LARGE = 20_000


def sums_of(needs: Sequence[int]) -> tuple[int, int]:
    """The sum of all needs, and every sum of some of them as the bits of a number; no bits when they are too large."""
    total = sum(needs)
    if total > _LARGE:
        return total, 0
    sums = 1
    for need in needs:
        sums |= sums << need
    return total, sums


def strands(sums: tuple[int, int], rooms: Sequence[int]) -> bool:
    """Whether the rooms, each filled as well as any of the needs allow, hold less than all of the needs."""
    total, bits = sums
    if not bits:
        return False
    usable = 0
    best: dict[int, int] = {}
    for room in rooms:
        if room > 0:
            if room not in best:
                best[room] = (bits & ((1 << (room + 1)) - 1)).bit_length() - 1
            usable += best[room]
            if usable >= total:
                return False
    return usable < total
