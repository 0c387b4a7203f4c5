"""Faults are put into every place where one object is looked at: that object is left out, and everything else goes on.

Whatever the number of such objects is, the process stays up; what is left out is tried again, ever more seldom.
"""

import asyncio

import pytest

from muster.controllers import scheduler as scheduling
from muster.decisions import orders as ordering
from muster.plan import books as booking
from muster.snapshot import apart
from muster.snapshot import build as building
from muster.snapshot.selectors import NodeTable
from muster.snapshot.templates import Templates
from unit.controllers.playground import Server, gang, is_whole, nodes, now_s, played, running, says, told, until

POISON = "poison.io/x"


class Fault:
    """Raises for what it is asked about while it is `on`, and counts that."""

    def __init__(self):
        self.on, self.times = True, []

    def strikes(self, hit):
        if hit and self.on:
            self.times.append(now_s())
            raise ZeroDivisionError("a fault that was put in")


def is_bad(name):
    return name.startswith("bad")


def in_a_spec(spec):
    return any(POISON in container.resources.requests for container in spec.containers)


def put_into(monkeypatch, place):
    """A fault at a place; what is poison there is named bad, or asks for POISON."""
    fault = Fault()

    def before(owner, name, hit):
        real = getattr(owner, name)

        def struck(*args, **more):
            fault.strikes(hit(*args, **more))
            return real(*args, **more)

        monkeypatch.setattr(owner, name, struck)

    match place:
        case "template":
            before(Templates, "of", lambda _, spec: in_a_spec(spec))
        case "watch":
            before(scheduling, "_slim", lambda pod: is_bad(pod.metadata.name))
        case "gang":
            before(building, "gang_of", lambda key, *_: is_bad(key[1]))
        case "shape":
            before(NodeTable, "allowed", lambda _, spec, **_more: in_a_spec(spec))
        case "plan":
            before(booking.Books, "bind", lambda _, state, _ask: is_bad(state.gang.key[1]))
        case "status":
            before(ordering, "status_of", lambda plan, number, *_, **_more: is_bad(plan.snapshot.gangs[number].key[1]))
    return fault


def bad(number):
    """A gang on which muster stumbles."""
    found = gang(f"bad{number}", 2)
    found["pods"][0]["spec"] = {"containers": [{"name": "c", "resources": {"requests": {POISON: "1"}}}]}
    return found


PLACES = ["template", "watch", "gang", "shape", "plan", "status"]


@pytest.mark.parametrize("count", [1, 12])
@pytest.mark.parametrize("place", PLACES)
@played
async def test_others_are_scheduled_beside_any_number_of_poison_objects(monkeypatch, place, count):
    fault = put_into(monkeypatch, place)
    server = Server()
    server.play(nodes(4, gpus=2))
    async with running(server) as process:
        await asyncio.sleep(1)
        for number in range(count):
            server.play(bad(number))
        await until(lambda: fault.times, 20)
        server.play(gang("good", 2))
        await until(told(server, "good"), 20)
        await asyncio.sleep(900)
        server.play(gang("later", 2))
        await until(told(server, "later"), 60)
        assert process.is_up
        assert process.loop.cycles
        assert "a fault that was put in" in process.logged.getvalue()
        assert len([thing for thing in process.scheduler.world.quarantine if is_bad(thing.name)]) >= count


@pytest.mark.parametrize("place", ["gang", "plan"])
@played
async def test_what_is_left_out_is_told_and_tried_again_ever_more_seldom(monkeypatch, place):
    fault = put_into(monkeypatch, place)
    server = Server()
    server.play(nodes(4, gpus=2))
    async with running(server):
        server.play(gang("bad", 2))
        await until(says(server, "bad", "SchedulerError"), 20)
        assert "a fault that was put in" in server.status_of("bad")["conditions"][-1]["message"]
        await asyncio.sleep(1800)
        # 5, 10, 20, ... 300 seconds, each time once or twice.
        assert len(fault.times) < 40
        fault.on = False
        await until(told(server, "bad"), 310)
        assert is_whole(server, "bad")


