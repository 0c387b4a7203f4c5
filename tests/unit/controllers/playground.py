"""An API server in virtual time, with everything that can go wrong on the way to it; and processes that schedule on it.

It keeps objects and their history, answers lists, watches, patches, binds and evictions as a real one does, and looks
after every write whether what muster promises still holds: no node has more than it can take, no pod is bound twice.
"""

import asyncio
import copy
import functools
import io
import itertools
import json
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from muster.controllers.comparer import Comparer
from muster.controllers.leading import Leading
from muster.controllers.loop import Loop
from muster.controllers.scheduler import Scheduler
from muster.errors import Call
from muster.kube.client import Client
from muster.kube.transport import Answer, Request, Unanswered
from muster.telemetry import Log
from short_forms import documents_of
from unit.controllers.patches import by_type, merged
from unit.kube.playing import Played, VirtualClock, answer, line, playing, refusal, status, virtually

GPU = "nvidia.com/gpu"
PLURALS = {
    "Node": "nodes",
    "Pod": "pods",
    "PodGroup": "podgroups",
    "Queue": "queues",
    "Topology": "topologies",
    "PriorityClass": "priorityclasses",
    "PodDisruptionBudget": "poddisruptionbudgets",
    "EvictionRequest": "evictionrequests",
}
CLUSTER_WIDE = ("nodes", "queues", "topologies", "priorityclasses", "namespaces")
FOR_EVER = 10**9
MOST_ASKS = 20_000
Document = dict[str, Any]
Key = tuple[str, str]


class Ask(NamedTuple):
    """A request, in the words of RBAC: get, list, watch, create, patch, delete, bind, evict; and when it came."""

    verb: str
    plural: str
    key: Key
    body: Any
    at_s: float


@dataclass
class Fault:
    """What happens to the next `times` requests like this.

    They wait for `wait_s`, are done or not, and are answered with `says`: an answer, an error of the connection, or
    (None) as if nothing was.
    """

    verb: str
    plural: str = ""
    name: str = ""
    times: int = 1
    done: bool = False
    says: Answer | Exception | None = None
    wait_s: float = 0.0
    # How often it happened.
    met: int = 0

    def fits(self, ask: Ask) -> bool:
        """Whether this request is meant."""
        return (
            self.met < self.times
            and ask.verb == self.verb
            and self.plural in ("", ask.plural)
            and self.name in ("", ask.key[1])
        )


