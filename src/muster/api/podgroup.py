"""PodGroup: a workload as people write it. `tree.normal_form` turns every spelling of it into one tree."""

from typing import Annotated, ClassVar

import msgspec

from muster.api.model import Amount, Condition, Count, Duration, Metadata, Model, Time, note

PREEMPTIBLE, NON_PREEMPTIBLE, SEMI_PREEMPTIBLE = "preemptible", "non-preemptible", "semi-preemptible"

# SPEC §4: what one PodGroup may hold.
MAX_SUBGROUPS = 10_000
MAX_DEPTH = 64

# Fields of other kinds that people write here: read, ignored, warned about.
IGNORED_FIELDS = {"parallelism": "parallelism", "completions": "completions", "backoffLimit": "backoff_limit"}

TOPOLOGY_ANNOTATION = "kai.scheduler/topology"
# The grouper writes this on every PodGroup that it makes.
GROUPER_ANNOTATION = "kai.scheduler/top-owner-metadata"
# Roots (as `.`) and branches whose joined children go only with them: names, separated by commas.
KEEP_ANNOTATION = "muster.dev/keep"
KEEP_ROOT = "."
# Where kept room stood before it stood in the status. Its owner can write it, so it means nothing now and is removed.
KEPT_ROOM_ANNOTATION = "kai.scheduler/kept-room"
# The most moved pods of one gang for which room is kept.
MAX_KEPT = 1000

SubGroupName = Annotated[
    str,
    note(
        "A DNS label of at most 63 characters, unique in the PodGroup.",
        maxLength=63,
        minLength=1,
        pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
        **{"x-muster-says": "a DNS label: at most 63 of a-z, 0-9 and '-', starting and ending with a letter or digit"},
    ),
]
LevelName = Annotated[
    str, note("A level of the Topology: its node label, alias, or the label's last part.", maxLength=316)
]


class TopologyConstraint(Model, frozen=True, kw_only=True):
    """Where the pods below a node of the tree may lie, relative to each other."""

    topology: Annotated[
        str,
        note(
            "The Topology by name. Empty: the nearest ancestor's, then the annotation kai.scheduler/topology, then the "
            "cluster's only Topology.",
            maxLength=253,
        ),
    ] = ""
    required_topology_level: Annotated[
        LevelName, note("All placed pods lie in one domain of this level, or nothing is placed.")
    ] = ""
    preferred_topology_level: Annotated[
        LevelName, note("All placed pods lie in one domain of this level where that is possible.")
    ] = ""


class SubGroup(Model, frozen=True, kw_only=True):
    """A branch (has children) or a leaf (holds pods) of the PodGroup's tree."""

    name: Annotated[SubGroupName, note("Unique in the PodGroup.")]
    parent: Annotated[
        str | None, note("The SubGroup above this one. Empty: directly below the PodGroup.", maxLength=63)
    ] = None
    min_member: Annotated[Count | None, note("Leaf: the pods that must be placed together.")] = None
    min_sub_group: Annotated[
        Count | None, note("Branch: how many direct children must be satisfied. Unset: all of them.")
    ] = None
    topology_constraint: Annotated[TopologyConstraint | None, note("Holds together all pods below this node.")] = None


class SubGroupSet(Model, frozen=True, kw_only=True):
    """SubGroups of one parent that are held together, without any change to how they are counted."""

    sub_groups: Annotated[
        list[Annotated[str, note("A SubGroup by name.", maxLength=63)]],
        note("The members: SubGroups that share a parent.", minItems=1, maxItems=MAX_SUBGROUPS),
    ]
    constraint: Annotated[TopologyConstraint, note("Holds all members in one domain.")]


class TopologyConstraints(Model, frozen=True, kw_only=True):
    """The older spelling of constraints, beside the tree instead of on it."""

    global_: Annotated[
        TopologyConstraint | None,
        note("Holds together all pods that no other constraint of this PodGroup covers."),
    ] = msgspec.field(default=None, name="global")
    sub_groups: Annotated[
        dict[str, TopologyConstraint],
        note("A constraint by SubGroup name: the same as topologyConstraint there.", maxProperties=MAX_SUBGROUPS),
    ] = {}
    sub_group_sets: Annotated[
        list[SubGroupSet], note("SubGroups that share one domain. A SubGroup is in at most one set.", maxItems=1000)
    ] = []


