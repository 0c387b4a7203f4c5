"""Which pods a condition, a segment and a leaf take, and what is told of those that are not taken."""

import pytest

from muster.api.tree import NONE
from muster.grouping.matching import Leaves, Refusal, claims, holds, index_of, refusals
from muster.grouping.nodes import Bound, Node, Span


def bound(operator, *values, key="k"):
    return Bound("p", key, operator, values)


def leaf(*bounds, name="leaf", span=None):
    return Node(name, name, "p", bounds=bounds, span=span)


# Of each operator: whether it takes a pod with one of the values, with others, an empty one, none, or no text.
LABELS = [{"k": "a"}, {"k": "b"}, {"k": "z"}, {"k": ""}, {}, {"k": 1}]


@pytest.mark.parametrize(
    ("condition", "taken"),
    [
        pytest.param(bound("Equals", "a"), (1, 0, 0, 0, 0, 0), id="Equals"),
        pytest.param(bound("Equals", ""), (0, 0, 0, 1, 0, 0), id="Equals nothing"),
        pytest.param(bound("NotEquals", "a"), (0, 1, 1, 1, 1, 1), id="NotEquals"),
        pytest.param(bound("In", "a", "b"), (1, 1, 0, 0, 0, 0), id="In"),
        pytest.param(bound("In", "b"), (0, 1, 0, 0, 0, 0), id="In one"),
        pytest.param(bound("In"), (0, 0, 0, 0, 0, 0), id="In nothing"),
        pytest.param(bound("NotIn", "a", "b"), (0, 0, 1, 1, 1, 1), id="NotIn"),
        pytest.param(bound("NotIn", "b"), (1, 0, 1, 1, 1, 1), id="NotIn one"),
        pytest.param(bound("NotIn"), (1, 1, 1, 1, 1, 1), id="NotIn nothing"),
        pytest.param(bound("Exists"), (1, 1, 1, 1, 0, 1), id="Exists"),
        pytest.param(bound("DoesNotExist"), (0, 0, 0, 0, 1, 0), id="DoesNotExist"),
    ],
)
def test_conditions(condition, taken):
    """A label that is not there, or no text, differs from every value. A leaf alone decides the same."""
    assert [holds(condition, labels) for labels in LABELS] == [bool(one) for one in taken]
    leaves = Leaves([leaf(condition)])
    assert [leaves.of(labels) for labels in LABELS] == [0 if one else NONE for one in taken]


@pytest.mark.parametrize(
    ("value", "index"),
    [
        ("0", 0),
        ("12", 12),
        ("007", 7),
        ("999999999", 999_999_999),
        ("1000000000", None),
        ("-1", None),
        ("+1", None),
        ("1.0", None),
        (" 1", None),
        ("1_0", None),
        ("", None),
        ("٣", None),
        ("²", None),
        (3, None),
        (True, None),
        (None, None),
        (["1"], None),
    ],
)
def test_numbers_in_labels(value, index):
    assert index_of("i", {"i": value}) == index
    assert index_of("i", {"j": value}) is None


def test_a_segment_takes_its_numbers():
    """From the first on, and below the one behind the last; its conditions hold as well."""
    segment = leaf(bound("Equals", "a"), span=Span("i", 4, 6))
    taken = [number for number in range(10) if claims(segment, {"k": "a", "i": str(number)})]
    assert taken == [4, 5]
    assert not claims(segment, {"k": "b", "i": "4"})
    assert not claims(segment, {"k": "a"})
    assert claims(Node("all", "all", "p", bounds=None), {"what": "ever"})


