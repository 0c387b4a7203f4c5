"""One attempt for one gang: the missing minimum of a tree node, all or nothing, as the gang's holds and pods allow."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from muster.api.tree import NONE
from muster.plan.budget import Budget
from muster.plan.demand import Needs, Stock, Ways, pods_of
from muster.plan.ledger import Ledger, Taking
from muster.plan.problem import Bound, Cluster, Part, Problem
from muster.plan.proof import Certificate, Choices, Drift, Proof
from muster.plan.simple import Answer, is_simple, one_shape
from muster.plan.solve import solve
from muster.snapshot.arrays import Gang, Snapshot

# What one more question costs at least, so that easy questions without end come to an end too.
_QUESTION = 10


class Wish(NamedTuple):
    """A preferred level of one hold, with the domain that placed pods have chosen, and those that they are in."""

    hold: int
    bound: Bound
    used: frozenset[int]


class Progress:
    """A gang during a cycle: what is placed, the decisions of this cycle included, and which pods still wait."""

    def __init__(self, gang: Gang) -> None:
        self.gang = gang
        self.nodes: dict[int, list[int]] = {leaf: list(placed.nodes) for leaf, placed in gang.placed.items()}
        self.present = list(gang.present)
        self.waiting = list(gang.pending)
        self.used = [0] * len(gang.waiting)

    @property
    def stock(self) -> Stock:
        """What there is, for the choice of children."""
        return Stock(self.gang.tree, self.present, self.waiting)

    def place(self, batch: int, nodes: Sequence[int]) -> None:
        """The next pods of a batch go to these nodes."""
        leaf = self.gang.waiting[batch].leaf
        self.nodes.setdefault(leaf, []).extend(nodes)
        self.present[leaf] += len(nodes)
        self.waiting[leaf] -= len(nodes)
        self.used[batch] += len(nodes)

    def reserve(self, batch: int, nodes: Sequence[int]) -> None:
        """Room is set aside for the next pods of a batch: they wait no longer for a place, and are not placed."""
        leaf = self.gang.waiting[batch].leaf
        self.nodes.setdefault(leaf, []).extend(nodes)
        self.waiting[leaf] -= len(nodes)
        self.used[batch] += len(nodes)

    def domains(self, snapshot: Snapshot, leaves: Sequence[int], topology: int, level: int) -> frozenset[int]:
        """The domains of a level that placed pods of these leaves are in; NONE when one is in no domain."""
        if not self.nodes:
            return frozenset()
        nodes = [node for leaf in leaves for node in self.nodes.get(leaf, ())]
        return frozenset(snapshot.topologies[topology].levels[level].domain_of[nodes].tolist())


@dataclass
class _Tried:
    """What came of the choices so far: one that fits, or the proofs of those that do not."""

    attempt: "Attempt | None" = None
    refuted: list[Proof] = field(default_factory=list)
    undecided: bool = False
    seen: set[object] = field(default_factory=set)


class Attempt(NamedTuple):
    """What came of it. `takings` are (batch, where), taken in the ledger; without them there is a proof, or neither."""

    takings: tuple[tuple[int, Taking], ...] | None
    proof: Proof | None = None
    # Holds whose preference could be neither met nor refuted.
    unknown_wishes: frozenset[int] = frozenset()


@dataclass
class Engine:
    """What all attempts of a cycle share. `refuted` remembers questions answered with no: room only shrinks."""

    snapshot: Snapshot
    ledger: Ledger
    strategy: str
    refuted: dict[object, Proof] = field(default_factory=dict)

    def minimum(self, progress: Progress, row: int, budget: Budget) -> Attempt:
        """Tries to satisfy a tree node with what its pods miss, choosing children as SPEC §5.3 says."""
        holds = _Holds(progress, self.snapshot)
        if len(progress.gang.tree.nodes) == 1 and len(progress.used) == 1 and not holds.barred:
            # One leaf with pods of one shape: there is nothing to choose.
            return self._one_leaf(progress, holds, budget)
        choice = _has_choice(progress, row)
        tried = self._choose(progress, row, holds, frozenset(), budget, only_first=choice)
        barred: dict[int, Proof] = {}
        if tried.attempt is None and choice:
            # Children that can't be placed even alone need not be tried in every combination.
            barred = self._impossible(progress, row, holds, budget)
            tried = self._choose(progress, row, holds, frozenset(barred), budget, first=tried)
        if tried.attempt is not None:
            return tried.attempt
        if tried.undecided:
            return Attempt(None)
        if not tried.refuted:
            # There are not enough pods, or drift keeps them from being placed.
            return Attempt(None, holds.drift)
        simple = len(tried.refuted) == 1 and not barred
        return Attempt(None, tried.refuted[0] if simple else Choices(tuple(tried.refuted), tuple(barred.items())))

    def _one_leaf(self, progress: Progress, holds: "_Holds", budget: Budget) -> Attempt:
        """Pods of one shape: with its preference, a sum mostly tells; without, it is a question like others."""
        pods = progress.gang.tree.nodes[0].minimum - progress.present[0]
        part = Part(0, progress.gang.waiting[0].shape, pods)
        bounds = [*holds.required, *(wish.bound for wish in holds.wishes)]
        if is_simple(bounds):
            question = (part, tuple(bounds))
            answer = Answer(proof=self.refuted.get(question))
            if answer.proof is None:
                answer = one_shape(part, bounds, self.ledger, self.snapshot.topologies, self.strategy)
            if answer.placed:
                return self._attempt((pods,), answer, frozenset())
            assert answer.proof is not None
            self.refuted[question] = answer.proof
            if not holds.wishes:
                return Attempt(None, answer.proof)
        return self._place((pods,), Problem((part,), holds.required), holds, budget)

    def surplus(self, progress: Progress, batch: int, budget: Budget) -> Attempt:
        """Places as many of the pods of a batch as find room, each by itself; `proof` says why not all of them."""
        gang, holds = progress.gang, _Holds(progress, self.snapshot)
        leaf, shape = gang.waiting[batch][:2]
        if leaf in holds.barred:
            return Attempt(None, holds.drift)
        pods = len(gang.waiting[batch].pods) - progress.used[batch]
        why: Proof | None = None
        while pods > 0 and budget.spend(_QUESTION):
            counts = tuple(pods if number == batch else 0 for number in range(len(gang.waiting)))
            attempt = self._place(counts, Problem([Part(leaf, shape, pods)], holds.required), holds, budget)
            if attempt.takings is not None:
                return attempt._replace(proof=why)
            why = attempt.proof
            if why is None:
                break
            pods = _fewer(why, pods)
        return Attempt(None, why)

    def _choose(
        self,
        progress: Progress,
        row: int,
        holds: "_Holds",
        barred: frozenset[int],
        budget: Budget,
        *,
        only_first: bool = False,
        first: "_Tried | None" = None,
        quiet: bool = False,
    ) -> "_Tried":
        """The first choice that fits; else what was said of every choice. `first` is what was said of the first one.

        Where nobody is told of it, it is `quiet`.
        """
        tried = first or _Tried()
        for parts in self._demands(progress, row, barred, holds.barred):
            if parts is None or not budget.spend(_QUESTION):
                tried.undecided = True
                return tried
            counts, wanted = parts
            problem = Problem(wanted, holds.required)
            signature = problem.signature(rows=False)
            if signature in tried.seen:
                continue
            tried.seen.add(signature)
            attempt = self._place(counts, problem, holds, budget, explain=not tried.refuted and not quiet)
            if attempt.takings is not None:
                tried.attempt = attempt
                return tried
            if attempt.proof is None:
                tried.undecided = True
            else:
                tried.refuted.append(attempt.proof)
            if only_first:
                return tried
        return tried

    def _demands(
        self, progress: Progress, row: int, barred: frozenset[int], drifted: frozenset[int]
    ) -> Iterator[tuple[tuple[int, ...], list[Part]] | None]:
        """Per batch the pods that are tried, and the same as parts of a problem."""
        gang, used = progress.gang, progress.used
        if drifted:
            used = [len(b.pods) if b.leaf in drifted else n for b, n in zip(gang.waiting, used, strict=True)]
        for needs in Ways(progress.stock, barred | drifted).of(row):
            extra = _floor(progress, needs) if row == 0 else 0
            for counts in pods_of(gang.waiting, used, needs, extra, self.ledger.easier):
                if counts is None:
                    yield None
                    continue
                parts = [Part(b.leaf, b.shape, n) for b, n in zip(gang.waiting, counts, strict=True) if n]
                yield counts, parts

    def _impossible(self, progress: Progress, row: int, holds: "_Holds", budget: Budget) -> dict[int, Proof]:
        """Children that some node could do without and that can't be placed even alone, with the proof."""
        nodes = progress.gang.tree.nodes
        found: dict[int, Proof] = {}
        open_rows = [row]
        while open_rows:
            at = open_rows.pop()
            node = nodes[at]
            open_rows.extend(node.children)
            if node.minimum < len(node.children):
                for child in node.children:
                    mark = self.ledger.mark()
                    tried = self._choose(progress, child, holds, frozenset(), budget, quiet=True)
                    self.ledger.rewind(mark)
                    if tried.attempt is None and tried.refuted and not tried.undecided:
                        found[child] = tried.refuted[0]
        return found

    def _place(
        self, counts: tuple[int, ...], problem: Problem, holds: "_Holds", budget: Budget, *, explain: bool = True
    ) -> Attempt:
        """The pods with as many preferences met as there can be, those of the root first."""
        mark = self.ledger.mark()
        wishes = [wish for wish in holds.wishes if _touches(wish.bound, problem)]
        if not wishes:
            return self._attempt(counts, self._solve(problem, budget, explain=explain), frozenset())
        parts, required = problem.parts, [region.bound for region in problem.regions]
        all_met = self._solve(Problem(parts, [*required, *(wish.bound for wish in wishes)]), budget)
        if all_met.placed:
            return self._attempt(counts, all_met, frozenset())
        answer = self._solve(Problem(_clustered(parts, wishes), required), budget, explain=explain)
        if not answer.placed:
            return Attempt(None, answer.proof)
        kept: list[Wish] = []
        unknown: set[int] = set() if all_met.proof is not None else {wishes[0].hold}
        for wish in wishes if len(wishes) > 1 else ():
            bounds = [*required, *(one.bound for one in kept), wish.bound]
            rest = [other for other in wishes if other not in kept and other is not wish]
            before = list(self.ledger.since(mark))
            self.ledger.rewind(mark)
            better = self._solve(Problem(_clustered(parts, rest), bounds), budget)
            if better.placed:
                answer = better
                kept.append(wish)
                continue
            for taking in before:
                self.ledger.take(taking)
            if better.proof is None:
                unknown.add(wish.hold)
        return self._attempt(counts, answer, frozenset(unknown))

    def _solve(self, problem: Problem, budget: Budget, *, explain: bool = False) -> Answer:
        question = problem.signature(rows=True)
        if question in self.refuted:
            return Answer(proof=self.refuted[question])
        answer = solve(problem, self.ledger, self.snapshot.topologies, self.strategy, budget, explain=explain)
        if answer.proof is not None:
            self.refuted[question] = answer.proof
        return answer

    def _attempt(self, counts: tuple[int, ...], answer: Answer, unknown: frozenset[int]) -> Attempt:
        if answer.takings is None:
            return Attempt(None, answer.proof)
        batches = [number for number, count in enumerate(counts) if count]
        return Attempt(tuple(zip(batches, answer.takings, strict=True)), None, unknown)


