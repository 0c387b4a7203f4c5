"""Liveness and truth, once nothing goes wrong any more and nobody writes: what is there is what should be there.

Two judges: one that counts for itself (`recount`), and a scheduler that begins anew on the same objects and must find
nothing to do and nothing to say (SPEC §11.11, U1).
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from muster.api.kinds import CORE_KINDS, OPTIONAL_KINDS, OUR_KINDS, Kind
from muster.api.podgroup import PodGroupStatus
from muster.api.tree import satisfied
from muster.controllers.scheduler import WATCHED, Scheduler
from muster.decisions.orders import Orders
from muster.decisions.status import status_document
from muster.embedded.selectors import selector
from muster.embedded.server import Server
from muster.embedded.store import Key as StoreKey
from muster.kube.resources import Unread, read_or_tell
from muster.sim.books import QUEUES
from muster.sim.facts import GANG, LEAVING, SKIP, WAITING, Group, Key, Member
from muster.sim.judging import Judge
from muster.sim.objects import BEGIN
from muster.sim.recount import queues_told_wrongly, told_wrongly
from muster.sim.staleness import taken_with
from muster.sim.story import Story
from muster.sim.trace import Violation

_S = 10**9
# How much later than its grace period what is stale is gone.
STALE_S = 10.0
# Reserved room lapses after so long without progress, and a little later that is written.
LAPSE_S = 5 * 60.0 + 15.0
# A gang whose binds were refused again and again rests so long at most, and is told so a moment later.
_BACKS_OFF, _LONGEST_REST_S, _NO_EXCUSE_S = "BindBackoff", 315.0, 0.1
_TIMES = ("lastTransitionTime", "startTime", "staleSince")


def at_rest(story: Story, server: Server, now_s: float, judge: Judge) -> list[Violation]:
    """Everything that is wrong although it is calm."""
    rest = _Rest(story, server, now_s, judge)
    return [Violation(now_s, rule, says) for rule, says in rest.found()]


def rests_until_s(now_s: float, judge: Judge) -> float | None:
    """When the last gang that is excused because its binds were refused is excused no longer; None: none is."""
    ends = [_rests_until_s(judge, gang, now_s) for gang in judge.books.groups]
    last_s = max((end_s for end_s in ends if end_s is not None), default=now_s)
    return last_s + _NO_EXCUSE_S if last_s > now_s else None


class _Rest:
    def __init__(self, story: Story, server: Server, now_s: float, judge: Judge) -> None:
        self._story, self._server, self._now_s, self._judge = story, server, now_s, judge
        self._books = judge.books
        self._store = server.core.store

    def found(self) -> Iterator[tuple[str, str]]:
        self._books.asks_for_marks = True
        for key in sorted(self._books.groups):
            group = self._books.group(key)
            if group is not None:
                name = f"gang {'/'.join(key)}"
                yield from (("U1", f"{name}: {says}") for says in told_wrongly(group, self._books))
                yield from (("L1", f"{name}: {says}") for says in self._stale(group))
                yield from (("L5", f"{name}: {says}") for says in self._reserved(group))
        yield from (("S7", f"queue {name}: {says}") for name, says in queues_told_wrongly(self._store, self._books))
        yield from (("U1", says) for says in self._without_a_gang())
        yield from self._anew()

    # L1: nobody stays below a minimum.

    def _stale(self, group: Group) -> Iterator[str]:
        """Tree nodes that lost their minimum long ago, and whose pods are still there."""
        books, tree = self._books, group.tree
        if tree is None or group.wrong or group.grace_s < 0:
            return
        met = satisfied(tree, books.present(group))
        counts = [len(books.placed(group).get(row, ())) for row in range(len(tree.nodes))]
        joined = books.joined(group, counts)
        open_rows = [0]
        while open_rows:
            row = open_rows.pop()
            if met[row]:
                open_rows.extend(tree.nodes[row].children)
                continue
            top = row
            if joined[row]:
                if not self._waits(group, row):
                    continue
                top = taken_with(tree, row, joined, books.present(group), counts)
            leaves = tree.leaves_below(top)
            placed = [pod for leaf in leaves for pod in books.placed(group).get(leaf, ())]
            leaving = [pod for pod in books.gang(group.key).values() if pod.state == LEAVING]
            if not placed or any(group.leaf_of(pod) in leaves for pod in leaving) or self._are_guarded(placed):
                continue
            if top > 0 and not satisfied(tree, _without(books.present(group), map(group.leaf_of, placed)))[0]:
                # The floor of the gang counts on them.
                continue
            since_s, is_loss = self._below_since(group, row)
            since_s = max(since_s, self._waits_since_s(group, row)) if joined[row] else since_s
            late_s = self._now_s - max(since_s, self._story.lasts) - group.grace_s
            if is_loss and late_s > STALE_S and not self._has_what_it_had(group, row):
                names = ", ".join(sorted(pod.key[1] for pod in placed))
                who = tree.nodes[row].name or "it"
                yield f"{who} is below its minimum since {since_s:.0f} s, {late_s:.0f} s over its grace, with {names}"

    def _waits(self, group: Group, row: int, moment: float | None = None) -> bool:
        """Whether a pod below a tree node waits: without one a joined child has no clock."""
        assert group.tree is not None
        pods, leaves = self._books.gang(group.key, moment).values(), group.tree.leaves_below(row)
        return any(pod.state == WAITING and group.leaf_of(pod) in leaves for pod in pods)

    def _waits_since_s(self, group: Group, row: int) -> float:
        """Since when there is always one that waits."""
        turns = self._books.turns(group.key, 0.0, self._now_s)
        return next((moment for moment in turns if not self._waits(group, row, moment)), 0.0)

    def _below_since(self, group: Group, row: int) -> tuple[float, bool]:
        """Since when a tree node is below its minimum, and whether by a loss: a spec that asks for more is none."""
        books = self._books
        assert group.tree is not None
        name = group.tree.nodes[row].name
        for moment in books.turns(group.key, 0.0, self._now_s):
            before = books.group(group.key, moment)
            if before is None or before.tree is None or name not in before.tree.row_of:
                return moment, True
            at = before.tree.row_of[name]
            if satisfied(before.tree, books.present(before, moment))[at]:
                return moment, not satisfied(before.tree, books.present(before))[at]
        return 0.0, True

    def _has_what_it_had(self, group: Group, row: int) -> bool:
        """Whether there are as many pods as when its status last called it satisfied: nothing was lost since."""
        tree, books = group.tree, self._books
        assert tree is not None
        present = books.present(group)
        have = sum(present[leaf] for leaf in tree.leaves_below(row))
        for before in books.groups[group.key].since(0.0):
            for one in (before.status.get("subGroups") or ()) if before is not None else ():
                if one.get("name", "") == tree.nodes[row].name and one.get("satisfied"):
                    pods = one.get("pods") or {}
                    return have >= int(pods.get("placed", 0)) + int(pods.get("succeeded", 0))
        return False

    def _are_guarded(self, pods: list[Member]) -> bool:
        """Whether a disruption budget keeps these from going together."""
        for budget in self._store.list("poddisruptionbudgets.policy", pods[0].key[0]).items:
            selects = selector((budget.get("spec") or {}).get("selector"))
            meant = [pod for pod in pods if selects(self._store.get(StoreKey("pods", *pod.key)) or {})]
            if len(meant) > (budget.get("status") or {}).get("disruptionsAllowed", 0):
                return True
        return False

    # L5: nothing is reserved for ever.

    def _reserved(self, group: Group) -> Iterator[str]:
        books = self._books
        for pod in books.gang(group.key).values():
            if pod.state != WAITING or not pod.nominated:
                continue
            known = books.holders.get(pod.nominated)
            if known is None or not any(one.state == LEAVING for one in known.now.values()):
                yield f"pod {pod.key[1]} is nominated to {pod.nominated}, where nobody leaves"
        if group.kept and self._now_s - self._kept_s(group) > LAPSE_S:
            yield f"room is kept for pods that did not come: {group.kept}"

    def _kept_s(self, group: Group) -> float:
        """Since when kept room stands there as it does."""
        for moment in self._books.turns(group.key, 0.0, self._now_s):
            before = self._books.group(group.key, moment)
            if before is None or before.kept != group.kept:
                return moment
        return 0.0

    # Every pod of ours is of a gang, or somebody was told why not.

    def _without_a_gang(self) -> Iterator[str]:
        told = {
            (one.get("regarding") or one.get("involvedObject") or {}).get("uid")
            for resource in ("events", "events.events.k8s.io")
            for one in self._store.list(resource).items
        }
        for document in self._store.list("pods").items:
            metadata = document["metadata"]
            pod = self._books.pods[metadata["namespace"], metadata["name"]]
            annotations = metadata.get("annotations") or {}
            if not pod.ours or pod.state != WAITING or annotations.get(SKIP) == "true":
                continue
            if GANG not in annotations and pod.uid not in told:
                yield f"pod {'/'.join(pod.key)} waits, is of no gang, and nobody was told why"
            if pod.gang is not None and self._books.group(pod.gang) is None and pod.uid not in told:
                yield f"pod {'/'.join(pod.key)} waits, its gang {pod.gang[1]} is not there, and nobody was told"

    # A scheduler that begins anew.

    def _anew(self) -> Iterator[tuple[str, str]]:
        """What another scheduler would do with the same objects: nothing. Its clock is that of one of the processes."""
        first: list[tuple[str, str]] = []
        for skew_s in sorted({self._skew_s(process) for process in range(self._story.processes)}, key=abs):
            scheduler = Scheduler(identity="judge")
            for kind in (*CORE_KINDS, *OUR_KINDS):
                if kind.struct in WATCHED:
                    self._show(scheduler, kind)
            for kind in OPTIONAL_KINDS:
                self._show(scheduler, kind)
            scheduler.world.ask_for_marks()
            for gang in self._books.groups:
                if self._backs_off(gang):
                    scheduler.world.rest(gang, "its binds were refused")
            orders = scheduler.cycle(int((BEGIN.timestamp() + self._now_s + skew_s) * _S))
            found = [*self._acts(orders), *self._words(orders)]
            if not found:
                return
            first = first or found
        yield from first

    def _skew_s(self, process: int) -> float:
        """How far the clock of a process was set."""
        return sum(one.jump.get(process, 0.0) for one in self._story.happens)

    def _show(self, scheduler: Scheduler, kind: Kind) -> None:
        resource = f"{kind.plural}.{kind.group}" if kind.group else kind.plural
        for document in self._store.list(resource).items:
            found = read_or_tell(kind, msgspec.Raw(msgspec.json.encode(document)))
            if isinstance(found, Unread):
                why = f"{found.why.path}: {found.why.message}"
                scheduler.unread(kind.struct, found.metadata, why, raw=bytes(found.raw))
            else:
                scheduler.see(found)

    def _acts(self, orders: Orders) -> Iterator[tuple[str, str]]:
        for bind in orders.binds:
            yield "L2", f"pod {'/'.join(bind.pod)} waits, and a fresh scheduler binds it to {bind.node}"
        for evict in orders.evictions:
            what = f"a fresh scheduler evicts it ({evict.action} for {evict.beneficiary or 'nobody'})"
            yield "L2", f"pod {'/'.join(evict.pod)} stays, and {what}"
        for nomination in orders.nominations:
            where = f"to {nomination.node}" if nomination.node else "no more"
            yield "L5", f"pod {'/'.join(nomination.pod)}: a fresh scheduler nominates it {where}"
        for room in orders.rooms:
            yield "L5", f"gang {'/'.join(room.gang)}: a fresh scheduler keeps other room: {list(room.kept) or 'none'}"

    def _backs_off(self, gang: Key) -> bool:
        """Whether a gang rests after refused binds, up to five minutes: a fresh scheduler can't know that."""
        until_s = _rests_until_s(self._judge, gang, self._now_s)
        return until_s is not None and self._now_s <= until_s

    def _words(self, orders: Orders) -> Iterator[tuple[str, str]]:
        for order in orders.statuses:
            group = self._books.group(order.gang)
            if group is None or self._backs_off(order.gang):
                continue
            before = msgspec.convert(group.status, PodGroupStatus)
            differs = _differences(_plain(before), _plain(order.status))
            if differs:
                yield "U1", f"gang {'/'.join(order.gang)}: a fresh scheduler says otherwise: {'; '.join(differs)}"
        for signal in orders.signals:
            put = ", ".join(f"{one.type}={one.status} {one.reason} ({one.message})" for one in signal.signal.put)
            dropped = ", ".join(signal.signal.drop)
            said = f"says {put or 'nothing new'} and takes back {dropped or 'nothing'}"
            if not self._backs_off(signal.gang):
                yield "U1", f"pod {'/'.join(signal.signal.pod)}: a fresh scheduler {said}"
        for queue in orders.queues:
            document = self._store.get(StoreKey(QUEUES, "", queue.queue)) or {}
            differs = _differences(_untimed(document.get("status") or {}), _untimed(msgspec.to_builtins(queue.status)))
            if differs:
                yield "U1", f"queue {queue.queue}: a fresh scheduler says otherwise: {'; '.join(differs)}"


