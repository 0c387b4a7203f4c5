"""Plays a story (a list of requests) against a server, and makes the answers of two servers comparable."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

Document = dict[str, Any]
# (method, path with query, headers, body) -> (status, headers, body)
Send = Callable[[str, str, Mapping[str, str], bytes], tuple[int, list[tuple[str, str]], bytes]]

UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
AGE = re.compile(r"\d+[smhdy](\d+[smhd])?")
PLACE = re.compile(r"<<([a-z0-9]+):([^>]+)>>")


class Step(NamedTuple):
    """One request. `<<saved:metadata.uid>>` in path and body is taken from an answer that was saved under that name.

    `compare` False: it only prepares. `until`: it is asked again until the answer has this code (what takes a while).
    """

    method: str
    path: str
    body: Any = None
    content_type: str = "application/json"
    accept: str = "application/json"
    agent: str = ""
    save: str = ""
    compare: bool = True
    until: int = 0
    raw: str | None = None

    @property
    def is_watch(self) -> bool:
        """Whether the answer is a stream."""
        return "watch=true" in self.path


class Story(NamedTuple):
    """Requests in a namespace of their own: `{ns}` in paths and bodies is its name."""

    name: str
    steps: tuple[Step, ...]


class Played(NamedTuple):
    """An answer that can be compared: its code, its warnings, its body."""

    status: int
    warnings: list[str]
    body: Any


def namespace_of(story: Story) -> str:
    """The namespace in which a story plays."""
    return f"f-{story.name}"[:50].strip("-")


def play(story: Story, send: Send, again: Callable[[], None]) -> list[Played]:
    """The answers to the steps that are compared. `again` waits a moment before a step is repeated."""
    space = namespace_of(story)
    headers = {"Accept": "application/json", "Content-Type": "application/json"}
    made = json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}})
    status, _, _ = send("POST", "/api/v1/namespaces", headers, made.encode())
    assert status == 201, (story.name, status)
    saved: dict[str, Any] = {}
    same = Sameness(space)
    found = []
    for step in story.steps:
        status, got, body = _ask(step, space, saved, send, again)
        if step.is_watch and status == 200:
            value: Any = [json.loads(line) for line in body.splitlines() if line.strip()]
        else:
            value = _value(body, got)
        if step.save:
            saved[step.save] = value
        if step.compare:
            warnings = [text for name, text in got if name.lower() == "warning"]
            found.append(Played(status, [str(same(text)) for text in warnings], same(value)))
        else:
            assert status < 400, (story.name, step, body)
    return found


def _value(body: bytes, headers: Iterable[tuple[str, str]]) -> Any:
    kinds = [text for name, text in headers if name.lower() == "content-type"]
    if any("json" in kind for kind in kinds):
        return json.loads(body)
    return body.decode()


def _ask(
    step: Step, space: str, saved: Mapping[str, Any], send: Send, again: Callable[[], None]
) -> tuple[int, list[tuple[str, str]], bytes]:
    headers = {"Accept": step.accept}
    text = step.raw
    if step.body is not None:
        text = json.dumps(step.body)
    if text is not None:
        headers["Content-Type"] = step.content_type
    if step.agent:
        headers["User-Agent"] = step.agent
    body = _filled(text or "", space, saved, plain=True).encode()
    path = _filled(step.path, space, saved, plain=False)
    for _ in range(100):
        status, got, answer = send(step.method, path, headers, body)
        if not step.until or status == step.until:
            break
        again()
    return status, got, answer


def _filled(text: str, space: str, saved: Mapping[str, Any], plain: bool) -> str:
    def value(match: re.Match[str]) -> str:
        found = saved[match[1]]
        for name in match[2].split("."):
            found = found[int(name)] if isinstance(found, list) else found[name]
        return str(found) if plain else quote(str(found), safe="")

    return PLACE.sub(value, text.replace("{ns}", space))


class Sameness:
    """Takes out of answers what differs from run to run: uids, versions, times, ages, tokens, generated names."""

    def __init__(self, space: str) -> None:
        self._uids: dict[str, str] = {}
        self._space = space

    def __call__(self, value: Any, key: str = "") -> Any:
        """The value, comparable."""
        if isinstance(value, dict):
            return self._object(value, key)
        if isinstance(value, list):
            found = [self(one, key) for one in value]
            return sorted(found, key=_sorting) if key in ("managedFields", "causes") else found
        if isinstance(value, str):
            return self._text(value, key)
        return value

    def _object(self, value: Document, key: str) -> Document:
        if value.get("kind") == "Table":
            value = {**value, "columnDefinitions": _columns(value.get("columnDefinitions"))}
        if value.get("kind") == "Status" and value.get("reason") == "Invalid":
            value = _once(value)
        if "generateName" in value and "name" in value:
            value = {**value, "name": value["generateName"] + "*"}
        if key == "matchLabels" or key == "labels" or key.startswith("f:"):
            return {self._text(name, ""): self(one, name) for name, one in value.items()}
        left_out = ("storageVersionHash", "time") if "operation" in value else ("storageVersionHash",)
        return {name: self(one, name) for name, one in value.items() if name not in left_out}

    def _text(self, text: str, key: str) -> str:
        if key == "resourceVersion" and text:
            return "version"
        if key == "continue" and text:
            return "token"
        if key == "cells" and AGE.fullmatch(text):
            return "age"
        text = UID.sub(lambda match: self._uids.setdefault(match[0], f"uid-{len(self._uids)}"), text)
        text = TIME.sub("time", text)
        text = re.sub(
            r"(ResourceVersion in (?:precondition|object meta|the precondition|record)[ :(]+)\d+", r"\1version", text
        )
        text = re.sub(r"too old resource version: \d+ \(\d+\)", "too old resource version", text)
        text = re.sub(r"(Too large resource version: \d+, current: )\d+", r"\1version", text)
        # Where etcd keeps it; what was sent, as Go prints it.
        text = re.sub(r"StorageError: .*AdditionalErrorMsg: ", "", text)
        words = "strict decoding|converting|no kind|Object 'Kind'"
        text = re.sub(rf'Invalid value: ".*": ({words})', r"Invalid value: \1", text)
        # How a time, or a field of the wrong type, is refused: in words of Go, and in ours.
        text = re.sub(r"(cannot be handled as a \w+: )(parsing time|json: cannot unmarshal) .*", r"\1unreadable", text)
        text = re.sub(r"(continue key is not valid).*", r"\1", text)
        text = re.sub(r"(Object 'Kind' is missing).*", r"\1", text)
        text = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1", text)
        # What changed, as a diff of Go structs.
        return text.partition(" (allow it to be set to 1 if it was previously negative)\n")[0]


def _sorting(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _once(status: Document) -> Document:
    """The real server names some causes several times."""
    details = status.get("details") or {}
    causes = []
    for cause in details.get("causes") or ():
        if cause not in causes:
            causes.append(cause)
    message, found, _ = status["message"].partition(" is invalid: ")
    return {**status, "message": message + found, "details": {**details, "causes": causes}}


def _columns(found: Any) -> Any:
    if not found:
        return found
    return [{name: value for name, value in one.items() if name != "description"} for one in found]
