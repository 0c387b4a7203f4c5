"""What an empty object of a built-in kind looks like in the real server: fields that are always there.

Who creates an object does not own the mere presence of these; he owns what differs from them.
"""

from typing import TYPE_CHECKING, Any

from muster.embedded.objects import Document

if TYPE_CHECKING:
    from muster.embedded.schema import Schema

_TEMPLATE: Document = {"metadata": {}, "spec": {"containers": None}}
_EMPTY: dict[tuple[str, str], Document] = {
    ("v1", "Pod"): {"spec": {"containers": None}, "status": {}},
    ("v1", "Node"): {"spec": {}, "status": {}},
    ("v1", "Namespace"): {"spec": {}, "status": {}},
    ("v1", "PersistentVolume"): {"spec": {}, "status": {}},
    ("v1", "PersistentVolumeClaim"): {"spec": {"resources": {}}, "status": {}},
    ("storage.k8s.io/v1", "StorageClass"): {"provisioner": ""},
    ("storage.k8s.io/v1", "CSINode"): {"spec": {"drivers": None}},
    ("storage.k8s.io/v1", "CSIDriver"): {"spec": {}},
    ("resource.k8s.io/v1", "DeviceClass"): {"spec": {}},
    ("v1", "Service"): {"spec": {}, "status": {"loadBalancer": {}}},
    ("v1", "Event"): {
        "involvedObject": {},
        "source": {},
        "firstTimestamp": None,
        "lastTimestamp": None,
        "eventTime": None,
        "reportingComponent": "",
        "reportingInstance": "",
    },
    ("events.k8s.io/v1", "Event"): {
        "eventTime": None,
        "regarding": {},
        "deprecatedSource": {},
        "deprecatedFirstTimestamp": None,
        "deprecatedLastTimestamp": None,
    },
    ("coordination.k8s.io/v1", "Lease"): {"spec": {}},
    ("batch/v1", "Job"): {"spec": {"template": _TEMPLATE}, "status": {}},
    ("apps/v1", "StatefulSet"): {
        "spec": {"selector": None, "template": _TEMPLATE, "serviceName": "", "updateStrategy": {}},
        "status": {"replicas": 0, "availableReplicas": 0},
    },
    ("apps/v1", "Deployment"): {"spec": {"selector": None, "template": _TEMPLATE, "strategy": {}}, "status": {}},
    ("apps/v1", "ReplicaSet"): {"spec": {"selector": None, "template": _TEMPLATE}, "status": {"replicas": 0}},
    ("scheduling.k8s.io/v1", "PriorityClass"): {"value": 0},
    ("policy/v1", "PodDisruptionBudget"): {
        "spec": {},
        "status": {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0},
    },
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"): {
        "spec": {"group": "", "names": {"plural": "", "kind": ""}, "scope": "", "versions": None},
        "status": {},
    },
    ("rbac.authorization.k8s.io/v1", "Role"): {"rules": None},
    ("rbac.authorization.k8s.io/v1", "ClusterRole"): {"rules": None},
    ("rbac.authorization.k8s.io/v1", "RoleBinding"): {"roleRef": {"apiGroup": "", "kind": "", "name": ""}},
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"): {"roleRef": {"apiGroup": "", "kind": "", "name": ""}},
}


def zero(document: Document, schema: "Schema") -> Document:
    """The empty object of the kind of a document; a custom one has nothing but its kind."""
    kind: dict[str, Any] = {name: document[name] for name in ("apiVersion", "kind") if name in document}
    if schema.custom:
        return kind
    return {**kind, "metadata": {}, **_EMPTY.get((document.get("apiVersion", ""), document.get("kind", "")), {})}
