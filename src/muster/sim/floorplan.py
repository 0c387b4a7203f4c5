"""The nodes of a story at its end, domain by domain: a box for each GPU, with the sign of the gang that has it."""

from collections.abc import Sequence
from html import escape
from typing import Any

from muster.embedded.server import Server
from muster.sim.expecting import GANG
from muster.sim.objects import GPU

Document = dict[str, Any]
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_COLOURS, _MOST_BOXES = 12, 64
_DONE = ("Succeeded", "Failed")


class Legend:
    """Each gang has a letter and a colour."""

    def __init__(self, names: Sequence[str]) -> None:
        self._number = {name: number for number, name in enumerate(names)}

    def letter(self, name: str) -> str:
        """Its letter; A1, B1 after Z."""
        number = self._number.get(name, -1)
        if number < 0:
            return "·"
        again = number // len(_LETTERS)
        return _LETTERS[number % len(_LETTERS)] + (str(again) if again else "")

    def colour(self, name: str) -> str:
        """Its class in the style."""
        number = self._number.get(name, -1)
        return f"c{number % _COLOURS}" if number >= 0 else "others"

    def swatch(self, name: str) -> str:
        """The sign as it stands before the name."""
        return f"<span class='box {self.colour(name)}'>{self.letter(name)}</span> "


def floorplan(server: Server, legend: Legend) -> str:
    """All nodes with who is on them, and who has no place."""
    store = server.core.store
    nodes, pods = store.list("nodes").items, store.list("pods").items
    levels = _levels(store.list("topologies.kai.scheduler").items)
    on: dict[str, list[Document]] = {}
    for pod in pods:
        if _phase(pod) not in _DONE:
            on.setdefault(pod["spec"].get("nodeName") or "", []).append(pod)
    places: dict[str, list[str]] = {}
    for node in nodes:
        labels = node["metadata"].get("labels") or {}
        path = "/".join(labels.get(level) or "-" for level in levels) if levels else "nodes"
        places.setdefault(path, []).append(_node(node, on.get(node["metadata"]["name"], []), legend))
    racks = [
        f"<div class=rack><h4>{escape(path)}</h4>{''.join(inside)}</div>" for path, inside in sorted(places.items())
    ]
    waiting = on.get("", [])
    boxes = "".join(_box(pod, legend) for pod in waiting[:_MOST_BOXES])
    more = f" and {len(waiting) - _MOST_BOXES} more" if len(waiting) > _MOST_BOXES else ""
    nowhere = f"<div class=rack><h4>no node</h4><div class=node>{boxes}{more}</div></div>" if waiting else ""
    return f"<div class=plan>{''.join(racks)}{nowhere}</div>"


def _levels(topologies: Sequence[Document]) -> list[str]:
    """The labels of the first Topology, without a level that is the node itself."""
    if not topologies:
        return []
    labels = [level["nodeLabel"] for level in topologies[0]["spec"]["levels"]]
    return [label for label in labels if label != "kubernetes.io/hostname"]


def _phase(pod: Document) -> str:
    return str((pod.get("status") or {}).get("phase") or "")


def _node(node: Document, pods: Sequence[Document], legend: Legend) -> str:
    name, status = node["metadata"]["name"], node.get("status") or {}
    total = _gpus((status.get("allocatable") or {}).get(GPU, "0"))
    boxes: list[str] = []
    held = 0
    for pod in sorted(pods, key=lambda one: (_gang_of(one), one["metadata"]["name"])):
        asked = sum(_asked(one) for one in pod["spec"]["containers"])
        held += asked
        boxes += [_box(pod, legend)] * max(1, asked)
    free = max(0, total - held)
    boxes += ["<span class='box free'></span>"] * free
    shown = "".join(boxes[:_MOST_BOXES]) + (f" +{len(boxes) - _MOST_BOXES}" if len(boxes) > _MOST_BOXES else "")
    ready = all(one.get("status") == "True" for one in status.get("conditions") or () if one.get("type") == "Ready")
    words = ([] if ready else ["not ready"]) + (["cordoned"] if (node.get("spec") or {}).get("unschedulable") else [])
    state = f" <b class=bad>{', '.join(words)}</b>" if words else ""
    return (
        f"<div class=node><span class=name>{escape(name)}{state} <span class=quiet>{held}/{total}</span></span>"
        f"{shown}</div>"
    )


def _box(pod: Document, legend: Legend) -> str:
    gang = _gang_of(pod)
    leaves = " going" if pod["metadata"].get("deletionTimestamp") else ""
    title = escape(f"{pod['metadata']['name']} of {gang or 'another scheduler'}{leaves}")
    return f"<span class='box {legend.colour(gang)}{leaves}' title=\"{title}\">{legend.letter(gang)}</span>"


def _gang_of(pod: Document) -> str:
    gang = (pod["metadata"].get("annotations") or {}).get(GANG)
    return f"{pod['metadata'].get('namespace')}/{gang}" if gang else ""


def _asked(container: Document) -> int:
    return _gpus(((container.get("resources") or {}).get("requests") or {}).get(GPU, "0"))


def _gpus(text: Any) -> int:
    """Whole devices; what is no number is none."""
    try:
        return int(str(text))
    except ValueError:
        return 0
