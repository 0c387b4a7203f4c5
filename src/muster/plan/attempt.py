"""One attempt for one gang: the missing minimum of a tree node, all or nothing, as the gang's holds and pods allow."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from muster.api.tree import NONE
from muster.plan.budget import Budget
from muster.plan.demand import Needs, Ways, pods_of
from muster.plan.ledger import Ledger, Taking
from muster.plan.problem import Cluster, Part, Problem
from muster.plan.progress import Bounds, Progress, Wish
from muster.plan.proof import Certificate, Choices, Exhausted, Proof
from muster.plan.simple import Answer, is_simple, one_shape
from muster.plan.solve import solve
from muster.snapshot.arrays import Snapshot

# What one more question costs at least, so that easy questions without end come to an end too.
_QUESTION = 10

Picked = dict[int, int]


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
    # Ways to meet the minimum that were refuted, where nothing is certain.
    ruled_out: int = 0


@dataclass
class Engine:
    """What all attempts of a cycle share.

    `refuted` remembers questions answered with no: room shrinks, and whoever gives some back clears it.
    """

    snapshot: Snapshot
    ledger: Ledger
    strategy: str
    refuted: dict[object, Proof] = field(default_factory=dict)

    def minimum(self, progress: Progress, row: int, budget: Budget) -> Attempt:
        """Tries to satisfy a tree node with what its pods miss, choosing children as SPEC §5.3 says."""
        bounds = Bounds(progress, row)
        if len(progress.gang.tree.nodes) == 1 and len(progress.used) == 1 and not bounds.barred:
            # One leaf with pods of one shape: there is nothing to choose.
            return self._one_leaf(progress, bounds, budget)
        choice = _has_choice(progress, row)
        tried = self._choose(progress, row, bounds, frozenset(), budget, only_first=choice)
        barred: dict[int, Proof] = {}
        if tried.attempt is None and choice:
            # Children that can't be placed even alone need not be tried in every combination.
            barred = self._impossible(progress, row, bounds, budget)
            tried = self._choose(progress, row, bounds, frozenset(barred), budget, first=tried)
        if tried.attempt is not None:
            return tried.attempt
        if tried.undecided:
            return Attempt(None, ruled_out=len(tried.refuted))
        if not tried.refuted:
            # There are not enough pods, or drift keeps them from being placed.
            return Attempt(None, bounds.drift)
        simple = len(tried.refuted) == 1 and not barred
        return Attempt(None, tried.refuted[0] if simple else Choices(tuple(tried.refuted), tuple(barred.items())))

    def wanted(self, progress: Progress, row: int, most: int = 1) -> list[Picked]:
        """Pods per batch that an attempt for a tree node would place, in the order in which it would try them."""
        bounds, found = Bounds(progress, row), list[Picked]()
        kinds = _Kinds(progress) if most > 1 else None
        for needs in Ways(progress.stock, bounds.barred, kinds).of(row):
            extra = _floor(progress, needs) if row == 0 else 0
            for counts in self._pods(progress, row, needs, extra, bounds.barred):
                found += [counts] if counts else []
                if len(found) >= most or counts is None:
                    return found
        return found

    def place_all(self, problem: Problem, budget: Budget) -> tuple[Taking, ...] | None:
        """Takes room for all parts of a question, or for none."""
        return self.solve(problem, budget).takings

    def _one_leaf(self, progress: Progress, bounds: Bounds, budget: Budget) -> Attempt:
        """Pods of one shape: with its preference, a sum mostly tells; without, it is a question like others."""
        pods = progress.gang.tree.nodes[0].minimum - progress.present[0]
        refused = progress.refusal({0: pods})
        if refused is not None:
            return Attempt(None, refused)
        part = Part(0, progress.gang.waiting[0].shape, pods)
        together = [*bounds.required, *(wish.bound for wish in bounds.wishes)]
        if is_simple(together):
            question = (part, tuple(together))
            answer = Answer(proof=self.refuted.get(question))
            if answer.proof is None:
                answer = one_shape(part, together, self.ledger, self.snapshot.topologies, self.strategy)
            if answer.placed:
                return _attempt([0], answer, frozenset())
            assert answer.proof is not None
            self.refuted[question] = answer.proof
            if not bounds.wishes:
                return Attempt(None, answer.proof)
        return self._place([0], Problem((part,), bounds.required), bounds, budget)

    def surplus(self, progress: Progress, batch: int, budget: Budget, most: int | None = None) -> Attempt:
        """Places as many of the pods of a batch as find room, each by itself; `proof` says why not all of them."""
        leaf, shape, pods = progress.gang.waiting[batch][:3]
        bounds = Bounds(progress, leaf)
        if leaf in bounds.barred:
            return Attempt(None, bounds.drift)
        left = len(pods) - progress.used[batch]
        left = left if most is None else min(left, most)
        why: Proof | None = progress.refusal({batch: left})
        while left > 0 and why is not None and progress.refusal({batch: left}) is not None:
            left -= 1
        while left > 0 and budget.spend(_QUESTION):
            attempt = self._place([batch], Problem([Part(leaf, shape, left)], bounds.required), bounds, budget)
            if attempt.takings is not None:
                return attempt._replace(proof=why)
            why = attempt.proof
            if why is None:
                break
            left = _fewer(why, left)
        return Attempt(None, why)

    def _choose(
        self,
        progress: Progress,
        row: int,
        bounds: Bounds,
        barred: frozenset[int],
        budget: Budget,
        *,
        only_first: bool = False,
        first: _Tried | None = None,
        quiet: bool = False,
    ) -> _Tried:
        """The first choice that fits; else what was said of every choice. `first` is what was said of the first one.

        Where nobody is told of it, it is `quiet`.
        """
        tried = first or _Tried()
        kinds = None if only_first or not _has_choice(progress, row) else _Kinds(progress)
        for needs in Ways(progress.stock, barred | bounds.barred, kinds).of(row):
            extra = _floor(progress, needs) if row == 0 else 0
            for at, counts in enumerate(self._pods(progress, row, needs, extra, bounds.barred)):
                if at == 1 and extra:
                    tried.attempt = self._with_floor(progress, needs, extra, bounds, budget)
                if tried.attempt is None and (counts is None or not budget.spend(_QUESTION)):
                    tried.undecided = True
                    return tried
                if tried.attempt is None and counts is not None:
                    self._try_counts(progress, counts, bounds, budget, tried, explain=not tried.refuted and not quiet)
                if tried.attempt is not None or only_first:
                    return tried
        return tried

    def _try_counts(
        self,
        progress: Progress,
        counts: Picked,
        bounds: Bounds,
        budget: Budget,
        tried: _Tried,
        *,
        explain: bool,
    ) -> None:
        """So many pods of each batch, unless an equal question was asked before."""
        waiting = progress.gang.waiting
        problem = Problem([Part(waiting[b].leaf, waiting[b].shape, n) for b, n in counts.items()], bounds.required)
        signature = problem.signature(rows=False)
        if signature in tried.seen:
            return
        tried.seen.add(signature)
        refused = progress.refusal(counts)
        if refused is not None:
            tried.refuted.append(refused)
            return
        attempt = self._place(list(counts), problem, bounds, budget, explain=explain)
        if attempt.takings is not None:
            tried.attempt = attempt
        elif attempt.proof is None:
            tried.undecided = True
        else:
            tried.refuted.append(attempt.proof)

    def _pods(
        self, progress: Progress, row: int, needs: Needs, extra: int, drifted: frozenset[int]
    ) -> Iterator[Picked | None]:
        """Per batch the pods that are tried, without those of leaves that may get none."""
        gang = progress.gang
        numbers = [number for number in gang.batches_below(row) if gang.waiting[number].leaf not in drifted]
        batches, used = [gang.waiting[number] for number in numbers], [progress.used[number] for number in numbers]
        for counts in pods_of(batches, used, needs, extra, self.ledger.easier):
            yield None if counts is None else {number: n for number, n in zip(numbers, counts, strict=True) if n}

    def _with_floor(
        self, progress: Progress, needs: Needs, extra: int, bounds: Bounds, budget: Budget
    ) -> Attempt | None:
        """The minimums first, then pods one by one, the lightest first, until the floor is reached; often enough."""
        gang, trial = progress.gang, progress.ahead()
        counts = next(self._pods(progress, 0, needs, 0, bounds.barred), None)
        if counts is None or progress.refusal(counts) is not None:
            return None
        mark = self.ledger.mark()
        parts = [Part(gang.waiting[b].leaf, gang.waiting[b].shape, n) for b, n in counts.items()]
        attempt = self._place(list(counts), Problem(parts, bounds.required), bounds, budget, explain=False)
        if attempt.takings is None:
            return None
        takings = list(attempt.takings)
        for batch, taking in takings:
            trial.place(batch, taking.pods)
        for batch in sorted(range(len(gang.waiting)), key=lambda b: (self._weight(gang.waiting[b].shape), b)):
            while extra > 0 and gang.waiting[batch].leaf not in bounds.barred:
                more = self.surplus(trial, batch, budget, most=extra)
                if more.takings is None:
                    break
                for _, taking in more.takings:
                    trial.place(batch, taking.pods)
                    takings.append((batch, taking))
                    extra -= len(taking.pods)
        if extra > 0:
            self.ledger.rewind(mark)
            return None
        return Attempt(tuple(takings), None, attempt.unknown_wishes)

    def _weight(self, shape: int) -> float:
        """How heavy a pod is, as the largest share of what nodes have left."""
        return float((self.ledger.asks[shape] / self.ledger.free.max(axis=1, initial=1).clip(min=1)).max())

    def _impossible(self, progress: Progress, row: int, bounds: Bounds, budget: Budget) -> dict[int, Proof]:
        """Children that some node could do without and that can't be placed even alone, with the proof."""
        nodes, looks = progress.gang.tree.nodes, _Kinds(progress)
        found: dict[int, Proof] = {}
        # What was said of a child is true of all that look like it.
        said: dict[object, Proof | None] = {}
        open_rows = [row]
        while open_rows:
            at = open_rows.pop()
            node = nodes[at]
            open_rows.extend(node.children)
            for child in node.children if node.minimum < len(node.children) else ():
                if looks(child) not in said:
                    mark = self.ledger.mark()
                    tried = self._choose(progress, child, bounds, frozenset(), budget, quiet=True)
                    self.ledger.rewind(mark)
                    certain = tried.attempt is None and tried.refuted and not tried.undecided
                    said[looks(child)] = tried.refuted[0] if certain else None
                proof = said[looks(child)]
                if proof is not None:
                    found[child] = proof
        return found

    def _place(
        self, batches: Sequence[int], problem: Problem, bounds: Bounds, budget: Budget, *, explain: bool = True
    ) -> Attempt:
        """The pods with as many preferences met as there can be, those of the root first.

        A preference never prevents placement: all of them together may spend half of what there is.
        """
        mark = self.ledger.mark()
        leaves = {part.leaf for part in problem.parts}
        wishes = [wish for wish in bounds.wishes if not leaves.isdisjoint(wish.bound.leaves)]
        if not wishes:
            return _attempt(batches, self.solve(problem, budget, explain=explain), frozenset())
        parts, required = problem.parts, [region.bound for region in problem.regions]
        all_met = self.solve(Problem(parts, [*required, *(wish.bound for wish in wishes)]), budget.share(4))
        if all_met.placed:
            return _attempt(batches, all_met, frozenset())
        answer = self.solve(Problem(_clustered(parts, wishes), required), budget, explain=explain)
        if not answer.placed:
            return Attempt(None, answer.proof)
        if len(wishes) == 1:
            return _attempt(batches, answer, frozenset({wishes[0].hold} if all_met.proof is None else ()))
        kept: list[Wish] = []
        unknown: set[int] = set()
        for at, wish in enumerate(wishes):
            together = [*required, *(one.bound for one in kept), wish.bound]
            rest = [other for other in wishes if other not in kept and other is not wish]
            before = list(self.ledger.since(mark))
            self.ledger.rewind(mark)
            better = self.solve(Problem(_clustered(parts, rest), together), budget.share(len(wishes) - at + 1))
            if better.placed:
                answer = better
                kept.append(wish)
                continue
            for taking in before:
                self.ledger.take(taking)
            if better.proof is None:
                unknown.add(wish.hold)
        return _attempt(batches, answer, frozenset(unknown))

    def solve(self, problem: Problem, budget: Budget, *, explain: bool = False) -> Answer:
        """The same, with the proof when there is no way. What was refuted once is remembered."""
        question = problem.signature(rows=True)
        known = self.refuted.get(question)
        if known is not None and not (explain and _lacks_near(known)):
            return Answer(proof=known)
        answer = solve(problem, self.ledger, self.snapshot.topologies, self.strategy, budget, explain=explain)
        if answer.proof is not None:
            self.refuted[question] = answer.proof
        return answer


