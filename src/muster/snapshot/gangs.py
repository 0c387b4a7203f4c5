"""A PodGroup and its pods become a Gang: one tree, holds by level number, pods by leaf, shape and what they do."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from muster.api.cluster import QUEUE_LABEL, SUBGROUP_LABEL
from muster.api.duration import parse_ns
from muster.api.model import Condition
from muster.api.podgroup import (
    NON_PREEMPTIBLE,
    PREEMPTIBLE,
    PodGroup,
    PodGroupSpec,
    is_grouped,
)
from muster.api.quantity import base_units
from muster.api.topology import Missing, Topology, level_meant, topology_meant
from muster.api.tree import NONE, Constraint, Tree, TreeNode
from muster.api.validation import podgroup
from muster.api.validation.context import Context, Settings
from muster.api.validation.violation import ERROR, Report
from muster.errors import BadObject
from muster.model.reasons import Code
from muster.snapshot.arrays import (
    PROTECTION,
    Batch,
    Counts,
    Doubt,
    Gang,
    Hold,
    Issue,
    Kept,
    Leaver,
    Placed,
    Recorded,
)
from muster.snapshot.guards import Guards
from muster.snapshot.kept import keeping_of
from muster.snapshot.priorities import Ranks
from muster.snapshot.queues import Standing
from muster.snapshot.referred import Referred
from muster.snapshot.requests import Request
from muster.snapshot.times import since_epoch_ns
from muster.snapshot.world import Key, PodFacts, State

# From this priority on a gang is not preemptible, unless it says so.
_FIRM = 100
_NOTHING_BETTER: Mapping[str, Recorded] = {}
# Stands for a gang whose SubGroups make no tree; it is held anyway.
_NO_TREE = Tree((TreeNode("", NONE, (), 1, 0, None, "spec"),), ())

# How the message goes on after the name when the room is not the gang's: other schedulers have nominated it.
WAITS_FOR_PROMISED = "waits for room that is nominated for pods of other schedulers"
# How long a gang may stay below its minimum when it does not say.
_GRACE_NS = 60 * 10**9


class Known(NamedTuple):
    """What is known of a gang beside its objects.

    One that is `resting` failed to be bound; `better` are tree nodes, by name, of which more is known than the status
    says, and `parted` those that are no longer joined.
    """

    resting: str = ""
    better: Mapping[str, Recorded] = _NOTHING_BETTER
    parted: Collection[str] = ()


NOTHING_KNOWN = Known()


class Checked(NamedTuple):
    """What a PodGroup said when its rules were checked, and what came of it."""

    spec: PodGroupSpec
    annotations: Mapping[str, str]
    tree: Tree
    error: str


@dataclass(frozen=True)
class Surroundings:
    """What gangs refer to: nodes by row, Topologies by number, queues, priorities, budgets, and numbers of shapes."""

    node_row: Mapping[str, int]
    # What a node has.
    allocatable: Callable[[str], Mapping[str, int]]
    topologies: Mapping[str, Topology]
    topology_number: Mapping[str, int]
    queues: Standing
    ranks: Ranks
    default_queue: str
    settings: Settings
    guards: Guards
    # Of a pod of a gang of so high a priority.
    shape_number: Callable[[PodFacts, int], int]
    # What amounts of resources cost a queue, per charge.
    charge_of: Callable[[Mapping[str, int]], Sequence[int]]
    # The shape of pods that ask for so much, and for nothing else.
    plain_shape: Callable[[Request], int]
    # Is told of the pods of a gang that have a node and no place in its tree, of the queue that is charged, and of the
    # priority.
    set_aside: Callable[[Key, str, int, Collection[PodFacts]], None]
    # What was checked before.
    checked: dict[Key, Checked]
    # What pods refer to.
    referred: Referred
    # Whether a bound pod without an admission mark is of no gang, and which pods were bound before there were marks.
    asks_for_marks: bool = False
    is_adopted: Callable[[PodFacts], bool] = lambda _: False


# A workload names its queue by one of these.
_QUEUE_LABELS = (QUEUE_LABEL, "project")


def gang_of(
    key: Key,
    group: PodGroup,
    members: Iterable[PodFacts],
    error: str,
    around: Surroundings,
    known: Known = NOTHING_KNOWN,
) -> Gang:
    """The gang, with everything that keeps it from being tried."""
    held: list[Issue] = [Issue(Code.INVALID, 0, error)] if error else []
    if known.resting:
        held.append(Issue(Code.BIND_BACKOFF, 0, known.resting))
    notes: list[Issue] = []
    tree, wrong = _checked(key, group, around)
    if wrong and not held:
        held.append(Issue(Code.INVALID, 0, wrong))
    oldest_first = list(_admitted(sorted(members, key=_age), group.metadata.uid, around, notes))
    queue = _queue_of(group.spec.queue or around.default_queue, oldest_first, key[0], around.queues, notes)
    if (problem := around.queues.problem_of(queue, key[0])) is not None:
        held.append(Issue(problem.code, 0, problem.detail))
    holds = _holds(tree, around, held, notes)
    priority = around.ranks.of(key[0], queue, group.spec.priority_class_name, oldest_first, held, notes)
    pods = _Pods(key[0], tree, around, priority, held, notes)
    pods.take(oldest_first)
    around.set_aside(key, queue, priority, pods.aside)
    kept: tuple[Kept, ...] = ()
    if group.status.kept:
        claimed, kept = keeping_of(
            group.status, tree, oldest_first, around.node_row, around.allocatable, around.plain_shape
        )
        pods.nominate(claimed)
    preemptibility = group.spec.preemptibility or (NON_PREEMPTIBLE if priority >= _FIRM else PREEMPTIBLE)
    return Gang(
        key=key,
        queue=queue,
        priority=priority,
        preemptibility=preemptibility,
        admitted_as=_admitted_as(group, oldest_first, preemptibility, around),
        admitted_firm=_admitted_firm(group, around),
        created_ns=(created_ns := since_epoch_ns(group.metadata.creation_timestamp)),
        tree=tree,
        holds=holds,
        waiting=pods.batches(),
        placed=pods.placed(),
        leaving=tuple(Leaver(leaf, shape, admitted or queue) for leaf, shape, admitted in pods.leaving),
        counts=_counts(pods, tree, recorded := _recorded(group, tree, known.better)),
        nominated_since_ns=_nominated_since(group),
        was_core=_was_core(group, tree),
        was_joined=_was_joined(group, tree, known.parted),
        recorded=recorded,
        started_ns=since_epoch_ns(group.status.start_time),
        pending_since_ns=_pending_since(group, created_ns),
        preemption_delay_ns=max(0, _duration_ns(group.spec.preemption_delay, 0)),
        grace_ns=_duration_ns(group.spec.staleness_grace_period, _GRACE_NS),
        kept=kept,
        held=tuple(held),
        notes=tuple(notes),
        queue_field=_queue_field(group),
        doubts=tuple(pods.doubts.values()),
    )


def _queue_field(group: PodGroup) -> str:
    """Where people write the gang's queue: a label of the workload, if the grouper took it from there."""
    metadata = group.metadata
    label = next((label for label in _QUEUE_LABELS if metadata.labels.get(label) == group.spec.queue), "")
    if not label or not is_grouped(group) or not metadata.owner_references:
        return "spec.queue"
    owner = metadata.owner_references[0]
    return f"the label {label} of {owner.kind[:63]} {owner.name[:253]}"


