"""What the tests put on a control plane: muster as it is installed and as it runs, nodes without anybody behind, gangs.

The process runs as it would in a cluster: under the service account that `muster manifests` makes, with its rights and
no others, unless a test says otherwise.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from e2e.plane.control_plane import ControlPlane

ROOT = Path(__file__).parents[3]
NAMESPACE = "muster-system"
Document = dict[str, Any]


def environment() -> dict[str, str]:
    """The environment in which this tree's muster runs."""
    return {**os.environ, "PYTHONPATH": str(ROOT / "src")}


def muster(*args: object, code: int = 0) -> str:
    """What `muster ARGS` prints."""
    done = subprocess.run(
        [sys.executable, "-m", "muster", *map(str, args)], capture_output=True, text=True, env=environment()
    )
    assert done.returncode == code, f"muster {' '.join(map(str, args))}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def install(plane: ControlPlane, *args: object, webhook: bool = False) -> None:
    """What `muster manifests ARGS` prints, the definitions first. Its webhook only for those who serve one: without, it
    refuses gangs.
    """
    documents = muster("manifests", *args, *(() if webhook else ("--without", "webhook")))
    plane.kubectl("apply", "--server-side", "-f", "-", stdin=muster("crds"))
    plane.kubectl("wait", "--for=condition=Established", "--all", "crd", "--timeout=60s")
    plane.kubectl("apply", "--server-side", "-f", "-", stdin=documents)


class Running:
    """One `muster run`."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self._log = log

    def log(self) -> str:
        """What it has said so far."""
        return self._log.read_text()

    def lines(self) -> list[Document]:
        """The lines of its log, as data; what is no JSON is left out."""
        found = (line for line in self.log().splitlines() if line.startswith("{"))
        return [json.loads(line) for line in found]

    def stop(self, seconds: float = 20) -> int:
        """Ends it as a cluster does; its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(seconds)

    def kill(self) -> None:
        """Ends it as a power cut does."""
        self.process.kill()
        self.process.wait()


@contextmanager
def running(kubeconfig: Path, folder: Path, *args: object, name: str = "run") -> Iterator[Running]:
    """`muster run` until the block ends; then it must end by itself, and well."""
    log = folder / f"{name}.log"
    command = [sys.executable, "-m", "muster", "run", "--kubeconfig", str(kubeconfig), *map(str, args)]
    with log.open("wb") as written:
        found = Running(subprocess.Popen(command, stdout=written, stderr=written, env=environment()), log)
        try:
            yield found
            if found.process.poll() is None:
                assert found.stop() == 0, found.log()
        finally:
            if found.process.poll() is None:
                found.kill()


def create(plane: ControlPlane, *documents: Document) -> None:
    """All of them."""
    items = {"apiVersion": "v1", "kind": "List", "items": list(documents)}
    plane.kubectl("create", "-f", "-", stdin=json.dumps(items))


def node(name: str, labels: dict[str, str] | None = None, *, cpu: str = "8", gpu: int = 0) -> Document:
    """A node that is ready, and that nobody stands behind."""
    ready = {"type": "Ready", "status": "True", "reason": "Test", "message": ""}
    amounts = {"cpu": cpu, "memory": "32Gi", "pods": "110", **({"nvidia.com/gpu": str(gpu)} if gpu else {})}
    status = {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels or {}}, "status": status}


def group(name: str, namespace: str = "default", **spec: Any) -> Document:
    """A PodGroup."""
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": metadata, "spec": spec}


def pod(
    name: str, gang: str, namespace: str = "default", *, cpu: str = "6", gpu: int = 0, subgroup: str = ""
) -> Document:
    """A pod of a gang."""
    metadata: Document = {"name": name, "namespace": namespace, "annotations": {"pod-group-name": gang}}
    if subgroup:
        metadata["labels"] = {"kai.scheduler/subgroup-name": subgroup}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod_spec(cpu=cpu, gpu=gpu)}


def pod_spec(*, cpu: str = "6", gpu: int = 0) -> Document:
    """What a pod of ours says; it goes at once when it is deleted."""
    asked = {"cpu": cpu, **({"nvidia.com/gpu": str(gpu)} if gpu else {})}
    resources = {"requests": asked, **({"limits": {"nvidia.com/gpu": str(gpu)}} if gpu else {})}
    container = {"name": "main", "image": "none", "resources": resources}
    return {"schedulerName": "kai-scheduler", "containers": [container], "terminationGracePeriodSeconds": 0}


def read(plane: ControlPlane, kind: str, name: str = "", namespace: str = "default") -> Any:
    """One object, or all of the namespace."""
    found = plane.kubectl("get", kind, *([name] if name else []), "-n", namespace, "-o", "json").stdout
    document = json.loads(found)
    return document if name else document["items"]


def nodes_of(plane: ControlPlane, namespace: str = "default") -> dict[str, str]:
    """Where each pod is; empty: nowhere."""
    return {one["metadata"]["name"]: one["spec"].get("nodeName", "") for one in read(plane, "pods", "", namespace)}


def status_of(plane: ControlPlane, name: str, namespace: str = "default") -> Document:
    """What a PodGroup is told."""
    found: Document = read(plane, "pg", name, namespace).get("status", {})
    return found


def clear(plane: ControlPlane, namespace: str = "default") -> None:
    """No pods and no gangs any more."""
    plane.kubectl("delete", "pods,pg", "--all", "-n", namespace, "--grace-period=0", "--force")
