"""Compares what a cluster shows with what a scenario expects: pods, nodes, PodGroups and Queues as kubectl has them.

What a scenario expects of one cycle is here expected of the state that a cluster settles in. `Seen` is that state as
plain documents, so that it does not matter whether it comes from a real control plane, the demo or the simulation.
"""

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import msgspec

from muster.api.cluster import PREEMPTED
from muster.embedded.store import DELETED, Change
from muster.model.reasons import Code, Step, failing, nodes_help
from muster.plan.outcome import Verdict
from muster.sim.scenario import (
    EvictionExpected,
    Expected,
    GangExpected,
    QueueExpected,
    ReasonExpected,
    Together,
    Where,
)
from muster.sim.stage import SPACE, Send, folder_of
from muster.snapshot.gangs import WAITS_FOR_PROMISED

Document = dict[str, Any]
Key = tuple[str, str]
GANG, LEAF = "pod-group-name", "kai.scheduler/subgroup-name"
# What the eviction API writes on a pod before it goes, and what muster writes on one that it deletes.
EVICTED = {"EvictionByEvictionAPI", PREEMPTED}
_EVENTS = "/apis/events.k8s.io/v1/events"
_QUEUE_FIELDS = {
    "fair_share": "fairShare",
    "allocated": "allocated",
    "non_preemptible": "allocatedNonPreemptible",
    "requested": "requested",
}
_PLACED, _INFEASIBLE, _UNDECIDED, _HELD = (one.value for one in Verdict)
# A status has no word for the verdict of a gang below its minimum, but its foremost reason tells: Infeasible;
_IN_VAIN = {*filter(nodes_help, Code), Code.TOPOLOGY_DRIFT}
# Held, or Infeasible when the queue closes only one of several ways;
_BY_A_QUEUE = failing(Step.QUOTA)
# any, for it is about something else. A search that is not over is Undecided, and all other reasons say Held.
_BESIDE = {Code.EVICTED, Code.BIND_BACKOFF, Code.SET_ASIDE, Code.BAD_POD, Code.PRIORITY_NOT_FOUND, Code.SCHEDULER_ERROR}
# These hold also a gang that is placed: nothing is added to it.
_HOLDING = failing(Step.QUEUE) | failing(Step.PRIORITY) | failing(Step.TOPOLOGY) | failing(Step.SUPPORTED)
# Numbers of a sentence, with their units; of those, how much room or how many pods there are.
_NUMBER = r"(?<![\w.,-])(\d[\d,]*(?:\.\d+)?)([MGT]?)(?![\w.])"
_EVERY, _BEST = re.compile(_NUMBER), re.compile(rf"(?<=there is room for ){_NUMBER}|{_NUMBER} (?:of \d|left of )")
_UNITS = {"": 1, "M": 10**6, "G": 10**9, "T": 10**12}


class Bound(NamedTuple):
    """A pod of a gang came to a node."""

    pod: Key
    node: str
    gang: Key


class Moves:
    """The binds and evictions since a step began, of pods as they are shown one after the other.

    Who is told to go is evicted from then on, and not only when it is gone.
    """

    def __init__(self) -> None:
        self.bound: list[Bound] = []
        # Pods that were evicted, as they were then.
        self.evicted: list[Document] = []
        self._told: set[str] = set()

    def begin(self) -> None:
        """A new step: what was seen before is forgotten."""
        self.bound, self.evicted = [], []

    def changed(self, change: Change) -> None:
        """Takes in a change of the store."""
        if change.key.resource == "pods":
            self.saw(change.document, change.before, gone=change.type == DELETED)

    def saw(self, pod: Document, before: Document | None, *, gone: bool) -> None:
        """Takes in a pod as it is now, or was when it went, and as it was shown last."""
        uid = pod["metadata"]["uid"]
        leaves = gone or pod["metadata"].get("deletionTimestamp")
        if leaves and uid not in self._told and was_evicted(pod):
            self._told.add(uid)
            self.evicted.append(pod)
        node = _node(pod)
        if not gone and before is not None and before["metadata"]["uid"] == uid and node and not _node(before):
            self.bound.append(Bound(key_of(pod), node, gang_of(pod)))