def _admitted(members: Iterable[PodFacts], uid: str, around: Surroundings, notes: list[Issue]) -> Iterator[PodFacts]:
    """The pods that count: those that wait, and those that were bound for this gang. Others are noted."""
    for facts in members:
        if facts.is_of(uid, asks_for_marks=around.asks_for_marks):
            yield facts
        elif facts.state is State.PLACED:
            queue = facts.mark.queue if facts.mark is not None else ""
            notes.append(Issue(Code.NOT_ADMITTED, 0, queue, facts.pod.metadata.name))


def _queue_of(wanted: str, admitted: Iterable[PodFacts], namespace: str, queues: Standing, notes: list[Issue]) -> str:
    """The queue that admitted the gang, as long as anything of it is placed; else the one that it names.

    When the queue that admitted it was deleted, it moves to the one that it names, if that takes its namespace.
    """
    found = Counter(facts.mark.queue for facts in admitted if facts.mark is not None and facts.state is State.PLACED)
    if wanted in found or not found:
        return wanted
    queue = min(found, key=lambda queue: (-found[queue], queue))
    is_gone = (problem := queues.problem_of(queue, namespace)) is not None and problem.code == Code.QUEUE_NOT_FOUND
    if is_gone and queues.problem_of(wanted, namespace) is None:
        return wanted
    notes.append(Issue(Code.STAYS_IN_QUEUE, 0, wanted))
    return queue


