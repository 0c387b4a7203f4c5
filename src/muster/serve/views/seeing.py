"""What of the page somebody may see: gangs by namespace, nodes, queues. Of hidden gangs only their room is told."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from muster.plan.outcome import Code
from muster.serve.views.frame import counts_of
from muster.serve.views.gangs import NOMINATED, Document
from muster.serve.views.timeline import SOMEBODY

# A key ends where a name must, or where a sentence was cut.
_REST_OF_KEY = r"/[A-Za-z0-9.-]*[A-Za-z0-9]…?"


class Rights(NamedTuple):
    """The namespaces whose gangs somebody may list, None: all of them; and whether also nodes and queues."""

    namespaces: frozenset[str] | None = None
    nodes: bool = True
    queues: bool = True

    @property
    def all(self) -> bool:
        """Whether nothing is hidden."""
        return self.namespaces is None and self.nodes and self.queues

    def sees(self, namespace: str) -> bool:
        """Whether the gangs of a namespace may be seen."""
        return self.namespaces is None or namespace in self.namespaces

    def sees_key(self, key: str) -> bool:
        """Whether a gang, or a pod, may be seen, by `namespace/name`."""
        return self.sees(key.partition("/")[0])


EVERYTHING = Rights()


class Hidden(NamedTuple):
    """What somebody may not see: the namespaces of such gangs, and the rights that say so."""

    namespaces: frozenset[str]
    rights: Rights


def hidden_in(keys: Iterable[str], rights: Rights) -> Hidden:
    """What of some gangs, by `namespace/name`, somebody may not see."""
    return Hidden(frozenset(key.partition("/")[0] for key in keys if not rights.sees_key(key)), rights)


def seen_by(frame: Document, rights: Rights) -> Document:
    """A whole frame as somebody may see it."""
    return frame if rights.all else {**frame, **_Seeing(frame["gangs"], rights).parts(frame, frame["summary"])}


def delta_seen_by(delta: Document, gangs: Mapping[str, Document], rights: Rights) -> Document:
    """A delta as somebody may see it; `gangs` are all that there are now.

    It must name every node on which a gang changed, also when the node itself did not.
    """
    if rights.all:
        return delta
    sets = {part: delta[part]["set"] for part in ("nodes", "gangs", "queues")}
    seen = _Seeing(gangs, rights).parts(sets, delta["summary"])
    gone = {
        "nodes": delta["nodes"]["gone"] if rights.nodes else [],
        "gangs": [name for name in delta["gangs"]["gone"] if rights.sees_key(name)],
        "queues": delta["queues"]["gone"] if rights.queues else [],
    }
    parts = {part: {"set": seen[part], "gone": left} for part, left in gone.items()}
    return {**delta, **parts, "summary": seen["summary"]}


def explanation_seen_by(document: Document, hidden: Hidden) -> Document:
    """An answer about gangs, such as `muster explain -o json`, that names none of what somebody may not see.

    What would help by way of hidden gangs is left out: it is not for him to do.
    """
    found: Document = Discreet(hidden).of(document)
    return found


class _Seeing:
    """Nodes, gangs and queues as somebody sees them who may not see everything."""

    def __init__(self, everybody: Mapping[str, Document], rights: Rights) -> None:
        self._everybody, self._rights = everybody, rights
        self._said = Discreet(hidden_in(everybody, rights))
        self._unseen = [one for name, one in everybody.items() if not rights.sees_key(name)]

    def parts(self, some: Mapping[str, Mapping[str, Document]], summary: Document) -> Document:
        """Some nodes, gangs and queues; the summary counts what can be seen."""
        rights = self._rights
        counts = counts_of({name: one for name, one in self._everybody.items() if rights.sees_key(name)})
        more = self._held_by_others(some["nodes"]) if rights.nodes else {}
        return {
            "nodes": {name: _with_others(one, more.get(name, 0)) for name, one in some["nodes"].items()}
            if rights.nodes
            else {},
            "gangs": {name: self._gang(one) for name, one in some["gangs"].items() if rights.sees_key(name)},
            "queues": {name: _queue(one, rights) for name, one in some["queues"].items()} if rights.queues else {},
            "summary": {**summary, **counts, **({"unseen": len(self._unseen)} if self._unseen else {})},
        }

    def _held_by_others(self, nodes: Mapping[str, Document]) -> dict[str, float]:
        """The slots of hidden gangs on some nodes."""
        found: dict[str, float] = {}
        for one in self._unseen:
            for _, node, _, slots, state in one["pods"]:
                if state != NOMINATED and node in nodes:
                    found[node] = found.get(node, 0) + slots
        return found

    def _gang(self, gang: Document) -> Document:
        """A gang with words that name nobody who is hidden: only one that loses something is told for whom."""
        if not self._rights.nodes:
            gang = {**gang, "pods": []}
        codes = {reason["code"] for row in gang["tree"] for reason in row["reasons"]}
        if Code.EVICTED not in codes:
            return gang
        return {**gang, **self._said.of({"message": gang["message"], "tree": gang["tree"]})}


def _with_others(node: Document, more: float) -> Document:
    return {**node, "others": round(node["others"] + more, 3)} if more else node


def _queue(queue: Document, rights: Rights) -> Document:
    seen = [name for name in queue["waiting"] if rights.sees_key(name)]
    unseen = len(queue["waiting"]) - len(seen)
    return {**queue, "waiting": seen, "unseen": unseen} if unseen else queue


class Discreet:
    """Documents without the names of what is hidden."""

    def __init__(self, hidden: Hidden) -> None:
        self._rights = hidden.rights
        names = "|".join(re.escape(name) for name in sorted(hidden.namespaces, key=lambda one: (-len(one), one)))
        self._key = re.compile(rf"(?<![A-Za-z0-9./-])(?:{names}){_REST_OF_KEY}") if names else None
        # In commands a namespace also stands alone.
        self._word = re.compile(rf"(?<![A-Za-z0-9.-])(?:{names})(?![A-Za-z0-9.-])") if names else None

    def of(self, value: Any) -> Any:
        """The same, with somebody in place of everybody who is hidden."""
        if isinstance(value, str):
            return self._key.sub(SOMEBODY, value) if self._key is not None else value
        if isinstance(value, dict):
            return self._of_dict(value)
        return [self.of(one) for one in value] if isinstance(value, list) else value

    def _of_dict(self, value: dict[str, Any]) -> dict[str, Any]:
        found = {key: self.of(one) for key, one in value.items()}
        if isinstance(value.get("gang"), str) and not self._rights.sees_key(value["gang"]):
            found["gang"] = SOMEBODY
            found |= {part: type(value[part])() for part in ("pod", "pods") if part in value}
        if isinstance(value.get("for"), str) and not self._rights.sees_key(value["for"]):
            found["for"] = None
        if isinstance(value.get("waitsFor"), list):
            # Pods of anybody, gang or not.
            found["waitsFor"] = [
                {**one, "pods": [pod for pod in one["pods"] if self._rights.sees_key(pod)]} for one in value["waitsFor"]
            ]
        if isinstance(value.get("remedies"), list):
            found["remedies"] = [one for one in value["remedies"] if not self._names(one)]
        return found

    def _names(self, remedy: Mapping[str, str]) -> bool:
        """Whether a remedy speaks of what is hidden."""
        if self._word is None:
            return False
        return any(self._word.search(remedy[part]) is not None for part in ("message", "command"))
