"""Creating, replacing and patching: decoding, defaults, admission, validation, ownership of fields, the store."""

import re
from typing import Any

from muster.embedded import applying, objects, patching
from muster.embedded.admission import admit, check_definition, check_namespace, prepare
from muster.embedded.core import Asked, Core, Document, Options, Target, bad_options, kept_as, shown_as
from muster.embedded.exchange import (
    Said,
    bad_request,
    conflict,
    exists,
    invalid,
    not_found,
    other_namespace,
    wrong,
)
from muster.embedded.intake import check_frame, completed, fill_in, of_kind, parse, take_in
from muster.embedded.kinds import Resource
from muster.embedded.naming import IMMUTABLE, finalizer_causes, metadata_causes, update_causes
from muster.embedded.nodes import status_causes
from muster.embedded.places import copied
from muster.embedded.refusals import Cause, Refused
from muster.embedded.rules import causes
from muster.embedded.store import Exists, Stale

PATCHES = {
    "application/json-patch+json": "json",
    "application/merge-patch+json": "merge",
    "application/strategic-merge-patch+json": "strategic",
    "application/apply-patch+yaml": "apply",
    "application/apply-patch+cbor": "",
}


# Groups in which a finalizer needs no prefix.
_FREE_FINALIZERS = ("apiextensions.k8s.io", "admissionregistration.k8s.io")


class Written:
    """What a write did: the code, the document as it is shown, and what the client is warned of."""

    def __init__(self, status: int, document: Document, warnings: list[str] | None = None) -> None:
        self.status = status
        self.document = document
        self.warnings = warnings or []


def create(core: Core, target: Target, document: Document, options: Options) -> Written:
    """Create an object of a document that has the right kind."""
    resource = target.resource
    metadata = document.get("metadata") or {}
    document, warnings = completed(resource, {**document, "metadata": metadata}, options)
    space = (document.get("metadata") or {}).get("namespace") or ""
    if resource.namespaced:
        if space and space != target.namespace:
            raise other_namespace()
        if not target.namespace:
            raise bad_request("an empty namespace may not be set during creation")
    elif space:
        raise other_namespace()
    if (document.get("metadata") or {}).get("resourceVersion"):
        raise Said(500, "", "resourceVersion should not be set on objects to be created")
    return _insert(core, target, document, options, warnings, "Update")


def _insert(
    core: Core, target: Target, document: Document, options: Options, warnings: list[str], operation: str
) -> Written:
    resource = target.resource
    document = objects.created(
        document,
        uid=core.new_uid(),
        now=core.now(),
        suffix=core.suffix,
        namespace=target.namespace if resource.namespaced else None,
        generation=resource.generation,
    )
    name = document["metadata"].get("name") or ""
    check_namespace(core, resource, target.namespace, name)
    check_definition(core, resource, name)
    if operation != "Apply":
        # Who owns what is settled before admission: what the server adds belongs to nobody.
        document = applying.updated(
            None, document, manager=options.manager, operation=operation, schema=resource.schema, time=core.now()
        )
    document = prepare(core, resource, document)
    found = metadata_causes(resource.kind, document)
    if not resource.custom and resource.group not in _FREE_FINALIZERS:
        found += finalizer_causes(document["metadata"])
    found += (
        resource.schema.validate(document)
        if resource.custom
        else causes(resource.kind, kept_as(document, resource), None, resource.group)
    )
    if found:
        raise invalid(resource, name, found)
    target = target._replace(name=name)
    warnings += admit(core, Asked("CREATE", target, document, None, options.user, options.dry_run))
    key = target.key
    kept = kept_as(document, resource)
    if options.dry_run:
        if core.store.get(key) is not None:
            raise exists(resource, name)
        return Written(201, shown_as(kept, resource), warnings)
    try:
        kept = core.store.create(key, kept)
    except Exists as clash:
        raise exists(resource, name) from clash
    return Written(201, shown_as(kept, resource), warnings)


def replace(core: Core, target: Target, document: Document, options: Options) -> Written:
    """PUT: the document takes the place of what is there."""
    resource, name = target.resource, target.name
    metadata = document.get("metadata") or {}
    said = metadata.get("name") or ""
    if said != name:
        if not said and not resource.custom:
            metadata = {**metadata, "name": name}
        else:
            raise bad_request(f"the name of the object ({said}) does not match the name on the URL ({name})")
    if resource.namespaced and (metadata.get("namespace") or target.namespace) != target.namespace:
        raise other_namespace()
    document, warnings = completed(resource, {**document, "metadata": metadata}, options)
    current = core.store.get(target.key)
    if current is None:
        if resource.upsert and not target.subresource:
            made = create(core, target, document, options)
            return Written(made.status, made.document, warnings + made.warnings)
        raise not_found(resource, name)
    version = metadata.get("resourceVersion") or ""
    if not version and not resource.unconditional:
        text = "Invalid value: 0: must be specified for an update"
        missing = Cause("FieldValueInvalid", text, "metadata.resourceVersion")
        details = {"name": name, "group": resource.group, "kind": resource.plural}
        raise Said(422, "Invalid", f'{resource.qualified} "{name}" is invalid: {missing}', details, [missing])
    return put_in_place(core, target, current, document, options, warnings, "Update")


