"""What a cycle sees: every array with its axes and units, and the gangs as trees of row numbers. Frozen.

| array | axes | unit |
|---|---|---|
| `allocatable`, `free`, `releasing` | node, resource | base units (thousandths of a core, bytes, devices, pods) |
| `asks` | shape, resource | base units |
| `charges` | shape, charge (`queues.CHARGES`) | base units: what a pod of the shape costs its queue |
| `allowed[shape]` | node | may a pod of this shape go there |
| `behind_cordons[shape]` | node | is it only a cordon that forbids it; only shapes for which there are such nodes |
| `repelled[shape]` | node | what the required anti-affinity of other pods forbids; only shapes that some of it means |
| `liked[shape]` | node | weight; only shapes that like some nodes more than others |

A resource is a column when some node offers it. What shapes ask for beside that stands in `unoffered`, by name: pods of
such a shape may go nowhere, and what running pods hold of it is nothing to any node.

Nodes stand in the order of their names. A row of a gang's tree is a number from 0, the root, on.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from muster.api.once import once
from muster.api.podgroup import NON_PREEMPTIBLE, PREEMPTIBLE, SEMI_PREEMPTIBLE
from muster.api.tree import NONE, Tree, joined, minimum_pods, satisfied
from muster.snapshot.domains import Domains
from muster.snapshot.queues import CHARGES, Costs, Queues
from muster.snapshot.room import Amounts, Rows
from muster.snapshot.selectors import Mask, Scores, Widened

Key = tuple[str, str]
# What protects more stands later.
PROTECTION = (PREEMPTIBLE, SEMI_PREEMPTIBLE, NON_PREEMPTIBLE)


class Carried(NamedTuple):
    """Required anti-affinity terms of pods that are there, one entry for each term of each pod: the term by number, the
    node label whose values are its domains, the node, whether the pod is `leaving`, its name, and whether it has no
    node yet but is `promised` one.

    `codes[label][node]` is the value of a label by number, NONE where the node lacks it.
    """

    keys: tuple[str, ...]
    codes: tuple[npt.NDArray[np.int32], ...]
    terms: Rows
    labels: Rows
    nodes: Rows
    leaving: Mask
    pods: tuple[str, ...]
    promised: Mask


class Repelled(NamedTuple):
    """What such terms forbid pods of a shape: all nodes of it, those that stay forbidden when the pods that terminate
    are gone, and those that are forbidden by a term that may mean less than it seems to. `by` is the first pod that has
    one of the `terms`, which are those that mean the shape; `doubt` the first whose term is not clear, and why.
    """

    nodes: Mask
    staying: Mask
    unclear: Mask
    by: str
    doubt: str
    # The first pod that has one of them and only waits for a node that its scheduler has nominated.
    promise: str
    # One bit for each term of the cluster: tenants may write many terms, and there may be many groups of pods.
    packed_terms: npt.NDArray[np.uint8]

    def means(self, terms: Rows) -> Mask:
        """Which of these terms mean the shape."""
        found: Mask = np.unpackbits(self.packed_terms)[terms].astype(bool)
        return found

    def is_like(self, other: "Repelled") -> bool:
        """Whether it is the same."""
        masks = zip(self[:3], other[:3], strict=True)
        same = self[3:6] == other[3:6] and np.array_equal(self.packed_terms, other.packed_terms)
        return same and all(np.array_equal(one, another) for one, another in masks)


class Promised(NamedTuple):
    """A pod of another scheduler that waits for a node which its scheduler has nominated for it. It holds room there
    against priorities up to its own; and, until it is `lapsed`, against all, for it may be about to be bound.
    """

    pod: str
    shape: int
    node: int
    priority: int
    lapsed: bool

    def holds_against(self, priority: int) -> bool:
        """Whether a gang of this priority may not have the room."""
        return not self.lapsed or priority <= self.priority


class Hold(NamedTuple):
    """Leaves whose pods lie in one domain: of the required level always, of the preferred one where possible.

    `row` is the tree node that it stands on; of a set, its first member: then it is `beside` the tree and has no status
    of its own. A level is NONE where there is none.
    """

    row: int
    leaves: tuple[int, ...]
    topology: int
    required: int
    preferred: int
    beside: bool = False


class Batch(NamedTuple):
    """Waiting pods of one leaf and one shape, oldest first; `ages` are their places in the order of the gang's pods."""

    leaf: int
    shape: int
    pods: tuple[str, ...]
    ages: tuple[int, ...]
    nominated: tuple[int, ...]


