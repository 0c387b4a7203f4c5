"""The clock of what lost its minimum (SPEC §8): only loss starts it, and it survives."""

from dataclasses import replace

import pytest

from muster.plan.cycle import Policy, schedule
from muster.plan.outcome import ACTIONS
from muster.plan.stale import lacking
from muster.snapshot.arrays import Batch, Recorded
from short_forms import merged, ns, snapshot_of

FLAT = {"minMember": 2}
ANY = {"minSubGroup": 1, "subGroups": [{"name": "x", "minMember": 1}, {"name": "y", "minMember": 2}]}
FLOOR = {"minMember": 4, "subGroups": [{"name": "x", "minMember": 1}, {"name": "y", "minMember": 1}]}
DEEP_FLOOR = {
    "minMember": 5,
    "subGroups": [
        {"name": "v", "minSubGroup": 1},
        *({"name": name, "parent": "v", "minMember": 2} for name in "xyz"),
    ],
}
DEEP = {
    "minSubGroup": 1,
    "subGroups": [
        {"name": "x", "minMember": 1},
        {"name": "v", "minSubGroup": 1},
        {"name": "a", "parent": "v", "minMember": 1},
        {"name": "b", "parent": "v", "minMember": 2},
    ],
}


def gang_of(spec, pods, rows=None):
    """The gang with pods like `x0 x1`; `x0*` has succeeded, `x0-` terminates; `rows` are what the status says."""
    found = []
    for pod in pods.split():
        leaf = {"subGroup": pod[0]} if pod[0].isalpha() else {}
        done = {"phase": "Succeeded"} if pod.endswith("*") else {"terminating": True} if pod.endswith("-") else {}
        found.append({"gang": "g", "name": f"p{pod.rstrip('*-')}", "on": "n", **leaf, **done})
    snapshot = snapshot_of(merged({"nodes": [{"name": "n", "gpus": 99}], "gangs": {"g": spec}, "pods": found}))
    gang = snapshot.gangs[0]
    if rows is None:
        return gang
    names = [node.name for node in gang.tree.nodes]
    assert set(rows) <= set(names)
    return replace(gang, recorded=tuple(rows.get(name) for name in names))


def was(minimum, placed, satisfied=True, since=None, succeeded=0):
    return Recorded(satisfied, minimum, placed, succeeded, 0 if since is None else ns(since))


LOST = Recorded(False, 2, 1, 0, 0, lost=True)


def clocks(gang, now=0, last=None, present=None):
    """Per tree node that has one: since when its clock runs, in seconds, and whether it is up."""
    found = lacking(
        gang, gang.present if present is None else present, ns(now), None if last is None else ns(last)
    ).clocks
    return {gang.tree.nodes[one.row].name: ((one.since_ns - ns(0)) / 1e9, one.due) for one in found}


@pytest.mark.parametrize(
    ("spec", "pods", "rows", "clock"),
    [
        pytest.param(FLAT, "0 1", None, {}, id="it has its minimum"),
        pytest.param(FLAT, "0", None, {"": (0, False)}, id="nobody knows: it begins now"),
        pytest.param(FLAT, "0 1*", None, {}, id="who succeeded counts"),
        pytest.param(FLAT, "0", {"": was(2, 2)}, {"": (0, False)}, id="a pod was lost"),
        pytest.param(FLAT, "0", {"": was(1, 1)}, {}, id="the spec asks for more"),
        pytest.param(FLAT, "0", {"": was(2, 1, False, -59)}, {"": (-59, False)}, id="it runs already"),
        pytest.param(FLAT, "0", {"": was(2, 1, False, -60)}, {"": (-60, True)}, id="it is up"),
        pytest.param(FLAT, "0", {"": was(2, 1, False)}, {}, id="it was below its minimum, and lost nothing since"),
        pytest.param(FLAT, "0", {"": was(3, 2, False)}, {"": (0, False)}, id="it was, and lost more"),
        pytest.param(FLAT, "0", {"": was(2, 0, False)}, {"": (0, False)}, id="half of it was placed"),
        pytest.param({"minMember": 3}, "0 1", {"": was(2, 3)}, {}, id="surplus was lost, and the spec asks for more"),
        pytest.param(FLAT, "0", {"": was(1, 2, True, None)}, {}, id="surplus was lost, and then the minimum raised"),
        pytest.param(ANY, "x0 y0", None, {"y": (0, False)}, id="a child that is broken"),
        pytest.param(ANY, "y0", None, {"": (0, False)}, id="the gang, and not its child"),
        pytest.param(
            ANY, "x0 y0", {"": was(1, 3), "x": was(1, 1), "y": was(2, 1, False, -99)}, {"y": (-99, True)}, id="a child"
        ),
        pytest.param(ANY, "x0", {"": was(1, 2), "x": was(1, 1), "y": was(2, 1, False, -99)}, {}, id="nothing is left"),
        pytest.param(ANY, "x0 y0", {"": was(1, 1), "x": was(1, 1)}, {"y": (0, False)}, id="a new child, half placed"),
        pytest.param(ANY, "x0 y0", {"": was(1, 2), "x": was(1, 1), "y": was(1, 1)}, {}, id="a child is asked for more"),
        pytest.param(
            ANY,
            "x0 y0",
            {"": was(1, 1, False, -99), "x": was(1, 0, False), "y": LOST},
            {"y": (0, False)},
            id="a child that lost a pod before or while its gang was stale",
        ),
        pytest.param(
            ANY,
            "x0 y0",
            {"": was(1, 1, False, -99), "x": was(1, 0, False), "y": was(2, 1, False)},
            {},
            id="a child was asked for more before its gang was stale",
        ),
        pytest.param(DEEP, "x0 a0 b0", None, {"b": (0, False)}, id="satisfied children are entered"),
        pytest.param(DEEP, "x0 b0", None, {"v": (0, False)}, id="from the root down"),
        pytest.param(FLOOR, "x0 x1 y0", None, {"": (0, False)}, id="a floor that nobody knows of"),
        pytest.param(
            FLOOR, "x0 x1 y0", {"": was(2, 4), "x": was(1, 2), "y": was(1, 2)}, {"": (0, False)}, id="a floor, by loss"
        ),
        pytest.param(
            FLOOR, "x0 x1 y0", {"": was(2, 3), "x": was(1, 2), "y": was(1, 1)}, {}, id="a floor that the spec raises"
        ),
    ],
)
def test_only_a_loss_starts_the_clock(spec, pods, rows, clock):
    """From the root down, for everything that is placed and below its minimum by a loss; never by a change of spec."""
    assert clocks(gang_of(spec, pods, rows)) == clock


