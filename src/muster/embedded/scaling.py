"""The scale subresource: how many replicas an object wants and has."""

from muster.embedded import intake, patching, writing
from muster.embedded.columns import selector_text
from muster.embedded.core import Core, Document, Options, Target
from muster.embedded.exchange import Request, Said, bad_request, conflict, not_found, wrong

_KIND = {"kind": "Scale", "apiVersion": "autoscaling/v1"}


def scale(core: Core, target: Target) -> Document:
    """The Scale of an object."""
    found = core.store.get(target.key)
    if found is None:
        raise not_found(target.resource, target.name)
    return _scale_of(found)


def _scale_of(found: Document) -> Document:
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    metadata = {key: found["metadata"][key] for key in kept if key in found["metadata"]}
    wanted = (found.get("spec") or {}).get("replicas")
    status: Document = {"replicas": (found.get("status") or {}).get("replicas", 0)}
    selector = selector_text((found.get("spec") or {}).get("selector"))
    if selector != "<none>":
        status["selector"] = selector
    return {**_KIND, "metadata": metadata, "spec": {"replicas": wanted} if wanted else {}, "status": status}


def change_scale(core: Core, target: Target, request: Request, options: Options) -> Document:
    """Write `spec.replicas` through the Scale."""
    current = core.store.get(target.key)
    if current is None:
        raise not_found(target.resource, target.name)
    shown = _scale_of(current)
    value = intake.parse(request.body)
    if request.method == "PATCH":
        is_json = request.headers.get("content-type", "").startswith("application/json-patch")
        value = patching.json_patch(shown, value) if is_json else patching.merge(shown, value)
    wanted = (value.get("spec") or {}).get("replicas", 0) if isinstance(value, dict) else None
    if not isinstance(wanted, int) or isinstance(wanted, bool):
        raise bad_request("spec.replicas must be a number")
    if wanted < 0:
        negative = wrong("spec.replicas", wanted, "must be greater than or equal to 0")
        details = {"name": target.name, "group": "autoscaling", "kind": "Scale"}
        raise Said(422, "Invalid", f'Scale.autoscaling "{target.name}" is invalid: {negative}', details, [negative])
    version = (value.get("metadata") or {}).get("resourceVersion")
    if version and version != current["metadata"]["resourceVersion"]:
        raise conflict(target.resource, target.name)
    changed = {**current, "spec": {**current["spec"], "replicas": wanted}}
    written = writing.put_in_place(core, target, current, changed, options, [], "Update")
    return _scale_of(written.document)