def _admitted_as(group: PodGroup, pods: Iterable[PodFacts], stated: str, around: Surroundings) -> str:
    """The preemptibility that placed pods were admitted with: the status tells. What it can't tell, because the pods
    were bound before it could or a moment ago, is believed where marks are not asked for or were only just given; else
    nothing is protected yet.
    """
    recorded = group.status.admitted_preemptibility
    if recorded in PROTECTION:
        return recorded
    placed = [facts for facts in pods if facts.state is State.PLACED]
    if not placed or not around.asks_for_marks or any(around.is_adopted(facts) for facts in placed):
        return stated
    return PREEMPTIBLE


def _admitted_firm(group: PodGroup, around: Surroundings) -> tuple[int, ...] | None:
    """What of the placed pods could not be evicted when the status was written, per charge; None when the status is of
    this spec. Then what is protected changes by decisions alone.
    """
    told, now = group.status.resources_status, group.metadata.generation
    if not now or not group.status.admitted_preemptibility or not told.allocated:
        return None
    if any(one.observed_generation == now for one in group.status.conditions):
        return None
    firm = {name: base_units(name, amount) for name, amount in told.allocated_non_preemptible.items()}
    return tuple(around.charge_of(firm))


def loose_gang(
    namespace: str,
    queue: str,
    priority: int,
    pods: Iterable[PodFacts],
    terminating: Iterable[PodFacts],
    around: Surroundings,
) -> Gang:
    """Pods of a namespace that hold room, are charged to a queue, and are counted by no gang: the PodGroup that they
    were bound for is gone or another one by now, or has no place for them any more.

    Nothing needs them together and nothing protects them: else to delete a PodGroup would keep what its queue owes
    others. They are like the surplus of a gang without a minimum.
    """
    guarded = namespace in around.guards
    found = []
    for age, facts in enumerate(sorted(pods, key=_age)):
        metadata = facts.pod.metadata
        guards = around.guards.of(namespace, metadata.labels) if guarded else ()
        guards += around.guards.staying((namespace, metadata.name))
        node = around.node_row[facts.pod.spec.node_name]
        found.append((metadata.name, node, around.plain_shape(facts.request), False, guards, age))
    tree = Tree((TreeNode("", NONE, (), 0, 0, None, "spec"),), ())
    return Gang(
        (namespace, f"(no gang, queue {queue}, priority {priority})"),
        queue,
        priority,
        PREEMPTIBLE,
        0,
        tree,
        placed={0: Placed(*zip(*found, strict=True))} if found else {},
        counts={0: Counts(total=len(found))},
        leaving=tuple(Leaver(NONE, around.plain_shape(facts.request), queue) for facts in terminating),
        loose=True,
    )


def unknown_gang(key: Key, queue: str, aside: Iterable[int], leaving: Iterable[int], why: str) -> Gang:
    """A gang of which nothing but its name is used: it is held. Its placed pods, given by shape, stay charged, and
    those that terminate until they are gone.
    """
    leavers = tuple(Leaver(NONE, shape, queue) for shape in leaving)
    return Gang(
        key,
        queue,
        0,
        NON_PREEMPTIBLE,
        0,
        _NO_TREE,
        aside=tuple(aside),
        leaving=leavers,
        held=(Issue(Code.SCHEDULER_ERROR, 0, why),),
        unknown=True,
    )


def _checked(key: Key, group: PodGroup, around: Surroundings) -> tuple[Tree, str]:
    """The tree of a PodGroup, its first error and how many more there are. Its pods change more often than its spec."""
    known, annotations = around.checked.get(key), group.metadata.annotations
    if known is None or known.spec != group.spec or known.annotations != annotations:
        report = Report([])
        tree = podgroup.check(group, report, Context(settings=around.settings))
        wrong = [one for one in report.violations if one.severity == ERROR]
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        error = f"{wrong[0].path} {wrong[0].message}{more}" if wrong else ""
        known = around.checked[key] = Checked(group.spec, annotations, tree or _NO_TREE, error)
    return known.tree, known.error


def _nominated_since(group: PodGroup) -> int:
    """When the gang's condition began to say that it waits for reserved room."""
    for condition in group.status.conditions:
        if condition.type == "Scheduled" and is_reserved(condition):
            return since_epoch_ns(condition.last_transition_time)
    return 0


def is_reserved(condition: Condition) -> bool:
    """Whether a gang waits for room that is reserved for it."""
    return condition.reason == Code.WAITING_FOR_ROOM and WAITS_FOR_PROMISED not in condition.message


def _was_core(group: PodGroup, tree: Tree) -> tuple[bool, ...] | None:
    """Core as the status has it: it is state, and sticky."""
    if not group.status.sub_groups:
        return None
    named = {one.name for one in group.status.sub_groups if one.core}
    return tuple(node.name in named for node in tree.nodes)


