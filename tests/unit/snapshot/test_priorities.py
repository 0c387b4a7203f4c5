"""Which priority of a gang counts (SPEC §14): where it is, what its pods carry, what its queue admits."""

import pytest

from muster.api.kinds import Kind, kind_of, read_object
from muster.api.priorities import Priorities
from muster.snapshot.build import Builder
from oracle.engine import world_of
from oracle.instances import group, node, pod

CRITICAL, TOP = "system-node-critical", 2_000_001_000


def gang_with(*documents, namespaces=("kube-system",)):
    builder = Builder(world_of(list(documents)), priorities=Priorities(system_namespaces=list(namespaces)))
    (gang,) = builder.build(0).gangs
    return gang


def placed_in(namespace, document):
    return {**document, "metadata": {**document["metadata"], "namespace": namespace}}


def carrying(name, document):
    return {**document, "spec": {**document["spec"], "priorityClassName": name}}


def said(gang):
    return [(one.code, one.detail, one.pod, one.asked, one.most) for one in gang.held]


def class_of(name, value, *, usual=False):
    metadata = {"name": name}
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": metadata,
        "value": value,
        "globalDefault": usual,
    }


def queue_with(most, name="q"):
    metadata = {"name": name, "annotations": {"muster.dev/max-priority": most}}
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": metadata, "spec": {}}


@pytest.mark.parametrize(
    ("namespace", "namespaces", "classes", "issue"),
    [
        pytest.param("kube-system", ["kube-system"], [CRITICAL, CRITICAL], None, id="allowed, and every pod has it"),
        pytest.param("team", ["kube-system"], [CRITICAL, CRITICAL], "", id="a namespace of a tenant"),
        pytest.param("team", ["team", "lab"], [CRITICAL, CRITICAL], None, id="by the configuration"),
        pytest.param("kube-system", [], [CRITICAL, CRITICAL], "", id="nowhere"),
        pytest.param("kube-system", ["kube-system"], [CRITICAL, ""], "p1", id="a pod has none"),
        pytest.param(
            "kube-system", ["kube-system"], ["system-cluster-critical", CRITICAL], "p0", id="a pod has another"
        ),
    ],
)
def test_a_system_class(namespace, namespaces, classes, issue):
    """Otherwise the gang is held, and what counts of it is the default: so it is preemptible, too."""
    pods = [carrying(name, pod(f"p{at}")) for at, name in enumerate(classes)]
    documents = [group(minMember=2, priorityClassName=CRITICAL), *pods]
    gang = gang_with(node("n", 8), *(placed_in(namespace, one) for one in documents), namespaces=namespaces)
    assert said(gang) == ([] if issue is None else [("PriorityNotAllowed", CRITICAL, issue, 0, None)])
    assert gang.priority == (TOP if issue is None else 0)
    assert gang.is_firm == (issue is None)


@pytest.mark.parametrize(
    ("phase", "terminating", "counts"),
    [("Succeeded", False, False), ("Failed", False, False), ("", True, False), ("", False, True)],
)
def test_pods_that_are_over_are_not_asked(phase, terminating, counts):
    documents = [
        group(minMember=1, priorityClassName=CRITICAL),
        carrying(CRITICAL, pod("p")),
        pod("other", on="n", phase=phase, terminating=terminating),
    ]
    gang = gang_with(node("n", 8), *documents, namespaces=["default"])
    assert bool(gang.held) == counts


def test_the_number_of_a_pod_is_not_believed():
    """What admission writes there may stand in a file or come from an API server that does not ask."""
    one = pod("p")
    gang = gang_with(node("n", 8), group(minMember=1), {**one, "spec": {**one["spec"], "priority": TOP}})
    assert gang.priority == 0


@pytest.mark.parametrize(
    ("name", "most", "held", "counts"),
    [
        pytest.param("build", "100", False, 100, id="at the bound"),
        pytest.param("build", "99", True, 99, id="above it"),
        pytest.param("build", "train", True, 50, id="above a class"),
        pytest.param("", "-1", True, -1, id="the default is above it"),
        pytest.param("", "0", False, 0, id="the default is at it"),
        pytest.param("nowhere", "-1", True, -1, id="an unknown class counts as the default"),
        pytest.param("usual", "1", True, 1, id="a class of the cluster"),
    ],
)
def test_the_bound_of_a_queue(name, most, held, counts):
    documents = [queue_with(most), class_of("usual", 2), group(minMember=1, queue="q", priorityClassName=name)]
    gang = gang_with(node("n", 8), *documents, pod("p"))
    assert [one.code for one in gang.held] == ["PriorityNotAllowed"] * held
    assert gang.priority == counts


def test_a_default_class_above_the_bound():
    documents = [queue_with("5"), class_of("usual", 200, usual=True), group(minMember=1, queue="q"), pod("p")]
    gang = gang_with(node("n", 8), *documents)
    assert said(gang) == [("PriorityNotAllowed", "", "", 200, 5)]
    assert gang.priority == 5
    assert gang.is_preemptible


def test_a_bound_that_comes_and_goes():
    """The gang is looked at again when the annotation changes, and when the class that it names does."""
    world = world_of([node("n", 8), queue_with("low"), class_of("low", 10), class_of("mid", 60)])
    for document in (group(minMember=1, queue="q", priorityClassName="mid"), pod("p")):
        _apply(world, document)
    builder = Builder(world)

    def held():
        return [one.code for one in builder.build(0).gangs[0].held]

    assert held() == ["PriorityNotAllowed"]
    _apply(world, class_of("low", 60))
    assert held() == []
    _apply(world, queue_with("59"))
    assert held() == ["PriorityNotAllowed"]
    _apply(world, queue_with("gone"))
    assert held() == ["QueueInvalid"]
    _apply(world, class_of("gone", 70))
    assert held() == []


def _apply(world, document):
    kind = kind_of(document)
    assert isinstance(kind, Kind)
    world.apply(read_object(document, kind, strict=False)[0])


def test_of_several_global_defaults_the_lowest_counts():
    """As in the API server, which can't keep two from being made at the same moment."""
    classes = [class_of("low", 5, usual=True), class_of("high", 500, usual=True)]
    assert gang_with(node("n", 8), *classes, group(minMember=1), pod("p0")).priority == 5
