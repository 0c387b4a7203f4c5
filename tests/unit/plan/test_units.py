"""What can go at once, and what may go together (SPEC §8, §11.5)."""

import numpy as np
import pytest

from muster.plan.outcome import UnitKind
from muster.plan.units import Table, stands, units_of, without
from muster.snapshot.build import build
from muster.snapshot.queues import PARTS
from oracle.engine import world_of
from short_forms import documents_of, lone, merged, ns, number_of, pod_of, snapshot_of, spot_of

NODE = {"nodes": [{"name": "n", "gpus": 99}, {"name": "m", "gpus": 99}]}
KINDS = {"L": UnitKind.LEFTOVER, "S": UnitKind.SURPLUS_POD, "C": UnitKind.SURPLUS_CHILD, "G": UnitKind.WHOLE_GANG}
FLAT = {"minMember": 2}
PAIR = {"subGroups": [{"name": "x", "minMember": 1}, {"name": "y", "minMember": 1}]}
ANY = {**PAIR, "minSubGroup": 1}
WIDE = {"minSubGroup": 1, "subGroups": [{"name": "x", "minMember": 2}, {"name": "y", "minMember": 2}]}
DEEP = {
    "minSubGroup": 1,
    "subGroups": [
        {"name": "v", "minSubGroup": 2},
        {"name": "a", "parent": "v", "minMember": 1},
        {"name": "b", "parent": "v", "minMember": 2},
        {"name": "x", "minMember": 1},
    ],
}


def placed(spec, pods, history=None):
    """The gang g with pods like `x0 x1`, the oldest first, or `0 1` when it is flat; `x0*` has succeeded."""
    found = []
    for age, pod in enumerate(reversed(pods.split())):
        leaf = {"subGroup": pod[0]} if pod[0].isalpha() else {}
        done = {"phase": "Succeeded"} if pod.endswith("*") else {}
        found.append({"gang": "g", "name": pod.rstrip("*"), "on": "n", "age": age, **leaf, **done})
    return merged(NODE, {"gangs": {"g": spec}, "pods": found, "history": {"g": history} if history else {}})


def told(snapshot, unit):
    kind = next(letter for letter, kind in KINDS.items() if kind == unit.kind)
    return kind + ":" + "+".join(pod_of(snapshot, unit.gang, leaf, at) for leaf, at in unit.pods)


@pytest.mark.parametrize(
    ("spec", "pods", "units", "semi"),
    [
        pytest.param(FLAT, "0 1", "G:0+1", "", id="a minimum goes whole"),
        pytest.param(FLAT, "0 1 2 3", "S:3 S:2 S:1 S:0 G:0+1+2+3", "S:3 S:2", id="surplus by itself, the newest first"),
        pytest.param(FLAT, "0", "G:0", "", id="half a minimum goes whole"),
        pytest.param({"minMember": 2}, "0* 1", "G:1", "", id="who succeeded can't go"),
        pytest.param(
            PAIR, "x0 y0 x1 y1", "S:y1 S:x1 S:y0 S:x0 G:x0+x1+y0+y1", "S:y1 S:x1", id="the newest wherever it is"
        ),
        pytest.param(
            PAIR, "x0 y0 y1 x1", "S:x1 S:y1 S:y0 S:x0 G:x0+x1+y0+y1", "S:x1 S:y1", id="and not by the order of leaves"
        ),
        pytest.param(ANY, "x0 y0", "C:y0 C:x0 G:x0+y0", "C:y0", id="children, the last in the spec first"),
        pytest.param(ANY, "y0", "G:y0", "", id="the child that is needed is the gang"),
        pytest.param(WIDE, "x0 x1 y0", "L:y0 G:x0+x1+y0", "L:y0", id="leftovers of a broken child"),
        pytest.param(WIDE, "x0 y0", "G:x0+y0", "", id="in a broken gang nothing is left over"),
        pytest.param(
            WIDE, "x0 x1 x2 y0", "L:y0 S:x2 S:x1 S:x0 G:x0+x1+x2+y0", "L:y0 S:x2", id="leftovers before surplus"
        ),
        pytest.param(
            DEEP,
            "a0 a1 b0 x0",
            "L:b0 L:a1 L:a0 G:a0+a1+b0+x0",
            "L:b0 L:a1 L:a0",
            id="all that is inside a broken branch is left over",
        ),
        pytest.param(
            DEEP,
            "a0 b0 b1 x0",
            "C:x0 C:a0+b0+b1 G:a0+b0+b1+x0",
            "C:x0",
            id="a branch goes whole, what it needs not at all",
        ),
    ],
)
@pytest.mark.parametrize("kind", ["preemptible", "semi-preemptible", "non-preemptible"])
def test_what_can_go_at_once(spec, pods, units, semi, kind):
    """Leftovers, surplus pods, surplus children, the gang; of a semi-preemptible one no core, of a firm one nothing."""
    snapshot = snapshot_of(placed({**spec, "preemptibility": kind}, pods))
    found = [told(snapshot, unit) for unit in units_of(0, snapshot.gangs[0])]
    if kind == "preemptible":
        assert found == units.split()
    elif kind == "non-preemptible":
        assert found == []
    else:
        assert found == semi.split()


