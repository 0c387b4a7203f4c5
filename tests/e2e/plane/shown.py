"""Compares what a cluster shows with what a scenario expects: pods, nodes, PodGroups and Queues as kubectl has them.

What a scenario expects of one cycle is here expected of the state that the cluster settles in.
"""

from fnmatch import fnmatchcase
from typing import Any

from e2e.plane.recorder import Recorder, key_of
from e2e.plane.world import Document, World
from muster.sim.scenario import EvictionExpected, Expected, GangExpected, QueueExpected, ReasonExpected, Together
from oracle.gangs import gangs_of
from oracle.problem import GANG, LEAF, read
from scenarios.carry import first_name

SPACE = "default"
_QUEUE_FIELDS = {
    "fair_share": "fairShare",
    "allocated": "allocated",
    "non_preemptible": "allocatedNonPreemptible",
    "requested": "requested",
}


class Shown:
    """A look at the cluster. `before` are the pods as they were when the step began."""

    def __init__(self, world: World, before: list[Document]) -> None:
        self._recorder: Recorder = world.recorder
        self._world = world
        self._before = before
        self.pods = world.objects("Pod")
        self.groups = {one["metadata"]["name"]: one for one in world.objects("PodGroup")}
        self._nodes = {one["metadata"]["name"]: _labels(one) for one in world.objects("Node")}
        self._node_of = {
            one["metadata"]["name"]: one["spec"]["nodeName"] for one in self.pods if one["spec"].get("nodeName")
        }

    # What the step expects.

    def faults(self, expected: Expected) -> list[str]:
        """Everything that differs."""
        wrong = []
        for name, one in expected.gangs.items():
            wrong += [f"{name}: {fault}" for fault in self._gang(name, one)]
        wrong += _differs("bindings", expected.bindings, len(self._recorder.bound))
        wrong += self._evictions(expected.evictions)
        for one in expected.where:
            nodes = {pod: node for pod, node in self._node_of.items() if fnmatchcase(pod, one.pods)}
            wrong += [f"{pod} is on {node}" for pod, node in nodes.items() if not fnmatchcase(node, one.nodes)]
            wrong += _differs(f"pods {one.pods} that have a node", one.count, len(nodes))
        if expected.queues:
            queues = {one["metadata"]["name"]: one for one in self._world.objects("Queue")}
            for name, queue in expected.queues.items():
                wrong += [f"queue {name}: {fault}" for fault in _queue(queues[name], queue)]
        return wrong

    def _evictions(self, expected: int | list[EvictionExpected] | None) -> list[str]:
        gone = [key_of(pod)[1] for pod in self._recorder.evicted]
        if not isinstance(expected, list):
            return _differs(f"evictions ({gone})", expected, len(gone))
        wrong = [f"{name} is evicted" for name in gone if not any(fnmatchcase(name, one.pods) for one in expected)]
        for one in expected:
            found = sum(fnmatchcase(name, one.pods) for name in gone)
            wrong += _differs(f"evictions of {one.pods}", found if one.count is None else one.count, found)
            wrong += [] if found else [f"nobody of {one.pods} is evicted"]
            wrong += self._said(one) if found else []
        return wrong

    def _said(self, expected: EvictionExpected) -> list[str]:
        """An Event on the gang that lost pods tells by what, and for whom."""
        gangs = {
            one["metadata"]["annotations"][GANG]
            for one in self._recorder.evicted
            if fnmatchcase(key_of(one)[1], expected.pods)
        }
        wrong = []
        for name in sorted(gangs):
            uid = self.groups[name]["metadata"].get("uid")
            notes = [
                one["note"]
                for one in self._world.events()
                if one["reason"] == "Evicted" and one["regarding"].get("uid") == uid
            ]
            words = f"for {SPACE}/{expected.for_} ({expected.action})"
            wrong += [] if any(words in note for note in notes) else [f"no Event {words} on {name}: {notes}"]
        return wrong

    def _gang(self, name: str, expected: GangExpected) -> list[str]:
        status = self.groups[name].get("status", {})
        rows = {row["name"]: row for row in status.get("subGroups", [])}
        if "" not in rows:
            return ["it has no status"]
        conditions = {one["type"]: one for one in status["conditions"]}
        scheduled = conditions["Scheduled"]["status"] == "True"
        waits = "Stale" if "staleSince" in rows[""] else "Pending"
        wrong = _differs("phase", "Scheduled" if scheduled else waits, status["phase"])
        wrong += _differs("verdict", expected.verdict == "Placed", scheduled)
        wrong += _differs("satisfied", expected.satisfied, rows[""]["satisfied"])
        wrong += _differs("satisfied and Scheduled", rows[""]["satisfied"], scheduled)
        for what, wanted, found in (
            ("placed", expected.placed, {name: row["pods"]["placed"] for name, row in rows.items()}),
            ("pending", expected.pending, {name: row["pods"]["pending"] for name, row in rows.items()}),
            ("met", expected.met, {name: row["satisfied"] for name, row in rows.items()}),
            ("core", expected.core, {name: row["core"] for name, row in rows.items()}),
            ("stale", expected.stale, {name: "staleSince" in row for name, row in rows.items()}),
            ("domain", expected.domain, {name: row.get("domain", "") for name, row in rows.items()}),
            ("preferredMet", expected.preferred_met, {name: row.get("preferredMet") for name, row in rows.items()}),
        ):
            for at, value in wanted.items():
                wrong += _differs(f"{what} of {at or 'the root'}", value, found.get(at, "no such subgroup"))
        for together in expected.together:
            wrong += self._together(name, together)
        if expected.reasons is not None:
            wrong += _reasons(rows, status, expected.reasons)
        return wrong

    def _together(self, gang: str, expected: Together) -> list[str]:
        (topology,) = [one for (kind, _), one in self._world.documents.items() if kind == "Topology"]
        labels = [level["nodeLabel"] for level in topology["spec"]["levels"]]
        labels = labels[: labels.index(expected.level) + 1]
        held = []
        for name in expected.sub_groups:
            nodes = {self._node_of.get(one["metadata"]["name"], "") for one in self._of(gang, name)} - {""}
            if not nodes:
                return [f"{name} has no placed pods"]
            held.append({tuple(self._nodes[node].get(label) for label in labels) for node in nodes})
        every = [domain for found in held for domain in found]
        if expected.apart:
            return [] if len(every) == len(set(every)) else [f"{expected.sub_groups} share a {expected.level}"]
        return [] if len(set(every)) == 1 else [f"{expected.sub_groups} lie in {sorted(map(str, set(every)))}"]

    def _of(self, gang: str, leaf: str) -> list[Document]:
        mine = [one for one in self.pods if one["metadata"].get("annotations", {}).get(GANG) == gang]
        return [one for one in mine if _labels(one).get(LEAF, "") == leaf]

    # What always holds.

    def never(self) -> list[str]:
        """What must hold whatever is expected, of the way here and of the state that was settled in (SPEC §11)."""
        wrong = [*self._recorder.faults]
        documents = list(self._world.documents.values())
        alone = [one for one in documents if one["kind"] in ("Node", "Topology")]
        came = {pod[1]: node for pod, node in self._recorder.bound}
        gone = {key_of(pod)[1] for pod in self._recorder.evicted}
        wrong += [f"{name} is bound and evicted again" for name in sorted(gone & set(came))]
        twice = sorted({first_name(name)[0] for name in gone if first_name(name)[1] > 1})
        wrong += [f"{name} is evicted again and again" for name in twice]
        for name, group in self.groups.items():
            mine = {pod: node for pod, node in came.items() if pod in self._names(name) and pod not in gone}
            waiting = [_unbound(one) if one["metadata"]["name"] in mine else one for one in self.pods]
            if mine:
                # The placement of all that came, as if it was sent at once: room, rules, levels, and the minimum.
                wrong += [f"{name}: {one}" for one in read([*alone, group, *waiting]).faults(mine)]
            (gang,) = gangs_of([*alone, group, *self._before]).values()
            left = {one.name for one in gang.placed} & gone
            wrong += gang.broken_by(left) if left else []
            (gang,) = gangs_of([*alone, group, *self.pods]).values()
            if gang.placed and not gang.met(gang.placed) and (mine or gone & set(self._names(name))):
                wrong.append(f"{name} is left with a part of its minimum")
        return wrong

    def _names(self, gang: str) -> list[str]:
        every = [*self.pods, *self._recorder.evicted]
        return [one["metadata"]["name"] for one in every if one["metadata"].get("annotations", {}).get(GANG) == gang]


