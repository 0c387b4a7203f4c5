"""What the page asks: the same words as the frame beside it, and what a manifest would mean for others."""

import pytest

from muster.cli.asking import Asking
from muster.config import Config
from muster.serve.views.frame import frame_of
from small_cluster import gang, node, pod
from unit.serve.scenes import HERE, Stage

HIGH = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9}
COMING = b"""
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata: {name: top}
spec: {minMember: 1, priorityClassName: high}
---
apiVersion: v1
kind: Pod
metadata: {name: top-0, annotations: {pod-group-name: top}}
spec:
  schedulerName: kai-scheduler
  priorityClassName: high
  containers: [{resources: {requests: {nvidia.com/gpu: 1}}}]
"""


def asking(stage, **more):
    return Asking(Config(), stage.world, **more)


@pytest.mark.parametrize("decision", ["d", ""])
def test_the_explanation_says_what_the_frame_says(decision):
    """Whether somebody acts on the plan, or it was only asked."""
    stage = Stage(node("n", 4), gang(minMember=2), pod("g-0"), pod("g-1"))
    scene = stage.cycle(decision=decision)
    shown = frame_of(scene, HERE)["gangs"]["default/g"]["message"]
    said = asking(stage).explanation("default/g", scene, now=True)()
    assert said["message"] == shown
    assert ("being bound" in said["message"]) is bool(decision)


def test_who_would_go_is_told_pod_by_pod():
    stage = Stage(node("n", 2), HIGH, gang("low"), *(pod(f"low-{i}", "low", nodeName="n") for i in range(2)))
    stage.cycle()
    found = asking(stage).what_if(COMING)()
    (victim,) = found["victims"]
    assert victim == {
        "namespace": "default",
        "gang": "default/low",
        "pod": victim["pod"],
        "node": "n",
        "action": "preempt",
        "for": "default/top",
    }
    assert victim["pod"] in ("low-0", "low-1")


def test_it_says_where_an_example_belongs():
    """The namespace of what names none, and the name by which pods are muster's."""
    stage, config = Stage(), Config(scheduler_names=["muster", "kai-scheduler"])
    assert (asking(stage).home, asking(stage).scheduler) == ("default", "kai-scheduler")
    here = Asking(config, stage.world, home="mine")
    assert (here.home, here.scheduler) == ("mine", "muster")


def test_a_job_that_is_too_large_is_not_told_to_bring_its_pods():
    """The reason is said once: there would be too many."""
    job = b"""{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "big"}, "spec": {"parallelism": 9000,
        "completions": 9000, "template": {"spec": {"containers": [{}], "schedulerName": "kai-scheduler"}}}}"""
    other = b'\n---\n{"apiVersion": "x/v1", "kind": "Else", "metadata": {"name": "e"}}'
    stage = Stage(node("n", 4))
    stage.cycle()
    notes = asking(stage).what_if(job + other)()["notes"]
    assert notes[0] == "Job default/big: no pods are assumed: there would be 9,000, and 5,000 in all is the most"
    (passed,) = [note for note in notes if note.startswith("passed over: ")]
    assert passed.startswith("passed over: Else (")


def test_a_job_without_a_spec_is_told_so():
    """And not that it was passed over: its pods are made where they can be."""
    job = b'{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "bare"}}'
    stage = Stage(node("n", 4))
    stage.cycle()
    notes = asking(stage).what_if(job)()["notes"]
    assert notes[0] == "Job default/bare: no pods are assumed: it has no spec"
    assert not [note for note in notes if note.startswith("passed over: ")]
