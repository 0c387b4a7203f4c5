"""How a story is told in a terminal: chapters, claims, maps, and what is being done while nothing else is seen."""

import os
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TextIO

import click

from muster.cli.judging import plural
from muster.cli.render import columns, is_colourless, plain, sayable, signs
from muster.cli.story.racks import Map, short

Piece = tuple[str, Mapping[str, Any]]
_WIPE = "\r\x1b[K"
_WIDEST = 100
# Columns that a narrow terminal can do without, in this order; and what is left of a long name there.
_SPARE = ("AGE", "PARENT", "PRIORITY", "ACCEPTED", "GPU-LIMIT", "QUEUE", "READY")
_LONGEST_NAME = 12
_COLOURS = ("cyan", "magenta", "yellow", "green", "blue", "bright_red", "bright_cyan", "bright_magenta")


class Result(NamedTuple):
    """A claim, and what came of it; None when the story never got there."""

    chapter: str
    says: str
    held: bool | None
    seen: str = ""
    differs: tuple[str, ...] = ()


class Teller:
    """Tells a story to a stream. On a terminal one line shows what is being done; it goes when anything is said."""

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream or sys.stdout
        self.is_terminal = self._stream.isatty() and os.environ.get("TERM") != "dumb"
        self._clock = clock
        self._began_s = clock()
        self._is_drawn = False
        self._colours: dict[str, str] = {}

    @property
    def width(self) -> int:
        """How long lines may be."""
        return min(_WIDEST, shutil.get_terminal_size().columns) if self.is_terminal else _WIDEST

    @property
    def elapsed_s(self) -> float:
        """Since it began."""
        return self._clock() - self._began_s

    # Words.

    def line(self, *pieces: Piece | str) -> None:
        """One line, of pieces with a style each."""
        self.settle()
        parts = [(one, {}) if isinstance(one, str) else one for one in pieces]
        text = "".join(click.style(_shown(text), **style) if style else _shown(text) for text, style in parts)
        click.echo(text, file=self._stream, color=False if is_colourless() else None)

    def ready(self, text: str) -> None:
        """Something is there, and how long after the beginning."""
        good = "✓" if signs()["arrow"] == "→" else "ok"
        self._marked((good, {"fg": "green", "bold": True}), (text, {}), (f" ({self.elapsed_s:.1f} s)", {"dim": True}))

    def title(self, text: str, number: str = "") -> None:
        """A chapter begins."""
        self.line()
        self.line((f"{number} · {text}" if number else text, {"bold": True}))

    def says(self, text: str, indent: str = "  ") -> None:
        """Narration, broken to fit."""
        for one in textwrap.wrap(text, self.width - 1, initial_indent=indent, subsequent_indent=indent):
            self.line(one)

    def does(self, text: str) -> None:
        """What is done now, as somebody at a keyboard would do it."""
        self.line()
        self.line(("  $ ", {"dim": True}), (text, {"bold": True}))

    def claim(self, result: Result) -> None:
        """A claim with what was seen; one that does not hold with all that speaks against it."""
        good, bad = ("✓", "✗") if signs()["arrow"] == "→" else ("ok", "NO")
        if result.held:
            self._marked((good, {"fg": "green", "bold": True}), (result.says, {}))
        else:
            self._marked((bad, {"fg": "red", "bold": True}), (result.says, {"bold": True}))
        for text in filter(None, (result.seen, *(f"but {one}" for one in result.differs))):
            for one in textwrap.wrap(text, self.width - 1, initial_indent="    ", subsequent_indent="    "):
                self.line((one, {"dim": True} if result.held else {}))

    def _marked(self, mark: Piece, said: Piece, end: Piece = ("", {})) -> None:
        """A sentence behind a mark; on a terminal, broken to fit."""
        text, style = said
        room = self.width - 1 - len(mark[0]) - len("   ") - len(end[0])
        first, *rest = (textwrap.wrap(text, max(room, 1)) if self.is_terminal else []) or [text]
        pieces: list[Piece | str] = ["  ", mark, " ", (first, style)]
        for one in rest:
            self.line(*pieces)
            pieces = [" " * len(f"  {mark[0]} "), (one, style)]
        self.line(*pieces, end)

    def table(self, rows: Iterable[tuple[str, ...]], indent: str = "  ") -> None:
        """Rows with aligned columns; what a terminal has no room for is left out, the least important first."""
        table = list(rows)
        for spare in _SPARE if self.is_terminal else ():
            if max(map(len, columns(table)), default=0) + len(indent) < self.width:
                break
            kept = [at for at, name in enumerate(table[0]) if name != spare]
            table = [tuple(row[at] for at in kept) for row in table]
            most = max(_LONGEST_NAME, *(len(row[0]) for row in table if len(row[0]) <= 2 * _LONGEST_NAME))
            table = [(_cut(row[0], most), *row[1:]) for row in table]
        for text in columns(table):
            self.line(indent + text)

    def text(self, text: str, style: Mapping[str, Any]) -> None:
        """A line that somebody else has laid out. One that is too long for a terminal goes on below its beginning, but
        for a command, which can be copied.
        """
        if not self.is_terminal or len(text) < self.width or text.lstrip().startswith("kubectl "):
            self.line((text, style))
            return
        wrapper = textwrap.TextWrapper(self.width - 1, break_long_words=False, break_on_hyphens=False)
        wrapper.subsequent_indent = " " * (len(text) - len(text.lstrip()) + 2)
        for one in wrapper.wrap(text):
            self.line((one, style))

    def map(self, found: Map) -> None:
        """The map of the nodes, and what its signs mean."""
        self.line()
        lead = max(len(row.lead) for row in found.rows)
        for row in found.rows:
            pieces: list[Piece | str] = ["  ", row.lead.ljust(lead)]
            for name, cells in row.groups:
                pieces.append((f"  {name} " if name else "  ", {"dim": True}))
                pieces += [(cell.sign, self._style(cell.gang)) for cell in cells]
            self.line(*pieces)
        parts: list[Piece | str] = []
        for cell, name in found.legend:
            parts += ["   " if parts else "  ", (cell.sign, self._style(cell.gang)), f" {name}"]
        self.line(*parts)

    def _style(self, gang: str) -> Mapping[str, Any]:
        if not gang:
            return {"dim": True}
        if gang not in self._colours:
            self._colours[gang] = _COLOURS[len(self._colours) % len(_COLOURS)]
        return {"fg": self._colours[gang], "bold": True}

    # Progress.

    def progress(self, text: str) -> None:
        """What is being done, with the time since the beginning; only on a terminal, and gone with the next line."""
        if self.is_terminal:
            shown = _shown(f"  … {text} ({self.elapsed_s:.1f} s)")[: self.width - 1]
            self._stream.write(_WIPE + shown)
            self._stream.flush()
            self._is_drawn = True

    def settle(self) -> None:
        """The line of progress goes."""
        if self._is_drawn:
            self._stream.write(_WIPE)
            self._stream.flush()
            self._is_drawn = False


