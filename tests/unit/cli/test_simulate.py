"""`muster simulate`: a story is told and summed up, seeds are searched, and what is broken can be repeated."""

import os
from collections import Counter

import pytest

from muster.cli import seeds as search_page
from muster.cli.seeds import seeds_of
from muster.errors import UsageError
from muster.sim.drawing import story_of
from muster.sim.loading import parse
from muster.sim.searching import DIED, Found, Totals
from muster.sim.trace import Violation

STORY = """
claim: A gang comes and is placed
why: to see it
nodes: [{name: n, count: 2, gpus: 1}]
workloads: {g: {gang: {minMember: 2}, pods: {"": 3}}}
faults: [{point: bind, does: swallow, nth: 1}]
lasts: 5
ends: {bindings: 2, gangs: {g: {verdict: Placed, satisfied: true}}}
"""
SCENARIO = """
claim: c
why: w
nodes: [{name: n, gpus: 1}]
gangs: {g: {minMember: 1}}
pods: [{gang: g}]
steps: [{expect: {bindings: 1}}]
"""


@pytest.fixture
def story(tmp_path):
    file = tmp_path / "story.yaml"
    file.write_text(STORY)
    return file


@pytest.fixture
def wrong(tmp_path):
    file = tmp_path / "wrong.yaml"
    file.write_text(STORY.replace("bindings: 2", "bindings: 7"))
    return file


def test_a_story_is_told_and_summed_up(muster, story):
    told = muster("simulate", "-f", story)
    assert told.code == 0
    for words in (
        "A gang comes and is placed",
        "gang default/g: 2 pods are bound on n-0, n-1",
        "fault     bind swallow",
        "gang default/g is Scheduled 2/2/3",
        "judge     in the end: as expected",
        "2 binds, 0 evictions, 1 fault",
        "verdict: all of it holds   digest: ",
    ):
        assert words in told.out
    assert f"next: muster simulate -f {story} --html story.html" in told.err


def test_what_is_judged_at_rest_is_not_claimed_where_no_calm_came(muster, story):
    told = muster("simulate", "-f", story)
    assert "checked after every change, and once more when calm had come" in told.out
    story.write_text(STORY + "calm: 1\n")
    told = muster("simulate", "-f", story)
    assert "BROKEN L6" in told.out
    assert "checked after every change, and at rest only where calm came (L6)" in told.out


def test_quiet_leaves_out_the_timeline(muster, story):
    told = muster("simulate", "-f", story, "-q")
    assert "are bound on" not in told.out
    assert "verdict: all of it holds" in told.out


def test_wide_tells_every_pod(muster, story):
    assert "muster-0  pod default/g-0 is bound to n-" in muster("simulate", "-f", story, "-o", "wide").out


def test_what_is_broken_is_told_with_its_rule_its_moment_and_the_command(muster, wrong):
    told = muster("simulate", "-f", wrong)
    assert told.code == 1
    assert "BROKEN claim (what the file expects of a step)" in told.out
    assert "s: in the end: bindings: expected 7, found 2" in told.out
    assert f"again: muster simulate -f {wrong}" in told.out
    assert "verdict: 1 violation" in told.out
    assert muster("simulate", "-f", wrong, "-o", "name").out == "claim\n"


def test_the_report_as_data(muster, story):
    report = muster("simulate", "-f", story, "-o", "json").json
    assert report["holds"]
    assert report["gangs"][0] == {
        **report["gangs"][0],
        "name": "default/g",
        "placed": 1,
        "bound": 2,
        "evicted": 0,
        "phase": "Scheduled",
        "pods": "2/2/3",
    }
    assert report["faults"] == {"bind swallow": 1}
    assert report["steps"]["compared"] == 1
    assert {"at", "who", "kind", "what"} == set(report["timeline"][0])
    assert report["digest"] in muster("simulate", "-f", story).out


def test_standard_input(muster):
    assert muster("simulate", "-f", "-", "-q", stdin=SCENARIO).code == 0


def test_several_files_are_a_line_each(muster, story, wrong):
    told = muster("simulate", "-f", story.parent)
    assert told.code == 1
    assert "holds       1 steps  story.yaml" in told.out
    assert "BROKEN      1 steps  wrong.yaml" in told.out
    assert "claim at" in told.out
    assert "2 files: 1 hold, 1 do not; 2 steps compared, 0 left out" in told.err
    assert f"next: muster simulate -f {wrong}" in told.err
    assert muster("simulate", "-f", story.parent, "-o", "name").out == f"{wrong}\n"
    assert [one["holds"] for one in muster("simulate", "-f", story.parent, "-o", "json").json] == [True, False]


