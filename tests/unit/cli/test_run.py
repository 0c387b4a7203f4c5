"""`muster run` before and after it runs: what it is called with, and what it says of a defect of its own."""

import json
import signal

import pytest

from muster.api.model import Metadata
from muster.api.queue import Queue
from muster.cli.installation import Wishes, installation
from muster.cli.observed import log_of
from muster.cli.run import _options
from muster.cli.serving import contexts
from muster.config import load
from muster.controllers.loop import Loop
from muster.kube.connection import in_cluster
from muster.snapshot.world import World
from muster.telemetry import Metrics
from unit.cli.played import KUBECONFIG


@pytest.fixture
def run(muster, tmp_path):
    """`muster run` against a server that is not there."""
    away = {**KUBECONFIG, "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}]}
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(away))
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    yield lambda *args: muster("run", "--kubeconfig", str(path), *args)
    for number, handler in zip((signal.SIGINT, signal.SIGTERM), before, strict=True):
        signal.signal(number, handler)


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("--listen", "nowhere"), "--listen"),
        (("--webhook", "127.0.0.1:99999"), "--webhook"),
        (("--set", "log.level=loud"), "log.level"),
        (("--set", "log.format=xml"), "log.format"),
        (("--webhook", "127.0.0.1:0", "--set", "webhook.certificate=/x/tls.crt"), "webhook.key is not set"),
        (("--webhook", "127.0.0.1:0", "--set", "webhook.key=/x/tls.key"), "webhook.certificate is not set"),
        (("--context", "elsewhere"), "elsewhere"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wrong_call_is_a_sentence(run, args, says):
    done = run(*args)
    assert done.code == 2
    assert says in done.err
    assert done.out == ""


def test_a_defect_ends_the_process_and_says_where(run, monkeypatch):
    async def broken(self):
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(Loop, "run", broken)
    done = run("--no-leader-election")
    assert done.code == 70
    *_, line = [json.loads(line) for line in done.err.splitlines()]
    assert (line["level"], line["message"], line["error"]) == (
        *("error", "this is a defect in muster", "ZeroDivisionError: oops"),
    )
    assert "test_run.py:" in line["at"]


@pytest.mark.parametrize(("form", "is_json"), [("json", True), ("text", False), ("auto", True)])
def test_the_log_is_as_it_was_asked_for(capsys, form, is_json):
    """What is captured here is no terminal."""
    metrics = Metrics()
    log = log_of(load(flags=[f"log.format={form}", "log.level=warning"]).config, metrics)
    log.info("not this")
    log.warning("but this", pod="p")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("{") == is_json
    assert "but this" in line
    counted = metrics.registry.get_sample_value("muster_log_lines_total", {"level": "info"})
    assert counted == 1


def test_in_a_pod_it_serves_where_its_manifests_say(tmp_path):
    """Probes and the webhook's Service find it without a word on the command line; elsewhere nothing is opened."""
    for name in ("token", "ca.crt"):
        (tmp_path / name).write_text("x" if name == "token" else "")
    environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    pod = in_cluster(environ, tmp_path)
    container = next(
        piece.document["spec"]["template"]["spec"]["containers"][0]
        for piece in installation(Wishes())
        if piece.document["kind"] == "Deployment"
    )
    ports = {one["name"]: one["containerPort"] for one in container["ports"]}
    found = _options(pod, "", "muster-system", None, None)
    assert (found.status, found.webhook) == (("", ports["http"]), ("", ports["webhook"]))
    assert found.linger_s > 0
    mute = _options(pod, "", "muster-system", "", "")
    assert (mute.status, mute.webhook) == (None, None)
    outside = _options(pod._replace(in_pod=False), "", "muster-system", None, None)
    assert (outside.status, outside.webhook, outside.linger_s) == (None, None, 0.0)


def test_before_the_cluster_was_seen_nothing_is_judged_by_what_is_not_there():
    """A webhook that starts says nothing about queues that it has not heard of yet."""
    world, seen = World(), []
    now = contexts(world, load().config, is_known=lambda: bool(seen))
    assert now() is None
    seen.append(True)
    world.apply(Queue(metadata=Metadata(name="q")))
    first = now()
    assert set(first.queues) == {"q"}
    assert now() is first
    world.apply(Queue(metadata=Metadata(name="r")))
    assert set(now().queues) == {"q", "r"}
    assert set(first.queues) == {"q"}
