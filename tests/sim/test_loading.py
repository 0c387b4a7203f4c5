"""Files become stories, and what is wrong with one is said; a scenario is played in as many takes as it needs."""

import msgspec
import pytest

from muster.errors import UsageError
from muster.sim.drawing import story_of
from muster.sim.loading import NEVER_S, load, parse, takes, write
from muster.sim.scenario import BadScenario, Expected

STORY = b"""
claim: c
nodes: [{name: n, count: 2, gpus: 1}]
workloads: {g: {gang: {minMember: 2}, pods: {"": 2}, runFor: 5}}
happens: [{at: 3, pause: {"0": 4.5}, break: ["g-*"]}]
faults: [{point: bind, does: lose, nth: 1}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: behind}
"""


def test_a_story_is_read_with_the_documents_behind_it():
    story = parse(STORY)
    assert story.workloads["g"].run_for == 5
    assert story.happens[0].pause == {0: 4.5}
    assert story.happens[0].break_ == ["g-*"]
    assert [one["kind"] for one in story.documents] == ["ConfigMap"]


@pytest.mark.parametrize("seed", range(0, 40, 7))
def test_a_story_that_is_written_is_the_same_when_read(seed):
    assert parse(write(story_of(seed)).encode()) == story_of(seed)


@pytest.mark.parametrize(
    ("right", "wrong", "words"),
    [
        (b"claim:", b"clam:", "clam"),
        (b"does: lose", b"does: sing", "sing"),
        (b"runFor: 5", b"runFor: soon", "workloads"),
        (b"count: 2", b"count: 200000", "200,000 nodes"),
        (b"at: 3", b"at: -3", "below 0"),
        (b"at: 3", b"at: 3e9", "3,000,000,000"),
        (b"claim: c", b"claim: c\nprocesses: 0", "no process"),
        (b"claim: c", b"claim: c\nprocesses: 99", "99 processes"),
        (b"claim: c", b"claim: c\nhistory: {h: {created: 1}}", "history of ['h']"),
        (b'{"0": 4.5}', b"{0: 4.5}", "not text"),
        (b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: behind}", b"text", "no object"),
        (b"gang: {minMember: 2}", b"gang: {minMember: 2}}", "not YAML"),
    ],
)
def test_what_is_wrong_is_said(right, wrong, words):
    with pytest.raises(BadScenario) as found:
        parse(STORY.replace(right, wrong), "story.yaml")
    assert words in found.value.message
    assert "story.yaml" in found.value.message


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(UsageError, match="no-such-file"):
        load(tmp_path / "no-such-file.yaml")


SCENARIO = """
claim: c
why: w
nodes: [{name: n, gpus: 4}]
gangs: {g: {minMember: 1}, h: {minMember: 1}}
pods: [{gang: g}]
steps:
  - expect: {bindings: 1}
  - {bind: true, expect: {bindings: 0, gangs: {g: {verdict: Placed}}}}
  - {apply: {pods: [{gang: h}]}, expect: {bindings: 1}}
  - {apply: {pods: [{gang: h, name: more}]}, delete: [pod/g], expect: {bindings: 2}}
"""


def test_a_step_whose_plan_before_was_not_carried_out_has_a_take_of_its_own():
    found = takes(parse(SCENARIO.encode()))
    assert [take.numbers for take in found] == [[1, 2, 3], [1, 2, 4]]
    first, second = (take.story.steps for take in found)
    assert [step.expect.bindings for step in first] == [1, 0, 1]
    # The third step and the fourth come at once, and only the fourth is judged.
    assert [step.expect == Expected() for step in second] == [True, True, False]
    assert [pods.name for pods in second[2].apply.pods] == ["", "more"]
    assert second[2].delete == ["pod/g"]


def test_who_is_told_to_go_in_a_scenario_stays_until_a_step_says_so():
    (take, *_) = takes(parse(SCENARIO.encode()))
    assert take.story.pods[0].spec == {"terminationGracePeriodSeconds": NEVER_S}
    assert take.story.lasts == 0


def test_a_story_with_happenings_is_played_as_it_is():
    story = parse(STORY)
    (take,) = takes(msgspec.structs.replace(story, steps=parse(SCENARIO.encode()).steps))
    assert take.numbers == [1, 2, 3, 4]
    assert take.story.lasts == 120
