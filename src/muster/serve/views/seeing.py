"""What of the page somebody may see: gangs by namespace, nodes, queues. Of hidden gangs only their room is told.

One rule for frames, deltas, decisions, explanations and what-ifs: fields that tell of nodes or of what queues hold are
empty for who may not see those, and what would help by way of them is left out. Sentences about a gang are those of its
status, without the names of hidden gangs.
"""

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from muster.decisions.changes import RAISE
from muster.model.reasons import Code
from muster.plan.outcome import Action
from muster.plan.remedies import FREE, UNCORDON
from muster.serve.views.frame import counts_of
from muster.serve.views.gangs import NOMINATED, Document
from muster.serve.views.timeline import SOMEBODY
from muster.snapshot.arrays import Snapshot

# A key ends where a name must, or where a sentence was cut. Other than names, the values of labels may have a `_`.
_REST_OF_KEY = r"/[A-Za-z0-9.-]*[A-Za-z0-9](?![A-Za-z0-9_])…?"
_OF_NODES = frozenset({"nodes", "slots", "free"})
# Never of somebody else: where a gang comes near or lies, and what its own parts are called.
_OWN = frozenset({"where", "domain", "name", "subGroup"})
# The one sentence that names nodes.
_KEPT_ON = re.compile(r"(room is kept for (?:it|them)) on .*?(?= · |$)")


class Rights(NamedTuple):
    """The namespaces whose gangs somebody may list, None: all of them; and whether also nodes and queues.

    Of `unasked` namespaces it is not known yet, so they are hidden.
    """

    namespaces: frozenset[str] | None = None
    nodes: bool = True
    queues: bool = True
    unasked: int = 0

    @property
    def all(self) -> bool:
        """Whether nothing is hidden."""
        return self.namespaces is None and self.nodes and self.queues

    @property
    def digest(self) -> str:
        """Tells these rights from others; empty for everything."""
        if self.all:
            return ""
        namespaces = None if self.namespaces is None else sorted(self.namespaces)
        return hashlib.sha256(repr((namespaces, self.nodes, self.queues)).encode()).hexdigest()[:16]

    def sees(self, namespace: str) -> bool:
        """Whether the gangs of a namespace may be seen."""
        return self.namespaces is None or namespace in self.namespaces

    def sees_key(self, key: str) -> bool:
        """Whether a gang, or a pod, may be seen, by `namespace/name`."""
        return self.sees(key.partition("/")[0])


EVERYTHING = Rights()


class Hidden(NamedTuple):
    """What somebody may not see: the namespaces of such gangs, and the rights that say so.

    `domains` are paths of domains that begin like the key of such a gang, and are none.
    """

    namespaces: frozenset[str]
    rights: Rights
    domains: frozenset[str] = frozenset()


def hidden_in(keys: Iterable[str], rights: Rights, domains: Iterable[str] = ()) -> Hidden:
    """What of some gangs, by `namespace/name`, somebody may not see; `domains` are the paths of all that there are."""
    unseen = {key for key in keys if not rights.sees_key(key)}
    namespaces = frozenset(key.partition("/")[0] for key in unseen)
    return Hidden(
        namespaces, rights, frozenset(path for path in domains if path.partition("/")[0] in namespaces) - unseen
    )


def hidden_of(snapshot: Snapshot, rights: Rights, namespaces: Iterable[str] = ()) -> Hidden:
    """What somebody may not see of a snapshot, and of further namespaces."""
    if rights.namespaces is None:
        return Hidden(frozenset(), rights)
    keys = ["/".join(gang.key) for gang in snapshot.gangs]
    keys += [f"{namespace}/" for namespace in namespaces]
    return hidden_in(
        keys, rights, (path for one in snapshot.topologies for level in one.levels for path in level.paths)
    )


