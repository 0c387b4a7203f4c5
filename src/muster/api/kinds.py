"""The kinds that muster knows, by apiVersion and kind, and the way from a document to a struct."""

from typing import Any, NamedTuple, TypeVar

import msgspec

from muster.api.cluster import Namespace, Node, Pod, PodDisruptionBudget, PriorityClass
from muster.api.documents import Problem, child_path, shown
from muster.api.evictionrequest import EvictionRequest
from muster.api.interface import ResourceInterface
from muster.api.native import DeviceClass, NativePodGroup
from muster.api.nearest import Nearest
from muster.api.podgroup import PodGroup
from muster.api.queue import Queue
from muster.api.schema import conform, form_of
from muster.api.storage import CSIDriver, CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass
from muster.api.topology import Topology
from muster.errors import BadObject

T = TypeVar("T")


class Kind(NamedTuple):
    """A kind: its struct, its names, and whether it is one of ours (then its spec is read strictly)."""

    struct: Any
    plural: str
    namespaced: bool
    ours: bool
    short_names: tuple[str, ...] = ()
    # Only the cluster's administrators write it, in muster's namespace.
    guarded: bool = False

    @property
    def api_version(self) -> str:
        version: str = self.struct.API_VERSION
        return version

    @property
    def group(self) -> str:
        return self.api_version.rpartition("/")[0]

    @property
    def name(self) -> str:
        name: str = getattr(self.struct, "KIND", self.struct.__name__)
        return name

    @property
    def resource(self) -> str:
        """Its plural; with the group where another kind has the same one: `podgroups.scheduling.k8s.io`."""
        return f"{self.plural}.{self.group}" if hasattr(self.struct, "KIND") else self.plural


POD_GROUP = Kind(PodGroup, "podgroups", namespaced=True, ours=True, short_names=("pg",))
TOPOLOGY = Kind(Topology, "topologies", namespaced=False, ours=True)
QUEUE = Kind(Queue, "queues", namespaced=False, ours=True)
RESOURCE_INTERFACE = Kind(ResourceInterface, "resourceinterfaces", namespaced=False, ours=True, short_names=("ri",))
EVICTION_REQUEST = Kind(
    EvictionRequest, "evictionrequests", namespaced=True, ours=True, short_names=("er",), guarded=True
)
OUR_KINDS = (POD_GROUP, QUEUE, RESOURCE_INTERFACE, TOPOLOGY, EVICTION_REQUEST)
POD = Kind(Pod, "pods", namespaced=True, ours=False)
POD_DISRUPTION_BUDGET = Kind(PodDisruptionBudget, "poddisruptionbudgets", namespaced=True, ours=False)
NAMESPACE = Kind(Namespace, "namespaces", namespaced=False, ours=False)
CORE_KINDS = (
    POD,
    Kind(Node, "nodes", namespaced=False, ours=False),
    Kind(PriorityClass, "priorityclasses", namespaced=False, ours=False),
    POD_DISRUPTION_BUDGET,
    NAMESPACE,
)
NATIVE_POD_GROUP = Kind(NativePodGroup, "podgroups", namespaced=True, ours=False)
CLAIM = Kind(PersistentVolumeClaim, "persistentvolumeclaims", namespaced=True, ours=False)
DEVICE_CLASS = Kind(DeviceClass, "deviceclasses", namespaced=False, ours=False)
# What only some pods ask about. A cluster may lack these kinds or not let muster read them: then such pods are held.
OPTIONAL_KINDS = (
    CLAIM,
    Kind(PersistentVolume, "persistentvolumes", namespaced=False, ours=False),
    Kind(StorageClass, "storageclasses", namespaced=False, ours=False),
    Kind(CSINode, "csinodes", namespaced=False, ours=False),
    Kind(CSIDriver, "csidrivers", namespaced=False, ours=False),
    DEVICE_CLASS,
    NATIVE_POD_GROUP,
)
_ALL = (*OUR_KINDS, *CORE_KINDS, *OPTIONAL_KINDS)
_BY_NAME = {(kind.api_version, kind.name): kind for kind in _ALL}
_BY_NAME |= {(version, NATIVE_POD_GROUP.name): NATIVE_POD_GROUP for version in NativePodGroup.VERSIONS}
_BY_NAME |= {(version, DEVICE_CLASS.name): DEVICE_CLASS for version in DeviceClass.VERSIONS}
_BY_STRUCT = {kind.struct: kind for kind in _ALL}
_OUR_GROUPS = {kind.group for kind in OUR_KINDS}


