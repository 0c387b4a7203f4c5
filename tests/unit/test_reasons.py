"""What each reason does to those who read it: pods, autoscalers, events, `muster explain`, the line, the JSON document.

Each line of `EXPECTED` is written by hand from SPEC.md; no test here asks the table of reasons.
"""

from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import pytest

from muster.api.podgroup import PodGroupStatus
from muster.decisions.explanation import _checks
from muster.decisions.notes import note_of
from muster.decisions.plan import document_of
from muster.decisions.queues import is_short_of_quota, stands_in_line
from muster.decisions.signals import ACCEPTED, NO_WORDS, POD_SCHEDULED, signals_of
from muster.decisions.words import foremost, sentence, told
from muster.plan.cycle import schedule
from muster.plan.outcome import Outcomes, Plan, Reason, Verdict
from muster.snapshot.arrays import Issue
from muster.snapshot.build import Builder
from oracle.engine import world_of
from short_forms import documents_of, ns

NODES, OWN, NOTHING = "Unschedulable", "its own word", "nothing"


class Line(NamedTuple):
    """A reason: what waiting pods say, whether the event warns, which check fails, and where it is special."""

    pods: str
    warns: bool = True
    check: str = ""
    # It concerns single pods; it is only a remark; surplus with it has no place in line.
    single: bool = False
    remark: bool = False
    no_line: bool = False
    # Its numbers are counts; it is about a limit or quota.
    counts: bool = False
    quota: bool = False


# In the order of precedence.
EXPECTED = {
    "Invalid": Line(OWN, check="spec"),
    "QueueNotFound": Line(OWN, check="queue"),
    "QueueForbidden": Line(OWN, check="queue"),
    "QueueNotLeaf": Line(OWN, check="queue"),
    "QueueOrphaned": Line(OWN, check="queue"),
    "QueueCycle": Line(OWN, check="queue"),
    "QueueInvalid": Line(OWN, check="queue"),
    "PriorityNotAllowed": Line(OWN, check="priority"),
    "TopologyNotFound": Line(OWN, check="topology"),
    "LevelNotFound": Line(OWN, check="topology"),
    "PriorityClassNotFound": Line(NOTHING, remark=True),
    "Unsupported": Line(OWN, check="supported"),
    "SetAside": Line(NOTHING, single=True, remark=True),
    "NotAdmitted": Line(NOTHING, single=True, remark=True),
    "BadPod": Line(NOTHING, single=True, remark=True),
    "NotTried": Line(NOTHING, warns=False),
    "BindBackoff": Line(NOTHING),
    "Evicted": Line(NOTHING, no_line=True),
    "WaitingForPods": Line(NOTHING, warns=False, check="pods", no_line=True),
    "OverLimit": Line(OWN, check="quota", quota=True),
    "OverQuota": Line(OWN, check="quota", quota=True),
    "WaitingForQuota": Line(NOTHING, warns=False, check="quota", quota=True),
    "TopologyDrift": Line(NOTHING, check="room"),
    "InsufficientResources": Line(NODES, check="room", counts=True),
    "NotEnoughInDomain": Line(NODES, check="room", counts=True),
    "TopologyFragmented": Line(NODES, check="room", counts=True),
    "NoArrangement": Line(NODES, check="room"),
    "SearchBudgetSpent": Line(NOTHING, check="room"),
    "WaitingForRoom": Line(NOTHING, warns=False, check="room", no_line=True),
    "SchedulerError": Line(NOTHING, check="room"),
    "StaysInQueue": Line(NOTHING, remark=True),
    "StaysPreemptible": Line(NOTHING, remark=True),
}
WORDS = list(EXPECTED)


class Told:
    """A gang of two pods that waits, or has its minimum, for given reasons."""

    def __init__(self, *reasons: Reason, verdict: Verdict = Verdict.HELD, noted: str = "") -> None:
        things = {
            "nodes": [{"name": "n", "gpus": 1}],
            "queues": {"q": {"quota": 1, "limit": 1}},
            "gangs": {"g": {"minMember": 2, "queue": "q"}},
            "pods": [{"gang": "g", "name": "g-0"}, {"gang": "g", "name": "g-1"}],
        }
        documents = documents_of(things)
        for document in documents:
            document["metadata"].setdefault("uid", f"uid-{document['metadata']['name']}")
        self.world = world_of(documents)
        plan, _ = schedule(Builder(self.world).build(ns(0)))
        if noted:
            gang = replace(plan.snapshot.gangs[0], notes=(Issue(noted, 0, "detail", "g-0"),))
            plan = replace(plan, snapshot=replace(plan.snapshot, gangs=(gang,)))
        outcome = replace(
            plan.outcomes[0], verdict=verdict, satisfied=verdict is Verdict.PLACED, reasons=reasons, proof=None
        )
        self.plan: Plan = replace(plan, outcomes=Outcomes(1, {0: outcome}, plan.outcomes.__getitem__))
        self.gang, self.outcome = self.plan.snapshot.gangs[0], outcome

    def conditions(self, kind: str) -> set[str]:
        """The reasons of conditions of that type that its pods get."""
        signals = signals_of(self.plan, 0, self.world, NO_WORDS)
        return {one.reason for signal in signals for one in signal.put if one.type == kind}


@pytest.mark.parametrize("word", WORDS)
def test_what_waiting_pods_say(word):
    wanted = {NODES: {"Unschedulable"}, OWN: {word}, NOTHING: set()}[EXPECTED[word].pods]
    assert Told(Reason(word, 0, 2, 1)).conditions(POD_SCHEDULED) == wanted
    surplus = Told(Reason(word, 0, 2, 1, surplus=True), verdict=Verdict.PLACED).conditions(POD_SCHEDULED)
    assert surplus == ({"Unschedulable"} if EXPECTED[word].pods == NODES else set())


