"""What the volumes of pods come to: nothing, some nodes that are out, or a reason to hold the gang.

Only the effect of a claim counts, never its name: pods of a StatefulSet have one claim each and are of one shape.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec
import numpy as np

from muster.api.cluster import LabelRequirement, NodeSelector, PodSpec
from muster.api.storage import (
    LOST,
    ON_FIRST_CONSUMER,
    ONE_POD_ALONE,
    ZONE_LABELS,
    CSIDriver,
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    Stored,
    slimmed,
)
from muster.snapshot.selectors import Mask, NodeTable

Key = tuple[str, str]
# More claims than any pod has: of a pod with more, none is looked at.
MOST_CLAIMS = 128
_MANY = "lists more claims than muster looks at"


class Use(NamedTuple):
    """A claim that a pod mounts, and the field that names it."""

    path: str
    claim: str


class Obstacle(NamedTuple):
    """Why a pod can't be placed yet because of an object that it refers to, and what would help."""

    path: str
    why: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.why} ({self.path})"


class Reach(NamedTuple):
    """What a volume asks of nodes: its node affinity, and per label of zone or region the values that are right."""

    affinity: bytes
    zones: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def words(self) -> str:
        """The nodes that can reach it."""
        said = [f"{label.rpartition('/')[2]} {' or '.join(values)}" for label, values in self.zones]
        if self.affinity:
            said.append(_in_words(msgspec.json.decode(self.affinity, type=NodeSelector)))
        return " and ".join(dict.fromkeys(said))


class Tie(NamedTuple):
    """A claim whose volume not every node can reach."""

    claim: str
    volume: str
    reach: Reach

    @property
    def words(self) -> str:
        """As people are told."""
        return f"claim {self.claim} (volume {self.volume}) can only be reached from {self.reach.words}"


def uses_of(spec: PodSpec) -> tuple[Use, ...]:
    """The claims of a pod, in the order of its volumes."""
    found = [
        Use(f"spec.volumes[{index}].persistentVolumeClaim", volume.persistent_volume_claim.claim_name)
        for index, volume in enumerate(spec.volumes)
        if volume.persistent_volume_claim is not None
    ]
    return tuple(found)


