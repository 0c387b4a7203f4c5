"""What grouping costs: ten thousand pods of five hundred workloads of many kinds, first and again; and its extremes."""

import copy
import json
from collections.abc import Iterator
from typing import Any

from bench.measure import Case, Run
from muster.api.cluster import POD_GROUP_ANNOTATION, SUBGROUP_LABEL
from muster.api.validation import Context, validate
from muster.api.validation.violation import Report
from muster.grouping.built_in import built_in_interfaces
from muster.grouping.compiler import compile_interface
from muster.grouping.grouper import Grouper, Grouping
from muster.grouping.owners import Objects
from muster.grouping.registry import Registry

SECTION = "Grouping, objects to PodGroups"
WORKLOADS, PODS = 500, 10_000
_EACH = PODS // WORKLOADS

Document = dict[str, Any]


def owned(kind: str, api_version: str, name: str, owner: Document | None = None, **rest: Any) -> Document:
    """An object with a uid, owned by another."""
    metadata: Document = {
        "name": name,
        "namespace": "default",
        "uid": f"uid-{kind}-{name}".lower(),
        **rest.pop("metadata", {}),
    }
    if owner is not None:
        reference = {key: owner[key] for key in ("apiVersion", "kind")}
        reference |= {"name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"], "controller": True}
        metadata["ownerReferences"] = [reference]
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **rest}


def pod(name: str, owner: Document, labels: dict[str, str]) -> Document:
    """A pod of ours."""
    spec = {"schedulerName": "kai-scheduler", "containers": [{"name": "main"}]}
    return owned("Pod", "v1", name, owner, metadata={"labels": labels}, spec=spec)


