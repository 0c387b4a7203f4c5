"""The webhook called by a real API server: good and bad objects of all kinds, warnings, rotation, and its absence."""

import asyncio
import base64
import io
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from e2e.plane import ControlPlane, gate
from e2e.plane.process import free_port
from muster.api import documents
from muster.api.kinds import OUR_KINDS, POD_GROUP, QUEUE
from muster.kube.client import Client
from muster.kube.clock import SystemClock
from muster.kube.kubeconfig import connect
from muster.serve.server import WEBHOOK_PATH, listening, webhook_app
from muster.serve.webhook.answers import Webhook, admission_context
from muster.serve.webhook.certificates import SelfSigned, Served, merged_bundle
from muster.serve.webhook.publishing import Publisher
from muster.telemetry import Log, Metrics
from unit.api.test_issue_examples import INVALID, VALID
from unit.serve.rules import ERRORS, KNOWN, WARNINGS, gang, interface, leaf, queue, topology, written

ROOT = Path(__file__).parents[2]
NAME = "validate.muster.dev"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
ORPHAN = gang(subGroups=[leaf("a", parent="nobody")])
POD_GROUPS = "/apis/scheduling.run.ai/v2alpha2/namespaces/default/podgroups"
# By the name of the file: what is said about each, as severity, path and a word of the hint.
EXAMPLES = {**{name: said for name, (_, said) in VALID.items()}, **INVALID}

gate.require()


class Running:
    """A webhook behind TLS in a thread of its own, with an authority that a test can change."""

    def __init__(self) -> None:
        self.port = free_port()
        self.source = SelfSigned(["127.0.0.1"], "e2e")
        self.served = Served(self.source, datetime.now(UTC))
        self.metrics, self.log = Metrics(), io.StringIO()
        self._context = admission_context(KNOWN)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._thread: threading.Thread | None = None

    def bundle(self) -> bytes:
        now = datetime.now(UTC)
        return merged_bundle(b"", self.source.authorities(now), now)

    def start(self) -> None:
        ready = threading.Event()

        async def serve() -> None:
            self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
            log = Log(self.log)
            webhook = Webhook(lambda: self._context, metrics=self.metrics, log=log)
            async with listening(webhook_app(webhook), "127.0.0.1", self.port, log, self.served.context):
                ready.set()
                await self._stop.wait()

        self._thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
        self._thread.start()
        assert ready.wait(20)

    def stop(self) -> None:
        assert self._loop
        assert self._stop
        assert self._thread
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(20)
        assert not self._thread.is_alive()

    def rotate(self) -> None:
        """A new certificate of the same authority, loaded in the loop as the program does it."""
        done = threading.Event()

        def renew() -> None:
            self.source._pair = None
            assert self.served.refresh(datetime.now(UTC))
            done.set()

        assert self._loop
        self._loop.call_soon_threadsafe(renew)
        assert done.wait(10)

    def count(self, kind: str, operation: str, result: str) -> float:
        labels = {"kind": kind, "operation": operation, "result": result}
        return self.metrics.registry.get_sample_value("muster_webhook_requests_total", labels) or 0.0


def named(name, **spec):
    return written(POD_GROUP, name, spec)


def configuration(running: Running) -> dict:
    rules = [
        {
            "apiGroups": [kind.group],
            "apiVersions": [kind.api_version.rpartition("/")[2]],
            "resources": [kind.plural],
            "operations": ["CREATE", "UPDATE", *(["DELETE"] if kind is QUEUE else [])],
        }
        for kind in OUR_KINDS
    ]
    client = {
        "url": f"https://127.0.0.1:{running.port}{WEBHOOK_PATH}",
        "caBundle": base64.b64encode(running.bundle()).decode(),
    }
    hook = {
        "name": NAME,
        "rules": rules,
        "clientConfig": client,
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 5,
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "muster"},
        "webhooks": [hook],
    }


def wait_until(true, seconds, what):
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, f"{what}: not after {seconds} s"
        time.sleep(0.1)


def install(plane: ControlPlane, definitions: str) -> None:
    plane.kubectl("apply", "--server-side", "-f", "-", stdin=definitions)
    for kind in OUR_KINDS:
        plane.kubectl("wait", "--for=condition=Established", f"crd/{kind.plural}.{kind.group}", "--timeout=30s")


@contextmanager
def webhook_of(plane: ControlPlane) -> Iterator[Running]:
    """A webhook that the API server asks."""
    running = Running()
    running.start()
    assert plane.request("POST", CONFIGURATIONS, configuration(running)).status == 201

    # API servers learn of a webhook a moment later.
    def is_asked() -> bool:
        return plane.request("POST", f"{POD_GROUPS}?dryRun=All", ORPHAN).status == 422

    wait_until(is_asked, 30, "the webhook is asked")
    yield running
    plane.request("DELETE", f"{CONFIGURATIONS}/muster")
    running.stop()


