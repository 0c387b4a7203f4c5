"""Plays worlds of tenants in real time, and says what was broken."""

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from muster.cli.installation import NAMESPACE
from muster.cli.playground import Playground
from muster.cli.roles import user_name
from muster.config import Config
from muster.embedded.exchange import Request
from muster.telemetry import Log, Metrics
from tenants.edits import GPU, GROUPS, POD_GROUP, PODS, Tenant
from tenants.promises import Promises, Terms

QUEUES = {
    "top": Terms(quota=32, limit=32),
    "shared": Terms(quota=8, limit=16, parent="top"),
    "closed": Terms(quota=8, limit=8, parent="top", namespaces=("victim",)),
    "team": Terms(quota=4, limit=6, parent="top", namespaces=("t0", "t1")),
    "default-queue": Terms(quota=-1, limit=-1),
}
TENANTS, NODES = 3, 4
# The victim's own gangs: the pods that stay in each, whatever the others do.
PROTECTED = {("victim", "serve"): 4, ("victim", "shares"): 2}
PROBE_S, PAUSE_S = 60.0, 0.25


def main() -> int:
    """The exit code is 1 when a promise was broken."""
    parser = argparse.ArgumentParser(
        prog="python -m tenants", epilog="Example: python -m tenants --minutes 30 --seed 1"
    )
    parser.add_argument("--minutes", type=float, default=2.0, help="how long one world is played (default: 2)")
    parser.add_argument("--seed", type=int, default=1, help="which world (default: 1)")
    given = parser.parse_args()
    return asyncio.run(play(given.minutes * 60.0, given.seed))


async def play(seconds: float, seed: int) -> int:
    """One world."""
    log = Log(sys.stderr, level="error", human=True)
    with tempfile.TemporaryDirectory(prefix="muster-tenants-") as folder:
        ground = Playground(Config(), kubeconfig=Path(folder) / "kubeconfig", log=log, metrics=Metrics())
        async with ground:
            return await _World(ground, seed).play(seconds)


