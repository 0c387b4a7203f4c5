"""Queues in words and as data: reasons of a quota, numbers of a queue, the line in it."""

from dataclasses import replace

import pytest

from muster.decisions.amounts import charge_alone, charge_in_words, due_in_words, in_queue_units, moment, ordinal, span
from muster.decisions.explanation import document_of as explanation_of
from muster.decisions.explanation import explain
from muster.decisions.plan import document_of
from muster.decisions.queues import line, place_in_line, shares
from muster.decisions.words import LONGEST, sentence
from muster.model.reasons import Code
from muster.plan.outcome import Measured, Outcome, QueueOutcome, Reason, RowOutcome, Verdict
from muster.plan.proof import Refused
from muster.snapshot.queues import CHARGES, PARTS, UNLIMITED
from small_cluster import gang, node, planned, pod

CPU, MEMORY, GPU = range(len(CHARGES))
G = 10**9


def queue(name, parent="", gpu=None, cpu=None, **spec):
    resources = {**({"gpu": gpu} if gpu else {}), **({"cpu": cpu} if cpu else {})}
    more = {**({"parentQueue": parent} if parent else {}), **({"resources": resources} if resources else {})}
    return {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {**more, **spec},
    }


SHARED = planned(
    *(node("n", 8), queue("dept", gpu={"quota": 8, "limit": 8}), queue("a", "dept", gpu={"quota": 4, "limit": 6})),
    *(queue("b", "dept", gpu={"quota": 4}), queue("free"), gang("runs", queue="a"), pod("r-0", "runs", nodeName="n")),
    *(gang("g", queue="a", minMember=2), pod("g-0"), pod("g-1")),
)
A = SHARED.snapshot.queues.row_of["a"]


def number_of(plan, name):
    return next(at for at, one in enumerate(plan.snapshot.gangs) if one.key[1] == name)


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        pytest.param(
            Reason(Code.OVER_LIMIT, 0, 16 * PARTS, 2 * PARTS, total=6 * PARTS, queue=A, charge=GPU),
            "the gang needs 16 GPU, and the limit of queue a is 6 · 2 left of it · raise the limit to at least 20, or "
            "ask for less",
            id="over the limit for ever",
        ),
        pytest.param(
            Reason(Code.OVER_LIMIT, 0, 3 * PARTS, 2 * PARTS, total=6 * PARTS, queue=A, charge=GPU),
            "the gang needs 3 GPU, and the limit of queue a is 6 · 2 left of it · wait until others of the queue end, "
            "or raise the limit to at least 7",
            id="over what is left of the limit",
        ),
        pytest.param(
            Reason(Code.OVER_QUOTA, 0, 4500, 1000, total=3000, queue=A, charge=CPU),
            "what may not be evicted of the gang needs 4.5 CPU, and the quota of queue a is 3 · 1 left of it · raise "
            "the quota to at least 6.5, or make it preemptible",
            id="over the quota",
        ),
        pytest.param(
            Reason(Code.WAITING_FOR_QUOTA, 0, 32 * G, 16 * G, total=64 * G, queue=A, charge=MEMORY),
            "what may not be evicted of the gang needs 32G memory of the quota of queue a · 16G left of 64G: gangs "
            "that may not be evicted hold the rest · wait for them, raise the quota to at least 80G, or make it "
            "preemptible",
            id="waits for quota",
        ),
        pytest.param(
            Reason(Code.QUEUE_FORBIDDEN, detail="a"),
            "the queue a takes no gangs of the namespace default · add it to the annotation "
            "kai.scheduler/allowed-namespaces of the Queue, or use another queue",
            id="forbidden",
        ),
        pytest.param(
            Reason(Code.QUEUE_ORPHANED, detail="top"),
            "the queue top above the queue a does not exist · nothing can be charged to it · create the missing one, "
            "or mend spec.parentQueue",
            id="orphaned",
        ),
        pytest.param(
            Reason(Code.QUEUE_CYCLE, detail="x → y → x"),
            "the queues above a form a cycle · x → y → x · take spec.parentQueue out of one of them",
            id="a cycle",
        ),
        pytest.param(
            Reason(Code.PRIORITY_NOT_ALLOWED, asked=125, total=50, detail="inference"),
            "the priority 125 of inference is above what queue a admits · at most 50 · name a lower class in "
            "spec.priorityClassName, or raise muster.dev/max-priority of the Queue",
            id="above the bound",
        ),
        pytest.param(
            Reason(Code.PRIORITY_NOT_ALLOWED, asked=200, total=50),
            "the priority 200 of the default class is above what queue a admits · at most 50 · name a lower class in "
            "spec.priorityClassName, or raise muster.dev/max-priority of the Queue",
            id="the default class is above the bound",
        ),
        pytest.param(
            Reason(Code.PRIORITY_NOT_ALLOWED, detail="system-node-critical"),
            "the system class system-node-critical may not be used in the namespace default · name another class in "
            "spec.priorityClassName, or add the namespace to priorities.systemNamespaces",
            id="a system class of a tenant",
        ),
        pytest.param(
            Reason(Code.PRIORITY_NOT_ALLOWED, detail="system-node-critical", pod="g-1"),
            "the system class system-node-critical counts only where every pod of the gang has it in "
            "spec.priorityClassName · the pod g-1 has not · set it in the pod template, or name another class",
            id="a pod has no system class",
        ),
        pytest.param(
            Reason(Code.NOT_TRIED),
            "the gang is below its minimum, and no free room is given away in this cycle · add allocate to the actions",
            id="not tried",
        ),
    ],
)
def test_reasons_of_queues(reason, words):
    """What is asked of which queue, what is left, and what would be enough."""
    assert sentence(reason, SHARED.snapshot.gangs[number_of(SHARED, "g")], SHARED.snapshot) == words