class Placed(NamedTuple):
    """Placed pods of one leaf, oldest first: their names, nodes and shapes.

    `controlled` pods have a controller that makes them anew when they go. `guards` are the disruption budgets that a
    pod counts in, by number.
    """

    pods: tuple[str, ...]
    nodes: tuple[int, ...]
    shapes: tuple[int, ...]
    controlled: tuple[bool, ...] = ()
    guards: tuple[tuple[int, ...], ...] = ()
    # Their places in the order of all pods of the gang, the oldest first.
    ages: tuple[int, ...] = ()

    def merged(self, more: "Placed") -> "Placed":
        """With more pods of the leaf, each where its age puts it."""
        pods = sorted((*zip(*self, strict=True), *zip(*more, strict=True)), key=lambda one: one[-1])
        return Placed(*zip(*pods, strict=True))


NOBODY = Placed((), (), ())


class Kept(NamedTuple):
    """Room on a node that is kept for a pod of a leaf which was moved and has not come back yet."""

    leaf: int
    shape: int
    node: int
    since_ns: int


class Stray(NamedTuple):
    """Placed pods of one shape that are charged to a queue, and of no gang (any more). Nothing may evict them."""

    queue: str
    shape: int
    pods: int


class Leaver(NamedTuple):
    """A terminating pod of a gang that still holds its room: its leaf (NONE: it is set aside), its shape, and the queue
    that admitted it.
    """

    leaf: int
    shape: int
    queue: str


class Recorded(NamedTuple):
    """A tree node as the status has it: state that is read back."""

    satisfied: bool
    minimum: int
    # Placed and succeeded pods.
    placed: int
    succeeded: int
    stale_since_ns: int = 0
    # Whether it lacks pods by a loss and has no clock of its own: one above it lacks some too, or it is joined and none
    # of its pods waits.
    lost: bool = False


class Issue(NamedTuple):
    """Something that keeps a gang, a tree node or a pod from being tried: a reason code and what it is about."""

    code: str
    row: int
    detail: str
    pod: str = ""
    # Of a priority: which it is, and the highest that is admitted.
    asked: int = 0
    most: int | None = None
    # What would help, where the code alone does not say it.
    remedy: str = ""


class Doubt(NamedTuple):
    """A resource that a gang may get in a way that is not planned with: "it does not fit" is not said because of it.

    `alone`: only as long as no node has any of it.
    """

    resource: str
    why: str
    remedy: str
    pod: str = ""
    alone: bool = False


class Counts(NamedTuple):
    """Pods of one leaf that neither wait nor are placed, by what became of them, and how many there are in all.

    Those that failed count nowhere: they are only told about.
    """

    succeeded: int = 0
    gated: int = 0
    terminating: int = 0
    total: int = 0
    failed: int = 0


