"""All gangs of a cluster as they are written: who is placed where, what is core, what may go (SPEC §6, §8).

Trees, `satisfied` and room come from `problem`; nothing comes from the engine.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from oracle.problem import GANG, LEAF, Problem, amount, read
from oracle.queues import PARTS, Charge, nanoseconds, seconds

Document = dict[str, Any]
PRIORITIES = {"": 0, "train": 50, "build-preemptible": 75, "build": 100, "inference": 125}
SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
# What the readers know of a pod; documents that use more are judged by their expectations alone.
_KNOWN = {"schedulerName", "containers", "nodeName", "nodeSelector", "tolerations"}


def plain(document: Document) -> bool:
    """Whether the oracle understands all of a document."""
    if document["metadata"].get("namespace", "default") != "default":
        return False
    spec = document.get("spec", {})
    if document["kind"] == "Pod":
        tolerations = all("operator" not in one and "effect" not in one for one in spec.get("tolerations", []))
        asks = [one["resources"]["requests"] for one in spec["containers"] if set(one) == {"resources"}]
        whole = all(str(amount).isdigit() for ask in asks for amount in ask.values())
        return set(spec) <= _KNOWN and tolerations and whole and len(asks) == len(spec["containers"])
    if document["kind"] == "Node":
        return all(one["status"] == "True" for one in document["status"].get("conditions", []))
    if document["kind"] == "PodGroup":
        return _sound(spec)
    return True


def _sound(spec: Document) -> bool:
    """Whether the SubGroups make a tree with sensible minimums."""
    below = spec.get("subGroups", spec.get("subgroups", []))
    names = [one["name"] for one in below]
    parents = {one["parent"] for one in below if one.get("parent")}
    if len(set(names)) < len(names) or not parents <= set(names):
        return False
    above = {one["name"]: one.get("parent") for one in below}
    for name in names:
        seen = set()
        at: str | None = name
        while at and at not in seen:
            seen.add(at)
            at = above[at]
        if at:
            return False
    leaves = [one for one in below if one["name"] not in parents]
    direct = sum(not one.get("parent") for one in below)
    enough = spec.get("minSubGroup", 0) <= direct
    return (
        enough and all(one.get("minMember", 0) > 0 for one in leaves) and (bool(below) or spec.get("minMember", 1) > 0)
    )


def charge_of(pod: Document) -> Charge:
    """What a pod costs its queue."""
    cpu = memory = gpu = 0
    for container in pod["spec"]["containers"]:
        for name, value in container["resources"]["requests"].items():
            if name == "cpu":
                cpu += amount(value)
            elif name == "memory":
                memory += amount(value) // 1000
            elif name.endswith("/gpu") or (name.endswith(".shared") and "/mig-" not in name):
                gpu += amount(value) // 1000 * PARTS
            elif name.startswith("nvidia.com/mig-"):
                gpu += amount(value) // 1000 * PARTS * int(name[len("nvidia.com/mig-")]) // 7
    return cpu, memory, gpu


@dataclass(frozen=True)
class Member:
    """A pod of a gang that is placed or waits."""

    name: str
    leaf: str
    node: str
    charge: Charge
    created: int
    controlled: bool
    labels: tuple[tuple[str, str], ...]
    look: str

    @property
    def age(self) -> tuple[int, str]:
        """Older ones first."""
        return self.created, self.name


@dataclass
class Gang:
    """One gang: its tree (in `problem`), what it is, and its pods, oldest first."""

    name: str
    queue: str
    priority: int
    # Its priority is above what its namespace or its queue may have.
    refused: bool
    preemptibility: str
    created: int
    started: int
    since: int
    delay: float
    grace: float
    problem: Problem
    was_core: frozenset[str]
    keep: frozenset[str]
    was_joined: frozenset[str]
    stale_since: dict[str, int]
    placed: list[Member]
    waiting: list[Member]
    succeeded: dict[str, int]
    terminating: dict[str, int]
    # Those that terminate on a node.
    leaving: list[Member] = field(default_factory=list)

    def counts(self, placed: Iterable[Member]) -> dict[str, int]:
        """Pods per leaf that count when these are placed."""
        found = dict(self.succeeded)
        for member in placed:
            found[member.leaf] = found.get(member.leaf, 0) + 1
        return found

    def met(self, placed: Iterable[Member], name: str = "") -> bool:
        """Whether a tree node is satisfied when these are placed."""
        counts = self.counts(placed)
        return self.problem.satisfied(counts, name)

    def rows(self) -> list[str]:
        """Every tree node, parents first."""
        found = [""]
        for name in found:
            found += self.problem.children.get(name, [])
        return found

    def below(self, name: str, members: Iterable[Member]) -> list[Member]:
        """Those of the pods that are in a subtree."""
        leaves = self.problem.leaves(name)
        return [member for member in members if member.leaf in leaves]

    def ready(self) -> bool:
        """Whether the pods that exist are enough for the minimum."""
        return self.met([*self.placed, *self.waiting])

    def joined(self, placed: Iterable[Member]) -> set[str]:
        """The tree nodes that go only with their parents. What joins a semi-preemptible gang now, its quota decides."""
        placed, found = list(placed), set[str]()
        for parent in self.keep if self.preemptibility != "semi-preemptible" else ():
            if self.met(placed, parent):
                found.update(child for child in self.problem.children.get(parent, []) if self.met(placed, child))
        found |= self.was_joined & {child for one in self.keep for child in self.problem.children.get(one, [])}
        return {child for child in found if self.below(self.above(child), placed)}

    def above(self, name: str) -> str:
        """The parent of a tree node."""
        return next(parent for parent, below in self.problem.children.items() if name in below)

    def core(self, placed: Iterable[Member], root: str = "") -> set[str]:
        """The pods that make up the minimum, by name (SPEC §6); of a tree node, what makes up its own."""
        placed = sorted(placed, key=lambda member: member.age)
        found: set[str] = set()
        joined = self.joined(self.placed)

        def walk(name: str) -> None:
            below = self.problem.children.get(name, [])
            if not below:
                mine = [member.name for member in placed if member.leaf == name]
                found.update(mine[: max(0, self.problem.minimum[name] - self.succeeded.get(name, 0))])
                return
            ranked = sorted(below, key=lambda child: (not self.met(placed, child), child not in self.was_core))
            usable = [child for child in ranked if self.met(placed, child) or child in self.was_core]
            chosen = usable[: self.problem.minimum[name]]
            for child in [*chosen, *(child for child in below if child in joined and child not in chosen)]:
                walk(child)

        walk(root)
        missing = 0 if root else self.problem.floor - len(found) - sum(self.succeeded.values())
        found.update([member.name for member in placed if member.name not in found][: max(0, missing)])
        return found

    def firm(self, placed: Iterable[Member]) -> set[str]:
        """The pods that count against quota and that no one may evict."""
        placed = list(placed)
        if self.preemptibility == "preemptible":
            return set()
        return {one.name for one in placed} if self.preemptibility == "non-preemptible" else self.core(placed)

    def broken_by(self, going: Collection[str], bound: Iterable[Member] = ()) -> list[str]:
        """What a voluntary eviction of these pods breaks; `bound` come in the same cycle."""
        left = [member for member in self.placed if member.name not in going]
        wrong = []
        firm = self.firm(self.placed) & set(going)
        if firm:
            wrong.append(f"{sorted(firm)} of the {self.preemptibility} gang {self.name} may not be evicted")
        if not self.met(self.placed):
            # Half a gang goes whole or not at all.
            return [*wrong, *([f"a part of {self.name}, which is below its minimum"] if left else [])]
        # What is inside a child that is broken already are leftovers, and may go one by one.
        open_rows = [""]
        for name in open_rows:
            if self.met(self.placed, name):
                open_rows += self.problem.children.get(name, [])
                if not self.met([*left, *bound], name) and self.below(name, left):
                    wrong.append(f"{self.name} is left with a part of {name or 'its minimum'}")
        for name in sorted(self.joined(self.placed)):
            loses = any(member.name in going for member in self.below(name, self.placed))
            if loses and not self.met([*left, *bound], name) and self.below(self.above(name), left):
                wrong.append(f"{name} of {self.name} goes without what it has joined")
        return wrong

    def kind(self, going: Collection[str]) -> int:
        """The largest unit of a set: 0 leftovers, 1 surplus pods, 2 surplus children, 3 the whole gang."""
        left = [member for member in self.placed if member.name not in going]
        if not self.met(left) or not self.met(self.placed):
            return 3
        return max(self._kind_below("", going, left), default=0)

    def _kind_below(self, name: str, going: Collection[str], left: list[Member]) -> list[int]:
        found: list[int] = []
        for child in self.problem.children.get(name, []):
            if not any(member.name in going for member in self.below(child, self.placed)):
                continue
            if not self.met(self.placed, child):
                found.append(0)
            elif not self.met(left, child):
                found.append(2)
            else:
                found += self._kind_below(child, going, left)
        return found if self.problem.children.get(name) else [1]

    def units(self, going: Collection[str], *, peeled: bool = False) -> list[list[Member]]:
        """The pods of a legal set as units that go one after the other, smallest kinds first.

        `peeled`: of what goes whole the surplus goes first, pod by pod, and its minimum as the last unit; half a gang
        is all surplus.
        """
        gone = [member for member in self.placed if member.name in going]
        left = [member for member in self.placed if member.name not in going]
        singles: list[list[Member]] = []
        wholes: list[list[Member]] = []

        def whole(name: str) -> None:
            mine = self.below(name, gone)
            core = {one.name for one in mine}
            if peeled:
                core = self.core(mine, name) if self.met(self.placed, name) else set()
            singles.extend([member] for member in mine if member.name not in core)
            wholes.append([member for member in mine if member.name in core])

        if not self.met(left) or not self.met(self.placed):
            whole("")
            return [*singles, *(unit for unit in wholes if unit)]
        open_rows = [""]
        for name in open_rows:
            below = self.problem.children.get(name, [])
            if not below:
                singles += [[member] for member in gone if member.leaf == name]
            for child in below:
                mine = self.below(child, gone)
                if not self.met(self.placed, child):
                    singles += [[member] for member in mine]
                elif mine and not self.met(left, child):
                    whole(child)
                elif mine:
                    open_rows.append(child)
        return [*singles, *(unit for unit in wholes if unit)]


def gangs_of(documents: list[Document]) -> dict[str, Gang]:
    """Every gang by name. All names are in one namespace."""
    classes = {one["metadata"]["name"]: one.get("value", 0) for one in documents if one["kind"] == "PriorityClass"}
    usual = [one.get("value", 0) for one in documents if one["kind"] == "PriorityClass" and one.get("globalDefault")]
    priorities = {**PRIORITIES, **SYSTEM_PRIORITIES, "": max(usual, default=0), **classes}
    queues = {one["metadata"]["name"]: one for one in documents if one["kind"] == "Queue"}
    groups = [one for one in documents if one["kind"] == "PodGroup"]
    alone = [one for one in documents if one["kind"] not in ("PodGroup", "Pod")]
    nodes = {one["metadata"]["name"] for one in documents if one["kind"] == "Node"}
    pods: dict[str, list[Document]] = {}
    for one in documents:
        if one["kind"] == "Pod":
            pods.setdefault(one["metadata"].get("annotations", {}).get(GANG, ""), []).append(one)
    return {
        group["metadata"]["name"]: _gang(
            group, pods.get(group["metadata"]["name"], []), alone, nodes, _rank(group["spec"], priorities, queues)
        )
        for group in groups
    }


def _rank(spec: Document, priorities: dict[str, int], queues: dict[str, Document]) -> tuple[int, bool]:
    """The priority that counts, and whether another one was asked for that is not allowed (SPEC §14)."""
    asked = priorities.get(spec.get("priorityClassName", ""), priorities[""])
    counts = priorities[""] if asked > 10**9 else asked
    at, seen = spec.get("queue", "") or "default-queue", set[str]()
    while at in queues and at not in seen:
        seen.add(at)
        bound = queues[at]["metadata"].get("annotations", {}).get("muster.dev/max-priority")
        if bound is not None:
            counts = min(counts, priorities[bound] if bound in priorities else int(bound))
        at = queues[at]["spec"].get("parentQueue", "")
    return counts, counts < asked


def _gang(
    group: Document, pods: list[Document], alone: list[Document], nodes: set[str], rank: tuple[int, bool]
) -> Gang:
    spec, status = group["spec"], group.get("status", {})
    problem = read([*alone, group, *pods])
    priority, refused = rank
    usual = "non-preemptible" if priority >= 100 else "preemptible"
    rows = status.get("subGroups", [])
    created = nanoseconds(group["metadata"].get("creationTimestamp"))
    waits = [one for one in status.get("conditions", []) if one["type"] == "Scheduled" and one["status"] == "False"]
    found = Gang(
        name=group["metadata"]["name"],
        queue=spec.get("queue", "") or "default-queue",
        priority=priority,
        refused=refused,
        preemptibility=spec.get("preemptibility", "") or usual,
        created=created,
        started=nanoseconds(status.get("startTime")),
        since=nanoseconds(waits[0].get("lastTransitionTime")) if waits else created,
        delay=seconds(spec.get("preemptionDelay")),
        grace=seconds(spec.get("stalenessGracePeriod", "60s")),
        problem=problem,
        was_core=frozenset(one["name"] for one in rows if one.get("core")),
        keep=_kept(group) & frozenset(problem.children),
        was_joined=frozenset(one["name"] for one in rows if one.get("joined")),
        stale_since={one["name"]: nanoseconds(one["staleSince"]) for one in rows if one.get("staleSince")},
        placed=[],
        waiting=[],
        succeeded={},
        terminating={},
    )
    leaves = problem.leaves()
    for pod in pods:
        leaf = pod["metadata"].get("labels", {}).get(LEAF, "") if leaves != {""} else ""
        if leaf in leaves:
            _count(found, pod, leaf, nodes)
    found.placed.sort(key=lambda member: member.age)
    found.waiting.sort(key=lambda member: member.age)
    return found


def _kept(group: Document) -> frozenset[str]:
    """The roots ("") and branches that keep their children."""
    written = group["metadata"].get("annotations", {}).get("muster.dev/keep", "")
    return frozenset("" if name.strip() == "." else name.strip() for name in written.split(",") if name.strip())


def _count(gang: Gang, pod: Document, leaf: str, nodes: set[str]) -> None:
    metadata, phase = pod["metadata"], pod.get("status", {}).get("phase")
    goes = "deletionTimestamp" in metadata
    if phase == "Succeeded":
        gang.succeeded[leaf] = gang.succeeded.get(leaf, 0) + 1
    elif phase != "Failed":
        if goes:
            gang.terminating[leaf] = gang.terminating.get(leaf, 0) + 1
        on = pod["spec"].get("nodeName", "")
        labels = tuple(sorted(metadata.get("labels", {}).items()))
        shape = sorted(
            (key, str(value)) for key, value in pod["spec"].items() if key not in ("nodeName", "schedulerName")
        )
        member = Member(
            metadata["name"],
            leaf,
            on,
            charge_of(pod),
            nanoseconds(metadata.get("creationTimestamp")),
            any(owner.get("controller") for owner in metadata.get("ownerReferences", [])),
            labels,
            str((leaf, on, shape, labels, bool(metadata.get("ownerReferences")))),
        )
        if goes:
            gang.leaving += [member] if on in nodes else []
        elif on in nodes:
            gang.placed.append(member)
        elif not on:
            gang.waiting.append(member)
