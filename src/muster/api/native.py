"""What Kubernetes itself says of groups of pods and of devices, as far as it must be known to hold what is not honoured
yet: PodGroup of scheduling.k8s.io in all its versions, and DeviceClass.
"""

from typing import Any, ClassVar

from muster.api.model import Metadata, Model


class NativePolicy(Model, frozen=True, kw_only=True):
    """How a group starts: pod by pod, or as a gang."""

    basic: dict[str, Any] | None = None
    gang: dict[str, Any] | None = None


class NativeConstraints(Model, frozen=True, kw_only=True):
    """Where a group has to be."""

    topology: list[Any] = []


class NativePodGroupSpec(Model, frozen=True, kw_only=True):
    """What decides whether a group asks for more than its pods do one by one. The mode of disruption is a word in
    v1alpha2 and an object later.
    """

    scheduling_policy: NativePolicy = NativePolicy()
    parent_composite_pod_group_name: str = ""
    scheduling_constraints: NativeConstraints = NativeConstraints()
    resource_claims: list[Any] = []
    disruption_mode: Any = None


class NativePodGroup(Model, frozen=True, kw_only=True):
    """PodGroup of Kubernetes."""

    API_VERSION: ClassVar[str] = "scheduling.k8s.io/v1beta1"
    KIND: ClassVar[str] = "PodGroup"
    # Its other versions: what is read of them looks the same.
    VERSIONS: ClassVar[tuple[str, ...]] = ("scheduling.k8s.io/v1alpha3", "scheduling.k8s.io/v1alpha2")

    metadata: Metadata = Metadata()
    spec: NativePodGroupSpec = NativePodGroupSpec()

    @property
    def beyond_pods(self) -> str:
        """The first field by which the group asks for more than its pods do one by one; nothing when it does not."""
        spec = self.spec
        if spec.scheduling_policy.gang is not None or spec.scheduling_policy.basic is None:
            return "schedulingPolicy.gang" if spec.scheduling_policy.gang is not None else "schedulingPolicy"
        if spec.parent_composite_pod_group_name:
            return "parentCompositePodGroupName"
        if spec.scheduling_constraints.topology:
            return "schedulingConstraints.topology"
        if spec.resource_claims:
            return "resourceClaims"
        mode = spec.disruption_mode
        single = mode is None or mode == "Pod" or (isinstance(mode, dict) and set(mode) == {"single"})
        return "" if single else "disruptionMode"


class DeviceClassSpec(Model, frozen=True, kw_only=True):
    """The name under which pods may ask for devices of the class as for a resource of nodes."""

    extended_resource_name: str = ""


class DeviceClass(Model, frozen=True, kw_only=True):
    """A class of devices."""

    API_VERSION: ClassVar[str] = "resource.k8s.io/v1"
    # Files may have these; a server that serves them serves v1, too, or no extended resources.
    VERSIONS: ClassVar[tuple[str, ...]] = ("resource.k8s.io/v1beta2", "resource.k8s.io/v1beta1")

    metadata: Metadata = Metadata()
    spec: DeviceClassSpec = DeviceClassSpec()
