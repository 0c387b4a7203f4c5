"""EvictionRequests in a cycle: what is granted, for which gang the room is reserved, and what is refused and why."""

import copy
import json
from datetime import UTC, datetime, timedelta

import pytest

from muster.api.evictionrequest import EvictionRequest
from muster.api.kinds import decode
from muster.plan.cycle import Policy, schedule
from muster.plan.invariants import Checker
from muster.plan.outcome import Action, Eviction, Placement, Verdict
from muster.snapshot.build import build
from muster.snapshot.times import since_epoch_ns
from oracle.engine import sent, world_of
from oracle.instances import group, node, pod

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
MADE = (NOW - timedelta(seconds=2)).isoformat()


def gang(name, **spec):
    found = group(**spec)
    found["metadata"]["name"] = name
    return found


def running(gang, count, on="n", leaf="", **more):
    return [pod(f"{gang}-{leaf}{i}", leaf, on=on, phase="Running", gang=gang, **more) for i in range(count)]


def uid(document):
    return f"uid-of-{document['metadata']['name']}"


def request(victims, name="r", beneficiary="g", made=MADE, uids=None, **status):
    """An EvictionRequest for a gang; `uids` are those that are not the uid of the pod of that name."""
    leavers = [{"namespace": "default", "name": one, "uid": (uids or {}).get(one, f"uid-of-{one}")} for one in victims]
    winner = {
        "namespace": "default",
        "name": beneficiary,
        "uid": (uids or {}).get(beneficiary, f"uid-of-{beneficiary}"),
    }
    return {
        "apiVersion": "muster.dev/v1alpha1",
        "kind": "EvictionRequest",
        "metadata": {"name": name, "namespace": "muster-system", "uid": f"uid-of-{name}", "creationTimestamp": made},
        "spec": {"beneficiary": winner, "victims": leavers},
        "status": status,
    }


def planned(documents, now=NOW, **policy):
    """One cycle over the documents, each with a uid of its own."""
    named = copy.deepcopy(documents)
    for one in named:
        one["metadata"].setdefault("uid", uid(one))
    plan, _ = schedule(build(world_of(named), since_epoch_ns(now)), Policy(**policy))
    return plan


def answers(plan):
    """What is said to each request: phase and reason."""
    return {one.name[1]: (one.phase, one.why) for one in plan.answers}


def nominated(documents, plan):
    """The documents with the nominations of a plan in the status of the pods."""
    where = sent(plan, nominated=True, key=None)
    changed = copy.deepcopy(documents)
    for one in changed:
        if one["kind"] == "Pod" and one["metadata"]["name"] in where:
            one["status"] = {"nominatedNodeName": where[one["metadata"]["name"]]}
    return changed


FULL = [node("n", 4), gang("busy", minMember=1), *running("busy", 4)]
WAITS = [group(minMember=2), pod("p0"), pod("p1")]
ASKED = request(["busy-2", "busy-3"])


def test_room_is_reserved_first_and_granted_when_the_reservation_stands():
    """The answer follows the nominations, so that nothing is evicted before the room is the beneficiary's."""
    documents = [*FULL, *WAITS, ASKED]
    first = planned(documents)
    assert answers(first) == {}
    assert sent(first, nominated=True) == {"p0": "n", "p1": "n"}
    second = planned(nominated(documents, first))
    assert answers(second) == {"r": ("Granted", "RoomReserved")}
    assert second.answers[0].until_ns == since_epoch_ns(NOW + timedelta(minutes=5))
    assert sent(second, nominated=True) == {"p0": "n", "p1": "n"}
    assert second.evictions == first.evictions == ()
    assert second.of(("default", "busy"))[1].satisfied


def granted(documents, **more):
    """The request is granted, and the nominations stand."""
    expires = (NOW + timedelta(minutes=4)).isoformat()
    asked = {**ASKED, "status": {"phase": "Granted", "expires": expires}, **more}
    return [*nominated(documents, planned([*documents, ASKED])), asked]


def without(documents, *names):
    return [one for one in documents if one["metadata"]["name"] not in names]


@pytest.mark.parametrize("gone", [(), ("busy-2",), ("busy-2", "busy-3")], ids=["none", "one", "both"])
def test_replacements_do_not_take_the_reserved_room(gone):
    """The owner creates every pod again at once; its gang is older than the beneficiary."""
    again = [pod(f"{name}-again", gang="busy") for name in gone]
    documents = granted([*FULL, *WAITS])
    documents = copy.deepcopy(documents)
    for one in documents:
        if one["metadata"]["name"] == "g":
            one["metadata"]["creationTimestamp"] = NOW.isoformat()
    plan = planned([*without(documents, *gone), *again])
    assert sent(plan, key=("default", "busy")) == {}
    all_gone = len(gone) == 2
    assert sent(plan, nominated=not all_gone) == {"p0": "n", "p1": "n"}
    assert answers(plan) == {}