@pytest.mark.parametrize("word", WORDS)
def test_what_a_single_pod_is_told(word):
    assert Told(noted=word).conditions(ACCEPTED) == ({word} if EXPECTED[word].single else set())


@pytest.mark.parametrize("word", WORDS)
def test_whether_an_event_warns(word):
    note = note_of(PodGroupStatus(phase="Pending", reason="x"), PodGroupStatus(phase="Pending", reason=word))
    assert (note.kind, note.reason) == ("Warning" if EXPECTED[word].warns else "Normal", word)


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("verdict", [Verdict.INFEASIBLE, Verdict.UNDECIDED], ids=lambda one: one.value)
def test_which_check_fails(word, verdict):
    """All other checks are good, or not reached."""
    made = Told(Reason(word, 0, 2, 1), verdict=verdict)
    failed = [check.name for check in _checks(made.gang, made.outcome, made.plan) if check.good is False]
    # Whether enough pods are there is counted.
    assert failed == ([EXPECTED[word].check] if EXPECTED[word].check not in ("", "pods") else [])


def test_the_checks_stand_in_their_order():
    made = Told(Reason("PriorityNotAllowed"))
    names = [check.name for check in _checks(made.gang, made.outcome, made.plan)]
    assert names == ["spec", "queue", "priority", "topology", "supported", "pods", "quota", "room"]


@pytest.mark.parametrize("word", WORDS)
def test_whether_surplus_stands_in_line(word):
    made = Told(Reason(word, surplus=True), verdict=Verdict.PLACED)
    assert stands_in_line(made.outcome) == (not EXPECTED[word].no_line)
    assert is_short_of_quota(made.outcome) == EXPECTED[word].quota


def test_the_order_of_precedence():
    made = Told(*(Reason(word) for word in reversed(WORDS)))
    assert [one.reason.code for one in told(made.outcome)] == WORDS
    for first, second in pairwise(WORDS):
        both = Told(Reason(second), Reason(first)).outcome
        assert [one.reason.code for one in told(both)] == [first, second]


@pytest.mark.parametrize("word", WORDS)
def test_a_remark_is_no_obstacle(word):
    """With another reason beside it, a remark is not shown first; where pods are missing, a single pod may be why."""
    other = "WaitingForRoom" if word == "SchedulerError" else "SchedulerError"
    first = foremost(Told(Reason(word), Reason(other)).outcome)
    expected = other if EXPECTED[word].remark or WORDS.index(other) < WORDS.index(word) else word
    assert first.reason.code == expected
    # Beside surplus that waits, an obstacle comes first, and a remark where its precedence puts it.
    beside = foremost(Told(Reason(word), Reason("Invalid", surplus=True)).outcome).reason
    assert (beside.code, beside.surplus) == (("Invalid", True) if EXPECTED[word].remark else (word, False))
    if word != "WaitingForPods":
        missing = foremost(Told(Reason(word), Reason("WaitingForPods")).outcome).reason.code
        early = WORDS.index(word) < WORDS.index("WaitingForPods")
        assert (missing == word) == (early and (EXPECTED[word].single or not EXPECTED[word].remark))


@pytest.mark.parametrize("word", WORDS)
def test_the_numbers_of_the_document(word):
    made = Told(Reason(word, 0, 2 * 20160, 20160, queue=0, charge=2, total=20160))
    (found,) = document_of(made.plan)["podGroups"][0]["reasons"]
    line = EXPECTED[word]
    if line.quota:
        assert (found["asked"], found["best"], found["where"]) == (2, 1, "q")
    elif line.counts or word == "WaitingForPods":
        assert (found["asked"], found["best"], found["where"]) == (2 * 20160, 20160, None)
    else:
        assert (found["asked"], found["best"], found["where"]) == (None, None, None)


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("Invalid", "the PodGroup is invalid · D · mend it; muster validate says everything about it"),
        (
            "QueueForbidden",
            "the queue q takes no gangs of the namespace default · add it to the annotation "
            "kai.scheduler/allowed-namespaces of the Queue, or use another queue",
        ),
        ("TopologyNotFound", "D · create it, or name another in topologyConstraint.topology"),
        ("LevelNotFound", "D · name one of its levels by label, alias or the label's last part"),
        (
            "PriorityClassNotFound",
            "the PriorityClass D does not exist · the default counts instead · create it, or name another in "
            "spec.priorityClassName",
        ),
        ("BadPod", "the pod P can't be read: D (and 3 more) · it is not placed · mend its requests"),
        ("BindBackoff", "binding pods of the gang failed: D · it is tried again after a while"),
        (
            "TopologyDrift",
            "placed pods of the gang lie in 7 domains where one  is required · nothing is added there · delete the "
            "pods outside one ; they come back inside it",
        ),
        (
            "StaysInQueue",
            "queue q admitted the gang and is charged for it; the spec names queue D · it moves when none of its pods "
            "runs any more",
        ),
        (
            "StaysPreemptible",
            "the gang is preemptible, as it was admitted; the spec says D · the quota of queue q has no place for it · "
            "it counts when the quota has place",
        ),
    ],
)
def test_its_sentence(word, says):
    made = Told()
    found = sentence(Reason(word, 0, best=7, detail="D", pod="P"), made.gang, made.plan.snapshot, 3)
    assert found == " ".join(says.split())
