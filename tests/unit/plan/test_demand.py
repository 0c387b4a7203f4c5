"""Which children and which pods: in the order of SPEC §5.3, each way once, and none that could be needed left out."""

from itertools import combinations, islice, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.kinds import POD_GROUP, read_object
from muster.api.tree import normal_form, satisfied
from muster.plan.demand import Stock, Ways, pods_of
from muster.snapshot.arrays import Batch


def tree_of(**spec):
    found, problems = read_object({"metadata": {"name": "g"}, "spec": spec}, POD_GROUP)
    assert not problems
    return normal_form(found)


def leaf(name, minimum, parent=None):
    return {"name": name, "minMember": minimum, **({"parent": parent} if parent else {})}


def named(tree, present=None, waiting=None, barred=(), row=0):
    """All choices, by the names of leaves."""
    nodes = tree.nodes
    here = [(present or {}).get(node.name, 0) for node in nodes]
    more = [99 if waiting is None else waiting.get(node.name, 0) for node in nodes]
    rows = [number for number, node in enumerate(nodes) if node.name in barred]
    ways = Ways(Stock(tree, here, more), rows).of(row)
    return [{nodes[number].name: pods for number, pods in needs.items()} for needs in ways]


THREE = tree_of(minSubGroup=2, subGroups=[leaf("a", 3), leaf("b", 2), leaf("c", 2)])
NESTED = tree_of(
    minSubGroup=1,
    subGroups=[
        {"name": "p", "minSubGroup": 1},
        leaf("p0", 4, "p"),
        leaf("p1", 2, "p"),
        {"name": "q"},
        leaf("q0", 1, "q"),
        leaf("q1", 2, "q"),
    ],
)


@pytest.mark.parametrize(
    ("tree", "more", "expected"),
    [
        pytest.param(tree_of(minMember=3), {}, [{"": 3}], id="flat"),
        pytest.param(tree_of(minMember=3), {"present": {"": 1}}, [{"": 2}], id="what is there counts"),
        pytest.param(tree_of(minMember=3), {"present": {"": 3}}, [{}], id="nothing is missing"),
        pytest.param(tree_of(minMember=3), {"waiting": {"": 2}}, [], id="not enough pods"),
        pytest.param(
            THREE, {}, [{"b": 2, "c": 2}, {"a": 3, "b": 2}, {"a": 3, "c": 2}], id="fewest pods, then spec order"
        ),
        pytest.param(THREE, {"present": {"a": 3}}, [{"b": 2}, {"c": 2}], id="satisfied children count"),
        pytest.param(THREE, {"present": {"a": 2}}, [{"a": 1, "b": 2}, {"a": 1, "c": 2}, {"b": 2, "c": 2}], id="repair"),
        pytest.param(
            THREE, {"waiting": {"a": 3, "b": 1, "c": 2}}, [{"a": 3, "c": 2}], id="who lacks pods is no choice"
        ),
        pytest.param(THREE, {"barred": ["b"]}, [{"a": 3, "c": 2}], id="barred"),
        pytest.param(THREE, {"barred": ["b"], "present": {"b": 2}}, [{"c": 2}, {"a": 3}], id="barred but there"),
        pytest.param(NESTED, {}, [{"p1": 2}, {"q0": 1, "q1": 2}, {"p0": 4}], id="nested"),
        pytest.param(NESTED, {"present": {"p0": 3}}, [{"p0": 1}, {"p1": 2}, {"q0": 1, "q1": 2}], id="nested repair"),
        pytest.param(NESTED, {"row": 4}, [{"q0": 1, "q1": 2}], id="of a branch alone"),
        pytest.param(tree_of(minMember=9, subGroups=[leaf("a", 1), leaf("b", 1)]), {}, [{"a": 1, "b": 1}], id="floor"),
    ],
)
def test_choices(tree, more, expected):
    assert named(tree, **more) == expected


