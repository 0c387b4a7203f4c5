"""Schemas beyond what was asked of a real server: our own kinds, formats, what is shared, and rules nobody knows."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from muster.embedded.schema import Schema
from muster.embedded.validation import FORMATS, rules
from unit.embedded.asked import CHECKS, CRD, SCHEMA, widget

CRDS = [one for one in yaml.safe_load_all((Path(__file__).parents[3] / "deploy" / "crds.yaml").read_text()) if one]
OURS = [
    pytest.param(version["schema"]["openAPIV3Schema"], id=f"{crd['spec']['names']['kind']}-{version['name']}")
    for crd in CRDS
    for version in crd["spec"]["versions"]
]
WIDGETS = Schema(SCHEMA, checks=CHECKS, status=True)


@pytest.mark.parametrize("openapi", OURS)
def test_our_own_kinds_can_be_read(openapi: dict[str, Any]) -> None:
    """An unknown field is pruned and named, a wrong type is blamed at its place."""
    schema = Schema(openapi, status=True)
    pruned, unknown = schema.prune({"metadata": {"name": "a"}, "zzz": 1})
    if openapi.get("x-kubernetes-preserve-unknown-fields"):
        assert unknown == []
    else:
        assert (pruned, unknown) == ({"metadata": {"name": "a"}}, ["zzz"])
    wrong = schema.validate({"metadata": {"name": "a"}, "spec": "text"})
    assert ("FieldValueTypeInvalid", "spec") in {(cause.reason, cause.field) for cause in wrong}


@pytest.mark.parametrize("openapi", OURS)
def test_rules_that_nobody_checks_are_named_in_a_warning(openapi: dict[str, Any]) -> None:
    texts = set(rules(openapi))
    assert len(Schema(openapi).warnings) == len(texts)
    assert Schema(openapi, checks={text: lambda value, old: True for text in texts}).warnings == ()


def test_a_rule_is_answered_by_the_function_of_its_text() -> None:
    """It sees the value at its place; its own message wins over that of the schema."""
    openapi = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {"n": {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 1"}]}},
                "x-kubernetes-validations": [{"rule": "odd", "message": "must be odd", "fieldPath": ".n"}],
            }
        },
    }
    said = Schema(openapi, checks={"odd": lambda value, old: value["n"] % 2 == 1, "self > 1": lambda value, old: "no"})
    assert [tuple(cause) for cause in said.validate({"spec": {"n": 2}})] == [
        ("FieldValueInvalid", "Invalid value: must be odd", "spec.n"),
        ("FieldValueInvalid", "Invalid value: 2: no", "spec.n"),
    ]


def test_what_was_wrong_before_is_not_blamed_again() -> None:
    """A field that stayed as it was is let alone, also when the schema is stricter by now."""
    old = widget("w", {"color": "pink", "size": 500, "parts": [{"name": "a", "count": "many"}]})
    new = widget("w", {**old["spec"], "shade": "light"})
    assert WIDGETS.validate(new, old) == []
    assert len(WIDGETS.validate(new)) == 4  # with the note that rules were not looked at
    moved = widget("w", {**old["spec"], "size": 501})
    assert {cause.field for cause in WIDGETS.validate(moved, old)} == {"spec.size"}


def test_what_is_fine_is_not_copied() -> None:
    """Pruning and defaulting give back the very document that needs neither."""
    document = widget(
        "w", {"color": "red", "shade": "x", "parts": [{"name": "a", "kind": "b"}], "nested": {"deep": "x"}}
    )
    assert WIDGETS.prune(document)[0] is document
    assert WIDGETS.default(document) is document


@pytest.mark.parametrize(
    ("kind", "path", "expected"),
    [
        (("v1", "Pod"), ("spec", "containers"), ("map", ("name",))),
        (("v1", "Pod"), ("spec", "containers", "ports"), ("map", ("containerPort", "protocol"))),
        (("v1", "Pod"), ("spec", "tolerations"), ("atomic", ())),
        (("v1", "Pod"), ("metadata", "finalizers"), ("set", ())),
        (("v1", "Pod"), ("metadata", "ownerReferences"), ("map", ("uid",))),
        (("v1", "Node"), ("status", "conditions"), ("map", ("type",))),
        (("v1", "Pod"), ("spec", "nothing"), ("atomic", ())),
    ],
)
def test_lists_of_built_in_kinds(kind: tuple[str, str], path: tuple[str, ...], expected: Any) -> None:
    schema = Schema.builtin(*kind)
    assert schema
    assert schema.list_type(path) == expected


def test_built_in_kinds_are_known_by_version_and_kind() -> None:
    assert Schema.builtin("v1", "Nonsense") is None
    pod = Schema.builtin("v1", "Pod")
    assert pod
    assert pod.status
    assert not pod.custom
    sent = {
        "kind": "Pod",
        "spec": {"containers": [{"name": "a", "imagee": "x"}], "hostNetwrok": True},
        "metadata": {"x": 1},
    }
    pruned, unknown = pod.prune(sent)
    assert unknown == ["spec.containers[0].imagee", "spec.hostNetwrok", "metadata.x"]  # as they come
    assert pruned == {"kind": "Pod", "spec": {"containers": [{"name": "a"}]}, "metadata": {}}


def test_the_schema_of_the_definition_itself_keeps_schemas() -> None:
    """A CustomResourceDefinition passes through whole."""
    schema = Schema.builtin("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    assert schema
    assert schema.prune(CRD) == (CRD, [])


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("datetime", "2026-01-02T03:04:05.5+01:00", "2026-13-02T03:04:05Z"),
        ("date", "2026-02-28", "2026-02-30"),
        ("duration", "1h5m", "soon"),
        ("byte", "aGk=", "a"),
        ("ipv4", "10.0.0.1", "10.0.0"),
        ("ipv6", "::1", "1.2.3.4"),
        ("cidr", "10.0.0.0/8", "10.0.0.0"),
        ("hostname", "a.example.com", "-a"),
        ("email", "a@b", "ab"),
        ("uuid", "123e4567-e89b-12d3-a456-426614174000", "123"),
        ("uri", "https://example.com/x", "nothing"),
        ("mac", "00:11:22:33:44:55", "00:11"),
        ("k8sshortname", "a-b", "A"),
        ("k8slongname", "a.b", ".b"),
    ],
)
def test_formats(name: str, good: str, bad: str) -> None:
    assert FORMATS[name](good)
    assert not FORMATS[name](bad)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 200) | st.text("ab", max_size=6),
    lambda below: (
        st.lists(below, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "kind", "count", "deep", "a"]), below, max_size=3)
    ),
    max_leaves=6,
)
ANY_SPECS = st.dictionaries(st.sampled_from(sorted(SCHEMA["properties"]["spec"]["properties"])), VALUES, max_size=5)


@given(ANY_SPECS)
def test_any_document_gets_an_answer_and_the_same_one_twice(spec: Any) -> None:
    """Pruned and filled in once is enough; nothing raises, whatever is sent."""
    pruned, _ = WIDGETS.prune(widget("w", spec))
    filled = WIDGETS.default(pruned)
    assert WIDGETS.prune(filled) == (filled, [])
    assert WIDGETS.default(filled) is filled
    assert WIDGETS.validate(filled) == WIDGETS.validate(filled)
    assert WIDGETS.validate(filled, filled) == []