def test_a_request_is_done_when_the_beneficiary_is_placed():
    documents = copy.deepcopy(without(granted([*FULL, *WAITS]), "busy-2", "busy-3"))
    for one in documents:
        if one["metadata"]["name"] in ("p0", "p1"):
            one["spec"]["nodeName"], one["status"] = "n", {"phase": "Running"}
    assert answers(planned(documents)) == {"r": ("Done", "BeneficiaryPlaced")}


def test_a_reservation_ends_at_its_time():
    """Not what the status claims: never later than the scheduler could have granted."""
    documents = granted([*FULL, *WAITS])
    late = planned(documents, NOW + timedelta(minutes=4))
    assert answers(late) == {"r": ("Expired", "DeadlineExceeded")}
    assert sent(late, nominated=True) == {}
    documents = copy.deepcopy(documents)
    documents[-1]["status"]["expires"] = "2099-01-01T00:00:00Z"
    assert answers(planned(documents, NOW + timedelta(minutes=10))) == {"r": ("Expired", "DeadlineExceeded")}


def test_an_undecided_request_expires():
    old = (NOW - timedelta(minutes=6)).isoformat()
    assert answers(planned([*FULL, *WAITS, request(["busy-3"], made=old)])) == {"r": ("Expired", "DeadlineExceeded")}


HIGH = {"priorityClassName": "train"}
TWO = [{"name": name, "minMember": 2} for name in ("x", "y")]
BUDGET = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "b", "namespace": "default"},
    "spec": {"selector": {}, "maxUnavailable": 1},
    "status": {"disruptionsAllowed": 1},
}


@pytest.mark.parametrize(
    ("documents", "why"),
    [
        pytest.param([*FULL, *WAITS, request(["busy-3"])], "DoesNotFit", id="one pod is not enough"),
        pytest.param([*FULL, *WAITS, request(["busy-2", "new-0"])], "VictimNotFound", id="no such pod"),
        pytest.param(
            [*FULL, *WAITS, request(["busy-2", "busy-3"], uids={"busy-3": "older"})], "VictimNotFound", id="another uid"
        ),
        pytest.param(
            [*FULL, *WAITS, request(["busy-2", "busy-3"], uids={"g": "older"})],
            "BeneficiaryNotFound",
            id="another uid of the gang",
        ),
        pytest.param([*FULL, *WAITS, request(["busy-2", "p0"])], "VictimNotPlaced", id="a pod that waits"),
        pytest.param(
            [node("n", 4), *running("", 4), *WAITS, request(["-2", "-3"])],
            "VictimNotManaged",
            id="of another scheduler",
        ),
        pytest.param(
            [node("n", 4), gang("busy", minMember=4), *running("busy", 4), *WAITS, ASKED],
            "PartOfMinimum",
            id="part of a minimum",
        ),
        pytest.param(
            [
                node("n", 4),
                gang("busy", minMember=1, preemptibility="non-preemptible"),
                *running("busy", 4),
                *WAITS,
                ASKED,
            ],
            "NotPreemptible",
            id="not preemptible",
        ),
        pytest.param(
            [
                *(node("n", 4), gang("busy", minMember=1, preemptibility="semi-preemptible"), *running("busy", 4)),
                *(*WAITS, request(["busy-0", "busy-1"])),
            ],
            "CorePod",
            id="a core pod",
        ),
        pytest.param(
            [node("n", 4), gang("busy", minMember=1, **HIGH), *running("busy", 4), *WAITS, ASKED],
            "WouldReturn",
            id="a higher priority of the same queue",
        ),
        pytest.param([*FULL, BUDGET, *WAITS, ASKED], "DisruptionBudget", id="a budget"),
        pytest.param([*FULL, node("m", 4), *WAITS, ASKED], "NotNeeded", id="it fits already"),
        pytest.param([*FULL, group(minMember=3), *WAITS[1:], ASKED], "BeneficiaryNotReady", id="not ready"),
        pytest.param([*FULL, group(minMember=1, minSubGroup=1), *WAITS[1:], ASKED], "BeneficiaryNotWaiting", id="held"),
        pytest.param(
            [*FULL, group(minMember=1), pod("g0", on="n", phase="Running"), request(["g0"])], "NotNeeded", id="it runs"
        ),
        pytest.param(
            [
                *FULL,
                group(minMember=3),
                *(pod("p0", on="n", phase="Running"), pod("p1"), pod("p2"), request(["busy-3", "p0"])),
            ],
            "PartOfMinimum",
            id="its own pod",
        ),
    ],
)
def test_what_is_refused(documents, why):
    plan = planned(documents)
    assert answers(plan) == {"r": ("Refused", why)}
    assert sent(plan, nominated=True) == {}


