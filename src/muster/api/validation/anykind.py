"""The rules that every object of ours obeys, whatever its kind: its name and its size."""

import re
from typing import Any

import msgspec

from muster.api.documents import shown
from muster.api.kinds import Kind
from muster.api.model import Metadata
from muster.api.validation.violation import Report

MAX_OBJECT_BYTES = 1024 * 1024

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")


def check_metadata(metadata: Metadata, kind: Kind, report: Report) -> None:
    """A name that the API server would accept."""
    if not kind.ours:
        return
    if not metadata.name and not metadata.generate_name:
        report.error("metadata.name", "is missing", f"give the {kind.name} a name")
    for field, name, most in (("name", metadata.name, 253), ("namespace", metadata.namespace, 63)):
        if name and (len(name) > most or not _SUBDOMAIN.fullmatch(name) or (most == 63 and "." in name)):
            form = "a DNS name" if most == 253 else "a DNS label"
            report.error(
                f"metadata.{field}",
                f"must be {form} of at most {most} characters, not {shown(name)}",
                "use a-z, 0-9 and '-', starting and ending with a letter or digit",
            )


def check_size(document: Any, kind: Kind, report: Report) -> None:
    """No more than one object may hold, as JSON."""
    if not kind.ours:
        return
    # What the API server and the scheduler add is not the author's.
    own = {key: value for key, value in document.items() if key != "status"}
    if isinstance(own.get("metadata"), dict):
        own["metadata"] = {key: value for key, value in own["metadata"].items() if key != "managedFields"}
    try:
        size = len(msgspec.json.encode(own))
    except OverflowError:
        # A number that no JSON reader takes was reported where it stands.
        return
    if size > MAX_OBJECT_BYTES:
        message = f"the object has {size:,} bytes as JSON, the limit is {MAX_OBJECT_BYTES:,}"
        report.error("", message, "use fewer SubGroups, or shorter annotations")
