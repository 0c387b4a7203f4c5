"""Bytes become documents: YAML 1.2 and JSON, bounded in size and depth, one bad document never costs another.

Aliases are written out within a limit, as they are how a small file becomes a large object. Tags that would make
anything but plain data are refused. `yes`, `on` and dates stay text, as in YAML 1.2. A key that stands twice is
reported; the first one counts.
"""

import json
import re
from collections.abc import Iterator
from copy import deepcopy
from functools import partial
from itertools import pairwise
from typing import Annotated, Any, NamedTuple

import msgspec
import yaml

from muster.api.scalars import is_doubtful, kubectl_scalar, plain_scalar
from muster.errors import UnreadableInput

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MARKER = re.compile(r"^(?:---|\.\.\.)(?=[ \t\r\n]|\Z)", re.MULTILINE)
# Possessive throughout: a comment must not be tried in parts, which takes exponential time.
_EMPTY = re.compile(r"(?:---|\.\.\.)?+(?:[ \t\r\n]|#[^\n]*+|^%[^\n]*+)*+\Z", re.MULTILINE)
_LIST_KIND = re.compile(r"""^["']?kind["']?[ \t]*:[ \t]*["']?[A-Za-z]*List["']?[ \t]*\r?$""", re.MULTILINE)
_JSON_START = re.compile(r"(?:(?:---|\.\.\.)(?=[ \t\r\n]))?+(?:[ \t\r\n]|#[^\n]*+)*+(?=\{)")
_JSON_SPACE = re.compile(r"(?:[ \t\r\n]|#[^\n]*+)*+")
_JSON_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*+"?|[\[\]{}]')
# After so many documents that can't be read, the rest of the stream counts as one of them.
_MAX_UNREAD_JSON = 100
_TAGS = {f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "map", "seq")}
_TEXT_TAG = "tag:yaml.org,2002:str"