@pytest.mark.parametrize(
    ("spec", "keep", "pods", "history", "units"),
    [
        pytest.param(ANY, ".", "x0 y0", {}, "G:x0+y0", id="joined children are no surplus"),
        pytest.param(ANY, ".", "x0 y0 y1", {}, "S:y1 S:y0 G:x0+y0+y1", id="their extra pods are"),
        pytest.param(WIDE, ".", "x0 x1 y0", {}, "L:y0 G:x0+x1+y0", id="what never joined is left over"),
        pytest.param(WIDE, ".", "x0 x1 y0", {"joined": ["y"]}, "G:x0+x1+y0", id="a joined child is not"),
        pytest.param(DEEP, "v", "a0 b0 b1 x0", {}, "C:x0 C:a0+b0+b1 G:a0+b0+b1+x0", id="a branch, whole"),
        pytest.param(DEEP, "v", "a0 b0 x0", {"joined": ["a"]}, "L:a0+b0 G:a0+b0+x0", id="also when it is left over"),
        pytest.param(DEEP, ".", "a0 b0 x0", {"joined": ["v"]}, "G:a0+b0+x0", id="a joined branch that is broken"),
        pytest.param(
            {**DEEP, "minSubGroup": 2, "subGroups": [{"name": "v", "minSubGroup": 0}, *DEEP["subGroups"][1:]]},
            "v",
            "a0 x0",
            {},
            "C:a0 G:a0+x0",
            id="a branch that needs nothing goes with what joined in it",
        ),
        pytest.param({**ANY, "minSubGroup": 0}, ".", "x0", {}, "G:x0", id="so does a gang"),
    ],
)
def test_what_has_joined_goes_only_with_its_parent(spec, keep, pods, history, units):
    """SPEC §8, keep: all. Whatever is taken, by itself or together, no joined child is taken out of its parent."""
    documents = documents_of({**placed(spec, pods, history), "keep": {"g": keep}})
    group = next(one for one in documents if one["kind"] == "PodGroup")
    # In what the grouper writes a minimum of zero is no error.
    group["metadata"]["annotations"]["kai.scheduler/top-owner-metadata"] = "{}"
    snapshot = build(world_of(documents), ns(0))
    assert [told(snapshot, unit) for unit in units_of(0, snapshot.gangs[0])] == units.split()


def test_what_was_core_stays_core():
    """Of a semi-preemptible gang the child goes that the status does not call core, whatever the spec's order."""
    semi = {**ANY, "preemptibility": "semi-preemptible"}
    for core, goes in (("x", ["C:y0"]), ("y", ["C:x0"])):
        snapshot = snapshot_of(placed(semi, "x0 y0", {"core": [core]}))
        assert [told(snapshot, unit) for unit in units_of(0, snapshot.gangs[0])] == goes


def test_an_invalid_gang_is_left_alone():
    """Nothing of it goes; of one that is only held all may."""
    invalid = placed({"minMember": 1, "minSubGroup": 3}, "0")
    held = placed({"minMember": 1, "queue": "nowhere"}, "0")
    for objects, units in ((invalid, []), (merged(held, {"queues": {"q": {}}}), ["G:0"])):
        snapshot = snapshot_of(objects)
        assert snapshot.gangs[0].held
        assert [told(snapshot, unit) for unit in units_of(0, snapshot.gangs[0])] == units
        assert [told(snapshot, Table(snapshot)[at]) for at in range(len(Table(snapshot)))] == units


