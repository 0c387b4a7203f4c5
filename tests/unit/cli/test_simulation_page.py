"""What docs/simulation.md shows is what comes out."""

import re
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec
import pytest

from muster.sim.loading import load, parse
from muster.sim.story import Fault, Happening, Story, Workload

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "simulation.md").read_text()
STORY = ROOT / "docs" / "story.yaml"


def block(language: str) -> str:
    return re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)[1]


def test_the_story_on_the_page_is_the_file():
    shown, there = parse(block("yaml").encode()), load(STORY)
    assert msgspec.structs.replace(shown, why=there.why) == there


def test_what_is_printed_is_what_the_page_shows(muster, monkeypatch):
    """Line by line, in this order; … is anything, and lines may be left out."""
    monkeypatch.chdir(ROOT)
    command, *lines = block("console").splitlines()
    printed = iter(muster(*command.removeprefix("$ muster ").split()).out.splitlines())
    for line in filter(None, map(str.split, lines)):
        wanted = " ".join(line).replace("[", "[[]").replace("…", "*")
        assert any(fnmatchcase(" ".join(one.split()), wanted) for one in printed), wanted


@pytest.mark.parametrize("struct", [Story, Workload, Happening, Fault], ids=lambda one: one.__name__)
def test_every_key_is_on_the_page(struct):
    for field in msgspec.structs.fields(struct):
        assert f"`{field.encode_name}`" in PAGE, field.encode_name
