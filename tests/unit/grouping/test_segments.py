"""Segments ask for as many pods as the leaf that they were cut from, and pods keep their segment when it is scaled."""

from itertools import combinations

import pytest

from muster.grouping.model import Cut
from muster.grouping.nodes import Bound, Hold, Node, Span
from muster.grouping.segments import cut, minimums, size_of
from muster.grouping.trouble import Trouble

CUT = Cut("spec.segments", "idx")
SIZE = "kai.scheduler/segment-size"
REQUIRED = "kai.scheduler/segment-topology-required-placement"
PREFERRED = "kai.scheduler/segment-topology-preferred-placement"


def workload(**annotations: object) -> dict:
    """A job with annotations of kai.scheduler; `_` stands for `-`."""
    notes = {f"kai.scheduler/{key.replace('_', '-')}": value for key, value in annotations.items()}
    return {"kind": "Job", "metadata": {"name": "j", "namespace": "n", "annotations": notes}}


def leaf(name: str = "worker", **fields: object) -> Node:
    """A leaf of 5 pods that can be cut, with a minimum of all of them."""
    return Node(**{"name": name, "short": name, "path": f"p.{name}", "minimum": 5, "replicas": 5, "cut": CUT, **fields})


def below(*children: Node) -> Node:
    return Node(name="", short="", path="p", children=list(children))


def outline(node: Node) -> list[tuple]:
    return [(one.name, one.minimum, one.replicas, one.span and one.span[1:]) for one in node.below()]


def sizes_of(pods: int, size: int) -> list[int]:
    return [min(size, pods - start) for start in range(0, pods, size)] or [0]


CASES = [(pods, minimum, size) for pods in range(13) for minimum in range(pods + 1) for size in range(1, 14)]


def test_segments_need_exactly_the_minimum():
    """Over all choices of enough segments, the fewest pods are the minimum of the leaf; no segment asks for more pods
    than it has; all segments together ask for at most all pods.
    """
    for pods, minimum, size in CASES:
        needed, asked = minimums(pods, minimum, size)
        has = sizes_of(pods, size)
        case = (pods, minimum, size, needed, asked)
        assert len(asked) == len(has), case
        assert all(0 <= one <= most for one, most in zip(asked, has, strict=True)), case
        assert needed is None or 1 <= needed < len(asked), case
        choices = combinations(asked, len(asked) if needed is None else needed)
        assert min(map(sum, choices)) == minimum, case


