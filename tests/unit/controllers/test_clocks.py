"""Clocks of staleness that the status can't tell: what was whole again has a new one at its next loss."""

import pytest
from msgspec import structs

from muster.api.cluster import SUBGROUP_LABEL
from muster.api.podgroup import PodCounts, PodGroupStatus, SubGroupStatus
from muster.controllers.scheduler import Scheduler
from short_forms import BEGIN, ns
from unit.controllers.test_going import seen_by


def repaired(*more):
    """A scheduler with a gang whose child `a` is whole again, though its status, forty seconds old, calls it stale;
    with all its pods, and these.
    """
    scheduler = Scheduler()
    children = [{"name": "a", "minMember": 2}, {"name": "b", "minMember": 1}]
    things = {
        "nodes": [{"name": "n", "gpus": 8}],
        "gangs": {"g": {"minSubGroup": 1, "subGroups": children, "stalenessGracePeriod": "5s"}},
        "pods": [
            *({"gang": "g", "subGroup": "a", "name": f"a-{at}", "on": "n"} for at in range(2)),
            {"gang": "g", "subGroup": "b", "name": "b-0", "on": "n"},
            *more,
        ],
    }
    seen = seen_by(scheduler, things)
    group = scheduler.world.groups["default", "g"]
    rows = [
        SubGroupStatus(name="", satisfied=True, minimum=1, pods=PodCounts(placed=2)),
        SubGroupStatus(name="a", satisfied=False, minimum=2, pods=PodCounts(placed=1), stale_since=BEGIN),
        SubGroupStatus(name="b", satisfied=True, minimum=1, pods=PodCounts(placed=1)),
    ]
    scheduler.world.apply(structs.replace(group, status=PodGroupStatus(sub_groups=rows)))
    return scheduler, seen


def half_repaired():
    """The same, and a bind of child `b` has no answer, so that nothing is told."""
    scheduler, seen = repaired({"gang": "g", "subGroup": "b", "name": "b-1"})
    (bind,) = scheduler.cycle(ns(40)).binds
    scheduler.sent([bind], ns(40))
    scheduler.cycle(ns(41))
    return scheduler, seen, bind


def test_a_clock_is_over_when_what_it_was_for_is_whole_again_also_while_nothing_can_be_told():
    """Found by the simulation (seed 4828): a bind had no answer for long, so no status was written; and a child that
    had been whole for half a minute was reaped at its next loss, by a clock of before.
    """
    scheduler, seen, _ = half_repaired()
    scheduler.see(seen["a-1"], deleted=True)
    assert scheduler.cycle(ns(42)).evictions == ()


def test_a_clock_that_began_anew_while_nothing_could_be_told_runs_on():
    scheduler, seen, _ = half_repaired()
    scheduler.see(seen["a-1"], deleted=True)
    assert [scheduler.cycle(ns(at)).evictions for at in (42, 44, 46)] == [(), (), ()]
    assert [order.pod[1] for order in scheduler.cycle(ns(47)).evictions] == ["a-0"]


def test_what_was_known_better_than_the_status_is_forgotten_when_the_status_has_it():
    scheduler, seen, bind = half_repaired()
    assert ("default", "g") in scheduler.world.recorded
    scheduler.bound(bind, ns(42))
    scheduler.see(structs.replace(seen["b-1"], spec=structs.replace(seen["b-1"].spec, node_name="n")))
    (told,) = scheduler.cycle(ns(43)).statuses
    assert [row.stale_since for row in told.status.sub_groups] == [None, None, None]
    scheduler.world.apply(structs.replace(scheduler.world.groups["default", "g"], status=told.status))
    scheduler.cycle(ns(44))
    assert scheduler.world.recorded == {}


def test_a_child_that_lost_with_its_gang_has_a_clock_of_its_own_when_that_of_the_gang_is_over():
    """Found by the simulation (seed 165): the gang was whole again by its other child while nothing could be told."""
    scheduler, seen, _ = half_repaired()
    group = scheduler.world.groups["default", "g"]
    rows = [
        SubGroupStatus(name="", satisfied=False, minimum=1, pods=PodCounts(placed=1), stale_since=BEGIN),
        SubGroupStatus(name="a", satisfied=False, minimum=2, pods=PodCounts(placed=1)),
        SubGroupStatus(name="b", satisfied=False, minimum=1),
    ]
    scheduler.world.apply(structs.replace(group, status=PodGroupStatus(sub_groups=rows)))
    scheduler.see(seen["a-1"], deleted=True)
    assert [scheduler.cycle(ns(at)).evictions for at in (42, 44, 46)] == [(), (), ()]
    assert [order.pod[1] for order in scheduler.cycle(ns(47)).evictions] == ["a-0"]


