"""What was seen goes in, what is to be written comes out."""

import pytest
from msgspec import structs

from muster.api.cluster import Node, Pod, PriorityClass
from muster.api.kinds import POD, Kind, kind_of, read_object
from muster.api.model import Metadata
from muster.api.podgroup import PodGroup
from muster.api.queue import Queue
from muster.controllers.scheduler import Scheduler
from muster.snapshot.world import State
from short_forms import documents_of, ns

KEY = ("default", "g")
ROOM = {"nodes": [{"name": "n", "gpus": 1}], "gangs": {"g": {"minMember": 1}}, "pods": [{"gang": "g", "name": "g"}]}


def objects(things=ROOM):
    found = []
    for document in documents_of(things):
        document["metadata"].setdefault("uid", f"uid-{document['metadata']['name']}")
        kind = kind_of(document)
        assert isinstance(kind, Kind)
        found.append(read_object(document, kind)[0])
    return found


@pytest.fixture
def scheduler():
    made = Scheduler()
    for one in objects():
        made.see(one)
    return made


def test_what_was_sent_is_not_sent_again(scheduler):
    orders = scheduler.cycle(ns(0))
    assert [order.node for order in orders.binds] == ["n"]
    scheduler.sent(orders.binds, ns(0))
    assert scheduler.cycle(ns(0)).binds == ()
    scheduler.bound(orders.binds[0])
    assert scheduler.cycle(ns(0)).binds == ()


def test_what_was_refused_is_tried_again_at_once_and_then_rests(scheduler):
    """Others go first while it rests; how long doubles."""
    for number in range(3):
        (order,) = scheduler.cycle(ns(number)).binds
        scheduler.sent([order], ns(number))
        scheduler.refused(order, "no such luck", ns(number))
    orders = scheduler.cycle(ns(3))
    assert orders.binds == ()
    (status,) = orders.statuses
    assert status.status.reason == "BindBackoff"
    assert "no such luck" in status.status.sub_groups[0].message
    assert scheduler.cycle(ns(6)).binds == ()
    (order,) = scheduler.cycle(ns(7)).binds
    scheduler.sent([order], ns(7))
    scheduler.refused(order, "still none", ns(7))
    assert scheduler.cycle(ns(16)).binds == ()
    (order,) = scheduler.cycle(ns(17)).binds
    scheduler.sent([order], ns(17))
    scheduler.bound(order)
    for number in range(3):
        before = scheduler.world.pods[KEY].pod
        scheduler.see(before, deleted=True)
        again = structs.replace(before.metadata, uid=f"again-{number}")
        scheduler.see(structs.replace(objects()[-1], metadata=again))
        (order,) = scheduler.cycle(ns(18 + number)).binds
        scheduler.sent([order], ns(18 + number))
        scheduler.refused(order, "no such luck", ns(18 + number))
        assert bool(scheduler.world.resting) == (number == 2)


@pytest.mark.parametrize("reads", [True, False], ids=["as it is", "which can't be read"])
def test_a_gang_that_came_anew_does_not_rest_for_what_its_predecessor_failed_at(scheduler, reads):
    for number in range(3):
        (order,) = scheduler.cycle(ns(number)).binds
        scheduler.sent([order], ns(number))
        scheduler.refused(order, "no such luck", ns(number))
    group = scheduler.world.groups[KEY]
    if reads:
        scheduler.see(group, deleted=True)
    else:
        scheduler.unread(PodGroup, group.metadata, "no such luck", deleted=True)
    scheduler.see(structs.replace(group, metadata=structs.replace(group.metadata, uid="another")))
    for number in range(3):
        (order,) = scheduler.cycle(ns(3 + number)).binds
        scheduler.sent([order], ns(3 + number))
        assert not scheduler.world.resting
        scheduler.refused(order, "no such luck", ns(3 + number))
    assert scheduler.world.resting