def _attempt(batches: Sequence[int], answer: Answer, unknown: frozenset[int]) -> Attempt:
    if answer.takings is None:
        return Attempt(None, answer.proof)
    return Attempt(tuple(zip(batches, answer.takings, strict=True)), None, unknown)


def _fewer(proof: Proof, pods: int) -> int:
    """How many of some equal pods may fit when all of them do not."""
    if isinstance(proof, Certificate):
        copies = [shortage.best for shortage in proof.shortages if shortage.dimension.shape != NONE]
        return min(pods - 1, max(copies, default=0)) if len(copies) == len(proof.shortages) else pods - 1
    return pods - 1


def _lacks_near(proof: Proof) -> bool:
    """Whether nobody looked where it comes nearest."""
    if isinstance(proof, Exhausted):
        return bool(proof.rows) and not proof.near
    return isinstance(proof, Certificate) and proof.topology != NONE and len(proof.bounds) > 1 and not proof.near


def _has_choice(progress: Progress, row: int) -> bool:
    nodes = progress.gang.tree.nodes
    return any(nodes[at].minimum < len(nodes[at].children) for at in range(row, progress.gang.tree.ends[row]))


def _floor(progress: Progress, needs: Needs) -> int:
    """Pods that the root's floor asks for beyond the minimums of its leaves."""
    return max(0, progress.gang.tree.nodes[0].floor - sum(progress.present) - sum(needs.values()))


