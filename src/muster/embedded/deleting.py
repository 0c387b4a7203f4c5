"""Deletion: options and preconditions, grace, finalizers, one object or all that a selector finds."""

from typing import Any, NamedTuple

from muster.embedded import objects
from muster.embedded.admission import admit
from muster.embedded.core import (
    DEFINITIONS,
    Asked,
    Core,
    Document,
    Target,
    bad_options,
    is_rehearsal,
    rehearsed,
    shown_as,
)
from muster.embedded.exchange import Said, bad_request, conflict, forbidden, not_found, success
from muster.embedded.kinds import Resource
from muster.embedded.refusals import Cause
from muster.embedded.store import Key, Stale

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"
# Holds a definition until its objects are gone.
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
# Kinds whose deletion answers with what was deleted; others answer with a Status.
_RETURNED = (
    *("Pod", "ServiceAccount", "Namespace", "Service", "PersistentVolume", "PersistentVolumeClaim"),
    *("StorageClass", "CSINode", "CSIDriver", "DeviceClass"),
)


class Deletion(NamedTuple):
    """DeleteOptions."""

    grace: int | None = None
    policy: str = ""
    uid: str = ""
    version: str = ""
    dry_run: bool = False
    user: str = ""


def deletion_of(body: Any, query: Any) -> Deletion:
    """The options of a deletion: in its body, or in its query."""
    if body is not None and not isinstance(body, dict):
        raise bad_request("DeleteOptions must be an object")
    said = body or {}
    for name, form, word in (("preconditions", dict, "an object"), ("dryRun", list, "a list")):
        if not isinstance(said.get(name) or form(), form):
            raise bad_request(f"DeleteOptions.{name} must be {word}")
    conditions = said.get("preconditions") or {}
    grace = said.get("gracePeriodSeconds", query.get("gracePeriodSeconds"))
    policy = said.get("propagationPolicy") or query.get("propagationPolicy") or ""
    orphan = said.get("orphanDependents", query.get("orphanDependents"))
    if orphan is not None and policy:
        both = f'Invalid value: "{policy}": orphanDependents and deletionPropagation cannot be both set'
        raise bad_options("propagationPolicy", both, "DeleteOptions")
    if orphan is not None:
        policy = "Orphan" if orphan in (True, "true") else "Background"
    if policy not in ("", "Orphan", "Background", "Foreground"):
        text = f'Unsupported value: "{policy}": supported values: "Foreground", "Background", "Orphan", "nil"'
        cause = Cause("FieldValueNotSupported", text, "propagationPolicy")
        details = {"group": "meta.k8s.io", "kind": "DeleteOptions"}
        raise Said(422, "Invalid", f'DeleteOptions.meta.k8s.io "" is invalid: {cause}', details, [cause])
    try:
        seconds = None if grace is None else int(grace)
    except (TypeError, ValueError) as bad:
        raise bad_request("gracePeriodSeconds must be a number") from bad
    dry = is_rehearsal(said.get("dryRun") or rehearsed(query), "DeleteOptions")
    return Deletion(seconds, policy, conditions.get("uid") or "", conditions.get("resourceVersion") or "", dry)


ORPHANS_JOB = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set "
    "propagationPolicy=Orphan to suppress this warning"
)


def delete(core: Core, target: Target, options: Deletion) -> tuple[int, Document]:
    """Delete one object: the code, and the object or the Status that is answered."""
    resource, name = target.resource, target.name
    if resource.kind == "Job" and not options.policy:
        options = options._replace(policy="Orphan")
    current = core.store.get(target.key)
    if current is None:
        raise not_found(resource, name)
    check_preconditions(resource, name, current, options)
    admit(core, Asked("DELETE", target, None, shown_as(current, resource), options.user, options.dry_run))
    if resource.kind == "Namespace":
        return _delete_namespace(core, target, current, options)
    if resource.stored == DEFINITIONS:
        return 200, _delete_definition(core, target, current, options)
    new = objects.deleted(
        current,
        now=core.now(),
        grace=_grace(resource, current, options.grace),
        finalizers=_finalizers(options.policy),
        generation=resource.generation,
    )
    if new is not None and options.policy in ("Background",):
        new = _without(new, FOREGROUND, ORPHAN) if not current["metadata"].get("deletionTimestamp") else new
    if new is None:
        if not options.dry_run:
            current = core.store.remove(target.key)
        shown = shown_as(current, resource)
        if resource.kind == "Pod":
            shown = objects.with_metadata(shown, **_ended(core, shown))
        if resource.kind in _RETURNED:
            return 200, shown
        return 200, success(resource, name, current["metadata"]["uid"])
    if not options.dry_run and not objects.same(current, new):
        new = _replaced(core, target, current, new)
    return 200, shown_as(new, resource)


def _ended(core: Core, pod: Document) -> Document:
    """A pod that goes at once is answered with the moment at which it went."""
    if pod["metadata"].get("deletionTimestamp"):
        return {"deletionGracePeriodSeconds": 0}
    generation = pod["metadata"].get("generation")
    return {
        "deletionTimestamp": core.now(),
        "deletionGracePeriodSeconds": 0,
        **({"generation": generation + 1} if generation else {}),
    }


