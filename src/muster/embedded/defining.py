"""Definitions of kinds: that they are served is said in them, and when they end, their objects end with them."""

from functools import partial

from muster.embedded import applying, objects
from muster.embedded.apart import fails
from muster.embedded.core import DEFINITIONS, Core, Document
from muster.embedded.deleting import CLEANUP, with_terminating
from muster.embedded.garbage import Turn, dismiss
from muster.embedded.store import Key


def establish(core: Core, definition: Document) -> Document:
    """Write into a definition that its kind is served."""
    status = definition.get("status") or {}
    wanted = dict(definition["spec"]["names"])
    conditions = status.get("conditions") or []
    if conditions and status.get("acceptedNames") == wanted:
        return definition
    now = core.now()
    conditions = [
        _true("NamesAccepted", "NoConflicts", "no conflicts found", now),
        _true("Established", "InitialNamesAccepted", "the initial names have been accepted", now),
    ]
    new = {**definition, "status": {**status, "conditions": conditions, "acceptedNames": wanted}}
    return _written(core, definition, new)


def _written(core: Core, definition: Document, new: Document) -> Document:
    """Keep a definition with another status."""
    resource = core.kinds.kept[DEFINITIONS]
    new = applying.updated(
        definition,
        new,
        manager="kube-apiserver",
        operation="Update",
        schema=resource.schema,
        time=core.now(),
        subresource="status",
    )
    key = Key(DEFINITIONS, "", definition["metadata"]["name"])
    return core.store.replace(key, new, definition["metadata"]["resourceVersion"])


def _true(kind: str, reason: str, message: str, now: str) -> Document:
    return {"type": kind, "status": "True", "lastTransitionTime": now, "reason": reason, "message": message}


def end_definition(core: Core, name: str) -> None:
    """Objects of a kind that is no longer defined go with it, whatever holds them."""
    defects: list[Exception] = []
    for document in core.store.list(name).items:
        metadata = document["metadata"]
        fails(core.store.remove, Key(name, metadata.get("namespace") or "", metadata["name"]), defects)
    if defects:
        raise defects[0]


def finish(core: Core, definition: Document, turn: Turn) -> None:
    """A definition on its way out takes its objects with it; it goes when the last of them has gone."""
    name, defects = definition["metadata"]["name"], list[Exception]()
    if CLEANUP not in (definition["metadata"].get("finalizers") or ()):
        return
    resource = core.kinds.kept.get(name)
    for document in core.store.list(name).items:
        if turn.is_over():
            break
        if resource is not None and not document["metadata"].get("deletionTimestamp"):
            # Who is objected to is tried again after the next write below the definition.
            fails(partial(dismiss, core, resource), document, defects)
    if defects:
        raise defects[0]
    key = Key(DEFINITIONS, "", name)
    current = core.store.get(key)
    assert current, "nobody else removes it meanwhile"
    if core.store.list(name).items:
        _written(core, current, with_terminating(current, core.now(), "InstanceDeletionInProgress", _UNDER_WAY))
        return
    done = with_terminating(current, core.now(), "InstanceDeletionCompleted", "removed all instances", holds=False)
    done = _written(core, current, done)
    left = [one for one in done["metadata"]["finalizers"] if one != CLEANUP]
    if left:
        new = objects.with_metadata(done, finalizers=left)
        core.store.replace(key, new, done["metadata"]["resourceVersion"])
    else:
        core.store.remove(key)


_UNDER_WAY = "CustomResource deletion is in progress"
