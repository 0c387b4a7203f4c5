"""Files become stories, and what is wrong with one is said; a scenario is played in as many takes as it needs."""

from typing import get_args

import msgspec
import pytest

from muster.errors import UsageError
from muster.sim.drawing import story_of
from muster.sim.loading import NEVER_S, check, load, parse, takes, write
from muster.sim.scenario import BadScenario, Expected
from muster.sim.story import STRIKES, Does, Point

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
        (b"does: lose", b"does: cut", "faults[0]: nothing can cut at bind"),
        (b"does: lose", b"does: refuse", "faults[0]: refuse with code 0"),
        (b"does: lose", b"does: swallow, code: 1", "faults[0]: swallow with code 1"),
        (b"runFor: 5", b"runFor: soon", "workloads"),
        (b"count: 2", b"count: 200000", "200,000 nodes"),
        (b"at: 3", b"at: -3", "Expected `float` >= 0.0 - at `$.happens[0].at`"),
        (b"at: 3", b"at: .nan", "at `$.happens[0].at`"),
        (b"at: 3", b"at: 121", "happens[0].at: 121 is after the end of the story (lasts: 120)"),
        (b"claim: c", b"claim: c\nlasts: -1", "at `$.lasts`"),
        (b"claim: c", b"claim: c\nlatency: -1", "at `$.latency`"),
        (b"nth: 1", b"nth: 0", "Expected `int` >= 1 - at `$.faults[0].nth`"),
        (b"nth: 1", b"chance: 7", "Expected `float` <= 1.0 - at `$.faults[0].chance`"),
        (b"nth: 1", b"chance: -1", "at `$.faults[0].chance`"),
        (b"nth: 1", b"since: 5, until: 5", "faults[0]: until 5 is not after since 5"),
        (b"runFor: 5", b"runFor: 5, pace: -1", "`$.workloads[...].pace`"),
        (b'pods: {"": 2}', b'pods: {"": -2}', "at `$.workloads[...].pods[...]`"),
        (b'pause: {"0": 4.5}', b'jump: {"0": .nan}', "at `$.happens[0].jump[...]`"),
        (b"claim: c", b"claim: c\nclaim: d", 'story.yaml: document 1: claim: the key "claim" stands twice'),
        (b"at: 3", b"at: 3e9", "3,000,000,000"),
        (b"claim: c", b"claim: c\nprocesses: 0", "Expected `int` >= 1 - at `$.processes`"),
        (b"claim: c", b"claim: c\nprocesses: 99", "99 processes"),
        (b"claim: c", b"claim: c\nhistory: {h: {created: 1}}", "history of h, which"),
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


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "story.yaml: is empty"),
        (b"# nothing\n---\n", "story.yaml: is empty"),
        (b"\xff\xfe\x00", "story.yaml: "),
        (b"apiVersion: v1\nkind: Pod\nmetadata: {name: p}", "story.yaml: begins with a Pod, an object of Kubernetes"),
    ],
    ids=["empty", "empty documents", "no text", "a manifest"],
)
def test_a_file_that_is_no_story_at_all(data, words):
    with pytest.raises(BadScenario) as found:
        parse(data, "story.yaml")
    assert found.value.message.startswith(words)


@pytest.mark.parametrize("point", get_args(Point))
def test_a_fault_is_one_that_can_happen_there(point):
    """Of every other one the error names those that can; of each code it is said which make sense."""
    may = STRIKES[point]
    assert may
    for does in get_args(Does):
        code = {"refuse": 503, "crash": 1}.get(does, 0)
        text = f"faults: [{{point: {point}, does: {does}, code: {code}}}]".encode()
        if does in may:
            assert parse(text).faults[0].does == does
            continue
        with pytest.raises(BadScenario, match=f"nothing can {does} at {point}") as found:
            parse(text)
        assert found.value.hint == f"there: {', '.join(may)}"


def test_all_that_is_drawn_can_happen():
    for seed in range(500):
        check(story_of(seed))


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
