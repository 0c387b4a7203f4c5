"""Counts the trees of gangs after a cycle: have, minimum, total, and where each tree node lies."""

from collections.abc import Sequence
from dataclasses import replace

from muster.api.tree import NONE, satisfied
from muster.model.reasons import Code
from muster.plan.outcome import Action, Outcome, Plan, Reason, RowOutcome, Verdict
from muster.plan.progress import Progress
from muster.plan.reasons import reason_of_issue
from muster.snapshot.arrays import NOBODY, Counts, Gang, Key, Placed, Snapshot


class Settled:
    """Outcomes of gangs that were not tried: held, not ready, or nothing waits. Kept while a gang is the same."""

    def __init__(self) -> None:
        self._known: dict[Key, tuple[Gang, Outcome]] = {}

    def of(self, gang: Gang, snapshot: Snapshot) -> Outcome:
        """What there is to say of such a gang."""
        known = self._known.get(gang.key)
        if known is not None and known[0] is gang:
            return known[1]
        outcome = outcome_of_untried(gang, snapshot)
        if len(self._known) > 2 * len(snapshot.gangs):
            # Most of them are gone.
            self._known.clear()
        self._known[gang.key] = (gang, outcome)
        return outcome


def outcome_of_untried(gang: Gang, snapshot: Snapshot) -> Outcome:
    """What there is to say of a gang that was not tried."""
    rows = rows_of(Progress(gang, snapshot), frozenset())
    reasons = [reason_of_issue(issue) for issue in gang.held]
    verdict = Verdict.HELD
    if gang.satisfied[0] and not gang.held:
        verdict = Verdict.PLACED
    elif not gang.held and gang.ready[0]:
        reasons.append(Reason(Code.NOT_TRIED, 0, detail=f"add {Action.ALLOCATE} to --actions"))
    elif not gang.held:
        reasons += waiting_for_pods(gang)
    reasons += map(reason_of_issue, gang.notes)
    return Outcome(verdict, rows[0].satisfied, rows, tuple(reasons))


def rows_of(progress: Progress, unknown_wishes: frozenset[int]) -> tuple[RowOutcome, ...]:
    """Every tree node as it is after the cycle."""
    gang, nodes = progress.gang, progress.gang.tree.nodes
    nothing = Counts()
    met = satisfied(gang.tree, progress.present)
    placed, total = [0] * len(nodes), [0] * len(nodes)
    pending = list(gang.pending)
    for leaf in gang.tree.leaves:
        counts = gang.counts.get(leaf, nothing)
        placed[leaf] = progress.present[leaf] - counts.succeeded
        pending[leaf] = gang.pending[leaf] + counts.gated - (progress.present[leaf] - gang.present[leaf])
        total[leaf] = counts.total
    joined_rows = gang.joined_with(placed) if gang.tree.keeps else ()
    for row in range(len(nodes) - 1, 0, -1):
        for column in (placed, pending, total):
            column[nodes[row].parent] += column[row]
    domains, wishes = _domains(progress, unknown_wishes, placed)
    found = [
        RowOutcome(met[row], placed[row], pending[row], total[row], domains.get(row), wishes.get(row))
        for row in range(len(nodes))
    ]
    if gang.tree.keeps:
        found = [row._replace(joined=now) for row, now in zip(found, joined_rows, strict=True)]
    return tuple(found)


def _domains(
    progress: Progress, unknown_wishes: frozenset[int], placed: Sequence[int]
) -> tuple[dict[int, tuple[int, int, int]], dict[int, bool | None]]:
    """Per constrained row the narrowest domain that it lies in, and whether its preference is met."""
    domains: dict[int, tuple[int, int, int]] = {}
    wishes: dict[int, bool | None] = {}
    for number, hold in enumerate(progress.gang.holds):
        if hold.beside or not placed[hold.row]:
            continue
        for level in (hold.required, hold.preferred):
            if level == NONE:
                continue
            found = progress.pins[number].required if level == hold.required else progress.pins[number].preferred
            one = len(found) == 1 and NONE not in found
            if one:
                domains[hold.row] = (hold.topology, level, next(iter(found)))
            if level == hold.preferred and found:
                wishes[hold.row] = True if one else (None if number in unknown_wishes else False)
    return domains, wishes


def waiting_for_pods(gang: Gang, most: int = 10) -> list[Reason]:
    """The leaves that keep a gang from being ready, with how many pods they have and need."""
    found = []
    for leaf in gang.tree.leaves:
        if not gang.ready[leaf] and _matters(gang, leaf):
            have = gang.present[leaf] + gang.pending[leaf]
            found.append(Reason(Code.WAITING_FOR_PODS, leaf, gang.tree.nodes[leaf].minimum, have))
    if not found:
        # Every leaf has its minimum; the floor asks for more.
        both = sum(gang.present) + sum(gang.pending)
        found.append(Reason(Code.WAITING_FOR_PODS, 0, gang.tree.nodes[0].floor, both))
    return found[:most]


def _matters(gang: Gang, leaf: int) -> bool:
    """Whether all that is around a leaf lacks something too."""
    row = leaf
    while row != NONE:
        if gang.ready[row]:
            return False
        row = gang.tree.nodes[row].parent
    return True


def whole_rows(progress: Progress, start: int = 0, whole: list[bool] | None = None) -> list[bool]:
    """Per row: whether it and everything around it is satisfied. Only there pods may be added one by one.

    With `whole` known, only the rows of the tree node `start` are found anew.
    """
    nodes, end = progress.gang.tree.nodes, progress.gang.tree.ends[start]
    found = whole if whole is not None else [False] * len(nodes)
    if start == 0:
        found[:] = satisfied(progress.gang.tree, progress.present)
    else:
        children = [0] * (end - start)
        for row in range(end - 1, start - 1, -1):
            have = children[row - start] if nodes[row].children else progress.present[row]
            found[row] = have >= nodes[row].minimum
            if row > start:
                children[nodes[row].parent - start] += found[row]
    for row in range(start, end):
        found[row] = found[row] and (nodes[row].parent == NONE or found[nodes[row].parent])
    return found


def gang_after(plan: Plan, number: int) -> Gang:
    """The gang as it is when the plan is carried out."""
    gang = plan.snapshot.gangs[number]
    placed = dict(gang.placed)
    taken: dict[int, set[int]] = {}
    for placement in plan.placements:
        if placement.gang != number:
            continue
        batch = gang.waiting[placement.batch]
        taken.setdefault(placement.batch, set()).update(placement.pods)
        if placement.nominated:
            continue
        before = placed.get(batch.leaf, NOBODY)
        count = len(placement.pods)
        more = Placed(
            tuple(batch.pods[pod] for pod in placement.pods),
            placement.nodes,
            (batch.shape,) * count,
            # Of pods that wait nobody knows these two.
            (False,) * count,
            ((),) * count,
            tuple(batch.ages[pod] for pod in placement.pods),
        )
        placed[batch.leaf] = before.merged(more)
    waiting = []
    for at, batch in enumerate(gang.waiting):
        left = [pod for pod in range(len(batch.pods)) if pod not in taken.get(at, ())]
        if left:
            waiting.append(
                batch._replace(
                    pods=tuple(batch.pods[pod] for pod in left),
                    ages=tuple(batch.ages[pod] for pod in left),
                    nominated=(NONE,) * len(left),
                )
            )
    return replace(gang, waiting=tuple(waiting), placed=placed)
