"""Annotations and labels that have no effect where they are, and the one that muster alone writes (SPEC §4)."""

from typing import Any

import pytest

from muster.api.validation import Context, validate

E, W = "error", "warning"
POD_GROUP, QUEUE = ("scheduling.run.ai/v2alpha2", "PodGroup"), ("scheduling.run.ai/v2", "Queue")
TOPOLOGY, POD = ("kai.scheduler/v1alpha1", "Topology"), ("v1", "Pod")
SPEC = {"PodGroup": {"minMember": 1}, "Topology": {"levels": [{"nodeLabel": "zone"}]}, "Queue": {}, "Pod": {}}
OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
MEMBER = {"pod-group-name": "g"}
REQUIRED = "kai.scheduler/topology-required-placement"


def found(kind: tuple[str, str], metadata: dict[str, Any], **spec: Any) -> list[tuple[str, str, str]]:
    """What is said about the metadata."""
    document = {
        "apiVersion": kind[0],
        "kind": kind[1],
        "metadata": {"name": "x", **metadata},
        "spec": {**SPEC[kind[1]], **spec},
    }
    said = validate(document, Context()).violations
    return [(one.severity, one.path, one.hint) for one in said if one.path.startswith("metadata")]


@pytest.mark.parametrize(
    ("kind", "key", "hint"),
    [
        pytest.param(POD_GROUP, REQUIRED, "write spec.topologyConstraint.requiredTopologyLevel", id="of a workload"),
        pytest.param(POD_GROUP, "kai.scheduler/min-member.root.a", "write minMember of the SubGroup", id="with a path"),
        pytest.param(POD_GROUP, "kai.scheduler/resource-interface", "put it on the workload", id="of workloads alone"),
        pytest.param(POD_GROUP, "pod-group-name", "put it into the pod template", id="of pods"),
        pytest.param(POD_GROUP, "kai.scheduler/topologi", "did you mean kai.scheduler/topology?", id="misspelled"),
        pytest.param(POD_GROUP, "muster.dev/something-else", "remove it", id="unknown"),
        pytest.param(POD_GROUP, "kai.scheduler/kept-room", "remove it: kept room is in the status", id="kept room"),
        pytest.param(QUEUE, "kai.scheduler/queue", "it is read on workloads", id="on a Queue"),
        pytest.param(QUEUE, "kai.scheduler/allowed-namespace", "did you mean", id="misspelled on a Queue"),
        pytest.param(TOPOLOGY, "kai.scheduler/topology", "it is read on workloads", id="on a Topology"),
    ],
)
def test_an_annotation_without_effect_is_a_warning(kind: tuple[str, str], key: str, hint: str) -> None:
    """With what to write instead."""
    ((severity, path, says),) = found(kind, {"annotations": {key: "x"}})
    assert (severity, key in path) == (W, True)
    assert hint in says


@pytest.mark.parametrize(
    ("kind", "metadata"),
    [
        pytest.param(POD_GROUP, {"annotations": {"kai.scheduler/topology": "x"}}, id="on a PodGroup"),
        pytest.param(QUEUE, {"annotations": {"kai.scheduler/allowed-namespaces": "a"}}, id="on a Queue"),
        pytest.param(QUEUE, {"annotations": {"muster.dev/max-priority": "5"}}, id="of muster on a Queue"),
        pytest.param(POD_GROUP, {"annotations": {"example.com/x": "y"}, "labels": {"queue": "q"}}, id="of others"),
        pytest.param(
            POD_GROUP,
            {
                "annotations": {"kai.scheduler/top-owner-metadata": "{}", REQUIRED: "rack"},
                "labels": {"kai.scheduler/queue": "q"},
            },
            id="copied by the grouper",
        ),
        pytest.param(POD_GROUP, {"annotations": {"kai.scheduler/last-start-timestamp": "x"}}, id="a note of KAI"),
        pytest.param(POD, {"annotations": MEMBER, "labels": {"kai.scheduler/subgroup-name": "a"}}, id="on a member"),
        pytest.param(POD, {"annotations": {REQUIRED: "rack"}}, id="on a pod that the grouper looks at"),
        pytest.param(
            POD, {"annotations": {**MEMBER, REQUIRED: "rack"}, "ownerReferences": [OWNER]}, id="from a pod template"
        ),
    ],
)
def test_what_has_an_effect_is_no_warning(kind: tuple[str, str], metadata: dict[str, Any]) -> None:
    assert found(kind, metadata) == []


@pytest.mark.parametrize(
    ("metadata", "hint"),
    [
        pytest.param({"labels": MEMBER}, "write it as an annotation", id="the gang as a label"),
        pytest.param({"annotations": {"kai.scheduler/subgroup-name": "a"}}, "write it as a label", id="the leaf"),
        pytest.param({"annotations": {"kai.scheduler/queue": "q"}}, "write it as a label", id="the queue"),
        pytest.param({"annotations": {**MEMBER, REQUIRED: "rack"}}, "in the PodGroup", id="a member of a PodGroup"),
        pytest.param(
            {"annotations": MEMBER, "labels": {"kai.scheduler/queue": "q"}}, "write spec.queue", id="its queue"
        ),
    ],
)
def test_on_a_pod(metadata: dict[str, Any], hint: str) -> None:
    ((severity, _, says),) = found(POD, metadata)
    assert severity == W
    assert hint in says


def test_the_mark_of_admission_is_muster_s() -> None:
    """A manifest that has it is refused by the policy; a bound pod has it from muster."""
    mark = {"annotations": {"muster.dev/admitted": "q/u"}}
    assert [one[0] for one in found(POD, mark)] == [E]
    assert found(POD, mark, nodeName="n") == []


def test_the_mark_of_admission_is_for_pods() -> None:
    assert [one[0] for one in found(POD_GROUP, {"annotations": {"muster.dev/admitted": "q/u"}})] == [E]


def test_an_annotation_of_the_contract_that_is_not_known_yet_is_named_as_such() -> None:
    """It is no misspelling of another one."""
    ((severity, _, hint),) = found(POD_GROUP, {"annotations": {"muster.dev/hold": "later"}})
    assert (severity, "did you mean" in hint) == (W, False)
