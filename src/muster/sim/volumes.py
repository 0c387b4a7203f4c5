"""Judges binds by the claims of a pod: whether they are there, bound, and reachable from its node.

A program of its own, on the documents of the store as they are.
"""

from collections.abc import Mapping

from muster.embedded.store import Key as StoreKey
from muster.embedded.store import Store
from muster.sim.facts import Document, Node, meets_labels

_CLAIMS, _VOLUMES, _NODES = "persistentvolumeclaims", "persistentvolumes", "csinodes.storage.k8s.io"
_ZONES = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
_BETA = {
    "failure-domain.beta.kubernetes.io/zone": _ZONES[0],
    "failure-domain.beta.kubernetes.io/region": _ZONES[1],
}


def forbids(store: Store, namespace: str, spec: Document, node: Node) -> str:
    """Why the claims of a pod keep it from a node, or from all nodes; empty: they don't."""
    for volume in spec.get("volumes") or ():
        if "ephemeral" in volume:
            return "it has an ephemeral volume, and muster has to hold it"
        source = volume.get("persistentVolumeClaim")
        said = _of_claim(store, namespace, source["claimName"], node) if source else ""
        if said:
            return f"claim {source['claimName']}: {said}"
    return ""


def _of_claim(store: Store, namespace: str, name: str, node: Node) -> str:
    claim = store.get(StoreKey(_CLAIMS, namespace, name))
    if claim is None:
        return "it is not there"
    metadata, spec = claim["metadata"], claim.get("spec") or {}
    bound = spec.get("volumeName") and "pv.kubernetes.io/bind-completed" in (metadata.get("annotations") or {})
    if not bound or (claim.get("status") or {}).get("phase") == "Lost":
        return "it is not bound, or lost"
    if metadata.get("deletionTimestamp"):
        return "it is being deleted"
    if "ReadWriteOncePod" in (spec.get("accessModes") or ()):
        return "it is for one pod alone"
    volume = store.get(StoreKey(_VOLUMES, "", spec["volumeName"]))
    if volume is None:
        return "its volume is not there"
    return _limited(store, volume) or _elsewhere(volume, node)


def _limited(store: Store, volume: Document) -> str:
    driver = ((volume.get("spec") or {}).get("csi") or {}).get("driver")
    for one in store.list(_NODES).items:
        for known in one["spec"].get("drivers") or ():
            if known["name"] == driver and "count" in (known.get("allocatable") or {}):
                return "nodes take a limited number of volumes of its driver"
    return ""


def _elsewhere(volume: Document, node: Node) -> str:
    required = ((volume.get("spec") or {}).get("nodeAffinity") or {}).get("required")
    if required and not any(meets_labels(node, term) for term in required.get("nodeSelectorTerms") or ()):
        return "the node affinity of its volume does not hold"
    if not any(label in node.labels for label in (*_ZONES, *_BETA)):
        return ""
    labels: Mapping[str, str] = volume["metadata"].get("labels") or {}
    for label in (*_ZONES, *_BETA):
        values = [part.strip() for part in labels.get(label, "").split("__")]
        if "" not in values and node.labels.get(label, node.labels.get(_BETA.get(label, ""))) not in values:
            return f"the node is not where {label} of its volume is"
    return ""