def _was_joined(group: PodGroup, tree: Tree, parted: Collection[str]) -> tuple[bool, ...] | None:
    """Joined as the status has it: it is state. Only a child of a node that keeps its children can be joined."""
    named = {one.name for one in group.status.sub_groups if one.joined} if tree.keeps else set[str]()
    named.difference_update(parted)
    if not named:
        return None
    return tuple(node.parent != NONE and tree.nodes[node.parent].keep and node.name in named for node in tree.nodes)


def _recorded(group: PodGroup, tree: Tree, better: Mapping[str, Recorded]) -> tuple[Recorded | None, ...]:
    """Every tree node as the status has it, or would have it if it could be told."""
    if not group.status.sub_groups:
        return ()
    named = {
        one.name: Recorded(
            one.satisfied, one.minimum, one.pods.placed, one.pods.succeeded, since_epoch_ns(one.stale_since), one.lost
        )
        for one in group.status.sub_groups
    }
    named |= better
    return tuple(named.get(node.name) for node in tree.nodes)


def _counts(pods: "_Pods", tree: Tree, recorded: tuple[Recorded | None, ...]) -> dict[int, Counts]:
    """Pods by leaf. Where parts start in an order, a part that succeeded has done it for those that came after, also
    when its pods have been deleted since. When it has pods again, only these count.
    """
    found = {row: Counts(*counted) for row, counted in pods.counts.items()}
    for leaf in tree.leaves if recorded and tree.keeps else ():
        one, row = recorded[leaf], tree.nodes[leaf].parent
        while row != NONE and not tree.nodes[row].keep:
            row = tree.nodes[row].parent
        if one is not None and one.succeeded and row != NONE and leaf not in found:
            found[leaf] = Counts(succeeded=one.succeeded)
    return found


def _pending_since(group: PodGroup, created_ns: int) -> int:
    """When the gang's condition began to say that it is not scheduled; else when it was made."""
    for condition in group.status.conditions:
        if condition.type == "Scheduled" and condition.status == "False" and condition.last_transition_time:
            return since_epoch_ns(condition.last_transition_time)
    return created_ns


def _duration_ns(stated: str | None, default: int) -> int:
    """A duration; one that can't be read is that of who does not say (the gang is held as invalid anyway)."""
    try:
        return default if stated is None else parse_ns(stated)
    except BadObject:
        return default


def _age(facts: PodFacts) -> tuple[int, str]:
    return since_epoch_ns(facts.pod.metadata.creation_timestamp), facts.pod.metadata.name


def _holds(tree: Tree, around: Surroundings, held: list[Issue], notes: list[Issue]) -> tuple[Hold, ...]:
    """Every constraint with its levels by number, those of wider tree nodes first."""
    constrained: list[tuple[tuple[int, ...], Constraint, bool]] = []
    constrained += [(one.members, one.constraint, True) for one in tree.together]
    constrained += [((row,), node.constraint, False) for row, node in enumerate(tree.nodes) if node.constraint]
    found = []
    for members, constraint, beside in sorted(constrained, key=lambda one: (one[0][0], not one[2])):
        leaves = tuple(sorted(leaf for row in members for leaf in tree.leaves_below(row)))
        hold = _hold(members[0], leaves, constraint, around, held, notes)
        if hold is not None:
            found.append(hold._replace(beside=beside))
    return tuple(found)


def _hold(
    row: int,
    leaves: tuple[int, ...],
    constraint: Constraint,
    around: Surroundings,
    held: list[Issue],
    notes: list[Issue],
) -> Hold | None:
    """What is required and not found holds the gang; what is only preferred is noted."""
    topology = topology_meant(constraint.topology, around.topologies)
    if isinstance(topology, Missing):
        (held if constraint.required else notes).append(Issue(topology.code, row, topology.detail))
        return None
    levels = []
    for name, issues in ((constraint.required, held), (constraint.preferred, notes)):
        level = level_meant(topology, name) if name else NONE
        if isinstance(level, Missing):
            issues.append(Issue(level.code, row, level.detail))
            level = NONE
        levels.append(level)
    return Hold(row, leaves, around.topology_number[topology.metadata.name], levels[0], levels[1])


