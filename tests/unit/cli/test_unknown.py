"""A workload that comes without its pods: the verdict is Unknown and the answer no, never "nothing changes"."""

import json

import pytest

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n"},
    "status": {"allocatable": {"cpu": "8", "nvidia.com/gpu": "4"}},
}
WORKLOADS = {
    "LeaderWorkerSet": "leaderworkerset.x-k8s.io/v1",
    "RayCluster": "ray.io/v1",
    "JobSet": "jobset.x-k8s.io/v1alpha2",
    "PyTorchJob": "kubeflow.org/v1",
    "MPIJob": "kubeflow.org/v2beta1",
    "Deployment": "apps/v1",
}


def workload(kind, **more):
    return {"apiVersion": WORKLOADS[kind], "kind": kind, "metadata": {"name": "w", **more}, "spec": {}}


def pod(owner_kind, owner, name="p"):
    reference = {"apiVersion": "x/v1", "kind": owner_kind, "name": owner, "uid": "u", "controller": True}
    spec = {"schedulerName": "kai-scheduler", "containers": [{"name": "c", "image": "i"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "ownerReferences": [reference]}, "spec": spec}


@pytest.fixture
def plan(muster, tmp_path):
    def asked(*added, there=(), form="json"):
        files = []
        for name, documents in (("there", [NODE, *there]), ("added", added)):
            files.append(tmp_path / f"{name}.json")
            files[-1].write_text("\n".join(map(json.dumps, documents)))
        return muster("plan", "-f", files[0], "--add", files[1], "-o", form)

    return asked


@pytest.mark.parametrize("kind", WORKLOADS)
def test_what_becomes_of_a_workload_without_pods_is_unknown(plan, kind):
    done = plan(workload(kind))
    assert done.code == 1
    (found,) = done.json["unknown"]
    assert (found["kind"], found["namespace"], found["name"], found["verdict"]) == (kind, "default", "w", "Unknown")
    assert "its pods are not in the input" in found["message"]
    assert "skipped" not in done.err


@pytest.mark.parametrize("form", ["table", "wide", "name"])
def test_every_form_says_so(plan, form):
    done = plan(workload("RayCluster"), form=form)
    assert done.code == 1
    assert "RayCluster default/w: Unknown: its pods are not in the input" in done.out + done.err
    assert "0 gangs" not in done.err


def test_a_kind_of_which_only_its_template_is_known_is_a_workload(plan):
    template = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    own = {"apiVersion": "example.com/v1", "kind": "Own", "metadata": {"name": "w"}, "spec": {"template": template}}
    assert plan(own).json["unknown"][0]["kind"] == "Own"


@pytest.mark.parametrize(
    "others",
    [
        pytest.param([pod("JobSet", "w")], id="a pod"),
        pytest.param(
            [
                {
                    "apiVersion": "batch/v1",
                    "kind": "Job",
                    "metadata": {"name": "j", "ownerReferences": [{"kind": "JobSet", "name": "w", "uid": "u"}]},
                    "spec": {},
                },
                pod("Job", "j"),
            ],
            id="a pod of what it owns",
        ),
    ],
)
def test_a_workload_that_has_pods_is_known(plan, others):
    assert "unknown" not in plan(workload("JobSet"), *others).json
    assert "unknown" not in plan(workload("JobSet"), there=others).json


def test_what_is_no_workload_is_not_unknown(plan):
    done = plan({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {}})
    assert "unknown" not in done.json
    assert done.code == 0


def test_a_job_that_asks_for_no_pod_is_known(plan):
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"parallelism": 0}}
    assert "unknown" not in plan(job).json


def test_a_job_whose_pods_can_not_be_made_is_unknown(plan):
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"parallelism": 2}}
    done = plan(job)
    assert done.code == 1
    assert done.json["unknown"][0]["name"] == "j"
    assert "no pods are assumed" in done.err


def test_a_file_that_can_not_be_read_is_no_empty_cluster(muster, tmp_path):
    """ "0 gangs" would be an answer."""
    file = tmp_path / "broken.yaml"
    file.write_text("a: [\n")
    done = muster("plan", "-f", file)
    assert done.code == 1
    assert "not YAML" in done.err
    assert "gangs" not in done.err
    assert f"next: muster validate -f {file}" in done.err


def test_the_same_generated_name_each_time(muster, tmp_path):
    """An object with generateName is created anew by each kubectl create; here it is one object, with one name."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"schedulerName": "kai-scheduler", "restartPolicy": "Never", "containers": [container]}}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"generateName": "train-"},
        "spec": {"template": template},
    }
    nodes, jobs = tmp_path / "nodes.json", tmp_path / "jobs.json"
    nodes.write_text(json.dumps(NODE))
    jobs.write_text(f"{json.dumps(job)}\n{json.dumps(job)}")
    done = [muster("plan", "-f", nodes, "--add", jobs, "-o", "json") for _ in range(2)]
    assert done[0].json == done[1].json
    assert done[0].code == 0
    names = {one["name"] for one in done[0].json["podGroups"]}
    assert len(names) == 2
    assert all(name.startswith("pg-train-") for name in names)
    assert muster("group", "-f", jobs).out.count("PodGroup default/") == 2
    assert muster("validate", "-f", jobs).code == 0


@pytest.mark.parametrize(
    ("label", "value", "words"),
    [
        ("kai.scheduler/queue", "reserch", "name one that does in the label kai.scheduler/queue of Job train"),
        ("project", "reserch", "name one that does in the label project of Job train"),
    ],
)
def test_a_mistyped_queue_is_named_where_it_was_typed(plan, label, value, words):
    """People write a label on their Job and never see the PodGroup."""
    queue = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "research"}, "spec": {}}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"schedulerName": "kai-scheduler", "restartPolicy": "Never", "containers": [container]}}
    metadata = {"name": "train", "labels": {label: value}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template}}
    done = plan(job, there=[queue])
    (reason,) = done.json["podGroups"][0]["reasons"]
    assert reason["code"] == "QueueNotFound"
    assert "did you mean research?" in reason["message"]
    assert words in reason["message"]


def test_a_workload_that_can_not_be_grouped_is_no_yes(plan):
    """Its pods are in no gang, so that no gang is refused either."""
    container = {"name": "c", "image": "i"}
    template = {"spec": {"schedulerName": "kai-scheduler", "restartPolicy": "Never", "containers": [container]}}
    metadata = {"name": "j", "annotations": {"kai.scheduler/batch-min-member": "many"}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template}}
    done = plan(job)
    assert done.code == 1
    assert "1 pod not grouped" in done.err
