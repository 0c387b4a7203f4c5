"""What a real server refuses, and why: whole clusters of objects, kinds that do not exist, values that can't be."""

from typing import Any

import pytest

from muster.embedded.exchange import Request
from muster.embedded.protobuf import CONTENT_TYPE, MAGIC
from unit.embedded.cluster import MERGE, PODS, Cluster, pod
from unit.embedded.test_server import DEFINITIONS, MAPS, THINGS, thing, things


def test_the_objects_of_all_namespaces_are_not_deleted_at_once() -> None:
    cluster = Cluster()
    cluster.create(PODS, pod("p"))
    assert cluster("DELETE", "/api/v1/pods")["_code"] == 405
    cluster.create(DEFINITIONS, things())
    cluster.create(THINGS, thing("t", size=1))
    assert cluster.server.handle(Request("DELETE", "/apis/example.com/v1/things")).status == 404
    assert "p" in cluster.pods()
    assert cluster("GET", f"{THINGS}/t")["_code"] == 200
    assert cluster("DELETE", PODS)["_code"] == 200


@pytest.mark.parametrize("path", ["/api", "/apis", "/api/v1", "/apis/batch", "/apis/batch/v1", "/version"])
def test_what_can_only_be_read_is_405_for_all_else(path: str) -> None:
    server = Cluster().server
    assert [server.handle(Request(method, path)).status for method in ("GET", "DELETE", "POST")] == [200, 405, 405]


def _protobuf(api_version: str, kind: str) -> bytes:
    def field(number: int, value: bytes) -> bytes:
        return bytes([number << 3 | 2, len(value)]) + value

    return MAGIC + field(1, field(1, api_version.encode()) + field(2, kind.encode())) + field(2, b"")


@pytest.mark.parametrize(
    ("path", "api_version", "kind"),
    [
        ("/apis/batch/v1/namespaces/default/cronjobs", "batch/v1", "CronJob"),
        ("/api/v1/namespaces/default/resourcequotas", "v1", "ResourceQuota"),
        ("/apis/networking.k8s.io/v1/namespaces/default/ingresses", "networking.k8s.io/v1", "Ingress"),
        ("/api/v1/namespaces/default/serviceaccounts/a/token", "authentication.k8s.io/v1", "TokenRequest"),
    ],
)
def test_a_kind_that_is_not_served_is_not_found_in_any_language(path: str, api_version: str, kind: str) -> None:
    request = Request("POST", path, {}, {"content-type": CONTENT_TYPE}, _protobuf(api_version, kind))
    assert Cluster().server.handle(request).status == 404


@pytest.mark.parametrize("body", [b'{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1"}', b""])
def test_who_asks_is_told_who_it_is(body: bytes) -> None:
    """Also in protobuf, which kubectl auth whoami sends."""
    kind = "application/json" if body else CONTENT_TYPE
    body = body or _protobuf("authentication.k8s.io/v1", "SelfSubjectReview")
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    found = Cluster().server.handle(Request("POST", path, {}, {"content-type": kind}, body, "alice"))
    assert found.status == 201
    assert found.json()["status"]["userInfo"] == {"username": "alice", "groups": ["system:authenticated"]}


def _limited(amount: Any) -> dict[str, Any]:
    made = pod("p")
    made["spec"]["containers"][0]["resources"] = {"limits": {"cpu": amount}}
    return made


@pytest.mark.parametrize("amount", ["abc", "", "1 Gi", "1K", "--1", "٣", "1e", True])
def test_a_quantity_that_is_none_is_refused(amount: Any) -> None:
    cluster = Cluster()
    assert cluster("POST", PODS, _limited(amount))["_code"] == 400
    assert not cluster.pods()
    assert cluster("PATCH", "/api/v1/nodes/n/status", {"status": {"capacity": {"cpu": amount}}}, MERGE)["_code"] >= 400


@pytest.mark.parametrize("amount", ["1", 1, 0.5, "100m", "1e3", ".5", "1.", "1e30", "+1Ki", None])
def test_a_quantity_is_taken(amount: Any) -> None:
    assert Cluster()("POST", PODS, _limited(amount))["_code"] == 201


