"""Who watches the API server while a story is told, so that claims can be about the meanwhile and not only the end."""

import threading
from collections import Counter
from collections.abc import Sequence
from contextlib import aclosing
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from muster.api.kinds import POD_GROUP, read_object
from muster.api.tree import Tree, normal_form, satisfied
from muster.kube.client import Client
from muster.kube.resources import PODS, AnyKind, Resource
from muster.kube.watch import Added, Deleted, Listed, Modified, watch
from muster.sim.expecting import GANG, LEAF, Bound, Moves, key_of

Document = dict[str, Any]
Key = tuple[str, str]
GROUPS = Resource(POD_GROUP.api_version, POD_GROUP.name, POD_GROUP.plural)
_ENDED = ("Succeeded", "Failed")


class Moment(NamedTuple):
    """What of a gang was satisfied at a moment, by row of its tree."""

    tree: Tree
    met: tuple[bool, ...]


class Who(NamedTuple):
    """Which pod of a name, and where."""

    uid: str
    node: str


Lot = dict[Key, Who]


class Witness:
    """Sees every change of pods and PodGroups, over watches as anybody can have them; asked from another thread.

    `stirred` is set by every change.
    """

    def __init__(self) -> None:
        self.stirred = threading.Event()
        self._lock = threading.Lock()
        self._listed: set[str] = set()
        self._pods: dict[Key, Document] = {}
        self._trees: dict[Key, Tree] = {}
        # Since the act began: who was there, who came to a node or was evicted, and how gangs fared.
        self._first: Lot = {}
        self._moves = Moves()
        self._moments: dict[Key, list[Moment]] = {}

    async def watch(self, client: Client, kind: AnyKind) -> None:
        """Follows one kind until it is cancelled."""
        async with aclosing(watch(client, kind)) as changes:
            async for change in changes:
                if isinstance(change, Listed):
                    self.listed(kind, change.items)
                elif isinstance(change, Added | Modified | Deleted):
                    self.saw(kind, change.object, gone=isinstance(change, Deleted))

    async def watch_pods(self, client: Client) -> None:
        """Follows all pods."""
        await self.watch(client, PODS)

    async def watch_groups(self, client: Client) -> None:
        """Follows all PodGroups."""
        await self.watch(client, GROUPS)

    def listed(self, kind: AnyKind, documents: Sequence[Document]) -> None:
        """Takes in all objects of a kind as they are now: whoever is not among them has gone meanwhile."""
        there = {key_of(one) for one in documents}
        with self._lock:
            if kind is PODS:
                for key in self._pods.keys() - there:
                    self._saw_pod(self._pods[key], True)
            else:
                for key in self._trees.keys() - there:
                    del self._trees[key]
        for one in documents:
            self.saw(kind, one)
        self._listed.add(kind.plural)
        self.stirred.set()

    def saw(self, kind: AnyKind, document: Document, *, gone: bool = False) -> None:
        """Takes in one object as it is now."""
        with self._lock:
            if kind is PODS:
                self._saw_pod(document, gone)
            else:
                self._saw_group(document, gone)
        self.stirred.set()

    def _saw_pod(self, pod: Document, gone: bool) -> None:
        key = key_of(pod)
        self._moves.saw(pod, self._pods.pop(key, None), gone=gone)
        if not gone:
            self._pods[key] = pod
        gang = (key[0], _gang_of(pod))
        if gang in self._trees:
            self._look_at(gang)

    def _saw_group(self, group: Document, gone: bool) -> None:
        key = key_of(group)
        self._trees.pop(key, None)
        if not gone:
            found, problems = read_object(group, POD_GROUP, strict=False)
            if not problems:
                self._trees[key] = normal_form(found)
                self._look_at(key)

    def _look_at(self, gang: Key) -> None:
        """How a gang fares, counted from its pods."""
        tree = self._trees[gang]
        row_of = {node.name: row for row, node in enumerate(tree.nodes) if not node.children}
        counts: Counter[int] = Counter()
        for (space, _), pod in self._pods.items():
            leaf = row_of.get((pod["metadata"].get("labels") or {}).get(LEAF, "") if len(tree.nodes) > 1 else "")
            if (space, _gang_of(pod)) == gang and leaf is not None and _counts(pod):
                counts[leaf] += 1
        moment = Moment(tree, tuple(satisfied(tree, [counts[row] for row in range(len(tree.nodes))])))
        seen = self._moments.setdefault(gang, [])
        if not seen or seen[-1] != moment:
            seen.append(moment)

    # What it knows, for whoever asks.

    @property
    def is_watching(self) -> bool:
        """Whether it sees all that happens from now on."""
        return self._listed >= {PODS.plural, GROUPS.plural}

    def begin(self) -> None:
        """An act begins: what was before is forgotten, but not what is there."""
        with self._lock:
            self._first = {key: _who(pod) for key, pod in self._pods.items()}
            self._moves.begin()
            self._moments = {gang: moments[-1:] for gang, moments in self._moments.items()}

    @property
    def bound(self) -> list[Bound]:
        """Who came to a node since the act began."""
        return list(self._moves.bound)

    @property
    def evicted(self) -> list[Document]:
        """Who was evicted since the act began."""
        return list(self._moves.evicted)

    def moments(self, gang: Key) -> list[Moment]:
        """How a gang fared since the act began, one moment for each change of it."""
        with self._lock:
            return list(self._moments.get(gang, ()))

    def pods_like(self, pattern: str) -> tuple[Lot, Lot]:
        """Pods by a pattern of their names: those when the act began, and those on a node now."""
        with self._lock:
            now = {key: _who(pod) for key, pod in self._pods.items() if _counts(pod)}
            first = dict(self._first)
        return _like(pattern, first), _like(pattern, now)


def _like(pattern: str, pods: Lot) -> Lot:
    return {key: one for key, one in pods.items() if fnmatchcase(key[1], pattern)}


def _who(pod: Document) -> Who:
    return Who(pod["metadata"]["uid"], pod["spec"].get("nodeName", ""))


def _gang_of(pod: Document) -> str:
    found: str = (pod["metadata"].get("annotations") or {}).get(GANG, "")
    return found


def _counts(pod: Document) -> bool:
    """Whether a pod is placed, or has done its part."""
    if (pod.get("status") or {}).get("phase") in _ENDED:
        return bool(pod["status"]["phase"] == _ENDED[0])
    return bool(pod["spec"].get("nodeName")) and not pod["metadata"].get("deletionTimestamp")
