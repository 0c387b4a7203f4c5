"""Pods that are forbidden the same nodes are of one shape, however many terms a tenant writes about each of them."""

import pytest

from muster.snapshot import apart as module
from muster.snapshot.build import Builder, build
from muster.snapshot.world import World
from oracle.engine import apply
from small_cluster import gang, node, pod

COUNT = 20


def carrier(name, key, on, indexes):
    terms = [
        {"topologyKey": key, "namespaceSelector": {}, "labelSelector": {"matchLabels": {"index": str(at)}}}
        for at in indexes
    ]
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    metadata = {"name": name, "namespace": "evil"}
    spec = {"schedulerName": "other", "containers": [], "affinity": affinity, "nodeName": on}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def shapes(*carriers):
    """The shapes of pods that differ in nothing but a number."""
    world = World()
    pods = [
        pod(f"p-{at}", metadata={"labels": {"index": str(at)}}, schedulerName="kai-scheduler") for at in range(COUNT)
    ]
    for document in (node("n0", 8), node("n1", 8), gang(minMember=COUNT), *pods, *carriers):
        if document["kind"] == "Pod":
            document["metadata"].setdefault("annotations", {"pod-group-name": "g"})
        apply(world, document)
    snapshot = build(world, 0)
    return {batch.shape: snapshot.allowed[batch.shape].tolist() for batch in snapshot.gangs[0].waiting}


@pytest.mark.parametrize(
    ("carriers", "masks"),
    [
        pytest.param([carrier("e", "nope", "n0", range(COUNT))], [[True, True]], id="a label that no node has"),
        pytest.param([carrier("e", "t/zone", "gone", range(COUNT))], [[True, True]], id="a node that is not there"),
        pytest.param([carrier("e", "kubernetes.io/hostname", "n0", range(COUNT))], [[True, True]], id="no hostname"),
        pytest.param([carrier("e", "t/zone", "n0", range(COUNT))], [[False, False]], id="one term for each pod"),
        pytest.param(
            [carrier(f"e{at}", "t/zone", "n0", [at]) for at in range(COUNT)],
            [[False, False]],
            id="one pod for each pod",
        ),
        pytest.param(
            [carrier("e", "t/zone", "n0", range(5))], [[False, False], [True, True]], id="a term for some of them"
        ),
    ],
)
def test_pods_that_are_forbidden_the_same_nodes_are_of_one_shape(carriers, masks):
    """A gang whose pods are all of their own shape is searched for seconds, in each cycle."""
    assert sorted(shapes(*carriers).values()) == masks


def test_classes_of_pods_that_are_gone_are_forgotten(monkeypatch):
    """They come and go with the pods, and each new term would be compared with all that ever were."""
    monkeypatch.setattr(module, "_MOST_CLASSES", 30)
    world = World()
    builder = Builder(world)
    for document in (node("n0", 8), gang(minMember=1), carrier("e", "t/zone", "n0", range(2000))):
        apply(world, document)
    for at in range(2000):
        one = pod(f"p-{at}", metadata={"labels": {"index": str(at)}}, schedulerName="kai-scheduler")
        one["metadata"]["annotations"] = {"pod-group-name": "g"}
        apply(world, one)
        builder.build(0)
        apply(world, one, deleted=True)
        if at % 10 == 0:
            apply(world, carrier(f"e{at}", "t/zone", "n0", [3000 + at]))
    assert len(builder._apart._groups) < 100
