"""Workloads of any size, as their operators make them: what the catalog says of them fits what is there."""

from typing import NamedTuple

from hypothesis import event, given
from hypothesis import strategies as st

from muster.api.validation import ERROR, Context, validate
from muster.grouping.built_in import built_in_interfaces
from muster.grouping.grouper import Grouper
from muster.grouping.owners import Objects
from muster.grouping.registry import Registry

TRAINING, JOBSET, LWS = "training.kubeflow.org", "jobset.sigs.k8s.io", "leaderworkerset.sigs.k8s.io"
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
SEGMENT_SIZE = "kai.scheduler/segment-size"


class Workload(NamedTuple):
    """Owners, all pods that they will ever create at a time, and the pods that each gang needs to start."""

    owners: list
    pods: list
    needed: int


def thing(api_version, kind, name, owner=None, spec=None, labels=None, annotations=None):
    metadata = {"namespace": "default", "name": name, "uid": f"uid-{kind.lower()}-{name}"}
    metadata |= {"labels": labels or {}, "annotations": annotations or {}}
    if owner is not None:
        above = owner["metadata"]
        reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": above["name"]}
        metadata["ownerReferences"] = [{**reference, "uid": above["uid"], "controller": True}]
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec or {}}


def pod(name, owner, labels):
    return thing("v1", "Pod", name, owner, {"schedulerName": "kai-scheduler"}, labels)


sizes = st.none() | st.integers(1, 5)


def segmented(size):
    return {} if size is None else {SEGMENT_SIZE: str(size)}


@st.composite
def jobs(draw):
    """A Job whose pods are numbered."""
    parallelism, asked, size = draw(st.integers(1, 9)), draw(st.none() | st.integers(1, 12)), draw(sizes)
    spec = {"parallelism": parallelism, "completions": parallelism, "completionMode": "Indexed"}
    notes = segmented(size) | ({} if asked is None else {"kai.scheduler/batch-min-member": str(asked)})
    job = thing("batch/v1", "Job", "j", None, spec, annotations=notes)
    pods = [pod(f"j-{index}", job, {COMPLETION_INDEX: str(index)}) for index in range(parallelism)]
    return Workload([job], pods, min(asked or 1, parallelism))


@st.composite
def job_sets(draw):
    """A JobSet of which everything is asked for, or one replicatedJob where they come after each other."""
    in_order = draw(st.booleans())
    kinds = draw(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4), sizes), min_size=1, max_size=3))
    replicated = [
        {
            "name": f"r{number}",
            "replicas": replicas,
            "template": {"metadata": {"annotations": segmented(size)}, "spec": {"parallelism": pods}},
        }
        for number, (replicas, pods, size) in enumerate(kinds)
    ]
    order = {"startupPolicyOrder": "InOrder" if in_order else "AnyOrder"}
    spec = {"startupPolicy": order, "replicatedJobs": replicated}
    owner = thing("jobset.x-k8s.io/v1alpha2", "JobSet", "s", None, spec)
    owners, pods = [owner], []
    for number, (replicas, count, _) in enumerate(kinds):
        for index in range(replicas):
            labels = {f"{JOBSET}/replicatedjob-name": f"r{number}", f"{JOBSET}/job-index": str(index)}
            job = thing("batch/v1", "Job", f"s-r{number}-{index}", owner, {}, labels)
            owners.append(job)
            pods += [pod(f"s-r{number}-{index}-{i}", job, {**labels, COMPLETION_INDEX: str(i)}) for i in range(count)]
    wholes = [replicas * count for replicas, count, _ in kinds]
    return Workload(owners, pods, min(wholes) if in_order else sum(wholes))


