"""Reads the protobuf in which Go clients send built-in kinds; answers are JSON, which all of them take.

`wire.json` has the numbers of the fields; it is written by `python -m fidelity.wire`.
"""

import base64
import json
import struct
from collections.abc import Callable, Iterator
from functools import cache
from importlib.resources import files
from typing import Any

from muster.embedded.exchange import Said, bad_request
from muster.embedded.fields import definitions, names
from muster.embedded.objects import micro_timestamp, timestamp

Document = dict[str, Any]
Fields = dict[int, Any]
CONTENT_TYPE = "application/vnd.kubernetes.protobuf"
MAGIC = b"k8s\x00"
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
DEEPEST = 60
_META = "k8s.io.apimachinery.pkg.apis.meta.v1"


@cache
def _messages() -> dict[str, dict[str, list[str]]]:
    found: dict[str, dict[str, list[str]]] = json.loads(
        files("muster.embedded").joinpath("wire.json").read_text("utf-8")
    )
    return found


def decoded(body: bytes) -> Document:
    """The document in a body: 400 if it is no protobuf, 415 if it is of a kind whose fields nobody knows here."""
    try:
        if not body.startswith(MAGIC):
            raise ValueError("the prefix is missing")
        envelope: Fields = dict(_fields(body[len(MAGIC) :]))
        kind = {number: value.decode() for number, value in _fields(envelope.get(1, b""))}
        api_version, name = kind.get(1, ""), kind.get(2, "")
        message = _message_of(api_version, name)
        return {"apiVersion": api_version, "kind": name, **_read(envelope.get(2, b""), message, 0)}
    except (ValueError, AttributeError, TypeError, struct.error, IndexError) as bad:
        raise bad_request(f"the body of the request is no protobuf: {bad}") from bad


def _message_of(api_version: str, kind: str) -> str:
    if kind == "DeleteOptions":
        return f"{_META}.DeleteOptions"
    found = names().get((api_version, kind), "").replace("io.k8s.", "k8s.io.", 1)
    if found not in _messages():
        said = f"{kind} in version {api_version} is not read as protobuf here: send JSON"
        raise Said(415, "UnsupportedMediaType", said)
    return found


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a message as they come: their number, and a number or bytes."""
    place = 0
    while place < len(data):
        key, place = _varint(data, place)
        kind = key & 7
        if kind == VARINT:
            value: Any
            value, place = _varint(data, place)
        elif kind == BYTES:
            length, place = _varint(data, place)
            value = data[place : place + length]
            if len(value) != length:
                raise ValueError("a field ends too early")
            place += length
        elif kind in (FIXED64, FIXED32):
            size = 8 if kind == FIXED64 else 4
            value = struct.unpack_from("<d" if kind == FIXED64 else "<f", data, place)[0]
            place += size
        else:
            raise ValueError(f"wire type {kind}")
        yield key >> 3, value


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[place]
        value |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:
            # Negative numbers are written as 64 bits.
            return (value - (1 << 64) if value >> 63 else value), place
        if shift > 63:
            raise ValueError("a number is too long")


def _read(data: bytes, message: str, depth: int) -> Document:
    if depth > DEEPEST:
        raise ValueError("too deep")
    known = _messages()[message]
    shown = definitions().get(message.replace("k8s.io.", "io.k8s.", 1), {}).get("properties")
    found: Document = {}
    for number, value in _fields(data):
        if str(number) not in known:
            continue
        name, kind, how = known[str(number)]
        if how == "map":
            entry: Fields = dict(_fields(value))
            found.setdefault(name, {})[entry.get(1, b"").decode()] = _value(entry.get(2, b""), kind, depth)
            continue
        one = _value(value, kind, depth)
        if how == "many":
            found.setdefault(name, []).append(one)
        elif isinstance(one, dict) and shown is not None and name not in shown:
            # A struct within a struct that JSON does not show.
            found |= one
        elif one is not None and one != "":
            found[name] = one
    return found


def _value(value: Any, kind: str, depth: int) -> Any:
    if kind == "string":
        return value.decode()
    if kind == "bool":
        return bool(value)
    if kind == "bytes":
        return base64.b64encode(value).decode()
    if kind in ("int32", "int64", "double"):
        return value
    special = _SPECIAL.get(kind)
    return special(dict(_fields(value))) if special else _read(value, kind, depth + 1)


def _time(fields: Fields) -> str | None:
    return timestamp(fields[1]) if fields.get(1) else None


def _micro_time(fields: Fields) -> str | None:
    return micro_timestamp(fields[1] + fields.get(2, 0) / 1e9) if fields.get(1) else None


def _int_or_string(fields: Fields) -> int | str:
    return str(fields.get(3, b"").decode()) if fields.get(1) else int(fields.get(2, 0))


def _raw(fields: Fields) -> Any:
    return json.loads(fields[1]) if fields.get(1) else None


_SPECIAL: dict[str, Callable[[Fields], Any]] = {
    f"{_META}.Time": _time,
    f"{_META}.MicroTime": _micro_time,
    f"{_META}.FieldsV1": _raw,
    "k8s.io.apimachinery.pkg.runtime.RawExtension": _raw,
    "k8s.io.apimachinery.pkg.util.intstr.IntOrString": _int_or_string,
    "k8s.io.apimachinery.pkg.api.resource.Quantity": lambda fields: fields.get(1, b"0").decode(),
}
