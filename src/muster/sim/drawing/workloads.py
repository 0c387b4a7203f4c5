"""Draws who comes: gangs and Jobs of every form, until they ask for enough."""

from collections.abc import Mapping
from typing import Any

import msgspec

from muster.api.podgroup import KEEP_ANNOTATION
from muster.sim.drawing.cluster import CLASSES, TAINT
from muster.sim.drawing.dice import Dice
from muster.sim.drawing.draft import Draft
from muster.sim.drawing.trees import TREES, Form, Tree, hold
from muster.sim.objects import Budget
from muster.sim.story import Workload

Document = dict[str, Any]
MOST_PODS, MOST_WORKLOADS = 44, 7
GRACES = {"0s": 1, "5s": 4, "20s": 3, "60s": 1, "-1s": 1}
PREEMPTIBILITY = {"preemptible": 5, "non-preemptible": 1, "semi-preemptible": 4}


def fill(dice: Dice, draft: Draft, pressure: float, trees: Mapping[Form, float] | None = None) -> None:
    """Workloads come until they ask for `pressure` times what the cluster has."""
    asked, pods = 0, 0
    while asked < draft.amount() * pressure and pods < MOST_PODS and len(draft.workloads) < MOST_WORKLOADS:
        name = "abcdefgh"[len(draft.workloads)]
        early = dice.has("there from the start")
        settings = _settings(dice, draft, early)
        if trees is None and dice.has("a Job"):
            found = job(dice, draft, settings)
        else:
            tree = dice.weighted(trees or TREES)(dice, max(4, min(12, MOST_PODS - pods)))
            found = gang(dice, draft, tree, settings)
        draft.workloads[name] = found
        late = dice.between(0.5, draft.lasts * 0.6)
        draft.arrives[name] = 0.0 if early else late
        pods += sum(found.pods.values())
        asked += sum(found.pods.values()) * max(1, getattr(found, draft.charge))
    _fatten(dice, draft, draft.amount() * pressure)
    _budgets(dice, draft)


def _fatten(dice: Dice, draft: Draft, wanted: float) -> None:
    """Pods ask for twice as much, one workload after the other, while that is still too little and they can fit."""
    largest = max(getattr(some, draft.charge) for some in draft.nodes)
    for _ in range(2 * len(draft.workloads)):
        asked = sum(sum(one.pods.values()) * getattr(one, draft.charge) for one in draft.workloads.values())
        name = dice.one_of(sorted(draft.workloads))
        one = draft.workloads[name]
        each = getattr(one, draft.charge) * 2
        fits = each <= largest and each * max(one.pods.values()) <= draft.domain()
        if fits and asked + sum(one.pods.values()) * each / 2 <= wanted * 1.1:
            draft.workloads[name] = msgspec.structs.replace(one, **{draft.charge: each})


def gang(dice: Dice, draft: Draft, tree: Tree, settings: Document) -> Workload:
    """A gang of this form, in a queue, of a priority, held by levels."""
    spec = hold(dice, tree, draft.topologies) | settings
    pods = dict(tree.pods)
    if dice.has("too few pods"):
        leaf = dice.one_of(sorted(pods))
        pods[leaf] -= 1
    return Workload(gang=spec, pods=pods, **_manners(dice, draft, max(tree.pods.values())))


def keep_together(dice: Dice, draft: Draft) -> None:
    """Some gangs keep together what has run together: the root, some branches, or both."""
    for name, workload in draft.workloads.items():
        parts = (workload.gang or {}).get("subGroups", [])
        if not parts or not dice.has("kept together"):
            continue
        branches = sorted({one["parent"] for one in parts if one.get("parent") in {other["name"] for other in parts}})
        names = dice.some_of(branches, dice.whole(0, len(branches)))
        written = ",".join(["."] * (not names or dice.likely(0.6)) + names)
        annotations = {**workload.annotations, KEEP_ANNOTATION: written}
        draft.workloads[name] = msgspec.structs.replace(workload, annotations=annotations)


