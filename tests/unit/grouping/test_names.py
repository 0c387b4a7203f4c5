"""Any text becomes a name that Kubernetes takes, or is refused; what was changed is told apart by a hash."""

import itertools
import re

import pytest

from muster.grouping.names import dns_label, dns_name
from muster.grouping.trouble import Trouble

LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
NAME = rf"{LABEL}(\.{LABEL})*"
HASH = r"-[0-9a-f]{6}"
MAKERS = [pytest.param(dns_label, LABEL, 63, id="label"), pytest.param(dns_name, NAME, 253, id="name")]


def matches(text, expression):
    return re.fullmatch(expression, text, re.ASCII) is not None


@pytest.mark.parametrize(("make", "form", "most"), MAKERS)
def test_every_text_becomes_a_name_or_is_refused(make, form, most):
    """All short texts of what makes names hard: what is a name stays, everything else fits and ends in its hash."""
    made = {}
    for length in range(6):
        for characters in itertools.product("a0-._A", repeat=length):
            text = "".join(characters)
            if not set(text) & set("a0A"):
                with pytest.raises(Trouble, match="no letter or digit"):
                    make(text)
                continue
            name = make(text)
            assert matches(name, form), (text, name)
            assert (name == text) == matches(text, form), (text, name)
            assert name == text or matches(name, f".+{HASH}"), (text, name)
            assert make(name) == name
            made.setdefault(name, set()).add(text)
    assert not [texts for texts in made.values() if len(texts) > 1]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        pytest.param("Workers", "workers", id="upper case"),
        pytest.param("a_b", "a-b", id="a character that can't stay"),
        pytest.param("a__ b", "a-b", id="several in a row become one"),
        pytest.param("-a-", "a", id="what stands at the ends goes"),
        pytest.param("größe", "gr-e", id="letters that are not ASCII"),
        pytest.param("٣a", "a", id="digits that are not ASCII"),
        pytest.param("a.b", "a-b", id="a dot"),
        pytest.param("a/", "a", id="a slash at the end"),
    ],
)
def test_a_changed_label_shows_what_it_was(text, kept):
    assert matches(dns_label(text), re.escape(kept) + HASH)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("a-.b", "a.b"),
        ("a.-b", "a.b"),
        ("a..b", "a.b"),
        ("a._.-b", "a.b"),
        (".a.", "a"),
        ("A.b_c", "a.b-c"),
        ("ä.b", "b"),
        ("a/b", "a-b"),
    ],
)
def test_a_changed_name_keeps_its_dots(text, kept):
    assert matches(dns_name(text), re.escape(kept) + HASH)


@pytest.mark.parametrize(("make", "form", "most"), MAKERS)
def test_long_names_are_cut(make, form, most):
    """The longest that fits stays; a longer one is as long as it may be, and two with one beginning still differ."""
    longest = "a" * most
    assert make(longest) == longest
    cut, other = make(longest + "b"), make(longest + "c")
    assert len(cut) == len(other) == most
    assert cut != other
    assert matches(cut, form)
    # Where the cut falls behind a dash, the dash goes too.
    assert matches(make("a" * (most - 8) + "-" + "b" * 20), "a" * (most - 8) + HASH)
    assert len(make("ab" * 10**6)) == most


@pytest.mark.parametrize("make", [dns_label, dns_name])
@pytest.mark.parametrize("text", ["", "-", "...", "äöü", "-" * 2000 + "a"])
def test_nothing_usable_is_refused(make, text):
    with pytest.raises(Trouble, match="no letter or digit") as caught:
        make(text)
    assert caught.value.hint
    assert len(caught.value.message) < 500


@pytest.mark.parametrize("make", [dns_label, dns_name])
@pytest.mark.parametrize("text", ["a\x00b", "a\n", "\x1b[31ma", "a\u202eb", "\ud800a", "a" * 300 + "\t"])
def test_what_cant_be_shown_is_refused(make, text):
    """Also where it would be cut off; and the message shows none of it."""
    with pytest.raises(Trouble, match="can't be shown") as caught:
        make(text)
    assert caught.value.message.isprintable()
    assert caught.value.hint