def _replaced(core: Core, target: Target, current: Document, new: Document) -> Document:
    try:
        return core.store.replace(target.key, new, current["metadata"]["resourceVersion"])
    except Stale as stale:
        raise conflict(target.resource, target.name) from stale


def _without(document: Document, *names: str) -> Document:
    kept = [one for one in document["metadata"].get("finalizers") or () if one not in names]
    return objects.with_metadata(document, finalizers=kept or None)


def check_preconditions(resource: Resource, name: str, current: Document, options: Deletion) -> None:
    """409 unless the object is the one that was meant."""
    metadata = current["metadata"]
    for said, there, word, what in (
        (options.uid, metadata["uid"], "UID", "deleted and then recreated"),
        (options.version, metadata["resourceVersion"], "ResourceVersion", "modified"),
    ):
        if said and said != there:
            why = (
                f"the {word} in the precondition ({said}) does not match the {word} in record ({there}). The object "
                f"might have been {what}"
            )
            shown = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
            message = f'Operation cannot be fulfilled on {shown} "{name}": {why}'
            details = {"name": name, "group": resource.group, "kind": resource.kind}
            raise Said(409, "Conflict", message, {key: value for key, value in details.items() if value})


def _finalizers(policy: str) -> tuple[str, ...]:
    return {"Foreground": (FOREGROUND,), "Orphan": (ORPHAN,)}.get(policy, ())


def _grace(resource: Resource, current: Document, wanted: int | None) -> int | None:
    """The seconds that a pod has left: none unless it runs somewhere."""
    if resource.kind != "Pod":
        return None
    spec, phase = current.get("spec") or {}, (current.get("status") or {}).get("phase")
    if not spec.get("nodeName") or phase in ("Succeeded", "Failed"):
        return 0
    seconds = spec.get("terminationGracePeriodSeconds", 30) if wanted is None else wanted
    return 1 if seconds < 0 else int(seconds)


def _delete_namespace(core: Core, target: Target, current: Document, options: Deletion) -> tuple[int, Document]:
    if target.name in ("default", "kube-system", "kube-public"):
        raise forbidden(target.resource, target.name, "this namespace may not be deleted")
    if current["metadata"].get("deletionTimestamp"):
        if (current.get("spec") or {}).get("finalizers") or current["metadata"].get("finalizers"):
            why = (
                "The system is ensuring all content is removed from this namespace.  Upon completion, this namespace "
                "will automatically be purged by the system."
            )
            raise conflict(target.resource, target.name, why)
        return 200, core.store.remove(target.key)
    new = objects.with_metadata(current, deletionTimestamp=core.now())
    new = {**new, "status": {**(current.get("status") or {}), "phase": "Terminating"}}
    if options.dry_run:
        return 200, new
    return 200, _replaced(core, target, current, new)


def _delete_definition(core: Core, target: Target, current: Document, options: Deletion) -> Document:
    """A definition waits for its objects; asked a second time, it says that it has no time left."""
    if current["metadata"].get("deletionTimestamp"):
        new = objects.with_metadata(current, deletionGracePeriodSeconds=0)
    else:
        held = [*(current["metadata"].get("finalizers") or ()), CLEANUP]
        new = objects.with_metadata(current, deletionTimestamp=core.now(), finalizers=list(dict.fromkeys(held)))
        new = with_terminating(new, core.now(), "InstanceDeletionPending", _PENDING)
    return new if options.dry_run else _replaced(core, target, current, new)


_PENDING = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"


def with_terminating(definition: Document, now: str, reason: str, message: str, *, holds: bool = True) -> Document:
    """A definition that says how far its end is."""
    status = definition.get("status") or {}
    conditions = status.get("conditions") or []
    said = "True" if holds else "False"
    before = next((one for one in conditions if one.get("type") == "Terminating"), None)
    since = before.get("lastTransitionTime") or now if before and before.get("status") == said else now
    new = {"type": "Terminating", "status": said, "lastTransitionTime": since, "reason": reason, "message": message}
    others = [one for one in conditions if one.get("type") != "Terminating"]
    return {**definition, "status": {**status, "conditions": [*others, new]}}


def finalize_namespace(core: Core, target: Target, document: Document) -> Document:
    """The finalize subresource of a namespace: only its spec.finalizers change; without any left, it goes."""
    current = core.store.get(target.key)
    if current is None:
        raise not_found(target.resource, target.name)
    kept = (document.get("spec") or {}).get("finalizers") or []
    new = {**current, "spec": {**(current.get("spec") or {}), "finalizers": kept}}
    if not kept:
        new["spec"] = {}
    new = _replaced(core, target, current, new)
    if not kept and new["metadata"].get("deletionTimestamp") and not new["metadata"].get("finalizers"):
        core.store.remove(target.key)
    return new


def release(core: Core, key: Key, finalizer: str) -> None:
    """Take a finalizer off an object that is there; it goes if that was all that held it."""
    current = core.store.get(key)
    assert current is not None
    new = _without(current, finalizer)
    if objects.gone_with(new):
        core.store.remove(key)
    else:
        core.store.replace(key, new, current["metadata"]["resourceVersion"])