def put_in_place(
    core: Core,
    target: Target,
    current: Document,
    new: Document,
    options: Options,
    warnings: list[str],
    operation: str,
) -> Written:
    """Put `new` in the place of `current`, both as they are shown."""
    resource, name = target.resource, target.name
    shown = shown_as(current, resource)
    metadata = new.get("metadata") or {}
    uid = metadata.get("uid")
    if uid and uid != current["metadata"]["uid"]:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {current['metadata']['uid']}"
        raise conflict(resource, name, why)
    version = metadata.get("resourceVersion")
    if version and version != current["metadata"]["resourceVersion"]:
        raise conflict(resource, name)
    if resource.namespaced and not metadata.get("namespace"):
        new = objects.with_metadata(new, namespace=target.namespace)
    new = objects.replaced(
        shown,
        new,
        status=resource.has_status,
        subresource=target.subresource,
        generation=resource.counting,
        metadata_of_status=not resource.custom,
    )
    if operation != "Apply":
        new = applying.updated(
            shown,
            new,
            manager=options.manager,
            operation=operation,
            schema=resource.schema,
            time=core.now(),
            subresource=target.subresource,
        )
    new = prepare(core, resource, new, shown)
    found = update_causes(new, shown)
    if resource.custom:
        found += resource.schema.validate(new, shown)
    elif target.subresource == "status":
        found += status_causes(resource.kind, kept_as(new, resource), current)
    else:
        found += causes(resource.kind, kept_as(new, resource), current, resource.group)
    if found:
        raise invalid(resource, name, found)
    warnings += admit(core, Asked("UPDATE", target, new, shown, options.user, options.dry_run))
    return Written(200, keep(core, target, current, kept_as(new, resource), options.dry_run), warnings)


def keep(core: Core, target: Target, current: Document, new: Document, dry_run: bool = False) -> Document:
    """Store what replaces `current`, or remove it when nothing holds it any more; as it is shown."""
    resource = target.resource
    try:
        if dry_run:
            kept = new
        elif objects.gone_with(new) and not (target.key.resource == "namespaces" and _is_held(new)):
            # Only the removal is written, as a real server does it: nobody ever sees it without its last finalizer.
            core.store.remove(target.key, current["metadata"]["resourceVersion"])
            kept = new
        elif objects.same(current, new):
            kept = current
        else:
            kept = core.store.replace(target.key, new, current["metadata"]["resourceVersion"])
    except Stale as stale:
        raise conflict(resource, target.name) from stale
    return shown_as(kept, resource)


def _is_held(namespace: Document) -> bool:
    """Namespaces have finalizers of a second sort."""
    return bool((namespace.get("spec") or {}).get("finalizers"))