def seen_by(frame: Document, rights: Rights) -> Document:
    """A whole frame as somebody may see it. It says by which rights: only under the same ones a delta fits it.

    `mayNotSee` tells what is empty because of them from what there is none of.
    """
    if rights.all:
        return frame
    seen = _Seeing(frame["gangs"], rights).parts(frame, frame["summary"])
    hidden = [name for name, may in (("nodes", rights.nodes), ("queues", rights.queues)) if not may]
    return {**frame, **seen, "rights": rights.digest, "mayNotSee": hidden}


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


def answer_seen_by(document: Document, hidden: Hidden) -> Document:
    """An answer about gangs (an explanation, a what-if, a decision) that tells nothing of what somebody may not see.

    What would help by way of hidden gangs, nodes or queues is left out: it is not for him to do.
    """
    if hidden.rights.all:
        return document
    found: Document = Discreet(hidden).of(document)
    return found


class Touched(NamedTuple):
    """What a manifest speaks of: its namespaces, the queues of its gangs but the default one, and its kinds that are in
    no namespace, such as `nodes`. A what-if has it as `touches`.
    """

    namespaces: Collection[str] = ()
    queues: Collection[str] = ()
    kinds: Collection[str] = ()


def foreign_in(touched: Touched, rights: Rights, queues: Collection[str]) -> tuple[str, str] | None:
    """What of a manifest somebody may not assume, and what it takes; None when there is nothing of the kind.

    What becomes of others by it would tell what they have, and what is said of a queue what it allows. `queues` are
    those of gangs that he sees: there he is told anyway.
    """
    for namespace in sorted(touched.namespaces):
        if not rights.sees(namespace):
            hint = "it takes the verb list on podgroups.scheduling.run.ai there"
            return f"namespace {namespace} is not yours to see", hint
    for queue in sorted(touched.queues):
        if not rights.queues and queue not in queues:
            return f"queue {queue} is not yours to see", "it takes the verb list on queues.scheduling.run.ai"
    mine = {"nodes": rights.nodes, "queues": rights.queues}
    for kind in sorted(touched.kinds):
        if not mine.get(kind, rights.all):
            takes = f"the verb list on {kind}" if kind in mine else "the right to see everything"
            return f"{kind} are not yours to assume", f"it takes {takes}"
    return None


