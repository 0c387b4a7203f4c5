"""The judge: sees every change of the store and every request of muster, and says which promise was broken.

It keeps its own books from plain documents and shares with muster what a tree means, and nothing that decides. Rules
are named as in SPEC §11 (`§11.4`) or as the simulation calls them (`S1` to `S9`, `L3`, `L6`).
"""

import json
from collections import deque
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote

from muster.api.cluster import DISRUPTION_TARGET
from muster.embedded.server import Server
from muster.embedded.store import DELETED, Change
from muster.errors import DEFECT
from muster.kube.transport import Request
from muster.model.reasons import Code
from muster.sim.binds import Binds
from muster.sim.books import GROUPS, PODS, Books, is_muster
from muster.sim.budgets import BUDGETS, Budgets
from muster.sim.evictions import Evictions
from muster.sim.facts import Key, Member
from muster.sim.recount import flipped
from muster.sim.sight import Sight
from muster.sim.story import Story

# More of the same in so many seconds is a loop that runs hot: binds of one pod, writes of one object, the same words.
_MOST_BINDS, _BINDS_S = 20, 10.0
_MOST_WRITES, _WRITES_S = 90, 60.0
# So long after the plan that it follows from a status is written, at most; without repetitions.
_TOLD_S = 12.0
# Of one kind only so many violations are kept: what is wrong once is often wrong a thousand times.
_MOST_OF_A_RULE = 20
_BUDGETS = "poddisruptionbudgets"
_POLICY, _IGNORE = "muster.dev/reclaim-policy", "IgnoreBudgets"
# Who bound a pod when the process that sent it there had ended before: none of those that are judged.
_ENDED = "a process that ended"


class Written(NamedTuple):
    """A write: of which resource and subresource, to what, and what it says."""

    resource: str
    namespace: str
    name: str
    below: str
    body: Any


