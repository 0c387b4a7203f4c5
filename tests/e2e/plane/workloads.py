"""Workloads of any kind on a control plane, from the fixtures of the grouping: owners first, with the uids they get."""

from pathlib import Path
from typing import Any

from e2e.plane.control_plane import ControlPlane
from muster.api import documents

Document = dict[str, Any]
FIXTURES = Path(__file__).parents[2] / "grouping"
ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def fixture(case: str) -> list[Document]:
    """The objects of one step of a case; what is expected of it is none of them."""
    files = sorted(path for path in (FIXTURES / case).glob("*.yaml") if path.name != "expected.yaml")
    return [one.value for path in files for one in documents.read(path.read_bytes())]


def expected(case: str) -> Document:
    """What is expected of a step of a case."""
    (read,) = documents.read((FIXTURES / case / "expected.yaml").read_bytes())
    found: Document = read.value
    return found


def define(plane: ControlPlane, group: str, kind: str, plural: str) -> None:
    """A kind that takes anything, and that muster may read as it says it must be allowed to."""
    version = {"name": "v1", "served": True, "storage": True}
    version["schema"] = {"openAPIV3Schema": {"type": "object", "properties": {"spec": ANYTHING, "status": ANYTHING}}}
    name, approved = f"{plural}.{group}", {"api-approved.kubernetes.io": "unapproved, for a test"}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name, "annotations": approved if group.endswith("k8s.io") else {}},
        "spec": {
            "group": group,
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "scope": "Namespaced",
            "versions": [version],
        },
    }
    _created(plane, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    plane.kubectl("wait", "--for=condition=Established", f"crd/{name}", "--timeout=30s")


def allow(plane: ControlPlane, group: str, *plurals: str) -> None:
    """What an administrator writes for a kind of their own."""
    rule = {"apiGroups": [group], "resources": list(plurals), "verbs": ["get", "list", "watch"]}
    metadata = {"name": group, "labels": {"muster.dev/aggregate-to-grouper": "true"}}
    _created(plane, "/apis/rbac.authorization.k8s.io/v1/clusterroles", {"metadata": metadata, "rules": [rule]})


class Workload:
    """The objects of a case on a control plane. The uids of the fixtures become those that the API server gives."""

    def __init__(self, plane: ControlPlane, plurals: dict[str, str]) -> None:
        self._plane = plane
        self._plurals = {"Pod": "pods", "StatefulSet": "statefulsets", **plurals}
        self.uids: dict[str, str] = {}

    def put(self, objects: list[Document]) -> None:
        """Owners before what they own."""
        waiting = list(objects)
        while waiting:
            ours = {one["metadata"].get("uid") for one in waiting}
            ready = [one for one in waiting if not ours & {owner["uid"] for owner in _owners(one)}]
            assert ready, "owners in a circle"
            for one in ready:
                self._put(one)
            waiting = [one for one in waiting if one not in ready]

    def _put(self, document: Document) -> None:
        owners = [{**owner, "uid": self.uids.get(owner["uid"], owner["uid"])} for owner in _owners(document)]
        metadata = {**document["metadata"], "ownerReferences": owners}
        born = metadata.pop("uid", "")
        made = _created(self._plane, self._folder(document), _accepted({**document, "metadata": metadata}))
        self.uids[born] = made["metadata"]["uid"]

    def _folder(self, document: Document) -> str:
        version = document["apiVersion"]
        if document["kind"] == "ResourceInterface":
            return f"/apis/{version}/resourceinterfaces"
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        return f"{root}/namespaces/default/{self._plurals[document['kind']]}"


def _owners(document: Document) -> list[Document]:
    found: list[Document] = document["metadata"].get("ownerReferences", [])
    return found


def _accepted(document: Document) -> Document:
    """As an API server takes it: a pod that goes at once, a StatefulSet with a template."""
    spec = dict(document["spec"])
    if document["kind"] == "Pod":
        spec["terminationGracePeriodSeconds"] = 0
    if document["kind"] == "StatefulSet":
        labels = {"of": document["metadata"]["name"]}
        pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "none"}]}}
        spec = {**spec, "selector": {"matchLabels": labels}, "template": pod}
    return {**document, "spec": spec}


def _created(plane: ControlPlane, path: str, document: Document) -> Document:
    answer = plane.request("POST", path, document)
    assert answer.status == 201, f"{path}: {answer.body}"
    found: Document = answer.body
    return found
