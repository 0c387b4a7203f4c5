"""A cluster that is played: documents in, an API server over them that only reads, and a kubeconfig."""

import json
from typing import Any
from urllib.parse import unquote

from muster.kube.client import Client, Limits
from muster.kube.transport import Answer, Request, Unanswered
from unit.kube.playing import HastyClock, Played, answer, refusal, status

KUBECONFIG = {
    "current-context": "here",
    "clusters": [{"name": "c", "cluster": {"server": "http://played.example"}}],
    "users": [{"name": "u", "user": {}}],
    "contexts": [
        {"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "team"}},
        {"name": "there", "context": {"cluster": "c", "user": "u"}},
    ],
}
# apiVersion, kind, plural, namespaced
KINDS = [
    ("v1", "Node", "nodes", False),
    ("v1", "Pod", "pods", True),
    ("v1", "Namespace", "namespaces", False),
    ("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", False),
    ("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", True),
    ("scheduling.run.ai/v2alpha2", "PodGroup", "podgroups", True),
    ("scheduling.run.ai/v2", "Queue", "queues", False),
    ("kai.scheduler/v1alpha1", "Topology", "topologies", False),
    ("kai.scheduler/v1", "ResourceInterface", "resourceinterfaces", False),
    ("batch/v1", "Job", "jobs", True),
    ("apps/v1", "Deployment", "deployments", True),
    ("apps/v1", "ReplicaSet", "replicasets", True),
    ("example.com/v2", "Widget", "widgets", True),
    ("coordination.k8s.io/v1", "Lease", "leases", True),
    ("discovery.k8s.io/v1", "EndpointSlice", "endpointslices", True),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions", False),
    ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", False),
]


class Cluster:
    """Answers lists, gets, discovery and access reviews. `forbidden` has plurals or `verb plural`."""

    def __init__(self, *documents: dict[str, Any], missing=(), forbidden=(), down: str = "") -> None:
        self.documents = list(documents)
        self.kinds = [kind for kind in KINDS if kind[2] not in missing]
        self.forbidden = set(forbidden)
        self.down = down
        self.who = 200
        # What the webhook says when the server asks it; None: nothing is wrong.
        self.webhook: Answer | None = None
        # What the policy says to a pod with a forged mark; None: there is no policy.
        self.guard: Answer | None = answer(status(422, "Invalid", "only muster may set muster.dev/admitted"), 422)
        self.transport = Played(self.reply)
        self.reviews: list[dict[str, Any]] = []

    @property
    def asked(self) -> list[str]:
        return [request.path for request in self.transport.requests]

    def client(self, connection: Any, **_: Any) -> Any:
        limits = Limits(attempts=2)
        return Client(connection, transport=self.transport, clock=HastyClock(), limits=limits, jitter=lambda: 1.0)

    async def reply(self, request: Request) -> Answer:
        if self.down:
            raise Unanswered(self.down, "is it running?", sent=False)
        if self.who != 200:
            return refusal(self.who, "Unauthorized")
        if request.method == "POST":
            return self._review(request)
        assert request.method == "GET", "nothing is ever written"
        if request.path == "/version":
            return answer({"major": "1", "minor": "36", "gitVersion": "v1.36.4"})
        for kind in self.kinds:
            root = ("/apis/" if "/" in kind[0] else "/api/") + kind[0]
            group = root.rpartition("/")[0]
            if request.path == root:
                return answer({"resources": [_told(one) for one in self.kinds if one[0] == kind[0]]})
            if request.path == group and "/" in kind[0]:
                version = {"version": kind[0].partition("/")[2]}
                return answer({"preferredVersion": version, "versions": [version]})
            if request.path.startswith(root + "/"):
                found = self._find(kind, request.path[len(root) + 1 :].split("/"), request)
                if found is not None:
                    return found
        return refusal(404, "NotFound")

    def _find(self, kind: Any, steps: list[str], request: Request) -> Answer | None:
        namespace = ""
        if steps[0] == "namespaces" and kind[3] and len(steps) > 2:
            namespace, steps = steps[1], steps[2:]
        if steps[0] != kind[2]:
            return None
        verb = "get" if len(steps) > 1 else "list"
        if kind[2] in self.forbidden or f"{verb} {kind[2]}" in self.forbidden:
            return refusal(403, "Forbidden")
        of_kind = [
            one
            for one in self.documents
            if (one["apiVersion"], one["kind"]) == kind[:2]
            and (not namespace or one["metadata"].get("namespace") == namespace)
        ]
        if verb == "list":
            wanted = dict(one.split("=") for one in request.params.get("labelSelector", "").split(",") if one)
            of_kind = [one for one in of_kind if wanted.items() <= one["metadata"].get("labels", {}).items()]
            # As the API server does it: the objects of a list do not say what they are.
            items = [{key: one[key] for key in one if key not in ("apiVersion", "kind")} for one in of_kind]
            return answer({"kind": f"{kind[1]}List", "metadata": {}, "items": items})
        named = [one for one in of_kind if one["metadata"]["name"] == unquote(steps[1])]
        return answer(named[0]) if named else refusal(404, "NotFound")

    def _review(self, request: Request) -> Answer:
        body = json.loads(request.body or b"{}")
        if body["kind"] == "PodGroup":
            assert request.params["dryRun"] == "All", "nothing is ever written"
            refused = {"podgroups", "create podgroups"} & self.forbidden
            return refusal(403, "Forbidden") if refused else self.webhook or answer(body, 201)
        if body["kind"] == "Pod":
            assert request.params["dryRun"] == "All", "nothing is ever written"
            refused = {"pods", "create pods"} & self.forbidden
            return refusal(403, "Forbidden") if refused else self.guard or answer(body, 201)
        if body["kind"] == "SelfSubjectReview":
            return answer({"status": {"userInfo": {"username": "alice"}}})
        self.reviews.append(body["spec"])
        wanted = body["spec"]["resourceAttributes"]
        resource = "/".join(filter(None, (wanted["resource"], wanted.get("subresource"))))
        refused = resource in self.forbidden or f"{wanted['verb']} {resource}" in self.forbidden
        return answer({"status": {"allowed": not refused}}, 201)


def _told(kind: Any) -> dict[str, Any]:
    return {"name": kind[2], "kind": kind[1], "namespaced": kind[3], "verbs": ["get", "list"]}


def thing(api_version: str, kind: str, name: str, namespace: str = "", **more: Any) -> dict[str, Any]:
    """An object; `owner` is the one above it, `labels` and `annotations` go into the metadata."""
    metadata: dict[str, Any] = {"name": name, "uid": f"uid-{name}", "managedFields": [{"manager": "somebody"}]}
    if namespace:
        metadata["namespace"] = namespace
    owner = more.pop("owner", None)
    if owner:
        who = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "controller": True}
        metadata["ownerReferences"] = [{**who, "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}]
    for field in ("labels", "annotations"):
        if field in more:
            metadata[field] = more.pop(field)
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **more}


def node(name: str = "n1", **labels: str) -> dict[str, Any]:
    status = {"allocatable": {"cpu": "4", "pods": "10"}, "conditions": [{"type": "Ready", "status": "True"}]}
    return thing("v1", "Node", name, labels=labels, status=status)


def pod(name: str, namespace: str = "team", *, gang: str = "", owner: Any = None, on: str = "", **spec: Any) -> Any:
    containers = [{"name": "main", "env": [{"name": "T", "value": "hush"}], "resources": {"requests": {"cpu": "1"}}}]
    where = {"nodeName": on} if on else {}
    annotations = {"pod-group-name": gang} if gang else {}
    return thing(
        *("v1", "Pod", name, namespace),
        owner=owner,
        annotations=annotations,
        spec={"schedulerName": "kai-scheduler", "containers": containers, **where, **spec},
        status={"phase": "Running" if on else "Pending"},
    )


def group(name: str = "g", namespace: str = "team", **spec: Any) -> dict[str, Any]:
    return thing("scheduling.run.ai/v2alpha2", "PodGroup", name, namespace, spec=spec or {"minMember": 2})
