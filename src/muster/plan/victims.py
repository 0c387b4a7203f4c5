"""The search for victims (SPEC §8): which units go, so that a gang fits; found together with its placement.

Few candidates: every choice of them is looked at, the best ranked first. Many: they are brought into an order in which
each gives the most room for the least harm, the shortest beginning that is enough is found by halving, and whoever can
be spared is spared. In both cases nobody goes who could stay.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, islice
from typing import NamedTuple

import numpy as np

from muster.api.once import once
from muster.api.tree import NONE
from muster.plan.accounts import Accounts
from muster.plan.attempt import Attempt, Engine
from muster.plan.bundles import Bundles, bundles_of
from muster.plan.choices import hopeful, ranked, units_in
from muster.plan.homes import Homes, settled
from muster.plan.ledger import Taking
from muster.plan.outcome import UnitKind
from muster.plan.progress import Bounds
from muster.plan.trial import Question, Trial
from muster.plan.units import Flags, Numbers, Table
from muster.snapshot.arrays import Snapshot

# Up to so many units every choice is looked at.
EXACT = 12
# Of them so many one after the other; then those that have no hope are sorted out first.
_AT_FIRST = 40
# So many domains are looked into, those that seem cheapest first.
_MOST_DOMAINS, _ENOUGH_FOUND = 48, 3
# So many nodes are begun with, when nothing else helps.
_MOST_NODES = 32
# In place of a unit, every choice of so many smaller ones is looked at.
_FEW_SMALLER = 9

# Contains a minimum, highest priority, largest kind, pods, ages from the oldest on.
Rank = tuple[bool, int, int, int, tuple[int, ...]]


class Found(NamedTuple):
    """Units that go, where the successors of moved pods go, and how it was found."""

    units: tuple[int, ...]
    homes: Homes
    considered: int
    exact: bool
    # Where the gang goes, when it must be there and nowhere else.
    takings: tuple[tuple[int, Taking], ...] | None = None

    def take(self, engine: Engine) -> Attempt:
        """The gang, where it must be."""
        for _, taking in self.takings or ():
            engine.ledger.take(taking)
        return Attempt(self.takings)


@dataclass
class Search:
    """One search. The ledger is left as it was."""

    snapshot: Snapshot
    engine: Engine
    table: Table
    accounts: Accounts
    question: Question
    # Whether nobody was found where somebody may have been.
    _missed: bool = False

    @once
    def _trial(self) -> Trial:
        return Trial(self.snapshot, self.engine, self.table, self.accounts, self.question)

    def find(self) -> Found | None:
        """The best victims that were found, or None."""
        pool = self._relevant(self.question.rights.candidates)
        surplus = pool[self.table.kind[pool] < UnitKind.WHOLE_GANG]
        for stage in (surplus, pool) if len(surplus) < len(pool) else (pool,):
            found = self._in_stage(stage)
            if found is not None:
                return found
        return None

    def _in_stage(self, pool: Numbers) -> Found | None:
        """The best of some. Who can't even come back to its place may be in the way of all: it is left out, too."""
        calm = settled(self.snapshot, self.table, pool) if self.question.moves else pool
        stages = (pool, calm) if len(calm) < len(pool) else (pool,)
        found = [self._best_of(some) if len(some) and self._trial.fits(some) else None for some in stages]
        best = min((one for one in found if one is not None), key=lambda one: self.rank(one.units), default=None)
        return best._replace(exact=best.exact and found[0] is not None) if best is not None else None

    def _relevant(self, candidates: Numbers) -> Numbers:
        """Units with a pod on a node that the gang could use."""
        table, snapshot = self.table, self.snapshot
        useful = np.zeros(len(snapshot.nodes), dtype=bool)
        waiting = self.question.progress.gang.waiting
        for batch in self.question.counts:
            useful |= snapshot.allowed_soon[waiting[batch].shape]
        useful &= self._within()
        wanted = np.zeros(len(table), dtype=bool)
        wanted[candidates] = True
        rows = wanted[table.unit] & table.there & useful[table.node]
        found = np.zeros(len(table), dtype=bool)
        found[table.unit[rows]] = True
        return np.flatnonzero(found)

    def _bounds(self) -> list[tuple[int, int, int]]:
        """(topology, level, pinned) of every required level that holds all pods of the attempt."""
        progress = self.question.progress
        leaves = {progress.gang.waiting[batch].leaf for batch in self.question.counts}
        required = Bounds(progress, self.question.row).required
        return [(one.topology, one.level, one.pinned) for one in required if leaves <= set(one.leaves)]

    def _within(self) -> Flags:
        """The nodes of the domains that placed pods have chosen already."""
        inside = np.ones(len(self.snapshot.nodes), dtype=bool)
        for topology, level, pinned in self._bounds():
            if pinned != NONE:
                inside &= self.snapshot.topologies[topology].levels[level].domain_of == pinned
        return inside

    def _best_of(self, pool: Numbers) -> Found | None:
        """The lowest highest priority first; then single pods before whole children."""
        table = self.table
        priorities = np.unique(table.priority[pool]).tolist()
        low, high = 0, len(priorities) - 1
        while low < high:
            middle = (low + high) // 2
            low, high = (
                (low, middle)
                if self._trial.fits(pool[table.priority[pool] <= priorities[middle]])
                else (middle + 1, high)
            )
        for priority in priorities[low:]:
            cheap = pool[table.priority[pool] <= priority]
            single = cheap[table.kind[cheap] < UnitKind.SURPLUS_CHILD]
            for some in (single, cheap) if 0 < len(single) < len(cheap) else (cheap,):
                if some is single and not self._trial.fits(single):
                    continue
                found = self._exact(some) if len(some) <= EXACT else self._many(some)
                if found is not None:
                    return found
        return None

    def rank(self, units: Collection[int]) -> Rank:
        """How much harm it is that these go; less is better."""
        table, chosen = self.table, list(units)
        kind = int(table.kind[chosen].max())
        ages = tuple(sorted((int(age) for age in table.age[chosen]), reverse=True))
        priority = int(table.priority[chosen].max())
        return kind == UnitKind.WHOLE_GANG, priority, kind, len(table.rows(chosen)), ages

    def _exact(self, pool: Numbers) -> Found | None:
        """Every choice, the best ranked first: the first that is allowed and enough is the best there is."""
        numbers = pool[np.argsort(self.table.age[pool])].tolist()
        choices = [units_in(chosen, numbers) for chosen in ranked(numbers, self.table, self._may_be_enough(numbers))]
        legal = self.question.rights.all_legal
        for some in chain(
            (some for some in choices[:_AT_FIRST] if legal(some)),
            hopeful(choices[_AT_FIRST:], numbers, legal, self._gives(pool)),
        ):
            if self._trial.fits(some):
                return Found(tuple(some), self._trial.homes, len(pool), not self._missed, self._trial.takings)
        return None

    def _may_be_enough(self, numbers: Sequence[int]) -> Flags:
        """Per choice, as bits: whether it frees enough of everything, were it in the right place."""
        ledger, table = self.engine.ledger, self.table
        waiting = self.question.progress.gang.waiting
        useful = np.zeros(len(self.snapshot.nodes), dtype=bool)
        need = np.zeros(ledger.asks.shape[1], dtype=np.int64)
        for batch, pods in self.question.counts.items():
            useful |= self.snapshot.allowed_soon[waiting[batch].shape]
            need += ledger.asks[waiting[batch].shape].astype(np.int64) * pods
        free = ledger.free[:, useful].clip(min=0).sum(axis=1, dtype=np.int64)
        freed = np.zeros((len(numbers), len(need)), dtype=np.int64)
        for at, number in enumerate(numbers):
            rows = table.rows([number])
            freed[at] = ledger.asks[table.shape[rows[useful[table.node[rows]]]]].sum(axis=0, dtype=np.int64)
        bits = (np.arange(2 ** len(numbers))[:, None] >> np.arange(len(numbers))) & 1
        enough: Flags = ((bits @ freed + free >= need) | (need == 0)).all(axis=1)
        return enough

    def _many(self, pool: Numbers) -> Found | None:
        """A good choice among many."""
        best: tuple[Rank, Found] | None = None
        looked = 0
        for order, enough in self._orders(pool):
            units = self._shortest(order, enough)
            if units is None:
                continue
            looked += 1
            found = self._spared(units, pool)
            rank = self.rank(found.units)
            best = (rank, found) if best is None or rank < best[0] else best
            if looked >= _ENOUGH_FOUND:
                break
        if best is not None:
            return best[1]
        # A queue may give no more than a few units: other beginnings may be the better use of them.
        for order in self._beginnings(pool):
            units = self._shortest(order, 1)
            if units is not None:
                return self._spared(units, pool)
        self._missed = True
        return None

    def _spared(self, units: Sequence[int], pool: Numbers) -> Found:
        """The units without those that are not needed; and if their gangs have few units, the best choice of those."""
        spared = self._spare(units)
        found = Found(spared, self._trial.homes, len(pool), exact=False, takings=self._trial.takings)
        near = pool[np.isin(self.table.gang[pool], self.table.gang[list(spared)])]
        if len(near) <= EXACT and not self.table.rigid[near].all():
            better = self._exact(near)
            if better is not None and self.rank(better.units) < self.rank(spared):
                return better._replace(considered=len(pool), exact=False)
        return found

    def _beginnings(self, pool: Numbers) -> Iterator[Iterator[list[int]]]:
        """Orders that begin with what one node holds; then one with what frees the most."""
        shape = self._shapes()[0][0]
        bundles = bundles_of(self.table, pool, shape, self.engine.ledger)
        every = list(bundles)
        nodes = bundles.node.tolist()
        for node in list(dict.fromkeys(nodes))[:_MOST_NODES]:
            here = [bundle for bundle, at in zip(every, nodes, strict=True) if at == node]
            yield chain(here, iter(every))
        by_size = pool[np.lexsort((self.table.age[pool], -self.table.pods[pool]))]
        yield ([number] for number in by_size.tolist())

    def _orders(self, pool: Numbers) -> Iterator[tuple[Iterator[list[int]], int]]:
        """Orders in which units could be taken, and how many bundles should be enough: per domain, then of all."""
        shapes = self._shapes()
        free_domain = [(topology, level) for topology, level, pinned in self._bounds() if pinned == NONE]
        if free_domain:
            topology, level = max(free_domain, key=lambda one: one[1])
            domain_of = self.snapshot.topologies[topology].levels[level].domain_of.astype(np.int64)
            bundles = bundles_of(self.table, pool, shapes[0][0], self.engine.ledger)
            for domain in self._cheapest(bundles, domain_of, shapes[0])[:_MOST_DOMAINS]:
                inside = domain_of[self.table.node] == domain
                touched = np.zeros(len(self.table), dtype=bool)
                touched[self.table.unit[inside & self.table.there]] = True
                yield self._order(pool[touched[pool]], shapes, domain_of == domain)
        yield self._order(pool, shapes, None)

    def _order(
        self, pool: Numbers, shapes: Sequence[tuple[int, int]], nodes: Flags | None
    ) -> tuple[Iterator[list[int]], int]:
        """Bundles that make room for the heaviest pods, then for the others; what makes no room comes last."""
        ledger = self.engine.ledger
        every = [bundles_of(self.table, pool, shape, ledger, nodes) for shape, _ in shapes]
        shape, pods = shapes[0]
        fits = ledger.fits(shape)
        missing = pods - int(fits.sum() if nodes is None else fits[nodes].sum())
        rest = ([number] for bundles in every for number in bundles.rest.tolist())
        return chain(*every, rest, ([number] for number in pool.tolist())), every[0].bundles_for(missing)

    def _shapes(self) -> list[tuple[int, int]]:
        """What is to be placed, (shape, pods), the heaviest first."""
        waiting, ledger = self.question.progress.gang.waiting, self.engine.ledger
        pods: dict[int, int] = {}
        for batch, count in self.question.counts.items():
            pods[waiting[batch].shape] = pods.get(waiting[batch].shape, 0) + count
        most = ledger.free.max(axis=1, initial=1).clip(min=1)
        return sorted(pods.items(), key=lambda one: (-float((ledger.asks[one[0]] / most).max()), one[0]))

    def _cheapest(self, bundles: Bundles, domain_of: Numbers, need: tuple[int, int]) -> list[int]:
        """Domains that seem able to take the heaviest pods, the one with the least harm first."""
        shape, pods = need
        fits = self.engine.ledger.fits(shape)
        domains = int(domain_of.max(initial=NONE)) + 1
        inside = domain_of != NONE
        room = np.bincount(domain_of[inside], weights=fits[inside], minlength=domains)
        return bundles.cheapest([pods - int(one) for one in room], domain_of)

    def _shortest(self, order: Iterator[list[int]], guess: int) -> list[int] | None:
        """The shortest beginning of the order, as far as it is legal, that is enough."""
        legal = self.question.rights.legal(order)
        bundles: list[list[int]] = []
        low, size = 0, max(1, guess)
        while True:
            # Not further than is needed: to ask whether a unit may go costs more than anything else.
            bundles += islice(legal, size - len(bundles))
            if len(bundles) == low:
                return None
            if self._trial.fits(_flat(bundles)):
                break
            low, size = len(bundles), size * 2
        high = len(bundles)
        step = high - 1
        while low + 1 < high:
            middle = step if step > low else (low + high) // 2
            step = NONE
            if self._trial.fits(_flat(bundles[:middle])):
                high = middle
            else:
                low = middle
        return _flat(bundles[:high])

    def _spare(self, units: Sequence[int]) -> tuple[int, ...]:
        """The units without those that are not needed, the dearest spared first; at last the gang fits without them.

        What could not be spared while more was given can't be spared later; nor can its like. In place of a gang or
        child that can't be spared, less of it may do.
        """
        classes = self._classes(units)
        needed: set[int] = set()
        kept = dict.fromkeys(units)
        for number in self._dearest(units):
            if classes[number] in needed:
                continue
            if not self._drop(number, kept):
                needed.add(classes[number])
                continue
            # Its nodes are not what they were: whoever is there is like nobody else.
            here = np.isin(self.table.node, self.table.node[self.table.rows([number])])
            classes.update((other, -1 - other) for other in self.table.unit[here].tolist())
        for number in self._dearest(kept):
            less = [] if self.table.rigid[number] else self._less(number, kept)
            if less:
                del kept[number]
                kept.update(dict.fromkeys(less))
                for smaller in self._dearest(less):
                    self._drop(smaller, kept)
        # The last question is about these: its homes and takings are theirs.
        fits = self._trial.fits(kept)
        assert fits
        return tuple(kept)

    def _dearest(self, units: Collection[int]) -> list[int]:
        table, numbers = self.table, np.fromiter(units, dtype=np.int64)
        by = (table.age[numbers], table.pods[numbers], table.priority[numbers], table.kind[numbers])
        found: list[int] = numbers[np.lexsort(by)[::-1]].tolist()
        return found

    def _drop(self, number: int, kept: dict[int, None]) -> bool:
        """Whether a unit can stay; then it is not among those that go any more."""
        fewer = [other for other in kept if other != number]
        whole = bool(self.table.rigid[number]) or self._is_whole(int(self.table.gang[number]), fewer)
        if not fewer or not whole or not self._trial.fits(fewer):
            return False
        del kept[number]
        return True

    def _is_whole(self, gang: int, units: Collection[int]) -> bool:
        """Whether what these units take of one gang leaves it no half of a minimum."""
        mine = [number for number in units if self.table.gang[number] == gang and not self.table.rigid[number]]
        return not mine or self.table.is_legal(gang, mine)

    def _less(self, number: int, kept: Collection[int]) -> list[int]:
        """Smaller units of the same gang that do as well as this one; nothing when there are none.

        Few of them: every choice, the fewest first. Many: as many as may go together.
        """
        table = self.table
        others = [other for other in kept if other != number]
        goes = {spot for other in others if table.gang[other] == table.gang[number] for spot in table[other].pods}
        smaller = [
            other
            for other in table.siblings(number)
            if table.left[other] and table.kind[other] < table.kind[number] and not goes.issuperset(table[other].pods)
        ]
        # Those first that are where the gang would be.
        here = {int(table.unit[row]) for row in table.rows(smaller) if int(table.node[row]) in self._trial.where}
        smaller.sort(key=lambda one: (one not in here, int(table.kind[one]), int(table.age[one])))
        gang = int(table.gang[number])
        if len(smaller) <= _FEW_SMALLER:
            sizes = range(1, len(smaller) + 1)
            choices: Iterable[Sequence[int]] = (some for size in sizes for some in combinations(smaller, size))
        else:
            chosen: list[int] = []
            for other in smaller:
                if self._is_whole(gang, [*others, *chosen, other]):
                    chosen.append(other)
            choices = [chosen] if chosen else []
        for some in choices:
            both = [*others, *some]
            if self._is_whole(gang, both) and self._trial.fits(both) and self.question.rights.all_legal(both):
                return list(some)
        return []

    def _classes(self, units: Sequence[int]) -> dict[int, int]:
        """Single pods of one shape, alone or of one leaf, on nodes that look alike, in the same domains, are alike."""
        table, ledger = self.table, self.engine.ledger
        rows = table.rows(units)
        single = table.alone[table.unit[rows]] | (table.leaf[table.unit[rows]] != NONE)
        alike = rows[single] if not self.question.moves else rows[:0]
        found = {number: -1 - number for number in units}
        if not len(alike):
            return found
        nodes = table.node[alike]
        gang = self.question.progress.gang
        self._trial.give(units)
        columns = [*ledger.free[:, nodes], table.shape[alike], table.leaf[table.unit[alike]]]
        self._trial.take_back()
        columns += [self.snapshot.allowed_soon[shape][nodes] for shape in {batch.shape for batch in gang.waiting}]
        for topology in {hold.topology for hold in gang.holds}:
            columns += [level.domain_of[nodes] for level in self.snapshot.topologies[topology].levels]
        _, classes = np.unique(np.array(columns), axis=1, return_inverse=True)
        found.update(zip(table.unit[alike].tolist(), classes.ravel().tolist(), strict=True))
        return found

    def _gives(self, pool: Numbers) -> Callable[[Collection[int]], bool]:
        """Asks of some units of a pool whether they may be enough: if some are, more are.

        Wherever they go, that is; or, where all could come back to their places, with homes for all: who is moved in
        vain comes back.
        """
        if not self.question.moves or len(settled(self.snapshot, self.table, pool)) < len(pool):
            return lambda units: self._trial.fits(units, homes=False)
        return lambda units: self._trial.fits(units) or not self._trial.is_refuted


def _flat(bundles: Sequence[Sequence[int]]) -> list[int]:
    return [number for bundle in bundles for number in bundle]
