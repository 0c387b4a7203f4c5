"""The independent checker (SPEC §11): judges decisions by the snapshot alone and shares no code with what made them."""

from collections import Counter
from collections.abc import Collection, Sequence

import numpy as np

from muster.api.tree import NONE, satisfied
from muster.plan.leaving import Charged, Leaving
from muster.plan.outcome import Action, Eviction, Placement
from muster.snapshot.arrays import Hold, Snapshot
from muster.snapshot.room import Amounts, Rows


class Checker:
    """Keeps its own account of the room, and of where every gang's pods are."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._free = snapshot.free.copy()
        self._with_releasing = snapshot.free + snapshot.releasing
        # What evictions of this cycle free.
        self._vacated = np.zeros_like(snapshot.free)
        # Per gang: the domains that the pods of every required hold are in, and the holds of every leaf.
        self._domains: dict[int, dict[int, set[int]]] = {}
        self._holds_of: dict[int, dict[int, list[int]]] = {}
        # Gangs that were found satisfied by what is bound.
        self._satisfied: set[int] = set()
        # Pods that were bound in this cycle, by gang and leaf.
        self._counted: dict[int, dict[int, int]] = {}
        self._leaving = Leaving(snapshot)
        self._charged = Charged(snapshot)
        self._bound: dict[int, dict[int, set[int]]] = {}

    def faults(self, gang: int, placements: Sequence[Placement], evictions: Sequence[Eviction] = ()) -> list[str]:
        """What is wrong with these decisions for a gang; when nothing is, they are entered in the account.

        `evictions` make the room for it.
        """
        wrong = [*self._leaving.faults(evictions), *self._rightful([gang], evictions)] if evictions else []
        if wrong:
            return wrong
        self._leave(evictions, 1)
        wrong = self._charged.unowed(placements, evictions) or self._faults(gang, placements, evictions)
        if wrong:
            self._leave(evictions, -1)
        else:
            self._leaving.enter(evictions)
        return wrong

    def _leave(self, evictions: Sequence[Eviction], sign: int) -> None:
        """Pods leave their nodes and queues, or with sign -1 do not after all."""
        if evictions:
            self._free_up(evictions, sign)
            self._charged.leave([one for one in evictions if one.to == NONE], sign)

    def faults_of_clearing(self, gang: int, placements: Sequence[Placement], victims: Sequence[Eviction]) -> list[str]:
        """The same for room of pods that an EvictionRequest names: they hold it, and count in their queues, until they
        go. Nothing else may be decided that needs them to go.
        """
        wrong = [*self._leaving.faults(victims), *self._requested(gang, victims)]
        if not all(placement.nominated for placement in placements):
            wrong.append("a pod is bound where others are still to leave")
        if wrong:
            return wrong
        self._leave(victims, 1)
        wrong = self._faults(gang, placements, ())
        self._leave(victims, -1)
        return wrong

    def _requested(self, gang: int, victims: Sequence[Eviction]) -> list[str]:
        """Whether an open request names exactly these pods, for this gang."""
        spots = sorted((one.gang, one.leaf, one.pod) for one in victims)
        for one in self._snapshot.clearances:
            mine = one.gang == gang and not one.problem and self._snapshot.now_ns < one.until_ns
            if mine and spots == sorted(one.victims) and gang not in {number for number, _, _ in spots}:
                return []
        return ["pods are to go that nobody asked to go for it"]

    def faults_of_stale(self, evictions: Sequence[Eviction]) -> list[str]:
        """The same for pods that go for nobody, because what they belong to is below its minimum."""
        after = {one.gang: self._present(one.gang) for one in evictions}
        wrong = self._leaving.faults(evictions, stale=after)
        if not wrong:
            self._free_up(evictions, 1)
            self._leaving.enter(evictions)
        return wrong

    def _free_up(self, evictions: Sequence[Eviction], sign: int) -> None:
        gangs = self._snapshot.gangs
        here = [(gangs[one.gang].placed[one.leaf], one.pod) for one in evictions]
        asked = self._snapshot.asks[[placed.shapes[pod] for placed, pod in here]]
        for room in (self._with_releasing, self._vacated):
            np.add.at(room, [placed.nodes[pod] for placed, pod in here], sign * asked)

    def _rightful(self, winners: Collection[int], evictions: Sequence[Eviction]) -> list[str]:
        """6. Nobody is evicted without a beneficiary; preemption is for higher priorities of the same queue."""
        gangs, wrong = self._snapshot.gangs, []
        for one in evictions:
            if one.beneficiary not in winners or one.gang == one.beneficiary:
                wrong.append("a pod goes for nobody, or for itself")
                continue
            victim, winner = gangs[one.gang], gangs[one.beneficiary]
            same = victim.queue == winner.queue
            if one.action == Action.PREEMPT and not (same and victim.priority < winner.priority):
                wrong.append(f"{victim.key[1]} is preempted by one that may not")
            if one.action == Action.RECLAIM and same:
                wrong.append(f"{victim.key[1]} is reclaimed inside its own queue")
            if (one.action == Action.CONSOLIDATE) != (one.to != NONE):
                wrong.append(f"a pod of {victim.key[1]} is moved nowhere")
        return wrong

    def _moved(self, evictions: Sequence[Eviction]) -> list[str]:
        """Who is moved has a place, where it may go, where there is room, and where its gang is held together."""
        wrong = []
        left: dict[int, Amounts] = {}
        by_gang: dict[int, list[Eviction]] = {}
        for one in evictions:
            if one.to == NONE:
                continue
            by_gang.setdefault(one.gang, []).append(one)
            shape = self._snapshot.gangs[one.gang].placed[one.leaf].shapes[one.pod]
            ask = self._snapshot.asks[shape]
            room = left.get(one.to, self._with_releasing[one.to])
            forbidden = not self._snapshot.allowed_soon[shape][one.to]
            if ((ask > 0) & (room < ask)).any() or forbidden or self._is_repelled(shape, [one.to], nominated=True):
                wrong.append("a moved pod has no place")
            left[one.to] = room - ask
        return wrong + [fault for gang, moved in by_gang.items() for fault in self._apart(gang, moved)]

    def _apart(self, number: int, moved: Sequence[Eviction]) -> list[str]:
        """Required levels of a gang of which pods are moved."""
        gang, wrong = self._snapshot.gangs[number], []
        gone = {(one.leaf, one.pod) for one in moved}
        for hold in gang.holds:
            if hold.required == NONE or not any(one.leaf in hold.leaves for one in moved):
                continue
            nodes = [one.to for one in moved if one.leaf in hold.leaves]
            for leaf in hold.leaves:
                here = gang.placed[leaf].nodes if leaf in gang.placed else ()
                nodes += [
                    node
                    for at, node in enumerate(here)
                    if (leaf, at) not in gone and not self._leaving.has(number, leaf, at)
                ]
            domains = set(self._where(hold, nodes))
            if len(domains) > 1 or NONE in domains:
                wrong.append(f"{gang.key[1]} is moved apart")
        if gang.held:
            wrong.append(f"{gang.key[1]} is held and would not come back")
        return wrong

    def _faults(self, gang: int, placements: Sequence[Placement], evictions: Sequence[Eviction]) -> list[str]:
        """Judges everything, then enters everything."""
        nodes, asked = self._asked(gang, placements)
        drift, domains = self._together(gang, placements)
        found = [
            *self._room(gang, nodes, asked, nominated=any(placement.nominated for placement in placements)),
            *self._shapes(gang, placements),
            *self._pods(gang, placements),
            *drift,
            *self._whole(gang, placements),
            *self._charged.faults(gang, placements),
        ]
        if self._snapshot.gangs[gang].held:
            found.append("the gang is held")
        if found:
            return found
        self._with_releasing[nodes] -= asked
        found = self._moved(evictions) if evictions else []
        if found:
            self._with_releasing[nodes] += asked
            return found
        self._free[nodes] -= asked
        self._domains[gang].update(domains)
        self._charged.enter(gang, placements)
        self._enter(gang, placements)
        for one in evictions:
            if one.to != NONE:
                ask = self._snapshot.asks[self._snapshot.gangs[one.gang].placed[one.leaf].shapes[one.pod]]
                self._with_releasing[one.to] -= ask
                self._free[one.to] -= ask
        return []

    def faults_of_lone_pods(
        self,
        shape: int,
        placements: Sequence[Placement],
        evictions: Sequence[Eviction] = (),
        *,
        nominated: bool = False,
    ) -> list[str]:
        """The same for many gangs of one pod each, all of one shape; nominated where others leave first."""
        winners = {placement.gang for placement in placements}
        wrong = [*self._leaving.faults(evictions), *self._rightful(winners, evictions)] if evictions else []
        if wrong:
            return wrong
        self._leave(evictions, 1)
        wrong = self._charged.unowed(placements, evictions)
        wrong = wrong or self._faults_of_lone_pods(shape, placements, nominated=nominated)
        if wrong:
            self._leave(evictions, -1)
        else:
            self._leaving.enter(evictions)
        return wrong

    def _faults_of_lone_pods(self, shape: int, placements: Sequence[Placement], *, nominated: bool) -> list[str]:
        snapshot = self._snapshot
        ask = snapshot.asks[shape]
        wrong = []
        counts = np.bincount([placement.nodes[0] for placement in placements], minlength=len(snapshot.nodes))
        nodes = np.flatnonzero(counts)
        asked = counts[nodes, None] * ask
        free = (self._with_releasing if nominated else self._free)[nodes]
        if placements:
            free = free - self._promised_on(placements[0].gang, nodes)
        if ((asked > 0) & (free < asked)).any():
            wrong.append("a node has not enough")
        allowed = (snapshot.allowed_soon if nominated else snapshot.allowed)[shape]
        if not allowed[nodes].all() or self._is_repelled(shape, nodes, nominated=nominated):
            wrong.append("a pod is sent where it may not go")
        for placement in placements:
            gang = snapshot.gangs[placement.gang]
            batch = gang.waiting[0]
            alone = batch.shape == shape and len(batch.pods) == 1 and placement.gang not in self._bound
            whole = not gang.holds and len(gang.tree.nodes) == 1 and gang.tree.nodes[0].minimum <= 1
            if not (alone and whole and placement[1:3] == (0, (0,)) and placement.nominated == nominated):
                wrong.append("a gang is not just one pod")
        if len({placement.gang for placement in placements}) < len(placements):
            wrong.append("a gang is sent twice")
        wrong += [] if wrong else self._charged.faults_of_lone_pods(placements)
        if not wrong:
            self._free[nodes] -= asked
            self._with_releasing[nodes] -= asked
            self._bound.update({placement.gang: {0: {0}} for placement in placements})
        return wrong

    @property
    def room(self) -> Amounts:
        """What everybody was offered and nobody took: the room of terminating pods, not that of evicted ones."""
        return self._with_releasing - self._vacated

    def _room(self, gang: int, nodes: list[int], asked: Amounts, *, nominated: bool) -> list[str]:
        """1. No decision over-commits a node in any resource, pods included."""
        free = (self._with_releasing if nominated else self._free)[nodes] - self._promised_on(gang, nodes)
        over = (asked > 0) & (free < asked)
        if not over.any():
            return []
        return [
            f"{self._snapshot.nodes[nodes[at]]} has not enough {self._snapshot.resources[resource]}"
            for at, resource in zip(*np.nonzero(over), strict=True)
        ]

    def _promised_on(self, gang: int, nodes: Sequence[int] | Rows) -> Amounts:
        """What other schedulers have nominated for pods of theirs, and this gang may not have."""
        held, priority = (
            np.zeros((len(nodes), len(self._snapshot.resources)), np.int64),
            self._snapshot.gangs[gang].priority,
        )
        for one in self._snapshot.promised:
            if one.holds_against(priority):
                held[np.asarray(nodes) == one.node] += self._snapshot.asks[one.shape]
        return held

    def _asked(self, gang: int, placements: Sequence[Placement]) -> tuple[list[int], Amounts]:
        """The nodes that get pods, and what is asked of each."""
        waiting = self._snapshot.gangs[gang].waiting
        if len(placements) == 1:
            pods = Counter(placements[0].nodes)
            ask = self._snapshot.asks[waiting[placements[0].batch].shape]
            return list(pods), np.array(list(pods.values()), dtype=np.int64)[:, None] * ask
        nodes = list(dict.fromkeys(node for placement in placements for node in placement.nodes))
        place_of = {node: at for at, node in enumerate(nodes)}
        asked = np.zeros((len(nodes), len(self._snapshot.resources)), dtype=np.int64)
        for placement in placements:
            pods = Counter(placement.nodes)
            places = [place_of[node] for node in pods]
            asked[places] += np.outer(list(pods.values()), self._snapshot.asks[waiting[placement.batch].shape])
        return nodes, asked

    def _shapes(self, gang: int, placements: Sequence[Placement]) -> list[str]:
        """2. No pod is sent to a node that its shape forbids."""
        wrong = []
        for placement in placements:
            shape, nodes = self._snapshot.gangs[gang].waiting[placement.batch].shape, list(placement.nodes)
            masks = self._snapshot.allowed_soon if placement.nominated else self._snapshot.allowed
            if not masks[shape][nodes].all():
                wrong.append(f"a pod of batch {placement.batch} is sent where it may not go")
            elif self._is_repelled(shape, nodes, nominated=placement.nominated):
                wrong.append(f"a pod of batch {placement.batch} is sent where the anti-affinity of another forbids it")
        return wrong

    def _is_repelled(self, shape: int, nodes: Sequence[int] | Rows, *, nominated: bool) -> bool:
        """Whether one of the nodes is in the domain of a pod with a required anti-affinity term that means the shape.
        Who is only nominated waits until pods that terminate are gone.
        """
        repelled, carried = self._snapshot.repelled.get(shape), self._snapshot.carried
        if repelled is None or carried is None:
            return False
        met = repelled.means(carried.terms) & ~(carried.leaving & nominated)
        for label, values in enumerate(carried.codes):
            taken = values[carried.nodes[met & (carried.labels == label)]]
            wanted = values[nodes]
            if np.isin(wanted[wanted != NONE], taken).any():
                return True
        return False

    def _pods(self, gang: int, placements: Sequence[Placement]) -> list[str]:
        """10. No pod is bound twice."""
        wrong = []
        before = self._bound.get(gang, {})
        now: dict[int, set[int]] = {}
        for placement in placements:
            known = now.setdefault(placement.batch, set())
            batch = self._snapshot.gangs[gang].waiting[placement.batch]
            fresh = set(placement.pods)
            twice = (
                len(fresh) != len(placement.pods)
                or bool(fresh & known)
                or bool(fresh & before.get(placement.batch, set()))
            )
            if twice or len(placement.pods) != len(placement.nodes) or not fresh <= set(range(len(batch.pods))):
                wrong.append(f"pods of batch {placement.batch} are not each sent once")
            known |= fresh
        return wrong

    def _together(self, gang: int, placements: Sequence[Placement]) -> tuple[list[str], dict[int, set[int]]]:
        """3. No decision violates a required level at any tree node, counting all placed pods.

        Also gives, per hold that is touched, the domains that its pods are then in.
        """
        known = self._snapshot.gangs[gang]
        if gang not in self._domains:
            self._look_at_holds(gang)
        before, holds_of = self._domains[gang], self._holds_of[gang]
        now: dict[int, set[int]] = {}
        for placement in placements:
            for number in holds_of.get(known.waiting[placement.batch].leaf, ()):
                found = now.setdefault(number, set(before.get(number, ())))
                found.update(self._where(known.holds[number], placement.nodes))
        wrong = [
            f"row {known.holds[number].row} lies in {len(domains)} domains of its required level"
            for number, domains in now.items()
            if len(domains) > 1 or NONE in domains
        ]
        return wrong, now

    def _look_at_holds(self, gang: int) -> None:
        """Which required holds every leaf is in, and where their pods are."""
        known = self._snapshot.gangs[gang]
        self._domains[gang], self._holds_of[gang] = {}, {}
        for number, hold in enumerate(known.holds):
            if hold.required == NONE:
                continue
            for leaf in hold.leaves:
                self._holds_of[gang].setdefault(leaf, []).append(number)
                if leaf in known.placed:
                    found = self._domains[gang].setdefault(number, set())
                    found.update(self._where(hold, known.placed[leaf].nodes))

    def _where(self, hold: Hold, nodes: Sequence[int]) -> list[int]:
        level = self._snapshot.topologies[hold.topology].levels[hold.required]
        found: list[int] = level.domain_of[list(nodes)].tolist()
        return found

    def _whole(self, gang: int, placements: Sequence[Placement]) -> list[str]:
        """4. No bind is sent for a gang that is not satisfied after it. What is only nominated counts for itself."""
        known = self._snapshot.gangs[gang]
        if gang in self._satisfied:
            # More pods do not make it less.
            return []
        pods = self._present(gang)
        for placement in placements:
            pods[known.waiting[placement.batch].leaf] += len(placement.nodes)
        if not satisfied(known.tree, pods)[0]:
            return ["the gang is below its minimum after it"]
        return []

    def _present(self, gang: int) -> list[int]:
        """Per row: the pods of a leaf that are placed, were bound in this cycle, or succeeded."""
        known = self._snapshot.gangs[gang]
        pods = [0] * len(known.tree.nodes)
        for leaf, placed in known.placed.items():
            pods[leaf] += len(placed.nodes)
        for leaf, bound in self._counted.get(gang, {}).items():
            pods[leaf] += bound
        for leaf, counts in known.counts.items():
            pods[leaf] += counts.succeeded
        return pods

    def _enter(self, gang: int, placements: Sequence[Placement]) -> None:
        known = self._snapshot.gangs[gang]
        if not any(placement.nominated for placement in placements):
            self._satisfied.add(gang)
        for placement in placements:
            batch = known.waiting[placement.batch]
            counted = self._counted.setdefault(gang, {})
            counted[batch.leaf] = counted.get(batch.leaf, 0) + (0 if placement.nominated else len(placement.nodes))
            self._bound.setdefault(gang, {}).setdefault(placement.batch, set()).update(placement.pods)
