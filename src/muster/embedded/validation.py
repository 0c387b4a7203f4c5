"""Checks a value against a structural schema, and says what is wrong in the words of the real server.

On an update a value that stayed as it was is not blamed again (the real one calls this ratcheting).
"""

import base64
import binascii
import ipaddress
import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime
from typing import Any

from muster.embedded.fieldsets import ABSENT
from muster.embedded.objects import Document, same_value
from muster.embedded.patterns import Unreadable, pattern
from muster.embedded.quantities import is_quantity
from muster.embedded.refusals import Cause

# Says whether a rule holds of a value, given the old value (None: there is none): True or "", or False, or why not.
Check = Callable[[Any, Any], "str | bool"]
# With one of these, the rules written in CEL are not looked at.
_BLOCKING = frozenset({"FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany"}) | {
    "FieldValueTypeInvalid"
}
_UNCHECKED = Cause(
    "FieldValueInvalid",
    "Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
    "<nil>",
)
RANGES = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}


def causes(value: Any, schema: Document, old: Any = ABSENT, checks: Mapping[str, Check] | None = None) -> list[Cause]:
    """All that is wrong with a value: types and limits, repeated items, and then the rules, if they can be read."""
    found = list(_problems(value, schema, "", old))
    if not list(_repeated(old, schema, "")):
        found += _repeated(value, schema, "")
    if any(cause.reason in _BLOCKING for cause in found):
        return [*found, _UNCHECKED] if _has_rules(schema) else found
    return [*found, *_broken(value, schema, "", old, checks, None)] if checks else found


def broken(
    value: Any, schema: Document, old: Any, checks: Mapping[str, Check], where: frozenset[int] | None = None
) -> list[Cause]:
    """The rules that do not hold; `where` are the parts of the schema that have any."""
    return list(_broken(value, schema, "", old, checks, where))


def ruled(schema: Document) -> set[int]:
    """The parts of a schema that have rules at or below them, by their id()."""
    found = set()
    for below in _below(schema):
        found |= ruled(below)
    if found or schema.get("x-kubernetes-validations"):
        found.add(id(schema))
    return found


def rules(schema: Document) -> Iterator[str]:
    """The texts of all rules of a schema."""
    for rule in schema.get("x-kubernetes-validations") or ():
        yield rule.get("rule", "")
    for below in _below(schema):
        yield from rules(below)


def _has_rules(schema: Document) -> bool:
    return next(rules(schema), None) is not None


def _below(schema: Document) -> Iterator[Document]:
    yield from (schema.get("properties") or {}).values()
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            yield schema[name]


# How causes are worded


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=True)


def invalid(path: str, value: Any, detail: str, reason: str = "FieldValueInvalid") -> Cause:
    """A value that is not allowed."""
    return Cause(reason, f"Invalid value: {_shown(value)}: {detail}", path or "<nil>")


def _body(path: str) -> str:
    return f"{path} in body" if path else " in body"


# Types and limits


def _problems(value: Any, schema: Document, path: str, old: Any) -> Iterator[Cause]:
    if old is not ABSENT and same_value(value, old):
        return
    wrong = _wrong_type(value, schema, path)
    if wrong:
        yield wrong
    if value is None:
        return
    if isinstance(value, str):
        yield from _text(value, schema, path)
    elif isinstance(value, bool):
        pass
    elif isinstance(value, int | float):
        yield from _number(value, schema, path)
    elif isinstance(value, list):
        yield from _list(value, schema, path, old)
    else:
        yield from _object(value, schema, path, old)
    allowed = schema.get("enum")
    if allowed and not any(same_value(value, one) for one in allowed):
        words = ", ".join(json.dumps(one if isinstance(one, str) else json.dumps(one)) for one in allowed)
        yield Cause("FieldValueNotSupported", f"Unsupported value: {_shown(value)}: supported values: {words}", path)
    yield from _combined(value, schema, path)


