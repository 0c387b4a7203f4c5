"""What can be told of a pod of which some part can't be read: whose it is, where it is, and what it was told."""

from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec
from msgspec import structs

from muster.api.cluster import Pod, PodCondition, PodSpec, PodStatus
from muster.api.model import Metadata

T = TypeVar("T")
# Whoever places a pod whose scheduler can't be read, it is not us.
_SOMEBODY = "?"
# For a pod that is going since nobody can say when.
_SOME_TIME = datetime.fromtimestamp(0, UTC)


def pod_of_unread(metadata: Metadata, raw: bytes, before: Pod | None) -> Pod:
    """The pod in these bytes as far as they can be read, and for the rest as it was `before`."""
    document = _part(raw)
    spec, status = _part(document.get("spec")), _part(document.get("status"))
    known, was = (before.spec, before.status) if before is not None else (PodSpec(), PodStatus())
    if "deletionTimestamp" in _part(document.get("metadata")) and metadata.deletion_timestamp is None:
        metadata = structs.replace(metadata, deletion_timestamp=_SOME_TIME)
    return Pod(
        metadata=metadata,
        spec=structs.replace(
            known,
            scheduler_name=_read(spec.get("schedulerName", known.scheduler_name), _SOMEBODY),
            node_name=_read(spec.get("nodeName", "" if spec else known.node_name), known.node_name),
        ),
        status=structs.replace(
            was,
            phase=_read(status.get("phase"), was.phase),
            nominated_node_name=_read(status.get("nominatedNodeName"), ""),
            conditions=_conditions(status.get("conditions")),
        ),
    )


def _part(found: Any) -> dict[str, Any]:
    """A mapping; whatever is none is an empty one."""
    if isinstance(found, bytes):
        try:
            found = msgspec.json.decode(found)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            return {}
    return found if isinstance(found, dict) else {}


def _read(found: Any, otherwise: T) -> T:
    return found if isinstance(found, type(otherwise)) else otherwise


def _conditions(found: Any) -> list[PodCondition]:
    conditions = []
    for one in found if isinstance(found, list) else ():
        try:
            conditions.append(msgspec.convert(one, PodCondition))
        except msgspec.ValidationError:
            continue
    return conditions