def test_a_file_that_is_no_story_stops_none_of_the_others(muster, story):
    bad, worse = story.parent / "a.yaml", story.parent / "z.yaml"
    bad.write_text("")
    worse.write_text("claim: c\nhappens: [{at: 1, fail: [nobody]}]")
    told = muster("simulate", "-f", story.parent)
    assert told.code == 2
    assert f"BROKEN      0 steps  a.yaml\n        {bad}: is empty\n" in told.out
    assert "holds       1 steps  story.yaml" in told.out
    assert "BROKEN      0 steps  z.yaml\n        happens[0].fail[0]: no node is called nobody\n" in told.out
    assert "3 files: 1 hold, 2 do not" in told.err


def test_a_claim_without_an_expectation_is_told(muster, story):
    assert "the file expects nothing" not in muster("simulate", "-f", story, "-q").out
    story.write_text("".join(line for line in STORY.splitlines(keepends=True) if not line.startswith("ends")))
    assert "the file expects nothing: what it claims was not looked at" in muster("simulate", "-f", story, "-q").out


def test_a_fault_that_never_struck_is_told(muster, story):
    assert "never struck" not in muster("simulate", "-f", story, "-q").out
    story.write_text(STORY.replace("nth: 1", "nth: 999"))
    assert "a fault never struck: bind swallow (nth 999)" in muster("simulate", "-f", story, "-q").out
    assert muster("simulate", "-f", story, "-o", "json").json["neverStruck"] == ["bind swallow (nth 999)"]


def test_the_page(muster, story, tmp_path):
    told = muster("simulate", "-f", story, "-q", "--html", tmp_path / "page.html")
    assert told.code == 0
    assert "<!doctype html>" in (tmp_path / "page.html").read_text()
    assert "open it in a browser" in told.err


def test_the_story_of_a_seed_is_written(muster, tmp_path):
    told = muster("simulate", "--seed", "5", "--write", tmp_path / "five.yaml")
    assert told.code == 0
    assert parse((tmp_path / "five.yaml").read_bytes()) == story_of(5)
    assert f"next: muster simulate -f {tmp_path / 'five.yaml'}" in told.err


def test_a_seed_and_its_file_are_the_same_story(muster, tmp_path):
    muster("simulate", "--seed", "1", "--write", tmp_path / "one.yaml")
    digests = [
        muster("simulate", *args, "-o", "json").json["digest"]
        for args in (("--seed", "1"), ("-f", tmp_path / "one.yaml"))
    ]
    assert digests[0] == digests[1]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_where_nobody_may_write_is_told_before_anything_is_played(muster, tmp_path, story):
    tmp_path.chmod(0o500)
    try:
        for told in (
            muster("simulate", "-f", story, "--html", tmp_path / "page.html"),
            muster("simulate", "--seeds", "1", "--save", tmp_path),
        ):
            assert (told.code, told.out) == (2, "")
            assert "permission denied" in told.err
    finally:
        tmp_path.chmod(0o700)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((), "name one of -f FILE, --seed N and --seeds N"),
        (("--seed", "1", "--seeds", "2"), "name one of"),
        (("--seeds", "many"), "no number of seeds"),
        (("--seeds", "9..3"), "no number of seeds"),
        (("--seeds", "0..99999999"), "more than"),
        (("--seeds", "3", "--html", "x.html"), "about one story"),
        (("--seed", "3", "--write-report", "x.md"), "about many seeds"),
        (("-f", "no-such-file.yaml"), "can't read no-such-file.yaml"),
        (("--seeds", "1", "--write-report", "no-such-file.md"), "can't read no-such-file.md"),
        (("--seeds", "1", "--save", "no-such-folder/x"), "into no-such-folder/x: there is no folder no-such-folder"),
        (("--seed", "1", "--html", "no-such-folder/x.html"), "there is no folder no-such-folder"),
        (("--seed", "1", "--html", "."), "can't write .: it is a folder"),
        (("--seed", "1", "--html", "-"), "can't write -: that is standard output"),
        (("--seed", "1", "--html", "x.html", "--write", "x.yaml"), "there is nothing to draw"),
    ],
)
def test_wrong_usage(muster, args, words):
    told = muster("simulate", *args)
    assert told.code == 2
    assert words in told.err
    # It is noticed before anything is played.
    assert told.out == ""