@pytest.mark.parametrize(("lost", "goes"), [(True, ["a-0"]), (False, [])], ids=["by a loss", "by its spec"])
def test_a_child_that_lacked_pods_while_its_gang_was_stale_has_a_clock_only_by_a_loss(lost, goes):
    """Its child `b` made the gang whole again, and a bind has no answer, so that no status is written."""
    scheduler = Scheduler()
    children = [{"name": "a", "minMember": 2}, {"name": "b", "minMember": 1}]
    things = {
        "nodes": [{"name": "n", "gpus": 8}],
        "gangs": {"g": {"minSubGroup": 1, "subGroups": children, "stalenessGracePeriod": "5s"}},
        "pods": [
            {"gang": "g", "subGroup": "a", "name": "a-0", "on": "n"},
            {"gang": "g", "subGroup": "b", "name": "b-0", "on": "n"},
            {"gang": "g", "subGroup": "b", "name": "b-1"},
        ],
    }
    seen_by(scheduler, things)
    group = scheduler.world.groups["default", "g"]
    rows = [
        SubGroupStatus(name="", satisfied=False, minimum=1, pods=PodCounts(placed=1), stale_since=BEGIN),
        SubGroupStatus(name="a", satisfied=False, minimum=2, pods=PodCounts(placed=1), lost=lost),
        SubGroupStatus(name="b", satisfied=False, minimum=1),
    ]
    scheduler.world.apply(structs.replace(group, status=PodGroupStatus(sub_groups=rows)))
    first = scheduler.cycle(ns(40))
    scheduler.sent(first.binds, ns(40))
    evictions = [*first.evictions, *(one for at in range(41, 50) for one in scheduler.cycle(ns(at)).evictions)]
    assert sorted({order.pod[1] for order in evictions}) == goes


def untold():
    """The same, where no bind is on its way, but the server does not take the status."""
    scheduler, seen = repaired()
    for at in (40, 41):
        (told,) = scheduler.cycle(ns(at)).statuses
        assert [row.stale_since for row in told.status.sub_groups] == [None, None, None]
        scheduler.untold(("default", "g"))
    return scheduler, seen


def test_a_clock_is_over_when_what_it_was_for_is_whole_again_also_while_the_status_is_not_taken():
    scheduler, seen = untold()
    scheduler.see(seen["a-1"], deleted=True)
    assert [scheduler.cycle(ns(at)).evictions for at in (42, 44, 46)] == [(), (), ()]
    assert [order.pod[1] for order in scheduler.cycle(ns(47)).evictions] == ["a-0"]


def test_a_clock_that_began_anew_while_the_status_was_not_taken_runs_on_when_a_bind_fails():
    """A bind that is only planned has repaired nothing yet: a child must not hold its room for ever by trying."""
    scheduler, seen = untold()
    scheduler.see(seen["a-1"], deleted=True)
    assert scheduler.cycle(ns(42)).evictions == ()
    spec = structs.replace(seen["a-1"].spec, node_name="")
    metadata = structs.replace(seen["a-1"].metadata, name="a-2", uid="uid-a-2")
    another = structs.replace(seen["a-1"], metadata=metadata, spec=spec)
    scheduler.see(another)
    (bind,) = scheduler.cycle(ns(44)).binds
    scheduler.sent([bind], ns(44))
    scheduler.refused(bind, "no", ns(45))
    scheduler.see(another, deleted=True)
    assert scheduler.cycle(ns(46)).evictions == ()
    assert [order.pod[1] for order in scheduler.cycle(ns(47)).evictions] == ["a-0"]


def mended(says):
    """A gang that lost one of its two pods forty seconds ago, by its status. Another pod was sent to a node, and `says`
    is done with the bind; then, between two cycles, the other one is gone, and that one is seen where it is.
    """
    scheduler = Scheduler()
    pods = [{"gang": "g", "name": "old", "on": "n"}, {"gang": "g", "name": "new"}]
    gangs = {"g": {"minMember": 2, "stalenessGracePeriod": "5s"}}
    seen = seen_by(scheduler, {"nodes": [{"name": "n", "gpus": 8}], "gangs": gangs, "pods": pods})
    rows = [SubGroupStatus(name="", satisfied=False, minimum=2, pods=PodCounts(placed=1), stale_since=BEGIN)]
    group = scheduler.world.groups["default", "g"]
    scheduler.world.apply(structs.replace(group, status=PodGroupStatus(sub_groups=rows)))
    (bind,) = scheduler.cycle(ns(40)).binds
    scheduler.sent([bind], ns(40))
    says(scheduler, bind)
    scheduler.cycle(ns(41))
    scheduler.see(seen["old"], deleted=True)
    scheduler.see(on_its_node(seen["new"]))
    return scheduler


