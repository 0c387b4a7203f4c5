"""What of a gang was stale (SPEC §8) when somebody decided that it goes: below its minimum by a loss, and for long."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from muster.api.tree import NONE, Tree, satisfied
from muster.sim.books import Books
from muster.sim.facts import PLACED, SUCCEEDED, WAITING, Group, Member
from muster.sim.sight import Sight

# Times in a status are whole seconds.
_ROUNDED_S = 1.5


class Look(NamedTuple):
    """What a process had before its eyes at a moment; it may have seen something so much later than it happened."""

    process: int
    at_s: float
    lag_s: float


class Staleness:
    """Asks the books how long tree nodes were below their minimums."""

    def __init__(self, books: Books, sight: Sight) -> None:
        self._books, self._sight = books, sight

    def rows(self, group: Group, look: Look, come: Collection[Member]) -> list[int]:
        """The tree nodes that have been below their minimum for longer than the grace period, from the root down."""
        tree = group.tree
        assert tree is not None
        if group.grace_s < 0:
            return []
        counts = self._present(group, look, look.at_s)
        for pod in come:
            comes = is_there(self._books, pod.node, look.at_s, look.lag_s)
            counts[group.leaf_of(pod)] += group.leaf_of(pod) != NONE and comes
        met = satisfied(tree, counts)
        waiting = [pod for pod in self._books.gang(group.key, look.at_s).values() if pod.state == WAITING]
        placed = [len(self._books.placed(group, look.at_s).get(row, ())) for row in range(len(tree.nodes))]
        joined = self._books.joined(group, placed, look.at_s)
        found, open_rows = list[int](), [0]
        while open_rows:
            row = open_rows.pop()
            if met[row]:
                open_rows.extend(tree.nodes[row].children)
            elif joined[row] and not any(group.leaf_of(pod) in tree.leaves_below(row) for pod in waiting):
                continue
            elif self._has_lasted(group, row, look) and self._is_loss(group, row, look):
                found.append(taken_with(tree, row, joined, counts, placed))
        return found

    def _has_lasted(self, group: Group, row: int, look: Look) -> bool:
        """Whether a tree node was below its minimum all the time."""
        forth_s = self._sight.forth_s(look.process, look.at_s)
        since_s = look.at_s - max(0.0, group.grace_s - _ROUNDED_S - forth_s)
        moments = (*self._books.turns(group.key, since_s, look.at_s), since_s)
        if self._came_in(group, moments):
            return False
        return not any(self._was_met(group, row, look, moment) for moment in moments)

    def _came_in(self, group: Group, moments: Sequence[float]) -> bool:
        """Whether this very gang was not there at one of these, the latest first, and came after it. What there is at
        the beginning was there before.
        """
        was_seen = False
        for moment in moments:
            then = self._books.group(group.key, moment)
            is_it = then is not None and then.uid == group.uid
            if was_seen and not is_it and moment > 0:
                return True
            was_seen = was_seen or is_it
        return False

    def _is_loss(self, group: Group, row: int, look: Look) -> bool:
        """Whether it would be below the minimum that it had when it was last met: a spec that asks for more is none.

        Who loses a pod while it is below such a minimum has lost something, too. What no status has ever called
        satisfied was never placed as far as anybody can know, and is a loss: what was said of an earlier gang of its
        name went with that. So is what went while the gang was invalid: its status stood still.
        """
        name, was_told = _name_of(group, row), False
        has = self._below(group, name, look, look.at_s)
        for moment in self._books.turns(group.key, 0.0, look.at_s):
            then = self._books.group(group.key, moment)
            if then is None:
                continue
            if then.uid != group.uid or then.wrong or self._below(then, name, look, moment) > has:
                return True
            rows = then.status.get("subGroups") or ()
            was_told = was_told or any(one.get("name", "") == name and one.get("satisfied") for one in rows)
            before = self._was_met(group, row, look, moment)
            if before is not None and before.tree is not None:
                now = self._present(before, look, look.at_s)
                return not (was_told and satisfied(before.tree, now)[before.tree.row_of[name]])
        return True

    def _below(self, group: Group, name: str, look: Look, moment: float) -> int:
        """How many pods a tree node had then, as far as it was there."""
        if group.tree is None or name not in group.tree.row_of:
            return 0
        present = self._present(group, look, moment)
        return sum(present[leaf] for leaf in group.tree.leaves_below(group.tree.row_of[name]))

    def _was_met(self, group: Group, row: int, look: Look, moment: float) -> Group | None:
        """The gang as it was then, if this tree node had its minimum."""
        before = self._books.group(group.key, moment)
        if before is None or before.tree is None:
            return None
        at = before.tree.row_of.get(_name_of(group, row), NONE)
        if at == NONE or not satisfied(before.tree, self._present(before, look, moment))[at]:
            return None
        return before

    def _present(self, group: Group, look: Look, moment: float) -> list[int]:
        """Placed and succeeded pods per row, on nodes that were there long enough to be seen by whoever decided."""
        assert group.tree is not None
        counts = [0] * len(group.tree.nodes)
        for pod in self._books.gang(group.key, moment).values():
            leaf = group.leaf_of(pod)
            if leaf != NONE and (
                pod.state == SUCCEEDED
                or (pod.state == PLACED and self._books.stood(pod.node, moment - look.lag_s, moment))
            ):
                counts[leaf] += 1
        return counts


def taken_with(tree: Tree, row: int, joined: Sequence[bool], present: Sequence[int], placed: Sequence[int]) -> int:
    """The tree node that goes when this one is stale: of a joined child the nearest that is not, and can be spared."""
    while row and joined[row]:
        row = tree.nodes[row].parent
        while row:
            leaves = tree.leaves_below(row)
            left = [have - placed[at] * (at in leaves) for at, have in enumerate(present)]
            if satisfied(tree, left)[0]:
                break
            row = tree.nodes[row].parent
    return row


def is_there(books: Books, node: str, moment: float, late_s: float) -> bool:
    """Whether a node was there, or so long before: who has not seen it go counts on it, also for those that are on
    their way to it.
    """
    return any(books.node(node, then_s) is not None for then_s in (moment, moment - late_s))


def _name_of(group: Group, row: int) -> str:
    assert group.tree is not None
    return group.tree.nodes[row].name
