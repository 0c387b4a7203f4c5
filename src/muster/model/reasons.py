"""Every reason that a gang, a tree node or a pod waits for, as one table.

A row says who can end the reason, which check of `muster explain` it fails, how waiting pods and events report it, and
its sentence. The order of the rows is the precedence: where there is space for one reason, the first is shown. A new
reason takes a row here and the place that raises it.

A `Code` is also a string: it equals its word in statuses, files and snapshots.
"""

import enum
from dataclasses import dataclass


class Ends(enum.Enum):
    """Who can end a reason, or what ends it."""

    # The author of the PodGroup, the pods or the workload.
    AUTHOR = enum.auto()
    # The administrator of queues, Topologies, classes and namespaces.
    ADMINISTRATOR = enum.auto()
    # More room: new nodes help.
    ROOM = enum.auto()
    # A controller, other gangs of the queue, or a later cycle. No one has to act.
    TIME = enum.auto()
    # muster itself, which tries again.
    MUSTER = enum.auto()


class Numbers(enum.Enum):
    """What `asked` and `best` of a reason count."""

    NOTHING = enum.auto()
    # Room for pods.
    SLOTS = enum.auto()
    # Pods that exist.
    PODS = enum.auto()
    # An amount of a resource, under a limit or a quota of a queue.
    QUOTA = enum.auto()


class Step(enum.Enum):
    """The checks of `muster explain`, in their order."""

    SPEC = "spec"
    QUEUE = "queue"
    PRIORITY = "priority"
    TOPOLOGY = "topology"
    SUPPORTED = "supported"
    PODS = "pods"
    QUOTA = "quota"
    ROOM = "room"


@dataclass(frozen=True)
class Row:
    """One reason.

    `says` has the parts of its sentence: what is missing, where it is nearest, what would fix it. The parts may use the
    fields `{who}`, `{queue}`, `{detail}`, `{pod}`, `{level}`, `{best}`, `{namespace}`, `{preemptibility}` and `{more}`
    (the number of further reasons like it). A sentence that needs more is a function in `decisions/words.py`.
    """

    word: str
    ends: Ends
    step: Step | None = None
    says: tuple[str, str, str] | None = None
    # It concerns single pods.
    about_pods: bool = False
    # It does not keep a gang from its minimum.
    is_remark: bool = False
    # Waiting pods get no condition for it, although the author or an administrator has to act.
    is_quiet: bool = False
    numbers: Numbers = Numbers.NOTHING
    # Surplus with this reason was not tried, so it has no place in line.
    not_in_line: bool = False

    def __post_init__(self) -> None:
        """Waiting pods report only what the author or an administrator has to end."""
        assert not self.is_quiet or self.ends in (Ends.AUTHOR, Ends.ADMINISTRATOR), self.word


