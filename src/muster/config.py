"""The configuration: one file, one schema, and for every value where it came from.

Each package owns its part as a struct; here they are put together. A value comes from a flag (`--set key=value`), else
from the environment (`MUSTER_VALIDATION_ZERO_MINIMUM`), else from the file (`--config`, `MUSTER_CONFIG`), else it is
the default. What nobody knows is an error with a suggestion.
"""

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Annotated, Any, NamedTuple

import msgspec

from muster.api.documents import Limits, Problem, child_path, shown
from muster.api.gpus import QueuesConfig, check_weights
from muster.api.model import note
from muster.api.nearest import Nearest
from muster.api.priorities import Priorities
from muster.api.scalars import plain_scalar
from muster.api.schema import OBJECT, Form, conform, form_of
from muster.api.validation.context import Settings
from muster.errors import UsageError
from muster.grouping.language.limits import Limits as ExpressionLimits
from muster.grouping.registry import check_prefer

PREFIX = "MUSTER_"
FILE_VARIABLE = "MUSTER_CONFIG"

# What Kubernetes puts into every container for a Service whose name starts with muster.
_SERVICE_LINK = re.compile(r"MUSTER_(.*_)?(SERVICE_HOST|SERVICE_PORT(_.*)?|PORT(_[0-9]+_(TCP|UDP|SCTP)(_[A-Z]+)?)?)")
_OURS_ELSEWHERE = re.compile(r"MUSTER_(CONFIG|TRACEBACK|TEST_.*)")


