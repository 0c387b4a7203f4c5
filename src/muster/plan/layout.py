"""How many pods of one shape go to each node of a domain, once it is known that they fit."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from muster.plan.ledger import Rows, Vector

BINPACK, SPREAD = "binpack", "spread"

Fits = npt.NDArray[np.int32]

# From so many nodes on, with rooms of no more than so many copies, counting is faster than sorting.
_FEW_NODES, _FEW_COPIES = 256, 4096


def over_nodes(fits: Fits, pods: int, strategy: str, liked: npt.NDArray[np.int64] | None = None) -> Vector | None:
    """How many pods go to each node, or None when they do not fit; nodes stand in the order that settles ties.

    Nodes that the pods like more come first. Then `binpack` fills the nodes with the least room, so that large holes
    stay whole; `spread` evens out what is left.
    """
    if liked is not None and len(liked) and (liked != liked[0]).any():
        return _by_liking(fits, pods, strategy, liked)
    if strategy == SPREAD:
        return _spread(fits, pods)
    if len(fits) > _FEW_NODES and int(fits.max()) <= _FEW_COPIES:
        return _fill(fits, pods)
    order = np.argsort(fits, kind="stable")
    order = order[np.searchsorted(fits[order], 1) :]
    reached = np.cumsum(fits[order])
    if pods > (int(reached[-1]) if len(reached) else 0):
        return None
    last = int(np.searchsorted(reached, pods))
    counts = np.zeros(len(fits), dtype=np.int64)
    if pods:
        counts[order[: last + 1]] = fits[order[: last + 1]]
        counts[order[last]] -= reached[last] - pods
    return counts


def _fill(fits: Fits, pods: int) -> Vector | None:
    """The same as sorting by room, where many nodes have few different rooms: they are counted instead."""
    reached = np.cumsum(np.bincount(fits) * np.arange(int(fits.max()) + 1))
    if pods > int(reached[-1]):
        return None
    last = int(np.searchsorted(reached, pods))
    counts = np.where(fits < last, fits, 0).astype(np.int64)
    if last:
        full, rest = divmod(pods - int(reached[last - 1]), last)
        here = np.flatnonzero(fits == last)[: full + 1]
        counts[here[:full]] = last
        if rest:
            counts[here[full]] = rest
    return counts


def _spread(fits: Fits, pods: int) -> Vector | None:
    """Every pod goes where the most room is left, all at once: down to a common level, the rest in order."""
    if pods > int(fits.sum()):
        return None
    low, high = 0, int(fits.max(initial=0))
    while low < high:
        level = (low + high) // 2
        if int(np.maximum(fits - level, 0).sum()) <= pods:
            high = level
        else:
            low = level + 1
    counts = np.maximum(fits - low, 0).astype(np.int64)
    rest = pods - int(counts.sum())
    counts[np.flatnonzero(fits >= max(low, 1))[:rest]] += 1
    return counts


def _by_liking(fits: Fits, pods: int, strategy: str, liked: npt.NDArray[np.int64]) -> Vector | None:
    counts = np.zeros(len(fits), dtype=np.int64)
    for score in np.unique(liked)[::-1]:
        here = np.flatnonzero(liked == score)
        some = min(pods, int(fits[here].sum()))
        found = over_nodes(fits[here], some, strategy)
        assert found is not None
        counts[here] = found
        pods -= some
    return counts if pods == 0 else None


def over_domains(rooms: Sequence[int], pods: int, used: Sequence[bool] | None = None) -> list[tuple[int, int]]:
    """In as few domains as possible: (domain, pods). The tightest that takes all; else the largest first.

    Domains that are `used` already come before others. The rooms add up to enough.
    """
    left = dict(enumerate(rooms))
    found = []
    while pods:
        here = [d for d, room in left.items() if room > 0]
        already = [d for d in here if used is not None and used[d]]
        enough = [d for d in here if left[d] >= pods]
        if already:
            best = min(already, key=lambda d: (left[d] < pods, left[d] if left[d] >= pods else -left[d], d))
        elif enough:
            best = min(enough, key=lambda d: (left[d], d))
        else:
            best = max(here, key=lambda d: (left[d], -d))
        some = min(pods, left.pop(best))
        found.append((best, some))
        pods -= some
    return found


def slice_rows(rows: Rows, counts: Vector) -> tuple[Rows, Vector]:
    """The nodes that get some, and how many."""
    some = np.flatnonzero(counts)
    return rows[some], counts[some]
