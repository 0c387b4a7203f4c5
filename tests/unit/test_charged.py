"""A placed pod is charged to the queue of its admission mark until it is gone, whatever its tenant edits or deletes.

Four GPUs of a queue with a limit of four are in use, and four more are free. What is edited frees no part of the limit.
"""

from copy import deepcopy
from typing import Any

import pytest

from muster.api.admitted import Mark
from muster.api.queue import GPU_PARTS
from muster.model.reasons import Code
from muster.plan.cycle import schedule
from muster.plan.outcome import Plan
from muster.snapshot.build import Builder
from muster.snapshot.world import World
from oracle.engine import apply, world_of
from short_forms import documents_of, ns

MARK, GANG, SUBGROUP = "muster.dev/admitted", "pod-group-name", "kai.scheduler/subgroup-name"
QUEUES = {"q": {"limit": 4, "quota": 4}, "other": {}, "closed": {"limit": 4, "quota": 4, "allowedNamespaces": ["team"]}}
TREE = {"queue": "q", "subGroups": [{"name": "a", "minMember": 4}]}


def cluster(*, mark: str = "q/uid-g") -> list[dict[str, Any]]:
    """A gang of four that runs, one of four that waits, and one of each queue's."""
    things = {
        "nodes": [{"name": "n", "gpus": 8}],
        "queues": QUEUES,
        "gangs": {
            "g": deepcopy(TREE),
            "h": {"queue": "q", "minMember": 4},
            "team/good": {"queue": "closed", "minMember": 4},
        },
        "pods": [
            {"gang": "g", "subGroup": "a", "count": 4, "on": "n", "annotations": {MARK: mark} if mark else {}},
            {"gang": "h", "count": 4},
        ],
    }
    documents = documents_of(things)
    for one in documents:
        if one["kind"] == "PodGroup":
            one["metadata"]["uid"] = f"uid-{one['metadata']['name']}"
    return documents


def of(documents: list[dict[str, Any]], kind: str, name: str) -> list[dict[str, Any]]:
    return [one for one in documents if one["kind"] == kind and one["metadata"]["name"].startswith(name)]


def planned(documents: list[dict[str, Any]], *, strict: bool = True) -> Plan:
    world: World = world_of(documents)
    if strict:
        world.ask_for_marks()
    return schedule(Builder(world).build(ns(0)))[0]


def outcome(plan: Plan, name: str) -> Any:
    number = [gang.key[1] for gang in plan.snapshot.gangs].index(name)
    return plan.outcomes[number]


def allocated(plan: Plan, queue: str) -> int:
    return plan.queues[plan.snapshot.queues.row_of[queue]].allocated[2] // GPU_PARTS


def _without_group(documents: list[dict[str, Any]]) -> None:
    documents.remove(of(documents, "PodGroup", "g")[0])


def _made_again(documents: list[dict[str, Any]]) -> None:
    of(documents, "PodGroup", "g")[0]["metadata"]["uid"] = "another"


def _other_queue(documents: list[dict[str, Any]]) -> None:
    of(documents, "PodGroup", "g")[0]["spec"]["queue"] = "other"


def _without_subgroup(documents: list[dict[str, Any]]) -> None:
    of(documents, "PodGroup", "g")[0]["spec"] = {"queue": "q", "subGroups": [{"name": "b", "minMember": 1}]}


def _of_no_gang(documents: list[dict[str, Any]]) -> None:
    for one in of(documents, "Pod", "g"):
        del one["metadata"]["annotations"][GANG]


def _of_another_gang(documents: list[dict[str, Any]]) -> None:
    for one in of(documents, "Pod", "g"):
        one["metadata"]["annotations"][GANG] = "h"


def _of_no_subgroup(documents: list[dict[str, Any]]) -> None:
    for one in of(documents, "Pod", "g"):
        del one["metadata"]["labels"][SUBGROUP]


def _invalid(documents: list[dict[str, Any]]) -> None:
    of(documents, "PodGroup", "g")[0]["spec"]["subGroups"].append({"name": "a", "minMember": 1})