def _fewer(proof: Proof, pods: int) -> int:
    """How many of some equal pods may fit when all of them do not."""
    if isinstance(proof, Certificate):
        copies = [shortage.best for shortage in proof.shortages if shortage.dimension.shape != NONE]
        return min(pods - 1, max(copies, default=0)) if len(copies) == len(proof.shortages) else pods - 1
    return pods - 1


def _has_choice(progress: Progress, row: int) -> bool:
    nodes = progress.gang.tree.nodes
    open_rows = [row]
    while open_rows:
        node = nodes[open_rows.pop()]
        if node.minimum < len(node.children):
            return True
        open_rows.extend(node.children)
    return False


def _floor(progress: Progress, needs: Needs) -> int:
    """Pods that the root's floor asks for beyond the minimums of its leaves."""
    return max(0, progress.gang.tree.nodes[0].floor - sum(progress.present) - sum(needs.values()))


def _touches(bound: Bound, problem: Problem) -> bool:
    leaves = set(bound.leaves)
    return any(part.leaf in leaves for part in problem.parts)


def _clustered(parts: Sequence[Part], unmet: Sequence[Wish]) -> list[Part]:
    """Parts that keep to few domains of the innermost preference that is not met."""
    cluster: dict[int, Cluster] = {}
    for wish in unmet:
        for leaf in wish.bound.leaves:
            cluster[leaf] = Cluster(wish.bound.topology, wish.bound.level, wish.used)
    return [part._replace(cluster=cluster.get(part.leaf)) for part in parts]


