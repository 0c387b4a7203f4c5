"""Plays a scenario: documents come and go, cycles are run, and what was expected is compared with what was said."""

import copy
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Any

from muster.api.kinds import kind_of, read_object
from muster.api.tree import NONE
from muster.plan.cycle import schedule
from muster.plan.outcome import Outcome, Plan, Reason
from muster.snapshot.arrays import Gang
from muster.snapshot.build import Builder, build
from muster.snapshot.world import World
from oracle.engine import Document, said
from oracle.problem import read
from scenarios.format import Expected, GangExpected, ReasonExpected, Scenario, Together

Key = tuple[str, str, str]


def key_of(document: Document) -> Key:
    """Kind, namespace, name. Kinds that have no namespace just never share a name."""
    metadata = document["metadata"]
    return document["kind"], metadata.get("namespace", "default"), metadata["name"]


class Story:
    """The documents as they are now, a builder that follows them, and the last plan."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.documents: dict[Key, Document] = {}
        self._world = World()
        self._builder = Builder(self._world)
        self.plan: Plan | None = None
        # How often the oracle looked at what was sent for a gang.
        self.judged = 0
        for document in scenario.all():
            self._apply(document)

    def play(self, see: Callable[[Plan], object] = lambda plan: None) -> None:
        """All steps; the first thing that is not as expected is an AssertionError that says which step."""
        for number, step in enumerate(self.scenario.steps, start=1):
            for pattern in step.delete:
                self._delete(pattern)
            if step.bind:
                self._bind()
            for document in step.apply.all():
                self._apply(document)
            self.plan, _ = schedule(self._builder.build(0))
            see(self.plan)
            faults = [*Judge(self.plan, self.documents).faults(step.expect), *self._wrong()]
            assert faults == [], f"step {number} {step.says}: " + "; ".join(faults)

    def _apply(self, document: Document) -> None:
        _take(self._world, document)
        self.documents[key_of(document)] = document

    def _delete(self, pattern: str) -> None:
        kind, _, rest = pattern.partition("/")
        namespace, _, name = rest.rpartition("/")
        found = [
            key
            for key in self.documents
            if key[0].lower() == kind.lower() and key[1] == (namespace or "default") and fnmatchcase(key[2], name)
        ]
        assert found, f"nothing to delete: {pattern}"
        for key in found:
            _take(self._world, self.documents.pop(key), deleted=True)

    def _bind(self) -> None:
        """The binds of the last plan have happened, and its nominations are written down."""
        assert self.plan is not None, "there is no plan to carry out yet"
        for (namespace, name), (node, nominated) in sent_of(self.plan).items():
            document = copy.deepcopy(self.documents["Pod", namespace, name])
            if nominated:
                document["status"] = {"nominatedNodeName": node}
            else:
                document["spec"]["nodeName"] = node
                document["status"] = {"phase": "Running"}
            self._apply(document)

    def _wrong(self) -> list[str]:
        """Whatever is expected: the order of documents means nothing, and the oracle finds no fault (SPEC §11)."""
        assert self.plan is not None
        backwards = World()
        for document in reversed(list(self.documents.values())):
            _take(backwards, document)
        again, _ = schedule(build(backwards, 0))
        wrong = [] if said(again) == said(self.plan) else ["the order of documents changes the plan"]
        return wrong + [fault for gang in self.plan.snapshot.gangs for fault in self._faults(gang)]

    def _faults(self, gang: Gang) -> list[str]:
        """The oracle's check of what is sent for a gang, the rest of the plan being carried out."""
        assert self.plan is not None
        sent = sent_of(self.plan)
        mine = {name: node for (space, name), (node, _) in sent.items() if (space, name) in members_of(gang)}
        if not mine or not all(_plain(document) for document in self.documents.values()):
            return []
        others = []
        for (kind, space, name), document in self.documents.items():
            if kind == "PodGroup" and name != gang.key[1]:
                continue
            if kind == "Pod" and (space, name) in sent and name not in mine:
                others.append({**document, "spec": {**document["spec"], "nodeName": sent[space, name][0]}})
            else:
                others.append(document)
        self.judged += 1
        waited = any(nominated for _, nominated in sent.values())
        return [f"{gang.key[1]}: {fault}" for fault in read(others, soon=waited).faults(mine)]


def _take(world: World, document: Document, *, deleted: bool = False) -> None:
    found, problems = read_object(document, kind_of(document))
    world.apply(found, deleted=deleted, error=f"{problems[0].path} {problems[0].message}" if problems else "")


# What the oracle's reader knows; scenarios that use more are judged by their expectations alone.
_KNOWN = {"schedulerName", "containers", "nodeName", "nodeSelector", "tolerations"}


