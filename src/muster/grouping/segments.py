"""A leaf whose pods are numbered is cut into segments: pods that follow each other and are held together.

The leaf becomes a branch and each segment a leaf below it. Together they ask for as many pods as the leaf did.
"""

from collections.abc import Sequence

from muster.api.podgroup import MAX_SUBGROUPS
from muster.grouping.metadata import Said, nearest
from muster.grouping.model import Object
from muster.grouping.names import dns_label
from muster.grouping.nodes import Hold, Node, Span
from muster.grouping.trouble import Trouble

SIZE_ANNOTATION = "kai.scheduler/segment-size"
REQUIRED_ANNOTATION = "kai.scheduler/segment-topology-required-placement"
PREFERRED_ANNOTATION = "kai.scheduler/segment-topology-preferred-placement"

MOST_OF_LEVEL = 316


def minimums(pods: int, minimum: int, size: int, *, waves: bool = False) -> tuple[int | None, list[int]]:
    """How many segments are needed (None: all), and the minimum of each, so that together they need `minimum` pods.

    No segment asks for more pods than it has. Where it can be, any of the segments will do. That takes one segment
    that asks for the rest which is no whole segment; when the last one is too small to stand in for the others, the
    first ones are needed and the others ask for nothing. So it is when the pods come in `waves`, the first ones first.
    """
    minimum = min(minimum, pods)
    count = _count(pods, size)
    last = pods - (count - 1) * size
    asked = [size] * (count - 1) + [last]
    if minimum == pods and not waves:
        return None, asked
    needed = -(-minimum // size)
    rest = minimum - (needed - 1) * size
    if waves or minimum == 0 or last < min(rest, size):
        return None, [max(0, min(size, minimum - index * size)) for index in range(count)]
    asked[needed - 1 if last == size else -1] = rest
    return needed if needed < count else None, asked


def size_of(node: Node, said: Said | None) -> int | None:
    """The size of the segments that a node is cut into; None when it stays whole. Raises Trouble."""
    if node.cut is None or node.children:
        return None
    return said.whole() if said else node.size or None


def cut(root: Node, sources: Sequence[Object]) -> list[str]:
    """Cuts every leaf that can be cut, where the workload or its interface says how; gives warnings, raises Trouble.

    A leaf that has fewer pods than a segment becomes one segment all the same, so that pods keep their SubGroup when
    the workload grows.
    """
    warnings: list[str] = []
    said = nearest(sources, SIZE_ANNOTATION, warnings)
    levels = [nearest(sources, key, warnings) for key in (REQUIRED_ANNOTATION, PREFERRED_ANNOTATION)]
    nodes = list(root.below())
    sizes = [(node, size) for node in nodes if (size := size_of(node, said))]
    if said and not any(node.cut for node in nodes):
        warnings.append(
            f"{said}, but nothing is cut: no leaf of this workload has an index label; "
            "give one `segments` in a ResourceInterface"
        )
    elif not sizes:
        # An interface may read the level itself, for parts that the workload's own operator calls segments.
        used = {level for node in nodes for level in (node.hold.required, node.hold.preferred)}
        unused = [level for level in levels if level and level.value not in used]
        warnings += [f"{level}, but nothing is cut; set {SIZE_ANNOTATION}" for level in unused]
    subgroups = len(nodes) - 1
    for node, size in sizes:
        if node.replicas is None:
            raise Trouble(
                f"{node.name or 'the gang'} can't be cut into segments: nobody knows how many pods it has",
                "replicasPath is needed in the ResourceInterface",
                path=node.path,
            )
        subgroups += _count(_numbered(node), size)
    if subgroups > MAX_SUBGROUPS:
        most = max(sizes, key=lambda pair: _count(_numbered(pair[0]), pair[1]))
        raise Trouble(
            f"segments of {most[1]:,} pods would make {subgroups:,} SubGroups, and a PodGroup has at most "
            f"{MAX_SUBGROUPS:,}",
            f"write a larger {SIZE_ANNOTATION}",
            path=most[0].path,
        )
    required, preferred = (level.name(MOST_OF_LEVEL) if level else "" for level in levels)
    taken = {node.name for node in nodes}
    for node, size in sizes:
        _cut(node, size, Hold("", required, preferred), taken)
    return warnings


def _count(pods: int, size: int) -> int:
    """How many segments there are; one without pods keeps a leaf that is scaled to nothing what it is."""
    return max(1, -(-pods // size))


def _numbered(node: Node) -> int:
    """How many pods have a number, now or later."""
    return max(node.replicas or 0, node.numbered or 0)


def _cut(node: Node, size: int, asked: Hold, taken: set[str]) -> None:
    assert node.cut is not None
    assert node.replicas is not None
    pods = _numbered(node)
    minimum = 1 if node.minimum is None else node.minimum
    needed, minimum_of = minimums(pods, min(minimum, node.replicas), size, waves=pods > node.replicas)
    hold = Hold(
        node.segment_hold.topology,
        asked.required or node.segment_hold.required,
        asked.preferred or node.segment_hold.preferred,
    )
    for index, minimum in enumerate(minimum_of):
        name = dns_label(f"{node.name or 'segment'}-{index}")
        if name in taken:
            raise Trouble(
                f"segment {index} of {node.name or 'the gang'} would be called {name}, and so is another SubGroup",
                "give the entry another componentName",
                path=node.path,
            )
        start = node.first + index * size
        node.children.append(
            Node(
                name=name,
                short=f"{node.short if node.name else 'segment'}-{index}",
                path=node.path,
                minimum=minimum,
                hold=hold,
                bounds=node.bounds,
                span=Span(node.cut.index_label, start, start + size),
                replicas=min(size, pods - index * size),
            )
        )
    node.minimum, node.bounds, node.replicas = needed, None, None
