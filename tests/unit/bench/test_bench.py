"""The benchmark's own parts, at sizes that take no time: workloads are what they say, and the other solver is right."""

import pytest
from bench import engine, report, trees, workloads
from bench.__main__ import matches
from bench.greedy import finds
from bench.measure import Case, Row, Run, measure, shown
from bench.trees import Instance, Leaf
from bench.truth import is_feasible

from muster.plan.cycle import schedule
from muster.plan.outcome import Verdict

SMALL = {
    "kai go": lambda: workloads.kai_go(10, 50),
    "kai gang": lambda: workloads.kai_go(5, 10, size=4),
    "kai fill": lambda: workloads.kai_fill(5),
    "kube rack": lambda: workloads.kube(3, 4, level="rack", nodes=200),
    "volcano": lambda: workloads.volcano(racks=5, size=4),
    "mixed": lambda: workloads.mixed(workloads.Mix(100, 50)),
    "prefill and decode": lambda: workloads.hierarchical(128, 2),
}


@pytest.mark.parametrize("make", SMALL.values(), ids=SMALL)
def test_workloads_fit(make):
    """Every waiting gang of a workload that is meant to fit does."""
    scene = make()
    plan, _ = schedule(engine.Fresh(scene).snapshot())
    assert {outcome.verdict for outcome in plan.outcomes} == {Verdict.PLACED}
    assert len({placement.gang for placement in plan.placements}) == scene.gangs


def test_a_fresh_snapshot_takes_nothing_over():
    """What a run is timed on was never looked at before."""
    fresh = engine.Fresh(workloads.kai_go(2, 4))
    first, second = fresh.snapshot(), fresh.snapshot()
    assert first.gangs[0] is not second.gangs[0]
    assert not {"ready", "satisfied", "order"} & set(vars(second.gangs[0]))


def test_instances_are_the_same_every_time():
    assert trees.instance("mixed sizes", 7) == trees.instance("mixed sizes", 7)
    assert trees.instance("mixed sizes", 7) != trees.instance("mixed sizes", 8)


def tiny(*racks: int, leaves: list[int], needed: int) -> Instance:
    """One set of leaves of whole-node pods; the first block has racks with so many free nodes, the rest has none."""
    free = [[8] * count + [0] * (8 - count) for count in racks] + [[0] * 8] * (50 - len(racks))
    return Instance(free, [[Leaf(pods, 8) for pods in leaves]], [needed])


@pytest.mark.parametrize(
    ("found", "feasible", "greedy"),
    [
        (tiny(6, 6, leaves=[3, 2, 3, 2, 2], needed=5), True, False),
        (tiny(6, 6, leaves=[6, 6], needed=2), True, True),
        (tiny(6, 5, leaves=[6, 6], needed=2), False, False),
        (tiny(4, 4, leaves=[6, 2, 2, 2], needed=3), True, False),
    ],
    ids=["sibling order", "easy", "one short", "any three of four"],
)
def test_the_other_solver_knows_what_greedy_misses(found, feasible, greedy):
    assert is_feasible(found, 10.0) is feasible
    assert finds(found) is greedy


def test_a_page_keeps_its_prose(tmp_path):
    """Only what stands behind the mark is written again."""
    page = tmp_path / "performance.md"
    page.write_text(f"Prose.\n\n{report.MARK}\n\nold figures\n")
    report.write_page(str(page), [Row("Section", "a row", 0.5, target="≤ 1.00 s", met=True)], 5, 200)
    text = page.read_text()
    assert text.startswith("Prose.\n")
    assert "old figures" not in text
    assert "| a row | 500 ms | ≤ 1.00 s | yes |" in text


def test_a_measurement_says_whether_its_target_is_met():
    row = measure(Case("nothing", lambda: Run(lambda _: None), target_s=1.0), 1)
    assert row.met
    assert [shown(seconds) for seconds in (2, 0.25, 0.0123, 0.00045)] == ["2.00 s", "250 ms", "12.3 ms", "450 µs"]


def test_patterns():
    assert matches("fill", "KAI fill: 500 nodes")
    assert matches("kai*nodes*", "KAI fill: 500 nodes")
    assert not matches("volcano", "KAI fill: 500 nodes")