def _wrong_type(value: Any, schema: Document, path: str) -> Cause | None:
    names = ["integer", "string"] if schema.get("x-kubernetes-int-or-string") else [schema.get("type") or ""]
    if value is None:
        if names == [""] or schema.get("nullable"):
            return None
    elif names == [""] or any(_is(value, name) for name in names):
        return None
    had = _type_of(value)
    if schema.get("format") and value is not None and not isinstance(value, str | list):
        names = [schema["format"]]
        had = {"integer": "int64", "number": "float64"}.get(had, "")
    said = f'{_body(path)} must be of type {",".join(names)}: "{had}"'
    return invalid(path, had, said, "FieldValueTypeInvalid")


def _is(value: Any, name: str) -> bool:
    had = _type_of(value)
    if had == "number" and name == "integer":
        return float(value).is_integer()
    return had == name or (had == "integer" and name == "number")


def _type_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    for type_, name in ((str, "string"), (int, "integer"), (float, "number"), (list, "array")):
        if isinstance(value, type_):
            return name
    return "object"


def _text(value: str, schema: Document, path: str) -> Iterator[Cause]:
    longest, shortest, form = schema.get("maxLength"), schema.get("minLength"), schema.get("pattern")
    if longest is not None and len(value) > longest:
        word = "byte" if longest == 1 else "bytes"
        yield Cause("FieldValueTooLong", f"Too long: may not be more than {longest} {word}", path)
    elif shortest is not None and len(value) < shortest:
        yield invalid(path, value, f"{_body(path)} should be at least {shortest} chars long")
    elif form and not matcher(form)(value):
        yield invalid(path, value, f"{_body(path)} should match '{form}'")
    is_format = FORMATS.get(str(schema.get("format", "")).replace("-", ""))
    if is_format and not is_format(value):
        said = f"{_body(path)} must be of type {schema['format']}: {json.dumps(value, ensure_ascii=False)}"
        yield invalid(path, value, said, "FieldValueTypeInvalid")


def matcher(text: str) -> Callable[[str], bool]:
    """Whether a value is as the pattern of a schema says; nothing is, if nobody can read the pattern."""
    try:
        return pattern(text).matches
    except Unreadable:
        return lambda value: False


def _number(value: float, schema: Document, path: str) -> Iterator[Cause]:
    low, high = RANGES.get(schema.get("format", ""), RANGES["int64"])
    if schema.get("type") == "integer" and not (low <= value <= high and float(value).is_integer()):
        name = schema.get("format")
        kind = f"with format {name}" if name else "(default format)"
        yield invalid("", "", f"Checked value must be of type integer {kind} in {path}")
    if schema.get("multipleOf") and value % schema["multipleOf"]:
        yield invalid(path, value, f"{_body(path)} should be a multiple of {_shown(schema['multipleOf'])}")
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is not None and (value <= least if schema.get("exclusiveMinimum") else value < least):
        than = "greater than" if schema.get("exclusiveMinimum") else "greater than or equal to"
        yield invalid(path, value, f"{_body(path)} should be {than} {_shown(least)}")
    if most is not None and (value >= most if schema.get("exclusiveMaximum") else value > most):
        than = "less than" if schema.get("exclusiveMaximum") else "less than or equal to"
        yield invalid(path, value, f"{_body(path)} should be {than} {_shown(most)}")


def _list(value: list[Any], schema: Document, path: str, old: Any) -> Iterator[Cause]:
    items = schema.get("items") or {}
    before = _matched(value, schema, old)
    for row, item in enumerate(value):
        yield from _problems(item, items, f"{path}[{row}]", before[row])
    least, most = schema.get("minItems"), schema.get("maxItems")
    if least is not None and len(value) < least:
        yield invalid(path, len(value), f"{_body(path)} should have at least {least} items")
    if most is not None and len(value) > most:
        word = "item" if most == 1 else "items"
        yield Cause("FieldValueTooMany", f"Too many: {len(value)}: must have at most {most} {word}", path)
    if schema.get("uniqueItems") and any(same_value(a, b) for i, a in enumerate(value) for b in value[:i]):
        yield invalid(path, "", f"{_body(path)} shouldn't contain duplicates")


def _matched(value: list[Any], schema: Document, old: Any) -> list[Any]:
    """For every item the old one of the same keys; a list without keys has none."""
    keys = schema.get("x-kubernetes-list-map-keys")
    if not isinstance(old, list) or schema.get("x-kubernetes-list-type") != "map" or not keys:
        return [ABSENT] * len(value)
    known = {_key(item, keys): item for item in old if isinstance(item, dict)}
    return [known.get(_key(item, keys), ABSENT) if isinstance(item, dict) else ABSENT for item in value]


