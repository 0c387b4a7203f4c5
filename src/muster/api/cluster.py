"""The slices of Kubernetes' own kinds that a scheduler reads: Pod, Node, Namespace, PriorityClass, PodDisruptionBudget.

Unknown fields are dropped on decoding, so an object from here is never written back: writes are patches.
"""

from typing import Annotated, Any, ClassVar

import msgspec

from muster.api.model import Amount, Condition, Metadata, Model, Time

POD_GROUP_ANNOTATION = "pod-group-name"
SUBGROUP_LABEL = "kai.scheduler/subgroup-name"
QUEUE_LABEL = "kai.scheduler/queue"
SKIP_ANNOTATION = "kai.scheduler/skip-podgrouper"
ADMITTED_ANNOTATION = "muster.dev/admitted"
# The condition of a pod that goes for no fault of its own, and its reason where a scheduler deletes it.
DISRUPTION_TARGET, PREEMPTED = "DisruptionTarget", "PreemptionByScheduler"


# Weights are added up in 64 bits. Kubernetes allows 1 to 100.
_MOST_WEIGHT = 1_000_000
_WEIGHT = msgspec.Meta(
    ge=-_MOST_WEIGHT, le=_MOST_WEIGHT, extra_json_schema={"minimum": -_MOST_WEIGHT, "maximum": _MOST_WEIGHT}
)


class Present(Model, frozen=True, kw_only=True):
    """Something of which only its presence matters."""


class Resources(Model, frozen=True, kw_only=True):
    """What a container asks for; a limit without a request counts as the request."""

    requests: dict[str, Amount] = {}
    limits: dict[str, Amount] = {}
    claims: list[Present] = []


class ContainerPort(Model, frozen=True, kw_only=True):
    """A port; only host ports matter for placement."""

    container_port: int = 0
    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = "TCP"


class RestartRule(Model, frozen=True, kw_only=True):
    """What happens when a container exits in some way; some actions need a node that declares that it knows them."""

    action: str = ""


class VolumeMount(Model, frozen=True, kw_only=True):
    """Where a volume appears in a container, as far as a node has to know how to do it."""

    bind_mount_options: list[Any] = []


class Container(Model, frozen=True, kw_only=True):
    """The slice of a container that decides where a pod fits."""

    name: str = ""
    resources: Resources = Resources()
    ports: list[ContainerPort] = []
    restart_policy: str = ""
    restart_policy_rules: list[RestartRule] = []
    volume_mounts: list[VolumeMount] = []


class LabelRequirement(Model, frozen=True, kw_only=True):
    """One condition on labels, of a label selector or of node affinity."""

    key: str
    operator: str
    values: list[str] = []


class LabelSelector(Model, frozen=True, kw_only=True):
    """Objects by their labels."""

    match_labels: dict[str, str] = {}
    match_expressions: list[LabelRequirement] = []


class NodeSelectorTerm(Model, frozen=True, kw_only=True):
    """Conditions on a node that all hold."""

    match_expressions: list[LabelRequirement] = []
    match_fields: list[LabelRequirement] = []


class NodeSelector(Model, frozen=True, kw_only=True):
    """Terms of which one holds."""

    node_selector_terms: list[NodeSelectorTerm] = []


class PreferredTerm(Model, frozen=True, kw_only=True):
    """A term that is liked, with its weight."""

    weight: Annotated[int, _WEIGHT] = 1
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Model, frozen=True, kw_only=True):
    """Nodes that the pod needs or likes."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: list[PreferredTerm] = []


class PodAffinityTerm(Model, frozen=True, kw_only=True):
    """Other pods, by namespace and labels, and the label of nodes whose values are the domains that are compared."""

    label_selector: LabelSelector | None = None
    namespaces: list[str] = []
    namespace_selector: LabelSelector | None = None
    topology_key: str = ""
    match_label_keys: list[str] = []
    mismatch_label_keys: list[str] = []


class PodAffinity(Model, frozen=True, kw_only=True):
    """Terms about other pods; of what is only preferred, the presence."""

    required_during_scheduling_ignored_during_execution: list[PodAffinityTerm] = []
    preferred_during_scheduling_ignored_during_execution: list[Present] = []


class Affinity(Model, frozen=True, kw_only=True):
    """Node affinity is honoured. Of pods that wait, required terms about other pods hold their gang; preferred terms
    are wishes, which change no verdict.
    """

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(Model, frozen=True, kw_only=True):
    """A taint that the pod accepts."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class SchedulingGate(Model, frozen=True, kw_only=True):
    """While a pod has a gate it is not scheduled."""

    name: str = ""


class SpreadConstraint(Model, frozen=True, kw_only=True):
    """How pods are spread over domains; with ScheduleAnyway only a wish."""

    when_unsatisfiable: str = "DoNotSchedule"


