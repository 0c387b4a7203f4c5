"""Whether the schemas of a definition can be used: each word of the right type, each pattern readable."""

from collections.abc import Callable, Iterator
from typing import Any

from muster.embedded.exchange import bad_request, denied, duplicate, required, unsupported, wrong
from muster.embedded.patterns import Unreadable, pattern
from muster.embedded.refusals import Cause

Document = dict[str, Any]
_TYPES = ("array", "boolean", "integer", "number", "object", "string")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _are_objects(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, dict) for one in value)


def _are_named(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(one, dict) for one in value.values())


def _are_rules(value: Any) -> bool:
    return _are_objects(value) and all(
        isinstance(text, str) for one in value for text in one.values() if text is not None
    )


def _table() -> dict[str, tuple[str, Callable[[Any], bool]]]:
    """What each word of a schema must be."""
    words: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
        ("string", lambda value: isinstance(value, str), "type format pattern title description"),
        ("string", lambda value: isinstance(value, str), "x-kubernetes-list-type x-kubernetes-map-type"),
        ("number", _is_number, "minimum maximum multipleOf"),
        ("integer", _is_whole, "maxLength minLength maxItems minItems maxProperties minProperties"),
        ("boolean", lambda value: isinstance(value, bool), "exclusiveMinimum exclusiveMaximum uniqueItems nullable"),
        ("boolean", lambda value: isinstance(value, bool), "x-kubernetes-preserve-unknown-fields"),
        ("boolean", lambda value: isinstance(value, bool), "x-kubernetes-embedded-resource x-kubernetes-int-or-string"),
        ("list of strings", _are_texts, "required x-kubernetes-list-map-keys"),
        ("list", lambda value: isinstance(value, list), "enum"),
        ("list of objects", _are_objects, "allOf anyOf oneOf"),
        ("list of rules", _are_rules, "x-kubernetes-validations"),
        ("object", lambda value: isinstance(value, dict), "not"),
        ("object", lambda value: isinstance(value, dict | list), "items"),
        ("object or boolean", lambda value: isinstance(value, dict | bool), "additionalProperties"),
        ("object of objects", _are_named, "properties"),
    )
    return {word: (name, fits) for name, fits, more in words for word in more.split()}


_WORDS = _table()


def definition_causes(spec: Document) -> list[Cause]:
    """What is wrong with the versions of a definition and their schemas; 400 if a word is of the wrong type."""
    versions = spec.get("versions") or []
    found = [required(f"spec.versions[{row}].name") for row, one in enumerate(versions) if not one.get("name")]
    schemas = [(one.get("schema") or {}).get("openAPIV3Schema") for one in versions]
    # The real one keeps what all versions have in common in one place, and so it names that.
    shared = bool(schemas) and all(one == schemas[0] for one in schemas)
    for row, schema in enumerate(schemas[:1] if shared else schemas):
        path = "spec.validation" if shared else f"spec.versions[{row}].schema"
        if schema is not None:
            found += _causes(schema, f"{path}.openAPIV3Schema")
    return found + _selectable_causes(versions, schemas)


_MOST_SELECTABLE = 8
_SELECTABLE = (
    "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."
)


def _selectable_causes(versions: list[Document], schemas: list[Any]) -> list[Cause]:
    """What is wrong with the fields that may be selected by."""
    fields = [one.get("selectableFields") or [] for one in versions]
    shared = bool(fields) and all(one == fields[0] for one in fields)
    found = []
    for row, listed in enumerate(fields[:1] if shared else fields):
        path = "spec.selectableFields" if shared else f"spec.versions[{row}].selectableFields"
        taken: set[str] = set()
        for place, one in enumerate(listed):
            cause = _unselectable(one.get("jsonPath") or "", f"{path}[{place}].jsonPath", schemas[row] or {}, taken)
            found += [cause] if cause else []
        if len(taken) > _MOST_SELECTABLE:
            said = f"Too many: {len(taken)}: must have at most {_MOST_SELECTABLE} items"
            found.append(Cause("FieldValueTooMany", said, path))
    return found


def _unselectable(text: str, path: str, schema: Document, taken: set[str]) -> Cause | None:
    """Why nobody can select by a field; those by which one can are taken once."""
    if not text:
        return required(path)
    if not text.startswith("."):
        first = text.split(".", maxsplit=1)[0]
        return wrong(path, text, f"is an invalid path: expected [ or . but got: {first}")
    if "[" in text:
        return wrong(path, text, "is an invalid path: array notation is not allowed")
    for name in text[1:].split("."):
        below = (schema.get("properties") or {}).get(name)
        if below is None:
            return wrong(path, text, "is an invalid path: does not refer to a valid field")
        schema = below
    if schema.get("type") not in ("string", "boolean", "integer"):
        return wrong(path, text, _SELECTABLE)
    if text in taken:
        return duplicate(path, text)
    taken.add(text)
    return None


def _causes(schema: Document, path: str) -> Iterator[Cause]:
    for word, value in schema.items():
        name, fits = _WORDS.get(word, ("", None))
        if value is not None and fits is not None and not fits(value):
            kind = "CustomResourceDefinition"
            said = f"json: cannot unmarshal into field {path}.{word}: must be of type {name}"
            raise bad_request(f'{kind} in version "v1" cannot be handled as a {kind}: {said}')
    if schema.get("type") and schema["type"] not in _TYPES:
        yield unsupported(f"{path}.type", schema["type"], _TYPES)
    if isinstance(schema.get("items"), list):
        yield denied(f"{path}.items", "items must be a schema object and not an array")
    if schema.get("pattern"):
        try:
            pattern(schema["pattern"])
        except Unreadable as bad:
            said = f"must be a valid regular expression, but isn't: error parsing regexp: {bad.message}"
            yield wrong(f"{path}.pattern", schema["pattern"], said)
    for below, where in _below(schema):
        yield from _causes(below, f"{path}.{where}")


def _below(schema: Document) -> Iterator[tuple[Document, str]]:
    yield from ((below, f"properties[{name}]") for name, below in (schema.get("properties") or {}).items())
    for word in ("items", "not", "additionalProperties"):
        if isinstance(schema.get(word), dict):
            yield schema[word], word
    for word in ("allOf", "anyOf", "oneOf"):
        yield from ((below, f"{word}[{row}]") for row, below in enumerate(schema.get(word) or ()))