class PodGroupSpec(Model, frozen=True, kw_only=True):
    """What is asked for."""

    min_member: Annotated[
        Count | None,
        note(
            "Without SubGroups: the pods that must be placed together (unset: 1). With SubGroups: a floor; every "
            "direct child is required, and at least this many pods in all."
        ),
    ] = None
    min_sub_group: Annotated[
        Count | None, note("How many direct SubGroups must be satisfied. Unset: all of them. Not with minMember.")
    ] = None
    queue: Annotated[str, note("The queue that is charged. Empty: the configured default queue.", maxLength=253)] = ""
    priority_class_name: Annotated[
        str, note("The PriorityClass whose value orders gangs. Empty: the cluster's default.", maxLength=253)
    ] = ""
    preemptibility: Annotated[
        str,
        note(
            "preemptible: anything may be evicted. non-preemptible: nothing. semi-preemptible: the core stays, the "
            "surplus may be evicted. Empty: non-preemptible from priority 100 on, else preemptible.",
            enum=["", PREEMPTIBLE, NON_PREEMPTIBLE, SEMI_PREEMPTIBLE],
        ),
    ] = ""
    mark_unschedulable: Annotated[bool | None, note("false: no condition or event on pods that wait. Unset: true.")] = (
        None
    )
    scheduling_backoff: Annotated[
        int | None,
        note(
            "-1 (default): tried whenever something changed. 1: after one failure, only when its spec or the room "
            "changes.",
            format="int32",
            enum=[-1, 1],
        ),
    ] = None
    preemption_delay: Annotated[
        Duration | None, note("How long the gang must have been pending before it may evict others.")
    ] = None
    staleness_grace_period: Annotated[
        Duration | None,
        note("How long the gang may stay below its minimum. Unset: 60s. Negative: for ever. 0: not at all."),
    ] = None
    topology_constraint: Annotated[TopologyConstraint | None, note("Holds together all pods of the PodGroup.")] = None
    topology_constraints: Annotated[
        TopologyConstraints | None, note("The older spelling of constraints; see `muster migrate`.")
    ] = None
    sub_groups: Annotated[
        list[SubGroup] | None,
        note(
            "The tree below the PodGroup; order is meaning.",
            maxItems=MAX_SUBGROUPS,
            **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        ),
    ] = None
    subgroups: Annotated[
        list[SubGroup] | None,
        note(
            "Deprecated: write subGroups.",
            maxItems=MAX_SUBGROUPS,
            **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        ),
    ] = None
    parallelism: Annotated[int | None, note("Deprecated: ignored.", format="int32")] = None
    completions: Annotated[int | None, note("Deprecated: ignored.", format="int32")] = None
    backoff_limit: Annotated[int | None, note("Deprecated: ignored.", format="int32")] = None


class PodCounts(Model, frozen=True, kw_only=True):
    """Pods below one node of the tree."""

    total: Annotated[Count, note("Pods that exist.")] = 0
    pending: Annotated[Count, note("Pods that wait.")] = 0
    placed: Annotated[Count, note("Pods that are bound, being bound, or running.")] = 0
    succeeded: Annotated[Count, note("Pods that finished well.")] = 0


class ChildCounts(Model, frozen=True, kw_only=True):
    """Direct children of one node of the tree."""

    total: Annotated[Count, note("Direct children.")] = 0
    satisfied: Annotated[Count, note("Those of them that are satisfied.")] = 0


class SubGroupStatus(Model, frozen=True, kw_only=True):
    """One node of the tree as it stands; the root comes first and has an empty name."""

    name: Annotated[str, note("The SubGroup; empty for the PodGroup itself.", maxLength=63)] = ""
    satisfied: Annotated[bool, note("Whether its minimum is placed.")] = False
    core: Annotated[bool, note("Whether it is part of the gang's core.")] = False
    pods: Annotated[PodCounts, note("Pods below it.")] = PodCounts()
    children: Annotated[ChildCounts, note("Direct children.")] = ChildCounts()
    minimum: Annotated[Count, note("Pods of a leaf, children of a branch.")] = 0
    domain: Annotated[str, note("The narrowest domain that holds it, as a path.", maxLength=8192)] = ""
    preferred_met: Annotated[bool | None, note("Whether the preferred level was met.")] = None
    reason: Annotated[str, note("Why it waits, in one word.", maxLength=1024)] = ""
    message: Annotated[str, note("Why it waits, in one sentence.", maxLength=32768)] = ""
    stale_since: Annotated[Time | None, note("Since when it has been below its minimum by a loss.")] = None
    joined: Annotated[
        bool,
        note("Whether it has been satisfied together with its siblings (keep: all): it goes only with its parent."),
    ] = False
    lost: Annotated[
        bool,
        note(
            "Whether it lacks pods by a loss without a staleness clock of its own: what is above it lacks some too, or "
            "it is joined and none of its pods waits."
        ),
    ] = False


