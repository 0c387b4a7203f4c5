"""What happened in a story, for people: what belongs together becomes one sentence, at the second when it began.

It takes lines (`see` of play) and changes (`follow`). What is said of a change in a line is told here in other words.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from muster.embedded.store import Change
from muster.sim.expecting import GANG, was_evicted
from muster.sim.trace import Line, words_of

Document = dict[str, Any]
# What happens within so long, by the same hands to the same gang, is one thing; faults are weather.
TOGETHER_S, WEATHER_S = 0.5, 5.0
PEOPLE, MUSTER, CLUSTER, FAULT, PROCESS, JUDGE = "people", "muster", "cluster", "fault", "process", "judge"
_MOST_NAMES = 4
# So much of a warning tells whether it is the same again.
_SAME = 24
# What operators and the cluster make for themselves.
_OF_OPERATORS = ("configmaps", "namespaces", "events")
_GROUPS, _LEASES, _EVENTS = "podgroups.scheduling.run.ai", "leases.coordination.k8s.io", "events"
# What a group of pods did, in the singular and in the plural.
_DEEDS = {
    "come": ("comes", "come"),
    "bind": ("is bound", "are bound"),
    "room": ("is promised room", "are promised room"),
    "evict": ("is evicted", "are evicted"),
    "leave": ("is told to go", "are told to go"),
    "gone": ("is gone", "are gone"),
    "Succeeded": ("finishes", "finish"),
    "Failed": ("fails", "fail"),
}


class Entry(NamedTuple):
    """A sentence of the story. `gang` is whom it is about, as namespace/name, if anybody."""

    at_s: float
    who: str
    kind: str
    what: str
    gang: str = ""
    deed: str = ""


class _Some:
    """Pods of a gang to which the same happened."""

    def __init__(self, at_s: float, who: str, gang: str, deed: str) -> None:
        self.at_s, self.who, self.gang, self.deed = at_s, who, gang, deed
        self.names: list[str] = []
        self.nodes: Counter[str] = Counter()


class Timeline:
    """Tells entries in their order, each a little after it happened."""

    def __init__(self, tell: Callable[[Entry], None]) -> None:
        self._tell = tell
        self._waiting: list[Entry] = []
        self._some: dict[tuple[str, str, str], _Some] = {}
        self._weather: dict[str, tuple[float, int]] = {}
        # What came when, by kind; what processes have said already.
        self._came: dict[float, Counter[str]] = {}
        self._said: set[tuple[str, str]] = set()
        self._last: Line | None = None

    # What comes in.

    def line(self, line: Line) -> None:
        """A line of the trace; of a change it is known only afterwards that it was one."""
        self._settle_line()
        self._last = line

    def change(self, at_s: float, who: str, change: Change) -> None:
        """An object came, changed or went."""
        if self._last is not None and self._last.what == words_of(change):
            self._last = None
        self._settle_line()
        self._flush(at_s)
        resource = change.key.resource
        if resource == "pods":
            self._pod(at_s, who, change)
        elif resource == _GROUPS:
            self._gang(at_s, who, change)
        elif resource == _EVENTS:
            self._event(at_s, who, change)
        elif resource == _LEASES:
            holder = (change.document.get("spec") or {}).get("holderIdentity")
            if holder and holder != ((change.before or {}).get("spec") or {}).get("holderIdentity"):
                self._put(at_s, who, PROCESS, f"{holder} leads: it holds the Lease")
        elif change.type == "ADDED" and who == PEOPLE:
            if resource not in _OF_OPERATORS:
                self._came.setdefault(at_s, Counter())[change.document.get("kind", resource)] += 1
        elif resource not in _OF_OPERATORS and (words := words_of(change)):
            self._put(at_s, who, CLUSTER if who == "kubelet" else PEOPLE, words)

    def end(self) -> None:
        """There is no more: whatever waits is told."""
        self._settle_line()
        self._flush(float("inf"))

    # Lines that are no changes.

    def _settle_line(self) -> None:
        line, self._last = self._last, None
        if line is None:
            return
        self._flush(line.at_s)
        if line.who == "fault":
            begun_s, times = self._weather.get(line.what, (line.at_s, 0))
            self._weather[line.what] = (begun_s, times + 1)
        elif line.who.startswith("muster"):
            self._process(line)
        else:
            kind = {"judge": JUDGE, "server": CLUSTER}.get(line.who, PEOPLE)
            self._put(line.at_s, line.who, kind, line.what)

    def _process(self, line: Line) -> None:
        """What a process says of itself; of its log only what is a warning or worse, and only once in its life."""
        if not line.what.startswith("logs "):
            if line.what.startswith("starts"):
                self._said = {one for one in self._said if one[0] != line.who}
            self._put(line.at_s, line.who, PROCESS, line.what)
            return
        _, _, level, *words = line.what.split(" ", 3)
        said = " ".join(" ".join(words).split())
        if level in ("WARNING", "ERROR") and (line.who, said[:_SAME]) not in self._said:
            self._said.add((line.who, said[:_SAME]))
            self._put(line.at_s, line.who, PROCESS, f"says: {said}")

    # Changes.

    def _pod(self, at_s: float, who: str, change: Change) -> None:
        new, old = change.document, change.before or {"metadata": {}}
        space, gang = change.key.namespace, (new["metadata"].get("annotations") or {}).get(GANG, "")
        name = f"{space}/{gang}" if gang else ""
        node, was = ((one.get("spec") or {}).get("nodeName") or "" for one in (new, old))
        now, then = ((one.get("status") or {}) for one in (new, old))
        if change.type == "ADDED":
            self._add(at_s, who, name, "come", change.key.name, node)
        elif change.type == "DELETED":
            if not was_evicted(new) or old["metadata"].get("deletionTimestamp") is None:
                self._add(at_s, who, name, "evict" if was_evicted(new) else "gone", change.key.name)
        elif node != was:
            self._add(at_s, who, name, "bind", change.key.name, node)
        elif new["metadata"].get("deletionTimestamp") and not old["metadata"].get("deletionTimestamp"):
            self._add(at_s, who, name, "evict" if was_evicted(new) else "leave", change.key.name)
        elif now.get("phase") != then.get("phase") and now.get("phase") in _DEEDS:
            self._add(at_s, who, name, now["phase"], change.key.name)
        elif now.get("nominatedNodeName") and now.get("nominatedNodeName") != then.get("nominatedNodeName"):
            self._add(at_s, who, name, "room", change.key.name, now["nominatedNodeName"])

    def _add(self, at_s: float, who: str, gang: str, deed: str, name: str, node: str = "") -> None:
        some = self._some.setdefault((who, gang, deed), _Some(at_s, who, gang, deed))
        some.names.append(name)
        if node:
            some.nodes[node] += 1

    def _gang(self, at_s: float, who: str, change: Change) -> None:
        name = f"{change.key.namespace}/{change.key.name}"
        if change.type != "MODIFIED":
            self._put(at_s, who, _kind(who), f"gang {name} {'comes' if change.type == 'ADDED' else 'goes'}", name)
            return
        new, old = change.document, change.before or {}
        if new.get("spec") != old.get("spec"):
            self._put(at_s, who, _kind(who), f"gang {name} has another spec", name)
        now, then = ((one.get("status") or {}) for one in (new, old))
        if (now.get("phase"), now.get("reason")) != (then.get("phase"), then.get("reason")):
            self._put(at_s, who, MUSTER, f"gang {name} is {state_of(now)}", name, "state")

    def _event(self, at_s: float, who: str, change: Change) -> None:
        """Why pods were evicted stands in an Event about their gang."""
        document = change.document
        about = document.get("regarding") or document.get("involvedObject") or {}
        note = document.get("note") or document.get("message") or ""
        if change.type == "ADDED" and document.get("reason") == "Evicted" and about.get("kind") == "PodGroup":
            name = f"{about.get('namespace')}/{about.get('name')}"
            self._put(at_s, who, MUSTER, f"gang {name}: {note.partition(' (decision')[0]}", name, "why")

    # What goes out.

    def _put(self, at_s: float, who: str, kind: str, what: str, gang: str = "", deed: str = "") -> None:
        self._waiting.append(Entry(at_s, who, kind, what, gang, deed))

    def _flush(self, now_s: float) -> None:
        """Whatever is old enough is told."""
        for key in [key for key, some in self._some.items() if some.at_s < now_s - TOGETHER_S]:
            self._waiting.append(_entry(self._some.pop(key)))
        for at_s in [at_s for at_s in self._came if at_s < now_s]:
            kinds = ", ".join(f"{kind} ×{n}" if n > 1 else kind for kind, n in self._came.pop(at_s).items())
            self._waiting.insert(0, Entry(at_s, PEOPLE, PEOPLE, f"there comes: {kinds}"))
        for name, (at_s, times) in list(self._weather.items()):
            if at_s < now_s - WEATHER_S:
                del self._weather[name]
                self._put(at_s, FAULT, FAULT, name if times == 1 else f"{name}, {times} times")
        open_s = min([one.at_s for one in self._some.values()], default=now_s)
        open_s = min([open_s, *(at_s for at_s, _ in self._weather.values())])
        self._waiting.sort(key=lambda one: one.at_s)
        while self._waiting and self._waiting[0].at_s < min(open_s, now_s - TOGETHER_S):
            self._tell(self._waiting.pop(0))


def _kind(who: str) -> str:
    return MUSTER if who.startswith("muster") else PEOPLE


def _entry(some: _Some) -> Entry:
    one, many = _DEEDS[some.deed]
    count = len(some.names)
    where = ", ".join(f"{node} ×{pods}" if pods > 1 else node for node, pods in sorted(some.nodes.items()))
    what = f"{some.names[0]} {one}" if count == 1 else f"{count} pods {many}"
    if some.deed in ("evict", "leave", "gone", "Failed", "Succeeded") and count > 1:
        shown = ", ".join(some.names[:_MOST_NAMES]) + (" …" if count > _MOST_NAMES else "")
        what += f": {shown}"
    gang = f"gang {some.gang}: " if some.gang else ""
    kind = _kind(some.who) if some.who != "kubelet" else CLUSTER
    return Entry(some.at_s, some.who, kind, f"{gang}{what}{f' on {where}' if where else ''}", some.gang, some.deed)


def state_of(status: Document) -> str:
    """The state of a gang in words: phase, pods, and why it is not placed."""
    rows = status.get("subGroups") or [{}]
    words = [str(status.get("phase") or "untold"), str(status.get("podsSummary") or "")]
    reason, message = status.get("reason") or "", rows[0].get("message") or ""
    why = f": {reason}" if reason else ""
    return " ".join(filter(None, words)) + why + (f" ({message})" if reason and message else "")
