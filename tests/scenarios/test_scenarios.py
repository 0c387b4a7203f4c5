"""Every scenario file comes out as it claims, and a file that says something nobody understands is refused."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from muster.plan.cycle import schedule
from muster.plan.outcome import Eviction
from muster.sim.scenario import BadScenario, load, parse
from scenarios.story import Story

FILES = sorted(Path(__file__).parent.glob("*.yaml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scenario(path):
    Story(load(path)).play()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_it_comes_to_rest(path):
    """Carried out again and again, every story ends: ten cycles that evict nobody and change nothing."""
    story = Story(load(path))
    story.play()
    story.rest()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_file_name_is_the_claim(path):
    words = "".join(letter if letter.isalnum() else " " for letter in load(path).claim.lower().replace("'", ""))
    assert path.stem == "-".join(words.split())


def test_the_oracle_looks_at_most_of_them():
    """A check that is always skipped finds nothing: of the files with a required level nearly all are judged."""
    judged = {}
    for path in FILES:
        if "requiredTopologyLevel" in path.read_text():
            story = Story(load(path))
            story.play()
            judged[path.stem] = story.judged
    assert sum(map(bool, judged.values())) >= 0.8 * len(judged)


def test_the_oracle_looks_at_most_evictions():
    """Of the files in which somebody is evicted, nearly all are judged by the oracle too."""
    judged = {}
    for path in FILES:
        if "evictions: [" in path.read_text():
            story = Story(load(path))
            story.play()
            judged[path.stem] = story.judged_evictions
    assert sum(map(bool, judged.values())) >= 0.9 * len(judged)


# Two gangs that no order satisfies: as soon as one runs, somebody takes its node away and gives it to the other.
FIGHT = b"""
claim: c
why: w
nodes: [{name: n, gpus: 1}]
gangs: {a: {minMember: 1}, b: {minMember: 1}}
pods: [{gang: a, on: n}, {gang: b}]
steps: [{expect: {evictions: 0}}]
"""


def test_a_story_that_does_not_rest_is_found_out(monkeypatch):
    """A plan that evicts whoever runs is told by the names of those who go and come."""
    story = Story(parse(FIGHT))
    story.play()
    story.rest()

    def restless(snapshot, *_):
        plan, memory = schedule(snapshot)
        going = [(number, leaf) for number, gang in enumerate(snapshot.gangs) for leaf in gang.placed]
        return replace(plan, evictions=tuple(Eviction(*one, 0, "stale") for one in going)), memory

    monkeypatch.setattr("scenarios.story.schedule", restless)
    monkeypatch.setattr(Story, "wrong", lambda *_, **__: [])
    with pytest.raises(AssertionError, match=r"again and again: a \(\d+ times\)"):
        story.rest()


def test_a_plan_is_carried_out_as_the_world_would():
    """Binds, evictions and statuses: what the next cycle reads is what muster, kubelets and controllers wrote."""
    story = Story(parse(CARRIED))
    story.play()
    pods = {key[2]: document for key, document in story.documents.items() if key[0] == "Pod"}
    assert set(pods) == {"high", "low.2"}
    assert pods["high"]["status"] == {"nominatedNodeName": "n"}
    assert "nodeName" not in pods["low.2"]["spec"]
    assert pods["low.2"]["metadata"]["creationTimestamp"] == "2026-01-01T01:00:05Z"
    status = story.documents["PodGroup", "default", "high"]["status"]
    (condition,) = [one for one in status["conditions"] if one["type"] == "Scheduled"]
    assert (condition["status"], condition["reason"]) == ("False", "WaitingForRoom")
    assert condition["lastTransitionTime"] == "2026-01-01T01:00:00Z"
    assert "startTime" not in status
    story.rest()
    status = story.documents["PodGroup", "default", "high"]["status"]
    assert status["startTime"] == "2026-01-01T01:00:05Z"
    assert [row["core"] for row in status["subGroups"]] == [True]


CARRIED = b"""
claim: c
why: w
nodes: [{name: n, gpus: 1}]
gangs: {low: {minMember: 1}, high: {minMember: 1, priorityClassName: train}}
pods: [{gang: low, on: n}, {gang: high}]
steps:
  - expect: {evictions: 1}
  - {now: 5, bind: true, gone: true, expect: {bindings: 1, evictions: 0}}