@pytest.fixture(scope="module")
def plane(request):
    gate.obtain(request.config)
    with ControlPlane() as plane:
        install(plane, (ROOT / "deploy" / "crds.yaml").read_text())
        yield plane


@pytest.fixture(scope="module")
def running(plane):
    with webhook_of(plane) as running:
        yield running


@pytest.fixture(scope="module")
def lax(request):
    """A cluster whose definitions of our kinds, somebody else's, let everything pass; and the webhook."""
    gate.obtain(request.config)
    with ControlPlane() as plane:
        install(
            plane, json.dumps({"apiVersion": "v1", "kind": "List", "items": [lax_definition(k) for k in OUR_KINDS]})
        )
        with webhook_of(plane):
            yield plane


def lax_definition(kind):
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": kind.api_version.rpartition("/")[2],
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": anything, "status": anything}}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{kind.plural}.{kind.group}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
        },
        "spec": {
            "group": kind.group,
            "names": {"kind": kind.name, "plural": kind.plural, "singular": kind.name.lower()},
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "versions": [version],
        },
    }


def folder_of(document) -> str:
    kind = next(one for one in OUR_KINDS if one.name == document["kind"])
    place = "namespaces/default/" if kind.namespaced else ""
    return f"/apis/{kind.api_version}/{place}{kind.plural}"


def sent(plane, review):
    """The answer of the API server to the request that a review is about."""
    request = review["request"]
    subject = request["oldObject"] if request["operation"] == "DELETE" else request["object"]
    folder, name = folder_of(subject), subject["metadata"]["name"]
    if request["operation"] == "CREATE":
        return plane.request("POST", f"{folder}?dryRun=All", subject)
    before = plane.request("POST", folder, request["oldObject"])
    if before.status == 409:
        # Left by a test before: the webhook believes that it has children.
        before = plane.request("GET", f"{folder}/{name}")
    assert before.status in (200, 201), before.body
    try:
        if request["operation"] == "DELETE":
            return plane.request("DELETE", f"{folder}/{name}")
        version = {"resourceVersion": before.body["metadata"]["resourceVersion"]}
        return plane.request("PUT", f"{folder}/{name}", {**subject, "metadata": {"name": name, **version}})
    finally:
        if request["operation"] != "DELETE":
            plane.request("DELETE", f"{folder}/{name}")


@pytest.mark.parametrize(("review", "field", "words"), ERRORS)
def test_every_error_of_the_spec(lax, review, field, words):
    """Refused by the webhook alone, with the field and the words."""
    answer = sent(lax, review)
    assert (answer.status, answer.body.get("reason")) == (422, "Invalid"), answer.body
    assert answer.body["message"].startswith(f'admission webhook "{NAME}" denied the request: ')
    causes = [one for one in answer.body["details"]["causes"] if one["field"] == field]
    assert any(words in one["message"] for one in causes), answer.body


@pytest.mark.parametrize(("review", "words"), WARNINGS)
def test_every_warning_of_the_spec(lax, review, words):
    """kubectl shows it, and the object passes."""
    done = create(lax, review["request"]["object"], "--dry-run=server")
    assert done.returncode == 0, done.stderr
    assert any(line.startswith("Warning: ") and words in line for line in done.stderr.splitlines()), done.stderr


@pytest.mark.parametrize(("name", "said"), EXAMPLES.items(), ids=EXAMPLES)
def test_every_example_of_the_foundation_comes_out_as_said(lax, name, said):
    """All errors in one answer, each at its field; or the warnings, and it passes."""
    (read,) = documents.read((ROOT / "tests" / "unit" / "api" / "examples" / f"{name}.yaml").read_bytes())
    errors = sorted(path for severity, path, _ in said if severity == "error")
    warned = [path for severity, path, _ in said if severity == "warning"]
    answer = lax.request("POST", f"{POD_GROUPS}?dryRun=All", read.value)
    assert answer.status == (422 if errors else 201), answer.body
    if errors:
        causes = answer.body["details"]["causes"]
        assert sorted(one["field"] for one in causes) == errors
        hints = {path: hint for severity, path, hint in said if severity == "error"}
        assert all(hints[one["field"]] in one["message"] for one in causes), causes
    lines = create(lax, read.value, "--dry-run=server").stderr.splitlines()
    lines = [line for line in lines if line.startswith("Warning: ")]
    assert [path for path in warned if not any(line.startswith(f"Warning: {path}") for line in lines)] == []


def create(plane, document, *flags):
    return plane.kubectl("create", "-f", "-", *flags, stdin=json.dumps(document), check=False)


