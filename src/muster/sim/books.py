"""The judge's own account of the cluster: who is where, what nodes have, what gangs and queues ask for; now and before.

It is kept from the changes of the store alone, one object at a time.
"""

import math
import re
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from fractions import Fraction

from muster.api.tree import NONE, core, joined, satisfied
from muster.embedded.store import DELETED, Change, Store
from muster.sim import facts
from muster.sim.facts import (
    FIRM,
    LEAVING,
    PLACED,
    PREEMPTIBLE,
    SEMI,
    SUCCEEDED,
    Amounts,
    Document,
    Group,
    Key,
    Member,
    Node,
    preemptibility_of,
    priority_asked,
)
from muster.sim.past import Past

PODS, NODES, GROUPS = "pods", "nodes", "podgroups.scheduling.run.ai"
TOPOLOGIES, QUEUES, CLASSES = (
    "topologies.kai.scheduler",
    "queues.scheduling.run.ai",
    "priorityclasses.scheduling.k8s.io",
)
CHARGES = ("cpu", "memory", "gpu")
# Base units in one unit of a Queue.
# A GPU has as many parts as its slices can be counted in.
_PARTS = 7 * 64
UNITS = {"cpu": 1, "memory": 10**6, "gpu": _PARTS}
_MIG = re.compile(r"nvidia\.com/mig-([0-9]+)g\..*")
_NOBODY: Mapping[str, Member] = {}


def is_muster(who: str) -> bool:
    """Whether it was one of the processes that are judged."""
    return who.startswith("muster")


def charge_of(resource: str) -> str:
    """What a queue counts a resource as; empty for what it does not count."""
    return cost_of(resource)[0]


def cost_of(resource: str) -> tuple[str, int]:
    """The same, and base units for one unit of it: slices of a GPU are sevenths, whoever shares a GPU has all of it."""
    slice_ = _MIG.fullmatch(resource)
    if slice_:
        return "gpu", int(slice_[1]) * _PARTS // 7
    if resource.endswith(("/gpu", ".shared")):
        return "gpu", _PARTS
    return (resource, 1) if resource in CHARGES[:2] else ("", 0)


