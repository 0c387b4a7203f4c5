"""One gang as the page shows it: its tree, its pods where they are and where they go, and why it waits."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from muster.api.once import once
from muster.api.tree import NONE
from muster.decisions.amounts import moment
from muster.decisions.explanation import message_of, reasons_of_rows
from muster.decisions.plan import core_rows, domain_of, joined_of
from muster.decisions.status import is_completed
from muster.decisions.words import foremost
from muster.plan.accounts import core_counts
from muster.plan.outcome import Eviction, Outcome, Placement, Verdict
from muster.plan.units import without
from muster.serve.views.scene import Leaver, Scene
from muster.snapshot.arrays import NOBODY, Gang, Hold, Key, Snapshot
from muster.snapshot.queues import CHARGES

Document = dict[str, Any]
# Of a pod: whether it is needed for the minimum, or how far it is on its way.
CORE, SURPLUS, BINDING, NOMINATED = "core", "surplus", "binding", "nominated"
# Of a gang, in one word.
RUNNING, PARTIAL, PENDING, HELD, FITS, FINISHED = "running", "partial", "pending", "held", "fits", "finished"
# As the status of its PodGroup says: it had its minimum, and lost some of it.
STALE = "stale"
# Of both: a gang is leaving when all of its pods are.
LEAVING = "leaving"


class Deeds(NamedTuple):
    """What a cycle does with a gang, and what is still under way from earlier ones."""

    placements: tuple[Placement, ...] = ()
    evictions: tuple[Eviction, ...] = ()
    flying: frozenset[str] = frozenset()
    leaving: tuple[Leaver, ...] = ()
    # Whether somebody acts on the plan.
    acts: bool = False


IDLE = Deeds()
NO_SURPLUS = (0,) * len(CHARGES)


class Entry(NamedTuple):
    """A gang with what its document was made of, and what it comes to for its nodes and its queue."""

    gang: Gang
    outcome: Outcome
    deeds: Deeds
    document: Document
    # What it holds of each node, by number, and what more it gets there in this cycle; in base units.
    holds: tuple[tuple[int, int], ...]
    comes: tuple[tuple[int, int], ...]
    # What of its queue its placed surplus costs, per charge.
    surplus: tuple[int, ...]

    def is_as(self, gang: Gang, outcome: Outcome, deeds: Deeds) -> bool:
        """Whether the gang is as it was, its place in line aside."""
        return self.gang is gang and self.deeds == deeds and says_the_same(self.outcome, outcome)


class Surroundings:
    """What the documents of all gangs of one scene share."""

    def __init__(self, scene: Scene) -> None:
        self.scene, self.snapshot = scene, scene.plan.snapshot
        snapshot, unit = self.snapshot, scene.unit
        columns = [at for at, resource in enumerate(snapshot.resources) if resource in unit.resources]
        # Per shape: what a pod holds of the unit, in base units and in slots, and what it costs its queue.
        self.amounts: list[int] = snapshot.asks[:, columns].sum(axis=1).tolist()
        self.slots = [in_slots(amount, unit.scale) for amount in self.amounts]
        self.charges: list[list[int]] = snapshot.charges.tolist()
        self.levels = [[name_of_level(label) for label in one.labels] for one in snapshot.topologies]

    @once
    def row_of(self) -> Mapping[str, int]:
        """The nodes by name. Only pods that terminate are asked for so."""
        return {name: row for row, name in enumerate(self.snapshot.nodes)}


def name_of_level(label: str) -> str:
    """A level as sentences call it: its label without the prefix."""
    return label.rpartition("/")[2]


def in_slots(amount: int, scale: int) -> int | float:
    """An amount in base units as slots."""
    whole, rest = divmod(amount, scale)
    return whole if not rest else amount / scale


def deeds_of(scene: Scene) -> dict[Key, Deeds]:
    """What is done with each gang that anything is done with."""
    gangs = scene.plan.snapshot.gangs
    placements: dict[Key, list[Placement]] = {}
    evictions: dict[Key, list[Eviction]] = {}
    for placement in scene.plan.placements:
        placements.setdefault(gangs[placement.gang].key, []).append(placement)
    for eviction in scene.plan.evictions:
        evictions.setdefault(gangs[eviction.gang].key, []).append(eviction)
    nobody: frozenset[str] = frozenset()
    return {
        key: Deeds(
            tuple(placements.get(key, ())),
            tuple(evictions.get(key, ())),
            scene.flying.get(key, nobody),
            scene.leaving.get(key, ()),
            bool(scene.decision),
        )
        for key in (placements.keys() | evictions.keys() | scene.flying.keys() | scene.leaving.keys())
    }


def says_the_same(one: Outcome, other: Outcome) -> bool:
    """Whether two outcomes of the same gang look alike."""
    if one is other:
        return True
    return (one.verdict, one.satisfied, one.rows, one.reasons) == (
        *(other.verdict, other.satisfied, other.rows, other.reasons),
    )


def entry_of(gang: Gang, outcome: Outcome, deeds: Deeds, place: int, around: Surroundings) -> Entry:
    """A gang made anew; `place` is where it stands in the line of its queue, from 1, 0 when it does not."""
    crew = _Crew(gang, deeds, around)
    first = foremost(outcome)
    new = sum(len(one.pods) for one in deeds.placements)
    document = {
        "namespace": gang.key[0],
        "name": gang.key[1],
        "queue": gang.queue,
        "priority": gang.priority,
        "preemptibility": gang.preemptibility,
        "created": moment(gang.created_ns) if gang.created_ns else None,
        "verdict": outcome.verdict.value,
        "satisfied": outcome.satisfied,
        "state": _state(gang, outcome, deeds, crew.pods),
        "reason": first.reason.code if first is not None else None,
        "message": message_of(gang, outcome, around.snapshot, new, sent=deeds.acts),
        "position": place or None,
        "tree": list(_tree(gang, outcome, around)),
        "pods": crew.pods,
    }
    surplus = NO_SURPLUS
    if crew.surplus:
        surplus = tuple(sum(around.charges[shape][charge] for shape in crew.surplus) for charge in range(len(CHARGES)))
    return Entry(gang, outcome, deeds, document, tuple(crew.holds.items()), tuple(crew.comes.items()), surplus)


def in_place(entry: Entry, place: int) -> Entry:
    """The same gang elsewhere in the line of its queue."""
    if entry.document["position"] == (place or None):
        return entry
    return entry._replace(document={**entry.document, "position": place or None})


def _state(gang: Gang, outcome: Outcome, deeds: Deeds, pods: Sequence[Sequence[Any]]) -> str:
    """In one word."""
    if is_completed(gang, outcome):
        return FINISHED
    if outcome.satisfied and deeds.placements and not deeds.acts and not gang.satisfied[0]:
        # It would have its minimum, if somebody bound its pods.
        return FITS
    if outcome.satisfied:
        return PARTIAL if outcome.rows[0].pending else RUNNING
    states = {pod[4] for pod in pods}
    if LEAVING in states and states <= {LEAVING, NOMINATED}:
        return LEAVING
    if outcome.rows[0].stale_since_ns:
        return STALE
    return HELD if outcome.verdict is Verdict.HELD else PENDING


class _Crew:
    """The pods of a gang that are on nodes or go there, each as [name, node, row, slots, state]."""

    def __init__(self, gang: Gang, deeds: Deeds, around: Surroundings) -> None:
        self._gang, self._around = gang, around
        self.pods: list[list[Any]] = []
        self.holds: dict[int, int] = {}
        self.comes: dict[int, int] = {}
        # The shapes of placed pods that the minimum does not need.
        self.surplus: list[int] = []
        gone = {(one.leaf, one.pod): one for one in deeds.evictions}
        bound = self._placements(deeds, nominated=False)
        left = without(gang, gone) if gone else gang
        ages = {leaf: list(here.ages) for leaf, here in left.placed.items()}
        for leaf, coming in bound.items():
            ages[leaf] = sorted((*ages.get(leaf, ()), *(one[-1] for one in coming)))
        core = {leaf: set(ages[leaf][:kept]) for leaf, kept in core_counts(left, ages).items()}
        reserved, leavers = self._placements(deeds, nominated=True), self._leavers(deeds)
        for leaf in sorted({*gang.placed, *bound, *reserved, *leavers}):
            self._placed(leaf, core.get(leaf, ()), deeds, gone)
            for name, node, shape, age in bound.get(leaf, ()):
                self._add(name, node, leaf, shape, BINDING, self.comes)
                if age not in core[leaf]:
                    self.surplus.append(shape)
            for name, node, shape, _ in reserved.get(leaf, ()):
                self._add(name, node, leaf, shape, NOMINATED)
            for leaver in leavers.get(leaf, ()):
                self._leave(leaver)

    def _placements(self, deeds: Deeds, *, nominated: bool) -> dict[int, list[tuple[str, int, int, int]]]:
        """Per leaf: name, node, shape and age of the pods that this cycle finds a place for."""
        found: dict[int, list[tuple[str, int, int, int]]] = {}
        for one in deeds.placements:
            if one.nominated is nominated:
                batch = self._gang.waiting[one.batch]
                found.setdefault(batch.leaf, []).extend(
                    (batch.pods[pod], node, batch.shape, batch.ages[pod])
                    for pod, node in zip(one.pods, one.nodes, strict=True)
                )
        return found

    def _leavers(self, deeds: Deeds) -> dict[int, list[Leaver]]:
        found: dict[int, list[Leaver]] = {}
        for leaver in deeds.leaving:
            if leaver.node in self._around.row_of:
                found.setdefault(leaver.leaf, []).append(leaver)
        return found

    def _placed(self, leaf: int, core: Collection[int], deeds: Deeds, gone: Mapping[tuple[int, int], Eviction]) -> None:
        """Those of a leaf that have their place; `core` are the ages of those that the minimum needs."""
        here = self._gang.placed.get(leaf, NOBODY)
        for at, (name, node, shape) in enumerate(zip(here.pods, here.nodes, here.shapes, strict=True)):
            if gone and (leaf, at) in gone:
                self._add(name, node, leaf, shape, LEAVING, self.holds)
                if gone[leaf, at].to != NONE:
                    self._add(name, gone[leaf, at].to, leaf, shape, NOMINATED)
                continue
            state = CORE if here.ages[at] in core else SURPLUS
            if state is SURPLUS:
                self.surplus.append(shape)
            self._add(name, node, leaf, shape, BINDING if name in deeds.flying else state, self.holds)

    def _add(
        self, name: str, node: int, leaf: int, shape: int, state: str, where: dict[int, int] | None = None
    ) -> None:
        around = self._around
        self.pods.append([name, around.snapshot.nodes[node], leaf, around.slots[shape], state])
        if where is not None:
            where[node] = where.get(node, 0) + around.amounts[shape]

    def _leave(self, leaver: Leaver) -> None:
        row = self._around.row_of[leaver.node]
        slots = in_slots(leaver.amount, self._around.scene.unit.scale)
        self.pods.append([leaver.pod, leaver.node, leaver.leaf, slots, LEAVING])
        self.holds[row] = self.holds.get(row, 0) + leaver.amount


def _tree(gang: Gang, outcome: Outcome, around: Surroundings) -> Iterator[Document]:
    """One per tree node, parents before their children; counts as `muster explain -o json` has them."""
    snapshot, nodes = around.snapshot, gang.tree.nodes
    reasons = reasons_of_rows(gang, outcome, snapshot, sent=bool(around.scene.decision))
    held = {hold.row: hold for hold in gang.holds if not hold.beside}
    for row, (node, counts, is_core) in enumerate(
        zip(nodes, outcome.rows, core_rows(gang, outcome), strict=True),
    ):
        above = nodes[node.parent] if node.parent != NONE else None
        found: Document = {
            "name": node.name,
            "parent": node.parent,
            "minimum": node.minimum,
            "of": "subGroups" if node.children else "pods",
            "minimumPods": gang.minimum_pods[row],
            "have": counts.placed,
            "pending": counts.pending,
            "total": counts.total,
            "satisfied": counts.satisfied,
            "core": is_core,
            "optional": above is not None and above.minimum < len(above.children),
            **_constraint(gang, row, held.get(row), around),
            "domain": domain_of(counts, snapshot) or None,
            "preferredMet": counts.preferred_met,
            **joined_of(gang, node.parent, counts),
            "staleSince": moment(counts.stale_since_ns) if counts.stale_since_ns else None,
            "reasons": reasons.get(row, []),
        }
        if node.floor:
            found["floor"] = node.floor
        yield found


def _constraint(gang: Gang, row: int, hold: Hold | None, around: Surroundings) -> Document:
    """The levels that a tree node is held in; as they are written where nobody knows them."""
    written = gang.tree.nodes[row].constraint
    if written is None:
        return {"required": None, "preferred": None, "topology": None}
    required, preferred, topology = written.required, written.preferred, written.topology
    if hold is not None:
        names = around.levels[hold.topology]
        required = names[hold.required] if hold.required != NONE else required
        preferred = names[hold.preferred] if hold.preferred != NONE else preferred
        topology = around.snapshot.topologies[hold.topology].name
    return {"required": required or None, "preferred": preferred or None, "topology": topology or None}


def same_words(one: Snapshot, other: Snapshot) -> bool:
    """Whether all that the words about a gang are made of, beside itself, is the same in both.

    Nodes tell of more: when they, Topologies or Queues come and go, gangs are made anew.
    """
    return (
        one.nodes is other.nodes
        and one.resources == other.resources
        and (one.allocatable is other.allocatable or bool((one.allocatable == other.allocatable).all()))
    )
