"""Annotations on the workload change its gang: minimums and topology of the root, or of the subgroup at a dotted path.

They come before what the ResourceInterface says. Of several objects that carry one, the nearest to the pods counts.
"""

import re
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from muster.api.documents import shown
from muster.api.nearest import Nearest
from muster.api.podgroup import TOPOLOGY_ANNOTATION
from muster.grouping import segments
from muster.grouping.metadata import ANNOTATIONS, PREFIX, Said, nearest, place, plain
from muster.grouping.model import Object
from muster.grouping.nodes import Hold, Node
from muster.grouping.owners import annotations_of
from muster.grouping.trouble import Trouble

ROOT = "root"
REQUIRED, PREFERRED = "topology-required", "topology-preferred"
MIN_SUB_GROUP, MIN_MEMBER = "min-sub-group", "min-member"
VERBS = (REQUIRED, PREFERRED, MIN_SUB_GROUP, MIN_MEMBER)
# Counts whatever the root has: pods or children.
BATCH_MIN_MEMBER = "batch-min-member"
_OF_ROOT = {
    "topology-required-placement": REQUIRED,
    "topology-preferred-placement": PREFERRED,
    BATCH_MIN_MEMBER: BATCH_MIN_MEMBER,
}
# Of one object, a key with a path counts more than the same path in an illegal key, and that more than an older key.
_LEGAL, _ILLEGAL, _OLDER = range(3)

_WITH_PATH = re.compile(r"([^./]+)(\.|/\.?)(.+)", re.DOTALL)
_FROM_ROOT = re.compile(rf"{ROOT}(\.|\Z)")
_MOST_OF_TOPOLOGY = 253
# So many paths that are not there are told one by one, and looked through for the nearest.
_TOLD = 10
_LOOKED_THROUGH = 400


class _Order(NamedTuple):
    """What one annotation asks of the node at `path`."""

    rank: int
    verb: str
    path: str
    said: Said


def finish(root: Node, sources: Sequence[Object]) -> list[str]:
    """Applies the annotations of the sources, nearest first, and cuts leaves into segments. Gives warnings.

    The tree is changed in place. Raises Trouble when an annotation can't mean anything.
    """
    warnings: list[str] = []
    named = nearest(sources, TOPOLOGY_ANNOTATION, warnings)
    if named:
        root.hold = root.hold._replace(topology=named.name(_MOST_OF_TOPOLOGY))
    size = nearest(sources, segments.SIZE_ANNOTATION, [])
    paths, changes = _Paths(root), _Changes(warnings)
    later = []
    for order in _orders(sources, warnings):
        node = paths.find(order.path)
        # Segments are counted, and named, when they are there.
        if node is None or (order.verb == MIN_SUB_GROUP and segments.size_of(node, size)):
            later.append(order)
        else:
            changes.make(order, node)
    changes.cut = {id(node) for node in root.below() if segments.size_of(node, size)}
    warnings += segments.cut(root, sources)
    paths = _Paths(root)
    lost = []
    # To count segments changes what each of them asks for: that comes before what is asked of a single one.
    for order in sorted(later, key=lambda order: order.verb != MIN_SUB_GROUP):
        node = paths.find(order.path)
        if node is None:
            lost.append(order)
        else:
            changes.make(order, node)
    warnings += _told(lost, paths)
    _drop_idle_names(root)
    return warnings


def _orders(sources: Sequence[Object], warnings: list[str]) -> list[_Order]:
    """What the annotations ask for, what counts most first."""
    orders = []
    odd: dict[str, str] = {}
    for source in sources:
        of_source = []
        for key in _keys(source):
            rank, verb, path, problem = _read(key)
            if problem:
                odd.setdefault(key, f"{place(source, ANNOTATIONS, key)} {problem}")
            said = nearest([source], key, warnings) if verb else None
            if said:
                of_source.append(_Order(rank, verb, path, said))
        orders += sorted(of_source, key=lambda order: (order.rank, order.said.key))
    warnings += odd.values()
    return orders


def _keys(source: Object) -> list[str]:
    return sorted(key for key in annotations_of(source) if isinstance(key, str) and key.startswith(PREFIX))


def _read(key: str) -> tuple[int, str, str, str]:
    """The rank, verb and path of a key, and what is wrong with it. Without a verb it is none of these annotations."""
    word = key[len(PREFIX) :]
    if word in _OF_ROOT:
        return _OLDER, _OF_ROOT[word], ROOT, ""
    if word in VERBS:
        return _OLDER, "", "", f"names no subgroup: write {key}.{ROOT} or {key}.{ROOT}.<name>; it is passed over"
    parts = _WITH_PATH.fullmatch(word)
    if parts and parts[1] in VERBS:
        if parts[2] == ".":
            return _LEGAL, parts[1], parts[3], ""
        return _ILLEGAL, parts[1], parts[3], f"is no legal key: write {PREFIX}{parts[1]}.{plain(parts[3])}"
    if parts and _FROM_ROOT.match(parts[3]):
        meant = Nearest(VERBS).to(parts[1]) or "|".join(VERBS)
        return _LEGAL, "", "", f"is not known: write {PREFIX}{meant}.{plain(parts[3])}; it is passed over"
    return _LEGAL, "", "", ""


