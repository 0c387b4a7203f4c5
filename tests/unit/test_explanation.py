"""An explanation as data: checks, proofs in words, places with who holds them, who is waited for, remedies."""

import json
import shlex

import pytest

from muster.api.tree import NONE
from muster.decisions.explanation import Leaving, document_of, explain, proof_in_words
from muster.plan.proof import Certificate, Choices, Drift, Exhausted
from muster.plan.raises import Raise
from muster.plan.remedies import EVICT, FREE, LOWER, RELAX, UNCORDON, Remedy, Victim, remedies
from muster.snapshot.queues import PARTS
from small_cluster import GPU, TOPOLOGY, gang, node, planned, pod

SOON = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
RACKED = {"topology": "dc", "requiredTopologyLevel": "rack"}


def explained(plan, name="g", found=None, leaving=()):
    number = next(at for at, one in enumerate(plan.snapshot.gangs) if one.key[1] == name)
    return explain(plan, number, remedies(plan, number) if found is None else found, leaving)


def checks(plan):
    return {one.name: one.good for one in explained(plan).checks}


ALL_GOOD = {"spec": True, "queue": True, "topology": True, "supported": True, "pods": True, "room": True}


@pytest.mark.parametrize(
    ("documents", "wrong"),
    [
        pytest.param([gang(), pod("g-0")], {}, id="placed"),
        pytest.param([gang(), pod("g-0", gpus=9)], {"room": False}, id="no room"),
        pytest.param([gang(minMember=2), pod("g-0")], {"pods": False, "room": None}, id="no pods"),
        pytest.param([gang(topologyConstraint=RACKED), pod("g-0")], {"topology": False, "room": None}, id="no level"),
        pytest.param(
            [gang(topologyConstraint={"topology": "x", "preferredTopologyLevel": "y"}), pod("g-0")], {}, id="a wish"
        ),
        pytest.param(
            [gang(minMember=2, topologyConstraint=RACKED), pod("g-0")],
            {"topology": False, "pods": False, "room": None},
            id="two at once",
        ),
        pytest.param(
            [gang(minSubGroup=1), pod("g-0")],
            {"spec": False, **dict.fromkeys(["queue", "topology", "supported", "pods", "room"])},
            id="invalid: nothing else is known",
        ),
    ],
)
def test_checks(documents, wrong):
    """Every check is told by itself; room is not looked for before the rest is good."""
    assert checks(planned(node("n", 4), *documents)) == {**ALL_GOOD, **wrong}


def test_who_is_waited_for_is_named_with_the_node():
    """Only pods that hold what lacks; without names, the nodes."""
    plan = planned(
        *(node("a", 2), node("b", 2), gang(minMember=3), *(pod(f"g-{i}") for i in range(3))),
        pod("old", "", gpus=2, nodeName="a", metadata=SOON),
    )
    leaving = [
        Leaving("default/old", "a", frozenset({GPU, "pods"})),
        Leaving("default/small", "a", frozenset({"pods"})),
        Leaving("default/elsewhere", "b", frozenset({GPU})),
    ]
    assert explained(plan, leaving=leaving).waits == (("a", ("default/old",)),)
    assert explained(plan).waits == (("a", ()),)
    document = document_of(explained(plan, leaving=leaving), plan.snapshot)
    assert document["waitsFor"] == [{"node": "a", "pods": ["default/old"]}]
    assert {one.name: one.says for one in explained(plan).checks}["room"] == "room once pods have left"


def test_nobody_is_waited_for_by_others():
    """Terminating pods that nobody needs are not told."""
    plan = planned(node("n", 4), gang(), pod("g-0"), pod("old", "", nodeName="n", metadata=SOON))
    assert explained(plan, leaving=[Leaving("default/old", "n", frozenset({GPU}))]).waits == ()