class Code(enum.StrEnum):
    """The reasons, the first to show first."""

    row: Row

    def __new__(cls, row: Row) -> "Code":
        """The word is the value."""
        made = str.__new__(cls, row.word)
        made._value_ = row.word
        made.row = row
        return made

    # Codes and the words of statuses and files are members of the same sets.
    __hash__ = str.__hash__

    INVALID = Row(
        "Invalid",
        Ends.AUTHOR,
        Step.SPEC,
        says=("the PodGroup is invalid", "{detail}", "mend it; muster validate says everything about it"),
    )
    QUEUE_NOT_FOUND = Row("QueueNotFound", Ends.ADMINISTRATOR, Step.QUEUE)
    QUEUE_FORBIDDEN = Row(
        "QueueForbidden",
        Ends.ADMINISTRATOR,
        Step.QUEUE,
        says=(
            "the queue {queue} takes no gangs of the namespace {namespace}",
            "",
            "add it to the annotation kai.scheduler/allowed-namespaces of the Queue, or use another queue",
        ),
    )
    QUEUE_NOT_LEAF = Row("QueueNotLeaf", Ends.ADMINISTRATOR, Step.QUEUE)
    QUEUE_ORPHANED = Row("QueueOrphaned", Ends.ADMINISTRATOR, Step.QUEUE)
    QUEUE_CYCLE = Row("QueueCycle", Ends.ADMINISTRATOR, Step.QUEUE)
    QUEUE_INVALID = Row("QueueInvalid", Ends.ADMINISTRATOR, Step.QUEUE)
    PRIORITY_NOT_ALLOWED = Row("PriorityNotAllowed", Ends.AUTHOR, Step.PRIORITY)
    TOPOLOGY_NOT_FOUND = Row(
        "TopologyNotFound",
        Ends.ADMINISTRATOR,
        Step.TOPOLOGY,
        says=("{detail}", "", "create it, or name another in topologyConstraint.topology"),
    )
    LEVEL_NOT_FOUND = Row(
        "LevelNotFound",
        Ends.AUTHOR,
        Step.TOPOLOGY,
        says=("{detail}", "", "name one of its levels by label, alias or the label's last part"),
    )
    PRIORITY_NOT_FOUND = Row(
        "PriorityClassNotFound",
        Ends.AUTHOR,
        is_remark=True,
        is_quiet=True,
        says=(
            "the PriorityClass {detail} does not exist",
            "the default counts instead",
            "create it, or name another in spec.priorityClassName",
        ),
    )
    UNSUPPORTED = Row("Unsupported", Ends.AUTHOR, Step.SUPPORTED)
    SET_ASIDE = Row("SetAside", Ends.AUTHOR, about_pods=True, is_remark=True, is_quiet=True)
    # A bound pod that was not bound for this gang.
    NOT_ADMITTED = Row("NotAdmitted", Ends.AUTHOR, about_pods=True, is_remark=True, is_quiet=True)
    BAD_POD = Row(
        "BadPod",
        Ends.AUTHOR,
        about_pods=True,
        is_remark=True,
        is_quiet=True,
        says=("the pod {pod} can't be read: {detail}{more}", "it is not placed", "mend its requests"),
    )
    NOT_TRIED = Row("NotTried", Ends.TIME)
    BIND_BACKOFF = Row(
        "BindBackoff",
        Ends.MUSTER,
        says=("binding pods of {who} failed: {detail}", "", "it is tried again after a while"),
    )
    EVICTED = Row("Evicted", Ends.MUSTER, not_in_line=True)
    # Its check counts the pods that are there.
    WAITING_FOR_PODS = Row("WaitingForPods", Ends.TIME, not_in_line=True, numbers=Numbers.PODS)
    # Above the limit of a queue; above its quota for non-preemptible pods; within that quota, which others use now.
    OVER_LIMIT = Row("OverLimit", Ends.ADMINISTRATOR, Step.QUOTA, numbers=Numbers.QUOTA)
    OVER_QUOTA = Row("OverQuota", Ends.ADMINISTRATOR, Step.QUOTA, numbers=Numbers.QUOTA)
    WAITING_FOR_QUOTA = Row("WaitingForQuota", Ends.TIME, Step.QUOTA, numbers=Numbers.QUOTA)
    TOPOLOGY_DRIFT = Row(
        "TopologyDrift",
        Ends.AUTHOR,
        Step.ROOM,
        is_quiet=True,
        says=(
            "placed pods of {who} lie in {best} domains where one {level} is required",
            "nothing is added there",
            "delete the pods outside one {level}; they come back inside it",
        ),
    )
    INSUFFICIENT = Row("InsufficientResources", Ends.ROOM, Step.ROOM, numbers=Numbers.SLOTS)
    NOT_ENOUGH_IN_DOMAIN = Row("NotEnoughInDomain", Ends.ROOM, Step.ROOM, numbers=Numbers.SLOTS)
    FRAGMENTED = Row("TopologyFragmented", Ends.ROOM, Step.ROOM, numbers=Numbers.SLOTS)
    NO_ARRANGEMENT = Row("NoArrangement", Ends.ROOM, Step.ROOM)
    SEARCH_BUDGET = Row("SearchBudgetSpent", Ends.MUSTER, Step.ROOM)
    WAITING_FOR_ROOM = Row("WaitingForRoom", Ends.TIME, Step.ROOM, not_in_line=True)
    SCHEDULER_ERROR = Row("SchedulerError", Ends.MUSTER, Step.ROOM)
    # The spec names another queue than the one that admitted the gang, or asks for more protection than the quota of
    # that queue allows.
    STAYS_IN_QUEUE = Row(
        "StaysInQueue",
        Ends.AUTHOR,
        is_remark=True,
        is_quiet=True,
        says=(
            "queue {queue} admitted {who} and is charged for it; the spec names queue {detail}",
            "",
            "it moves when none of its pods runs any more",
        ),
    )
    STAYS_PREEMPTIBLE = Row(
        "StaysPreemptible",
        Ends.AUTHOR,
        is_remark=True,
        is_quiet=True,
        says=(
            "{who} is {preemptibility}, as it was admitted; the spec says {detail}",
            "the quota of queue {queue} has no place for it",
            "it counts when the quota has place",
        ),
    )


_KNOWN = {str(code): (rank, code.row) for rank, code in enumerate(Code)}
_UNKNOWN = Row("", Ends.MUSTER)


def row_of(word: str) -> Row:
    """The row of a reason. An unknown word, as in a snapshot of a later version, has an empty row."""
    return _KNOWN[word][1] if word in _KNOWN else _UNKNOWN


def rank_of(word: str) -> int:
    """Its place in the order of precedence. Unknown words come last."""
    return _KNOWN[word][0] if word in _KNOWN else len(_KNOWN)


def nodes_help(word: str) -> bool:
    """Whether more nodes would end it."""
    return row_of(word).ends is Ends.ROOM


def needs_somebody(word: str) -> bool:
    """Whether waiting pods report it by its own word, because its author or an administrator has to act."""
    row = row_of(word)
    return row.ends in (Ends.AUTHOR, Ends.ADMINISTRATOR) and not row.is_quiet


def is_in_order(word: str) -> bool:
    """Whether it ends without action, so that its event is no warning."""
    return row_of(word).ends is Ends.TIME


def failing(step: Step) -> frozenset[str]:
    """The reasons that fail a check."""
    return frozenset(word for word, (_, row) in _KNOWN.items() if row.step is step)
