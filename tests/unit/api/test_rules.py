"""The rules of our kinds as functions: each holds and breaks where its CEL does (tests/e2e/test_rules.py asks a real
API server about the same cases).
"""

import itertools
import uuid
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import pytest

from muster.api.crd import custom_resource_definitions
from muster.api.kinds import OUR_KINDS
from muster.api.rules import CHECKS, RULES
from muster.embedded.core import Review
from muster.embedded.exchange import Request, encode
from muster.embedded.server import Server
from muster.embedded.store import Store
from muster.embedded.validation import rules

HOSTNAME = "kubernetes.io/hostname"


class Case(NamedTuple):
    """A spec, what it replaces if anything, and a part of what is said against it; nothing: it is fine."""

    kind: str
    spec: dict[str, Any]
    says: str = ""
    old: dict[str, Any] | None = None


def leaf(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "minMember": 1, **more}


def levels(*labels: str) -> dict[str, Any]:
    return {"levels": [{"nodeLabel": label} for label in labels]}


def reading(group: str | None, kind: str, **more: Any) -> dict[str, Any]:
    gvk = {"version": "v1", "kind": kind, **({} if group is None else {"group": group})}
    reference = {"name": "r", "gvk": gvk, **more}
    return {"targetGVK": {"group": "g.example.com", "version": "*", "kind": "K"}, "references": [reference]}


def evicting(pod: str) -> dict[str, Any]:
    gang = {"namespace": "default", "name": "g", "uid": "1"}
    return {"beneficiary": gang, "victims": [{"namespace": "default", "name": pod, "uid": "2"}]}


LOOKUP = {"lookup": {"root": "owner", "namePath": ".spec.x"}}
LIST = {"list": {"matchLabels": {"a": ".metadata.name"}}}
BOTH, NONE, PARENT = "can't both be set", "there are none", "can't be its own parent"
CASES = [
    Case("PodGroup", {}),
    Case("PodGroup", {"minMember": 2}),
    Case("PodGroup", {"minMember": 2, "minSubGroup": 1, "subGroups": [leaf("a")]}, BOTH),
    Case("PodGroup", {"minMember": 0, "minSubGroup": 1, "subGroups": [leaf("a")]}),
    Case("PodGroup", {"minMember": None, "minSubGroup": 1, "subGroups": [leaf("a")]}),
    Case("PodGroup", {"subGroups": [leaf("a")], "subgroups": [leaf("b")]}, "keep subGroups"),
    Case("PodGroup", {"subGroups": [], "subgroups": [leaf("b")]}, "keep subGroups"),
    Case("PodGroup", {"subgroups": [leaf("b")]}),
    Case("PodGroup", {"minSubGroup": 1}, NONE),
    Case("PodGroup", {"minSubGroup": 1, "subGroups": []}, NONE),
    Case("PodGroup", {"minSubGroup": 0}, NONE),
    Case("PodGroup", {"minSubGroup": 1, "subGroups": [leaf("a")]}),
    Case("PodGroup", {"minSubGroup": 1, "subgroups": [leaf("a")]}),
    Case("PodGroup", {"minSubGroup": 2, "subGroups": [leaf("a"), leaf("b", parent="a")]}, "directly below"),
    Case("PodGroup", {"minSubGroup": 2, "subGroups": [leaf("a"), leaf("b", parent="")]}),
    Case("PodGroup", {"minSubGroup": 3, "subgroups": [leaf("a"), leaf("b")]}, "directly below"),
    Case("PodGroup", {"subGroups": [leaf("a", minSubGroup=1)]}, BOTH),
    Case("PodGroup", {"subGroups": [leaf("a", minMember=0, minSubGroup=1)]}),
    Case("PodGroup", {"subGroups": [leaf("a", parent="a")]}, PARENT),
    Case("PodGroup", {"subGroups": [leaf("a", parent="b")]}),
    # What was so before is not blamed when something else changes.
    Case("Topology", levels("zone", "rack")),
    Case("Topology", levels("rack", "rack"), "nodeLabel of its own"),
    Case("Topology", levels("zone", HOSTNAME)),
    Case("Topology", levels(HOSTNAME)),
    Case("Topology", levels(HOSTNAME, "zone"), "comes last"),
    Case("Topology", levels("zone", "block"), "as they were created", levels("zone", "rack")),
    Case("Topology", levels("zone"), "as they were created", levels("zone", "rack")),
    Case("Topology", {"levels": [{"nodeLabel": "zone", "alias": "z"}]}, "", levels("zone")),
    Case("Queue", {}),
    Case("Queue", {"parentQueue": "NAME"}, PARENT),
    Case("Queue", {"parentQueue": ""}),
    Case("Queue", {"parentQueue": "other"}),
    *(
        Case("Queue", {"resources": {resource: {field: amount}}}, says)
        for resource, field, (amount, says) in itertools.product(
            ("cpu", "memory", "gpu"),
            ("quota", "limit"),
            ((-1, ""), (0, ""), (2.5, ""), (-0.5, "-1 (unlimited) or 0 or more")),
        )
    ),
    Case("EvictionRequest", evicting("a")),
    Case("EvictionRequest", evicting("a"), "", evicting("a")),
    Case("EvictionRequest", evicting("a"), "stays as it was created", evicting("b")),
    Case("ResourceInterface", reading("", "Pod", **LOOKUP)),
    Case("ResourceInterface", reading("", "Secret", **LOOKUP), "can't be read"),
    Case("ResourceInterface", reading("", "ConfigMap", **LIST), "can't be read"),
    Case("ResourceInterface", reading("secrets.example.com", "Secret", **LOOKUP)),
    Case("ResourceInterface", reading("", "Pod", **LOOKUP, **LIST), "either lookup or list"),
    Case("ResourceInterface", reading("", "Pod"), "either lookup or list"),
]


