"""What the embedded API server costs, per operation: the simulation asks it millions of times.

`python -m bench.embedded` prints the table alone; `--profile NAME` shows where the time of one row goes.
"""

import argparse
import random
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from bench.measure import Case, Run, measure, profile, shown
from bench.report import machine
from muster.api.documents import read
from muster.embedded import objects
from muster.embedded.exchange import Answer, Request
from muster.embedded.reading import Watch
from muster.embedded.running import Running
from muster.embedded.server import Server
from muster.embedded.store import Store

SECTION = "The embedded API server"
NOW = 1_800_000_000.0
TIME = "2027-01-15T08:00:00Z"
PODS = "/api/v1/namespaces/default/pods"
GROUPS = "/apis/scheduling.run.ai/v2alpha2/namespaces/default/podgroups"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
MERGE, JSON_PATCH = "application/merge-patch+json", "application/json-patch+json"
MUSTER = {"fieldManager": "muster", "timeout": "10s"}
Document = dict[str, Any]
DEFINITIONS = Path(__file__).parents[1] / "deploy" / "crds.yaml"


class World:
    """A server with our kinds, and short forms for requests to it."""

    def __init__(self, store: Store | None = None) -> None:
        chance = random.Random(1)  # noqa: S311
        self.server = Server(
            store or Store(),
            clock=lambda: NOW,
            new_uid=lambda: str(uuid.UUID(int=chance.getrandbits(128))),
            suffix=lambda: objects.suffix(chance.choice),
        )

    def send(self, method: str, path: str, body: bytes = b"", kind: str = "application/json") -> Answer:
        """An answer that is no refusal."""
        headers = {"content-type": kind, "accept": "application/json", "user-agent": "muster/1"}
        found = self.server.handle(Request(method, path, MUSTER, headers, body))
        assert found.status < 300, found.body
        return found

    def define(self) -> "World":
        """Our kinds become known."""
        for body in _definitions():
            self.send("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body)
        return self

    def with_pods(self, count: int, node: str = "") -> "World":
        """Pods are there; on a node when one is named."""
        for row in range(count):
            self.send("POST", PODS, encoded(pod(f"p{row}", node)))
        return self


_KEPT: list[bytes] = []


def _definitions() -> list[bytes]:
    if not _KEPT:
        _KEPT.extend(encoded(one.value) for one in read(DEFINITIONS.read_bytes()))
    return _KEPT


def encoded(value: Any) -> bytes:
    """A body."""
    return msgspec.json.encode(value)


def pod(name: str, node: str = "") -> Document:
    """A pod as an operator makes it."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
    amounts = {"nvidia.com/gpu": "1", "cpu": "4", "memory": "16Gi"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": {"app": "training", "kai.scheduler/subgroup-name": "workers"},
            "annotations": {"pod-group-name": "training", "embedded.muster.dev/start-after": "2s"},
            "ownerReferences": [{**owner, "apiVersion": "example.com/v1", "kind": "Operator"}],
        },
        "spec": {
            "schedulerName": "kai-scheduler",
            "terminationGracePeriodSeconds": 0,
            **({"nodeName": node} if node else {}),
            "containers": [{"name": "main", "image": "i:1", "resources": {"requests": amounts, "limits": amounts}}],
        },
    }


def node(name: str) -> Document:
    """A node."""
    amounts = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "8"}
    labels = {"topology.kubernetes.io/zone": "z1", "rack": "r1", "kubernetes.io/hostname": name}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": amounts},
    }


def group() -> Document:
    """A gang of three SubGroups."""
    parts = [{"name": name, "minMember": 4} for name in ("leaders", "workers", "helpers")]
    return {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "training"},
        "spec": {"queue": "default", "subGroups": parts, "minSubGroup": 3},
    }


def status(row: int) -> Document:
    """What muster says of that gang; another word each time."""
    conditions = [
        {"type": kind, "status": "True", "reason": "Ok", "message": f"said {row}", "lastTransitionTime": TIME}
        for kind in ("Accepted", "PodsPresent", "Scheduled", "Stale")
    ]
    counts = {"total": 4, "pending": row % 5, "placed": 4 - row % 5, "succeeded": 0}
    parts = [
        {"name": name, "satisfied": True, "core": True, "minimum": 4, "pods": counts, "domain": "z1/r1"}
        for name in ("", "leaders", "workers", "helpers")
    ]
    amounts = {"nvidia.com/gpu": "12", "cpu": "48", "memory": "192Gi"}
    return {
        "phase": "Scheduled",
        "conditions": conditions,
        "ready": "3/3",
        "podsSummary": f"{row}/12/12",
        "subGroups": parts,
        "resourcesStatus": {"requested": amounts, "allocated": amounts},
        "decision": f"d{row}",
        "startTime": TIME,
    }


def runs(row: int) -> Document:
    """What the kubelet says of a pod that runs."""
    names = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
    conditions = [{"type": name, "status": "True", "lastProbeTime": None, "lastTransitionTime": TIME} for name in names]
    state = {"running": {"startedAt": TIME}}
    container = {"name": "main", "image": "i:1", "imageID": "", "ready": True, "restartCount": row, "state": state}
    return {"phase": "Running", "startTime": TIME, "conditions": conditions, "containerStatuses": [container]}


def event(row: int) -> Document:
    """An event as muster records it."""
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": f"training.{row}", "namespace": "default", "labels": {"muster.dev/decision": "d1"}},
        "eventTime": "2027-01-15T08:00:00.000000Z",
        "reportingController": "muster.dev/scheduler",
        "reportingInstance": "muster-0",
        "action": "Scheduled",
        "reason": "Scheduled",
        "regarding": {
            "apiVersion": "scheduling.run.ai/v2alpha2",
            "kind": "PodGroup",
            "name": "training",
            "namespace": "default",
        },
        "note": "12 of 12 pods are placed",
        "type": "Normal",
    }


def lease(row: int) -> Document:
    """A Lease as muster renews it."""
    return {
        "spec": {
            "holderIdentity": "muster-0",
            "leaseDurationSeconds": 15,
            "leaseTransitions": 1,
            "acquireTime": "2027-01-15T08:00:00.000000Z",
            "renewTime": f"2027-01-15T08:00:00.{row:06}Z",
        }
    }


class Operation(NamedTuple):
    """One row: what is there before, and one operation (`act` gets the world and a running number)."""

    what: str
    goal_us: float | None
    world: Callable[[], Any]
    act: Callable[[Any, int], Any]
    count: int = 100


def _writes() -> Iterator[Operation]:
    yield Operation(
        "create a pod",
        400,
        lambda: World().define(),
        lambda world, row: world.send("POST", PODS, encoded(pod(f"p{row}"))),
    )
    yield Operation(
        "bind a pod",
        400,
        lambda: World().define().with_pods(100),
        lambda world, row: world.send(
            "POST", f"{PODS}/p{row}/binding", encoded({"metadata": {"name": f"p{row}"}, "target": {"name": "n"}})
        ),
    )
    yield Operation(
        "evict a pod",
        400,
        lambda: World().define().with_pods(100, "n"),
        lambda world, row: world.send("POST", f"{PODS}/p{row}/eviction", encoded({"metadata": {"name": f"p{row}"}})),
    )
    yield Operation(
        "delete a pod",
        400,
        lambda: World().define().with_pods(100, "n"),
        lambda world, row: world.send("DELETE", f"{PODS}/p{row}", encoded({"gracePeriodSeconds": 0})),
    )
    yield Operation(
        "merge-patch the status of a pod (kubelet)",
        600,
        lambda: World().define().with_pods(1, "n"),
        lambda world, row: world.send("PATCH", f"{PODS}/p0/status", encoded({"status": runs(row)}), MERGE),
    )
    yield Operation("JSON-patch the status of a PodGroup (muster)", 600, _grouped, _tell)
    yield Operation(
        "merge-patch an annotation of a PodGroup",
        400,
        _grouped,
        lambda world, row: world.send(
            "PATCH", f"{GROUPS}/training", encoded({"metadata": {"annotations": {"a": str(row)}}}), MERGE
        ),
    )
    yield Operation(
        "create an event",
        400,
        lambda: World().define(),
        lambda world, row: world.send("POST", EVENTS, encoded(event(row))),
    )
    yield Operation(
        "merge-patch an event",
        400,
        _with_event,
        lambda world, row: world.send(
            "PATCH",
            f"{EVENTS}/training.0",
            encoded({"series": {"count": row + 2, "lastObservedTime": "2027-01-15T08:00:00.000000Z"}}),
            MERGE,
        ),
    )
    yield Operation(
        "merge-patch a Lease",
        400,
        _with_lease,
        lambda world, row: world.send("PATCH", f"{LEASES}/l", encoded(lease(row)), MERGE),
    )


def _grouped() -> World:
    world = World().define()
    world.send("POST", GROUPS, encoded(group()))
    return world


def _tell(world: World, row: int) -> None:
    uid = world.server.core.store.list("podgroups.scheduling.run.ai").items[0]["metadata"]["uid"]
    patch = [
        {"op": "replace", "path": "/metadata/uid", "value": uid},
        {"op": "add", "path": "/status", "value": status(row)},
    ]
    world.send("PATCH", f"{GROUPS}/training/status", encoded(patch), JSON_PATCH)


def _with_event() -> World:
    world = World().define()
    world.send("POST", EVENTS, encoded(event(0)))
    return world


def _with_lease() -> World:
    world = World().define()
    world.send("POST", LEASES, encoded({"metadata": {"name": "l"}, **lease(0)}))
    return world


class Watched(NamedTuple):
    """A server on which watches are open."""

    world: World
    watches: list[Watch]

    def step(self, row: int) -> None:
        """One change, and every watch reads it."""
        self.world.send("PATCH", f"{LEASES}/l", encoded(lease(row)), MERGE)
        for one in self.watches:
            one.read()


def _watched(count: int) -> Watched:
    world, watches = _with_lease(), []
    for _ in range(count):
        watch = world.server.watch(Request("GET", LEASES, {"watch": "true"}))
        assert isinstance(watch, Watch)
        watch.read()
        watches.append(watch)
    return Watched(world, watches)


class Acting(NamedTuple):
    """A server, and what acts by itself."""

    world: World
    running: Running


def _acting(pods: int, nodes: int) -> Acting:
    world = World().define()
    for row in range(nodes):
        world.send("POST", "/api/v1/nodes", encoded(node(f"n{row}")))
    for row in range(pods):
        world.send("POST", PODS, encoded(pod(f"p{row}", f"n{row % nodes}")))
    running = Running(world.server)
    running.step(NOW)
    running.step(NOW + 5)
    return Acting(world, running)


def _touched(acting: Acting, row: int) -> None:
    acting.world.send("PATCH", f"{PODS}/p{row % 50}", encoded({"metadata": {"labels": {"row": str(row)}}}), MERGE)
    acting.running.step(NOW + 5)


def operations() -> Iterator[Operation]:
    """Everything."""
    yield from _writes()
    yield Operation(
        "list 50 pods",
        None,
        lambda: World().define().with_pods(50, "n"),
        lambda world, row: world.send("GET", PODS),
    )
    yield Operation("get a pod", None, lambda: World().with_pods(1), lambda world, row: world.send("GET", f"{PODS}/p0"))
    for count in (1, 8):
        yield Operation(
            f"patch a Lease that {count} watch",
            None,
            lambda count=count: _watched(count),
            lambda one, row: one.step(row),
        )
    yield Operation("step, nothing there", 100, lambda: _acting(0, 1), lambda one, row: one.running.step(NOW + 5))
    yield Operation(
        "step, 50 pods and 10 nodes", 100, lambda: _acting(50, 10), lambda one, row: one.running.step(NOW + 5)
    )
    yield Operation("change a pod of 50, and step", 800, lambda: _acting(50, 10), _touched)
    yield Operation("a new server", None, lambda: None, lambda _, row: World(), 20)
    yield Operation("a new server with our definitions", 3000, lambda: None, lambda _, row: World().define(), 20)
    yield Operation(
        "a new server on a copy of such a store",
        1000,
        lambda: World().define().server.core.store,
        lambda store, row: World(store.copy()),
        20,
    )


def cases() -> Iterator[Case]:
    """The same, as rows of `make bench`: each is so many operations."""
    for one in operations():
        yield _case(one)


def _case(one: Operation) -> Case:
    def run(given: Any) -> None:
        for row in range(one.count):
            one.act(given, row)

    goal_s = one.goal_us * one.count / 1e6 if one.goal_us else None
    what = f"embedded: {one.what}, {one.count} times"
    return Case(what, lambda: Run(run, one.world), one.count, "requests", goal_s, section=SECTION)


def main() -> None:
    """Prints the time of one operation, for each."""
    parser = argparse.ArgumentParser(prog="python -m bench.embedded", description=__doc__)
    parser.add_argument("--best-of", type=int, default=5, help="runs of which the fastest counts")
    parser.add_argument("--only", default="", metavar="TEXT", help="rows with this in their name")
    parser.add_argument("--profile", default="", metavar="TEXT", help="where the time of the first such row goes")
    asked = parser.parse_args()
    if asked.profile:
        print(profile(next(_case(one) for one in operations() if asked.profile in one.what), 45))
        return
    print(f"CPU time of one operation, best of {asked.best_of}; {machine()}\n")
    for one in operations():
        if asked.only not in one.what:
            continue
        found = measure(_case(one), asked.best_of)
        goal = f"≤ {shown(one.goal_us / 1e6)}" if one.goal_us else ""
        print(f"{one.what:<50} {shown((found.seconds or 0.0) / one.count):>10} {goal:>10}", flush=True)


if __name__ == "__main__":
    main()