class Storage:
    """Claims, volumes, classes and drivers by name. Objects are kept with nothing but what is asked of them."""

    def __init__(self) -> None:
        self.claims: dict[Key, PersistentVolumeClaim] = {}
        self.volumes: dict[str, PersistentVolume] = {}
        self.classes: dict[str, StorageClass] = {}
        self.nodes: dict[str, CSINode] = {}
        self.drivers: dict[str, CSIDriver] = {}
        # Claims by the volume that they are bound to, and drivers by how many nodes limit them.
        self._bound: dict[str, set[Key]] = {}
        self._limited: Counter[str] = Counter()

    def copy(self) -> "Storage":
        """Another one with the same objects."""
        other = Storage()
        other.claims, other.volumes, other.classes = dict(self.claims), dict(self.volumes), dict(self.classes)
        other.nodes, other.drivers = dict(self.nodes), dict(self.drivers)
        other._bound = {volume: set(claims) for volume, claims in self._bound.items()}
        other._limited = Counter(self._limited)
        return other

    def kept(self, struct: Any) -> dict[Any, Any]:
        """The objects of a kind."""
        kept: dict[Any, dict[Any, Any]] = {
            PersistentVolumeClaim: self.claims,
            PersistentVolume: self.volumes,
            StorageClass: self.classes,
            CSINode: self.nodes,
            CSIDriver: self.drivers,
        }
        return kept[struct]

    def apply(self, key: Key, found: Stored, *, deleted: bool) -> Iterable[Key] | None:
        """An object that came, changed or went: the claims that are now something else. None: any of them may be."""
        objects = self.kept(type(found))
        name: Any = key if isinstance(found, PersistentVolumeClaim) else key[1]
        before = objects.get(name)
        now = None if deleted else slimmed(found)
        if now is None:
            objects.pop(name, None)
        else:
            objects[name] = now
        if _says(before) == _says(now):
            return ()
        if isinstance(found, PersistentVolumeClaim):
            self._bind(key, before, -1)
            self._bind(key, now, 1)
            return (key,)
        if isinstance(found, PersistentVolume):
            return self._bound.get(key[1], ())
        if isinstance(found, CSINode):
            was = before.limited if before is not None else frozenset()
            limits = now.limited if isinstance(now, CSINode) else frozenset()
            known = set(self._limited)
            self._limited.update(limits)
            self._limited.subtract(was)
            self._limited = +self._limited
            return None if known != set(self._limited) else ()
        return None

    def _bind(self, key: Key, claim: Any, sign: int) -> None:
        volume = claim.spec.volume_name if claim is not None else ""
        if volume and sign > 0:
            self._bound.setdefault(volume, set()).add(key)
        elif volume:
            self._bound[volume].discard(key)
            if not self._bound[volume]:
                del self._bound[volume]

    def look(
        self, namespace: str, uses: Iterable[Use], closed: Mapping[str, str], absent: str
    ) -> tuple[list[Obstacle], list[Tie]]:
        """What the claims of a pod come to. `closed` are kinds that may not be read; `absent` says of what is not
        there where it is not.
        """
        obstacles: list[Obstacle] = []
        ties: list[Tie] = []
        for number, use in enumerate(uses):
            if number >= MOST_CLAIMS:
                return [Obstacle("spec.volumes", _MANY, "split the pod")], []
            found = self._judged((namespace, use.claim), closed, absent)
            if isinstance(found, Tie):
                ties.append(found)
            elif found is not None:
                obstacles.append(Obstacle(use.path, *found))
        return obstacles, ties

    def _judged(self, key: Key, closed: Mapping[str, str], absent: str) -> tuple[str, str] | Tie | None:
        """A claim: why it holds its pod and what would help, which nodes reach its volume, or nothing."""
        claim, name = self.claims.get(key), f"claim {key[1]}"
        if "persistentvolumeclaims" in closed:
            return closed["persistentvolumeclaims"], _GRANT
        if claim is None:
            return f"{name} {absent}", f"add the PersistentVolumeClaim {key[0]}/{key[1]}, and its volume"
        if claim.metadata.deletion_timestamp is not None:
            return f"{name} is being deleted", "wait until it is gone, and create it again"
        if claim.status.phase == LOST:
            return f"{name} lost its volume {claim.spec.volume_name}", "create the claim again"
        if not claim.is_bound:
            return self._unbound(claim, closed, absent)
        if ONE_POD_ALONE in claim.spec.access_modes:
            why = f"{name} is {ONE_POD_ALONE}, and muster does not check yet that no other pod uses it"
            return why, "claim the volume as ReadWriteOnce or ReadWriteMany"
        if "persistentvolumes" in closed:
            return closed["persistentvolumes"], _GRANT
        volume = self.volumes.get(claim.spec.volume_name)
        if volume is None:
            return f"the volume {claim.spec.volume_name} of {name} {absent}", "add the PersistentVolume"
        return self._of_driver(name, volume, closed) or _tie(key[1], volume)

    def _unbound(self, claim: PersistentVolumeClaim, closed: Mapping[str, str], absent: str) -> tuple[str, str]:
        name, class_name = f"claim {claim.metadata.name}", claim.storage_class
        if claim.spec.volume_name:
            return f"{name} is not bound to its volume {claim.spec.volume_name} yet", "kubectl describe pvc says why"
        if not class_name:
            return f"{name} is not bound and names no StorageClass", "kubectl describe pvc says what it waits for"
        known = self.classes.get(class_name)
        if known is None and "storageclasses" not in closed:
            return f"{name} is not bound, and its StorageClass {class_name} {absent}", "add the StorageClass"
        if known is not None and known.volume_binding_mode == ON_FIRST_CONSUMER:
            why = f"{name} is not bound: StorageClass {class_name} binds for the first pod ({ON_FIRST_CONSUMER})"
            return f"{why}, which muster does not do yet", "use a class with volumeBindingMode Immediate"
        return f"{name} is not bound yet (StorageClass {class_name})", "kubectl describe pvc says what it waits for"

    def _of_driver(self, name: str, volume: PersistentVolume, closed: Mapping[str, str]) -> tuple[str, str] | None:
        """Why volumes of this driver hold their pods."""
        spec, whose = volume.spec, f"the volume {volume.metadata.name} of {name}"
        if spec.replaced_plugin:
            return f"{whose} is of the in-tree plugin {spec.replaced_plugin}", "use a volume of its CSI driver"
        if spec.csi is None:
            return None
        driver = spec.csi.driver
        for kind in ("csinodes", "csidrivers"):
            if kind in closed:
                return closed[kind], _GRANT
        if self._limited[driver]:
            why = f"{whose} is of the CSI driver {driver}, of which nodes take a limited number of volumes"
            return f"{why}; muster does not count them yet", "use a driver without a limit"
        known = self.drivers.get(driver)
        if known is not None and known.spec.prevent_pod_scheduling_if_missing:
            why = f"{whose} is of the CSI driver {driver}, which keeps pods from nodes that lack it"
            return f"{why} (preventPodSchedulingIfMissing)", "use another driver"
        return None


