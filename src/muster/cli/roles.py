"""What muster may do on a cluster, as RBAC objects: the rights of `kube.rights`, and to read the catalog's kinds."""

from collections.abc import Iterable
from typing import Any

from muster.api.kinds import OUR_KINDS
from muster.grouping.built_in import built_in_interfaces
from muster.grouping.trouble import AGGREGATE_LABEL
from muster.kube.rights import DELETING, OPERATOR, PAGE, READ, RIGHTS, WEBHOOK, WORKLOADS, Right

Document = dict[str, Any]

SERVICE_ACCOUNT = "muster"
WEBHOOK_NAME = "muster"

ADMISSION = "admissionregistration.k8s.io"
_RBAC = "rbac.authorization.k8s.io"
# Owners on the way from a pod to a kind of the catalog that are in no catalog: whoever may not be read ends the chain.
_BETWEEN = (("grove.io", "podcliques"), ("grove.io", "podcliquescalinggroups"))


def access(namespace: str) -> list[Document]:
    """The rights that the scheduler needs in any installation, and their bindings."""
    return [
        _cluster_role(
            "muster-scheduler", _rules(right for right in RIGHTS if not right.ours and right.part != WEBHOOK)
        ),
        _cluster_binding("muster-scheduler", namespace),
        _role(namespace, _rules(right for right in RIGHTS if right.ours)),
        _binding(namespace),
        _aggregated("muster-grouper"),
        _cluster_binding("muster-grouper", namespace),
        _cluster_role("muster-workloads", workload_rules(), {AGGREGATE_LABEL: "true"}),
    ]


def webhook_access(namespace: str) -> list[Document]:
    """The right to put the authority of its own certificate into its own webhook configuration, and nowhere else."""
    rules = _rules(right for right in RIGHTS if right.part == WEBHOOK)
    return [_cluster_role("muster-webhook", rules), _cluster_binding("muster-webhook", namespace)]


def page_access(namespace: str) -> list[Document]:
    """The right to ask who somebody is, and what they may do: for those who look at the page."""
    return [_cluster_role("muster-page", _rules(PAGE)), _cluster_binding("muster-page", namespace)]


def deleting_access(namespace: str) -> list[Document]:
    """The right to delete pods, for queues that get back what they are owed whatever disruption budgets say."""
    return [
        _cluster_role("muster-ignore-budgets", _rules([DELETING])),
        _cluster_binding("muster-ignore-budgets", namespace),
    ]


def user_name(namespace: str) -> str:
    """Who muster is to the API server."""
    return f"system:serviceaccount:{namespace}:{SERVICE_ACCOUNT}"


def user_roles() -> list[Document]:
    """PodGroups for whoever has Kubernetes' own roles edit and admin in a namespace, our kinds to read with view.

    What is of the whole cluster (Queues, Topologies, ResourceInterfaces) is for its administrators to write. What is
    guarded is in neither role.
    """
    write = ("create", "delete", "deletecollection", "patch", "update")
    reading = _rules(Right(kind.group, kind.plural, READ, "", "") for kind in OUR_KINDS if not kind.guarded)
    tenants = (kind for kind in OUR_KINDS if kind.namespaced and not kind.guarded)
    writing = _rules(Right(kind.group, kind.plural, write, "", "") for kind in tenants)
    to = {word: f"{_RBAC}/aggregate-to-{word}" for word in ("view", "edit", "admin")}
    return [
        _cluster_role("muster-view", reading, {to["view"]: "true", to["edit"]: "true", to["admin"]: "true"}),
        _cluster_role("muster-edit", writing, {to["edit"]: "true", to["admin"]: "true"}),
    ]


def operator_role(namespace: str) -> list[Document]:
    """The right to ask for evictions (`muster evict`), in muster's namespace. It is bound to no one: administrators
    have it already, and give it to those who may make room. Evicting takes rights of its own.
    """
    verbs = ("create", "delete", "get", "list", "watch")
    rules = _rules(Right(kind.group, kind.plural, verbs, "", "") for kind in OUR_KINDS if kind.guarded)
    return [_role(namespace, rules, OPERATOR)]


def workload_rules() -> list[Document]:
    """Reading every kind that the catalog knows, what it refers to, and what stands between them and pods."""
    wanted = {(right.group, right.resource) for right in WORKLOADS} | set(_BETWEEN)
    for interface in built_in_interfaces():
        for kind in (interface.target, *(reference.kind for reference in interface.references.values())):
            wanted.add((kind.group, plural_of(kind.kind)))
    known = {(right.group, right.resource) for right in RIGHTS}
    return _rules(Right(group, resource, READ, "", "") for group, resource in sorted(wanted - known))


def plural_of(kind: str) -> str:
    """The resource of a kind, by the rule of English that Kubernetes itself goes by where nobody says another."""
    word = kind.lower()
    if word.endswith("s"):
        return f"{word}es"
    return f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"


def _rules(rights: Iterable[Right]) -> list[Document]:
    """One rule for all resources of a group that have the same verbs, in a fixed order.

    A right on one object is by its name. Only what is created has no name yet by which it could be told.
    """
    verbs: dict[tuple[str, str, str], set[str]] = {}
    for right in rights:
        for verb in right.verbs:
            name = "" if verb == "create" else right.name
            verbs.setdefault((right.group, name, right.resource), set()).add(verb)
    alike: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for (group, name, resource), all_of_it in sorted(verbs.items()):
        alike.setdefault((group, name, tuple(sorted(all_of_it))), []).append(resource)
    return [
        {
            "apiGroups": [group],
            "resources": resources,
            **({"resourceNames": [name]} if name else {}),
            "verbs": list(allowed),
        }
        for (group, name, allowed), resources in alike.items()
    ]


def _cluster_role(name: str, rules: list[Document], labels: Document | None = None) -> Document:
    metadata = {"name": name, **({"labels": labels} if labels else {})}
    return {"apiVersion": f"{_RBAC}/v1", "kind": "ClusterRole", "metadata": metadata, "rules": rules}


def _aggregated(name: str) -> Document:
    """A role whose rules are those of all roles with the label. The rules are the cluster's to fill in."""
    selectors = [{"matchLabels": {AGGREGATE_LABEL: "true"}}]
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "aggregationRule": {"clusterRoleSelectors": selectors},
    }


def _role(namespace: str, rules: list[Document], name: str = SERVICE_ACCOUNT) -> Document:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": f"{_RBAC}/v1", "kind": "Role", "metadata": metadata, "rules": rules}


def _cluster_binding(role: str, namespace: str) -> Document:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": role},
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [_subject(namespace)],
    }


def _binding(namespace: str) -> Document:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": SERVICE_ACCOUNT, "namespace": namespace},
        "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": SERVICE_ACCOUNT},
        "subjects": [_subject(namespace)],
    }


def _subject(namespace: str) -> Document:
    return {"kind": "ServiceAccount", "name": SERVICE_ACCOUNT, "namespace": namespace}