def test_many_choices_are_found_one_by_one():
    """Of 12,870 ways to take 8 of 16 the first come at once, in order."""
    tree = tree_of(minSubGroup=8, subGroups=[leaf(f"l{index:02}", 1 + index // 8) for index in range(16)])
    first, second = islice(Ways(Stock(tree, [0] * 17, [9] * 17)).of(0), 2)
    assert list(first) == list(range(1, 9))
    assert sum(first.values()) == 8
    assert sum(second.values()) == 9


@st.composite
def stocks(draw):
    subgroups = []
    for index in range(draw(st.integers(1, 4))):
        below = draw(st.integers(0, 3))
        name = f"s{index}"
        if below:
            counted = {"minSubGroup": draw(st.integers(1, below))} if draw(st.booleans()) else {}
            subgroups.append({"name": name, **counted})
        for number in range(below):
            subgroups.append(leaf(f"{name}-{number}", draw(st.integers(1, 3)), name))
        if not below:
            subgroups.append(leaf(name, draw(st.integers(1, 3))))
    roots = sum("parent" not in one for one in subgroups)
    tree = tree_of(minSubGroup=draw(st.integers(1, roots)), subGroups=subgroups)
    counts = st.lists(st.integers(0, 3), min_size=len(tree.nodes), max_size=len(tree.nodes))
    return Stock(tree, draw(counts), draw(counts))


@given(stocks())
def test_choices_are_all_minimal_ways_in_order(stock):
    """Against every set of leaves: what satisfies the root with nothing to spare, cheapest first, each once."""
    tree, leaves = stock.tree, stock.tree.leaves
    missing = {row: max(0, tree.nodes[row].minimum - stock.present[row]) for row in leaves}
    able = [row for row in leaves if 0 < missing[row] <= stock.waiting[row]]

    def whole(rows):
        counted = [stock.present[row] + (missing.get(row, 0) if row in rows else 0) for row in range(len(tree.nodes))]
        return satisfied(tree, counted)[0]

    sets = [set(rows) for size in range(len(able) + 1) for rows in combinations(able, size) if whole(rows)]
    minimal = [rows for rows in sets if not any(other < rows for other in sets)]
    found = list(islice(Ways(stock).of(0), 5000))
    costs = [sum(needs.values()) for needs in found]
    assert costs == sorted(costs)
    assert all(needs[row] == missing[row] for needs in found for row in needs)
    chosen = [set(needs) for needs in found]
    assert all(rows in chosen for rows in minimal)
    assert all(rows in sets for rows in chosen)
    if minimal:
        assert costs[0] == min(sum(missing[row] for row in rows) for rows in minimal)


def batch(leaf_row, shape, *ages):
    return Batch(leaf_row, shape, tuple(f"p{age}" for age in ages), ages, tuple(-1 for _ in ages))


def unlike(light, heavy):
    """Nobody is easier than anybody else."""
    return False


@pytest.mark.parametrize(
    ("batches", "used", "needs", "extra", "expected"),
    [
        pytest.param([batch(1, 0, 0, 1, 2)], [0], {1: 2}, 0, [(2,)], id="one shape"),
        pytest.param([batch(1, 0, 0, 2), batch(1, 1, 1)], [0, 0], {1: 2}, 0, [(1, 1), (2, 0)], id="the oldest first"),
        pytest.param([batch(1, 0, 0, 2), batch(1, 1, 1)], [0, 0], {1: 3}, 0, [(2, 1)], id="all of them"),
        pytest.param([batch(1, 0, 0, 2), batch(1, 1, 1)], [1, 0], {1: 1}, 0, [(0, 1), (1, 0)], id="some are used"),
        pytest.param([batch(1, 0, 0), batch(2, 0, 0)], [0, 0], {1: 1}, 0, [(1, 0)], id="another leaf"),
        pytest.param(
            [batch(1, 0, 0, 1), batch(2, 0, 0, 1)],
            [0, 0],
            {1: 1, 2: 1},
            1,
            [(2, 1), (1, 2)],
            id="a floor takes one more from anywhere",
        ),
        pytest.param([batch(1, 0, 0)], [0], {1: 1}, 1, [], id="a floor without pods"),
    ],
)
def test_pods(batches, used, needs, extra, expected):
    assert list(pods_of(batches, used, needs, extra, unlike)) == expected


SIZES = st.lists(st.tuples(st.integers(1, 2), st.integers(0, 2), st.integers(1, 3)), min_size=1, max_size=5)


@given(SIZES, st.integers(0, 3), st.integers(0, 3), st.integers(0, 3))
def test_every_way_that_may_be_needed_is_tried(sizes, first, second, extra):
    """Of all ways, each is there or one that is as easy: whatever fits, something that is tried fits."""
    asks = {number: (size, 2 - size) for number, (_, size, _) in enumerate(sizes)}
    # Shape 1 asks for more than shape 0 of everything; others are unlike.
    asks[0] = (0, 0)
    asks[1] = (1, 1)
    batches, ages = [], {1: 0, 2: 0}
    for number, (row, _, pods) in enumerate(sizes):
        batches.append(batch(row, number, *range(ages[row], ages[row] + pods)))
        ages[row] += pods
    needs = {row: need for row, need in ((1, first), (2, second)) if need}
    if any(need > ages[row] for row, need in needs.items()):
        return

    def easier(light, heavy):
        return all(a <= b for a, b in zip(asks[light], asks[heavy], strict=True))

    found = list(pods_of(batches, [0] * len(batches), needs, extra, easier))
    assert len(found) == len(set(found))

    def suits(way):
        per_leaf = {row: sum(n for n, one in zip(way, batches, strict=True) if one.leaf == row) for row in (1, 2)}
        total = sum(needs.values()) + extra
        return sum(way) == total and all(per_leaf[row] >= needs.get(row, 0) for row in (1, 2))

    every = [way for way in product(*(range(len(one.pods) + 1) for one in batches)) if suits(way)]
    assert set(found) <= set(every)

    def loads(way):
        """Everything that the pods of each leaf ask for, largest first: comparable pod by pod."""
        return {
            row: sorted(
                asks[one.shape] for n, one in zip(way, batches, strict=True) if one.leaf == row for _ in range(n)
            )
            for row in (1, 2)
        }

    def as_easy(way, other):
        mine, theirs = loads(way), loads(other)
        return all(
            len(mine[row]) == len(theirs[row])
            and any(
                all(a <= b for pair in zip(order, theirs[row], strict=True) for a, b in zip(*pair, strict=True))
                for order in _orders(mine[row])
            )
            for row in (1, 2)
        )

    assert all(any(as_easy(one, way) for one in found) for way in every)


def _orders(asks):
    """All orders of a few pods, equal ones once."""
    if not asks:
        return [[]]
    return [[one, *rest] for one in set(asks) for rest in _orders(_without(asks, one))]


def _without(asks, one):
    left = list(asks)
    left.remove(one)
    return left
