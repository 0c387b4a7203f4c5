"""A small cluster in virtual time for the tests: one embedded server, and short forms for requests to it."""

import json
from typing import Any

from fidelity.sides import NOW, embedded, fresh
from muster.embedded.running import Running

Document = dict[str, Any]
MERGE = "application/merge-patch+json"


class Cluster:
    """A server whose time passes only when a test says so."""

    def __init__(self, **more: Any) -> None:
        self.now = NOW
        self.server = fresh(lambda: self.now, **more)
        self.running = Running(self.server)
        self._send = embedded(self.server)

    def __call__(
        self, method: str, path: str, body: Any = None, kind: str = "application/json", **headers: str
    ) -> Document:
        """The answer's document, with its code as `_code`."""
        said = {"Content-Type": kind, "Accept": "application/json", **headers}
        status, _, text = self._send(method, path, said, b"" if body is None else json.dumps(body).encode())
        found = json.loads(text)
        assert isinstance(found, dict)
        return {**found, "_code": status}

    def create(self, path: str, body: Any) -> Document:
        """A new object; it must be taken."""
        found = self("POST", path, body)
        assert found["_code"] == 201, found
        return found

    def pods(self, namespace: str = "default") -> dict[str, Document]:
        """The pods by name."""
        items = self("GET", f"/api/v1/namespaces/{namespace}/pods")["items"]
        return {pod["metadata"]["name"]: pod for pod in items}

    def phases(self) -> dict[str, str]:
        """What the pods do."""
        return {name: pod["status"]["phase"] for name, pod in self.pods().items()}

    def bind(self, name: str, node: str = "n") -> Document:
        """Bind a pod."""
        body = {"metadata": {"name": name}, "target": {"name": node}}
        return self("POST", f"/api/v1/namespaces/default/pods/{name}/binding", body)

    def bind_all(self) -> None:
        """Bind every pod that has no node, as a scheduler without wishes would; until there is none."""
        for _ in range(20):
            self.running.step(self.now)
            free = [name for name, pod in self.pods().items() if not pod["spec"].get("nodeName")]
            for name in free:
                assert self.bind(name)["_code"] == 201
            if not free:
                return
        raise AssertionError("pods without a node keep coming")

    def after(self, seconds: float) -> float | None:
        """Let time pass, and what is due happen."""
        self.now += seconds
        return self.running.step(self.now)


PODS = "/api/v1/namespaces/default/pods"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
SETS = "/apis/apps/v1/namespaces/default/statefulsets"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


def pod(name: str, **annotations: str) -> Document:
    """A pod; annotations with _ for - are those of the kubelet."""
    said = {f"embedded.muster.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
    return {"metadata": {"name": name, "annotations": said}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


def job(name: str, run_for: str = "", code: str = "0", **spec: Any) -> Document:
    """A Job whose pods run for a while."""
    said = {"embedded.muster.dev/run-for": run_for, "embedded.muster.dev/exit": code} if run_for else {}
    template = {
        "metadata": {"annotations": said},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]},
    }
    return {"metadata": {"name": name}, "spec": {"template": template, **spec}}


def stateful_set(name: str, replicas: int, **spec: Any) -> Document:
    """A StatefulSet."""
    labels = {"set": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    return {
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template, **spec},
    }