class Judge:
    """Every violation, as it happens."""

    def __init__(
        self, story: Story, server: Server, now: Callable[[], float], broken: Callable[[str, str], None]
    ) -> None:
        self._now, self._tell = now, broken
        self.books = Books(server.core.store)
        self._sight = sight = Sight(story)
        self.binds = Binds(self.books, sight, self._broken, elects=story.elects or story.processes > 1)
        self.evictions = Evictions(self.books, sight, self.binds, self._broken)
        self.budgets = Budgets(server.core.store, self._broken)
        # Every pod that there ever was, by name: which uids it had.
        self._uids: dict[Key, dict[str, Member]] = {}
        for pod in self.books.pods.values():
            self._uids.setdefault(pod.key, {})[pod.uid] = pod
        # When a process asked for the pods, or the budgets, of a namespace, as they are.
        self._asked: dict[tuple[int, str, str], float] = {}
        self._recent: dict[tuple[Any, ...], deque[float]] = {}
        self._said: dict[str, int] = {}

    def changed(self, change: Change, who: str) -> None:
        """After each change of the store, by whom."""
        now_s = self._now()
        self._tick(now_s)
        self._sight.changed(change.key.resource, change.revision, now_s)
        if change.key.resource == PODS:
            self._pod_changed(change, who, now_s)
            return
        if change.key.resource == BUDGETS:
            self.budgets.changed(change, now_s)
        self.books.take(change, who, now_s)
        if change.key.resource == GROUPS and is_muster(who):
            self._status_written((change.key.namespace, change.key.name), int(who.rpartition("-")[2]), now_s)

    def sent(self, process: int, request: Request, leads: bool) -> None:
        """Each request of a process when it leaves it; whether the Lease says that it leads."""
        now_s = self._now()
        self._tick(now_s)
        if request.method == "GET":
            for plural in (PODS, _BUDGETS):
                if (namespace := _namespace_read(request, plural)) is not None:
                    self._asked[process, plural, namespace] = now_s
            return
        written = _written(request)
        if written.resource.endswith("accessreviews"):
            # A question, which changes nothing.
            return
        if not leads and written.resource != "leases":
            what = f"{request.method} {request.path}"
            self._broken("S8", f"muster-{process} writes and does not hold the Lease: {what}")
        if written.resource == PODS and written.name:
            self._writes_pod(process, request, written, now_s)
        if written.resource != "leases":
            name = written.name or _about(written.body or {})
            what = f"muster-{process}: {request.method} {request.path} for {name}"
            key = (process, request.method, request.path, name)
            self._count("L6", key, _MOST_WRITES, _WRITES_S, what)

    def answered(self, process: int, request: Request, status: int | None) -> None:
        """An answer reaches a process; None: there was none, and it waits no longer."""
        now_s = self._now()
        self._tick(now_s)
        if request.method == "GET":
            namespace = _namespace_read(request)
            if namespace is not None and status == 200:
                self.evictions.read(process, namespace, self._asked.pop((process, PODS, namespace), now_s), now_s)
            namespace = _namespace_read(request, _BUDGETS)
            if namespace is not None and status == 200:
                self.budgets.read(process, namespace, self._asked.pop((process, _BUDGETS, namespace), now_s))
            if status in (200, 404):
                self.binds.read(process, *_pods_read(request), now_s)
            return
        written = _written(request)
        if written.resource == PODS and written.below == "binding":
            self.binds.answered(process, _uid_meant(written), status, now_s)
        elif written.resource == PODS and (written.below == "eviction" or request.method == "DELETE"):
            self.evictions.answered(process, _uid_meant(written), status, now_s)

    def saw(self, process: int, plural: str, revision: int) -> None:
        """A process was shown everything of a kind up to a version."""
        self._sight.saw(process, plural, revision, self._now())

    def planned(
        self,
        process: int,
        binds: Collection[Key] = (),
        evictions: Collection[Key] = (),
        defects: Collection[str] = (),
    ) -> None:
        """A process made a plan on what it has seen, to bind or evict these pods; and what it found wrong with it."""
        now_s = self._now()
        self._sight.planned(process, now_s)
        self.binds.planned(process, binds, now_s)
        self.evictions.planned(process, evictions, now_s)
        self.budgets.planned(process, evictions, now_s)
        for says in defects:
            self._broken("defect", f"muster-{process} planned, {says}")

    def ended(self, process: int) -> None:
        """A process is no more, however it ended."""
        self._tick(self._now())
        self._sight.ended(process)
        self.binds.ended(process, self._now())
        self.evictions.ended(process, self._now())

    def settle(self) -> None:
        """Nothing more comes: what is still open is judged."""
        self.binds.settle()
        self.evictions.settle()

    # Inside.

    def _status_written(self, gang: Key, process: int, now_s: float) -> None:
        """§6: what is core stays core, as seen from any status that the process may have had before its eyes. And none
        says that muster has a defect.
        """
        known = self.books.groups.get(gang)
        now = known.now if known is not None else None
        if known is None or now is None:
            return
        if (says := _defect_told(now.status)) is not None:
            self._broken("defect", f"muster-{process} writes of gang {'/'.join(gang)}: {says}")
        name = ""
        for before in known.since(self._sight.since_s(process, now_s, _TOLD_S)):
            if before is None or before is now:
                continue
            name = flipped(before, now)
            if not name:
                return
        if name:
            self._broken("§6", f"gang {'/'.join(gang)}: {name} was core, is still satisfied, and is core no longer")

    def _tick(self, now_s: float) -> None:
        self.binds.tick(now_s)
        self.evictions.tick(now_s)

    def _pod_changed(self, change: Change, who: str, now_s: float) -> None:
        key = change.key.namespace, change.key.name
        before = self.books.pods.get(key)
        node = (change.document.get("spec") or {}).get("nodeName") or ""
        if before is not None and not before.node and self.binds.is_orphan(before.uid, node):
            # It comes as if others had sent it: who did is no more, and who came after it has to see it first.
            who = _ENDED
        self.books.take(change, who, now_s)
        if change.type == DELETED:
            return
        pod = self.books.pods[key]
        self._uids.setdefault(key, {})[pod.uid] = pod
        if before is None or before.uid != pod.uid:
            return
        if before.node and before.node != pod.node:
            self._broken("S2", f"pod {'/'.join(key)} was on {before.node} and is now on {pod.node or 'no node'}")
        elif pod.node and not before.node and is_muster(who):
            if not pod.ours:
                self._broken("S9", f"pod {'/'.join(key)} of another scheduler was bound by {who}")
            self.binds.take_effect(pod, now_s)

    def _writes_pod(self, process: int, request: Request, written: Written, now_s: float) -> None:
        key = written.namespace, written.name
        uid = _uid_meant(written)
        pod = self._uids.get(key, {}).get(uid) if uid else self.books.pods.get(key)
        what = f"muster-{process}: {request.method} {request.path}"
        if pod is not None and not pod.ours:
            self._broken("S9", f"{what} is about a pod of another scheduler")
        deletes = request.method == "DELETE"
        if pod is not None and written.below == "status" and _is_disrupted(written.body):
            self.evictions.announced(pod.uid, now_s)
        if deletes and (pod is None or not self._may_delete(pod, process, now_s)):
            self._broken("S6", f"{what} deletes a pod, and no budget is asked")
        elif written.below in ("binding", "eviction") or deletes:
            if not uid:
                self._broken("S2", f"{what} names no uid: it may hit another pod of that name")
            elif pod is None:
                self._broken("S2", f"{what} is for the uid {uid}, which no pod of that name ever had")
            if pod is not None and written.below == "binding":
                node = ((written.body or {}).get("target") or {}).get("name") or ""
                self._count("L3", (process, "bind", pod.uid), _MOST_BINDS, _BINDS_S, f"{what} to {node}")
                self.binds.send(process, self._known(pod), node, now_s)
            elif pod is not None:
                self.evictions.send(process, self._known(pod), now_s)
                if not deletes:
                    self.budgets.send(process, self._known(pod))

    def _may_delete(self, pod: Member, process: int, now_s: float) -> bool:
        """Whether some queue that is not above the pod's own gets back what it is owed whatever budgets say, as a
        process may have seen it.
        """
        group = self.books.group(pod.gang) if pod.gang is not None else None
        if group is None:
            return False
        mine = self.books.path(group.queue)
        for queues in self.books.queues.since(self._sight.since_s(process, now_s, _TOLD_S)):
            asking = (name for name, one in queues.items() if one["metadata"]["annotations"].get(_POLICY) == _IGNORE)
            if any(name not in mine for name in asking):
                return True
        return False

    def _known(self, pod: Member) -> Member:
        """The pod as it is now, if it is still there."""
        now = self.books.pods.get(pod.key)
        return now if now is not None and now.uid == pod.uid else pod

    def _count(self, rule: str, key: tuple[Any, ...], most: int, seconds: float, what: str) -> None:
        """Too much of the same in a short time is a loop that nobody ends."""
        now_s = self._now()
        times = self._recent.setdefault(key, deque())
        times.append(now_s)
        while times[0] < now_s - seconds:
            times.popleft()
        if len(times) == most + 1:
            self._broken(rule, f"{what} more than {most} times in {seconds:.0f} s")

    def _broken(self, rule: str, says: str) -> None:
        count = self._said[rule] = self._said.get(rule, 0) + 1
        if count <= _MOST_OF_A_RULE:
            self._tell(rule, says)


