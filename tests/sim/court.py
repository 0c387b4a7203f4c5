"""A court for the tests: a server whose changes a judge sees, people, and a muster that does as it is told."""

import json
from collections.abc import Sequence
from typing import Any

from muster.api.crd import custom_resource_definitions
from muster.embedded import exchange
from muster.embedded.server import Server
from muster.embedded.store import Change, Key, Store
from muster.kube.transport import Request
from muster.sim import stage
from muster.sim.judging import Judge
from muster.sim.objects import BEGIN, Nodes, Objects, Pods
from muster.sim.rest import at_rest
from muster.sim.sight import WATCHED
from muster.sim.story import Story
from muster.sim.trace import Violation

MERGE = "application/merge-patch+json"
GROUPS = "podgroups.scheduling.run.ai"
Document = dict[str, Any]


class Court:
    """Time passes when a test says so."""

    def __init__(self, **objects: Any) -> None:
        self.now_s = 0.0
        self.story = Story(lasts=0.0)
        uids = iter(range(10**6))
        self.server = Server(
            Store(),
            clock=lambda: BEGIN.timestamp() + self.now_s,
            new_uid=lambda: f"uid-{next(uids)}",
            suffix=lambda: "x",
        )
        self._send = stage.sender(self.server)
        for definition in custom_resource_definitions():
            self._send("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
        self.violations: list[Violation] = []
        self.judge = Judge(self.story, self.server, lambda: self.now_s, self._broken)
        self._who = "people"
        self._stage = stage.on(self.server)
        self.server.core.store.subscribe(self._changed)
        self.come(**objects)

    def _broken(self, rule: str, says: str) -> None:
        self.violations.append(Violation(self.now_s, rule, says))

    def _changed(self, change: Change) -> None:
        self.judge.changed(change, self._who)

    # People.

    def come(self, **objects: Any) -> None:
        """Objects in the short forms of stories; bare numbers of nodes and pods will do."""
        self._stage.put(Objects(**objects).all())

    def ask(self, method: str, path: str, body: Any = None, content: str = MERGE) -> Any:
        """Somebody who is not muster asks for something, and gets it."""
        code, answer = self._send(method, path, body, content)
        assert code < 300, answer
        return answer

    def gang(self, name: str, **spec: Any) -> None:
        """A gang says something else."""
        self.ask("PATCH", f"/apis/scheduling.run.ai/v2alpha2/namespaces/default/podgroups/{name}", {"spec": spec})

    def tell(self, name: str, **status: Any) -> None:
        """The status of a gang, as muster would write it."""
        path = f"/apis/scheduling.run.ai/v2alpha2/namespaces/default/podgroups/{name}/status"
        self.ask("PATCH", path, {"status": status})

    def nominate(self, **nodes: str) -> None:
        """Room is reserved for pods, by name."""
        for pod, node in nodes.items():
            path = f"/api/v1/namespaces/default/pods/{pod.replace('_', '-')}/status"
            self.ask("PATCH", path, {"status": {"nominatedNodeName": node}})
        self.passes(0.01)

    def node(self, name: str, labels: Document | None = None, **spec: Any) -> None:
        """A node is relabelled, or has another spec."""
        self.ask("PATCH", f"/api/v1/nodes/{name}", {"metadata": {"labels": labels or {}}, "spec": spec})

    def has(self, name: str, **amounts: str) -> None:
        """A node has something else."""
        allocatable = {key.replace("gpus", "nvidia.com/gpu"): amount for key, amount in amounts.items()}
        self.ask("PATCH", f"/api/v1/nodes/{name}/status", {"status": {"allocatable": allocatable}})

    def is_ready(self, *pods: str) -> None:
        """Pods are ready."""
        for pod in pods:
            status = {"conditions": [{"type": "Ready", "status": "True"}]}
            self.ask("PATCH", f"/api/v1/namespaces/default/pods/{pod}/status", {"status": status})

    def allows(self, budget: str, pods: int) -> None:
        """A disruption budget lets so many go from now on."""
        path = f"/apis/policy/v1/namespaces/default/poddisruptionbudgets/{budget}/status"
        self.ask("PATCH", path, {"status": {"disruptionsAllowed": pods}})

    def ends(self, pod: str, phase: str = "Failed") -> None:
        """A pod ends."""
        self.ask("PATCH", f"/api/v1/namespaces/default/pods/{pod}/status", {"status": {"phase": phase}})

    def vanishes(self, node: str) -> None:
        """A node is no more."""
        self.ask("DELETE", f"/api/v1/nodes/{node}")

    def is_deleted(self, pod: str, grace: int = 0) -> None:
        """Somebody deletes a pod."""
        self.ask("DELETE", f"/api/v1/namespaces/default/pods/{pod}?gracePeriodSeconds={grace}")

    def passes(self, seconds: float) -> None:
        """Time goes on."""
        self.now_s += seconds

    # Muster.

    def uid(self, pod: str) -> str:
        """The uid of a pod that is there."""
        found = self.server.core.store.get(Key("pods", "default", pod))
        assert found is not None
        return str(found["metadata"]["uid"])

    def sends(
        self, method: str, path: str, body: Any = None, *, process: int = 0, leads: bool = True, **params: str
    ) -> Request:
        """A request leaves a process; it does not arrive yet."""
        data = None if body is None else json.dumps(body).encode()
        request = Request(method, path, params, (("Content-Type", MERGE),), data)
        self.judge.sent(process, request, leads)
        return request

    def arrives(self, request: Request, process: int = 0) -> None:
        """It arrives."""
        self._who = f"muster-{process}"
        headers = {name.lower(): value for name, value in request.headers}
        if request.method == "POST":
            headers["content-type"] = "application/json"
        params, body = dict(request.params), request.body or b""
        self.server.handle(exchange.Request(request.method, request.path, params, headers, body, self._who))
        self._who = "people"

    def binds(self, node: str, *pods: str, process: int = 0, arrives: bool = True) -> None:
        """Pods are sent to a node, all at once."""
        sent = [self.bind(pod, node, process=process) for pod in pods]
        for request in sent if arrives else ():
            self.arrives(request, process)

    def bind(self, pod: str, node: str, uid: str | None = None, process: int = 0) -> Request:
        """One bind, on its way."""
        path = f"/api/v1/namespaces/default/pods/{pod}/binding"
        metadata: Document = {"name": pod}
        if uid != "":
            metadata["uid"] = uid or self.uid(pod)
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": {"kind": "Node", "name": node}}
        return self.sends("POST", path, body, process=process)

    def muster_tells(self, gang: str, **status: Any) -> None:
        """Muster writes the status of a gang."""
        path = f"/apis/scheduling.run.ai/v2alpha2/namespaces/default/podgroups/{gang}/status"
        self.arrives(self.sends("PATCH", path, {"status": status}))

    def reads(self, process: int = 0, **params: str) -> None:
        """The pods and the budgets are read, as they are."""
        for path in ("/api/v1/namespaces/default/pods", "/apis/policy/v1/namespaces/default/poddisruptionbudgets"):
            asked = self.sends("GET", path, process=process, **params)
            self.answered(asked, 200, process)

    def answered(self, request: Request, status: int | None, process: int = 0) -> None:
        """An answer comes back; None: it does not, and nobody waits any longer."""
        self.judge.answered(process, request, status)

    def plans(self, *binds: str, process: int = 0, blind: Sequence[str] = (), evictions: Sequence[str] = ()) -> None:
        """A process plans to bind and evict pods, on all that there is but for the kinds of which it has not seen what
        is new.
        """
        for plural in WATCHED:
            if plural not in blind:
                self.judge.saw(process, plural, self.server.core.store.revision)
        self.now_s += 0.001
        self.judge.planned(process, [("default", pod) for pod in binds], [("default", pod) for pod in evictions])

    def evicts(
        self, *pods: str, process: int = 0, uid: bool = True, reads: bool = True, arrives: bool = True
    ) -> list[Request]:
        """Pods are evicted, after they were read."""
        if reads:
            self.reads(process)
        sent = []
        for pod in pods:
            options = {"preconditions": {"uid": self.uid(pod)}} if uid else {}
            body = {
                "apiVersion": "policy/v1",
                "kind": "Eviction",
                "metadata": {"name": pod},
                "deleteOptions": options,
            }
            path = f"/api/v1/namespaces/default/pods/{pod}/eviction"
            sent.append(self.sends("POST", path, body, process=process))
        for request in sent if arrives else ():
            self.arrives(request, process)
        return sent

    # The judge.

    def broken(self) -> list[str]:
        """The rules that were broken, once nothing more comes."""
        self.judge.settle()
        return [one.rule for one in self.violations]

    def says(self) -> str:
        """The words for it."""
        return "\n".join(one.says for one in self.violations)

    def rest(self) -> list[str]:
        """What is wrong now that it is calm: rule and words."""
        self.judge.settle()
        return [f"{one.rule} {one.says}" for one in at_rest(self.story, self.server, self.now_s, self.judge)]


def pods(gang: str, count: int, **more: Any) -> Pods:
    """Pods of a gang that wait."""
    return Pods(gang=gang, count=count, **more)


def nodes(count: int = 2, **more: Any) -> Nodes:
    """Nodes n-0, n-1, …, all in one rack."""
    return Nodes(name="n", count=count, **{"zone": "z", "block": "b", "rack": "r", **more})