def _node(pod: Document) -> str:
    found: str = (pod.get("spec") or {}).get("nodeName") or ""
    return found


def was_evicted(pod: Document) -> bool:
    """Whether a pod goes because somebody evicted it."""
    return any(one.get("reason") in EVICTED for one in (pod.get("status") or {}).get("conditions") or ())


def key_of(document: Document) -> Key:
    """Namespace and name."""
    return document["metadata"].get("namespace") or SPACE, document["metadata"]["name"]


class Seen(NamedTuple):
    """A cluster as it is, and what has moved in it since the step began."""

    pods: list[Document]
    groups: list[Document]
    nodes: list[Document]
    queues: list[Document] = []
    topologies: list[Document] = []
    events: list[Document] = []
    bound: list[Bound] = []
    evicted: list[Document] = []


def look(send: Send, bound: Iterable[Bound] = (), evicted: Iterable[Document] = ()) -> Seen:
    """All of a cluster as it is now."""

    def listed(path: str) -> list[Document]:
        code, found = send("GET", path)
        assert code == 200, f"{path}: {found}"
        items: list[Document] = found["items"]
        return items

    return Seen(
        pods=listed(folder_of("Pod", "")),
        groups=listed(folder_of("PodGroup", "")),
        nodes=listed(folder_of("Node")),
        queues=listed(folder_of("Queue")),
        topologies=listed(folder_of("Topology")),
        events=listed(_EVENTS),
        bound=list(bound),
        evicted=list(evicted),
    )


def differs(expected: Expected, seen: Seen) -> list[str]:
    """Everything that is not as expected."""
    return _Comparing(seen).all(expected)


