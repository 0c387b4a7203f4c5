"""Staleness (SPEC §8): gangs, or children, that lost what their minimum needs and did not get it back in time.

A joined child that lost pods has a clock while one of its pods waits, and takes its parent with it.
"""

from collections.abc import Sequence
from typing import NamedTuple

from muster.api.tree import NONE, Tree, satisfied
from muster.snapshot.arrays import Counts, Gang, Recorded


class Clock(NamedTuple):
    """A tree node that is below its minimum by a loss; `since_ns` is when the clock started, `due` whether it is up.

    `goes` is the tree node that is evicted with it then: itself, or what a joined child is kept together with.
    """

    row: int
    since_ns: int
    due: bool
    goes: int


class Lacking(NamedTuple):
    """The clocks of a gang, and the rows that lack pods by a loss without a clock of their own."""

    clocks: list[Clock]
    # Joined rows none of whose pods waits.
    lost: list[int]
    # Rows with pods below one of these or below a clock: each has its own clock when that one has its minimum again.
    below: list[int]


def lacking(gang: Gang, present: Sequence[int], now_ns: int, last_ns: int | None) -> Lacking:
    """From the root down: an unsatisfied root, every unsatisfied child with placed pods whose parent is satisfied, and
    every unsatisfied joined child.

    `present` are placed and succeeded pods per leaf after the cycle. While a missing member terminates the clock stands
    still: the time since `last_ns`, the cycle before, does not count; when nobody knows it, none of it does. A child
    goes when those above it have their minimums, and their floor, without it and without what this cycle brings, which
    may not come; a joined child goes with the nearest tree node of which this is true.
    """
    tree, met, lost = gang.tree, satisfied(gang.tree, present), _lost(gang, present)
    stays = list(gang.present)
    found, quiet, open_rows = list[Clock](), list[int](), [0]
    while open_rows:
        row = open_rows.pop()
        if met[row]:
            open_rows.extend(reversed(tree.nodes[row].children))
        elif gang.joined[row] and not _waits(gang, row, present):
            if lost[row]:
                quiet.append(row)
        elif lost[row] and (gang.joined[row] or _has_placed(gang, row)):
            known = gang.recorded[row] if gang.recorded else None
            # Whoever wrote it down may have had another clock: what is yet to come has begun now.
            since = min(known.stale_since_ns, now_ns) if known is not None and known.stale_since_ns else now_ns
            waits = any(gang.counts.get(leaf, Counts()).terminating for leaf in tree.leaves_below(row))
            if waits:
                since = now_ns if last_ns is None else min(now_ns, since + max(0, now_ns - last_ns))
            due, goes = not waits and 0 <= gang.grace_ns <= now_ns - since, row
            if due and gang.joined[row]:
                goes = _kept_with(gang, row, stays)
            if due and goes > 0:
                left = _without(gang, goes, stays)
                due = _is_whole_above(tree, goes, left)
                stays = left if due else stays
            found.append(Clock(row, since, due, goes))
    tops = [*(clock.row for clock in found), *quiet]
    inside = (row for top in tops for row in range(top + 1, tree.ends[top]))
    below = [row for row in inside if lost[row] and not met[row] and _has_placed(gang, row)]
    return Lacking(_outermost(tree, found), quiet, below)


def _kept_with(gang: Gang, row: int, present: Sequence[int]) -> int:
    """The nearest tree node around a joined child that is not joined, and without which those above it stay whole."""
    tree = gang.tree
    while row > 0 and (gang.joined[row] or not _is_whole_above(tree, row, _without(gang, row, present))):
        row = tree.nodes[row].parent
    return row


def _outermost(tree: Tree, clocks: Sequence[Clock]) -> list[Clock]:
    """Of several that are due and would take the same pods, only the first of the outermost tree node takes them."""
    found, taken = list[Clock](), set[int]()
    due = {clock.goes for clock in clocks if clock.due}
    for clock in clocks:
        above = tree.nodes[clock.goes].parent
        while above not in due and above != NONE:
            above = tree.nodes[above].parent
        alone = above == NONE and clock.goes not in taken
        found.append(clock._replace(due=clock.due and alone))
        if clock.due:
            taken.add(clock.goes)
    return found


def _waits(gang: Gang, row: int, present: Sequence[int]) -> bool:
    """Whether a pod below a tree node waits, and is not placed by this cycle."""
    leaves = gang.tree.leaves_below(row)
    return any(gang.pending[leaf] > max(0, present[leaf] - gang.present[leaf]) for leaf in leaves)


def _without(gang: Gang, row: int, present: Sequence[int]) -> list[int]:
    """What is present per leaf when everything that is placed below a tree node has gone."""
    left = list(present)
    for leaf in gang.tree.leaves_below(row):
        left[leaf] -= len(gang.placed[leaf].nodes) if leaf in gang.placed else 0
    return left


def _is_whole_above(tree: Tree, row: int, present: Sequence[int]) -> bool:
    met = satisfied(tree, present)
    while row > 0:
        row = tree.nodes[row].parent
        if not met[row]:
            return False
    return True


def _has_placed(gang: Gang, row: int) -> bool:
    return any(leaf in gang.placed for leaf in gang.tree.leaves_below(row))


def _lost(gang: Gang, present: Sequence[int]) -> list[bool]:
    """Per row: whether it lacks something by a loss, and not only because its spec asks for more than before."""
    tree = gang.tree
    if not gang.recorded:
        return [True] * len(tree.nodes)
    before = satisfied(_as_recorded(tree, gang.recorded), present)
    have = list(present)
    for row in range(len(have) - 1, 0, -1):
        have[tree.nodes[row].parent] += have[row]
    found = list[bool]()
    for row, known in enumerate(gang.recorded):
        if known is None:
            # A new child that has pods already: half of it was placed, which is a loss too.
            found.append(True)
        elif known.lost or known.stale_since_ns > 0:
            found.append(True)
        elif known.satisfied:
            found.append(not before[row])
        else:
            found.append(have[row] < known.placed + known.succeeded or not known.placed)
    return found


def _as_recorded(tree: Tree, recorded: Sequence[Recorded | None]) -> Tree:
    """The tree with the minimums that the status knows; what it does not know asks for nothing."""
    nodes = [
        node._replace(minimum=known.minimum if known is not None else 0)
        for node, known in zip(tree.nodes, recorded, strict=True)
    ]
    if recorded[0] is not None and recorded[0].satisfied:
        # The status knows no floor; what was enough then was not less than it.
        nodes[0] = nodes[0]._replace(floor=min(nodes[0].floor, recorded[0].placed + recorded[0].succeeded))
    return Tree(tuple(nodes), tree.together)