@pytest.mark.parametrize(
    ("spec", "pods", "gone", "whole", "allowed"),
    [
        pytest.param(FLAT, "0 1 2", "2", "", True, id="surplus"),
        pytest.param(FLAT, "0 1 2", "0", "", True, id="any pod beyond the minimum"),
        pytest.param(FLAT, "0 1 2", "1 2", "", False, id="half of a minimum"),
        pytest.param(FLAT, "0 1", "0 1", "g", True, id="the gang, as it is meant"),
        pytest.param(FLAT, "0 1", "0 1", "", False, id="the gang, pod by pod"),
        pytest.param(FLAT, "0 1", "0", "g", False, id="half of the gang"),
        pytest.param(FLAT, "0", "0", "g", True, id="what is left of a gang"),
        pytest.param(ANY, "x0 y0", "y0", "y", True, id="a surplus child"),
        pytest.param(ANY, "x0 y0", "y0", "", False, id="a surplus child, pod by pod"),
        pytest.param(ANY, "x0 y0", "x0 y0", "x y", False, id="both children are the gang"),
        pytest.param(ANY, "x0 y0", "x0 y0", "x y g", True, id="which is meant"),
        pytest.param(ANY, "x0 y0 y1", "y1", "y", True, id="no more than is meant"),
        pytest.param(WIDE, "x0 x1 y0", "y0", "", True, id="a leftover"),
        pytest.param(WIDE, "x0 x1 y0", "x1", "", False, id="beside a leftover"),
        pytest.param(WIDE, "x0 x1 y0 y1", "y1", "y", False, id="half of a child"),
        pytest.param(DEEP, "a0 b0 x0", "a0", "", True, id="what is whole inside a broken branch is left over"),
        pytest.param(DEEP, "a0 b0 b1 x0", "a0", "", False, id="and what is in a whole one is not"),
        pytest.param(DEEP, "a0 b0 b1 x0", "a0 b0 b1", "v", True, id="a branch, whole"),
        pytest.param(DEEP, "a0 a1 b0 b1 x0", "a1", "", True, id="surplus inside a branch"),
    ],
)
def test_what_was_satisfied_stays_so_or_goes_whole(spec, pods, gone, whole, allowed):
    """Only a tree node that is meant to go may be emptied, and then it is (SPEC §11.5)."""
    snapshot = snapshot_of(placed(spec, pods))
    gang = snapshot.gangs[0]
    names = ["g" if not node.name else node.name for node in gang.tree.nodes]
    spots = {spot_of(snapshot, pod)[1:] for pod in gone.split()}
    assert stands(gang, spots, {names.index(name) for name in whole.split()}) is allowed


def test_a_gang_without_some_pods_is_as_if_they_never_were():
    """All that is said of the others stays theirs: nodes, shapes, controllers, budgets, ages."""
    objects = placed(PAIR, "x0 y0 x1 y1")
    objects["pods"][0].update(on="m", gpus=3, controlled=False, labels={"app": "web"})
    objects["budgets"] = {"b": {"selects": {"app": "web"}, "allowed": 1}}
    snapshot = snapshot_of(objects)
    gang = snapshot.gangs[0]
    gone = {spot_of(snapshot, name)[1:] for name in ("x0", "y0")}
    left = without(gang, gone)
    assert left.present == (0, 1, 1)
    for leaf, placed_pods in left.placed.items():
        at = gang.placed[leaf].pods.index(placed_pods.pods[0])
        for field, values in zip(placed_pods._fields, placed_pods, strict=True):
            assert values == (getattr(gang.placed[leaf], field)[at],), field
    assert without(gang, {spot_of(snapshot, name)[1:] for name in ("x0", "x1")}).placed.keys() == {2}
    assert gang.present == (0, 2, 2), "and the gang itself is as it was"


CROWD = merged(
    NODE,
    {"queues": {"q": {}, "r": {}}},
    lone("young old", "n", queue="q"),
    lone("other", "m", queue="r", priorityClassName="train", gpus=2),
    {"gangs": {"two": {"minMember": 2, "queue": "q"}}, "pods": [{"gang": "two", "count": 2, "on": "m"}]},
    {"gangs": {"tree": {**ANY, "queue": "q"}}},
    {"pods": [{"gang": "tree", "subGroup": leaf, "name": leaf + at, "on": "n"} for leaf in "xy" for at in "01"]},
    {"gangs": {"firm": {"minMember": 1, "preemptibility": "non-preemptible", "queue": "q"}}},
    {"pods": [{"gang": "firm", "name": "firm", "on": "n"}]},
    {"history": {"young": {"created": 0}, "old": {"created": -99}, "other": {"created": -5}}},
    {"history": {"two": {"created": -7}, "tree": {"created": -50}}},
)


