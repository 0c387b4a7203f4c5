"""The page of a story: one file that fetches nothing, well formed, with everything escaped."""

import re
from html.parser import HTMLParser

import pytest

from muster.sim.drawing import story_of
from muster.sim.loading import Take, parse, takes
from muster.sim.picture import Told, page
from muster.sim.play import play
from muster.sim.report import Figures
from muster.sim.timeline import Timeline

# Elements that end by themselves, and those whose end may be left out (HTML Living Standard, 13.1.2.4).
VOID, OPTIONAL = {"meta", "br", "polyline"}, {"p", "tr", "td", "th", "tbody"}


def told(take: Take) -> Told:
    entries, figures = [], Figures()
    timeline = Timeline(entries.append)

    def follow(*change):
        timeline.change(*change)
        figures.change(*change)

    outcome = play(take.story, see=timeline.line, follow=follow)
    timeline.end()
    figures.end(outcome.virtual_s)
    return Told(take, outcome, figures, entries)


class Checker(HTMLParser):
    """Every element ends where it must."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID | OPTIONAL:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID | OPTIONAL:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def checked(text: str) -> Checker:
    found = Checker()
    found.feed(text)
    found.close()
    assert found.open == []
    return found


@pytest.mark.parametrize("seed", [2, 3, 8])
def test_the_page_of_a_seed(seed):
    text = page([told(Take(story_of(seed), []))], f"muster simulate --seed {seed}")
    found = checked(text)
    words = " ".join(found.text)
    assert f"muster simulate --seed {seed}" in words
    assert "Where everybody is in the end" in words
    # Nothing is fetched, nothing runs.
    assert not found.seen & {"script", "link", "img", "iframe", "object", "a", "form"}
    assert not re.search(r"https?://|url\(|@import|\son\w+=", text)
    assert "default-src 'none'" in text


HOSTILE = """
claim: "<script>alert(1)</script> & \\"quotes\\""
why: "<img src=x onerror=alert(1)>"
nodes: [{name: n, gpus: 1, rack: "r.1"}]
topologies: {t: [rack]}
workloads: {g: {gang: {minMember: 1}, pods: {"": 2}}}
happens: [{at: 1, says: "</td><script>x</script>"}]
lasts: 3
"""


def test_what_a_story_says_is_shown_and_not_obeyed():
    found = checked(page([told(Take(parse(HOSTILE.encode()), []))], "muster simulate -f '<b>.yaml'"))
    assert not found.seen & {"script", "img", "b"}
    assert '<script>alert(1)</script> & "quotes"' in found.text
    assert not any(name.startswith("on") for name, _ in found.attributes)


def test_a_story_in_takes_has_a_part_for_each():
    text = """
claim: c
why: w
nodes: [{name: n, gpus: 1}]
gangs: {g: {minMember: 1}}
pods: [{gang: g}]
steps: [{expect: {bindings: 1}}, {apply: {pods: [{gang: g, name: more}]}, expect: {bindings: 1}}]
"""
    found = checked(page([told(take) for take in takes(parse(text.encode()))], "again"))
    assert "Take 2 of 2: steps 2" in found.text