def test_any_segments_will_do_where_that_can_be_said():
    """A segment asks for nothing only where a last one that is too small leaves no other way, or nothing is needed."""
    for pods, minimum, size in CASES:
        needed, asked = minimums(pods, minimum, size)
        rest = minimum % size or size
        last = sizes_of(pods, size)[-1]
        fixed = 0 < minimum < pods and last < rest
        case = (pods, minimum, size, needed, asked)
        assert (0 in asked) == (fixed or minimum == 0), case
        if fixed:
            assert needed is None, case
            assert asked == sorted(asked, reverse=True), case
        elif 0 < minimum < pods:
            assert needed == (-(-minimum // size) if -(-minimum // size) < len(asked) else None), case


@pytest.mark.parametrize(
    ("pods", "minimum", "size", "expected"),
    [
        (8, 8, 4, (None, [4, 4])),
        (5, 5, 2, (None, [2, 2, 1])),
        (8, 4, 2, (2, [2, 2, 2, 2])),
        (8, 3, 2, (2, [2, 1, 2, 2])),
        (8, 7, 2, (None, [2, 2, 2, 1])),
        (5, 3, 2, (2, [2, 2, 1])),
        (5, 1, 2, (1, [2, 2, 1])),
        (7, 4, 3, (2, [3, 3, 1])),
        (8, 4, 3, (2, [3, 3, 1])),
        (8, 7, 3, (None, [3, 3, 1])),
        (5, 4, 2, (None, [2, 2, 0])),
        (7, 5, 3, (None, [3, 2, 0])),
        (8, 3, 3, (None, [3, 0, 0])),
        (8, 0, 2, (None, [0, 0, 0, 0])),
        (0, 0, 2, (None, [0])),
        (2, 1, 8, (None, [1])),
        (3, 9, 2, (None, [2, 1])),
    ],
)
def test_minimums(pods, minimum, size, expected):
    """Whole segments as far as they go, and one that asks for the rest; a minimum above the pods is all of them."""
    assert minimums(pods, minimum, size) == expected


def test_a_leaf_becomes_a_branch_of_segments():
    """What the leaf claimed, its segments claim, each within its numbers. What holds the leaf still does."""
    bounds = (Bound("c", "role", "Equals", ("worker",)),)
    node = leaf(bounds=bounds, hold=Hold("t", "zone", "rack"), first=1)
    root = below(leaf("head", cut=None, replicas=1, minimum=1), node)
    assert cut(root, [workload(segment_size="2")]) == []
    assert outline(root) == [
        ("", None, None, None),
        ("head", 1, 1, None),
        ("worker", None, None, None),
        ("worker-0", 2, 2, (1, 3)),
        ("worker-1", 2, 2, (3, 5)),
        ("worker-2", 1, 1, (5, 7)),
    ]
    assert (node.bounds, node.hold) == (None, Hold("t", "zone", "rack"))
    assert [one.bounds for one in node.children] == [bounds] * 3
    assert {one.span.label for one in node.children} == {"idx"}
    assert {(one.hold, one.path, one.cut, bool(one.children)) for one in node.children} == {
        (Hold(), "p.worker", None, False)
    }


def test_a_flat_gang_is_cut_too():
    """The root is a branch then, and its segments have names of their own."""
    root = Node(name="", short="", path="p", minimum=3, replicas=4, cut=CUT)
    assert cut(root, [workload(segment_size="2")]) == []
    assert outline(root) == [
        ("", None, None, None),
        ("segment-0", 2, 2, (0, 2)),
        ("segment-1", 1, 2, (2, 4)),
    ]
    assert [one.short for one in root.children] == ["segment-0", "segment-1"]
    assert {one.bounds for one in root.children} == {None}


def test_a_leaf_without_a_minimum_needs_one_pod():
    node = leaf(minimum=None)
    cut(below(node), [workload(segment_size="2")])
    assert (node.minimum, [one.minimum for one in node.children]) == (1, [2, 2, 1])


def test_names_below_a_repeated_entry():
    """The segment's full name continues the leaf's; the short one what the entry is called."""
    node = leaf("replica-0-worker", short="worker", replicas=2)
    cut(below(node), [workload(segment_size="1")])
    assert [(one.name, one.short) for one in node.children] == [
        ("replica-0-worker-0", "worker-0"),
        ("replica-0-worker-1", "worker-1"),
    ]


def test_a_long_name_stays_a_name():
    node = leaf("w" * 63, replicas=2)
    cut(below(node), [workload(segment_size="1")])
    assert [len(one.name) <= 63 and one.name.startswith("www") for one in node.children] == [True, True]
    assert len({one.name for one in node.children}) == 2


@pytest.mark.parametrize(("pods", "numbers"), [(0, [(0, 4)]), (1, [(0, 4)]), (4, [(0, 4)]), (5, [(0, 4), (4, 8)])])
def test_scaling_moves_no_pod(pods, numbers):
    """A leaf is cut whenever there is a size, so that pod 3 is in worker-0 whatever comes and goes."""
    node = leaf(replicas=pods, minimum=pods)
    cut(below(node), [workload(segment_size="4")])
    assert [(one.name, one.span) for one in node.children] == [
        (f"worker-{index}", Span("idx", *span)) for index, span in enumerate(numbers)
    ]
    assert sum(one.replicas for one in node.children) == pods


@pytest.mark.parametrize(
    ("size", "annotation", "segments"),
    [
        (None, None, 0),
        (0, None, 0),
        (3, None, 2),
        (3, "2", 3),
        (0, "2", 3),
        (3, "", 2),
    ],
)
def test_the_annotation_comes_before_the_interface(size, annotation, segments):
    """Neither: the leaf stays whole, and nothing is said."""
    node = leaf(size=size)
    notes = {} if annotation is None else {"segment_size": annotation}
    assert cut(below(node), [workload(**notes)]) == []
    assert len(node.children) == segments
    if not segments:
        assert node == leaf(size=size)


def test_the_nearest_object_says_the_size():
    node = leaf()
    cut(below(node), [workload(), workload(segment_size="4"), workload(segment_size="1")])
    assert len(node.children) == 2


def test_every_leaf_with_an_index_is_cut():
    one, other, head = leaf("a", replicas=2), leaf("b", replicas=3), leaf("head", cut=None)
    assert cut(below(one, head, other), [workload(segment_size="1")]) == []
    assert [len(node.children) for node in (one, head, other)] == [2, 0, 3]


@pytest.mark.parametrize("text", ["0", "00", "-1", "1.5", "two", " 2", "2 ", "+2", "٢", "2147483648", "9" * 5000])
def test_a_size_that_is_none(text):
    with pytest.raises(Trouble) as caught:
        cut(below(leaf()), [workload(segment_size=text)])
    assert caught.value.message.startswith(f"Job n/j: the annotation {SIZE} is ")
    assert caught.value.hint == "write 1 or more"
    assert len(caught.value.message) < 250


def test_a_size_that_is_no_text():
    """YAML without quotes gives a number, which the API server refuses."""
    node = leaf()
    assert cut(below(node), [workload(segment_size=2)]) == [
        f"Job n/j: the annotation {SIZE} is 2: it is no text, write it in quotes; it is passed over"
    ]
    assert not node.children


def test_unknown_replicas():
    with pytest.raises(Trouble) as caught:
        cut(below(leaf(replicas=None)), [workload(segment_size="2")])
    assert caught.value.message == "worker can't be cut into segments: nobody knows how many pods it has"
    assert (caught.value.hint, caught.value.path) == ("replicasPath is needed in the ResourceInterface", "p.worker")


def test_no_index_label():
    """The workload hears that its annotation does nothing, whatever its value."""
    root = below(leaf(cut=None))
    (warning,) = cut(root, [workload(segment_size="x", segment_topology_required_placement="rack")])
    assert "has an index label" in warning
    assert warning.startswith(f'Job n/j: the annotation {SIZE} is "x"')
    assert outline(root)[1:] == [("worker", 5, 5, None)]


def test_levels_without_a_size():
    warnings = cut(below(leaf()), [workload(segment_topology_required_placement="rack")])
    assert warnings == [f'Job n/j: the annotation {REQUIRED} is "rack", but nothing is cut; set {SIZE}']


@pytest.mark.parametrize(
    ("given", "annotations", "expected"),
    [
        (Hold(), {}, Hold()),
        (Hold(), {"required": "rack"}, Hold("", "rack", "")),
        (Hold(), {"preferred": "host"}, Hold("", "", "host")),
        (Hold("t", "zone", "host"), {}, Hold("t", "zone", "host")),
        (Hold("t", "zone", "host"), {"required": "rack"}, Hold("t", "rack", "host")),
        (Hold("t", "zone", "host"), {"preferred": "rack"}, Hold("t", "zone", "rack")),
        (Hold("t", "zone"), {"required": "rack", "preferred": "host"}, Hold("t", "rack", "host")),
    ],
)
def test_what_holds_each_segment(given, annotations, expected):
    """The annotation, level by level, then the interface. The leaf that was cut is not held by it."""
    node = leaf(segment_hold=given, size=2)
    notes = {f"segment_topology_{key}_placement": value for key, value in annotations.items()}
    assert cut(below(node), [workload(**notes)]) == []
    assert {one.hold for one in node.children} == {expected}
    assert node.hold == Hold()


def test_a_level_that_is_too_long():
    with pytest.raises(Trouble, match="longer than a name can be"):
        cut(below(leaf(size=2)), [workload(segment_topology_preferred_placement="x" * 317)])
    cut(below(leaf(size=2)), [workload(segment_topology_preferred_placement="x" * 316)])


def test_as_many_segments_as_a_podgroup_may_have():
    """The root is no SubGroup; the leaf that is cut is one."""
    root = Node(name="", short="", path="p", replicas=20_000, minimum=1, cut=CUT)
    assert cut(root, [workload(segment_size="2")]) == []
    assert len(root.children) == 10_000
    node = leaf(replicas=9_999)
    assert cut(below(node), [workload(segment_size="1")]) == []
    assert len(node.children) == 9_999


@pytest.mark.parametrize("pods", [10_000, 2**31 - 1])
def test_too_many_segments(pods):
    """They are refused before any is made."""
    node, small = leaf(replicas=pods, minimum=1), leaf("small", replicas=1)
    with pytest.raises(Trouble) as caught:
        cut(below(small, node), [workload(segment_size="1")])
    assert f"segments of 1 pods would make {pods + 3:,} SubGroups" in caught.value.message
    assert caught.value.hint == f"write a larger {SIZE}"
    assert caught.value.path == "p.worker"
    assert not node.children
    assert not small.children


def test_two_subgroups_of_one_name():
    with pytest.raises(Trouble) as caught:
        cut(below(leaf(), leaf("worker-1", cut=None)), [workload(segment_size="2")])
    assert caught.value.message == "segment 1 of worker would be called worker-1, and so is another SubGroup"
    with pytest.raises(Trouble, match="worker-1-0"):
        cut(below(leaf(), leaf("worker-1-0", cut=None), leaf("worker-1")), [workload(segment_size="5")])


def test_what_is_cut():
    """A branch is not; nor is a leaf without an index."""
    assert size_of(leaf(size=3), None) == 3
    assert size_of(leaf(size=None), None) is None
    assert size_of(leaf(size=3, cut=None), None) is None
    assert size_of(leaf(size=3, children=[leaf("x")]), None) is None