@pytest.mark.parametrize(
    ("rows", "below"),
    [
        pytest.param({"v": was(1, 2), "b": was(2, 2)}, ["b"], id="they lose together"),
        pytest.param({"v": was(1, 2, False, -9), "b": LOST}, ["b"], id="it is known"),
        pytest.param({"v": was(1, 2), "b": was(2, 1, False)}, [], id="the spec asked for more before"),
        pytest.param({"v": was(1, 2, False, -9), "b": was(1, 1)}, [], id="the spec asks for more of what is stale"),
    ],
)
def test_a_loss_below_a_clock_is_remembered(rows, below):
    """It has a clock of its own when that one is over; what only its spec asks for has none (seed 2001016)."""
    gang = gang_of(DEEP, "x0 b0", {"": was(1, 3), "x": was(1, 1), "a": was(1, 1), **rows})
    found = lacking(gang, gang.present, ns(0), None)
    assert [gang.tree.nodes[clock.row].name for clock in found.clocks] == ["v"]
    assert [gang.tree.nodes[row].name for row in found.below] == below


def joined_gang(pods, rows, spec=ANY, keep="."):
    """The same with `keep: all` at the root, or elsewhere; `y0?` waits. Rows are joined unless they are the root's."""
    waiting = [pod.rstrip("?") for pod in pods.split() if pod.endswith("?")]
    gang = gang_of(spec, " ".join(pod for pod in pods.split() if not pod.endswith("?")), rows)
    kept = tuple(
        node._replace(keep=bool(node.children) and (node.name or ".") in keep.split()) for node in gang.tree.nodes
    )
    batches = tuple(Batch(gang.tree.row_of[pod[0]], 0, (pod,), (99,), (-1,)) for pod in sorted(waiting))
    joined = tuple(node.parent >= 0 and kept[node.parent].keep for node in kept)
    return replace(gang, tree=replace(gang.tree, nodes=kept), waiting=batches, was_joined=joined)