class _Pods:
    """The pods of a gang, oldest first, by leaf and by what they are doing."""

    def __init__(
        self,
        namespace: str,
        tree: Tree,
        around: Surroundings,
        priority: int,
        held: list[Issue],
        notes: list[Issue],
    ) -> None:
        self._priority = priority
        self._namespace, self._tree, self._around = namespace, tree, around
        self._held, self._notes = held, notes
        self._guarded = namespace in around.guards
        self._waiting: dict[tuple[int, int], list[tuple[str, int, int]]] = {}
        self._placed: dict[int, list[tuple[str, int, int, bool, tuple[int, ...], int]]] = {}
        # The last pod in their order.
        self._seen = -1
        # Those that are set aside and have a node.
        self.aside: list[PodFacts] = []
        # Terminating pods that hold room, by leaf, shape and the queue of their mark.
        self.leaving: list[tuple[int, int, str]] = []
        # What waiting pods may get in ways that are not planned with, by resource.
        self.doubts: dict[str, Doubt] = {}
        # Per leaf: succeeded, gated, terminating, total, failed.
        self.counts: dict[int, list[int]] = {}

    def take(self, oldest_first: Iterable[PodFacts]) -> None:
        """All pods of the gang."""
        for facts in oldest_first:
            self._add(facts)

    def _add(self, facts: PodFacts) -> None:
        self._seen += 1
        metadata, around = facts.pod.metadata, self._around
        leaf = self._tree.leaf_of(metadata.labels.get(SUBGROUP_LABEL))
        if facts.state is State.TERMINATING and facts.pod.spec.node_name in around.node_row:
            admitted = facts.mark.queue if facts.mark is not None else ""
            self.leaving.append((leaf, around.shape_number(facts, self._priority), admitted))
        if leaf == NONE:
            self._notes.append(Issue(Code.SET_ASIDE, 0, metadata.labels.get(SUBGROUP_LABEL, ""), metadata.name))
            if facts.state is State.PLACED and facts.pod.spec.node_name in around.node_row:
                self.aside.append(facts)
            return
        counts = self.counts.setdefault(leaf, [0, 0, 0, 0, 0])
        counts[3] += facts.state is not State.FAILED
        counts[4] += facts.state is State.FAILED
        if facts.state is State.WAITING:
            self._wait(facts, leaf)
        elif facts.state is State.PLACED:
            row = around.node_row.get(facts.pod.spec.node_name, NONE)
            if row != NONE:
                owners = metadata.owner_references
                # One whose ports, or rules that we do not know, would have to be looked at elsewhere is not moved.
                plain = not (facts.ports or facts.unsupported or facts.resized or facts.refers)
                controlled = plain and any(owner.controller for owner in owners) if owners else False
                guards = around.guards.of(self._namespace, metadata.labels) if self._guarded else ()
                guards += around.guards.staying((self._namespace, metadata.name))
                found = (metadata.name, row, around.shape_number(facts, self._priority), controlled, guards, self._seen)
                self._placed.setdefault(leaf, []).append(found)
        elif facts.state is State.SUCCEEDED:
            counts[0] += 1
        elif facts.state is State.GATED:
            counts[1] += 1
        elif facts.state is State.TERMINATING:
            counts[2] += 1

    def _wait(self, facts: PodFacts, leaf: int) -> None:
        name = facts.pod.metadata.name
        if facts.problem:
            self._notes.append(Issue(Code.BAD_POD, leaf, facts.problem, name))
            return
        if facts.unsupported:
            self._held.append(Issue(Code.UNSUPPORTED, leaf, ", ".join(facts.unsupported), name))
        if facts.refers:
            obstacles, _ = self._around.referred.look(self._namespace, facts.refers)
            # One for each pod, as of fields: a pod may mount many claims.
            self._held += [Issue(Code.UNSUPPORTED, leaf, str(one), name, remedy=one.remedy) for one in obstacles[:1]]
        for doubt in self._around.referred.doubts(facts.request):
            self.doubts.setdefault(doubt.resource, doubt._replace(pod=name))
        nominated = self._around.node_row.get(facts.pod.status.nominated_node_name, NONE)
        shape = self._around.shape_number(facts, self._priority)
        self._waiting.setdefault((leaf, shape), []).append((name, self._seen, nominated))

    def nominate(self, nodes: Mapping[str, int]) -> None:
        """Room for some pods that wait, by name."""
        for pods in self._waiting.values():
            pods[:] = [(name, age, nodes.get(name, nominated)) for name, age, nominated in pods]

    def batches(self) -> tuple[Batch, ...]:
        """Waiting pods by leaf; in a leaf, the batch of the oldest pod first."""
        ordered = sorted(self._waiting.items(), key=lambda one: (one[0][0], one[1][0][1]))
        return tuple(Batch(leaf, shape, *zip(*pods, strict=True)) for (leaf, shape), pods in ordered)

    def placed(self) -> dict[int, Placed]:
        """Placed pods by leaf."""
        return {leaf: Placed(*zip(*pods, strict=True)) for leaf, pods in self._placed.items()}
