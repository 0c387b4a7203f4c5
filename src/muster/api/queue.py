"""Queue: a share of the cluster, in a tree of queues."""

import math
from fractions import Fraction
from typing import Annotated, ClassVar, NamedTuple

from muster.api.model import Amount, Condition, Duration, Metadata, Model, note

UNLIMITED = -1
DEFAULT_PRIORITY = 100
# On a Queue: the namespaces whose gangs may use it, separated by commas. `*` or no annotation: all of them.
ALLOWED_NAMESPACES_ANNOTATION = "kai.scheduler/allowed-namespaces"

# On a Queue: what it is owed within its quota is taken back whatever disruption budgets say of those who go.
RECLAIM_POLICY_ANNOTATION, IGNORE_BUDGETS = "muster.dev/reclaim-policy", "IgnoreBudgets"

# Parts of a GPU that queues count in: sevenths, quarters, fifths and 64ths of a GPU are whole numbers of them.
GPU_PARTS = 20_160
# Base units (thousandths of a core, bytes, parts of a GPU) in one unit of a Queue.
BASE_UNITS = {"cpu": 1, "memory": 10**6, "gpu": GPU_PARTS}


class QueueResource(Model, frozen=True, kw_only=True):
    """How much of one resource a queue may have."""

    quota: Annotated[float, note("Guaranteed. -1: unlimited. Unset: 0.", minimum=-1)] = 0
    limit: Annotated[float, note("Never exceeded. -1: unlimited (the default). 0: nothing.", minimum=-1)] = UNLIMITED
    over_quota_weight: Annotated[float, note("The share of what is left over. Unset: 1.", minimum=0)] = 1


class Entitlement(NamedTuple):
    """How much of one resource a queue may have, in base units; UNLIMITED for no end. The weight is exact."""

    quota: int
    limit: int
    weight: Fraction


def entitlement_of(name: str, resource: QueueResource | None) -> Entitlement:
    """What a Queue says about one of `BASE_UNITS`, rounded down; a resource that is not named is unlimited."""
    if resource is None:
        return Entitlement(UNLIMITED, UNLIMITED, Fraction(1))
    weight = _exact(resource.over_quota_weight)
    return Entitlement(
        _base_units(name, resource.quota),
        _base_units(name, resource.limit),
        Fraction(1) if weight is None else max(weight, Fraction(0)),
    )


def _base_units(name: str, amount: float) -> int:
    exact = _exact(amount)
    return UNLIMITED if exact is None or exact < 0 else math.floor(exact * BASE_UNITS[name])


def _exact(number: float) -> Fraction | None:
    """The number as it was written: 0.1 is a tenth. None when it is no number."""
    if not math.isfinite(number):
        return None
    whole = int(number)
    return Fraction(whole) if whole == number else Fraction(repr(number))


class QueueResources(Model, frozen=True, kw_only=True):
    """A resource that is not named is unlimited."""

    cpu: Annotated[QueueResource | None, note("In millicores.")] = None
    memory: Annotated[QueueResource | None, note("In 10^6 bytes.")] = None
    gpu: Annotated[QueueResource | None, note("In devices.")] = None


class QueueSpec(Model, frozen=True, kw_only=True):
    """Whose share, of what, and how it is protected."""

    display_name: Annotated[str, note("A name for people.", maxLength=253)] = ""
    parent_queue: Annotated[str, note("The queue above this one. Empty: a top queue.", maxLength=253)] = ""
    priority: Annotated[int | None, note("Higher is served first. Unset: 100.", format="int32")] = None
    preempt_min_runtime: Annotated[
        Duration | None, note("How long a gang's minimum is safe from preemption after its start.")
    ] = None
    reclaim_min_runtime: Annotated[
        Duration | None, note("How long a gang's minimum is safe from reclaim after its start.")
    ] = None
    resources: Annotated[QueueResources, note("Quota, limit and weight per resource.")] = QueueResources()


class QueueStatus(Model, frozen=True, kw_only=True):
    """What the queue has now."""

    conditions: Annotated[
        list[Condition],
        note(
            "Accepted.",
            maxItems=64,
            **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
        ),
    ] = []
    child_queues: Annotated[list[str], note("The queues directly below.", maxItems=10_000)] = []
    requested: Annotated[dict[str, Amount], note("What its ready gangs ask for.")] = {}
    allocated: Annotated[dict[str, Amount], note("What its placed pods hold.")] = {}
    allocated_non_preemptible: Annotated[dict[str, Amount], note("The part of it that may not be evicted.")] = {}
    fair_share: Annotated[dict[str, Amount], note("What it is due now.")] = {}


class Queue(Model, frozen=True, kw_only=True):
    """A share of the cluster that gangs are charged to."""

    API_VERSION: ClassVar[str] = "scheduling.run.ai/v2"

    metadata: Metadata = Metadata()
    spec: QueueSpec = QueueSpec()
    status: QueueStatus = QueueStatus()

    @property
    def ignores_budgets(self) -> bool:
        """Whether it takes back what it is owed whatever disruption budgets say."""
        return self.metadata.annotations.get(RECLAIM_POLICY_ANNOTATION) == IGNORE_BUDGETS
