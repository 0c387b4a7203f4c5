"""The form of every struct as data, and the check of a document against it that finds everything at once.

A decoder stops at the first problem. `conform` walks a whole document along its form, reports each wrong type, range
and unknown field with its path, leaves the bad values out, and gives what remains to the struct, so that the rules
behind it can go on and report theirs in the same answer.
"""

import math
import re
from datetime import datetime
from functools import cache
from itertools import islice
from typing import Any

import msgspec
from msgspec import inspect

from muster.api import duration, quantity
from muster.api.documents import Problem, child_path, shown
from muster.api.model import INT32_MAX
from muster.api.nearest import Nearest
from muster.errors import BadObject

OBJECT, MAP, LIST, UNION, ANY = "object", "map", "list", "union", "any"
INTEGER, NUMBER, STRING, BOOLEAN, TIME = "integer", "number", "string", "boolean", "time"

_WORDS = {
    OBJECT: "a mapping",
    MAP: "a mapping",
    LIST: "a list",
    INTEGER: "a whole number",
    NUMBER: "a number",
    STRING: "text",
    BOOLEAN: "true or false",
    TIME: "a time such as 2026-01-31T12:00:00Z",
}
_EPOCH = "1970-01-01T00:00:00Z"
_ZERO: dict[str, Any] = {
    OBJECT: {},
    MAP: {},
    LIST: [],
    INTEGER: 0,
    NUMBER: 0,
    STRING: "",
    BOOLEAN: False,
    TIME: _EPOCH,
}
_LEFT_OUT = object()
# Text that breaks its form is kept up to this length where it can be printed: it may be a name that others refer to.
_MAX_NAME = 253


class Form:
    """What may stand at one place of a document, with the notes of the field: description, enum, minimum, …"""

    def __init__(self, kind: str, notes: dict[str, Any] | None = None) -> None:
        self.kind = kind
        self.notes = notes or {}
        self.fields: dict[str, Form] = {}
        self.required: tuple[str, ...] = ()
        self.item: Form | None = None
        self.options: tuple[Form, ...] = ()
        self.struct: type | None = None

    def noted(self, notes: dict[str, Any]) -> "Form":
        """The same form under a field's own notes; those that the field does not set stay."""
        if not notes:
            return self
        form = Form(self.kind, {**self.notes, **notes})
        form.fields, form.required, form.struct = self.fields, self.required, self.struct
        form.item, form.options = self.item, self.options
        return form


@cache
def form_of(struct: type) -> Form:
    """The form of a struct, made once."""
    return _Forms().of(inspect.type_info(struct))


class _Forms:
    """Makes forms from msgspec's types; a struct that holds itself is made once and referred to."""

    def __init__(self) -> None:
        self._made: dict[type, Form] = {}

    def of(self, found: inspect.Type) -> Form:
        if isinstance(found, inspect.Metadata):
            return self.of(found.type).noted(found.extra_json_schema or {})
        if isinstance(found, inspect.StructType):
            return self._of_struct(found)
        if isinstance(found, inspect.UnionType):
            options = [self.of(option) for option in found.types if not isinstance(option, inspect.NoneType)]
            if len(options) == 1:
                return options[0]
            form = Form(UNION)
            form.options = tuple(options)
            return form
        if isinstance(found, inspect.ListType):
            form = Form(LIST)
            form.item = self.of(found.item_type)
            return form
        if isinstance(found, inspect.DictType):
            form = Form(MAP)
            form.item = self.of(found.value_type)
            return form
        if isinstance(found, inspect.CustomType):
            assert found.cls is object, found
            return Form(ANY)
        return Form(_SCALARS[type(found)])

    def _of_struct(self, found: inspect.StructType) -> Form:
        if found.cls in self._made:
            return self._made[found.cls]
        form = self._made[found.cls] = Form(OBJECT, {"description": (found.cls.__doc__ or "").strip()})
        form.struct = found.cls
        form.required = tuple(field.encode_name for field in found.fields if field.required)
        # Filled in place: a field may hold this very struct.
        for field in found.fields:
            form.fields[field.encode_name] = self.of(field.type)
        return form


_SCALARS: dict[type, str] = {
    inspect.IntType: INTEGER,
    inspect.FloatType: NUMBER,
    inspect.StrType: STRING,
    inspect.BoolType: BOOLEAN,
    inspect.DateTimeType: TIME,
    inspect.AnyType: ANY,
}