GOOD = [gang(minMember=4), queue("good"), interface(), topology("t/zone", "t/rack")]
# What the definitions that we ship can't say themselves.
BAD = [
    pytest.param(ORPHAN, "spec.subGroups[0].parent: no SubGroup is called", id="PodGroup"),
    pytest.param(queue("dept", "team"), "spec.parentQueue: parents form a cycle: dept → team → dept", id="Queue"),
    pytest.param(interface(let={"a": ".x | .. "}), "spec.let.a", id="ResourceInterface"),
]


@pytest.mark.parametrize("document", GOOD, ids=lambda one: one["kind"])
def test_good_objects_pass(plane, running, document):
    kind = document["kind"]
    before = running.count(kind, "CREATE", "allowed")
    done = create(plane, document)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr.replace("Warning: spec.queue", "")
    assert running.count(kind, "CREATE", "allowed") == before + 1
    plane.kubectl("label", kind.lower(), document["metadata"]["name"], "a=b")
    assert running.count(kind, "UPDATE", "allowed") >= 1
    plane.kubectl("delete", kind.lower(), document["metadata"]["name"])


@pytest.mark.parametrize(("document", "words"), BAD)
def test_bad_objects_are_refused_in_words(plane, running, document, words):
    """kubectl shows each violation on a line, and nothing is there afterwards."""
    kind = document["kind"]
    done = create(plane, document)
    assert done.returncode == 1
    assert words in done.stderr
    name = document["metadata"]["name"]
    assert f'The {kind} "{name}" is invalid' in done.stderr
    assert running.count(kind, "CREATE", "denied") >= 1
    assert plane.kubectl("get", kind.lower(), name, check=False).returncode == 1


def test_our_definitions_refuse_a_topology_before_anybody_is_asked(plane, running):
    """All of its errors can be said in a definition; so it is refused without the webhook, too."""
    before = running.count("Topology", "CREATE", "denied")
    done = create(plane, topology("kubernetes.io/hostname", "t/a"))
    assert "kubernetes.io/hostname is the narrowest level there is" in done.stderr
    assert running.count("Topology", "CREATE", "denied") == before


def test_every_violation_is_a_cause(plane, running):
    """For programs: 422, Invalid, and the fields, all of them."""
    names = [leaf("a", parent="b"), {"name": "c"}]
    answer = plane.request("POST", POD_GROUPS, gang(subGroups=names))
    assert (answer.status, answer.body["reason"]) == (422, "Invalid")
    fields = {one["field"] for one in answer.body["details"]["causes"]}
    assert {"spec.subGroups[0].parent", "spec.subGroups[1].minMember"} <= fields


def test_warnings_arrive(plane, running):
    done = create(plane, named("warned", queue="nowhere", minMember=2))
    assert done.returncode == 0
    assert 'Warning: spec.queue: the queue "nowhere" does not exist' in done.stderr
    plane.kubectl("delete", "podgroup", "warned")


def test_a_queue_with_children_stays(plane, running):
    for one in (queue("dept"), queue("team", "dept")):
        assert create(plane, one).returncode == 0
    done = plane.kubectl("delete", "queue", "dept", check=False)
    assert done.returncode == 1
    assert "has child queues: team" in done.stderr
    assert plane.kubectl("delete", "queue", "team", check=False).returncode == 0


def test_a_dry_run_is_judged_too(plane, running):
    assert "no SubGroup is called" in create(plane, ORPHAN, "--dry-run=server").stderr
    assert create(plane, named("dry", minMember=1), "--dry-run=server").returncode == 0


def test_a_raised_minimum_of_a_running_gang(plane, running):
    """Judged by the status that the API server has, which was written without asking the webhook."""
    gang = named("semi", minMember=2, preemptibility="semi-preemptible")
    assert plane.request("POST", POD_GROUPS, gang).status == 201
    status = {"subGroups": [{"name": "", "satisfied": True, "pods": {"total": 4, "placed": 2}}]}
    asked_before = running.count("PodGroup", "UPDATE", "allowed")
    merge = "application/merge-patch+json"
    assert plane.request("PATCH", f"{POD_GROUPS}/semi/status", {"status": status}, merge).status == 200
    assert running.count("PodGroup", "UPDATE", "allowed") == asked_before
    answer = plane.request("PATCH", f"{POD_GROUPS}/semi", {"spec": {"minMember": 3}}, merge)
    assert answer.status == 422
    assert "spec.minMember" in answer.body["message"]
    assert plane.request("PATCH", f"{POD_GROUPS}/semi", {"spec": {"minMember": 1}}, merge).status == 200


def test_the_largest_object_is_answered_in_time(plane, running):
    """10,000 SubGroups, right and wrong."""
    subgroups = [{"name": f"replica-number-{at}", "minMember": 1} for at in range(10_000)]
    good = named("large", subGroups=subgroups)
    began = time.monotonic()
    answer = plane.request("POST", f"{POD_GROUPS}?dryRun=All", good)
    assert answer.status == 201, answer.body.get("message")
    subgroups = [{**one, "parent": f"p{at}"} for at, one in enumerate(subgroups)]
    answer = plane.request("POST", f"{POD_GROUPS}?dryRun=All", named("large", subGroups=subgroups))
    assert answer.status == 422
    assert "validation stopped after 25 errors: muster validate" in answer.body["message"]
    assert time.monotonic() - began < 15