class PlacementConfig(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """How pods are placed."""

    strategy: Annotated[
        str,
        note(
            "Inside a domain: binpack fills nodes one by one, spread evens out what is left.",
            enum=["binpack", "spread"],
        ),
    ] = "binpack"


class SearchConfig(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """What a search may cost."""

    steps_per_gang: Annotated[int, note("Steps for one gang in one cycle.", minimum=1)] = 20_000
    steps_per_cycle: Annotated[
        int, note("Steps for all gangs in one cycle; one gang gets half of them at most.", minimum=1)
    ] = 40_000


class GroupingConfig(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """How workloads become gangs."""

    prefer: Annotated[
        list[Annotated[str, note("user, built-in, or Kind.group=user|built-in.", minLength=1, maxLength=400)]],
        note(
            "Whose ResourceInterface is asked first: user or built-in, for all kinds or as RayCluster.ray.io=built-in.",
            maxItems=256,
        ),
    ] = msgspec.field(default_factory=lambda: ["user"])
    expressions: Annotated[ExpressionLimits, note("What expressions may cost.")] = ExpressionLimits()


class LogConfig(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """What `muster run` writes about itself."""

    level: Annotated[
        str, note("The least important lines that are written.", enum=["debug", "info", "warning", "error"])
    ] = "info"
    format: Annotated[
        str,
        note("auto is text on a terminal and json elsewhere: one object a line.", enum=["auto", "json", "text"]),
    ] = "auto"


class WebhookConfig(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The admission webhook of `muster run`."""

    certificate: Annotated[
        str,
        note(
            "A file with the serving certificate (PEM), read again when it changes. Empty: muster makes its own.",
            maxLength=4096,
        ),
    ] = ""
    key: Annotated[str, note("The file with its private key.", maxLength=4096)] = ""


class PageConfig(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The page of `muster run`, `muster demo` and `muster ui`."""

    enabled: Annotated[
        str,
        note(
            "Whether muster run serves the page. auto: outside of a cluster, for this machine alone; in a cluster not.",
            enum=["auto", "always", "never"],
        ),
    ] = "auto"
    listen: Annotated[
        str,
        note(
            "Where it listens, as HOST:PORT. Empty: 127.0.0.1:8420 or the next free port; in a cluster :8420.",
            maxLength=300,
        ),
    ] = ""
    hosts: Annotated[
        list[Annotated[str, note("A host name, with or without a port.", minLength=1, maxLength=300)]],
        note("Further names that the page answers to, such as that of an ingress.", maxItems=64),
    ] = msgspec.field(default_factory=list)
    sign_in: Annotated[
        str,
        note(
            "Who may look. auto: whoever has the printed address, in a cluster as with cluster: whoever has a token of "
            "it, by their own rights.",
            enum=["auto", "cluster"],
        ),
    ] = "auto"


class Config(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Everything that can be set."""

    default_queue: Annotated[str, note("The queue of gangs that name none.", minLength=1, maxLength=253)] = (
        "default-queue"
    )
    scheduler_names: Annotated[
        list[Annotated[str, note("A schedulerName.", minLength=1, maxLength=253)]],
        note("The pods with one of these names in spec.schedulerName are muster's.", minItems=1, maxItems=64),
    ] = msgspec.field(default_factory=lambda: ["kai-scheduler"])
    placement: Annotated[PlacementConfig, note("How pods are placed.")] = PlacementConfig()
    search: Annotated[SearchConfig, note("What a search may cost.")] = SearchConfig()
    grouping: Annotated[GroupingConfig, note("How workloads become gangs.")] = GroupingConfig()
    queues: Annotated[QueuesConfig, note("What queues count.")] = QueuesConfig()
    validation: Annotated[Settings, note("How strictly objects are judged.")] = Settings()
    priorities: Annotated[Priorities, note("Whose priorities count.")] = Priorities()
    log: Annotated[LogConfig, note("What muster run writes about itself.")] = LogConfig()
    webhook: Annotated[WebhookConfig, note("The admission webhook of muster run.")] = WebhookConfig()
    page: Annotated[PageConfig, note("The page.")] = PageConfig()
    input: Annotated[Limits, note("What is read at most.")] = Limits()


class Setting(NamedTuple):
    """One value, and where it came from."""

    key: str
    value: Any
    source: str


class Loaded(NamedTuple):
    """The configuration and the story of every value."""

    config: Config
    settings: list[Setting]


def load(
    document: Any = None,
    *,
    file: str = "",
    environment: Mapping[str, str] | None = None,
    flags: Iterable[str] = (),
) -> Loaded:
    """Puts the sources together. Raises UsageError that names every problem at once."""
    keys = known_keys()
    problems: list[str] = []
    values: dict[str, Setting] = {}
    for key, value in _from_file(document, file, problems).items():
        values[key] = Setting(key, value, f"file {file}")
    for name, text in sorted((environment or {}).items()):
        found = _key_of_variable(name, keys, problems)
        if found:
            _set(values, found, text, f"environment {name}", keys, problems)
    nearest = Nearest(keys)
    for flag in flags:
        key, equals, text = flag.partition("=")
        if not equals:
            problems.append(f"--set {shown(flag)} has no value: write --set key=value")
        elif key not in keys:
            problems.append(f"--set {shown(key)} is not a known key; {nearest.hint(key) or 'see: muster config'}")
        else:
            _set(values, key, text, "flag --set", keys, problems)
    if problems:
        raise UsageError("the configuration is wrong:\n  " + "\n  ".join(problems), "muster config shows every key")
    check_prefer(values["grouping.prefer"].value if "grouping.prefer" in values else ())
    config = msgspec.convert(as_document(values.values()), Config)
    check_weights(config.queues.gpu_weights)
    return Loaded(
        config,
        [values.get(key) or Setting(key, default, "default") for key, default in keys.items()],
    )


def known_keys() -> dict[str, Any]:
    """Every key with its default, in the order of the schema."""
    defaults = msgspec.to_builtins(Config())
    return {key: _at(defaults, key) for key in _leaves(form_of(Config))}


def _leaves(form: Form) -> dict[str, Form]:
    found: dict[str, Form] = {}
    waiting = [("", form)]
    while waiting:
        path, at = waiting.pop(0)
        if at.kind == OBJECT:
            waiting.extend((child_path(path, name), field) for name, field in at.fields.items())
        else:
            found[path] = at
    return found


def _at(document: Any, key: str) -> Any:
    for part in key.split("."):
        document = document[part]
    return document


def _from_file(document: Any, file: str, problems: list[str]) -> dict[str, Any]:
    if document is None:
        return {}
    found: list[Problem] = []
    fitting = conform(document, form_of(Config), "", found, strict=True)
    for path, message, hint, _ in found:
        problems.append(f"{file}: {path or 'the file'} {message}" + (f"; {hint}" if hint else ""))
    return {key: _at(fitting, key) for key in known_keys() if _has(fitting, key)}


def _has(document: Any, key: str) -> bool:
    for part in key.split("."):
        if not isinstance(document, dict) or part not in document:
            return False
        document = document[part]
    return True


def variable_of(key: str) -> str:
    """The environment variable of a key: `validation.zeroMinimum` is MUSTER_VALIDATION_ZERO_MINIMUM."""
    return PREFIX + re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", key).replace(".", "_").upper()


def _key_of_variable(name: str, keys: Iterable[str], problems: list[str]) -> str:
    if not name.startswith(PREFIX) or _OURS_ELSEWHERE.fullmatch(name):
        return ""
    variables = {variable_of(key): key for key in keys}
    if name in variables:
        return variables[name]
    if not _SERVICE_LINK.fullmatch(name):
        hint = Nearest(variables).hint(name) or "see: muster config -o wide"
        problems.append(f"the environment variable {name} is not known; {hint}")
    return ""


def _set(
    values: dict[str, Setting], key: str, text: str, source: str, keys: Mapping[str, Any], problems: list[str]
) -> None:
    form = _leaves(form_of(Config))[key]
    value = _value_of(text, keys[key])
    found: list[Problem] = []
    fitting = conform(value, form, key, found, strict=True)
    problems.extend(f"{source}: {path} {message}" + (f"; {hint}" if hint else "") for path, message, hint, _ in found)
    values[key] = Setting(key, fitting, source)


def _value_of(text: str, default: Any) -> Any:
    """What the text of a flag or variable means; a list is written with commas, one of mappings as JSON."""
    if isinstance(default, list):
        if text.startswith("[{") or text == "[]":
            with suppress(msgspec.DecodeError):
                return msgspec.json.decode(text)
        return [part.strip() for part in text.split(",") if part.strip()]
    return text if isinstance(default, str) else plain_scalar(text)


def in_words(value: Any) -> str:
    """A value as a flag or variable has it."""
    if isinstance(value, list) and any(isinstance(one, dict) for one in value):
        return msgspec.json.encode(value).decode()
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def as_document(settings: Iterable[Setting]) -> dict[str, Any]:
    """The settings as a configuration file holds them."""
    document: dict[str, Any] = {}
    for setting in settings:
        *parents, last = setting.key.split(".")
        at = document
        for parent in parents:
            at = at.setdefault(parent, {})
        at[last] = setting.value
    return document
