"""Small forms: quantities, ages, paths into documents, discovery and OpenAPI as kubectl reads them."""

import pytest

from fidelity.sides import fresh
from muster.embedded.columns import duration
from muster.embedded.exchange import Request
from muster.embedded.jsonpath import find
from muster.embedded.kinds import Kinds
from muster.embedded.openapi import document
from muster.embedded.quantities import canonical
from unit.embedded.cluster import Cluster


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("0.5", "500m"),
        ("1.5Gi", "1536Mi"),
        ("1024Mi", "1Gi"),
        ("1000Ki", "1000Ki"),
        ("512", "512"),
        ("1024", "1024"),
        ("0.5Ki", "512"),
        ("1e3", "1e3"),
        ("100000", "100k"),
        ("0", "0"),
        ("-1", "-1"),
        (8, "8"),
        (0.5, "500m"),
        ("nonsense", "nonsense"),
    ],
)
def test_quantities_are_kept_in_their_short_form(text: object, short: str) -> None:
    assert canonical(text) == short


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (121, "2m1s"),
        (600, "10m"),
        (10799, "179m"),
        (10800, "3h"),
        (11000, "3h3m"),
        (30000, "8h"),
        (172800, "2d"),
        (180000, "2d2h"),
        (86400 * 10, "10d"),
        (86400 * 800, "2y70d"),
        (-5, "<invalid>"),
    ],
)
def test_ages_are_said_as_kubectl_does(seconds: int, said: str) -> None:
    assert duration(seconds) == said


@pytest.mark.parametrize(
    ("path", "values"),
    [
        (".a.b", [1]),
        (".list[0].name", ["x"]),
        (".list[-1].name", ["y"]),
        (".list[*].name", ["x", "y"]),
        (".list[-1:].name", ["y"]),
        (".list[:1].name", ["x"]),
        (".list[:].name", ["x", "y"]),
        (".list[7:].name", []),
        (".list[-:]", []),
        ('.list[?(@.name=="y")].size', [2]),
        (".a['b']", [1]),
        (".nothing.there", []),
        (".list[7]", []),
        ("][", []),
    ],
)
def test_paths_into_documents(path: str, values: list[object]) -> None:
    found = {"a": {"b": 1}, "list": [{"name": "x", "size": 1}, {"name": "y", "size": 2}]}
    assert find(found, path) == values


def test_every_kind_that_can_be_written_says_so_in_openapi() -> None:
    """kubectl only lets the server check fields of kinds whose PATCH takes `fieldValidation`."""
    kinds = Kinds()
    for resource in kinds:
        spec = document(kinds, resource.path)
        assert spec
        if "patch" not in resource.verbs:
            continue
        place = f"/{resource.path}/" + ("namespaces/{namespace}/" if resource.namespaced else "") + resource.plural
        patch = spec["paths"][f"{place}/{{name}}"]["patch"]
        assert "fieldValidation" in [one["name"] for one in patch["parameters"]]
        assert patch["x-kubernetes-group-version-kind"]["kind"] == resource.kind


def test_every_reference_in_openapi_leads_somewhere() -> None:
    kinds = Kinds()

    def references(value: object) -> list[str]:
        if isinstance(value, dict):
            own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
            return own + [one for below in value.values() for one in references(below)]
        if isinstance(value, list):
            return [one for below in value for one in references(below)]
        return []

    for path in {one.path for one in kinds}:
        spec = document(kinds, path)
        assert spec
        known = {f"#/components/schemas/{name}" for name in spec["components"]["schemas"]}
        assert set(references(spec)) <= known


def test_both_forms_of_discovery_name_the_same_resources() -> None:
    server = fresh()
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
    for root in ("/api", "/apis"):
        found = server.handle(Request("GET", root, headers={"accept": accept}))
        assert "apidiscovery" in dict(found.headers)["Content-Type"]
        for group in found.json()["items"]:
            for version in group["versions"]:
                name = group["metadata"].get("name")
                path = f"/apis/{name}/{version['version']}" if name else f"/api/{version['version']}"
                old = server.handle(Request("GET", path)).json()["resources"]
                plain = [one["name"] for one in old if "/" not in one["name"]]
                assert plain == [one["resource"] for one in version["resources"]]


def test_the_index_of_openapi_changes_when_a_kind_is_defined() -> None:
    """kubectl keeps documents by their hash."""
    from fidelity.custom import definition

    cluster = Cluster()
    before = cluster("GET", "/openapi/v3")["paths"]
    made = definition()
    made["metadata"]["name"] = "things.example.com"
    made["spec"]["group"] = "example.com"
    cluster.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", made)
    after = cluster("GET", "/openapi/v3")["paths"]
    assert set(after) - set(before) == {"apis/example.com/v1"}
    assert all(after[path] == before[path] for path in before)