class _Comparing:
    def __init__(self, seen: Seen) -> None:
        self._seen = seen
        self._groups = {key_of(one): one for one in seen.groups}
        self._nodes = {one["metadata"]["name"]: _labels(one) for one in seen.nodes}
        self._node_of = {key_of(one): node for one in seen.pods if (node := one["spec"].get("nodeName"))}
        self._promised = {
            key_of(one): node
            for one in seen.pods
            if (node := (one.get("status") or {}).get("nominatedNodeName")) and key_of(one) not in self._node_of
        }
        self._gone = [(key_of(one), gang_of(one)) for one in seen.evicted]
        # All that are there, or moved.
        self._pods = {*(key_of(one) for one in (*seen.pods, *seen.evicted)), *(one.pod for one in seen.bound)}

    def all(self, expected: Expected) -> list[str]:
        wrong = []
        for name, gang in expected.gangs.items():
            wrong += [f"{name}: {fault}" for fault in self._gang(_key(name), gang)]
        wrong += _unlike("bindings", expected.bindings, len(self._seen.bound))
        wrong += _unlike("nominations", expected.nominations, len(self._promised))
        wrong += self._evictions(expected.evictions)
        wrong += [fault for where in expected.where for fault in self._where(where)]
        queues = {one["metadata"]["name"]: one for one in self._seen.queues}
        for name, queue in expected.queues.items():
            # Who was evicted asks for nothing until there is another: the shares are those of the next cycle.
            told = msgspec.structs.replace(queue, fair_share=None) if expected.evictions else queue
            found = _queue(queues[name], told) if name in queues else ["it is not there"]
            wrong += [f"queue {name}: {fault}" for fault in found]
        if expected.unchanged:
            named = {_key(name) for name in expected.gangs}
            moved = {one.gang for one in self._seen.bound} | {gang for _, gang in self._gone}
            wrong += [f"{gang[1]} was not to change" for gang in sorted(moved - named - {(SPACE, "")})]
        return wrong

    def _where(self, expected: Where) -> list[str]:
        every = {**self._promised, **self._node_of}
        nodes = {pod: node for pod, node in every.items() if fnmatchcase(pod[1], expected.pods)}
        wrong = [f"{pod[1]} is on {node}" for pod, node in nodes.items() if not fnmatchcase(node, expected.nodes)]
        if expected.count is None and not any(fnmatchcase(pod[1], expected.pods) for pod in self._pods):
            wrong.append(f"no pod is called {expected.pods}")
        return wrong + _unlike(f"pods {expected.pods} that have a node", expected.count, len(nodes))

    def _evictions(self, expected: int | list[EvictionExpected] | None) -> list[str]:
        gone = [pod[1] for pod, _ in self._gone]
        if not isinstance(expected, list):
            return _unlike("evictions" + (f" ({', '.join(gone)})" if gone else ""), expected, len(gone))
        wrong = [f"{name} is evicted" for name in gone if not any(fnmatchcase(name, one.pods) for one in expected)]
        for pattern in dict.fromkeys(one.pods for one in expected):
            alike = [one for one in expected if one.pods == pattern]
            found = sum(fnmatchcase(name, pattern) for name in gone)
            counts = [one.count for one in alike if one.count is not None]
            wrong += _unlike(f"evictions of {pattern}", sum(counts) if len(counts) == len(alike) else found, found)
            wrong += [] if found else [f"nobody of {pattern} is evicted"]
            wrong += [fault for one in alike for fault in self._said(one)] if found else []
        return wrong

    def _said(self, expected: EvictionExpected) -> list[str]:
        """An Event on a gang that lost pods tells by what, and for whom; room is kept for those that were moved."""
        gangs = {gang for pod, gang in self._gone if fnmatchcase(pod[1], expected.pods)} & set(self._groups)
        words = f"for {'/'.join(_key(expected.for_ or ''))} ({expected.action})"
        words = words if expected.action != "stale" else "below its minimum for longer than its grace period"
        groups = [self._groups[key] for key in sorted(gangs)]
        uids = {one["metadata"].get("uid") for one in groups}
        about = [one for one in self._seen.events if (one.get("regarding") or {}).get("uid") in uids]
        notes = [one.get("note", "") for one in about if one.get("reason") == "Evicted"]
        wrong = [] if any(words in note for note in notes) or not gangs else [f"no Event {words}, but {_listed(notes)}"]
        if expected.ignored and not any(f"although {expected.ignored} " in note for note in notes):
            wrong.append(f"no Event says that {expected.ignored} was passed over, but {_listed(notes)}")
        if expected.to is not None:
            kept = [node for one in groups for node in _kept(one)]
            wrong += (
                [] if any(fnmatchcase(node, expected.to) for node in kept) else [f"room is kept on {_listed(kept)}"]
            )
        return wrong

    def _gang(self, key: Key, expected: GangExpected) -> list[str]:
        if key not in self._groups:
            return ["it is not there"]
        status = self._groups[key].get("status") or {}
        rows = {row["name"]: row for row in status.get("subGroups", [])}
        if "" not in rows:
            return self._invalid(status, expected)
        conditions = {one["type"]: one for one in status["conditions"]}
        scheduled = conditions["Scheduled"]["status"] == "True"
        waits = "Stale" if "staleSince" in rows[""] else "Pending"
        promised = rows[""].get("reason") == "WaitingForRoom" and WAITS_FOR_PROMISED not in rows[""].get("message", "")
        wrong = _unlike("phase", "Scheduled" if scheduled else waits, status["phase"])
        if status["phase"] == "Completed":
            wrong = []
        may = [_PLACED] if promised else _verdicts(rows, status.get("reason", ""))
        wrong += [] if expected.verdict in may else _unlike("verdict", expected.verdict, " or ".join(may))
        wrong += _unlike("satisfied", expected.satisfied, rows[""]["satisfied"])
        wrong += _unlike("satisfied and Scheduled", rows[""]["satisfied"], scheduled)
        wrong += _rows(rows, expected)
        for together in expected.together:
            wrong += self._together(key, together)
        mine = [pod for pod in self._seen.pods if gang_of(pod) == key]
        came = {one.pod for one in self._seen.bound if one.gang == key}
        wrong += _unlike("bindings", expected.bindings, len(came))
        wrong += _unlike("nominations", expected.nominations, sum(key_of(one) in self._promised for one in mine))
        wrong += _unlike("evicted", expected.evicted, sum(gang == key for _, gang in self._gone))
        if expected.reasons is not None:
            wrong += _reasons(rows, status, expected.reasons)
        return wrong

    def _invalid(self, status: Document, expected: GangExpected) -> list[str]:
        """Nothing is told of an invalid gang but that it is; its errors stand in one condition."""
        if status.get("phase") != "Invalid":
            return ["it has no status"]
        wrong = _unlike("verdict", expected.verdict, _HELD)
        wrong += _unlike("satisfied", expected.satisfied, False)
        if expected.reasons is None:
            return wrong
        message = next((one["message"] for one in status["conditions"] if one["type"] == "Accepted"), "")
        return wrong + _reasons({"": {"reason": status["reason"], "message": message}}, status, expected.reasons)

    def _together(self, gang: Key, expected: Together) -> list[str]:
        known = {one["metadata"]["name"]: one for one in self._seen.topologies}
        if not expected.topology and len(known) != 1:
            return [f"there are {len(known)} Topologies"]
        name = expected.topology or next(iter(known))
        if name not in known:
            return [f"there is no Topology {name}, but {_listed(known)}"]
        labels = [level["nodeLabel"] for level in known[name]["spec"]["levels"]]
        if expected.level not in labels:
            return [f"the Topology {name} has no level {expected.level}, but {_listed(labels)}"]
        labels = labels[: labels.index(expected.level) + 1]
        held, nodes_of = [], {**self._promised, **self._node_of}
        for leaf in expected.sub_groups:
            nodes = {nodes_of.get(key_of(one), "") for one in self._of(gang, leaf)} - {""}
            if not nodes:
                return [f"{leaf} has no placed pods"]
            held.append({"/".join(self._nodes[node].get(label, "-") for label in labels) for node in nodes})
        every, leaves = [domain for found in held for domain in found], _listed(expected.sub_groups)
        if expected.apart:
            return [] if len(every) == len(set(every)) else [f"{leaves} share a {expected.level}"]
        return [] if len(set(every)) == 1 else [f"{leaves} lie in {_listed(sorted(set(every)))}"]

    def _of(self, gang: Key, leaf: str) -> list[Document]:
        return [one for one in self._seen.pods if gang_of(one) == gang and _labels(one).get(LEAF, "") == leaf]


