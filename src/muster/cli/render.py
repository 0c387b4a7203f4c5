"""What people see: safe text, colours where there is a terminal, data in the form that was asked for, trees."""

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import click

from muster.api.tree import NONE, Constraint, Tree, count_in_words, minimum_in_words, minimum_pods
from muster.api.writing import write_yaml

TABLE, JSON, YAML, NAME, WIDE = "table", "json", "yaml", "name", "wide"

_CONTROL = re.compile(
    r"[^\x20-\x7e\xa1-\ud7ff\ue000-\ufdcf\ufdf0-\ufffd\U00010000-\U0010ffff]|[\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]"
)
_MOST_ROWS = 200

_BOX = {"item": "├─ ", "last": "└─ ", "maybe": "├╌ ", "maybe_last": "└╌ ", "through": "│  ", "arrow": "→"}
_ASCII = {"item": "|-- ", "last": "`-- ", "maybe": "|.. ", "maybe_last": "`.. ", "through": "|   ", "arrow": "->"}

_WITHOUT_UNICODE = str.maketrans({"×": "x", "·": "-", "…": "...", "→": "->"})


def plain(text: str) -> str:
    """The text without anything that a terminal would obey instead of show."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape", "backslashreplace").decode(), text)


def say(text: str = "", **style: Any) -> None:
    """Data, or the table that stands for it, to stdout."""
    _echo(text, False, style)


def tell(text: str = "", **style: Any) -> None:
    """Notes, progress and the next step, to stderr."""
    _echo(text, True, style)


def _echo(text: str, err: bool, style: dict[str, Any]) -> None:
    text = plain(text)
    click.echo(click.style(text, **style) if style else text, err=err, color=False if is_colourless() else None)


def is_colourless() -> bool:
    """Whether somebody asked for no colours."""
    return bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"


def say_data(value: Any, form: str) -> None:
    """The value as JSON or YAML."""
    if form == JSON:
        click.echo(json.dumps(value, indent=2, ensure_ascii=False))
    else:
        click.echo(write_yaml([value]).removeprefix("---\n"), nl=False)


def signs() -> dict[str, str]:
    """The signs that trees are drawn with, in what the terminal can show."""
    encoding = (getattr(sys.stdout, "encoding", "") or "ascii").lower().replace("-", "")
    return _BOX if encoding.startswith("utf") else _ASCII


def sayable(text: str) -> str:
    """The text in signs that the terminal can show."""
    return text if signs() is _BOX else text.translate(_WITHOUT_UNICODE)


def columns(rows: Iterable[tuple[str, ...]], gap: str = "   ") -> Iterator[str]:
    """The rows as lines with aligned columns."""
    table = [tuple(plain(cell).replace("\n", " ") for cell in row) for row in rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))] if table else []
    for row in table:
        yield gap.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def tree_lines(tree: Tree) -> Iterator[str]:
    """The gang's tree, one node a line. Children of which not all are needed hang on dashed lines."""
    sign = signs()
    pods = minimum_pods(tree)
    yield "  ".join(part for part in (minimum_in_words(tree), _held(tree.nodes[0].constraint)) if part)
    rows: list[tuple[str, ...]] = []
    leads = [""] * len(tree.nodes)
    for row, node in enumerate(tree.nodes[1 : _MOST_ROWS + 1], start=1):
        parent = tree.nodes[node.parent]
        last, maybe = row == parent.children[-1], parent.minimum < len(parent.children)
        branch = sign[("maybe" if maybe else "item") if not last else ("maybe_last" if maybe else "last")]
        if node.parent != NONE:
            leads[row] = leads[node.parent] + (" " * len(sign["through"]) if last else sign["through"])
        needs = f"{count_in_words(node)} ({_pods(pods[row])})" if node.children else _pods(node.minimum)
        rows.append((leads[node.parent] + branch + node.name, needs, _held(node.constraint)))
    yield from columns(rows)
    if len(tree.nodes) > _MOST_ROWS + 1:
        yield f"… {len(tree.nodes) - _MOST_ROWS - 1:,} more"
    for hold in tree.together:
        names = [tree.nodes[row].name for row in hold.members]
        shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
        yield f"together {_held(hold.constraint)}: {shown}"


def _pods(count: int) -> str:
    return f"{count} pod" if count == 1 else f"{count} pods"


def _held(constraint: Constraint | None) -> str:
    if constraint is None:
        return ""
    parts = [f"in one {constraint.required}"] if constraint.required else []
    if constraint.preferred:
        parts.append(f"if possible in one {constraint.preferred}")
    return ", ".join(parts) + (f" of {constraint.topology}" if constraint.topology else "")