@dataclass
class Server:
    """The API server. `lag_s` is how late watches are, by plural; `grace_s` how long an evicted pod takes to go."""

    version: int = 1
    objects: dict[str, dict[Key, Document]] = field(default_factory=dict)
    history: list[tuple[int, float, str, str, Document]] = field(default_factory=list)
    oldest: int = 0
    lag_s: dict[str, float] = field(default_factory=dict)
    grace_s: float = 0.0
    down: bool = False
    faults: list[Fault] = field(default_factory=list)
    asks: list[Ask] = field(default_factory=list)
    # Writes that changed something, and binds by the uid of the pod.
    done: list[Ask] = field(default_factory=list)
    binds: Counter[str] = field(default_factory=Counter)
    # What must never happen, and did.
    broken: list[str] = field(default_factory=list)
    # Called with the name of a pod that is about to be evicted.
    evicting: Callable[[str], None] = lambda _: None
    # Called with each write that was done.
    after: Callable[[Ask], None] = lambda _: None
    # Called with the name of a pod that is gone.
    gone: Callable[[str], None] = lambda _: None
    _cut: asyncio.Event = field(default_factory=asyncio.Event)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _uids: Any = field(default_factory=itertools.count)

    # What the tests do.

    def put(self, document: Document) -> Document:
        """An object as it is from now on; a new one gets what a server gives it."""
        plural = PLURALS[document["kind"]]
        metadata = document["metadata"]
        key = ("" if plural in CLUSTER_WIDE else metadata.get("namespace", "default"), metadata["name"])
        there = self.objects.setdefault(plural, {})
        self.version += 1
        known = there.get(key, {}).get("metadata", {})
        made = {"uid": f"uid-{next(self._uids)}", "creationTimestamp": _now(), "generation": 1}
        given = {**made, **known, **metadata, **({"namespace": key[0]} if key[0] else {})}
        change = "MODIFIED" if key in there else "ADDED"
        there[key] = {**document, "metadata": {**given, "resourceVersion": str(self.version)}}
        self._tell(plural, change, there[key])
        return there[key]

    def play(self, things: Document) -> None:
        """All that the short forms of scenarios stand for."""
        for document in documents_of(things):
            self.put(document)

    def remove(self, plural: str, name: str, namespace: str = "default") -> None:
        """An object goes."""
        self.version += 1
        found = self.objects[plural].pop(("" if plural in CLUSTER_WIDE else namespace, name))
        last = {**found, "metadata": {**found["metadata"], "resourceVersion": str(self.version)}}
        self._tell(plural, "DELETED", last)
        if plural == "pods":
            self.gone(name)

    def change(self, plural: str, name: str, patch: Document, namespace: str = "default") -> Document:
        """A merge patch by somebody."""
        key = ("" if plural in CLUSTER_WIDE else namespace, name)
        return self.put(merged(self.objects[plural][key], patch))

    def cut(self) -> None:
        """All watches end."""
        self._cut.set()
        self._cut = asyncio.Event()

    def compact(self) -> None:
        """Nobody can go on from an older version."""
        self.oldest = self.version

    def saved(self) -> tuple[int, dict[str, dict[Key, Document]]]:
        """All there is, as a backup has it."""
        return self.version, copy.deepcopy(self.objects)

    def restore(self, saved: tuple[int, dict[str, dict[Key, Document]]]) -> None:
        """All is as it was then, the versions too."""
        self.version, self.objects = saved
        self.history.clear()
        self.cut()

    def fail(self, verb: str, name: str = "", **more: Any) -> Fault:
        """Something goes wrong from now on."""
        self.faults.append(Fault(verb, name=name, **more))
        return self.faults[-1]

    # What the tests look at.

    def nodes_of(self, gang: str = "") -> dict[str, str]:
        """Where each pod is; empty: nowhere."""
        return {
            name: pod["spec"].get("nodeName", "")
            for (_, name), pod in sorted(self.objects.get("pods", {}).items())
            if pod["metadata"].get("annotations", {}).get("pod-group-name", "") == gang or not gang
        }

    def status_of(self, gang: str) -> Document:
        """What a PodGroup is told."""
        return self.objects["podgroups"]["default", gang].get("status", {})

    def count(self, *verbs: str, since_s: float = 0.0) -> int:
        """How many requests of these kinds came."""
        return sum(ask.verb in verbs and ask.at_s >= since_s for ask in self.asks)

    # What the processes do.

    async def whole(self, request: Request, is_cut: Callable[[], bool] = lambda: False) -> Answer:
        """The answer to a request. When the way back is cut while it waits for its turn, it is not done."""
        if request.path.count("/") < 4 and request.path.startswith("/apis"):
            # It does not tell which kinds it has.
            return refusal(404, "NotFound")
        ask = ask_of(request)
        self.asks.append(ask)
        fault = next((one for one in self.faults if one.fits(ask)), None)
        if self.down:
            raise Unanswered("no connection", sent=False)
        if fault is None:
            return self._answer(ask)
        fault.met += 1
        await asyncio.sleep(fault.wait_s)
        if is_cut():
            raise Unanswered("nobody is there any more")
        found = self._answer(ask) if fault.done or fault.says is None else None
        if isinstance(fault.says, Exception):
            raise fault.says
        assert fault.says or found
        return fault.says or found

    async def chunks(self, request: Request) -> AsyncGenerator[Any, None]:
        """The lines of a watch, each as late as it is."""
        ask = ask_of(request)
        self.asks.append(ask)
        fault = next((one for one in self.faults if one.fits(ask)), None)
        if self.down:
            raise Unanswered("no connection", sent=False)
        if fault is not None:
            fault.met += 1
            yield fault.says
            return
        version = int(request.params["resourceVersion"])
        if version < self.oldest or version > self.version:
            # Real servers say it in either of two ways.
            yield refusal(410, "Expired") if self.oldest % 2 else line("ERROR", status(410, "Expired"))
            return
        cut, at = self._cut, 0
        yield b"\n"
        while not cut.is_set():
            changed = self._changed
            while at < len(self.history):
                made, made_s, plural, change, found = self.history[at]
                due_s = made_s + self.lag_s.get(plural, 0.0)
                if plural == ask.plural and made > version and due_s > now_s() + 1e-6:
                    break
                at += 1
                if plural == ask.plural and made > version:
                    yield line(change, found)
            wait_s = max(0.0, due_s - now_s()) if at < len(self.history) else 30.0
            if not await _any(changed.wait(), cut.wait(), within_s=wait_s):
                known = self.version if at == len(self.history) else version
                yield line("BOOKMARK", {"metadata": {"resourceVersion": str(known)}}) if wait_s == 30.0 else b"\n"

    def _answer(self, ask: Ask) -> Answer:
        there = self.objects.setdefault(ask.plural, {})
        if ask.verb == "list":
            items = [found for key, found in sorted(there.items()) if ask.key[0] in ("", key[0])]
            return answer({"metadata": {"resourceVersion": str(self.version)}, "items": items})
        if ask.verb == "create":
            self.done.append(ask)
            return answer({"metadata": {"name": "new"}}, 201)
        if ask.key not in there:
            return refusal(404, "NotFound")
        found = there[ask.key]
        if ask.verb == "get":
            return answer(found)
        do = {"bind": self._bind, "evict": self._evict, "delete": self._evict, "patch": self._patch}[ask.verb]
        return do(ask, found)

    def _bind(self, ask: Ask, pod: Document) -> Answer:
        # Who names no uid means any.
        uid, node = ask.body["metadata"].get("uid"), ask.body["target"]["name"]
        if uid not in (None, pod["metadata"]["uid"]):
            return refusal(409, "Conflict")
        if pod["spec"].get("nodeName") or pod["spec"].get("schedulingGates") or "deletionTimestamp" in pod["metadata"]:
            return refusal(409, "Conflict")
        self.binds[pod["metadata"]["uid"]] += 1
        copied = {"annotations": ask.body["metadata"].get("annotations", {})}
        self.put(merged(pod, {"metadata": copied, "spec": {"nodeName": node}}))
        self._is_sound()
        self._did(ask)
        return answer({}, 201)

    def _evict(self, ask: Ask, pod: Document) -> Answer:
        options = ask.body["deleteOptions"] if ask.verb == "evict" else ask.body
        if options["preconditions"]["uid"] != pod["metadata"]["uid"]:
            return refusal(409, "Conflict")
        uid = pod["metadata"]["uid"]
        self.evicting(ask.key[1])

        def end() -> None:
            if self.objects["pods"].get(ask.key, {}).get("metadata", {}).get("uid") == uid:
                self.remove("pods", ask.key[1], ask.key[0])

        if self.grace_s and pod["spec"].get("nodeName"):
            self.put(merged(pod, {"metadata": {"deletionTimestamp": _now()}}))
            asyncio.get_running_loop().call_later(self.grace_s, end)
        else:
            end()
        self._did(ask)
        return answer({}, 201)

    def _patch(self, ask: Ask, found: Document) -> Answer:
        body, conditions = ask.body, found.get("status", {}).get("conditions", [])
        if isinstance(body, list):
            body = {"metadata": {"uid": body[0]["value"]}, "status": body[1]["value"]}
            found = {key: value for key, value in found.items() if key != "status"}
        elif ask.plural == "pods" and "conditions" in body.get("status", {}):
            body = merged(body, {"status": {"conditions": by_type(conditions, body["status"]["conditions"])}})
        if body["metadata"].get("uid", found["metadata"]["uid"]) != found["metadata"]["uid"]:
            return refusal(409, "Conflict")
        wanted = merged(found, body)
        if wanted != self.objects[ask.plural][ask.key]:
            self.put(wanted)
            self._did(ask)
        return answer(self.objects[ask.plural][ask.key])

    def _did(self, ask: Ask) -> None:
        self.done.append(ask)
        self.after(ask)

    def _tell(self, plural: str, change: str, found: Document) -> None:
        self.history.append((self.version, now_s(), plural, change, found))
        self._changed.set()
        self._changed = asyncio.Event()

    def _is_sound(self) -> None:
        held: Counter[str] = Counter()
        for pod in self.objects["pods"].values():
            if pod.get("status", {}).get("phase") not in ("Succeeded", "Failed"):
                held[pod["spec"].get("nodeName", "")] += int(pod["spec"]["containers"][0]["resources"]["requests"][GPU])
        for (_, name), node in self.objects["nodes"].items():
            if held[name] > int(node["status"]["allocatable"][GPU]):
                self.broken.append(f"{name} holds {held[name]} at {now_s():.3f} s")
        if max(self.binds.values()) > 1:
            self.broken.append("a pod was bound twice")


