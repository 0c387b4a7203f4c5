"""A gang that runs beyond what its queue is due goes when that is owed to others, whatever its tenant edits or deletes.

Queue `a` has a quota of 2 and holds 8 GPUs of a preemptible gang; queue `b` is due the other 6, and asks for them.
"""

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from muster.api.admitted import Mark
from muster.api.podgroup import NON_PREEMPTIBLE, PREEMPTIBLE, SEMI_PREEMPTIBLE, PodGroupStatus
from muster.decisions.status import status_of
from muster.model.reasons import Code
from muster.plan.cycle import schedule
from muster.plan.outcome import Plan
from muster.snapshot.build import Builder
from oracle.engine import world_of
from short_forms import documents_of, ns

MARK = "muster.dev/admitted"
QUEUES = {"a": {"quota": 2}, "b": {"quota": 6}}


def cluster(quota: int = 2, admitted_as: str = PREEMPTIBLE) -> list[dict[str, Any]]:
    things = {
        "nodes": [{"name": "n", "gpus": 8}],
        "queues": QUEUES | {"a": {"quota": quota}},
        "gangs": {"big": {"queue": "a", "minMember": 1}, "owed": {"queue": "b", "minMember": 6}},
        "pods": [
            {"gang": "big", "count": 8, "on": "n", "annotations": {MARK: "a/uid-big"}},
            {"gang": "owed", "count": 6},
        ],
    }
    documents = documents_of(things)
    for one in documents:
        if one["kind"] == "PodGroup":
            one["metadata"]["uid"] = f"uid-{one['metadata']['name']}"
    status = {"admittedQueue": "a", "startTime": "2026-01-01T00:00:00Z"}
    group(documents)["status"] = status | ({"admittedPreemptibility": admitted_as} if admitted_as else {})
    return documents


def group(documents: list[dict[str, Any]]) -> dict[str, Any]:
    return next(one for one in documents if one["kind"] == "PodGroup" and one["metadata"]["name"] == "big")


def planned(documents: list[dict[str, Any]], *, strict: bool = True, adopted: Any = None) -> Plan:
    world = world_of(deepcopy(documents))
    if strict:
        world.ask_for_marks(adopted)
    return schedule(Builder(world).build(ns(0)))[0]


def gone(plan: Plan) -> int:
    return len([one for one in plan.evictions if plan.snapshot.gangs[one.gang].key[1] != "owed"])


def _deleted(documents: list[dict[str, Any]]) -> None:
    documents.remove(group(documents))


def _made_again(documents: list[dict[str, Any]]) -> None:
    group(documents)["metadata"]["uid"] = "another"
    group(documents).pop("status")


def _other_subgroups(documents: list[dict[str, Any]]) -> None:
    group(documents)["spec"] = {"queue": "a", "subGroups": [{"name": "x", "minMember": 1}]}


def _says(**spec: Any) -> Any:
    return lambda documents: group(documents)["spec"].update(spec)


EDITS = [
    pytest.param(lambda _: None, id="nothing"),
    pytest.param(_deleted, id="the PodGroup is deleted"),
    pytest.param(_made_again, id="the PodGroup is made again"),
    pytest.param(_other_subgroups, id="its pods have no place any more"),
    pytest.param(_says(preemptibility=NON_PREEMPTIBLE), id="non-preemptible"),
    pytest.param(_says(preemptibility=SEMI_PREEMPTIBLE, minMember=8), id="semi-preemptible, all of it core"),
    pytest.param(_says(priorityClassName="build"), id="a class that is not preemptible"),
]


@pytest.mark.parametrize("edit", EDITS)
def test_no_edit_keeps_what_is_owed_to_others(edit):
    documents = cluster()
    edit(documents)
    plan = planned(documents)
    assert gone(plan) in (6, 8)
    assert plan.outcomes[[gang.key[1] for gang in plan.snapshot.gangs].index("owed")].verdict.value == "Placed"


@pytest.mark.parametrize("preemptibility", [NON_PREEMPTIBLE, SEMI_PREEMPTIBLE])
def test_more_protection_is_admitted_within_the_quota(preemptibility):
    documents = cluster(quota=8)
    group(documents)["spec"] |= {"preemptibility": preemptibility, "minMember": 8}
    plan = planned(documents)
    gang, _ = plan.of(("default", "big"))
    assert gang.preemptibility == preemptibility
    number = plan.snapshot.gangs.index(gang)
    assert status_of(plan, number, PodGroupStatus()).admitted_preemptibility == preemptibility


def test_what_is_not_admitted_is_said_and_not_written_down():
    documents = cluster()
    group(documents)["spec"]["preemptibility"] = NON_PREEMPTIBLE
    documents = [one for one in documents if one["metadata"]["name"].startswith(("big", "n", "a", "b"))]
    plan = planned(documents)
    gang, outcome = plan.of(("default", "big"))
    assert [(one.code, one.detail) for one in outcome.reasons] == [(Code.STAYS_PREEMPTIBLE, NON_PREEMPTIBLE)]
    assert status_of(plan, plan.snapshot.gangs.index(gang), PodGroupStatus()).admitted_preemptibility == PREEMPTIBLE


def test_less_protection_counts_at_once():
    documents = cluster(quota=2, admitted_as=NON_PREEMPTIBLE)
    group(documents)["spec"]["preemptibility"] = PREEMPTIBLE
    assert gone(planned(documents)) in (6, 8)


@pytest.mark.parametrize("quota", [2, 0])
def test_what_was_admitted_stays_protected_when_an_administrator_lowers_the_quota(quota):
    documents = cluster(quota=quota, admitted_as=NON_PREEMPTIBLE)
    group(documents)["spec"]["preemptibility"] = NON_PREEMPTIBLE
    assert gone(planned(documents)) == 0