def test_what_is_read_is_passed_over_when_something_later_was_seen(scheduler):
    """An answer that was on its way for long: the bind that was lost is still in doubt."""
    (order,) = scheduler.cycle(ns(0)).binds
    scheduler.sent([order], ns(0))
    scheduler.flights.lost(order.pod, order.uid)
    pod = structs.replace(objects()[-1], metadata=structs.replace(objects()[-1].metadata, resource_version="20"))
    scheduler.see(pod)
    old = structs.replace(pod, metadata=structs.replace(pod.metadata, resource_version="10"))
    scheduler.read(KEY, order.uid, old, ns(1))
    assert [key for key, _ in scheduler.doubtful(ns(1))] == [KEY]
    scheduler.read(KEY, order.uid, pod, ns(1))
    assert scheduler.world.pods[KEY].state is State.WAITING


@pytest.mark.parametrize("struct", [Pod, PodGroup])
def test_who_goes_while_others_are_read_is_gone(scheduler, struct):
    (one,) = [found for found in objects() if isinstance(found, struct)]
    scheduler.see(one, deleted=True)
    scheduler.refresh("default", [one], "20", (), struct)
    assert KEY not in (scheduler.world.pods if struct is Pod else scheduler.world.groups)


def test_after_a_list_the_rest_is_gone(scheduler):
    for struct in (Node, Pod, PodGroup):
        scheduler.replace(struct, [])
    assert not scheduler.world.nodes
    assert not scheduler.world.pods
    assert not scheduler.world.groups


def test_who_could_not_be_read_is_not_gone(scheduler):
    group = scheduler.world.groups[KEY]
    scheduler.replace(PodGroup, [], [group.metadata])
    scheduler.unread(PodGroup, group.metadata, "spec is no mapping")
    orders = scheduler.cycle(ns(0))
    assert orders.binds == ()
    (order,) = orders.statuses
    assert order.status.phase == "Invalid"
    found = [(one.type, one.status) for one in order.status.conditions]
    assert found == [("Accepted", "False"), ("Scheduled", "False")]


def test_who_went_is_gone_although_it_could_not_be_read(scheduler):
    node = scheduler.world.nodes["n"]
    scheduler.unread(Node, node.metadata, "status is no mapping")
    assert scheduler.world.nodes
    scheduler.unread(Node, node.metadata, "status is no mapping", deleted=True)
    assert not scheduler.world.nodes
    assert scheduler.cycle(ns(0)).binds == ()


@pytest.mark.parametrize(
    ("raw", "ours"),
    [(b'{"spec": {"schedulerName": "kai-scheduler"}}', True), (b'{"spec": {"schedulerName": "x"}}', False)],
)
def test_nobody_is_told_of_a_pod_of_another_scheduler(scheduler, raw, ours):
    assert scheduler.unread(Pod, Metadata(name="p", uid="p"), "spec is wrong", raw=raw) is ours


def test_an_object_without_a_name_is_passed_over(scheduler):
    scheduler.unread(Pod, Metadata(), "not JSON")
    assert len(scheduler.world.pods) == 1


def test_a_queue_that_could_not_be_read_holds_its_gangs(scheduler):
    scheduler.unread(Queue, Metadata(name="default-queue"), "spec.resources is no mapping")
    orders = scheduler.cycle(ns(0))
    assert (orders.binds, orders.statuses[0].status.reason) == ((), "QueueInvalid")


def test_a_watch_that_lags_does_not_undo_what_was_read(scheduler):
    pod = scheduler.world.pods[KEY].pod
    newer = structs.replace(pod, metadata=structs.replace(pod.metadata, resource_version="20"))
    scheduler.refresh("default", [structs.replace(newer, status=structs.replace(pod.status, phase="Failed"))])
    scheduler.see(structs.replace(pod, metadata=structs.replace(pod.metadata, resource_version="10")))
    assert scheduler.world.pods[KEY].state is State.FAILED


def test_what_a_namespace_no_longer_has_is_gone(scheduler):
    scheduler.refresh("elsewhere", [])
    assert KEY in scheduler.world.pods
    scheduler.refresh("default", [])
    assert KEY not in scheduler.world.pods


def test_other_kinds_are_kept(scheduler):
    scheduler.see(PriorityClass(metadata=Metadata(name="high"), value=7))
    assert scheduler.world.priority_classes["high"].value == 7
    scheduler.see(PriorityClass(metadata=Metadata(name="high")), deleted=True)
    assert not scheduler.world.priority_classes