def kubectl_rows(table: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """What kubectl prints of a Table that an API server gives, without its wide columns."""
    headers = [(at, one["name"]) for at, one in enumerate(table["columnDefinitions"]) if not one.get("priority")]
    rows = [tuple(name.upper() for _, name in headers)]
    for row in table["rows"]:
        rows.append(tuple("" if row["cells"][at] is None else str(row["cells"][at]) for at, _ in headers))
    return rows


def tree_rows(group: Mapping[str, Any]) -> Sequence[tuple[str, ...]]:
    """The status of a gang, one line for each node of its tree: how many children or pods it has, and needs."""
    parents = {one["name"]: one.get("parent", "") for one in (group.get("spec") or {}).get("subGroups") or ()}
    rows: list[tuple[str, ...]] = [("NAME", "STATE", "HAS", "NEEDS", "DOMAIN")]
    for row in (group.get("status") or {}).get("subGroups") or ():
        depth, above = 0, row["name"]
        while above:
            above, depth = parents.get(above, ""), depth + 1
        label = "  " * depth + (row["name"] or short(group["metadata"]["name"]))
        children, pods = row.get("children") or {}, row.get("pods") or {}
        has = f"{pods.get('placed', 0)} of {plural(pods.get('total', 0), 'pod')}"
        if children.get("total"):
            has = f"{children.get('satisfied', 0)} of {children['total']} parts"
        state = ("core" if row.get("core") else "surplus") if row.get("satisfied") else row.get("reason") or "waits"
        rows.append((label, state, has, str(row["minimum"]), row.get("domain") or "-"))
    return rows


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _shown(text: str) -> str:
    return sayable(plain(text))
