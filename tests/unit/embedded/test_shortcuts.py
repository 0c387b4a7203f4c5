"""The fast way through the server gives what the slow one gives, and nobody changes what is stored.

Documents in order are taken in by one walk, and what a patch leaves alone is not looked at again. Here the same
requests are answered once with these shortcuts and once without.
"""

import json
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fidelity.play import play
from fidelity.sides import embedded, fresh
from fidelity.stories import BY_NAME
from muster.api.documents import read
from muster.embedded import fieldsets, intake, schema
from muster.embedded.exchange import Request
from muster.embedded.kinds import Kinds
from muster.embedded.places import Irregular
from muster.embedded.store import Change
from unit.embedded.test_nonsense import spoilt

DEFINITIONS = Path(__file__).parents[3] / "deploy" / "crds.yaml"
MERGE, JSON_PATCH = "application/merge-patch+json", "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
GROUPS = "/apis/scheduling.run.ai/v2alpha2/namespaces/default/podgroups"
PODS = "/api/v1/namespaces/default/pods"


def _irregular(*_: object) -> None:
    raise Irregular


@pytest.fixture
def slowly(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Take the shortcuts away."""

    def slow() -> None:
        monkeypatch.setattr(schema.Schema, "taken", lambda *_: None)
        monkeypatch.setattr(schema, "is_fine", lambda *_: False)
        monkeypatch.setattr(intake, "metadata_taken", _irregular)
        monkeypatch.setattr(Kinds, "trusts", lambda *_: False)
        monkeypatch.setattr(fieldsets, "_remember", lambda *_, **__: None)
        fieldsets._SEEN.clear()

    return slow


def answers(requests: list[Request]) -> list[Any]:
    """What a new server says to requests, and what it has in the end."""
    server = fresh()
    said: list[Any] = []
    for request in requests:
        found = server.handle(request)
        said.append((request.method, request.path, request.body, found.status, found.headers, found.json()))
    said.append({name: server.core.store.list(name).items for name in server.core.store.resources()})
    return said


def sent(method: str, path: str, body: Any, kind: str = "application/json") -> Request:
    """A request."""
    return Request(method, path, {"fieldManager": "f"}, {"content-type": kind}, json.dumps(body).encode())


@pytest.mark.parametrize("name", list(BY_NAME))
def test_stories_come_out_the_same(name: str, slowly: Any) -> None:
    """All requests that were recorded on a real server, byte for byte."""
    found = []
    for _ in range(2):
        server = fresh(eager=False)
        found.append(play(BY_NAME[name], embedded(server), server.settle))
        slowly()
    assert found[0] == found[1]


@pytest.mark.parametrize("name", list(BY_NAME))
def test_what_is_stored_is_never_changed(name: str) -> None:
    """A document is at the end what it was when it was written."""
    server = fresh(eager=False)
    seen: list[tuple[Change, bytes]] = []
    server.core.store.subscribe(lambda change: seen.append((change, msgspec.json.encode(change.document))))
    play(BY_NAME[name], embedded(server), server.settle)
    assert seen
    for change, then in seen:
        assert msgspec.json.encode(change.document) == then, change.key


def definitions() -> list[Request]:
    """Our own kinds."""
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    return [sent("POST", path, one.value) for one in read(DEFINITIONS.read_bytes())]


def group(name: str) -> dict[str, Any]:
    """A gang with most of what one may say."""
    parts = [
        {"name": "leaders", "minMember": 1, "topologyConstraint": {"topology": "t", "requiredTopologyLevel": "rack"}},
        {"name": "workers", "parent": "leaders", "minMember": 3},
    ]
    return {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name, "labels": {"a": "b"}, "annotations": {"c": "d"}, "finalizers": ["x.io/y"]},
        "spec": {"queue": "q", "minSubGroup": 1, "subGroups": parts, "priorityClassName": "train"},
    }


def status(row: int) -> dict[str, Any]:
    """What is said of it."""
    time = "2026-01-02T03:04:05Z"
    return {
        "phase": "Pending",
        "conditions": [
            {"type": kind, "status": "True", "reason": "R", "message": f"m{row}", "lastTransitionTime": time}
            for kind in ("Accepted", "Scheduled")
        ],
        "subGroups": [{"name": "", "satisfied": False, "core": False, "pods": {"total": row}, "minimum": 1}],
        "resourcesStatus": {"requested": {"cpu": row, "memory": "1Gi"}},
        "startTime": time,
    }


def pod(name: str) -> dict[str, Any]:
    """A pod with all sorts of values."""
    amounts = {"cpu": "1500m", "memory": "0.5Gi", "nvidia.com/gpu": 1}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"a": "b"}, "creationTimestamp": None},
        "spec": {
            "containers": [
                {
                    "name": "c",
                    "image": "i",
                    "env": [{"name": "E", "value": ""}],
                    "ports": [{"containerPort": 80}],
                    "resources": {"limits": amounts, "requests": amounts},
                    "volumeMounts": [{"name": "v", "mountPath": "/v"}],
                    "tty": False,
                }
            ],
            "volumes": [{"name": "v", "configMap": {"name": "m", "items": []}}],
            "tolerations": [{"key": "k", "operator": "Exists", "tolerationSeconds": 0}],
            "nodeSelector": {"a": "b"},
            "hostNetwork": False,
        },
    }


def running(row: int) -> dict[str, Any]:
    """What a kubelet says."""
    condition = {"type": "Ready", "status": "True", "lastProbeTime": None, "lastTransitionTime": "2026-01-02T03:04:05Z"}
    state = {"running": {"startedAt": "2026-01-02T03:04:05.123+01:00"}}
    container = {"name": "c", "image": "i", "imageID": "", "ready": True, "restartCount": row, "state": state}
    return {"phase": "Running", "conditions": [condition], "containerStatuses": [container], "podIPs": []}


def gang_requests(chance: random.Random) -> list[Request]:
    """A gang comes and is told of, now and then nonsense."""
    found = definitions()
    for row in range(60):
        name = f"g{row % 7}"
        some = lambda value: spoilt(value, chance) if chance.random() < 0.5 else value  # noqa: E731
        found.append(sent("POST", GROUPS, some(group(name))))
        patch = [{"op": "add", "path": "/status", "value": some(status(row))}]
        found.append(sent("PATCH", f"{GROUPS}/{name}/status", patch, JSON_PATCH))
        found.append(sent("PATCH", f"{GROUPS}/{name}", some({"spec": {"minSubGroup": row % 3}}), MERGE))
        found.append(sent("PATCH", f"{GROUPS}/{name}", some({"metadata": {"annotations": {"n": str(row)}}}), MERGE))
        if chance.random() < 0.2:
            found.append(sent("PUT", f"{GROUPS}/{name}", some(group(name))))
            found.append(sent("DELETE", f"{GROUPS}/{name}", {}))
    return found


def pod_requests(chance: random.Random) -> list[Request]:
    """Pods come, are bound and run, now and then nonsense."""
    found = []
    for row in range(60):
        name = f"p{row % 7}"
        some = lambda value: spoilt(value, chance) if chance.random() < 0.5 else value  # noqa: E731
        found.append(sent("POST", PODS, some(pod(name))))
        bind = {"metadata": {"name": name}, "target": {"name": "n"}}
        found.append(sent("POST", f"{PODS}/{name}/binding", bind))
        found.append(sent("PATCH", f"{PODS}/{name}/status", some({"status": running(row)}), MERGE))
        ready = [{"type": "Ready", "status": "False"}, {"type": "X", "status": "True"}]
        found.append(sent("PATCH", f"{PODS}/{name}/status", some({"status": {"conditions": ready}}), STRATEGIC))
        found.append(sent("PATCH", f"{PODS}/{name}", some({"metadata": {"labels": {"row": str(row)}}}), MERGE))
        image = [{"op": "replace", "path": "/spec/containers/0/image", "value": chance.choice(["i:2", 3, None])}]
        found.append(sent("PATCH", f"{PODS}/{name}", image, JSON_PATCH))
        if chance.random() < 0.2:
            found.append(sent("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0}))
    return found


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("draw", [gang_requests, pod_requests])
def test_nonsense_comes_out_the_same(draw: Any, seed: int, slowly: Any) -> None:
    """Also when something is out of order, in any place."""
    requests = draw(random.Random(seed))  # noqa: S311
    fast = answers(requests)
    slowly()
    for one, other in zip(fast, answers(requests), strict=True):
        assert one == other


def test_objects_from_before_a_change_of_their_definition_are_looked_at_anew() -> None:
    """A field that the new schema does not know goes with the next write, though nobody touched it."""
    server = fresh()
    made = json.loads(json.dumps(BY_NAME["things"].steps[0].body).replace("{ns}.example.com", "example.com"))
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    things = "/apis/example.com/v1/namespaces/default/things"
    assert server.handle(sent("POST", path, made)).status == 201
    thing = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": {"size": 4}}
    assert server.handle(sent("POST", things, thing)).status == 201
    place = "/spec/versions/0/schema/openAPIV3Schema/properties/spec"
    patch = [{"op": "replace", "path": place, "value": {"type": "object", "properties": {"other": {"type": "string"}}}}]
    assert server.handle(sent("PATCH", f"{path}/{made['metadata']['name']}", patch, JSON_PATCH)).status == 200
    body = {"metadata": {"labels": {"a": "b"}}}
    found = server.handle(sent("PATCH", f"{things}/t", body, MERGE)).json()
    assert found["spec"] == {}