class Lease:
    """The Lease, given and taken by the test: an election without rivals."""

    identity, holder, last_error = "this", "", None

    def __init__(self) -> None:
        self.given = asyncio.Event()
        self.is_marked = False

    def is_leader(self) -> bool:
        return self.given.is_set()

    async def may_write(self) -> bool:
        return self.given.is_set()

    async def elected(self) -> None:
        await self.given.wait()

    async def run(self) -> None:
        await asyncio.sleep(FOR_EVER)


class Process:
    """One muster against a server. What it sends after its `end` reaches nobody.

    One that does not lead from the beginning catches up when it is to, as `muster run` does.
    """

    def __init__(self, server: Server, leads: bool, requests_in: str = "") -> None:
        self.leads = leads
        self.dead = False
        self._lease = Lease()
        leading = Leading(None if leads else self._lease)  # type: ignore[arg-type]
        self._server = server
        self.clock = VirtualClock()
        self.logged = io.StringIO()
        self.client: Client = playing(Played(self._whole, server.chunks), self.clock)
        self.client.guard = self._guard
        self.scheduler = Scheduler()
        log = Log(self.logged, human=False)
        self.loop = Loop(
            self.client,
            self.scheduler,
            clock=self.clock,
            may_write=lambda: self.leads and leading.may_act(),
            log=log,
            requests_in=requests_in,
        )
        comparer = Comparer(self.client, self.scheduler, woken=self.loop.wake)
        self._task = asyncio.get_running_loop().create_task(self.loop.run())
        catching_up = leading.run(lambda: self.loop.is_synced, comparer, self.loop.wake)
        self._leading = asyncio.get_running_loop().create_task(catching_up)

    async def _whole(self, request: Request) -> Answer:
        # Who asks that often does not wait for anything: the test counts it.
        if self.dead or len(self._server.asks) > MOST_ASKS:
            await asyncio.sleep(FOR_EVER)
        found = await self._server.whole(request, lambda: self.dead)
        if self.dead:
            await asyncio.sleep(FOR_EVER)
        return found

    async def _guard(self, call: Call) -> str:
        return "" if self.leads else "another one leads"

    def lead(self) -> None:
        """It holds the Lease from now on."""
        self.leads = True
        self._lease.given.set()

    @property
    def is_up(self) -> bool:
        """Whether it still runs."""
        return not self._task.done()

    async def end(self) -> None:
        """Killed, as by a power cut."""
        self.dead = True
        for task in (self._task, self._leading):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