def _clustered(parts: Sequence[Part], unmet: Sequence[Wish]) -> list[Part]:
    """Parts that keep to few domains of the innermost preference that is not met."""
    cluster: dict[int, Cluster] = {}
    for wish in unmet:
        for leaf in wish.bound.leaves:
            cluster[leaf] = Cluster(wish.bound.topology, wish.bound.level, wish.used)
    return [part._replace(cluster=cluster.get(part.leaf)) for part in parts]


class _Kinds:
    """What children of one parent are, whoever they are: those that look alike are interchangeable."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._known: dict[int, object] = {}
        self._holds: dict[int, list[int]] = {}
        self._beside: dict[int, list[int]] = {}
        for number, hold in enumerate(progress.gang.holds):
            if hold.beside:
                for leaf in hold.leaves:
                    self._beside.setdefault(leaf, []).append(number)
            else:
                self._holds.setdefault(hold.row, []).append(number)

    def __call__(self, row: int) -> object:
        if row not in self._known:
            self._known[row] = self._look(row)
        return self._known[row]

    def _look(self, row: int) -> object:
        progress = self._progress
        gang, node = progress.gang, progress.gang.tree.nodes[row]
        holds = [self._hold(number) for number in self._holds.get(row, ())]
        if node.children:
            return node.minimum, tuple(holds), tuple(sorted((self(child) for child in node.children), key=repr))
        waiting = [
            (gang.waiting[batch].shape, len(gang.waiting[batch].pods) - progress.used[batch])
            for batch in gang.batches_below(row)
        ]
        missing = node.minimum - progress.present[row]
        return missing, tuple(holds), tuple(sorted(waiting)), tuple(self._beside.get(row, ()))

    def _hold(self, number: int) -> object:
        hold, pins = self._progress.gang.holds[number], self._progress.pins[number]
        levels = (hold.topology, hold.required, hold.preferred)
        return levels, tuple(sorted(pins.required)), tuple(sorted(pins.preferred))
