"""Whatever is sent, there is an answer: nonsense in any place of a document is refused or taken, it raises nothing."""

import json
import random
from typing import Any

import pytest

from fidelity.sides import fresh
from fidelity.stories import BY_NAME
from muster.embedded.exchange import Request
from muster.embedded.protobuf import CONTENT_TYPE, MAGIC, decoded
from muster.embedded.refusals import Refused

NONSENSE: tuple[Any, ...] = (
    None,
    0,
    -1,
    10**30,
    1.5,
    True,
    "",
    "x" * 300,
    "é\u0000",
    [],
    [None],
    [[]],
    {},
    {"": None},
    {"a": [1]},
)
PATCHES = ("application/merge-patch+json", "application/strategic-merge-patch+json", "application/apply-patch+yaml")


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """All places in a document."""
    found = [path] if path else []
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in entries:
        found += places(below, (*path, key))
    return found


def spoilt(document: Any, chance: random.Random) -> Any:
    """The document with nonsense in one place."""
    found = json.loads(json.dumps(document).replace("{ns}", "default"))
    path = chance.choice(places(found))
    place = found
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = chance.choice(NONSENSE)
    return found


@pytest.mark.parametrize(
    "story",
    ["pods", "workloads", "small-kinds", "leases", "events", "nodes", "budgets", "priorities", "what-nodes-have"],
)
def test_spoilt_documents_are_answered(story: str) -> None:
    chance = random.Random(story)  # noqa: S311
    server = fresh()
    sent = [step for step in BY_NAME[story].steps if step.method == "POST" and isinstance(step.body, dict)]
    for _ in range(150):
        step = chance.choice(sent)
        path = step.path.replace("{ns}", "default").partition("?")[0]
        body = spoilt(step.body, chance)
        answer = server.handle(Request("POST", path, {}, {}, json.dumps(body).encode()))
        assert answer.json()["kind"], (path, body)
        name = (step.body.get("metadata") or {}).get("name") or "x"
        for kind in PATCHES:
            headers = {"content-type": kind}
            query = {"fieldManager": "f", "force": "true"} if "apply" in kind else {}
            one = spoilt({"apiVersion": "v1", "kind": "Pod", **step.body}, chance)
            answer = server.handle(Request("PATCH", f"{path}/{name}", query, headers, json.dumps(one).encode()))
            assert answer.json()["kind"], (kind, one)


def test_spoilt_objects_of_our_own_kinds_are_answered() -> None:
    """Kinds that are defined: with a schema, what is wrong is named."""
    chance = random.Random(7)  # noqa: S311
    server = fresh()
    story = BY_NAME["things"]
    made = json.loads(json.dumps(story.steps[0].body).replace("{ns}.example.com", "example.com"))
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert server.handle(Request("POST", path, {}, {}, json.dumps(made).encode())).status == 201
    thing = {
        "apiVersion": "example.com/v1",
        "kind": "Thing",
        "metadata": {"name": "t", "labels": {"a": "b"}},
        "spec": {"size": 1, "parts": [{"name": "a", "size": 1}], "tags": ["a"], "free": {"a": {"b": 1}}, "wait": "5%"},
    }
    for _ in range(300):
        body = json.dumps(spoilt(thing, chance)).encode()
        answer = server.handle(Request("POST", "/apis/example.com/v1/namespaces/default/things", {}, {}, body))
        assert answer.json()["kind"], body


def test_spoilt_options_of_deletions_are_answered() -> None:
    """Of a deletion, and of an eviction: what is not understood is not done."""
    chance = random.Random(11)  # noqa: S311
    server = fresh()
    pods = "/api/v1/namespaces/default/pods"
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    options = {
        "gracePeriodSeconds": 0,
        "propagationPolicy": "Background",
        "preconditions": {"uid": "u", "resourceVersion": "1"},
        "dryRun": ["All"],
    }
    for _ in range(200):
        server.handle(Request("POST", pods, {}, {}, json.dumps(pod).encode()))
        one = spoilt(options, chance)
        answer = server.handle(Request("DELETE", f"{pods}/p", {}, {}, json.dumps(one).encode()))
        assert answer.json()["kind"], one
        body = {"metadata": {"name": "p"}, "deleteOptions": spoilt(options, chance)}
        answer = server.handle(Request("POST", f"{pods}/p/eviction", {}, {}, json.dumps(body).encode()))
        assert answer.json()["kind"], body


def field(number: int, value: bytes) -> bytes:
    assert len(value) < 128
    key = number << 3 | 2
    return bytes([key] if key < 128 else [key & 0x7F | 0x80, key >> 7]) + bytes([len(value)]) + value


def pod() -> bytes:
    """A pod as Go clients send it."""
    container = field(1, b"c") + field(2, b"i:1") + field(8, field(1, field(1, b"cpu") + field(2, field(1, b"2"))))
    volume = field(1, b"v") + field(2, field(19, field(1, field(1, b"m"))))
    metadata = field(1, b"p") + field(11, field(1, b"a") + field(2, b"b")) + field(8, b"")
    spec = field(1, volume) + field(2, container) + bytes([4 << 3, 5]) + bytes([11 << 3, 0])
    kind = field(1, b"v1") + field(2, b"Pod")
    return MAGIC + field(1, kind) + field(2, field(1, metadata) + field(2, spec) + field(3, b""))


def test_a_pod_in_protobuf_is_the_same_as_in_json() -> None:
    assert decoded(pod()) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "labels": {"a": "b"}},
        "spec": {
            "volumes": [{"name": "v", "configMap": {"name": "m"}}],
            "containers": [{"name": "c", "image": "i:1", "resources": {"limits": {"cpu": "2"}}}],
            "terminationGracePeriodSeconds": 5,
            "hostNetwork": False,
        },
        "status": {},
    }
    server = fresh()
    request = Request("POST", "/api/v1/namespaces/default/pods", {}, {"content-type": CONTENT_TYPE}, pod())
    assert server.handle(request).status == 201


@pytest.mark.parametrize("seed", range(5))
def test_spoilt_protobuf_is_refused_or_read(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311
    whole = pod()
    for _ in range(400):
        data = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(4, len(data))] = chance.randrange(256)
        answered = 200
        try:
            decoded(bytes(data[: chance.randint(4, len(data))]))
        except Refused as refused:
            answered = refused.status
        assert answered in (200, 400, 415)
