"""The slices of Kubernetes' kinds for volumes that decide where a pod may go: claims, volumes, classes, drivers.

There may be tens of thousands of claims and volumes: `slim` keeps of each what is asked here and nothing else.
"""

from typing import ClassVar

from msgspec import structs

from muster.api.cluster import NodeSelector, Present
from muster.api.model import Metadata, Model

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
ONE_POD_ALONE = "ReadWriteOncePod"
LOST = "Lost"
ON_FIRST_CONSUMER = "WaitForFirstConsumer"
# Labels of a volume that say where it can be reached; each with its name of today.
_ZONE, _REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
ZONE_LABELS = {
    _ZONE: _ZONE,
    _REGION: _REGION,
    "failure-domain.beta.kubernetes.io/zone": _ZONE,
    "failure-domain.beta.kubernetes.io/region": _REGION,
}


class ClaimSpec(Model, frozen=True, kw_only=True):
    """What is claimed, and the volume that the claim is bound to."""

    access_modes: list[str] = []
    storage_class_name: str | None = None
    volume_name: str = ""


class ClaimStatus(Model, frozen=True, kw_only=True):
    """Of the phase only `Lost` is asked for."""

    phase: str = ""


class PersistentVolumeClaim(Model, frozen=True, kw_only=True):
    """A claim of a namespace to a volume."""

    API_VERSION: ClassVar[str] = "v1"

    metadata: Metadata = Metadata()
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()

    @property
    def is_bound(self) -> bool:
        """Whether it has its volume, and the controller of volumes has said so."""
        return bool(self.spec.volume_name) and BIND_COMPLETED in self.metadata.annotations

    @property
    def storage_class(self) -> str:
        """The name of its class; the older annotation comes first."""
        return self.metadata.annotations.get(BETA_CLASS) or self.spec.storage_class_name or ""


class VolumeNodeAffinity(Model, frozen=True, kw_only=True):
    """The nodes that can reach a volume."""

    required: NodeSelector | None = None


class CsiSource(Model, frozen=True, kw_only=True):
    """A volume of a CSI driver."""

    driver: str = ""


class PersistentVolumeSpec(Model, frozen=True, kw_only=True):
    """Where a volume can be reached, and by which driver. The plugins are those that Kubernetes replaced by drivers."""

    node_affinity: VolumeNodeAffinity | None = None
    csi: CsiSource | None = None
    aws_elastic_block_store: Present | None = None
    azure_disk: Present | None = None
    azure_file: Present | None = None
    cinder: Present | None = None
    gce_persistent_disk: Present | None = None
    portworx_volume: Present | None = None
    vsphere_volume: Present | None = None

    @property
    def replaced_plugin(self) -> str:
        """The field of the plugin, if it is one of these: its volumes count for a driver that they do not name."""
        plugins = {
            "awsElasticBlockStore": self.aws_elastic_block_store,
            "azureDisk": self.azure_disk,
            "azureFile": self.azure_file,
            "cinder": self.cinder,
            "gcePersistentDisk": self.gce_persistent_disk,
            "portworxVolume": self.portworx_volume,
            "vsphereVolume": self.vsphere_volume,
        }
        return next((name for name, source in plugins.items() if source is not None), "")


class PersistentVolume(Model, frozen=True, kw_only=True):
    """A volume."""

    API_VERSION: ClassVar[str] = "v1"

    metadata: Metadata = Metadata()
    spec: PersistentVolumeSpec = PersistentVolumeSpec()


class StorageClass(Model, frozen=True, kw_only=True):
    """When the claims of a class are bound."""

    API_VERSION: ClassVar[str] = "storage.k8s.io/v1"

    metadata: Metadata = Metadata()
    volume_binding_mode: str = ""


class DriverAllocatable(Model, frozen=True, kw_only=True):
    """How many volumes of a driver a node takes."""

    count: int | None = None


class CSINodeDriver(Model, frozen=True, kw_only=True):
    """A driver on a node."""

    name: str = ""
    allocatable: DriverAllocatable | None = None


class CSINodeSpec(Model, frozen=True, kw_only=True):
    """The drivers of a node."""

    drivers: list[CSINodeDriver] = []


class CSINode(Model, frozen=True, kw_only=True):
    """What a node says of its CSI drivers."""

    API_VERSION: ClassVar[str] = "storage.k8s.io/v1"

    metadata: Metadata = Metadata()
    spec: CSINodeSpec = CSINodeSpec()

    @property
    def limited(self) -> frozenset[str]:
        """The drivers of which the node takes a limited number of volumes."""
        return frozenset(
            one.name for one in self.spec.drivers if one.allocatable is not None and one.allocatable.count is not None
        )


class CSIDriverSpec(Model, frozen=True, kw_only=True):
    """Whether pods are kept from nodes that lack the driver."""

    prevent_pod_scheduling_if_missing: bool = False


class CSIDriver(Model, frozen=True, kw_only=True):
    """What is true of a driver on all nodes."""

    API_VERSION: ClassVar[str] = "storage.k8s.io/v1"

    metadata: Metadata = Metadata()
    spec: CSIDriverSpec = CSIDriverSpec()


Stored = PersistentVolumeClaim | PersistentVolume | StorageClass | CSINode | CSIDriver
STORED = (PersistentVolumeClaim, PersistentVolume, StorageClass, CSINode, CSIDriver)


def slim(metadata: Metadata) -> Metadata:
    """Of an object of these kinds: who it is, whether it goes, and the labels and annotations that are asked for."""
    return Metadata(
        name=metadata.name,
        namespace=metadata.namespace,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        deletion_timestamp=metadata.deletion_timestamp,
        labels={key: value for key, value in metadata.labels.items() if key in ZONE_LABELS},
        annotations={
            key: metadata.annotations[key] for key in (BIND_COMPLETED, BETA_CLASS) if key in metadata.annotations
        },
    )


def slimmed(found: Stored) -> Stored:
    """The object with nothing but what is asked of it."""
    return structs.replace(found, metadata=slim(found.metadata))