def _key(name: str) -> Key:
    """A gang by name, or namespace/name."""
    space, _, rest = name.rpartition("/")
    return space or SPACE, rest


def gang_of(pod: Document) -> Key:
    """The gang that a pod names; one of no name when it names none."""
    annotations = pod["metadata"].get("annotations") or {}
    return key_of(pod)[0], annotations.get(GANG, "")


def _kept(group: Document) -> list[str]:
    """The nodes on which room is kept for pods of a gang that were moved."""
    return [one["node"] for one in (group.get("status") or {}).get("kept") or ()]


def _labels(document: Document) -> dict[str, str]:
    return document["metadata"].get("labels") or {}


def _rows(rows: dict[str, Document], expected: GangExpected) -> list[str]:
    wrong = []
    for what, wanted, found in (
        ("placed", expected.placed, {name: row["pods"]["placed"] for name, row in rows.items()}),
        ("pending", expected.pending, {name: row["pods"]["pending"] for name, row in rows.items()}),
        ("met", expected.met, {name: row["satisfied"] for name, row in rows.items()}),
        ("core", expected.core, {name: row["core"] for name, row in rows.items()}),
        ("joined", expected.joined, {name: row.get("joined", False) for name, row in rows.items()}),
        ("stale", expected.stale, {name: "staleSince" in row for name, row in rows.items()}),
        ("domain", expected.domain, {name: row.get("domain", "") for name, row in rows.items()}),
        ("preferredMet", expected.preferred_met, {name: row.get("preferredMet") for name, row in rows.items()}),
    ):
        for at, value in wanted.items():
            wrong += _unlike(f"{what} of {at or 'the root'}", value, found.get(at, "no such subgroup"))
    return wrong


