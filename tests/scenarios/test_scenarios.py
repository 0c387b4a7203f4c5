"""Every scenario file comes out as it claims, and a file that says something nobody understands is refused."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from scenarios.format import BadScenario, load, parse
from scenarios.story import Story

FILES = sorted(Path(__file__).parent.glob("*.yaml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scenario(path):
    Story(load(path)).play()


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
