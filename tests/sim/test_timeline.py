"""A story in sentences: what belongs together is one of them, in the order in which it happened."""

import pytest

from muster.sim.loading import parse
from muster.sim.play import play
from muster.sim.report import Figures, report_of
from muster.sim.timeline import FAULT, JUDGE, MUSTER, PEOPLE, PROCESS, Timeline

STORY = """
claim: c
nodes: [{name: n, count: 2, gpus: 2}]
documents: [{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 90}]
queues: {q: {quota: 4}}
workloads: {low: {gang: {minMember: 1, queue: q}, pods: {"": 4}, grace: 3}}
happens:
  - {at: 5, says: somebody important comes, workloads: {high: {gang: {minMember: 2, queue: q, priorityClassName: high}, pods: {"": 2}}}}
  - {at: 15, crash: [0]}
  - {at: 25, finish: ["high-*"]}
  - {at: 30, cordon: [n-0], delete: [workload/low]}
faults: [{point: event, does: refuse, code: 500, until: 4}]
lasts: 40
"""  # noqa: E501


class Told:
    def __init__(self) -> None:
        self.entries, self.figures = [], Figures()
        timeline = Timeline(self.entries.append)

        def follow(*change):
            timeline.change(*change)
            self.figures.change(*change)

        story = parse(STORY.encode())
        self.outcome = play(story, see=timeline.line, follow=follow)
        timeline.end()
        self.figures.end(self.outcome.virtual_s)
        self.report = report_of(story, self.outcome, self.figures)
        self.what = [one.what for one in self.entries]


@pytest.fixture(scope="module")
def told():
    return Told()


def test_it_is_told_in_its_order(told):
    times = [one.at_s for one in told.entries]
    assert times == sorted(times)


def test_binds_of_a_gang_are_one_sentence(told):
    bound = next(one for one in told.entries if one.gang == "default/low" and one.deed == "bind")
    assert bound.what == "gang default/low: 4 pods are bound on n-0 ×2, n-1 ×2"
    assert bound.kind == MUSTER


def test_evictions_tell_who_goes_for_whom(told):
    assert any("gang default/low: 2 pods are evicted: low-" in what for what in told.what)
    assert "gang default/low: 2 pods evicted: to make room for default/high (preempt)" in told.what
    assert any("gang default/high: 2 pods are promised room on" in what for what in told.what)


def test_states_are_told_with_their_reasons_when_they_change(told):
    assert "gang default/low is Scheduled 4/1/4" in told.what
    assert any(what.startswith("gang default/high is Pending 0/2/2: WaitingForRoom (") for what in told.what)
    assert any("gang default/high is Completed" in what for what in told.what)


def test_people_processes_faults_and_the_judge_are_heard(told):
    kinds = {(one.kind, one.what) for one in told.entries}
    assert (PEOPLE, "there comes: Node ×2, Queue, PriorityClass") in kinds
    assert (PEOPLE, "somebody important comes") in kinds
    assert (PEOPLE, "node n-0 is cordoned") in kinds
    assert (PROCESS, "crashes") in kinds
    assert (JUDGE, "from now on nothing goes wrong") in kinds
    assert any(kind == FAULT and what.startswith("event refuse") for kind, what in kinds)


def test_figures_of_gangs(told):
    high, low = told.report["gangs"]
    assert (high["name"], high["placed"], high["bound"], high["evicted"]) == ("default/high", 1, 2, 0)
    assert 3 <= high["waited"] <= 6
    assert (low["evicted"], low["phase"], low["belowMinimum"]) == (2, "Gone", 0)
    assert low["bound"] >= 4


def test_figures_of_queues_and_counts(told):
    allocated = [one["allocated"] for one in told.report["queues"]["q"]]
    assert max(allocated) == 4
    assert allocated[-1] == 0
    assert told.report["holds"]
    assert told.report["faults"]["event refuse"] >= 1
    assert told.report["counts"]["sent evict"] == 2
    assert told.report["digest"] == told.outcome.digest


def test_who_listens_changes_nothing(told):
    assert play(parse(STORY.encode())).digest == told.outcome.digest
