"""Tables for `kubectl get`: the columns of the real server for the built-in kinds, printer columns for custom ones."""

from typing import Any

from muster.embedded.columns import BUILT_IN, Cell, age_of
from muster.embedded.jsonpath import find
from muster.embedded.kinds import Resource

Document = dict[str, Any]


def partial(document: Document) -> Document:
    """Only the metadata of an object."""
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": document["metadata"]}


def partial_list(documents: list[Document], meta: Document) -> Document:
    """A list of only metadata."""
    items = [partial(document) for document in documents]
    return {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": meta, "items": items}


def table(resource: Resource, documents: list[Document], now: float, meta: Document, include: str) -> Document:
    """A meta.k8s.io/v1 Table of objects; `include` is None, Metadata or Object."""
    rows = []
    for document in documents:
        row: Document = {"cells": cells(resource, document, now)}
        conditions = _conditions(resource, document)
        if conditions:
            row["conditions"] = conditions
        if include == "Metadata":
            row["object"] = partial(document)
        elif include == "Object":
            row["object"] = document
        else:
            row["object"] = None
        rows.append(row)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": meta,
        "columnDefinitions": definitions(resource),
        "rows": rows,
    }


def definitions(resource: Resource) -> list[Document]:
    """The columns of a resource."""
    if resource.custom:
        found = [_definition("Name", "string", "name", 0, "")]
        for column in resource.columns:
            found.append(
                _definition(
                    column["name"],
                    column["type"],
                    column.get("format", ""),
                    column.get("priority", 0),
                    column.get("description")
                    or f"Custom resource definition column (in JSONPath format): {column['jsonPath']}",
                )
            )
        return found
    known = BUILT_IN.get(resource.kind, BUILT_IN[""])
    return [_definition(name, kind, form, priority, "") for name, kind, form, priority in known.columns]


def _definition(name: str, kind: str, form: str, priority: int, description: str) -> Document:
    return {"name": name, "type": kind, "format": form, "description": description, "priority": priority}


def cells(resource: Resource, document: Document, now: float) -> list[Cell]:
    """The cells of one object."""
    if not resource.custom:
        return BUILT_IN.get(resource.kind, BUILT_IN[""]).cells(_plain_event(document), now)
    found: list[Cell] = [document["metadata"]["name"]]
    for column in resource.columns:
        found.append(_cell(column, document, now))
    return found


def _plain_event(document: Document) -> Document:
    """Events of the newer group have other names for the same fields."""
    if "regarding" not in document:
        return document
    return {
        **document,
        "involvedObject": document["regarding"],
        "message": document.get("note", ""),
        "source": document.get("deprecatedSource") or {},
        "firstTimestamp": document.get("deprecatedFirstTimestamp"),
        "lastTimestamp": document.get("deprecatedLastTimestamp"),
        "count": document.get("deprecatedCount", 0),
        "reportingComponent": document.get("reportingController", ""),
    }


def _cell(column: Document, document: Document, now: float) -> Cell:
    values = find(document, column["jsonPath"])
    if not values or values[0] is None:
        return None
    value = values[0]
    kind = column["type"]
    if kind == "date":
        return age_of(value, now) if isinstance(value, str) else "<invalid>"
    if kind == "integer":
        return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
    if kind == "number":
        return value if isinstance(value, int | float) and not isinstance(value, bool) else None
    if kind == "boolean":
        return value if isinstance(value, bool) else None
    return _text(value)


def _text(value: Any) -> Cell:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    import json

    return json.dumps(value, separators=(",", ":"))


def _conditions(resource: Resource, document: Document) -> list[Document]:
    if resource.custom or resource.kind != "Pod":
        return []
    phase = (document.get("status") or {}).get("phase")
    if phase == "Succeeded":
        return [{"type": "Completed", "status": "True", "reason": "Succeeded", "message": _DONE}]
    if phase == "Failed":
        return [{"type": "Completed", "status": "True", "reason": "Failed", "message": _FAILED}]
    return []


_DONE = "The pod has completed successfully."
_FAILED = "The pod failed."