def test_what_ran_before_there_was_a_record_is_believed_once():
    """After an upgrade the first leader adopts it as it stands."""
    documents = cluster(admitted_as="")
    group(documents)["spec"]["preemptibility"] = NON_PREEMPTIBLE
    assert gone(planned(documents)) > 0
    assert gone(planned(documents, strict=False)) == 0
    for one in documents:
        if one["kind"] == "Pod":
            one["metadata"].get("annotations", {}).pop(MARK, None)
    adopted = {(("default", f"big-{at}"), f"uid-{at}"): Mark("a", "uid-big") for at in range(8)}
    for at, one in enumerate(one for one in documents if one["kind"] == "Pod" and one["spec"].get("nodeName")):
        one["metadata"]["uid"] = f"uid-{at}"
    assert gone(planned(documents, adopted=adopted)) == 0


def test_the_first_in_line_for_protection_is_the_one_of_higher_priority():
    documents = cluster(quota=8)
    other = deepcopy(documents)
    for one in other:
        if one["kind"] == "PodGroup" and one["metadata"]["name"] == "big":
            one["metadata"] |= {"name": "more", "uid": "uid-more"}
            one["spec"] |= {"priorityClassName": "train"}
        if one["kind"] == "Pod" and one["spec"].get("nodeName"):
            one["metadata"]["name"] = one["metadata"]["name"].replace("big", "more")
            one["metadata"]["annotations"] |= {MARK: "a/uid-more", "pod-group-name": "more"}
    both = [*documents, *(one for one in other if one["metadata"]["name"].startswith("more"))]
    for one in both:
        if one["kind"] == "PodGroup" and one["metadata"]["name"] != "owed":
            one["spec"]["preemptibility"] = NON_PREEMPTIBLE
        if one["kind"] == "Node":
            one["status"]["allocatable"]["nvidia.com/gpu"] = "16"
    plan = planned(both)
    kinds = {gang.key[1]: gang.preemptibility for gang in plan.snapshot.gangs}
    assert kinds["more"] == NON_PREEMPTIBLE
    assert kinds["big"] == PREEMPTIBLE


def edited(documents, *, firm: int, **spec):
    """The spec was changed after the status, by which `firm` GPUs could not be evicted."""
    found = group(documents)
    found["metadata"]["generation"] = 2
    found["spec"] |= spec
    found["status"] |= {
        "conditions": [{"type": "Accepted", "status": "True", "observedGeneration": 1}],
        "resourcesStatus": {
            "allocated": {"nvidia.com/gpu": "8"},
            "allocatedNonPreemptible": {"nvidia.com/gpu": str(firm)} if firm else {},
        },
    }
    return documents


def test_a_larger_core_is_admitted_within_the_quota():
    """The word is the same: a core of one pod in the quota of two becomes one of eight."""
    documents = edited(cluster(admitted_as=SEMI_PREEMPTIBLE), firm=1, preemptibility=SEMI_PREEMPTIBLE, minMember=8)
    assert gone(planned(documents)) in (6, 8)
    roomy = edited(cluster(quota=8, admitted_as=SEMI_PREEMPTIBLE), firm=1, preemptibility=SEMI_PREEMPTIBLE, minMember=8)
    assert planned(roomy).of(("default", "big"))[0].preemptibility == SEMI_PREEMPTIBLE


def test_what_was_bound_while_less_was_protected_is_not_protected():
    """Non-preemptible with two pods, preemptible while six more were bound, and non-preemptible again."""
    documents = edited(cluster(admitted_as=NON_PREEMPTIBLE), firm=2, preemptibility=NON_PREEMPTIBLE)
    assert gone(planned(documents)) == 6


def test_what_muster_did_to_a_core_asks_for_nothing():
    """The status is of this spec: a larger child took the place of one that was lost."""
    documents = edited(cluster(admitted_as=NON_PREEMPTIBLE), firm=2, preemptibility=NON_PREEMPTIBLE)
    group(documents)["status"]["conditions"][0]["observedGeneration"] = 2
    assert gone(planned(documents)) == 0


def test_without_its_queue_nothing_more_is_protected():
    """An administrator may create a Queue again; the moment between gives no protection for ever."""
    documents = cluster()
    group(documents)["spec"]["preemptibility"] = NON_PREEMPTIBLE
    queues = [one for one in documents if one["kind"] == "Queue" and one["metadata"]["name"] == "a"]
    documents.remove(queues[0])
    gang, _ = planned(documents).of(("default", "big"))
    assert gang.preemptibility == PREEMPTIBLE


def test_a_word_that_is_none_costs_only_its_gang():
    """A CRD without the enum lets it through; the gang is held as invalid."""
    snapshot = Builder(world_of(cluster())).build(ns(0))
    gangs = [replace(gang, preemptibility="bogus") if gang.key[1] == "big" else gang for gang in snapshot.gangs]
    assert len(schedule(replace(snapshot, gangs=tuple(gangs)))[0].outcomes) == 2


def test_a_gang_that_is_not_protected_is_the_same_gang_in_the_next_cycle():
    """What is remembered of it stays true."""
    documents = cluster()
    group(documents)["spec"]["preemptibility"] = NON_PREEMPTIBLE
    world = world_of(documents)
    world.ask_for_marks()
    builder = Builder(world)
    first, second = (schedule(builder.build(ns(at)))[0].of(("default", "big"))[0] for at in (0, 1))
    assert first is second
