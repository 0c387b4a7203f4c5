"""A Plan in words: the document of SPEC §10, and sentences: what is missing, where it is nearest, what helps."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.tree import NONE
from muster.decisions.amounts import amount_in_words
from muster.decisions.plan import Bind, Evict, Nominate, decide, document_of
from muster.decisions.words import LONGEST, foremost, sentence, told
from muster.model.reasons import Code
from muster.plan.model import Dimension
from muster.plan.outcome import Outcome, Reason, Verdict
from small_cluster import GPU, TOPOLOGY, gang, node, planned, pod

CODES = list(Code)


def group_in(plan, name="g"):
    (found,) = [one for one in document_of(plan)["podGroups"] if one["name"] == name]
    return found


RACKED = {"topology": "dc", "requiredTopologyLevel": "rack"}


def test_the_document_is_the_one_of_the_contract():
    """Keys, their order, and every value of a plan with a bound gang and one that waits."""
    plan = planned(
        *(TOPOLOGY, node("n1", 2, rack="r1"), node("n2", 1, rack="r2")),
        gang("b", minMember=2, topologyConstraint=RACKED),
        *(pod(f"b-{i}", "b") for i in range(3)),
        gang("a", subGroups=[{"name": "x", "minMember": 1}, {"name": "y", "minMember": 2}]),
        pod("a-0", "a", "x"),
    )
    document = document_of(plan, [Evict("default", "z", "drain"), Evict("default", "c", "preempt", "default/b")])
    assert list(document) == ["bindings", "nominations", "evictions", "podGroups"]
    assert document["bindings"] == [
        {"namespace": "default", "pod": "b-0", "node": "n1"},
        {"namespace": "default", "pod": "b-1", "node": "n1"},
    ]
    assert document["evictions"] == [
        {"namespace": "default", "pod": "c", "action": "preempt", "for": "default/b"},
        {"namespace": "default", "pod": "z", "action": "drain", "for": None},
    ]
    first, second = document["podGroups"]
    assert list(first) == ["namespace", "name", "verdict", "satisfied", "subGroups", "reasons"]
    assert (first["name"], first["verdict"], first["satisfied"]) == ("a", "Held", False)
    assert [(one["name"], one["minimum"], one["pods"]) for one in first["subGroups"]] == [
        ("", 2, {"total": 1, "placed": 0, "pending": 1}),
        ("x", 1, {"total": 1, "placed": 0, "pending": 1}),
        ("y", 2, {"total": 0, "placed": 0, "pending": 0}),
    ]
    assert [(one["code"], one["subGroup"], one["asked"], one["best"]) for one in first["reasons"]] == [
        ("WaitingForPods", "y", 2, 0)
    ]
    assert second["verdict"] == "Placed"
    assert second["subGroups"] == [
        {
            "name": "",
            "satisfied": True,
            "core": True,
            "minimum": 2,
            "pods": {"total": 3, "placed": 2, "pending": 1},
            "domain": "a/r1",
            "preferredMet": None,
        }
    ]
    (reason,) = second["reasons"]
    assert list(reason) == ["code", "subGroup", "message", "asked", "best", "where"]
    assert (reason["code"], reason["asked"], reason["best"], reason["where"]) == ("NotEnoughInDomain", 1, 0, "a/r1")


def test_equal_plans_are_equal_bytes():
    """The order of documents changes nothing."""
    documents = [
        *(TOPOLOGY, *(node(f"n{i}", 4, rack=f"r{i % 2}") for i in range(4)), gang("g", minMember=3), gang("h")),
        *(pod(f"g-{i}", "g") for i in range(3)),
        *(pod(f"h-{i}", "h", gpus=2) for i in range(3)),
    ]
    texts = {
        json.dumps(document_of(planned(*order)))
        for order in (documents, documents[::-1], documents[5:] + documents[:5])
    }
    assert len(texts) == 1


def test_what_is_nominated_is_not_bound():
    plan = planned(
        node("n", 1),
        gang(minMember=1),
        pod("g-0"),
        pod("old", "", nodeName="n", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
    )
    assert decide(plan) == (Nominate("default", "g-0", "n"),)
    found = group_in(plan)
    assert (found["verdict"], found["satisfied"]) == ("Placed", False)
    assert [one["code"] for one in found["reasons"]] == ["WaitingForRoom"]


def test_a_core_is_made_of_what_is_needed():
    """Of three children that fit and two that are needed, two are core; the third is surplus."""
    plan = planned(
        node("n", 8),
        gang(minSubGroup=2, subGroups=[{"name": name, "minMember": 1} for name in "abc"]),
        *(pod(f"g-{name}", leaf=name) for name in "abc"),
    )
    assert [one["core"] for one in group_in(plan)["subGroups"]] == [True, True, True, False]
    assert [one["satisfied"] for one in group_in(plan)["subGroups"]] == [True] * 4
    assert all(isinstance(one, Bind) for one in decide(plan))


def test_every_code_has_its_words_and_its_place():
    """No reason is ever told as a bare word, and precedence knows all of them."""
    plan = planned(node("n", 1), gang(), pod("g-0", gpus=2))
    found = plan.snapshot.gangs[0]
    for code in CODES:
        says = sentence(Reason(code, detail="the detail", pod="the-pod"), found, plan.snapshot)
        assert says != f"{code} · the detail"
        assert says.isprintable()
        assert 10 < len(says) <= LONGEST


def says(plan, name="g"):
    return group_in(plan, name)["reasons"][0]["message"]


def test_a_fragmented_cluster_names_the_nearest_domain():
    """The total is enough, no single rack is: which rack comes nearest, and by how much it is short."""
    plan = planned(
        *(TOPOLOGY, node("n1", 6, rack="r1"), node("n2", 4, rack="r2")),
        gang(minMember=8, topologyConstraint=RACKED),
        *(pod(f"g-{i}") for i in range(8)),
    )
    assert [one["code"] for one in group_in(plan)["reasons"]] == ["TopologyFragmented"]
    assert says(plan) == (
        "the gang needs room for 8 pods of 1 × nvidia.com/gpu in one rack: the total (10 in all) is enough, no single"
        " rack is · nearest a/r1: 6 of 8 · free room for 2 more there, or relax the level"
    )
    assert group_in(plan)["reasons"][0]["where"] == "a/r1"


@pytest.mark.parametrize(
    ("documents", "words"),
    [
        pytest.param(
            [node("n", 3), gang(minMember=4), *(pod(f"g-{i}") for i in range(4))],
            ["needs room for 4 pods of 1 × nvidia.com/gpu", "there is room for 3", "add nodes"],
            id="too little",
        ),
        pytest.param(
            [node("n", 8), gang(), pod("g-0", gpus=9)],
            ["1 pod of 9 × nvidia.com/gpu", "no node that may take it is large enough even when empty"],
            id="larger than any node",
        ),
        pytest.param(
            [node("n", 8), gang(), pod("g-0", nodeSelector={"disk": "ssd"})],
            ["the only node may not take it", "nodeSelector"],
            id="nowhere allowed",
        ),
        pytest.param(
            [node("n", 8, spec={"unschedulable": True}), gang(), pod("g-0")],
            ["cordoned", "uncordon"],
            id="behind a cordon",
        ),
        pytest.param(
            [TOPOLOGY, node("n", 8), gang(minMember=2, topologyConstraint=RACKED), pod("g-0"), pod("g-1")],
            ["needs 2 pods in one rack", "no node lies in any rack", "label the nodes"],
            id="nobody is in a domain",
        ),
        pytest.param(
            [TOPOLOGY, gang(minMember=2, topologyConstraint=RACKED), pod("g-0"), pod("g-1")],
            ["needs room for 2 pods in one rack · there is no node at all · add nodes"],
            id="no node at all, and a level",
        ),
        pytest.param(
            [gang(minMember=2), pod("g-0"), pod("g-1")],
            ["needs room for 2 pods", "· there is no node at all · add nodes"],
            id="no node at all",
        ),
        pytest.param(
            [
                *(TOPOLOGY, node("n", 1, rack="r1"), node("m", 1, rack="r2")),
                gang(minMember=4, topologyConstraint=RACKED),
                *(pod(f"g-{i}") for i in range(4)),
            ],
            ["4 pods of 1 × nvidia.com/gpu in one rack; in all there is too little"],
            id="too little in all",
        ),
        pytest.param(
            [node("n", 8), gang(queue="q"), pod("g-0", topologySpreadConstraints=[{"maxSkew": 1}])],
            ["the pod g-0 uses spec.topologySpreadConstraints", "can't honour"],
            id="unsupported",
        ),
        pytest.param(
            [node("n", 8), gang(minMember=2), pod("g-0"), pod("g-1", schedulingGates=[{"name": "x"}])],
            ["1 of 2 pods", "1 missing", "take the scheduling gates off 1"],
            id="gated",
        ),
        pytest.param(
            [node("n", 8), gang(minMember=2), *(pod(f"g-{i}", nodeName="n", status={"phase": "Failed"}) for i in "01")],
            ["0 of 2 pods", "2 missing", "2 failed", "if it has given up, delete the workload"],
            id="all failed",
        ),
        pytest.param(
            [node("n", 8), gang(topologyConstraint=RACKED), pod("g-0")],
            ["the Topology dc does not exist"],
            id="no topology",
        ),
        pytest.param(
            [
                *(TOPOLOGY, node("n", 8, rack="r1"), node("m", 8, rack="r2")),
                gang(minMember=3, topologyConstraint=RACKED),
                *(pod("g-0", nodeName="n"), pod("g-1", nodeName="m"), pod("g-2")),
            ],
            ["lie in 2 domains where one rack is required", "nothing is added"],
            id="drift",
        ),
        pytest.param(
            [node("n", 8), gang(priorityClassName="no-such"), pod("g-0")],
            ["the PriorityClass no-such does not exist", "the default counts instead"],
            id="unknown priority",
        ),
    ],
)
def test_what_people_read(documents, words):
    message = says(planned(*documents))
    for word in words:
        assert word in message


def test_one_reason_for_each_code_and_subgroup():
    """Three pods without a leaf are one sentence, which counts them."""
    plan = planned(
        node("n", 8),
        gang(subGroups=[{"name": "a", "minMember": 1}, {"name": "b", "minMember": 1}]),
        *(pod("g-a", leaf="a"), pod("g-b", leaf="b"), pod("x-0"), pod("x-1", leaf="nope"), pod("x-2")),
    )
    (reason,) = group_in(plan)["reasons"]
    assert reason["code"] == "SetAside"
    assert "x-0 has no label kai.scheduler/subgroup-name (and 2 more)" in reason["message"]
    assert "set it to a leaf: a, b" in reason["message"]
    assert group_in(plan)["verdict"] == "Placed"


def test_precedence():
    """What the user must mend comes first; for one line, what keeps the gang from its minimum comes first."""
    reasons = (Reason(Code.INSUFFICIENT, 2), Reason(Code.INSUFFICIENT, 1), Reason(Code.SET_ASIDE), Reason(Code.INVALID))
    outcome = Outcome(Verdict.INFEASIBLE, False, (), reasons)
    assert [(one.reason.code, one.reason.row) for one in told(outcome)] == [
        ("Invalid", 0),
        ("SetAside", 0),
        ("InsufficientResources", 1),
        ("InsufficientResources", 2),
    ]
    blocked = foremost(Outcome(Verdict.INFEASIBLE, False, (), reasons[:3]))
    assert blocked is not None
    assert blocked.reason == Reason(Code.INSUFFICIENT, 1)
    assert foremost(Outcome(Verdict.PLACED, True, (), ())) is None


@pytest.mark.parametrize(
    ("resource", "amount", "words"),
    [
        pytest.param("cpu", 2000, "2 CPU", id="cores"),
        pytest.param("cpu", 150, "0.15 CPU", id="part of a core"),
        pytest.param("memory", 4 * 2**30, "4Gi memory", id="memory"),
        pytest.param("memory", 3 * 2**29, "1.5Gi memory", id="not a whole unit"),
        pytest.param("memory", 100, "100 bytes of memory", id="bytes"),
        pytest.param("hugepages-2Mi", 2**21, "2Mi hugepages-2Mi", id="huge pages"),
        pytest.param(GPU, 8, "8 × nvidia.com/gpu", id="devices"),
        pytest.param("pods", 1, "1 pod", id="a pod"),
        pytest.param("host port 80/TCP on any IP", 1, "host port 80/TCP on any IP", id="a port"),
    ],
)
def test_amounts(resource, amount, words):
    assert amount_in_words(resource, amount) == words


def test_pieces_of_a_resource():
    """A shortage that is counted in pieces of an amount says so."""
    plan = planned(node("n", 1), gang(), pod("g-0"))
    column = plan.snapshot.resources.index(GPU)
    found = plan.snapshot.gangs[0]
    reason = Reason(Code.INSUFFICIENT, 0, 12, 10, dimension=Dimension(NONE, column, 2))
    assert "room for 12 times 2 × nvidia.com/gpu" in sentence(reason, found, plan.snapshot)
    reason = reason._replace(dimension=Dimension(NONE, column, 1))
    assert "room for 12 × nvidia.com/gpu · there is room for 10" in sentence(reason, found, plan.snapshot)


@given(
    st.sampled_from(CODES),
    st.text(max_size=600),
    st.text(max_size=300),
    st.integers(0, 10**9),
    st.integers(0, 10**9),
    st.integers(0, 10**6),
)
def test_no_sentence_is_too_long(code, detail, name, asked, best, others):
    """Whatever an object holds, a sentence has at most 250 characters on one line."""
    plan = PLAN
    reason = Reason(code, 1, asked, best, 0, 1, 0, detail=detail, pod=name)
    message = sentence(reason, plan.snapshot.gangs[0], plan.snapshot, others)
    assert message
    assert len(message) <= LONGEST
    assert "\n" not in message


PLAN = planned(
    *(TOPOLOGY, node("n1", 6, zone="z" * 63, rack="r" * 63), node("n2", 4, zone="z" * 63, rack="s" * 63)),
    gang(subGroups=[{"name": "a" * 63, "minMember": 8, "topologyConstraint": RACKED}]),
    *(pod(f"g-{i}", leaf="a" * 63) for i in range(8)),
)


def test_the_longest_names_leave_room_for_the_numbers():
    message = says(PLAN)
    assert len(message) <= LONGEST
    assert "6 of 8" in message
