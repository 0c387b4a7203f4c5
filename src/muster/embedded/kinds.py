"""Which resources there are: the built-in ones as a table, and those that CustomResourceDefinitions add."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

import msgspec

from muster.embedded.fields import structural
from muster.embedded.schema import Check, Schema

Document = dict[str, Any]

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
CUSTOM_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
STATUS = ("get", "patch", "update")


@dataclass(frozen=True)
class Subresource:
    """A path below an object: what one may do there, and the kind that is sent and comes back."""

    name: str
    verbs: tuple[str, ...]
    api_version: str
    kind: str


@dataclass(frozen=True)
class Resource:
    """One resource in one version."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    schema: Schema
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: Mapping[str, Subresource] = field(default_factory=dict)
    # Whether objects have a generation, and whether changes count; a few old kinds do neither.
    generation: bool = True
    counting: bool = True
    # Whether a PUT may leave out the resourceVersion, and whether it creates what is not there.
    unconditional: bool = True
    upsert: bool = False
    custom: bool = False
    list_kind: str = ""
    # For custom kinds: the columns of `kubectl get`, what may be selected, the version in which objects are kept.
    columns: tuple[Document, ...] = ()
    selectable: tuple[str, ...] = ()
    storage_version: str = ""
    # Whether it is the only version of its kind.
    only: bool = True
    # What everybody who uses this version is warned of.
    deprecation: str = ""
    openapi: Document = field(default_factory=dict)

    @cached_property
    def api_version(self) -> str:
        """As documents say it: `apps/v1`, or `v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @cached_property
    def stored(self) -> str:
        """The name under which the store keeps its documents."""
        if self.plural == "events":
            return "events"
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @cached_property
    def qualified(self) -> str:
        """As messages say it: `jobs.batch`, `pods`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @cached_property
    def has_status(self) -> bool:
        """Whether the status is written on its own."""
        return "status" in self.subresources

    @cached_property
    def path(self) -> str:
        """The folder of its group and version: `apis/batch/v1`."""
        return f"apis/{self.group}/{self.version}" if self.group else f"api/{self.version}"


@dataclass(frozen=True)
class _Row:
    api_version: str
    plural: str
    kind: str
    namespaced: bool = True
    short: str = ""
    categories: str = ""
    subresources: str = ""
    generation: bool = True
    counting: bool = True
    unconditional: bool = True
    upsert: bool = False
    verbs: tuple[str, ...] = ALL_VERBS


_RBAC, _ALL, _EXTENSIONS = "rbac.authorization.k8s.io/v1", "all", "api-extensions"
_CREATE = ("create",)
_TABLE = (
    _Row("v1", "bindings", "Binding", verbs=_CREATE),
    _Row("v1", "configmaps", "ConfigMap", short="cm", generation=False),
    _Row("v1", "events", "Event", short="ev", generation=False, upsert=True),
    _Row(
        "v1",
        "namespaces",
        "Namespace",
        False,
        "ns",
        subresources="finalize status",
        generation=False,
        verbs=tuple(verb for verb in ALL_VERBS if verb != "deletecollection"),
    ),
    _Row("v1", "nodes", "Node", False, "no", subresources="status", generation=False),
    _Row("v1", "persistentvolumeclaims", "PersistentVolumeClaim", True, "pvc", subresources="status", generation=False),
    _Row("v1", "persistentvolumes", "PersistentVolume", False, "pv", subresources="status", generation=False),
    _Row("v1", "pods", "Pod", True, "po", _ALL, subresources="binding eviction resize status"),
    _Row("v1", "secrets", "Secret", generation=False),
    _Row("v1", "serviceaccounts", "ServiceAccount", short="sa", generation=False),
    _Row("v1", "services", "Service", True, "svc", _ALL, subresources="status", generation=False, upsert=True),
    _Row(
        "admissionregistration.k8s.io/v1",
        "validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
        False,
        categories=_EXTENSIONS,
        unconditional=False,
    ),
    *(
        _Row(
            "admissionregistration.k8s.io/v1",
            plural,
            kind,
            False,
            categories=_EXTENSIONS,
            subresources=below,
            unconditional=False,
        )
        for plural, kind, below in (
            ("validatingadmissionpolicies", "ValidatingAdmissionPolicy", "status"),
            ("validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", ""),
        )
    ),
    _Row(
        "apiextensions.k8s.io/v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        False,
        "crd crds",
        _EXTENSIONS,
        subresources="status",
        unconditional=False,
    ),
    _Row("apps/v1", "deployments", "Deployment", True, "deploy", _ALL, subresources="scale status"),
    _Row("apps/v1", "replicasets", "ReplicaSet", True, "rs", _ALL, subresources="scale status"),
    _Row("apps/v1", "statefulsets", "StatefulSet", True, "sts", _ALL, subresources="scale status"),
    _Row("authentication.k8s.io/v1", "selfsubjectreviews", "SelfSubjectReview", False, verbs=_CREATE),
    _Row("authorization.k8s.io/v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", False, verbs=_CREATE),
    _Row("batch/v1", "jobs", "Job", True, categories=_ALL, subresources="status"),
    _Row("coordination.k8s.io/v1", "leases", "Lease", generation=False, unconditional=False, upsert=True),
    _Row("events.k8s.io/v1", "events", "Event", short="ev", generation=False, upsert=True),
    _Row("networking.k8s.io/v1", "networkpolicies", "NetworkPolicy", short="netpol"),
    _Row(
        "policy/v1",
        "poddisruptionbudgets",
        "PodDisruptionBudget",
        short="pdb",
        subresources="status",
        unconditional=False,
    ),
    _Row(_RBAC, "clusterrolebindings", "ClusterRoleBinding", False, generation=False, upsert=True),
    _Row(_RBAC, "clusterroles", "ClusterRole", False, generation=False, upsert=True),
    _Row(_RBAC, "rolebindings", "RoleBinding", generation=False, upsert=True),
    _Row(_RBAC, "roles", "Role", generation=False, upsert=True),
    _Row("scheduling.k8s.io/v1", "priorityclasses", "PriorityClass", False, "pc", counting=False),
    _Row("storage.k8s.io/v1", "csidrivers", "CSIDriver", False, generation=False),
    _Row("storage.k8s.io/v1", "csinodes", "CSINode", False, generation=False),
    _Row("storage.k8s.io/v1", "storageclasses", "StorageClass", False, "sc", generation=False),
    _Row("resource.k8s.io/v1", "deviceclasses", "DeviceClass", False),
)
_SUBRESOURCE_KINDS = {
    "binding": ("v1", "Binding", _CREATE),
    "eviction": ("policy/v1", "Eviction", _CREATE),
    "scale": ("autoscaling/v1", "Scale", STATUS),
    "finalize": ("", "", ("update",)),
}
# Versions of a group in the order in which discovery names the groups.
GROUPS = (
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "batch",
    "policy",
    "rbac.authorization.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "storage.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "resource.k8s.io",
)


