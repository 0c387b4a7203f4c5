"""Stories that were told once because something had gone wrong, here or elsewhere: each must come out as it claims."""

from pathlib import Path

import pytest

from muster.sim.loading import load
from muster.sim.play import play
from muster.sim.scenario import Expected

FILES = sorted((Path(__file__).parent / "stories").glob("*.yaml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_story(path):
    outcome = play(load(path))
    says = [f"{one.rule} at {one.at_s:.1f} s: {one.says}" for one in outcome.violations]
    assert says == [], f"muster simulate -f tests/sim/stories/{path.name}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_file_name_is_the_claim(path):
    story = load(path)
    words = "".join(letter if letter.isalnum() else " " for letter in story.claim.lower().replace("'", ""))
    assert path.stem == "-".join(words.split())
    assert story.why


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_story_says_what_becomes_of_it(path):
    """Unless it was made of a seed: then the invariants say so."""
    story = load(path)
    assert story.ends != Expected() or story.seed
