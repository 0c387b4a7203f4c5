"""A town for the tests: an embedded server with kubelets and people, and a heap of what is due. No muster."""

import heapq
import itertools
from collections.abc import Callable
from typing import Any

import msgspec

from muster.api.crd import custom_resource_definitions
from muster.embedded.running import Running
from muster.embedded.server import Server
from muster.embedded.store import Key, Store
from muster.sim import stage
from muster.sim.objects import BEGIN
from muster.sim.people import People
from muster.sim.story import Happening, Story

Document = dict[str, Any]
GROUPS = "podgroups.scheduling.run.ai"


class Town:
    """Time passes in `until`; kubelets and operators look around after whatever happens."""

    def __init__(self, strict: bool = True, **story: Any) -> None:
        self.now_s = 0.0
        self.said: list[str] = []
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        letters = itertools.count()
        self.server = Server(
            Store(),
            clock=lambda: BEGIN.timestamp() + self.now_s,
            new_uid=lambda: f"uid-{next(letters)}",
            suffix=lambda: f"s{next(letters)}",
        )
        self.send = stage.sender(self.server)
        for definition in custom_resource_definitions():
            self.send("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
        self.running = Running(self.server)
        self.story = msgspec.convert(story, Story)
        self.people = People(self.story, self.server, lambda: self.now_s, self.later, self.said.append, strict=strict)
        self.people.begin()
        self.until(0.1)

    def later(self, seconds: float, do: Callable[[], None]) -> None:
        """As a machine would do it."""
        heapq.heappush(self._heap, (self.now_s + seconds, next(self._order), do))

    def until(self, second: float) -> None:
        """Everything that happens until then."""
        self._look()
        while self._heap and self._heap[0][0] <= second:
            self.now_s, _, do = heapq.heappop(self._heap)
            do()
            self._look()
        self.now_s = second
        self._look()

    def _look(self) -> None:
        before = None
        while before != self.server.core.store.revision:
            before = self.server.core.store.revision
            due = self.running.step(BEGIN.timestamp() + self.now_s)
            self.people.act()
        if due is not None and due > BEGIN.timestamp() + self.now_s:
            self.later(due - BEGIN.timestamp() - self.now_s, lambda: None)

    def happen(self, **what: Any) -> None:
        """Something happens now."""
        self.people.happen(msgspec.convert({"at": self.now_s, **what}, Happening))
        self._look()

    def bind(self, **nodes: str) -> None:
        """Somebody schedules pods: names with _ for -, and nodes."""
        for name, node in nodes.items():
            pod = name.replace("_", "-")
            body = {"metadata": {"name": pod}, "target": {"kind": "Node", "name": node}}
            code, answer = self.send("POST", f"/api/v1/namespaces/default/pods/{pod}/binding", body)
            assert code == 201, answer
        self._look()

    def delete(self, path: str) -> None:
        """Somebody deletes something."""
        code, answer = self.send("DELETE", path)
        assert code == 200, answer
        self._look()

    def pods(self, phase: str = "") -> list[str]:
        """Names of all pods, or of those in a phase."""
        found = self.server.core.store.list("pods").items
        return [one["metadata"]["name"] for one in found if phase in ("", one["status"]["phase"])]

    def pod(self, name: str, namespace: str = "default") -> Document:
        """A pod."""
        found = self.server.core.store.get(Key("pods", namespace, name))
        assert found is not None, f"{name} is not among {self.pods()}"
        return found

    def node(self, name: str) -> Document:
        """A node."""
        found = self.server.core.store.get(Key("nodes", "", name))
        assert found is not None, name
        return found

    def group(self, name: str) -> Document | None:
        """A PodGroup, if it is there."""
        return self.server.core.store.get(Key(GROUPS, "default", name))