def test_our_own_binds_and_statuses_can_wait_and_everything_else_can_not(scheduler):
    """Nobody can be placed because of them; the sight of them would else be most of the cycles."""
    orders = scheduler.cycle(ns(0))
    scheduler.sent(orders.binds, ns(0))
    found = {type(one): one for one in objects()}
    pod, group = found[Pod], found[PodGroup]
    bound = structs.replace(pod, spec=structs.replace(pod.spec, node_name="n"))
    assert not scheduler.see(bound)
    assert not scheduler.see(structs.replace(bound, status=structs.replace(bound.status, phase="Running")))
    assert scheduler.see(structs.replace(bound, status=structs.replace(bound.status, phase="Succeeded")))
    assert not scheduler.see(structs.replace(group, status=structs.replace(group.status, phase="Scheduled")))
    assert scheduler.see(structs.replace(group, spec=structs.replace(group.spec, min_member=2)))
    assert scheduler.see(bound, deleted=True)
    assert not scheduler.see(pod)
    assert scheduler.see(structs.replace(pod, metadata=structs.replace(pod.metadata, uid="another")))
    assert scheduler.see(found[Node])


def test_a_gang_gets_no_more_pods_while_nobody_knows_about_one():
    """Whether its minimum is there is not known: its surplus waits, and that of others does not."""
    gangs = {"g": {"minMember": 1}, "h": {"minMember": 1}}
    made = Scheduler()
    for one in objects({"nodes": [{"name": "n", "gpus": 4}], "gangs": gangs, "pods": [{"gang": "g", "name": "g-0"}]}):
        made.see(one)
    (order,) = made.cycle(ns(0)).binds
    made.sent([order], ns(0))
    made.flights.lost(order.pod, order.uid, "no answer")
    for one in objects({"pods": [{"gang": "g", "name": "g-1"}, {"gang": "h", "name": "h-0"}]}):
        made.see(one)
    assert [order.pod[1] for order in made.cycle(ns(1)).binds] == ["h-0"]
    made.bound(order, ns(2))
    assert [order.pod[1] for order in made.cycle(ns(2)).binds] == ["g-1", "h-0"]


def test_who_is_set_aside_on_its_node_still_has_its_part_of_the_queue():
    """Found by the simulation (seed 17370): a SubGroup was taken out of a gang while its pods ran. What they held was
    charged to nobody any more, and the queue got more than its limit.
    """
    scheduler, leaves = Scheduler(), [{"name": name, "minMember": 1} for name in ("a", "b")]
    pods = [{"gang": "g", "subGroup": name, "name": name, "on": "n"} for name in ("a", "b", "c")]
    things = {
        "nodes": [{"name": "n", "gpus": 8}],
        "queues": {"q": {"limit": 3}},
        "gangs": {"g": {"subGroups": leaves, "queue": "q"}, "next": {"minMember": 1, "queue": "q"}},
        "pods": [*pods, {"gang": "next", "name": "next"}],
    }
    for one in objects(things):
        scheduler.see(one)
    assert scheduler.cycle(ns(0)).binds == ()
    for one in objects({"queues": {"q": {"limit": 4}}}):
        scheduler.see(one)
    assert [order.pod[1] for order in scheduler.cycle(ns(1)).binds] == ["next"]


def test_a_pod_that_is_resized_wakes_those_that_wait(scheduler):
    """What a running pod holds is what its status says, too; that alone is an event."""

    def shrinks(actual):
        status = {"containerStatuses": [{"name": "c", "resources": {"requests": {"nvidia.com/gpu": actual}}}]}
        spec = {"nodeName": "n", "containers": [{"name": "c", "resources": {"requests": {"nvidia.com/gpu": 0}}}]}
        document = {"metadata": {"name": "shrinks", "uid": "s"}, "spec": spec, "status": {"phase": "Running", **status}}
        return read_object(document, POD)[0]

    assert scheduler.see(shrinks(1))
    assert not scheduler.see(shrinks(1))
    assert scheduler.cycle(ns(0)).binds == ()
    assert scheduler.see(shrinks(0))
    assert [order.node for order in scheduler.cycle(ns(1)).binds] == ["n"]
    assert not scheduler.world.pods["default", "shrinks"].pod.status.container_statuses
