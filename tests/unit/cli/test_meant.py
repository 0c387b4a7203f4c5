"""A gang is named by its PodGroup, a pod of it or its workload, as kubectl names them (SPEC §10)."""

import pytest

from muster.api.kinds import POD_GROUP, kind_of, read_object
from muster.cli.meant import gang_meant
from muster.errors import UsageError
from muster.snapshot.world import World


def owner(kind, name):
    return {"apiVersion": "x/v1", "kind": kind, "name": name, "uid": f"uid-{name}", "controller": True}


def group(name, namespace="default", *owners):
    return {
        "apiVersion": POD_GROUP.api_version,
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": namespace, "ownerReferences": list(owners)},
        "spec": {"minMember": 1},
    }


def pod(name, gang, namespace="default", *owners):
    metadata = {
        "name": name,
        "namespace": namespace,
        "annotations": {"pod-group-name": gang},
        "ownerReferences": list(owners),
    }
    spec = {"schedulerName": "kai-scheduler", "containers": []}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@pytest.fixture(scope="module")
def world():
    found = World()
    for document in (
        group("pg-train-1", "default", owner("Job", "train")),
        pod("train-0", "pg-train-1", "default", owner("Job", "train")),
        group("pg-l-0", "default", owner("LeaderWorkerSet", "l")),
        group("pg-l-1", "default", owner("LeaderWorkerSet", "l")),
        group("pg-set", "default", owner("JobSet", "set")),
        pod("set-a-0", "pg-set", "default", owner("Job", "set-a")),
        group("same", "one"),
        group("same", "two"),
        group("far", "two", owner("RayCluster", "ray")),
        group("job", "pg"),
        pod("lost-0", "lost"),
    ):
        found.apply(read_object(document, kind_of(document), strict=False)[0])
    return found


@pytest.mark.parametrize(
    ("name", "home", "gang"),
    [
        ("pg-train-1", "default", "default/pg-train-1"),
        ("default/pg-train-1", "elsewhere", "default/pg-train-1"),
        ("pg/pg-train-1", "default", "default/pg-train-1"),
        ("podgroups.scheduling.run.ai/pg-train-1", "default", "default/pg-train-1"),
        ("pod/train-0", "default", "default/pg-train-1"),
        ("job/train", "default", "default/pg-train-1"),
        ("Jobs.batch/train", "default", "default/pg-train-1"),
        ("train", "default", "default/pg-train-1"),
        ("jobset/set", "default", "default/pg-set"),
        ("job/set-a", "default", "default/pg-set"),
        ("far", "default", "two/far"),
        ("raycluster/ray", "two", "two/far"),
        ("raycluster/ray", "default", "two/far"),
        ("pg/job", "default", "pg/job"),
    ],
)
def test_what_is_meant(world, name, home, gang):
    assert "/".join(gang_meant(name, world, "the input", home)) == gang


@pytest.mark.parametrize(
    ("name", "home", "words", "hint"),
    [
        ("same", "default", "several gangs are called same", "one/same, two/same"),
        ("lws/l", "default", "lws/l has 2 gangs", "default/pg-l-0, default/pg-l-1"),
        ("job/trian", "default", "there is no gang of job/trian", "did you mean default/pg-train-1?"),
        ("pod/none", "default", "there is no gang of pod/none", "there are"),
        ("raycluster/nothing", "default", "there is no gang of raycluster/nothing", "there are"),
        ("default/pg-trian-1", "default", "there is no gang default/pg-trian-1", "did you mean default/pg-train-1?"),
        ("lost", "default", "1 pod names the gang default/lost, and no PodGroup", "pod-group-name"),
    ],
)
def test_what_is_not_there(world, name, home, words, hint):
    with pytest.raises(UsageError) as refused:
        gang_meant(name, world, "the input", home)
    assert words in refused.value.message
    assert hint in refused.value.hint


def test_a_namespace_that_was_said_is_the_only_one(world):
    assert gang_meant("same", world, "the input", "one", only_home=True) == ("one", "same")
    with pytest.raises(UsageError, match="there is no gang far"):
        gang_meant("far", world, "the input", "one", only_home=True)
