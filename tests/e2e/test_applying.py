"""Random stories of appliers and updaters on a real API server: every step must end alike in ours.

The recorded stories (tests/unit/embedded) are chosen; these are not. A seed that fails is printed with its step.
"""

import json
import random
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.plane import ControlPlane, gate
from muster.embedded import applying, patching
from muster.embedded.refusals import Refused
from muster.embedded.schema import Schema
from unit.embedded.asked import CHECKS, CRD, SCHEMA, widget
from unit.embedded.record import FOLDERS, TYPES

gate.require()

WIDGETS = Schema(SCHEMA, checks=CHECKS, status=True)
EMPTIED = re.compile(r'must be of type (object|array): "null"')
STEPS = 12


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane() as started:
        assert started.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", CRD).status == 201
        deadline = time.monotonic() + 30
        while started.request("GET", FOLDERS["Widget"]).status != 200:
            assert time.monotonic() < deadline, "the CRD is not served"
            time.sleep(0.2)
        yield started


def spec(chance: random.Random) -> dict[str, Any]:
    """A spec that the schema allows."""
    found: dict[str, Any] = {"color": chance.choice(["red", "green"])}
    parts = {chance.choice("abcd"): chance.choice([None, "x"]) for _ in range(chance.randrange(4))}
    values = {
        "size": chance.randrange(1, 4),
        "tags": chance.sample(["a", "b", "c"], chance.randrange(4)),
        "parts": [
            {"name": name, **({"kind": kind} if kind else {}), **({"count": 1} if chance.random() < 0.4 else {})}
            for name, kind in parts.items()
        ],
        "steps": chance.sample(["a", "b", "c"], chance.randrange(3)),
        "options": {name: chance.choice("xy") for name in chance.sample("abc", chance.randrange(1, 4))},
        "whole": {name: chance.choice("xy") for name in chance.sample("ab", chance.randrange(1, 3))},
        "nested": {"deep": chance.choice("xy")},
        "free": {"a": {name: chance.randrange(3) for name in chance.sample("xyz", chance.randrange(1, 4))}},
    }
    return found | {name: value for name, value in values.items() if chance.random() < 0.45}


def owners(document: dict[str, Any]) -> list[str]:
    return sorted(
        json.dumps({key: value for key, value in entry.items() if key != "time"}, sort_keys=True)
        for entry in document["metadata"].get("managedFields", [])
    )


def without_null(value: Any) -> Any:
    """A map that is emptied becomes null in the real server, and stays an empty map in ours: the known difference."""
    if isinstance(value, dict):
        return {name: {} if below is None else without_null(below) for name, below in value.items()}
    return value


def ours(current: dict[str, Any] | None, verb: str, manager: str, body: Any) -> dict[str, Any]:
    if verb in ("apply", "force"):
        made = applying.apply(current, body, manager=manager, force=verb == "force", schema=WIDGETS, time="t")
        return WIDGETS.default(made)
    assert current
    new = WIDGETS.default(WIDGETS.prune(patching.merge(current, body))[0])
    return applying.updated(current, new, manager=manager, schema=WIDGETS, time="t")


@pytest.mark.parametrize("seed", range(25))
def test_any_story_of_owners_ends_as_in_the_real_server(plane: ControlPlane, seed: int) -> None:
    """Spec, managedFields and conflicts after every step of a random story."""
    chance = random.Random(seed)  # noqa: S311
    current: dict[str, Any] | None = None
    for number in range(STEPS):
        verb = "force" if current is None else chance.choice(["apply", "apply", "force", "force", "merge"])
        manager, wanted = chance.choice(["alice", "bob", "carol"]), spec(chance)
        body: Any = {"spec": wanted} if verb == "merge" else widget(f"fuzz-{seed}", wanted)
        if verb == "merge" and chance.random() < 0.5:
            body["spec"][chance.choice(["size", "tags", "parts", "options"])] = None
        query = f"?fieldManager={manager}" + ("&force=true" if verb == "force" else "")
        answer = plane.request("PATCH", f"{FOLDERS['Widget']}/fuzz-{seed}{query}", body, TYPES[verb])
        where = (seed, number, verb, manager, body)
        if answer.status == 422 and EMPTIED.search(answer.body["message"]):
            return  # what is empty now was refused as null
        theirs = sorted((c["message"], c["field"]) for c in answer.body.get("details", {}).get("causes", []))
        try:
            mine = ours(current, verb, manager, body)
        except Refused as refused:
            status, causes = refused.status, refused.causes
        else:
            causes = tuple(WIDGETS.validate(mine, current))
            status = 422 if causes else answer.status
        assert (status, sorted((cause.message, cause.field) for cause in causes)) == (answer.status, theirs), where
        if causes:
            continue
        assert without_null(mine["spec"]) == without_null(answer.body["spec"]), where
        assert owners(mine) == owners(answer.body), where
        current = answer.body


