"""Creating, replacing and patching: decoding, defaults, admission, validation, ownership of fields, the store."""

import json
from dataclasses import replace as replace_kind
from functools import cache
from typing import Any

from muster.embedded import applying, objects, patching
from muster.embedded.admission import admit, check_namespace, prepare
from muster.embedded.core import Core, Document, Options, Target, bad_options, copied, kept_as, shown_as
from muster.embedded.defaults import defaulted
from muster.embedded.exchange import (
    JSON,
    Said,
    bad_request,
    conflict,
    exists,
    invalid,
    not_found,
    wrong,
)
from muster.embedded.fields import structural
from muster.embedded.kinds import Resource
from muster.embedded.naming import metadata_causes, update_causes
from muster.embedded.refusals import Cause, Refused
from muster.embedded.rules import causes
from muster.embedded.schema import Schema
from muster.embedded.store import Exists, Stale
from muster.embedded.typed import typed, with_times

PATCHES = {
    "application/json-patch+json": "json",
    "application/merge-patch+json": "merge",
    "application/strategic-merge-patch+json": "strategic",
    "application/apply-patch+yaml": "apply",
    "application/apply-patch+cbor": "",
}


class Written:
    """What a write did: the code, the document as it is shown, and what the client is warned of."""

    def __init__(self, status: int, document: Document, warnings: list[str] | None = None) -> None:
        self.status = status
        self.document = document
        self.warnings = warnings or []


def decode(body: bytes, content_type: str) -> Any:
    """The document in a body."""
    kind = content_type.partition(";")[0].strip() or JSON
    if kind not in (JSON, "application/yaml", "*/*"):
        words = "the body of the request was in an unknown format - accepted media types include"
        said = f"{words}: {JSON}, application/yaml, application/vnd.kubernetes.protobuf"
        raise Said(415, "UnsupportedMediaType", said)
    return parse(body)