def table_of(objects=CROWD):
    snapshot = snapshot_of(objects)
    return snapshot, Table(snapshot)


def named(snapshot, table):
    """Units by what they are: `tree` for a whole gang, `tree:y1` for a part of it."""
    found = {}
    for number in range(len(table)):
        unit = table[number]
        name = snapshot.gangs[unit.gang].key[1]
        part = "+".join(sorted(pod_of(snapshot, unit.gang, leaf, at) for leaf, at in unit.pods))
        found[name if unit.kind == UnitKind.WHOLE_GANG else f"{name}:{part}"] = number
    return found


def test_the_table_says_of_every_unit_what_it_is():
    """Columns agree with the units; those that are all of their gang stand first."""
    snapshot, table = table_of()
    units = named(snapshot, table)
    assert set(units) == {
        *("young", "old", "other", "two", "tree"),
        *("tree:x0", "tree:x1", "tree:y0", "tree:y1", "tree:x0+x1", "tree:y0+y1"),
    }
    whole = {name for name, number in units.items() if table.rigid[number]}
    assert whole == {"young", "old", "other", "two"}
    assert sorted(units[name] for name in whole) == list(range(4))
    assert {name for name, number in units.items() if table.alone[number]} == {"young", "old", "other"}
    for name, number in units.items():
        gang, unit = snapshot.gangs[table.gang[number]], table[number]
        assert gang.key[1] == name.split(":")[0]
        assert (table.kind[number], table.pods[number]) == (unit.kind, len(unit.pods))
        assert snapshot.queues.names[table.queue[number]] == gang.queue
        assert table.costs[number] == (0, 0, PARTS * (2 if name == "other" else len(unit.pods)))
        rows = table.rows([number])
        assert sorted(table.unit[rows]) == [number] * len(unit.pods)
        assert sorted(table.node[rows]) == sorted(gang.placed[leaf].nodes[at] for leaf, at in unit.pods)
    by_age = sorted((name for name in whole | {"tree"}), key=lambda name: table.age[units[name]])
    assert by_age == ["young", "other", "two", "tree", "old"]
    parts = sorted((name for name in units if ":" in name), key=lambda name: table.age[units[name]])
    assert [table[units[name]].kind for name in parts] == [UnitKind.SURPLUS_POD] * 4 + [UnitKind.SURPLUS_CHILD] * 2


def test_pods_that_several_units_share_count_once():
    """The rows of some units are their pods, each once."""
    snapshot, table = table_of()
    units = named(snapshot, table)
    for some, pods in (("tree tree:x0 tree:x0+x1", 4), ("tree:x0+x1 tree:x1 young", 3), ("two young other", 4)):
        assert len(table.rows([units[name] for name in some.split()])) == pods


@pytest.mark.parametrize(
    ("taken", "left", "smaller"),
    [
        pytest.param("young", "old other two tree", 1, id="a gang of one pod"),
        pytest.param("two other", "young old tree", 3, id="two gangs"),
        pytest.param("tree", "young old other two", 4, id="a gang with all its parts"),
        pytest.param("tree:y1", "young old other two tree", 1, id="a part of it"),
        pytest.param("tree:y0+y1", "young old other two tree", 2, id="a child"),
    ],
)
def test_who_has_gone_can_not_go_again(taken, left, smaller):
    """Neither as itself, nor as a part of another unit."""
    snapshot, table = table_of()
    units = named(snapshot, table)
    before = len(table.rows(range(len(table))))
    gone = {
        spot for name in taken.split() for spot in ((table[units[name]].gang, *at) for at in table[units[name]].pods)
    }
    table.take([units[name] for name in taken.split()])
    assert {name for name in units if table.left[units[name]] and ":" not in name} == set(left.split())
    for number in range(len(table)):
        unit = table[number]
        spots = [at for at in unit.pods if (unit.gang, *at) not in gone]
        if table.left[number]:
            assert table.spots(number) == spots
        assert bool(table.left[number]) is bool(spots)
        assert len(table.rows([number])) == len(spots)
    assert len(table.rows(range(len(table)))) == before - smaller