class _World:
    def __init__(self, ground: Playground, seed: int) -> None:
        self._ground, self._seed = ground, seed
        self._chance = random.Random(seed)  # noqa: S311
        self._stop = asyncio.Event()
        self._furnish()
        self._promises = Promises(ground.server, user_name(NAMESPACE), QUEUES, PROTECTED)
        self._tenants = [
            Tenant(ground.server, f"t{at}", random.Random(f"{seed} {at}"))  # noqa: S311
            for at in range(TENANTS)
        ]
        self._waits: list[float] = []

    async def play(self, seconds: float) -> int:
        running = asyncio.create_task(self._ground.run(self._stop))
        try:
            await self._settled()
            end = time.monotonic() + seconds
            probing = asyncio.create_task(self._probe(end))
            while time.monotonic() < end and not running.done():
                self._chance.choice(self._tenants).act()
                await asyncio.sleep(self._chance.uniform(0.0, 2 * PAUSE_S))
            await probing
        finally:
            ended = running.done()
            self._stop.set()
            await running
        if ended:
            self._promises.broken.append("the process ended by itself")
        return self._report(seconds)

    def _report(self, seconds: float) -> int:
        edits, refused = sum(one.count for one in self._tenants), sum(one.refused for one in self._tenants)
        worst = max(self._waits, default=0.0)
        sys.stdout.write(
            f"seed {self._seed}: {seconds / 60:.1f} min, {edits:,} requests of tenants ({refused:,} refused), "
            f"{self._promises.binds:,} binds, {self._promises.evictions:,} evictions, {len(self._waits)} probes, "
            f"the longest wait {worst:.1f} s: {len(self._promises.broken)} promises broken\n"
        )
        for what in self._promises.broken:
            sys.stdout.write(f"  BROKEN {what}\n")
        return 1 if self._promises.broken else 0

    def _send(self, method: str, path: str, body: Any = None) -> Any:
        headers = {"accept": "application/json", "content-type": "application/json"}
        data = b"" if body is None else json.dumps(body).encode()
        answer = self._ground.server.handle(Request(method, path, {}, headers, data, "admin"))
        assert answer.status < 300 or method != "POST", answer.json()["message"]
        return answer.json() if answer.status < 300 else None

    def _furnish(self) -> None:
        for at in range(NODES):
            amounts = {"cpu": "64", "memory": "256Gi", GPU: "8", "pods": "110"}
            self._send(
                "POST",
                "/api/v1/nodes",
                {"metadata": {"name": f"n{at}"}, "status": {"capacity": amounts, "allocatable": amounts}},
            )
        for name in ("victim", *(f"t{at}" for at in range(TENANTS))):
            self._send("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        for name, terms in QUEUES.items():
            if name == "default-queue":
                continue
            annotations = {"kai.scheduler/allowed-namespaces": ",".join(terms.namespaces)} if terms.namespaces else {}
            resources = {"gpu": {"quota": terms.quota, "limit": terms.limit}}
            spec = {"resources": resources, **({"parentQueue": terms.parent} if terms.parent else {})}
            path = "/apis/scheduling.run.ai/v2/queues"
            queue = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "spec": spec}
            self._send("POST", path, {**queue, "metadata": {"name": name, "annotations": annotations}})

    def _gang(self, name: str, queue: str, minimum: int, pods: int, preemptibility: str) -> None:
        spec = {"queue": queue, "minMember": minimum, "preemptibility": preemptibility, "priorityClassName": "train"}
        self._send("POST", GROUPS.format("victim"), {**POD_GROUP, "metadata": {"name": name}, "spec": spec})
        for at in range(pods):
            container = {"name": "c", "image": "i", "resources": {"limits": {GPU: "1"}}}
            metadata = {"name": f"{name}-{at}", "annotations": {"pod-group-name": name}}
            pod = {"metadata": metadata, "spec": {"schedulerName": "kai-scheduler", "containers": [container]}}
            self._send("POST", PODS.format("victim"), pod)

    async def _settled(self) -> None:
        """The victim's own gangs run."""
        self._gang("serve", "closed", 4, 4, "semi-preemptible")
        self._gang("shares", "shared", 2, 4, "semi-preemptible")
        async with asyncio.timeout(60.0):
            while not all(
                self._is_bound(f"{name}-{at}") for name, pods in (("serve", 4), ("shares", 4)) for at in range(pods)
            ):
                await asyncio.sleep(0.2)

    def _is_bound(self, pod: str) -> bool:
        found = self._send("GET", f"{PODS.format('victim')}/{pod}")
        return bool(found and found["spec"].get("nodeName"))

    async def _probe(self, end: float) -> None:
        """The victim asks for one GPU of its own queue, again and again, and gets it while a node has one."""
        number = 0
        while time.monotonic() < end - PROBE_S:
            number += 1
            name = f"probe-{number}"
            self._gang(name, "closed", 1, 1, "preemptible")
            began = time.monotonic()
            room_since: float | None = None
            while not self._is_bound(f"{name}-0"):
                now = time.monotonic()
                room_since = (room_since or now) if self._promises.free() > 0 else None
                if room_since is not None and now - room_since > PROBE_S / 2:
                    self._promises.broken.append(
                        f"{name} waits for {now - began:.0f} s beside free GPUs of its own queue"
                    )
                    break
                if now - began > 10 * PROBE_S:
                    self._promises.broken.append(f"{name} waits for {now - began:.0f} s within its quota")
                    break
                await asyncio.sleep(0.5)
            self._waits.append(time.monotonic() - began)
            self._send("DELETE", f"{GROUPS.format('victim')}/{name}")
            self._send("DELETE", f"{PODS.format('victim')}/{name}-0", {"gracePeriodSeconds": 0})
            await asyncio.sleep(self._chance.uniform(1.0, 10.0))


if __name__ == "__main__":
    raise SystemExit(main())