@pytest.mark.parametrize("code", [Code.OVER_LIMIT, Code.OVER_QUOTA, Code.WAITING_FOR_QUOTA])
def test_the_longest_names_leave_room_for_the_numbers(code):
    """At most 250 characters, with what is asked for, what is left and what would be enough."""
    plan = planned(
        *(
            node("n", 1),
            queue("q" * 253, gpu={"limit": 1}),
            gang(queue="q" * 253, subGroups=[{"name": "a" * 63, "minMember": 1}]),
        ),
        pod("g-0", leaf="a" * 63),
    )
    message = sentence(
        Reason(code, 1, 7 * PARTS, 2 * PARTS, total=5 * PARTS, queue=0, charge=GPU),
        plan.snapshot.gangs[0],
        plan.snapshot,
    )
    assert len(message) <= LONGEST
    for words in ("7 GPU", "2 left", "at least 10"):
        assert words in message


def test_a_queue_with_others_below_it_names_them():
    plan = planned(node("n", 1), queue("dept"), queue("a", "dept"), queue("b", "dept"), gang(queue="dept"), pod("g-0"))
    message = sentence(Reason(Code.QUEUE_NOT_LEAF), plan.snapshot.gangs[0], plan.snapshot)
    assert message.endswith("gangs are charged to the lowest ones · name one of them in spec.queue: a, b")


def with_outcome(plan, name, outcome):
    outcomes = list(plan.outcomes)
    outcomes[number_of(plan, name)] = outcome
    return replace(plan, outcomes=outcomes)


def with_queues(plan, **amounts):
    """The plan with hand-made numbers of GPUs per queue: requested, allocated, non-preemptible, fair share."""
    nothing = (0,) * 4
    rows = (amounts.get(name, nothing) for name in plan.snapshot.queues.names)
    return replace(plan, queues=tuple(QueueOutcome(*((0, 0, amount * PARTS) for amount in row)) for row in rows))


