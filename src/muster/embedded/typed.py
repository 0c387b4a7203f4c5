"""What a round trip through the typed structs of the real server does to a document of a built-in kind.

Fields that are empty disappear, quantities come back in their short form, null is nothing. The schema says what a field
is; which of them the real server can tell from empty (its pointers) is in small tables here.
"""

from datetime import UTC, datetime
from typing import Any

from muster.embedded.quantities import canonical

Document = dict[str, Any]

# Booleans and numbers that vanish when they are false or zero; all others keep what was written.
_FALSE = frozenset(
    [
        "unschedulable",
        "hostNetwork",
        "hostPID",
        "hostIPC",
        "globalDefault",
        "paused",
        "readOnly",
        "stdin",
        "stdinOnce",
        "tty",
        "preserveUnknownFields",
        "deprecated",
    ]
)
_ZERO = frozenset(
    [
        "active",
        "succeeded",
        "failed",
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "fullyLabeledReplicas",
        "observedGeneration",
        "count",
        "minReadySeconds",
        "initialDelaySeconds",
        "hostPort",
        "generation",
        "terminatingReplicas",
    ]
)
# Texts that are kept when they are empty.
_EMPTY = frozenset(["type", "storageClassName", "serviceName", "name", "phase", "value", "note", "message", "reason"])


def typed(value: Any, schema: Document) -> Any:
    """The document as it comes back."""
    if schema.get("format") == "quantity":
        return canonical(value)
    if schema.get("format") == "date-time" and isinstance(value, str):
        return _time(value)
    if schema.get("format") == "micro-time" and isinstance(value, str):
        return micro_time(value)
    if isinstance(value, dict):
        return _object(value, schema)
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        return [typed(one, schema["items"]) for one in value]
    return value


def _object(value: Document, schema: Document) -> Document:
    properties = schema.get("properties")
    if properties is None:
        below = schema.get("additionalProperties")
        if not isinstance(below, dict):
            return value
        empty = "" if below.get("type") == "string" else None
        kept = {key: empty if one is None else typed(one, below) for key, one in value.items()}
        return {key: one for key, one in kept.items() if one is not None}
    needed = schema.get("required", ())
    found = {}
    for key, one in value.items():
        below = properties.get(key)
        if below is None:
            found[key] = one
        elif not vanishes(key, one, below, needed):
            found[key] = typed(one, below)
    return found


def vanishes(key: str, value: Any, schema: Document, needed: Any) -> bool:
    """Whether a field with this value is as good as none."""
    if value is None:
        return True
    if key in needed:
        return False
    if value == "":
        return key not in _EMPTY and schema.get("format") not in ("date-time", "micro-time")
    if value is False:
        return key in _FALSE
    if value == 0 and isinstance(value, int):
        return key in _ZERO
    if value == []:
        return schema.get("type") == "array"
    return value == {} and "additionalProperties" in schema


def _time(text: str) -> str:
    """A time in UTC, without fractions."""
    return text if len(text) == 20 and text.endswith("Z") else _in_utc(text, "%Y-%m-%dT%H:%M:%SZ")


def micro_time(text: str) -> str:
    """A time in UTC, with its microseconds."""
    if len(text) == 27 and text.endswith("Z"):
        return text
    # As many digits as there are, and an offset.
    return _in_utc(text, "%Y-%m-%dT%H:%M:%S.%fZ") if len(text) == 32 else text


def _in_utc(text: str, form: str) -> str:
    """A time in another form; what is none, or none in UTC, stays as it is."""
    try:
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC).strftime(form) if moment.tzinfo else text
    except (ValueError, OverflowError):
        return text


def with_times(kind: str, document: Document) -> Document:
    """Conditions of pods and nodes always have their times, even those that nobody knows."""
    times = _TIMES.get(kind)
    conditions = (document.get("status") or {}).get("conditions") if times else None
    if not times or not isinstance(conditions, list):
        return document
    if all(name in one for one in conditions for name in times):
        return document
    unknown = dict.fromkeys(times)
    status = {**document["status"], "conditions": [{**unknown, **one} for one in conditions]}
    return {**document, "status": status}


_TIMES = {"Pod": ("lastProbeTime", "lastTransitionTime"), "Node": ("lastHeartbeatTime", "lastTransitionTime")}
