"""A no is remembered; where room became less, its numbers are found anew after a while."""

from muster.plan.cycle import schedule
from muster.snapshot.build import Builder
from oracle.engine import world_of
from short_forms import documents_of, merged, ns

ROOM = {"nodes": [{"name": "n", "gpus": 4}]}
LARGE = {"gangs": {"large": {"minMember": 5}}, "pods": [{"gang": "large", "name": f"large-{n}"} for n in range(5)]}
SMALL = {"gangs": {"small": {"minMember": 1}}, "pods": [{"gang": "small", "name": "small", "on": "n"}]}


class Cluster:
    def __init__(self):
        self._world = world_of(documents_of(merged(ROOM, LARGE)))
        self._builder, self._memory = Builder(self._world), None

    def add(self, part):
        for one in world_of(documents_of(merged(part))).groups.values():
            self._world.apply(one)
        for facts in world_of(documents_of(merged(part))).pods.values():
            self._world.apply(facts.pod)

    def grow(self, gpus):
        """The node has so many from now on."""
        (node,) = world_of(documents_of({"nodes": [{"name": "n", "gpus": gpus}]})).nodes.values()
        self._world.apply(node)

    def queue(self, limit):
        """The queue of all of them may have so many GPUs from now on."""
        (queue,) = world_of(documents_of({"queues": {"default-queue": {"limit": limit}}})).queues.values()
        self._world.apply(queue)

    def code(self, second):
        """Why the large gang waits."""
        plan, self._memory = schedule(self._builder.build(ns(second)), None, self._memory)
        return plan.of(("default", "large"))[1].reasons[0].code

    def placed(self, second):
        """How many pods of the large gang are placed in this cycle."""
        plan, self._memory = schedule(self._builder.build(ns(second)), None, self._memory)
        return sum(len(one.pods) for one in plan.placements)

    def best(self, second):
        """How many pods of the large gang would fit, as it is told."""
        plan, self._memory = schedule(self._builder.build(ns(second)), None, self._memory)
        _, outcome = plan.of(("default", "large"))
        return outcome.reasons[0].best


def test_numbers_follow_the_room_after_a_while():
    cluster = Cluster()
    assert cluster.best(0) == 4
    cluster.add(SMALL)
    assert cluster.best(1) == 4
    assert cluster.best(11) == 3


def test_a_no_ends_when_there_is_more_room():
    """At once, and not when it happens to be given anew."""
    cluster = Cluster()
    assert cluster.placed(0) == 0
    cluster.grow(8)
    assert cluster.placed(1) == 5


def test_numbers_follow_the_room_also_when_the_clock_was_set_back():
    """Found by the simulation (seed 3844): what was said an hour ahead of now is not believed for an hour."""
    cluster = Cluster()
    assert cluster.best(3600) == 4
    cluster.add(SMALL)
    assert cluster.best(1) == 3


def test_a_no_is_given_anew_when_a_queue_may_have_something_else():
    """Found by the simulation (seed 4060): it is the limit now, and more room would not help."""
    cluster = Cluster()
    cluster.queue(limit=-1)
    assert cluster.code(0) == "InsufficientResources"
    cluster.queue(limit=3)
    assert cluster.code(1) == "OverLimit"