class Unknown(NamedTuple):
    """A kind that is not ours. It is skipped, unless it looks like a misspelling of one that is."""

    api_version: str
    name: str
    problem: Problem | None


def kind_of(document: Any) -> Kind | Unknown:
    """Which kind a document says it is. A document that says nothing has a problem."""
    if not isinstance(document, dict):
        return Unknown("", "", Problem("", f"is not a Kubernetes object but {shown(document)}"))
    api_version, name = document.get("apiVersion"), document.get("kind")
    if not isinstance(api_version, str) or not isinstance(name, str) or not api_version or not name:
        missing = "kind" if isinstance(api_version, str) and api_version else "apiVersion"
        problem = Problem(missing, "is missing or not text", "every object starts with apiVersion and kind")
        return Unknown("", name if isinstance(name, str) else "", problem)
    found = _BY_NAME.get((api_version, name))
    return found or Unknown(api_version, name, _near_miss(api_version, name))


def _near_miss(api_version: str, name: str) -> Problem | None:
    if api_version.rpartition("/")[0] not in _OUR_GROUPS:
        return None
    for kind in OUR_KINDS:
        if kind.name == name:
            return Problem("apiVersion", f"{name} is not in {shown(api_version)}", f"write {kind.api_version}")
    nearest = Nearest(kind.name for kind in OUR_KINDS).to(name)
    if nearest:
        return Problem("kind", f"{shown(name)} is not a known kind", f"did you mean {nearest}?")
    return None


def read_object(
    document: dict[str, Any], kind: Kind, *, strict: bool = True, problems: list[Problem] | None = None
) -> tuple[Any, list[Problem]]:
    """The struct, with what could not be read left out, and every problem found on the way, which goes to `problems`.

    In `strict` reading an unknown field at the top or in the spec of our kinds is a problem; metadata, status and core
    kinds are always lenient (SPEC §2).
    """
    form = form_of(kind.struct)
    problems = [] if problems is None else problems
    strict = strict and kind.ours
    known = Nearest([*form.fields, "apiVersion", "kind", "spec", "status"])
    fitting: dict[str, Any] = {}
    for key, value in document.items():
        if key in ("apiVersion", "kind") or value is None:
            continue
        field = form.fields.get(key)
        if field is not None:
            fitting[key] = conform(value, field, key, problems, strict=strict and key == "spec")
        elif strict and key != "status" and known.to(key):
            # Strictness is about the spec; but what looks like a misspelled spec is one.
            problems.append(Problem(child_path("", key), "is not a known field", known.hint(key)))
    for name in form.required:
        if name not in fitting:
            problems.append(Problem(name, "is missing", f"add {name}"))
            fitting[name] = conform({}, form.fields[name], name, [], strict=False)
    return msgspec.convert(fitting, kind.struct), problems


def read_core(document: dict[str, Any], kind: Kind) -> tuple[Any, list[Problem]]:
    """As `read_object` for a kind that is not ours, but fast: files hold pods by the ten thousands.

    The decoder takes nearly all of them at once. It is strict about types alone: an amount that is no quantity comes
    out where it is used. What it refuses, such as a null, is read the slow way.
    """
    assert not kind.ours
    try:
        return msgspec.convert(document, kind.struct), []
    except msgspec.ValidationError:
        return read_object(document, kind)


def _read_again(data: bytes | msgspec.Raw, struct: type[T]) -> T | None:
    """The slow way, for what the decoder is too strict about: null is the same as absent."""
    document = msgspec.json.decode(data)
    kind = _BY_STRUCT.get(struct)
    if kind is None or not isinstance(document, dict):
        return None
    found, problems = read_object(document, kind, strict=False)
    return None if problems else found


def decode(data: bytes | msgspec.Raw, struct: type[T]) -> T:
    """A watched object, leniently: unknown fields are dropped. Raises BadObject with the path when a type is wrong."""
    try:
        return msgspec.json.decode(data, type=struct)
    except msgspec.ValidationError as error:
        found = _read_again(data, struct)
        if found is not None:
            return found
        message, _, where = str(error).partition(" - at `$")
        raise BadObject(where.rstrip("`").lstrip("."), message) from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise BadObject("", f"not a JSON object: {error}") from None