@st.composite
def leader_worker_sets(draw):
    """One of any size, with subgroups that its webhook allows."""
    size = draw(st.integers(1, 13))
    allowed = [s for s in range(1, size + 1) if size % s == 0 or (size - 1) % s == 0]
    subgroup = draw(st.none() | st.sampled_from(allowed))
    excluded = subgroup is not None and (size - 1) % subgroup == 0 and draw(st.booleans())
    ready, replicas = draw(st.booleans()), draw(st.integers(1, 2))
    template = {"size": size}
    notes = {}
    if subgroup is None:
        notes = segmented(draw(sizes))
    else:
        kind = "LeaderExcluded" if excluded else "LeaderWorker"
        template["subGroupPolicy"] = {"subGroupSize": subgroup, "subGroupPolicyType": kind}
    spec = {"replicas": replicas, "leaderWorkerTemplate": template}
    spec["startupPolicy"] = "LeaderReady" if ready else "LeaderCreated"
    owner = thing("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "l", None, spec, annotations=notes)
    leaders = thing("apps/v1", "StatefulSet", "l", owner)
    owners, pods = [owner, leaders], []
    for group in range(replicas):
        leader, workers = None, None
        for index in range(size):
            labels = {f"{LWS}/group-index": str(group), f"{LWS}/worker-index": str(index)}
            if subgroup is not None and (index or not excluded):
                extra = index and (size - 1) % subgroup == 0 and size % subgroup != 0
                labels[f"{LWS}/subgroup-index"] = str((index - 1 if extra else index) // subgroup)
            if leader is None:
                leader = pod(f"l-{group}", leaders, labels)
                workers = thing("apps/v1", "StatefulSet", f"l-{group}", leader)
                owners.append(workers)
            pods.append(pod(f"l-{group}-{index}", workers, labels) if index else leader)
    return Workload(owners, pods, 1 if ready else size)


@st.composite
def training_jobs(draw):
    """Of the training operator: replica types, a number of pods to start with, and segments of workers."""
    kind, key, types = draw(
        st.sampled_from(
            [
                ("PyTorchJob", "pytorchReplicaSpecs", ("Master", "Worker")),
                ("PaddleJob", "paddleReplicaSpecs", ("Master", "Worker")),
                ("XGBoostJob", "xgbReplicaSpecs", ("Master", "Worker")),
                ("TFJob", "tfReplicaSpecs", ("Chief", "PS", "Worker", "Evaluator")),
                ("JAXJob", "jaxReplicaSpecs", ("Worker",)),
                ("MPIJob", "mpiReplicaSpecs", ("Launcher", "Worker")),
            ]
        )
    )
    counts = {name: 1 if name in ("Launcher", "Master") else draw(st.integers(1, 7)) for name in types}
    asked, size = draw(st.none() | st.integers(0, 12)), draw(sizes)
    spec = {key: {name: {"replicas": count, "template": {}} for name, count in counts.items()}}
    spec[key]["Worker"]["template"] = {"metadata": {"annotations": segmented(size)}}
    if asked is not None:
        spec["runPolicy"] = {"schedulingPolicy": {"minAvailable": asked}}
    owner = thing("kubeflow.org/v1", kind, "t", None, spec)
    pods = [
        pod(
            f"t-{name.lower()}-{index}",
            owner,
            {f"{TRAINING}/replica-type": name.lower(), f"{TRAINING}/replica-index": str(index)},
        )
        for name, count in counts.items()
        for index in range(count)
    ]
    total = sum(counts.values())
    return Workload([owner], pods, total if asked is None else min(max(asked, 1), total))


workloads = st.one_of(jobs(), job_sets(), leader_worker_sets(), training_jobs())
registry = Registry(built_in_interfaces(), ())


def grouped(workload, pods, existing=None):
    grouper = Grouper(registry, Objects([*workload.owners, *workload.pods]))
    return grouper.group(pods, existing)


def need(spec):
    """The fewest pods that satisfy the gang. A node that counts children takes those that need least."""
    children, found = {}, {}
    for subgroup in reversed(spec.get("subGroups", [])):
        children.setdefault(subgroup.get("parent", ""), []).append(subgroup["name"])
    for subgroup in [*reversed(spec.get("subGroups", [])), {"name": "", **spec}]:
        name = subgroup["name"]
        below = sorted(found[child] for child in children.get(name, ()))
        found[name] = sum(below[: subgroup.get("minSubGroup", len(below))]) if below else subgroup["minMember"]
    return found[""]


@given(workloads)
def test_every_pod_has_a_leaf_that_asks_for_no_more_than_it_gets(workload):
    """No pod is left over, the PodGroup is valid, no leaf asks for more pods than will be there, no branch for more
    children, and all in all it takes exactly the pods that the workload needs to start.
    """
    found = grouped(workload, workload.pods)
    assert found.problems == ()
    assert len(found.pods) == len(workload.pods)
    for made in found.groups:
        spec, name = made.document["spec"], made.document["metadata"]["name"]
        event(f"{workload.owners[0]['kind']}, {'flat' if 'minMember' in spec else 'tree'}")
        judgement = validate(made.document, Context())
        assert [one for one in judgement.violations if one.severity == ERROR] == []
        members = [pod.sub_group for pod in found.pods if pod.pod_group == name]
        parents = [subgroup.get("parent", "") for subgroup in spec.get("subGroups", [])]
        for node in [*spec.get("subGroups", []), {"name": "", **spec}]:
            assert node.get("minMember", 0) <= members.count(node["name"])
            assert node.get("minSubGroup", 0) <= parents.count(node["name"])
            assert not (node["name"] in parents and node["name"] in members)
        assert need(spec) == workload.needed


@given(workloads, st.data())
def test_whichever_pod_comes_first_and_again(workload, data):
    """One pod alone gives the gang that all give, and grouping what is grouped changes nothing."""
    found = grouped(workload, workload.pods)
    groups = {made.document["metadata"]["name"]: made.document for made in found.groups}
    alone = grouped(workload, [data.draw(st.sampled_from(workload.pods))])
    assert [groups[made.document["metadata"]["name"]] for made in alone.groups] == [alone.groups[0].document]
    again = grouped(
        workload,
        data.draw(st.permutations(workload.pods)),
        {("default", name): document for name, document in groups.items()},
    )
    assert [made.changed for made in again.groups] == [False] * len(groups)
    assert again.pods == found.pods
