"""What a client sent becomes a document: JSON, of the right kind, without what nobody knows, with its defaults."""

import json
from dataclasses import replace as replace_kind
from functools import cache
from math import isinf
from typing import Any

import msgspec

from muster.embedded.core import Document, Options, kept_as, shown_as
from muster.embedded.defaults import defaulted
from muster.embedded.exchange import JSON, Said, bad_request, invalid, wrong
from muster.embedded.fields import structural
from muster.embedded.kinds import Resource
from muster.embedded.places import Irregular, copied, metadata_taken
from muster.embedded.refusals import Cause
from muster.embedded.schema import Schema, frame
from muster.embedded.typed import typed, with_times

# How deep a body may be nested.
DEEPEST = 100


def decode(body: bytes, content_type: str) -> Any:
    """The document in a body."""
    kind = content_type.partition(";")[0].strip() or JSON
    if kind not in (JSON, "application/yaml", "*/*"):
        words = "the body of the request was in an unknown format - accepted media types include"
        said = f"{words}: {JSON}, application/yaml, application/vnd.kubernetes.protobuf"
        raise Said(415, "UnsupportedMediaType", said)
    return parse(body)


def _number(text: str) -> float:
    """A number with a point or an exponent. Go writes one that is whole without either, up to a size."""
    value = float(text)
    if isinf(value):
        raise ValueError(f"{text} is too large a number")
    return int(value) if value.is_integer() and abs(value) < 1e21 else value


_DECODER = msgspec.json.Decoder(float_hook=_number)


def parse(body: bytes) -> Any:
    """JSON; kubectl sends JSON under the name of YAML too, and no other YAML is read from the network."""
    try:
        value = _DECODER.decode(body)
    except (ValueError, msgspec.MsgspecError, RecursionError) as bad:
        raise bad_request(f"the body of the request is no JSON: {bad}") from bad
    if not _is_flat(body) and deeper_than(value, DEEPEST):
        raise bad_request(f"the body of the request is nested more than {DEEPEST} deep")
    return value


_NO_BRACKETS = bytes(sorted(set(range(256)) - set(b"{}[]")))


def _is_flat(body: bytes) -> bool:
    """Whether a body certainly is not nested too deep, without a look at its values."""
    brackets = body.translate(None, _NO_BRACKETS)
    if len(brackets) <= 2 * DEEPEST:
        return True
    for _ in range(DEEPEST):
        # All innermost pairs go at once. Brackets in texts may be in the way; then it is not certain.
        inner = brackets.replace(b"{}", b"").replace(b"[]", b"")
        if len(inner) == len(brackets):
            break
        brackets = inner
    return not brackets


def deeper_than(value: Any, most: int) -> bool:
    """Whether a value has more than so many levels of objects and lists."""
    level = [value]
    for _ in range(most + 1):
        level = [
            below
            for one in level
            if isinstance(one, dict | list)
            for below in (one.values() if isinstance(one, dict) else one)
            if isinstance(below, dict | list)
        ]
        if not level:
            return False
    return True


@cache
def _frame() -> tuple[Document, Schema]:
    """What all documents have: their kind and their metadata."""
    pod = structural("v1", "Pod")
    assert pod, "Pods are built in"
    openapi = {"type": "object", "properties": {name: pod["properties"][name] for name in _FRAME}}
    return openapi, Schema(openapi)


_FRAME = ("apiVersion", "kind", "metadata")


def check_frame(resource: Resource, document: Document, known: Document | None = None) -> None:
    """400 unless kind and metadata are of the right types; after this they need no second look.

    What it shares with `known`, the document that is kept, has been looked at before.
    """
    if type(document.get("apiVersion")) is str and type(document.get("kind")) is str:
        try:
            metadata_taken(document.get("metadata"), frame(), known and known["metadata"])
        except Irregular:
            pass
        else:
            return
    openapi, schema = _frame()
    framed = typed({name: document[name] for name in _FRAME if name in document}, openapi)
    for cause in schema.validate(framed):
        if cause.reason == "FieldValueTypeInvalid":
            raise unreadable(resource, cause)


def expect(resource: Resource, document: Any, api_version: str = "", kind: str = "") -> Document:
    """400 unless the document says that it is what the path says."""
    api_version, kind = api_version or resource.api_version, kind or resource.kind
    if not isinstance(document, dict):
        raise bad_request(f'{kind} in version "{api_version}" cannot be handled as a {kind}: json: cannot unmarshal')
    check_frame(resource, document)
    said = document.get("apiVersion") or ""
    if resource.custom and document.get("kind") and said != api_version:
        words = f"the API version in the data ({said}) does not match the expected API version ({api_version})"
        raise bad_request(words)
    return of_kind(resource, document, api_version, kind)


def of_kind(resource: Resource, document: Document, api_version: str = "", kind: str = "") -> Document:
    """400 unless the document, whose kind is a text, says that it is what the path says."""
    api_version, kind = api_version or resource.api_version, kind or resource.kind
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


def completed(
    resource: Resource, document: Document, options: Options, known: Document | None = None
) -> tuple[Document, list[str]]:
    """What the server makes of a document: unknown fields removed, defaults filled in; and what it warns of.

    What it shares with `known`, the document that is kept, is that already.
    """
    fast = resource.schema.taken(document, known)
    if fast is None:
        document, warnings = take_in(resource, document, options)
        return fill_in(resource, document), warnings
    return (fast if resource.custom else fill_in(resource, fast)), []


def take_in(resource: Resource, document: Document, options: Options) -> tuple[Document, list[str]]:
    """What the server understands of a document: unknown fields removed; and what it warns of."""
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