@pytest.mark.parametrize(
    ("pods", "y", "clock", "lost"),
    [
        pytest.param("x0 y0", was(2, 2), {}, ["y"], id="no pod of it waits"),
        pytest.param("x0 y0 y1?", was(2, 2), {"y": (0, False)}, [], id="a pod was lost, and another one waits"),
        pytest.param("x0 y0 y1?", LOST, {"y": (0, False)}, [], id="it was lost before"),
        pytest.param("x0 y0 y1?", was(2, 1, False), {}, [], id="the spec asked for more before"),
        pytest.param("x0 y0 y1?", was(1, 1), {}, [], id="the spec asks for more"),
        pytest.param("x0 y0 y1?", was(2, 1, False, -60), {"y": (-60, True)}, [], id="it is up"),
        pytest.param("x0 y0", was(2, 1, False, -60), {}, ["y"], id="it is up, and nothing waits"),
        pytest.param("x0 y0 y1-", was(2, 1, False, -60), {}, ["y"], id="the only one that would wait terminates"),
        pytest.param("x0 y0?", was(2, 0, False, -60), {"y": (-60, True)}, [], id="none of its pods is placed"),
        pytest.param("x0 y0 y1", was(2, 2), {}, [], id="it has its minimum"),
        pytest.param("x0 y0 y1*", was(2, 2), {}, [], id="who succeeded counts"),
    ],
)
def test_a_joined_child_has_a_clock_while_a_pod_of_it_waits(pods, y, clock, lost):
    """And only by a loss, which is remembered while it has none (SPEC §8, keep: all)."""
    gang = joined_gang(pods, {"": was(1, 3), "x": was(1, 1), "y": y})
    found = lacking(gang, gang.present, ns(0), None)
    names = [node.name for node in gang.tree.nodes]
    assert clocks(gang) == clock
    assert [names[row] for row in found.lost] == lost
    assert all(one.goes == 0 for one in found.clocks if one.due)


def test_a_pod_that_this_cycle_places_does_not_wait():
    """Whoever is bound now is no reason for a clock, and the last one that waits is."""
    gang = joined_gang("x0 y0? y1?", {"": was(1, 2), "x": was(1, 1), "y": was(2, 2)})
    row = gang.tree.row_of["y"]
    for brought, clock in ((1, {"y": (0, False)}), (2, {})):
        present = [pods + brought * (at == row) for at, pods in enumerate(gang.present)]
        assert clocks(gang, present=present) == clock
    assert lacking(joined_gang("x0 y0", {"": was(1, 2), "x": was(1, 1), "y": was(2, 2)}), gang.present, ns(0), 0).lost


@pytest.mark.parametrize(
    ("spec", "keep", "pods", "goes"),
    [
        pytest.param(DEEP, "v", "x0 a0 b0 b1?", "v", id="a branch that the gang can spare"),
        pytest.param({**DEEP, "minSubGroup": 2}, "v", "x0 a0 b0 b1?", "", id="one that it can't"),
        pytest.param(DEEP, "v .", "x0 a0 b0 b1?", "", id="a branch that has joined itself"),
        pytest.param({**ANY, "minSubGroup": 0}, ".", "x0 y0? y1?", "", id="the gang that needs nothing"),
    ],
)
def test_a_joined_child_takes_what_it_is_kept_together_with(spec, keep, pods, goes):
    """The nearest tree node that has joined nothing itself and can be spared."""
    below = {one["name"]: was(1, 2, False, -99) for one in spec["subGroups"]}
    gang = joined_gang(pods, {"": was(1, 4), **below}, spec, keep)
    found = [one for one in lacking(gang, gang.present, ns(0), None).clocks if one.due]
    assert [gang.tree.nodes[one.goes].name for one in found] == [goes]


def test_what_two_joined_children_take_along_goes_once():
    """Each of them has a clock that is up, and one of the two is due."""
    spec = {"minSubGroup": 1, "subGroups": [{"name": name, "minMember": 1} for name in "xyz"]}
    gang = joined_gang("x0 y0? z0?", {"": was(1, 1), **{name: was(1, 1, False, -99) for name in "yz"}}, spec)
    assert clocks(gang) == {"y": (-99, True), "z": (-99, False)}


@pytest.mark.parametrize(
    ("spec", "pods", "brought", "due"),
    [
        pytest.param(ANY, "x0 y0", "", {"y": True}, id="nothing is brought"),
        pytest.param(ANY, "x0 y0", "x", {"y": True}, id="what it brings is more than is needed"),
        pytest.param(ANY, "y0", "x", {"y": False}, id="the parent is whole only by what it brings"),
        pytest.param({**DEEP, "minSubGroup": 2}, "a0 b0", "x", {"b": False}, id="so is one further up"),
        pytest.param(FLAT, "0", "", {"": True}, id="above the gang there is nobody"),
        pytest.param(DEEP_FLOOR, "x0 x1 x2 x3 y0", "", {"y": False}, id="a floor counts on it"),
        pytest.param(DEEP_FLOOR, "x0 x1 x2 x3 y0", "x", {"y": False}, id="a floor stands only by what it brings"),
        pytest.param(DEEP_FLOOR, "x0 x1 x2 x3 x4 y0", "", {"y": True}, id="a floor stands without it"),
        pytest.param(DEEP_FLOOR, "x0 x1 x2 x3 y0 z0", "", {"y": True, "z": False}, id="a floor counts on one of two"),
        pytest.param(DEEP_FLOOR, "x0 x1 x2 x3 x4* y0", "", {"y": True}, id="a floor stands by who succeeded"),
    ],
)
def test_a_child_goes_when_those_above_it_stand_without_it_and_what_the_cycle_brings(spec, pods, brought, due):
    """What was planned may not come; then the gang is below its minimum, and no part of it goes by itself."""
    gang = gang_of(spec, pods)
    names = [node.name for node in gang.tree.nodes]
    gang = replace(gang, recorded=tuple(was(1, 1, False, -99) for _ in names))
    present = [count + (name in brought.split()) for name, count in zip(names, gang.present, strict=True)]
    assert {name: is_due for name, (_, is_due) in clocks(gang, present=present).items()} == due


