"""Everything that an installation consists of, as documents in the order in which they are applied.

Pure and deterministic: the same wishes always give the same documents. The Helm chart is made from them too, with
templates as wishes.
"""

import hashlib
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from muster import __version__
from muster.api.crd import custom_resource_definitions
from muster.api.kinds import OUR_KINDS, QUEUE
from muster.api.queue import BASE_UNITS, UNLIMITED
from muster.api.writing import write_yaml
from muster.cli.policies import deletions, guards, protection
from muster.cli.roles import (
    ADMISSION,
    SERVICE_ACCOUNT,
    WEBHOOK_NAME,
    Document,
    access,
    deleting_access,
    operator_role,
    page_access,
    user_name,
    user_roles,
    webhook_access,
)
from muster.config import variable_of
from muster.snapshot.world import DEFAULT_SCHEDULERS

NAMESPACE = "muster-system"
IMAGE = f"muster:{__version__}"
REPLICAS = 2

NAME = "muster"
WEBHOOK_SERVICE = "muster-webhook"
# A Secret of this name is mounted when it exists: tls.crt and tls.key of the webhook.
WEBHOOK_SECRET = "muster-webhook"  # noqa: S105 (a name, not a secret)
WEBHOOK_PATH = "/validate"
WEBHOOK_PORT = 9443
HTTP_PORT = 8080
PAGE_SERVICE = "muster-page"
PAGE_PORT = 8420
# The label of namespaces that may read health and metrics.
METRICS_LABEL = {"muster.dev/metrics": "allowed"}
CONFIG_FOLDER = "/etc/muster"
CONFIG_FILE = "muster.yaml"
CERTIFICATE_FOLDER = "/var/run/muster/webhook"

# What can be left out.
PARTS = ("namespace", "crds", "rbac", "guard", "user-roles", "budget", "network-policy", "queue", "webhook")

_USER = 65532
_SELECTOR = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/component": "scheduler"}
_LABELS = {**_SELECTOR, "app.kubernetes.io/part-of": NAME, "app.kubernetes.io/version": __version__}
RESOURCES = {"requests": {"cpu": "500m", "memory": "512Mi"}, "limits": {"memory": "2Gi"}}


class Wishes(NamedTuple):
    """What an installation should be like. `config` is what the configuration file says; `queue` the default queue."""

    namespace: str = NAMESPACE
    image: str = IMAGE
    # In a chart these are templates.
    replicas: Any = REPLICAS
    resources: Any = RESOURCES
    config: Any = {}
    # Tells one configuration from another; made from `config` when empty.
    digest: str = ""
    queue: str = "default-queue"
    # Only where `config` is a template: a template that gives the scheduler names as a list.
    schedulers: str = ""
    without: frozenset[str] = frozenset()
    service_monitor: bool = False
    # Whether muster may delete pods, which queues that ignore disruption budgets need.
    ignore_budgets: bool = False
    cert_manager: bool = False
    # Whether the page is served: on or off.
    page: str = "off"


class Piece(NamedTuple):
    """One document, and the part that it belongs to."""

    part: str
    document: Document


def installation(wishes: Wishes) -> list[Piece]:
    """All documents, those first that others need. The webhook is last: until it is served nobody may need it."""
    return [piece for piece in _pieces(wishes) if piece.part not in wishes.without]


def _pieces(wishes: Wishes) -> Iterator[Piece]:
    if not is_shared(wishes.namespace):
        yield Piece("namespace", _labelled(_namespace(wishes)))
    for crd in custom_resource_definitions():
        # To the byte as `muster crds` prints them: whoever applies both changes nothing.
        yield Piece("crds", crd)
    yield Piece("", _labelled(_service_account(wishes)))
    for document in access(wishes.namespace):
        yield Piece("rbac", _labelled(document))
    us = user_name(wishes.namespace)
    for document in (*guards(us), *protection(us, _schedulers(wishes))):
        yield Piece("guard", _labelled(document))
    if wishes.ignore_budgets:
        for document in deleting_access(wishes.namespace) if "rbac" not in wishes.without else ():
            yield Piece("ignore-budgets", _labelled(document))
        for document in deletions(us, _schedulers(wishes)):
            yield Piece("guard", _labelled(document))
    for document in (*user_roles(), *operator_role(wishes.namespace)):
        yield Piece("user-roles", _labelled(document))
    yield Piece("", _labelled(_config_map(wishes)))
    yield Piece("", _labelled(_service(wishes, NAME, "http", HTTP_PORT)))
    if wishes.page != "off":
        for document in _page(wishes):
            yield Piece("page", _labelled(document))
    yield Piece("", _labelled(_deployment(wishes)))
    yield Piece("budget", _labelled(_budget(wishes)))
    yield Piece("network-policy", _labelled(_network_policy(wishes)))
    if wishes.service_monitor:
        yield Piece("", _labelled(_service_monitor(wishes)))
    yield Piece("queue", _labelled(_queue(wishes)))
    for document in _webhook(wishes):
        yield Piece("webhook", _labelled(document))


