"""Label selectors and field selectors: a text becomes a question to a document."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, NoReturn

from muster.embedded.objects import Document
from muster.embedded.refusals import Refused

Selects = Callable[[Document], bool]

_TOKEN = re.compile(r"\s*(?:(?P<word>[^\s=!(),<>]+)|(?P<sign>==|!=|[=!(),<>])|(?P<end>$))")
_OPERATORS = {"=": "=", "==": "=", "!=": "!=", "in": "in", "notin": "notin", ">": ">", "<": "<"}
_OPERATORS_IN_WORDS = "in, notin, =, ==, !=, gt, lt"
_NAME = re.compile(r"(?:[A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_SUBDOMAIN = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")

# The fields that may be asked for, apart from metadata.name and metadata.namespace; the real ones.
FIELDS: Mapping[str, tuple[str, ...]] = {
    "pods": (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.podIPs",
        "status.nominatedNodeName",
    ),
    "nodes": ("spec.unschedulable",),
    "namespaces": ("status.phase",),
    "secrets": ("type",),
    "services": ("spec.clusterIP", "spec.type"),
    "events": (
        *(f"involvedObject.{name}" for name in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion")),
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "source",
        "type",
    ),
    "events.events.k8s.io": (
        *(f"regarding.{name}" for name in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion")),
        "regarding.fieldPath",
        "reason",
        "reportingController",
        "type",
    ),
    "jobs.batch": ("status.successful",),
}
# Fields of one name of an Event that other versions call otherwise.
_ALIASES = {"regarding": "involvedObject", "reportingController": "reportingComponent"}
_BOOLEANS = frozenset({"spec.unschedulable", "spec.hostNetwork"})


class Requirement(NamedTuple):
    """One part of a label selector."""

    key: str
    operator: str  # exists, !, =, !=, in, notin, >, <
    values: frozenset[str] = frozenset()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether labels fulfil it. A missing label fulfils != and notin."""
        there = self.key in labels
        if self.operator == "exists":
            return there
        if self.operator == "!":
            return not there
        if self.operator in ("=", "in"):
            return there and labels[self.key] in self.values
        if self.operator in ("!=", "notin"):
            return not there or labels[self.key] not in self.values
        if not there or not re.fullmatch(r"[-+]?\d+", labels[self.key]):
            return False
        (bound,) = self.values
        value = int(labels[self.key])
        return value > int(bound) if self.operator == ">" else value < int(bound)


def labels(text: str) -> Selects:
    """What a label selector asks for. Raises Refused (400) for a text that is none."""
    requirements = tuple(parsed(text))
    if not requirements:
        return lambda document: True

    def selects(document: Document) -> bool:
        found = (document.get("metadata") or {}).get("labels") or {}
        return all(requirement.holds(found) for requirement in requirements)

    return selects


def selector(spec: Mapping[str, Any] | None) -> Selects:
    """What a LabelSelector document asks for: None selects nothing, an empty one everything."""
    if spec is None:
        return lambda document: False
    requirements = [Requirement(key, "=", frozenset([value])) for key, value in (spec.get("matchLabels") or {}).items()]
    operators = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}
    for part in spec.get("matchExpressions") or ():
        if part.get("operator") not in operators:
            _bad(f'"{part.get("operator")}" is not a valid label selector operator')
        values = frozenset(part.get("values") or ())
        requirements.append(Requirement(part.get("key", ""), operators[part["operator"]], values))

    def selects(document: Document) -> bool:
        found = (document.get("metadata") or {}).get("labels") or {}
        return all(requirement.holds(found) for requirement in requirements)

    return selects


def parsed(text: str) -> Iterator[Requirement]:
    """The requirements of a label selector."""
    tokens = _tokens(text)
    at = 0
    while tokens[at]:
        if tokens[at] in ",()=><" or tokens[at] in ("==", "!="):
            _bad(f"found '{tokens[at]}', expected: !, identifier, or 'end of string'")
        requirement, at = _requirement(tokens, at)
        yield requirement
        if not tokens[at]:
            return
        if tokens[at] != ",":
            _bad(f"found '{tokens[at]}', expected: ',' or 'end of string'")
        at += 1
        if not _is_word(tokens[at]) and tokens[at] != "!":
            _bad(f"found '{tokens[at]}', expected: identifier after ','")


def _tokens(text: str) -> list[str]:
    """Words and signs; the last one is empty."""
    found: list[str] = []
    at = 0
    while True:
        match = _TOKEN.match(text, at)
        assert match, "every character is part of a token"
        if match["end"] is not None:
            return [*found, "", "", ""]
        found.append(match["word"] or match["sign"])
        at = match.end()


def _is_word(token: str) -> bool:
    return bool(token) and token not in ("=", "==", "!=", "!", "(", ")", ",", "<", ">")


def _requirement(tokens: list[str], at: int) -> tuple[Requirement, int]:
    absent = tokens[at] == "!"
    at += absent
    key = tokens[at]
    if not _is_word(key):
        _bad(f"unable to parse requirement: found '{key}', expected: identifier")
    _check_key(key)
    at += 1
    if absent or tokens[at] in ("", ","):
        return Requirement(key, "!" if absent else "exists"), at
    operator = _OPERATORS.get(tokens[at])
    if operator is None:
        _bad(f"unable to parse requirement: found '{tokens[at]}', expected: {_OPERATORS_IN_WORDS}")
    at += 1
    if operator in ("in", "notin"):
        values, at = _set(tokens, at)
    elif tokens[at] in ("", ","):
        values = frozenset([""])
    elif _is_word(tokens[at]):
        values = frozenset([tokens[at]])
        at += 1
    else:
        _bad(f"unable to parse requirement: found '{tokens[at]}', expected: identifier")
    _check_values(key, operator, values)
    return Requirement(key, operator, values), at


