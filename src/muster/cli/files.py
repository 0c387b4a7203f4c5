"""What `-f` names becomes documents and objects: files, folders and standard input. Nothing is fetched."""

import hashlib
import io
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from muster.api.documents import Document, Limits, Problem, read
from muster.errors import UnreadableInput, UsageError

_ENDINGS = (".yaml", ".yml", ".json")
# What Kubernetes makes of generateName: letters and digits that spell no words, behind at most 58 characters.
_LETTERS, _ENDING, _LONGEST = "bcdfghjklmnpqrstvwxz2456789", 5, 63
STDIN = "-"


class Source(NamedTuple):
    """One object as it stands in the input, or a document that could not be read."""

    file: str
    document: int
    value: Any
    problems: list[Problem]
    # Unquoted scalars that kubectl reads differently, anywhere in the document.
    doubts: list[Problem] = []
    # The document as it was written; in a List all items share it.
    text: str = ""


def read_objects(names: Sequence[str], limits: Limits, *, as_written: bool = False) -> list[Source]:
    """All objects of all files, Lists taken apart. Those with generateName have a name, unless they are wanted
    `as_written`. Raises UsageError when a file is not there or nothing is.
    """
    if not names:
        raise UsageError("nothing to read", "name files, folders or - with -f, for example -f examples")
    found: list[Source] = []
    for file in files_of(names):
        for document in _documents(file, limits):
            found.extend(_taken_apart(file, document, limits.max_documents))
    if not found:
        raise UsageError(f"no objects in {', '.join(names[:5])}", "a file holds YAML or JSON documents")
    return found if as_written else _named(found)


def objects_in(text: bytes, limits: Limits, name: str) -> list[Source]:
    """All objects of a text that is no file. Raises UnreadableInput when it is none, UsageError when nothing is."""
    found = [one for document in read(text, limits) for one in _taken_apart(name, document, limits.max_documents)]
    if not found:
        raise UsageError(f"no objects in {name}", "it holds YAML or JSON documents")
    return _named(found)


def read_document(name: str, limits: Limits) -> Any:
    """The only document of a file, such as the configuration. Raises UsageError when it is none."""
    documents = _documents(name, limits)
    problems = [problem for document in documents for problem in document.problems]
    if problems:
        raise UsageError(f"{name}: {problems[0].path} {problems[0].message}".replace("  ", " "), problems[0].hint)
    if len(documents) > 1:
        raise UsageError(f"{name}: holds {len(documents)} documents", "one is enough")
    return documents[0].value if documents else {}


def files_of(names: Sequence[str]) -> Iterator[str]:
    """Every file once, folders with all regular files below them that look like documents."""
    seen: set[str] = set()
    for name in names:
        if not name:
            raise UsageError("-f has no name", "name a file, a folder, or - for standard input")
        found = _inside(name) if name != STDIN and Path(name).is_dir() else [name]
        for file in found:
            if os.path.normpath(file) not in seen:
                seen.add(os.path.normpath(file))
                yield file


def _inside(folder: str) -> list[str]:
    found = sorted(
        os.path.join(place, file)
        for place, _, files in os.walk(folder)
        for file in files
        if file.lower().endswith(_ENDINGS) and os.path.isfile(os.path.join(place, file))
    )
    if not found:
        raise UsageError(f"no {', '.join(_ENDINGS)} files in the folder {folder}", "name another folder")
    return found


def _documents(file: str, limits: Limits) -> list[Document]:
    try:
        return read(read_bytes(file, limits), limits)
    except UnreadableInput as error:
        return [Document(1, 1, None, [Problem("", error.message, error.hint)], [], "")]


def beginning_of(file: str, size: int = 512) -> bytes:
    """The first bytes of a file, which are read again later; nothing when it can't be read."""
    if file == STDIN:
        stream = sys.stdin.buffer if sys.stdin else None
        return stream.peek(size)[:size] if isinstance(stream, io.BufferedReader) else b""
    try:
        with open(file, "rb") as stream:
            return stream.read(size)
    except (OSError, ValueError):
        return b""


