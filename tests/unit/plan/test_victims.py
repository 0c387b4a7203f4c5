"""The search for victims (SPEC §8): of few every choice in the order of harm, of many a good one."""

from itertools import combinations

import numpy as np
import pytest

from muster.plan.choices import ranked
from muster.plan.outcome import UnitKind
from muster.plan.units import Table
from muster.plan.victims import EXACT
from short_forms import books_of, gone, lone, merged, snapshot_of, wanted_by

HIGH, MIDDLE = {"priorityClassName": "build-preemptible"}, {"priorityClassName": "train"}
NODE = {"nodes": [{"name": "n", "gpus": 40}, {"name": "m", "gpus": 40}]}


def gang(name, minimum, count, on="n", **spec):
    return {"gangs": {name: {"minMember": minimum, **spec}}, "pods": [{"gang": name, "count": count, "on": on}]}


CROWDS = {
    "pods that are not alike": merged(*(lone(f"v{at}", "n", gpus=at + 1) for at in range(5))),
    "priorities": merged(lone("a b", "n", **MIDDLE), lone("c", "n", gpus=2), lone("d", "m", gpus=3, **MIDDLE)),
    "a gang and its surplus": merged(gang("v", 1, 3), lone("a", "m")),
    "gangs of two": merged(gang("v", 2, 2), gang("w", 2, 2, "m", **MIDDLE), lone("a", "n")),
    "ages": merged(lone("a b c", "n"), {"history": {"a": {"created": -3}, "b": {"created": -1}}}),
    "a child and surplus pods": {
        "gangs": {"v": {"minSubGroup": 1, "subGroups": [{"name": name, "minMember": 1} for name in "xy"]}},
        "pods": [{"gang": "v", "subGroup": name[0], "name": name, "on": "n"} for name in ("x0", "x1", "x2", "y0")],
    },
    "pods that are alike": lone("a b c d", "n"),
}


@pytest.mark.parametrize("crowd", CROWDS)
def test_choices_come_in_the_order_of_harm(crowd):
    """A minimum in it, the highest priority, the largest kind, pods, the oldest; each once, equals by the youngest."""
    snapshot = snapshot_of(merged(NODE, CROWDS[crowd]))
    table = Table(snapshot)
    numbers = np.argsort(table.age).tolist()
    found = ranked(numbers, table, np.ones(2 ** len(numbers), dtype=bool))

    def harm(chosen):
        units = [table[numbers[at]] for at in range(len(numbers)) if chosen >> at & 1]
        kind = max(unit.kind for unit in units)
        pods = {(unit.gang, spot) for unit in units for spot in unit.pods}
        priority = max(snapshot.gangs[unit.gang].priority for unit in units)
        return kind == UnitKind.WHOLE_GANG, priority, kind, len(pods), chosen

    assert found == sorted(found, key=harm)
    assert len(set(found)) == len(found)
    assert not any(chosen == 0 for chosen in found)
    looks = [table.alike(number) for number in numbers]
    for chosen in range(1, 2 ** len(numbers)):
        # Of equals the first ones stand for all.
        first = all(
            not (looks[a] == looks[b] and chosen >> b & 1 and not chosen >> a & 1)
            for a, b in combinations(range(len(numbers)), 2)
        )
        assert (chosen in found) is first


def test_choices_that_can_not_be_enough_are_left_out():
    snapshot = snapshot_of(merged(NODE, CROWDS["pods that are not alike"]))
    table = Table(snapshot)
    numbers = np.argsort(table.age).tolist()
    enough = np.arange(32) % 3 == 0
    assert set(ranked(numbers, table, enough)) == {chosen for chosen in range(1, 32) if chosen % 3 == 0}


def found_for(*parts, asker=None, actions=("preempt",)):
    snapshot = snapshot_of(merged(*parts, asker or lone("g", gpus=2, **HIGH)))
    books = books_of(snapshot, actions)
    found = books.evictor.find(wanted_by(books, snapshot, "g"), books.open_soon())
    if found is None:
        return [], None
    (exact,) = {one.exact for one in found.evictions}
    return gone(snapshot, found.evictions), exact


def nodes(*gpus):
    return {"nodes": [{"name": f"n{at}", "gpus": size} for at, size in enumerate(gpus)]}


# More units than every choice is looked at of, none of which is of any use alone.
OTHERS = merged(
    {"nodes": [{"name": f"o{at:02}", "gpus": 1} for at in range(EXACT)]},
    *(lone(f"o{at:02}", f"o{at:02}") for at in range(EXACT)),
)