class ResourcesStatus(Model, frozen=True, kw_only=True):
    """Amounts per resource."""

    requested: Annotated[dict[str, Amount], note("What all pods of the gang ask for.")] = {}
    allocated: Annotated[dict[str, Amount], note("What placed pods hold.")] = {}
    allocated_non_preemptible: Annotated[dict[str, Amount], note("The part of it that may not be evicted.")] = {}


class KeptRoom(Model, frozen=True, kw_only=True, omit_defaults=False):
    """Room on a node for one pod that was moved and is not back yet."""

    sub_group: Annotated[str, note("The leaf; empty for the PodGroup itself.", maxLength=63)] = ""
    node: Annotated[str, note("Where the room is.", maxLength=253)]
    requests: Annotated[dict[str, int], note("What the pod asks for, in base units.", maxProperties=64)]
    since: Annotated[Time, note("When the pod was moved. The room lapses five minutes later.")]


class PodGroupStatus(Model, frozen=True, kw_only=True):
    """What is. State that is read back after a restart: `core`, `joined`, `lost`, `staleSince`, `startTime`,
    `admittedQueue`, `kept`.
    """

    phase: Annotated[str, note("The state in one word.", maxLength=64)] = ""
    conditions: Annotated[
        list[Condition],
        note(
            "Accepted, PodsPresent, Scheduled, Stale, UnschedulableOnNodePool.",
            maxItems=64,
            **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
        ),
    ] = []
    ready: Annotated[str, note("Satisfied of required children, as 3/3.", maxLength=32)] = ""
    pods_summary: Annotated[str, note("Pods placed/minimum/total, as 32/24/32.", maxLength=64)] = ""
    reason: Annotated[str, note("Why the gang waits, in one word.", maxLength=1024)] = ""
    start_time: Annotated[Time | None, note("When the gang's minimum was placed.")] = None
    admitted_queue: Annotated[str, note("The queue that is charged for the pods that are placed.", maxLength=253)] = ""
    admitted_preemptibility: Annotated[
        str,
        note(
            "What of the placed pods may be evicted, as it was admitted. A spec that protects more counts when the "
            "queue's quota has place for it.",
            enum=["", PREEMPTIBLE, NON_PREEMPTIBLE, SEMI_PREEMPTIBLE],
        ),
    ] = ""
    kept: Annotated[list[KeptRoom], note("Room for pods that were moved.", maxItems=MAX_KEPT)] = []
    sub_groups: Annotated[
        list[SubGroupStatus], note("One entry per node of the tree, the root first.", maxItems=MAX_SUBGROUPS + 1)
    ] = []
    resources_status: Annotated[ResourcesStatus, note("Amounts asked for and held.")] = ResourcesStatus()
    decision: Annotated[
        str, note("The decision that changed this last; the log and the events have it too.", maxLength=64)
    ] = ""


class PodGroup(Model, frozen=True, kw_only=True):
    """A gang: a tree of pod groups that is placed as a whole up to its minimum."""

    API_VERSION: ClassVar[str] = "scheduling.run.ai/v2alpha2"

    metadata: Metadata = Metadata()
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


def kept_names(group: PodGroup) -> list[str]:
    """The names in the annotation `muster.dev/keep`, as written; the root's is `.`."""
    written = group.metadata.annotations.get(KEEP_ANNOTATION)
    return [] if written is None else [name.strip() for name in written.split(",")]


def is_grouped(group: PodGroup) -> bool:
    """Whether the grouper made it."""
    return GROUPER_ANNOTATION in group.metadata.annotations


def is_of_a_pod_gang(group: PodGroup) -> bool:
    """Whether a PodGang owns it. Grove lowers the minimums of its leaves to 0 once they are placed."""
    owners = group.metadata.owner_references
    return any(one.kind == "PodGang" and one.api_version.startswith("scheduler.grove.io/") for one in owners)
