"""Leaves that are filed give the pod to the very leaf that a plain look at all of them gives it to."""

from hypothesis import event, given
from hypothesis import strategies as st

from muster.api.tree import NONE
from muster.grouping.matching import Leaves, claims, refusals
from muster.grouping.nodes import Bound, Node, Span

KEYS = ("a", "b", "i", "j")
VALUES = ("", "x", "y", "0", "1", "7", "12")
OPERATORS = ("Equals", "NotEquals", "In", "NotIn", "Exists", "DoesNotExist")

# What labels may hold when files come from anybody.
hostile = st.sampled_from([None, 5, 7.0, True, [], ["x"], {"x": 1}, "٣", "²", "-1", "+1", "1" * 30, "\ud800", "x\x00"])
labels = st.dictionaries(
    st.sampled_from(KEYS), st.sampled_from(VALUES) | st.integers(0, 30).map(str) | hostile, max_size=4
)
several = st.lists(st.sampled_from(VALUES) | st.integers(0, 9).map(str), max_size=3).map(tuple)


@st.composite
def bounds(draw):
    operator = draw(st.sampled_from(OPERATORS))
    values = ()
    if operator in ("In", "NotIn"):
        values = draw(several)
    elif operator in ("Equals", "NotEquals"):
        values = (draw(st.sampled_from(VALUES)),)
    return Bound("p", draw(st.sampled_from(KEYS)), operator, values)


@st.composite
def spans(draw):
    start = draw(st.integers(0, 25))
    return Span(draw(st.sampled_from(("i", "j"))), start, start + draw(st.sampled_from((0, 1, 1, 2, 3, 4, 8, 30))))


@st.composite
def rows_of_leaves(draw):
    """Leaves of any conditions, and among them rows of segments as one leaf is cut into them."""
    found = []
    for _ in range(draw(st.integers(0, 6))):
        conditions = draw(st.none() | st.lists(bounds(), max_size=3).map(tuple))
        if draw(st.booleans()):
            found.append((conditions, draw(st.none() | spans())))
            continue
        label, start, width = draw(st.sampled_from(("i", "j"))), draw(st.integers(0, 4)), draw(st.integers(1, 5))
        found += [(conditions, Span(label, start + n * width, start + (n + 1) * width)) for n in range(4)]
    found = draw(st.permutations(found)) if draw(st.booleans()) else found
    return [Node(f"n{at}", "n", "p", bounds=one, span=span) for at, (one, span) in enumerate(found)]


def naive(leaf, pod):
    """Whether a leaf takes a pod, said in the words of SPEC §9."""
    if leaf.span is not None:
        text = pod.get(leaf.span.label)
        if not isinstance(text, str) or not text or any(letter not in "0123456789" for letter in text):
            return False
        if int(text) not in range(leaf.span.start, leaf.span.stop):
            return False
    for _, key, operator, values in leaf.bounds or ():
        there, text = key in pod, pod[key] if isinstance(pod.get(key), str) else None
        if not {
            "Equals": text is not None and [text] == list(values),
            "NotEquals": text is None or [text] != list(values),
            "In": any(text == value for value in values),
            "NotIn": all(text != value for value in values),
            "Exists": there,
            "DoesNotExist": not there,
        }[operator]:
            return False
    return True


@given(rows_of_leaves(), st.lists(labels, min_size=1, max_size=12))
def test_the_first_leaf_whose_conditions_all_hold(leaves, pods):
    filed = Leaves(leaves)
    for pod in pods:
        taking = [row for row, leaf in enumerate(leaves) if naive(leaf, pod)]
        event("taken" if taking else "not taken")
        assert filed.of(pod) == (taking[0] if taking else NONE)
        assert [row for row, leaf in enumerate(leaves) if claims(leaf, pod)] == taking
        refused = {refusal.leaf for refusal in refusals(leaves, pod)}
        assert refused == {leaf.name for row, leaf in enumerate(leaves) if row not in taking}