def _without(present: list[int], leaves: Iterable[int]) -> list[int]:
    left = list(present)
    for leaf in leaves:
        left[leaf] -= 1
    return left


def _rests_until_s(judge: Judge, gang: Key, now_s: float) -> float | None:
    """How long a gang may rest after refused binds, as its status says that it does; None: it does not. Between two
    rests it may be tried once more without a word.
    """
    known = judge.books.groups[gang]
    if not _says_that_it_rests(known.now):
        return None
    since_s = now_s
    for turn in reversed(known.turns(0.0)):
        since_s = turn
        if not _says_that_it_rests(known.at(turn)):
            break
    return max(since_s, judge.binds.last_s.get(gang, 0.0)) + _LONGEST_REST_S


def _says_that_it_rests(group: Group | None) -> bool:
    rows = (group.status.get("subGroups") or ()) if group is not None else ()
    return any(one.get("reason") == _BACKS_OFF for one in rows)


def _plain(status: PodGroupStatus) -> Any:
    return _untimed({key: one for key, one in status_document(status).items() if key != "decision"})


def _untimed(value: Any) -> Any:
    """Whether there is a time, and not which: a fresh scheduler can't know when something began that is not written
    down.
    """
    if isinstance(value, dict):
        return {key: "a time" if key in _TIMES and one else _untimed(one) for key, one in value.items()}
    return [_untimed(one) for one in value] if isinstance(value, list) else value


def _differences(before: Any, now: Any, path: str = "") -> list[str]:
    """Where two documents differ, in words."""
    if isinstance(before, dict) and isinstance(now, dict):
        found = []
        for key in sorted({*before, *now}):
            found += _differences(before.get(key), now.get(key), f"{path}.{key}" if path else key)
        return found
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        return [
            said
            for row, pair in enumerate(zip(before, now, strict=True))
            for said in _differences(*pair, f"{path}[{row}]")
        ]
    return [] if before == now else [f"{path} is {before!r}, not {now!r}"]