def _schedulers(wishes: Wishes) -> Collection[str] | str:
    """The scheduler names of the configuration; a template stays one."""
    if isinstance(wishes.config, str):
        return wishes.schedulers
    return wishes.config.get("schedulerNames") or DEFAULT_SCHEDULERS


def is_shared(namespace: str) -> bool:
    """Whether a namespace is there anyway, and others live in it: then it is not ours to describe."""
    return namespace == "default" or namespace.startswith("kube-")


def file_name(document: Document) -> str:
    """The file of a document in a folder of them."""
    return f"{document['kind'].lower()}-{document['metadata']['name']}.yaml"


def kustomization(names: list[str]) -> Document:
    """What makes a folder of documents one thing for kustomize."""
    return {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": names}


def _labelled(document: Document) -> Document:
    metadata = dict(document["metadata"])
    metadata["labels"] = {**_LABELS, **metadata.get("labels", {})}
    return {**document, "metadata": metadata}


def _named(wishes: Wishes, name: str = NAME) -> Document:
    return {"name": name, "namespace": wishes.namespace}


def _namespace(wishes: Wishes) -> Document:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": wishes.namespace, "labels": labels}}


def _service_account(wishes: Wishes) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": _named(wishes, SERVICE_ACCOUNT),
        "automountServiceAccountToken": False,
    }


def config_text(config: Any) -> str:
    """The configuration file; a template stays what it is."""
    return config if isinstance(config, str) else write_yaml([config]).removeprefix("---\n")


def _config_map(wishes: Wishes) -> Document:
    data = {CONFIG_FILE: config_text(wishes.config)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _named(wishes), "data": data}


def _service(wishes: Wishes, name: str, port: str, number: int) -> Document:
    listed = [{"name": port, "port": number, "targetPort": port, "protocol": "TCP"}]
    spec = {"type": "ClusterIP", "selector": _SELECTOR, "ports": listed}
    return {"apiVersion": "v1", "kind": "Service", "metadata": _named(wishes, name), "spec": spec}


def _deployment(wishes: Wishes) -> Document:
    # The process reads its configuration once: another one needs another pod.
    digest = wishes.digest or hashlib.sha256(config_text(wishes.config).encode()).hexdigest()[:16]
    template = {
        "metadata": {"labels": _LABELS, "annotations": {"muster.dev/config": digest}},
        "spec": _pod_spec(wishes),
    }
    spec = {"replicas": wishes.replicas, "selector": {"matchLabels": _SELECTOR}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": _named(wishes), "spec": spec}


def _pod_spec(wishes: Wishes) -> Document:
    volumes = [
        {"name": "config", "configMap": {"name": NAME}},
        {"name": "certificate", "secret": {"secretName": WEBHOOK_SECRET, "optional": True}},
        # For files of a moment; in memory, so that nothing of them reaches a disk.
        {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}},
    ]
    return {
        "serviceAccountName": SERVICE_ACCOUNT,
        "automountServiceAccountToken": True,
        "enableServiceLinks": False,
        "priorityClassName": "system-cluster-critical",
        "terminationGracePeriodSeconds": 30,
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _USER,
            "fsGroup": _USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "topologySpreadConstraints": [
            _spread(key) for key in ("kubernetes.io/hostname", "topology.kubernetes.io/zone")
        ],
        "containers": [_container(wishes)],
        "volumes": volumes,
    }


def _spread(key: str) -> Document:
    return {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": _SELECTOR},
    }


def _container(wishes: Wishes) -> Document:
    return {
        "name": NAME,
        "image": wishes.image,
        "imagePullPolicy": "IfNotPresent",
        # Kubernetes puts the variable's value in.
        "args": ["run", "--lease-namespace", "$(POD_NAMESPACE)", "--page", wishes.page],
        "env": [
            {"name": "MUSTER_CONFIG", "value": f"{CONFIG_FOLDER}/{CONFIG_FILE}"},
            {"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
            *(_certificate_files() if wishes.cert_manager else ()),
        ],
        "ports": [
            {"name": "http", "containerPort": HTTP_PORT, "protocol": "TCP"},
            {"name": "webhook", "containerPort": WEBHOOK_PORT, "protocol": "TCP"},
        ],
        "startupProbe": _probe("/livez", 2, 60),
        "livenessProbe": _probe("/livez", 10, 6),
        "readinessProbe": _probe("/readyz", 5, 2),
        "resources": wishes.resources,
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "config", "mountPath": CONFIG_FOLDER, "readOnly": True},
            {"name": "certificate", "mountPath": CERTIFICATE_FOLDER, "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 (a volume of this pod alone)
        ],
    }


def _certificate_files() -> list[Document]:
    """Where cert-manager's certificate is: it is waited for, and muster does not make one of its own meanwhile."""
    named = {"webhook.certificate": "tls.crt", "webhook.key": "tls.key"}
    return [{"name": variable_of(key), "value": f"{CERTIFICATE_FOLDER}/{file}"} for key, file in named.items()]


def _probe(path: str, period_s: int, failures: int) -> Document:
    asked = {"path": path, "port": "http", "scheme": "HTTP"}
    return {"httpGet": asked, "periodSeconds": period_s, "timeoutSeconds": 3, "failureThreshold": failures}


