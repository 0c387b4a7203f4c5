"""An upgrade from the version before admission marks, and the way back, with gangs that run.

Nothing is evicted, and no charge is lost.
"""

import io
import json
import os
import subprocess
import sys
import tarfile

import pytest

from e2e.plane import ControlPlane, gate, wait_until
from e2e.plane.stage import (
    NAMESPACE,
    ROOT,
    create,
    group,
    install,
    muster,
    node,
    nodes_of,
    pod,
    read,
    running,
    status_of,
)

gate.require()

# The last commit whose binds carry no mark.
BEFORE = "27db392"
MARK = "muster.dev/admitted"


@pytest.fixture(scope="module")
def older(tmp_path_factory):
    """The source of the older version, out of the history of this repository."""
    asked = ["git", "-C", str(ROOT), "archive", BEFORE, "src"]
    done = subprocess.run(asked, capture_output=True)
    if done.returncode:
        pytest.skip(f"this clone has no commit {BEFORE}: git fetch --unshallow")
    folder = tmp_path_factory.mktemp("older")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"


@pytest.fixture(scope="module")
def plane(request):
    gate.obtain(request.config)
    with ControlPlane() as found:
        yield found


def printed_by(source, *args):
    """What the older `muster ARGS` prints."""
    environment = {**os.environ, "PYTHONPATH": str(source)}
    done = subprocess.run(
        [sys.executable, "-m", "muster", *args], capture_output=True, text=True, env=environment, check=True
    )
    return done.stdout


def install_older(plane: ControlPlane, source) -> None:
    """As `stage.install`, with the older version's words. Both versions own fields of the same objects."""
    apply = ("apply", "--server-side", "--force-conflicts", "-f", "-")
    plane.kubectl(*apply, stdin=printed_by(source, "crds"))
    plane.kubectl("wait", "--for=condition=Established", "--all", "crd", "--timeout=60s")
    plane.kubectl(*apply, stdin=printed_by(source, "manifests", "--without", "webhook"))


def queue(name, quota, limit):
    resources = {"gpu": {"quota": quota, "limit": limit}}
    return {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"resources": resources},
    }


def gang(name, pods, queue_name, minimum, **spec):
    return [
        group(name, queue=queue_name, minMember=minimum, **spec),
        *(pod(f"{name}-{at}", name, cpu="1", gpu=1) for at in range(pods)),
    ]


def seen(plane):
    """What must survive: each pod with its place, and the times of each gang."""
    pods = {
        one["metadata"]["name"]: (one["metadata"]["uid"], one["spec"].get("nodeName"))
        for one in read(plane, "pods")
        if not one["metadata"].get("deletionTimestamp")
    }
    started = {one["metadata"]["name"]: one["status"].get("startTime") for one in read(plane, "pg") if "status" in one}
    return pods, started


def kept(before, after):
    """What was there before and is the same now."""
    return [{name: now.get(name) for name in was} for was, now in zip(before, after, strict=True)]


def allocated(plane, name):
    return float(read(plane, "queues.scheduling.run.ai", name).get("status", {}).get("allocated", {}).get("gpu", -1))


def is_over_limit(plane, name):
    return status_of(plane, name).get("reason") == "OverLimit"


def marks(plane):
    found = read(plane, "pods")
    return {
        one["metadata"]["name"]: one["metadata"]["annotations"].get(MARK)
        for one in found
        if one["spec"].get("nodeName")
    }


def test_there_and_back_again(plane, older, tmp_path, monkeypatch):
    """Queue `team` is full. Whoever runs, it stays full, and what runs stays."""
    install_older(plane, older)
    account = plane.service_account_kubeconfig(NAMESPACE, "muster")
    create(plane, queue("team", 8, 8), queue("other", 8, 8), node("n0", gpu=8), node("n1", gpu=8))
    create(plane, *gang("core", 4, "team", 2, preemptibility="semi-preemptible"), *gang("flat", 4, "team", 4))

    with monkeypatch.context() as patched:
        patched.setattr("e2e.plane.stage.environment", lambda: {**os.environ, "PYTHONPATH": str(older)})
        with running(account, tmp_path, name="older"):
            wait_until(lambda: all(nodes_of(plane).values()), 60, "all pods are bound")
            wait_until(lambda: status_of(plane, "flat").get("startTime"), 30, "the gangs are told")
    before = seen(plane)
    assert set(marks(plane).values()) == {None}

    install(plane)
    with running(account, tmp_path, name="newer") as newer:
        create(plane, *gang("late", 1, "team", 1))
        wait_until(lambda: is_over_limit(plane, "late"), 60, f"late is over the limit: {newer.log()}")
        wait_until(lambda: all(marks(plane).values()), 60, "what runs is adopted")
        assert {mark.partition("/")[0] for mark in marks(plane).values()} == {"team"}
        create(plane, *gang("new", 2, "other", 2))
        wait_until(lambda: all(nodes_of(plane)[f"new-{at}"] for at in range(2)), 60, "others are bound")
        wait_until(lambda: allocated(plane, "team") == 8, 30, "the queue holds what it held")
        assert kept(before, seen(plane)) == list(before)
    before = seen(plane)

    install_older(plane, older)
    with monkeypatch.context() as patched:
        patched.setattr("e2e.plane.stage.environment", lambda: {**os.environ, "PYTHONPATH": str(older)})
        with running(account, tmp_path, name="back") as back:
            create(plane, *gang("later", 1, "team", 1), *gang("next", 2, "other", 2))
            wait_until(lambda: all(nodes_of(plane)[f"next-{at}"] for at in range(2)), 60, f"others run: {back.log()}")
            wait_until(lambda: is_over_limit(plane, "later"), 30, f"later is over the limit: {back.log()}")
    assert kept(before, seen(plane)) == list(before)


def test_the_printed_crds_of_both_versions_differ_in_what_is_new(older):
    """The older definitions drop what they do not know: kept room, the queue that admitted a gang."""
    assert "admittedQueue" in muster("crds")
    assert "admittedQueue" not in printed_by(older, "crds")
    assert json.loads(muster("manifests", "-o", "json"))["kind"] == "List"
