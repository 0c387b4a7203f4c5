"""The CRDs are structural schemas, say what every field is, and carry the promised columns and rules."""

from collections.abc import Iterator
from typing import Any

import pytest

from muster.api.crd import custom_resource_definitions

CRDS = {crd["spec"]["names"]["kind"]: crd for crd in custom_resource_definitions()}


def schemas(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema in a schema, with its path."""
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from schemas(child, f"{path}.{name}")
    for key, mark in (("items", "[]"), ("additionalProperties", "{}")):
        if isinstance(schema.get(key), dict):
            yield from schemas(schema[key], path + mark)


def root(kind: str) -> dict[str, Any]:
    found: dict[str, Any] = CRDS[kind]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return found


@pytest.mark.parametrize("kind", CRDS)
def test_schemas_are_structural(kind):
    """Everything has a type, or is an integer-or-string, or keeps unknown fields; nothing of our own notes is left."""
    for path, schema in schemas(root(kind)):
        open_ended = schema.get("x-kubernetes-preserve-unknown-fields") or schema.get("x-kubernetes-int-or-string")
        assert ("type" in schema) != bool(open_ended) or schema.get("type") == "object", path
        assert schema.get("type") != "array" or "items" in schema, path
        assert not [key for key in schema if key.startswith("x-muster")], path
        assert not {"$ref", "oneOf", "nullable", "default"} & set(schema), path
        assert set(schema.get("required", ())) <= set(schema.get("properties", ())), path


@pytest.mark.parametrize("kind", CRDS)
def test_every_field_is_described(kind):
    """`kubectl explain` has something to say about every field below spec and status."""
    for path, schema in schemas(root(kind)):
        named = not path.endswith(("[]", "{}"))
        if named and path.count(".") > 0 and not path.startswith((".apiVersion", ".kind", ".metadata")):
            assert schema.get("description"), path


@pytest.mark.parametrize("kind", CRDS)
def test_lists_and_texts_that_rules_read_are_bounded(kind):
    """CEL's cost is estimated from the bounds: what stands beside or below a rule has one."""
    ruled = [path for path, schema in schemas(root(kind)) if "x-kubernetes-validations" in schema]
    for path, schema in schemas(root(kind)):
        if any(path.startswith(rule) for rule in ruled) and path.startswith(".spec"):
            if schema.get("type") == "array":
                assert "maxItems" in schema, path
            if schema.get("type") == "string":
                assert {"maxLength", "enum", "format"} & set(schema), path


def test_columns_of_kubectl_get_pg():
    columns = CRDS["PodGroup"]["spec"]["versions"][0]["additionalPrinterColumns"]
    shown = [column["name"].upper() for column in columns if not column.get("priority")]
    assert shown == ["STATUS", "READY", "PODS", "QUEUE", "DOMAIN", "REASON", "AGE"]


@pytest.mark.parametrize(
    ("kind", "name", "scope", "version", "short", "status"),
    [
        ("PodGroup", "podgroups.scheduling.run.ai", "Namespaced", "v2alpha2", ["pg"], True),
        ("Queue", "queues.scheduling.run.ai", "Cluster", "v2", None, True),
        ("Topology", "topologies.kai.scheduler", "Cluster", "v1alpha1", None, False),
        ("ResourceInterface", "resourceinterfaces.kai.scheduler", "Cluster", "v1", ["ri"], True),
    ],
)
def test_names(kind, name, scope, version, short, status):
    crd = CRDS[kind]
    assert crd["metadata"]["name"] == name
    assert crd["spec"]["scope"] == scope
    assert [one["name"] for one in crd["spec"]["versions"]] == [version]
    assert crd["spec"]["names"].get("shortNames") == short
    assert ("subresources" in crd["spec"]["versions"][0]) == status


def test_what_the_issue_names_is_there():
    """Enums, minimums, list-map keys, mutual exclusion, uniqueness, immutability."""
    spec = root("PodGroup")["properties"]["spec"]
    assert spec["properties"]["preemptibility"]["enum"] == ["", "preemptible", "non-preemptible", "semi-preemptible"]
    assert spec["properties"]["minMember"]["minimum"] == 0
    assert spec["properties"]["subGroups"]["x-kubernetes-list-map-keys"] == ["name"]
    assert any("minSubGroup" in rule["rule"] for rule in spec["x-kubernetes-validations"])
    levels = root("Topology")["properties"]["spec"]["x-kubernetes-validations"]
    assert any("exists_one" in rule["rule"] for rule in levels)
    assert any("oldSelf" in rule["rule"] for rule in levels)