class Limits(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """What is read at most."""

    max_file_bytes: Annotated[int, msgspec.Meta(extra_json_schema={"minimum": 1})] = 64 * 1024 * 1024
    max_documents: Annotated[int, msgspec.Meta(extra_json_schema={"minimum": 1})] = 100_000
    max_document_bytes: Annotated[int, msgspec.Meta(extra_json_schema={"minimum": 1})] = 1024 * 1024
    max_depth: Annotated[int, msgspec.Meta(extra_json_schema={"minimum": 1, "maximum": 200})] = 100
    # What the aliases of one document repeat, in values; 64 characters of text are one.
    max_repeated: Annotated[int, msgspec.Meta(extra_json_schema={"minimum": 0, "maximum": 1_000_000})] = 100_000


class Problem(NamedTuple):
    """Something that is wrong with a document before it is looked at as an object."""

    path: str
    message: str
    hint: str = ""
    # Whether nothing of the value could be used. What depends on it can't be judged then.
    unread: bool = True


class EnoughError(Exception):
    """As many problems were found as the caller wants to hear of."""


class Problems(list[Problem]):
    """Problems in the order in which they are found; the one after `most` ends the search with EnoughError.

    Problems of the status are no reason to refuse an object: they don't end the search, and the first `most` are kept.
    """

    def __init__(self, most: int | None = None) -> None:
        super().__init__()
        self._most = most
        self._of_status = 0

    def append(self, problem: Problem) -> None:
        """One more."""
        if self._most is not None:
            of_status = problem.path == "status" or problem.path.startswith("status.")
            if of_status and self._of_status >= self._most:
                return
            self._of_status += of_status
            if len(self) - self._of_status >= self._most:
                raise EnoughError
        super().append(problem)


class Document(NamedTuple):
    """One document of a file. One that could not be read has no value, and `problems` says why.

    `doubts` are unquoted scalars that kubectl reads differently; `text` is the document as it was written.
    """

    number: int
    line: int
    value: Any
    problems: list[Problem]
    doubts: list[Problem]
    text: str


def read(data: bytes, limits: Limits | None = None) -> list[Document]:
    """All documents in `data`, numbered from 1; empty ones do not count. Raises UnreadableInput when it is no text."""
    limits = limits or Limits()
    if len(data) > limits.max_file_bytes:
        raise UnreadableInput(
            f"{len(data):,} bytes are more than the limit of {limits.max_file_bytes:,}",
            "split the file, or raise input.maxFileBytes in the configuration",
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableInput(f"not UTF-8 text (byte {error.start})", "save the file as UTF-8") from None
    documents: list[Document] = []
    for line, chunk in _split_yaml(text):
        number = len(documents) + 1
        if number > limits.max_documents:
            message = f"more than {limits.max_documents:,} documents: the rest is not read"
            documents.append(_unread(number, line, "", Problem("", message, "split the file")))
            break
        found = _read_json(number, line, chunk, limits) or [_read_yaml(number, line, chunk, limits)]
        documents.extend(found)
    return documents


def child_path(path: str, key: str | int) -> str:
    """The path of a field or item: `spec.subGroups[2].name`; keys that are no plain words stand in brackets."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]*", key) or len(key) > 80:
        return f"{path}[{shown(key)}]"
    return f"{path}.{key}" if path else key


def shown(value: object) -> str:
    """A value inside a sentence: short, in quotes when it is text, and without control characters."""
    if isinstance(value, str):
        text = value if len(value) <= 60 else value[:57] + "..."
        return json.dumps(text, ensure_ascii=not text.isprintable())
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, int) and abs(value) >= 10**30:
        return "a very large number"
    return str(value)


def _split_yaml(text: str) -> Iterator[tuple[int, str]]:
    """The documents' texts and first lines. A `---` in the first column always starts a document in YAML."""
    starts = [0, *(found.start() for found in _MARKER.finditer(text)), len(text)]
    line = 1
    for start, end in pairwise(starts):
        chunk = text[start:end]
        if not _EMPTY.match(chunk):
            yield line, chunk
        line += chunk.count("\n")


def _read_yaml(number: int, line: int, text: str, limits: Limits) -> Document:
    size = len(text.encode())
    if size > limits.max_document_bytes and not _LIST_KIND.search(text):
        return _unread(number, line, text, _too_large("", size, limits))
    written = text
    builder = _Builder(limits)
    # The parser does not take the end of the document before for a start.
    text = "   " + text[3:] if text.startswith("...") else text
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            builder.take(event)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {line + mark.line}, column {mark.column + 1}: " if mark else ""
        what = error.problem or error.context or "can't be read"
        hint = "check brackets, quotes and indentation there"
        return _unread(number, line, written, Problem("", f"not YAML: {where}{what}", hint))
    except yaml.YAMLError as error:
        return _unread(number, line, written, Problem("", f"not YAML: {shown(str(error))}", "save it as plain text"))
    except _RefusedError as refused:
        problem = Problem("", f"line {line + refused.line}: {refused.message}", refused.hint)
        return _unread(number, line, written, problem)
    if builder.repeated:
        written_out = json.dumps(builder.value, ensure_ascii=False).encode("utf-8", "replace")
        too_much = _refused_json(builder.value, len(written_out), limits)
        if too_much is not None:
            return _unread(number, line, written, too_much)
    return Document(number, line, builder.value, builder.problems, builder.doubts, written)


def _unread(number: int, line: int, text: str, problem: Problem) -> Document:
    return Document(number, line, None, [problem], [], text)


def _read_json(number: int, line: int, text: str, limits: Limits) -> list[Document]:
    """The JSON documents in `text`, one after the other; none when it is something else, such as YAML in flow style."""
    start = _JSON_START.match(text)
    documents: list[Document] = []
    at, counted, first_line, unread = start.end() if start else len(text), 0, line, 0
    while at < len(text):
        line, counted = line + text.count("\n", counted, at), at
        value, refused = None, None
        twice: list[tuple[dict[str, Any], str]] = []
        try:
            value, end = json.JSONDecoder(object_pairs_hook=partial(_unique, twice)).raw_decode(text, at)
            refused = _refused_json(value, len(text[at:end].encode("utf-8", "replace")), limits)
        except (RecursionError, ValueError) as error:
            end = _json_end(text, at) if unread < _MAX_UNREAD_JSON else len(text)
            unread += 1
            alone = not documents and not text.startswith("{", _space_end(text, end))
            if alone and isinstance(error, json.JSONDecodeError):
                return []
            refused = _unread_json(error, first_line, limits)
        problems = [refused] if refused else _twice(value, twice)
        value = None if refused else value
        documents.append(Document(number + len(documents), line, value, problems, [], text[at:end]))
        at = _space_end(text, end)
    return documents


def _unread_json(error: Exception, first_line: int, limits: Limits) -> Problem:
    if isinstance(error, RecursionError):
        return _too_deep(limits.max_depth)
    if isinstance(error, json.JSONDecodeError):
        where = f"line {first_line + error.lineno - 1}, column {error.colno}"
        return Problem("", f"not JSON: {where}: {error.msg}")
    return Problem("", f"not JSON: {shown(str(error))}")


def _space_end(text: str, at: int) -> int:
    space = _JSON_SPACE.match(text, at)
    return space.end() if space else at


def _json_end(text: str, at: int) -> int:
    """Where a JSON document that can't be read ends: with the bracket that closes its first one, or with the text."""
    unclosed: list[str] = []
    for token in _JSON_TOKEN.finditer(text, at):
        if token[0] in ("{", "["):
            unclosed.append(token[0])
        elif token[0] in ("}", "]"):
            opening = "{" if token[0] == "}" else "["
            while unclosed and unclosed.pop() != opening:
                pass
            if not unclosed:
                return token.end()
    return len(text)


def _refused_json(value: Any, size: int, limits: Limits) -> Problem | None:
    kind = value.get("kind") if isinstance(value, dict) else None
    if size > limits.max_document_bytes and not (isinstance(kind, str) and kind.endswith("List")):
        return _too_large("", size, limits)
    return refusal(value, limits.max_depth)


def _unique(twice: list[tuple[dict[str, Any], str]], pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for key, item in pairs:
        if key in value:
            twice.append((value, key))
        else:
            value[key] = item
    return value


def _twice(value: Any, twice: list[tuple[dict[str, Any], str]]) -> list[Problem]:
    """The keys that stand twice, with their paths; those in a value that does not count are left out."""
    path_of: dict[int, str] = {}
    waiting = [("", value)] if twice else []
    while waiting:
        path, item = waiting.pop()
        if isinstance(item, dict):
            path_of[id(item)] = path
            waiting.extend((child_path(path, key), below) for key, below in item.items())
        elif isinstance(item, list):
            waiting.extend((child_path(path, index), below) for index, below in enumerate(item))
    return [_stands_twice(path_of[id(parent)], key) for parent, key in twice if id(parent) in path_of]


def _stands_twice(path: str, key: str) -> Problem:
    return Problem(child_path(path, key), f"the key {shown(key)} stands twice", "keep one")


def refusal(value: Any, max_depth: int = Limits().max_depth) -> Problem | None:
    """What JSON allows and nothing behind this could bear: nesting that is too deep, text that is no Unicode."""
    level: list[Any] = [[value]]
    depth = 0
    while level:
        if depth > max_depth:
            return _too_deep(max_depth)
        below: list[Any] = []
        for collection in level:
            for item in (*collection, *collection.values()) if isinstance(collection, dict) else collection:
                if isinstance(item, str):
                    if not item.isascii() and any("\ud800" <= c <= "\udfff" for c in item):
                        return Problem("", "text holds half of a surrogate pair, which is no character")
                elif isinstance(item, dict | list):
                    below.append(item)
        level, depth = below, depth + 1
    return None


def _too_deep(max_depth: int) -> Problem:
    return Problem("", f"nested more than {max_depth} levels deep", "no Kubernetes object needs that")


def _too_large(path: str, size: int, limits: Limits) -> Problem:
    return Problem(
        path,
        f"{size:,} bytes are more than the limit of {limits.max_document_bytes:,} for one object",
        "the API server would refuse it too; split it, or use fewer SubGroups",
    )


class _RefusedError(Exception):
    def __init__(self, line: int, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.line, self.message, self.hint = line, message, hint


def _doubt(path: str, text: str) -> Problem:
    other = shown(kubectl_scalar(text))
    message = f"unquoted {text[:60]} is {other} to kubectl, but text to YAML 1.2"
    return Problem(path, message, f'write "{text[:60]}", or {other} if that is meant', unread=False)


def _line(event: yaml.Event) -> int:
    return event.start_mark.line if event.start_mark else 0


class _Anchored(NamedTuple):
    """A value that an alias may repeat, with its size and how deep it is nested."""

    value: Any
    size: int
    depth: int


class _Open:
    """A collection that has not ended: where it stands, its anchor, and in a mapping the key whose value comes next."""

    def __init__(self, value: Any, path: str, anchor: str) -> None:
        self.value, self.path, self.anchor = value, path, anchor
        self.key: str | None = None
        # Whether that key is `<<`, and the entries that it brings.
        self.is_merging = False
        self.merged: dict[str, Any] | None = None
        self.size, self.depth = 1, 1

    def hold(self, size: int, depth: int) -> None:
        """One more value is inside."""
        self.size, self.depth = self.size + size, max(self.depth, depth + 1)


class _Builder:
    """Makes plain data from parser events, without recursion. An alias becomes a copy of what it repeats."""

    def __init__(self, limits: Limits) -> None:
        self.value: Any = None
        self.problems: list[Problem] = []
        self.doubts: list[Problem] = []
        # The size of all that aliases repeat.
        self.repeated = 0
        self._limits = limits
        self._started = False
        self._open: list[_Open] = []
        # None while the collection with this anchor is open.
        self._anchors: dict[str, _Anchored | None] = {}

    def take(self, event: yaml.Event) -> None:
        if isinstance(event, yaml.ScalarEvent):
            value = self._scalar(event)
            # 64 characters of text count as one value.
            whole = _Anchored(value, 1 + len(value) // 64 if isinstance(value, str) else 1, 0)
            if event.anchor:
                self._anchors[event.anchor] = whole
            path = self._put(value, event)
            self._hold(whole)
            if event.implicit[0] and event.tag is None and is_doubtful(event.value):
                self.doubts.append(_doubt(path, event.value))
        elif isinstance(event, yaml.MappingStartEvent):
            self._start({}, event)
        elif isinstance(event, yaml.SequenceStartEvent):
            self._start([], event)
        elif isinstance(event, yaml.CollectionEndEvent):
            self._end()
        elif isinstance(event, yaml.DocumentStartEvent):
            # The parser knows more kinds of line breaks than YAML 1.2 does.
            if self._started:
                raise _RefusedError(_line(event), "a second document starts here", "put --- on a line of its own")
            self._started = True
        elif isinstance(event, yaml.AliasEvent):
            self._repeat(event)

    def _scalar(self, event: yaml.ScalarEvent) -> Any:
        if event.tag is not None:
            self._check_tag(event)
        if event.tag == _TEXT_TAG or (event.tag is None and not event.implicit[0]):
            return event.value
        return plain_scalar(event.value)

    def _check_tag(self, event: yaml.NodeEvent) -> None:
        tag = getattr(event, "tag", None)
        if tag is not None and tag not in _TAGS and tag != "!":
            raise _RefusedError(_line(event), f"the tag {shown(tag)} is not allowed", "write plain data")

    def _start(self, collection: Any, event: yaml.NodeEvent) -> None:
        self._check_tag(event)
        self._check_depth(event, 1)
        self._open.append(_Open(collection, self._put(collection, event), event.anchor or ""))
        if event.anchor:
            self._anchors[event.anchor] = None

    def _end(self) -> None:
        """A collection is complete. What it merges is put into it; an entry of its own wins."""
        ended = self._open.pop()
        for key, value in (ended.merged or {}).items():
            ended.value.setdefault(key, value)
        whole = _Anchored(ended.value, ended.size, ended.depth)
        if ended.anchor:
            self._anchors[ended.anchor] = whole
        self._hold(whole)

    def _hold(self, value: _Anchored) -> None:
        if self._open:
            self._open[-1].hold(value.size, value.depth)

    def _repeat(self, event: yaml.AliasEvent) -> None:
        name = event.anchor or ""
        known = self._anchors.get(name)
        if known is None:
            why = "is inside of the value that it repeats" if name in self._anchors else "repeats nothing"
            raise _RefusedError(
                _line(event), f"the alias *{name[:60]} {why}", f"write &{name[:60]} at a value above it"
            )
        self.repeated += known.size
        if self.repeated > self._limits.max_repeated:
            message = f"aliases repeat more than {self._limits.max_repeated:,} values"
            raise _RefusedError(_line(event), message, "write the values out, or split the document")
        self._check_depth(event, known.depth)
        self._put(deepcopy(known.value), event)
        self._hold(known)

    def _check_depth(self, event: yaml.NodeEvent, more: int) -> None:
        if len(self._open) + more > self._limits.max_depth:
            problem = _too_deep(self._limits.max_depth)
            raise _RefusedError(_line(event), problem.message, problem.hint)

    def _put(self, value: Any, event: yaml.NodeEvent) -> str:
        """Adds the value where it stands, and gives its path."""
        if not self._open:
            self.value = value
            return ""
        parent = self._open[-1]
        if isinstance(parent.value, list):
            parent.value.append(value)
            return child_path(parent.path, len(parent.value) - 1)
        if parent.key is None:
            if not isinstance(value, str):
                raise _RefusedError(_line(event), f"the key {shown(value)} is not text", "put the key in quotes")
            parent.key, parent.is_merging = value, _is_merge(event)
            return parent.path
        key, parent.key = parent.key, None
        if parent.is_merging:
            return _merge(parent, value, event)
        if key in parent.value:
            self.problems.append(_stands_twice(parent.path, key))
        else:
            parent.value[key] = value
        return child_path(parent.path, key)


def _is_merge(event: yaml.NodeEvent) -> bool:
    return isinstance(event, yaml.ScalarEvent) and event.value == "<<" and event.tag is None and event.implicit[0]


def _merge(parent: _Open, value: Any, event: yaml.NodeEvent) -> str:
    """`<<: *name` brings the entries of another mapping, as for kubectl."""
    if parent.merged is not None or not isinstance(event, yaml.AliasEvent) or not isinstance(value, dict):
        raise _RefusedError(
            _line(event), "<< takes one alias of a mapping", "write <<: *name, or write the entries out"
        )
    parent.merged = value
    return parent.path