@pytest.mark.parametrize(
    ("grace", "since", "due"),
    [
        pytest.param("60s", -59.5, False, id="not yet"),
        pytest.param("60s", -60, True, id="just"),
        pytest.param("0s", None, True, id="at once"),
        pytest.param("-1s", -9999, False, id="never"),
    ],
)
def test_the_clock_is_up_after_the_grace_period(grace, since, due):
    gang = gang_of({**FLAT, "stalenessGracePeriod": grace}, "0", {"": was(2, 1, False, since)} if since else None)
    assert clocks(gang)[""] == (since or 0, due)


@pytest.mark.parametrize(
    ("last", "since", "now"),
    [
        pytest.param(90, -60, -50, id="the time since the last cycle does not count"),
        pytest.param(None, -60, 100, id="nobody knows how long: none of it counts"),
        pytest.param(110, -60, -60, id="time that runs backwards is no time"),
        pytest.param(-900, -60, 100, id="not later than now"),
    ],
)
def test_the_clock_stands_still_while_a_missing_member_terminates(last, since, now):
    """It is put forward by as much, and is never up meanwhile."""
    rows = {"": was(2, 1, False, since)}
    assert clocks(gang_of(FLAT, "0 1-", rows), 100, last)[""] == (now, False)
    assert clocks(gang_of(FLAT, "0", rows), 100, last)[""] == (since, True), "and runs when it has gone"


def test_a_member_of_another_child_that_terminates_stops_no_clock():
    """Only what is missing below the tree node itself keeps its clock from running."""
    rows = {"": was(1, 2), "x": was(1, 1), "y": was(2, 1, False, -99)}
    assert clocks(gang_of(ANY, "x0 x1- y0", rows))["y"] == (-99, True)
    assert clocks(gang_of(ANY, "x0 y0 y1-", rows), last=-10)["y"] == (-89, False)


def test_what_is_placed_in_the_cycle_counts():
    """`present` is after the cycle: who got its minimum back has no clock, who lost more has one."""
    gang = gang_of(ANY, "x0 y0", {"": was(1, 2), "x": was(1, 1), "y": was(2, 1, False, -99)})
    assert clocks(gang, present=(0, 1, 2)) == {}
    assert clocks(gang, present=(0, 0, 1)) == {"": (0, False)}


STATUS = {
    "history": {"g": {"stale": {"y": -30}}},
    "gangs": {"g": {**ANY, "stalenessGracePeriod": "600s"}},
    "pods": [
        {"gang": "g", "subGroup": leaf, "name": name, "on": "n", "gpus": gpus}
        for leaf, name, gpus in (("x", "x0", 1), ("x", "x1", 2), ("y", "y0", 1))
    ],
}
TAKER = {
    "gangs": {"h": {"minMember": 1, "priorityClassName": "build-preemptible"}},
    "pods": [{"gang": "h", "name": "h", "gpus": 2}],
}


@pytest.mark.parametrize(
    ("more", "actions"),
    [
        pytest.param({}, ACTIONS, id="nothing else happens"),
        pytest.param(TAKER, ACTIONS, id="the gang loses surplus in the cycle"),
        pytest.param({}, ["allocate"], id="nobody reaps"),
        pytest.param(
            {"pods": [{"gang": "g", "subGroup": "y", "name": "y1"}, {"name": "old", "on": "m", "terminating": True}]},
            ACTIONS,
            id="its repair is nominated",
        ),
    ],
)
def test_a_clock_is_never_lost(more, actions):
    """It is in the outcome of every cycle while the child is broken, whatever else is decided (SPEC §8)."""
    nodes = {"nodes": [{"name": "n", "gpus": 4}, {"name": "m", "gpus": 1}]}
    busy = {"pods": [{"name": "busy", "on": "m"}]} if "old" not in str(more) else {}
    plan, _ = schedule(snapshot_of(merged(nodes, busy, STATUS, more)), Policy(actions=frozenset(actions)))
    gang, outcome = plan.of(("default", "g"))
    assert {node.name: row.stale_since_ns for node, row in zip(gang.tree.nodes, outcome.rows, strict=True)} == {
        "": 0,
        "x": 0,
        "y": ns(-30),
    }
