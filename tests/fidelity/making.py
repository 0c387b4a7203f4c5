"""Short forms for stories: documents and requests that many of them need."""

from typing import Any

from fidelity.play import Step

Document = dict[str, Any]
PODS = "/api/v1/namespaces/{ns}/pods"
MAPS = "/api/v1/namespaces/{ns}/configmaps"
NODES = "/api/v1/nodes"
JOBS = "/apis/batch/v1/namespaces/{ns}/jobs"
SETS = "/apis/apps/v1/namespaces/{ns}/statefulsets"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases"
EVENTS = "/api/v1/namespaces/{ns}/events"
BUDGETS = "/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
JSON_PATCH, MERGE = "application/json-patch+json", "application/merge-patch+json"
STRATEGIC, APPLY = "application/strategic-merge-patch+json", "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json"
PARTIALS = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"


def get(path: str, **more: Any) -> Step:
    """GET."""
    return Step("GET", path, **more)


def post(path: str, body: Any, **more: Any) -> Step:
    """POST."""
    return Step("POST", path, body, **more)


def put(path: str, body: Any, **more: Any) -> Step:
    """PUT."""
    return Step("PUT", path, body, **more)


def patch(path: str, body: Any, kind: str = MERGE, **more: Any) -> Step:
    """PATCH; a merge patch unless another kind is given."""
    return Step("PATCH", path, body, content_type=kind, **more)


def delete(path: str, body: Any = None, **more: Any) -> Step:
    """DELETE."""
    return Step("DELETE", path, body, **more)


def apply(path: str, body: Any, manager: str = "me", **more: Any) -> Step:
    """Server-side apply."""
    joint = "&" if "?" in path else "?"
    return Step("PATCH", f"{path}{joint}fieldManager={manager}", body, content_type=APPLY, **more)


def named(name: str, **metadata: Any) -> Document:
    """A document with a name and nothing else."""
    return {"metadata": {"name": name, **metadata}}


def pod(name: str, spec: Document | None = None, **metadata: Any) -> Document:
    """A small pod."""
    container = {"name": "c", "image": "i:1"}
    return {**named(name, **metadata), "spec": {"containers": [container], **(spec or {})}}


def template(labels: Document, **spec: Any) -> Document:
    """The template of a workload."""
    return {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i:1"}], **spec}}


def bind(name: str, node: str, **metadata: Any) -> Step:
    """A binding."""
    body = {"apiVersion": "v1", "kind": "Binding", **named(name, **metadata), "target": {"kind": "Node", "name": node}}
    return post(f"{PODS}/{name}/binding", body)


def evict(name: str, **more: Any) -> Step:
    """An eviction."""
    body = {"apiVersion": "policy/v1", "kind": "Eviction", **named(name), **more}
    return post(f"{PODS}/{name}/eviction", body)


def quietly(*steps: Step) -> tuple[Step, ...]:
    """Steps that only prepare."""
    return tuple(step._replace(compare=False) for step in steps)