def test_a_file_that_is_no_story(muster, tmp_path):
    (tmp_path / "no.yaml").write_text("claim: c\nnodes: [{nmae: n}]")
    told = muster("simulate", "-f", tmp_path / "no.yaml")
    assert told.code == 2
    assert "nmae" in told.err
    (tmp_path / "no.yaml").write_text("claim: c\nhappens: [{at: 1, fail: [nobody]}]")
    told = muster("simulate", "-f", tmp_path / "no.yaml")
    assert told.code == 2
    assert f"{tmp_path / 'no.yaml'}: happens[0].fail[0]: no node is called nobody" in told.err


# Seeds.


def test_how_many_seeds():
    assert seeds_of("5") == range(5)
    assert seeds_of("10..12") == range(10, 13)
    with pytest.raises(UsageError):
        seeds_of("0")


def test_seeds_are_searched(muster, tmp_path):
    told = muster("simulate", "--seeds", "1..2", "--workers", "1", "--save", tmp_path)
    assert told.code == 0
    assert "seeds                    2 (1..2)" in told.out
    assert "0 violations" in told.out
    assert "next: muster simulate --seeds 3..4" in told.err


def breaking(rule):
    """A search in which seed 4 breaks a rule."""

    def search(seeds, *, workers, see):
        totals = Totals(asked=len(seeds), wall_s=1.0)
        for seed in seeds:
            found = Found(seed, [Violation(2.5, rule, "too much on n")] if seed == 4 else [], "d", Counter(events=3))
            totals.add(found)
            see(found, totals)
        return totals

    return search


@pytest.fixture
def failing(monkeypatch):
    """Seed 4 breaks a rule, as long as there is a node."""
    monkeypatch.setattr(search_page, "search", breaking("S1"))
    monkeypatch.setattr(search_page, "fails_by", lambda rule: lambda story: rule == "S1" and bool(story.nodes))


def test_a_failing_seed_is_told_at_once_and_made_small(muster, failing, tmp_path):
    told = muster("simulate", "--seeds", "6", "--save", tmp_path / "new")
    assert told.code == 1
    assert "BROKEN S1 by seed 4 at 2.5 s: too much on n" in told.err
    assert "again: muster simulate --seed 4" in told.err
    file = tmp_path / "new" / "seed-4.yaml"
    assert f"again: muster simulate -f {file}" in told.err
    assert "# Breaks S1: too much on n" in file.read_text()
    small = parse(file.read_bytes())
    assert len(small.nodes) == 1
    assert not small.workloads
    assert "S1     1       no node holds more than it has" in told.out


@pytest.mark.parametrize(("rule", "most"), [("S1", 60), (DIED, 10)])
def test_figures_come_before_stories_are_made_small_and_one_that_hangs_is_not_played_for_ever(
    muster, monkeypatch, tmp_path, rule, most
):
    page, played = tmp_path / "page.md", []
    page.write_text("<!-- seeds: begin -->\n<!-- seeds: end -->\n")

    def plays(story):
        played.append("| violations | 1 |" in page.read_text())
        return True

    monkeypatch.setattr(search_page, "search", breaking(rule))
    monkeypatch.setattr(search_page, "fails_by", lambda _: plays)
    muster("simulate", "--seeds", "6", "--save", tmp_path, "--tries", "60", "--write-report", page)
    assert all(played)
    assert 0 < len(played) <= most
    assert (len(played) > 10) == (most > 10)


def test_what_came_of_seeds_as_data(muster, failing, tmp_path):
    told = muster("simulate", "--seeds", "6", "--tries", "0", "-o", "json").json
    assert (told["first"], told["last"], told["seeds"]) == (0, 5, 6)
    assert told["counts"]["events"] == 18
    assert told["failed"] == [
        {
            "seed": 4,
            "command": "muster simulate --seed 4",
            "story": None,
            "violations": [{"at": 2.5, "rule": "S1", "says": "too much on n"}],
        }
    ]
    assert muster("simulate", "--seeds", "6", "--tries", "0", "-o", "name").out == "seed/4\n"


def test_the_figures_are_put_into_their_place(muster, failing, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- seeds: begin -->\nformer figures\n<!-- seeds: end -->\nbehind\n")
    assert muster("simulate", "--seeds", "0..3", "--write-report", page).code == 0
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("behind\n")
    assert "former" not in text
    assert "`muster simulate --seeds 0..3`" in text
    assert "| violations | 0 |" in text
    page.write_text("no place")
    assert "has no place for the figures" in muster("simulate", "--seeds", "4", "--write-report", page).err
