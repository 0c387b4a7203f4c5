"""What comes without pods: those that the controllers would make are assumed, and never twice."""

import json

import pytest

from muster.cli import making
from muster.cli.files import Source
from muster.cli.making import owners_in, with_pods

OURS = ["kai-scheduler"]


def template(scheduler="kai-scheduler", gpus=1):
    container = {"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": gpus}}}
    spec = {"schedulerName": scheduler, "restartPolicy": "Never", "containers": [container]}
    return {"metadata": {"labels": {"app": "a"}}, "spec": spec}


def job(name="j", namespace="", **spec):
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {"template": template(), **spec},
    }


def replicas(name="s", **spec):
    made = template()
    made["spec"]["restartPolicy"] = "Always"
    stated = {"serviceName": name, "selector": {"matchLabels": {"app": "a"}}, "template": made, **spec}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name}, "spec": stated}


def made(*documents, owned=()):
    found = with_pods([Source("f", 1, document, []) for document in documents], set(owned), OURS)
    return [one.value for one in found.sources if one.value.get("kind") == "Pod"], found.notes


@pytest.mark.parametrize(
    ("document", "count"),
    [
        (job(), 1),
        (job(parallelism=4), 4),
        (job(parallelism=4, completions=2), 2),
        (job(parallelism=3, suspend=True), 3),
        (job(parallelism=0), 0),
        (job(parallelism=2, completions=2, completionMode="Indexed"), 2),
        (replicas(replicas=3), 3),
        (replicas(), 1),
        (job(namespace="team"), 1),
    ],
    ids=str,
)
def test_as_many_pods_as_the_controller_makes(document, count):
    pods, notes = made(document)
    assert len(pods) == count
    assert {next(owners_in([pod])) for pod in pods} <= {
        (document["kind"], document["metadata"].get("namespace", "default"), document["metadata"]["name"])
    }
    assert len(notes) == (count > 0)
    assert (pods, notes) == made(document)


@pytest.mark.parametrize("document", [job(parallelism=430), replicas(replicas=430)], ids=["Job", "StatefulSet"])
def test_more_pods_than_the_controllers_make_at_a_time(document):
    """The embedded controllers make a hundred at most before others have a turn."""
    assert len(made(document)[0]) == 430


def test_who_has_pods_gets_no_others():
    (pod,), _ = made(job())
    mine = {**pod, "metadata": {**pod["metadata"], "name": "mine"}}
    assert made(job(), mine)[0] == [mine]
    assert made(job(), owned=[("Job", "default", "j")]) == ([], [])
    # Another one of that name is another one.
    assert len(made(job(), owned=[("Job", "elsewhere", "j")])[0]) == 1


@pytest.mark.parametrize(
    "document",
    [
        *(None, [], "x", {}, {"kind": "Job"}, {"apiVersion": "batch/v1", "kind": "Job", "metadata": {}}),
        *(job(parallelism="many"), job(parallelism=-1), job(template=None), job(template={"spec": {}})),
        *({**job(), "spec": None}, {**job(), "spec": []}, job(name="No_Name"), job(namespace="No_Space")),
        *({**job(), "apiVersion": "batch/v2"}, replicas(replicas=True), replicas(selector=None)),
    ],
    ids=lambda value: json.dumps(value)[:60],
)
def test_nonsense_makes_no_pods_and_no_noise(document):
    found = with_pods([Source("f", 1, document, [])], set(), OURS)
    assert found.sources[0].value == document
    assert all(isinstance(note, str) for note in found.notes)


def test_too_many_are_too_many(monkeypatch):
    pods, notes = made(job("huge", parallelism=10**9), job("small", parallelism=2))
    assert len(pods) == 2
    assert (
        notes[0] == "Job default/huge: no pods are assumed: there would be 1,000,000,000, and 5,000 in all is the most"
    )
    monkeypatch.setattr(making, "MOST_PODS", 3)
    assert len(made(job("a", parallelism=2), job("b", parallelism=2))[0]) == 2


def test_pods_of_another_scheduler_are_told():
    _, notes = made(job(template=template("default-scheduler")))
    assert notes[-1].startswith("pods for default-scheduler are not muster's")


def test_a_job_alone_is_planned(muster, tmp_path):
    file, nodes = tmp_path / "job.json", tmp_path / "nodes.json"
    file.write_text(json.dumps(job(parallelism=2)))
    status = {"allocatable": {"cpu": "8", "nvidia.com/gpu": "4"}}
    nodes.write_text(json.dumps({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": status}))
    done = muster("plan", "-f", nodes, "--add", file, "-o", "json")
    assert done.code == 0
    assert len(done.json["bindings"]) == 2
    assert "2 pods assumed for Job/j" in done.err
    # What is there already is no what-if.
    assert muster("plan", "-f", nodes, "-f", file, "-o", "json").json["bindings"] == []


def test_a_priority_class_that_only_the_cluster_has_keeps_no_pods_away():
    document = job(parallelism=2)
    document["spec"]["template"]["spec"]["priorityClassName"] = "inference"
    pods, notes = made(document)
    assert [pod["spec"]["priorityClassName"] for pod in pods] == ["inference"] * 2
    assert all("priority" not in pod["spec"] for pod in pods)
    assert notes == ["2 pods assumed for Job/j, as the controllers would make them"]


def test_why_no_pod_can_be_made_is_told():
    document = job()
    document["spec"]["template"]["spec"]["priority"] = 7
    document["spec"]["template"]["spec"]["priorityClassName"] = "low"
    pods, (note,) = made(document)
    assert pods == []
    assert note.startswith("Job default/j: no pods are assumed: pods ")
    assert "priority" in note