def conform(value: Any, form: Form, path: str, problems: list[Problem], *, strict: bool) -> Any:
    """The part of `value` that has the form; what has not is left out and reported. `strict`: unknown fields too."""
    fitting = _conform(value, form, path, problems, strict)
    return _zero(form) if fitting is _LEFT_OUT else fitting


def _conform(value: Any, form: Form, path: str, problems: list[Problem], strict: bool) -> Any:
    if form.kind == ANY:
        return value
    if form.kind == UNION:
        return _conform_union(value, form, path, problems, strict)
    mismatch = _type_mismatch(value, form)
    if mismatch:
        hint = mismatch.strip() or f"write {_WORDS[form.kind]}"
        problems.append(Problem(path, f"must be {_WORDS[form.kind]}, not {shown(value)}", hint))
        # A number where a name belongs still names something: what refers to it can be judged.
        return shown(value) if form.kind == STRING and isinstance(value, int | float) else _LEFT_OUT
    broken = _broken_note(value, form)
    if broken:
        problems.append(Problem(path, *broken, unread=form.item is None))
        if form.item is not None:
            value = _cut(value, form.notes)
        elif not (isinstance(value, str) and len(value) <= _MAX_NAME and value.isprintable()):
            return _LEFT_OUT
    if form.kind == OBJECT:
        return _conform_object(value, form, path, problems, strict)
    if form.kind == LIST:
        return _conform_list(value, form, path, problems, strict)
    if form.kind == MAP:
        assert form.item is not None
        found = {
            key: _conform(item, form.item, child_path(path, key), problems, strict)
            for key, item in value.items()
            if item is not None
        }
        return {key: item for key, item in found.items() if item is not _LEFT_OUT}
    return value


def _conform_union(value: Any, form: Form, path: str, problems: list[Problem], strict: bool) -> Any:
    for option in form.options:
        if not _type_mismatch(value, option):
            return _conform(value, option.noted(form.notes), path, problems, strict)
    words = " or ".join(_WORDS[option.kind] for option in form.options)
    problems.append(Problem(path, f"must be {words}, not {shown(value)}", f"write {words}"))
    return _LEFT_OUT


def _conform_object(value: dict[str, Any], form: Form, path: str, problems: list[Problem], strict: bool) -> Any:
    known = Nearest(form.fields)
    fitting: dict[str, Any] = {}
    for key, item in value.items():
        field = form.fields.get(key)
        if field is None:
            if strict:
                hint = known.hint(key) or f"known here: {', '.join(sorted(form.fields))}"
                problems.append(Problem(child_path(path, key), "is not a known field", hint))
            continue
        # Null is the same as absent, as everywhere in Kubernetes.
        found = _LEFT_OUT if item is None else _conform(item, field, child_path(path, key), problems, strict)
        if found is not _LEFT_OUT:
            fitting[key] = found
    for name in form.required:
        if value.get(name) is None:
            words = _WORDS.get(form.fields[name].kind, "a value")
            problems.append(Problem(child_path(path, name), "is missing", f"add {name}: {words}"))
        if name not in fitting:
            fitting[name] = _zero(form.fields[name])
    return fitting


def _conform_list(value: list[Any], form: Form, path: str, problems: list[Problem], strict: bool) -> list[Any]:
    """Items of objects keep their places, so that paths stay true: one that is no object becomes an empty one."""
    assert form.item is not None
    fitting = []
    for index, item in enumerate(value):
        found = _conform(item, form.item, f"{path}[{index}]", problems, strict)
        if found is not _LEFT_OUT:
            fitting.append(found)
        elif form.item.kind == OBJECT:
            fitting.append(_zero(form.item))
    return fitting


def _cut(value: Any, notes: dict[str, Any]) -> Any:
    """Of a list or mapping that is too long, as much as it may hold."""
    if isinstance(value, list):
        return value[: notes.get("maxItems")]
    return dict(islice(value.items(), notes.get("maxProperties")))


def _zero(form: Form) -> Any:
    if form.kind == OBJECT:
        return {name: _zero(form.fields[name]) for name in form.required}
    return _ZERO[form.options[0].kind if form.kind == UNION else form.kind]