def _unbound(pod: Document) -> Document:
    return {**pod, "spec": {key: value for key, value in pod["spec"].items() if key != "nodeName"}}


def _labels(document: Document) -> dict[str, str]:
    found: dict[str, str] = document["metadata"].get("labels", {})
    return found


def _reasons(rows: dict[str, Document], status: Document, expected: list[ReasonExpected]) -> list[str]:
    """Reasons stand at the tree nodes that they are about, in words; the one of the gang stands above them too."""
    told = {name: (row.get("reason", ""), row.get("message", "")) for name, row in rows.items()}
    if not expected:
        return [f"there are reasons: {told}"] if any(code for code, _ in told.values()) or status.get("reason") else []
    wrong = []
    for one in expected:
        names = [name for name in told if one.sub_group in (None, name)]
        if not any(fnmatchcase(told[name][0], one.code) and _says(told[name][1], one) for name in names):
            wrong.append(f"no reason {one} in {told}")
    return wrong


def _says(message: str, expected: ReasonExpected) -> bool:
    """The sentence names the domain and the numbers."""
    where = expected.where or "*"
    numbers = f": {expected.best} of {expected.asked}" if expected.where and expected.best is not None else ""
    named = expected.where is None or fnmatchcase(message, f"*{where}{numbers}*")
    return bool(message) and named and all(word in message for word in (expected.pod, expected.detail) if word)


def _queue(queue: Document, expected: QueueExpected) -> list[str]:
    status = queue.get("status", {})
    wrong = []
    for what, field in _QUEUE_FIELDS.items():
        wanted = getattr(expected, what)
        by_charge: dict[str, Any] = {"gpu": wanted} if isinstance(wanted, int | float) else wanted or {}
        for charge, value in by_charge.items():
            wrong += _differs(f"{field} of {charge}", value, _amount(status.get(field, {}), charge))
    return wrong


def _amount(amounts: Document, charge: str) -> float:
    found = {name.rpartition("/")[2]: value for name, value in amounts.items()}
    return float(found.get(charge, 0))


def _differs(what: str, expected: object, found: object) -> list[str]:
    return [] if expected is None or expected == found else [f"{what}: expected {expected}, found {found}"]