def ray_cluster(number: int) -> Iterator[Document]:
    """A head and two groups of workers."""
    name, workers = f"ray-{number}", _EACH - 1
    groups = [
        {"groupName": f"group-{row}", "replicas": count, "minReplicas": count, "numOfHosts": 1}
        for row, count in enumerate((workers // 2, workers - workers // 2))
    ]
    cluster = owned("RayCluster", "ray.io/v1", name, spec={"headGroupSpec": {}, "workerGroupSpecs": groups})
    yield cluster
    yield pod(
        f"{name}-head", cluster, {"ray.io/node-type": "head", "ray.io/group": "headgroup", "ray.io/cluster": name}
    )
    for group in groups:
        labels = {"ray.io/node-type": "worker", "ray.io/group": group["groupName"], "ray.io/cluster": name}
        yield from (pod(f"{name}-{group['groupName']}-{at}", cluster, labels) for at in range(group["replicas"]))


def job_set(number: int) -> Iterator[Document]:
    """Two replicated jobs of two replicas each."""
    name, parallelism = f"set-{number}", _EACH // 4
    template = {"spec": {"parallelism": parallelism, "completions": parallelism}}
    jobs = [{"name": job, "replicas": 2, "template": template} for job in ("driver", "worker")]
    found = owned("JobSet", "jobset.x-k8s.io/v1alpha2", name, spec={"replicatedJobs": jobs})
    yield found
    for job in ("driver", "worker"):
        for index in range(2):
            inner = owned("Job", "batch/v1", f"{name}-{job}-{index}", found, spec=template["spec"])
            yield inner
            labels = {"jobset.sigs.k8s.io/replicatedjob-name": job, "jobset.sigs.k8s.io/job-index": str(index)}
            yield from (pod(f"{name}-{job}-{index}-{at}", inner, labels) for at in range(parallelism))


def leader_worker_set(number: int) -> Iterator[Document]:
    """Four groups, each a PodGroup: worker Pod, StatefulSet, leader Pod, StatefulSet, LeaderWorkerSet."""
    name, size = f"lws-{number}", _EACH // 4
    found = owned(
        "LeaderWorkerSet",
        "leaderworkerset.x-k8s.io/v1",
        name,
        spec={"replicas": 4, "leaderWorkerTemplate": {"size": size, "workerTemplate": {}}},
    )
    leaders = owned("StatefulSet", "apps/v1", name, found, spec={"replicas": 4})
    yield from (found, leaders)
    for group in range(4):
        labels = {
            f"leaderworkerset.sigs.k8s.io/{key}": value for key, value in (("name", name), ("group-index", str(group)))
        }
        index = "leaderworkerset.sigs.k8s.io/worker-index"
        leader = pod(f"{name}-{group}", leaders, {**labels, index: "0"})
        workers = owned("StatefulSet", "apps/v1", f"{name}-{group}", leader, spec={"replicas": size - 1})
        yield from (leader, workers)
        yield from (pod(f"{name}-{group}-{at}", workers, {**labels, index: str(at)}) for at in range(1, size))


def pytorch_job(number: int) -> Iterator[Document]:
    """A master and workers."""
    name = f"torch-{number}"
    specs = {"Master": {"replicas": 1, "template": {}}, "Worker": {"replicas": _EACH - 1, "template": {}}}
    found = owned("PyTorchJob", "kubeflow.org/v1", name, spec={"pytorchReplicaSpecs": specs})
    yield found
    for kind, count in (("master", 1), ("worker", _EACH - 1)):
        for at in range(count):
            labels = {"training.kubeflow.org/replica-type": kind, "training.kubeflow.org/replica-index": str(at)}
            yield pod(f"{name}-{kind}-{at}", found, labels)


def deployment(number: int) -> Iterator[Document]:
    """A Deployment and its ReplicaSet."""
    name = f"web-{number}"
    found = owned("Deployment", "apps/v1", name, spec={"replicas": _EACH})
    inner = owned("ReplicaSet", "apps/v1", f"{name}-abc", found, spec={"replicas": _EACH})
    yield from (found, inner)
    yield from (pod(f"{name}-abc-{at}", inner, {"app": name}) for at in range(_EACH))


_KINDS = (ray_cluster, job_set, leader_worker_set, pytorch_job, deployment)


def many() -> list[Document]:
    """All of them."""
    return [made for number in range(WORKLOADS) for made in _KINDS[number % len(_KINDS)](number)]


def grouper_of(documents: list[Document]) -> Grouper:
    """A grouper that has seen nothing yet, with the catalog."""
    return Grouper(Registry(built_in_interfaces(), ()), Objects(documents))


def _pods(documents: list[Document]) -> list[Document]:
    return [one for one in documents if one["kind"] == "Pod"]


def _group(documents: list[Document]) -> Grouping:
    return grouper_of(documents).group(_pods(documents))


def _says(found: Grouping) -> str:
    assert not found.problems, found.problems[0].message
    assert len(found.pods) == PODS, f"{len(found.pods)} pods"
    changed = sum(made.changed for made in found.groups)
    return f"{len(found.groups):,} PodGroups, {changed:,} new or changed, {len(found.pods):,} pods"


def _carried(documents: list[Document], found: Grouping) -> dict[tuple[str, str], Document]:
    """Marks the pods as the controller does, and gives the PodGroups as they came back from the API server."""
    pods = {one["metadata"]["name"]: one for one in _pods(documents)}
    for place in found.pods:
        metadata = pods[place.name]["metadata"]
        metadata["annotations"] = {POD_GROUP_ANNOTATION: place.pod_group}
        if place.sub_group:
            metadata["labels"] = {**metadata["labels"], SUBGROUP_LABEL: place.sub_group}
    groups = [json.loads(json.dumps(made.document)) for made in found.groups]
    return {(one["metadata"]["namespace"], one["metadata"]["name"]): one for one in groups}


def _first() -> Run:
    documents = many()
    return Run(_group, lambda: documents, _says)


def _again() -> Run:
    """The same grouper looks at the same pods again, as after a resync."""
    documents = many()
    grouper = grouper_of(documents)
    existing = _carried(documents, grouper.group(_pods(documents)))
    return Run(lambda pods: grouper.group(pods, existing), lambda: _pods(documents), _says_unchanged)


def _restart() -> Run:
    """A new process looks at a cluster that is grouped already."""
    documents = many()
    existing = _carried(documents, _group(documents))
    return Run(lambda _: grouper_of(documents).group(_pods(documents), existing), says=_says_unchanged)


def _says_unchanged(found: Grouping) -> str:
    assert not any(made.changed for made in found.groups), "something changed"
    return _says(found)


def _one_large() -> Run:
    """One JobSet of 9,999 replicas of one pod: as many SubGroups as a PodGroup may hold."""
    jobs = [{"name": "worker", "replicas": 9_999, "template": {"spec": {"parallelism": 1}}}]
    found = owned("JobSet", "jobset.x-k8s.io/v1alpha2", "large", spec={"replicatedJobs": jobs})
    labels = "jobset.sigs.k8s.io/replicatedjob-name", "jobset.sigs.k8s.io/job-index"
    pods = [pod(f"large-{at}", found, dict(zip(labels, ("worker", str(at)), strict=True))) for at in range(9_999)]

    def says(grouping: Grouping) -> str:
        assert not grouping.problems, grouping.problems[0].message
        return f"{len(grouping.groups[0].document['spec']['subGroups']):,} SubGroups, {len(grouping.pods):,} pods"

    return Run(lambda _: grouper_of([found, *pods]).group(pods), says=says)


def _catalog() -> Run:
    """Reading and compiling every built-in interface."""
    return Run(lambda _: built_in_interfaces.__wrapped__(), says=lambda found: f"{len(found)} kinds")


def _large_interface() -> Run:
    """An interface of 10,000 leaves: as much as one object may hold."""
    leaf = {"minReplicas": 1, "podClassifier": {"matchLabels": {"role": "x"}}}
    branches = [
        {
            "componentName": f"b{row}",
            "subgroups": [
                {
                    **copy.deepcopy(leaf),
                    "componentName": f"b{row}-l{at}",
                    "podClassifier": {"matchLabels": {"r": f"{row}-{at}"}},
                }
                for at in range(100)
            ],
        }
        for row in range(90)
    ]
    spec = {
        "targetGVK": {"group": "x.io", "kind": "X"},
        "gangScheduling": {"podGroups": [{"name": "g", "subgroups": branches}]},
    }
    document = {"apiVersion": "kai.scheduler/v1", "kind": "ResourceInterface", "metadata": {"name": "x"}, "spec": spec}

    def run(_: Any) -> bool:
        judgement = validate(document, Context())
        return judgement.valid and compile_interface(judgement.object, Report([])) is not None

    return Run(run, says=lambda valid: "valid" if valid else "WRONG")


def cases() -> Iterator[Case]:
    """All of them."""
    yield Case("group 10,000 pods of 500 workloads", _first, PODS, "pods", 5.0, section=SECTION)
    yield Case("group them again: nothing changes", _again, PODS, "pods", 1.0, section=SECTION)
    yield Case("the same in a new process", _restart, PODS, "pods", section=SECTION)
    yield Case("group one JobSet of 9,999 replicas", _one_large, 9_999, "pods", section=SECTION)
    yield Case("read and compile the catalog", _catalog, section=SECTION)
    yield Case("check an interface of 9,000 leaves", _large_interface, section=SECTION)