class _Holds:
    """The holds of a gang as bounds: pinned where pods are placed already; drifted ones bar their leaves."""

    def __init__(self, progress: Progress, snapshot: Snapshot) -> None:
        self.required: list[Bound] = []
        self.wishes: list[Wish] = []
        self._drifts: list[Drift] = []
        barred: set[int] = set()
        for number, hold in enumerate(progress.gang.holds):
            row, leaves, topology, required, preferred, _ = hold
            if required != NONE:
                used = progress.domains(snapshot, leaves, topology, required)
                if len(used) > 1 or NONE in used:
                    self._drifts.append(Drift(row, topology, required, tuple(sorted(used))))
                    barred.update(leaves)
                self.required.append(Bound(row, leaves, topology, required, next(iter(used), NONE)))
            if preferred > required:
                used = progress.domains(snapshot, leaves, topology, preferred)
                if len(used) <= 1 and NONE not in used:
                    bound = Bound(row, leaves, topology, preferred, next(iter(used), NONE))
                    self.wishes.append(Wish(number, bound, used))
                else:
                    self._lost(number, Bound(row, leaves, topology, preferred), used)
        self.barred = frozenset(barred)

    def _lost(self, number: int, bound: Bound, used: frozenset[int]) -> None:
        """A preference that placed pods have broken already: as few domains as found, theirs first."""
        self.wishes.append(Wish(number, bound._replace(pinned=_NOWHERE), used))

    @property
    def drift(self) -> Drift | None:
        """What bars leaves, if anything does."""
        return self._drifts[0] if self._drifts else None


# No domain has this number: a bound that is pinned there can't be met, and everybody sees it at once.
_NOWHERE = 2**30
