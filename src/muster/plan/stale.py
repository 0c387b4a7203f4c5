"""Staleness (SPEC §8): gangs, or children, that lost what their minimum needs and did not get it back in time."""

from collections.abc import Sequence
from typing import NamedTuple

from muster.api.tree import Tree, satisfied
from muster.snapshot.arrays import Counts, Gang, Recorded


class Clock(NamedTuple):
    """A tree node that is below its minimum by a loss; `since_ns` is when the clock started, `due` whether it is up."""

    row: int
    since_ns: int
    due: bool


def clocks_of(gang: Gang, present: Sequence[int], now_ns: int, last_ns: int | None) -> list[Clock]:
    """From the root down: an unsatisfied root, or every unsatisfied child with placed pods whose parent is satisfied.

    `present` are placed and succeeded pods per leaf after the cycle. While a missing member terminates the clock stands
    still: the time since `last_ns`, the cycle before, does not count; when nobody knows it, none of it does. A child
    goes when those above it have their minimums, and their floor, without it and without what this cycle brings, which
    may not come.
    """
    tree, met, lost = gang.tree, satisfied(gang.tree, present), _lost(gang, present)
    stays = list(gang.present)
    found, open_rows = list[Clock](), [0]
    while open_rows:
        row = open_rows.pop()
        if met[row]:
            open_rows.extend(reversed(tree.nodes[row].children))
        elif lost[row] and _has_placed(gang, row):
            known = gang.recorded[row] if gang.recorded else None
            # Whoever wrote it down may have had another clock: what is yet to come has begun now.
            since = min(known.stale_since_ns, now_ns) if known is not None and known.stale_since_ns else now_ns
            waits = any(gang.counts.get(leaf, Counts()).terminating for leaf in tree.leaves_below(row))
            if waits:
                since = now_ns if last_ns is None else min(now_ns, since + max(0, now_ns - last_ns))
            due = not waits and 0 <= gang.grace_ns <= now_ns - since
            if due and row > 0:
                left = _without(gang, row, stays)
                due = _is_whole_above(tree, row, left)
                stays = left if due else stays
            found.append(Clock(row, since, due))
    return found


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
    found, under = list[bool](), list[bool]()
    for row, known in enumerate(gang.recorded):
        # While a tree node is stale nobody asks how those below it came to lack something: they lost it with it.
        above = row > 0 and under[tree.nodes[row].parent]
        under.append(above or (known is not None and known.stale_since_ns > 0))
        if known is None:
            # A new child that has pods already: half of it was placed, which is a loss too.
            found.append(True)
        elif under[row]:
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
