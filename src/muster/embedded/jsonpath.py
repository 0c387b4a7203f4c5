"""The part of JSONPath that printer columns use: fields, indices, slices, `[*]` and `[?(@.a=="b")]`."""

import re
from functools import lru_cache
from typing import Any

_STEP = re.compile(
    r"""\.(?P<field>[A-Za-z0-9_\-]+(?:\\\.[A-Za-z0-9_\-/]+)*)
      | \[(?P<index>-?\d+)\]
      | \[(?P<slice>(?:-?\d+)?:(?:-?\d+)?)\]
      | \[(?P<all>\*)\]
      | \['(?P<quoted>[^']*)'\]
      | \[\?\(\s*@\.(?P<key>[A-Za-z0-9_.\-]+)\s*==\s*(?P<value>"[^"]*"|'[^']*'|[^)]*?)\s*\)\]""",
    re.VERBOSE,
)


@lru_cache(maxsize=1024)
def _steps(path: str) -> tuple[tuple[str, str, str], ...] | None:
    text = path.strip().removeprefix("{").removesuffix("}")
    text = text if text.startswith((".", "[")) else f".{text}"
    found = []
    place = 0
    while place < len(text):
        step = _STEP.match(text, place)
        if not step:
            return None
        kind = step.lastgroup or ""
        if kind == "value":
            found.append(("filter", step["key"], step["value"].strip("\"'")))
        else:
            found.append((kind, step[kind].replace("\\.", "."), ""))
        place = step.end()
    return tuple(found)


def find(document: Any, path: str) -> list[Any]:
    """All values at a path; none when it leads nowhere."""
    steps = _steps(path)
    if steps is None:
        return []
    values = [document]
    for kind, name, wanted in steps:
        values = [found for value in values for found in _step(value, kind, name, wanted)]
    return values


def _step(value: Any, kind: str, name: str, wanted: str) -> list[Any]:
    if kind in ("field", "quoted"):
        return [value[name]] if isinstance(value, dict) and name in value else []
    if not isinstance(value, list):
        return []
    if kind == "index":
        row = int(name)
        return [value[row]] if -len(value) <= row < len(value) else []
    if kind == "slice":
        first, last = (int(end) if end else None for end in name.split(":"))
        return value[first:last]
    if kind == "all":
        return list(value)
    return [one for one in value if isinstance(one, dict) and str(_below(one, name)) == wanted]


def _below(value: Any, path: str) -> Any:
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value