class Books:
    """What is there, and what was there."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.pods: dict[Key, Member] = {}
        # Whether all that ran before has its mark: then a bound pod without is of no gang now.
        self.asks_for_marks = False
        self.nodes: dict[str, Past[Node | None]] = {}
        self.groups: dict[Key, Past[Group | None]] = {}
        # Pods by gang, whatever they do; and those that hold room, by node.
        self.members: dict[Key, Past[Mapping[str, Member]]] = {}
        self.holders: dict[str, Past[Mapping[str, Member]]] = {}
        self.topologies: Past[Mapping[str, Document]] = Past({})
        self.queues: Past[Mapping[str, Document]] = Past({})
        self.classes: Past[Mapping[str, Document]] = Past({})
        # When anybody but muster changed anything.
        self._moments: list[float] = []
        for resource in (NODES, PODS, GROUPS, TOPOLOGIES, QUEUES, CLASSES):
            for document in store.list(resource).items:
                self._enter(resource, document, "", 0.0)

    def take(self, change: Change, who: str, now_s: float) -> None:
        """One change of the store."""
        resource = change.key.resource
        if resource not in _KEPT:
            return
        if not is_muster(who) and (not self._moments or self._moments[-1] < now_s):
            self._moments.append(now_s)
        if change.type == DELETED:
            self._remove(resource, change.document, now_s)
        else:
            self._enter(resource, change.document, who, now_s)

    def moments(self, since_s: float) -> Iterator[float | None]:
        """The moments at which things may have been otherwise than now: now (None) first, then back in time."""
        yield None
        for row in range(len(self._moments) - 1, bisect_left(self._moments, since_s) - 1, -1):
            yield self._moments[row]
        yield since_s

    def turns(self, gang: Key, since_s: float, until_s: float) -> list[float]:
        """When anything changed about a gang, its pods or their nodes, the latest first; `until_s` is the first."""
        members = self.members.get(gang)
        nodes = {pod.node for some in (members.since(since_s) if members else ()) for pod in some.values()}
        known = [self.members.get(gang), self.groups.get(gang), *(self.nodes.get(name) for name in sorted(nodes))]
        found = {turn for one in known if one is not None for turn in one.turns(since_s) if turn < until_s}
        return [until_s, *sorted(found, reverse=True)]

    # Keeping.

    def _enter(self, resource: str, document: Document, who: str, now_s: float) -> None:
        name = document["metadata"]["name"]
        if resource == PODS:
            self._put(self._member(document, who), now_s)
        elif resource == NODES:
            node = facts.node_of(document)
            known = self.nodes.setdefault(name, Past(None))
            if known.now != node:
                known.set(node, now_s)
        elif resource == GROUPS:
            self._put_group(document, now_s)
        else:
            kept = self._kept(resource)
            said = _said(document)
            if kept.now.get(name) != said:
                kept.set({**kept.now, name: said}, now_s)

    def _remove(self, resource: str, document: Document, now_s: float) -> None:
        metadata = document["metadata"]
        name = metadata["name"]
        if resource == PODS:
            self._drop(self.pods.pop((metadata["namespace"], name)), now_s, gang=True, node=True)
        elif resource == NODES:
            self.nodes[name].set(None, now_s)
        elif resource == GROUPS:
            self.groups[metadata["namespace"], name].set(None, now_s)
        else:
            kept = self._kept(resource)
            kept.set({key: one for key, one in kept.now.items() if key != name}, now_s)

    def _kept(self, resource: str) -> Past[Mapping[str, Document]]:
        return {TOPOLOGIES: self.topologies, QUEUES: self.queues, CLASSES: self.classes}[resource]

    def _member(self, document: Document, who: str) -> Member:
        metadata = document["metadata"]
        before = self.pods.get((metadata["namespace"], metadata["name"]))
        if before is None or before.uid != metadata["uid"]:
            return facts.member_of(document, who if (document.get("spec") or {}).get("nodeName") else "")
        found = facts.member_of(document, before.by, before.asks)
        return found._replace(by=who) if found.node and not before.node else found

    def _put(self, pod: Member, now_s: float) -> None:
        before = self.pods.get(pod.key)
        self.pods[pod.key] = pod
        if before is not None and before == pod:
            return
        if before is not None:
            same = before.uid == pod.uid
            self._drop(before, now_s, gang=not same or before.gang != pod.gang, node=not same)
        if pod.gang is not None:
            known = self.members.setdefault(pod.gang, Past(_NOBODY))
            known.set({**known.now, pod.uid: pod}, now_s)
        if pod.node:
            self._hold(pod, now_s)

    def _hold(self, pod: Member, now_s: float) -> None:
        known = self.holders.setdefault(pod.node, Past(_NOBODY))
        if pod.holds:
            known.set({**known.now, pod.uid: pod}, now_s)
        elif pod.uid in known.now:
            known.set({uid: one for uid, one in known.now.items() if uid != pod.uid}, now_s)

    def _drop(self, pod: Member, now_s: float, *, gang: bool, node: bool) -> None:
        """A pod is no longer in its gang, or on its node."""
        here = self.members.get(pod.gang) if gang and pod.gang else None
        there = self.holders.get(pod.node) if node else None
        for known in (here, there):
            if known is not None and pod.uid in known.now:
                known.set({uid: one for uid, one in known.now.items() if uid != pod.uid}, now_s)

    def _put_group(self, document: Document, now_s: float) -> None:
        metadata = document["metadata"]
        known = self.groups.setdefault((metadata["namespace"], metadata["name"]), Past(None))
        before, spec, said = known.now, document.get("spec") or {}, metadata.get("annotations") or {}
        if before is None or before.uid != metadata["uid"] or before.spec != spec or before.annotations != said:
            known.set(facts.group_of(document), now_s)
        elif before.status != (status := document.get("status") or {}):
            known.set(before._replace(status=status), now_s)

    # Asking. `moment` is None for now.

    def node(self, name: str, moment: float | None = None) -> Node | None:
        """A node, if there was one."""
        known = self.nodes.get(name)
        return known.at(moment) if known is not None else None

    def group(self, gang: Key, moment: float | None = None) -> Group | None:
        """A gang, if there was one."""
        known = self.groups.get(gang)
        return known.at(moment) if known is not None else None

    def gang(self, gang: Key, moment: float | None = None) -> Mapping[str, Member]:
        """The pods of a gang by uid."""
        known = self.members.get(gang)
        return known.at(moment) if known is not None else _NOBODY

    def decided(self, gang: Key, moment: float | None) -> Iterator[Member]:
        """Placed pods of a gang as somebody had to see them at a moment: those that muster sent since count, too."""
        now = self.gang(gang)
        for pod in now.values() if moment is None else self.gang(gang, moment).values():
            if not is_muster(pod.by) and pod.state == PLACED and self.counts(pod, moment):
                yield pod
        for pod in now.values():
            if is_muster(pod.by) and pod.state == PLACED and self.counts(pod, moment):
                yield pod

    def present(self, group: Group, moment: float | None = None) -> list[int]:
        """Placed and succeeded pods per row of the tree."""
        assert group.tree is not None
        counts = self.done(group, moment)
        for pod in self.gang(group.key, moment).values():
            leaf = group.leaf_of(pod)
            if leaf != NONE and self.counts(pod, moment):
                counts[leaf] += 1
        return counts

    def is_of(self, pod: Member, moment: float | None = None) -> bool:
        """Whether a pod is of the gang that it names: it was not bound for another one."""
        group = self.group(pod.gang, moment) if pod.gang is not None else None
        if group is None or not pod.node:
            return group is not None
        if pod.mark is None:
            return not self.asks_for_marks or moment is not None
        return pod.mark[1] == group.uid

    def queue_of(self, group: Group, moment: float | None = None) -> str:
        """The queue that a gang is charged to: the one that admitted what of it is placed."""
        marks = [
            pod.mark[0]
            for pod in self.gang(group.key, moment).values()
            if pod.state == PLACED and pod.mark is not None and pod.mark[1] == group.uid
        ]
        if not marks or group.queue in marks:
            return group.queue
        queues = self.queues.at(moment)
        admitted = min(marks, key=lambda one: (-marks.count(one), one))
        if queues and admitted not in queues and self._takes(group.queue, group.key[0], moment):
            # The queue that admitted it was deleted.
            return group.queue
        return admitted

    def _takes(self, queue: str, namespace: str, moment: float | None) -> bool:
        """Whether a queue is a leaf that gangs of a namespace may use."""
        queues = self.queues.at(moment)
        is_parent = any(((one.get("spec") or {}).get("parentQueue") or "") == queue for one in queues.values())
        if is_parent or not self.path(queue, moment):
            return False
        allowed = (queues[queue]["metadata"].get("annotations") or {}).get(facts.ALLOWED)
        return allowed is None or bool({"*", namespace} & {one.strip() for one in str(allowed).split(",")})

    def strays(self, queue: str, moment: float | None = None) -> Iterator[Member]:
        """Placed pods that no gang counts, and that a queue, or one below it, is charged for."""
        for pod in self.pods.values():
            if pod.mark is None or pod.state != PLACED or self.node(pod.node, moment) is None:
                continue
            if queue in self.path(pod.mark[0], moment) and not self.is_of(pod, moment):
                yield pod

    def leaving(self, queue: str, moment: float | None = None) -> Iterator[Member]:
        """Pods that terminate and hold room: a queue, or one below it, is charged for them until they are gone."""
        for pod in self.pods.values():
            if pod.state != LEAVING or self.node(pod.node, moment) is None:
                continue
            group = self.group(pod.gang, moment) if pod.mark is None and pod.gang is not None else None
            admitted = (
                pod.mark[0] if pod.mark is not None else self.queue_of(group, moment) if group is not None else ""
            )
            if queue in self.path(admitted, moment):
                yield pod

    def leaving_firm(self, queue: str, moment: float | None = None) -> Iterator[Member]:
        """Those of them that count against its quota: what is not preemptible, and what a core lacks. Strays do not:
        they may be evicted.
        """
        found: dict[Key, list[Member]] = {}
        for pod in self.leaving(queue, moment):
            if pod.gang is not None and self.is_of(pod, moment):
                found.setdefault(pod.gang, []).append(pod)
        for gang, pods in found.items():
            group = self.group(gang, moment)
            if group is None or group.tree is None:
                continue
            there = {leaf: list(placed) for leaf, placed in self.placed(group, moment).items()}
            for pod in sorted(pods, key=lambda one: one.age):
                # They come after what is placed: a core lacks only so many of them.
                there.setdefault(group.leaf_of(pod), []).append(pod)
            there.pop(NONE, None)
            uids = {pod.uid for pod in pods}
            yield from (pod for pod in self.firm(group, there, moment) if pod.uid in uids)

    def counts(self, pod: Member, moment: float | None = None) -> bool:
        """Whether a pod of its gang is placed on a node that is there, or succeeded."""
        if not self.is_of(pod, moment):
            return False
        return pod.state == SUCCEEDED or (pod.state == PLACED and self.node(pod.node, moment) is not None)

    def stood(self, name: str, begin_s: float, end_s: float) -> bool:
        """Whether a node was there all the time, or since it came first."""
        known = self.nodes.get(name)
        if known is None:
            return False
        came_s = math.nextafter(known.turns(0.0)[0], math.inf)
        return all(node is not None for node in known.between(min(max(begin_s, came_s), end_s), end_s))

    def placed(self, group: Group, moment: float | None = None) -> dict[int, list[Member]]:
        """Placed pods per leaf, the oldest first."""
        found: dict[int, list[Member]] = {}
        for pod in sorted(self.gang(group.key, moment).values(), key=lambda pod: pod.age):
            leaf = group.leaf_of(pod)
            if leaf != NONE and pod.state == PLACED and self.counts(pod, moment):
                found.setdefault(leaf, []).append(pod)
        return found

    def succeeded(self, group: Group, moment: float | None = None) -> list[int]:
        """Succeeded pods per row of the tree."""
        assert group.tree is not None
        counts = self.done(group, moment)
        for pod in self.gang(group.key, moment).values():
            leaf = group.leaf_of(pod)
            counts[leaf] += leaf != NONE and pod.state == SUCCEEDED and self.is_of(pod, moment)
        return counts

    def done(self, group: Group, moment: float | None = None) -> list[int]:
        """Pods per row of the tree that succeeded and were deleted since, where parts start in an order: a part that
        has no pods any more has done what others waited for, as its status tells.
        """
        assert group.tree is not None
        nodes, counts = group.tree.nodes, [0] * len(group.tree.nodes)
        told = {one.get("name"): one for one in group.status.get("subGroups") or ()} if group.tree.keeps else {}
        here = {group.leaf_of(pod) for pod in self.gang(group.key, moment).values()} if told else set[int]()
        for leaf in group.tree.leaves if told else ():
            row = nodes[leaf].parent
            while row != NONE and not nodes[row].keep:
                row = nodes[row].parent
            if row != NONE and leaf not in here:
                counts[leaf] = int((told.get(nodes[leaf].name, {}).get("pods") or {}).get("succeeded", 0))
        return counts

    def is_whole(self, group: Group, moment: float | None = None) -> bool:
        """Whether the minimum of a gang is placed."""
        return group.tree is not None and satisfied(group.tree, self.present(group, moment))[0]

    def path(self, queue: str, moment: float | None = None) -> list[str]:
        """A queue and all above it; empty when something is wrong on the way."""
        queues, found = self.queues.at(moment), list[str]()
        while queue:
            if queue not in queues or queue in found:
                return []
            found.append(queue)
            queue = (queues[queue].get("spec") or {}).get("parentQueue") or ""
        return found

    def priority(self, group: Group, moment: float | None = None) -> int:
        """The priority of a gang that counts: no system class of a tenant, and no more than its queues admit."""
        classes = self.classes.at(moment)
        found = self.priority_asked(group, moment)
        if found > _HIGHEST_OF_USERS and group.key[0] != _SYSTEM:
            found = priority_asked("", classes)
        for queue in self.path(self.queue_of(group, moment), moment):
            stated = self.queues.at(moment)[queue]["metadata"]["annotations"].get(_MAX_PRIORITY)
            if stated is not None:
                is_number = stated.lstrip("-").isdigit()
                found = min(found, int(stated) if is_number else priority_asked(stated, classes))
        return found

    def priority_asked(self, group: Group, moment: float | None = None) -> int:
        """The priority that a gang asks for."""
        return priority_asked(str(group.spec.get("priorityClassName") or ""), self.classes.at(moment))

    def bound(self, queue: str, charge: str, field: str, moment: float | None = None) -> int | None:
        """The limit or quota of a queue in base units; None: there is no end."""
        document = self.queues.at(moment).get(queue) or {}
        resources = (document.get("spec") or {}).get("resources") or {}
        stated = resources.get(charge)
        amount = -1 if stated is None else stated.get(field, -1 if field == "limit" else 0)
        return None if amount < 0 else int(Fraction(str(amount)) * UNITS[charge])

    def joined(
        self, group: Group, placed: Sequence[int], moment: float | None = None, left: Collection[str] = ()
    ) -> list[bool]:
        """Per row: whether it goes only with its parent, with so many placed pods: as the status has it, and what is
        satisfied now, without those that have `left` since. What joins a semi-preemptible gang its quota decides, and
        its status tells.
        """
        tree = group.tree
        assert tree is not None
        named = _joined_by(group)
        was = [node.name in named and node.name not in left for node in tree.nodes]
        found = joined(tree, placed, self.succeeded(group, moment), was)
        if preemptibility_of(group, self.priority(group, moment)) == SEMI:
            return [now and before for now, before in zip(found, was, strict=True)]
        return found

    def left(self, group: Group, moment: float | None = None) -> set[str]:
        """The children that its status calls joined, and that have left since it does: nothing of their parent was
        placed for a moment. muster knows it if it has seen that moment; the status says it later.
        """
        named, found = _joined_by(group), set[str]()
        for then_s in self.turns(group.key, 0.0, math.inf if moment is None else moment) if named else ():
            then = self.group(group.key, then_s)
            if then is None or then.tree is None or then.uid != group.uid or _joined_by(then) != named:
                break
            nodes, here = then.tree.nodes, self.placed(then, then_s).keys()
            found |= {
                node.name
                for node in nodes
                if node.name in named and here.isdisjoint(then.tree.leaves_below(max(0, node.parent)))
            }
        return found

    def core(self, group: Group, placed: Mapping[int, list[Member]], moment: float | None = None) -> set[str]:
        """The pods, by uid, that make up the minimum of a gang, as its status knows its core."""
        tree = group.tree
        assert tree is not None
        rows = group.status.get("subGroups")
        named = {one.get("name", "") for one in rows if one.get("core")} if rows else set()
        was = [node.name in named for node in tree.nodes] if rows else None
        have = [len(placed.get(row, ())) for row in range(len(tree.nodes))]
        with_it = self.joined(group, have, moment, self.left(group, moment))
        found = core(tree, have, self.succeeded(group, moment), was, with_it)
        kept = {pod.uid for leaf, pods in placed.items() for pod in pods[: found.pods[leaf]]}
        further = sorted(
            (pod for leaf, pods in placed.items() for pod in pods[found.pods[leaf] :]), key=lambda pod: pod.age
        )
        return kept | {pod.uid for pod in further[: found.floor_pods]}

    def firm(self, group: Group, placed: Mapping[int, list[Member]], moment: float | None = None) -> list[Member]:
        """The placed pods of a gang that may not be evicted."""
        what = preemptibility_of(group, self.priority(group, moment))
        every = [pod for pods in placed.values() for pod in pods]
        if what == PREEMPTIBLE or group.tree is None:
            return []
        if what == FIRM:
            return every
        kept = self.core(group, placed, moment)
        return [pod for pod in every if pod.uid in kept]


def _joined_by(group: Group) -> set[str]:
    """The children that have joined as its status has it."""
    return {one.get("name", "") for one in group.status.get("subGroups") or () if one.get("joined")}


# What SPEC §14 says of priorities, for the configuration that stories run with.
_MAX_PRIORITY, _SYSTEM, _HIGHEST_OF_USERS = "muster.dev/max-priority", "kube-system", 10**9


def _said(document: Document) -> Document:
    """What people say in an object, without what they are told."""
    metadata = document["metadata"]
    about = {"uid": metadata["uid"], "annotations": metadata.get("annotations") or {}}
    return {**{key: one for key, one in document.items() if key != "status"}, "metadata": about}


def charged(pods: Iterator[Member] | list[Member]) -> dict[str, int]:
    """What pods cost a queue."""
    total = dict.fromkeys(CHARGES, 0)
    for pod in pods:
        for resource, amount in pod.asks.items():
            charge, each = cost_of(resource)
            if charge:
                total[charge] += amount * each
    return total


def shown(charge: str, amount: int, *, bare: bool = False) -> str:
    """An amount for people: GPUs as a Queue has them, the rest in base units."""
    number = f"{amount / _PARTS:g}" if charge == "gpu" else str(amount)
    return number if bare else f"{number} of {charge}"


def summed(pods: Iterator[Member] | list[Member]) -> Amounts:
    """What pods ask for together."""
    total: dict[str, int] = {}
    for pod in pods:
        for resource, amount in pod.asks.items():
            total[resource] = total.get(resource, 0) + amount
    return total


_KEPT = frozenset({PODS, NODES, GROUPS, TOPOLOGIES, QUEUES, CLASSES})
