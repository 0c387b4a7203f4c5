"""The rules of evictions as they are after a cycle: for those who tell why nobody goes for a gang."""

from collections.abc import Sequence
from dataclasses import replace

from muster.api.once import once
from muster.plan.accounts import Accounts, Charge
from muster.plan.outcome import Plan
from muster.plan.rights import Rights, Terms
from muster.plan.units import Spot, Table, without
from muster.snapshot.arrays import Snapshot


class Afterwards:
    """Queues with what they hold at the end, gangs without the pods that go, disruption budgets without those drawn."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    @once
    def accounts(self) -> Accounts:
        """What counts in every queue, nominated and moved pods too."""
        found = Accounts(self._plan.snapshot)
        if self._plan.queues:
            found.resume(self._plan.queues)
        return found

    @once
    def snapshot(self) -> Snapshot:
        """The cluster without what goes."""
        gangs, gone = list(self._plan.snapshot.gangs), dict[int, set[Spot]]()
        for one in self._plan.evictions:
            gone.setdefault(one.gang, set()).add((one.leaf, one.pod))
        for number, spots in gone.items():
            gangs[number] = without(gangs[number], spots)
        return replace(self._plan.snapshot, gangs=tuple(gangs))

    @once
    def _table(self) -> Table:
        return Table(self.snapshot)

    @once
    def _disruptions(self) -> Sequence[int]:
        left = list(self._plan.snapshot.disruptions)
        for one in self._plan.evictions:
            placed = self._plan.snapshot.gangs[one.gang].placed[one.leaf]
            for guard in placed.guards[one.pod] if placed.guards else ():
                left[guard] = max(0, left[guard] - 1)
        return left

    def rights(self, action: str, number: int, asked: Charge) -> Rights:
        """The rules of an action for a gang that asks for so much."""
        terms = Terms(self.snapshot.gangs[number], asked, self.accounts)
        return Rights(action, number, terms, self._table, self.snapshot, self._disruptions, passing=True)