@pytest.mark.parametrize("crowd", [False, True], ids=["few", "many"])
@pytest.mark.parametrize(
    ("parts", "victims"),
    [
        pytest.param([nodes(2, 2), lone("a b", "n0"), lone("c d", "n1", **MIDDLE)], "a b", id="the lower priority"),
        pytest.param([nodes(2, 2), lone("a b", "n0"), lone("w", "n1", gpus=2)], "w", id="fewer pods"),
        pytest.param([nodes(3, 2), lone("a b", "n0"), lone("c d", "n1")], "a", id="with what is free"),
        pytest.param([nodes(3), gang("v", 1, 3, "n0")], "v-1 v-2", id="surplus, the newest"),
        pytest.param(
            [nodes(2, 3), gang("v", 2, 2, "n0"), gang("w", 1, 3, "n1", **MIDDLE)], "w-1 w-2", id="surplus before a gang"
        ),
        pytest.param(
            [{"nodes": [{"name": "n0", "gpus": 4}]}, gang("v", 1, 3, "n0", **MIDDLE), lone("a", "n0")],
            "v-1 v-2",
            id="surplus of a higher priority before a minimum of a lower one",
        ),
        pytest.param([nodes(2), gang("v", 2, 2, "n0")], "v-0 v-1", id="a gang, whole"),
        pytest.param([nodes(2), lone("a", "n0"), lone("b", "n0", **HIGH)], "", id="not without an equal priority"),
        pytest.param(
            [nodes(2), lone("a", "n0"), lone("b", "n0", preemptibility="non-preemptible")],
            "",
            id="not without the firm",
        ),
    ],
)
def test_the_least_harm_that_is_enough_goes(parts, victims, crowd):
    """The same victims are found whether every choice is looked at or not; nobody goes in vain."""
    found, exact = found_for(*parts, *([OTHERS] if crowd else []))
    assert found == victims.split()
    if crowd and found:
        assert exact is False or all(pod.startswith(("v-", "w-")) for pod in found)
    elif found:
        assert exact is True


@pytest.mark.parametrize("count", [12, 13])
def test_up_to_twelve_units_every_choice_is_looked_at(count):
    names = " ".join(f"v{at:02}" for at in range(count))
    found, exact = found_for({"nodes": [{"name": "n", "gpus": count}]}, lone(names, "n"))
    assert len(found) == 2
    assert exact is (count <= 12)


@pytest.mark.parametrize("cheap", ["s", "rst"], ids=["one is cheaper", "all are alike"])
def test_victims_of_a_gang_that_needs_one_rack_come_from_one_rack(cheap):
    """The rack where the least harm is done, also when many could go (SPEC §5.1, §8)."""
    racks = [{"name": f"{rack}{at}", "gpus": 1, "zone": "z", "rack": rack} for rack in "rst" for at in range(5)]
    hold = {"topology": "dc", "requiredTopologyLevel": "rack"}
    objects = merged(
        {"topologies": {"dc": ["zone", "rack"]}, "nodes": racks},
        *(lone(f"v{one['name']}", one["name"], **({} if one["rack"] in cheap else MIDDLE)) for one in racks),
    )
    asker = {"gangs": {"g": {"minMember": 3, "topologyConstraint": hold, **HIGH}}, "pods": [{"gang": "g", "count": 3}]}
    found, exact = found_for(objects, asker=asker)
    assert len(found) == 3
    assert len({name[1] for name in found}) == 1
    assert found[0][1] in cheap
    assert exact is (cheap == "s"), "five units are few, fifteen are many"


def test_of_many_nobody_goes_who_could_stay():
    """Two pods need one rack, and the only rack of two nodes holds the oldest. On the way to it all the others come
    first: of those just one is needed, for a pod that can be anywhere (SPEC §8, inclusion-minimal).
    """
    names = [f"s{at:02}" for at in range(EXACT)]
    machines = [{"name": name, "gpus": 1, "zone": "z", "rack": name} for name in names]
    machines += [{"name": name, "gpus": 1, "zone": "z", "rack": "b"} for name in ("b0", "b1")]
    rack = {"topology": "dc", "requiredTopologyLevel": "rack"}
    leaves = [{"name": "p", "minMember": 2, "topologyConstraint": rack}, {"name": "q", "minMember": 1}]
    asker = {
        "gangs": {"g": {"subGroups": leaves, **HIGH}},
        "pods": [{"gang": "g", "subGroup": "p", "count": 2}, {"gang": "g", "subGroup": "q", "count": 1}],
    }
    found, _ = found_for(
        {"topologies": {"dc": ["zone", "rack"]}, "nodes": machines},
        *(lone(f"v{one['name']}", one["name"]) for one in machines),
        {"history": {f"v{one['name']}": {"created": -100 if one["rack"] == "b" else -1} for one in machines}},
        asker=asker,
    )
    assert len(found) == 3
    assert {"vb0", "vb1"} < set(found)
