"""Compares a plan with what a scenario expects of it."""

from fnmatch import fnmatchcase
from typing import Any

from muster.api.tree import NONE
from muster.decisions.plan import core_rows
from muster.plan.outcome import Outcome, Plan, Reason
from muster.sim.objects import CHARGES
from muster.sim.scenario import (
    EvictionExpected,
    Expected,
    GangExpected,
    QueueExpected,
    ReasonExpected,
    Together,
)
from muster.snapshot.arrays import Gang
from muster.snapshot.queues import PARTS
from scenarios.carry import Documents, evicted_of, sent_of

# Base units per unit of a Queue.
_UNITS = {"cpu": 1, "memory": 10**6, "gpu": PARTS}


def members_of(gang: Gang) -> set[tuple[str, str]]:
    """All waiting pods of a gang, by namespace and name."""
    return {(gang.key[0], name) for batch in gang.waiting for name in batch.pods}


class Judge:
    """Compares one plan with what is expected of it."""

    def __init__(self, plan: Plan, documents: Documents) -> None:
        self._plan, self._documents = plan, documents
        self._sent = sent_of(plan)
        self._evicted = evicted_of(plan)
        self._nodes = {
            (key[1], key[2]): document["spec"]["nodeName"]
            for key, document in documents.items()
            if key[0] == "Pod" and document["spec"].get("nodeName")
        }
        self._nodes.update({pod: node for pod, (node, _) in self._sent.items()})

    def faults(self, expected: Expected) -> list[str]:
        """Everything that differs."""
        wrong = []
        for name, one in expected.gangs.items():
            gang, outcome = self._plan.of(_key(name))
            wrong += [f"{name}: {fault}" for fault in self._gang(gang, outcome, one)]
        for nominated, wanted in ((False, expected.bindings), (True, expected.nominations)):
            found = sum(one[1] == nominated for one in self._sent.values())
            wrong += _differs("nominations" if nominated else "bindings", wanted, found)
        wrong += self._evictions(expected.evictions)
        for name, queue in expected.queues.items():
            wrong += [f"queue {name}: {fault}" for fault in self._queue(name, queue)]
        for one in expected.where:
            nodes = {pod[1]: node for pod, node in self._nodes.items() if fnmatchcase(pod[1], one.pods)}
            wrong += [f"{pod} is on {node}" for pod, node in nodes.items() if not fnmatchcase(node, one.nodes)]
            wrong += _differs(f"pods {one.pods} that have a node", one.count, len(nodes))
        if expected.unchanged:
            named = {_key(name) for name in expected.gangs}
            others = [gang for gang in self._plan.snapshot.gangs if gang.key not in named]
            moved = set(self._sent) | {one.pod for one in self._evicted}
            wrong += [f"{gang.key} moves" for gang in others if (members_of(gang) | _placed_of(gang)) & moved]
        return wrong

    def _evictions(self, expected: int | list[EvictionExpected] | None) -> list[str]:
        """A number is how many in all; a list has an entry for each."""
        if not isinstance(expected, list):
            return _differs("evictions", expected, len(self._evicted)) and [
                f"evictions: expected {expected}, found {self._evicted}"
            ]
        wrong = []
        counts = [0] * len(expected)
        for one in self._evicted:
            matching = [number for number, want in enumerate(expected) if _evicts(want, one)]
            if not matching:
                wrong.append(f"unexpected eviction of {one}")
            for number in matching[:1]:
                counts[number] += 1
        for want, count in zip(expected, counts, strict=True):
            if count != want.count if want.count is not None else not count:
                wanted = "some" if want.count is None else want.count
                wrong.append(f"evictions of {want.pods} by {want.action}: expected {wanted}, found {self._evicted}")
        return wrong

    def _queue(self, name: str, expected: QueueExpected) -> list[str]:
        snapshot = self._plan.snapshot
        if name not in snapshot.queues.row_of:
            return ["there is no such queue"]
        outcome = self._plan.queues[snapshot.queues.row_of[name]]
        wrong = []
        for what in ("fair_share", "allocated", "non_preemptible", "requested"):
            wanted = getattr(expected, what)
            by_charge = {"gpu": wanted} if isinstance(wanted, int | float) else wanted or {}
            found = dict(zip(CHARGES, getattr(outcome, what), strict=True))
            for charge, value in by_charge.items():
                wrong += _differs(f"{what} of {charge}", value, round(found[charge] / _UNITS[charge], 6))
        return wrong

    def _gang(self, gang: Gang, outcome: Outcome, expected: GangExpected) -> list[str]:
        rows = {node.name: row for node, row in zip(gang.tree.nodes, outcome.rows, strict=True)}
        core = dict(zip(rows, core_rows(gang, outcome), strict=True))
        mine = [nominated for pod, (_, nominated) in self._sent.items() if pod in members_of(gang)]
        wrong = _differs("verdict", expected.verdict, outcome.verdict.value)
        wrong += _differs("satisfied", expected.satisfied, outcome.satisfied)
        wrong += _differs("bindings", expected.bindings, mine.count(False))
        wrong += _differs("nominations", expected.nominations, mine.count(True))
        wrong += _differs("evicted", expected.evicted, sum(one.gang == gang.key for one in self._evicted))
        for what, wanted, found in (
            ("placed", expected.placed, {name: row.placed for name, row in rows.items()}),
            ("pending", expected.pending, {name: row.pending for name, row in rows.items()}),
            ("met", expected.met, {name: row.satisfied for name, row in rows.items()}),
            ("core", expected.core, core),
            ("joined", expected.joined, {name: row.joined for name, row in rows.items()}),
            ("stale", expected.stale, {name: row.stale_since_ns > 0 for name, row in rows.items()}),
            ("domain", expected.domain, {name: self._path(row.domain) for name, row in rows.items()}),
            ("preferredMet", expected.preferred_met, {name: row.preferred_met for name, row in rows.items()}),
        ):
            for name, value in wanted.items():
                wrong += _differs(f"{what} of {name or 'the root'}", value, found.get(name, "no such subgroup"))
        for together in expected.together:
            wrong += self._together(gang, together)
        if expected.reasons is not None:
            wrong += self._reasons(gang, outcome, expected.reasons)
        if wrong and expected.reasons is None:
            wrong.append(f"its reasons are {[self._worded(gang, reason)['code'] for reason in outcome.reasons]}")
        return wrong

    def _path(self, domain: tuple[int, int, int] | None) -> str:
        return self._plan.snapshot.domain_path(*domain) if domain is not None else ""

    def _together(self, gang: Gang, expected: Together) -> list[str]:
        """Where the pods of some subgroups lie, by the labels of their nodes."""
        topology = next(
            document
            for key, document in sorted(self._documents.items(), key=lambda one: one[0])
            if key[0] == "Topology" and expected.topology in ("", key[2])
        )
        labels = [level["nodeLabel"] for level in topology["spec"]["levels"]]
        labels = labels[: labels.index(expected.level) + 1]
        held = []
        for name in expected.sub_groups:
            nodes = {node for pod, node in self._nodes.items() if self._belongs(pod, gang, name)}
            if not nodes:
                return [f"{name} has no placed pods"]
            found = {tuple(self._labels(node).get(label) for label in labels) for node in nodes}
            held.append(found)
        every = [domain for found in held for domain in found]
        if expected.apart:
            return [] if len(every) == len(set(every)) else [f"{expected.sub_groups} share a {expected.level}"]
        return [] if len(set(every)) == 1 else [f"{expected.sub_groups} lie in {sorted(map(str, set(every)))}"]

    def _belongs(self, pod: tuple[str, str], gang: Gang, subgroup: str) -> bool:
        metadata = self._documents["Pod", *pod]["metadata"]
        mine = (pod[0], metadata.get("annotations", {}).get("pod-group-name")) == gang.key
        return mine and metadata.get("labels", {}).get("kai.scheduler/subgroup-name", "") == subgroup

    def _labels(self, node: str) -> dict[str, str]:
        labels: dict[str, str] = self._documents["Node", "default", node]["metadata"]["labels"]
        return labels

    def _reasons(self, gang: Gang, outcome: Outcome, expected: list[ReasonExpected]) -> list[str]:
        found = [self._worded(gang, reason) for reason in outcome.reasons]
        wrong = [f"unexpected reason {one}" for one in found if not any(_matches(want, one) for want in expected)]
        return wrong + [
            f"no reason {want} in {found}" for want in expected if not any(_matches(want, one) for one in found)
        ]

    def _worded(self, gang: Gang, reason: Reason) -> dict[str, Any]:
        known = reason.topology != NONE and reason.domain != NONE
        # What a queue says of GPUs, in whole GPUs; the rest in base units.
        unit = PARTS if reason.charge != NONE and CHARGES[reason.charge] == "gpu" else 1
        return {
            "code": reason.code,
            "sub_group": gang.tree.nodes[reason.row].name,
            "where": self._path((reason.topology, reason.level, reason.domain)) if known else "",
            "asked": reason.asked // unit,
            "best": reason.best // unit,
            "pod": reason.pod,
            "detail": reason.detail,
            "surplus": reason.surplus,
            "queue": self._plan.snapshot.queues.names[reason.queue] if reason.queue != NONE else "",
            "resource": CHARGES[reason.charge] if reason.charge != NONE else "",
            "total": None if reason.total is None else reason.total // unit,
        }


def _key(name: str) -> tuple[str, str]:
    namespace, _, short = name.rpartition("/")
    return namespace or "default", short


def _placed_of(gang: Gang) -> set[tuple[str, str]]:
    return {(gang.key[0], name) for placed in gang.placed.values() for name in placed.pods}


def _evicts(expected: EvictionExpected, found: Any) -> bool:
    beneficiary = None if expected.for_ is None else _key(expected.for_)
    where = expected.to is None or fnmatchcase(found.to, expected.to)
    over = expected.ignored is None or fnmatchcase(",".join(found.ignored), expected.ignored)
    named = fnmatchcase(found.pod[1], expected.pods) and where and over
    return named and (expected.action, beneficiary) == (found.action, found.beneficiary)


def _matches(expected: ReasonExpected, found: dict[str, Any]) -> bool:
    return all(
        fnmatchcase(str(found[name]), str(value))
        for name in expected.__struct_fields__
        if (value := getattr(expected, name)) is not None
    )


def _differs(what: str, expected: object, found: object) -> list[str]:
    return [] if expected is None or expected == found else [f"{what}: expected {expected}, found {found}"]