EDITS = [
    pytest.param(lambda _: None, id="nothing"),
    pytest.param(_without_group, id="the PodGroup is deleted"),
    pytest.param(_made_again, id="the PodGroup is made again"),
    pytest.param(_other_queue, id="the PodGroup names another queue"),
    pytest.param(_without_subgroup, id="the SubGroup is removed"),
    pytest.param(_invalid, id="the PodGroup is invalid"),
    pytest.param(_of_no_gang, id="the pods name no gang"),
    pytest.param(_of_another_gang, id="the pods name another gang"),
    pytest.param(_of_no_subgroup, id="the pods name no SubGroup"),
]


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("strict", [True, False], ids=["on a cluster", "in files"])
def test_no_edit_frees_a_part_of_the_limit(edit, strict):
    documents = cluster()
    edit(documents)
    plan = planned(documents, strict=strict)
    assert [one for one in plan.placements if plan.snapshot.gangs[one.gang].key[1] == "h"] == []
    assert (allocated(plan, "q"), allocated(plan, "other")) == (4, 0)


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("strict", [True, False], ids=["on a cluster", "in files"])
def test_no_edit_frees_what_terminating_pods_hold(edit, strict):
    """They are charged until they are gone: what fits then is nominated, and not bound before that."""
    documents = cluster()
    for one in of(documents, "Pod", "g"):
        one["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:00Z"
    edit(documents)
    plan = planned(documents, strict=strict)
    whom = [(plan.snapshot.gangs[one.gang].key[1], one.nominated) for one in plan.placements]
    # In files nothing but its gang says which queue a pod is charged to.
    assert whom in ([("h", True)], [])
    assert all(one.code in (Code.WAITING_FOR_ROOM, Code.WAITING_FOR_PODS) for one in outcome(plan, "h").reasons)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_terminating_pod_that_has_ended_holds_nothing(phase):
    documents = cluster()
    for one in of(documents, "Pod", "g"):
        one["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:00Z"
        one["status"] = {"phase": phase}
    assert outcome(planned(documents), "h").satisfied


@pytest.mark.parametrize("edit", EDITS)
def test_no_edit_raises_a_fault_of_the_checker(edit):
    """It counts marks by itself."""
    documents = cluster()
    edit(documents)
    plan = planned(documents)
    told = {reason.code for number in range(len(plan.snapshot.gangs)) for reason in plan.outcomes[number].reasons}
    assert Code.SCHEDULER_ERROR not in told


def test_a_gang_that_names_a_queue_that_is_closed_to_it_uses_nothing_of_it():
    """It stays where it was admitted, runs on, and is told so."""
    documents = cluster()
    of(documents, "PodGroup", "g")[0]["spec"]["queue"] = "closed"
    documents += documents_of({"pods": [{"gang": "good", "namespace": "team", "count": 4}]})
    plan = planned(documents)
    found = outcome(plan, "g")
    assert found.satisfied
    assert [(one.code, one.detail) for one in found.reasons] == [(Code.STAYS_IN_QUEUE, "closed")]
    assert outcome(plan, "good").satisfied
    assert (allocated(plan, "q"), allocated(plan, "closed")) == (4, 4)


@pytest.mark.parametrize(("strict", "used"), [(True, 0), (False, 4)], ids=["on a cluster", "in files"])
def test_a_bound_pod_without_a_mark_holds_room_and_nothing_else(strict, used):
    """A tenant sent it to its node. In files nobody says who did."""
    plan = planned(cluster(mark=""), strict=strict)
    assert (outcome(plan, "g").satisfied, allocated(plan, "q")) == (not strict, used + 4 * strict)
    assert outcome(plan, "h").satisfied == strict
    told = [one.pod for one in outcome(plan, "g").reasons if one.code == Code.NOT_ADMITTED]
    assert told == (["g-a-0", "g-a-1", "g-a-2", "g-a-3"] if strict else [])
    assert plan.snapshot.free[0].tolist()[plan.snapshot.resources.index("nvidia.com/gpu")] == 4


def test_what_others_bound_is_not_there_for_gangs():
    """Fair shares are of the room that is left."""
    assert [planned(cluster(mark=""), strict=strict).snapshot.capacity[2] // GPU_PARTS for strict in (True, False)] == [
        4,
        8,
    ]


def test_a_pod_of_others_with_a_mark_is_charged():
    """Whatever scheduler it names: once admitted, it is paid for."""
    documents = cluster()
    for one in of(documents, "Pod", "g"):
        one["spec"]["schedulerName"] = "default-scheduler"
    assert allocated(planned(documents), "q") == 4


def test_pods_of_no_gang_count_against_no_quota():
    """They may be evicted: what is deleted must not keep others from what their queue has for them."""
    documents = cluster()
    _without_group(documents)
    of(documents, "Queue", "q")[0]["spec"]["resources"]["gpu"]["limit"] = -1
    of(documents, "PodGroup", "h")[0]["spec"]["preemptibility"] = "non-preemptible"
    plan = planned(documents)
    assert outcome(plan, "h").satisfied
    assert not plan.evictions


@pytest.mark.parametrize("mark", ["q/", "/uid-g", "q", "", "q/" + "u" * 65], ids=repr)
def test_a_mark_that_muster_can_not_have_written_is_none(mark):
    documents = cluster(mark="q/uid-g")
    for one in of(documents, "Pod", "g"):
        one["metadata"]["annotations"][MARK] = mark
    assert not outcome(planned(documents), "g").satisfied
    assert allocated(planned(documents), "q") == 4  # that of h


def test_what_ran_before_marks_is_adopted():
    """Once; what comes without a mark afterwards is of no gang."""
    world = world_of(cluster(mark=""))
    mine = {key: facts for key, facts in world.pods.items() if facts.gang == ("default", "g")}
    world.ask_for_marks({(key, facts.pod.metadata.uid): Mark("q", "uid-g") for key, facts in mine.items()})
    plan, _ = schedule(Builder(world).build(ns(0)))
    assert (outcome(plan, "g").satisfied, allocated(plan, "q")) == (True, 4)
    # Seen again as they are, without their marks, they stay adopted.
    for document in cluster(mark=""):
        if document["kind"] == "Pod":
            document["metadata"]["labels"]["seen"] = "again"
            apply(world, document)
    assert schedule(Builder(world.copy()).build(ns(0)))[0].queues == plan.queues


@pytest.mark.parametrize(
    ("edit", "gang"),
    [pytest.param(_of_another_gang, "h", id="of another gang"), pytest.param(_made_again, "g", id="made again")],
)
def test_a_pod_counts_only_for_the_gang_that_it_was_bound_for(edit, gang):
    """Not for another one that it names, nor for a later one of the same name."""
    documents = cluster()
    edit(documents)
    found = outcome(planned(documents), gang)
    assert (found.satisfied, found.rows[0].placed) == (False, 0)
    told = [(one.pod, one.detail) for one in found.reasons if one.code == Code.NOT_ADMITTED]
    assert told == [(f"g-a-{number}", "q") for number in range(4)]


def test_what_is_told_of_pods_of_others_does_not_depend_on_their_order():
    """Found by the simulation (seed 2000170): the status named the pod that the watch had shown first."""
    documents = cluster(mark="q/uid-of-another-gang")
    notes = [
        outcome(planned(one), "g").reasons
        for one in (documents, sorted(documents, key=lambda one: one["metadata"]["name"], reverse=True))
    ]
    assert notes[0] == notes[1]
    assert [reason.pod for reason in notes[0] if reason.code == Code.NOT_ADMITTED] == [f"g-a-{at}" for at in range(4)]


@pytest.mark.parametrize(("names", "charged"), [("other", "other"), ("closed", "q")])
def test_a_queue_that_was_deleted_gives_its_gangs_free(names, charged):
    """They move to the queue that they name, if that takes their namespace."""
    documents = cluster()
    documents.remove(of(documents, "Queue", "q")[0])
    of(documents, "PodGroup", "g")[0]["spec"]["queue"] = names
    gang, _ = planned(documents).of(("default", "g"))
    assert gang.queue == charged