"""


RACKS = b"""
claim: c
why: w
topologies: {dc: [zone, rack]}
nodes: [{name: a, count: 2, zone: z, rack: r1, gpus: 1}, {name: b, count: 2, zone: z, rack: r2, gpus: 1}]
gangs: {g: {minMember: 2, topologyConstraint: {topology: dc, requiredTopologyLevel: rack}}}
pods: [{gang: g, count: 2}]
steps: [{expect: {bindings: 2}}]
"""


@pytest.mark.parametrize(
    ("nodes", "says"),
    [
        pytest.param((0, 1), "", id="right"),
        pytest.param((0, 2), "lie in", id="two racks"),
        pytest.param((0, 0), "not enough", id="one node twice"),
    ],
)
def test_the_oracle_has_teeth(nodes, says):
    """A plan that was tampered with is found out, whatever the file expects."""
    story = Story(parse(RACKS))
    story.play()
    (placement,) = story.plan.placements
    story.plan = replace(story.plan, placements=(placement._replace(nodes=nodes),))
    faults = [fault for gang in story.plan.snapshot.gangs for fault in story._faults(gang)]
    assert bool(faults) == bool(says)
    assert any(says in fault for fault in faults) or not says


def test_another_process_plans_the_same():
    """Whatever Python's hashes are: the same snapshot always gives the same plan (SPEC §5.6)."""
    told = []
    for seed in ("1", "2"):
        command = [sys.executable, "-m", "scenarios.digest"]
        done = subprocess.run(
            command, cwd=Path(__file__).parents[1], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        told.append(done.stdout)
    assert told[0] == told[1]
    assert len(json.loads(told[0])) >= len(FILES)


GOOD = b"""
claim: c
why: w
nodes: [{name: n, gpus: 1}]
gangs: {g: {minMember: 1}}
pods: [{gang: g, count: 1}]
steps: [{expect: {gangs: {g: {verdict: Placed}}, bindings: 1}}]
"""


def test_a_good_scenario_passes_and_a_wrong_expectation_does_not():
    Story(parse(GOOD)).play()
    with pytest.raises(AssertionError, match="verdict"):
        Story(parse(GOOD.replace(b"Placed", b"Infeasible"))).play()
    with pytest.raises(AssertionError, match="bindings"):
        Story(parse(GOOD.replace(b"bindings: 1", b"bindings: 2"))).play()


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        pytest.param(b"claim:", b"clam:", id="header"),
        pytest.param(b"gpus:", b"gpu:", id="node"),
        pytest.param(b"count:", b"cuont:", id="pod"),
        pytest.param(b"expect:", b"expects:", id="step"),
        pytest.param(b"verdict:", b"Verdict:", id="expectation"),
        pytest.param(b"bindings: 1", b"bindings: many", id="type"),
        pytest.param(b"why: w", b"why: w\nqueues: {a: {qouta: 1}}", id="queue"),
        pytest.param(b"why: w", b"why: w\nhistory: {h: {created: 1}}", id="history of nobody"),
        pytest.param(b"bindings: 1", b"evictions: [{pods: p, acton: stale}]", id="eviction"),
        pytest.param(b"steps: [{expect: {gangs: {g: {verdict: Placed}}, bindings: 1}}]", b"steps: []", id="no steps"),
        pytest.param(b"why: w", b"why: w\nwhy: x", id="twice"),
    ],
)
def test_a_misspelled_key_fails_loudly(right, wrong):
    with pytest.raises(BadScenario):
        parse(GOOD.replace(right, wrong))


def test_deleting_what_is_not_there_fails():
    scenario = parse(GOOD.replace(b"steps: [{", b"steps: [{delete: [pod/nobody], "))
    with pytest.raises(AssertionError, match="nobody"):
        Story(scenario).play()