def test_a_bind_that_the_server_took_ends_a_clock_also_before_it_is_seen():
    """Found by the simulation (seed 5546): a gang had been whole for seconds by binds that were answered and that no
    watch had shown; it lost a pod when they were, and all of it went by a clock of before.
    """
    scheduler = mended(lambda scheduler, bind: scheduler.bound(bind, ns(41)))
    assert [scheduler.cycle(ns(at)).evictions for at in (42, 44, 46)] == [(), (), ()]
    assert [order.pod[1] for order in scheduler.cycle(ns(47)).evictions] == ["new"]


def test_a_bind_without_an_answer_ends_no_clock():
    scheduler = mended(lambda scheduler, bind: scheduler.flights.lost(bind.pod, bind.uid, "nobody knows"))
    assert [order.pod[1] for order in scheduler.cycle(ns(42)).evictions] == ["new"]


def below():
    """A scheduler with a gang that is below its minimum for forty seconds; one more pod waits, and the bind is sent."""
    scheduler = Scheduler()
    things = {
        "nodes": [{"name": "n", "gpus": 8}],
        "gangs": {"g": {"minMember": 3, "stalenessGracePeriod": "60s"}},
        "pods": [*({"gang": "g", "name": f"g-{at}", "on": "n"} for at in range(2)), {"gang": "g", "name": "g-2"}],
    }
    seen = seen_by(scheduler, things)
    group = scheduler.world.groups["default", "g"]
    rows = [SubGroupStatus(name="", satisfied=False, minimum=3, pods=PodCounts(placed=2), stale_since=BEGIN)]
    scheduler.world.apply(structs.replace(group, status=PodGroupStatus(sub_groups=rows)))
    (bind,) = scheduler.cycle(ns(40)).binds
    scheduler.sent([bind], ns(40))
    return scheduler, seen, bind


def on_its_node(pod):
    return structs.replace(pod, spec=structs.replace(pod.spec, node_name="n"))


def test_a_gang_that_was_whole_between_two_cycles_has_a_new_clock():
    """Found by the simulation (seed 13077): the bind that made it whole was answered, and a tenth of a second later
    another pod failed; the next cycle saw both, and reaped it by the clock of before.
    """
    scheduler, seen, bind = below()
    scheduler.bound(bind, ns(41))
    scheduler.see(seen["g-0"], deleted=True)
    scheduler.see(on_its_node(seen["g-2"]))
    assert [scheduler.cycle(ns(at)).evictions for at in (70, 129)] == [(), ()]
    assert {order.pod[1] for order in scheduler.cycle(ns(131)).evictions} == {"g-1", "g-2"}


def test_a_gang_that_a_watch_showed_whole_between_two_cycles_has_a_new_clock():
    """The answer to the bind came late, or never."""
    scheduler, seen, _ = below()
    scheduler.see(on_its_node(seen["g-2"]))
    scheduler.see(seen["g-0"], deleted=True)
    assert scheduler.cycle(ns(70)).evictions == ()


def test_a_gang_that_lost_a_pod_before_it_got_one_was_never_whole():
    scheduler, seen, bind = below()
    scheduler.see(seen["g-0"], deleted=True)
    scheduler.bound(bind, ns(41))
    scheduler.see(on_its_node(seen["g-2"]))
    assert {order.pod[1] for order in scheduler.cycle(ns(70)).evictions} == {"g-1", "g-2"}


def test_a_bind_without_an_answer_makes_nobody_whole():
    scheduler, seen, bind = below()
    scheduler.see(seen["g-2"])
    assert scheduler.world.recorded == {}
    scheduler.refused(bind, "409", ns(41))
    scheduler.see(seen["g-0"], deleted=True)
    assert {order.pod[1] for order in scheduler.cycle(ns(70)).evictions} == {"g-1"}


def test_a_gang_that_is_whole_by_a_node_that_comes_back_has_a_new_clock():
    scheduler = Scheduler()
    pods = [{"gang": "g", "name": "g-0", "on": "n"}, {"gang": "g", "name": "g-1", "on": "away"}]
    gangs = {"g": {"minMember": 2, "stalenessGracePeriod": "60s"}}
    nodes = [{"name": "n", "gpus": 8}, {"name": "away", "gpus": 8}]
    seen = seen_by(scheduler, {"nodes": nodes, "gangs": gangs, "pods": pods})
    group, away = scheduler.world.groups["default", "g"], scheduler.world.nodes["away"]
    rows = [SubGroupStatus(name="", satisfied=False, minimum=2, pods=PodCounts(placed=1), stale_since=BEGIN)]
    scheduler.world.apply(structs.replace(group, status=PodGroupStatus(sub_groups=rows)))
    scheduler.see(away, deleted=True)
    assert scheduler.cycle(ns(40)).evictions == ()
    scheduler.see(structs.replace(away, metadata=structs.replace(away.metadata, uid="another")))
    scheduler.see(seen["g-0"], deleted=True)
    assert scheduler.cycle(ns(70)).evictions == ()