def mark_seen_by(mark: Document, rights: Rights) -> Document:
    """A mark on the lane of a gang that somebody may see."""
    return mark if rights.nodes else {**mark, "text": _KEPT_ON.sub(r"\1", mark["text"])}


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
        # How many nodes there are, and what they have, is told to who may see them.
        in_all = {name: one for name, one in summary.items() if rights.nodes and name in _OF_NODES}
        left_out = {"unseen": len(self._unseen), "unasked": rights.unasked}
        more = self._held_by_others(some["nodes"]) if rights.nodes else {}
        return {
            "nodes": {name: _with_others(one, more.get(name, 0)) for name, one in some["nodes"].items()}
            if rights.nodes
            else {},
            "gangs": {name: self._gang(one) for name, one in some["gangs"].items() if rights.sees_key(name)},
            "queues": {name: _queue(one, rights) for name, one in some["queues"].items()} if rights.queues else {},
            "summary": {**in_all, **counts, **{name: number for name, number in left_out.items() if number}},
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
        if all(reason["code"] != Code.EVICTED for row in gang["tree"] for reason in row["reasons"]):
            return gang
        tree = [{**row, "reasons": [self._reason(reason) for reason in row["reasons"]]} for row in gang["tree"]]
        message = self._said.of(gang["message"]) if gang["reason"] == Code.EVICTED else gang["message"]
        return {**gang, "message": message, "tree": tree}

    def _reason(self, reason: Document) -> Document:
        found: Document = self._said.of(reason) if reason["code"] == Code.EVICTED else reason
        return found


def _with_others(node: Document, more: float) -> Document:
    return {**node, "others": round(node["others"] + more, 3)} if more else node


def _queue(queue: Document, rights: Rights) -> Document:
    seen = [name for name in queue["waiting"] if rights.sees_key(name)]
    unseen = len(queue["waiting"]) - len(seen)
    return {**queue, "waiting": seen, "unseen": unseen} if unseen else queue


class Discreet:
    """Documents without what is hidden."""

    def __init__(self, hidden: Hidden) -> None:
        self._rights, self._domains = hidden.rights, hidden.domains
        names = "|".join(re.escape(name) for name in sorted(hidden.namespaces, key=lambda one: (-len(one), one)))
        self._key = re.compile(rf"(?<![A-Za-z0-9./-])(?:{names}){_REST_OF_KEY}") if names else None
        # In commands a namespace also stands alone.
        self._space = re.compile(rf"(?:-n|--namespace)[ =]['\"]?(?:{names})(?![A-Za-z0-9.-])") if names else None

    def of(self, value: Any) -> Any:
        """The same, with somebody in place of everybody who is hidden."""
        if isinstance(value, str):
            return self._said(value)
        if isinstance(value, dict):
            return self._of_dict(value)
        return [self.of(one) for one in value] if isinstance(value, list) else value

    def _said(self, text: str) -> str:
        if not self._rights.nodes:
            text = _KEPT_ON.sub(r"\1", text)
        return self._key.sub(self._named, text) if self._key is not None else text

    def _named(self, found: re.Match[str]) -> str:
        return found[0] if found[0] in self._domains else SOMEBODY

    def _of_dict(self, value: dict[str, Any]) -> dict[str, Any]:
        rights = self._rights
        found = {key: one if key in _OWN else self.of(one) for key, one in value.items()}
        if isinstance(value.get("gang"), str) and not rights.sees_key(value["gang"]):
            found["gang"] = SOMEBODY
            found |= {part: type(value[part])() for part in ("namespace", "pod", "pods") if part in value}
        if isinstance(value.get("for"), str) and not rights.sees_key(value["for"]):
            found["for"] = None
        if isinstance(value.get("waitsFor"), list):
            # Pods of anybody, gang or not.
            found["waitsFor"] = [
                {**one, "pods": [pod for pod in one["pods"] if rights.sees_key(pod)]} for one in found["waitsFor"]
            ]
        if "victims" in value and isinstance(value.get("others"), list):
            # Not what each of them has.
            own = [one for one in value["others"] if rights.sees_key(one)]
            found["others"] = own if len(own) == len(value["others"]) else [*own, "and gangs of others"]
        if isinstance(value.get("remedies"), list):
            found["remedies"] = [one for one in value["remedies"] if self._may_help(one)]
        if not rights.nodes:
            found |= _nowhere(value)
        if not rights.queues:
            found |= _without_shares(value)
        return found

    def _may_help(self, remedy: Mapping[str, str]) -> bool:
        """Whether a remedy is about nothing that is hidden."""
        kinds = {UNCORDON: self._rights.nodes, FREE: self._rights.nodes, RAISE: self._rights.queues}
        if not kinds.get(remedy["kind"], True):
            return False
        named = [text for text in (remedy["message"], remedy["command"]) if self._said(text) != text]
        return not named and (self._space is None or self._space.search(remedy["command"]) is None)


def _nowhere(document: Document) -> Document:
    """What stands in a document for somebody who may not see nodes: no node, and no pods that have one."""
    found: Document = {"node": ""} if isinstance(document.get("node"), str) else {}
    pods = document.get("pods")
    if isinstance(pods, list) and any(not isinstance(pod, str) for pod in pods):
        found["pods"] = []
    return found


def _without_shares(document: Document) -> Document:
    """What stands in a document for somebody who may not see queues: neither what they hold nor what they are due."""
    found: Document = {"shares": []} if "shares" in document else {}
    if "checks" in document and "notes" in document:
        # Why an explanation's gang reclaims nothing, in amounts of all queues around it.
        found["notes"] = [note for note in document["notes"] if not note.startswith(Action.RECLAIM)]
    return found
