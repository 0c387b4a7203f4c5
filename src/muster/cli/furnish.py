"""What an embedded cluster has before anybody comes: our definitions, the default queue, priority classes, and nodes.

What is there already stays as it is, except for the definitions: they are those of the muster that runs.
"""

from typing import Any

from muster.api.cluster import BUILT_IN_PRIORITIES
from muster.cli.installation import Wishes, installation
from muster.embedded.mirror import Caller
from muster.embedded.server import Server
from muster.errors import UsageError
from muster.kube.client import APPLY
from muster.kube.rights import LEASE_NAME

Document = dict[str, Any]

# The labels of the examples.
ZONE, BLOCK, RACK = (f"topology.example.com/{level}" for level in ("zone", "block", "rack"))
_PER_RACK, _PER_BLOCK, _PER_ZONE = 2, 4, 8
_AMOUNTS = {"cpu": "64", "memory": "512Gi", "nvidia.com/gpu": "8", "pods": "110"}
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_QUEUES, _NAMESPACES, _NODES = "/apis/scheduling.run.ai/v2/queues", "/api/v1/namespaces", "/api/v1/nodes"
_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


class Furnisher:
    """Puts things into a server that nobody else uses yet."""

    def __init__(self, server: Server) -> None:
        self._send = Caller(server, "muster").send

    def is_new(self) -> bool:
        """Whether nothing was ever installed here: a cluster that is kept has what its users left of it."""
        return not self._send("GET", _DEFINITIONS)[1]["items"]

    def install(self, namespace: str, queue: str) -> None:
        """What `muster manifests` would install, as far as it means anything here: nobody runs a Deployment."""
        pieces = installation(Wishes(namespace=namespace, queue=queue))
        for one in (piece.document for piece in pieces if piece.part == "crds"):
            self._apply(_DEFINITIONS, one)
        self._create(_NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        for one in (piece.document for piece in pieces if piece.part == "queue"):
            self._create(_QUEUES, one)
        for name, value in BUILT_IN_PRIORITIES.items():
            self._create(_CLASSES, _priority_class(name, value))
        # Whoever held the Lease spoke to a server that is gone: nobody has to wait until it lapses.
        self._send("DELETE", f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{LEASE_NAME}")

    def add_nodes(self, count: int) -> int:
        """So many nodes, unless there are some: how many there were."""
        before = len(self._send("GET", _NODES)[1]["items"])
        for number in range(0 if before else count):
            self._create(_NODES, _node(number))
        return before

    def _apply(self, folder: str, document: Document) -> None:
        path, query = f"{folder}/{document['metadata']['name']}", {"fieldManager": "muster", "force": "true"}
        _check(document, *self._send("PATCH", path, document, APPLY, query))

    def _create(self, folder: str, document: Document) -> None:
        code, said = self._send("POST", folder, document)
        if said.get("reason") != "AlreadyExists":
            _check(document, code, said)


def _check(document: Document, code: int, said: Document) -> None:
    """A refusal is about a name that somebody chose: of the default queue, or of the namespace."""
    if code >= 400:
        name = f"{document['kind']} {document['metadata']['name']}"
        raise UsageError(f"there can be no {name}: {said.get('message', code)}", "give it another name")


def _priority_class(name: str, value: int) -> Document:
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}


def _node(number: int) -> Document:
    """Node 0 is `node-1` in rack-1 of block-1 of zone-1: people count from one."""
    name = f"node-{number + 1}"
    labels = {"kubernetes.io/hostname": name}
    for label, size in ((ZONE, _PER_ZONE), (BLOCK, _PER_BLOCK), (RACK, _PER_RACK)):
        labels[label] = f"{label.rpartition('/')[2]}-{number // size + 1}"
    status = {"capacity": _AMOUNTS, "allocatable": _AMOUNTS}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}
