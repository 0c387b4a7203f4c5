"""The embedded API server asks our webhook about what an installation asks it about, and passes its word on."""

import json
from typing import Any

import pytest

from muster.cli.installation import Wishes, installation
from muster.embedded.exchange import Answer, Request, encode
from muster.embedded.server import Server
from muster.serve.webhook.admitting import NAME, Admitting
from muster.serve.webhook.answers import Webhook, admission_context
from muster.telemetry import SILENT, Metrics
from unit.api.test_rules import served
from unit.serve.rules import KNOWN, gang, leaf, queue, topology

GANGS = "/apis/scheduling.run.ai/v2alpha2/namespaces/default/podgroups"
QUEUES = "/apis/scheduling.run.ai/v2/queues"
TOPOLOGIES = "/apis/kai.scheduler/v1alpha1/topologies"
MAPS = "/api/v1/namespaces/default/configmaps"
US = "system:serviceaccount:muster-system:muster"
ORPHANS = gang(subGroups=[leaf("a", parent="b"), leaf("c", parent="d")])


class Asking:
    """An embedded server, and the reviews that it sends."""

    def __init__(self) -> None:
        self.metrics = Metrics()
        self.webhook = Webhook(lambda: admission_context(KNOWN), metrics=self.metrics, log=SILENT)
        self.reviews: list[dict[str, Any]] = []
        self.server: Server = served(reviews=[Admitting(self._ask, US)])

    def _ask(self, body: bytes) -> bytes:
        self.reviews.append(json.loads(body)["request"])
        return self.webhook.answer(body)

    def __call__(self, method: str, path: str, body: Any = None, user: str = "admin", **query: str) -> Answer:
        data = b"" if body is None else encode(body)
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        return self.server.handle(Request(method, path, query, {"content-type": kind}, data, user))


@pytest.fixture
def asking():
    return Asking()


def test_a_refusal_names_every_violation_with_its_hint(asking):
    answer = asking("POST", GANGS, ORPHANS)
    said = answer.json()
    assert (answer.status, said["reason"]) == (422, "Invalid")
    assert said["message"].startswith(f'admission webhook "{NAME}" denied the request: ')
    assert {one["field"] for one in said["details"]["causes"]} == {
        "spec.subGroups[0].parent",
        "spec.subGroups[1].parent",
    }
    assert (said["details"]["kind"], said["details"]["name"]) == ("PodGroup", "g")


def test_warnings_come_back_as_warnings(asking):
    answer = asking("POST", GANGS, gang(minMember=1, queue="nowhere"))
    assert answer.status == 201
    (warning,) = [value for name, value in answer.headers if name == "Warning"]
    assert "nowhere" in warning


def test_a_review_says_what_is_asked_and_by_whom(asking):
    asking("POST", GANGS, gang(minMember=1), user="alice", dryRun="All")
    (review,) = asking.reviews
    assert review["operation"] == "CREATE"
    assert review["userInfo"] == {"username": "alice"}
    assert (review["name"], review["namespace"], review["dryRun"]) == ("g", "default", True)
    assert review["kind"] == {"group": "scheduling.run.ai", "version": "v2alpha2", "kind": "PodGroup"}
    assert (review["object"]["spec"], review["oldObject"]) == ({"minMember": 1}, None)


def test_who_is_asked_about_what(asking):
    """Our kinds, as they are written; the deletion of a Queue; nothing else."""
    asking("POST", GANGS, gang(minMember=1))
    asking("POST", QUEUES, queue("q"))
    asking("POST", TOPOLOGIES, topology("zone"))
    asking("POST", MAPS, {"metadata": {"name": "m"}})
    asking("PATCH", f"{GANGS}/g", {"metadata": {"labels": {"a": "b"}}})
    asking("PATCH", f"{GANGS}/g/status", {"status": {"phase": "Pending"}})
    for path in (f"{GANGS}/g", f"{QUEUES}/q", f"{TOPOLOGIES}/dc", f"{MAPS}/m"):
        assert asking("DELETE", path).status == 200
    seen = [(one["operation"], one["kind"]["kind"]) for one in asking.reviews]
    assert seen == [
        *(("CREATE", kind) for kind in ("PodGroup", "Queue", "Topology")),
        ("UPDATE", "PodGroup"),
        ("DELETE", "Queue"),
    ]


def test_what_muster_itself_writes_is_not_asked_about(asking):
    assert asking("POST", GANGS, ORPHANS, user=US).status == 201
    assert asking.reviews == []


def test_what_is_going_can_always_go(asking):
    held = {**ORPHANS, "metadata": {"name": "g", "finalizers": ["example.com/held"]}}
    assert asking("POST", GANGS, held, user=US).status == 201
    asking("DELETE", f"{GANGS}/g")
    assert asking("PATCH", f"{GANGS}/g", {"metadata": {"finalizers": []}}).status == 200
    assert asking("GET", f"{GANGS}/g").status == 404


def test_a_queue_with_children_stays(asking):
    asking("POST", QUEUES, queue("dept"), user=US)
    answer = asking("DELETE", f"{QUEUES}/dept")
    assert answer.status == 422
    assert "team" in answer.json()["message"]


def test_reviews_are_counted_as_those_of_any_cluster(asking):
    asking("POST", GANGS, ORPHANS)
    labels = {"kind": "PodGroup", "operation": "CREATE", "result": "denied"}
    assert asking.metrics.registry.get_sample_value("muster_webhook_requests_total", labels) == 1


def test_it_is_called_and_asked_as_it_is_installed():
    (hook,) = next(
        piece.document for piece in installation(Wishes()) if piece.document["kind"] == "ValidatingWebhookConfiguration"
    )["webhooks"]
    assert hook["name"] == NAME
    assert [rule["resources"] for rule in hook["rules"] if "DELETE" in rule["operations"]] == [["queues"]]
    assert f"!= '{US}'" in hook["matchConditions"][0]["expression"]
