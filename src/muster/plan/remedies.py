"""What would make a gang fit. Every remedy was run through the engine and works; none is a guess.

A remedy is looked for with the gang alone, on the room as the cycle leaves it; what is found is run once more with
everybody whose turn comes before, so that nobody else takes what it frees. Where pods go, their owners create them
again at once: the remedy is only one if the gang has its room, and keeps it, all the same. All of it has a budget of
steps.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

import numpy as np

from muster.api.tree import NONE, Tree, core, minimum_pods
from muster.plan.clearing import RESERVED_NS
from muster.plan.cycle import Policy, schedule
from muster.plan.outcome import Outcome, Plan, Verdict
from muster.plan.proof import Certificate, Choices, Exhausted, Proof
from muster.plan.tally import gang_after
from muster.plan.units import without
from muster.snapshot.arrays import Batch, Clearance, Gang, Hold, Snapshot
from muster.snapshot.draining import EVERYTHING_GOES, Draining
from muster.snapshot.room import Amounts
from muster.snapshot.selectors import Mask

Thing = TypeVar("Thing")

UNCORDON, EVICT, RELAX, LOWER, FREE = "uncordon", "evict", "relax", "lower", "free"
# Steps that all trials together may cost, and those of one trial.
_ALL_STEPS, _TRIAL_STEPS = 13_000, 1_000
# Nobody empties more nodes, or deletes more pods, than this for one gang.
_MOST_FREED, _MOST_EVICTED = 16, 64
# So many of the nearest domains are tried with their nodes emptied, before all nodes are.
_MOST_DOMAINS = 3
# The name of a request that is only tried.
_TRIAL = ("", "")
# When those whose turn comes before cost more steps, they are not run again.
_MOST_BEFORE = 3_000


class Victim(NamedTuple):
    """A placed pod of another gang that its minimum does not need."""

    gang: int
    leaf: int
    pod: int


class Remedy(NamedTuple):
    """A change after which the gang's minimum is placed at once.

    `uncordon`, `free`: nodes. `evict`: victims. `relax`: the `hold` needs `level` instead of `before`; with NONE it is
    only preferred. `lower`: the minimum of `row`, or the floor of a root that has one, becomes `level` instead of
    `before`. `in_turn` is whether those whose turn comes before were run with it, too. `forced`: on the nodes are pods
    that no controller creates again.
    """

    kind: str
    nodes: tuple[int, ...] = ()
    victims: tuple[Victim, ...] = ()
    row: int = NONE
    hold: int = NONE
    before: int = NONE
    level: int = NONE
    in_turn: bool = True
    forced: bool = False


def remedies(
    plan: Plan, number: int, policy: Policy | None = None, most: int = 3, draining: Draining = EVERYTHING_GOES
) -> tuple[Remedy, ...]:
    """Up to `most` changes, the gentlest first, one of each kind.

    They make the minimum fit; or, when that is placed, the first child that waits beyond it. `draining` says what stays
    on a node that is cleared.
    """
    row = _asked_about(plan, number)
    if row == NONE:
        return ()
    trial = _Trial(plan, number, row, policy or Policy(), draining)
    found: list[Remedy] = []
    looks = (trial.uncordon, trial.evict, trial.relax, trial.lower, trial.free)
    for at, look in enumerate(looks):
        trial.share(len(looks) - at)
        remedy = look()
        remedy = trial.in_turn(remedy) if remedy is not None else None
        if remedy is not None:
            found.append(remedy)
        if len(found) == most:
            break
    return tuple(found)


class Making(NamedTuple):
    """Victims for a gang, and the plan of the cycle that reserves their room for it."""

    remedy: Remedy
    reserves: Plan


def making_room(plan: Plan, number: int, policy: Policy | None = None) -> Making | None:
    """The surplus of other gangs that would have to go for a gang's minimum, when that helps and lasts."""
    if _asked_about(plan, number) != 0:
        return None
    policy = policy or Policy()
    trial = _Trial(plan, number, 0, policy, EVERYTHING_GOES)
    trial.share(1)
    found = trial.evict()
    remedy = trial.in_turn(found) if found is not None else None
    if remedy is None:
        return None
    asked = _clearance(plan.snapshot, number, remedy)
    reserves, _ = schedule(replace(plan.snapshot, clearances=(asked, *plan.snapshot.clearances)), policy)
    return Making(remedy, reserves)


