"""How many steps each gang may spend in a cycle: at most half of them, and what got too few comes first.

A cycle has one account of steps, and everything that is asked for a gang pays from it: its search, its surplus, the
questions about victims. A gang that got fewer steps than it asked for is *owed*: in the next cycle its steps are set
aside before the first turn, oldest debt first and queues in turns, so that a hard gang with an early turn never keeps
another one from being searched for. An undecided gang is searched for with twice the steps as long as that is possible;
then it rests until it or the room changes (decisions 0009 and 0029).
"""

from collections.abc import Mapping
from typing import NamedTuple

from muster.plan.budget import Budget
from muster.snapshot.arrays import Gang, Key

# How often the steps of an undecided gang are doubled before it rests.
_MOST_DOUBLINGS = 4
# What every question may cost beyond the account, when that is empty: enough unless the question is hard.
_LEAST_STEPS, _LEAST_PER_BATCH = 200, 12


class Owed(NamedTuple):
    """A gang that got fewer steps than it asked for: how many it asks for, and since when (`since_ns`)."""

    queue: str
    steps: int
    since_ns: int


class Allotment:
    """The steps of one cycle, and who is owed some in the next."""

    def __init__(self, per_gang: int, per_cycle: int, owed: Mapping[Key, Owed], now_ns: int) -> None:
        self._per_gang, self._now_ns = per_gang, now_ns
        self._most = max(1, per_cycle // 2)
        self._before, self._owed = owed, dict[Key, Owed]()
        self._spent: dict[Key, int] = {}
        self._aside: dict[Key, int] = {}
        self._left = per_cycle
        for key in _in_turns(owed):
            steps = min(owed[key].steps, self._most, self._left)
            self._aside[key] = steps
            self._left -= steps

    def worth(self, attempts: int) -> int:
        """What the next search for a gang may cost after `attempts` that found nothing."""
        return min(self._per_gang << min(attempts, _MOST_DOUBLINGS), self._most)

    def rests(self, attempts: int) -> bool:
        """Whether another search would cost too much, or get no more steps than the last one."""
        return attempts > _MOST_DOUBLINGS or (attempts > 0 and self.worth(attempts) == self.worth(attempts - 1))

    def begin(self, gang: Gang) -> None:
        """It is the gang's turn: what was set aside for it is free."""
        self._left += self._aside.pop(gang.key, 0)

    def budget(self, gang: Gang, steps: int) -> Budget:
        """Up to `steps` for one question about the gang whose turn it is."""
        least = _LEAST_STEPS + _LEAST_PER_BATCH * len(gang.waiting)
        own = self._most - self._spent.get(gang.key, 0)
        return Budget(max(least, min(steps, own, self._left)))

    def pay(self, gang: Gang, budget: Budget, steps: int) -> bool:
        """Books what a question cost. True if it was cut: the gang's own part had more steps, but the cycle had not."""
        spent = self._spent.get(gang.key, 0)
        self._left = max(0, self._left - budget.spent)
        self._spent[gang.key] = spent + budget.spent
        is_cut = budget.empty and budget.steps < min(steps, self._most - spent)
        if is_cut:
            before = self._before.get(gang.key)
            since_ns = self._now_ns if before is None else min(before.since_ns, self._now_ns)
            self._owed[gang.key] = Owed(gang.queue, min(spent + steps, self._most), since_ns)
        return is_cut

    @property
    def owed(self) -> dict[Key, Owed]:
        """What is owed to gangs after this cycle."""
        return self._owed


def _in_turns(owed: Mapping[Key, Owed]) -> list[Key]:
    """Oldest debt first, one of each queue at a time."""
    ranks: dict[str, int] = {}
    line: list[tuple[int, int, Key]] = []
    for key in sorted(owed, key=lambda key: (owed[key].since_ns, key)):
        rank = ranks[owed[key].queue] = ranks.get(owed[key].queue, -1) + 1
        line.append((rank, owed[key].since_ns, key))
    return [key for _, _, key in sorted(line)]
