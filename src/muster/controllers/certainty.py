"""Of what a plan orders, that which is right whatever becomes of the writes that are still on their way.

Plans count what was sent as done. It may be refused, or never have arrived; and evictions wait for the room that they
make to be reserved, and may be put off then. What would be wrong in that case waits until it is known.
"""

from collections.abc import Collection, Iterable, Iterator

from muster.api.tree import NONE, Tree, satisfied
from muster.controllers.charging import leaning
from muster.controllers.clocks import present_for_sure
from muster.controllers.flights import Flights
from muster.decisions.orders import EvictOrder, Orders, parts_of
from muster.decisions.plan import Nominate, decide
from muster.plan.outcome import Eviction, Plan, UnitKind
from muster.snapshot.world import Key, World


class Promises:
    """The evictions that were ordered, as long as the API server has not said yes."""

    def __init__(self) -> None:
        self._orders: dict[Key, EvictOrder] = {}

    def take(self, order: EvictOrder) -> None:
        """This one is about to be sent."""
        self._orders[order.pod] = order

    def open(self, leaving: Collection[Key]) -> Iterable[EvictOrder]:
        """Those of pods in `leaving`, which may stay. One for each two gangs will do: there may be many."""
        self._orders = {pod: order for pod, order in self._orders.items() if pod in leaving}
        return {(order.gang, order.beneficiary): order for order in self._orders.values()}.values()


def certain(found: Orders, plan: Plan, world: World, flights: Flights, promises: Promises) -> Orders:
    """Without evictions of pods that are still on their way to a node, of gangs that can spare nobody if such pods of
    theirs do not come, and of others that are only right with them, or with pods that were told to go before and may
    stay: all of them go when it is known what became of those.

    And without more pods for a gang of which nobody knows what became of one: where somebody is admitted, that one does
    not count (SPEC §1). While it is not known whether a pod leaves, it may still hold its domain, and its part of its
    queue.
    """
    leaving = flights.leaving()
    counts_on_them = _promised_room_of(leaving, plan, world) if found.evictions else set()
    short = _short_without(frozenset(flights.unsure()), plan, world) if found.evictions else set()
    vain = {
        order
        for part in parts_of((*found.evictions, *promises.open(leaving)))
        if any(one.pod in flights or one.gang in short or one.beneficiary in counts_on_them for one in part)
        for order in part
    }
    waiting = flights.unknown() | {gang for gang in leaving.values() if gang is not None}
    waiting |= leaning(plan, flights.unanswered(), found.binds)
    # Who is asked to evict goes by what is, not by what is on its way.
    moving = set(flights.gangs()) if found.answers else set()
    return found._replace(
        binds=tuple(order for order in found.binds if order.gang not in waiting),
        evictions=tuple(order for order in found.evictions if order not in vain),
        answers=tuple(order for order in found.answers if moving.isdisjoint(order.gangs)),
    )


def nominated(plan: Plan) -> dict[Key, str]:
    """The pods that the plan promises room to which others are still to leave, and where."""
    return {(one.namespace, one.pod): one.node for one in decide(plan) if isinstance(one, Nominate)}


def _promised_room_of(leaving: Iterable[Key], plan: Plan, world: World) -> set[str]:
    """The gangs, by name, that the plan promises room on nodes of these pods."""
    nodes = {world.pods[pod].pod.spec.node_name for pod in leaving if pod in world.pods}
    gangs = (world.pods[pod].gang for pod, node in nominated(plan).items() if node in nodes)
    return {"/".join(gang) for gang in gangs if gang is not None}


def _short_without(unsure: Collection[Key], plan: Plan, world: World) -> set[Key]:
    """The gangs that lose pods, and keep by the plan what these `unsure` ones would have to come for."""
    flying = {world.pods[pod].gang for pod in unsure if pod in world.pods}
    losses: dict[int, list[Eviction]] = {}
    for one in plan.evictions if flying else ():
        if plan.snapshot.gangs[one.gang].key in flying:
            losses.setdefault(one.gang, []).append(one)
    found = set[Key]()
    for number, gone in losses.items():
        gang, rows = plan.snapshot.gangs[number], plan.outcomes[number].rows
        stays = present_for_sure(gang, world, unsure)
        for one in gone:
            stays[one.leaf] -= 1
        met = satisfied(gang.tree, stays)
        if any(rows[row].satisfied and not met[row] for one in gone for row in _kept(gang.tree, one)):
            found.add(gang.key)
    return found


def _kept(tree: Tree, one: Eviction) -> Iterator[int]:
    """The tree nodes that must not break by an eviction: those above what goes, and a leaf that loses a spare pod."""
    row = one.row if one.kind == UnitKind.SURPLUS_POD else tree.nodes[one.row].parent
    while row != NONE:
        yield row
        row = tree.nodes[row].parent