def _set(tokens: list[str], at: int) -> tuple[frozenset[str], int]:
    """`(a, b)`; an empty place between commas is the empty value."""
    if tokens[at] != "(":
        _bad(f"unable to parse requirement: found '{tokens[at]}' expected: '('")
    values: set[str] = set()
    open_ = True  # a value may stand here
    at += 1
    while tokens[at] != ")":
        if tokens[at] == ",":
            if open_:
                values.add("")
            open_ = True
        elif _is_word(tokens[at]) and open_:
            values.add(tokens[at])
            open_ = False
        else:
            expected = "',' or ')'" if not open_ else "',', ')' or identifier"
            _bad(f"unable to parse requirement: found '{tokens[at]}', expected: {expected}")
        at += 1
    if open_:
        values.add("")
    return frozenset(values), at + 1


def _check_key(key: str) -> None:
    prefix, slash, name = key.rpartition("/")
    problems = []
    if "/" in prefix:
        _bad(
            f'unable to parse requirement: <nil>: Invalid value: "{key}": a valid label key {_NAME_RULE}{_PREFIX_RULE}'
        )
    if slash and not prefix:
        problems.append("prefix part must be non-empty")
    elif slash and (not _SUBDOMAIN.fullmatch(prefix) or len(prefix) > 253):
        problems.append("prefix part " + _SUBDOMAIN_RULE)
    if not name:
        problems.append("name part must be non-empty")
    if len(name) > 63:
        problems.append("name part must be no more than 63 bytes")
    if not _NAME.fullmatch(name):
        problems.append("name part " + _NAME_RULE)
    if problems:
        _bad(f'unable to parse requirement: <nil>: Invalid value: "{key}": {"; ".join(problems)}')


def _check_values(key: str, operator: str, values: frozenset[str]) -> None:
    for place, value in enumerate(sorted(values)):
        if operator in "<>" and not re.fullmatch(r"[-+]?\d+", value):
            _bad(
                f'unable to parse requirement: values[{place}]: Invalid value: "{value}": '
                "for 'Gt', 'Lt' operators, the value must be an integer"
            )
        problems = []
        if len(value) > 63:
            problems.append("must be no more than 63 bytes")
        if value and not _NAME.fullmatch(value):
            problems.append(_VALUE_RULE)
        if problems:
            where = f"values[{place}][{key}]"
            _bad(f'unable to parse requirement: {where}: Invalid value: "{value}": {"; ".join(problems)}')


def _bad(message: str) -> NoReturn:
    raise Refused(400, "BadRequest", message)


_NAME_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_PREFIX_RULE = " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


def fields(text: str, resource: str, selectable: tuple[str, ...] = ()) -> Selects:
    """What a field selector asks for, as far as the resource allows. Raises Refused (400) for all else.

    `selectable` are the fields that a CRD adds by `selectableFields`.
    """
    terms = []
    for part in sorted(_split(text)):
        if not part:
            continue
        match = re.match(r"(.*?)(==|!=|=)(.*)", part, re.DOTALL)
        if not match:
            _bad(f"invalid selector: '{text}'; can't understand '{part}'")
        field = "spec.nodeName" if match[1] == "spec.host" and resource == "pods" else match[1]
        _check_field(field, resource, selectable)
        terms.append((tuple(field.split(".")), field, match[2] != "!=", _unescaped(match[3])))
    if not terms:
        return lambda document: True
    return lambda document: all(
        (_text(document, path, field) == value) == wanted for path, field, wanted, value in terms
    )


def _split(text: str) -> list[str]:
    return re.findall(r"(?:\\.|[^,\\]|\\$)+|(?<=,)(?=,)", text)


def _unescaped(text: str) -> str:
    found = re.sub(r"\\(.)", lambda match: match[1] if match[1] in "\\,=" else match[0], text)
    bad = re.search(r"\\([^\\,=]|$)", text.replace("\\\\", ""))
    if bad:
        _bad(f"invalid field selector: invalid escape sequence: {bad[0]}")
    if "=" in re.sub(r"\\.", "", text):
        _bad(f"invalid field selector: unescaped character in value: {ord('=')}")
    return found


def _check_field(field: str, resource: str, selectable: tuple[str, ...]) -> None:
    known = FIELDS.get(resource, ())
    # Namespaces and nodes have no namespace to ask for.
    common = ("metadata.name",) if resource in ("namespaces", "nodes") else ("metadata.name", "metadata.namespace")
    if field in common or field in known or field in selectable:
        return
    if resource == "jobs.batch":
        _bad(f'field label "{field}" not supported for Job')
    group = resource.partition(".")[2]
    # Custom resources have a group with a dot, and it is not one of Kubernetes' own.
    if resource in FIELDS or ("." in group and not group.endswith(".k8s.io")):
        _bad(f"field label not supported: {field}")
    _bad(f'"{field}" is not a known field selector: only "metadata.name", "metadata.namespace"')


def _text(document: Document, path: tuple[str, ...], field: str) -> str:
    """The value of a field as a selector compares it: missing is empty, or false."""
    if field == "source":
        return str((document.get("source") or {}).get("component") or document.get("reportingComponent") or "")
    if field == "status.successful":
        return str((document.get("status") or {}).get("succeeded") or 0)
    if field == "status.podIPs":
        return ",".join(one.get("ip", "") for one in (document.get("status") or {}).get("podIPs") or ())
    value: Any = document
    for name in path:
        if not isinstance(value, dict):
            return ""
        value = value[name] if name in value else value.get(_ALIASES.get(name, name))
    if field in _BOOLEANS:
        return "true" if value else "false"
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
