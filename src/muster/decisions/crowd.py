"""Who is on which nodes when the plan is carried out."""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from muster.api.tree import NONE
from muster.decisions.amounts import pods_in_words
from muster.plan.outcome import Plan
from muster.snapshot.requests import PODS

_MOST_HOLDERS = 3
# What becomes of a pod of ours.
_STAYS, _COMES, _GOES = range(3)


class Crowd:
    """Who is on which nodes: without those that are evicted, with those that come."""

    def __init__(self, plan: Plan) -> None:
        self.snapshot, self._plan = plan.snapshot, plan

    @cached_property
    def _members(self) -> npt.NDArray[np.int64]:
        """The node and the gang of every pod of ours, and what becomes of it."""
        gone = {(one.gang, one.leaf, one.pod) for one in self._plan.evictions}
        found: list[tuple[int, int, int]] = []
        for number, gang in enumerate(self.snapshot.gangs):
            for leaf, placed in gang.placed.items():
                states = ((_GOES if (number, leaf, pod) in gone else _STAYS) for pod in range(len(placed.nodes)))
                found += [(node, number, state) for node, state in zip(placed.nodes, states, strict=True)]
        for placement in self._plan.placements:
            found += [(node, placement.gang, _COMES) for node in placement.nodes]
        found += [(one.to, one.gang, _COMES) for one in self._plan.evictions if one.to != NONE]
        return np.array(found, dtype=np.int64).reshape(-1, 3)

    def on(self, nodes: Sequence[int]) -> Iterator[str]:
        """The gangs with the most pods on some nodes, and how many pods of others there are."""
        snapshot = self.snapshot
        here = self._members[np.isin(self._members[:, 0], nodes)]
        pods = Counter(here[here[:, 2] != _GOES, 1].tolist())
        ranked = sorted(pods.items(), key=lambda one: (-one[1], one[0]))
        for gang, count in ranked[:_MOST_HOLDERS]:
            yield f"{'/'.join(snapshot.gangs[gang].key)} ({pods_in_words(count)})"
        if len(ranked) > _MOST_HOLDERS:
            yield f"{len(ranked) - _MOST_HOLDERS:,} more gangs"
        column = snapshot.resources.index(PODS)
        held = int((snapshot.allocatable - snapshot.free)[list(nodes), column].sum())
        strangers = held - int((here[:, 2] != _COMES).sum())
        if strangers > 0:
            yield f"{pods_in_words(strangers)} of others"
