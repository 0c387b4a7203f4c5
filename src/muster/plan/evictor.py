"""Evictions of a cycle: who is asked to go for whom, one action after the other, and what has gone already."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from muster.api.once import once
from muster.api.tree import NONE
from muster.plan.accounts import NOTHING, Accounts, Charge
from muster.plan.attempt import Attempt, Engine
from muster.plan.bundles import bundles_of, thinned
from muster.plan.outcome import Action, Eviction, UnitKind
from muster.plan.problem import Part, Problem
from muster.plan.progress import Bounds, Progress
from muster.plan.rights import Rights, Terms, may_ask_from_ns
from muster.plan.trial import Ask, Question
from muster.plan.units import Numbers, Table
from muster.plan.victims import EXACT, Found, Rank, Search
from muster.snapshot.arrays import Snapshot

# The order in which they are tried: whoever is moved keeps running, and a fair share comes before a priority.
_ORDER = (Action.CONSOLIDATE, Action.RECLAIM, Action.PREEMPT)


class Wanted(NamedTuple):
    """What a gang would place if there were room: a tree node's minimum, or surplus pods."""

    number: int
    progress: Progress
    row: int
    # Pods per batch, in the order in which choices of them are tried.
    choices: Sequence[Mapping[int, int]]
    ask: Callable[[Engine, Progress], Attempt]
    surplus: bool

    @property
    def counts(self) -> Mapping[int, int]:
        """Pods per batch that are tried first."""
        return self.choices[0]

    def asking(self, progress: Progress) -> Ask:
        """The attempt, for a gang that may place so much."""
        return lambda engine: self.ask(engine, progress)


def nobody(engine: Engine, progress: Progress) -> Attempt:
    """An attempt that is never made: for gangs of one pod, a look at the nodes is enough."""
    return Attempt(None)


class Served(NamedTuple):
    """A gang of one pod, the node that it is nominated to, and who goes for it; for some nobody else has to."""

    number: int
    node: int
    action: str
    units: tuple[int, ...]
    evictions: tuple[Eviction, ...]


class Sacrifice(NamedTuple):
    """Who goes for it, by which action."""

    action: str
    units: tuple[int, ...]
    evictions: tuple[Eviction, ...]
    ask: Ask