def _key(item: Document, keys: list[str]) -> str:
    return json.dumps([item.get(key) for key in keys], sort_keys=True)


def _object(value: Document, schema: Document, path: str, old: Any) -> Iterator[Cause]:
    least, most = schema.get("minProperties"), schema.get("maxProperties")
    if least is not None and len(value) < least:
        yield invalid(path, len(value), f"{_body(path)} should have at least {least} properties")
    if most is not None and len(value) > most:
        word = "item" if most == 1 else "items"
        yield Cause("FieldValueTooMany", f"Too many: {len(value)}: must have at most {most} {word}", path)
    properties, more = schema.get("properties") or {}, schema.get("additionalProperties")
    for name, below in value.items():
        place = properties.get(name, more)
        if isinstance(place, dict):
            before = old.get(name, ABSENT) if isinstance(old, dict) else ABSENT
            yield from _problems(below, place, f"{path}.{name}" if path else name, before)
    for name in schema.get("required") or ():
        if name not in value:
            yield Cause("FieldValueRequired", "Required value", f"{path}.{name}" if path else name)


def _combined(value: Any, schema: Document, path: str) -> Iterator[Cause]:
    for part in schema.get("allOf") or ():
        yield from _problems(value, part, path, ABSENT)
    where = f'"{path}"'
    some = schema.get("anyOf") or ()
    if some and all(any(_problems(value, part, path, ABSENT)) for part in some):
        yield invalid("", "", f"{where} must validate at least one schema (anyOf)")
        yield from _problems(value, some[0], path, ABSENT)
    one = schema.get("oneOf") or ()
    fitting = sum(not any(_problems(value, part, path, ABSENT)) for part in one)
    if one and fitting != 1:
        which = f"Found {fitting} valid alternatives" if fitting else "Found none valid"
        yield invalid("", "", f"{where} must validate one and only one schema (oneOf). {which}")
    if "not" in schema and not any(_problems(value, schema["not"], path, ABSENT)):
        yield invalid("", "", f"{where} must not validate the schema (not)")


# Lists that may not repeat an item


def _repeated(value: Any, schema: Document, path: str) -> Iterator[Cause]:
    if isinstance(value, dict):
        properties, more = schema.get("properties") or {}, schema.get("additionalProperties")
        for name, below in value.items():
            if name in properties:
                yield from _repeated(below, properties[name], f"{path}.{name}" if path else name)
            elif isinstance(more, dict):
                yield from _repeated(below, more, f"{path}[{name}]")
    elif isinstance(value, list):
        yield from _repeated_items(value, schema, path)
        for row, item in enumerate(value):
            yield from _repeated(item, schema.get("items") or {}, f"{path}[{row}]")


def _repeated_items(value: list[Any], schema: Document, path: str) -> Iterator[Cause]:
    type_ = schema.get("x-kubernetes-list-type")
    if type_ not in ("set", "map"):
        return
    keys = schema.get("x-kubernetes-list-map-keys") or []
    if type_ == "map":
        for row, item in enumerate(value):
            if item is not None and not isinstance(item, dict):
                yield invalid(f"{path}[{row}]", item, "must be an object for an array of list-type map")
                return
    seen: dict[str, int] = {}
    for row, item in enumerate(value):
        said = item if type_ == "set" else {key: item[key] for key in keys if key in item} if item else {}
        text = json.dumps(said, sort_keys=True)
        seen[text] = seen.get(text, 0) + 1
        if seen[text] == 2:
            yield Cause("FieldValueDuplicate", f"Duplicate value: {_shown(said)}", f"{path}[{row}]")


# Rules in CEL: who knows what a text means hands in a function for it