def test_who_holds_a_place_is_told_with_pods():
    """Gangs with the most pods first, those of this cycle included; then pods of others."""
    plan = planned(
        *(TOPOLOGY, node("n", 9, rack="r1"), gang(minMember=9, topologyConstraint=RACKED)),
        *(pod(f"g-{i}") for i in range(9)),
        *(gang("x"), pod("x-0", "x", nodeName="n"), pod("x-1", "x", nodeName="n")),
        *(gang("y"), pod("y-0", "y", nodeName="n"), pod("stranger", "", nodeName="n")),
        *(gang("first", priorityClassName="train"), *(pod(f"first-{i}", "first") for i in range(3))),
        *(gang("z"), pod("z-0", "z", nodeName="n")),
    )
    (place,) = explained(plan).places
    assert (place.where, place.best, place.asked) == ("a/r1", 1, 9)
    assert place.holders == (
        *("default/first (3 pods)", "default/x (2 pods)", "default/y (1 pod)", "1 more gangs", "1 pod of others"),
    )


def test_proofs_in_words():
    """Every kind of proof says how it is known."""
    plan = planned(
        *(TOPOLOGY, node("n", 1, rack="r1")),
        gang(subGroups=[{"name": "x", "minMember": 2, "topologyConstraint": RACKED}, {"name": "y", "minMember": 1}]),
        *(pod("g-0", leaf="x"), pod("g-1", leaf="x"), pod("g-2", leaf="y", gpus=0)),
    )
    found, outcome = plan.of(("default", "g"))
    assert isinstance(outcome.proof, Certificate)
    words = [
        proof_in_words(proof, found, plan.snapshot)
        for proof in (
            outcome.proof,
            Exhausted((0, 1), 1234),
            Exhausted((), 5),
            Drift(0, 0, 1, (0, 1)),
            Choices((outcome.proof, outcome.proof), ((1, outcome.proof),)),
            outcome.proof._replace(shortages=()),
        )
    ]
    assert "counted: " in words[0]
    assert words[1] == "every choice of domains for the gang, x was tried or ruled out, in 1,234 steps"
    assert words[2] == "every way to put its pods on nodes was tried or ruled out, in 5 steps"
    assert words[3] == "placed pods already lie in 2 domains of one required level of Topology dc"
    assert "2 ways to choose its parts were refuted; x can't be placed even alone" in words[4]
    assert "no domain comes into question" in words[5]


HELPED = planned(
    *(TOPOLOGY, node("n1", 2, rack="r1"), node("n2", 2, rack="r2"), node("n3", 4, spec={"unschedulable": True})),
    gang(minMember=3, topologyConstraint=RACKED),
    *(pod(f"g-{i}") for i in range(3)),
    *(gang("x"), pod("x-0", "x", nodeName="n1"), pod("x-1", "x", nodeName="n1")),
)
X = next(at for at, one in enumerate(HELPED.snapshot.gangs) if one.key[1] == "x")