def parse(body: bytes) -> Any:
    """JSON; kubectl sends JSON under the name of YAML too, and no other YAML is read from the network."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as bad:
        raise bad_request(f"the body of the request is no JSON: {bad}") from bad


@cache
def _frame() -> tuple[Document, Schema]:
    """What all documents have: their kind and their metadata."""
    pod = structural("v1", "Pod")
    assert pod, "Pods are built in"
    openapi = {"type": "object", "properties": {name: pod["properties"][name] for name in _FRAME}}
    return openapi, Schema(openapi)


_FRAME = ("apiVersion", "kind", "metadata")


def check_frame(resource: Resource, document: Document) -> None:
    """400 unless kind and metadata are of the right types; after this they need no second look."""
    openapi, schema = _frame()
    framed = typed({name: document[name] for name in _FRAME if name in document}, openapi)
    for cause in schema.validate(framed):
        if cause.reason == "FieldValueTypeInvalid":
            raise unreadable(resource, cause)


def expect(resource: Resource, document: Any, api_version: str = "", kind: str = "") -> Document:
    """400 unless the document says that it is what the path says."""
    api_version, kind = api_version or resource.api_version, kind or resource.kind
    if isinstance(document, dict):
        check_frame(resource, document)
    if not isinstance(document, dict):
        raise bad_request(f'{kind} in version "{api_version}" cannot be handled as a {kind}: json: cannot unmarshal')
    if resource.custom:
        return _expect_custom(resource, document)
    said_version, said_kind = document.get("apiVersion") or api_version, document.get("kind") or kind
    if (said_version, said_kind) != (api_version, kind):
        raise _other_kind(resource, said_version, said_kind, api_version, kind)
    return {**document, "apiVersion": api_version, "kind": kind}


def _expect_custom(resource: Resource, document: Document) -> Document:
    """A custom object must say its kind, and it must be this one."""
    version, kind = document.get("apiVersion") or "", document.get("kind") or ""
    if not kind:
        text = json.dumps(document, ensure_ascii=False)
        words = f"Object 'Kind' is missing in '{text}' ({text[:32]} ...)"
        raise bad_request(f"the object provided is unrecognized (must be of type {resource.kind}): {words}")
    found = []
    if kind != resource.kind:
        found.append(wrong("kind", kind, f"must be {resource.kind}"))
    if version != resource.api_version:
        found.append(wrong("apiVersion", version, f"must be {resource.api_version}"))
    if found:
        group = version.rpartition("/")[0]
        raise invalid(
            replace_kind(resource, kind=kind, group=group), (document.get("metadata") or {}).get("name") or "", found
        )
    return document


# Groups of whose kinds the real server knows that they are not what was asked for; of others it knows nothing.
_WHERE = "pkg/runtime/scheme.go:111"


def _other_kind(resource: Resource, said_version: str, said_kind: str, api_version: str, kind: str) -> Said:
    """400 for a document of another kind than the path says."""
    version = api_version.rpartition("/")[2]
    if said_version == api_version:
        words = f"converting ({version}.{said_kind}) to ({resource.group or 'core'}.{kind}): unknown conversion"
        return bad_request(f'{said_kind} in version "{version}" cannot be handled as a {kind}: {words}')
    words = f'no kind "{said_kind}" is registered for version "{said_version}" in scheme "{_WHERE}"'
    return bad_request(f'{said_kind} in version "{version}" cannot be handled as a {kind}: {words}')


def take_in(resource: Resource, document: Document, options: Options) -> tuple[Document, list[str]]:
    """What the server understands of a document: unknown fields removed, defaults filled in."""
    pruned, unknown = resource.schema.prune(document)
    said = [f'unknown field "{path}"' for path in unknown]
    if said and options.validation == "Strict":
        listed = ", ".join(said)
        kind, version = resource.kind, resource.version if resource.custom else resource.api_version
        prefix = f'{kind} in version "{version.rpartition("/")[2]}" cannot be handled as a {kind}: '
        raise bad_request(f"{prefix}strict decoding error: {listed}")
    if resource.custom:
        shape = _frame()[0]["properties"]["metadata"]
        pruned = {**pruned, "metadata": typed(pruned.get("metadata") or {}, shape)}
    else:
        pruned = copied(typed(pruned, resource.openapi))
        for cause in resource.schema.validate(pruned):
            if cause.reason == "FieldValueTypeInvalid":
                raise unreadable(resource, cause)
    return pruned, said if options.validation == "Warn" else []


def unreadable(resource: Resource, cause: Cause) -> Said:
    """400 for a field of the wrong type."""
    kind = resource.kind
    return bad_request(
        f'{kind} in version "{resource.version}" cannot be handled as a {kind}: json: cannot unmarshal into field '
        f"{cause.field}: {cause.message}"
    )


def fill_in(resource: Resource, document: Document) -> Document:
    """The document with all defaults."""
    if resource.custom:
        return resource.schema.default(document)
    kept = kept_as(document, resource)
    defaulted(resource.kind, kept)
    kept = with_times(resource.kind, kept)
    return shown_as(kept, resource) if resource.stored != resource.qualified else kept


def create(core: Core, target: Target, document: Document, options: Options) -> Written:
    """Create an object of a document that has the right kind."""
    resource = target.resource
    metadata = document.get("metadata") or {}
    document, warnings = take_in(resource, {**document, "metadata": metadata}, options)
    document = fill_in(resource, document)
    space = (document.get("metadata") or {}).get("namespace") or ""
    if resource.namespaced:
        if space and space != target.namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        if not target.namespace:
            raise bad_request("an empty namespace may not be set during creation")
    elif space:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
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
    if operation != "Apply":
        # Who owns what is settled before admission: what the server adds belongs to nobody.
        document = applying.updated(
            None, document, manager=options.manager, operation=operation, schema=resource.schema, time=core.now()
        )
    document = prepare(core, resource, document)
    warnings += admit(core, resource, "CREATE", document, None)
    found = metadata_causes(resource.kind, document)
    found += (
        resource.schema.validate(document)
        if resource.custom
        else causes(resource.kind, kept_as(document, resource), None)
    )
    if found:
        raise invalid(resource, name, found)
    key = target._replace(name=name).key
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
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    document, warnings = take_in(resource, {**document, "metadata": metadata}, options)
    current = core.store.get(target.key)
    if current is None:
        if resource.upsert and not target.subresource:
            made = create(core, target, document, options)
            return Written(made.status, made.document, warnings + made.warnings)
        raise not_found(resource, name)
    document = fill_in(resource, document)
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
    warnings += admit(core, resource, "UPDATE", new, shown)
    found = update_causes(new, shown)
    if resource.custom:
        found += resource.schema.validate(new, shown)
    elif not target.subresource:
        found += causes(resource.kind, kept_as(new, resource), current)
    if found:
        raise invalid(resource, name, found)
    return Written(200, keep(core, target, current, kept_as(new, resource), options.dry_run), warnings)


def keep(core: Core, target: Target, current: Document, new: Document, dry_run: bool = False) -> Document:
    """Store what replaces `current`, or remove it when nothing holds it any more; as it is shown."""
    resource = target.resource
    try:
        if dry_run:
            kept = new
        elif objects.same(current, new):
            kept = current
        elif objects.gone_with(new) and not (new.get("spec") or {}).get("finalizers"):
            kept = core.store.replace(target.key, new, current["metadata"]["resourceVersion"])
            core.store.remove(target.key)
        else:
            kept = core.store.replace(target.key, new, current["metadata"]["resourceVersion"])
    except Stale as stale:
        raise conflict(resource, target.name) from stale
    return shown_as(kept, resource)


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
    check_frame(resource, new)
    said = (new.get("metadata") or {}).get("name")
    if said != name:
        raise bad_request(f"the name of the object ({said or ''}) does not match the name on the URL ({name})")
    space = (new.get("metadata") or {}).get("namespace") or ""
    if resource.namespaced and space != target.namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    new = expect(resource, new)
    try:
        document, warnings = take_in(resource, new, options)
    except Said as unknown:
        _, found, words = unknown.message.partition("strict decoding error")
        if not found:
            raise
        cause = Cause("FieldValueInvalid", f'Invalid value: "...": {found}{words}', "patch")
        raise Said(422, "Invalid", f' "" is invalid: {cause}', {}, [cause]) from unknown
    document = fill_in(resource, document)
    return put_in_place(core, target, current, document, options, warnings, "Update")


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
    return put_in_place(core, target, current, document, options, warnings, "Apply")