def _broken(
    value: Any, schema: Document, path: str, old: Any, checks: Mapping[str, Check], where: frozenset[int] | None
) -> Iterator[Cause]:
    if where is not None and id(schema) not in where:
        return
    unchanged = old is not ABSENT and same_value(value, old)
    for rule in schema.get("x-kubernetes-validations") or ():
        yield from _asked(rule, value, schema, path, old, checks, unchanged=unchanged)
    if isinstance(value, dict):
        properties, more = schema.get("properties") or {}, schema.get("additionalProperties")
        for name, below in value.items():
            before = old.get(name, ABSENT) if isinstance(old, dict) else ABSENT
            if name in properties:
                yield from _broken(below, properties[name], f"{path}.{name}" if path else name, before, checks, where)
            elif isinstance(more, dict):
                yield from _broken(below, more, f"{path}[{name}]", before, checks, where)
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for row, (item, before) in enumerate(zip(value, _matched(value, schema, old), strict=True)):
            yield from _broken(item, schema["items"], f"{path}[{row}]", before, checks, where)


def _asked(
    rule: Document, value: Any, schema: Document, path: str, old: Any, checks: Mapping[str, Check], *, unchanged: bool
) -> Iterator[Cause]:
    text = rule.get("rule", "")
    moves = re.search(r"\boldSelf\b", text) is not None
    check = checks.get(text)
    if check is None or (moves and old is ABSENT) or (unchanged and not moves) or value is None:
        return
    answer = check(value, None if old is ABSENT else old)
    if answer is True or answer == "":
        return
    said = answer if isinstance(answer, str) else str(rule.get("message") or f"failed rule: {text}").strip()
    reason = rule.get("reason") or "FieldValueInvalid"
    where = (path + rule.get("fieldPath", "")) or "<nil>"
    if reason in ("FieldValueForbidden", "FieldValueRequired"):
        word = "Forbidden" if reason == "FieldValueForbidden" else "Required value"
        yield Cause(reason, f"{word}: {said}", where)
    elif schema.get("type") in ("object", "array"):
        yield Cause(reason, f"Invalid value: {said}", where)
    else:
        yield Cause(reason, f"Invalid value: {_shown(value)}: {said}", where)


# Formats


def _address(version: int) -> Callable[[str], bool]:
    def is_address(text: str) -> bool:
        try:
            return ipaddress.ip_address(text).version == version
        except ValueError:
            return False

    return is_address


def _is_cidr(text: str) -> bool:
    try:
        return "/" in text and bool(ipaddress.ip_interface(text))
    except ValueError:
        return False


def _is_datetime(text: str) -> bool:
    if not re.fullmatch(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[-+]\d\d:\d\d)", text):
        return False
    try:
        datetime.fromisoformat(re.sub(r"\.\d+", "", text.upper()).replace("Z", "+00:00"))
    except ValueError:
        return False
    return True


def _is_micro_time(text: str) -> bool:
    """A time with six digits after the point, neither more nor fewer."""
    return re.search(r"[0-9]\.[0-9]{6}[^0-9]", text) is not None and _is_datetime(text)


def _is_date(text: str) -> bool:
    try:
        return re.fullmatch(r"\d{4}-\d\d-\d\d", text) is not None and bool(date.fromisoformat(text))
    except ValueError:
        return False


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _matching(pattern: str) -> Callable[[str], bool]:
    return lambda text: re.fullmatch(pattern, text) is not None


_LABEL = r"[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?"
_DURATION = (
    r"[-+]?(0|((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))+)"
    r"|\d+ ?(ns|us|ms|s|m|h|d|w|[a-z]*seconds?|minutes?|hours?|days?|weeks?)"
)
# The formats that are checked, without their hyphens; all others say nothing, as in the real one.
FORMATS: Mapping[str, Callable[[str], bool]] = {
    "byte": _is_base64,
    "cidr": _is_cidr,
    "date": _is_date,
    "datetime": _is_datetime,
    "duration": _matching(_DURATION),
    "email": _matching(r"[^@\s]+@[^@\s]+"),
    "hostname": _matching(rf"(?=.{{1,255}}\Z){_LABEL}(\.{_LABEL})*\.?"),
    "ipv4": _address(4),
    "ipv6": _address(6),
    "k8slongname": _matching(r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"),
    "k8sshortname": _matching(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"),
    "quantity": is_quantity,  # built-in kinds have it: CRDs write a pattern
    "microtime": _is_micro_time,
    "mac": _matching(r"([0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}"),
    "uri": _matching(r"([A-Za-z][-+.A-Za-z0-9]*:\S+|/\S*)"),
    "uuid": _matching(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}"),
}
