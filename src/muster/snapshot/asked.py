"""What shapes ask for, split into what some node offers and what none does: only the first needs a column."""

from collections.abc import Mapping, Sequence

import numpy as np

from muster.snapshot.queues import Costs
from muster.snapshot.requests import PODS, Request
from muster.snapshot.room import Amounts

# Columns in any case.
_ALWAYS = frozenset({"cpu", "memory", PODS})


class Asked:
    """The requests of all shapes of a builder, looked at once, and again when nodes offer other resources."""

    def __init__(self, costs: Costs) -> None:
        self._costs = costs
        self._begin(frozenset())

    def _begin(self, offered: frozenset[str]) -> None:
        self._offered = offered
        self._parts: list[Request] = []
        # Per shape that asks for any: what no node offers, and what that costs its queue. Both only grow: all
        # snapshots share them.
        self.unoffered: dict[int, Mapping[str, int]] = {}
        self.charged: dict[int, list[int]] = {}
        self._resources: set[str] = set(_ALWAYS)

    def look(self, requests: Sequence[Request], offered: frozenset[str]) -> None:
        """The shapes that are new; all of them when `offered` is another set."""
        if offered != self._offered:
            self._begin(offered)
        known = offered | _ALWAYS
        for shape in range(len(self._parts), len(requests)):
            request = requests[shape]
            part = {resource: amount for resource, amount in request.items() if resource in known}
            self._parts.append(part)
            self._resources.update(part)
            if len(part) < len(request):
                rest = {resource: request[resource] for resource in sorted(request.keys() - part.keys())}
                self.unoffered[shape] = rest
                charged = self._costs.of_all(rest)
                if any(charged):
                    self.charged[shape] = charged

    @property
    def resources(self) -> list[str]:
        """The resources that some shape asks for and some node offers, by name."""
        return sorted(self._resources)

    def table(self, resources: Sequence[str]) -> Amounts:
        """Shape × resource."""
        found = np.zeros((len(self._parts), len(resources)), dtype=np.int64)
        column = {resource: index for index, resource in enumerate(resources)}
        for row, part in enumerate(self._parts):
            for resource, amount in part.items():
                found[row, column[resource]] = amount
        return found