def _verdicts(rows: dict[str, Document], foremost: str) -> list[str]:
    """The verdicts that a status may stand for."""
    if rows[""]["satisfied"]:
        return [_PLACED, _HELD] if any(row.get("reason") in _HOLDING for row in rows.values()) else [_PLACED]
    if foremost in _BESIDE:
        return [_INFEASIBLE, _UNDECIDED, _HELD]
    if foremost in _BY_A_QUEUE:
        return [_INFEASIBLE, _HELD]
    if foremost == Code.SEARCH_BUDGET:
        return [_UNDECIDED]
    return [_INFEASIBLE] if foremost in _IN_VAIN else [_HELD]


def _reasons(rows: dict[str, Document], status: Document, expected: list[ReasonExpected]) -> list[str]:
    """Reasons stand at the tree nodes that they are about, in words: one at each, the foremost of those expected."""
    told = {name: (row.get("reason", ""), row.get("message", "")) for name, row in rows.items()}
    said = {name: one for name, one in told.items() if one[0]}
    if not expected:
        return [f"there are reasons: {_told(said)}"] if said or status.get("reason") else []
    wrong = []
    for name, (code, message) in said.items():
        about = [one for one in expected if one.sub_group in (None, name) and fnmatchcase(code, one.code)]
        if not any(_says(message, one) for one in about):
            wrong.append(f"no reason {code} is expected of {name or 'the root'}: {message}")
    for one in expected:
        # Another one that is told at the same place comes first.
        if not any(name in said for name in told if one.sub_group in (None, name)):
            wrong.append(f"no reason {one.code} of {one.sub_group or 'the root'}, but {_told(said)}")
    return wrong


def _told(said: dict[str, tuple[str, str]]) -> str:
    return _listed(f"{code} of {name or 'the root'}" for name, (code, _) in said.items())


def _says(message: str, expected: ReasonExpected) -> bool:
    """The sentence names the domain, the queue, the pod and the numbers; whether it is about surplus is not in it."""
    where = expected.where or "*"
    numbers = f": {expected.best} of {expected.asked}" if expected.where and expected.best is not None else ""
    named = expected.where is None or fnmatchcase(message, f"*{where}{numbers}*")
    resource = {"gpu": "GPU", "cpu": "CPU"}.get(expected.resource or "", expected.resource)
    queue = f"queue {expected.queue} " if expected.queue else None
    words = [word for word in (expected.pod, expected.detail, queue, resource) if word]
    if not message or not named or not all(fnmatchcase(message, f"*{word}*") for word in words):
        return False
    # Where no node would do, nothing is said of room.
    best = _numbers(_BEST, message) or {0.0}
    said = _numbers(_EVERY, message)
    return expected.best in (None, *best) and {expected.asked, expected.total} - {None} <= said


def _numbers(pattern: re.Pattern[str], message: str) -> set[float]:
    """Numbers of a sentence; those of CPUs in millicores, too, as plans have them."""
    found = set()
    for one in pattern.finditer(message):
        number, unit, *_ = (group for group in one.groups() if group is not None)
        found.add(round(float(number.replace(",", "")) * _UNITS[unit], 3))
    return found | ({number * 1000 for number in found} if " CPU" in message else set())


def _queue(queue: Document, expected: QueueExpected) -> list[str]:
    status = queue.get("status", {})
    wrong = []
    for what, field in _QUEUE_FIELDS.items():
        wanted = getattr(expected, what)
        by_charge: dict[str, Any] = {"gpu": wanted} if isinstance(wanted, int | float) else wanted or {}
        for charge, value in by_charge.items():
            wrong += _unlike(f"{field} of {charge}", value, _amount(status.get(field, {}), charge))
    return wrong


def _amount(amounts: Document, charge: str) -> float:
    found = {name.rpartition("/")[2]: value for name, value in amounts.items()}
    return float(found.get(charge, 0))


def _listed(words: Iterable[str]) -> str:
    return ", ".join(words) or "none"


def _unlike(what: str, expected: object, found: object) -> list[str]:
    return [] if expected is None or expected == found else [f"{what}: expected {expected}, found {found}"]