def _built_in(row: _Row) -> Resource:
    group, _, version = row.api_version.rpartition("/")
    subresources = {}
    for name in row.subresources.split():
        api_version, kind, verbs = _SUBRESOURCE_KINDS.get(name, ("", "", STATUS))
        subresources[name] = Subresource(name, verbs, api_version or row.api_version, kind or row.kind)
    openapi = structural(row.api_version, row.kind)
    assert openapi, f"fields.json has no {row.kind}"
    return Resource(
        group=group,
        version=version,
        plural=row.plural,
        kind=row.kind,
        singular=row.kind.lower(),
        namespaced=row.namespaced,
        schema=Schema(openapi),
        short_names=tuple(row.short.split()),
        categories=tuple(row.categories.split()),
        verbs=row.verbs,
        subresources=subresources,
        generation=row.generation,
        counting=row.generation and row.counting,
        unconditional=row.unconditional,
        upsert=row.upsert,
        list_kind=f"{row.kind}List",
        openapi=openapi,
    )


@cache
def _all_built_in() -> tuple[Resource, ...]:
    """The same in every server."""
    return tuple(_built_in(row) for row in _TABLE)


def custom(definition: Document, checks: Mapping[str, Check]) -> list[Resource]:
    """The resources that a CustomResourceDefinition adds: one for each version that it serves."""
    spec = definition["spec"]
    names = spec["names"]
    kind, group, plural = names["kind"], spec["group"], names["plural"]
    storage = next((one["name"] for one in spec["versions"] if one.get("storage")), "")
    found = []
    for version in spec["versions"]:
        if not version.get("served"):
            continue
        api_version = f"{group}/{version['name']}"
        below = version.get("subresources") or {}
        subresources = {}
        if "status" in below:
            subresources["status"] = Subresource("status", STATUS, api_version, kind)
        openapi = (version.get("schema") or {}).get("openAPIV3Schema") or {"type": "object"}
        found.append(
            Resource(
                group=group,
                version=version["name"],
                plural=plural,
                kind=kind,
                singular=names.get("singular") or kind.lower(),
                namespaced=spec["scope"] == "Namespaced",
                schema=Schema(openapi, checks=checks, status="status" in below),
                short_names=tuple(names.get("shortNames") or ()),
                categories=tuple(names.get("categories") or ()),
                subresources=subresources,
                verbs=CUSTOM_VERBS,
                unconditional=False,
                custom=True,
                list_kind=names.get("listKind") or f"{kind}List",
                columns=tuple(version.get("additionalPrinterColumns") or _AGE),
                selectable=tuple(one["jsonPath"].removeprefix(".") for one in version.get("selectableFields") or ()),
                storage_version=storage,
                only=len(spec["versions"]) == 1,
                deprecation=_deprecation(spec, version) if version.get("deprecated") else "",
                openapi=openapi,
            )
        )
    return found