@dataclass(frozen=True, eq=False)
class Gang:
    """A PodGroup as it is scheduled. `held` says why it is not tried at all; `notes` do not stop it."""

    key: Key
    queue: str
    priority: int
    preemptibility: str
    created_ns: int
    tree: Tree
    holds: tuple[Hold, ...] = ()
    waiting: tuple[Batch, ...] = ()
    placed: Mapping[int, Placed] = field(default_factory=dict)
    # The shapes of pods that were placed before they were set aside: nothing but their queue counts them.
    aside: tuple[int, ...] = ()
    # Terminating pods that still hold room, oldest first: their queues are charged for them until they are gone.
    leaving: tuple[Leaver, ...] = ()
    counts: Mapping[int, Counts] = field(default_factory=dict)
    # Since when it waits for room that was reserved for it, as the status tells; 0 when nobody knows.
    nominated_since_ns: int = 0
    # Per row: whether it was core before, as the status tells; None when there is no status.
    was_core: tuple[bool, ...] | None = None
    # Per row: whether it was joined, as the status tells; None when no row was.
    was_joined: tuple[bool, ...] | None = None
    # Per row: what the status says of it, None for a row that it does not know; empty when there is no status.
    recorded: tuple[Recorded | None, ...] = ()
    # When its minimum was placed, as the status tells; 0 when nobody knows.
    started_ns: int = 0
    # Since when it waits, and how long it must have waited before others are evicted for it.
    pending_since_ns: int = 0
    preemption_delay_ns: int = 0
    # How long it may stay below its minimum after a loss; negative: for ever.
    grace_ns: int = 60 * 10**9
    # Room that is kept for pods of it that were moved.
    kept: tuple[Kept, ...] = ()
    held: tuple[Issue, ...] = ()
    notes: tuple[Issue, ...] = ()
    # Where its queue is written, in words.
    queue_field: str = "spec.queue"
    # The preemptibility that its placed pods were admitted with; and, if the spec was changed since, what of them could
    # not be evicted, per charge. What protects more has to be admitted first.
    admitted_as: str = NON_PREEMPTIBLE
    admitted_firm: tuple[int, ...] | None = None
    # Pods that no gang counts: nothing is told to them, and each goes by itself.
    loose: bool = False
    # What it asks for and may get in ways that are not planned with.
    doubts: tuple[Doubt, ...] = ()
    # Whether muster stumbles on it: then nothing of it is known but that its placed pods are `aside`.
    unknown: bool = False

    def held_at(self, preemptibility: str, note: Issue) -> "Gang":
        """The gang as if its spec had this preemptibility, with a note that says so; the same object each time."""
        known: dict[str, Gang] = self.__dict__.setdefault("_held_at", {})
        if preemptibility not in known:
            known[preemptibility] = replace(self, preemptibility=preemptibility, notes=(*self.notes, note))
        return known[preemptibility]

    @property
    def is_preemptible(self) -> bool:
        """Whether all of it may be evicted."""
        return self.preemptibility == PREEMPTIBLE

    @property
    def is_firm(self) -> bool:
        """Whether nothing of it may be evicted."""
        return self.preemptibility == NON_PREEMPTIBLE

    @property
    def is_semi(self) -> bool:
        """Whether its surplus may be evicted, and its core not."""
        return not self.is_preemptible and not self.is_firm

    @once
    def order(self) -> tuple[int, str, str]:
        """Older first, then by name."""
        return self.created_ns, *self.key

    @once
    def nominated(self) -> bool:
        """Whether room was reserved for some of its pods."""
        return any(max(batch.nominated) != NONE for batch in self.waiting)

    @once
    def holds_of(self) -> Mapping[int, tuple[int, ...]]:
        """Per leaf: the holds that it is in, by number."""
        found: dict[int, list[int]] = {}
        for number, hold in enumerate(self.holds):
            for leaf in hold.leaves:
                found.setdefault(leaf, []).append(number)
        return {leaf: tuple(numbers) for leaf, numbers in found.items()}

    def batches_below(self, row: int) -> range:
        """The batches of the leaves of a tree node, by number."""
        first = bisect_left(self.waiting, row, key=lambda batch: batch.leaf)
        return range(first, bisect_left(self.waiting, self.tree.ends[row], key=lambda batch: batch.leaf))

    def holds_below(self, row: int) -> Sequence[int]:
        """The holds that some leaf of a tree node is in, by number."""
        if row == 0:
            return range(len(self.holds))
        return sorted({number for leaf in range(row, self.tree.ends[row]) for number in self.holds_of.get(leaf, ())})

    @once
    def present(self) -> tuple[int, ...]:
        """Per row: the pods of a leaf that count as there, placed or succeeded."""
        found = [0] * len(self.tree.nodes)
        for leaf, counts in self.counts.items():
            found[leaf] = counts.succeeded
        for leaf, placed in self.placed.items():
            found[leaf] += len(placed.nodes)
        return tuple(found)

    @once
    def placed_pods(self) -> tuple[int, ...]:
        """Per row: the placed pods of a leaf."""
        return tuple(len(self.placed[row].nodes) if row in self.placed else 0 for row in range(len(self.tree.nodes)))

    @once
    def succeeded_pods(self) -> tuple[int, ...]:
        """Per row: the succeeded pods of a leaf."""
        return tuple(self.counts[row].succeeded if row in self.counts else 0 for row in range(len(self.tree.nodes)))

    @once
    def joined(self) -> tuple[bool, ...]:
        """Per row: whether it goes only with its parent now."""
        return tuple(self._joined(self.placed_pods, self.was_joined))

    def joined_with(self, placed: Sequence[int]) -> list[bool]:
        """The same when other pods are placed, at the end of a cycle."""
        return self._joined(placed, self.joined)

    def _joined(self, placed: Sequence[int], before: Sequence[bool] | None) -> list[bool]:
        found = joined(self.tree, placed, self.succeeded_pods, before)
        if self.is_semi and self.tree.keeps:
            # Newcomers must fit the quota: `plan.joining` lets them join.
            return [now and then for now, then in zip(found, before or [False] * len(found), strict=True)]
        return found

    @once
    def pending(self) -> tuple[int, ...]:
        """Per row: the pods of a leaf that wait and could be placed."""
        pending = [0] * len(self.tree.nodes)
        for batch in self.waiting:
            pending[batch.leaf] += len(batch.pods)
        return tuple(pending)

    @once
    def satisfied(self) -> tuple[bool, ...]:
        """Per row: whether its minimum is met now."""
        return tuple(satisfied(self.tree, self.present))

    @once
    def ready(self) -> tuple[bool, ...]:
        """Per row: whether its minimum could be met with the pods that exist."""
        both = zip(self.present, self.pending, strict=True)
        return tuple(satisfied(self.tree, [here + waiting for here, waiting in both]))

    @once
    def lone_shape(self) -> int:
        """The shape of the only pod of a gang that is just one pod with nothing to hold it; NONE for all others."""
        if len(self.tree.nodes) > 1 or self.holds or self.held or len(self.waiting) != 1 or self.placed:
            return NONE
        batch = self.waiting[0]
        alone = len(batch.pods) == self.counts[0].total == 1 and batch.nominated[0] == NONE
        return batch.shape if alone and self.tree.nodes[0].minimum == 1 else NONE

    @once
    def may_have_surplus(self) -> bool:
        """Whether pods may wait that the minimum does not need."""
        if len(self.tree.nodes) > 1:
            return True
        return self.present[0] + self.pending[0] > self.tree.nodes[0].minimum

    @once
    def is_broken(self) -> bool:
        """Whether pods are placed and some tree node is below its minimum."""
        return bool(self.placed) and not self.is_single and not all(self.satisfied)

    @once
    def has_clock(self) -> bool:
        """Whether a clock of staleness runs for some tree node of it."""
        return any(one is not None and one.stale_since_ns for one in self.recorded)

    @property
    def is_single(self) -> bool:
        """Whether it is one placed pod and nothing else, and needs it."""
        return (
            len(self.tree.nodes) == 1
            and len(self.placed) == 1
            and self.tree.nodes[0].minimum == 1
            and len(self.placed[0].nodes) == 1
            and not (0 in self.counts and self.counts[0].succeeded)
        )

    @once
    def minimum_pods(self) -> tuple[int, ...]:
        """Per row: the fewest pods that satisfy it."""
        return tuple(minimum_pods(self.tree))


