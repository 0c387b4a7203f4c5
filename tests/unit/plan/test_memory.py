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


RACK = {"spec": {"nodeSelector": {"rack": "r"}}}
OTHER = {"gangs": {"other": {"minMember": 1}}, "pods": [{"gang": "other", "name": "other", "cpus": 4, "on": "m"}]}


class Surplus:
    """A gang that has its minimum on the one node that it may use; others of its queue are on another one."""

    def __init__(self, *parts):
        room = {"nodes": [{"name": "n", "gpus": 2, "cpus": 8, "rack": "r"}, {"name": "m", "gpus": 6, "cpus": 8}]}
        self.world = world_of(documents_of(merged(room, *parts)))
        self._builder, self._memory = Builder(self.world), None

    def told(self, second):
        """How many pods it needs room for, and how many are placed."""
        plan, self._memory = schedule(self._builder.build(ns(second)), None, self._memory)
        _, outcome = plan.of(("default", "wide"))
        return [one.asked for one in outcome.reasons], sum(len(one.pods) for one in plan.placements)

    def end(self, pod):
        self.world.apply(self.world.pods["default", pod].pod, deleted=True)


def wide(**more):
    first = {"gang": "wide", "name": "first", "gpus": 2, "cpus": 1, "on": "n", **RACK}
    pods = [{"gang": "wide", "name": f"more-{at}", "cpus": 1, **RACK} for at in range(3)]
    return {"gangs": {"wide": {"minMember": 1, **more}}, "pods": [first, *pods]}


def test_surplus_that_its_queue_cuts_short_is_asked_for_anew_when_the_queue_has_less():
    """Found by the simulation (seed 18638): what left the queue made no room that the surplus could use."""
    cluster = Surplus({"queues": {"default-queue": {"cpu": {"limit": 6000}}}}, wide(), OTHER)
    assert cluster.told(0) == ([1], 0)
    cluster.end("other")
    assert cluster.told(1) == ([3], 0)


def test_a_choice_that_its_queue_refused_is_made_when_the_queue_has_less():
    """Also where it was room that kept the first choice from being made, and that people were told of."""
    names = [{"name": "base", "minMember": 1}, {"name": "some", "minSubGroup": 1}]
    leaves = [{"name": name, "parent": "some", "minMember": 1} for name in ("large", "small")]
    pods = [
        {"gang": "wide", "subGroup": "base", "name": "first", "cpus": 1, "on": "n", **RACK},
        {"gang": "wide", "subGroup": "large", "name": "large", "gpus": 2, "cpus": 1, **RACK},
        {"gang": "wide", "subGroup": "small", "name": "small", "gpus": 1, "cpus": 4, **RACK},
    ]
    gang = {"gangs": {"wide": {"minSubGroup": 1, "subGroups": [*names, *leaves]}}, "pods": pods}
    cluster = Surplus({"queues": {"default-queue": {"cpu": {"limit": 6000}}}}, gang, OTHER)
    assert cluster.told(0)[1] == 0
    cluster.end("other")
    assert cluster.told(1)[1] == 1


def test_surplus_is_asked_for_anew_when_its_queue_is_due_something_else():
    """Where another queue is in line: it asks for more now, and there is as much room as there was."""
    queues = {"queues": {"a": {"quota": 2, "priority": 200}, "b": {"quota": 5}}}
    rest = {"gangs": {"rest": {"minMember": 1, "queue": "b"}}}
    runs = {"pods": [{"gang": "rest", "name": "rest", "on": "m"}, {"gang": "rest", "name": "one", **RACK}]}
    cluster = Surplus(queues, wide(queue="a"), rest, runs)
    assert cluster.told(0) == ([3], 0)
    more = world_of(documents_of({"pods": [{"gang": "rest", "name": f"rest-{at}", **RACK} for at in range(9)]}))
    for facts in more.pods.values():
        cluster.world.apply(facts.pod)
    assert cluster.told(1) == ([1], 0)
