"""Seeds are searched in processes of their own: whatever one of them does, the others are played and told."""

import multiprocessing
import os
import select
import signal
import time
from collections import Counter

import pytest

from muster.sim.searching import DIED, UNLIKE, fails_by, search
from muster.sim.story import Story
from muster.sim.trace import Outcome, Violation


def outcome(*rules, digest="same"):
    violations = [Violation(1.0, rule, "it is broken") for rule in rules]
    return Outcome(violations, digest, [], Counter(binds=2), 10.0, None)


def playing(seed):
    """3 breaks a rule, 5 dies, 7 runs in circles, 9 has a defect, 10 is never the same."""
    if seed == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    while seed == 7:
        pass
    if seed == 9:
        raise ZeroDivisionError("a defect")
    if seed == 10:
        playing.times = getattr(playing, "times", 0) + 1
        return outcome(digest=str(playing.times))
    return outcome("S1") if seed == 3 else outcome()


@pytest.fixture(scope="module")
def totals():
    return search(range(12), cpu_s=1, twice_every=10, playing=playing)


def test_every_seed_is_told_of(totals):
    assert totals.seeds == totals.asked == 12
    assert [one.seed for one in totals.failed] == [3, 5, 7, 9, 10]
    assert not totals.is_stopped


def test_counts_are_summed_up(totals):
    assert totals.counts["binds"] == 2 * 9
    assert totals.virtual_s == 90.0
    assert totals.rules == {"S1": 1, DIED: 3, UNLIKE: 1}
    assert totals.twice == 2


@pytest.mark.parametrize(
    ("seed", "words"),
    [
        (5, "its process died: SIGKILL"),
        (7, "it took more than 1 s of CPU"),
        (9, "ZeroDivisionError: a defect"),
        (10, "played twice it was 1, then 2"),
    ],
)
def test_how_a_seed_ended_is_told(totals, seed, words):
    (found,) = [one for one in totals.failed if one.seed == seed]
    assert words in found.violations[0].says


def test_it_is_told_while_it_goes_on():
    seen = []
    search(range(5), twice_every=100, playing=playing, see=lambda found, totals: seen.append((found, totals.seeds)))
    assert sorted(found.seed for found, _ in seen if found) == list(range(5))
    assert max(seeds for _, seeds in seen) == 5


def test_whoever_wants_to_stop_gets_what_there_is():
    def see(found, totals):
        if totals.seeds == 3:
            raise KeyboardInterrupt

    totals = search(range(1000), playing=lambda seed: outcome(), see=see)
    assert totals.is_stopped
    assert totals.seeds == 3


def test_a_story_fails_by_its_rule_only():
    assert fails_by("S1", playing=lambda story: outcome("S1"))(Story())
    assert not fails_by("S2", playing=lambda story: outcome("S1"))(Story())


def test_workers_end_with_whoever_began_the_search():
    """Idle or busy, and however it ended: nobody is left who holds the pipe."""
    ours, theirs = os.pipe()

    def playing(seed):
        os.write(theirs, b"%d" % seed)
        time.sleep(30 * (seed - 1))
        return outcome()

    searching = multiprocessing.get_context("fork").Process(target=search, args=([1, 2],), kwargs={"playing": playing})
    searching.start()
    os.close(theirs)
    begun = b""
    while len(begun) < 2:
        begun += os.read(ours, 2)
    searching.kill()
    searching.join()
    assert select.select([ours], [], [], 10) == ([ours], [], [])
    assert os.read(ours, 1) == b""
    os.close(ours)