def test_a_reason_as_data_is_in_the_units_of_the_queue():
    """`asked` and `best` as the Queue has them, `where` is the queue."""
    reason = Reason(Code.OVER_LIMIT, 0, 3 * G // 2, 10**6, total=64 * G, queue=A, charge=MEMORY)
    rows = (RowOutcome(False, 0, 2, 2, None, None),)
    plan = with_outcome(SHARED, "g", Outcome(Verdict.HELD, False, rows, (reason,)))
    (group,) = [one for one in document_of(plan)["podGroups"] if one["name"] == "g"]
    (found,) = group["reasons"]
    assert (found["asked"], found["best"], found["where"]) == (1500, 1, "a")


def test_queues_as_data():
    """Every queue by name, with its children, in its own units; only when somebody wrote Queues."""
    document = document_of(with_queues(SHARED, a=(3, 1, 1, 3), dept=(3, 1, 1, 3)))
    assert list(document)[-1] == "queues"
    assert [one["name"] for one in document["queues"]] == ["a", "b", "dept", "free"]
    assert [one["childQueues"] for one in document["queues"]] == [[], [], ["a", "b"], []]
    assert document["queues"][0] == {
        "name": "a",
        "childQueues": [],
        "requested": {"cpu": 0, "memory": 0, "gpu": 3},
        "allocated": {"cpu": 0, "memory": 0, "gpu": 1},
        "allocatedNonPreemptible": {"cpu": 0, "memory": 0, "gpu": 1},
        "fairShare": {"cpu": 0, "memory": 0, "gpu": 3},
    }
    assert "queues" not in document_of(planned(node("n", 1), gang(queue="any"), pod("g-0")))


def test_shares_show_what_somebody_limits():
    """Every queue before those below it; of the charges only those that have an end somewhere."""
    found = list(shares(with_queues(SHARED, a=(3, 1, 1, 3))))
    assert [(some[0].queue, some[0].depth) for some in found] == [("dept", 0), ("a", 1), ("b", 1), ("free", 0)]
    assert {one.charge for some in found for one in some} == {GPU}
    ((a,),) = [some for some in found if some[0].queue == "a"]
    assert a == ("a", 1, GPU, *(one * PARTS for one in (1, 3, 4, 6, 1, 3, 0)))


LINE = planned(
    *(node("n", 1), queue("a"), queue("b")),
    *(gang("old", queue="a", minMember=2), pod("old-0", "old"), pod("old-1", "old")),
    *(gang("first", queue="a", minMember=2, priorityClassName="train"), pod("f-0", "first"), pod("f-1", "first")),
    *(gang("else", queue="b", minMember=2), pod("e-0", "else"), pod("e-1", "else")),
    *(gang("half", queue="a", minMember=2), pod("h-0", "half")),
    *(gang("more", queue="a"), pod("m-0", "more", nodeName="n"), pod("m-1", "more")),
)


def test_the_line_of_a_queue():
    """By priority, minimums before surplus, then age and name; whoever is not ready, or elsewhere, is not in it."""
    names = [LINE.snapshot.gangs[number].key[1] for number in line(LINE, "a")]
    assert names == ["first", "old", "more"]
    places = {
        name: place_in_line(LINE, number_of(LINE, name))[1:3] for name in ("first", "old", "more", "half", "else")
    }
    assert places == {"first": (1, 3), "old": (2, 3), "more": (3, 3), "half": (0, 3), "else": (1, 1)}


def test_where_a_gang_stands():
    """Its own queue first, then those above that have an end, of what it asks for; null for no end."""
    plan = with_queues(SHARED, a=(3, 1, 1, 3), dept=(3, 1, 1, 8))
    found = place_in_line(plan, number_of(plan, "g"))
    assert [(one.queue, one.charge, one.quota, one.limit) for one in found.shares] == [
        ("a", GPU, 4 * PARTS, 6 * PARTS),
        ("dept", GPU, 8 * PARTS, 8 * PARTS),
    ]
    document = explanation_of(explain(plan, number_of(plan, "g"), ()), plan.snapshot)
    assert document["queue"]["shares"][0] == {
        "queue": "a",
        "resource": "gpu",
        "allocated": 1,
        "allocatedNonPreemptible": 1,
        "fairShare": 3,
        "quota": 4,
        "limit": 6,
    }
    alone = planned(node("n", 1), queue("q"), gang(queue="q"), pod("g-0"))
    (only,) = place_in_line(alone, 0).shares
    assert (only.queue, only.quota, only.limit) == ("q", UNLIMITED, UNLIMITED)
    nobody = planned(node("n", 1), gang(queue="q"), pod("g-0"))
    assert place_in_line(nobody, 0).shares == ()


@pytest.mark.parametrize(
    ("verdict", "reasons", "expected"),
    [
        pytest.param(Verdict.HELD, (Reason(Code.OVER_LIMIT, queue=A, charge=GPU),), (False, None), id="over the limit"),
        pytest.param(Verdict.HELD, (Reason(Code.WAITING_FOR_PODS),), (None, None), id="not ready"),
        pytest.param(Verdict.INFEASIBLE, (Reason(Code.INSUFFICIENT),), (True, False), id="no room"),
        pytest.param(Verdict.PLACED, (), (True, True), id="placed"),
    ],
)
def test_quota_is_a_check_of_its_own(verdict, reasons, expected):
    """It comes before room, and is not reached by whom nobody tries."""
    rows = (RowOutcome(verdict is Verdict.PLACED, 0, 2, 2, None, None),)
    plan = with_outcome(SHARED, "g", Outcome(verdict, verdict is Verdict.PLACED, rows, reasons))
    checks = {one.name: one.good for one in explain(plan, number_of(plan, "g"), ()).checks}
    assert (checks["quota"], checks["room"]) == expected
    assert list(checks)[-2:] == ["quota", "room"]


def test_a_refusal_is_a_proof():
    rows = (RowOutcome(False, 0, 2, 2, None, None),)
    proof = Refused(A, GPU, 16 * PARTS, 2 * PARTS, 6 * PARTS, False)
    plan = with_outcome(SHARED, "g", Outcome(Verdict.HELD, False, rows, (Reason(Code.OVER_LIMIT),), proof))
    found = explain(plan, number_of(plan, "g"), ())
    assert found.proof == "counted: 16 GPU are needed, and 2 of the limit of queue a, 6, is left"


@pytest.mark.parametrize(
    ("charge", "amount", "words", "alone", "own"),
    [
        pytest.param(GPU, 1000 * PARTS, "1,000 GPU", "1,000", 1000, id="devices"),
        pytest.param(GPU, 17 * PARTS // 7, "2 3/7 GPUs", "2 3/7", 17 / 7, id="slices of devices"),
        pytest.param(GPU, PARTS // 4, "1/4 GPU", "1/4", 0.25, id="less than a device"),
        pytest.param(GPU, PARTS + 1, "1.000 GPUs", "1.000", 1 + 1 / PARTS, id="parts that are no fraction to people"),
        pytest.param(GPU, PARTS // 10 * 33, "3 3/10 GPUs", "3 3/10", 3.3, id="tenths"),
        pytest.param(CPU, 2500, "2.5 CPU", "2.5", 2500, id="part of a core"),
        pytest.param(MEMORY, 64 * G, "64G memory", "64G", 64000, id="memory"),
        pytest.param(MEMORY, 4 * 2**30, "4.295G memory", "4.295G", 4294.967296, id="memory in other units"),
        pytest.param(MEMORY, 500, "500B memory", "500B", 0.0005, id="bytes"),
        pytest.param(MEMORY, 0, "0 memory", "0", 0, id="nothing"),
        pytest.param(GPU, UNLIMITED, "unlimited GPU", "unlimited", None, id="no end"),
    ],
)
def test_amounts_of_queues(charge, amount, words, alone, own):
    assert charge_in_words(charge, amount) == words
    assert charge_alone(charge, amount) == alone
    assert in_queue_units(charge, amount) == own


def test_times_and_numbers():
    assert [ordinal(number) for number in (1, 2, 3, 4, 11, 12, 13, 21, 112)] == [
        *("1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "112th"),
    ]
    assert [span(seconds * G) for seconds in (0, 59, 90, 120, 121, 3600, 5400, 90061)] == [
        *("0s", "59s", "90s", "2m", "2m1s", "1h", "1h30m", "25h1m1s"),
    ]
    assert moment(1_769_860_800 * G) == "2026-01-31T12:00:00Z"


@pytest.mark.parametrize(
    ("queue_name", "quota", "said"),
    [
        pytest.param("top", False, "its fair share is 3", id="the fair share"),
        pytest.param("named", True, "its quota is 3", id="a quota"),
        pytest.param("top", True, "its unlimited quota is what the cluster has: 3", id="unlimited, at the top"),
        pytest.param("leaf", True, "its unlimited quota is what the queue above it has: 3", id="unlimited, below"),
    ],
)
def test_what_a_queue_may_have_is_said_with_where_it_comes_from(queue_name, quota, said):
    """An unlimited quota has no number of its own."""
    plan = planned(
        queue("top", gpu={"quota": -1}), queue("leaf", "top", gpu={"quota": -1}), queue("named", gpu={"quota": 3})
    )
    queues = plan.snapshot.queues
    assert due_in_words(Measured(queues.row_of[queue_name], 2, 9 * PARTS, 3 * PARTS), queues, quota=quota) == said