class Clearance(NamedTuple):
    """An open EvictionRequest: placed pods that are to leave for a gang, carried out by its author.

    `victims` are the pods that are still placed, as (gang, leaf, place in the leaf). `problem` is a reason code when
    the request can't be granted whatever the room is, with what it is about as `detail`. `until_ns` is when the
    reservation ends or, without one, when the request is no longer considered.
    """

    name: Key
    uid: str
    gang: int
    victims: tuple[tuple[int, int, int], ...]
    until_ns: int
    granted: bool = False
    problem: str = ""
    detail: str = ""


class PlacedPods(NamedTuple):
    """All placed pods of all gangs, side by side: gang, leaf, place in the leaf, node and shape of each."""

    gang: Rows
    leaf: Rows
    at: Rows
    node: Rows
    shape: Rows


@dataclass(frozen=True, eq=False)
class Snapshot:
    """One moment of the cluster, as a cycle sees it. Gangs stand in the order of their keys."""

    now_ns: int
    nodes: tuple[str, ...]
    resources: tuple[str, ...]
    allocatable: Amounts
    free: Amounts
    releasing: Amounts
    asks: Amounts
    allowed: Mapping[int, Mask]
    behind_cordons: Mapping[int, Mask]
    liked: Mapping[int, Scores]
    topologies: tuple[Domains, ...]
    gangs: tuple[Gang, ...]
    queues: Queues = field(default_factory=Queues)
    charges: Amounts = field(default_factory=lambda: np.zeros((0, len(CHARGES)), dtype=np.int64))
    costs: Costs = field(default_factory=Costs)
    # What the cluster has for gangs in all: what nodes that are ready have, without what others' pods hold.
    capacity: tuple[int, ...] = (0,) * len(CHARGES)
    # What is forbidden by the required anti-affinity of pods that are there: `allowed` leaves it out already.
    repelled: Mapping[int, Repelled] = field(default_factory=dict)
    carried: Carried | None = None
    # Pods of other schedulers for which a node is nominated, in the order of their names.
    promised: tuple[Promised, ...] = ()
    # Where pods may go that may not go there yet, because pods that terminate keep them away.
    clearing: Mapping[int, Mask] = field(default_factory=dict)
    # How many pods may go now, per disruption budget.
    disruptions: tuple[int, ...] = ()
    # Their names, `namespace/name`; empty for those that stand for pods which can't be evicted now.
    budgets: tuple[str, ...] = ()
    # Whether pods may be deleted, and so go whatever their budgets say where a queue asks for that.
    may_delete: bool = True
    # Placed pods that no gang counts, and only their queues do.
    strays: tuple["Stray", ...] = ()
    # The same of pods that terminate, and still hold their room.
    leaving_strays: tuple["Stray", ...] = ()
    # Granted ones first, then the oldest.
    clearances: tuple[Clearance, ...] = ()
    # Per shape that asks for any: the amounts of resources that no node offers, in base units.
    unoffered: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    # Per waiting shape whose claims leave only some nodes to it: one of these claims and its nodes, in words.
    ties: Mapping[int, str] = field(default_factory=dict)

    def asked(self, shape: int) -> dict[str, int]:
        """All that a pod of the shape asks for, by name, host ports and what no node offers included."""
        asked = zip(self.resources, self.asks[shape].tolist(), strict=True)
        return {name: amount for name, amount in asked if amount} | dict(self.unoffered.get(shape, {}))

    @once
    def allowed_soon(self) -> Mapping[int, Mask]:
        """Where pods of each shape may go once the pods that terminate are gone."""
        return Widened(self.allowed, self.clearing) if self.clearing else self.allowed

    @once
    def waiting(self) -> tuple[int, ...]:
        """The gangs that have something that waits."""
        return tuple(number for number, gang in enumerate(self.gangs) if gang.waiting)

    @once
    def placed(self) -> PlacedPods:
        """Everybody who is placed, in the order of the gangs."""
        gangs: list[int] = []
        leaves: list[int] = []
        places: list[int] = []
        nodes: list[int] = []
        shapes: list[int] = []
        for number, gang in enumerate(self.gangs):
            for leaf, here in gang.placed.items():
                count = len(here.nodes)
                gangs += (number,) * count
                leaves += (leaf,) * count
                places += range(count)
                nodes += here.nodes
                shapes += here.shapes
        columns = (gangs, leaves, places, nodes, shapes)
        return PlacedPods(*(np.array(column, dtype=np.intp) for column in columns))

    @once
    def queue_of(self) -> Rows:
        """Per gang: its queue by number, NONE when there is none to charge."""
        row_of = self.queues.row_of
        return np.array([row_of.get(gang.queue, NONE) for gang in self.gangs], dtype=np.intp)

    @once
    def broken(self) -> tuple[int, ...]:
        """The gangs that have placed pods and lack some of a minimum."""
        return tuple(number for number, gang in enumerate(self.gangs) if gang.is_broken)

    @once
    def clocked(self) -> tuple[int, ...]:
        """The gangs that a clock of staleness runs for."""
        return tuple(number for number, gang in enumerate(self.gangs) if gang.has_clock)

    @once
    def were_joined(self) -> tuple[int, ...]:
        """The gangs of which children have joined before."""
        return tuple(number for number, gang in enumerate(self.gangs) if gang.was_joined is not None)

    @once
    def keeping(self) -> tuple[int, ...]:
        """The gangs that room is kept for."""
        return tuple(number for number, gang in enumerate(self.gangs) if gang.kept)

    def domain_path(self, topology: int, level: int, domain: int) -> str:
        """The domain in words: `zone-a/block-1`."""
        return self.topologies[topology].levels[level].paths[domain] if domain != NONE else ""
