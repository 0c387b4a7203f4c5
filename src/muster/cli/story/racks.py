"""A map of the nodes in a few lines: one sign for each, in the order of the topology, a letter for the gang on it."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from muster.api.cluster import POD_GROUP_ANNOTATION
from muster.sim.objects import GPU

Document = dict[str, Any]
# What is not a gang.
FREE, CORDONED, DOWN, OTHER, SEVERAL = ".", "x", "!", "o", "*"
_MOST_NODES = 160
_NAMED = {FREE: "free", CORDONED: "cordoned", DOWN: "not ready", OTHER: "other pods", SEVERAL: "several gangs"}
_ENDED = ("Succeeded", "Failed")
_UID = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Cell(NamedTuple):
    """A sign of the map, and whose it is: empty where there is no gang."""

    sign: str
    gang: str = ""


class Row(NamedTuple):
    """A line of the map: what stands before it, then groups of nodes, each with its name."""

    lead: str
    groups: tuple[tuple[str, tuple[Cell, ...]], ...]


class Map(NamedTuple):
    """The rows, and what the signs mean."""

    rows: tuple[Row, ...]
    legend: tuple[tuple[Cell, str], ...]


class Letters:
    """A letter for each gang, the same for as long as the story lasts: that of its name, if nobody has it."""

    def __init__(self) -> None:
        self._of: dict[str, str] = {}

    def of(self, gang: str) -> str:
        """The letter of a gang."""
        if gang not in self._of:
            plain = gang.removeprefix("pg-").upper()
            every = (*(sign for sign in plain if sign.isalpha()), *"ABCDEFGHIJKLMNOPQRSTUVWXYZ")
            self._of[gang] = next((sign for sign in every if sign not in self._of.values()), SEVERAL)
        return self._of[gang]


def map_of(
    nodes: Sequence[Document], pods: Sequence[Document], topologies: Sequence[Document], letters: Letters
) -> Map | None:
    """The map; None where it would be too large. The last level of the first Topology is a group, those above a line.

    Without a Topology all nodes are in one line.
    """
    if not nodes or len(nodes) > _MOST_NODES:
        return None
    levels = [one["nodeLabel"] for one in topologies[0]["spec"]["levels"]] if topologies else []
    on: dict[str, Counter[str]] = {}
    for pod in pods:
        node = pod["spec"].get("nodeName", "")
        if node and (pod.get("status") or {}).get("phase") not in _ENDED:
            on.setdefault(node, Counter())[_gang_of(pod)] += _gpus(pod)
    paths = {_name(node): _path(node, levels) for node in nodes}
    ordered = sorted(nodes, key=lambda node: (paths[_name(node)], _natural(_name(node))))
    rows, last = [], ("",) * max(0, len(levels) - 1)
    for lead, some in groupby(ordered, key=lambda node: paths[_name(node)][:-1]):
        groups = [
            (name, tuple(_cell(node, on, letters) for node in here))
            for name, here in groupby(some, key=lambda node: (paths[_name(node)] or ("",))[-1])
        ]
        shown = [part if part != before else " " * len(part) for part, before in zip(lead, last, strict=False)]
        rows.append(Row("  ".join(shown), tuple(groups)))
        last = lead
    return Map(tuple(rows), tuple(_legend(rows)))


def _cell(node: Document, on: Mapping[str, Counter[str]], letters: Letters) -> Cell:
    """What is on a node: a letter when it is full of one gang, a small one when there is room left."""
    here = on.get(_name(node), Counter())
    ready = {one["type"]: one["status"] for one in (node.get("status") or {}).get("conditions") or ()}.get("Ready")
    if ready in ("False", "Unknown"):
        return Cell(DOWN)
    gangs = [gang for gang, amount in here.items() if gang and (amount or len(here) == 1)]
    if len(gangs) > 1:
        return Cell(SEVERAL)
    if gangs:
        most = _amount(((node.get("status") or {}).get("allocatable") or {}).get(GPU))
        sign = letters.of(gangs[0])
        return Cell(sign if here.total() >= most else sign.lower(), gangs[0])
    if here:
        return Cell(OTHER)
    return Cell(CORDONED if (node.get("spec") or {}).get("unschedulable") else FREE)


def _legend(rows: Sequence[Row]) -> Iterator[tuple[Cell, str]]:
    """What the signs mean, in the order in which they are met; then those that are no gang."""
    cells = [cell for row in rows for _, some in row.groups for cell in some]
    known: set[str] = set()
    for cell in cells:
        if cell.gang and cell.gang not in known:
            known.add(cell.gang)
            yield cell._replace(sign=cell.sign.upper()), short(cell.gang)
    for sign, name in _NAMED.items():
        if any(cell.sign == sign and not cell.gang for cell in cells):
            yield Cell(sign), name


def short(gang: str) -> str:
    """The name of a gang without the UID of its owner."""
    return _UID.sub("", gang)


def _path(node: Document, levels: Sequence[str]) -> tuple[str, ...]:
    labels = node["metadata"].get("labels") or {}
    return tuple(labels.get(level, "-") for level in levels)


def _name(node: Document) -> str:
    found: str = node["metadata"]["name"]
    return found


def _natural(name: str) -> tuple[str, int]:
    """`n-2` before `n-10`."""
    head, _, number = name.rpartition("-")
    return (head, int(number)) if number.isdigit() else (name, 0)


def _gang_of(pod: Document) -> str:
    found: str = (pod["metadata"].get("annotations") or {}).get(POD_GROUP_ANNOTATION, "")
    return found


def _gpus(pod: Document) -> int:
    requests = [(one.get("resources") or {}).get("requests") or {} for one in pod["spec"]["containers"]]
    return sum(_amount(one.get(GPU)) for one in requests)


def _amount(text: object) -> int:
    return int(str(text)) if str(text).isdigit() else 0
