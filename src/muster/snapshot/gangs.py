"""A PodGroup and its pods become a Gang: one tree, holds by level number, pods by leaf, shape and what they do."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from muster.api.cluster import BUILT_IN_PRIORITIES, SUBGROUP_LABEL, PriorityClass
from muster.api.podgroup import NON_PREEMPTIBLE, PREEMPTIBLE, PodGroup
from muster.api.queue import Queue
from muster.api.topology import Missing, Topology, level_meant, topology_meant
from muster.api.tree import NONE, Constraint, Tree, TreeNode
from muster.api.validation import podgroup
from muster.api.validation.context import Context, Settings
from muster.api.validation.violation import ERROR, Report
from muster.snapshot.arrays import Batch, Counts, Gang, Hold, Issue, Placed
from muster.snapshot.world import Key, PodFacts, State

# From this priority on a gang is not preemptible, unless it says so.
_FIRM = 100
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
# Stands for a gang whose SubGroups make no tree; it is held anyway.
_NO_TREE = Tree((TreeNode("", NONE, (), 1, 0, None, "spec"),), ())

INVALID, UNSUPPORTED, SET_ASIDE, BAD_POD = "Invalid", "Unsupported", "SetAside", "BadPod"
WAITING_FOR_ROOM = "WaitingForRoom"
QUEUE_NOT_FOUND, PRIORITY_NOT_FOUND = "QueueNotFound", "PriorityClassNotFound"


@dataclass(frozen=True)
class Surroundings:
    """What gangs refer to: nodes by row, Topologies by number, queues, priorities, and the numbers of shapes."""

    node_row: Mapping[str, int]
    topologies: Mapping[str, Topology]
    topology_number: Mapping[str, int]
    queues: Mapping[str, Queue]
    priority_classes: Mapping[str, PriorityClass]
    default_queue: str
    settings: Settings
    shape_number: Callable[[PodFacts], int]


def since_epoch_ns(time: datetime | None) -> int:
    """Nanoseconds since 1970; an object that does not say when it was made is as old as can be."""
    if time is None:
        return 0
    aware = time if time.tzinfo else time.replace(tzinfo=UTC)
    return (aware - _EPOCH) // _MICROSECOND * 1000


def gang_of(key: Key, group: PodGroup, members: Iterable[PodFacts], error: str, around: Surroundings) -> Gang:
    """The gang, with everything that keeps it from being tried."""
    held: list[Issue] = [Issue(INVALID, 0, error)] if error else []
    notes: list[Issue] = []
    report = Report([])
    tree = podgroup.check(group, report, Context(settings=around.settings))
    wrong = [violation for violation in report.violations if violation.severity == ERROR]
    if wrong and not held:
        held.append(Issue(INVALID, 0, f"{wrong[0].path} {wrong[0].message}"))
    tree = tree or _NO_TREE
    queue = group.spec.queue or around.default_queue
    if around.queues and queue not in around.queues:
        held.append(Issue(QUEUE_NOT_FOUND, 0, queue))
    holds = _holds(tree, around, held, notes)
    pods = _Pods(tree, around, held, notes)
    for facts in sorted(members, key=_age):
        pods.add(facts)
    priority = _priority(group, around, notes)
    return Gang(
        key=key,
        queue=queue,
        priority=priority,
        preemptibility=group.spec.preemptibility or (NON_PREEMPTIBLE if priority >= _FIRM else PREEMPTIBLE),
        created_ns=since_epoch_ns(group.metadata.creation_timestamp),
        tree=tree,
        holds=holds,
        waiting=pods.batches(),
        placed=pods.placed(),
        counts={row: Counts(*counts) for row, counts in pods.counts.items()},
        nominated_since_ns=_nominated_since(group),
        was_core=_was_core(group, tree),
        held=tuple(held),
        notes=tuple(notes),
    )


def _nominated_since(group: PodGroup) -> int:
    """When the gang's condition began to say that it waits for reserved room."""
    for condition in group.status.conditions:
        if condition.type == "Scheduled" and condition.reason == WAITING_FOR_ROOM:
            return since_epoch_ns(condition.last_transition_time)
    return 0


