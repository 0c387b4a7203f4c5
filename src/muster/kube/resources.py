"""Which resource of the API: its place in the URL, and the struct that its objects become."""

from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from muster.api.kinds import Kind, decode
from muster.api.model import Metadata, Model
from muster.errors import BadObject

# What no name is, because in a path it would be another path.
_NOT_A_NAME = frozenset(("", ".", ".."))


def is_later(version: str, other: str) -> bool:
    """Whether one resourceVersion is later than another. Those that are no numbers can only be told apart."""
    return version.isdigit() and other.isdigit() and int(version) > int(other)


class Resource(NamedTuple):
    """A resource that is no `Kind` of muster. Without a `struct` its objects are plain dicts.

    With `msgspec.Raw` as struct they stay bytes.
    """

    api_version: str
    name: str
    plural: str
    namespaced: bool = True
    struct: Any = None

    @property
    def group(self) -> str:
        """The API group; nothing for the core."""
        return self.api_version.rpartition("/")[0]


AnyKind = Kind | Resource

LEASE = Resource("coordination.k8s.io/v1", "Lease", "leases")
EVENT = Resource("events.k8s.io/v1", "Event", "events")
PODS = Resource("v1", "Pod", "pods")
MAY_I = Resource("authorization.k8s.io/v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", namespaced=False)


class WithMetadata(Model, frozen=True, kw_only=True):
    """Of an object only who it is."""

    metadata: Metadata = Metadata()


class Unread(NamedTuple):
    """An object that could not be read: the bytes, why, and who it is as far as that could be told.

    `change` is the word of the watch (ADDED, MODIFIED, DELETED), and empty for an object of a list.
    """

    raw: bytes
    why: BadObject
    metadata: Metadata = Metadata()
    change: str = ""


def resource_path(kind: AnyKind, namespace: str = "", name: str = "", subresource: str = "") -> str:
    """The path of a collection, of an object in it, or of a part of that."""
    prefix = "/apis/" if kind.group else "/api/"
    parts = [prefix + kind.api_version]
    if kind.namespaced and namespace:
        parts += ["namespaces", segment(namespace)]
    parts.append(kind.plural)
    if name:
        parts.append(segment(name))
    if subresource:
        parts.append(subresource)
    return "/".join(parts)


def segment(name: str) -> str:
    """A name as one step of a path. Raises BadObject where it would be more, or another."""
    if name in _NOT_A_NAME or "/" in name or "%" in name or len(name) > 1024:
        raise BadObject("metadata.name", f"{name[:60]!r} is not a name that an object can have")
    return quote(name, safe="-._~:")


def read_as(kind: AnyKind, raw: bytes | msgspec.Raw) -> Any:
    """The object in these bytes. Raises BadObject when it is something else."""
    if kind.struct is msgspec.Raw:
        return msgspec.Raw(bytes(raw))
    return decode(raw, dict[str, Any] if kind.struct is None else kind.struct)


def metadata_of(raw: bytes | msgspec.Raw) -> Metadata:
    """Who an object is, as far as the bytes can be read: a field that can't be read is as if absent."""
    try:
        return msgspec.json.decode(raw, type=WithMetadata).metadata
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        pass
    try:
        found = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return Metadata()
    metadata = found.get("metadata") if isinstance(found, dict) else None
    if not isinstance(metadata, dict):
        return Metadata()
    texts = {key: metadata.get(key) for key in ("name", "namespace", "uid", "resourceVersion")}
    return msgspec.convert({key: text for key, text in texts.items() if isinstance(text, str)}, Metadata)


def read_or_tell(kind: AnyKind, raw: bytes | msgspec.Raw, change: str = "") -> Any:
    """The object in these bytes, or `Unread`: one bad object never costs the others."""
    try:
        return read_as(kind, raw)
    except BadObject as why:
        return Unread(bytes(raw), why, metadata_of(raw), change)


def version_of(found: Any) -> str:
    """The resourceVersion of an object that was read in any of the ways, or of one that was not."""
    if isinstance(found, dict):
        metadata = found.get("metadata")
        version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
        return version if isinstance(version, str) else ""
    if isinstance(found, msgspec.Raw):
        return metadata_of(found).resource_version
    version = found.metadata.resource_version
    assert isinstance(version, str)
    return version
