"""The files of the page, out of the package: read once, compressed once, each with a tag of what it holds."""

import gzip
import hashlib
from collections.abc import Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import NamedTuple

INDEX = "index.html"
STATIC = files("muster.serve") / "static"
_TYPES = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".json": "application/json",
    ".md": "text/plain",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
    ".woff2": "font/woff2",
}
# What is compressed already does not get smaller.
_PACKED = (".png", ".woff2")


class Asset(NamedTuple):
    """A file: its content type, its bytes, the same compressed (empty when that is no smaller), and its tag."""

    content: str
    plain: bytes
    packed: bytes
    tag: str


def assets() -> Mapping[str, Asset]:
    """Every file of the page by its path, as `/map.js`; the first one is also at `/`."""
    found = {f"/{name}": _asset(name, file.read_bytes()) for name, file in _files(STATIC, "")}
    if f"/{INDEX}" in found:
        found["/"] = found[f"/{INDEX}"]
    return found


def _files(folder: Traversable, above: str) -> Iterator[tuple[str, Traversable]]:
    """What is served: files of known kinds. Nothing that begins with a dot, and nothing else that lies about."""
    if not folder.is_dir():
        return
    for one in sorted(folder.iterdir(), key=lambda one: one.name):
        if one.name.startswith((".", "_")):
            continue
        if one.is_dir():
            yield from _files(one, f"{above}{one.name}/")
        elif _ending(one.name) in _TYPES:
            yield above + one.name, one


def _ending(name: str) -> str:
    return f".{name.rpartition('.')[2].lower()}"


def _asset(name: str, plain: bytes) -> Asset:
    kind = _TYPES[_ending(name)]
    content = f"{kind}; charset=utf-8" if kind.startswith("text/") else kind
    packed = b"" if _ending(name) in _PACKED else gzip.compress(plain, 9, mtime=0)
    tag = f'"{hashlib.sha256(plain).hexdigest()[:20]}"'
    return Asset(content, plain, packed if len(packed) < len(plain) else b"", tag)
