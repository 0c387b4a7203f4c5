"""Steps are shared: half of a cycle at most for one gang, and what got too few comes first in the next cycle."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from muster.model.reasons import Code
from muster.plan.allotment import Allotment, Owed
from muster.plan.attempt import Engine
from muster.plan.cycle import Policy, schedule
from muster.plan.memory import Memory
from muster.plan.outcome import Verdict
from muster.snapshot.arrays import Issue
from muster.snapshot.build import Builder
from oracle.engine import world_of

STARVED = Path(__file__).parents[2] / "engine-cases" / "starved-loose_2res-207.yaml"


def gang(name: str, queue: str = "q"):
    return SimpleNamespace(key=("default", name), queue=queue, waiting=())


def cycle(gangs, owed, now_ns=0, wants=1000, per_cycle=2000):
    """Each gang wants all of `wants` in its turn: what each got, and what is owed afterwards."""
    allotment, got = Allotment(1000, per_cycle, owed, now_ns), {}
    for one in gangs:
        allotment.begin(one)
        budget = allotment.budget(one, wants)
        budget.spend(budget.steps)
        got[one.key[1]] = budget.steps
        allotment.pay(one, budget, wants)
    return got, allotment.owed


def test_a_gang_gets_half_of_a_cycle_at_most():
    allotment, one = Allotment(5000, 2000, {}, 0), gang("a")
    allotment.begin(one)
    first = allotment.budget(one, 5000)
    assert first.steps == 1000
    first.spend(1000)
    allotment.pay(one, first, 5000)
    assert allotment.budget(one, 5000).steps < 300
    assert not allotment.owed, "it had its half"


def test_each_of_many_hard_gangs_gets_its_steps_in_turn():
    """Five gangs that each take half a cycle: after three cycles each had a whole search, whatever their order."""
    gangs, owed, whole = [gang(name) for name in "abcde"], {}, set()
    for at in range(3):
        got, owed = cycle(gangs, owed, at)
        whole |= {name for name, steps in got.items() if steps == 1000}
    assert whole == set("abcde")


def test_queues_take_turns():
    """A queue with many hard gangs keeps another one waiting for no more than the next cycle."""
    crowd, other = [gang(f"a{n}") for n in range(9)], gang("z", "other")
    _, owed = cycle([*crowd, other], {})
    got, _ = cycle([*crowd, other], owed, 1)
    assert got["z"] == 1000


def test_what_is_set_aside_and_not_needed_is_free_for_those_behind():
    a, b, c = gang("a"), gang("b"), gang("c")
    _, owed = cycle([a, b, c], {})
    assert set(owed) == {c.key}
    allotment = Allotment(1000, 2000, owed, 1)
    allotment.begin(c)
    assert allotment.budget(a, 1000).steps == 1000
    allotment.begin(a)
    assert allotment.budget(a, 1000).steps == 1000


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 3000)), max_size=30), st.integers(2, 4000))
def test_no_cycle_costs_more_than_its_steps_and_the_least_of_each_question(asks, per_cycle):
    allotment, spent = Allotment(1000, per_cycle, {}, 0), {}
    for number, steps in asks:
        one = gang(str(number))
        allotment.begin(one)
        budget = allotment.budget(one, steps)
        budget.spend(budget.steps)
        allotment.pay(one, budget, steps)
        spent[number] = spent.get(number, 0) + budget.steps
    assert sum(spent.values()) <= per_cycle + 200 * len(asks)
    for number, steps in spent.items():
        assert steps <= per_cycle // 2 + 200 * sum(number == other for other, _ in asks)


@pytest.mark.parametrize(
    ("per_gang", "per_cycle", "worth"),
    [
        pytest.param(100, 10_000, [100, 200, 400, 800, 1600], id="doubled four times"),
        pytest.param(1000, 4000, [1000, 2000], id="up to half of a cycle"),
        pytest.param(1000, 1000, [500], id="a cycle of fewer steps than a gang"),
    ],
)
def test_an_undecided_gang_gets_twice_the_steps_until_another_search_would_be_the_same(per_gang, per_cycle, worth):
    allotment, attempts = Allotment(per_gang, per_cycle, {}, 0), 0
    found = []
    while not allotment.rests(attempts):
        found.append(allotment.worth(attempts))
        attempts += 1
    assert found == worth


def test_an_easy_gang_beside_a_hard_one_is_placed_in_the_first_cycle():
    """`hh` lives on other nodes, is older and takes all steps that it gets; `g` needs nearly 10,000."""
    documents = list(yaml.load_all(STARVED.read_text(), yaml.CSafeLoader))
    builder = Builder(world_of(documents))
    plan, memory = schedule(builder.build(0))
    assert plan.of(("default", "g"))[1].verdict is Verdict.PLACED
    plan, _ = schedule(builder.build(0), None, memory)
    hard = plan.of(("default", "hh"))[1]
    assert (hard.verdict, hard.reasons[0].code) == (Verdict.UNDECIDED, Code.SEARCH_BUDGET)
    assert hard.reasons[0].rests
    assert not hard.steps


def test_nothing_is_set_aside_for_gangs_without_a_turn():
    """Else a tenant could keep each cycle from others with gangs that are held, or deleted, in every second cycle."""
    snapshot = Builder(world_of(list(yaml.safe_load_all(STARVED.read_text())))).build(10**18)
    held = next(gang for gang in snapshot.gangs if gang.key[1] == "g")
    gangs = (replace(held, held=(Issue("Invalid", 0, ""),)), *(gang for gang in snapshot.gangs if gang is not held))
    snapshot = replace(snapshot, gangs=tuple(sorted(gangs, key=lambda gang: gang.key)))
    owed = {held.key: Owed(held.queue, 10**6, 0), ("default", "gone"): Owed("q", 10**6, 0)}
    policy = Policy(steps_per_gang=2000, steps_per_cycle=4000)
    with_debt, without = (schedule(snapshot, policy, Memory(owed=debt))[0] for debt in (owed, {}))
    assert [one.steps for one in with_debt.outcomes] == [one.steps for one in without.outcomes]
    assert max(one.steps for one in without.outcomes) >= 2000


def test_a_gang_that_rests_costs_nothing(monkeypatch):
    """Neither its search nor the question which of its children others could make room for is asked again."""
    world = world_of(list(yaml.safe_load_all(STARVED.read_text())))
    snapshot = Builder(world).build(10**18)
    _, memory = schedule(snapshot)
    asked = []
    monkeypatch.setattr(Engine, "wanted", lambda *args: asked.append(args))
    plan, memory = schedule(snapshot, None, memory)
    assert [one.verdict for one in plan.outcomes].count(Verdict.UNDECIDED) == 1
    assert not asked
