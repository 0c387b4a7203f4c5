"""The part of the independent checker that looks at evictions and queues (SPEC §11, 5 and 7): its own counts, from the
snapshot alone.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from muster.api.tree import NONE, core, satisfied
from muster.plan.outcome import Action, Eviction, Placement
from muster.snapshot.arrays import Gang, Snapshot

# Pods of a gang that were sent to nodes, by batch and number.
Sent = frozenset[tuple[int, int]]


class Leaving:
    """Who has left, per gang."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._gone: dict[int, set[tuple[int, int]]] = {}
        self._disruptions = list(snapshot.disruptions)

    def faults(self, evictions: Sequence[Eviction], *, stale: Mapping[int, Sequence[int]] | None = None) -> list[str]:
        """5. What is satisfied stays so, or all of it goes; no core, nothing that is not preemptible.

        A stale tree node has lost its minimum already: there it is asked that all of it goes. `stale` are, per gang,
        the pods of each leaf that are there after the cycle.
        """
        wrong = self._stale_faults(evictions, stale) if stale is not None else []
        by_gang: dict[int, set[tuple[int, int]]] = {}
        for one in evictions:
            spot = (one.leaf, one.pod)
            if spot in by_gang.setdefault(one.gang, set()) or spot in self._gone.get(one.gang, ()):
                wrong.append("a pod is evicted twice")
            by_gang[one.gang].add(spot)
        for number, spots in by_gang.items():
            gang = self._snapshot.gangs[number]
            gone = spots | self._gone.get(number, set())
            if stale is None:
                wrong += self._firm(gang, gone)
            if len(gone) < sum(len(placed.nodes) for placed in gang.placed.values()):
                wrong += self._halved(gang, gone)
                wrong += self._parted(gang, spots, gone)
        if not self._disruptions:
            return wrong
        drawn = Counter(guard for one in evictions for guard in self._guards(one))
        over = {guard for guard, n in drawn.items() if n > self._disruptions[guard]}
        for one in evictions:
            spent = over & set(self._guards(one))
            if spent - set(one.passed):
                wrong.append("a disruption budget is overdrawn")
            if set(one.passed) - spent:
                wrong.append("a disruption budget is passed over that allows it")
            if one.passed and not self._may_pass(one):
                wrong.append(f"a disruption budget of {self._snapshot.gangs[one.gang].key[1]} is passed over")
        return wrong

    def _may_pass(self, one: Eviction) -> bool:
        """Whether a queue that is only the beneficiary's asks for it, and somebody wrote these budgets."""
        snapshot, queues = self._snapshot, self._snapshot.queues
        if one.action != Action.RECLAIM or not snapshot.may_delete or one.beneficiary == NONE:
            return False
        asks = any(queues.ignores_budgets[row] for row in not_shared(snapshot, one))
        return asks and all(snapshot.budgets[guard] for guard in one.passed)

    def has(self, gang: int, leaf: int, pod: int) -> bool:
        """Whether a pod has left."""
        return (leaf, pod) in self._gone.get(gang, ())

    def _stale_faults(self, evictions: Sequence[Eviction], after: Mapping[int, Sequence[int]]) -> list[str]:
        """Everything below a tree node that lacks its minimum goes, and what is around it has its own."""
        wrong, rows = [], dict[tuple[int, int], set[tuple[int, int]]]()
        for one in evictions:
            rows.setdefault((one.gang, one.row), set()).add((one.leaf, one.pod))
        for (number, row), spots in rows.items():
            gang = self._snapshot.gangs[number]
            every = {
                (leaf, at)
                for leaf in gang.tree.leaves_below(row)
                for at in range(len(gang.placed[leaf].nodes) if leaf in gang.placed else 0)
            }
            around, met = gang.tree.nodes[row].parent, satisfied(gang.tree, after[number])
            if spots != every or (met[row] and not _waits_for_joined(gang, row, met)):
                wrong.append(f"{gang.key[1]} is healthy, or does not go whole")
            stays = list(after[number])
            for leaf, _ in spots:
                stays[leaf] -= 1
            left = satisfied(gang.tree, stays)
            while around != NONE:
                if not left[around]:
                    wrong.append(f"a part of {gang.key[1]} goes, and all of it lacks its minimum")
                around = gang.tree.nodes[around].parent
        return wrong

    def _guards(self, one: Eviction) -> Sequence[int]:
        placed = self._snapshot.gangs[one.gang].placed[one.leaf]
        return placed.guards[one.pod] if placed.guards else ()

    def _firm(self, gang: Gang, gone: set[tuple[int, int]]) -> list[str]:
        if gang.is_preemptible:
            return []
        if gang.is_firm:
            return [f"{gang.key[1]} is not preemptible"]
        kept = _core_pods(gang, _by_age(gang))
        touched = [spot for spot in gone if spot[1] < kept.get(spot[0], 0)]
        return [f"{gang.key[1]} loses a pod of its core"] if touched else []

    def _halved(self, gang: Gang, gone: set[tuple[int, int]]) -> list[str]:
        placed = _placed(gang)
        before = list(gang.present)
        after = list(before)
        for leaf, _ in gone:
            after[leaf] -= 1
            placed[leaf] -= 1
        for row in range(len(placed) - 1, 0, -1):
            placed[gang.tree.nodes[row].parent] += placed[row]
        met = satisfied(gang.tree, before)
        if met[0]:
            # What is inside a broken child is left over, whatever it is.
            for row in range(1, len(met)):
                met[row] = met[row] and met[gang.tree.nodes[row].parent]
        pairs = zip(met, satisfied(gang.tree, after), placed, strict=True)
        return [f"{gang.key[1]} is left with half of a minimum" for was, now, left in pairs if was and not now and left]

    def _parted(self, gang: Gang, going: set[tuple[int, int]], gone: set[tuple[int, int]]) -> list[str]:
        """A joined child that is broken by what is `going`, or was broken before, has left with all of its parent."""
        tree = gang.tree
        if not tree.keeps:
            return []
        placed, present, losing = _placed(gang), list(gang.present), set[int]()
        for leaf, _ in gone:
            placed[leaf] -= 1
            present[leaf] -= 1
        for leaf, _ in going:
            row = leaf
            while row != NONE:
                losing.add(row)
                row = tree.nodes[row].parent
        for row in range(len(placed) - 1, 0, -1):
            placed[tree.nodes[row].parent] += placed[row]
        met = satisfied(tree, present)
        return [
            f"{tree.nodes[row].name} of {gang.key[1]} goes without what it has joined"
            for row in sorted(losing)
            if row and gang.joined[row] and not met[row] and placed[tree.nodes[row].parent]
        ]

    def enter(self, evictions: Sequence[Eviction]) -> None:
        """They have left."""
        for one in evictions:
            self._gone.setdefault(one.gang, set()).add((one.leaf, one.pod))
            for guard in self._guards(one) if self._disruptions else ():
                self._disruptions[guard] = max(0, self._disruptions[guard] - 1)