def _is_disrupted(body: Any) -> bool:
    """Whether what is written of a pod says that it is told to go."""
    status = body.get("status") if isinstance(body, dict) else None
    conditions = status.get("conditions") if isinstance(status, dict) else None
    return any(one.get("type") == DISRUPTION_TARGET for one in conditions or ())


def _defect_told(status: Mapping[str, Any]) -> str | None:
    """What a status says of a defect of muster; None: nothing."""
    rows = [*(status.get("subGroups") or ()), *(status.get("conditions") or ()), status]
    for row in rows:
        says = str(row.get("message") or "")
        if row.get("reason") == Code.SCHEDULER_ERROR or DEFECT in says:
            return says or Code.SCHEDULER_ERROR
    return None


def _namespace_read(request: Request, plural: str = PODS) -> str | None:
    """Of which namespace the pods are asked for, as they are now: nothing of a cache, and no watch."""
    parts = request.path.strip("/").split("/")
    if parts[-1] != plural or "watch" in request.params or request.params.get("resourceVersion"):
        return None
    return unquote(parts[-2]) if parts[-3:-2] == ["namespaces"] else None


def _pods_read(request: Request) -> tuple[str | None, str | None]:
    """Namespace and name of a pod that is read, or the namespace of all that are; None: none, or all."""
    parts = request.path.strip("/").split("/")
    if len(parts) == 6 and parts[4] == PODS:
        return unquote(parts[3]), unquote(parts[5])
    return _namespace_read(request), None


def _written(request: Request) -> Written:
    """What a write is about."""
    parts = [unquote(part) for part in request.path.strip("/").split("/")]
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    namespace = ""
    if rest and rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    resource, name, below = (*rest, "", "", "")[:3]
    body = None
    if request.body and (resource == PODS or not name):
        body = json.loads(request.body)
    return Written(resource, namespace, name, below, body)


def _about(body: dict[str, Any]) -> str:
    """What a new object is; of an event, what it says about what: their own names are all different."""
    regarding = body.get("regarding") or body.get("involvedObject")
    if regarding is not None:
        return f"{regarding.get('kind')} {regarding.get('name')}: {body.get('reason')}"
    return str((body.get("metadata") or {}).get("name") or "")


def _uid_meant(written: Written) -> str:
    """The uid that a write names, so that it hits no other pod of that name."""
    body = written.body
    if not isinstance(body, dict):
        return ""
    if written.below == "eviction":
        return str(((body.get("deleteOptions") or {}).get("preconditions") or {}).get("uid") or "")
    if body.get("kind") == "DeleteOptions":
        return str((body.get("preconditions") or {}).get("uid") or "")
    return str((body.get("metadata") or {}).get("uid") or "")