def _map(**more: Any) -> dict[str, Any]:
    return {"metadata": {"name": "m"}, **more}


CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


@pytest.mark.parametrize(
    ("path", "body", "code", "says"),
    [
        (MAPS, _map(data={"a/b": "c"}), 422, "data[a/b]: Invalid value"),
        (MAPS, _map(data={"a": "x" * (1 << 20), "b": "y"}), 422, "Too long: may not be more than 1048576 bytes"),
        (
            MAPS,
            {"metadata": {"name": "m", "annotations": {"a": "x" * (1 << 18)}}},
            422,
            "metadata.annotations: Too long",
        ),
        (MAPS, {"metadata": {"name": "m", "finalizers": ["foo"]}}, 422, "neither a standard finalizer"),
        (f"{MAPS}?fieldValidation=foo", _map(), 422, 'fieldValidation: Unsupported value: "foo"'),
        (f"{MAPS}?fieldManager={'x' * 200}", _map(), 422, "fieldManager: Too long"),
        ("/api/v1/namespaces/default/secrets", _map(data={"a b": "eA=="}), 422, "data[a b]: Invalid value"),
        (PODS, {**pod("p"), "spec": {**pod("p")["spec"], "priority": 5}}, 403, "priority (5) must not be provided"),
        (
            CLASSES,
            {"metadata": {"name": "b"}, "value": 2, "globalDefault": True},
            403,
            "a is already marked as default",
        ),
    ],
)
def test_an_object_that_a_real_server_refuses_is_refused(path: str, body: Any, code: int, says: str) -> None:
    cluster = Cluster()
    cluster.create(CLASSES, {"metadata": {"name": "a"}, "value": 1, "globalDefault": True})
    refused = cluster("POST", path, body)
    assert (refused["_code"], says in refused["message"]) == (code, True), refused


def test_what_is_just_small_enough_is_taken() -> None:
    cluster = Cluster()
    cluster.create(MAPS, _map(data={"a": "x" * (1 << 20)}))
    said = {"name": "n", "annotations": {"a": "x" * ((1 << 18) - 1)}, "finalizers": ["foo/bar", "orphan"]}
    cluster.create(f"{MAPS}?fieldManager={'x' * 128}", {"metadata": said})


def test_a_deletion_says_once_what_becomes_of_dependents() -> None:
    cluster = Cluster()
    cluster.create(MAPS, _map())
    refused = cluster("DELETE", f"{MAPS}/m", {"orphanDependents": True, "propagationPolicy": "Orphan"})
    assert (refused["_code"], refused["details"]["causes"][0]["field"]) == (422, "propagationPolicy")


def test_the_kind_that_a_definition_defines_stays() -> None:
    cluster = Cluster()
    cluster.create(DEFINITIONS, things())
    new = {"spec": {"names": {"kind": "Other", "listKind": "OtherList"}}}
    refused = cluster("PATCH", f"{DEFINITIONS}/things.example.com", new, MERGE)
    assert (refused["_code"], refused["details"]["causes"][0]["field"]) == (422, "spec.names.kind")


def test_the_node_selector_of_a_gated_pod_may_only_get_longer() -> None:
    cluster = Cluster()
    made = pod("p")
    made["spec"] |= {"schedulingGates": [{"name": "a/b"}], "nodeSelector": {"rack": "a"}}
    cluster.create(PODS, made)
    for new in ({"rack": "b"}, {"rack": None}):
        refused = cluster("PATCH", f"{PODS}/p", {"spec": {"nodeSelector": new}}, MERGE)
        assert (refused["_code"], refused["details"]["causes"][0]["field"]) == (422, "spec.nodeSelector")
    assert cluster("PATCH", f"{PODS}/p", {"spec": {"nodeSelector": {"zone": "z"}}}, MERGE)["_code"] == 200


@pytest.mark.parametrize(("word", "watches"), [("true", 1), ("maybe", 1), ("", 1), ("0", 0), ("False", 0)])
def test_every_word_but_no_asks_for_a_watch(word: str, watches: bool) -> None:
    server = Cluster().server
    assert server.is_watch(Request("GET", PODS, {"watch": word})) is bool(watches)
    assert not server.is_watch(Request("GET", PODS))
