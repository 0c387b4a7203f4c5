"""What a what-if means for everybody else: two plans, gang by gang."""

from dataclasses import replace

from muster.decisions.others import Change, Lot, documents_of, others
from muster.decisions.plan import Evict
from muster.plan.outcome import Action, Eviction, Verdict
from small_cluster import gang, node, planned, pod

BASE = [
    *(node("n", 4), gang("x", minMember=2), pod("x-0", "x"), pod("x-1", "x")),
    *(gang("y", minMember=2), pod("y-0", "y", nodeName="n"), pod("y-1", "y", nodeName="n")),
]
BEFORE = planned(*BASE)
NEW = ("default", "new")
FIRST = [gang("new", minMember=4, priorityClassName="inference"), *(pod(f"new-{i}", "new", gpus=0) for i in range(4))]


def test_nothing_changes():
    """The gang that came is not one of the others."""
    assert list(others(BEFORE, planned(*BASE, *FIRST), {NEW})) == []
    assert list(others(BEFORE, BEFORE, set())) == []


def test_whoever_has_less_room_is_told():
    """Verdict and placed pods, before and after."""
    taken = planned(*BASE, gang("new", priorityClassName="inference"), pod("new-0", "new", gpus=2))
    assert list(others(BEFORE, taken, {NEW})) == [
        Change(("default", "x"), Lot(Verdict.PLACED, 2), Lot(Verdict.INFEASIBLE, 0), 0)
    ]
    assert [one.key for one in others(BEFORE, taken, ())] == [("default", "x")]


def test_whoever_gets_room_is_told():
    """A gang that is gone is in one plan only, and is no change."""
    more = planned(*BASE, gang("z", minMember=2), pod("z-0", "z"), pod("z-1", "z"))
    without = planned(*(one for one in BASE[4:] + BASE[:1]), gang("z", minMember=2), pod("z-0", "z"), pod("z-1", "z"))
    assert list(others(more, without, ())) == [
        Change(("default", "z"), Lot(Verdict.INFEASIBLE, 0), Lot(Verdict.PLACED, 2), 0)
    ]


def test_evictions_are_told_with_their_number():
    """Those of the plan and those beside it; also when nothing else is different."""
    gone = replace(BEFORE, evictions=(Eviction(1, 0, 0, Action.PREEMPT, 0),))
    same = Lot(Verdict.PLACED, 2)
    assert list(others(BEFORE, gone, ())) == [Change(("default", "y"), same, same, 1)]
    assert list(others(gone, gone, ())) == []
    drained = [Evict("default", "x-0", "drain"), Evict("other", "x-1", "drain"), Evict("default", "stranger", "drain")]
    assert list(others(BEFORE, BEFORE, (), drained)) == [Change(("default", "x"), same, same, 1)]


def test_as_data():
    change = Change(("team", "x"), Lot(Verdict.PLACED, 8), Lot(Verdict.INFEASIBLE, 0), 8)
    assert documents_of([change]) == [
        {
            "namespace": "team",
            "name": "x",
            "before": {"verdict": "Placed", "placed": 8},
            "after": {"verdict": "Infeasible", "placed": 0},
            "evicted": 8,
        }
    ]