@played
async def test_a_running_gang_that_is_left_out_keeps_its_room_and_its_place_in_the_queue(monkeypatch):
    server = Server()
    server.play(nodes(2) | {"queues": {"default-queue": {"limit": 2}}} | gang("bad", 1))
    async with running(server):
        await until(told(server, "bad"))
        fault = put_into(monkeypatch, "gang")
        server.change("podgroups", "bad", {"metadata": {"labels": {"a": "b"}}})
        await until(says(server, "bad", "SchedulerError"), 20)
        started = server.status_of("bad")["startTime"]
        server.play(gang("two", 2))
        await until(says(server, "two", "OverLimit"), 20)
        assert server.count("evict") == 0
        assert server.status_of("bad")["startTime"] == started
        fault.on = False
        await until(told(server, "bad"), 320)


@pytest.mark.parametrize("kind", ["queues", "topologies", "nodes"])
@played
async def test_an_object_of_the_cluster_on_which_muster_stumbles_is_left_out(monkeypatch, kind):
    fault = Fault()
    match kind:
        case "queues":
            real = building.Standing

            def standing(queues, *rest):
                fault.strikes(any(is_bad(name) and queue.spec.priority for name, queue in queues.items()))
                return real(queues, *rest)

            monkeypatch.setattr(building, "Standing", standing)
            objects = {"queues": {"default-queue": {}, "bad": {"priority": 7}}}
        case "topologies":
            of = building.domains_of

            def domains_of(topology, found):
                fault.strikes(is_bad(topology.metadata.name))
                return of(topology, found)

            monkeypatch.setattr(building, "domains_of", domains_of)
            objects = {"topologies": {"bad": ["rack"]}}
        case _:
            table = building.NodeTable

            def node_table(found):
                fault.strikes(any(is_bad(node.metadata.name) and node.metadata.labels for node in found))
                return table(found)

            monkeypatch.setattr(building, "NodeTable", node_table)
            objects = {"nodes": [{"name": "bad", "gpus": 9, "labels": {"a": "b"}}]}
    server = Server()
    server.play(nodes(4))
    async with running(server) as process:
        await asyncio.sleep(2)
        server.play(objects)
        server.play(gang("g", 2))
        await until(told(server, "g"), 30)
        await asyncio.sleep(600)
        server.play(gang("h", 2))
        await until(told(server, "h"), 30)
        assert process.is_up
        assert [thing.name for thing in process.scheduler.world.quarantine] == ["bad"]
        assert fault.times


@played
async def test_a_listener_that_stumbles_on_a_pod_stops_no_watch():
    class Listener:
        def pod_changed(self, before, now):
            raise ZeroDivisionError("a fault that was put in")

        def group_changed(self, key, *, there):
            pass

    server = Server()
    server.play(nodes(2))
    async with running(server) as process:
        process.scheduler.world.listener = Listener()
        server.play(gang("g", 2))
        await until(told(server, "g"), 30)
        assert process.is_up


def carrier(name):
    """A pod of another scheduler that runs, and keeps others from its node."""
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "nobody"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return {"pods": [{"name": name, "on": "n-0", "gpus": 0, "spec": {"affinity": affinity}}]}


@pytest.mark.parametrize("known_before", [True, False], ids=["known before", "new"])
@played
async def test_pods_of_no_gang_on_which_muster_stumbles_are_left_out(monkeypatch, known_before):
    """They are looked at for what they forbid others, all in one step: trials find which of them it was."""
    fault, carry = Fault(), apart.Apart._carry

    def stumbling(self, pods, *rest):
        fault.strikes(any(is_bad(name) for _, name in pods))
        return carry(self, pods, *rest)

    monkeypatch.setattr(apart.Apart, "_carry", stumbling)
    fault.on = not known_before
    server = Server()
    server.play(nodes(4))
    for name in ("bad1", "fine", "bad2"):
        server.play(carrier(name))
    async with running(server) as process:
        await asyncio.sleep(2)
        fault.on = True
        server.play(carrier("fine2"))
        server.play(gang("g", 2))
        await until(told(server, "g"), 30)
        await asyncio.sleep(600)
        server.play(gang("h", 2))
        await until(told(server, "h"), 30)
        assert process.is_up
        assert sorted(thing.name for thing in process.scheduler.world.quarantine) == ["bad1", "bad2"]
        fault.on = False
        await asyncio.sleep(320)
        assert not process.scheduler.world.quarantine
        assert len(process.scheduler.world.carriers.pods) == 4
