"""A real API server and an embedded one judge our kinds alike: the schema, the rules in CEL, and the webhook's word."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from e2e.plane import ControlPlane, gate
from e2e.plane.access import Answer
from e2e.test_webhook import NAME as NAME_HERE
from e2e.test_webhook import install, sent, webhook_of
from muster.embedded.exchange import Request, encode
from muster.serve.webhook.admitting import NAME, Admitting
from muster.serve.webhook.answers import Webhook, admission_context
from muster.telemetry import SILENT, Metrics
from unit.api.test_rules import CASES, Case, served, written
from unit.api.test_rules import sent as send
from unit.serve.rules import ERRORS, KNOWN, WARNINGS

gate.require()

ROOT = Path(__file__).parents[2]


class Embedded:
    """An embedded server that is asked as a control plane is."""

    def __init__(self) -> None:
        webhook = Webhook(lambda: admission_context(KNOWN), metrics=Metrics(), log=SILENT)
        self._server = served(reviews=[Admitting(webhook.answer, "nobody")])

    def request(self, method: str, path: str, body: Any = None) -> Answer:
        asked = urlsplit(path)
        headers = {"content-type": "application/json"}
        data = b"" if body is None else encode(body)
        found = self._server.handle(Request(method, asked.path, dict(parse_qsl(asked.query)), headers, data))
        return Answer(found.status, found.json())


@pytest.fixture(scope="module")
def plane(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    """A control plane with our kinds."""
    gate.obtain(request.config)
    with ControlPlane() as started:
        install(started, (ROOT / "deploy" / "crds.yaml").read_text())
        yield started


@pytest.fixture(scope="module")
def asked(plane: ControlPlane) -> Iterator[ControlPlane]:
    """The same, once its API server asks our webhook."""
    with webhook_of(plane):
        yield plane


@pytest.mark.parametrize("case", [pytest.param(case, id=f"{row} {case.kind}") for row, case in enumerate(CASES)])
def test_the_rules_have_the_same_effect(plane: ControlPlane, case: Case) -> None:
    """The same code and the same causes at the same fields."""
    name = f"rule-{CASES.index(case)}"
    assert written(case, partial(send, served()), name) == written(case, plane.request, name)


def judged(answer: Answer) -> Any:
    """What was said, without what differs from one cluster to the next."""
    if answer.status < 400:
        return answer.status
    body = {**answer.body, "message": answer.body["message"].replace(NAME_HERE, NAME)}
    return answer.status, body


ASKED = [
    *(pytest.param(one.values[0], id=f"error {one.id}") for one in ERRORS),
    *(pytest.param(one.values[0], id=f"warning {one.id}") for one in WARNINGS),
]


@pytest.mark.parametrize("review", ASKED)
def test_the_webhook_is_heard_alike(asked: ControlPlane, review: Any) -> None:
    """Code, message, details and every cause."""
    assert judged(sent(Embedded(), review)) == judged(sent(asked, review))