def _was_core(group: PodGroup, tree: Tree) -> tuple[bool, ...] | None:
    """Core as the status has it: it is state, and sticky."""
    if not group.status.sub_groups:
        return None
    named = {one.name for one in group.status.sub_groups if one.core}
    return tuple(node.name in named for node in tree.nodes)


def _age(facts: PodFacts) -> tuple[int, str]:
    return since_epoch_ns(facts.pod.metadata.creation_timestamp), facts.pod.metadata.name


def _priority(group: PodGroup, around: Surroundings, notes: list[Issue]) -> int:
    name, known = group.spec.priority_class_name, around.priority_classes
    if name in known:
        return known[name].value
    if name in BUILT_IN_PRIORITIES:
        return BUILT_IN_PRIORITIES[name]
    if name:
        notes.append(Issue(PRIORITY_NOT_FOUND, 0, name))
    defaults = [one.value for one in known.values() if one.global_default]
    return max(defaults, default=0)


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

    def __init__(self, tree: Tree, around: Surroundings, held: list[Issue], notes: list[Issue]) -> None:
        self._tree, self._around, self._held, self._notes = tree, around, held, notes
        self._waiting: dict[tuple[int, int], list[tuple[str, int, int]]] = {}
        self._placed: dict[int, list[tuple[str, int, int]]] = {}
        self._ages: dict[int, int] = {}
        # Per leaf: succeeded, gated, terminating, total.
        self.counts: dict[int, list[int]] = {}

    def add(self, facts: PodFacts) -> None:
        """One more pod, younger than those before it."""
        metadata, around = facts.pod.metadata, self._around
        leaf = self._tree.leaf_of(metadata.labels.get(SUBGROUP_LABEL))
        if leaf == NONE:
            self._notes.append(Issue(SET_ASIDE, 0, metadata.labels.get(SUBGROUP_LABEL, ""), metadata.name))
            return
        counts = self.counts.setdefault(leaf, [0, 0, 0, 0])
        counts[3] += facts.state is not State.FAILED
        if facts.state is State.WAITING:
            self._wait(facts, leaf)
        elif facts.state is State.PLACED:
            row = around.node_row.get(facts.pod.spec.node_name, NONE)
            if row != NONE:
                self._placed.setdefault(leaf, []).append((metadata.name, row, around.shape_number(facts)))
        elif facts.state is State.SUCCEEDED:
            counts[0] += 1
        elif facts.state is State.GATED:
            counts[1] += 1
        elif facts.state is State.TERMINATING:
            counts[2] += 1

    def _wait(self, facts: PodFacts, leaf: int) -> None:
        name = facts.pod.metadata.name
        if facts.problem:
            self._notes.append(Issue(BAD_POD, leaf, facts.problem, name))
            return
        if facts.unsupported:
            self._held.append(Issue(UNSUPPORTED, leaf, ", ".join(facts.unsupported), name))
        nominated = self._around.node_row.get(facts.pod.status.nominated_node_name, NONE)
        age = self._ages[leaf] = self._ages.get(leaf, -1) + 1
        shape = self._around.shape_number(facts)
        self._waiting.setdefault((leaf, shape), []).append((name, age, nominated))

    def batches(self) -> tuple[Batch, ...]:
        """Waiting pods by leaf; in a leaf, the batch of the oldest pod first."""
        ordered = sorted(self._waiting.items(), key=lambda one: (one[0][0], one[1][0][1]))
        return tuple(Batch(leaf, shape, *zip(*pods, strict=True)) for (leaf, shape), pods in ordered)

    def placed(self) -> dict[int, Placed]:
        """Placed pods by leaf."""
        return {leaf: Placed(*zip(*pods, strict=True)) for leaf, pods in self._placed.items()}
