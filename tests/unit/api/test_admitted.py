"""Admission marks are read strictly: what muster can't have written is no mark."""

import pytest

from muster.api.admitted import Mark, mark_in


@pytest.mark.parametrize("mark", [Mark("team-a", "u-1"), Mark("a.b", "0"), Mark("a/b", "u"), Mark("q" * 253, "u" * 64)])
def test_a_mark_is_read_as_it_was_written(mark):
    """Where no Queue exists a PodGroup may name any queue, also one with a slash; a UID has none."""
    assert mark_in(mark.text) == mark


@pytest.mark.parametrize(
    "text",
    ["", "/", "q", "q/", "/u", "q" * 254 + "/u", "q/" + "u" * 65, "q\n/u", "\u00e9/u", "q/\x00", "x" * 250_000 + "/u"],
    ids=["nothing", "a slash", "no slash", "no uid", "no queue", "long", "long uid", "line", "accent", "nul", "huge"],
)
def test_what_muster_does_not_write_is_no_mark(text):
    assert mark_in(text) is None