class _Changes:
    """Changes nodes as orders say. Of several orders about one thing of one node, the first counts."""

    def __init__(self, warnings: list[str]) -> None:
        self._warnings = warnings
        self._made: dict[tuple[str, int], _Order] = {}
        # The leaves that became branches of segments, by their ids.
        self.cut: set[int] = set()

    def make(self, order: _Order, node: Node) -> None:
        """Changes the node, unless an order that counts more did."""
        thing = order.verb if order.verb in (REQUIRED, PREFERRED) else MIN_MEMBER
        before = self._made.setdefault((thing, id(node)), order)
        if before is not order:
            if order.verb == MIN_SUB_GROUP != before.verb and id(node) in self.cut:
                raise Trouble(
                    f"{before.said}, which counts pods, and {PREFIX}{order.verb}.{order.path} counts segments of them",
                    "keep one of the two",
                )
        elif order.verb == REQUIRED:
            node.hold = node.hold._replace(required=order.said.name(segments.MOST_OF_LEVEL))
        elif order.verb == PREFERRED:
            node.hold = node.hold._replace(preferred=order.said.name(segments.MOST_OF_LEVEL))
        elif order.verb == BATCH_MIN_MEMBER and node.keep:
            # To need more parts than are there at the start would be to wait for what waits for them.
            self._warnings.append(f"{order.said}, which does not count parts that start in an order")
        elif order.verb == MIN_SUB_GROUP or (order.verb == BATCH_MIN_MEMBER and node.children):
            self._count_children(order, node)
        else:
            self._count_pods(order, node)

    def _count_children(self, order: _Order, node: Node) -> None:
        if not node.children:
            self._wrong(order, "holds pods and has no subgroups", MIN_MEMBER)
        count = order.said.whole(_least(node))
        if count > len(node.children):
            self._cut_down(order, len(node.children), "subgroup")
        node.minimum = count if count < len(node.children) else None
        if id(node) in self.cut:
            for segment in node.children:
                segment.minimum = segment.replicas

    def _count_pods(self, order: _Order, node: Node) -> None:
        if node.children:
            self._wrong(order, "has subgroups, and pods are counted in leaves", MIN_SUB_GROUP)
        node.minimum = order.said.whole(_least(node))
        if node.replicas is not None and node.minimum > node.replicas:
            self._cut_down(order, node.replicas, "pod")
            node.minimum = node.replicas

    def _cut_down(self, order: _Order, most: int, what: str) -> None:
        here = f"{most} {what}{'' if most == 1 else 's'}{' at a time' if what == 'pod' else ''}"
        self._warnings.append(f"{order.said}, but {order.path} has {here}: {most} is used")

    def _wrong(self, order: _Order, why: str, verb: str) -> None:
        raise Trouble(f"{order.said}, but {order.path} {why}", f"write {PREFIX}{verb}.{order.path}")


def _least(node: Node) -> int:
    """A SubGroup may be missing altogether; a gang that asks for nothing is none."""
    return 1 if not node.name else 0


class _Paths:
    """Nodes by their dotted paths. Each name on the way is that of the SubGroup, or what its entry calls it."""

    def __init__(self, root: Node) -> None:
        self._root = root
        self._children: dict[int, dict[str, Node]] = {}

    def find(self, path: str) -> Node | None:
        """The node at a path."""
        start, *names = path.split(".")
        node: Node | None = self._root if start == ROOT else None
        for name in names:
            if node is None:
                break
            node = self._below(node).get(name)
        return node

    def all(self) -> Iterator[str]:
        """Every path, those near the root first."""
        waiting = deque([(ROOT, self._root)])
        while waiting:
            path, node = waiting.popleft()
            yield path
            waiting.extend((f"{path}.{name}", child) for name, child in self._below(node).items())

    def _below(self, node: Node) -> dict[str, Node]:
        found = self._children.get(id(node))
        if found is None:
            found = {child.name: child for child in node.children}
            for child in node.children:
                found.setdefault(child.short, child)
            self._children[id(node)] = found
        return found


def _told(lost: Sequence[_Order], paths: _Paths) -> list[str]:
    """A warning for each path that is not there, with the nearest that is."""
    if not lost:
        return []
    known = list(islice(paths.all(), _LOOKED_THROUGH))
    near = Nearest(known, budget=_TOLD)
    some = ", ".join(known[:6]) + (", …" if len(known) > 6 else "")
    orders = list({(order.verb, order.path): order for order in reversed(lost)}.values())[::-1]
    told = []
    for order in orders[:_TOLD]:
        below = f"{ROOT}.{order.path}"
        meant = below if paths.find(below) else near.to(order.path)
        hint = f"did you mean {meant}?" if meant else f"there are {some}"
        told.append(f"{order.said}, but there is no subgroup at {shown(order.path)}; {hint}")
    if len(orders) > _TOLD:
        told.append(f"{len(orders) - _TOLD} more annotations name subgroups that are not there")
    return told


def _drop_idle_names(root: Node) -> None:
    """A constraint that names a topology but no level holds nothing: it stays where one below inherits the name."""
    heirs: set[int] = set()
    for node in reversed(list(root.below())):
        level = node.hold.required or node.hold.preferred
        inherits = bool(level) or any(id(child) in heirs for child in node.children)
        if node.hold.topology and not inherits:
            node.hold = Hold()
        elif inherits and not node.hold.topology:
            heirs.add(id(node))
