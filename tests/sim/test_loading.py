"""Files become stories, and what is wrong with one is said; a scenario is played in as many takes as it needs."""

import re
from typing import get_args

import msgspec
import pytest

from muster.errors import UsageError
from muster.sim.drawing import story_of
from muster.sim.loading import NEVER_S, check, load, parse, takes, write
from muster.sim.play import play
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
        (b"claim: c", b"claim: c\nlatency: 1000", "1,000.0 seconds of latency are more than the 1 that can be played"),
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
        (b"claim: c", b"claim: c\nhistory: {h: {created: 1}}", "history or keep of h, which"),
        (b'{"0": 4.5}', b"{0: 4.5}", "not text"),
        (
            b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: behind}",
            b"text",
            "document 2: is not a Kubernetes object",
        ),
        (b"kind: ConfigMap", b"claim: b", "document 2: kind is missing"),
        (b"gang: {minMember: 2}", b"gang: {minMembr: 2}", "workloads.g.gang: minMembr is not a known field"),
        (b"gang: {minMember: 2}", b'gang: {minMember: "2"}', "workloads.g.gang: minMember must be a whole number"),
        (b"gang: {minMember: 2}", b"gang: {minMember: 2}}", "not YAML"),
    ],
)
def test_what_is_wrong_is_said(right, wrong, words):
    with pytest.raises(BadScenario) as found:
        parse(STORY.replace(right, wrong), "story.yaml")
    assert words in found.value.message
    assert "story.yaml" in found.value.message


POD = "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{}]}}"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("documents: [{a: b}]", "documents[0]: apiVersion is missing"),
        ("documents: [{apiVersion: v1, kind: 5}]", "documents[0]: kind is missing or not text"),
        ("documents: [{apiVersion: v1, kind: Pod}]", "documents[0]: metadata is missing"),
        ("documents: [{apiVersion: v1, kind: Node, metadata: 5}]", "documents[0]: metadata is missing or no mapping"),
        ("documents: [{apiVersion: v1, kind: Node, metadata: {name: 5}}]", "documents[0]: metadata.name is missing"),
        ("documents: [{apiVersion: v1, kind: Pod, metadata: {name: p}}]", "documents[0]: spec is missing"),
        (f"documents: [{POD.replace('[{}]', '4')}]", "documents[0]: spec.containers is missing or no list"),
        (f"documents: [{POD.replace('{}', '{resources: 5}')}]", "spec.containers[0].resources must be a mapping"),
        (f"documents: [{POD.replace('name: p', 'name: p, ownerReferences: [3]')}]", "ownerReferences must be a list"),
        (f"documents: [{POD.replace('name: p', 'name: p, creationTimestamp: soon')}]", '"soon" is no time'),
        (f"documents: [{POD.replace('name: p', 'name: p, namespace: 5')}]", "metadata.namespace must be text"),
        ("documents: [{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: p}}]", "spec is missing"),
        ("documents: [{apiVersion: v1, kind: Node, metadata: {name: n}, status: 7}]", "status must be a mapping"),
        ("documents: [{apiVersion: v1, kind: List, items: [1]}]", "documents[0]: a List is no object"),
        (
            "documents: [{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: "
            "podgroups.scheduling.run.ai}}]",
            "podgroups.scheduling.run.ai is there already",
        ),
        ("pods: [{name: p, spec: {containers: 4}}]", "pods[0]: spec.containers is missing or no list"),
        ("pods: [{name: p, age: 3600}]", "$.pods[0].age"),
        ("pods: [{name: p, started: 100000000000000}]", "$.pods[0].started"),
        ("pods: [{name: p, count: -3}]", "$.pods[0].count"),
        ("gangs: {g: {minMembr: 1}}", "gangs.g: minMembr is not a known field"),
        ("gangs: {g: {subGroups: [5]}}\nhistory: {g: {core: [x]}}", "gangs.g: subGroups[0] must be a mapping"),
        ("steps: [{apply: {documents: [{a: b}]}}]", "steps[0].apply.documents[0]: apiVersion is missing"),
        ("happens: [{at: 1, apply: {documents: [{a: b}]}}]", "happens[0].apply.documents[0]: apiVersion is missing"),
        ("happens: [{at: 1, workloads: {w: {gang: {size: 1}}}}]", "happens[0].workloads.w.gang: size is not a known"),
        ("happens: [{at: 1, delete: [customresourcedefinition/x]}]", "happens[0].delete[0]: the kinds of the cluster"),
        (
            "happens: [{at: 1, change: {podgroup/g: {spec: {minMembr: 1}}}}]",
            "change.podgroup/g: spec.minMembr is not a",
        ),
        ("happens: [{at: 1, change: {customresourcedefinition/x: {}}}]", "the kinds of the cluster stay as they are"),
    ],
)
def test_an_object_that_nobody_could_play_is_told_when_the_story_is_read(line, words):
    with pytest.raises(BadScenario) as found:
        parse(f"claim: c\n{line}\n".encode(), "story.yaml")
    assert words in found.value.message
    assert found.value.message.startswith("story.yaml: ")
    assert found.value.hint


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("happens: [{at: 1, crash: [7]}]", "happens[0].crash: there is no process 7"),
        ("happens: [{at: 1, stop: [-1]}]", "happens[0].stop: there is no process -1"),
        (
            'processes: 2\nhappens: [{at: 1, start: [1]}, {at: 1, pause: {"2": 4}}]',
            "happens[1].pause: there",
        ),
        ('happens: [{at: 1, jump: {"1": 4}}]', "happens[0].jump: there is no process 1"),
        ("faults: [{point: bind, does: lose, process: 4}]", "faults[0].process: there is no process 4"),
    ],
)
def test_a_file_with_a_claim_names_only_processes_that_there_are(line, words):
    with pytest.raises(BadScenario, match=re.escape(words)):
        parse(f"claim: c\n{line}\n".encode(), "story.yaml")
    assert parse(f"why: a seed\n{line}\n".encode())


def test_a_file_with_a_claim_cuts_only_watches_of_kinds_that_there_are():
    line = "lasts: 2\nhappens: [{at: 1, cut: [pods]}, {at: 1, cut: [nosuch]}]"
    with pytest.raises(BadScenario, match=re.escape("happens[1].cut: no kind has the plural nosuch")):
        play(parse(f"claim: c\n{line}".encode()))
    assert play(parse(line.encode())).counts["requests"]


def test_nothing_where_a_list_or_a_mapping_may_be_is_none_of_them():
    pod = POD.replace("[{}]", "[{resources: null}]").replace("name: p", "name: p, ownerReferences: null, labels: null")
    node = "{apiVersion: v1, kind: Node, metadata: {name: n}, status: {conditions: null, allocatable: null}}"
    change = "happens: [{at: 1, change: {podgroup/g: {spec: null}}}]"
    data = f"claim: c\nworkloads: {{g: {{gang: {{}}}}}}\ndocuments: [{node}, {pod}]\n{change}\nlasts: 2"
    assert play(parse(data.encode())).counts["events"]


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