def test_too_many_victims_are_refused():
    """The definition refuses them first; the scheduler does not count on it."""
    named = [*(node("n", 70), gang("busy", minMember=1), *running("busy", 70)), *WAITS]
    named = [{**one, "metadata": {**one["metadata"], "uid": uid(one)}} for one in named]
    world = world_of(named)
    many = request([f"busy-{i}" for i in range(5, 70)])
    world.apply(decode(json.dumps(many), EvictionRequest))
    plan, _ = schedule(build(world, since_epoch_ns(NOW)))
    assert answers(plan) == {"r": ("Refused", "TooManyVictims")}


def test_a_gang_may_leave_as_a_whole():
    """All pods of one that needs them all."""
    whole = [node("n", 4), gang("busy", minMember=4), *running("busy", 4)]
    documents = [*whole, *WAITS, request([f"busy-{i}" for i in range(4)])]
    assert sent(planned(documents), nominated=True) == {"p0": "n", "p1": "n"}


def test_a_surplus_child_leaves_whole_or_not_at_all():
    two = gang("two", minSubGroup=1, subGroups=TWO)
    full = [node("n", 4), two, *running("two", 2, leaf="x"), *running("two", 2, leaf="y")]
    assert sent(planned([*full, *WAITS, request(["two-y0", "two-y1"])]), nominated=True) != {}
    half = planned([*full, group(minMember=1), pod("p0"), request(["two-y0"])])
    assert answers(half) == {"r": ("Refused", "PartOfMinimum")}


def test_each_victim_and_each_beneficiary_is_in_one_request():
    """The older one counts. A second one for the same gang, and one that names the same pods, are refused."""
    later = (NOW - timedelta(seconds=1)).isoformat()
    other = [gang("h", minMember=1), pod("h0", gang="h")]
    plan = planned(
        [
            *(*FULL, *WAITS, *other, ASKED),
            request(["busy-1"], name="same-gang", made=later),
            request(["busy-3"], name="same-pod", beneficiary="h", made=later),
        ]
    )
    assert answers(plan) == {"same-gang": ("Refused", "AnotherRequest"), "same-pod": ("Refused", "AnotherRequest")}
    assert set(sent(plan, nominated=True, key=None)) == {"p0", "p1"}


def test_requests_on_one_node_are_granted_one_after_the_other():
    """What the first one reserves is not there for the second, which is neither granted nor refused until then."""
    other = [gang("h", minMember=1), pod("h0", gang="h")]
    documents = [*FULL, *WAITS, *other, ASKED, request(["busy-1"], name="s", beneficiary="h")]
    first = planned(documents)
    assert set(sent(first, nominated=True, key=None)) == {"p0", "p1"}
    assert answers(planned(nominated(documents, first))) == {"r": ("Granted", "RoomReserved")}


def test_requests_on_two_nodes_are_granted_together():
    other = [gang("h", minMember=1), pod("h0", gang="h"), gang("old", minMember=1), *running("old", 2, "m")]
    documents = [*FULL, node("m", 2), *WAITS, *other, ASKED, request(["old-1"], name="s", beneficiary="h")]
    first = planned(documents)
    assert set(sent(first, nominated=True, key=None)) == {"p0", "p1", "h0"}
    assert answers(planned(nominated(documents, first))) == {
        "r": ("Granted", "RoomReserved"),
        "s": ("Granted", "RoomReserved"),
    }


def test_what_is_freed_beyond_the_need_is_given_to_no_other_gang():
    """The victims still run: another gang is neither bound nor nominated to their room."""
    other = [gang("h", minMember=1), pod("h0", gang="h")]
    plan = planned([*FULL, group(minMember=1), pod("p0"), *other, request(["busy-2", "busy-3"])])
    assert set(sent(plan, nominated=True, key=None)) == {"p0"}
    assert sent(plan, key=None) == {}


def test_no_other_gang_gets_the_victims():
    """A gang that could preempt them finds others, or waits while the request is open."""
    low = gang("busy", minMember=1)
    high = [gang("high", minMember=1, **HIGH), pod("h0", gpus=3, gang="high")]
    documents = granted([node("n", 4), low, *running("busy", 4), *WAITS])
    plan = planned([*documents, *high])
    # The higher priority comes first, and takes what it may; the request is not honoured beside it.
    gone = {(one.gang, one.leaf, one.pod) for one in plan.evictions}
    assert len(gone) in (0, 3, 4)
    reserved = sent(plan, nominated=True)
    assert not (reserved and gone)


