"""Core objects of which any part is something else than it should be: told, and nobody else pays for it."""

import json

import pytest

GARBAGE = ["text", 7, True, None, -1.5, [], ["x"], [[]], [{"name": 7}], {}, {"x": {"y": [1]}}]

CONTAINER = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}, "ports": []}
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"schedulerName": "kai-scheduler", "containers": [CONTAINER]}}


def written(kind, name, *, group="v1", **parts):
    return {"apiVersion": group, "kind": kind, "metadata": {"name": name, "namespace": "default"}, **parts}


GOOD = written("Pod", "good", spec=TEMPLATE["spec"])
NODE = written("Node", "n", status={"allocatable": {"cpu": "8", "memory": "8Gi"}})
OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
OBJECTS = [
    written(
        "Pod",
        "bad",
        spec={
            **TEMPLATE["spec"],
            "nodeSelector": {"a": "b"},
            "tolerations": [{"key": "a"}],
            "affinity": {"nodeAffinity": {}, "podAffinity": {}},
            "initContainers": [CONTAINER],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "x"}}],
            "overhead": {"cpu": "1"},
        },
        status={"phase": "Pending", "conditions": [], "containerStatuses": []},
    ),
    written("Node", "bad", spec={"taints": [{"key": "a"}]}, status={"allocatable": {"cpu": "1"}, "conditions": []}),
    written("Job", "bad", group="batch/v1", spec={"parallelism": 2, "completions": 2, "template": TEMPLATE}),
    written("StatefulSet", "bad", group="apps/v1", spec={"replicas": 2, "serviceName": "", "template": TEMPLATE}),
    written("PriorityClass", "bad", group="scheduling.k8s.io/v1", value=5, globalDefault=False),
    written("PodDisruptionBudget", "bad", group="policy/v1", spec={"minAvailable": 1, "selector": {}}, status={}),
    written("PersistentVolumeClaim", "bad", spec={"volumeName": "v", "accessModes": []}),
]


def paths(value, at=()):
    if at:
        yield at
    if isinstance(value, dict):
        for key, below in value.items():
            yield from paths(below, (*at, key))


def spoiled(document):
    """The object again and again under other names, each time with garbage in one place."""
    for path in paths(document):
        for garbage in GARBAGE:
            one = json.loads(json.dumps(document))
            metadata = one["metadata"]
            metadata["name"] = f"bad-{'-'.join(path).lower()}-{len(json.dumps(garbage))}"
            metadata["ownerReferences"] = [OWNER] if document["kind"] == "Pod" else []
            place = one
            for key in path[:-1]:
                place = place[key]
            place[path[-1]] = garbage
            yield one


def stream(*documents):
    return "\n---\n".join(map(json.dumps, documents))


@pytest.mark.parametrize("document", OBJECTS, ids=lambda document: document["kind"])
@pytest.mark.parametrize("command", ["group", "plan", "validate", "explain", "add"])
def test_any_part_of_a_core_object_may_be_anything(muster, tmp_path, document, command):
    """No defect (exit 70), and the good pod beside it is grouped, planned, judged and explained."""
    bad = list(spoiled(document))
    assert len(bad) > 50
    if command == "add":
        there, added = tmp_path / "there.yaml", tmp_path / "added.yaml"
        there.write_text(stream(NODE))
        added.write_text(stream(*bad, GOOD))
        run = muster("plan", "-f", there, "--add", added, "-o", "json")
    else:
        gang = ["default/pg-good"] if command == "explain" else []
        run = muster(command, *gang, "-f", "-", "-o", "json", stdin=stream(NODE, *bad, GOOD))
    assert run.code in (0, 1), run.err
    found = run.json
    if command == "group":
        assert "good" in [one["name"] for one in found["pods"]]
    elif command in ("plan", "add"):
        assert "good" in [one["pod"] for one in found["bindings"]]
    elif command == "validate":
        assert not [one for one in found if one["name"] == "good"]
    else:
        assert found["name"] == "pg-good"
