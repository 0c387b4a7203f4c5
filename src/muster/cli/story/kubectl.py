"""What kubectl sends for the few commands that explanations propose, so that a remedy can be carried out as printed."""

import json
import shlex
from collections.abc import Iterator
from typing import Any, NamedTuple

from muster.api.kinds import OUR_KINDS
from muster.errors import UsageError
from muster.sim.stage import MERGE, folder_of

JSON_PATCH = "application/json-patch+json"
_PATCHES = {"json": JSON_PATCH, "merge": MERGE}


class Sent(NamedTuple):
    """A request."""

    method: str
    path: str
    body: Any
    content_type: str


def requests_of(command: str) -> Iterator[Sent]:
    """The requests of `kubectl uncordon`, `patch` and `delete pod`, several joined by &&. Raises UsageError."""
    words = shlex.split(command)
    while words:
        end = words.index("&&") if "&&" in words else len(words)
        yield from _one(words[:end], command)
        words = words[end + 1 :]


def _one(words: list[str], command: str) -> Iterator[Sent]:
    plain, options = _parted(words)
    namespace = options.get("-n", "default")
    if plain[:2] == ["kubectl", "uncordon"]:
        for node in plain[2:]:
            yield Sent("PATCH", f"{folder_of('Node')}/{node}", {"spec": {"unschedulable": None}}, MERGE)
    elif plain[:3] == ["kubectl", "delete", "pod"]:
        for pod in plain[3:]:
            yield Sent("DELETE", f"{folder_of('Pod', namespace)}/{pod}", None, "")
    elif plain[:2] == ["kubectl", "patch"] and len(plain) == 4:
        kind = next((one.name for one in OUR_KINDS if f"{one.plural}.{one.group}" == plain[2]), "")
        content = _PATCHES.get(options.get("--type", ""), "")
        if not kind or not content:
            raise _unknown(command)
        yield Sent("PATCH", f"{folder_of(kind, namespace)}/{plain[3]}", json.loads(options["-p"]), content)
    else:
        raise _unknown(command)


def _parted(words: list[str]) -> tuple[list[str], dict[str, str]]:
    """The plain words, and the options with their values."""
    plain, options, at = [], {}, 0
    while at < len(words):
        word = words[at]
        if word.startswith("--"):
            name, _, value = word.partition("=")
            options[name] = value
        elif word.startswith("-"):
            options[word] = words[at + 1]
            at += 1
        else:
            plain.append(word)
        at += 1
    return plain, options


def _unknown(command: str) -> UsageError:
    return UsageError(f"can't carry out {command[:200]}", "choose another remedy")