def test_a_gang_that_is_spared_can_not_go():
    snapshot, table = table_of()
    units = named(snapshot, table)
    table.spare(number_of(snapshot, "tree"))
    assert {name.split(":")[0] for name in units if not table.left[units[name]]} == {"tree"}
    assert sum(~table.left) == 7


@pytest.mark.parametrize(
    ("before", "some", "legal"),
    [
        pytest.param("", "tree:y1", True, id="a surplus pod"),
        pytest.param("", "tree:y0 tree:y1", False, id="all of a child, pod by pod"),
        pytest.param("", "tree:y0+y1 tree:x1", True, id="a child, and surplus of the other"),
        pytest.param("", "tree:y0+y1 tree:x0+x1", False, id="both children"),
        pytest.param("", "tree tree:x0", True, id="all of it"),
        pytest.param("tree:y1", "tree:y0", False, id="the minimum of a child after its surplus"),
        pytest.param("tree:y1", "tree:y0+y1", True, id="the rest of a child"),
        pytest.param("tree:y0+y1", "tree:x1", True, id="surplus after a child"),
        pytest.param("tree:y0+y1", "tree:x0+x1", False, id="the child that is needed then"),
        pytest.param("tree:y0+y1", "tree", True, id="the rest of the gang"),
    ],
)
def test_units_of_a_gang_may_go_together(before, some, legal):
    """After what has gone already, and with one another."""
    snapshot, table = table_of()
    units = named(snapshot, table)
    if before:
        table.take([units[name] for name in before.split()])
    assert table.is_legal(number_of(snapshot, "tree"), [units[name] for name in some.split()]) is legal


def test_a_flat_gang_is_a_number():
    """As many may go as it has beyond its minimum, whichever they are, also after some have gone."""
    _, table = table_of(placed(FLAT, "0 1 2 3"))
    single = [number for number in range(len(table)) if table.kind[number] == UnitKind.SURPLUS_POD]
    for count in range(1, 5):
        assert table.is_legal(0, single[:count]) is (count <= 2)
        assert table.is_legal(0, single[-count:]) is (count <= 2)
    table.take(single[:1])
    assert table.is_legal(0, single[1:2])
    assert not table.is_legal(0, single[1:3])


@pytest.mark.parametrize(
    ("change", "controlled", "returns"),
    [
        pytest.param({}, True, True, id="it comes back"),
        pytest.param({"controlled": False}, False, True, id="nobody makes it anew"),
        pytest.param({"queue": "nowhere"}, True, False, id="its queue is missing"),
        pytest.param({"minMember": 2}, True, False, id="it is below its minimum"),
    ],
)
def test_who_would_come_back(change, controlled, returns):
    """A unit can be moved when all its pods have a controller, and its gang would be placed again."""
    spec = {"minMember": 1, "queue": "q", **{key: value for key, value in change.items() if key != "controlled"}}
    pod = {"gang": "g", "name": "g0", "on": "n", "controlled": change.get("controlled", True)}
    _, table = table_of(merged(NODE, {"queues": {"q": {}}, "gangs": {"g": spec}, "pods": [pod]}))
    assert table.controlled.tolist() == [controlled]
    assert table.returns.tolist() == [returns]


def test_who_is_alike_is_interchangeable():
    """Of pods of one shape, place, priority, queue and budgets it does not matter which one goes; else it does."""
    base = {"on": "n", "queue": "q"}
    objects = merged(
        NODE,
        {"queues": {"q": {}, "r": {}}, "budgets": {"b": {"selects": {"app": "web"}, "allowed": 1}}},
        lone("a b", **base),
        lone("elsewhere", **{**base, "on": "m"}),
        lone("large", gpus=2, **base),
        lone("higher", priorityClassName="train", **base),
        lone("theirs", **{**base, "queue": "r"}),
        lone("guarded", labels={"app": "web"}, **base),
    )
    snapshot, table = table_of(objects)
    units = named(snapshot, table)
    looks = {name: table.alike(number) for name, number in units.items()}
    assert looks.pop("a") == looks["b"]
    assert len(set(looks.values())) == len(looks)


def test_the_table_does_not_depend_on_the_order_of_documents():
    objects = documents_of(CROWD)
    tables = [Table(snapshot_of({"documents": some})) for some in (objects, objects[::-1])]
    for column in ("gang", "kind", "pods", "priority", "age", "node", "shape"):
        one, other = (getattr(table, column) for table in tables)
        assert np.array_equal(one, other), column