def test_rotation_breaks_nothing(plane, running):
    """New certificates while objects are created: each call is answered, over old connections and new ones."""
    failures: list[str] = []
    stop = threading.Event()

    def keep_creating() -> None:
        while not stop.is_set():
            answer = plane.request("POST", f"{POD_GROUPS}?dryRun=All", named("r", minMember=1))
            if answer.status != 201:
                failures.append(answer.body["message"])

    creating = threading.Thread(target=keep_creating)
    creating.start()
    for _ in range(10):
        time.sleep(0.1)
        running.rotate()
    stop.set()
    creating.join()
    assert failures == []
    # The server comes back with the new certificate, so that every connection is a new one.
    running.stop()
    running.start()
    answer = plane.request("POST", f"{POD_GROUPS}?dryRun=All", named("r", minMember=1))
    assert answer.status == 201, answer.body


def test_a_new_authority_takes_over(plane, running):
    """The bundle is changed first; when the API server has it, the new authority signs."""
    other = SelfSigned(["127.0.0.1"], "e2e-next")
    now = datetime.now(UTC)
    path = f"{CONFIGURATIONS}/muster"
    there = plane.request("GET", path).body
    bundle = base64.b64decode(there["webhooks"][0]["clientConfig"]["caBundle"])
    both = merged_bundle(bundle, other.authorities(now), now)
    there["webhooks"][0]["clientConfig"]["caBundle"] = base64.b64encode(both).decode()
    assert plane.request("PUT", path, there).status == 200
    time.sleep(2)
    running.stop()
    running.source = other
    running.served = Served(other, now)
    running.start()
    answer = plane.request("POST", f"{POD_GROUPS}?dryRun=All", named("r", minMember=1))
    assert answer.status == 201, answer.body


def test_without_the_webhook_others_go_on(plane, running):
    """Pods are created as if nothing was; our kinds get one clear sentence, and may go away all the same."""
    assert plane.request("POST", POD_GROUPS, named("left", minMember=1)).status == 201
    running.stop()
    try:
        pod = {"metadata": {"name": "free"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        assert plane.request("POST", "/api/v1/namespaces/default/pods", pod).status == 201
        done = create(plane, named("blocked", minMember=1))
        assert done.returncode == 1
        assert f'failed calling webhook "{NAME}"' in done.stderr
        assert "connection refused" in done.stderr
        assert plane.request("DELETE", f"{POD_GROUPS}/left").status == 200
    finally:
        running.start()
    assert create(plane, named("blocked", minMember=1)).returncode == 0


def test_replicas_publish_their_authorities(plane, running):
    """Two at once, with a service account that may get and patch this one object: both are in, and it comes to rest."""
    plane.kubectl(
        *("create", "clusterrole", "publishes", "--verb=get,patch"),
        *("--resource=validatingwebhookconfigurations", "--resource-name=muster"),
    )
    plane.kubectl(
        "create", "clusterrolebinding", "publishes", "--clusterrole=publishes", "--serviceaccount=default:hook"
    )
    kubeconfig = plane.service_account_kubeconfig("default", "hook")
    sources = [SelfSigned(["127.0.0.1"], f"replica-{at}") for at in range(2)]
    stream = io.StringIO()

    async def publish(name: str) -> list[str]:
        async with Client(connect(kubeconfig, environ={})) as client:
            parts = client, name
            both = [Publisher(*parts, source, SystemClock(), Log(stream), settle_s=0.5) for source in sources]
            await asyncio.gather(*(one.look() for one in both))
            return [one.problem for one in both]

    assert asyncio.run(publish("muster")) == ["", ""]
    version = plane.request("GET", f"{CONFIGURATIONS}/muster").body["metadata"]["resourceVersion"]
    assert asyncio.run(publish("muster")) == ["", ""]
    there = plane.request("GET", f"{CONFIGURATIONS}/muster").body
    assert there["metadata"]["resourceVersion"] == version, "nothing was written any more"
    bundle = base64.b64decode(there["webhooks"][0]["clientConfig"]["caBundle"])
    now = datetime.now(UTC)
    assert all(pem.strip() in bundle for source in sources for pem in source.authorities(now))
    # The webhook that serves is still trusted.
    assert plane.request("POST", f"{POD_GROUPS}?dryRun=All", named("r", minMember=1)).status == 201
    # Another configuration is none of its business, and that is said.
    assert all("validatingwebhookconfigurations" in problem for problem in asyncio.run(publish("other")))
