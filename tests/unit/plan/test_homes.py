"""New places for pods that are moved: every pod of every unit, as its gang's holds allow."""

import pytest

from muster.plan.attempt import Engine
from muster.plan.homes import rehome, together
from muster.plan.layout import BINPACK
from muster.plan.ledger import Ledger, Taking
from muster.plan.outcome import UnitKind
from muster.plan.problem import Part
from muster.plan.units import Table
from short_forms import lone, merged, number_of, pod_of, snapshot_of

RACK = {"topologyConstraint": {"topology": "dc", "requiredTopologyLevel": "rack"}}
BASE = {"topologies": {"dc": ["zone", "rack"]}}


def node(name, gpus, rack="r1"):
    return {"nodes": [{"name": name, "gpus": gpus, "zone": "z", "rack": rack}]}


def gang(name, on, count=2, minimum=None, **spec):
    return {
        "gangs": {name: {"minMember": minimum or count, **spec}},
        "pods": [{"gang": name, "count": count, "on": on}],
    }


class Moving:
    """Gangs that are to be moved, whole; their old room is not free yet."""

    def __init__(self, *parts, moved):
        self.snapshot = snapshot_of(merged(BASE, *parts))
        self.table = Table(self.snapshot)
        self.engine = Engine(self.snapshot, Ledger(self.snapshot), BINPACK)
        whole = {
            self.snapshot.gangs[int(self.table.gang[at])].key[1]: at
            for at in range(len(self.table))
            if self.table.kind[at] == UnitKind.WHOLE_GANG
        }
        self.units = [whole[name] for name in moved.split()]

    def named(self, homes):
        return {pod_of(self.snapshot, *spot): self.snapshot.nodes[node] for spot, node in homes.items()}


@pytest.mark.parametrize(
    ("parts", "moved", "homes"),
    [
        pytest.param([node("a", 2), node("b", 1), lone("x y", "a")], "x", {"x": "b"}, id="one pod"),
        pytest.param([node("a", 2), node("b", 2), lone("x y", "a")], "x y", {"x": "b", "y": "b"}, id="two gangs"),
        pytest.param([node("a", 2), node("b", 1), lone("x y", "a")], "x y", None, id="no room for both"),
        pytest.param([node("a", 2), node("b", 2), gang("v", "a")], "v", {"v-0": "b", "v-1": "b"}, id="a gang"),
        pytest.param([node("a", 2), node("b", 1), gang("v", "a")], "v", None, id="not half of a gang"),
        pytest.param(
            [node("a", 2), node("b", 2, "r2"), node("c", 1), gang("v", "a", **RACK)],
            "v",
            {"v-0": "b", "v-1": "b"},
            id="all of it to another rack",
        ),
        pytest.param(
            [node("a", 2), node("b", 1, "r2"), node("c", 1, "r3"), gang("v", "a", **RACK)],
            "v",
            None,
            id="not to two racks",
        ),
    ],
)
def test_everything_that_is_moved_has_a_place(parts, moved, homes):
    """Every pod of every unit, or nothing; the room is taken then."""
    moving = Moving(*parts, moved=moved)
    before = int(moving.engine.ledger.free.sum())
    found = rehome(moving.engine, moving.table, moving.units)
    if homes is None:
        assert found is None
        return
    assert moving.named(found) == homes
    column = moving.snapshot.resources.index("nvidia.com/gpu")
    assert int(moving.engine.ledger.free[column].sum()) == moving.snapshot.free[:, column].sum() - len(homes)
    assert int(moving.engine.ledger.free.sum()) < before


@pytest.mark.parametrize(("rack", "home"), [("r1", "near"), ("r2", None)])
def test_surplus_stays_in_the_rack_of_its_gang(rack, home):
    """What stays pins the domain of what is moved."""
    moving = Moving(node("a", 3), node("near", 1, rack), gang("v", "a", 3, 2, **RACK), moved="v")
    newest = [at for at in range(len(moving.table)) if moving.table.kind[at] == UnitKind.SURPLUS_POD][:1]
    found = rehome(moving.engine, moving.table, newest)
    assert (moving.named(found) if found else None) == ({"v-2": home} if home else None)


def test_who_has_gone_pins_nothing_and_is_not_moved():
    """Pods that went for somebody else are no reason to stay in their rack."""
    parts = [node("a", 3), node("c", 3, "r2"), gang("v", "a", 3, 2, **RACK)]
    moving = Moving(*parts, moved="v")
    newest = next(at for at in range(len(moving.table)) if moving.table.kind[at] == UnitKind.SURPLUS_POD)
    moving.table.take([newest])
    found = rehome(moving.engine, moving.table, moving.units)
    assert moving.named(found) == {"v-0": "c", "v-1": "c"}


def test_the_gang_and_those_who_make_way_are_one_question():
    """One after the other they take each other's only place; together there is one for all."""
    parts = [
        {"nodes": [{"name": "a", "gpus": 2, "labels": {"k": "1"}}, {"name": "b", "gpus": 2}]},
        lone("x", "a", spec={"nodeSelector": {"k": "1"}}),
        lone("y", "b"),
        lone("g"),
    ]
    moving = Moving(*parts, moved="x y")
    shape = moving.snapshot.gangs[number_of(moving.snapshot, "g")].waiting[0].shape
    for unit in moving.units:
        (row,) = moving.table.rows([unit]).tolist()
        moving.engine.ledger.give_back(
            Taking(int(moving.table.shape[row]), moving.table.node[[row]], moving.table.pods[[unit]])
        )
    found = together(moving.engine, moving.table, moving.units, [Part(0, shape, 2)], ())
    named = moving.named(found.homes)
    assert named["x"] == "a"
    places = [*named.values(), *(moving.snapshot.nodes[node] for node in found.takings[0].pods)]
    assert sorted(places) == ["a", "a", "b", "b"]
    more = together(moving.engine, moving.table, moving.units, [Part(0, shape, 1)], ())
    assert more == (None, {}, True), "there is no more room"


def test_gangs_that_make_way_are_held_together_each_for_itself():
    """Two gangs that keep to one rack each may go to different ones."""
    parts = [node("a", 4), node("b", 2, "r2"), node("c", 2, "r3"), gang("v", "a", **RACK), gang("w", "a", **RACK)]
    moving = Moving(*parts, moved="v w")
    found = together(moving.engine, moving.table, moving.units, [], ())
    assert found.takings == ()
    named = moving.named(found.homes)
    assert {named["v-0"], named["w-0"]} == {"b", "c"}
    assert (named["v-0"], named["w-0"]) == (named["v-1"], named["w-1"])
