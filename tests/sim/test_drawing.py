"""Drawing: a seed is one story for ever, small enough to be fast, and between them stories have everything in them."""

import hashlib
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from muster.api.documents import read
from muster.api.validation import ERROR, Context, validate
from muster.api.writing import write_yaml
from muster.sim.drawing import story_of, theme_of
from muster.sim.drawing.dice import SHARES, Dice
from muster.sim.drawing.themes import THEMES
from muster.sim.drawing.trees import TREES
from muster.sim.drawing.weather import HAZARDS
from muster.sim.loading import parse, write
from muster.sim.objects import GROUP, names
from muster.sim.story import Point, Story

SOME = range(400)
STORIES = [story_of(seed) for seed in SOME]
# What can be asked of each point of a story.
REQUEST, WATCH = {"refuse", "lose", "swallow", "delay", "late"}, {"late", "cut", "repeat", "gone", "silent"}


def workloads_of(story):
    return {**story.workloads, **{name: one for some in story.happens for name, one in some.workloads.items()}}


def digest_of(seeds):
    """A hash over stories, to the last field."""
    found = b"".join(msgspec.json.encode(story_of(seed)) for seed in seeds)
    return hashlib.sha256(found).hexdigest()


def test_a_seed_is_always_the_same_story_whatever_the_hash_seed():
    program = "from sim.test_drawing import digest_of; print(digest_of(range(40)))"
    folder = Path(__file__).parents[1]
    told = set()
    for number in ("0", "1"):
        known = {**os.environ, "PYTHONHASHSEED": number, "PYTHONPATH": f"{folder}:{folder.parent / 'src'}"}
        done = subprocess.run([sys.executable, "-c", program], env=known, capture_output=True, text=True, check=True)
        told.add(done.stdout.strip())
    assert told == {digest_of(range(40))}
    assert len({digest_of([seed]) for seed in range(40)}) == 40


@pytest.mark.parametrize("seed", range(0, 400, 10))
def test_a_story_survives_yaml(seed):
    story = STORIES[seed]
    text = write_yaml([msgspec.to_builtins(story, str_keys=True)])
    assert msgspec.convert(read(text.encode())[0].value, Story, str_keys=True) == story
    assert parse(write(story).encode()) == story


def test_stories_are_small():
    for story in STORIES:
        assert 4 <= sum(one.count or 1 for one in story.nodes) <= 21
        assert 1 <= len(workloads_of(story)) <= 8
        assert sum(sum(one.pods.values()) for one in workloads_of(story).values()) <= 60
        assert 50 <= story.lasts <= 180
        assert story.processes <= 3
        assert all(0 <= one.at < story.lasts for one in story.happens)
        assert [one.at for one in story.happens] == sorted(one.at for one in story.happens)


def test_what_happens_happens_to_what_the_story_has():
    for story in STORIES:
        known = workloads_of(story)
        nodes = {name for some in story.nodes for name in names(some.name, some.count)}
        for one in story.happens:
            assert set(one.scale) <= set(known)
            assert {name.removeprefix("workload/") for name in one.delete if name.startswith("workload/")} <= set(known)
            meant = [*one.fail, *one.recover, *one.vanish, *one.cordon, *one.uncordon]
            assert {name for name in meant if "=" not in name} <= nodes
            assert {*one.crash, *one.stop, *one.start, *one.pause, *one.jump} <= set(range(story.processes))


def test_every_theme_has_its_turn_and_half_of_the_stories_have_none():
    found = Counter(story.why for story in STORIES)
    assert found.pop("everything") == len(STORIES) // 2
    assert set(found) == {theme.name for theme in THEMES}
    turns = [theme.name for seed in range(2 * len(THEMES)) if (theme := theme_of(seed)) is not None]
    assert sorted(turns) == sorted(theme.name for theme in THEMES)


def test_every_point_has_its_hazards_and_they_can_happen_there():
    found = {}
    for one in HAZARDS:
        found.setdefault(one.point, set()).add(one.does)
    assert set(found) == set(get_args(Point))
    assert found.pop("write") == {"crash"}
    assert found.pop("watch") == WATCH
    assert all(does <= REQUEST for does in found.values())


def test_every_hazard_and_every_kind_of_happening_is_drawn():
    faults = {(one.point, one.does) for story in STORIES for one in story.faults}
    assert faults == {(one.point, one.does) for one in HAZARDS}
    told = {name for story in STORIES for one in story.happens for name, value in _said(one)}
    assert told >= {
        *("apply", "workloads", "delete", "change", "scale", "fail", "recover", "vanish", "cordon", "uncordon"),
        *("finish", "break", "remove", "crash", "stop", "start", "pause", "jump", "cut", "compact", "away"),
    }


def _said(happening):
    usual = msgspec.to_builtins(type(happening)(at=happening.at))
    return [(name, value) for name, value in msgspec.to_builtins(happening).items() if value != usual[name]]


def test_nearly_all_gangs_are_valid():
    gangs = [one.gang for story in STORIES for one in workloads_of(story).values() if one.gang is not None]
    wrong = 0
    for spec in gangs:
        document = {"apiVersion": GROUP, "kind": "PodGroup", "metadata": {"name": "g"}, "spec": spec}
        wrong += any(one.severity == ERROR for one in validate(document, Context()).violations)
    assert 0 < wrong < 0.05 * len(gangs)


def test_every_form_of_a_tree_keeps_to_its_size_and_has_leaves_for_its_pods():
    for form in TREES:
        for number in range(200):
            dice = Dice(number, form.__name__)
            tree = form(dice, dice.whole(4, 12))
            leaves = {one["name"] for one in tree.spec.get("subGroups", [])} or {""}
            assert set(tree.pods) <= leaves
            assert 1 <= sum(tree.pods.values()) <= 14


def test_a_share_of_the_table_is_what_is_drawn():
    dice = Dice(1, "shares")
    assert all(0 < share < 1 for share in SHARES.values())
    found = sum(dice.has("several processes") for _ in range(4000)) / 4000
    assert abs(found - SHARES["several processes"]) < 0.03


def test_leaders_often_can_t_renew_for_nearly_as_long_as_they_may_go_on():
    """And have something to write just then: whoever takes over too soon is seen."""
    several = [story for story in STORIES if story.processes > 1]
    hard = 0
    for story in several:
        gaps = [
            one
            for one in story.faults
            if (one.point, one.does, one.chance) == ("lease", "lose", 1.0) and 7.9 < (one.until or 0) - one.since < 10.1
        ]
        busy = [
            gap for gap in gaps if any(gap.since + 5 < one.at < gap.since + 11 and one.remove for one in story.happens)
        ]
        hard += {gap.process for gap in busy} == set(range(story.processes))
    assert hard > 0.3 * len(several)
