"""ResourceInterface: how the pods of one workload kind become a gang, as data."""

from typing import Annotated, ClassVar

import msgspec

from muster.api.model import Condition, Metadata, Model, note

GROUP, HANDOFF, SKIP, DEFAULT = "Group", "Handoff", "Skip", "Default"
OPERATORS = ("Equals", "NotEquals", "In", "NotIn", "Exists", "DoesNotExist")

# Core kinds whose content could leak into names and labels.
FORBIDDEN_KINDS = ("Secret", "ConfigMap")
_EXPRESSION_STARTS = (".", "$", "(", "[", '"')

# What `keep` says of an entry whose children go only with it.
KEEP_ALL = "all"

# An expression of the grouping language (a total subset of jq), as text.
Expression = Annotated[str, note("An expression.", maxLength=4096)]
# The first path that gives a value wins.
Paths = Annotated[str | list[Expression], note("One path, or several in the order to try.", maxItems=32)]
# A number, or an expression that gives one.
CountOrExpression = Annotated[int | str, note("A number, or an expression that gives one.")]


def is_expression(text: str) -> bool:
    """Whether a text that may be literal is an expression (SPEC §9)."""
    return text.startswith(_EXPRESSION_STARTS)


class KindReference(Model, frozen=True, kw_only=True):
    """A Kubernetes kind."""

    group: Annotated[
        str,
        note("The API group; empty for core kinds.", maxLength=253, pattern=r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$"),
    ] = ""
    version: Annotated[
        str, note("The version, or * for any.", maxLength=63, pattern=r"^(\*|[a-z0-9]([-a-z0-9]*[a-z0-9])?)$")
    ] = "*"
    kind: Annotated[str, note("The kind.", minLength=1, maxLength=63, pattern="^[A-Z][A-Za-z0-9]*$")]


class Lookup(Model, frozen=True, kw_only=True):
    """Another object by its name."""

    root: Annotated[str, note("Where namePath starts.", enum=["owner", "pod"])] = "owner"
    name_path: Annotated[Paths, note("Gives the object's name.")]


class Selection(Model, frozen=True, kw_only=True):
    """Other objects by their labels."""

    match_labels: Annotated[
        dict[str, Expression], note("Labels that the objects carry; values may be expressions.", maxProperties=32)
    ]


class Reference(Model, frozen=True, kw_only=True):
    """Another object that expressions may read as `$name`."""

    name: Annotated[str, note("The variable.", minLength=1, maxLength=63, pattern="^[A-Za-z_][A-Za-z0-9_]*$")]
    gvk: Annotated[KindReference, note("The kind of the object.")]
    lookup: Annotated[Lookup | None, note("One object, by name.")] = None
    list_: Annotated[Selection | None, note("All objects with these labels.")] = msgspec.field(
        default=None, name="list"
    )


class Defaults(Model, frozen=True, kw_only=True):
    """What a workload gets that does not say it itself."""

    priority_class_name: Annotated[
        str, note("The PriorityClass, or an expression that gives it (then with gangScheduling).", maxLength=4096)
    ] = ""
    preemptibility: Annotated[
        str,
        note("The preemptibility.", enum=["", "preemptible", "non-preemptible", "semi-preemptible"]),
    ] = ""


class MatchExpression(Model, frozen=True, kw_only=True):
    """One condition on a pod's label."""

    key: Annotated[str, note("The label.", minLength=1, maxLength=316)]
    operator: Annotated[str, note("How to compare.", enum=list(OPERATORS))]
    value: Annotated[str | None, note("With Equals and NotEquals: the value.", maxLength=4096)] = None
    values: Annotated[list[str] | None, note("With In and NotIn: the values.", maxItems=1000)] = None
    value_path: Annotated[Paths | None, note("Gives the value or values instead.")] = None


class PodClassifier(Model, frozen=True, kw_only=True):
    """Which pods an entry claims."""

    match_labels: Annotated[dict[str, Expression], note("Labels that the pod carries.", maxProperties=64)] = {}
    match_expressions: Annotated[list[MatchExpression], note("Conditions that all hold.", maxItems=64)] = []


class TopologyPaths(Model, frozen=True, kw_only=True):
    """Where an entry's topology constraint is written in the workload."""

    name_path: Annotated[Paths | None, note("Gives the Topology.")] = None
    required_path: Annotated[Paths | None, note("Gives the required level.")] = None
    preferred_path: Annotated[Paths | None, note("Gives the preferred level.")] = None


class Segments(Model, frozen=True, kw_only=True):
    """How the pods of a leaf are cut into segments of equal size, when the workload asks for that."""

    index_label: Annotated[str, note("The pod label that numbers the pods of this leaf.", minLength=1, maxLength=316)]
    index_from: Annotated[CountOrExpression | None, note("The number of the first pod. Unset: 0.")] = None
    count_path: Annotated[
        Paths | None,
        note("Gives how many pods are numbered, when replicasPath says how many of them there are at a time."),
    ] = None
    size_path: Annotated[
        Paths | None,
        note("Gives the size. The annotation kai.scheduler/segment-size on the workload comes before it."),
    ] = None
    topology: Annotated[TopologyPaths | None, note("The topology constraint of each segment.")] = None


class Component(Model, frozen=True, kw_only=True):
    """A branch or leaf of the gang; with `foreach`, one per item."""

    component_name: Annotated[str, note("The SubGroup's name, or an expression for it.", minLength=1, maxLength=4096)]
    foreach: Annotated[str | None, note('Repeats the entry: "<expression> as $x".', maxLength=4096)] = None
    when: Annotated[Expression | None, note("The entry is there only where this is true.")] = None
    pod_classifier: Annotated[PodClassifier | None, note("The pods of this leaf.")] = None
    min_replicas: Annotated[CountOrExpression | None, note("Leaf: its minimum of pods.")] = None
    min_replicas_path: Annotated[Paths | None, note("Leaf: gives its minimum of pods.")] = None
    resolve: Annotated[str, note("Which path of a list wins.", enum=["", "FirstNonNull", "FirstPositive"])] = ""
    replicas_path: Annotated[
        Paths | None, note("Leaf: gives how many pods the workload creates here. No minimum is above it.")
    ] = None
    segments: Annotated[Segments | None, note("Leaf: how it is cut into segments.")] = None
    min_sub_group: Annotated[CountOrExpression | None, note("Branch: how many children must be satisfied.")] = None
    min_sub_group_path: Annotated[Paths | None, note("Branch: gives how many children must be satisfied.")] = None
    keep: Annotated[
        str, note("Branch: all, or an expression for it: what has run together goes only together.", maxLength=4096)
    ] = ""
    topology: Annotated[TopologyPaths | None, note("Its topology constraint.")] = None
    required_topology_constraints_path: Annotated[Paths | None, note("The same as topology.requiredPath.")] = None
    preferred_topology_constraints_path: Annotated[Paths | None, note("The same as topology.preferredPath.")] = None
    group_by_key_paths: Annotated[
        Paths | None, note("In members: pod fields that tell instances apart (older spelling).")
    ] = None
    subgroups: Annotated[list["Component"], note("The entries below this one.", maxItems=256)] = []


class GroupTemplate(Model, frozen=True, kw_only=True):
    """One PodGroup that a workload becomes."""

    name: Annotated[str, note("A name for this entry.", minLength=1, maxLength=63)]
    when: Annotated[Expression | None, note("The PodGroup is there only where this is true.")] = None
    pod_classifier: Annotated[PodClassifier | None, note("The pods of this PodGroup.")] = None
    instance_key_paths: Annotated[Paths | None, note("Pod fields: one PodGroup per distinct value.")] = None
    name_template: Annotated[str | None, note("The PodGroup's name, as an expression.", maxLength=4096)] = None
    owner_ref: Annotated[str | None, note("owner, pod, or $reference: who owns the PodGroup.", maxLength=253)] = None
    min_member: Annotated[CountOrExpression | None, note("Flat: the minimum of pods.")] = None
    min_member_path: Annotated[Paths | None, note("Flat: gives the minimum of pods.")] = None
    resolve: Annotated[str, note("Which path of a list wins.", enum=["", "FirstNonNull", "FirstPositive"])] = ""
    replicas_path: Annotated[
        Paths | None, note("Flat: gives how many pods the workload creates. No minimum is above it.")
    ] = None
    segments: Annotated[Segments | None, note("Flat: how it is cut into segments.")] = None
    min_sub_group: Annotated[CountOrExpression | None, note("How many children must be satisfied.")] = None
    min_sub_group_path: Annotated[Paths | None, note("Gives how many children must be satisfied.")] = None
    keep: Annotated[
        str, note("all, or an expression for it: what has run together goes only together.", maxLength=4096)
    ] = ""
    topology: Annotated[TopologyPaths | None, note("The PodGroup's topology constraint.")] = None
    unmatched_pods: Annotated[
        str, note("Error (default), Ignore, or the SubGroup for pods that no entry claims.", maxLength=63)
    ] = ""
    subgroups: Annotated[list[Component] | None, note("The tree below the PodGroup.", maxItems=256)] = None
    members: Annotated[list[Component] | None, note("Deprecated: write subgroups.", maxItems=256)] = None

    @property
    def tree(self) -> tuple[str, list[Component]]:
        """The entries below the PodGroup, and the field that they stand in."""
        if self.subgroups is None and self.members is not None:
            return "members", self.members
        return "subgroups", self.subgroups or []


class GangScheduling(Model, frozen=True, kw_only=True):
    """The PodGroups of a workload."""

    pod_groups: Annotated[list[GroupTemplate], note("At least one.", minItems=1, maxItems=64)]


class ResourceInterfaceSpec(Model, frozen=True, kw_only=True):
    """Which kind, and what becomes of it."""

    target_gvk: Annotated[KindReference, note("The workload kind.")] = msgspec.field(name="targetGVK")
    action: Annotated[
        str,
        note(
            "Group (default): as gangScheduling says. Handoff: give way to the built-in interface, then to the next "
            "owner. Skip: the next owner. Default: one gang of minimum 1.",
            enum=["", GROUP, HANDOFF, SKIP, DEFAULT],
        ),
    ] = ""
    let: Annotated[
        dict[str, Expression], note("Named expressions, in scope everywhere as $name.", maxProperties=64)
    ] = {}
    references: Annotated[list[Reference], note("Other objects that expressions may read.", maxItems=16)] = []
    defaults: Annotated[Defaults, note("For workloads that do not say it themselves.")] = Defaults()
    gang_scheduling: Annotated[GangScheduling | None, note("The gang. Unset: the same as action Handoff.")] = None


class ResourceInterfaceStatus(Model, frozen=True, kw_only=True):
    """Whether the interface is in use."""

    conditions: Annotated[
        list[Condition],
        note(
            "Accepted.",
            maxItems=64,
            **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
        ),
    ] = []


class ResourceInterface(Model, frozen=True, kw_only=True):
    """How the pods of one workload kind become a gang."""

    API_VERSION: ClassVar[str] = "kai.scheduler/v1"

    metadata: Metadata = Metadata()
    spec: ResourceInterfaceSpec
    status: ResourceInterfaceStatus = ResourceInterfaceStatus()