def not_shared(snapshot: Snapshot, one: Eviction) -> list[int]:
    """The queues of the gang that a pod goes for that are not above the pod's own."""
    rows, paths = snapshot.queues.row_of, snapshot.queues.paths
    mine, theirs = (rows.get(snapshot.gangs[number].queue, NONE) for number in (one.beneficiary, one.gang))
    return [row for row in paths[mine] if row not in paths[theirs]] if NONE not in (mine, theirs) else []


class Charged:
    """What queues hold and must not exceed by our decisions."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        # Only queues below some end are counted, and only when somebody is charged to them.
        self._bounded = snapshot.queues.written
        self._counted = False
        self._used: list[list[int]] = []
        self._firm: list[list[int]] = []
        # Of that, what is only nominated; and beside it what pods hold that leave and are still there. Amounts, and
        # what of them counts against the quota.
        self._waits: tuple[list[list[int]], list[list[int]]] = ([], [])
        self._left: tuple[list[list[int]], list[list[int]]] = ([], [])
        # Per gang.
        self._sent: dict[int, Sent] = {}

    def leave(self, evictions: Sequence[Eviction], sign: int) -> None:
        """Pods leave their queues, or with sign -1 do not after all. They were none of what must stay."""
        if not self._bounded or not evictions:
            return
        self._count()
        leaving: dict[str, Counter[tuple[int, int]]] = {}
        for one in evictions:
            gang = self._snapshot.gangs[one.gang]
            if gang.queue not in leaving:
                leaving[gang.queue] = Counter()
            leaving[gang.queue][0, gang.placed[one.leaf].shapes[one.pod]] += 1
        for queue, pods in leaving.items():
            row = self._snapshot.queues.row_of.get(queue, NONE)
            if row != NONE:
                less = [-sign * amount for amount in self._cost(pods)]
                self._enter(row, less, [0] * len(less))
                self._add(self._left, row, [-amount for amount in less], [0] * len(less))

    def faults(self, number: int, placements: Sequence[Placement]) -> list[str]:
        """7. No decision raises a queue above its limit, or its non-preemptible part above its quota."""
        if not self._bounded:
            return []
        self._count()
        row = self._snapshot.queues.row_of.get(self._snapshot.gangs[number].queue, NONE)
        if row == NONE:
            return [f"there is no queue {self._snapshot.gangs[number].queue}"]
        return self._over(row, *self._rises(number, placements)[:2], at_once=not _waits(placements))

    def unowed(self, placements: Sequence[Placement], evictions: Sequence[Eviction]) -> list[str]:
        """Disruption budgets are passed over only for what ends within the quota of the queues that get it back."""
        wrong = []
        for rows in {tuple(not_shared(self._snapshot, one)) for one in evictions if one.passed}:
            self._count()
            pods = Counter[tuple[int, int]]()
            for one in placements:
                gang = self._snapshot.gangs[one.gang]
                if rows and rows[0] in self._snapshot.queues.paths[self._snapshot.queues.row_of[gang.queue]]:
                    pods[0, gang.waiting[one.batch].shape] += len(one.pods)
            more = self._cost(pods)
            for at in rows:
                quota = self._snapshot.queues.quota[at]
                if any(up > 0 and self._used[at][c] + up > quota[c] for c, up in enumerate(more)):
                    wrong.append(
                        f"budgets are passed over for more than the quota of {self._snapshot.queues.names[at]}"
                    )
        return wrong

    def enter(self, number: int, placements: Sequence[Placement]) -> None:
        """They are charged."""
        if self._bounded:
            rise, firm_rise, self._sent[number] = self._rises(number, placements)
            row = self._snapshot.queues.row_of[self._snapshot.gangs[number].queue]
            self._enter(row, rise, firm_rise)
            if _waits(placements):
                self._add(self._waits, row, rise, firm_rise)

    def _rises(self, number: int, placements: Sequence[Placement]) -> tuple[list[int], list[int], Sent]:
        """What placements add to the queue, how much of it may not be evicted, and all that was sent then."""
        gang = self._snapshot.gangs[number]
        more = frozenset((one.batch, pod) for one in placements for pod in one.pods)
        before = self._sent.get(number, frozenset())
        rise = self._cost(Counter((batch, gang.waiting[batch].shape) for batch, _ in more))
        both = zip(self._firm_of(gang, before), self._firm_of(gang, before | more), strict=True)
        return rise, [then - now for now, then in both], before | more

    def faults_of_lone_pods(self, placements: Sequence[Placement]) -> list[str]:
        """The same for many gangs of one pod each."""
        if not self._bounded:
            return []
        self._count()
        gangs = self._snapshot.gangs
        sent: dict[str, Counter[tuple[int, bool]]] = {}
        for one in placements:
            gang = gangs[one.gang]
            firm = not gang.is_preemptible
            sent.setdefault(gang.queue, Counter())[gang.waiting[one.batch].shape, firm] += len(one.pods)
        wrong, rises = [], []
        for queue, shapes in sent.items():
            row = self._snapshot.queues.row_of.get(queue, NONE)
            if row == NONE:
                wrong.append(f"there is no queue {queue}")
                continue
            rise = self._cost({(at, shape): n for at, ((shape, _), n) in enumerate(shapes.items())})
            firm_rise = self._cost({(0, shape): n for (shape, firm), n in shapes.items() if firm})
            wrong += self._over(row, rise, firm_rise, at_once=not _waits(placements))
            self._enter(row, rise, firm_rise)
            rises.append((row, rise, firm_rise))
        for row, rise, firm_rise in rises:
            if wrong:
                self._enter(row, [-more for more in rise], [-more for more in firm_rise])
            elif _waits(placements):
                self._add(self._waits, row, rise, firm_rise)
        return wrong

    def _over(self, row: int, rise: Sequence[int], firm_rise: Sequence[int], *, at_once: bool) -> list[str]:
        queues, wrong = self._snapshot.queues, []
        for at in queues.paths[row]:
            for c, (more, firm) in enumerate(zip(rise, firm_rise, strict=True)):
                if more > 0 and self._used[at][c] + more > queues.limit[at, c]:
                    wrong.append(f"queue {queues.names[at]} is raised above its limit")
                if firm > 0 and self._firm[at][c] + firm > queues.quota[at, c]:
                    wrong.append(f"the non-preemptible part of queue {queues.names[at]} is raised above its quota")
                if at_once and more > 0 and self._there(at, c, 0) + more > queues.limit[at, c]:
                    wrong.append(f"queue {queues.names[at]} is above its limit until pods are gone")
                if at_once and firm > 0 and self._there(at, c, 1) + firm > queues.quota[at, c]:
                    wrong.append(
                        f"the non-preemptible part of queue {queues.names[at]} is too large until pods are gone"
                    )
        return wrong

    def _there(self, at: int, c: int, which: int) -> int:
        """What pods of a queue hold now, those that leave included: all (0), or what counts against its quota (1)."""
        used = (self._used, self._firm)[which]
        return used[at][c] - self._waits[which][at][c] + self._left[which][at][c]

    def _enter(self, row: int, rise: Sequence[int], firm_rise: Sequence[int]) -> None:
        for at in self._snapshot.queues.paths[row]:
            for c, (more, firm) in enumerate(zip(rise, firm_rise, strict=True)):
                self._used[at][c] += more
                self._firm[at][c] += firm

    def _add(
        self, tables: tuple[list[list[int]], list[list[int]]], row: int, rise: Sequence[int], firm_rise: Sequence[int]
    ) -> None:
        for at in self._snapshot.queues.paths[row]:
            for table, amounts in zip(tables, (rise, firm_rise), strict=True):
                table[at] = [has + more for has, more in zip(table[at], amounts, strict=True)]

    def _count_left(self) -> None:
        """Pods that terminate count in their queues until they are gone."""
        row_of = self._snapshot.queues.row_of
        for stray in self._snapshot.leaving_strays:
            if stray.queue in row_of:
                cost = self._cost({(0, stray.shape): stray.pods})
                self._add(self._left, row_of[stray.queue], cost, cost)
        for gang in self._snapshot.gangs:
            pods = _by_age(gang) if gang.leaving else {}
            youngest = max((age for found in pods.values() for age, _ in found), default=0)
            spots = list[tuple[int, int]]()
            for number, one in enumerate(gang.leaving):
                here = pods.setdefault(one.leaf, [])
                spots.append((one.leaf, len(here)))
                here.append((youngest + 1 + number, one.shape))
            pods.pop(NONE, None)
            core = _core_pods(gang, pods) if gang.leaving and gang.is_semi else {}
            for one, (leaf, place) in zip(gang.leaving, spots, strict=True):
                if one.queue in row_of:
                    cost = self._cost({(0, one.shape): 1})
                    firm = (gang.is_firm and leaf != NONE) or place < core.get(leaf, 0)
                    self._add(self._left, row_of[one.queue], cost, cost if firm else [0] * len(cost))

    def _count(self) -> None:
        if self._counted:
            return
        self._counted = True
        queues = self._snapshot.queues
        self._used = [[0] * queues.limit.shape[1] for _ in queues.names]
        self._firm = [[0] * queues.limit.shape[1] for _ in queues.names]
        self._waits, self._left = (
            ([[0] * queues.limit.shape[1] for _ in queues.names], [[0] * queues.limit.shape[1] for _ in queues.names])
            for _ in range(2)
        )
        self._count_left()
        by_queue: dict[str, list[int]] = {}
        for gang in self._snapshot.gangs:
            if (gang.placed or gang.aside) and gang.queue in queues.row_of:
                held = by_queue.setdefault(gang.queue, [])
                held += gang.aside
                for placed in gang.placed.values():
                    held += placed.shapes
                if not gang.is_preemptible:
                    firm = self._firm_of(gang, frozenset())
                    self._enter(queues.row_of[gang.queue], [0] * len(firm), firm)
        for stray in self._snapshot.strays:
            if stray.queue in queues.row_of:
                cost = self._cost({(0, stray.shape): stray.pods})
                self._enter(queues.row_of[stray.queue], cost, cost)
        for queue, shapes in by_queue.items():
            cost = self._cost({(0, shape): n for shape, n in Counter(shapes).items()})
            self._enter(queues.row_of[queue], cost, [0] * len(cost))

    def _cost(self, pods: Mapping[tuple[int, int], int]) -> list[int]:
        total = [0] * self._snapshot.charges.shape[1]
        for (_, shape), count in pods.items():
            for c, amount in enumerate(self._snapshot.charges[shape].tolist()):
                total[c] += count * amount
        return total

    def _firm_of(self, gang: Gang, more: Sent) -> list[int]:
        """What may not be evicted of a gang, with more of its pods placed."""
        if gang.is_preemptible:
            return [0] * self._snapshot.charges.shape[1]
        pods = _by_age(gang)
        for number, pod in more:
            batch = gang.waiting[number]
            pods.setdefault(batch.leaf, []).append((batch.ages[pod], batch.shape))
        pods = {leaf: sorted(found) for leaf, found in pods.items()}
        kept = {} if gang.is_firm else _core_pods(gang, pods)
        firm = ((leaf, shape) for leaf, found in pods.items() for _, shape in found[: kept.get(leaf, len(found))])
        return self._cost(Counter(firm))


def _waits(placements: Sequence[Placement]) -> bool:
    """Whether they are only nominated."""
    return any(one.nominated for one in placements)


def _waits_for_joined(gang: Gang, row: int, met: Sequence[bool]) -> bool:
    """Whether a joined child below a tree node lacks its minimum while a pod of it waits."""
    return any(
        gang.joined[at] and not met[at] and any(gang.pending[leaf] for leaf in gang.tree.leaves_below(at))
        for at in range(row + 1, gang.tree.ends[row])
    )


def _placed(gang: Gang) -> list[int]:
    return [len(gang.placed[row].nodes) if row in gang.placed else 0 for row in range(len(gang.tree.nodes))]


def _by_age(gang: Gang) -> dict[int, list[tuple[int, int]]]:
    """Placed pods by leaf, as (age, shape)."""
    return {
        leaf: list(zip(placed.ages or range(len(placed.nodes)), placed.shapes, strict=True))
        for leaf, placed in gang.placed.items()
    }


def _core_pods(gang: Gang, pods: Mapping[int, Sequence[tuple[int, int]]]) -> dict[int, int]:
    """How many of the oldest pods of every leaf are core; the pods as (age, shape), oldest first."""
    have = [len(pods.get(row, ())) for row in range(len(gang.tree.nodes))]
    succeeded = [gang.counts[row].succeeded if row in gang.counts else 0 for row in range(len(have))]
    found = core(gang.tree, have, succeeded, gang.was_core, gang.joined)
    kept = {leaf: found.pods[leaf] for leaf in gang.tree.leaves}
    further = [(age, leaf) for leaf, found_here in pods.items() for age, _ in found_here[kept[leaf] :]]
    for _, leaf in sorted(further)[: found.floor_pods]:
        kept[leaf] += 1
    return kept
