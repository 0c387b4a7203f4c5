"""What the tests of serve play with: a server on loopback, AdmissionReviews, a clock that is set by hand."""

import io
import json
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp

from muster.serve.server import WEBHOOK_PATH, listening, webhook_app
from muster.serve.webhook.answers import Webhook, admission_context
from muster.telemetry import Log, Metrics

START = datetime(2026, 1, 1, tzinfo=UTC)


class SetClock:
    """Time that passes only when somebody says so; sleepers never wake."""

    def __init__(self) -> None:
        self.at_s = 0.0

    def now_s(self) -> float:
        return self.at_s

    def wall(self) -> datetime:
        return START + timedelta(seconds=self.at_s)

    async def sleep(self, seconds: float) -> None:
        self.at_s += seconds


def asked(document: Any, operation: str = "CREATE", old: Any = None, **more: Any) -> dict[str, Any]:
    """An AdmissionReview as the API server sends it."""
    found = document if isinstance(document, dict) else {}
    group, _, version = str(found.get("apiVersion", "")).rpartition("/")
    request = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": {"group": group, "version": version, "kind": found.get("kind")},
        "operation": operation,
        "dryRun": False,
        "object": None if operation == "DELETE" else document,
        "oldObject": document if operation == "DELETE" else old,
        **more,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def lines_of(stream: io.StringIO) -> list[dict[str, Any]]:
    """What was logged."""
    return [json.loads(line) for line in stream.getvalue().splitlines()]


class Serving:
    """A webhook that listens, and what to ask it with."""

    def __init__(self, session: aiohttp.ClientSession, port: int, metrics: Metrics, log: io.StringIO) -> None:
        self.session, self.port, self.metrics, self.log = session, port, metrics, log
        self.url = f"http://127.0.0.1:{port}{WEBHOOK_PATH}"

    async def post(self, body: bytes | str, **headers: str) -> tuple[int, str]:
        sent = {"Content-Type": "application/json", **headers}
        data = io.BytesIO(body if isinstance(body, bytes) else body.encode())
        async with self.session.post(self.url, data=data, headers=sent) as answer:
            return answer.status, await answer.text()

    async def ask(self, review: dict[str, Any]) -> dict[str, Any]:
        """The response, which must be one."""
        status, text = await self.post(json.dumps(review))
        assert status == 200, text
        found = json.loads(text)
        assert (found["apiVersion"], found["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
        response = found["response"]
        assert response["uid"] == review["request"]["uid"]
        return response


@asynccontextmanager
async def webhook_on_loopback(context=None, **settings):
    """A webhook behind a port, without TLS."""
    metrics, stream = Metrics("test"), io.StringIO()
    log = Log(stream, level="debug")
    known = admission_context(context) if context is not None else None
    webhook = Webhook(lambda: known, metrics=metrics, log=log, **settings)
    async with (
        listening(webhook_app(webhook), "127.0.0.1", 0, log) as port,
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30)) as session,
    ):
        yield Serving(session, port, metrics, stream)