@asynccontextmanager
async def running(server: Server, *, leads: bool = True, requests_in: str = "") -> AsyncIterator[Process]:
    """A process that stays up until the block ends."""
    process = Process(server, leads, requests_in)
    try:
        yield process
        assert process.is_up or process.dead, process._task.exception()
        assert not server.broken
    finally:
        await process.end()


async def until(true: Callable[[], Any], within_s: float = 60.0, what: str = "") -> float:
    """Waits for something to be true; how long it took."""
    began_s = now_s()
    while not true():
        assert now_s() < began_s + within_s, f"not within {within_s:g} s: {what}"
        await asyncio.sleep(0.05)
    return now_s() - began_s


def ask_of(request: Request) -> Ask:
    """A request in the words of RBAC."""
    parts = request.path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 2:
        namespace, parts = parts[1], parts[2:]
    plural, name, part = [*parts, "", ""][:3]
    verb = {"GET": "get" if name else "list", "POST": "create", "PATCH": "patch", "DELETE": "delete"}[request.method]
    verb = {"binding": "bind", "eviction": "evict"}.get(part, verb)
    verb = "watch" if request.params.get("watch") else verb
    body = json.loads(request.body) if request.body else None
    return Ask(verb, plural, (namespace, name), body, now_s())


def now_s() -> float:
    """The time of the loop."""
    return asyncio.get_running_loop().time()


def _now() -> str:
    return VirtualClock().wall().strftime("%Y-%m-%dT%H:%M:%SZ")


async def _any(*works: Any, within_s: float) -> bool:
    """Whether one of them was done in time."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
        return bool(done)
    finally:
        for task in tasks:
            task.cancel()


LOST = Unanswered("the connection broke")
HIGH = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 90}


def gang(name: str, size: int, *, minimum: int | None = None, gpus: int = 1, **spec: Any) -> Document:
    """A gang and its pods, in the short form."""
    pods = [{"gang": name, "count": size, "gpus": gpus}]
    return {"gangs": {name: {"minMember": minimum or size, **spec}}, "pods": pods}


def nodes(count: int, gpus: int = 1) -> Document:
    """Nodes, in the short form."""
    return {"nodes": [{"name": "n", "count": count, "gpus": gpus}]}


def is_whole(server: Server, name: str) -> bool:
    """Whether all pods of a gang are bound."""
    return bool(server.nodes_of(name)) and all(server.nodes_of(name).values())


def told(server: Server, name: str) -> Callable[[], bool]:
    """Whether a gang is bound, and knows it."""
    return lambda: is_whole(server, name) and server.status_of(name).get("phase") == "Scheduled"


def says(server: Server, name: str, reason: str) -> Callable[[], bool]:
    """Whether a gang is told this."""
    return lambda: server.status_of(name).get("reason") == reason


def played(test: Callable[..., Any]) -> Callable[..., None]:
    """A test in virtual time."""

    @functools.wraps(test)
    def run(*args: Any, **more: Any) -> None:
        virtually(test(*args, **more))

    return run