def _clearance(snapshot: Snapshot, number: int, remedy: Remedy) -> Clearance:
    """An EvictionRequest for the victims of a remedy, as a cycle sees it."""
    victims = tuple(sorted((one.gang, one.leaf, one.pod) for one in remedy.victims))
    return Clearance(_TRIAL, "", number, victims, snapshot.now_ns + RESERVED_NS)


def _asked_about(plan: Plan, number: int) -> int:
    """The root when the minimum does not fit, else the first child beyond it that has its pods and no room."""
    gang, outcome = plan.snapshot.gangs[number], plan.outcomes[number]
    if outcome.verdict in (Verdict.INFEASIBLE, Verdict.UNDECIDED):
        return 0
    if outcome.verdict is Verdict.HELD or not outcome.satisfied:
        return NONE
    nominated = {
        gang.waiting[placement.batch].leaf
        for placement in plan.placements
        if placement.gang == number and placement.nominated
    }
    for row, node in enumerate(gang.tree.nodes[1:], start=1):
        if outcome.rows[row].satisfied or not gang.ready[row] or not outcome.rows[node.parent].satisfied:
            continue
        if _is_whole(gang, outcome, node.parent) and not nominated.intersection(gang.tree.leaves_below(row)):
            return row
    return NONE


def _is_whole(gang: Gang, outcome: Outcome, row: int) -> bool:
    """Whether a tree node and all around it are satisfied: otherwise nobody tries what is below it."""
    while row != NONE:
        if not outcome.rows[row].satisfied:
            return False
        row = gang.tree.nodes[row].parent
    return True