@pytest.mark.parametrize(
    ("remedy", "says", "command"),
    [
        pytest.param(Remedy(UNCORDON, (2,)), "uncordon n3", "kubectl uncordon n3", id="uncordon"),
        pytest.param(
            Remedy(EVICT, victims=(Victim(X, 0, 1),)),
            "evict surplus of default/x (x-1)",
            "muster evict --for default/g --dry-run=none",
            id="evict",
        ),
        pytest.param(
            Remedy(FREE, (0,)),
            "clear n1 of other pods: default/x (2 pods)",
            "kubectl drain n1 --ignore-daemonsets --delete-emptydir-data && kubectl uncordon n1",
            id="free a node",
        ),
        pytest.param(
            Remedy(FREE, (0, 1), forced=True),
            "clear n1, n2 of other pods: default/x (2 pods)",
            "kubectl drain n1 n2 --ignore-daemonsets --delete-emptydir-data --force && kubectl uncordon n1 n2",
            id="free nodes",
        ),
        pytest.param(
            Remedy(RELAX, row=0, hold=0, before=1, level=0),
            "hold the gang in one zone instead of one rack",
            "kubectl patch podgroups.scheduling.run.ai -n default g --type=json -p '"
            '[{"op": "add", "path": "/spec/topologyConstraint/requiredTopologyLevel", "value": "t/zone"}]\'',
            id="relax",
        ),
        pytest.param(
            Remedy(RELAX, row=0, hold=0, before=1, level=NONE),
            "prefer one rack for the gang instead of requiring it",
            "kubectl patch podgroups.scheduling.run.ai -n default g --type=json -p '"
            '[{"op": "move", "from": "/spec/topologyConstraint/requiredTopologyLevel", '
            '"path": "/spec/topologyConstraint/preferredTopologyLevel"}]\'',
            id="relax to a wish",
        ),
        pytest.param(
            Remedy(LOWER, row=0, before=3, level=2, in_turn=False),
            "lower minMember of the gang from 3 to 2 (if nobody before it takes the room)",
            "kubectl patch podgroups.scheduling.run.ai -n default g --type=json -p '"
            '[{"op": "add", "path": "/spec/minMember", "value": 2}]\'',
            id="lower",
        ),
    ],
)
def test_remedies_in_words(remedy, says, command):
    """What to do, and the command that does it."""
    (found,) = explained(HELPED, found=[remedy]).helps
    assert (found.says, found.command) == (says, command)


def test_raises_in_words():
    """One change for all queues, in their own units; a queue of which two things are raised is patched once."""
    queues = [
        {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": {}}
        for name in ("a", "it's")
    ]
    plan = planned(node("n", 1), *queues, gang(queue="a", minMember=2), pod("g-0"), pod("g-1"))
    found = (
        Raise(0, 2, False, 3 * PARTS, 5 * PARTS),
        Raise(0, 2, True, 2 * PARTS, 5 * PARTS),
        Raise(1, 1, False, 10**9, 2 * 10**9),
    )
    (told, *_) = explain(plan, 0, (), (), found).helps
    assert told.kind == "raise"
    assert told.says == (
        "raise the gpu limit of queue a from 3 to 5 and the gpu quota of queue a from 2 to 5 and the memory limit of "
        "queue it's from 1G to 2G"
    )
    first, second = told.command.split(" && ")
    assert shlex.split(first) == [
        *("kubectl", "patch", "queues.scheduling.run.ai", "a", "--type=merge", "-p"),
        '{"spec": {"resources": {"gpu": {"limit": 5, "quota": 5}}}}',
    ]
    assert shlex.split(second)[3] == "it's"
    assert json.loads(shlex.split(second)[-1]) == {"spec": {"resources": {"memory": {"limit": 2000}}}}


def test_the_document():
    """Everything as data; remedies with their commands, nearest domains with numbers."""
    document = document_of(explained(HELPED), HELPED.snapshot)
    assert json.loads(json.dumps(document)) == document
    assert document["verdict"] == "Infeasible"
    assert document["nearest"][0] == {
        "where": "a/r2",
        "subGroup": "",
        "what": "3 pods of 1 × nvidia.com/gpu",
        "asked": 3,
        "best": 2,
        "heldBy": [],
    }
    root = document["subGroups"][0]
    assert (root["have"], root["minimum"], root["total"], root["domain"]) == (0, 3, 3, None)
    assert [one["code"] for one in root["reasons"]] == ["InsufficientResources"]
    assert [one["kind"] for one in document["remedies"]] == ["lower"]


@pytest.mark.parametrize(("name", "shown"), [("system-node-critical", {"priority": False}), ("train", {})])
def test_a_priority_is_a_check_only_where_it_fails(name, shown):
    found = checks(planned(node("n", 1), gang(priorityClassName=name), pod("g-0")))
    assert {check: good for check, good in found.items() if check == "priority"} == shown
