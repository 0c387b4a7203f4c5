"""The embedded API server lets only muster write admission marks and move bound pods from gang to gang."""

from typing import Any

import pytest

from muster.embedded.exchange import Request, encode
from muster.embedded.server import Server
from muster.serve.webhook.guarding import Guarding
from unit.api.test_rules import served
from unit.serve.tenants import ADMIN, MARK, MUSTER, PODS, TENANT, binding, play, pod

US = "system:serviceaccount:muster-system:muster"
USERS = {ADMIN: "admin", TENANT: "ann", MUSTER: US}


def ask(server: Server, who: str, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    data = b"" if body is None else encode(body)
    found = server.handle(Request(method, path, {}, {"content-type": kind}, data, USERS[who]))
    return found.status, found.json()


@pytest.fixture
def server():
    return served(reviews=[Guarding(US, ["kai-scheduler"])])


def test_marks_and_membership_are_for_muster_to_write(server):
    assert play(lambda who, method, path, body: ask(server, who, method, path, body)) == []


def test_the_mark_of_a_binding_stays_with_the_pod(server):
    """Whatever else is written to it."""
    ask(server, TENANT, "POST", PODS, pod("p"))
    ask(server, MUSTER, "POST", f"{PODS}/p/binding", binding("p", "team/uid"))
    ask(server, ADMIN, "PATCH", f"{PODS}/p/status", {"status": {"phase": "Running"}})
    ask(server, TENANT, "PATCH", f"{PODS}/p", {"metadata": {"labels": {"a": "b"}}})
    assert ask(server, TENANT, "GET", f"{PODS}/p")[1]["metadata"]["annotations"][MARK] == "team/uid"