def _type_mismatch(value: Any, form: Form) -> str | None:
    """None when the type is right, else what to do about it (nothing comes to mind: a space)."""
    kind = form.kind
    if kind in (OBJECT, MAP):
        return None if isinstance(value, dict) else " "
    if kind == LIST:
        return None if isinstance(value, list) else "write it as a list, one item a line, each after '- '"
    if kind == BOOLEAN:
        return None if isinstance(value, bool) else "write true or false, without quotes"
    if kind == INTEGER:
        return None if isinstance(value, int) and not isinstance(value, bool) else _integer_hint(value)
    if kind == NUMBER:
        right = (isinstance(value, int) and not isinstance(value, bool)) or (
            isinstance(value, float) and math.isfinite(value)
        )
        return None if right else _integer_hint(value)
    if kind == TIME:
        return None if _is_time(value) else "write it as 2026-01-31T12:00:00Z"
    if isinstance(value, str):
        return None
    if form.notes.get("x-muster-type") == "duration" and isinstance(value, int) and not isinstance(value, bool):
        return f'write "{value}s"'
    return "put it in quotes" if isinstance(value, int | float) else " "


def _integer_hint(value: Any) -> str:
    if isinstance(value, str) and re.fullmatch(r"[-+]?(0|[1-9][0-9]{0,19})", value):
        return f"remove the quotes: {value}"
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return f"write {int(value)}"
    return " "


def _is_time(value: Any) -> bool:
    try:
        return msgspec.convert(value, datetime).tzinfo is not None
    except msgspec.ValidationError:
        return False


def _broken_note(value: Any, form: Form) -> tuple[str, str] | None:
    """The first of the field's notes that the value breaks, as message and hint."""
    notes = form.notes
    if isinstance(value, str):
        return _broken_text(value, notes)
    if isinstance(value, int | float):
        if "enum" in notes and value not in notes["enum"]:
            return f"must be one of {_listed(notes['enum'])}, not {shown(value)}", "write one of them"
        if "minimum" in notes and value < notes["minimum"]:
            least = notes["minimum"]
            says = "must not be negative" if least == 0 else f"must not be less than {least}"
            return says, f"write {least} or more"
        most = notes.get("maximum", INT32_MAX if notes.get("format") == "int32" else 2**63 - 1)
        if value > most:
            return f"must not be over {most}", f"write {most} or less"
        if value < -most - 1:
            return f"must not be less than {-most - 1}", f"write {-most - 1} or more"
    if isinstance(value, list) and not notes.get("minItems", 0) <= len(value) <= notes.get("maxItems", math.inf):
        wanted = _range(notes.get("minItems", 0), notes.get("maxItems"))
        return f"must have {wanted} items, not {len(value):,}", f"write {wanted}"
    if isinstance(value, dict) and len(value) > notes.get("maxProperties", math.inf):
        return f"must have at most {notes['maxProperties']:,} entries, not {len(value):,}", "use fewer"
    return None


def _broken_text(value: str, notes: dict[str, Any]) -> tuple[str, str] | None:
    if "enum" in notes and value not in notes["enum"]:
        words = [word for word in notes["enum"] if word]
        return f"must be one of {_listed(words)}, not {shown(value)}", Nearest(words).hint(value) or "write one of them"
    if notes.get("x-muster-type") == "duration":
        try:
            duration.parse_ns(value)
        except BadObject as error:
            return error.message, error.hint
        return None
    if notes.get("x-muster-type") == "quantity":
        try:
            quantity.parse(value)
        except BadObject as error:
            return error.message, error.hint
        return None
    wanted = notes.get("x-muster-says")
    if len(value) < notes.get("minLength", 0):
        return (f"must be {wanted}" if wanted and value else "must not be empty"), "write something"
    if len(value) > notes.get("maxLength", math.inf):
        says = f"must be {wanted}" if wanted else f"must have at most {notes['maxLength']} characters"
        return f"{says}; this has {len(value):,} characters", "shorten it"
    if "pattern" in notes and not re.fullmatch(notes["pattern"], value):
        return f"must be {wanted or 'of the form ' + notes['pattern']}, not {shown(value)}", "rename it"
    return None


def _listed(words: list[Any]) -> str:
    return ", ".join(str(word) for word in words)


def _range(least: int, most: int | None) -> str:
    if most is None:
        return f"at least {least}"
    return f"{least} to {most:,}" if least else f"at most {most:,}"
