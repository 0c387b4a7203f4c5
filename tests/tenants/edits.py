"""What a tenant does in its namespace: every edit that the role `edit` allows, drawn by chance."""

import json
import random
from collections.abc import Callable
from typing import Any

from muster.embedded.exchange import Request
from muster.embedded.server import Server

Document = dict[str, Any]
GROUPS = "/apis/scheduling.run.ai/v2alpha2/namespaces/{}/podgroups"
PODS = "/api/v1/namespaces/{}/pods"
BUDGETS = "/apis/policy/v1/namespaces/{}/poddisruptionbudgets"
JOBS = "/apis/batch/v1/namespaces/{}/jobs"
POD_GROUP = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup"}
GPU = "nvidia.com/gpu"
MERGE = "application/merge-patch+json"
# A tenant keeps no more than this, and of pods that it binds itself no more than that.
MOST_GROUPS, MOST_PODS, MOST_BOUND = 10, 24, 1
QUEUES = ("shared", "shared", "shared", "closed", "team", "nowhere", "")
CLASSES = ("train", "build-preemptible", "build", "inference", "system-node-critical", "nothing", "")
PREEMPTIBILITIES = ("preemptible", "non-preemptible", "semi-preemptible", "")
MARKS = (
    (
        "kai.scheduler/kept-room",
        '[{"subGroup":"","node":"n0","requests":{"nvidia.com/gpu":8},"since":"2026-01-01T00:00:00Z"}]',
    ),
    ("muster.dev/admitted", "closed/1"),
    ("muster.dev/keep", "."),
    ("muster.dev/keep", "a"),
    ("kai.scheduler/top-owner-metadata", "{}"),
    ("kai.scheduler/topology", "nowhere"),
    ("kai.scheduler/topology-required-placement", "rack"),
    ("pod-group-name", "g1"),
    ("kai.scheduler/queue", "closed"),
    ("kai.scheduler/subgroup-name", "a"),
)