def job(dice: Dice, draft: Draft, settings: Document) -> Workload:
    """A Job, which muster groups by itself; its queue and priority stand in labels."""
    count = dice.whole(1, 6)
    labels = (("queue", "kai.scheduler/queue"), ("priorityClassName", "priorityClassName"))
    said = {label: settings[field] for field, label in labels if field in settings}
    annotations = {"kai.scheduler/batch-min-member": str(dice.whole(1, count))} if dice.likely(0.7) else {}
    manners = _manners(dice, draft, count)
    manners["labels"] |= said
    return Workload(pods={"": count}, annotations=annotations, **manners)


def _settings(dice: Dice, draft: Draft, early: bool) -> Document:
    """All of a spec that is no tree. Those who come first often take what they should not keep."""
    spec: Document = {}
    greedy = early and dice.has("takes what it can get")
    if draft.leaves:
        spec["queue"] = draft.leaves[0] if greedy else dice.one_of(draft.leaves)
        if dice.has("a queue that is not there"):
            spec["queue"] = "nowhere"
    if dice.has("a priority class"):
        name = dice.one_of(list(CLASSES)[: 2 if greedy else None])
        if name not in draft.classes:
            draft.classes.append(name)
        spec["priorityClassName"] = "unknown" if dice.has("a class that is not there") else name
    if greedy or dice.has("a preemptibility"):
        spec["preemptibility"] = dice.weighted(PREEMPTIBILITY)
    if dice.has("a staleness grace"):
        spec["stalenessGracePeriod"] = dice.weighted(GRACES)
    if dice.has("a preemption delay"):
        spec["preemptionDelay"] = f"{dice.one_of([3, 15])}s"
    if dice.has("a backoff of one failure"):
        spec["schedulingBackoff"] = 1
    if dice.has("nothing is marked"):
        spec["markUnschedulable"] = False
    return spec


def _manners(dice: Dice, draft: Draft, largest_leaf: int) -> Document:
    """How its pods are and what becomes of them."""
    sizes = sorted({getattr(some, draft.charge) for some in draft.nodes} - {0})
    # Usually a leaf fits into a domain; now and then it can't.
    room = draft.domain() // largest_leaf if not dice.likely(0.1) else sizes[-1]
    each = dice.one_of([size for size in (1, 1, 2, 4, 8) if size <= max(1, min(room, sizes[-1]))])
    found: Document = {"gpus": 0, "cpus": 0, draft.charge: each, "namespace": dice.one_of(draft.namespaces)}
    if draft.charge == "gpus" and dice.has("asks for cpus too"):
        found["cpus"] = dice.whole(1, 2)
    if dice.has("ends by itself"):
        found["run_for"] = dice.between(3, 50)
        found["exit"] = 1 if dice.has("ends badly") else 0
    if dice.has("starts slowly"):
        found["starts_after"] = dice.between(0.5, 8)
    if dice.has("goes slowly"):
        found["grace"] = dice.whole(1, 8)
    if dice.has("goes very slowly"):
        found["grace"] = 30
    found["same_names"] = dice.has("the same names again")
    found["makes_anew"] = not dice.has("nobody anew")
    if dice.has("one pod after the other"):
        found["pace"] = dice.between(0.05, 3)
    spec: Document = {}
    if any(some.taints for some in draft.nodes) and dice.likely(0.5):
        spec["tolerations"] = [{key: TAINT[key] for key in ("key", "value", "effect")}]
    if dice.has("a selector"):
        level = dice.one_of(draft.levels)
        values = [value for some in draft.nodes if (value := getattr(some, level, None))]
        spec["nodeSelector"] = {level: dice.one_of(values)} if values else {}
    if dice.has("gated"):
        spec["schedulingGates"] = [{"name": "wait"}]
    return {**found, "spec": spec, "labels": {}}


def _budgets(dice: Dice, draft: Draft) -> None:
    """Some pods may only go one by one."""
    for name in list(draft.workloads):
        workload = draft.workloads[name]
        if dice.has("budgets") and workload.namespace == "default":
            workload.labels["app"] = name
            which = {"min_available": dice.whole(1, 3)} if dice.likely(0.5) else {"max_unavailable": dice.whole(0, 2)}
            draft.budgets[f"of-{name}"] = Budget(selects={"app": name}, **which)