def _deprecation(spec: Document, version: Document) -> str:
    """In the words of the definition, else with the version that is to be used instead, if there is one."""
    group, kind = spec["group"], spec["names"]["kind"]
    if version.get("deprecationWarning"):
        return str(version["deprecationWarning"])
    current = [one["name"] for one in spec["versions"] if one.get("served") and not one.get("deprecated")]
    newest = max(current, key=stability, default=version["name"])
    instead = f"; use {group}/{newest} {kind}" if stability(newest) > stability(version["name"]) else ""
    return f"{group}/{version['name']} {kind} is deprecated{instead}"


def stability(version: str) -> tuple[int, int, int]:
    """v2 before v1 before v2beta1 before v1alpha1."""
    number, minor, kind = 0, 0, 2
    digits = version[1:]
    for word, rank in (("alpha", 0), ("beta", 1)):
        if word in digits:
            digits, _, rest = digits.partition(word)
            kind, minor = rank, int(rest) if rest.isdigit() else 0
    number = int(digits) if digits.isdigit() else 0
    return kind, number, minor


# Resources of definitions that were seen before, by what they say: many servers have the same ones, one after another.
_PREPARED: dict[tuple[bytes, int], tuple[Mapping[str, Check], list[Resource]]] = {}
_MOST_PREPARED = 100


def _prepared(definition: Document, checks: Mapping[str, Check]) -> list[Resource]:
    key = msgspec.json.encode(definition["spec"]), id(checks)
    if key not in _PREPARED:
        if len(_PREPARED) >= _MOST_PREPARED:
            _PREPARED.clear()
        _PREPARED[key] = checks, custom(definition, checks)  # while they are kept, nobody else has their id()
    return _PREPARED[key][1]


_AGE: tuple[Document, ...] = ({"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},)


class Kinds:
    """All resources that are served now."""

    def __init__(self) -> None:
        self._built_in = _all_built_in()
        self._custom: dict[str, list[Resource]] = {}
        # What definitions say, and since which revision they say so.
        self._spec: dict[str, Document] = {}
        self._since: dict[str, int] = {}
        self._by_path: dict[tuple[str, str, str], Resource] = {}
        self._by_kind: dict[tuple[str, str], list[Resource]] = {}
        # One resource for each kind of document that is stored, by the name under which it is.
        self.kept: dict[str, Resource] = {}
        self._index()

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """The resource of a path."""
        return self._by_path.get((group, version, plural))

    def of(self, api_version: str, kind: str) -> Resource | None:
        """The resource of a document; with another version of its group if that one is not served."""
        group, _, version = api_version.rpartition("/")
        found = self._by_kind.get((group, kind)) or []
        return next((one for one in found if one.version == version), found[0] if found else None)

    def trusts(self, resource: Resource, document: Document) -> bool:
        """Whether a document that is kept is as the schema of its kind says now, because it came in under it."""
        since = self._since.get(resource.stored, 0)
        return not resource.custom or (resource.only and int(document["metadata"]["resourceVersion"]) > since)

    def define(self, definition: Document, checks: Mapping[str, Check]) -> tuple[str, ...]:
        """Serve what a definition says; the warnings of its schemas."""
        name, spec = definition["metadata"]["name"], definition["spec"]
        if self._spec.get(name) is not spec:
            self._custom[name], self._spec[name] = _prepared(definition, checks), spec
            self._since[name] = int(definition["metadata"].get("resourceVersion") or 0)
            self._index()
        return tuple(dict.fromkeys(text for one in self._custom[name] for text in one.schema.warnings))

    def forget(self, name: str) -> None:
        """Serve a definition's resources no longer."""
        self._custom.pop(name, None)
        self._spec.pop(name, None)
        self._index()

    def __iter__(self) -> Iterator[Resource]:
        return iter(self._by_path.values())

    def namespaced(self) -> list[Resource]:
        """One resource for each kind of document that lives in namespaces."""
        found = {one.stored: one for one in self if one.namespaced and "list" in one.verbs}
        return list(found.values())

    def _index(self) -> None:
        everything = [*self._built_in, *(one for more in self._custom.values() for one in more)]
        self._by_path = {(one.group, one.version, one.plural): one for one in everything}
        self._by_kind = {}
        for one in self._by_path.values():
            if "get" in one.verbs:
                self._by_kind.setdefault((one.group, one.kind), []).append(one)
        self.kept = {
            one.stored: one
            for one in self._by_path.values()
            if "list" in one.verbs and not (one.plural == "events" and one.group)
        }