class Written(NamedTuple):
    """What becomes of a case: the code, and every cause as field and message."""

    code: int
    causes: list[tuple[str, str]]


def document(case: Case, spec: dict[str, Any], name: str) -> dict[str, Any]:
    kind = next(one for one in OUR_KINDS if one.name == case.kind)
    named = {field: name if value == "NAME" else value for field, value in spec.items()}
    return {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": name}, "spec": named}


def folder(case: Case) -> str:
    kind = next(one for one in OUR_KINDS if one.name == case.kind)
    return f"/apis/{kind.api_version}/{'namespaces/default/' if kind.namespaced else ''}{kind.plural}"


def written(case: Case, send: Any, name: str) -> Written:
    """Create the case, or the old one and then this in its place. `send(method, path, body) -> (code, document)`."""
    path = folder(case)
    if case.old is None:
        code, said = send("POST", path, document(case, case.spec, name))
    else:
        code, old = send("POST", path, document(case, case.old, name))
        assert code == 201, old
        new = document(case, case.spec, name)
        new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        code, said = send("PUT", f"{path}/{name}", new)
    causes = (said.get("details") or {}).get("causes") or ()
    return Written(code, sorted((one.get("field", ""), one["message"]) for one in causes))


def served(reviews: Sequence[Review] = ()) -> Server:
    """An embedded server that has our kinds and their rules."""
    count = itertools.count()
    server = Server(
        Store(),
        clock=lambda: 1.8e9,
        new_uid=lambda: str(uuid.UUID(int=next(count))),
        suffix=lambda: "abcde",
        checks=CHECKS,
        reviews=reviews,
    )
    for definition in custom_resource_definitions():
        code, said = sent(server, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
        assert code == 201, said
    return server


def sent(server: Server, method: str, path: str, body: Any) -> tuple[int, Any]:
    """One request, and the code and document of its answer."""
    found = server.handle(Request(method, path, headers={"content-type": "application/json"}, body=encode(body)))
    return found.status, found.json()


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.kind} {case.says}")
def test_a_case_is_judged(case):
    code, causes = written(case, partial(sent, served()), "a")
    assert (code >= 400) == bool(case.says), causes
    if case.says:
        assert any(case.says in message for _, message in causes)


def test_every_rule_of_the_definitions_has_its_function():
    texts = {
        text
        for definition in custom_resource_definitions()
        for version in definition["spec"]["versions"]
        for text in rules(version["schema"]["openAPIV3Schema"])
    }
    assert texts == set(CHECKS)


def test_every_rule_is_broken_by_some_case():
    said = {case.says for case in CASES if case.says}
    for found in itertools.chain.from_iterable(RULES.values()):
        assert any(words in found.says for words in said), found.text