class ClaimSource(Model, frozen=True, kw_only=True):
    """The claim, of the pod's namespace, whose volume it is."""

    claim_name: str = ""


class Volume(Model, frozen=True, kw_only=True):
    """A volume, as far as it ties a pod to nodes."""

    persistent_volume_claim: ClaimSource | None = None
    ephemeral: Present | None = None
    gce_persistent_disk: Present | None = None
    aws_elastic_block_store: Present | None = None
    iscsi: Present | None = None
    rbd: Present | None = None
    azure_disk: Present | None = None
    cinder: Present | None = None
    portworx_volume: Present | None = None
    vsphere_volume: Present | None = None


class SchedulingGroup(Model, frozen=True, kw_only=True):
    """The PodGroup of Kubernetes that a pod belongs to."""

    pod_group_name: str = ""


class PodSpec(Model, frozen=True, kw_only=True):
    """The slice of a pod's spec that decides whether and where it is placed."""

    scheduler_name: str = ""
    node_name: str = ""
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: list[Toleration] = []
    priority_class_name: str = ""
    priority: int | None = None
    containers: list[Container] = []
    init_containers: list[Container] = []
    overhead: dict[str, Amount] = {}
    resources: Resources | None = None
    scheduling_gates: list[SchedulingGate] = []
    topology_spread_constraints: list[SpreadConstraint] = []
    resource_claims: list[Present] = []
    volumes: list[Volume] = []
    host_network: bool = False
    host_users: bool | None = None
    scheduling_group: SchedulingGroup | None = None
    workload_ref: Present | None = None


class PodCondition(Model, frozen=True, kw_only=True):
    """The slice of a pod's condition that is read back."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class ContainerStatus(Model, frozen=True, kw_only=True):
    """What a container was given, and what it has: while it is resized, neither has to be what its spec says."""

    name: str = ""
    allocated_resources: dict[str, Amount] = {}
    resources: Resources | None = None


class PodStatus(Model, frozen=True, kw_only=True):
    """The slice of a pod's status that tells whether it is placed, waits or has ended, and what it holds."""

    phase: str = ""
    reason: str = ""
    nominated_node_name: str = ""
    start_time: Time | None = None
    conditions: list[PodCondition] = []
    container_statuses: list[ContainerStatus] = []
    init_container_statuses: list[ContainerStatus] = []
    allocated_resources: dict[str, Amount] = {}
    resources: Resources | None = None


class Pod(Model, frozen=True, kw_only=True):
    """A pod."""

    API_VERSION: ClassVar[str] = "v1"

    metadata: Metadata = Metadata()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class Taint(Model, frozen=True, kw_only=True):
    """What keeps pods without a matching toleration away."""

    key: str
    value: str = ""
    effect: str


class NodeSpec(Model, frozen=True, kw_only=True):
    """Who may be placed here."""

    unschedulable: bool = False
    taints: list[Taint] = []


class NodeStatus(Model, frozen=True, kw_only=True):
    """What there is, and whether it works."""

    capacity: dict[str, Amount] = {}
    allocatable: dict[str, Amount] = {}
    conditions: list[Condition] = []


class Node(Model, frozen=True, kw_only=True):
    """A node."""

    API_VERSION: ClassVar[str] = "v1"

    metadata: Metadata = Metadata()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class Namespace(Model, frozen=True, kw_only=True):
    """A namespace; only its labels matter, for the namespaceSelectors of pods."""

    API_VERSION: ClassVar[str] = "v1"

    metadata: Metadata = Metadata()


class PriorityClass(Model, frozen=True, kw_only=True):
    """A named priority."""

    API_VERSION: ClassVar[str] = "scheduling.k8s.io/v1"

    metadata: Metadata = Metadata()
    value: int = 0
    global_default: bool = False
    preemption_policy: str = ""


# Known without objects when files are read (SPEC §10): KAI's four and the cluster's own two.
BUILT_IN_PRIORITIES = {
    "train": 50,
    "build-preemptible": 75,
    "build": 100,
    "inference": 125,
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}


class PodDisruptionBudgetSpec(Model, frozen=True, kw_only=True):
    """How many of the selected pods may be missing."""

    selector: LabelSelector | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None


class PodDisruptionBudgetStatus(Model, frozen=True, kw_only=True):
    """How many may go now."""

    disruptions_allowed: int | None = None
    current_healthy: int | None = None
    desired_healthy: int | None = None
    expected_pods: int | None = None


class PodDisruptionBudget(Model, frozen=True, kw_only=True):
    """A limit on voluntary evictions."""

    API_VERSION: ClassVar[str] = "policy/v1"

    metadata: Metadata = Metadata()
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()
