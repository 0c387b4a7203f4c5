"""Domains: every one is a slice of the nodes in the order of their paths, nested in the wider one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.cluster import Node
from muster.api.model import Metadata
from muster.api.topology import Level, Topology, TopologySpec
from muster.snapshot.domains import domains_of

LABELS = ("zone", "block", "rack")
TOPOLOGY = Topology(
    metadata=Metadata(name="dc"), spec=TopologySpec(levels=[Level(node_label=label) for label in LABELS])
)


def node(name: str, *values: str | None) -> Node:
    labels = {label: value for label, value in zip(LABELS, values, strict=False) if value is not None}
    return Node(metadata=Metadata(name=name, labels=labels))


def test_paths_slices_and_parents():
    nodes = [
        node("n1", "b", "1", "x"),
        node("n2", "a", "1", "x"),
        node("n3", "a", "1", "y"),
        node("n4", "a", "2", "x"),
        node("n5", "a", "1", "x"),
    ]
    found = domains_of(TOPOLOGY, nodes)
    assert [level.paths for level in found.levels] == [
        ("a", "b"),
        ("a/1", "a/2", "b/1"),
        ("a/1/x", "a/1/y", "a/2/x", "b/1/x"),
    ]
    assert [level.parent.tolist() for level in found.levels] == [[-1, -1], [0, 0, 1], [0, 0, 1, 2]]
    assert found.order.tolist() == [1, 4, 2, 3, 0]
    assert found.nodes_of(0, 0).tolist() == [1, 4, 2, 3]
    assert found.nodes_of(2, 0).tolist() == [1, 4]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param(("a", "1", "x"), ["a", "a/1", "a/1/x"], id="all"),
        pytest.param(("a", None, "x"), ["a", None, None], id="a gap ends it: rack x of which block?"),
        pytest.param((None, "1", "x"), [None, None, None], id="not even the widest"),
        pytest.param(("a", "", "x"), ["a", "a/", "a//x"], id="an empty value is a value"),
    ],
)
def test_a_node_without_a_label(values, expected):
    """A node that lacks a level's label is in no domain of that level or any narrower one."""
    found = domains_of(TOPOLOGY, [node("n", *values)])
    assert [None if level.domain_of[0] < 0 else level.paths[level.domain_of[0]] for level in found.levels] == expected


VALUES = st.none() | st.sampled_from(["", "a", "b", "c"])


@given(st.lists(st.tuples(VALUES, VALUES, VALUES), max_size=25), st.randoms(use_true_random=False))
def test_domains_are_what_the_words_say(rows, random):
    """A domain holds the nodes that share all values from the widest level down, however the nodes are ordered."""
    nodes = [node(f"n{index:02}", *values) for index, values in enumerate(rows)]
    random.shuffle(nodes)
    found = domains_of(TOPOLOGY, nodes)
    assert sorted(found.order.tolist()) == list(range(len(nodes)))
    for depth, level in enumerate(found.levels):
        expected: dict[tuple[str, ...], set[str]] = {}
        for one in nodes:
            way = [one.metadata.labels.get(label) for label in LABELS[: depth + 1]]
            if None not in way:
                expected.setdefault(tuple(way), set()).add(one.metadata.name)
        held = [{nodes[row].metadata.name for row in found.nodes_of(depth, i)} for i in range(len(level.paths))]
        assert dict(zip(level.paths, held, strict=True)) == {"/".join(way): names for way, names in expected.items()}
        for domain, parent in enumerate(level.parent.tolist()):
            assert (parent == -1) == (depth == 0)
            if depth:
                assert set(found.nodes_of(depth, domain)) <= set(found.nodes_of(depth - 1, parent))