def patch(
    core: Core, target: Target, body: bytes, content_type: str, options: Options, forced: bool = False
) -> Written:
    """PATCH in one of its four forms."""
    resource, name = target.resource, target.name
    form = PATCHES.get(content_type.partition(";")[0].strip(), "")
    if not form:
        raise Said(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
    if form == "strategic" and resource.custom:
        listed = ", ".join(one for one, what in PATCHES.items() if what and what != "strategic")
        said = f"the body of the request was in an unknown format - accepted media types include: {listed}"
        raise Said(415, "UnsupportedMediaType", said)
    value = parse(body)
    if form == "apply":
        return _apply(core, target, value, options)
    if forced:
        raise bad_options("force", "Forbidden: may not be specified for non-apply patch")
    current = core.store.get(target.key)
    if current is None:
        raise not_found(resource, name)
    shown = shown_as(current, resource)
    try:
        if form == "json":
            new = patching.json_patch(shown, value)
        elif form == "merge":
            if not isinstance(value, dict):
                raise bad_request("error decoding patch: json: cannot unmarshal into Go value of type map")
            new = patching.merge(shown, value)
        else:
            new = patching.strategic(shown, value, f"{resource.api_version}/{resource.kind}")
    except Refused as refused:
        raise _explained(refused) from refused
    return _patched(core, target, current, new, options)


def _explained(refused: Refused) -> Refused:
    if refused.status == 422 and not isinstance(refused, Said):
        return Said(422, "Invalid", refused.message, {}, refused.causes)
    return refused


def _patched(core: Core, target: Target, current: Document, new: Any, options: Options) -> Written:
    resource, name = target.resource, target.name
    if not isinstance(new, dict):
        raise bad_request("the patch does not leave an object")
    known = shown_as(current, resource) if core.kinds.trusts(resource, current) else None
    check_frame(resource, new, known)
    said = (new.get("metadata") or {}).get("name")
    if said != name:
        raise bad_request(f"the name of the object ({said or ''}) does not match the name on the URL ({name})")
    space = (new.get("metadata") or {}).get("namespace") or ""
    if resource.namespaced and space != target.namespace:
        raise other_namespace()
    try:
        new = of_kind(resource, new)
        document, warnings = completed(resource, new, options, known)
    except Said as unknown:
        words = re.search("(strict decoding error|converting|no kind|Object 'Kind' is missing).*", unknown.message)
        if unknown.status != 400 or not words:
            raise
        cause = Cause("FieldValueInvalid", f'Invalid value: "...": {words[0]}', "patch")
        raise Said(422, "Invalid", f' "" is invalid: {cause}', {}, [cause]) from unknown
    _check_uid(target, current, document)
    return put_in_place(core, target, current, document, options, warnings, "Update")


def _check_uid(target: Target, current: Document, new: Document) -> None:
    """422 for a patch that changes the uid; who replaces an object means by it which one, and gets 409."""
    uid = (new.get("metadata") or {}).get("uid")
    if uid and uid != current["metadata"]["uid"]:
        raise invalid(target.resource, target.name, [wrong("metadata.uid", uid, IMMUTABLE)])


def _undeclared(resource: Resource, value: Document, name: str) -> None:
    """500 for fields that a built-in kind does not have, as the real one says it."""
    _, unknown = resource.schema.prune(value)
    if not unknown:
        return
    space = (value.get("metadata") or {}).get("namespace") or ""
    found = [f".{path}: field not declared in schema" for path in unknown]
    said = found[0] if len(found) == 1 else "errors:\n" + "\n".join(f"  {text}" for text in found)
    kind = f"{resource.group}/{resource.version}, Kind={resource.kind}"
    raise Said(500, "", f"failed to create typed patch object ({space}/{name}; {kind}): {said}")


def _apply(core: Core, target: Target, value: Any, options: Options) -> Written:
    """Server-side apply."""
    resource, name = target.resource, target.name
    if not isinstance(value, dict):
        raise bad_request("error decoding YAML: the document is not an object")
    check_frame(resource, value)
    wanted = value
    if (value.get("apiVersion"), value.get("kind")) != (resource.api_version, resource.kind):
        group, _, version = (value.get("apiVersion") or "").rpartition("/")
        raise bad_request(f"invalid object type: {group}/{version}, Kind={value.get('kind') or ''}")
    metadata = wanted.get("metadata") or {}
    if metadata.get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")
    said = metadata.get("name") or name
    if said != name:
        raise bad_request(f"the name of the object ({said}) does not match the name on the URL ({name})")
    space = metadata.get("namespace") or target.namespace
    if resource.namespaced and space != target.namespace:
        raise bad_request(
            f"the namespace of the object ({space}) does not match the namespace on the URL ({target.namespace})"
        )
    wanted = {**wanted, "metadata": {**metadata, "name": name}}
    _undeclared(resource, value, name)
    wanted, warnings = take_in(resource, wanted, options)
    current = core.store.get(target.key)
    if current is None and not metadata.get("name"):
        raise bad_request(f"the name of the object ({name} based on URL) was undeterminable: name must be provided")
    shown = shown_as(current, resource) if current else None
    if current is None and target.subresource:
        raise not_found(resource, name)
    version = metadata.get("resourceVersion")
    try:
        new = applying.apply(
            shown,
            objects.with_metadata(wanted, resourceVersion=None),
            manager=options.manager,
            force=options.force,
            schema=resource.schema,
            time=core.now(),
            subresource=target.subresource,
        )
    except applying.Conflicts as clash:
        count = len(clash.conflicts)
        shown_causes = ", ".join(f"{one.message}: {one.field}" for one in clash.causes)
        message = clash.message or f"Apply failed with {count} conflict{'s' if count > 1 else ''}: {shown_causes}"
        raise Said(409, "Conflict", message, {}, clash.causes) from clash
    if version:
        new = objects.with_metadata(new, resourceVersion=version)
    if resource.namespaced:
        new = objects.with_metadata(new, namespace=target.namespace)
    if current is None:
        if version:
            raise conflict(resource, name)
        document = fill_in(resource, copied(new))
        return _insert(core, target, document, options, warnings, "Apply")
    document = fill_in(resource, copied(new))
    _check_uid(target, current, document)
    return put_in_place(core, target, current, document, options, warnings, "Apply")
