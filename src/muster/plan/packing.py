"""Which nodes the pods get, once every region has its domain: quickly, then carefully, then by trying everything."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from muster.api.tree import NONE
from muster.plan.budget import Budget
from muster.plan.layout import BINPACK, over_domains, over_nodes, slice_rows
from muster.plan.ledger import Ledger, Rows, Taking
from muster.plan.model import Model
from muster.plan.problem import Problem

Cost = npt.NDArray[np.float64]

# Pods times nodes beyond which nobody tries everything.
_MOST_CHOICES = 700
_CHEAPER = 4
# What trying everything may cost on the way, where it only saves work.
_FEW_STEPS = 400
# More pods times shapes than this are not looked at one by one.
_MOST_CAREFUL = 4_000


class Packer:
    """Packs one problem, again and again, for different domains of its regions."""

    def __init__(self, model: Model, strategy: str) -> None:
        self._model, self._strategy = model, strategy
        self._problem: Problem = model.problem
        self._ledger: Ledger = model.ledger
        parts = range(len(self._problem.parts))
        sizes = self._sizes()
        depth = [self._depth(region) for region in self._problem.region_of]
        self._orders = [
            sorted(parts, key=lambda part: (-depth[part], -sizes[part], part)),
            sorted(parts, key=lambda part: (-sizes[part], -depth[part], part)),
        ]

    def _sizes(self) -> list[float]:
        """How large one pod of each part is, as the largest share of what a node has free."""
        most = np.maximum(self._model.free.max(axis=1, initial=1), 1)
        return [float((self._ledger.asks[part.shape] / most).max()) for part in self._problem.parts]

    def _depth(self, region: int) -> int:
        return 0 if region == NONE else 1 + len(self._problem.ancestors(region))

    def nodes_of(self, part: int, assigned: Sequence[int]) -> Rows | None:
        """The nodes that a part may use; None stands for all."""
        region = self._problem.region_of[part]
        found: Rows | None = None
        seen: set[int] = set()
        while region != NONE:
            bound = self._problem.regions[region].bound
            if bound.topology not in seen:
                # The innermost region of a Topology lies in the others.
                seen.add(bound.topology)
                here = self._model.topologies[bound.topology].nodes_of(bound.level, assigned[region])
                found = here.astype(np.intp) if found is None else found[np.isin(found, here)]
            region = self._problem.regions[region].parent
        return found

    def pack(self, assigned: Sequence[int], budget: Budget, effort: int) -> list[Taking] | bool | None:
        """Takes room for all parts in the ledger and gives what each took; False when there is none; else None.

        Parts that share no nodes are packed by themselves. `effort` is what trying everything may cost for each.
        """
        mark = self._ledger.mark()
        nodes = [self.nodes_of(part, assigned) for part in range(len(self._problem.parts))]
        found: dict[int, Taking] = {}
        unknown = False
        for together in self._components(nodes):
            taken = self._pack(together, nodes, budget, effort)
            if isinstance(taken, dict):
                found.update(taken)
                continue
            unknown = taken is None
            if not unknown or not effort:
                break
        if len(found) == len(nodes):
            return [found[part] for part in range(len(nodes))]
        self._ledger.rewind(mark)
        return None if unknown else False

    def packable(self, parts: Sequence[int], assigned: Sequence[int], budget: Budget) -> bool:
        """False is a proof that these parts alone do not fit where they are."""
        nodes = [self.nodes_of(part, assigned) if part in parts else None for part in range(len(self._problem.parts))]
        mark = self._ledger.mark()
        found = self._pack(parts, nodes, budget, _FEW_STEPS)
        self._ledger.rewind(mark)
        return found is not False

    def _components(self, nodes: Sequence[Rows | None]) -> list[list[int]]:
        """Parts that share nodes, directly or through others, stand together."""
        if any(rows is None for rows in nodes) or len(nodes) == 1:
            return [list(range(len(nodes)))]
        owner = np.full(self._ledger.nodes, NONE, dtype=np.int64)
        group_of = list(range(len(nodes)))
        for part, rows in enumerate(nodes):
            assert rows is not None
            for other in np.unique(owner[rows]):
                if other != NONE and group_of[other] != group_of[part]:
                    joined = group_of[int(other)]
                    group_of = [group_of[part] if group == joined else group for group in group_of]
            owner[rows] = part
        groups: dict[int, list[int]] = {}
        for part, group in enumerate(group_of):
            groups.setdefault(group, []).append(part)
        return list(groups.values())

    def _pack(
        self, parts: Sequence[int], nodes: Sequence[Rows | None], budget: Budget, steps: int
    ) -> dict[int, Taking] | bool | None:
        """Packs some parts: in two orders as people would like it, then for room alone, then by trying everything."""
        mark = self._ledger.mark()
        chosen = set(parts)
        orders = [[part for part in order if part in chosen] for order in self._orders]
        plain = self._strategy == BINPACK and not any(self._problem.parts[p].shape in self._ledger.liked for p in parts)
        for for_room in (False, True):
            for order in orders if not (for_room and plain) else ():
                taken = self._quickly(order, nodes, for_room)
                if taken is not None:
                    return taken
                self._ledger.rewind(mark)
        if not steps:
            return None
        if self._work(parts) <= _MOST_CAREFUL and len(parts) > 1:
            careful = self._carefully(orders[1], nodes, budget)
            if careful is not None:
                return careful
            self._ledger.rewind(mark)
        own = Budget(min(steps, max(1, budget.left) * _CHEAPER))
        found = Exact(self._model, nodes, parts, own).pack()
        # A step here is a fraction of one of the search for domains.
        budget.spend(1 + own.spent // _CHEAPER)
        if isinstance(found, dict):
            for taking in found.values():
                self._ledger.take(taking)
        return found

    def _work(self, parts: Sequence[int]) -> int:
        """What it costs to look at every pod by itself: the others that it may stand in the way of."""
        pods = sum(self._problem.parts[part].pods for part in parts)
        return pods * len({self._problem.parts[part].shape for part in parts})

    def _quickly(self, order: Sequence[int], nodes: Sequence[Rows | None], for_room: bool) -> dict[int, Taking] | None:
        used: dict[tuple[int, int, int], set[int]] = {}
        found: dict[int, Taking] = {}
        for number in order:
            taking = self._one(number, nodes[number], used, for_room)
            if taking is None:
                return None
            self._ledger.take(taking)
            found[number] = taking
        return found

    def _carefully(
        self, order: Sequence[int], nodes: Sequence[Rows | None], budget: Budget
    ) -> dict[int, Taking] | None:
        """Pod by pod, each where it costs the others least: the fewest copies of what is still to come."""
        left = {number: self._problem.parts[number].pods for number in order}
        placed: dict[int, dict[int, int]] = {number: {} for number in order}
        for number in order:
            shape = self._problem.parts[number].shape
            rows = np.arange(self._ledger.nodes) if nodes[number] is None else nodes[number]
            assert rows is not None
            while left[number]:
                budget.spend(1 + len(left) // 8)
                here = rows[self._ledger.fits(shape)[rows] > 0]
                if not len(here):
                    return None
                cost = self._cost(shape, here, {self._problem.parts[p].shape: n for p, n in left.items() if n})
                node = int(here[np.argmin(cost)])
                self._ledger.take(Taking(shape, np.array([node]), np.array([1])))
                placed[number][node] = placed[number].get(node, 0) + 1
                left[number] -= 1
        return {
            number: Taking(self._problem.parts[number].shape, np.array(list(found)), np.array(list(found.values())))
            for number, found in placed.items()
        }

    def _cost(self, shape: int, rows: Rows, wanted: dict[int, int]) -> Cost:
        """Per node, the copies of shapes still wanted that one pod more would take away; less room breaks ties."""
        ledger = self._ledger
        cost: Cost = ledger.fits(shape)[rows].astype(np.float64) * 1e-6
        for other, pods in wanted.items():
            before = ledger.fits(other)[rows]
            after = np.full(len(rows), np.iinfo(np.int32).max, dtype=np.int64)
            for column, ask in ledger.columns(other):
                after = np.minimum(after, (ledger.free[column, rows] - int(ledger.asks[shape][column])) // ask)
            cost = cost + (before - np.minimum(before, np.maximum(after, 0))) * (pods / max(1, int(before.sum())))
        return cost

    def _one(
        self, number: int, nodes: Rows | None, used: dict[tuple[int, int, int], set[int]], for_room: bool
    ) -> Taking | None:
        part = self._problem.parts[number]
        fits, liked = self._ledger.fits(part.shape), self._ledger.liked.get(part.shape)
        rows: Rows = np.arange(self._ledger.nodes) if nodes is None else nodes
        here = fits[rows]
        if int(here.sum()) < part.pods:
            return None
        if for_room:
            counts = over_nodes(here, part.pods, BINPACK)
            assert counts is not None
            return Taking(part.shape, *slice_rows(rows, counts))
        if part.cluster is not None:
            return self._clustered(number, rows, used)
        counts = over_nodes(here, part.pods, self._strategy, None if liked is None else liked[rows])
        assert counts is not None
        return Taking(part.shape, *slice_rows(rows, counts))

    def _clustered(self, number: int, rows: Rows, used: dict[tuple[int, int, int], set[int]]) -> Taking:
        """In as few domains of the preferred level as found; nodes without the level count one by one."""
        part = self._problem.parts[number]
        assert part.cluster is not None
        topology, level, seen = part.cluster
        domain_of = self._model.topologies[topology].levels[level].domain_of[rows].astype(np.int64)
        alone = domain_of == NONE
        domain_of[alone] = len(self._model.topologies[topology].levels[level].paths) + np.arange(int(alone.sum()))
        fits, liked = self._ledger.fits(part.shape)[rows], self._ledger.liked.get(part.shape)
        domains, inverse = np.unique(domain_of, return_inverse=True)
        rooms = np.bincount(inverse, weights=fits).astype(np.int64)
        before = used.setdefault((self._problem.region_of[number], topology, level), set(seen))
        counts = np.zeros(len(rows), dtype=np.int64)
        for domain, pods in over_domains(rooms.tolist(), part.pods, [int(d) in before for d in domains]):
            here = np.flatnonzero(inverse == domain)
            some = over_nodes(fits[here], pods, self._strategy, None if liked is None else liked[rows][here])
            assert some is not None
            counts[here] = some
            before.add(int(domains[domain]))
        return Taking(part.shape, *slice_rows(rows, counts))


class Exact:
    """Tries every way to put the parts on their nodes, equal nodes and equal pods once."""

    def __init__(self, model: Model, nodes: Sequence[Rows | None], parts: Sequence[int], budget: Budget) -> None:
        self._model, self._budget = model, budget
        place_of = {int(row): place for place, row in enumerate(model.rows)}
        problem = model.problem
        active = model.active
        asks = {shape: [int(model.ledger.asks[shape][resource]) for resource in active] for shape in model.shapes}
        # Large parts first; per part its shape, pods, and the places of its nodes.
        order = sorted(parts, key=lambda part: (-max(asks[problem.parts[part].shape]), part))
        self._parts = order
        self._asks = [asks[problem.parts[part].shape] for part in order]
        self._pods = [problem.parts[part].pods for part in order]
        self._free = [list(map(int, column)) for column in model.free[active].T]
        self._nodes: list[list[int]] = []
        for part in order:
            here = nodes[part]
            rows = model.rows if here is None else here
            fits = model.fits[problem.parts[part].shape]
            places = [place_of[int(row)] for row in rows if int(row) in place_of]
            self._nodes.append([place for place in places if fits[place] > 0])
        memberships: dict[int, list[int]] = {}
        for index, places in enumerate(self._nodes):
            for place in places:
                memberships.setdefault(place, []).append(index)
        self._kind = {place: tuple(found) for place, found in memberships.items()}
        self._counts: list[dict[int, int]] = [{} for _ in order]
        self._refuted: set[object] = set()
        self._spent = False

    def pack(self) -> dict[int, Taking] | bool | None:
        """What each part takes; False is a proof that there is no way; None when the budget is spent."""
        # Every node and every part is a step down, and there are only so many.
        if sum(map(len, self._nodes)) + 3 * len(self._parts) > _MOST_CHOICES:
            return None
        if not self._from(0):
            return None if self._spent else False
        taken = {}
        for index, part in enumerate(self._parts):
            found = sorted(self._counts[index].items())
            rows = self._model.rows[[place for place, count in found if count]]
            counts = np.array([count for _, count in found if count], dtype=np.int64)
            taken[part] = Taking(self._model.problem.parts[part].shape, rows, counts)
        return taken

    def _room(self, index: int, place: int) -> int:
        pairs = zip(self._free[place], self._asks[index], strict=True)
        return min((free // ask for free, ask in pairs if ask), default=self._pods[index])

    def _from(self, index: int) -> bool:
        """Whether the parts from this one on find nodes."""
        if index == len(self._parts):
            return True
        if not self._budget.spend(1 + (len(self._parts) - index) // 2):
            self._spent = True
            return False
        if not self._enough(index):
            return False
        state = (index, self._state(index))
        if state in self._refuted:
            return False
        # Equal nodes stand side by side, those with the least room first.
        places = sorted(
            self._nodes[index], key=lambda place: (self._room(index, place), self._kind[place], self._free[place])
        )
        rooms = [max(0, self._room(index, place)) for place in places]
        after = [0] * (len(places) + 1)
        for at in range(len(places) - 1, -1, -1):
            after[at] = after[at + 1] + rooms[at]
        looks = [(self._kind[place], tuple(self._free[place])) for place in places]
        if self._share(index, places, rooms, after, looks, 0, self._pods[index], 0):
            return True
        if not self._spent:
            self._refuted.add(state)
        return False

    def _enough(self, index: int) -> bool:
        """Whether the parts from this one on may find room: each by itself, and all of them in sum.

        A node that no pod which is left fits on any more adds nothing to the sum, whatever it has left.
        """
        useful: set[int] = set()
        for later in range(index, len(self._parts)):
            rooms = {place: self._room(later, place) for place in self._nodes[later]}
            if sum(max(0, room) for room in rooms.values()) < self._pods[later]:
                return False
            useful.update(place for place, room in rooms.items() if room > 0)
        for resource in range(len(self._asks[0])):
            needed = sum(
                asks[resource] * pods for asks, pods in zip(self._asks[index:], self._pods[index:], strict=True)
            )
            if needed > sum(max(0, self._free[place][resource]) for place in useful):
                return False
        return True

    def _state(self, index: int) -> object:
        later = {place for places in self._nodes[index:] for place in places}
        return tuple(sorted((self._kind[place], tuple(self._free[place])) for place in later))

    def _share(
        self,
        index: int,
        places: list[int],
        rooms: list[int],
        after: list[int],
        looks: list[tuple[tuple[int, ...], tuple[int, ...]]],
        at: int,
        rest: int,
        before: int,
    ) -> bool:
        """Gives the node `at` some of the `rest` pods, most first; an equal node gets no more than the one before."""
        if rest == 0:
            return self._from(index + 1)
        if at == len(places) or after[at] < rest or self._spent:
            return False
        if not self._budget.spend():
            self._spent = True
            return False
        most = min(rooms[at], rest)
        if at and looks[at] == looks[at - 1]:
            most = min(most, before)
        place, asks = places[at], self._asks[index]
        for count in range(most, -1, -1):
            if after[at + 1] < rest - count:
                break
            self._move(place, asks, -count)
            self._counts[index][place] = count
            if self._share(index, places, rooms, after, looks, at + 1, rest - count, count):
                return True
            self._move(place, asks, count)
            del self._counts[index][place]
        return False

    def _move(self, place: int, asks: list[int], count: int) -> None:
        free = self._free[place]
        for resource, ask in enumerate(asks):
            free[resource] += count * ask