class Tenant:
    """One rival: a namespace, and chance."""

    def __init__(self, server: Server, namespace: str, chance: random.Random) -> None:
        self.namespace = namespace
        self._server, self._chance = server, chance
        self._edits: list[Callable[[], None]] = [
            *[self._new_group] * 3,
            *[self._new_pod] * 8,
            *[self._change_group] * 6,
            *[self._mark] * 4,
            *[self._change_pod] * 4,
            *[self._drop_group] * 2,
            *[self._drop_pod] * 3,
            self._bind,
            self._new_budget,
            self._new_job,
            self._poison,
        ]
        self._number = 0
        self.count = self.refused = 0

    def act(self) -> None:
        """One edit."""
        self._chance.choice(self._edits)()

    def _send(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Document:
        headers = {"accept": "application/json", "content-type": kind, "user-agent": self.namespace}
        data = b"" if body is None else json.dumps(body).encode()
        answer = self._server.handle(Request(method, path, {}, headers, data, self.namespace))
        self.count += 1
        self.refused += answer.status >= 400
        found = answer.json()
        return found if isinstance(found, dict) else {}

    def _there(self, path: str) -> list[Document]:
        found: list[Document] = self._send("GET", path.format(self.namespace)).get("items") or []
        return found

    def _one_of(self, path: str) -> str:
        """The path of some object; of none when there is none."""
        there = self._there(path)
        name = self._chance.choice(there)["metadata"]["name"] if there else "none"
        return f"{path.format(self.namespace)}/{name}"

    def _new_group(self) -> None:
        if len(self._there(GROUPS)) >= MOST_GROUPS:
            self._drop_group()
        self._number += 1
        spec: Document = {"queue": self._chance.choice(QUEUES), "priorityClassName": self._chance.choice(CLASSES)}
        spec["preemptibility"] = self._chance.choice(PREEMPTIBILITIES)
        if self._chance.random() < 0.4:
            leaves = [{"name": name, "minMember": self._chance.randint(1, 2)} for name in "ab"]
            spec |= {"subGroups": leaves, "minSubGroup": self._chance.randint(1, 2)}
        else:
            spec["minMember"] = self._chance.randint(1, 4)
        metadata: Document = {"name": f"g{self._number}"}
        if self._chance.random() < 0.3:
            metadata["annotations"] = dict([self._chance.choice(MARKS)])
        self._send("POST", GROUPS.format(self.namespace), {**POD_GROUP, "metadata": metadata, "spec": spec})

    def _new_pod(self, node: str = "") -> None:
        if len(self._there(PODS)) >= MOST_PODS:
            self._drop_pod()
        self._number += 1
        groups = self._there(GROUPS)
        gang = self._chance.choice(groups)["metadata"]["name"] if groups else "none"
        amount = str(self._chance.choice((1, 1, 1, 2, 3)))
        spec: Document = {
            "schedulerName": "kai-scheduler",
            "containers": [{"name": "c", "image": "i", "resources": {"limits": {GPU: amount}}}],
            **({"nodeName": node} if node else {}),
        }
        if self._chance.random() < 0.1:
            spec["priorityClassName"] = self._chance.choice(CLASSES)
        annotations = {"pod-group-name": gang}
        if self._chance.random() < 0.1:
            annotations["muster.dev/admitted"] = f"{self._chance.choice(QUEUES)}/1"
        metadata = {"name": f"p{self._number}", "annotations": annotations}
        metadata["labels"] = {"kai.scheduler/subgroup-name": self._chance.choice("abc")}
        self._send("POST", PODS.format(self.namespace), {"metadata": metadata, "spec": spec})

    def _bind(self) -> None:
        """A pod with a node of its own choice: room that is taken past every scheduler."""
        own = [pod for pod in self._there(PODS) if "muster.dev/admitted" not in pod["metadata"].get("annotations", {})]
        if sum("nodeName" in pod["spec"] for pod in own) < MOST_BOUND:
            self._new_pod(node=f"n{self._chance.randrange(4)}")

    def _change_group(self) -> None:
        spec = self._chance.choice(
            (
                {"queue": self._chance.choice(QUEUES)},
                {"priorityClassName": self._chance.choice(CLASSES)},
                {"preemptibility": self._chance.choice(PREEMPTIBILITIES)},
                {"minMember": self._chance.randint(0, 6)},
                {"minSubGroup": self._chance.randint(0, 3)},
                {"subGroups": [{"name": "a", "minMember": 1}]},
                {"subGroups": None, "minSubGroup": None, "minMember": 1},
                {"stalenessGracePeriod": self._chance.choice(("0s", "-1s", "5s"))},
                {"preemptionDelay": "0s"},
            )
        )
        self._send("PATCH", self._one_of(GROUPS), {"spec": spec}, MERGE)

    def _mark(self) -> None:
        key, value = self._chance.choice(MARKS)
        where = self._chance.choice(("annotations", "labels"))
        path = self._chance.choice((GROUPS, PODS))
        self._send("PATCH", self._one_of(path), {"metadata": {where: {key: self._chance.choice((value, None))}}}, MERGE)

    def _change_pod(self) -> None:
        groups = self._there(GROUPS)
        gang = self._chance.choice(groups)["metadata"] if groups else {"name": "none", "uid": "u"}
        owner = {**POD_GROUP, "name": gang["name"], "uid": gang["uid"]}
        metadata = self._chance.choice(
            (
                {"annotations": {"pod-group-name": gang["name"]}},
                {"annotations": {"pod-group-name": None}},
                {"labels": {"kai.scheduler/subgroup-name": self._chance.choice("abc")}},
                {"annotations": {"muster.dev/admitted": None}},
                {"ownerReferences": [owner]},
                {"annotations": {"kai.scheduler/skip-podgrouper": "true"}},
            )
        )
        self._send("PATCH", self._one_of(PODS), {"metadata": metadata}, MERGE)

    def _drop_group(self) -> None:
        self._send("DELETE", self._one_of(GROUPS))

    def _drop_pod(self) -> None:
        self._send("DELETE", self._one_of(PODS), {"gracePeriodSeconds": self._chance.choice((0, 1, 5))})

    def _new_budget(self) -> None:
        path = BUDGETS.format(self.namespace)
        spec = {
            "maxUnavailable": 0,
            "selector": {"matchLabels": {"kai.scheduler/subgroup-name": self._chance.choice("abc")}},
        }
        self._send("DELETE", f"{path}/b")
        self._send("POST", path, {"metadata": {"name": "b"}, "spec": spec})

    def _new_job(self) -> None:
        container = {"name": "c", "image": "i", "resources": {"limits": {GPU: "1"}}}
        template = {"spec": {"schedulerName": "kai-scheduler", "restartPolicy": "Never", "containers": [container]}}
        pods = self._chance.randint(1, 3)
        labels = {"kai.scheduler/queue": self._chance.choice(QUEUES) or "shared"}
        annotations = {"kai.scheduler/batch-min-member": self._chance.choice(("all", "1", "9"))}
        self._send("DELETE", f"{JOBS.format(self.namespace)}/j", {"propagationPolicy": "Background"})
        body = {
            "metadata": {"name": "j", "labels": labels, "annotations": annotations},
            "spec": {"template": template, "parallelism": pods, "completions": pods},
        }
        self._send("POST", JOBS.format(self.namespace), body)

    def _poison(self) -> None:
        """Objects that are meant to cost everybody."""
        self._number += 1
        odd = {f"example.com/r{at}": "1" for at in range(self._chance.choice((7, 60, 300)))}
        ports = [{"containerPort": 1000 + at, "hostPort": 1000 + at} for at in range(self._chance.choice((0, 200)))]
        spec = {
            "schedulerName": "kai-scheduler",
            "containers": [{"name": "c", "image": "i", "resources": {"limits": odd}, "ports": ports}],
        }
        metadata = {"name": f"p{self._number}", "annotations": {"pod-group-name": "g1"}}
        self._send("POST", PODS.format(self.namespace), {"metadata": metadata, "spec": spec})