class _Trial:
    """The gang alone, on the room that is left, with what it was given in the cycle."""

    def __init__(self, plan: Plan, number: int, row: int, policy: Policy, draining: Draining) -> None:
        self._draining = draining
        self._plan, self._number, self._row = plan, number, row
        # Beyond the minimum, the other surplus is not asked about.
        steps = min(policy.steps_per_gang, _TRIAL_STEPS)
        self._policy = replace(policy, surplus=row != 0, steps_per_gang=steps)
        self._full_policy = replace(policy, steps_per_gang=max(steps, min(policy.steps_per_gang, 2 * _TRIAL_STEPS)))
        # A preference prevents nothing, and is not asked about.
        gang = gang_after(plan, number)
        self._gang = replace(gang, holds=tuple(hold._replace(preferred=NONE) for hold in gang.holds))
        self._leaves = frozenset(gang.tree.leaves_below(row))
        snapshot = plan.snapshot
        free = snapshot.free.copy()
        for placement in plan.placements:
            ask = snapshot.asks[snapshot.gangs[placement.gang].waiting[placement.batch].shape]
            np.subtract.at(free, list(placement.nodes), ask)
        self._left = replace(snapshot, free=free, releasing=np.zeros_like(snapshot.releasing))
        # What pods hold of every node; those that terminate are gone no sooner when they are deleted again.
        self._held = snapshot.allocatable - snapshot.free - snapshot.releasing - draining.amounts(snapshot)
        self._spent, self._limit = 0, _ALL_STEPS
        # What a trial costs even if its search is short.
        self._least = 50 + len(snapshot.nodes) * len(gang.waiting) // 500

    def share(self, among: int) -> None:
        """The next look may spend its share of the steps that are left."""
        self._limit = self._spent + max(0, _ALL_STEPS - self._spent) // among

    def _run(self, snapshot: Snapshot, gang: Gang | None = None) -> Plan | None:
        """The plan for the gang alone; None when all steps are spent."""
        if self._spent >= self._limit:
            return None
        plan, _ = schedule(replace(snapshot, gangs=(gang or self._gang,)), self._policy)
        self._spent += self._least + plan.outcomes[0].steps
        return plan

    def _fits(self, snapshot: Snapshot, gang: Gang | None = None) -> Plan | None:
        """The plan for the gang alone, if it satisfies the tree node that this is about."""
        plan = self._run(snapshot, gang)
        return plan if plan is not None and self._satisfies(plan.outcomes[0]) else None

    def _satisfies(self, outcome: Outcome) -> bool:
        return outcome.satisfied and outcome.rows[self._row].satisfied

    def in_turn(self, remedy: Remedy) -> Remedy | None:
        """The remedy, if the gang also fits when those whose turn comes before have had theirs in the changed world.

        Of gangs that lose pods the replacements wait, too.
        """
        gangs = self._plan.snapshot.gangs
        turn = self._turn(self._number, surplus=self._row != 0)
        before = [
            number
            for number in self._plan.snapshot.waiting
            if number != self._number and (self._turn(number, surplus=False) < turn or gangs[number].nominated)
        ]
        if sum(self._plan.outcomes[number].steps for number in before) > _MOST_BEFORE:
            before, remedy = [], remedy._replace(in_turn=False)
            if remedy.kind not in (EVICT, FREE):
                return remedy
        snapshot = self._changed(remedy)
        kept = frozenset((*before, self._number, *self._losers(remedy)))
        if remedy.kind == EVICT:
            return remedy if self._survives(remedy, snapshot, kept) else None
        plan = self._cycle(snapshot, kept)
        return remedy if self._satisfies(plan.outcomes[self._number]) else None

    def _cycle(self, snapshot: Snapshot, kept: Collection[int]) -> Plan:
        """One cycle for the gangs that are `kept`: those that come later take nothing from them."""
        gangs = (replace(gang, waiting=()) if at not in kept else gang for at, gang in enumerate(snapshot.gangs))
        return schedule(replace(snapshot, gangs=tuple(gangs)), self._full_policy)[0]

    def _survives(self, remedy: Remedy, emptied: Snapshot, kept: Collection[int]) -> bool:
        """Whether an EvictionRequest for the victims is granted, and the gang then gets their room and keeps it.

        `emptied` is the cluster without the victims, with their replacements.
        """
        snapshot, number = self._plan.snapshot, self._number
        asked = _clearance(snapshot, number, remedy)
        first = self._cycle(replace(snapshot, clearances=(asked, *snapshot.clearances)), kept)
        if first.outcomes[number].verdict is not Verdict.PLACED or any(one.name == _TRIAL for one in first.answers):
            return False
        gangs = list(emptied.gangs)
        gangs[number] = _nominated(first, number)
        second = self._cycle(replace(emptied, gangs=tuple(gangs)), kept)
        if not second.outcomes[number].satisfied:
            return False
        # The replacements still wait. Neither they nor others may take the room back.
        third = self._cycle(_carried_out(second), kept)
        return not any(one.gang == number for plan in (second, third) for one in plan.evictions)

    def _losers(self, remedy: Remedy) -> set[int]:
        """The gangs that lose pods."""
        if remedy.kind == FREE:
            placed = self._plan.snapshot.placed
            return set(placed.gang[np.isin(placed.node, remedy.nodes)].tolist())
        return {victim.gang for victim in remedy.victims}

    def _turn(self, number: int, *, surplus: bool) -> tuple[int, bool, tuple[int, str, str]]:
        """When a gang is tried, as the cycle orders it; what is satisfied already only waits for surplus."""
        gang = self._plan.snapshot.gangs[number]
        return -gang.priority, surplus or gang.satisfied[0], gang.order

    def _changed(self, remedy: Remedy) -> Snapshot:
        """The snapshot of the cycle with what the remedy says."""
        snapshot = self._plan.snapshot
        gangs = list(snapshot.gangs)
        mine = gangs[self._number]
        if remedy.kind == UNCORDON:
            return _opened(snapshot, _only(snapshot.behind_cordons, remedy.nodes))
        if remedy.kind == RELAX:
            holds = _relaxed(mine.holds, remedy.hold, remedy.level)
            gangs[self._number] = replace(mine, holds=holds)
        elif remedy.kind == LOWER:
            gangs[self._number] = replace(mine, tree=_with_minimum(mine.tree, remedy.row, remedy.level))
        free = snapshot.free.copy()
        if remedy.kind == EVICT:
            for victim in remedy.victims:
                free[_node(snapshot, victim)] += _ask(snapshot, victim)
            for number in {victim.gang for victim in remedy.victims}:
                gone = {(victim.leaf, victim.pod) for victim in remedy.victims if victim.gang == number}
                gangs[number] = _refilled(gangs[number], gone)
        elif remedy.kind == FREE:
            nodes = list(remedy.nodes)
            free[nodes] += self._held[nodes]
            for number, gang in enumerate(gangs):
                here = ((leaf, at, node) for leaf, on in gang.placed.items() for at, node in enumerate(on.nodes))
                gone = {(leaf, at) for leaf, at, node in here if node in nodes}
                gangs[number] = _refilled(gang, gone) if gone else gang
        return replace(snapshot, free=free, gangs=tuple(gangs))

    def _with_room(self, free: Amounts) -> Snapshot:
        return replace(self._left, free=free)

    def _used(self, plan: Plan) -> dict[int, Amounts]:
        """What is asked of each node."""
        asked: dict[int, Amounts] = {}
        for placement in plan.placements:
            ask = plan.snapshot.asks[plan.snapshot.gangs[0].waiting[placement.batch].shape]
            for node in placement.nodes:
                asked[node] = asked.get(node, 0) + ask
        return asked

    def _short(self, plan: Plan) -> list[int]:
        """The nodes that the plan uses and that have too little as they are."""
        return [node for node, asked in self._used(plan).items() if (self._left.free[node] < asked).any()]

    def _spare(self, things: Sequence[Thing], snapshot_with: Callable[[Sequence[Thing]], Snapshot]) -> list[Thing]:
        """The things without those that are not needed: halves, then smaller groups, at last each one by itself.

        What is left out stays out if it still fits; where the steps are spent, the rest stays in.
        """
        needed = list(things)
        size = max(1, len(needed) // 2)
        while self._spent < self._limit:
            at = 0
            while at < len(needed) and self._spent < self._limit:
                fewer = needed[:at] + needed[at + size :]
                if self._fits(snapshot_with(fewer)) is not None:
                    needed = fewer
                else:
                    at += size
            if size == 1:
                break
            size //= 2
        return needed

    def uncordon(self) -> Remedy | None:
        """Nodes that only a cordon keeps the gang from."""
        behind = {
            shape: mask
            for shape, mask in self._left.behind_cordons.items()
            if mask.any() and any(batch.shape == shape for batch in self._gang.waiting)
        }
        plan = self._fits(_opened(self._left, behind)) if behind else None
        if plan is None:
            return None
        nodes = [node for node in self._used(plan) if any(mask[node] for mask in behind.values())]
        nodes = self._spare(nodes, lambda some: _opened(self._left, _only(behind, some)))
        return Remedy(UNCORDON, tuple(sorted(nodes)))

    def evict(self) -> Remedy | None:
        """Surplus of gangs that allow it and have no higher priority, no more than is needed.

        Only for a minimum: room that an EvictionRequest reserves is for one.
        """
        if self._row:
            return None
        snapshot = self._plan.snapshot
        allowed = np.any([snapshot.allowed[batch.shape] for batch in self._gang.waiting], axis=0)
        units = [unit for unit in self._surplus() if any(allowed[_node(snapshot, victim)] for victim in unit)]
        plan = self._fits(self._with_room(self._without(units))) if units else None
        if plan is None:
            return None
        short = frozenset(self._short(plan))
        near = [unit for unit in units if any(_node(snapshot, victim) in short for victim in unit)]
        # Who is dearest is spared first.
        near.sort(key=lambda unit: (-snapshot.gangs[unit[0].gang].priority, -len(unit), unit))
        needed = self._spare(near, lambda some: self._with_room(self._without(some)))
        victims = sorted(victim for unit in needed for victim in unit)
        return Remedy(EVICT, victims=tuple(victims)) if len(victims) <= _MOST_EVICTED else None

    def _surplus(self) -> Iterator[tuple[Victim, ...]]:
        """Units that may go by themselves: an extra pod of a leaf, newest first, or a whole extra child.

        Reserved room is closed to gangs of the same priority, whenever they were created, and open to higher ones. Pods
        that a disruption budget keeps are passed over.
        """
        priority, budgets = self._gang.priority, self._plan.snapshot.disruptions
        for number, gang in enumerate(self._plan.snapshot.gangs):
            firm = gang.held or gang.is_firm or not gang.satisfied[0]
            if number == self._number or firm or not gang.placed or gang.priority > priority:
                continue
            rows = range(len(gang.tree.nodes))
            placed = gang.placed_pods
            needed = core(gang.tree, placed, gang.succeeded_pods, gang.was_core, gang.joined)
            if needed.floor_pods:
                continue
            for row in reversed(rows):
                node = gang.tree.nodes[row]
                if not needed.nodes[row] and needed.nodes[node.parent]:
                    leaves = gang.tree.leaves_below(row)
                    pods = tuple(Victim(number, leaf, pod) for leaf in leaves for pod in range(placed[leaf]))
                    if pods and not any(_is_guarded(gang, one, budgets) for one in pods):
                        yield pods
                elif needed.nodes[row] and not node.children:
                    for pod in range(placed[row] - 1, needed.pods[row] - 1, -1):
                        if not _is_guarded(gang, Victim(number, row, pod), budgets):
                            yield (Victim(number, row, pod),)

    def _without(self, units: Sequence[Sequence[Victim]]) -> Amounts:
        snapshot = self._plan.snapshot
        free = self._left.free.copy()
        placed = [(snapshot.gangs[one.gang].placed[one.leaf], one.pod) for unit in units for one in unit]
        np.add.at(free, [on.nodes[pod] for on, pod in placed], snapshot.asks[[on.shapes[pod] for on, pod in placed]])
        return free

    def relax(self) -> Remedy | None:
        """A wider level on one tree node, as narrow as it can be; the one that fails and its siblings come first."""
        holds, nodes, culprits = self._gang.holds, self._gang.tree.nodes, self._culprits()
        asked = [
            at for at, hold in enumerate(holds) if hold.required != NONE and not self._leaves.isdisjoint(hold.leaves)
        ]
        if not asked or self._is_hopeless(replace(self._gang, holds=())):
            return None
        row_of, near = [hold.row for hold in holds], culprits[1:2]
        asked.sort(
            key=lambda at: (row_of[at] != culprits[0], nodes[row_of[at]].parent not in near, -holds[at].required)
        )
        for wider in range(1, max(holds[at].required for at in asked) + 2):
            for at in asked:
                level = holds[at].required - wider
                if level >= NONE and self._relaxes(at, level):
                    return Remedy(RELAX, row=holds[at].row, hold=at, before=holds[at].required, level=level)
        return None

    def _is_hopeless(self, gang: Gang) -> bool:
        """Whether it is certain that not even this gang fits."""
        plan = self._run(self._left, gang)
        return plan is not None and plan.outcomes[0].verdict is Verdict.INFEASIBLE

    def _relaxes(self, at: int, level: int) -> bool:
        hold = self._gang.holds[at]._replace(required=level)
        holds = (*self._gang.holds[:at], hold, *self._gang.holds[at + 1 :])
        return self._fits(self._left, replace(self._gang, holds=holds)) is not None

    def _culprits(self) -> list[int]:
        """The tree node that fails first, and those around it up to the one that this is about."""
        outcome, nodes = self._plan.outcomes[self._number], self._gang.tree.nodes
        certificate = _first(outcome.proof)
        found = certificate.row if isinstance(certificate, Certificate) else NONE
        for reason in outcome.reasons if self._row or found == NONE else ():
            apart = self._leaves.isdisjoint(self._gang.tree.leaves_below(reason.row))
            if not apart and bool(self._row) == reason.surplus:
                found = reason.row
                break
        chain = []
        while found != NONE:
            chain.append(found)
            found = nodes[found].parent
        return chain[: chain.index(self._row) + 1] if self._row in chain else [self._row]

    def lower(self) -> Remedy | None:
        """A smaller minimum of one tree node, as large as it can be: of the one that fails, else of one above it.

        When it is not known which one fails, of a leaf.
        """
        tree = self._gang.tree
        chain = self._culprits()
        if tree.nodes[chain[0]].children:
            leaves = [leaf for leaf in sorted(self._leaves) if not self._gang.satisfied[leaf]]
            chain = [*leaves, *chain]
        for row in dict.fromkeys(chain):
            before = tree.nodes[row].floor or tree.nodes[row].minimum
            found = self._largest_minimum(row, before)
            if found:
                return Remedy(LOWER, row=row, before=before, level=found)
        return None

    def _largest_minimum(self, row: int, before: int) -> int:
        """The largest minimum below the present one with which the gang fits; 0 when there is none."""
        tree = self._gang.tree
        # A floor below what the children need says nothing.
        pods = minimum_pods(tree)
        low = max(1, sum(pods[child] for child in tree.nodes[row].children)) if tree.nodes[row].floor else 1
        if low >= before or not self._lowers(row, low):
            return 0
        high = before - 1
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self._lowers(row, middle) else (low, middle - 1)
        return low

    def _lowers(self, row: int, minimum: int) -> bool:
        gang = replace(self._gang, tree=_with_minimum(self._gang.tree, row, minimum))
        return self._fits(self._left, gang) is not None

    def free(self) -> Remedy | None:
        """Nodes to be emptied, in the nearest domains if there are any; never of the gang's own pods."""
        own = {node for placed in self._gang.placed.values() for node in placed.nodes}
        for places in (*self._nearby(), range(len(self._left.nodes))):
            plan = self._fits(self._emptied([node for node in places if node not in own]))
            if plan is not None:
                fullest = sorted(self._short(plan), key=lambda node: (-int(self._held[node].sum()), node))
                nodes = self._spare(fullest, self._emptied)
                forced = any(self._left.nodes[node] in self._draining.bare for node in nodes)
                found = Remedy(FREE, tuple(sorted(nodes)), forced=forced)
                return found if len(nodes) <= _MOST_FREED else None
        return None

    def _emptied(self, nodes: Sequence[int]) -> Snapshot:
        """What the cycle has given away stays given away."""
        free = self._left.free.copy()
        free[list(nodes)] += self._held[list(nodes)]
        return self._with_room(free)

    def _nearby(self) -> Iterator[list[int]]:
        """The nodes of the domains that come nearest."""
        outcome = self._plan.outcomes[self._number]
        proof = _first(outcome.proof)
        near = [(one.topology, one.level, one.domain) for one in outcome.reasons if one.surplus == bool(self._row)]
        if isinstance(proof, Certificate | Exhausted):
            near += [(one.topology, one.level, one.domain) for one in proof.near]
        if isinstance(proof, Certificate):
            near += [(proof.topology, proof.level, one.domain) for one in proof.shortages]
        known = [one for one in dict.fromkeys(near) if NONE not in one]
        for topology, level, domain in known[:_MOST_DOMAINS]:
            yield [int(node) for node in self._left.topologies[topology].nodes_of(level, domain)]


def _is_guarded(gang: Gang, victim: Victim, budgets: Sequence[int]) -> bool:
    """Whether a disruption budget lets no pod go that this one counts in."""
    placed = gang.placed[victim.leaf]
    return bool(placed.guards) and any(budgets[guard] <= 0 for guard in placed.guards[victim.pod])


def _refilled(gang: Gang, gone: Collection[tuple[int, int]]) -> Gang:
    """The gang when some of its pods are gone and their owner has created them again: they wait, as the youngest."""
    left = without(gang, gone)
    batches = {(batch.leaf, batch.shape): batch for batch in gang.waiting}
    last = max((age for batch in gang.waiting for age in batch.ages), default=0)
    last = max((age for placed in gang.placed.values() for age in placed.ages), default=last)
    for number, (leaf, pod) in enumerate(sorted(gone), start=last + 1):
        shape, name = gang.placed[leaf].shapes[pod], gang.placed[leaf].pods[pod]
        batch = batches.get((leaf, shape), Batch(leaf, shape, (), (), ()))
        batches[leaf, shape] = batch._replace(
            pods=(*batch.pods, f"{name} again"), ages=(*batch.ages, number), nominated=(*batch.nominated, NONE)
        )
    waiting = sorted(batches.values(), key=lambda batch: (batch.leaf, batch.ages[0]))
    return replace(left, waiting=tuple(waiting))


def _nominated(plan: Plan, number: int) -> Gang:
    """The gang with the room that the plan reserves for it, as the status of its pods says it then."""
    gang = plan.snapshot.gangs[number]
    nodes = [[NONE] * len(batch.pods) for batch in gang.waiting]
    for placement in plan.placements:
        for pod, node in zip(placement.pods, placement.nodes, strict=True) if placement.gang == number else ():
            nodes[placement.batch][pod] = node
    waiting = (batch._replace(nominated=tuple(found)) for batch, found in zip(gang.waiting, nodes, strict=True))
    return replace(gang, waiting=tuple(waiting), nominated_since_ns=plan.snapshot.now_ns)


def _carried_out(plan: Plan) -> Snapshot:
    """The cluster when the pods of a plan are bound. What it evicts, or reserves, is left as it is."""
    snapshot, free = plan.snapshot, plan.snapshot.free.copy()
    for placement in plan.placements:
        if not placement.nominated:
            ask = snapshot.asks[snapshot.gangs[placement.gang].waiting[placement.batch].shape]
            np.subtract.at(free, list(placement.nodes), ask)
    placed = {placement.gang for placement in plan.placements}
    gangs = (gang_after(plan, at) if at in placed else gang for at, gang in enumerate(snapshot.gangs))
    return replace(snapshot, free=free, gangs=tuple(gangs), clearances=())


def _first(proof: Proof | None) -> Proof | None:
    """What was said of the way to meet the minimum that is preferred."""
    return proof.refuted[0] if isinstance(proof, Choices) else proof


def _relaxed(holds: Sequence[Hold], at: int, level: int) -> tuple[Hold, ...]:
    """A level that is required no more is preferred, unless another is."""
    hold = holds[at]
    wish = hold.required if level == NONE and hold.preferred == NONE else hold.preferred
    return (*holds[:at], hold._replace(required=level, preferred=wish), *holds[at + 1 :])


def _node(snapshot: Snapshot, victim: Victim) -> int:
    return snapshot.gangs[victim.gang].placed[victim.leaf].nodes[victim.pod]


def _ask(snapshot: Snapshot, victim: Victim) -> Amounts:
    asked: Amounts = snapshot.asks[snapshot.gangs[victim.gang].placed[victim.leaf].shapes[victim.pod]]
    return asked


def _opened(snapshot: Snapshot, masks: Mapping[int, Mask]) -> Snapshot:
    """Some pods may go to some more nodes."""
    allowed = {shape: mask | masks[shape] if shape in masks else mask for shape, mask in snapshot.allowed.items()}
    return replace(snapshot, allowed=allowed)


def _only(masks: Mapping[int, Mask], nodes: Sequence[int]) -> dict[int, Mask]:
    keep = np.zeros(len(next(iter(masks.values()))), dtype=bool)
    keep[list(nodes)] = True
    return {shape: mask & keep for shape, mask in masks.items()}


def _with_minimum(tree: Tree, row: int, minimum: int) -> Tree:
    """The tree with another minimum of one tree node; of a root with a floor, with another floor."""
    node = tree.nodes[row]
    changed = node._replace(floor=minimum) if node.floor else node._replace(minimum=minimum)
    return Tree((*tree.nodes[:row], changed, *tree.nodes[row + 1 :]), tree.together)
