"""Makes a failing story smaller while it fails in the same way: parts are left out, then numbers are made smaller.

It works on the story as plain data, as in a file: lists and mappings lose halves, quarters, single entries; then keys
that need not be there; then numbers go down. Each try is a playing, and there is a budget of them.
"""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from muster.errors import MusterError
from muster.sim.loading import check, plain
from muster.sim.story import Story

TRIES = 300
# What is left out first: what goes wrong, what happens, who is there, then what there is.
_PARTS = (
    "faults", "happens", "steps", "workloads", "gangs", "pods", "budgets", "nodes", "queues", "topologies", "documents",
)  # fmt: skip
# What a story is of, and what keeps its chance the same.
_KEPT = ("seed", "claim", "why")
Path = tuple[str | int, ...]


class Shrinking:
    """One story on its way down. `fails` plays a story and says whether it fails as it did."""

    def __init__(
        self,
        story: Story,
        fails: Callable[[Story], bool],
        *,
        tries: int = TRIES,
        see: Callable[[int, Story], None] = lambda tries, story: None,
    ) -> None:
        self.story = story
        self.tries = 0
        self._data: dict[str, Any] = plain(story)
        self._fails, self._most, self._see = fails, tries, see
        self._tried: set[bytes] = set()

    def run(self) -> Story:
        """The smallest story that was found."""
        while self.tries < self._most:
            before = self._data
            self._leave_out_parts()
            self._leave_out_keys()
            self._lower_numbers()
            if self._data == before:
                break
        return self.story

    # One try.

    def _try(self, data: dict[str, Any]) -> bool:
        """Whether this fails too; then it is the story from now on."""
        written = msgspec.json.encode(data)
        if written in self._tried or self.tries >= self._most:
            return False
        self._tried.add(written)
        try:
            story = msgspec.convert(data, Story, str_keys=True)
            check(story)
            self.tries += 1
            if not self._fails(story):
                return False
        except (msgspec.ValidationError, MusterError):
            return False
        self._data, self.story = data, story
        self._see(self.tries, story)
        return True

    def _change(self, path: Path, value: Any) -> bool:
        return self._try(_with(self._data, path, value))

    # The ways to make it smaller.

    def _leave_out_parts(self) -> None:
        for part in _PARTS:
            if part in self._data and not self._change((part,), None):
                self._thin((part,))
        for row in range(len(self._data.get("happens", []))):
            if row < len(self._data.get("happens", [])):
                for key in [one for one in self._data["happens"][row] if one not in ("at", "says")]:
                    self._thin(("happens", row, key))

    def _thin(self, path: Path) -> None:
        """Leaves out ever smaller pieces of a list or mapping."""
        size = _length(_at(self._data, path)) // 2 or 1
        while size:
            start, found = 0, _at(self._data, path)
            while isinstance(found, dict | list) and start < len(found):
                if not self._change(path, _without(found, start, size)):
                    start += size
                found = _at(self._data, path)
            size = 0 if size == 1 else size // 2

    def _leave_out_keys(self) -> None:
        """Every key that need not be there, the deepest ones last."""
        for path in sorted((path for path, _ in _walk(self._data)), key=len):
            if isinstance(path[-1], str) and path[0] not in _KEPT and _has(self._data, path):
                self._change(path, None)

    def _lower_numbers(self) -> None:
        for path, value in list(_walk(self._data)):
            if isinstance(value, bool) or not isinstance(value, int | float) or path[0] in _KEPT or value <= 0:
                continue
            for smaller in _smaller(value):
                if not _has(self._data, path) or self._change(path, smaller):
                    break


def _smaller(value: float) -> list[float]:
    """Numbers to try in its place, the smallest first."""
    if isinstance(value, int):
        return sorted({0, 1, value // 4, value // 2, value - 1} - {value})
    found = {0.0, 1.0, float(int(value / 2)), float(int(value)), round(value, 1)}
    return sorted(one for one in found if one < value)


def _walk(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    if path:
        yield path, value
    if isinstance(value, dict):
        for key, one in value.items():
            yield from _walk(one, (*path, key))
    elif isinstance(value, list):
        for row, one in enumerate(value):
            yield from _walk(one, (*path, row))


def _at(data: Any, path: Path) -> Any:
    for key in path:
        if isinstance(data, dict):
            data = data.get(str(key))
        elif isinstance(data, list) and isinstance(key, int) and key < len(data):
            data = data[key]
        else:
            return None
    return data


def _has(data: Any, path: Path) -> bool:
    return _at(data, path) is not None


def _with(data: Any, path: Path, value: Any) -> Any:
    """The data with another value at a path; None: without."""
    key, rest = path[0], path[1:]
    copy: Any = dict(data) if isinstance(data, dict) else list(data)
    if not rest and value is None:
        del copy[key]
    else:
        copy[key] = _with(copy[key], rest, value) if rest else value
    return copy


def _length(value: Any) -> int:
    return len(value) if isinstance(value, dict | list) else 0


def _without(value: Any, start: int, size: int) -> Any:
    if isinstance(value, list):
        return value[:start] + value[start + size :]
    keys = list(value)
    return {key: value[key] for key in keys[:start] + keys[start + size :]}