def _plain(document: Document) -> bool:
    if document["metadata"].get("namespace", "default") != "default":
        return False
    spec = document.get("spec", {})
    if document["kind"] == "Pod":
        tolerations = all("operator" not in one and "effect" not in one for one in spec.get("tolerations", []))
        asks = [one["resources"]["requests"] for one in spec["containers"] if set(one) == {"resources"}]
        whole = all(str(amount).isdigit() for ask in asks for amount in ask.values())
        return set(spec) <= _KNOWN and tolerations and whole and len(asks) == len(spec["containers"])
    if document["kind"] == "Node":
        return all(one["status"] == "True" for one in document["status"].get("conditions", []))
    return True


def members_of(gang: Gang) -> set[tuple[str, str]]:
    """All waiting pods of a gang, by namespace and name."""
    return {(gang.key[0], name) for batch in gang.waiting for name in batch.pods}


def sent_of(plan: Plan) -> dict[tuple[str, str], tuple[str, bool]]:
    """Per pod that is sent: the node, and whether it is only nominated."""
    found = {}
    for placement in plan.placements:
        gang = plan.snapshot.gangs[placement.gang]
        pods = gang.waiting[placement.batch].pods
        for pod, node in zip(placement.pods, placement.nodes, strict=True):
            found[gang.key[0], pods[pod]] = (plan.snapshot.nodes[node], placement.nominated)
    return found


class Judge:
    """Compares one plan with what is expected of it."""

    def __init__(self, plan: Plan, documents: dict[Key, Document]) -> None:
        self._plan, self._documents = plan, documents
        self._sent = sent_of(plan)
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
            namespace, _, short = name.rpartition("/")
            gang, outcome = self._plan.of((namespace or "default", short))
            wrong += [f"{name}: {fault}" for fault in self._gang(gang, outcome, one)]
        for nominated, wanted in ((False, expected.bindings), (True, expected.nominations)):
            found = sum(one[1] == nominated for one in self._sent.values())
            wrong += _differs("nominations" if nominated else "bindings", wanted, found)
        for one in expected.where:
            nodes = {pod[1]: node for pod, node in self._nodes.items() if fnmatchcase(pod[1], one.pods)}
            wrong += [f"{pod} is on {node}" for pod, node in nodes.items() if not fnmatchcase(node, one.nodes)]
            wrong += _differs(f"pods {one.pods} that have a node", one.count, len(nodes))
        if expected.unchanged:
            named = {tuple(("default/" + name).split("/")[-2:]) for name in expected.gangs}
            others = [gang for gang in self._plan.snapshot.gangs if gang.key not in named]
            wrong += [f"{gang.key} moves" for gang in others if members_of(gang) & set(self._sent)]
        return wrong

    def _gang(self, gang: Gang, outcome: Outcome, expected: GangExpected) -> list[str]:
        rows = {node.name: row for node, row in zip(gang.tree.nodes, outcome.rows, strict=True)}
        mine = [nominated for pod, (_, nominated) in self._sent.items() if pod in members_of(gang)]
        wrong = _differs("verdict", expected.verdict, outcome.verdict.value)
        wrong += _differs("satisfied", expected.satisfied, outcome.satisfied)
        wrong += _differs("bindings", expected.bindings, mine.count(False))
        wrong += _differs("nominations", expected.nominations, mine.count(True))
        for what, wanted, found in (
            ("placed", expected.placed, {name: row.placed for name, row in rows.items()}),
            ("pending", expected.pending, {name: row.pending for name, row in rows.items()}),
            ("met", expected.met, {name: row.satisfied for name, row in rows.items()}),
            ("domain", expected.domain, {name: self._path(row.domain) for name, row in rows.items()}),
            ("preferredMet", expected.preferred_met, {name: row.preferred_met for name, row in rows.items()}),
        ):
            for name, value in wanted.items():
                wrong += _differs(f"{what} of {name or 'the root'}", value, found.get(name, "no such subgroup"))
        for together in expected.together:
            wrong += self._together(gang, together)
        if expected.reasons is not None:
            wrong += self._reasons(gang, outcome, expected.reasons)
        return wrong

    def _path(self, domain: tuple[int, int, int] | None) -> str:
        return self._plan.snapshot.domain_path(*domain) if domain is not None else ""

    def _together(self, gang: Gang, expected: Together) -> list[str]:
        """Where the pods of some subgroups lie, by the labels of their nodes."""
        topology = next(
            document
            for key, document in sorted(self._documents.items())
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
        return {
            "code": reason.code,
            "sub_group": gang.tree.nodes[reason.row].name,
            "where": self._path((reason.topology, reason.level, reason.domain)) if known else "",
            "asked": reason.asked,
            "best": reason.best,
            "pod": reason.pod,
            "detail": reason.detail,
            "surplus": reason.surplus,
        }


def _matches(expected: ReasonExpected, found: dict[str, Any]) -> bool:
    return all(
        fnmatchcase(str(found[name]), str(value))
        for name in expected.__struct_fields__
        if (value := getattr(expected, name)) is not None
    )


def _differs(what: str, expected: object, found: object) -> list[str]:
    return [] if expected is None or expected == found else [f"{what}: expected {expected}, found {found}"]