class TestLeaves:
    def test_the_first_in_document_order_wins(self):
        """Wherever the leaves are filed: under a value, under numbers, or nowhere."""
        special = leaf(bound("Equals", "a"))
        numbered = leaf(span=Span("i", 0, 2))
        rest = leaf(bound("Exists"))
        labels = {"k": "a", "i": "1"}
        for order in ([special, numbered, rest], [rest, special, numbered], [numbered, rest, special]):
            assert Leaves(order).of(labels) == 0
            assert Leaves([leaf(bound("DoesNotExist")), *order]).of(labels) == 1

    def test_all_conditions_hold(self):
        """It is filed under one of them, and the others count too."""
        leaves = Leaves([leaf(bound("Equals", "a"), bound("Equals", "x", key="l")), leaf(bound("Equals", "a"))])
        assert leaves.of({"k": "a", "l": "x"}) == 0
        assert leaves.of({"k": "a", "l": "y"}) == 1
        assert leaves.of({"l": "x"}) == NONE

    def test_spans_of_several_widths_and_beginnings(self):
        """Of overlapping ones the first wins; one without numbers takes nobody."""
        spans = [Span("i", 3, 3), Span("i", 1, 4), Span("i", 4, 7), Span("i", 6, 8), Span("j", 0, 5), Span("i", 9, 10)]
        leaves = Leaves([leaf(span=span) for span in spans])
        assert [leaves.of({"i": str(number)}) for number in range(11)] == [
            NONE, 1, 1, 1, 2, 2, 2, 3, NONE, 5, NONE,
        ]  # fmt: skip
        assert leaves.of({"i": "9", "j": "2"}) == 4
        assert leaves.of({"i": "x"}) == NONE

    def test_the_same_segments_below_several_values(self):
        """Each replica has its own segments 0, 1, …: filed under numbers, told apart by their conditions."""
        leaves = Leaves([leaf(bound("Equals", r), span=Span("i", s, s + 2)) for r in "ab" for s in (0, 2)])
        assert [leaves.of({"k": r, "i": str(i)}) for r in "ab" for i in range(4)] == [0, 0, 1, 1, 2, 2, 3, 3]

    def test_no_leaf_and_every_pod(self):
        assert Leaves([]).of({"k": "a"}) == NONE
        assert Leaves([Node("all", "all", "p", bounds=None)]).of({}) == 0

    @pytest.mark.parametrize(
        "leaves",
        [
            pytest.param([leaf(bound("Equals", str(n))) for n in range(10_000)], id="values"),
            pytest.param([leaf(bound("Equals", "r"), span=Span("k2", n, n + 1)) for n in range(10_000)], id="spans"),
            pytest.param(
                [leaf(bound("Equals", "r"), bound("In", str(n), key="k2")) for n in range(10_000)], id="rarest"
            ),
        ],
    )
    def test_a_pod_is_compared_with_few_leaves(self, leaves, monkeypatch):
        compared = []
        monkeypatch.setattr(
            "muster.grouping.matching.claims", lambda node, labels: compared.append(node) or claims(node, labels)
        )
        filed = Leaves(leaves)
        assert filed.of({"k": "r", "k2": "77"} if leaves[0].bounds[0].values == ("r",) else {"k": "77"}) == 77
        assert len(compared) == 1


class TestRefusals:
    @pytest.mark.parametrize(
        ("node", "labels", "why"),
        [
            pytest.param(leaf(bound("Equals", "a")), {"k": "b"}, 'label k is "b", wanted: Equals "a"', id="another"),
            pytest.param(leaf(bound("Equals", "a")), {}, 'label k is not there, wanted: Equals "a"', id="not there"),
            pytest.param(leaf(bound("Exists")), {}, "label k is not there, wanted: Exists", id="no values"),
            pytest.param(leaf(bound("Equals", "a")), {"k": 1}, 'label k is 1, wanted: Equals "a"', id="no text"),
            pytest.param(
                leaf(bound("In", *"abcde")), {"k": "z"}, 'label k is "z", wanted: In "a", "b", "c", "d"', id="many"
            ),
            pytest.param(
                leaf(bound("Exists"), bound("Equals", "x", key="l"), bound("Equals", "y", key="m")),
                {"k": "a"},
                'label l is not there, wanted: Equals "x"',
                id="the first that fails",
            ),
            pytest.param(leaf(span=Span("i", 2, 4)), {"i": "4"}, "label i is 4, wanted: 2 to 3", id="segment"),
            pytest.param(leaf(span=Span("i", 2, 4)), {"i": "x"}, "label i is no number, wanted: 2 to 3", id="number"),
        ],
    )
    def test_the_reason(self, node, labels, why):
        assert list(refusals([node], labels)) == [Refusal("leaf", why)]

    def test_a_leaf_that_would_take_it_is_not_told(self):
        taking = [leaf(bound("Equals", "a")), leaf(name="second", span=Span("i", 0, 2))]
        assert list(refusals(taking, {"k": "a", "i": "1"})) == []

    def test_hostile_labels_are_shown_safely(self):
        (refusal,) = refusals([leaf(bound("Equals", "a"))], {"k": "\x1b[31m" + "x" * 10_000})
        assert refusal.why.isprintable()
        assert len(refusal.why) < 500