def read_bytes(file: str, limits: Limits) -> bytes:
    """At most one byte more than the limit, which is enough to see that there are too many."""
    most = limits.max_file_bytes + 1
    if file == STDIN:
        return sys.stdin.buffer.read(most) if sys.stdin else b""
    try:
        with open(file, "rb") as stream:
            return stream.read(most)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"can't read {file}: {reason}", "check the name, or use - for standard input") from None


def check_writable(file: str) -> None:
    """Before anything is done whose outcome is to be written: raises UsageError when it can't be. Touches nothing."""
    path = Path(file)
    there = path if path.exists() else path.parent
    if file == STDIN:
        reason = "that is standard output, which has something else to say"
    elif path.is_dir():
        reason = "it is a folder"
    elif not there.exists():
        reason = f"there is no folder {path.parent}"
    elif not os.access(there, os.W_OK):
        reason = "permission denied"
    else:
        return
    raise UsageError(f"can't write {file}: {reason}", "name another file")


def write_text(file: str, text: str) -> None:
    """Raises UsageError when it can't be written."""
    try:
        Path(file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"can't write {file}: {error.strerror}", "name another file") from None


def _taken_apart(file: str, document: Document, most: int) -> Iterator[Source]:
    """The document itself, or the items when it is a List (of any kind, as kubectl prints them)."""
    number, problems, doubts, text = document.number, document.problems, document.doubts, document.text
    if not _is_list(document.value):
        # A document that says `null` is an empty one, as for kubectl.
        if document.value is not None or problems:
            yield Source(file, number, document.value, problems, doubts, text)
        return
    if problems:
        yield Source(file, number, None, problems)
    items = document.value.get("items")
    if items is not None and not isinstance(items, list):
        yield Source(file, number, None, [Problem("items", "must be a list", "a List holds objects in items")])
        return
    kind = document.value["kind"].removesuffix("List")
    if items and len(items) > most:
        message = f"{len(items):,} items are more than the limit of {most:,}: the rest is not read"
        yield Source(file, number, None, [Problem("items", message, "split the List")])
    for index, item in enumerate((items or [])[:most]):
        here = f"items[{index}]."
        own = [doubt._replace(path=doubt.path.removeprefix(here)) for doubt in doubts if doubt.path.startswith(here)]
        yield Source(file, number, _typed(item, document.value, kind), [], own, text)


def _is_list(value: Any) -> bool:
    kind = value.get("kind") if isinstance(value, dict) else None
    return isinstance(kind, str) and kind.endswith("List")


def _named(sources: list[Source]) -> list[Source]:
    """An object with generateName and no name gets one as the API server makes it. It comes from the content: the same
    file gives the same name.
    """
    taken: Counter[str] = Counter()
    return [one._replace(value=_with_name(one.value, taken)) if _is_nameless(one.value) else one for one in sources]


def _is_nameless(value: Any) -> bool:
    metadata = value.get("metadata") if isinstance(value, dict) else None
    if not isinstance(metadata, dict) or metadata.get("name"):
        return False
    beginning = metadata.get("generateName")
    return isinstance(beginning, str) and bool(beginning)


def _with_name(value: dict[str, Any], taken: Counter[str]) -> dict[str, Any]:
    content = json.dumps(value, sort_keys=True)
    # The second object with the same content is another object.
    taken[content] += 1
    digest = hashlib.sha256(f"{taken[content]} {content}".encode()).digest()
    ending = "".join(_LETTERS[byte % len(_LETTERS)] for byte in digest[:_ENDING])
    beginning = value["metadata"]["generateName"][: _LONGEST - _ENDING]
    return {**value, "metadata": {**value["metadata"], "name": beginning + ending}}


def _typed(item: Any, parent: dict[str, Any], kind: str) -> Any:
    """An item of a PodList may leave out that it is a Pod."""
    if kind and isinstance(item, dict) and "kind" not in item and "apiVersion" not in item:
        return {"apiVersion": parent.get("apiVersion", ""), "kind": kind, **item}
    return item
