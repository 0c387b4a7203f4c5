"""What happened in a story: lines in words for people, and one hash over all of it, to the last field."""

import hashlib
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from muster.embedded.server import Server
from muster.embedded.store import Change

Document = dict[str, Any]
_ENCODER = msgspec.json.Encoder()


class Line(NamedTuple):
    """Somebody did something: `people`, `kubelet`, `muster-0`, `fault`, `server`, `judge`."""

    at_s: float
    who: str
    what: str


class Violation(NamedTuple):
    """A promise that was broken: which one, and how."""

    at_s: float
    rule: str
    says: str


class Outcome(NamedTuple):
    """What came of a story."""

    violations: list[Violation]
    digest: str
    lines: list[Line]
    counts: Counter[str]
    virtual_s: float
    server: Server


class Trace:
    """Takes down what happens. Lines are kept, or shown, only when somebody wants them; the hash always is."""

    def __init__(self, now: Callable[[], float], keep: bool, see: Callable[[Line], None] | None) -> None:
        self._now, self._keep, self._see = now, keep, see
        self._hash = hashlib.sha256()
        self.lines: list[Line] = []
        self.counts: Counter[str] = Counter()

    @property
    def is_read(self) -> bool:
        """Whether anybody reads the lines."""
        return self._keep or self._see is not None

    @property
    def digest(self) -> str:
        """The hash of all that happened so far."""
        return self._hash.hexdigest()[:16]

    def say(self, who: str, what: str) -> None:
        """Something happened that is no change of an object."""
        self._hash.update(f"{self._now():.6f} {who} {what}\n".encode())
        self.show(who, what)

    def show(self, who: str, what: str) -> None:
        """Words about what is in the hash already."""
        if self.is_read:
            line = Line(self._now(), who, what)
            if self._keep:
                self.lines.append(line)
            if self._see is not None:
                self._see(line)

    def change(self, change: Change, who: str) -> None:
        """An object came, changed or went."""
        self._hash.update(f"{self._now():.6f} {who} {change.type} ".encode())
        self._hash.update(_ENCODER.encode(change.document))
        self.counts["events"] += 1
        if self.is_read:
            what = words_of(change)
            if what:
                self.show(who, what)


def words_of(change: Change) -> str:
    """A change in words; empty: nobody wants to read of it."""
    resource, key, new, old = change.key.resource, change.key, change.document, change.before or {}
    if resource == "pods":
        return _pod(change)
    if resource.startswith("podgroups."):
        if change.type != "MODIFIED":
            return f"gang {key.namespace}/{key.name} {'comes' if change.type == 'ADDED' else 'goes'}"
        return _gang(f"{key.namespace}/{key.name}", new, old)
    if resource == "nodes":
        return _node(change)
    if resource == "leases.coordination.k8s.io":
        holders = [(one.get("spec") or {}).get("holderIdentity") or "nobody" for one in (new, old)]
        return f"the Lease is held by {holders[0]}" if holders[0] != holders[1] else ""
    if resource in ("events", "namespaces") or resource.startswith("customresourcedefinitions"):
        return ""
    verb = {"ADDED": "comes", "MODIFIED": "changes", "DELETED": "goes"}[change.type]
    if change.type == "MODIFIED" and old.get("spec") == new.get("spec"):
        return ""
    return f"{new.get('kind', resource)} {key.name} {verb}"


def _pod(change: Change) -> str:
    name, new, old = f"pod {change.key.namespace}/{change.key.name}", change.document, change.before or {}
    if change.type == "ADDED":
        return f"{name} comes"
    if change.type == "DELETED":
        return f"{name} is gone"
    node, before = ((one.get("spec") or {}).get("nodeName") or "" for one in (new, old))
    if node != before:
        return f"{name} is bound to {node}"
    if new["metadata"].get("deletionTimestamp") and not old["metadata"].get("deletionTimestamp"):
        return f"{name} is told to go"
    now, then = ((one.get("status") or {}) for one in (new, old))
    if now.get("phase") != then.get("phase"):
        return f"{name} is {now.get('phase')}"
    if now.get("nominatedNodeName") != then.get("nominatedNodeName"):
        nominated = now.get("nominatedNodeName")
        return f"{name} is nominated to {nominated}" if nominated else f"{name} is nominated no more"
    return ""


def _gang(name: str, new: Document, old: Document) -> str:
    if new.get("spec") != old.get("spec"):
        return f"gang {name} says something else"
    now, then = ((one.get("status") or {}) for one in (new, old))
    told = [(one.get("phase"), one.get("reason"), one.get("podsSummary")) for one in (now, then)]
    if told[0] == told[1]:
        return ""
    phase, reason, pods = told[0]
    return f"gang {name} is {phase} {pods or ''}{': ' + str(reason) if reason else ''}"


def _node(change: Change) -> str:
    name, new, old = f"node {change.key.name}", change.document, change.before or {}
    if change.type != "MODIFIED":
        return f"{name} {'comes' if change.type == 'ADDED' else 'goes'}"
    said = []
    for label in sorted({*_labels(new), *_labels(old)}):
        if _labels(new).get(label) != _labels(old).get(label):
            said.append(f"{label}={_labels(new).get(label)}")
    cordoned = [bool((one.get("spec") or {}).get("unschedulable")) for one in (new, old)]
    if cordoned[0] != cordoned[1]:
        said.append("cordoned" if cordoned[0] else "uncordoned")
    ready = [_is_ready(one) for one in (new, old)]
    if ready[0] != ready[1]:
        said.append("ready" if ready[0] else "not ready")
    return f"{name} is {', '.join(said)}" if said else ""


def _labels(node: Document) -> dict[str, str]:
    found: dict[str, str] = (node.get("metadata") or {}).get("labels") or {}
    return found


def _is_ready(node: Document) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return all(one.get("status") == "True" for one in conditions if one.get("type") == "Ready")