class Evictor:
    """Finds victims, and remembers who has gone and what was asked in vain."""

    def __init__(self, snapshot: Snapshot, accounts: Accounts, actions: Iterable[str]) -> None:
        self._snapshot, self._accounts = snapshot, accounts
        self._actions = [action for action in _ORDER if action in actions]
        self._known: Table | None = None
        # Gangs that got something in this cycle lose nothing in it.
        self._spared: set[int] = set()
        self._in_vain: set[object] = set()
        self._disruptions = list(snapshot.disruptions)

    @property
    def table(self) -> Table:
        """Everything that could be taken; made when somebody first asks."""
        if self._known is None:
            self._known = Table(self._snapshot)
            for number in self._spared:
                self._known.spare(number)
        return self._known

    def spare(self, number: int) -> None:
        """A gang that got something stays whole for the rest of the cycle."""
        self._spared.add(number)
        if self._known is not None:
            self._known.spare(number)

    def may_ask(self, wanted: Wanted) -> bool:
        """Whether evictions are to be thought of for this gang at all."""
        waited = self._snapshot.now_ns >= may_ask_from_ns(wanted.progress.gang)
        return bool(self._actions) and bool(wanted.choices) and waited

    def may_help(self, progress: Progress) -> bool:
        """Whether somebody might go for more of this gang: a cheap look, not a promise."""
        gang = progress.gang
        for action in self._actions:
            if action == Action.CONSOLIDATE:
                continue
            if action == Action.RECLAIM:
                for shape in dict.fromkeys(batch.shape for batch in gang.waiting):
                    terms = Terms(gang, self._accounts.cost([(shape, 1)]), self._accounts)
                    others = [queue for queue in self._largest if queue != terms.row] if terms.is_due else []
                    if any(terms.may_give(queue, terms.asked, {}) for queue in others):
                        return True
            elif self._lowest.get(gang.queue, gang.priority) < gang.priority:
                return True
        return False

    def is_undisturbed(self, evictions: Iterable[Eviction]) -> bool:
        """Whether every disruption budget allows that these go."""
        left = list(self._disruptions)
        for one in evictions:
            for guard in self._guards_of(one):
                left[guard] -= 1
        return min(left, default=0) >= 0

    def find(self, wanted: Wanted, engine: Engine) -> Sacrifice | None:
        """The victims of the first action that finds some; the engine's ledger is left as it was."""
        if not self.may_ask(wanted):
            return None
        for action in self._actions:
            if action == Action.CONSOLIDATE and wanted.surplus:
                continue
            key = self._signature(action, wanted)
            if key in self._in_vain:
                continue
            for passing in (False, True) if self._may_pass(action, wanted) else (False,):
                # Disruption budgets are passed over only where nothing else is found.
                found = self._best(action, wanted, engine, passing=passing)
                if found is not None:
                    return found
            self._in_vain.add(key)
        return None

    def _best(self, action: str, wanted: Wanted, engine: Engine, *, passing: bool) -> Sacrifice | None:
        """Of several choices of children the one that does the least harm."""
        best: tuple[Rank, Found, Charge, Ask] | None = None
        for counts, ask in self._questions(wanted):
            found = self._search(action, wanted, counts, ask, engine, passing=passing)
            if found is not None and (best is None or found[0] < best[0]):
                best = (*found, self._cost(wanted, counts), ask)
        if best is None:
            return None
        _, chosen, cost, ask = best
        rights = self.rights(action, wanted, self._terms(wanted, cost), passing=passing)
        evictions = self._marked(self._evictions(rights, wanted.number, chosen))
        return Sacrifice(action, chosen.units, evictions, ask if chosen.takings is None else chosen.take)

    def _may_pass(self, action: str, wanted: Wanted) -> bool:
        """Whether a queue of the gang asks that disruption budgets be passed over, and pods may be deleted."""
        asks = action == Action.RECLAIM and self._snapshot.may_delete
        return asks and self._terms(wanted, NOTHING).may_ignore_budgets

    def _marked(self, evictions: Iterable[Eviction]) -> tuple[Eviction, ...]:
        """With the budgets that do not allow all of it: whatever counts in one of these is deleted."""
        found = tuple(evictions)
        drawn = Counter(guard for one in found for guard in self._guards_of(one))
        over = {guard for guard, pods in drawn.items() if pods > self._disruptions[guard]}
        if not over:
            return found
        passed = (tuple(guard for guard in self._guards_of(one) if guard in over) for one in found)
        return tuple(one._replace(passed=guards) for one, guards in zip(found, passed, strict=True))

    def _guards_of(self, one: Eviction) -> tuple[int, ...]:
        placed = self._snapshot.gangs[one.gang].placed[one.leaf]
        return placed.guards[one.pod] if placed.guards else ()

    def _questions(self, wanted: Wanted) -> Iterator[tuple[Mapping[int, int], Ask]]:
        """What is asked: every choice of children by what it needs, because one may be within the share, or fit."""
        waiting = wanted.progress.gang.waiting
        seen: set[object] = set()
        for counts in wanted.choices:
            needs = tuple(sorted((waiting[batch].shape, pods) for batch, pods in counts.items()))
            if needs not in seen:
                seen.add(needs)
                within = wanted.progress.within(partial(self._costs_no_more, wanted, self._cost(wanted, counts)))
                yield counts, wanted.asking(within)

    def _costs_no_more(self, wanted: Wanted, most: Charge, counts: Mapping[int, int]) -> bool:
        return all(cost <= limit for cost, limit in zip(self._cost(wanted, counts), most, strict=True))

    def is_open(self, action: str, wanted: Wanted, engine: Engine) -> bool:
        """Whether an action has not been tried in vain for such a gang."""
        if action not in self._actions:
            return False
        if action == Action.CONSOLIDATE and not self._has_room_in_all(wanted, wanted.counts, engine):
            return False
        return self._signature(action, wanted) not in self._in_vain

    def find_many(self, wanted: Sequence[Wanted], engine: Engine) -> list[Served]:
        """Victims for gangs of one pod each, all of one shape, queue and priority: as many as there is somebody for.

        A node's pods are taken in the order of harm, and who goes for one gang does not go for another.
        """
        first = wanted[0]
        asked = self._cost(first, first.counts)
        for action in self._actions:
            if action == Action.CONSOLIDATE or not self.is_open(action, first, engine):
                continue
            terms = self._terms(first, asked)
            if not self._could_help(action, terms, first, first.counts, engine):
                continue
            pool = self.rights(action, first, terms).candidates
            # Where they are few, every choice is looked at, for each of them.
            served = self._serve(action, wanted, asked, pool, engine) if len(pool) > EXACT else []
            if served or self._may_pass(action, first):
                # Who may pass over disruption budgets is looked at one by one, before the next action.
                return served
        return []

    def _serve(
        self, action: str, wanted: Sequence[Wanted], asked: Charge, pool: Numbers, engine: Engine
    ) -> list[Served]:
        """Bundles in the order of harm, one after the other, each for as many gangs as it makes room for."""
        gang, table, accounts = wanted[0].progress.gang, self.table, self._accounts
        shape, row = gang.waiting[0].shape, accounts.row_of(gang) if accounts.matter else NONE
        firm = accounts.firm_more(wanted[0].progress, {0: 1}, asked)
        bundles = bundles_of(table, pool, shape, engine.ledger)
        served: list[Served] = []
        # Nodes where a bundle was not taken as it is: what comes after it was counted with it.
        broken: set[int] = set()
        for units, gain, node in zip(bundles, bundles.gain.tolist(), bundles.node.tolist(), strict=True):
            serves = min(gain, len(wanted) - len(served))
            if not serves:
                break
            now = wanted[len(served)]
            thin = thinned(units, node, shape, table, engine.ledger, spare=gain - serves)
            rights = self.rights(action, now, self._terms(now, asked))
            refused = row != NONE and accounts.refusal(row, asked, firm) is not None
            if not table.alone[thin].all():
                # Part of a gang: what comes after it does more harm. The rest is looked at one by one.
                break
            if node in broken or refused or not rights.all_legal(thin):
                broken.add(node)
                continue
            if len(thin) < len(units):
                broken.add(node)
            served += self._for_bundle(rights, wanted[len(served) : len(served) + serves], node, thin, len(pool))
            self._move(served[-serves:], row, asked, firm, 1)
        self._move(served, row, asked, firm, -1)
        return served

    def _for_bundle(
        self, rights: Rights, wanted: Sequence[Wanted], node: int, units: Sequence[int], considered: int
    ) -> list[Served]:
        """The first of the gangs is who they go for; the others find room that is there then."""
        found = Found(tuple(units), {}, considered, exact=False)
        evictions = tuple(self._evictions(rights, wanted[0].number, found))
        first = Served(wanted[0].number, node, rights.action, found.units, evictions)
        return [first, *(Served(one.number, node, rights.action, (), ()) for one in wanted[1:])]

    def _move(self, served: Sequence[Served], row: int, asked: Charge, firm: Charge, sign: int) -> None:
        """Gangs come and others go in the accounts, or with sign -1 not yet: they are charged when it is decided."""
        for one in served:
            if row != NONE:
                self._accounts.charge(row, asked, firm, sign)
            for unit in one.units:
                if self._accounts.matter and self.table.queue[unit] != NONE:
                    cost = self.table.costs[unit]
                    self._accounts.charge(int(self.table.queue[unit]), cost, NOTHING, -sign)

    def _search(
        self, action: str, wanted: Wanted, counts: Mapping[int, int], ask: Ask, engine: Engine, *, passing: bool
    ) -> tuple[Rank, Found] | None:
        """The best victims for one choice of children, and how much harm it is that they go."""
        terms = self._terms(wanted, self._cost(wanted, counts))
        if not self._could_help(action, terms, wanted, counts, engine):
            return None
        rights = self.rights(action, wanted, terms, passing=passing)
        if not len(rights.candidates):
            return None
        moves = action == Action.CONSOLIDATE
        question = Question(wanted.progress, wanted.row, counts, ask, rights, moves)
        search = Search(self._snapshot, engine, self.table, self._accounts, question)
        found = search.find()
        return (search.rank(found.units), found) if found is not None else None

    def _could_help(self, action: str, terms: Terms, wanted: Wanted, counts: Mapping[int, int], engine: Engine) -> bool:
        """A cheap look before units are made of all gangs: whether there is anybody to ask, and enough to be had."""
        if action == Action.PREEMPT:
            return self._lowest.get(wanted.progress.gang.queue, wanted.progress.gang.priority) < (
                wanted.progress.gang.priority
            )
        if action == Action.CONSOLIDATE:
            return self._has_room_in_all(wanted, counts, engine)
        if not self._accounts.matter or not terms.is_due:
            return False
        largest = {queue: most for queue, most in self._largest.items() if queue != terms.row}
        return bool(largest) and self._may_be_enough(terms.most(largest), terms.asked, engine)

    @once
    def _lowest(self) -> Mapping[str, int]:
        """Per queue: the lowest priority of a gang that has something."""
        found: dict[str, int] = {}
        for queue, priority in {(gang.queue, gang.priority) for gang in self._snapshot.gangs if gang.placed}:
            found[queue] = min(priority, found.get(queue, priority))
        return found

    @once
    def _largest(self) -> Mapping[int, Sequence[int]]:
        """Per queue: the most that one gang of it holds, per charge."""
        snapshot = self._snapshot
        held = np.zeros((len(snapshot.gangs), snapshot.charges.shape[1]), dtype=np.int64)
        np.add.at(held, snapshot.placed.gang, snapshot.charges[snapshot.placed.shape])
        queues = snapshot.queue_of
        return {
            queue: held[queues == queue].max(axis=0).tolist() for queue in np.unique(queues).tolist() if queue != NONE
        }

    def _may_be_enough(self, most: Charge, asked: Charge, engine: Engine) -> bool:
        """Whether all that may be taken, and what is free, is as much as is asked for."""
        ledger, resources = engine.ledger, self._snapshot.resources
        free = [0] * len(asked)
        for column, resource in enumerate(resources):
            charge, each = self._snapshot.costs.of(resource)
            if charge != NONE:
                amount = int(ledger.free[column].clip(min=0).sum(dtype=int)) * int(ledger.units[column])
                free[charge] += amount * each
        return all(need <= have + more for need, have, more in zip(asked, free, most, strict=True))

    def _terms(self, wanted: Wanted, asked: Charge) -> Terms:
        return Terms(wanted.progress.gang, asked, self._accounts)

    def rights(self, action: str, wanted: Wanted, terms: Terms, *, passing: bool = False) -> Rights:
        """The rules of an action for this gang."""
        return Rights(action, wanted.number, terms, self.table, self._snapshot, self._disruptions, passing=passing)

    def _cost(self, wanted: Wanted, counts: Mapping[int, int]) -> Charge:
        waiting = wanted.progress.gang.waiting
        return self._accounts.cost((waiting[batch].shape, pods) for batch, pods in counts.items())

    def _has_room_in_all(self, wanted: Wanted, counts: Mapping[int, int], engine: Engine) -> bool:
        """Whether there is enough of everything, were it in the right place: who is moved needs as much as before."""
        ledger, waiting = engine.ledger, wanted.progress.gang.waiting
        need = sum(ledger.asks[waiting[batch].shape].astype(int) * pods for batch, pods in counts.items())
        return bool((ledger.free.clip(min=0).sum(axis=1, dtype=int) >= need).all())

    def _signature(self, action: str, wanted: Wanted) -> object:
        """What is asked, whoever asks; where there is a choice of children, nobody asks the same."""
        gang, nodes = wanted.progress.gang, wanted.progress.gang.tree.nodes
        parts = [Part(gang.waiting[b].leaf, gang.waiting[b].shape, n) for b, n in wanted.counts.items()]
        question = Problem(parts, Bounds(wanted.progress, wanted.row).required).signature(rows=False)
        choice = any(node.minimum < len(node.children) or node.floor for node in nodes)
        who = wanted.number if choice or gang.placed else -1
        return action, gang.queue, gang.priority, gang.preemptibility, wanted.surplus, who, question

    def _evictions(self, rights: Rights, beneficiary: int, found: Found) -> Iterable[Eviction]:
        """Every pod once, under the largest unit that takes it, with what allows it."""
        table, homes, action, grounds = self.table, found.homes, rights.action, rights.grounds(found.units)
        seen: set[tuple[int, int, int]] = set()
        numbers = np.array(found.units, dtype=np.int64)
        numbers = numbers[np.lexsort((table.age[numbers], -table.kind[numbers]))]
        how = (found.considered, found.exact)
        columns = (numbers, table.gang[numbers], table.alone[numbers])
        for number, gang, alone in zip(*(column.tolist() for column in columns), strict=True):
            if alone:
                home = homes.get((gang, 0, 0), NONE)
                whole = (UnitKind.WHOLE_GANG, 0, home, *how)
                yield Eviction(gang, 0, 0, action, beneficiary, *whole, grounds[number])
                continue
            unit = table[number]
            for leaf, at in table.spots(number):
                spot = (unit.gang, leaf, at)
                if spot not in seen:
                    seen.add(spot)
                    yield Eviction(
                        *(unit.gang, leaf, at, action, beneficiary, UnitKind(unit.kind), unit.row),
                        *(homes.get(spot, NONE), *how, grounds[number]),
                    )

    def take(self, units: Sequence[int], evictions: Iterable[Eviction]) -> None:
        """These go."""
        self.table.take(units)
        for eviction in evictions:
            for guard in self._guards_of(eviction):
                # What is passed over is spent, and not less than that.
                self._disruptions[guard] = max(0, self._disruptions[guard] - 1)