def test_a_lone_gang_is_not_taken_together_with_others_like_it():
    """Ten gangs of one pod wait; the request is for one of them."""
    lone = [one for i in range(9) for one in (gang(f"l{i}", minMember=1), pod(f"l{i}-0", gang=f"l{i}"))]
    plan = planned([*FULL, *lone, group(minMember=1), pod("p0"), request(["busy-3"])])
    assert sent(plan, nominated=True, key=None) == {"p0": "n"}


def test_the_queue_counts_the_victims_until_they_go():
    """At the limit of the queue: the beneficiary fits in place of them, and nothing else comes in meanwhile."""
    limit = {"resources": {"gpu": {"limit": 4}}}
    queue = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "q"}, "spec": limit}
    gpus = {"resources": {"requests": {"nvidia.com/gpu": "1", "cpu": "1"}}}
    documents = [queue, node("n", 4), gang("busy", minMember=1, queue="q"), *running("busy", 4)]
    documents += [group(minMember=2, queue="q"), *WAITS[1:], gang("h", minMember=1, queue="q"), pod("h0", gang="h")]
    documents.append(node("m", 0))
    documents = copy.deepcopy(documents)
    for one in documents:
        if one["kind"] == "Pod":
            one["spec"]["containers"] = [{"name": "c", **gpus}]
        elif one["kind"] == "Node":
            one["status"]["allocatable"] = {"nvidia.com/gpu": "4", "cpu": "64", "pods": "110"}
    plan = planned([*documents, ASKED])
    assert len(sent(plan, nominated=True)) == 2
    assert sent(plan, key=None) == {}
    assert sent(plan, key=("default", "h"), nominated=True) == {}


def test_of_very_many_requests_a_cycle_considers_a_few():
    """A thousand of them: the oldest are answered, the others wait for their turn."""
    old = NOW - timedelta(seconds=100)
    many = [
        request(
            [f"busy-{i % 4}"],
            name=f"r{i:04}",
            beneficiary="nothing",
            made=(old + timedelta(microseconds=i)).isoformat(),
        )
        for i in range(1000)
    ]
    plan = planned([*FULL, *WAITS, *many])
    assert answers(plan) == {f"r{i:04}": ("Refused", "BeneficiaryNotFound") for i in range(16)}


def checked(documents, victims):
    """What the checker says to a decision for the gang g."""
    named = copy.deepcopy(documents)
    for one in named:
        one["metadata"].setdefault("uid", uid(one))
    snapshot = build(world_of(named), since_epoch_ns(NOW))
    number = [one.key[1] for one in snapshot.gangs].index("g")
    spots = []
    for name in victims:
        for at, one in enumerate(snapshot.gangs):
            for leaf, placed in one.placed.items():
                if name in placed.pods:
                    spots.append(Eviction(at, leaf, placed.pods.index(name), Action.REQUEST, number))
    made = [Placement(number, 0, (0, 1), (0, 0), nominated=True)]
    return Checker(snapshot).faults_of_clearing(number, made, spots)


def test_the_checker_knows_what_was_asked():
    documents = [*FULL, *WAITS, ASKED]
    assert checked(documents, ["busy-2", "busy-3"]) == []
    assert checked(documents, ["busy-1", "busy-3"]) == ["pods are to go that nobody asked to go for it"]
    assert checked([*FULL, *WAITS], ["busy-2", "busy-3"]) == ["pods are to go that nobody asked to go for it"]
    old = request(["busy-2", "busy-3"], made=(NOW - timedelta(minutes=6)).isoformat())
    assert checked([*FULL, *WAITS, old], ["busy-2", "busy-3"]) == ["pods are to go that nobody asked to go for it"]


def test_the_verdict_is_that_of_reserved_room():
    outcome = planned([*FULL, *WAITS, ASKED]).of(("default", "g"))[1]
    assert outcome.verdict is Verdict.PLACED
    assert not outcome.satisfied
    assert [one.code for one in outcome.reasons] == ["WaitingForRoom"]


def test_what_has_joined_goes_only_together():
    """Of a gang that runs in full, no part is surplus although its minimum is one of them (`keep: all`)."""
    two = gang("two", minSubGroup=1, subGroups=TWO)
    two["metadata"]["annotations"] = {"muster.dev/keep": "."}
    two["status"] = {"subGroups": [{"name": name, "satisfied": True, "joined": True} for name in ("x", "y")]}
    full = [node("n", 4), two, *running("two", 2, leaf="x"), *running("two", 2, leaf="y"), *WAITS]
    part = planned([*full, request(["two-y0", "two-y1"])])
    assert answers(part) == {"r": ("Refused", "PartOfMinimum")}
    every = [f"two-{leaf}{at}" for leaf in "xy" for at in range(2)]
    assert sent(planned([*full, request(every)]), nominated=True) != {}