def test_a_gang_that_was_read_to_be_whole_between_two_cycles_has_a_new_clock():
    """The answer to the bind was lost, the pod was read, and another was lost before the next cycle."""
    scheduler, seen, bind = below()
    scheduler.flights.lost(bind.pod, bind.uid, "nobody knows")
    scheduler.read(bind.pod, bind.uid, on_its_node(seen["g-2"]), ns(41))
    scheduler.see(seen["g-0"], deleted=True)
    assert scheduler.cycle(ns(70)).evictions == ()


def test_a_gang_that_was_read_without_its_node_was_not_whole():
    scheduler, seen, bind = below()
    scheduler.flights.lost(bind.pod, bind.uid, "nobody knows")
    scheduler.read(bind.pod, bind.uid, seen["g-2"], ns(41))
    scheduler.see(seen["g-0"], deleted=True)
    assert {order.pod[1] for order in scheduler.cycle(ns(70)).evictions} == {"g-1"}


def test_a_gang_that_came_anew_between_two_cycles_has_a_clock_of_its_own():
    """Its predecessor's clock, known better than the status had it, is not that of another gang."""
    scheduler, seen, _ = half_repaired()
    scheduler.see(seen["a-1"], deleted=True)
    scheduler.cycle(ns(42))
    before = scheduler.world.groups["default", "g"]
    scheduler.see(before, deleted=True)
    another = structs.replace(before.metadata, uid="another")
    scheduler.see(structs.replace(before, metadata=another, status=PodGroupStatus()))
    assert scheduler.world.recorded == {}
    assert scheduler.cycle(ns(46.5)).evictions == ()
    _, outcome = scheduler.plan.of(("default", "g"))
    assert [row.stale_since_ns for row in outcome.rows] == [0, ns(46.5), 0]


def test_a_pod_that_is_put_into_another_child_ends_the_clock_of_that_child():
    """It is whole by that, and loses it before the next cycle: that loss is a new one."""
    scheduler, seen = repaired({"gang": "g", "subGroup": "b", "name": "b-1", "on": "n"})
    scheduler.see(seen["a-1"], deleted=True)
    assert scheduler.cycle(ns(3)).evictions == ()
    metadata = seen["b-1"].metadata
    moved = structs.replace(metadata, labels={**metadata.labels, SUBGROUP_LABEL: "a"})
    scheduler.see(structs.replace(seen["b-1"], metadata=moved))
    scheduler.see(structs.replace(seen["b-1"], metadata=moved), deleted=True)
    assert scheduler.cycle(ns(6)).evictions == ()


def test_children_that_left_while_nothing_could_be_told_are_not_joined_when_the_gang_starts_again():
    """The node of a gang went, and its leader starts elsewhere by the written minimum. The bind has no answer, so the
    status is that of before; a worker that waits has no clock all the same (SPEC §8, keep: all).
    """
    scheduler = Scheduler()
    children = [{"name": "a", "minMember": 1}, {"name": "b", "minMember": 1}]
    things = {
        "nodes": [{"name": "n", "gpus": 1}],
        "gangs": {"g": {"minSubGroup": 1, "subGroups": children, "stalenessGracePeriod": "5s"}},
        "keep": {"g": "."},
        "history": {"g": {"joined": ["a", "b"]}},
        "pods": [{"gang": "g", "subGroup": "a", "name": "a-0"}, {"gang": "g", "subGroup": "b", "name": "b-0"}],
    }
    seen_by(scheduler, things)
    (bind,) = scheduler.cycle(ns(1)).binds
    scheduler.sent([bind], ns(1))
    assert [scheduler.cycle(ns(at)).evictions for at in (2, 4, 8, 16)] == [()] * 4
    gang = scheduler.plan.snapshot.gangs[0]
    assert gang.joined == (False, True, False)
    assert scheduler.world.parted(gang.key) == {"a", "b"}
    group = scheduler.world.groups[gang.key]
    rows = [structs.replace(row, pods=PodCounts(placed=1)) for row in group.status.sub_groups]
    scheduler.world.apply(structs.replace(group, status=structs.replace(group.status, sub_groups=rows)))
    assert scheduler.world.parted(gang.key) == frozenset()