def deployment(name: str, chance: random.Random) -> dict[str, Any]:
    """What one of several owners may say of a Deployment."""
    containers = [
        {
            "name": container,
            "image": chance.choice("xy"),
            **({"env": [{"name": n, "value": chance.choice("12")} for n in chance.sample("ABC", 2)]} if env else {}),
            **({"ports": [{"containerPort": port, "protocol": chance.choice(["TCP", "UDP"])}]} if port else {}),
            **({"resources": {"limits": {"cpu": chance.choice(["1", "2"])}}} if env else {}),
        }
        for container in chance.sample(["a", "b", "c"], chance.randrange(1, 3))
        for env, port in [(chance.random() < 0.5, chance.choice([0, 80, 81]))]
    ]
    more = {
        "nodeSelector": {chance.choice("ab"): chance.choice("xy")},
        "tolerations": [{"key": chance.choice("ab"), "operator": "Exists"}],
        "volumes": [{"name": chance.choice("uv"), "emptyDir": {}}],
        "schedulingGates": [{"name": chance.choice("gh")}],
    }
    pod = {"containers": containers} | {key: value for key, value in more.items() if chance.random() < 0.4}
    labels = {"app": name} | ({chance.choice("kl"): chance.choice("xy")} if chance.random() < 0.4 else {})
    spec = {"selector": {"matchLabels": {"app": name}}, "template": {"metadata": {"labels": labels}, "spec": pod}}
    spec |= {"replicas": chance.randrange(3)} if chance.random() < 0.4 else {}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "labels": labels}, "spec": spec}


@pytest.mark.parametrize("seed", range(15))
def test_the_owners_of_a_built_in_kind_are_those_of_the_real_server(plane: ControlPlane, seed: int) -> None:
    """Conflicts and managedFields; the rest of the document has defaults of the real server in it."""
    chance = random.Random(seed)  # noqa: S311
    schema = Schema.builtin("apps/v1", "Deployment")
    assert schema
    name, current, compared = f"fuzz-{seed}", None, 0
    for number in range(STEPS):
        verb = "force" if current is None else chance.choice(["apply", "apply", "force", "force", "strategic"])
        manager, body = chance.choice(["alice", "bob", "carol"]), deployment(name, chance)
        query = f"?fieldManager={manager}" + ("&force=true" if verb == "force" else "")
        answer = plane.request("PATCH", f"{FOLDERS['Deployment']}/{name}{query}", body, TYPES[verb])
        where = (seed, number, verb, manager, body)
        if answer.status == 422:
            continue  # the merged document breaks a rule of Deployments
        theirs = sorted((c["message"], c["field"]) for c in answer.body.get("details", {}).get("causes", []))
        causes: tuple[Any, ...] = ()
        try:
            if verb == "strategic":
                said = patching.strategic(current or {}, body, "apps/v1/Deployment")
                assert names(said) == names(answer.body), where
                bare = {**answer.body, "metadata": {**answer.body["metadata"], "managedFields": None}}
                mine = applying.updated(current, bare, manager=manager, schema=schema, time="t")
            else:
                mine = applying.apply(current, body, manager=manager, force=verb == "force", schema=schema, time="t")
                assert names(mine) == names(answer.body), where
        except applying.Conflicts as refused:
            causes = refused.causes
        assert sorted((cause.message, cause.field) for cause in causes) == theirs, where
        compared += 1
        if not causes:
            assert owners(mine) == owners(answer.body), where
            current = answer.body
    assert compared > STEPS // 3, "most of the story was refused"


def names(document: dict[str, Any]) -> list[Any]:
    """The containers in their order, with their images and the names of their variables."""
    return [
        (one["name"], one["image"], [variable["name"] for variable in one.get("env", ())])
        for one in document["spec"]["template"]["spec"]["containers"]
    ]