_GRANT = "grant get, list and watch; muster doctor lists the missing rights"


def _says(found: Any) -> Any:
    """All that is asked of an object: its version is not."""
    if found is None:
        return None
    metadata = found.metadata
    marks = metadata.labels, metadata.annotations, metadata.deletion_timestamp is not None
    return marks, found.limited if isinstance(found, CSINode) else msgspec.json.encode(
        msgspec.structs.replace(found, metadata=type(metadata)())
    )


def _tie(claim: str, volume: PersistentVolume) -> Tie | None:
    """Which nodes reach a volume; None: all."""
    affinity = volume.spec.node_affinity.required if volume.spec.node_affinity is not None else None
    zones = tuple(
        (label, values)
        for label, value in sorted(volume.metadata.labels.items())
        if label in ZONE_LABELS and (values := _values_of(value))
    )
    if affinity is None and not zones:
        return None
    return Tie(
        claim, volume.metadata.name, Reach(msgspec.json.encode(affinity) if affinity is not None else b"", zones)
    )


def _values_of(label: str) -> tuple[str, ...]:
    """The set that a label of zone or region writes as `a__b`. With an empty part it is none, and is passed over."""
    parts = sorted({part.strip() for part in label.split("__")})
    return () if "" in parts else tuple(parts)


def reach_mask(reach: Reach, table: NodeTable) -> Mask:
    """The nodes from which a volume can be reached, as kube-scheduler's filters VolumeBinding and VolumeZone judge."""
    mask = np.ones(len(table), dtype=bool)
    if reach.affinity:
        mask &= table.selected(msgspec.json.decode(reach.affinity, type=NodeSelector), names=False)
    if not reach.zones:
        return mask
    # A node without any of the four labels is in no zone: nothing is asked of it.
    zoned = np.zeros(len(table), dtype=bool)
    for label in ZONE_LABELS:
        zoned |= table.column(label).present
    right = np.ones(len(table), dtype=bool)
    for label, values in reach.zones:
        own, today = table.column(label), table.column(ZONE_LABELS[label])
        right &= own.among(values) | (~own.present & today.among(values))
    return mask & (~zoned | right)


class Ties:
    """Which nodes are left to pods with such claims, for the nodes of one snapshot."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        # By what volumes ask of nodes: the mask, packed; nothing when all nodes are left.
        self._known: dict[frozenset[Reach], bytes] = {}

    def effect(self, ties: Iterable[Tie]) -> bytes:
        """A key that is equal for pods to which the same nodes are left; nothing when all are."""
        reaches = frozenset(one.reach for one in ties)
        if not reaches:
            return b""
        known = self._known.get(reaches)
        if known is None:
            mask = np.ones(len(self._table), dtype=bool)
            for reach in reaches:
                mask &= reach_mask(reach, self._table)
            known = self._known[reaches] = b"" if mask.all() else np.packbits(mask).tobytes()
        return known

    def mask(self, ties: Iterable[Tie]) -> Mask:
        """The nodes that are left."""
        effect = self.effect(ties)
        if not effect:
            return np.ones(len(self._table), dtype=bool)
        packed = np.frombuffer(effect, dtype=np.uint8)
        return np.unpackbits(packed, count=len(self._table)).astype(bool)


def _in_words(selector: NodeSelector) -> str:
    """The nodes of a selector, as short as can be."""
    terms = selector.node_selector_terms
    asked = [one for term in terms for one in term.match_expressions]
    if len(terms) != 1 or len(asked) != 1:
        return "nodes that its nodeAffinity selects"
    return _requirement(asked[0])


def _requirement(one: LabelRequirement) -> str:
    key = one.key.rpartition("/")[2]
    if one.operator == "In":
        shown = " or ".join(one.values[:3]) + (" or …" if len(one.values) > 3 else "")
        return f"{key} {shown}"
    return f"nodes with {one.key} {one.operator} {', '.join(one.values[:3])}".strip()