def _budget(wishes: Wishes) -> Document:
    # Not minAvailable: with one replica that would stop every drain for good.
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": _SELECTOR}}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": _named(wishes), "spec": spec}


def _network_policy(wishes: Wishes) -> Document:
    """Health and metrics for the namespace of muster and those that are labelled; probes come from the node, which
    Kubernetes always lets in. The webhook and the page are for all: where an API server calls from is not known, and
    the page asks its readers for a token.
    """
    scraping = [{"podSelector": {}}, {"namespaceSelector": {"matchLabels": METRICS_LABEL}}]
    ports = [[{"protocol": "TCP", "port": number}] for number in (HTTP_PORT, WEBHOOK_PORT, PAGE_PORT)]
    ingress = [{"from": scraping, "ports": ports[0]}, {"ports": ports[1] + ports[2]}]
    spec = {"podSelector": {"matchLabels": _SELECTOR}, "policyTypes": ["Ingress"], "ingress": ingress}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": _named(wishes),
        "spec": spec,
    }


def _service_monitor(wishes: Wishes) -> Document:
    spec = {"selector": {"matchLabels": _SELECTOR}, "endpoints": [{"port": "http", "path": "/metrics"}]}
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "ServiceMonitor",
        "metadata": _named(wishes),
        "spec": spec,
    }


def _queue(wishes: Wishes) -> Document:
    unlimited: Mapping[str, Any] = {"quota": UNLIMITED, "limit": UNLIMITED, "overQuotaWeight": 1}
    spec = {"resources": dict.fromkeys(BASE_UNITS, unlimited)}
    return {"apiVersion": QUEUE.api_version, "kind": QUEUE.name, "metadata": {"name": wishes.queue}, "spec": spec}


def _page(wishes: Wishes) -> Iterator[Document]:
    """The page's own Service, and the rights to know who looks. Each replica has a history of its own: whoever looks
    stays with one.
    """
    if "rbac" not in wishes.without:
        yield from page_access(wishes.namespace)
    port = {"name": "page", "port": PAGE_PORT, "targetPort": PAGE_PORT, "protocol": "TCP"}
    spec = {"type": "ClusterIP", "selector": _SELECTOR, "ports": [port], "sessionAffinity": "ClientIP"}
    yield {"apiVersion": "v1", "kind": "Service", "metadata": _named(wishes, PAGE_SERVICE), "spec": spec}


def _webhook(wishes: Wishes) -> Iterator[Document]:
    if wishes.cert_manager:
        yield from _certificate(wishes)
    elif "rbac" not in wishes.without:
        yield from webhook_access(wishes.namespace)
    yield _service(wishes, WEBHOOK_SERVICE, "webhook", 443)
    injected = {"cert-manager.io/inject-ca-from": f"{wishes.namespace}/{WEBHOOK_SERVICE}"}
    metadata = {"name": WEBHOOK_NAME, **({"annotations": injected} if wishes.cert_manager else {})}
    service = {**_named(wishes, WEBHOOK_SERVICE), "path": WEBHOOK_PATH, "port": 443}
    us = user_name(wishes.namespace)
    webhook = {
        "name": "objects.muster.dev",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"service": service},
        "rules": _webhook_rules(),
        "matchConditions": [
            # What muster writes it has judged itself: it never waits for its own webhook.
            {"name": "not-by-muster", "expression": f"request.userInfo.username != '{us}'"},
            # Whatever is being deleted can always go, webhook or not.
            {"name": "not-leaving", "expression": "object == null || !has(object.metadata.deletionTimestamp)"},
        ],
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "sideEffects": "None",
        "timeoutSeconds": 5,
    }
    yield {
        "apiVersion": f"{ADMISSION}/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": metadata,
        "webhooks": [webhook],
    }


def _webhook_rules() -> list[Document]:
    """Our kinds and nothing else. Only a Queue can't be deleted while others hang on it."""
    return [
        {
            "apiGroups": [kind.group],
            "apiVersions": [kind.api_version.rpartition("/")[2]],
            "resources": [kind.plural],
            "operations": ["CREATE", "UPDATE", *(["DELETE"] if kind is QUEUE else [])],
            "scope": "Namespaced" if kind.namespaced else "Cluster",
        }
        for kind in OUR_KINDS
    ]


def _certificate(wishes: Wishes) -> Iterator[Document]:
    """cert-manager's own kinds: a self-signed certificate in a Secret, renewed by it."""
    metadata = _named(wishes, WEBHOOK_SERVICE)
    yield {"apiVersion": "cert-manager.io/v1", "kind": "Issuer", "metadata": metadata, "spec": {"selfSigned": {}}}
    host = f"{WEBHOOK_SERVICE}.{wishes.namespace}.svc"
    spec = {
        "secretName": WEBHOOK_SECRET,
        "issuerRef": {"kind": "Issuer", "name": WEBHOOK_SERVICE},
        "dnsNames": [host, f"{host}.cluster.local"],
        "privateKey": {"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Always"},
    }
    yield {"apiVersion": "cert-manager.io/v1", "kind": "Certificate", "metadata": metadata, "spec": spec}
