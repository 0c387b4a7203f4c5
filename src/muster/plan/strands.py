"""Capacity that no combination can use: racks of 7 for parts of 4 and 2 hold 6 at most."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

# Beyond this, sums are too many to look at every combination.
_LARGE = 20_000


def strands(needs: Sequence[int], rooms: npt.NDArray[np.int64]) -> bool:
    """Whether the rooms, each filled as well as any of the needs allow, hold less than all of the needs."""
    total = sum(needs)
    if total > _LARGE:
        return False
    sums = 1
    for need in needs:
        sums |= sums << need
    usable = 0
    for room, count in zip(*np.unique(rooms[rooms > 0], return_counts=True), strict=True):
        usable += ((sums & ((1 << (int(room) + 1)) - 1)).bit_length() - 1) * int(count)
        if usable >= total:
            return False
    return usable < total
