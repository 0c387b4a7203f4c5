"""What is left out keeps everybody else safe, and everything is as it was when it is taken back."""

import pytest

import small_cluster
from muster.api.cluster import PodDisruptionBudget
from muster.api.model import Metadata
from muster.api.podgroup import PodGroup
from muster.snapshot import world as mirror
from muster.snapshot.build import Builder
from muster.snapshot.quarantine import BUDGET, GANG, NODE, POD, Quarantined, Thing
from muster.snapshot.room import HELD, OTHERS, Room
from muster.snapshot.world import World
from oracle import engine
from unit.snapshot.test_world import held, node, pod

WHY = Quarantined("ZeroDivisionError: a fault")


def a_world():
    world = World()
    world.apply(node("n", cpu="8"))
    world.apply(PodGroup(metadata=Metadata(name="g")))
    for number in range(2):
        world.apply(pod(f"p{number}", "n", "Running", "g", cpu="1"))
    world.apply(pod("w", "", "", "g", cpu="1"))
    return world


def seen(world):
    world.look_again()
    snapshot = Builder(world).build(0)
    gang = snapshot.gangs[0]
    return gang.held, len(gang.waiting), {leaf: one.pods for leaf, one in gang.placed.items()}, snapshot.free.tolist()


@pytest.mark.parametrize("kind", [GANG, NODE])
def test_what_is_taken_back_is_as_before(kind):
    world = a_world()
    before = seen(world)
    thing = Thing(GANG, "default", "g") if kind == GANG else Thing(NODE, "", "n")
    world.leave_out(thing, WHY)
    assert seen(world) != before or kind == NODE
    assert held(world, "n") == {"cpu": 2000, "pods": 2}
    world.take_back(thing)
    assert seen(world) == before


def test_a_node_that_is_left_out_takes_nothing_and_keeps_its_pods():
    world = a_world()
    world.leave_out(Thing(NODE, "", "n"), WHY)
    snapshot = Builder(world).build(0)
    assert not any(mask.any() for mask in map(snapshot.allowed.__getitem__, snapshot.allowed))
    assert snapshot.gangs[0].placed[0].pods == ("p0", "p1")


def test_a_budget_that_is_left_out_protects_its_namespace():
    world = a_world()
    world.apply(PodDisruptionBudget(metadata=Metadata(name="b", namespace="default")))
    world.leave_out(Thing(BUDGET, "default", "b"), WHY)
    snapshot = Builder(world).build(0)
    assert all(snapshot.disruptions[guard] == 0 for guards in snapshot.gangs[0].placed[0].guards for guard in guards)
    assert all(snapshot.gangs[0].placed[0].guards)


@pytest.mark.parametrize("where", ["before", "middle"])
def test_a_pod_on_which_muster_stumbles_leaves_the_books_right(monkeypatch, where):
    """Wherever it is met, also when its room was added in part."""
    world, real, on = a_world(), Room.add, True
    strange = pod("strange", "n", "Running", "", cpu="3")

    def template(_, spec):
        raise ZeroDivisionError("a fault")

    def add(room, table, name, request, sign=1):
        real(room, table, name, request, sign)
        if on and request.get("cpu") == 3000 and table == HELD:
            # Only once: what is done about it must work.
            monkeypatch.setattr(Room, "add", real)
            raise ZeroDivisionError("a fault")

    if where == "before":
        monkeypatch.setattr(mirror.Templates, "of", template)
    else:
        monkeypatch.setattr(Room, "add", add)
    world.apply(strange)
    monkeypatch.undo()
    assert set(world.quarantine) == {Thing(POD, "default", "strange")}
    assert held(world, "n") == {"cpu": 5000, "pods": 3}
    assert held(world, "n", OTHERS) == {"cpu": 3000, "pods": 1}
    assert "defect in muster: ZeroDivisionError: a fault" in world.pods["default", "strange"].problem
    world.take_back(Thing(POD, "default", "strange"))
    assert (held(world, "n"), world.quarantine) == ({"cpu": 5000, "pods": 3}, {})
    world.apply(strange, deleted=True)
    assert held(world, "n") == {"cpu": 2000, "pods": 2}


def test_who_is_gone_is_forgotten():
    world = a_world()
    world.leave_out(Thing(GANG, "default", "g"), WHY)
    world.leave_out(Thing(NODE, "", "n"), WHY._replace(searched=True))
    world.apply(PodGroup(metadata=Metadata(name="g")), deleted=True)
    world.apply(node("n"), deleted=True)
    assert world.quarantine == {}


def test_a_pod_that_trials_left_out_stays_left_out_however_often_it_is_written():
    """Its author could otherwise make every cycle fail, once a second."""
    world, thing = World(), Thing(POD, "default", "bad")
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    document = small_cluster.pod("bad", "", affinity=affinity, nodeName="n")
    engine.apply(world, document)
    world.leave_out(thing, Quarantined("why", searched=True))
    for label in ("a", "b"):
        document["metadata"]["labels"] = {"x": label}
        engine.apply(world, document)
        assert not world.carriers.pods
        assert world.pods["default", "bad"].pod.metadata.labels == {"x": label}
        assert thing in world.quarantine
    world.take_back(thing)
    assert world.carriers.pods
    assert thing not in world.quarantine
